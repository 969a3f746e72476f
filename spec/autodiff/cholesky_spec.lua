-- The gradient of Cholesky factors: the kernels for small matrices are the formula of builders, which gradients that
-- are differentiated again use; and distances of one vector those of many.
local pn = require "penumbra"

local NEAR = { float64 = 1e-12, float32 = 1e-4 }

local function positive(shape, o)
  local x = pn.randn(shape, o)
  local n = shape[#shape]
  return (x:matmul(x:transpose(-1, -2)) / n + pn.eye(n, o or {})):contiguous()
end

describe("the gradient of a Cholesky factor", function()
  for _, dtype in ipairs { "float64", "float32" } do
    it("is the same by the kernel and by builders, for all sizes and batches, " .. dtype, function()
      pn.seed(1)
      local o = { dtype = dtype }
      for _, n in ipairs { 1, 2, 3, 7, 8, 9, 11, 16, 31, 32, 33 } do
        for _, lead in ipairs { {}, { 1 }, { 2 }, { 3 }, { 4 }, { 5, 4 } } do
          local shape = { table.unpack(lead) }
          shape[#shape + 1], shape[#shape + 2] = n, n
          local a, w = positive(shape, o):requires_grad(true), pn.randn(shape, o)
          local function gradient(more)
            return pn.grad((a:cholesky() * w):sum(), { a }, { create_graph = more })[1]
          end
          local got, want = gradient(false), gradient(true):detach()
          local gap = (got - want):abs():max():item() / (1 + want:abs():max():item())
          assert(gap <= NEAR[dtype], ("%d rows, batch of %d: %g"):format(n, #lead > 0 and lead[1] or 1, gap))
        end
      end
    end)
  end

  it("is that of differences", function()
    pn.seed(2)
    local a, w = positive { 5, 5 }, pn.randn { 5, 5 }
    local p = pn.param(a)
    local g = pn.grad((p:cholesky() * w):sum(), { p })[1]
    for _ = 1, 4 do
      local d = pn.randn { 5, 5 }
      d = d + d:t()
      local function f(h) return ((a + d * h):cholesky() * w):sum():item() end
      local slope = (8 * (f(1e-3) - f(-1e-3)) - (f(2e-3) - f(-2e-3))) / 12e-3
      assert(math.abs(slope - (g * d):sum():item()) < 1e-8 * (1 + math.abs(slope)))
    end
  end)

  it("replays with the eager bits, of strided gradients too", function()
    local a, w = positive { 11, 11 }, pn.randn { 11, 11 }
    local function f(x, v)
      local l = x:cholesky()
      return pn.grad((l * v):sum(), { x })[1], pn.grad((l:t() * v):sum(), { x })[1]
    end
    local plan, x = pn.compile(f), a:requires_grad(true)
    local one, two = f(x, w)
    for _ = 1, 2 do
      local got, other = plan(x, w)
      assert.is_true(got:eq(one):all():item() and other:eq(two):all():item())
    end
  end)

  it("keeps a NaN that the factor's gradient has", function()
    local x = positive { 4, 4 }:requires_grad(true)
    local w = pn.tensor(0 / 0) * pn.ones { 4, 4 }
    assert.is_true(pn.grad((x:cholesky() * w):sum(), { x })[1]:isnan():all():item())
  end)
end)

describe("the distance of one vector", function()
  for _, dtype in ipairs { "float64", "float32" } do
    it("has the gradients of one of two, the other of which does not count, to the bit, " .. dtype, function()
      pn.seed(3)
      local o = { dtype = dtype }
      for _, n in ipairs { 1, 2, 11, 32 } do
        local l = positive({ n, n }, o):cholesky():requires_grad(true)
        local x, m = pn.randn({ 1, n }, o), pn.randn({ n }, o)
        for _, v in ipairs { x, x * pn.tensor(math.huge, o) } do
          local function gradients(rows, weights)
            rows = rows:requires_grad(true)
            local lp = pn.dist.multivariate_normal { loc = m, scale_tril = l }:log_prob(rows)
            return pn.grad((lp * weights):sum(), { l, rows })
          end
          local one = gradients(v, pn.ones({ 1 }, o))
          local two = gradients(pn.concatenate({ v, pn.zeros({ 1, n }, o) }, 1), pn.tensor({ 1, 0 }, o))
          assert.is_true(pn.logical_or(one[1]:eq(two[1]), one[1]:isnan()):all():item())
          assert.is_true(pn.logical_or(one[2][1]:eq(two[2][1]), one[2][1]:isnan()):all():item())
        end
      end
    end)
  end
end)
