--- Other weights with which a network computes the same: node permutations, and translations at one datum.
-- help: none
local core = require "penumbra.core"
local matrix = require "penumbra.array.matrix"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local perceptron = require "penumbra.nn.perceptron"
local translation = require "penumbra.invariance.translation"

local transform = {}

-- ---- permutations ----

-- A list of whole numbers 1 .. n in another order, checked.
local function check_order(where, order, n, layer)
  local seen = {}
  if type(order) ~= "table" or #order ~= n then
    core.error(("%s: the permutation of hidden layer %d must list its %d nodes, got %s"):format(where, layer, n,
      type(order) == "table" and #order or type(order)))
  end
  for _, k in ipairs(order) do
    if math.type(k) ~= "integer" or k < 1 or k > n or seen[k] then
      core.error(("%s: the permutation of hidden layer %d must be 1 to %d in some order, got %s"):format(where, layer,
        n, tostring(k)))
    end
    seen[k] = true
  end
  local zero_based = {}
  for i, k in ipairs(order) do
    zero_based[i] = k - 1
  end
  return core.tensor(zero_based, { dtype = "int64" })
end

local function check_orders(where, orders, sizes)
  options.argument(where, "orders", orders, "table")
  if #orders ~= #sizes then
    core.error(("%s: there must be a permutation for each of %d hidden layers, got %d"):format(where, #sizes, #orders))
  end
  local out = {}
  for k, n in ipairs(sizes) do
    out[k] = check_order(where, orders[k], n, k)
  end
  return out
end

local function result(net, values)
  return values, parameters.with(net, values)
end

--- permute(net, orders): see pn.invariance.
function transform.permute(net, orders)
  local layers = perceptron.read("permute", net)
  local order = check_orders("permute", orders, perceptron.hidden(layers))
  local values = {}
  for k, layer in ipairs(layers) do
    local w, b = layer.weight:detach(), layer.bias and layer.bias:detach()
    w = k > 1 and w:take(1, order[k - 1]) or w
    if order[k] then
      w, b = w:take(2, order[k]), b and b:take(1, order[k])
    end
    values[layer.weight_name] = w
    if b then
      values[layer.bias_name] = b
    end
  end
  return result(net, values)
end

--- permutation_matrix(sizes, orders): see pn.invariance.
function transform.permutation_matrix(sizes, orders)
  local where = "permutation_matrix"
  options.argument(where, "sizes", sizes, "table")
  if #sizes < 2 then
    core.error(("%s: sizes must be those of the input, the hidden layers and the output, got %d"):format(where, #sizes))
  end
  for k, n in ipairs(sizes) do
    options.whole(where, ("size %d"):format(k), n, 1)
  end
  local kron = matrix.kron
  local order = check_orders(where, orders, table.move(sizes, 2, #sizes - 1, 1, {}))
  local nodes, blocks, total = {}, {}, 0
  for k, n in ipairs(sizes) do
    nodes[k] = core.eye(n)
    if order[k - 1] then
      nodes[k] = nodes[k]:take(1, order[k - 1])
    end
  end
  for k = 2, #sizes do
    blocks[k - 1] = kron(nodes[k - 1], nodes[k])
    total = total + blocks[k - 1]:size(1)
  end
  local rows, at = {}, 0
  for k, block in ipairs(blocks) do
    local n = block:size(1)
    rows[k] = block:pad(2, at, total - at - n)
    at = at + n
  end
  return core.concatenate(rows, 1)
end

--- permutations(n): see pn.invariance. From those of n - 1: f first, then each of them, counted past f.
function transform.permutations(n)
  options.whole("permutations", "n", n, 1)
  if n > 10 then
    core.error(("permutations: n must be at most 10 (3,628,800 rows), got %d"):format(n))
  end
  local all = core.zeros({ 1, 1 }, { dtype = "int64" })
  for k = 2, n do
    local count = all:size(1)
    local first = core.arange(0, k):to "int64":reshape { k, 1, 1 }
    local rest = all:unsqueeze(1)
    rest = rest + rest:ge(first):to "int64"
    all = core.concatenate({ first:broadcast_to { k, count, 1 }, rest }, 3):reshape { k * count, k }
  end
  return all
end

-- ---- translations ----

local known = { layer = options.optional "number", delta = options.any(false), scale = 1,
  pivot = options.optional "number", generator = options.any(false) }

-- The displacements of a layer of `out` nodes with n inputs (and the bias): [out, n - 1].
local function displacements(where, o, out, n, dtype)
  if not o.delta then
    return core.randn({ out, n - 1 }, { generator = o.generator or nil, dtype = dtype }) * o.scale
  end
  local delta = options.numbers(where, "delta", o.delta, "tensor")
  if delta:ndim() ~= 2 or delta:size(1) ~= out or delta:size(2) ~= n - 1 then
    core.error(("%s: delta must have shape [%d, %d]: for each node one less than its weights and its bias, got [%s]")
      :format(where, out, n - 1, table.concat(delta:shape(), ", ")))
  end
  return delta
end

--- translate_network(net, x, {...}): see pn.invariance.
function transform.translate_network(net, x, given)
  local where = "translate_network"
  options.argument(where, "x", x, "tensor")
  local o = options.check(where, given, known)
  local layers = perceptron.read(where, net)
  if x:ndim() ~= 1 or x:size(1) ~= layers[1].weight:size(1) then
    core.error(("%s: x must be one datum, [%d], got [%s]"):format(where, layers[1].weight:size(1),
      table.concat(x:shape(), ", ")))
  elseif o.layer and not layers[options.whole(where, "layer", o.layer, 1)] then
    core.error(("%s: layer must be at most %d, got %d"):format(where, #layers, o.layer))
  elseif o.delta and not o.layer then
    core.error(("%s: delta is for one layer: say which by layer"):format(where))
  end
  local values, z = {}, x:detach()
  for k, layer in ipairs(layers) do
    local w, b = layer.weight:detach(), layer.bias and layer.bias:detach()
    local h = z:matmul(w)
    values[layer.weight_name] = w
    if b then
      h, values[layer.bias_name] = h + b, b
    end
    if not o.layer or o.layer == k then
      local n = w:size(1)
      local input = b and core.concatenate({ z, core.ones({ 1 }, { dtype = z:dtype() }) }, 1) or z
      local all = b and core.concatenate({ w, b:unsqueeze(1) }, 1) or w
      local pivot = o.pivot or input:abs():argmax():item() + 1
      local delta = displacements(where, o, w:size(2), input:size(1), w:dtype())
      local moved = translation.translate(all:t(), input, delta, { pivot = pivot }):t()
      values[layer.weight_name] = moved:slice(1, 1, n):contiguous()
      if b then
        values[layer.bias_name] = moved[n + 1]:contiguous()
      end
    end
    z = perceptron.activate(layer, h)
  end
  return result(net, values)
end

return transform
