--- Bayesian regression with a small network on data with a gap: how sure is the network where it has seen nothing?
--- Two posteriors of the same model, curve and noise learned together. An independent normal for each weight, trained
--- in a moment: its band hardly widens in the gap. And draws of all weights by Hamiltonian Monte Carlo: theirs opens.
---
---     penumbra examples/01_bayesian_regression.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local nn, optim, infer, dist = pn.nn, pn.optim, pn.infer, pn.dist
local train, metrics = pn.train, pn.metrics

local quick, seed, out = false, 1, "bayesian_regression.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 01_bayesian_regression.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- The data: y = curve(x) + noise, for x in -2 to -0.1 and in 1.2 to 2, none in the gap, where a hill stands.
local noise_sd = 0.15
local left, gap, right = { -2, -0.1 }, { -0.1, 1.2 }, { 1.2, 2 }
local function curve(x)
  return (x * 3):sin() + x * 0.5
end
local function noisy(x)
  return curve(x) + pn.randn(x:shape()) * noise_sd
end
local function between(range, n)
  return pn.rand { n, 1 } * (range[2] - range[1]) + range[1]
end
local function where_data_are(n)
  return pn.concatenate({ between(left, n * 7 // 10), between(right, n - n * 7 // 10) }, 1)
end
local n = 400
local x_train = where_data_are(n)
local y_train = noisy(x_train)

-- The network, in two forms: with a normal posterior for each weight, and with plain weights that get a prior.
local hidden = 20
local prior_in, prior_out = 2, 0.5
local mean_field = nn.sequential {
  nn.bayes_linear(1, hidden, { prior_scale = prior_in, posterior_scale = 0.02, bias_init = "lecun" }),
  nn.tanh(),
  nn.bayes_linear(hidden, 1, { prior_scale = prior_out, posterior_scale = 0.02 }),
}
local plain = nn.sequential { nn.linear(1, hidden), nn.tanh(), nn.linear(hidden, 1) }

-- Independent posteriors: Adam on the negative ELBO per datum.
local log_noise = pn.param(pn.full({}, -1))
local params = mean_field:parameters()
table.insert(params, log_noise)
table.insert(params.names, "log_noise")
local epochs, batch_size = quick and 300 or 2000, 100
local result = train.fit {
  data = { x_train, y_train },
  loss = function(x, y)
    local log_likelihood = dist.normal(mean_field(x), log_noise:exp()):log_prob(y):sum(2)
    return -infer.elbo { log_likelihood = log_likelihood, kl = mean_field:kl(), num_data = n } / n
  end,
  optimiser = optim.adam(params),
  schedule = optim.cosine(1e-2, 1e-4, epochs * n / batch_size),
  epochs = epochs,
  batch_size = batch_size,
  compile = true,
  progress = true,
}

-- All weights together: draws of the posterior.
local function network(m, x)
  local f = m:network("net", plain, function(name)
    return dist.normal(0, name:find "^1" and prior_in or prior_out)
  end)
  return f(x)
end
local model = pn.model(function(m, x, y)
  local noise = m:sample("noise", dist.half_normal(1))
  m:observe("y", dist.normal(network(m, x), noise), y)
end)
local posterior = pn.hmc(model, {
  data = { x_train, y_train },
  steps = 60,
  chains = 2,
  warmup = quick and 150 or 500,
  draws = quick and 150 or 1000,
  progress = true,
})
local curves = pn.model(function(m, x)
  m:observe("f", dist.delta(network(m, x)))
end)

-- Predictions: mixtures over draws of the network. loc is [draws, rows], scale one number or [draws, 1].
local predict = {}
function predict.mean_field(x)
  return pn.no_grad(function()
    local many = x:unsqueeze(1):broadcast_to { 500, x:size(1), 1 }
    return mean_field(many):squeeze(3), log_noise:exp():detach()
  end)
end
function predict.sampled(x)
  return posterior:predict({ model = curves, data = { x } }).f:squeeze(3), posterior.draws.noise:reshape { -1, 1 }
end

print(("independent posteriors: %d steps in %.1f s; draws: %d in %.1f s"):format(result.step, result.seconds,
  posterior.draws.noise:numel(), posterior.seconds))
print(("%-30s %14s %14s %8s"):format("", "independent", "drawn together", "right"))
for _, where in ipairs { "where there are data", "in the gap" } do
  local x = where == "in the gap" and between(gap, 1000) or where_data_are(1000)
  local y = noisy(x)
  local flat, best = y:reshape { -1 }, dist.normal(curve(x), noise_sd):log_prob(y):mean():item()
  local rows = { { "log-likelihood per point", best }, { "coverage of 50 % intervals", 0.5 },
    { "coverage of 90 % intervals", 0.9 } }
  for _, name in ipairs { "mean_field", "sampled" } do
    local loc, scale = predict[name](x)
    local cdf = metrics.mixture_cdf(flat, loc, scale)
    for k, value in ipairs { metrics.mixture_log_prob(flat, loc, scale):mean():item(), metrics.coverage(cdf, 0.5),
      metrics.coverage(cdf, 0.9) } do
      table.insert(rows[k], value)
    end
  end
  print(where)
  for _, row in ipairs(rows) do
    print(("  %-28s %14.3f %14.3f %8.3f"):format(row[1], row[3], row[4], row[2]))
  end
end

-- The picture: quantiles of both predictions over a grid that reaches beyond the data.
local grid = pn.linspace(-2.6, 2.6, 200)
local function panel(title, name)
  local loc, scale = predict[name](grid:unsqueeze(2))
  local quantiles = {}
  for k, p in ipairs { 0.05, 0.25, 0.5, 0.75, 0.95 } do
    quantiles[k] = metrics.mixture_quantile(p, loc, scale)
  end
  return pn.plot.panel {
    title = title, x_label = "x", y_label = "y", legend = "top left", y_range = { -3.2, 3.2 },
    pn.plot.points(x_train, y_train, { label = "data", size = 0.3, colour = "#888888" }),
    pn.plot.fan(grid, quantiles, { label = "prediction" }),
    pn.plot.line(grid, curve(grid), { label = "the truth", colour = "#000000", dashed = true, width = 1 }),
  }
end
local picture, why = pn.plot.save(out, {
  panel("Independent posteriors: 50 % and 90 % of the prediction", "mean_field"),
  panel("All weights drawn together", "sampled"),
})
print(picture and "picture: " .. picture or "no picture: " .. why)
