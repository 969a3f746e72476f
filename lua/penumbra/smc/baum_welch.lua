--- Expectation maximisation for hidden Markov models. The expected counts of an E-step are the gradients of the
--- log-likelihood by the logarithms of initial state, transition and emission (Fisher's identity), so that one pass and
--- its adjoint give them all.
-- help: pn.smc
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"

local baum_welch = {}

-- Sums over steps and sequences of weights [T, B..., K] times what stands at each.
local function total(x)
  local axes = {}
  for i = 1, x:ndim() - 1 do axes[i] = i end
  return x:sum(axes)
end

local function weighted_mean(weight, y)
  return total(weight * y) / total(weight)
end

-- By the name of the law: new parameters from weights [T, B..., K] and y [T, B..., 1], and the old law.
local laws = {}

laws.normal = function(weight, y, _, o)
  local loc = weighted_mean(weight, y)
  local scale = weighted_mean(weight, (y - loc):square()):sqrt()
  return { loc = loc, scale = scale:clamp(o.scale_floor, math.huge) }
end

laws.poisson = function(weight, y)
  return { rate = weighted_mean(weight, y) }
end

laws.exponential = function(weight, y)
  return { rate = total(weight) / total(weight * y) }
end

laws.bernoulli = function(weight, y)
  return { probs = weighted_mean(weight, y) }
end

laws.categorical = function(weight, y, old)
  local k, values = weight:size(-1), old.probs:size(-1)
  local one_hot = y:eq(core.arange(0, values, { dtype = y:dtype() })):to(weight:dtype()):reshape { -1, values }
  local counts = weight:reshape { -1, k }:t():matmul(one_hot)
  return { probs = counts / counts:sum({ -1 }, true) }
end

local fit_options = {
  observed = options.optional "tensor", max_steps = 100, tolerance = 1e-7, initial = true, transition = true,
  emission = true, scale_floor = 1e-6, optimiser = options.optional(), steps = 10,
}

---- E-step ----

-- Log-likelihood of all sequences, and the expected counts: first states, transitions, states [T, B, K]. Steps after a
-- sequence's last observation, whose increments are 0, are not summed: their transitions do not count.
local function expect(p)
  local leaves = {}
  for i, name in ipairs { "initial", "transition", "emission" } do leaves[i] = core.param(p[name]:detach()) end
  local _, _, increment = core.new_hmm_filter(leaves[1], leaves[2], leaves[3], false)
  if p.lengths then
    local place = core.arange(0, p.steps, { dtype = "int64" }):reshape { p.steps, 1 }
    increment = core.where(place:lt(p.lengths), increment, core.zeros({}, { dtype = increment:dtype() }))
  end
  local value = increment:sum()
  return value:item(), core.grad(value, leaves)
end

---- M-step ----

-- Counts as logarithms of probabilities along the last axis; where nothing was counted, what was there.
local function normalised(counts, old)
  local sum = counts:sum({ -1 }, true)
  return core.where(sum:gt(0), (counts / sum):log(), old)
end

-- The law of `old` that fits y best with these weights of its states, [T, B..., K]; NaN where a state has none: then
-- the old one's.
local function best_law(old, weight, y, o)
  local found = laws[old.name](weight, y, old, o)
  local arguments = {}
  for name, value in pairs(found) do
    arguments[name] = core.where(value:isfinite(), value, old[name]:detach():broadcast_to(value:shape()))
  end
  return dist[old.name](arguments)
end

-- Gradient steps on what the emission is made of.
local function climb(self, prepare, y, o, weight)
  local loss
  for _ = 1, o.steps do
    loss = -(weight * prepare(self, "fit", y, o).emission):sum()
    o.optimiser:step(loss)
  end
end

local function check(self, o)
  options.whole("fit", "steps", o.steps, 1)
  local d = self.emission
  local plain = dist.is(d) and laws[d.name] and #d.batch_shape == 1
  if o.optimiser then
    options.object("fit", "optimiser", o.optimiser, "an optimiser", "step")
  elseif o.emission and not plain then
    core.error(("fit: the emission (%s) has no closed form here: give optimiser =, or emission = false to keep it")
      :format(type(d) == "function" and "a function" or d.name))
  end
  return o.emission and not o.optimiser
end

-- The model with what this round's counts ask for.
local function maximise(self, prepare, y, o, p, counts, closed)
  local weight = counts[3]
  if p.observed then weight = weight * p.observed:reshape { p.steps, -1, 1 }:to(weight:dtype()) end
  local next_model = { emission = self.emission, num_states = self.num_states, log_initial = self.log_initial,
    log_transition = self.log_transition }
  if o.initial then
    next_model.log_initial = normalised(counts[1], p.initial:detach()):reshape(self.log_initial:shape())
  end
  if o.transition then
    next_model.log_transition = normalised(counts[2], p.transition:detach()):reshape(self.log_transition:shape())
  end
  if closed then
    local wide = y:reshape { p.steps, -1, 1 }
    local none = core.zeros({}, { dtype = y:dtype() })
    if p.observed then wide = core.where(p.observed:reshape { p.steps, -1, 1 }, wide, none) end
    next_model.emission = best_law(self.emission, weight, wide, o)
  elseif o.optimiser then
    climb(self, prepare, y, o, weight)
  end
  return setmetatable(next_model, getmetatable(self))
end

--- As m:fit tells; `prepare` brings y and options into the shapes of a pass.
function baum_welch.fit(self, y, given, prepare)
  local o = options.check("fit", given, fit_options)
  local closed = check(self, o)
  y = options.numbers("fit", "y", y, "tensor")
  local trace = {}
  for round = 1, o.max_steps + 1 do
    local p = prepare(self, "fit", y, o)
    local value, counts = expect(p)
    trace[round] = value
    if value ~= value or value == -math.huge then
      core.error(("fit: the log-likelihood of y is %s before round %d"):format(value, round))
    end
    local observations = p.steps * p.emission:size(2)
    if round > o.max_steps or round > 1 and (value - trace[round - 1]) / observations < o.tolerance then break end
    self = maximise(self, prepare, y, o, p, counts, closed)
  end
  return self, trace
end

return baum_welch
