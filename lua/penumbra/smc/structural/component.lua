--- The components of structural time series models, each a block of a Gaussian linear system as a function of its
--- parameters. A component has name, size (states), parameters {{name, kind, start}}, diffuse (places in its state of
--- which nothing is known at first) and build(values, like, steps) -> {transition, noise, emission, cov}: matrices of
--- its block, emission [1, size] or [steps, 1, size], cov of the states that are not diffuse. Sources: Harvey (1989),
--- "Forecasting, Structural Time Series Models and the Kalman Filter"; Durbin & Koopman (2012), chapter 3.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"

local component = {}

-- a parameter that is not given is estimated: value or nil
local function given_scale(where, o, name)
  local v = o[name]
  if v == nil or v == false then
    return nil
  end
  v = options.numbers(where, name, v)
  local least = core.is_tensor(v) and v:detach():min():item() or v
  if not (least >= 0) then
    core.error(("%s: %s must not be negative, got %s"):format(where, name, tostring(least)))
  end
  return v
end

local function all_places(n)
  local list = {}
  for k = 1, n do list[k] = k end
  return list
end

local function constant(rows, like)
  return core.tensor(rows, { dtype = like:dtype() })
end

-- A matrix [n, n] with `values[k]` at the k-th place of the diagonal (0: 0), from numbers and 0-d tensors.
local function diagonal(values, like)
  local list = {}
  for k, v in ipairs(values) do
    list[k] = core.is_tensor(v) and v or core.full({}, v, { dtype = like:dtype() })
  end
  return core.stack(list, 1):diag_embed()
end

local function parameter(name, kind, value, start, more)
  local p = { name = name, kind = kind, value = value, start = start }
  for key, v in pairs(more or {}) do p[key] = v end
  return p
end

-- ---- noise of the observations ----

--- irregular{scale, name}: noise of the observations, no state.
function component.irregular(given)
  local where = "structural.irregular"
  local o = options.check(where, given, { scale = false, name = "irregular" })
  return { kind = "irregular", name = o.name, size = 0,
    parameters = { parameter("scale", "scale", given_scale(where, o, "scale"), 0.5) } }
end

-- ---- level and trend ----

--- level{scale, name}: a random walk.
function component.level(given)
  local where = "structural.level"
  local o = options.check(where, given, { scale = false, name = "level" })
  return { kind = "level", name = o.name, size = 1, diffuse = { 1 },
    parameters = { parameter("scale", "scale", given_scale(where, o, "scale"), 0.2) },
    build = function(v, like)
      return { transition = constant({ { 1 } }, like), noise = diagonal({ v.scale ^ 2 }, like),
        emission = constant({ { 1 } }, like) }
    end }
end

--- trend{scale, slope_scale, name}: a level and its slope.
function component.trend(given)
  local where = "structural.trend"
  local o = options.check(where, given, { scale = false, slope_scale = false, name = "trend" })
  return { kind = "trend", name = o.name, size = 2, diffuse = { 1, 2 }, signals = { slope = 2 },
    parameters = { parameter("scale", "scale", given_scale(where, o, "scale"), 0.2),
      parameter("slope_scale", "scale", given_scale(where, o, "slope_scale"), 0.02) },
    build = function(v, like)
      return { transition = constant({ { 1, 1 }, { 0, 1 } }, like),
        noise = diagonal({ v.scale ^ 2, v.slope_scale ^ 2 }, like), emission = constant({ { 1, 0 } }, like) }
    end }
end

-- ---- seasons ----

-- The effect of a season is minus the sum of those of the seasons before it in the same period, plus noise.
local function dummy(name, period, scale)
  local n = period - 1
  local transition, emission = {}, { {} }
  for i = 1, n do
    transition[i] = {}
    for j = 1, n do transition[i][j] = i == 1 and -1 or (j == i - 1 and 1 or 0) end
    emission[1][i] = i == 1 and 1 or 0
  end
  return { kind = "seasonal", name = name, size = n, diffuse = all_places(n),
    parameters = { parameter("scale", "scale", scale, 0.1) },
    build = function(v, like)
      local noise = { v.scale ^ 2 }
      for k = 2, n do noise[k] = 0 end
      return { transition = constant(transition, like), noise = diagonal(noise, like),
        emission = constant(emission, like) }
    end }
