--- What stands on the outputs f [N, out] of a network: likelihoods, a row each (Haussmann 2021, 3.1.3, 3.1.7, 4.2.1).
---
---   doc            one line
---   objectives     {name = function(y, mean, variance, o)}: what a datum adds to the bound, [N]; variance nil: mean is
---                  one draw of f
---   default        the name of one of them
---   prepare(y, o, out)       targets as the other functions take them; raises for others
---   predict(mean, variance, f, o)             a table; f draws [S, N, out], nil where the row is closed
---   log_predictive(y, mean, variance, f, o)   log of the averaged density of each datum, [N]
---   closed(o)      are predictions of normal outputs closed, with no draws?
---   wrong(y, mean, p, o)     of each datum, is the most likely value another one? [N]; absent: the error is a distance
---
--- o: {where =, out =, classes =, objective =, noise_precision =, predictive =, draw =}; draw(mean, variance) draws f.
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"
local array = require "penumbra.array"
local normal_outputs = require "penumbra.infer.normal_outputs"

local rows = {}

local HALF_LOG_2PI <const> = 0.5 * core.log_2pi

local function expected(kind, y, m, v, given)
  return normal_outputs.expected_log_likelihood(kind, y, m, v or m:zeros_like(), given)
end

local function log_mean(each)
  return each:logsumexp(1) - math.log(each:size(1))
end

local function shape_text(t)
  return core.is_tensor(t) and options.shape_text(t) or type(t)
end

local function refuse(o, what, y)
  core.error(("%s: y must be %s, got %s"):format(o.where, what, shape_text(y)))
end

-- y [N] or [N, out] of N data as [N, out].
local function as_rows(y, o)
  if not core.is_tensor(y) or y:ndim() < 1 or y:ndim() > 2 then
    refuse(o, "a tensor [N] or [N, out]", y)
  end
  local wide = y:ndim() == 1 and y:unsqueeze(2) or y
  if wide:size(2) ~= o.out then
    refuse(o, ("a tensor with a number for each of the %d outputs"):format(o.out), y)
  elseif not wide:isfinite():all():item() then
    core.error(o.where .. ": y must be finite")
  end
  return wide:to(o.dtype)
end

-- ---- numbers with normal noise ----

rows.normal = {
  doc = "y like the outputs, with normal noise whose precision is learned (3.5, 3.3.1)",
  default = "expected_log",
  objectives = {
    expected_log = function(y, m, v, o)
      return expected("normal", y, m, v, { precision = o.noise_precision }):sum(-1)
    end,
  },
  prepare = as_rows,
  closed = function() return true end,
  predict = function(m, v, _, o)
    return { mean = m, variance = v + 1 / o.noise_precision, spread = v }
  end,
  log_predictive = function(y, m, v, f, o)
    if not f then
      local total = v + 1 / o.noise_precision
      return (((y - m):square() / total + total:log()) * -0.5 - HALF_LOG_2PI):sum(-1)
    end
    local each = ((y - f):square() * o.noise_precision - o.noise_precision:log()) * -0.5 - HALF_LOG_2PI
    return log_mean(each:sum(-1))
  end,
}

-- ---- zeros and ones, one or one against all ----

-- The precision of the normal margin between f and Phi: of the bounds, else none.
local function margin(o)
  return (o.objective == "bound" or o.objective == "printed_bound") and o.noise_precision or nil
end

local function width(v, o)
  local b = margin(o)
  return ((b and 1 / b or 0) + v + 1):sqrt()
end

local function log_expected(y, m, v, o)
  v = v or m:zeros_like()
  return ((y * 2 - 1) * m / width(v, o)):log_ndtr():sum(-1)
end

