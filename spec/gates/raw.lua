--- The binding reads tables raw and calls no metamethod while it works with C pointers: functions of Lua's API that may
--- run a script's code stand only where spec/gates/calls_lua.txt says why they may. Userdata are made in one place.
local tool = require "spec.gates.tool"

local CALLS = {}
for name in ([[lua_getfield lua_geti lua_gettable lua_getglobal lua_seti lua_settable lua_setglobal luaL_getsubtable
  luaL_tolstring luaL_len lua_len lua_compare lua_concat lua_arith lua_call lua_callk lua_pcall lua_pcallk luaL_callmeta
  lua_toclose lua_closeslot lua_resume lua_newuserdatauv lua_newuserdata]]):gmatch "%S+" do
  CALLS[name] = true
end

return function(root)
  local found, allowed, used = {}, {}, {}
  for line in (tool.read(root .. "/spec/gates/calls_lua.txt") or ""):gmatch "[^\n]+" do
    local path, name, reason = line:match "^(%S+)%s+(luaL?_[%w_]+)%s+(%S.*)$"
    if path and reason then
      allowed[path .. " " .. name] = reason
    elseif not line:find "^#" then
      found[#found + 1] = "calls_lua.txt: no reason given: " .. line
    end
  end
  for _, path in ipairs(tool.files(root, "src/lua", "*.c")) do
    for name in tool.code(tool.read(root .. "/" .. path)):gmatch "%f[%w_](luaL?_[%w_]+)%s*%(" do
      local key = path .. " " .. name
      if CALLS[name] and not allowed[key] and not used[key] then
        found[#found + 1] = path .. " calls " .. name .. ", which may run a script's code (see src/lua/object.c)"
      end
      used[key] = true
    end
  end
  for key in pairs(allowed) do
    if not used[key] then found[#found + 1] = "calls_lua.txt: " .. key .. " is not there" end
  end
  table.sort(found)
  return found
end
