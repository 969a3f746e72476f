--- Systems that are not linear as their filters take them: reading, one step after the other, smoothing.
-- help: nowhere
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local options = require "penumbra.options"

local shape_text = options.shape_text

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

local common_options = { inputs = options.optional "tensor", observed = options.any(nil),
  first = options.choice("initial", "predicted") }

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

return { mt = mt, outer = outer, apply = apply, common_options = common_options, require_end = require_end, read = read,
  sweep = sweep, finish = finish, linear_update = linear_update, noise_of = noise_of }
