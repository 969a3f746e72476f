--- Likelihoods p(x | h) of deep latent-variable models: what a network's output means as a law of the data.
---
---     local d = decoder.new("normal", 50, 784, {hidden = {200, 200}})
---     d(h)             the law of x [..., data], h [..., inputs]
---     d:given(x)       x as the encoder's input, [..., d.inputs_of_encoder]
---     d:expected(law)  its mean; of categories the likeliest
---
--- It is a likelihood of pn.nn.likelihood, by its name, made or in Lua, for each dimension of the data:
--- bernoulli     0 or 1 by logits
--- normal        the scale of each dimension is a parameter, or with noise = "network" another output
--- categorical   labels 0 to categories - 1, int64, by logits
--- mixture       each dimension a mixture of `components` normals, all of it by the network
--- and the others, all of whose numbers are outputs. Positive numbers are e^(output / 2).
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local likelihood = require "penumbra.nn.likelihood"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"
local row_network = require "penumbra.models.row_network"

local decoder = {}

-- The k-th of n equal parts along the last axis.
local function part(y, k, n)
  local size = y:size(-1) // n
  return y:slice(-1, (k - 1) * size + 1, k * size)
end

--- normal_law(y): independent normals from a network's output: means, then logarithms of variances.
function decoder.normal_law(y)
  return dist.normal(part(y, 1, 2), (part(y, 2, 2) * 0.5):exp()):independent(1)
end

local maps = { positive = function(y) return (y * 0.5):exp() end }

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

--- bias(): of the last layer, a parameter; nil of a network of one's own.
function methods:bias()
  return self.ours and self.net[#self.net]:parameters()[2] or nil
end

--- tells_mean(): is the first output at which the law has a given mean known?
function methods:tells_mean()
  local l = self.row
  return self.ours and l.row.output ~= nil and l.heads[1] == l.row.at
end

--- begin_at(mean): sets the bias of the last layer so that the law has the mean [data] where all else is 0. False if
--- the likelihood's first output does not say it.
function methods:begin_at(mean)
  if not self:tells_mean() then
    return false
  end
  local bias, start = self:bias(), self.row.row.output(mean)
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
  local law = self.row:law_of_blocks(self.net(h), maps)
  return #law.event_shape == 0 and law:independent(1) or law
end }

-- The likelihood of options, and the logarithms of scales that are parameters, or nil.
local function row_of(where, kind, data, o)
  if kind == "normal" and o.noise ~= "network" then
    local log_scale = core.param(core.zeros({ data }, { dtype = o.dtype }))
    return likelihood.normal { log_scale = log_scale }, log_scale
  end
  return likelihood.read(where, kind, { role = "decoder",
    parameters = { classes = o.categories, components = o.components } })
end

--- new(where, kind, inputs, data, o): for the caller of this name; o.hidden (sizes from the latent side on),
--- o.activation, o.dtype, o.noise, o.categories, o.components; o.net: a network of one's own, [..., inputs] to
--- [..., data * width] (the first number of the law of all dimensions, then the next); o.own: the same of rows alone.
function decoder.new(where, kind, inputs, data, o)
  local row, log_scale = row_of(where, kind, data, o)
  local sizes = { inputs, table.unpack(o.hidden) }
  sizes[#sizes + 1] = data * row.width
  local net = o.net or row_network.new(where, "decoder_network", o.own, inputs, data * row.width, o.dtype)
  local self = { kind = row.name, row = row, log_scale = log_scale, dtype = o.dtype, ours = net == nil,
    net = net or nn.mlp(sizes, { init = "xavier", activation = o.activation, dtype = o.dtype }),
    encoder_inputs = data }
  if row.row.targets == "label" then
    self.categories = row.parameters.classes
    self.labels = core.arange(self.categories, { dtype = "int64" })
    self.encoder_inputs = data * self.categories
  elseif row.name == "mixture" and not net then -- components that start apart
    local bias, n = self.net[#self.net]:parameters()[2], row.parameters.components
    local start = core.linspace(-1, 1, n, { dtype = o.dtype }):unsqueeze(1):broadcast_to { data, n }:contiguous()
      :reshape { data * n }
    local zero = core.zeros({ data * n }, { dtype = o.dtype })
    bias:set(core.concatenate({ zero, start, zero }, 1))
  end
  return setmetatable(self, class)
end

return decoder
