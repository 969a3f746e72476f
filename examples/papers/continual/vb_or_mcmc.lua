--- What a mean-field posterior makes of few data: a network of 2 x 16 tanh units with priors N(0, 1) on two moons, by
--- variational Bayes with 70 and with 100 data, the divergence annealed from 0 to 1, and by NUTS with 70 (Kurle et al.
--- 2020, figure 1). The document names neither its data nor its sampler.
---
---     penumbra examples/papers/continual/vb_or_mcmc.lua [--few 70] [--many 100] [--anneal 450000] [--steps 50000]
---         [--lr 0.005] [--noise 0.15] [--seed 1] [--out FOLDER]
---
--- writes vb_or_mcmc.txt, the table below, and vb_or_mcmc.svg: the predictive probabilities and the terms of the ELBO
--- on the way.
---
--- RESULTS
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local dist, nn, optim, plot = pn.dist, pn.nn, pn.optim, pn.plot

local option = experiment.options({ few = 70, many = 100, anneal = 450000, steps = 50000, lr = 0.005, draws = 4,
  noise = 0.15, seed = 1, warmup = 500, samples = 500, chains = 2, test = 2000 },
  { anneal = 1000, steps = 200, warmup = 30, samples = 30, chains = 1, test = 500 })
local write = experiment.report(option, "vb_or_mcmc")

-- ---- data: centred and scaled as the first `many` ----

local all_x, all_y = pn.data.two_moons(option.many, { noise = option.noise, seed = option.seed })
local centre, width = all_x:mean(1), all_x:std(1, 0)
local function data(n)
  return ((all_x - centre) / width):slice(1, 1, n), all_y:slice(1, 1, n)
end
local test_x, test_y = pn.data.two_moons(option.test, { noise = option.noise, seed = 1000 + option.seed })
test_x = (test_x - centre) / width

local side = 61
local axis = pn.linspace(-3, 3, side)
local grid = pn.stack({ pn.tile(axis, { side }), pn.repeat_interleave(axis, side, 1) }, 2)

local function network()
  return nn.sequential { nn.linear(2, 16), nn.tanh(), nn.linear(16, 16), nn.tanh(), nn.linear(16, 1) }
end

-- log p(y | logits), logits [..., N, 1]
local function log_likelihood(logits, y)
  return -((1 - y:to "float64" * 2) * logits:squeeze(-1)):softplus()
end

-- ---- the two ways: each gives draws of the logits, at [n, 2] ----

