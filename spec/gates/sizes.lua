--- Size budget: C file 600 lines, header 200 (except the public one; *_real.h holds the bodies of kernels and
--- counts as a C file), function 60, folder 30 files.
local tool = require "spec.gates.tool"

local FILE, HEADER, FUNCTION, FOLDER = 600, 200, 60, 30

--- Functions begin at a line that starts in column one and ends in `{`, and end at a lone `}`.
local function functions(path, text, found)
  local number, start, name = 0, nil, nil
  local head = ""
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if not start then
      if line:find "^[%a_]" then head = line elseif line:find "^%s+%S" then head = head .. line else head = "" end
      if head:find "%)%s*{$" and not head:find "^#" then
        start, name = number, head:match "([%w_]+)%("
      end
    elseif line:find "^}" then
      if number - start + 1 > FUNCTION then
        found[#found + 1] = ("%s:%d: %s has %d lines, limit %d"):format(path, start, name, number - start + 1, FUNCTION)
      end
      start, head = nil, ""
    end
  end
end

return function(root)
  local found, folder = {}, {}
  for _, path in ipairs(tool.files(root, "src examples", "*.[ch]")) do
    local text = tool.read(root .. "/" .. path)
    local _, lines = text:gsub("\n", "")
    local limit = path:find "%.h$" and not path:find "_real%.h$" and HEADER or FILE
    if lines > limit and path ~= "src/penumbra.h" then
      found[#found + 1] = ("%s has %d lines, limit %d"):format(path, lines, limit)
    end
    functions(path, tool.code(text), found)
    local name = path:match "^(.*)/"
    folder[name] = (folder[name] or 0) + 1
  end
  for name, n in pairs(folder) do
    if n > FOLDER then found[#found + 1] = ("%s holds %d files, limit %d"):format(name, n, FOLDER) end
  end
  table.sort(found)
  return found
end
