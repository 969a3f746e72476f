--- `make bench-peers`: our figures beside those of PyTorch, Pyro, JAX, NumPyro, BlackJAX, Stan, `particles`, smcx,
--- dynamax, cuthbert and statsmodels, the same work in one run, everyone held to one processor. Prints a table and
--- writes BUILD/bench-peers.json.
---   lua spec/bench/peers/run.lua [GROUP]...     training elementwise kalman gaussian smc rbpf sampling inference
---                                               distributions; all without any; distributions:gamma,beta only these
--- ours.lua and the programs PEER_GROUP.py print lines key<TAB>who<TAB>seconds, rows.lua says what the keys are. Time
--- is processor time, the best of many rounds. Ours runs before and after the peers; the better round counts.
local build = os.getenv "BUILD" or "build"
local lua = os.getenv "LUA" or "lua5.4"
local here = "spec/bench/peers/"
package.path = here .. "?.lua;" .. package.path

local PATIENCE = 1800 -- seconds for one program of a peer; XLA has been seen to stop for good on one thread

local function shell(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read "a"
  local ok = pipe:close()
  return out, ok
end

-- One processor for all, where the system can say so: each library believes it is alone.
local function alone()
  local last = shell "nproc" - 1
  local _, ok = shell(("taskset -c %d true 2>/dev/null"):format(last))
  return ok and ("taskset -c %d "):format(last) or ""
end

local pinned = alone()
local settings = "PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "
  .. "XLA_FLAGS='--xla_cpu_multi_thread_eigen=false' "

-- ---- measuring ----

local figures, missing = {}, {}

local function take(command, name)
  local out, ok = shell(settings .. pinned .. command)
  for key, who, value in out:gmatch "([^\t\n]+)\t([^\t\n]+)\t([^\t\n]+)" do
    local of = figures[key] or {}
    figures[key] = of
    of[who] = math.min(of[who] or math.huge, tonumber(value))
  end
  if not ok then missing[#missing + 1] = name end
end

local function limits()
  local rate, program = {}, pinned .. build .. "/spec/bench/limits"
  for what, value in (shell(program) .. shell(program)):gmatch "([^\t\n]+)\t([%d.]+)\t[^\n]*" do
    rate[what] = math.max(rate[what] or 0, tonumber(value) * 1e9)
  end
  return {float32 = rate["product of 768x768, float32"], float64 = rate["product of 768x768, float64"],
    copy = {rate["copy of 512 KiB"], rate["copy of 8 MiB"], rate["copy of 64 MiB"]}}
end

-- Seconds per particle and step of the loop by hand, by the number of particles.
local function by_hand()
  local out, program = {}, pinned .. build .. "/spec/bench/particle --loops"
  for n, value in (shell(program) .. shell(program)):gmatch "by hand, N = (%d+)\t([%d.]+)" do
    n = tonumber(n)
    out[n] = math.min(out[n] or math.huge, tonumber(value) * 1e-9)
  end
  return out
end

local groups = #arg > 0 and arg or {"training", "elementwise", "kalman", "gaussian", "smc", "rbpf", "sampling",
  "inference", "distributions"}
local rate, loops = limits(), nil
for _, asked in ipairs(groups) do
  local group, names = asked:match "^(%a+):?([%w_,]*)$"
  if not group then error("no group " .. asked) end
  names = names:gsub(",", " ")
  local ours = ("%s %sours.lua %s %s"):format(lua, here, group, names)
  take(ours, "ours, " .. group)
  for path in shell(("ls %s*_%s.py"):format(here, group)):gmatch "[^\n]+" do
    local program = path:match "[^/]+$"
    local home = program:find "^particles_" and "peers/particles" or "peers"
    take(("timeout %d %s/%s/bin/python %s %s"):format(PATIENCE, build, home, path, names), program)
  end
  if group ~= "distributions" then take(ours, "ours, " .. group) end
  if group == "smc" then loops = by_hand() end
end

-- ---- the table ----

-- Seconds that arithmetic or memory alone take: the larger.
local function limit_of(row)
  if row.by_hand then return loops and loops[row.by_hand] * row.per end
  local bytes, flops = row.bytes or 0, row.flops or 0
  local copy = rate.copy[bytes <= 2 ^ 20 and 1 or bytes <= 2 ^ 24 and 2 or 3]
  local seconds = math.max(bytes / copy, flops / rate[row.dtype])
  return seconds > 0 and seconds or nil
end

local function text(value, form)
  if type(value) == "string" then return value end
  return value and (form or (value < 100 and "%.2f" or "%.0f")):format(value) or "-"
end

-- "VAE: PyTorch" and "1.1 limit" as numbers.
local function bound(value, in_units)
  if type(value) ~= "string" then return value end
  local factor, what = value:match "^([%d.]*)%s*(%a[%a ]*)$"
  return in_units[what] and (tonumber(factor) or 1) * in_units[what]
end

-- What `got` reaches, given a floor and an aim.
local function reached(got, floor, aim)
  if not got or not (floor or aim) then return nil end
  return aim and got <= aim and "aim" or floor and got <= floor and "floor" or "MISSED"
end

-- Of eager and replayed where the row has a floor for each ("each" asks the same of both), else of the better.
local function verdict(row, in_units, ours)
  local floor, aim = row.floor, row.aim
  if type(floor) ~= "table" then
    if not row.each then return reached(ours, bound(floor, in_units), bound(aim, in_units)) or "" end
    floor, aim = {floor, floor}, {aim, aim}
  end
  local words = {}
  for k, who in ipairs{"eager", "replayed"} do
    words[#words + 1] = reached(in_units[who], bound(floor[k], in_units), bound(aim and aim[k], in_units))
  end
  return table.concat(words, "/")
end

local function pair(t)
  if type(t) ~= "table" then return t and text(t, "%g") or "" end
  return ("%g / %g"):format(t[1], t[2])
end

local judged, missed = 0, {} -- rows with a floor; titles of those that miss it

local PEERS = {"PyTorch", "Pyro", "JAX", "NumPyro", "BlackJAX", "Stan", "particles", "smcx", "dynamax", "cuthbert",
  "statsmodels"}

local function best_peer(of)
  local best, who
  for _, name in ipairs(PEERS) do
    if of[name] and (not best or of[name] < best) then best, who = of[name], name end
  end
  return best, who
end

local function json(value)
  if type(value) == "number" then return ("%.6g"):format(value) end
  return '"' .. tostring(value):gsub('[%c"\\]', function(ch) return ("\\u%04x"):format(ch:byte()) end) .. '"'
end

local function environment()
  local core = shell(lua .. [[ -e 'print(require "penumbra".blas())']]):gsub("%s+$", "")
  local cpu = shell "sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null | head -n 1":gsub("%s+$", "")
  local versions = {}
  for home, names in pairs{["peers/particles"] = "particles",
    ["peers"] = "torch pyro-ppl jax numpyro blackjax pystan smcx dynamax cuthbert statsmodels"} do
    local found = shell(("%s/%s/bin/python -c '%s'"):format(build, home, ([[
from importlib.metadata import version
print(", ".join(f"{n} {version(n)}" for n in "NAMES".split()))]]):gsub("NAMES", names)))
    versions[#versions + 1] = found:gsub("%s+$", "")
  end
  table.sort(versions)
  return cpu, core, table.concat(versions, ", ")
end

local cpu, core, versions = environment()
print(("processor: %s   our BLAS: %s   one thread each   peers: %s"):format(cpu, core, versions))
print(("limits: products %.0f / %.0f GFLOP/s (float32 / float64), copies of 0.5, 8, 64 MiB %.0f, %.0f, %.0f GB/s")
  :format(rate.float32 / 1e9, rate.float64 / 1e9, rate.copy[1] / 1e9, rate.copy[2] / 1e9, rate.copy[3] / 1e9))
local form = "%-50s %2s %9s %9s %9s %9s %9s %9s %9s  %-15s %9s  %-11s %-11s %s"
print(form:format("*: Pyro's, NumPyro's in rows of inference and laws", "", "eager", "replayed", "PyTorch*",
  "JAX*", "BlackJAX", "Stan", "particles", "best peer/ours", "limit", "floor", "aim", ""))

local function line_of(row, of)
  local scale, in_units = (row.unit == "ns" and 1e9 or 1e6) / (row.per or 1), {}
  for who, seconds in pairs(of) do in_units[who] = seconds * scale end
  local limit = limit_of(row)
  in_units.limit = limit and limit * scale
  local ours, best, who = math.min(of.eager or math.huge, of.replayed or math.huge), best_peer(of)
  in_units["best peer"] = best and best * scale
  local ratio, judgement = best and ("%.2f %s"):format(best / ours, who) or "", verdict(row, in_units, ours * scale)
  judged = judged + (judgement ~= "" and 1 or 0)
  if judgement:find "MISSED" then missed[#missed + 1] = row.title end
  print(form:format(row.title, row.unit, text(in_units.eager), text(in_units.replayed),
    text(in_units.PyTorch or in_units.Pyro), text(in_units.JAX or in_units.NumPyro), text(in_units.BlackJAX),
    text(in_units.Stan), text(in_units.particles), ratio,
    text(in_units.limit), pair(row.floor),
    pair(row.aim), judgement))
  local fields = {('"row": %s, "unit": %s'):format(json(row.title), json(row.unit))}
  local function field(name)
    if in_units[name] then fields[#fields + 1] = ("%s: %s"):format(json(name), json(in_units[name])) end
  end
  field "eager"
  field "replayed"
  for _, name in ipairs(PEERS) do field(name) end
  field "limit"
  return "    {" .. table.concat(fields, ", ") .. "}"
end

local lines = {}
for _, row in ipairs(require "rows".fixed) do
  if figures[row.key] then lines[#lines + 1] = line_of(row, figures[row.key]) end
end
for _, row in ipairs(require "rows".distributions(figures)) do
  lines[#lines + 1] = line_of(row, figures[row.key])
end
print(("%d rows have a floor, %d miss it%s"):format(judged, #missed, #missed > 0 and ":" or ""))
for _, title in ipairs(missed) do print("  " .. title) end
for _, name in ipairs(missing) do print(name .. ": stopped early or failed") end

local file = assert(io.open(build .. "/bench-peers.json", "w"))
file:write(('{\n  "processor": %s,\n  "blas": %s,\n  "peers": %s,\n  "rows": [\n'):format(json(cpu), json(core),
  json(versions)), table.concat(lines, ",\n"), "\n  ]\n}\n")
file:close()
os.exit(#missing == 0)
