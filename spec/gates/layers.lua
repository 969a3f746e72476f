--- Layer k of src/ includes only itself and the layers below it; Lua's headers appear in lua and cli alone.
local tool = require "spec.gates.tool"

local LAYER = {base = 0, tensor = 1, autodiff = 2, dist = 3, nn = 4, infer = 5, smc = 6, lua = 7, cli = 8}

local function includes(path, text, folder, complain)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local where = path .. ":" .. number .. ": "
    local system, own = line:match "^%s*#%s*include%s*<([^>]+)>", line:match '^%s*#%s*include%s*"([^"]+)"'
    if system and system:find "^lua[%a]*%.h" and LAYER[folder] < LAYER.lua then
      complain(where .. "layer " .. folder .. " includes Lua's " .. system)
    elseif own and own ~= "../penumbra.h" then
      local target = own:match "^%.%./([%w_]+)/" or (not own:find "/" and folder)
      if not LAYER[target] then
        complain(where .. own .. " lies in no layer")
      elseif LAYER[target] > LAYER[folder] then
        complain(where .. "layer " .. folder .. " includes " .. own .. " above it")
      end
    end
  end
end

return function(root)
  local found = {}
  local function complain(text) found[#found + 1] = text end
  for _, path in ipairs(tool.files(root, "src", "*.[ch]", "*.def")) do
    local folder = path:match "^src/([%w_]+)/[^/]+$"
    if folder and not LAYER[folder] then
      complain(path .. ": src/" .. folder .. " is no layer")
    elseif folder then
      includes(path, tool.read(root .. "/" .. path), folder, complain)
    elseif path ~= "src/penumbra.h" then
      complain(path .. ": stands in no layer")
    end
  end
  return found
end
