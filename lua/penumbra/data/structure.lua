--- Tables in a file of named tensors, so that what is loaded is what was saved: tables within tables, names with dots,
--- lists, numbers to the last bit, strings of any bytes, booleans.
---
--- The tensors stand in the file under readable names, their paths ("model.1.weight"), so other readers see plain
--- tensors. How they stand in tables, and everything that is no tensor, is one text in the file's metadata, in Lua's
--- notation:
---
---     {["epoch"] = 3, ["model"] = {["1.weight"] = tensor "model.1.weight"}}
---
--- A table without tables, whose values are tensors and whose names can stand in the file as they are, needs no such
--- text.
local core = require "penumbra.core"
local pack = require "penumbra.distribution.pack"
local parameters = require "penumbra.parameters"

local structure = {}

--- The key of the text in the metadata.
structure.KEY = "penumbra.structure"

-- ---- texts of values ----

local function escape(byte)
  return ("\\x%02x"):format(byte:byte())
end

-- UTF-8 as it is, other bytes as \x00; neither quotes nor backslashes are left inside.
local function quote(s)
  local text = s:gsub('[\0-\31\\"\127]', escape)
  if not (utf8 and utf8.len(text)) then
    text = text:gsub("[\128-\255]", escape)
  end
  return '"' .. text .. '"'
end

