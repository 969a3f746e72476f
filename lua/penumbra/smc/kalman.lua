--- Exact inference in Gaussian linear systems, whole sequences in one C operation.
---
---     x_0 ~ N(initial_mean, initial_cov)
---     x_t = transition x_(t-1) + transition_offset + transition_input u_t + N(0, transition_cov)
---     y_t = emission x_t + emission_offset + emission_input u_t + N(0, emission_cov),   t = 1 ... T
---
---     local system = pn.smc.linear_system{transition = a, transition_cov = q, emission = c, emission_cov = r,
---       initial_mean = m, initial_cov = p}                  or the table itself
---     local f = pn.smc.kalman.filter(system, y)              f.mean [T, n], f.cov [T, n, n], f.log_likelihood ...
---     local x = system:smooth(y)                             x.mean [T, n]; x.initial.mean [n]; x.lag_one
---     system:log_likelihood(y):backward()                    one pass back in time
---
--- Time is the leading axis of y: [T, p], or [T, B..., p] for a batch of series. Whatever the system consists of
--- broadcasts against [T, B...] as NumPy does: emission [p, n] is the same always; [T, p, n] changes with time if there
--- is no batch; for B series [B, p, n] is one for each, [T, 1, p, n] changes with time, [T, B, p, n] both. Offsets are
--- zero where they are not given. States and observations have 1 to 4096 elements
--- (above 32 each series goes alone, by BLAS).
---
--- Options of every function of y:
---   inputs     u [T, B..., m], for transition_input [n, m] and emission_input [p, m]
---   observed   bool, shaped like y: false where an element is missing, whatever stands there. NaN is missing by
---              itself; true: all was observed, and y is not looked at
---   first      "initial" (x_0 comes before the first observation) or "predicted": the initial state is that of the
---              first observation already, as in statsmodels
---
--- Initial states of which nothing is known: diffuse = true, or a list of places in the state, or a matrix [n, k] of
--- directions; exact (Durbin & Koopman 2012, chapter 5), no large number anywhere.
---
--- Several functions return nil, message, code where a covariance that must be inverted cannot be.
-- help: pn.smc.kalman, part
local core = require "penumbra.core"
local options = require "penumbra.options"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"
local recording = require "penumbra.autodiff.recording"
local shared_start = require "penumbra.smc.kalman.shared_start"
local smoothing = require "penumbra.smc.kalman.smoothing"
local diffuse = require "penumbra.smc.kalman.diffuse"
local expectation = require "penumbra.smc.kalman.expectation"
local drawing = require "penumbra.smc.kalman.drawing"
local discretise = require "penumbra.smc.kalman.discretise"
local matrix = require "penumbra.array.matrix"

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

-- Those with a diffuse state, and the augmented filter behind them; each: the filter with covariances for each column,
-- where these are wanted.
local function diffuse_filter(s, each)
  local a = diffuse.augmented(s)
  local f, message, code = (s.n < shared_start.LEAST and plain_filter or each or shared_start.filter)(a)
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

local function filter_system(s, each)
  if s.diffuse then
    return diffuse_filter(s, each)
  end
  return plain_filter(s)
end

-- The states before each observation, of a diffuse filter with delta as it was known then.
local function predictions(s, f, a, augmented, delta)
  if not s.diffuse then
    return filtering.predicted(s, f.mean, f.cov)
  end
  local m, v = diffuse.before(a, augmented)
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
--- form   "covariance"; "square_root": on roots, which lose nothing where covariances are nearly singular (result
---        `root`, no gradient); "information": on precisions (results `precision` and `information`, precision times
---        mean; needs transitions and covariances that can be inverted; starts from diffuse = true too)
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

--- log_likelihood(system, y [, options]) -> [B...]: log p(y), differentiable in all of the system and in y; the
--- gradient is one pass back in time. With a diffuse state the diffuse log likelihood lim (log p(y) + k/2 log kappa)
--- for k directions of variance kappa (Durbin & Koopman 2012, 7.2.2). nil, message, code where an innovation
--- covariance is not positive definite.
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

