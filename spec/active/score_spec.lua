-- Acquisition scores: entropies read three ways, BALD by draws and by formulas, BatchBALD by enumeration, core sets.
local pn = require "penumbra"
local near = require("spec.helper").within
local active = pn.active
local golden = dofile "spec/golden/active/scores.lua"

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return (message:gsub("^[^:]+:%d+: ", ""))
end

local function long(list) return pn.tensor(list, { dtype = "int64" }) end

-- Probabilities [K, N, C] that have nothing to do with each other.
local function some_draws(K, N, C, dtype, seed)
  local g = pn.generator(seed or 5)
  return (pn.randn({ K, N, C }, { generator = g, dtype = dtype }) * 2):softmax(-1)
end

describe("the entropy of probits", function()
  local m, v = pn.tensor { 1.2, -.7, .1 }, pn.tensor { .5, 1.5, .2 }

  it("is read in three ways, to the values of the specification", function()
    local p = active.probit_probabilities(m, v)
    for k, want in ipairs { .836406561105, .328984545032, .536367763237 } do near(want, p[k]:item(), 1e-12, "p") end
    near(1.76953765712, active.entropy(p, { kind = "binary" }):item(), 1e-11, "binary")
    near(.849285193564, active.entropy(p, { kind = "raw" }):item(), 1e-12, "raw")
    near(1.03072552561, active.entropy(p):item(), 1e-11, "renormalised")
  end)

  it("is Phi(m / sqrt(1 + v)): R4's two values", function()
    near(0.650006241717, active.probit_probabilities(pn.tensor { .7 }, pn.tensor { 2.3 }):item(), 1e-12)
    near(0.102446946908, active.probit_probabilities(pn.tensor { -1.5 }, pn.tensor { .4 }):item(), 1e-12)
  end)

  it("is largest at one half and 0 where all is certain", function()
    near(3 * math.log(2), active.entropy(pn.full({ 3 }, .5), { kind = "binary" }):item(), 1e-15)
    for _, kind in ipairs { "binary", "raw", "renormalised" } do
      assert.equal(0, active.entropy(pn.tensor { 0, 1, 0 }, { kind = kind }):item())
    end
  end)
end)

describe("margin and variation ratio", function()
  it("are what they say, by hand", function()
    local p = pn.tensor { { .5, .3, .2 }, { .1, .1, .8 } }
    local margin = active.margin(p):totable()
    near(-.2, margin[1], 1e-15) near(-.7, margin[2], 1e-15)
    near(-.4, active.margin(pn.tensor { { .3, .7 } }):item(), 1e-15)
    local ratio = active.variation_ratio(p):totable()
    near(.5, ratio[1], 1e-15) near(.2, ratio[2], 1e-15)
    local votes = pn.tensor { { { .6, .4 } }, { { .9, .1 } }, { { .2, .8 } } } -- two of three for class 0
    near(1 / 3, active.variation_ratio(votes):item(), 1e-15)
    near(.4, active.variation_ratio(pn.tensor { { 1.2 / 2, .8 / 2 } }):item(), 1e-15) -- one-vs-all: renormalised
  end)

  it("of top are the first of equals, and NaN is refused", function()
    assert.same({ 3, 0, 1 }, active.top(pn.tensor { 2, 2, 1, 5 }, 3):totable())
    assert.same({ 0 }, active.top(pn.tensor { 2 }, 3):totable())
    assert.matches("^top: scores must be numbers, got NaN", message_of(active.top, pn.tensor { 1, 0 / 0 }, 1))
  end)
end)

