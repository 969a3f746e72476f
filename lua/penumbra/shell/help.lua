--- Help on everything public: finding and telling the entries of penumbra.shell.help_entries, which are gathered when
--- help is first asked for.
-- help: pn, quiet
local chapters = require "penumbra.shell.chapters"
local core = require "penumbra.core"
local help_entries = require "penumbra.shell.help_entries"
local ideas = require "penumbra.shell.ideas"
local known_options = require "penumbra.shell.known_options"
local layout = require "penumbra.layout"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local pn = require "penumbra"
local pretty = require "penumbra.shell.pretty"
local svi = require "penumbra.infer.svi"
local word_search = require "penumbra.shell.word_search"
local words = require "penumbra.words"

local M = {}
local entries, inner = help_entries.list, help_entries.inner
local about_divergence, all_divergences = help_entries.about_divergence, help_entries.all_divergences

-- Columns of a line: those of the terminal while help prints to one.
local WIDTH = 79
local width = WIDTH
---- finding ----

-- "x:matmul", "pn.dist.normal" and "dist.normal" mean what they say; a bare name means every entry so called.
local function find(name)
  local found = {}
  local wanted = name:gsub("%(.*$", ""):gsub("^penumbra%.", "pn."):match "^%s*(.-)%s*$"
  local parts, by_module = inner()
  wanted = parts[wanted:match "^pn%.(%w+)$"] or wanted
  for _, e in ipairs(entries()) do -- a module by its path is the module, whatever its functions are called
    if e.kind == "file" and e.qualified == name then return { e } end
  end
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
  if #found > 0 then return found end
  local part = by_module[wanted:gsub("^pn%.", "")]
  if part then return find(part) end
  local ending = "." .. wanted:gsub("^pn%.", "")
  for _, e in ipairs(entries()) do -- "vae" of penumbra.models.vae
    if e.kind == "file" and e.qualified:sub(-#ending) == ending then found[#found + 1] = e end
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

local searched, treated -- indices of the entries and of the manual's sections, made when they are first asked

-- The entries that the words of a question fit best, and how many do.
local function by_words(question, limit)
  if not searched then
    local list = {}
    for k, e in ipairs(entries()) do
      local head = e.title .. "\n" .. e.text:match "^[^\n]*"
      list[k] = { name = e.name, head = head, text = e.text, item = e }
    end
    searched = word_search.index(list)
  end
  return word_search.find(searched, question, limit)
end

-- The section of the manual that they fit best, or nil.
local function section_of(question)
  if not treated then
    local list = {}
    for k, s in ipairs(chapters.list()) do
      list[k] = { name = s.title, head = s.chapter, text = s.text, item = s }
    end
    treated = word_search.index(list)
  end
  return word_search.find(treated, question, 1)[1]
end

---- telling ----

-- The first sentence, or as much of it as stands before a colon or semicolon.
local function first_line(text)
  local line = text:match "^[^\n]*"
  for _, stop in ipairs { "%f[%w)%]][%w)%]]+()[:;]%s", "%f[.]()%.%s", "%f[.]()%.$" } do
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

local function columns(list)
  local lines, column = {}, 0
  for _, item in ipairs(list) do column = math.max(column, math.min(#item[1], 24)) end
  for i, item in ipairs(list) do
    lines[i] = layout.fill(item[2], ("  %-" .. column .. "s  "):format(item[1]), (" "):rep(column + 4), width)
  end
  return table.concat(lines, "\n")
end

-- Where the manual treats it, after a text.
local function with_section(text, section)
  if not section then return text end
  return text .. "\n\n" .. layout.fill("In the manual: " .. chapters.where(section) .. ".", "", "  ", width)
end

-- What belongs to a module, a line each.
local function contents(prefix)
  local list = {}
  for _, e in ipairs(entries()) do
    local rest = e.qualified:sub(1, #prefix + 1) == prefix .. "." and e.qualified:sub(#prefix + 2)
    if rest and not rest:find "[.:]" then
      list[#list + 1] = { rest, first_line(e.text) }
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return columns(list)
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
help"tasks"               what to call for what     ?censoring  ideas, too
help"dropout rate"        what has the words        example"gamma"  runs it
]]

local function about_all()
  local parts = {}
  for _, e in ipairs(entries()) do
    if e.kind == "module" then parts[#parts + 1] = e.name end
  end
  table.sort(parts)
  return layout.wrap(overview:format(core.version), "", width)
    .. layout.fill("Parts: " .. table.concat(parts, ", ") .. ".", "", "  ", width)
end

-- Least, mean and largest of the numbers of x that are numbers, and how many are not.
local function summary_of(x)
  if x:numel() < 2 or not x:dtype():find "^float" then return "" end
  local flat = x:detach():reshape { -1 }
  local finite = flat:isfinite()
  local n = finite:to(x:dtype()):sum():item()
  if n == 0 then return "\nNone of its numbers is finite." end
  local rest, line = x:numel() - n, "\nmin %.6g, mean %.6g, max %.6g"
  flat = flat:take(1, finite:to(x:dtype()):argsort():slice(1, x:numel() - math.tointeger(n) + 1, -1))
  line = line:format(flat:min():item(), flat:mean():item(), flat:max():item())
  return rest == 0 and line or ("%s; %d not finite"):format(line, rest)
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
  return ("a tensor: %s [%s]%s%s\n\nIts methods (help\"x:matmul\" and so on):\n%s"):format(x:dtype(), sizes, more,
    summary_of(x), table.concat(lines, "\n"))
end

local function is_distribution(name)
  for _, row in ipairs(core.distribution_rows()) do
    if row.name == name then return true end
  end
  return false
end

-- What a word of many functions' options means, or has been called since; nil for any other word.
local function option_word(word)
  if words.called[word] then
    return ("%s, as an option, is called %s"):format(word, table.concat(words.called[word], " or "))
  end
  for line in (core.source "penumbra.words" or ""):gmatch "\n%-%-%-     (%l[^\n]*)" do
    local names, meaning = line:match "^(.-)%s%s+(.*)$"
    if names and (names .. ","):find("%f[%w_]" .. word:gsub("%p", "%%%0") .. ",") then
      return layout.fill(("%s, of the options of many functions: %s (help\"penumbra.words\" has them all)")
        :format(names, meaning), "", "    ", width)
    end
  end
end

-- What the table of ideas says of a word, or nil.
local function about_idea(word)
  local idea = ideas.of(word)
  return idea and layout.fill(("%s: %s (help%q)"):format(idea.word, idea.text, idea.place), "", "  ", width)
end

-- Names that hold the word: at most twelve.
local function names_with(word)
  local list, seen = {}, {}
  word = word:lower():gsub("[%s_%-]", "")
  for _, e in ipairs(#word > 2 and entries() or {}) do
    if e.name:lower():gsub("_", ""):find(word, 1, true) and not seen[e.qualified] then
      list[#list + 1], seen[e.qualified] = e.qualified, true
    end
  end
  table.sort(list)
  return list
end

local function some_of(list)
  return table.concat(list, ", ", 1, math.min(#list, 12)) .. (#list > 12 and ", ..." or "")
end

local SHOWN = 8 -- entries that a question of several words finds

-- What help says of a phrase: what a part of it is, and what has its words; nil where nothing has.
local function about_phrase(phrase)
  local part, found, many = ideas.of_phrase(phrase), by_words(phrase, SHOWN)
  if not part and #found == 0 then return nil end
  local list = {}
  for k, e in ipairs(found) do list[k] = { e.qualified, first_line(e.text) } end
  local head = part and layout.fill(("%s: %s (help%q)"):format(part.word, part.text, part.place), "", "  ", width)
    or ("nothing is called '%s'"):format(phrase)
  local count = many > SHOWN and ("\n\nThe best of %d with its words:\n"):format(many) or "\n\nWith its words:\n"
  return with_section(#found > 0 and head .. count .. columns(list) or head, section_of(phrase))
end

-- What help says of a word that nothing is called by.
local function about_unknown(name, bare)
  local phrase = name:find "%s" and about_phrase(name)
  if phrase then return phrase end
  local guess, parts = near(bare), names_with(bare)
  local only_case = guess and guess:lower() == bare:lower()
  if #parts > 0 and not only_case then
    return layout.fill(("nothing is called '%s'; names with it: %s"):format(name, some_of(parts)), "", "  ", width)
  elseif guess then
    return layout.fill(("nothing is called '%s'; did you mean '%s'?"):format(name, guess), "", "  ", width)
  end
  local list = #bare > 2 and mentioning(bare) or {}
  if #list == 0 then
    local said = "nothing is called '%s'; help() shows the way, help\"tasks\" too"
    return layout.fill(said:format(name), "", "  ", width)
  end
  return layout.fill(("nothing is called '%s'; it is mentioned by %s"):format(name, some_of(list)), "", "  ", width)
end

local function about_name(name)
  local bare = name:gsub("^penumbra$", "pn")
  if bare == "tasks" then return layout.wrap(ideas.tasks:gsub("\n$", ""), "", width) end
  if bare == "pn" then return "pn, the module penumbra\n\n" .. contents "pn" end
  local p, q = bare:match "kl%s*%(?%s*([%w_]+)%s*,%s*([%w_]+)%s*%)?$"
  if p and is_distribution(p) and is_distribution(q) then return about_divergence(p, q) end
  local found, meaning, idea = find(bare), option_word(bare), about_idea(bare)
  if #found == 0 then
    if idea or meaning then return (idea and meaning and idea .. "\n" or idea or "") .. (meaning or "") end
    local joined = bare:lower():gsub("[%s%-]+", "_") -- as names are written
    if bare:find "[%s%-]" and #find(joined) > 0 then return about_name(joined) end
    return about_unknown(name, bare)
  end
  if found[1].kind == "module" then return about_module(found[1].qualified) end
  local text = found[1].name == "kl" and tell(found) .. "\n\n"
    .. layout.wrap(all_divergences(), "", width) or (meaning and meaning .. "\n\n" or "") .. tell(found)
    .. (idea and "\n\n" .. idea or "")
  return with_section(text, #found == 1 and chapters.about(found[1].qualified) or nil)
end

-- The qualified names of fields of pn and its parts that are `value`.
local function names_of(value)
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
  for name, home in pairs(inner()) do
    local part = pn[home:match "^pn%.(%w+)"][name]
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
  for name, methods in pairs(#list == 0 and svi.objects or {}) do look(methods, name) end
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

pretty.signature = M.signature

-- Options in how a function is called: "f(path [, {by = "column", ...}])".
local function options_in(title)
  local list = {}
  for braces in (title or ""):gmatch "%b{}" do
    for name, value in braces:sub(2, -2):gsub("%b{}", "{}"):gmatch "%f[%w_]([%a_][%w_]*)%s*=%s*([^,%]]*)" do
      list[#list + 1] = { name = name, default = value:find "%S" and value:match "^(.-)%s*$" or nil }
    end
  end
  return #list > 0 and list or nil
end

--- options(f): the options of the function f of Penumbra's, a list of {name, kind, default, choices, required, doc}, or
--- nil.
function M.options(f)
  local list = known_options.of(f)
  return list or options_in(M.signature(f))
end

-- What m is in pn.model(function(m) ... end), to complete its methods.
M.recorder = model.recorder

-- Where an object comes from: the module whose documented methods agree best with its own (by Jaccard's index), and the
-- functions there that a script calls.
local function origin(methods)
  local shared, either, best = {}, {}, nil
  local size = 0
  for name in pairs(methods) do size = size + (tostring(name):find "^_" and 0 or 1) end
  for _, e in ipairs(entries()) do
    if e.module and e.kind == "method" then
      local same = methods[e.name] ~= nil
      shared[e.module] = (shared[e.module] or 0) + (same and 1 or 0)
      either[e.module] = (either[e.module] or size) + (same and 0 or 1)
    end
  end
  for module, n in pairs(shared) do
    local ahead = best and n / either[module] - shared[best] / either[best]
    if 2 * n > either[module] and (not best or ahead > 0 or ahead == 0 and module < best) then best = module end
  end
  if not best then return nil end
  local list = {}
  for _, e in ipairs(entries()) do
    if e.module == best and e.qualified:find "^pn%." then list[#list + 1] = e.qualified end
  end
  table.sort(list)
  return ("Of %s%s; help %q."):format(best, #list > 0 and ", with " .. table.concat(list, ", ") or "", best)
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
  for method in pairs(pretty.methods(value) or {}) do
    if type(method) == "string" and not method:match "^_" then names[#names + 1] = method end
  end
  table.sort(names)
  local made = type(value) == "table" and origin(pretty.methods(value) or {})
  if made then lines[#lines + 1] = layout.fill(made, "", "", width) end
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
  if rawequal(x, pn) then return about_name "pn" end
  if type(x) == "function" or type(x) == "table" then
    local names = names_of(x)
    if names[1] then return about_name(names[1]) end
    if type(x) == "function" then
      return pretty.format(x) .. "\n\nNo help: this function is not part of Penumbra."
    end
  end
  if type(x) == "userdata" or type(x) == "table" and getmetatable(x) then return about_object(x) end
  return ("a %s: %s"):format(type(x), pretty.format(x))
end

--- width(): the columns that help fills: those of the terminal, within reason, or 79.
function M.width()
  local seen = io and io.stdout and core.terminal and core.terminal(io.stdout)
  return seen and math.max(40, math.min(seen - 1, 100)) or WIDTH
end

-- Calls f with the width of the terminal.
local function fitted(f, ...)
  width = M.width()
  local told = table.pack(pcall(f, ...))
  width = WIDTH
  if not told[1] then error(told[2], 0) end
  return told[2]
end

local function about_variable(name, value)
  local text
  if type(value) == "string" then
    text = "a string: " .. pretty.format(value)
  elseif type(value) == "function" and #names_of(value) == 0 then
    text = "a function of yours: " .. pretty.format(value)
  else
    text = M.text(value)
  end
  local known = find(name)[1]
  return name .. " is " .. text .. (known and ("\n\nhelp %q tells of %s."):format(name, known.qualified) or "")
end

--- What help says of a user's own variable: of a tensor dtype, shape and range; of an object its kind, what made it and
--- its methods; of a function where it was defined.
function M.variable(name, value) return fitted(about_variable, name, value) end

--- Prints what there is to say about `x`: a name ("matmul", "dist.normal", "x:sum", "nn"), a function, a part of pn,
--- a tensor or another value. Without argument an overview. Lines fit the terminal, or 79 columns.
function M.help(...)
  print(fitted(M.text, ...))
end

--- find(name): the entries that a name means, the nearest first.
function M.find(name) return find(name) end

--- The list of all entries, each with `qualified`, `title`, `kind`, `text`.
function M.entries() return entries() end

return M
