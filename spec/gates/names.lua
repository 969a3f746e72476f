--- A basename stands once in src and once in lua: <name>.c, .h and .def of one folder are one thing, and
--- src/lua/bind_<name>.c binds what is called so below.
local tool = require "spec.gates.tool"

return function(root)
  local found, seen = {}, {}
  for _, path in ipairs(tool.files(root, "src lua", "*.[ch]", "*.def", "*.lua")) do
    local tree, folder, stem = path:match "^(%w+)/(.-)([^/]+)%.%w+$"
    local key = tree .. ":" .. stem
    if seen[key] and seen[key] ~= folder then
      found[#found + 1] = ("%s: %s%s has the name already"):format(path, tree .. "/" .. seen[key], stem)
    end
    seen[key] = seen[key] or folder
  end
  return found
end
