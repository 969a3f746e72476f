--- The tables of README.md and the list of distributions in penumbra.h are what the rows give (`make docs`).
local tool = require "spec.gates.tool"

local function differs(root, build, program, path)
  local old = tool.read(root .. "/" .. path)
  if not old then return path .. " is missing" end
  local ok, new = tool.run(("LUA_PATH='ROOT/lua/?.lua;ROOT/lua/?/init.lua;;' LUA_CPATH='BUILD/lua/?.so;;' "
    .. "LUA ROOT/PROGRAM ROOT/PATH"):gsub("[A-Z]+%f[/ \0]", {ROOT = root, BUILD = build,
    LUA = os.getenv "LUA" or "lua5.4", PROGRAM = program, PATH = path}))
  if not ok then return new:match "[^\n]+" or program .. " failed" end
  return new ~= old and path .. ": the tables differ from the rows (make docs)" or nil
end

return function(root, build)
  local found = {}
  found[#found + 1] = differs(root, build, "spec/readme.lua", "README.md")
  found[#found + 1] = differs(root, build, "spec/header.lua", "src/penumbra.h")
  return found
end
