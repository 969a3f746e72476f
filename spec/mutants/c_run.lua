--- Faults planted one at a time in the C of src/smc, infer, nn, distribution and autodiff, and which the tests notice.
---
---     lua5.4 spec/mutants/c_run.lua try [--kind random] [--count 40] [--seed 1] [--under kalman] [--budget 300]
---     lua5.4 spec/mutants/c_run.lua show [--kind random]
---
--- Two kinds: random (an operator becomes another, a constant grows by one, a statement is dropped), aimed (a term of a
--- sum or product is dropped). The file is compiled with -O1 in a copy of the tree, core.so linked from the objects of
--- BUILD; tried by busted specs that are named as the file is, then by the folder's C programs, at last by its other
--- specs, the shortest first (as far as spec/mutants/run.lua has timed them), until one fails or `budget` seconds are
--- over. A fault that does not compile, or gives the same object, is none. Results: build/mutants/c_results; the rest
--- as for spec/mutants/run.lua.
local tally = dofile "spec/mutants/tally.lua"
local read, lines = tally.read, tally.lines

local lua, build = os.getenv "LUA" or "lua5.4", os.getenv "BUILD" or "build"
local root = lines "pwd"[1]
if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
local room = build .. "/mutants"
local tree, results = room .. "/c_tree", room .. "/c_results"

--- What enters the C of a folder: folders of specs, and C programs.
local TESTS = {
  smc = {"spec/smc spec/models spec/infer",
    "kalman host_filter population resampling_hostile sweep_particle sweep_gaussian"},
  infer = {"spec/infer spec/smc spec/pac spec/gap", "hmc target sweep_infer sweep_sampler metric"},
  nn = {"spec/nn spec/optim spec/train", "nn conv optim rectified"},
  distribution = {"spec/distribution spec/infer", "dist count sweep_bijector sweep_kl sweep_natural flow"},
  autodiff = {"spec/autodiff spec/lua", "gradient graph replay loop vmap ode sde own_gradient"},
}

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

-- Marks the tokens within functions.
local function mark_bodies(list)
  local depth, within = 0, false
  for k, t in ipairs(list) do
    if t.text == "{" and depth == 0 and k > 1 and list[k - 1].text == ")" then within = true end
    depth = depth + (t.text == "{" and 1 or t.text == "}" and -1 or 0)
    t.within = within and depth > 0
    if depth == 0 and t.text == "}" then within = false end
  end
end

local WORDS = {}
for word in ("return sizeof else case if for while do goto break continue switch default"):gmatch "%a+" do
  WORDS[word] = true
end

local function is_operand(t)
  return t and (t.kind == "number" or t.kind == "name" and not WORDS[t.text] or t.text == ")" or t.text == "]")
end

-- The last token of the factor that begins at k: a name with calls, fields and places, a number, something in brackets.
local function factor_end(list, k)
  while list[k] and (list[k].kind == "sign" and ("-!*&"):find(list[k].text, 1, true)) do k = k + 1 end
  if not is_operand(list[k]) and (list[k] or {}).text ~= "(" then return nil end
  local function closing(i)
    local depth = 0
    repeat
      depth = depth + (OPENS[list[i].text] or 0)
      i = i + 1
    until depth == 0 or not list[i]
    return i - 1
  end
  k = list[k].text == "(" and closing(k) or k
  while list[k + 1] do
    local word = list[k + 1].text
    if word == "." or word == "->" then k = k + 2
    elseif word == "(" or word == "[" then k = closing(k + 1)
    else return k end
  end
end

local SWAPPED = {["+"] = "-", ["-"] = "+", ["*"] = "/", ["/"] = "*", ["<"] = "<=", ["<="] = "<", [">"] = ">=",
  [">="] = ">", ["=="] = "!=", ["!="] = "==", ["&&"] = "||", ["||"] = "&&", ["+="] = "-=", ["-="] = "+=",
  ["true"] = "false", ["false"] = "true"}
local PRODUCT = {["*"] = true, ["/"] = true}

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
  local function add(kind, from, to, new, what)
    found[#found + 1] = {kind = kind, from = list[from].from, to = list[to].to, text = new, line = list[from].line,
      what = what}
  end
  for k, t in ipairs(list) do
    if t.within then
      local swapped = SWAPPED[t.text]
      if swapped and (t.kind == "name" or is_operand(list[k - 1])) then
        add("random", k, k, swapped, t.text .. " becomes " .. swapped)
      end
      if t.kind == "number" then
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

-- ---- a copy of the tree ----

local function run(command) return os.execute(command) end

