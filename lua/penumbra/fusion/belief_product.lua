--- One belief out of several: products with the prior divided out, mixtures, and the forms of other autoencoders for
--- several modalities, each under its own name.
---
---     product    prior^(1 - |S|) prod_{m in S} q_m        Kurle, Guennemann & van der Smagt 2019
---     mixture    sum_{m in S} pi_m q_m                      the same; as a posterior with stratified draws, MMVAE
---     mvae       prior prod_{m in S} q_m                   Wu & Goodman 2018: experts that do not count the prior
---     mopoe      the mean over all T in S of the products over T      Sutter, Daunhawer & Vogt 2021
---
--- S are the sources that are there.
-- help: pn.fusion
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local options = require "penumbra.options"

local belief_product = {}

local natural = dist.natural
local quoted = named_beliefs.quoted

-- ---- what breaks a product ----

-- The least eigenvalue of a precision, [batch].
local function least(s)
  if s.form == "scalar" then
    return s.precision:detach()
  elseif s.form == "diagonal" then
    return s.precision:detach():min(-1)
  end
  local values = s.precision:detach():eigh()
  return values:min(-1)
end

local function at(t, n) return t:numel() == 1 and t:item() or t:reshape { -1 }[n]:item() end

-- The source whose precision is least in comparison with the prior's where the product's is not positive: the place of
-- that datum, the source, and the least eigenvalue of the difference.
local function weakest(list, prior, all, batch)
  local low = least(all):broadcast_to(batch):reshape { -1 }
  local n = low:gt(0):to "int64":argmin(1):item() + 1
  local found, lack
  for _, e in ipairs(list) do
    local there = not e.mask or at(e.mask:broadcast_to(batch), n)
    local d = least(e.factor / prior.factor):broadcast_to(batch):reshape { -1 }[n]:item()
    if there and (not found or d < lack or d ~= d) then
      found, lack = e, d
    end
  end
  return n, found, lack, low[n]:item()
end

--- proper(where, list, prior, all, batch): all:to_distribution() of a product of the list, or an error that names the
--- source.
function belief_product.proper(where, list, prior, all, batch)
  local ok, law = pcall(all.to_distribution, all)
  if ok then
    return law
  end
  local message = law
  local found, n, e, lack, low = pcall(weakest, list, prior, all, batch)
  if not found or not e then
    error(message, 0)
  end
  local place = #batch > 0 and (" of datum %d"):format(n) or ""
  return core.error(("%s: the product's precision%s must be positive, got %.6g: source %s knows less than the prior "
    .. "there (its precision less the prior's is %.6g)"):format(where, place, low, quoted(e.name), lack))
end

local proper = belief_product.proper

-- ---- products ----

-- prod_{m in S} (q_m / prior), with 1 for what is not there; nil of no source.
local function ratio(list, prior)
  local all
  for _, e in ipairs(list) do
    local r = e.factor / prior.factor
    r = e.mask and natural.masked(r, e.mask) or r
    all = all and all * r or r
  end
  return all
end

belief_product.ratio = ratio

local product_options = { prior = options.any(nil), observed = options.any(nil) }

-- The list, prior and batch of a call.
local function read(where, beliefs, given, known)
  local o = options.check(where, given, known or product_options)
  local list = named_beliefs.read(where, beliefs)
  local prior = named_beliefs.prior(where, o.prior, list)
  local batch = named_beliefs.batch_shape(list, prior)
  named_beliefs.masks(where, o.observed, list, batch)
  return list, prior, batch, o
end

belief_product.read = read

--- product(beliefs, {prior = [, observed =]}): see pn.fusion.product. Of no source, the prior.
function belief_product.product(beliefs, given)
  local list, prior, batch = read("product", beliefs, given)
  local r = ratio(list, prior)
  if not r then
    return prior.law
  end
  return proper("product", list, prior, prior.factor * r, batch)
end