describe("bald", function()
  it("of draws is the golden value of four variables, and 0 where draws agree", function()
    local t = pn.linspace(0, 1, 20):reshape { 20, 1, 1 }
    local p1 = pn.eye(4) * .6 + .1
    local p2 = pn.tensor { { .3, .3, .2, .2 }, { .2, .3, .3, .2 }, { .2, .2, .3, .3 }, { .3, .2, .2, .3 } }
    local draws = p1 * (1 - t) + p2 * t
    for k = 1, 4 do
      near(0.0307156396662344, active.bald(draws)[k]:item(), 1e-15)
      near(1.237597168232557, active.entropy(draws:mean(1))[k]:item(), 1e-14)
    end
    assert.same({ 0, 0, 0, 0 }, active.bald(p1:unsqueeze(1):tile { 6, 1, 1 }):gt(1e-15):to("int64"):totable())
  end)

  it("is never negative, and adds up yes or no of each class", function()
    local draws = some_draws(9, 200, 4)
    assert.truthy(active.bald(draws):min():item() >= 0)
    local by_hand = 0
    for c = 1, 4 do
      local p = draws:select(3, c)
      by_hand = by_hand + active.bald(pn.stack({ p, 1 - p }, 3))
    end
    assert.truthy((active.bald(draws, { kind = "binary" }) - by_hand):abs():max():item() < 1e-14)
  end)

  for _, case in ipairs(golden.probit) do
    it(("of one probit N(%g, %g) is that of quadrature"):format(case[1], case[2]), function()
      local m, v = pn.tensor { case[1] }, pn.tensor { case[2] }
      near(case[3], active.bald_moments(m, v):item(), 1e-10, "quadrature")
      near(case[3], active.bald_moments(m, v, { method = "closed" }):item(), 0.02, "closed") -- Houlsby's error
      local got = active.bald_moments(m, v, { method = "draws", draws = 200000, generator = pn.generator(2) }):item()
      near(case[3], got, 6 * 0.3 / math.sqrt(200000), "draws") -- entropies of one class lie in [0, log 2]
    end)
  end

  it("of probits is 0 without variance, and the closed form is nearly", function()
    local m = pn.linspace(-3, 3, 31):unsqueeze(2)
    assert.truthy(active.bald_moments(m, m * 0):max():item() < 1e-12)
    assert.truthy(active.bald_moments(m, m * 0, { method = "closed" }):max():item() < 0.02)
    assert.truthy(active.bald_moments(m, m * 0 + 2):min():item() > 0)
  end)

  it("of softmax: to second order in closed form, and by draws", function()
    for k, case in ipairs(golden.softmax) do
      local m, v = pn.tensor(case[1]), pn.tensor(case[2])
      if k < 3 then
        near(1, active.bald_moments(m, v, { link = "softmax", method = "closed" }):item() / case[3], 2e-3)
      end
      local got = active.bald_moments(m, v, { link = "softmax", draws = 200000, generator = pn.generator(3) }):item()
      near(case[3], got, 6 * 0.3 / math.sqrt(200000))
    end
    local m = pn.tensor { .4, -1, 2 }
    assert.equal(0, active.bald_moments(m, m * 0, { link = "softmax", method = "closed" }):item())
    near(0, active.bald_moments(m, m * 0, { link = "softmax", draws = 10 }):item(), 1e-14)
  end)

  it("has the same values in float32", function()
    local draws = some_draws(9, 50, 4)
    assert.truthy((active.bald(draws:to "float32"):to "float64" - active.bald(draws)):abs():max():item() < 1e-5)
  end)
end)

