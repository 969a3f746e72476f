--- Derivatives of functions of tensors: Jacobians, Hessians, and their products with vectors. The first argument is a
--- function of the inputs, or what was computed from them.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local vmap = require("penumbra.autodiff.vmap").vmap

local M = {}

local BLOCK = 256 -- rows that are done at once

-- ---- arguments ----

-- Inputs as a list, and whether they were one tensor.
local function read_inputs(where, inputs)
  local single = core.is_tensor(inputs)
  local list = single and { inputs } or inputs
  options.argument(where, "inputs", list, "table")
  if #list == 0 then
    core.error(where .. ": inputs must be a tensor or a list of tensors, got an empty list")
  end
  for k = 1, #list do
    options.argument(where, single and "inputs" or ("inputs[%d]"):format(k), list[k], "tensor")
  end
  return list, single
end

-- The result, and the tensors in which it is differentiated: the inputs themselves where gradients flow to them.
local function evaluate(where, f, list)
  if core.is_tensor(f) then
    return f, list
  elseif type(f) ~= "function" then
    options.argument(where, "f", f, "function")
  end
  local leaves = {}
  for k, t in ipairs(list) do
    leaves[k] = t:requires_grad() and t or t:detach():requires_grad(true)
  end
  return options.argument(where, "what f gives", f(table.unpack(leaves)), "tensor"), leaves
end

local function read_options(where, given)
  return options.check(where, given or {}, { create_graph = false })
end

