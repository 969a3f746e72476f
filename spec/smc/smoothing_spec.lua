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
  it("draws paths backwards with the exact smoother's moments", function()
    pn.seed(1)
    local f = make { num_particles = 200, batch = { 100 }, trace = false }
    f:run(ys, { record = true })
    local paths = f:smooth { paths = 40 }
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
    local paths = f:smooth { paths = 4000, log_bound = log_bound }
    local mean, variance = paths:mean(2):totable(), paths:var(2):totable()
    for t = 1, T do
      assert.near(means[t], mean[t], 6 * math.sqrt(variances[t] * (1 / 4000 + 2 / 1000)))
      assert.near(variances[t], variance[t], 0.2 * variances[t])
    end
    assert.error_matches(function() f:smooth { paths = 5, log_bound = log_bound - 1 } end,
      "log_bound must not be below")
  end)

  it("has fixed-lag moments", function()
    pn.seed(3)
    local f = make { num_particles = 500, batch = { 100 }, trace = false }
    local result = f:run(ys, { lag = 6, moments = true })
    assert_near(result.smoothed.mean, means, 0.02)
    assert_near(result.smoothed.square - result.smoothed.mean:square(), variances, 0.02)
    local none = make { num_particles = 500, trace = false }:run(ys, { lag = 0, moments = true })
    assert.same(none.mean:totable(), none.smoothed.mean:totable())
  end)

  it("smooths states that are tables, with inputs", function()
    pn.seed(4)
    local f = pn.smc.filter { num_particles = 300,
      init = function(n) return { x = pn.randn { n }, v = pn.zeros { n, 2 } } end,
      step = function(s, _, u) return { x = s.x * A + u + pn.randn { 300 } * Q, v = s.v + 1 } end,
      log_weight = function(s, y) return dist.normal(s.x, R):log_prob(y:broadcast_to { 300 }) end,
      transition_log_prob = function(before, s, _, u) return dist.normal(before.x * A + u, Q):log_prob(s.x) end }
    f:run(ys, { record = true, inputs = pn.zeros { T } })
    local paths = f:smooth { paths = 500 }
    assert.same({ T, 500, 2 }, paths.v:shape())
    assert.equal(T - 1, paths.v[T]:min():item())
    assert.near(means[6], paths.x[6]:mean():item(), 0.25)
  end)

  it("says what it needs", function()
    local f = make { num_particles = 10 }
    assert.has_error(function() f:smooth { paths = 3 } end,
      "smooth: nothing was recorded (filter:run(ys, {record = true}))")
    f:run(ys, { record = true })
    assert.error_matches(function() f:smooth {} end, "'paths' is required")
    local g = pn.smc.filter { num_particles = 10, init = function(n) return pn.randn { n } end,
      step = function(x) return x end, log_weight = function(x) return x * 0 end }
    g:run(ys, { record = true })
    assert.has_error(function() g:smooth { paths = 3 } end,
      "smooth: needs the transition's density (transition_log_prob)")
  end)
end)
