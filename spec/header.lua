--- Prints penumbra.h with its list of distributions and their parameters made anew from pn.rows(): what stands
--- between `rows: distribution` and `end rows` belongs to this program. `make docs` writes the result, `make check`
--- compares it.
---   lua spec/header.lua [src/penumbra.h]
local pn = require "penumbra"

local WIDTH = 112

local function parameter(p)
  local text = p.name .. ": " .. p.constraint:gsub("_", " ")
  if #(p.axes or "") > 0 then text = text .. " [" .. p.axes:gsub("%f[%w](%w)(%w)", "%1, %2") .. "]" end
  if p.default then text = text .. (" = %g"):format(p.default) end
  return text
end

--- name(parameter, alternative | alternative, ...) on lines of a comment.
local function entry(row)
  local parts = {}
  for k, p in ipairs(row.parameters) do
    local before = row.parameters[k - 1]
    local alternative = p.choice and before and before.choice == p.choice
    if k > 1 then parts[#parts] = parts[#parts] .. (alternative and " |" or ",") end
    parts[#parts + 1] = parameter(p)
  end
  parts[1] = row.name .. "(" .. parts[1]
  parts[#parts] = parts[#parts] .. ")"
  local lines, line = {}, " *  "
  for _, part in ipairs(parts) do
    if #line + 1 + #part > WIDTH then
      lines[#lines + 1] = line
      line = " *     "
    end
    line = line .. " " .. part
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local file = assert(io.open(arg[1] or "src/penumbra.h"))
local text = file:read "a"
file:close()

local list = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "distribution" then list[#list + 1] = entry(row) end
end
local count
text, count = text:gsub("( %* rows: distribution\n).-( %* end rows)", function(open, close)
  return open .. table.concat(list, "\n") .. "\n" .. close
end)
if count ~= 1 then
  io.stderr:write("penumbra.h has no list of distributions\n")
  os.exit(1)
end
io.write(text)
