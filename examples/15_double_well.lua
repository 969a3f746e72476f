--- A stochastic differential equation of one's own, filtered: a particle in a double well,
---   dx = 4 x (1 - x^2) dt + g dW,
--- seen with errors at sixty irregular times. A particle filter moves it by Euler-Maruyama steps between them, for
--- eleven values of g side by side, whose log-evidence tells which g it was. Filtered mean and band of the best one
--- beside the truth.
---
---     penumbra examples/15_double_well.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"

local quick, seed, out = false, 1, "double_well.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 15_double_well.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

local STEP <const>, ERROR <const> = 0.02, 0.4

local function drift(x) return x * (1 - x * x) * 4 end

-- x after a time, in steps of at most STEP; what comes through, a function of each state on the way, if given
local function move(x, g, duration, on_step)
  local count = math.max(1, math.ceil(duration / STEP))
  local dt = duration / count
  for _ = 1, count do
    x = x + drift(x) * dt + g * dt ^ 0.5 * pn.randn(x:shape())
    if on_step then on_step(x, dt) end
  end
  return x
end

-- ---- data ----

local TRUE_G <const>, T <const> = 0.9, 60
local gaps = (pn.rand { T } * 0.9 + 0.1):totable()
local times, seen, course, at = {}, {}, {}, {}
local x, now = pn.full({ 1 }, -1), 0
for k = 1, T do
  local before = now
  x = move(x, TRUE_G, gaps[k], function(state, dt)
    before = before + dt
    course[#course + 1], at[#at + 1] = state:item(), before
  end)
  now = now + gaps[k]
  times[k], seen[k] = now, x:item() + ERROR * pn.randn {}:item()
end

-- ---- filters side by side: [N, 11] ----

local candidates = pn.linspace(0.4, 1.4, 11)
local N = quick and 500 or 5000
local filter = pn.smc.filter { num_particles = N, batch_shape = { 11 },
  init = function(n) return move(pn.full({ n, 11 }, -1), candidates, gaps[1]) end,
  step = function(state, t) return move(state, candidates, gaps[t]) end,
  log_weight = function(state, y) return pn.dist.normal(state, ERROR):log_prob(y:broadcast_to(state:shape())) end }

local means, low, high = {}, {}, {}
for t = 1, T do
  filter:observe(pn.tensor(seen[t]))
  local mean = filter.machine:mean(filter.state)
  local sd = (filter.machine:mean(filter.state:square()) - mean:square()):sqrt()
  means[t], low[t], high[t] = mean, mean - sd * 2, mean + sd * 2
end
local evidence = filter:log_evidence()
local best = evidence:argmax(1):item() + 1
local posterior = evidence:softmax(1) -- all g alike likely before
local mean_g = (posterior * candidates):sum():item()
local sd_g = ((posterior * (candidates - mean_g):square()):sum()):sqrt():item()
print(("%d observations, %d particles for each g; g = %.2f +- %.2f, true %.2f"):format(T, N, mean_g, sd_g, TRUE_G))
for k = 1, 11 do
  print(("  g = %.1f   log-evidence %8.2f%s"):format(candidates[k]:item(), evidence[k]:item(),
    k == best and "   the best" or ""))
end

-- ---- the picture ----

local function of(list)
  return pn.stack(list, 1):select(2, best)
end
local when = pn.tensor(times)
local state = pn.plot.panel { title = "Filtered", x_label = "t", y_label = "x", legend = "below",
  pn.plot.band(when, of(low), of(high), { label = "+-2 standard deviations" }),
  pn.plot.line(when, of(means), { label = "filtered mean" }),
  pn.plot.line(pn.tensor(at), pn.tensor(course), { label = "truth", colour = "#333333", width = 0.5 }),
  pn.plot.points(when, pn.tensor(seen), { label = "seen", colour = "#b5486a" }) }
local weights = pn.plot.panel { title = "Posterior of g", x_label = "g", legend = "none",
  pn.plot.line(candidates, posterior) }
local picture, problem = pn.plot.save(out, { columns = 1, size = { 900, 640 }, state, weights })
print(picture and "picture: " .. picture or "no picture: " .. problem)
