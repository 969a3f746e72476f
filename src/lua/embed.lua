--- Writes the C tables of embedded Lua modules: `lua embed.lua lua out.c` turns lua/penumbra/**.lua into
--- pni_packs[] = {{at, packed, size}, ...}, each some modules' text by deflate, and pni_modules[] = {{name, at,
--- help_at, size, code, help, public}, ..., {0}} by name: a module's code is `size` bytes from `at` on in the pack
--- `code`. What help shows of it begins at `help_at` of the pack `help`: a line for each empty line of the code. Other
--- comments, and the space between words and symbols of indented lines, are gone; lines keep their numbers. What
--- `require "penumbra"` loads is the first pack. Files are given on standard input, one a line. A module is public,
--- for scripts in a runtime to require, if its line `-- help:` says that it is a part of pn or `public`.
local root, out = arg[1], arg[2]
local PACK = 32 * 1024 -- of code: more would be unpacked for a module and save little; help reads all that it shows
local HELP_PACK = 4 * PACK

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

-- The text with nothing in the place of comments that nobody reads, and what help shows of it apart.
local function shortened(text, home)
  local list, kept, at, at_head = {}, {}, 1, true
  local function keep(piece)
    kept[#kept + 1] = piece
    list[#list + 1] = ("\1%d\1"):format(#kept)
  end
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
      keep(text:sub(at, last))
      at, at_head = last + 1, false
    elseif text:find("^%-%-", at) and not level then
      local comment = text:match("^[^\n]*", at)
      local column = at == 1 or text:sub(at - 1, at - 1) == "\n"
      if column and is_shown(comment, home, at_head) then
        keep(comment)
      else
        list[#list] = list[#list]:gsub("[ \t]+$", "")
      end
      at = at + #comment
    elseif at <= #text then
      list[#list + 1], at, at_head = text:sub(at, at), at + 1, false
    end
  end
  return table.concat(list), kept
end

-- Code and what help shows: `text` with names for the pieces `kept`.
local function parted(text, kept)
  local function piece(k) return kept[tonumber(k)] end
  local help, code = {}, {}
  for line in text:gmatch "(.-)\n" do
    if line:find "^ " then
      line = line:gsub("^ +", ""):gsub(" ?([=+*/<>~,(){}:;]+) ?", "%1"):gsub("<(%l+)>=", "<%1> =")
      if line:find "^function" then line = " " .. line end -- none that help tells of
    end
    line = line:gsub("\1(%d+)\1", piece)
    if line:find "^%-%-" then
      help[#help + 1], line = line .. "\n", ""
    else
      for part in (line .. "\n"):gmatch "(.-)\n" do -- of a string of many lines too
        if part == "" then help[#help + 1] = "\n" end
      end
    end
    code[#code + 1] = line .. "\n"
  end
  return table.concat(code), table.concat(help)
end

-- gzip's head and its end of eight bytes left out
local function deflate(text)
  local path = out .. ".part"
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local packed = read(io.popen("gzip -9nc '" .. path .. "'", "r"), "gzip " .. path)
  os.remove(path)
  return packed:sub(11, -9)
end

local modules, by_name = {}, {}
for path in io.lines() do
  local text = read(io.open(path, "rb"), path)
  local told = text:match "\n%-%- help: ([^\n]*)" or ""
  local public = path == root .. "/penumbra/init.lua" or (told .. ","):find ", part," or (told .. ","):find ", public,"
  local code, help = parted(shortened(text, told:match "^%a+"))
  local same = string.dump(assert(load(text, "=x"))) == string.dump(assert(load(code, "=x")))
  assert(same, path .. ": the embedded code is another") -- with its lines
  local m = { name = module_name(path), code = code, help = help, public = public and 1 or 0 }
  modules[#modules + 1], by_name[m.name] = m, m
end

-- What a module requires when it is loaded comes before it.
local order = {}
local function line_up(m)
  if m.placed then return end
  m.placed = true
  for other in ("\n" .. m.code):gmatch '\n%l[^\n]*require "([%w_.]+)"' do
    if by_name[other] then line_up(by_name[other]) end
  end
  order[#order + 1] = m
end
line_up(by_name["penumbra"] or modules[1])
local first = #order
for _, m in ipairs(modules) do line_up(m) end

local packs, chunks = {}, {}

-- The modules' texts, `what`, one behind the other; a pack ends after `most` bytes.
local function pack(what, most)
  local texts, size = {}, 0
  for k, m in ipairs(order) do
    m[what .. "_pack"], m[what .. "_at"] = #packs, size
    texts[#texts + 1], size = m[what], size + #m[what]
    if size >= most or k == #order or k == first and what == "code" then
      local text = table.concat(texts)
      local packed = deflate(text)
      local bytes = packed:gsub(".", function(ch) return ch:byte() .. "," end)
      chunks[#chunks + 1] = ("static const unsigned char m%d[] = {%s};"):format(#packs, bytes:sub(1, -2))
      packs[#packs + 1] = ("  {m%d, %d, %d},"):format(#packs, #packed, #text)
      texts, size = {}, 0
    end
  end
end
pack("code", PACK)
pack("help", HELP_PACK)

table.sort(modules, function(a, b) return a.name < b.name end)
local rows = {}
for k, m in ipairs(modules) do
  rows[k] = ('  {"%s", %d, %d, %d, %d, %d, %d},'):format(m.name, m.code_at, m.help_at, #m.code, m.code_pack,
    m.help_pack, m.public)
end

local file = assert(io.open(out .. ".tmp", "wb"))
file:write [[
/* Made by src/lua/embed.lua from lua/; do not edit. */
struct pni_pack {
  const unsigned char *at;
  unsigned packed, size;
};
struct pni_module {
  const char *name;
  unsigned at, help_at, size;
  unsigned char code, help, public;
};
extern const struct pni_pack pni_packs[];
extern const unsigned pni_module_count;
extern const struct pni_module pni_modules[];
]]
file:write(table.concat(chunks, "\n"), "\n")
file:write("const struct pni_pack pni_packs[] = {\n", table.concat(packs, "\n"), "\n  {0, 0, 0}};\n")
file:write("const struct pni_module pni_modules[] = {\n", table.concat(rows, "\n"), "\n  {0, 0, 0, 0, 0, 0, 0}};\n")
file:write("const unsigned pni_module_count = ", #rows, ";\n")
file:close()
assert(os.rename(out .. ".tmp", out))
