--- What peers are held to before they are timed: BUILD/peers-data/GROUP-KEY.npz holds the parameters of a row, its data
--- and its draws, and what the loss and its gradients are with them. agreement.py reads it and stops where a peer finds
--- another loss or other gradients.
local pn = require "penumbra"

local agreement = {}

--- write(group, key, named, loss, data): named {{name, parameter}, ...} as named_parameters gives; loss a scalar tensor
--- with a graph; data: a table from names to tensors.
function agreement.write(group, key, named, loss, data)
  local folder = (os.getenv "BUILD" or "build") .. "/peers-data"
  os.execute("mkdir -p " .. folder)
  local record, list = { loss = loss:detach() }, {}
  for k, pair in ipairs(named) do list[k] = pair[2] end
  for k, g in ipairs(pn.grad(loss, list)) do
    record["parameter." .. named[k][1]] = list[k]:detach()
    record["gradient." .. named[k][1]] = g:detach()
  end
  for name, t in pairs(data) do record[name] = t:detach() end
  assert(pn.data.save_npz(("%s/%s-%s.npz"):format(folder, group, (key:gsub("%W+", "_"))), record))
end

return agreement
