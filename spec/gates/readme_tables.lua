--- The README's generated tables are what the rows give now (`make docs` writes them).
local tool = require "spec.gates.tool"

return function(root, build)
  local path = root .. "/README.md"
  local old = tool.read(path)
  if not old then return {"README.md is missing"} end
  local ok, new = tool.run(("LUA_PATH='ROOT/lua/?.lua;ROOT/lua/?/init.lua;;' LUA_CPATH='BUILD/lua/?.so;;' "
    .. "LUA ROOT/spec/readme.lua ROOT/README.md"):gsub("[A-Z]+%f[/ ]", {ROOT = root, BUILD = build,
    LUA = os.getenv "LUA" or "lua5.4"}))
  if not ok then return {(new:match "[^\n]+" or "spec/readme.lua failed")} end
  if new ~= old then return {"README.md: the tables differ from the rows (make docs)"} end
  return {}
end
