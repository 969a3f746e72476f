--- Stochastic differential equations, solved in one C operation whose step is captured: see pn.sde.
-- help: pn, quiet
local brownian = require "penumbra.autodiff.brownian"
local core = require "penumbra.core"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local scheme = require "penumbra.autodiff.sde_scheme"

local sde = {}

local capture, system = core.capture, core.sde

local CHUNK = 2048 -- numbers of y that are taken through their steps together

local gradients = { graph = 0, checkpoints = 1, reversible = 2 }

local function text(shape)
  return "[" .. table.concat(shape, ", ") .. "]"
end

-- ---- what drift and diffusion give ----

local function check_result(role, x, shape, dtype)
  if not core.is_tensor(x) then
    core.error(("sde: %s must return a tensor of shape %s, got %s"):format(role, text(shape), type(x)))
  elseif text(x:shape()) ~= text(shape) then
    core.error(("sde: %s must return shape %s (y is a chunk of the paths), got %s"):format(role, text(shape),
      text(x:shape())))
  elseif x:dtype() ~= dtype then
    core.error(("sde: %s must return %s, as y is, got %s"):format(role, dtype, x:dtype()))
  end
  return x
end

-- ---- capture ----

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
local function captured(body, first, last, list)
  return settle(system.current(), pcall(recording.on, function()
    return system.leave(body(system.enter(first, last, table.unpack(list))))
  end))
end

-- The step of problem p on tensors t, h, w, (area,) y, parameters...: its result, y and the parameters.
local function step_of(p, ...)
  local list = { ... }
  local t, h, w, area = list[1], list[2], list[3], p.row.area and list[4] or nil
  local y = list[p.y]
  local parameters = table.pack(table.unpack(list, p.y + 1, p.y + p.parameters))
  local shape, noise = p.shape, p.noise_shape
  local problem = { noise = p.noise, calculus = p.calculus, batched = p.batched }
  function problem.drift(at, x)
    return check_result("drift", p.drift(at, x, table.unpack(parameters, 1, parameters.n)), shape, p.dtype)
  end
  function problem.diffusion(at, x)
    return check_result("diffusion", p.diffusion(at, x, table.unpack(parameters, 1, parameters.n)), noise, p.dtype)
  end
  return p.row.step(problem, t, h, y, w, area), y, parameters
end

local function plan_of_step(p, list)
  local last = p.row.slopes and p.y or p.y - 1
  if p.calculus == "ito" and p.row.calculus ~= "ito" then
    last = p.y
  end
  return captured(function(...)
    local next, y = step_of(p, ...)
    if next:requires_grad() and core.leaf_beyond(next, { y }) then
      core.error("sde: drift or diffusion uses a parameter that is not among its parameters: pass it in " ..
        "{parameters = {...}}")
    end
    return next:detach():contiguous()
  end, p.y, last, list)
end

