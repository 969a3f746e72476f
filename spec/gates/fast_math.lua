--- No flag, pragma or attribute that lets the compiler assume finite numbers: isnan and isinf must work.
local tool = require "spec.gates.tool"

local PATTERNS = {"%-ffast%-math", "%-Ofast", "%-ffinite%-math", "%-funsafe%-math", "%-fassociative%-math",
                  "%-freciprocal%-math", "fast%-math\"", "#%s*pragma%s+STDC%s+FENV", "float_control"}

return function(root)
  local found = {}
  local files = tool.files(root, "Makefile .ci rockspec src", "*")
  for _, path in ipairs(files) do
    local text = tool.uncommented(tool.read(root .. "/" .. path))
    for _, pattern in ipairs(PATTERNS) do
      local hit = text:match(pattern)
      if hit then found[#found + 1] = path .. ": " .. hit end
    end
  end
  return found
end
