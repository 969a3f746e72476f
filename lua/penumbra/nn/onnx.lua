--- Networks as ONNX files: what a network computes in evaluation mode, layers with posteriors by their means, for
--- programs that run such graphs.
---
---     assert(pn.nn.save_onnx("net.onnx", net, { shape = { -1, 784 } }))
---
--- Written are linear layers (also Bayesian ones), convolutions, pools, normalisations by their running statistics,
--- activations, flatten, reshape, embeddings, recurrent layers (gru with linear_before_reset = 1), dropout as identity,
--- and nn.sequential, nn.mlp, nn.residual, nn.concat and nn.recurrent of these; elementwise functions such as pn.tanh.
--- What else there is is an error that names it. A module of one's own may have a field to_onnx, function(self, graph,
--- x), which adds nodes and returns the name of what it computes of the value named x:
---
---     to_onnx = function(self, graph, x) return graph:node("Mul", { x, graph:constant(self.scale, "scale") }) end
---
--- graph:node(op, inputs, attributes), graph:constant(tensor, name), graph:part(layer, x).
-- help: pn.nn
local core = require "penumbra.core"
local mode = require "penumbra.nn.mode"
local onnx_model = require "penumbra.nn.onnx_model"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"

local onnx = {}

-- ---- graphs ----

local graph = {}
graph.__index = graph
graph.__name = "penumbra.onnx_graph"

local function path_of(self) return table.concat(self.path, ".") end

-- Raises for a part that has no counterpart.
local function refuse(self, what)
  core.error(("save_onnx: part '%s' is %s"):format(path_of(self), what))
end

local function fresh(self, hint)
  local base = #self.path > 0 and path_of(self) .. "." .. hint or hint
  local name, k = base, 1
  while self.taken[name] do
    k = k + 1
    name = ("%s_%d"):format(base, k)
  end
  self.taken[name] = true
  return name
end

--- node(op, inputs [, attributes [, axes [, count]]]): adds a node of ONNX's operator and returns the name of its
--- output, or of `count` outputs. inputs: names; attributes: numbers, strings, lists; axes: of the output, those of the
--- first input unless given.
function graph:node(op, inputs, attributes, axes, count)
  local outputs = {}
  for k = 1, count or 1 do
    outputs[k] = fresh(self, op:lower())
    self.axes[outputs[k]] = axes or self.axes[inputs[1]]
  end
  self.nodes[#self.nodes + 1] = { op = op, name = outputs[1], inputs = inputs, outputs = outputs,
    attributes = attributes }
  return table.unpack(outputs)
end

