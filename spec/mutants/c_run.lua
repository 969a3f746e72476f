--- Faults planted one at a time in the C of src/smc, infer, nn, distribution, autodiff, math and tensor, and which the
--- tests notice.
---
---     lua5.4 spec/mutants/c_run.lua cover [PART]...   which blocks each test enters, and how long it takes: once
---     lua5.4 spec/mutants/c_run.lua try [--kind random] [--count 40] [--seed 1] [--under kalman] [--part 1/2]
---                                       [--budget 60]
---     lua5.4 spec/mutants/c_run.lua show [--kind random]
---
--- Two kinds: random (an operator becomes another, a constant grows by one, a statement is dropped), aimed (a term of a
--- sum or product is dropped). The changed file alone is compiled, with -O1, and linked with the objects of BUILD, to a
--- core.so for busted specs and to programs of spec/c, which run until one fails: those first that enter most of the
--- file of the fault, near it, in the least time (spec/mutants/c_tests.lua), until `budget` seconds of processor are
--- over; then programs again with the file sanitised, as `make asan` does. A fault that does not compile, or gives the
--- same object, is none; none are planted where only room or shares of work are decided. The tree is not touched.
--- Results: build/mutants/c_results; the rest as for spec/mutants/run.lua.
io.stdout:setvbuf "line"
local tally, tests = dofile "spec/mutants/tally.lua", dofile "spec/mutants/c_tests.lua"
local read, lines = tally.read, tally.lines
local results = tests.room .. "/c_results"

local FOLDERS = "src/smc src/infer src/nn src/distribution src/autodiff src/math src/tensor"

-- ---- C text ----

