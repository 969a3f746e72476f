--- Data in two parts, one for the prior and one for the certificate, and whether a part has rows that a prior saw.
-- help: pn.pac, quiet
local core = require "penumbra.core"
local array_order = require "penumbra.array.order"
local options = require "penumbra.options"

local split_data = {}

local origin = setmetatable({}, { __mode = "k" }) -- a part -> {whole =, side =}: the call of split that made it

--- check(where, role, data): {x, y} with as many rows each. Returns their number.
function split_data.check(where, role, data)
  options.argument(where, role, data, "table")
  local x, y = data[1], data[2]
  if #data ~= 2 or not core.is_tensor(x) or not core.is_tensor(y) or x:ndim() == 0 or y:ndim() == 0
      or x:size(1) ~= y:size(1) or x:size(1) == 0 then
    core.error(("%s: %s must be a list {x, y} of tensors with as many rows each, at least one"):format(where, role))
  end
  return x:size(1)
end

local known = { split = 0.5, seed = 0 }

--- split({x, y} [, {split = 0.5, seed = 0}]): the data in two parts at random, by the seed alone: a share `split` for
--- the prior, and the rest, {x, y} each. A certificate knows of two such parts that they have no row in common, also
--- where rows are equal.
function split_data.split(data, given)
  local o = options.check("split", given, known)
  local n = split_data.check("split", "data", data)
  local held = math.floor(o.split * n + 0.5)
  if not (held >= 1 and held < n) then
    core.error(("split: split must leave rows on both sides, got %g of %d rows"):format(o.split, n))
  end
  local order = core.randperm(n, { generator = core.generator(o.seed) })
  local whole, parts = {}, {}
  for k, rows in ipairs { order:slice(1, 1, held), order:slice(1, held + 1, n) } do
    parts[k] = { data[1]:take(1, rows), data[2]:take(1, rows) }
    origin[parts[k]] = { whole = whole, side = k }
  end
  return parts[1], parts[2]
end

-- A number for each row of x and y, the same for equal rows and another, but for chance in 2^50, for others.
local function marks(data)
  local x, y = data[1], data[2]
  local n = x:size(1)
  local width = x:numel() // n + y:numel() // n
  local weights = core.randn({ width }, { generator = core.generator(31) })
  local list = {}
  for from = 1, n, 4096 do
    local last = math.min(from + 4095, n)
    local row = core.concatenate({ x:slice(1, from, last):to("float64"):reshape { last - from + 1, -1 },
      y:slice(1, from, last):to("float64"):reshape { last - from + 1, -1 } }, 2)
    list[#list + 1] = (row * weights):sum(2)
  end
  return #list == 1 and list[1] or core.concatenate(list, 1)
end

--- common(a, b): how many rows of b stand in a, too.
function split_data.common(a, b)
  local one, other = origin[a], origin[b]
  if one and other and one.whole == other.whole then
    return one.side == other.side and b[1]:size(1) or 0
  elseif a[1]:numel() // a[1]:size(1) ~= b[1]:numel() // b[1]:size(1) then
    return 0
  end
  return math.tointeger(array_order.isin(marks(b), marks(a)):to("float64"):sum():item())
end

return split_data
