--- Gaussian factors by natural parameters, r(x) = exp(eta . x - x . Lambda x / 2): what is multiplied and divided
--- when evidence is combined. The precision Lambda may be negative, so a factor need not be a distribution.
---
---     local site = natural.diagonal(eta, lambda)     -- also natural.scalar and natural.full
---     local prior = natural.of(dist.normal(pn.zeros{3}, 1):independent(1))
---     natural.masked(a, mask)     1 where the mask is false
---     a * b, a / b, a ^ t         products, quotients and powers: sums of parameters
---     (prior * site):to_distribution()    the normal with this density; an error unless the precision is positive
---     s:log_factor(x)             log r(x), not normalised: sample + batch
---     s:log_normaliser()          log of the integral of r: batch
---     s:expected_log(q)           E_q[log r(x)] for a normal (or any with mean and variance) q: batch
---     s.form s.precision s.precision_mean
-- help: pn.dist.natural, part
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
  if type(t) ~= "number" and not core.is_tensor(t) then
    core.error("tempered: t must be a number or a tensor, got " .. type(t))
  end
  return factor(a, "tempered", "a") ^ (1 - t) * factor(b, "tempered", "b") ^ t
end

-- One mask a factor, out of a list or of a tensor whose last axis counts them.
local function masks(mask, n)
  if core.is_tensor(mask) then
    if #mask:shape() < 1 or mask:size(-1) ~= n then
      core.error(("product_of_experts: mask must have %d as last size, one for each expert, got %s"):format(n,
        "[" .. table.concat(mask:shape(), " ") .. "]"))
    end
    local list = {}
    for i = 1, n do
      list[i] = mask:slice(-1, i, i):squeeze(-1)
    end
    return list
  elseif type(mask) ~= "table" or #mask ~= n then
    core.error(("product_of_experts: mask must be a bool tensor or a list of %d, got %s"):format(n,
      type(mask) == "table" and #mask or type(mask)))
  end
  local list = {}
  for i, m in ipairs(mask) do
    list[i] = type(m) == "boolean" and core.tensor(m) or m
  end
  return list
end

--- masked(s, mask): the factor s where the bool tensor mask (batch) is true, elsewhere the factor 1, without a gradient
--- to the numbers that stand there.
function natural.masked(s, mask)
  s = factor(s, "masked", "s")
  local function keep(t, rank)
    local m = mask
    for _ = 1, rank do
      m = m:unsqueeze(-1)
    end
    return core.where(m, t, core.zeros({}, { dtype = t:dtype() }))
  end
  local rank = s.form == "scalar" and 0 or 1
  return core.new_natural(s.form, keep(s.precision_mean, rank), keep(s.precision, s.form == "full" and 2 or rank))
end

-- Experts as a list: those of one distribution stand along its last batch axis.
local function listed(experts)
  if type(experts) == "table" then
    return experts
  end
  local s = factor(experts, "product_of_experts", "experts")
  local rank = s.form == "scalar" and 0 or 1
  local axis, matrix_axis = -1 - rank, -1 - (s.form == "full" and 2 or rank)
  local precision = s.precision -- its batch may be smaller than that of the other parameter
  local function at(t, i, k)
    if #t:shape() < -k then
      return t
    end
    i = t:size(k) == 1 and 1 or i
    return t:slice(k, i, i):squeeze(k)
  end
  if #s.precision_mean:shape() < -axis then
    core.error "product_of_experts: a single distribution must have the experts as last batch axis"
  end
  local list = {}
  for i = 1, s.precision_mean:size(axis) do
    list[i] = core.new_natural(s.form, at(s.precision_mean, i, axis), at(precision, i, matrix_axis))
  end
  return list
end

--- product_of_experts(experts [, prior [, mask]]): the normal distribution with density proportional to the product of
--- the experts' over prior^(M - 1), M their number: what M beliefs say that each already counts the prior. experts: a
--- list of normals or factors, or one distribution whose last batch axis counts them. mask: bool, [batch, M] or a list
--- of M, false where an expert is missing: it is left out, M is the number of those present, and where none is the
--- result is the prior. Without a prior none is divided out. An error where the precision is not positive; it is where
--- every expert is at least as precise as the prior.
--- Source: Cao & Fleet 2014; Wu & Goodman 2018; with prior division Kurle, Guennemann & van der Smagt 2019, App. C.
function natural.product_of_experts(experts, prior, mask)
  local list = {}
  for i, e in ipairs(listed(experts)) do
    list[i] = factor(e, "product_of_experts", "expert " .. i)
  end
  if #list == 0 then
    core.error "product_of_experts: experts must be at least 1"
  end
  local surplus = #list - 1
  if mask ~= nil then
    surplus = core.full({}, -1, { dtype = list[1].precision:dtype() })
    for i, m in ipairs(masks(mask, #list)) do
      list[i] = natural.masked(list[i], m)
      surplus = surplus + m:to(list[i].precision:dtype())
    end
  end
  local all = natural.product(list)
  if prior and surplus ~= 0 then
    all = all / factor(prior, "product_of_experts", "prior") ^ surplus
  end
  return all:to_distribution()
end

return natural
