--- State-space models with parameters, as particle filters see them: written as a pn.model with one m:scan, or as
--- functions. Many values of the parameters are filtered side by side, along the axis B behind that of the particles.
---
---     local model = pn.model(function(m, y)
---       local rho = m:sample("rho", dist.beta(9, 1))                      -- parameters
---       local x = m:sample("x0", dist.normal(0, 1))                       -- goes into the carry: part of the state
---       m:scan("x", y:size(1), x, function(x, t)
---         x = m:sample("x", dist.normal(x * rho, 1))                      -- drawn for all particles
---         m:observe("y", dist.normal(x, 0.5), y[t])                       -- weighs them
---         return x                                                        -- is resampled
---       end)
---     end)
---     local r = pn.smc.filter(model, {data = {y}, values = {rho = 0.9}, num_particles = 1000})
---     local p = pn.smc.pmmh(model, {data = {y}})     local p = pn.nuts(model, {data = {y}})     -- the same function
---
--- Latent sites outside of m:scan are parameters, but those whose value starts the carry and reaches nothing else (x0
--- above: it belongs to the state; x0 + 0 as carry makes it a parameter). A parameter of shape S
--- comes as [B, S...], what is drawn within m:scan as [N, B, ...] (N particles): scalars broadcast by themselves. What
--- the body needs from one step to the next must be in the carry, a tensor or a (nested) table of tensors.
---
--- As functions: a function (theta, data...) that gives init, step and log_weight, or prior, transition and
--- observation, as pn.smc.filter{...} has them; data[1] is the series [T, ...], and parameters = {name = distribution}
--- the priors, or a pn.model of the parameters. theta[name] is [B, ...].
-- help: pn.smc
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local filter_model = require "penumbra.smc.filter_model"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local target = require "penumbra.infer.target"

local space = {}

-- ---- states ----

local function starts_with(t, lead)
  if t:ndim() < #lead then
    return false
  end
  for k, size in ipairs(lead) do
    if t:size(k) ~= size then
      return false
    end
  end
  return true
end

--- f(part) of each tensor in a state that has the axes `lead`; whatever else it holds stays as it is.
function space.each(state, lead, f)
  if core.is_tensor(state) then
    return starts_with(state, lead) and f(state) or state
  elseif type(state) ~= "table" or getmetatable(state) then
    return state
  end
  local out = {}
  for key, part in pairs(state) do
    out[key] = space.each(part, lead, f)
  end
  return out
end

--- f(a, b) of the tensors that stand in the same places of two states.
function space.pair(a, b, lead, f)
  if core.is_tensor(a) then
    return starts_with(a, lead) and f(a, b) or a
  elseif type(a) ~= "table" or getmetatable(a) then
    return a
  end
  local out = {}
  for key, part in pairs(a) do
    out[key] = space.pair(part, b[key], lead, f)
  end
  return out
end

local function holds(state, value)
  if rawequal(state, value) then
    return true
  elseif type(state) == "table" and not getmetatable(state) then
    for _, part in pairs(state) do
      if holds(part, value) then
        return true
      end
    end
  end
  return false
end

-- ---- models with m:scan ----

local EVERY = setmetatable({}, { __index = function() return true end })

local shape_text = options.shape_text

