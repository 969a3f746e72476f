--- Beliefs beside each other: conflict, point-wise mutual information, and what to do about either.
-- help: pn.fusion
local belief_product = require "penumbra.fusion.belief_product"
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local machine = require "penumbra.smc.machine"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local options = require "penumbra.options"

local belief_conflict = {}

-- ---- conflict ----

-- The divergence below which a belief is the prior: rounding errors of the closed form.
local ROUNDING <const> = { float64 = 1e-12, float32 = 1e-5 }

-- KL(q || p) / KL(q || prior), 0 where q is the prior, given the second divergence.
local function ratio(p, q, from_prior)
  local limit = ROUNDING[from_prior:dtype()]
  local moved = from_prior:gt(limit)
  local one = core.ones({}, { dtype = from_prior:dtype() })
  local c = dist.kl(q, p) / core.where(moved, from_prior, one)
  return core.where(moved, c, core.zeros({}, { dtype = from_prior:dtype() }))
end

--- conflict(p, q, prior): see pn.fusion.conflict.
function belief_conflict.conflict(p, q, prior)
  local list = named_beliefs.read("conflict", { p = p, q = q })
  local p0 = named_beliefs.prior("conflict", prior, list)
  return ratio(list[1].law, list[2].law, dist.kl(list[2].law, p0.law))
end

--- conflicts(beliefs, {prior = [, observed =]}): see pn.fusion.conflicts.
function belief_conflict.conflicts(beliefs, given)
  local list, prior, batch = belief_product.read("conflicts", beliefs, given)
  local names, columns = {}, {}
  if #list == 0 then
    core.error "conflicts: beliefs must have at least one source"
  end
  local dtype = list[1].law.dtype
  local zero = core.zeros({}, { dtype = dtype })
  for k, q in ipairs(list) do
    names[k] = q.name
    local from_prior, rows = dist.kl(q.law, prior.law), {}
    for j, p in ipairs(list) do
      local c = j == k and zero or ratio(p.law, q.law, from_prior)
      for _, e in ipairs { p, q } do
        c = e.mask and core.where(e.mask, c, zero) or c
      end
      rows[j] = c:broadcast_to(batch)
    end
    columns[k] = core.stack(rows, -1)
  end
  return core.stack(columns, -1), names
end

--- mutual(c): the lesser of the conflicts in both directions, of a matrix [..., M, M]: what two beliefs say against
--- each other. (Beside a vague belief a certain one alone has a large conflict where they agree.)
function belief_conflict.mutual(c)
  return c:minimum(c:transpose(-2, -1))
end

-- ---- mutual information ----

--- information(where, list, prior, batch): the point-wise mutual information, [batch], of a read list with masks: with
--- Z(r) the integral of a factor r, log Z(prior prod q_m / prior) - log Z(prior) - sum_m (log Z(q_m) - log Z(prior)),
--- where q_m stands for the factor e^(eta z - z Lambda z / 2) of a belief.
function belief_conflict.information(where, list, prior, batch)
  local all = prior.factor * belief_product.ratio(list, prior)
  local ok, total = pcall(all.log_normaliser, all)
  if not ok then
    belief_product.proper(where, list, prior, all, batch) -- names the source
    error(total, 0)
  end
  local from = prior.factor:log_normaliser()
  total = total - from
  local zero = core.zeros({}, { dtype = from:dtype() })
  for _, e in ipairs(list) do
    local own = e.factor:log_normaliser() - from
    total = total - (e.mask and core.where(e.mask, own, zero) or own)
  end
  return total:broadcast_to(batch)
end

--- pointwise_mutual_information(beliefs, {prior = [, observed =]}): see pn.fusion.
function belief_conflict.pointwise_mutual_information(beliefs, given)
  local list, prior, batch = belief_product.read("pointwise_mutual_information", beliefs, given)
  if #list == 0 then
    return core.zeros({}, { dtype = prior.law.dtype })
  end
  return belief_conflict.information("pointwise_mutual_information", list, prior, batch)
