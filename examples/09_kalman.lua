--- Exact filtering and smoothing of Gaussian linear systems.
---
--- The Nile's yearly flow at Aswan, 1871 to 1970: a level that walks at random beside noise (Durbin & Koopman 2012,
--- chapter 2), with an exactly diffuse start; its variances by maximum likelihood, the level given all years, ten
--- years ahead; and beside it the same with a step in 1899, when the dam was begun. Then an object in the plane that
--- is seen at irregular times and not at all for a while: position and velocity from a stochastic differential
--- equation, noise scales by maximum likelihood, the path by filter and smoother, whole paths drawn from the posterior.
---
---     penumbra examples/09_kalman.lua [--quick] [--seed N] [--out FILE.svg] [--data DIR]
---
--- --data: a folder with classics/nile.csv (year,flow). Without it a series is drawn from the model.
local pn = require "penumbra"
local kalman, structural = pn.smc.kalman, pn.smc.structural

local quick, seed, out, folder = false, 1, "kalman.svg", nil
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  elseif arg[i] == "--data" and arg[i + 1] then
    folder, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 09_kalman.lua [--quick] [--seed N] [--out FILE.svg] [--data DIR]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)
local started = pn.clock()

-- ---- the Nile ----

local first_year, years, change = 1871, 100, 1899
local year = pn.arange(first_year, first_year + years)
local after = year:ge(change):to "float64"

local flow
if folder then
  flow = assert(pn.data.csv(folder .. "/classics/nile.csv", { columns = { "flow" } })):reshape { -1 }
  print "the Nile's flow at Aswan, 10^8 m^3 a year"
else
  local walk = (pn.randn { years } * 12):cumsum(1)
  flow = walk - after * 240 + 1090 + pn.randn { years } * 125
  print "a series drawn from a walking level with a step in 1899 (the Nile's flow itself: --data DIR)"
end

local walking = (structural.level {} + structural.irregular {}):fit(flow)
local stepping = (structural.level {} + structural.regression { x = after:unsqueeze(2), name = "step" }
  + structural.irregular {}):fit(flow)

print(("\n%-26s %14s %14s"):format("", "level", "level and step"))
local function row(label, value)
  print(("%-26s %14s %14s"):format(label, value(walking), value(stepping)))
end
row("noise, scale", function(m) return ("%.1f"):format(m:parameters()["irregular.scale"]:item()) end)
row("level, scale", function(m) return ("%.1f"):format(m:parameters()["level.scale"]:item()) end)
row("log likelihood (diffuse)", function(m) return ("%.4f"):format(m.log_likelihood_at_fit) end)
row("flow in 1898, expected", function(m)
  local c = m:components(flow)
  return ("%.0f"):format((flow - c.irregular.mean)[change - first_year]:item())
end)
row("flow in 1899, expected", function(m)
  local c = m:components(flow)
  return ("%.0f"):format((flow - c.irregular.mean)[change - first_year + 1]:item())
end)
local step = stepping:components(flow).step
print(("the step of 1899: %.0f +- %.0f"):format(step.mean[years]:item(), step.scale[years]:item()))

local level = walking:components(flow).level
local horizon = 10
local ahead = walking:forecast(flow, horizon)
local coming = pn.arange(first_year + years, first_year + years + horizon)
print(("%d: %.0f +- %.0f, %d: %.0f +- %.0f"):format(first_year + years, ahead.mean[1]:item(), ahead.scale[1]:item(),
  first_year + years + horizon - 1, ahead.mean[horizon]:item(), ahead.scale[horizon]:item()))

-- ---- an object in the plane ----

-- dx = v dt, dv = -friction v dt + push dw, for each of two axes; seen with noise `blur`.
local steps = quick and 150 or 400
local gap = pn.rand { steps } * 0.18 + 0.02 -- seconds between two looks
local time = gap:cumsum(1)

local function tracked(push, blur)
  local zero = pn.zeros { 2, 2 }
  local one = pn.eye(2)
  local function blocks(a, b, c, d)
    return pn.concatenate({ pn.concatenate({ a, b }, 2), pn.concatenate({ c, d }, 2) }, 1)
  end
  local d = kalman.discretise { drift = blocks(zero, one, zero, one * -0.1), step = gap,
    diffusion = blocks(zero, zero, zero, one * push ^ 2) }
  return pn.smc.linear_system { transition = d.transition, transition_cov = d.transition_cov,
    emission = pn.concatenate({ one, zero }, 2), emission_cov = one * blur ^ 2,
    initial_mean = pn.zeros { 4 }, initial_cov = pn.eye(4) }
end

