--- C text as the amalgamation reads it: its tokens, the names that a preprocessed text declares at file scope, the
--- members that structs declare, and which arguments of a macro are names of something else (pasted, quoted, members).
local M = {}

local _
local KEYWORDS = {}
for word in ([[auto break case char const continue default do double else enum extern float for goto if inline int long
  register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Alignas
  _Alignof _Atomic _Bool _Complex _Noreturn _Static_assert _Thread_local __attribute__ __extension__ __asm__ __typeof__
  __inline __restrict __volatile__ __const]]):gmatch "%S+" do
  KEYWORDS[word] = true
end

local AGGREGATE = {struct = 1, union = 1, enum = 1}
local OPEN, CLOSE = {["("] = 1, ["["] = 1, ["{"] = 1}, {[")"] = 1, ["]"] = 1, ["}"] = 1}
local BESIDE = {__attribute__ = 1, _Static_assert = 1, _Alignas = 1, __asm__ = 1, __extension__ = 1}

local NAME, NUMBER, SPACE, QUOTE, STAR, SLASH, NEWLINE, BACK = 1, 2, 3, 4, 42, 47, 10, 92
local CLASS = {[95] = NAME, [32] = SPACE, [9] = SPACE, [13] = SPACE, [12] = SPACE, [34] = QUOTE, [39] = QUOTE}
for c = 48, 57 do CLASS[c] = NUMBER end
for c = 65, 90 do CLASS[c], CLASS[c + 32] = NAME, NAME end
local LONG = {["->"] = 2, ["##"] = 2, [".."] = 3}

--- The last byte of a comment or a continued end of line at `at`, else nil.
local function blank(text, at, c)
  if c == BACK then return select(2, text:find("^\\\r?\n", at)) end
  local second = text:byte(at + 1)
  if second == STAR then return select(2, text:find("*/", at + 2, true)) end
  if second == SLASH then return select(2, text:find("^[^\n]*", at)) end
end

local function number_end(text, at)
  while true do
    local _, last = text:find("^[eEpP][+-]", at + 1)
    if not last then _, last = text:find("^[%w_.]", at + 1) end
    if not last then return at end
    at = last
  end
end

--- Lists of equal length: texts, and kinds: "name", "number", "string", "space" (comments and continued lines too),
--- "newline", "mark". The texts joined are the text.
function M.tokens(text)
  local texts, kinds, n, at, size = {}, {}, 0, 1, #text
  local find, sub, byte = string.find, string.sub, string.byte
  while at <= size do
    local c = byte(text, at)
    local class, last, kind = CLASS[c], nil, "mark"
    if class == NAME then
      _, last = find(text, "^[%w_]+", at)
      kind = "name"
    elseif class == SPACE then
      _, last = find(text, "^[ \t\r\f]+", at)
      kind = "space"
    elseif c == NEWLINE then
      last, kind = at, "newline"
    elseif class == NUMBER or (c == 46 and CLASS[byte(text, at + 1)] == NUMBER) then
      last, kind = number_end(text, at), "number"
    elseif class == QUOTE then
      last = at + 1
      while byte(text, last) ~= c do last = last + (byte(text, last) == BACK and 2 or 1) end
      kind = "string"
    else
      if c == SLASH or c == BACK then last = blank(text, at, c) end
      if last then
        kind = "space"
      else
        last = at + (LONG[sub(text, at, at + 1)] or 1) - 1
      end
    end
    n = n + 1
    texts[n], kinds[n] = sub(text, at, last), kind
    at = last + 1
  end
  return texts, kinds
end

--- The position after the group that opens at `at`.
local function past(list, at)
  local depth = 0
  while list[at] do
    if OPEN[list[at]] then depth = depth + 1 end
    if CLOSE[list[at]] then
      depth = depth - 1
      if depth == 0 then return at + 1 end
    end
    at = at + 1
  end
  return at
end

--- Adds the enumerators between `at` and `last`, also those of enums within structs.
local function enumerators(list, at, last, add)
  while at < last do
    if list[at] == "enum" then
      while list[at] ~= "{" and list[at] ~= ";" and at < last do at = at + 1 end
      if list[at] == "{" then
        local close, depth, fresh = past(list, at) - 1, 0, true
        for k = at + 1, close - 1 do
          local t = list[k]
          if fresh and t:find "^[%a_]" then add(t) end
          fresh = false
          if OPEN[t] then depth = depth + 1 elseif CLOSE[t] then depth = depth - 1 end
          if t == "," and depth == 0 then fresh = true end
        end
        at = close
      end
    end
    at = at + 1
  end
end

