--- How good a predictive distribution is. Predictions come as mixtures of normals: draw s says
--- normal(loc[s], scale[s]) of datum n, with loc and scale [S, N] (or what broadcasts to it), y [N].
local core = require "penumbra.core"
local options = require "penumbra.options"

local metrics = {}

local function draws(where, y, loc)
  options.argument(where, "y", y, "tensor")
  options.argument(where, "loc", loc, "tensor")
  if loc:ndim() ~= 2 or y:ndim() ~= 1 or loc:size(2) ~= y:size(1) then
    core.error(("%s: shapes must be y [N] and loc [S, N], got [%s] and [%s]"):format(where,
      table.concat(y:shape(), ", "), table.concat(loc:shape(), ", ")))
  end
  return loc:size(1)
end

local half_log_2pi = 0.5 * math.log(2 * math.pi)

-- A number as a tensor like t, so that both numbers and tensors serve as a scale.
local function as_tensor(where, v, t)
  if core.is_tensor(v) then
    return v
  end
  return core.tensor(options.argument(where, "scale", v, "number"), { dtype = t:dtype() })
end

--- Log density of y under the mixture: logsumexp over draws minus log S. [N].
function metrics.mixture_log_prob(y, loc, scale)
  local s = draws("mixture_log_prob", y, loc)
  scale = as_tensor("mixture_log_prob", scale, loc)
  local z = (y - loc) / scale
  return (z:square() * -0.5 - scale:log() - half_log_2pi):logsumexp(1) - math.log(s)
end

--- Distribution function of the mixture at y, [N]: uniform on (0, 1) for calibrated predictions.
function metrics.mixture_cdf(y, loc, scale)
  draws("mixture_cdf", y, loc)
  return ((y - loc) / as_tensor("mixture_cdf", scale, loc)):ndtr():mean(1)
end

--- Quantile p (0 < p < 1) of the mixture for each datum, [N], by bisection of the distribution function.
function metrics.mixture_quantile(p, loc, scale)
  if type(p) ~= "number" or not (p > 0 and p < 1) then
    core.error(("mixture_quantile: p must lie between 0 and 1, got %s"):format(tostring(p)))
  end
  options.argument("mixture_quantile", "loc", loc, "tensor")
  scale = as_tensor("mixture_quantile", scale, loc)
  local reach = scale * math.max(1, math.abs(core.tensor(p):ndtri():item()))
  local low, high = (loc - reach):min(1), (loc + reach):max(1)
  for _ = 1, loc:dtype() == "float32" and 24 or 52 do
    local middle = (low + high) * 0.5
    local below = metrics.mixture_cdf(middle, loc, scale):lt(p)
    low, high = core.where(below, middle, low), core.where(below, high, middle)
  end
  return (low + high) * 0.5
end

--- Share of data whose cdf value (from mixture_cdf) lies in the central interval of the given level, as
--- 0.9. A calibrated prediction gives the level itself, up to sqrt(level (1 - level) / N).
function metrics.coverage(cdf, level)
  options.argument("coverage", "cdf", cdf, "tensor")
  options.argument("coverage", "level", level, "number")
  local margin = (1 - level) / 2
  return cdf:ge(margin):logical_and(cdf:le(1 - margin)):to("float64"):mean():item()
end

--- Square root of the mean squared error.
function metrics.rmse(y, prediction)
  options.argument("rmse", "y", y, "tensor")
  options.argument("rmse", "prediction", prediction, "tensor")
  return (y - prediction):square():mean():sqrt():item()
end

return metrics
