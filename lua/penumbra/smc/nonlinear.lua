--- Kalman filters for systems that are not linear, by approximation of each step with a Gaussian one:
---
---     x_0 ~ N(initial_mean, initial_cov)
---     x_t = transition(x_(t-1), t, u_t) + N(0, transition_cov)
---     y_t = emission(x_t, t, u_t) + N(0, emission_cov),   t = 1 ... T
---
---     local system = {transition = f, transition_cov = q, emission = h, emission_cov = r,
---       initial_mean = m, initial_cov = p}
---     pn.smc.extended(system, y)         slopes of f and h at the mean
---     pn.smc.unscented(system, y)        moments of a few points sent through f and h
---     pn.smc.ensemble(system, y, {num_particles = 200})      moments of an ensemble
---
--- f and h are functions of tensors [..., n] with any leading axes (several states at once), of the number of the step
--- from 1 on and of the inputs at that step, if there are any; they give [..., n] and [..., p]. Noises are covariances,
--- [n, n] and [p, p] or with the batch axes of y in front, or functions of t that give these. Time is the leading axis
--- of y, [T, B..., p]; initial_mean [n] or [B..., n], initial_cov [n, n] or [B..., n, n].
---
--- Each gives a table of mean [T, B..., n] and cov [T, B..., n, n] of the states given the observations up to each
--- step; predicted_mean and predicted_cov, given those before it; log_prob [T, B...] of y_t given those before it,
--- log_likelihood [B...], their sum. All of it is exact where f and h are linear (the ensemble's but for the error of
--- its draws) and differentiable in whatever f, h and the system depend on.
---
--- A pn.smc.linear_system, or a table of its parts, may stand in place of such a system, with the conventions of
--- pn.help "penumbra.smc.kalman".
---
--- Options of all three: inputs, u [T, ...]; observed, bool, shaped like y: false where an element is missing, as NaN
--- is by itself (true: all is there, y is not looked at); first = "initial", or "predicted": the initial state is
--- that of the first observation already. nil, message, code where a covariance is not positive definite.
--- Unscented and ensemble filters may stand in a compiled function (pn.compile); the extended one, which takes
--- gradients at points of its own, may not.
-- help: pn.smc
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local linear_system = require "penumbra.smc.kalman.linear_system"
local options = require "penumbra.options"
local system_of = require "penumbra.smc.nonlinear_system"

local nonlinear = {}

local mt, apply, common_options, read, sweep, finish, linear_update, noise_of =
  system_of.mt, system_of.apply, system_of.common_options, system_of.read, system_of.sweep, system_of.finish,
  system_of.linear_update, system_of.noise_of

-- ---- extended ----

