--- Distributions with a probability of their own at 0: added to what the distribution has there (zero-inflated), or in
--- its stead (hurdle).
--- Sources: Lambert 1992 (zero-inflated); Mullahy 1986, Cragg 1971 (hurdle).
-- help: nowhere
local core = require "penumbra.core"
local composite = require "penumbra.distribution.own_composite"
local options = require "penumbra.options"

local inflated = {}

local function constant(d, v)
  return core.full({}, v, { dtype = d.dtype })
end

-- d and the probability of an additional 0 over one batch.
local function parts_of(where, d, gate)
  options.argument(where, "d", d, "distribution")
  if #d.event_shape > 0 then
    core.error(("%s: d must be a distribution of numbers (before :independent), got %s with events of shape [%s]")
      :format(where, d.name, table.concat(d.event_shape, ", ")))
  end
  gate = options.numbers(where, "gate", gate)
  if not core.is_tensor(gate) or gate:dtype() ~= d.dtype then
    gate = core.is_tensor(gate) and gate:to(d.dtype) or core.tensor(gate, { dtype = d.dtype })
  end
  if not core.capture.going_on() then
    core.set.require("unit_interval", gate, where, "gate")
  end
  local batch = composite.broadcast(where .. ": batch of d and gate", d.batch_shape, gate:shape())
  return d:expand(batch), gate:broadcast_to(batch), batch
end

-- Is x 0? And x with a member of d's support in place of what it is not asked for.
local function split(x, member)
  local zero = x:detach():eq(0)
  return zero, core.where(zero, member, x)
end

local function with_zeros(gate, draws)
  return function(self, shape, generator)
    local lead = composite.lead(self, shape, generator)
    local u = core.rand(shape, { generator = generator, dtype = self.dtype })
    local x = draws(lead, generator, shape)
    return core.where(u:lt(gate), core.zeros({}, { dtype = x:dtype() }), x)
  end
end

--- zero_inflated(d, gate): see pn.dist.zero_inflated.
function inflated.zero_inflated(d, gate)
  local base, batch
  base, gate, batch = parts_of("zero_inflated", d, gate)
  if not base.discrete then
    core.error(("zero_inflated: d must have a probability of 0, got %s, which is continuous (hurdle adds zeros to it)")
      :format(base.name))
  end
  local member = core.set.member(base.support, base.dtype, {})
  local functions = {
    total = true,
    log_prob = function(_, x)
      local zero, other = split(x, member)
      local some = (-gate):log1p()
      local none = core.logaddexp(gate:log(), some + base:log_prob(core.zeros(batch, { dtype = base.dtype })))
      return core.where(zero, none, some + base:log_prob(other))
    end,
    expand = function(_, sizes) return inflated.zero_inflated(base:expand(sizes), gate:broadcast_to(sizes)) end,
    cast = function(_, dtype) return inflated.zero_inflated(base:to(dtype), gate:to(dtype)) end,
  }
  return composite.composed("zero_inflated", base.support, { base, gate }, batch, {}, base.dtype,
    composite.passed(functions, base, {
      sample = with_zeros(gate, function(lead) return base:sample(lead) end),
      mean = function() return (1 - gate) * base:mean() end,
      variance = function() return (1 - gate) * (base:variance() + gate * base:mean():square()) end,
      cdf = function(_, x)
        return core.where(x:detach():lt(0), constant(base, 0), gate + (1 - gate) * base:cdf(x))
      end,
    }))
end

--- hurdle(d, gate): see pn.dist.hurdle.
function inflated.hurdle(d, gate)
  local base, batch
  base, gate, batch = parts_of("hurdle", d, gate)
  local support = base.discrete and base.support or "nonnegative"
  if not base.discrete and base.support ~= "positive" and base.support ~= "nonnegative" then
    core.error(("hurdle: d must be of counts or of positive numbers, got %s, whose support is %s"):format(base.name,
      base.support))
  end
  local member = base.discrete and constant(base, 1) or core.set.member(base.support, base.dtype, {})
  -- log of the probability that d is not 0
  local function log_some()
    return base.discrete and base:log_prob(core.zeros(batch, { dtype = base.dtype })):log1mexp()
      or core.zeros(batch, { dtype = base.dtype })
  end
  local functions = {
    total = true,
    bijector = function()
      core.error "hurdle: 0 has a probability of its own: it is for what is observed, sample d instead"
    end,
    log_prob = function(_, x)
      local zero, other = split(x, member)
      return core.where(zero, gate:log(), (-gate):log1p() + base:log_prob(other) - log_some())
    end,
    expand = function(_, sizes) return inflated.hurdle(base:expand(sizes), gate:broadcast_to(sizes)) end,
    cast = function(_, dtype) return inflated.hurdle(base:to(dtype), gate:to(dtype)) end,
  }
  -- draws that are not 0: by inversion of what is left of the unit interval
  local function some(lead, generator, shape)
    if not base.discrete then
      return base:sample(lead)
    end
    local none = base:log_prob(core.zeros(batch, { dtype = base.dtype })):exp()
    local u = core.rand(shape, { generator = generator, dtype = base.dtype })
    return core.maximum(base:icdf(none + (1 - none) * u), constant(base, 1))
  end
  functions = composite.passed(functions, base, {
    sample = with_zeros(gate, some),
    mean = function() return (1 - gate) * base:mean() / log_some():exp() end,
    variance = function()
      local share, mean = (1 - gate) / log_some():exp(), base:mean()
      return share * (base:variance() + mean:square()) - (share * mean):square()
    end,
    cdf = function(_, x)
      local none = base.discrete and base:log_prob(core.zeros(batch, { dtype = base.dtype })):exp() or constant(base, 0)
      local above = x:detach():gt(0)
      local p = base:cdf(core.where(above, x, member))
      local rest = core.where(above, (p - none) / (1 - none), constant(base, 0))
      return core.where(x:detach():lt(0), constant(base, 0), gate + (1 - gate) * rest)
    end,
  })
  return composite.composed("hurdle", support, { base, gate }, batch, {}, base.dtype, functions)
end

return inflated
