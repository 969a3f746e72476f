-- pn.odeint: against SciPy's DOP853 (spec/golden/autodiff/odeint.py), closed forms, finite differences; within compiled
-- functions and samplers; and what it refuses.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local systems = {}

function systems.lotka_volterra(_, y, p)
  local u, v = y[1], y[2]
  return pn.stack({ (p[1] - p[2] * v) * u, (p[4] * u - p[3]) * v }, 1)
end

function systems.michaelis_menten(t, c, p)
  return p[1] * (-p[1] * t):exp() * 15 - p[3] * c / (p[2] + c) / 2
end

function systems.van_der_pol(_, y, p)
  return pn.stack({ y[2], p[1] * (1 - y[1] * y[1]) * y[2] - y[1] }, 1)
end

local function oscillator(_, y) return pn.stack({ y[2], -y[1] }, 1) end
local function square(_, y, a) return a * y * y end
local function decay(_, y, k) return -k * y end

local function furthest(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message, 1, true)
  assert.matches("odeint_spec.lua:", message, 1, true)
end

local tight = { rtol = 1e-11, atol = 1e-12, max_steps = 200000 }

local function with(o, parameters)
  return { rtol = o.rtol, atol = o.atol, max_steps = o.max_steps, first_step = o.first_step, max_step = o.max_step,
    parameters = parameters }
end

describe("solutions of differential equations", function()
  for k, case in ipairs(dofile "spec/golden/autodiff/odeint.lua") do
    it(("and gradients are those of golden case %d, %s"):format(k, case.system), function()
      local y0, p = pn.param(pn.tensor(case.y0)), pn.param(pn.tensor(case.parameters))
      local times = pn.param(pn.tensor(case.times))
      local y = pn.odeint(systems[case.system], y0, times, with(tight, { p }))
      assert.is_true(furthest(y, pn.tensor(case.odeint)) < 1e-8)
      local i, j = pn.arange(y:size(1)):unsqueeze(2), pn.arange(y:size(2)):unsqueeze(1)
      local g = pn.grad((y / (1 + i + 2 * j)):sum(), { y0, p, times })
      local want = case.odeint_adjoint
      assert.is_true(furthest(g[1], pn.tensor(want.y0)) < 1e-7)
      assert.is_true(furthest(g[2], pn.tensor(want.parameters)) < 1e-7)
      assert.is_true(furthest(g[3]:slice(1, 2, y:size(1)), pn.tensor(want.times)) < 1e-7)
    end)
  end

  it("have the shape of the state, forwards and backwards in time", function()
    local y0 = pn.tensor { { 1, 2, 3 }, { -1, 0.5, 4 } }
    local y = pn.odeint(decay, y0, pn.tensor { 0, 0.7, 2 }, with(tight, { pn.tensor(0.8) }))
    assert.same({ 3, 2, 3 }, y:shape())
    assert.is_true(furthest(y[3], y0 * math.exp(-1.6)) < 1e-9)
    local back = pn.odeint(decay, y[3], pn.tensor { 2, 0.7, 0 }, with(tight, { pn.tensor(0.8) }))
    assert.is_true(furthest(back[3], y0) < 1e-9 and furthest(back[2], y[2]) < 1e-9)
    assert.same(y0:totable(), pn.odeint(decay, y0, pn.tensor { 5 }, { parameters = { pn.tensor(1) } })[1]:totable())
    for at, list in ipairs { { 0 / 0, 1 }, { 0, math.huge }, { 0, 1, 1 }, { 3, 2, 1, 2 } } do
      local ok, message = pcall(pn.odeint, decay, y0, pn.tensor(list), { parameters = { pn.tensor(1) } })
      assert.is_false(ok)
      assert.truthy(message:find("times must be finite and in order, without repeats; number " .. at, 1, true), message)
    end
    assert.error_matches(function()
      pn.odeint(decay, y0, pn.tensor { math.huge }, { parameters = { pn.tensor(1) } })
    end, "number 1 is inf")
    local line = pn.odeint(function() return pn.ones {} end, pn.tensor(0), pn.tensor { 1, 4 })
    assert.is_true(furthest(line[2], pn.tensor(3)) < 1e-12)
  end)

  -- With steps of one length h (a tolerance that takes all) the error falls like h^5.
  it("converge with order 5", function()
    local function errors(h)
      local times = pn.tensor { 0, 1.03, 2 }
      local y = pn.odeint(oscillator, pn.tensor { 1, 0 }, times, { rtol = 1, atol = 1, first_step = h, max_step = h })
      local want = pn.stack({ times:cos(), -times:sin() }, 2)
      return (y - want):abs():max(2):totable()
    end
    local coarse, fine = errors(0.25), errors(0.125)
    assert.is_true(math.abs(math.log(coarse[3] / fine[3], 2) - 5) < 0.3)
    assert.is_true(math.log(coarse[2] / fine[2], 2) > 4) -- between two steps
  end)

  it("are as exact as the tolerances ask", function()
    local case = dofile("spec/golden/autodiff/odeint.lua")[1]
    local before = math.huge
    for _, rtol in ipairs { 1e-3, 1e-5, 1e-7, 1e-9 } do
      local y = pn.odeint(systems.lotka_volterra, pn.tensor(case.y0), pn.tensor(case.times),
        { rtol = rtol, atol = rtol, parameters = { pn.tensor(case.parameters) } })
      local e = furthest(y, pn.tensor(case.odeint))
      assert.is_true(e < 300 * rtol and e < before / 10)
      before = e
    end
  end)

  it("reach the end of a problem that is moderately stiff", function()
    local rate = 1000 -- y' = -rate (y - cos t)
    local times = pn.tensor { 0, 0.01, 1.5, 4 }
    local y = pn.odeint(function(t, y, k) return k * (t:cos() - y) end, pn.tensor { 0 }, times,
      { parameters = { pn.tensor(rate) } })
    local smooth = (times:cos() * rate ^ 2 + times:sin() * rate) / (rate ^ 2 + 1)
    local want = smooth - smooth[1] * (-rate * times):exp()
    assert.is_true((y:reshape { -1 } - want):abs():max():item() < 1e-5)
  end)
end)

