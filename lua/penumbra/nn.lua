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
local options = require "penumbra.options"
local parameters = require "penumbra.nn.parameters"

local nn = {}

local network = parameters.methods

local function is_layer(v)
  return type(v) == "userdata" and getmetatable(v) == "penumbra.layer"
end

local function is_network(v)
  local meta = type(v) == "table" and getmetatable(v)
  return is_layer(v) or meta and meta.network == true or false
end

-- ---- one layer as text ----

local function sorted(t)
  local keys = {}
  for key in pairs(t) do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if math.type(a) and math.type(b) then
      return a < b
    end
    return math.type(a) ~= nil or math.type(b) == nil and a < b
  end)
  return keys
end

local maps = {} -- layers from `in` to something
local layer_rows = core.layer_rows()
for _, row in ipairs(layer_rows) do
  maps[row.name] = row.sizes[1] == "in"
end

core.set_tostring("penumbra.layer", function(layer)
  local sizes, set = layer:configuration()
  local parts = {}
  if #sizes > 0 then
    parts[1] = table.concat(sizes, maps[layer:type()] and " -> " or ", ")
  end
  for _, key in ipairs(sorted(set)) do
    local v = set[key]
    local text = type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or tostring(v)
    parts[#parts + 1] = ("%s = %s"):format(key, text)
  end
  return ("%s(%s)"):format(layer:type(), table.concat(parts, ", "))
end)

-- ---- modes ----

-- f(...) in a mode, which is again what it was when f returns or raises.
local function in_mode(mode, f, ...)
  local before = core.mode(mode)
  local result = table.pack(pcall(f, ...))
  core.mode(before)
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

--- mode([new, f, ...]): without arguments the mode in which layers are called now: "training", "evaluation" or "mean",
--- for layers written in Lua. With them f(...) in another mode; the mode is restored when f returns or raises.
function nn.mode(new, f, ...)
  if new == nil then
    return core.mode()
  end
  options.argument("mode", "mode", new, "string")
  options.argument("mode", "f", f, "function")
  return in_mode(new, f, ...)
end

--- buffer(t): a tensor (a copy of t, or of a number) that a network holds, saves and loads, and that no optimiser
--- trains. b:set(t) sets it; steps change it by what their loss carries (pn.nn.with_update).
function nn.buffer(t)
  return core.buffer(t)
end

--- with_update(y, buffer, value [, rate = 1]): y, which from here on carries an update: the step that is taken on what
--- is computed from y sets buffer to (1 - rate) buffer + rate value. Use the result in place of y:
---
---     forward = function(self, x)
---       if nn.mode() ~= "training" then return x - self.running_mean end
---       local m = x:mean(1)
---       return nn.with_update(x - m, self.running_mean, m, 0.1)
---     end
---
--- Nothing is changed before the step, and nothing at all if it is refused. Under pn.no_grad nothing is carried.
function nn.with_update(y, buffer, value, rate)
  return core.with_update(y, buffer, value, rate)
end

--- update_buffers(y): commits the updates that y carries: for those who take their steps without opt:step. Everything
--- is checked first; a value that is not finite is an error, and then nothing has changed.
function nn.update_buffers(y)
  core.update_buffers(y)
end

-- ---- networks of networks ----

--- The KL divergence summed over all layers that have a posterior, each once, and over networks and objects with a `kl`
--- of their own, wherever they stand; 0 if there is none.
local function kl(self)
  local total = parameters.kl(self, kl)
  if total then
    return total
  end
  local first = self:parameters()[1]
  return core.tensor(0, { dtype = first and first:dtype() or nil })
end

local held = { ["penumbra.distribution"] = true, ["penumbra.bijector"] = true, ["penumbra.natural"] = true }

-- The line for a part that is no table; nil if it holds nothing.
local function line_of(v)
  local n, text = 0, nil
  if core.is_tensor(v) then
    n = v:is_param() and v:numel() or 0
    text = n > 0 and "parameter [" .. table.concat(v:shape(), ", ") .. "]"
      or v:is_buffer() and "buffer [" .. table.concat(v:shape(), ", ") .. "]"
  elseif is_layer(v) then
    n, text = v:num_parameters(), tostring(v)
  elseif type(v) == "userdata" and held[getmetatable(v)] then
    n = v:num_parameters()
    text = n > 0 and ("%s %s"):format(getmetatable(v):match "%a+$",
      getmetatable(v) == "penumbra.natural" and v.form or v.name)
  end
  return text and (n > 0 and ("%-40s %d"):format(text, n) or text) or nil
end

-- Appends the lines of the table v after `head`: a line for each part that is a network or holds something, in order.
-- Of functions those of a sequential. What holds nothing leaves no line.
local function add_lines(out, v, head, indent, open)
  local start, network_of = #out + 1, is_network(v)
  out[start] = ("%s%s{"):format(head, network_of and v.kind .. " " or "")
  open[v] = true
  for _, entry in ipairs(parameters.entries(v)) do
    local part = entry[2]
    local name = ("%s  %s: "):format(indent, tostring(entry[1]))
    if type(part) == "table" then
      if not open[part] then
        add_lines(out, part, name, indent .. "  ", open)
      end
    else
      local function_of = type(part) == "function" and network_of and rawget(v, "forward") == nil
      local line = function_of and "function" or line_of(part)
      out[#out + 1] = line and name .. line
    end
  end
  open[v] = nil
  if #out > start then
    out[#out + 1] = indent .. "}"
  else
    out[start] = network_of and out[start] .. "}" or nil
  end
end

local function describe(self)
  local n = self:num_parameters() -- raises for what cannot be shown
  local out = {}
  add_lines(out, self, "", "", {})
  local b = self:num_buffers()
  return ("%s %d parameters%s"):format(table.concat(out, "\n"), n, b > 0 and (", %d in buffers"):format(b) or "")
end

--- The output in evaluation mode: running statistics instead of those of the batch, nothing drops out; weights with a
--- posterior are drawn.
local function evaluate(self, ...)
  return in_mode("evaluation", self, ...)
end

--- Draws of the output, [draws, N, ...], or with {moments = true} their mean and variance, batch by batch in bounded
--- memory: net:predict(x, {draws = 100, batch_size = 1024}); options as for nn.predict.
local function draws_of(self, x, given)
  return require "penumbra.nn.predict".predict(self, x, given)
end

core.layer_methods.predict = core.public(draws_of)

local sequential = { kind = "sequential", kl = kl, predict = draws_of }
for name, method in pairs(network) do
  sequential[name] = method
end

local function mean_in_turn(self, x)
  for _, layer in ipairs(self) do
    if is_network(layer) then
      x = layer:mean(x)
    else
      x = layer(x)
    end
  end
  return x
end

--- The output when every layer uses its posterior means, in evaluation mode.
function sequential:mean(x)
  return in_mode("mean", mean_in_turn, self, x)
end

--- Mean and variance of the output for an input of mean `mean` and variance `variance` (nil: certain), layer by
--- layer. Plain functions pass what is certain.
function sequential:moments(mean, variance)
  for k, layer in ipairs(self) do
    if is_network(layer) then
      mean, variance = layer:moments(mean, variance)
    elseif variance == nil then
      mean = layer(mean)
    else
      core.error(("moments: part %d is a function, through which no variance passes (a module with a field `moments` "
        .. "has its own)"):format(k))
    end
  end
  return mean, variance
end

sequential.evaluate = evaluate

local sequential_meta = { __index = core.namespace("a network", sequential), __tostring = describe, network = true }

sequential_meta.__call = core.call_in_turn -- in C: it stays in the frame of `return net(x)`

--- Layers one after another: nn.sequential{first, second, ...}. Members are layers, networks, or plain
--- functions of one tensor (as pn.tanh).
function nn.sequential(layers)
  if type(layers) ~= "table" or getmetatable(layers) then
    core.error("sequential: needs a list of layers, as in nn.sequential{nn.linear(2, 3), nn.relu()}")
  end
  local self = {}
  for key, layer in pairs(layers) do
    if math.type(key) ~= "integer" or key < 1 or key > #layers then
      core.error(("sequential: layers are listed without names, got '%s'"):format(tostring(key)))
    end
    if not is_network(layer) and type(layer) ~= "function" then
      core.error(("sequential: layer %d must be a layer or a function, got %s"):format(key, type(layer)))
    end
    self[key] = layer
  end
  return setmetatable(self, sequential_meta)
end

local module = { kind = "module", kl = kl, predict = draws_of }
for name, method in pairs(network) do
  module[name] = method
end

local busy = setmetatable({}, { __mode = "k" }) -- modules whose own `mean` runs

-- The module's own `mean`, in the mode of that name; what it calls on the module itself is `forward`.
local function own_mean(self, own, ...)
  busy[self] = true
  local result = table.pack(pcall(in_mode, "mean", own, self, ...))
  busy[self] = nil
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

local function call(self, ...)
  local forward, own = self.forward, rawget(self, "own_mean")
  if own and not busy[self] and core.mode() == "mean" then
    return own_mean(self, own, ...)
  elseif forward == nil then
    core.error "module: this one has no field `forward`, a function (self, x)"
  end
  return forward(self, ...)
end

--- The output at the posterior means: `forward` with every layer at its means, unless the module has its own `mean`.
function module:mean(...)
  return in_mode("mean", call, self, ...)
end

--- Mean and variance of the output. A module has its own, a field `moments`, function (self, mean, variance), or passes
--- inputs that are certain if it holds nothing with a posterior.
function module:moments(mean, variance)
  if variance ~= nil or parameters.kl(self, kl) then
    core.error "moments: this module has no field `moments`, a function (self, mean, variance)"
  end
  return self(mean), nil
end

module.evaluate = evaluate

local module_meta = {
  __index = core.namespace("a module", module),
  __tostring = describe,
  network = true,
  __call = call,
}

--- A network of one's own: nn.module{trunk = net, log_noise = pn.param(pn.zeros{}), forward =
--- function(self, x, generator) ... end}. Networks, parameters, buffers (pn.nn.buffer), distributions and bijectors are
--- found wherever they stand among the fields, in lists and tables too, by parameters(), state(), kl() (pn.help
--- "penumbra.nn.parameters"). Fields `kl`, function(self), `mean`, function(self, x), and `moments`, function(self,
--- mean, variance), take the place of the methods, also where networks around it ask. `forward` takes any number of
--- inputs; it may be absent where the fields are used one by one. What it calls runs in the mode of its own call
--- (pn.nn.mode).
function nn.module(fields)
  if type(fields) ~= "table" or getmetatable(fields) then
    core.error("module: needs a table of networks and parameters with a field `forward`")
  end
  for name in pairs(network) do
    if fields[name] ~= nil then
      core.error(("module: '%s' is a method of every network and cannot be a field"):format(name))
    end
  end
  for _, name in ipairs { "forward", "kl", "mean", "moments", "evaluate", "predict" } do
    if fields[name] ~= nil and type(fields[name]) ~= "function" then
      core.error(("module: '%s' is a method of every network and must be a function, got %s"):format(name,
        type(fields[name])))
    end
  end
  local self = {}
  for name, v in pairs(fields) do
    self[name] = v
  end
  if self.mean then
    self.own_mean, self.mean = self.mean, nil
  end
  return setmetatable(self, module_meta)
end

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

--- Is v a layer, a sequential or a module?
nn.is_network = is_network

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

-- ---- one constructor per row: nn.linear(in, out, options), nn.relu(options) ----

-- Settings of a layer as a table, of what a call says after its sizes: by position in the order in which help prints
-- them, then a table.
local function settings_of(row, ...)
  local n, given = select("#", ...), nil
  local first = ...
  if n == 0 or n == 1 and (first == nil or type(first) == "table") then
    return first
  end
  local set, values = {}, { ... }
  if type(values[n]) == "table" then
    given, n = values[n], n - 1
    for key, value in pairs(given) do set[key] = value end
  end
  if n > #row.options then
    core.error(("%s: takes at most %d numbers and settings, got %d"):format(row.name, #row.sizes + #row.options,
      #row.sizes + n))
  end
  for k = 1, n do
    local name = row.options[k].name
    if type(values[k]) == "table" then
      core.error(("%s: settings by name stand last, got a table before others"):format(row.name))
    elseif given and given[name] ~= nil then
      core.error(("%s: %s is given by position and by name"):format(row.name, name))
    end
    set[name] = values[k]
  end
  return set
end

local function constructor(row)
  local names, n = row.sizes, #row.sizes
  local open = n > 0 and names[n]:match "^(.*)%.%.%.$" -- the last name stands for one or more sizes
  return function(...)
    local last, sizes = n, n > 0 and {} or nil
    if open then
      last = select("#", ...)
      last = last >= n and math.type((select(last, ...))) == "integer" and last or math.max(n, last - 1)
    end
    for k = 1, last do
      sizes[k] = (select(k, ...))
      if math.type(sizes[k]) ~= "integer" then
        core.error(("%s: %s must be a whole number, got %s"):format(row.name, k >= n and open or names[k],
          tostring(sizes[k])))
      end
    end
    return core.new_layer(row.name, sizes, settings_of(row, select(last + 1, ...)))
  end
end

for _, row in ipairs(layer_rows) do
  nn[row.name] = constructor(row)
end

-- ---- multilayer perceptrons ----

--- The names of activations: elementwise layers without parameters.
nn.activations = {}
for _, row in ipairs(layer_rows) do
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
nn.predict = require "penumbra.nn.predict".predict
nn.likelihood = core.namespace("pn.nn.likelihood", require "penumbra.nn.likelihood")
nn.activation_variance = require "penumbra.nn.unit_variance".activation_variance

return nn
