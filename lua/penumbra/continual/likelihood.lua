--- Likelihoods of outputs f [S, N, out] for targets y: values, and derivatives in f, for S draws of N data.
-- help: none
local core = require "penumbra.core"

local likelihood = {}

local LOG_2PI = math.log(2 * math.pi)

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

-- y as [N, out].
local function targets(where, y, n, out, dtype)
  local shape = y:shape()
  local flat = out == 1 and #shape == 1
  if shape[1] ~= n or not flat and (#shape ~= 2 or shape[2] ~= out) then
    core.error(("%s: y must have shape [%d, %d], got %s"):format(where, n, out, shape_text(y)))
  end
  y = y:detach():to(dtype)
  return flat and y:unsqueeze(2) or y
end

-- Each kind: check(where, y, n, out, o) gives prepared targets; value(y, f, o) [S, N]; slope(y, f, o) [S, N, out];
-- curvature(y, f, o) [S, N, out, out], the matrix of second derivatives.
local kinds = {}

local function eye_like(f, scale)
  return core.eye(f:size(3), { dtype = f:dtype() }) * scale
end

kinds.gaussian = {
  check = function(where, y, n, out, o)
    if not (o.noise_scale and o.noise_scale > 0 and o.noise_scale < math.huge) then
      core.error(('%s: noise_scale must be a positive number for likelihood "gaussian", got %s'):format(where,
        tostring(o.noise_scale)))
    end
    return targets(where, y, n, out, o.dtype)
  end,
  value = function(y, f, o)
    return (((y - f) / o.noise_scale):square() * -0.5 - (math.log(o.noise_scale) + 0.5 * LOG_2PI)):sum(3)
  end,
  slope = function(y, f, o)
    return (y - f) / o.noise_scale ^ 2
  end,
  curvature = function(_, f, o)
    return f:zeros_like():unsqueeze(4) + eye_like(f, -o.noise_scale ^ -2)
  end,
}

kinds.bernoulli = {
  check = function(where, y, n, out, o)
    y = targets(where, y, n, out, o.dtype)
    if n > 0 and (y * (1 - y)):abs():max():item() ~= 0 then
      core.error(('%s: y must be 0 or 1 for likelihood "bernoulli"'):format(where))
    end
    return y
  end,
  value = function(y, f)
    return -(((1 - y * 2) * f):softplus():sum(3))
  end,
  slope = function(y, f)
    return y - f:sigmoid()
  end,
  curvature = function(_, f)
    return (f:sigmoid() * (-f):sigmoid()):unsqueeze(4) * eye_like(f, -1)
  end,
}

kinds.categorical = {
  check = function(where, y, n, out, o)
    if y:dtype() ~= "int64" or y:ndim() ~= 1 or y:size(1) ~= n then
      core.error(('%s: y must be classes, int64 of shape [%d], for likelihood "categorical", got %s of shape %s')
        :format(where, n, y:dtype(), shape_text(y)))
    elseif n > 0 and not (y:min():item() >= 0 and y:max():item() < out) then
      core.error(("%s: y must be classes from 0 to %d, got %d to %d"):format(where, out - 1, y:min():item(),
        y:max():item()))
    end
    return require("penumbra.array").one_hot(y, out, o.dtype)
  end,
  value = function(y, f)
    return (y * f):sum(3) - f:logsumexp(3)
  end,
  slope = function(y, f)
    return y - f:softmax(3)
  end,
  curvature = function(_, f)
    local p = f:softmax(3)
    return p:unsqueeze(4) * p:unsqueeze(3) - p:unsqueeze(4) * eye_like(f, 1)
  end,
}

-- A function (f, y) that gives [S, N]: first derivatives by automatic differentiation.
local function own(where, f)
  local function value(y, outputs)
    local v = f(outputs, y)
    if not core.is_tensor(v) or v:ndim() ~= 2 or v:size(1) ~= outputs:size(1) or v:size(2) ~= outputs:size(2) then
      core.error(("%s: likelihood must give [%d, %d] for outputs %s, got %s"):format(where, outputs:size(1),
        outputs:size(2), shape_text(outputs), core.is_tensor(v) and shape_text(v) or type(v)))
    end
    return v
  end
  return {
    check = function(_, y, n)
      if y:ndim() == 0 or y:size(1) ~= n then
        core.error(("%s: y must have %d data along its first axis, got %s"):format(where, n, shape_text(y)))
      end
      return y
    end,
    value = value,
    slope = function(y, outputs)
      outputs = outputs:detach()
      outputs:requires_grad(true)
      return core.grad(value(y, outputs):sum(), { outputs })[1]:detach()
    end,
  }
end

--- kind(where, given): the likelihood by its name or from a function.
function likelihood.kind(where, given)
  if type(given) == "function" then
    return own(where, given)
  elseif kinds[given] then
    return kinds[given]
  end
  return core.error(('%s: likelihood must be "gaussian", "bernoulli", "categorical" or a function, got %s'):format(
    where, type(given) == "string" and '"' .. given .. '"' or type(given)))
end

return likelihood
