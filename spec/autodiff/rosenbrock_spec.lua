-- pn.odeint{method = "rosenbrock"}: order and stability from closed forms and from the convergence of steps of one
-- length; stiff systems against SciPy's Radau (spec/golden/autodiff/odeint_stiff.py); gradients against finite
-- differences of the same steps, sensitivities and closed forms.
local pn = require "penumbra"
local assert = require "luassert"

local systems = {}

function systems.robertson(_, y, p)
  local a, b, c = y[1], y[2], y[3]
  local r1, r2, r3 = p[1] * a, p[2] * b * b, p[3] * b * c
  return pn.stack({ r3 - r1, r1 - r3 - r2, r2 }, 1)
end

function systems.van_der_pol(_, y, p)
  return pn.stack({ y[2], p[1] * (1 - y[1] * y[1]) * y[2] - y[1] }, 1)
end

local function furthest(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

-- Steps of one length, whatever their errors.
local function even(h, parameters)
  return { method = "rosenbrock", rtol = 1e6, atol = 1e6, first_step = h, max_step = h, parameters = parameters }
end

local function stiff(rtol, atol, parameters, max_steps)
  return { method = "rosenbrock", rtol = rtol, atol = atol, parameters = parameters, max_steps = max_steps or 10000 }
end

-- Not autonomous, not linear; smooth.
local function smooth(t, y, p)
  return pn.stack({ -p[1] * y[1] * y[1] * t:cos() + y[2], y[1] - p[2] * y[2] * y[2] * t }, 1)
end

describe("a Rosenbrock method", function()
  -- One step of y' = z y is y R(z): R(z) = e^z + O(z^5), and R falls like 1 / z (L-stable).
  it("is of order 4 and L-stable on linear equations", function()
    local function one_step(z)
      return pn.odeint(function(_, y, k) return k * y end, pn.tensor { 1 }, pn.tensor { 0, 1 },
        even(1, { pn.tensor(z) }))[2]:item()
    end
    local function off(z) return math.abs(one_step(z) - math.exp(z)) end
    assert.is_true(math.abs(math.log(off(-0.4) / off(-0.2), 2) - 5) < 0.3)
    for _, z in ipairs { -1, -10, -1e3, -1e8 } do
      assert.is_true(math.abs(one_step(z)) < 0.5)
    end
    assert.is_true(math.abs(one_step(-1e8)) < 1e-6 and math.abs(one_step(-1e10)) < 1e-8)
  end)

  it("converges with order 4, between steps with order 3", function()
    local p, y0, times = pn.tensor { 1, 0.7 }, pn.tensor { 1, 0.5 }, pn.tensor { 0, 1.03, 2 }
    local exact = pn.odeint(smooth, y0, times, { rtol = 1e-13, atol = 1e-14, max_steps = 100000, parameters = { p } })
    local function errors(n)
      return (pn.odeint(smooth, y0, times, even(2 / n, { p })) - exact):abs():max(2):totable()
    end
    local function order(k, n) return math.log(errors(n)[k] / errors(2 * n)[k], 2) end
    assert.is_true(math.abs(order(3, 64) - 4) < 0.35 and math.abs(order(3, 128) - 4) < 0.35)
    -- The place within a step differs from n to n: over four octaves that matters less.
    assert.is_true(math.log(errors(20)[2] / errors(320)[2], 2) / 4 > 2.9)
    assert.is_true(errors(320)[2] < 1e-8)
  end)

  it("converges backwards in time, too", function()
    local p, y0 = pn.tensor { 1, 0.7 }, pn.tensor { 1, 0.5 }
    local there = pn.odeint(smooth, y0, pn.tensor { 0, 0.5 }, stiff(1e-10, 1e-12, { p }))[2]
    local back = pn.odeint(smooth, there, pn.tensor { 0.5, 0 }, stiff(1e-10, 1e-12, { p }))[2]
    assert.is_true(furthest(back, y0) < 1e-8)
  end)

  it("holds the error that the tolerances ask for", function()
    local k = 1e5 -- y' = -k (y - cos t)
    local times = pn.tensor { 0, 1e-6, 0.01, 1.5, 4 }
    local want = (times:cos() * k ^ 2 + times:sin() * k) / (k ^ 2 + 1)
    want = want - want[1] * (-k * times):exp()
    for _, tolerance in ipairs { 1e-4, 1e-6, 1e-8 } do
      local y = pn.odeint(function(t, y, rate) return rate * (t:cos() - y) end, pn.tensor { 0 }, times,
        stiff(tolerance, tolerance, { pn.tensor(k) }, 2000))
      assert.is_true((y:reshape { -1 } - want):abs():max():item() < 30 * tolerance)
    end
  end)

  -- y' = -k (y - cos t) on its smooth solution: where order is lost, hundreds of steps become thousands (Prothero &
  -- Robinson 1974).
  it("loses little order on stiff equations", function()
    for _, k in ipairs { 1e3, 1e6 } do
      local function off(h)
        local times = pn.tensor { 1, 1 + 0.8 * h, 1 + h }
        local want = (times:cos() * k ^ 2 + times:sin() * k) / (k ^ 2 + 1)
        local y = pn.odeint(function(t, y, rate) return rate * (t:cos() - y) end, want:slice(1, 1, 1), times,
          even(h, { pn.tensor(k) }))
        return (y:reshape { -1 } - want):abs():totable()
      end
      local coarse, fine = off(0.4), off(0.1)
      assert.is_true(math.log(coarse[2] / fine[2], 4) > 3.5 and fine[2] < 1e-6)
      assert.is_true(fine[3] < 1e-8)
    end
  end)

  it("takes states of any shape, constant slopes and plain ones", function()
    local m = pn.tensor { { -1, 0.5 }, { 0, -1000 } }
    local y0, times = pn.tensor { { 1, 2 }, { 3, -4 }, { 5, 6 } }, pn.tensor { 0, 0.5, 2 }
    local y = pn.odeint(function(_, y, a) return y:matmul(a) end, y0, times, stiff(1e-10, 1e-12, { m }))
    assert.same({ 3, 3, 2 }, y:shape())
    for k, t in ipairs { 0, 0.5, 2 } do
      local slow, fast = math.exp(-t), math.exp(-1000 * t)
      local exact = pn.tensor { { slow, 0.5 * (slow - fast) / 999 }, { 0, fast } }
      assert.is_true(furthest(y[k], y0:matmul(exact)) < 1e-8)
    end
    local line = pn.odeint(function() return pn.ones { 2 } end, pn.tensor { 1, 2 }, times, { method = "rosenbrock" })
    assert.is_true(furthest(line, pn.tensor { { 1, 2 }, { 1.5, 2.5 }, { 3, 4 } }) < 1e-12)
    local cube = pn.odeint(function(t) return 3 * t * t * pn.ones { 2 } end, pn.zeros { 2 }, times,
      { method = "rosenbrock" })
    assert.is_true(furthest(cube[3], pn.full({ 2 }, 8)) < 1e-12) -- df/dy = 0, df/dt is not
  end)
end)

