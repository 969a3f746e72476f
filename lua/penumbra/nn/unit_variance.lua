--- Priors and first posteriors under which what a layer gets has variance 1 (Kurle et al. 2020, appendices H and I):
--- weights of a layer with fan-in N after the activation f have variance 1 / (N c_f), c_f the variance of f(x) for
--- standard normal x; the first layer sees standardised data, c = 1.
-- help: pn.nn, quiet
local core = require "penumbra.core"
local layer_by_name = require "penumbra.nn.layer"
local mode = require "penumbra.nn.mode"
local parameters = require "penumbra.parameters"

local unit_variance = {}

-- Variance of f(x), x standard normal, by Simpson's rule on [-12, 12], of which 0 is a node: a kink there costs no
-- digits.
local function variance_by_quadrature(f)
  local n = 24000
  local x, at = core.linspace(-12, 12, n + 1), core.arange(n + 1)
  local ends = at:eq(0):logical_or(at:eq(n)):to "float64"
  local w = (x:square() * -0.5):exp() * ((at % 2) * 2 + 2 - ends)
  w = w / w:sum()
  local y = f(x)
  local mean = (w * y):sum()
  return (w * (y - mean):square()):sum():item()
end

local known = {
  identity = 1,
  relu = 0.5 - 1 / (2 * math.pi),
  erf = 2 / math.pi * math.asin(2 / 3),
  sin = (1 - math.exp(-2)) / 2,
}

--- activation_variance(f): the variance of f(x) for standard normal x; f a function of a tensor, an activation layer,
--- or a name: "tanh", "relu", "sigmoid", "softplus", "elu", "leaky_relu", "erf", "sin", "identity" ...
function unit_variance.activation_variance(f)
  if type(f) == "string" then
    if known[f] then
      return known[f]
    end
    for _, row in ipairs(core.layer_rows()) do
      f = row.name == f and #row.sizes == 0 and layer_by_name[f]() or f
    end
    f = type(f) == "string" and core.methods[f] or f
  end
  if type(f) ~= "function" and not mode.is_network(f) then
    core.error("activation_variance: f must be a function of a tensor, an activation layer or its name, got "
      .. (type(f) == "string" and "'" .. f .. "'" or type(f)))
  end
  return variance_by_quadrature(f)
end

-- Layers in the order in which they stand, each with the activation before it.
local function fans(layer)
  local sizes = layer:own_parameters()[1][2]:shape()
  local kind = layer:type()
  if kind == "linear" then
    return sizes[1]
  elseif kind:find "^conv" then
    local n = 1
    for k = 2, #sizes do n = n * sizes[k] end
    return n
  end
  return sizes[1]
end

--- scales(network): table name -> standard deviation of the prior, for a sequential of layers and activations: of
--- weights sqrt(1 / (N c)), of biases the same as their weight's.
function unit_variance.scales(net)
  local result, before = {}, 1
  local layers = getmetatable(net) ~= "penumbra.layer" and net or { net }
  local names = {}
  for _, entry in ipairs(parameters.named(net)) do names[core.identity(entry[2])] = entry[1] end
  for _, layer in ipairs(layers) do
    local is_layer = mode.is_network(layer) and type(layer) == "userdata"
    if is_layer and layer:num_parameters() > 0 then
      local scale = (fans(layer) * before) ^ -0.5
      for _, entry in ipairs(layer:own_parameters()) do result[names[core.identity(entry[2])]] = scale end
      before = 1
    elseif is_layer or type(layer) == "function" then
      before = unit_variance.activation_variance(layer)
    end
  end
  for _, name in pairs(names) do
    if not result[name] then
      core.error(("unit_variance: '%s' stands in no layer of a sequential: its fan-in is not known"):format(name))
    end
  end
  return result
end

--- draw(parameter, scale [, {share = 0.999, spread = 0.001, generator =}]): a random mean and logarithm of the standard
--- deviation for a parameter whose prior has that scale: the means have `share` of the variance, the posterior's own
--- variance the rest: E e^(2 log_scale) + var loc = scale^2.
function unit_variance.draw(p, scale, given)
  local share, spread = given and given.share or 0.999, given and given.spread or 0.001
  local how = { dtype = p:dtype(), generator = given and given.generator }
  local loc = core.randn(p:shape(), how) * (scale * share ^ 0.5)
  local centre = 0.5 * math.log((1 - share) * math.exp(-2 * spread ^ 2) * scale ^ 2)
  return loc, core.randn(p:shape(), how) * spread + centre
end

return unit_variance
