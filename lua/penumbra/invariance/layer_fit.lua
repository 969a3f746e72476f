--- The layer-by-layer fit of the invariance-abiding posterior of a fully connected network (proposed, and not run, in
--- section 5 of Kurle et al. 2022). In each sweep, layer after layer: m and V of the factors of a layer's nodes are
--- fitted with the layers after it at point estimates; then inputs of the next layer are drawn under the fitted
--- posterior.
---
---     local fit = pn.invariance.fit_layers(net, {x = x, y = y, noise_scale = 0.1})
---     fit:posterior(l)                 the node_posterior of layer l: batch [out], event [in + 1]
---     fit:predict(x, {draws = 100})    draws of the output: [draws, n, out]
---     fit.trace                        the objective of each layer in each sweep; fit.converged, fit.sweeps
---
--- Weights into a node end with its bias, whose input is 1. What the paper leaves open, and what is taken:
---   expectation   "conditional" (default): a datum is predicted with weights from its own component of the mixture, so
---                 that only pre-activations are drawn; "marginal": with weights from the mixture, one draw for all
---                 data, as the ELBO of the mixture asks (of many inputs, each component knows one)
---   kl            "components" (default): the mean of the components' divergences from the prior, in closed form,
---                 which is at least that of the mixture; "mixture": that of the mixture, by `draws` draws of the
---                 weights
---   point         "loc" (default): a fitted layer's point estimate is m; "mean": the mean of its posterior
---   input_draws   draws of the inputs of the next layer for each datum (default 8; with one a wide layer fits the
---   noise of
---                 its inputs)
---   scale         what V starts with, as a standard deviation in units of the prior's (default 0.5); m starts at the
---                 weights of the network, which are the first point estimates
---   steps, lr     of Adam, anew for each layer and sweep (default 300 and 0.02; lr falls along half a cosine)
---   max_sweeps    the most of them (default 5)
---   tolerance     relative change of the last layer's objective below which the fit has converged (default 1e-3)
---   prior_scale   of all weights, or a list with one for each layer (default 1); prior means are 0
---   noise_scale   of a normal likelihood; or log_likelihood = function(f, y), [..., out] -> [...]
---
--- With one input, both expectations and both divergences are the same and the objective is the ELBO. With several, the
--- "conditional" objective is not a bound of the evidence: it pays for one pre-activation a node and fits all data.
-- help: pn.invariance, methods fit
local core = require "penumbra.core"
local replay = require "penumbra.autodiff.replay"
local layerwise = require "penumbra.invariance.layerwise"
local options = require "penumbra.options"
local perceptron = require "penumbra.nn.perceptron"
local optim = require "penumbra.optim"

local layer_fit = {}

local LOG_2PI = core.log_2pi

local methods = {}
local class = { __name = "layer-by-layer fit" }

function class:__tostring()
  return ("layer-by-layer fit of %d layers, %d sweeps%s"):format(#self.layers, self.sweeps,
    self.converged and ", converged" or "")
end

local known = { x = options.required "tensor", y = options.required "tensor", noise_scale = options.optional "number",
  log_likelihood = options.optional "function", prior_scale = options.any(1), max_sweeps = 5, steps = 300, lr = 0.02,
  input_draws = 8, draws = 8, scale = 0.5, tolerance = 1e-3, expectation = options.choice("conditional", "marginal"),
  kl = options.choice("components", "mixture"), point = options.choice("loc", "mean"), generator = options.any(false) }

-- ---- the network as vectors of nodes ----

