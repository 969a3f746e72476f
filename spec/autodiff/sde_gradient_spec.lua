-- Gradients of pn.sde: of the discrete solution, by closed forms in the increments of its path and by finite
-- differences; the ways of coming by the states against each other; memory; compiled functions and samplers.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local function furthest(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

-- Increments of the path over steps of equal length to 1: [steps, n].
local function increments(path, steps)
  local list = {}
  for k = 1, steps do list[k] = path:increment((k - 1) / steps, k / steps):reshape { -1 } end
  return pn.stack(list, 1)
end

-- Central differences of order 4 of loss() in w: [numel].
local function differences(loss, w)
  local start, out = w:detach() + 0, {}
  local flat = start:reshape({ -1 }):totable()
  for i, v in ipairs(flat) do
    local h, sum = 1e-3 * (math.abs(v) + 0.1), 0
    for k, weight in ipairs { 8, -1 } do
      for sign = -1, 1, 2 do
        flat[i] = v + sign * k * h
        w:set(pn.tensor(flat):reshape(w:shape()))
        sum = sum + sign * weight * loss():item()
      end
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

local function times_p1(_, y, p) return p[1] * y end
local function times_p2(_, y, p) return p[2] * y end

describe("gradients of geometric Brownian motion", function()
  local n, steps = 50, 64
  local path = pn.brownian { seed = 1, shape = { n, 1 } }
  local w, h = increments(path, steps), 1 / steps

  it("by Euler-Maruyama are those of its product", function()
    local p, y0 = pn.param(pn.tensor { 0.7, 0.5 }), pn.param(pn.linspace(0.5, 2, n):reshape { n, 1 })
    local y = pn.sde(times_p1, times_p2, y0, pn.tensor { 0, 1 }, { parameters = { p }, step = h, path = path })[2]
    local weights = pn.linspace(-1, 2, n)
    local g = pn.grad((y:reshape { n } * weights):sum(), { p, y0 })
    local factor = 1 + 0.7 * h + w * 0.5 -- of each step
    local exact = factor:log():sum(1):exp() * y0:detach():reshape { n } * weights
    assert.is_true(furthest(y:detach():reshape { n } * weights, exact) < 1e-12)
    local want = pn.stack({ (exact * (h / factor):sum(1)):sum(), (exact * (w / factor):sum(1)):sum() }, 1)
    assert.is_true(furthest(g[1], want) < 1e-12)
    assert.is_true(furthest(g[2]:reshape { n }, exact / y0:detach():reshape { n }) < 1e-12)
  end)

  it("tend to T X(T) and (W(T) - sigma T) X(T)", function()
    for _, method in ipairs { "milstein", "heun", "reversible_heun" } do
      local p = pn.param(pn.tensor { 0.7, 0.5 })
      local y = pn.sde(times_p1, times_p2, pn.ones(n, 1), pn.tensor { 0, 1 }, { parameters = { p }, step = 1 / 2048,
        path = path, method = method })[2]
      local g = pn.grad(y:mean(), { p })[1]
      local end_w = path:increment(0, 1)
      local x = (end_w * 0.5 + (0.7 - 0.125)):exp()
      assert.is_true(furthest(g, pn.stack({ x:mean(), ((end_w - 0.5) * x):mean() }, 1)) < 2e-2)
    end
  end)
end)

it("gradients of an Ornstein-Uhlenbeck process are those of its sum", function()
  local n, steps = 30, 40
  local path, h = pn.brownian { seed = 2, shape = { n, 1 } }, 1 / 40
  local p, y0 = pn.param(pn.tensor { 1.3, 0.4 }), pn.param(pn.tensor(0.8))
  local w = increments(path, steps)
  local y = pn.sde(function(_, x, q) return -q[1] * x end, function(_, x, q) return q[2] * pn.ones_like(x) end,
    y0 * pn.ones(n, 1), pn.tensor { 0, 1 }, { parameters = { p }, step = h, path = path, noise = "additive" })[2]
  local g = pn.grad(y:sum(), { p, y0 })
  local r, j = 1 - 1.3 * h, pn.arange(steps):flip(1) -- y = r^K y0 + sum_k r^(K - 1 - k) sigma w_k
  local power = (r ^ j):unsqueeze(2)
  local slope = (j * r ^ (j - 1) * -h):unsqueeze(2)
  local in_a = n * steps * r ^ (steps - 1) * -h * 0.8 + (slope * w):sum():item() * 0.4
  assert.is_true(furthest(g[1], pn.tensor { in_a, (power * w):sum():item() }) < 1e-12)
  assert.is_true(math.abs(g[2]:item() - n * r ^ steps) < 1e-12)
end)

describe("gradients by finite differences with the same noise:", function()
  local times = pn.tensor { 0, 0.2, 0.25, 0.7 }
  local a = pn.param(pn.tensor { { -0.5, 0.3 }, { 0.2, -0.4 } })
  local b, unused = pn.param(pn.tensor { 0.3, 0.5 }), pn.param(pn.ones { 2, 3 })
  local y0 = pn.param(pn.tensor { { 0.4, -0.3 }, { 1.1, 0.2 }, { -0.7, 0.5 } })
  local rows = pn.param(pn.tensor { { 0.3 }, { -0.8 }, { 0.5 } })
  local function drift(t, y, m, _, _, r) return y:sin():matmul(m) + r * t end
  local forms = {
    diagonal = function(t, y, _, c) return (y * c):cos() * (0.5 + t) end,
    additive = function(t, y, _, c) return c * (0.5 + t) * pn.ones_like(y) end,
    scalar = function(_, y, _, c) return (y:flip(2) * c):cos() end,
    general = function(_, y, _, c)
      return pn.stack({ y * c, (y:flip(2) * c):sin(), pn.ones_like(y) * c }, -1)
    end,
  }
  local all = { a, b, unused, rows }

  local weights = pn.tensor { 0.5, -1, 2, 1.5 }:reshape { 4, 1, 1 }

  local function loss_of(method, noise, more)
    return function()
      local o = { method = method, noise = noise, parameters = all, per_path = { false, false, false, true },
        step = 0.06, generator = pn.generator(9) }
      for k, v in pairs(more or {}) do o[k] = v end
      if o.path or o.adaptive == "held" then o.generator = nil end
      return (pn.sde(drift, forms[noise], y0, times, o):square() * weights):sum()
    end
  end

  for _, case in ipairs { { "euler_maruyama", "diagonal" }, { "euler_maruyama", "general" }, { "milstein", "diagonal" },
    { "milstein", "scalar" }, { "heun", "diagonal" }, { "heun", "general" }, { "heun", "scalar" },
    { "euler_heun", "diagonal" }, { "sra1", "additive" }, { "reversible_heun", "diagonal" },
    { "reversible_heun", "general" } } do
    it(("%s, %s noise"):format(case[1], case[2]), function()
      check(loss_of(case[1], case[2]), { a, b, y0, rows }, 1e-8)
      assert.equal(0, pn.grad(loss_of(case[1], case[2])(), { unused })[1]:abs():max():item())
    end)
  end

  it("milstein, general noise that commutes, is milstein for each element", function()
    local function column(_, y, _, c) return (y * c):cos() end
    local function whole(_, y, _, c) return ((y * c):cos():unsqueeze(-1) * pn.eye(2)) end
    local path = pn.brownian { seed = 4, shape = { 3, 2 } }
    local function f(_, y, m) return y:sin():matmul(m) end
    for _, calculus in ipairs { "ito", "stratonovich" } do
      local o = { method = "milstein", parameters = { a, b }, path = path, step = 0.1, calculus = calculus }
      local one = pn.sde(f, column, y0, times, o)
      o.noise = "general"
      local two = pn.sde(f, whole, y0, times, o)
      assert.is_true(furthest(two, one) < 1e-13)
      local g, h = pn.grad(one:square():sum(), { a, b, y0 }), pn.grad(two:square():sum(), { a, b, y0 })
      for k = 1, 3 do assert.is_true(furthest(g[k], h[k]) < 1e-12) end
    end
  end)

  it("milstein, several motions of one number, is a product over its steps", function()
    local path = pn.brownian { seed = 6, shape = { 3, 2 } }
    local w, c = pn.stack({ path:increment(0, 0.5), path:increment(0.5, 1) }, 1), pn.tensor { 0.5, -0.8 }
    for calculus, own in pairs { ito = c:square():sum():item() * 0.5, stratonovich = 0 } do
      local y = pn.sde(function(_, y) return y * 0.3 end, function(_, y) return y:unsqueeze(-1) * c end,
        pn.ones(3, 1), pn.tensor { 0, 1 }, { method = "milstein", noise = "general", calculus = calculus, path = path,
          step = 0.5 })[2]
      local change = (w * c):sum(-1)
      local factor = change + (change:square() - own) / 2 + (1 + 0.15)
      assert.is_true(furthest(y:reshape { 3 }, factor[1] * factor[2]) < 1e-13)
    end
  end)

  it("of Stratonovich's calculus", function()
    for _, method in ipairs { "milstein", "heun", "euler_heun", "reversible_heun" } do
      check(loss_of(method, "diagonal", { calculus = "stratonovich" }), { a, b, y0 }, 1e-8)
    end
  end)

  it("without recording the scheme has its slopes all the same", function()
    local loss = loss_of("milstein", "diagonal")
    assert.equal(loss():item(), pn.no_grad(loss):item())
    loss = loss_of("heun", "diagonal")
    assert.equal(loss():item(), pn.no_grad(loss):item())
  end)

  it("a parameter of each path is that of this path alone, in chunks too", function()
    for _, chunk in ipairs { 0, 2, 1 } do
      local y = pn.sde(function(_, x, r) return r * x end, function(_, x) return x * 0 end, pn.ones(3, 1),
        pn.tensor { 0, 1 }, { parameters = { rows }, per_path = { true }, step = 0.1, chunk = chunk })
      for k = 1, 3 do
        local r = rows:totable()[k][1]
        assert.is_true(math.abs(y[2]:totable()[k][1] - (1 + 0.1 * r) ^ 10) < 1e-14)
        local g = pn.grad(y[2][k]:sum(), { rows })[1]:totable()
        for j = 1, 3 do
          assert.is_true(math.abs(g[j][1] - (j == k and (1 + 0.1 * r) ^ 9 or 0)) < 1e-14)
        end
      end
    end
  end)

  it("adaptive steps are held as they were taken", function()
    -- steps that no change of the parameters moves: all as long as they may be
    local held = { adaptive = true, rtol = 1e3, atol = 1e3, step = 0.05, first_step = 0.05 }
    check(loss_of("heun", "diagonal", held), { a, b, y0, rows }, 1e-8)
    check(loss_of("sra1", "additive", held), { a, b, y0, rows }, 1e-8)
  end)
end)

describe("states that are kept, some of them, or one", function()
  local p = pn.param(pn.tensor { 0.3, 0.4 })
  local y0 = pn.param(pn.randn({ 700, 3 }, { generator = pn.generator(3) }))
  local times = pn.tensor { 0, 0.3, 0.5, 1 }
  local function drift(t, y, q) return q[1] * y:sin() + t end
  local function diffusion(_, y, q) return q[2] * y:cos() end
  local path = pn.brownian { seed = 5, shape = { 700, 3 } }

  local function gradients(o)
    o.parameters = { p }
    o.generator = not o.path and pn.generator(7) or nil
    o.step = o.step or 0.011
    local y = pn.sde(drift, diffusion, y0, times, o)
    local g = pn.grad((y * y):mean(), { p, y0 })
    return y, g[1], g[2]
  end

  for _, method in ipairs { "euler_maruyama", "milstein", "heun", "euler_heun", "reversible_heun" } do
    it(("give the same gradients with %s"):format(method), function()
      for _, along in ipairs { false, path } do
        local y, a, b = gradients { method = method, path = along, gradient = "graph" }
        local z, c, d = gradients { method = method, path = along, gradient = "checkpoints" }
        assert.same({ y:totable(), a:totable(), b:totable() }, { z:totable(), c:totable(), d:totable() })
        if method == "reversible_heun" then
          z, c, d = gradients { method = method, path = along, gradient = "reversible" }
          assert.same(y:totable(), z:totable())
          assert.is_true(furthest(c, a) < 1e-8 and furthest(d, b) < 1e-8)
        end
      end
    end)
  end

  it("give the same gradients of adaptive steps", function()
    local y, a, b = gradients { method = "heun", adaptive = true, rtol = 0.05, gradient = "graph", step = 0.5 }
    local z, c, d = gradients { method = "heun", adaptive = true, rtol = 0.05, gradient = "checkpoints", step = 0.5 }
    assert.same({ y:totable(), a:totable(), b:totable() }, { z:totable(), c:totable(), d:totable() })
  end)

  it("are the same bits on any number of threads", function()
    local before = pn.threads()
    for _, o in ipairs { { gradient = "graph" }, { gradient = "checkpoints", path = path },
      { method = "reversible_heun", gradient = "reversible" },
      { method = "milstein", adaptive = true, rtol = 0.05, step = 0.5 } } do
      o.chunk = 150
      pn.threads(1)
      local y, a, b = gradients(o)
      pn.threads(2)
      local z, c, d = gradients(o)
      pn.threads(3)
      local u, e, f = gradients(o)
      pn.threads(before)
      assert.same({ y:totable(), a:totable(), b:totable() }, { z:totable(), c:totable(), d:totable() })
      assert.same({ y:totable(), a:totable(), b:totable() }, { u:totable(), e:totable(), f:totable() })
    end
  end)

  it("do not depend on the size of chunks", function()
    local y, a, b = gradients { chunk = 700 }
    for _, chunk in ipairs { 1, 97, 256 } do
      local z, c, d = gradients { chunk = chunk }
      assert.same({ y:totable(), b:totable() }, { z:totable(), d:totable() })
      assert.is_true(furthest(c, a) < 1e-13)
    end
  end)
end)

describe("paths in compiled functions", function()
  local p, y0 = pn.param(pn.tensor { 0.3, 0.4 }), pn.ones(20, 2)
  local times = pn.tensor { 0, 0.5, 1 }

  local function value_and_gradient(o)
    return function(x)
      local q = p * x:exp()
      local loss = pn.sde(times_p1, times_p2, y0 + x:sum(), times, { parameters = { q }, step = 0.1, path = o.path,
        generator = o.generator }):square():mean()
      return loss:detach(), pn.grad(loss, { q })[1]
    end
  end

  it("are the bits of eager calls, on one path and on new ones", function()
    local along = value_and_gradient { path = pn.brownian { seed = 1, shape = { 20, 2 } } }
    local drawn, other = pn.generator(4), pn.generator(4)
    for _, pair in ipairs { { along, along },
      { value_and_gradient { generator = drawn }, value_and_gradient { generator = other } } } do
      local compiled, last = pn.compile(pair[1]), nil
      for k = 0, 3 do
        local x = pn.tensor { 0.01, -0.02 } * k
        local a, g = compiled(x)
        local b, h = pair[2](x)
        assert.same({ b:item(), h:totable() }, { a:item(), g:totable() })
        assert.is_true(a:item() ~= last)
        last = a:item()
      end
      assert.equal(1, compiled:captures())
    end
  end)

  it("are sampled on any number of threads", function()
    local seen = pn.tensor { 1.1, 1.3 }
    local function posterior(threads)
      local before = pn.threads()
      pn.threads(threads)
      pn.seed(2)
      local path = pn.brownian { seed = 3, shape = { 8, 1 } }
      local draws = pn.nuts(pn.model(function(m)
        local q = m:sample("q", dist.normal(0, 0.3):expand { 2 })
        local y = pn.sde(times_p1, times_p2, pn.ones(8, 1), times, { parameters = { q }, step = 0.125, path = path })
        m:observe("y", dist.normal(y:slice(1, 2, 3):mean(2):reshape { 2 }, 0.2):independent(1), seen)
      end), { chains = 2, warmup = 60, draws = 60 }).draws.q
      pn.threads(before)
      return draws
    end
    local one, two = posterior(1), posterior(2)
    assert.same(one:totable(), two:totable())
    assert.is_true(math.abs(one:slice(3, 1, 1):mean():item() - 0.15) < 0.15)
  end)

  it("that are not finite have density 0", function()
    local m = pn.model(function(m) -- y' = k y^2 has no end for large k
      local k = m:sample("k", dist.normal(0, 2))
      local y = pn.sde(function(_, y, q) return q * y * y * 40 end, function(_, y) return y * 0 end, pn.ones(1, 1),
        pn.tensor { 0, 1 }, { parameters = { k }, step = 1 / 40 })
      m:factor("solved", y[2]:sum() * 0)
    end)
    pn.seed(1)
    local draws = pn.nuts(m, { chains = 2, warmup = 50, draws = 50 }).draws.k
    -- y (1 + k y) over and over stays finite for k from -1 to little above 0
    assert.is_true(draws:max():item() < 0.1 and draws:min():item() > -1 and draws:min():item() < -0.5)
  end)

  it("have no gradient of their gradient, none in times", function()
    local y = pn.sde(times_p1, times_p2, y0, times, { parameters = { p } })
    local ok, message = pcall(pn.grad, y:sum(), { p }, { create_graph = true })
    assert.is_false(ok)
    assert.matches("a gradient of its gradient does not exist", message, 1, true)
    ok, message = pcall(pn.sde, times_p1, times_p2, y0, pn.param(times), { parameters = { p } })
    assert.is_false(ok)
    assert.matches("Brownian motion has no slope", message, 1, true)
  end)
end)
