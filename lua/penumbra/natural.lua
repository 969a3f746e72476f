--- Gaussian factors by natural parameters, r(x) = exp(eta . x - x . Lambda x / 2): what is multiplied and divided
--- when evidence is combined. The precision Lambda may be negative, so a factor need not be a distribution.
---
---     local site = natural.diagonal(eta, lambda)     -- also natural.scalar and natural.full
---     local prior = natural.of(dist.normal(pn.zeros{3}, 1):independent(1))
---     a * b, a / b, a ^ t         products, quotients and powers: sums of parameters
---     (prior * site):to_distribution()    the normal with this density; an error unless the precision is positive
---     s:log_factor(x)             log r(x), not normalised: sample + batch
---     s:log_normaliser()          log of the integral of r: batch
---     s:expected_log(q)           E_q[log r(x)] for a normal (or any with mean and variance) q: batch
---     s.form s.precision s.precision_mean
local core = require "penumbra.core"

local natural = {}

local function tensor(v)
  return type(v) == "table" and core.tensor(v) or v
end

local function maker(form)
  return function(precision_mean, precision)
    return core.new_natural(form, tensor(precision_mean), tensor(precision))
  end
end

--- scalar(precision_mean, precision): factors of numbers; both [batch].
natural.scalar = maker "scalar"
--- diagonal(precision_mean, precision): factors of vectors, a precision for each number; both [batch, n].
natural.diagonal = maker "diagonal"
--- full(precision_mean, precision): factors of vectors with a precision matrix: [batch, n] and [batch, n, n].
natural.full = maker "full"

--- of(d): the factor of a normal, of a normal made :independent(1), or of a multivariate normal.
natural.of = core.new_natural_of

--- is(x): is x a Gaussian factor?
function natural.is(x)
  return type(x) == "userdata" and getmetatable(x) == "penumbra.natural"
end

local function factor(x, where, role)
  if natural.is(x) then
    return x
  elseif type(x) == "userdata" and getmetatable(x) == "penumbra.distribution" then
    return natural.of(x)
  end
  core.error(("%s: %s must be a Gaussian factor or distribution, got %s"):format(where, role, type(x)))
end

--- product(list): all factors (or normal distributions) of the list multiplied.
function natural.product(list)
  if type(list) ~= "table" or #list == 0 then
    core.error("product: factors must be a list of at least 1")
  end
  local all
  for i, x in ipairs(list) do
    local s = factor(x, "product", "factor " .. i)
    all = all and all * s or s
  end
  return all
end

--- tempered(a, b, t): the path a^(1 - t) b^t between two factors (or normal distributions); t = 0 gives a.
function natural.tempered(a, b, t)
  return factor(a, "tempered", "a") ^ (1 - t) * factor(b, "tempered", "b") ^ t
end

--- product_of_experts(experts, prior): the normal distribution with density proportional to the product of the
--- experts' over prior^(M - 1), M their number: what M beliefs say that each already counts the prior. Leave out the
--- experts whose data are missing. An error where the precision is not positive.
--- Source: Cao & Fleet 2014; Wu & Goodman 2018.
function natural.product_of_experts(experts, prior)
  local all = natural.product(experts)
  if prior and #experts > 1 then
    all = all / factor(prior, "product_of_experts", "prior") ^ (#experts - 1)
  end
  return all:to_distribution()
end

return natural
