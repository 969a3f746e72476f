--- Networks to and from PyTorch: the state of a network under the names and in the layouts of the PyTorch module that
--- computes the same. In a safetensors file it is what safetensors.torch.load_file reads and save_file writes.
---
---     assert(pn.save("net.safetensors", net:state{layout = "torch"}))
---     net:load_state(assert(pn.load "net.safetensors"), {layout = "torch"})
---
--- and there, for a module built of the counterparts of the same layers,
---
---     module.load_state_dict(load_file("net.safetensors"))
---     save_file(module.state_dict(), "net.safetensors")
---
--- Names are paths as here, but lists count from 0, as nn.Sequential and nn.ModuleList do: "2.weight" is "1.weight".
--- Fields of modules are attributes. Functions, activations and other layers without parameters take a place in a
--- sequential there as here. What stands in several places is written under each of its names, as state_dict gives it;
--- reading takes one of them, or several that agree. What changes otherwise, layer by layer:
---
---     linear                 weight [in, out] is [out, in] there
---     batch_norm             num_batches_tracked, which only momentum = None needs, is written as 0 and not read
---     multi_head_attention   out_proj_weight is out_proj.weight, out_proj_bias is out_proj.bias
---     rnn, gru, lstm         weight_ih is weight_ih_l0 and so on; gates stand in the same order, both biases are kept
---     recurrent              "2.backward.weight_ih" is "weight_ih_l1_reverse": one PyTorch module
---     the other rows         the same: conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, bilinear,
---                            embedding, layer_norm, rms_norm, group_norm, prelu
---
--- Parameters and buffers of a module's own keep their layout. What has no counterpart is an error that names it:
--- Bayesian layers, actnorm, highway, a gru that runs in reverse alone, distributions and bijectors.
---
--- {layout = "torch", names = {["1"] = "conv1", ["trunk.2"] = "fc"}} gives parts another place: where the part stands
--- here, its path there ("" for none). A module with a field torch_name, function(name), renames what stands in it,
--- given the path below it in PyTorch's count.
---
--- dtypes stay as they are: PyTorch's float32 is loaded into networks of float32 (pn.default_dtype).
-- help: module
local core = require "penumbra.core"
local form = require "penumbra.form"
local parameters = require "penumbra.parameters"

local torch_layout = {}

local rows -- name of a layer -> list of {name, transposed} in the order of its row, and what stands there besides

