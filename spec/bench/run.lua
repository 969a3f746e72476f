--- `make bench`: runs every body of this folder, prints a table and writes BUILD/bench.json.
---   lua spec/bench/run.lua [PART]...     only bodies whose names contain one of the parts
--- A body is NAME.lua, returning function(bench) that calls
---   bench.row(name, value, unit, aim)    a measured figure and what it should be (a number or text)
---   bench.time(f)                        seconds per call of f(), the best of several rounds
---   bench.run(command)                   a shell command's output
--- or NAME.c, a program that prints lines `name<TAB>value<TAB>unit<TAB>aim`. Every Lua body runs in a process
--- of its own, so that peaks of memory are its own.
local build = os.getenv "BUILD" or "build"
local lua = os.getenv "LUA" or "lua5.4"
local bench = {build = build, lua = lua, command = build .. "/penumbra"}

function bench.run(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read "a"
  local ok = pipe:close()
  return ok and out or nil
end

--- Prints one figure as a line that the parent reads.
function bench.row(name, value, unit, aim)
  io.write(table.concat({name, ("%.6g"):format(value), unit, tostring(aim or "")}, "\t"), "\n")
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

--- Which kernels the BLAS library chose: speed depends on it.
local function core_type()
  local out = bench.run(lua .. [[ -e 'local pn = require "penumbra" print(pn.blas and pn.blas() or "")' 2>/dev/null]])
  out = (out or ""):gsub("%s+$", "")
  if out ~= "" then return out end
  local text = bench.run("OPENBLAS_VERBOSE=2 " .. lua .. [[ -e 'require "penumbra.core"' 2>&1]]) or ""
  return text:match "Core: (%w+)" or os.getenv "OPENBLAS_CORETYPE" or "unknown"
end

local function json(value)
  if type(value) == "number" then return ("%.6g"):format(value) end
  return '"' .. tostring(value):gsub('[%c"\\]', function(ch) return ("\\u%04x"):format(ch:byte()) end) .. '"'
end

local core = core_type()
local cpu = (bench.run "sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null | head -n 1" or ""):gsub("%s+$", "")
print(("processor: %s   BLAS kernels: %s"):format(cpu, core))
print(("%-66s %12s %-8s %s"):format("", "figure", "", "aim"))
local rows, failed = {}, 0
for _, body in ipairs(bodies()) do
  local out = bench.run("OPENBLAS_NUM_THREADS=1 " .. body.command)
  if not out then
    failed = failed + 1
    print(body.name .. ": failed")
  end
  for name, value, unit, aim in (out or ""):gmatch "([^\t\n]+)\t([^\t\n]+)\t([^\t\n]*)\t?([^\n]*)" do
    print(("%-66s %12s %-8s %s"):format(name, value, unit, aim))
    rows[#rows + 1] = ('    {"name": %s, "value": %s, "unit": %s, "aim": %s, "body": %s}'):format(json(name),
      tonumber(value) and value or json(value), json(unit), json(tonumber(aim) or aim), json(body.name))
  end
end
local file = assert(io.open(build .. "/bench.json", "w"))
file:write('{\n  "processor": ', json(cpu), ',\n  "blas": ', json(core), ',\n  "rows": [\n', table.concat(rows, ",\n"),
  "\n  ]\n}\n")
file:close()
os.exit(failed == 0)
