--- Plain Lua values as text, for messages between ranks: nil, booleans, numbers, strings, and tables of these without
--- metatables, in an order that does not depend on where things lie in memory.
-- help: nowhere
local core = require "penumbra.core"

local plain_value = {}

local MOST_DEEP = 100

local function refuse(where, what)
  core.error(("%s: value must be made of nil, booleans, numbers, strings and plain tables, got %s"):format(where, what))
end

local pack = {}

local function put(where, out, v, depth)
  local kind = math.type(v) or type(v)
  if not pack[kind] then
    refuse(where, core.is_tensor(v) and "a tensor (send those by themselves)" or "a " .. kind)
  end
  pack[kind](where, out, v, depth)
end

pack["nil"] = function(_, out) out[#out + 1] = "n" end
pack.boolean = function(_, out, v) out[#out + 1] = v and "t" or "f" end
pack.integer = function(_, out, v) out[#out + 1] = ("<c1j"):pack("i", v) end
pack.float = function(_, out, v) out[#out + 1] = ("<c1n"):pack("d", v) end
pack.string = function(_, out, v) out[#out + 1] = ("<c1s8"):pack("s", v) end

-- Numbers before strings, false before true.
local function before(a, b)
  local ka, kb = type(a), type(b)
  if ka ~= kb then
    return ka < kb
  end
  return ka == "boolean" and (not a and b) or ka ~= "boolean" and a < b
end

pack.table = function(where, out, v, depth)
  if getmetatable(v) or depth >= MOST_DEEP then
    refuse(where, depth >= MOST_DEEP and ("tables nested more than %d deep"):format(MOST_DEEP)
      or "a table with a metatable")
  end
  local keys = {}
  for key in next, v do
    if type(key) == "table" or not pack[math.type(key) or type(key)] then
      refuse(where, "a key that is a " .. type(key))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  out[#out + 1] = ("<c1I8"):pack("{", #keys)
  for _, key in ipairs(keys) do
    put(where, out, key, depth + 1)
    put(where, out, v[key], depth + 1)
  end
end

--- text(where, v): v as text. Raises, as the function `where`, for what is not plain.
function plain_value.text(where, v)
  local out = {}
  put(where, out, v, 0)
  return table.concat(out)
end

local unpack = {}

local function get(text, at, depth)
  local read = unpack[text:sub(at, at)]
  assert(read and depth <= MOST_DEEP, "mpi: a damaged value")
  return read(text, at + 1, depth)
end

unpack.n = function(_, at) return nil, at end
unpack.t = function(_, at) return true, at end
unpack.f = function(_, at) return false, at end
unpack.i = function(text, at) return ("<j"):unpack(text, at) end
unpack.d = function(text, at) return ("<n"):unpack(text, at) end
unpack.s = function(text, at) return ("<s8"):unpack(text, at) end
unpack["{"] = function(text, at, depth)
  local out, n, from = {}, ("<I8"):unpack(text, at)
  for _ = 1, n do
    local key, v
    key, from = get(text, from, depth + 1)
    v, from = get(text, from, depth + 1)
    out[key] = v
  end
  return out, from
end

--- value(text): the value again.
function plain_value.value(text)
  return (get(text, 1, 0))
end

return plain_value
