--- A particle filter on a state that is seen through its square: the nonlinear growth model of Kitagawa (1987),
---   x' = x / 2 + 25 x / (1 + x^2) + 8 cos(1.2 t) + N(0, 10),   y = x^2 / 20 + N(0, 1),
--- whose filtered law has two modes at times. Filtered mean and band, the truth, and below how many particles count and
--- where they were resampled. With --data it filters the volatility of the pound in dollars instead, 945 days from
--- 1981:
---   x' = m + 0.975 (x - m) + N(0, 0.165^2),   y = exp(x / 2) N(0, 1)   (Kim, Shephard & Chib 1998).
---
---     penumbra examples/10_particle_filter.lua [--quick] [--seed N] [--data DIR] [--out FILE.svg]
---
--- DIR holds classics/gbpusd_sv_945.csv; without it data are generated.
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out, folder = false, 1, "particle_filter.svg", nil
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--data" and arg[i + 1] then
    folder, i = arg[i + 1], i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write "usage: 10_particle_filter.lua [--quick] [--seed N] [--data DIR] [--out FILE.svg]\n"
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

local N = quick and 1000 or 10000

-- ---- the models: what pn.smc.filter takes ----

local function growth(x, t)
  return x / 2 + x * 25 / (1 + x * x) + 8 * math.cos(1.2 * t)
end

local function growth_model()
  return { prior = function() return dist.normal(0, math.sqrt(5)) end,
    transition = function(x, t) return dist.normal(growth(x, t), math.sqrt(10)) end,
    observation = function(x) return dist.normal(x * x / 20, 1) end }
end

local mean, persistence, spread = -0.8, 0.975, 0.165
local function volatility_model()
  return { prior = function() return dist.normal(mean, spread / math.sqrt(1 - persistence ^ 2)) end,
    transition = function(x) return dist.normal(mean + (x - mean) * persistence, spread) end,
    observation = function(x) return dist.normal(0, (x / 2):exp()) end }
end

-- ---- the data ----

local y, truth, model
local table_of_returns, why
if folder then
  table_of_returns, why = pn.data.csv(folder .. "/classics/gbpusd_sv_945.csv")
end
if table_of_returns then
  y = table_of_returns:reshape { -1 }
  y, model = y - y:mean(), volatility_model
  y = quick and y:slice(1, 1, 300) or y
  print(("data: %d daily returns of the pound"):format(y:numel()))
else
  print(folder and "no data (" .. why .. "): generated ones" or "generated data")
  local x, xs, seen = math.sqrt(5) * pn.randn {}:item(), {}, {}
  for t = 1, 100 do
    x = t > 1 and growth(x, t) + math.sqrt(10) * pn.randn {}:item() or x
    xs[t], seen[t] = x, x * x / 20 + pn.randn {}:item()
  end
  y, truth, model = pn.tensor(seen), pn.tensor(xs), growth_model
end
local T = y:numel()

-- ---- filtering ----

local function filter_of(options)
  for name, f in pairs(model()) do
    options[name] = f
  end
  return pn.smc.filter(options)
end

local filter = filter_of { num_particles = N, threshold = 0.5 }
local started, means, low, high = pn.clock(), {}, {}, {}
for t = 1, T do
  filter:observe(y[t])
  local order = filter.state:argsort(1)
  local below = filter.machine:weights():take(1, order):cumsum(1) -- the distribution function at the sorted particles
  local function quantile(p)
    local first = below:ge(p):to("int64"):argmax(1):item() + 1
    return filter.state:take(1, order:slice(1, first, first)):item()
  end
  means[t], low[t], high[t] = filter:mean():item(), quantile(0.05), quantile(0.95)
end
print(("filtered %d observations with %d particles in %.2f s"):format(T, N, pn.clock() - started))
local trace = filter.machine:trace()
print(("log-evidence %.2f, standard deviation %.2f by this one run"):format(filter:log_evidence():item(),
  math.sqrt(math.max(0, trace.log_evidence_variance[T]:item()))))

local again = filter_of { num_particles = N // 10, batch_shape = { 20 }, trace = false }:run(y)
print(("20 runs of %d particles: log-evidence %.2f +- %.2f"):format(N // 10, again.log_evidence:mean():item(),
  again.log_evidence:std():item()))
if truth then
  local inside = 0
  for t = 1, T do
    local x = truth[t]:item()
    inside = inside + (x >= low[t] and x <= high[t] and 1 or 0)
  end
  print(("the truth lies in the 90 %% band at %d of %d times"):format(inside, T))
end

-- ---- the picture ----

local times = pn.arange(1, T + 1)
local state = { title = truth and "A state seen through its square" or "Volatility of the pound", x_label = "t",
  y_label = truth and "x" or "log variance", legend = "below",
  pn.plot.band(times, pn.tensor(low), pn.tensor(high), { label = "90 %" }),
  pn.plot.line(times, pn.tensor(means), { label = "filtered mean" }) }
if truth then
  state[#state + 1] = pn.plot.points(times, truth, { label = "truth", colour = "#333333" })
end
local resampled = trace.resampled:gt(0.5):nonzero():reshape { -1 } + 1
local size = pn.plot.panel { title = "Effective sample size, and where it was too small", x_label = "t",
  y_label = "particles", y_range = { 0, N }, legend = "below",
  pn.plot.line(times, trace.effective_sample_size, { label = "effective sample size" }),
  pn.plot.points(resampled, pn.full({ resampled:numel() }, N / 2), { label = "resampled" }) }
local picture, problem = pn.plot.save(out, { columns = 1, size = { 900, 640 }, pn.plot.panel(state), size })
print(picture and "picture: " .. picture or "no picture: " .. problem)
