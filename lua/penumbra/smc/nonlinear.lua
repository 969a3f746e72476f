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
local linear_system = require "penumbra.smc.kalman.linear_system"
local options = require "penumbra.options"

local nonlinear = {}

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

local function mt(x)
  return x:transpose(-1, -2)
end

local function outer(x, y)
  return x:unsqueeze(-1) * y:unsqueeze(-2)
end

local function apply(a, x)
  return a:matmul(x:unsqueeze(-1)):squeeze(-1)
end

-- ---- reading ----

local SYSTEM = { transition = options.required "function", emission = options.required "function",
  transition_cov = options.required(), emission_cov = options.required(), initial_mean = options.required(),
  initial_cov = options.required() }

local function with_common(known)
  known.inputs = options.optional "tensor"
  known.observed = options.any(nil)
  known.first = options.choice("initial", "predicted")
  return known
end

-- Is the last part of t's shape this?
local function ends_in(t, ...)
  local want = { ... }
  for i = 1, #want do
    if t:ndim() < #want or t:size(-#want - 1 + i) ~= want[i] then
      return false
    end
  end
  return true
end

local function require_end(where, role, t, ...)
  if not ends_in(t, ...) then
    core.error(("%s: %s must have shape [..., %s], got %s"):format(where, role, table.concat({ ... }, ", "),
      shape_text(t)))
  end
  return t
end

-- y without missing elements, and bool tensors of what is there, or nil.
local function read_observed(where, y, o)
  local observed = linear_system.observed_of(where, y, o.observed)
  if not observed then
    return y
  elseif shape_text(observed) ~= shape_text(y) then
    core.error(("%s: observed must be bool of y's shape %s, got %s"):format(where, shape_text(y),
      shape_text(observed)))
  end
  return core.where(observed, y, core.zeros({}, { dtype = y:dtype() })), observed
end

local function is_matrix(x)
  return core.is_tensor(x) or type(x) == "table" and not getmetatable(x)
end

-- The maps and noises of a linear system as functions of state and step.
local function of_linear(where, system, y, o)
  local s = linear_system.read(where, system, y, o)
  if s.diffuse then
    core.error(where .. ": needs initial_cov, got a diffuse state")
  end
  local function affine(matrix, offset)
    return function(x, t)
      local value, own = apply(s:at(matrix, t), x), s:at(offset, t)
      return own and value + own or value
    end
  end
  return { transition = affine("a", "b"), emission = affine("c", "d"),
    transition_cov = function(t) return s:at("q", t) end, emission_cov = function(t) return s:at("r", t) end,
    initial_mean = s.mean, initial_cov = s.cov }
end

