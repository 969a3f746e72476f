--- What the specs of arrays share: their golden values, tensors of them, and comparison.
local pn = require "penumbra"
local assert = require "luassert"

local M = { golden = dofile "spec/golden/tensor/array_values.lua" }

function M.float(t) return pn.tensor(t, { dtype = "float64" }) end
function M.whole(t) return pn.tensor(t, { dtype = "int64" }) end

--- `got` has the shape and values of `want`, a tensor or a list; NaN equals NaN. Relative above 1, absolute below.
function M.same(got, want, tolerance)
  want = pn.is_tensor(want) and want or M.float(want)
  assert.same(want:shape(), got:shape())
  got = got:to "float64"
  local gap = (got - want):abs() / (1 + want:abs())
  local alike = got:eq(want):logical_or(got:isnan():logical_and(want:isnan()))
  gap = pn.where(alike, 0, gap)
  assert.is_true(gap:max():item() <= (tolerance or 1e-14), ("off by %g"):format(gap:max():item()))
end

--- The gradient of the sum of squares of f(x) in x.
function M.slope(f, x)
  local w = pn.param(x)
  return pn.grad(f(w):square():sum(), { w })[1]
end

--- First and second derivatives of the sum of squares of f, against finite differences.
function M.differentiates(f, ...)
  local w = {}
  for k, x in ipairs { ... } do w[k] = pn.param(x) end
  local function loss() return f(table.unpack(w)):square():sum() end
  assert(pn.check_gradients(loss, w))
  assert(pn.check_gradients(function()
    local total = 0
    for k, s in ipairs(pn.grad(loss(), w, { create_graph = true })) do
      total = total + (s * (s:detach() * 0 + 0.3 + 0.1 * k)):sum() + (s:square() * 0.01):sum()
    end
    return total
  end, w))
end

--- f gives the same bits eagerly, captured and replayed.
function M.replays(f, x)
  local want, step = f(x), pn.compile(f)
  for _ = 1, 3 do
    assert.is_true(step(x):eq(want):all():item())
  end
end

return M
