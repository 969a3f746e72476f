--- The options that a function of Penumbra's takes, read off the function itself: off its row, or off the table that
--- its text hands to options.check, with the values that the function's own variables have. Nothing of it runs.
-- help: nowhere
local core = require "penumbra.core"
local pn = require "penumbra"

local known_options = {}

local DEPTH = 5 -- calls that an options table is followed through

---- rows ----

local rows -- function -> its row

local function row_of(f)
  if not rows then
    rows = {}
    local homes = { distribution = pn.dist, composite = pn.dist, bijector = pn.dist.bijector, layer = pn.nn,
      optimiser = pn.optim, estimator = pn.infer }
    for _, row in ipairs(pn.rows()) do
      local made = homes[row.kind] and rawget(homes[row.kind], row.name)
      if type(made) == "function" then rows[made] = row end
    end
  end
  return rows[f]
end

-- Names, meanings and choices of a row's parameters and options.
local function of_row(row)
  local list = {}
  local arguments = row.kind == "distribution" or row.kind == "bijector"
  for _, p in ipairs(arguments and row.parameters or {}) do
    list[#list + 1] = { name = p.name, doc = p.must or p.constraint, kind = "tensor", required = p.default == nil }
  end
  for _, i in ipairs(row.kind == "estimator" and row.inputs or {}) do
    list[#list + 1] = { name = i.name, doc = i.doc, kind = "tensor", required = not i.optional }
  end
  for _, o in ipairs(type(row.options) == "table" and row.options or {}) do
    if type(o) == "table" and o.name then
      list[#list + 1] = { name = o.name, doc = o.doc, choices = o.choices, kind = o.choices and "string" or nil,
        default = o.default }
    end
  end
  if row.kind == "distribution" then
    list[#list + 1] = { name = "validate", doc = "whether log_prob raises outside the support", kind = "boolean" }
  elseif row.kind == "layer" then
    local dtypes = { "float64", "float32" }
    list[#list + 1] = { name = "dtype", doc = "float64 or float32", kind = "string", choices = dtypes }
    list[#list + 1] = { name = "generator", doc = "a pn.generator for what is drawn", kind = "generator" }
  end
  return #list > 0 and list or nil
end

---- texts ----

-- The Lua function that a public one calls.
local function inner(f)
  local info = debug.getinfo(f, "S")
  if info.what ~= "C" then return f end
  local _, within = debug.getupvalue(f, 1)
  return type(within) == "function" and debug.getinfo(within, "S").what ~= "C" and within or nil
end

-- The lines of a function; nil where it is none of Penumbra's.
local function text_of(f)
  local info = debug.getinfo(f, "S")
  local path = info.source:match "penumbra[/.].*$" or info.source:match "penumbra$"
  local module = path and path:gsub("%.lua$", ""):gsub("/", "."):gsub("%.init$", "")
  local source = module and core.source(module)
  if not source then return nil end
  local lines, number = {}, 0
  for line in (source .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    if number >= info.linedefined and number <= info.lastlinedefined then
      lines[#lines + 1] = line:gsub("%-%-.*$", "") -- of an option's text nothing is asked
    end
  end
  return table.concat(lines, "\n")
end

-- What stands between the parenthesis at `at` and its partner, parted at commas.
local function arguments(text, at)
  local list, depth, first = {}, 0, at + 1
  for place, letter in text:gmatch("()([%(%){}%[%],])", at) do
    if letter == "," and depth == 1 then
      list[#list + 1] = text:sub(first, place - 1)
      first = place + 1
    elseif letter:find "[%({%[]" then
      depth = depth + 1
    elseif letter ~= "," then
      depth = depth - 1
    end
    if depth == 0 then
      list[#list + 1] = text:sub(first, place - 1)
      return list
    end
  end
  return list
end

local function mentions(text, name) return text and text:find("%f[%w_]" .. name .. "%f[^%w_]") end

-- Is an argument one of the names, or a name or else an empty table?
local function is_one_of(text, names)
  for _, name in ipairs(names) do
    if mentions(text, name) then return true end
  end
  return false
end

local function parameters_of(f)
  local names, info = {}, debug.getinfo(f, "u")
  for k = 1, info.nparams do names[k] = debug.getlocal(f, k) end
  return names
end

-- What a function's text can see: the values of its upvalues, and of its parameters those that are told.
local function scope_of(f, given)
  local scope, k = {}, 1
  while true do
    local name, value = debug.getupvalue(f, k)
    if not name then break end
    scope[name], k = value, k + 1
  end
  for i, name in ipairs(parameters_of(f)) do scope[name] = (given or {})[i] end
  return setmetatable(scope, { __index = { math = math, ipairs = ipairs, pairs = pairs, table = table, type = type } })
end

local function value_of(text, scope)
  local chunk = load("return " .. text, "=options", "t", scope)
  local ok, value
  if chunk then ok, value = pcall(chunk) end
  return ok and value or nil
end

-- The value of an argument of options.check; where it is a variable that the text makes, with what is put into it.
local function rules_of(argument, text, scope)
  local name = argument:match "^%(?%s*([%a_][%w_]*)%s*%)?$"
  local made = name and (text:match("local%s+" .. name .. "%s*=%s*(%b{})")
    or text:match("local%s+" .. name .. "%s*,[^\n=]*=%s*(%b{})"))
  local known = value_of(made or argument, scope)
  if type(known) ~= "table" or not name then return known end
  local all = {}
  for key, rule in pairs(known) do all[key] = rule end
  local places = ("%%s*do%%s+%s%%["):format(name) -- for key, rule in pairs(more) do known[key] = ...
  for kind, from in text:gmatch("(i?pairs)(%b())" .. places) do
    if from:match "%w+" ~= name then
      for key, rule in pairs(rules_of(from, text, scope) or {}) do
        if kind == "ipairs" then all[rule] = false else all[key] = rule end
      end
    end
  end
  for targets in text:gmatch "\n%s*([%w_., ]-)%s*=[^=]" do -- known.seed, known.generator = ...
    for key in targets:gmatch("%f[%w_]" .. name .. "%.([%a_][%w_]*)") do
      if all[key] == nil then all[key] = false end
    end
  end
  return all
end

local look

-- The rules that options.check is given for one of the names in this text.
local function in_check(text, names, scope)
  for at in text:gmatch "%f[%w_]options%.check%s*()%(" do
    local given = arguments(text, at)
    local rules = is_one_of(given[2], names) and given[3] and rules_of(given[3], text, scope)
    if type(rules) == "table" then return rules end
  end
end

-- Those of a function that is handed one of the names.
local function in_calls(text, names, scope, depth)
  for path, at in text:gmatch "([%a_][%w_.]*)%s*()%(" do
    local given = arguments(text, at)
    for k, one in ipairs(depth < DEPTH and given or {}) do
      local f = is_one_of(one, names) and not one:find "[.:(]" and value_of(path, scope)
      local known = {}
      for i, other in ipairs(f and given or {}) do known[i] = i ~= k and value_of(other, scope) or nil end
      local found = type(f) == "function" and look(f, k, depth + 1, known)
      if found then return found end
    end
  end
end

-- The rules of the options that f takes as its argument `place`, or as any of them; given: values of others.
function look(f, place, depth, given)
  f = inner(f)
  local text = f and text_of(f)
  if not text then return nil end
  local names = parameters_of(f)
  if names[1] == "self" then table.remove(names, 1) end
  if place then names = { names[place] } end
  if #names == 0 then return nil end
  for name, from in text:gmatch "local%s+([%a_][%w_]*)%s*=%s*([^\n]*)" do -- local opt = given or {}
    if is_one_of(from:match "^[%w_]+%s+or%s+{}" or from:match "^[%w_]+$", names) then names[#names + 1] = name end
  end
  local body, scope = text:gsub("^[^\n]-%b()", "", 1), scope_of(f, given)
  return in_check(body, names, scope) or in_calls(body, names, scope, depth)
end

-- A rule of options.lua as {name, kind, default, choices, required}.
local function told(name, rule)
  local marked = type(rule) == "table" and getmetatable(rule) and rawget(rule, "kind") ~= false and getmetatable(rule)
  if marked then
    return { name = name, kind = rule.kind, default = rule.default, choices = rule.choices, required = rule.required }
  end
  local plain = type(rule) == "table" and "table" or rule ~= false and type(rule) or nil
  return { name = name, kind = plain, default = rule ~= false and type(rule) ~= "table" and rule or nil }
end

local kept = setmetatable({}, { __mode = "k" })

--- known_options.of(f): the options of a function, sorted: a list of {name, kind, default, choices, required, doc}; nil
--- where there are none, or where they cannot be seen.
function known_options.of(f)
  if type(f) ~= "function" or not debug then return nil end
  if kept[f] == nil then
    local row = row_of(f)
    local list, rules = row and of_row(row), nil
    if not list then rules = look(f, nil, 0) end
    for name, rule in pairs(rules or {}) do
      list = list or {}
      list[#list + 1] = type(name) == "string" and told(name, rule) or nil
    end
    if list and rules then table.sort(list, function(a, b) return a.name < b.name end) end
    kept[f] = list or false
  end
  return kept[f] or nil
end

return known_options