-- What the three have in common: sizes, y, what is observed and the two functions as functions of state and step.
local function read(where, system, y, o)
  options.argument(where, "system", system, "table")
  linear_system.refuse_other_words(where, system)
  if is_matrix(system.transition) or is_matrix(system.emission) then
    system = of_linear(where, system, y, o)
  end
  local g = options.check(where, system, SYSTEM)
  y = options.numbers(where, "y", y, "tensor")
  if y:ndim() < 2 or y:size(1) < 1 then
    core.error(("%s: y must have shape [T, B..., p] with at least one step, got %s"):format(where, shape_text(y)))
  end
  local s = { where = where, steps = y:size(1), p = y:size(-1), first = o.first,
    lead = table.move(y:shape(), 2, y:ndim() - 1, 1, {}) }
  s.mean = options.numbers(where, "initial_mean", g.initial_mean, "tensor")
  if s.mean:ndim() < 1 then
    core.error(where .. ": initial_mean must have shape [..., n], got []")
  end
  s.n = s.mean:size(-1)
  s.cov = require_end(where, "initial_cov", options.numbers(where, "initial_cov", g.initial_cov, "tensor"), s.n, s.n)
  s.y, s.observed = read_observed(where, y, o)
  if o.inputs and o.inputs:size(1) ~= s.steps then
    core.error(("%s: inputs must have a row for each of %d steps, got %s"):format(where, s.steps, shape_text(o.inputs)))
  end
  local function noise(name, size)
    local given = g[name]
    return function(t)
      local x = given
      if type(given) == "function" then
        x = given(t)
      end
      return require_end(where, name, options.numbers(where, name, x, "tensor"), size, size)
    end
  end
  local function map(name, size)
    local f = g[name]
    return function(x, t)
      local out = f(x, t, o.inputs and o.inputs[t])
      options.argument(where, name .. "'s result", out, "tensor")
      require_end(where, name .. "'s result", out, size)
      return out
    end
  end
  s.q, s.r = noise("transition_cov", s.n), noise("emission_cov", s.p)
  s.f, s.h = map("transition", s.n), map("emission", s.p)
  s.mean = s.mean:broadcast_to(table.move({ s.n }, 1, 1, #s.lead + 1, { table.unpack(s.lead) }))
  s.cov = s.cov:broadcast_to(table.move({ s.n, s.n }, 1, 2, #s.lead + 1, { table.unpack(s.lead) }))
  return s
end

-- ---- one step after the other ----

local NAMES = { "mean", "cov", "predicted_mean", "predicted_cov", "log_prob" }

-- predict(mean, cov, t) -> mean, cov, covariance of the state with the next; update(mean, cov, t) -> mean, cov,
-- log_prob. nil, message, code of either end it. cov is a root of the covariance where s.rooted says so.
local function sweep(s, predict, update)
  local lists, cross = {}, {}
  for _, name in ipairs(NAMES) do
    lists[name] = {}
  end
  local function full(cov)
    return s.rooted and cov:matmul(mt(cov)) or cov
  end
  local mean, cov = s.mean, s.cov
  if s.rooted then
    local root, message, kind = s.cov:cholesky()
    if not root then
      return nil, message, kind
    end
    cov = root
  end
  for t = 1, s.steps do
    if t > 1 or s.first == "initial" then
      mean, cov, cross[t] = predict(mean, cov, t)
      if not mean then
        return nil, cov, cross[t]
      end
    end
    lists.predicted_mean[t], lists.predicted_cov[t] = mean, full(cov)
    local last -- log_prob, or the code of a failure
    mean, cov, last = update(mean, cov, t)
    if not mean then
      return nil, cov, last
    end
    lists.mean[t], lists.cov[t], lists.log_prob[t] = mean, full(cov), last
  end
  local out = {}
  for _, name in ipairs(NAMES) do
    out[name] = core.stack(lists[name], 1)
  end
  out.log_likelihood = out.log_prob:sum(1)
  return out, lists, cross
end

-- Rauch, Tung & Striebel with the covariances of neighbours that the filter has seen.
local function smooth(s, lists, cross)
  local means, covs = { [s.steps] = lists.mean[s.steps] }, { [s.steps] = lists.cov[s.steps] }
  for t = s.steps - 1, 1, -1 do
    local l, message, code = lists.predicted_cov[t + 1]:cholesky()
    if not l then
      return nil, message, code
    end
    local gain = mt(l:cholesky_solve(mt(cross[t + 1])))
    means[t] = lists.mean[t] + apply(gain, means[t + 1] - lists.predicted_mean[t + 1])
    local cov = lists.cov[t] + gain:matmul(covs[t + 1] - lists.predicted_cov[t + 1]):matmul(mt(gain))
    covs[t] = (cov + mt(cov)) * 0.5
  end
  return core.stack(means, 1), core.stack(covs, 1)
end

local function finish(s, o, out, lists, cross)
  if out and o.smooth then
    local mean, cov, code = smooth(s, lists, cross)
    if not mean then
      return nil, s.where .. ": " .. cov, code
    end
    out.smoothed_mean, out.smoothed_cov = mean, cov
  elseif not out then
    return nil, s.where .. ": " .. lists, cross
  end
  return out
end

-- The update by y = a x + d + N(0, r); with roots r is one, too.
local function linear_update(s, mean, cov, t, a, d, r)
  local update = s.rooted and core.kalman_root_update or core.kalman_update
  return update(mean, cov, s.y[t], a, d, r, { observed = s.observed and s.observed[t] })
end

-- The noise at step t, or its root; nil, message, code.
local function noise_of(s, noise, t)
  local x = noise(t)
  if s.rooted then
    return x:cholesky()
  end
  return x
end

-- ---- extended ----

-- f(x) [..., m] and its slopes [..., m, n]: m copies of x in one pass back, each for one element of the result. A graph
-- of the slopes is kept only where f(x) depends on something.
local function linearised(f, x, t, m)
  local value = f(x, t)
  local off = core.set_no_grad(false)
  local ok, slope = pcall(function()
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
  core.set_no_grad(off)
  if not ok then
    error(slope, 0)
  end
  return value, slope
end

local FORM = options.choice("covariance", "square_root")

local extended_options = with_common { smooth = false, steps = 1, form = FORM }

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

local unscented_options = with_common { smooth = false, alpha = 1, beta = 2, kappa = 0, form = FORM }

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

-- ---- ensemble ----

local ensemble_options = with_common { num_particles = options.required "number",
  update = options.choice("stochastic", "transform"), inflation = 1, taper = options.optional "tensor",
  emission_taper = options.optional "tensor", generator = options.optional "generator" }

-- Weighted by what is observed: elements that are not have no deviation, no innovation and variance 1.
local function masked_noise(r, there)
  local unit = core.eye(r:size(-1), { dtype = r:dtype() })
  return r * outer(there, there) + unit * (1 - there):unsqueeze(-1)
end

-- A root of a covariance that is positive definite, or nil, message, code.
local function draw_noise(cov, shape, generator)
  local l, message, code = cov:cholesky()
  if not l then
    return nil, message, code
  end
  return apply(l, core.randn(shape, { generator = generator, dtype = cov:dtype() }))
end

-- Analysis of Evensen (1994) with perturbed observations (Burgers, van Leeuwen & Evensen 1998).
local function stochastic(s, o, x, z, v, r, there, parts)
  local noise, message, code = draw_noise(r, z:shape(), o.generator)
  if not noise then
    return nil, message, code
  end
  noise = noise - noise:mean(1) -- without a mean of its own
  if there then
    noise = noise * there
    v = v * there
  end
  local gain = mt(parts.root:cholesky_solve(mt(parts.cross)))
  return x + apply(gain, v - (z - parts.centre) + noise), s
end

-- The ensemble transform of Bishop, Etherton & Majumdar (2001) by the symmetric root (Hunt, Kostelich & Szunyogh 2007):
-- deviations times (I + w' w)^(-1/2), w whitened deviations of observations [p, N]. With w w' = u diag(k) u' this is
-- I - w' u diag(1 / (sqrt(1 + k) (1 + sqrt(1 + k)))) u' w, so that nothing of N by N elements is needed.
local function transform(_, _, x, z, v, r, _, parts)
  local l, message, code = r:cholesky()
  if not l then
    return nil, message, code
  end
  local count, order, back = x:size(1), {}, { x:ndim() }
  for i = 2, x:ndim() do
    order[i - 1], back[i] = i, i - 1
  end
  order[x:ndim()] = 1
  local white = l:solve_triangular((z - parts.centre):permute(order)) / math.sqrt(count - 1) -- [..., p, N]
  local innovation = l:solve_triangular(v:unsqueeze(-1)) / math.sqrt(count - 1)
  local k, u = white:matmul(mt(white)):eigh()
  local root = (k + 1):sqrt()
  local function by(d, b) -- u diag(d) u' b
    return u:matmul(d:unsqueeze(-1) * mt(u):matmul(b))
  end
  local spread = (x - parts.mean):permute(order) -- [..., n, N]
  local onto = spread:matmul(mt(white))
  local mean = parts.mean + onto:matmul(by((k + 1) ^ -1, innovation)):squeeze(-1)
  return mean + (spread - onto:matmul(by(((root + 1) * root) ^ -1, white))):permute(back)
end

--- ensemble(system, y, {num_particles = N [, ...]}): the ensemble Kalman filter: moments are those of N states that are
--- moved by f with noise of their own, and f is never linearised: for states of any size. pn.help
--- "penumbra.smc.nonlinear" tells of the system, the results and the options of all; further results: ensemble [N,
--- B..., n] at the last step. Noises must be positive definite. Further options:
---
--- update           "stochastic" (perturbed observations) or "transform" (deterministic: the ensemble transform)
--- inflation        1: the factor by which deviations from the mean grow before each update
--- taper            [n, p], for "stochastic": what covariances of states with observations are multiplied with, so that
---                  far ones, which a small ensemble only gets wrong, do not count (see gaspari_cohn)
--- emission_taper   [p, p]: likewise for covariances of observations
--- generator        a pn.generator
function nonlinear.ensemble(system, y, given)
  linear_system.refuse_missing("ensemble", given)
  local o = options.check("ensemble", given, ensemble_options)
  local count = options.whole("ensemble", "num_particles", o.num_particles, 2)
  local s = read("ensemble", system, y, o)
  if o.update == "transform" and (o.taper or o.emission_taper) then
    core.error "ensemble: taper must be absent with update = 'transform'"
  end
  for name, shape in pairs { taper = { s.n, s.p }, emission_taper = { s.p, s.p } } do
    if o[name] then
      require_end("ensemble", name, o[name], table.unpack(shape))
    end
  end
  local shape = table.move(s.mean:shape(), 1, s.mean:ndim(), 2, { count })
  local start, message, code = draw_noise(s.cov, shape, o.generator)
  if not start then
    return nil, "ensemble: initial_cov: " .. message, code
  end
  local x = s.mean + start
  local function covariance(a, b)
    return (a:unsqueeze(-1) * b:unsqueeze(-2)):sum(1) / (count - 1)
  end
  local function summary()
    local mean = x:mean(1)
    return mean, covariance(x - mean, x - mean)
  end
  local function predict(_, _, t)
    local noise, why, kind = draw_noise(s.q(t), shape, o.generator)
    if not noise then
      return nil, why, kind
    end
    x = s.f(x, t) + noise
    if o.inflation ~= 1 then
      local mean = x:mean(1)
      x = mean + (x - mean) * o.inflation
    end
    return summary()
  end
  local function update(_, _, t)
    local z, r = s.h(x, t), s.r(t)
    local there = s.observed and s.observed[t]:to(r:dtype())
    local parts = { centre = z:mean(1), mean = x:mean(1) }
    local v = s.y[t] - parts.centre
    if there then
      z, v, r = parts.centre + (z - parts.centre) * there, v * there, masked_noise(r, there)
    end
    local spread = covariance(z - parts.centre, z - parts.centre)
    parts.cross = covariance(x - parts.mean, z - parts.centre)
    parts.cross = o.taper and parts.cross * o.taper or parts.cross
    local why, kind
    parts.root, why, kind = ((o.emission_taper and spread * o.emission_taper or spread) + r):cholesky()
    if not parts.root then
      return nil, why, kind
    end
    local white = parts.root:solve_triangular(v:unsqueeze(-1)):squeeze(-1)
    local log_prob = -white:square():sum(-1) * 0.5 - mt(parts.root):diagonal():log():sum(-1)
      - 0.5 * math.log(2 * math.pi) * (there and there:sum(-1) or s.p)
    x, why, kind = (o.update == "transform" and transform or stochastic)(s, o, x, z, v, r, there, parts)
    if not x then
      return nil, why, kind
    end
    local mean, cov = summary()
    return mean, cov, log_prob
  end
  local out, lists, cross = sweep(s, predict, update)
  out, message, code = finish(s, o, out, lists, cross)
  if out then
    out.ensemble = x
  end
  return out, message, code
end

--- gaspari_cohn(distance, radius): a taper for pn.smc.ensemble: a correlation that falls smoothly from 1 at distance 0
--- to 0 at 2 radius and is 0 beyond, positive definite in up to three dimensions; of a tensor of distances. Gaspari &
--- Cohn 1999 (4.10).
function nonlinear.gaspari_cohn(distance, radius)
  distance = options.numbers("gaspari_cohn", "distance", distance, "tensor")
  options.argument("gaspari_cohn", "radius", radius, "number")
  if not (radius > 0) then
    core.error(("gaspari_cohn: radius must be positive, got %s"):format(radius))
  end
  local z = distance:abs() / radius
  local near = ((z * -0.25 + 0.5) * z + 0.625) * z ^ 3 - z:square() * (5 / 3) + 1
  local safe = z:clamp(1, math.huge)
  local far = ((safe / 12 - 0.5) * safe + 0.625) * safe ^ 3 + safe:square() * (5 / 3) - safe * 5 + 4 - (2 / 3) / safe
  local none = core.zeros({}, { dtype = z:dtype() })
  return core.where(z:le(1), near, core.where(z:lt(2), far, none))
end

return nonlinear
