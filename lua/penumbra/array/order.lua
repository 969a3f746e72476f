--- Order, running values and counting along the axes of arrays: quantiles, the largest so far, places in a sorted row,
--- distinct values, histograms. NaN makes a quantile NaN and belongs to no bin.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local order = {}

local function tensor(where, role, x)
  return options.argument(where, role, x, "tensor")
end

local function vector(where, role, x)
  tensor(where, role, x)
  if x:ndim() ~= 1 then
    core.error(("%s: %s must be [n], got %d axes"):format(where, role, x:ndim()))
  end
  return x
end

local function is_float(x)
  return x:dtype() == "float64" or x:dtype() == "float32"
end

-- x, int64 and bool made float.
local function as_float(x)
  return is_float(x) and x or x:to(core.default_dtype())
end

-- ---- quantiles ----

local function quantile_of(sorted, axis, level)
  local n = sorted:size(axis)
  if type(level) ~= "number" or not (level >= 0 and level <= 1) or n == 0 then
    core.error(("quantile: level must lie in 0 to 1 and x have elements along axis %d, got %s and %d"):format(axis,
      tostring(level), n))
  end
  local place = 1 + (n - 1) * level
  local low = math.floor(place)
  local part, first, last = place - low, sorted:select(axis, low), sorted:select(axis, n)
  local between = part > 0 and first * (1 - part) + sorted:select(axis, low + 1) * part or first
  return core.where(last:isnan(), last, between) -- NaN stands last
end

--- quantile(x, level [, axis]): the quantile at a level from 0 to 1 along an axis, which goes, or of all elements: the
--- value at place 1 + (n - 1) level of the sorted ones, between two of them by linear interpolation, as NumPy's; NaN
--- where one is NaN. Of a list of levels one after another along a new first axis.
function order.quantile(x, level, axis)
  x = as_float(tensor("quantile", "x", x))
  if type(level) ~= "table" then
    options.argument("quantile", "level", level, "number")
  end
  if axis == nil then
    x, axis = x:reshape { -1 }, 1
  end
  axis = options.axis("quantile", x, axis)
  local sorted = x:sort(axis)
  if type(level) == "number" then
    return quantile_of(sorted, axis, level)
  end
  local list = {}
  for k, one in ipairs(level) do
    list[k] = quantile_of(sorted, axis, one)
  end
  if #list == 0 then
    core.error "quantile: level must be a number or a list of numbers, got an empty list"
  end
  return core.stack(list, 1)
end

--- median(x [, axis]): the middle of the sorted values along an axis, which goes, or of all; of an even number the mean
--- of the two.
function order.median(x, axis)
  tensor("median", "x", x)
  return order.quantile(x, 0.5, axis and options.axis("median", x, axis))
end

-- ---- running values ----

--- cumprod(x [, axis = -1]): running product along an axis; its gradients hold at zeros too.
function order.cumprod(x, axis)
  tensor("cumprod", "x", x)
  axis = options.axis("cumprod", x, axis, -1)
  local n = x:size(axis)
  if n == 0 then
    return x
  end
  return x:slice(axis, 1, 1):pad(axis, 0, n - 1):linear_recurrence(x, axis) -- y_i = x_i y_(i-1) + 0
end

--- cummax(x [, axis = -1]): the largest so far along an axis, NaN from a NaN on, and its positions, data counted from
--- 0, of equals the latest; the gradient goes there.
function order.cummax(x, axis)
  tensor("cummax", "x", x)
  axis = options.axis("cummax", x, axis, -1)
  local place = x:argcummax(axis)
  return x:gather(axis, place), place
end

--- cummin(x [, axis = -1]): the smallest so far along an axis, and its positions, as cummax.
function order.cummin(x, axis)
  tensor("cummin", "x", x)
  axis = options.axis("cummin", x, axis, -1)
  local place = x:argcummin(axis)
  return x:gather(axis, place), place
end

--- diff(x [, times = 1 [, axis = -1]]): differences of neighbours along an axis, x_(i+1) - x_i, taken `times` times.
function order.diff(x, times, axis)
  tensor("diff", "x", x)
  times = times == nil and 1 or options.whole("diff", "times", times, 0)
  axis = options.axis("diff", x, axis, -1)
  for _ = 1, times do
    local n = x:size(axis)
    if n == 0 then
      return x
    end
    x = x:slice(axis, 2, n) - x:slice(axis, 1, n - 1)
  end
  return x
end

