--- Prints a chapter of the manual with its tables made anew from pn.rows(): what stands between `<!-- rows: KIND -->`
--- and `<!-- end rows -->` belongs to this program. `make docs` writes the result, `make check` compares it.
---   lua spec/readme.lua examples/manual/layers.md
---   lua spec/readme.lua --all README.md examples/manual/*.md     is there a table for every kind of rows?
local pn = require "penumbra"

local function cell(text) return (tostring(text or ""):gsub("|", "\\|"):gsub("%s+", " ")) end

--- How a row is called: `args` is the grammar of operations ("x:t axis:a=-1") or a plain list.
local function call(row)
  if type(row.args) == "table" then
    local names = {}
    for k, a in ipairs(row.args) do names[k] = type(a) == "table" and (a.name or a[1]) or tostring(a) end
    return row.name .. "(" .. table.concat(names, ", ") .. ")"
  elseif type(row.args) == "string" and row.args:find ":" then
    local names = {}
    for name, rest in row.args:gmatch "([%w_]+):(%S+)" do
      names[#names + 1] = name .. (rest:match "=.*" or ""):gsub("^=nil$", ""):gsub("=", " = ")
    end
    return row.name .. "(" .. table.concat(names, ", ") .. ")"
  end
  return row.name .. "()"
end

-- Functions of a distribution, the most asked for first; the others exist where these do.
local functions = {"rsample", "mean", "variance", "mode", "entropy", "cdf", "icdf"}

local function lacking(row)
  local list = {}
  for _, name in ipairs(functions) do
    if not row.functions[name] then list[#list + 1] = name end
  end
  return table.concat(list, ", ")
end

local function table_of(kind)
  local wide = kind == "distribution"
  local lines = wide and {"| call | what | support | lacks |", "|---|---|---|---|"} or {"| call | what |", "|---|---|"}
  for _, row in ipairs(pn.rows()) do
    if row.kind == kind and not row.hidden then
      local more = wide and (" %s | %s |"):format(cell(row.support:gsub("_", " ")), lacking(row)) or ""
      lines[#lines + 1] = ("| `%s` | %s |%s"):format(call(row), cell(row.doc), more)
    end
  end
  return table.concat(lines, "\n")
end

local seen = {}
local all = arg[1] == "--all"
for k = all and 2 or 1, #arg do
  local file = assert(io.open(arg[k]))
  local text = file:read "a"
  file:close()
  text = text:gsub("(<!%-%- rows: (%w+) %-%->\n).-(<!%-%- end rows %-%->)", function(open, kind, close)
    seen[kind] = true
    return open .. table_of(kind) .. "\n" .. close
  end)
  if not all then io.write(text) end
end
for _, row in ipairs(all and pn.rows() or {}) do
  if not seen[row.kind] then
    io.stderr:write("the manual has no table for rows of kind ", row.kind, "\n")
    os.exit(1)
  end
end
