--- Ordinary differential equations, solved in one C operation whose right-hand side is captured: see pn.odeint.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local each_row = require("penumbra.autodiff.derivative").each_row
local recording = require "penumbra.autodiff.recording"

local ode = {}

local capture, system = core.capture, core.ode

local MOST_TENSORS = 56 -- parameters that the operation takes one by one; more are packed into one

local shape_text = options.shape_text

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
    core.error(("odeint: f must return dy/dt of y's shape %s, got shape %s (it is called as f(t, y))"):format(
      shape_text(y), shape_text(dy)))
  elseif dy:dtype() ~= y:dtype() then
    core.error(("odeint: f must return %s, as y0 is, got %s"):format(y:dtype(), dy:dtype()))
  end
  return to(dy, "float64"):contiguous()
end

-- Gradients of the number x, if it has any, in the inputs, each in a piece.
local function gradients(x, inputs, given)
  local found = x:requires_grad() and core.grad(x, inputs, given) or {}
  for k, t in ipairs(inputs) do
    found[k] = (found[k] or core.zeros(t:shape(), { dtype = "float64" })):contiguous()
  end
  return table.unpack(found, 1, #inputs)
end

-- The last n of the list are taken out of it.
local function split(list, n)
  return table.move(list, 1, #list - n, 1, {}), table.unpack(list, #list - n + 1)
end

-- v^T df/dy and v^T df/dparameter for each.
local function pullback(f, p, t, ...)
  local inputs, v = split({ ... }, 1)
  local dy = slope(f, p, t, table.unpack(inputs))
  return gradients((dy * v):sum(), inputs)
end

-- df/dy [n, n] and df/dt [n] of n elements.
local function jacobian(f, p, t, y, ...)
  local dy, n = slope(f, p, t, y, ...):reshape { -1 }, y:numel()
  local rows = { core.zeros({ n, n }), core.zeros { n } }
  if dy:requires_grad() then
    rows = each_row(n, dy, function(u) return table.unpack(core.grad((dy * u):sum(), { y, t })) end)
  end
  return rows[1]:reshape({ n, n }):contiguous(), rows[2]:contiguous()
end

-- The gradients of v^T (df/dy u + tau df/dt) in y and each parameter.
local function curvature(f, p, t, ...)
  local inputs, v, u, tau = split({ ... }, 3)
  local dy = slope(f, p, t, table.unpack(inputs))
  local along = core.zeros {}
  if dy:requires_grad() then
    local g = core.grad((dy * v):sum(), { inputs[1], t }, { create_graph = true })
    along = (g[1] * u):sum() + g[2] * tau
  end
  return gradients(along, inputs)
end

-- ---- events ----

local directions = { up = 1, down = -1, both = 0 }
local event_options = { direction = options.choice("both", "up", "down"), terminal = false,
  count = options.optional "number" }

-- One event as the script gives it: a function, or a table with it.
local function read_event(name, given)
  local e = type(given) == "table" and table.move(given, 1, #given, 1, {}) or { given }
  if type(name) ~= "string" or #name > 31 then
    core.error(("odeint: an event's name must be a text of at most 31 characters, got %s"):format(tostring(name)))
  elseif type(e[1]) ~= "function" or #e > 1 then
    core.error(("odeint: event '%s' must be a function (t, y, parameters...), or {function, direction =, ...}, got %s")
      :format(name, type(e[1])))
  end
  local set = {}
  for key, value in pairs(type(given) == "table" and given or {}) do
    if key ~= 1 then set[key] = value end
  end
  local o = options.check(("odeint: event '%s'"):format(name), set, event_options)
  local terminal = options.argument("odeint", "terminal", o.terminal, "boolean")
  return { name = name, f = e[1], direction = directions[o.direction], terminal = terminal,
    count = o.count or (terminal and 1 or 16) }
end

-- The events in the order of their names.
local function read_events(given)
  local list = {}
  for name, event in pairs(given) do
    list[#list + 1] = read_event(name, event)
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- The value of each event, [events].
local function event_values(list, p, ...)
  local values = {}
  for k, e in ipairs(list) do
    local v = e.f(arguments_of(p, ...))
    if not core.is_tensor(v) or v:numel() ~= 1 then
      core.error(("odeint: event '%s' must give a tensor of one number, got %s"):format(e.name,
        core.is_tensor(v) and "shape " .. shape_text(v) or type(v)))
    elseif v:dtype() ~= "float64" and v:dtype() ~= "float32" then
      core.error(("odeint: event '%s' must give float64 or float32, got %s"):format(e.name, v:dtype()))
    end
    values[k] = to(v, "float64"):reshape {1}
  end
  return core.concatenate(values, 1):contiguous()
end

-- The gradients of w^T values in y, each parameter and t.
local function events_pullback(list, p, t, ...)
  local inputs, w = split({ ... }, 1)
  local values = event_values(list, p, t, table.unpack(inputs))
  inputs[#inputs + 1] = t
  return gradients((values * w):sum(), inputs)
end

-- The solution and what there is of each event, of the vector that holds both.
local function parts_of(all, list, times, y0)
  local n, shape, at = y0:numel(), y0:shape(), 0
  local function take(count, ...)
    local part = all:slice(1, at + 1, at + count):reshape { ... }
    at = at + count
    return part
  end
  local y, found = take(times:numel() * n, times:numel(), table.unpack(shape)), {}
  for _, e in ipairs(list) do
    found[e.name] = { number = take(1):detach(), times = take(e.count, e.count),
      states = take(e.count * n, e.count, table.unpack(shape)) }
  end
  return y, found
end

-- ---- captures ----

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
  local off = recording.is_off()
  return not off
end

local known = { parameters = {}, rtol = 1e-6, atol = 1e-8, max_steps = 10000, first_step = 0, max_step = 0,
  method = options.choice("dormand_prince", "rosenbrock"),
  gradient = options.choice("trajectory", "checkpoints"), events = {} }

local function check_options(given)
  local o = options.check("odeint", given or {}, known)
  for _, name in ipairs { "rtol", "atol", "first_step", "max_step" } do
    local least = (name == "rtol" or name == "atol") and "positive" or "positive (0: found by itself)"
    local v = o[name]
    if type(v) ~= "number" or not (v > 0 or v == 0 and least ~= "positive") or v == math.huge then
      core.error(("odeint: %s must be %s, got %s"):format(name, least, tostring(v)))
    end
  end
  return o
end

-- Captures what solving needs, into o; returns the pullback where gradients are wanted.
local function capture_plans(f, p, o, wanted, events)
  local t, y, m = p.tensors[1], p.tensors[2], #p.tensors
  local function plan(body, of, first, last, ...)
    local inputs = { table.unpack(p.tensors) }
    table.move({ ... }, 1, select("#", ...), m + 1, inputs)
    return captured(function(...) return body(of, p, ...) end, first, last, table.unpack(inputs))
  end
  o.rhs = plan(function(...)
    local dy = slope(...)
    if dy:requires_grad() then
      core.error "odeint: f uses a parameter that is not among its parameters: pass it in {parameters = {...}}"
    end
    return dy
  end, f, 1, 0)
  o.rosenbrock, o.checkpoints, o.event = o.method == "rosenbrock", o.gradient == "checkpoints", events
  local back = wanted and plan(pullback, f, 2, m, y)
  if o.rosenbrock then
    o.jacobian = plan(jacobian, f, 1, 2)
    o.curvature = wanted and plan(curvature, f, 1, m, y, y, t)
  end
  if #events > 0 then
    o.events = plan(event_values, events, 1, 0)
    o.events_pullback = wanted and plan(events_pullback, events, 1, m, core.zeros { #events })
  end
  return back or nil
end

--- odeint(f, y0, times [, options]) -> y [T, shape of y0...] [, events]: the solution of dy/dt = f(t, y, parameters...)
--- at the times [T], where y = y0 at the first of them. Times increase or decrease.
---
---     local function f(t, y, theta)                            -- predators and prey
---       local u, v = y[1], y[2]
---       return pn.stack({ (theta[1] - theta[2] * v) * u, (theta[4] * u - theta[3]) * v }, 1)
---     end
---     local y = pn.odeint(f, pn.tensor{10, 5}, pn.linspace(0, 20, 21), {parameters = {theta}})
---
--- f gets t (0-d), y (of y0's shape) and the parameters, and returns dy/dt of y's shape, by operations on tensors: it
--- is called a few times, to be captured, and what it reads from outside is constant. The solution then runs in C, as
--- one operation, also in pn.compile, pn.nuts and pn.svi.
---
--- parameters   list of the tensors on which f depends, as many as there are: gradients flow to them, to y0 and to the
---              times alone
--- method       "dormand_prince" or, for stiff systems, "rosenbrock"
--- events       table of functions by name: see below
--- gradient     "trajectory" keeps all steps until a gradient is asked for; "checkpoints" keeps some, for memory of the
---              square root of their number, and takes the steps twice: the same bits
--- rtol, atol   1e-6, 1e-8: the error of a step is held below atol + rtol |y| (root mean square over y)
--- max_steps    10000 steps may be tried
--- first_step, max_step    lengths; 0: found by itself, without limit
---
--- Tensors are float64 or float32, each as it likes. f gets y and t as y0 is, each parameter as it is, and returns what
--- y0 is; so is the solution, and a gradient is what its tensor is. Steps are summed and their errors taken in float64
--- also where f computes in float32, whose rounding, some 1e-7 of y, is then what limits the tolerances.
---
--- dormand_prince is the Runge-Kutta pair of order 5(4) of Dormand & Prince with PI step control, and its interpolant
--- of order 4 at the times (Hairer, Norsett & Wanner, Solving Ordinary Differential Equations I, II.4 to II.6). It is
--- explicit: a stiff system takes many short steps. rosenbrock is RODASP, of order 4(3), L-stable and stiffly accurate,
--- with an interpolant of order 3 (Steinebach 1995; Hairer & Wanner, Solving Ordinary Differential Equations II, VI.4),
--- which is held to the tolerances, too, where it is used. Each step takes the Jacobian of f, [n, n] for n elements of
--- y, and solves six linear systems: y is one system, whatever its shape. f must then have second derivatives where
--- gradients are wanted.
---
--- The gradient is that of the discrete solution with its steps held as they were taken (Bock 1981); it has no gradient
--- of its own. Too many or too short steps and values that are not finite are errors, which samplers take as density 0.
---
--- An event is a number that passes through zero, g(t, y, parameters...): the function, captured as f is, or a table
--- {function, direction = "up", "down" or "both", terminal = false, count = 16}. The second result tells for each name
--- its number (0-d), times [count] and states [count, shape of y0...], NaN where there were no more: the shapes, and so
--- what pn.compile captures, do not depend on how many there were. More than count, 1 for a terminal one, are an error.
--- A terminal event ends the solution: it is NaN at the times after it. Directions are those of the way that is gone.
---
---     local function ground(t, y) return y[1] end
---     local y, found = pn.odeint(fall, pn.tensor{2, 0}, pn.tensor{0, 10}, {parameters = {g},
---       events = {impact = {ground, direction = "down", terminal = true}}})
---     pn.grad(found.impact.times[1], {g})
---
--- Events are located on the interpolant to rounding, where their values at the ends of a step differ in sign: two
--- within one step are not seen (max_step), nor is a value that is zero where a step begins. Gradients of times and
--- states are those of the implicit function; they go on into what is solved from there.
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
  local back = capture_plans(f, p, o, wanted, read_events(o.events))
  local all = system.solve(o.rhs, back, o, p.tensors[2], to(times, "float64"), table.unpack(p.tensors, 3))
  if #o.event == 0 then
    return to(all, y0:dtype())
  end
  return parts_of(to(all, y0:dtype()), o.event, times, y0)
end

return ode
