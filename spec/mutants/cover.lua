--- What instrumented copies of lua/penumbra (spec/mutants/run.lua) call as they enter a function, and with the values
--- that faults would change: LUA_INIT="@spec/mutants/cover.lua" COVERED=FILE writes "file:line" of each definition, and
--- "file:byte:value" of each such place, into FILE when the process ends.
if _VERSION == "Lua 5.1" then return end -- the runner of specs, before it starts the interpreter that is asked for
dofile((debug.getinfo(1, "S").source:gsub("^@", ""):gsub("cover.lua$", "in_force.lua")))
local seen, path, exit = {}, os.getenv "COVERED", os.exit

function COVER(name) -- luacheck: ignore
  seen[name] = true
end

function PROBE(name, ...) -- luacheck: ignore
  local acts = MUTANT.acts -- luacheck: ignore
  if not seen[name] and acts[name:match "%a+$"]((...)) then seen[name] = true end
  return ...
end

local function write()
  local file = path and io.open(path, "w")
  path = nil
  if not file then return end
  for name in pairs(seen) do file:write(name, "\n") end
  file:close()
end

os.exit = function(...) -- luacheck: ignore
  write()
  return exit(...)
end
COVER_END = setmetatable({}, {__gc = write}) -- luacheck: ignore
