--- What Lua lets pass in silence where tensors are meant. Every tensor is true in `if`; `x == y` asks whether two are
--- one object, and a tensor is never equal to a number. `penumbra --strict` refuses `==` of two tensors where it is
--- asked and warns of conditions that are tensors by what is written (doubts.scan); the prompt says so, too.
-- help: nowhere
local core = require "penumbra.core"

local doubts = {}

local IDENTITY = "x == y asks whether two tensors are one object: x:eq(y) compares number by number, " ..
  "x:eq(y):all():item() is true or false, rawequal(x, y) says that identity is meant"

-- ---- == of two tensors ----

-- Is this source a module of the library, which knows what it compares?
local function is_library(source)
  return source:find "^=penumbra" or source:find "^@.*lua/penumbra[%w_/]*%.lua$"
end

--- From here on `==` and `~=` of two tensors that are not one object call tell(text) where a script asks them; without
--- `tell` they raise. Lua asks nobody where one object is compared with itself, or a tensor with a number.
function doubts.watch(tell)
  local meta = debug.getmetatable(core.zeros { 1 })
  meta.__eq = function()
    local level, info = 2
    repeat
      info, level = debug.getinfo(level, "Sl"), level + 1
    until not info or info.what ~= "C"
    if info and not is_library(info.source) then
      if not tell then core.error(IDENTITY) end
      tell(IDENTITY)
    end
    return false
  end
end

-- ---- conditions ----

local COMPARE = {} -- give a tensor of bool
for name in ("eq ne lt le gt ge isnan isinf isfinite all any logical_and logical_or logical_not"):gmatch "%S+" do
  COMPARE[name] = true
end
local REDUCE = {} -- give a tensor, of one number where no axis is named
for name in ("sum mean prod max min std var norm argmax argmin logsumexp dot all any"):gmatch "%S+" do
  REDUCE[name] = true
end

-- The words and signs of a Lua text, without its comments; a string is one sign.
local function tokens_of(text)
  local list, at, line = {}, 1, 1
  local function skip(to)
    for _ in text:sub(at, to):gmatch "\n" do line = line + 1 end
    at = to + 1
  end
  local function long(from)
    local level = text:match("^%[(=*)%[", from)
    return level and (select(2, text:find("]" .. level .. "]", from, true)) or #text)
  end
  while true do
    skip((select(2, text:find("^%s*", at))))
    if at > #text then return list end
    local quote = text:match("^[\"']", at)
    local stop
    if text:find("^%-%-", at) then
      skip(long(at + 2) or (text:find("\n", at, true) or #text))
    elseif quote or long(at) then
      stop = long(at)
      local from = at + 1
      while not stop do
        local found = text:find("[\\\n" .. quote .. "]", from)
        if not found or text:sub(found, found) ~= "\\" then stop = found or #text else from = found + 2 end
      end
      list[#list + 1] = { "''", line }
      skip(stop)
    else
      stop = select(2, text:find("^[%a_][%w_]*", at)) or select(2, text:find("^%.?%d[%w.]*", at))
        or select(2, text:find("^[=~<>]=", at)) or select(2, text:find("^%.%.+", at)) or at
      list[#list + 1] = { text:sub(at, stop), line }
      skip(stop)
    end
  end
end

local CLOSES = { [")"] = "(", ["]"] = "[", ["}"] = "{" }

-- Of the closing bracket at k the place of the opening one.
local function opening(list, k)
  local depth = 0
  for i = k, 1, -1 do
    local sign = list[i][1]
    if CLOSES[sign] then depth = depth + 1 end
    if sign == "(" or sign == "[" or sign == "{" then depth = depth - 1 end
    if depth == 0 then return i end
  end
  return 1
end

-- Of the call that ends at k the name of its method and the place where the whole expression begins.
local function call_at(list, k)
  local open = list[k][1] == ")" and opening(list, k)
  local name, sign = open and open > 2 and list[open - 1][1], open and open > 2 and list[open - 2][1]
  if sign ~= ":" and not (sign == "." and open > 3 and list[open - 3][1] == "pn") then return nil end
  local i = open - 3
  while i >= 1 do -- a name, or brackets with what they stand after
    if CLOSES[list[i][1]] then
      i = opening(list, i)
      local before = i > 1 and list[i - 1][1] or ""
      local called = before:find "^[%a_]" and before ~= "return" and before ~= "if" and before ~= "and"
        and before ~= "or" and before ~= "not" and before ~= "elseif" and before ~= "while" and before ~= "until"
      if not called and not CLOSES[before] then break end
      i = i - 1
    elseif i > 1 and (list[i - 1][1] == ":" or list[i - 1][1] == ".") then
      i = i - 2
    else
      break
    end
  end
  return name, math.max(i, 1)
end

-- Does the `do` at k belong to a while?
local function is_while(list, k)
  for i = k - 1, 1, -1 do
    local word = list[i][1]
    if word == "while" then return true end
    if word == "for" or word == "do" or word == "then" or word == "end" then return false end
  end
end

local function is_condition(list, k, first)
  local after, before = list[k + 1] and list[k + 1][1] or "", first > 1 and list[first - 1][1] or ""
  if after:find "^[=~<>+*/%%^.:%[({'-]" then return false end -- the expression goes on
  return after == "then" or after == "and" or after == "or" and before ~= "and" or before == "not"
    or before == "until" or after == "do" and is_while(list, k + 1)
end

local CONSTANT = { ["true"] = true, ["false"] = true }

--- Conditions in the text of a program that are tensors, and so always true, and comparisons of a tensor with a number,
--- which are always false: a list of {line =, text =}. Only what is certain by the names of methods is found.
function doubts.scan(text)
  local list, found = tokens_of(text), {}
  for k = 1, #list do
    local name, first = call_at(list, k)
    local sign, value = list[k + 1] and list[k + 1][1], list[k + 2] and list[k + 2][1] or ""
    if name and REDUCE[name] and (sign == "==" or sign == "~=") and (value:find "^%.?%d" or CONSTANT[value]) then
      found[#found + 1] = { line = list[k][2],
        text = ("a tensor is never equal to %s: x:%s():item() %s %s compares its number"):format(value, name, sign,
          value) }
    elseif name and COMPARE[name] and is_condition(list, k, first) then
      local way = (name == "all" or name == "any") and ("x:%s():item()"):format(name)
        or ("x:%s(...):all():item()"):format(name)
      found[#found + 1] = { line = list[k][2],
        text = ("a tensor is always true: %s is true or false, pn.where(c, a, b) chooses element by element"):format(
          way) }
    end
  end
  return found
end

-- ---- the command ----

--- What `penumbra --strict` does before it runs a program: `==` of tensors raises, and what scan finds in the text, or
--- in the file at `path`, is written to the standard error.
function doubts.strict(text, path)
  doubts.watch()
  if path then
    local file = io.open(path, "rb")
    text = file and file:read "a" or ""
    if file then file:close() end
    if text:find "^\27" then return end -- compiled
    text = text:gsub("^#[^\n]*", "")
  end
  for _, one in ipairs(doubts.scan(text)) do
    io.stderr:write(("%s:%d: warning: %s\n"):format(path or "(command line)", one.line, one.text))
  end
end

return doubts