describe("batch_bald", function()
  local t = pn.linspace(0, 1, 20):reshape { 20, 1, 1 }
  local p2 = pn.tensor { { .3, .3, .2, .2 }, { .2, .3, .3, .2 }, { .2, .2, .3, .3 }, { .3, .2, .2, .3 } }
  local four = (pn.eye(4) * .6 + .1) * (1 - t) + p2 * t

  it("has the golden values of one to four of four variables", function()
    local batch = active.batch_bald(four, 4)
    local want = { 0.0307156396662344, 0.059619586271583, 0.0869107051474467, 0.1127530453246779 }
    for k = 1, 4 do near(want[k], batch.steps[k].value, 1e-14, "step " .. k) end
    assert.equal(0, batch.se)
    local joint = active.joint_entropy(four)
    near(4.940279159589967, joint.value, 1e-14) -- 32 ulp
    assert.truthy(joint.exact)
    near(0.059619586271583, active.joint_entropy(four:take(2, long { 0, 2 })).value - 2 * 1.2068815285663226, 1e-14)
  end)

  local draws = pn.tensor(golden.batch.draws)

  -- Of a datum whose label is sure and another one nothing is left to chance: the entropy of the mean law of the other.
  it("is off by 1e-6 at most where outcomes are drawn, beside their standard error", function()
    for seed = 1, 5 do
      local sure = pn.zeros { 100, 1, 10 }
      local other = (pn.randn({ 100, 1, 10 }, { generator = pn.generator(seed) }) * 3):softmax(3)
      local p = pn.concatenate({ sure + pn.arange(10):eq(3):to "float64", other }, 2)
      local mean = other:mean { 1, 2 }
      local wanted = -(mean * mean:log()):sum():item()
      local r = active.joint_entropy(p, { outcomes = 1, draws = 500, generator = pn.generator(seed) })
      assert.is_false(r.exact)
      near(wanted, r.value, 1e-6)
      assert.is_true(r.se < 1e-8)
    end
  end)

  it("chooses what enumeration chooses, with probabilities 0 and 1 in it", function()
    local batch = active.batch_bald(draws, 4)
    assert.same(golden.batch.chosen, batch.places:totable())
    for k, value in ipairs(golden.batch.values) do near(value, batch.steps[k].value, 1e-13, "step " .. k) end
    near(golden.batch.joint, active.joint_entropy(draws).value, 1e-13)
    local small = active.batch_bald(draws:to "float32", 4)
    assert.same(golden.batch.chosen, small.places:totable())
    near(golden.batch.values[4], small.value, 2e-6)
  end)

  it("of drawn outcomes is within its standard error, which is that of repetition", function()
    local values, ses = {}, {}
    for k = 1, 40 do
      local r = active.joint_entropy(draws, { outcomes = 1, draws = 1000, generator = pn.generator(k) })
      assert.is_false(r.exact)
      values[k], ses[k] = r.value, r.se
    end
    local v, se = pn.tensor(values), pn.tensor(ses):mean():item()
    near(golden.batch.joint, v:mean():item(), 6 * se / math.sqrt(40))
    assert.truthy(se < 0.05, se) -- narrow enough to mean something
    local ratio = v:std():item() / se -- spread evenly over draws of the weights: less
    assert.truthy(ratio > 0.4 and ratio < 1.5, ratio)
    local batch = active.batch_bald(draws, 4, { outcomes = 9, draws = 20000, generator = pn.generator(1) })
    assert.truthy(batch.steps[2].exact and not batch.steps[3].exact)
    near(golden.batch.values[4], batch.value, 6 * batch.se)
    assert.truthy(batch.se > 0 and batch.se < 0.02)
  end)

  it("is the same by parts of the outcomes as in one", function()
    -- forty candidates at once need many parts; the last of a batch alone needs one
    local p = some_draws(7, 40, 10)
    for _, outcomes in ipairs { 10000, 9 } do
      local function options() return { outcomes = outcomes, draws = 2000, generator = pn.generator(3) } end
      local batch = active.batch_bald(p, 4, options())
      local chosen = p:take(2, batch.places)
      local joint = active.joint_entropy(chosen, options())
      assert.equal(outcomes == 10000, joint.exact)
      near(joint.value + chosen:xlogy(chosen):sum(3):mean(1):sum():item(), batch.value, 1e-11, "value")
      near(joint.se, batch.se, 1e-12, "se")
    end
  end)

  it("goes on where the product of probabilities underflows", function()
    local many = some_draws(5, 600, 3, "float32")
    local joint = active.joint_entropy(many, { draws = 50, generator = pn.generator(1) })
    assert.truthy(joint.value == joint.value and joint.value > 100)
  end)

  it("takes each once, at most all, and none twice where a datum stands twice", function()
    local twice = pn.concatenate({ draws, draws }, 2)
    local places = active.batch_bald(twice, 20, { outcomes = 500, draws = 300 }).places
    assert.equal(12, places:unique():numel())
    assert.equal(0, active.batch_bald(draws, 0).places:numel())
    -- the certain datum a second time tells nothing more
    local pair = active.batch_bald(pn.concatenate({ draws:slice(2, 5, 5), draws:slice(2, 5, 5) }, 2), 2)
    near(pair.steps[1].value, pair.value, 1e-14)
  end)

  it("refuses by name", function()
    assert.matches("^batch_bald: draws must be probabilities that sum to 1 over the classes, got a least of",
      message_of(active.batch_bald, draws * 2, 2))
    assert.matches("^joint_entropy: draws must be probabilities %[draws, N, classes%], got float64 %[2%]",
      message_of(active.joint_entropy, pn.zeros { 2 }))
    assert.matches("^bald: draws must lie between 0 and 1", message_of(active.bald, draws * 2))
    for _, case in ipairs { { pn.zeros {}, pn.zeros {} }, { pn.zeros { 2, 3 }, pn.zeros { 3 } },
      { pn.zeros { 2 }, pn.zeros { 3 } } } do
      assert.matches("^bald_moments: mean and variance must have one shape %[..., classes%], got %[",
        message_of(active.bald_moments, case[1], case[2]))
    end
    assert.matches("^bald_moments: variance must not be negative",
      message_of(active.bald_moments, pn.zeros { 2 }, pn.tensor { 1, -1 }))
    assert.matches('^bald_moments: method must be "draws" or "closed" with link "softmax", got "quadrature"',
      message_of(active.bald_moments, pn.zeros { 2 }, pn.zeros { 2 }, { link = "softmax", method = "quadrature" }))
    assert.matches("did you mean 'renormalised'", message_of(active.entropy, pn.ones { 2 }, { kind = "renormalized" }))
  end)
end)