describe("gradients of solutions", function()
  local theta, y0 = pn.param(pn.tensor { 0.55, 0.028, 0.8, 0.024 }), pn.param(pn.tensor { 33.9, 5.9 })
  local times = pn.tensor { 0, 1, 2.5, 7 }

  -- Central differences of order 4 of loss() in w: [numel].
  local function differences(loss, w)
    local start, out = w:detach() + 0, {}
    local flat = start:reshape({ -1 }):totable()
    for i, v in ipairs(flat) do
      local h, sum = 1e-3 * math.abs(v), 0
      for k, weight in pairs { [1] = 8, [-1] = -8, [2] = -1, [-2] = 1 } do
        flat[i] = v + k * h
        w:set(pn.tensor(flat):reshape(w:shape()))
        sum = sum + weight * loss():item()
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

  it("agree with finite differences, also in the first time", function()
    local later = pn.param(pn.tensor { 0.5, 1, 2.5, 7 })
    check(function()
      return pn.odeint(systems.lotka_volterra, y0, later, with(tight, { theta })):log():sum()
    end, { theta, y0, later }, 1e-6)
    check(function() -- of f that depends on time
      return pn.odeint(systems.michaelis_menten, y0, later, with(tight, { theta })):log():sum()
    end, { theta, y0, later }, 1e-6)
  end)

  it("are those of the discrete solution, exactly", function()
    local coarse = { rtol = 1e3, atol = 1e3, first_step = 0.5, max_step = 0.5 } -- steps of one length
    local inner = pn.tensor { 0, 1.2, 2.9, 7 }
    local function loss()
      return pn.odeint(systems.lotka_volterra, y0, inner, with(coarse, { theta })):log():sum()
    end
    check(loss, { theta, y0 }, 1e-9)
  end)

  it("reach parameters of any shape, and those that f ignores are 0", function()
    local a, b = pn.param(pn.tensor { { -0.5, 0.1 }, { 0.2, -0.4 } }), pn.param(pn.tensor { 0.1, 0.2 })
    local unused = pn.param(pn.ones { 2, 3 })
    local function f(_, y, m, c) return m:matmul(y) + c end
    local function loss() return pn.odeint(f, y0, times, with(tight, { a, b, unused })):square():sum() end
    check(loss, { a, b, y0 }, 1e-6)
    assert.equal(0, pn.grad(loss(), { unused })[1]:abs():max():item())
    local constant = pn.odeint(function() return pn.ones { 2 } end, y0, times, { parameters = { b } })
    local g = pn.grad(constant:sum(), { y0, b })
    assert.same({ { 4, 4 }, { 0, 0 } }, { g[1]:totable(), g[2]:totable() })
  end)

  it("have none of their own", function()
    local y = pn.odeint(systems.lotka_volterra, y0, times, { parameters = { theta } })
    refused("a gradient of its gradient does not exist", pn.grad, y:sum(), { theta }, { create_graph = true })
  end)
end)

