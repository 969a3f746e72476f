-- Reading and writing files in the current folder; runtime_stock_test.c compares what stock Lua and a runtime
-- print. The files are removed again.
local out = {}

local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do
    t[i] = tostring(t[i]):gsub("^.-:%d+: ", ""):gsub("0x%x+", "0x"):gsub("'[%w.]*:?[%w.]+' %(", "("):gsub("#%d+ ", "")
  end
  out[#out + 1] = table.concat(t, "|")
end

local function write(name, text)
  local f <close> = assert(io.open(name, "wb"))
  show(io.type(f), f:write(text) == f)
end

local texts = {"", "\n", "a", "a\nb", "a\nb\n", "\n\n\nx", "12 0x1p4 -7.5e2 nan 1e+ 99999999999999999999 .5 -x\n3",
  ("long "):rep(1000) .. "\n" .. ("y"):rep(70000), "a\0b\r\nc\0\n", "0x 1e 7,8", ("9"):rep(250)}
local formats = {{}, {"l"}, {"L"}, {"a"}, {"n"}, {0}, {1}, {5}, {100000}, {"n", "n", "l"}, {"l", "L", 3, "a"}, {"*l"},
  {"*a", "*a"}, {"x"}, {{}}, {1.5}, {"l", 0, "n"}, {"a", "l"}, {true}}

for k, text in ipairs(texts) do
  write("f", text)
  for j, list in ipairs(formats) do
    local f = assert(io.open "f")
    for turn = 1, 4 do show(k, j, turn, pcall(f.read, f, table.unpack(list))) end
    show(f:seek("set", 0), f:seek "cur", f:seek("end", -1))
    show(f:close(), io.type(f), pcall(f.read, f), tostring(f))
    local lines, limit = {}, 0
    show(pcall(function()
      for a, b in io.lines("f", table.unpack(list)) do
        lines[#lines + 1] = tostring(a) .. "," .. tostring(b)
        limit = limit + 1
        if limit > 20 then break end
      end
    end))
    show(table.concat(lines, ";"))
  end
end

for _, mode in ipairs {"r", "w", "a", "r+", "w+", "a+", "rb", "w+b", "r+b", "ab"} do
  write("f", "12345")
  local f = io.open("f", mode)
  show(mode, pcall(f.read, f, 2))
  f:seek("set", 1)
  show(pcall(f.write, f, "x", 7, 1.0, 1e15, 2 ^ 53, -0.0, 1 / 3, math.mininteger))
  show(f:seek("set", 0))
  show(pcall(f.read, f, "a"))
  show(f:flush() ~= nil, pcall(f.setvbuf, f, "full", 1024), f:close())
  show(io.open "f":read "a")
end
for _, mode in ipairs {"", "x", "rw", "r+w", "b", "rbb", "r+b+"} do show(mode, pcall(io.open, "f", mode)) end
show(pcall(io.open, "missing"))
show(pcall(io.open, "missing/f", "w"))
show(pcall(io.lines, "missing"))
show(pcall(io.input, "missing"))
show(pcall(io.open))
show(pcall(io.open, {}))
show(io.type(5), pcall(io.type))

-- default files
write("f", "one\ntwo\n3 4\n")
show(io.type(io.input "f"))
show(io.read(), io.read "L", io.read("n", "n"), io.read "a", io.read "l")
io.input():close()
show(pcall(io.read))
show(pcall(io.lines))
io.input "f"
for line in io.lines() do show(line) end
io.input():close()
show(io.type(io.output "g"), io.write("a", 1, "\n") == io.output(), io.close())
show(pcall(io.write, "x"))
show(pcall(io.close))
show(io.open "g":read "a")
local f = io.open("g", "a")
show(io.output(f) == f, pcall(io.write, {}))
show(f:close())
show(pcall(f.close, f))
local t = io.tmpfile()
show(io.type(t), t:write "abc" == t, t:seek "set", t:read "a", t:close())
do
  local g <close> = io.open "g"
  t = g
end
show(io.type(t))

-- os and scripts
show(os.rename("g", "h"), io.open "g", io.open "h" ~= nil)
show((os.rename("g", "h")), (select(3, os.rename("g", "h")))) -- (ours names the file)
show(os.remove "h")
show(os.remove "h")
write("s.lua", "#!first line\nlocal a, b = ... return 'said', a, b")
show(dofile "s.lua")
show(loadfile "s.lua"(1, 2))
show(loadfile("s.lua", "t", {})())
show(loadfile "missing.lua")
show(pcall(dofile, "missing.lua"))
write("s.lua", "\xEF\xBB\xBFreturn 1")
show(dofile "s.lua")
write("s.lua", "x = \n= 1")
show(loadfile "s.lua")
show(pcall(dofile, "s.lua"))
write("s.lua", "error 'inside'")
show(pcall(dofile, "s.lua"))
os.remove "s.lua"
os.remove "f"
local name = os.tmpname()
show(io.open(name):read "a", os.remove(name), os.remove(name) == nil)
print(table.concat(out, "\n"))