describe("core_set", function()
  local x = pn.tensor { { 0 }, { 1 }, { 2 }, { 10 }, { 5 } }

  it("is the greedy cover, by hand, from what has labels on", function()
    assert.same({ 3, 4, 2 }, active.core_set(x, 3, { labelled = pn.tensor { { .1 } } }):totable())
    assert.same({ 3, 0, 4 }, active.core_set(x, 3):totable()) -- the mean is 3.6
    assert.same({ 0, 1 }, pn.sort(active.core_set(pn.zeros { 2, 3 }, 5), 1):totable()) -- equal rows, each once
  end)

  it("covers within twice the best, found by enumeration", function()
    local g = pn.generator(7)
    for _ = 1, 5 do
      local y = pn.randn({ 9, 2 }, { generator = g })
      local d = (y:unsqueeze(1) - y:unsqueeze(2)):square():sum(3):sqrt()
      local function cover(places) return d:take(1, places):min(1):max():item() end
      local best = math.huge
      for i = 0, 8 do
        for j = i + 1, 8 do
          for k = j + 1, 8 do best = math.min(best, cover(long { i, j, k })) end
        end
      end
      local got = cover(active.core_set(y, 3))
      assert.truthy(got <= 2 * best + 1e-12 and got >= best)
    end
  end)

  it("refuses features that do not fit", function()
    assert.matches("^core_set: labelled must be float64 features, 1 a row, as x is, got float64, 2",
      message_of(active.core_set, x, 1, { labelled = pn.ones { 3, 2 } }))
    assert.matches("^core_set: x must be finite", message_of(active.core_set, x / 0, 1))
  end)
end)