end

-- ---- resampling ----

--- resample(q, log_joint [, {draws = 1000, resampling = "systematic", generator =}]): see pn.fusion.resample.
function belief_conflict.resample(q, log_joint, given)
  options.argument("resample", "q", q, "distribution")
  options.argument("resample", "log_joint", log_joint, "function")
  local o = options.check("resample", given, { draws = 1000, resampling = machine.options.resampling,
    generator = options.optional "generator" })
  local z = q:sample { o.draws, generator = o.generator }
  local log_p = options.argument("resample", "what log_joint gives", log_joint(z), "tensor")
  local log_q = q:log_prob(z)
  if table.concat(log_p:shape(), " ") ~= table.concat(log_q:shape(), " ") then
    core.error(("resample: log_joint must give a density for each draw, [%s], got [%s]"):format(
      table.concat(log_q:shape(), ", "), table.concat(log_p:shape(), ", ")))
  end
  local log_w = (log_p - log_q):detach()
  local places = machine.resample(log_w, { resampling = o.resampling, generator = o.generator })
  local index, wide = places, z:shape()
  for _ = places:ndim() + 1, #wide do index = index:unsqueeze(-1) end
  local share = log_w:softmax(1)
  return z:gather(1, index:broadcast_to(wide)), { log_weights = log_w,
    effective_sample_size = share:square():sum(1):reciprocal(),
    log_evidence = log_w:logsumexp(1) - math.log(o.draws) }
end

-- ---- thresholds ----

-- The largest mutual conflict of any two sources, [N].
local function largest(c)
  local m = belief_conflict.mutual(c)
  local shape = m:shape()
  local n = 1
  for k = 1, #shape - 2 do n = n * shape[k] end
  return m:reshape { n, shape[#shape] * shape[#shape] }:max(2)
end

-- How many of n values may lie above a threshold that is one of them: so many that a new value lies above it with
-- probability `rate` at most; with a confidence, so many that the rate of this very threshold is at most that.
local function allowed(n, rate, confidence)
  if not confidence then
    return math.floor(rate * (n + 1)) - 1
  end
  -- the rate above the (k + 1)-th largest exceeds `rate` with probability P(Binomial(n, rate) <= k)
  local k = math.floor(rate * n)
  local law = dist.binomial { total_count = n, probs = rate }
  while k >= 0 and law:cdf(k):item() > 1 - confidence do
    k = k - 1
  end
  return k
end

--- conflict_threshold(conflicts, {rate = 0.01, confidence =}): see pn.fusion.conflict_threshold.
function belief_conflict.conflict_threshold(conflicts, given)
  local where = "conflict_threshold"
  options.argument(where, "conflicts", conflicts, "tensor")
  local o = options.check(where, given, { rate = 0.01, confidence = options.optional "number" })
  local shape = conflicts:shape()
  if #shape < 3 or shape[#shape] ~= shape[#shape - 1] or shape[#shape] < 2 then
    core.error(("%s: conflicts must be matrices of healthy data, [N, M, M] with M at least 2, got [%s]"):format(where,
      table.concat(shape, ", ")))
  elseif not (o.rate > 0 and o.rate < 1) or o.confidence and not (o.confidence > 0 and o.confidence < 1) then
    core.error(("%s: rate and confidence must lie between 0 and 1, got %s and %s"):format(where, o.rate,
      tostring(o.confidence)))
  end
  local values = largest(conflicts:detach():to "float64"):sort(1)
  local n = values:size(1)
  if not values:isfinite():all():item() then
    core.error(where .. ": conflicts of healthy data must be finite")
  end
  local k = allowed(n, o.rate, o.confidence)
  if k < 0 then
    core.error(("%s: %d healthy data are too few for a false-alarm rate of %g%s"):format(where, n, o.rate,
      o.confidence and (" with confidence %g"):format(o.confidence) or ""))
  end
  return values[n - k]:item()
end

return belief_conflict
