--- The group `residual` of `make bench-peers`: training steps of residual variational state-space models (Bayer et al.
--- 2021) with full inference at the selected settings of the document's appendices: C.3 flights (25 steps of 3
--- numbers), D.2 rows of pictures (28 of 28), E.4 traffic (24 of 1), float32, gradients cut at the norm 10. Keys:
---   C.3, D.2, E.4      seconds of a step of training
---   C.3 T N            the same of C.3 with series of N steps;  memory N: bytes, peak of a process of three such
--- Each is written with the noise of a path, see agreement.lua.
local pn = require "penumbra"
local agreement = require "agreement"
local prepared_batch = require "penumbra.models.prepared_batch"
local window_training = require "penumbra.models.window_training"

local residual = {}

-- The document's settings, from a script that finds its own folder by arg[0].
local path = "examples/papers/conditioning_gap/vssm_runs.lua"
local runs = assert(loadfile(path, "t", setmetatable({ arg = { [0] = path } }, { __index = _G })))()

local KINDS = {
  ["C.3"] = { "uav", { size = 3, mean = "first", noise = { 0.15, 0.15, 0.075 } }, 25 },
  ["D.2"] = { "rows", { size = 28, output = "bernoulli" }, 28 },
  ["E.4"] = { "traffic", { size = 1, noise = 0.1 }, 24 },
}

local function make(name, steps)
  local kind = KINDS[name]
  local setting, more = runs.settings[kind[1]].full, { dtype = "float32" }
  for key, value in pairs(kind[2]) do more[key] = value end
  pn.seed(1)
  local model = runs.model(setting, "full", more)
  local y = pn.randn({ steps or kind[3], setting.batch, more.size }, { dtype = "float32" })
  if name == "D.2" then y = y:gt(0):to "float32" else y = (y * 0.1):cumsum(1) end
  return model, { y = y }
end

local function write(key, model, batch)
  local b = prepared_batch.read("residual", model, batch)
  local noise = pn.randn({ b.steps, b.size, model.latent }, { dtype = "float32" })
  local data = { y = b.y, noise = noise }
  data.scale = model.noise
  agreement.write("residual", key, model:named_parameters(), window_training.loss(model, b, { noise = noise }), data)
end

-- Seconds of a step of m:fit, the least of many.
local function step_time(model, batch, compile)
  local best, before, spent = math.huge, nil, 0
  model:fit { series = batch, steps = 100000, lr = 1e-4, decay = 1, compile = compile, seed = 1,
    on_step = function(s)
      local now = os.clock()
      if before and s.iteration > 3 then
        best, spent = math.min(best, now - before), spent + now - before
      end
      before = now
      return s.iteration < 7 or spent < 1
    end }
  return best
end

local function train(print_row, key, name, steps)
  local model, batch = make(name, steps)
  write(key, model, batch)
  print_row(key, "eager", step_time(model, batch, false))
  print_row(key, "replayed", step_time(model, batch, true))
end

--- memory(steps, compile): bytes of the peak of this process after three steps of training of C.3.
function residual.memory(steps, compile)
  local model, batch = make("C.3", steps)
  model:fit { series = batch, steps = 3, compile = compile, seed = 1 }
  local file = assert(io.open "/proc/self/status")
  io.write(file:read("a"):match "VmHWM:%s*(%d+)" * 1024)
  file:close()
end

local function peak_of(steps, compile)
  local command = ([[OPENBLAS_NUM_THREADS=1 %s -e 'package.path = "spec/bench/peers/?.lua;" .. package.path
    require("residual").memory(%d, %s)']]):format(os.getenv "LUA" or "lua5.4", steps, compile)
  local pipe = assert(io.popen(command))
  local bytes = tonumber(pipe:read "a")
  pipe:close()
  return bytes
end

--- measure(print_row, wanted): prints the rows whose names are wanted: flights, rows, traffic, t25, t100, t400,
--- memory.
function residual.measure(print_row, wanted)
  for _, pair in ipairs { { "flights", "C.3" }, { "rows", "D.2" }, { "traffic", "E.4" } } do
    if wanted(pair[1]) then train(print_row, pair[2], pair[2]) end
  end
  for _, steps in ipairs { 25, 100, 400 } do
    if wanted("t" .. steps) then train(print_row, "C.3 T " .. steps, "C.3", steps) end
    if wanted "memory" then
      local key = "C.3 memory " .. steps
      write(key, make("C.3", steps))
      print_row(key, "eager", peak_of(steps, false))
      print_row(key, "replayed", peak_of(steps, true))
    end
  end
end

return residual
