--- Gaussian sites of data at a posterior of a fully connected network, for all data at once (Kurle et al. 2020, section
--- 3.2 and appendix C). One set of weight draws serves all data; forward and backward passes are batched over draws
--- and data, and only sums over draws are kept, [N, P], or [P] where the product of all sites is enough: never draws
--- times data times weights.
---
---     local sites, terms = pn.continual.sites(net, x, y, {likelihood = "bernoulli", draws = 50000})
---     local sums = pn.continual.site_sums(net, x, y, {likelihood = "bernoulli", draws = 50000})
---
--- network: of pn.nn.bayesian, or any fully connected network with elementwise activations, with a posterior. Other
--- layers have no site of a single datum and are an error. x [N, in]; y [N, out] or [N] (classes: int64). Options:
---   likelihood    "normal" (with noise_scale), "bernoulli" (of logits), "categorical" (of logits) or another of
---                 pn.nn.likelihood, by name, made or in Lua; or a function (f, y) of outputs [S, N, out] that gives
---                 log p [S, N], or the distribution of y, and treats data alone
---   posterior     a normal distribution (independent) or diagonal Gaussian factor over all weights [P] in the order of
---                 network:named_parameters(). Default: that of the pn.nn.bayesian network
---   draws         of the weights (default 10000)
---   estimator     "reparametrised" (default): precision = -mean(g eps) / scale, g the gradient at w = m + scale eps;
---                 "hessian": -mean of the second derivative, of lower variance; it passes matrices of nodes x nodes
---                 back through the network, and takes no function as likelihood and no activation with a kink, whose
---                 second derivative is not what the mean needs
---   weights       [N], exponents of the likelihood of each datum (a tempered memory)
---   rows          (of sites) places of the data whose sites are wanted, int64 from 0 on; results then have as many
---   budget        numbers that intermediate results may hold at once, about (default 2^24; 2^20 for networks that are
---                 passed in Lua, see below)
---   generator     of the draws. The same state of a generator gives the same draws, whatever the data
---   antithetic    true: half of the draws mirror the others at the mean, for an even number of draws: what is even in
---                 eps falls out of the precisions, and what is odd out of means. Only where the passes below take
---                 the network; "where_possible": there, an odd number of draws made even by one more, and otherwise
---                 not (default false)
---
--- Networks of layers of pn.nn with at most one activation after each linear layer, "reparametrised" and a likelihood
--- by name are passed by pn_gaussian_sites: 16 draws at a time in the lanes of vectors, on all threads. A datum's site
--- then has the same bits whatever data stand beside it and for any number of threads and any budget. Everything else
--- is passed with tensors, by blocks of data and of draws that the budget decides, so that another one may draw other
--- numbers.
-- help: pn.continual
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local likelihood = require "penumbra.continual.output_likelihood"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local perceptron = require "penumbra.nn.perceptron"
local recording = require "penumbra.autodiff.recording"
local site_kernel = require "penumbra.continual.site_kernel"

local sites = {}

-- ---- the network and its posterior ----

-- The network that computes, and that of pn.nn.bayesian around it, if there is one.
local function unwrapped(net)
  local bayesian = type(net) == "table" and type(net.log_scale) == "table" and net.net and net or nil
  return bayesian and bayesian.net or net, bayesian
end

local function own_posterior(where, bayesian)
  local means, scales = {}, {}
  for k, entry in ipairs(parameters.named(bayesian.net)) do
    local log_scale = bayesian.log_scale[entry[1]]
    if not log_scale then
      core.error(("%s: all parameters of the network must be uncertain, got '%s' without a posterior"):format(where,
        entry[1]))
    end
    means[k], scales[k] = entry[2]:detach():reshape { -1 }, log_scale:detach():reshape { -1 }
  end
  local precision = (core.concatenate(scales, 1) * -2):exp()
  return core.new_natural("diagonal", core.concatenate(means, 1) * precision, precision)
end

-- pn.continual.posterior.
function sites.posterior(net)
  local _, bayesian = unwrapped(net)
  if not bayesian then
    core.error(("posterior: network must be of pn.nn.bayesian, got a %s"):format(type(net)))
  end
  return own_posterior("posterior", bayesian)
