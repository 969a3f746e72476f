--- Likelihoods p(y | f) of outputs f of a network, a row each. A new one is a row here and a case in
--- spec/nn/likelihood_case.lua; what it leaves out is done by pn.nn.likelihood from `law` alone.
---
---   targets        what y is: "real", "binary" (0 or 1), "count", "label" (int64 from 0 on); default "real"
---   heads          names of the distribution's numbers in the order of the outputs. One that is given as a parameter
---                  of the likelihood (scale = 0.1) is fixed and is no output
---   sizes          {head = parameter}: of heads that are vectors, the parameter that says of how many numbers
---   constraint     {name = "positive" | "above_two" | "whole"}: what a head or a parameter must be; how an output is
---                  made so stands in likelihood.maps
---   parameters     {name = default}: further ones that are no heads; default false: must be given
---   noise          {name = head}: parameters that say a head in other words (precision for scale), kept as given
---   link           {head = f(output)}: an output as that number, where the constraint's map is not the custom
---   law(h, p)      the distribution of y, elementwise, from the heads h and the parameters p
---   at             the head of which the closed forms below hold, where all others are fixed:
---     value(y, f, p)               log p(y | f), y as `prepare` gives it
---     slope(y, f, p)               its derivative in f
---     curvature(y, f, p)           the second one: like f, of vectors [..., n, n]
---     expectation(y, m, v, p)      E log p(y | f) for independent normal f of mean m and variance v
---     order                        2: expectation is so to second order in f alone; absent: exact
---     bound(y, m, v, p)            a lower bound of it that is taken in its place by infer.expected_log_likelihood
---     predictive(m, v, p)          the distribution of y for such f
---     log_predictive(y, m, v, p)   its density
---     probabilities(f)             what predictions average, of zeros and ones and of labels
---     output(mean, p)              the f at which the law has this mean
---   prepare(y, p, dtype)           targets as value, slope and curvature take them
---   kernel         true: pn_gaussian_sites has it by this name
-- help: pn.nn.likelihood
local core = require "penumbra.core"
local array = require "penumbra.array"
local dist = require "penumbra.distribution"

local HALF_LOG_2PI <const> = 0.5 * core.log_2pi

local function log(x)
  return type(x) == "number" and math.log(x) or x:log()
end

local function exp(x)
  return type(x) == "number" and math.exp(x) or x:exp()
end

local rows = {}

-- ---- normal: loc and scale; the scale may be said by precision = 1 / scale^2 or by log_scale ----

local function variance(p)
  return p.log_scale and exp(p.log_scale * 2) or p.precision and 1 / p.precision or p.scale ^ 2
end

rows.normal = {
  heads = { "loc", "scale" }, constraint = { scale = "positive", precision = "positive" }, at = "loc",
  noise = { precision = "scale", log_scale = "scale" }, kernel = true,
  law = function(h, p)
    return dist.normal(h.loc, h.scale or (p.log_scale and exp(p.log_scale)) or p.precision ^ -0.5)
  end,
  value = function(y, f, p)
    if not p.scale then
      return rows.normal.expectation(y, f, 0, p)
    end
    return ((y - f) / p.scale):square() * -0.5 - (log(p.scale) + HALF_LOG_2PI)
  end,
  slope = function(y, f, p)
    return (y - f) / variance(p)
  end,
  curvature = function(_, f, p)
    return f:zeros_like() - (p.scale and p.scale ^ -2 or 1 / variance(p))
  end,
  -- log N(y; m, s^2) - v / (2 s^2)
  expectation = function(y, m, v, p)
    local square = (y - m):square() + v
    if p.log_scale then
      return square * exp(p.log_scale * -2) * -0.5 - p.log_scale - HALF_LOG_2PI
    end
    local precision = p.precision or p.scale ^ -2
    return square * (precision * -0.5) + (log(precision) * 0.5 - HALF_LOG_2PI)
  end,
  predictive = function(m, v, p)
    return dist.normal(m, (v + variance(p)):sqrt())
  end,
  log_predictive = function(y, m, v, p)
    local spread = v + variance(p)
    return ((y - m):square() / spread + spread:log() + 2 * HALF_LOG_2PI) * -0.5
  end,
  output = function(mean) return mean end,
}

rows.student_t = {
  heads = { "df", "loc", "scale" }, constraint = { df = "above_two", scale = "positive" }, at = "loc",
  law = function(h)
    return dist.student_t(h.df, h.loc, h.scale)
  end,
  -- d = (df + 1) r / (s (df + r^2)), r = (y - f) / s
  slope = function(y, f, p)
    local r = (y - f) / p.scale
    return r * (p.df + 1) / ((r:square() + p.df) * p.scale)
  end,
  curvature = function(y, f, p)
    local square = ((y - f) / p.scale):square()
    return (square - p.df) * (p.df + 1) / ((square + p.df) * p.scale):square()
  end,
  output = function(mean) return mean end,
}

-- ---- zeros and ones ----

rows.bernoulli = {
  heads = { "logits" }, at = "logits", targets = "binary", kernel = true,
  law = function(h)
    return dist.bernoulli { logits = h.logits }
  end,
  value = function(y, f)
    return -((1 - y * 2) * f):softplus()
  end,
  slope = function(y, f)
    return y - f:sigmoid()
  end,
  curvature = function(_, f)
    return -(f:sigmoid() * (-f):sigmoid())
  end,
  probabilities = function(f) return f:sigmoid() end,
  output = function(mean)
    local p = mean:clamp(1e-3, 1 - 1e-3)
    return (p / (1 - p)):log()
  end,
}

