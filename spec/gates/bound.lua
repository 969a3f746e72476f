--- Every public C function is reachable from Lua: an operation row of its name exists, or the binding
--- calls it. The others stand in c_only.txt, each with its reason.
local tool = require "spec.gates.tool"

local function rows(root)
  local names = {}
  for _, list in ipairs(tool.files(root, "src", "*op.def")) do
    for _, name in ipairs(tool.entries(tool.read(root .. "/" .. list))) do names["pn_" .. name] = true end
  end
  return names
end

return function(root, build)
  local found, bound, listed, public = {}, rows(root), {}, {}
  for _, symbol in ipairs(tool.symbols(build)) do
    local binding = symbol.object:find "^lua/" and not symbol.object:find "runtime" -- embedding is no binding
    if binding and symbol.section == "*UND*" then bound[symbol.name] = true end
  end
  for line in (tool.read(root .. "/spec/gates/c_only.txt") or ""):gmatch "[^\n]+" do
    local name, reason = line:match "^(pn_[%w_]+)%s+(%S.*)$"
    if name then
      listed[name] = reason
    elseif not line:find "^#" then
      found[#found + 1] = "c_only.txt: no reason given: " .. line
    end
  end
  for _, name in ipairs(tool.public(tool.read(root .. "/src/penumbra.h"))) do
    public[name] = true
    if not bound[name] and not listed[name] then
      found[#found + 1] = name .. " is neither bound in Lua nor listed in spec/gates/c_only.txt"
    elseif bound[name] and listed[name] then
      found[#found + 1] = "c_only.txt: " .. name .. " is bound after all"
    end
  end
  for name in pairs(listed) do
    if not public[name] then found[#found + 1] = "c_only.txt: " .. name .. " does not exist" end
  end
  table.sort(found)
  return found
end
