--- The joint law of all observations of a linear Gaussian system, or of its states given them, as one normal: dense
--- matrices, time after time, for sequences short enough for that.
-- help: none
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"

local mt, apply, symmetric, spread = linear_system.mt, linear_system.apply, linear_system.symmetric,
  linear_system.spread

local joint_law = {}

-- 1 where element i of step t was observed, [p]; nil where all were.
local function seen_at(s, t)
  return s.observed and s.observed:select(1, t):to(s.a:dtype())
end

--- The operands of each step of a system that was read, lists with the batch's axes: a, b, q (of step 1 the law of the
--- first state: b its mean, q its covariance, no a), c, d, r. Elements that are not observed are replaced by standard
--- normals that nothing depends on.
function joint_law.steps(s)
  local out = {}
  local function own(name, t, axes)
    local x = s:at(name, t)
    return x and spread(x, s.lead, axes)
  end
  for t = 1, s.steps do
    local o = { a = own("a", t, 2), b = own("b", t, 1), q = own("q", t, 2), c = own("c", t, 2), d = own("d", t, 1),
      r = own("r", t, 2) }
    if t == 1 then
      local mean, cov = spread(s.mean, s.lead, 1), spread(s.cov, s.lead, 2)
      if s.predicted then
        o.b, o.q = mean, cov
      else
        o.q = symmetric(o.a:matmul(cov):matmul(mt(o.a)) + o.q)
        mean = apply(o.a, mean)
        o.b = o.b and mean + o.b or mean
      end
      o.a = nil
    end
    local there = seen_at(s, t)
    if there then
      o.c = o.c * there:unsqueeze(-1)
      o.d = o.d and o.d * there
      o.r = o.r * (there:unsqueeze(-1) * there:unsqueeze(-2)) + (1 - there):diag_embed()
    end
    out[t] = o
  end
  return out
end

-- x with `before` and `after` columns of zeros.
local function padded(x, before, after)
  local list = {}
  local function zeros(n)
    if n > 0 then
      local shape = x:shape()
      shape[#shape] = n
      list[#list + 1] = core.zeros(shape, { dtype = x:dtype() })
    end
  end
  zeros(before)
  list[#list + 1] = x
  zeros(after)
  return #list > 1 and core.concatenate(list, -1) or x
end
joint_law.padded = padded

--- Mean [B..., T p] and covariance [B..., T p, T p] of all observations, from the operands of steps.
function joint_law.observations(steps)
  local T, p = #steps, steps[1].c:size(-2)
  local means, rows, cross, mean, cov = {}, {}, nil, nil, nil
  for t, o in ipairs(steps) do
    if t == 1 then
      mean, cov = o.b, o.q
    else
      local c = steps[t - 1].c
      -- of the observations so far with the state
      local last = c:matmul(cov)
      cross = (cross and core.concatenate({ cross, last }, -2) or last):matmul(mt(o.a))
      mean = apply(o.a, mean)
      mean = o.b and mean + o.b or mean
      cov = symmetric(o.a:matmul(cov):matmul(mt(o.a)) + o.q)
    end
    local y = apply(o.c, mean)
    means[t] = o.d and y + o.d or y
    local own = symmetric(o.c:matmul(cov):matmul(mt(o.c)) + o.r) * 0.5
    rows[t] = padded(cross and core.concatenate({ mt(cross:matmul(mt(o.c))), own }, -1) or own, 0, (T - t) * p)
  end
  local half = T > 1 and core.concatenate(rows, -2) or rows[1]
  return T > 1 and core.concatenate(means, -1) or means[1], half + mt(half)
end

-- Matrices of each step along the diagonal, without a batch.
local function along(steps, name)
  local T, rows = #steps, {}
  for t, o in ipairs(steps) do
    local x = o[name]
    rows[t] = padded(x, (t - 1) * x:size(-1), (T - t) * x:size(-1))
  end
  return T > 1 and core.concatenate(rows, 1) or rows[1]
end

local function stacked(steps, name, n)
  local list = {}
  for t, o in ipairs(steps) do list[t] = o[name] or core.zeros({ n }, { dtype = o.q:dtype() }) end
  return core.concatenate(list, 1)
end

--- p(all states | all observations) of one system, no batch: {precision [T n, T n], gain [T n, T p], offset [T n]}: the
--- mean is gain y + offset. nil, message, code where a transition or emission covariance has no inverse.
function joint_law.posterior(steps)
  local T, n, p = #steps, steps[1].q:size(-1), steps[1].c:size(-2)
  local how = { dtype = steps[1].q:dtype() }
  local rows = {}
  for t, o in ipairs(steps) do
    local row = core.eye(n, how)
    rows[t] = padded(o.a and core.concatenate({ -o.a, row }, -1) or row, o.a and (t - 2) * n or 0, (T - t) * n)
  end
  local differences = T > 1 and core.concatenate(rows, 1) or rows[1]
  local q, c, r = along(steps, "q"), along(steps, "c"), along(steps, "r")
  local by_q, message, code = q:solve(differences)
  if not by_q then
    return nil, message, code
  end
  local by_r, why, kind = r:solve(c)
  if not by_r then
    return nil, why, kind
  end
  local precision = symmetric(mt(differences):matmul(by_q) + mt(c):matmul(by_r))
  local gain = precision:solve(mt(by_r))
  local constant = apply(mt(by_q), stacked(steps, "b", n)) - apply(mt(by_r), stacked(steps, "d", p))
  return { precision = precision, gain = gain, offset = precision:solve(constant) }
end

return joint_law
