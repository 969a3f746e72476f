--- Comments are lines of prose: none is torn (short after a long one, where the next line's first word would have
--- fitted), and none is over the width.
local tool = require "spec.gates.tool"

local WIDTH, SHORT, LONG = 120, 25, 60

-- The mark and the prose of a line that is all comment, or begins one; nil for any other line.
local function prose(path, line)
  if not line then return nil end
  if path:find "%.lua$" then return line:match "^%s*(%-%-+ ?)(.*)$" end
  if path:find "%.py$" then return line:match "^%s*(# ?)(.*)$" end
  return line:match "^%s*(/?%*+ ?)(.*)$"
end

-- A row of a table or list, or the end of a sentence, ends where it ends.
local function whole(text)
  return text:find "%S  +%S" or text:find "[.:;%-=}>]%s*$" or text:find "^[%-*=/]" or text:find "%*/%s*$"
end

local function torn(before, text, after)
  if not before or not after or text == "" or text:find "^%s" then return false end
  local word = after:match "^[^%s/]+"
  return not whole(text) and #text < SHORT and #before >= LONG and not before:find "^%s" and word ~= nil
    and not after:find "%S  +%S" and #text + #word < WIDTH - 10
end

return function(root)
  local found = {}
  for _, path in ipairs(tool.files(root, "src lua examples spec", "*.c", "*.h", "*.def", "*.lua", "*.py")) do
    local lines = {}
    for line in (tool.read(root .. "/" .. path) .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
    for k, line in ipairs(lines) do
      local mark, text = prose(path, line)
      if mark then
        local columns = utf8.len(line) or #line
        if columns > WIDTH then
          found[#found + 1] = ("%s:%d: a comment of %d columns, at most %d"):format(path, k, columns, WIDTH)
        end
        local _, before = prose(path, lines[k - 1])
        local _, after = prose(path, lines[k + 1])
        if torn(before, text, after) then found[#found + 1] = ("%s:%d: a torn line: %s"):format(path, k, text) end
      end
    end
  end
  return found
end
