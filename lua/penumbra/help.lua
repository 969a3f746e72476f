--- Help on everything public, gathered when it is first asked for: from the rows of the core, from the
--- `---` comments of the Lua modules that came with it, and from penumbra.reference.
local core = require "penumbra.core"
local options = require "penumbra.options"
local layout = require "penumbra.layout"

local M = {}

-- Columns of a line: those of the terminal while help prints to one.
local WIDTH = 79
local width = WIDTH

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
      add("  %s%s: %s%s", input.name, input.shape, input.doc, input.optional and " (may be absent)" or "")
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
  local example, short = require("penumbra.example").lines(row)
  if short then table.insert(lines, 2, "    " .. short) end
  if example then lines[#lines + 1] = "Example:\n  " .. table.concat(example, "\n  ") end
  return table.concat(lines, "\n")
end

local function add_rows(list)
  for _, row in ipairs(require("penumbra").rows()) do
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

-- Modules that are no part of `pn` and of no use to a script.
local internal = { reference = true, describe = true, example = true, help = true, layout = true, pretty = true,
  gradcheck = true, gnuplot = true, replay = true, ode = true, ["infer.objective"] = true, ["infer.target"] = true,
  ["infer.enumeration"] = true }

-- Modules whose functions stand in a part of another name.
local lent = { chart = "pn.plot" }

-- Parts of parts.
local inner = { bijector = "pn.dist.bijector", natural = "pn.dist.natural" }

-- The name under which a script reaches `name` of module "penumbra.plot": "pn.plot.name".
local function qualify(module, name)
  local pn = require "penumbra"
  local part = module:match "^penumbra%.(.+)$"
  if not part then return "pn." .. name end
  if lent[part] then return ("%s.%s"):format(lent[part], name) end
  if inner[part] then return ("%s.%s"):format(inner[part], name) end
  if pn[part] ~= nil and type(pn[part]) ~= "function" then return "pn." .. part .. "." .. name end
  local below = part:match "^smc%.(.+)$"
  if below then
    local space = pn.smc[below]
    if type(space) == "table" then return ("pn.smc.%s.%s"):format(below, name) end
    return pn.smc[name] ~= nil and "pn.smc." .. name or nil
  end
  if internal[part] or part:find "^infer%." then return pn[name] ~= nil and "pn." .. name or nil end
  return ('require "%s".%s'):format(module, name)
end

-- What objects are called in examples, by module and the table that holds their methods; false: of no use to a script.
local spoken = { dist = "d", parameters = "net", ["infer.posterior"] = "p", ["infer.svi"] = "fit",
  ["infer.model"] = { methods = "model", trace = "trace" }, ["infer.recorder"] = "m", ["infer.guide"] = false,
  ["smc.rbpf"] = "rbpf", ["smc.switching"] = false, ["smc.backward_simulation"] = false,
  ["infer.target"] = false, ["infer.objective"] = false, ["infer.enumeration"] = false }

local function spoken_of(part, owner)
  local name = spoken[part]
  if type(name) == "table" then name = name[owner] end
  if name == nil then return part or "pn" end
  return name
end

local function is_inner(qualified)
  for _, home in pairs(inner) do
    if home == qualified then return true end
  end
  return false
end

-- A comment "name(args): text" says how the function is called; what a row has told comes first.
local function add_entry(list, qualified, name, kind, args, body)
  local call, rest = body:match("^%w*:?" .. name .. "(%b()): (.*)$")
  if not call then call, rest = body:match("^" .. name .. "(%b{}): (.*)$") end
  local title = qualified .. (call or args and "(" .. args .. ")" or "")
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
  list[#list + 1] = { title = title, name = name, qualified = qualified, kind = kind, text = body }
end

local function add_module(list, module)
  local source = core.source(module)
  local returned = source:match "\nreturn ([%a_][%w_]*)%s*$"
  local part = module:match "^penumbra%.(.+)$"
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
      if owner and #comment > 0 then
        local method = joint == ":"
        local speaker = method and spoken_of(part, owner)
        local qualified = speaker and ("%s:%s"):format(speaker, name)
          or not method and owner == returned and spoken[part] ~= false and qualify(module, name)
        if qualified and not is_inner(qualified) then
          add_entry(list, qualified, name, method and "method" or "function", args,
            layout.unfold(table.concat(comment, "\n")))
        end
      end
      comment = {}
    end
  end
  local below = part and part:match "^smc%.(.+)$"
  local home = inner[part] or part and not internal[part] and require("penumbra")[part] ~= nil and "pn." .. part
    or below and type(require("penumbra").smc[below]) == "table" and "pn." .. part
  if head and home then
    list[#list + 1] = { title = home, name = part, qualified = home, kind = "module", text = head }
  elseif head and part and not internal[part] then
    local name = part:match "^infer%.(.+)$" or part:match "^smc%.(.+)$" or module
    list[#list + 1] = { title = module, name = name, qualified = module, kind = "file", text = head }
  end
end

local function add_reference(list)
  local entry, first = nil, #list + 1
  for line in require("penumbra.reference"):gmatch "[^\n]+" do
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
  local pn = require "penumbra"
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

---- finding ----

-- "x:matmul", "pn.dist.normal" and "dist.normal" mean what they say; a bare name means every entry so called.
local function find(name)
  local found = {}
  local wanted = name:gsub("%(.*$", ""):gsub("^penumbra%.", "pn."):match "^%s*(.-)%s*$"
  wanted = inner[wanted:match "^pn%.(%w+)$"] or wanted
  for _, e in ipairs(entries()) do
    if e.qualified == wanted or e.qualified == "pn." .. wanted or e.qualified == name then found[#found + 1] = e end
  end
  if #found > 0 then return found end
  for _, e in ipairs(entries()) do -- "bijector.random" of pn.dist.bijector.random
    if wanted:find(".", 1, true) and e.qualified:sub(-#wanted - 1) == "." .. wanted then found[#found + 1] = e end
  end
  if #found > 0 then return found end
  local method = wanted:match ":([%w_]+)$"
  for _, e in ipairs(entries()) do
    local is_method = method and (e.method or e.kind == "method" or e.text:find(":" .. method, 1, true))
    if e.name == (method or wanted) and (is_method or not method) then
      found[#found + 1] = e
    end
  end
  return found
end

local function near(name)
  local names, seen = {}, {}
  for _, e in ipairs(entries()) do
    for _, text in ipairs { e.name, e.qualified } do
      if not seen[text] then
        seen[text] = true
        names[#names + 1] = text
      end
    end
  end
  return options.nearest(name:match "[%w_]+$" or name, names) or options.nearest(name, names)
end

-- Entries whose text holds the word.
local function mentioning(word)
  local list = {}
  for _, e in ipairs(entries()) do
    if e.kind ~= "module" and e.text:lower():find(word:lower(), 1, true) then list[#list + 1] = e.qualified end
  end
  return list
end

---- telling ----

-- The first sentence, or as much of it as stands before a colon or semicolon.
local function first_line(text)
  local line = text:match "^[^\n]*"
  for _, stop in ipairs { "%f[%w)%]][%w)%]]+()[:;]%s", "()%.%s", "()%.$" } do
    local at = line:match("^.-" .. stop)
    if at and at > 14 then line = line:sub(1, at - 1) end
  end
  return line
end

-- A short block of code comes right after the first sentence: call, meaning and example are the first lines.
local function example_second(text)
  local before, block, after = text:match "^(.-)\n\n(    .-)\n\n(.*)$"
  if not before then before, block = text:match "^(.-)\n\n(    .*)$" end
  if not before or before:find "\n" or select(2, block:gsub("\n", "")) > 6 then return text end
  local sentence, rest = before:match "^(.-[^.]%.)%s+(%u.*)$"
  if not sentence then sentence, rest = before, nil end
  local lines = sentence .. "\n" .. block
  if rest then lines = lines .. "\n" .. rest end
  return after and lines .. "\n\n" .. after or lines
end

local function tell(list)
  local parts = {}
  for i, e in ipairs(list) do
    local own = e.kind == "function" or e.kind == "method"
    parts[i] = layout.fill(e.title, "", "    ", width) .. "\n"
      .. layout.wrap(own and example_second(e.text) or e.text, "  ", width)
  end
  return table.concat(parts, "\n\n")
end

-- What belongs to a module, a line each.
local function contents(prefix)
  local lines, column, list = {}, 0, {}
  for _, e in ipairs(entries()) do
    local rest = e.qualified:sub(1, #prefix + 1) == prefix .. "." and e.qualified:sub(#prefix + 2)
    if rest and not rest:find "[.:]" and e.kind ~= "module" then
      list[#list + 1] = { rest, first_line(e.text) }
      column = math.max(column, math.min(#rest, 24))
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, item in ipairs(list) do
    lines[i] = layout.fill(item[2], ("  %-" .. column .. "s  "):format(item[1]), (" "):rep(column + 4), width)
  end
  return table.concat(lines, "\n")
end

local function about_module(name)
  local found = find(name)
  local head = found[1] and found[1].kind == "module" and tell { found[1] } or name
  local list = contents(name)
  return list ~= "" and head .. "\n\n" .. list or head
end

local overview = [[
Penumbra %s: tensors, gradients, distributions, networks and models for Lua.

  x = pn.tensor{{1, 2}, {3, 4}}   a tensor; also pn.zeros{2, 3}, pn.randn{5}
  x:matmul(x) + x:exp() * 2       operations are methods or functions of pn
  x[1]  x:slice(2, 1, 1)          positions, axes count from 1; -1 is the last
  w = pn.param(pn.randn{2, 1})    a parameter to train
  pn.grad(x:matmul(w):sum(), {w})
  d = pn.dist.normal(0, 1)        a distribution; d:sample{3}, d:log_prob(0.5)
  net = pn.nn.sequential{pn.nn.linear(2, 8), pn.nn.relu(), pn.nn.linear(8, 1)}
  opt = pn.optim.adam(net, {lr = 1e-3})               opt:step(loss)
  model = pn.model(function(m, y) ... end)            ?m:sample, ?m:observe
  p = pn.nuts(model, {data = {y}})                    its posterior; or pn.svi
  pn.plot.show{pn.plot.histogram(p.draws.w)}          a picture, here

help"matmul" or ?matmul   what one thing does       help(x)     what a value is
help"pn"                  all functions of pn       help"dist"  what a part has
]]

local function about_all()
  local parts = {}
  for _, e in ipairs(entries()) do
    if e.kind == "module" then parts[#parts + 1] = e.name end
  end
  table.sort(parts)
  return overview:format(core.version) .. layout.fill("Parts: " .. table.concat(parts, ", ") .. ".", "", "  ", width)
end

local function about_tensor(x)
  local sizes = table.concat(x:shape(), ", ")
  local more = x:is_param() and ", a parameter" or x:requires_grad() and ", part of a graph" or ""
  local names = {}
  for name in pairs(core.methods) do names[#names + 1] = name end
  table.sort(names)
  local lines, line = {}, " "
  for _, name in ipairs(names) do
    if #line + #name + 1 > width then
      lines[#lines + 1] = line
      line = " "
    end
    line = line .. " " .. name
  end
  lines[#lines + 1] = line
  return ("a tensor: %s [%s]%s\n\nIts methods (help\"x:matmul\" and so on):\n%s"):format(x:dtype(), sizes, more,
    table.concat(lines, "\n"))
end

local function is_distribution(name)
  for _, row in ipairs(core.distribution_rows()) do
    if row.name == name then return true end
  end
  return false
end

local function about_name(name)
  local bare = name:gsub("^penumbra$", "pn")
  if bare == "pn" then return "pn, the module penumbra\n\n" .. contents "pn" end
  local p, q = bare:match "kl%s*%(?%s*([%w_]+)%s*,%s*([%w_]+)%s*%)?$"
  if p and is_distribution(p) and is_distribution(q) then return about_divergence(p, q) end
  local found = find(bare)
  if #found == 0 then
    local guess = near(bare)
    if guess then return ("nothing is called '%s'; did you mean '%s'?"):format(name, guess) end
    local list = #bare > 2 and mentioning(bare) or {}
    if #list == 0 then return ("nothing is called '%s'; help() shows the way"):format(name) end
    return layout.fill(("nothing is called '%s'; it is mentioned by %s"):format(name,
      table.concat(list, ", ", 1, math.min(#list, 12)) .. (#list > 12 and ", ..." or "")), "", "  ", width)
  end
  if found[1].kind == "module" then return about_module(found[1].qualified) end
  return found[1].name == "kl" and tell(found) .. "\n\n"
    .. layout.wrap(all_divergences(), "", width) or tell(found)
end

-- The qualified names of fields of pn and its parts that are `value`.
local function names_of(value)
  local pn = require "penumbra"
  local list = {}
  local function look(t, prefix)
    for key, v in next, t do
      if rawequal(v, value) and type(key) == "string" then list[#list + 1] = prefix .. key end
    end
  end
  look(pn, "pn.")
  for key, part in next, pn do
    if type(part) == "table" and type(key) == "string" then
      if rawequal(part, value) then return { "pn." .. key } end
      look(part, "pn." .. key .. ".")
    end
  end
  for name, home in pairs(inner) do
    local part = pn.dist[name]
    if rawequal(part, value) then return { home } end
    look(part, home .. ".")
  end
  for _, module in ipairs(#list == 0 and core.modules() or {}) do -- such as "penumbra.models.vae"
    local loaded = package and package.loaded[module]
    if type(loaded) == "table" then look(loaded, ('require "%s".'):format(module)) end
  end
  if #list == 0 then look(core.methods, "x:") end
  if #list == 0 then look(core.distribution_methods, "d:") end
  if #list == 0 then look(core.bijector_methods, "b:") end
  for name, methods in pairs(#list == 0 and require("penumbra.infer.svi").objects or {}) do look(methods, name) end
  table.sort(list)
  return list
end

--- signature(f): how the function f is called, "pn.dist.gamma(concentration, rate = 1)"; nil for one that is not
--- Penumbra's.
function M.signature(f)
  local names = type(f) == "function" and names_of(f) or {}
  local found = names[1] and find(names[1])
  return found and found[1] and found[1].title
end

local function about_object(value)
  local name = getmetatable(value)
  if name == "penumbra.tensor" then return about_tensor(value) end
  local lines = { tostring(value) }
  local ok, kind = pcall(function() return value.name end)
  if ok and type(kind) == "string" then
    local found = {}
    for _, e in ipairs(find(kind)) do
      if name == "penumbra." .. e.kind then found[1] = e end
    end
    if found[1] then lines[2] = tell(found) end
  end
  local names = {}
  for method in pairs(require("penumbra.pretty").methods(value) or {}) do
    if type(method) == "string" and not method:match "^_" then names[#names + 1] = method end
  end
  table.sort(names)
  if #names > 0 then
    lines[#lines + 1] = layout.fill("Its methods: " .. table.concat(names, ", ") .. ".", "", "", width)
  end
  return table.concat(lines, "\n\n")
end

--- What help says, as text. `x` is a name ("matmul", "dist.normal", "x:sum", "nn"), a function, a part of pn, a
--- tensor or another value; without argument an overview.
function M.text(...)
  if select("#", ...) == 0 then return about_all() end
  local x = ...
  if type(x) == "string" then return about_name(x) end
  if rawequal(x, require "penumbra") then return about_name "pn" end
  if type(x) == "function" or type(x) == "table" then
    local names = names_of(x)
    if names[1] then return about_name(names[1]) end
    if type(x) == "function" then
      return require("penumbra.pretty").format(x) .. "\n\nNo help: this function is not part of Penumbra."
    end
  end
  if type(x) == "userdata" or type(x) == "table" and getmetatable(x) ~= nil then return about_object(x) end
  return ("a %s: %s"):format(type(x), require("penumbra.pretty").format(x))
end

--- Prints what there is to say about `x`: a name ("matmul", "dist.normal", "x:sum", "nn"), a function, a part of pn,
--- a tensor or another value. Without argument an overview. Lines fit the terminal, or 79 columns.
function M.help(...)
  local columns = io and io.stdout and core.terminal and core.terminal(io.stdout)
  width = columns and math.max(40, math.min(columns - 1, 100)) or WIDTH
  local told = table.pack(pcall(M.text, ...))
  width = WIDTH
  if not told[1] then error(told[2], 0) end
  print(told[2])
end

--- The list of all entries, each with `qualified`, `title`, `kind`, `text`.
function M.entries() return entries() end

return M
