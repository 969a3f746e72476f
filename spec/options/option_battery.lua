--- What options do: every option of a public function, beside another legal value of it, must change what comes out.
---
---     return {
---       ["pn.smc.resample"] = { function(o) return pn.smc.resample(log_w, o) end,  -- what comes out
---         { threshold = 0.4 },                                  -- what is given on both sides
---         { resampling = "killing", steps = at(5, { tolerance = 0 }) },   -- other values; at: more for both sides
---         { progress = "why no number shows it" },              -- what has no row, with the reason
---         method = function() return hmm.filter end,            -- of a method: the function
---         only = { "resampling" } },                            -- the options that this row is about
---     }
---
--- battery.cases(table) makes a case of each option that the library lists (penumbra.shell.known_options). Other values
--- that stand nowhere are found: the other choices of a list, the other truth value, the next whole number, seven
--- tenths of a number, a generator, the next seed, float32. Callbacks must be called, a progress file written to,
--- what is compiled must agree with what is not, and what a generator draws must hang on nothing else.
local pn = require "penumbra"
local core = require "penumbra.core"
local known_options = require "penumbra.shell.known_options"
local unfit = require "spec.options.unfit_numbers"

local battery = {}

-- Options are read off the text that runs, not off what the library had when it was built.
local embedded = core.source
function core.source(module)
  local path = package.searchpath(module, package.path)
  local file <close> = path and io.open(path)
  return file and file:read "a" or embedded(module)
end

-- ---- what comes out ----