local function variational(n)
  pn.seed(option.seed)
  local x, y = data(n)
  local net = nn.bayesian(network(), { prior = 1, posterior_scale = 0.1 })
  local opt = optim.adam(net:parameters(), { lr = option.lr })
  local many_x, many_y = pn.tile(x, { option.draws, 1 }), pn.tile(y, { option.draws })
  local step = pn.compile(function(weight)
    local expected = log_likelihood(net(many_x), many_y):sum() / option.draws
    local kl = net:kl()
    return weight * kl - expected, expected, kl
  end, { optimiser = opt })
  local total, every = option.anneal + option.steps, math.max(1, (option.anneal + option.steps) // 500)
  local curve, sums = { at = {}, expected = {}, kl = {} }, { 0, 0 }
  for k = 1, total do
    local weight = math.min(1, k / option.anneal)
    if k > option.anneal then -- a falling rate at the end
      opt.lr = option.lr * 0.01 ^ ((k - option.anneal) / option.steps)
    end
    local _, expected, kl = step(pn.tensor(weight))
    sums[1], sums[2] = sums[1] + expected:item(), sums[2] + kl:item()
    if k % every == 0 then
      local at = #curve.at + 1
      curve.at[at], curve.expected[at], curve.kl[at] = k, sums[1] / every, sums[2] / every
      sums = { 0, 0 }
    end
  end
  -- the same weights for all points, as NUTS has it
  local S, w = option.chains * option.samples, {}
  for _, name in ipairs(net.names) do
    local q = net:posterior(name)
    local weight = (q.loc + q.scale * pn.randn { S, table.unpack(q.loc:shape()) }):detach()
    w[name] = name:find "bias" and weight:unsqueeze(2) or weight
  end
  return function(at)
    local h = (at:matmul(w["1.weight"]) + w["1.bias"]):tanh()
    h = (h:matmul(w["3.weight"]) + w["3.bias"]):tanh()
    return h:matmul(w["5.weight"]) + w["5.bias"]
  end, curve
end

local function sampled(n)
  pn.seed(option.seed)
  local x, y = data(n)
  local base = network()
  local model = pn.model(function(m)
    local net = m:network("net", base, function(_, shape)
      return dist.normal(pn.zeros(shape), 1):independent(#shape)
    end)
    m:deterministic("test", net(test_x))
    m:deterministic("grid", net(grid))
    m:observe("y", dist.bernoulli { logits = net(x):squeeze(2) }:independent(1), y:to "float64")
  end)
  local posterior = pn.nuts(model, { chains = option.chains, warmup = option.warmup, draws = option.samples })
  local function all(t) return t:reshape { t:size(1) * t:size(2), t:size(3), t:size(4) } end
  return function(at) return all(posterior.draws[at == grid and "grid" or "test"]) end, posterior
end

-- The decision of a straight line: logistic regression on the test points.
local function straight()
  local w = pn.param(pn.zeros { 2, 1 })
  local b = pn.param(pn.zeros { 1 })
  local opt = optim.adam({ w, b }, { lr = 0.05 })
  local step = pn.compile(function() return -log_likelihood(test_x:matmul(w) + b, test_y):mean() end,
    { optimiser = opt })
  for _ = 1, 1000 do step() end
  return pn.no_grad(function() return grid:matmul(w) + b end):squeeze(2):gt(0)
end

-- ---- the table and the picture ----

write("way        data   test LML   accuracy   as a line   E log p        KL      ELBO")
local panels, line = {}, straight()

local function panel(title, probability, n)
  local x, y = data(n)
  local function class(k)
    local at = y:eq(k):nonzero():squeeze(2)
    local p = x:take(1, at)
    return plot.points(p:select(2, 1), p:select(2, 2), { colour = k == 0 and "#2255aa" or "#c0392b", size = 0.7 })
  end
  panels[#panels + 1] = plot.panel { title = title, x_range = { -3, 3 }, y_range = { -3, 3 }, legend = "none",
    plot.heatmap(probability:reshape { side, side }, { x = axis, y = axis, palette = "grey" }), class(0), class(1) }
end

-- The logarithm of the mean of p over draws of the logits [S, N, 1], averaged over the test points.
local function lml_of(logits)
  return (log_likelihood(logits, test_y):logsumexp(1) - math.log(logits:size(1))):mean():item()
end

local function evaluate(name, n, draws, curve)
  local logits = draws(test_x)
  local probability = draws(grid):sigmoid():mean(1):squeeze(2)
  local accuracy = logits:sigmoid():mean(1):squeeze(2):gt(0.5):eq(test_y:eq(1)):to "float64":mean():item()
  local linear = probability:gt(0.5):eq(line):to "float64":mean():item()
  local last = curve and #curve.at
  write("%-9s %5d   %8.4f   %8.3f   %9.3f   %7s   %7s   %7s", name, n, lml_of(logits), accuracy, linear,
    last and ("%.2f"):format(curve.expected[last]) or "", last and ("%.2f"):format(curve.kl[last]) or "",
    last and ("%.2f"):format(curve.expected[last] - curve.kl[last]) or "")
  panel(("%s, %d data"):format(name, n), probability, n)
end

local curves = {}
do
  local draws, posterior = sampled(option.few)
  evaluate("NUTS", option.few, draws)
  local each = {}
  for k = 1, option.chains do each[k] = ("%.4f"):format(lml_of(posterior.draws.test[k])) end
  write("          of each chain: %s; %d divergences", table.concat(each, " "), posterior.divergences)
end
for k, n in ipairs { option.few, option.many } do
  local draws, curve = variational(n)
  curves[k] = curve
  evaluate("VB", n, draws, curve)
end
local terms = { title = "terms of the ELBO while the KL is annealed", x_label = "step", legend = "below",
  y_range = { -100, 300 } }
for k, n in ipairs { option.few, option.many } do
  local colour = k == 1 and "#2255aa" or "#c0392b"
  terms[2 * k - 1] = plot.line(curves[k].at, curves[k].expected, { label = ("E log p, %d"):format(n),
    colour = colour })
  terms[2 * k] = plot.line(curves[k].at, curves[k].kl, { label = ("KL, %d"):format(n), colour = colour,
    dashed = true })
end
panels[#panels + 1] = plot.panel(terms)
experiment.picture(option, "vb_or_mcmc", panels, { columns = 2, size = { 1000, 900 } })