-- "weight' bias count=0" by our names of the parameters and buffers.
local function read_row(row)
  local own, map = {}, { counters = {} }
  for _, list in ipairs { row.parameters, row.buffers } do
    table.move(list, 1, #list, #own + 1, own)
  end
  local k = 0
  for word in row.torch:gmatch "%S+" do
    local counter, name, mark = word:match "^(.*)=0$", word:match "^([^']*)('?)$"
    if counter then
      map.counters[#map.counters + 1] = counter
    else
      k = k + 1
      map[own[k]] = { name = name, transposed = mark == "'" }
    end
  end
  return map
end

local function map_of(layer)
  if not rows then
    rows = {}
    for _, row in ipairs(core.layer_rows()) do
      rows[row.name] = row.torch and read_row(row) or nil
    end
  end
  return rows[layer:type()]
end

local function join(path, key)
  return path == "" and tostring(key) or key == "" and path or path .. "." .. tostring(key)
end

local function no_counterpart(w, path, what)
  core.error(("%s: '%s' is %s, which has no counterpart in PyTorch"):format(w.where, path, what))
end

-- ---- the walk: w.list of {there, path, tensor, transposed}, or {there, counter = true} ----

local walk

-- What PyTorch calls the part at `path` of a table at `there`.
local function name_of(w, there, path, key)
  local given = w.names[path]
  if given then
    w.unused[path] = nil
    return given
  end
  return join(there, math.type(key) == "integer" and key > 0 and key - 1 or key)
end

local function walk_layer(w, layer, path, there, renamed)
  local own, buffers, map = layer:own_parameters(), layer:own_buffers(), map_of(layer)
  if not map and #own + #buffers > 0 then
    no_counterpart(w, path, "a layer " .. layer:type())
  elseif not map then
    return
  end
  local _, set = layer:configuration()
  if set.reverse and not renamed then
    no_counterpart(w, path, "a " .. layer:type() .. " that runs in reverse alone (nn.recurrent runs both ways)")
  end
  for _, list in ipairs { own, buffers } do
    for _, entry in ipairs(list) do
      local to = map[entry[1]]
      w.list[#w.list + 1] = { there = join(there, to.name), path = join(path, entry[1]), tensor = entry[2],
        transposed = to.transposed }
    end
  end
  for _, counter in ipairs(map.counters) do
    w.list[#w.list + 1] = { there = join(there, counter), path = path, counter = true }
  end
end

local function walk_table(w, t, path, there, renamed)
  if w.open[t] then
    return
  end
  w.open[t] = true
  local own = getmetatable(t) ~= nil and rawget(t, "torch_name")
  local first = #w.list + 1
  for _, entry in ipairs(parameters.entries(t)) do
    local key, part = entry[1], entry[2]
    local inner = join(path, key)
    walk(w, part, inner, name_of(w, own and "" or there, inner, key), renamed or own)
  end
  for k = first, own and #w.list or 0 do
    local name = own(w.list[k].there)
    if type(name) ~= "string" then
      core.error(("%s: '%s.torch_name' must return a name, got %s"):format(w.where, path, type(name)))
    end
    w.list[k].there = join(there, name)
  end
  w.open[t] = nil
end

function walk(w, v, path, there, renamed)
  if type(v) == "table" then
    walk_table(w, v, path, there, renamed)
  elseif core.is_tensor(v) then
    if v:is_param() or v:is_buffer() then
      w.list[#w.list + 1] = { there = there, path = path, tensor = v }
    end
  elseif type(v) == "userdata" then
    if getmetatable(v) == "penumbra.layer" then
      walk_layer(w, v, path, there, renamed)
    elseif tostring(getmetatable(v)):find "^penumbra%." and #parameters.named(v) + #parameters.named_buffers(v) > 0 then
      no_counterpart(w, path, "a " .. getmetatable(v):match "%a+$")
    end
  end
end

local function list_of(where, x, names)
  local w = { where = where, list = {}, open = {}, names = {}, unused = {} }
  for path, there in pairs(names or {}) do
    if type(there) ~= "string" then
      core.error(("%s: names['%s'] must be a path in PyTorch, got %s"):format(where, tostring(path), type(there)))
    end
    w.names[tostring(path)], w.unused[tostring(path)] = there, true
  end
  parameters.named(x) -- raises for what cannot be searched
  walk(w, x, "", "", false)
  local lost = next(w.unused)
  if lost then
    core.error(("%s: names['%s'] is no part of this network"):format(where, lost))
  end
  local seen = {}
  for _, entry in ipairs(w.list) do
    if seen[entry.there] then
      core.error(("%s: '%s' and '%s' have the same name in PyTorch, '%s'"):format(where, seen[entry.there], entry.path,
        entry.there))
    end
    seen[entry.there] = entry.path
  end
  return w.list
end

-- ---- both ways ----

local function turned(t, transposed)
  return transposed and t:t() or t
end

--- state(x [, names]): table of PyTorch's names -> copies in its layouts, of what x:state() has.
function torch_layout.state(x, names)
  local state = {}
  for _, entry in ipairs(list_of("state", x, names)) do
    state[entry.there] = entry.counter and core.tensor(0, { dtype = "int64" })
      or core.detach(core.param(turned(core.detach(entry.tensor), entry.transposed)))
  end
  return state
end

local function same(a, b)
  return a:eq(b):logical_or(a:isnan():logical_and(b:isnan())):all():item()
end

-- What a state must hold; a parameter that has another name in it may be missing under this one.
local function form_of(list, state)
  local fields, there = {}, {}
  for _, entry in ipairs(list) do
    local id = entry.tensor and core.identity(entry.tensor)
    there[id or entry] = there[id or entry] or state[entry.there] ~= nil
  end
  for _, entry in ipairs(list) do
    local known = entry.counter and form.optional(form.any)
      or form.tensor { dtype = entry.tensor:dtype(), shape = turned(entry.tensor, entry.transposed):shape() }
    fields[entry.there] = not entry.counter and there[core.identity(entry.tensor)] and form.optional(known) or known
  end
  return form.record(fields, "a parameter or buffer of this network")
end

-- The values by parameter, in our layout.
local function values_of(list, state)
  local values = {}
  for _, entry in ipairs(list) do
    local t = state[entry.there]
    if t ~= nil and not entry.counter then
      local id, value = core.identity(entry.tensor), turned(t, entry.transposed)
      if values[id] and not same(values[id], value) then
        core.error(("load_state: '%s' must have the values of its other name"):format(entry.there))
      end
      values[id] = value
    end
  end
  return values
end

--- load_state(x, state [, names]): the way back. Everything is checked first, so on an error nothing has changed.
function torch_layout.load_state(x, state, names)
  local list = list_of("load_state", x, names)
  form.check("load_state", "state", state, form_of(list, state))
  local values = values_of(list, state)
  for _, entry in ipairs(list) do
    local id = entry.tensor and core.identity(entry.tensor)
    if id and values[id] then
      entry.tensor:set(values[id])
      values[id] = nil
    end
  end
  return x
end

parameters.layouts.torch = torch_layout

return torch_layout
