-- pn.op: rows of the library written again in Lua against the rows themselves and finite differences; second
-- derivatives, replays, threads; and what it refuses.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message, 1, true)
  assert.matches("own_op_spec.lua:", message, 1, true)
end

local function same(a, b)
  assert.are.same(a:totable(), b:totable())
  assert.are.equal(a:dtype(), b:dtype())
end

local softplus = pn.op {
  name = "softplus_again",
  forward = function(x) return x:softplus() end,
  vjp = function(g, _, x) return g * x:sigmoid() end,
}

local hypotenuse = pn.op {
  name = "hypotenuse",
  forward = function(a, b) return (a:square() + b:square()):sqrt() end,
  vjp = function(g, y, a, b) return { (g * a / y):sum { 1 }, g * b / y } end,
  shape = function(_, b) return b end,
}

describe("an operation with a gradient of its own", function()
  local w, v = pn.param(pn.randn { 3 }), pn.param(pn.randn { 4, 3 })

  it("has the gradient that is written, of both orders", function()
    assert.is_true(pn.check_gradients(function() return softplus(v) end, { v }, { order = 2 }).error < 1e-6)
    assert.is_true(pn.check_gradients(function() return hypotenuse(w, v) end, { w, v }, { order = 2 }).error < 1e-6)
    assert.is_true(pn.check_gradients(function() return softplus(softplus(v) * w) end, { w, v }).error < 1e-6)
    local function both() return hypotenuse(w, softplus(w):unsqueeze(1)) end
    assert.is_true(pn.check_gradients(both, { w }).error < 1e-6)
  end)

  it("gives the values and gradients of the library's row, in both precisions", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local x = pn.param(v:detach():to(dtype))
      same(softplus(x), pn.softplus(x))
      same(pn.grad(softplus(x):sum(), { x })[1], pn.grad(pn.softplus(x):sum(), { x })[1])
    end
  end)

  it("gives what is written, not the gradient of forward", function()
    local reversal = pn.op { forward = function(x) return x end, vjp = function(g) return -g end }
    same(pn.grad((reversal(w) * w:detach()):sum(), { w })[1], -w:detach())
    local round = pn.op { forward = function(x) return x:round() end, vjp = function(g) return g end }
    same(pn.grad(round(w):sum(), { w })[1], pn.ones(3))
    local none = pn.op { forward = function(a, b) return a * b end, vjp = function(g, _, a) return nil, g * a end }
    same(pn.grad(none(w, v:detach()[1] + w):sum(), { w })[1], w:detach())
  end)

  it("has the golden values, with a gradient that is not linear in g", function()
    local case = dofile("spec/golden/autodiff/own_gradient.lua").own_gradient
    local f = pn.op {
      forward = function(a, b) return a * b:sin() end,
      vjp = function(g, _, a, b) return g * b:sin() / (g:square() + 1), g * a * b:cos() end,
    }
    local a, b = pn.param(pn.tensor(case.a)), pn.param(pn.tensor(case.b))
    local y = f(a, b)
    local g = pn.grad((y * pn.tensor(case.w)):sum(), { a, b }, { create_graph = true })
    local second = pn.grad((g[1] + g[2]):sum(), { a, b })
    for name, got in pairs { y = y, grad_a = g[1], grad_b = g[2], second_a = second[1], second_b = second[2] } do
      assert.is_true((got - pn.tensor(case[name])):abs():max():item() < 1e-14, name)
    end
  end)

  it("takes numbers and whole numbers", function()
    local scaled = pn.op { forward = function(x, k) return x * k end, vjp = function(g, _, _, k) return g * k end }
    same(pn.grad(scaled(w, 3):sum(), { w })[1], pn.full({ 3 }, 3))
    local picked = pn.op {
      forward = function(x, i) return x:gather(1, i) end,
      vjp = function(g, _, x, i) return pn.zeros(x:shape()):scatter_add(1, i, g) end,
    }
    same(pn.grad(picked(w, pn.tensor({ 0, 2 }, { dtype = "int64" })):sum(), { w })[1], pn.tensor { 1, 0, 1 })
  end)

  it("runs eagerly, within pn.grad inside of vjp, and without graph", function()
    local cube = pn.op {
      forward = function(x) return x * x * x end,
      vjp = function(g, _, x) return g * pn.grad((x * x * x):sum(), { x }, { create_graph = true })[1] end,
    }
    assert.is_true(pn.check_gradients(function() return cube(v) end, { v }, { order = 2 }).error < 1e-6)
    assert.is_false(cube(v:detach()):requires_grad())
    assert.is_false(pn.no_grad(cube, v):requires_grad())
  end)

  it("has no second derivative where its vjp cuts the graph", function()
    local x = pn.param(pn.tensor { 2, 3 })
    local function second(vjp, how, loss)
      local f = pn.op { forward = function(a, b) return a * a * b end, vjp = vjp }
      local function slope(b)
        local first = pn.grad((loss or pn.sum)(f(x, b)), { x }, { create_graph = true })[1]
        return first:requires_grad() and pn.grad((first * x):sum(), { x })[1] - first:detach() or "none"
      end
      return (how or function(h) return h end)(slope)(pn.tensor { 5, 7 })
    end
    local function whole(g, _, a, b) return g * 2 * a * b end
    local function half(g, _, a, b) return g * (a + a:detach()) * b end
    local function through_g(g, _, a, b) return g * 2 * a:detach() * b end
    local function at_last(g, _, a, b) return (g * 2 * a * b):detach() end
    local function within(g, _, a, b) return g * pn.no_grad(function() return 2 * a * b end) end
    for _, how in ipairs { function(h) return h end, pn.compile } do
      same(second(whole, how), 2 * x:detach() * pn.tensor { 5, 7 })
      same(second(half, how), x:detach() * pn.tensor { 5, 7 })
    end
    same(second(through_g, nil, function(y) return y:square():sum() / 2 end), pn.tensor { 20 ^ 2 * 2, 42 ^ 2 * 3 })
    for _, vjp in ipairs { through_g, within, at_last } do
      assert.are.equal("none", second(vjp))
    end
  end)

  it("is replayed to the bit, with its gradient and that one's", function()
    local function body(x)
      local loss = (hypotenuse(w, softplus(v)) * x):sum()
      local g = pn.grad(loss, { w, v }, { create_graph = true })
      local second = pn.grad((g[1] * g[1]):sum() + g[2]:sum(), { v })[1]
      return loss, g[1], g[2], second
    end
    local step, x = pn.compile(body), pn.randn { 4, 3 }
    step(pn.ones { 4, 3 })
    local replayed, eager = { step(x) }, { body(x) }
    for k = 1, 4 do
      same(replayed[k], eager[k]:detach())
    end
    assert.are.equal(1, step:captures())
    w:set(w:detach() * 2) -- parameters are read in place
    same(step(x), body(x):detach())
  end)

  it("is captured anew when something outside has changed, also within a compiled function", function()
    local k = 2
    local scaled = pn.op { forward = function(x) return x * k end, vjp = function(g) return g * k end }
    local function slope() return pn.grad(scaled(w):sum(), { w })[1] end
    local step = pn.compile(slope)
    step()
    assert.are.equal(2, slope()[1]:item())
    k = 3
    assert.are.equal(3, slope()[1]:item())
    assert.are.equal(3, step()[1]:item())
    scaled.vjp = function(g) return g * 5 end
    assert.are.equal(5, slope()[1]:item())
    assert.are.equal(5, step()[1]:item())
  end)

  it("is captured for each of many shapes", function()
    for round = 1, 2 do
      for n = 1, 20 do
        local x = pn.param(pn.randn { n, round })
        same(pn.grad(softplus(x):sum(), { x })[1], pn.grad(pn.softplus(x):sum(), { x })[1])
      end
    end
  end)

  it("trains, and samples in threads to the draws of the library's row", function()
    local function model(f)
      return pn.model(function(m)
        local x = m:sample("x", dist.normal(0, 1):expand { 3 }:independent(1))
        m:observe("y", dist.normal(f(x), 0.5):independent(1), pn.tensor { 0.5, 1, 2 })
      end)
    end
    local function draws(f)
      return pn.nuts(model(f), { chains = 2, warmup = 50, draws = 50, progress = false,
        generator = pn.generator(3) }).draws.x
    end
    local own, row = draws(softplus), draws(pn.softplus)
    assert.is_true((own - row):abs():max():item() < 1e-9)
    local opt = pn.optim.sgd({ w }, { lr = 0.1 })
    local step = pn.compile(function() return (hypotenuse(w, pn.ones { 1, 3 }) - 1):square():sum() end,
      { optimiser = opt })
    local first = step()
    for _ = 1, 50 do step() end
    assert.is_true(step() < first)
  end)

  it("notices a parameter that was changed since", function()
    local y = softplus(w):sum()
    w:set(w:detach() + 1)
    refused("a parameter under 'own_gradient' (shape [3]) was changed after the graph was made", pn.grad, y, { w })
  end)
end)

