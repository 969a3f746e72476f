--- Predators and prey: the rates of the equations of Lotka and Volterra,
---   dx/dt = a x - b x y,   dy/dt = -c y + d x y,
--- from forty counts with errors of a fifth, by NUTS through the solver: pn.odeint is one differentiable operation.
--- Rates with their intervals beside the truth, and what the posterior says of the time that follows.
---
---     penumbra examples/14_predators_and_prey.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out = false, 1, "predators_and_prey.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 14_predators_and_prey.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

local function slope(_, h, rates)
  local x, y, r = h[1], h[2], rates
  return pn.stack({ (r[1] - r[2] * y) * x, (r[4] * x - r[3]) * y }, 1)
end

local function solution(rates, start, times)
  return pn.odeint(slope, start, times, { parameters = { rates } })
end

-- ---- data: every half year for ten years ----

local truth, first = pn.tensor { 1, 0.4, 0.8, 0.3 }, pn.tensor { 4, 2 }
local times, later = pn.linspace(0, 10, 20), pn.linspace(0, 16, 161)
local counts = solution(truth, first, times) * (0.2 * pn.randn { 20, 2 }):exp()

-- ---- the model: rates and beginnings of about 1, errors in parts of the whole ----

local model = pn.model(function(m, y)
  local rates = m:sample("rates", dist.log_normal(pn.tensor { 0, -1, 0, -1 }, 0.5):independent(1))
  local start = m:sample("start", dist.log_normal(pn.full({ 2 }, math.log(3)), 1):independent(1))
  local error_of_it = m:sample("error", dist.half_normal(0.5))
  local h = solution(rates, start, times)
  m:observe("y", dist.log_normal(h:log(), error_of_it):independent(2), y)
end)

local posterior = pn.nuts(model, { data = { counts }, chains = 2, metric = "dense", warmup = quick and 120 or 500,
  draws = quick and 100 or 1000 })
print(("%d draws in %.1f s, %d divergences"):format(posterior.draws.error:numel(), posterior.seconds,
  posterior.divergences))
print(posterior)
for k, row in ipairs(posterior:summary { "rates" }) do
  local true_rate = truth[k]:item()
  print(("%-9s %.3f +- %.3f, true %.3f: %.1f standard deviations away"):format(row.name, row.mean, row.sd, true_rate,
    math.abs(row.mean - true_rate) / row.sd))
end

-- ---- what follows ----

local draws = posterior.draws
local rates, starts = draws.rates:reshape { -1, 4 }, draws.start:reshape { -1, 2 }
local paths, every = {}, rates:size(1) // 100
for k = 1, 100 do
  paths[k] = solution(rates[(k - 1) * every + 1], starts[(k - 1) * every + 1], later)
end
paths = pn.stack(paths, 1)
local exact = solution(truth, first, later)
local low, high = paths:quantile(0.05, 1), paths:quantile(0.95, 1)
local inside = exact:ge(low):logical_and(exact:le(high)):to("float64"):mean():item()
print(("the true course lies in its 90 %% band at %.0f %% of times, those to come included"):format(100 * inside))

local marks = { title = "Predators and prey: 90 % of the posterior's courses, data, truth", x_label = "year",
  legend = "below" }
for d, what in ipairs { { "prey", "#2f6db3" }, { "predators", "#b5486a" } } do
  local style = { label = what[1], colour = what[2] }
  marks[#marks + 1] = pn.plot.band(later, low:select(2, d), high:select(2, d), style)
  marks[#marks + 1] = pn.plot.line(later, exact:select(2, d), { colour = "#333333" })
  marks[#marks + 1] = pn.plot.points(times, counts:select(2, d), { colour = what[2] })
end
local picture, problem = pn.plot.save(out, { columns = 1, size = { 900, 420 }, pn.plot.panel(marks) })
print(picture and "picture: " .. picture or "no picture: " .. problem)
