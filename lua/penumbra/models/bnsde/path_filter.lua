--- A particle filter (pn.smc) on a Bayesian neural SDE: each particle is a state with weights of its own, moved by the
--- model's own chain. Its evidence is an unbiased estimate of the likelihood of a trajectory, weights and paths
--- integrated out.
-- help: nowhere
local core = require "penumbra.core"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local hybrid_path = require "penumbra.models.bnsde.hybrid_path"
local machine = require "penumbra.smc.machine"
local order = require "penumbra.array.order"
local path_objective = require "penumbra.models.bnsde.path_objective"

local path_filter = {}

-- The parts of weights that particles have of their own, as a list.
local function own_parts(weights)
  local list = {}
  drift_weights.map(weights, function(x)
    list[#list + 1] = x
    return x
  end)
  return list
end

-- The weights with these parts in the places of those of own_parts.
local function with_parts(weights, list)
  local k = 0
  return drift_weights.map(weights, function()
    k = k + 1
    return list[k]
  end)
end

-- One Euler step of all particles.
local function step(self, g, k, h, weights, noise)
  local t = g.t[k]
  local f, r = hybrid_path.network(self, weights, k, t, h), hybrid_path.prior(self, t, h)
  return h + (r and f + r or f) * g.dt[k] + hybrid_path.scale(self, t, h) * noise * g.dt[k]:sqrt()
end

--- run(model, b, o): the particles after the last observation of the trajectories b: {log_evidence = [N], states =
--- [M, N, P], weights, log_weights = [M, N]}; o: num_particles, resampling, threshold, generator.
function path_filter.run(self, b, o)
  local m, count, g = o.num_particles, b.size, b.steps > b.first and hybrid_path.grid(b) or { steps = 0, at = { 1 } }
  local s = machine.new { num_particles = m, batch_shape = { count }, resampling = o.resampling,
    threshold = o.threshold, generator = o.generator }
  local h = path_objective.beginning(self, b, m, o.generator)
  local weights = drift_weights.draw(self.network, { weights = self.weights == "step" and "step" or "trajectory",
    draws = m, count = count, steps = g.steps, generator = o.generator, rows = path_objective.samples(self) })
  local at, next_seen = g.at, 1
  local function weigh()
    local row = b.counted + next_seen - 1
    s:weigh(path_objective.log_likelihood(self, h, b.y:select(2, row), b.observed:select(2, row)))
    next_seen = next_seen + 1
  end
  if at[1] == 1 and b.counted == b.first then weigh() end
  for k = 1, g.steps do
    local ancestors = next_seen > 1 and k == (at[next_seen - 1] or 0) and s:resample() or nil
    if ancestors then
      local moved = s:select({ h, own_parts(weights) }, ancestors)
      h, weights = moved[1], with_parts(weights, moved[2])
    end
    h = step(self, g, k, h, weights, core.randn(h:shape(), { dtype = self.dtype, generator = o.generator }))
    if at[next_seen] == k + 1 then weigh() end
  end
  return { log_evidence = s:log_evidence(), states = h, weights = weights, log_weights = s:log_weights() }
end

-- x [M, N, ...] at the particles index [S, N].
local function gathered(x, index)
  local shape, wide = x:shape(), index
  for axis = 3, #shape do wide = wide:unsqueeze(axis) end
  return x:gather(1, wide:broadcast_to { index:size(1), table.unpack(shape, 2) })
end

--- draws(found, n, generator): n particles by their weights: states [n, N, P] and their weights.
function path_filter.draws(found, n, generator)
  local log_w = found.log_weights
  local m, count = log_w:size(1), log_w:size(2)
  local below, u = log_w:softmax(1):cumsum(1), core.rand({ n, count }, { dtype = log_w:dtype(), generator = generator })
  local columns = {}
  for k = 1, count do
    columns[k] = order.searchsorted(below:select(2, k):contiguous(), u:select(2, k)):to "float64":clamp(0, m - 1)
  end
  local index = core.stack(columns, 2):to "int64"
  return gathered(found.states, index), drift_weights.map(found.weights, function(x) return gathered(x, index) end)
end

return path_filter
