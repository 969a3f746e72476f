--- The log density of a model's latent variables as a function of one vector of real numbers: what samplers and
--- automatic guides work on. Each continuous variable is a bijector's image of its part z of the vector,
---   log density(z) = log p(x(z), data) + sum log |det dx/dz|,
--- discrete variables that are enumerated are summed out.
-- help: nowhere
local core = require "penumbra.core"
local bridge = require "penumbra.infer.bridge"
local dist = require "penumbra.distribution"
local enumeration = require "penumbra.infer.enumeration"
local options = require "penumbra.options"
local recorder = require "penumbra.infer.recorder"
local replay = require "penumbra.autodiff.replay"
local trace = require "penumbra.infer.trace"

local target = {}

local methods = {}

-- The bijector onto the values of a site; nil where these are all real numbers.
local function bijector_of(site, d)
  local b
  if site.kind == "flat" then
    local set = site.set
    b = type(set) ~= "string" and set or dist.biject_to(set, site.low, site.high)
  elseif site.constraint then
    b = type(site.constraint) == "string" and dist.biject_to(site.constraint) or site.constraint
  elseif d.discrete then
    core.error(("sample: '%s' is discrete and has no gradient: enumerate it with {enumerate = true}, sum it out by "
      .. "hand, or give it a value by condition"):format(site.name))
  else
    b = dist.biject_to(d)
  end
  return b.name ~= "identity" and b or nil
end

local function size_of(shape)
  local n = 1
  for _, k in ipairs(shape) do
    n = n * k
  end
  return n
end

