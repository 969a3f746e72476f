--- Layers whose parameters have independent normal posteriors, in the place of the layers themselves: their outputs
--- drawn row by row (local reparametrisation: Kingma, Salimans & Welling 2015), by one draw whose signs each row turns
--- (flipout: Wen, Vicol, Ba, Tran & Grosse 2018), and mean and variance of their outputs. A posterior is given by the
--- layer's parameters, the means, and by logarithms of standard deviations of the same names; a parameter without one
--- is certain.
-- help: nowhere
local core = require "penumbra.core"
local network = require "penumbra.nn.network"
local recurrent = require "penumbra.nn.recurrent_noise"

local noise = {}

-- e^-34 beside a number of ordinary size is below its rounding, and its square is above the smallest float32.
local CERTAIN = -34

local function log_scale(s, name)
  local p = s.loc[name]
  if p == nil then
    return nil
  end
  return s.log_scale[name] or core.full(p:shape(), CERTAIN, { dtype = p:dtype() })
end

local function variance_of(s, name)
  local l = log_scale(s, name)
  return l and (l * 2):exp()
end

local function noise_like(t, generator)
  return core.randn(t:shape(), { dtype = t:dtype(), generator = generator })
end

-- ---- layers that are linear in their weights: f(x, weight, bias), what they compute with these ----

local function convolution(rank, f)
  return function(layer)
    local _, o = layer:configuration()
    return function(x, w, b)
      local y = f(x, w, o)
      return b and y + b:reshape(rank == 1 and { -1, 1 } or { -1, 1, 1 }) or y
    end
  end
end

-- One number as that of an image of one row.
local function flat(n, other)
  return n and { other, n } or nil
end

local maps = {
  linear = function()
    return function(x, w, b)
      return b and x:matmul(w) + b or x:matmul(w)
    end
  end,
  conv1d = convolution(1, function(x, w, o)
    return core.conv2d(x:unsqueeze(3), w:unsqueeze(3), flat(o.stride, 1), flat(o.padding, 0), flat(o.dilation, 1),
      o.groups):squeeze(3)
  end),
  conv2d = convolution(2, function(x, w, o)
    return core.conv2d(x, w, o.stride, o.padding, o.dilation, o.groups)
  end),
  conv_transpose1d = convolution(1, function(x, w, o)
    return core.conv_transpose2d(x:unsqueeze(3), w:unsqueeze(3), flat(o.stride, 1), flat(o.padding, 0),
      flat(o.dilation, 1), o.groups, flat(o.output_padding, 0)):squeeze(3)
  end),
  conv_transpose2d = convolution(2, function(x, w, o)
    return core.conv_transpose2d(x, w, o.stride, o.padding, o.dilation, o.groups, o.output_padding)
  end),
}

-- The axes along which the elements of one row share a weight.
local images = { conv1d = { 3 }, conv2d = { 3, 4 }, conv_transpose1d = { 3 }, conv_transpose2d = { 3, 4 } }

-- ---- local reparametrisation ----

-- The sum of 1e-30 keeps the root's derivative finite where nothing is uncertain.
local function draw_local(s, x, generator)
  local mean = s.map(x, s.loc.weight, s.loc.bias)
  local variance = s.map(x:square(), variance_of(s, "weight"), variance_of(s, "bias"))
  return mean + (variance + 1e-30):sqrt() * noise_like(mean, generator)
end

local function embed_local(s, x, generator)
  local mean = s.loc.weight:take(1, x)
  return mean + log_scale(s, "weight"):exp():take(1, x) * noise_like(mean, generator)
end

-- Linear layers are the layer bayes_linear of the same means.
local function bayes_linear(s)
  return s.layer:uncertain { log_scale(s, "weight"), log_scale(s, "bias") }
end

-- ---- flipout ----

local function signs(shape, like, generator)
  return core.rand(shape, { dtype = like:dtype(), generator = generator }):lt(0.5):to(like:dtype()) * 2 - 1
end

-- The deviation of a parameter from its mean, drawn once a call of the network.
local function deviation(s, name, generator)
  if s.deviation[name] == nil and s.loc[name] then
    s.deviation[name] = log_scale(s, name):exp() * noise_like(s.loc[name], generator)
  end
  return s.deviation[name]
end

-- A sign for each row and channel, the same in every call of the layer on so many rows.
local function turn(s, role, t, generator)
  local shape = t:shape()
  for _, axis in ipairs(images[s.kind_of] or {}) do
    shape[axis] = 1
  end
  local key = role .. table.concat(shape, ",")
  s.signs[key] = s.signs[key] or signs(shape, t, generator)
  return s.signs[key]