describe("stiff systems", function()
  local steps = { robertson = 400, van_der_pol = 1500 }
  -- Of gradients. Where a solution jumps, small errors of its phase change quickly with the parameters.
  local tolerance = { robertson = 1e-6, van_der_pol = 1e-4 }

  for k, case in ipairs(dofile "spec/golden/autodiff/odeint_stiff.lua") do
    local f, scale = systems[case.system], pn.tensor(case.scale)
    local times = pn.tensor(case.times)

    local function solve(rtol, options)
      local y0, p = pn.param(pn.tensor(case.y0)), pn.param(pn.tensor(case.parameters))
      local o = stiff(rtol, rtol * math.min(table.unpack(case.scale)) / 100, { p }, options)
      return pn.odeint(f, y0, times, o), y0, p
    end

    it(("have the values and gradients of golden case %d, %s"):format(k, case.system), function()
      local y, y0, p = solve(1e-10, 100000)
      local want = pn.tensor(case.y)
      assert.is_true(((y - want) / scale):abs():max():item() < 1e-7)
      local i, j = pn.arange(y:size(1)):unsqueeze(2), pn.arange(y:size(2)):unsqueeze(1)
      local g = pn.grad((y / (1 + i + 2 * j) / scale):sum(), { y0, p })
      local of_y0, of_p = pn.tensor(case.gradient.y0), pn.tensor(case.gradient.parameters)
      assert.is_true(((g[1] - of_y0) * scale):abs():max():item() < tolerance[case.system])
      assert.is_true((g[2] / of_p - 1):abs():max():item() < tolerance[case.system])
    end)

    it(("take hundreds of steps where an explicit method takes millions: %s"):format(case.system), function()
      local y = solve(1e-6, steps[case.system])
      assert.is_true(((y - pn.tensor(case.y)) / scale):abs():max():item() < 1e-3)
      local ok, message = pcall(pn.odeint, f, pn.tensor(case.y0), times, { rtol = 1e-6, max_steps = 100000,
        atol = 1e-8 * math.min(table.unpack(case.scale)), parameters = { pn.tensor(case.parameters) } })
      assert.is_false(ok)
      local reached = tonumber(message:match "max_steps = 100000 steps end at t = ([%d.e+-]+) of")
      assert.is_true(reached < case.times[#case.times] / 10)
      assert.matches("method = 'rosenbrock'", message, 1, true)
    end)
  end

  -- y' = A y with A = Q diag(-a, -b) Q^T: y(t) and its gradients are known.
  it("have the gradients of a linear system's closed form", function()
    local angle, rates, y0 = 0.6, pn.param(pn.tensor { 1, 1e6 }), pn.param(pn.tensor { 0.8, -0.5 })
    local q = pn.tensor { { math.cos(angle), -math.sin(angle) }, { math.sin(angle), math.cos(angle) } }
    local function f(_, y, r) return -q:matmul(r * q:t():matmul(y)) end
    local times, w = pn.param(pn.tensor { 0, 0.7, 2 }), pn.tensor { { 0, 0 }, { 1, 3 }, { -2, 0.5 } }
    local y = pn.odeint(f, y0, times, stiff(1e-9, 1e-11, { rates }))
    local g = pn.grad((y * w):sum(), { y0, rates, times })
    local first, c = q:t()[1], q:t()[1]:matmul(y0:detach()):item() -- the fast part is gone
    local along, of_y0, of_rate, of_times = w:matmul(first), 0, 0, {}
    for k, t in ipairs { 0, 0.7, 2 } do
      local a = along[k]:item() * math.exp(-t)
      of_y0, of_rate, of_times[k] = of_y0 + (k > 1 and a or 0), of_rate - t * a * c, -a * c
    end
    assert.is_true(furthest(g[1], first * of_y0) < 1e-7)
    assert.is_true(math.abs(g[2][1]:item() - of_rate) < 1e-7 and math.abs(g[2][2]:item()) < 1e-9)
    assert.is_true(furthest(g[3]:slice(1, 2, 3), pn.tensor { of_times[2], of_times[3] }) < 1e-6)
  end)
end)

describe("gradients of a Rosenbrock method", function()
  local y0, p = pn.param(pn.tensor { 1, 0.5 }), pn.param(pn.tensor { 1.3, 0.7 })
  local times = pn.tensor { 0, 0.4, 1.03, 2 }

  -- Central differences of order 4 of loss() in w: [numel].
  local function differences(loss, w)
    local start, out = w:detach() + 0, {}
    local flat = start:reshape({ -1 }):totable()
    for i, v in ipairs(flat) do
      local h, sum = 2e-3, 0
      for _, term in ipairs { { 1, 8 }, { -1, -8 }, { 2, -1 }, { -2, 1 } } do
        flat[i] = v + term[1] * h
        w:set(pn.tensor(flat):reshape(w:shape()))
        sum = sum + term[2] * loss():item()
      end
      flat[i], out[i] = v, sum / (12 * h)
    end
    w:set(start)
    return pn.tensor(out)
  end

  local function check(loss, params, tolerance)
    for k, g in ipairs(pn.grad(loss(), params)) do
      assert.is_true(furthest(g:reshape { -1 }, differences(loss, params[k])) < tolerance)
    end
  end

  it("are those of the discrete solution, exactly", function()
    check(function() -- seven steps far from convergence, which see f, df/dt, df/dy and what that depends on
      return pn.odeint(smooth, y0, times, even(0.3, { p })):square():sum()
    end, { y0, p }, 1e-9)
    local m = pn.param(pn.tensor { { -0.5, 0.1, 0.3 }, { 0.2, -0.4, 0 } })
    local y = pn.param(pn.tensor { { 0.1, -0.7 }, { 0.4, 1 } })
    check(function()
      return pn.odeint(function(t, z, a) return (z:matmul(a)):tanh():matmul(a:t()) * t end, y, times,
        even(0.5, { m })):square():sum()
    end, { y, m }, 1e-9)
  end)

  it("agree with finite differences, also in the times", function()
    local later = pn.param(pn.tensor { 0.3, 0.4, 1.03, 2 })
    check(function()
      return pn.odeint(smooth, y0, later, stiff(1e-9, 1e-11, { p })):square():sum()
    end, { y0, p, later }, 1e-6)
  end)

  it("reach parameters that f ignores as 0, and constant slopes", function()
    local unused = pn.param(pn.ones { 2, 3 })
    local y = pn.odeint(smooth, y0, times, stiff(1e-6, 1e-8, { p, unused }))
    assert.equal(0, pn.grad(y:sum(), { unused })[1]:abs():max():item())
    local line = pn.odeint(function() return pn.ones { 2 } end, y0, times, stiff(1e-6, 1e-8, { p }))
    local g = pn.grad(line:sum(), { y0, p })
    assert.same({ { 4, 4 }, { 0, 0 } }, { g[1]:totable(), g[2]:totable() })
  end)

  it("are the bits of eager calls in compiled functions", function()
    local function value_and_gradient(x)
      local q = p * x
      local y = pn.odeint(smooth, y0, times, stiff(1e-6, 1e-8, { q }))
      return y:detach(), pn.grad(y:sum(), { q })[1]
    end
    local compiled = pn.compile(value_and_gradient)
    for _, v in ipairs { 1, 0.8, 1.4 } do
      local a, g = compiled(pn.tensor(v))
      local b, h = value_and_gradient(pn.tensor(v))
      assert.same({ b:totable(), h:totable() }, { a:totable(), g:totable() })
    end
  end)

  it("exist in float32 and for many parameters", function()
    local rates, start = {}, pn.param(pn.tensor({ 1, -2 }, { dtype = "float32" }))
    for k = 1, 80 do rates[k] = pn.param(pn.tensor { k / 10 }) end
    local function f(t, y, ...)
      local sum = 0
      for _, r in ipairs { ... } do sum = sum + r end
      return (t:cos() - y) * sum:to "float32"
    end
    local y = pn.odeint(f, start, pn.tensor { 0, 1 }, stiff(1e-5, 1e-7, rates))
    local k = 324
    local want = (k * k * math.cos(1) + k * math.sin(1)) / (k * k + 1)
    assert.equal("float32", y:dtype())
    assert.is_true(furthest(y[2]:to "float64", pn.full({ 2 }, want)) < 1e-5)
    local g = pn.grad(y[2]:sum(), { rates[1], rates[80], start })
    -- d/dk of the sum of both, 2 (k^2 cos 1 + k sin 1) / (k^2 + 1)
    local slope = 2 * ((2 * k * math.cos(1) + math.sin(1)) / (k * k + 1) - want * 2 * k / (k * k + 1))
    assert.equal(g[1]:item(), g[2]:item())
    assert.is_true(math.abs(g[1]:item() / slope - 1) < 1e-4)
    assert.same({ "float32", "float64" }, { g[3]:dtype(), g[2]:dtype() })
    assert.is_true(g[3]:abs():max():item() < 1e-6)
  end)
end)

describe("pn.odeint with method = 'rosenbrock' names", function()
  local function refused(pattern, f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    assert.matches(pattern, message, 1, true)
    assert.matches("rosenbrock_spec.lua:", message, 1, true)
  end
  local y0, times = pn.tensor { 1, 2 }, pn.tensor { 0, 1 }
  local o = { method = "rosenbrock" }

  it("what has no solution", function()
    refused("method", pn.odeint, smooth, y0, times, { method = "rosenbrok" })
    refused("max_steps = 3 steps end at t =", pn.odeint, function(_, y) return -y end, y0, times,
      { method = "rosenbrock", max_steps = 3 })
    refused("a singularity", pn.odeint, function(_, y) return y * y end, y0, times, o)
    refused("must be finite at the first time", pn.odeint, function(_, y) return y:log() end, y0 - 5, times, o)
    refused("not finite just after t = ", pn.odeint, function(t, y) return y * (0.5 - t):log() end, y0, times, o)
    refused("not finite just after t = ", pn.odeint, function(_, y) return (y - y0):sqrt() end, y0, times, o)
  end)

  it("what f must not do", function()
    refused("must not draw", pn.odeint, function(_, y) return y * pn.rand { 2 } end, y0, times, o)
    local k = pn.param(pn.tensor(1))
    refused("not among its parameters", pn.odeint, function(_, y) return k * y end, y0, times, o)
  end)
end)
