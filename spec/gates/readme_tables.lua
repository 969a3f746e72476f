--- The tables of the manual and the list of distributions in penumbra.h are what the rows give (`make docs`); there is
--- one for every kind of rows. In every table of a page a line has as many cells as its heading.
local tool = require "spec.gates.tool"

local function run(root, build, program, arguments)
  return tool.run(("LUA_PATH='ROOT/lua/?.lua;ROOT/lua/?/init.lua;;' LUA_CPATH='BUILD/lua/?.so;;' "
    .. "LUA ROOT/PROGRAM ARGUMENTS"):gsub("[A-Z]+%f[/ \0]", {ROOT = root, BUILD = build,
    LUA = os.getenv "LUA" or "lua5.4", PROGRAM = program, ARGUMENTS = arguments}))
end

local function differs(root, build, program, path)
  local old = tool.read(root .. "/" .. path)
  if not old then return path .. " is missing" end
  local ok, new = run(root, build, program, root .. "/" .. path)
  if not ok then return new:match "[^\n]+" or program .. " failed" end
  return new ~= old and path .. ": the tables differ from the rows (make docs)" or nil
end

-- A bar within a code span or after a backslash ends no cell.
local function cells(line)
  return select(2, line:gsub("`[^`]*`", ""):gsub("\\|", ""):gsub("|", ""))
end

local function uneven(root, path, found)
  local text, number, heading = tool.read(root .. "/" .. path), 0, nil
  for line in text:gmatch "([^\n]*)\n" do
    number = number + 1
    local n = line:find "^|" and cells(line)
    if n and heading and n ~= heading then
      found[#found + 1] = ("%s:%d: %d cells under a heading of %d"):format(path, number, n - 1, heading - 1)
    end
    heading = n and (heading or n)
  end
end

return function(root, build)
  local found = {}
  for _, path in ipairs(tool.files(root, ".", "*.md")) do
    if not path:find "^%./build" then uneven(root, path, found) end
  end
  for _, path in ipairs(tool.files(root, "examples/manual", "*.md")) do
    found[#found + 1] = differs(root, build, "spec/readme.lua", path)
  end
  local ok, said = run(root, build, "spec/readme.lua", ("--all %s/examples/manual/*.md"):format(root))
  found[#found + 1] = not ok and (said:match "[^\n]+" or "spec/readme.lua failed") or nil
  found[#found + 1] = differs(root, build, "spec/header.lua", "src/penumbra.h")
  return found
end
