--- Ordinary differential equations, solved in one C operation whose right-hand side is captured: see pn.odeint.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local ode = {}

local capture, system = core.capture, core.ode

local MOST_TENSORS = 56 -- parameters that the operation takes one by one; more are packed into one

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

local function to(t, dtype)
  return t:dtype() == dtype and t or t:to(dtype)
end

-- ---- the tensors of a problem ----

-- The operation computes with float64 and takes few tensors. `given` are t, y0 and the parameters as the script gave
-- them; `tensors` what the operation gets: the same as float64, many parameters end to end as one.
local function problem_of(y0, parameters, n)
  local p = { given = { core.zeros({}, { dtype = y0:dtype() }), y0, table.unpack(parameters, 1, n) }, n = n }
  p.tensors = { to(p.given[1], "float64"), to(y0, "float64") }
  for k = 1, n do
    p.tensors[k + 2] = to(parameters[k], "float64")
  end
  p.packed = n > MOST_TENSORS
  if p.packed then
    local parts = {}
    for k = 1, n do
      parts[k] = p.tensors[k + 2]:reshape { -1 }
    end
    p.tensors = { p.tensors[1], p.tensors[2], core.concatenate(parts, 1) }
  end
  return p
end

-- What f is called with, of what stands for p.tensors: as the script gave them.
local function arguments_of(p, t, y, ...)
  local list, at = { t, y, ... }, 0
  for k = 3, p.packed and p.n + 2 or 0 do
    local like = p.given[k]
    list[k] = (...):slice(1, at + 1, at + like:numel()):reshape(like:shape())
    at = at + like:numel()
  end
  for k = 1, p.n + 2 do
    list[k] = to(list[k], p.given[k]:dtype())
  end
  return table.unpack(list, 1, p.n + 2)
end

-- ---- the right-hand side ----

-- dy/dt as f gives it, once it is known to fit y.
local function slope(f, p, ...)
  local dy = f(arguments_of(p, ...))
  local y = p.given[2]
  if not core.is_tensor(dy) then
    core.error(("odeint: f must return dy/dt, a tensor of y's shape %s, got %s"):format(shape_text(y), type(dy)))
  elseif shape_text(dy) ~= shape_text(y) then
    core.error(("odeint: f must return dy/dt of y's shape %s, got shape %s"):format(shape_text(y), shape_text(dy)))
  elseif dy:dtype() ~= y:dtype() then
    core.error(("odeint: f must return %s, as y0 is, got %s"):format(y:dtype(), dy:dtype()))
  end
  return to(dy, "float64"):contiguous()
end

-- v^T df/dy and v^T df/dparameter for each.
local function pullback(f, p, t, y, ...)
  local inputs = { y, ... }
  local v = table.remove(inputs)
  local n = #inputs
  local dy = slope(f, p, t, table.unpack(inputs, 1, n))
  local gradients = {}
  if dy:requires_grad() then
    gradients = core.grad((dy * v):sum(), inputs)
  end
  for k, x in ipairs(inputs) do
    gradients[k] = (gradients[k] or core.zeros(x:shape(), { dtype = "float64" })):contiguous()
  end
  return table.unpack(gradients, 1, n)
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
  elseif t:dtype() ~= "float64" and t:dtype() ~= "float32" then
    core.error(("odeint: %s must be float64 or float32, got %s (convert with :to)"):format(role, t:dtype()))
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
--- times [T], where y = y0 at the first of them. Times increase or decrease.
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
--- parameters   list of the tensors on which f depends, as many as there are: gradients flow to them, to y0 and to the
---              times alone
--- rtol, atol   1e-6, 1e-8: the error of a step is held below atol + rtol |y| (root mean square over y)
--- max_steps    10000 steps may be tried
--- first_step, max_step    lengths; 0: found by itself, without limit
---
--- Tensors are float64 or float32, each as it likes. f gets y and t as y0 is, each parameter as it is, and returns what
--- y0 is; so is the solution, and a gradient is what its tensor is. Steps are summed and their errors taken in float64
--- also where f computes in float32, whose rounding, some 1e-7 of y, is then what limits the tolerances.
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
  for k = 1, n do
    check_tensor("parameters[" .. k .. "]", parameters[k])
    wanted = wanted or parameters[k]:requires_grad()
  end
  wanted = wanted and records_gradients()
  local p = problem_of(y0, parameters, n)
  local m = #p.tensors
  local rhs = captured(function(...)
    local dy = slope(f, p, ...)
    if dy:requires_grad() then
      core.error "odeint: f uses a parameter that is not among its parameters: pass it in {parameters = {...}}"
    end
    return dy
  end, 1, 0, table.unpack(p.tensors))
  local arguments = { table.unpack(p.tensors) }
  arguments[m + 1] = p.tensors[2]
  local function gradient(...) return pullback(f, p, ...) end
  local back = wanted and captured(gradient, 2, m, table.unpack(arguments)) or nil
  return to(system.solve(rhs, back, o, p.tensors[2], to(times, "float64"), table.unpack(p.tensors, 3)), y0:dtype())
end

return ode