-- Smoothed moments of a system that was read; nil, message, code.
local function smooth_system(s, method)
  local f, a, augmented, delta = filter_system(s, plain_filter)
  if not f then
    return nil, a, augmented
  end
  local mean, cov, lag = smoothing[method](s.diffuse and a or s, s.diffuse and augmented or f)
  if not mean then
    return nil, s.where .. ": " .. cov, lag
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

--- smooth(system, y [, options]) -> {mean, cov, lag_one, initial}: the states of the T steps given all observations,
--- [T, B..., n] and [T, B..., n, n]; lag_one [T - 1, B..., n, n], the covariances of each with the next; and of x_0
--- initial, {mean, cov, lag_one} without time (none with first = "predicted"). Further option:
---
--- method   "rts" (Rauch, Tung & Striebel), "disturbance" (inverts no covariance of states, so that these may be
---          singular), "two_filter" (no lag_one)
function kalman.smooth(system, y, given)
  local o = linear_system.options("kalman.smooth", given,
    { method = options.choice("rts", "disturbance", "two_filter") })
  local s = linear_system.read("kalman.smooth", system, y, o)
  local x, message, code = smooth_system(s, o.method)
  if not x or s.predicted then
    return x, message, code
  end
  local function later(whole, count)
    return whole and count > 0 and whole:slice(1, 2, count + 1) or nil
  end
  local lag = x.lag_one
  return { mean = later(x.mean, s.steps), cov = later(x.cov, s.steps), lag_one = later(lag, s.steps - 1),
    initial = { mean = x.mean:select(1, 1), cov = x.cov:select(1, 1), lag_one = lag and lag:select(1, 1) } }
end

-- ---- forecasts ----

-- x with `count` steps of this value behind it.
local function lengthened(x, count, value)
  local shape = x:shape()
  shape[1] = count
  return core.concatenate({ x, value and core.full(shape, value, { dtype = x:dtype() })
    or core.zeros(shape, { dtype = x:dtype() }) }, 1)
end

--- forecast(system, y, steps [, options]) -> {mean, cov, state_mean, state_cov}: the next observations and states,
--- [steps, B..., p], [steps, B..., p, p] and the same of the states, given y [T, B..., p]. What changes with time, in
--- the system and among inputs, has the steps to come behind those of y: [T + steps, ...].
function kalman.forecast(system, y, steps, given)
  local where = "kalman.forecast"
  options.whole(where, "steps", steps, 1)
  local o = linear_system.options(where, given)
  y = options.numbers(where, "y", y, "tensor")
  if y:ndim() < 1 then
    core.error(where .. ": y must be [T, ..., p], got a number")
  end
  local last = y:size(1)
  o.observed = o.observed ~= true and o.observed or nil
  if core.is_tensor(o.observed) and o.observed:size(1) == last then
    o.observed = lengthened(o.observed, steps)
  end
  local all = linear_system.read(where, system, lengthened(y, steps, 0 / 0), o)
  local f, message, code = filter_system(all:from(1, last))
  if not f then
    return nil, message, code
  end
  local h = all:from(last + 1)
  local mean, cov = core.gaussian.propagate(f.mean:select(1, -1), f.cov:select(1, -1), h.a, h.b, h.q, steps, false)
  local seen = apply(h.c, mean)
  return { state_mean = mean, state_cov = cov, mean = h.d and seen + h.d or seen,
    cov = linear_system.symmetric(h.c:matmul(cov):matmul(linear_system.mt(h.c)) + h.r) }
end

-- ---- draws ----

local function draws_first(x)
  local order = { 2, 1 }
  for axis = 3, x:ndim() do
    order[axis] = axis
  end
  return x:permute(order)
end

-- Draws [S, T, ...] of the states of the steps, and of x_0 [S, ...] where there is one.
local function apart(s, states)
  states = draws_first(states)
  if s.predicted then
    return states
  end
  return states:slice(2, 2, s.steps + 1), states:select(2, 1)
end

