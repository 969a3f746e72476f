--- What arrays are asked for and other operations give together. Axes are counted from 1, and from the end by negative
--- numbers; gradients flow as they do through the operations.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local array = {}

local function tensor(where, role, x)
  return options.argument(where, role, x, "tensor")
end

-- An axis of x from 1.
local function axis_of(where, x, axis)
  local k = type(axis) == "number" and math.tointeger(axis) or nil
  local n = x:ndim()
  k = k and k < 0 and k + n + 1 or k
  if not k or k < 1 or k > n then
    core.error(("%s: axis must lie in 1 to %d (or -1 backwards), got %s"):format(where, n, tostring(axis)))
  end
  return k
end

-- ---- order ----

--- quantile(x, level, axis): the quantile at a level from 0 to 1 along an axis, which goes: the value at place 1 + (n -
--- 1) level of the sorted ones, between two of them by linear interpolation, as NumPy's.
function array.quantile(x, level, axis)
  tensor("quantile", "x", x)
  options.argument("quantile", "level", level, "number")
  axis = axis_of("quantile", x, axis)
  local n = x:size(axis)
  if not (level >= 0 and level <= 1) or n == 0 then
    core.error(("quantile: level must lie in 0 to 1 and x have elements along axis %d, got %s and %d"):format(axis,
      tostring(level), n))
  end
  local sorted, place = x:sort(axis), 1 + (n - 1) * level
  local low = math.floor(place)
  local part, first = place - low, sorted:select(axis, low)
  return part > 0 and first * (1 - part) + sorted:select(axis, low + 1) * part or first
end

--- median(x, axis): the middle of the sorted values along an axis, which goes; of an even number the mean of the two.
function array.median(x, axis)
  tensor("median", "x", x)
  return array.quantile(x, 0.5, axis_of("median", x, axis))
end

--- searchsorted(sorted, values): for each value how many of `sorted` [n], which rises, are below it: int64, shaped like
--- values. Takes n operations for each value.
function array.searchsorted(sorted, values)
  tensor("searchsorted", "sorted", sorted)
  tensor("searchsorted", "values", values)
  if sorted:ndim() ~= 1 then
    core.error(("searchsorted: sorted must be [n], got %d axes"):format(sorted:ndim()))
  end
  return sorted:lt(values:unsqueeze(-1)):to("int64"):sum(-1)
end

-- ---- shapes ----

--- roll(x, shift, axis): the elements moved by `shift` places along an axis; what leaves at one end comes in at the
--- other.
function array.roll(x, shift, axis)
  tensor("roll", "x", x)
  options.argument("roll", "shift", shift, "number")
  axis = axis_of("roll", x, axis)
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
  axis = axis_of("unbind", x, axis)
  local list = {}
  for k = 1, x:size(axis) do
    list[k] = x:select(axis, k)
  end
  return list
end

--- repeat_interleave(x, times, axis): each slice along an axis `times` times, one after the other.
function array.repeat_interleave(x, times, axis)
  tensor("repeat_interleave", "x", x)
  times = options.whole("repeat_interleave", "times", times, 1)
  axis = axis_of("repeat_interleave", x, axis)
  local index = (core.arange(0, x:size(axis) * times) / times):floor():to "int64"
  return x:take(axis, index)
end

--- tile(x, times, axis): x `times` times along an axis.
function array.tile(x, times, axis)
  tensor("tile", "x", x)
  times = options.whole("tile", "times", times, 1)
  axis = axis_of("tile", x, axis)
  local list = {}
  for k = 1, times do
    list[k] = x
  end
  return core.concatenate(list, axis)
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

--- one_hot(y, K [, dtype]): 1 at the class of y, from 0 to K - 1, else 0: [..., K] for int64 y [...]. A class outside
--- gives a row of zeros.
function array.one_hot(y, k, dtype)
  tensor("one_hot", "y", y)
  k = options.whole("one_hot", "K", k, 1)
  return y:unsqueeze(-1):eq(core.arange(0, k):to(y:dtype())):to(dtype or core.default_dtype())
end

--- kron(a, b): Kronecker product of matrices [n, m] and [p, q]: [n p, m q].
function array.kron(a, b)
  tensor("kron", "a", a)
  tensor("kron", "b", b)
  if a:ndim() ~= 2 or b:ndim() ~= 2 then
    core.error(("kron: a and b must be matrices, got %d and %d axes"):format(a:ndim(), b:ndim()))
  end
  local n, m, p, q = a:size(1), a:size(2), b:size(1), b:size(2)
  return (a:reshape { n, 1, m, 1 } * b:reshape { 1, p, 1, q }):reshape { n * p, m * q }
end

-- ---- elementwise ----

--- atanh(x): the inverse of tanh, (log(1 + x) - log(1 - x)) / 2.
function array.atanh(x)
  tensor("atanh", "x", x)
  return (x:log1p() - (-x):log1p()) * 0.5
end

--- acosh(x): the inverse of cosh, from 1 on.
function array.acosh(x)
  local t = tensor("acosh", "x", x) - 1
  return (t + t:sqrt() * (t + 2):sqrt()):log1p()
end

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

-- ---- losses ----

--- cross_entropy(logits, y): minus the mean log probability of classes y, int64 [N] from 0, by logits [N, K]: 0-d.
function array.cross_entropy(logits, y)
  tensor("cross_entropy", "logits", logits)
  tensor("cross_entropy", "y", y)
  if logits:ndim() ~= 2 or y:ndim() ~= 1 or y:size(1) ~= logits:size(1) then
    core.error(("cross_entropy: shapes must be logits [N, K] and y [N], got [%s] and [%s]"):format(
      table.concat(logits:shape(), ", "), table.concat(y:shape(), ", ")))
  end
  return (logits:logsumexp(2) - logits:gather(2, y:unsqueeze(2)):squeeze(2)):mean()
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
