-- Kalman variational autoencoders against models whose evidence is known: one base matrix, everything linear.
local pn = require "penumbra"
local models = require "penumbra.models"

local function set(layer, weight, bias)
  local p = layer:parameters()
  p[1]:set(pn.tensor(weight))
  p[2]:set(pn.tensor(bias))
end

local function inverse_softplus(x) return math.log(math.exp(x) - 1) end

local LEAST = 1e-12 -- what the decoder adds to a variance
local A, C, M0 = { { 0.9, 0.4 }, { -0.3, 0.8 } }, { { 0.7, -0.5 } }, { 0.3, -0.2 }
local R, Q, V0 = { 0.4, 0.3 }, 0.5, { 1.1, 0.6 } -- standard deviations
local W, B, NOISE = 1.3, 0.4, 0.7 -- y = W z + B + NOISE e

-- One base matrix, a linear decoder, and the encoder that is right for z ~ N(mean, deviation^2).
local function linear(a, mean, deviation, noise, more)
  local w, b = noise and 1 or W, noise and 0 or B
  noise = noise or NOISE
  local given = { size = 1, latent = 1, state = 2, base = 1, units = 3, hidden = {}, belief_draws = 20,
    scaling = "none", stable = false }
  for key, value in pairs(more or {}) do given[key] = value end
  local m = models.kvae(given)
  m.bases.bases.a:set(pn.tensor { a })
  m.bases.bases.c:set(pn.tensor { C })
  m.initial_mean:set(pn.tensor(M0))
  m.noises.q:set(-pn.tensor(R):log())
  m.noises.r:set(-pn.tensor { Q }:log())
  m.initial_noise:set(-pn.tensor(V0):log())
  set(m.decoder[1], { { w, 0 } }, { b, inverse_softplus((noise ^ 2 - LEAST) ^ 0.5) })
  local precision = 1 / deviation ^ 2 + w ^ 2 / noise ^ 2
  local gain = w / noise ^ 2 / precision
  set(m.encoder[1], { { gain, 0 } }, { mean / deviation ^ 2 / precision - gain * b,
    inverse_softplus(precision ^ -0.5) })
  return m
end

local function diagonal(v) return pn.tensor(v):square():diag_embed() end

-- The same as a system that emits y.
local function system(a, w, b, noise)
  return { transition = pn.tensor(a), transition_cov = diagonal(R), emission = pn.tensor(C) * w,
    emission_offset = pn.tensor { b }, emission_cov = pn.tensor { { (w * Q) ^ 2 + noise ^ 2 } },
    initial_mean = pn.tensor(M0), initial_cov = diagonal(V0) }
end

-- The mean of x is `want` up to 6 standard errors, which are less than `narrow`.
local function near_mean(want, x, narrow)
  local error = x:std():item() / math.sqrt(x:numel())
  assert.is_true(error < narrow, ("standard error %g"):format(error))
  assert.near(want, x:mean():item(), 6 * error)
end

