--- What a model's function gets as its first argument, m: sites, plates and loops over time are told to it, and it
--- keeps them in the order in which they came. See pn.help "penumbra.infer.model".
-- help: pn, methods m
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local enumeration = require "penumbra.infer.enumeration"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local site_of = require "penumbra.infer.site"

local recorder = {}

local is_tensor, shape_text = core.is_tensor, options.shape_text
local refuse, full_name, add_site, keep_site, within_plates, check_beside_plates, with_particles, given_value, draw,
  check_distribution, check_axes, score, observed =
  site_of.refuse, site_of.full_name, site_of.add_site, site_of.keep_site, site_of.within_plates,
  site_of.check_beside_plates, site_of.with_particles, site_of.given_value, site_of.draw, site_of.check_distribution,
  site_of.check_axes, site_of.score, site_of.observed

local sample_options = { enumerate = false, constraint = options.any(false) }
local NONE = { enumerate = false, constraint = false, batch_size = nil }

-- The value that intervene gives: its density does not count.
local function set_value(m, site, d, value)
  site.kind, site.dist, site.value = "intervened", d, value
  keep_site(m, site)
  return value
end

--- A value of the latent variable `name`, whose law is d. Options: enumerate (sum over all values of a discrete
--- variable), constraint (a set or a bijector onto one, to which d is restricted).
function recorder:sample(name, d, given)
  local site = add_site(self, "sample", name)
  check_distribution("sample", name, d)
  local unscored = self.plain
  if unscored and given == nil and not site.enumerable then -- what follows, where nothing else is asked
    d = #self.plates > 0 and within_plates(self, "sample", name, d) or d
    site.dist = d
    local value = self.how.value and self.how.value(self, site) or draw(self, site, d)
    site.value = value
    if site.score or not unscored[name] then
      site.log_prob = score(self, site, site.dist, value)
    end
    return keep_site(self, site)
  end
  local o = given == nil and NONE or options.check("sample", given, sample_options)
  d = within_plates(self, "sample", name, d)
  local how = self.how
  local checked = how.check and not self.strict
  if checked then
    check_beside_plates(self, "sample", name, d.batch_shape, "batch shape")
  end
  if self.model.changed then
    local set = given_value("intervene", self.model.fixed, site)
    local seen = not set and given_value("condition", self.model.data, site)
    if set then
      return set_value(self, site, d, set)
    elseif seen then
      return observed(self, site, d, seen)
    elseif self.model.hidden[site.base] or self.model.hidden[site.name] then
      self.unseen = self.unseen or {}
      self.unseen[site.base], self.unseen[site.name] = true, true
      return d:sample()
    end
  end
  if given ~= nil or site.enumerable ~= nil then
    site.constraint, site.enumerable = o.constraint, o.enumerate
  end
  if o.enumerate and how.enumerate and not (how.given and how.given[site.name]) then
    site.dist = d
    site.value, site.axis, site.scored = enumeration.values(self, site, d)
    site.enumerated = true
  else
    site.dist = d
    site.value = how.value and how.value(self, site)
    if not site.value then
      d = self.particles and with_particles(self, d) or d
      site.dist, site.value = d, draw(self, site, d)
    end
  end
  if checked and site.value:ndim() > #d.batch_shape + #d.event_shape then
    refuse("sample", "'%s' has a value of shape %s, more axes than its distribution of batch shape %s and event shape "
      .. "%s: each would count more than once", name, shape_text(site.value), shape_text(d.batch_shape),
      shape_text(d.event_shape))
  end
  if site.score or not (how.unscored and how.unscored[name]) then
    site.log_prob = score(self, site, site.dist, site.scored or site.value)
  end
  keep_site(self, site)
  return site.value
end

--- The value (a tensor, number or list) that was seen of a variable whose law is d. Returns it as a tensor. Where a
--- posterior predicts and in model:trace the value may be nil: it is drawn. model:condition{name = value} gives one in
--- its stead.
function recorder:observe(name, d, value)
  local site = add_site(self, "observe", name)
  check_distribution("observe", name, d)
  if self.plain and is_tensor(value) then -- what follows, where nothing else is asked
    d = #self.plates > 0 and within_plates(self, "observe", name, d) or d
    site.observed, site.dist, site.value, site.log_prob = true, d, value, score(self, site, d, value)
    return keep_site(self, site)
  end
  d = within_plates(self, "observe", name, d)
  if self.model.changed then
    local set = given_value("intervene", self.model.fixed, site)
    if set then
      return set_value(self, site, d, set)
    end
    value = given_value("condition", self.model.data, site) or value
  end
  if self.how.predict or value == nil and self.how.prior then
    site.dist, site.value, site.predicted = d, d:sample(), true
    keep_site(self, site)
    return site.value
  end
  return observed(self, site, d, value)
