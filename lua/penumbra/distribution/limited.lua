--- Distributions of numbers between limits: recorded there (censored), or only seen there (truncated).
-- help: nowhere
local core = require "penumbra.core"
local composite = require "penumbra.distribution.own_composite"
local options = require "penumbra.options"

local limited = {}

-- A limit as a tensor of d's dtype; absent: `otherwise`.
local function limit_of(where, role, value, d, otherwise)
  if value == nil then
    return core.full({}, otherwise, { dtype = d.dtype })
  end
  local t = options.numbers(where, role, value)
  if not core.is_tensor(t) or t:dtype() ~= d.dtype then
    t = core.is_tensor(t) and t:to(d.dtype) or core.tensor(t, { dtype = d.dtype })
  end
  if not core.capture.going_on() and t:isnan():any():item() then
    core.error(("%s: %s is NaN"):format(where, role))
  end
  return t
end

-- d, low and high over one batch; what is wrong with them raises.
local function parts_of(where, d, low, high)
  options.argument(where, "d", d, "distribution")
  if #d.event_shape > 0 then
    core.error(("%s: d must be a distribution of numbers (before :independent), got %s with events of shape [%s]")
      :format(where, d.name, table.concat(d.event_shape, ", ")))
  elseif low == nil and high == nil then
    core.error(("%s: needs a limit, low or high"):format(where))
  end
  low, high = limit_of(where, "low", low, d, -math.huge), limit_of(where, "high", high, d, math.huge)
  local batch = composite.broadcast(where .. ": batch of d, low and high", d.batch_shape, low:shape())
  batch = composite.broadcast(where .. ": batch of d, low and high", batch, high:shape())
  low, high = low:broadcast_to(batch), high:broadcast_to(batch)
  if not core.capture.going_on() and low:detach():ge(high:detach()):any():item() then
    core.error(("%s: low must be below high"):format(where))
  end
  return d:expand(batch), low, high, batch
end

-- Where the mask is true f(x), elsewhere other; f sees a member of the support there, so that its gradient is a number.
local function where_safe(mask, x, member, f, other)
  return core.where(mask, f(core.where(mask, x, member)), other)
end

local function constant(d, v)
  return core.full({}, v, { dtype = d.dtype })
end

-- The largest number below x that d can take, for P(X >= x) = P(X > before(x)).
local function before(d, x)
  return d.discrete and x - 1 or x
end

--- censored(d, low, high): see pn.dist.censored.
function limited.censored(d, low, high)
  local base, batch
  base, low, high, batch = parts_of("censored", d, low, high)
  local member = core.set.member(base.support, base.dtype, {})
  local functions = {
    total = true, -- values at a limit may lie outside of the support of d
    bijector = function()
      core.error "censored: its ends have a probability of their own: it is for what is observed, sample d instead"
    end,
    log_prob = function(_, x)
      local at_low, at_high = x:detach():eq(low), x:detach():eq(high)
      local between = x:detach():gt(low):logical_and(x:detach():lt(high))
      local lp = where_safe(between, x, member, function(v) return base:log_prob(v) end, constant(base, -math.huge))
      lp = where_safe(at_low, x, member, function(v) return base:log_cdf(v) end, lp)
      lp = where_safe(at_high, x, member, function(v) return base:log_survival(before(base, v)) end, lp)
      return core.where(x:detach():isnan(), constant(base, 0 / 0), lp)
    end,
    cdf = function(_, x)
      local p = where_safe(x:detach():ge(low):logical_and(x:detach():lt(high)), x, member, function(v)
        return base:cdf(v)
      end, constant(base, 0))
      return core.where(x:detach():ge(high), constant(base, 1), p)
    end,
    expand = function(_, sizes) return limited.censored(base:expand(sizes), low, high) end,
    cast = function(_, dtype) return limited.censored(base:to(dtype), low, high) end,
  }
  local function limit(x) return core.minimum(core.maximum(x, low), high) end
  return composite.composed("censored", base.support, { base, low, high }, batch, {}, base.dtype,
    composite.passed(functions, base, {
      sample = function(self, shape, generator) return limit(base:sample(composite.lead(self, shape, generator))) end,
      icdf = function(_, p) return limit(base:icdf(p)) end,
    }))
