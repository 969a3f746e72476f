--- Matrices of a switching linear system as weighted averages of base matrices: a(s) = sum_k w_k(s) a_k, the weights a
--- softmax of a network of the switch. Noise is diagonal; a base keeps the logarithms of its inverse scales.
---
---     local bases = base_matrices.new{count = 10, inputs = 5, hidden = {32},
---       groups = {{"a", "c", "q", "r"}, {"f", "s"}}, parts = {f = "recurrence", s = "recurrence"},
---       matrices = {a = {3, 3}, c = {2, 3}, f = {5, 3}}, noises = {q = {3}, r = {2}, s = {5}}}
---     local held = bases:held()                  -- once for a pass: the bases by group, transformed
---     local w = bases:weights(s)                 -- s [..., inputs]: a tensor [..., num] for each group
---     held(w, "system")                          -- {a = [..., 3, 3], ..., q = [..., 3] variances}
---
--- How scales are averaged is a choice that the publication leaves open:
---
---     scales      (sum_k w_k sigma_k)^2
---     variances   sum_k w_k sigma_k^2
---     log_scales  exp(2 sum_k w_k log sigma_k)
---
--- Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, section 3.1 and appendix 7.7.
-- help: module, methods bases
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"

local base_matrices = {}
local methods = {}

-- ---- where the bases begin ----

local starts = {}

-- The identity, with noise beside it so that bases differ.
function starts.identity(num, shape, o)
  return core.eye(shape[1], { dtype = o.dtype }) + core.randn({ num, shape[1], shape[2] },
    { dtype = o.dtype }) * (o.spread / shape[2] ^ 0.5)
end

-- Standard normal.
function starts.normal(num, shape, o)
  return core.randn({ num, shape[1], shape[2] }, { dtype = o.dtype })
end

-- Variance 1 / columns: outputs are as large as inputs.
function starts.fan_in(num, shape, o)
  return starts.normal(num, shape, o) * shape[2] ^ -0.5
end

-- Rows or columns, the fewer of them, orthonormal.
function starts.orthogonal(num, shape, o)
  local long, short = math.max(shape[1], shape[2]), math.min(shape[1], shape[2])
  local q = core.qr(core.randn({ num, long, short }, { dtype = o.dtype }))
  return shape[1] >= shape[2] and q or q:transpose(-2, -1)
end

-- Logarithms of inverse scales, each base another one between the two ends, evenly in the logarithm, in random order.
local function log_inverse_scales(num, size, ends, o)
  local low, high = math.log(ends[1]), math.log(ends[2])
  local steps = num > 1 and core.linspace(low, high, num, { dtype = o.dtype })
    or core.full({ 1 }, (low + high) / 2, { dtype = o.dtype })
  local order = core.randperm(num)
  return -steps:take(1, order):unsqueeze(2):broadcast_to({ num, size }):contiguous()
end

-- ---- variances of averages ----

local averages = {}

averages.scales = { held = function(x) return (-x):exp() end, variance = function(x) return x:square() end }
averages.variances = { held = function(x) return (x * -2):exp() end, variance = function(x) return x end }
averages.log_scales = { held = function(x) return x end, variance = function(x) return (x * -2):exp() end }

--- averages: the names of the ways in which covariances are averaged, the default first.
base_matrices.averages = { "scales", "variances", "log_scales" }

-- ---- a pass ----

--- bases:weights(s): the weights of the bases at switches s [..., inputs]: a list with a tensor [..., num] for each
--- group. Without a network the switch itself, one of num.
function methods:weights(s)
  local list = {}
  if not self.net then
    for g = 1, #self.groups do
      list[g] = s
    end
    return list
  end
  local logits = self.net(s)
  for g = 1, #self.groups do
    list[g] = logits:slice(-1, (g - 1) * self.count + 1, g * self.count):softmax(-1)
  end
  return list
end

-- A base as a product with the weights takes it, [num, rows * columns].
local function values_of(self, name, frozen, replaced)
  local x = self.bases[name]
  x = frozen and frozen[name] and x:detach() or x
  if self.scaling ~= 1 then
    x = x * self.scaling
  end
  x = replaced and replaced[name] or x
  local shape = self.shapes[name]
  return self.noises[name] and averages[self.average].held(x) or x:reshape { self.count, shape[1] * shape[2] }
end

-- The bases of these names as rows, and the matrices that averages of them are. A product with the weights for each: of
-- one product of all of them the gradient of each part would be as wide as the whole.
local function flat(self, names, frozen, replaced)
  local list = {}
  for k, name in ipairs(names) do
    local shape = self.shapes[name]
    list[k] = { name = name, values = values_of(self, name, frozen, replaced), rows = shape[1], columns = shape[2] }
  end
  return list
end

-- The same of what bases:by_columns() gave.
local function flat_columns(self, names, values)
  local list = {}
  for k, name in ipairs(names) do
    local shape = self.shapes[name]
    list[k] = { name = name, values = values[name], rows = shape[2] or shape[1], columns = shape[2] and shape[1],
      turned = true }
  end
  return list
end

local function matrices_at(self, group, w, into)
  local lead = w:shape()
  for _, base in ipairs(group.list) do
    local x = w:matmul(base.values)
    if base.columns then
      lead[w:ndim()], lead[w:ndim() + 1] = base.rows, base.columns
      x = x:reshape(lead)
      into[base.name] = base.turned and x:transpose(-2, -1) or x
      lead[w:ndim() + 1] = nil
    else
      into[base.name] = averages[self.average].variance(x) + self.floor
    end
  end
