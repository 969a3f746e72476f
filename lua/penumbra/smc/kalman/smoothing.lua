--- Smoothers: the states given all observations. Each goes back in time in one fused operation: what runs backwards is
--- in every case the prediction step of some other linear system.
-- help: pn.smc
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"

local smoothing = {}

local fused = core.gaussian
local mt, apply, spread = linear_system.mt, linear_system.apply, linear_system.spread

local function appended(x, last)
  return x and core.concatenate({ x, last:unsqueeze(1) }, 1) or last:unsqueeze(1)
end

--- All filtered states, x_0 among them unless the initial state is that of the first observation, and the system of
--- the transitions between them.
function smoothing.chain(s, mean, cov)
  if s.predicted then
    return mean, cov, s.steps > 1 and s:from(2)
  end
  local first_mean, first_cov = spread(s.mean, s.lead, 1), spread(s.cov, s.lead, 2)
  return core.concatenate({ first_mean:unsqueeze(1), mean }, 1), core.concatenate({ first_cov:unsqueeze(1), cov }, 1), s
end

--- Of each state given the next one and the observations before that: x_t = h x_(t+1) + c + N(0, w). h = V_t a^T
--- V_(t+1|t)^-1, c = m_t - h m_(t+1|t), w = (1 - h a) V_t (1 - h a)^T + h q h^T; a, q of the transition into t + 1
--- (the transition of Eq. 5.15 of many texts, printed there with indices that are one too small).
function smoothing.backward_kernel(x, mean, cov)
  local count = x.steps
  local m, v = mean:slice(1, 1, count), cov:slice(1, 1, count)
  local next_mean, next_cov = core.kalman_predict(m, v, x.a, x.b, x.q)
  local ht, message, code = filtering.solve(next_cov, x.a:matmul(v))
  if not ht then
    return nil, "a predicted covariance has no inverse, take method = 'disturbance': " .. message, code
  end
  local h = mt(ht)
  local rest = linear_system.unit(v, x.n) - h:matmul(x.a)
  local w = rest:matmul(v):matmul(mt(rest)) + h:matmul(x.q):matmul(mt(h))
  return { gain = h, offset = m - apply(h, next_mean), cov = linear_system.symmetric(w) }
end

--- Rauch, Tung & Striebel (1965): mean, cov, lag_one.
function smoothing.rts(s, f)
  local mean, cov, x = smoothing.chain(s, f.mean, f.cov)
  if not x then
    return mean, cov
  end
  local last_mean, last_cov = mean:select(1, -1), cov:select(1, -1)
  local k, message, code = smoothing.backward_kernel(x, mean, cov)
  if not k then
    return nil, message, code
  end
  local m, v = fused.propagate(last_mean, last_cov, k.gain, k.offset, k.cov, x.steps, true)
  m, v = appended(m, last_mean), appended(v, last_cov)
  return m, v, k.gain:matmul(v:slice(1, 2, x.steps + 1))
end

-- The transitions out of each observed state, the last one's place filled by any.
local function transitions_out(s)
  if not s:timed "a" or s.a:size(1) == 1 then
    return s.a
  end
  local last = s.a:slice(1, s.steps, s.steps)
  return s.steps > 1 and core.concatenate({ s.a:slice(1, 2, s.steps), last }, 1) or last
end

