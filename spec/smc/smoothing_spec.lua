-- Smoothed paths and moments against the exact smoother (RTS) of a linear Gaussian model.
local pn = require "penumbra"
local dist = pn.dist

local A, Q, R, T = 0.9, 0.5, 0.7, 12
local ys = pn.randn({ T }, { generator = pn.generator(5) })
local log_bound = -math.log(Q) - 0.5 * math.log(2 * math.pi)

-- Means and variances of x[t] given all y: Rauch, Tung & Striebel 1965.
local function exact()
  local y, m, P, mp, Pp = ys:totable(), {}, {}, {}, {}
  for t = 1, T do
    mp[t], Pp[t] = t == 1 and 0 or A * m[t - 1], t == 1 and 1 or A * A * P[t - 1] + Q * Q
    local gain = Pp[t] / (Pp[t] + R * R)
    m[t], P[t] = mp[t] + gain * (y[t] - mp[t]), Pp[t] * (1 - gain)
  end
  for t = T - 1, 1, -1 do
    local g = P[t] * A / Pp[t + 1]
    m[t], P[t] = m[t] + g * (m[t + 1] - mp[t + 1]), P[t] + g * g * (P[t + 1] - Pp[t + 1])
  end
  return m, P
end
local means, variances = exact()

local function make(options)
  options.prior = function() return dist.normal(0, 1) end
  options.transition = function(x) return dist.normal(x * A, Q) end
  options.observation = function(x) return dist.normal(x, R) end
  return pn.smc.filter(options)
end

-- Of [T, filters] estimates: their mean is the exact one within 6 standard errors, which are small.
local function assert_near(estimates, want, narrow)
  local mean, spread = estimates:mean(2):totable(), estimates:std(2):totable()
  for t = 1, T do
    local error = spread[t] / math.sqrt(estimates:size(2))
    assert.is_true(math.abs(mean[t] - want[t]) < 6 * error + narrow / 5)
    assert.is_true(error < narrow)
  end
end