local function shape_of(...)
  local shape = {}
  for _, t in ipairs { ... } do
    for _, n in ipairs(t:shape()) do shape[#shape + 1] = n end
  end
  return shape
end

local function zeros(shape, like) return core.zeros(shape, { dtype = like:dtype() }) end

-- Tensors shaped like `like`, as one tensor or a list.
local function read_vector(where, role, v, like)
  local list = core.is_tensor(v) and { v } or v
  if type(list) ~= "table" or #list ~= #like then
    core.error(("%s: %s must be %s, got %s"):format(where, role, #like == 1 and "a tensor" or
      ("a list of %d tensors"):format(#like), type(v) == "table" and #v or type(v)))
  end
  for k, t in ipairs(list) do
    options.argument(where, role, t, "tensor")
    local got, want = table.concat(t:shape(), ", "), table.concat(like[k]:shape(), ", ")
    if got ~= want then
      core.error(("%s: %s must have shape [%s], got [%s]"):format(where, role, want, got))
    end
  end
  return list
end

-- ---- products ----

-- Sum over the lists of a[k] * b[k], or nil if no a depends on anything.
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

-- v -> J v of y, by the gradient of u . y, which is linear in u.
local function forward(y, leaves, graph)
  local u = (y:detach() * 0):requires_grad(true)
  local g = core.grad((y * u):sum(), leaves, { create_graph = true })
  return function(v)
    local slope = dot(g, v)
    return slope and core.grad(slope, { u }, graph)[1] or y:detach() * 0
  end
end

-- rows(v): tensors for one row v [n] of the identity; all rows' tensors [n, ...], in blocks.
local function each_row(n, like, rows)
  local unit, parts = core.eye(n, { dtype = like:dtype() }), {}
  local batched = vmap(rows)
  for at = 1, n, BLOCK do
    local out = { batched(unit:slice(1, at, math.min(at + BLOCK - 1, n))) }
    for k = 1, #out do
      parts[k] = parts[k] or {}
      table.insert(parts[k], out[k])
    end
  end
  for k = 1, #parts do
    parts[k] = #parts[k] == 1 and parts[k][1] or core.concatenate(parts[k], 1)
  end
  return parts
end

-- ---- public ----

-- d y / d leaf for each leaf.
local function jacobians(y, leaves, graph)
  local n, size, out = y:numel(), 0, {}
  for k, t in ipairs(leaves) do size, out[k] = size + t:numel(), zeros(shape_of(y, t), y) end
  if not y:requires_grad() or n == 0 or size == 0 then
    return out
  elseif n <= size then
    local rows = each_row(n, y, function(u)
      return table.unpack(core.grad((y * u:reshape(y:shape())):sum(), leaves, graph))
    end)
    for k, t in ipairs(leaves) do out[k] = rows[k]:reshape(shape_of(y, t)) end
    return out
  end
  local along, at = forward(y, leaves, graph), 0
  local columns = each_row(size, y, function(v)
    local list, from = {}, 0
    for k, t in ipairs(leaves) do
      list[k] = v:slice(1, from + 1, from + t:numel()):reshape(t:shape())
      from = from + t:numel()
    end
    return along(list):reshape { n }
  end)[1]:t()
  for k, t in ipairs(leaves) do
    out[k] = columns:slice(2, at + 1, at + t:numel()):reshape(shape_of(y, t))
    at = at + t:numel()
  end
  return out
end

--- jacobian(f, inputs [, {create_graph = false}]): d f / d input, [shape of f..., shape of the input...].
---
---     pn.jacobian(function(x) return w:matmul(x) end, x)          -- w [3, 2], x [2] -> [3, 2]
---     pn.jacobian(y, {w, b})                                      -- of y, computed from them: a list
---
--- f is a function of the inputs, or a tensor that was computed from them. inputs is a tensor, or a list of tensors
--- that gives a list of Jacobians. All rows are computed at once (pn.vmap), 256 at most: by gradients of the elements
--- of f, or, where the inputs have fewer elements, by products J v. With create_graph the result has gradients itself.
function M.jacobian(f, inputs, given)
  local list, single = read_inputs("jacobian", inputs)
  local o = read_options("jacobian", given)
  local y, leaves = evaluate("jacobian", f, list)
  local out = jacobians(y, leaves, { create_graph = o.create_graph })
  return single and out[1] or out
end

--- hessian(f, inputs [, {create_graph = false}]): second derivatives of f, which gives one element: [shape of x...,
--- shape of x...] for one input x; for a list of inputs a list of lists, [i][j] in input i and input j.
---
---     pn.hessian(function(x) return (x ^ 3):sum() end, pn.tensor{1, 2})    -- {{6, 0}, {0, 12}}
---
--- f is a function of the inputs, or a tensor that was computed from them. See pn.jacobian.
function M.hessian(f, inputs, given)
  local list, single = read_inputs("hessian", inputs)
  local o = read_options("hessian", given)
  local y, leaves = evaluate("hessian", f, list)
  if y:numel() ~= 1 then
    core.error(("hessian: f must give one element, got shape [%s]"):format(table.concat(y:shape(), ", ")))
  end
  local out, g = {}, nil
  if y:requires_grad() then
    g = core.grad(y:sum(), leaves, { create_graph = true })
  end
  for i, t in ipairs(leaves) do
    out[i] = jacobians(g and g[i] or zeros(t:shape(), t), leaves, { create_graph = o.create_graph })
  end
  return single and out[1][1] or out
end

--- jvp(f, inputs, tangents [, {create_graph = false}]) -> f, J v: the product of the Jacobian of f in the inputs with
--- the tangents v (shaped like them), shaped like f; without create_graph neither has a graph. Costs about two
--- gradients: the gradient of u . f in the inputs is linear in u, and its slope along v is J v.
function M.jvp(f, inputs, tangents, given)
  local list = read_inputs("jvp", inputs)
  local v, o = read_vector("jvp", "tangents", tangents, list), read_options("jvp", given)
  local y, leaves = evaluate("jvp", f, list)
  if not y:requires_grad() then
    return y, zeros(y:shape(), y)
  end
  return o.create_graph and y or y:detach(), forward(y, leaves, { create_graph = o.create_graph })(v)
end

--- vjp(f, inputs, cotangent [, {create_graph = false}]) -> f, u J: the product of a cotangent u, shaped like f, with
--- the Jacobian of f in the inputs: shaped like the input, a list for a list of inputs.
function M.vjp(f, inputs, cotangent, given)
  local list, single = read_inputs("vjp", inputs)
  local o = read_options("vjp", given)
  local y, leaves = evaluate("vjp", f, list)
  local u, out = read_vector("vjp", "cotangent", cotangent, { y })[1], {}
  if y:requires_grad() then
    out = core.grad((y * u):sum(), leaves, { create_graph = o.create_graph })
  else
    for k, t in ipairs(leaves) do out[k] = zeros(t:shape(), t) end
  end
  return o.create_graph and y or y:detach(), single and out[1] or out
end

M.each_row = each_row

return M