--- The names of one declaration without its bodies, each with `add`: tags, and what it declares if `all`.
local function declarators(flat, all, add)
  local k, wanted = 1, all
  while flat[k] do
    local t = flat[k]
    if AGGREGATE[t] and flat[k + 1] and flat[k + 1]:find "^[%a_]" then
      if flat[k + 2] == "{}" or flat[k + 2] == nil then add(flat[k + 1]) end
      k = k + 2
    elseif t == "," then
      wanted, k = all, k + 1
    elseif wanted and t == "(" and flat[k + 1] == "*" then
      local at = k + 1
      while flat[at] == "*" or KEYWORDS[flat[at]] do at = at + 1 end
      add(flat[at])
      wanted, k = false, past(flat, k)
    elseif OPEN[t] then
      k = past(flat, k)
    else
      local after = flat[k + 1]
      if wanted and t:find "^[%a_]" and not KEYWORDS[t]
        and (after == nil or after == "(" or after == "[" or after == "=" or after == ",") then
        add(t)
        wanted = false
      end
      k = k + 1
    end
  end
end

--- What a preprocessed text declares at file scope, `extern` apart: {name = true, or the text of a plain typedef}.
function M.declared(text)
  local texts, kinds = M.tokens(text)
  local list = {}
  for i, kind in ipairs(kinds) do
    if kind ~= "space" and kind ~= "newline" then list[#list + 1] = texts[i] end
  end
  local names = {}
  local at = 1
  while list[at] do
    local first, flat, value, attributes = at, {}, false, false
    while list[at] and list[at] ~= ";" do
      local t = list[at]
      if BESIDE[t] then
        attributes = true
        at = list[at + 1] == "(" and past(list, at + 1) or at + 1
      elseif t == "{" then
        at = past(list, at)
        if not value and (AGGREGATE[flat[#flat]] or AGGREGATE[flat[#flat - 1]]) then
          flat[#flat + 1] = "{}"
        elseif not value then
          break -- the body of a function
        end
      else
        if t == "=" then value = true elseif t == "," then value = false end
        if OPEN[t] then
          local after = past(list, at)
          table.move(list, at, after - 1, #flat + 1, flat)
          at = after
        else
          flat[#flat + 1] = t
          at = at + 1
        end
      end
    end
    if flat[1] ~= "extern" then
      local kept = flat[1] == "typedef"
      for _, t in ipairs(flat) do kept = kept or t == "static" end
      local plain = flat[1] == "typedef" and not attributes and table.concat(flat, " ")
      enumerators(list, first, at, function(name) names[name] = true end)
      declarators(flat, kept, function(name) names[name] = plain and not plain:find "{" and plain or true end)
    end
    if list[at] == ";" then at = at + 1 end
  end
  return names
end

--- The definition that stands in the tokens from `first` (the #) to `last`, or nil: name, params (nil: an object-like
--- macro) and body (its tokens without space).
function M.definition(texts, kinds, first, last)
  local list = {}
  for k = first, last do
    if kinds[k] ~= "space" then list[#list + 1] = k end
  end
  if texts[list[2]] ~= "define" then return nil end
  local def = {name = texts[list[3]], body = {}}
  local k = 4
  if list[4] and texts[list[4]] == "(" and list[4] == list[3] + 1 then
    def.params, k = {}, 5
    while texts[list[k]] ~= ")" do
      local t = texts[list[k]]
      if t ~= "," then def.params[#def.params + 1] = t == "..." and "__VA_ARGS__" or t end
      k = k + 1
    end
    k = k + 1
  end
  for j = k, #list do def.body[#def.body + 1] = texts[list[j]] end
  return def
end

--- The arguments of the call whose ( is list[at]: {first, last} each; and the position of its ).
function M.arguments(list, at)
  local args, depth, from = {}, 0, at + 1
  local k = at
  while list[k] do
    local t = list[k]
    if OPEN[t] then depth = depth + 1 elseif CLOSE[t] then depth = depth - 1 end
    if depth == 0 or (depth == 1 and t == ",") then
      args[#args + 1] = {from, k - 1}
      from = k + 1
    end
    if depth == 0 then return args, k end
    k = k + 1
  end
  return nil
end

--- How a macro uses parameter number `index`: raw (pasted, quoted, a member), and plain. `lookup(name)` gives the
--- definitions of a name.
function M.uses(def, index, lookup)
  if not def.params then return {} end
  local param = def.params[math.min(index, #def.params)]
  def.known = def.known or {}
  if def.known[param] then return def.known[param] end
  local use = {}
  def.known[param] = use
  local body, within = def.body, {}
  for k, t in ipairs(body) do
    if t:find "^[%a_]" and body[k + 1] == "(" then
      local defs = lookup(t)
      local args = #defs > 0 and M.arguments(body, k + 1)
      for number, arg in ipairs(args or {}) do
        if arg[1] == arg[2] and body[arg[1]] == param then
          within[arg[1]] = true
          for _, other in ipairs(defs) do
            local inner = M.uses(other, number, lookup)
            use.raw, use.plain = use.raw or inner.raw, use.plain or inner.plain
          end
        end
      end
    end
    if t == param then
      local before, after = body[k - 1], body[k + 1]
      if before == "#" or before == "##" or after == "##" or before == "." or before == "->" then
        use.raw = true
      elseif not within[k] then
        use.plain = true
      end
    end
  end
  return use
end

--- The position of the { that opens the body of the struct or union at `s`, or nil.
local function struct_body(list, s)
  local k = s + 1
  while list[k] == "__attribute__" do
    local _, close = M.arguments(list, k + 1)
    k = close + 1
  end
  if (list[k] or ""):find "^[%a_]" then
    k = k + 1
    if list[k] == "(" then -- a name made by a macro
      local _, close = M.arguments(list, k)
      k = close and close + 1 or k
    end
  end
  return list[k] == "{" and k or nil
end

--- Is list[s], within the body of a struct, the name of a member? `body` counts open ( and [.
local function is_member(list, s, body)
  local before, after = list[s - 1], list[s + 1]
  if not list[s]:find "^[%a_]" or body.brackets > 0 then return false end
  if body.parens > 0 then return before == "*" and list[s - 2] == "(" and (after == ")" or after == "[") end
  return before ~= ":" and (after == ";" or after == "," or after == "[" or after == ":")
end

--- Finds the tokens of a section that mean something: `sig` (where they stand among all), `list` (their texts),
--- `directive` (the definition whose line they stand in, true for other lines of the preprocessor).
local function significant(section)
  local sig, list, directive = {}, {}, {}
  local line, ends = false, 0
  for k, kind in ipairs(section.kinds) do
    if section.lines[k] then line, ends = section.def_at[k] or true, section.lines[k] end
    if kind ~= "space" and kind ~= "newline" then
      sig[#sig + 1] = k
      list[#sig] = section.texts[k]
      directive[#sig] = k <= ends and line or false
    end
  end
  section.sig, section.list, section.directive = sig, list, directive
end

--- Marks in section.kept the tokens that name members of structs or attributes, or stand in a line of the preprocessor
--- that is no definition; the names after . and -> are section.members too.
function M.keep_members(section)
  significant(section)
  local list, directive, kept, members = section.list, section.directive, {}, {}
  section.kept, section.members = kept, members
  local stack, body = {}, nil
  for s, t in ipairs(list) do
    if directive[s] == true then
      kept[s] = true
    elseif AGGREGATE[t] and t ~= "enum" then
      body = struct_body(list, s)
    elseif t == "__attribute__" and list[s + 1] == "(" then
      local _, close = M.arguments(list, s + 1)
      for k = s, close or s do kept[k] = true end
    elseif t == "offsetof" then
      local args = M.arguments(list, s + 1)
      for k = args[2][1], args[2][2] do kept[k] = true end
    end
    local top = stack[#stack]
    if t == "{" then
      stack[#stack + 1] = {struct = s == body, parens = 0, brackets = 0}
    elseif t == "}" then
      stack[#stack] = nil
    elseif top and top.struct then
      top.parens = top.parens + (t == "(" and 1 or t == ")" and -1 or 0)
      top.brackets = top.brackets + (t == "[" and 1 or t == "]" and -1 or 0)
      if is_member(list, s, top) then kept[s] = true end
    end
    if list[s - 1] == "." or list[s - 1] == "->" then kept[s], members[t] = true, true end
  end
end

--- Marks the words that the body of a macro pastes or quotes, and its parameters.
local function keep_in_definition(section, s, def)
  local list, before, after = section.list, section.list[s - 1], section.list[s + 1]
  local kept = before == "#" or before == "##" or (after == "##" and section.directive[s + 1] == def)
  for _, param in ipairs(def.params or {}) do kept = kept or list[s] == param end
  if kept then section.kept[s] = true end
end

--- Marks what macros paste or quote. What a macro both pastes and uses is in section.by_define: a #define renames it.
function M.keep_pasted(section, lookup)
  local list, directive, kept = section.list, section.directive, section.kept
  local current = {}
  section.by_define = {}
  for s, t in ipairs(list) do
    local def = directive[s]
    if def and def ~= true then
      if list[s - 2] == "#" and list[s - 1] == "define" and directive[s - 3] ~= def then
        kept[s], current[t] = true, {def}
      end
      keep_in_definition(section, s, def)
    end
    if list[s + 1] == "(" and t:find "^[%a_]" and not kept[s] then
      local defs = not def and current[t] or lookup(t)
      for number, arg in ipairs(#defs > 0 and M.arguments(list, s + 1) or {}) do
        if arg[1] == arg[2] and list[arg[1]]:find "^[%a_]" then
          local raw, plain
          for _, each in ipairs(defs) do
            local use = M.uses(each, number, lookup)
            raw, plain = raw or use.raw, plain or use.plain
          end
          if raw then kept[arg[1]] = true end
          if raw and plain then section.by_define[list[arg[1]]] = true end
        end
      end
    end
  end
end

return M
