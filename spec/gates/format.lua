--- C files stand as clang-format writes them (`make fmt`); tables of golden values as their scripts do.
local tool = require "spec.gates.tool"

return function(root)
  local found = {}
  local files = table.concat(tool.files(root, "src spec/c spec/bench spec/fuzz examples", "*.[ch]"), " ")
  local ok, out = tool.run("cd %s && clang-format --dry-run -Werror %s", tool.quote(root), files)
  if ok then return found end
  local seen = {}
  for path, line in out:gmatch "([%w_/.]+%.[ch]):(%d+):" do
    if not seen[path] then found[#found + 1] = path .. ":" .. line .. ": not formatted (make fmt)" end
    seen[path] = true
  end
  if #found == 0 then found[1] = out end
  return found
end