end

local flat_options = { low = options.any(false), high = options.any(false) }

--- A latent variable without a prior: density 1 over the set ("real" unless given; "positive", "simplex",
--- "ordered_vector"...; "interval" with low, high; "half_line" with low; or a bijector from all numbers onto one).
--- shape: of the whole value ({}: a number). It has no prior to draw from.
function recorder:flat(name, set, shape, given)
  local site = add_site(self, "flat", name)
  local o = options.check("flat", given, flat_options)
  if set ~= nil and type(set) ~= "string" and not dist.bijector.is(set) then
    refuse("flat", "'%s' needs the name of a set or a bijector in second place, got %s (the shape comes third: "
      .. "m:flat('%s', 'real', {3}))", name, type(set), name)
  elseif shape ~= nil and type(shape) ~= "table" then
    refuse("flat", "'%s' needs a shape, a list of sizes, in third place, got %s", name, tostring(shape))
  end
  site.set, site.shape = set or "real", shape or {}
  site.low, site.high = o.low or nil, o.high or nil
  local fixed = given_value("intervene", self.model.fixed, site)
  local seen = given_value("condition", self.model.data, site)
  site.kind, site.observed = fixed and "intervened" or "flat", not fixed and seen ~= nil or nil
  site.value = fixed or seen or self.how.value and self.how.value(self, site)
  if not site.value then
    refuse("flat", "'%s' has no prior from which it could be drawn: give its value by condition, intervene or replay",
      name)
  end
  keep_site(self, site)
  return site.value
end

--- Keeps a value (a tensor or number) beside the draws, under its name. Returns it.
function recorder:deterministic(name, value)
  local site = add_site(self, "deterministic", name)
  site.value = type(value) == "number" and core.tensor(value) or value
  if not core.is_tensor(site.value) then
    refuse("deterministic", "'%s' needs a tensor or a number, got %s", name, type(value))
  end
  keep_site(self, site)
  return value
end

-- A factor with the axes of the plates around it: what lacks one counts once for each of its rows.
local function over_rows(m, site, lp)
  local depth, shape = #m.plates, lp:shape()
  local want, n = {}, #lp:shape()
  for k = 1, math.max(depth, n) do
    local plate, size = m.plates[k], shape[n - k + 1] or 1
    if plate and size ~= plate.rows and size ~= 1 then
      refuse("factor", "'%s' has shape %s, whose axis %d must have the %d rows of plate '%s', got %d", site.name,
        shape_text(shape), -k, plate.rows, plate.name, size)
    end
    want[math.max(depth, n) - k + 1] = plate and plate.rows or size
  end
  return depth > 0 and lp:broadcast_to(want) or lp
end

--- Adds a tensor (its sum) or a number to the log density. Within a plate it is a term of each row: its last axis is
--- that of the rows, or it counts for each of them alike.
function recorder:factor(name, log_factor)
  local site = add_site(self, "factor", name)
  site.log_prob = type(log_factor) == "number" and core.tensor(log_factor) or log_factor
  if not core.is_tensor(site.log_prob) then
    refuse("factor", "'%s' needs a tensor or a number, got %s", name, type(log_factor))
  end
  if self.how.check and not self.strict then
    check_beside_plates(self, "factor", name, site.log_prob:shape(), "shape")
  end
  site.log_prob = over_rows(self, site, site.log_prob)
  if self.strict then
    check_axes(self, site, site.log_prob)
  end
  keep_site(self, site)
end

local param_options = { constraint = options.any(false) }

