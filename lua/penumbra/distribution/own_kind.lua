--- Kinds of distributions that a script makes: see pn.dist.custom.
-- help: pn.dist, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"

local own_kind = {}

local joined, new, sets = own.joined, own.new, core.set

local shape_text = options.shape_text

local parameter_options = { constraint = "real", event_ndim = options.optional "number", default = options.any(false) }

-- {name, constraint, event_ndim, default} for each parameter, in order where there is one.
local function parameters_of(where, given)
  local list, ordered = {}, #given > 0
  for key, p in pairs(given) do
    local name = key
    if ordered then
      if math.type(key) ~= "integer" then
        core.error(("%s: parameters must be a list or a table by name, got both"):format(where))
      end
      name = type(p) == "table" and p[1] or p
      p = type(p) == "table" and p or {}
    elseif type(p) == "string" then
      p = { constraint = p }
    end
    if type(name) ~= "string" or type(p) ~= "table" then
      core.error(("%s: parameters must be {name = {constraint = ...}} or a list of {name, constraint = ...}"):format(
        where))
    end
    local plain_options = {}
    for k, v in pairs(p) do
      plain_options[k] = k ~= 1 and v or nil
    end
    local o = options.check(("%s: parameter '%s'"):format(where, name), plain_options, parameter_options)
    if own.is_taken(name) then
      core.error(("%s: parameter '%s' has the name of a method"):format(where, name))
    end
    local set = sets.find(o.constraint, where)
    list[ordered and key or #list + 1] = { name = name, set = set, axes = o.event_ndim or set.rank,
      default = o.default or nil }
  end
  if not ordered then
    table.sort(list, function(a, b) return a.name < b.name end)
  end
  return list, ordered or #list == 1
end

local fields = {}
for name in ([[kind name support discrete dtype batch_shape event_shape own_batch_shape independent_rank parts checks
  plain]]):gmatch "%S+" do
  fields[name] = true
end

-- The parameters that a call gives, by name.
local function named(kind, first, ...)
  local n = select("#", ...)
  if n == 0 and type(first) == "table" and #first == 0 and not own.is(first) then
    return first
  elseif not kind.ordered and (n > 0 or first ~= nil) then
    core.error(("%s: parameters must be given by name (declare them in a list to have an order)"):format(kind.name))
  elseif n > 0 and n + 1 > #kind.parameters then
    core.error(("%s: number of positional parameters must be at most %d, got %d"):format(kind.name, #kind.parameters,
      n + 1))
  end
  local values = {}
  for k, p in ipairs(kind.parameters) do
    if k == 1 then
      values[p.name] = first
    else
      values[p.name] = (select(k - 1, ...))
    end
  end
  return values
end

-- One parameter as a tensor, checked.
local function accept(kind, p, value, dtype)
  if value == nil then
    value = p.default
  end
  if value == nil then
    core.error(("%s: %s is missing"):format(kind.name, p.name))
  end
  local t = options.numbers(kind.name, p.name, value)
  if type(t) == "number" or type(value) == "table" then
    t = core.tensor(value, { dtype = dtype })
  elseif not t:dtype():find "^float" then
    core.error(("%s: %s must be float64 or float32, got %s (convert with :to)"):format(kind.name, p.name, t:dtype()))
  elseif t:dtype() ~= dtype then
    core.error(("%s: parameters must have one dtype, got %s and %s for %s (convert with :to)"):format(kind.name, dtype,
      t:dtype(), p.name))
  end
  if t:ndim() < p.axes then
    core.error(("%s: %s must have at least %d %s, got shape %s"):format(kind.name, p.name, p.axes,
      p.axes == 1 and "axis" or "axes", shape_text(t:shape())))
  end
  sets.require(p.set.name, t, kind.name, p.name)
  return t
end

