--- How good a predictive distribution is. Predictions come as mixtures of normals: draw s says
--- normal(loc[s], scale[s]) of datum n, with loc [S, N], scale a number or [S, N] (or what broadcasts to it), y [N].
--- Shapes that do not belong together are errors: a [N] never meets a [N, 1].
local core = require "penumbra.core"
local options = require "penumbra.options"

local metrics = {}

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

local function check_tensor(where, role, t)
  options.argument(where, role, t, "tensor")
end

-- A number or tensor whose axes, from the last, are those of loc or 1.
local function check_scale(where, loc, scale)
  if type(scale) == "number" then
    return
  end
  if not core.is_tensor(scale) then
    options.argument(where, "scale", scale, "number")
  end
  local fits = scale:ndim() <= 2
  for k = 1, fits and scale:ndim() or 0 do
    fits = fits and (scale:size(-k) == loc:size(-k) or scale:size(-k) == 1)
  end
  if not fits then
    core.error(("%s: scale must be a number or broadcast to loc's shape %s, got %s"):format(where, shape_text(loc),
      shape_text(scale)))
  end
end

-- The number of draws.
local function check_mixture(where, loc, scale)
  check_tensor(where, "loc", loc)
  if loc:ndim() ~= 2 then
    core.error(("%s: loc must have shape [S, N], got %s"):format(where, shape_text(loc)))
  end
  check_scale(where, loc, scale)
  return loc:size(1)
end

local function check_y(where, y, loc)
  check_tensor(where, "y", y)
  if y:ndim() ~= 1 or loc:size(2) ~= y:size(1) then
    core.error(("%s: shapes must be y [N] and loc [S, N], got %s and %s"):format(where, shape_text(y),
      shape_text(loc)))
  end
end

local half_log_2pi = 0.5 * math.log(2 * math.pi)

-- A number as a tensor like t, so that both numbers and tensors serve as a scale.
local function as_tensor(v, t)
  return core.is_tensor(v) and v or core.tensor(v, { dtype = t:dtype() })
end

--- Log density of y under the mixture: logsumexp over draws minus log S. [N].
function metrics.mixture_log_prob(y, loc, scale)
  local s = check_mixture("mixture_log_prob", loc, scale)
  check_y("mixture_log_prob", y, loc)
  scale = as_tensor(scale, loc)
  local z = (y - loc) / scale
  return (z:square() * -0.5 - scale:log() - half_log_2pi):logsumexp(1) - math.log(s)
end

--- Distribution function of the mixture at y, [N]: uniform on (0, 1) for calibrated predictions.
function metrics.mixture_cdf(y, loc, scale)
  check_mixture("mixture_cdf", loc, scale)
  check_y("mixture_cdf", y, loc)
  return ((y - loc) / as_tensor(scale, loc)):ndtr():mean(1)
end

--- Quantile p (0 < p < 1) of the mixture for each datum, [N], by bisection of the distribution function.
function metrics.mixture_quantile(p, loc, scale)
  if type(p) ~= "number" or not (p > 0 and p < 1) then
    core.error(("mixture_quantile: p must lie between 0 and 1, got %s"):format(tostring(p)))
  end
  check_mixture("mixture_quantile", loc, scale)
  scale = as_tensor(scale, loc)
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
  if not (level > 0 and level < 1) then
    core.error("coverage: level must lie between 0 and 1, got " .. tostring(level))
  end
  local margin = (1 - level) / 2
  return cdf:ge(margin):logical_and(cdf:le(1 - margin)):to("float64"):mean():item()
end

--- Square root of the mean squared error of two tensors of one shape, as a number.
function metrics.rmse(y, prediction)
  check_tensor("rmse", "y", y)
  check_tensor("rmse", "prediction", prediction)
  if shape_text(y) ~= shape_text(prediction) then
    core.error(("rmse: y and prediction must have one shape, got %s and %s"):format(shape_text(y),
      shape_text(prediction)))
  end
  return (y - prediction):square():mean():sqrt():item()
end

---- predictions as draws ----

local crps_options = { fair = true }

--- crps(y, draws [, {fair = true}]): continuous ranked probability score of draws [S, ...] of y [...], shaped like y,
--- in its units; lower is better: the mean of |x - y| less half that of |x - x'| over pairs of draws. Fair: pairs of
--- two different draws, so that its expectation does not depend on S (Ferro 2014); otherwise all pairs, the score of
--- the draws' own distribution function. Gneiting & Raftery 2007.
function metrics.crps(y, draws, given)
  local o = options.check("crps", given, crps_options)
  options.draws("crps", y, draws)
  local s = draws:size(1)
  -- the sum over pairs of sorted draws is that of (2 i - S - 1) x_i
  local rank = core.arange(s, { dtype = "float64" }):to(draws:dtype()) * 2 - (s - 1)
  for _ = 1, y:ndim() do
    rank = rank:unsqueeze(2)
  end
  local apart = (draws:sort(1) * rank):sum(1) / (s * (o.fair and s - 1 or s))
  return (draws - y):abs():mean(1) - apart
end

--- energy_score(y, draws [, {fair = true}]): of draws [S, N, D] of vectors y [N, D], [N]: CRPS with distances of
--- vectors in place of absolute values, so that it sees correlation. Takes S^2 N D operations. Gneiting & Raftery 2007.
function metrics.energy_score(y, draws, given)
  local o = options.check("energy_score", given, crps_options)
  options.draws("energy_score", y, draws)
  if y:ndim() ~= 2 then
    core.error(("energy_score: y must have shape [N, D], got %s"):format(shape_text(y)))
  end
  local s = draws:size(1)
  local pairs_of
  for i = 1, s do
    local apart = (draws - draws[i]):square():sum(3):sqrt():sum(1)
    pairs_of = pairs_of and pairs_of + apart or apart
  end
  return (draws - y):square():sum(3):sqrt():mean(1) - pairs_of / (2 * s * (o.fair and s - 1 or s))
end

local pit_options = { generator = options.optional() }

--- pit(y, draws [, {generator =}]): probability integral transforms of y among draws [S, ...], shaped like y: (r + u) /
--- (S + 1), r the number of draws below y (those equal to it at random on either side) and u uniform: exactly uniform
--- if y is distributed as the draws are, however few, discrete ones too. Gneiting, Balabdaoui & Raftery 2007.
function metrics.pit(y, draws, given)
  local o = options.check("pit", given, pit_options)
  options.draws("pit", y, draws)
  local below, equal = draws:lt(y):sum(1):to "float64", draws:eq(y):sum(1):to "float64"
  return (below + core.rand(y:shape(), { generator = o.generator }) * (equal + 1)) / (draws:size(1) + 1)
end

return metrics