-- f(x) [..., m] and its slopes [..., m, n]: m copies of x in one pass back, each for one element of the result. A graph
-- of the slopes is kept only where f(x) depends on something.
local function linearised(f, x, t, m)
  local value = f(x, t)
  local off = recording.is_off()
  local slope = recording.on(function()
    local at = x:requires_grad() and x or core.param(x)
    local shape, unit = x:shape(), { m }
    for i = 2, #shape do
      unit[i] = 1
    end
    unit[#shape + 1] = m
    table.insert(shape, 1, m)
    local order = { [#shape - 1] = 1, [#shape] = #shape } -- the copies' axis goes before the last
    for i = 1, #shape - 2 do
      order[i] = i + 1
    end
    local copies = at:unsqueeze(1):broadcast_to(shape) * 1 -- a node of its own: each copy has its slope
    local pick = core.eye(m, { dtype = x:dtype() }):reshape(unit)
    local graph = { create_graph = not off and value:requires_grad() }
    return core.grad((f(copies, t) * pick):sum(), { copies }, graph)[1]:permute(order)
  end)
  return value, slope
end

local FORM = options.choice("covariance", "square_root")

local extended_options = options.merged(common_options, { smooth = false, steps = 1, form = FORM })

--- extended(system, y [, options]): the extended Kalman filter: f and h are replaced by their tangents at the mean,
--- whose slopes come from the library's own gradients. pn.help "penumbra.smc.nonlinear" tells of the system, the
--- results and the options of all. Further options: smooth = true for smoothed_mean, smoothed_cov of all states given
--- all of y (Rauch, Tung & Striebel on the tangents); steps of each update, linearised anew at its result (1;
--- more: the iterated filter of Bell & Cathey 1993; log_prob is that of the first tangent); form = "square_root" works
--- on roots of covariances, which lose nothing where these are nearly singular.
function nonlinear.extended(system, y, given)
  linear_system.refuse_missing("extended", given)
  local o = options.check("extended", given, extended_options)
  local iterations = options.whole("extended", "steps", o.steps, 1)
  local s = read("extended", system, y, o)
  s.rooted = o.form == "square_root"
  local function predict(mean, cov, t)
    local value, a = linearised(s.f, mean, t, s.n)
    local q, message, code = noise_of(s, s.q, t)
    if not q then
      return nil, message, code
    end
    local _, next_cov = (s.rooted and core.kalman_root_predict or core.kalman_predict)(mean, cov, a, nil, q)
    local onto = cov:matmul(s.rooted and mt(a:matmul(cov)) or mt(a))
    return value, next_cov, onto
  end
  local function update(mean, cov, t)
    local r, message, code = noise_of(s, s.r, t)
    if not r then
      return nil, message, code
    end
    local at, at_cov, log_prob = mean, nil, nil
    for k = 1, iterations do
      local value, a = linearised(s.h, at, t, s.p)
      local new_mean, new_cov, last = linear_update(s, mean, cov, t, a, value - apply(a, at), r)
      if not new_mean then
        return nil, new_cov, last
      end
      log_prob = k == 1 and last or log_prob
      at, at_cov = new_mean, new_cov
    end
    return at, at_cov, log_prob
  end
  return finish(s, o, sweep(s, predict, update))
end

-- ---- unscented ----

-- Weights of 2 n + 1 points for means and covariances, and how far out they stand.
local function sigma_weights(n, o, dtype, rooted)
  local lambda = o.alpha ^ 2 * (n + o.kappa) - n
  if not (n + lambda > 0) then
    core.error(("unscented: alpha^2 (n + kappa) must be positive, got %g for n = %d"):format(n + lambda, n))
  end
  local mean, cov = {}, {}
  for i = 1, 2 * n + 1 do
    mean[i] = i == 1 and lambda / (n + lambda) or 0.5 / (n + lambda)
    cov[i] = i == 1 and mean[1] + 1 - o.alpha ^ 2 + o.beta or mean[i]
  end
  if rooted and cov[1] < 0 then
    core.error(("unscented: with form = 'square_root' no weight may be negative, got %g for the centre"):format(cov[1]))
  end
  local out = { mean = core.tensor(mean, { dtype = dtype }), cov = core.tensor(cov, { dtype = dtype }),
    far = math.sqrt(n + lambda) }
  out.root = rooted and out.cov:sqrt()
  return out
end

-- Points [2 n + 1, ..., n] with this mean and root of the covariance.
local function sigma_points(w, mean, l)
  local order = { l:ndim() }
  for i = 1, l:ndim() - 1 do
    order[i + 1] = i
  end
  local away = l:permute(order) * w.far
  local centre = mean:unsqueeze(1)
  return core.concatenate({ centre, centre + away, centre - away }, 1)
end

local function weighted(w, x)
  local shape = { w:size(1) }
  for i = 2, x:ndim() do
    shape[i] = 1
  end
  return w:reshape(shape) * x
end

local unscented_options = options.merged(common_options, { smooth = false, alpha = 1, beta = 2, kappa = 0,
  form = FORM })

--- unscented(system, y [, options]): the unscented Kalman filter: moments of f and h are those of 2 n + 1 points at
--- mean +- sqrt(alpha^2 (n + kappa)) times the columns of a root of the covariance. pn.help "penumbra.smc.nonlinear"
--- tells of the system, the results and the options of all. Further options: alpha = 1, beta = 2, kappa = 0 (Wan & van
--- der Merwe 2000; Julier & Uhlmann 1997 with alpha = 1, beta = 0, kappa = 3 - n; a small alpha costs digits); smooth =
--- true for smoothed_mean, smoothed_cov (Sarkka 2008). form = "square_root" works on roots (van der Merwe & Wan 2001).
--- Points are drawn anew before each observation.
function nonlinear.unscented(system, y, given)
  linear_system.refuse_missing("unscented", given)
  local o = options.check("unscented", given, unscented_options)
  local s = read("unscented", system, y, o)
  s.rooted = o.form == "square_root"
  local w = sigma_weights(s.n, o, s.mean:dtype(), s.rooted)
  -- f at points around a state: the mean of the result, and deviations from the mean of result and state, [points, ...,
  -- n]; the root that was used
  local function sent(f, mean, cov, t)
    local l = cov
    if not s.rooted then
      local root, message, code = cov:cholesky()
      if not root then
        return nil, message, code
      end
      l = root
    end
    local x = sigma_points(w, mean, l)
    local z = f(x, t)
    local centre = weighted(w.mean, z):sum(1)
    return centre, z - centre, x - mean, l
  end
  local function covariance(a, b)
    return (a:unsqueeze(-1) * weighted(w.cov, b):unsqueeze(-2)):sum(1)
  end
  -- The covariance of deviations and more noise, or a root of it.
  local function with_noise(away, noise, t)
    local q, message, code = noise_of(s, noise, t)
    if not s.rooted then
      return covariance(away, away) + q
    elseif not q then
      return nil, message, code
    end
    local columns, order, shape = weighted(w.root, away), { away:ndim() }, away:shape()
    for i = 1, #shape - 1 do
      order[i] = i + 1
    end
    order[#shape] = 1
    table.remove(shape, 1)
    shape[#shape + 1] = shape[#shape]
    return core.concatenate({ columns:permute(order), q:broadcast_to(shape) }, -1):tria()
  end
  local function predict(mean, cov, t)
    local centre, away, from = sent(s.f, mean, cov, t)
    if not centre then
      return nil, away, from
    end
    local next_cov, message, code = with_noise(away, s.q, t)
    if not next_cov then
      return nil, message, code
    end
    return centre, next_cov, covariance(from, away)
  end
  -- The linear observation with these moments: a = cross' cov^-1, and what it leaves over of the result as noise.
  local function update(mean, cov, t)
    local centre, away, from, l = sent(s.h, mean, cov, t)
    if not centre then
      return nil, away, from
    end
    local a = mt(l:cholesky_solve(covariance(from, away)))
    local r, message, code = with_noise(away - apply(a, from), s.r, t)
    if not r then
      return nil, message, code
    end
    return linear_update(s, mean, cov, t, a, centre - apply(a, mean), r)
  end
  return finish(s, o, sweep(s, predict, update))
end

return nonlinear