-- batch = broadcast(batch, the first axes of t).
local function widen(kind, p, t, batch)
  local shape = t:shape()
  local n = #shape - p.axes
  local out, most = {}, math.max(n, #batch)
  for k = 1, most do
    local a, b = batch[#batch - k + 1] or 1, k <= n and shape[n - k + 1] or 1
    if a ~= b and a ~= 1 and b ~= 1 then
      core.error(("%s: batch shapes of the parameters must broadcast, got %s for %s after %s"):format(kind.name,
        shape_text(table.move(shape, 1, n, 1, {})), p.name, shape_text(batch)))
    end
    out[most - k + 1] = a == 1 and b or a
  end
  return out
end

-- Sizes of an event: those given, or the last axes of the first parameter that has as many.
local function event_of(kind, values)
  local event = kind.event_shape
  if type(event) == "function" then
    event = event(values)
  elseif not event then
    for _, p in ipairs(kind.parameters) do
      local shape = values[p.name]:shape()
      event = event or p.axes == kind.event_ndim and table.move(shape, #shape - p.axes + 1, #shape, 1, {}) or nil
    end
  end
  event = event or {}
  if type(event) ~= "table" or #event ~= kind.event_ndim then
    core.error(("%s: event_shape must give %d sizes (or a parameter must have event_ndim = %d), got %s"):format(
      kind.name, kind.event_ndim, kind.event_ndim, type(event) == "table" and shape_text(event) or type(event)))
  end
  return event
end

-- Values of the parameters, checked; the shape of their batch; their dtype.
local function accepted(kind, given)
  local dtype
  for _, p in ipairs(kind.parameters) do
    local t = given[p.name]
    dtype = dtype or core.is_tensor(t) and t:dtype():find "^float" and t:dtype() or nil
  end
  dtype = dtype or core.default_dtype()
  local values, batch = {}, {}
  for _, p in ipairs(kind.parameters) do
    local t = accept(kind, p, given[p.name], dtype)
    values[p.name], batch = t, widen(kind, p, t, batch)
  end
  return values, batch, dtype
end

local function make(kind, given, validate)
  local values, batch, dtype = accepted(kind, given)
  return new(kind, values, {}, batch, event_of(kind, values), dtype, validate)
end

-- What a call gives as parameters by name; none is unknown.
local function read(kind, ...)
  local known, given = { validate = options.optional "boolean" }, {}
  for _, p in ipairs(kind.parameters) do
    known[p.name] = options.any(false)
  end
  for name, value in pairs(named(kind, ...)) do
    given[name] = value
  end
  options.check(kind.name, given, known)
  return given
end

local function construct(kind, ...)
  local given = read(kind, ...)
  return make(kind, given, given.validate)
end

local constructor = {
  own = true,
  __name = "constructor",
  __call = core.public(construct),
  __tostring = core.public(function(kind)
    return "distribution " .. kind.name
  end),
}

-- Parameters repeated to a larger batch.
local function expand(d, batch)
  local values = {}
  for _, p in ipairs(d.kind.parameters) do
    local shape = d[p.name]:shape()
    values[p.name] = d[p.name]:broadcast_to(joined(batch, table.move(shape, #shape - p.axes + 1, #shape, 1, {})))
  end
  return new(d.kind, values, {}, batch, d.event_shape, d.dtype, d.checks)
end

local function cast(d, dtype)
  local values = {}
  for _, p in ipairs(d.kind.parameters) do
    values[p.name] = d[p.name]:to(dtype)
  end
  return make(d.kind, values, d.checks)
end

-- Sets whose ends are parameters: within alone cannot tell.
local MOVED = { interval = true, half_line = true, trials = true, integer_interval = true, atom = true, point = true }

local functions = { "rsample", "sample", "mean", "variance", "mode", "entropy", "cdf", "icdf", "log_cdf",
  "log_survival", "in_support", "bijector" }

local custom_options = { name = "custom", parameters = {}, support = "real", event_ndim = options.optional "number",
  event_shape = options.any(false), log_prob = options.required "function" }
for _, name in ipairs(functions) do
  custom_options[name] = options.optional "function"
end

--- custom{name =, parameters =, support =, log_prob =, rsample =, ...}: a kind of distribution of one's own. Returns
--- its constructor, which is called as pn.dist.normal is; what it makes stands wherever a distribution stands.
---
---     local gumbel = pn.dist.custom {
---       name = "my_gumbel", support = "real",
---       parameters = { { "loc", default = 0 }, { "scale", constraint = "positive", default = 1 } },
---       log_prob = function(d, x) local z = (x - d.loc) / d.scale return -z - (-z):exp() - d.scale:log() end,
---       icdf = function(d, p) return d.loc - d.scale * (-p:log()):log() end,
---     }
---     gumbel(0, 2):log_prob(1)      gumbel{scale = pn.ones(3)}:rsample{10}
---
--- parameters   a list of {name, constraint = "real", default =, event_ndim =}, or the same by name (then a call
---              names them): constraint a set, event_ndim how many last axes are not of the batch (those of the set)
--- support      the set of the values: "real", "positive", "unit_interval", "simplex", "nonnegative_integer" ...
--- event_ndim   axes of one value (those of the set); event_shape: their sizes, a list or a function of the table of
---              parameters (the last axes of the first parameter with as many)
--- log_prob     of (d, x): the log density, sample + batch. x lies in the support: outside it is -inf without asking
--- rsample      of (d, shape, generator): draws of that shape, sample + batch + event, with a gradient to the
---              parameters; sample: the same where there is none. Absent: by icdf
--- mean, variance, mode, entropy    of d;   cdf, icdf, log_cdf, log_survival    of (d, x)
--- in_support   of (d, x): bool, for a support whose ends are parameters ("interval", "half_line", "trials" ...)
--- bijector     of d: the bijector onto the support, for pn.nuts and guides; absent: that of the set
---
--- d has its parameters by name, d.batch_shape, d.event_shape and d.dtype. A function that is absent is a named error.
--- Not there: closed forms of dist.kl and dist.renyi (kl_monte_carlo estimates), pn.save of such a distribution
--- (save d:arguments()).
function own_kind.custom(given)
  local o = options.check("custom", given, custom_options)
  local set = sets.find(o.support, o.name)
  if MOVED[o.support] and not o.in_support then
    core.error(("%s: support '%s' depends on parameters: give in_support = function(d, x)"):format(o.name, o.support))
  end
  for _, name in ipairs { "log_prob", table.unpack(functions) } do
    if o[name] and type(o[name]) ~= "function" then
      core.error(("%s: %s must be a function, got a callable %s"):format(o.name, name, type(o[name])))
    end
  end
  local event = o.event_shape or nil
  if event and type(event) ~= "table" and type(event) ~= "function" then
    core.error(("%s: event_shape must be a list of sizes or a function, got %s"):format(o.name, type(event)))
  end
  local list, ordered = parameters_of(o.name, o.parameters)
  for _, p in ipairs(list) do
    if fields[p.name] then
      core.error(("%s: parameter '%s' has the name of a field that every distribution has"):format(o.name, p.name))
    end
  end
  o.parameters, o.ordered, o.support, o.event_shape = list, ordered, set, event
  o.event_ndim = options.whole(o.name, "event_ndim", o.event_ndim or type(event) == "table" and #event or set.rank,
    set.rank)
  o.total = not o.in_support and (set.name == "real" or set.name == "real_vector" or set.name == "real_matrix")
  o.continuous = not set.discrete
  o.expand, o.cast = expand, cast
  return setmetatable(o, constructor)
end

own_kind.declared, own_kind.read, own_kind.accepted = parameters_of, read, accepted -- for bijectors

return own_kind