-- told: names of options, under which an object may keep what it was given: such numbers and words do not count.
local function add(list, x, depth, told)
  local kind = math.type(x) or type(x)
  if kind == "integer" or kind == "float" then
    list[#list + 1] = ("%a"):format(x)
  elseif kind == "string" or kind == "boolean" then
    list[#list + 1] = tostring(x)
  elseif kind == "userdata" and pn.is_tensor(x) then
    list[#list + 1] = x:dtype() .. " " .. table.concat(x:shape(), " ")
    local flat = x:numel() > 0 and x:to "float64":reshape { -1 }:totable() or {}
    for _, v in ipairs(flat) do list[#list + 1] = ("%a"):format(v) end
  elseif kind == "table" and depth < 4 then
    -- of an object only what it computes counts, not the options that it keeps
    assert(not getmetatable(x) or rawget(x, "value") and rawget(x, "se"), "an object comes out, no numbers")
    local keys = {}
    for key in next, x do
      local kept = told[key] and type(x[key]) ~= "table" and type(x[key]) ~= "userdata"
      if type(key) == "number" or type(key) == "string" and not kept then keys[#keys + 1] = key end
    end
    table.sort(keys, function(a, b)
      if type(a) == type(b) then return a < b end
      return type(a) == "number"
    end)
    for _, key in ipairs(keys) do
      list[#list + 1] = tostring(key)
      add(list, rawget(x, key), depth + 1, told)
    end
  end
end

local function outcome(case, given, seed)
  pn.seed(seed or 5)
  local list, got = {}, table.pack(case[1](given))
  assert(got.n > 0 and got[1] ~= nil, tostring(got[2]))
  for k = 1, got.n do add(list, got[k], 0, case.told) end
  assert(#list > 0, "nothing comes out")
  return list
end

-- ---- other values ----

local at = {}

--- battery.at(value, more): another value where both sides are given more. A function is called for a new value each
--- time: battery.made(f).
function battery.at(value, more) return setmetatable({ value = value, more = more }, at) end

function battery.made(f, more) return setmetatable({ make = f, more = more }, at) end

--- battery.refused(value, text): a value that raises an error with this text, where only one is legal.
function battery.refused(value, text) return setmetatable({ value = value, refused = text }, at) end

--- battery.list{...}: several other values, each of which must make a difference.
function battery.list(values) return setmetatable({ list = values }, at) end

local function others_of(option, now)
  if option.choices then
    local list = {}
    for _, choice in ipairs(option.choices) do
      if choice ~= (now == nil and option.default or now) then list[#list + 1] = choice end
    end
    return list
  end
  local value = now
  if value == nil then value = option.default end
  if option.name == "dtype" then return { "float32" } end
  if option.name == "seed" then return { (value or 0) + 1 } end
  if option.kind == "boolean" or type(value) == "boolean" and option.name ~= "progress" then return { not value } end
  if option.kind == nil and value == nil then return { true } end -- false by default
  if math.type(value) == "integer" then return { value + 1 } end
  if math.type(value) == "float" and value ~= 0 and value - value == 0 then return { value * 0.7 } end
end

local function merged(...)
  local all = {}
  for _, part in pairs { ... } do
    for key, value in pairs(part) do
      all[key] = getmetatable(value) == at and value.make and value.make() or value
    end
  end
  return all
end

-- ---- how an option shows ----

local function differ(a, b) return table.concat(a, " ") ~= table.concat(b, " ") end

local special = {}

-- What a generator draws hangs on it alone.
function special.generator(case)
  local function with(seed, other)
    return outcome(case, merged(case[2], { generator = pn.generator(other) }), seed)
  end
  assert(differ(with(5, 97), with(5, 98)), "another generator changes nothing")
  assert(not differ(with(5, 97), with(6, 97)), "what is drawn does not hang on the generator alone")
end

function special.seed(case, option)
  local function with(first, seed) return outcome(case, merged(case[2], { seed = seed }), first) end
  local now = case[2].seed or option.default or 3
  assert(differ(with(5, now), with(5, now + 1)), "another seed changes nothing")
  assert(not differ(with(5, now), with(6, now)), "what comes out does not hang on the seed alone")
end

local function called(name)
  return function(case)
    local count = 0
    outcome(case, merged(case[2], { [name] = function() count = count + 1 end }))
    assert(count > 0, name .. " is never called")
  end
end
special.on_step, special.on_epoch, special.on_row = called "on_step", called "on_epoch", called "on_row"

--- battery.check_progress(f): what f(file) writes as progress ends where all is done.
function battery.check_progress(f)
  local file <close> = io.tmpfile()
  f(file)
  file:seek "set"
  local text = file:read "a"
  local label, percent, done, total = text:match "(%w+) +(%d+) %%  (%d+)/(%d+)  [^\n]*\n$"
  assert(label and percent == "100" and done == total, "what is written does not end with all done: " .. text)
  return tonumber(total)
end

function special.progress(case)
  battery.check_progress(function(file) outcome(case, merged(case[2], { progress = file })) end)
end

function special.compile(case)
  local a, b = outcome(case, merged(case[2], { compile = false })), outcome(case, merged(case[2], { compile = true }))
  assert(#a == #b)
  for k = 1, #a do
    local x, y = tonumber(a[k]), tonumber(b[k])
    assert(a[k] == b[k] or x and y and math.abs(x - y) <= 1e-9 * math.max(1, math.abs(x)),
      "what is compiled gives something else: " .. a[k] .. " and " .. b[k])
  end
end

local function shows(case, option, value)
  local more = getmetatable(value) == at and value.more or {}
  local changed = merged(case[2], more)
  local before = outcome(case, merged(case[2], more))
  if getmetatable(value) == at and value.refused then
    changed[option.name] = value.value
    local ok, message = pcall(outcome, case, changed)
    assert(not ok and tostring(message):find(value.refused, 1, true), "is not refused: " .. tostring(message))
    return
  end
  if getmetatable(value) == at then value = value.make and value.make() or value.value end
  changed[option.name] = value
  assert(differ(before, outcome(case, changed)), ("%s = %s changes nothing"):format(option.name, tostring(value)))
end

local function check(case, option)
  local other = case[3][option.name]
  if other == nil and special[option.name] then return special[option.name](case, option) end
  local list = other ~= nil and (getmetatable(other) == at and other.list or { other })
    or others_of(option, case[2][option.name])
  assert(list and #list > 0, option.name .. " has no other value here")
  for _, value in ipairs(list) do shows(case, option, value) end
end

-- The interval that a refusal tells is the one that is let pass, to its ends.
local function check_ends(case, option, message, seen)
  for _, at_end in ipairs(unfit.ends(option.name, message)) do
    local v = at_end[1]
    if not seen[v] then
      seen[v] = true
      local ok, said = pcall(outcome, case, merged(case[2], { [option.name] = v }))
      said = not ok and tostring(said) or ""
      local again = message:gsub("got .*", "got " .. tostring(v))
      local as_told = ok or said ~= again -- what is let pass may fail for another reason
      if at_end.taken == false then as_told = not ok and said:find(" must ", 1, true) end
      assert(as_told or at_end.taken == nil,
        ("%s = %.17g, %s"):format(option.name, v, ok and "which is taken: " .. message or said))
      if not ok then check_ends(case, option, said, seen) end
    end
  end
end

-- What it cannot be is refused by its name.
local function check_refused(row, case, option)
  local now = case[2][option.name]
  if now == nil then now = option.default end
  for _, bad in ipairs(unfit.of(row, option, now)) do
    local ok, message = pcall(outcome, case, merged(case[2], { [option.name] = bad[1] }))
    message = tostring(message)
    assert(not ok, ("%s = %s is taken"):format(option.name, bad[1]))
    assert(message:find(option.name, 1, true), ("%s = %s: %s"):format(option.name, bad[1], message))
    local from = bad.from and message:match "from (%-?%d+) on"
    assert(not from or tonumber(from) == bad.from, message)
    check_ends(case, option, message, {})
  end
end

-- ---- what tables are made of ----

--- drawn(seed, ...): normals of a shape, the same each time.
function battery.drawn(seed, ...) return pn.randn({ ... }, { generator = pn.generator(seed) }) end

--- once(make): one object for all calls, made when it is first asked for, from the same draws.
function battery.once(make)
  local x
  return function()
    if not x then
      pn.seed(11)
      x = make()
    end
    return x
  end
end

--- fields(x, depth): the fields of an object, and of the tables within it to this depth.
function battery.fields(x, depth)
  local all = {}
  for key, v in next, x do
    if pn.is_tensor(v) or type(v) == "number" or type(v) == "string" or type(v) == "boolean" then
      all[key] = v
    elseif type(v) == "table" and depth > 0 then
      all[key] = battery.fields(v, depth - 1)
    end
  end
  all.seconds = nil
  return all
end

-- ---- tables ----

-- Functions with options in a table and the tables within it, added to list as {name, function, options}.
local function walk(space, label, depth, seen, list)
  if seen[space] or depth > 4 then return end
  seen[space] = true
  local own, keys = debug.getmetatable(space), {}
  for _, name in ipairs(type(own) == "table" and own.lazy or {}) do local _ = space[name] end
  for key in pairs(space) do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local value = space[key]
    local name = label .. key
    if type(value) == "table" then
      walk(value, name .. ".", depth + 1, seen, list)
    elseif type(value) == "function" and not seen[value] then
      seen[value] = true
      local options = known_options.of(value)
      if options then list[#list + 1] = { name, value, options } end
    end
  end
end

--- The functions below pn and its namespaces that take options, and the methods of objects that do (a table of
--- functions by kind, each of which makes one, spec/fuzz/objects.lua), those of the rows of C left out, which have
--- batteries of their own: a list of {name, function, options}, sorted.
function battery.functions(objects)
  local list, seen = {}, {}
  local homes = { distribution = pn.dist, composite = pn.dist, bijector = pn.dist.bijector, layer = pn.nn,
    optimiser = pn.optim, estimator = pn.infer }
  for _, row in ipairs(pn.rows()) do
    local f = homes[row.kind] and homes[row.kind][row.name]
    if type(f) == "function" then seen[f] = true end
  end
  walk(pn, "pn.", 1, seen, list)
  local kinds = {}
  for kind in pairs(objects) do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  for _, kind in ipairs(kinds) do
    local methods = require("penumbra.shell.pretty").methods(objects[kind]())
    if methods then walk(methods, kind .. ":", 4, seen, list) end
  end
  return list
end

local function is_in(name, names)
  for _, one in ipairs(names or { name }) do
    if one == name then return true end
  end
end

--- What a row says of an option: "row", "reason", or nil where it is not about it.
function battery.says(case, name)
  if not is_in(name, case.only) then return nil end
  if name == "distributed" then return "reason" end -- needs MPI, and gives the numbers of one process: spec/mpi
  return (case[4] or {})[name] and "reason" or "row"
end

local function check_row(case, options)
  local known = {}
  for _, option in ipairs(options) do known[option.name] = true end
  for k = 2, 4 do
    for key in pairs(case[k]) do assert(known[key], key .. " is no option of it") end
  end
  assert(not differ(outcome(case, merged(case[2])), outcome(case, merged(case[2]))), "not the same twice")
end

-- What stands under a name as pn.smc.filter.
local function named(name)
  local x = pn
  for part in name:sub(4):gmatch "[^.]+" do x = x[part] end
  return x
end

--- The rows of a table by the function that they are about: function -> list of rows.
function battery.by_function(rows)
  local of = {}
  for name, case in pairs(rows) do
    local f = case.method and case.method() or named(name)
    of[f] = of[f] or {}
    table.insert(of[f], case)
  end
  return of
end

--- The cases of a table, one for each option of its rows: a list of {behaviour, function}.
function battery.cases(rows)
  local names, list = {}, {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local case = rows[name]
    local options = known_options.of(case.method and case.method() or named(name))
    assert(options, name .. " has no options that are listed")
    for k = 2, 4 do case[k] = case[k] or {} end
    case.told = {}
    for _, option in ipairs(options) do case.told[option.name] = true end
    for _, option in ipairs(options) do
      if battery.says(case, option.name) == "row" then
        list[#list + 1] = { name .. ": " .. option.name, function()
          check(case, option)
          check_refused(name, case, option)
        end }
      end
    end
    list[#list + 1] = { name .. " has its row right", function() check_row(case, options) end }
  end
  return list
end

return battery
