--- What instrumented copies of lua/penumbra (spec/mutants/run.lua) call as they enter a function, and with the values
--- that faults would change: COVERED=FILE adds "file:line" of each definition, and "file:byte:value" of each such
--- place, to FILE when the process ends, be it a spec's or one that it started.
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
  local file = path and io.open(path, "a")
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