end

-- The layers in order, each with mean and scale of its weight and bias, and the order of all parameters.
local function read(where, net, given)
  local plain, bayesian = unwrapped(net)
  local layers, named, place, size = perceptron.read(where, plain), parameters.named(plain), {}, 0
  for k, entry in ipairs(named) do
    place[entry[1]] = { from = size + 1, to = size + entry[2]:numel(), k = k }
    size = size + entry[2]:numel()
  end
  if not given and not bayesian then
    core.error(("%s: posterior must be given for a network without one"):format(where))
  end
  local q = gaussian.factor(where, "posterior", given or own_posterior(where, bayesian))
  local mean, variance = gaussian.moments(q)
  if q.form ~= "diagonal" or q.precision_mean:ndim() ~= 1 or q.precision_mean:size(1) ~= size then
    core.error(("%s: posterior must be of all %d weights, got precision_mean of shape [%s]"):format(where, size,
      table.concat(q.precision_mean:shape(), ", ")))
  elseif not (q.precision:min():item() > 0) then
    core.error(("%s: posterior must have positive precisions, got %g"):format(where, q.precision:min():item()))
  end
  local dtype = layers[1].weight:dtype()
  mean, variance = mean:detach():to(dtype), variance:detach():to(dtype)
  local function fill(name, p)
    local at = place[name]
    local function cut(t) return t:slice(1, at.from, at.to):reshape(p:shape()) end
    return { mean = cut(mean), scale = cut(variance):sqrt(), order = at.k, from = at.from, size = p:numel() }
  end
  local list = {}
  for l, layer in ipairs(layers) do
    list[l] = { layer = layer.layer, apply = layer.apply, weight = fill(layer.weight_name, layer.weight),
      bias = layer.bias and fill(layer.bias_name, layer.bias) or nil }
  end
  return { layers = list, dtype = dtype, num_parameters = #named, inputs = layers[1].weight:size(1),
    outputs = layers[#layers].weight:size(2), mean = mean, scale = variance:sqrt() }
end

-- ---- forward and backward, S draws of N data ----

-- S draws: eps and values of each weight; without S, the means.
local function draw(self, S, generator)
  local function one(p)
    if not S then return { value = p.mean:unsqueeze(1) } end
    local shape = p.mean:shape()
    table.insert(shape, 1, S)
    local eps = core.randn(shape, { dtype = self.dtype, generator = generator })
    return { eps = eps, value = p.mean + p.scale * eps }
  end
  local w = {}
  for l, layer in ipairs(self.layers) do
    w[l] = { weight = one(layer.weight), bias = layer.bias and one(layer.bias) or nil }
  end
  return w
end

-- Value, slope and, if wanted, curvature of what follows a layer, at pre-activations a.
local function activation(layer, a, curved)
  if #layer.apply == 0 then
    return a, nil, nil
  end
  a = a:detach()
  a:requires_grad(true)
  local h = perceptron.activate(layer, a)
  local slope = core.grad(h:sum(), { a }, { create_graph = curved })[1]
  if not curved then
    return h:detach(), slope:detach()
  end
  local second = slope:requires_grad() and core.grad(slope:sum(), { a })[1]
  return h:detach(), slope:detach(), second and second:detach() or a:detach():zeros_like()
end

-- Inputs and derivatives of the activations of each layer, and the output [S, N, out].
local function forward(self, w, x, curved)
  local passed, h = {}, x
  for l, layer in ipairs(self.layers) do
    local a = h:matmul(w[l].weight.value)
    if layer.bias then
      a = a + w[l].bias.value:unsqueeze(2)
    end
    local out, slope, second = activation(layer, a, curved)
    passed[l] = { input = h, slope = slope, second = second }
    h = out
  end
  return h, passed
end

-- sum over draws of h[s, n, i] d[s, n, j]: [N, in, out]. The first layer's input is the same in all draws.
local function outer(h, d)
  if h:ndim() == 2 then
    return h:unsqueeze(3) * d:sum(1):unsqueeze(2)
  end
  return h:permute { 2, 3, 1 }:matmul(d:transpose(1, 2))
end

-- sum over draws of h[s, n, i] d[s, n, j] eps[s, i, j]: [N, in, out].
local function outer_with_noise(h, d, eps)
  if h:ndim() == 2 then
    return d:permute { 3, 2, 1 }:matmul(eps:permute { 3, 1, 2 }):permute { 2, 3, 1 } * h:unsqueeze(3)
  end
  local rows = {}
  for i = 1, h:size(3) do -- a node's weights at a time
    rows[i] = (d * eps:slice(2, i, i) * h:slice(3, i, i)):sum(1)
  end
  return core.stack(rows, 2)
end

local function add(sums, name, value)
  sums[name] = sums[name] and sums[name] + value or value
end

-- The sums of one layer: of g, and of g eps or of the second derivatives; d the slopes, c the diagonal of curvatures at
-- its pre-activations.
local function accumulate(sums, l, w, h, d, c)
  add(sums, l .. "weight g", outer(h, d))
  add(sums, l .. "weight h", c and outer(h:square(), c) or outer_with_noise(h, d, w.weight.eps))
  if w.bias then
    add(sums, l .. "bias g", d:sum(1))
    add(sums, l .. "bias h", c and c:sum(1) or (d * w.bias.eps:unsqueeze(2)):sum(1))
  end
end

local function diagonal(C)
  return C and (C * core.eye(C:size(-1), { dtype = C:dtype() })):sum(-1)
end

-- Through the activation: slopes d and curvatures C of what the layer gives become those of its pre-activations.
local function through(passed, d, C)
  if not passed.slope then
    return d, C
  end
  if C then
    local bend = (passed.second * d):unsqueeze(-1) * core.eye(d:size(3), { dtype = d:dtype() })
    C = C * passed.slope:unsqueeze(-1) * passed.slope:unsqueeze(-2) + bend
  end
  return d * passed.slope, C
end

-- Adds what these draws say of the data of a block.
local function block_sums(self, w, block)
  local kind, curved = self.kind, self.curved
  local f, passed = forward(self, w, block.x, curved)
  add(block.sums, "value", kind.value(block.y, f, self):detach():sum(1))
  local d, C = kind.slope(block.y, f, self), curved and kind.curvature(block.y, f, self) or nil
  for l = #self.layers, 1, -1 do
    d, C = through(passed[l], d, C)
    accumulate(block.sums, l, w[l], passed[l].input, d, diagonal(C))
    if l > 1 then
      local value = w[l].weight.value
      local back = value:transpose(2, 3)
      d = d:matmul(back)
      C = C and value:unsqueeze(2):matmul(C):matmul(back:unsqueeze(2))
    end
  end
end

-- ---- blocks ----

-- Has f a kink where activations have them? The mean of its second derivative then misses the kink's share.
local function kinked(f, dtype)
  local at = core.tensor({ -3, -2.5, -1, 0, 1, 2.5, 3 }, { dtype = dtype })
  local slopes = {}
  for k, side in ipairs { -1e-5, 1e-5 } do
    local a = at + side
    a:requires_grad(true)
    slopes[k] = core.grad(f(a):sum(), { a })[1]
  end
  return (slopes[2] - slopes[1]):abs():max():item() > 1e-3
end

local function refuse_kinks(where, self)
  for l, layer in ipairs(self.layers) do
    for _, f in ipairs(layer.apply) do
      if kinked(f, self.dtype) then
        core.error(('%s: estimator must be "reparametrised" for an activation with a kink, as after linear '
          .. 'layer %d, got "hessian"'):format(where, l))
      end
    end
  end
end

-- Numbers that a draw of one datum needs on its way, about.
local function width(self)
  local widest, nodes = 0, 0
  for _, layer in ipairs(self.layers) do
    local n, m = layer.weight.mean:size(2), layer.weight.mean:size(1)
    widest, nodes = math.max(widest, n, m), nodes + n
  end
  return 6 * nodes + (self.curved and 3 * widest ^ 2 or 0)
end

-- Numbers of data in a block and of draws at a time: at least 16 draws, as far as there are that many.
local function block_sizes(self, n, o)
  local one, P, budget = width(self), self.mean:numel(), o.budget or 1 << 20
  local data = math.max(1, math.min(n, budget // (16 * one)))
  return math.tointeger(data), math.tointeger(math.max(1, math.min(o.draws, budget // (one * data + 2 * P))))
end

local function blocks_of(x, y, data)
  local blocks = {}
  for from = 1, x:size(1), data do
    local to = math.min(from + data - 1, x:size(1))
    blocks[#blocks + 1] = { x = x:slice(1, from, to), y = y:slice(1, from, to), sums = {} }
  end
  return blocks
end

local function run(self, blocks, o, at_a_time)
  local done = 0
  while done < o.draws do
    local S = math.min(at_a_time, o.draws - done)
    local w = draw(self, S, o.generator or nil)
    for _, block in ipairs(blocks) do
      block_sums(self, w, block)
    end
    done = done + S
  end
end

-- log p of each datum at the mean of the posterior.
local function at_mean(self, x, y)
  return self.kind.value(y, forward(self, draw(self), x), self):detach():sum(1)
end

-- Parameters of the sites of a block, each [n, P].
local function finish(self, block, draws)
  local etas, precisions, n = {}, {}, block.x:size(1)
  for l, layer in ipairs(self.layers) do
    for _, name in ipairs { "weight", "bias" } do
      local p = layer[name]
      if p then
        local g, h = block.sums[l .. name .. " g"] / draws, block.sums[l .. name .. " h"] / -draws
        local precision = self.curved and h or h / p.scale
        etas[p.order] = (g + precision * p.mean):reshape { n, -1 }
        precisions[p.order] = precision:reshape { n, -1 }
      end
    end
  end
  return core.concatenate(etas, 2), core.concatenate(precisions, 2)
end

local known = { likelihood = options.any(), posterior = options.any(false), draws = 10000, noise_scale =
  options.optional "number", estimator = options.choice("reparametrised", "hessian"), weights = options.any(false),
  budget = options.optional "number", generator = options.any(false),
  antithetic = options.any(false) }
local known_of_sites = options.merged(known, { rows = options.any(false) })

local function check_data(where, self, x, y)
  options.argument(where, "x", x, "tensor")
  options.argument(where, "y", y, "tensor")
  if x:ndim() ~= 2 or x:size(2) ~= self.inputs or x:size(1) == 0 then
    core.error(("%s: x must have shape [N, %d] with N > 0, got [%s]"):format(where, self.inputs,
      table.concat(x:shape(), ", ")))
  elseif x:dtype() ~= self.dtype then
    core.error(("%s: x must be %s, as the network is, got %s"):format(where, self.dtype, x:dtype()))
  end
end

-- The exponents [n], or nil.
local function exponents(where, o, n, dtype)
  if not o.weights then
    return nil
  end
  local t = options.numbers(where, "weights", o.weights, "tensor")
  if t:ndim() ~= 1 or t:size(1) ~= n then
    core.error(("%s: weights must have shape [%d], got [%s]"):format(where, n, table.concat(t:shape(), ", ")))
  end
  return t:detach():to(dtype)
end

-- What is asked for, checked: the network, and data {x =, y =, targets = (y as the likelihood takes it), weights =}.
local function problem(where, net, x, y, o)
  if o.budget then options.whole(where, "budget", o.budget, 1) end
  if type(o.antithetic) ~= "boolean" and o.antithetic ~= "where_possible" then
    core.error(('%s: antithetic must be true, false or "where_possible", got %s'):format(where,
      tostring(o.antithetic)))
  end
  local self = read(where, net, o.posterior)
  check_data(where, self, x, y)
  self.kind, self.curved = likelihood.kind(where, o.likelihood), o.estimator == "hessian"
  if self.kind.noise and o.noise_scale then
    core.error(("%s: noise_scale stands in the likelihood already"):format(where))
  end
  self.noise_scale = o.noise_scale or self.kind.noise
  if self.curved and not self.kind.curvature then
    core.error(('%s: estimator must be "reparametrised" where the likelihood is a function, got "hessian"'):format(
      where))
  end
  if self.curved then
    recording.on(refuse_kinks, where, self)
  end
  local n = x:size(1)
  local data = { x = x:detach(), targets = self.kind.check(where, y, n, self.outputs, self),
    weights = exponents(where, o, n, self.dtype) }
  data.y = self.kind.label and y or data.targets
  return self, data
end

local function tempered(t, value)
  return t and value * (value:ndim() == 2 and t:unsqueeze(2) or t) or value
end

-- Sites of all data, [N, P] each, and the expected log likelihood, with tensors.
local function passes(self, data, o)
  local size, at_a_time = block_sizes(self, data.x:size(1), o)
  local blocks = blocks_of(data.x, data.targets, size)
  recording.on(run, self, blocks, o, at_a_time)
  local lists = { {}, {}, {} }
  for k, block in ipairs(blocks) do
    lists[1][k], lists[2][k] = finish(self, block, o.draws)
    lists[3][k] = block.sums.value / o.draws
  end
  local function joined(k) return tempered(data.weights, core.concatenate(lists[k], 1)) end
  return joined(1), joined(2), joined(3)
end

-- E_q[log r_n], r_n the site without its constant.
local function expected_log_site(self, eta, precision)
  return (eta * self.mean - precision * ((self.mean:square() + self.scale:square()) * 0.5)):sum(2)
end

local function chosen(where, rows, data)
  if not core.is_tensor(rows) and type(rows) ~= "table" then
    core.error(("%s: rows must be places of data, got %s"):format(where, type(rows)))
  end
  local places = core.is_tensor(rows) and rows or core.tensor(rows, { dtype = "int64" })
  if places:dtype() ~= "int64" or places:ndim() ~= 1 or places:size(1) == 0 then
    core.error(("%s: rows must be places of data, int64 [M] with M > 0, got %s [%s]"):format(where, places:dtype(),
      table.concat(places:shape(), ", ")))
  end
  local n = data.x:size(1)
  if places:min():item() < 0 or places:max():item() >= n then
    core.error(("%s: rows must be places from 0 to %d, got %d to %d"):format(where, n - 1, places:min():item(),
      places:max():item()))
  end
  local picked = {}
  for name, value in pairs(data) do picked[name] = value:take(1, places) end
  return picked
end

-- precision_mean and precision, [N, P] or, without `each`, [P] of their product, and the table of terms.
local function estimate(where, self, data, o, each)
  local layers, terms = site_kernel.layers(self, o), {}
  local eta, precision
  if o.antithetic == "where_possible" then
    o.antithetic = layers ~= nil
    o.draws = o.antithetic and o.draws + o.draws % 2 or o.draws
  end
  if layers then
    eta, precision, terms.expected_log_likelihood, terms.expected_log_site = site_kernel.run(self, layers, data, o,
      each)
  else
    if o.antithetic then
      core.error(("%s: antithetic must be false for this network, likelihood or estimator, got true"):format(where))
    end
    eta, precision, terms.expected_log_likelihood = passes(self, data, o)
    terms.expected_log_site = expected_log_site(self, eta, precision)
    if not each then eta, precision = eta:sum(1), precision:sum(1) end
  end
  terms.log_likelihood_at_mean = tempered(data.weights, recording.on(at_mean, self, data.x, data.targets))
  return eta, precision, terms
end

-- pn.continual.sites.
function sites.sites(net, x, y, given)
  local where = "sites"
  local o = options.check(where, given, known_of_sites)
  local self, data = problem(where, net, x, y, o)
  local eta, precision, terms = estimate(where, self, o.rows and chosen(where, o.rows, data) or data, o, true)
  return core.new_natural("diagonal", eta, precision), terms
end

-- pn.continual.site_sums.
function sites.site_sums(net, x, y, given)
  local where = "site_sums"
  local o = options.check(where, given, known)
  local self, data = problem(where, net, x, y, o)
  local eta, precision, sums = estimate(where, self, data, o, false)
  sums.precision_mean, sums.precision = eta, precision
  return sums
end

return sites