-- What a source of the copy is compiled to: *_real.c to one object for each type of floats.
local function objects_of(path)
  local name, list = path:match "^src/(.*)%.c$", {}
  for _, bits in ipairs(name:find "_real$" and { "_f64", "_f32" } or { "" }) do
    list[#list + 1] = ("%s/build/obj/%s%s.o"):format(tree, name, bits)
  end
  return list
end

-- What a run that was stopped left behind is taken back.
local function prepare()
  if read(tree .. "/Makefile") then
    for _, line in ipairs(lines(("diff -rq src '%s/src'"):format(tree))) do
      local path = line:match "^Files src/(.*)%.c and "
      assert(path and run(("cp 'src/%s.c' '%s/src/%s.c'"):format(path, tree, path)), line)
      for _, object in ipairs(objects_of("src/" .. path .. ".c")) do os.remove(object) end
    end
    return
  end
  assert(run(("mkdir -p '%s/build' && cp -a src Makefile '%s' && cp -a '%s/obj' '%s/embedded_lua.c' '%s/build'")
    :format(tree, tree, build, build, tree)))
  assert(run(("ln -s '%s/lua' '%s/lua' && ln -s '%s/spec' '%s/spec'"):format(root, tree, root, tree)))
  assert(run(("find '%s/build/obj' -name '*.o' | xargs strip -g"):format(tree)))
end

local function make(target)
  return run(("make -s -C '%s' BUILD=build CFLAGS=-O1 -j1 build/%s >'%s/make.log' 2>&1"):format(tree, target, tree))
end

local function sum_of(path) return lines(("cksum < '%s'"):format(path))[1] end

-- Seconds of specs that run.lua has timed.
local function timed()
  local seconds = {}
  for _, path in ipairs(lines("ls " .. room .. "/cover/* 2>/dev/null")) do
    local spec, s = (read(path) or ""):match "^([^\n]*)\n(%d+)\n"
    if spec then seconds[spec] = tonumber(s) end
  end
  return seconds
end

-- The folder's specs: those that share a word with the file's name first, then the shortest.
local function specs_for(path, seconds)
  local folders, list = TESTS[path:match "^src/(%w+)/"][1], {}
  local rank = {}
  for folder in folders:gmatch "%S+" do rank[#rank + 1] = folder end
  for place, folder in ipairs(rank) do
    for _, spec in ipairs(lines(("find %s -name '*_spec.lua' | LC_ALL=C sort"):format(folder))) do
      local alike = 0
      for word in path:match "^src/%w+/(.*)%.c$":gmatch "%a+" do
        alike = alike + (#word > 2 and spec:find(word, 1, true) and 1 or 0)
      end
      list[#list + 1] = {spec = spec, alike = alike, place = place, seconds = seconds[spec] or 30}
    end
  end
  table.sort(list, function(a, b)
    if a.alike ~= b.alike then return a.alike > b.alike end
    if a.place ~= b.place then return a.place < b.place end
    if a.seconds ~= b.seconds then return a.seconds < b.seconds end
    return a.spec < b.spec
  end)
  return list
end

local function passes(spec, seconds)
  return run(("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;%s/?.lua;;' LUA_CPATH='%s/build/lua/?.so;;' "
    .. "PENUMBRA=%s/penumbra BUILD=%s OPENBLAS_NUM_THREADS=1 timeout -k 5 %d busted --no-keep-going --lua=%s "
    .. "-o spec/output.lua %s </dev/null >/dev/null 2>&1")
    :format(root, root, root, tree, build, build, 30 + 8 * seconds, lua, spec))
end

local function verdict(fault, seconds, budget)
  local objects = objects_of(fault.file)
  local path, object = tree .. "/" .. fault.file, objects[1]
  local text, spent = read(fault.file), 0
  local function write(body)
    local file <close> = assert(io.open(path, "w"))
    file:write(body)
  end
  write(text)
  if not make(object:match "/build/(.*)$") then error("make: see " .. tree .. "/make.log") end
  local whole = sum_of(object)
  local function judged()
    write(text:sub(1, fault.from - 1) .. fault.text .. text:sub(fault.to + 1))
    for _, o in ipairs(objects) do os.remove(o) end
    if not make "lua/penumbra/core.so" or sum_of(object) == whole then return "none", "" end
    local function programs()
      for name in TESTS[fault.file:match "^src/(%w+)/"][2]:gmatch "%S+" do
        local program = "spec/c/" .. name .. "_test"
        make(program)
        if not run(("cd '%s' && timeout -k 5 300 build/%s >/dev/null 2>&1"):format(tree, program)) then
          return program
        end
      end
    end
    local asked = false
    for _, entry in ipairs(specs_for(fault.file, seconds)) do
      if entry.alike == 0 and not asked then
        asked = true
        local program = programs()
        if program then return "killed", program end
      end
      if spent > budget then return "survived", "" end
      spent = spent + entry.seconds
      if not passes(entry.spec, entry.seconds) then return "killed", entry.spec end
    end
    return "survived", ""
  end
  local status, by = judged()
  write(text)
  for _, o in ipairs(objects) do os.remove(o) end
  return status, by
end

-- ---- commands ----

local function try(o)
  prepare()
  local list, tried, same = {}, tally.known(results)
  for folder in pairs(TESTS) do
    for _, path in ipairs(lines(("find src/%s -name '*.c' | LC_ALL=C sort"):format(folder))) do
      for _, fault in ipairs(path:find(o.under, 1, true) and faults_of(read(path)) or {}) do
        fault.file = path
        if fault.kind == o.kind then list[#list + 1] = fault end
      end
    end
  end
  table.sort(list, function(a, b)
    if a.file ~= b.file then return a.file < b.file end
    if a.from ~= b.from then return a.from < b.from end
    return a.what < b.what
  end)
  local seconds, count = timed(), 0
  for _, fault in ipairs(tally.shuffled(list, o.seed)) do
    if count >= o.count then break end
    local name = ("%s:%d:%d %s"):format(fault.file, fault.line, fault.from, fault.what)
    if not same[name] then
      local status, by = tried[name]
      if not status then
        status, by = verdict(fault, seconds, o.budget)
        tally.tell(results, status, o.kind, by, name)
        print(("%-8s %s %s"):format(status, name, by))
      end
      count = count + (status ~= "none" and 1 or 0)
    end
  end
end

local o = {kind = "random", count = 40, seed = 1, under = "", budget = math.huge}
tally.options(o)
local command = ({try = try, show = function() tally.show(results, o.kind, "src") end})[arg[1] or ""]
if not command then
  io.stderr:write("usage: lua5.4 spec/mutants/c_run.lua try|show [--kind random|aimed] [--count N] [--seed N] "
    .. "[--under PART] [--budget SECONDS]\n")
  os.exit(1)
end
command(o)
