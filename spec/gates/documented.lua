--- Every public C function has a comment above or beside it, every public Lua function `---` lines above.
local tool = require "spec.gates.tool"

--- Declarations of one header, with the text before and after each on its lines.
local function header(path, text, found)
  local comment_above = false
  local at = 1
  while at <= #text do
    local stop = text:find("\n", at, true) or #text + 1
    local line = text:sub(at, stop - 1)
    if line:find "^PN_API" then
      local finish = text:find(";", at, true) or #text
      local rest = text:match("^[^\n]*", finish + 1)
      local name = text:sub(at, finish):match "([%w_]+)%s*%("
      if not comment_above and not rest:find "^%s*/%*.*%S.*%*/" then
        found[#found + 1] = path .. ": " .. (name or line) .. " has no comment above or beside it"
      end
      stop = text:find("\n", finish, true) or #text + 1
      comment_above = false
    elseif line:find "%*/%s*$" then
      comment_above = not line:find "^/%* %-%-%-"
    else
      comment_above = false
    end
    at = stop + 1
  end
end

local function module(path, text, found)
  local previous = ""
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local name = line:match "^function ([%w_]+[.:][%w_.:]+)%s*%("
    if name and not name:find "[.:]_" and not previous:find "^%-%-" then
      found[#found + 1] = path .. ": " .. name .. " has no --- comment above it"
    end
    previous = line
  end
end

--- The sections of the public header, "/* ---- title: more ----", and the lines of the index at its head, in one order.
local function index(text, found)
  local lines = (text:match "\n%*%* Index\n(.-)%*/" or ""):gmatch "%*%*   (.-)  +pn_"
  for title in text:gmatch "\n/%* %-%-%-%- ([^\n]+)" do
    title = title:gsub("[ %-]*%*/$", ""):gsub("%-%-+$", ""):gsub(":.*", ""):gsub(" *%(.*", ""):gsub("%s+$", "")
    local line = lines()
    if line ~= title then
      found[#found + 1] = ("src/penumbra.h: the index has '%s' where section '%s' stands"):format(line, title)
      return
    end
  end
end

return function(root)
  local found = {}
  index(tool.read(root .. "/src/penumbra.h") or "", found)
  for _, path in ipairs(tool.files(root, "src", "*.h")) do header(path, tool.read(root .. "/" .. path), found) end
  for _, path in ipairs(tool.files(root, "lua", "*.lua")) do module(path, tool.read(root .. "/" .. path), found) end
  return found
end