describe("solutions in compiled functions", function()
  local theta = pn.param(pn.tensor { 0.55, 0.028, 0.8, 0.024 })
  local times, y0 = pn.linspace(0, 20, 21), pn.tensor { 30, 4 }

  local function value_and_gradient(x)
    local p = theta * x:exp()
    local loss = pn.odeint(systems.lotka_volterra, y0 + x:sum(), times, { parameters = { p } }):log():square():sum()
    return loss:detach(), pn.grad(loss, { p })[1]
  end

  it("are the bits of eager calls, without new memory", function()
    local compiled = pn.compile(value_and_gradient)
    for k = 0, 3 do
      local x = pn.tensor { 0.01, -0.02, 0.03, 0.01 } * k
      local a, g = compiled(x)
      local b, h = value_and_gradient(x)
      assert.same({ b:item(), h:totable() }, { a:item(), g:totable() })
    end
    assert.equal(1, compiled:captures())
  end)

  it("are solved for the gradient alone where nobody asks for the value", function()
    local function gradient(x)
      local p = theta * x
      return pn.grad(pn.odeint(systems.lotka_volterra, y0, times, { parameters = { p } }):sum(), { p })[1]
    end
    local compiled = pn.compile(gradient)
    for _, x in ipairs { 1, 1.1, 0.9 } do
      assert.same(gradient(pn.tensor(x)):totable(), compiled(pn.tensor(x)):totable())
    end
  end)

  it("nest", function()
    local function outer(_, y, k) -- y' = -k (y at time 1 of z' = -z, z(0) = y)
      return -k * pn.odeint(decay, y, pn.tensor { 0, 1 }, { parameters = { pn.tensor(1) } })[2]
    end
    local f = pn.compile(function(k)
      return pn.odeint(outer, pn.tensor { 2 }, pn.tensor { 0, 1 }, { parameters = { k } })[2]
    end)
    for _, k in ipairs { 0.5, 2 } do
      assert.is_true(math.abs(f(pn.tensor(k)):item() - 2 * math.exp(-k * math.exp(-1))) < 1e-5)
    end
  end)

  it("refuse what would be frozen", function()
    refused("pass it in {parameters", pn.compile(function(x)
      local k = x * 2
      return pn.odeint(function(_, y) return -k * y end, y0, times)
    end), pn.tensor(1))
    refused("item", pn.odeint, function(_, y) return y * y[1]:item() end, y0, times)
    refused("pass it in {parameters", pn.compile(function(x)
      local k = x * pn.ones { 2 }
      return pn.odeint(function() return k end, y0, times)
    end), pn.tensor(1))
    local f = pn.compile(function(x)
      local k = x * 2
      pcall(pn.odeint, function(_, y) return -k * y end, y0, times)
      return k
    end)
    refused("pass it in {parameters", f, pn.tensor(1)) -- a failure that is caught breaks the outer capture
    local g = pn.compile(function(x) -- one that comes again does not
      local k = x * 2
      return pcall(pn.odeint, function() return 1 end, y0, times) and x or k
    end)
    assert.equal(2, g(pn.tensor(1)):item())
    assert.equal(6, g(pn.tensor(3)):item())
  end)

  it("see a failure and recover", function()
    local f = pn.compile(function(k)
      return pn.odeint(square, pn.tensor { 1 }, pn.tensor { 0, 1 }, { parameters = { k } })[2]
    end)
    assert.is_true(math.abs(f(pn.tensor(0.5)):item() - 2) < 1e-5)
    refused("a singularity", f, pn.tensor(3))
    assert.is_true(math.abs(f(pn.tensor(-1)):item() - 0.5) < 1e-5)
  end)
end)

describe("samplers of models with differential equations", function()
  local times, seen = pn.tensor { 0, 1, 2, 3 }, pn.tensor { 1.3, 0.9, 0.45 }

  local function posterior(solution, threads, seed)
    local before = pn.threads()
    pn.threads(threads)
    pn.seed(seed)
    local p = pn.nuts(pn.model(function(m)
      local k = m:sample("k", dist.log_normal(0, 1))
      m:observe("y", dist.log_normal(solution(k):slice(1, 2, 4):reshape({ 3 }):log(), 0.2):independent(1), seen)
    end), { chains = 2, warmup = 300, draws = 500 })
    pn.threads(before)
    return p
  end

  local function solved(k) return pn.odeint(decay, pn.tensor { 2 }, times, { parameters = { k } }) end
  local function closed(k) return 2 * (-k * times):exp() end

  it("draw what they draw from the closed form, on any number of threads", function()
    local one, two = posterior(solved, 1, 3), posterior(solved, 2, 3)
    assert.same(one.draws.k:totable(), two.draws.k:totable())
    local exact, ours = posterior(closed, 1, 4):summary().k, one:summary().k
    assert.is_true(math.abs(exact.mean - ours.mean) < 5 * math.sqrt(exact.mcse ^ 2 + ours.mcse ^ 2))
    assert.is_true(exact.mcse < exact.sd / 10 and math.abs(math.log(exact.sd / ours.sd)) < 0.3)
  end)

  it("take failures as density 0, also at the start that is drawn first", function()
    local m = pn.model(function(m) -- y' = k y^2 blows up before t = 1 for k > 1
      local k = m:sample("k", dist.normal(0, 2))
      local y = pn.odeint(square, pn.tensor { 1 }, pn.tensor { 0, 1 }, { parameters = { k } })
      m:factor("solved", y[2] * 0)
    end)
    for seed = 1, 8 do -- a quarter of all starts lie outside
      pn.seed(seed)
      local p = pn.nuts(m, { chains = 2, warmup = 100, draws = 100 })
      assert.is_true(p.draws.k:max():item() < 1.01)
      assert.is_true(p.draws.k:max():item() > 0)
    end
  end)

  it("tell an error that every start has", function()
    refused("a singularity", pn.nuts, pn.model(function(m)
      local k = m:sample("k", dist.uniform(2, 3))
      m:factor("solved", pn.odeint(square, pn.tensor { 1 }, pn.tensor { 0, 1 }, { parameters = { k } })[2])
    end), { chains = 1, warmup = 10, draws = 10 })
  end)
end)

