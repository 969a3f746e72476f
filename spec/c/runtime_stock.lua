-- Patterns and table functions on a grid of arguments; runtime_stock_test.c compares what stock Lua and a
-- runtime print.
local out = {}

local function plain(value)
  local text = tostring(value):gsub("^.-:%d+: ", ""):gsub("argument #%d", "argument")
  return (text:gsub("table: %w+", "table"))
end

local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = plain(t[i]) end
  out[#out + 1] = table.concat(t, "|")
end

local function fields(t)
  local list = {}
  for k, v in pairs(t) do list[#list + 1] = plain(k) .. "=" .. plain(v) end
  table.sort(list)
  return table.concat(list, " ")
end

-- ---- patterns ----

local patterns = {"", "a", ".", "%a+", "%s*", "(%w+)", "()", "(a*(.)%w(%s*))", "^a", "a$", "^$", "%b()", "%f[%w]%w+",
  "[a-c]+", "[^a-c]+", "[]]", "[^]]", "[%a_]+", "[a-]", "[%w-]", "(.)%1", "a-b", ".-b", "a?b", "x*", "(a)(b)?", "%d+",
  "^%s*(.-)%s*$", "[[]", "%.", "((a)(b))", "%", "[a", "(a", "a)", "%1", "%b", "%f", "$a", "a$b", "^", "%z*", "[a-%a]",
  "\0", "[%]]", "(()a)", "%bxx", "%g+", "[z-a]", "%f[%z]", "[%", "(%1)", "%9", "[^]", "a**", "--", "[a-z]-$", "(a*)-x",
  "%u%l", ".*", ".+b", "a-$", "%S+", "%W", "[%D]", "%c%x%p"}
local subjects = {"", "a", "abc", "  hello world  ", "aabbcc", "(foo(bar)) x", "a]b", "a\0b", "xxaab",
  "The_Quick-fox 12", "aXbX", "b", "ab$b", "%d", "^a-b"}

local function gmatch_all(s, p, init)
  local list = {}
  for a, b in string.gmatch(s, p, init) do list[#list + 1] = tostring(a) .. ":" .. tostring(b) end
  return table.concat(list, ",")
end

local replacements = {"<%0>", "%1", "%2", "%", "%%", "", {}, {a = "A", ab = 1, [1] = "one", foo = false},
  {a = {}, b = true}, function(x, y) return y or x end, function() end, function() return {} end}

for _, p in ipairs(patterns) do
  for _, s in ipairs(subjects) do
    show("pattern", p, s)
    for _, init in ipairs {1, 2, 3, -2, -99, 99, math.mininteger, math.maxinteger} do
      show(pcall(string.find, s, p, init))
      show(pcall(string.find, s, p, init, true))
      show(pcall(string.match, s, p, init))
      show(pcall(gmatch_all, s, p, init))
    end
    for _, r in ipairs(replacements) do
      show(pcall(string.gsub, s, p, r))
      show(pcall(string.gsub, s, p, r, 2))
      show(pcall(string.gsub, s, p, r, 0))
    end
  end
end

for _, a in ipairs {{"x"}, {"x", "y", 1.5}, {1, 2}, {12, "%d", 3}, {}, {"a", "a", {}, "x"}, {"a", "a", nil},
  {"a", "a", print}, {"a", "a", true}, {{}, "a"}} do
  for _, name in ipairs {"gsub", "find", "match", "gmatch"} do
    show(name, select(name == "gmatch" and 3 or 1, pcall(string[name], table.unpack(a, 1, 4))))
  end
end

for _, a in ipairs {{"ab", 3}, {"ab", 3, ","}, {"", 5, "-"}, {"x", 0}, {"x", -1}, {"x", 1, "sep"}, {"", 3},
  {"", 1, "--"}, {"abc", 17, "12345"}, {7, 3}, {"x", "3"}, {"x"}, {{}, 1}, {"xx", math.maxinteger}} do
  show("rep", pcall(string.rep, table.unpack(a, 1, 3)))
end

-- ---- tables ----

local positions = {{}, {1}, {2}, {1, 9}, {0}, {4}, {5}, {6}, {1, 2, 3}, {2, 4, 1}, {1, 3, 2}, {-1}, {",", 2, 3},
  {",", 3, 2}, {",", 1, 9}, {math.maxinteger, math.maxinteger, 1}, {math.mininteger, 1, 1}, {1, 2, math.maxinteger},
  {math.mininteger, math.maxinteger, 1}, {"x"}, {1.5}, {"2"}}

for _, name in ipairs {"insert", "remove", "move", "concat", "sort", "unpack"} do
  for _, a in ipairs(positions) do
    for _, list in ipairs {{50, 20, 40, 10}, {}} do
      local t = table.move(list, 1, 4, 1, {})
      show(name, fields(a), pcall(function() return table[name](t, table.unpack(a)) end))
      show(fields(t))
    end
  end
  show(name, pcall(table[name]))
  show(name, pcall(table[name], "x"))
  show(name, pcall(table[name], 1, 2, 3))
end

local function proxy(t)
  return setmetatable({}, {__index = t, __newindex = t, __len = function() return #t end})
end
local t = {5, 3, 8, 1}
table.insert(proxy(t), 2, 7)
table.remove(proxy(t), 1)
table.sort(proxy(t))
table.move(proxy(t), 1, 2, 3)
show(table.concat(proxy(t), "-"), table.unpack(proxy(t)))

local list = {}
for i = 1, 200 do list[i] = (i * 7919) % 211 end
table.sort(list)
show(table.concat(list, " "))
table.sort(list, function(a, b) return a > b end)
show(table.concat(list, " "))
show(pcall(table.sort, {3, 1, "x"}))
show(pcall(table.sort, {1, 2, 3, 4}, function() return true end))
show(pcall(table.sort, {1, 2}, 5))
show(pcall(table.concat, {1, {}, 3}))
show(table.concat({1, 2.5, "x"}, "-"))

-- ---- base and coroutines ----

show(load("return 1 +"))
show(load(function() return nil end)())
local parts = {"return ", "1 ", "+ 2"}
show(load(function() return table.remove(parts, 1) end)())
show(load("return x", "x", "t", {x = 7})())
show(xpcall(function(...) return select("#", ...) end, print, 1, nil, 3))
show(xpcall(error, function(m) return "handled " .. m end, "e", 0))
show(pcall(xpcall))
show(pcall(xpcall, print))
local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) error("inner " .. b) end)
show(co(1))
show(pcall(co, 2))
show(pcall(co))
local thread = coroutine.create(function() local _ <close> = setmetatable({}, {__close = function() show "closed" end})
  coroutine.yield(1, 2, 3) end)
show(coroutine.resume(thread))
show(coroutine.close(thread), coroutine.status(thread))
show(coroutine.resume(thread))
show(pcall(coroutine.wrap, 5))
show(pcall(coroutine.resume, 5))
show(pcall(coroutine.close, coroutine.running()))
show(pcall(setmetatable, {}, 5))
show(pcall(setmetatable, setmetatable({}, {__metatable = 1}), {}))
print(table.concat(out, "\n"))
