--- Size budget of what hosts load: the stripped shared library, as the Makefile's own settings make it for x86-64.
--- What grows beyond it finds the room elsewhere: kernels that wait for memory need no more levels, what prepares work
--- is in COLD of the Makefile.
local tool = require "spec.gates.tool"

local LIMIT <const> = 3.75 * 2 ^ 20

return function(_, build)
  local kind = tool.lines("LC_ALL=C readelf -h %s/libpenumbra.so.0 2>&1", tool.quote(build))
  kind = table.concat(kind, "\n")
  if not kind:find "Class" then return { build .. "/libpenumbra.so.0 is not there: run make" } end
  if not kind:find "X86%-64" then return {}, "not for this processor" end
  local copy = os.tmpname()
  local ok, said = tool.run("strip -o %s %s/libpenumbra.so.0", tool.quote(copy), tool.quote(build))
  local file <close> = assert(io.open(copy, "rb"))
  local size = file:seek "end"
  os.remove(copy)
  if not ok then return { "strip: " .. said } end
  if size <= LIMIT then return {}, ("%.2f of %.2f MiB"):format(size / 2 ^ 20, LIMIT / 2 ^ 20) end
  return { ("libpenumbra.so.0 has %.2f MiB without symbols, limit %.2f"):format(size / 2 ^ 20, LIMIT / 2 ^ 20) }
end
