--- Scores of predictions: closed forms, each by another way too, and distances against SciPy
--- (spec/golden/infer/transport.py).
local pn = require "penumbra"
local core = require "penumbra.core"
local metrics = pn.metrics

local golden = dofile "spec/golden/infer/transport.lua"

local function close(got, want, tolerance)
  got = type(got) == "number" and got or got:item()
  assert.is_true(math.abs(got - want) <= (tolerance or 1e-12), ("%.15g is not %.15g"):format(got, want))
end

describe("scores of predictions", function()
  before_each(function() pn.seed(5) end)

  it("have the closed form of a normal", function()
    local y = pn.tensor { 0, 1.5, 1 }
    local got = metrics.crps_normal(y, pn.tensor { 0, 0, 2 }, pn.tensor { 1, 1, 0.5 })
    close(got[1], .233694977255, 1e-12)
    close(got[2], .994424003977, 1e-12)
    close(got[3], .726395910843, 1e-12)
    local loc, scale = pn.param(pn.tensor { 0.2, -1, 3 }), pn.param(pn.tensor { 0.3, 2, 1 })
    assert.is_true(pn.check_gradients(function()
      return metrics.crps_normal(y, loc, scale):sum()
    end, { loc, scale }).error < 1e-6)
    -- by the integral over levels, and by draws
    local q, levels = 4000, {}
    for i = 1, q do levels[i] = (i - 0.5) / q end
    local exact = metrics.crps_normal(y, 0.4, 1.3)
    local at = pn.dist.normal(0.4, 1.3):icdf(pn.tensor(levels)):reshape { q, 1 }:broadcast_to { q, 3 }
    for i, v in ipairs((metrics.crps_quantiles(y, at, levels) - exact):totable()) do
      assert.is_true(math.abs(v) < 1e-3, i .. ": " .. v)
    end
    for role, refused in pairs { loc = { y, y:unsqueeze(2), 1 }, scale = { y, 0, y:unsqueeze(2) } } do
      assert.error_matches(function() metrics.crps_normal(table.unpack(refused)) end,
        ("crps_normal: %s must broadcast to y's shape [3], got [3, 1]"):format(role), 1, true)
    end
    local draws = pn.dist.normal(0.4, 1.3):sample { 40000, 3 }
    assert.is_true((metrics.crps(y, draws) - exact):abs():max():item() < 6 * 1.3 / 200)
  end)

  it("take quantiles as NumPy does, or the nearest", function()
    local x = pn.tensor { { 5, 1 }, { 1, 2 }, { 3, 9 }, { 4, 4 } }
    local q = metrics.quantiles(x, { 0.1, 0.5, 0.9 })
    local want = { { 1.6, 1.3 }, { 3.5, 3 }, { 4.7, 7.5 } } -- numpy.quantile
    assert.is_true((q - pn.tensor(want)):abs():max():item() < 1e-14)
    -- rounds 0.3, 1.5 (to the even 2), 2.7
    assert.same({ { 1, 1 }, { 4, 4 }, { 5, 9 } }, metrics.quantiles(x, { 0.1, 0.5, 0.9 }, { interpolation = "nearest" })
      :totable())
    close(metrics.quantiles(pn.arange(101), { 0.25 }), 25)
  end)

  it("normalise as forecasting libraries do", function()
    -- by hand: draws 0 .. 4 at both times, y = 1 and -3, quantiles at 0.25 and 0.75 are 1 and 3
    local draws = pn.arange(5):reshape { 5, 1 }:broadcast_to { 5, 2 }
    local y = pn.tensor { 1, -3 }
    local loss = metrics.quantile_loss(y, metrics.quantiles(draws, { 0.25, 0.75 }), { 0.25, 0.75 })
    assert.same({ { 0, 3 }, { 0.5, 1.5 } }, loss:totable())
    close(metrics.normalised_crps(y, draws, { levels = { 0.25, 0.75 } }), 2 * 5 / 2 / 4)
    -- scale free
    local many = pn.randn { 50, 30 }
    local z = pn.randn { 30 }
    close(metrics.normalised_crps(z * 7, many * 7), metrics.normalised_crps(z, many), 1e-12)
    -- with many levels it is the sum of scores over the sum of |y|
    local levels = {}
    for i = 1, 999 do levels[i] = i / 1000 end
    local score = metrics.crps(z, many, { fair = false }):sum():item() / z:abs():sum():item()
    close(metrics.normalised_crps(z, many, { levels = levels }) / score, 1, 0.03)
  end)

  it("judge intervals", function()
    local y = pn.tensor { 0, 1, 2, 3 }
    local low, high = pn.tensor { -1, 1.5, 0, 1 }, pn.tensor { 1, 2, 2, 2 }
    close(metrics.interval_coverage(y, low, high), 0.5)
    for _, name in ipairs { "interval_coverage", "interval_score" } do
      local ok, message = pcall(metrics[name], low, high, y, 0.8)
      assert.is_false(ok)
      assert.matches("^" .. name .. ": low must not be above high", (message:gsub("^%S+:%d+: ", "")))
    end
    local want = pn.tensor { 2, 0.5 + 5, 2, 1 + 10 }
    assert.is_true((metrics.interval_score(y, low, high, 0.8) - want):abs():max():item() < 1e-13)
    -- history changes by 1, 3, 2 a step, by 4, 5 in two
    local history = pn.tensor { 0, 1, 4, 6 }
    close(metrics.mean_scaled_interval_score(y, low, high, history, { level = 0.8 }), 20.5 / 4 / 2)
    close(metrics.mean_scaled_interval_score(y, low, high, history, { level = 0.8, season = 2 }), 20.5 / 4 / 4.5)
    -- the score is least at the true quantiles
    local x, z = pn.randn { 20000 }, pn.dist.normal(0, 1):icdf(pn.tensor(0.9)):item()
    local function score(width)
      local ends = pn.full({ 20000 }, width)
      return metrics.interval_score(x, -ends, ends, 0.8):mean():item()
    end
    assert.is_true(score(z) < score(z * 0.8) and score(z) < score(z * 1.2))
  end)
end)

