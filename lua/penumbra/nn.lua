--- Layers and networks. A layer is a value that is called: `y = layer(x)`; it keeps parameters, buffers and options and
--- nothing else, so it may be called any number of times, in any order. Layers that draw take a generator as last
--- argument: `layer(x, generator)`. Some take several inputs: `layer(query, key, value)`.
---
---     local net = nn.sequential{nn.linear(784, 99), nn.relu(), nn.linear(99, 10)}
---     local opt = optim.adam(net:parameters(), {lr = 1e-3})
---
--- Every network, whether one layer, a sequential or a module, has
---
---     net(x [, generator])     the output in training mode: units drop out, weights are drawn
---     net:evaluate(x, ...)     the output in evaluation mode: running statistics, nothing drops out, weights are drawn
---     net:mean(x)              evaluation at the posterior means (nothing is drawn)
---     net:moments(m [, v])     mean and variance of the output for an input of mean m and variance v (nil: certain)
---     net:predict(x [, {draws = 100, batch_size =}])  draws of the output, [draws, N, ...], a batch at a time
---     net:kl()                 KL divergence from posterior to prior, summed over what it holds; 0-d
---     net:parameters()         list, in a fixed order, each parameter once
---     net:named_parameters()   list of {name, parameter}; names as "2.weight"
---     net:named_buffers()      the same of the buffers: what changes and is not trained, as running statistics
---     net:state()              table name -> copy of the values of both, for pn.save
---     net:load_state(t)        the way back; missing, extra and misshapen entries are named
---
--- state and load_state take {layout = "torch"}: names and layouts of PyTorch (pn.help "penumbra.nn.torch_layout").
---
--- The mode belongs to the call, not to the network: net:evaluate(x) is in evaluation mode down to the innermost
--- layer, also through the `forward` of modules, and the next net(x) trains again. nn.mode() tells a layer in Lua
--- which it is.
---
--- No call changes a network. In training mode the output of batch_norm carries the update of its running statistics,
--- and the step that is taken on it commits that: opt:step(loss), or a compiled step, after all that can fail. A step
--- that is refused leaves parameters and buffers as they were. Who applies gradients himself calls
--- nn.update_buffers(loss).
---
--- Variances pass through a network with net:moments: where v has the shape of m, elements count as independent; with
--- the last axis twice, [..., n, n], it is a covariance, which linear layers take. A nil variance means certain, in the
--- arguments and in the results.
---
--- Recurrent layers (gru, lstm) map sequences [T, ..., in] to the outputs of all steps [T, ..., hidden], starting from
--- zeros; their state is h [..., hidden], that of lstm h and c. Weights are laid out as PyTorch's.
---
---     layer(x, lengths)          sequences that end earlier: lengths [...], int64; outputs after the end are 0
---     layer:unroll(x [, h, c])   outputs, h, c: a sequence from a given state, and the state after it
---     layer:step(x [, h, c])     h, c: one step, x [..., in]; h is the output
-- help: pn.nn, part
local core = require "penumbra.core"
local layers = require "penumbra.nn.layer"
local mode = require "penumbra.nn.mode"
local network = require "penumbra.nn.network"
local options = require "penumbra.options"
local transformer = require "penumbra.nn.transformer"
require "penumbra.nn.torch_layout" -- state{layout = "torch"}

local nn = {}

for _, part in ipairs { mode, network, layers, transformer } do
  for name, f in pairs(part) do nn[name] = f end
end
nn.in_mode, nn.is_layer = nil, nil -- of the parts alone
local is_layer, is_network = mode.is_layer, mode.is_network

