--- Exact inference in Gaussian linear systems, whole sequences in one C operation.
---
---     x_0 ~ N(initial_mean, initial_cov)
---     x_t = transition x_(t-1) + transition_offset + transition_input u_t + N(0, transition_noise)
---     y_t = emission x_t + emission_offset + emission_input u_t + N(0, emission_noise),   t = 1 ... T
---
---     local system = {transition = a, transition_noise = q, emission = c, emission_noise = r,
---       initial_mean = m, initial_cov = p}
---     local f = pn.smc.kalman.filter(system, y)              f.mean [T, n], f.cov [T, n, n], f.log_likelihood ...
---     local x = pn.smc.kalman.smooth(system, y)              x.mean [T + 1, n]: x_0 first; x.lag_one
---     pn.smc.kalman.log_likelihood(system, y):backward()     one pass back in time
---
--- Time is the leading axis of y: [T, p], or [T, B..., p] for a batch of series. Whatever the system consists of
--- broadcasts against [T, B...] as NumPy does: emission [p, n] is the same always; [T, p, n] changes with time if there
--- is no batch; for B series [B, p, n] is one for each, [T, 1, p, n] changes with time, [T, B, p, n] both. Offsets are
--- zero where they are not given. States and observations have 1 to 32 elements.
---
--- Options of every function of y:
---   inputs     u [T, B..., m], for transition_input [n, m] and emission_input [p, m]
---   missing    "nan": elements of y that are NaN are missing; otherwise a NaN is an error of the data
---   observed   bool, shaped like y: false where an element is missing, whatever stands there
---   first      "initial" (x_0 comes before the first observation) or "predicted": the initial state is that of the
---              first observation already, as in statsmodels
---
--- Initial states of which nothing is known: diffuse = true, or a list of places in the state, or a matrix [n, k] of
--- directions; exact (Durbin & Koopman 2012, chapter 5), no large number anywhere.
---
--- Several functions return nil, message, code where a covariance that must be inverted cannot be.
local core = require "penumbra.core"
local options = require "penumbra.options"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"
local smoothing = require "penumbra.smc.kalman.smoothing"
local diffuse = require "penumbra.smc.kalman.diffuse"

local kalman = {}

local apply = linear_system.apply

-- ---- filter ----

local function with_likelihood(f)
  f.log_likelihood = f.log_prob and f.log_prob:sum(1)
  return f
end

-- Filtered moments of an ordinary system.
local function plain_filter(s)
  local mean, cov, log_prob = filtering.covariance(s)
  if not mean then
    return nil, cov, log_prob
  end
  return { mean = mean, cov = cov, log_prob = log_prob }
end

-- Those with a diffuse state, and the augmented filter behind them.
local function diffuse_filter(s)
  local a = diffuse.augmented(s)
  local f, message, code = plain_filter(a)
  if not f then
    return nil, message, code
  end
  local delta, why, kind = diffuse.posterior(a, f)
  if not delta then
    return nil, why, kind
  end
  local mean, cov = diffuse.absorbed(f.mean, f.cov, delta.mean, delta.cov)
  local g = { mean = diffuse.where_known(delta.known, mean, 1, 0 / 0), known = delta.known,
    cov = diffuse.where_known(delta.known, cov, 2, 1 / 0), log_prob = diffuse.log_prob(f.log_prob, delta) }
  return g, a, f, delta
end

local function filter_system(s)
  if s.diffuse then
    return diffuse_filter(s)
  end
  return plain_filter(s)
end

-- The states before each observation, of a diffuse filter with delta as it was known then.
local function predictions(s, f, a, augmented, delta)
  if not s.diffuse then
    return filtering.predicted(s, f.mean, f.cov)
  end
  local m, v = filtering.predicted(a, augmented.mean, augmented.cov)
  local steps = s.steps
  local function before(x, fill)
    local first = core.full({ 1, table.unpack(x:shape(), 2) }, fill, { dtype = x:dtype() })
    return steps > 1 and core.concatenate({ first, x:slice(1, 1, steps - 1) }, 1) or first
  end
  local mean, cov = diffuse.absorbed(m, v, before(delta.mean, 0), before(delta.cov, 0))
  local known = before(delta.known:to(mean:dtype()), 0):gt(0)
  return diffuse.where_known(known, mean, 1, 0 / 0), diffuse.where_known(known, cov, 2, 1 / 0)
end

local function square_root_filter(s)
  if s.diffuse then
    core.error "kalman.filter: form 'square_root' needs a proper initial state, got diffuse"
  end
  local mean, root, log_prob = filtering.square_root(s)
  if not mean then
    return nil, root, log_prob
  end
  local cov = root:matmul(linear_system.mt(root))
  local m, v = filtering.predicted(s, mean, cov)
  return with_likelihood { mean = mean, cov = cov, root = root, predicted_mean = m, predicted_cov = v,
    log_prob = log_prob }
end

