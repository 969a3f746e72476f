--- What help knows: its entries, gathered from the rows of the core, from the `---` comments of the Lua modules that
--- came with it, and from penumbra.shell.reference. Internal to penumbra.shell.help.
-- help: nowhere
local core = require "penumbra.core"
local example_of = require "penumbra.shell.example"
local layout = require "penumbra.layout"
local pn = require "penumbra"
local reference = require "penumbra.shell.reference"

-- An entry: title (one line: how it is called), name (last word), qualified, kind, text.
local index -- list of entries, built on first use

---- the rows ----

local homes = { op = "pn", distribution = "pn.dist", bijector = "pn.dist.bijector",
  composite = "pn.dist", layer = "pn.nn", optimiser = "pn.optim", estimator = "pn.infer" }

-- "x:t axes:A keepdim:b=false" -> "x [, axes] [, keepdim = false]"
local function signature(args)
  if type(args) == "table" then return table.concat(args, ", ") end
  local list = ""
  for name, kind, default in (args or ""):gmatch "([%w_]+):(%a)=?(%S*)" do
    local optional = default ~= "" or kind == "A"
    local part = optional and default ~= "" and default ~= "nil" and ("%s = %s"):format(name, default) or name
    local comma = list == "" and "" or optional and " [, " or ", "
    list = list .. comma .. part .. (optional and list ~= "" and "]" or "")
  end
  return list
end

-- The functions of a distribution in the order in which people ask for them.
local functions = { "log_prob", "sample", "rsample", "mean", "variance", "stddev", "mode", "entropy", "cdf", "icdf",
  "log_cdf", "log_survival" }

