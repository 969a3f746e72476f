--- Layer k of src/ uses only itself and the layers below it, by include and by symbol; Lua's headers appear in lua and
--- cli alone. The rooms of a layer (folders in its folder) that need symbols of each other both ways are one room.
local tool = require "spec.gates.tool"

local LAYER = {base = 0, math = 1, tensor = 2, file = 3, autodiff = 4, distribution = 5, nn = 6, infer = 7, smc = 8,
               lua = 9, bridge = 10, cli = 11, kernel = 12, mpi = 13}

--- The path that `own` means in a file of src/folder/..., relative to src.
local function resolve(path, own)
  local parts = {}
  for part in (path:match "^src/(.*)/" .. "/" .. own):gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil else parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

local function includes(path, text, folder, complain)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local where = path .. ":" .. number .. ": "
    local system, own = line:match "^%s*#%s*include%s*<([^>]+)>", line:match '^%s*#%s*include%s*"([^"]+)"'
    local target = own and resolve(path, own)
    local layer = target and LAYER[target:match "^[^/]*"]
    if system and system:find "^lua[%a]*%.h" and LAYER[folder] < LAYER.lua then
      complain(where .. "layer " .. folder .. " includes Lua's " .. system)
    elseif target and target ~= "penumbra.h" and not layer then
      complain(where .. own .. " lies in no layer")
    elseif layer and layer > LAYER[folder] then
      complain(where .. "layer " .. folder .. " includes " .. own .. " above it")
    end
  end
end

--- What each object takes from others: complaints about layers above, and takers[room][other room] = an example.
local function symbols(build, complain)
  local home, takers = {}, {}
  local list = tool.symbols(build)
  for _, s in ipairs(list) do
    if s.section ~= "*UND*" and s.kind:find "^[gu]" then home[s.name] = s.object end
  end
  for _, s in ipairs(list) do
    local from = s.section == "*UND*" and home[s.name]
    local mine, theirs = LAYER[s.object:match "^[^/]*"], from and LAYER[from:match "^[^/]*"]
    if mine and theirs and theirs > mine then
      complain(("%s uses %s of %s above it"):format(s.object, s.name, from))
    elseif mine and mine == theirs and mine < LAYER.lua then
      local room, other = s.object:match "^(.*/.*)/", from:match "^(.*/.*)/"
      if room and other and room ~= other then
        takers[room] = takers[room] or {}
        takers[room][other] = takers[room][other] or ("%s uses %s of %s"):format(s.object, s.name, from)
      end
    end
  end
  return takers
end

return function(root, build)
  local found = {}
  local function complain(text) found[#found + 1] = text end
  for _, path in ipairs(tool.files(root, "src", "*.[ch]", "*.def")) do
    local folder = path:match "^src/([%w_]+)/"
    if folder and not LAYER[folder] then
      complain(path .. ": src/" .. folder .. " is no layer")
    elseif folder then
      includes(path, tool.read(root .. "/" .. path), folder, complain)
    elseif path ~= "src/penumbra.h" then
      complain(path .. ": stands in no layer")
    end
  end
  local takers = symbols(build, complain)
  for room, others in pairs(takers) do
    for other, example in pairs(others) do
      if room < other and takers[other] and takers[other][room] then
        complain(("%s and %s need each other: %s, %s"):format(room, other, example, takers[other][room]))
      end
    end
  end
  table.sort(found)
  return found
end
