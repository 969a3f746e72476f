--- What editors know of Penumbra: the text of penumbra.d.lua, LuaCATS annotations as lua-language-server reads them,
--- made of help's entries and of the options that functions take. It is a Lua file that defines every public function,
--- with an empty body, and classes for tensors, distributions, what models make, and tables of options.
-- help: nowhere
local core = require "penumbra.core"
local help = require "penumbra.shell.help"
local pn = require "penumbra"
local words = require "penumbra.words"

local annotations = {}

local RESERVED = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do
  RESERVED[word] = true
end

---- words of types ----

local TYPES = { number = "number", string = "string", boolean = "boolean", ["function"] = "function", table = "table",
  tensor = "penumbra.tensor|number|table", generator = "penumbra.generator" }

-- What rows make.
local MADE = { op = "penumbra.tensor", distribution = "penumbra.distribution", composite = "penumbra.distribution",
  bijector = "penumbra.bijector", layer = "penumbra.layer", optimiser = "penumbra.optimiser",
  estimator = "penumbra.tensor" }

-- Letters of the arguments of operations.
local LETTERS = { t = "penumbra.tensor|number", b = "boolean", n = "number" }

local function type_of(option)
  if option.choices then
    local list = {}
    for k, choice in ipairs(option.choices) do list[k] = ("%q"):format(tostring(choice)) end
    return table.concat(list, "|") .. (option.kind == "string" and "" or "|any")
  end
  return TYPES[option.kind] or "any"
end

---- lines ----

