--- Networks of layers and networks: one after another (sequential), or a module of one's own.
-- help: pn.nn, quiet, methods nn
local core = require "penumbra.core"
local mode = require "penumbra.nn.mode"
local parameters = require "penumbra.parameters"
local predict = require "penumbra.nn.predict".predict

local nn = {}

local network = parameters.methods
local in_mode, is_layer, is_network = mode.in_mode, mode.is_layer, mode.is_network

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
  return predict(self, x, given)
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
--- "penumbra.parameters"). Fields `kl`, function(self), `mean`, function(self, x), and `moments`, function(self,
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

return nn
