--- What follows the trajectories of a batch: paths of a Bayesian neural SDE from their ends.
-- help: nowhere
local core = require "penumbra.core"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local hybrid_path = require "penumbra.models.bnsde.hybrid_path"
local options = require "penumbra.options"
local path_filter = require "penumbra.models.bnsde.path_filter"
local path_objective = require "penumbra.models.bnsde.path_objective"
local trajectories = require "penumbra.models.bnsde.trajectories"

local path_forecast = {}

local belief_class = { __name = "belief", __tostring = function(self)
  return ("belief of bnsde about %d trajectories, %d particles"):format(self.states:size(2), self.states:size(1))
end }

-- The last times of the trajectories, and the lengths of their last intervals (nil where there is one time only).
local function ends_of(b)
  local last = b.times:gather(2, b.last:unsqueeze(2)):squeeze(2)
  if b.steps == 1 or b.last:min():item() < 1 then
    return last
  end
  return last, last - b.times:gather(2, (b.last - 1):unsqueeze(2)):squeeze(2)
end

--- filtered(model, b, o): see m:filter.
function path_forecast.filtered(self, b, o)
  local found = path_filter.run(self, b, o)
  found.model = self
  found.last, found.interval = ends_of(b)
  return setmetatable(found, belief_class)
end

-- ---- where paths go on ----

-- The k observations up to each trajectory's end, [N, k, p].
local function last_seen(where, self, b, k)
  local index = b.last:unsqueeze(2) - k + 1 + core.arange(k, { dtype = "int64" })
  index = index:unsqueeze(3):broadcast_to { b.size, k, self.size }
  if not b.observed:gather(2, index):gt(0):all():item() then
    core.error(("%s: the last %s of each trajectory must be observed: go on from m:filter(batch)"):format(where,
      k > 1 and k .. " observations" or "observation"))
  end
  return b.y:gather(2, index)
end

-- States [S, N, P] and weights with which paths go on after a belief or a batch.
local function beginning(where, self, given, o)
  if getmetatable(given) == belief_class then
    if given.model ~= self then
      core.error(where .. ": the belief must be one of this model")
    end
    local h, weights = path_filter.draws(given, o.draws, o.generator)
    return h, weights, given.last, given.interval
  end
  local b = trajectories.read(where, self, given, true)
  if self.initial == "law" then
    local found = path_forecast.filtered(self, b, { num_particles = math.max(1000, o.draws), threshold = 0.5,
      generator = o.generator })
    return beginning(where, self, found, o)
  end
  local k = self.initial == "encoder" and self.prefix or 1
  local y = last_seen(where, self, b, k)
  local h = path_objective.beginning(self, { y = y }, o.draws, o.generator)
  return h, nil, ends_of(b)
end

-- The times to come of each trajectory, behind its last, [N, steps + 1].
local function times_of(where, self, last, interval, steps, o)
  if o.times then
    local t = options.numbers(where, "times", o.times, "tensor"):to(self.dtype)
    if t:ndim() ~= 1 or t:size(1) ~= steps then
      core.error(("%s: times must have shape [%d]"):format(where, steps))
    end
    t = core.concatenate({ last:unsqueeze(2), t:unsqueeze(1):broadcast_to { last:size(1), steps } }, 2)
    if not (t:slice(2, 2, steps + 1) - t:slice(2, 1, steps)):gt(0):all():item() then
      core.error(where .. ": times must increase, from the last of the batch on")
    end
    return t
  elseif not (o.step or interval) then
    core.error(where .. ": step, the distance of the times to come, must be given where trajectories have one time")
  elseif o.step and not (o.step > 0 and o.step < math.huge) then
    core.error(("%s: step must be positive, got %g"):format(where, o.step))
  end
  local each = o.step and core.full({ last:size(1) }, o.step, { dtype = self.dtype }) or interval
  return last:unsqueeze(2) + each:unsqueeze(2) * core.arange(steps + 1):to(self.dtype)
end

local known = { draws = 100, step = options.optional "number", times = options.optional(),
  mode = options.choice("observation", "mean", "state"), generator = options.optional "generator" }

--- paths(where, model, batch, steps, given): see m:forecast.
function path_forecast.paths(where, self, given_batch, steps, given)
  local o = options.check(where, given, known)
  steps = options.whole(where, "steps", steps, 1)
  local h, weights, last, interval = beginning(where, self, given_batch, o)
  local times = times_of(where, self, last, interval, steps, o)
  local width = (times:slice(2, 2, steps + 1) - times:slice(2, 1, steps)):t()
  local b = { times = times, first = 1, counted = 2, steps = steps + 1,
    parts = trajectories.parts(where, width, self.step) }
  local g = hybrid_path.grid(b)
  if not weights or self.weights == "step" then
    weights = drift_weights.draw(self.network, { weights = self.weights, draws = o.draws, count = h:size(2),
      steps = g.steps, generator = o.generator, rows = path_objective.samples(self) })
  end
  local noise = core.randn({ g.steps, o.draws, h:size(2), self.latent }, { dtype = self.dtype,
    generator = o.generator })
  local states, seen = hybrid_path.run(self, h, g, weights, noise), {}
  for k, place in ipairs(g.at) do seen[k] = states[place] end
  states = core.stack(seen, 2)
  if o.mode == "state" then
    return states
  end
  local y = path_objective.emission(self, states)
  return o.mode == "mean" and y
    or y + self.noise * core.randn(y:shape(), { dtype = self.dtype, generator = o.generator })
end

return path_forecast
