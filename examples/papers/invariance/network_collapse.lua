--- Mean-field networks of growing width on a one-dimensional regression: what Kurle et al. (2022) argue and do not run.
--- One hidden layer of tanh units, every weight with the prior N(0, 1), those of the output with 1 / width, so that the
--- prior of the function does not depend on the width. The fit of a mean-field normal posterior pays for each of its
--- weights; the data pay at most the data bound (pn.invariance.data_bound), so that with the width its predictive
--- variance must go back to the prior's and its mean to 0 (Coker et al. 2022). Beside it the layer-by-layer fit of
--- invariance-abiding posteriors (pn.invariance.fit_layers), and NUTS at the widths where it is affordable.
---
---     penumbra examples/papers/invariance/network_collapse.lua [--quick] [--seed 1] [--steps 10000] [--out FOLDER]
---         [--widths 4,16,64,256,1024,4096] [--layers 256] [--nuts 64]      (the largest widths of these two)
---
--- prints a table and writes network_collapse.png.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local dist, inv, nn, optim, plot = pn.dist, pn.invariance, pn.nn, pn.optim, pn.plot

local option = { quick = false, seed = 1, steps = 10000, out = ".",
  widths = "4,16,64,256,1024,4096", layers = 256, nuts = 64 }
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-(%w+)$"
  if name == "quick" then
    option.quick, option.steps, option.widths, option.nuts = true, 400, "4,64", 4
  elseif name and option[name] ~= nil and arg[i + 1] then
    local number = type(option[name]) == "number"
    option[name], i = number and math.tointeger(tonumber(arg[i + 1])) or arg[i + 1], i + 1
  else
    io.stderr:write("usage: network_collapse.lua [--quick] [--seed N] [--steps N] [--out FOLDER] [--widths 4,16] ",
      "[--nuts 64]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(option.seed)

-- ---- data: a wave, with nothing between -0.3 and 0.3 ----

local noise = 0.1
local side = pn.linspace(-1, -0.3, 10)
local x = pn.concatenate({ side, side + 1.3 }, 1):unsqueeze(2) -- [20, 1]
local n = x:size(1)
local y = (x * 4):sin() + pn.randn { n, 1 } * noise
local grid = pn.linspace(-1.5, 1.5, 61):unsqueeze(2)

local function network(width)
  return nn.sequential { nn.linear(1, width), nn.tanh(), nn.linear(width, 1) }
end

-- Prior scales by the parameter's name.
local function prior_scale(name, width)
  return name:find "^3" and width ^ -0.5 or 1
end

local function log_likelihood(f)
  return dist.normal(f, noise):log_prob(y):sum()
end

-- The prior's variance of f at x: 1 + 1 / width and E tanh(w x + b)^2, by a trapezoid rule over normal numbers.
local function prior_variance(at, width)
  local t = pn.linspace(-8, 8, 2001)
  local weight = dist.normal(0, 1):log_prob(t):exp() * (16 / 2000)
  local h = ((at:square() + 1):sqrt() * t):tanh():square() -- [n, 2001]
  return (h * weight):sum(2) + 1 / width
end

-- ---- the three ways ----

-- Summary of draws of the function at the data and on the grid: [S, n, 1].
local function summary(at_data, on_grid)
  local mean = at_data:mean(1)
  return { rmse = (mean - y):square():mean():sqrt():item(), size = mean:square():mean():sqrt():item(),
    variance = at_data:var(1):mean():item(), grid_mean = on_grid:mean(1):squeeze(2),
    grid_sd = on_grid:std(1):squeeze(2) }
end

local function mean_field(width)
  local net = nn.bayesian(network(width), {
    prior = function(name) return dist.normal(0, prior_scale(name, width)) end, posterior_scale = 0.3 })
  for name, s in pairs(net.log_scale) do
    s:set(pn.full(s:shape(), math.log(0.3 * prior_scale(name, width))))
  end
  local opt = optim.adam(net:parameters(), { lr = 0.01 })
  local step = pn.compile(function() return (net:kl() - log_likelihood(net(x))) / n end, { optimiser = opt })
  for k = 1, option.steps do
    opt.lr = 0.01 * 0.5 * (1 + math.cos(math.pi * (k - 1) / option.steps)) + 1e-5
    step()
  end
  local draws = option.quick and 200 or 1000
  local result = pn.no_grad(function()
    local at_data, on_grid, ell = {}, {}, 0
    for k = 1, draws do
      at_data[k], on_grid[k] = net(x), net(grid)
      ell = ell + log_likelihood(at_data[k]):item() / draws
    end
    local r = summary(pn.stack(at_data, 1), pn.stack(on_grid, 1))
    r.kl, r.ell = net:kl():item(), ell
    return r
  end)
  return result, net
end

local function layer_wise(width)
  local net = network(width)
  local fit = inv.fit_layers(net, { x = x, y = y, noise_scale = noise, prior_scale = { 1, width ^ -0.5 },
    steps = option.steps // 10, max_sweeps = 3, input_draws = option.quick and 4 or 32 })
  local draws = option.quick and 200 or 1000
  local r = summary(fit:predict(x, { draws = draws }), fit:predict(grid, { draws = draws }))
  r.sweeps, r.converged = fit.sweeps, fit.converged
  return r
end

local function sampled(width)
  local base = network(width)
  local model = pn.model(function(m)
    local net = m:network("net", base, function(name, shape)
      return dist.normal(pn.zeros(shape), prior_scale(name, width)):independent(#shape)
    end)
    m:deterministic("f", net(x))
    m:deterministic("g", net(grid))
    m:observe("y", dist.normal(net(x), noise):independent(2), y)
  end)
  local posterior = pn.nuts(model, { chains = 2, warmup = option.quick and 50 or 500,
    draws = option.quick and 50 or 500 })
  local function all(name)
    local t = posterior.draws[name]
    return t:reshape { t:size(1) * t:size(2), t:size(3), 1 }
  end
  return summary(all "f", all "g")
end

-- ---- the widths ----

local panels, rows = { columns = 3, size = { 1500, 1 } }, {}
local blue, red, grey = "#2255aa", "#c0392b", "#777777"

local function panel(title, r, prior_sd)
  local g = grid:squeeze(2)
  panels[#panels + 1] = plot.panel { title = title, y_range = { -2.5, 2.5 }, legend = "none",
    plot.band(g, -prior_sd * 2, prior_sd * 2, { colour = grey, opacity = 0.12 }),
    plot.band(g, r.grid_mean - r.grid_sd * 2, r.grid_mean + r.grid_sd * 2, { colour = blue }),
    plot.line(g, r.grid_mean, { colour = blue }), plot.points(x, y, { colour = red }) }
end

print("  width  way          KL[q||p]  data bound      ELL      ELBO   gap(perm.)  RMSE   |mean|  variance  prior's")
for width in option.widths:gmatch "%d+" do
  width = math.tointeger(tonumber(width))
  local at_data, prior_sd = prior_variance(x, width), prior_variance(grid, width):sqrt()
  local prior = at_data:mean():item()
  local bound = inv.data_bound { y = y:squeeze(2), output_variance = at_data, noise_variance = noise ^ 2 }.bound:item()
  local function report(way, r)
    rows[#rows + 1] = { width = width, way = way, result = r, prior = prior }
    print(("%7d  %-11s %9s %11s %9s %9s %11s %6.3f %7.3f %9.5f %8.4f"):format(width, way,
      r.kl and ("%.2f"):format(r.kl) or "", r.kl and ("%.1f"):format(bound) or "",
      r.ell and ("%.2f"):format(r.ell) or "",
      r.kl and ("%.2f"):format(r.ell - r.kl) or "", r.gap or "", r.rmse, r.size, r.variance, prior))
    io.flush()
    panel(("%s, width %d"):format(way, width), r, prior_sd)
  end
  local r, net = mean_field(width)
  local mix = inv.permutation_mixture(net)
  if width <= 12 then
    r.gap = ("%.2f"):format(mix:gap({ draws = 1000 }).gap)
  elseif width <= 64 then
    local b = mix:bounds { draws = option.quick and 20 or 100, permutations = 20 }
    r.gap = ("%.1f-%.1f"):format(b.lower, b.upper)
  end
  report("mean-field", r)
  for _, other in ipairs { { "layer-wise", option.layers, layer_wise }, { "NUTS", option.nuts, sampled } } do
    if width <= other[2] then
      report(other[1], other[3](width))
    else
      panels[#panels + 1] = plot.panel { title = ("%s, width %d: not run"):format(other[1], width), legend = "none",
        x_range = { -1.5, 1.5 }, y_range = { -2.5, 2.5 }, plot.points(x, y, { colour = red }) }
    end
  end
end

panels.size = { 1300, #panels // 3 * 300 }
local path, message = plot.save(option.out .. "/network_collapse.png", panels)
print(path and "wrote " .. path or "no picture: " .. message)