-- Shape of the real numbers behind a value of the site.
local function real_shape(site, d, b)
  local shape = {}
  if site.kind == "flat" then
    table.move(site.shape, 1, #site.shape, 1, shape)
  else
    table.move(d.batch_shape, 1, #d.batch_shape, 1, shape)
    table.move(d.event_shape, 1, #d.event_shape, #shape + 1, shape)
  end
  if not b or b.domain_rank == b.codomain_rank and not b.name:find "^softmax_centred" then
    return shape
  elseif b.name == "softmax_centred" then
    shape[#shape] = shape[#shape] - 1
    return shape
  end
  return b:inverse(d:sample()):shape() -- vectors behind matrices
end

local function draw_real(shape, radius, generator)
  return core.rand(shape, { generator = generator, dtype = "float64" }) * (2 * radius) - radius
end

-- What C says of a point where the density is 0: the sampler's own rule.
local OUTSIDE = { domain = true, nan = true, singular = true }
local TRIES = 100

-- f(), with another start where the one it has drawn lies outside.
local function from_inside(f)
  for try = 1, TRIES do
    local results = table.pack(pcall(f))
    if results[1] then
      return table.unpack(results, 2, results.n)
    elseif try == TRIES or not OUTSIDE[core.raised_status(results[2])] then
      error(results[2], 0)
    end
  end
end

local function same_values(a, b)
  return a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b))):all():item()
end

--- Says that a model draws numbers of its own, which its log density must not. where: the function called, for those
--- whose name stands in the text. Internal.
function target.refuse_own_draws(name, where)
  core.error(((where and where .. ": " or "") .. "'%s': its log density is another one at the same values: the model's "
    .. "function draws numbers itself (pn.randn, dropout, d:sample, math.random) or changes what it reads. Make them a "
    .. "site, m:sample, or draw them once, outside of it"):format(name))
end

-- Numbers of the vector in the type of a site.
local function as_site(part, site)
  local dtype = site.dist and site.dist.dtype or core.default_dtype()
  return dtype ~= "float64" and part:to(dtype) or part
end

-- One run that finds the sites and their parts of the vector.
local function explore(self, start)
  local layout, n = {}, 0
  local t = trace.run(self.model, self.args, { check = true, finite = true, locate = true, whole = true,
    value = trace.replaying(self.model,
    function(m, site)
      if site.enumerable then
        m.enumerates = true
        return site.dist:sample()
      end
      local b = bijector_of(site, site.dist)
      local shape = real_shape(site, site.dist, b)
      local size = size_of(shape)
      layout[site.name] = { name = site.name, base = site.base, time = site.time, shape = shape, first = n + 1,
        last = n + size, where = site.where, batch_ndim = site.dist and #site.dist.batch_shape or 0 }
      n = n + size
      layout[#layout + 1] = layout[site.name]
      local z = as_site(start(shape), site)
      return b and b:forward(z) or z
    end) })
  self.layout, self.size, self.most = layout, n, t.deepest
  self.enumerates = t.enumerates
  self.trace = t
  for _, entry in ipairs(layout) do
    entry.value_shape = t.sites[entry.name].value:shape()
  end
  if n == 0 then
    core.error "the model has no continuous latent variable: nothing is to be inferred"
  end
end

-- Of the numbers of all rows those of the rows that this run takes. (What is enumerated has axes of its own in the law
-- of this run, but none in the part.)
local function rows_of(m, site, entry, part)
  if m.scale == 1 then
    return part
  end
  if site.kind == "flat" then
    core.error(("flat: '%s' stands in a plate of which not all rows are taken at a time: its rows are not known")
      :format(site.name))
  end
  for k, plate in ipairs(m.plates) do
    if plate.rows < plate.size then
      part = part:take(entry.batch_ndim - k + 1, m.indices[plate.name])
    end
  end
  return part
end

-- On other data than those of the draws a variable may have other rows.
local function check_size(site, entry)
  for k, plate in ipairs(site.plates) do
    local n = entry.batch_ndim - k + 1
    if n > 0 and n <= #entry.shape and entry.shape[n] ~= plate.size then
      core.error(("sample: '%s' has %d rows in plate '%s' here and %d in the draws: variables of rows are those of "
        .. "their data"):format(site.name, plate.size, plate.name, entry.shape[n]))
    end
  end
end

-- What a latent site gets from the vector z, or from `parts` of it by name; adds the logarithm of its bijector's
-- determinant to m.log_det. Discrete variables get theirs from the table `discrete`.
local function values_from(self, z, parts, discrete)
  return trace.replaying(self.model, function(m, site)
    local entry = self.layout[site.name]
    if not entry then
      if site.enumerable then
        return discrete and discrete[site.name] or site.dist:sample()
      end
      core.error(("sample: '%s' was not there in the model's first run: its sites must be the same in all runs")
        :format(site.name))
    end
    check_size(site, entry)
    local part = parts and parts[entry.name] or z:slice(1, entry.first, entry.last):reshape(entry.shape)
    part = as_site(rows_of(m, site, entry, part), site)
    local b = bijector_of(site, site.dist)
    if not b then
      return part
    end
    local x, log_det = b:forward_log_det(part)
    log_det = log_det:ndim() > 0 and log_det:sum() or log_det
    log_det = site.scale ~= 1 and log_det * site.scale or log_det
    m.log_det = m.log_det and m.log_det + log_det or log_det
    return x
  end)
end

-- Which discrete variables draws are needed of: all, or the global ones, those in no plate.
local function has_discrete(self, global)
  for _, site in ipairs(self.enumerates and self.trace.order or {}) do
    if site.enumerable and not (global and #site.plates > 0) then
      return true
    end
  end
  return false
end

-- Draws of the discrete variables given z and the data: table name -> value.
local function draw_discrete(self, z, global)
  local t = trace.run(self.model, self.args, { value = values_from(self, z), enumerate = true, most = self.most,
    whole = true })
  local values = enumeration.draw(t)
  for name in pairs(values) do
    if global and #t.sites[name].plates > 0 then
      values[name] = nil
    end
  end
  return values
end

--- How a run of the model gets its latent values from z: for `value` of trace.run. Internal.
function methods:values_at(z)
  return values_from(self, z)
end

--- The same for predictions. Discrete variables in no plate are drawn given z and the data of the target, those of rows
--- from their priors: the rows of a prediction are new ones. Internal.
function methods:predictive_values_at(z)
  local discrete = has_discrete(self, true) and draw_discrete(self, z, true) or nil
  return values_from(self, z, nil, discrete)
end

-- The run of the model at z. more: parts, whole; plain, without enumeration; discrete, discrete variables drawn from
-- their law given z and the data.
local function run_at(self, z, more)
  local discrete = more and more.discrete and has_discrete(self) and draw_discrete(self, z) or nil
  local how = { value = values_from(self, z, more and more.parts, discrete) }
  if self.enumerates and not (more and more.plain) then
    how.enumerate, how.most = true, self.most
  end
  how.whole = self.whole or more and more.whole
  return trace.run(self.model, self.args, how)
end

local function log_density(self, z, jacobian, whole, parts)
  local t = run_at(self, z, { whole = whole, parts = parts })
  local lp = t:log_density()
  if t.log_det and jacobian ~= false then
    lp = lp + t.log_det
  end
  return lp:dtype() ~= "float64" and lp:to "float64" or lp
end

--- The log density at z [size], with the bijectors' determinants (without them if `jacobian` is false), of all rows of
--- all plates if `whole` or self.whole, else of those that the plates take; 0-d.
function methods:log_density(z, jacobian, whole)
  return log_density(self, z, jacobian, whole)
end

-- Does a deterministic site ask what discrete variables are?
local function keeps_deterministic(self)
  for _, site in ipairs(self.trace.order) do
    if site.kind == "deterministic" then
      return true
    end
  end
  return false
end

--- Table site -> value at z: latent and deterministic sites; discrete latent variables are left out, and drawn given z
--- where a deterministic site may depend on them.
function methods:constrain(z)
  local t = run_at(self, z, { plain = true, whole = true, discrete = keeps_deterministic(self) })
  local values = {}
  for _, site in ipairs(t.order) do
    if self.layout[site.name] or site.kind == "deterministic" then
      values[site.name] = site.value
    end
  end
  return values
end

--- The vector z of a table site -> value of all latent variables. start: another z, from which those take their part
--- that are not there.
function methods:unconstrain(values, start)
  local parts = {}
  trace.run(self.model, self.args, { whole = true, value = function(_, site)
    if site.enumerable then
      return enumeration.first_value(site.dist)
    end
    local value = recorder.given_value("unconstrain", values, site)
    local entry, b = self.layout[site.name], bijector_of(site, site.dist)
    if not value and start then
      local part = start:slice(1, entry.first, entry.last)
      parts[#parts + 1] = part
      part = as_site(part:reshape(entry.shape), site)
      return b and b:forward(part) or part
    elseif not value then
      core.error(("no value is given for '%s'"):format(site.name))
    end
    local x = value
    if x:numel() == 1 and size_of(entry.value_shape) > 1 then
      x = x:reshape({}):broadcast_to(entry.value_shape)
    end
    local z = b and b:inverse(x) or x
    parts[#parts + 1] = z:to("float64"):reshape { entry.last - entry.first + 1 }
    return x
  end })
  return core.concatenate(parts, 1)
end

-- Sum of a site's log density, of all rows; a prior that enumerated variables reach has no value of its own.
local function total_of(self, site)
  local lp = site.log_prob
  if self.enumerates and lp:ndim() > self.most then
    core.error(("'%s' depends on variables that are enumerated: its prior cannot be told from the likelihood (start "
      .. "from a guide)"):format(site.name))
  end
  return lp:ndim() > 0 and lp:sum() or lp
end

--- The log density of the latent variables at z [size], with the bijectors' determinants, and that of what is observed
--- given them (factors and enumerated variables are part of it): two 0-d tensors in float64, whose sum is log_density.
--- apart: the second as a vector of its terms, one for each observation and factor, in their order.
function methods:log_parts(z, apart)
  local t = run_at(self, z, { whole = true })
  local prior, terms = core.tensor(0), {}
  for _, site in ipairs(t.order) do
    local latent = (site.kind == "sample" or site.kind == "flat") and not site.observed and not site.enumerated
    if site.log_prob and latent then
      prior = prior + total_of(self, site)
    elseif site.log_prob and not t.enumerated then
      terms[#terms + 1] = (apart and site.log_prob or total_of(self, site)):reshape { -1 }
    end
  end
  if t.enumerated and apart then
    core.error "variables that are enumerated join the terms of the likelihood: it cannot be taken in one by one"
  elseif t.enumerated then
    terms[1] = (t:log_density() - prior):reshape { 1 }
  end
  prior = t.log_det and prior + t.log_det or prior
  local factors = #terms > 0 and core.concatenate(terms, 1) or core.zeros { 1 }
  return prior:to "float64", (apart and factors or factors:sum()):to "float64"
end

-- What speaks against drawing a site from its prior, or nil.
local function without_prior(site)
  if site.kind == "flat" then
    return "is flat and has no prior"
  elseif site.constraint then
    return "is restricted to a set by its constraint"
  end
end

--- n draws of the latent variables from their priors, as vectors: [n, size].
function methods:draw_priors(n, generator)
  local function draw()
    local parts = {}
    trace.run(self.model, self.args, { whole = true, value = trace.replaying(self.model, function(_, site)
      if site.enumerable then
        return site.dist:sample({}, generator)
      end
      local why = without_prior(site)
      if why then
        core.error(("'%s' %s, from which it could be drawn: start from a guide or from a normal"):format(site.name,
          why))
      end
      local x, b = site.dist:sample({}, generator), bijector_of(site, site.dist)
      parts[#parts + 1] = (b and b:inverse(x) or x):to("float64"):reshape { -1 }
      return x
    end) })
    return core.concatenate(parts, 1)
  end
  draw() -- once outside of a capture
  local compiled = replay.compile(function() return draw() end, { watch = self.model.body, plans = 1 })
  local rows = core.zeros({ n, 1 }, { dtype = "float64" })
  compiled(rows[1])
  return compiled:map(rows)
end

--- Raises where the model draws numbers of its own: another run at the values of the first has another log density.
--- Gives the target. For what takes one density for granted; an objective that is drawn anew each step need not.
--- Internal.
function methods:repeated(where)
  local first = self.trace
  local again = trace.run(self.model, self.args, { whole = true, value = trace.replaying(self.model,
    function(_, site)
      return first.sites[site.name] and first.sites[site.name].value or site.dist:sample()
    end) })
  for k, site in ipairs(again.order) do
    local before = first.order[k]
    local one, two = before and before.log_prob, site.log_prob
    if not before or before.name ~= site.name or one and two and not same_values(one, two) then
      target.refuse_own_draws(site.name, where)
    end
  end
  return self
end

--- A plate of which not all rows are taken at a time, or nil.
function methods:taken_in_parts()
  for _, site in ipairs(self.trace.order) do
    for _, plate in ipairs(site.plates) do
      if plate.batch < plate.size then
        return { name = plate.name, rows = plate.batch, size = plate.size }
      end
    end
  end
  return nil
end

-- The parts of z as tensors in which gradients can be taken: by name, and as a list in order. (A gradient in z itself
-- would be put together from one padded with zeros for each part.)
local function differentiable(self, z)
  local parts, list, x = {}, {}, z + self.zero
  for k, entry in ipairs(self.layout) do
    list[k] = x:slice(1, entry.first, entry.last):reshape(entry.shape)
    parts[entry.name] = list[k]
  end
  return parts, list
end

local function joined(gradients)
  for k, g in ipairs(gradients) do
    gradients[k] = g:reshape { -1 }
  end
  return core.concatenate(gradients, 1)
end

local function compile_gradient(self, jacobian)
  return replay.compile(function(z)
    local parts, list = differentiable(self, z)
    local lp = log_density(self, z, jacobian, nil, parts)
    return lp:detach():reshape { 1 }, joined(core.grad(lp, list))
  end, { watch = self.model.body, plans = 1 })
end

--- Log density and gradient at z as a compiled function: z [size] -> [1], [size]. All in float64.
function methods:compiled_gradient()
  self.compiled = self.compiled or compile_gradient(self, true)
  return self.compiled
end

--- The log density of each row of z [N, size]: [N, 1], no gradient.
function methods:log_densities(z)
  if not self.compiled_density then
    self.compiled_density = replay.compile(function(x)
      return self:log_density(x, true, true):detach():reshape { 1 }
    end, { watch = self.model.body, plans = 1 })
  end
  self.compiled_density(z[1])
  return self.compiled_density:map(z:contiguous())
end

--- Log density (0-d) and gradient [size] at z [size].
function methods:evaluate(z)
  local lp, gradient = self:compiled_gradient()(z)
  return lp:reshape {}, gradient
end

--- What a C host takes: the plans of the density (without the bijectors' determinants if `jacobian` is false) and of
--- the values, and the list of outputs(). Internal.
function methods:for_host(jacobian)
  local density = jacobian == false and compile_gradient(self, false) or self:compiled_gradient()
  self:from_start(function(z)
    density(z)
    self:compiled_values()(z)
  end)
  return density, self.compiled_outputs, self:outputs()
end

--- What a host asks that speaks BridgeStan's C interface. Internal.
function methods:bridge()
  return bridge.new(self)
end

--- What is kept of each draw, as a compiled function: z [size] -> [n], the values of self:outputs() one after another.
function methods:compiled_values()
  if not self.compiled_outputs then
    self.compiled_outputs = replay.compile(function(z)
      local t = run_at(self, z, { plain = true, whole = true, discrete = keeps_deterministic(self) })
      local parts = {}
      for k, out in ipairs(self:outputs()) do
        local v = t.sites[out.name].value
        parts[k] = v:to("float64"):reshape { -1 }
      end
      return core.concatenate(parts, 1)
    end, { watch = self.model.body, plans = 1 })
  end
  return self.compiled_outputs
end

--- List of {name, base, time, shape, first, last}: latent variables, then deterministic ones, and the places of their
--- elements in what compiled_values() gives.
function methods:outputs()
  if not self.output_list then
    local list, n = {}, 0
    local function add(name, site, shape)
      local size = size_of(shape)
      list[#list + 1] = { name = name, base = site.base, time = site.time, shape = shape, first = n + 1,
        last = n + size, deterministic = site.kind == "deterministic" }
      n = n + size
    end
    for _, entry in ipairs(self.layout) do
      add(entry.name, self.trace.sites[entry.name], entry.value_shape)
    end
    for _, site in ipairs(self.trace.order) do
      if site.kind == "deterministic" then
        add(site.name, site, site.value:shape())
      end
    end
    self.output_list, self.output_size = list, n
  end
  return self.output_list
end

local class = { __index = core.public(methods), __name = "target" }

function class:__tostring()
  local names = {}
  for k, entry in ipairs(self.layout) do
    names[k] = entry.name
  end
  return ("target of size %d: %s"):format(self.size, table.concat(names, ", "))
end

--- new(m, args [, generator [, whole]]): the target of model m on the data `args`, a list; whole: plates take all rows,
--- whatever their batch. Raises at the script's line where a site cannot be sampled.
function target.new(m, args, generator, whole)
  local self = setmetatable({ model = m, args = args, whole = whole }, class)
  from_inside(function() explore(self, function(shape) return draw_real(shape, 2, generator) end) end)
  self.zero = core.param(core.zeros({ self.size }, { dtype = "float64" }))
  return self
end

--- A start z [size]: uniform on (-radius, radius).
function methods:start(radius, generator)
  return draw_real({ self.size }, radius or 2, generator)
end

-- Has the table site -> value all latent variables? Where it has not, a name that is none of theirs is an error.
local function all_there(self, values)
  local known, names, missing = {}, {}, nil
  for _, entry in ipairs(self.layout) do
    known[entry.name], known[entry.base or entry.name] = true, true
    names[#names + 1] = entry.name
    missing = missing or values[entry.name] == nil and values[entry.base or entry.name] == nil and entry.name or nil
  end
  for name in pairs(missing and values or {}) do
    if not known[name] then
      core.error(("init: the model has no latent variable '%s'%s; it has %s"):format(tostring(name),
        options.suggestion(tostring(name), names), table.concat(names, ", ")))
    end
  end
  return not missing
end

--- A start with the values of a table site -> value; latent variables that are not in it begin as in start(), drawn
--- again where f, the log density of it (0-d or [1]), fails or is not finite.
function methods:start_at(values, f, radius, generator)
  if all_there(self, values) then
    return self:unconstrain(values)
  end
  local z
  for _ = 1, TRIES do
    local density
    z, density = from_inside(function()
      local at = self:unconstrain(values, self:start(radius, generator))
      return at, f(at)
    end)
    if density:isfinite():all():item() then
      break
    end
  end
  return z -- where none was found, who begins there says so
end

--- A start from which f, a function of it, does not fail for a density of 0: drawn again where it does. Returns what f
--- returns.
function methods:from_start(f, radius, generator)
  return from_inside(function() return f(self:start(radius, generator)) end)
end

return target
