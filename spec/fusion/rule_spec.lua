-- Which sources the fusion rule believes: thresholds against the exact law of order statistics, healthy and failing
-- linear Gaussian sensors, sets that are equally large.
local pn = require "penumbra"
local refuses = require("spec.helper").refuses
local dist, fusion = pn.dist, pn.fusion

local function standard(n) return dist.normal(pn.zeros { n }, 1):independent(1) end

local LATENT <const> = 16

-- Beliefs of n data of sensors x = z + noise of these variances; sensor `mad` sees, in z's place, a draw of its own
-- from the same law: its values alone look as they always do.
local function beliefs_of(n, variances, g, mad)
  local z, beliefs = pn.randn({ n, LATENT }, { generator = g }), {}
  for k, v in ipairs(variances) do
    local seen = k == mad and pn.randn({ n, LATENT }, { generator = g }) or z
    local x = seen + pn.randn({ n, LATENT }, { generator = g }) * v ^ 0.5
    local precision = 1 + 1 / v
    beliefs["s" .. k] = dist.normal(x / (v * precision), precision ^ -0.5):independent(1)
  end
  return beliefs, z
end

describe("the threshold of conflicts", function()
  -- Matrices whose larger off-diagonal number is u in both directions: the mutual conflict is u, uniform on [0, 1].
  local function uniform(n, g)
    local u = pn.rand({ n }, { generator = g })
    local zero = pn.zeros { n }
    return pn.stack({ pn.stack({ zero, u }, -1), pn.stack({ u, zero }, -1) }, -2), u
  end

  it("is passed by a new healthy datum with the stated probability at most, and nearly so", function()
    local sum, over, runs = 0, 0, 1500
    for run = 1, runs do
      local g = pn.generator(run)
      sum = sum + 1 - fusion.conflict_threshold(uniform(199, g), { rate = 0.05 })
      local sure = fusion.conflict_threshold(uniform(199, g), { rate = 0.05, confidence = 0.9 })
      over = over + (1 - sure > 0.05 and 1 or 0)
    end
    -- nine of 199 lie above it: the rate has the law Beta(10, 190), of mean 0.05
    local sd = math.sqrt(0.05 * 0.95 / 201)
    assert(math.abs(sum / runs - 0.05) < 6 * sd / math.sqrt(runs))
    -- with confidence 0.9: P(Binomial(199, 0.05) <= k) <= 0.1, k = 5 (0.0655; 6 has 0.1297)
    local want = dist.binomial { total_count = 199, probs = 0.05 }:cdf(5):item()
    assert(want <= 0.1 and math.abs(over / runs - want) < 6 * math.sqrt(want * (1 - want) / runs))
  end)

  it("takes the lesser of both directions, and asks for enough healthy data", function()
    local c = pn.tensor { { { 0, 9 }, { 0.5, 0 } }, { { 0, 0.25 }, { 7, 0 } } }
    assert.equal(0.5, fusion.conflict_threshold(c, { rate = 0.4 }))
    refuses("conflict_threshold: 2 healthy data are too few for a false-alarm rate of 0.01",
      fusion.conflict_threshold, c)
    refuses("with confidence 0.95", fusion.conflict_threshold, c, { rate = 0.3, confidence = 0.95 })
    refuses("conflicts must be matrices of healthy data, [N, M, M] with M at least 2, got [2, 2]",
      fusion.conflict_threshold, c[1])
    refuses("rate and confidence must lie between 0 and 1", fusion.conflict_threshold, c, { rate = 1 })
    for _, o in ipairs { { rate = 0.0 }, { rate = 0.1, confidence = 0.0 }, { rate = 0.1, confidence = 1.0 } } do
      refuses("rate and confidence must lie between 0 and 1", fusion.conflict_threshold, c, o)
    end
    for _, wrong in ipairs { pn.ones { 4, 1, 1 }, pn.ones { 4, 2, 3 } } do
      refuses("conflicts must be matrices of healthy data", fusion.conflict_threshold, wrong)
    end
    -- so many values lie above it: of n and a new one the share, or by the binomial law, summed term by term
    local function above(n, o)
      local u = pn.arange(n) + 1
      local zero = pn.zeros { n }
      return n - fusion.conflict_threshold(pn.stack({ pn.stack({ zero, u }, -1), pn.stack({ u, zero }, -1) }, -2), o)
    end
    for n, want in pairs { [3] = 0, [4] = 0, [6] = 0, [7] = 1, [10] = 1, [11] = 2, [40] = 9 } do
      assert.equal(want, above(n, { rate = 0.25 }), n)
    end
    for _, case in ipairs { { 60, 0.1, 0.9 }, { 60, 0.1, 0.5 }, { 35, 0.25, 0.99 }, { 29, 0.1, 0.95 } } do
      local n, rate, confidence = table.unpack(case)
      local term, sum, most = (1 - rate) ^ n, 0, -1
      for k = 0, n do
        sum = sum + term
        most = sum <= 1 - confidence and k or most
        term = term * (n - k) / (k + 1) * rate / (1 - rate)
      end
      assert.is_true(most >= 0)
      assert.equal(most, above(n, { rate = rate, confidence = confidence }))
    end
    refuses("28 healthy data are too few", above, 28, { rate = 0.1, confidence = 0.95 }) -- 0.9^28 > 0.05
    local law = dist.normal(pn.zeros { 3 }, 1):independent(1)
    refuses("resample: log_joint must give a density for each draw, [4], got [4, 3]", fusion.resample, law,
      function(z) return z end, { draws = 4 })
    refuses("conflicts of healthy data must be finite", fusion.conflict_threshold, c * math.huge, { rate = 0.4 })
  end)
end)

