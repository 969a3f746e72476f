--- Bounds on the log-evidence of a series that a particle filter gives: what models and proposals are trained with.
---
---     local model = {num_particles = 16, prior = ..., init = ..., transition = ..., system = ..., proposal = ...}
---     local loss = -pn.smc.fivo(pn.smc.rbpf, model, y)                        -- or pn.smc.filter and its options
---     opt:step(loss)
---
---     elbo    E[mean of log W] <= log p(y): one path each, no resampling
---     iwae    E[log mean of W]: importance weights over time, no resampling
---     fivo    E[log Z], Z the filter's estimate of p(y) with adaptive resampling (Maddison et al. 2017)
---     vsmc    the same, resampling at every step (Naesseth, Linderman, Ranganath & Blei 2018; Le et al. 2018)
---
--- On long series fivo >= iwae >= elbo. Each makes its own filter, fresh at every call: (make, model, y [, options]),
--- make the constructor, model its options. A bound is one number, in nats per series, the mean over the batch.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"

local bound = {}

local PASSED = { "num_particles", "batch_shape", "resampling", "generator" }

local bound_options = { inputs = options.any(nil), observed = options.optional "tensor",
  num_particles = options.optional "number", batch_shape = options.optional "table",
    resampling = options.optional "string",
  generator = options.any(nil) }

local resampling_options = options.merged(bound_options, { threshold = options.optional "number",
  gradient = options.optional "string", baseline = options.any(nil) })

-- The model's options with those that the bound asks for in their place.
local function made(where, make, model, o, fixed)
  options.argument(where, "make", make, "function")
  local passed = {}
  for _, name in ipairs(PASSED) do
    passed[name] = o[name]
  end
  return make(options.merged(model, passed, fixed))
end

local function run(where, filter, y, o)
  options.argument(where, "y", y, "tensor")
  local given = { inputs = o.inputs, observed = o.observed }
  if filter.moments then -- a Rao-Blackwellised filter
    given.moments = false
  end
  local result = filter:run(y, given)
  return result, result.machine or filter.machine
end

-- ---- without resampling ----

--- elbo(make, model, y [, options]): the evidence lower bound, the mean over particles of the logarithm of their
--- weights at the end: what one particle gives in expectation. Options: inputs, observed (as for the filter's run),
--- num_particles, batch_shape, generator (in place of the model's).
function bound.elbo(make, model, y, given)
  options.argument("smc.elbo", "model", model, "table")
  local o = options.check("smc.elbo", given, bound_options)
  local filter = made("smc.elbo", make, model, o, { threshold = 0 })
  local result, machine = run("smc.elbo", filter, y, o)
  local log_w = machine:log_weights()
  return (result.log_evidence + log_w:mean(1):to(result.log_evidence:dtype())):mean() + math.log(log_w:size(1))
end

--- iwae(make, model, y [, options]): the logarithm of the mean weight of N paths without resampling: importance
--- weighting over time. Options as for elbo.
function bound.iwae(make, model, y, given)
  options.argument("smc.iwae", "model", model, "table")
  local o = options.check("smc.iwae", given, bound_options)
  local result = run("smc.iwae", made("smc.iwae", make, model, o, { threshold = 0 }), y, o)
  return result.log_evidence:mean()
end

-- ---- with resampling ----

-- The sums of increments [T, B...] from each step on.
local function rewards(increments)
  local total = increments:sum(1, true)
  return total - increments:cumsum(1) + increments
end

-- reward [B...] less a baseline: the mean of the others of the batch, or what was given.
local function signal(reward, baseline, t)
  if baseline ~= nil then
    return reward - (type(baseline) == "number" and baseline or baseline:select(1, t))
  end
  local n = reward:numel()
  return n > 1 and (reward - reward:mean()) * (n / (n - 1)) or reward
end

--- score(machine, increments, baseline): sum_t log p(ancestors_t) (evidence from t on - baseline), whose gradient is
--- what resampling adds to that of the evidence: [B...], of value 0; nil where nothing was resampled. machine: one with
--- gradient = "score_function"; increments [T, B...], those that it gave.
function bound.score(machine, increments, baseline)
  local reward, sum = rewards(increments:detach():to "float64"), nil
  for t = 1, increments:size(1) do
    local log_prob = machine.scores[t]
    local term = log_prob and log_prob:sum(1):to "float64" * signal(reward:select(1, t), baseline, t)
    sum = sum and term and sum + term or sum or term
  end
  return sum and sum - sum:detach()
end

local function with_resampling(where, make, model, y, given, threshold)
  local o = options.check(where, given, resampling_options)
  options.argument(where, "model", model, "table")
  local gradient = o.gradient or model.gradient or "dropped"
  if gradient == "score_function" and (o.resampling or model.resampling) ~= "multinomial" then
    core.error(("%s: gradient 'score_function' needs resampling 'multinomial', whose choices have a density"):format(
      where))
  end
  local filter = made(where, make, model, o, { gradient = gradient, threshold = o.threshold or threshold })
  local result, machine = run(where, filter, y, o)
  local value = result.log_evidence:mean()
  if gradient == "score_function" then
    local score = bound.score(machine, result.increments, o.baseline)
    value = score and value + score:mean() or value
  end
  return value, result
end

--- fivo(make, model, y [, options]): E[log Z] of a particle filter that resamples when the weights ask for it. Gives
--- also what the filter's run gave. Options, beside those of elbo:
---
--- threshold   0.5 unless the model says: resample where the effective sample size is at most 0.5 N
--- resampling  the scheme
--- gradient    of resampling: "dropped" (biased, of low variance: what the papers train with), "score_function"
---             (unbiased for the bound where resampling does not hang on the threshold; scheme "multinomial"; each
---             choice is rewarded with the evidence from there on), "stop_gradient" (unbiased for the evidence itself,
---             Scibior & Wood 2021), "soft" (Karkus, Hsu & Lee 2018), "transport" (biased and smooth, Corenflos et al.
---             2021), and what else pn.smc has
--- baseline    of score_function: a number, or a tensor [T] or [T, B...]; without it the mean of the batch's other
---             filters
---
--- Source: Maddison et al. 2017, Filtering variational objectives.
function bound.fivo(make, model, y, given)
  return with_resampling("smc.fivo", make, model, y, given, type(model) == "table" and model.threshold or 0.5)
end

--- vsmc(make, model, y [, options]): as fivo, but resampling at every step: all weights are used up at once. Naesseth,
--- Linderman, Ranganath & Blei 2018.
function bound.vsmc(make, model, y, given)
  return with_resampling("smc.vsmc", make, model, y, given, 1)
end

return bound
