--- L-BFGS: quasi-Newton steps from the last gradients, with a line search that meets the strong Wolfe conditions. For
--- losses that are the same at each call: all data at once, a Gaussian process, a few thousand parameters.
-- help: pn.optim, methods lbfgs
local core = require "penumbra.core"
local form = require "penumbra.form"
local curvature = require "penumbra.autodiff.curvature"
local options = require "penumbra.options"

local lbfgs = {}
lbfgs.__index = lbfgs
lbfgs.__name = "optimiser"

local SUFFICIENT, CURVATURE, MOST_TRIALS = 1e-4, 0.9, 25 -- constants of the line search

local function dot(a, b) return (a * b):sum():item() end
local function largest(a) return a:abs():max():item() end

-- ---- a point of the line: {t =, f =, g = gradient, slope = along d} ----

-- Sets the parameters and evaluates f; nil where loss or gradient are not finite, and then what is wrong.
local function evaluate(self, f, x)
  for k, t in ipairs(curvature.unflatten(x, self.list)) do self.list[k]:set(t) end
  self.evaluations = self.evaluations + 1
  local out = table.pack(f())
  local loss = options.argument("step", "what f gives", out[1], "tensor")
  if loss:numel() ~= 1 then
    core.error(("step: f must give a loss of one element, got shape [%s]"):format(table.concat(loss:shape(), ", ")))
  end
  local value = loss:item()
  local grads
  if value ~= value or value == math.huge or value == -math.huge then
    return math.huge, nil, "the loss must be finite: " ..
      (loss:requires_grad() and core.nonfinite_cause(loss) or "given by the caller")
  elseif out.n > 1 then
    grads = table.move(out, 2, #self.list + 1, 1, {})
  else
    grads = core.grad(loss, self.list)
  end
  local g = curvature.flatten(grads):detach()
  if not g:isfinite():all():item() then
    return math.huge, nil, "the gradient must be finite: " ..
      (loss:requires_grad() and core.nonfinite_cause(loss) or "given by the caller")
  end
  return value, g
end

-- The minimum between lo and hi of the cubic with these values and slopes at a and b; the middle where there is none.
local function cubic(a, b, lo, hi)
  local middle = (lo + hi) / 2
  if not (a.slope and b.slope) or a.t == b.t then
    return middle
  end
  if a.t > b.t then
    a, b = b, a
  end
  local d = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
  local root = d * d - a.slope * b.slope
  if not (root >= 0 and root < math.huge) then
    return middle
  end
  root = math.sqrt(root)
  local t = b.t - (b.t - a.t) * ((b.slope + root - d) / (b.slope - a.slope + 2 * root))
  return t == t and math.min(math.max(t, lo), hi) or middle
end

-- An interval that holds points which meet the conditions, or one such point twice; and how many trials it took.
local function bracket(try, start, t)
  local before, now = start, try(t)
  for trials = 0, MOST_TRIALS - 1 do
    if not (now.f <= start.f + SUFFICIENT * now.t * start.slope) or trials > 1 and now.f >= before.f then
      return before, now, trials
    elseif math.abs(now.slope) <= -CURVATURE * start.slope then
      return now, now, trials
    elseif now.slope >= 0 then
      return before, now, trials
    end
    local longer = cubic(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
    before, now = now, try(longer)
  end
  return start, now, MOST_TRIALS
end

-- The next place to look at within the interval, away from its ends where the last trial was near one.
local function inside(a, b, near)
  local lo, hi = math.min(a.t, b.t), math.max(a.t, b.t)
  local t, margin = cubic(a, b, lo, hi), 0.1 * (hi - lo)
  if math.min(hi - t, t - lo) >= margin then
    return t, false
  elseif near or t >= hi or t <= lo then
    return math.abs(t - hi) < math.abs(t - lo) and hi - margin or lo + margin, false
  end
  return t, true
end

-- Algorithms 3.5 and 3.6 of Nocedal & Wright, Numerical Optimization, with cubic interpolation.
local function search(self, try, start, t, size)
  local low, high, trials = bracket(try, start, t)
  local near, done = false, low == high
  if high.f < low.f then
    low, high = high, low
  end
  while not done and trials < MOST_TRIALS do
    if math.abs(high.t - low.t) * size < self.tolerance_change then
      break
    end
    local at
    at, near = inside(low, high, near)
    local now = try(at)
    trials = trials + 1
    if not (now.f <= start.f + SUFFICIENT * now.t * start.slope) or now.f >= low.f then
      high = now
    else
      done = math.abs(now.slope) <= -CURVATURE * start.slope
      if not done and now.slope * (high.t - low.t) >= 0 then
        high = low
      end
      low = now
    end
    if high.f < low.f then
      low, high = high, low
    end
  end
  return low
end

-- ---- directions: the two-loop recursion, Nocedal & Wright, algorithm 7.4 ----

local function remember(self, g)
  local y, s = g - self.gradient, self.direction * self.length
  local product = dot(y, s)
  if product > 1e-10 then
    if #self.pairs == self.history then
      table.remove(self.pairs, 1)
    end
    table.insert(self.pairs, { s = s, y = y, rho = 1 / product })
    self.scale = product / dot(y, y)
  end
end

local function direction(self, g)
  local q, along = -g, {}
  for i = #self.pairs, 1, -1 do
    local p = self.pairs[i]
    along[i] = dot(p.s, q) * p.rho
    q = q - p.y * along[i]
  end
  q = q * self.scale
  for i, p in ipairs(self.pairs) do
    q = q + p.s * (along[i] - dot(p.y, q) * p.rho)
  end
  return q
end

-- ---- steps ----

-- One iteration from x; the next place and its point, or nil where none is better.
local function iterate(self, f, x, point)
  local g = point.g
  if self.iterations == 0 then
    self.direction = -g
  else
    remember(self, g)
    self.direction = direction(self, g)
  end
  local first = self.iterations == 0 and math.min(1, 1 / g:abs():sum():item()) or 1
  self.iterations, self.gradient, self.length = self.iterations + 1, g, first * self.lr
  local d = self.direction
  local start = { t = 0, f = point.f, g = g, slope = dot(g, d) }
  if not (start.slope <= -self.tolerance_change) then
    return nil
  end
  local function try(t)
    local value, gradient = evaluate(self, f, x + d * t)
    return { t = t, f = value, g = gradient, slope = gradient and dot(gradient, d) }
  end
  local best = search(self, try, start, self.length, largest(d))
  self.length = best.t
  return x + d * best.t, best
end

local function run(self, f)
  local x = curvature.flatten(self.list):detach() + 0
  local before, most = self.evaluations, self.max_evaluations or self.max_steps * 5 // 4
  local value, g, wrong = evaluate(self, f, x)
  if wrong then
    core.error("lbfgs: " .. wrong)
  end
  local point = { f = value, g = g }
  for _ = 1, largest(g) > self.tolerance_grad and self.max_steps or 0 do
    local y, best = iterate(self, f, x, point)
    if not best then
      break
    end
    local moved, fallen = largest(self.direction * self.length), math.abs(best.f - point.f)
    x, point = y, best
    if self.evaluations - before >= most or largest(point.g) <= self.tolerance_grad or moved <= self.tolerance_change
      or fallen < self.tolerance_change then
      break
    end
  end
  return x, point.f
end

local function put(self, x)
  for k, t in ipairs(curvature.unflatten(x, self.list)) do self.list[k]:set(t) end
end

local kept = { "iterations", "evaluations", "length", "scale", "gradient", "direction", "pairs" }

--- opt:step(f) -> the loss afterwards, a number. f() computes the loss at the parameters as they are, and is called
--- several times; it gives the loss, or the loss and its gradients in the order of opt:parameters(), as a compiled
--- function does: pn.compile(function() local y = loss() return y, table.unpack(pn.grad(y, net:parameters())) end).
--- An error inside, and a loss or gradient that is not finite at the start, raise; parameters are then as before.
function lbfgs:step(f)
  if type(f) ~= "function" then
    options.argument("step", "f", f, "function") -- may be callable
  end
  local x, old = curvature.flatten(self.list):detach() + 0, {}
  for _, key in ipairs(kept) do old[key] = self[key] end
  old.pairs = table.move(self.pairs, 1, #self.pairs, 1, {})
  local ok, y, value = pcall(run, self, f)
  if not ok then
    for _, key in ipairs(kept) do self[key] = old[key] end
    put(self, x)
    error(y, 0)
  end
  put(self, y)
  return value
end

--- The list of what is optimised.
function lbfgs:parameters() return self.list end

--- Table name -> tensor: the last gradients and steps; opt:load_state(t) goes on exactly there.
function lbfgs:state()
  local state = { numbers = core.tensor({ self.iterations, self.evaluations, self.length, self.scale },
    { dtype = "float64" }) }
  if self.gradient then
    state.gradient, state.direction = self.gradient + 0, self.direction + 0
  end
  if #self.pairs > 0 then
    local s, y, rho = {}, {}, {}
    for i, p in ipairs(self.pairs) do s[i], y[i], rho[i] = p.s, p.y, p.rho end
    state.s, state.y, state.rho = core.stack(s, 1), core.stack(y, 1), core.tensor(rho, { dtype = "float64" })
  end
  return state
end

local function check_state(self, state)
  local size, dtype = curvature.flatten(self.list):numel(), self.list[1]:dtype()
  local m = core.is_tensor(state.s) and state.s:ndim() == 2 and state.s:size(1) or 0
  local known = { numbers = form.tensor { dtype = "float64", shape = { 4 }, finite = true, least = 0 } }
  local vector, rows = form.tensor { dtype = dtype, shape = { size }, finite = true },
    form.tensor { dtype = dtype, shape = { m, size }, finite = true }
  if state.gradient ~= nil or state.direction ~= nil or state.s ~= nil then
    known.gradient, known.direction = vector, vector
  end
  if state.s ~= nil or state.y ~= nil or state.rho ~= nil then
    known.s, known.y = rows, rows
    known.rho = form.tensor { dtype = "float64", shape = { m }, finite = true, positive = true }
  end
  form.check("load_state", "state", state, form.record(known, "part of this optimiser's state"))
  for k = 1, 2 do -- iterations and evaluations
    local n = state.numbers:select(1, k):item()
    form.check("load_state", ("number %d of 'numbers'"):format(k), math.tointeger(n) or n, form.whole(0))
  end
end

--- Restores what state() gave. What does not fit raises, and then nothing has changed.
function lbfgs:load_state(state)
  options.argument("load_state", "state", state, "table")
  check_state(self, state)
  local numbers = state.numbers:totable()
  self.iterations, self.evaluations = math.tointeger(numbers[1]), math.tointeger(numbers[2])
  self.length, self.scale = numbers[3], numbers[4]
  self.gradient = state.gradient and state.gradient + 0
  self.direction = state.direction and state.direction + 0
  self.pairs = {}
  local rho = state.rho and state.rho:totable() or {}
  for i = 1, #rho do
    self.pairs[i] = { s = state.s[i] + 0, y = state.y[i] + 0, rho = rho[i] }
  end
  return self
end

--- The name of the optimiser.
function lbfgs.type(_) return "lbfgs" end

function lbfgs:__tostring()
  return ("lbfgs(lr = %g, history = %d)"):format(self.lr, self.history)
end

core.public(lbfgs)

--- new(list, given): an optimiser of the parameters in the list.
function lbfgs.new(list, given)
  local o = options.check("lbfgs", given or {}, { lr = 1.0, max_steps = 20, history = 100, tolerance_grad = 1e-7,
    tolerance_change = 1e-9, max_evaluations = options.optional "number" })
  options.whole("lbfgs", "history", o.history, 1)
  for k, w in ipairs(list) do
    if not w:is_param() then
      core.error(("lbfgs: parameter %d must be made by param, got another tensor"):format(k))
    end
  end
  o.list, o.pairs, o.scale, o.length, o.iterations, o.evaluations = list, {}, 1, 0, 0, 0
  return setmetatable(o, lbfgs)
end

return lbfgs
