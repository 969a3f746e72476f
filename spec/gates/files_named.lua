--- Every file that a comment names stands in the tree: *.c, *.h, *.def, *.lua, *.py and the *_spec that tests it, with
--- as much of its path as the comment gives. A star stands for any name, capitals for a name to be put in.
local tool = require "spec.gates.tool"

local FOLDERS = "Makefile README.md .ci src lua examples spec rockspec"

-- What comments name that is made from the tree, belongs to a user, or stands in somebody else's sources.
local ELSEWHERE = {
  ["penumbra.c"] = "the amalgamation", ["calls.def"] = "made by spec/calls.lua",
  ["out.c"] = "made by src/lua/embed.lua", ["dense.h"] = "made by spec/golden/math/special.py",
  ["script.lua"] = "a user's", ["stdio.h"] = "of C", ["allocator_interface.h"] = "of the sanitizers",
  ["liolib.c"] = "of Lua", ["e_log.c"] = "of fdlibm",
}

--- The comments of a file as {number, text}: of C between its marks, of Lua after two hyphens outside quotes, of Python
--- and make after a hash.
local function comments(path, text)
  local list, number, open = {}, 0, false
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local said
    if path:find "%.[chd]e?f?$" then
      local rest, parts = line, {}
      while rest do
        if open then
          local inside, after = rest:match "^(.-)%*/(.*)$"
          parts[#parts + 1] = inside or rest
          open, rest = not inside, after
        else
          rest = rest:gsub('"[^"]*"', '""'):match "/%*(.*)$"
          open = rest ~= nil
        end
      end
      said = table.concat(parts, " ")
    elseif path:find "%.lua$" or path:find "%.rockspec$" then
      local bare = line:gsub('"[^"]*"', function(s) return (s:gsub("%-", " ")) end)
      local at = bare:find("--", 1, true)
      said = at and line:sub(at)
    elseif path:find "%.md$" then
      said = line
    else
      said = line:match "#(.*)$"
    end
    if said and said:find "%S" then list[#list + 1] = {number, said} end
  end
  return list
end

local ENDINGS = {c = true, h = true, def = true, lua = true, py = true}

-- A path without its steps back.
local function straight(path)
  local count
  repeat path, count = path:gsub("[^/]+/%.%./", "", 1) until count == 0
  return path
end

return function(root)
  local found, paths, used = {}, {}, {}
  for _, path in ipairs(tool.files(root, FOLDERS, "*")) do
    while path do -- every end of it
      paths[path] = true
      path = path:match "^[^/]*/(.*)$"
    end
  end
  local function stands(name, path)
    local base = name:match "[^/]+$"
    if name:find("*", 1, true) then
      local pattern = "^" .. name:gsub("%.", "%%."):gsub("%*", "[^/]*") .. "$"
      for known in pairs(paths) do
        if known:find(pattern) then return true end
      end
    end
    if ELSEWHERE[base] then used[base] = true end
    if base:find "^%u[%u_]*%." or base:find "%..*%." then return true end -- a.b.c is a field
    if name:find "^%.%.?/" then return paths[straight(path:match "^.*/" .. name)] end
    return paths[name] or ELSEWHERE[base]
  end
  for _, path in ipairs(tool.files(root, FOLDERS, "*.c", "*.h", "*.def", "*.lua", "*.py", "*.rockspec", "Makefile")) do
    for _, comment in ipairs(comments(path, tool.read(root .. "/" .. path))) do
      local function look(name)
        if not stands(name, path) then
          found[#found + 1] = ("%s:%d: names %s, which is not in the tree"):format(path, comment[1], name)
        end
      end
      for name, ending in comment[2]:gmatch "%f[%w_/.*]([%w_/.*]*[%w_*]%.(%a+))%f[^%w_]" do
        if ENDINGS[ending] then look(name) end
      end
      for name in comment[2]:gmatch "%f[%w_/.*]([%w_/*]*_spec)%f[^%w_.]" do look(name .. ".lua") end
    end
  end
  for name in pairs(ELSEWHERE) do
    if root == "." and not used[name] then found[#found + 1] = "files_named.lua: no comment names " .. name end
  end
  return found
end
