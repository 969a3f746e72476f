--- How good a predictive distribution is. Predictions come as mixtures of normals: draw s says
--- normal(loc[s], scale[s]) of datum n, with loc [S, N], scale a number or [S, N] (or what broadcasts to it), y [N].
--- Shapes that do not belong together are errors: a [N] never meets a [N, 1].
-- help: pn.metrics, part
local core = require "penumbra.core"
local options = require "penumbra.options"

local metrics = {}

local shape_text = options.shape_text

local function check_tensor(where, role, t)
  options.argument(where, role, t, "tensor")
end

-- Are the axes of t, from the last, those of x or 1?
local function broadcasts(t, x)
  local fits = t:ndim() <= x:ndim()
  for k = 1, fits and t:ndim() or 0 do
    fits = fits and (t:size(-k) == x:size(-k) or t:size(-k) == 1)
  end
  return fits
end

-- A number or tensor that broadcasts to loc's shape.
local function check_scale(where, loc, scale)
  if type(scale) == "number" then
    return
  end
  if not core.is_tensor(scale) then
    options.argument(where, "scale", scale, "number")
  end
  if not broadcasts(scale, loc) then
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

local half_log_2pi = 0.5 * core.log_2pi

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

--- The share of y's variance that a prediction explains, 1 - sum (y - prediction)^2 / sum (y - mean)^2, of two tensors
--- of one shape: 1 at best, 0 for the mean of y, below for what is worse. A number.
function metrics.r_squared(y, prediction)
  check_tensor("r_squared", "y", y)
  check_tensor("r_squared", "prediction", prediction)
  if shape_text(y) ~= shape_text(prediction) then
    core.error(("r_squared: y and prediction must have one shape, got %s and %s"):format(shape_text(y),
      shape_text(prediction)))
  end
  return 1 - ((y - prediction):square():sum() / (y - y:mean()):square():sum()):item()
end

---- predictions as draws ----

local crps_options = { fair = true }

local function one_shape(a, b)
  return core.is_tensor(a) and core.is_tensor(b) and table.concat(a:shape(), ",") == table.concat(b:shape(), ",")
end

--- crps(y, draws [, {fair = true}]): continuous ranked probability score of draws [S, ...] of y [...], shaped like y,
--- in its units; lower is better: the mean of |x - y| less half that of |x - x'| over pairs of draws. Fair: pairs of
--- two different draws, so that its expectation does not depend on S (Ferro 2014); otherwise all pairs, the score of
--- the draws' own distribution function. Of a point forecast, shaped like y, it is |x - y|. Gneiting & Raftery 2007.
function metrics.crps(y, draws, given)
  local o = options.check("crps", given, crps_options)
  if one_shape(y, draws) then
    return (draws - y):abs()
  end
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

--- kernel_log_density(y, draws [, {bandwidth =}]): log density at y [...] of the law that draws [S, ...], shaped like
--- y, come from, for each number of y by itself: the mean of normal densities around the draws. bandwidth: their
--- standard deviation; by default Silverman's (1986) 1.06 sd S^(-1/5) of the draws of that number. The estimate's law
--- is wider than that of the draws, by bandwidth^2 of variance.
function metrics.kernel_log_density(y, draws, given)
  local o = options.check("kernel_log_density", given, { bandwidth = options.optional "number" })
  options.draws("kernel_log_density", y, draws)
  local s = draws:size(1)
  if o.bandwidth and not (o.bandwidth > 0 and o.bandwidth < math.huge) then
    core.error(("kernel_log_density: bandwidth must be positive, got %g"):format(o.bandwidth))
  end
  local h = o.bandwidth and core.full({}, o.bandwidth, { dtype = draws:dtype() })
    or draws:std(1) * (1.06 * s ^ -0.2)
  if not h:gt(0):all():item() then
    core.error "kernel_log_density: all draws of a number are equal: give a bandwidth"
  end
  return (((draws - y) / h):square() * -0.5):logsumexp(1) - h:log() - (math.log(s) + half_log_2pi)
end

---- quantiles and intervals ----

