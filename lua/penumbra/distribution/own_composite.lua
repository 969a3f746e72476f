--- Distributions made of distributions of which one, or the bijector, was made by a script (own.lua): the rules of the
--- library's composites with the same names.
-- help: nowhere
local core = require "penumbra.core"
local own = require "penumbra.distribution.own"

local composite = {}

local joined, sum_last = own.joined, own.sum_last

local function first(list, n)
  return table.move(list, 1, n, 1, {})
end

-- The broadcast of two shapes.
local function broadcast(where, a, b)
  local out, most = {}, math.max(#a, #b)
  for k = 1, most do
    local m, n = a[#a - k + 1] or 1, b[#b - k + 1] or 1
    if m ~= n and m ~= 1 and n ~= 1 then
      core.error(("%s must broadcast, got [%s] and [%s]"):format(where, table.concat(a, ", "), table.concat(b, ", ")))
    end
    out[most - k + 1] = m == 1 and n or m
  end
  return out
end

-- Sizes of the sample and the generator, as part's methods take them, for draws of `shape`.
local function lead(d, shape, generator)
  local sizes = first(shape, #shape - #d.batch_shape - #d.event_shape)
  sizes.generator = generator
  return sizes
end

local function with_event(t, d)
  for _ = 1, #d.event_shape do
    t = t:unsqueeze(-1)
  end
  return t
end

-- A kind of one distribution: its functions know the parts.
local function composed(name, support, parts, batch, event, dtype, functions)
  functions.name, functions.parameters = name, {}
  functions.support = core.set.find(support, name)
  functions.continuous = not functions.support.discrete
  return own.new(functions, {}, parts, batch, event, dtype)
end

-- Only what the part has.
local function passed(functions, part, names)
  local kind = own.is(part) and part.kind
  for name, f in pairs(names) do
    local has = not kind or kind[name] or name == "sample" and kind.rsample or kind.icdf and name:find "sample$"
    functions[name] = has and f or nil
  end
  return functions
end

-- ---- masked ----

--- masked(d, mask): see pn.dist.masked.
function composite.masked(base, mask)
  if not core.is_tensor(mask) or mask:dtype() ~= "bool" then
    core.error(("masked: mask must be a bool tensor, got %s"):format(core.is_tensor(mask) and mask:dtype()
      or type(mask)))
  end
  local batch = broadcast("masked: mask and batch", mask:shape(), base.batch_shape)
  base, mask = base:expand(batch), mask:broadcast_to(batch)
  local size = base.event_shape
  local rank = core.set.find(base.support, "masked").rank
  local member = core.set.member(base.support, base.dtype, table.move(size, #size - rank + 1, #size, 1, {}))
  local function draw(name)
    return function(d, shape, generator) return base[name](base, lead(d, shape, generator)) end
  end
  return composed("masked", base.support, { base, mask }, batch, size, base.dtype, passed({
    total = true,
    log_prob = function(d, x)
      local lp = base:log_prob(core.where(with_event(mask, d), x, member))
      return core.where(mask, lp, core.zeros({}, { dtype = d.dtype }))
    end,
    expand = function(_, sizes) return composite.masked(base:expand(sizes), mask) end,
    cast = function(_, dtype) return composite.masked(base:to(dtype), mask) end,
  }, base, {
    sample = draw "sample", rsample = draw "rsample",
    mean = function() return base:mean() end,
    variance = function() return base:variance() end,
    mode = function() return base:mode() end,
    entropy = function(d) return core.where(mask, base:entropy(), core.zeros({}, { dtype = d.dtype })) end,
  }))
end

-- ---- transformed ----

--- transformed(base, map): see pn.dist.transformed.
function composite.transformed(base, map)
  if not core.set.inside(base.support, map.domain) then
    core.error(("transformed: values of the base must be %s for %s, got %s on '%s'"):format(
      core.set.find(map.domain, "transformed").must, map.name, base.name, base.support))
  end
  local lack = map.domain_rank - #base.event_shape
  if lack > #base.batch_shape then
    core.error(("transformed: base must have at least %d axes for %s, got %d"):format(map.domain_rank, map.name,
      #base.batch_shape + #base.event_shape))
  end
  base = base:independent(math.max(lack, 0))
  local event = base.event_shape
  local rank = core.set.find(map.domain, "transformed").rank -- a map may take more axes together than its set has
  local member = core.set.member(map.domain, base.dtype, table.move(event, #event - rank + 1, #event, 1, {}))
  local shape = map:forward(member:broadcast_to(joined(base.batch_shape, event))):shape()
  local extra = #event - map.domain_rank
  local outer = extra + map.codomain_rank
  local batch = first(shape, #shape - outer)
  base = base:expand(batch)
  local function draw(name)
    return function(d, sizes, generator) return map:forward(base[name](base, lead(d, sizes, generator))) end
  end
  return composed("transformed", map.codomain, { base, map }, batch, table.move(shape, #batch + 1, #shape, 1, {}),
    base.dtype, passed({
      log_prob = function(_, y)
        local x, log_det = map:inverse_log_det(y)
        return base:log_prob(x) - sum_last(log_det, extra)
      end,
      expand = function(_, sizes) return composite.transformed(base:expand(sizes), map) end,
      cast = function()
        core.error "transformed: to: a distribution of a script's bijector cannot change its dtype"
      end,
    }, base, { sample = draw "sample", rsample = draw "rsample" }))
end

-- ---- mixture ----

-- Components as a list of distributions over the batch.
local function split(labels, components, n)
  if #components > 1 then
    return components
  end
  local d = components[1]
  local size = #d.batch_shape
  if d.batch_shape[size] ~= n then
    core.error(("mixture: the last batch axis of the components must have the %d of the weights, got %s"):format(n,
      tostring(d.batch_shape[size])))
  end
  if #d.kind.parameters == 0 then
    core.error(("mixture: components along a batch axis are possible of kinds with parameters, got %s: give a list")
      :format(d.name))
  end
  local list = {}
  for k = 1, n do
    local values = {}
    for _, p in ipairs(d.kind.parameters) do
      local t = d[p.name]
      local wide = t:ndim() - p.axes
      values[p.name] = wide > 0 and t:select(wide, t:size(wide) == 1 and 1 or k) or t
    end
    list[k] = d.kind(values)
  end
  return list, labels
end

--- mixture(labels, components): see pn.dist.mixture.
function composite.mixture(labels, components)
  local n = labels.probs:size(-1)
  if #components == 1 and (not own.is(components[1]) or components[1].independent_rank > 0) then
    core.error "mixture: components of a script along a batch axis come before independent: give a list"
  end
  local list = { table.unpack((split(labels, components, n))) }
  if #list ~= n then
    core.error(("mixture: there must be %d components, as there are weights, got %d"):format(n, #list))
  end
  local head, batch = list[1], labels.batch_shape
  for k, d in ipairs(list) do
    if d.support ~= head.support or not own.same(d.event_shape, head.event_shape) or d.dtype ~= head.dtype then
      core.error(("mixture: components must have one support, event shape and dtype, got another for number %d"):format(
        k))
    end
    batch = broadcast("mixture: batches of weights and components", batch, d.batch_shape)
  end
  labels = labels:expand(batch)
  local log_weight = {}
  for k, d in ipairs(list) do
    list[k] = d:expand(batch)
    log_weight[k] = labels:log_prob(core.tensor(k - 1, { dtype = "int64" }):broadcast_to(batch))
  end
  -- sum over k of weight k times f(k)
  local function average(d, f)
    local total
    for k, part in ipairs(list) do
      local term = with_event(log_weight[k]:exp(), d) * f(part)
      total = total and total + term or term
    end
    return total
  end
  local function mean(d) return average(d, function(part) return part:mean() end) end
  local parts = joined({ labels }, list)
  return composed("mixture", head.support, parts, batch, head.event_shape, head.dtype, passed({
    total = true, -- the components know their supports
    log_prob = function(_, x)
      local each = {}
      for k, part in ipairs(list) do
        each[k] = part:log_prob(x) + log_weight[k]
      end
      return core.stack(each, -1):logsumexp { -1 }
    end,
    sample = function(d, shape, generator)
      local sizes = lead(d, shape, generator)
      local label, x = with_event(labels:sample(sizes), d), nil
      for k, part in ipairs(list) do
        local drawn = part:sample(sizes)
        x = x and core.where(label:eq(k - 1), drawn, x) or drawn
      end
      return x
    end,
    expand = function(_, sizes) return composite.mixture(labels:expand(sizes), list) end,
    cast = function(_, dtype)
      local other = {}
      for k, part in ipairs(list) do
        other[k] = part:to(dtype)
      end
      return composite.mixture(labels:to(dtype), other)
    end,
  }, head, {
    mean = mean,
    variance = function(d)
      return average(d, function(part) return part:variance() + part:mean():square() end) - mean(d):square()
    end,
    cdf = function(d, x) return average(d, function(part) return part:cdf(x) end) end,
  }))
end

composite.composed, composite.passed, composite.broadcast, composite.lead = composed, passed, broadcast, lead

return composite
