--- A fully connected network whose weights have independent normal laws, held as two vectors over all weights [P] in
--- the network's order: what layers draw by local reparametrisation (Kingma, Salimans & Welling 2015).
--
-- A layer's outputs given its inputs h are normal and independent, of mean h m + b and variance h^2 v + v_b: drawn so,
-- every datum has outputs of the law that draws of the weights give it, each datum on its own. The first layer's mean
-- and variance are the same in all draws. Of the last layer nothing need be drawn where an expectation has a formula.
-- help: none
local core = require "penumbra.core"
local parameters = require "penumbra.parameters"
local perceptron = require "penumbra.nn.perceptron"

local mean_field = {}

local BUDGET <const> = 1 << 20 -- numbers of one intermediate result of a prediction

--- read(where, net): the layers of a network, {apply =, weight =, bias =}, each parameter by its place in the vectors;
--- names and shapes of the parameters, number of weights, inputs, outputs, the dtype.
function mean_field.read(where, net)
  local layers, place, names, shapes, size = perceptron.read(where, net), {}, {}, {}, 0
  for k, entry in ipairs(parameters.named(net)) do
    local shape = entry[2]:shape()
    place[entry[1]] = { from = size + 1, to = size + entry[2]:numel(), shape = shape }
    names[k], shapes[k], size = entry[1], shape, size + entry[2]:numel()
  end
  local list, widest = {}, 1
  for l, layer in ipairs(layers) do
    if not place[layer.weight_name] then
      core.error(("%s: linear layer %d must have weights of its own, got those of one before it"):format(where, l))
    end
    list[l] = { apply = layer.apply, weight = place[layer.weight_name],
      bias = layer.bias and place[layer.bias_name] or nil }
    widest = math.max(widest, layer.weight:size(2))
  end
  local last = layers[#layers]
  return { net = net, layers = list, names = names, shapes = shapes, size = size, widest = widest,
    normal_outputs = #last.apply == 0, inputs = layers[1].weight:size(1), outputs = last.weight:size(2),
    dtype = last.weight:dtype() }
end

local function part(vector, place)
  return vector:slice(1, place.from, place.to):reshape(place.shape)
end

-- Mean and variance of a layer's outputs for inputs h [..., in].
local function outputs(layer, mean, variance, h)
  local m, v = h:matmul(part(mean, layer.weight)), h:square():matmul(part(variance, layer.weight))
  if layer.bias then
    m, v = m + part(mean, layer.bias), v + part(variance, layer.bias)
  end
  return m, v
end

--- drawn(m, v, generator [, draws]): normal numbers of mean m and variance v; so many of each, [draws, ...].
function mean_field.drawn(m, v, generator, draws)
  local shape = m:shape()
  if draws then
    table.insert(shape, 1, draws)
  end
  -- 1e-30 keeps the root's derivative finite where nothing is uncertain
  return m + (v + 1e-30):sqrt() * core.randn(shape, { dtype = m:dtype(), generator = generator })
end

--- last(self, mean, variance, x, draws, generator): mean and variance of what the last layer gives, before any
--- activation after it, given what the layers before it drew: [draws, N, out]; [N, out] without hidden layers.
function mean_field.last(self, mean, variance, x, draws, generator)
  local n, m, v = x:size(1), nil, nil
  local h = x
  for l, layer in ipairs(self.layers) do
    m, v = outputs(layer, mean, variance, h)
    if l < #self.layers then
      h = mean_field.drawn(m, v, generator, l == 1 and draws or nil)
      h = perceptron.activate(layer, l == 1 and h:reshape { draws * n, -1 } or h)
    end
  end
  if #self.layers == 1 then
    return m, v
  end
  return m:reshape { draws, n, -1 }, v:reshape { draws, n, -1 }
end

--- drawn_outputs(self, m, v, draws, generator): outputs [draws, N, out] of the network for what `last` gave.
function mean_field.drawn_outputs(self, m, v, draws, generator)
  local f = mean_field.drawn(m, v, generator, #self.layers == 1 and draws or nil)
  return perceptron.activate(self.layers[#self.layers], f)
end

--- each_block(self, x, y, draws, f): calls f(x, y, S) for blocks of data and, of each, blocks of S draws, in bounded
--- memory; second the number of the block of data. y may be nil.
function mean_field.each_block(self, x, y, draws, f)
  local rows = math.max(1, BUDGET // (16 * self.widest))
  local block = 0
  for from = 1, x:size(1), rows do
    local to = math.min(from + rows - 1, x:size(1))
    local at_a_time = math.max(1, BUDGET // ((to - from + 1) * self.widest))
    local part_x, part_y = x:slice(1, from, to), y and y:slice(1, from, to)
    block = block + 1
    for done = 0, draws - 1, at_a_time do
      f(part_x, part_y, math.tointeger(math.min(at_a_time, draws - done)), block)
    end
  end
end

return mean_field