local function put(out, ...) out[#out + 1] = (...):format(select(2, ...)) end

-- A text as a comment; a line that begins as an annotation would is set off.
local function comment(out, text)
  for line in (text .. "\n"):gmatch "(.-)\n" do
    out[#out + 1] = "---" .. (line:find "^%s*@" and " " or "") .. line
  end
end

-- A line of a text that says what options mean, `name, other   meaning`: the names and what is said; nil for any other.
local function option_line(line)
  local names, said = line:match "^%s*([%a_][%w_, ]-)%s%s+(.*)$"
  if not names then names, said = line:match "^%s+([%w_]+): (.*)$" end
  return names, said
end

-- What the text of an entry says of an option in a line of its own; else what it means everywhere.
local function meaning(option, entry, glossary)
  for line in entry.text:gmatch "[^\n]+" do
    local names, said = option_line(line)
    if names and (", " .. names .. ","):find("[, ]" .. option.name .. ",") then return said end
  end
  return option.doc or glossary[option.name]
end

-- The text of an entry without the lines that its options' fields have.
local function without_options(text, options)
  local known, lines = {}, {}
  for _, o in ipairs(options or {}) do known[o.name] = true end
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local all = true
    for name in (option_line(line) or "-"):gmatch "[^, ]+" do all = all and known[name] ~= nil end
    if not all then lines[#lines + 1] = line end
  end
  return (table.concat(lines, "\n"):gsub("\n\n\n+", "\n\n"):gsub("%s+$", ""))
end

-- Editors skip files that are too large (500,000 bytes), so texts are cut.
local LONGEST, LONGEST_FIELD = 125, 64

-- Of a row's text what an editor has room for: not its example, nor which functions and divergences it has.
local function without_tables(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if line == "Example:" then break end
    if not line:find "^kl%(" and not line:find "^Has " then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n")
end

-- As many words of a text as have room; then where the rest is.
local function cut(text, qualified)
  if #text <= LONGEST then return text end
  return text:sub(1, LONGEST):match "^(.*%S)%s" .. ("\n... help %q"):format(qualified)
end

local function glossary_of()
  local glossary = {}
  for line in (core.source "penumbra.words" or ""):gmatch "\n%-%-%-     (%l[^\n]*)" do
    local names, said = line:match "^(.-)%s%s+(.*)$"
    for name in (names or ""):gmatch "[%w_]+" do glossary[name] = glossary[name] or said end
  end
  for old in pairs(words.called) do glossary[old] = nil end
  return glossary
end

---- arguments ----

-- The names in how something is called: a list of {name, optional, options = it is a table of options}.
local function parameters_of(title)
  local list, inside = {}, title:match "%b()%s*$" or title:match "(%b())[^)]*$"
  if not inside then return title:find "{" and { { name = "options", options = true } } or {} end
  local depth, optional, first, at = 0, 0, 2, 2
  local function take(stop)
    local text = inside:sub(first, stop):gsub("^[%s%[]+", ""):gsub("[%s%]]+$", "")
    if text == "" then return end
    local name = text:match "^([%a_][%w_]*)" or text:find "^%.%.%." and "..."
    local options = text:find "^{.*=" ~= nil
    name = options and "options" or name or text:find "^{" and "list" or "value"
    if RESERVED[name] then name = name .. "_" end
    list[#list + 1] = { name = name, optional = optional > 0 or text:find "=" ~= nil and not text:find "^{",
      options = options }
  end
  while at < #inside do
    local letter = inside:sub(at, at)
    if letter:find "[{(]" then depth = depth + 1 end
    if letter:find "[})]" then depth = depth - 1 end
    if letter == "," and depth == 0 then
      take(at - 1)
      first = at + 1
    elseif letter == "[" then
      if depth == 0 and inside:sub(first, at - 1):find "%S" then
        take(at - 1)
        first = at + 1
      end
      optional = optional + 1
    elseif letter == "]" then
      if depth == 0 then
        take(at - 1)
        first = at + 1
      end
      optional = optional - 1
    end
    at = at + 1
  end
  take(#inside - 1)
  return list
end

local TABLES = { opt = true, options = true, given = true, o = true }

local function needs_any(options)
  for _, o in ipairs(options or {}) do
    if o.required then return true end
  end
  return false
end

-- Rows take a table of all that they take in place of their arguments.
local ALL_IN_ONE = { distribution = true, bijector = true, layer = true, estimator = true }

-- A layer's or an optimiser's arguments: those without default, then a table of the others.
local function of_layer(list, options)
  local own = {}
  for _, p in ipairs(list) do
    if not p.optional then own[#own + 1] = p end
  end
  if options then own[#own + 1] = { name = "options", options = true } end
  return own
end

-- Which of the parameters is the table of options: the one that says so, or the last.
local function marked(list, options, row)
  local some = row and ALL_IN_ONE[row.kind]
  if row and (row.kind == "layer" or row.kind == "optimiser") then list = of_layer(list, options) end
  for _, p in ipairs(list) do
    p.options = p.options or TABLES[p.name] or false
    p.optional = p.optional or p.options and not needs_any(options)
    some = some or p.options
  end
  if options and not some then
    local last = list[#list]
    if last and last.name ~= "..." then
      last.either = true
    else
      list[#list + 1] = { name = "options", options = true }
    end
  end
  local seen = {}
  for _, p in ipairs(list) do
    while seen[p.name] do p.name = p.name .. "_" end
    seen[p.name] = true
  end
  return list
end

-- The kinds of an operation's arguments, by name.
local function kinds_of(row)
  local kinds = {}
  for name, letter in (row and type(row.args) == "string" and row.args or ""):gmatch "([%w_]+):(%a)" do
    kinds[name] = LETTERS[letter]
  end
  return kinds
end

---- functions ----

local writer = {}
writer.__index = writer

-- A class of options, unless it is written.
function writer:options(qualified, list, entry)
  local name = qualified:gsub(":", ".") .. ".options"
  if self.written[name] then return name end
  self.written[name] = true
  put(self.out, "---@class %s", name)
  for _, o in ipairs(list) do
    local said = (meaning(o, entry, self.glossary) or ""):gsub("%s+", " ")
    if o.choices then said = said:gsub(' %("[^)]*%)$', "") end -- they are the type
    if #said > LONGEST_FIELD then said = said:sub(1, LONGEST_FIELD):match "^(.*)%s" .. " ..." end
    local kind = type(o.default)
    local default = not o.required and (kind == "number" or kind == "string" or kind == "boolean")
    local more = default and ("%s(default %s)"):format(said == "" and "" or " ", tostring(o.default)) or ""
    local text = said .. more
    put(self.out, "---@field %s%s %s%s", o.name, o.required and "" or "?", type_of(o), text ~= "" and " " .. text or "")
  end
  self.out[#self.out + 1] = ""
  return name
end

-- The classes of the modules that a module requires whose objects are models, "m", too: forecasters share theirs.
local function inherited(module, of_module)
  local list = {}
  for other in (module and core.source(module) or ""):gmatch 'require "(penumbra[%w_.]*)"' do
    local class = of_module[other]
    if class and class:find "%.m$" then list[#list + 1] = class end
  end
  return list
end

local TENSORS = {}
for name in ([[tensor zeros ones full arange linspace eye rand randn randint randperm param detach]]):gmatch "%a+" do
  TENSORS["pn." .. name] = true
end

-- What a function gives: of a row; an object of the class that the text names, or of the module called like it.
function writer:result(entry)
  local made = MADE[entry.row and entry.row.kind or entry.kind] or TENSORS[entry.qualified] and MADE.op
  if made then return made end
  local before = entry.text:match "^.-\n\n" or entry.text
  local pointed = before:match '%->[^\n]-help%s*"([%w_.]+)"' or before:match '^Gives [^\n]-help%s*"([%w_.]+)"'
    or entry.title:match '%->.-help%s*"([%w_.]+)"'
  if pointed and self.classes[pointed] then return self.classes[pointed] end
  local module = entry.module
  local own = module and self.classes[module]
  if own and own:match "[%w_]+$" == entry.name then return own end
  if not entry.module or entry.module:match "[%w_]+$" ~= entry.name then return "any" end
  return own or inherited(entry.module, self.classes)[1] or "any"
end

-- A function of the entry under the name `owner.name` or `owner:name`; without_first: as a method of its first
-- argument.
function writer:define(entry, owner, joint, name, f, without_first)
  local options = f and help.options(f)
  local list = marked(parameters_of(entry.title), options, entry.row)
  if without_first then table.remove(list, 1) end
  local class = options and self:options(entry.qualified, options, entry)
  local kinds, names = kinds_of(entry.row), {}
  local told = without_first and entry.text:match "^[^\n]*" or without_options(entry.text, options)
  if entry.row then told = without_tables(told) end
  local call = entry.title:find "[%[={]" and entry.title .. "\n\n" or ""
  comment(self.out, call .. cut(told, entry.qualified))
  for k, p in ipairs(list) do
    local kind = kinds[p.name] or "any"
    if p.options then kind = class or "table" elseif p.either then kind = ("any|%s"):format(class) end
    local optional = p.optional and p.name ~= "..."
    if optional or kind ~= "any" then put(self.out, "---@param %s%s %s", p.name, optional and "?" or "", kind) end
    names[k] = p.name
  end
  local result = self:result(entry)
  put(self.out, "---@return %s", result)
  if class and entry.row and ALL_IN_ONE[entry.row.kind] then
    put(self.out, "---@overload fun(parameters: %s): %s", class, result)
  end
  if RESERVED[name] then
    put(self.out, '%s["%s"] = function(%s) end\n', owner, name, table.concat(names, ", "))
  else
    put(self.out, "function %s%s%s(%s) end\n", owner, joint, name, table.concat(names, ", "))
  end
end

---- what there is ----

-- The value of "pn.smc.kalman".
local function value_at(qualified)
  local value = pn
  for name in qualified:gmatch "%.([%w_]+)" do
    value = type(value) == "table" and value[name] or nil
  end
  return value
end

-- Everything below pn that has an entry, by qualified name, in order; namespaces before what they hold.
local function public()
  local by_name, names, spaces = {}, {}, { ["pn"] = true }
  for _, e in ipairs(help.entries()) do
    local value = e.qualified:find "^pn%.[%w_.]+$" and value_at(e.qualified)
    if type(value) == "table" and e.kind == "module" then spaces[e.qualified] = true end
    if type(value) == "function" then
      if not by_name[e.qualified] then names[#names + 1] = e.qualified end
      by_name[e.qualified] = by_name[e.qualified] or e
      local space = e.qualified:match "^(.*)%."
      while space and not spaces[space] do
        spaces[space] = true
        space = space:match "^(.*)%."
      end
    end
  end
  local ordered = {}
  for space in pairs(spaces) do ordered[#ordered + 1] = space end
  table.sort(ordered)
  for _, space in ipairs(ordered) do
    for key, value in next, value_at(space) do -- of rows that are Lua's, such as pn.nn.likelihood.normal
      local name = space .. "." .. tostring(key)
      if type(key) == "string" and type(value) == "function" and not by_name[name] then
        by_name[name] = { title = name, qualified = name, name = key, kind = "function", text = "" }
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return by_name, names, ordered
end

local SPEAKERS = { x = "penumbra.tensor", d = "penumbra.distribution", b = "penumbra.bijector" }

-- The class of a method's entry, and what its objects are called.
local function class_of(entry, speaker)
  if SPEAKERS[speaker] then return SPEAKERS[speaker] end
  if entry.module == "penumbra.optim" then return "penumbra.optimiser" end
  return ("%s.%s"):format(entry.module:gsub("_file$", ""), speaker:match "[%w_]+$")
end

-- Methods by class: {class = {entry, ...}}, the class of each module, and the classes in order.
local function methods()
  local by_class, of_module, ordered = {}, {}, {}
  for _, e in ipairs(help.entries()) do
    local speaker = e.kind == "method" and e.qualified:match "^(.*):"
    if speaker then
      local class = class_of(e, speaker)
      if not by_class[class] then ordered[#ordered + 1] = class end
      by_class[class] = by_class[class] or {}
      table.insert(by_class[class], e)
      if e.module and not SPEAKERS[speaker] then of_module[e.module] = of_module[e.module] or class end
    end
  end
  table.sort(ordered)
  return by_class, of_module, ordered
end

local function rows_by_name()
  local rows, homes = {}, { op = "pn.", distribution = "pn.dist.", composite = "pn.dist.",
    bijector = "pn.dist.bijector.", layer = "pn.nn.", optimiser = "pn.optim.", estimator = "pn.infer." }
  for _, row in ipairs(pn.rows()) do
    if homes[row.kind] then rows[homes[row.kind] .. row.name] = row end
  end
  return rows
end

local HEAD = [[
---@meta penumbra
-- Penumbra %s for editors: made by `make` from the library's rows and comments. It is read, not run.

---@class penumbra.layer: penumbra.parameters.net
---@field [string] any
---@operator call: any

---@class penumbra.generator
---@field [string] any
]]

-- Heads of classes that have more than methods.
local HEADS = { ["penumbra.optimiser"] = "---@class penumbra.optimiser\n---@field lr number", ["penumbra.tensor"] = [[
---@class penumbra.tensor
---@operator add(penumbra.tensor|number): penumbra.tensor
---@operator sub(penumbra.tensor|number): penumbra.tensor
---@operator mul(penumbra.tensor|number): penumbra.tensor
---@operator div(penumbra.tensor|number): penumbra.tensor
---@operator mod(penumbra.tensor|number): penumbra.tensor
---@operator pow(penumbra.tensor|number): penumbra.tensor
---@operator idiv(penumbra.tensor|number): penumbra.tensor
---@operator unm: penumbra.tensor
---@field [integer|table|penumbra.tensor] penumbra.tensor]] }

-- Methods of tensors that are functions of pn, too.
function writer:tensor_methods(by_name)
  local names = {}
  for name, f in pairs(core.methods) do
    if by_name["pn." .. name] and type(f) == "function" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    if not self.done["x:" .. name] then
      self:define(by_name["pn." .. name], "tensor", ":", name, value_at("pn." .. name), true)
    end
  end
end

-- A class of objects with its methods.
function writer:class(class, list, by_name)
  local variable = class:match "[%w_]+$"
  local parents = variable == "m" and inherited(list[1].module, self.classes) or {}
  local head = "---@class " .. class .. (#parents > 0 and ": " .. table.concat(parents, ", ") or "")
  self.out[#self.out + 1] = HEADS[class] or head
  put(self.out, "local %s = {}\n", variable)
  for _, e in ipairs(list) do
    if not self.done[class .. ":" .. e.name] then
      self.done[class .. ":" .. e.name], self.done[e.qualified] = true, true
      self:define(e, variable, ":", e.name, nil)
    end
  end
  if class == "penumbra.tensor" then self:tensor_methods(by_name) end
end

--- text(): what penumbra.d.lua holds.
function annotations.text()
  local by_name, names, spaces = public()
  local by_class, of_module, classes = methods()
  local rows = rows_by_name()
  local self = setmetatable({ out = {}, written = {}, done = {}, glossary = glossary_of(), classes = of_module },
    writer)
  for name, e in pairs(by_name) do e.row = rows[name] end
  put(self.out, HEAD, core.version)
  for _, class in ipairs(classes) do
    self.out[#self.out + 1] = "do"
    self:class(class, by_class[class], by_name)
    self.out[#self.out + 1] = "end\n"
  end
  for _, space in ipairs(spaces) do
    put(self.out, "---@class %s%s", space, space == "pn" and "\n---@field version string" or "")
    local meta = getmetatable(value_at(space))
    if type(meta) == "table" and meta.__call then
      put(self.out, "---@overload fun(...): %s", of_module[space:gsub("^pn", "penumbra")] or "any")
    end
    put(self.out, "%s%s = {}\n", space == "pn" and "local " or "", space)
  end
  for _, name in ipairs(names) do
    self:define(by_name[name], name:match "^(.*)%.", ".", name:match "[%w_]+$", value_at(name))
  end
  self.out[#self.out + 1] = "return pn\n"
  return table.concat(self.out, "\n")
end

return annotations