describe("Wasserstein distances", function()
  before_each(function() pn.seed(6) end)

  it("on the line agree with SciPy and with exact transport", function()
    for _, c in ipairs(golden.line) do
      local x, y, u, v = pn.tensor(c.x), pn.tensor(c.y), pn.tensor(c.u), pn.tensor(c.v)
      close(metrics.wasserstein_1d(x, y), c.equal, 1e-12)
      close(metrics.wasserstein_1d(x, y, { weights = u, other_weights = v }), c.value, 1e-12)
      close(metrics.wasserstein(x:unsqueeze(2), y:unsqueeze(2), { weights = u, other_weights = v }), c.value, 1e-11)
    end
    local x, y = pn.randn { 3, 8 }, pn.randn { 3, 8 }
    local want = (x:sort(-1) - y:sort(-1)):abs():mean(-1)
    assert.is_true((metrics.wasserstein_1d(x, y) - want):abs():max():item() < 1e-14)
    local a, b, u = pn.param(pn.randn { 4 }), pn.param(pn.randn { 3 }), pn.param(pn.rand { 4 } + 0.5)
    assert.is_true(pn.check_gradients(function()
      return metrics.wasserstein_1d(a, b, { weights = u })
    end, { a, b, u }).error < 1e-6)
  end)

  it("of weighted costs agree with SciPy's linear programs", function()
    for _, c in ipairs(golden.transport_plan) do
      local cost, u, v = pn.tensor(c.cost), pn.tensor(c.a), pn.tensor(c.b)
      local n, m = u:size(1), v:size(1)
      local value, plan = metrics.wasserstein(pn.zeros { n, 1 }, pn.zeros { m, 1 }, { cost = cost, weights = u,
        other_weights = v })
      close(value, c.value, 1e-11)
      assert.is_true(plan:min():item() >= 0)
      assert.is_true((plan:sum(2) - u / u:sum()):abs():max():item() < 1e-14)
      assert.is_true((plan:sum(1) - v / v:sum()):abs():max():item() < 1e-14)
      assert.is_true(plan:gt(0):sum():item() <= n + m - 1) -- a vertex of the polytope
    end
  end)

  it("of equal points are the best assignment", function()
    for _, c in ipairs(golden.assignment) do
      close(metrics.wasserstein(pn.tensor(c.x), pn.tensor(c.y)), c.value, 1e-11)
    end
    -- all permutations, many small cases at once, some with points that coincide
    local b, n = 200, 5
    local x, y = pn.randint(0, 4, { b, n, 2 }):to "float64", pn.randint(0, 4, { b, n, 2 }):to "float64"
    local d = (x:unsqueeze(3) - y:unsqueeze(2)):square():sum(4):sqrt():totable()
    local got = metrics.wasserstein(x, y)
    for k = 1, b do
      local function least(i, used)
        if i > n then return 0 end
        local best = math.huge
        for j = 1, n do
          if not used[j] then
            used[j] = true
            best = math.min(best, d[k][i][j] + least(i + 1, used))
            used[j] = nil
          end
        end
        return best
      end
      close(got[k], least(1, {}) / n, 1e-12)
    end
  end)

  it("have gradients in the points", function()
    local x, y = pn.param(pn.randn { 5, 2 }), pn.param(pn.randn { 7, 2 })
    assert.is_true(pn.check_gradients(function() return (metrics.wasserstein(x, y)) end, { x, y }).error < 1e-6)
    -- at distance 0 the slope is 0, not NaN
    local z = pn.param(pn.zeros { 2, 2 })
    assert.same({ { 0, 0 }, { 0, 0 } }, pn.grad((metrics.wasserstein(z, pn.zeros { 2, 2 })), { z })[1]:totable())
  end)

  it("of images agree with linear programs, and are the shift of a pixel", function()
    for _, c in ipairs(golden.image_transport) do
      close(metrics.image_wasserstein(pn.tensor(c.a), pn.tensor(c.b)), c.value, 1e-11)
    end
    local function dot(i, j)
      local t = {}
      for r = 1, 7 do
        t[r] = {}
        for k = 1, 9 do t[r][k] = r == i and k == j and 3 or 0 end
      end
      return pn.tensor(t)
    end
    for d = 0, 4 do
      close(metrics.image_wasserstein(dot(2, 3), dot(2, 3 + d)), d)
      close(metrics.image_wasserstein(dot(1, 2), dot(1 + d, 2 + d)), d * 2 ^ 0.5, 1e-15)
    end
    -- a picture shifted as a whole costs its shift; the scale of its values does not count
    local picture = pn.rand { 6, 6 }
    close(metrics.image_wasserstein(picture:pad(2, 0, 2), picture:pad(2, 2, 0) * 4), 2, 1e-12)
    -- a stack is its pictures one by one
    local a, b = pn.rand { 2, 20, 5, 4 }:gt(0.5):to "float64", pn.rand { 2, 20, 5, 4 }:gt(0.5):to "float64"
    local all = metrics.image_wasserstein(a, b)
    assert.same({ 2, 20 }, all:shape())
    for i = 1, 20 do close(all[{ 2, i }], metrics.image_wasserstein(a[{ 2, i }], b[{ 2, i }]):item(), 0) end
    -- and what images have in common may stay: points with all weights give the same
    local place = pn.tensor { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }
    local u, v = pn.tensor { 1, 2, 0, 4 }, pn.tensor { 3, 1, 1, 1 }
    close(metrics.image_wasserstein(u:reshape { 2, 2 }, v:reshape { 2, 2 }),
      metrics.wasserstein(place, place, { weights = u, other_weights = v }):item(), 1e-14)
  end)

  it("are undefined for an empty image", function()
    local none, some = pn.zeros { 3, 3 }, pn.ones { 3, 3 }
    local d = metrics.image_wasserstein(pn.stack { none, some }, pn.stack { some, some })
    assert.is_true(d[1]:item() ~= d[1]:item())
    assert.equal(0, d[2]:item())
    assert.equal(5, metrics.image_wasserstein(none, some, { empty = 5 }):item())
  end)

  it("are not a number where a pixel is no mass, alone in its batch", function()
    local some = pn.ones { 2, 2 }
    for _, bad in ipairs { math.huge, -1, 0 / 0 } do
      local wrong = pn.tensor { { 1, 2 }, { 3, bad } }
      local d = metrics.image_wasserstein(pn.stack { some, wrong, some }, pn.stack { some, some, wrong }):totable()
      assert.equal(0, d[1])
      assert.is_true(d[2] ~= d[2] and d[3] ~= d[3])
    end
  end)

  it("beside the share of equal pixels", function()
    local a, b = pn.tensor { { 0, 1, 0 }, { 1, 1, 0 } }, pn.tensor { { 0, 1, 1 }, { 1, 0, 0 } }
    assert.equal(4 / 6, metrics.pixel_accuracy(a, b):item())
    assert.same({ 1, 4 / 6, 0 }, metrics.pixel_accuracy(pn.stack { a, a, a }, pn.stack { a, b, 1 - a }):totable())
  end)

  it("is exact for a few hundred points with masses of any size", function()
    -- shifting a set of points by less than half of their distances: each goes to its own image
    local n = 300
    local x = pn.stack({ pn.arange(n) % 20, (pn.arange(n) / 20):floor() }, 2)
    local weights = (pn.randn { n } * 4):exp()
    local shift = pn.tensor { 0.3, -0.2 }
    close(metrics.wasserstein(x, x + shift, { weights = weights, other_weights = weights }), 0.13 ^ 0.5, 1e-12)
    -- and where nearly all choices tie: a lattice in another order, moved by whole steps; few different costs
    local y = x:take(1, pn.randperm(n))
    close(metrics.wasserstein(x, y), 0)
    close(metrics.wasserstein(x, y + pn.tensor { 3, 4 }), 5, 1e-11)
    close(metrics.wasserstein(x, y, { cost = pn.ones { n, n } }), 1, 1e-12)
    close(metrics.wasserstein(x, y, { cost = pn.zeros { n, n } }), 0)
  end)

  it("refuse what does not fit, at the line", function()
    local x = pn.zeros { 3, 2 }
    local cases = {
      ["x and y must be [N, D]"] = function() metrics.wasserstein(x, pn.zeros { 3, 1 }) end,
      ["of at least one point, got [3, 2] and [0, 2]"] = function() metrics.wasserstein(x, pn.zeros { 0, 2 }) end,
      ["weights must have shape [1, 3]"] = function() metrics.wasserstein(x, x, { weights = pn.ones { 2 } }) end,
      ["weights must be numbers from 0 on"] = function()
        metrics.wasserstein(x, x, { weights = pn.tensor { -1, 2, 1 } })
      end,
      ["a sum above 0 and costs finite: item 1 is not"] = function()
        metrics.wasserstein(x, x, { weights = pn.tensor { 1, math.huge, 1 } })
      end,
      ["cost must have a number for each"] = function() metrics.wasserstein(x, x, { cost = pn.ones { 2, 3 } }) end,
      ["a and b must have one shape"] = function() metrics.image_wasserstein(x, pn.zeros { 2, 3 }) end,
      ["images must be [..., rows, columns]"] = function() metrics.image_wasserstein(pn.ones { 2 }, pn.ones { 2 }) end,
      ["pixel_accuracy: images must be"] = function() metrics.pixel_accuracy(pn.ones { 2 }, pn.ones { 2 }) end,
      ["x and y must be [..., N]"] = function() metrics.wasserstein_1d(x, pn.zeros { 2, 2 }) end,
      ["levels must lie between 0 and 1"] = function() metrics.quantiles(x, { 1 }) end,
      ["quantiles must have shape [1, 3, 2]"] = function() metrics.quantile_loss(x, x, { 0.5 }) end,
      ["level must lie between 0 and 1, got 95"] = function() metrics.interval_score(x, x, x, 95) end,
      ["history must be longer than a season"] = function()
        metrics.mean_scaled_interval_score(x, x, x, pn.ones { 3 }, { season = 3 })
      end,
      ["draws must be at least 2 draws"] = function() metrics.normalised_crps(x, x:unsqueeze(1)) end,
    }
    for pattern, f in pairs(cases) do
      local ok, message = pcall(f)
      assert.is_false(ok, pattern)
      assert.matches("score_spec.lua:%d+:", message)
      assert.matches(pattern, message, 1, true)
    end
    assert.is_function(core.new_transport)
  end)
end)
