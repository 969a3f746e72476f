--- Second derivatives of losses by products and, for small models, by matrices: exact Hessians and Gauss-Newton's.
--- Parameters and vectors are lists of tensors of equal shapes; what a matrix acts on is their elements one after
--- another.
local core = require "penumbra.core"
local derivative = require "penumbra.autodiff.derivative"
local options = require "penumbra.options"

local curvature = {}

-- Sum over the list of a[k] * b[k], or nil if no a depends on anything.
local function dot(a, b)
  local sum
  for k = 1, #a do
    if a[k]:requires_grad() then
      local term = (a[k] * b[k]):sum()
      sum = sum and sum + term or term
    end
  end
  return sum
end

local function zeros(list)
  local out = {}
  for k, t in ipairs(list) do out[k] = t:detach() * 0 end
  return out
end

-- outputs or loss is a tensor, params a list of tensors.
local function check(where, role, t, params)
  options.argument(where, role, t, "tensor")
  options.argument(where, "params", params, "table")
  for k = 1, #params do
    options.argument(where, ("params[%d]"):format(k), params[k], "tensor")
  end
end

local function check_vector(where, params, v)
  if type(v) ~= "table" or #v ~= #params then
    core.error(("%s: v must be a list of %d tensors, one for each parameter, got %s"):format(where, #params,
      type(v) == "table" and #v or type(v)))
  end
end

--- The elements of a list of tensors, one after another: [P].
function curvature.flatten(list)
  local out = {}
  for k, t in ipairs(list) do out[k] = t:reshape { t:numel() } end
  return core.concatenate(out, 1)
end

--- The way back: v [P] as tensors with the shapes of those in list.
function curvature.unflatten(v, list)
  local out, at = {}, 0
  for k, t in ipairs(list) do
    out[k] = v:slice(1, at + 1, at + t:numel()):reshape(t:shape())
    at = at + t:numel()
  end
  return out
end

--- hessian_product(loss, params, v): the exact product H v of the Hessian of a loss (a tensor of one element) with a
--- list v shaped like the parameters; as such a list. Costs about two gradients. Pearlmutter 1994.
function curvature.hessian_product(loss, params, v)
  check("hessian_product", "loss", loss, params)
  check_vector("hessian_product", params, v)
  local slope = dot(core.grad(loss, params, { create_graph = true }), v)
  return slope and core.grad(slope, params) or zeros(params)
end

-- J v of outputs, as a function of v: the gradient of u . f is linear in u, and its slope along v is J v.
local function forward(outputs, params)
  local u = core.param(outputs:detach() * 0)
  local g = core.grad((outputs * u):sum(), params, { create_graph = true })
  return function(v)
    local slope = dot(g, v)
    return slope and core.grad(slope, { u })[1] or outputs:detach() * 0
  end
end

--- gauss_newton_product(outputs, loss, params, v): J' H J v, with J the Jacobian of a model's outputs (a tensor of any
--- shape) and H the Hessian of loss(outputs), a function that gives one element. It is the Hessian where the model is
--- linear in its parameters, and positive semi-definite where the loss is convex in the outputs. Schraudolph 2002.
function curvature.gauss_newton_product(outputs, loss, params, v)
  check("gauss_newton_product", "outputs", outputs, params)
  options.argument("gauss_newton_product", "loss", loss, "function")
  check_vector("gauss_newton_product", params, v)
  local along = forward(outputs, params)(v)
  local leaf = core.param(outputs:detach())
  local bent = curvature.hessian_product(loss(leaf), { leaf }, { along })[1]
  return core.grad((outputs * bent:detach()):sum(), params)
end

--- jacobian(outputs, params): d outputs / d params, [numel of outputs, P]. Takes as many rows as there are outputs or
--- elements of parameters, whichever are fewer, all at once (pn.jacobian).
function curvature.jacobian(outputs, params)
  check("jacobian", "outputs", outputs, params)
  local n, parts = outputs:numel(), {}
  for k, j in ipairs(derivative.jacobian(outputs, params)) do
    parts[k] = j:reshape { n, params[k]:numel() }
  end
  return core.concatenate(parts, 2)
end

--- hessian(loss, params): the exact Hessian of a loss of one element, [P, P], in P products, done at once.
function curvature.hessian(loss, params)
  check("hessian", "loss", loss, params)
  local g = core.grad(loss, params, { create_graph = true })
  local unit = zeros(params)
  local function row(v)
    local slope = dot(g, curvature.unflatten(v, unit))
    return curvature.flatten(slope and slope:requires_grad() and core.grad(slope, params) or unit)
  end
  return derivative.each_row(curvature.flatten(unit):numel(), loss, row)[1]
end

--- output_hessians(loss, outputs): the Hessians of each datum's loss in its outputs: outputs [B, C] -> [B, C, C]. The
--- function loss(outputs) gives the losses [B] (or their sum), those of different data apart.
function curvature.output_hessians(loss, outputs)
  local leaf, list = core.param(outputs:detach()), {}
  local g = core.grad(loss(leaf):sum(), { leaf }, { create_graph = true })[1]
  for c = 1, outputs:size(2) do
    list[c] = g:requires_grad() and core.grad(g:select(2, c):sum(), { leaf })[1] or outputs:detach() * 0
  end
  return core.stack(list, 3)
end

return curvature