-- v^T d step / dy and v^T d step / d parameter for each.
local function plan_of_pullback(p, list)
  local arguments = { table.unpack(list) }
  arguments[#arguments + 1] = list[p.y]
  return captured(function(...)
    local v = select(#arguments, ...)
    local next, y, parameters = step_of(p, ...)
    local inputs, out = { y, table.unpack(parameters, 1, parameters.n) }, {}
    if next:requires_grad() then
      out = core.grad((next * v):sum(), inputs)
    end
    for k, x in ipairs(inputs) do
      out[k] = (out[k] or core.zeros(x:shape(), { dtype = p.dtype })):contiguous()
    end
    return table.unpack(out, 1, #inputs)
  end, p.y, p.y + p.parameters, arguments)
end

-- Has the diffusion no slope in y?
local function is_additive(p, list)
  return settle(system.current(), pcall(recording.on, function()
    local inside = { system.enter(p.y, p.y, table.unpack(list)) }
    local y = inside[p.y]
    local g = p.diffusion(inside[1], p.states > 1 and y[1] or y, table.unpack(inside, p.y + 1, p.y + p.parameters))
    local free = not (core.is_tensor(g) and g:requires_grad())
    capture.cancel()
    return free
  end))
end

-- ---- arguments ----

local function check_tensor(role, t, dtype)
  if not core.is_tensor(t) then
    core.error(("sde: %s must be a tensor, got %s"):format(role, type(t)))
  elseif dtype and t:dtype() ~= dtype then
    core.error(("sde: %s must be %s, as y0 is, got %s (convert with :to)"):format(role, dtype, t:dtype()))
  end
end

local function check_number(name, v, least, what)
  if type(v) ~= "number" or not (v > least or v == least and what == "not be negative") or v == math.huge then
    core.error(("sde: %s must %s, got %s"):format(name, what, tostring(v)))
  end
end

local known = { parameters = {}, per_path = options.optional "table",
  calculus = options.choice("ito", "stratonovich"), method = options.optional "string",
  noise = options.choice("diagonal", "scalar", "additive", "general"),
  step = 0, max_steps = 1000000, gradient = options.choice("graph", "checkpoints", "reversible"),
  path = options.any(false), generator = options.optional(), chunk = 0, adaptive = false, rtol = 1e-3, atol = 1e-6,
  first_step = 0 }

local function check_options(given)
  local o = options.check("sde", given or {}, known)
  o.method = o.method or (o.calculus == "ito" and "euler_maruyama" or "heun")
  options.check("sde", { method = o.method }, { method = options.one_of("heun", scheme.names) })
  check_number("step", o.step, 0, "not be negative")
  options.whole("sde", "chunk", o.chunk, 0)
  check_number("rtol", o.rtol, 0, "be positive")
  check_number("atol", o.atol, 0, "be positive")
  check_number("first_step", o.first_step, 0, "not be negative")
  if o.path and not brownian.is_path(o.path) then
    core.error("sde: path must be a pn.brownian, got " .. type(o.path))
  elseif o.path and o.generator then
    core.error "sde: a path is drawn already: generator has nothing to draw"
  end
  return o
end

local function check_method(o)
  local row = scheme.rows[o.method]
  if row.calculus and row.calculus ~= o.calculus then
    core.error(("sde: %s converges to the solution in Ito's sense: for calculus = '%s' take heun, euler_heun, " ..
      "milstein or reversible_heun"):format(o.method, o.calculus))
  elseif o.gradient == "reversible" and not row.reversible then
    core.error(("sde: gradient = 'reversible' needs method = 'reversible_heun', whose steps can be undone; %s keeps " ..
      "its states ('graph', 'checkpoints')"):format(o.method))
  end
  return row
end

-- Milstein's scheme for several motions is right where they commute: looked at, where numbers can be, at y0.
local function check_commuting(p, y0, times, parameters)
  if p.noise ~= "general" or p.row.step ~= scheme.rows.milstein.step or p.additive or capture.going_on() then
    return
  end
  local y = y0:detach():requires_grad(true)
  local problem = { noise = p.noise, batched = p.batched }
  function problem.diffusion(t, x) return p.diffusion(t, x, table.unpack(parameters)) end
  local j, k = recording.on(scheme.clash, problem, times[1]:to(p.dtype), y)
  if j then
    core.error(("sde: method = 'milstein' needs motions that commute; %d and %d do not at y0, and their joint areas " ..
      "are not drawn: take heun or euler_maruyama"):format(j, k))
  end
end

-- Steps that depend on the path lead to the solution only where the scheme has strong order 1 for the noise.
local function check_adaptive(p, method)
  if p.additive or p.row.order and p.noise ~= "general" then
    return
  end
  core.error(("sde: adaptive steps with %s and noise = '%s' would not converge to the solution: steps that depend " ..
    "on the path need strong order 1 (take milstein, heun or euler_heun with diagonal or scalar noise, or a " ..
    "diffusion that does not depend on y)"):format(method, p.noise))
end

-- Parameters as two tensors: the numbers of those that all paths share, and a row for each path of the others.
local function flatten(o, y0, paths)
  local own, shared, rows = {}, {}, {}
  local dtype = y0:dtype()
  if o.per_path and #o.per_path ~= #o.parameters then
    core.error(("sde: per_path must say true or false of each of the %d parameters, got %d"):format(#o.parameters,
      #o.per_path))
  end
  for k, t in ipairs(o.parameters) do
    check_tensor(("parameters[%d]"):format(k), t, dtype)
    own[k] = o.per_path and o.per_path[k] and true or false
    if own[k] and (t:ndim() < 1 or t:size(1) ~= paths) then
      core.error(("sde: parameters[%d] is per path: its first axis must be the %d paths, got shape %s"):format(k,
        paths, text(t:shape())))
    end
    if own[k] then
      rows[#rows + 1] = t:reshape { paths, -1 }
    else
      shared[#shared + 1] = t:reshape { -1 }
    end
  end
  local none = core.zeros({ 0 }, { dtype = dtype })
  return own, #shared > 0 and core.concatenate(shared, 1) or none,
    #rows > 0 and core.concatenate(rows, 2) or none
end

-- ---- the problem ----

local function check_arguments(drift, diffusion, y0, times)
  options.argument("sde", "drift", drift, "function")
  options.argument("sde", "diffusion", diffusion, "function")
  check_tensor("y0", y0)
  check_tensor("times", times)
  if y0:dtype() ~= "float64" and y0:dtype() ~= "float32" then
    core.error("sde: y0 must be float64 or float32, got " .. y0:dtype())
  elseif y0:numel() == 0 then
    core.error(("sde: y0 must have an element, got shape %s"):format(text(y0:shape())))
  elseif times:ndim() ~= 1 or times:numel() == 0 then
    core.error(("sde: times must be a vector [T], got shape %s"):format(text(times:shape())))
  elseif times:requires_grad() then
    core.error "sde: a gradient in times does not exist: Brownian motion has no slope (detach them)"
  end
end

-- How many motions drive a path; with general noise the diffusion says it.
local function count_motions(p, y0, times, o)
  if p.noise == "scalar" then
    return 1
  elseif p.noise ~= "general" then
    return y0:numel() // p.paths
  end
  local g = recording.off(p.diffusion, times[1]:to(p.dtype), y0, table.unpack(o.parameters))
  local shape = core.is_tensor(g) and g:shape() or {}
  local m = table.remove(shape)
  if not m or text(shape) ~= text(y0:shape()) or m < 1 then
    core.error(("sde: with noise = 'general' diffusion must return y's shape and an axis for the motions, [%s, m], " ..
      "got %s"):format(table.concat(y0:shape(), ", "), core.is_tensor(g) and text(g:shape()) or type(g)))
  end
  return m
end

local function with_first(n, shape)
  local out = { table.unpack(shape) }
  out[1] = n
  return out
end

-- Shapes within a chunk: of y, of the diffusion and of the motions.
local function shape_of_chunk(p, y0, o)
  local shape = y0:shape()
  p.batched = #shape > 1
  p.paths = p.batched and shape[1] or 1
  local each = y0:numel() // p.paths
  local most = o.chunk > 0 and o.chunk or math.max(CHUNK // each, 1)
  local chunks = math.ceil(p.paths / most)
  p.rows = math.ceil(p.paths / chunks)
  p.shape = p.batched and with_first(p.rows, shape) or shape
end

local function shape_of_noise(p)
  local shape = p.shape
  p.noise_shape = { table.unpack(shape) }
  p.motion_shape = { table.unpack(shape) }
  if p.noise == "scalar" then
    for k = p.batched and 2 or 1, #shape do p.motion_shape[k] = 1 end
  elseif p.noise == "general" then
    p.noise_shape[#shape + 1] = p.motions
    p.motion_shape = p.batched and { p.rows, p.motions } or { p.motions }
  end
end

-- What stands for t, h, w, (area,) y and parameters when the step is captured.
local function stand_ins(p, y0, times, own, parameters)
  local like = { dtype = p.dtype }
  local list = { times:slice(1, 1, 1):reshape({}):to(p.dtype), core.full({}, 1, like),
    core.zeros(p.motion_shape, like) }
  if p.row.area then
    list[4] = core.zeros(p.motion_shape, like)
  end
  local y = p.batched and y0:slice(1, 1, p.rows) or y0
  p.states, p.y, p.parameters = p.row.states or 1, #list + 1, #parameters
  if p.states > 1 then
    y = core.stack({ y, y }, 1)
  end
  list[p.y] = y
  for k, t in ipairs(parameters) do
    list[p.y + k] = own[k] and t:slice(1, 1, p.rows) or t
  end
  return list
end

local function check_path(p, path)
  local n = 1
  for _, size in ipairs(path.shape) do n = n * size end
  if n ~= p.paths * p.motions then
    core.error(("sde: path must have %d motions (%d for each of %d paths), got shape %s"):format(p.paths * p.motions,
      p.motions, p.paths, text(path.shape)))
  end
end

local function wanted(y0, parameters)
  local off = recording.is_off()
  local any = y0:requires_grad()
  for _, t in ipairs(parameters) do
    any = any or t:requires_grad()
  end
  return any and not off
end

--- sde(drift, diffusion, y0, times [, options]) -> y [T, shape of y0...]: paths of dy = f(t, y) dt + g(t, y) dW from
--- y0 at the first of the increasing times [T], at all of them.
---
---     local theta = pn.param(pn.tensor{0.5, 0.2})
---     local function drift(t, y, p) return p[1] * y end
---     local function diffusion(t, y, p) return p[2] * y end
---     local y = pn.sde(drift, diffusion, pn.ones(1000, 1), pn.linspace(0, 1, 11), {parameters = {theta}, step = 0.01})
---     pn.grad(y[11]:mean(), {theta})
---
--- y0 [paths, ...] has the paths along its first axis; a vector is one path. drift and diffusion get t (0-d), y and the
--- parameters, and return tensors, by operations on tensors. They are called a few times, to be captured, with a chunk
--- of the paths: y is [some paths, ...], and they must treat each path by itself (one that does not is refused). What
--- they read from outside is constant. The solution then runs in C, as one operation, also in pn.compile, pn.nuts and
--- pn.svi, side by side in threads: the same bits for any number of them. float64 or float32, as y0 is.
---
--- parameters   list of the tensors on which both depend: gradients flow to them and to y0
--- per_path     list of true and false: parameters whose first axis is the paths, of which a path sees its row
--- noise        "diagonal": g has y's shape, a motion for each element; "additive": the same, and y does not enter;
---              "scalar": y's shape, one motion for each path; "general": y's shape and [m], m motions for each path
--- calculus     "ito", "stratonovich": in what sense the equation is meant
--- method       "euler_maruyama" (Ito; default there): strong order 1/2, with additive noise 1, weak 1
---              "milstein": strong 1, for noise whose motions commute (all but general noise do; that must)
---              "heun" (default for Stratonovich), "euler_heun": strong 1 where motions commute, else 1/2
---              "sra1": strong 3/2, additive noise
---              "reversible_heun": strong 1/2, with additive noise 1; its steps can be undone
---              The three of Heun's solve equations of Stratonovich, and those of Ito by correcting the drift.
--- step         length of the longest step; 0: one step from time to time. Steps between two times are equal.
--- adaptive     false; true: steps that hold the difference between one step and two of half its length on the same
---              path, of which the two are taken, below atol + rtol |y| (1e-6, 1e-3; root mean square over a path's y,
---              the largest of a chunk of paths, which step together). For schemes that converge with them.
--- first_step   0: a 128th of the time; of adaptive steps, whose longest is `step` (0: without limit)
--- gradient     "graph": all states are kept; "checkpoints": the square root of their number, the same bits;
---              "reversible": one (reversible_heun alone), the states made again from the end
--- path         a pn.brownian: the motions are that path, whatever the steps; else normals are drawn, from
--- generator    a pn.generator
--- max_steps    1000000 of a path
--- chunk        0: paths of a chunk, by itself some thousand numbers of y
---
--- The gradient is that of the discrete solution on its path; it has no gradient of its own, and none in times. A path
--- that is not finite is an error that tells where, which samplers take as density 0.
---
--- Kloeden & Platen, Numerical Solution of Stochastic Differential Equations; Roessler, SIAM J. Numer. Anal. 48 (2010);
--- Kidger, Foster, Li & Lyons, Efficient and accurate gradients for neural SDEs (2021).
function sde.sde(drift, diffusion, y0, times, given)
  check_arguments(drift, diffusion, y0, times)
  local o = check_options(given)
  local p = { drift = drift, diffusion = diffusion, dtype = y0:dtype(), noise = o.noise, calculus = o.calculus,
    row = check_method(o) }
  shape_of_chunk(p, y0, o)
  local own, shared, rows = flatten(o, y0, p.paths)
  p.motions = count_motions(p, y0, times, o)
  shape_of_noise(p)
  local list = stand_ins(p, y0, times, own, o.parameters)
  p.additive = is_additive(p, list)
  if not p.additive and (p.noise == "additive" or p.row.additive) then
    core.error(("sde: %s needs a diffusion that does not depend on y, got one that does"):format(
      p.noise == "additive" and "noise = 'additive'" or "method = '" .. o.method .. "'"))
  end
  p.noise = p.noise == "additive" and "diagonal" or p.noise
  if o.adaptive then
    check_adaptive(p, o.method)
  end
  check_commuting(p, y0, times, o.parameters)
  if o.path then
    check_path(p, o.path)
  end
  local step = plan_of_step(p, list)
  local pullback = wanted(y0, o.parameters) and plan_of_pullback(p, list) or nil
  local key = o.path and core.tensor({ o.path.seed }, { dtype = "int64" })
    or core.randint(0, 1 << 62, { 1 }, { generator = o.generator })
  local set = { step = o.step, max_steps = o.max_steps, gradient = gradients[o.gradient], paths = p.paths,
    rows = p.rows, motions = p.motions, states = p.states, area = p.row.area and true,
    tree = (o.path or o.adaptive) and true,
    start = o.path and o.path.start, tolerance = o.path and o.path.tolerance or 1, adaptive = o.adaptive,
    own_start = o.adaptive and not o.path, rtol = o.rtol, atol = o.atol, first_step = o.first_step,
    order = p.row.order or 1 }
  return system.solve(step, pullback, set, own, y0, times:to "float64", key, shared, rows)
end

return sde
