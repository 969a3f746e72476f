--- Residual state-space models at the settings of flights (C.3 of the document): what tensors take in a step of
--- training against the steps of a series, recorded node by node and in a plan that is replayed; and what a filter of
--- 1000 particles over the beginnings of 64 series takes.
local pn = require "penumbra"
local core = require "penumbra.core"
local prepared_batch = require "penumbra.models.prepared_batch"
local window_training = require "penumbra.models.window_training"

local function new_model()
  pn.seed(1)
  return pn.models.vssm { size = 3, mean = "first", noise = { 0.15, 0.15, 0.075 }, latent = 20, conditioning = "full",
    flows = 12, flow_hidden = { 16, 8 }, transition = "highway", units = 128, dtype = "float32",
    hidden = { transition = { 64, 16 }, initial = { 32, 128 }, disturbance = { 128, 128 }, emission = {} },
    activation = { transition = "softplus", initial = { "tanh", "relu" }, disturbance = { "tanh", "relu" } } }
end

local function series(steps, count) return (pn.randn({ steps, count, 3 }, { dtype = "float32" }) * 0.1):cumsum(1) end

-- Bytes that a step of training takes beside what lasts: recorded node by node, and the plan of its replay.
local function bytes_of(steps)
  local model = new_model()
  local b = prepared_batch.read("series", model, { y = series(steps, 32) })
  local optimiser = pn.optim.adam(model:parameters())
  local function loss() return window_training.loss(model, b, {}) end
  for _ = 1, 2 do optimiser:step(loss()) end
  collectgarbage()
  collectgarbage()
  core.reset_peak()
  local before = core.memory()
  optimiser:step(loss())
  local _, peak = core.memory()
  local step = pn.compile(loss, { optimiser = optimiser })
  step()
  return peak - before, step:plans()[1].bytes
end

return function(bench)
  for _, steps in ipairs { 25, 100, 400 } do
    local eager, plan = bytes_of(steps)
    bench.row(("VSSM C.3, T = %d: a step recorded node by node"):format(steps), eager / 2 ^ 20, "MiB")
    bench.row(("VSSM C.3, T = %d: the plan of a replay to that"):format(steps), plan / eager, "times", 1)
  end
  local model = new_model()
  local beginnings, belief = series(8, 64), nil
  local seconds = bench.time(function() belief = model:filter { y = beginnings } end)
  bench.row("VSSM C.3: 1000 particles, 64 series, 8 steps", seconds * 1e3, "ms")
  bench.row("  a step of a particle", seconds / (1000 * 64 * 8) * 1e9, "ns")
  local ess = belief.state.effective_sample_size:to "float64"
  bench.row("  effective particles at the worst step, mean over series", ess:mean():item(), "of 1000")
end