--- sample(system, steps [, options]) -> states [S, T, B..., n], observations [S, T, B..., p], initial [S, B..., n]
--- (x_0; none with first = "predicted"): draws of the prior, reparameterised. Options: draws (1), batch_shape ({}:
--- sizes B...), inputs, first, generator.
function kalman.sample(system, steps, given)
  local where = "kalman.sample"
  options.whole(where, "steps", steps, 1)
  local o = options.check(where, given, { draws = 1, batch_shape = {}, inputs = false, generator = false,
    first = options.choice("initial", "predicted") })
  local s = linear_system.read(where, system, nil, { inputs = o.inputs, first = o.first, steps = steps,
    batch = #o.batch_shape })
  if s.diffuse then
    core.error(where .. ": a diffuse state cannot be drawn; give initial_cov")
  end
  for axis, size in ipairs(o.batch_shape) do
    s.lead[axis] = math.max(s.lead[axis], options.whole(where, "batch_shape[" .. axis .. "]", size, 1))
  end
  local states, seen = drawing.prior(drawing.repeated(s, o.draws), o.generator or nil)
  local after, initial = apart(s, states)
  return after, draws_first(seen), initial
end

--- sample_posterior(system, y [, options]) -> states [S, T, B..., n], initial [S, B..., n] (none with first =
--- "predicted"): joint draws of all states given all observations, reparameterised. Further options: draws (1),
--- generator,
---
--- method   "ffbs" (filters once, samples backwards), "simulation" (Durbin & Koopman 2002: smooths each draw; also for
---          diffuse states and singular covariances)
function kalman.sample_posterior(system, y, given)
  local where = "kalman.sample_posterior"
  local o = linear_system.options(where, given, { draws = 1, generator = false,
    method = options.choice("ffbs", "simulation") })
  local s = linear_system.read(where, system, y, o)
  if o.method == "ffbs" and s.diffuse then
    core.error(where .. ": method 'ffbs' needs a proper initial state, take 'simulation'")
  end
  local states, message, code
  if o.method == "ffbs" then
    local f, why, kind = filter_system(s)
    if not f then
      return nil, why, kind
    end
    states, message, code = drawing.backwards(s, f, o.draws, o.generator or nil)
  else
    states, message, code = drawing.corrected(drawing.repeated(s, o.draws), o.generator or nil, function(one)
      local x, why, kind = smooth_system(one, "disturbance")
      if not x then
        return nil, why, kind
      end
      return x.mean
    end)
  end
  if not states then
    return nil, message, code
  end
  return apart(s, states)
end

-- ---- expectations ----

local function read_proper(where, system, y, o)
  local s = linear_system.read(where, system, y, o)
  if s.diffuse then
    core.error(where .. ": needs a proper initial state, got diffuse")
  end
  return s
end

--- elbo(system, y [, options]) -> {prior, transition, emission, entropy, elbo}, each [B...]: the expected complete log
--- likelihood under the smoothed states in its parts, and their entropy; the sum is the log likelihood exactly. The
--- noises and initial_cov must be positive definite. Further option:
---
--- entropy   "forward", "backward" or "pairwise": by the smoothed states given the one before, given the one after, or
---           by pairs less single ones; the same number. (The covariances are those of the smoothing distribution; the
---           filter's predicted ones in their place, as printed in places, give another number.)
function kalman.elbo(system, y, given)
  local where = "kalman.elbo"
  local o = linear_system.options(where, given, { entropy = options.choice("forward", "backward", "pairwise") })
  local s = read_proper(where, system, y, o)
  local x, message, code = smooth_system(s, "rts")
  if not x then
    return nil, message, code
  end
  local parts = expectation.parts(s, x)
  parts.entropy = expectation.entropy(where, x, o.entropy)
  parts.elbo = parts.prior + parts.transition + parts.emission + parts.entropy
  return parts
end

local function detached(x)
  local out = {}
  for name, value in pairs(x) do
    out[name] = value:detach()
  end
  return out
end

--- fisher_gradient(system, y, parameters [, options]) -> list of gradients of the log likelihood (summed over series)
--- by Fisher's identity, d log p(y) = E[d log p(x, y) | y]: a smoother and no pass back through the filter. The system
--- consists of functions of `parameters`. Equal to what log_likelihood's gradient is.
function kalman.fisher_gradient(system, y, parameters, given)
  local where = "kalman.fisher_gradient"
  options.argument(where, "parameters", parameters, "table")
  local s = read_proper(where, system, y, linear_system.options(where, given))
  local x, message, code = recording.off(smooth_system, s, "rts")
  if not x then
    return nil, message, code
  end
  local parts = expectation.parts(s, detached(x))
  return core.grad((parts.prior + parts.transition + parts.emission):sum(), parameters)
end

local function em_loop(where, system, y, o, fitted)
  local list, converged = {}, false
  for step = 0, o.steps do
    local s = read_proper(where, system, y, o)
    fitted = fitted or expectation.fitted(s, o.fixed)
    local value, message, code = filtering.log_prob(s)
    if not value then
      return nil, message, code
    end
    list[#list + 1] = value:sum():item()
    local before = list[#list - 1]
    converged = before ~= nil and list[#list] - before <= o.tolerance * math.abs(before)
    if step == o.steps or converged then
      break
    end
    local x, why, kind = smooth_system(s, "rts")
    if not x then
      return nil, why, kind
    end
    system = expectation.maximise(s, x, fitted)
  end
  return { system = system, log_likelihood = core.tensor(list), converged = converged, steps = #list - 1 }
end

-- A list of series [T, p], each of its own length, as one tensor [T, B, p], NaN behind the shorter ones.
local function side_by_side(where, list)
  local first, most = list[1], 0
  for k, y in ipairs(list) do
    options.argument(where, ("y[%d]"):format(k), y, "tensor")
    if y:ndim() ~= 2 or y:size(1) == 0 or y:size(2) ~= first:size(-1) or y:dtype() ~= first:dtype() then
      core.error(("%s: y[%d] must be %s of shape [T, %d] as the first is, got %s [%s]"):format(where, k, first:dtype(),
        first:size(-1), y:dtype(), table.concat(y:shape(), ", ")))
    end
    most = math.max(most, y:size(1))
  end
  local columns = {}
  for k, y in ipairs(list) do
    local gap = core.full({ most - y:size(1), y:size(2) }, 0 / 0, { dtype = y:dtype() })
    columns[k] = core.concatenate({ y, gap }, 1)
  end
  return core.stack(columns, 2)
end

--- em(system, y [, options]) -> {system, log_likelihood, steps, converged}: maximum likelihood by
--- expectation-maximisation (Shumway & Stoffer 1982) from the values that the system has; log_likelihood, summed over
--- series, before the first step and after each. All parts that the system has are fitted; offsets and inputs are
--- regressed on together with the matrix beside them. A part without the batch's axes is pooled over all series, one
--- with them is fitted to each. Missing elements of y count with their expectation given the state and what was
--- observed. y may be a list of series [T, p] of lengths of their own. Further options:
---
--- steps       at most (100)
--- tolerance   stop when the log likelihood gains less than this share of itself (0: never before)
--- fixed       names of parts that keep their values, {"emission", "emission_cov"}; what changes with time must be one
function kalman.em(system, y, given)
  local where = "kalman.em"
  local o = linear_system.options(where, given, { steps = 100, tolerance = 0, fixed = {} })
  o.fixed = { table.unpack(o.fixed) }
  if type(y) == "table" and core.is_tensor(y[1]) then
    y = side_by_side(where, y)
  end
  return recording.off(em_loop, where, system, y, o)
end

-- ---- continuous time ----

--- discretise{drift =, diffusion =, step =, offset =} -> {transition, transition_cov, transition_offset}: dx =
--- (drift x + offset) dt + dw with E dw dw^T = diffusion dt, observed after steps of the lengths `step` (a number, or
--- [T]: then all results have a time axis; [T, 1] or [T, B] for a batch), exactly, by the matrix exponential (Van
--- Loan 1978).
function kalman.discretise(given)
  return discretise.system("kalman.discretise", given)
end

--- matrix_exponential(x): e^x of matrices [..., n, n], by scaling and squaring with a Padé approximant of order 13
--- (Higham 2005): pn.matrix_exp.
function kalman.matrix_exponential(x)
  options.argument("kalman.matrix_exponential", "x", x, "tensor")
  if x:ndim() < 2 or x:size(-1) ~= x:size(-2) then
    core.error(("kalman.matrix_exponential: x must be [..., n, n], got [%s]"):format(table.concat(x:shape(), ", ")))
  end
  return matrix.matrix_exp(x)
end

return kalman