--- mvae(beliefs, {prior = [, observed =]}): see pn.fusion.mvae.
function belief_product.mvae(beliefs, given)
  local list, prior = read("mvae", beliefs, given)
  local all = prior.factor
  for _, e in ipairs(list) do
    all = all * (e.mask and natural.masked(e.factor, e.mask) or e.factor)
  end
  return #list == 0 and prior.law or all:to_distribution()
end

-- ---- mixtures ----

local function laws(list)
  local out = {}
  for k, e in ipairs(list) do out[k] = e.law end
  return out
end

-- Weights [M] or [batch, M] of the sources: their masks, 0 where they are not there; of none, those of all.
local function weights_of(where, list, batch, weights)
  local dtype = list[1].law.dtype
  local w = core.ones({ #list }, { dtype = dtype })
  if weights ~= nil then
    options.argument(where, "weights", weights, "table")
    local values = {}
    for k, e in ipairs(list) do
      values[k] = options.argument(where, ("weights of source %s"):format(quoted(e.name)), weights[e.name], "number")
      if not (values[k] >= 0) then
        core.error(("%s: the weight of source %s must not be negative, got %g"):format(where, quoted(e.name),
          values[k]))
      end
    end
    w = core.tensor(values, { dtype = dtype })
  end
  local masked = false
  for _, e in ipairs(list) do masked = masked or e.mask ~= nil end
  return masked and w * named_beliefs.present(list, batch, dtype) or w
end

local function checked_weights(where, w)
  if not w:sum(-1):gt(0):all():item() then
    core.error(where .. ": each datum must have a source that is there and has a weight above 0")
  end
  return w
end

--- mixture(beliefs [, {weights =, observed =}]): see pn.fusion.mixture.
function belief_product.mixture(beliefs, given)
  local o = options.check("mixture", given, { weights = options.optional "table", observed = options.any(nil) })
  local list = named_beliefs.read("mixture", beliefs)
  if #list == 0 then
    core.error "mixture: beliefs must have at least one source (without one there is only the prior)"
  end
  local batch = named_beliefs.batch_shape(list)
  named_beliefs.masks("mixture", o.observed, list, batch)
  return dist.mixture_of_experts(laws(list),
    checked_weights("mixture", weights_of("mixture", list, batch, o.weights)))
end

--- mmvae(beliefs [, {draws = 1, generator =}]): see pn.fusion.mmvae.
function belief_product.mmvae(beliefs, given)
  local o = options.check("mmvae", given, { draws = 1, generator = options.optional "generator" })
  local list = named_beliefs.read("mmvae", beliefs)
  if #list == 0 then
    core.error "mmvae: beliefs must have at least one source"
  end
  local z = {}
  for k, e in ipairs(list) do z[k] = e.law:rsample { o.draws, generator = o.generator } end
  return core.stack(z, 1), dist.mixture_of_experts(laws(list))
end

local MOST <const> = 10 -- sources, of which all subsets are gone through

--- most(where, n): raises for more sources than all subsets of which can be gone through.
function belief_product.most(where, n)
  if n > MOST then
    core.error(("%s: all subsets of at most %d sources are gone through, got %d sources"):format(where, MOST, n))
  end
end

--- mopoe(beliefs, {prior = [, form =]}): see pn.fusion.mopoe.
function belief_product.mopoe(beliefs, given)
  local list, prior, batch, o = read("mopoe", beliefs, given, { prior = options.any(nil),
    form = options.choice("expert", "divided") })
  belief_product.most("mopoe", #list)
  local components = {}
  for set = 1, (1 << #list) - 1 do
    local members, all = {}, prior.factor
    for k, e in ipairs(list) do
      if set >> (k - 1) & 1 == 1 then
        members[#members + 1] = e
        all = all * (o.form == "divided" and e.factor / prior.factor or e.factor)
      end
    end
    components[set] = proper("mopoe", members, prior, all, batch)
  end
  if #components == 0 then
    return prior.law
  end
  return dist.mixture_of_experts(components)
end

return belief_product