--- fit_actnorm(layer, x): sets bias and scale of an actnorm so that its output for the batch x [batch, channels, ...]
--- has mean 0 and standard deviation 1 in each channel, as Kingma & Dhariwal (2018) start it; returns that output. It
--- is for the first batch, before training: an optimiser knows nothing of it.
function nn.fit_actnorm(layer, x)
  if not is_layer(layer) or layer:type() ~= "actnorm" then
    core.error("fit_actnorm: layer must be an actnorm, got " .. (is_layer(layer) and layer:type() or type(layer)))
  elseif not core.is_tensor(x) then
    core.error("fit_actnorm: x must be a tensor, got " .. type(x))
  end
  layer(x) -- names a shape that does not fit
  local axes = { 1 }
  for k = 3, #x:shape() do
    axes[#axes + 1] = k
  end
  local mean = x:detach():mean(axes)
  local scale = x:detach():std(axes, 0)
  if not (scale:gt(0):all():item() and scale:isfinite():all():item()) then
    core.error "fit_actnorm: every channel of x must vary"
  end
  layer:load_state { bias = mean * -1, log_scale = scale:log() * -1 }
  return layer(x)
end

-- ---- recurrent layers on each other ----

local stack_options = { layers = 1, bidirectional = false, dropout = 0, options = options.optional "table" }

--- recurrent(kind, in, hidden [, {layers = 1, bidirectional = false, dropout = 0, options =}]): recurrent layers
--- ("rnn", "gru", "lstm") on each other, each over the outputs of the one below; bidirectional ones run both ways and
--- put their outputs beside each other, [T, ..., 2 hidden]. dropout is the rate between layers; options are those of
--- each layer. Call it as a layer: net(x [, lengths]), x [T, ..., in]. Parameters are "1.forward.weight_ih",
--- "1.backward.weight_ih" and so on; in PyTorch's layout "weight_ih_l0", "weight_ih_l0_reverse".
function nn.recurrent(kind, inputs, hidden, given)
  options.argument("recurrent", "kind", kind, "string")
  if kind ~= "rnn" and kind ~= "gru" and kind ~= "lstm" then
    core.error(("recurrent: kind must be rnn, gru or lstm, got '%s'"):format(kind))
  end
  local o = options.check("recurrent", given or {}, stack_options)
  options.whole("recurrent", "layers", o.layers, 1)
  local function make(size, reverse)
    local all = { reverse = reverse }
    for key, value in pairs(o.options or {}) do
      all[key] = value
    end
    return nn[kind](size, hidden, all)
  end
  local net = {}
  for k = 1, o.layers do
    local size = k == 1 and inputs or (o.bidirectional and 2 or 1) * hidden
    net[k] = { forward = make(size, false), backward = o.bidirectional and make(size, true) or nil }
  end
  net.between = o.dropout > 0 and nn.dropout { rate = o.dropout } or nil
  function net.forward(self, x, lengths)
    for k, layer in ipairs(self) do
      if k > 1 and self.between then
        x = self.between(x)
      end
      local there = layer.forward(x, lengths)
      x = layer.backward and core.concatenate({ there, layer.backward(x, lengths) }, -1) or there
    end
    return x
  end
  function net.to_onnx(self, graph, x)
    for k, layer in ipairs(self) do
      local there = graph:part(layer.forward, x, k .. ".forward")
      x = layer.backward and graph:node("Concat", { there, graph:part(layer.backward, x, k .. ".backward") },
        { axis = -1 }) or there
    end
    return x
  end
  function net.torch_name(name) -- "0.backward.weight_ih_l0" -> "weight_ih_l0_reverse"
    local k, way, what = name:match "^(%d+)%.(%a+)%.(.*)_l0$"
    return ("%s_l%s%s"):format(what, k, way == "backward" and "_reverse" or "")
  end
  return nn.module(net)
end

-- ---- networks beside each other ----

local function check_part(where, role, v)
  if not is_network(v) and type(v) ~= "function" then
    core.error(("%s: %s must be a layer, a network or a function, got %s"):format(where, role, type(v)))
  end
end

local function call_part(part, x, generator)
  if is_network(part) then
    return part(x, generator)
  end
  return part(x)
end

local function part_moments(where, part, mean, variance)
  if variance and #variance:shape() > #mean:shape() then
    core.error(where .. ": passes variances on, not covariances")
  elseif is_network(part) then
    return part:moments(mean, variance)
  elseif variance then
    core.error(where .. ": a function passes no variance on")
  end
  return part(mean)
end

--- residual(body [, shortcut]): x + body(x), or shortcut(x) + body(x): networks or functions of one tensor (He et al.
--- 2016). moments() adds the variances of both: it takes them as independent.
function nn.residual(body, shortcut)
  check_part("residual", "body", body)
  if shortcut ~= nil then
    check_part("residual", "shortcut", shortcut)
  end
  return nn.module {
    body = body,
    shortcut = shortcut,
    forward = function(self, x, generator)
      return (self.shortcut and call_part(self.shortcut, x, generator) or x) + call_part(self.body, x, generator)
    end,
    to_onnx = function(self, graph, x)
      local y = graph:part(self.body, x, "body")
      return graph:node("Add", { self.shortcut and graph:part(self.shortcut, x, "shortcut") or x, y })
    end,
    moments = function(self, mean, variance)
      local m, v = part_moments("residual", self.body, mean, variance)
      if self.shortcut then
        mean, variance = part_moments("residual", self.shortcut, mean, variance)
      end
      return mean + m, variance and v and variance + v or variance or v
    end,
  }
end

--- concat(parts [, axis = -1]): the outputs of several networks or functions for one input, one after another along an
--- axis: nn.concat{nn.linear(3, 2), pn.tanh}. moments() joins means and variances.
function nn.concat(parts, axis)
  if type(parts) ~= "table" or getmetatable(parts) or #parts == 0 then
    core.error "concat: needs a list of networks, as in nn.concat{nn.linear(3, 2), pn.tanh}"
  end
  for k, part in ipairs(parts) do
    check_part("concat", "part " .. k, part)
  end
  if axis ~= nil and math.type(axis) ~= "integer" then
    core.error(("concat: axis must be a whole number, got %s"):format(tostring(axis)))
  end
  return nn.module {
    parts = { table.unpack(parts) },
    forward = function(self, x, generator)
      local out = {}
      for k, part in ipairs(self.parts) do
        out[k] = call_part(part, x, generator)
      end
      return core.concatenate(out, axis or -1)
    end,
    to_onnx = function(self, graph, x)
      local out = {}
      for k, part in ipairs(self.parts) do out[k] = graph:part(part, x, k) end
      local from = axis or -1
      return graph:node("Concat", out, { axis = from > 0 and from - 1 or from })
    end,
    moments = function(self, mean, variance)
      local means, variances, uncertain = {}, {}, false
      for k, part in ipairs(self.parts) do
        means[k], variances[k] = part_moments("concat", part, mean, variance)
        uncertain = uncertain or variances[k] ~= nil
      end
      for k = 1, uncertain and #means or 0 do
        variances[k] = variances[k] or means[k] * 0
      end
      return core.concatenate(means, axis or -1), uncertain and core.concatenate(variances, axis or -1) or nil
    end,
  }
end

--- A tensor from an initialiser: nn.initialise("he", {784, 400} [, {gain =, dtype =, generator =}]).
function nn.initialise(name, shape, given)
  local names = {}
  options.argument("initialise", "name", name, "string")
  for _, row in ipairs(core.initialiser_rows()) do
    if row.name == name or row.alias == name then
      return core.initialise(name, shape, given)
    end
    names[#names + 1] = row.name
  end
  return core.error(("initialise: there is no initialiser '%s'%s"):format(tostring(name),
    options.suggestion(name, names)))
end

-- ---- multilayer perceptrons ----

--- The names of activations: elementwise layers without parameters.
nn.activations = {}
for _, row in ipairs(core.layer_rows()) do
  nn.activations[#nn.activations + 1] = row.activation and row.name or nil
end

-- One activation a call, from its name or from a layer or function, which stands there each time.
local function activation_of(given)
  if not given or type(given) == "function" or is_network(given) then
    return function() return given or nil end
  end
  for _, name in ipairs(nn.activations) do
    if name == given then return nn[name] end
  end
  return core.error(("mlp: activation must be %s, a layer, a function or false, got %s%s"):format(
    table.concat(nn.activations, ", "), type(given) == "string" and "'" .. given .. "'" or type(given),
    options.suggestion(given, nn.activations)))
end

local mlp_options = { activation = options.any "tanh", dtype = options.optional "string", bias = true,
  init = options.optional "string", generator = options.optional "generator" }

--- mlp(sizes [, {activation = "tanh", dtype =, bias = true, init =, generator =}]): a sequential of linear layers
--- sizes[1] -> sizes[2] -> ... -> sizes[n] with the activation between them, and none at the end:
---     local net = pn.nn.mlp({ 784, 200, 200, 10 }, { activation = "relu" })
--- activation is the name of one (pn.nn.activations), an elementwise layer, a function of a tensor, or false: none. The
--- parameters are drawn in the layers' order; dtype, bias, init and generator are those of nn.linear.
function nn.mlp(sizes, given)
  local o = options.check("mlp", given or {}, mlp_options)
  options.argument("mlp", "sizes", sizes, "table")
  if #sizes < 2 then
    core.error(("mlp: sizes must be a list of at least two, of inputs and of outputs, got %d"):format(#sizes))
  end
  local activation, list = activation_of(o.activation), {}
  local how = { dtype = o.dtype, bias = o.bias, init = o.init, generator = o.generator }
  for k, size in ipairs(sizes) do
    options.whole("mlp", ("sizes[%d]"):format(k), size, 1)
    if k > 1 then
      list[#list + 1] = nn.linear(math.tointeger(sizes[k - 1]), math.tointeger(size), how)
      list[#list + 1] = k < #sizes and activation() or nil
    end
  end
  return nn.sequential(list)
end

nn.bayesian = require "penumbra.nn.bayesian".bayesian
nn.save_onnx = require "penumbra.nn.onnx".save_onnx
nn.predict = require "penumbra.nn.predict".predict
nn.likelihood = core.namespace("pn.nn.likelihood", require "penumbra.nn.likelihood")
nn.activation_variance = require "penumbra.nn.unit_variance".activation_variance

return nn