describe("what an operation refuses", function()
  local w = pn.param(pn.randn { 3 })
  local function double(x) return x * 2 end
  local function gradient(vjp, forward)
    return function()
      local f = pn.op { name = "mine", forward = forward or double, vjp = vjp }
      local y = f(w)
      return pn.grad(y:sum(), { w })
    end
  end
  local captured = "mine: vjp cannot be captured: "

  for what, case in pairs {
    ["a value that is read"] = { captured .. "item reads a value that differs from call to call",
      function(g, _, x) return x:sum():item() > 0 and g or -g end },
    ["and caught"] = { captured .. "the function went on after a failure that may not come again",
      function(g, _, x) pcall(function() return x:sum():item() end) return g end },
    ["a draw"] = { captured .. "a gradient must not draw random numbers",
      function(g, _, x) return g * pn.rand(x:shape()) end },
    ["a shape that depends on values"] = { captured .. "the shape of nonzero's result depends on values",
      function(_, _, x) return x:nonzero() end },
    ["a parameter from outside"] = { captured .. "a parameter from outside is used: pass it as an argument",
      function(g) return g * w end },
    ["what was computed of one"] = { captured .. "a tensor from outside is used that depends on parameters",
      (function() local twice = w * 2 return function(g) return g * twice end end)() },
    ["a wrong shape"] = { "mine: vjp must return shape [3] for argument 1, as that has, got []",
      function(g) return g:sum() end },
    ["a wrong dtype"] = { "mine: vjp must return float64 for argument 1, as that is, got float32",
      function(g) return g:to "float32" end },
    ["something else"] = { "mine: vjp must return a tensor (or nil) for argument 1, got string",
      function() return "no" end },
    ["too many"] = { "mine: vjp must return a gradient for each of 1 arguments, got 2 values",
      function(g) return g, g end },
    ["too many in a list"] = { "mine: vjp must return a gradient for each of 1 arguments, got one for 2",
      function(g) return { g, g } end },
    ["several results"] = { "mine: forward must return one tensor, got 2 values (join them with stack",
      function(g) return g end, function(x) return x, x end },
    ["no result"] = { "mine: forward must return one tensor, got 0 values", function(g) return g end,
      function() end },
    ["a result without gradient"] = { "mine: forward must return float64 or float32, got bool",
      function(g) return g end, function(x) return x:gt(0) end },
    ["a parameter behind forward"] = { "mine: forward uses a parameter that is not among its arguments",
      function(g) return g end, function(x) return x * w end },
    ["a failure of vjp"] = { "boom", function() error "boom" end },
  } do
    it("is " .. what, function()
      refused(case[1], gradient(case[2], case[3]))
      assert.is_false(pn.no_grad(softplus, w):requires_grad())
      assert.are.equal(2, gradient(function(g) return g * 2 end)()[1][1]:item()) -- nothing is left behind
    end)
  end

  it("is an effect outside", function()
    local calls, kept = 0, nil
    refused("it gives 'calls', from outside of it, another value", gradient(function(g) calls = calls + 1 return g end))
    refused("it keeps a tensor that it has computed in 'kept'", gradient(function(g) kept = g * 2 return g end))
    assert.is_not_nil(kept)
    refused("setting a parameter cannot be part", gradient(function(g) w:set(w:detach()) return g end))
    refused("loss:backward() cannot be part", gradient(function(g, _, x) x:sum():backward() return g end))
  end)

  it("is a gradient that needs itself", function()
    local sine, cosine
    sine = pn.op { name = "sine", forward = function(x) return x:sin() end,
      vjp = function(g, _, x) return g * cosine(x) end }
    cosine = pn.op { name = "cosine", forward = function(x) return x:cos() end,
      vjp = function(g, _, x) return -g * sine(x) end }
    for _ = 1, 2 do
      refused("sine: the gradient of its vjp would need itself", function() return sine(w) end)
    end
    local once
    once = pn.op { forward = function(x) return x:exp() end, vjp = function(g, _, x) return g * once(x:detach()) end }
    assert.are.same(w:exp():totable(), pn.grad(once(w):sum(), { w })[1]:totable())
  end)

  it("is an argument that is none", function()
    refused("op: option 'forward' is required", pn.op, { vjp = double })
    refused("op: unknown option 'backward'", pn.op, { forward = double, vjp = double, backward = double })
    refused("op: vjp must be a function, got 3", pn.op, { forward = double, vjp = 3 })
    local f = pn.op { name = "mine", forward = double, vjp = double }
    refused("mine: number of arguments must be 1 to 62, got 0", f)
    refused("mine: argument 1 must be a tensor, a number or a list of numbers, got 'x'", f, "x")
    refused("mine: forward must return shape [9], got [3]",
      pn.op { name = "mine", forward = double, vjp = double, shape = function() return { 9 } end }, w)
    local most = {}
    for k = 1, 63 do most[k] = w end
    refused("mine: number of arguments must be 1 to 62, got 63", f, table.unpack(most))
    local sum = pn.op { forward = function(...) return pn.stack({ ... }, 1):sum { 1 } end, vjp = function(g, _, ...)
      local out = {}
      for k = 1, select("#", ...) do out[k] = g end
      return out
    end }
    most[63] = nil
    assert.are.equal(62, pn.grad(sum(table.unpack(most)):sum(), { w })[1][1]:item())
  end)

  it("is nothing that a finaliser does in between", function()
    local refusals = 0
    local f = pn.op { forward = double, vjp = function(g, _, x)
      for _ = 1, 50 do
        setmetatable({}, { __gc = function()
          local ok = pcall(function() return pn.grad(softplus(w):sum(), { w }) end)
          refusals = refusals + (ok and 0 or 1)
        end })
      end
      collectgarbage()
      return g * 2 + x * 0
    end }
    pcall(f, w) -- (the count that the finalisers change is outside, and is refused)
    collectgarbage()
    assert.are.equal(2, gradient(function(g) return g * 2 end)()[1][1]:item())
  end)

  it("is captured for each type that an input has, though the result is of one", function()
    local doubled = pn.op { forward = function(x) return x:to "float64" * 2 end,
      vjp = function(g, _, x) return (g * 2):to(x:dtype()) end }
    for _ = 1, 2 do
      for _, dtype in ipairs { "float32", "float64" } do
        local x = pn.param(pn.tensor({ 1, 2 }, { dtype = dtype }))
        local slope = pn.grad(doubled(x):sum(), { x })[1]
        assert.are.equal(dtype, slope:dtype())
        assert.are.same({ 2, 2 }, slope:totable())
      end
    end
  end)

  it("is nothing that lack of memory leaves behind", function()
    local x = pn.param(pn.randn { 1000 })
    local big = pn.op { forward = double, vjp = function(g, _, t)
      return (g:unsqueeze(1) * t:unsqueeze(2)):sum { 1 }
    end }
    pn.memory_limit(pn.memory() + 2 ^ 20)
    local ok, message = pcall(function() return pn.grad(big(x):sum(), { x }) end)
    pn.memory_limit(0)
    assert.is_false(ok)
    assert.matches("memory", message)
    assert.are.equal(1000, pn.grad(big(x):sum(), { x })[1]:numel())
  end)
end)
