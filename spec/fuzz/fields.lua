--- Fuzzer of objects whose insides a script has changed: fields of what the public interface makes
--- (spec/fuzz/objects.lua) and of the tables within are set to numbers beyond all ranges, tensors of other shapes and
--- types, functions and objects of other kinds, or taken away; then their methods are called, those that help tells of
--- and those that it does not. What a call answers does not matter; that the process lives does.
---     lua spec/fuzz/fields.lua --seconds 60 [--seed 1]      child processes, one seed each, until the time is over
---     lua spec/fuzz/fields.lua --child 17 [--calls 400]     one of them, again
--- See spec/fuzz/children.lua.

local here = arg[0]:gsub("[^/]*$", "")
local options = dofile(here .. "children.lua") "fields"
local limit = dofile(here .. "limit.lua")

local core = require "penumbra.core"
local pn = require "penumbra"
local random, unpack, pack = math.random, table.unpack, table.pack
math.randomseed(options.child)
pn.seed(options.child)
pn.threads(1)
pn.memory_limit(64 << 20)

local log = assert(io.open("log", "w"))
log:setvbuf "line"
for name, library in pairs { popen = io, read = io, lines = io, execute = os } do
  library[name] = function() return nil, "not here" end
end
_G.print = function() end
io.write = _G.print -- luacheck: ignore
pn.memory_limit = nil

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

local objects = assert(loadfile(here .. "objects.lua"))(pn, function(...) return ... end)
local kinds = {}
for kind in pairs(objects) do kinds[#kinds + 1] = kind end
table.sort(kinds)
local near = {} -- the last objects
local current -- the one that is called

--- An object, new or used.
local function object()
  if #near > 0 and chance(0.7) then return one(near) end
  local kind = one(kinds)
  log:write("-- make ", kind, "\n")
  local ok, made = pcall(objects[kind])
  if not ok then return pn.zeros { 2 } end
  near[#near < 12 and #near + 1 or random(12)] = made
  return made
end

local numbers = { -1, 0, 1, 2, 3, 7, 1000, 1 << 20, 1 << 31, 1 << 40, 1 << 62, math.mininteger, math.maxinteger, 0.5,
  -0.5, 0 / 0, 1 / 0, -1 / 0, 1e300, 1e-300, 2.5 }
local shapes = { {}, { 0 }, { 1 }, { 2 }, { 8 }, { 3, 1 }, { 2, 2 }, { 1, 8 }, { 8, 8 }, { 2, 3, 4 }, { 1, 1, 1, 1 } }
local words = { "", "normal", "bernoulli", "systematic", "residual", "transport", "weighed", "log_weights", "x", "y",
  "z", "full", "float32", "scale", "\0", ("a"):rep(300) }

local function tensor()
  local x = pn.randn(one(shapes))
  if chance(0.3) then x = x:to(one { "float32", "int64", "bool" }) end
  if chance(0.2) then x = x * one { 0 / 0, 1e300, -1e18, 1 / 0, 0 } end
  if chance(0.1) then x = pn.param(x:to "float64") end
  return x
end

--- The keys of a table in an order of their own: that of `next` is another in each process.
local function keys_of(t)
  local keys = {}
  for k in next, t do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    local ta, tb = type(a), type(b)
    return ta < tb or ta == tb and (ta == "string" or ta == "number") and a < b
  end)
  return keys
end

local inside

--- Something that may stand in a field, or be an argument.
local function value()
  local what = random(100)
  if what <= 5 then return nil end
  if what <= 25 then return one(numbers) end
  if what <= 32 then return one(words) end
  if what <= 36 then return chance(0.5) end
  if what <= 62 then
    local ok, x = pcall(tensor)
    return ok and x or nil
  end
  if what <= 67 then return function(...) return ... end end
  if what <= 72 then return { value(), value() } end
  if what <= 76 then return { steps = value(), draws = value(), generator = value() } end
  if what <= 90 then return inside(object()) end
  return object()
end

--- A table within x, or what stands in one.
function inside(x)
  for _ = 1, random(0, 4) do
    if type(x) ~= "table" then break end
    local keys = keys_of(x)
    if #keys == 0 then break end
    x = rawget(x, one(keys))
  end
  return x
end

local function what_is(x)
  local meta = debug.getmetatable(x)
  return type(meta) == "table" and tostring(rawget(meta, "__name")) or type(x)
end

local function show(x, depth)
  if type(x) == "table" and depth < 3 then
    local parts = {}
    for k, v in next, x do
      if #parts > 5 then break end
      parts[#parts + 1] = ("%s = %s"):format(type(k) == "string" and k or type(k), show(v, depth + 1))
    end
    return "{" .. table.concat(parts, ", ") .. "}"
  elseif type(x) == "userdata" and getmetatable(x) == "penumbra.tensor" then
    local ok, text = pcall(function() return ("tensor[%s] %s"):format(table.concat(x:shape(), ","), x:dtype()) end)
    return ok and text or "closed tensor"
  end
  return type(x) == "string" and ("%q"):format(x:sub(1, 40)) or type(x) == "number" and tostring(x) or
    type(x) == "userdata" and tostring(getmetatable(x)) or type(x)
end

--- Sets or takes away a field of a table within x.
local function change(x)
  local t = inside(x)
  if type(t) ~= "table" then t = x end
  if type(t) ~= "table" then return end
  local keys = keys_of(t)
  if #keys == 0 then return end
  local key, new = one(keys), nil
  if chance(0.3) then new = t[one(keys)] elseif chance(0.9) then new = value() end
  log:write(("-- %s.%s = %s\n"):format(what_is(t), tostring(key), show(new, 1)))
  rawset(t, key, new)
end

--- The names of what x can be asked to do.
local function methods_of(x)
  local list, meta = {}, debug.getmetatable(x)
  local index = type(meta) == "table" and rawget(meta, "__index")
  local places = { type(x) == "table" and x or {}, type(index) == "table" and index or {} }
  for i = 1, type(index) == "function" and 4 or 0 do
    local _, up = debug.getupvalue(index, i)
    if type(up) == "table" then places[#places + 1] = up end
  end
  for _, t in ipairs(places) do
    for name, f in next, t do
      if type(name) == "string" and type(f) == "function" then list[#list + 1] = name end
    end
  end
  table.sort(list)
  return list
end

local function call(x)
  local names = methods_of(x)
  if #names == 0 then return end
  local name, args, text = one(names), {}, {}
  local n = one { 0, 0, 1, 1, 2, 3 }
  for i = 1, n do
    args[i] = value()
    text[i] = show(args[i], 1)
  end
  log:write(("%s:%s(%s)\n"):format(what_is(x), name, table.concat(text, ", ")))
  current = x
  limit(300)
  local results = pack(pcall(function() return current[name](current, unpack(args, 1, n)) end))
  debug.sethook()
  for i = 2, results[1] and results.n or 1 do
    local v = results[i]
    if (type(v) == "table" or type(v) == "userdata") and chance(0.2) then
      near[#near < 12 and #near + 1 or random(12)] = v
    end
  end
end

for _ = 1, options.calls do
  local x = object()
  for _ = 1, random(0, 2) do change(x) end
  for _ = 1, random(3) do call(chance(0.7) and x or inside(x)) end
  if core.capture.going_on() then pcall(core.capture.cancel) end
  pcall(core.set_no_grad, false)
  pcall(core.mode, "training")
  pn.default_dtype "float64"
  pn.validate(false)
end
log:write "-- done\n"
log:close()
