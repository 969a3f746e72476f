--- The shared library exports exactly what the headers mark PN_API, and nothing but pn_* and luaopen_*; the bridge
--- exactly what its header marks BS_API.
local tool = require "spec.gates.tool"

--- Functions and constants of a header that are marked BS_API.
local function marked(text)
  local names = {}
  for declaration in tool.code(text):gmatch "\nBS_API%s+([^;]+);" do
    local name = declaration:match "([%w_]+)%s*%("
    for constant in (name or declaration:match "^extern const int (.*)$"):gmatch "[%w_]+" do names[constant] = true end
  end
  return names
end

local function bridge(root, build, found)
  local declared, exported = marked(tool.read(root .. "/src/bridge/penumbra_bridge.h")), {}
  for _, line in ipairs(tool.lines("nm -D --defined-only %s/libpenumbra_bridge.so 2>/dev/null", tool.quote(build))) do
    local name = line:match "([%w_]+)$"
    exported[name] = true
    if not declared[name] then found[#found + 1] = name .. " is exported, but penumbra_bridge.h does not declare it" end
  end
  for name in pairs(declared) do
    if not exported[name] then found[#found + 1] = "penumbra_bridge.h: " .. name .. " is BS_API, but not exported" end
  end
end

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
  bridge(root, build, found)
  table.sort(found)
  return found
end
