--- The figures of the over-parametrised linear model as curves over the number of weights, in closed form: O(1) for
--- each K (Kurle et al. 2022, equation 18 and figures 1 and 2).
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local curves = {}

local function tensor(where, role, v)
  local t = options.numbers(where, role, v)
  return type(t) == "number" and core.tensor(t) or t
end

--- gap_formula(K, prior_variance, likelihood_variance): see pn.invariance.
function curves.gap_formula(K, prior_variance, likelihood_variance)
  K = tensor("gap_formula", "K", K)
  local s = tensor("gap_formula", "prior_variance", prior_variance)
  local l = tensor("gap_formula", "likelihood_variance", likelihood_variance)
  if not core.capture.going_on() and not (s:gt(0):all():item() and l:gt(0):all():item()) then
    core.error "gap_formula: variances must be positive"
  end
  local r = s / l -- phi - 1
  return (K - 1) / 2 * (r:log1p() - r / (r + 1))
end

local known = { sizes = options.required(), num_data = 10, noise_variance = 1 / (2 * math.pi * math.exp(1)),
  function_variance = 1, target = 1, optimum = options.choice("mix", "mean_field"),
  mean = options.choice("corrected", "printed"), noise_inside = false }

--- curves{sizes =, ...}: see pn.invariance.
function curves.curves(given)
  local o = options.check("curves", given, known)
  local K = tensor("curves", "sizes", o.sizes)
  local n, noise, s0, y = o.num_data, o.noise_variance, o.function_variance, o.target
  if not (n > 0 and noise > 0 and s0 > 0) or not core.capture.going_on() and not K:ge(1):all():item() then
    core.error "curves: num_data, noise_variance and function_variance must be positive, sizes at least 1"
  end
  local prior = K * s0
  local factor, m
  if o.optimum == "mix" then
    factor, m = K * (noise / n), y
  else
    factor = K:square() * (noise / n)
    m = o.mean == "corrected" and (K * (noise / n) + s0) * (y / (s0 + noise / n)) or y
  end
  local shrink = (factor / prior + 1):reciprocal() -- sigma^2 / (sigma^2 + lambda)
  local mean, variance = shrink * m, s0 * (1 - shrink) -- of f under both q_0 and q_mix
  local bits = ((prior / factor):log1p() - shrink) / 2 -- of one weight: (a / s - 1 + ln(s / a)) / 2
  local pull = mean:square() / (2 * s0)
  local ell = ((y - mean):square() + variance) * (-n / (2 * noise)) - n / 2 * math.log(2 * math.pi * noise)
  if o.noise_inside then
    ell = ell - n / 2
  end
  local kl_q0, kl_q_mix = K * bits + pull, bits + pull
  return { sizes = K, gap = (K - 1) * bits, kl_q0 = kl_q0, kl_q_mix = kl_q_mix, expected_log_likelihood = ell,
    elbo_q0 = ell - kl_q0, elbo_q_mix = ell - kl_q_mix, predictive_mean = mean, predictive_variance = variance + noise,
    function_variance = variance, data_bound = n * (s0 + y * y) / (2 * noise) }
end

return curves
