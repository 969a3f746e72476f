-- What is shared out over ranks, for shared_work_spec.lua: `shared_work.lua WHAT [alone]` prints, from the last rank, a
-- line for each result with all of its bits; `alone` computes them as one process. Other words are faults.
local pn = require "penumbra"
local dist = pn.dist
local what, alone = arg[1], arg[2] == "alone"
local rank, size = alone and 0 or pn.mpi.rank(), alone and 1 or pn.mpi.size()

local function bits(...)
  local sum = 0
  for _, x in ipairs { ... } do
    local list = type(x) == "number" and { x } or x:to("float64"):reshape({ -1 }):totable()
    for _, v in ipairs(list) do sum = sum * 31 + ("<i8"):unpack(("<d"):pack(v)) end
  end
  return ("%016x"):format(sum)
end

local lines = {}
local function put(form, ...) lines[#lines + 1] = form:format(...) end

local rows = pn.model(function(m, y)
  local mu, scale = m:sample("mu", dist.normal(0, 2)), m:sample("scale", dist.half_normal(1))
  m:observe("y", dist.normal(mu, scale):expand({ 8 }):independent(1), y)
end)
local y = pn.tensor { 1.9, 0.7, 2.4, 1.3, 1.8, 0.2, 2.2, 1.1 }
local funnel = pn.model(function(m)
  local v = m:sample("v", dist.normal(0, 1))
  m:sample("x", dist.normal(v * 0, (v * 3):exp()))
end)

-- x' = 0.9 x + N(0, 0.5^2), y = x + N(0, 0.8^2), and its log evidence by the Kalman filter
local seen = { 0.9, -0.4, 0.6, 1.3, 0.3 }
local function filter(options)
  local o = { prior = dist.normal(0, 1), transition = function(x) return dist.normal(x * 0.9, 0.5) end,
    observation = function(x) return dist.normal(x, 0.8) end, num_particles = 6, exchange = 0.95,
    distributed = not alone }
  for key, value in pairs(options) do o[key] = value end
  return pn.smc.filter(o)
end
local function kalman()
  local m, v, total = 0, 1, 0
  for t, value in ipairs(seen) do
    if t > 1 then m, v = 0.9 * m, 0.81 * v + 0.25 end
    local s = v + 0.64
    total = total - 0.5 * (math.log(2 * math.pi * s) + (value - m) ^ 2 / s)
    m, v = m + v / s * (value - m), v * 0.64 / s
  end
  return total
end

local function nuts(model, chains, more)
  local o = { chains = chains, draws = 40, distributed = not alone }
  for key, value in pairs(more or {}) do o[key] = value end
  local p = pn.nuts(model, o)
  put("nuts %d %s %s warmup %d gradients %d", chains, bits(p.unconstrained), bits(p.statistics.energy), p.warmup,
    p.gradients)
  return p
end

local work = {}

function work.chains()
  local p = nuts(rows, 4, { data = { y } })
  put("diagnosed %s %d %s", bits(p:summary().mu.r_hat, p:summary().mu.ess_bulk, p:loo().pareto_k), #p.warnings,
    tostring(p:summary()))
  nuts(rows, 5, { data = { y }, init = { mu = pn.tensor(1) }, metric = "diagonal" })
  nuts(funnel, 4) -- chains that do not agree: a longer warm-up, which all must take
  put("next %s", bits(pn.rand { 2 }))
end

function work.islands()
  local truth, ratio, exchanges = kalman(), {}, 0
  for k = 1, 60 do
    local f = filter { islands = k <= 30 and 8 or 6 }
    local r = f:run(pn.tensor(seen), { moments = k == 1 })
    ratio[k] = r.log_evidence - truth
    exchanges = exchanges + f.machine:trace().resampled:sum():item()
    if k == 1 or k == 60 then put("filter %s %s", bits(r.increments, r.square or 0), bits(f:mean(), f:variance())) end
  end
  ratio = pn.stack(ratio, 1):exp()
  put("exchanges %d evidence %s", exchanges, bits(ratio))
  local error = ratio:std():item() / math.sqrt(60)
  assert(exchanges > 60 and error < 0.08 and math.abs(ratio:mean():item() - 1) < 6 * error, "biased")
  local p = pn.smc.sample(rows, { data = { y }, num_particles = 6, islands = 9, exchange = 1,
    distributed = not alone })
  local count = 0
  for _, rung in ipairs(p.ladder) do count = count + (rung.exchanged and 1 or 0) end
  put("sample %s %s exchanges %d", bits(p.unconstrained, p.statistics.log_density),
    bits(p.log_evidence.value, p.log_evidence.se), count)
  assert(count > 1, "the islands had to be exchanged below the top, too")
  put("next %s", bits(pn.rand { 2 }))
end

function work.jobs()
  local list = pn.jobs { jobs = 9, distributed = not alone,
    run = function(k) return { k, pn.rand({}):item() } end }
  for k, v in ipairs(list) do put("job %d %d %s", k, v[1], bits(v[2])) end
  local path = os.tmpname()
  local sbc = pn.sbc(rows, { data = { y }, simulations = 10, draws = 9, distributed = not alone, results = path,
    options = { warmup = 60, thin = 1 } })
  os.remove(path)
  put("sbc %s", bits(sbc.ranks.mu, sbc.ranks.log_likelihood))
  put("next %s", bits(pn.rand { 2 }))
end

function work.all()
  for _, name in ipairs { "chains", "islands", "jobs" } do
    pn.seed(5)
    work[name]()
  end
end

-- What goes wrong, and must end the job.
local two = rank == 1

function work.seeds()
  if two then pn.seed(4) end
  pn.nuts(funnel, { distributed = true })
end

function work.settings() pn.nuts(funnel, { chains = two and 5 or 4, distributed = true }) end

function work.sizes() filter { islands = two and 3 or 6, exchange = 1 } end

function work.models() pn.nuts(two and rows or funnel, { data = two and { y } or nil, distributed = true }) end

function work.lists() pn.jobs { jobs = { "a", two and "b" or "c" }, run = type, distributed = true } end

function work.data() pn.nuts(rows, { data = { two and y + 0.1 or y }, distributed = true }) end

function work.few() filter { islands = size - 1 } end

-- A rank does another thing than the others.
function work.scripts()
  if two then
    filter { islands = 3 }
  else
    pn.nuts(funnel, { distributed = true })
  end
end

local function failing(fail)
  return function()
    local f = filter { islands = 3, transition = function(x)
      if two then fail() end
      return dist.normal(x * 0.9, 0.5)
    end }
    f:run(pn.tensor(seen))
  end
end

work.raise = failing(function() error "no transition" end)
work.memory = failing(function() pn.memory_limit(4000000) pn.zeros { 10000000 } end)
work.kill = failing(function() os.execute "kill -9 $PPID" end)

-- Jobs of which one raises, or kills its rank the first time; they say in the file arg[3] that they have run.
function work.failing_jobs()
  local list = pn.jobs { jobs = 6, results = arg[2], distributed = true, run = function(k)
    local file <close> = io.open(arg[3], "a")
    file:write(k, "\n")
    if k == 4 and arg[4] == "raise" then error "no such thing" end
    if k == 4 and arg[4] == "kill" then
      file:flush()
      os.execute "kill -9 $PPID"
    end
    return k * k
  end }
  put("%s", table.concat(list, " "))
end

pn.seed(6)
work[what]()
local text = table.concat(lines, "\n")
if not alone then
  for _, other in ipairs(pn.mpi.all_gather_values(text)) do
    assert(other == text, "the ranks have different results")
  end
end
if rank == size - 1 then print(text) end
