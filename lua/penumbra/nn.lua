--- Layers and networks. A layer is a value that is called: `y = layer(x)`; it keeps parameters and
--- options and nothing else, so it may be called any number of times, in any order. Layers that draw
--- take a generator as second argument: `layer(x, generator)`.
---
---     local net = nn.sequential{nn.linear(784, 99), nn.relu(), nn.linear(99, 10)}
---     local opt = optim.adam(net:parameters(), {lr = 1e-3})
---
--- Every network, whether one layer, a sequential or a module, has
---
---     net(x [, generator])     the output
---     net:mean(x)              the output at the posterior means (nothing is drawn)
---     net:kl()                 KL divergence from posterior to prior, summed over what it holds; 0-d
---     net:parameters()         list, in a fixed order, each parameter once
---     net:named_parameters()   list of {name, parameter}; names as "2.weight"
---     net:state()              table name -> copy of the values, for pn.save
---     net:load_state(t)        the way back; missing, extra and misshapen entries are named
---
--- Recurrent layers (gru, lstm) map sequences [T, ..., in] to the outputs of all steps [T, ..., hidden], starting from
--- zeros; their state is h [..., hidden], that of lstm h and c. Weights are laid out as PyTorch's.
---
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

core.set_tostring("penumbra.layer", function(layer)
  local sizes, set = layer:configuration()
  local parts = {}
  if #sizes > 0 then
    parts[1] = table.concat(sizes, " -> ")
  end
  for _, key in ipairs(sorted(set)) do
    parts[#parts + 1] = ("%s = %s"):format(key, tostring(set[key]))
  end
  return ("%s(%s)"):format(layer:type(), table.concat(parts, ", "))
end)

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
  return ("%s %d parameters"):format(table.concat(out, "\n"), n)
end

local sequential = { kind = "sequential", kl = kl }
for name, method in pairs(network) do
  sequential[name] = method
end

--- The output when every layer uses its posterior means.
function sequential:mean(x)
  for _, layer in ipairs(self) do
    if is_network(layer) then
      x = layer:mean(x)
    else
      x = layer(x)
    end
  end
  return x
end

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

local module = { kind = "module", kl = kl }
for name, method in pairs(network) do
  module[name] = method
end

--- The output at the posterior means. A module whose `forward` is more than its parts defines its own.
function module:mean()
  core.error("mean: this module has no field `mean`, a function (self, x)")
  return self
end

local module_meta = {
  __index = core.namespace("a module", module),
  __tostring = describe,
  network = true,
  __call = function(self, ...)
    return self:forward(...)
  end,
}

--- A network of one's own: nn.module{trunk = net, log_noise = pn.param(pn.zeros{}), forward =
--- function(self, x, generator) ... end}. Networks, parameters, distributions and bijectors are found wherever they
--- stand among the fields, in lists and tables too, by parameters(), state(), kl() (pn.help "penumbra.nn.parameters").
--- Fields `kl`, function(self), and `mean`, function(self, x), take the place of the methods, also where networks
--- around it ask.
function nn.module(fields)
  if type(fields) ~= "table" or getmetatable(fields) then
    core.error("module: needs a table of networks and parameters with a field `forward`")
  end
  if type(fields.forward) ~= "function" then
    core.error("module: field 'forward' must be a function (self, x), got " .. type(fields.forward))
  end
  for name in pairs(network) do
    if fields[name] ~= nil then
      core.error(("module: '%s' is a method of every network and cannot be a field"):format(name))
    end
  end
  for _, name in ipairs { "kl", "mean" } do
    if fields[name] ~= nil and type(fields[name]) ~= "function" then
      core.error(("module: '%s' is a method of every network and must be a function, got %s"):format(name,
        type(fields[name])))
    end
  end
  local self = {}
  for name, v in pairs(fields) do
    self[name] = v
  end
  return setmetatable(self, module_meta)
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

for _, row in ipairs(core.layer_rows()) do
  local n = #row.sizes
  nn[row.name] = function(...)
    local sizes = n > 0 and { ... } or nil
    local given = select(n + 1, ...)
    for k = 1, n do
      if math.type(sizes[k]) ~= "integer" then
        core.error(("%s: %s must be a whole number, got %s"):format(row.name, row.sizes[k], tostring(sizes[k])))
      end
    end
    for k = n + 1, sizes and #sizes or 0 do
      sizes[k] = nil
    end
    return core.new_layer(row.name, sizes, given)
  end
end

return nn
