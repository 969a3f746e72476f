--- What a layer gets under the prior of variance 1 / (fan-in c_f), c_f the variance that the activation f before it
--- gives to normal numbers, and under the random start of the posterior that shares this variance out between means and
--- scales (Kurle et al. 2020, appendices H and I): mean and variance of pre-activations in every layer, over data and
--- over networks, for nine activations.
---
---     penumbra examples/papers/continual/prior_init.lua [--width 32] [--depth 4] [--inputs 8] [--networks 300]
---         [--data 200] [--seed 1] [--out FOLDER]
---
--- writes prior_init.txt, the table of README.md with its spreads between networks, and prior_init.svg. Networks are
--- those of pn.nn.bayesian with prior and posterior_scale "unit_variance"; data are normal, standardised; without
--- biases unless the line says so. Measured with the defaults in half a minute (one thread), in layers 1 to 4; standard
--- error of a variance up to 0.02, of softplus 0.04.
--- Results, and what the document leaves open, are on README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local nn, plot = pn.nn, pn.plot

local option = experiment.options({ width = 32, depth = 4, inputs = 8, networks = 300, data = 200, seed = 1 },
  { networks = 6, data = 50, depth = 3 })
local write = experiment.report(option, "prior_init")
pn.seed(option.seed)

local function erf(x) return x:erf() end
local function sin(x) return x:sin() end

-- name, the activation and what the document's table or, with a star, a quadrature says of c_f
local activations = { { "identity", nil, 1 }, { "tanh", nn.tanh(), 0.3942944904 }, { "erf", erf, 0.4645590544 },
  { "sin", sin, 0.4323323584 }, { "relu", nn.relu(), 0.3408450569 }, { "leaky_relu", nn.leaky_relu(), 0.3440622403 },
  { "elu", nn.elu(), 0.6191785634 }, { "softplus", nn.softplus(), 0.2715145018 },
  { "sigmoid", nn.sigmoid(), 0.0433790359 } }

local function network(f, bias)
  local sizes = { option.inputs }
  for k = 1, option.depth do sizes[k + 1] = option.width end
  local net = nn.mlp(sizes, { activation = f or false, bias = bias })
  net[#net + 1] = f
  return nn.bayesian(net, { prior = "unit_variance", posterior_scale = "unit_variance" })
end

-- Weights and biases of many networks, by layer, drawn from the prior or from the first posterior: [S, in, out].
local function draws(f, bias, from_prior)
  local layers, net = {}, nil
  for s = 1, option.networks do
    net = from_prior and net or network(f, bias)
    local l = 0
    for _, p in ipairs(net:named_parameters()) do
      local name, value = p[1]:match "^net%.(.*)" or p[1], p[2]
      if net.log_scale[name] then
        local q = from_prior and net.priors[name] or net:posterior(name)
        local drawn = q.loc + q.scale * pn.randn(value:shape())
        local kind = name:match "[^.]+$"
        l = l + (kind == "weight" and 1 or 0)
        layers[l] = layers[l] or { weight = {}, bias = {} }
        layers[l][kind][s] = drawn
      end
    end
  end
  return layers
end

-- Of each layer the mean over networks and units of: mean over data, variance over data, mean square over data; and the
-- standard deviation of the variance between networks.
local function passed(f, layers, x)
  local h, list = x, {}
  for l, layer in ipairs(layers) do
    local a = h:matmul(pn.stack(layer.weight, 1))
    if #layer.bias > 0 then a = a + pn.stack(layer.bias, 1):unsqueeze(2) end
    local variance = a:var(2, 0):mean(2)
    list[l] = { mean = a:mean():item(), variance = variance:mean():item(), spread = variance:std():item(),
      square = a:square():mean():item() }
    h = f and f(a) or a
  end
  return list
end

-- ---- the table ----

local x = pn.randn { option.data, option.inputs }
x = (x - x:mean(1)) / x:std(1, 0)
local settings = { { "prior", "prior", false, true }, { "start", "start of the posterior", false, false },
  { "prior, biases", "prior, with biases", true, true } }
local found = {}

local function row_of(list, field)
  local words = {}
  for l = 1, #list do words[l] = ("%8.3f"):format(list[l][field]) end
  return table.concat(words)
end

write("inputs %d, %d layers of %d, %d networks, %d data; in layers 1, 2, ...", option.inputs, option.depth,
  option.width, option.networks, option.data)
write("%-10s %-12s %-14s %-" .. 8 * option.depth .. "s %-" .. 8 * option.depth .. "s   %s", "", "c_f", "", "variance",
  "mean square", "sd of the variance between networks")
for _, row in ipairs(activations) do
  local name, f, c = row[1], row[2], row[3]
  local own = f and nn.activation_variance(f) or 1
  assert(math.abs(own - c) < 1e-9, name)
  found[name] = {}
  for k, setting in ipairs(settings) do
    local list = passed(f, draws(f, setting[3], setting[4]), x)
    found[name][k] = list
    write("%-10s %-12s %-14s%s %s %s", k == 1 and name or "", k == 1 and ("%.10f"):format(own) or "", setting[1],
      row_of(list, "variance"), row_of(list, "square"), row_of(list, "spread"))
  end
end

-- ---- the picture ----

local panels = {}
local colours = { "#777777", "#1b4f8a", "#2f8fb3", "#3aa66b", "#b5486a", "#e0785a", "#d98e2b", "#7d5ba6", "#111111" }
local function panel(title, k, field, log)
  local marks = { title = title, x_label = "layer", y_log = log, legend = "below", x_step = 1,
    x_range = { 1, option.depth } }
  for a, row in ipairs(activations) do
    local values = {}
    for l = 1, option.depth do values[l] = found[row[1]][k][l][field] end
    marks[#marks + 1] = plot.line(nil, values, { label = row[1], colour = colours[a] })
  end
  panels[#panels + 1] = plot.panel(marks)
end
panel("variance over data, prior", 1, "variance")
panel("variance over data, start of the posterior", 2, "variance")
panel("mean square, prior", 1, "square", true)
experiment.picture(option, "prior_init", panels, { columns = 3, size = { 1350, 430 } })