end

-- log(P(X <= high) - P(X < low)), from the tail in which it is exact.
local function log_mass(base, low, high)
  local least = base.discrete and low - 1 or low
  local has_low, has_high = least:detach():isfinite(), high:detach():isfinite()
  local member = core.set.member(base.support, base.dtype, {})
  local zero, never = constant(base, 0), constant(base, -math.huge)
  local below = where_safe(has_low, least, member, function(v) return base:log_cdf(v) end, never)
  local above = where_safe(has_high, high, member, function(v) return base:log_survival(v) end, never)
  local up_to = where_safe(has_high, high, member, function(v) return base:log_cdf(v) end, zero)
  local from = where_safe(has_low, least, member, function(v) return base:log_survival(v) end, zero)
  -- log(e^a - e^b) for a >= b, where b is not -inf
  local function minus(a, b)
    return where_safe(b:detach():gt(-math.huge), b - a, constant(base, -1), function(v) return a + v:log1mexp() end, a)
  end
  return core.where(below:detach():gt(math.log(0.5)), minus(from, above), minus(up_to, below))
end

-- The bijector from all numbers onto what a truncated distribution can be; has_low, has_high: which limits were given.
local function bijector_onto(base, low, high, has_low, has_high)
  if base.discrete then
    core.error(("truncated: %s is discrete"):format(base.name))
  elseif not has_low and (base.support == "positive" or base.support == "nonnegative") then
    low, has_low = core.zeros({}, { dtype = base.dtype }), true
  end
  if has_low and has_high then
    return core.new_biject_to("interval", low, high)
  elseif has_low then
    return core.new_biject_to("half_line", low)
  end
  return core.error(("truncated: as a latent variable %s needs the limit low, too"):format(base.name))
end

--- truncated(d, low, high): see pn.dist.truncated.
function limited.truncated(d, low, high)
  local base, batch
  local has_low, has_high = low ~= nil, high ~= nil
  base, low, high, batch = parts_of("truncated", d, low, high)
  local mass = log_mass(base, low, high)
  local member = core.set.member(base.support, base.dtype, {})
  local function inside(x)
    return x:detach():ge(low):logical_and(x:detach():le(high)):logical_and(core.within(base.support, x:detach()))
  end
  local function least() return base.discrete and low - 1 or low end
  local functions = {
    total = true,
    log_prob = function(_, x)
      local lp = where_safe(inside(x), x, member, function(v) return base:log_prob(v) - mass end,
        constant(base, -math.huge))
      return core.where(x:detach():isnan(), constant(base, 0 / 0), lp)
    end,
    bijector = function() return bijector_onto(base, low, high, has_low, has_high) end,
    expand = function(_, sizes)
      return limited.truncated(base:expand(sizes), has_low and low or nil, has_high and high or nil)
    end,
    cast = function(_, dtype)
      return limited.truncated(base:to(dtype), has_low and low or nil, has_high and high or nil)
    end,
  }
  local function cdf_at(x, otherwise)
    return where_safe(x:detach():isfinite(), x, member, function(v) return base:cdf(v) end, constant(base, otherwise))
  end
  return composite.composed("truncated", base.support, { base, low, high }, batch, {}, base.dtype,
    composite.passed(functions, base, {
      cdf = function(_, x)
        local p = (cdf_at(core.minimum(x, high), 1) - cdf_at(least(), 0)) / mass:exp()
        return core.where(x:detach():ge(low), core.minimum(p, constant(base, 1)), constant(base, 0))
      end,
      icdf = function(_, p)
        local first, last = cdf_at(least(), 0), cdf_at(high, 1)
        return core.minimum(core.maximum(base:icdf(first + p * (last - first)), low), high)
      end,
    }))
end

return limited
