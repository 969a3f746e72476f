--- The top level holds exactly what the design names; no folder is called util, misc or old.
local tool = require "spec.gates.tool"

local ALLOWED = {src = 1, lua = 1, examples = 1, spec = 1, rockspec = 1, Makefile = 1, ["README.md"] = 1, build = 1,
                 lua_modules = 1}

return function(root)
  local found = {}
  for _, name in ipairs(tool.lines("ls %s", tool.quote(root))) do
    if not ALLOWED[name] then found[#found + 1] = name .. " does not belong on the top level" end
  end
  for _, path in ipairs(tool.lines("cd %s && find src lua examples spec -type d 2>/dev/null", tool.quote(root))) do
    local name = path:match "[^/]+$"
    if name == "util" or name == "utils" or name == "misc" or name == "old" then
      found[#found + 1] = path .. ": name the folder after its concept"
    end
  end
  return found
end
