--- Estimators as functions of log-weights and log-densities, and what is done with weights beside: resampling, sums in
--- constant memory, warnings, baselines, annealing. They are functions of pn.infer.
-- help: pn.infer, quiet, methods infer
local core = require "penumbra.core"
local options = require "penumbra.options"

local infer = {}

for _, row in ipairs(core.estimator_rows()) do
  infer[row.name] = core.new_estimator(row.name)
end

--- Sampling importance resampling: n draws of equal weight for each datum out of the K of log_w [K, B].
---
---     local places = infer.sir(log_w, n)                 -- 0-based places among the K, int64 [n, B]
---     local z = infer.sir(log_w, n, {values = draws})    -- the draws there: [n, B, ...] of draws [K, B, ...]
---
--- {generator = g} draws from g. A datum whose weights are all 0 is an error. Rubin 1988.
function infer.sir(log_w, n, given)
  local o = options.check("sir", given or {}, { values = options.optional "tensor", generator = options.any(nil) })
  local places = core.new_sir(log_w, n, o.generator)
  local z = o.values
  if not z then return places end
  local shape = z:shape()
  if #shape < 2 or shape[1] ~= log_w:size(1) or shape[2] ~= log_w:size(2) then
    core.error(("sir: values must have shape [%d, %d, ...], got [%s]"):format(log_w:size(1), log_w:size(2),
      table.concat(shape, ", ")))
  end
  local wide = places
  for axis = 3, #shape do wide = wide:unsqueeze(axis) end
  shape[1] = n
  return z:gather(1, wide:broadcast_to(shape))
end

--- Sums of weights in constant memory, for bounds of thousands of draws:
---
---     local s = infer.stream{draws = 5000}
---     for _ = 1, 100 do s:add(log_w(50)) end        -- [50, B] each, under pn.no_grad
---     s:log_mean():mean()                            -- the importance weighted bound of 5,000 draws
---
--- s:add(log_w) takes [k, B] and gives s back; s:count() is the number of draws of each datum. Of each datum, [B]:
--- s:log_mean() log of the mean weight, s:standard_error() its standard error (delta method), s:elbo() the mean
--- log-weight, s:effective_sample_size(), and s:pareto_k(), as infer.psis would give of all draws at once, if
--- `draws` told beforehand how many there will be at most.
function infer.stream(given)
  local o = options.check("stream", given or {}, { draws = 0 })
  return core.new_stream(o.draws)
end

--- The k-hat up to which weights of `draws` draws may be trusted: min(1 - 1 / log10 draws, 0.7). Vehtari et al. 2024.
function infer.pareto_k_threshold(draws)
  options.argument("pareto_k_threshold", "draws", draws, "number")
  return math.min(1 - 1 / math.log(draws, 10), 0.7)
end

--- pareto_warning(k, draws): nil if every k-hat of the tensor k (infer.psis's second result) is within what weights of
--- so many draws allow (infer.pareto_k_threshold), else a text that says how many are not and what that means: beyond
--- 1 the estimate has no mean to converge to, beyond 0.7 it needs impractically many draws, else more draws help.
function infer.pareto_warning(k, draws)
  options.argument("pareto_warning", "k", k, "tensor")
  options.argument("pareto_warning", "draws", draws, "number")
  local limit = infer.pareto_k_threshold(draws)
  local largest = k:max():item()
  if largest <= limit then return nil end
  local why = largest >= 1 and "the weights have no mean: estimates do not converge, take another proposal"
    or largest > 0.7 and "estimates converge too slowly to be of use, take another proposal"
    or ("at least %d draws are needed"):format(math.ceil(10 ^ (1 / (1 - largest))))
  return ("Pareto k-hat is above %.2f for %d of %d data (the largest is %.2f): %s"):format(limit,
    k:gt(limit):sum():item(), k:numel(), largest, why)
end

local baseline = {}
baseline.__index = baseline

--- A baseline for infer.score_function that follows the bound: an exponentially weighted mean.
---
---     local b = infer.running_baseline{decay = 0.9}
---     local bound = infer.score_function(log_p, log_q, {baseline = b.value})
---     b:update(-opt:step(-bound))
---
--- b.value is a number, 0 at first; early updates are weighted as if the mean had begun with them (Adam's
--- correction). In a compiled step pass it as an input, pn.tensor(b.value).
function infer.running_baseline(given)
  local o = options.check("running_baseline", given or {}, { decay = 0.9 })
  if not (o.decay >= 0 and o.decay < 1) then
    core.error(("running_baseline: decay must lie in [0, 1), got %g"):format(o.decay))
  end
  return setmetatable({ value = 0, decay = o.decay, sum = 0, weight = 0 }, baseline)
end

--- Takes the bound of a step in; returns and keeps the new value.
function baseline:update(bound)
  if bound - bound ~= 0 then
    core.error(("running_baseline: bound must be finite, got %s"):format(bound))
  end
  self.sum = self.decay * self.sum + (1 - self.decay) * bound
  self.weight = self.decay * self.weight + (1 - self.decay)
  self.value = self.sum / self.weight
  return self.value
end

--- anneal(step, {steps = n}): the factor of the divergence at a step (from 0): linearly from `from` (0) to `to` (1)
--- over n steps, then constant. With cycles = m the n steps are m ramps, each over the first `ramp` (0.5) of its cycle
--- (Fu, Li, Liu, Gao, Celikyilmaz & Carin 2019). For infer.elbo{log_likelihood = ll, kl = kl,
--- beta = infer.anneal(...)}; in a compiled step pass it as an input, pn.tensor(beta).
function infer.anneal(step, given)
  local o = options.check("anneal", given,
    { steps = options.required "number", from = 0, to = 1, cycles = 1, ramp = 1 })
  if not (o.steps > 0 and o.ramp > 0 and o.ramp <= 1 and o.cycles >= 1) then
    core.error("anneal: steps must be positive, cycles at least 1, ramp in (0, 1]")
  end
  local ramp = o.cycles > 1 and given.ramp == nil and 0.5 or o.ramp
  if step >= o.steps then return o.to end
  local position = step / o.steps * o.cycles % 1 / ramp
  return o.from + (o.to - o.from) * math.min(position, 1)
end

return infer
