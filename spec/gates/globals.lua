--- No mutable state outside a context: no symbol of the library lies in a writable section. Constants that
--- hold addresses (.data.rel.ro) are written by the loader alone.
local tool = require "spec.gates.tool"

return function(_, build)
  local found = {}
  for _, object in ipairs(tool.objects(build)) do
    for _, line in ipairs(tool.lines("objdump -t %s", tool.quote(build .. "/obj/" .. object))) do
      -- value, seven flag columns (d: the section itself), section, size, name
      local flags, section, name = line:match "^%x+ (.......) (%S+)%s+%x+ ?%S* (%S+)$"
      if section and not flags:find "d" and
         (section:find "^%.data" or section:find "^%.bss" or section:find "^%.t[bd]" or section == "*COM*") and
         not section:find "^%.data%.rel%.ro" then
        found[#found + 1] = ("%s: %s lies in %s"):format(object, name, section)
      end
    end
  end
  return found
end