-- Inputs of a layer, with the 1 of the bias.
local function with_one(layer, z)
  if not layer.bias then
    return z
  end
  local shape = z:shape()
  shape[#shape] = 1
  return core.concatenate({ z, core.ones(shape, { dtype = z:dtype() }) }, -1)
end

-- [out, in + 1]
local function rows_of(layer)
  local w = layer.weight:detach():t()
  return (layer.bias and core.concatenate({ w, layer.bias:detach():unsqueeze(2) }, 2) or w):contiguous()
end

-- The output from the pre-activations u of layer l on, later layers at their point estimates.
local function onwards(self, l, u)
  local f = perceptron.activate(self.net[l], u)
  for k = l + 1, #self.net do
    f = perceptron.activate(self.net[k], with_one(self.net[k], f):matmul(self.layers[k].point:t()))
  end
  return f
end

local function factor(s)
  return { loc = s.loc, scale = s.log_scale:exp(), prior_loc = s.prior_loc, prior_scale = s.prior_scale }
end

local function as_posterior(s, z)
  local d = factor(s)
  d.inputs = z
  return layerwise.node_posterior(d)
end

-- ---- the objective of one layer ----

-- The sum over data of the expected log likelihood; rows of z and y belong together, `input_draws` for each datum.
local function expectation(self, l, z, y)
  local s, o = self.layers[l], self.options
  if o.expectation == "marginal" then
    local w = as_posterior(s, z):rsample({ 1 }, o.generator or nil):squeeze(1)
    return self.log_likelihood(onwards(self, l, z:matmul(w:t())), y):sum() / o.input_draws
  end
  local mean, variance = layerwise.law(factor(s), z)
  if o.noise_scale and l == #self.net and #self.net[l].apply == 0 then
    local square = ((y - mean):square() + variance) / o.noise_scale ^ 2
    return (square + LOG_2PI + 2 * math.log(o.noise_scale)):sum() * (-0.5 / o.input_draws)
  end
  local noise = core.randn(mean:shape(), { generator = o.generator or nil, dtype = mean:dtype() })
  return self.log_likelihood(onwards(self, l, mean + (variance + 1e-30):sqrt() * noise), y):sum() / o.input_draws
end

-- KL from the layer's prior, summed over nodes.
local function divergence(self, l, z)
  local q, o = as_posterior(self.layers[l], z), self.options
  if o.kl == "components" then
    return layerwise.component_kl(q):mean(-1):sum()
  end
  return layerwise.log_ratio(q, q:rsample({ o.draws }, o.generator or nil)):sum() / o.draws
end

-- Fits loc and log_scale of layer l for inputs z, and gives the objective at the end.
local function fit_layer(self, l, z, y)
  local s, o = self.layers[l], self.options
  local loc, log_scale = core.param(s.loc), core.param(s.log_scale)
  s.loc, s.log_scale = loc, log_scale
  local n = y:size(1)
  local optimiser = optim.adam({ loc, log_scale }, { lr = o.lr })
  local step = replay.compile(function(inputs, targets)
    return (divergence(self, l, inputs) - expectation(self, l, inputs, targets)) / n
  end, { optimiser = optimiser })
  local sum, last = 0, math.max(1, o.steps // 10)
  for k = 1, o.steps do
    optimiser.lr = o.lr * 0.5 * (1 + math.cos(math.pi * (k - 1) / o.steps))
    local loss = step(z, y)
    sum = sum + (k > o.steps - last and loss or 0)
  end
  s.loc, s.log_scale, s.inputs = loc:detach(), log_scale:detach(), z
  local q = o.point == "mean" and as_posterior(s, z):mean()
  s.point = q or s.loc
  return -sum / last * n
end

-- Draws of the inputs of the layer after l.
local function next_inputs(self, l, z)
  local mean, variance = layerwise.law(factor(self.layers[l]), z)
  local noise = core.randn(mean:shape(), { generator = self.options.generator or nil, dtype = mean:dtype() })
  return with_one(self.net[l + 1], perceptron.activate(self.net[l], mean + variance:sqrt() * noise))
end

local function check(net, given)
  local where = "fit_layers"
  local o = options.check(where, given, known)
  local layers = perceptron.read(where, net)
  if o.x:ndim() ~= 2 or o.x:size(2) ~= layers[1].weight:size(1) then
    core.error(("fit_layers: x must have shape [N, %d], got [%s]"):format(layers[1].weight:size(1),
      table.concat(o.x:shape(), ", ")))
  elseif o.y:ndim() < 1 or o.y:size(1) ~= o.x:size(1) then
    core.error(("fit_layers: y must have %d rows as x has, got [%s]"):format(o.x:size(1),
      table.concat(o.y:shape(), ", ")))
  elseif (o.noise_scale == nil) == (o.log_likelihood == nil) then
    core.error "fit_layers: exactly one of noise_scale and log_likelihood must be given"
  elseif o.noise_scale and (o.y:ndim() ~= 2 or o.y:size(2) ~= layers[#layers].weight:size(2)) then
    core.error(("fit_layers: y must have shape [N, %d], got [%s]"):format(layers[#layers].weight:size(2),
      table.concat(o.y:shape(), ", ")))
  end
  for _, name in ipairs { "noise_scale", "lr", "scale", "tolerance" } do
    if o[name] and not (o[name] > 0) then
      core.error(("fit_layers: %s must be positive, got %s"):format(name, o[name]))
    end
  end
  for _, name in ipairs { "steps", "input_draws" } do
    o[name] = options.whole(where, name, o[name], 1)
  end
  return o, layers
end

--- fit_layers(net, {x =, y =, noise_scale =, ...}): see pn.help "pn.invariance.fit_layers".
function layer_fit.fit(net, given)
  local o, net_layers = check(net, given)
  local self = setmetatable({ net = net_layers, options = o, layers = {}, trace = {}, converged = false }, class)
  self.log_likelihood = o.log_likelihood or function(f, y)
    return (((y - f) / o.noise_scale):square() + LOG_2PI + 2 * math.log(o.noise_scale)):sum(-1) * -0.5
  end
  for l, layer in ipairs(net_layers) do
    local prior = o.prior_scale
    if type(prior) == "table" then
      prior = prior[l]
    end
    if type(prior) ~= "number" or not (prior > 0) then
      core.error(("fit_layers: prior_scale of layer %d must be a positive number, got %s"):format(l, tostring(prior)))
    end
    local w = rows_of(layer)
    local set = { dtype = w:dtype() }
    self.layers[l] = { loc = w, point = w, log_scale = core.full(w:shape(), math.log(o.scale * prior), set),
      prior_loc = core.zeros(w:shape(), set), prior_scale = core.full(w:shape(), prior, set) }
  end
  local times = core.arange(o.x:size(1) * o.input_draws):to "int64":remainder(o.x:size(1))
  local x, y = o.x:take(1, times), o.y:take(1, times)
  for sweep = 1, o.max_sweeps do
    local z, row = with_one(net_layers[1], x), {}
    for l = 1, #net_layers do
      row[l] = fit_layer(self, l, z, y)
      z = l < #net_layers and next_inputs(self, l, z) or z
    end
    self.trace[sweep], self.sweeps = row, sweep
    local before = self.trace[sweep - 1]
    if before and math.abs(row[#row] - before[#row]) <= o.tolerance * math.max(1, math.abs(row[#row])) then
      self.converged = true
      break
    end
  end
  return self
end

--- The node_posterior of layer l, over the inputs that the last sweep drew: batch [out], event [in + 1] or [in].
function methods:posterior(l)
  l = options.whole("posterior", "l", l, 1)
  if not self.layers[l] then
    core.error(("posterior: there are %d layers, got %d"):format(#self.layers, l))
  end
  return as_posterior(self.layers[l], self.layers[l].inputs)
end

--- predict(x [, {draws = 100, generator =}]): draws of the network's output at x [n, in], each with weights of every
--- layer from the components of the inputs that it gets: [draws, n, out]. Without the noise of observations.
function methods:predict(x, given)
  options.argument("predict", "x", x, "tensor")
  local o = options.check("predict", given, { draws = 100, generator = options.any(false) })
  local n, width = o.draws, self.net[1].weight:size(1)
  if x:ndim() ~= 2 or x:size(2) ~= width then
    core.error(("predict: x must have shape [n, %d], got [%s]"):format(width, table.concat(x:shape(), ", ")))
  end
  local rows = x:size(1)
  local z = x:unsqueeze(1):broadcast_to { n, rows, width }:reshape { n * rows, width }
  for l, layer in ipairs(self.net) do
    local mean, variance = layerwise.law(factor(self.layers[l]), with_one(layer, z))
    local noise = core.randn(mean:shape(), { generator = o.generator or nil, dtype = mean:dtype() })
    z = perceptron.activate(layer, mean + variance:sqrt() * noise)
  end
  return z:reshape { n, rows, z:size(2) }
end

class.__index = core.namespace("a layer-by-layer fit", methods)

return layer_fit
