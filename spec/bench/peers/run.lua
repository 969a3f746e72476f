--- `make bench-peers`: our figures beside those of PyTorch, Pyro, JAX, NumPyro, BlackJAX, Stan, nutpie, stanli,
--- `particles`, smcx, dynamax, cuthbert, statsmodels, batchbald_redux, pytagi, torchsde and diffrax, the same work in
--- one run, everyone held to one processor. Prints a table and writes BUILD/bench-peers.json.
---   lua spec/bench/peers/run.lua [GROUP]...     training sources residual lenet batchbald stochastic elementwise
---                                               kalman gaussian smc rbpf switching sampling inference sites
---                                               distributions; all without any; distributions:gamma,beta only these
--- ours.lua and the programs PEER_GROUP.py print lines key<TAB>who<TAB>seconds, rows.lua says what the keys are and
--- what each must reach. Time is processor time, the best of many rounds; ours and the peers take turns, and the best
--- of the turns counts. The groups in LEVELLED run at every processor level (level.lua), the others at the best one.
local build = os.getenv "BUILD" or "build"
local lua = os.getenv "LUA" or "lua5.4"
local here = "spec/bench/peers/"
package.path = here .. "?.lua;" .. package.path
local level, page = require "level", require "page"

local PATIENCE = 1800 -- seconds for one program of a peer; XLA has been seen to stop for good on one thread
local LEVELLED = {training = true, elementwise = true, kalman = true}
local GROUPS = {"training", "sources", "residual", "lenet", "batchbald", "stochastic", "elementwise", "kalman",
  "gaussian", "smc", "rbpf", "switching", "sampling", "inference", "sites", "distributions"}
local TURNS = {training = 2, elementwise = 2, kalman = 2, switching = 2}
local SCALES = {ns = 1e9, us = 1e6, ms = 1e3, MB = 1e-6, [""] = 1} -- of seconds, bytes and numbers
local PEERS = {"PyTorch", "Pyro", "JAX", "NumPyro", "BlackJAX", "Stan", "particles", "smcx", "dynamax", "cuthbert",
  "statsmodels", "batchbald_redux", "pytagi", "torchsde", "diffrax", "nutpie", "nutpie low rank", "stanli",
  "stanli by nutpie", "stanli by nutpie, low rank"}
-- The environment that each peer's programs run in, by their first word; the others': "jax".
local HOMES = {torch = "torch", pyro = "torch", particles = "particles", stan = "stan", redux = "torch", tagi = "torch",
  torchsde = "torch", nutpie = "nutpie", stanli = "nutpie"}

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

-- ---- measuring ----

local missing = {}

-- What runs of limits.c give, the best of two: operations per second of products and of multiply-adds, bytes of copies.
local function limits(settings)
  local rate, program = {}, settings .. pinned .. build .. "/spec/bench/limits"
  for what, value in (shell(program) .. shell(program)):gmatch "([^\t\n]+)\t([%d.]+)\t[^\n]*" do
    rate[what] = math.max(rate[what] or 0, tonumber(value) * 1e9)
  end
  return {
    product = {float32 = rate["product of 768x768, float32"], float64 = rate["product of 768x768, float64"]},
    ["multiply-add"] = {float32 = rate["multiply-add, float32"], float64 = rate["multiply-add, float64"]},
    copy = {rate["copy of 512 KiB"], rate["copy of 8 MiB"], rate["copy of 64 MiB"]},
  }
end

-- Seconds per particle and step of the loop by hand, by the number of particles.
local function by_hand(settings)
  local out, program = {}, settings .. pinned .. build .. "/spec/bench/particle --loops"
  for n, value in (shell(program) .. shell(program)):gmatch "by hand, N = (%d+)\t([%d.]+)" do
    n = tonumber(n)
    out[n] = math.min(out[n] or math.huge, tonumber(value) * 1e-9)
  end
  return out
end