local function functions_where(map, wanted)
  local list = {}
  for _, name in ipairs(functions) do
    if map[name] == wanted then list[#list + 1] = name end
  end
  return table.concat(list, ", ")
end

local function number_text(v)
  if v == math.huge then return "inf" end
  if v == -math.huge then return "-inf" end
  return ("%g"):format(v)
end

-- Constraint and default of each parameter; alternatives under "one of".
local function add_parameters(lines, row)
  local previous
  if #(row.parameters or {}) > 0 then lines[#lines + 1] = "Parameters:" end
  for k, p in ipairs(row.parameters or {}) do
    local other = row.parameters[k + 1]
    if p.choice and p.choice ~= previous and other and other.choice == p.choice then
      lines[#lines + 1] = "  one of"
    end
    -- absent ones that are NaN have no default to tell
    local default = p.default and p.default == p.default and ", default " .. number_text(p.default)
      or p.default and ", may be absent" or ""
    lines[#lines + 1] = ("  %s%s: %s%s"):format(p.choice and "  " or "", p.name, p.must or p.constraint, default)
    previous = p.choice
  end
end

local partners -- name -> {of = names q with a formula for kl(name, q), to = names p for kl(p, name)}

local function partners_of(name)
  if not partners then
    partners = {}
    local function put(key, side, other)
      partners[key] = partners[key] or { of = {}, to = {}, infinite = {} }
      table.insert(partners[key][side], other)
    end
    for _, pair in ipairs(core.kl_pairs()) do
      put(pair[1], pair.infinite and "infinite" or "of", pair[2])
      if not pair.infinite then put(pair[2], "to", pair[1]) end
    end
    for _, sides in pairs(partners) do
      for _, list in pairs(sides) do table.sort(list) end
    end
  end
  return partners[name] or { of = {}, to = {}, infinite = {} }
end

local function add_divergences(lines, name)
  local of = partners_of(name).of
  if #of > 0 then lines[#lines + 1] = ("kl(%s, q) has a formula for q = %s."):format(name, table.concat(of, ", ")) end
end

-- What is known of kl(p, q) for two names, or one.
local function about_divergence(p, q)
  local known = { of = "has a formula", infinite = "is infinite" }
  for side, text in pairs(known) do
    for _, name in ipairs(partners_of(p)[side]) do
      if name == q then return ("kl(%s, %s) %s"):format(p, q, text) end
    end
  end
  return ("kl(%s, %s) has no formula; pn.dist.kl_monte_carlo(p, q) estimates it"):format(p, q)
end

local function all_divergences()
  local lines, rows = {}, core.distribution_rows()
  for _, row in ipairs(rows) do
    local of = partners_of(row.name).of
    if #of > 0 then
      lines[#lines + 1] = ("  kl(%s, q): q = %s"):format(row.name, #of == #rows and "any" or table.concat(of, ", "))
    end
  end
  table.sort(lines)
  table.insert(lines, 1, "Pairs with a formula:")
  lines[#lines + 1] = 'help"kl(gamma, beta)" tells of one pair. Pairs without formula: pn.dist.kl_monte_carlo(p, q).'
  return table.concat(lines, "\n")
end

-- What of a row is worth telling beyond `doc`.
local function row_text(row, method)
  local lines = { row.doc }
  local function add(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  if row.kind == "distribution" then
    local meaning, formula = row.doc:match "^(.-): (log p%b().*)$"
    if meaning then lines = { meaning, "  " .. formula } end
    add_parameters(lines, row)
    add("Support: %s%s.", row.support_text or tostring(row.support):gsub("_", " "), row.discrete and ", discrete" or "")
    if row.moments and row.moments ~= "" then add("Moments: %s.", row.moments) end
    local lacking = functions_where(row.functions, false)
    add("Has %s%s.", functions_where(row.functions, true), lacking ~= "" and "; has no " .. lacking or "")
    add_divergences(lines, row.name)
  elseif row.kind == "bijector" then
    add_parameters(lines, row)
    if row.parts == 0 then add("From %s to %s.", (row.domain:gsub("_", " ")), (row.codomain:gsub("_", " "))) end
  elseif type(row.options) == "table" and row.kind ~= "op" then
    for _, input in ipairs(row.inputs or {}) do
      local shape = row.kind == "layer" and input.shape and " " .. input.shape or input.shape or ""
      add("  %s%s%s%s", input.name, shape, input.doc and ": " .. input.doc or "",
        input.optional and " (may be absent)" or "")
    end
    if row.result then add("Gives %s.", row.result) end
    for _, o in ipairs(row.options) do
      if type(o) == "table" and o.name and o.doc then
        local choices = o.choices and (' ("%s")'):format(table.concat(o.choices, '", "')) or ""
        add("  %s: %s%s", o.name, o.doc, choices)
      end
    end
  end
  if row.kind == "op" then
    if method then add("Also x:%s(...).", row.name) end
    if row.differentiable == false then add "No gradient flows through." end
  end
  if row.source and row.source ~= "" then add("Source: %s.", row.source) end
  local example, short = example_of.lines(row)
  if short then table.insert(lines, 2, "    " .. short) end
  if example then lines[#lines + 1] = "Example:\n  " .. table.concat(example, "\n  ") end
  return table.concat(lines, "\n")
end

local function add_rows(list)
  for _, row in ipairs(pn.rows()) do
    if not row.hidden and row.doc then
      local home = homes[row.kind]
      local method = row.kind == "op" and core.methods[row.name] ~= nil
      local qualified = home and home .. "." .. row.name or row.name
      local call = ("%s(%s)"):format(qualified, signature(row.args))
      if row.kind == "initialiser" then
        call, qualified = ('the initialiser "%s"'):format(row.name), "initialiser " .. row.name
      elseif row.kind == "resampler" then
        call, qualified = ('the resampling scheme "%s"'):format(row.name), "resampling " .. row.name
      end
      list[#list + 1] = { title = call, name = row.name, qualified = qualified, kind = row.kind, method = method,
        text = row_text(row, method) }
    end
  end
end

---- the comments of the Lua modules ----

-- A line `-- help: ...` below a module's first comment says where a script finds what the module has:
--   pn, pn.smc ...    its functions, as far as the namespace has them, and the module by its path
--   pn.plot, part     the module is that namespace: all its functions
--   module            its functions as `require "penumbra...".name`: also without the line
--   none              nothing but the module itself;  nowhere: not even that
-- then perhaps `quiet`: nothing of the module itself; `methods d`, or `methods trace of trace` for the methods
-- in the table `trace`: what its objects are called in examples.
local function told_by(module, source)
  local line = source:match "\n%-%- help: ([^\n]*)" or "module"
  local told = { home = line:match "^[%w_.]+", speakers = {} }
  for word, owner in line:gmatch "methods ([%w_]+)([ %w_]*)" do
    told.speakers[owner:match "of ([%w_]+)" or true] = word
  end
  told.part = line:find ", part" and told.home
  told.path = module:match "^penumbra%.(.+)$"
  told.silent = told.home == "none" or told.home == "nowhere"
  told.quiet = told.home == "nowhere" or line:find ", quiet" ~= nil
  return told
end

-- The namespace of a name such as "pn.smc.kalman", or nil.
local function namespace_at(home)
  local part = pn
  for name in home:gmatch "%.([%w_]+)" do part = type(part) == "table" and part[name] or nil end
  return part
end

-- The name under which a script reaches `name` of a module: "pn.plot.name"; nil if there is none.
local function qualify(module, told, name)
  if told.home == "module" then return ('require "%s".%s'):format(module, name) end
  local reached = told.part or module == "penumbra" or namespace_at(told.home)[name] ~= nil
  return reached and told.home .. "." .. name or nil
end

-- The parts of parts, by their last name: bijector -> "pn.dist.bijector"; and parts by their module, where its name is
-- another: distribution -> "pn.dist".
local inner, by_module

local function inner_parts()
  if inner then return inner, by_module end
  inner, by_module = {}, {}
  for _, module in ipairs(core.modules()) do
    local told = told_by(module, core.source(module))
    local name = told.part and told.part:match "^pn%.%w+%.([%w_]+)$"
    if name then inner[name] = told.part end
    if told.part and told.path then by_module[told.path] = told.part end
  end
  return inner, by_module
end

local function is_inner(qualified)
  for _, home in pairs(inner_parts()) do
    if home == qualified then return true end
  end
  return false
end

-- A comment "name(args): text" or "name(args) -> result" says how the function is called; what a row has told comes
-- first.
local function add_entry(list, module, qualified, name, kind, args, body)
  local call, mark, rest = body:match("^%w*:?" .. name .. "(%b())(:) (.*)$")
  for _, form in ipairs { "(%b{})(:) (.*)$", "(%b())( %->) (.*)$", "(%b{})( %->) (.*)$" } do
    if not call then call, mark, rest = body:match("^%w*:?" .. name .. form) end
  end
  if mark == " ->" then rest = "gives " .. rest end
  local title = qualified .. (call or args and "(" .. args:gsub("%f[%w]given$", "options") .. ")" or "")
  if rest and (rest:find "^%l%l+[ ,]" or rest:find "^a ") then rest = rest:sub(1, 1):upper() .. rest:sub(2) end
  body = rest or body
  for _, e in ipairs(list) do
    if e.qualified == qualified and e.kind ~= kind then
      local head, tail = e.text:match "^([^\n]*\n    [^\n]*)(.*)$" -- with its example
      if not head then head, tail = e.text:match "^([^\n]*)(.*)$" end
      e.title, e.text = title, head .. "\n" .. body .. tail
      return
    end
  end
  if qualified == "pn." .. name and core.methods[name] and not body:find("x:" .. name, 1, true) then
    body = body .. ("\nAlso x:%s(...)."):format(name)
  end
  list[#list + 1] = { title = title, name = name, qualified = qualified, kind = kind, text = body,
    module = module }
end

local function add_module(list, module)
  local source = core.source(module)
  local told = told_by(module, source)
  local returned = source:match "\nreturn ([%a_][%w_]*)%s*$"
  local comment, head = {}, nil
  for line in (source .. "\n"):gmatch "(.-)\r?\n" do
    local text = line:match "^%-%-%-%-*%s?(.*)$"
    if text and line:match "^%-%-%-[^%-]" or line == "---" then
      comment[#comment + 1] = text
    else
      if not head and #comment > 0 then
        head = layout.unfold(table.concat(comment, "\n"))
        if not line:match "^function" then comment = {} end
      end
      local owner, joint, name, args = line:match "^function ([%a_][%w_]*)([.:])([%a_][%w_]*)%((.-)%)"
      if not owner then owner, name = line:match "^([%a_][%w_]*)%.([%a_][%w_]*) =" end
      if owner and #comment > 0 and not told.silent then
        local method = joint == ":"
        local speaker = told.speakers[owner] or told.speakers[true] or told.path or "pn"
        local qualified = method and ("%s:%s"):format(speaker, name)
          or not method and owner == returned and qualify(module, told, name)
        if qualified and not is_inner(qualified) then
          add_entry(list, module, qualified, name, method and "method" or "function", args,
            layout.unfold(table.concat(comment, "\n")))
        end
      end
      comment = {}
    end
  end
  if head and told.part then
    list[#list + 1] = { title = told.part, name = told.part:match "[%w_]+$", qualified = told.part, kind = "module",
      text = head }
  elseif head and told.path and not told.quiet then
    local name = told.path:match "^infer%.(.+)$" or told.path:match "^smc%.(.+)$" or module
    list[#list + 1] = { title = module, name = name, qualified = module, kind = "file", text = head }
  end
end

local function add_reference(list)
  local entry, first = nil, #list + 1
  for line in reference:gmatch "[^\n]+" do
    if line:match "^%s" then
      entry.text = (entry.text and entry.text .. "\n" or "") .. line:sub(3)
    else
      local qualified = line:match "^[%w_.:]+"
      entry = { title = line, name = qualified:match "[%w_]+$", qualified = qualified,
        kind = qualified:match "^%l:" and "method" or "function" }
      list[#list + 1] = entry
    end
  end
  for i = first, #list do list[i].text = layout.unfold(list[i].text) end
end

-- The named sets: supports of distributions, constraints of parameters, what bijectors map onto.
local function add_sets(list)
  local sets, users = {}, {}
  local function put(name, must, user)
    if not name or not must then return end
    sets[name], users[name] = must, users[name] or {}
    users[name][#users[name] + 1] = user
  end
  for _, row in ipairs(core.distribution_rows()) do
    put(row.support, row.support_text, row.name)
    for _, p in ipairs(row.parameters) do put(p.constraint, p.must) end
  end
  for name, must in pairs(sets) do
    local text = must .. ("\nMembers: pn.dist.within(%q, x)."):format(name)
    if pcall(core.new_biject_to, name) then
      text = text .. ("\nA bijector onto it: pn.dist.biject_to %q."):format(name)
    end
    table.sort(users[name])
    if #users[name] > 0 then text = text .. "\nThe support of " .. table.concat(users[name], ", ") .. "." end
    list[#list + 1] = { title = ("the set %q"):format(name), name = name, qualified = "set " .. name, kind = "set",
      text = text }
  end
end

-- Functions that have a second name: pn.save is pn.data.save_safetensors.
local function add_aliases(list)
  local by_name, by_value = {}, {}
  for _, e in ipairs(list) do by_name[e.qualified] = e end
  local function each(visit)
    for _, name in ipairs(pn.lazy_names()) do
      local ok, value = pcall(function() return pn[name] end)
      if ok and type(value) == "function" then visit("pn." .. name, value) end
      for key, f in next, ok and type(value) == "table" and value or {} do
        if type(f) == "function" then visit(("pn.%s.%s"):format(name, key), f) end
      end
    end
  end
  each(function(qualified, f) by_value[f] = by_value[f] or by_name[qualified] end)
  each(function(qualified, f)
    local e = by_value[f]
    if e and not by_name[qualified] then
      list[#list + 1] = { title = qualified .. (e.title:match "%(.*$" or ""), name = qualified:match "[%w_]+$",
        qualified = qualified, kind = e.kind, text = ("The same as %s.\n%s"):format(e.qualified, e.text) }
    end
  end)
end

local function entries()
  if index then return index end
  local list = {}
  add_rows(list)
  add_reference(list)
  for _, module in ipairs(core.modules()) do
    pcall(add_module, list, module) -- a part that cannot be loaded has no help
  end
  add_aliases(list)
  add_sets(list)
  index = list
  return list
end

return { list = entries, inner = inner_parts, about_divergence = about_divergence, all_divergences = all_divergences }
