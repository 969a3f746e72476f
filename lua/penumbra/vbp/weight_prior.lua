--- Priors of single weights under a posterior N(loc, e^(2 log_scale)), a row each: the divergence that term 3 of the
--- bound sums over all weights (Haussmann 2021, (3.3)).
---
---   scale          the scale of the prior, precision^(-1/2)
---   kl(loc, log_scale, scale)        the divergence of each weight, like loc
---   log_prob(w, scale)               of points; absent: the prior has no density that a point could maximise
---   sample(shape, scale, how)        draws, how = {dtype =, generator =}; absent: it is improper
-- help: none
local core = require "penumbra.core"

local rows = {}

local LOG_PI <const> = math.log(math.pi)
local LOG_2PI <const> = core.log_2pi

-- KL = 1/2 (a (m^2 + s^2) - 1 - log(a s^2)), a = 1 / scale^2
rows.normal = {
  kl = function(loc, log_scale, scale)
    return (loc:square() + (log_scale * 2):exp()) * (0.5 / scale ^ 2) - log_scale + (math.log(scale) - 0.5)
  end,
  log_prob = function(w, scale)
    return w:square() * (-0.5 / scale ^ 2) - (math.log(scale) + LOG_2PI / 2)
  end,
  sample = function(shape, scale, how)
    return core.randn(shape, how) * scale
  end,
}

-- ---- log-uniform: p(w) proportional to 1 / |w|, in the limit of wide and flat ends ----

-- With t = |loc| / scale of the posterior and e standard normal, E log|t + e| - E log|e|, which is 0 at t = 0 and rises
-- like log t: its derivative in t is sqrt(2) D(t / sqrt 2), D Dawson's integral, so that
--   k(t) = integral over u in (0, 1) of (1 - e^(-t^2 (1 - u^2) / 2)) / (1 - u^2)
--        = integral over s > 0 of 1 - e^(-t^2 sech(s)^2 / 2),        u = tanh s,
-- whose integrand is even and analytic for |Im s| < pi / 4: steps of 0.15 leave 1e-14.
local STEP <const>, FAR <const> = 0.15, 36

local function log_uniform(loc, log_scale)
  local s = core.arange(math.floor(FAR / STEP) + 1):to(loc:dtype()) * STEP
  local sech2 = ((s * -2):exp() * 4) / ((s * -2):exp() + 1):square()
  local half = loc:square() * (log_scale * -2):exp() * 0.5
  local each = -(half:unsqueeze(-1) * -sech2):expm1()
  return (each:sum(-1) - each:select(-1, 1) * 0.5) * STEP
end

rows.log_uniform = {
  kl = function(loc, log_scale)
    return log_uniform(loc, log_scale)
  end,
}

-- k1 sigmoid(k2 + k3 log a) - softplus(-log a) / 2 - k1, negated, a = scale^2 / loc^2 (Molchanov, Ashukha & Vetrov
-- 2017). The smallest square keeps log a finite at loc = 0.
rows.log_uniform_approximate = {
  kl = function(loc, log_scale)
    local k1 <const>, k2 <const>, k3 <const> = 0.63576, 1.87320, 1.48695
    local log_a = log_scale * 2 - (loc:square() + 1e-30):log()
    return k1 - (log_a * k3 + k2):sigmoid() * k1 + (-log_a):softplus() * 0.5
  end,
}

-- ---- horseshoe ----

-- w ~ N(0, v), v ~ inverse_gamma(1/2, 1/a), a ~ inverse_gamma(1/2, 1/scale^2), which makes sqrt v half-Cauchy. The best
-- q(v) q(a), inverse gammas of concentration 1 and rates B and A, stands in closed form: with e = E w^2, t = 1 /
-- scale^2,
--   X = E 1/v = 1 / B,  Y = E 1/a = 1 / A,  B = Y + e / 2,  A = t + X,  so that  e X^2 / 2 + (e t / 2) X - t = 0
-- and the divergence from the joint prior, which bounds that of w from above, is
--   log A + log B + t / A + log pi - log(t) / 2 - 3 / 2 - log_scale.
rows.horseshoe = {
  kl = function(loc, log_scale, scale)
    local e, t = loc:square() + (log_scale * 2):exp(), 1 / scale ^ 2
    local b = e * (t / 2)
    local x = 2 * t / (b + (b:square() + e * (2 * t)):sqrt())
    local a = x + t
    return a:log() - x:log() + t / a - log_scale + (LOG_PI - math.log(t) / 2 - 1.5)
  end,
  sample = function(shape, scale, how)
    local cauchy = core.randn(shape, how) / core.randn(shape, how)
    return core.randn(shape, how) * cauchy:abs() * scale
  end,
}


return rows
