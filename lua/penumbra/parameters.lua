--- What a network holds, parameters and buffers, found wherever it stands: in layers, networks, modules, lists,
--- tables, objects of one's own, distributions, bijectors and Gaussian factors. One walk serves parameters, states,
--- counts, divergences, optimisers and texts, so that nothing is left untrained, unsaved or uncounted.
---
--- The order is the same in every process: entries of a list by position, then the other fields by the bytes of their
--- names; parameters of a distribution or bijector as its row declares them, then its parts. A name is the path,
--- "blocks.1.weight". A parameter, table or layer that stands in several places counts once, at the first of them.
---
--- Plain tensors are constants and are passed over. So are functions: what one of them keeps to itself (an upvalue)
--- is not held by the network. What cannot be scanned is an error: coroutines, files and other foreign objects,
--- parameters under keys that are no names, two parameters of one name, and a tensor that was computed from a
--- parameter which is not held (it would not change with it).
-- help: module, methods net
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"

local parameters = {}

-- ---- what stands in a value ----

-- Byte by byte: `<` on strings follows the host's locale.
local function byte_less(a, b)
  local i = 1
  while i <= #a and a:byte(i) == b:byte(i) do
    i = i + 1
  end
  return (a:byte(i) or -1) < (b:byte(i) or -1)
end

local rank = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local ra, rb = rank[type(a)], rank[type(b)]
  if ra ~= rb then
    return ra < rb
  elseif ra == 1 then
    return a < b
  end
  return byte_less(tostring(a), tostring(b))
end

