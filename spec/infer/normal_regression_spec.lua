-- Normal sites whose means are linear in the latent variables: the compiled density and gradient, which keep of the
-- data what they come to, are the eager ones, which walk over the data; what is no such site goes its own way.
local pn = require "penumbra"
local core = require "penumbra.core"
local dist = pn.dist

local NEAR = { float64 = 1e-12, float32 = 2e-5 }

local function near(got, want, tolerance, what)
  local gap = (got - want):abs():max():item()
  assert(gap <= tolerance * (1 + want:abs():max():item()), ("%s differs by %g"):format(what, gap))
end

-- The compiled sum of log N(y; loc(v...), scale) over constants y and its gradients in the numbers v and the scale,
-- beside the eager ones. Returns the plan.
local function check(loc, y, scale, v, dtype)
  local function f(s, ...)
    local lp = core.sum_log_prob(dist.normal(loc(...), s):log_prob(y))
    return lp, table.unpack(pn.grad(lp, { s, ... }))
  end
  local function by_data(s, ...)
    local lp = dist.normal(loc(...), s):log_prob(y):sum()
    return lp, table.unpack(pn.grad(lp, { s, ... }))
  end
  local plan = pn.compile(f)
  local given = { scale:requires_grad(true) }
  for k, t in ipairs(v) do given[k + 1] = t:requires_grad(true) end
  local want = { by_data(table.unpack(given)) }
  for _ = 1, 2 do
    local got = { plan(table.unpack(given)) }
    for k = 1, #want do
      assert.same(want[k]:shape(), got[k]:shape())
      near(got[k]:detach(), want[k]:detach(), NEAR[dtype], "result " .. k)
    end
  end
  return plan:plans()[1]
end

-- Forms in which a mean is linear, of data of n rows.
local function forms(n, o)
  local x, c, one = pn.randn({ n, 3 }, o), pn.randn({ n }, o), pn.tensor(2.5, o)
  local a, b, w = pn.randn({}, o), pn.randn({}, o), pn.randn({ 3 }, o)
  return {
    ["a matrix"] = { function(v) return x:matmul(v) end, { w } },
    ["a transpose"] = { function(v) return x:t():contiguous():t():matmul(v) end, { w } },
    ["an intercept and a matrix"] = { function(s, v) return s + x:matmul(v) end, { a, w } },
    ["an intercept and a column"] = { function(s, t) return s + t * c end, { a, b } },
    ["a difference"] = { function(s, t, v) return x:matmul(v) - (c * t - s) end, { a, b, w } },
    ["an offset"] = { function(s) return c - s end, { a } },
    ["a number that comes twice"] = { function(s) return s + s * c end, { a } },
    ["a vector that comes twice"] = { function(v) return x:matmul(v) - (x * 2):matmul(v * 3) end, { w } },
    ["a multiple"] = { function(s) return -(one * s) + c end, { a } },
    ["what was computed"] = { function(s, v) return s:exp() + x:matmul(v:tanh()) end, { a, w } },
  }
end