--- constant(t [, name]): a tensor, a number or a list of whole numbers as a constant of the graph; its name. Floats
--- take the dtype of the file.
function graph:constant(t, hint)
  local is_list = type(t) == "table"
  t = core.is_tensor(t) and t or core.tensor(t, { dtype = is_list and "int64" or "float64" })
  t = t:dtype():find "^float" and t:to(self.dtype) or t
  local name = fresh(self, hint or "constant")
  self.constants[#self.constants + 1] = { name, t:contiguous() }
  self.axes[name] = t:ndim()
  return name
end

local rows = {} -- type of a layer -> function (graph, layer, x, settings, parameters), the name of the output

-- Elementwise functions that take a place in a sequential.
local FUNCTIONS = { tanh = "Tanh", relu = "Relu", sigmoid = "Sigmoid", softplus = "Softplus", exp = "Exp", log = "Log",
  sin = "Sin", cos = "Cos", sqrt = "Sqrt", abs = "Abs", erf = "Erf" }

local defaults

-- All settings of a layer, those that were not given among them.
local function settings_of(layer)
  if not defaults then
    defaults = {}
    for _, row in ipairs(core.layer_rows()) do
      local known = {}
      for _, option in ipairs(row.options) do known[option.name] = option.default end
      defaults[row.name] = known
    end
  end
  local sizes, given = layer:configuration()
  local set = {}
  for name, value in pairs(defaults[layer:type()]) do set[name] = value end
  for name, value in pairs(given) do set[name] = value end
  return set, sizes
end

local function named(list)
  local found = {}
  for _, entry in ipairs(list) do found[entry[1]] = entry[2] end
  return found
end

local function layer_of(self, layer, x)
  local row = rows[layer:type()]
  if not row then
    refuse(self, ("a layer %s, which is not written"):format(layer:type()))
  end
  local set, sizes = settings_of(layer)
  set.sizes = sizes
  return row(self, x, set, named(layer:own_parameters()), named(layer:own_buffers()))
end

--- part(v, x): what a layer, a network or an elementwise function computes of the value named x: a name.
function graph:part(v, x, key)
  self.path[#self.path + 1] = key ~= nil and tostring(key) or nil
  local y
  if mode.is_layer(v) then
    y = layer_of(self, v, x)
  elseif type(v) == "function" then
    for name, op in pairs(FUNCTIONS) do
      y = y or core[name] == v and self:node(op, { x }) or nil
    end
    if not y then
      refuse(self, "a function, which is not written (elementwise ones such as pn.tanh are)")
    end
  elseif mode.is_network(v) and v.kind == "sequential" then
    y = x
    for k, inner in ipairs(v) do y = self:part(inner, y, k) end
  elseif mode.is_network(v) and type(rawget(v, "to_onnx")) == "function" then
    y = v.to_onnx(v, self, x)
    if not self.axes[y] then
      refuse(self, "a module whose to_onnx returns no name of a value")
    end
  else
    refuse(self, mode.is_network(v) and "a module of its own without a field to_onnx" or "no layer and no network")
  end
  if key ~= nil then self.path[#self.path] = nil end
  return y
end

-- ---- layers ----

-- x W + b with weight [in, out]
local function affine(g, x, weight, bias)
  local y = g:node("MatMul", { x, g:constant(weight, "weight") })
  return bias and g:node("Add", { y, g:constant(bias, "bias") }) or y
end

rows.linear = function(g, x, _, p) return affine(g, x, p.weight, p.bias) end

rows.bayes_linear = function(g, x, _, p) return affine(g, x, p.weight_loc, p.bias_loc) end

-- A number or a list as one of n.
local function many(v, n)
  local list = {}
  for k = 1, n do list[k] = math.tointeger(type(v) == "table" and v[k] or v) end
  return list
end

local function pads(v, n)
  local list = many(v, n)
  return table.move(list, 1, n, n + 1, list)
end

local function convolution(op, n)
  return function(g, x, set, p)
    local size = p.weight:shape()
    local attributes = { kernel_shape = { table.unpack(size, 3) }, strides = many(set.stride or 1, n),
      pads = pads(set.padding or 0, n), dilations = many(set.dilation or 1, n), group = many(set.groups or 1, 1)[1] }
    if op == "ConvTranspose" then attributes.output_padding = many(set.output_padding or 0, n) end
    return g:node(op, { x, g:constant(p.weight, "weight"), p.bias and g:constant(p.bias, "bias") or nil }, attributes)
  end
end

for n = 1, 3 do
  rows[("conv%dd"):format(n)] = convolution("Conv", n)
  rows[("max_pool%dd"):format(n)] = function(g, x, set)
    local stride = set.stride and set.stride ~= 0 and set.stride or set.kernel
    return g:node("MaxPool", { x }, { kernel_shape = many(set.kernel, n), strides = many(stride, n),
      pads = pads(set.padding or 0, n) })
  end
  rows[("avg_pool%dd"):format(n)] = function(g, x, set)
    local stride = set.stride and set.stride ~= 0 and set.stride or set.kernel
    return g:node("AveragePool", { x }, { kernel_shape = many(set.kernel, n), strides = many(stride, n),
      pads = pads(set.padding or 0, n), count_include_pad = 1 })
  end
  for kind, op in pairs { avg = "GlobalAveragePool", max = "GlobalMaxPool" } do
    rows[("adaptive_%s_pool%dd"):format(kind, n)] = function(g, x, set)
      for _, size in ipairs(many(set.size, n)) do
        if size ~= 1 then
          refuse(g, ("a layer adaptive_%s_pool%dd of a size above 1, which is not written"):format(kind, n))
        end
      end
      return g:node(op, { x })
    end
  end
end
rows.conv_transpose1d, rows.conv_transpose2d = convolution("ConvTranspose", 1), convolution("ConvTranspose", 2)

rows.batch_norm = function(g, x, set, p, buffers)
  local mean = buffers.running_mean
  local one = core.ones(mean:shape(), { dtype = mean:dtype() })
  return g:node("BatchNormalization", { x, g:constant(p.weight or one, "weight"),
    g:constant(p.bias or one * 0, "bias"), g:constant(mean, "running_mean"),
    g:constant(buffers.running_var, "running_var") }, { epsilon = set.epsilon })
end

rows.layer_norm = function(g, x, set, p)
  local size = {}
  for k, n in ipairs(set.sizes) do size[k] = math.tointeger(n) end
  local one = core.ones(size, { dtype = "float64" })
  return g:node("LayerNormalization", { x, g:constant(p.weight or one, "weight"),
    g:constant(p.bias or one * 0, "bias") }, { axis = -#size, epsilon = set.epsilon })
end

rows.rms_norm = function(g, x, set, p)
  local axes = {}
  for k = 1, #set.sizes do axes[k] = k - 1 - #set.sizes end
  local mean = g:node("ReduceMean", { g:node("Mul", { x, x }), g:constant(axes, "axes") })
  local scale = g:node("Sqrt", { g:node("Add", { mean, g:constant(set.epsilon, "epsilon") }) })
  local y = g:node("Div", { x, scale })
  return p.weight and g:node("Mul", { y, g:constant(p.weight, "weight") }) or y
end

-- One number for each channel, as it is spread over a value with this many axes.
local function by_channel(g, t, axes, hint)
  local shape = { t:numel() }
  for k = 2, axes - 1 do shape[k] = 1 end
  return g:constant(t:detach():reshape(shape), hint)
end

rows.group_norm = function(g, x, set, p)
  local groups = math.tointeger(set.sizes[1])
  local inner = g:node("Reshape", { x, g:constant({ 0, groups, -1 }, "groups") }, nil, 3)
  local one = core.ones({ groups }, { dtype = "float64" })
  inner = g:node("InstanceNormalization", { inner, g:constant(one, "one"), g:constant(one * 0, "zero") },
    { epsilon = set.epsilon })
  local y = g:node("Reshape", { inner, g:node("Shape", { x }, nil, 1) }, nil, g.axes[x])
  if not p.weight then
    return y
  end
  y = g:node("Mul", { y, by_channel(g, p.weight, g.axes[x], "weight") })
  return g:node("Add", { y, by_channel(g, p.bias, g.axes[x], "bias") })
end

rows.actnorm = function(g, x, _, p)
  local y = g:node("Add", { x, by_channel(g, p.bias, g.axes[x], "bias") })
  return g:node("Mul", { y, by_channel(g, p.log_scale:exp(), g.axes[x], "scale") })
end

rows.dropout = function(g, x, set)
  if set.always then
    refuse(g, "a dropout that draws in evaluation too (always), which is not written")
  end
  return x
end

rows.flatten = function(g, x) return g:node("Flatten", { x }, { axis = 1 }, 2) end

rows.reshape = function(g, x, set)
  local shape = { 0 }
  for k, n in ipairs(set.sizes) do shape[k + 1] = math.tointeger(n) end
  return g:node("Reshape", { x, g:constant(shape, "shape") }, nil, #shape)
end

rows.embedding = function(g, x, _, p)
  return g:node("Gather", { g:constant(p.weight, "weight"), x }, { axis = 0 }, g.axes[x] + 1)
end

rows.glu = function(g, x, set)
  local a, b = g:node("Split", { x }, { axis = math.tointeger(set.axis) > 0 and math.tointeger(set.axis) - 1
    or math.tointeger(set.axis), num_outputs = 2 }, nil, 2)
  return g:node("Mul", { a, g:node("Sigmoid", { b }) })
end

rows.pixel_shuffle = function(g, x, set)
  return g:node("DepthToSpace", { x }, { blocksize = math.tointeger(set.factor), mode = "CRD" })
end

for name, op in pairs { relu = "Relu", tanh = "Tanh", sigmoid = "Sigmoid", softplus = "Softplus", softsign = "Softsign",
  hard_swish = "HardSwish", mish = "Mish" } do
  rows[name] = function(g, x) return g:node(op, { x }) end
end

rows.selu = function(g, x) -- the constants as this library has them
  return g:node("Selu", { x }, { alpha = 1.6732632423543772, gamma = 1.0507009873554805 })
end

rows.leaky_relu = function(g, x, set) return g:node("LeakyRelu", { x }, { alpha = set.slope }) end

rows.elu = function(g, x, set) return g:node("Elu", { x }, { alpha = set.alpha }) end

rows.hard_sigmoid = function(g, x, set) return g:node("HardSigmoid", { x }, { alpha = set.slope, beta = 0.5 }) end

rows.hard_tanh = function(g, x, set)
  return g:node("Clip", { x, g:constant(set.low, "low"), g:constant(set.high, "high") })
end

rows.silu = function(g, x) return g:node("Mul", { x, g:node("Sigmoid", { x }) }) end

rows.gelu = function(g, x)
  local erf = g:node("Erf", { g:node("Mul", { x, g:constant(math.sqrt(0.5), "half_root") }) })
  return g:node("Mul", { g:node("Mul", { x, g:constant(0.5, "half") }), g:node("Add", { erf, g:constant(1, "one") }) })
end

rows.prelu = function(g, x, _, p)
  return g:node("PRelu", { x, p.weight:numel() == 1 and g:constant(p.weight, "weight")
    or by_channel(g, p.weight, g.axes[x], "weight") })
end

-- ---- recurrent layers ----

-- The blocks of `size` rows of t in this order.
local function blocks(t, size, order)
  local parts = {}
  for k, b in ipairs(order) do parts[k] = t:detach():slice(1, (b - 1) * size + 1, b * size) end
  return core.concatenate(parts, 1)
end

-- ours: gates in our order; order: where ONNX's gates stand among them.
local function recurrent(op, order, more)
  return function(g, x, set, p)
    if g.axes[x] ~= 3 then
      refuse(g, ("a recurrent layer of a value with %d axes; [T, batch, in] is written"):format(g.axes[x]))
    end
    local hidden = p.weight_hh:size(2)
    local inputs = { x, g:constant(blocks(p.weight_ih, hidden, order):unsqueeze(1), "weight_ih"),
      g:constant(blocks(p.weight_hh, hidden, order):unsqueeze(1), "weight_hh") }
    if p.bias_ih then
      inputs[4] = g:constant(core.concatenate({ blocks(p.bias_ih, hidden, order), blocks(p.bias_hh, hidden, order) }, 1)
        :unsqueeze(1), "bias")
    end
    local attributes = { hidden_size = hidden, direction = set.reverse and "reverse" or "forward" }
    more(attributes, set)
    local y = g:node(op, inputs, attributes, 4)
    return g:node("Squeeze", { y, g:constant({ 1 }, "direction") }, nil, 3)
  end
end

rows.gru = recurrent("GRU", { 2, 1, 3 }, function(attributes) attributes.linear_before_reset = 1 end)
rows.lstm = recurrent("LSTM", { 1, 4, 2, 3 }, function() end)
rows.rnn = recurrent("RNN", { 1 }, function(attributes, set)
  attributes.activations = { set.activation == "relu" and "Relu" or "Tanh" }
end)

-- ---- files ----

-- The shape with numbers for its free axes: the batch, and others large enough for a few convolutions.
local function tried(shape, more)
  local sizes, free = {}, 0
  for k, n in ipairs(shape) do
    free = n == -1 and free + 1 or free
    sizes[k] = n ~= -1 and n or free == 1 and 2 + more or 30 + 2 * free + 8 * more
  end
  return sizes
end

local function input_names(shape)
  local names, free = {}, 0
  for k, n in ipairs(shape) do
    free = n == -1 and free + 1 or free
    names[k] = n ~= -1 and n or free == 1 and "batch" or ("axis_%d"):format(k)
  end
  return names
end

local function run(net, x)
  if type(net) == "table" and net.mean then
    return net:mean(x)
  end
  return mode.in_mode("mean", net, x)
end

-- The shape of the output: numbers, or names where it follows the input's free axes.
local function output_shape(net, o, dtype)
  local function at(more)
    local x = core.zeros(tried(o.shape, more), { dtype = dtype })
    local y = recording.off(run, net, x)
    if not core.is_tensor(y) then
      core.error "save_onnx: the network must give one tensor"
    end
    return y:shape(), x:shape()
  end
  local first, x1 = at(0)
  local second, x2 = at(1)
  local named_axes, shape = input_names(o.shape), {}
  for k, n in ipairs(first) do
    shape[k] = n == second[k] and n or ("out_%d"):format(k)
    for j, m in ipairs(x1) do
      if n ~= second[k] and m == n and x2[j] == second[k] then shape[k] = named_axes[j] end
    end
  end
  return shape
end

local onnx_options = { shape = options.required "table", dtype = options.choice("float32", "float64"),
  name = "network" }

local function check_shape(shape)
  local free = 0
  for k = 1, #shape do
    local n = math.type(shape[k]) == "integer" and shape[k] or 0
    free = n == -1 and free + 1 or free
    if n < 1 and n ~= -1 then
      core.error(("save_onnx: shape[%d] must be a size from 1 on, or -1 for any, got %s"):format(k, tostring(shape[k])))
    end
  end
  if #shape == 0 then
    core.error "save_onnx: shape must be that of the input, {-1, 784}"
  end
end

-- The layer that sees the input first, to learn what dtype it takes.
local function first_layer(v)
  while not mode.is_layer(v) and mode.is_network(v) and v.kind == "sequential" do v = v[1] end
  return mode.is_layer(v) and v or nil
end

--- save_onnx(path, net, {shape = {-1, 784}}): writes what a network computes in evaluation mode as an ONNX file
--- (operator set 18): layers with a posterior by their means, normalisations by their running statistics, dropout as
--- identity; pn.help "penumbra.nn.onnx" says which layers are written, others are an error that names the part.
---
--- shape    of the input "x", -1 for axes of any size: the batch of {-1, 784}, steps and batch of {-1, -1, 3}
--- dtype    "float32" of weights and values, whatever the network has; "float64"
--- name     of the graph
---
--- The output is "y". The network is run twice, on zeros, to learn its shape. Returns true, or nil, message, code.
function onnx.save_onnx(path, net, given)
  options.argument("save_onnx", "path", path, "string")
  if not mode.is_network(net) then
    core.error(("save_onnx: net must be a layer or a network, got %s"):format(type(net)))
  end
  local o = options.check("save_onnx", given, onnx_options)
  check_shape(o.shape)
  local first = first_layer(net)
  local whole = first and first:type() == "embedding"
  local parameter = net:parameters()[1]
  local own = whole and "int64" or parameter and parameter:dtype() or "float64"
  local g = setmetatable({ nodes = {}, constants = {}, axes = {}, taken = { x = true, y = true }, path = {},
    dtype = o.dtype, name = o.name }, graph)
  g.axes.x = #o.shape
  local y = g:part(net, "x")
  g:node("Identity", { y })
  g.nodes[#g.nodes].outputs = { "y" }
  local shape = output_shape(net, o, own)
  g.doc = "What a network of Penumbra computes in evaluation mode; layers with a posterior by their means."
  g.inputs = { { name = "x", dtype = whole and "int64" or o.dtype, shape = input_names(o.shape) } }
  g.outputs = { { name = "y", dtype = o.dtype, shape = shape } }
  return onnx_model.save(path, g)
end

return onnx
