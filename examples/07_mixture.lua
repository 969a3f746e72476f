--- A mixture of three normals whose labels are lost: they are summed out exactly, the rest is sampled by NUTS and
--- fitted by pn.svi. A second run shows what happens where nothing tells the components apart: the chains call them by
--- different names, and R-hat says so.
---
---     penumbra examples/07_mixture.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out = false, 1, "mixture.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 07_mixture.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- The data: times between events of three kinds, on a logarithmic scale; which kind each was has been lost.
local n, true_weights = 250, pn.tensor { 0.3, 0.45, 0.25 }
local true_loc, true_scale = pn.tensor { -2, 0.5, 3 }, pn.tensor { 0.5, 0.6, 0.4 }
local kind = dist.categorical { probs = true_weights }:sample { n }
local y = true_loc:take(1, kind) + true_scale:take(1, kind) * pn.randn { n }

-- The label k of each datum is summed out exactly (enumerate): what is left is smooth. The components have no names
-- of their own, so the posterior has one mode for each of their 3! orders; an ordered vector keeps one of them.
local function mixture(constraint)
  return pn.model(function(m, x)
    local weights = m:sample("weights", dist.dirichlet { 2, 2, 2 })
    local loc = m:sample("loc", dist.normal(pn.zeros { 3 }, 4):independent(1), { constraint = constraint })
    local scale = m:sample("scale", dist.log_normal(pn.full({ 3 }, -0.5), 0.7):independent(1))
    m:plate("data", x:size(1), function()
      local k = m:sample("k", dist.categorical { probs = weights }, { enumerate = true })
      m:observe("y", dist.normal(loc:take(1, k), scale:take(1, k)), x)
    end)
  end)
end
local model = mixture "ordered_vector"

-- There are lesser modes still (two components on one hump), so chains and guides start at the thirds of the data.
local sorted = pn.sort(y)
local start = { weights = { 1 / 3, 1 / 3, 1 / 3 }, scale = { 0.5, 0.5, 0.5 },
  loc = pn.stack({ sorted[n // 6], sorted[n // 2], sorted[5 * n // 6] }, 1) }

local warmup, draws = quick and 250 or 1000, quick and 400 or 2000
local posterior = pn.nuts(model, { data = { y }, warmup = warmup, draws = draws, init = start, progress = true })
print(("NUTS: %d draws in %.1f s, %d divergences"):format(4 * draws, posterior.seconds, posterior.divergences))
local fits = {}
for _, name in ipairs { "mean_field", "full_rank" } do
  local guide = pn.infer.guide(name, { init = start })
  local fit = pn.svi(model, guide, { data = { y }, steps = quick and 1000 or 5000, draws = 4, lr = 0.02 })
  local bound = fit:bound { draws = 4000 }
  print(("%-11s ELBO %.2f, log evidence %.2f, k-hat %.2f, %.1f s"):format(name .. ":", bound.elbo, bound.value,
    fit:k_hat(4000), fit.seconds))
  fits[name] = fit
end
local mean_field, full_rank = fits.mean_field:sample(4000), fits.full_rank:sample(4000)
local weighted = fits.full_rank:resample(2000)

local truth, worst = { weights = true_weights, loc = true_loc, scale = true_scale }, 0
print(("\n%-11s %6s %16s %16s %16s %16s"):format("", "truth", "NUTS", "mean-field", "full-rank", "weighted"))
for _, row in ipairs(posterior:summary()) do
  local site, k = row.name:match "^(%w+)%[(%d)%]$"
  k = math.tointeger(k)
  io.write(("%-11s %6.2f %7.3f +-%6.3f"):format(row.name, truth[site][k]:item(), row.mean, row.sd))
  for _, sites in ipairs { mean_field, full_rank, weighted } do
    local x = sites[site]:select(2, k)
    io.write((" %7.3f +-%6.3f"):format(x:mean():item(), x:std():item()))
  end
  print()
  local mc_error = math.sqrt(row.mcse ^ 2 + row.sd ^ 2 / 2000)
  worst = math.max(worst, math.abs(weighted[site]:select(2, k):mean():item() - row.mean) / mc_error)
end
print(("weighted draws of full-rank and NUTS differ by at most %.1f Monte Carlo errors"):format(worst))

-- The labels come back from the posterior: probabilities of each datum's component, the mean over the draws.
local label = posterior:labels({ draws = 400 }).k
print(("the likeliest component is the true one for %.1f %% of the data; the mean probability of the likeliest is %.3f")
  :format(100 * label:argmax(-1):eq(kind):to("float64"):mean():item(), label:max(-1):mean():item()))

-- Without the order each chain settles on an order of its own.
local unordered = pn.nuts(mixture(), { data = { y }, warmup = 200, draws = 200 })
local r_hat = 0
for _, row in ipairs(unordered:summary { "loc" }) do r_hat = math.max(r_hat, row.r_hat) end
print(("without the order of the components: R-hat %.2f"):format(r_hat))

-- The picture: data and density, each datum's component, and the chains that disagree about names.
local sampled = {}
for name, x in pairs(posterior.draws) do
  sampled[name] = x:reshape({ -1, 3 }):slice(1, 1, 4 * draws, 4 * draws // 400)
end
local grid = pn.linspace(-4.5, 5.5, 160)
local parts = dist.normal(sampled.loc:unsqueeze(3), sampled.scale:unsqueeze(3)):log_prob(
  grid:broadcast_to { 400, 3, 160 }):exp() * sampled.weights:unsqueeze(3) -- [draws, 3, grid]
local density = pn.sort(parts:sum(2), 1)
local curves = {}
for k, p in ipairs { 0.05, 0.5, 0.95 } do curves[k] = density[math.floor(400 * p)] end
local data_panel = pn.plot.panel { title = "The data and their density, 90 %", x_label = "y", y_label = "density",
  x_range = { -4.5, 5.5 }, legend = "below",
  pn.plot.histogram(y, { density = true, bins = 30, label = "data", colour = "#aaaaaa" }),
  pn.plot.fan(grid, curves, { label = "posterior" }) }
local labels = { title = "Which component?", x_label = "y", y_label = "probability", legend = "below",
  x_range = { -4.5, 5.5 }, y_range = { 0, 1.05 } }
for k = 1, 3 do
  labels[k] = pn.plot.line(grid, (parts:select(2, k) / parts:sum(2)):mean(1), { label = "component " .. k })
end
local chains = { title = "Without an order: four chains", x_label = "draw", y_label = "loc[1]", legend = "below" }
for k = 1, 4 do
  chains[k] = pn.plot.line(nil, unordered.draws.loc[k]:select(2, 1), { label = "chain " .. k, width = 1 })
end
local picture, why = pn.plot.save(out, { columns = 3, size = { 1320, 420 }, data_panel, pn.plot.panel(labels),
  pn.plot.panel(chains) })
print(picture and "picture: " .. picture or "no picture: " .. why)