end

-- Waves of the frequencies 2 pi j / period, j = 1 ... harmonics, each turned by its frequency at each step; that of
-- half a turn has one state only.
local function trigonometric(name, period, harmonics, scale)
  local blocks, n = {}, 0
  for j = 1, harmonics do
    local angle = 2 * math.pi * j / period
    local half = 2 * j == period
    blocks[j] = half and { { -1 } } or { { math.cos(angle), math.sin(angle) }, { -math.sin(angle), math.cos(angle) } }
    n = n + #blocks[j]
  end
  local transition, emission, at = {}, { {} }, 0
  for i = 1, n do
    transition[i] = {}
    for j = 1, n do transition[i][j] = 0 end
  end
  for _, block in ipairs(blocks) do
    for i, row in ipairs(block) do
      for j, x in ipairs(row) do transition[at + i][at + j] = x end
      emission[1][at + i] = i == 1 and 1 or 0
    end
    at = at + #block
  end
  return { kind = "seasonal", name = name, size = n, diffuse = all_places(n),
    parameters = { parameter("scale", "scale", scale, 0.1) },
    build = function(v, like)
      local noise = {}
      for k = 1, n do noise[k] = v.scale ^ 2 end
      return { transition = constant(transition, like), noise = diagonal(noise, like),
        emission = constant(emission, like) }
    end }
end

--- seasonal{period, scale, form, harmonics, name}.
function component.seasonal(given)
  local where = "structural.seasonal"
  local o = options.check(where, given, { period = options.required "number", scale = false, name = "seasonal",
    form = options.choice("dummy", "trigonometric"), harmonics = options.optional "number" })
  local scale = given_scale(where, o, "scale")
  if o.form == "dummy" then
    if o.harmonics then core.error(where .. ": harmonics belong to form = 'trigonometric'") end
    return dummy(o.name, options.whole(where, "period", o.period, 2), scale)
  elseif not (o.period >= 2) then
    core.error(("%s: period must be at least 2, got %s"):format(where, o.period))
  end
  local most = math.floor(o.period / 2)
  local harmonics = options.whole(where, "harmonics", o.harmonics or most, 1)
  if harmonics > most then
    core.error(("%s: harmonics must be at most %d, half the period, got %d"):format(where, most, harmonics))
  end
  return trigonometric(o.name, o.period, harmonics, scale)
end

-- ---- cycles ----

--- A damped wave, stationary: variance scale^2 / (1 - damping^2) in both states.
function component.cycle(given)
  local where = "structural.cycle"
  local o = options.check(where, given, { period = false, damping = false, scale = false, name = "cycle",
    shortest = 2, start = options.optional "number" })
  if not (o.shortest >= 2) then
    core.error(("%s: shortest must be at least 2 steps, got %s"):format(where, o.shortest))
  end
  local function fixed(name, from, to)
    local v = o[name] or nil
    if v == nil then return nil end
    v = options.numbers(where, name, v)
    local number = core.is_tensor(v) and v:detach():item() or v
    if not (number >= from and number < to) then
      core.error(("%s: %s must be from %g to below %g, got %s"):format(where, name, from, to, number))
    end
    return v
  end
  return { kind = "cycle", name = o.name, size = 2,
    parameters = { parameter("period", "above", fixed("period", 2, math.huge), o.start or 3 * o.shortest,
      { least = o.shortest }), parameter("damping", "unit", fixed("damping", 0, 1), 0.8),
      parameter("scale", "scale", given_scale(where, o, "scale"), 0.3) },
    build = function(v, like)
      local angle = core.full({}, 2 * math.pi, { dtype = like:dtype() }) / v.period
      local c, s = angle:cos() * v.damping, angle:sin() * v.damping
      local transition = core.stack({ core.stack({ c, s }, 1), core.stack({ -s, c }, 1) }, 1)
      local variance = v.scale ^ 2 / (1 - v.damping ^ 2)
      return { transition = transition, noise = diagonal({ v.scale ^ 2, v.scale ^ 2 }, like),
        emission = constant({ { 1, 0 } }, like), cov = diagonal({ variance, variance }, like) }
    end }
