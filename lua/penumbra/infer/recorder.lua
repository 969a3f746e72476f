--- What a model's function gets as its first argument, m: sites, plates and loops over time are told to it, and it
--- keeps them in the order in which they came. See pn.help "penumbra.infer.model".
-- help: pn, methods m
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local enumeration = require "penumbra.infer.enumeration"
local options = require "penumbra.options"
local parameters = require "penumbra.nn.parameters"

local recorder = {}

local function refuse(kind, format, ...)
  core.error(("%s: " .. format):format(kind, ...))
end

local function shape_text(t)
  return "[" .. table.concat(core.is_tensor(t) and t:shape() or t, ", ") .. "]"
end

-- The name of a site within the loops of m:scan around it.
local function full_name(m, kind, name)
  if type(name) ~= "string" or name == "" then
    refuse(kind, "the first argument must be the site's name, a string, got %s", type(name))
  end
  return name .. m.step
end

local function add_site(m, kind, name)
  local full = full_name(m, kind, name)
  local old = m.sites[full]
  if old then
    refuse(kind, "there is a site '%s' already%s: each needs a name of its own (in a loop over time use m:scan)", full,
      old.where ~= "" and ", at " .. old.where or "")
  end
  local where = m.locate and core.script_line() or ""
  if kind == "sample" or kind == "observe" then -- (with room for what is said later)
    return { kind = kind, name = full, base = name, time = m.time, scale = m.scale, plates = m.plates, where = where,
      value = nil, dist = nil, log_prob = nil, observed = nil, score = nil }
  end
  return { kind = kind, name = full, base = name, time = m.time, scale = m.scale, plates = m.plates, where = where,
    value = nil }
end

