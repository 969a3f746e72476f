--- What the short step of a structure that stands still (penumbra.models.switching_system) saves of the Kalman
--- kernel's: a step of training of a recurrent switching system of level and 24 seasons, 20 series of 30 steps.
local pn = require "penumbra"

local function step_time(standing)
  pn.seed(1)
  local m = pn.models.rsgls_issm { seasonal = { 24 }, covariates = 4, scaling = "change", least_scale = 1e-3,
    switches = 10, base = 20, hidden = { 64 }, transition_hidden = 64, num_particles = 10, dtype = "float32",
    conditioning = "published" }
  m.standing = standing
  local batch = { y = (pn.randn { 30, 20, 1 } * 0.005):cumsum(1):exp():to "float32",
    inputs = pn.rand { 30, 20, 4 }:to "float32" }
  local best, before = math.huge, nil
  m:fit { series = batch, steps = 12, lr = 1e-4, decay = 1, seed = 1, on_step = function(s)
    local now = os.clock()
    best, before = s.iteration > 3 and math.min(best, now - before) or best, now
  end }
  return best
end

return function(bench)
  pn.threads(1)
  local kernel, short = step_time(false), step_time(true)
  bench.row("RSGLS-ISSM, 24 seasons: a step of training", short * 1e3, "ms")
  bench.row("  to that by the Kalman kernel", short / kernel, "x", 0.95)
end
