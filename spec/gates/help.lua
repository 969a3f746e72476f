--- Every pointer of help (`pn.help "x"`, help"x") in README, the manual, comments, texts and errors of
--- Lua's modules and in C leads to a text, which is not the one that points.
local tool = require "spec.gates.tool"

-- Runs with the modules of the tree, whose comments it reads instead of those in the library.
local SCRIPT = [[
local root, files = arg[1], {}
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end
local core = require "penumbra.core"
for i = 2, #arg do
  local path = arg[i]
  files[path] = read(root .. "/" .. path)
end
function core.source(module)
  local path = "lua/" .. module:gsub("%.", "/")
  return files[path .. ".lua"] or files[path .. "/init.lua"]
end
local help = require "penumbra.shell.help"

-- Calls visit(name) for the pointers in a text: also for those of a list, `help "a", "b"`.
local function each_pointer(text, visit)
  text = text:gsub("\n%s*[%-*]+ ?", " "):gsub("\\\"", "\""):gsub("`", "")
  for at in text:gmatch "%f[%w_]help%s*%(?%s*()\"" do
    repeat
      local name, after = text:match("^\"([^\"\n]*)\"()", at)
      if name and (name:find "^%a[%w_.:]*$" or name:find "^%a+%(%a") then visit(name) end
      at = after and text:match("^,%s*()\"%a+%.%a", after)
    until not at
  end
end
local function complain(where, name, what) print(("%s: help %q %s"):format(where, name, what)) end
for path, text in pairs(files) do
  each_pointer(text, function(name)
    if help.text(name):find "^nothing is called" then complain(path, name, "leads nowhere") end
  end)
end
for _, e in ipairs(help.entries()) do
  each_pointer(e.text, function(name)
    if help.text(name) == help.text(e.qualified) then complain(e.qualified, name, "is itself") end
  end)
end
]]

return function(root, build)
  local paths = {"README.md", table.unpack(tool.files(root, "examples/manual", "*.md"))}
  for _, path in ipairs(tool.files(root, "lua src", "*.lua", "*.c", "*.h")) do paths[#paths + 1] = path end
  local found = tool.lines("env -u LUA_INIT LUA_PATH=%s LUA_CPATH=%s %s - %s %s 2>&1 <<'SCRIPT'\n%s\nSCRIPT",
    tool.quote(("R/lua/?.lua;R/lua/?/init.lua;;"):gsub("R", root)), tool.quote(build .. "/lua/?.so;;"),
    os.getenv "LUA" or "lua5.4", tool.quote(root), table.concat(paths, " "), SCRIPT)
  table.sort(found)
  return found
end
