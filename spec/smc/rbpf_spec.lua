-- Rao-Blackwellised filters against exact answers: a switch of two labels with its paths enumerated (spec.smc
-- .switching_oracle), a Gaussian switch that depends on the state, and the Kalman filter. Replicates are the batch
-- axis; intervals are 6 standard errors and must be narrow.
local pn = require "penumbra"
local oracle = require "spec.smc.switching_oracle"
local dist = pn.dist

local NAN = 0 / 0

local function mean_and_error(x)
  local n = x:numel()
  local mean = x:mean()
  return mean:item(), ((x - mean):square():sum():item() / (n - 1) / n) ^ 0.5
end

-- The mean of x is `want`, and 6 standard errors are less than `narrow`.
local function expect(want, x, narrow, more)
  local mean, deviation = mean_and_error(x)
  local allowed = 6 * (deviation ^ 2 + (more or 0) ^ 2) ^ 0.5
  assert.is_true(allowed < narrow, ("6 standard errors are %g, which is not below %g"):format(allowed, narrow))
  assert.is_true(math.abs(mean - want) <= math.max(allowed, 1e-12),
    ("%.6f is %.1f standard errors from %.6f"):format(mean, 6 * math.abs(mean - want) / allowed, want))
end

local function near(want, got, tolerance)
  assert.is_true(math.abs(want - got) <= (tolerance or 1e-10) * math.max(1, math.abs(want)),
    ("%.15g is not %.15g"):format(got, want))
end

-- ---- two labels, one state ----

local TWO = { a = { 0.9, -0.5 }, c = { 1, 0.7 }, q = { 0.1, 0.4 }, r = { 0.2, 0.05 }, first = { 0.6, 0.4 },
  transition = { { 0.85, 0.15 }, { 0.3, 0.7 } }, mean = 0.2, cov = 1 }
local Y = { 0.5, -0.3, 0.4, 0.9 }

local function with(t, changes)
  local all = {}
  for key, value in pairs(t) do all[key] = value end
  for key, value in pairs(changes or {}) do all[key] = value end
  return all
end

