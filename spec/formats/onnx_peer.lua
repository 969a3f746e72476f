--- The side of this library in onnx_peer.py:  lua spec/formats/onnx_peer.lua FOLDER
--- Networks of every kind of layer that is written, each as NAME.onnx, and NAME.npz with inputs of several sizes and
--- what the network computes of them.
local pn = require "penumbra"
local nn = pn.nn
local folder = arg[1]

-- name -> network, shape of the input, a list of shapes that are tried
local cases = dofile(arg[0]:gsub("formats/[^/]*$", "golden/nn/onnx_cases.lua"))
local names = {}
for name, case in pairs(cases(pn)) do
  local path = ("%s/%s"):format(folder, name)
  assert(nn.save_onnx(path .. ".onnx", case.net, { shape = case.shape, dtype = case.dtype }))
  local arrays = {}
  for k, shape in ipairs(case.tried) do
    local x = case.input(shape)
    arrays["x_" .. k], arrays["y_" .. k] = x, pn.nn.mode("mean", function() return case.net(x) end)
  end
  assert(pn.data.save_npz(path .. ".npz", arrays))
  names[#names + 1] = name
end
table.sort(names)
local file = assert(io.open(folder .. "/names.txt", "w"))
file:write(table.concat(names, "\n"))
file:close()
