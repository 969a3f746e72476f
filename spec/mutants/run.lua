--- Faults planted one at a time in lua/penumbra, and which of them the specs notice.
---
---     lua5.4 spec/mutants/run.lua cover [PART]...       which functions each spec enters, and how long it takes: once
---     lua5.4 spec/mutants/run.lua try [--kind random] [--count 50] [--seed 1] [--under /smc/,^lua/penumbra/%w+.lua]
---                                     [--part 1/2] [--budget 300]
---     lua5.4 spec/mutants/run.lua stale                 lines of equivalent.txt that no longer name a fault
---     lua5.4 spec/mutants/run.lua show [--kind random]  shares by folder with 95 % intervals, and the survivors
---
--- A fault is tried by the specs that enter its function (one of a gradient or weights by those in which it changes a
--- value; where it never does it is inert, and does not count), those first that enter most of its file for their time,
--- until one fails; one whose function no spec enters survives, and one whose specs would take longer than `budget`
--- seconds survives when these are over (so that the share of those that were noticed is at least what is told). What
--- was tried stands in build/mutants/results, a line each, and is not tried again.
--- spec/mutants/equivalent.txt names faults that change nothing, with the reason: they do not count. The tree itself
--- is not touched. Environment: LUA, BUILD.
local faults, tally = dofile "spec/mutants/faults.lua", dofile "spec/mutants/tally.lua"

local lua, build = os.getenv "LUA" or "lua5.4", os.getenv "BUILD" or "build"
local root = io.popen("pwd"):read "l"
if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
local room = build .. "/mutants"

local read, lines = tally.read, tally.lines

local MOST_MEMORY <const> = 8000000 -- kilobytes of addresses

