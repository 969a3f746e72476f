--- Values as text for people: tables in Lua's own notation with sorted keys, one line if it fits, cycles
--- named instead of followed, big things cut short; tensors as the core prints them.
-- help: nowhere
local core = require "penumbra.core"

local pretty = {}

--- How a function of Penumbra's is called, or nil: penumbra.shell and penumbra.shell.help know.
function pretty.signature() end

local reserved = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return
  then true until while]]):gmatch "%a+" do
  reserved[word] = true
end

local escapes = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

local function quoted(s)
  return '"' .. s:gsub('[%c"\\\127]', function(ch)
    return escapes[ch] or ("\\x%02x"):format(ch:byte())
  end) .. '"'
end

--- The key of a table entry as a constructor writes it, with " = "; "" for a place in the list.
local function key_text(key)
  if type(key) == "string" then
    if key:match "^[%a_][%w_]*$" and not reserved[key] then return key .. " = " end
    return "[" .. quoted(key) .. "] = "
  end
  if type(key) == "table" or type(key) == "userdata" then return "[" .. type(key) .. "] = " end
  return "[" .. tostring(key) .. "] = "
end

-- Is it one of Penumbra's own? Those in C have no source.
local function is_ours(info) return info.what == "C" or info.source:find "penumbra" end

--- "function(x, y) script.lua:3" for a Lua function, "function pn.exp(x)" for one that help knows.
local function function_text(f)
  if not debug then return "function" end -- a sandbox
  local info = debug.getinfo(f, "Su")
  local signature = is_ours(info) and pretty.signature(f)
  if signature then return "function " .. signature end
  if info.what == "C" then return "function (built in)" end
  local names = {}
  for k = 1, info.nparams do names[k] = debug.getlocal(f, k) end
  if info.isvararg then names[#names + 1] = "..." end
  return ("function(%s) %s:%d"):format(table.concat(names, ", "), info.short_src, info.linedefined)
end

local order = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return (order[ta] or 9) < (order[tb] or 9) end
  if ta == "number" or ta == "string" then return a < b end
  return tostring(a) < tostring(b)
end

local function metafield(value, name)
  local meta = (debug and debug.getmetatable or getmetatable)(value)
  return type(meta) == "table" and rawget(meta, name) or nil
end

local function is_tensor(value)
  return type(value) == "userdata" and getmetatable(value) == "penumbra.tensor"
end

-- A tensor inside a table: its values if they are few, else what it is.
local function small_tensor(x)
  local ok, text = pcall(core.text, x)
  if not ok then return "tensor (closed)" end
  local values, kind = text:match "^(.-)%s*(%a+%d* %[[%d, ]*%])$"
  if values and #values <= 40 and not values:find "\n" then return values .. " " .. kind end
  return "tensor " .. (text:match "(%a+%d* %[[%d, ]*%][^\n]*)$" or "")
end

local writer = {}
writer.__index = writer

--- A value without parts.
function writer:scalar(value)
  local kind = type(value)
  if kind == "string" then return quoted(#value > self.text and value:sub(1, self.text) .. "..." or value) end
  if is_tensor(value) then return small_tensor(value) end
  if metafield(value, "__tostring") then
    local ok, text = pcall(tostring, value)
    return ok and text or "<" .. kind .. ", cannot be shown>"
  end
  if kind == "function" then return function_text(value) end
  return tostring(value)
end

-- The entries of t as texts, and whether something was left out.
function writer:entries(t, indent, path)
  local list, keys, n = {}, {}, 0
  while rawget(t, n + 1) ~= nil do n = n + 1 end
  for i = 1, n do
    if #list >= self.items or self.budget <= 0 then
      list[#list + 1] = ("... %d more"):format(n - i + 1)
      break
    end
    list[#list + 1] = self:value(rawget(t, i), indent, ("%s[%d]"):format(path, i))
  end
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  for i, key in ipairs(keys) do
    if i > self.items or self.budget <= 0 then
      list[#list + 1] = ("... %d more"):format(#keys - i + 1)
      break
    end
    local name = key_text(key)
    local step = name:match "^[%a_][%w_]* = " and "." .. key or name:sub(1, -4)
    list[#list + 1] = name .. self:value(rawget(t, key), indent, path .. step)
  end
  return list
end

--- Any value.
function writer:value(value, indent, path)
  self.budget = self.budget - 1
  if type(value) ~= "table" or metafield(value, "__tostring") then return self:scalar(value) end
  if self.open[value] then return ("<cycle: %s>"):format(self.open[value]) end
  local name = metafield(value, "__name")
  local label = type(name) == "string" and name .. " " or ""
  if next(value) == nil then return label .. "{}" end
  if #indent >= 2 * self.depth then return label .. "{...}" end
  self.open[value] = path
  local inner = indent .. "  "
  local list = self:entries(value, inner, path)
  self.open[value] = nil
  local line = label .. "{" .. table.concat(list, ", ") .. "}"
  if #line + #indent <= self.width and not line:find "\n" then return line end
  -- numbers and other short things several to a line
  local rows, row = {}, ""
  for i, entry in ipairs(list) do
    local text = entry .. (i < #list and "," or "")
    local short = #entry <= 16 and not entry:find "[={]"
    if row ~= "" and (not short or #inner + #row + 1 + #text > self.width) then
      rows[#rows + 1] = inner .. row
      row = ""
    end
    if short then
      row = row == "" and text or row .. " " .. text
    else
      rows[#rows + 1] = inner .. text
    end
  end
  if row ~= "" then rows[#rows + 1] = inner .. row end
  return label .. "{\n" .. table.concat(rows, "\n") .. "\n" .. indent .. "}"
end

--- `value` as text. opt: `width` of a line (79), `depth` of nested tables (6), `items` per table (60),
--- `text`, the length of a string (2000).
function pretty.format(value, opt)
  opt = opt or {}
  if is_tensor(value) then
    local ok, text = pcall(core.text, value)
    return ok and text or small_tensor(value)
  end
  local w = setmetatable({ width = opt.width or 79, depth = opt.depth or 6, items = opt.items or 60,
    text = opt.text or 2000, budget = 1000, open = {} }, writer)
  return w:value(value, "", "it")
end

--- The methods that a value of the core (a tensor, a generator, a layer...) offers: a table, or nil.
function pretty.methods(value)
  local name = getmetatable(value)
  if type(name) == "string" and type(value) == "userdata" then
    local kind = name:match "^penumbra%.(.+)$"
    local list = kind == "tensor" and core.methods or kind and core[kind .. "_methods"]
    if type(list) == "function" then list = list() end
    if type(list) == "table" then return list end
  end
  local index = metafield(value, "__index")
  return type(index) == "table" and index or nil
end

return pretty
