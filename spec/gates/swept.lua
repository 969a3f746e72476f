--- Every public builder and action stands in an allocation-failure sweep: a program of spec/c that
--- includes alloc_sweep.h, or its list of rows (*.def), names it; builders of one or two tensors that are entries X of
--- op.def are swept by that.
local tool = require "spec.gates.tool"

--- Functions that take a context and give a tensor, an object or a status: they may run out of memory.
local function builders(text)
  local names, plain = {}, {}
  for declaration in tool.code(text):gmatch "\nPN_API%s+([^;]+);" do
    local result, name, arguments = declaration:match "^(.-)([%w_]+)%s*%((.*)%)$"
    local object = result and result:find "^pn_%w+%s*%*" and not result:find "^const"
    if name and (object or result:find "^pn_status%s") and arguments:find "^pn_context%s*%*c" and
       name ~= "pn_context_rng" then
      names[#names + 1] = name
      plain[name] = (arguments .. ","):gsub("%s*pn_tensor %*[%w_]+,", "", 2) == "pn_context *c,"
    end
  end
  return names, plain
end

return function(root)
  local found, swept = {}, {}
  for _, path in ipairs(tool.files(root, "spec/c", "*_test.c", "*.def")) do
    local text = tool.read(root .. "/" .. path)
    if path:find "%.def$" or text:find '#include "alloc_sweep.h"' then
      for name in tool.code(text):gmatch "pn_[%w_]+" do swept[name] = true end
    end
  end
  local names, plain = builders(tool.read(root .. "/src/penumbra.h"))
  for _, name in ipairs(tool.entries(tool.read(root .. "/src/autodiff/op/op.def"))) do
    swept["pn_" .. name] = swept["pn_" .. name] or plain["pn_" .. name]
  end
  for _, name in ipairs(names) do
    if not swept[name] then found[#found + 1] = name .. " stands in no allocation-failure sweep (spec/c)" end
  end
  return found
end
