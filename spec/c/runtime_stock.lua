-- Patterns and table functions on a grid of arguments; runtime_stock_test.c compares what stock Lua and a
-- runtime print.
local pats = {"", "a", ".", "%a+", "%s*", "(%w+)", "()", "(a*(.)%w(%s*))", "^a", "a$", "^$", "%b()", "%f[%w]%w+", "[a-c]+", "[^a-c]+", "[]]", "[^]]",
 "[%a_]+", "[a-]", "[%w-]", "(.)%1", "a-b", ".-b", "a?b", "x*", "(a)(b)?", "%d+", "^%s*(.-)%s*$", "[[]", "%.", "((a)(b))", "%", "[a", "(a", "a)", "%1", "%b", "%f", "$a", "a$b", "^", "%z*", "[a-%a]", "\0", "[%]]", "(()a)", "%bxx", "%g+", "[z-a]", "%f[%z]","[%", "(%1)", "%9", "[^]", "a**", "--", "[a-z]-$", "(a*)-x", "%u%l", ".*", ".+b", "a-$"}
local subs = {"", "a", "abc", "  hello world  ", "aabbcc", "(foo(bar)) x", "a]b", "a\0b", "xxaab", "The_Quick-fox 12", "aXbX", "b", "ab$b", "%d", "^a-b"}
local out = {}
local function show(...) local t = table.pack(...) for i = 1, t.n do t[i] = tostring(t[i]):gsub("^.-:%d+: ", ""):gsub("argument #%d", "argument") end out[#out+1] = table.concat(t, "|") end
for _, p in ipairs(pats) do for _, s in ipairs(subs) do
  show("find", p, s, pcall(string.find, s, p)) show(pcall(string.find, s, p, 2)) show(pcall(string.find, s, p, -2)) show(pcall(string.find, s, p, 1, true)) show(pcall(string.find, s, p, 99))
  show(pcall(string.match, s, p)) show(pcall(string.match, s, p, 3)) show(pcall(string.match, s, p, -99))
  show("gsub", p, s, pcall(string.gsub, s, p, "<%0>")) show(pcall(string.gsub, s, p, "%1", 2)) show(pcall(string.gsub, s, p, {a = "A", ab = 1, [1] = "one", foo = false})) show(pcall(string.gsub, s, p, function(x, y) return y or x end)) show(pcall(string.gsub, s, p, "%2")) show(pcall(string.gsub, s, p, "%", 1)) show(pcall(string.gsub, s, p, "%%", 0)) show(pcall(string.gsub, s, p, print and {} ))
  show(pcall(function() local r = {} for a, b in string.gmatch(s, p) do r[#r+1] = tostring(a) .. ":" .. tostring(b) end return table.concat(r, ",") end))
  show(pcall(function() local r = {} for a, b in string.gmatch(s, p, 3) do r[#r+1] = tostring(a) .. ":" .. tostring(b) end return table.concat(r, ",") end))
end end
for _, a in ipairs{{"x"}, {"x", "y", 1.5}, {1, 2}, {12, "%d", 3}, {}, {"a", "a", {}, "x"}, {"a", "a", nil}, {"a", "a", print}, {"a", "a", true}} do show(pcall(string.gsub, table.unpack(a, 1, 4))) show(pcall(string.find, table.unpack(a, 1, 4))) end
for _, a in ipairs{{"ab", 3}, {"ab", 3, ","}, {"", 5, "-"}, {"x", 0}, {"x", -1}, {"x", 1, "sep"}, {"", 3}, {"", 1, "--"}, {"abc", 17, "12345"}, {7, 3}, {"x", "3"}, {"x"}, {{}, 1}} do show("rep", pcall(string.rep, table.unpack(a, 1, 3))) end
local function tab(t) local r = {} for k, v in pairs(t) do r[#r+1] = tostring(k) .. "=" .. tostring(v) end table.sort(r) return table.concat(r, " ") end
for _, f in ipairs{"insert", "remove", "move", "concat", "sort", "unpack"} do
  for _, args in ipairs{{}, {1}, {2}, {1, 9}, {0}, {4}, {5}, {6}, {1, 2, 3}, {2, 4, 1}, {1, 3, 2}, {-1}, {",", 2, 3}, {",", 3, 2}, {",", 1, 9}, {math.maxinteger, math.maxinteger, 1}, {1, math.maxinteger, 2}, {math.mininteger, 1, 1}, {1, 2, math.maxinteger}, {"x"}, {1.5}} do
    local t = {50, 20, 40, 10}
    if f ~= "move" or (args[2] or 0) ~= math.maxinteger then
    show(f, tab(args), pcall(function() return table[f](t, table.unpack(args)) end)) out[#out] = out[#out]:gsub("table: [%w]+", "T") .. tab(t) end
  end
  show(f, pcall(table[f])) show(f, pcall(table[f], "x")) show(f, pcall(table[f], 1, 2, 3))
end
local s = {} for i = 1, 200 do s[i] = (i * 7919) % 211 end table.sort(s) show(table.concat(s, " ")) table.sort(s, function(a, b) return a > b end) show(table.concat(s, " "))
show(pcall(table.sort, {3, 1, "x"})) show(pcall(table.sort, {1, 2, 3, 4}, function() return true end))
show(pcall(table.concat, {1, {}, 3})) show(table.concat({1, 2.5, "x"}, "-")) show(pcall(table.concat, {}, ",", 1, 1))
print(table.concat(out, "\n"))
