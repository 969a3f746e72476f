--- No machine's paths, no marks of unfinished work, no skipped specs in what is checked in.
local tool = require "spec.gates.tool"

-- Written in pieces, so that this file does not find itself.
local WORDS = {"TO" .. "DO", "FIX" .. "ME", "XX" .. "X", "HA" .. "CK", "STU" .. "B", "Not " .. "implemented",
               "not " .. "implemented", "place" .. "holder",
               "/wo" .. "rk/", "/ho" .. "me/", "/ro" .. "ot/", "/tm" .. "p/"}

return function(root)
  local found = {}
  local function complain(path, number, what) found[#found + 1] = ("%s:%d: %s"):format(path, number, what) end
  for _, path in ipairs(tool.files(root, "Makefile README.md .ci src lua examples spec rockspec", "*.[chd]", "*.def",
    "*.lua", "*.py", "*.md", "*.txt", "*.rockspec", "Makefile", "run", "deps")) do
    local number = 0
    for line in ((tool.read(root .. "/" .. path) or "") .. "\n"):gmatch "(.-)\n" do
      number = number + 1
      for _, word in ipairs(WORDS) do
        local at = line:find(word, 1, true)
        local whole = at and (word:find "/$" or not line:sub(at + #word):find "^%w")
        if whole and not line:sub(at - 1, at - 1):find "^[%w.]" then
          complain(path, number, "says " .. word)
        end
      end
      if path:find "_spec%.lua$" and (line:find("^%s*pend" .. "ing%s*[%(\"']") or line:find "%f[%w]x?it%.skip") then
        complain(path, number, "skips a spec")
      end
    end
  end
  return found
end
