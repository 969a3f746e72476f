--- JSON as Zarr's stores have it: keys in order, so that equal stores are equal files.
-- help: nowhere
local core = require "penumbra.core"

local zarr_text = {}

--- What is null in the text, and what makes a list of a table that may be empty.
zarr_text.NULL = setmetatable({}, { __name = "null" })

local list_mark = {}

--- list(values): the same as a list, also where there are none.
function zarr_text.list(values) return setmetatable(table.move(values, 1, #values, 1, {}), list_mark) end

local function escape(byte) return ("\\u%04x"):format(byte:byte()) end

local function quoted(where, text)
  if not utf8.len(text) then
    core.error(("%s: texts must be UTF-8, got '%s'"):format(where, text:gsub("[\0-\31\127-\255]", "?")))
  end
  return '"' .. text:gsub('[\0-\31\\"\127]', escape) .. '"'
end

local function number_text(v)
  if math.type(v) == "integer" then
    return ("%d"):format(v)
  elseif v ~= v then
    return '"NaN"'
  elseif v - v ~= 0 then
    return v > 0 and '"Infinity"' or '"-Infinity"'
  end
  local text = ("%.17g"):format(v):gsub("[^%de+-]+", ".") -- a point in every locale
  return text:find "[.e]" and text or text .. ".0"
end

local function sorted_keys(where, t)
  local keys = {}
  for key in pairs(t) do
    if type(key) ~= "string" then
      core.error(("%s: names must be strings, got %s"):format(where, tostring(key)))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

local encode

local function table_text(where, v, indent)
  local inner, parts = indent .. "  ", {}
  local is_list = getmetatable(v) == list_mark or v[1] ~= nil
  if is_list then
    for k = 1, #v do parts[k] = encode(where, v[k], inner) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for k, key in ipairs(sorted_keys(where, v)) do
    parts[k] = ("%s%s: %s"):format(inner, quoted(where, key), encode(where, v[key], inner))
  end
  return #parts == 0 and "{}" or ("{\n%s\n%s}"):format(table.concat(parts, ",\n"), indent)
end

-- Numbers, texts, truth values, lists and tables of these as JSON.
function encode(where, v, indent)
  if v == zarr_text.NULL then
    return "null"
  elseif type(v) == "number" then
    return number_text(v)
  elseif type(v) == "boolean" then
    return tostring(v)
  elseif type(v) == "string" then
    return quoted(where, v)
  elseif type(v) == "table" and #indent < 40 then
    return table_text(where, v, indent)
  end
  return core.error(("%s: attributes must be numbers, strings, booleans, lists and tables of these, got %s"):format(
    where, type(v)))
end

--- json(where, v): the text. where: the function called, for messages.
function zarr_text.json(where, v) return encode(where, v, "") end

return zarr_text