describe("smoothing by particles", function()
  it("goes through as many chunks as there are pairs for", function()
    local in_chunks = require("penumbra.smc.smoothed_paths").in_chunks
    for m = 1, 4 do
      for shift = 16, 40, 3 do
        local most = 0
        local got = in_chunks(m, 1 << shift, function(first, last)
          most = math.max(most, last - first + 1)
          return pn.arange(first, last + 1)
        end)
        assert.same(pn.arange(1, m + 1):totable(), got:totable())
        assert(most == 1 or most << shift <= 1 << 22)
      end
    end
  end)

  it("draws paths backwards with the exact smoother's moments", function()
    pn.seed(1)
    local f = make { num_particles = 200, batch_shape = { 100 }, trace = false }
    f:run(ys, { record = true })
    local paths = f:smooth { draws = 40 }
    assert.same({ T, 40, 100 }, paths:shape())
    assert_near(paths:mean(2), means, 0.02)
    assert_near(paths:var(2), variances, 0.02)
    -- of neighbours: cov = P[t | t] a P[t+1 | t]^-1 P[t+1 | T], through the sum of both
    local together = (paths:slice(1, 1, T - 1) + paths:slice(1, 2, T)):var(2):mean(2):totable()
    for t = 1, T - 1 do
      assert.is_true(together[t] > 1.2 * (variances[t] + variances[t + 1])) -- they are correlated
    end
  end)

  it("does the same by rejection", function()
    pn.seed(2)
    local f = make { num_particles = 2000, trace = false }
    f:run(ys, { record = true })
    local paths = f:smooth { draws = 4000, log_bound = log_bound }
    local mean, variance = paths:mean(2):totable(), paths:var(2):totable()
    for t = 1, T do
      assert.near(means[t], mean[t], 6 * math.sqrt(variances[t] * (1 / 4000 + 2 / 1000)))
      assert.near(variances[t], variance[t], 0.2 * variances[t])
    end
    assert.error_matches(function() f:smooth { draws = 5, log_bound = log_bound - 1 } end,
      "log_bound must not be below")
  end)

  it("has fixed-lag moments", function()
    pn.seed(3)
    local f = make { num_particles = 500, batch_shape = { 100 }, trace = false }
    local result = f:run(ys, { lag = 6, moments = true })
    assert_near(result.smoothed.mean, means, 0.02)
    assert_near(result.smoothed.square - result.smoothed.mean:square(), variances, 0.02)
    local none = make { num_particles = 500, trace = false }:run(ys, { lag = 0, moments = true })
    assert.same(none.mean:totable(), none.smoothed.mean:totable())
    -- of x_t they are those of a run that ends two steps later
    local function run(steps, lag)
      pn.seed(4)
      local few = make { num_particles = 7, trace = false }
      return few:run(ys:slice(1, 1, steps), { lag = lag, moments = true }).smoothed
    end
    local two = run(T, 2)
    assert.equal(T, two.mean:size(1))
    for t = 1, T do
      local short = run(math.min(t + 2, T), 100)
      assert.equal(short.mean[t]:item(), two.mean[t]:item())
      assert.equal(short.square[t]:item(), two.square[t]:item())
    end
  end)

  it("smooths states that are tables, with inputs", function()
    pn.seed(4)
    local f = pn.smc.filter { num_particles = 300,
      init = function(n) return { x = pn.randn { n }, v = pn.zeros { n, 2 } } end,
      step = function(s, _, u) return { x = s.x * A + u + pn.randn { 300 } * Q, v = s.v + 1 } end,
      log_weight = function(s, y) return dist.normal(s.x, R):log_prob(y:broadcast_to { 300 }) end,
      transition_log_prob = function(before, s, _, u) return dist.normal(before.x * A + u, Q):log_prob(s.x) end }
    f:run(ys, { record = true, inputs = pn.zeros { T } })
    local paths = f:smooth { draws = 500 }
    assert.same({ T, 500, 2 }, paths.v:shape())
    assert.equal(T - 1, paths.v[T]:min():item())
    assert.near(means[6], paths.x[6]:mean():item(), 0.25)
  end)

  -- Exact moments [T] of one number by the Kalman smoother, NaN where y is missing.
  local function smoothed_exactly(y)
    local x = pn.smc.kalman.smooth({ transition = { { A } }, transition_cov = { { Q * Q } }, emission = { { 1 } },
      emission_cov = { { R * R } }, initial_mean = { 0 }, initial_cov = { { 1 } } }, y:reshape { -1, 1 },
      { first = "predicted" })
    return x.mean:reshape { -1 }:totable(), x.cov:reshape { -1 }:totable()
  end

  local function assert_two_filter(r, want_mean, want_variance, narrow)
    local n, steps = r.state:size(2), #want_mean
    assert.same(r.state:shape(), r.log_weights:shape())
    assert.near(0, r.log_weights:logsumexp(2):abs():max():item(), 1e-9)
    assert.same({ steps, r.state:size(3) }, r.effective_sample_size:shape())
    assert.is_true(r.effective_sample_size:min():item() > n / 5 and r.effective_sample_size:max():item() <= n)
    assert_near(r.mean, want_mean, narrow)
    assert_near(r.square - r.mean:square(), want_variance, narrow)
  end

  it("has the exact smoother's moments by two filters", function()
    pn.seed(5)
    local mean, variance = smoothed_exactly(ys)
    for t = 1, T do -- the two exact smoothers agree
      assert.near(means[t], mean[t], 1e-12)
      assert.near(variances[t], variance[t], 1e-12)
    end
    local f = make { num_particles = 250, batch_shape = { 40 }, trace = false }
    f:run(ys, { record = true })
    assert_two_filter(f:smooth { method = "two_filter" }, mean, variance, 0.01)
    local asked = {}
    local r = f:smooth { method = "two_filter", artificial = function(t)
      asked[t] = true
      return dist.normal(0, 1.2)
    end }
    assert.equal(T, #asked)
    assert_two_filter(r, mean, variance, 0.01)
  end)

  it("smooths by two filters what is missing, with inputs and a transition that changes with time", function()
    pn.seed(6)
    local u, drift = pn.randn { T }:totable(), pn.randn { T }:totable()
    local list, gaps, shift = ys:totable(), ys:totable(), { 0 } -- x[t] = (that of the plain model) + shift[t]
    for t = 2, T do
      shift[t] = A * shift[t - 1] + u[t] + drift[t]
    end
    for _, t in ipairs { 1, 5, 6, T } do
      list[t], gaps[t] = false, 0 / 0
    end
    for t = 1, T do
      list[t] = list[t] and list[t] + shift[t]
    end
    local mean, variance = smoothed_exactly(pn.tensor(gaps))
    for t = 1, T do
      mean[t] = mean[t] + shift[t]
    end
    local f = pn.smc.filter { num_particles = 250, batch_shape = { 40 }, trace = false,
      prior = function() return dist.normal(0, 1) end,
      transition = function(x, t, input) return dist.normal(x * A + input + drift[t], Q) end,
      observation = function(x) return dist.normal(x, R) end }
    f:run(list, { record = true, inputs = u })
    assert_two_filter(f:smooth { method = "two_filter" }, mean, variance, 0.012)
  end)

  it("smooths a vector, and a single step, by two filters", function()
    pn.seed(7)
    local a, q, h, r = pn.tensor { { 0.9, 0.3 }, { -0.2, 0.8 } }, pn.tensor { 0.5, 0.4 }, pn.tensor { 1, 0.5 }, 0.7
    local y = pn.randn({ 6 }, { generator = pn.generator(6) })
    local f = pn.smc.filter { num_particles = 250, batch_shape = { 40 }, trace = false,
      prior = function() return dist.normal(pn.zeros { 2 }, 1):independent(1) end,
      transition = function(x) return dist.normal(x:matmul(a:transpose(1, 2)), q):independent(1) end,
      observation = function(x) return dist.normal((x * h):sum(-1), r) end }
    for _, steps in ipairs { 6, 1 } do
      local some = y:slice(1, 1, steps)
      local exact_one = pn.smc.kalman.smooth({ transition = a, transition_cov = q:square():diag_embed(),
        emission = h:reshape { 1, 2 }, emission_cov = { { r * r } }, initial_mean = pn.zeros { 2 },
        initial_cov = pn.eye(2) }, some:reshape { steps, 1 }, { first = "predicted" })
      f:reset()
      f:run(some, { record = true })
      local result = f:smooth { method = "two_filter" }
      assert.same({ steps, 250, 40, 2 }, result.state:shape())
      assert.same({ steps, 250, 40 }, result.log_weights:shape())
      assert.same({ steps, 40, 2 }, result.mean:shape())
      local function near(got, want)
        local off, error = (got:mean(2) - want):abs(), got:std(2) / math.sqrt(40)
        assert.is_true(error:max():item() < 0.02)
        assert.is_true((off - error * 6):max():item() < 0.004)
      end
      near(result.mean, exact_one.mean)
      assert.has_error(function()
        f:smooth { method = "two_filter", artificial = function() return dist.normal(pn.zeros { 250, 40, 2 }, 1) end }
      end, ("smooth: artificial(%d) must have log densities [250, 40], got [250, 40, 2]"):format(steps))
      near(result.square - result.mean:square(), exact_one.cov:diagonal())
    end
  end)

  it("says what two filters need", function()
    local two = { method = "two_filter" }
    local f = make { num_particles = 10 }
    assert.has_error(function() f:smooth(two) end,
      "smooth: nothing was recorded (filter:run(ys, {record = true}))")
    f:run(ys, { record = true })
    assert.error_matches(function() f:smooth { method = "two_fliter" } end,
      "method must be one of 'backward', 'two_filter', got 'two_fliter', did you mean 'two_filter'")
    assert.error_matches(function() f:smooth { method = "two_filter", draws = 3 } end, "unknown option \'draws\'")
    assert.error_matches(function() f:smooth { draws = 3, artificial = print } end, "unknown option 'artificial'")
    assert.error_matches(function() f:smooth { method = "two_filter", artificial = 1 } end,
      "artificial must be a function, got 1")
    local function with(law)
      return function() f:smooth { method = "two_filter", artificial = function() return law end } end
    end
    assert.error_matches(with(3), "artificial%(12%) must be a distribution, got 3")
    assert.has_error(with(dist.normal(pn.zeros { 2 }, 1):independent(1)),
      "smooth: artificial(12) must have draws [10], got [10, 2]")
    assert.has_error(with(dist.normal(1e200, 1)), "smooth: all weights are 0, or one is not a number, at step 12: "
      .. "artificial(12) must cover the state there")
    local g = pn.smc.filter { num_particles = 10, init = function(n) return pn.randn { n } end,
      step = function(x) return x end, log_weight = function(x) return x * 0 end,
      transition_log_prob = function(x) return x * 0 end }
    g:run(ys, { record = true })
    assert.has_error(function() g:smooth(two) end,
      "smooth: two_filter needs the densities of a filter made of prior, transition and observation")
    local alone = make { num_particles = 1 }
    alone:run(ys, { record = true })
    assert.has_error(function() alone:smooth(two) end,
      "smooth: artificial is required, since the filter's particles at step 12 are all the same")
    local table_state = make { num_particles = 10 }
    table_state:run(ys, { record = true })
    table_state.record[1].state = { x = table_state.record[1].state }
    assert.has_error(function() table_state:smooth(two) end,
      "smooth: two_filter needs a state that is one tensor, got a table")
  end)

  it("smooths discrete states by two filters, given an artificial law", function()
    pn.seed(8)
    local f = pn.smc.filter { num_particles = 250, batch_shape = { 40 }, trace = false,
      prior = function() return dist.bernoulli(0.5) end,
      transition = function(x) return dist.bernoulli(x * 0.7 + 0.1) end,
      observation = function(x) return dist.normal(x, R) end }
    f:run(ys, { record = true })
    assert.has_error(function() f:smooth { method = "two_filter" } end,
      "smooth: artificial is required where the state is discrete")
    local r = f:smooth { method = "two_filter", artificial = function() return dist.bernoulli(0.4) end }
    local want = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
      emission = dist.normal(pn.tensor { 0, 1 }, R) }:smooth(ys).marginals
    assert_near(r.mean, want:select(2, 2):totable(), 0.01)
  end)

  it("says what it needs", function()
    local f = make { num_particles = 10 }
    assert.has_error(function() f:smooth { draws = 3 } end,
      "smooth: nothing was recorded (filter:run(ys, {record = true}))")
    f:run(ys, { record = true })
    assert.error_matches(function() f:smooth {} end, "'draws' is required")
    local g = pn.smc.filter { num_particles = 10, init = function(n) return pn.randn { n } end,
      step = function(x) return x end, log_weight = function(x) return x * 0 end }
    g:run(ys, { record = true })
    assert.has_error(function() g:smooth { draws = 3 } end,
      "smooth: needs the transition's density (transition_log_prob)")
  end)

  -- Where hardly a pair fits, the paths that are left after some rounds look at all particles.
  it("draws the same paths with a bound that is too high, or a function of time", function()
    local function run(bound)
      pn.seed(9)
      local f = make { num_particles = 400, trace = false }
      f:run(ys:slice(1, 1, 4), { record = true })
      return f:smooth { draws = 3000, log_bound = bound }
    end
    local asked = {}
    local plain = run(function(t)
      asked[#asked + 1] = t
      return log_bound
    end)
    assert.same({ 4, 3, 2 }, asked)
    assert.same(plain:totable(), run(log_bound):totable())
    local rare, mixed = run(log_bound + 12), run(log_bound + 3)
    for t = 1, 4 do
      for _, paths in ipairs { rare, mixed } do
        local sd = plain[t]:std():item()
        assert(math.abs((paths[t]:mean() - plain[t]:mean()):item()) < 6 * sd * (2 / 3000) ^ 0.5, t)
        assert(math.abs(paths[t]:std():item() / sd - 1) < 6 * 3000 ^ -0.5, t)
      end
      assert(t == 4 or rare[t]:sort(1):diff():gt(0):sum():item() > 20) -- not one particle for all
    end
  end)

  it("refuses bounds that are none, and batches with them", function()
    local refuses = require("spec.helper").refuses
    local f = make { num_particles = 10 }
    f:run(ys, { record = true })
    refuses("smooth: log_bound must be a number or a function of t, got string", f.smooth, f,
      { draws = 3, log_bound = "x" })
    local wide = make { num_particles = 10, batch_shape = { 2 } }
    wide:run(ys, { record = true })
    refuses("smooth: log_bound is for filters without a batch", wide.smooth, wide, { draws = 3, log_bound = 1 })
  end)
end)
