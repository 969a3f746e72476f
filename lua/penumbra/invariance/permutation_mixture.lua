--- The mixture of all node permutations of a mean-field posterior (Kurle et al. 2022, appendix E), and the gap that it
--- opens:
---
---     q_mix(w) = 1 / |P| sum over P of q_0(P w),   |P| = prod of k_l! over the hidden layers
---     gap = KL[q_0 || q_mix] = E_{q_0}[ln q_0(w) - ln q_mix(w)],   in [0, ln |P|]
---
---     local mix = pn.invariance.permutation_mixture(net)      a pn.nn.bayesian network, or
---     local mix = pn.invariance.permutation_mixture(net, {scale = 0.3})
---     mix:gap{draws = 2000}                                   {gap =, standard_error =, ...}
---     mix:bounds{draws = 2000}                                where |P| is too large
---     mix:sample{n}  mix:log_prob(w)  mix:log_ratio(w)        weights w [S, D], in the order of mix.names
---
--- The sum over permutations is taken in one of two ways, both exact and in logarithms. "enumerate": q_0(P w) of all P
--- is one product of matrices, [S, 2 D] x [2 D, |P|], since the log density is linear in (w^2, w). "subsets": the
--- permutations of one layer, the largest, make a permanent of the k x k matrix of the densities of node i in place j,
--- which the sums over subsets of nodes give in k 2^k steps (Held & Karp's recursion) in the place of k!; those of the
--- other layers are enumerated.
-- help: pn.invariance, methods mix
local core = require "penumbra.core"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"
local permanent = require "penumbra.invariance.permanent"
local perceptron = require "penumbra.nn.perceptron"
local transform = require "penumbra.invariance.transform"

local permutation_mixture = {}

local LOG_2PI = core.log_2pi
local MOST_AT_ONCE = 2e6 -- numbers of a table of draws by permutations
local MOST_ENUMERATED = 1e6 -- permutations

local methods = {}
-- No divergence from anything is known in closed form.
local class = { own = true, __name = "distribution", divergence = function() end }

function class:__tostring()
  return ("%s(event [%d], %s)"):format(self.name, self.event_shape[1], self.dtype)
end

-- ---- the posterior ----

local function scale_of(o, layer, name)
  local given = o.scale
  if type(given) == "table" then
    given = given[name]
    if given == nil then
      core.error(("permutation_mixture: there is no scale for '%s'"):format(name))
    end
  end
  local t = core.is_tensor(given) and given:detach() or core.tensor(given, { dtype = layer.weight:dtype() })
  if not t:gt(0):all():item() then
    core.error(("permutation_mixture: the scale of '%s' must be positive"):format(name))
  end
  return t
end

-- The layers of the posterior and a function (layer, name) -> scales.
local function read(posterior, given)
  local where = "permutation_mixture"
  local o = options.check(where, given, { scale = options.any(false) })
  local inner = type(posterior) == "table" and posterior.kind == "module" and rawget(posterior, "net")
  local log_scale = inner and rawget(posterior, "log_scale")
  if log_scale then
    if o.scale then
      core.error "permutation_mixture: a Bayesian network has scales of its own"
    end
    return perceptron.read(where, inner), function(_, name) return log_scale[name]:detach():exp() end
  elseif not o.scale then
    core.error "permutation_mixture: posterior must be a network of pn.nn.bayesian, or one with option 'scale'"
  end
  return perceptron.read(where, posterior), function(layer, name) return scale_of(o, layer, name) end
end

--- permutation_mixture(posterior [, {scale =}]): see pn.invariance.
function permutation_mixture.new(posterior, given)
  local layers, scales = read(posterior, given)
  local hidden = perceptron.hidden(layers)
  local loc, scale, self = {}, {}, { names = {}, shapes = {}, hidden = hidden, log_count = 0 }
  if #hidden == 0 then
    core.error "permutation_mixture: the network must have a hidden layer"
  end
  local function add(layer, name, t)
    loc[#loc + 1] = t:detach():reshape { -1 }
    scale[#scale + 1] = scales(layer, name):broadcast_to(t:shape()):reshape { -1 }
    self.names[#self.names + 1], self.shapes[#self.shapes + 1] = name, t:shape()
  end
  for _, layer in ipairs(layers) do
    add(layer, layer.weight_name, layer.weight)
    if layer.bias then
      add(layer, layer.bias_name, layer.bias)
    end
  end
  for _, k in ipairs(hidden) do
    self.log_count = self.log_count + core.tensor(k + 1.0):lgamma():item()
  end
  self.loc, self.scale = core.concatenate(loc, 1), core.concatenate(scale, 1)
  self.layers, self.size = layers, self.loc:size(1)
  self.power, self.linear = self.scale:square():reciprocal() * -0.5, self.loc / self.scale:square()
  self.constant = ((self.loc / self.scale):square() * 0.5 + self.scale:log() + 0.5 * LOG_2PI):sum():item()
  self.name, self.dtype, self.batch_shape, self.event_shape = "permutation_mixture", self.loc:dtype(), {}, { self.size }
  return setmetatable(self, class)
end

-- ---- places of weights under permutations ----

-- The number of permutations of all layers but `spared`; a float where it is too large for an integer.
local function count_of(sizes, spared)
  local n = 1.0
  for k, size in ipairs(sizes) do
    for j = 2, k ~= spared and size or 1 do n = n * j end
  end
  return n < 2 ^ 53 and math.tointeger(n) or n
end

-- orders: for each hidden layer int64 [Q, k]. The place of every weight of the vector after these permutations: [Q, D].
local function places(self, orders)
  local parts, base, Q = {}, 0, orders[1]:size(1)
  for k, layer in ipairs(self.layers) do
    local rows, columns = layer.weight:size(1), layer.weight:size(2)
    local from = orders[k - 1] or core.arange(rows):to "int64":unsqueeze(1)
    local to = orders[k] or core.arange(columns):to "int64":unsqueeze(1)
    local w = from:unsqueeze(3) * columns + to:unsqueeze(2) + base
    parts[#parts + 1] = w:broadcast_to { Q, rows, columns }:reshape { Q, rows * columns }
    base = base + rows * columns
    if layer.bias then
      parts[#parts + 1] = (to + base):broadcast_to { Q, columns }
      base = base + columns
    end
  end
  return core.concatenate(parts, 2)
end

-- Permutations number first .. last (from 0) of all combinations, those of layer `spared` (nil: of none) left as it is.
local function combination(self, first, last, spared)
  local index, orders = core.arange(first, last + 1):to "int64", {}
  local Q = last - first + 1
  for k = #self.hidden, 1, -1 do
    local size = self.hidden[k]
    if k == spared then
      orders[k] = core.arange(size):to "int64":unsqueeze(1):broadcast_to { Q, size }
    else
      self.all = self.all or {}
      self.all[size] = self.all[size] or transform.permutations(size)
      local n = self.all[size]:size(1)
      orders[k] = self.all[size]:take(1, index:remainder(n))
      index = index:floor_divide(n)
    end
  end
  return places(self, orders)
end

-- Draws of permutations, uniformly: for each hidden layer int64 [n, k].
local function random_orders(self, n, generator)
  local orders = {}
  for k, size in ipairs(self.hidden) do
    orders[k] = core.rand({ n, size }, { generator = generator }):argsort(2)
  end
  return orders
end

-- ---- densities ----

-- w [..., D] as [S, D].
local function check_weights(self, where, w)
  options.argument(where, "w", w, "tensor")
  if w:ndim() < 1 or w:size(-1) ~= self.size then
    core.error(("%s: w must have shape [..., %d], got [%s]"):format(where, self.size, table.concat(w:shape(), ", ")))
  end
  return w:ndim() == 2 and w or w:reshape { -1, self.size }
end

-- y [S] in the shape that w has before its last axis.
local function beside_weights(y, w)
  return w:ndim() == 2 and y or y:reshape(table.move(w:shape(), 1, w:ndim() - 1, 1, {}))
end

-- ln q_0(P w) for the permutations that give these places: [S, Q].
local function each_log_prob(self, w, at)
  local Q, D = at:size(1), self.size
  local flat = at:reshape { Q * D }
  local power = self.power:take(1, flat):reshape { Q, D }
  local linear = self.linear:take(1, flat):reshape { Q, D }
  return w:square():matmul(power:t()) + w:matmul(linear:t()) - self.constant
end

local function mean_field(self, w)
  return (((w - self.loc) / self.scale):square() * -0.5 - self.scale:log()):sum(2) - 0.5 * LOG_2PI * self.size
end

--- ln q_0(w) of weights w [..., D].
function methods:mean_field_log_prob(w)
  return beside_weights(mean_field(self, check_weights(self, "mean_field_log_prob", w)), w)
end

-- The log of the sum over all permutations, enumerated in pieces.
local function enumerated(self, w)
  local count, total = count_of(self.hidden), nil
  local step = math.max(1, math.floor(MOST_AT_ONCE / math.max(w:size(1), 2 * self.size)))
  for first = 0, count - 1, step do
    local part = each_log_prob(self, w, combination(self, first, math.min(first + step, count) - 1)):logsumexp(2)
    total = total and total:logaddexp(part) or part
  end
  return total
end

-- Places in the vector of the weights into, of and out of each node of hidden layer l, int64 [k, C], and of all others;
-- nil for none. With `outer` those between two hidden layers are neither.
local function of_nodes(self, l, outer)
  local base, nodes, others = 0, {}, {}
  for i = 1, self.hidden[l] do nodes[i] = {} end
  for number, layer in ipairs(self.layers) do
    local rows, columns = layer.weight:size(1), layer.weight:size(2)
    local spared = outer and number > 1 and number < #self.layers
    for r = 1, spared and 0 or rows do
      for c = 1, columns do
        local into = number == l and nodes[c] or number == l + 1 and nodes[r] or others
        into[#into + 1] = base + (r - 1) * columns + c - 1
      end
    end
    base = base + rows * columns
    for c = 1, layer.bias and columns or 0 do
      local into = number == l and nodes[c] or others
      into[#into + 1] = base + c - 1
    end
    base = base + (layer.bias and columns or 0)
  end
  return #nodes[1] > 0 and core.tensor(nodes, { dtype = "int64" }) or nil,
    #others > 0 and core.tensor(others, { dtype = "int64" }) or nil
end

-- Of the permutations that give places at [Q, D], for each draw: the logs of what the weights `nodes` [k, C] of node i
-- give in place j, and of what the others give: [S, Q, k, k] and [S, Q], up to self.constant.
local function node_terms(self, w, at, nodes, others)
  local k, C, S, Q = nodes:size(1), nodes:size(2), w:size(1), at:size(1)
  local u = w:take(2, nodes:reshape { k * C }):reshape { S * k, C }
  local places_of = at:take(2, nodes:reshape { k * C }):reshape { Q * k * C }
  local power = self.power:take(1, places_of):reshape { Q * k, C }
  local linear = self.linear:take(1, places_of):reshape { Q * k, C }
  local M = u:square():matmul(power:t()) + u:matmul(linear:t()) -- [S k(i), Q k(j)]
  M = M:reshape { S, k, Q, k }:permute { 1, 3, 4, 2 }
  if not others then
    return M, core.zeros({ S, Q }, { dtype = w:dtype() })
  end
  local n, rest = others:size(1), w:take(2, others)
  local flat = at:take(2, others):reshape { Q * n }
  return M, rest:square():matmul(self.power:take(1, flat):reshape { Q, n }:t())
    + rest:matmul(self.linear:take(1, flat):reshape { Q, n }:t())
end

-- The largest hidden layer.
local function largest(self)
  local l = 1
  for k, size in ipairs(self.hidden) do
    l = size > self.hidden[l] and k or l
  end
  return l
end

local function by_subsets(self, w)
  local l = largest(self)
  local nodes, others = of_nodes(self, l)
  local count, total, S, k = count_of(self.hidden, l), nil, w:size(1), self.hidden[l]
  local widest = math.max(k * k, k << (k - 1)) -- numbers that a permutation and a draw take
  local step = math.max(1, math.floor(MOST_AT_ONCE / (S * widest)))
  for first = 0, count - 1, step do
    local at = combination(self, first, math.min(first + step, count) - 1, l)
    local M, rest = node_terms(self, w, at, nodes, others)
    local part = (permanent.log_permanent(M) + rest):logsumexp(2)
    total = total and total:logaddexp(part) or part
  end
  return total - self.constant
end

-- How the sum over permutations is taken; raises where neither way is open.
local function method_of(self, where, asked)
  local l = largest(self)
  local k, count, others = self.hidden[l], count_of(self.hidden), count_of(self.hidden, l)
  local cheap = k <= permanent.MOST and others * (1 << k) * k <= 1e8
  local ways = { enumerate = count <= MOST_ENUMERATED, subsets = cheap }
  if asked ~= "auto" and ways[asked] then
    return asked
  elseif asked ~= "auto" then
    core.error(("%s: method '%s' is too dear for hidden layers of %s nodes (:bounds has no such limit)"):format(where,
      asked, table.concat(self.hidden, " and ")))
  elseif ways.enumerate and (count <= 120 or not ways.subsets) then
    return "enumerate"
  elseif ways.subsets then
    return "subsets"
  end
  return core.error(("%s: there are exp(%.1f) permutations of hidden layers of %s nodes, too many for an exact sum; "
    .. ":bounds gives bounds"):format(where, self.log_count, table.concat(self.hidden, " and ")))
end

-- f of w in blocks of draws that fit in memory, one after another.
local function in_blocks(w, most, f)
  local S, parts = w:size(1), {}
  if S <= most then
    return f(w)
  end
  for first = 1, S, most do
    parts[#parts + 1] = f(w:slice(1, first, math.min(first + most - 1, S)))
  end
  return core.concatenate(parts, 1)
end

local ways = { method = options.choice("auto", "enumerate", "subsets") }

-- ln q_mix(w), the sum over permutations taken by `method`.
local function mixed(self, w, method)
  local k = self.hidden[largest(self)]
  local widest = method == "subsets" and k << (k - 1) or 1
  return in_blocks(w, math.max(1, math.floor(MOST_AT_ONCE / widest)), function(part)
    return method == "subsets" and by_subsets(self, part) or enumerated(self, part)
  end) - self.log_count
end

--- ln q_mix(w) of weights w [..., D]: [...]. Options: method = "auto", "enumerate" or "subsets".
function methods:log_prob(w, given)
  local rows = check_weights(self, "log_prob", w)
  local method = method_of(self, "log_prob", options.check("log_prob", given, ways).method)
  return beside_weights(mixed(self, rows, method), w)
end

--- ln q_0(w) - ln q_mix(w) of weights w [..., D]: [...]. Options as those of log_prob.
function methods:log_ratio(w, given)
  local rows = check_weights(self, "log_ratio", w)
  local method = method_of(self, "log_ratio", options.check("log_ratio", given, ways).method)
  return beside_weights(mean_field(self, rows) - mixed(self, rows, method), w)
end

-- ---- draws ----

-- Draws of q_0 as rows [n, D], the shape that was asked for, and the generator.
local function drawn(self, where, ...)
  local sizes, generator = own.draw_arguments(self, where, ...)
  local n = 1
  for _, size in ipairs(sizes) do
    n = n * size
  end
  local e = core.randn({ n, self.size }, { generator = generator, dtype = self.dtype })
  return self.loc + self.scale * e, own.joined(sizes, self.event_shape), generator
end

--- mean_field_sample{n}, mean_field_sample({n}, generator): draws of q_0, [n, D].
function methods:mean_field_sample(...)
  local w, shape = drawn(self, "mean_field_sample", ...)
  return w:reshape(shape)
end

--- sample{n}, sample({n}, generator): draws of q_mix, [n, D]: draws of q_0, the nodes of each in another order.
function methods:sample(...)
  local w, shape, generator = drawn(self, "sample", ...)
  return w:gather(2, places(self, random_orders(self, w:size(1), generator))):reshape(shape)
end

--- The vector w [D] as a table of tensors by name, for parameters.with or load_state.
function methods:values(w)
  options.argument("values", "w", w, "tensor")
  if w:ndim() ~= 1 or w:size(1) ~= self.size then
    core.error(("values: w must have shape [%d], got [%s]"):format(self.size, table.concat(w:shape(), ", ")))
  end
  local out, at = {}, 1
  for k, name in ipairs(self.names) do
    local n = 1
    for _, size in ipairs(self.shapes[k]) do n = n * size end
    out[name] = w:slice(1, at, at + n - 1):reshape(self.shapes[k])
    at = at + n
  end
  return out
end

local function mean_and_error(t)
  return t:mean():item(), (t:var() / t:numel()):sqrt():item()
end

local drawing = { draws = 1000, method = ways.method, generator = options.any(false) }

--- gap{draws = 1000, method = "auto", generator =}: the gap KL[q_0 || q_mix] in nats, by Monte Carlo over draws of q_0,
--- the sum over permutations exact in each. Gives {gap =, standard_error =, largest = ln |P|, method =}. The same
--- number is KL[q_0 || p] - KL[q_mix || p] for every prior that the permutations leave alone. A draw's ln q_0 - ln
--- q_mix may lie below 0 and is never above ln |P|. Where the modes are far apart the gap lacks a little of ln |P| that
--- rare draws bring in, and an error estimated from few draws is too small.
function methods:gap(given)
  local o = options.check("gap", given, drawing)
  local method = method_of(self, "gap", o.method)
  local w = drawn(self, "gap", options.whole("gap", "draws", o.draws, 2), o.generator or nil)
  local gap, error_of = mean_and_error(mean_field(self, w) - mixed(self, w, method))
  return { gap = gap, standard_error = error_of, largest = self.log_count, method = method, draws = o.draws }
end

-- ---- bounds ----

-- All exchanges of two nodes of one layer, and the identity first: for each hidden layer int64 [Q, k].
local function exchanges(self)
  local rows = {}
  local function add(layer, i, j)
    local row = {}
    for k, size in ipairs(self.hidden) do
      row[k] = {}
      for n = 1, size do row[k][n] = n - 1 end
    end
    if layer then
      row[layer][i], row[layer][j] = j - 1, i - 1
    end
    rows[#rows + 1] = row
  end
  add()
  for layer, size in ipairs(self.hidden) do
    for i = 1, size do
      for j = i + 1, size do add(layer, i, j) end
    end
  end
  local orders = {}
  for k in ipairs(self.hidden) do
    local list = {}
    for n, row in ipairs(rows) do list[n] = row[k] end
    orders[k] = core.tensor(list, { dtype = "int64" })
  end
  return orders
end

-- Less the log of an unbiased estimate of the sum over permutations, [S]: the identity and all exchanges of two nodes
-- count exactly, the others by a sample of n permutations for each draw. The mean of the logarithm of an estimate is
-- at most the logarithm of its mean (Jensen), so that with it the gap comes out too large, never too small, and no
-- value is above ln |P|.
local function upper_bound(self, w, generator, n)
  if self.log_count <= math.log(n) + 1e-9 then
    return -enumerated(self, w)
  end
  local S, D = w:size(1), self.size
  local sum = each_log_prob(self, w, places(self, (exchanges(self)))):logsumexp(2)
  local orders = random_orders(self, S * n, generator)
  local moved -- nodes; those that move no more than two are counted already
  for k, size in ipairs(self.hidden) do
    local m = orders[k]:ne(core.arange(size):to "int64"):to(w:dtype()):sum(2)
    moved = moved and moved + m or m
  end
  local there = w:unsqueeze(2):broadcast_to { S, n, D }:gather(3, places(self, orders):reshape { S, n, D })
  local each = (((there - self.loc) / self.scale):square() * -0.5 - self.scale:log()):sum(3) - 0.5 * LOG_2PI * D
  each = core.where(moved:gt(2):reshape { S, n }, each, core.full({}, -math.huge, { dtype = w:dtype() }))
  return -sum:logaddexp(each:logsumexp(2) + (self.log_count - math.log(n)))
end

-- The gap of what the other layers do not see, the weights between two hidden layers left out, one layer after
-- another: a marginal of q_0 and of q_mix each, and no divergence grows under marginals. What is too large to be
-- summed exactly is bounded from above.
local function lower_bound(self, w)
  local same, total = core.arange(self.size):to "int64":unsqueeze(1), nil
  for l, k in ipairs(self.hidden) do
    local nodes = of_nodes(self, l, true)
    if nodes then
      local M = node_terms(self, w, same, nodes):select(2, 1)
      local most = k <= permanent.MOST and permanent.log_permanent(M) or permanent.log_bound(M)
      local part = M:diagonal():sum(2) - most + core.tensor(k + 1.0):lgamma():item()
      total = total and total + part or part
    end
  end
  return total
end

--- bounds{draws = 1000, permutations = 100, generator =}: where |P| is too large for an exact sum. Gives {lower =,
--- lower_error =, upper =, upper_error =, largest = ln |P|}: expectations that bound the gap, with the standard errors
--- of their Monte Carlo estimates over draws of q_0. `permutations` of them are drawn for the upper bound
--- of each draw; more make it tighter, and where there are no more than that in all it is the gap.
function methods:bounds(given)
  local o = options.check("bounds", given, { draws = 1000, permutations = 100, generator = options.any(false) })
  local generator, n = o.generator or nil, options.whole("bounds", "permutations", o.permutations, 1)
  local w = drawn(self, "bounds", options.whole("bounds", "draws", o.draws, 2), generator)
  local plain = mean_field(self, w)
  local upper = in_blocks(w, math.max(1, MOST_AT_ONCE // (n * self.size)), function(part)
    return upper_bound(self, part, generator, n)
  end) + plain + self.log_count
  local k = math.min(math.max(table.unpack(self.hidden)), permanent.MOST)
  local low = in_blocks(w, math.max(1, math.floor(MOST_AT_ONCE / (k << (k - 1)))), function(part)
    return lower_bound(self, part)
  end)
  local result = { largest = self.log_count, draws = o.draws }
  result.upper, result.upper_error = mean_and_error(upper)
  result.lower, result.lower_error = mean_and_error(low)
  result.lower = math.max(result.lower, 0)
  return result
end

class.__index = core.namespace("a permutation mixture", methods)

return permutation_mixture
