--- The static gates: each file of spec/gates returns function(root, build) -> list of complaints [, what to tell].
---   lua spec/check.lua [GATE]...    all gates without arguments
local build = os.getenv "BUILD" or "build"
package.path = "./?.lua;" .. package.path

local function gates()
  if #arg > 0 then return arg end
  local names = {}
  local pipe = assert(io.popen "ls spec/gates/*.lua 2>/dev/null | LC_ALL=C sort")
  for path in pipe:lines() do
    local name = path:match "([%w_]+)%.lua$"
    if name ~= "tool" then names[#names + 1] = name end
  end
  pipe:close()
  return names
end

local bad = 0
for _, name in ipairs(gates()) do
  local complaints, note = require("spec.gates." .. name)(".", build)
  print(("%-4s %s%s"):format(#complaints == 0 and "ok" or "FAIL", name, note and " (" .. note .. ")" or ""))
  for _, text in ipairs(complaints) do print("       " .. text) end
  bad = bad + #complaints
  io.flush()
end
if bad > 0 then print(bad .. (bad == 1 and " complaint" or " complaints")) end
os.exit(bad == 0)