--- Disturbance smoother (de Jong 1989; Bryson & Frazier 1963): r and N collect what the observations from t on say,
--- r_t = c^T S^-1 v + (1 - K c)^T a^T r_(t+1), and x_t has mean m + V r, covariance V - V N V with m, V before y_t. No
--- covariance is inverted.
function smoothing.disturbance(s, f)
  local before_mean, before_cov = filtering.predicted(s, f.mean, f.cov)
  local _, _, _, v, innovation_cov, gain = core.kalman_update(before_mean, before_cov, s.y, s.c, s.d, s.r,
    { observed = s.observed, details = true })
  if not v then
    return nil, "the innovation covariances have changed", "singular"
  end
  local whole = { s.steps, table.unpack(s.lead) }
  local c = s:seen_emission()
  local weighed, message, code = filtering.solve(innovation_cov, spread(c, whole, 2))
  if not weighed then
    return nil, message, code
  end
  local keep = linear_system.unit(c, s.n) - gain:matmul(c)
  local zero, nothing = f.mean:select(1, 1):detach() * 0, core.zeros({ s.n, s.n }, { dtype = s.a:dtype() })
  local r, n = fused.propagate(zero, nothing, mt(keep):matmul(mt(transitions_out(s))), apply(mt(weighed), v),
    linear_system.symmetric(mt(weighed):matmul(c)), s.steps, true)
  local mean, cov = before_mean + apply(before_cov, r), before_cov - before_cov:matmul(n):matmul(before_cov)
  if s.predicted and s.steps == 1 then
    return mean, linear_system.symmetric(cov)
  end
  local all_mean, all_cov, x = smoothing.chain(s, f.mean, f.cov)
  local from = s.predicted and 2 or 1
  local va = all_cov:slice(1, 1, x.steps):matmul(mt(x.a))
  local told = n:slice(1, from, s.steps):matmul(before_cov:slice(1, from, s.steps))
  local lag = va:matmul(linear_system.unit(c, s.n) - told)
  if not s.predicted then
    local v0a = va:select(1, 1)
    local first = all_mean:select(1, 1) + apply(v0a, r:select(1, 1))
    mean = core.concatenate({ first:unsqueeze(1), mean }, 1)
    local first_cov = all_cov:select(1, 1) - v0a:matmul(n:select(1, 1)):matmul(mt(v0a))
    cov = core.concatenate({ first_cov:unsqueeze(1), cov }, 1)
  end
  return mean, linear_system.symmetric(cov), lag
end

--- Two filters (Fraser & Potter 1969): that of the past with that of the future, which is on precisions and knows
--- nothing at the end: V~ = (1 + V L)^-1 V, m~ = (1 + V L)^-1 (m + V e) with the future's precision L and e.
function smoothing.two_filter(s, f)
  local path, y = filtering.without_offsets(s)
  local gained, information, code = filtering.evidence(s, y)
  if not gained then
    return nil, information, code
  end
  local mean, cov, x = smoothing.chain(s, f.mean, f.cov)
  local whole = { s.steps, table.unpack(s.lead) }
  local zero = f.mean:select(1, 1):detach() * 0
  local nothing = core.zeros({ s.n, s.n }, { dtype = s.a:dtype() })
  local precision, pull = spread(nothing, { 1, table.unpack(s.lead) }, 2), zero:unsqueeze(1)
  if x then
    local a, q = x.a, x:timed "q" and x.q:size(1) > 1 and x.q:flip(1) or x.q
    gained, information = spread(gained, whole, 2), spread(information, whole, 1)
    local from = s.steps - x.steps + 1
    local out = mt(spread(transitions_out(s), whole, 2):slice(1, from, s.steps))
    local m, v, why = filtering.dual(zero, nothing, out:flip(1), information:slice(1, from, s.steps):flip(1),
      gained:slice(1, from, s.steps):flip(1), q, x.steps, s.lead)
    if not m then
      return nil, v, why
    end
    m, v = apply(mt(a), m:flip(1)), mt(a):matmul(v:flip(1)):matmul(a)
    precision, pull = core.concatenate({ v, precision }, 1), core.concatenate({ m, pull }, 1)
  end
  if path and not s.predicted then
    path = core.concatenate({ zero:unsqueeze(1), path }, 1)
  end
  local centred = path and mean - path or mean
  local both = linear_system.unit(cov, s.n) + cov:matmul(precision)
  local smoothed = both:solve((centred + apply(cov, pull)):unsqueeze(-1)):squeeze(-1)
  return path and smoothed + path or smoothed, linear_system.symmetric(both:solve(cov))
end

return smoothing
