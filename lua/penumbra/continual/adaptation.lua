--- What time does to a belief about weights before new data come: operators on a Gaussian with a precision for each
--- weight (Kurle et al. 2020, sections 4.1 and 4.2, appendix B).
---
---     local forget = pn.continual.bayesian_forgetting{rate = 0.05, lag = 1}
---     local p = forget:apply(q, prior, elapsed)    -- q, prior: normal distributions or factors; p: a factor
---     forget:memory_weight(age)                    -- exponent of the likelihood of a datum kept in memory
---
--- `elapsed` is the time since q was made, in the unit of `lag`, the average time between batches: time stamps need not
--- be equidistant. Two applications over times s and t are one over s + t. Methods:
---   apply            the belief after `elapsed`, a factor of q's form (:to_distribution() makes it a distribution)
---   memory_weight    of bayesian_forgetting; the others have none, and say why
-- help: pn.continual, methods adaptation
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local options = require "penumbra.options"

local adaptation = {}

local methods = {}
local class = { __name = "adaptation" }

function class:__tostring()
  return ("%s{%s = %g, lag = %g}"):format(self.name, self.parameter, self.value, self.lag)
end

-- Elapsed time, or an age, in average lags.
local function lags(self, where, role, t)
  local tensor = role == "age" and core.is_tensor(t)
  if not tensor and not (type(t) == "number" and t >= 0 and t < math.huge) then
    core.error(("%s: %s must be a number from 0 on%s, got %s"):format(where, role,
      role == "age" and ", or a tensor of them" or "", type(t) == "number" and t or type(t)))
  elseif tensor and t:numel() > 0 and not (t:min():item() >= 0) then
    core.error(("%s: %s must be 0 or more everywhere, got %g"):format(where, role, t:min():item()))
  end
  return t / self.lag
end

--- apply(q, prior, elapsed): the belief after the time `elapsed` without data, a factor of the form of q.
function methods:apply(q, prior, elapsed)
  local where = self.name
  q, prior = gaussian.factor(where, "q", q), gaussian.factor(where, "prior", prior)
  if q.form ~= prior.form then
    core.error(("%s: prior must be a factor of %s, as q is, got one of %s"):format(where,
      q.form == "scalar" and "numbers" or "vectors", prior.form == "scalar" and "numbers" or "vectors"))
  end
  return self.operator(self, q, prior, lags(self, where, "elapsed", elapsed))
end

--- memory_weight(age): what a datum in memory counts after the time `age` (a number or a tensor), (1 - rate)^(age /
--- lag). A diffusion is not a power of the likelihood: what it does to a posterior with a memory is no longer a
--- Gaussian times likelihoods, so ornstein_uhlenbeck and wiener raise.
function methods:memory_weight(age)
  if self.name ~= "bayesian_forgetting" then
    core.error(("%s: memory must be empty: a diffusion of the weights turns a Gaussian times the likelihoods of a "
      .. "memory into an integral that is no such product; bayesian_forgetting keeps the form"):format(self.name))
  end
  local n = lags(self, self.name, "age", age)
  return core.is_tensor(n) and (n * math.log(1 - self.value)):exp() or (1 - self.value) ^ n
end

-- An adaptation with the option `parameter`, in [0, below), of checked options.
local function made(name, parameter, o, below, operator)
  local v = o[parameter]
  if not (v >= 0 and v < below) then
    core.error(("%s: %s must be %s, got %s"):format(name, parameter,
      below == 1 and "at least 0 and below 1" or "a number from 0 on", v))
  elseif not (o.lag > 0 and o.lag < math.huge) then
    core.error(("%s: lag must be positive, got %s"):format(name, o.lag))
  end
  return setmetatable({ name = name, parameter = parameter, value = v, lag = o.lag, operator = operator }, class)
end

local function checked(name, parameter, given)
  return options.check(name, given, { [parameter] = options.required "number", lag = 1 })
end

-- Natural parameters move to the prior's: c q + (1 - c) prior, c = (1 - rate)^lags (equation 12).
local function forgotten(self, q, prior, n)
  local c = (1 - self.value) ^ n
  return gaussian.like(q, q.precision_mean * c + prior.precision_mean * (1 - c),
    q.precision * c + prior.precision * (1 - c))
end

-- Mean and variance move to the prior's on their own: r = exp(-stiffness lags), mean r m + (1 - r) m0, variance r^2 v +
-- (1 - r^2) v0 (equation 13).
local function reverted(self, q, prior, n)
  local r = math.exp(-self.value * n)
  local mean, variance = gaussian.moments(q)
  local prior_mean, prior_variance = gaussian.moments(prior)
  return gaussian.like_moments(q, mean * r + prior_mean * (1 - r),
    variance * r ^ 2 + prior_variance * (1 - r ^ 2))
end

-- Variance v + rate^2 v0 lags, or v + variance_rate v0 lags; the mean stays (appendix B).
local function diffused(self, q, prior, n)
  local mean, variance = gaussian.moments(q)
  local share = self.parameter == "rate" and self.value ^ 2 or self.value
  return gaussian.like_moments(q, mean, variance + prior.precision:reciprocal() * (share * n))
end

-- pn.continual.bayesian_forgetting.
function adaptation.bayesian_forgetting(given)
  return made("bayesian_forgetting", "rate", checked("bayesian_forgetting", "rate", given), 1, forgotten)
end

-- pn.continual.ornstein_uhlenbeck.
function adaptation.ornstein_uhlenbeck(given)
  return made("ornstein_uhlenbeck", "stiffness", checked("ornstein_uhlenbeck", "stiffness", given), math.huge, reverted)
end

-- pn.continual.wiener.
function adaptation.wiener(given)
  local o = options.check("wiener", given, { rate = options.optional "number", variance_rate =
    options.optional "number", lag = 1 })
  if (o.rate == nil) == (o.variance_rate == nil) then
    core.error(("wiener: one of rate and variance_rate must be given, got %s"):format(o.rate and "both" or "neither"))
  end
  return made("wiener", o.rate and "rate" or "variance_rate", o, math.huge, diffused)
end

class.__index = core.namespace("an adaptation", methods)

return adaptation