describe("pn.odeint names", function()
  local y0, times, k = pn.tensor { 1, 2 }, pn.tensor { 0, 1 }, pn.param(pn.tensor(1))

  it("wrong arguments", function()
    refused("f must be a function", pn.odeint, 1, y0, times)
    refused("y0 must be a tensor", pn.odeint, decay, 1, times)
    refused("y0 must be float64 or float32, got int64", pn.odeint, decay, y0:to "int64", times)
    refused("times must be a tensor", pn.odeint, decay, y0, { 0, 1 })
    refused("times must be a vector [T]", pn.odeint, oscillator, y0, pn.tensor(1))
    refused("in order", pn.odeint, oscillator, y0, pn.tensor { 0, 1, 1 })
    refused("in order", pn.odeint, oscillator, y0, pn.tensor { 0, 1, 0.5 })
    refused("in order", pn.odeint, oscillator, y0, pn.tensor { 0, 0 / 0 })
    refused("y0 must have an element", pn.odeint, function(_, y) return y end, pn.zeros { 0 }, times)
    refused("parameters must be a table", pn.odeint, decay, y0, times, { parameters = 1 })
    refused("parameters[1] must be a tensor", pn.odeint, decay, y0, times, { parameters = { 1 } })
    refused("rtol must be positive", pn.odeint, oscillator, y0, times, { rtol = 0 })
    refused("max_step must be positive", pn.odeint, oscillator, y0, times, { max_step = -1 })
    refused("max_steps", pn.odeint, oscillator, y0, times, { max_steps = 0 })
    refused("times must be float64 or float32, got bool", pn.odeint, oscillator, y0, times:gt(0))
    refused("parameters[2] must be float64 or float32, got int64", pn.odeint, decay, y0, times,
      { parameters = { k, pn.tensor(1):to "int64" } })
    local f = pn.compile(function(x) -- and the capture around goes on
      return pcall(pn.odeint, decay, y0, times, { parameters = { 1 } }) and x or x * 2
    end)
    assert.equal(4, f(pn.tensor(2)):item())
    refused("did you mean", pn.odeint, oscillator, y0, times, { tol = 1 })
  end)

  it("what f must not do", function()
    refused("must return dy/dt, a tensor", pn.odeint, function() return 1 end, y0, times)
    refused("of y's shape [2], got shape []", pn.odeint, function(_, y) return y[1] end, y0, times)
    refused("must return float64, as y0 is, got bool", pn.odeint, function(_, y) return y:gt(0) end, y0, times)
    refused("must return float32, as y0 is, got float64", pn.odeint, function(_, y) return y:to "float64" end,
      y0:to "float32", times)
    refused("not among its parameters", pn.odeint, function(_, y) return k * y end, y0, times)
    local made = k * 2
    refused("pass it in {parameters", pn.odeint, function(_, y) return made * y end, y0, times)
    refused("must not draw", pn.odeint, function(_, y) return y * pn.rand { 2 } end, y0, times)
    assert.is_false(pcall(pn.odeint, function() error "mine" end, y0, times))
    assert.equal(4, pn.compile(function(x) return x * 2 end)(pn.tensor(2)):item()) -- no capture goes on
  end)

  it("what has no solution", function()
    refused("max_steps = 10 steps end at t =", pn.odeint, oscillator, y0, pn.tensor { 0, 100 }, { max_steps = 10 })
    refused("a singularity", pn.odeint, function(_, y) return y * y end, y0, times)
    refused("must be finite at the first time", pn.odeint, function(_, y) return y:log() end, y0 - 5, times)
    refused("not finite just after t = ", pn.odeint, function(t, y) return y * (0.5 - t):log() end, y0, times)
  end)
end)
