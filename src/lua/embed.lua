--- Writes the C table of embedded Lua modules: `lua embed.lua lua out.c` turns lua/penumbra/**.lua into
--- pni_modules[] = {{name, packed, packed_size, size, public}, ..., {0}}, each text packed by gzip, without the
--- comments that help does not show; lines keep their numbers. Files are given on standard input, one a line. A module
--- is public, for scripts in a runtime to require, if its line `-- help:` says that it is a part of pn or `public`.
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

-- Is the comment one that help reads? Those of modules that it does not tell of are not, but for the head of one that
-- it tells of alone.
local function is_shown(comment, home, at_head)
  if comment:find "^%-%- help:" then return true end
  return comment:find "^%-%-%-" and home ~= "nowhere" and (home ~= "none" or at_head)
end

-- The text with nothing in the place of comments that nobody reads.
local function shortened(text, home)
  local list, at, at_head = {}, 1, true
  while at <= #text do
    local stop = (text:find("[%-\"'%[]", at) or #text + 1) - 1
    list[#list + 1] = text:sub(at, stop)
    at_head = at_head and not text:sub(at, stop):find "%S"
    at = stop + 1
    local level = text:match("^%-?%-?%[(=*)%[", at)
    if level and text:find("^%[", at) or text:find("^[\"']", at) then
      local quote, last = text:sub(at, at), at + 1
      if level then
        last = select(2, text:find("]" .. level .. "]", at, true))
      else
        while text:sub(last, last) ~= quote do last = last + (text:sub(last, last) == "\\" and 2 or 1) end
      end
      list[#list + 1], at, at_head = text:sub(at, last), last + 1, false
    elseif text:find("^%-%-", at) and not level then
      local comment = text:match("^[^\n]*", at)
      local column = at == 1 or text:sub(at - 1, at - 1) == "\n"
      if column and is_shown(comment, home, at_head) then
        list[#list + 1] = comment
      else
        list[#list] = list[#list]:gsub("[ \t]+$", "")
      end
      at = at + #comment
    elseif at <= #text then
      list[#list + 1], at, at_head = text:sub(at, at), at + 1, false
    end
  end
  return table.concat(list)
end

local function gzip(text)
  local path = out .. ".part"
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local packed = read(io.popen("gzip -9nc '" .. path .. "'", "r"), "gzip " .. path)
  os.remove(path)
  return packed
end

for path in io.lines() do
  local text = read(io.open(path, "rb"), path)
  local told = text:match "\n%-%- help: ([^\n]*)" or ""
  local public = path == root .. "/penumbra/init.lua" or (told .. ","):find ", part," or (told .. ","):find ", public,"
  text = shortened(text, told:match "^%a+")
  assert(load(text, "=" .. path))
  local packed = gzip(text)
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
