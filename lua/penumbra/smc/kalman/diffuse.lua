--- Exact diffuse initial states by augmentation (de Jong 1991; Durbin & Koopman 2012, section 5.7): the state before
--- the first step is mean + B delta + N(0, cov) with delta of infinite variance. The filter is linear in delta: one
--- filter for delta = 0 and one for each column of B, which share all covariances, give innovations v + E delta, and
--- with S = sum E^T F^-1 E and s = -sum E^T F^-1 v delta is N(S^-1 s, S^-1) given the observations. A normal part of
--- variance kappa in the directions of B changes nothing of a flat delta but keeps every F invertible.
-- help: pn.smc
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"

local diffuse = {}

local mt, apply = linear_system.mt, linear_system.apply

-- A variance of the size of the noises, without a gradient.
local function scale(s)
  local q = s.q:detach():diagonal():max()
  local r = s.r:detach():diagonal():max()
  local both = q + r
  return core.where(both:gt(0), both, both * 0 + 1)
end

local own = { a = 2, q = 2, c = 2, r = 2, b = 1, d = 1 }

-- Operand x with an axis of 1 for the columns in front of its batch, if it reaches that far.
local function widened(s, name)
  local x = s[name]
  return x and s:timed(name) and x:unsqueeze(2) or x
end

-- y, b or d for delta = 0 in the first column, zeros in the others.
local function only_first(x, axis, k)
  local shape = x:shape()
  table.insert(shape, axis, k)
  return core.concatenate({ x:unsqueeze(axis), core.zeros(shape, { dtype = x:dtype() }) }, axis)
end

-- An offset with its whole batch.
local function offset(s, name, k)
  local x = s[name]
  if not x then
    return nil
  end
  local steps = s:timed(name) and x:size(1) or 1
  local size = x:size(-1)
  local shape = { steps, table.unpack(s.lead) }
  shape[#shape + 1] = size
  return only_first(x:broadcast_to(shape), 2, k)
end

--- The system with one filter for each column of delta beside that of delta = 0: batch [1 + k, batch...].
function diffuse.augmented(s)
  local k = s.diffuse:size(2)
  local shape = { s.steps, table.unpack(s.lead) }
  shape[#shape + 1] = s.p
  local fields = { diffuse = false, batch = s.batch + 1, y = only_first(s.y:broadcast_to(shape), 2, k),
    observed = s.observed and s.observed:unsqueeze(2) or nil }
  for name in pairs(own) do
    fields[name] = widened(s, name)
  end
  fields.b, fields.d = offset(s, "b", k), offset(s, "d", k)
  local lead = { 1 + k, table.unpack(s.lead) }
  local columns = { linear_system.spread(s.mean, s.lead, 1) }
  for j = 1, k do
    columns[j + 1] = linear_system.spread(s.diffuse:select(2, j), s.lead, 1)
  end
  fields.mean = core.stack(columns, 1)
  fields.cov = s.cov + s.diffuse:matmul(s.diffuse:t()) * scale(s)
  fields.lead = lead
  return s:with(fields)
end

-- The order of axes that puts the second of n last.
local function second_last(n)
  local order = { 1 }
  for axis = 3, n do
    order[#order + 1] = axis
  end
  order[#order + 1] = 2
  return order
end

-- x [T, 1 + k, batch..., ...] of delta = 0, and its columns [T, batch..., n, k].
local function parts(x)
  local k = x:size(2) - 1
  return x:select(2, 1), x:slice(2, 2, k + 1):permute(second_last(x:ndim()))
end

-- Which of the matrices S determine delta: [T, batch...], bool. Free of units: on the scale of S's diagonal.
local function determined(s)
  local size = s:detach():diagonal()
  local inverse = core.where(size:gt(0), size:clamp(1e-300, math.huge):rsqrt(), size * 0)
  local values = (s:detach() * linear_system.outer(inverse, inverse)):eigh()
  return values:select(-1, 1):gt(1e-8)
end

--- The states before each observation, by the augmented filter.
function diffuse.before(a, f)
  if f.before_mean then
    return f.before_mean, f.before_cov
  end
  return filtering.predicted(a, f.mean, f.cov)
end

-- S, s summed up to each step; delta's mean and covariance there, of whatever where delta is not determined yet.
local function evidence(a, f)
  local m, v = diffuse.before(a, f)
  local innovation = a.y - apply(a.c, m)
  innovation = a.d and innovation - a.d or innovation
  local c, r = a:seen_emission(), a.r
  if a.observed then
    local on = a.observed:to(c:dtype())
    innovation = core.where(a.observed, innovation, core.zeros({}, { dtype = c:dtype() }))
    r = r * linear_system.outer(on, on) + (1 - on):diag_embed()
  end
  local cov = (c:matmul(v):matmul(mt(c)) + r):select(2, 1)
  local own_part, columns = parts(innovation)
  local weighed, message, code = filtering.solve(cov, columns)
  if not weighed then
    return nil, message, code
  end
  local s = mt(columns):matmul(weighed):cumsum(1)
  return linear_system.symmetric(s), -apply(mt(weighed), own_part):cumsum(1)
end

--- What is known of delta after each step: mean [T, batch..., k], cov, log of the ratio of the likelihoods of the flat
--- delta and of delta = 0, and whether delta is determined. nil, message, code.
function diffuse.posterior(a, f)
  local s, pull, code = evidence(a, f)
  if not s then
    return nil, pull, code
  end
  local known = determined(s)
  local safe = core.where(known:unsqueeze(-1):unsqueeze(-1), s, linear_system.unit(s, s:size(-1)))
  local l, message, why = safe:cholesky()
  if not l then
    return nil, message, why
  end
  local mean = l:cholesky_solve(pull:unsqueeze(-1)):squeeze(-1)
  local log_det = l:diagonal():log():sum(-1)
  return { mean = mean, cov = l:cholesky_solve(linear_system.unit(s, s:size(-1))), known = known,
    log_ratio = (pull * mean):sum(-1) * 0.5 - log_det }
end

--- Moments [T, 1 + k, batch..., ...] of the augmented filter with delta integrated out: mean, cov. `cross`: columns of
--- the other side of a cross covariance.
function diffuse.absorbed(mean, cov, delta_mean, delta_cov)
  local own_mean, columns = parts(mean)
  local spread = columns:matmul(delta_cov):matmul(mt(columns))
  return own_mean + apply(columns, delta_mean), linear_system.symmetric(cov:select(2, 1) + spread)
end

--- Columns [T, batch..., n, k] of the means of an augmented filter or smoother.
function diffuse.columns(mean)
  local _, columns = parts(mean)
  return columns
end

--- x where delta is determined, `otherwise` elsewhere; own: axes of x after the batch's.
function diffuse.where_known(known, x, own_rank, otherwise)
  for _ = 1, own_rank do
    known = known:unsqueeze(-1)
  end
  return core.where(known, x, core.full({}, otherwise, { dtype = x:dtype() }))
end

--- log_prob [T, batch...]: the whole of the diffuse likelihood so far at the first step that determines delta, 0 before
--- it, and the density of y given those before afterwards. The sum is lim (log p(y) + k/2 log kappa).
function diffuse.log_prob(log_prob, delta)
  local on = delta.known:to(log_prob:dtype())
  local sum = (log_prob:select(2, 1):cumsum(1) + delta.log_ratio) * on
  local steps = sum:size(1)
  if steps == 1 then
    return sum
  end
  return core.concatenate({ sum:slice(1, 1, 1), sum:slice(1, 2, steps) - sum:slice(1, 1, steps - 1) }, 1)
end

return diffuse
