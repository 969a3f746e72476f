--- Distributions that a script makes (own_kind.lua), as objects: each is a table that answers to what the library's own
--- do; the rules of shapes, dtypes, supports and missing functions are the same.
-- help: nowhere
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"

local own = {}

local sets = core.set

local function refuse(d, format, ...)
  core.error(("%s: " .. format):format(d.name, ...))
end

local shape_text = options.shape_text

local function joined(...)
  local out = {}
  for _, list in ipairs { ... } do
    table.move(list, 1, #list, #out + 1, out)
  end
  return out
end

local function same(a, b)
  return table.concat(a, ",") == table.concat(b, ",")
end

-- t in the given shape, repeated where it has size 1.
local function expanded(d, what, t, sizes)
  if not core.is_tensor(t) then
    refuse(d, "%s must return a tensor, got %s", what, type(t))
  elseif same(t:shape(), sizes) then
    return t
  end
  local ok, wide = pcall(t.broadcast_to, t, sizes)
  if not ok then
    refuse(d, "%s must return shape %s, got %s", what, shape_text(sizes), shape_text(t:shape()))
  end
  return wide
end

local function sum_last(t, n)
  if n == 0 then
    return t
  end
  local axes = {}
  for k = 1, n do
    axes[k] = -k
  end
  return t:sum(axes)
end

-- ---- the object ----

local methods = {}

local object = {
  own = true, -- compiled functions watch what it was made of
  __name = "distribution",
  __newindex = core.public(function(d)
    core.error(("%s: a distribution does not change; make another"):format(d.name))
  end),
  __index = function(_, key)
    return methods[key]
  end,
  __tostring = core.public(function(d)
    return core.describe.distribution(d)
  end),
}

--- is(x): was x made here?
function own.is(x)
  return type(x) == "table" and getmetatable(x) == object
end

-- A distribution of a kind: {name, support (a set), parameters (a list), and the functions}. `values` are the
-- parameters by name, `parts` what a composite is made of. The functions get the distribution as it was before
-- independent.
local function new(kind, values, parts, batch, event, dtype, validate)
  local d = { kind = kind, name = kind.name, support = kind.support.name, discrete = kind.support.discrete,
    dtype = dtype, batch_shape = batch, event_shape = event, own_batch_shape = batch, independent_rank = 0,
    parts = parts, checks = validate }
  for name, value in pairs(values) do
    d[name] = value
  end
  return setmetatable(d, object)
end

--- new(kind, values, parts, batch, event, dtype): as above; for composites.
own.new = new

local function plain(d)
  return rawget(d, "plain") or d
end

-- The same with other fields.
local function changed(d, fields)
  local e = {}
  for key, value in next, d do
    e[key] = value
  end
  for key, value in pairs(fields) do
    e[key] = value
  end
  return setmetatable(e, object)
end

--- independent(k): the last k batch axes become event axes.
function methods:independent(k)
  local n = #self.batch_shape
  if math.type(k) ~= "integer" or k < 0 or k > n then
    refuse(self, "independent: k must be a number of batch axes, 0 to %d, got %s", n, tostring(k))
  elseif k == 0 then
    return self
  end
  return changed(self, { plain = plain(self), independent_rank = self.independent_rank + k,
    batch_shape = table.move(self.batch_shape, 1, n - k, 1, {}),
    event_shape = joined(table.move(self.batch_shape, n - k + 1, n, 1, {}), self.event_shape) })
end

--- validate([on]): the same, whose log_prob raises for values outside the support.
function methods:validate(on)
  if on ~= nil and type(on) ~= "boolean" then
    refuse(self, "validate: on must be true or false, got %s", type(on))
  end
  return changed(self, { checks = on ~= false })
end

-- d with the checks of another; nil: as pn.validate says.
local function checked(d, on)
  return on == nil and d or d:validate(on)
end

--- expand{sizes}: repeated to a larger batch shape.
function methods:expand(...)
  local sizes = type((...)) == "table" and (...) or { ... }
  local n = #self.batch_shape
  for k, size in ipairs(sizes) do
    local old = self.batch_shape[k - #sizes + n]
    if math.type(size) ~= "integer" or size < 0 or old and old ~= size and old ~= 1 then
      refuse(self, "expand: batch shape %s does not broadcast to %s", shape_text(self.batch_shape), shape_text(sizes))
    end
  end
  if #sizes < n then
    refuse(self, "expand: batch shape %s does not broadcast to %s", shape_text(self.batch_shape), shape_text(sizes))
  elseif same(sizes, self.batch_shape) then
    return self
  end
  local base, moved = plain(self), self.independent_rank
  local batch = joined(sizes, table.move(base.batch_shape, #base.batch_shape - moved + 1, #base.batch_shape, 1, {}))
  return checked(base.kind.expand(base, batch):independent(moved), self.checks)
end

--- to(dtype): with parameters of another dtype.
function methods:to(dtype)
  if dtype ~= "float64" and dtype ~= "float32" then
    refuse(self, "to: dtype must be 'float64' or 'float32', got %s", tostring(dtype))
  end
  local base = plain(self)
  return checked(base.kind.cast(base, dtype):independent(self.independent_rank), self.checks)
end

--- arguments(): {name = tensor}: enough to make it again.
function methods:arguments()
  local values = {}
  for _, p in ipairs(self.kind.parameters) do
    values[p.name] = self[p.name]
  end
  return values
end

-- ---- points ----

-- x as a tensor of the distribution's dtype.
local function point(d, what, x)
  if type(x) == "table" and not own.is(x) then
    x = core.tensor(x, { dtype = d.dtype })
  elseif type(x) == "number" or type(x) == "boolean" then
    x = core.full({}, x == true and 1 or x or 0, { dtype = d.dtype })
  elseif not core.is_tensor(x) then
    refuse(d, "%s: x must be a tensor, a number or a list, got %s", what, type(x))
  end
  local dtype = x:dtype()
  if dtype == d.dtype then
    return x
  elseif dtype:find "^float" then
    refuse(d, "%s: x must be %s as the parameters are, got %s (convert with :to)", what, d.dtype, dtype)
  end
  return x:to(d.dtype)
end

local function refuse_shape(d, what, x, why)
  refuse(d, "%s: x %s, got shape %s for batch %s and event %s", what, why, shape_text(x:shape()),
    shape_text(d.batch_shape), shape_text(d.event_shape))
end

-- Sample and batch axes of the result at x: what has a name in one is never stretched silently.
local function lead_of(d, what, x)
  local shape, batch, event = x:shape(), d.batch_shape, d.event_shape
  local n, nb = #shape - #event, #batch
  if n < 0 then
    refuse_shape(d, what, x, "must have the event's axes")
  end
  for k, size in ipairs(event) do
    if shape[n + k] ~= size then
      refuse_shape(d, what, x, "must end with the event's sizes")
    end
  end
  local lead = {}
  for k = 1, math.max(n, nb) do
    local a, b = shape[n - k + 1], batch[nb - k + 1]
    if a and b and a ~= b then
      if a == 1 then
        refuse_shape(d, what, x, "would be stretched along an axis of size 1 (say so with :broadcast_to)")
      elseif b ~= 1 then
        refuse_shape(d, what, x, "must broadcast with the batch")
      elseif n < nb then
        refuse_shape(d, what, x, "has fewer axes than the batch and differs from it")
      end
    end
    lead[math.max(n, nb) - k + 1] = a or b
  end
  return lead
end

-- Which values lie in the support, lead of the base; nil: all do.
local function inside(base, x)
  local kind = base.kind
  local mask
  if kind.in_support then
    mask = core.is_tensor(x) and kind.in_support(base, x)
    if not core.is_tensor(mask) or mask:dtype() ~= "bool" then
      refuse(base, "in_support must return a bool tensor, got %s", core.is_tensor(mask) and mask:dtype() or type(mask))
    end
  elseif kind.total then
    return nil
  else
    mask = core.within(kind.support.name, x:detach())
    for _ = 1, #base.event_shape - kind.support.rank do
      mask = mask:all(-1)
    end
  end
  if not core.capture.going_on() and mask:all():item() then
    return nil
  end
  return mask
end

-- The density where some values are outside: these are replaced by a member before the formula and the result by -inf
-- (NaN for NaN) after it, so that neither values nor gradients see them.
local function guarded(base, x, mask, lead)
  local kind, event = base.kind, base.event_shape
  local rank = kind.support.rank
  local size = table.move(event, #event - rank + 1, #event, 1, {})
  local member = kind.member and kind.member(base) or sets.member(kind.support.name, base.dtype, size)
  local wide = mask
  for _ = 1, #event do
    wide = wide:unsqueeze(-1)
  end
  local lp = expanded(base, "log_prob", kind.log_prob(base, core.where(wide, x, member)), lead)
  local bad = x:detach():ne(x:detach())
  for _ = 1, #event do
    bad = bad:any(-1)
  end
  local out = core.where(bad, core.full({}, 0 / 0, { dtype = base.dtype }), core.full({}, -math.huge,
    { dtype = base.dtype }))
  return core.where(mask, lp, out)
end

local function check_inside(d, base, x)
  local on = d.checks
  if on == nil then
    on = core.validate()
  end
  if not on then
    return
  elseif not base.kind.in_support then
    sets.require(base.support, x, base.name, "x")
  elseif core.capture.going_on() then
    core.error(("%s: validation of a support of its own cannot be part of a compiled function"):format(base.name))
  elseif not base.kind.in_support(base, x):all():item() then
    refuse(base, "x must be %s", base.kind.support.must)
  end
end

--- log_prob(x): log density, sample + batch; -inf outside the support, NaN at NaN.
function methods:log_prob(x)
  x = point(self, "log_prob", x)
  lead_of(self, "log_prob", x)
  local base = plain(self)
  local lead = lead_of(base, "log_prob", x)
  check_inside(self, base, x)
  local mask = inside(base, x)
  local lp = mask and guarded(base, x, mask, lead) or expanded(base, "log_prob", base.kind.log_prob(base, x), lead)
  return sum_last(lp, self.independent_rank)
end

local function missing(d, what)
  local of_numbers = what == "cdf" or what == "icdf" or what == "log_cdf" or what == "log_survival"
  if of_numbers and d.independent_rank > 0 then
    refuse(d, "%s does not exist after independent", what)
  end
  refuse(d, "%s does not exist%s", what, what == "entropy" and " (entropy_monte_carlo estimates it)"
    or what == "sample" and " (what gives it is sample, rsample or icdf: pn.help \"pn.dist.custom\")" or "")
end

-- F(x) and its kin at x, `safe` in place of what it is not asked for.
local function at_point(d, what, f, x)
  if not f or #d.event_shape > 0 then
    missing(d, what)
  end
  x = point(d, what, x)
  return expanded(d, what, f(d, x), lead_of(d, what, x))
end

--- cdf(x): probability of values <= x.
function methods:cdf(x)
  return at_point(self, "cdf", self.kind.cdf, x)
end

--- log_cdf(x): its logarithm.
function methods:log_cdf(x)
  local kind = self.kind
  return at_point(self, "log_cdf", kind.log_cdf or kind.cdf and function(d, v) return kind.cdf(d, v):log() end, x)
end

--- log_survival(x): log of the probability of values > x.
function methods:log_survival(x)
  local kind = self.kind
  return at_point(self, "log_survival", kind.log_survival or kind.cdf and function(d, v)
    return (-kind.cdf(d, v)):log1p()
  end, x)
end

-- NaN of what is no probability.
local function quantile(d, p)
  local nan = core.full({}, 0 / 0, { dtype = d.dtype })
  local good = p:detach():ge(0):logical_and(p:detach():le(1))
  return core.where(good, d.kind.icdf(d, core.where(good, p, core.full({}, 0.5, { dtype = d.dtype }))), nan)
end

--- icdf(p): the quantile; NaN of what is no probability.
function methods:icdf(p)
  return at_point(self, "icdf", self.kind.icdf and quantile, p)
end

-- ---- values of the whole distribution ----

for _, what in ipairs { "mean", "variance", "mode" } do
  methods[what] = function(self)
    local base = plain(self)
    if not base.kind[what] then
      missing(self, what)
    end
    return expanded(base, what, base.kind[what](base), joined(base.batch_shape, base.event_shape))
  end
end

--- stddev(): the root of the variance, batch + event.
function methods:stddev()
  if not self.kind.variance then
    missing(self, "stddev")
  end
  return methods.variance(self):sqrt()
end

--- entropy(): in nats, batch.
function methods:entropy()
  local base = plain(self)
  if not base.kind.entropy then
    missing(self, "entropy")
  end
  return sum_last(expanded(base, "entropy", base.kind.entropy(base), base.batch_shape), self.independent_rank)
end

-- ---- draws ----

-- Sizes and a generator out of ({n, generator = g}), ({n}, g), (n, m, g).
local function draw_arguments(d, what, ...)
  local sizes, generator, n = {}, nil, select("#", ...)
  for k = 1, n do
    local v = select(k, ...)
    if type(v) == "userdata" and getmetatable(v) == "penumbra.generator" then
      generator = v
    elseif type(v) == "table" then
      for key in pairs(v) do
        if type(key) == "string" and key ~= "generator" then
          refuse(d, "%s: unknown option '%s'; known: generator", what, key)
        end
      end
      generator = v.generator or generator
      table.move(v, 1, #v, #sizes + 1, sizes)
    elseif v ~= nil then
      sizes[#sizes + 1] = v
    end
  end
  for _, size in ipairs(sizes) do
    if math.type(size) ~= "integer" then
      refuse(d, "%s: sizes must be whole numbers, got %s", what, tostring(size))
    elseif size < 0 then
      refuse(d, "%s: size must not be negative, got %d", what, size)
    end
  end
  return sizes, generator
end

local function by_inversion(d, shape, generator)
  return d.kind.icdf(d, core.rand(shape, { generator = generator, dtype = d.dtype }))
end

local function drawn(self, what, f, ...)
  local sizes, generator = draw_arguments(self, what, ...)
  local base = plain(self)
  local shape = joined(sizes, base.batch_shape, base.event_shape)
  return expanded(base, what, f(base, shape, generator), shape)
end

local function rsampler(kind)
  return kind.rsample or kind.icdf and kind.continuous and by_inversion
end

--- sample{n}, sample({n}, generator): draws, sample + batch + event; no gradient.
function methods:sample(...)
  local f = self.kind.sample or self.kind.rsample or self.kind.icdf and by_inversion
  if not f then
    missing(self, "sample")
  end
  local x = recording.off(drawn, self, "sample", f, ...)
  return x
end

--- rsample{n}: draws with a gradient to the parameters.
function methods:rsample(...)
  local f = rsampler(self.kind)
  if not f then
    refuse(self, "rsample does not exist: its draws have no derivative in the parameters")
  end
  return drawn(self, "rsample", f, ...)
end

--- rsample_log_prob{n}: the same and their log density.
function methods:rsample_log_prob(...)
  local x = methods.rsample(self, ...)
  return x, methods.log_prob(self, x)
end

--- plot([path [, options]]): draws density or mass, as that of the library's own.
function methods:plot(path, given)
  return own.picture(self, path, given) -- penumbra.distribution.density's
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end
core.public(methods)

own.joined, own.same, own.sum_last, own.expanded = joined, same, sum_last, expanded
own.draw_arguments = draw_arguments

--- is_taken(name): does every distribution have a field or method of that name?
function own.is_taken(name)
  return methods[name] ~= nil or rawget(object, name) ~= nil
end

return own
