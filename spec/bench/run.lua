--- `make bench`: runs every body of this folder, prints a table and writes BUILD/bench.json.
---   lua spec/bench/run.lua [PART]...     only bodies whose names contain one of the parts
--- A body is NAME.lua, returning function(bench) that calls
---   bench.row(name, value, unit, must)   a measured figure; must: what it may be at most (a number), or ">= number"
---   bench.time(f)                        seconds per call of f(), the best of several rounds
---   bench.run(command)                   a shell command's output
--- or NAME.c, a program that prints lines `name<TAB>value<TAB>unit<TAB>must`. What must be is a ratio of figures of one
--- run, a count or a size, never a time: the next machine is another one. Every Lua body runs in a process of its own,
--- so that peaks of memory are its own. The bodies in LEVELLED run at every processor level (peers/level.lua).
local build = os.getenv "BUILD" or "build"
local lua = os.getenv "LUA" or "lua5.4"
local bench = {build = build, lua = lua, command = build .. "/penumbra"}
local LEVELLED = {vector = true, kalman = true, linalg = true, gemm = true, limits = true, replay = true,
  thread_steps = true}

function bench.run(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read "a"
  local ok = pipe:close()
  return ok and out or nil
end

--- Prints one figure as a line that the parent reads.
function bench.row(name, value, unit, must)
  io.write(table.concat({name, ("%.6g"):format(value), unit, tostring(must or "")}, "\t"), "\n")
  io.flush()
end

--- Seconds per call: rounds of about 50 ms each, the best one counts (others were disturbed).
function bench.time(f)
  local clock, n, best = os.clock, 1, math.huge
  for _ = 1, 3 do f() end
  while true do
    local start = clock()
    for _ = 1, n do f() end
    local spent = clock() - start
    if spent > 0.04 then break end
    n = spent < 1e-4 and n * 20 or math.ceil(n * 0.05 / spent)
  end
  for _ = 1, 9 do
    local start = clock()
    for _ = 1, n do f() end
    best = math.min(best, (clock() - start) / n)
  end
  return best
end

--- Peak resident memory of this process so far, in MiB (Linux).
function bench.peak()
  local file = assert(io.open "/proc/self/status")
  local kib = file:read("a"):match "VmHWM:%s*(%d+)"
  file:close()
  return tonumber(kib) / 1024
end

-- one body, as the child process
if arg[1] == "--body" then
  dofile(arg[2])(bench)
  return
end

package.path = "spec/bench/peers/?.lua;" .. package.path
local level = require "level"

local function wanted(name)
  if #arg == 0 then return true end
  for _, part in ipairs(arg) do if name:find(part, 1, true) then return true end end
  return false
end

local function bodies()
  local list = {}
  for path in bench.run("ls spec/bench/*.lua spec/bench/*.c 2>/dev/null | LC_ALL=C sort"):gmatch "[^\n]+" do
    local name = path:match "([%w_]+)%.%w+$"
    if name ~= "run" and wanted(name) then
      list[#list + 1] = {name = name, command = path:find "%.c$" and build .. "/spec/bench/" .. name
        or ("%s spec/bench/run.lua --body %s"):format(lua, path)}
    end
  end
  return list
end

local function json(value)
  if type(value) == "number" then return ("%.6g"):format(value) end
  return '"' .. tostring(value):gsub('[%c"\\]', function(ch) return ("\\u%04x"):format(ch:byte()) end) .. '"'
end

-- "ok" or "BEHIND", or nothing where nothing must be.
local function judge(value, must)
  local least, most = must:match "^>= *([%d.]+)$", tonumber(must)
  if least then return value >= tonumber(least) and "ok" or "BEHIND" end
  return most and (value <= most and "ok" or "BEHIND") or ""
end

local form = "%-74s %12s %-12s %-8s %s"
local rows, failed, judged, behind = {}, 0, 0, {}

local function report(body, at, out)
  for name, value, unit, must in out:gmatch "([^\t\n]+)\t([^\t\n]+)\t([^\t\n]*)\t?([^\n]*)" do
    local verdict = judge(tonumber(value), must)
    judged = judged + (verdict ~= "" and 1 or 0)
    if verdict == "BEHIND" then behind[#behind + 1] = ("%s (%s)"):format(name:gsub("^ +", ""), at.title) end
    print(form:format(name, value, unit, must, verdict))
    rows[#rows + 1] = ('    {"name": %s, "level": %s, "value": %s, "unit": %s, "must": %s, "verdict": %s, "body": %s}')
      :format(json(name), json(at.name), value, json(unit), json(must), json(verdict), json(body.name))
  end
end

local cpu = (bench.run "sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null | head -n 1" or ""):gsub("%s+$", "")
print(("processor: %s   %s"):format(cpu, os.date "%Y-%m-%d"))
for k, at in ipairs(level.list(build)) do
  local settings = level.settings(at)
  local blas = bench.run(settings .. lua .. [[ -e 'print((require "penumbra".blas()))']]) or "?"
  print(("\nlevel %s   BLAS: %s"):format(at.title, (blas:gsub("%s+$", ""))))
  print(form:format("", "figure", "", "must", ""))
  for _, body in ipairs(bodies()) do
    local out = ""
    if k == 1 or LEVELLED[body.name] then out = bench.run(settings .. body.command) end
    if not out then
      failed = failed + 1
      print(body.name .. ": failed")
    end
    report(body, at, out or "")
  end
end
print(("\n%d rows judged, %d BEHIND%s"):format(judged, #behind, #behind > 0 and ":" or ""))
for _, name in ipairs(behind) do print("  " .. name) end
local file = assert(io.open(build .. "/bench.json", "w"))
file:write('{\n  "processor": ', json(cpu), ',\n  "date": ', json(os.date "%Y-%m-%d"), ',\n  "rows": [\n',
  table.concat(rows, ",\n"), "\n  ]\n}\n")
file:close()
os.exit(failed == 0)
