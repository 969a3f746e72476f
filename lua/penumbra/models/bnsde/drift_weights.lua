--- The network of a Bayesian drift at drawn weights, for states h [S, N, P] of S draws of N trajectories:
---
---   "trajectory"   own weights for each trajectory of each draw, kept along the whole path (algorithm 2 of Haussmann
---                  2021): what is not known of the drift grows with the square of time
---   "draw"         one draw of the weights for all trajectories: the same law of each of them, in one product
---   "step"         drawn anew at each step (local reparametrisation): acts like more diffusion, and vanishes over long
---                  horizons
---
--- weights = draw(...); then apply(weights, k, x) is the network's output at the k-th step.
-- help: nowhere
local core = require "penumbra.core"
local perceptron = require "penumbra.nn.perceptron"

local drift_weights = {}

local TINY <const> = 1e-30 -- keeps the root's derivative finite where nothing is uncertain

-- The linear layers of a network of nn.bayesian, each with the logarithms of its posterior's scales where it has one.
local function layers_of(bayes)
  local layers = perceptron.read("bnsde", bayes.net)
  for _, layer in ipairs(layers) do
    layer.weight_scale = bayes.log_scale[layer.weight_name]
    layer.bias_scale = layer.bias and bayes.log_scale[layer.bias_name]
  end
  return layers
end

-- ---- one draw of the weights ----

-- mean + scale * noise, with `lead` axes before those of the mean; the mean itself where it is certain.
local function drawn(mean, log_scale, lead, generator)
  if not log_scale then
    return mean
  end
  local shape = table.move(mean:shape(), 1, mean:ndim(), #lead + 1, table.move(lead, 1, #lead, 1, {}))
  return mean + log_scale:exp() * core.randn(shape, { dtype = mean:dtype(), generator = generator })
end

-- Weights [S, N, in, out] and biases [S, N, out]; of "draw" [S, in, out] and [S, 1, out].
local function for_path(layers, how)
  local each = how.weights == "trajectory"
  local lead = each and { how.draws, how.count } or { how.draws }
  local list = {}
  for l, layer in ipairs(layers) do
    local bias = layer.bias and drawn(layer.bias, layer.bias_scale, lead, how.generator)
    list[l] = { weight = drawn(layer.weight, layer.weight_scale, lead, how.generator),
      bias = bias and (bias:ndim() == 2 and bias:unsqueeze(2) or bias), each = each and layer.weight_scale ~= nil }
  end
  return list
end

-- ---- anew at each step ----

local function variance_of(log_scale) return log_scale and (log_scale * 2):exp() end

local function for_steps(layers, how)
  local list = {}
  for l, layer in ipairs(layers) do
    local out = layer.weight:size(2)
    local certain = not layer.weight_scale and not layer.bias_scale
    list[l] = { weight = layer.weight, bias = layer.bias, weight_variance = variance_of(layer.weight_scale),
      bias_variance = variance_of(layer.bias_scale), noise = not certain and core.randn({ how.steps, how.draws,
        how.count, out }, { dtype = layer.weight:dtype(), generator = how.generator }) or nil }
  end
  return list
end

-- What is added to the mean of a layer's outputs at the k-th step.
local function deviation(w, k, x)
  local v = w.weight_variance and x:square():matmul(w.weight_variance)
  if w.bias_variance then
    v = v and v + w.bias_variance or w.bias_variance
  end
  return (v + TINY):sqrt() * w.noise[k]
end

-- ---- samples that were kept ----

-- Rows [L, W] of all parameters in order as weights and biases; lead: the axes that L stands for.
local function of_rows(layers, rows, lead)
  local list, from = {}, 1
  local function part(p, ...)
    local flat = rows:slice(2, from, from + p:numel() - 1)
    from = from + p:numel()
    return flat:reshape { lead[1], lead[2], ... }
  end
  for l, layer in ipairs(layers) do
    local n, m = layer.weight:size(1), layer.weight:size(2)
    local weight = part(layer.weight, n, m)
    list[l] = { each = lead[2] > 1, weight = lead[2] > 1 and weight or weight:squeeze(2) }
    list[l].bias = layer.bias and part(layer.bias, m)
  end
  return list
end

--- flat(bayes): the means of all parameters as one row [W], in the order of the layers.
function drift_weights.flat(bayes)
  local list = {}
  for _, layer in ipairs(layers_of(bayes)) do
    list[#list + 1] = layer.weight:detach():reshape { -1 }
    list[#list + 1] = layer.bias and layer.bias:detach():reshape { -1 }
  end
  return core.concatenate(list, 1)
end

-- ---- what paths ask ----

--- draw(bayes, {weights =, draws = S, count = N, steps = K, generator =, rows =}): weights for S draws of N
--- trajectories and K steps. rows [M, W]: samples of all weights, of which each draw takes one at random.
function drift_weights.draw(bayes, how)
  local layers = layers_of(bayes)
  local list
  if how.rows then
    local lead = { how.draws, how.weights == "trajectory" and how.count or 1 }
    local index = core.randint(0, how.rows:size(1), { lead[1] * lead[2] }, { generator = how.generator })
    list = of_rows(layers, how.rows:take(1, index), lead)
  elseif how.weights == "step" then
    list = for_steps(layers, how)
  else
    list = for_path(layers, how)
  end
  for l, layer in ipairs(layers) do list[l].layer = layer end
  return list
end

--- mean(bayes): the means as weights.
function drift_weights.mean(bayes)
  local list = {}
  for l, layer in ipairs(layers_of(bayes)) do
    list[l] = { layer = layer, weight = layer.weight, bias = layer.bias }
  end
  return list
end

--- frozen(weights): copies of means that are constants.
function drift_weights.frozen(list)
  local out = {}
  for l, w in ipairs(list) do
    out[l] = { layer = w.layer, weight = w.weight:detach() + 0, bias = w.bias and w.bias:detach() + 0 }
  end
  return out
end

--- apply(weights, k, x): outputs of the network for inputs x [S, N, inputs] at the k-th step.
function drift_weights.apply(list, k, x)
  for _, w in ipairs(list) do
    local y = w.each and x:unsqueeze(-2):matmul(w.weight):squeeze(-2) or x:matmul(w.weight)
    y = w.bias and y + w.bias or y
    x = perceptron.activate(w.layer, w.noise and y + deviation(w, k, x) or y)
  end
  return x
end

--- map(weights, f): the weights with f of each tensor in it that trajectories have of their own, [S, N, ...], in its
--- place.
function drift_weights.map(list, f)
  local out = {}
  for l, w in ipairs(list) do
    out[l] = {}
    for name, v in pairs(w) do out[l][name] = v end
    out[l].weight = w.each and f(w.weight) or w.weight
    out[l].bias = w.bias and w.bias:ndim() > 1 and f(w.bias) or w.bias
  end
  return out
end

return drift_weights