local function unquote(text)
  return (text:gsub("\\x(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- The fewest digits that read back as x, with a decimal point in every locale; a NaN by its bits.
local function number_text(x)
  if math.type(x) == "integer" then
    return ("%d"):format(x)
  elseif x ~= x then
    return ("nan %016x"):format((string.unpack("<i8", string.pack("<d", x))))
  elseif x == math.huge or x == -math.huge then
    return x > 0 and "inf" or "-inf"
  end
  local text
  for digits = 15, 17 do
    text = ("%." .. digits .. "g"):format(x):gsub("[^%de+-]+", ".")
    if tonumber(text) == x then
      break
    end
  end
  return text:find "[.e]" and text or text .. ".0"
end

local function number_value(text)
  local bits = text:match "^nan (%x+)$"
  if bits and #bits == 16 then
    return (string.unpack("<d", string.pack("<i8", math.tointeger(tonumber(bits, 16)))))
  elseif text == "inf" or text == "-inf" then
    return text == "inf" and math.huge or -math.huge
  end
  return text:find "^-?%d[%d.e+-]*$" and tonumber(text) or nil
end

-- ---- names: no two alike, and none below the name of a distribution, whose parameters stand there ----

local names = {}
names.__index = names

local function new_names()
  return setmetatable({ taken = {}, above = {}, objects = {} }, names)
end

-- Calls f for "a" and "a.b" of "a.b.c" until it gives true.
local function any_above(name, f)
  local at = name:find(".", 1, true)
  while at do
    if f(name:sub(1, at - 1)) then
      return true
    end
    at = name:find(".", at + 1, true)
  end
  return false
end

-- The part of the name, from its beginning, that is in use; nil if it is free.
function names:clash(name, is_object)
  local above
  any_above(name, function(part)
    above = self.objects[part] and part
    return above
  end)
  local used = name == "__metadata__" or self.taken[name] or is_object and self.above[name]
  return above or used and name or nil
end

-- The path as a name that the format allows, with a number behind what is in use.
function names:choose(path, is_object)
  local name, k = path:gsub("%z", "%%00"), 1
  if not (utf8 and utf8.len(name)) then
    name = name:gsub("[\128-\255]", function(byte) return ("%%%02X"):format(byte:byte()) end)
  end
  local clash = self:clash(name, is_object)
  while clash do
    k = k + 1
    name = ("%s#%d%s"):format(clash, k, name:sub(#clash + 1))
    clash = self:clash(name, is_object)
  end
  self.taken[name] = true
  self.objects[name] = is_object or nil
  any_above(name, function(above) self.above[above] = true end)
  return name
end

-- ---- writing ----

local hints = {
  ["penumbra.layer"] = "a layer: save its :state()",
  ["penumbra.optimiser"] = "an optimiser: save its :state()",
  ["penumbra.generator"] = "a generator: save its :state()",
}

local function refuse(where, path, v)
  local meta = getmetatable(v)
  local hint = type(v) == "userdata" and hints[meta]
  if type(meta) == "table" and rawget(meta, "network") then
    hint = "a network: save its :state()"
  elseif type(v) == "table" then
    hint = "an object (a table with a metatable): save plain tables"
  end
  local must = "must be a tensor, a distribution, a table, a number, a string or a boolean, got " .. type(v)
  core.error(("%s: '%s' %s"):format(where, path, hint and "is " .. hint or must))
end

local MOST_DEEP = 1000 -- as in penumbra.parameters

local write

local function write_table(w, t, path)
  if w.open[t] then
    core.error(("%s: table '%s' contains itself"):format(w.where, path or ""))
  elseif path and getmetatable(t) then
    refuse(w.where, path, t)
  end
  w.open[t], w.depth = true, w.depth + 1
  if w.depth > MOST_DEEP then
    core.error(("%s: tables may be nested %d deep, got more"):format(w.where, MOST_DEEP))
  end
  for key in pairs(t) do
    if type(key) ~= "string" and math.type(key) ~= "integer" then
      core.error(("%s: names must be strings or whole numbers, got %s"):format(w.where, tostring(key)))
    end
  end
  local out, first = w.out, true
  out[#out + 1] = "{"
  for _, entry in ipairs(parameters.entries(t)) do
    local key = entry[1]
    out[#out + 1] = (first and "[%s] = " or ", [%s] = "):format(type(key) == "string" and quote(key) or key)
    first = false
    local name = write(w, entry[2], path and path .. "." .. key or tostring(key))
    w.plain = w.plain and name == key
  end
  out[#out + 1] = "}"
  w.open[t], w.depth = nil, w.depth - 1
end

-- As pn.dist.custom makes them: what they do is code.
local function made_by_script(v)
  local meta = type(v) == "table" and getmetatable(v)
  return type(meta) == "table" and rawget(meta, "own") ~= nil
end

-- Adds the text of v; the name in the file if it is a tensor or an object.
function write(w, v, path)
  local kind, out = type(v), w.out
  if core.is_tensor(v) then
    local name = w.names:choose(path)
    w.tensors[name] = v
    out[#out + 1] = "tensor " .. quote(name)
    return name
  elseif pack.is(v) then
    local name = w.names:choose(path, true)
    pack.write(v, name, w.tensors, w.texts)
    out[#out + 1] = "object " .. quote(name)
    return name
  elseif made_by_script(v) then
    core.error(("%s: '%s' is a %s of a script: save d:arguments() and make it again"):format(w.where, path,
      getmetatable(v).__name))
  elseif kind == "table" then
    write_table(w, v, path)
  elseif kind == "number" then
    out[#out + 1] = number_text(v)
  elseif kind == "string" then
    out[#out + 1] = quote(v)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(v)
  else
    refuse(w.where, path, v)
  end
end

--- flatten(where, tree): the tensors of the table as sorted names and the tensors in that order, and a table of texts
--- for the file's metadata.
function structure.flatten(where, tree)
  if pack.is(tree) then
    core.error(("%s: a %s must stand under a name: {name = it}"):format(where, getmetatable(tree):match "%a+$"))
  elseif type(tree) ~= "table" then
    core.error(("%s: tensors must be a table, got %s"):format(where, type(tree)))
  elseif getmetatable(tree) then
    refuse(where, "it", tree)
  end
  local w = { where = where, depth = 0, out = {}, open = {}, names = new_names(), plain = true, tensors = {},
    texts = {} }
  write_table(w, tree)
  if not w.plain then
    w.texts[structure.KEY] = table.concat(w.out)
  end
  local list, tensors = {}, {}
  for name in pairs(w.tensors) do
    list[#list + 1] = name
  end
  table.sort(list)
  for k, name in ipairs(list) do
    tensors[k] = w.tensors[name]
  end
  return list, tensors, w.texts
end

-- ---- reading: no recursion, so that no depth of a damaged file overflows the stack ----

local words = { ["true"] = true, ["false"] = false }

-- The value whose text begins at `at`, and what follows it; nil if it is none. {} for a table, whose entries follow.
local function read_value(text, at, flat, used)
  local what, quoted, after = text:match('^(%l*) ?"([^"]*)"()', at)
  if what == "" then
    return unquote(quoted), after
  elseif what == "tensor" or what == "object" then
    local name = unquote(quoted)
    used[name] = true
    return flat[name], after
  end
  if text:sub(at, at) == "{" then
    return {}, at + 1
  end
  local token, behind = text:match("^([^,}]+)()", at)
  local value = token and words[token]
  if token and value == nil then
    value = number_value(token)
  end
  return value, behind
end

local function read_key(text, at)
  local quoted, after = text:match('^%["([^"]*)"%] = ()', at)
  if quoted then
    return unquote(quoted), after
  end
  local digits, behind = text:match("^%[(-?%d+)%] = ()", at)
  return math.tointeger(tonumber(digits)), behind
end

local function read(text, flat, used)
  local root = {}
  local stack, at = { root }, text:match "^{()"
  while at and #stack > 0 do
    local t = stack[#stack]
    local close = text:match("^}()", at)
    if close then
      stack[#stack], at = nil, close
      at = text:match("^, ()%[", at) or at
    else
      local key, after = read_key(text, at)
      if key == nil or not after then
        return nil
      end
      local value
      value, at = read_value(text, after, flat, used)
      if value == nil or t[key] ~= nil then
        return nil
      end
      t[key] = value
      if type(value) == "table" and #stack == MOST_DEEP then
        return nil
      elseif type(value) == "table" then
        stack[#stack + 1] = value
      else
        at = text:match("^, ()%[", at) or text:match("^()}", at)
      end
    end
  end
  return at == #text + 1 and root or nil
end

--- build(text, flat): the tables that the text describes, out of the table name -> tensor of a file; or nil, message,
--- code.
function structure.build(text, flat)
  local used = {}
  local root = read(text, flat, used)
  if not root then
    return nil, "load: the description of the tables in the file is damaged ({nested = false} loads the tensors alone)",
      "format"
  end
  for name in pairs(flat) do
    if not used[name] then
      local message = "load: tensor '%s' is not in the description of the tables ({nested = false} loads it)"
      return nil, message:format(name), "format"
    end
  end
  return root
end

return structure