-- Each row's choice beside that of the scores themselves, by a model whose answers are known.
describe("acquisitions", function()
  local acquisition = require "penumbra.active.acquisition"
  local x = pn.arange(14):reshape { 7, 2 } / 3
  local g = pn.generator
  local p = (pn.randn({ 7, 3 }, { generator = g(4) }) * 2):softmax(-1)
  local probits = pn.rand({ 7, 3 }, { generator = g(5) })
  local m, v = pn.randn({ 7, 3 }, { generator = g(6) }), pn.rand({ 7, 3 }, { generator = g(7) }) + 0.1
  local asked -- how many draws of the weights

  local function situation(of)
    local s = { x = x, n = 3, generator = g(2), model = { link = "softmax", has = {},
      predict = function(_, given, generator)
        assert.truthy(given == x and generator ~= nil)
        return p
      end,
      features = function(_, given) return given * pn.tensor { 1, -4 } end,
      weight_draws = function(_, given, draws, generator)
        asked = draws
        assert.equal(x, given)
        return pn.rand({ draws, 7, 3 }, { generator = generator })
      end } }
    for name, value in pairs(of or {}) do
      if name == "labelled" or name == "n" then s[name] = value else s.model[name] = value end
    end
    return s
  end

  local function chooses(want, name, o, of)
    local row = acquisition.rows[name]
    assert.same(want:totable(), row.choose(situation(of), o or {}):totable(), name)
  end

  it("take the best of their scores", function()
    chooses(active.top(active.entropy(p), 3), "entropy")
    local function predict() return probits end
    for kind, link in pairs { renormalised = "softmax", binary = "probit" } do
      chooses(active.top(active.entropy(probits, { kind = kind }), 3), "entropy", {}, { predict = predict,
        link = link })
    end
    chooses(active.top(active.entropy(probits, { kind = "raw" }), 3), "entropy", { kind = "raw" },
      { predict = predict, link = "probit" })
    chooses(active.top(active.margin(p), 3), "margin")
    chooses(active.top(active.variation_ratio(p), 3), "variation_ratio")
    chooses(active.top(active.variation_ratio(pn.rand({ 9, 7, 3 }, { generator = g(2) })), 3), "variation_ratio",
      { draws = 9 })
    assert.equal(9, asked)
    chooses(active.core_set(x * pn.tensor { 1, -4 }, 3), "core_set")
    chooses(active.core_set(x * pn.tensor { 1, -4 }, 3, { labelled = pn.tensor { { 0, 5 } } * pn.tensor { 1, -4 } }),
      "core_set", {}, { labelled = pn.tensor { { 0, 5 } } })
  end)

  it("by bald read moments where there are some, by the method that is asked for, else draws", function()
    local of = { has = { moments = true }, moments = function() return m, v end }
    local function by(o)
      o.generator = g(2)
      return active.top(active.bald_moments(m, v, o), 3)
    end
    chooses(by { link = "softmax", draws = 4 }, "bald", { draws = 4 }, of)
    chooses(by { link = "softmax", draws = 100 }, "bald", { draws = 100 }, of)
    assert.not_same(by({ link = "softmax", draws = 4 }):totable(), by({ link = "softmax", draws = 100 }):totable())
    chooses(by { link = "softmax", method = "closed" }, "bald", { method = "closed" }, of)
    of.link = "probit"
    chooses(by {}, "bald", {}, of)
    for kind, link in pairs { renormalised = "softmax", binary = "probit", raw = "raw" } do
      local draws = pn.rand({ 6, 7, 3 }, { generator = g(2) })
      of.link = link == "raw" and "softmax" or link
      local o = { draws = 6, method = "weights", kind = link == "raw" and "raw" or nil }
      chooses(active.top(active.bald(draws, { kind = kind }), 3), "bald", o, of)
      chooses(active.top(active.bald(draws, { kind = kind }), 3), "bald", { draws = 6, kind = o.kind },
        { link = of.link })
    end
    local generator = g(2)
    local draws = pn.rand({ 6, 7, 3 }, { generator = generator })
    draws = draws / draws:sum(-1, true)
    chooses(active.batch_bald(draws, 3, { outcomes = 9, generator = generator }).places, "batch_bald",
      { draws = 6, outcomes = 9 })
  end)

  it("draw at random among all, or among the thinned ranking", function()
    chooses(pn.randperm(7, { generator = g(2) }):slice(1, 1, 3), "random")
    chooses(pn.randperm(7, { generator = g(2) }), "random", {}, { n = 9 })
    for _, case in ipairs { { 5, 2, 50, { 0, 2, 4 } }, { 6, 2, 50, { 0, 2, 4 } }, { 7, 2, 2, { 0, 2 } },
      { 1, 20, 50, { 0 } }, { 41, 20, 3, { 0, 20, 40 } }, { 40, 20, 3, { 0, 20 } } } do
      local places = acquisition.thinned_places(case[1], case[2], case[3])
      assert.same({ case[4], "int64" }, { places:totable(), places:dtype() })
    end
    local ranked = active.top(active.entropy(p), 7)
    local few = ranked:take(1, long { 0, 2, 4 })
    for n = 1, 3 do
      chooses(few:take(1, pn.randperm(3, { generator = g(2) }):slice(1, 1, n)), "thinned", { every = 2, points = 3 },
        { n = n })
    end
    chooses(ranked:slice(1, 1, 4), "thinned", { every = 2, points = 3 }, { n = 4 }) -- too few of the thinned
    chooses(ranked, "thinned", { every = 20, points = 50 }, { n = 9 })
  end)
end)

