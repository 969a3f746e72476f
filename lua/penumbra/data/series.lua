--- Sets of time series, as forecasters are trained and tested on them, made by pn.data.series, .gluonts, .series_csv.
---
---     local set = assert(pn.data.gluonts("train.json.gz", { freq = "B" }))
---     #set   set.items[1].target [T, p]   set.size (p)   set.covariates (k)
---     set:windows { size = 90, count = 50 }                a batch of windows at random
---     set:history { steps = 60, drop = 30 }                a batch: the 60 steps before the last 30 of each series
---     set:future { steps = 30, drop = 30 }                 what came then: { y =, inputs = }
---
--- Batches are what forecasters take (pn.help "penumbra.models.forecaster"): y [T, B, p], inputs [T, B, k], lengths
--- where series are shorter, series (identities) and start, the step from an origin that all have in common: Mondays.
-- help: module, methods set
local calendar = require "penumbra.data.calendar"
local core = require "penumbra.core"
local options = require "penumbra.options"

local series = {}
local methods = {}

local shape_text = options.shape_text

local function integers(list)
  return core.tensor(list, { dtype = "int64" })
end

-- ---- covariates ----

-- The features by the calendar of an item's steps first ... last, from 1: [n, features]. Series of one start share
-- them.
local function calendar_features(set, item, first, last)
  local key = ("%s %s"):format(item.day or "", item.second or "")
  local known = set.known[key]
  if not known or known:size(1) < last then
    local rows = {}
    for i = 0, last + last // 4 do
      local day, second
      if set.frequency and item.day then
        day, second = calendar.at(set.frequency, item.day, item.second, i)
      end
      local row = {}
      for k, name in ipairs(set.features) do
        row[k] = calendar.features[name](day, second, i)
      end
      rows[i + 1] = row
    end
    known = core.tensor(rows, { dtype = set.dtype })
    set.known[key] = known
  end
  return known:slice(1, first, last)
end

