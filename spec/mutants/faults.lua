--- The faults that a Lua text can have: lists of {from, to, text, line, def, kind, what}: bytes from to to become text.
--- def: the line on which the innermost function about it is defined. Two kinds: random, slips at any place; aimed,
--- what mathematics loses: a term of a sum or product, a gradient or half of it, an option, weights, a state.
--- A fault whose text calls MUTANT is in force only where that changes a value, which it then tells; its field value
--- says which: slope, of what has a gradient, or equal, of what has many elements.
local faults = {}

-- ---- tokens ----

local PAIRS = {}
for pair in ("== ~= <= >= // .. << >> ::"):gmatch "%S+" do PAIRS[pair] = 2 end

-- Lists of {text, from, to, line}; strings and comments are one token, comments left out.
local function tokens(text)
  local list, at, line = {}, 1, 1
  local function push(to, kind)
    local word = text:sub(at, to)
    if kind ~= "comment" then list[#list + 1] = {text = word, from = at, to = to, line = line, kind = kind} end
    line, at = line + select(2, word:gsub("\n", "")), to + 1
  end
  while at <= #text do
    local _, blank = text:find("^%s+", at)
    if blank then push(blank, "comment") end
    if at > #text then break end
    local level = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
    if level then
      local _, to = text:find("]" .. level .. "]", at, true)
      push(to, text:find("^%-%-", at) and "comment" or "string")
    elseif text:find("^%-%-", at) then
      push((text:find("\n", at, true) or #text + 1) - 1, "comment")
    elseif text:find("^[\"']", at) then
      local quote, to = text:sub(at, at), at + 1
      while text:sub(to, to) ~= quote do to = to + (text:sub(to, to) == "\\" and 2 or 1) end
      push(to, "string")
    elseif text:find("^[%a_]", at) then
      push(select(2, text:find("^[%w_]+", at)), "name")
    elseif text:find("^%.?%d", at) then
      local _, to = text:find("^0[xX][%x.]+", at)
      to = to or select(2, text:find("^[%d.]+", at))
      local _, exponent = text:find("^[eE][+-]?%d+", to + 1)
      push(exponent or to, "number")
    else
      local two = text:sub(at, at + 1)
      local three = text:sub(at, at + 2) == "..." and 3
      push(at + (three or PAIRS[two] or 1) - 1, "sign")
    end
  end
  return list
end

local KEYWORD = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch "%a+" do KEYWORD[word] = true end

-- ---- functions about each token ----

local OPENS = {["function"] = true, ["do"] = true, ["if"] = true, ["repeat"] = true}

-- Sets the field def of each token, and header at the bracket that closes a list of parameters.
local function nest(list)
  local stack, loop = {}, false
  for k, t in ipairs(list) do
    local top
    for i = #stack, 1, -1 do
      top = top or stack[i].def
    end
    t.def = top
    if t.kind == "name" then
      if t.text == "for" or t.text == "while" then loop = true end
      if t.text == "do" and loop then loop = false end
      if OPENS[t.text] then
        stack[#stack + 1] = {def = t.text == "function" and t.line or nil}
        if t.text == "function" then
          local i, depth = k, 0
          repeat
            i = i + 1
            depth = depth + (list[i].text == "(" and 1 or list[i].text == ")" and -1 or 0)
          until depth == 0 and list[i].text == ")"
          list[i].header = t.line
        end
      elseif t.text == "end" or t.text == "until" then
        stack[#stack] = nil
      end
    end
  end
end

-- ---- expressions ----

local CLOSES = {["("] = ")", ["["] = "]", ["{"] = "}"}

local function closing(list, k)
  local open, close, depth = list[k].text, CLOSES[list[k].text], 0
  repeat
    depth = depth + (list[k].text == open and 1 or list[k].text == close and -1 or 0)
    k = k + 1
  until depth == 0 or not list[k]
  return k - 1
end

local function is_operand(t) -- may stand before a binary operator
  return t and (t.kind == "number" or t.kind == "string" or t.kind == "name" and not KEYWORD[t.text] or t.text == ")"
    or t.text == "]" or t.text == "}")
end

-- The last token of the operand that begins at k: a number, a name with its calls and fields, something in brackets.
local function operand_end(list, k)
  while list[k] and (list[k].text == "-" or list[k].text == "not" or list[k].text == "#") do k = k + 1 end
  local t = list[k]
  if not t or KEYWORD[t.text] and t.text ~= "nil" and t.text ~= "true" and t.text ~= "false" then return nil end
  k = CLOSES[t.text] and closing(list, k) or k
  while list[k + 1] do
    local word = list[k + 1].text
    if (word == "." or word == ":") and list[k + 2] then
      k = k + 2
    elseif word == "(" or word == "[" or word == "{" then
      k = closing(list, k + 1)
    elseif list[k + 1].kind == "string" then
      k = k + 1
    else
      break
    end
  end
  return k
end

local TIGHTER = {["+"] = {["*"] = true, ["/"] = true, ["//"] = true, ["%"] = true, ["^"] = true},
  ["*"] = {["^"] = true}}
TIGHTER["-"], TIGHTER["/"] = TIGHTER["+"], TIGHTER["*"]

-- The last token of what the binary operator at k has on its right.
local function right_end(list, k)
  local tighter, to = TIGHTER[list[k].text], operand_end(list, k + 1)
  while to and list[to + 1] and tighter[list[to + 1].text] do to = operand_end(list, to + 2) end
  return to
end

local WITHIN = {["and"] = true, ["or"] = true, ["not"] = true, ["nil"] = true, ["true"] = true, ["false"] = true}

-- The last token of the expression that begins at k and ends with its line; nil if it is a list, or goes on.
local function line_end(list, k)
  local line, depth = list[k].line, 0
  local to = k
  while list[to] and list[to].line == line do
    local word = list[to].text
    if word == "," and depth == 0 or KEYWORD[word] and not WITHIN[word] then return nil end
    depth = depth + (CLOSES[word] and 1 or (word == ")" or word == "]" or word == "}") and -1 or 0)
    if depth < 0 then return nil end
    to = to + 1
  end
  if depth ~= 0 or list[to] and list[to].kind == "sign" then return nil end
  return list[to] and (list[to].text == "and" or list[to].text == "or") and nil or to - 1
end

-- ---- random ----

local SWAPPED = {["+"] = "-", ["-"] = "+", ["*"] = "/", ["/"] = "*", ["<"] = "<=", ["<="] = "<", [">"] = ">=",
  [">="] = ">", ["=="] = "~=", ["~="] = "==", ["and"] = "or", ["or"] = "and", ["true"] = "false", ["false"] = "true"}

-- Is the line of token k one whole statement that can go: an assignment or a call?
local function statement(list, k)
  local t, before = list[k], list[k - 1]
  if t.kind ~= "name" or KEYWORD[t.text] or before and before.line == t.line then return nil end
  local to, depth = k, 0
  while list[to + 1] and list[to + 1].line == t.line do
    to = to + 1
  end
  for i = k, to do
    local word = list[i].text
    if word == "function" or word == "do" or word == "then" then return nil end
    depth = depth + (CLOSES[word] and 1 or (word == ")" or word == "]" or word == "}") and -1 or 0)
    if depth < 0 then return nil end
  end
  local after = list[to + 1]
  if depth ~= 0 or not after or after.kind ~= "name" or after.text == "and" or after.text == "or" then return nil end
  local last = list[to]
  if last.kind == "sign" and not is_operand(last) or last.text == "and" or last.text == "or" or last.text == "not" then
    return nil
  end
  -- it begins a statement only if what stands before ends one
  if before and (before.kind == "sign" and not is_operand(before) or before.text == "return" or before.text == "and"
    or before.text == "or" or before.text == "not" or before.text == "in" or before.text == "local") then return nil end
  return to
end

local function random_at(list, k, add)
  local t = list[k]
  local swapped = SWAPPED[t.text]
  if swapped and (t.kind ~= "sign" or is_operand(list[k - 1])) then
    add(k, k, swapped, t.text .. " becomes " .. swapped)
  elseif t.text == "not" then
    add(k, k, "", "not is dropped")
  elseif t.kind == "number" then
    add(k, k, "(" .. t.text .. " + 1)", t.text .. " becomes " .. t.text .. " + 1")
  end
  local to = statement(list, k)
  if to then add(k, to, "", "the statement is dropped") end
  if t.header then add(k, k, ") do return end", "returns at once", t.header) end
  if t.text == "(" and is_operand(list[k - 1]) and list[k - 1].kind == "name" and list[k + 1] and list[k + 3] then
    local a, comma, b, after = list[k + 1], list[k + 2], list[k + 3], list[k + 4]
    local function plain(x) return x.kind == "name" and not KEYWORD[x.text] or x.kind == "number" end
    if plain(a) and comma.text == "," and plain(b) and after and (after.text == "," or after.text == ")")
      and a.text ~= b.text then
      add(k + 1, k + 3, b.text .. ", " .. a.text, "arguments are swapped")
    end
  end
end

-- ---- aimed ----

-- Defaults of options by name, of all tables of the text that look like such: name = literal.
local function defaults(list)
  local found = {}
  for k = 1, #list - 3 do
    local name, equals, value, after = list[k], list[k + 1], list[k + 2], list[k + 3]
    local literal = value.kind == "number" or value.kind == "string" or value.text == "true" or value.text == "false"
    if name.kind == "name" and equals.text == "=" and (after.text == "," or after.text == "}") and literal
      and not name.def then
      found[name.text] = value.text
    end
  end
  return found
end

local WEIGHTS = {weights = true, log_weights = true, w = true, weight = true, log_w = true}
-- What is asked of a tensor whatever its values are.
local OF_FORM = {size = true, shape = true, ndim = true, numel = true, dtype = true}

local function aimed_at(list, k, add, default)
  local t, before, after = list[k], list[k - 1], list[k + 1]
  if TIGHTER[t.text] and is_operand(before) and not (before.kind == "string" or before.kind == "number"
    and after.kind == "number") then
    local to = right_end(list, k)
    if to and not (list[to].kind == "string") then add(k, to, "", "a term is dropped: " .. t.text) end
  end
  if t.text == ":" and after.text == "detach" then add(k, k + 3, "", "detach is dropped") end
  if t.text == "o" and after and after.text == "." and default[list[k + 2].text] and list[k + 3].text ~= "="
    and not (before and (before.text == "." or before.text == ":" or before.text == "local")) then
    add(k, k + 2, "(" .. default[list[k + 2].text] .. ")", "option " .. list[k + 2].text .. " is ignored")
  end
  if t.text == "return" and after and t.line == after.line then
    local to = line_end(list, k + 1)
    if to then
      add(k + 1, to, nil, "half of the gradient is lost", nil, "half")
      add(k + 1, to, nil, "the gradient is lost", nil, "detached")
    end
  end
  if t.kind == "name" and WEIGHTS[t.text] and after and after.text ~= "=" and not (after.text == "," and before
    and before.text == "local") and before and before.text ~= "." and before.text ~= ":" and before.text ~= "local"
    and before.text ~= "function" and not (before.text == "," or before.text == "(")
    and not (after.text == ":" and OF_FORM[list[k + 2].text]) then
    add(k, k, nil, "weights are equal", nil, "equal")
  end
  if (t.text == "self" or t.text == "state") and after and after.text == "." then
    local to = statement(list, k)
    if to and list[k + 3] and list[k + 3].text == "=" then add(k, to, "", "a state is not kept") end
  end
end

--- faults.of(text): all of a Lua text.
function faults.of(text)
  local list, found = tokens(text), {}
  nest(list)
  local default = defaults(list)
  for k = 1, #list do
    for kind, at in pairs {random = random_at, aimed = aimed_at} do
      at(list, k, function(from, to, new, what, def, helper)
        def = def or list[from].def
        if def then
          local a, b = list[from].from, list[to].to
          new = helper and ("MUTANT.%s(%s)"):format(helper, text:sub(a, b)) or new
          found[#found + 1] = {from = a, to = b, text = new, line = list[from].line, def = def, kind = kind,
            what = what, value = helper and (helper == "equal" and "equal" or "slope")}
        end
      end, default)
    end
  end
  table.sort(found, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    return a.kind .. a.what < b.kind .. b.what
  end)
  return found
end

-- What stands where in the instrumented text: a list of {at, text}, in order.
local function insertions(text, name)
  local found, seen, list = {}, {}, tokens(text)
  nest(list)
  for _, t in ipairs(list) do
    local text_there = t.header and (" COVER %q "):format(name .. ":" .. t.header)
    if text_there then found[#found + 1] = {at = t.to + 1, rank = 2, text = text_there} end
  end
  for _, fault in ipairs(faults.of(text)) do
    local key = fault.value and ("%s:%d:%s"):format(name, fault.from, fault.value)
    if key and not seen[key] and faults.applied(text, fault) then
      seen[key] = true
      -- the longer is the outer one
      found[#found + 1] = {at = fault.from, rank = 3, long = fault.to, text = ("PROBE(%q, "):format(key)}
      found[#found + 1] = {at = fault.to + 1, rank = 1, long = fault.from, text = ")"}
    end
  end
  table.sort(found, function(a, b)
    if a.at ~= b.at or a.rank ~= b.rank then return a.at < b.at or a.at == b.at and a.rank < b.rank end
    return (a.long or 0) > (b.long or 0)
  end)
  return found
end

--- faults.instrumented(text, name): the text with COVER "name:line" at the head of each function, and PROBE("name:from:
--- slope", x) or ... equal", x) about each value x that a fault would change.
function faults.instrumented(text, name)
  local parts, at = {}, 1
  for _, entry in ipairs(insertions(text, name)) do
    parts[#parts + 1] = text:sub(at, entry.at - 1) .. entry.text
    at = entry.at
  end
  return table.concat(parts) .. text:sub(at)
end

--- faults.applied(text, fault): the text with it; nil if that is no Lua.
function faults.applied(text, fault)
  local head, tail = text:sub(1, fault.from - 1), text:sub(fault.to + 1)
  local old = text:sub(fault.from, fault.to)
  local lines = select(2, old:gsub("\n", "")) - select(2, fault.text:gsub("\n", ""))
  local new = head .. fault.text .. ("\n"):rep(lines) .. tail
  return load(new, "=") and new
end

return faults