local function information_filter(s)
  if s.predicted then
    core.error "kalman.filter: form 'information' needs first = 'initial'"
  end
  local precision, information, path = filtering.information(s)
  if not precision then
    return nil, information, path
  end
  local f = { precision = precision, information = information }
  local cov, message, code = filtering.solve(precision, linear_system.unit(precision, s.n))
  if not cov then
    if s.diffuse then -- some of the first precisions have no inverse
      return f
    end
    return nil, message, code
  end
  cov = linear_system.symmetric(cov)
  f.mean = apply(cov, information)
  f.mean, f.cov = path and f.mean + path or f.mean, cov
  if path then
    f.information = apply(precision, f.mean)
  end
  if not s.diffuse then
    f.predicted_mean, f.predicted_cov = filtering.predicted(s, f.mean, f.cov)
    local _, _, log_prob = core.kalman_update(f.predicted_mean, f.predicted_cov, s.y, s.c, s.d, s.r,
      { observed = s.observed })
    f.log_prob = log_prob
  end
  return with_likelihood(f)
end

--- filter(system, y [, options]) -> {mean, cov, predicted_mean, predicted_cov, log_prob, log_likelihood}: the states
--- given the observations up to and before each step, [T, B..., n] and [T, B..., n, n]; log_prob [T, B...] of y_t given
--- those before it; log_likelihood [B...], their sum. All differentiable. See pn.help "penumbra.smc.kalman" for the
--- system and the options of all functions. Further option:
---
--- form   "covariance"; "square_root": on roots, which lose nothing where covariances are nearly singular (result `root`,
---        no gradient); "information": on precisions (results `precision` and `information`, precision times mean; needs
---        transitions and covariances that can be inverted; starts from diffuse = true too)
---
--- With a diffuse state mean is NaN and cov infinite until the observations determine the state; log_prob is 0 before
--- that, all of the diffuse log likelihood so far at the step that does.
function kalman.filter(system, y, given)
  local o = linear_system.options("kalman.filter", given,
    { form = options.choice("covariance", "square_root", "information") })
  local s = linear_system.read("kalman.filter", system, y, o)
  if o.form == "square_root" then
    return square_root_filter(s)
  elseif o.form == "information" then
    return information_filter(s)
  end
  local f, a, augmented, delta = filter_system(s)
  if not f then
    return nil, a, augmented
  end
  f.predicted_mean, f.predicted_cov = predictions(s, f, a, augmented, delta)
  f.known = nil
  return with_likelihood(f)
end

--- log_likelihood(system, y [, options]) -> [B...]: log p(y), differentiable in all of the system and in y; the gradient
--- is one pass back in time. With a diffuse state the diffuse log likelihood lim (log p(y) + k/2 log kappa) for k
--- directions of variance kappa (Durbin & Koopman 2012, 7.2.2). nil, message, code where an innovation covariance is not
--- positive definite.
function kalman.log_likelihood(system, y, given)
  local o = linear_system.options("kalman.log_likelihood", given)
  local s = linear_system.read("kalman.log_likelihood", system, y, o)
  if s.diffuse then
    local f, message, code = diffuse_filter(s)
    if not f then
      return nil, message, code
    end
    return f.log_prob:sum(1)
  end
  local log_prob, message, code = filtering.log_prob(s)
  if not log_prob then
    return nil, message, code
  end
  return log_prob:sum(1)
end

-- ---- smoother ----

--- smooth(system, y [, options]) -> {mean, cov, lag_one}: the states given all observations, [T + 1, B..., n] and
--- [T + 1, B..., n, n] with x_0 first (T of them with first = "predicted"), and lag_one [T, B..., n, n], the covariances of
--- each with the next. Further option:
---
--- method   "rts" (Rauch, Tung & Striebel), "disturbance" (inverts no covariance of states, so that these may be
---          singular), "two_filter" (no lag_one)
function kalman.smooth(system, y, given)
  local o = linear_system.options("kalman.smooth", given,
    { method = options.choice("rts", "disturbance", "two_filter") })
  local s = linear_system.read("kalman.smooth", system, y, o)
  local f, a, augmented, delta = filter_system(s)
  if not f then
    return nil, a, augmented
  end
  local mean, cov, lag = smoothing[o.method](s.diffuse and a or s, s.diffuse and augmented or f)
  if not mean then
    return nil, "kalman.smooth: " .. cov, lag
  end
  if s.diffuse then
    local last_mean, last_cov = delta.mean:select(1, -1), delta.cov:select(1, -1)
    local columns, own_cov = diffuse.columns(mean), cov
    mean, cov = diffuse.absorbed(mean, own_cov, last_mean, last_cov)
    if lag then
      local count = lag:size(1)
      lag = lag:select(2, 1) + columns:slice(1, 1, count):matmul(last_cov):matmul(
        linear_system.mt(columns:slice(1, 2, count + 1)))
    end
    local known = delta.known:select(1, -1):unsqueeze(1)
    mean, cov = diffuse.where_known(known, mean, 1, 0 / 0), diffuse.where_known(known, cov, 2, 1 / 0)
  end
  return { mean = mean, cov = cov, lag_one = lag }
end

return kalman
