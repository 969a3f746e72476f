--- Option tables: every constructor that takes `{key = value}` checks it here, so that a misspelt
--- key is an error that names the nearest one, and a value of the wrong type is named with its role.
---
---     local o = options.check("optim.adam", given, {
---       lr = 1e-3,                                  -- a number, with its default
---       schedule = options.optional("function"),    -- may be absent
---       num_data = options.required("number"),      -- must be given
---       scheme = options.choice("systematic", "multinomial"),  -- the first is the default
---       scale = options.any(1),                     -- a default, but of no fixed type
---     })
local core = require "penumbra.core"
local words = require "penumbra.words"

local options = {}

local rule = {} -- metatable of the markers below

--- May be absent (nil). `kind`, if given, is the Lua type of a present value, or "tensor".
function options.optional(kind)
  return setmetatable({kind = kind}, rule)
end

--- Must be given. `kind` as for `options.optional`.
function options.required(kind)
  return setmetatable({kind = kind, required = true}, rule)
end

--- One of these strings; the first is the default.
function options.choice(...)
  return setmetatable({kind = "string", default = (...), choices = {...}}, rule)
end

--- One of a list of names, with a default among them.
function options.one_of(default, names)
  return setmetatable({kind = "string", default = default, choices = names}, rule)
end

--- Has a default but accepts any type.
function options.any(default)
  return setmetatable({default = default}, rule)
end

