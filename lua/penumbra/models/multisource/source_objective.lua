--- Bounds on log p(x) by beliefs of several sources, M of them there, K draws each (Kurle, Guennemann & van der Smagt
--- 2019):
---
---   ind     sum_m pi_m E_{z_1..K ~ q_m} log (1/K) sum_k p(x, z_k) / q_m(z_k)            equation 1
---   moe     the same with the mixture sum_m' pi_m' q_m' below: components are gone through, none is drawn; for K > 1 a
---           bound that does not become tight
---   poe     E_{z_1..K ~ q} log (1/K) sum_k p(x, z_k) / q(z_k), q the product of beliefs        equation 4
---   hybrid  half of ind, half of poe; or weights of one's own, {ind =, moe =, poe =}, that sum to 1
---
--- pi_m = 1 / M for the sources of a datum that are there; p(x, z) has the targets that are there. A datum without any
--- source has the prior for its belief.
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local infer = require "penumbra.infer"
local options = require "penumbra.options"

local source_objective = {}

local natural = dist.natural

local NAMES <const> = { "ind", "moe", "poe" }
local HYBRID <const> = { ind = 0.5, poe = 0.5 }

--- weights_of(where, objective): {ind =, moe =, poe =} of a name or of weights.
function source_objective.weights_of(where, objective)
  if type(objective) == "table" then
    local o, sum = options.check(where .. ": objective", objective, { ind = 0, moe = 0, poe = 0 }), 0
    for _, name in ipairs(NAMES) do
      if not (o[name] >= 0) then
        core.error(("%s: objective.%s must not be negative, got %g"):format(where, name, o[name]))
      end
      sum = sum + o[name]
    end
    if math.abs(sum - 1) > 1e-9 then
      core.error(("%s: weights of objective must sum to 1, got %g"):format(where, sum))
    end
    return o
  end
  local known = { objective = options.choice("hybrid", "ind", "moe", "poe") }
  local name = options.check(where, { objective = objective }, known).objective
  return name == "hybrid" and HYBRID or { [name] = 1 }
end

--- check_estimator(where, estimator, weights): raises where the estimator is not known for the objective.
function source_objective.check_estimator(where, estimator, weights)
  if estimator == "dreg" and (weights.moe or 0) > 0 then
    core.error(where .. ": estimator 'dreg' is of 'ind' and 'poe': below 'moe' stands a mixture, whose parameters are "
      .. "also those of the draws of other components; take 'iwae', whose mean is the gradient")
  end
end

-- ---- beliefs ----

-- A belief where the mask is true, elsewhere the prior.
local function where_there(law, mask, prior)
  if not mask then
    return law
  end
  return (prior.factor * natural.masked(natural.of(law) / prior.factor, mask)):to_distribution()
end

