--- Ordinary differential equations, solved in one C operation whose right-hand side is captured: see pn.odeint.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local ode = {}

local capture, system = core.capture, core.ode

local MOST_PARAMETERS = 60 -- as the operation has it

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

-- dy/dt as f gives it, once it is known to fit y.
local function slope(f, t, y, ...)
  local dy = f(t, y, ...)
  if not core.is_tensor(dy) then
    core.error(("odeint: f must return dy/dt, a tensor of y's shape %s, got %s"):format(shape_text(y), type(dy)))
  elseif shape_text(dy) ~= shape_text(y) then
    core.error(("odeint: f must return dy/dt of y's shape %s, got shape %s"):format(shape_text(y), shape_text(dy)))
  elseif dy:dtype() ~= "float64" then
    core.error("odeint: f must return float64, got " .. dy:dtype())
  end
  return dy:contiguous()
end

-- v^T df/dy and v^T df/dparameter for each.
local function pullback(f, n, t, y, ...)
  local inputs = { y, ... }
  local v = table.remove(inputs)
  local dy = slope(f, t, y, table.unpack(inputs, 2, n + 1))
  local gradients = {}
  if dy:requires_grad() then
    gradients = core.grad((dy * v):sum(), inputs)
  end
  for k, x in ipairs(inputs) do
    gradients[k] = (gradients[k] or core.zeros(x:shape(), { dtype = "float64" })):contiguous()
  end
  return table.unpack(gradients, 1, n + 1)
end

-- What pcall gave; a capture that was begun since `before` and goes on ends.
local function settle(before, ok, ...)
  if ok then
    return ...
  end
  if system.current() ~= before then
    capture.cancel()
  end
  error((...), 0)
end

-- The plan of body on what stands for the tensors, of which those from first to last are differentiable.
local function captured(body, first, last, ...)
  return settle(system.current(), pcall(function(...)
    return system.leave(body(system.enter(first, last, ...)))
  end, ...))
end

local function check_tensor(role, t)
  if not core.is_tensor(t) then
    core.error(("odeint: %s must be a tensor, got %s"):format(role, type(t)))
  elseif t:dtype() ~= "float64" then
    core.error(("odeint: %s must be float64, got %s (convert with :to)"):format(role, t:dtype()))
  end
end

local function records_gradients()
  local off = core.set_no_grad(true)
  core.set_no_grad(off)
  return not off
end

local known = { parameters = {}, rtol = 1e-6, atol = 1e-8, max_steps = 10000, first_step = 0, max_step = 0 }

local function check_options(given)
  local o = options.check("odeint", given or {}, known)
  options.whole("odeint", "max_steps", o.max_steps, 1)
  for _, name in ipairs { "rtol", "atol", "first_step", "max_step" } do
    local least = (name == "rtol" or name == "atol") and "positive" or "positive (0: found by itself)"
    local v = o[name]
    if type(v) ~= "number" or not (v > 0 or v == 0 and least ~= "positive") or v == math.huge then
      core.error(("odeint: %s must be %s, got %s"):format(name, least, tostring(v)))
    end
  end
  return o
end

--- odeint(f, y0, times [, options]) -> y [T, shape of y0...]: the solution of dy/dt = f(t, y, parameters...) at the
--- times [T], where y = y0 at the first of them. Times increase or decrease; all tensors are float64.
---
---     local function f(t, y, theta)                            -- predators and prey
---       local u, v = y[1], y[2]
---       return pn.stack({ (theta[1] - theta[2] * v) * u, (theta[4] * u - theta[3]) * v }, 1)
---     end
---     local y = pn.odeint(f, pn.tensor{10, 5}, pn.linspace(0, 20, 21), {parameters = {theta}})
---
--- f gets t (0-d), y (of y0's shape) and the parameters, and returns dy/dt of y's shape, by operations on tensors: it
--- is called twice, to be captured, and what it reads from outside is constant. The solution then runs in C, as one
--- operation, also in pn.compile, pn.nuts and pn.svi.
---
--- parameters   list of the tensors on which f depends: gradients flow to them, to y0 and to the times alone
--- rtol, atol   1e-6, 1e-8: the error of a step is held below atol + rtol |y| (root mean square over y)
--- max_steps    10000 steps may be tried
--- first_step, max_step    lengths; 0: found by itself, without limit
---
--- The method is the Runge-Kutta pair of order 5(4) of Dormand & Prince with PI step control, and its interpolant of
--- order 4 at the times (Hairer, Norsett & Wanner, Solving Ordinary Differential Equations I, II.4 to II.6). It is
--- explicit: a stiff system takes many short steps. The gradient is that of the discrete solution with its steps held
--- as they were taken (Bock 1981); it has no gradient of its own. Too many or too short steps and values that are not
--- finite are errors, which samplers take as density 0.
function ode.odeint(f, y0, times, given)
  if type(f) ~= "function" then
    core.error("odeint: f must be a function (t, y, parameters...), got " .. type(f))
  end
  check_tensor("y0", y0)
  check_tensor("times", times)
  local o = check_options(given)
  local parameters = o.parameters
  if type(parameters) ~= "table" then
    core.error("odeint: parameters must be a list of tensors, got " .. type(parameters))
  end
  local n, wanted = #parameters, y0:requires_grad() or times:requires_grad()
  if n > MOST_PARAMETERS then
    core.error(("odeint: at most %d parameters are possible, got %d"):format(MOST_PARAMETERS, n))
  end
  for k = 1, n do
    check_tensor("parameters[" .. k .. "]", parameters[k])
    wanted = wanted or parameters[k]:requires_grad()
  end
  wanted = wanted and records_gradients()
  local t = core.zeros({}, { dtype = "float64" })
  local rhs = captured(function(...)
    local dy = slope(f, ...)
    if dy:requires_grad() then
      core.error "odeint: f uses a parameter that is not among its parameters: pass it in {parameters = {...}}"
    end
    return dy
  end, 1, 0, t, y0, table.unpack(parameters, 1, n))
  local arguments = { t, y0, table.unpack(parameters, 1, n) }
  arguments[n + 3] = y0
  local function gradient(...) return pullback(f, n, ...) end
  local back = wanted and captured(gradient, 2, n + 2, table.unpack(arguments)) or nil
  return system.solve(rhs, back, o, y0, times, table.unpack(parameters, 1, n))
end

return ode