--- The number of insertions, deletions, replacements and swaps of neighbours that turn string `a`
--- into `b`, case apart (optimal string alignment; Damerau 1964). A wrong case counts a tenth.
function options.distance(a, b)
  local exact = a == b
  a, b = a:lower(), b:lower()
  local before, previous
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    before, previous, row = previous, row, {[0] = i}
    local ai = a:byte(i)
    for j = 1, #b do
      local bj = b:byte(j)
      local cost = previous[j - 1] + (ai == bj and 0 or 1)
      cost = math.min(cost, previous[j] + 1, row[j - 1] + 1)
      if before and j > 1 and ai == b:byte(j - 1) and a:byte(i - 1) == bj then
        cost = math.min(cost, before[j - 2] + 1)
      end
      row[j] = cost
    end
  end
  return row[#b] + ((exact or row[#b] > 0) and 0 or 0.1)
end

-- Are all letters of `name` in `candidate`, in order, the first one first, at most three missing?
local function abbreviates(name, candidate)
  if #candidate > #name + 3 or name:byte() ~= candidate:byte() then return false end
  local at = 1
  for ch in name:gmatch "." do
    at = candidate:find(ch, at, true)
    if not at then return false end
    at = at + 1
  end
  return true
end

--- The string of list `names` nearest to `name`, or nil if none is near enough to be a slip of the
--- hand: a third of the letters may differ, at least one and at most three; a name that only goes
--- on after `name` (three letters or more) counts as near, and so does one that `name` abbreviates by
--- up to three letters. Ties go to the first in the alphabet.
function options.nearest(name, names)
  local limit = math.max(1, math.min(3, #name // 3))
  local best, least
  for _, candidate in ipairs(names) do
    local d = options.distance(name, candidate)
    if d > limit and #name >= 3 and (candidate:sub(1, #name):lower() == name:lower() or abbreviates(name, candidate))
    then
      d = limit
    end
    if d <= limit and d < #candidate and (not least or d < least or d == least and candidate < best) then
      best, least = candidate, d
    end
  end
  return best
end

--- ", did you mean 'x'?" for the nearest of `names`, or "".
function options.suggestion(name, names)
  local near = type(name) == "string" and options.nearest(name, names)
  return near and (", did you mean '%s'?"):format(near) or ""
end

local function type_of(value)
  local meta = (type(value) == "userdata" or type(value) == "table") and getmetatable(value)
  local made = type(value) == "userdata" or type(meta) == "table" and rawget(meta, "own") -- as by pn.dist.custom
  local name = made and (type(meta) == "table" and rawget(meta, "__name") or meta)
  return type(name) == "string" and name:gsub("^penumbra%.", "") or math.type(value) == "integer" and "number"
    or type(value)
end

local function text_of(value)
  if type(value) == "string" then return ("'%s'"):format(#value > 40 and value:sub(1, 37) .. "..." or value) end
  if type(value) == "number" or type(value) == "boolean" or value == nil then return tostring(value) end
  return "a " .. type_of(value)
end

local articles = {["function"] = "a function", tensor = "a tensor", table = "a table", number = "a number",
  string = "a string", boolean = "true or false", generator = "a pn.generator"}

local function is_a(value, kind)
  if kind == "function" then
    if type(value) == "function" then return true end
    local meta = (debug and debug.getmetatable or getmetatable)(value) -- a sandbox may have no debug
    return meta == "penumbra.layer" or type(meta) == "table" and rawget(meta, "__call") ~= nil
  end
  return type_of(value) == kind
end

local function check_value(where, key, value, kind, choices)
  if kind and not is_a(value, kind) then
    core.error(("%s: %s must be %s, got %s"):format(where, key, articles[kind] or "a " .. kind, text_of(value)))
  end
  if not choices then return end
  for _, choice in ipairs(choices) do
    if choice == value then return end
  end
  local near = options.nearest(value, choices)
  core.error(("%s: %s must be one of '%s', got %s%s"):format(where, key, table.concat(choices, "', '"),
    text_of(value), near and (", did you mean '%s'?"):format(near) or ""))
end

--- Raises at the script's line unless `value`, the argument `role` of the function called `where`, is of the Lua type
--- `kind` or a "tensor", "distribution", "bijector", "layer"...: "rmse: y must be a tensor, got nil". Returns it.
function options.argument(where, role, value, kind)
  check_value(where, role, value, kind)
  return value
end

--- The argument `role` of the function `where` as a tensor or a number: a list of numbers becomes a tensor;
--- anything else raises. With `kind` "tensor" a number does too.
function options.numbers(where, role, value, kind)
  if type(value) == "table" then return core.tensor(value) end
  if is_a(value, "tensor") or type(value) == "number" and not kind then return value end
  return core.error(("%s: %s must be a tensor%s, got %s"):format(where, role,
    kind and " or a list of numbers" or ", a number or a list of numbers", text_of(value)))
end

--- Raises unless the argument `role` of the function `where` has these methods; `what` says what it must be.
--- Returns it.
function options.object(where, role, value, what, ...)
  for _, name in ipairs { ... } do
    local ok, method = pcall(function() return value[name] end)
    if not ok or type(method) ~= "function" then
      core.error(("%s: %s must be %s, got %s"):format(where, role, what, text_of(value)))
    end
  end
  return value
end

--- Raises unless the argument `role` of the function `where` is a whole number from `least` on. Returns it as an
--- integer.
function options.whole(where, role, value, least)
  local n = type(value) == "number" and math.tointeger(value)
  if not n or n < least then
    core.error(("%s: %s must be a whole number from %d on, got %s"):format(where, role, least, text_of(value)))
  end
  return n
end

--- The argument `axis` of the function `where` as an axis of the tensor x counted from 1; `absent` where it is nil.
--- Raises unless x has it.
function options.axis(where, x, axis, absent)
  if axis == nil then axis = absent end
  local k, n = type(axis) == "number" and math.tointeger(axis) or nil, x:ndim()
  k = k and k < 0 and k + n + 1 or k
  if not k or k < 1 or k > n then
    core.error(("%s: axis must lie in 1 to %d (or -1 backwards), got %s"):format(where, n, text_of(axis)))
  end
  return k
end

--- Raises unless y is a tensor and draws a tensor [S, ...] of at least two draws shaped like y.
function options.draws(where, y, draws)
  check_value(where, "y", y, "tensor")
  check_value(where, "draws", draws, "tensor")
  local shape, want = draws:shape(), y:shape()
  if #shape ~= #want + 1 or shape[1] < 2 or table.concat(shape, ",", 2) ~= table.concat(want, ",") then
    core.error(("%s: draws must be at least 2 draws shaped like y, [S, ...], got [%s] for y [%s]"):format(where,
      table.concat(shape, ", "), table.concat(want, ", ")))
  end
end

--- The text of a shape, of a tensor's or a list of sizes: "[2, 3]".
function options.shape_text(x)
  return "[" .. table.concat(core.is_tensor(x) and x:shape() or x, ", ") .. "]"
end

--- One table of all entries of several, the later ones before the earlier: options that functions share and their own.
function options.merged(...)
  local all = {}
  for _, part in ipairs {...} do
    for name, value in pairs(part) do all[name] = value end
  end
  return all
end

--- The keys of a table whose keys are of one type, in order.
function options.sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- The value of a word that all share, which is what the word means (a count as an integer), but a table or a tensor
-- where the function takes one (steps = {first =, later =}), or what it said is not given.
local function read_word(where, key, value, default)
  local rule_of = words.rules[key]
  if not rule_of or value == false and default ~= "nil" then return value end
  if rule_of.kind then check_value(where, key, value, rule_of.kind) end
  if rule_of.least and type(value) ~= "table" and type(value) ~= "userdata" then
    return options.whole(where, key, value, rule_of.least)
  end
  if rule_of.low and type(value) == "number" and not (value >= rule_of.low) then
    core.error(("%s: %s must be a number from %g on, got %s"):format(where, key, rule_of.low, text_of(value)))
  end
  return value
end

local checked = {number = true, string = true, boolean = true, ["function"] = true, table = true}

--- Checks the option table `given` (nil means none) of the function called `where` against `known`,
--- whose values are defaults or the markers above. Returns a new table with every default filled in.
--- A default of number, string, boolean, function or table type asks for a value of that type; where
--- the default is `false`, any type is accepted. Raises at the script's line: an unknown key (naming
--- the nearest), a missing required one, a wrong type, NaN for a number, a string that is no choice.
function options.check(where, given, known)
  if given == nil then given = {} end
  if type(given) ~= "table" then
    core.error(("%s: options must be a table, got %s"):format(where, text_of(given)))
  end
  for key in pairs(given) do
    if known[key] == nil then
      local now = words.now(key, known)
      if now then
        core.error(("%s: %s is called %s"):format(where, key, now))
      end
      local inner = words.within[key]
      if inner and known[inner[1]] ~= nil then
        core.error(("%s: %s is an option of its %s: %s = %s"):format(where, key, inner[1], inner[1], inner[2]))
      end
      local names = options.sorted_keys(known)
      local near = options.suggestion(key, names)
      core.error(("%s: unknown option '%s'%s"):format(where, tostring(key),
        near ~= "" and near or #names > 0 and "; known: " .. table.concat(names, ", ") or ""))
    end
  end
  local result = {}
  for key, default in pairs(known) do
    local value, kind, choices = given[key], type(default), nil
    local required = false
    if getmetatable(default) == rule then
      kind, choices, required, default = default.kind, default.choices, default.required, default.default
    elseif not checked[kind] or default == false then
      kind = nil
    end
    if value == nil then
      if required then core.error(("%s: option '%s' is required"):format(where, key)) end
      value = default
    else
      check_value(where, key, value, kind, choices)
      if kind == "number" and value ~= value then
        core.error(("%s: %s must be a number, got nan"):format(where, key))
      end
      value = read_word(where, key, value, type(default))
    end
    result[key] = value
  end
  return result
end

return options
