--- The states x_0 ... x_T of a linear system given what it emits, z: paths of draws, and two estimates of log p(z) that
--- are made of such draws. The system is {mean, cov: of x_0; a, b, q, c, d, r: [T, N, ...] or without axes; z [T, N,
--- p]; observed [T, N, p] bool or nil: false where z says nothing; active [T, N] bool or nil: false after the end of a
--- series}. Nothing after the end of a series touches its values.
-- help: nowhere
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local smoothing = require "penumbra.smc.kalman.smoothing"

local state_paths = {}

local fused = core.gaussian
local apply, spread = linear_system.apply, linear_system.spread
local HALF_LOG_TAU = 0.91893853320467274178 -- log(2 pi) / 2

local function factor(x, jitter)
  if jitter > 0 then
    x = x + linear_system.unit(x, x:size(-1)) * jitter
  end
  local l, message = x:cholesky()
  if not l then
    core.error(("a covariance of smoothed states is not positive definite: %s (option jitter)"):format(message))
  end
  return l
end

-- log N(e; 0, q) of diagonal q [..., n, n]: [...]
local function log_density(e, q)
  local variance = q:diagonal()
  return -(e:square() / variance + variance:log()):sum(-1) * 0.5 - e:size(-1) * HALF_LOG_TAU
end

-- Filtered moments of all states [T + 1, N, ...], and the laws of each given the next: {gain, offset, cov} [T, N, ...].
-- Of the last state of a series that ends earlier: its filtered law, whatever comes next.
local function backwards(s)
  local steps, count = s.z:size(1), s.z:size(2)
  local mean, cov, log_prob = fused.filter(s.mean, s.cov, s.a, s.b, s.q, s.z, s.c, s.d, s.r, s.observed)
  if not mean then
    core.error(cov)
  end
  mean = core.concatenate({ spread(s.mean, { count }, 1):unsqueeze(1), mean }, 1)
  cov = core.concatenate({ spread(s.cov, { count }, 2):unsqueeze(1), cov }, 1)
  local n = mean:size(-1)
  local k, message = smoothing.backward_kernel({ steps = steps, a = s.a, b = s.b, q = s.q, n = n }, mean, cov)
  if not k then
    core.error(message)
  end
  if s.active then
    local on = s.active:unsqueeze(-1)
    local zero = core.zeros({}, { dtype = mean:dtype() })
    k.offset = core.where(on, k.offset, mean:slice(1, 1, steps))
    on = on:unsqueeze(-1)
    k.gain, k.cov = core.where(on, k.gain, zero), core.where(on, k.cov, cov:slice(1, 1, steps))
  end
  return k, mean:select(1, -1), cov:select(1, -1), log_prob
end

local function appended(x, last)
  return core.concatenate({ x, last:unsqueeze(1) }, 1)
end

-- sum over steps of x [T, N] where the series goes on; with `first`, x [T + 1, N] begins with x_0's
local function total(s, x, first)
  if s.active then
    local on = s.active
    if first then
      on = core.concatenate({ core.ones({ 1, on:size(2) }, { dtype = "bool" }), on }, 1)
    end
    x = core.where(on, x, core.zeros({}, { dtype = x:dtype() }))
  end
  return x:sum(1)
end

-- log p(x, z) [N] of a path [T + 1, N, n].
local function joint(s, path)
  local steps = s.z:size(1)
  local before, after = path:slice(1, 1, steps), path:slice(1, 2, steps + 1)
  local move, seen = after - apply(s.a, before), s.z - apply(s.c, after)
  move, seen = s.b and move - s.b or move, s.d and seen - s.d or seen
  local emitted = log_density(seen, s.r)
  if s.observed then
    emitted = core.where(s.observed:all(-1), emitted, core.zeros({}, { dtype = emitted:dtype() }))
  end
  return log_density(path:select(1, 1) - s.mean, s.cov) + total(s, log_density(move, s.q) + emitted)
end

local function draws_like(mean, generator)
  return core.randn(mean:shape(), { dtype = mean:dtype(), generator = generator })
end

--- A draw of the path x_0 ... x_T given z, [T + 1, N, n], by forward filtering and backward sampling. After the end of
--- a series stand draws of its filtered states.
function state_paths.sample(s, generator, jitter)
  local k, mean, cov = backwards(s)
  local noise = draws_like(appended(k.offset, mean), generator)
  local last = mean + apply(factor(cov, jitter), noise:select(1, -1))
  local offset = k.offset + apply(factor(k.cov, jitter), noise:slice(1, 1, s.z:size(1)))
  return appended(fused.path(last, k.gain, offset, true), last)
end

local estimates = {}

--- log p(x, z) at one path x ~ p(x | z), and the entropy of p(x | z) in closed form: [N], log p(z) on average. (With
--- log p(x | z) at the path itself in place of the entropy it would be log p(z) at every draw, by Bayes' rule.)
function estimates.joint(s, generator, jitter)
  local k, mean, cov = backwards(s)
  local l = appended(factor(k.cov, jitter), factor(cov, jitter))
  local noise = draws_like(appended(k.offset, mean), generator)
  local shift = apply(l, noise)
  local steps, n = s.z:size(1), mean:size(-1)
  local last = mean + shift:select(1, -1)
  local path = appended(fused.path(last, k.gain, k.offset + shift:slice(1, 1, steps), true), last)
  local entropy = l:diagonal():log():sum(-1) + n * (HALF_LOG_TAU + 0.5)
  return joint(s, path) + total(s, entropy, true)
end

--- The same with x_t drawn from the laws p(x_t | z) of the single states, independent of each other, and the logarithms
--- of these at the draws: on average less than log p(z), by the divergence of their product from p(x | z). So does the
--- published code of Fraccaro, Kamronn, Paquet & Winther 2017.
function estimates.marginal(s, generator, jitter)
  local k, mean, cov = backwards(s)
  local steps, n = s.z:size(1), mean:size(-1)
  local m, v = fused.propagate(mean, cov, k.gain, k.offset, k.cov, steps, true)
  m, v = appended(m, mean), appended(v, cov)
  local l, noise = factor(v, jitter), draws_like(m, generator)
  local minus_log_q = l:diagonal():log():sum(-1) + noise:square():sum(-1) * 0.5 + n * HALF_LOG_TAU
  return joint(s, m + apply(l, noise)) + total(s, minus_log_q, true)
end

--- estimate(s, paths, generator, jitter): an estimate of log p(z) [N] by states drawn "joint" or "marginal".
function state_paths.estimate(s, paths, generator, jitter)
  return estimates[paths](s, generator, jitter)
end

return state_paths
