--- No mutable state outside a context: no symbol of the library lies in a writable section. Constants that
--- hold addresses (.data.rel.ro) are written by the loader alone.
local tool = require "spec.gates.tool"

--- Written by the loader, before any function can be called, and by nobody after.
local CONSTANT = {["base/processor.o: settled"] = true, ["tensor/product/gemm.o: settled"] = true}

return function(_, build)
  local found = {}
  for _, symbol in ipairs(tool.symbols(build)) do
    local section = symbol.section
    if (section:find "^%.data" or section:find "^%.bss" or section:find "^%.t[bd]" or section == "*COM*") and
       not section:find "^%.data%.rel%.ro" and not CONSTANT[("%s: %s"):format(symbol.object, symbol.name)] then
      found[#found + 1] = ("%s: %s lies in %s"):format(symbol.object, symbol.name, section)
    end
  end
  return found
end
