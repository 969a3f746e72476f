--- Draws the pictures of the manual anew: runs the programs of chapters with `pn.plot.save` writing beside the chapter.
---   lua5.4 spec/manual_pictures.lua examples/manual/hierarchical.md ...
local pn = require "penumbra"

local save, drawn = pn.plot.save, 0
for _, path in ipairs(arg) do
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  function pn.plot.save(name, ...) -- luacheck: ignore 122
    drawn = drawn + 1
    return assert(save(path:match "^(.*/)[^/]*$" .. name, ...))
  end
  for chunk in text:gmatch "```lua\n(.-)```" do
    local program = chunk:find("plot", 1, true) and assert(load(chunk, "@" .. path, "t"))
    if program then program() end
  end
end
print(drawn .. " pictures")
