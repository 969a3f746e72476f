--- One constructor a row, of the distributions in C: dist.gamma(2, 3), dist.gamma{rate = 3, concentration = 2}. What
--- needs a distribution inside pn.dist takes it from here.
-- help: nowhere
local core = require "penumbra.core"
local own = require "penumbra.distribution.own"

local dist = {}

local function is_named(t)
  return type(t) == "table" and #t == 0
end

-- Positional arguments as a named table: of alternatives only the first is positional.
local function by_name(row, ...)
  local named, place, n = {}, 0, select("#", ...)
  local previous
  for _, p in ipairs(row.parameters) do
    if not (p.choice and p.choice == previous) then
      place = place + 1
      if place <= n then
        named[p.name] = (select(place, ...))
      end
    end
    previous = p.choice
  end
  if n > place then
    core.error(("%s: number of positional parameters must be at most %d, got %d"):format(row.name, place, n))
  end
  return named
end

-- A list of numbers as a tensor; anything else is left alone.
local function listed(where, role, value, given)
  if type(value) ~= "table" then
    return value
  end
  local ok, t = pcall(core.tensor, value, given)
  if not ok then
    local why = tostring(t):match "tensor: .*"
    core.error(("%s: %s must be numbers in lists of equal lengths (%s)"):format(where, role, why))
  end
  return t
end

-- Lists of numbers are taken as tensors.
local function with_tensors(where, named)
  local plain = {}
  for name, value in pairs(named) do
    plain[name] = listed(where, tostring(name), value)
  end
  return plain
end

local function constructor(row)
  return function(first, ...)
    local named = is_named(first) and select("#", ...) == 0 and first or by_name(row, first, ...)
    return core.new_distribution(row.name, with_tensors(row.name, named))
  end
end

for _, row in ipairs(core.distribution_rows()) do
  dist[row.name] = constructor(row)
end
dist.listed = listed

-- is(x): is x a distribution, the library's or a script's?
function dist.is(x)
  return type(x) == "userdata" and getmetatable(x) == "penumbra.distribution" or own.is(x)
end

return dist