-- The keys of t in order, and a list of those that are no names.
local function keys_of(t)
  local keys, n, sorted, odd = {}, 0, true, nil
  for key in pairs(t) do
    if rank[type(key)] then
      n = n + 1
      keys[n] = key
      sorted = sorted and key == n
    else
      odd = odd or {}
      odd[#odd + 1] = key
    end
  end
  if not sorted then
    table.sort(keys, before)
  end
  return keys, odd
end

local declared -- kind -> names of its parameters in order

local function declared_names(kind)
  if not declared then
    declared = {}
    for _, rows in ipairs { core.distribution_rows(), core.bijector_rows() } do
      for _, row in ipairs(rows) do
        local names = {}
        for k, p in ipairs(row.parameters) do
          names[k] = p.name
        end
        declared[row.name .. ":" .. row.kind] = names
      end
    end
  end
  return declared[kind] or {}
end

-- Each of these gives a list of {name, part} of a value of its type.
local inside = {}

inside["penumbra.layer"] = function(layer)
  local buffers = layer:own_buffers()
  if #buffers == 0 then
    return layer:own_parameters()
  end
  local list = table.move(layer:own_parameters(), 1, #layer:own_parameters(), 1, {})
  return table.move(buffers, 1, #buffers, #list + 1, list)
end

local function of_kind(v, type_name)
  local list, given = {}, v:arguments()
  for _, name in ipairs(declared_names(v.name .. ":" .. type_name)) do
    list[#list + 1] = given[name] and { name, given[name] } or nil
  end
  for i, part in ipairs(v.parts) do
    list[#list + 1] = { i, part }
  end
  return list
end

inside["penumbra.distribution"] = function(d)
  return of_kind(d, "distribution")
end

inside["penumbra.bijector"] = function(b)
  return of_kind(b, "bijector")
end

inside["penumbra.natural"] = function(s)
  return { { "precision_mean", s.precision_mean }, { "precision", s.precision } }
end

-- What holds nothing of a network.
local empty = { ["penumbra.generator"] = true, ["penumbra.optimiser"] = true, ["penumbra.compiled"] = true }

local function type_name(v)
  local meta = type(v) == "userdata" and getmetatable(v)
  return type(meta) == "string" and meta or nil
end

local function join(path, key)
  return path == "" and tostring(key) or path .. "." .. tostring(key)
end

local function shown(path)
  return path == "" and "" or (" in '%s'"):format(path)
end

-- ---- the walk ----

local MOST_DEEP = 1000 -- the path of a name is as long

local function check_depth(where, depth)
  if depth > MOST_DEEP then
    core.error(("%s: tables may be nested %d deep, got more"):format(where, MOST_DEEP))
  end
end

local walk

local function walk_table(w, t, path)
  w.depth = (w.depth or 0) + 1
  check_depth("parameters", w.depth)
  local keys, odd = keys_of(t)
  for _, key in ipairs(keys) do
    local v = t[key]
    local kind = type(v)
    if kind == "userdata" or kind == "table" or kind == "thread" then
      walk(w, v, join(path, key))
    end
  end
  for _, key in ipairs(odd or {}) do
    w.odd[#w.odd + 1] = { key, t[key], path }
  end
  w.depth = w.depth - 1
end

-- Calls w.found(parameter, path) for each parameter in v, once, and the same for buffers.
function walk(w, v, path)
  local kind = type(v)
  if kind == "table" then
    if not w.seen[v] then
      w.seen[v] = true
      walk_table(w, v, path)
    end
    return
  elseif kind ~= "userdata" and kind ~= "thread" then
    return
  end
  local name = type_name(v)
  if core.is_tensor(v) then
    if v:is_param() or v:is_buffer() then
      local id = core.identity(v)
      if not w.seen[id] then
        w.seen[id] = true
        w.found(v, path)
      end
    elseif v:requires_grad() then
      w.computed[#w.computed + 1] = { v, path }
    end
  elseif inside[name] then
    if not w.seen[v] then
      w.seen[v] = true
      for _, entry in ipairs(inside[name](v)) do
        walk(w, entry[2], join(path, entry[1]))
      end
    end
  elseif not empty[name] then
    core.error(("parameters: '%s' is a %s, which cannot be searched for parameters"):format(path,
      kind == "thread" and "coroutine" or "foreign object"))
  end
end

-- Nothing may stand under a key that is no name.
local function check_odd(w)
  local path
  function w.found(_, inner)
    core.error(("parameters: there is a parameter under a key that is a %s%s; keys must be names or numbers"):format(
      inner, shown(path)))
  end
  for _, entry in ipairs(w.odd) do -- grows while it is gone through
    path = entry[3]
    local kind = type(entry[1])
    walk(w, entry[1], kind)
    walk(w, entry[2], kind)
  end
end

-- What was computed from parameters must be computed from these.
local function check_computed(w, list)
  local known = {}
  for k, entry in ipairs(list) do
    known[k] = entry[2]
  end
  for _, entry in ipairs(w.computed) do
    if core.leaf_beyond(entry[1], known) then
      core.error(("parameters: '%s' was computed from a parameter that is not held here: it would not follow it. "
        .. "Hold the parameter and compute where it is used, or x:detach()"):format(entry[2]))
    end
  end
end

-- Lists of {name, tensor} of the parameters and of the buffers that x holds.
local function all(x)
  local list, buffers, places = {}, {}, {}
  local w = { seen = {}, odd = {}, computed = {} }
  function w.found(t, path)
    if places[path] then
      core.error(("parameters: two parameters have the name '%s'"):format(path))
    end
    places[path] = true
    local into = t:is_param() and list or buffers
    into[#into + 1] = { path, t }
  end
  walk(w, x, "")
  if #w.odd > 0 then
    check_odd(w)
  end
  if #w.computed > 0 then
    check_computed(w, list)
  end
  return list, buffers
end

--- named(x): list of {name, parameter} of everything that x holds.
function parameters.named(x)
  return (all(x))
end

--- named_buffers(x): list of {name, buffer} of everything that x holds.
function parameters.named_buffers(x)
  return (select(2, all(x)))
end

-- Both, the parameters first.
local function named_all(x)
  local list, buffers = all(x)
  return table.move(buffers, 1, #buffers, #list + 1, list)
end

--- list(x): the parameters alone, in that order; the field `names` of the list holds their names.
function parameters.list(x)
  local list, names = {}, {}
  for k, entry in ipairs(parameters.named(x)) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  return list
end

--- count(x): the number of elements of all parameters.
function parameters.count(x)
  local n = 0
  for _, entry in ipairs(parameters.named(x)) do
    n = n + entry[2]:numel()
  end
  return n
end

--- count_buffers(x): the number of elements of all buffers.
function parameters.count_buffers(x)
  local n = 0
  for _, entry in ipairs(parameters.named_buffers(x)) do
    n = n + entry[2]:numel()
  end
  return n
end

-- ---- states ----

-- Other layouts by name, {state =, load_state =}: penumbra.nn.torch_layout enters its own.
parameters.layouts = {}

-- The other layout that the options ask for, or nil.
local function layout_of(where, given)
  local o = options.check(where, given or {}, { layout = "penumbra", names = options.optional "table" })
  if o.layout ~= "penumbra" and o.layout ~= "torch" then
    core.error(("%s: layout must be 'penumbra' or 'torch', got '%s'"):format(where, o.layout))
  elseif o.names and o.layout ~= "torch" then
    core.error(where .. ": names is only used with layout = \"torch\"")
  end
  return parameters.layouts[o.layout], o.names
end

--- state(x [, {layout = "penumbra", names =}]): table name -> copy of the values, of parameters and buffers. layout
--- "torch" gives names and layouts of PyTorch's modules (pn.help "penumbra.nn.torch_layout").
function parameters.state(x, given)
  local other, names = layout_of("state", given)
  if other then
    return other.state(x, names)
  end
  local state = {}
  for _, entry in ipairs(named_all(x)) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

local shape_text = options.shape_text

--- load_state(x, state [, {layout = "penumbra", names =}]): the way back. Everything is checked first, so on an error
--- nothing has changed.
function parameters.load_state(x, state, given)
  options.argument("load_state", "state", state, "table")
  local other, names = layout_of("load_state", given)
  if other then
    return other.load_state(x, state, names)
  end
  local entries, fields = named_all(x), {}
  for _, entry in ipairs(entries) do
    fields[entry[1]] = form.tensor { like = entry[2] }
  end
  form.check("load_state", "state", state, form.record(fields, "a parameter or buffer of this network"))
  for _, entry in ipairs(entries) do
    entry[2]:set(state[entry[1]])
  end
  return x
end

-- ---- other values ----

local function with_layer(layer, values, path)
  local own, buffers = {}, {}
  for k, entry in ipairs(layer:own_parameters()) do
    own[k] = values[join(path, entry[1])] or entry[2]
  end
  for k, entry in ipairs(layer:own_buffers()) do
    buffers[k] = values[join(path, entry[1])] or entry[2]
  end
  return #own + #buffers > 0 and layer:with(own, buffers) or layer
end

local function with_values(v, values, path, made)
  local name = type_name(v)
  if made[v] then
    return made[v]
  elseif type(v) == "table" then
    local copy = {}
    made[v] = copy
    for key, part in next, v do
      local kind = type(part)
      copy[key] = (kind == "table" or kind == "userdata") and with_values(part, values, join(path, key), made) or part
    end
    return setmetatable(copy, getmetatable(v))
  elseif name == "penumbra.layer" then
    if v:stochastic() then
      core.error(("network: '%s' has a posterior of its own (%s): priors go to layers without one"):format(path,
        v:type()))
    end
    made[v] = with_layer(v, values, path)
    return made[v]
  elseif core.is_tensor(v) then
    return values[path] or v
  elseif inside[name] and #parameters.named(v) > 0 then
    core.error(("network: '%s' is a %s, whose parameters cannot be given from outside"):format(path,
      name:match "%a+$"))
  end
  return v
end

--- with(x, values): a copy of the network x that computes with the tensors of `values`, a table name -> tensor of the
--- names and shapes of named(x), in the place of its parameters. x is not changed; what holds no parameter is shared.
--- values may name buffers too; buffers that it does not name are shared with x.
function parameters.with(x, values)
  local by_tensor, named, buffers = {}, all(x)
  for _, entry in ipairs(named) do -- one that stands in several places has one name
    local t = values[entry[1]]
    if not core.is_tensor(t) or shape_text(t) ~= shape_text(entry[2]) then
      core.error(("network: '%s' must be a tensor of shape %s, got %s%s"):format(entry[1], shape_text(entry[2]),
        core.is_tensor(t) and "shape " .. shape_text(t) or type(t),
        core.is_tensor(t) and #t:shape() > #entry[2]:shape() and " (particles side by side need another model)" or ""))
    end
    by_tensor[core.identity(entry[2])] = t
  end
  for _, entry in ipairs(buffers) do
    local t = values[entry[1]]
    if t ~= nil and (not core.is_tensor(t) or shape_text(t) ~= shape_text(entry[2])) then
      core.error(("network: buffer '%s' must be a tensor of shape %s, got %s"):format(entry[1], shape_text(entry[2]),
        core.is_tensor(t) and "shape " .. shape_text(t) or type(t)))
    end
    by_tensor[core.identity(entry[2])] = t
  end
  local places = {}
  local function each(v, path, seen)
    local name = type_name(v)
    if core.is_tensor(v) then
      places[path] = by_tensor[core.identity(v)]
    elseif name == "penumbra.layer" then
      for _, entry in ipairs(inside[name](v)) do
        each(entry[2], join(path, entry[1]), seen)
      end
    elseif type(v) == "table" and not seen[v] then
      seen[v] = true
      for key, part in next, v do
        each(part, join(path, key), seen)
      end
      seen[v] = nil
    end
  end
  each(x, "", {})
  return with_values(x, places, "", {})
end

--- map_layers(x, f): a copy of the network x in which f(layer) stands for each layer for which it gives something; the
--- rest is shared.
function parameters.map_layers(x, f)
  local made = {}
  local function copied(v)
    if made[v] then
      return made[v]
    elseif type(v) == "userdata" then
      made[v] = getmetatable(v) == "penumbra.layer" and f(v) or v
      return made[v]
    end
    local copy = {}
    made[v] = copy
    for key, part in next, v do
      local kind = type(part)
      copy[key] = (kind == "table" or kind == "userdata") and copied(part) or part
    end
    return setmetatable(copy, getmetatable(v))
  end
  return copied(x)
end

-- ---- divergences ----

-- The function with which v gives its own divergence: a field of a network, or a method that an object inherits.
local function own_kl(v, standard)
  local meta = getmetatable(v)
  if type(meta) ~= "table" then
    return nil
  end
  local own = rawget(v, "kl")
  if rawget(meta, "network") then
    return own
  elseif own == nil and rawget(meta, "__index") ~= nil then
    own = v.kl
    return type(own) == "function" and own ~= standard and own or nil
  end
end

-- total plus the divergences of what stands in v; nil where there is none.
local function add_kl(v, total, seen, standard, depth)
  local kind = type(v)
  if kind ~= "table" and kind ~= "userdata" or seen[v] then
    return total
  end
  local part
  if kind == "userdata" then
    if getmetatable(v) ~= "penumbra.layer" or not v:stochastic() then
      return total
    end
    seen[v] = true
    part = v:kl()
  else
    seen[v] = true
    local own = depth > 0 and own_kl(v, standard)
    if not own then
      check_depth("kl", depth)
      for _, key in ipairs((keys_of(v))) do
        total = add_kl(v[key], total, seen, standard, depth + 1)
      end
      return total
    end
    part = own(v)
    if not core.is_tensor(part) and type(part) ~= "number" then
      core.error(("kl: a network's own kl must return a tensor or a number, got %s"):format(type(part)))
    end
  end
  return total and total + part or part
end

--- kl(x): the divergences of all layers that x holds, each once, and of networks and objects with a method `kl` of
--- their own what that gives; nil where there is none. standard: the method `kl` that asks this function.
function parameters.kl(x, standard)
  return add_kl(x, nil, {}, standard, 0)
end

-- ---- the methods of everything that holds parameters ----

local network = {}

--- List of {name, parameter} in an order that is the same in every process. Names are paths, "blocks.1.weight"; a
--- parameter that stands in several places is listed once.
function network:named_parameters()
  return parameters.named(self)
end

--- List of the parameters (what pn.param made), in the order of named_parameters. Its field `names` serves the
--- messages and states of optimisers.
function network:parameters()
  return parameters.list(self)
end

--- List of {name, buffer}: what changes and is not trained, as running statistics, in the same order.
function network:named_buffers()
  return parameters.named_buffers(self)
end

--- Number of elements of the buffers.
function network:num_buffers()
  return parameters.count_buffers(self)
end

--- Number of parameter elements.
function network:num_parameters()
  return parameters.count(self)
end

--- Table name -> copy of the values of the parameters and buffers: a snapshot that later steps do not change.
--- {layout = "torch", names =}: under the names and in the layouts of PyTorch (pn.help "penumbra.nn.torch_layout").
function network:state(given)
  return parameters.state(self, given)
end

--- load_state(state [, {layout = "penumbra", names =}]): sets the parameters and buffers from a table name -> tensor.
--- Everything is checked first, so on an error nothing has changed. Returns the network.
function network:load_state(state, given)
  return parameters.load_state(self, state, given)
end

--- methods: what networks, distributions, bijectors and Gaussian factors answer to: named_parameters, parameters,
--- num_parameters, named_buffers, num_buffers, state, load_state.
parameters.methods = network

for _, list in ipairs { core.layer_methods, core.distribution_methods, core.bijector_methods, core.natural_methods } do
  for name, method in pairs(network) do
    list[name] = method
  end
  core.public(list)
end

--- entries(v): list of {key, part} of a table in the order of the walk.
function parameters.entries(v)
  local list = {}
  for k, key in ipairs((keys_of(v))) do
    list[k] = { key, v[key] }
  end
  return list
end

return parameters
