--- Compares gradients with central differences.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local M = {}

local function differences(f, w, step)
  local flat = w:detach():to("float64"):reshape({ w:numel() }):totable()
  local shape, dtype, original = w:shape(), w:dtype(), w:detach() + 0 -- a copy: set writes in place
  local out = {}
  local function value_at(i, v)
    local saved = flat[i]
    flat[i] = v
    w:set(core.tensor(flat):reshape(shape):to(dtype))
    flat[i] = saved
    return f()
  end
  local ok, message = pcall(function()
    for i = 1, #flat do
      local h = step * math.max(1, math.abs(flat[i]))
      out[i] = (value_at(i, flat[i] + h) - value_at(i, flat[i] - h)) / (2 * h)
    end
  end)
  w:set(original)
  if not ok then
    error(message, 0)
  end
  return out
end

-- Puts the worst element of a tensor into the report, raises at one beyond the tolerance.
local function compare(report, order, k, got, want, tolerance)
  for i, v in ipairs(got:reshape({ got:numel() }):totable()) do
    local err = math.abs(v - want[i]) / math.max(1, math.abs(want[i]))
    if not (err <= tolerance) then
      core.error(("check_gradients: order %d, params[%d], element %d: gradient %.10g, differences %.10g"):format(
        order, k, i, v, want[i]))
    end
    if err >= report.error then
      report.error, report.order, report.param, report.element = err, order, k, i
      report.gradient, report.differences = v, want[i]
    end
  end
end

local settings = { order = 1, tolerance = 1e-4, tolerance2 = 1e-3, step = 1e-5 }

local function check_arguments(f, params, given)
  options.argument("check_gradients", "f", f, "function")
  options.argument("check_gradients", "params", params, "table")
  if #params == 0 then
    core.error "check_gradients: params must be a list of at least 1 parameter"
  end
  for k, w in ipairs(params) do
    if not core.is_tensor(w) or not w:is_param() then
      core.error(("check_gradients: params[%d] must be a parameter (pn.param), got %s"):format(k,
        core.is_tensor(w) and "another tensor" or type(w)))
    end
  end
  local o = options.check("check_gradients", given, settings)
  if o.order ~= 1 and o.order ~= 2 then
    core.error(("check_gradients: order must be 1 or 2, got %s"):format(tostring(o.order)))
  end
  for _, name in ipairs { "step", "tolerance", "tolerance2" } do
    if not (o[name] > 0) then core.error(("check_gradients: %s must be positive, got %g"):format(name, o[name])) end
  end
  return o
end

--- Are the gradients of f at the parameters right? f() must return a tensor that depends on them (not on
--- random numbers); its elements are weighted by fixed numbers and summed. Compares first derivatives with
--- central differences (relative 1e-4) and, with options.order = 2, second ones along a fixed direction
--- (1e-3). Raises where they differ, and says which element; else returns a table of the element with the largest
--- relative error: `error`, `order`, `param` (its place in params), `element`, `gradient`, `differences`. Parameters
--- come back unchanged; f must build all that depends on them anew. Options: order (1), tolerance, tolerance2, step
--- (1e-5).
function M.check_gradients(f, params, given)
  local o = check_arguments(f, params, given)
  local function weighted()
    local y = options.argument("check_gradients", "what f gives", f(), "tensor")
    local n = y:numel()
    return (y:reshape({ n }) * (core.arange(n, { dtype = y:dtype() }) * 0.37 + 1):sin()):sum()
  end
  local function directional()
    local total
    for k, g in ipairs(core.grad(weighted(), params, { create_graph = true })) do
      local d = (core.arange(g:numel(), { dtype = g:dtype() }) * 0.61 + k):cos():reshape(g:shape())
      local part = (g * d):sum()
      total = total and total + part or part
    end
    return total
  end
  local report = { error = 0 }
  for order, y in ipairs { weighted, o.order == 2 and directional or nil } do
    local value = y()
    local grads = order == 2 and not value:requires_grad() and {} or core.grad(value, params)
    for k, w in ipairs(params) do
      local want = differences(function()
        return y():item()
      end, w, o.step)
      local got = grads[k] or core.zeros(w:shape(), { dtype = w:dtype() })
      local tolerance = order == 1 and o.tolerance or o.tolerance2
      compare(report, order, k, got, want, tolerance)
    end
  end
  return report
end

return M
