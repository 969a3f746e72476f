--- Layers and networks. A layer is a value that is called: `y = layer(x)`; it keeps parameters and
--- options and nothing else, so it may be called any number of times, in any order. Layers that draw
--- take a generator as second argument: `layer(x, generator)`.
---
---     local net = nn.sequential{nn.linear(784, 400), nn.relu(), nn.linear(400, 10)}
---     local opt = optim.adam(net:parameters(), {lr = 1e-3})
---
--- Every network, whether one layer, a sequential or a module, has
---
---     net(x [, generator])     the output
---     net:mean(x)              the output at the posterior means (nothing is drawn)
---     net:kl()                 KL divergence from posterior to prior, summed over layers; 0-d
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
local core = require "penumbra.core"
local options = require "penumbra.options"

local nn = {}

-- ---- what every network can do ----

local network = {}

local function is_layer(v)
  return type(v) == "userdata" and getmetatable(v) == "penumbra.layer"
end

local function is_network(v)
  local meta = type(v) == "table" and getmetatable(v)
  return is_layer(v) or meta and meta.network == true or false
end

-- Appends {name, parameter} of v to the list; `seen` drops what is there already, plain functions have none.
local function collect(v, name, list, seen)
  if seen[v] then
    return -- with all that it holds
  elseif is_layer(v) then
    seen[v] = true
    for _, p in ipairs(v:own_parameters()) do
      collect(p[2], name == "" and p[1] or name .. "." .. p[1], list, seen)
    end
  elseif is_network(v) then
    seen[v] = true
    for _, child in ipairs(v:children()) do
      collect(child[2], name == "" and child[1] or name .. "." .. child[1], list, seen)
    end
  elseif core.is_tensor(v) then
    seen[v] = true
    list[#list + 1] = { name, v }
  end
end

--- List of {name, parameter} in a fixed order. A parameter that is used twice is listed once.
function network:named_parameters()
  local list = {}
  collect(self, "", list, {})
  return list
end

--- List of the parameters, in the order of named_parameters. Its field `names` serves the messages of
--- optimisers.
function network:parameters()
  local list, names = {}, {}
  for k, entry in ipairs(self:named_parameters()) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  return list
end

--- Number of parameter elements.
function network:num_parameters()
  local n = 0
  for _, w in ipairs(self:parameters()) do
    n = n + w:numel()
  end
  return n
end

--- Table name -> copy of the values: a snapshot that later steps do not change.
function network:state()
  local state = {}
  for _, entry in ipairs(self:named_parameters()) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

-- What of `state` does not fit the named parameters, as a list of phrases.
local function misfits(entries, state)
  local wrong, known = {}, {}
  for _, entry in ipairs(entries) do
    local name, w, t = entry[1], entry[2], state[entry[1]]
    known[name] = true
    if t == nil then
      wrong[#wrong + 1] = ("'%s' is missing"):format(name)
    elseif not core.is_tensor(t) then
      wrong[#wrong + 1] = ("'%s' must be a tensor, got %s"):format(name, type(t))
    elseif shape_text(t) ~= shape_text(w) then
      wrong[#wrong + 1] = ("'%s' must have shape %s, got %s"):format(name, shape_text(w), shape_text(t))
    elseif t:dtype() ~= w:dtype() then
      wrong[#wrong + 1] = ("'%s' must be %s, got %s"):format(name, w:dtype(), t:dtype())
    end
  end
  local extra = {}
  for name in pairs(state) do
    if not known[name] then
      extra[#extra + 1] = tostring(name)
    end
  end
  table.sort(extra)
  for _, name in ipairs(extra) do
    wrong[#wrong + 1] = ("'%s' is not a parameter of this network"):format(name)
  end
  return wrong
end

--- Sets the parameters from a table name -> tensor. Everything is checked first, so on an error nothing
--- has changed. Returns the network.
function network:load_state(state)
  if type(state) ~= "table" then
    core.error("load_state: state must be a table of tensors, got " .. type(state))
  end
  local entries = self:named_parameters()
  local wrong = misfits(entries, state)
  if #wrong > 0 then
    core.error("load_state: " .. table.concat(wrong, "; "))
  end
  for _, entry in ipairs(entries) do
    entry[2]:set(state[entry[1]])
  end
  return self
end

for name, method in pairs(network) do
  core.layer_methods[name] = method
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

local function kl_of(v)
  if is_layer(v) then
    return v:stochastic() and v:kl() or nil
  end
  if not is_network(v) then
    return nil
  end
  local total
  for _, child in ipairs(v:children()) do
    local part = kl_of(child[2])
    if part then
      total = total and total + part or part
    end
  end
  return total
end

--- The KL divergence summed over all layers that have a posterior; 0 if none has.
local function kl(self)
  local total = kl_of(self)
  if total then
    return total
  end
  local first = self:parameters()[1]
  return core.tensor(0, { dtype = first and first:dtype() or nil })
end

local function text_of(v, indent)
  if not is_network(v) or is_layer(v) then
    local n = is_layer(v) and v:num_parameters() or core.is_tensor(v) and v:numel() or 0
    local text = core.is_tensor(v) and "parameter " .. shape_text(v) or is_layer(v) and tostring(v) or "function"
    return n > 0 and ("%-40s %d"):format(text, n) or text
  end
  local lines = { v.kind .. " {" }
  for _, child in ipairs(v:children()) do
    lines[#lines + 1] = ("%s  %s: %s"):format(indent, child[1], text_of(child[2], indent .. "  "))
  end
  lines[#lines + 1] = indent .. "}"
  return table.concat(lines, "\n")
end

local function describe(self)
  return ("%s %d parameters"):format(text_of(self, ""), self:num_parameters())
end

local sequential = { kind = "sequential", kl = kl }
for name, method in pairs(network) do
  sequential[name] = method
end

--- List of {name, part}: the layers by position.
function sequential:children()
  local list = {}
  for k, layer in ipairs(self) do
    list[k] = { tostring(k), layer }
  end
  return list
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

function sequential_meta.__call(self, x, generator)
  if generator == nil then
    for k = 1, #self do
      x = self[k](x)
    end
    return x
  end
  for _, layer in ipairs(self) do
    if is_network(layer) then
      x = layer(x, generator)
    else
      x = layer(x)
    end
  end
  return x
end

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

--- List of {name, part}: networks and parameters among the fields, by name.
function module:children()
  local list = {}
  for _, name in ipairs(sorted(self)) do
    local v = self[name]
    if is_network(v) or core.is_tensor(v) and v:is_param() then
      list[#list + 1] = { tostring(name), v }
    end
  end
  return list
end

--- The output at the posterior means. A module whose `forward` is more than its parts defines its own.
function module:mean()
  core.error("mean: this module has no field `mean`, a function (self, x)")
  return self
end

local module_meta = {
  __index = core.namespace("a network", module),
  __tostring = describe,
  network = true,
  __call = function(self, ...)
    return self:forward(...)
  end,
}

--- A network of one's own: nn.module{trunk = net, log_noise = pn.param(pn.zeros{}), forward =
--- function(self, x, generator) ... end}. Networks and parameters among the fields are found by
--- parameters(), state(), kl().
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