-- List of {text, from, to, line, kind}; comments, directives and blanks left out.
local function tokens(text)
  local list, at, line = {}, 1, 1
  local function push(to, kind)
    local word = text:sub(at, to)
    if kind then list[#list + 1] = {text = word, from = at, to = to, line = line, kind = kind} end
    line, at = line + select(2, word:gsub("\n", "")), to + 1
  end
  local function ends(pattern) return select(2, text:find(pattern, at)) end
  while at <= #text do
    local c = text:sub(at, at)
    if c:find "%s" then push(ends "^%s+")
    elseif text:find("^//", at) then push(ends "^[^\n]*")
    elseif text:find("^/%*", at) then push(select(2, text:find("*/", at + 2, true)))
    elseif c == "#" then
      local to = ends "^[^\n]*"
      while text:sub(to, to) == "\\" do to = select(2, text:find("^\n[^\n]*", to + 1)) end
      push(to)
    elseif c == '"' or c == "'" then
      local to = at + 1
      while text:sub(to, to) ~= c do to = to + (text:sub(to, to) == "\\" and 2 or 1) end
      push(to, "string")
    elseif c:find "[%a_]" then push(ends "^[%w_]+", "name")
    elseif text:find("^%.?%d", at) then push(ends "^[%w.]+", "number")
    else
      local two = text:sub(at, at + 1)
      local pair = ("-> ++ -- << >> <= >= == != && || += -= *= /= %= |= &= ^="):find(two, 1, true) and not two:find "%s"
      push(at + (pair and #two == 2 and 1 or 0), "sign")
    end
  end
  return list
end

local OPENS = {["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1}

-- Marks the tokens within functions: of which lines.
local function mark_bodies(list)
  local depth, within = 0, nil
  for k, t in ipairs(list) do
    if t.text == "{" and depth == 0 and k > 1 and list[k - 1].text == ")" then within = {first = t.line} end
    depth = depth + (t.text == "{" and 1 or t.text == "}" and -1 or 0)
    t.within = depth > 0 and within
    if depth == 0 and t.text == "}" and within then
      within.last = t.line
      within = nil
    end
  end
end

local WORDS = {}
for word in ("return sizeof else case if for while do goto break continue switch default"):gmatch "%a+" do
  WORDS[word] = true
end

local function is_operand(t)
  return t and (t.kind == "number" or t.kind == "name" and not WORDS[t.text] or t.text == ")" or t.text == "]")
end

local function closing(list, k)
  local depth = 0
  repeat
    depth = depth + (OPENS[list[k].text] or 0)
    k = k + 1
  until depth == 0 or not list[k]
  return k - 1
end

-- The last token of the factor that begins at k: a name with calls, fields and places, a number, something in brackets.
local function factor_end(list, k)
  while list[k] and (list[k].kind == "sign" and ("-!*&"):find(list[k].text, 1, true)) do k = k + 1 end
  if not is_operand(list[k]) and (list[k] or {}).text ~= "(" then return nil end
  k = list[k].text == "(" and closing(list, k) or k
  while list[k + 1] do
    local word = list[k + 1].text
    if word == "." or word == "->" then k = k + 2
    elseif word == "(" or word == "[" then k = closing(list, k + 1)
    else return k end
  end
end

local SWAPPED = {["+"] = "-", ["-"] = "+", ["*"] = "/", ["/"] = "*", ["<"] = "<=", ["<="] = "<", [">"] = ">=",
  [">="] = ">", ["=="] = "!=", ["!="] = "==", ["&&"] = "||", ["||"] = "&&", ["+="] = "-=", ["-="] = "+=",
  ["true"] = "false", ["false"] = "true"}
local PRODUCT = {["*"] = true, ["/"] = true}

-- ---- what no result can hang on ----

local SHARING = {pni_parallel = true, pni_parallel_whole = true}
local WATCHING = {pni_watch_check = true, pni_watch_leaves = true}

-- The last token before a comma or semicolon that ends the expression at k.
local function expression_end(list, k)
  local depth = 0
  while list[k + 1] do
    depth = depth + (OPENS[list[k].text] or 0)
    local after = list[k + 1].text
    if depth == 0 and (after == "," or after == ";" or after == ")") then break end
    k = k + 1
  end
  return k
end

local function set(list, from, to, field)
  for k = from, to do list[k][field] = true end
end

-- Arrays that are declared at token k, the first of a statement: their sizes are room.
local function mark_arrays(list, k)
  while ("const static struct unsigned"):find(list[k].text, 1, true) do k = k + 1 end
  local after = list[k + 1]
  if list[k].kind ~= "name" or WORDS[list[k].text] or not (after and (after.kind == "name" or after.text == "*")) then
    return
  end
  local value = false
  while list[k] and list[k].text ~= ";" do
    local word = list[k].text
    if word == "[" and not value then set(list, k, closing(list, k), "room") end
    if word == "=" or word == "," then value = word == "=" end
    k = OPENS[word] == 1 and closing(list, k) + 1 or k + 1
  end
end

-- Marks what decides how work is shared or how often a loop asks whether to leave, and no number: what is given to
-- `grain`, the third argument of pni_parallel, a condition that asks about a grain, the second argument of
-- pni_watch_check; and as room what may be larger than is asked for: sizes of declared arrays and of allocations.
local function mark_idle(list)
  for k, t in ipairs(list) do
    local after = (list[k + 1] or {}).text
    if k > 1 and (";{}"):find(list[k - 1].text, 1, true) then mark_arrays(list, k) end
    if after == "(" and t.text:find "alloc" then set(list, k + 2, closing(list, k + 1) - 1, "room") end
    if t.text == "grain" and after == "=" then set(list, k, expression_end(list, k + 2), "idle") end
    if SHARING[t.text] and after == "(" then
      local second = expression_end(list, k + 2) + 2
      local third = expression_end(list, second) + 2
      set(list, third, expression_end(list, third), "idle")
    end
    if WATCHING[t.text] and after == "(" then
      local second = expression_end(list, k + 2) + 2
      set(list, second, expression_end(list, second), "idle")
    end
    if t.text == "if" then
      local to, asks = closing(list, k + 1), false
      for i = k, to do asks = asks or list[i].text:lower() == "grain" end
      if asks then set(list, k + 2, to - 1, "idle") end
    end
  end
end

-- A statement that is one line: a call or an assignment.
local function statement_end(list, k)
  local before = list[k - 1]
  if list[k].kind ~= "name" or WORDS[list[k].text] or not ((";{})"):find(before.text, 1, true))
    or before.line == list[k].line then return nil end
  local depth, to = 0, k
  while list[to] and list[to].line == list[k].line do
    depth = depth + (OPENS[list[to].text] or 0)
    if depth < 0 then return nil end
    if depth == 0 and list[to].text == ";" then return to - 1 end
    to = to + 1
  end
end

local function faults_of(text)
  local list, found = tokens(text), {}
  mark_bodies(list)
  mark_idle(list)
  local function add(kind, from, to, new, what)
    found[#found + 1] = {kind = kind, from = list[from].from, to = list[to].to, text = new, line = list[from].line,
      what = what, body = list[from].within}
  end
  for k, t in ipairs(list) do
    if t.within and not t.idle then
      local swapped = SWAPPED[t.text]
      if swapped and (t.kind == "name" or is_operand(list[k - 1])) then
        add("random", k, k, swapped, t.text .. " becomes " .. swapped)
      end
      if t.kind == "number" and not t.room then
        add("random", k, k, "(" .. t.text .. " + 1)", t.text .. " becomes " .. t.text .. " + 1")
      end
      local to = statement_end(list, k)
      if to then add("random", k, to, "", "the statement is dropped") end
      if (PRODUCT[t.text] or t.text == "+" or t.text == "-") and is_operand(list[k - 1]) then
        local last = factor_end(list, k + 1)
        while last and not PRODUCT[t.text] and list[last + 1] and PRODUCT[list[last + 1].text] do
          last = factor_end(list, last + 2)
        end
        if last then add("aimed", k, last, "", "a term is dropped: " .. t.text) end
      end
    end
  end
  return found
end

-- ---- a fault's fate ----

local clean = {} -- objects of a file as it is

local function clean_objects(path, here)
  if clean.path ~= path then
    clean = {path = path, plain = tests.objects(read(path), path, here .. "/clean", false),
      sanitised = tests.objects(read(path), path, here .. "/clean", true)}
    assert(clean.plain and clean.sanitised, path .. " does not compile")
  end
  return clean
end

local sound = {} -- whether a test passes without a fault, asked of those that noticed one

local function is_sound(test, here, sanitised)
  local key = test.name .. (sanitised and " " .. clean.path or "")
  if sound[key] == nil then
    local apart = here .. "/sound"
    os.execute(("rm -rf '%s' && mkdir -p '%s/lua/penumbra' && ln -s '%s/lua/penumbra/core.so' '%s/lua/penumbra'")
      :format(apart, apart, tests.build, apart))
    sound[key] = tests.passes(test, apart, sanitised and clean.sanitised or {}, 60)
    if not sound[key] then print("fails without a fault, and is left out: " .. key) end
  end
  return sound[key]
end

-- Does the test fail twice, or never end? Nothing else did it then.
local function notices(test, here, changed)
  local limit = math.ceil(5 + 8 * test.seconds)
  local passed, seconds = tests.passes(test, here, changed, limit)
  return not passed and (seconds >= limit or not tests.passes(test, here, changed, limit))
    and is_sound(test, here, changed.sanitised)
end

-- none, killed or survived, by which test; the number of tests that were run, and their seconds.
local function verdict(fault, here, budget)
  local text, same = read(fault.file), true
  local was = clean_objects(fault.file, here)
  text = text:sub(1, fault.from - 1) .. fault.text .. text:sub(fault.to + 1)
  local changed = tests.objects(text, fault.file, here .. "/changed", false)
  for k, object in ipairs(changed or {}) do same = same and read(object.object) == read(was.plain[k].object) end
  if same then return "none", "", 0, 0 end
  os.execute(("rm -rf '%s/lua' '%s'/*_test* && mkdir -p '%s/lua/penumbra'"):format(here, here, here))
  local spent, count, linked, programs = 0, 0, false, {}
  for _, test in ipairs(tests.entering(fault.file, fault.body.first, fault.line, fault.body.last)) do
    if spent > budget then break end
    local program = test.path:find "^spec/c/"
    if not linked and not program then
      linked = assert(tests.link_core(here .. "/lua/penumbra/core.so", changed), "cannot link core.so")
    end
    if sound[test.name] ~= false then
      spent, count = spent + test.seconds, count + 1
      if notices(test, here, changed) then return "killed", test.name, count, spent end
      programs[#programs + 1] = program and test
    end
  end
  changed = tests.objects(text, fault.file, here .. "/changed", true)
  for _, test in ipairs(programs) do
    if spent > 1.5 * budget then break end
    spent = spent + test.seconds
    if notices(test, here, changed) then return "killed", test.name .. " sanitised", count, spent end
  end
  return "survived", "", count, spent
end

-- ---- commands ----

local function all_faults(o)
  local list = {}
  for _, path in ipairs(lines(("find %s -name '*.c' | LC_ALL=C sort"):format(FOLDERS))) do
    for _, fault in ipairs(path:find(o.under, 1, true) and faults_of(read(path)) or {}) do
      fault.file = path
      if fault.kind == o.kind then list[#list + 1] = fault end
    end
  end
  table.sort(list, function(a, b)
    if a.file ~= b.file then return a.file < b.file end
    if a.from ~= b.from then return a.from < b.from end
    return a.what < b.what
  end)
  return list
end

local function try(o)
  local missing, failed = tests.load()
  if #missing > 0 then
    io.stderr:write(("not covered as they are now, so that faults would seem to survive them: %s\n%s\n"):format(
      table.concat(missing, " "), "lua5.4 spec/mutants/c_run.lua cover"))
    os.exit(1)
  end
  if #failed > 0 then print("left out, failed when it was covered: " .. table.concat(failed, " ")) end
  local i, n = o.part:match "^(%d+)/(%d+)$"
  local tried, same = tally.known(results)
  local here, count = ("%s/c_try.%d.%s.%s"):format(tests.room, o.seed, i, n), 0
  os.execute(("mkdir -p '%s'"):format(here))
  for k, fault in ipairs(tally.shuffled(all_faults(o), o.seed)) do
    if count >= o.count then break end
    local name = ("%s:%d:%d %s"):format(fault.file, fault.line, fault.from, fault.what)
    if not same[name] and k % tonumber(n) == tonumber(i) - 1 then
      local status = tried[name]
      if not status then
        local started = os.time()
        local now, by, ran, spent = verdict(fault, here, o.budget)
        status = now
        tally.tell(results, status, o.kind, by, name)
        if status ~= "none" then
          print(("%-8s %s %s (%d tests, %.1f s of them, %d s by the clock)"):format(status, name, by, ran, spent,
            os.time() - started))
        end
      end
      count = count + (status ~= "none" and 1 or 0)
    end
  end
end

local o = {kind = "random", count = 40, seed = 1, under = "", part = "1/1", budget = 60}
local parts = tally.options(o)
local command = ({cover = function() tests.cover(parts) end, try = function() try(o) end,
  show = function() tally.show(results, o.kind, "src") end})[arg[1] or ""]
if not command or not o.part:find "^%d+/%d+$" then
  io.stderr:write("usage: lua5.4 spec/mutants/c_run.lua cover|try|show [--kind random|aimed] [--count N] [--seed N] "
    .. "[--under PART] [--part I/N] [--budget SECONDS]\n")
  os.exit(1)
end
command()