--- A parameter that is trained with the model: starts at `value` (a tensor, number, list, or a function that gives
--- one), lies in the set `constraint`. Within a plate it has its full size: take the rows of i.
function recorder:param(name, value, given)
  local site = add_site(self, "param", name)
  local o = given == nil and NONE or options.check("param", given, param_options)
  local store = self.model.store
  local entry = store.params[name]
  if not entry then
    if core.capture.going_on() then
      refuse("param", "'%s' is new: run the model once before it is compiled", name)
    end
    local start = type(value) == "function" and value() or value
    if not core.is_tensor(start) then
      start = core.tensor(start)
    end
    local b = o.constraint and (dist.bijector.is(o.constraint) and o.constraint or dist.biject_to(o.constraint))
    entry = { weight = core.param(b and b:inverse(start):detach() or start:detach()), bijector = b }
    store.params[name] = entry
    store.names[#store.names + 1] = name
  end
  site.value = entry.bijector and entry.bijector:forward(entry.weight) or entry.weight
  return keep_site(self, site)
end

--- Registers a network (pn.nn) under a name: its parameters are trained, saved and counted with the model's. Where it
--- has a posterior of its own (Bayesian layers), its divergence is taken from the log density, once. Returns the
--- network.
function recorder:module(name, net)
  local site = add_site(self, "module", name)
  local store = self.model.store
  if store.modules[name] == nil then
    if type(net) ~= "table" and type(net) ~= "userdata" then
      refuse("module", "'%s' needs a network, got %s", name, type(net))
    end
    store.modules[name] = net
    store.names[#store.names + 1] = name
  elseif store.modules[name] ~= net then
    refuse("module", "'%s' is another network than in the first run", name)
  end
  local kl = net:kl()
  if kl and core.is_tensor(kl) then
    site.log_prob, site.divergence, site.scale = -kl, true, 1
  end
  keep_site(self, site)
  return net
end

-- The law of a weight: prior is a standard deviation, a distribution, or a function of name and shape.
local function law_of(name, weight, prior)
  local shape = weight:shape()
  if type(prior) == "function" or dist.is(prior) then
    local d = dist.is(prior) and prior or prior(name, shape)
    check_distribution("network", name, d)
    local event = d.event_shape
    if #event < #shape then
      d = (#d.batch_shape + #event == #shape and d or d:expand(shape)):independent(#shape - #event)
    end
    return d
  end
  local zero = core.zeros(shape, { dtype = weight:dtype() })
  local d = dist.normal(zero, prior)
  return #shape > 0 and d:independent(#shape) or d
end

--- A network (pn.nn) of layers without posteriors of their own, whose weights are latent variables: sites
--- "name.1.weight", as net:named_parameters() names them. prior: the standard deviation (1) of independent normals
--- around 0, a distribution of a number, or a function (parameter's name, shape) that gives a distribution; one of a
--- single number is repeated.
--- Returns the network with these weights, to be called; net itself is not changed. Neal 1996.
function recorder:network(name, net, prior)
  full_name(self, "network", name)
  prior = prior == nil and 1 or prior
  if type(prior) ~= "function" and not (type(prior) == "number" and prior > 0) and not core.is_tensor(prior)
    and not dist.is(prior) then
    refuse("network", "'%s': prior must be a positive standard deviation, a distribution or a function (name, shape), "
      .. "got %s", name,
      type(prior) == "number" and tostring(prior) or type(prior))
  elseif type(net) ~= "table" and type(net) ~= "userdata" or core.is_tensor(net) then
    refuse("network", "'%s' needs a network, got %s", name, core.is_tensor(net) and "a tensor" or type(net))
  elseif #self.plates > 0 then
    refuse("network", "'%s' stands in plate '%s': weights are shared by its rows and are drawn outside of it", name,
      self.plates[#self.plates].name)
  end
  local values = {}
  for _, entry in ipairs(parameters.named(net)) do
    values[entry[1]] = self:sample(name .. "." .. entry[1], law_of(entry[1], entry[2], prior))
  end
  if next(values) == nil then
    refuse("network", "'%s' has no weights", name)
  end
  return parameters.with(net, values)
end

local plate_options = { batch_size = options.optional "number" }

local function indices_of(m, plate)
  local known = m.indices[plate.name]
  if known then
    if known:size(1) ~= plate.rows then
      refuse("plate", "'%s' has %d rows here and %d elsewhere", plate.name, plate.rows, known:size(1))
    end
    return known
  end
  local i
  if plate.rows < plate.size then
    i = core.randperm(plate.size):slice(1, 1, plate.rows)
  else
    i = m.model.all_rows[plate.size] or core.arange(plate.size, { dtype = "int64" })
    m.model.all_rows[plate.size] = i
  end
  m.indices[plate.name] = i
  return i
end

-- The plates around what stands in this one: a list, with what they count for. A later run of the same takes it again.
local function plates_within(m, name, plate)
  full_name(m, "plate", name)
  local size, batch, before, old = plate.size, plate.batch, m.plates, m.plate_lists[name]
  if math.type(size) ~= "integer" or size < 1 then
    refuse("plate", "'%s' needs its size, a whole number from 1 on, got %s", name, tostring(size))
  elseif batch > size and not m.how.whole then
    refuse("plate", "'%s': batch_size must be a whole number from 1 to its size %d, got %s", name, size,
      tostring(batch))
  elseif old and old.indices == m.indices and old.plate.size ~= size then
    refuse("plate", "'%s' has size %d here and %d elsewhere", name, size, old.plate.size)
  end
  for k = 1, #before do
    if before[k].name == name then
      refuse("plate", "'%s' stands within itself (depth %d)", name, k)
    end
  end
  local depth = #before + 1
  local list = table.move(before, 1, depth - 1, 1, { [depth] = plate })
  list.plate, list.before, list.scale = plate, before, m.scale * (size / plate.rows)
  m.deepest, m.plate_lists[name] = math.max(m.deepest, depth), list
  return list
end

local function leave_plate(m, plates, scale, ...)
  m.plates, m.scale = plates, scale
  return ...
end

--- size independent rows, all at once: f(i) with their indices. With {batch_size = B} only B of them, at random, which
--- count size / B times. Returns what f returns.
function recorder:plate(name, size, given, f)
  if f == nil then
    given, f = nil, given
  end
  local o = given == nil and NONE or options.check("plate", given, plate_options)
  if type(f) ~= "function" then
    refuse("plate", "'%s' needs a function of the rows' indices, got %s", tostring(name), type(f))
  end
  local rows = not self.how.whole and o.batch_size or size
  local before, scale, list = self.plates, self.scale, self.plate_lists[name]
  local plate = list and list.plate
  if not plate or list.before ~= before or plate.size ~= size or plate.rows ~= rows
    or plate.batch ~= (o.batch_size or size) then
    list = plates_within(self, name, { name = name, size = size, rows = rows, batch = o.batch_size or size })
  end
  list.indices, self.plates, self.scale = self.indices, list, list.scale
  return leave_plate(self, before, scale, f(indices_of(self, list.plate)))
end

-- The body of a loop over time, called for any t: sites in it are "x[t]", within the loops around it.
local function turn_of(m, f)
  local step, time = m.step, m.time
  local before = m.how.enumerate and enumeration.begin_scan(m)
  return function(carry, t)
    m.step = ("%s[%d]"):format(step, t)
    m.time = table.move(time or {}, 1, time and #time or 0, 1, {})
    m.time[#m.time + 1] = t
    carry = f(carry, t)
    if before then
      enumeration.end_turn(m, before, carry)
    end
    m.step, m.time = step, time
    return carry
  end
end

--- Time with its state passed explicitly: carry = f(carry, t) for t = 1 .. steps; returns the last carry. A site "x"
--- within is recorded as "x[t]" for each t, and draws of it are given back together, time first.
---
---     m:scan("t", y:size(1), mu, function(h, t)
---       h = m:sample("h", dist.normal(mu + phi * (h - mu), sigma))
---       m:observe("y", dist.normal(0, (h / 2):exp()), y[t])
---       return h
---     end)
---
--- Enumerated variables of a turn are summed out as soon as the carry does not hold them: what later turns depend on
--- must go through the carry, in tensors and tables. A hidden Markov model, of any number of steps:
---
---     m:scan("t", y:size(1), false, function(z, t)
---       z = m:sample("z", dist.categorical(z and moves:take(1, z) or first), {enumerate = true})
---       m:observe("y", dist.normal(means:take(1, z), 1), y[t])
---       return z
---     end)
---
--- In a log density that is compiled (pn.nuts, pn.svi, model:target) 32 turns or more that do the same are one loop:
--- the plan is as small for 10,000 turns as for 50. A turn that does something else (if t == 1, if t == steps) stands
--- beside it; turns that differ without order stay one by one. See pn.help "compile".
function recorder:scan(name, steps, carry, f)
  full_name(self, "scan", name)
  if math.type(steps) ~= "integer" or steps < 0 then
    refuse("scan", "'%s' needs the number of steps, a whole number from 0 on, got %s", name, tostring(steps))
  elseif type(f) ~= "function" then
    refuse("scan", "'%s' needs a function (carry, t), got %s", name, type(f))
  end
  local turn = turn_of(self, f)
  if self.how.drive and not self.time then
    return self.how.drive(self, name, steps, carry, turn)
  end
  for t = 1, steps do
    carry = turn(carry, t)
  end
  self.turns = self.time and self.turns
  return carry
end

-- What a run has where nothing else is said of it. It stands beside the methods and not in each run, of which there is
-- one for guide and model at every step of pn.svi: a table of few fields is made in less time.
local DEFAULTS = { particles = false, most = math.huge, sums = false, turns = false, log_det = false,
  enumerated = false, enumerates = false, axis_sizes = false, unseen = false }

-- The methods and the defaults, for the __index of what has both.
local function with_defaults(methods)
  local index = {}
  for _, list in ipairs { DEFAULTS, methods } do
    for key, value in pairs(list) do
      index[key] = value
    end
  end
  return setmetatable(index, getmetatable(methods)) -- (what is in neither is told as of the methods)
end

recorder.__index = with_defaults(core.namespace("m", recorder))

return { methods = recorder, given_value = given_value, with_defaults = with_defaults }
