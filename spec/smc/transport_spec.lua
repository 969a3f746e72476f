-- Resampling by entropy-regularised optimal transport: marginals, means, gradients.
local pn = require "penumbra"
local dist = pn.dist

local function gap(x, y)
  return (x - y):abs():max():item()
end

describe("transport", function()
  pn.seed(1)
  local n = 8
  local x, log_w = pn.randn { n, 2 }, pn.randn { n }

  it("has rows of sum 1 and columns of sum N w, and keeps the mean", function()
    local T = pn.smc.transport(x, log_w, { steps = 500 })
    local w = log_w:softmax(1)
    assert.is_true(gap(T:sum(2), pn.ones { n }) < 1e-12)
    assert.is_true(gap(T:sum(1), w * n) < 1e-9)
    assert.is_true(gap(T:matmul(x):mean(1), w:matmul(x)) < 1e-9)
    assert.is_true(T:min():item() >= 0)
  end)

  it("comes near to plain transport: sorted numbers stay sorted", function()
    local numbers = pn.tensor { -2, -1, 0, 1, 2, 3 }
    local weights = pn.tensor { 0.5, 0.1, 0.1, 0.1, 0.1, 0.1 }
    local T = pn.smc.transport(numbers, weights:log(), { epsilon = 0.005, steps = 5000 })
    -- quantile coupling: sixths of the mass in order
    local moved = T:matmul(numbers)
    assert.near(-2, moved[1]:item(), 1e-3)
    assert.near(-2, moved[2]:item(), 1e-3)
    assert.near(-2, moved[3]:item(), 1e-3)
    for i = 2, 6 do
      assert.is_true(moved[i]:item() >= moved[i - 1]:item() - 1e-6)
    end
    -- the last three: 1/6 each of what is left: 0.1 at -1 ... 3
    assert.near((0.1 * 3 + (1 / 6 - 0.1) * 2) * 6, moved[6]:item(), 1e-2)
    assert.near((weights * numbers):sum():item(), moved:mean():item(), 1e-3)
  end)

  it("is differentiable in states and weights", function()
    local p, q = pn.param(x:slice(1, 1, 4)), pn.param(log_w:slice(1, 1, 4))
    local c = pn.randn { 4, 2 }
    -- the spread that x is measured in has no gradient, so it is held
    local function value()
      return (pn.smc.transport(x:slice(1, 1, 4), q, { steps = 20 }):matmul(p) * c):sum()
    end
    assert.is_true(pn.check_gradients(value, { p, q }).error < 1e-5)
  end)

  it("has the gradient of distances, filters side by side, where the spread stays", function()
    -- the first component is the widest and stays: that x is measured in has no gradient
    local wide, own = pn.linspace(-3, 3, 8):reshape({ 4, 2, 1 }), pn.param(pn.randn { 4, 2, 1 } * 0.4)
    local q, c = pn.param(pn.randn { 4, 2 }), pn.randn { 2, 4, 4 }
    local function value()
      return (pn.smc.transport(pn.concatenate({ wide, own }, 3), q, { steps = 200 }) * c):sum()
    end
    assert.is_true(pn.check_gradients(value, { own, q }).error < 1e-5)
    assert.is_true(pn.grad(value(), { own })[1]:abs():max():item() > 1e-2)
    -- of a sequence of particles [N, B, d] moved by a machine, the matrix is the one that transport gives
    local state, weights = pn.randn { 4, 3, 2 }, pn.randn { 4, 3 }
    local s = pn.smc { num_particles = 4, batch_shape = { 3 }, threshold = 1 }
    s:weigh(weights)
    local moved = s:transport({ a = state, b = state:select(3, 1) * 2 }, { epsilon = 0.7, steps = 50 })
    local flat = pn.concatenate({ state, state:slice(3, 1, 1) * 2 }, 3)
    local T = pn.smc.transport(flat, weights, { epsilon = 0.7, steps = 50 })
    for b = 1, 3 do
      assert.is_true(gap(T[b]:matmul(state:select(2, b)), moved.a:select(2, b)) < 1e-12)
      assert.is_true(gap(T[b]:matmul(state:select(2, b):select(2, 1) * 2), moved.b:select(2, b)) < 1e-12)
    end
    -- filters that are not due keep their particles
    local kept = pn.smc { num_particles = 4, batch_shape = { 2 }, threshold = 0.6 }
    kept:weigh(pn.tensor { { 0, 0 }, { 5, 0 }, { 0, 0.1 }, { 0, 0 } })
    local x2 = pn.randn { 4, 2 }
    local after = kept:transport(x2)
    assert.is_true(gap(after:select(2, 1), x2:select(2, 1)) > 1e-2)
    assert.equal(0, gap(after:select(2, 2), x2:select(2, 2)))
  end)

  it("treats filters side by side each by itself, and weights of 0", function()
    local both = pn.stack({ x, x * 2 + 1 }, 2)
    local weights = pn.stack({ log_w, log_w * 0 }, 2)
    local T = pn.smc.transport(both, weights)
    assert.same({ 2, n, n }, T:shape())
    assert.is_true(gap(T[1], pn.smc.transport(x, log_w)) < 1e-12)
    local dead = pn.where(pn.arange(0, n):lt(3), pn.full({ n }, -math.huge), log_w)
    local U = pn.smc.transport(x, dead)
    assert.equal(0, U:slice(2, 1, 3):max():item())
    assert.is_true(gap(U:sum(2), pn.ones { n }) < 1e-12)
  end)

  it("refuses sizes and numbers that are none", function()
    local refuses = require("spec.helper").refuses
    for _, epsilon in ipairs { 0.0, -1.0 } do
      refuses("transport: epsilon must be positive", pn.smc.transport, x, log_w, { epsilon = epsilon })
    end
    refuses("transport: steps must be a whole number from 1 on, got 0", pn.smc.transport, x, log_w, { steps = 0 })
    refuses("transport: x must be [N, B..., d] for log_w [N, B...], got 3 axes for 1", pn.smc.transport,
      x:unsqueeze(2), log_w)
    refuses("transport: x must be a tensor", pn.smc.transport, 3, log_w)
    refuses("transport: log_w must be a tensor", pn.smc.transport, x, 3)
    -- one step of Sinkhorn: rows are exact, and no more steps than that
    local T = pn.smc.transport(x, log_w, { steps = 1 })
    assert.is_true(gap(T:sum(2), pn.ones { n }) < 1e-12 and gap(T:sum(1), log_w:softmax(1) * n) > 1e-4)
  end)

  it("is one of the gradients of a filter and its bounds", function()
    pn.seed(3)
    local q = pn.param(pn.tensor(0.5))
    local f = pn.smc.filter { num_particles = 30, threshold = 0.9, gradient = "transport",
      prior = function() return dist.normal(0, 1) end,
      transition = function(z) return dist.normal(z * 0.9, q) end,
      observation = function(z) return dist.normal(z, 0.7) end }
    assert.is_truthy(f:run(pn.randn { 6 }).log_evidence)
    local init = pn.randn { 30 }
    local noise = pn.randn { 6, 30 }
    local function value() -- reparametrised, so that the state hangs on q
      local g = pn.smc.filter { num_particles = 30, threshold = 1, gradient = "transport",
        init = function() return init end,
        step = function(z, t) return z * 0.9 + noise[t] * q end,
        log_weight = function(z, y) return (z - y):square() * -1 end }
      return g:run(pn.linspace(-1, 1, 3)).log_evidence:sum()
    end
    assert.is_true(math.abs(pn.grad(value(), { q })[1]:item()) > 0)
    assert.has_error(function() pn.smc { num_particles = 3, gradient = "transport", history = true } end,
      "smc: gradient 'transport' has no ancestors, which history and conditional are about")
    assert.has_error(function() f:run(pn.randn { 6 }, { lag = 2 }) end,
      "run: lag needs ancestors, which gradient = 'transport' does not have")
  end)

  it("resamples in a machine, with gradients and an evidence near the exact one", function()
    pn.seed(2)
    local scale = pn.param(pn.tensor(0.5))
    local s = pn.smc { num_particles = 50, batch_shape = { 40 }, threshold = 1 }
    local a, r, ys = 0.9, 0.7, { 0.3, -0.4, 0.8, 0.1 }
    local state, m, P, exact = nil, 0, 1, 0
    for t, y in ipairs(ys) do
      if state then
        state = s:transport(state, { epsilon = 0.02, steps = 200 }) * a + pn.randn { 50, 40 } * scale
      else
        state = pn.randn { 50, 40 }
      end
      s:weigh(dist.normal(state, r):log_prob(pn.full({ 50, 40 }, y)))
      m, P = t > 1 and a * m or m, t > 1 and a * a * P + 0.25 or P
      local S = P + r * r
      exact = exact - 0.5 * (math.log(2 * math.pi * S) + (y - m) ^ 2 / S)
      m, P = m + P / S * (y - m), P * (1 - P / S)
    end
    local log_z = s:log_evidence()
    local error = log_z:std():item() / math.sqrt(40)
    assert.near(exact, log_z:mean():item(), 6 * error + 0.05) -- biased a little
    assert.is_true(error < 0.05)
    assert.is_truthy(pn.grad(log_z:mean(), { scale })[1])
    local kept = pn.smc { num_particles = 4, threshold = 0 }
    kept:weigh(pn.randn { 4 })
    local here = pn.randn { 4 }
    assert.equal(here, kept:transport(here))
  end)
end)
