--- The shared library exports exactly what the headers mark PN_API, and nothing but pn_* and luaopen_*.
local tool = require "spec.gates.tool"

return function(root, build)
  local found, declared = {}, {}
  for _, path in ipairs(tool.files(root, "src", "*.h")) do
    for _, name in ipairs(tool.public(tool.read(root .. "/" .. path))) do declared[name] = path end
  end
  local exported = {}
  for _, line in ipairs(tool.lines("nm -D --defined-only %s/libpenumbra.so.0 2>/dev/null", tool.quote(build))) do
    local name = line:match "([%w_]+)$"
    exported[name] = true
    if not name:find "^pn_" and name ~= "luaopen_penumbra_core" then
      found[#found + 1] = name .. " is exported, but its name does not begin with pn_"
    elseif not declared[name] then
      found[#found + 1] = name .. " is exported, but no header declares it PN_API"
    end
  end
  for name, path in pairs(declared) do
    if not exported[name] then found[#found + 1] = path .. ": " .. name .. " is PN_API, but not exported" end
  end
  table.sort(found)
  return found
end
