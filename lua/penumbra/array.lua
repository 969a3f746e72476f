--- What arrays are asked for and other operations give together: shapes, single elements, losses. Axes are counted from
--- 1, and from the end by negative numbers; gradients flow as they do through the operations; each is also a method,
--- x:roll(1, 1). Order and counting stand in penumbra.array.order, matrices in penumbra.array.matrix,
--- frequencies and convolutions in penumbra.array.fourier, the loss of labels without places in penumbra.array.ctc.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local array = {}

local function tensor(where, role, x)
  return options.argument(where, role, x, "tensor")
end

local function is_float(x)
  return x:dtype() == "float64" or x:dtype() == "float32"
end

-- ---- shapes ----

--- roll(x, shift, axis): the elements moved by `shift` places along an axis; what leaves at one end comes in at the
--- other.
function array.roll(x, shift, axis)
  tensor("roll", "x", x)
  options.argument("roll", "shift", shift, "number")
  axis = options.axis("roll", x, axis)
  local n, k = x:size(axis), math.tointeger(shift)
  if not k then
    core.error(("roll: shift must be a whole number, got %s"):format(tostring(shift)))
  end
  k = n > 0 and k % n or 0
  return k == 0 and x or core.concatenate({ x:slice(axis, n - k + 1, n), x:slice(axis, 1, n - k) }, axis)
end

--- unbind(x, axis): the list of slices along an axis, which goes.
function array.unbind(x, axis)
  tensor("unbind", "x", x)
  axis = options.axis("unbind", x, axis)
  local list = {}
  for k = 1, x:size(axis) do
    list[k] = x:select(axis, k)
  end
  return list
end

