--- Expectations under the smoothed states: the parts of the expected complete log likelihood, entropies, Fisher's
--- identity, and the closed-form M-step of EM.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"

local expectation = {}

local mt, apply, outer, spread = linear_system.mt, linear_system.apply, linear_system.outer, linear_system.spread
local HALF_LOG_TAU = 0.91893853320467274178 -- log(2 pi) / 2

-- ---- expected densities ----

local function factor(where, role, x)
  local l, message = x:cholesky()
  if not l then
    core.error(("%s: %s must be positive definite: %s"):format(where, role, message))
  end
  return l
end

-- E log N(e; 0, noise) for e with this mean and covariance; count: elements that are there.
local function expected_density(l, mean, cov, count)
  local weighed = l:cholesky_solve(cov + outer(mean, mean)):diagonal():sum(-1)
  return -(weighed * 0.5 + l:diagonal():log():sum(-1) + count * HALF_LOG_TAU)
end

--- The parts of E log p(x, y) under smoothed moments x {mean, cov, lag_one}: prior, transition, emission [B...].
function expectation.parts(s, x)
  local where, total = s.where, x.mean:size(1)
  local m0, v0 = x.mean:select(1, 1), x.cov:select(1, 1)
  local prior = expected_density(factor(where, "initial_cov", s.cov), m0 - s.mean, v0, s.n)
  local transition
  if total > 1 then
    local count, t = total - 1, s.predicted and s:from(2) or s
    local mean, cov = x.mean:slice(1, 1, count), x.cov:slice(1, 1, count)
    local r = x.mean:slice(1, 2, total) - apply(t.a, mean)
    r = t.b and r - t.b or r
    local cross = t.a:matmul(x.lag_one)
    local spreading = t.a:matmul(cov):matmul(mt(t.a)) + x.cov:slice(1, 2, total) - cross - mt(cross)
    transition = expected_density(factor(where, "transition_cov", t.q), r, spreading, s.n):sum(1)
  else
    transition = prior * 0
  end
  local from = total - s.steps + 1
  local mean, cov = x.mean:slice(1, from, total), x.cov:slice(1, from, total)
  local c, noise, e, count = s:seen_emission(), s.r, s.y - apply(s.c, mean), s.p
  e = s.d and e - s.d or e
  if s.observed then
    local on = s.observed:to(c:dtype())
    e = core.where(s.observed, e, core.zeros({}, { dtype = c:dtype() }))
    noise, count = noise * outer(on, on) + (1 - on):diag_embed(), on:sum(-1)
  end
  local emission = expected_density(factor(where, "emission_cov", noise), e, c:matmul(cov):matmul(mt(c)), count)
  return { prior = prior, transition = transition, emission = emission:sum(1) }
end

-- ---- entropies of the smoothing distribution (S-09 (a), (b), (c)) ----

local function log_det(where, role, x)
  return factor(where, role, x):diagonal():log():sum(-1) * 2
end

local entropies = {}

-- sum_t of 1/2 log |V~_t - V~_(t,t-1) V~_(t-1)^-1 V~_(t-1,t)|, the first without a condition
function entropies.forward(where, x, count)
  local first = log_det(where, "a smoothed covariance", x.cov:select(1, 1))
  if count == 1 then
    return first
  end
  local before, after, lag = x.cov:slice(1, 1, count - 1), x.cov:slice(1, 2, count), x.lag_one
  local l = factor(where, "a smoothed covariance", before)
  local rest = linear_system.symmetric(after - mt(lag):matmul(l:cholesky_solve(lag)))
  return first + log_det(where, "a smoothed covariance", rest):sum(1)
end

-- the same given the state after, the last without a condition
function entropies.backward(where, x, count)
  local last = log_det(where, "a smoothed covariance", x.cov:select(1, -1))
  if count == 1 then
    return last
  end
  local before, after, lag = x.cov:slice(1, 1, count - 1), x.cov:slice(1, 2, count), x.lag_one
  local l = factor(where, "a smoothed covariance", after)
  local rest = linear_system.symmetric(before - lag:matmul(l:cholesky_solve(mt(lag))))
  return last + log_det(where, "a smoothed covariance", rest):sum(1)
end

-- pairs less the states that stand in two of them
function entropies.pairwise(where, x, count)
  if count == 1 then
    return log_det(where, "a smoothed covariance", x.cov:select(1, 1))
  end
  local before, after, lag = x.cov:slice(1, 1, count - 1), x.cov:slice(1, 2, count), x.lag_one
  local pair = core.concatenate({ core.concatenate({ before, lag }, -1), core.concatenate({ mt(lag), after }, -1) }, -2)
  local sum = log_det(where, "a smoothed covariance of two states", pair):sum(1)
  if count == 2 then
    return sum
  end
  return sum - log_det(where, "a smoothed covariance", x.cov:slice(1, 2, count - 1)):sum(1)