-- The distribution of a site with an axis for particles, and those for parameters.
local function over_particles(site, d, lead)
  local batch, plates = d.batch_shape, #site.plates
  local want, n = table.move(lead, 1, #lead, 1, {}), #d.batch_shape
  for k = n - plates + 1, n do
    want[#want + 1] = batch[k]
  end
  local fits = n <= #want
  for k = 0, n - plates - 1 do
    local size, wanted = batch[n - plates - k], lead[#lead - k]
    fits = fits and (size == 1 or size == wanted)
  end
  if not fits then
    core.error(("sample: '%s' has batch shape %s, which does not broadcast to %s, particles and sets of parameters: "
      .. "axes of one value must be joined by :independent(k)"):format(site.name, shape_text(batch), shape_text(want)))
  end
  return d:expand(want)
end

-- Sum of a log density over all axes behind `lead`. (Plates are whole here, so that no site counts for others.)
local function summed(site, lead)
  local lp = site.log_prob
  while lp:ndim() > #lead do
    lp = lp:sum(lp:ndim())
  end
  return lp
end

local function full(total, lead)
  total = total or core.zeros(lead)
  return starts_with(total, lead) and total or total:broadcast_to(lead)
end

-- Log weight of what was observed since place `mark` of the recorder's list, which is cut off there, and the log
-- density of what was drawn, where that is known.
local function collect(m, mark, lead, kept)
  local weight, drawn
  for k = mark + 1, #m.order do
    local site = m.order[k]
    local latent = site.kind == "sample" and not site.observed
    if latent and site.log_prob then
      drawn = drawn and drawn + summed(site, lead) or summed(site, lead)
    elseif (site.observed or site.kind == "factor") and site.log_prob then
      weight = weight and weight + summed(site, lead) or summed(site, lead)
    end
    if kept and core.is_tensor(site.value) and (latent or site.kind == "deterministic") then
      kept[site.base] = site.value
    end
    m.sites[site.name], m.order[k] = nil, nil
  end
  m.count = mark
  return full(weight, lead), drawn and full(drawn, lead)
end

-- f(process) within a run of the model in which its m:scan is process.advance.
local function open_model(self, values, lead, f, how)
  local met = false
  local function value(_, site)
    if not site.time and values[site.name] ~= nil then
      return values[site.name]
    end
    site.dist = over_particles(site, site.dist, lead)
    return how.drawn and how.drawn(site) or site.dist:sample({}, { generator = self.generator })
  end
  local function drive(m, _, steps, carry, advance)
    if met then
      core.error "scan: a particle filter goes through one m:scan, and the model has two"
    end
    met = true
    local process = { steps = steps, explain = function() self:explain() end }
    for _, site in ipairs(m.order) do
      if site.log_prob and self.of_state[site.name] then
        process.first = process.first and process.first + summed(site, lead) or summed(site, lead)
      end
    end
    function process.advance(state, t, kept)
      local mark = #m.order
      if t == 1 then
        state = carry
      end
      state = advance(state, t)
      return state, collect(m, mark, lead, kept)
    end
    return f(process)
  end
  model.run(self.model, self.args, { whole = true, unscored = not how.scored and EVERY or nil,
    value = model.replaying(self.model, value), drive = drive })
end

-- The log densities of a model's sites, a list in their order, at these values of the sites outside of m:scan, whose
-- first two turns start from `carry` whatever these say; what the turns draw is drawn alike in all calls. nil where the
-- model has no density there.
local function densities(self, values, carry)
  local generator = core.generator(1)
  local ok, t = pcall(model.run, self.model, self.args, { whole = true,
    value = model.replaying(self.model, function(_, site)
      return values[site.name] or site.dist:sample({}, { generator = generator })
    end),
    drive = function(_, _, steps, _, advance)
      local state = carry
      for k = 1, math.min(2, steps) do
        state = advance(state, k)
      end
      return state
    end })
  local list = {}
  for k, site in ipairs(ok and t.order or {}) do
    list[k] = { name = site.name, value = site.log_prob and site.log_prob:sum():item() }
  end
  return ok and list or nil
end

local function same(a, b)
  return a == b or a ~= a and b ~= b
end

-- Does a value that starts the carry reach anything but by the carry? Then another value of it, the carry as it was,
-- changes the density of another site: it is a parameter, in which the first state lies.
local function reaches_beside_carry(self, name, t, values, carry)
  local before, generator = densities(self, values, carry), core.generator(2)
  for _ = 1, 5 do
    local others = setmetatable({ [name] = t.sites[name].dist:sample({}, { generator = generator }) },
      { __index = values })
    local after = densities(self, others, carry)
    if not before or not after or #after ~= #before then
      return true
    end
    for k, site in ipairs(after) do
      if site.name ~= name and not same(site.value, before[k].value) then
        return true
      end
    end
  end
  return false
end

-- The body of a model that draws numbers of its own gives another density at the same values.
local function check_own_draws(self, values, carry)
  local before, after = densities(self, values, carry), densities(self, values, carry)
  for k, site in ipairs(before and after or {}) do
    if not before[k] or not same(site.value, before[k].value) then
      target.refuse_own_draws(site.name)
    end
  end
end

-- Parameters and state of a model.
local function explore(self, named)
  local first = {}
  local t = model.run(self.model, self.args, { whole = true, check = true, finite = true, locate = true,
    value = model.replaying(self.model, function(_, site)
      if site.kind == "flat" then
        core.error(("'%s' is flat and has no prior, which a particle filter's parameter needs"):format(site.name))
      end
      return site.dist:sample()
    end),
    drive = function(_, _, steps, carry)
      first.steps, first.carry = steps, carry
      return carry
    end })
  if not first.steps then
    core.error(("%s: the model has no m:scan, which a particle filter would go through"):format(self.where))
  end
  self.steps, self.of_state, self.parameters = first.steps, {}, {} -- of_state: with some value each
  local values = {}
  for _, site in ipairs(t.order) do
    values[site.name] = site.kind == "sample" and site.value or nil
  end
  if self.steps > 0 then
    check_own_draws(self, values, first.carry)
  end
  for _, site in ipairs(t.order) do
    if site.kind == "sample" and not site.observed then
      if named[site.name] or holds(first.carry, site.value)
        and not reaches_beside_carry(self, site.name, t, values, first.carry) then
        self.of_state[site.name] = site.value:detach()
      else
        self.parameters[#self.parameters + 1] = site.name
      end
    end
  end
end

-- The model of the parameters alone: what stands outside of m:scan, without the state's first values.
local function parameters_of(self)
  local body, alone = self.model.body, self.model:intervene(self.of_state)
  alone.body = function(m, ...)
    m.how.drive = function(_, _, _, carry) return carry end
    return body(m, ...)
  end
  return alone
end

-- ---- models as functions ----

local function open_functions(self, values, lead, f)
  local form = self.model(values, table.unpack(self.args, 1, self.args.n))
  local known = filter_model.read(options.argument(self.where, "what the model gives", form,
    "table"))
  local fields = { machine = { num_particles = lead[1] }, shape = lead, generator = self.generator }
  local ys = self.args[1]
  f { steps = self.steps, advance = function(previous, t)
    local y = ys[t] or nil
    local state, extra
    if t == 1 then
      previous = nil
      state, extra = known.start(fields, t, nil, y)
    else
      state, extra = known.move(fields, previous, t, nil, y)
    end
    local log_w = y == nil and core.zeros(lead) or known.weigh(fields, state, y, t, previous, extra)
    return state, starts_with(log_w, lead) and log_w or log_w:broadcast_to(lead)
  end }
end

local function prior_of(self, given)
  if model.is(given) then
    return given
  elseif type(given) ~= "table" or next(given) == nil then
    core.error(("%s: parameters must be a table name -> distribution, or a pn.model of them, got %s"):format(self.where,
      type(given)))
  end
  local names = {}
  for name, d in pairs(given) do
    if type(name) ~= "string" or not dist.is(d) then
      core.error(("%s: parameters must be a table name -> distribution, got %s -> %s"):format(self.where,
        tostring(name), type(d)))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return model.model(function(m)
    for _, name in ipairs(names) do
      m:sample(name, given[name])
    end
  end)
end

-- ---- both ----

local methods = {}

--- open(values, lead, f [, how]): f(process), where process.steps is T and process.advance(state, t [, kept]) gives
--- the next state and log weights [N, B...] = lead; the state before t = 1 does not matter. values: parameter ->
--- tensor. kept: a table that gets what was drawn, by site. Of models with m:scan how.drawn(site) gives the values of
--- the state's sites in place of draws; with how.scored advance gives their log density as a third result, and
--- process.first is that of those before the scan.
function methods:open(values, lead, f, how)
  local open = self.functions and open_functions or open_model
  open(self, values, lead, f, how or {})
end

--- Rows of parameters [B, n] (target:compiled_values) by name, [B, ...].
function methods:cut(rows)
  local values = {}
  for _, out in ipairs(self.target:outputs()) do
    values[out.name] = rows:slice(2, out.first, out.last):reshape { rows:size(1), table.unpack(out.shape) }
  end
  return values
end

--- Rows of parameters [B, n] at z [B, size].
function methods:rows_of(z)
  local compiled = self.target:compiled_values()
  compiled(z[1])
  return compiled:map(z:contiguous())
end

local class = { __index = methods }

--- The options that say what a model's data and parameters are.
space.options = { data = options.optional "table", parameters = options.optional(), state = options.optional "table",
  generator = options.optional "generator" }

--- new(where, model, o): o.data, o.parameters (priors, for functions), o.state (names of latent sites that belong to
--- the state though they are not found in the carry), o.generator. Internal.
function space.new(where, m, o)
  local self = setmetatable({ where = where, model = m, args = model.packed(o.data), generator = o.generator,
    functions = not model.is(m) }, class)
  if model.is(m) then
    if o.parameters then
      core.error(("%s: parameters belong to models as functions; those of a pn.model are its sites outside of m:scan")
        :format(where))
    end
    local named = {}
    for _, name in ipairs(o.state or {}) do
      named[name] = true
    end
    explore(self, named)
  else
    options.argument(where, "the model", m, "function")
    local ys = self.args[1]
    if type(ys) ~= "table" and not core.is_tensor(ys) then
      core.error(("%s: data[1] must be the series, a tensor [T, ...] or a list, got %s"):format(where, type(ys)))
    end
    self.steps = core.is_tensor(ys) and ys:size(1) or #ys
  end
  if self.steps < 1 then
    core.error(("%s: the series has no steps"):format(where))
  end
  return self
end

--- Where no particle has a weight or no start a likelihood: raises what is wrong with the data, if that is why.
--- Internal.
function methods:explain()
  if not self.functions then
    model.run(self.model, self.args, { whole = true, check = true, finite = true, locate = true,
      value = model.replaying(self.model) })
  end
end

--- Makes self.target, the prior density of the parameters. Internal.
function methods:with_parameters(given)
  if not self.functions and #self.parameters == 0 then
    core.error(("%s: the model has no parameters, latent sites outside of m:scan"):format(self.where))
  end
  local prior = self.functions and prior_of(self, given) or parameters_of(self)
  self.target = target.new(prior, self.functions and { n = 0 } or self.args, self.generator, true)
  return self
end

--- advance(process, s, lead, state, t, kept): one step of a filter with machine s: the next state, and the increment
--- of the log evidence. Weights that have no value are 0. Internal.
function space.advance(process, s, lead, state, t, kept)
  if t > 1 then
    local ancestors = s:resample()
    if ancestors then
      state = space.each(state, lead, function(x) return core.new_selected(x, ancestors) end)
    end
  end
  local log_w
  state, log_w = process.advance(state, t, kept)
  log_w = core.where(log_w:eq(log_w), log_w, core.full({ 1 }, -math.huge, { dtype = log_w:dtype() }))
  local ok, increment = pcall(s.weigh, s, log_w)
  if not ok then
    if process.explain then
      process.explain()
    end
    error(increment, 0)
  end
  return state, increment
end

return space