--- trapezoid(y [, x = 1 [, axis = -1]]): the integral of y along an axis, which goes, by trapezoids; x: the places [n],
--- or their distance.
function order.trapezoid(y, x, axis)
  tensor("trapezoid", "y", y)
  x = x == nil and 1 or options.numbers("trapezoid", "x", x)
  axis = options.axis("trapezoid", y, axis, -1)
  local n = y:size(axis)
  if n == 0 then
    return y:sum(axis)
  end
  local means = (y:slice(axis, 2, n) + y:slice(axis, 1, n - 1)) * 0.5
  if type(x) == "number" then
    return means:sum(axis) * x
  end
  if vector("trapezoid", "x", x):size(1) ~= n then
    core.error(("trapezoid: x must be [%d] as axis %d of y, got [%d]"):format(n, axis, x:size(1)))
  end
  local shape = {}
  for k = 1, y:ndim() do
    shape[k] = k == axis and n - 1 or 1
  end
  return (means * order.diff(x):reshape(shape)):sum(axis)
end

-- ---- places ----

--- searchsorted(sorted, values [, side = "left"]): for each value how many of `sorted` [n], which rises, are below it,
--- with side "right" not above it: int64, shaped like values. NaN is above all numbers. By bisection,
--- of evenly spaced numbers at once.
function order.searchsorted(sorted, values, side)
  vector("searchsorted", "sorted", sorted)
  values = options.numbers("searchsorted", "values", values)
  if side ~= nil and side ~= "left" and side ~= "right" then
    core.error(('searchsorted: side must be "left" or "right", got %s'):format(tostring(side)))
  end
  if type(values) == "number" then
    values = core.full({}, values, { dtype = sorted:dtype() })
  end
  if values:dtype() == "bool" and sorted:dtype() == "bool" then
    sorted, values = sorted:to "int64", values:to "int64"
  end
  return core.bucketize(values, sorted, side == "right")
end

--- interp(x, places, values): at each x the straight line between the points (places [n], which rise; values [n]), and
--- the end values beyond them.
function order.interp(x, places, values)
  tensor("interp", "x", x)
  local n = vector("interp", "places", places):size(1)
  if vector("interp", "values", values):size(1) ~= n or n < 2 then
    core.error(("interp: places and values must be [n] of one n >= 2, got [%d] and [%d]"):format(n, values:size(1)))
  end
  local k = (order.searchsorted(places, x, "right") - 1):maximum(0):minimum(n - 2)
  local x0, y0 = places:take(1, k), values:take(1, k)
  local inside = y0 + (x - x0) * (values:take(1, k + 1) - y0) / (places:take(1, k + 1) - x0)
  local beyond = core.where(x:lt(places:select(1, 1)), values:select(1, 1), inside)
  return core.where(x:gt(places:select(1, n)), values:select(1, n), beyond)
end

--- isin(x, values): which elements of x are among `values`, a tensor or a list of numbers: bool. NaN is among none.
function order.isin(x, values)
  tensor("isin", "x", x)
  if type(values) == "table" then
    values = core.tensor(values, { dtype = x:dtype() })
  end
  local n = tensor("isin", "values", values):numel()
  if n == 0 then
    return core.zeros(x:shape(), { dtype = "bool" })
  end
  local sorted = values:reshape { -1 }:sort(1)
  return sorted:take(1, order.searchsorted(sorted, x):minimum(n - 1)):eq(x)
end

-- ---- counting ----

--- unique(x): the distinct values in rising order [m], for each element of x the position of its value (0-based, int64,
--- shaped like x), and how often each occurs (int64 [m]). NaN counts as one value, the last.
function order.unique(x)
  tensor("unique", "x", x)
  if x:dtype() == "bool" then
    local values, inverse, counts = order.unique(x:to "int64")
    return values:to "bool", inverse, counts
  end
  local n = x:numel()
  local none = core.zeros({ n }, { dtype = "int64" })
  if n == 0 then
    return x:reshape { 0 }, core.zeros(x:shape(), { dtype = "int64" }), none
  end
  local sorted, places = x:reshape { -1 }:sort(1)
  local left, right = sorted:slice(1, 1, n - 1), sorted:slice(1, 2, n)
  local new = left:ne(right):logical_and(left:isnan():logical_and(right:isnan()):logical_not())
  new = core.concatenate({ core.full({ 1 }, true), new }, 1)
  local group = new:to("int64"):cumsum(1) - 1
  local values = sorted:masked_select(new)
  local inverse = none:scatter_add(1, places, group)
  local counts = core.zeros({ values:size(1) }, { dtype = "int64" }):scatter_add(1, group, none + 1)
  return values, inverse:reshape(x:shape()), counts
