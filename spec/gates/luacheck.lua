--- Lua files pass luacheck under .luacheckrc: no globals set, nothing unused or shadowed.
local tool = require "spec.gates.tool"

return function(root)
  local found = {}
  local ok, out = tool.run("cd %s && luacheck --no-color --codes --formatter plain "
    .. "$(ls -d lua spec src examples 2>/dev/null)", tool.quote(root))
  if not ok then for line in out:gmatch "[^\n]+" do found[#found + 1] = line end end
  return found
end