local function split(asked)
  local group, names = asked:match "^(%a+):?([%w_,]*)$"
  for _, known in ipairs(GROUPS) do
    if group == known then return group, (names:gsub(",", " ")) end
  end
  error(("no group %s: %s"):format(asked, table.concat(GROUPS, " ")))
end

-- figures[key][who] = seconds, of all groups that were asked for at one level.
local function measure(at, asked, first)
  local settings = "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH= " .. level.settings(at)
  local found = {level = at, rate = limits(settings), figures = {}, worst = {}}
  local function take(command, name)
    local out, ok = shell(settings .. pinned .. command)
    for key, who, value in out:gmatch "([^\t\n]+)\t([^\t\n]+)\t([^\t\n]+)" do
      local of, worst = found.figures[key] or {}, found.worst[key] or {}
      found.figures[key], found.worst[key] = of, worst
      of[who] = math.min(of[who] or math.huge, tonumber(value))
      worst[who] = math.max(worst[who] or 0, tonumber(value))
    end
    if not ok then missing[#missing + 1] = ("%s (%s)"):format(name, at.title) end
  end
  for _, one in ipairs(asked) do
    local group, names = split(one)
    for turn = 1, (first or LEVELLED[group]) and TURNS[group] or 1 do
      if not first and not LEVELLED[group] then break end
      local ours = ("%s %sours.lua %s %s"):format(lua, here, group, names)
      take(ours, "ours, " .. group)
      for path in shell(("ls %s*_%s.py 2>/dev/null"):format(here, group)):gmatch "[^\n]+" do
        local program = path:match "[^/]+$"
        local home = HOMES[program:match "^%a+"] or "jax"
        take(("timeout %d %s/peers/%s/bin/python %s %s"):format(PATIENCE, build, home, path, names), program)
      end
      if group ~= "distributions" and turn == (TURNS[group] or 1) then take(ours, "ours, " .. group) end
    end
    if group == "smc" and first then found.loops = by_hand(settings) end
  end
  return found
end

-- ---- the table ----

local function text(value, form)
  return value and (form or (value < 100 and "%.2f" or "%.0f")):format(value) or "-"
end

local function json(value)
  if type(value) == "number" then return ("%.6g"):format(value) end
  return '"' .. tostring(value):gsub('[%c"\\]', function(ch) return ("\\u%04x"):format(ch:byte()) end) .. '"'
end

-- Seconds that arithmetic or memory alone take: the larger.
local function limit_of(row, found)
  if row.by_hand then return found.loops and found.loops[row.by_hand] and found.loops[row.by_hand] * row.per end
  local bytes, flops = row.bytes or 0, row.flops or 0
  local copy = found.rate.copy[bytes <= 2 ^ 20 and 1 or bytes <= 2 ^ 24 and 2 or 3]
  local seconds = math.max(bytes / copy, flops > 0 and flops / found.rate[row.rate][row.dtype] or 0)
  return seconds > 0 and seconds or nil
end

-- The one of our figures that the row is judged by.
local function ours_of(row, of)
  local eager, replayed = of.eager, of.replayed
  if row.which == "replayed" then return replayed or eager end
  if row.which == "both" and eager and replayed then return math.max(eager, replayed) end
  return math.min(eager or math.huge, replayed or math.huge)
end

-- By how much of it the figure that the row is judged by differed between turns.
local function spread_of(row, of, worst)
  local widest = 0
  for _, who in ipairs{"eager", "replayed"} do
    if of[who] and of[who] == ours_of(row, of) then widest = worst[who] / of[who] - 1 end
  end
  return widest
end

-- The least figure of the ways in which one peer was run.
local function least_of(of, pattern)
  local least
  for _, name in ipairs(PEERS) do
    if of[name] and name:find(pattern) and (not least or of[name] < least) then least = of[name] end
  end
  return least
end

-- Peers whose product is faster than the level's multiply-adds: they do not keep to it (level.lua).
local function beyond_level(found)
  local list, of = {}, found.figures["product 768"] or {}
  for _, name in ipairs(PEERS) do
    if of[name] and 2 * 768 ^ 3 / of[name] > 1.05 * found.rate["multiply-add"].float32 then
      list[name] = 2 * 768 ^ 3 / of[name]
    end
  end
  return list
end

-- The figures that a row is judged by: without peers beyond the level where products are what it takes.
local function comparable(row, of, found)
  local kept = {}
  for who, seconds in pairs(of) do
    if row.rate ~= "product" or not found.beyond[who] then kept[who] = seconds end
  end
  return kept
end

local function best_peer(of)
  local best, who
  for _, name in ipairs(PEERS) do
    if of[name] and (not best or of[name] < best) then best, who = of[name], name end
  end
  return best, who
end

-- "ok", "BEHIND" or nothing where there is nothing to compare with; and what was asked, as text.
local function judge(row, of, ours, best, limit)
  local asked, verdict = {}, nil
  for _, against in ipairs{"peer", "PyTorch", "limit"} do
    local must = row.must and row.must[against]
    local figure = against == "peer" and best or against == "limit" and limit or of[against]
    if must then asked[#asked + 1] = ("%s %s %g"):format(against, against == "limit" and "<=" or ">=", must) end
    if must and figure then
      local good
      if against == "limit" then good = ours <= must * figure else good = ours * must <= figure end
      verdict = verdict ~= "BEHIND" and good and "ok" or "BEHIND"
    end
  end
  return verdict or "", table.concat(asked, ", ")
end

local form = "%-46s %2s %9s %9s %6s %9s %9s %9s %9s %9s %9s %9s %8s  %-15s %7s  %-22s %s"

local function heading(found)
  local rate = found.rate
  print()
  print(("level %s (BLAS: %s): products %.0f / %.0f GFLOP/s (float32 / float64), multiply-adds %.0f / %.0f, copies of "
    .. "0.5, 8, 64 MiB %.0f, %.0f, %.0f GB/s"):format(found.level.title, found.level.blas,
    rate.product.float32 / 1e9, rate.product.float64 / 1e9, rate["multiply-add"].float32 / 1e9,
    rate["multiply-add"].float64 / 1e9, rate.copy[1] / 1e9, rate.copy[2] / 1e9, rate.copy[3] / 1e9))
  for who, speed in pairs(found.beyond) do
    print(("%s's products run at %.0f GFLOP/s, beyond this level: not compared where they matter"):format(who,
      speed / 1e9))
  end
  print(form:format("*: Pyro's, NumPyro's where models are", "", "eager", "replayed", "spread", "PyTorch*", "JAX*",
    "BlackJAX", "Stan", "nutpie", "stanli", "particles", "limit", "best peer/ours", "/limit", "must", ""))
end

local judged, behind, lines, tallies = 0, {}, {}, {}

-- Of rows of one kind: how many there are with a peer, and in how many we are ahead of the best.
local function count_tally(kind, ahead)
  if not tallies[kind] then
    tallies[kind] = {of = 0, ahead = 0}
    tallies[#tallies + 1] = kind
  end
  tallies[kind].of = tallies[kind].of + 1
  tallies[kind].ahead = tallies[kind].ahead + (ahead and 1 or 0)
end

local function line_of(row, of, found)
  local scale, in_units = SCALES[row.unit] / (row.per or 1), {}
  for who, seconds in pairs(of) do in_units[who] = seconds * scale end
  local spread = spread_of(row, of, found.worst[row.key])
  of = comparable(row, of, found)
  local limit, ours, best, who = limit_of(row, found), ours_of(row, of), best_peer(of)
  in_units.limit = limit and limit * scale
  if ours == math.huge then best = nil end -- we have no figure: nothing to compare
  local verdict, must = judge(row, of, ours, best, limit)
  if row.tally and best then count_tally(row.tally, ours <= best) end
  judged = judged + (verdict ~= "" and 1 or 0)
  if verdict == "BEHIND" then behind[#behind + 1] = ("%s (%s)"):format(row.title, found.level.title) end
  print(form:format(row.title, row.unit, text(in_units.eager), text(in_units.replayed),
    ("%.0f %%"):format(100 * spread), text(in_units.PyTorch or in_units.Pyro),
    text(in_units.JAX or in_units.NumPyro), text(in_units.BlackJAX), text(in_units.Stan),
    text(least_of(in_units, "^nutpie")), text(least_of(in_units, "^stanli")),
    text(in_units.particles), text(in_units.limit),
    best and ("%.2f %s"):format(best / ours, who) or "", limit and ("%.2f"):format(ours / limit) or "-", must, verdict))
  local fields = {('"row": %s, "level": %s, "unit": %s'):format(json(row.title), json(found.level.name),
    json(row.unit))}
  local function field(name, value)
    if value then fields[#fields + 1] = ("%s: %s"):format(json(name), json(value)) end
  end
  field("eager", in_units.eager)
  field("replayed", in_units.replayed)
  for _, name in ipairs(PEERS) do field(name, in_units[name]) end
  field("spread", spread)
  field("limit", in_units.limit)
  field("best peer to ours", best and best / ours)
  field("ours to limit", limit and ours / limit)
  field("must", must)
  field("verdict", verdict)
  lines[#lines + 1] = "    {" .. table.concat(fields, ", ") .. "}"
  if best or limit then page.add(row.title, found.level.title, best and best / ours, who, limit and ours / limit) end
end

local function versions()
  local found = {}
  for home in shell(("ls %s/peers"):format(build)):gmatch "(%a+)\n" do
    local names = {torch = "torch pyro-ppl batchbald_redux pytagi", stan = "pystan", particles = "particles",
      nutpie = "nutpie stanli bridgestan",
      jax = "jax numpyro blackjax smcx dynamax cuthbert statsmodels"}
    local out = names[home] and shell(("%s/peers/%s/bin/python -c '%s' 2>/dev/null"):format(build, home, ([[
from importlib.metadata import version
print(", ".join(f"{n} {version(n)}" for n in "NAMES".split()))]]):gsub("NAMES", names[home])))
    found[#found + 1] = out and out:gsub("%s+$", "") or nil
  end
  return table.concat(found, ", ")
end

local asked = #arg > 0 and arg or GROUPS
for _, one in ipairs(asked) do split(one) end
local cpu = shell "sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null | head -n 1":gsub("%s+$", "")
local levels, peers = level.list(build), versions()
local function load() return shell "cut -d' ' -f1-3 /proc/loadavg 2>/dev/null":gsub("%s+$", "") end
local load_before = load()
print(("processor: %s   %s   one thread each   peers: %s"):format(cpu, os.date "%Y-%m-%d", peers))
for k, at in ipairs(levels) do
  local found = measure(at, asked, k == 1)
  found.beyond = beyond_level(found)
  if next(found.figures) then heading(found) end
  for _, row in ipairs(require "rows".fixed) do
    if found.figures[row.key] then line_of(row, found.figures[row.key], found) end
  end
  for _, row in ipairs(require "rows".distributions(found.figures)) do line_of(row, found.figures[row.key], found) end
end
print(("\n%d rows judged, %d BEHIND%s"):format(judged, #behind, #behind > 0 and ":" or ""))
for _, title in ipairs(behind) do print("  " .. title) end
for _, kind in ipairs(tallies) do
  print(("ahead of the best peer in %d of %d posteriors: %s"):format(tallies[kind].ahead, tallies[kind].of, kind))
end
for _, name in ipairs(missing) do print(name .. ": stopped early or failed") end
print(("load of the machine before and after (1, 5, 15 minutes; 1 is this run): %s and %s"):format(load_before, load()))
page.write(build .. "/bench-peers.md")

local file = assert(io.open(build .. "/bench-peers.json", "w"))
file:write(('{\n  "processor": %s,\n  "date": %s,\n  "peers": %s,\n  "rows": [\n'):format(json(cpu),
  json(os.date "%Y-%m-%d"), json(peers)), table.concat(lines, ",\n"), "\n  ]\n}\n")
file:close()
os.exit(#missing == 0)
