--- Structural time series models: a series as the sum of components, each with its own equation, in one Gaussian linear
--- system (pn.smc.kalman).
---
---     local structural = pn.smc.structural
---     local model = structural.trend{} + structural.seasonal{period = 12} + structural.arma{p = 1}
---     local fit = model:fit(y)                               maximum likelihood; y [T], NaN where nothing was observed
---     fit:parameters()                                       {["trend.scale"] = ..., ...}
---     fit:components(y).seasonal.mean                        [T], given all observations; and .scale
---     fit:forecast(y, 24)                                    {mean, scale}: [24]
---     fit:log_likelihood(y)                                  differentiable in what is given as pn.param
---
---     level{scale}                           a random walk
---     trend{scale, slope_scale}              a level with a slope, both random walks
---     seasonal{period, scale, form = "dummy" or "trigonometric", harmonics}
---     cycle{period, damping, scale, shortest = 2, start}
---     regression{x = [T, k], scale = 0}      coefficients that stand still; they walk if scale is "estimated" or given
---     arma{p, q, ar, ma, scale}              autoregression and moving average
---     irregular{scale}                       noise of the observations; added with an unknown scale unless it is given
---
--- Scales are standard deviations. A parameter that is given (a number or a tensor) is held; the others are estimated.
--- States of components that are not stationary start diffuse, exactly; those of cycle and arma from their stationary
--- distribution. All components take a name, under which results stand; it must differ from the others'.
-- help: pn.smc.structural, part
local core = require "penumbra.core"
local lbfgs = require "penumbra.optim.lbfgs"
local options = require "penumbra.options"
local kalman = require "penumbra.smc.kalman"
local linear_system = require "penumbra.smc.system"
local component = require "penumbra.smc.structural.component"

local structural = {}

local methods = {}
local class = { __name = "structural" }

-- Its components by name, and where it is fitted how well.
function class:__tostring()
  local names = {}
  for k, part in ipairs(self.parts) do
    names[k] = part.name
  end
  local fit = self.log_likelihood_at_fit
  return ("structural model: %s%s"):format(table.concat(names, " + "),
    fit and (", fitted, log-likelihood %.6g"):format(fit) or "")
end

local function is_model(x)
  return getmetatable(x) == class
end

local function new(components, values)
  local seen = {}
  for _, part in ipairs(components) do
    if seen[part.name] then
      core.error(("structural: two components are called '%s'; give one a name of its own"):format(part.name))
    end
    seen[part.name] = true
  end
  return setmetatable({ parts = components, values = values or {} }, class)
end