local function copies(y, n) return pn.tensor(y):reshape { #y, 1, 1 }:broadcast_to { #y, n, 1 }:contiguous() end

local Y = { 0.9, -0.4, 1.7, 0.2 }

describe("a linear Kalman variational autoencoder", function()
  it("with the exact posterior has Kalman's evidence as its bound, whatever is drawn", function()
    pn.seed(1)
    local zero = { { 0, 0 }, { 0, 0 } }
    local deviation = math.sqrt((C[1][1] * R[1]) ^ 2 + (C[1][2] * R[2]) ^ 2 + Q ^ 2)
    local exact = pn.smc.kalman.log_likelihood(system(zero, W, B, NOISE), copies(Y, 3))
    local m = linear(zero, 0, deviation)
    assert.near(0, (m:log_evidence { y = copies(Y, 3) } - exact):abs():max():item(), 1e-9)
    assert.near(-exact[1]:item() / 4, m:loss({ y = copies(Y, 3) }):item(), 1e-9)
    -- one step of a system that moves
    local s = system(A, W, B, NOISE)
    local x = s.transition:matmul(s.initial_mean:unsqueeze(2))
    local cov = s.transition:matmul(s.initial_cov):matmul(s.transition:t()) + s.transition_cov
    local c = pn.tensor(C)
    local variance = c:matmul(cov):matmul(c:t()):item() + Q ^ 2
    m = linear(A, c:matmul(x):item(), math.sqrt(variance))
    assert.near(pn.smc.kalman.log_likelihood(s, copies({ 0.9 }, 1)):item(),
      m:log_evidence({ y = copies({ 0.9 }, 1) }):item(), 1e-9)
  end)

  it("has a finite bound and gradient where its encoder says a scale of 0", function()
    local m = linear(A, 0, 0.9)
    m.encoder[1]:parameters()[2]:set(pn.tensor { 0.5, -1e4 })
    local loss, list = m:loss { y = copies(Y, 3) }, m:parameters()
    assert.is_true(math.abs(loss:item()) < 1e6)
    for _, g in ipairs(pn.grad(loss, list)) do assert.is_true(g:isfinite():all():item()) end
  end)

  it("has weights whose mean is the evidence, with gaps and without", function()
    pn.seed(2)
    local m = linear(A, 0, 0.9)
    for _, y in ipairs { Y, { 0.9, 0 / 0, 0 / 0, 0.8 } } do
      local batch = { y = copies(y, 20000) }
      local exact = pn.smc.kalman.log_likelihood(system(A, W, B, NOISE), copies(y, 1)):item()
      near_mean(1, (m:log_evidence(batch) - exact):exp(), 0.01)
      -- of 1000 draws each, in one call
      local few = m:bound({ y = copies(y, 20) }, { draws = 1000 })
      assert.is_true((few - exact):abs():max():item() < 0.5 and few:mean():item() < exact + 0.02)
    end
  end)

  -- x_t = A x_(t-1) + B u_t, z_t = C x_t + D u_t; the inference network does not see u.
  it("takes inputs into state and emission as Kalman does: evidence, states, forecasts", function()
    pn.seed(12)
    local into, out = pn.tensor { { 0.4, -0.2 }, { 0.1, 0.5 } }, pn.tensor { { -0.3, 0.4 } }
    local u, ahead = pn.randn { 4, 1, 2 }, pn.randn { 2, 1, 2 }
    local function both(where, deviation, noise)
      local m = linear(A, 0, deviation, noise, { covariates = 2, features = 0, inputs = where })
      local s = system(A, noise and 1 or W, noise and 0 or B, noise or NOISE)
      for _, name in ipairs(where) do
        local part = name == "transition" and "b" or "d"
        m.bases.bases[part]:set((name == "transition" and into or out):unsqueeze(1))
        s[name .. "_input"] = name == "transition" and into or out * (noise and 1 or W)
      end
      return m, s
    end
    local values = {}
    for _, where in ipairs { { "transition" }, { "emission" }, { "transition", "emission" } } do
      local m, s = both(where, 1.2)
      for _, y in ipairs { Y, { 0.9, 0 / 0, 1.7, 0 / 0 } } do
        local exact = pn.smc.kalman.log_likelihood(s, copies(y, 1), { inputs = u }):item()
        near_mean(1, (m:log_evidence { y = copies(y, 20000), inputs = u:broadcast_to { 4, 20000, 2 } } - exact):exp(),
          0.03)
        values[#values + 1] = exact
      end
      m, s = both(where, 1e3, 1e-4)
      local y = copies(Y, 1)
      local exact, state = pn.smc.kalman.filter(s, y, { inputs = u }), m:filter({ y = y, inputs = u }).state
      assert.near(0, (state.mean - exact.mean[4]):abs():max():item(), 1e-3)
      assert.near(0, (state.cov - exact.cov[4]):abs():max():item(), 1e-3)
      local want = pn.smc.kalman.forecast(s, y, 2, { inputs = pn.concatenate({ u, ahead }, 1) })
      for _, mode in ipairs { "ancestral", "marginal" } do
        local paths = m:forecast({ y = y, inputs = u }, 2, { draws = 20000, inputs = ahead, mode = mode })
        for t = 1, 2 do
          local x = paths:select(2, t)
          near_mean(want.mean[t]:item(), x, 0.01)
          near_mean(want.cov[t]:item(), (x - want.mean[t]:item()):square(), 0.02)
        end
      end
    end
    for k = 3, 6 do assert.is_true(math.abs(values[k] - values[k - 2]) > 0.05) end -- one input is not another
  end)

  it("forecasts as Kalman does", function()
    pn.seed(3)
    local m = linear(A, 0, 1e3, 1e-4)
    local s = system(A, 1, 0, 1e-4)
    local ahead = pn.smc.kalman.forecast(s, copies(Y, 1), 3)
    for _, mode in ipairs { "ancestral", "marginal" } do
      local paths = m:forecast({ y = copies(Y, 1) }, 3, { draws = 20000, mode = mode })
      assert.same({ 20000, 3, 1, 1 }, paths:shape())
      for t = 1, 3 do
        local x, mean = paths:slice(2, t, t), ahead.mean[t]:item()
        near_mean(mean, x, 0.01)
        near_mean(ahead.cov[t]:item(), (x - mean):square(), 0.02)
      end
      -- steps hang together in joint paths: the covariance is C A V_1 C^T
      local first, second = paths:slice(2, 1, 1) - ahead.mean[1]:item(), paths:slice(2, 2, 2) - ahead.mean[2]:item()
      local c = pn.tensor(C)
      local shared = c:matmul(s.transition):matmul(ahead.state_cov[1]:reshape { 2, 2 }):matmul(c:t()):item()
      near_mean(mode == "ancestral" and shared or 0, first * second, 0.02)
    end
  end)

  it("filters and smooths as Kalman does", function()
    pn.seed(4)
    local m = linear(A, 0, 1e3, 1e-4)
    local s, y = system(A, 1, 0, 1e-4), copies(Y, 1)
    local exact = pn.smc.kalman.filter(s, y)
    local belief = m:filter { y = y:slice(1, 1, 2) }
    for t = 3, 4 do belief = belief:update(y[t]) end
    for _, b in ipairs { m:filter { y = y }, belief } do
      assert.near(0, (b.state.mean - exact.mean[4]):abs():max():item(), 1e-3)
      assert.near(0, (b.state.cov - exact.cov[4]):abs():max():item(), 1e-3)
    end
    m.given.impute = "mean" -- a gap is left out, as Kalman leaves it out
    local gap = pn.where(pn.tensor { true, false, false, true }:reshape { 4, 1, 1 }, y, pn.full({}, 0 / 0))
    local over_gap, state = pn.smc.kalman.filter(s, gap), m:filter({ y = gap }).state
    assert.near(0, (state.mean - over_gap.mean[4]):abs():max():item(), 1e-3)
    assert.near(0, (state.cov - over_gap.cov[4]):abs():max():item(), 1e-3)
    local smooth = pn.smc.kalman.smooth(s, y)
    local all = m:smooth({ y = y }, { draws = 20000 })
    local x, c = all.state, pn.tensor(C)
    assert.near(0, (all.observation - all.latent):std():item(), 2e-4) -- here y is z but for little noise
    assert.same({ 20000, 4, 1, 1 }, all.observation:shape())
    for t = 1, 4 do
      local z, seen = all.latent:select(2, t), c:matmul(smooth.mean[t]:reshape { 2, 1 }):item()
      near_mean(seen, z, 0.01)
      near_mean(c:matmul(smooth.cov[t]:reshape { 2, 2 }):matmul(c:t()):item() + Q ^ 2, (z - seen):square(), 0.02)
      for k = 1, 2 do
        local mean = smooth.mean[{ t, 1, k }]:item()
        local draws = x:select(2, t):select(3, k)
        near_mean(mean, draws, 0.01)
        near_mean(smooth.cov[{ t, 1, k, k }]:item(), (draws - mean):square(), 0.02)
      end
    end
  end)
end)

local function small(more)
  local given = { size = 2, covariates = 2, features = 3, latent = 2, state = 3, base = 3, units = 4, hidden = { 5 },
    belief_draws = 3, init = { transition = 0.3, emission = 0.7 } }
  for key, v in pairs(more or {}) do given[key] = v end
  return models.kvae(given)
end

local function batch(steps, count)
  return { y = pn.randn { steps, count, 2 }, inputs = pn.randn { steps, count, 2 } }
end

describe("a Kalman variational autoencoder", function()
  -- Each of many paths of z has draws of its own; in law they do not depend on who makes the step.
  it("goes on from its belief in the law of the filter of the longer series, over gaps, too", function()
    local gap = pn.full({ 2, 2 }, 0 / 0)
    for _, last in ipairs { false, gap } do
      pn.seed(15)
      local m, b = small { belief_draws = 4000 }, batch(4, 2)
      b.y = last and pn.concatenate({ b.y:slice(1, 1, 3), last:unsqueeze(1) }, 1) or b.y
      local first = { y = b.y:slice(1, 1, 3), inputs = b.inputs:slice(1, 1, 3), location = pn.zeros { 2, 2 },
        scale = pn.ones { 2, 2 } }
      b.location, b.scale = first.location, first.scale
      local whole, on = m:filter(b), m:filter(first):update(b.y[4], b.inputs[4])
      for _, name in ipairs { "z", "mean", "cov", "h" } do
        local x, other = whole.state[name], on.state[name]
        assert.same(x:shape(), other:shape())
        local own = x:reshape { 4000, 2, -1 }
        local also = other:reshape { 4000, 2, -1 }
        for _, f in ipairs { function(v) return v end, function(v) return (v - own:mean(1)):square() end } do
          local apart = (f(own):mean(1) - f(also):mean(1)):abs()
          local error = ((f(own):var(1) + f(also):var(1)) / 4000):sqrt() + 1e-9
          assert((apart / error):max():item() < 6, name)
        end
        assert(name ~= "z" or own:std(1):min():item() > 0.1)
      end
    end
  end)

  it("has one objective on average, with less variance in closed form", function()
    pn.seed(5)
    local m, one = small { size = 1, covariates = 0 }, pn.randn { 4, 1, 1 }
    local b = { y = one:broadcast_to { 4, 5000, 1 }:contiguous() }
    m.decoder[3]:parameters()[2]:set(pn.tensor { 0, 3 }) -- a wide likelihood
    local rb = m:bound(b, { generator = pn.generator(1) })
    local mc = m:bound(b, { generator = pn.generator(1), objective = "monte_carlo" }) -- at the same z
    near_mean(0, mc - rb, 0.05)
    -- log p(x, z) is half of a chi-squared variable less, with as many degrees as 5 states have numbers
    near_mean(15 / 2, (mc - rb):square(), 0.2)
    assert.is_true(mc:var():item() > rb:var():item() + 6)
    -- states drawn each on its own: less, by a divergence
    local marginal = m:bound(b, { generator = pn.generator(1), objective = "monte_carlo",
      state_draws = "marginal" }) - rb
    assert.is_true(marginal:mean():item() < -12 * marginal:std():item() / math.sqrt(5000))
    -- the entropy of q in closed form: of fit and log_evidence, not of weights
    m.given.entropy = "closed"
    local closed = m:log_evidence(b, { generator = pn.generator(1) }) - rb
    near_mean(0, closed, 0.05)
    assert.is_true(closed:abs():max():item() > 1)
    assert.equal(0, (m:bound(b, { generator = pn.generator(1) }) - rb):abs():max():item())
  end)

  it("weighs draws of its states by their laws, with offsets: the estimate of log p(z) has the exact mean", function()
    local paths = require "penumbra.models.state_paths"
    local function diag(...) return pn.tensor({ ... }):diag_embed() end
    local s = { mean = pn.tensor { 0.4, -0.3 }, cov = diag(0.8, 0.5), a = pn.tensor { { 0.9, 0.2 }, { -0.1, 0.7 } },
      b = pn.tensor { 0.5, -0.7 }, q = diag(0.3, 0.2), c = pn.tensor { { 1, 0.5 } }, d = pn.tensor { 0.9 },
      r = diag(0.4) }
    local z = pn.tensor { 1.2, 0.3, 2.1 }
    local exact = pn.smc.kalman.log_likelihood({ initial_mean = s.mean, initial_cov = s.cov, transition = s.a,
      transition_offset = s.b, transition_cov = s.q, emission = s.c, emission_offset = s.d, emission_cov = s.r },
      z:reshape { 3, 1 }):item()
    s.z = z:reshape { 3, 1, 1 }:broadcast_to { 3, 20000, 1 }
    local each = paths.estimate(s, "joint", pn.generator(3), 0)
    local error = each:std():item() / 20000 ^ 0.5
    assert(6 * error < 0.1 and math.abs(each:mean():item() - exact) < 6 * error)
    -- by single states less: their laws are those of a path without its correlations
    local marginal = paths.estimate(s, "marginal", pn.generator(3), 0):mean():item()
    assert(marginal < exact - 12 * error)
  end)

  -- Of each series the law of x_0 ... x_L given z as one dense normal, L its own length.
  it("weighs a path, and states drawn one by one, as dense matrices do: by step, with gaps, to its own end", function()
    local paths = require "penumbra.models.state_paths"
    local T, N, n, p, normal = 4, 3, 2, 2, pn.dist.normal
    local g = pn.generator(21)
    local function noise(...) return pn.randn({ ... }, { generator = g }) end
    local s = { mean = noise(n), cov = (noise(n) * 0.3):exp():diag_embed(), a = noise(T, N, n, n) * 0.6,
      b = noise(T, N, n), q = (noise(T, N, n) * 0.5):exp():diag_embed(), c = noise(T, N, p, n), d = noise(T, N, p),
      r = (noise(T, N, p) * 0.5):exp():diag_embed(), z = noise(T, N, p) }
    s.active = pn.tensor { { true, true, true }, { true, true, true }, { true, true, false }, { true, false, false } }
    s.observed = pn.tensor { { true, true, false }, { false, true, true }, { true, true, false },
      { true, false, false } }:unsqueeze(-1):broadcast_to { T, N, p }
    local function by_hand(i, x) -- log p(x, z)
      local sum = normal(s.mean, s.cov:diagonal():sqrt()):log_prob(x[1][i]):sum()
      for t = 1, T do
        if s.active[t][i]:item() then
          local mean = s.a[t][i]:matmul(x[t][i]) + s.b[t][i]
          sum = sum + normal(mean, s.q[t][i]:diagonal():sqrt()):log_prob(x[t + 1][i]):sum()
          if s.observed[t][i][1]:item() then
            mean = s.c[t][i]:matmul(x[t + 1][i]) + s.d[t][i]
            sum = sum + normal(mean, s.r[t][i]:diagonal():sqrt()):log_prob(s.z[t][i]):sum()
          end
        end
      end
      return sum:item()
    end
    local function posterior(i, L) -- mean, covariance
      local size = (L + 1) * n
      local precision, weighed_mean = pn.zeros { size, size }, pn.zeros { size }
      local function factor(rows, mean, cov) -- rows x ~ N(mean, cov)
        local weighed = rows:t():matmul(cov:inverse())
        precision, weighed_mean = precision + weighed:matmul(rows), weighed_mean + weighed:matmul(mean)
      end
      local function state(t) return pn.eye(size):slice(1, t * n + 1, t * n + n) end
      factor(state(0), s.mean, s.cov)
      for t = 1, L do
        factor(state(t) - s.a[t][i]:matmul(state(t - 1)), s.b[t][i], s.q[t][i])
        if s.observed[t][i][1]:item() then
          factor(s.c[t][i]:matmul(state(t)), s.z[t][i] - s.d[t][i], s.r[t][i])
        end
      end
      return precision:solve(weighed_mean), precision:inverse()
    end
    local path = paths.sample(s, pn.generator(3), 0)
    local joint = paths.estimate(s, "joint", pn.generator(3), 0) -- of the same path
    local marginal = paths.estimate(s, "marginal", pn.generator(4), 0)
    local e = pn.randn({ T + 1, N, n }, { generator = pn.generator(4) })
    local log_tau = math.log(2 * math.pi)
    for i, L in ipairs { 4, 3, 2 } do
      local mean, cov = posterior(i, L)
      local k = (L + 1) * n
      assert.near(by_hand(i, path) + (k * (1 + log_tau) + cov:logdet():item()) / 2, joint[i]:item(), 1e-9)
      local x, log_q = pn.zeros({ T + 1, N, n }):totable(), 0
      for t = 0, L do
        local root = cov:slice(1, t * n + 1, t * n + n):slice(2, t * n + 1, t * n + n):cholesky()
        x[t + 1][i] = (mean:slice(1, t * n + 1, t * n + n) + root:matmul(e[t + 1][i])):totable()
        log_q = log_q - root:diagonal():log():sum():item() - (e[t + 1][i]:square():sum():item() + n * log_tau) / 2
      end
      assert.near(by_hand(i, pn.tensor(x)) - log_q, marginal[i]:item(), 1e-9)
      -- the path itself has the dense law: Bayes' rule gives log p(z) at any
      local own = pn.concatenate({ path:select(2, i):slice(1, 1, L + 1):reshape { k } }, 1)
      local at = pn.dist.multivariate_normal { loc = mean, covariance_matrix = cov }:log_prob(own):item()
      local evidence = by_hand(i, path) - at
      local dense = { initial_mean = s.mean, initial_cov = s.cov }
      for name, key in pairs { transition = "a", transition_offset = "b", transition_cov = "q", emission = "c",
        emission_offset = "d", emission_cov = "r" } do
        dense[name] = s[key]:select(2, i):slice(1, 1, L)
      end
      local z = pn.where(s.observed, s.z, 0 / 0):select(2, i):slice(1, 1, L)
      assert.near(pn.smc.kalman.log_likelihood(dense, z):item(), evidence, 1e-9)
      assert.is_true(((own - mean) / cov:diagonal():sqrt()):abs():max():item() < 5)
    end
  end)

  it("differentiates as finite differences do", function()
    pn.seed(6)
    local b = batch(4, 2)
    local gaps = { y = pn.where(b.y:lt(0.8), b.y, pn.full({}, 0 / 0)), inputs = b.inputs, lengths = { 4, 2 } }
    for _, c in ipairs { { {}, b }, { { objective = "monte_carlo", noise = "mixed" }, b }, { {}, gaps },
      { { objective = "monte_carlo", impute = "mean", output = "student_t", inputs = { "transition", "encoder" } },
        gaps },
      { { objective = "monte_carlo", state_draws = "marginal", noise = "mixed", average = "log_scales", stable = false,
        inputs = { "decoder", "weights" } }, gaps } } do
      local m = small(c[1])
      for _, x in ipairs(m:parameters()) do
        x:set(x + pn.randn(x:shape()) * 0.1) -- away from the corners of rectifiers
      end
      pn.check_gradients(function()
        return m:loss(c[2], { generator = pn.generator(1) })
      end, m:parameters())
    end
  end)

  it("is touched by nothing after the end of a series", function()
    pn.seed(7)
    for _, given in ipairs { {}, { impute = "mean", objective = "monte_carlo" } } do
      local m = small(given)
      local b = batch(6, 1)
      local function short(y, lengths)
        return { y = y, inputs = lengths and b.inputs or b.inputs:slice(1, 1, 4), lengths = lengths }
      end
      local function loss(x)
        local value = m:loss(x, { generator = pn.generator(2) })
        local grads = pn.grad(value, m:parameters())
        local all = { value:reshape { 1 } }
        for _, g in ipairs(grads) do all[#all + 1] = g and g:reshape { -1 } or nil end
        return pn.concatenate(all, 1)
      end
      local nan, padded = pn.full({ 2, 1, 2 }, 0 / 0), nil
      local own = loss(short(b.y:slice(1, 1, 4)))
      for _, after in ipairs { nan, nan * 0 + 1, pn.full({ 2, 1, 2 }, 1e6) } do
        local x = short(pn.concatenate({ b.y:slice(1, 1, 4), after }, 1), { 4 })
        if given.objective then -- the states' draws stand behind those of more latents
          padded = padded or loss(x)
        end
        assert.near(0, (loss(x) - (padded or own)):abs():max():item(), 1e-9)
        local belief = m:filter(x, { generator = pn.generator(2) })
        local want = m:filter(short(b.y:slice(1, 1, 4)), { generator = pn.generator(2) })
        for _, name in ipairs { "mean", "cov", "h", "c", "z" } do
          assert.near(0, (belief.state[name] - want.state[name]):abs():max():item(), 1e-9)
        end
      end
      -- steps that were not seen at the end change nothing either
      local gap = loss { y = pn.concatenate({ b.y:slice(1, 1, 4), nan }, 1), inputs = b.inputs }
      if not given.objective then assert.near(own[1]:item(), gap[1]:item(), 1e-9) end
    end
  end)

  it("trains the same compiled and not, and comes back from a file", function()
    for _, given in ipairs { {}, { objective = "monte_carlo", noise = "mixed" } } do
      local values = {}
      for k, compile in ipairs { true, false } do
        pn.seed(8)
        local m = small(given)
        local b = batch(5, 3)
        local s = m:fit { series = b, steps = 4, seed = 3, compile = compile, lr = 0.01 }
        values[k] = { s.history, m:loss(b, { generator = pn.generator(1) }):item() }
        if compile then
          local path = os.tmpname()
          assert(m:save(path))
          local again = assert(pn.restore(path))
          os.remove(path)
          assert.equal(values[k][2], again:loss(b, { generator = pn.generator(1) }):item())
        end
      end
      assert.same(values[2], values[1])
    end
  end)

  it("keeps the logits of pixels within 15 and squared scales above a floor, and leaves out what is missing", function()
    local emission = require "penumbra.models.emission"
    local observed = pn.tensor { { true, true, false }, { false, true, true } }
    local y = pn.tensor { { 1, 0, 0 / 0 }, { 0 / 0, 1, 0 } }
    local f = pn.param(pn.tensor { { -40, 3, 1 }, { 2, -7, 1e3 } })
    local value = emission.new("kvae", "output", "bernoulli", 3):log_prob(f, y, observed)
    local function softplus(x) return math.max(x, 0) + math.log(1 + math.exp(-math.abs(x))) end
    local function kept(x) return 15 * (1 - 2 / (math.exp(2 * x / 15) + 1)) end
    assert.near(-softplus(-kept(-40)) - softplus(kept(3)), value[1]:item(), 1e-12)
    assert.near(-softplus(-kept(-7)) - softplus(15), value[2]:item(), 1e-12)
    assert(pn.check_gradients(function()
      return (emission.new("kvae", "output", "bernoulli", 3):log_prob(f, y, observed) * pn.tensor { 1, 2 }):sum()
    end, { f }))
    f = pn.tensor { { 0.3, -1, 2, -30, 0.5, 1 }, { 1, 2, 0.1, 0.2, -0.3, -40 } } -- means, then scales
    for _, floor in ipairs { 0.25, 1e-12 } do
      local law = emission.new("kvae", "output", "normal", 3, floor > 1e-6 and floor or nil)
      local got = law:log_prob(f, y, observed)
      for i = 1, 2 do
        local want = 0
        for k = 1, 3 do
          local scale = (softplus(f[i][k + 3]:item()) ^ 2 + floor) ^ 0.5
          if observed[i][k]:item() then want = want + pn.dist.normal(f[i][k], scale):log_prob(y[i][k]):item() end
        end
        assert.near(want, got[i]:item(), 1e-9 * math.abs(want))
      end
      assert.same({ 2, 1 }, { law.width, emission.new("kvae", "output", "bernoulli", 3).width })
    end
  end)

  it("learns pixels by convolutions, in float32", function()
    pn.seed(9)
    local m = models.kvae { size = 64, image = { 8, 8 }, filters = 4, output = "bernoulli", scaling = "none",
      dtype = "float32", latent = 2, state = 4, base = 2, units = 6, belief_draws = 2 }
    -- a bar that goes round
    local y = pn.arange(8):reshape { 8, 1, 1, 1 } + pn.arange(4):reshape { 1, 4, 1, 1 }
    y = pn.remainder(y, 8):eq(pn.arange(8):reshape { 1, 1, 1, 8 }):broadcast_to { 8, 4, 8, 8 }:contiguous()
    y = y:reshape { 8, 4, 64 }:to "float32"
    local s = m:fit { series = { y = y }, steps = 200, lr = 0.02, decay = 0.3, seed = 1 }
    assert.is_true(s.history[200] < 0.33) -- one rate for all pixels gives 0.377
    local paths = m:forecast({ y = y }, 2, { draws = 3 })
    assert.same({ 3, 2, 4, 64 }, paths:shape())
    assert.is_true((paths * (1 - paths)):abs():max():item() == 0)
    assert.same({ 5, 8, 4, 64 }, m:smooth({ y = y }, { draws = 5 }).observation:shape())
  end)

  it("can keep transitions from growing", function()
    pn.seed(10)
    local list = {}
    for _, stable in ipairs { true, false } do
      local m = small { size = 1, covariates = 0, stable = stable, scaling = "none" }
      m.bases.bases.a:set(pn.eye(3) * pn.tensor { 1.5, 0.5, 1 }:reshape { 3, 1, 1 })
      m.weights:parameters()[2]:set(pn.tensor { 50, 0, 0 }) -- the first base alone
      local x = m:forecast({ y = pn.randn { 3, 2, 1 } }, 40, { draws = 2 })
      list[#list + 1] = x:abs():max():item()
    end
    assert.is_true(list[1] < 100 and list[2] > 1000)
  end)

  it("takes networks of one's own, and refuses what cannot be", function()
    local nn = pn.nn
    local m = small { covariates = 0, encoder = nn.linear(2, 4), decoder = nn.sequential { nn.linear(2, 4) } }
    assert.same({ 3 }, m:log_evidence({ y = pn.randn { 4, 3, 2 } }):shape())
    for pattern, given in pairs {
      ["encoder and decoder come together"] = { encoder = nn.linear(2, 4) },
      ["must be networks"] = { encoder = 1, decoder = 2 },
      ["needs scaling = 'none'"] = { output = "bernoulli" },
      ["two multiples of 8 whose product is size, 2"] = { image = { 8, 8 } },
      ["inputs%[1%] must be"] = { inputs = { "wieghts" } },
      ["unknown option 'latnet', did you mean 'latent'"] = { latnet = 2 },
      ["init: unknown option"] = { init = { scale = 1 } },
    } do
      local ok, message = pcall(small, given)
      assert.is_false(ok)
      assert.truthy(message:find(pattern), message)
    end
    for pattern, given in pairs {
      ["kvae: encoder must give 4 numbers for each observation, got 3"] = { encoder = nn.linear(2, 3),
        decoder = nn.linear(2, 4) },
      ["kvae: decoder must give 4 numbers for each observation, got 2"] = { encoder = nn.linear(2, 4),
        decoder = nn.linear(2, 2) },
    } do
      given.covariates = 0
      local own = small(given)
      assert.error_matches(function() own:log_evidence { y = pn.randn { 4, 3, 2 } } end, pattern)
    end
    local path, b = os.tmpname(), { y = pn.randn { 4, 3, 2 } }
    assert(m:save(path))
    assert.error_matches(function() pn.restore(path) end, "restore: option 'd?e?n?coder' is required")
    local again = assert(pn.restore(path, { encoder = nn.linear(2, 4), decoder = nn.sequential { nn.linear(2, 4) } }))
    os.remove(path)
    local function value(model) return model:log_evidence(b, { generator = pn.generator(1) }):totable() end
    assert.same(value(m), value(again))
  end)

  -- Deviations of the bases and scales of the noise, of so many numbers that their mean squares are near.
  it("begins where init says", function()
    pn.seed(4)
    for _, case in ipairs { { nil, 0.05, 0.5, 0.05, 0.3, 0.2, 1 }, { { transition = 0.3, emission = 2, inputs = 0.7,
      state_scale = 0.6, emission_scale = 0.4, initial_scale = 3 }, 0.3, 2, 0.7, 0.6, 0.4, 3 } } do
      local init, transition, emission, inputs, state, observed, first = table.unpack(case, 1, 7)
      for _, noise in ipairs { "shared", "mixed" } do
        local m = models.kvae { size = 1, latent = 20, state = 30, base = 6, covariates = 25, features = 0, units = 2,
          hidden = { 2 }, init = init, noise = noise, inputs = { "transition", "emission" } }
        local b = m.bases.bases
        for name, want in pairs { a = transition, c = emission, b = inputs, d = inputs } do
          local x = name == "a" and b.a - pn.eye(30) or b[name]
          assert.near(1, x:square():mean():item() / want ^ 2, 6 * (2 / x:numel()) ^ 0.5, name)
        end
        for name, scale in pairs { q = state, r = observed } do
          local x = (noise == "mixed" and b or m.noises)[name]
          assert.same(noise == "mixed" and { 6, name == "q" and 30 or 20 } or { name == "q" and 30 or 20 }, x:shape())
          assert.near(0, ((-x):exp() - scale):abs():max():item(), 1e-12)
        end
        assert.is_nil((noise == "mixed" and m.noises or b).q)
        assert.near(0, ((-m.initial_noise):exp() - first):abs():max():item(), 1e-12)
        assert.same({ 0, 0 }, { m.initial_mean:abs():max():item(), m.first:abs():max():item() })
      end
    end
    local m = models.kvae {}
    local sizes = { m.latent, m.state_size, m.units, m.bases.count, m.given.belief_draws }
    assert.same({ 2, 4, 50, 3, 100 }, sizes)
    local entered = models.kvae { size = 2, covariates = 3, features = 0, latent = 1, hidden = { 4, 5 }, units = 2,
      inputs = { "encoder", "decoder" } }
    assert.same({ { 5, 4 }, { 4, 5 }, { 5, 2 }, { 4, 5 }, { 5, 4 }, { 4, 4 } }, {
      entered.encoder[1]:state().weight:shape(),
      entered.encoder[3]:state().weight:shape(), entered.encoder[5]:state().weight:shape(),
      entered.decoder[1]:state().weight:shape(), entered.decoder[3]:state().weight:shape(),
      entered.decoder[5]:state().weight:shape() })
    assert.is_nil(entered.bases.bases.b or entered.bases.bases.d)
  end)

  it("names options that are out of bounds", function()
    for text, given in pairs {
      ["kvae: inputs[2] must be 'weights', 'emission', 'transition', 'encoder' or 'decoder', got decode"] = { inputs = {
        "weights", "decode" } },
      ["kvae: hidden[2] must be a whole number from 1 on, got 0"] = { hidden = { 3, 0 } },
      ["kvae: latent must be a whole number from 1 on, got 0"] = { latent = 0 },
      ["kvae: init: 'state_scale' must be a finite number above 0, got 0"] = { init = { state_scale = 0 } },
      ["kvae: 'latent_variance' must be a finite number above 0, got 0"] = { latent_variance = 0 },
      ["kvae: 'jitter' must be a finite number from 0 on, got -1"] = { jitter = -1 },
      ["kvae: image[1] must be a whole number from 8 on, got 7"] = { image = { 7, 8 } },
      ["kvae: image[2] must be a whole number from 8 on, got 0"] = { image = { 8 } },
      ["product is size, 96, got 12 and 8"] = { image = { 12, 8 }, size = 96 },
      ["product is size, 96, got 8 and 12"] = { image = { 8, 12 }, size = 96 },
      ["product is size, 64, got 8 and 16"] = { image = { 8, 16 }, size = 64 },
      ["encoder and decoder come together"] = { decoder = pn.nn.linear(2, 4) },
      ["encoder and decoder must be networks"] = { encoder = pn.nn.linear(2, 4), decoder = 2 },
    } do
      local ok, message = pcall(small, given)
      assert.is_false(ok, text)
      assert.truthy(message:find(text, 1, true), message)
    end
    for _, given in ipairs { { latent = 1, state = 1, base = 1, units = 1, belief_draws = 1, hidden = { 1 } },
      { init = { transition = 0 } }, { jitter = 0 } } do small(given) end
    local flat = models.kvae { size = 128, image = { 8, 16 }, filters = 1, latent = 1, scaling = "none" }
    assert.same({ 3, 2 }, flat.encoder(pn.ones { 3, 128 }):shape())
    assert.same({ 3, 128 }, flat.decoder(pn.ones { 3, 1 }):shape())
  end)
end)
