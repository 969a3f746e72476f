-- Bayesian neural SDEs against closed forms: path divergence, laws of paths, likelihoods, theorem 1. Formulas and
-- figures of Haussmann 2021, chapter 6; where they are not printed, they are derived in a line beside.
local pn = require "penumbra"
local nn, dist = pn.nn, pn.dist

local function largest(a, b) return (a - b):abs():max():item() end

-- A drift a h + b, of one number or with a matrix, whose weights are certain but for the names in `prior`.
local function affine(o)
  local net = nn.linear(o.size or 1, o.size or 1, { dtype = o.dtype })
  net:parameters()[1]:set(o.slope)
  net:parameters()[2]:set(o.constant)
  local given = { size = o.size or 1, network = net, prior = o.prior, posterior_scale = o.posterior_scale or 1e-300,
    diffusion = o.diffusion, noise = o.noise or 1 }
  for _, name in ipairs { "prior_drift", "gamma", "initial", "weights", "step", "dtype" } do given[name] = o[name] end
  return pn.models.bnsde(given)
end

local function ornstein_uhlenbeck(steps)
  local m = affine { slope = pn.tensor { { -1 } }, constant = pn.zeros { 1 }, prior = { weight = 1, bias = false },
    diffusion = 0.5 }
  return m, { y = pn.ones { steps + 1, 1, 1 }, times = pn.linspace(0, 1, steps + 1) }
end

-- The expectation of a quadratic function of K standard normals: its value at 0 and half the trace of its Hessian, by
-- second differences, which are exact.
local function expected_kl(steps)
  local m, batch = ornstein_uhlenbeck(steps)
  local e = pn.eye(steps)
  local noise = pn.concatenate({ pn.zeros { steps, 1 }, e, -e }, 2):reshape { steps, 2 * steps + 1, 1, 1 }
  local kl = pn.no_grad(m.paths, m, batch, { draws = 2 * steps + 1, noise = noise }).path_kl:squeeze(2)
  return (kl[1] + (kl:slice(1, 2, 2 * steps + 1) - kl[1]):sum() / 2):item()
end