describe("normal regressions", function()
  for _, dtype in ipairs { "float64", "float32" } do
    it("have the density and the gradients of their data, " .. dtype, function()
      pn.seed(1)
      local o = { dtype = dtype }
      for _, n in ipairs { 1, 2, 3, 4, 40, 200 } do
        for name, form in pairs(forms(n, o)) do
          local plan = check(form[1], pn.randn({ n }, o) * 2, pn.tensor(0.7, o), form[2], dtype)
          assert(n < 200 or plan.bytes < 200 * 8, name .. " has memory for the data: " .. plan.bytes)
        end
      end
    end)
  end

  it("of badly scaled columns lose no more digits than their data", function()
    pn.seed(2)
    local t = pn.arange(62) + 3952
    local x = pn.stack({ pn.ones { 62 }, t, t * t }, 2)
    local v = pn.tensor { 300, -0.2, 3e-5 }
    local y = x:matmul(v) + pn.randn { 62 } * 0.1
    local lp = pn.compile(function(w) return core.sum_log_prob(dist.normal(x:matmul(w), 0.1):log_prob(y)) end)
    near(lp(v:requires_grad(true)):detach(), dist.normal(x:matmul(v), 0.1):log_prob(y):sum(), 1e-7, "density")
  end)

  it("have second derivatives", function()
    pn.seed(3)
    local x, y = pn.randn { 40, 3 }, pn.randn { 40 }
    local m = pn.model(function(m)
      local a, b = m:flat("a"), m:flat("b", "real", { 3 })
      local s = m:flat("s", "positive")
      m:observe("y", dist.normal(a + x:matmul(b), s), y)
    end)
    local target = m:target()
    local function hessian(z)
      local g = pn.grad(target:log_density(z, true, true), { z }, { create_graph = true })[1]
      local rows = {}
      for k = 1, 5 do rows[k] = pn.grad(g:slice(1, k, k):sum(), { z })[1] end
      return pn.stack(rows, 1)
    end
    local z = pn.tensor { 0.3, -0.2, 0.5, 0.1, 0.4 }
    near(pn.compile(hessian)(z:requires_grad(true)):detach(), hessian(pn.param(z)):detach(), 1e-12, "hessian")
  end)

  it("of models are one short step with the checks of the data's", function()
    pn.seed(4)
    local x, y = pn.randn { 500, 2 }, pn.randn { 500 }
    local m = pn.model(function(m)
      local b = m:flat("b", "real", { 2 })
      m:observe("y", dist.normal(x:matmul(b), 1), y)
    end)
    local target = m:target()
    target:evaluate(pn.zeros { 2 })
    assert(target:compiled_gradient():plans()[1].bytes < 500 * 8)
    local ok, message = pcall(target:compiled_gradient(), pn.tensor { 0, math.huge })
    assert(not ok and message:find("loc must be finite", 1, true), message)
    near(target:evaluate(pn.zeros { 2 }), -y:square():sum() / 2 - 250 * math.log(2 * math.pi), 1e-12, "density")
  end)

  it("keep what else is asked of their means, and its checks", function()
    local x, y = pn.randn { 50, 2 }, pn.randn { 50 }
    local f = pn.compile(function(b)
      local loc = x:matmul(b)
      return core.sum_log_prob(dist.normal(loc, 1):log_prob(y)), loc
    end)
    local b = pn.tensor { 1, 2 }
    for _ = 1, 2 do
      local lp, loc = f(b:requires_grad(true))
      assert.is_true(loc:eq(x:matmul(b)):all():item())
      near(lp:detach(), dist.normal(x:matmul(b), 1):log_prob(y):sum(), 1e-12, "density")
    end
  end)

  it("far away, where the density is 0, have no slope", function()
    local y = pn.zeros { 5 }
    local f = pn.compile(function(a)
      local lp = core.sum_log_prob(dist.normal(a + y, 1):log_prob(y))
      return lp, pn.grad(lp, { a })[1]
    end)
    local lp, g = f(pn.tensor(1e200):requires_grad(true))
    assert.equal(-math.huge, lp:item())
    assert.equal(0, g:item())
  end)

  local x, y = pn.randn { 40, 2 }, pn.randn { 40 }
  local others = {
    ["data that come and go"] = function(b, t) return dist.normal(t:matmul(b), 1):log_prob(y) end,
    ["a scale for each"] = function(b) return dist.normal(x:matmul(b), x:select(2, 1):exp()):log_prob(y) end,
    ["means that bend"] = function(b) return dist.normal(x:matmul(b):tanh(), 1):log_prob(y) end,
    ["another law"] = function(b) return dist.laplace(x:matmul(b), 1):log_prob(y) end,
    ["products of two unknowns"] = function(b) return dist.normal(x:matmul(b) * b:sum(), 1):log_prob(y) end,
    ["more numbers than data"] = function(b) return dist.normal(b, 1):log_prob(y:slice(1, 1, 2)) end,
    ["data that are not finite"] = function(b)
      return dist.normal(x:matmul(b), 1):log_prob(pn.where(y:gt(0), y, pn.tensor(math.huge)))
    end,
  }
  for name, f in pairs(others) do
    it("are not " .. name, function()
      local function both(b, t)
        local lp = core.sum_log_prob(f(b, t))
        return lp, pn.grad(lp, { b })[1]
      end
      local b, plan = pn.tensor { 0.3, -0.4 }:requires_grad(true), pn.compile(both)
      local want = { both(b, x) }
      plan(b, x)
      for k, got in ipairs { plan(b, x) } do
        assert.is_true(pn.logical_or(got:eq(want[k]), got:isnan()):all():item(), name)
      end
    end)
  end
end)
