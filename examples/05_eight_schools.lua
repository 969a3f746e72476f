--- Eight schools: what coaching did for test scores at eight schools, each effect measured with a known error (Rubin
--- 1981; Gelman et al., Bayesian Data Analysis, 5.5). The schools inform each other as much as they are alike, and how
--- much that is, is learned too. NUTS samples the posterior; guides fitted by pn.svi stand beside it.
---
---     penumbra examples/05_eight_schools.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out = false, 1, "eight_schools.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 05_eight_schools.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

local effect = pn.tensor { 28, 8, -3, 7, -1, 1, 18, 12 }
local error_of_it = pn.tensor { 15, 10, 16, 11, 9, 11, 10, 18 }

-- theta = mu + tau z: with z in place of theta the posterior has no narrow neck where tau is near 0.
local model = pn.model(function(m, y, s)
  local mu = m:sample("mu", dist.normal(0, 5))
  local tau = m:sample("tau", dist.half_cauchy(5))
  m:plate("schools", 8, function()
    local z = m:sample("z", dist.normal(0, 1))
    local theta = m:deterministic("theta", mu + tau * z)
    m:observe("y", dist.normal(theta, s), y)
  end)
end)
local data = { effect, error_of_it }

local draws = quick and 1000 or 10000
local posterior = pn.nuts(model, { data = data, draws = draws, target_accept = 0.9 })
print(("NUTS: %d draws in %.1f s, %d divergences"):format(posterior.draws.mu:numel(), posterior.seconds,
  posterior.divergences))

-- Guides. k-hat tells how well one can be corrected: its draws, picked again by their weights p / q, are draws of the
-- posterior where it is below 0.7.
local fits = {}
for _, name in ipairs { "mean_field", "full_rank", "flow" } do
  local fit = pn.svi(model, name, { data = data, steps = quick and 2000 or 10000, draws = 8 })
  local bound = fit:bound { draws = 20000 }
  print(("%-11s ELBO %.3f, log evidence %.3f, k-hat %.2f, %.1f s"):format(name .. ":", bound.elbo, bound.value,
    fit:k_hat(20000), fit.seconds))
  fits[name] = fit
end
local flow = fits.flow:sample(4 * draws)
local corrected = fits.flow:resample(2000, { draws = 100000 })
local nuts = posterior:summary { "mu", "tau", "theta" }
local mean_field = fits.mean_field:sample(4 * draws)

local function at(sites, name) -- "theta[3]" of a table of draws
  local site, k = name:match "^(%w+)%[(%d+)%]$"
  return k and sites[site]:select(2, math.tointeger(k)) or sites[name]
end
local worst = 0
print(("\n%-10s %15s %15s %15s %15s %9s"):format("", "NUTS", "mean-field", "flow", "flow, weighted", "MC error"))
for _, row in ipairs(nuts) do
  io.write(("%-10s %8.2f +-%5.2f"):format(row.name, row.mean, row.sd))
  for _, sites in ipairs { mean_field, flow, corrected } do
    io.write((" %8.2f +-%5.2f"):format(at(sites, row.name):mean():item(), at(sites, row.name):std():item()))
  end
  local mc_error = math.sqrt(row.mcse ^ 2 + row.sd ^ 2 / 2000)
  worst = math.max(worst, math.abs(at(corrected, row.name):mean():item() - row.mean) / mc_error)
  print((" %9.3f"):format(mc_error))
end
print(("weighted draws of the flow and NUTS differ by at most %.1f Monte Carlo errors"):format(worst))

-- The picture: each school by itself and among the others, and how much they differ.
local function intervals(sites, shift, label)
  local theta = pn.sort(sites.theta, 1)
  local n = theta:size(1)
  return pn.plot.error_bars(pn.arange(1, 9) + shift, theta[n // 2],
    { lower = theta[n // 20], upper = theta[n - n // 20] }, { label = label })
end
local sampled = { tau = posterior.draws.tau:reshape { -1 }, theta = posterior.draws.theta:reshape { -1, 8 } }
local schools = pn.plot.panel { title = "Effect of coaching: median and 90 %", x_label = "school", y_label = "points",
  x_range = { 0.4, 8.6 }, x_step = 1, legend = "below",
  pn.plot.error_bars(pn.arange(1, 9) - 0.24, effect, error_of_it * 1.645, { label = "alone", colour = "#999999" }),
  intervals(sampled, -0.08, "NUTS"), intervals(corrected, 0.08, "flow, weighted"),
  intervals(mean_field, 0.24, "mean-field") }
local grid = pn.linspace(-4, 4, 120)
local function density(tau, label) -- a normal kernel on each draw of log tau
  local kernels = dist.normal(tau:log(), 0.2):log_prob(grid:unsqueeze(2):broadcast_to { 120, tau:numel() }):exp()
  return pn.plot.line(grid, kernels:mean(2), { label = label })
end
local spread = pn.plot.panel { title = "How much the schools differ", x_label = "log tau", y_label = "density",
  legend = "top left", y_range = { 0, 0.6 }, density(sampled.tau, "NUTS"), density(corrected.tau, "flow, weighted"),
  density(mean_field.tau, "mean-field") }
local picture, why = pn.plot.save(out, { columns = 2, size = { 1000, 420 }, schools, spread })
print(picture and "picture: " .. picture or "no picture: " .. why)
