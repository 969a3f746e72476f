--- Text in lines of a width. Paragraphs are filled anew; lines of code (four blanks in), lists and tables of a name and
--- what it means keep their lines, which are only broken where they are too long.
-- help: nowhere
local layout = {}

-- The words of `text` in lines: the first begins with `first`, the others with `other`.
local function fill(text, first, other, width)
  local lines, row = {}, nil
  for word in text:gmatch "%S+" do
    if row and #row + 1 + #word > width then
      lines[#lines + 1] = row
      row = other .. word
    else
      row = row and row .. " " .. word or first .. word
    end
  end
  lines[#lines + 1] = row
  return table.concat(lines, "\n")
end

layout.fill = fill

-- The part of a line before its second column: a name and two or more blanks, which do not end a sentence.
local function first_column(line)
  local before = line:match "^(%s*%S.-%s%s+)%S"
  return before and #before <= 36 and not before:find "[.:;,]%s+$" and before or nil
end

-- What a line is: "" (blank), "item" (indented, code or not, or in columns), "text".
local function kind_of(line)
  if not line:find "%S" then return "" end
  return (line:find "^%s" or first_column(line)) and "item" or "text"
end

-- An item or line of code in as many lines as it needs; columns stay columns.
local function hang(line, indent, width)
  if #indent + #line <= width then return indent .. line end
  local column = first_column(line)
  local head = column or line:match "^%s*"
  local other = (" "):rep(#head + (column and 0 or 2))
  return fill(line:sub(#head + 1), indent .. head, indent .. other, width)
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

--- unfold(text): a comment with each paragraph in one line: a sentence goes on in the next line where its first word
--- had no room, and so does what stands below the second column of an item.
function layout.unfold(text)
  local out, lines = {}, lines_of(text)
  local i = 1
  while i <= #lines do
    local parts, column = { lines[i] }, first_column(lines[i])
    local kind = kind_of(lines[i])
    while lines[i + 1] and lines[i + 1]:find "%S" do
      local next_line = lines[i + 1]
      local filled = kind == "text" and kind_of(next_line) == "text" and #lines[i] + #next_line:match "^%S+" > 84
      local below = kind == "item" and column and #next_line:match "^%s*" == #column
      if not filled and not below then break end
      i = i + 1
      parts[#parts + 1] = next_line:match "^%s*(.-)%s*$"
    end
    out[#out + 1] = table.concat(parts, " ")
    i = i + 1
  end
  return table.concat(out, "\n")
end

--- wrap(text, indent, width): each line of the text in lines of at most `width` bytes (where words allow it), after
--- `indent`.
function layout.wrap(text, indent, width)
  local out = {}
  for i, line in ipairs(lines_of(text)) do
    local kind = kind_of(line)
    out[i] = kind == "" and "" or kind == "text" and fill(line, indent, indent, width) or hang(line, indent, width)
  end
  return table.concat(out, "\n")
end

return layout
