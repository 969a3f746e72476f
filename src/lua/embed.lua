--- Writes the C table of embedded Lua modules: `lua embed.lua lua out.c` turns lua/penumbra/**.lua into
--- pni_modules[] = {{name, packed, packed_size, size, public}, ..., {0}}, each text packed by gzip. Files are given on
--- standard input, one a line. A module is public, for scripts in a runtime to require, if its line `-- help:` says
--- that it is a part of pn or `public`.
local root, out = arg[1], arg[2]
local names, chunks = {}, {}

local function module_name(path)
  local name = path:sub(#root + 2):gsub("%.lua$", ""):gsub("/", ".")
  return (name:gsub("%.init$", ""))
end

local function read(file, what)
  local bytes = assert(file):read("a")
  assert(file:close(), what)
  return bytes
end

for path in io.lines() do
  local text = read(io.open(path, "rb"), path)
  local told = text:match "\n%-%- help: ([^\n]*)" or ""
  local public = path == root .. "/penumbra/init.lua" or (told .. ","):find ", part," or (told .. ","):find ", public,"
  local packed = read(io.popen("gzip -9nc '" .. path .. "'", "r"), "gzip " .. path)
  local bytes = packed:gsub(".", function(ch) return ch:byte() .. "," end)
  local k = #names + 1
  names[k] = ('  {"%s", m%d, %d, %d, %d},'):format(module_name(path), k, #packed, #text, public and 1 or 0)
  chunks[k] = ("static const unsigned char m%d[] = {%s};"):format(k, bytes:sub(1, -2))
end

local file = assert(io.open(out .. ".tmp", "wb"))
file:write("/* Made by src/lua/embed.lua from lua/; do not edit. */\n")
file:write("struct pni_module {\n  const char *name;\n  const unsigned char *packed;\n")
file:write("  unsigned packed_size, size, public;\n};\nextern const struct pni_module pni_modules[];\n")
file:write(table.concat(chunks, "\n"), "\n")
file:write("const struct pni_module pni_modules[] = {\n", table.concat(names, "\n"), "\n  {0, 0, 0, 0, 0}};\n")
file:close()
assert(os.rename(out .. ".tmp", out))
