-- pn.brownian and pn.sde: laws and consistency of paths, moments against closed forms and matrix exponentials (SciPy:
-- spec/golden/autodiff/sde.py), kinds of noise, adaptive steps, and what is refused.
local pn = require "penumbra"
local assert = require "luassert"

local golden = dofile "spec/golden/autodiff/sde.lua"

local function furthest(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message, 1, true)
  assert.matches("sde_spec.lua:", message, 1, true)
end

-- Is the mean of x [n] `want`, within 6 standard errors, and are these below `narrow`?
local function check_mean(x, want, narrow)
  local se = x:std():item() / math.sqrt(x:numel())
  assert.is_true(se < narrow and math.abs(x:mean():item() - want) < 6 * se,
    ("%g +- %g, not %g"):format(x:mean():item(), se, want))
end

describe("a Brownian path", function()
  local path = pn.brownian { seed = 3, shape = { 4, 2 }, tolerance = 2 ^ -12 }

  it("adds up, over any times and in whatever order", function()
    local times = { 0, 1e-5, 0.2, 1 / 3, 0.5, 0.7, 1, 1.9, 2, 3.3, 4, 17.3, 1000.25, 1000.26 }
    for i = 1, #times - 2 do
      for j = i + 1, #times - 1 do
        local s, t, u = times[i], times[j], times[j + 1]
        local one, two, both = path:increment(s, t), path:increment(t, u), path:increment(s, u)
        assert.is_true((one + two - both):abs():max():item() < 1e-14 * (1 + both:abs():max():item()) * 8)
        assert.same((-both):totable(), path:increment(u, s):totable())
        -- the integrals of the path over its start: (u - s) (w / 2 + area)
        local function integral(a, b) return (path:increment(a, b) / 2 + path:area(a, b)) * (b - a) end
        local sum = integral(s, t) + integral(t, u) + one * (u - t)
        assert.is_true(furthest(sum, integral(s, u)) < 1e-12)
      end
    end
  end)

  it("is a function of its seed and of an element's place", function()
    assert.same(path:increment(0.3, 5):totable(),
      pn.brownian { seed = 3, shape = { 4, 2 }, tolerance = 2 ^ -12 }:increment(0.3, 5):totable())
    local longer = pn.brownian { seed = 3, shape = { 100, 2 }, tolerance = 2 ^ -12 }:increment(0.3, 5)
    assert.same(path:increment(0.3, 5):totable(), longer:slice(1, 1, 4):totable())
    local other = pn.brownian { seed = 4, shape = { 4, 2 } }:increment(0.3, 5)
    assert.is_true((other - path:increment(0.3, 5)):abs():max():item() > 0.1)
    local shifted = pn.brownian { seed = 3, shape = { 4, 2 }, tolerance = 2 ^ -12, start = -2 }
    assert.is_true(furthest(shifted:increment(-1.75, 3), path:increment(0.25, 5)) < 1e-14)
    -- a finer tolerance is the same path where both have cells
    local finer = pn.brownian { seed = 3, shape = { 4, 2 }, tolerance = 2 ^ -20 }
    assert.same(finer:increment(0.25, 0.75):totable(), path:increment(0.25, 0.75):totable())
    assert.equal("brownian path of seed 3, shape [4, 2], from 0 on, cells of 0.000244141", tostring(path))
  end)

  it("is that of another implementation, from the counters on", function()
    local case, w, area = golden.paths, {}, {}
    local same = pn.brownian { seed = case.seed, shape = { #case.y0 }, tolerance = 2 ^ -9 }
    for k = 1, 8 do
      w[k], area[k] = same:increment((k - 1) / 8, k / 8), same:area((k - 1) / 8, k / 8)
    end
    assert.is_true(furthest(pn.stack(w, 2), pn.tensor(case.w)) < 1e-14)
    assert.is_true(furthest(pn.stack(area, 2), pn.tensor(case.area)) < 1e-14)
    local diffusions = { euler_maruyama = function(_, y, p) return p[2] * y:cos() end,
      sra1 = function(t, y, p) return p[2] * (1 + t) * pn.ones_like(y) end }
    for _, method in ipairs { "euler_maruyama", "sra1" } do
      local y0, p = pn.param(pn.tensor(case.y0):unsqueeze(2)), pn.param(pn.tensor(case.parameters))
      local y = pn.sde(function(t, y, q) return q[1] * y:sin() + t end, diffusions[method], y0, pn.tensor { 0, 1 },
        { parameters = { p }, path = same, step = 1 / 8, method = method })[2]
      local want, g = case[method], pn.grad(y:sum(), { y0, p })
      assert.is_true(furthest(y:reshape { -1 }, pn.tensor(want.sde)) < 1e-13)
      assert.is_true(furthest(g[1]:reshape { -1 }, pn.tensor(want.sde_adjoint.y0)) < 1e-13)
      assert.is_true(furthest(g[2], pn.tensor(want.sde_adjoint.parameters)) < 1e-13)
    end
  end)

  it("has independent normal increments and areas", function()
    local n = 40000
    local wide = pn.brownian { seed = 8, shape = { n }, tolerance = 2 ^ -10 }
    for _, times in ipairs { { 0, 1 }, { 0.3, 0.9 }, { 0.3, 0.31 }, { 0.9, 2.5 }, { 3, 3.7 }, { 1 / 3, 17 } } do
      local s, t = times[1], times[2]
      local w, a = wide:increment(s, t) / math.sqrt(t - s), wide:area(s, t) * math.sqrt(12 / (t - s))
      for _, x in ipairs { w, a } do
        check_mean(x, 0, 0.01)
        check_mean(x * x, 1, 0.01)
        check_mean(x ^ 4, 3, 0.06)
      end
      local before, after = wide:increment(0, s), wide:increment(t, t + 0.5)
      check_mean(w * a, 0, 0.01)
      check_mean(after * w, 0, 0.01)
      check_mean(after * a, 0, 0.01)
      if s > 0 then
        check_mean(before * w, 0, 0.01)
        check_mean(before * a, 0, 0.01)
      end
      check_mean(wide:area(t, t + 0.5) * a, 0, 0.01)
    end
  end)

  it("names what it cannot be", function()
    refused("seed", pn.brownian, { shape = { 2 } })
    refused("seed must be a whole number", pn.brownian, { seed = -1, shape = { 2 } })
    refused("shape[1] must be a whole number", pn.brownian, { seed = 1, shape = { 0 } })
    refused("tolerance must be positive", pn.brownian, { seed = 1, shape = { 1 }, tolerance = 0 })
    refused("tolerance must be a finite number", pn.brownian, { seed = 1, shape = { 1 }, tolerance = math.huge })
    for _, bad in ipairs { 0 / 0, -math.huge, math.huge } do
      refused(bad == bad and "start must be a finite number" or "start must be a number", pn.brownian,
        { seed = 1, shape = { 1 }, start = bad })
      refused("s must be a finite number", path.area, path, bad, 1)
    end
    refused("t must be a finite number, got x", path.area, path, 1, "x")
    refused("brownian:area: the path begins at 0, got s = 1 and t = -1", path.area, path, 1, -1)
    assert.same(path:increment(0, 1):totable(), (-path:increment(1, 0)):totable())
    refused("the path begins at 0", path.increment, path, -1, 1)
    refused("t must be a finite number", path.increment, path, 0, 1 / 0)
    refused("too many cells", path.increment, path, 0, 2 ^ 50)
  end)
end)

describe("moments", function()
  -- Of the discrete chain: exact for each step size.
  it("of an Ornstein-Uhlenbeck process by Euler-Maruyama", function()
    local n, h, steps, a, sigma = 20000, 0.1, 10, 1.5, 0.6
    local y = pn.sde(function(_, x) return -a * x end, function(_, x) return sigma * pn.ones_like(x) end,
      pn.full({ n, 1 }, 2), pn.tensor { 0, 0.5, 1 }, { step = h, generator = pn.generator(1) })
    for k = 1, 2 do
      local r, steps_k, x = 1 - a * h, steps * k / 2, y[k + 1]:reshape { n }
      local mean, variance = 2 * r ^ steps_k, sigma ^ 2 * h * (1 - r ^ (2 * steps_k)) / (1 - r ^ 2)
      check_mean(x, mean, 0.01)
      check_mean((x - mean) ^ 2, variance, 0.01)
    end
    local c = ((y[2] - 2 * (1 - a * h) ^ 5) * (y[3] - 2 * (1 - a * h) ^ 10)):reshape { n } -- covariance in time
    local r = 1 - a * h
    check_mean(c, r ^ 5 * sigma ^ 2 * h * (1 - r ^ 10) / (1 - r ^ 2), 0.01)
  end)

  -- x' = w, so that a step of sra1 shows the motion of w and its area, each step's its own, for few paths and many.
  it("of motions and their areas: those of neighbouring steps have nothing in common", function()
    for _, case in ipairs { { 2, 1500, "sra1" }, { 2, 1500, "euler_maruyama" }, { 3000, 4, "sra1" } } do
      local n, steps, method, h = case[1], case[2], case[3], 0.25
      local y = pn.sde(function(_, x) return pn.stack({ x:select(-1, 2), x:select(-1, 2) * 0 }, -1) end, function(_, x)
        return pn.tensor { 0, 1 }:broadcast_to(x:shape())
      end, pn.zeros { n, 2 }, pn.arange(steps + 1) * h, { step = h, method = method, generator = pn.generator(2) })
      local moved = y:slice(1, 2, steps + 1) - y:slice(1, 1, steps)
      local w = moved:select(-1, 2)
      local area = moved:select(-1, 1) - y:slice(1, 1, steps):select(-1, 2) * h - w * (h / 2)
      local parts = { w / h ^ 0.5, method == "sra1" and area / (h ^ 3 / 12) ^ 0.5 or nil }
      local allowed = 6 / (n * steps) ^ 0.5
      for i, a in ipairs(parts) do
        assert.is_true((a:square():mean() - 1):abs():item() < allowed * 2 ^ 0.5)
        for _, b in ipairs(parts) do
          for lag = a == b and 1 or 0, 3 do
            local c = a:slice(1, 1 + lag, steps) * b:slice(1, 1, steps - lag)
            assert.is_true(c:mean():abs():item() < 6 / c:numel() ^ 0.5, ("%s: part %d, lag %d"):format(method, i, lag))
          end
        end
      end
    end
  end)

  it("of linear equations with several motions are those of matrix exponentials", function()
    local n = 20000
    for _, case in ipairs(golden.linear) do
      local a, b = pn.tensor(case.a), pn.tensor(case.b)
      local times = pn.tensor { 0, case.times[1], case.times[2] }
      local y = pn.sde(function(_, x) return x:matmul(a:t()) end, function(_, x)
        return b:unsqueeze(1):broadcast_to { x:size(1), 2, b:size(2) }
      end, pn.tensor(case.y0):unsqueeze(1):broadcast_to { n, 2 }, times,
        { method = "sra1", noise = "general", step = 0.01, generator = pn.generator(2) })
      for k = 1, 2 do
        local d = y[k + 1] - pn.tensor(case.mean[k])
        for i = 1, 2 do
          check_mean(d:slice(2, i, i):reshape { n }, 0, 0.01)
          for j = 1, 2 do check_mean((d:slice(2, i, i) * d:slice(2, j, j)):reshape { n }, case.cov[k][i][j], 0.01) end
        end
      end
    end
  end)

  it("with areas of the step that is drawn, and of a path", function()
    -- SRA1 in one step of dx = v dt, dv = s dW is exact: x = s I, v = s w; E x^2 = s^2 / 3, E x v = s^2 / 2
    local n, s = 20000, 0.7
    for _, o in ipairs { { generator = pn.generator(3) }, { path = pn.brownian { seed = 4, shape = { n, 1 } } } } do
      o.method, o.noise = "sra1", "scalar"
      local y = pn.sde(function(_, x) return pn.concatenate({ x:slice(2, 2, 2), x:slice(2, 2, 2) * 0 }, 2) end,
        function(_, x) return pn.tensor { { 0, s } } * pn.ones_like(x) end, pn.zeros(n, 2), pn.tensor { 0, 1 }, o)[2]
      local x, v = y:slice(2, 1, 1):reshape { n }, y:slice(2, 2, 2):reshape { n }
      check_mean(x * x, s * s / 3, 0.01)
      check_mean(x * v, s * s / 2, 0.01)
      check_mean(v * v, s * s, 0.01)
      if o.path then
        local i = (o.path:increment(0, 1) / 2 + o.path:area(0, 1)):reshape { n }
        assert.is_true(furthest(x, i * s) < 1e-12)
      end
    end
  end)
end)

describe("kinds of noise:", function()
  local function still(_, y) return y * 0 end
  local times, n = pn.tensor { 0, 0.5, 1 }, 6

  it("each element, each path or motions of a path have their own", function()
    local function w(shape) return pn.brownian { seed = 5, shape = shape } end
    local function ones(_, y) return pn.ones_like(y) end
    local y0 = pn.zeros(n, 3)
    local path = w { n, 3 }
    assert.is_true(furthest(pn.sde(still, ones, y0, times, { path = path })[3], path:increment(0, 1)) < 1e-14)
    path = w { n }
    local y = pn.sde(still, ones, y0, times, { path = path, noise = "scalar" })[3]
    assert.is_true(furthest(y, path:increment(0, 1):unsqueeze(2) * pn.ones(n, 3)) < 1e-14)
    path = w { n, 2 }
    local mix = pn.tensor { { 1, 0 }, { 0, 2 }, { 3, -1 } }
    y = pn.sde(still, function(_, x) return mix:unsqueeze(1):broadcast_to { x:size(1), 3, 2 } end, y0, times,
      { path = path, noise = "general" })[3]
    assert.is_true(furthest(y, path:increment(0, 1):matmul(mix:t())) < 1e-14)
  end)

  it("y0 of any shape, a vector being one path", function()
    local path = pn.brownian { seed = 6, shape = { 3 } }
    local y = pn.sde(still, function(_, x) return pn.ones_like(x) end, pn.zeros(3), times, { path = path })
    assert.same({ 3, 3 }, y:shape())
    assert.is_true(furthest(y[3], path:increment(0, 1)) < 1e-14)
    y = pn.sde(still, function(_, x) return x end, pn.ones(2, 3, 4), times)
    assert.same({ 3, 2, 3, 4 }, y:shape())
    y = pn.sde(still, function(_, x) return x end, pn.tensor(1), times)
    assert.same({ 3 }, y:shape())
    y = pn.sde(still, function(_, x) return x end, pn.ones(2, 2), pn.tensor { 7 })
    assert.same({ { { 1, 1 }, { 1, 1 } } }, y:totable())
    y = pn.sde(still, function(_, x) return pn.ones_like(x) end, pn.zeros(4, 2, 2), times,
      { noise = "scalar", path = pn.brownian { seed = 6, shape = { 4 } } })[3]
    assert.is_true((y - y:slice(2, 1, 1):slice(3, 1, 1)):abs():max():item() == 0)
  end)

  it("draws move on, and come again with their generator", function()
    local function draw(o) return pn.sde(still, function(_, x) return pn.ones_like(x) end, pn.zeros(5, 1), times, o) end
    pn.seed(3)
    local one, two = draw(), draw()
    pn.seed(3)
    assert.same(one:totable(), draw():totable())
    assert.is_true((one - two):abs():max():item() > 0.01)
    assert.same(draw { generator = pn.generator(4) }:totable(), draw { generator = pn.generator(4) }:totable())
    -- the first paths of a larger batch on a path
    local path = pn.brownian { seed = 2, shape = { 50, 1 } }
    local few = pn.brownian { seed = 2, shape = { 5, 1 } }
    local all = pn.sde(still, function(_, x) return pn.ones_like(x) end, pn.zeros(50, 1), times, { path = path })
    assert.same(all:slice(2, 1, 5):totable(), draw { path = few }:totable())
  end)

  it("float32 is float64 to its precision", function()
    local p = pn.tensor { 0.3, 0.4 }
    local function f(t, y, q) return q[1] * y:sin() + t end
    local function g(_, y, q) return q[2] * y:cos() end
    local y0 = pn.randn({ 100, 3 }, { generator = pn.generator(1) })
    local path = pn.brownian { seed = 7, shape = { 100, 3 } }
    for _, method in ipairs { "euler_maruyama", "milstein", "heun", "reversible_heun" } do
      local q, q4 = pn.param(p), pn.param(p:to "float32")
      local o = { path = path, step = 0.02, method = method, parameters = { q } }
      local y = pn.sde(f, g, y0, times, o)
      o.parameters = { q4 }
      local z = pn.sde(f, g, y0:to "float32", times, o)
      assert.equal("float32", z:dtype())
      local e = furthest(z:detach():to "float64", y:detach())
      assert.is_true(e < 1e-5 and e > 0)
      local a, b = pn.grad(y:square():mean(), { q })[1], pn.grad(z:square():mean(), { q4 })[1]
      assert.is_true(furthest(b:to "float64", a) < 1e-5)
    end
    local n32 = 40000
    local start = pn.zeros({ n32, 1 }, { dtype = "float32" })
    local y = pn.sde(still, function(_, x) return pn.ones_like(x) end, start, times,
      { step = 0.1, generator = pn.generator(1) })[3]:to("float64"):reshape { n32 }
    check_mean(y, 0, 0.01)
    check_mean(y * y, 1, 0.01)
  end)

  it("steps lie evenly between irregular times", function()
    local seen = pn.sde(function(t, y) return pn.ones_like(y) * t end, still, pn.zeros(1, 1),
      pn.tensor { 0, 0.3, 1, 1.05 }, { step = 0.25 }):reshape { 4 }
    -- Euler's rule for the integral of t, steps 0.15 x 2, 7/30 x 3, 0.05
    local third = 0.7 / 3
    local want = { 0, 0.15 * 0.15, 0, 0 }
    want[3] = want[2] + third * (0.3 + (0.3 + third) + (0.3 + 2 * third))
    want[4] = want[3] + 0.05 * 1
    assert.is_true(furthest(seen, pn.tensor(want)) < 1e-14)
  end)
end)

describe("adaptive steps", function()
  local n = 200
  local function f(_, y) return -(y * 0.64 + 0.5) * (1 - y * y) end
  local function g(_, y) return (1 - y * y) * 0.8 end
  local path = pn.brownian { seed = 9, shape = { n, 1 }, tolerance = 2 ^ -24 }
  local function exact_at(t)
    local e = (path:increment(0, t) * 1.6 - t):exp()
    return (1.1 * e - 0.9) / (1.1 * e + 0.9)
  end
  local exact = exact_at(1)

  it("come nearer as they are asked to, on one path", function()
    for _, method in ipairs { "milstein", "heun", "euler_heun" } do
      local last = math.huge
      for _, tolerance in ipairs { 1e-2, 1e-3, 1e-4 } do
        -- (the first step is far too long, and has to be refused)
        local y = pn.sde(f, g, pn.full({ n, 1 }, 0.1), pn.tensor { 0, 0.37, 1 }, { adaptive = true, rtol = tolerance,
          atol = tolerance, first_step = tolerance < 1e-2 and 1 or 0, method = method, path = path })
        local error = (y[3] - exact):square():mean():sqrt():item()
        local largest = (y[2] - exact_at(0.37)):abs():max():item()
        assert.is_true(error < last / 2 and error < 10 * tolerance and largest < 40 * tolerance)
        last = error
      end
    end
  end)

  it("have the law of the solution", function()
    local m = 4000 -- dX = -X dt + 0.5 dW from 0: variance (1 - e^-2) / 8
    local y = pn.sde(function(_, y) return -y end, function(_, y) return pn.ones_like(y) * 0.5 end, pn.zeros(m, 1),
      pn.tensor { 0, 1 }, { adaptive = true, rtol = 1e-2, atol = 1e-3, method = "sra1", noise = "additive", chunk = 1,
        generator = pn.generator(5) })[2]:reshape { m }
    check_mean(y, 0, 0.01)
    check_mean(y * y, (1 - math.exp(-2)) / 8, 0.005)
  end)

  it("are refused where they would not converge, with the reason", function()
    local function general(_, y) return pn.stack({ y, y * y }, -1) end
    local y0, times = pn.ones(3, 1), pn.tensor { 0, 1 }
    refused("need strong order 1", pn.sde, f, g, y0, times, { adaptive = true })
    refused("need strong order 1", pn.sde, f, g, y0, times, { adaptive = true, method = "reversible_heun" })
    refused("need strong order 1", pn.sde, f, general, y0, times,
      { adaptive = true, method = "heun", noise = "general" })
    local constant = function(_, y) return pn.ones_like(y) end
    assert.same({ 2, 3, 1 }, pn.sde(f, constant, y0 * 0, times, { adaptive = true }):shape())
  end)

  it("end with an error where the tolerances cannot be had", function()
    local y0, times = pn.ones(3, 1), pn.tensor { 0, 1 }
    local coarse = pn.brownian { seed = 9, shape = { 3, 1 }, tolerance = 2 ^ -8 }
    refused("shorter than the tolerance 0.00390625 of the path", pn.sde, f, g, y0 * 0.1, times,
      { adaptive = true, method = "milstein", rtol = 1e-6, atol = 1e-6, path = coarse })
    -- half of the first step, 1 / 128, on a coarser path; a step that is a fifth again and again on its own path
    coarse = pn.brownian { seed = 9, shape = { 3, 1 }, tolerance = 2 ^ -4 }
    refused("a step of 0.00390625 at t = 0 is shorter than the tolerance 0.0625 of the path", pn.sde, f, g, y0 * 0.1,
      times, { adaptive = true, method = "milstein", path = coarse })
    refused("the tolerances ask for a step below 1e-07 at t = 0", pn.sde, f, g, y0 * 0.1, times,
      { adaptive = true, method = "milstein", rtol = 1e-30, atol = 1e-30 })
    refused("y is not finite just after t = 0", pn.sde, function(_, y) return y:log() end, g, -y0, times,
      { adaptive = true, method = "milstein" })
    refused("max_steps = 5", pn.sde, f, g, y0 * 0.1, times, { adaptive = true, method = "milstein", max_steps = 5 })
    refused("at t = 0.0", pn.sde, function(_, y) return y * y * 100 end, g, y0, times,
      { adaptive = true, method = "milstein" })
  end)
end)

describe("pn.sde names", function()
  local y0, times = pn.ones(4, 2), pn.tensor { 0, 1 }
  local function f(_, y) return -y end
  local p = pn.param(pn.tensor(1))

  it("wrong arguments", function()
    refused("drift must be a function", pn.sde, 1, f, y0, times)
    refused("diffusion must be a function", pn.sde, f, nil, y0, times)
    refused("y0 must be a tensor", pn.sde, f, f, 1, times)
    refused("y0 must be float64 or float32, got int64", pn.sde, f, f, y0:to "int64", times)
    refused("y0 must have an element", pn.sde, f, f, pn.zeros { 0, 2 }, times)
    refused("times must be a tensor", pn.sde, f, f, y0, { 0, 1 })
    refused("times must be a vector [T]", pn.sde, f, f, y0, pn.tensor(1))
    refused("times must be finite and increase, number 3 is 1", pn.sde, f, f, y0, pn.tensor { 0, 1, 1 })
    refused("times must be finite and increase", pn.sde, f, f, y0, pn.tensor { 1, 0 })
    refused("times must be finite", pn.sde, f, f, y0, pn.tensor { 0, 0 / 0 })
    refused("parameters must be a table", pn.sde, f, f, y0, times, { parameters = 1 })
    refused("parameters[1] must be a tensor", pn.sde, f, f, y0, times, { parameters = { 1 } })
    refused("parameters[1] must be float64, as y0 is", pn.sde, f, f, y0, times, { parameters = { p:to "float32" } })
    refused("first axis must be the 4 paths", pn.sde, f, f, y0, times, { parameters = { p }, per_path = { true } })
    refused("per_path must say", pn.sde, f, f, y0, times, { parameters = { p }, per_path = {} })
    refused("step must not be negative", pn.sde, f, f, y0, times, { step = -1 })
    refused("step must be a number", pn.sde, f, f, y0, times, { step = 0 / 0 })
    refused("more than max_steps = 1000000", pn.sde, f, f, y0, times, { step = 1e-300 })
    refused("max_steps", pn.sde, f, f, y0, times, { max_steps = 0 })
    refused("did you mean 'milstein'", pn.sde, f, f, y0, times, { method = "milsten" })
    refused("did you mean", pn.sde, f, f, y0, times, { steps = 3 })
    refused("path must be a pn.brownian", pn.sde, f, f, y0, times, { path = 1 })
    refused("path must have 8 motions", pn.sde, f, f, y0, times, { path = pn.brownian { seed = 1, shape = { 4 } } })
    refused("shorter than the tolerance", pn.sde, f, f, y0, times,
      { step = 1e-3, path = pn.brownian { seed = 1, shape = { 4, 2 }, tolerance = 0.01 } })
    refused("the path begins at 0, after", pn.sde, f, f, y0, pn.tensor { -1, 1 },
      { path = pn.brownian { seed = 1, shape = { 4, 2 } } })
    refused("rtol must be positive", pn.sde, f, f, y0, times, { rtol = 0 })
  end)

  it("schemes that do not fit", function()
    refused("in Ito's sense", pn.sde, f, f, y0, times, { calculus = "stratonovich", method = "euler_maruyama" })
    refused("a diffusion that does not depend on y", pn.sde, f, f, y0, times, { method = "sra1" })
    refused("a diffusion that does not depend on y", pn.sde, f, f, y0, times, { noise = "additive" })
    local function turning(_, y) return pn.stack({ y * 0.3, y:flip(2) * pn.tensor { 0.5, -0.4 } * y }, -1) end
    refused("motions that commute; 1 and 2 do not", pn.sde, f, turning, y0, times,
      { method = "milstein", noise = "general" })
    refused("needs method = 'reversible_heun'", pn.sde, f, f, y0, times, { gradient = "reversible", method = "heun" })
  end)

  it("what drift and diffusion must not do", function()
    refused("drift must return a tensor", pn.sde, function() return 1 end, f, y0, times)
    refused("drift must return shape [4, 2]", pn.sde, function(_, y) return y[1] end, f, y0, times)
    refused("diffusion must return float64, as y is, got bool", pn.sde, f, function(_, y) return y:gt(0) end, y0, times)
    refused("y's shape and an axis for the motions", pn.sde, f, f, pn.ones(4, 2), times, { noise = "general" })
    refused("item", pn.sde, function(_, y) return y * y:sum():item() end, f, y0, times)
    refused("pass it in {parameters", pn.sde, function(_, y) return y * p end, f, y0, times)
    refused("must not draw random numbers", pn.sde, function(_, y) return y * pn.randn { 4, 2 } end, f, y0, times)
    refused("makes a path depend on others", pn.sde, function(_, y) return y - y:mean(1, true) end, f, y0, times)
    refused("makes a path depend on others", pn.sde, f, function(_, y) return y:flip(1) end, y0, times)
    -- paths that belong together are one path with an axis more
    local function apart(_, y) return y - y:mean(2, true) end
    assert.same({ 2, 1, 4, 2 }, pn.sde(apart, f, y0:unsqueeze(1), times):shape())
  end)

  it("where a path leaves the numbers", function()
    local start = pn.zeros(5000, 2)
    local y = pn.concatenate({ start:slice(1, 1, 4321), start:slice(1, 1, 1) + pn.tensor { { 0, 1 } },
      start:slice(1, 1, 10) }, 1)
    refused("from t = 0.5 to 0.75: element 2 of path 4322", pn.sde, function(_, x) return x * 2 ^ 402 end,
      function(_, x) return x * 0 end, y, pn.tensor { 0, 0.25, 0.5, 0.75, 1 }, {})
    refused("y0 must be finite, element 1 of path 2 is not", pn.sde, f, f, pn.tensor { { 1, 2 }, { 0 / 0, 1 } }, times)
  end)
end)
