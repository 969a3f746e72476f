--- The example of a name, printed and run: that of its help, or the shortest program of the manual that uses it.
-- help: nowhere
local chapters = require "penumbra.shell.chapters"
local core = require "penumbra.core"
local help = require "penumbra.shell.help"
local layout = require "penumbra.layout"
local options = require "penumbra.options"
local pn = require "penumbra"
local pretty = require "penumbra.shell.pretty"

local worked_example = {}

---- what there is ----

-- The statements under "Example:" of an entry, without what they give.
local function statements(entry)
  local block = ("\n" .. entry.text):match "\nExample:\n(.*)$"
  local list = {}
  for line in (block or ""):gmatch "[^\n]+" do
    list[#list + 1] = line:match "^%s*(.-)%s*$":gsub("%s*%-%->.*$", "")
  end
  return list
end

-- Lines of code in the text of an entry, which speak of variables that are not there.
local function sketch(entry)
  local list = {}
  for line in ("\n\n" .. entry.text):match "\n\n(    .*)$":gmatch "[^\n]+" do
    if not line:find "^    " then break end
    list[#list + 1] = line
  end
  return table.concat(list, "\n")
end

--- find(name): what there is for a name: {entry, statements}, {entry, program, section} or {entry, sketch}; nil and
--- what is said of a name that is not there or has nothing.
function worked_example.find(name)
  local found = help.find(name)
  if #found == 0 then return nil, help.text(name) end
  for _, entry in ipairs(found) do
    local list = statements(entry)
    if #list > 0 then return { entry = entry, statements = list } end
  end
  for _, entry in ipairs(found) do
    local program, section = chapters.program(entry.qualified)
    if program then return { entry = entry, program = program, section = section } end
  end
  for _, entry in ipairs(found) do
    if ("\n\n" .. entry.text):find "\n\n    " then return { entry = entry, sketch = sketch(entry) } end
  end
  return nil, ("%s has no example; help %q tells of it"):format(found[1].qualified, found[1].qualified)
end

---- running ----

-- What an example sees: the globals, and pn; what it assigns stays its own.
local function fresh() return setmetatable({ pn = pn }, { __index = _G }) end

-- Calls f; the default generator and the default element type are afterwards what they were.
local function aside(f, ...)
  local state, dtype = pn.rng_state(), pn.default_dtype()
  local told = table.pack(pcall(f, ...))
  pn.set_rng_state(state)
  pn.default_dtype(dtype)
  if not told[1] then error(told[2], 0) end
end

-- A statement as the prompt takes it: the values of an expression, or none.
local function run_statement(line, env, say, width)
  local chunk = load("return " .. line, "=example", "t", env) or assert(load(line, "=example", "t", env))
  local values = table.pack(chunk())
  for k = 1, values.n do say(pretty.format(values[k], { width = width })) end
end

local function run_all(example, say, width)
  local env = fresh()
  for _, line in ipairs(example.statements or {}) do
    say("> " .. line)
    run_statement(line, env, say, width)
  end
  if example.program then
    say(example.program .. "\n")
    env.print = function(...)
      local list = table.pack(...)
      for k = 1, list.n do list[k] = tostring(list[k]) end
      say(table.concat(list, "\t"))
    end
    assert(load(example.program, "=example", "t", env))()
  end
end

--- example(name): prints the example of a name of Penumbra's ("gamma", "pn.nuts") and runs it: that of its help, or the
--- shortest program of the manual that uses it. Its variables are its own; the default generator and element type are
--- left as they were. An example that needs what stands around it is printed and not run.
function worked_example.example(name)
  options.argument("example", "name", name, "string")
  local width = help.width()
  local example, message = worked_example.find(name)
  if not example then return print(message) end
  local title = layout.fill(example.entry.title, "", "    ", width)
  if example.section then
    title = layout.fill(("%s, in the manual: %s"):format(example.entry.qualified, chapters.where(example.section)), "",
      "    ", width)
  end
  print(title .. "\n")
  if example.sketch then
    return print(layout.wrap(example.sketch, "", width) .. "\n\n" .. layout.fill(
      "It is not run: it needs what stands around it.", "", "", width))
  end
  aside(run_all, example, print, width)
end

worked_example.example = core.public(worked_example.example)

return worked_example
