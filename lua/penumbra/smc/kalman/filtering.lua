--- The Kalman filter over whole sequences: on covariances, on their square roots, on precisions; with initial states
--- of which nothing is known in some directions.
-- help: pn.smc
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"

local filtering = {}

local fused = core.gaussian
local mt, apply, outer, spread = linear_system.mt, linear_system.apply, linear_system.outer, linear_system.spread

-- ---- on covariances ----

local function joined(first, rest)
  return rest and core.concatenate({ first:unsqueeze(1), rest }, 1) or first:unsqueeze(1)
end

-- The update of the initial state by the first observation, and the filter of the others.
local function from_predicted(s, sequence, update)
  local mean, cov, log_prob = update(spread(s.mean, s.lead, 1), s.cov, s:at("y", 1), s:at("c", 1), s:at("d", 1),
    s:at("r", 1), { observed = s:at("observed", 1) })
  if not mean then
    return nil, cov, log_prob
  end
  cov = spread(cov, s.lead, 2)
  if s.steps == 1 then
    return joined(mean), joined(cov), joined(log_prob)
  end
  local x = s:from(2)
  local means, covs, log_probs = sequence(mean, cov, x.a, x.b, x.q, x.y, x.c, x.d, x.r, x.observed)
  if not means then
    return nil, covs, log_probs
  end
  return joined(mean, means), joined(cov, covs), joined(log_prob, log_probs)
end

local function all_steps(s, sequence, update)
  if s.predicted then
    return from_predicted(s, sequence, update)
  end
  return sequence(s.mean, s.cov, s.a, s.b, s.q, s.y, s.c, s.d, s.r, s.observed)
end

--- mean [T, batch..., n], cov, log_prob [T, batch...] of the states given the observations so far; nil, message, code.
function filtering.covariance(s)
  return all_steps(s, fused.filter, core.kalman_update)
end

-- ---- one covariance for all series ----

-- From these sizes on it pays.
local MANY_SERIES, LARGE_STATE = 16, 6