rows.probit = {
  doc = "zeros and ones by Phi of a margin; labels int64 [N] are one class against all others",
  default = "bound",
  objectives = {
    -- log Phi(s m / sqrt(1 + 1 / b)) - b v / 2
    bound = function(y, m, v, o)
      return expected("probit", y, m, v, { precision = o.noise_precision }):sum(-1)
    end,
    -- as 3.1.7 prints it: log Phi(...) + v
    printed_bound = function(y, m, v, o)
      return (expected("probit", y, m, nil, { precision = o.noise_precision }) + (v or 0)):sum(-1)
    end,
    -- log E Phi(s f) = log Phi(s m / sqrt(1 + v))  (4.4)
    log_expected = log_expected,
    -- E log Phi(s f), which has no closed form: by quadrature
    expected_log = function(y, m, v)
      return expected("probit", y, m, v, { precision = math.huge }):sum(-1)
    end,
  },
  prepare = function(y, o)
    if core.is_tensor(y) and y:dtype() == "int64" and y:ndim() == 1 and o.out > 1 then
      if y:numel() > 0 and (y:min():item() < 0 or y:max():item() >= o.out) then
        refuse(o, ("labels from 0 to %d"):format(o.out - 1), y)
      end
      return array.one_hot(y, o.out, o.dtype)
    end
    local wide = as_rows(y, o)
    if not wide:eq(0):logical_or(wide:eq(1)):all():item() then
      refuse(o, "labels (int64), or zeros and ones", y)
    end
    return wide
  end,
  closed = function() return true end,
  predict = function(m, v, f, o)
    local p = f and (f / width(f:zeros_like(), o)):ndtr():mean(1) or (m / width(v, o)):ndtr()
    return { probabilities = p, mean = m, variance = v }
  end,
  log_predictive = function(y, m, v, f, o)
    if not f then
      return log_expected(y, m, v, o)
    end
    local z = (y * 2 - 1) * f / width(f:zeros_like(), o)
    return log_mean(z:log_ndtr()):sum(-1)
  end,
  classes = function(p)
    return p.mean:size(-1) > 1 and p.mean:argmax(-1) or p.mean:squeeze(-1):gt(0):to "int64"
  end,
  labels = function(y) -- as classes gives them
    return y:size(-1) > 1 and y:argmax(-1) or y:squeeze(-1):to "int64"
  end,
}

-- ---- labels ----

local function log_prob(y, f)
  local wide = y:unsqueeze(-1)
  if f:ndim() == 3 then
    wide = wide:unsqueeze(1):broadcast_to { f:size(1), y:size(1), 1 }
  end
  return f:log_softmax(-1):gather(-1, wide):squeeze(-1)
end

rows.categorical = {
  doc = "labels int64 [N] by softmax",
  default = "taylor",
  objectives = {
    -- m_y - logsumexp(m) - sum v (z - z^2) / 2  (3.1.7)
    taylor = function(y, m, v)
      return v and expected("categorical", y, m, v) or log_prob(y, m)
    end,
    -- the mean over draws of the outputs alone
    draws = function(y, m, v, o)
      if not v then
        return log_prob(y, m)
      end
      return log_prob(y, o.draw(m, v, o.draws.train)):mean(1)
    end,
  },
  prepare = function(y, o)
    if not core.is_tensor(y) or y:dtype() ~= "int64" or y:ndim() ~= 1 then
      refuse(o, "labels, int64 [N]", y)
    elseif y:numel() > 0 and (y:min():item() < 0 or y:max():item() >= o.out) then
      refuse(o, ("labels from 0 to %d"):format(o.out - 1), y)
    end
    return y
  end,
  closed = function(o) return o.predictive == "taylor" end,
  predict = function(m, v, f)
    return { probabilities = f and f:softmax(-1):mean(1) or normal_outputs.expected_softmax(m, v), mean = m,
      variance = v }
  end,
  log_predictive = function(y, m, v, f)
    if f then
      return log_mean(log_prob(y, f))
    end
    -- what is left of [0, 1] by the second order has no logarithm
    local p = normal_outputs.expected_softmax(m, v):gather(-1, y:unsqueeze(-1)):squeeze(-1)
    return p:clamp(1e-12, 1):log()
  end,
  classes = function(p) return p.probabilities:argmax(-1) end,
  labels = function(y) return y end,
}

return rows
