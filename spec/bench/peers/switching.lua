--- The group `switching` of `make bench-peers`: recurrent switching systems at the settings of exchange rates (Kurle et
--- al. 2020, 7.7.2): 50 windows of 60 days, 10 particles, 20 base matrices, networks of 64 units. Keys:
---   NAME DTYPE         seconds of a step of training (evidence, gradient, clipping, Adam), NAME "RSGLS-ISSM", "ARSGLS"
---   NAME particles N   the same, float32, with N particles; ARSGLS states N with a state of N
---   NAME forecast      100 paths of 30 days of 8 series after 30 days, float32
---   NAME memory        bytes: peak of a process that trained three steps with T = 300, 10 windows, float64
--- Each system is written to BUILD/peers-data/switching-KEY.npz with its parameters, a batch, draws, and what the loss
--- and the norm of its gradient are with them and without resampling: the peers stop if they find other ones.
local pn = require "penumbra"
local core = require "penumbra.core"
local prepared_batch = require "penumbra.models.prepared_batch"
local window_training = require "penumbra.models.window_training"

local switching = {}
local CONTEXT, HORIZON = 30, 30

local function make(kind, o)
  local all = { covariates = 4, series = 8, embedding = 8, features = 64, scaling = "change", least_scale = 1e-3,
    switches = 10, base = 20, hidden = { 64 }, transition_hidden = 64, num_particles = o.num_particles or 10,
    conditioning = "published", dtype = o.dtype or "float32" }
  if kind == "ARSGLS" then
    all.states, all.auxiliary, all.emission, all.scaling = o.states or 16, 10, "normal", "standard"
    return pn.models.arsgls(all)
  end
  all.seasonal = { 5 }
  return pn.models.rsgls_issm(all)
end

-- Random walks and covariates in the place of rates and the day of the week.
local function batch_of(dtype, steps, size)
  local series = {}
  for k = 1, size do series[k] = (k - 1) % 8 end
  return { y = (pn.randn { steps, size, 1 } * 0.005):cumsum(1):exp():to(dtype),
    inputs = pn.rand { steps, size, 4 }:to(dtype), series = series }
end

-- f(), and what core.randn gave by its last size, in order.
local function with_draws(f)
  local randn, draws = core.randn, {}
  function core.randn(shape, ...)
    local x = randn(shape, ...)
    draws[#draws + 1] = x
    return x
  end
  local ok, result = pcall(f)
  core.randn = randn
  return assert(ok and result, result), draws
end

-- What the filter gives without resampling, with the draws that it took.
local function add_check(record, model, b)
  local loss, draws = with_draws(function() return window_training.loss(model, b, { threshold = 0 }) end)
  local norm, s, z = pn.zeros({}, { dtype = model.dtype }), {}, {}
  for _, g in ipairs(pn.grad(loss, model:parameters())) do norm = norm + g:square():sum() end
  for k, x in ipairs(draws) do
    if model.emission and k % 2 == 0 then z[#z + 1] = x else s[#s + 1] = x end
  end
  record.loss, record.norm, record.noise_s = loss:detach(), norm:sqrt(), pn.stack(s, 1)
  record.noise_z = model.emission and pn.stack(z, 1) or nil
end

local function write(folder, key, model, b, unchecked)
  local record = { y = b.y, u = b.inputs, series = b.series }
  if not unchecked then add_check(record, model, b) end
  record.c = model.issm and model.issm:emission(prepared_batch.time(b)) or nil
  for _, pair in ipairs(model:named_parameters()) do record["parameter." .. pair[1]] = pair[2]:detach() end
  assert(pn.data.save_npz(("%s/switching-%s.npz"):format(folder, key:gsub(" ", "_")), record))
end

-- Seconds of a step of m:fit, the least of many.
local function step_time(model, batch, compile)
  local best, before, spent = math.huge, nil, 0
  model:fit { series = batch, steps = 1000, lr = 1e-4, decay = 1, compile = compile, seed = 1,
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

local function train(print_row, folder, key, kind, o)
  pn.seed(1)
  local model, batch = make(kind, o), batch_of(o.dtype or "float32", CONTEXT + HORIZON, 50)
  batch.context = CONTEXT
  write(folder, key, model, prepared_batch.read("switching", model, batch))
  print_row(key, "eager", step_time(model, batch, false))
  print_row(key, "replayed", step_time(model, batch, true))
end

local function forecast(print_row, time, folder, kind)
  pn.seed(1)
  local key, model, batch = kind .. " forecast", make(kind, {}), batch_of("float32", CONTEXT, 8)
  write(folder, key, model, prepared_batch.read("switching", model, batch))
  local u = pn.rand({ HORIZON, 8, 4 }, { dtype = "float32" })
  for _, way in ipairs { "eager", "replayed" } do
    print_row(key, way, time(function()
      model:forecast(batch, HORIZON, { draws = 100, inputs = u, compile = way == "replayed" })
    end))
  end
end

-- In a process of its own, since the peak is that of a process.
local function memory(kind, compile)
  local model, batch = make(kind, { dtype = "float64" }), batch_of("float64", 300, 10)
  model:fit { series = batch, steps = 3, compile = compile, seed = 1 }
  local file = assert(io.open "/proc/self/status")
  io.write(file:read("a"):match "VmHWM:%s*(%d+)" * 1024)
  file:close()
end

local function peak_of(kind, compile)
  local command = ([[OPENBLAS_NUM_THREADS=1 %s -e 'package.path = "spec/bench/peers/?.lua;" .. package.path
    require("switching").memory("%s", %s)']]):format(os.getenv "LUA" or "lua5.4", kind, compile)
  local pipe = assert(io.popen(command))
  local bytes = tonumber(pipe:read "a")
  pipe:close()
  return bytes
end

switching.memory = memory

--- measure(print_row, time, folder, wanted): prints the rows whose names are wanted: steps, growth, forecast, memory.
function switching.measure(print_row, time, folder, wanted)
  os.execute("mkdir -p " .. folder)
  for _, kind in ipairs { "RSGLS-ISSM", "ARSGLS" } do
    for _, dtype in ipairs(wanted "steps" and { "float32", "float64" } or {}) do
      train(print_row, folder, kind .. " " .. dtype, kind, { dtype = dtype })
    end
    for _, n in ipairs(wanted "growth" and { 1, 10, 30 } or {}) do
      train(print_row, folder, ("%s particles %d"):format(kind, n), kind, { num_particles = n })
    end
    for _, n in ipairs(wanted "growth" and kind == "ARSGLS" and { 8, 16, 32 } or {}) do
      train(print_row, folder, ("%s states %d"):format(kind, n), kind, { states = n })
    end
    if wanted "forecast" then forecast(print_row, time, folder, kind) end
    if wanted "memory" then
      local model = make(kind, { dtype = "float64" }) -- (without resampling 300 steps are too many)
      write(folder, kind .. " memory", model, prepared_batch.read("switching", model, batch_of("float64", 300, 10)),
        true)
      print_row(kind .. " memory", "eager", peak_of(kind, false))
      print_row(kind .. " memory", "replayed", peak_of(kind, true))
    end
  end
end

return switching