-- Runs a spec until it fails; true if all passed, and the seconds of processor, rounded up, whatever else is running.
-- limit: seconds of processor that it may take; on a busy machine these are many more by the clock.
local function busted(spec, extra, first, limit)
  local line = ("LUA_PATH='%s%s/lua/?.lua;%s/lua/?/init.lua;%s/?.lua;;' LUA_CPATH='%s/lua/?.so;;' PENUMBRA=%s/penumbra "
    .. "BUILD=%s OPENBLAS_NUM_THREADS=1 %s timeout -k 5 %d busted --no-keep-going --lua=%s -o spec/output.lua %s "
    .. "</dev/null 2>&1")
    :format(first or "", root, root, root, build, build, build, extra or "", 40 * (limit or 900), lua, spec)
  line = ("ulimit -t %d; ulimit -v %d; %s; echo code $?; times"):format(limit or 900, MOST_MEMORY, line)
  local out, seconds = lines(line), 0
  for minutes, rest in out[#out]:gmatch "(%d+)m([%d.]+)s" do seconds = seconds + 60 * minutes + rest end
  return out[#out - 2] == "code 0", math.ceil(seconds)
end

-- ---- which functions a spec enters ----

-- A folder for a copy of lua/penumbra, with the manual beside it, as in a checkout.
local function checkout(here)
  os.execute(("mkdir -p '%s/lua' && ln -sfn '%s/examples' '%s/examples'"):format(here, root, here))
  return ("%s/lua/?.lua;%s/lua/?/init.lua;"):format(here, here)
end

-- What stands before a text that calls `global`, on its first line, so that processes that a spec starts know it, too.
local function loading(global, helper)
  return ("if not rawget(_G, %q) then dofile %q end "):format(global, root .. "/spec/mutants/" .. helper)
end

-- A copy of lua/penumbra whose functions tell that they are entered.
local function instrument()
  for _, path in ipairs(lines "find lua/penumbra -name '*.lua'") do
    local to = room .. "/instrumented/" .. path
    os.execute(("mkdir -p '%s'"):format(to:match "^(.*)/"))
    local file <close> = assert(io.open(to, "w"))
    file:write(loading("COVER", "cover.lua"), faults.instrumented(read(path), (path:gsub("^lua/", ""))))
  end
end

-- The lines of a text, each once.
local function told_once(text)
  local seen, list = {}, {}
  for line in text:gmatch "[^\n]+" do
    if not seen[line] then seen[line], list[#list + 1] = true, line end
  end
  return table.concat(list, "\n") .. "\n"
end

local function cover(parts)
  os.execute("mkdir -p " .. room .. "/cover")
  local first = checkout(room .. "/instrumented")
  instrument()
  for _, spec in ipairs(lines "find spec -name '*_spec.lua' | LC_ALL=C sort") do
    local wanted = #parts == 0
    for _, part in ipairs(parts) do wanted = wanted or spec:find(part, 1, true) end
    local path = room .. "/cover/" .. spec:gsub("/", ".")
    if wanted and not read(path) then
      local passed, seconds = busted(spec, ("COVERED=%s.part"):format(path), first, 3000)
      local list = passed and told_once(read(path .. ".part") or "")
      os.remove(path .. ".part")
      if list then
        local file <close> = assert(io.open(path, "w"))
        file:write(spec, "\n", seconds, "\n", list)
      end
      print(("%s: %s, %d s"):format(spec, list and select(2, list:gsub("\n", "")) .. " functions" or "failed", seconds))
    end
  end
end

-- FILE:LINE of a definition, and FILE:BYTE:VALUE of a value that faults change -> list of {spec, seconds}, those first
-- that enter most functions of the file for their time.
local function covered()
  local by_function, entered = {}, {}
  for _, path in ipairs(lines("find " .. room .. "/cover -type f ! -name '*.part' | LC_ALL=C sort")) do
    local spec, seconds, rest = read(path):match "^([^\n]*)\n(%d+)\n(.*)$"
    for name in rest:gmatch "[^\n]+" do
      local key = name:match "^([^:]*):" .. " " .. spec
      entered[key] = (entered[key] or 0) + (name:find "%d$" and 1 or 0)
      by_function[name] = by_function[name] or {}
      table.insert(by_function[name], {spec = spec, seconds = tonumber(seconds)})
    end
  end
  for name, list in pairs(by_function) do
    for _, entry in ipairs(list) do
      entry.worth = entered[name:match "^([^:]*):" .. " " .. entry.spec] / (1 + entry.seconds)
    end
    table.sort(list, function(a, b)
      if a.worth ~= b.worth then return a.worth > b.worth end
      return a.spec < b.spec
    end)
  end
  assert(next(by_function), "nothing is covered yet: lua5.4 spec/mutants/run.lua cover")
  return by_function
end

-- ---- faults ----

local function name_of(fault)
  return ("%s:%d:%d %s"):format(fault.file, fault.line, fault.from, fault.what)
end

-- Does the path hold one of the patterns a,b,...?
local function is_under(path, patterns)
  for pattern in patterns:gmatch "[^,]+" do
    if path:find(pattern) then return true end
  end
  return patterns == ""
end

local function all_faults(o)
  local list = {}
  for _, path in ipairs(lines "find lua/penumbra -name '*.lua' | LC_ALL=C sort") do
    if is_under(path, o.under) then
      local text = read(path)
      for _, fault in ipairs(faults.of(text)) do
        fault.file = path
        if fault.kind == o.kind then list[#list + 1] = fault end
      end
    end
  end
  return list
end

-- killed, survived or inert (its value was never changed), and by which spec.
local function verdict(fault, specs, budget)
  local text = faults.applied(read(fault.file), fault)
  if not text then return nil end
  -- (help finds the module of a function by the last part of its path: "penumbra" stands there once)
  local here = ("%s/try.%s.%d"):format(room, fault.file:gsub("^lua/penumbra/", ""):gsub("/", "."), fault.from)
  local first, path = checkout(here), here .. "/" .. fault.file
  os.execute(("mkdir -p '%s'"):format(path:match "^(.*)/"))
  local file <close> = assert(io.open(path, "w"))
  file:write(fault.value and loading("MUTANT", "in_force.lua") or "", text)
  file:close()
  local mark = here .. "/in_force"
  local status, by, spent = "survived", "", 0
  for _, entry in ipairs(specs) do
    if spent > budget then break end
    spent = spent + entry.seconds
    local function passes()
      return (busted(entry.spec, "IN_FORCE=" .. mark, first, 10 + 6 * entry.seconds))
    end
    if not passes() and not passes() then -- twice, so that nothing else is taken for it
      status, by = "killed", entry.spec
      break
    end
  end
  if status == "survived" and fault.value and not read(mark) then status = "inert" end
  os.execute("rm -rf '" .. here .. "'")
  return status, by
end

-- Functions are found by their lines: those of a file that has changed since are not where the specs entered them.
local function tell_moved()
  local moved = lines(("find lua/penumbra -name '*.lua' -newermt \"$(stat -c @%%Y '%s'/cover/* | sort -n | head -1)\"")
    :format(room))
  if #moved > 0 then
    io.stderr:write(("%d files have changed since the oldest coverage, and faults in them may seem to survive: "
      .. "remove %s/cover and take it anew\n"):format(#moved, room))
  end
end

local function try(o)
  local by_function, results = covered(), room .. "/results"
  tell_moved()
  local tried, same = tally.known(results)
  local i, n = o.part:match "^(%d+)/(%d+)$"
  local count = 0
  for k, fault in ipairs(tally.shuffled(all_faults(o), o.seed)) do
    if count >= o.count then break end
    local name = name_of(fault)
    local where = fault.file:gsub("^lua/", "")
    local specs = by_function[fault.value and ("%s:%d:%s"):format(where, fault.from, fault.value)
      or where .. ":" .. fault.def] or {}
    if same[name] or not faults.applied(read(fault.file), fault) then goto continue end
    count = count + 1
    if not tried[name] and k % tonumber(n) == tonumber(i) - 1 then
      local status, by = verdict(fault, specs, o.budget)
      if status == "inert" then count = count - 1 end
      tally.tell(results, status, o.kind, by, name)
      print(("%-8s %s%s"):format(status, name, by ~= "" and " by " .. by or (" (%d specs)"):format(#specs)))
    elseif tried[name] == "inert" then
      count = count - 1
    end
    ::continue::
  end
end

local function show(o) tally.show(room .. "/results", o.kind, "lua/penumbra") end

local function stale()
  local there, list = {}, {}
  for _, kind in ipairs { "random", "aimed" } do
    for _, fault in ipairs(all_faults { kind = kind, under = "" }) do there[name_of(fault)] = true end
  end
  for name in pairs(select(2, tally.known "")) do
    if name:find "^lua/" and not there[name] then list[#list + 1] = name end
  end
  table.sort(list)
  for _, name in ipairs(list) do print(name) end
end

-- ---- command ----

local o = {kind = "random", count = 50, seed = 1, under = "", part = "1/1", budget = math.huge}
local parts = tally.options(o)
local command = ({cover = cover, try = try, stale = stale, show = show})[arg[1] or ""]
if not command or not o.part:find "^%d+/%d+$" then
  io.stderr:write("usage: lua5.4 spec/mutants/run.lua cover|try|stale|show [--kind random|aimed] [--count N] "
    .. "[--seed N] [--under PART] [--part I/N] [--budget SECONDS]\n")
  os.exit(1)
end
command(arg[1] == "cover" and parts or o)