function class.__add(a, b)
  for _, x in ipairs { a, b } do
    if not is_model(x) then
      core.error(("structural: only components can be added, got a %s"):format(type(x)))
    end
  end
  local parts = {}
  for _, x in ipairs { a, b } do
    table.move(x.parts, 1, #x.parts, #parts + 1, parts)
  end
  return new(parts)
end

--- level{scale =, name =}: mu_t = mu_(t-1) + N(0, scale^2).
function structural.level(given) return new { component.level(given) } end
--- trend{scale =, slope_scale =, name =}: mu_t = mu_(t-1) + nu_(t-1) + N(0, scale^2), nu_t = nu_(t-1) + N(0,
--- slope_scale^2). slope_scale = 0: a slope that stands still; scale = 0: a smooth trend.
function structural.trend(given) return new { component.trend(given) } end
--- seasonal{period =, scale =, form =, harmonics =, name =}: effects that sum to noise over a period ("dummy"), or
--- waves of its harmonics ("trigonometric": all, or the first few; then the period need not be whole).
function structural.seasonal(given) return new { component.seasonal(given) } end
--- cycle{period =, damping =, scale =, shortest = 2, start =, name =}: a damped stochastic wave of a period to be
--- found, above `shortest`, from `start` on.
function structural.cycle(given) return new { component.cycle(given) } end
--- regression{x =, scale = 0, name =}: x [T, k] times coefficients that start diffuse; forecasts need {inputs =
--- {[name] = [steps, k]}}.
function structural.regression(given) return new { component.regression(given) } end
--- arma{p =, q =, ar =, ma =, scale =, name =}: a stationary, invertible ARMA process; ar = {0.5}, ma = {0.4} hold the
--- coefficients.
function structural.arma(given) return new { component.arma(given) } end
--- irregular{scale =, name =}: independent noise of the observations.
function structural.irregular(given) return new { component.irregular(given) } end

-- ---- parameters ----

-- All components, the irregular one among them.
local function parts_of(self)
  for _, part in ipairs(self.parts) do
    if part.kind == "irregular" then return self.parts end
  end
  local all = { table.unpack(self.parts) }
  all[#all + 1] = component.irregular {}
  return all
end

-- f(full name, parameter) for each, in order.
local function each_parameter(self, f)
  for _, part in ipairs(parts_of(self)) do
    for _, p in ipairs(part.parameters) do f(part.name .. "." .. p.name, p) end
  end
end

-- Coefficients of a stationary autoregression from numbers between -1 and 1, its partial autocorrelations (Monahan
-- 1984).
local function from_partial(r)
  local n = r:size(1)
  local a = {}
  for k = 1, n do
    local last = r:select(1, k)
    local nextone = {}
    for j = 1, k - 1 do nextone[j] = a[j] - last * a[k - j] end
    nextone[k] = last
    a = nextone
  end
  return core.stack(a, 1)
end

-- A parameter's value from free numbers [size].
local function constrained(p, free, size)
  if p.kind == "scale" then
    return free:select(1, 1):exp() * size
  elseif p.kind == "above" then
    return free:select(1, 1):exp() + p.least
  elseif p.kind == "unit" then
    return free:select(1, 1):sigmoid()
  end
  return from_partial(free:tanh()) * p.sign
end

local function starting_point(p)
  if p.kind == "scale" then
    return { math.log(p.start) }
  elseif p.kind == "above" then
    return { math.log(math.max(p.start - p.least, 0.5)) }
  elseif p.kind == "unit" then
    return { math.log(p.start / (1 - p.start)) }
  end
  local list = {}
  for k = 1, p.size do list[k] = 0.2 / k end
  return list
end

--- model:parameters() -> {["trend.scale"] = tensor or number, ...}: those that are given and those that were fitted.
function methods:parameters()
  local out = {}
  each_parameter(self, function(name, p)
    local v = p.value
    if v == nil then v = self.values[name] end
    out[name] = v
  end)
  return out
end

--- model:names() -> list of the parameters that are to be estimated.
function methods:names()
  local list = {}
  each_parameter(self, function(name, p)
    if p.value == nil then list[#list + 1] = name end
  end)
  return list
end

-- ---- the system ----

local function read_series(where, y)
  y = options.numbers(where, "y", y, "tensor")
  if y:ndim() < 1 then
    core.error(where .. ": y must be [T] or [T, B...]")
  end
  return y
end

-- A block at its place on the diagonal of [n, n].
local function placed(x, at, n)
  local size = x:size(-1)
  return x:pad(-1, at, n - at - size):pad(-2, at, n - at - size)
end

local function sum_of(list, otherwise)
  local sum
  for _, x in ipairs(list) do sum = sum and sum + x or x end
  return sum or otherwise
end

local function regressions(self)
  local names = {}
  for _, part in ipairs(parts_of(self)) do names[part.name] = part.regressors and true or nil end
  return names
end

-- The system for `steps` observations of series with `batch` axes; values: by full name, before those that are held.
local function build(where, self, values, like, steps, batch, inputs)
  local n, irregular = 0, 0
  for _, part in ipairs(parts_of(self)) do n = n + part.size end
  if n == 0 then core.error(where .. ": the model has no component beside the irregular one") end
  local zero = { dtype = like:dtype() }
  local transitions, noises, covs, diffuse, at = {}, {}, {}, {}, 0
  local steady, varying = {}, {}
  for _, part in ipairs(parts_of(self)) do
    local v = {}
    for _, p in ipairs(part.parameters) do
      local name = part.name .. "." .. p.name
      local value = values[name]
      if value == nil then value = p.value end
      if value == nil then
        core.error(("%s: parameter %s has no value: fit the model, or give one"):format(where, name))
      end
      v[p.name] = type(value) == "number" and core.full({}, value, zero) or value
    end
    if part.kind == "irregular" then
      irregular = v.scale ^ 2
    else
      local x = part.regressors and (inputs and inputs[part.name] or not inputs and part.regressors) or nil
      if part.regressors and not x then
        core.error(("%s: component %s needs inputs = {%s = [%d, %d]}"):format(where, part.name, part.name, steps,
          part.size))
      elseif x and (x:ndim() ~= 2 or x:size(1) ~= steps or x:size(2) ~= part.size) then
        core.error(("%s: the regressors of %s must be [%d, %d], got [%s]"):format(where, part.name, steps, part.size,
          table.concat(x:shape(), ", ")))
      end
      local block = part.build(v, like, x)
      transitions[#transitions + 1] = placed(block.transition, at, n)
      noises[#noises + 1] = placed(block.noise, at, n)
      if block.cov then covs[#covs + 1] = placed(block.cov, at, n) end
      local row = block.emission:pad(-1, at, n - at - part.size)
      local list = row:ndim() == 3 and varying or steady
      list[#list + 1] = row
      for _, place in ipairs(part.diffuse or {}) do diffuse[#diffuse + 1] = at + place end
      at = at + part.size
    end
  end
  local emissions = sum_of(steady, core.zeros({ 1, n }, zero))
  if #varying > 0 then
    emissions = emissions + sum_of(varying)
    for _ = 1, batch do emissions = emissions:unsqueeze(2) end
  end
  return { transition = sum_of(transitions), transition_cov = sum_of(noises), emission = emissions,
    emission_cov = (core.is_tensor(irregular) and irregular or core.full({}, irregular, zero)):reshape { 1, 1 },
    initial_cov = sum_of(covs, core.zeros({ n, n }, zero)), diffuse = #diffuse > 0 and diffuse or nil }
end

local function values_of(self, more)
  return options.merged(self.values, more or {})
end

local function check_values(where, self, values)
  local known, names = {}, {}
  each_parameter(self, function(name)
    known[name] = true
    names[#names + 1] = name
  end)
  for name in pairs(values or {}) do
    if not known[name] then
      core.error(("%s: there is no parameter '%s'%s"):format(where, tostring(name), options.suggestion(name, names)))
    end
  end
  return values
end

local function system_of(where, self, y, values)
  y = read_series(where, y)
  return build(where, self, values_of(self, check_values(where, self, values)), y, y:size(1), y:ndim() - 1)
end

--- model:system(y [, values]) -> the pn.smc.linear_system, whose methods take y:unsqueeze(-1) and the option first =
--- "predicted". values: {["level.scale"] = ...} before those fitted or given.
function methods:system(y, values)
  return linear_system.linear_system(system_of("structural.system", self, y, values))
end

local COMMON = { first = "predicted" }

--- model:log_likelihood(y [, values]) -> [B...]: the (diffuse) log likelihood of y [T, B...], NaN where it is missing;
--- differentiable in the values.
function methods:log_likelihood(y, values)
  y = read_series("structural.log_likelihood", y)
  return kalman.log_likelihood(system_of("structural.log_likelihood", self, y, values), y:unsqueeze(-1), COMMON)
end

-- ---- estimation ----

-- The spread of what was observed, by which scales are measured.
local function spread_of(y)
  local seen = y:eq(y)
  local count = seen:to(y:dtype()):sum():item()
  local x = core.where(seen, y, core.zeros({}, { dtype = y:dtype() }))
  local mean = x:sum():item() / count
  local off = core.where(seen, y - mean, core.zeros({}, { dtype = y:dtype() }))
  return count, math.sqrt((off * off):sum():item() / math.max(count - 1, 1))
end

-- Sets the parameter x to a minimum of f(): where no element of the gradient is above tolerance * max(1, |value|), or
-- nothing lower is found along the gradient itself. Returns value, iterations, converged.
local function minimise(f, x, steps, tolerance)
  local opt = lbfgs.new({ x }, { max_steps = steps, max_evaluations = math.maxinteger })
  local value, settled
  repeat -- a turn ends by the tolerance that its start gave
    local iterations, before = opt.iterations, value
    opt.tolerance_grad = tolerance * math.max(1, math.abs(before or f():item()))
    opt.max_steps = steps - iterations
    value = opt:step(f)
    settled = opt.iterations == iterations or before and before - value <= 1e-12 * math.abs(value)
  until settled or opt.iterations >= steps
  return value, opt.iterations, settled
end

--- model:fit(y [, options]) -> a model with the values that maximise the likelihood of y [T] or [T, B...] (one set of
--- parameters for all series): L-BFGS (pn.optim.lbfgs) on unconstrained numbers (logarithms of scales, partial
--- autocorrelations of ARMA), by exact gradients. Its fields log_likelihood_at_fit, converged, steps tell how it went.
--- Options: steps (200), tolerance (1e-6: of the gradient, relative to the log likelihood), start {["level.scale"] =
--- number} (scales and periods).
function methods:fit(y, given)
  local where = "structural.fit"
  y = read_series(where, y)
  local o = options.check(where, given, { steps = 200, tolerance = 1e-6, start = {} })
  options.whole(where, "steps", o.steps, 1)
  check_values(where, self, o.start)
  local count, size = spread_of(y)
  if not (count >= 2 and size > 0) then
    core.error(where .. ": y must have at least two different values")
  end
  local free, layout = {}, {}
  each_parameter(self, function(name, p)
    if p.value ~= nil then return end
    local own = p
    if o.start[name] and p.kind ~= "partial" then
      own = setmetatable({ start = p.kind == "scale" and o.start[name] / size or o.start[name] }, { __index = p })
    end
    local first = starting_point(own)
    layout[#layout + 1] = { name = name, p = p, at = #free + 1, size = #first }
    table.move(first, 1, #first, #free + 1, free)
  end)
  local function values_at(x)
    local values = {}
    for _, piece in ipairs(layout) do
      values[piece.name] = constrained(piece.p, x:slice(1, piece.at, piece.at + piece.size - 1), size)
    end
    return values
  end
  if #free == 0 then
    local fit = new(self.parts)
    fit.log_likelihood_at_fit, fit.converged, fit.steps = self:log_likelihood(y):sum():item(), true, 0
    return fit
  end
  local x = core.param(core.tensor(free, { dtype = y:dtype() }))
  local value, steps, converged = minimise(function()
    local likelihood = self:log_likelihood(y, values_at(x))
    return likelihood and -likelihood:sum() or core.full({}, math.huge, { dtype = y:dtype() })
  end, x, o.steps, o.tolerance)
  local fit = new(self.parts, values_at(x:detach()))
  fit.log_likelihood_at_fit, fit.converged, fit.steps = -value, converged, steps
  return fit
end

-- ---- components and forecasts ----

local function signal(x, row)
  local mean = (row * x.mean):sum(-1)
  return { mean = mean, scale = (row:unsqueeze(-2):matmul(x.cov):squeeze(-2) * row):sum(-1):clamp(0, math.huge):sqrt() }
end

--- model:components(y) -> {level = {mean, scale}, seasonal = ..., irregular = ...}: each component's share of y at each
--- step given all observations, [T, B...]; ["trend.slope"] beside trend. Irregular: what is left of y (NaN where y is).
function methods:components(y)
  local where = "structural.components"
  y = read_series(where, y)
  local s = system_of(where, self, y)
  local x, message, code = kalman.smooth(s, y:unsqueeze(-1), { first = "predicted", method = "disturbance" })
  if not x then
    return nil, message, code
  end
  local out, at = {}, 0
  for _, part in ipairs(parts_of(self)) do
    if part.kind ~= "irregular" then
      local n = s.emission:size(-1)
      local own = core.eye(n, { dtype = y:dtype() })
      local mask = own:slice(1, at + 1, at + part.size):sum(1)
      out[part.name] = signal(x, (s.emission * mask):squeeze(-2))
      for name, place in pairs(part.signals or {}) do
        out[part.name .. "." .. name] = signal(x, own:select(1, at + place))
      end
      at = at + part.size
    end
  end
  local whole = signal(x, s.emission:squeeze(-2))
  out.irregular = { mean = y - whole.mean, scale = whole.scale }
  return out
end

--- model:forecast(y, steps [, options]) -> {mean, scale}: of the next observations, [steps, B...], noise included.
--- Option: inputs {[name of a regression] = [steps, k]}, its x in the steps to come.
function methods:forecast(y, steps, given)
  local where = "structural.forecast"
  y = read_series(where, y)
  options.whole(where, "steps", steps, 1)
  if type(given) == "table" and given.future ~= nil then
    core.error(where .. ": future is called inputs")
  end
  local o = options.check(where, given, { inputs = {} })
  for name in pairs(o.inputs) do
    if not regressions(self)[name] then
      core.error(("%s: inputs: there is no regression '%s'"):format(where, tostring(name)))
    end
  end
  local s = system_of(where, self, y)
  if s.emission:ndim() > 2 then -- a regression: its rows, and those to come
    local coming = build(where, self, values_of(self), y, steps, y:ndim() - 1, o.inputs).emission
    s.emission = core.concatenate({ s.emission, coming }, 1)
  end
  local f, message, code = kalman.forecast(s, y:unsqueeze(-1), steps, COMMON)
  if not f then
    return nil, message, code
  end
  return { mean = f.mean:squeeze(-1), scale = f.cov:squeeze(-1):squeeze(-1):sqrt() }
end

class.__index = core.public(methods)

return structural
