--- One constructor a row: nn.linear(in, out, options), nn.relu(options).
-- help: nowhere
local core = require "penumbra.core"

local nn = {}

-- ---- one layer as text ----

local function sorted(t)
  local keys = {}
  for key in pairs(t) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local maps = {} -- layers from `in` to something
local layer_rows = core.layer_rows()
for _, row in ipairs(layer_rows) do
  maps[row.name] = row.sizes[1] == "in"
end

core.set_tostring("penumbra.layer", function(layer)
  local sizes, set = layer:configuration()
  local parts = {}
  if #sizes > 0 then
    parts[1] = table.concat(sizes, maps[layer:type()] and " -> " or ", ")
  end
  for _, key in ipairs(sorted(set)) do
    local v = set[key]
    local text = type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or tostring(v)
    parts[#parts + 1] = ("%s = %s"):format(key, text)
  end
  return ("%s(%s)"):format(layer:type(), table.concat(parts, ", "))
end)

-- ---- constructors ----

-- Settings of a layer as a table, of what a call says after its sizes: by position in the order in which help prints
-- them, then a table.
local function settings_of(row, ...)
  local n, given = select("#", ...), nil
  local first = ...
  if n == 0 or n == 1 and (first == nil or type(first) == "table") then
    return first
  end
  local set, values = {}, { ... }
  if type(values[n]) == "table" then
    given, n = values[n], n - 1
    for key, value in pairs(given) do set[key] = value end
  end
  if n > #row.options then
    core.error(("%s: takes at most %d numbers and settings, got %d"):format(row.name, #row.sizes + #row.options,
      #row.sizes + n))
  end
  for k = 1, n do
    local name = row.options[k].name
    if type(values[k]) == "table" then
      core.error(("%s: settings by name stand last, got a table before others"):format(row.name))
    elseif given and given[name] ~= nil then
      core.error(("%s: %s is given by position and by name"):format(row.name, name))
    end
    set[name] = values[k]
  end
  return set
end

local function constructor(row)
  local names, n = row.sizes, #row.sizes
  local open = n > 0 and names[n]:match "^(.*)%.%.%.$" -- the last name stands for one or more sizes
  return function(...)
    local last, sizes = n, n > 0 and {} or nil
    if open then
      last = select("#", ...)
      last = last >= n and math.type((select(last, ...))) == "integer" and last or math.max(n, last - 1)
    end
    for k = 1, last do
      sizes[k] = (select(k, ...))
      if math.type(sizes[k]) ~= "integer" then
        core.error(("%s: %s must be a whole number, got %s"):format(row.name, k >= n and open or names[k],
          tostring(sizes[k])))
      end
    end
    return core.new_layer(row.name, sizes, settings_of(row, select(last + 1, ...)))
  end
end

for _, row in ipairs(layer_rows) do
  nn[row.name] = constructor(row)
end

return nn