end

local function draw_flipout(s, x, generator)
  local mean = s.map(x, s.loc.weight, s.loc.bias)
  local delta, bias = deviation(s, "weight", generator), deviation(s, "bias", generator)
  return mean + s.map(x * turn(s, "in", x, generator), delta, bias) * turn(s, "out", mean, generator)
end

local function embed_flipout(s, x, generator)
  local mean = s.loc.weight:take(1, x)
  return mean + deviation(s, "weight", generator):take(1, x) * turn(s, "out", mean, generator)
end

-- ---- moments ----

local function check_diagonal(s, mean, variance)
  if variance and #variance:shape() ~= #mean:shape() then
    core.error(("moments: %s takes variances of the shape of the mean, not covariances"):format(s.kind_of))
  end
end

-- E f = E W E h,  var f = (E W^2) var h + var W (E h)^2
local function moments(s, mean, variance)
  check_diagonal(s, mean, variance)
  local spread = variance_of(s, "weight")
  local out = s.map(mean:square(), spread, variance_of(s, "bias"))
  if variance then
    out = out + s.map(variance, s.loc.weight:square() + spread)
  end
  return s.map(mean, s.loc.weight, s.loc.bias), out
end

local function embed_moments(s, x)
  return s.loc.weight:take(1, x), variance_of(s, "weight"):take(1, x)
end

-- y = (x + b) e^s with independent normal b and s: E e^(k s) = e^(k m + k^2 v / 2).
local function actnorm_moments(s, mean, variance)
  check_diagonal(s, mean, variance)
  local function beside(p)
    return p:reshape { -1, table.unpack({ 1, 1, 1, 1 }, 1, #mean:shape() - 2) }
  end
  local m, v = s.loc.log_scale, variance_of(s, "log_scale")
  local x, spread = mean + beside(s.loc.bias), beside(variance_of(s, "bias"))
  local first, second = beside((m + v * 0.5):exp()), beside((m * 2 + v):exp())
  -- E e^(2 s) - (E e^s)^2 = e^(2 m + v) (e^v - 1)
  local out = x:square() * (second * beside(v:expm1()))
  return x * first, out + ((variance and variance + spread or spread) * (second * beside(v:exp())))
end

-- ---- by type of layer ----

local drawn = {
  ["local"] = { embedding = embed_local },
  flipout = { embedding = embed_flipout },
  moments = { embedding = embed_moments, actnorm = actnorm_moments },
}
for kind in pairs(maps) do
  drawn["local"][kind], drawn.flipout[kind], drawn.moments[kind] = draw_local, draw_flipout, moments
end
drawn["local"].linear = function(s, x, generator)
  return bayes_linear(s)(x, generator)
end
drawn.moments.linear = function(s, mean, variance)
  return bayes_linear(s):moments(mean, variance)
end
for kind in pairs(recurrent.cells) do
  drawn.flipout[kind] = recurrent.flipout
end

--- has(how, kind): is there "local", "flipout" or "moments" of layers of that type? Of "weights" never.
function noise.has(how, kind)
  return drawn[how] ~= nil and drawn[how][kind] ~= nil
end

--- stand_in(layer, log_scale, how, generator): a module that computes like the layer, drawn by that estimator;
--- log_scale is a table from the names of its parameters. It stands for one call of a network: all its own calls share
--- what flipout draws.
function noise.stand_in(layer, scales, how, generator)
  local kind, loc = layer:type(), {}
  for _, entry in ipairs(layer:own_parameters()) do
    loc[entry[1]] = entry[2]
  end
  local s = { layer = layer, kind_of = kind, loc = loc, log_scale = scales, deviation = {}, signs = {},
    map = maps[kind] and maps[kind](layer), noise_like = noise_like, draw = deviation, turn = turn }
  local f = drawn[how][kind]
  local fields = { kl = function() return 0 end } -- networks around it know that it is uncertain
  if how == "moments" then
    fields.moments = function(_, mean, variance) return f(s, mean, variance) end
  elseif recurrent.cells[kind] then
    function fields.forward(_, x, lengths) return (f(s, x, lengths, nil, generator)) end
    function fields.unroll(_, x, ...) return f(s, x, nil, { ... }, generator) end
    function fields.step(_, x, ...) return recurrent.step(s, x, { ... }, generator) end
  else
    fields.forward = function(_, x, own) return f(s, x, own or generator) end
  end
  return network.module(fields)
end

return noise
