--- Exact conditioning gaps of linear Gaussian systems: what the best posterior q(z_t | C_t) of each step loses that may
--- not see all that the true one p(z_t | z_(t-1), x_t ... x_T) sees (Bayer et al. 2021, in closed form).
---
--- Backwards in time log p(x_t ... x_T | z_t) = -z M z / 2 + zeta z + const, zeta affine in x_t ... x_T; the true
--- posterior of z_t has the covariance S = (Q^-1 + M)^-1 and the mean S (Q^-1 (A z_(t-1) + b) + zeta). The best q has
--- the same covariance and the expectation of zeta given what it sees, under the law of the data; it loses
--- tr(S Cov[zeta | C_t]) / 2. That is the best q of all where C_t holds z_(t-1) and each step sees what earlier ones
--- saw (or all that follows); else the best linear Gaussian q is searched (pn.help "penumbra.gap.linear_family").
-- help: pn.gap
local core = require "penumbra.core"
local joint_law = require "penumbra.gap.joint_law"
local linear_family = require "penumbra.gap.linear_family"
local linear_system = require "penumbra.smc.kalman.linear_system"
local masks = require "penumbra.gap.mask"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"

local mt, apply, symmetric, spread = linear_system.mt, linear_system.apply, linear_system.symmetric,
  linear_system.spread

local linear_gaussian = {}

local LOG_TAU = core.log_2pi
local MOST = 4096 -- rows of the dense matrices of all steps

-- ---- the law of the data ----

local function read_observed(where, given, T, p)
  if given == false or given == nil then
    return nil
  end
  options.argument(where, "observed", given, "tensor")
  if given:dtype() ~= "bool" or table.concat(given:shape(), " ") ~= T .. " " .. p then
    core.error(("%s: observed must be bool [%d, %d], got %s [%s]"):format(where, T, p, given:dtype(),
      table.concat(given:shape(), ", ")))
  end
  return given
end

-- Mean and covariance that were given, with what is not observed replaced as joint_law.steps does it.
local function given_moments(where, data, s)
  local size, dtype = s.steps * s.p, s.a:dtype()
  local o = options.check(where .. ": data", data, { mean = options.optional(), cov = options.required() })
  local cov = options.numbers(where, "data.cov", o.cov, "tensor")
  if cov:ndim() < 2 or cov:size(-1) ~= size or cov:size(-2) ~= size or cov:dtype() ~= dtype then
    core.error(("%s: data.cov must be %s [..., %d, %d] (all observations, step after step), got %s [%s]"):format(where,
      dtype, size, size, cov:dtype(), table.concat(cov:shape(), ", ")))
  end
  local mean = o.mean and options.numbers(where, "data.mean", o.mean, "tensor") or core.zeros({ size },
    { dtype = dtype })
  if mean:size(-1) ~= size then
    core.error(("%s: data.mean must be [..., %d], got [%s]"):format(where, size, table.concat(mean:shape(), ", ")))
  end
  if s.observed then
    local there = s.observed:to(dtype):reshape { size }
    cov = cov * (there:unsqueeze(-1) * there:unsqueeze(-2)) + (1 - there):diag_embed()
    mean = mean * there
  end
  return spread(mean, s.lead, 1), spread(cov, s.lead, 2)
end

-- Mean and covariance of the data, with no graph.
local function data_law(where, o, s, steps)
  if o.data == nil then
    return joint_law.observations(steps)
  elseif type(o.data) == "table" and rawget(o.data, "cov") and not rawget(o.data, "transition") then
    return given_moments(where, o.data, s)
  end
  local other = linear_system.read(where, o.data, nil, { inputs = o.inputs, first = o.first, steps = s.steps,
    batch = s.batch })
  if other.a:dtype() ~= s.a:dtype() then
    core.error(("%s: data must be %s as the model is, got %s (convert with :to)"):format(where, s.a:dtype(),
      other.a:dtype()))
  elseif other.p ~= s.p then
    core.error(("%s: data must be a system of %d observed elements as the model is, got %d"):format(where, s.p,
      other.p))
  elseif other.diffuse then
    core.error(where .. ": data needs a proper initial state, got diffuse")
  end
  for axis, size in ipairs(other.lead) do
    if s.lead[axis] ~= size and size ~= 1 and s.lead[axis] ~= 1 then
      core.error(("%s: data has a batch of %d where the model has %d"):format(where, size, s.lead[axis]))
    end
    s.lead[axis] = math.max(s.lead[axis], size)
  end
  other.lead, other.observed = s.lead, s.observed
  return joint_law.observations(joint_law.steps(other))
