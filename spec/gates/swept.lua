--- Every public builder and action stands in an allocation-failure sweep: a program of spec/c that
--- includes alloc_sweep.h, or its list of rows (*.def), names it.
local tool = require "spec.gates.tool"

--- Functions that take a context and give a tensor, an object or a status: they may run out of memory.
local function builders(text)
  local names = {}
  for declaration in tool.code(text):gmatch "\nPN_API%s+([^;]+);" do
    local result, name, arguments = declaration:match "^(.-)([%w_]+)%s*%((.*)%)$"
    local object = result and result:find "^pn_%w+%s*%*" and not result:find "^const"
    if name and (object or result:find "^pn_status%s") and arguments:find "^pn_context%s*%*c" and
       name ~= "pn_context_rng" then
      names[#names + 1] = name
    end
  end
  return names
end

return function(root)
  local found, swept = {}, {}
  for _, path in ipairs(tool.files(root, "spec/c", "*_test.c", "*.def")) do
    local text = tool.read(root .. "/" .. path)
    if path:find "%.def$" or text:find '#include "alloc_sweep.h"' then
      for name in tool.code(text):gmatch "pn_[%w_]+" do swept[name] = true end
    end
  end
  for _, name in ipairs(builders(tool.read(root .. "/src/penumbra.h"))) do
    if not swept[name] then found[#found + 1] = name .. " stands in no allocation-failure sweep (spec/c)" end
  end
  return found
end
