--- Likelihoods p(x | h) of deep latent-variable models: what a network's output means as a law of the data.
---
---     local d = decoder.new("gaussian", 50, 784, {hidden = {200, 200}})
---     d(h)             the law of x [..., data], h [..., inputs]
---     d:given(x)       x as the encoder's input, [..., d.inputs_of_encoder]
---     d:expected(law)  its mean; of categories the likeliest
---
--- bernoulli     0 or 1 by logits
--- gaussian      normal; the scale of each dimension is a parameter, or with noise = "network" another output
--- categorical   labels 0 to categories - 1, int64, by logits
--- mixture       each dimension a mixture of `components` normals, all of it by the network
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local nn = require "penumbra.nn"
local parameters = require "penumbra.nn.parameters"

local decoder = {}

--- multilayer(sizes, activation, dtype): sizes[1] -> ... -> sizes[n], the activation between layers.
function decoder.multilayer(sizes, activation, dtype)
  local layers = {}
  for k = 2, #sizes do
    layers[#layers + 1] = nn.linear(sizes[k - 1], sizes[k], { init = "xavier", dtype = dtype })
    layers[#layers + 1] = k < #sizes and nn[activation]() or nil
  end
  return nn.sequential(layers)
end

-- The k-th of n equal parts along the last axis.
local function part(y, k, n)
  local size = y:size(-1) // n
  return y:slice(-1, (k - 1) * size + 1, k * size)
end

--- normal_law(y): independent normals from a network's output: means, then logarithms of variances.
function decoder.normal_law(y)
  return dist.normal(part(y, 1, 2), (part(y, 2, 2) * 0.5):exp()):independent(1)
end

-- [..., data * n] as [..., data, n].
local function unfold(y, n)
  local shape = y:shape()
  shape[#shape] = shape[#shape] // n
  shape[#shape + 1] = n
  return y:reshape(shape)
end

local kinds = {}

kinds.bernoulli = { width = function() return 1 end, law = function(_, y)
  return dist.bernoulli { logits = y }:independent(1)
end }

kinds.gaussian = { width = function(o) return o.noise == "network" and 2 or 1 end, law = function(self, y)
  if self.noise == "network" then
    return decoder.normal_law(y)
  end
  return dist.normal(y, self.log_scale:exp()):independent(1)
end }

kinds.categorical = { width = function(o) return o.categories end, law = function(self, y)
  return dist.categorical { logits = unfold(y, self.categories) }:independent(1)
end }

kinds.mixture = { width = function(o) return 3 * o.components end, law = function(self, y)
  local n = self.components
  local logits, loc, log_variance = unfold(part(y, 1, 3), n), unfold(part(y, 2, 3), n), unfold(part(y, 3, 3), n)
  return dist.mixture(dist.categorical { logits = logits }, dist.normal(loc, (log_variance * 0.5):exp())):independent(1)
end }

--- names: the kinds of likelihoods.
decoder.names = { "bernoulli", "gaussian", "categorical", "mixture" }

local methods = {}

--- x as the encoder sees it: labels as one of C, everything else as it is.
function methods:given(x)
  if self.kind ~= "categorical" then
    return x
  end
  local shape = x:shape()
  shape[#shape] = shape[#shape] * self.categories
  return x:unsqueeze(-1):eq(self.labels):to(self.dtype):reshape(shape)
end

--- The mean of a law of this decoder; of labels the likeliest.
function methods:expected(law)
  return self.kind == "categorical" and law:mode() or law:mean()
end

-- The output at which a law has this mean.
local outputs = {
  bernoulli = function(mean)
    local p = mean:clamp(1e-3, 1 - 1e-3)
    return (p / (1 - p)):log()
  end,
  gaussian = function(mean) return mean end,
}

--- begin_at(mean): sets the bias of the last layer so that the law has the mean [data] where all else is 0. False if
--- the likelihood is neither bernoulli nor gaussian.
function methods:begin_at(mean)
  if not outputs[self.kind] then
    return false
  end
  local bias = self.net[#self.net]:parameters()[2]
  local start = outputs[self.kind](mean)
  if bias:numel() > start:numel() then -- logarithms of variances
    start = core.concatenate({ start, core.zeros({ bias:numel() - start:numel() }, { dtype = self.dtype }) }, 1)
  end
  bias:set(start)
  return true
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a decoder", methods), __call = function(self, h)
  return kinds[self.kind].law(self, self.net(h))
end }

--- new(kind, inputs, data, o): o.hidden (sizes from the latent side on), o.activation, o.dtype, o.noise, o.categories,
--- o.components.
function decoder.new(kind, inputs, data, o)
  local sizes = { inputs, table.unpack(o.hidden) }
  sizes[#sizes + 1] = data * kinds[kind].width(o)
  local self = { kind = kind, dtype = o.dtype, noise = o.noise, categories = o.categories, components = o.components,
    net = decoder.multilayer(sizes, o.activation, o.dtype), encoder_inputs = data }
  if kind == "gaussian" and o.noise ~= "network" then
    self.log_scale = core.param(core.zeros({ data }, { dtype = o.dtype }))
  elseif kind == "categorical" then
    self.labels = core.arange(o.categories, { dtype = "int64" })
    self.encoder_inputs = data * o.categories
  elseif kind == "mixture" then -- components that start apart
    local bias = self.net[#self.net]:parameters()[2]
    local start = core.linspace(-1, 1, o.components, { dtype = o.dtype }):unsqueeze(1):broadcast_to { data,
      o.components }:contiguous():reshape { data * o.components }
    local zero = core.zeros({ data * o.components }, { dtype = o.dtype })
    bias:set(core.concatenate({ zero, start, zero }, 1))
  end
  return setmetatable(self, class)
end

return decoder
