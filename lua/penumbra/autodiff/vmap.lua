--- One computation for a batch of examples: pn.vmap, and the gradient of each example's loss. The function is called
--- once, for one example; what it did is then done for all of them by batched operations, without a loop in Lua.
-- help: pn, quiet
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"

local M = {}
local examples = core.examples

-- What pcall gave; a capture that was begun since `before` and goes on ends.
local function settle(before, ok, ...)
  if ok then
    return ...
  end
  if examples.current() ~= before then
    core.capture.cancel()
  end
  error((...), 0)
end

-- f for all examples of the tensors that are mapped.
local function run(f, mapped, ...)
  return settle(examples.current(), pcall(function(...)
    return examples.finish(f(examples.begin(mapped, ...)))
  end, ...))
end

-- The axis of examples of argument k in front; false if it has none.
local function to_front(k, t, axis)
  if axis == false then
    return t, false
  elseif axis ~= nil and math.type(axis) ~= "integer" then
    core.error(("vmap: in_axes[%d] must be an axis or false, got %s"):format(k, tostring(axis)))
  end
  local n = t:ndim()
  local at = axis == nil and 1 or axis < 0 and axis + n + 1 or axis
  if n == 0 or at < 1 or at > n then
    core.error(("vmap: argument %d must have axis %d of examples, got shape [%s]"):format(k, axis or 1,
      table.concat(t:shape(), ", ")))
  end
  if at == 1 then
    return t, true
  end
  local order = { at }
  for i = 1, n do
    if i ~= at then
      order[#order + 1] = i
    end
  end
  return t:permute(order), true
end

--- vmap(f [, {in_axes =}]): a function that does f for each example of a batch, all of them at once.
---
---     local distance = pn.vmap(function(x, y) return (x - y):square():sum() end)
---     distance(xs, ys)                                     -- xs, ys [N, d] -> [N]
---     local slopes = pn.vmap(function(x)                   -- a gradient for each row
---       x:requires_grad(true)
---       return pn.grad(net(x:reshape{1, 3}):sum(), {x})[1]
---     end)
---
--- f gets one example of each tensor, without its axis of examples, and returns tensors; the results have the examples
--- along their first axis. It is called once, with the first example: what it does must not depend on the numbers, as
--- in pn.compile. Tensors that f finds outside, parameters among them, are the same for all examples; gradients flow to
--- them and to the arguments. Random draws are refused: draw outside, one for each example, and pass them.
---
--- in_axes   list with the axis of examples of each argument, false for one that is the same for all; all 1 without
---
--- Operations have batched forms; the few that have none (a table lookup with both sides mapped, recurrent layers,
--- some densities) are done example by example in C.
function M.vmap(f, given)
  if type(f) ~= "function" then
    options.argument("vmap", "f", f, "function") -- may be callable
  end
  local o = options.check("vmap", given or {}, { in_axes = options.optional "table" })
  return core.public(function(...)
    local n, tensors, mapped = select("#", ...), { ... }, {}
    if n == 0 then
      core.error "vmap: there must be at least one tensor"
    end
    for k = 1, n do
      options.argument("vmap", ("argument %d"):format(k), tensors[k], "tensor")
      local axis = o.in_axes and o.in_axes[k]
      tensors[k], mapped[k] = to_front(k, tensors[k], axis)
    end
    return run(f, mapped, table.unpack(tensors, 1, n))
  end)
end

--- per_example_grad(f, params, batch) -> list of [N, shape of the parameter...], losses [N]: the gradient of each
--- example's loss in each parameter, in their order.
---
---     local function loss(x, y) return nn.cross_entropy(net(x), y) end
---     local grads, losses = pn.per_example_grad(loss, net, {x, y})      -- x [N, 784], y [N]
---
--- f is a loss as for a batch: it is given batches of one example, x [1, 784] and y [1], and returns one element.
--- params is a list of parameters, a network or whatever holds parameters; batch is a tensor or a list of tensors with
--- the examples along their first axes. Computed by pn.vmap: what is said there of f holds here.
function M.per_example_grad(f, params, batch)
  if type(f) ~= "function" then
    options.argument("per_example_grad", "f", f, "function")
  end
  if core.is_tensor(params) then
    params = { params }
  end
  if type(params) ~= "table" and type(params) ~= "userdata" then
    core.error("per_example_grad: params must be a list of parameters or a network, got " .. type(params))
  end
  local list = parameters.list(params)
  if #list == 0 then
    core.error "per_example_grad: there is no parameter in params (pn.param makes one)"
  end
  if core.is_tensor(batch) then
    batch = { batch }
  end
  options.argument("per_example_grad", "batch", batch, "table")
  local tensors, mapped = {}, {}
  for k, t in ipairs(batch) do
    options.argument("per_example_grad", ("batch[%d]"):format(k), t, "tensor")
    if t:ndim() == 0 then
      core.error(("per_example_grad: batch[%d] must have an axis of examples, got a 0-d tensor"):format(k))
    end
    tensors[k], mapped[k] = t:unsqueeze(2), true
  end
  local out = table.pack(settle(examples.current(), pcall(function()
    local loss = f(examples.begin(mapped, table.unpack(tensors)))
    options.argument("per_example_grad", "what f gives", loss, "tensor")
    if loss:numel() ~= 1 then
      core.error(("per_example_grad: f must give one element for a batch of one, got shape [%s]"):format(
        table.concat(loss:shape(), ", ")))
    end
    local grads = core.grad(loss, list)
    grads[#grads + 1] = loss:reshape {}
    return settle(nil, pcall(recording.off, examples.finish, table.unpack(grads)))
  end)))
  local losses = out[#list + 1]
  out[#list + 1], out.n = nil, nil
  return out, losses
end

return M