local function keep_site(m, site)
  m.sites[site.name] = site
  m.order[#m.order + 1] = site
end

-- d repeated along the plates around it, some of which it lacks.
local function along_plates(m, d, batch)
  local depth, want = #m.plates, {}
  for k = 1, #batch - depth do
    want[k] = batch[k]
  end
  for k = depth, 1, -1 do
    want[#want + 1] = m.plates[k].rows
  end
  return d:expand(want)
end

-- The distribution with the axes of the plates around it.
local function within_plates(m, kind, name, d)
  local plates, strict = m.plates, m.strict
  local depth = #plates
  if depth == 0 and not strict then
    return d
  end
  local batch = d.batch_shape
  local n = #batch
  local same = n >= depth
  for k = 1, depth do
    local plate, size = plates[k], batch[n - k + 1] or 1
    if size ~= plate.rows and size ~= 1 then
      refuse(kind, "'%s' has batch shape %s, whose axis %d must have the %d rows of plate '%s', got %d%s", name,
        shape_text(batch), -k, plate.rows, plate.name, size,
        #d.event_shape == 0 and " (axes of one value are joined by :independent(1))" or "")
    end
    same = same and size == plate.rows
  end
  if strict and n > m.most + (m.enumerated or m.particles and 1 or 0) then
    refuse(kind, "'%s' has batch shape %s, more axes than there are plates: with particles or enumeration axes of "
      .. "one value must be joined by :independent(%d), or stand in a plate", name, shape_text(batch), n - m.most)
  end
  return same and d or along_plates(m, d, batch)
end

-- An axis left of all plates that is as long as one of them: a column [n, 1] has met the rows [n] of a plate.
local function check_beside_plates(m, kind, name, shape, what)
  for k = #m.plates + 1, #shape do
    for _, plate in ipairs(m.plates) do
      if shape[#shape - k + 1] == plate.rows and plate.rows > 1 then
        refuse(kind, "'%s' has %s %s, whose axis %d, left of all plates, has the %d rows of plate '%s', too: a column "
          .. "[%d, 1] becomes rows by squeeze(-1), axes of one value are joined by :independent(k), and another plate "
          .. "makes rows of both", name, what, shape_text(shape), -k, plate.rows, plate.name, plate.rows)
      end
    end
  end
end

-- Each number that was seen counts once: a law that has more axes, or longer ones, than the value would repeat it. In
-- plates their shapes agree exactly. (A number of Lua stands for any shape.)
local function check_counted_once(m, site, d, value)
  local batch, event = d.batch_shape, d.event_shape
  local want, have = table.move(event, 1, #event, #batch + 1, table.move(batch, 1, #batch, 1, {})), value:shape()
  local exact, repeated = #have == #want, 1
  for k = 1, #want do
    local size, own = want[#want - k + 1], have[#have - k + 1] or 1
    exact = exact and size == own
    repeated = size ~= own and own == 1 and repeated * size or repeated
  end
  if repeated > 1 or #m.plates > 0 and not exact then
    refuse(site.kind, "'%s' has values of shape %s and a distribution of batch shape %s and event shape %s, of which "
      .. "they must have %s: %s (a column [n, 1] becomes a vector by squeeze(-1); axes of one value are joined by "
      .. ":independent(k))", site.name, shape_text(have), shape_text(batch), shape_text(event), shape_text(want),
      repeated > 1 and ("each would count %d times"):format(repeated)
        or "the rows of plates are counted from the right")
  end
  check_beside_plates(m, site.kind, site.name, batch, "batch shape")
end

-- Repeats d along the axis of particles unless an earlier draw has brought it.
local function with_particles(m, d)
  local batch = d.batch_shape
  if not m.particles or #batch > m.most then
    return d
  end
  local sizes = { m.particles }
  for k = 1, m.most do
    sizes[k + 1] = batch[#batch - m.most + k] or 1
  end
  return d:expand(sizes)
end

-- Of values of a site at all steps of the scans around it, time first, those of this step; one number is for all steps.
local function at_step(where, site, value)
  value = core.is_tensor(value) and value or core.tensor(value)
  if value:ndim() == 0 then
    return value
  end
  local whole = value
  for k, t in ipairs(site.time) do
    if value:ndim() == 0 or value:size(1) < t then
      refuse(where, "'%s' stands in m:scan: its values must be a number for all steps, or have the steps along axis "
        .. "%d, got shape %s at step %d", site.base, k, shape_text(whole), t)
    end
    value = value:select(1, t)
  end
  return value
end

-- Of a table of values by site, that of this one; sites of a scan may be given together, time first.
local function given_value(where, values, site)
  local value = values[site.name]
  if value == nil and site.time and values[site.base] ~= nil then
    return at_step(where, site, values[site.base])
  end
  if type(value) == "table" then
    value = core.tensor(value)
  elseif type(value) == "number" then
    value = core.tensor(value)
  end
  return value
end

-- Draws are reparametrised where that is possible; what a first run found is remembered for those that are captured.
local function draw(m, site, d)
  if m.detached then
    site.score = true
    return d:sample()
  end
  local known = m.model.reparametrised
  if known[site.base] == nil and not core.capture.going_on() then
    local ok, value = pcall(d.rsample, d)
    known[site.base] = ok
    if ok then
      return value
    end
  end
  site.score = not known[site.base]
  return known[site.base] and d:rsample() or d:sample()
end

-- Supports that no parameter moves: a value outside is a mistake, not an improbable one.
local MOVED = { interval = true, half_line = true, trials = true, integer_interval = true, atom = true, point = true,
  extended_real = true }

-- A NaN among what was seen makes the density NaN wherever a sampler looks. (Elsewhere it may be looked at.)
local function check_finite(site, value)
  local nan = value:dtype():find "^float" and value:isnan()
  local count = nan and nan:to("int64"):sum():item() or 0
  if count == 0 then
    return
  end
  local which = "is NaN"
  if value:ndim() > 0 then
    local first = nan:nonzero()[1]:totable()
    for axis, place in ipairs(first) do
      first[axis] = ("%d"):format(place + 1)
    end
    which = ("has NaN, %d of %d values, the first at [%s]"):format(count, value:numel(), table.concat(first, ", "))
  end
  refuse("observe", "'%s' %s: the density is NaN everywhere. Leave out what is missing with dist.masked(d, "
    .. "y:isnan():logical_not()), or make it a latent variable, m:sample", site.name, which)
end

local function check_observed(site, d, value)
  if value:ndim() < #d.event_shape then
    refuse("observe", "'%s' must have the %d event axes %s of its distribution, got shape %s", site.name,
      #d.event_shape, shape_text(d.event_shape), shape_text(value))
  end
  if MOVED[d.support] or d.name == "masked" or d.support == "real" or d.support == "real_vector" then
    return
  end
  local ok, inside = pcall(dist.within, d.support, value)
  if ok and not inside:all():item() then
    refuse("observe", "'%s' has values outside of the support of %s, which is %s", site.name, d.name, d.support)
  end
end

local function check_distribution(kind, name, d)
  if not dist.is(d) then
    refuse(kind, "'%s' needs a distribution, got %s", tostring(name), type(d))
  end
end

-- With particles or enumeration an axis left of the plates is theirs, and nobody else's.
local function check_axes(m, site, lp)
  local n = lp:ndim()
  if n <= m.most then
    return
  end
  local most = m.most + (m.enumerated or m.particles and 1 or 0)
  local wrong = n > most or m.particles and lp:size(1) ~= m.particles and lp:size(1) ~= 1
  for axis = m.most + 1, n do
    local size = m.axis_sizes and m.axis_sizes[axis]
    wrong = wrong or size and lp:size(-axis) ~= 1 and lp:size(-axis) ~= size
    if wrong and size == 1 then
      refuse(site.kind, "'%s' depends on an enumerated variable of an earlier turn that the carry of m:scan did not "
        .. "hold: what later turns depend on goes through the carry", site.name)
    end
  end
  if wrong then
    refuse(site.kind, "'%s' has a log density of shape %s, more axes than there are plates: with particles or "
      .. "enumeration axes of one value must be joined by :independent(k), or stand in a plate", site.name,
      shape_text(lp))
  end
end

local function score(m, site, d, value)
  local ok, lp = pcall(d.log_prob, d, value)
  if not ok then
    local why = tostring(lp):gsub("^[^:]*:%d+: ", "")
    refuse(site.kind, "'%s': %s", site.name, why)
  end
  if m.strict then
    check_axes(m, site, lp)
  end
  return lp
end

local function observed(m, site, d, value)
  local given_as_number = type(value) == "number"
  if type(value) == "number" or type(value) == "table" then
    value = core.tensor(value, { dtype = d.dtype })
  elseif value == nil then
    refuse("observe", "'%s' has no value: give one, or by condition; p:predict() and model:trace() draw it", site.name)
  elseif not core.is_tensor(value) then
    refuse("observe", "'%s' needs a value (a tensor, number or list), got %s", site.name, type(value))
  end
  if m.check then
    check_observed(site, d, value)
    if m.finite and d.name ~= "masked" then
      check_finite(site, value)
    end
    if not m.strict and not given_as_number then
      check_counted_once(m, site, d, value)
    end
  end
  site.observed, site.dist, site.value = true, d, value
  site.log_prob = score(m, site, d, value)
  keep_site(m, site)
  return value
end

local sample_options = { enumerate = false, constraint = options.any(false) }
local NONE = { enumerate = false, constraint = false, batch_size = nil }

--- A value of the latent variable `name`, whose law is d. Options: enumerate (sum over all values of a discrete
--- variable), constraint (a set or a bijector onto one, to which d is restricted).
function recorder:sample(name, d, given)
  local site = add_site(self, "sample", name)
  check_distribution("sample", name, d)
  local o = given == nil and NONE or options.check("sample", given, sample_options)
  d = within_plates(self, "sample", name, d)
  local checked = self.check and not self.strict
  if checked then
    check_beside_plates(self, "sample", name, d.batch_shape, "batch shape")
  end
  local changed = self.changed
  local set = changed and given_value("intervene", self.model.fixed, site)
  if set then
    site.kind, site.dist, site.value = "intervened", d, set
    keep_site(self, site)
    return set
  end
  local seen = changed and given_value("condition", self.model.data, site)
  if seen then
    return observed(self, site, d, seen)
  end
  if changed and (self.model.hidden[site.base] or self.model.hidden[site.name]) then
    self.unseen = self.unseen or {}
    self.unseen[site.base], self.unseen[site.name] = true, true
    return d:sample()
  end
  if given ~= nil then
    site.constraint, site.enumerable = o.constraint, o.enumerate
  end
  if o.enumerate and self.enumerate and not (self.given and self.given[site.name]) then
    site.dist = d
    site.value, site.axis, site.scored = enumeration.values(self, site, d)
    site.enumerated = true
  else
    site.dist = d
    site.value = self.value_of(self, site)
    if not site.value then
      site.dist = with_particles(self, d)
      site.value = draw(self, site, site.dist)
    end
  end
  if checked and site.value:ndim() > #d.batch_shape + #d.event_shape then
    refuse("sample", "'%s' has a value of shape %s, more axes than its distribution of batch shape %s and event shape "
      .. "%s: each would count more than once", name, shape_text(site.value), shape_text(d.batch_shape),
      shape_text(d.event_shape))
  end
  if site.score or not (self.unscored and self.unscored[name]) then
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
  d = within_plates(self, "observe", name, d)
  local changed = self.changed
  local set = changed and given_value("intervene", self.model.fixed, site)
  if set then
    site.kind, site.dist, site.value = "intervened", d, set
    keep_site(self, site)
    return set
  end
  value = changed and given_value("condition", self.model.data, site) or value
  if self.predict or self.prior and value == nil then
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
  site.set, site.shape = set or "real", shape or {}
  site.low, site.high = o.low or nil, o.high or nil
  local fixed = given_value("intervene", self.model.fixed, site)
  local seen = given_value("condition", self.model.data, site)
  site.kind, site.observed = fixed and "intervened" or "flat", not fixed and seen ~= nil or nil
  site.value = fixed or seen or self.value_of(self, site)
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
  if self.check and not self.strict then
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
  site.kind = "param"
  site.value = entry.bijector and entry.bijector:forward(entry.weight) or entry.weight
  keep_site(self, site)
  return site.value
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
  full_name(self, "plate", name)
  local o = given == nil and NONE or options.check("plate", given, plate_options)
  if math.type(size) ~= "integer" or size < 1 then
    refuse("plate", "'%s' needs its size, a whole number from 1 on, got %s", name, tostring(size))
  elseif type(f) ~= "function" then
    refuse("plate", "'%s' needs a function of the rows' indices, got %s", name, type(f))
  end
  local rows = not self.whole and o.batch_size or size
  if o.batch_size and (math.type(o.batch_size) ~= "integer" or o.batch_size < 1 or o.batch_size > size
    and not self.whole) then
    refuse("plate", "'%s': batch_size must be a whole number from 1 to its size %d, got %s", name, size,
      tostring(o.batch_size))
  end
  local before, scale = self.plates, self.scale
  local plate = { name = name, size = size, rows = rows, batch = o.batch_size or size }
  for k, outer in ipairs(before) do
    if outer.name == name then
      refuse("plate", "'%s' stands within itself (depth %d)", name, k)
    end
  end
  local depth = #before + 1
  self.plates = depth == 1 and { plate } or table.move(before, 1, depth - 1, 1, { [depth] = plate })
  self.scale = scale * (size / rows)
  self.deepest = math.max(self.deepest, depth)
  local known = self.plate_sizes[name]
  if known and known ~= size then
    refuse("plate", "'%s' has size %d here and %d elsewhere", name, size, known)
  end
  self.plate_sizes[name] = size
  return leave_plate(self, before, scale, f(indices_of(self, plate)))
end

-- The body of a loop over time, called for any t: sites in it are "x[t]", within the loops around it.
local function turn_of(m, f)
  local step, time = m.step, m.time
  local before = m.enumerate and enumeration.begin_scan(m)
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
  if self.drive and not self.time then
    return self.drive(self, name, steps, carry, turn)
  end
  for t = 1, steps do
    carry = turn(carry, t)
  end
  self.turns = self.time and self.turns
  return carry
end

recorder.__index = core.namespace("m", recorder)

return { methods = recorder, given_value = given_value }