-- Levels between 0 and 1 as a list.
local function check_levels(where, levels)
  levels = core.is_tensor(levels) and levels:totable() or levels
  options.argument(where, "levels", levels, "table")
  for i, a in ipairs(levels) do
    if type(a) ~= "number" or not (a > 0 and a < 1) then
      core.error(("%s: levels must lie between 0 and 1, got %s at %d"):format(where, tostring(a), i))
    end
  end
  if #levels == 0 then
    core.error(where .. ": levels must be at least one number")
  end
  return levels
end

-- Two tensors of one shape.
local function check_alike(where, role_a, a, role_b, b)
  check_tensor(where, role_a, a)
  check_tensor(where, role_b, b)
  if shape_text(a) ~= shape_text(b) then
    core.error(("%s: %s and %s must have one shape, got %s and %s"):format(where, role_a, role_b, shape_text(a),
      shape_text(b)))
  end
end

local quantile_options = { interpolation = options.choice("linear", "nearest") }

--- quantiles(draws, levels [, {interpolation = "linear"}]): quantiles at a list of levels of draws [S, ...]: [Q, ...].
--- Level a stands at place 1 + (S - 1) a of the sorted draws, between two of them by linear interpolation (NumPy's
--- rule) or at the "nearest" (GluonTS's).
function metrics.quantiles(draws, levels, given)
  local o = options.check("quantiles", given, quantile_options)
  check_tensor("quantiles", "draws", draws)
  levels = check_levels("quantiles", levels)
  if draws:ndim() < 1 or draws:size(1) < 1 then
    core.error("quantiles: draws must be [S, ...] with at least one draw, got " .. shape_text(draws))
  end
  local sorted, last = draws:sort(1), draws:size(1)
  local out = {}
  for i, a in ipairs(levels) do
    local place = 1 + (last - 1) * a
    -- half goes to the even neighbour, as NumPy rounds, which counts from 0
    local low = o.interpolation == "linear" and math.floor(place) or 1 + math.floor(place - 1 + 0.5)
    if o.interpolation == "nearest" and place % 1 == 0.5 and (low - 1) % 2 == 1 then
      low = low - 1
    end
    local part = o.interpolation == "linear" and place - low or 0
    out[i] = part > 0 and sorted[low] * (1 - part) + sorted[low + 1] * part or sorted[low]
  end
  return core.stack(out, 1)
end

-- Levels as a tensor that broadcasts with quantiles [Q, ...].
local function standing(levels, quantiles)
  local sizes = { #levels }
  for i = 2, quantiles:ndim() do
    sizes[i] = 1
  end
  return core.tensor(levels, { dtype = quantiles:dtype() }):reshape(sizes)
end

--- quantile_loss(y, quantiles, levels): pinball loss of forecasts quantiles [Q, ...] at a list of Q levels for y [...]:
--- (level - 1[y < q]) (y - q), [Q, ...]; its mean is least at the true quantile. Koenker & Bassett 1978.
function metrics.quantile_loss(y, quantiles, levels)
  check_tensor("quantile_loss", "y", y)
  check_tensor("quantile_loss", "quantiles", quantiles)
  levels = check_levels("quantile_loss", levels)
  local sizes = y:shape()
  table.insert(sizes, 1, #levels)
  if table.concat(sizes, ",") ~= table.concat(quantiles:shape(), ",") then
    core.error(("quantile_loss: quantiles must have shape [%s], one of y's for each of %d levels, got %s"):format(
      table.concat(sizes, ", "), #levels, shape_text(quantiles)))
  end
  local level, over = standing(levels, quantiles), y - quantiles
  return core.maximum(level * over, (level - 1) * over)
end

--- crps_quantiles(y, quantiles, levels): continuous ranked probability score of y [...] from forecasts of quantiles [Q,
--- ...]: the integral of twice the quantile loss over the level, here its mean over the levels. With Q levels (i - 1/2)
--- / Q, i = 1 ... Q, it tends to the score itself as Q grows. Shaped like y. Laio & Tamea 2007.
function metrics.crps_quantiles(y, quantiles, levels)
  return metrics.quantile_loss(y, quantiles, levels):mean(1) * 2
end

--- crps_normal(y, loc, scale): continuous ranked probability score of y under normal(loc, scale), numbers or tensors
--- that broadcast to y's shape, in y's units: scale (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt pi), z = (y - loc) / scale.
--- Gneiting, Raftery, Westveld & Goldman 2005.
function metrics.crps_normal(y, loc, scale)
  check_tensor("crps_normal", "y", y)
  loc, scale = as_tensor(options.numbers("crps_normal", "loc", loc), y),
    as_tensor(options.numbers("crps_normal", "scale", scale), y)
  for role, t in pairs { loc = loc, scale = scale } do
    if not broadcasts(t, y) then
      core.error(("crps_normal: %s must broadcast to y's shape %s, got %s"):format(role, shape_text(y), shape_text(t)))
    end
  end
  local z = (y - loc) / scale
  local phi = (z:square() * -0.5 - half_log_2pi):exp()
  return scale * (z * (z:ndtr() * 2 - 1) + phi * 2 - 1 / math.sqrt(math.pi))
end

-- tenths
local TENTHS = {}
for i = 1, 9 do
  TENTHS[i] = i / 10
end

local normalised_options = { levels = TENTHS, interpolation = options.choice("linear", "nearest") }

--- normalised_crps(y, draws [, {levels = {0.1, ..., 0.9}, interpolation =}]): the "CRPS" that forecasting libraries
--- report (GluonTS's mean weighted quantile loss): twice the sum of the quantile losses of all of y over the sum of
--- |y|, the mean over the levels; a number without units, lower is better. draws [S, ...] of y [...], whose quantiles
--- are taken as metrics.quantiles does. It depends on the levels and is no proper mean of scores: compare only with the
--- same grid. A point forecast, shaped like y, has itself for each quantile. What was not observed, NaN in y, does not
--- count.
function metrics.normalised_crps(y, draws, given)
  local o = options.check("normalised_crps", given, normalised_options)
  if one_shape(y, draws) then
    draws = core.stack({ draws, draws }, 1)
  end
  options.draws("normalised_crps", y, draws)
  local quantiles = metrics.quantiles(draws, o.levels, { interpolation = o.interpolation })
  local seen = y:isnan():logical_not()
  if not seen:any():item() then
    core.error "normalised_crps: y is NaN throughout: nothing was observed"
  end
  local nothing = core.zeros(y:shape(), { dtype = y:dtype() })
  local scores = core.where(seen, metrics.crps_quantiles(y, quantiles, o.levels), nothing)
  return (scores:sum() / core.where(seen, y, nothing):abs():sum()):item()
end

-- Intervals [low, high] of y, all of one shape.
local function check_intervals(where, y, low, high)
  check_alike(where, "y", y, "low", low)
  check_alike(where, "y", y, "high", high)
  if low:gt(high):any():item() then
    core.error(where .. ": low must not be above high; the arguments are y, low, high in this order")
  end
end

--- interval_coverage(y, low, high): share of y within the intervals [low, high], three tensors of one shape. Of
--- calibrated intervals it is their level, up to sqrt(level (1 - level) / N) for N independent ones.
function metrics.interval_coverage(y, low, high)
  check_intervals("interval_coverage", y, low, high)
  return y:ge(low):logical_and(y:le(high)):to("float64"):mean():item()
end

local function check_level(where, level)
  options.argument(where, "level", level, "number")
  if not (level > 0 and level < 1) then
    core.error(("%s: level must lie between 0 and 1, got %s"):format(where, tostring(level)))
  end
  return level
end

--- interval_score(y, low, high, level): of central intervals [low, high] of that level: their width, and 2 / (1 -
--- level) for each unit by which y lies outside; shaped like y, lower is better, least for the true quantiles. Gneiting
--- & Raftery 2007.
function metrics.interval_score(y, low, high, level)
  check_intervals("interval_score", y, low, high)
  local penalty = 2 / (1 - check_level("interval_score", level))
  return (high - low) + ((low - y):relu() + (y - high):relu()) * penalty
end

local scaled_options = { level = 0.95, season = 1 }

--- mean_scaled_interval_score(y, low, high, history [, {level = 0.95, season = 1}]): the mean interval score over the
--- mean absolute change of the history [T] (or [T, ...], time first, of the same series) from one season to the next; a
--- number without units. Makridakis, Spiliotis & Assimakopoulos 2020 (the M4 competition).
function metrics.mean_scaled_interval_score(y, low, high, history, given)
  local o = options.check("mean_scaled_interval_score", given, scaled_options)
  local season = o.season
  check_intervals("mean_scaled_interval_score", y, low, high)
  check_tensor("mean_scaled_interval_score", "history", history)
  if history:ndim() < 1 or history:size(1) <= season then
    core.error(("mean_scaled_interval_score: history must be longer than a season of %d steps, got %s"):format(season,
      shape_text(history)))
  end
  local change = (history:slice(1, season + 1, -1) - history:slice(1, 1, history:size(1) - season)):abs():mean()
  return (metrics.interval_score(y, low, high, o.level):mean() / change):item()
end

---- transport ----

local weight_options = { weights = options.optional "tensor", other_weights = options.optional "tensor" }

-- Shares along the last axis of t's leading axes: equal ones, or given weights over their sum.
local function shares(where, role, weights, sizes, dtype)
  if not weights then
    return core.full(sizes, 1 / sizes[#sizes], { dtype = dtype })
  end
  if table.concat(weights:shape(), ",") ~= table.concat(sizes, ",") then
    core.error(("%s: %s must have shape [%s], got %s"):format(where, role, table.concat(sizes, ", "),
      shape_text(weights)))
  end
  return weights / weights:sum({ -1 }, true)
end

--- wasserstein_1d(x, y [, {weights =, other_weights =}]): Wasserstein-1 distance of samples x [..., N] and y [..., M]
--- on the line, [...]: the area between their distribution functions. Weights, shaped like x and y, are divided by
--- their sum; absent ones are equal. Differentiable in all four.
function metrics.wasserstein_1d(x, y, given)
  local o = options.check("wasserstein_1d", given, weight_options)
  check_tensor("wasserstein_1d", "x", x)
  check_tensor("wasserstein_1d", "y", y)
  local a, b = x:shape(), y:shape()
  local n, m = table.remove(a), table.remove(b)
  if not (n and m and n > 0 and m > 0) or table.concat(a, ",") ~= table.concat(b, ",") then
    core.error(("wasserstein_1d: x and y must be [..., N] and [..., M] of at least one number, got %s and %s"):format(
      shape_text(x), shape_text(y)))
  end
  local u = shares("wasserstein_1d", "weights", o.weights, x:shape(), x:dtype())
  local v = shares("wasserstein_1d", "other_weights", o.other_weights, y:shape(), y:dtype())
  local all = core.concatenate({ x, y }, -1)
  local order = all:argsort(-1)
  all = all:gather(-1, order)
  local gap = core.concatenate({ u, -v }, -1):gather(-1, order):cumsum(-1):slice(-1, 1, n + m - 1)
  return (gap:abs() * (all:slice(-1, 2, n + m) - all:slice(-1, 1, n + m - 1))):sum(-1)
end

-- Distances of points x [B, N, D] and y [B, M, D], whose slope at 0 is 0.
local function distances(x, y)
  local square = (x:unsqueeze(3) - y:unsqueeze(2)):square():sum(4)
  local zero = square:eq(0)
  local one = core.ones({}, { dtype = x:dtype() })
  return core.where(zero, core.zeros({}, { dtype = x:dtype() }), core.where(zero, one, square):sqrt())
end

local transport_options = { weights = options.optional "tensor", other_weights = options.optional "tensor",
  cost = options.optional "tensor" }

--- wasserstein(x, y [, {weights =, other_weights =, cost =}]): Wasserstein-1 distance of weighted points x [N, D] and y
--- [M, D] (or [B, N, D] and [B, M, D], each pair for itself) by exact transport, with Euclidean distance: [] or [B];
--- and the plan, how much goes from each to each, [N, M] or [B, N, M], which sums to 1. Weights [N] and [M] (or [B, N],
--- [B, M]) are divided by their sum; absent ones are equal. cost [N, M] or [B, N, M] in place of distances; it may be
--- negative. Differentiable in points and cost (not in weights). By the network simplex method, about N M sqrt(N)
--- operations.
function metrics.wasserstein(x, y, given)
  local o = options.check("wasserstein", given, transport_options)
  check_tensor("wasserstein", "x", x)
  check_tensor("wasserstein", "y", y)
  local single = x:ndim() == 2
  local function one(t)
    return t and single and t:unsqueeze(1) or t
  end
  local given_x, given_y = x, y
  x, y = one(x), one(y)
  local fits = x:ndim() == 3 and y:ndim() == 3 and x:size(1) == y:size(1) and x:size(3) == y:size(3)
  if not fits or x:size(2) * y:size(2) == 0 then
    core.error(("wasserstein: x and y must be [N, D] and [M, D], or [B, N, D] and [B, M, D], of at least one point, " ..
      "got %s and %s"):format(shape_text(given_x), shape_text(given_y)))
  end
  local batch, n, m = x:size(1), x:size(2), y:size(2)
  local cost = one(o.cost) or distances(x, y)
  if shape_text(cost) ~= ("[%d, %d, %d]"):format(batch, n, m) then
    core.error(("wasserstein: cost must have a number for each of %d by %d points, got %s"):format(n, m,
      shape_text(o.cost)))
  end
  local u = shares("wasserstein", "weights", one(o.weights), { batch, n }, x:dtype())
  local v = shares("wasserstein", "other_weights", one(o.other_weights), { batch, m }, x:dtype())
  local plan = core.new_transport(cost:detach(), u:detach(), v:detach())
  local value = (plan * cost):sum { 2, 3 }
  if single then
    return value[1], plan[1]
  end
  return value, plan
end

local image_options = { empty = options.optional "number" }

--- image_wasserstein(a, b [, {empty =}]): Wasserstein-1 distance of images a and b, [rows, columns] or [..., rows,
--- columns], each divided by its sum and taken as a distribution over pixels a unit apart, in pixels: [] or [...].
--- Between an empty image and any other there is no such distance: NaN, or the number `empty`. A value that is negative
--- gives NaN. No gradient.
function metrics.image_wasserstein(a, b, given)
  local o = options.check("image_wasserstein", given, image_options)
  check_alike("image_wasserstein", "a", a, "b", b)
  if a:ndim() < 2 then
    core.error("image_wasserstein: images must be [..., rows, columns], got " .. shape_text(a))
  end
  local sizes = a:shape()
  local columns, rows = table.remove(sizes), table.remove(sizes)
  local d = core.new_image_transport(a:reshape { -1, rows, columns }, b:reshape { -1, rows, columns }):reshape(sizes)
  if o.empty then
    local none = a:eq(0):all { -2, -1 }:logical_or(b:eq(0):all { -2, -1 })
    d = core.where(none, core.full({}, o.empty, { dtype = d:dtype() }), d)
  end
  return d
end

--- pixel_accuracy(a, b): share of the pixels of images a and b, [rows, columns] or [..., rows, columns], that are
--- equal: [] or [...], float64. Of an object that is small beside the image it hardly tells near misses from far ones;
--- see metrics.image_wasserstein.
function metrics.pixel_accuracy(a, b)
  check_alike("pixel_accuracy", "a", a, "b", b)
  if a:ndim() < 2 then
    core.error("pixel_accuracy: images must be [..., rows, columns], got " .. shape_text(a))
  end
  return a:eq(b):to("float64"):mean { -2, -1 }
end

for _, part in ipairs { "classification", "forecast_score", "out_of_distribution" } do
  for name, f in pairs(require("penumbra.metrics." .. part)) do
    metrics[name] = f
  end
end

metrics.backtest = require "penumbra.metrics.rolling_origin".backtest

return metrics