local function column(list) return pn.tensor(list):reshape { #list, 1, 1 } end

-- The model m as options of pn.smc.rbpf.
local function model_of(m, num, batch, more)
  local a, c, q, r = column(m.a), column(m.c), column(m.q), column(m.r)
  local rows = pn.tensor(m.transition)
  return with({ num_particles = num, batch_shape = { batch },
    initial_mean = pn.tensor { m.mean }, initial_cov = pn.tensor { { m.cov } },
    init = dist.categorical(m.first), transition = function(s) return dist.categorical { probs = rows:take(1, s) } end,
    system = function(s)
      return { transition = a:take(1, s), emission = c:take(1, s), transition_cov = q:take(1, s),
        emission_cov = r:take(1, s) }
    end }, more)
end

local function series(y, batch) return pn.tensor(y):reshape { #y, 1, 1 }:broadcast_to { #y, batch, 1 } end

-- Evidence of `batch` filters over the exact one, [batch]; and their result.
local function ratios(m, y, num, batch, more, given)
  local f = pn.smc.rbpf(model_of(m, num, batch, more))
  local result = f:run(series(y, batch), given)
  local exact = oracle.enumerate(m, y)
  return (result.log_evidence - exact.evidence):exp(), result, exact, f
end

describe("the oracle", function()
  it("has the known values of the two-label case", function()
    local e = oracle.enumerate(TWO, Y)
    near(-3.656840138624, e.evidence, 1e-12)
    near(0.645659230405, e.mean, 1e-11)
    near(0.121816830319, e.variance, 1e-11)
    near(0.823335994196, e.probabilities[4][1], 1e-11)
    near(-3.899893929810, e.one_particle, 1e-12)
  end)
end)

describe("rbpf with two labels", function()
  before_each(function() pn.seed(11) end)

  it("estimates the evidence without bias, and its logarithm with the known one", function()
    -- E[log Z] and its error: of the published numbers, one particle exactly; standard deviation of log Z
    for num, known in pairs { [1] = { -3.89989393, 0, 0.632, 80000 }, [4] = { -3.7499, 0.0004, 0.412, 60000 },
      [16] = { -3.6845, 0.0003, 0.233, 30000 }, [64] = { -3.6644, 0.0003, 0.119, 8000 } } do
      local z, result = ratios(TWO, Y, num, known[4], nil, { moments = false })
      expect(1, z, 0.025)
      expect(known[1], result.log_evidence, 0.015, known[2])
      local mean, deviation = mean_and_error(result.log_evidence)
      near(known[3], deviation * known[4] ^ 0.5, 0.02)
      assert.is_true(mean < -3.65684)
    end
  end)

  it("does so for every threshold, one observation, a far prior mean, and what is missing", function()
    for _, threshold in ipairs { 0, 0.5, 1 } do
      for _, case in ipairs { { TWO, Y }, { TWO, { 0.5 } }, { with(TWO, { mean = 30 }), { 27, -13, -11, -10.5 } },
        { TWO, { 0.5, NAN, 0.4, 0.9 } }, { TWO, { NAN, NAN } } } do
        local z = ratios(case[1], case[2], 16, 15000, { threshold = threshold }, { moments = false })
        expect(1, z, 0.1)
      end
    end
  end)

  it("finds the filtered moments: Z times a mean is unbiased", function()
    local z, result, e = ratios(TWO, Y, 16, 30000)
    expect(e.mean, z * result.mean:select(1, 4):squeeze(-1), 0.02)
    expect(e.probabilities[4][1], z * result.probabilities:select(1, 4):select(2, 1), 0.02)
    local second = result.cov:select(1, 4):reshape { -1 } + result.mean:select(1, 4):squeeze(-1):square()
    expect(e.variance + e.mean ^ 2, z * second, 0.02)
    assert.same({ 4, 30000 }, result.effective_sample_size:shape())
    near(result.log_evidence:mean():item(), result.increments:sum(1):mean():item())
  end)

  it("takes an update by measurements of one's own: noise in two parts, one of them drawn", function()
    local function halves(view, mean, cov, m)
      mean, cov = pn.kalman_predict(mean, cov, m.a, m.b, m.q)
      local half = m.r * 0.5
      local spread = m.c:matmul(cov):matmul(m.c:transpose(-2, -1)) + half
      local z = dist.normal(m.c:matmul(mean:unsqueeze(-1)):squeeze(-1), spread:squeeze(-1):sqrt()):sample()
      local after, after_cov = pn.kalman_update(mean, cov, z, m.c, m.d, half)
      return after, after_cov, dist.normal(z, half:squeeze(-1):sqrt()):log_prob(view.y):squeeze(-1)
    end
    local z, result, e = ratios(TWO, Y, 64, 10000, { measurement_update = halves })
    expect(1, z, 0.06)
    expect(e.mean, z * result.mean:select(1, 4):squeeze(-1), 0.06)
    assert.is_true(z:var():item() > 1.5 * ratios(TWO, Y, 64, 10000):var():item()) -- it is what runs
  end)

  it("goes on from a mixture to the same numbers", function()
    local y, o = series(Y, 3), { generator = pn.generator(8), threshold = 1 }
    local whole, increments = pn.smc.rbpf(model_of(TWO, 5, 3, o)), {}
    for t = 1, 4 do increments[t] = whole:observe(y[t]) end
    o.generator = pn.generator(8)
    local first, second = pn.smc.rbpf(model_of(TWO, 5, 3, o)), pn.smc.rbpf(model_of(TWO, 5, 3, o))
    for t = 1, 2 do first:observe(y[t]) end
    second:resume(first:mixture())
    for t = 3, 4 do assert.is_true((second:observe(y[t]) - increments[t]):abs():max():item() < 1e-12) end
    near(0, (second:log_evidence() - increments[3] - increments[4]):abs():max():item(), 1e-12)
    assert.error_matches(function() second:smooth() end, "smooth needs all observations: this filter goes on")
    local wide = pn.smc.rbpf(model_of(TWO, 6, 3, o))
    assert.error_matches(function() wide:resume(first:mixture()) end,
      "rbpf: resume: log_weights must be [6, 3], got [5, 3]", 1, true)
    assert.error_matches(function() wide:resume { s = 1 } end, "rbpf: resume: ")
  end)

  it("draws from the optimal proposal: weights do not depend on the draw, and vary less", function()
    local _, first, e = ratios(TWO, { 0.5 }, 3, 50, { proposal = "optimal" })
    assert.is_true((first.log_evidence - e.evidence):abs():max():item() < 1e-12)
    local z, result, _, f = ratios(TWO, Y, 16, 20000, { proposal = "optimal" })
    expect(1, z, 0.005)
    local plain = ratios(TWO, Y, 16, 20000)
    assert.is_true(z:var():item() < 0.1 * plain:var():item())
    expect(e.mean and oracle.enumerate(TWO, Y).mean, z * result.mean:select(1, 4):squeeze(-1), 0.02)
    assert.same({ 16, 20000 }, f:mixture().s:shape())
  end)

  it("takes a proposal that looks at the marginalised state", function()
    local labels = pn.tensor({ 0, 1 }, { dtype = "int64" })
    local function by_hand(view)
      local list = {}
      for k = 1, 2 do
        local s = labels:select(1, k):broadcast_to { 16, 5000 }
        local mean, cov = view:predict(s)
        local c, r = pn.tensor(TWO.c):select(1, k), pn.tensor(TWO.r):select(1, k)
        local lp, after = view:log_likelihood(s)
        local direct = dist.normal(c * mean:squeeze(-1), (c * c * cov:reshape { 16, 5000 } + r):sqrt()):log_prob(view.y
          :squeeze(-1):broadcast_to { 16, 5000 })
        assert.is_true((lp - direct):abs():max():item() < 1e-12)
        assert.same({ 16, 5000, 1 }, after:shape())
        list[k] = lp + view.law:log_prob(s)
      end
      return dist.categorical { logits = pn.stack(list, -1) }
    end
    local z, result = ratios(TWO, Y, 16, 5000, { proposal = by_hand })
    expect(1, z, 0.01)
    pn.seed(11)
    local _, same = ratios(TWO, Y, 16, 5000, { proposal = "optimal" })
    assert.is_true((same.log_evidence - result.log_evidence):abs():max():item() < 1e-9)
    -- where y is missing it says nothing of the label
    local gone = { proposal = function(view)
      local nothing, after = view:log_likelihood(labels:select(1, 1):broadcast_to { 16, 50 })
      local mean = view:predict(labels:select(1, 1):broadcast_to { 16, 50 })
      assert.is_true(nothing:abs():max():item() == 0 and (after - mean):abs():max():item() < 1e-15)
      return view.law
    end }
    ratios(TWO, { NAN, NAN }, 16, 50, gone)
    local any = ratios(TWO, Y, 16, 30000, { proposal = function() return dist.categorical { 0.5, 0.5 } end })
    expect(1, any, 0.05)
  end)

  it("varies less than a particle filter that draws the state too", function()
    local a, c, q, r = pn.tensor(TWO.a), pn.tensor(TWO.c), pn.tensor(TWO.q), pn.tensor(TWO.r)
    local rows, batch = pn.tensor(TWO.transition), 20000
    local function move(x, s)
      return { s = s, x = a:take(1, s) * x + q:take(1, s):sqrt() * pn.randn(x:shape()) }
    end
    local plain = pn.smc.filter { num_particles = 16, batch_shape = { batch },
      init = function(_, shape)
        return move(TWO.mean + TWO.cov ^ 0.5 * pn.randn(shape), dist.categorical(TWO.first):sample(shape))
      end,
      step = function(state) return move(state.x, dist.categorical { probs = rows:take(1, state.s) }:sample()) end,
      log_weight = function(state, y)
        return dist.normal(c:take(1, state.s) * state.x, r:take(1, state.s):sqrt()):log_prob(y:squeeze(-1)
          :broadcast_to(state.x:shape()))
      end }
    local exact = oracle.enumerate(TWO, Y).evidence
    local z = (plain:run(series(Y, batch)).log_evidence - exact):exp()
    expect(1, z, 0.1)
    local better = ratios(TWO, Y, 16, batch)
    assert.is_true(better:var():item() < 0.3 * z:var():item())
  end)

  it("smooths: moments of the state and probabilities of the switch given all observations", function()
    for _, y in ipairs { Y, { 0.5, NAN, 0.4, 0.9 } } do
      local _, _, e, f = ratios(TWO, y, 1000, 8)
      local s = f:smooth { draws = 250 }
      assert.same({ 4, 250, 8 }, s.s:shape())
      for t = 1, 4 do
        local mean, second = s.mean:select(1, t):reshape { -1 }, s.cov:select(1, t):reshape { -1 }
        local draws = s.path_mean:select(1, t):reshape { -1 }
        -- paths of a filter are not independent: the error of a mean of 8 filters, not of their paths
        local _, deviation = mean_and_error(mean)
        near(e.smoothed[t][1], mean:mean():item(), 6 * deviation + 0.003)
        near(e.smoothed[t][2], second:mean():item(), 0.02)
        near(e.probabilities[t][1], s.probabilities:select(1, t):select(2, 1):mean():item(), 0.04)
        assert.is_true(draws:std():item() > 0.01)
      end
    end
  end)

  it("smooths where labels say how much is known of the state, and where observations have an offset", function()
    local m, y = with(TWO, { q = { 0.02, 9 } }), { NAN, 0.4, 0.9 }
    local _, _, e, f = ratios(m, y, 1000, 8, { generator = pn.generator(3) })
    local s = f:smooth { draws = 250 }
    for t = 1, 3 do near(e.probabilities[t][1], s.probabilities:select(1, t):select(2, 1):mean():item(), 0.03) end
    local offset, o = pn.tensor { 1.5 }, model_of(m, 1000, 8, { generator = pn.generator(3) })
    local plain = o.system
    function o.system(label)
      local parts = plain(label)
      parts.emission_offset = offset
      return parts
    end
    f = pn.smc.rbpf(o)
    f:run(series(y, 8) + 1.5)
    local moved = f:smooth { draws = 250 }
    assert.is_true(moved.s:eq(s.s):all():item() and (moved.path_mean - s.path_mean):abs():max():item() < 1e-9)
  end)

  it("forecasts by going on from each particle", function()
    local f = pn.smc.rbpf(model_of(TWO, 16, 30000))
    local result = f:run(series(Y, 30000), { moments = false })
    local ahead = f:forecast(2)
    for h = 1, 2 do
      local y = table.move(Y, 1, 4, 1, {})
      for k = 1, h do y[4 + k] = NAN end
      local e = oracle.enumerate(TWO, y)
      local z = (result.log_evidence - e.evidence):exp()
      local w = ahead.log_weights:exp()
      expect(e.mean, z * (w * ahead.state_mean:select(1, h):squeeze(-1)):sum(1), 0.02)
      expect(e.probabilities[4 + h][1], z * ahead.probabilities:select(1, h):select(2, 1), 0.03)
    end
    assert.same({ 2, 30000, 1 }, ahead.mean:shape())
    assert.same({ 2, 30000, 1, 1 }, ahead.cov:shape())
    assert.same({ 2, 16, 30000, 1, 1 }, ahead.y_cov:shape())
  end)

  -- mean = sum_p w_p m_p and cov = sum_p w_p (V_p + m_p m_p^T) - mean mean^T, for weights that differ
  it("forecasts the moments of its mixture, each particle's emission by its own label", function()
    local f = pn.smc.rbpf(model_of(TWO, 9, 4, { generator = pn.generator(2), threshold = 0 }))
    f:run(series(Y, 4), { moments = false })
    local ahead = f:forecast(2)
    local w = ahead.log_weights:exp()
    assert.is_true(w:max():item() > 2 * w:min():item())
    local c, r = pn.tensor(TWO.c):take(1, ahead.s), pn.tensor(TWO.r):take(1, ahead.s)
    local m = c * ahead.state_mean:squeeze(-1)
    local v = c:square() * ahead.state_cov:reshape { 2, 9, 4 } + r
    local mean = (w * m):sum(2)
    local cov = (w * (v + m:square())):sum(2) - mean:square()
    assert.is_true((ahead.mean:squeeze(-1) - mean):abs():max():item() < 1e-12)
    assert.is_true((ahead.cov:reshape { 2, 4 } - cov):abs():max():item() < 1e-12)
  end)

  -- A switch that changes nothing: Kalman's forecast, offsets of state and observation in it.
  it("forecasts as the Kalman filter does where all labels have one system, with offsets", function()
    local system = { transition = pn.tensor { { 0.9, 0.2 }, { -0.1, 0.7 } },
      transition_offset = pn.tensor { 0.5, -0.3 }, transition_cov = pn.tensor { 0.3, 0.2 }:diag_embed(),
      emission = pn.tensor { { 1, -0.5 } },
      emission_offset = pn.tensor { 2 }, emission_cov = pn.tensor { { 0.4 } }, initial_mean = pn.tensor { 0.2, 1 },
      initial_cov = pn.eye(2) }
    local y = pn.randn({ 5, 1 }, { generator = pn.generator(4) }) + 2
    local rows = pn.tensor { { 0.8, 0.2 }, { 0.3, 0.7 } }
    local f = pn.smc.rbpf { num_particles = 7, init = dist.categorical { probs = { 0.6, 0.4 } },
      transition = function(s) return dist.categorical { probs = rows:take(1, s) } end,
      system = pn.smc.linear_system(system) }
    f:run(y)
    local ahead, want = f:forecast(3), pn.smc.kalman.forecast(system, y, 3)
    for _, name in ipairs { "mean", "cov" } do
      near(0, (ahead[name]:reshape { 3 } - want[name]:reshape { 3 }):abs():max():item(), 1e-10)
    end
  end)

  it("has the exact gradient of the evidence with stop_gradient, whatever draws the switch", function()
    local delta, exact = 1e-5, {}
    for k, change in ipairs { function(d) return { a = { 0.9 + d, -0.5 } } end,
      function(d) return { q = { 0.1, 0.4 + d } } end,
      function(d) return { transition = { { 0.85 + d, 0.15 - d }, { 0.3, 0.7 } } } end } do
      exact[k] = (oracle.enumerate(with(TWO, change(delta)), Y).evidence
        - oracle.enumerate(with(TWO, change(-delta)), Y).evidence) / (2 * delta)
    end
    local batch, num = 20000, 8
    for _, proposal in ipairs { false, "optimal" } do
      local a = pn.param(pn.full({ batch }, 0.9))
      local q = pn.param(pn.full({ batch }, 0.4))
      local stay = pn.param(pn.full({ batch }, 0.85))
      local o = model_of(TWO, num, batch, { gradient = "stop_gradient", proposal = proposal or nil, threshold = 0.9 })
      local fixed = o.system
      function o.transition(s)
        local first = s:eq(0)
        local p = pn.where(first, stay:broadcast_to { num, batch }, pn.full({ 1 }, 0.3))
        return dist.categorical { probs = pn.stack({ p, 1 - p }, -1) }
      end
      function o.system(s)
        local m, first = fixed(s), s:eq(0):unsqueeze(-1):unsqueeze(-1)
        m.transition = pn.where(first, a:reshape { batch, 1, 1 }, m.transition)
        m.transition_cov = pn.where(first, m.transition_cov, q:reshape { batch, 1, 1 })
        return m
      end
      local f = pn.smc.rbpf(o)
      local value = f:run(series(Y, batch), { moments = false }).log_evidence
      local z = (value:detach() - oracle.enumerate(TWO, Y).evidence):exp()
      for k, g in ipairs(pn.grad(value:sum(), { a, q, stay })) do
        expect(exact[k], z * g, 0.25)
      end
    end
  end)
end)

-- ---- exact cases ----

describe("rbpf with equal regimes", function()
  local A = pn.tensor { { 0.9, 0.1, 0 }, { -0.2, 0.7, 0.1 }, { 0, 0.3, 0.8 } }
  local C = pn.tensor { { 1, 0, 0.5 }, { 0, 1, 1 } }
  local Q, R = pn.eye(3) * 0.3, pn.tensor { { 0.4, 0.1 }, { 0.1, 0.5 } }
  local mean, cov, b, d = pn.tensor { 5, -3, 1 }, pn.eye(3) * 2, pn.tensor { 0.1, 0, -0.1 }, pn.tensor { 0.2, 1 }

  local function filter(num, batch, more)
    local rows = pn.tensor(TWO.transition)
    return pn.smc.rbpf(with({ num_particles = num, batch_shape = batch, initial_mean = mean, initial_cov = cov,
      init = dist.categorical { 0.6, 0.4 },
      transition = function(s) return dist.categorical { probs = rows:take(1, s) } end,
      system = { transition = A, transition_offset = b, transition_cov = Q, emission = C, emission_offset = d,
        emission_cov = R } }, more))
  end

  it("has the Kalman filter's evidence and moments whatever the number of particles", function()
    pn.seed(4)
    local y = pn.randn { 12, 5, 2 } * 2
    local gone = pn.rand { 12, 5, 2 }:lt(0.25)
    for _, missing in ipairs { false, true } do
      local given = missing and pn.where(gone, pn.full({ 1 }, NAN), y) or y
      local m, p, total = mean, cov, nil
      for t = 1, 12 do
        local lp
        m, p, lp = pn.kalman_step(m, p, A, b, Q, given:select(1, t), C, d, R,
          { observed = given:select(1, t):isnan():logical_not() })
        total = total and total + lp or lp
      end
      for _, num in ipairs { 1, 7 } do
        for _, proposal in ipairs { "none", "optimal" } do
          local f = filter(num, { 5 }, { proposal = proposal == "optimal" and proposal or nil })
          local result = f:run(given)
          assert.is_true((result.log_evidence - total):abs():max():item() < 1e-10)
          assert.is_true((result.mean:select(1, 12) - m):abs():max():item() < 1e-10)
          assert.is_true((result.cov:select(1, 12) - p):abs():max():item() < 1e-10)
          assert.is_true((result.effective_sample_size - num):abs():max():item() < 1e-9)
        end
      end
      local f = filter(3, { 5 })
      local with_mask = f:run(y, { observed = not missing or gone:logical_not() })
      assert.is_true((with_mask.log_evidence - total):abs():max():item() < 1e-10)
    end
  end)

  it("smooths as the Rauch-Tung-Striebel smoother does", function()
    pn.seed(5)
    local y = pn.randn { 9, 2 }
    local f = filter(4)
    f:run(y)
    local s = f:smooth { draws = 2 }
    assert.same({ 9, 2, 3, 3 }, s.path_cov:shape())
    -- the joint law of x_9 and x_5 given y, by carrying x_5 along in the state
    local zero = pn.zeros { 3, 3 }
    local function blocks(k, l, r, t)
      return pn.concatenate({ pn.concatenate({ k, l }, 2), pn.concatenate({ r, t }, 2) }, 1)
    end
    local m, p = mean, cov
    for t = 1, 5 do m, p = pn.kalman_step(m, p, A, b, Q, y:select(1, t), C, d, R) end
    m, p = pn.concatenate({ m, m }, 1), blocks(p, p, p, p)
    local a2, q2, c2 = blocks(A, zero, zero, pn.eye(3)), blocks(Q, zero, zero, zero), pn.concatenate({ C, C * 0 }, 2)
    for t = 6, 9 do
      m, p = pn.kalman_step(m, p, a2, pn.concatenate({ b, b * 0 }, 1), q2, y:select(1, t), c2, d, R)
    end
    assert.is_true((s.mean:select(1, 5) - m:slice(1, 4, 6)):abs():max():item() < 1e-9)
    assert.is_true((s.cov:select(1, 5) - p:slice(1, 4, 6):slice(2, 4, 6)):abs():max():item() < 1e-9)
  end)

  it("has the gradient of the Kalman filter's moments in its own", function()
    local a, q = pn.param(pn.tensor { { 0.9 } }), pn.param(pn.tensor { { 0.3 } })
    local y = pn.tensor { 0.5, -0.3, 1.2 }:reshape { 3, 1 }
    local function parts()
      return { transition = a, transition_cov = q, emission = pn.ones { 1, 1 }, emission_cov = pn.full({ 1, 1 }, 0.2),
        initial_mean = pn.tensor { 0.2 }, initial_cov = pn.ones { 1, 1 } }
    end
    local f = pn.smc.rbpf { num_particles = 4, init = dist.categorical { 0.5, 0.5 },
      transition = function(s) return dist.categorical { probs = pn.full({ s:size(1), 2 }, 0.5) } end,
      system = pn.smc.linear_system(parts()) }
    local r, exact = f:run(y), pn.smc.kalman.filter(parts(), y)
    for _, name in ipairs { "mean", "cov" } do
      local got, want = pn.grad(r[name]:sum(), { a, q }), pn.grad(exact[name]:sum(), { a, q })
      for k = 1, 2 do near(want[k]:item(), got[k]:item(), 1e-9) end
    end
  end)

  it("takes observations one by one, float32, and no observation at all", function()
    pn.seed(6)
    local y = pn.randn { 3, 2 }
    local f, whole = filter(4), filter(4):run(y)
    local total = 0
    for t = 1, 3 do total = total + f:observe(y:select(1, t)):item() end
    near(whole.log_evidence:item(), total)
    assert.equal(3, f:steps())
    near(0, f:observe(nil):item())
    assert.equal(4, f:steps())
    local m, p = f:moments()
    local want, want_cov = pn.kalman_predict(whole.mean:select(1, 3), whole.cov:select(1, 3), A, b, Q)
    assert.is_true((m - want):abs():max():item() < 1e-10)
    assert.is_true((p - want_cov):abs():max():item() < 1e-10)
    f:reset()
    assert.equal(0, f:steps())
    local small = pn.smc.rbpf { num_particles = 3, initial_mean = mean:to "float32", initial_cov = cov:to "float32",
      init = dist.categorical { 0.6, 0.4 }, transition = function(s) return dist.categorical { probs = pn.tensor(TWO
        .transition):take(1, s) } end,
      system = function() return { transition = A:to "float32", transition_offset = b:to "float32",
        transition_cov = Q:to "float32", emission = C:to "float32", emission_offset = d:to "float32",
        emission_cov = R:to "float32" } end }
    local result = small:run(y:to "float32")
    near(whole.log_evidence:item(), result.log_evidence:item(), 1e-5)
    assert.equal("float32", result.mean:dtype())
  end)
end)

-- ---- a Gaussian switch that depends on the state ----

local LINKED = { f = 0.8, g = 0.3, noise = 0.2, a = 0.7, b = 0.9, q = 0.05, r = 0.1, mean = 0, cov = 1, first = 1 }
local CASES = { { 0.8, 0.5, 0.9, 1.2, 0.6 }, { 1.2, -0.4, 0.9, 1.5, -0.7 } }

local function linked(num, batch, more)
  local function one(v) return pn.tensor { { v } } end
  local m = LINKED
  return with({ num_particles = num, batch_shape = { batch }, initial_mean = pn.tensor { m.mean },
    initial_cov = one(m.cov),
    init = dist.normal(pn.zeros { 1 }, m.first ^ 0.5):independent(1),
    coupling = function(s) return one(m.f), m.g * s, one(m.noise) end,
    system = function(s)
      return { transition = one(m.a), transition_offset = m.b * s, transition_cov = one(m.q), emission = one(1),
        emission_cov = one(m.r) }
    end }, more)
end

-- p(s_t | past, y_t), which is normal: s ~ N(ms, vs) and y = a x + b s + noise, x correlated with s by what links them.
local function best_switch(view)
  local m = LINKED
  local x, p = view.mean:squeeze(-1), view.cov:squeeze(-1):squeeze(-1)
  local ms, vs, cross = x * 0, x * 0 + m.first, 0
  if view.s then
    ms, vs, cross = m.f * x + m.g * view.s:squeeze(-1), m.f ^ 2 * p + m.noise, m.f * p
  end
  local y_mean, y_var = m.a * x + m.b * ms, m.a ^ 2 * p + m.b ^ 2 * vs + 2 * m.a * m.b * cross + m.q + m.r
  local s_y = m.a * cross + m.b * vs
  local loc = ms + s_y / y_var * (view.y:squeeze(-1) - y_mean)
  return dist.normal(loc:unsqueeze(-1), (vs - s_y:square() / y_var):sqrt():broadcast_to(x:shape()):unsqueeze(-1))
    :independent(1)
end

describe("rbpf with a switch that depends on the state", function()
  before_each(function() pn.seed(21) end)

  it("has an oracle with the known values, and another for the published recursion", function()
    local exact, published = oracle.recurrent(LINKED, CASES[1]), oracle.published(LINKED, CASES[1])
    near(-6.029046028335, exact.evidence, 1e-12)
    near(0.859298345537, exact.mean, 1e-11)
    near(0.081091646503, exact.variance, 1e-11)
    near(-6.080769881073, published.evidence, 1e-12)
    near(0.884421665225, published.mean, 1e-11)
    near(0.079381062567, published.variance, 1e-11)
    near(-17.6754932, oracle.recurrent(LINKED, CASES[2]).evidence, 1e-8)
    near(-18.8196851, oracle.published(LINKED, CASES[2]).evidence, 1e-8)
  end)

  it("is exact by default, and the published recursion's where it is asked for; the two are told apart", function()
    for k, y in ipairs(CASES) do
      local exact, published = oracle.recurrent(LINKED, y), oracle.published(LINKED, y)
      local num, batch = k == 1 and 64 or 512, k == 1 and 6000 or 1500
      local result = pn.smc.rbpf(linked(num, batch)):run(series(y, batch))
      local z = (result.log_evidence - exact.evidence):exp()
      expect(1, z, k == 1 and 0.04 or 0.2)
      expect(exact.mean, z * result.mean:select(1, 5):squeeze(-1), k == 1 and 0.05 or 0.1)
      local other = pn.smc.rbpf(linked(num, batch, { conditioning = "published" })):run(series(y, batch))
      z = (other.log_evidence - published.evidence):exp()
      expect(1, z, k == 1 and 0.04 or 0.3)
      expect(published.mean, z * other.mean:select(1, 5):squeeze(-1), k == 1 and 0.05 or 0.1)
      assert.is_true(math.exp(exact.evidence - published.evidence) > (k == 1 and 1.05 or 3))
    end
  end)

  it("draws from the optimal proposal, whose weights are constant", function()
    local first = pn.smc.rbpf(linked(5, 3, { proposal = best_switch }))
    local f = pn.smc.rbpf(linked(64, 3000, { proposal = best_switch }))
    first:observe(series(CASES[1], 3):select(1, 1))
    near(5, first:effective_sample_size():min():item())
    for _, y in ipairs(CASES) do
      local z = (f:run(series(y, 3000)).log_evidence - oracle.recurrent(LINKED, y).evidence):exp()
      expect(1, z, 0.1)
    end
  end)

  -- p(s | past) p(y | s, past) / p(s | past, y) is p(y | past), whatever s is: only if x knows of s, too.
  it("shows a proposal what y and each s say of the state", function()
    local largest, o = 0, { generator = pn.generator(6) }
    local function proposal(view)
      local q = best_switch(view)
      local one, other = q:sample(o), q:sample(o) + 1
      local function of_y(s) return view:log_likelihood(s) + view.law:log_prob(s) - q:log_prob(s) end
      largest = math.max(largest, (of_y(one) - of_y(other)):abs():max():item())
      return q
    end
    pn.smc.rbpf(linked(4, 3, { proposal = proposal })):run(series(CASES[2], 3))
    assert.is_true(largest < 1e-11)
  end)

  it("takes draws with their weights, which carry what they like, as it takes a proposal", function()
    local function run(more)
      local f = pn.smc.rbpf(with(linked(6, 3, { generator = pn.generator(5) }), more))
      return f:run(series(CASES[2], 3)).log_evidence, f
    end
    local want = run { proposal = best_switch }
    local o, seen = linked(6, 3), 0
    local function sampler(view)
      local law = view.y and best_switch(view) or dist.normal(pn.zeros { 6, 3, 1 }, 1):independent(1)
      local s = law:rsample { generator = view.filter.generator }
      local log_p = o.init:log_prob(s)
      if view.s then
        local loc, spread = LINKED.f * view.mean + LINKED.g * view.s, LINKED.f ^ 2 * view.cov:squeeze(-1) + LINKED.noise
        log_p = dist.normal(loc, spread:sqrt()):log_prob(s):squeeze(-1)
        assert.same({ 6, 3, 1 }, view.carried.twice:shape())
        assert.is_true((view.carried.twice - 2 * view.s):abs():max():item() == 0) -- resampled along
      end
      return s, log_p - law:log_prob(s), { twice = 2 * s }
    end
    local function system(s, t, u, carried)
      seen = seen + 1
      assert.is_true((carried.twice - 2 * s):abs():max():item() == 0)
      return o.system(s, t, u)
    end
    -- options of `linked` that the sampler stands for go
    local parts = linked(6, 3, { generator = pn.generator(5), sampler = sampler, system = system })
    parts.init = nil
    local f = pn.smc.rbpf(parts)
    assert.is_true((f:run(series(CASES[2], 3)).log_evidence - want):abs():max():item() < 1e-10)
    assert.equal(5, seen)
    assert.same({ 2, 3, 1 }, f:forecast(2).mean:shape())
    assert.error_matches(function() f:smooth() end, "smooth needs a filter without sampler and measurement_update")
    parts.init = o.init
    assert.error_matches(function() pn.smc.rbpf(parts) end, "sampler stands in the place of init")
  end)

  it("smooths the joint law", function()
    local f = pn.smc.rbpf(linked(600, 8, { proposal = best_switch }))
    f:run(series(CASES[2], 8))
    local s, e = f:smooth { draws = 300 }, oracle.recurrent(LINKED, CASES[2])
    for t = 1, 5 do
      near(e.smoothed[t][1], s.mean:select(1, t):mean():item(), 0.02)
      near(e.smoothed[t][2], s.cov:select(1, t):mean():item(), 0.01)
      local draws = s.s:select(1, t)
      near(e.switches[t][1], draws:mean():item(), 0.03)
      near(e.switches[t][2], draws:var():item(), 0.02)
    end
    local other = pn.smc.rbpf(linked(6, 8, { conditioning = "published" }))
    other:run(series(CASES[1], 8))
    assert.error_matches(function() other:smooth() end, "conditioning = 'exact'")
  end)

  it("smooths where what links the switch to the state changes with time", function()
    local m, num, batch = with(LINKED, { links = { 0, 0.8, -1.5, 1.2, -0.4 } }), 400, 8
    local noise = pn.tensor { { m.noise } }
    local f = pn.smc.rbpf(linked(num, batch, { coupling = function(s, t)
      return pn.tensor { { m.links[t] } }, m.g * s, noise
    end }))
    f:run(series(CASES[1], batch))
    local s, e = f:smooth { draws = 300 }, oracle.recurrent(m, CASES[1])
    for t = 1, 5 do
      near(e.smoothed[t][1], s.mean:select(1, t):mean():item(), 0.03)
      near(e.smoothed[t][2], s.cov:select(1, t):mean():item(), 0.015)
      local draws = s.s:select(1, t)
      near(e.switches[t][1], draws:mean():item(), 0.04)
      near(e.switches[t][2], draws:var():item(), 0.03)
    end
  end)

  it("gives a transition the moments where the published model asks for them", function()
    local seen
    local o = linked(4, 3, { conditioning = "published" })
    local couple = o.coupling
    o.coupling, o.transition = nil, function(s, t, u, moments)
      local f, offset, noise = couple(s, t, u)
      seen = moments
      return dist.multivariate_normal { loc = f:matmul(moments.mean:unsqueeze(-1)):squeeze(-1) + offset,
        covariance_matrix = f:matmul(moments.cov):matmul(f:t()) + noise }
    end
    pn.seed(3)
    local got = pn.smc.rbpf(o):run(series(CASES[1], 3)).log_evidence
    pn.seed(3)
    local want = pn.smc.rbpf(linked(4, 3, { conditioning = "published" })):run(series(CASES[1], 3)).log_evidence
    assert.is_true((got - want):abs():max():item() < 1e-12)
    assert.same({ 4, 3, 1 }, seen.mean:shape())
    o.conditioning = "exact"
    local exact = with(o, { transition = function(s, _, _, moments)
      assert.is_nil(moments)
      return dist.normal(s, 1):independent(1)
    end })
    pn.smc.rbpf(exact):run(series(CASES[1], 3))
  end)
end)

-- ---- replay, other particles, mistakes ----

describe("rbpf", function()
  it("replays: a whole pass, and its gradient", function()
    local num, batch = 8, 6
    local a = pn.param(pn.tensor(TWO.a))
    local o = model_of(TWO, num, batch, { proposal = "optimal", gradient = "stop_gradient" })
    local fixed = o.system
    function o.system(s)
      local m = fixed(s)
      m.transition = a:take(1, s):unsqueeze(-1):unsqueeze(-1)
      return m
    end
    for _, proposal in ipairs { false, "optimal" } do
      o.proposal = proposal or nil
      local f = pn.smc.rbpf(o)
      local function pass(y)
        local value = f:run(y, { moments = false }).log_evidence
        return value, pn.grad(value:sum(), { a })[1]
      end
      local y = series(Y, batch):contiguous()
      local fast = pn.compile(pass)
      for k = 1, 3 do
        pn.seed(k)
        local want, want_slope = pass(y)
        pn.seed(k)
        local got, slope = fast(y)
        assert.is_true((got - want):abs():max():item() == 0)
        assert.is_true((slope - want_slope):abs():max():item() == 0)
      end
      assert.equal(1, fast:captures())
    end
  end)

  it("drops the gradient of resampled states where asked, of the series that were due alone", function()
    local y = pn.tensor { { 0.1, 3 }, { 0.05, -3 }, { 0.1, 2 } }:unsqueeze(3)
    local function slopes(keep)
      local p = pn.param(pn.full({ 2, 1 }, TWO.mean))
      local f = pn.smc.rbpf(model_of(TWO, 6, 2, { generator = pn.generator(4), initial_mean = p,
        resampled_gradient = keep }))
      local result = f:run(y)
      local ess = result.effective_sample_size:slice(1, 1, 2)
      assert.is_true(ess:select(2, 1):min():item() > 3 and ess:select(2, 2):max():item() < 3) -- half of 6
      return pn.grad(result.log_evidence:sum(), { p })[1]:reshape { 2 }:totable(),
        pn.grad(result.increments[1]:sum(), { p })[1]:reshape { 2 }:totable()
    end
    local whole, first = slopes(true)
    local got = slopes(false)
    near(whole[1], got[1], 1e-12)
    near(first[2], got[2], 1e-12)
    assert.is_true(math.abs(whole[1] - first[1]) > 0.01 and math.abs(whole[2] - first[2]) > 0.01)
  end)

  it("takes draws in place of laws, and tables of tensors as particles", function()
    pn.seed(8)
    local rows, batch = pn.tensor(TWO.transition), 20000
    local o = model_of(TWO, 16, batch)
    local fixed = o.system
    o.init = function(shape) return { label = dist.categorical(TWO.first):sample(shape), age = pn.zeros(shape) } end
    o.transition = function(s)
      return { label = dist.categorical { probs = rows:take(1, s.label) }:sample(), age = s.age + 1 }
    end
    o.system = function(s) return fixed(s.label) end
    local f = pn.smc.rbpf(o)
    local result = f:run(series(Y, batch), { moments = false })
    expect(1, (result.log_evidence - oracle.enumerate(TWO, Y).evidence):exp(), 0.05)
    near(3, f:mean(f:mixture().s.age):mean():item())
    assert.equal(2, #f:forecast(2).s)
    assert.error_matches(function() f:smooth() end, "transition that gives a distribution")
    assert.error_matches(function() f:probabilities() end, "only a categorical switch")
  end)

  it("gives inputs to transition and system", function()
    local seen = {}
    local o = model_of(TWO, 4, 2)
    local fixed, move, mean = o.system, o.transition, o.initial_mean
    o.initial_mean = function() return mean end
    o.system = function(s, t, u)
      seen[t] = u:item()
      assert.equal(t, u:item())
      return fixed(s)
    end
    o.init = function(_, u)
      assert.equal(1, u:item())
      return dist.categorical(TWO.first)
    end
    o.proposal = function(view)
      assert.equal(view.t, view.input:item())
      return view.law
    end
    o.transition = function(s, t, u)
      assert.equal(t, u:item())
      return move(s)
    end
    local f = pn.smc.rbpf(o)
    f:run(series(Y, 2), { inputs = pn.tensor { 1, 2, 3, 4 } })
    assert.same({ 1, 2, 3, 4 }, seen)
    f:forecast(3, { inputs = pn.tensor { 5, 6, 7 } })
    assert.same({ 1, 2, 3, 4, 5, 6, 7 }, seen)
    seen = {}
    f:smooth { draws = 2 }
    assert.same({ 1, 2, 3, 4 }, seen)
  end)

  it("says what is wrong", function()
    local function refused(text, changes)
      assert.error_matches(function()
        pn.smc.rbpf(with(model_of(TWO, 4, 2), changes)):run(series(Y, 2))
      end, text)
    end
    refused("rbpf: unknown option 'sistem', did you mean 'system'", { sistem = 1 })
    refused("prior is called initial_mean", { prior = 3 })
    refused("initial_cov must be a tensor, or a function", { initial_cov = 3 })
    refused("system must be a function of particles or a linear system", { system = 3 })
    refused("rbpf: system: q is called transition_cov", { system = function() return { q = pn.eye(1) } end })
    refused("needs a transition or a coupling, one of the two", { coupling = function() end })
    refused("proposal must be a function or 'optimal'", { proposal = "best" })
    refused("conditioning must be one of", { conditioning = "paper" })
    refused("system must give a table", { system = function() return 3 end })
    refused("system must give transition_cov", { system = function() return { transition = pn.eye(1) } end })
    refused("unknown part 'Q'", { system = function() return { Q = 1 } end })
    refused("transition must give a distribution", { transition = function() end })
    refused("'optimal' needs a categorical switch, got normal", { init = dist.normal(0, 1), proposal = "optimal" })
    assert.error_matches(function() pn.smc.rbpf(model_of(TWO, 4, 2)):moments() end, "nothing was observed yet")
    local matrices = model_of(TWO, 4, 2).system
    for name, text in pairs { transition_input = "rbpf: transition_input needs inputs, a tensor %[T, %.%.%., m%]",
      emission_input = "rbpf: emission_input needs inputs", emission_cov = "rbpf: step 1: .*positive definite" } do
      refused(text, { system = function(s) return with(matrices(s), { [name] = pn.full({ 1, 1 }, -50.0) }) end })
    end
    local function run_linked(matrix, cov)
      local one = pn.eye(1)
      pn.smc.rbpf({ num_particles = 4, batch_shape = { 2 }, initial_mean = pn.zeros { 1 }, initial_cov = one,
        init = dist.normal(pn.zeros { 1 }, 1):independent(1), coupling = function() return matrix, nil, cov end,
        system = function()
          return { transition = one, transition_cov = one, emission = one, emission_cov = one }
        end }):run(series(Y, 2))
    end
    for text, given in pairs { ["the matrix that coupling gives must be a tensor, got 3"] = { 3, pn.eye(1) },
      ["the covariance that coupling gives must be a tensor, got nil"] = { pn.eye(1) },
      ["positive definite"] = { pn.eye(1), pn.full({ 1, 1 }, -50.0) } } do
      assert.error_matches(function() run_linked(given[1], given[2]) end, text)
    end
    run_linked(pn.eye(1), pn.eye(1))
    assert.error_matches(function() pn.smc.rbpf(model_of(TWO, 4, 2)):run(3) end, "y must be a tensor")
  end)

  it("refuses parts that do not go together, and what it has not kept", function()
    local function made(changes)
      local o = model_of(TWO, 4, 2)
      for key, value in pairs(changes) do
        o[key] = value
        if value == "none" then o[key] = nil end
      end
      return pn.smc.rbpf(o)
    end
    local helper = require "spec.helper"
    local function refused(text, changes) helper.refuses(text, made, changes) end
    for _, name in ipairs { "initial_mean", "initial_cov" } do
      refused(("rbpf: %s must be a tensor, or a function that gives it, got nil"):format(name), { [name] = "none" })
    end
    refused("rbpf: init must be a distribution, or a function that gives one or draws of it", { init = 3 })
    refused("rbpf: init must be a distribution", { init = "none" })
    refused("rbpf: gradient 'transport' makes means of particles", { gradient = "transport" })
    refused("rbpf: needs a transition or a coupling, one of the two", { transition = "none" })
    for _, left in ipairs { "init", "transition", "proposal" } do
      local o = { sampler = print, init = "none", transition = "none" }
      o[left] = left == "init" and dist.categorical { 0.5, 0.5 } or print
      refused("rbpf: sampler stands in the place of init, transition and proposal", o)
    end
    local f = made {}
    assert.equal("rbpf of 4 particles", tostring(f))
    for _, name in ipairs { "log_evidence", "effective_sample_size", "mixture", "moments", "probabilities",
      "smooth" } do
      helper.refuses(("rbpf: %s: nothing was observed yet"):format(name), f[name], f)
    end
    helper.refuses("rbpf: forecast: nothing was observed yet", f.forecast, f, 1)
    helper.refuses("rbpf: forecast: steps must be a whole number from 1 on, got 0", f.forecast, f, 0)
    helper.refuses("rbpf: observe: y must be a tensor", f.observe, f, 3)
    assert.equal(0, f:steps())
    local short = made { history = false }
    short:run(series(Y, 2))
    helper.refuses("rbpf: smooth needs a filter with history = true", short.smooth, short)
    assert.equal(0, #short.pass.steps)
    short:reset()
    helper.refuses("rbpf: moments: nothing was observed yet", short.moments, short)
    local drawn = made { init = function(shape) return dist.categorical(TWO.first):sample(shape) end,
      proposal = function(view) return view.law end }
    helper.refuses("rbpf: a proposal needs a transition and an init that give distributions", drawn.run, drawn,
      series(Y, 2))
    local best = made { init = function(shape) return dist.categorical(TWO.first):sample(shape) end,
      proposal = "optimal" }
    helper.refuses("rbpf: proposal 'optimal' needs a categorical switch, got draws of it", best.run, best, series(Y, 2))
  end)

  it("takes inputs as lists, leaves moments out, and has weighted means", function()
    local seen = {}
    local o = model_of(TWO, 4, 2, { threshold = 0, generator = pn.generator(3) })
    local fixed = o.system
    o.system = function(s, t, u)
      seen[t] = u
      return fixed(s)
    end
    local f = pn.smc.rbpf(o)
    local r = f:run(series(Y, 2), { inputs = { "a", "b", "c", "d" }, moments = false })
    assert.same({ "a", "b", "c", "d" }, seen)
    for _, name in ipairs { "mean", "cov", "probabilities", "effective_sample_size" } do assert.is_nil(r[name]) end
    f:forecast(2, { inputs = { "e", "f" } })
    assert.same({ "e", "f" }, { seen[5], seen[6] })
    local m = f:mixture()
    local w = m.log_weights:exp()
    assert.is_true(w:max():item() > 2 * w:min():item())
    assert.is_true((f:mean(m.mean) - (w:unsqueeze(2 + 1) * m.mean):sum(1)):abs():max():item() < 1e-14)
    assert.is_true((f:effective_sample_size() - 1 / w:square():sum(1)):abs():max():item() < 1e-12)
    assert.is_true((f:log_evidence() - r.log_evidence):abs():max():item() == 0)
    assert.is_true((f:probabilities():sum(-1) - 1):abs():max():item() < 1e-14)
    local mean, cov = f:moments()
    local off = m.mean - mean
    local want = (w:unsqueeze(3):unsqueeze(4) * (m.cov + off:unsqueeze(4) * off:unsqueeze(3))):sum(1)
    assert.is_true((cov - want):abs():max():item() < 1e-14)
  end)
end)