end

--- Entropy of all smoothed states: [B...]. form: "forward", "backward", "pairwise".
function expectation.entropy(where, x, form)
  local count, n = x.mean:size(1), x.mean:size(-1)
  return entropies[form](where, x, count) * 0.5 + count * n * (0.5 + HALF_LOG_TAU)
end

-- ---- M-step ----

-- Sums x [.., B..., k, l] over the axes of the batch that a parameter of leading sizes `lead` does not have.
local function pooled(x, lead)
  local have = x:ndim() - 2
  for axis = 1, have do
    local at = axis - have + #lead
    if at < 1 or lead[at] == 1 then
      x = x:sum(axis, true)
    end
  end
  return x
end

local function lead_of(x, own)
  local shape = x:shape()
  return { table.unpack(shape, 1, #shape - own) }
end

-- Without leading axes of 1 that the old value did not have.
local function like(x, old)
  return x:reshape(old:shape())
end

--- One regression: moments of the left side l (mean, covariance) and of the state x, all [T, B..., ...], cov of l
--- with x. pieces: the regressors in order, each {name, old value, rows: constant columns or nil for x}. Updates `s`
--- at the names that are fitted. names: what the parts are called.
local function regress(where, s, names, fitted, moments, inputs)
  local mean, cov, cross = moments.mean, moments.cov, moments.cross
  local x_mean, x_cov = moments.x_mean, moments.x_cov
  local matrix, noise = s[names.matrix], s[names.noise]
  local regressors, blocks = {}, {}
  if not fitted[names.matrix] then
    mean = mean - apply(matrix, x_mean)
    local both = matrix:matmul(mt(cross))
    cov = cov - both - mt(both) + matrix:matmul(x_cov):matmul(mt(matrix))
  else
    regressors[1], blocks[1] = x_mean, { names.matrix, x_mean:size(-1) }
  end
  local whole = mean:shape()
  local ones = x_mean:slice(-1, 1, 1) * 0 + 1
  for _, one in ipairs { { names.offset, ones }, { names.input, inputs } } do
    local name, column = one[1], one[2]
    if s[name] and fitted[name] then
      regressors[#regressors + 1] = spread(column, { table.unpack(whole, 1, #whole - 1) }, 1)
      blocks[#blocks + 1] = { name, column:size(-1) }
    elseif s[name] then
      mean = mean - (name == names.offset and s[name] or apply(s[name], inputs))
    end
  end
  local second = cov + outer(mean, mean)
  if #regressors > 0 then
    local w = #regressors > 1 and core.concatenate(regressors, -1) or regressors[1]
    local size, n = w:size(-1), x_mean:size(-1)
    local lw, ww = outer(mean, w), outer(w, w)
    if fitted[names.matrix] then
      lw = lw + (size > n and cross:pad(-1, 0, size - n) or cross)
      ww = ww + (size > n and x_cov:pad(-1, 0, size - n):pad(-2, 0, size - n) or x_cov)
    end
    local lead = lead_of(s[blocks[1][1]], blocks[1][1] == names.offset and 1 or 2)
    local sum_lw, sum_ww = pooled(lw:sum(1), lead), pooled(ww:sum(1), lead)
    local solved, message = filtering.solve(sum_ww, mt(sum_lw))
    if not solved then
      core.error(("%s: what %s is regressed on must not be collinear: %s"):format(where, blocks[1][1], message))
    end
    local g, at = mt(solved), 1
    for _, block in ipairs(blocks) do
      local name, count = block[1], block[2]
      local value = g:slice(-1, at, at + count - 1)
      s[name] = like(name == names.offset and value:squeeze(-1) or value, s[name])
      at = at + count
    end
    local both = g:matmul(mt(lw))
    second = second - both - mt(both) + g:matmul(ww):matmul(mt(g))
  end
  if fitted[names.noise] then
    local lead = lead_of(noise, 2)
    local sum = pooled(second:sum(1), lead)
    local count = second:numel() / sum:numel()
    s[names.noise] = like(linear_system.symmetric(sum / count), noise)
  end
end

local transition_names = { matrix = "transition", offset = "transition_offset", input = "transition_input",
  noise = "transition_cov" }
local emission_names = { matrix = "emission", offset = "emission_offset", input = "emission_input",
  noise = "emission_cov" }

-- Moments of the observations given all that was observed: those that are missing given the state and the others.
local function observation_moments(s, mean, cov)
  if not s.observed then
    local whole = mean:shape()
    local y = spread(s.y, { table.unpack(whole, 1, #whole - 1) }, 1)
    return y, outer(y, y) * 0, outer(y, mean) * 0
  end
  local on = s.observed:to(s.c:dtype())
  local off, both = 1 - on, outer(on, on)
  local y = core.where(s.observed, s.y, core.zeros({}, { dtype = s.c:dtype() }))
  local seen = s.r * both + off:diag_embed()
  -- noise of all elements given that of those that were observed: k e, and what is left of it
  local kt = seen:cholesky():cholesky_solve(on:unsqueeze(-1) * s.r)
  local k = mt(kt * on:unsqueeze(-1))
  local unit = linear_system.unit(s.c, s.p)
  local pass = on:diag_embed() + k * off:unsqueeze(-1) -- observed rows: the value itself
  local rest = unit - pass
  local j = rest:matmul(s.c)
  local h = apply(pass, y)
  h = s.d and h + apply(rest, s.d) or h
  local left = (s.r - k:matmul(s.r)) * outer(off, off)
  return apply(j, mean) + h, j:matmul(cov):matmul(mt(j)) + left, j:matmul(cov)
end

--- The system that maximises the expected complete log likelihood under smoothed moments x, where `fitted[name]`.
function expectation.maximise(s, x, fitted)
  local new = {}
  for name in pairs(linear_system.rank) do
    new[name] = s.given[name]
  end
  local total = x.mean:size(1)
  local from = total - s.steps + 1
  if total > 1 and (fitted.transition or fitted.transition_offset or fitted.transition_input or
      fitted.transition_cov) then
    local count = total - 1
    regress(s.where, new, transition_names, fitted, { mean = x.mean:slice(1, 2, total), cov = x.cov:slice(1, 2, total),
      cross = mt(x.lag_one), x_mean = x.mean:slice(1, 1, count), x_cov = x.cov:slice(1, 1, count) },
      s.inputs and s.inputs:slice(1, s.steps - count + 1, s.steps))
  end
  if fitted.emission or fitted.emission_offset or fitted.emission_input or fitted.emission_cov then
    local mean, cov = x.mean:slice(1, from, total), x.cov:slice(1, from, total)
    local y, y_cov, cross = observation_moments(s, mean, cov)
    regress(s.where, new, emission_names, fitted, { mean = y, cov = y_cov, cross = cross, x_mean = mean, x_cov = cov },
      s.inputs)
  end
  local first, first_cov = x.mean:select(1, 1), x.cov:select(1, 1)
  if fitted.initial_mean then
    local sum = pooled(first:unsqueeze(-1), lead_of(s.mean, 1))
    new.initial_mean = like(sum / (first:numel() / sum:numel()), s.mean)
  end
  if fitted.initial_cov then
    local away = first - (new.initial_mean or s.mean)
    local second = first_cov + outer(away, away)
    local sum = pooled(second, lead_of(s.cov, 2))
    new.initial_cov = like(linear_system.symmetric(sum / (second:numel() / sum:numel())), s.cov)
  end
  return new
end

local function batch_size(x, own)
  local size = 1
  for axis = 1, x:ndim() - own do
    size = size * x:size(axis)
  end
  return size
end

-- A regression whose noise differs among what is pooled has no closed form.
local function check_group(where, s, names, fitted)
  local widest = s[names.noise]
  for _, name in ipairs { names.matrix, names.offset, names.input } do
    local own = linear_system.rank[name]
    if s[name] and fitted[name] and batch_size(s[name], own) < batch_size(widest, 2) then
      core.error(("%s: %s is one for series whose %s differ: give it the batch's axes, or name it in fixed"):format(
        where, name, names.noise))
    end
  end
end

--- Which parts EM fits: all that the system has but those named in `fixed`. Those must not change with time.
function expectation.fitted(s, fixed)
  local where, fitted = s.where, {}
  for k, name in ipairs(fixed) do
    if type(name) ~= "string" or not linear_system.rank[name] then
      core.error(("%s: fixed[%d] must name a part of the system, got %s%s"):format(where, k, tostring(name),
        options.suggestion(name, { "transition", "transition_offset", "transition_input", "transition_cov",
          "emission", "emission_offset", "emission_input", "emission_cov", "initial_mean", "initial_cov" })))
    end
    fixed[name] = true
  end
  for name, own in pairs(linear_system.rank) do
    local x = s.given[name]
    fitted[name] = x ~= nil and not fixed[name]
    local timed = x ~= nil and not name:find "^initial" and x:ndim() - own > s.batch
    if timed and fitted[name] then
      core.error(("%s: %s changes with time: name it in fixed"):format(where, name))
    elseif timed and name:find "_cov$" then
      local group = name:match "^(.*)_cov$"
      for _, part in ipairs { group, group .. "_offset", group .. "_input" } do
        if s.given[part] and not fixed[part] then
          core.error(("%s: %s cannot be fitted where %s changes with time: name it in fixed"):format(where, part, name))
        end
      end
    end
  end
  check_group(where, s.given, transition_names, fitted)
  check_group(where, s.given, emission_names, fitted)
  return fitted
end

return expectation