end

-- E log p(x) under the data's law; constants of what is not observed taken out.
local function expected_log_prob(s, steps, mean, cov)
  local own_mean, own_cov = joint_law.observations(steps)
  local root, message, code = own_cov:cholesky()
  if not root then
    return nil, message, code
  end
  local off = (mean - own_mean):unsqueeze(-1)
  local size = s.steps * s.p
  local value = (root:diagonal():log():sum(-1) * 2 + root:cholesky_solve(cov):diagonal():sum(-1)
    + root:solve_triangular(off):square():sum { -2, -1 } + size * LOG_TAU) * -0.5
  if s.observed then
    local missing = size - s.observed:to(cov:dtype()):sum():item()
    value = value + missing * (LOG_TAU + 1) / 2
  end
  return value
end

-- ---- the true posterior of each step ----

-- x with a x = v for vectors v [..., n].
local function solved(a, v)
  return a:solve(v:unsqueeze(-1)):squeeze(-1)
end

-- {cov, gain, message, constant, offset} of each step: zeta is message [.., n, T p] times all of x and constant
-- [.., n]; offset is what the transition adds; nil, message, code.
local function true_posterior(s, steps)
  local T, p, out = s.steps, s.p, {}
  local unit = linear_system.unit(s.a, s.n)
  local precision, message, constant
  for t = T, 1, -1 do
    local o = steps[t]
    local weighed, why, code = o.r:solve(o.c)
    if not weighed then
      return nil, "linear_gaussian: emission_cov has no inverse: " .. why, code
    end
    local j = mt(weighed)
    local own = o.d and -apply(j, o.d) or apply(j, core.zeros({ p }, { dtype = j:dtype() }))
    precision = precision and precision + j:matmul(o.c) or j:matmul(o.c)
    precision = symmetric(precision)
    message = message and core.concatenate({ j, message }, -1) or j
    constant = constant and constant + own or own
    local blend = unit + o.q:matmul(precision)
    local cov = symmetric(blend:solve(o.q))
    out[t] = { cov = cov, message = joint_law.padded(message, (t - 1) * p, 0), constant = constant,
      gain = o.a and blend:solve(o.a), offset = o.b and solved(blend, o.b),
      filtering_cov = symmetric((unit + o.q:matmul(j:matmul(o.c))):solve(o.q)) }
    if t > 1 then
      local a = mt(o.a)
      local back = unit + precision:matmul(o.q)
      constant = apply(a, solved(back, o.b and constant - apply(precision, o.b) or constant))
      message = a:matmul(back:solve(message))
      precision = symmetric(a:matmul(back:solve(precision:matmul(o.a))))
    end
  end
  return out
end

-- ---- what is seen of the rest ----