-- Inputs of an item's steps first ... last: [n, k], nil where the set has none.
local function covariates_of(where, set, item, first, last)
  local parts = {}
  if item.covariates then
    if item.covariates:size(1) < last then
      core.error(("%s: covariates of item '%s' end at step %d, %d are needed"):format(where, item.item_id,
        item.covariates:size(1), last))
    end
    parts[1] = item.covariates:slice(1, first, last)
  end
  if #set.features > 0 then
    parts[#parts + 1] = calendar_features(set, item, first, last)
  end
  return #parts > 1 and core.concatenate(parts, 2) or parts[1]
end

-- ---- batches ----

-- x [n, k] with `fill` behind it up to `steps`.
local function padded(x, steps, fill)
  local short = steps - x:size(1)
  return short == 0 and x or core.concatenate({ x, core.full({ short, x:size(2) }, fill, { dtype = x:dtype() }) }, 1)
end

-- A batch of pieces: list of {item, first, last}.
local function assemble(where, set, pieces)
  local steps, short, y, u, lengths, identity, start = 0, false, {}, {}, {}, {}, {}
  for k, piece in ipairs(pieces) do
    lengths[k] = piece.last - piece.first + 1
    steps = math.max(steps, lengths[k])
  end
  for k, piece in ipairs(pieces) do
    local item = piece.item
    short = short or lengths[k] < steps
    y[k] = padded(item.target:slice(1, piece.first, piece.last), steps, 0 / 0)
    local given = covariates_of(where, set, item, piece.first, piece.last)
    u[k] = given and padded(given, steps, 0)
    identity[k], start[k] = item.series, item.origin + piece.first - 1
  end
  return { y = core.stack(y, 2), inputs = u[1] and core.stack(u, 2) or nil, lengths = short
    and integers(lengths) or nil,
    series = integers(identity), start = integers(start) }
end

--- windows{size =, count =, generator =}: a batch of `count` windows of `size` steps: an item, all alike likely,
--- and a start, uniform; an item shorter than that comes whole, with its length.
function methods:windows(given)
  local o = options.check("windows", given, { size = options.required "number", count = options.required "number",
    generator = options.optional "generator" })
  local size = options.whole("windows", "size", o.size, 1)
  local draws, pieces = core.rand({ o.count, 2 }, { generator = o.generator, dtype = "float64" }):totable(), {}
  for k, pair in ipairs(draws) do
    local item = self.items[1 + math.floor(pair[1] * #self.items)]
    local first = 1 + math.floor(pair[2] * math.max(1, item.length - size + 1))
    pieces[k] = { item = item, first = first, last = math.min(item.length, first + size - 1) }
  end
  return assemble("windows", self, pieces)
end

local function chosen(where, self, list)
  local items = {}
  for k, i in ipairs(list or {}) do
    items[k] = self.items[options.whole(where, ("items[%d]"):format(k), i, 1)]
      or core.error(("%s: items[%d] must be at most %d, got %d"):format(where, k, #self.items, i))
  end
  return list and items or self.items
end

--- history{steps =, drop = 0, items =}: a batch of the last `steps` steps (all) of each item before its last `drop`
--- ones; of the items in the list, in its order (all).
function methods:history(given)
  local o = options.check("history", given, { steps = options.optional "number", drop = 0,
    items = options.optional "table" })
  local steps = o.steps and options.whole("history", "steps", o.steps, 1) or math.maxinteger
  local drop, pieces = options.whole("history", "drop", o.drop, 0), {}
  for k, item in ipairs(chosen("history", self, o.items)) do
    local last = item.length - drop
    if last < 1 then
      core.error(("history: item '%s' has %d steps, drop must be less, got %d"):format(item.item_id, item.length, drop))
    end
    pieces[k] = { item = item, first = math.max(1, last - math.min(steps, last) + 1), last = last }
  end
  return assemble("history", self, pieces)
end

--- future{steps =, drop = 0, items =}: what follows history{drop = drop}: inputs [steps, B, k] (nil without covariates)
--- and y [steps, B, p], NaN where the series has ended.
function methods:future(given)
  local o = options.check("future", given, { steps = options.required "number", drop = 0,
    items = options.optional "table" })
  local steps = options.whole("future", "steps", o.steps, 1)
  local drop, y, u = options.whole("future", "drop", o.drop, 0), {}, {}
  for k, item in ipairs(chosen("future", self, o.items)) do
    local first = item.length - drop + 1
    if first < 1 then
      core.error(("future: item '%s' has %d steps, drop must be at most that, got %d"):format(item.item_id, item.length,
        drop))
    end
    local last = math.min(item.length, first + steps - 1)
    y[k] = last >= first and padded(item.target:slice(1, first, last), steps, 0 / 0)
      or core.full({ steps, self.size }, 0 / 0, { dtype = self.dtype })
    u[k] = covariates_of("future", self, item, first, first + steps - 1)
  end
  return { y = core.stack(y, 2), inputs = u[1] and core.stack(u, 2) or nil }
end

--- without(n): the same set without the last n steps of each item.
function methods:without(n)
  n = options.whole("without", "n", n, 0)
  local other, items = {}, {}
  for name, value in pairs(self) do
    other[name] = value
  end
  for k, item in ipairs(self.items) do
    if item.length <= n then
      core.error(("without: n must be less than %d, the steps of item '%s', got %d"):format(item.length, item.item_id,
        n))
    end
    items[k] = {}
    for name, value in pairs(item) do
      items[k][name] = value
    end
    items[k].length, items[k].target = item.length - n, item.target:slice(1, 1, item.length - n)
  end
  other.items = items
  return setmetatable(other, getmetatable(self))
end

local class = { __index = core.namespace("a series set", methods), __name = "series_set" }

function class:__len()
  return #self.items
end

function class:__tostring()
  local least, most = math.huge, 0
  for _, item in ipairs(self.items) do
    least, most = math.min(least, item.length), math.max(most, item.length)
  end
  return ("series set (%d series of %d to %d steps, %d observed, %d covariates)"):format(#self.items, least, most,
    self.size, self.covariates)
end

-- ---- making ----

local item_keys = { target = true, start = true, item_id = true, series = true, covariates = true }

-- [T, k] of a tensor or a list of numbers or of lists, [T] or [T, k].
local function columns(where, role, v, dtype)
  local x = core.is_tensor(v) and v:detach() or options.numbers(where, role, v, "tensor")
  if x:ndim() < 1 or x:ndim() > 2 or x:size(1) < 1 then
    core.error(("%s: %s must be [T] or [T, p], got %s"):format(where, role, shape_text(x)))
  end
  return (x:ndim() == 1 and x:unsqueeze(2) or x):to(dtype)
end

local function read_item(where, k, given, set)
  local role = ("item %d"):format(k)
  options.argument(where, role, given, "table")
  for key in pairs(given) do
    if not item_keys[key] then
      core.error(("%s: %s has an unknown field '%s'; known: covariates, item_id, series, start, target"):format(where,
        role, tostring(key)))
    end
  end
  local item = { target = columns(where, "the target of " .. role, given.target, set.dtype),
    item_id = tostring(given.item_id or k), series = options.whole(where, "the series of " .. role,
      given.series or k - 1, 0), origin = 0 }
  item.length = item.target:size(1)
  if given.covariates ~= nil then
    item.covariates = columns(where, "the covariates of " .. role, given.covariates, set.dtype)
  end
  if given.start ~= nil then
    item.day, item.second = calendar.moment(tostring(given.start))
    if not item.day then
      core.error(("%s: the start of %s must be a date (year-month-day), got '%s'"):format(where, role,
        tostring(given.start)))
    end
    item.origin = set.frequency and calendar.origin(set.frequency, item.day, item.second) or 0
  end
  return item
end

local function check_features(where, set, wanted)
  local dated = set.frequency ~= nil
  for _, item in ipairs(set.items) do
    dated = dated and item.day ~= nil
  end
  if wanted == true then
    return dated and calendar.usual(set.frequency) or { "age" }
  end
  for k, name in ipairs(wanted or {}) do
    if not calendar.features[name] then
      local names = {}
      for known in pairs(calendar.features) do
        names[#names + 1] = known
      end
      table.sort(names)
      core.error(("%s: features[%d] must be one of %s, got '%s'"):format(where, k, table.concat(names, ", "),
        tostring(name)))
    elseif name ~= "age" and not dated then
      core.error(("%s: features[%d], '%s', needs freq and the start of every series"):format(where, k, name))
    end
  end
  return wanted or {}
end

--- The options of all that make a set.
series.options = { freq = options.optional "string", features = options.any(false), dtype = options.optional "string" }

--- new(where, list, o): the set of a list of items, in the name of the function `where`.
function series.new(where, list, o)
  options.argument(where, "the list of series", list, "table")
  local set = { dtype = o.dtype or core.default_dtype(), items = {}, known = {} }
  if o.freq then
    set.frequency = calendar.frequency(o.freq)
      or core.error(("%s: freq must be S, T, H, D, B, W, M, Q or Y, or a number of these, got '%s'"):format(where,
        o.freq))
  end
  if o.features and o.features ~= true then
    options.argument(where, "features", o.features, "table")
  end
  set.identities, set.covariates = 0, 0
  for k, given in ipairs(list) do
    local item = read_item(where, k, given, set)
    local first = set.items[1] or item
    local same = (item.covariates and item.covariates:size(2) or 0)
      == (first.covariates and first.covariates:size(2) or 0)
    if item.target:size(2) ~= first.target:size(2) or not same then
      core.error(("%s: item %d must have as many numbers a step as the first has"):format(where, k))
    end
    set.items[k] = item
    set.identities = math.max(set.identities, item.series + 1)
  end
  if #set.items == 0 then
    core.error(where .. ": the list of series must have at least one")
  end
  local first = set.items[1]
  set.size = first.target:size(2)
  set.features = check_features(where, set, o.features)
  set.covariates = (first.covariates and first.covariates:size(2) or 0) + #set.features
  return setmetatable(set, class)
end

return series
