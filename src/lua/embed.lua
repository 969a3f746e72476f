--- Writes the C table of embedded Lua modules: `lua embed.lua lua out.c` turns lua/penumbra/**.lua into
--- pni_embedded_lua[] = {{name, source, length}, ..., {0}}. Modules become byte arrays, so that no
--- compiler's limit on string literals matters. Files are given on standard input, one a line.
local root, out = arg[1], arg[2]
local names, chunks = {}, {}

local function module_name(path)
  local name = path:sub(#root + 2):gsub("%.lua$", ""):gsub("/", ".")
  return (name:gsub("%.init$", ""))
end

for path in io.lines() do
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  local bytes = text:gsub(".", function(ch) return ch:byte() .. "," end)
  local k = #names + 1
  names[k] = ('  {"%s", (const char *)m%d, %d},'):format(module_name(path), k, #text)
  chunks[k] = ("static const unsigned char m%d[] = {%s0};"):format(k, bytes)
end

local file = assert(io.open(out .. ".tmp", "wb"))
file:write("/* Made by src/lua/embed.lua from lua/; do not edit. */\n#include <stddef.h>\n")
file:write("struct pni_embedded {\n  const char *name, *source;\n  size_t length;\n};\n")
file:write("extern const struct pni_embedded pni_embedded_lua[];\n")
file:write(table.concat(chunks, "\n"), "\n")
file:write("const struct pni_embedded pni_embedded_lua[] = {\n", table.concat(names, "\n"), "\n  {0, 0, 0}};\n")
file:close()
assert(os.rename(out .. ".tmp", out))