-- Places of the elements of the steps in `seen`, then of all others: int64 [T p] from 0, and how many are seen.
local function order_of(seen, T, p)
  local there, places = {}, {}
  local function add(t)
    for i = 0, p - 1 do places[#places + 1] = (t - 1) * p + i end
  end
  for _, t in ipairs(seen) do
    there[t] = true
    add(t)
  end
  for t = 1, T do
    if not there[t] then add(t) end
  end
  return places, #seen * p
end

-- For each step: `rest`, the factor of the covariance of what is not seen given what is, `regression` of the one on
-- the other, and the places. Prefixes share one factorisation.
local function conditionals(mask, s, cov)
  local roots, out = {}, {}
  for t = 1, s.steps do
    local places, count = order_of(mask.seen[t], s.steps, s.p)
    local key = table.concat(places, " ")
    local index = core.tensor(places, { dtype = "int64" })
    if not roots[key] then
      local root, message, code = cov:take(-1, index):take(-2, index):cholesky()
      if not root then
        return nil, "linear_gaussian: the covariance of the data is singular: " .. message, code
      end
      roots[key] = root
    end
    local root, size = roots[key], #places
    local c = { index = index, count = count, size = size }
    if count < size then
      c.rest = root:slice(-2, count + 1, size):slice(-1, count + 1, size)
      if count > 0 then -- L_21 L_11^-1
        local own, cross = root:slice(-2, 1, count):slice(-1, 1, count), root:slice(-2, count + 1, size)
          :slice(-1, 1, count)
        c.regression = mt(own:solve_triangular(mt(cross), false, true))
      end
    end
    out[t] = c
  end
  return out
end

-- A step's gap [B...], and the weights [B..., n, T p] and offset of its best q.
local function best_step(truth, c, mean)
  local message = truth.message:take(-1, c.index)
  local known = c.count > 0 and message:slice(-1, 1, c.count) or nil
  local average = mean:take(-1, c.index)
  local constant, lost = truth.constant, nil
  if c.rest then
    local hidden = message:slice(-1, c.count + 1, c.size)
    local spread_of = hidden:matmul(c.rest)
    lost = (truth.cov:matmul(spread_of) * spread_of):sum { -2, -1 } * 0.5
    constant = constant + apply(hidden, average:slice(-1, c.count + 1, c.size))
    if known and c.regression then
      local through = hidden:matmul(c.regression)
      known = known + through
      constant = constant - apply(through, average:slice(-1, 1, c.count))
    end
  end
  lost = lost or truth.cov:sum { -2, -1 } * 0
  local weights = truth.message * 0
  if known then
    local place = c.index:slice(1, 1, c.count)
    local wide = truth.cov:matmul(known)
    weights = wide:take_add(-1, place, c.size)
  end
  local offset = apply(truth.cov, constant)
  return lost, weights, truth.offset and offset + truth.offset or offset
end

local function matrix_form(s, truth, mask, mean, cov)
  local seen, why, kind = recording.off(conditionals, mask, s, cov)
  if not seen then
    return nil, why, kind
  end
  local gaps, covs, gains, weights, offsets, filtering = {}, {}, {}, {}, {}, {}
  for t = 1, s.steps do
    gaps[t], weights[t], offsets[t] = best_step(truth[t], seen[t], mean)
    covs[t], gains[t], filtering[t] = truth[t].cov, truth[t].gain or truth[t].cov * 0, truth[t].filtering_cov
  end
  local w = core.stack(weights, 1)
  local shape = w:shape()
  shape[#shape], shape[#shape + 1] = s.steps, s.p
  return { gaps = core.stack(gaps, 1), gap = core.stack(gaps, 1):sum(1), cov = core.stack(covs, 1),
    gain = core.stack(gains, 1), weights = w:reshape(shape), offset = core.stack(offsets, 1),
    filtering_cov = core.stack(filtering, 1), method = "matrix form", exact = true, settled = true }
end

-- ---- the function ----

local known = { steps = options.required "number", conditioning = options.any "partial",
  prefix = options.optional "number", hold = false, data = options.optional(), inputs = false,
  first = options.choice("initial", "predicted"),
  observed = options.optional "tensor", method = options.choice("auto", "matrix", "optimisation"), batch_shape = {},
  starts = 2, seed = 1, max_steps = 500, tolerance = 1e-7 }

local function read_system(where, system, o, T)
  local s = linear_system.read(where, system, nil, { inputs = o.inputs, first = o.first, steps = T,
    batch = #o.batch_shape })
  if s.diffuse then
    core.error(where .. ": needs a proper initial state, got diffuse")
  elseif T * math.max(s.n, s.p) > MOST then
    core.error(("%s: steps must be at most %d for %d states and %d observed elements (dense matrices of all), got %d")
      :format(where, MOST // math.max(s.n, s.p), s.n, s.p, T))
  end
  for axis, size in ipairs(o.batch_shape) do
    s.lead[axis] = math.max(s.lead[axis], options.whole(where, "batch_shape[" .. axis .. "]", size, 1))
  end
  s.observed = read_observed(where, o.observed, T, s.p)
  return s
end

-- The way the gap is found.
local function way(where, o, mask, s)
  local method = o.method
  if method == "auto" then
    method = mask.nested and "matrix" or "optimisation"
  elseif method == "matrix" and not mask.nested then
    core.error(("%s: conditioning '%s' has no matrix form (it leaves out z_(t-1), or steps forget what earlier ones "
      .. "saw): take method = 'optimisation'"):format(where, mask.name))
  end
  if method == "optimisation" and s.batch > 0 then
    core.error(where .. ": the best linear Gaussian q is searched for one system at a time, not for a batch")
  end
  return method
end

--- linear_gaussian(system, {steps = T, conditioning = "partial", ...}) -> {gap [B...], gaps [T, B...], bound,
--- log_likelihood, ...}: what the best q(z_t | C_t) of a linear Gaussian system (pn.smc.linear_system) loses, in nats
--- a sequence: gap, that of each step, E log p(x), and bound = log_likelihood - gap, the highest evidence lower bound
--- there is. All are differentiable in the system; the data's law is not, q is held at its optimum (the envelope
--theorem). -
--- Options:
---   conditioning   what q may see: a name, or a table; prefix, hold: pn.help "penumbra.gap.mask"
---   data       the law of the data: another system, or {mean =, cov =} of all observations [T p], [T p, T p], step
---              after step (the model's own)
---   inputs, first     as of the filters; x_0 is summed out. batch_shape {B...}: of a system with leading axes
---   observed   bool [T, p]: elements that are not observed, the same in all sequences
---   method     "matrix": closed, where each step sees z_(t-1) and what earlier steps saw (or all that follows):
---              the best q of all. "optimisation": the best linear Gaussian q, searched by L-BFGS from `starts` starts
---              (2, the second on drawn from `seed`), max_steps (500) each, settled where no element of the gradient
---              exceeds tolerance (1e-7). "auto": the first that applies
---
--- Further results: method and exact, whether it is the optimum over all q or over linear Gaussian ones; settled; mask;
--- note; and q itself, z_t = gain_t z_(t-1) + weights_t x + offset_t + N(0, cov_t): gain [T, B..., n, n] (the first is
--- 0), weights [T, B..., n, T, p], offset [T, B..., n], cov [T, B..., n, n]. Of the matrix form also filtering_cov,
--- that of p(z_t | z_(t-1), x_t). nil, message, code where a covariance has no inverse.
function linear_gaussian.linear_gaussian(system, given)
  local where = "linear_gaussian"
  local o = options.check(where, given, known)
  local T = options.whole(where, "steps", o.steps, 1)
  o.starts = options.whole(where, "starts", o.starts, 1)
  local s = read_system(where, system, o, T)
  local mask = masks.read(where, o.conditioning, T, { prefix = o.prefix, hold = o.hold })
  local method = way(where, o, mask, s)
  local mean, cov = recording.off(data_law, where, o, s, recording.off(joint_law.steps, s))
  local steps = joint_law.steps(s)
  local log_likelihood, message, code = expected_log_prob(s, steps, mean, cov)
  if not log_likelihood then
    return nil, where .. ": the covariance of the observations is singular: " .. message, code
  end
  local truth, result, why, kind
  truth, why, kind = true_posterior(s, steps)
  if truth and method == "matrix" then
    result, why, kind = matrix_form(s, truth, mask, mean, cov)
  elseif truth then
    result, why, kind = linear_family.best(s, steps, truth, mask, mean, cov, o)
  end
  if not result then
    return nil, why, kind
  end
  result.log_likelihood, result.bound = log_likelihood, log_likelihood - result.gap
  result.mask, result.note = mask, mask.note
  return result
end

return linear_gaussian