-- A score of a datum does not hang on how its law is scaled, on the others, or on what else is asked.
describe("scores", function()
  it("take laws of any scale and shape, and refuse what is none", function()
    local p = pn.tensor { { .2, .1, .1 }, { .05, .3, .05 } }
    for _, name in ipairs { "entropy", "margin", "variation_ratio" } do
      assert.is_true((active[name](p) - active[name](p * 2)):abs():max():item() < 1e-15, name)
      assert.is_true((active[name](p:slice(1, 2, 2)) - active[name](p):slice(1, 2, 2)):abs():max():item() < 1e-15)
    end
    assert.same({ 2, 1 }, active.entropy(pn.full({ 2, 1, 4 }, 0.25)):shape())
    assert.same({ 0, 0 }, active.margin(pn.tensor { { 0.7 }, { 0.2 } }):totable())
    assert.same({ 0 }, active.entropy(pn.zeros { 0, 3 }):shape())
    for _, case in ipairs { { "entropy", pn.zeros { 2, 0 } }, { "entropy", pn.zeros {} }, { "entropy", long { 1, 0 } },
      { "entropy", pn.tensor { -0.1, 1 } }, { "entropy", pn.tensor { 1.1, 0 } }, { "variation_ratio", pn.ones { 3 } },
      { "variation_ratio", pn.ones { 1, 1, 1, 3 } }, { "bald", pn.ones { 2, 3 } / 3 },
      { "bald", pn.ones { 0, 2, 3 } } } do
      assert.matches("^" .. case[1] .. ": %S+ must ", message_of(active[case[1]], case[2]))
    end
    active.entropy(pn.tensor { 1 + 1e-6, 0 }) -- beside the rounding of a sum
    assert.matches("top: scores must be %[N%], got %[1, 2%]", message_of(active.top, pn.ones { 1, 2 }, 1))
    assert.same({ {}, "int64" }, { active.top(pn.ones { 3 }, 0):totable(), active.top(pn.ones { 3 }, 0):dtype() })
    assert.same({}, active.top(pn.zeros { 0 }, 3):totable())
    assert.matches("top: scores must be numbers, got NaN", message_of(active.top, pn.tensor { 0 / 0 }, 1))
    -- nodes enough: the rule's error has vanished, and eight are the least
    local m, v = pn.tensor { 0.3 }, pn.tensor { 1.7 }
    near(active.bald_moments(m, v):item(), active.bald_moments(m, v, { points = 64 }):item(), 1e-10, "points")
    assert.truthy(active.bald_moments(m, v, { points = 8 }):item() >= 0)
    assert.matches("points must be a whole number from 8 on", message_of(active.bald_moments, m, v, { points = 7 }))
  end)

  it("in closed form are Houlsby's formula beside the entropy of the mean", function()
    local c = math.pi * math.log(2) / 2
    local function binary(p) return -p * math.log(p) - (1 - p) * math.log(1 - p) end
    for _, case in ipairs { { 0.4, 1.3 }, { -0.8, 0.2 } } do
      local m, v = case[1], case[2]
      local p = pn.tensor(m / math.sqrt(1 + v)):ndtr():item()
      near(binary(p) - math.exp(-m * m / (2 * (v + c))) * math.sqrt(c / (v + c)) * math.log(2),
        active.bald_moments(pn.tensor { m }, pn.tensor { v }, { method = "closed" }):item(), 1e-14)
    end
    local m, v = pn.tensor { { 0.4, -1, 0.2 } }, pn.tensor { { 1.3, 0.2, 2 } } -- 100 draws, unless it is said
    local function drawn(n) return active.bald_moments(m, v, { link = "softmax", draws = n,
      generator = pn.generator(1) }) end
    assert.equal(drawn(100):item(), drawn(nil):item())
  end)

  it("by drawn outputs are those of the same draws by hand", function()
    local m, v = pn.randn({ 4, 3 }, { generator = pn.generator(1) }), pn.rand({ 4, 3 }, { generator = pn.generator(2) })
    local f = m + v:sqrt() * pn.randn({ 5, 4, 3 }, { generator = pn.generator(3) })
    local function got(link)
      return active.bald_moments(m, v, { link = link, method = "draws", draws = 5, generator = pn.generator(3) })
    end
    local p, q = f:ndtr(), f:softmax(-1)
    local want = active.entropy(active.probit_probabilities(m, v), { kind = "binary" })
      - active.entropy(p, { kind = "binary" }):mean(1)
    assert.is_true((got "probit" - want:relu()):abs():max():item() < 1e-14)
    assert.is_true((got "softmax" - active.bald(q)):abs():max():item() < 1e-14)
  end)
end)
