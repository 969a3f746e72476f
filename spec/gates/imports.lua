--- Nothing below src/cli ends the process, prints, jumps or keeps hidden state in the C library; nothing
--- below src/lua calls Lua.
local tool = require "spec.gates.tool"

local FORBIDDEN = {}
for name in ([[abort exit _exit _Exit quick_exit atexit __assert_fail raise signal sigaction
  printf vprintf puts putchar putc fprintf vfprintf dprintf fputs fputc perror stdout stderr stdin
  getchar scanf system popen fork
  setjmp _setjmp __sigsetjmp sigsetjmp longjmp siglongjmp __longjmp_chk
  rand srand random srandom drand48 strtok setlocale setenv putenv]]):gmatch "%S+" do
  FORBIDDEN[name] = true
end

return function(_, build)
  local found = {}
  for _, symbol in ipairs(tool.symbols(build)) do
    local object, name = symbol.object, symbol.name
    local plain = name:gsub("^__(.+)_chk$", "%1")
    if symbol.section == "*UND*" and (FORBIDDEN[name] or FORBIDDEN[plain]) then
      found[#found + 1] = object .. " imports " .. plain
    elseif symbol.section == "*UND*" and name:find "^luaL?_" and not object:find "^lua/" then
      found[#found + 1] = object .. " imports " .. name .. " below src/lua"
    end
  end
  return found
end