end

local held_class = { __name = "held bases", __call = function(held, weights, wanted)
  local out = {}
  for _, group in ipairs(held.groups) do
    if not wanted or group.part == wanted then
      matrices_at(held.self, group, weights[group.weights], out)
    end
  end
  return out
end }

-- The names of a group by the part that they belong to: list of {part, names}.
local function by_part(self, group)
  local list, place = {}, {}
  for _, name in ipairs(group) do
    local part = self.parts[name] or "system"
    if not place[part] then
      list[#list + 1] = { part = part, names = {} }
      place[part] = list[#list].names
    end
    table.insert(place[part], name)
  end
  return list
end

-- What is called with weights: of each group and part the list that list_of gives for its names.
local function held_by(self, list_of)
  local groups = {}
  for g, group in ipairs(self.groups) do
    for _, some in ipairs(by_part(self, group)) do
      groups[#groups + 1] = { weights = g, part = some.part, list = list_of(some.names) }
    end
  end
  return setmetatable({ self = self, groups = groups }, held_class)
end

--- bases:held([frozen [, replaced]]): the bases as a pass uses them. What it gives is called with the weights and a
--- part (all), and gives the matrices of that part at these weights: matrices [..., rows, columns], noises [..., size]
--- as variances.
--- frozen: a set of names that get no gradient. replaced: name -> [num, rows, columns], what stands in the place of a
--- base.
function methods:held(frozen, replaced)
  return held_by(self, function(names) return flat(self, names, frozen, replaced) end)
end

--- bases:by_columns(...): what bases:held_columns takes, a table name -> tensor, of the bases of these parts: matrices
--- by columns, so that those of many weights times a vector each are sums of whole rows.
function methods:by_columns(...)
  local values, wanted = {}, {}
  for _, part in ipairs { ... } do
    wanted[part] = true
  end
  for name, shape in pairs(self.shapes) do
    if wanted[self.parts[name] or "system"] then
      local x = values_of(self, name)
      values[name] = self.noises[name] and x
        or x:reshape { self.count, shape[1], shape[2] }:transpose(2, 3):contiguous():reshape { self.count, -1 }
    end
  end
  return values
end

--- bases:held_columns(values): as bases:held(), for these parts; matrices lie by columns.
function methods:held_columns(values)
  return held_by(self, function(names) return flat_columns(self, names, values) end)
end

--- bases:group_of(name): the number of the group whose weights average the matrix.
function methods:group_of(name)
  for g, group in ipairs(self.groups) do
    for _, member in ipairs(group) do
      if member == name then
        return g
      end
    end
  end
  return core.error(("base_matrices: there is no matrix '%s'"):format(tostring(name)))
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __name = "bases", __index = core.namespace("bases", methods) }

local new_options = { count = options.required "number", inputs = options.required "number",
  hidden = options.optional "table", groups = options.required "table", parts = options.optional "table",
  matrices = options.required "table", noises = options.required "table", start = options.optional "table",
  scales = options.optional "table", average = options.choice(table.unpack(base_matrices.averages)), floor = 1e-8,
  scaling = 1, spread = 0.1, dtype = "float64" }

--- base_matrices.new{...}: bases and the network of their weights.
---
--- count     bases
--- inputs    size of the switch
--- hidden    {32}: hidden layers of the network of the weights; without it there is none, the switch is one of num
--- groups    lists of names: matrices of one group share their weights
--- parts     name -> the part of a step that needs the matrix ("system")
--- matrices  name -> {rows, columns}
--- noises    name -> {size}
--- start     name -> "identity", "normal", "fan_in", "orthogonal" (fan_in)
--- scales    name -> {least, most}: where the scales of the noise begin ({1e-4, 1}), one for each base
--- average   "scales", "variances" or "log_scales"
--- floor     1e-8: what is added to each variance, a part of the model
--- scaling   1: parameters are the bases divided by this; Adam then moves the bases so many times as fast
--- spread    0.1: noise beside the identity
function base_matrices.new(given)
  local o = options.check("base_matrices", given, new_options)
  local self = { count = o.count, groups = o.groups, average = o.average, floor = o.floor,
    scaling = o.scaling, noises = {}, shapes = {}, bases = {}, parts = o.parts or {} }
  for _, group in ipairs(o.groups) do
    for _, name in ipairs(group) do
      local shape, start = o.matrices[name] or o.noises[name]
      if o.noises[name] then
        self.noises[name] = true
        start = log_inverse_scales(self.count, shape[1], o.scales and o.scales[name] or { 1e-4, 1 }, o)
      else
        start = starts[o.start and o.start[name] or "fan_in"](self.count, shape, o)
      end
      self.shapes[name], self.bases[name] = shape, core.param((start / o.scaling):contiguous())
    end
  end
  if o.hidden then
    local sizes = { o.inputs, table.unpack(o.hidden) }
    sizes[#sizes + 1] = self.count * #o.groups
    self.net = nn.mlp(sizes, { activation = "leaky_relu", dtype = o.dtype })
  end
  return setmetatable(self, class)
end

base_matrices.methods = methods

return base_matrices