--- beliefs(self, b, names): a list with name, law and mask of each of the sources in b, in the order of names; a law is
--- the prior where its source is not there.
function source_objective.beliefs(self, b, names)
  local list = {}
  for _, name in ipairs(names) do
    if b.x[name] then
      local mask = b.there[name]
      local law = self.encoders[name]:belief(b.x[name], self.prior)
      list[#list + 1] = { name = name, law = where_there(law, mask, self.prior), mask = mask }
    end
  end
  if #list == 0 then
    list[1] = { name = "no source", law = self.prior.law:expand { b.size } }
  end
  return list
end

--- shares(list, dtype): pi_m of each source, numbers where all are there, else tensors [B].
function source_objective.shares(list, dtype)
  local count, shares, masked = nil, {}, false
  for _, e in ipairs(list) do masked = masked or e.mask ~= nil end
  if not masked then
    for k = 1, #list do shares[k] = 1 / #list end
    return shares
  end
  for k, e in ipairs(list) do
    shares[k] = e.mask and e.mask:to(dtype) or 1
    count = count and count + shares[k] or shares[k]
  end
  local nobody = count:eq(0)
  local total = count:clamp(1, math.huge)
  for k = 1, #list do
    shares[k] = shares[k] / total
    if k == 1 then -- the first stands in for the prior, which its belief is there
      shares[k] = core.where(nobody, core.ones({}, { dtype = dtype }), shares[k])
    end
  end
  return shares
end

--- product(list, prior): the product of the beliefs with the prior divided out.
function source_objective.product(list, prior)
  if #list == 1 then
    return list[1].law
  end
  local all = prior.factor
  for _, e in ipairs(list) do -- the prior itself, where a source is not there, is the factor 1
    all = all * (natural.of(e.law) / prior.factor)
  end
  return all:to_distribution()
end

--- log_mixture(list, shares, z): log sum_m pi_m q_m(z), [K, B].
function source_objective.log_mixture(list, shares, z)
  local terms = {}
  for k, e in ipairs(list) do
    local pi = shares[k]
    terms[k] = e.law:log_prob(z) + (type(pi) == "number" and math.log(pi) or pi:log())
  end
  return core.stack(terms, 1):logsumexp(1)
end

-- ---- densities ----

--- log_joint(self, b, targets, z): log p(z) + the sum of log p(x_t | z) over the targets that are there; z [..., B, n].
function source_objective.log_joint(self, b, targets, z)
  local sum = self.prior.law:log_prob(z)
  for _, name in ipairs(targets) do
    if b.x[name] then
      local ll, mask = self.decoders[name](z):log_prob(b.x[name]), b.there[name]
      sum = sum + (mask and core.where(mask, ll, core.zeros({}, { dtype = ll:dtype() })) or ll)
    end
  end
  return sum
end

--- log_weights(self, b, o): a list of {kind =, share =, log_p =, log_q =, z =}, [K, B] each: one for each source of ind
--- and moe, one for poe. o.weights, o.draws, o.sources, o.targets.
function source_objective.log_weights(self, b, o)
  local list = source_objective.beliefs(self, b, o.sources)
  local shares = source_objective.shares(list, self.dtype)
  local w, terms, z = o.weights, {}, {}
  local each = (w.ind or 0) > 0 or (w.moe or 0) > 0
  for _, e in ipairs(each and list or {}) do z[#z + 1] = e.law:rsample { o.draws } end
  local fused = (w.poe or 0) > 0 and source_objective.product(list, self.prior) or nil
  if fused then
    z[#z + 1] = fused:rsample { o.draws }
  end
  local k = o.draws
  local all = source_objective.log_joint(self, b, o.targets, core.concatenate(z, 1))
  local function log_p(i) return all:slice(1, (i - 1) * k + 1, i * k) end
  for i, e in ipairs(each and list or {}) do
    if (w.ind or 0) > 0 then
      terms[#terms + 1] = { kind = "ind", share = shares[i], log_p = log_p(i), log_q = e.law:log_prob(z[i]), z = z[i] }
    end
    if (w.moe or 0) > 0 then
      terms[#terms + 1] = { kind = "moe", share = shares[i], log_p = log_p(i),
        log_q = source_objective.log_mixture(list, shares, z[i]), z = z[i] }
    end
  end
  if fused then
    terms[#terms + 1] = { kind = "poe", share = 1, log_p = log_p(#z), log_q = fused:log_prob(z[#z]), z = z[#z] }
  end
  return terms
end

-- ---- estimators ----

-- y, with a gradient that is c times its own.
local function tempered(y, c) return y * c + (y * (1 - c)):detach() end

-- The mean over data of share times the bound of each, with the estimator's gradient.
local function estimate(t, estimator)
  local pi, log_p, log_q = t.share, t.log_p, t.log_q
  local each = type(pi) ~= "number"
  if each then
    log_p, log_q = tempered(log_p, pi), tempered(log_q, pi)
  end
  local value
  if estimator == "dreg" then
    value = infer.dreg(log_p, log_q, { t.z })
  else
    value = infer.iwae(log_p - log_q)
  end
  if not each then
    return pi == 1 and value or value * pi
  end
  local bound = (t.log_p - t.log_q):detach():logsumexp(1) - math.log(t.log_p:size(1))
  return (bound * pi):mean() + (value - value:detach())
end

--- bound(self, b, o): the objective in nats per datum, to be maximised, a 0-d tensor; o.estimator beside what
--- log_weights asks for.
function source_objective.bound(self, b, o)
  local total
  for _, t in ipairs(source_objective.log_weights(self, b, o)) do
    local value = estimate(t, o.estimator)
    local weight = o.weights[t.kind]
    value = weight == 1 and value or value * weight
    total = total and total + value or value
  end
  return total
end

return source_objective
