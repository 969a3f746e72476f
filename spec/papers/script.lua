--- Scripts of examples/papers within this process, for specs that hold their own functions to what their pages say.
local pn = require "penumbra"

local script = {}

-- f(...) with what it prints caught: its first result, the text. An exit of the process is an error.
local function caught(f, ...)
  local parts, print_before, write_before, exit_before = {}, print, io.write, os.exit
  function _G.print(...)
    local list = table.pack(...)
    for k = 1, list.n do list[k] = tostring(list[k]) end
    parts[#parts + 1] = table.concat(list, "\t") .. "\n"
  end
  io.write = function(...) -- luacheck: ignore
    parts[#parts + 1] = table.concat { ... }
    return io.stdout
  end
  os.exit = function(code) error("exit " .. tostring(code), 0) end -- luacheck: ignore
  local ok, result = xpcall(f, debug.traceback, ...)
  _G.print, io.write, os.exit = print_before, write_before, exit_before -- luacheck: ignore
  if not ok then error(table.concat(parts) .. tostring(result), 0) end
  return result, table.concat(parts)
end

--- silent(f, ...): the first result of f(...), whose output is dropped; the output second.
script.silent = caught

--- in_other_units(run, job, set): run(job) as the table stands, and with its targets times 4 less 3.
function script.in_other_units(run, job, set)
  local y, own = set.y, caught(run, job)
  set.y = y * 4 - 3
  local other = caught(run, job)
  set.y = y
  return own, other
end

--- run(line): runs a script with a command line, "bedl/uci.lua --quick --out OUT", OUT a folder that is taken away
--- afterwards. Gives the local names at its end, its functions among them, and what it printed.
function script.run(line)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local words, threads, arg_before = {}, pn.threads(), arg
  for word in line:gsub("OUT", folder):gmatch "%S+" do words[#words + 1] = word end
  local path = "examples/papers/" .. table.remove(words, 1)
  words[0] = path
  local file <close> = assert(io.open(path))
  local names = {}
  local function names_at_the_end()
    for k = 1, math.huge do
      local name, value = debug.getlocal(2, k)
      if not name then break end
      names[name] = value
    end
  end
  local chunk = assert(load(file:read "a" .. "\nnames_at_the_end()", "@" .. path, "t",
    setmetatable({ names_at_the_end = names_at_the_end }, { __index = _G })))
  _G.arg = words
  local ok, why, text = pcall(caught, chunk)
  _G.arg = arg_before
  pn.threads(threads)
  os.execute(("rm -rf '%s'"):format(folder))
  if not ok then error(why, 0) end
  return names, text
end

--- set(f, name, value): what a script's function f finds by a local name of the script; gives what it found before.
function script.set(f, name, value)
  for k = 1, math.huge do
    local own, before = debug.getupvalue(f, k)
    assert(own, "no such name: " .. name)
    if own == name then
      debug.setupvalue(f, k, value)
      return before
    end
  end
end

--- rows(text, beginning): the numbers after each match of the beginning of a line, a list for each.
function script.rows(text, beginning)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local rest = line:match("^" .. beginning .. "(.*)$")
    local row = rest and {}
    for word in (rest or ""):gmatch "%-?%d+%.%d+" do row[#row + 1] = tonumber(word) end
    list[#list + 1] = row
  end
  assert(#list > 0, beginning .. " is not in:\n" .. text)
  return list
end

return script