describe("the fusion rule", function()
  for sensors = 3, 5 do
    it(("drops at most 1 %% of %d healthy sensors' data and names one that shows noise in 95 %%"):format(sensors),
      function()
        local variances = table.move({ 0.1, 0.3, 0.15, 0.2, 0.25 }, 1, sensors, 1, {})
        local g, prior = pn.generator(sensors), standard(LATENT)
        local c = fusion.conflicts(beliefs_of(20000, variances, g), { prior = prior })
        local limit = fusion.conflict_threshold(c, { rate = 0.01, confidence = 0.999 })
        local n = 10000
        local healthy, z = beliefs_of(n, variances, g)
        local q, report = fusion.fuse(healthy, { prior = prior, conflict_threshold = limit })
        local dropped = report.left_out:any(-1):logical_or(report.undecided):to "float64":mean():item()
        assert(dropped <= 0.01 and dropped > 0.002, dropped)
        -- where nothing was left out it is the exact posterior
        local precision = 1
        for _, v in ipairs(variances) do precision = precision + 1 / v end
        local error = ((q:mean() - z):square():sum(-1) * precision):mean():item() / LATENT
        assert(math.abs(error - 1) < 0.05)
        for mad = 1, sensors do
          local _, told = fusion.fuse(beliefs_of(n, variances, g, mad), { prior = prior, conflict_threshold = limit })
          local out = told.left_out:to "float64"
          local named = (out:select(-1, mad) * out:sum(-1):eq(1):to "float64"):mean():item()
          assert(named >= 0.95, ("sensor %d: %g"):format(mad, named))
        end
      end)
  end

  it("names two sources in conflict and drops none, unless asked", function()
    local beliefs = { left = dist.normal({ 0.9 }, 0.2):independent(1),
      right = dist.normal({ -0.9 }, 0.3):independent(1) }
    local q, report = fusion.fuse(beliefs, { prior = standard(1) })
    assert.equal(q:mean():item(), fusion.product(beliefs, { prior = standard(1) }):mean():item())
    assert.is_true(report.undecided:item())
    assert.same({ false, false }, report.left_out:totable())
    assert.same({ true, true }, report.conflicting:totable())
    assert.equal("in conflict, and none can be told to be wrong: 'left', 'right'; believed: 'left', 'right'",
      report:said())
    local one, dropped = fusion.fuse(beliefs, { prior = standard(1), drop = true })
    assert(math.abs(one:mean():item() - 0.9) < 1e-12) -- the one that has learnt more
    assert.equal("undecided", dropped.undecided:item() and "undecided")
    assert.same({ false, true }, dropped.left_out:totable())
    local _, agreed = fusion.fuse(beliefs, { prior = standard(1), conflict_threshold = 1e6 })
    assert.equal("believed: 'left', 'right'", agreed:said(1))
  end)

  it("takes of two sets that are equally large the one that says more together", function()
    local function at(mean, scale) return dist.normal({ mean }, scale):independent(1) end
    -- a and b agree far from the prior, c and d near it and less certainly
    local beliefs = { a = at(2, 0.3), b = at(2.05, 0.3), c = at(-1, 0.5), d = at(-1, 0.5) }
    local q, report = fusion.fuse(beliefs, { prior = standard(1) })
    local function information(x, y)
      return fusion.pointwise_mutual_information({ beliefs[x], beliefs[y] }, { prior = standard(1) }):item()
    end
    assert(information("a", "b") > information("c", "d") + 0.5)
    assert.equal("left out: 'c', 'd'; believed: 'a', 'b'", report:said(1))
    assert(q:mean():item() > 1.9)
    -- the other pair, further out
    beliefs.c, beliefs.d = at(-4, 0.2), at(-4, 0.2)
    assert.equal("left out: 'a', 'b'; believed: 'c', 'd'",
      (select(2, fusion.fuse(beliefs, { prior = standard(1) }))):said(1))
  end)

  it("looks at each datum of a batch for itself, with sources that are not there", function()
    local function at(...) return dist.normal(pn.tensor({ ... }):unsqueeze(2), 0.3):independent(1) end
    local beliefs = { a = at(1, 1, 1), b = at(1, -1, 1), c = at(1, 1, -3) }
    local there = { a = pn.tensor { true, true, false }, c = pn.tensor { true, true, false },
      b = pn.tensor { true, true, false } }
    local q, report = fusion.fuse(beliefs, { prior = standard(1), observed = there })
    assert.equal("believed: 'a', 'b', 'c'", report:said(1))
    assert.equal("left out: 'b'; believed: 'a', 'c'", report:said(2))
    assert.equal("no source is there: the belief is the prior", report:said(3))
    assert.same({ 0, 1 }, { q:mean()[3]:item(), q:variance()[3]:item() })
    assert.equal("fusion of 3 data; share left out: 'a' 0, 'b' 0.3333, 'c' 0; undecided 0, without a source 1",
      tostring(report))
    assert.is_true((select(2, fusion.fuse({}, { prior = standard(1) }))).none:item())
  end)

  it("lets a belief that is the prior alone", function()
    local prior = standard(2)
    local sure = dist.normal({ 3, -3 }, 0.01):independent(1)
    assert.equal(0, fusion.conflict(sure, prior, prior):item())
    local _, report = fusion.fuse({ a = sure, blind = prior }, { prior = prior, conflict_threshold = 1e-3 })
    assert.equal("believed: 'a', 'blind'", report:said(1))
  end)

  it("tells of no source, and of a datum at a time", function()
    local _, none = fusion.fuse({}, { prior = standard(1) })
    assert.equal("fusion of 1 data; no sources; undecided 0, without a source 1", tostring(none))
    assert.equal("no source is there: the belief is the prior", none:said())
    local function at(...) return dist.normal(pn.tensor({ ... }):unsqueeze(2), 0.3):independent(1) end
    local _, report = fusion.fuse({ at(1, 1), at(1, -2), at(1, 1) }, { prior = standard(1) })
    assert.equal("believed: 1, 2, 3", report:said())
    assert.equal("left out: 2; believed: 1, 3", report:said(2))
    refuses("said: n must lie in 1 to 2, got 3", report.said, report, 3)
    refuses("said: n must be a whole number from 1 on, got 0", report.said, report, 0)
    assert.equal("fusion of 2 data; share left out: 1 0, 2 0.5, 3 0; undecided 0, without a source 0",
      tostring(report))
    assert.same({ 2, 3, 3 }, report.conflicts:shape())
    local q = dist.normal({ 0 }, 0.5):independent(1)
    local ten = {}
    for k = 1, 10 do ten[k] = q end
    assert.is_true(select(2, fusion.fuse(ten, { prior = standard(1) })).kept:all():item())
    refuses("fuse: conflict_threshold must be above 0, got -1", fusion.fuse, { q }, { prior = standard(1),
      conflict_threshold = -1 })
  end)

  it("refuses what it cannot do", function()
    local q = dist.normal({ 0 }, 0.5):independent(1)
    local many = {}
    for k = 1, 11 do many[k] = q end
    refuses("fuse: all subsets of at most 10 sources are gone through, got 11 sources", fusion.fuse, many,
      { prior = standard(1) })
    refuses("fuse: conflict_threshold must be above 0, got 0", fusion.fuse, { q }, { prior = standard(1),
      conflict_threshold = 0 })
    refuses("said: n must lie in 1 to 1, got 2", function()
      local _, report = fusion.fuse({ q }, { prior = standard(1) })
      report:said(2)
    end)
  end)
end)
