--- Bayesian regression with a small network: curve and noise are learned together, and the prediction says
--- how sure it is. Data: 1000 noisy points of a curve. (Independent posteriors are too sure of themselves
--- where there are no data: look at the ends of the picture.)
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

-- The data: y = curve(x) + noise.
local noise_sd = 0.15
local function curve(x)
  return (x * 3):sin() + x * 0.5
end
local function sample(n)
  local x = pn.rand { n, 1 } * 4 - 2
  return x, curve(x) + pn.randn { n, 1 } * noise_sd
end
local x_train, y_train = sample(1000)
local x_test, y_test = sample(1000)
local n = x_train:size(1)

-- The model: weights have a normal posterior each; the noise is a parameter like any other.
local to_x, to_y = train.standardise(x_train), train.standardise(y_train)
local net = nn.sequential {
  nn.bayes_linear(1, 50, { prior_scale = 3, posterior_scale = 0.02, bias_init = "lecun" }),
  nn.tanh(),
  nn.bayes_linear(50, 1, { prior_scale = 0.3, posterior_scale = 0.02 }),
}
local log_noise = pn.param(pn.full({}, -1))

local function elbo(x, y)
  local log_likelihood = dist.normal(net(x), log_noise:exp()):log_prob(y):sum(2)
  return infer.elbo { log_likelihood = log_likelihood, kl = net:kl(), num_data = n }
end

-- Training: Adam on the negative ELBO per datum.
local epochs, batch_size = quick and 200 or 1500, 100
local params = net:parameters()
table.insert(params, log_noise)
table.insert(params.names, "log_noise")
local result = train.fit {
  data = { to_x(x_train), to_y(y_train) },
  loss = function(x, y)
    return -elbo(x, y) / n
  end,
  optimiser = optim.adam(params),
  schedule = optim.cosine(1e-2, 1e-4, epochs * n / batch_size),
  epochs = epochs,
  batch_size = batch_size,
  compile = true,
  progress = true,
}

-- Prediction: a mixture over draws of the network, in the units of the data. loc is [draws, rows].
local function predict(x, draws)
  return pn.no_grad(function()
    local z = to_x(x):unsqueeze(1):broadcast_to { draws, x:size(1), 1 }
    return to_y:invert(net(z)):squeeze(3), log_noise:exp() * to_y.scale:reshape {}
  end)
end

local loc, scale = predict(x_test, 200)
local y = y_test:reshape { y_test:numel() }
local cdf = metrics.mixture_cdf(y, loc, scale)
local true_log_lik = dist.normal(curve(x_test), noise_sd):log_prob(y_test):mean():item()

print(("%d steps in %.1f s"):format(result.step, result.seconds))
print(("%-28s %8s %10s"):format("on 1000 test points", "model", "the truth"))
local function row(name, value, truth)
  print(("%-28s %8.3f %10.3f"):format(name, value, truth))
end
row("log-likelihood per point", metrics.mixture_log_prob(y, loc, scale):mean():item(), true_log_lik)
row("RMSE", metrics.rmse(y, loc:mean(1)), metrics.rmse(y_test, curve(x_test)))
row("coverage of 50 % intervals", metrics.coverage(cdf, 0.5), 0.5)
row("coverage of 90 % intervals", metrics.coverage(cdf, 0.9), 0.9)
row("noise", scale:item(), noise_sd)

-- The picture: quantiles of the prediction over a grid that reaches beyond the data.
local grid = pn.linspace(-2.6, 2.6, 200)
local grid_loc, grid_scale = predict(grid:unsqueeze(2), 300)
local quantiles = {}
for k, p in ipairs { 0.05, 0.25, 0.5, 0.75, 0.95 } do
  quantiles[k] = metrics.mixture_quantile(p, grid_loc, grid_scale)
end
local picture, why = pn.plot.save(out, {
  title = "Bayesian regression: 50 % and 90 % of the prediction",
  x_label = "x",
  y_label = "y",
  legend = "top left",
  pn.plot.points(x_train, y_train, { label = "data", size = 0.25, colour = "#888888" }),
  pn.plot.fan(grid, quantiles, { label = "prediction" }),
  pn.plot.line(grid, curve(grid), { label = "the truth", colour = "#000000", dashed = true, width = 1 }),
})
print(picture and "picture: " .. picture or "no picture: " .. why)
