--- Converts routines of LAPACK and the reference BLAS, and all that they call, to C by f2c.
---   lua fortran.lua LAPACK OUT OWN ROUTINE...
--- LAPACK is its source, OUT a folder for the C. A routine of OWN, names with blanks between, has C of its own. Prints
--- the names of the C files.
local lapack, out = arg[1], arg[2]
local FOLDERS = { "SRC", "BLAS/SRC", "INSTALL" }

local function read(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

local given = {}
for name in arg[3]:gmatch "%S+" do given[name] = true end

local function source(name)
  for _, folder in ipairs(FOLDERS) do
    local text = read(("%s/%s/%s.f"):format(lapack, folder, name))
    if text then return text end
  end
  error(("fortran.lua: nobody has %s"):format(name), 0)
end

-- Fortran 77 leaves a loop by a label behind it.
local function leave_loops(text)
  local open, labels, lines = {}, 0, {}
  for line in text:gmatch "([^\n]*)\n" do
    local code = line:upper():match "^%s*(.-)%s*$"
    lines[#lines + 1] = line
    if code:find "^DO%s+[%a][%w]*%s*=" or code:find "^DO%s+WHILE" then
      open[#open + 1] = false
    elseif code:find "%f[%w]EXIT$" then
      if not open[#open] then labels, open[#open] = labels + 1, 90000 + labels end
      lines[#lines] = line:gsub("%f[%w][Ee][Xx][Ii][Tt]%s*$", ("GO TO %d"):format(open[#open]))
    elseif code:find "^END%s*DO$" then
      local label = table.remove(open)
      if label then lines[#lines + 1] = ("%d CONTINUE"):format(label) end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- f2c knows no RECURSIVE; with -a local variables are automatic ones, so that a routine may call itself.
local function convert(name)
  local text = source(name):gsub("RECURSIVE SUBROUTINE", "SUBROUTINE"):gsub("\n[*Cc!][^\n]*", "")
  text = leave_loops(text:gsub(", *INTENT%(IN%) *::", ""))
  local path = ("%s/%s.f"):format(out, name)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  assert(os.execute(("cd '%s' && f2c -a -A -R '%s.f' >f2c.log 2>&1 || { cat f2c.log >&2; exit 1; }"):format(out, name)))
  os.remove(path)
  return assert(read(("%s/%s.c"):format(out, name)))
end

local queue, seen, names = {}, {}, {}
local function want(name)
  if not seen[name] then
    seen[name] = true
    queue[#queue + 1] = name
  end
end
for i = 4, #arg do want(arg[i]) end
while #queue > 0 do
  local name = table.remove(queue)
  names[#names + 1] = name
  for called in convert(name):gmatch "%f[%w_](%l[%l%d_]-)__?%(" do -- two after a name that has one
    if not given[called] then want(called) end
  end
end
table.sort(names)
print(table.concat(names, "\n"))