end

--- bincount(x [, {weights =, num_bins =}]): how often each whole number from 0 on occurs in int64 x [n], or the sum of
--- its weights [n]: [num_bins], which is 1 + the largest unless given; a value outside is an error.
function order.bincount(x, given)
  vector("bincount", "x", x)
  local o = options.check("bincount", given, { weights = options.optional "tensor",
    num_bins = options.optional "number" })
  if x:dtype() ~= "int64" then
    if x:dtype() == "bool" or not x:eq(x:round()):all():item() then
      core.error(("bincount: x must be whole numbers, got %s"):format(x:dtype()))
    end
    x = x:to "int64"
  end
  local n = o.num_bins and options.whole("bincount", "num_bins", o.num_bins, 0)
  if not n then
    n = x:numel() > 0 and x:max():item() + 1 or 0
    if x:numel() > 0 and x:min():item() < 0 then
      core.error(("bincount: x must not be negative, got %d"):format(x:min():item()))
    end
  end
  local weights = o.weights or core.ones(x:shape(), { dtype = "int64" })
  if weights:ndim() ~= 1 or weights:size(1) ~= x:size(1) then
    core.error(("bincount: weights must be [%d] as x, got [%s]"):format(x:size(1),
      table.concat(weights:shape(), ", ")))
  end
  local none = core.zeros({ n }, { dtype = weights:dtype() })
  return none:scatter_add(1, core.where(x:lt(0), n, x), weights) -- a negative place would count from the end
end

-- The edges of a histogram, from a number of bins or a list.
local function edges_of(x, bins, range)
  if type(bins) ~= "number" then
    local edges = vector("histogram", "bins", options.numbers("histogram", "bins", bins, "tensor")):to(x:dtype())
    if edges:size(1) < 2 then
      core.error(("histogram: bins must be at least 2 edges, got %d"):format(edges:size(1)))
    end
    return edges
  end
  local n = options.whole("histogram", "bins", bins, 1)
  local low, high = 0, 1
  if range then
    low, high = options.argument("histogram", "range", range[1], "number"),
      options.argument("histogram", "range", range[2], "number")
  elseif x:numel() > 0 then
    low, high = x:min():item(), x:max():item()
  end
  if not (low <= high and high - low < math.huge) then
    core.error(("histogram: range must be two finite numbers that rise, got %s and %s"):format(low, high))
  end
  if low == high then
    low, high = low - 0.5, high + 0.5
  end
  return core.linspace(low, high, n + 1, { dtype = x:dtype() })
end

--- histogram(x [, {bins = 10, range = {low, high}, weights =}]): how many elements of x lie in each bin, int64 [bins]
--- (or the sum of their weights), and the edges [bins + 1]. Bins are of equal width from the smallest to the largest
--- element or over `range`, or between a list of edges that rises. An edge belongs to the bin above, the last to the
--- last bin.
function order.histogram(x, given)
  x = as_float(tensor("histogram", "x", x)):reshape { -1 }
  local o = options.check("histogram", given, { bins = options.any(10), range = options.optional "table",
    weights = options.optional "tensor" })
  local weights = o.weights and o.weights:reshape { -1 } or core.ones(x:shape(), { dtype = "int64" })
  if weights:size(1) ~= x:size(1) then
    core.error(("histogram: weights must be of the %d elements of x, got %d"):format(x:size(1), weights:size(1)))
  end
  local edges = edges_of(x, o.bins, o.range)
  local n = edges:size(1)
  local none = core.zeros({ n + 1 }, { dtype = weights:dtype() }) -- with what is below all edges, and above
  return none:scatter_add(1, core.bucketize(x, edges, true, true), weights):slice(1, 2, n), edges
end

-- ---- without NaN ----

--- nansum(x [, axes [, keepdim]]): the sum of the elements that are not NaN.
function order.nansum(x, axes, keepdim)
  tensor("nansum", "x", x)
  return core.where(x:isnan(), 0, x):sum(axes, keepdim)
end

--- nanmean(x [, axes [, keepdim]]): the mean of the elements that are not NaN; NaN where all are.
function order.nanmean(x, axes, keepdim)
  x = as_float(tensor("nanmean", "x", x))
  local missing = x:isnan()
  return core.where(missing, 0, x):sum(axes, keepdim) / missing:logical_not():sum(axes, keepdim):to(x:dtype())
end

return order
