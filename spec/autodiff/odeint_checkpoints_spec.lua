-- pn.odeint{gradient = "checkpoints"}: the bits of the whole trajectory, for any number of steps. (Memory:
-- spec/c/ode_test.c.)
local pn = require "penumbra"
local assert = require "luassert"

local function f(t, y, p)
  return pn.stack({ -p[1] * y[1] * y[1] * t:cos() + y[2], y[1] - p[2] * y[2] * y[2] * t }, 1)
end

local function gradients(given)
  local y0, p, times = pn.param(pn.tensor { 1, 0.5 }), pn.param(pn.tensor { 1.3, 0.7 }),
    pn.param(pn.tensor(given.times or { 0, 0.4, 1.03, 2 }))
  local y, found = pn.odeint(f, y0, times, { parameters = { p }, method = given.method, gradient = given.gradient,
    max_step = given.max_step, rtol = given.rtol, max_steps = 100000, events = given.events })
  y = y:slice(1, 1, given.rows or y:size(1))
  assert.is_true(not found or found.a.number:item() > 0)
  local loss = (y:square():sum(2) * pn.arange(1, y:size(1) + 1)):sum()
  if found then
    for _, e in ipairs { found.a, found.b } do
      for k = 1, e.number:item() do loss = loss + e.times[k] * e.states[k]:sum() end
    end
  end
  local g = pn.grad(loss, { y0, p, times })
  return { loss:item(), g[1]:totable(), g[2]:totable(), g[3]:totable() }
end

local function check(given)
  given.gradient = "trajectory"
  local want = gradients(given)
  given.gradient = "checkpoints"
  assert.same(want, gradients(given))
end

describe("checkpoints of a solution", function()
  for _, method in ipairs { "dormand_prince", "rosenbrock" } do
    it("give the bits of the whole trajectory: " .. method, function()
      for _, steps in ipairs { 1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 129, 700, 3000 } do -- doublings at 64, 256, ...
        check { method = method, max_step = 2 / steps }
      end
      check { method = method, rtol = 1e-10 } -- with steps that are rejected
      check { method = method, rtol = 1e-8, times = { 1, 0.6, 0.3 } }
      check { method = method, times = { 1 } }
    end)

    it("go with events, also where one ends the solution: " .. method, function()
      local function events(terminal)
        return { a = { function(_, y) return y[1] - 0.9 end, terminal = terminal },
          b = { function(t, y) return y[2] - 0.6 - 0.1 * t end } }
      end
      for _, step in ipairs { 1, 0.2, 0.01, 0.002 } do
        check { method = method, max_step = step, events = events(false) }
      end
      for _, step in ipairs { 0.2, 0.01, 0.002 } do
        check { method = method, max_step = step, times = { 0, 0.05, 2 }, rows = 2, events = events(true) }
      end
    end)
  end

  -- Steps in which the solution is asked for are shorter there: they must be so again.
  it("give the bits of a stiff solution that is looked at here and there", function()
    local function solve(way)
      local k, y0 = pn.param(pn.tensor(1e4)), pn.param(pn.tensor { 0.3 })
      local times = pn.tensor { 0, 0.02, 2.1, 60 }
      local y = pn.odeint(function(t, y, rate) return rate * ((3 * t):cos() - y) end, y0, times,
        { method = "rosenbrock", gradient = way, parameters = { k }, rtol = 1e-7, atol = 1e-7 })
      local g = pn.grad((y * pn.tensor { { 1 }, { 2 }, { 3 }, { 4 } }):sum(), { y0, k })
      return { y:totable(), g[1]:totable(), g[2]:item() }
    end
    assert.same(solve "trajectory", solve "checkpoints")
  end)

  it("are made anew in each call of a compiled function", function()
    local p = pn.param(pn.tensor { 1.3, 0.7 })
    local function gradient(x, way)
      local q = p * x
      local y = pn.odeint(f, pn.tensor { 1, 0.5 }, pn.tensor { 0, 1, 2 }, { parameters = { q }, gradient = way,
        rtol = 1e-9 })
      return pn.grad(y:sum(), { q })[1]
    end
    local compiled = pn.compile(function(x) return gradient(x, "checkpoints") end)
    for _, v in ipairs { 1, 0.2, 1.7, 1 } do
      assert.same(gradient(pn.tensor(v), "trajectory"):totable(), compiled(pn.tensor(v)):totable())
    end
    local ok, message = pcall(gradient, pn.tensor(1), "graph")
    assert.is_false(ok)
    assert.matches("gradient", message, 1, true)
  end)
end)
