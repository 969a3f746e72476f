-- The tensors of pn.odeint: more parameters than an operation has inputs, and float32, against closed forms.
local pn = require "penumbra"
local assert = require "luassert"

local function furthest(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

local tight = { rtol = 1e-11, atol = 1e-13 }

local function with(parameters)
  return { rtol = tight.rtol, atol = tight.atol, parameters = parameters }
end

-- y' = -(sum_k c_k sum(parameter k)) y; shapes and weights c differ from parameter to parameter.
local function weight(k) return math.sin(k) / 100 end

local function decay(_, y, ...)
  local rate
  for k, p in ipairs { ... } do
    local term = p:to(y:dtype()):sum() * weight(k)
    rate = rate and rate + term or term
  end
  return -rate * y
end

local function rates(n, dtype_of)
  local shapes, list, total = { {}, { 3 }, { 2, 2 }, { 0 }, { 1, 3, 1 } }, {}, 0
  pn.seed(n)
  for k = 1, n do
    local p = pn.rand(shapes[k % #shapes + 1]):to(dtype_of(k))
    list[k] = pn.param(p)
    total = total + weight(k) * p:sum():item()
  end
  return list, total
end

local function always(dtype) return function() return dtype end end

describe("parameters of differential equations, many of them", function()
  local times = pn.tensor { 0, 0.5, 2 }

  local function check(n, dtype_of, y0, tolerance)
    local list, rate = rates(n, dtype_of)
    local y = pn.odeint(decay, y0, times, with(list))
    local want = pn.outer((-rate * times):exp(), y0:to "float64"):detach()
    assert.is_true(furthest(y:to "float64", want) < tolerance)
    assert.equal(y0:dtype(), y:dtype())
    local g = pn.grad(y:sum(), list)
    local slope = -(times * want:sum(2)):sum():item() -- of the sum in the rate
    for k, p in ipairs(list) do
      assert.same({ p:shape(), p:dtype() }, { g[k]:shape(), g[k]:dtype() })
      if p:numel() > 0 then
        assert.is_true((g[k]:to "float64" - weight(k) * slope):abs():max():item() < tolerance)
      end
    end
  end

  it("have values and gradients of the closed form", function()
    for _, n in ipairs { 1, 56, 57, 61, 300 } do
      check(n, always "float64", pn.tensor { 1, -2 }, 1e-9)
    end
  end)

  it("may be of both types, and f gets each as it is", function()
    local function mixed(k) return k % 3 == 0 and "float32" or "float64" end
    check(20, mixed, pn.tensor { 1, -2 }, 1e-6)
    check(100, mixed, pn.tensor { 1, -2 }, 1e-6)
    local list = rates(80, mixed)
    pn.odeint(function(t, y, ...)
      for k, p in ipairs { ... } do
        assert.same({ mixed(k), list[k]:shape() }, { p:dtype(), p:shape() })
      end
      assert.equal("float64", t:dtype())
      assert.equal(80, select("#", ...))
      return -y
    end, pn.tensor { 1 }, times, { parameters = list })
  end)

  it("are the ones of each call in compiled functions", function()
    local list = rates(70, always "float64")
    local function gradient(x)
      local scaled = {}
      for k, p in ipairs(list) do scaled[k] = p * x end
      local y = pn.odeint(decay, pn.tensor { 2 }, times, { parameters = scaled })
      return y:detach(), pn.grad(y:sum(), { list[3], list[70] })
    end
    local compiled = pn.compile(function(x)
      local y, g = gradient(x)
      return y, g[1], g[2]
    end)
    for _, v in ipairs { 1, 1.5, 0.3 } do
      local x = pn.tensor(v)
      local y, g = gradient(x)
      local z, a, b = compiled(x)
      assert.same({ y:totable(), g[1]:totable(), g[2]:totable() }, { z:totable(), a:totable(), b:totable() })
    end
    assert.equal(1, compiled:captures())
  end)
end)

describe("differential equations in float32", function()
  local times32 = pn.tensor({ 0, 0.25, 1, 3 }, { dtype = "float32" })

  it("have values and gradients of the closed form, each of its tensor's type", function()
    local half = pn.tensor({ 0.5, 0.5 }, { dtype = "float32" }) -- from outside: would not mix with float64
    local y0 = pn.param(pn.tensor({ 1.5, -0.5 }, { dtype = "float32" }))
    local k = pn.param(pn.tensor({ 0.8, 2 }, { dtype = "float32" }))
    for _, dtype in ipairs { "float32", "float64" } do
      local times = pn.param(times32:to(dtype))
      local y = pn.odeint(function(t, z, rate)
        assert.same({ "float32", "float32", "float32" }, { t:dtype(), z:dtype(), rate:dtype() })
        return -rate * z * half * 2
      end, y0, times, { parameters = { k } })
      local s, r = times:detach():to("float64"):unsqueeze(2), k:detach():to "float64"
      local want = (-r * s):exp() * y0:detach():to "float64"
      assert.equal("float32", y:dtype())
      assert.is_true(furthest(y:to "float64", want) < 2e-6)
      local g = pn.grad(y:sum(), { y0, k, times })
      local exact = { (-r * s):exp():sum(1), -(s * want):sum(1), -(r * want):sum(2) }
      for i, dt in ipairs { "float32", "float32", dtype } do
        assert.equal(dt, g[i]:dtype())
        local a, b = g[i]:to "float64", exact[i]
        if i == 3 then a, b = a:slice(1, 2, 4), b:slice(1, 2, 4) end -- the first has the flow's besides
        assert.is_true(furthest(a, b) < 1e-5)
      end
    end
  end)

  -- 20,000 steps of 1e-4 whose sum in float32 is 2e-5 off.
  it("sum their steps in float64", function()
    local y = pn.odeint(function(_, z) return z * 0 + 0.1 end, pn.zeros({ 1 }, { dtype = "float32" }),
      pn.tensor({ 0, 2 }, { dtype = "float32" }), { first_step = 1e-4, max_step = 1e-4, max_steps = 30000 })
    assert.is_true(math.abs(y[2]:item() - 0.2) < 2e-8)
  end)

  it("give what a network in float32 asks for", function()
    pn.seed(4)
    local net = pn.nn.sequential { pn.nn.linear(3, 8, { dtype = "float32" }), pn.nn.tanh(),
      pn.nn.linear(8, 3, { dtype = "float32" }) }
    local wide = pn.nn.sequential { pn.nn.linear(3, 8), pn.nn.tanh(), pn.nn.linear(8, 3) }
    for k, p in ipairs(wide:parameters()) do p:set(net:parameters()[k]:detach():to "float64") end
    local x = pn.randn { 4, 3 }
    local function loss(layers, dtype)
      local list = layers:parameters()
      local y = pn.odeint(function(_, z, a, b, c, d)
        return (z:matmul(a) + b):tanh():matmul(c) + d
      end, x:to(dtype), pn.linspace(0, 1, 3), { parameters = list })
      return pn.grad(y:square():sum(), list)
    end
    local narrow, exact = loss(net, "float32"), loss(wide, "float64")
    for k, g in ipairs(narrow) do
      assert.equal("float32", g:dtype())
      assert.is_true(furthest(g:to "float64", exact[k]) < 1e-4)
    end
  end)
end)