local truth = { push = 1.5, blur = 0.3 }
local states, seen = tracked(truth.push, truth.blur):sample(steps)
states, seen = states[1], seen[1]
local from, to = steps * 2 // 5, steps * 11 // 20
local look = pn.arange(1, steps + 1)
local inside = look:ge(from):logical_and(look:le(to))
local there = inside:logical_not():unsqueeze(2):broadcast_to { steps, 2 }
inside = inside:to "float64"

-- Both scales by Adam on their logarithms: the gradient is one pass back in time.
local log_push, log_blur = pn.param(pn.zeros {}), pn.param(pn.zeros {})
local opt = pn.optim.adam({ log_push, log_blur }, { lr = 0.05 })
for _ = 1, quick and 120 or 300 do
  opt:step(-tracked(log_push:exp(), log_blur:exp()):log_likelihood(seen, { observed = there }) / steps)
end
local push, blur = log_push:detach():exp(), log_blur:detach():exp()
print(("\na track of %d looks, none from %.1f s to %.1f s: push %.2f (true %.2f), blur %.3f (true %.3f)"):format(steps,
  time[from]:item(), time[to]:item(), push:item(), truth.push, blur:item(), truth.blur))

local system, o = tracked(push, blur), { observed = there }
local f, smoothed = system:filter(seen, o), system:smooth(seen, o)
local paths = system:sample_posterior(seen, { observed = there, draws = 30 })

local function places(mean) return mean:slice(2, 1, 2) end
local function error_of(mean, weight)
  local square = (places(mean) - places(states)):square():sum(2)
  return ((square * weight):sum() / weight:sum() / 2):sqrt():item()
end
-- Share of the true positions and velocities within 90 % intervals.
local function coverage(m)
  local z = (states - m.mean):abs() / m.cov:diagonal():sqrt()
  return z:lt(1.6448536):to("float64"):mean():item()
end
print(("%-12s %12s %12s %12s"):format("", "while seen", "in the gap", "90 % covers"))
print(("%-12s %12.3f"):format("looks", ((seen - places(states)):square():mean()):sqrt():item()))
for _, m in ipairs { { "filter", f }, { "smoother", smoothed } } do
  print(("%-12s %12.3f %12.3f %12.2f"):format(m[1], error_of(m[2].mean, 1 - inside), error_of(m[2].mean, inside),
    coverage(m[2])))
end
print(("%.1f s"):format(pn.clock() - started))

-- ---- the picture ----

local function column(t, k) return t:select(t:ndim(), k) end
local wide = 1.6448536
local nile = pn.plot.panel { title = "Flow: level given all years, ten years ahead, 90 %", x_label = "year",
  legend = "top right",
  pn.plot.band(year, level.mean - level.scale * wide, level.mean + level.scale * wide, { label = "level" }),
  pn.plot.line(year, level.mean, { label = "its mean" }), pn.plot.points(year, flow, { colour = "#555555" }),
  pn.plot.band(coming, ahead.mean - ahead.scale * wide, ahead.mean + ahead.scale * wide, { label = "to come" }) }
local both = stepping:components(flow)
local expected = flow - both.irregular.mean
local stepped = pn.plot.panel { title = "With a step in 1899", x_label = "year", legend = "top right",
  pn.plot.band(year, expected - both.irregular.scale * wide, expected + both.irregular.scale * wide,
    { label = "level and step" }), pn.plot.line(year, expected),
  pn.plot.points(year, flow, { colour = "#555555" }) }
local map = { title = "A track: looks, smoother, paths of the posterior", x_label = "x", y_label = "y",
  legend = "below" }
for k = 1, 30 do
  map[#map + 1] = pn.plot.line(column(paths[k], 1), column(paths[k], 2), { colour = "#bbccdd", width = 1 })
end
local looks = pn.where(there, seen, pn.full({}, 0 / 0))
map[#map + 1] = pn.plot.points(column(looks, 1), column(looks, 2), { label = "looks", colour = "#555555", size = 0.3 })
map[#map + 1] = pn.plot.line(column(states, 1), column(states, 2), { label = "truth", colour = "#222222", width = 1 })
map[#map + 1] = pn.plot.line(column(smoothed.mean, 1), column(smoothed.mean, 2),
  { label = "smoother", colour = "#cc3311" })
local function band(m, label)
  local mean, scale = column(m.mean, 1), m.cov:diagonal():sqrt():select(2, 1)
  return pn.plot.band(time, mean - scale * wide, mean + scale * wide, { label = label })
end
local in_time = pn.plot.panel { title = "x, 90 %: filter and smoother", x_label = "seconds", legend = "below",
  band(f, "filter"), band(smoothed, "smoother"),
  pn.plot.line(time, column(states, 1), { label = "truth", colour = "#222222", width = 1 }) }
local picture, why = pn.plot.save(out,
  { columns = 2, size = { 1000, 800 }, nile, stepped, pn.plot.panel(map), in_time })
print(picture and "picture: " .. picture or "no picture: " .. why)