-- x without the axes of the batch, which are all 1; nil if they are not. own: its last axes.
local function without_batch(s, x, own, timed)
  local shape, batch = x:shape(), s.batch
  local have = #shape - own
  local from = timed and have > batch and 2 or 1
  for axis = from, have do
    if shape[axis] ~= 1 then
      return nil
    end
  end
  local kept = from == 2 and { shape[1] } or {}
  table.move(shape, have + 1, #shape, #kept + 1, kept)
  return x:reshape(kept)
end

-- The system of one series without offsets whose covariances are those of all; nil where these differ.
local function common(s)
  local count = 1
  for _, size in ipairs(s.lead) do
    count = count * size
  end
  if s.observed or s.predicted or count < MANY_SERIES or s.n < LARGE_STATE then
    return nil
  end
  local one = { batch = 0, lead = {}, cov = without_batch(s, s.cov, 2, false) }
  for _, name in ipairs { "a", "q", "c", "r" } do
    one[name] = one.cov and without_batch(s, s[name], 2, true)
    if not one[name] then
      return nil
    end
  end
  one.b, one.d = nil, nil
  return s:with(one)
end

local LOG_TAU = 1.8378770664093453 -- log(2 pi)

-- log_prob where covariances do not differ: these once, by the filter of one series, then the means of all, which
-- follow m_t = (1 - K c) (a m_(t-1) + b) + K (y - d).
local function shared_log_prob(s, one)
  local zero = { dtype = s.a:dtype() }
  local origin = core.zeros({ s.n }, zero)
  local nothing = core.zeros({ s.steps, s.p }, zero)
  local mean, cov, code = fused.filter(origin, one.cov, one.a, nil, one.q, nothing, one.c, nil, one.r)
  if not mean then
    return nil, cov, code
  end
  one.mean, one.b, one.d = origin, nil, nil
  local _, before = filtering.predicted(one, mean, cov)
  local _, _, _, _, innovation_cov, gain = core.kalman_update(mean, before, nothing, one.c, nil, one.r,
    { details = true })
  if not gain then
    return nil, "the innovation covariances have changed", "singular"
  end
  local keep = linear_system.unit(one.a, s.n) - gain:matmul(one.c)
  -- everything with one axis of series: [T, S, ...]
  local function flat(x)
    return spread(x, { s.steps, table.unpack(s.lead) }, 1):reshape { s.steps, -1, x:size(-1) }
  end
  local y = flat(s.d and s.y - s.d or s.y)
  local b = s.b and flat(s.b)
  local first = spread(s.mean, s.lead, 1):reshape { -1, s.n }
  local offset = y:matmul(mt(gain))
  offset = b and offset + b:matmul(mt(keep)) or offset
  local means = fused.path(first, keep:matmul(one.a):unsqueeze(2), offset, false)
  local last = first:unsqueeze(1)
  last = s.steps > 1 and core.concatenate({ last, means:slice(1, 1, s.steps - 1) }, 1) or last
  -- the innovation y - c (a m + b), and its square by the factor of its covariance
  local through = one.c:matmul(one.a)
  local v = y - last:matmul(mt(through))
  v = b and v - b:matmul(mt(one.c)) or v
  local l, message, why = innovation_cov:cholesky()
  if not l then
    return nil, message, why
  end
  local white = l:solve_triangular(mt(v))
  local constant = l:diagonal():log():sum(-1) + 0.5 * s.p * LOG_TAU
  local log_prob = white:square():sum(-2) * -0.5 - constant:unsqueeze(-1)
  return log_prob:reshape { s.steps, table.unpack(s.lead) }
end

--- log_prob [T, batch...]; nil, message, code.
function filtering.log_prob(s)
  if s.predicted then
    local _, _, log_prob = filtering.covariance(s)
    return log_prob
  end
  local one = common(s)
  if one then
    return shared_log_prob(s, one)
  end
  return fused.log_prob(s.mean, s.cov, s.a, s.b, s.q, s.y, s.c, s.d, s.r, s.observed)
end

--- The states before each observation: mean, cov [T, batch..., ...]. From those after it, as the filter gave them.
function filtering.predicted(s, mean, cov)
  local first_mean, first_cov = spread(s.mean, s.lead, 1), spread(s.cov, s.lead, 2)
  local before_mean, before_cov = first_mean:unsqueeze(1), first_cov:unsqueeze(1)
  if s.steps > 1 then
    before_mean = joined(first_mean, mean:slice(1, 1, s.steps - 1))
    before_cov = joined(first_cov, cov:slice(1, 1, s.steps - 1))
  end
  if not s.predicted then
    return core.kalman_predict(before_mean, before_cov, s.a, s.b, s.q)
  elseif s.steps == 1 then
    return before_mean, before_cov
  end
  local x = s:from(2)
  local m, p = core.kalman_predict(before_mean:slice(1, 2, s.steps), before_cov:slice(1, 2, s.steps), x.a, x.b, x.q)
  return joined(first_mean, m), joined(first_cov, p)
end

-- ---- on square roots ----

--- A matrix l with l l^T = x for positive semidefinite x: Cholesky's if it exists.
function filtering.root(x)
  local l = x:cholesky()
  if l then
    return l
  end
  local values, vectors = x:eigh()
  return vectors * values:clamp(0, math.huge):sqrt():unsqueeze(-2)
end

--- mean, root of cov, log_prob; nil, message, code.
function filtering.square_root(s)
  local root = filtering.root
  return all_steps(s:with { cov = root(s.cov), q = root(s.q), r = root(s.r) }, fused.root_filter,
    core.kalman_root_update)
end

-- ---- on precisions ----

--- Solutions x of a x = b for positive definite a: [..., n, k].
function filtering.solve(a, b)
  local l, message, code = a:cholesky()
  if not l then
    return nil, message, code
  end
  return l:cholesky_solve(b)
end

--- What an observation says about its state: precision c^T r^-1 c and precision times mean c^T r^-1 (y - d), without
--- what is missing; y, d of the deterministic path removed.
function filtering.evidence(s, y)
  local c, r = s:seen_emission(), s.r
  if s.observed then
    local on = s.observed:to(c:dtype())
    r = r * outer(on, on) + (1 - on):diag_embed()
    y = core.where(s.observed, y, core.zeros({}, { dtype = y:dtype() }))
  end
  local weighed, message, code = filtering.solve(r, c)
  if not weighed then
    return nil, message, code
  end
  return mt(weighed):matmul(c), apply(mt(weighed), y)
end

--- The path x_t = a_t x_(t-1) + b_t from x_0 = 0, [T, batch..., n], and the observations without what it explains.
function filtering.without_offsets(s)
  local y = s.d and s.y - s.d or s.y
  if not s.b then
    return nil, spread(y, { s.steps, table.unpack(s.lead) }, 1)
  end
  local zero = core.zeros({ s.n }, { dtype = s.a:dtype() })
  local nothing = core.zeros({ s.n, s.n }, { dtype = s.a:dtype() })
  local path
  if not s.predicted then
    path = fused.propagate(spread(zero, s.lead, 1), nothing, s.a, s.b, nothing, s.steps, false)
  elseif s.steps == 1 then
    path = spread(zero, { 1, table.unpack(s.lead) }, 1)
  else
    local x, first = s:from(2), spread(zero, s.lead, 1)
    path = joined(first, (fused.propagate(first, nothing, x.a, x.b, nothing, x.steps, false)))
  end
  return path, y - apply(s.c, path)
end

--- One step of a filter on precisions is one of a filter on covariances in other operands: with r = l l^T and
--- M = a^-T precision a^-1 the precision after the transition, (M^-1 + l l^T)^-1, is the covariance M after an
--- observation l^T x + N(0, I), and precision times mean goes along as its mean does (Kailath, Sayed & Hassibi 2000,
--- section 9.5). Here y = 0, emission l^T, noise I.
function filtering.dual(mean, precision, a, b, q, noise, steps, lead)
  local n = q:size(-1)
  local zero = spread(core.zeros({ n }, { dtype = q:dtype() }), { steps, table.unpack(lead) }, 1)
  return fused.filter(mean, precision, a, b, q, zero, mt(filtering.root(noise)), nil, linear_system.unit(q, n), nil)
end

local function shifted(first, x, steps)
  return steps > 1 and joined(first, x:slice(1, 1, steps - 1)) or first:unsqueeze(1)
end

-- The operands of the dual filter forwards in time.
local function dual_operands(s, precision, information)
  local back, message, code = s.a:inverse()
  if not back then
    return nil, "form 'information' needs transitions that can be inverted: " .. message, code
  end
  local whole = { s.steps, table.unpack(s.lead) }
  precision, information = spread(precision, whole, 2), spread(information, whole, 1)
  local zero = information:select(1, 1) * 0
  local b, q = shifted(zero, information, s.steps), shifted(zero:unsqueeze(-1) * zero:unsqueeze(-2), precision, s.steps)
  back = mt(back)
  return back, apply(back, b), back:matmul(q):matmul(mt(back)), precision, information
end

-- precision, precision times mean before the first step
local function initial_precision(s)
  local unit = linear_system.unit(s.a, s.n)
  if s.diffuse then
    if s.diffuse:size(2) < s.n then
      return nil, "form 'information' needs an initial state of which all is diffuse or nothing", "domain"
    end
    return unit * 0, core.zeros({ s.n }, { dtype = s.a:dtype() })
  end
  local precision, message, code = filtering.solve(s.cov, unit)
  if not precision then
    return nil, message, code
  end
  return precision, apply(precision, s.mean)
end

--- Precisions and precisions times means after each observation, and the path to be added: precision, information,
--- path.
function filtering.information(s)
  local path, y = filtering.without_offsets(s)
  local precision, information, code = filtering.evidence(s, y)
  if not precision then
    return nil, information, code
  end
  local start, start_information, why = initial_precision(s)
  if not start then
    return nil, start_information, why
  end
  local a, b, q, gained, gained_information = dual_operands(s, precision, information)
  if not a then
    return nil, b, q
  end
  local mean, cov, message = filtering.dual(start_information, start, a, b, q, s.q, s.steps, s.lead)
  if not mean then
    return nil, cov, message
  end
  return cov + gained, mean + gained_information, path
end

return filtering