end

-- ---- regression ----

--- Coefficients that stand still, or walk at random with `scale`, beside regressors x [T, k].
function component.regression(given)
  local where = "structural.regression"
  local o = options.check(where, given, { x = options.required(), scale = options.any(0), name = "regression" })
  local x = options.numbers(where, "x", o.x, "tensor")
  if x:ndim() ~= 2 then
    core.error(("%s: x must be [T, k], got %s"):format(where, options.shape_text(x)))
  end
  local n = x:size(2)
  return { kind = "regression", name = o.name, size = n, diffuse = all_places(n), regressors = x,
    parameters = { parameter("scale", "scale", given_scale(where, { scale = o.scale ~= "estimated" and o.scale or nil },
      "scale"), 0.05) },
    build = function(v, like, regressors)
      local noise = {}
      for k = 1, n do noise[k] = v.scale ^ 2 end
      return { transition = core.eye(n, { dtype = like:dtype() }), noise = diagonal(noise, like),
        emission = regressors:unsqueeze(2) }
    end }
end

-- ---- ARMA ----

--- The stationary covariance: p = a p a^T + q, as linear equations in all elements.
function component.stationary(a, q)
  local m = a:size(1)
  local kron = (a:unsqueeze(2):unsqueeze(4) * a:unsqueeze(1):unsqueeze(3)):reshape { m * m, m * m }
  local p = (core.eye(m * m, { dtype = a:dtype() }) - kron):solve(q:reshape { m * m, 1 }):reshape { m, m }
  return (p + p:t()) * 0.5
end

--- Harvey's form: order max(p, q + 1), the state's first element is the process.
function component.arma(given)
  local where = "structural.arma"
  local o = options.check(where, given, { p = options.optional "number", q = options.optional "number", ar = false,
    ma = false, scale = false, name = "arma" })
  local function order(letter, list, role)
    local v = o[list] or nil
    if v ~= nil then
      v = options.numbers(where, list, v, "tensor")
      if v:ndim() ~= 1 then core.error(("%s: %s must be a list of coefficients"):format(where, list)) end
    end
    local n = o[letter] and options.whole(where, letter, o[letter], 0) or v and v:size(1) or 0
    if v and v:size(1) ~= n then
      core.error(("%s: %s must have %s = %d coefficients, got %d"):format(where, list, letter, n, v:size(1)))
    end
    return n, n > 0 and parameter(list, "partial", v, 0, { size = n, sign = role }) or nil
  end
  local p, ar = order("p", "ar", 1)
  local q, ma = order("q", "ma", -1)
  if p + q == 0 then
    core.error(where .. ": needs p or q, or ar or ma")
  end
  local m = math.max(p, q + 1)
  local parameters = { parameter("scale", "scale", given_scale(where, o, "scale"), 0.5) }
  parameters[#parameters + 1] = ar
  parameters[#parameters + 1] = ma
  return { kind = "arma", name = o.name, size = m, parameters = parameters,
    build = function(v, like)
      local zero = { dtype = like:dtype() }
      local first = p == 0 and core.zeros({ m, 1 }, zero) or v.ar:pad(1, 0, m - p):unsqueeze(2)
      local above = m > 1 and core.concatenate({ core.zeros({ m, 1 }, zero),
        core.eye(m, zero):slice(2, 1, m - 1) }, 2) or core.zeros({ 1, 1 }, zero)
      local transition = above + first:pad(2, 0, m - 1)
      local load = core.ones({ 1 }, zero)
      if q > 0 then load = core.concatenate({ load, v.ma }, 1) end
      load = load:pad(1, 0, m - load:size(1)):unsqueeze(2)
      local noise = load:matmul(load:t()) * v.scale ^ 2
      local emission = core.eye(m, zero):slice(1, 1, 1)
      return { transition = transition, noise = noise, emission = emission,
        cov = component.stationary(transition, noise) }
    end }
end

return component