describe("the divergence of paths from the prior SDE", function()
  it("is that of the discrete Ornstein-Uhlenbeck chain, and tends to that of the process", function()
    for steps, want in pairs { [10] = 1.0661487645, [100] = 1.01228522802, [1000] = 1.00714956302 } do
      assert.near(want, expected_kl(steps), 2e-10)
    end
    local v = {}
    for k = 1, 4 do v[k] = expected_kl(25 * 2 ^ k // 1 | 0) end
    for order = 1, 3 do -- Richardson: the terms of 1/K, 1/K^2 and 1/K^3 go
      for k = 1, 4 - order do v[k] = (2 ^ order * v[k + 1] - v[k]) / (2 ^ order - 1) end
    end
    assert.near(1.00658162717, v[1], 1e-9)
  end)

  it("is c^2 T / (2 g^2) for a constant drift c, on every path, grid and length", function()
    local m = affine { size = 2, slope = pn.zeros { 2, 2 }, constant = pn.tensor { 3, -0.5 },
      prior = { weight = 1, bias = false }, diffusion = { 0.5, 2 }, step = 0.03,
      prior_drift = function(_, h) return h:sin() * 5 end, gamma = { 1, 0.3 } }
    local times = pn.tensor { { 0, 0 }, { 0.1, 0.25 }, { 0.11, 0.3 }, { 0.7, 1 }, { 2, 9 } }
    local kl = m:paths({ y = pn.ones { 5, 2, 2 }, times = times, lengths = { 5, 4 } }, { draws = 3 }).path_kl
    local rate = 9 / 0.25 / 2 + 0.25 / 4 / 2
    assert.near(0, largest(kl, pn.tensor { 2 * rate, rate }:broadcast_to { 3, 2 }), 1e-9)
  end)

  -- log q(path) - log p(path), from the densities of the steps, has the divergence as its mean.
  it("is the mean log ratio of the two chains' densities", function()
    pn.seed(3)
    local function r(t, h) return (h * 2):cos() + t end
    local function g(_, h) return h:square() * 0.1 + 0.4 end
    local m = pn.models.bnsde { size = 2, hidden = { 5 }, diffusion = g, noise = 1, prior_drift = r, gamma = { 0.5, 1 },
      posterior_scale = 1e-12, time = true }
    local K, S = 6, 10000
    local times = pn.tensor { 0, 0.3, 0.5, 1.1, 1.3, 1.35, 2 }
    local start = pn.tensor { 0.4, -1 }
    local p = pn.no_grad(m.paths, m, { y = start:broadcast_to { K + 1, 1, 2 }, times = times }, { draws = S })
    local h, ratio = start:broadcast_to { S, 1, 2 }, 0
    for k = 1, K do
      local t, dt, after = times[k]:reshape { 1, 1 }, (times[k + 1] - times[k]):item(), p.states:select(2, k)
      local scale = g(t, h) * dt ^ 0.5
      local known = h + pn.tensor { 0.5, 1 } * r(t, h) * dt
      local own = h + m:drift(t, h) * dt
      ratio = ratio + (dist.normal(own, scale):log_prob(after) - dist.normal(known, scale):log_prob(after)):sum(-1)
      h = after
    end
    local off = (ratio - p.path_kl):detach()
    local kl, se = p.path_kl:mean():item(), off:std():item() / S ^ 0.5
    assert.near(0, off:mean():item(), 5 * se)
    assert(se < 0.02 * kl, "an interval that says something")
  end)
end)

describe("weights", function()
  -- Var h_T = g^2 T + s^2 T^2 with one draw a path, g^2 T + s^2 T dt with one a step
  it("per trajectory make the variance grow as T^2, per step as T dt", function()
    local T, K, s, g, S = 2, 8, 1.5, 0.3, 10000
    local batch = { y = pn.zeros { K + 1, 2, 1 }, times = pn.linspace(0, T, K + 1) }
    local want = { trajectory = g ^ 2 * T + s ^ 2 * T ^ 2, draw = g ^ 2 * T + s ^ 2 * T ^ 2,
      step = g ^ 2 * T + s ^ 2 * T * T / K }
    for weights, variance in pairs(want) do
      pn.seed(4)
      local m = affine { slope = pn.zeros { 1, 1 }, constant = pn.zeros { 1 }, diffusion = g, weights = weights,
        prior = { weight = false, bias = 1 }, posterior_scale = s }
      local h = pn.no_grad(m.paths, m, batch, { draws = S }).states:select(2, K):squeeze(3)
      for n = 1, 2 do -- normal, so that the variance of S draws has the error sqrt(2 / S)
        assert.near(variance, h:select(2, n):std():item() ^ 2, 5 * variance * (2 / S) ^ 0.5)
      end
      local together = ((h:select(2, 1) * h:select(2, 2)):mean() / variance):item()
      local same = weights == "draw" and s ^ 2 * T ^ 2 / variance or 0
      assert.near(same, together, 6 * (2 / S) ^ 0.5, weights .. ": trajectories share their weights or do not")
    end
  end)

  it("reach every layer: draws of all kinds are the network at those weights", function()
    pn.seed(5)
    local net = nn.sequential { nn.linear(3, 4), nn.tanh(), nn.linear(4, 2, { bias = false }) }
    for _, weights in ipairs { "trajectory", "draw" } do
      local m = pn.models.bnsde { size = 2, network = net, diffusion = 1, noise = 1, time = true, weights = weights,
        posterior_scale = 0.4 }
      local w = m:sample_weights { draws = 2, count = 3 }
      local h, t = pn.randn { 2, 3, 2 }, pn.tensor { { 0.5 }, { 1 }, { 2 } }
      local f = m:drift(t, h, w)
      for s = 1, 2 do
        for n = 1, 3 do
          local function own(x) return weights == "trajectory" and x[s][n] or x[s] end
          local x = pn.concatenate({ h[s][n], t[n] }, 1):unsqueeze(1)
          local b = own(w[1].bias):reshape { 1, 4 }
          local want = (x:matmul(own(w[1].weight)) + b):tanh():matmul(own(w[2].weight)):squeeze(1)
          assert.near(0, largest(want, f[s][n]), 1e-12)
        end
      end
      assert(largest(w[1].weight[1], w[1].weight[2]) > 0.1)
    end
  end)
end)

describe("weights drawn at each step", function()
  it("leave gradients finite where nothing comes in", function()
    local net = nn.sequential { nn.linear(2, 3, { bias = false }), nn.tanh(), nn.linear(3, 2, { bias = false }) }
    local m = pn.models.bnsde { size = 2, network = net, diffusion = 1, noise = 1, weights = "step" }
    local h = pn.param(pn.zeros { 2, 2, 2 })
    local f = m:drift(pn.zeros { 2, 1 }, h, m:sample_weights { draws = 2, count = 2 })
    for _, slope in ipairs(pn.grad((f * pn.randn(f:shape())):sum(), { h, table.unpack(m.network:parameters()) })) do
      assert(slope:isfinite():all():item())
    end
  end)
end)

describe("a hybrid", function()
  local function lorenz(_, h)
    local x, y, z = h:slice(-1, 1, 1), h:slice(-1, 2, 2), h:slice(-1, 3, 3)
    return pn.concatenate({ 10 * (y - x), x * (28 - z) - y, x * y - 2.67 * z }, -1)
  end
  local batch = { y = pn.ones { 20, 2, 3 }, times = pn.arange(20):to "float64" * 0.01 }
  local noise = pn.randn({ 19, 4, 2, 3 }, { generator = pn.generator(1) })

  it("without the network is the prior SDE, with gamma = 0 the black box, to the bit", function()
    local function model(o)
      pn.seed(1)
      local given = { size = 3, hidden = { 6 }, diffusion = 1, noise = 1, posterior_scale = 1e-3 }
      for name, v in pairs(o) do given[name] = v end
      return pn.models.bnsde(given)
    end
    local function states(m)
      pn.seed(2)
      return m:paths(batch, { draws = 4, noise = noise }).states
    end
    local black = states(model {})
    assert.equal(0, largest(black, states(model { prior_drift = lorenz, gamma = 0 })))
    assert(largest(black, states(model { prior_drift = lorenz, gamma = { 0, 0, 1 } })) > 0.1)
    local zero = nn.linear(3, 3)
    for _, p in ipairs(zero:parameters()) do p:set(pn.zeros(p:shape())) end
    local prior = states(model { prior_drift = lorenz, gamma = { 1, 0.5, 0 }, network = zero,
      posterior_scale = 1e-300 })
    local h = batch.y[1]:broadcast_to { 4, 2, 3 }
    for k = 1, 19 do
      local dt = (batch.times[k + 1] - batch.times[k])
      h = h + lorenz(nil, h) * pn.tensor { 1, 0.5, 0 } * dt + noise[k] * dt:sqrt()
      assert.near(0, largest(h, prior:select(2, k)), 1e-12)
    end
  end)
end)

-- ---- likelihoods ----

-- dh = (A h + b) dt + g dW, b ~ N(beta, s^2) for each trajectory, as a linear system in (h, b) at the times of one.
local function augmented(c, times, steps)
  local transition, cov = {}, {}
  local n = 2
  for k = 1, steps do
    local a, q = pn.eye(2 * n), pn.zeros { 2 * n, 2 * n }
    if k > 1 then
      local dt = (times[k] - times[k - 1]):item()
      local top = pn.concatenate({ pn.eye(n) + c.a * dt, pn.eye(n) * dt }, 2)
      a = pn.concatenate({ top, pn.concatenate({ pn.zeros { n, n }, pn.eye(n) }, 2) }, 1)
      q = pn.diag(pn.concatenate({ c.g:square() * dt, pn.zeros { n } }, 1))
    end
    transition[k], cov[k] = a, q
  end
  return { transition = pn.stack(transition, 1), transition_cov = pn.stack(cov, 1),
    emission = pn.concatenate({ pn.eye(n), pn.zeros { n, n } }, 2), emission_cov = pn.eye(n) * c.noise ^ 2,
    initial_mean = pn.concatenate({ c.mean, c.beta }, 1),
    initial_cov = pn.diag(pn.concatenate({ c.scale:square(), pn.full({ n }, c.s ^ 2) }, 1)) }
end

describe("the likelihood of a linear model", function()
  local c = { a = pn.tensor { { -0.5, 1 }, { -1, -0.2 } }, g = pn.tensor { 0.4, 0.7 }, noise = 0.5,
    beta = pn.tensor { 0.3, -0.2 }, s = 0.6, mean = pn.tensor { 1, 0 }, scale = pn.tensor { 0.3, 0.5 } }
  local times = pn.tensor { { 0, 0 }, { 0.3, 0.2 }, { 0.4, 0.5 }, { 1, 0.9 }, { 1.2, 1 }, { 1.7, 1.2 } }
  local gap = 0 / 0
  local y = pn.tensor { { { 1.1, 0.2 }, { 0.5, 0.6 } }, { { 0.9, gap }, { 0.3, -0.4 } },
    { { gap, gap }, { 1.2, -1 } }, { { 1.6, -1.5 }, { gap, -1.1 } }, { { 0.9, -1.2 }, { 0.4, gap } },
    { { 0.6, -1.9 }, { gap, 9 } } }
  local batch = { y = y, times = times, lengths = { 6, 5 } }
  local exact = {}
  for n, steps in ipairs { 6, 5 } do
    exact[n] = pn.smc.kalman.filter(augmented(c, times:select(2, n), steps),
      y:select(2, n):slice(1, 1, steps)).log_likelihood:item()
  end

  local function model(weights, scale)
    return affine { size = 2, slope = c.a:t(), constant = c.beta, prior = { weight = false, bias = 1 },
      posterior_scale = scale or c.s, diffusion = c.g, noise = c.noise, weights = weights,
      initial = { mean = c.mean, scale = c.scale } }
  end

  it("by the particle filter is Kalman's, weights integrated out, gaps and lengths and unequal times", function()
    pn.seed(6)
    local m, runs = model(), {}
    for k = 1, 20 do runs[k] = m:filter(batch, { num_particles = 2000 }).log_evidence end
    runs = pn.stack(runs, 1)
    for n = 1, 2 do
      local each = runs:select(2, n)
      local se = each:std():item() / 20 ^ 0.5
      assert(se < 0.02)
      assert.near(exact[n], (each:logsumexp(1) - math.log(20)):item(), 5 * se)
    end
  end)

  it("of a long trajectory stays within the particles' reach, since they are resampled", function()
    pn.seed(9)
    local steps = 80
    local t = pn.arange(steps):to "float64" * 0.2
    local h, list = c.mean, {}
    for k = 1, steps do
      list[k] = h + c.noise * pn.randn { 2 }
      h = h + (c.a:matmul(h:unsqueeze(2)):squeeze(2) + c.beta) * 0.2 + c.g * 0.2 ^ 0.5 * pn.randn { 2 }
    end
    local long = pn.stack(list, 1)
    -- the drift is certain here: what particles do not move is not made anew by resampling
    local certain = setmetatable({ s = 0 }, { __index = c })
    local want = pn.smc.kalman.filter(augmented(certain, t, steps), long).log_likelihood:item()
    local found = model("trajectory", 1e-300):filter({ y = long:unsqueeze(2):broadcast_to { steps, 10, 2 }, times = t },
      { num_particles = 1000 }).log_evidence
    local se = found:std():item() / 10 ^ 0.5
    assert(found:std():item() < 1)
    assert.near(want, (found:logsumexp(1) - math.log(10)):item(), 5 * se)
  end)

  it("by the mean over drawn paths, the objective e_bayes, tends to it from below", function()
    pn.seed(7)
    for _, weights in ipairs { "trajectory", "draw" } do
      local m = model(weights)
      local ll = pn.no_grad(m.paths, m, batch, { draws = 100000 }).log_likelihood
      for n = 1, 2 do
        local w = (ll:select(2, n) - exact[n]):exp()
        local se = w:std():item() / 100000 ^ 0.5
        assert(se < 0.04)
        assert.near(1, w:mean():item(), 5 * se)
      end
      local function loss(draws, objective)
        local sum = 0
        for _ = 1, 60 do
          sum = sum + pn.no_grad(m.loss, m, batch, { objective = objective, draws = draws }):item() / 60
        end
        return sum
      end
      local truth = -(exact[1] + exact[2]) / 2
      local few, some, elbo = loss(2, "e_bayes"), loss(50, "e_bayes"), loss(50, "vi") - m.network:kl():item() / 2
      assert(truth < some and some < few and few < elbo, ("%g %g %g %g"):format(truth, some, few, elbo))
    end
  end)

  it("of states after the filter is Kalman's mean", function()
    pn.seed(8)
    local found = model():filter(batch, { num_particles = 50000 })
    local w = found.log_weights:exp()
    local mean = (w:unsqueeze(3) * found.states):sum(1)
    for n, steps in ipairs { 6, 5 } do
      local f = pn.smc.kalman.filter(augmented(c, times:select(2, n), steps), y:select(2, n):slice(1, 1, steps))
      assert.near(0, largest(mean[n], f.mean[steps]:slice(1, 1, 2)), 0.03)
    end
    -- the forecast of a belief: the linear system's own, of which the constants are known better than before
    local h = model():forecast(batch, 3, { draws = 40000, step = 0.25, mode = "state" })
    local f = pn.smc.kalman.filter(augmented(c, times:select(2, 1), 6), y:select(2, 1))
    local mu, cov = f.mean[6]:unsqueeze(2), f.cov[6]
    for k = 1, 3 do
      local a = pn.concatenate({ pn.concatenate({ pn.eye(2) + c.a * 0.25, pn.eye(2) * 0.25 }, 2),
        pn.concatenate({ pn.zeros { 2, 2 }, pn.eye(2) }, 2) }, 1)
      mu = a:matmul(mu)
      cov = a:matmul(cov):matmul(a:t()) + pn.diag(pn.concatenate({ c.g:square() * 0.25, pn.zeros { 2 } }, 1))
      local drawn = h:select(2, k):select(2, 1)
      for d = 1, 2 do
        assert.near(mu[d][1]:item(), drawn:select(2, d):mean():item(), 0.06)
        assert.near(cov[d][d]:item() ^ 0.5, drawn:select(2, d):std():item(), 0.05)
      end
    end
  end)
end)

-- ---- theorem 2 ----

-- dh = theta h dt + g dW from 1, theta ~ N(1/2, (2/5)^2), g(h) = h / 2, whose solution is known for each theta and W,
-- or g = 1/2; the mean over theta by Gauss's rule, each Brownian path one and the same on all grids.
describe("theorem 2", function()
  local hybrid_path = require "penumbra.models.bnsde.hybrid_path"
  local S, N, finest = 8, 1500, 256
  local rows = {} -- Jacobi's matrix, whose eigenvectors give nodes and weights for the normal law
  for i = 1, S do
    rows[i] = {}
    for j = 1, S do rows[i][j] = math.abs(i - j) == 1 and math.min(i, j) ^ 0.5 or 0 end
  end
  local values, vectors = pn.tensor(rows):eigh()
  local node, weight = values * 0.4 + 0.5, vectors:select(1, 1):square()
  local increments = pn.randn({ finest, N }, { generator = pn.generator(1) }) / finest ^ 0.5

  -- paths [S, N] at T = 1 on K steps
  local function ends(m, K)
    local b = { times = pn.linspace(0, 1, K + 1):unsqueeze(1):broadcast_to { N, K + 1 }, parts = {}, first = 1,
      counted = 2, steps = K + 1 }
    for k = 1, K do b.parts[k] = 1 end
    local noise = increments:reshape { K, finest // K, N }:sum(2):reshape { K, 1, N, 1 } * K ^ 0.5
    local w = { { layer = m:sample_weights()[1].layer, weight = node:reshape { S, 1, 1 } } }
    return pn.no_grad(hybrid_path.run, m, pn.ones { S, N, 1 }, hybrid_path.grid(b), w, noise)[K + 1]:squeeze(3)
  end

  local function slope(m, exact)
    local wanted = (weight:unsqueeze(2) * exact):sum(1)
    local x, y = {}, {}
    for k = 3, 6 do
      local off = (weight:unsqueeze(2) * ends(m, 2 ^ k // 1 | 0)):sum(1) - wanted
      x[#x + 1], y[#y + 1] = -k, math.log(off:abs():mean():item(), 2)
    end
    local mx, my, a, b = 0, 0, 0, 0
    for k = 1, 4 do mx, my = mx + x[k] / 4, my + y[k] / 4 end
    for k = 1, 4 do a, b = a + (x[k] - mx) * (y[k] - my), b + (x[k] - mx) ^ 2 end
    return a / b
  end

  local function model(diffusion)
    return pn.models.bnsde { size = 1, network = nn.linear(1, 1, { bias = false }), diffusion = diffusion, noise = 1,
      weights = "draw" }
  end

  it("has order 1/2 where the noise depends on the state", function()
    local w = increments:sum(1)
    local exact = ((node - 0.125):unsqueeze(2) + w * 0.5):exp()
    assert.near(math.exp(0.5 + 0.16 / 2), (weight * node:exp()):sum():item(), 1e-12)
    assert.near(0.5, slope(model(function(_, h) return h * 0.5 end), exact), 0.06)
  end)

  it("has order 1 where it does not", function()
    local m = model(0.5)
    local exact = ends(m, finest) * 2 - ends(m, finest // 2) -- of order 2 beside the grids judged
    assert.near(1, slope(m, exact), 0.06)
  end)
end)

-- ---- theorem 1 ----

describe("theorem 1", function()
  it("is made of the log-likelihoods over their own peaks and of the divergences, as printed and proved", function()
    pn.seed(9)
    local y, first = pn.randn { 12, 9, 2 } * 0.3, pn.arange(12):lt(1):reshape { 12, 1, 1 }
    y = pn.where(pn.rand({ 12, 9, 2 }):gt(0.2):logical_or(first), y, pn.full({}, 0 / 0))
    local batch = { y = y, times = pn.arange(12):to "float64" * 0.1 }
    for _, dtype in ipairs { "float64", "float32" } do
      local m = pn.models.bnsde { size = 2, hidden = { 4 }, diffusion = { 0.5, 1 }, noise = { 0.5, 1.5 },
        dtype = dtype }
      local S, N, delta = 7, 9, 0.1
      local b = m:bound(batch, { draws = S, delta = delta, generator = pn.generator(3) })
      local p = m:paths(batch, { draws = S, generator = pn.generator(3) })
      local ll, kl = p.log_likelihood:to("float64"):totable(), p.path_kl:to("float64"):mean(1):sum():item()
      local seen = y:eq(y):slice(1, 2, 12):to("float64"):sum(1):totable()
      local risk, log_mean, mean_log, peaks = 0, 0, 0, 0
      for n = 1, N do
        local peak, sum = 0, 0
        for d, v in ipairs { 0.5, 1.5 } do peak = peak - seen[n][d] * math.log(v * math.sqrt(2 * math.pi)) end
        peaks = peaks + peak
        for s = 1, S do sum, mean_log = sum + math.exp(ll[s][n] - peak) / S, mean_log - (ll[s][n] - peak) / (S * N) end
        risk, log_mean = risk + (1 - sum) / N, log_mean - math.log(sum) / N
      end
      local all = kl + m.network:kl():item()
      local whole = math.sqrt((all + math.log(2 * math.sqrt(N) / delta)) / (2 * N))
      local half = math.sqrt((all + math.log(4 * math.sqrt(N) / delta)) / (2 * N))
      local drawn = math.sqrt(math.log(2 * N / delta) / (2 * S))
      local near = dtype == "float64" and 1e-9 or 1e-4
      assert.near(risk, b.risk, near)
      assert.near(risk + whole, b.path_risk, near)
      assert.near(risk + half + drawn, b.path_drawn, near)
      assert.near(log_mean + half + drawn, b.path_log_mean, 10 * near)
      assert.near(mean_log + half + drawn, b.path_mean_log, 10 * near)
      assert(b.path_risk < b.path_drawn and b.path_drawn < b.path_log_mean and b.path_log_mean < b.path_mean_log)
      assert.near(all, b.kl, 1e-3 * near * all)
      assert.equal(b.path_risk >= 1, b.vacuous)
      assert.equal(true, b.holds)
      assert.near(b.log_peak, (peaks / N), 10 * near)
      local per_draw = p.path_kl:to "float64"
      assert.near(per_draw:sum(2):std():item() / math.sqrt(S), b.path_kl_se, near * kl)
      assert.is_nil(m:bound(batch, { draws = 1, generator = pn.generator(3) }).path_kl_se)
      local text = tostring(b)
      for _, line in ipairs { ("kl             %.6g"):format(b.kl), ("path_mean_log  %.6g"):format(b.path_mean_log),
        b.vacuous and "vacuous: a risk lies in 0 to 1" or "not vacuous", "holds with probability 0.9" } do
        assert(text:find("\n" .. line, 1, true), text)
      end
      assert.matches("theorem 1 is not of this model: the divergences of the paths are averaged",
        tostring(m:bound(batch, { draws = S, path_kl = "mean" })))
      local again = m:bound(batch, { draws = S, delta = delta, path_kl = "mean", generator = pn.generator(3) })
      assert.near(kl / N, again.path_kl, near * kl)
      assert(type(again.holds) == "string")
    end
  end)

  it("is what e_pac_bayes minimises, but for its constants", function()
    pn.seed(10)
    local m = pn.models.bnsde { size = 1, hidden = { 4 }, diffusion = 0.5, noise = 0.7 }
    local batch = { y = pn.randn { 6, 8, 1 }, times = pn.arange(6) }
    local g = { draws = 3, delta = 0.2 }
    g.generator = pn.generator(1)
    local loss = m:loss(batch, g):item()
    g.generator = pn.generator(1)
    local b = m:bound(batch, g)
    assert.near(b.path_mean_log - math.sqrt(math.log(2 * 8 / 0.2) / 6) - b.log_peak, loss, 1e-9)
  end)

  -- before the root: of a part of the trajectories the paths' divergence counts N / N' times
  it("of minibatches has an unbiased divergence and mean log-likelihood", function()
    local objective = require "penumbra.models.bnsde.path_objective"
    pn.seed(11)
    local m = pn.models.bnsde { size = 1, hidden = { 3 }, diffusion = 1, noise = 1 }
    local kl = pn.rand { 1, 6 }
    local whole = objective.divergence(m, kl, { num_data = 6 }):item()
    local parts = 0
    for k = 1, 5, 2 do parts = parts + objective.divergence(m, kl:slice(2, k, k + 1), { num_data = 6 }):item() / 3 end
    assert.near(whole, parts, 1e-9)
    assert.near(kl:sum():item() + m.network:kl():item(), whole, 1e-9)
  end)

  it("for gammas on a grid takes delta over their number, the same draws, and keeps the least", function()
    pn.seed(12)
    local function r(_, h) return -h * 3 end
    local m = pn.models.bnsde { size = 2, hidden = { 3 }, diffusion = 0.3, noise = 0.4, prior_drift = r,
      posterior_scale = 1e-3, prior = 1e-2 }
    for _, p in ipairs(m.network.net:parameters()) do p:set(p * 0) end
    local times = pn.linspace(0, 1, 21)
    local truth = (times * -3):exp():unsqueeze(2):unsqueeze(3)
    -- the first number decays, the second stays
    local y = pn.concatenate({ truth, pn.ones { 21, 1, 1 } }, 3):broadcast_to { 21, 8, 2 }
    local list = m:choose_gamma({ y = y, times = times }, { grid = { 0, 0.5, 1 }, generator = pn.generator(1) })
    assert.equal(9, #list)
    local seen = {} -- each pair once
    for _, one in ipairs(list) do
      local pair = table.concat(one.gamma, " ")
      assert(not seen[pair], pair)
      seen[pair] = true
    end
    assert.same({ 1, 0 }, list[1].gamma)
    assert.same({ 1.0, 0.0 }, m.gamma:totable())
    local alone = m:bound({ y = y, times = times }, { delta = 0.05 / 9, generator = pn.generator(1) })
    assert.near(alone.path_mean_log, list[1].bound.path_mean_log, 1e-9)
    for k = 2, 9 do assert(list[k - 1].bound.path_mean_log <= list[k].bound.path_mean_log) end
  end)
end)

-- Of l1 = -sum f_n + g and l2 = -sum log f_n + g: a step along grad log f_n of a length in (0, f_n / L), L that of the
-- gradient of f_n, lets both f_n and log f_n rise; a step of g in (0, 1 / L) lets g fall. That the sums then fall, too,
-- does not follow.
describe("corollary 1", function()
  local function bump(theta, centre) return ((theta - centre):square() * -0.5):exp() end
  local function pull(theta) return (theta - 1):square() * 0.3 end -- whose gradient has L = 0.6, that of a bump 1

  local function rise(theta, f, share)
    return (theta + pn.grad(f(theta):log(), { theta })[1] * (share * f(theta))):detach()
  end
  local function fall(theta, g, length)
    return (theta - pn.grad(g(theta), { theta })[1] * length):detach()
  end

  it("holds of each term alone: exp(-theta^2 / 2), its logarithm, and a regulariser", function()
    local function f(theta) return bump(theta, 0) end
    for at = -4, 4, 0.5 do
      for share = 0.1, 0.9, 0.4 do
        local theta = pn.param(pn.full({}, at + 0.1))
        local next_theta = rise(theta, f, share)
        assert(f(next_theta):item() > f(theta):item() and f(next_theta):log():item() > f(theta):log():item())
        assert(pull(fall(theta, pull, share / 0.6)):item() < pull(theta):item())
        -- with twice the length and more, what is claimed may fail: the condition is not idle
        assert(at < -1.5 or at > 1 or f(rise(theta, f, 2.2 / f(theta):item())):item() < f(theta):item())
      end
    end
  end)

  it("is not airtight for the sums: a bump and a regulariser, and two bumps, for which l1 rises", function()
    local theta = pn.param(pn.full({}, 0.1))
    local function l1() return (pull(theta) - bump(theta, 0)):item() end
    local before = l1()
    theta:set(rise(theta, function(x) return bump(x, 0) end, 0.99))
    theta:set(fall(theta, pull, 0.99 / 0.6))
    assert(l1() > before + 0.1)
    theta:set(pn.full({}, 2.9))
    local function both() return -(bump(theta, 0) + bump(theta, 3)):item() end
    before = both()
    theta:set(rise(theta, function(x) return bump(x, 0) end, 0.99))
    assert(both() > before + 1e-3)
  end)
end)

describe("the equations of Lotka and Volterra", function()
  local th = { 2, 1, 4, 1 }
  local function slope(_, h)
    local x, y = h:slice(-1, 1, 1), h:slice(-1, 2, 2)
    return pn.concatenate({ x * th[1] - x * y * th[2], x * y * th[4] - y * th[3] }, -1)
  end
  local function energy(h) -- conserved without noise
    local x, y = h:select(-1, 1), h:select(-1, 2)
    return x * th[4] - x:log() * th[3] + y * th[2] - y:log() * th[1]
  end

  it("without noise keep their energy under pn.odeint, which paths approach as the step", function()
    local start, times = pn.tensor { 5, 3 }, pn.linspace(0, 3, 13)
    local exact = pn.odeint(slope, start, times, { rtol = 1e-10, atol = 1e-12 })
    assert.near(0, (energy(exact) - energy(start)):abs():max():item(), 1e-8)
    local errors = {}
    for k, step in ipairs { 0.002, 0.001 } do
      local net = nn.linear(2, 2)
      for _, p in ipairs(net:parameters()) do p:set(pn.zeros(p:shape())) end
      local m = pn.models.bnsde { size = 2, network = net, posterior_scale = 1e-300, diffusion = 1e-300, noise = 1,
        prior_drift = slope, step = step }
      local h = m:forecast({ y = start:reshape { 1, 1, 2 }, times = pn.zeros { 1 } }, 12, { draws = 1, step = 0.25,
        mode = "state" }):reshape { 12, 2 }
      errors[k] = largest(h, exact:slice(1, 2, 13))
    end
    assert.near(2, errors[1] / errors[2], 0.1)
    assert(errors[2] < 0.05)
  end)
end)