-- Phi of the margin where it is seen with normal noise of this precision: sqrt(1 + 1 / b).
local function wide(p, v)
  local b = p.precision
  if type(b) == "number" and not v then
    return (1 + 1 / b) ^ 0.5
  end
  return (1 + 1 / b + (v or 0)):sqrt()
end

local function sign(y, f)
  return y:to(f:dtype()) * 2 - 1
end

-- y = 1 with probability Phi(g), g ~ normal(f, 1 / precision): Phi(f / sqrt(1 + 1 / precision)).
rows.probit = {
  heads = { "margin" }, at = "margin", targets = "binary", parameters = { precision = math.huge },
  constraint = { precision = "positive" },
  law = function(h, p)
    return dist.bernoulli { probs = (h.margin / wide(p)):ndtr() }
  end,
  value = function(y, f, p)
    return (f * sign(y, f) / wide(p)):log_ndtr()
  end,
  -- with r = phi(t) / Phi(t) at t = +-f / w: +-r / w, and -r (r + t) / w^2
  slope = function(y, f, p)
    local s = sign(y, f)
    local t = f * s / wide(p)
    return (t:square() * -0.5 - t:log_ndtr() - HALF_LOG_2PI):exp() * s / wide(p)
  end,
  curvature = function(y, f, p)
    local t = f * sign(y, f) / wide(p)
    local r = (t:square() * -0.5 - t:log_ndtr() - HALF_LOG_2PI):exp()
    return -(r * (r + t)) / wide(p) ^ 2
  end,
  -- log of the integral of Phi(s g) e^(E log normal(g; f, 1 / b)) over g = log Phi(s m / sqrt(1 + 1 / b)) - b v / 2
  bound = function(y, m, v, p)
    return (m * (y:to(m:dtype()) * 2 - 1) / wide(p)):log_ndtr() - v * (p.precision * 0.5)
  end,
  predictive = function(m, v, p)
    return dist.bernoulli { probs = (m / wide(p, v)):ndtr() }
  end,
  log_predictive = function(y, m, v, p)
    return (m * sign(y, m) / wide(p, v)):log_ndtr()
  end,
  probabilities = function(f, p) return (f / wide(p)):ndtr() end,
}

-- ---- labels ----

rows.categorical = {
  heads = { "logits" }, sizes = { logits = "classes" }, at = "logits", targets = "label", kernel = true,
  parameters = { classes = false }, constraint = { classes = "whole" }, order = 2,
  law = function(h)
    return dist.categorical { logits = h.logits }
  end,
  prepare = function(y, p, dtype)
    return array.one_hot(y, p.classes, dtype)
  end,
  value = function(y, f)
    return (y * f):sum(-1) - f:logsumexp(-1)
  end,
  slope = function(y, f)
    return y - f:softmax(-1)
  end,
  curvature = function(_, f)
    local p = f:softmax(-1)
    return p:unsqueeze(-1) * p:unsqueeze(-2) - p:unsqueeze(-1) * core.eye(f:size(-1), { dtype = f:dtype() })
  end,
  -- y'm - logsumexp(m) - sum v (z - z^2) / 2, z = softmax(m)
  expectation = function(y, m, v)
    local z = m:softmax(-1)
    return m:log_softmax(-1):gather(-1, y:unsqueeze(-1)):squeeze(-1) - (v * (z - z:square())):sum(-1) * 0.5
  end,
  probabilities = function(f) return f:softmax(-1) end,
}

-- ---- counts ----

rows.poisson = {
  heads = { "rate" }, constraint = { rate = "positive" }, link = { rate = function(f) return f:exp() end }, at = "rate",
  targets = "count",
  law = function(h)
    return dist.poisson(h.rate)
  end,
  value = function(y, f)
    return y * f - f:exp() - (y + 1):lgamma()
  end,
  slope = function(y, f)
    return y - f:exp()
  end,
  curvature = function(_, f)
    return -f:exp()
  end,
  -- E e^f = e^(m + v / 2)
  expectation = function(y, m, v)
    return y * m - (m + v * 0.5):exp() - (y + 1):lgamma()
  end,
  output = function(mean) return mean:clamp(1e-3, math.huge):log() end,
}

-- Mean m and dispersion a, variance m + a m^2.
rows.negative_binomial = {
  heads = { "mean", "dispersion" }, constraint = { mean = "positive", dispersion = "positive" }, targets = "count",
  law = function(h)
    local a = h.dispersion
    return dist.negative_binomial { total_count = core.is_tensor(a) and a:reciprocal() or 1 / a,
      logits = log(h.mean * a) }
  end,
}

-- ---- mixtures of normals ----

rows.mixture = {
  heads = { "logits", "loc", "scale" }, constraint = { scale = "positive", components = "whole" },
  sizes = { logits = "components", loc = "components", scale = "components" }, parameters = { components = false },
  law = function(h)
    return dist.mixture(dist.categorical { logits = h.logits }, dist.normal(h.loc, h.scale))
  end,
}

return rows
