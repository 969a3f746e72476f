--- Models as functions. A model is a Lua function of a recorder `m` and data; what it samples and observes by name
--- is its joint density.
---
---     local model = pn.model(function(m, x, y)
---       local w = m:sample("w", dist.normal(pn.zeros{3}, 1):independent(1))
---       m:plate("rows", x:size(1), {batch = 64}, function(i)
---         m:observe("y", dist.normal(x:take(1, i):matmul(w), 0.1), y:take(1, i))
---       end)
---     end)
---
---     m:sample(name, d)             a value of the latent variable `name`, whose law is d
---     m:sample(name, d, {enumerate = true})    all values of a discrete one along an axis of its own; they are summed
---     out m:sample(name, d, {constraint = "ordered_vector"})    d restricted to a set (up to its constant)
---     m:observe(name, d, value)     the value that was seen
---     m:flat(name [, set [, shape [, {low =, high =}]]])    a latent variable without a prior: uniform over the set
---     m:param(name, value [, {constraint = "positive"}])    a parameter to be trained; value: where it starts
---     m:deterministic(name, value)  a value to be kept beside the draws
---     m:factor(name, log_factor)    adds to the log density
---     m:plate(name, size, [{batch = B},] f)    size independent rows: f(i), i the rows' indices (0-based, int64)
---     m:scan(name, T, carry, f)     carry = f(carry, t) for t = 1 .. T; the last carry. Sites in it are "x[t]"
---     m:module(name, net)           the network, whose parameters are trained with the model's
---     m:network(name, net, prior)   the network with weights drawn from priors: a Bayesian network
---
--- Shapes are those of NumPyro: a value is batch + event, and plates are the last axes of the batch: the outermost is
--- axis -1, one within it -2, and so on. A distribution whose batch lacks the axis is repeated along it; one whose axis
--- has another size is an error. With {batch = B} a plate takes B rows without replacement, anew at each run, and
--- what is within counts size / B times.
---
--- A model has
---
---     model:trace(...)              runs it on data, latent variables drawn from their priors: pn.help "infer.trace"
---     model:condition{w = value}    the same model with the latent variable observed
---     model:intervene{w = value}    with the variable set, whatever its law (Pearl's do)
---     model:block{"w"}              without the site in the trace: it is drawn from its prior, unseen
---     model:replay(trace)           latent variables take their values from a trace or a table
---     model:log_density(values, ...)    log joint density of latent values and data, a tensor with a graph
---     model:parameters() :named_parameters() :state() :load_state(t)    of m:param and m:module
---
--- Sources: Bingham et al. 2019 (Pyro), Phan, Pradhan & Jankowiak 2019 (NumPyro).
local core = require "penumbra.core"
local dist = require "penumbra.dist"
local options = require "penumbra.options"
local enumeration = require "penumbra.infer.enumeration"
local parameters = require "penumbra.parameters"

local model = {}

-- ---- the recorder ----

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
  local site = { kind = kind, name = full, base = name, time = m.time, scale = m.scale, plates = m.plates,
    where = m.locate and core.script_line() or "", position = #m.order + 1 }
  return site
end

local function keep_site(m, site)
  m.sites[site.name] = site
  m.order[#m.order + 1] = site
end

-- The distribution with the axes of the plates around it.
local function within_plates(m, kind, name, d)
  local batch = d.batch_shape
  local depth, n = #m.plates, #batch
  local same, want = n >= depth, {}
  for k = 1, depth do
    local plate, size = m.plates[k], batch[n - k + 1] or 1
    if size ~= plate.rows and size ~= 1 then
      refuse(kind, "'%s' has batch shape %s, whose axis %d must have the %d rows of plate '%s', got %d%s", name,
        shape_text(batch), -k, plate.rows, plate.name, size,
        #d.event_shape == 0 and " (axes of one value are joined by :independent(1))" or "")
    end
    same = same and size == plate.rows
    want[depth - k + 1] = plate.rows
  end
  if m.strict and n > m.most + (m.enumerated or m.particles and 1 or 0) then
    refuse(kind, "'%s' has batch shape %s, more axes than there are plates: with particles or enumeration axes of "
      .. "one value must be joined by :independent(%d), or stand in a plate", name, shape_text(batch), n - m.most)
  end
  if same then
    return d
  end
  for k = n - depth, 1, -1 do
    table.insert(want, 1, batch[k])
  end
  return d:expand(want)
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

-- Of a table of values by site, that of this one; sites of a scan may be given together, time first.
local function given_value(values, site)
  local value = values[site.name]
  if value == nil and site.time and values[site.base] ~= nil then
    value = values[site.base]
    if not core.is_tensor(value) then
      value = core.tensor(value)
    end
    for _, t in ipairs(site.time) do
      value = value:select(1, t)
    end
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

local function check_observed(m, site, d, value)
  local n = #value:shape() - #d.event_shape
  if n < 0 then
    refuse("observe", "'%s' must have the %d event axes %s of its distribution, got shape %s", site.name,
      #d.event_shape, shape_text(d.event_shape), shape_text(value))
  end
  if not m.check or MOVED[d.support] or d.name == "masked" or d.support == "real" or d.support == "real_vector" then
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
  if type(value) == "number" or type(value) == "table" then
    value = core.tensor(value, { dtype = d.dtype })
  elseif value == nil then
    refuse("observe", "'%s' has no value: give one, or by condition; p:predict() and model:trace() draw it", site.name)
  elseif not core.is_tensor(value) then
    refuse("observe", "'%s' needs a value (a tensor, number or list), got %s", site.name, type(value))
  end
  check_observed(m, site, d, value)
  site.observed, site.dist, site.value = true, d, value
  site.log_prob = score(m, site, d, value)
  keep_site(m, site)
  return value
end

local sample_options = { enumerate = false, constraint = options.any(false) }
local NONE = { enumerate = false, constraint = false, batch = nil }

--- A value of the latent variable `name`, whose law is d. Options: enumerate (sum over all values of a discrete
--- variable), constraint (a set or a bijector onto one, to which d is restricted).
function recorder:sample(name, d, given)
  local site = add_site(self, "sample", name)
  check_distribution("sample", name, d)
  local o = given == nil and NONE or options.check("sample", given, sample_options)
  d = within_plates(self, "sample", name, d)
  local set = given_value(self.model.fixed, site)
  if set then
    site.kind, site.dist, site.value = "intervened", d, set
    keep_site(self, site)
    return set
  end
  local seen = given_value(self.model.data, site)
  if seen then
    return observed(self, site, d, seen)
  end
  if self.model.hidden[site.base] or self.model.hidden[site.name] then
    self.unseen = self.unseen or {}
    self.unseen[site.base], self.unseen[site.name] = true, true
    return d:sample()
  end
  site.constraint, site.enumerable = o.constraint, o.enumerate
  if o.enumerate and self.enumerate then
    site.dist = d
    site.value, site.axis = enumeration.values(self, site, d)
    site.enumerated = true
  else
    site.dist = d
    site.value = self.value_of(self, site)
    if not site.value then
      site.dist = with_particles(self, d)
      site.value = draw(self, site, site.dist)
    end
  end
  if site.score or not (self.unscored and self.unscored[name]) then
    site.log_prob = score(self, site, site.dist, site.value)
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
  local set = given_value(self.model.fixed, site)
  if set then
    site.kind, site.dist, site.value = "intervened", d, set
    keep_site(self, site)
    return set
  end
  value = given_value(self.model.data, site) or value
  if self.predict or self.prior and value == nil then
    site.dist, site.value, site.predicted = d, d:sample(), true
    keep_site(self, site)
    return site.value
  end
  local instead = given_value(self.model.data, site)
  return observed(self, site, d, instead == nil and value or instead)
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
  local fixed, seen = given_value(self.model.fixed, site), given_value(self.model.data, site)
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
  local o = options.check("param", given, param_options)
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

-- The law of a weight: prior is a standard deviation or a function of name and shape.
local function law_of(name, weight, prior)
  local shape = weight:shape()
  if type(prior) == "function" then
    local d = prior(name, shape)
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
--- around 0, or a function (parameter's name, shape) that gives a distribution; one of a single number is repeated.
--- Returns the network with these weights, to be called; net itself is not changed. Neal 1996.
function recorder:network(name, net, prior)
  full_name(self, "network", name)
  prior = prior == nil and 1 or prior
  if type(prior) ~= "function" and not (type(prior) == "number" and prior > 0) and not core.is_tensor(prior) then
    refuse("network", "'%s': prior must be a positive standard deviation or a function (name, shape), got %s", name,
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

local plate_options = { batch = options.optional "number" }

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

--- size independent rows, all at once: f(i) with their indices. With {batch = B} only B of them, at random, which
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
  local rows = not self.whole and o.batch or size
  if o.batch and (math.type(o.batch) ~= "integer" or o.batch < 1 or o.batch > size and not self.whole) then
    refuse("plate", "'%s': batch must be a whole number from 1 to its size %d, got %s", name, size, tostring(o.batch))
  end
  local before, scale = self.plates, self.scale
  local plate = { name = name, size = size, rows = rows, batch = o.batch or size }
  for k, outer in ipairs(before) do
    if outer.name == name then
      refuse("plate", "'%s' stands within itself (depth %d)", name, k)
    end
  end
  self.plates = table.move(before, 1, #before, 1, {})
  self.plates[#before + 1] = plate
  self.scale = scale * (size / rows)
  self.deepest = math.max(self.deepest, #before + 1)
  local known = self.plate_sizes[name]
  if known and known ~= size then
    refuse("plate", "'%s' has size %d here and %d elsewhere", name, size, known)
  end
  self.plate_sizes[name] = size
  local results = table.pack(f(indices_of(self, plate)))
  self.plates, self.scale = before, scale
  return table.unpack(results, 1, results.n)
end

--- Time with its state passed explicitly: carry = f(carry, t) for t = 1 .. steps; returns the last carry. A site "x"
--- within is recorded as "x[t]" for each t, and draws of it are given back together, time first.
function recorder:scan(name, steps, carry, f)
  full_name(self, "scan", name)
  if math.type(steps) ~= "integer" or steps < 0 then
    refuse("scan", "'%s' needs the number of steps, a whole number from 0 on, got %s", name, tostring(steps))
  elseif type(f) ~= "function" then
    refuse("scan", "'%s' needs a function (carry, t), got %s", name, type(f))
  end
  local step, time = self.step, self.time
  local function advance(state, t)
    self.step = ("%s[%d]"):format(step, t)
    self.time = table.move(time or {}, 1, time and #time or 0, 1, {})
    self.time[#self.time + 1] = t
    return f(state, t)
  end
  if self.scanner and not time then
    carry = self.scanner(self, steps, carry, advance)
  else
    for t = 1, steps do
      carry = advance(carry, t)
    end
  end
  self.step, self.time = step, time
  return carry
end

recorder.__index = core.namespace("m", recorder)

-- ---- traces ----

local trace = {}

local function reduced(m, site)
  local lp = site.log_prob
  local scale = site.scale
  if m.particles and lp:ndim() > m.most then
    local axes = {}
    for k = 2, lp:ndim() do
      axes[k - 1] = k
    end
    lp = #axes > 0 and lp:sum(axes) or lp
  elseif lp:ndim() > 0 then
    lp = lp:sum()
  end
  return scale ~= 1 and lp * scale or lp
end

--- The log density of all sites together: a 0-d tensor, or [S] with S particles. Enumerated variables are summed out.
function trace:log_density()
  if self.enumerated then
    return enumeration.log_density(self)
  end
  local total
  for _, site in ipairs(self.order) do
    if site.log_prob then
      local lp = reduced(self, site)
      total = total and total + lp or lp
    end
  end
  return total or core.tensor(0)
end

--- Table site -> value of the latent variables. Those of a scan also together, time first.
function trace:values()
  local values = {}
  for _, site in ipairs(self.order) do
    if (site.kind == "sample" or site.kind == "flat") and not site.observed then
      values[site.name] = site.value
    end
  end
  return values
end

trace.__index = core.namespace("a trace", trace)
trace.__tostring = function(self)
  local lines = {}
  for _, site in ipairs(self.order) do
    local what = site.observed and "observed" or site.kind
    local shape = core.is_tensor(site.value) and shape_text(site.value) or ""
    local law = site.dist and site.dist.name or site.set and tostring(site.set) or ""
    local plates = {}
    for k, plate in ipairs(site.plates) do
      plates[k] = plate.rows < plate.size and ("%s (%d of %d)"):format(plate.name, plate.rows, plate.size) or plate.name
    end
    lines[#lines + 1] = ("%-16s %-14s %-12s %-18s %s"):format(site.name, what, shape, law, table.concat(plates, ", "))
      :gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

-- ---- models ----

local methods = {}

local function no_value() end

-- What condition, intervene and block name must be there.
local function check_named(self, m)
  if not (next(self.data) or next(self.fixed) or next(self.hidden)) then
    return
  end
  local met, names = {}, {}
  for _, site in ipairs(m.order) do
    met[site.name], met[site.base] = true, true
    names[#names + 1] = site.name
  end
  for name in pairs(m.unseen or {}) do
    met[name] = true
  end
  table.sort(names)
  for where, list in pairs { condition = self.data, intervene = self.fixed, block = self.hidden } do
    for name in pairs(list) do
      if not met[name] then
        core.error(("%s: the model has no site '%s'%s"):format(where, name, options.suggestion(name, names)))
      end
    end
  end
end

--- Runs the function of a model. how.value(m, site): the value of a latent variable, or nil to draw it.
--- how.particles, how.most: S values of each at once, along an axis before the `most` plates. how.enumerate.
--- how.indices: rows of plates by name; how.whole: all rows of all plates. how.detached: draws are constants.
--- how.prior: what is observed without a value is drawn. how.unscored: set of names whose density nobody asks for.
--- how.check: mistakes that a run may be asked to find. how.scanner(m, steps, carry, advance): goes through the
--- outermost m:scan in place of its loop, by calls of advance(carry, t), and gives the last carry. Internal.
function model.run(self, args, how)
  how = how or {}
  -- absent fields are false: to look for one in the metatable takes longer
  local m = setmetatable({ model = self, sites = {}, order = {}, plates = {}, scale = 1, step = "", time = false,
    value_of = how.value or no_value, particles = how.particles or false, most = how.most or math.huge,
    strict = how.particles ~= nil or how.enumerate == true, enumerate = how.enumerate or false,
    predict = how.predict or false, prior = how.prior or false, whole = how.whole or false,
    detached = how.detached or false, enumerated = false, enumerates = false, axis_sizes = false, log_det = false,
    unseen = false, unscored = how.unscored or false, indices = how.indices or {}, plate_sizes = {}, deepest = 0,
    check = how.check or false, locate = how.locate or false, scanner = how.scanner or false }, recorder)
  local results = table.pack(self.body(m, table.unpack(args, 1, args.n or #args)))
  m.results = results
  if how.check then
    check_named(self, m)
  end
  return setmetatable(m, trace)
end

local function derived(self, changes)
  local copy = {}
  for key, value in pairs(self) do
    copy[key] = value
  end
  for key, value in pairs(changes) do
    copy[key] = value
  end
  return setmetatable(copy, getmetatable(self))
end

local function merged(where, old, new)
  if type(new) ~= "table" then
    core.error(("%s: needs a table site -> value, got %s"):format(where, type(new)))
  end
  local all = {}
  for name, value in pairs(old) do
    all[name] = value
  end
  for name, value in pairs(new) do
    if type(name) ~= "string" then
      core.error(("%s: sites are named by strings, got %s"):format(where, tostring(name)))
    end
    all[name] = value
  end
  return all
end

--- The model with latent variables observed: condition{w = pn.tensor{1, 2}}. Of observed ones: these values instead.
function methods:condition(values)
  return derived(self, { data = merged("condition", self.data, values) })
end

--- The model with variables set to values whatever their law; their density does not count (Pearl's do).
function methods:intervene(values)
  return derived(self, { fixed = merged("intervene", self.fixed, values) })
end

--- The model whose sites of these names, a list, are drawn from their priors and not seen by inference.
function methods:block(names)
  local hidden = {}
  if type(names) ~= "table" then
    core.error("block: needs a list of names, got " .. type(names))
  end
  for name in pairs(self.hidden) do
    hidden[name] = true
  end
  for _, name in ipairs(names) do
    hidden[name] = true
  end
  return derived(self, { hidden = hidden })
end

--- The model whose latent variables take their values from a trace or a table; they still count as latent.
function methods:replay(from)
  local values = getmetatable(from) == trace and from:values() or from
  if type(values) ~= "table" then
    core.error("replay: needs a trace or a table site -> value, got " .. type(from))
  end
  return derived(self, { replayed = merged("replay", self.replayed, values) })
end

-- value_of that looks into model.replayed first
local function replaying(self, value)
  if not next(self.replayed) then
    return value
  end
  return function(m, site)
    return given_value(self.replayed, site) or (value and value(m, site))
  end
end

--- Runs the model on data, latent variables drawn from their priors, and so is what is observed as nil. Returns the
--- trace: trace.sites[name] with value, log_prob, dist, observed; trace:values(); trace:log_density(); tostring(trace)
--- is a table of the sites.
function methods:trace(...)
  return model.run(self, table.pack(...), { value = replaying(self), check = true, locate = true, prior = true })
end

--- The log density of the model on data as a function of one vector of real numbers, as samplers see it. A C host finds
--- it in a global (pn_runtime_target). Has :evaluate(z), :log_density(z), :constrain(z), :unconstrain(values), :start()
--- and the field `size`. Data and parameters that the model finds outside are those of now.
function methods:target(...)
  return require "penumbra.infer.target".new(self, table.pack(...))
end

--- The log density of latent values (a table site -> value, all of them) and data: a 0-d tensor with a graph.
function methods:log_density(values, ...)
  if type(values) ~= "table" then
    core.error("log_density: needs a table site -> value, got " .. type(values))
  end
  local lacking -- the site without a value: a mistake of the caller, told at the caller's line
  local ok, t = pcall(model.run, self, table.pack(...), { check = not core.capture.going_on(), value = function(_, site)
    local value = given_value(values, site) or given_value(self.replayed, site)
    if not value then
      lacking = site.name
      error(lacking, 0)
    end
    return value
  end })
  if not ok and lacking then
    core.error(("log_density: no value is given for '%s', which the model samples"):format(lacking))
  elseif not ok then
    error(t, 0)
  end
  return t:log_density()
end

--- List of {name, parameter}: those of m:param (unconstrained) and of the networks of m:module, in the order in which
--- the model first met them. A model that was never run has none yet.
function methods:named_parameters()
  local list = {}
  for _, name in ipairs(self.store.names) do
    local entry = self.store.params[name]
    if entry then
      list[#list + 1] = { name, entry.weight }
    else
      for _, p in ipairs(self.store.modules[name]:named_parameters()) do
        list[#list + 1] = { name .. "." .. p[1], p[2] }
      end
    end
  end
  return list
end

--- List of the parameters; its field `names` serves the messages of optimisers.
function methods:parameters()
  local list, names = {}, {}
  for k, entry in ipairs(self:named_parameters()) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  return list
end

--- The value of a parameter of m:param, within its constraint.
function methods:param(name)
  local entry = self.store.params[name]
  if not entry then
    core.error(("param: the model has no parameter '%s' (or has not been run)"):format(tostring(name)))
  end
  return (entry.bijector and entry.bijector:forward(entry.weight) or entry.weight):detach()
end

--- Table name -> copy of the parameters' values (unconstrained), for pn.save.
function methods:state()
  local state = {}
  for _, entry in ipairs(self:named_parameters()) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

--- Sets the parameters from what state() gave. Names must agree; nothing changes if they do not.
function methods:load_state(state)
  if type(state) ~= "table" then
    core.error("load_state: needs a table of tensors, got " .. type(state))
  end
  local entries = self:named_parameters()
  for _, entry in ipairs(entries) do
    local t = state[entry[1]]
    if not core.is_tensor(t) or shape_text(t) ~= shape_text(entry[2]) then
      core.error(("load_state: '%s' must be a tensor of shape %s"):format(entry[1], shape_text(entry[2])))
    end
  end
  for _, entry in ipairs(entries) do
    entry[2]:set(state[entry[1]])
  end
  return self
end

local class = { __index = core.namespace("a model", methods), __name = "model",
  __tostring = function(self) return "model" .. (self.where ~= "" and " of " .. self.where or "") end }

--- model(f): the model whose joint density the function f(m, data...) describes.
---
---     model = pn.model(function(m, x, y)
---       local w = m:sample("w", pn.dist.normal(0, 1))
---       m:observe("y", pn.dist.normal(w * x, 0.5), y)
---     end)
---     p = pn.nuts(model, {data = {x, y}})
---
--- In it m:sample, m:observe, m:flat, m:param, m:deterministic, m:factor, m:plate, m:scan, m:module. It has
--- model:trace, condition, intervene, block, replay, log_density, parameters, state. All of it:
--- pn.help "penumbra.infer.model".
function model.model(f)
  if type(f) ~= "function" then
    core.error("model: needs a function (m, data...), got " .. type(f))
  end
  return setmetatable({ body = f, data = {}, fixed = {}, hidden = {}, replayed = {}, reparametrised = {},
    all_rows = {}, store = { params = {}, modules = {}, names = {} }, where = core.script_line() }, class)
end

--- Is x a model?
function model.is(x)
  return type(x) == "table" and getmetatable(x) == class
end

--- A list of arguments, nils among them, with its length as `n`. Internal.
function model.packed(data)
  local n = 0
  for k in pairs(data or {}) do
    n = math.type(k) == "integer" and math.max(n, k) or n
  end
  return table.pack(table.unpack(data or {}, 1, n))
end

model.recorder, model.methods, model.trace_methods = recorder, methods, trace
model.given_value = given_value
model.replaying = replaying
model.recorder = recorder
model.methods = methods

return model
