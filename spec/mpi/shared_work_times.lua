-- Times of work shared out over ranks, printed by rank 0 as lines name<TAB>value: of spec/bench/shared_work.lua.
--   messages                         alpha (us) and beta (ns/byte) of send and receive between ranks 0 and 1
--   filter ISLANDS PARTICLES         seconds of a step of an island filter (and at work); exchanges between two
--                                    steps; share of islands moved
--   weights                          seconds of the weight of one island more
--   chains CHAINS                    seconds of pn.nuts of a regression on 20 numbers (and at work); how chains
--                                    differ in length
-- Each is the best of several rounds: others were disturbed.
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"
local pn = require "penumbra"
local islands = require "penumbra.smc.islands"
local what, first, second = arg[1], tonumber(arg[2]), tonumber(arg[3])
pn.threads(1)

local function row(name, value)
  if mpi.rank() == 0 then print(("%s\t%.9g"):format(name, value)) end
end

-- Processor time in calls of others.
local spent = 0
for _, name in ipairs { "all_gather", "all_gather_values", "all_reduce", "send", "receive" } do
  local f = mpi[name]
  mpi[name] = function(...)
    local start = os.clock()
    local out = table.pack(f(...))
    spent = spent + os.clock() - start
    return table.unpack(out, 1, out.n)
  end
end

-- The least seconds of f, and the least processor time of its own part on the rank where that is longest.
local function best(rounds, f, before)
  local least, work = math.huge, math.huge
  for _ = 1, rounds do
    local made = before and before()
    mpi.barrier()
    local start, at = core.clock(), os.clock()
    spent = 0
    f(made)
    work = math.min(work, os.clock() - at - spent)
    mpi.barrier()
    least = math.min(least, core.clock() - start)
  end
  return least, mpi.all_reduce(pn.tensor(work), "max"):item()
end

local ways = {}

function ways.messages()
  local function between(bytes, count)
    local t = pn.zeros { bytes // 8 }
    local seconds = best(30, function()
      for _ = 1, count do
        if mpi.rank() == 0 then
          mpi.send(t, 1)
          mpi.receive(1)
        elseif mpi.rank() == 1 then
          mpi.send(mpi.receive(0), 0)
        end
      end
    end)
    return seconds / 2 / count
  end
  local alpha, large = between(8, 50), 1 << 22
  row("alpha", alpha * 1e6)
  row("beta", (between(large, 2) - alpha) / large * 1e9)
end

function ways.filter()
  local dist, steps, rounds = pn.dist, 2, 100
  local ys = pn.randn({ steps }, { generator = pn.generator(1) })
  local moved, exchanges = 0, 0
  local places = islands.places
  function islands.places(...)
    local from = places(...)
    exchanges = exchanges + 1
    for k, a in ipairs(from) do moved = moved + (k ~= a and 1 or 0) end
    return from
  end
  local round = 0
  local seconds, work = best(rounds, function(filter) filter:run(ys) end, function()
    pn.seed(round)
    round = round + 1
    return pn.smc.filter { prior = dist.normal(0, 1), transition = function(x) return dist.normal(x * 0.9, 0.5) end,
      observation = function(x) return dist.normal(x, 0.8) end, num_particles = second, islands = first,
      exchange = 0.9, distributed = true }
  end)
  row("step", seconds / steps)
  row("work", work / steps)
  row("exchanges", exchanges / rounds)
  row("moved", exchanges > 0 and moved / exchanges / first or 0)
end

-- What all ranks do alike, whoever has the islands: their weights.
function ways.weights()
  local function of(m)
    local s, x = pn.smc { num_particles = m, threshold = 0 }, pn.zeros { m }
    local _, work = best(20, function()
      for _ = 1, 50 do s:weigh(x) end
    end)
    return work / 50
  end
  row("weight", math.max(of(8192) - of(1), 0) / 8191)
end

function ways.chains()
  local dist, g = pn.dist, pn.generator(2)
  local x, noise = pn.randn({ 200, 20 }, { generator = g }), pn.randn({ 200 }, { generator = g })
  local y = x:matmul(pn.randn({ 20 }, { generator = g })) + noise * 0.5
  local model = pn.model(function(m)
    local w = m:sample("w", dist.normal(pn.zeros { 20 }, 1):independent(1))
    m:observe("y", dist.normal(x:matmul(w), m:sample("s", dist.half_normal(1))):independent(1), y)
  end)
  local p
  local seconds, work = best(20, function()
    pn.seed(3)
    p = pn.nuts(model, { chains = first, draws = 200, warmup = 100, distributed = true })
  end)
  row("seconds", seconds)
  row("work", work)
  local steps = p.statistics.leapfrogs:to("float64"):sum(2)
  row("spread", first > 1 and steps:std():item() / steps:mean():item() or 0)
end

ways[what]()
