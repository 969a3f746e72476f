--- Steps of filters and of paths that are captured once for each form and shapes of their tensors and replayed from
--- then on (pn.compile): the same draws and the same bits as step by step, in less time, and never more than one step
--- in memory, however many there are.
-- help: none
local core = require "penumbra.core"
local replay = require "penumbra.autodiff.replay"

local replayed_step = {}

local PLANS, WAYS = 8, 64 -- shapes in one form, and forms of a model

-- model -> {count =, ways =}: what it has captured by name and form, lists of {fields =, generator =, call =}; without
-- a call what no plan can keep.
local kept = setmetatable({}, { __mode = "k" })

-- Appends where the tensors of nested tables stand, keys in an order that does not change, and their names; and to
-- list.tables where the tables do.
local function places_of(parts, path, list, names)
  local keys = {}
  for key in pairs(parts) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local place = table.move(path, 1, #path, 1, {})
    place[#place + 1] = key
    if core.is_tensor(parts[key]) then
      list[#list + 1] = place
      names[#names + 1] = table.concat(place, ".")
    else
      table.insert(list.tables, place)
      places_of(parts[key], place, list, names)
    end
  end
  return list, names
end

-- The tensors at these places, a list.
local function taken(parts, places)
  local list = {}
  for k, place in ipairs(places) do
    local x = parts
    for depth = 1, #place do x = x[place[depth]] end
    list[k] = x
  end
  return list
end

local function put_at(parts, place, value)
  for depth = 1, #place - 1 do parts = parts[place[depth]] end
  parts[place[#place]] = value
end

-- The nested tables again.
local function put(places, ...)
  local parts = {}
  for _, place in ipairs(places.tables) do put_at(parts, place, {}) end
  for k, place in ipairs(places) do put_at(parts, place, (select(k, ...))) end
  return parts
end

-- Results up to the first that is nil.
local function without_nil(...)
  local n = 0
  while n < select("#", ...) and (select(n + 1, ...)) ~= nil do n = n + 1 end
  return table.unpack({ ... }, 1, n)
end

-- Appends what tables hold, those within them, too, but for `kind`, the functions of a class. (Of a table that nobody
-- changes `next` keeps the order.)
local function add_fields(t, list, seen)
  seen[t] = true
  for key, value in next, t do
    list[#list + 1] = value
    if type(value) == "table" and key ~= "kind" and not seen[value] then
      add_fields(value, list, seen)
    end
  end
  return list
end

local function equal(a, b)
  for k = 1, math.max(#a, #b) do
    if not rawequal(a[k], b[k]) then return false end
  end
  return true
end

-- What was captured under a name for parts in this form, and for what the model and its networks hold `now`: pn.compile
-- watches nothing of a function of the library. Draws come from a generator of its own, which is set to where that of
-- the call stands: a plan keeps its generator.
local function way_of(self, name, own_generator, step, places, names, now)
  local mine = kept[self]
  if not mine or mine.count == WAYS then
    mine = { count = 0, ways = {} }
    kept[self] = mine
  end
  local key = table.concat({ name, own_generator and "own" or "default", table.unpack(names) }, " ")
  local ways = mine.ways[key] or {}
  mine.ways[key] = ways
  for k = #ways, 1, -1 do
    if equal(ways[k].fields, now) then return ways[k] end
  end
  local generator = own_generator and core.generator(0) or nil
  mine.count = mine.count + 1
  ways[#ways + 1] = { fields = now, generator = generator, call = replay.compile(function(...)
    return without_nil(step(self, put(places, ...), generator))
  end, { plans = PLANS }) }
  return ways[#ways]
end

-- What a call of what was captured gave, after true; false where it cannot be captured.
local function answered(way, generator, ok, ...)
  if ok then
    if generator then
      generator:set_state(way.generator:state())
    end
    return true, ...
  elseif core.raised_status((...)) ~= "state" then
    error((...), 0)
  end
  way.call = nil
  return false
end

-- A call of what was captured. What cannot be captured, as a network of one's own that looks at numbers, is computed
-- step by step from there on, by the same draws.
local function called(way, generator, list)
  if not way.call then
    return false
  end
  if generator then
    way.generator:set_state(generator:state())
  end
  return answered(way, generator, pcall(way.call, table.unpack(list)))
end

-- The results of a call that was answered, or of the step itself, from where the draws stood.
local function settled(self, step, parts, generator, before, ok, ...)
  if ok then
    return ...
  end
  if before then core.set_rng_state(before) end
  return step(self, parts, generator)
end

--- of(self, how): a function of (name, step) for the steps of one call, step(self, parts, generator), whose parts are
--- (nested) tables of tensors and which gives tensors (the last may be nil). It gives the step as a function of parts
--- alone: replayed unless how.compile is false, with draws of how.generator (nil: the default one). Parts of all calls
--- have the form of the first. What `step` depends on beside self and parts stands in the name.
function replayed_step.of(self, how)
  local generator, fields = how.generator, nil
  return function(name, step)
    local places, way
    return function(parts)
      if how.compile == false or core.capture.going_on() then
        return step(self, parts, generator)
      end
      if not way then
        local names
        places, names = places_of(parts, {}, { tables = {} }, {})
        fields = fields or add_fields(self, {}, {})
        way = way_of(self, name, generator ~= nil, step, places, names, fields)
      end
      local before = not generator and way.call and core.rng_state()
      return settled(self, step, parts, generator, before, called(way, generator, taken(parts, places)))
    end
  end
end

return replayed_step