--- split(x, sizes [, axis = 1]): the list of pieces along an axis. sizes: a list that adds up to the axis, or a
--- number, the size of all pieces, of which the last may be smaller (PyTorch's split).
function array.split(x, sizes, axis)
  tensor("split", "x", x)
  axis = options.axis("split", x, axis, 1)
  local n, at, list = x:size(axis), 0, {}
  if type(sizes) == "number" then
    local size = options.whole("split", "sizes", sizes, 1)
    sizes = {}
    for first = 1, n, size do
      sizes[#sizes + 1] = math.min(size, n - first + 1)
    end
  end
  options.argument("split", "sizes", sizes, "table")
  for k, given in ipairs(sizes) do
    local size = options.whole("split", "sizes", given, 0)
    at = at + size
    if at <= n then
      list[k] = x:slice(axis, at - size + 1, at)
    end
  end
  if at ~= n then
    core.error(("split: sizes must add up to the %d elements of axis %d, got %d"):format(n, axis, at))
  end
  return list
end

--- chunk(x, n [, axis = 1]): the list of n pieces along an axis, whose sizes differ by one at most, the larger first
--- (NumPy's array_split).
function array.chunk(x, n, axis)
  tensor("chunk", "x", x)
  n = options.whole("chunk", "n", n, 1)
  axis = options.axis("chunk", x, axis, 1)
  local sizes, all = {}, x:size(axis)
  if n > math.max(all, 1) then
    core.error(("chunk: n must be at most the %d elements of axis %d, got %d"):format(all, axis, n))
  end
  for k = 1, n do
    sizes[k] = all // n + (k <= all % n and 1 or 0)
  end
  return array.split(x, sizes, axis)
end

-- x `times` times along an axis, all of it again (whole) or each slice.
local function repeated(x, times, axis, whole)
  local n = x:size(axis)
  local index = core.arange(0, n, { dtype = "int64" }):unsqueeze(whole and 1 or 2)
  return x:take(axis, index:broadcast_to(whole and { times, n } or { n, times }):reshape { -1 })
end

--- repeat_interleave(x, times, axis): each slice along an axis `times` times, one after the other, or as often as a
--- list of times says for each (NumPy's repeat).
function array.repeat_interleave(x, times, axis)
  tensor("repeat_interleave", "x", x)
  axis = options.axis("repeat_interleave", x, axis)
  if type(times) == "table" then
    if #times ~= x:size(axis) then
      core.error(("repeat_interleave: times must be a number or a list of %d as axis %d, got %d"):format(x:size(axis),
        axis, #times))
    end
    local places = {}
    for k, often in ipairs(times) do
      places[k] = core.full({ options.whole("repeat_interleave", "times", often, 0) }, k - 1, { dtype = "int64" })
    end
    return x:take(axis, #places > 0 and core.concatenate(places, 1) or core.zeros({ 0 }, { dtype = "int64" }))
  end
  return repeated(x, options.whole("repeat_interleave", "times", times, 1), axis, false)
end

--- tile(x, times [, axis]): x `times` times along an axis; or, with a list of times, along each of the last axes:
--- {2, 3} twice downwards and three times to the right. A list longer than the axes of x adds axes in front. (PyTorch's
--- `repeat`, which is a word of Lua.)
function array.tile(x, times, axis)
  tensor("tile", "x", x)
  if type(times) ~= "table" then
    local one = options.whole("tile", "times", times, 1)
    axis = options.axis("tile", x, axis)
    times = {}
    for k = 1, x:ndim() do
      times[k] = k == axis and one or 1
    end
  elseif axis ~= nil then
    core.error "tile: axis must be absent where times is a list"
  end
  for _ = x:ndim() + 1, #times do
    x = x:unsqueeze(1)
  end
  local skip = x:ndim() - #times
  for k = 1, #times do
    local often = options.whole("tile", "times", times[k], 1)
    x = often > 1 and repeated(x, often, skip + k, true) or x
  end
  return x
end

--- flatten(x [, first = 1 [, last = -1]]): the axes from first to last as one.
function array.flatten(x, first, last)
  tensor("flatten", "x", x)
  if x:ndim() == 0 then
    return x:reshape { 1 }
  end
  first, last = options.axis("flatten", x, first, 1), options.axis("flatten", x, last, -1)
  if first > last then
    core.error(("flatten: first must not lie behind last, got %d and %d"):format(first, last))
  end
  local sizes, one = {}, 1
  for k, size in ipairs(x:shape()) do
    if k < first or k > last then
      sizes[#sizes + 1] = size
    else
      one = one * size
      sizes[first] = one
    end
  end
  return x:reshape(sizes)
end

--- moveaxis(x, from, to): axis `from` at the place `to`, the others in their order.
function array.moveaxis(x, from, to)
  tensor("moveaxis", "x", x)
  from, to = options.axis("moveaxis", x, from), options.axis("moveaxis", x, to)
  local order = {}
  for k = 1, x:ndim() do
    if k ~= from then
      order[#order + 1] = k
    end
  end
  table.insert(order, to, from)
  return x:permute(order)
end

--- meshgrid(x, y): of vectors [n] and [m] the coordinates of their grid, two tensors [n, m]: x along the first axis.
function array.meshgrid(x, y)
  for role, t in pairs { x = tensor("meshgrid", "x", x), y = tensor("meshgrid", "y", y) } do
    if t:ndim() ~= 1 then
      core.error(("meshgrid: %s must be a vector, got %d axes"):format(role, t:ndim()))
    end
  end
  local sizes = { x:size(1), y:size(1) }
  return x:unsqueeze(2) + core.zeros(sizes, { dtype = x:dtype() }), y:unsqueeze(1) + core.zeros(sizes,
    { dtype = y:dtype() })
end

--- zeros_like(x): zeros with the shape and dtype of x.
function array.zeros_like(x)
  tensor("zeros_like", "x", x)
  return core.zeros(x:shape(), { dtype = x:dtype() })
end

--- ones_like(x): ones with the shape and dtype of x.
function array.ones_like(x)
  tensor("ones_like", "x", x)
  return core.ones(x:shape(), { dtype = x:dtype() })
end

--- full_like(x, value): one number everywhere, with the shape and dtype of x.
function array.full_like(x, value)
  tensor("full_like", "x", x)
  options.argument("full_like", "value", value, "number")
  return core.full(x:shape(), value, { dtype = x:dtype() })
end

--- one_hot(y, K [, dtype]): 1 at the class of y, from 0 to K - 1, else 0: [..., K] for int64 y [...]. A class outside
--- gives a row of zeros.
function array.one_hot(y, k, dtype)
  tensor("one_hot", "y", y)
  k = options.whole("one_hot", "K", k, 1)
  return y:unsqueeze(-1):eq(core.arange(0, k):to(y:dtype())):to(dtype or core.default_dtype())
end

-- ---- elementwise ----

--- logit(p): log odds, log p - log(1 - p).
function array.logit(p)
  tensor("logit", "p", p)
  return p:log() - (-p):log1p()
end

--- log2(x): logarithm of base 2.
function array.log2(x)
  return tensor("log2", "x", x):log() / math.log(2)
end

--- log10(x): logarithm of base 10.
function array.log10(x)
  return tensor("log10", "x", x):log() / math.log(10)
end

--- trunc(x): the whole number next to x towards 0; gradient zero.
function array.trunc(x)
  tensor("trunc", "x", x)
  return is_float(x) and core.where(x:lt(0), x:ceil(), x:floor()) or x
end

local largest = { float64 = 0x1.fffffffffffffp1023, float32 = 0x1.fffffep127 }

--- nan_to_num(x [, {nan = 0, posinf =, neginf =}]): x with NaN and the infinities replaced, these by the largest and
--- smallest finite number unless said otherwise; gradient zero there.
function array.nan_to_num(x, given)
  tensor("nan_to_num", "x", x)
  local o = options.check("nan_to_num", given, { nan = options.any(0), posinf = options.optional(),
    neginf = options.optional() })
  local most = largest[x:dtype()]
  if not most then
    return x
  end
  local y = core.where(x:isnan(), o.nan, x)
  y = core.where(x:eq(math.huge), o.posinf or most, y)
  return core.where(x:eq(-math.huge), o.neginf or -most, y)
end

local closeness = { rtol = 1e-5, atol = 1e-8, equal_nan = false }

local function close(where, x, y, given)
  tensor(where, "x", x)
  y = options.numbers(where, "y", y)
  local o = options.check(where, given, closeness)
  if type(y) == "number" then
    y = core.full({}, y, { dtype = x:dtype() })
  end
  local near = (x - y):abs():le(y:abs() * o.rtol + o.atol)
  local same = x:eq(y):logical_or(x:isfinite():logical_and(y:isfinite()):logical_and(near))
  return o.equal_nan and same:logical_or(x:isnan():logical_and(y:isnan())) or same
end

--- isclose(x, y [, {rtol = 1e-5, atol = 1e-8, equal_nan = false}]): where |x - y| <= atol + rtol |y|, or both are the
--- same infinity (or NaN): bool.
function array.isclose(x, y, given)
  return close("isclose", x, y, given)
end

--- allclose(x, y [, {rtol = 1e-5, atol = 1e-8, equal_nan = false}]): is |x - y| <= atol + rtol |y| everywhere, or are
--- both the same infinity (or NaN): true or false.
function array.allclose(x, y, given)
  return close("allclose", x, y, given):all():item()
end

-- ---- losses ----

local cross_entropy_options = { weights = options.optional "tensor", ignore = options.optional "number", smoothing = 0 }

-- The same with weights of the classes [K], data of the class `ignore` left out, and some of each label's probability
-- given to all classes alike.
local function weighted_cross_entropy(logits, y, given)
  local o = options.check("cross_entropy", given, cross_entropy_options)
  local k = logits:size(2)
  if o.weights and (o.weights:ndim() ~= 1 or o.weights:size(1) ~= k) then
    core.error(("cross_entropy: weights must have shape [%d], one for each class, got [%s]"):format(k,
      table.concat(o.weights:shape(), ", ")))
  elseif not (o.smoothing >= 0 and o.smoothing <= 1) then
    core.error(("cross_entropy: smoothing must lie in 0 to 1, got %s"):format(o.smoothing))
  end
  local keep = o.ignore and y:ne(options.whole("cross_entropy", "ignore", o.ignore, -math.maxinteger)) or nil
  local label = keep and core.where(keep, y, core.zeros({}, { dtype = "int64" })) or y
  local log_p = logits:log_softmax(2)
  local weights = o.weights or core.ones({ k }, { dtype = logits:dtype() })
  local weight = weights:take(1, label)
  weight = keep and core.where(keep, weight, core.zeros({}, { dtype = weight:dtype() })) or weight
  local own = (log_p:gather(2, label:unsqueeze(2)):squeeze(2) * weight):sum()
  if o.smoothing == 0 then
    return -own / weight:sum()
  end
  local all = (log_p * weights):sum(2)
  all = (keep and core.where(keep, all, core.zeros({}, { dtype = all:dtype() })) or all):sum()
  return -(own * (1 - o.smoothing) + all * (o.smoothing / k)) / weight:sum()
end

-- Labels as int64: floats that are whole numbers are labels, too, but where a step is captured, which cannot look.
local function labels(where, y)
  if y:dtype() == "int64" or y:dtype() == "bool" or core.capture.going_on() then
    return y
  elseif not y:eq(y:round()):all():item() then
    core.error(("%s: y must be classes, whole numbers from 0, got %s with others"):format(where, y:dtype()))
  end
  return y:to "int64"
end

--- cross_entropy(logits, y [, {weights =, ignore =, smoothing = 0}]): minus the mean log probability of classes y,
--- whole numbers [N] from 0 (int64; in a compiled step nothing else), by logits [N, K]: 0-d. weights [K]: how much
--- data of each class count (pn.data.class_weights), the mean is by them; ignore: a label (-100, say) whose data are
--- left out; smoothing: the share of each label's probability that all classes get alike.
function array.cross_entropy(logits, y, given)
  tensor("cross_entropy", "logits", logits)
  tensor("cross_entropy", "y", y)
  if logits:ndim() ~= 2 or y:ndim() ~= 1 or y:size(1) ~= logits:size(1) then
    core.error(("cross_entropy: shapes must be logits [N, K] and y [N], got [%s] and [%s]"):format(
      table.concat(logits:shape(), ", "), table.concat(y:shape(), ", ")))
  end
  y = labels("cross_entropy", y)
  if given ~= nil then
    return weighted_cross_entropy(logits, y, given)
  end
  return (logits:logsumexp(2) - logits:gather(2, y:unsqueeze(2)):squeeze(2)):mean()
end

-- Two tensors of one shape; the first one's name.
local function alike(where, x, y, name)
  name = name or "x"
  tensor(where, name, x)
  tensor(where, "y", y)
  if table.concat(x:shape(), ",") ~= table.concat(y:shape(), ",") then
    core.error(("%s: %s and y must have one shape, got [%s] and [%s]: they would be compared crosswise"):format(where,
      name, table.concat(x:shape(), ", "), table.concat(y:shape(), ", ")))
  end
end

--- mse(x, y): the mean of (x - y)^2 over all elements, of one shape: 0-d.
function array.mse(x, y)
  alike("mse", x, y)
  return (x - y):square():mean()
end

--- mae(x, y): the mean of |x - y| over all elements, of one shape: 0-d.
function array.mae(x, y)
  alike("mae", x, y)
  return (x - y):abs():mean()
end

--- bce(p, y): minus the mean log probability of y, 0 or 1 (or between), by probabilities p of 1, of one shape: 0-d. Of
--- logits take bce_logits, which is exact where p is near 0 or 1.
function array.bce(p, y)
  alike("bce", p, y, "p")
  return -(y:xlogy(p) + (1 - y):xlogy(1 - p)):mean()
end

--- bce_logits(x, y): minus the mean log probability of y, 0 or 1 (or between), where 1 has probability sigmoid(x), of
--- one shape: 0-d.
function array.bce_logits(x, y)
  alike("bce_logits", x, y)
  return (x:softplus() - x * y):mean()
end

--- kl_div(log_q, p [, {log_target = false}]): the divergence KL(p || q) = sum p (log p - log_q) of probabilities over
--- the last axis, averaged over the others: 0-d. Shapes are one; where p is 0 nothing counts. log_target: p is given as
--- logarithms. It is PyTorch's kl_div with reduction = "batchmean" for [N, K].
function array.kl_div(log_q, p, given)
  local o = options.check("kl_div", given, { log_target = false })
  tensor("kl_div", "log_q", log_q)
  tensor("kl_div", "p", p)
  if log_q:ndim() == 0 or table.concat(log_q:shape(), ",") ~= table.concat(p:shape(), ",") then
    core.error(("kl_div: log_q and p must have one shape [..., K], got [%s] and [%s]"):format(
      table.concat(log_q:shape(), ", "), table.concat(p:shape(), ", ")))
  end
  local log_p = o.log_target and p or nil
  p = o.log_target and p:exp() or p
  local none = p:eq(0)
  local zero = core.zeros({}, { dtype = log_q:dtype() })
  local own = log_p and p * core.where(none, zero, log_p) or p:xlogy(p)
  return (own - p * core.where(none, zero, log_q)):sum(-1):mean()
end

--- huber(x, y [, delta = 1]): of d = x - y elementwise d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); of one
--- shape. Huber 1964.
function array.huber(x, y, delta)
  tensor("huber", "x", x)
  tensor("huber", "y", y)
  delta = delta == nil and 1 or options.argument("huber", "delta", delta, "number")
  if table.concat(x:shape(), ",") ~= table.concat(y:shape(), ",") or not (delta > 0) then
    core.error(("huber: x and y must have one shape and delta be positive, got [%s], [%s] and %s"):format(
      table.concat(x:shape(), ", "), table.concat(y:shape(), ", "), tostring(delta)))
  end
  local size = (x - y):abs()
  local near = size:clamp(0, delta)
  return near * (size - near * 0.5)
end

return array
