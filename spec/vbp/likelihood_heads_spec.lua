-- What stands on the outputs: bounds and predictions of Haussmann (2021), 3.1.7 and 4.2.1, against the document's
-- numbers, quadrature and draws; and the printed bound, whose sign is wrong.
local pn = require "penumbra"
local near = require("spec.helper").within
local clock = require("penumbra.core").clock
local heads = {}
for _, name in ipairs(pn.vbp.likelihood()) do heads[name] = pn.vbp.likelihood(name) end

-- The integral of f(x) N(x; m, v) by Simpson's rule.
local function expectation(f, m, v)
  local x = pn.linspace(-12, 12, 48001) * v ^ .5 + m
  local at = pn.arange(48001)
  local ends = at:eq(0):logical_or(at:eq(48000)):to "float64"
  local w = ((x - m):square() / (-2 * v)):exp() * ((at % 2) * 2 + 2 - ends)
  return ((w * f(x)):sum() / w:sum()):item()
end

local function told(o)
  o.where, o.dtype, o.draws = "test", "float64", { train = 1, predict = 100 }
  o.noise_precision = pn.tensor(o.noise_precision or 1.0)
  return o
end

describe("every likelihood of the outputs", function()
  -- Each datum has a weight of its own; draws are the same at both ends of a difference.
  it("has slopes of all objectives and predictions in mean, variance and precision, with a variance or none", function()
    local g = pn.generator(7)
    local m, spread, log_b = pn.param(pn.randn({ 3, 2 }, { generator = g })),
      pn.param(pn.randn({ 3, 2 }, { generator = g }) * 0.5), pn.param(pn.tensor(0.4))
    local labels, weights = pn.tensor({ 1, 0, 1 }, { dtype = "int64" }), pn.tensor { 1, -2, 0.5 }
    local targets = { normal = pn.tensor { { 0.3, -1 }, { 2, 0.5 }, { -0.7, 1 } }, probit = labels,
      categorical = labels }
    local function draw(mean, variance, count)
      return mean + variance:sqrt() * pn.randn({ count, 3, 2 }, { generator = pn.generator(9) })
    end
    for name, row in pairs(heads) do
      for objective, f in pairs(row.objectives) do
        for _, spread_too in ipairs { true, false } do
          local function options_now()
            local o = told { out = 2, objective = objective, draw = draw }
            o.draws.train, o.noise_precision = 4, log_b:exp()
            return o
          end
          local y = row.prepare(targets[name], options_now())
          assert(pn.check_gradients(function()
            local o, v = options_now(), spread_too and spread:exp() or nil
            local sum = (f(y, m, v, o) * weights):sum()
            if not v then return sum end
            for _, draws in ipairs { false, draw(m, v, 4) } do
              local p = row.predict(m, v, draws or nil, o)
              for _, part in ipairs { "mean", "variance", "spread", "probabilities" } do
                sum = sum + (p[part] and p[part]:sin():sum() or 0)
              end
              sum = sum + (row.log_predictive(y, m, v, draws or nil, o) * weights):sum()
            end
            return sum
          end, { m, spread, log_b }), name .. " " .. objective)
        end
      end
    end
  end)
end)

describe("probit", function()
  local probit = heads.probit
  local m, v = pn.tensor { { .8 } }, pn.tensor { { .236 } }

  it("has the bound of 3.1.7, which is the log of an integral; the printed one is above it", function()
    local one, zero = pn.tensor { { 1 } }, pn.tensor { { 0 } }
    local o = told { out = 1, objective = "bound", noise_precision = 2.0 }
    near(probit.objectives.bound(one, m, v, o), -.532809678187, 1e-12)
    -- log of the integral of Phi(s g) e^(E log N(g; f, 1 / b)) over g
    for _, case in ipairs { { one, 1 }, { zero, -1 } } do
      local y, s = table.unpack(case)
      local want = math.log(expectation(function(g) return (g * s):ndtr() end, .8, .5)) - .236
      near(probit.objectives.bound(y, m, v, o), want, 1e-12)
    end
    near(probit.objectives.printed_bound(one, m, v, o), -.0608, 5e-5)
    near(probit.objectives.printed_bound(one, m, v, o), probit.objectives.bound(one, m, v, o):item() + 2 * .236, 1e-14)
  end)

  it("sums over outputs, and takes labels as one class against all", function()
    local o = told { out = 3, objective = "bound", noise_precision = 2.0 }
    local mean = pn.tensor { { .3, -1, .5 }, { 2, 0, -.4 } }
    local variance = pn.tensor { { .1, .2, .3 }, { .5, 1, .2 } }
    local y = probit.prepare(pn.tensor({ 2, 0 }, { dtype = "int64" }), o)
    assert.same({ { 0, 0, 1 }, { 1, 0, 0 } }, y:totable())
    for _, name in ipairs { "bound", "log_expected", "expected_log", "printed_bound" } do
      local whole = probit.objectives[name](y, mean, variance, o)
      for n = 1, 2 do
        local total = 0
        for c = 1, 3 do
          local function cell(t) return t[n][c]:reshape { 1, 1 } end
          total = total + probit.objectives[name](cell(y), cell(mean), cell(variance), o):item()
        end
        near(whole[n], total, 1e-13, name)
      end
    end
    assert.same(y:totable(), probit.prepare(y, o):totable())
  end)

  it("has the log of the expected likelihood (4.4), and apart from it the expected log by quadrature", function()
    for _, case in ipairs { { .7, 2.3, .650006241717 }, { -1.5, .4, .102446946908 } } do
      local mean, variance = pn.tensor { { case[1] } }, pn.tensor { { case[2] } }
      local o = told { out = 1, objective = "log_expected" }
      local one, zero = pn.tensor { { 1 } }, pn.tensor { { 0 } }
      near(probit.objectives.log_expected(one, mean, variance, o):exp(), case[3], 1e-12)
      near(probit.objectives.log_expected(zero, mean, variance, o):exp(), 1 - case[3], 1e-12)
      near(probit.predict(mean, variance, nil, o).probabilities, case[3], 1e-12)
      near(probit.log_predictive(zero, mean, variance, nil, o), math.log(1 - case[3]), 1e-11)
      local want = expectation(function(f) return f:log_ndtr() end, case[1], case[2])
      near(probit.objectives.expected_log(one, mean, variance, o), want, 1e-8)
      assert.is_true(want < math.log(case[3])) -- Jensen
    end
  end)

  it("predicts with the noise of its margin where the bound has one", function()
    local o = told { out = 1, objective = "bound", noise_precision = 2.0 }
    near(probit.predict(m, v, nil, o).probabilities, expectation(function(f) return f:ndtr() end, .8, .5 + .236), 1e-11)
    local f = .8 + .236 ^ .5 * pn.randn({ 40000, 1, 1 }, { generator = pn.generator(1) })
    near(probit.predict(m, v, f, o).probabilities, probit.predict(m, v, nil, o).probabilities:item(), 6 * .2 / 200)
    near(probit.log_predictive(pn.tensor { { 0 } }, m, v, f, o),
      probit.log_predictive(pn.tensor { { 0 } }, m, v, nil, o):item(), .02)
  end)

  it("takes the class of the largest mean, which need not be that of the largest probability", function()
    local o = told { out = 2, objective = "log_expected" }
    local p = probit.predict(pn.tensor { { 1, .9 } }, pn.tensor { { 5, .01 } }, nil, o)
    assert.same({ 0 }, probit.classes(p):totable())
    assert.same({ 1 }, p.probabilities:argmax(-1):totable())
    local single = probit.predict(pn.tensor { { .2 }, { -.1 } }, pn.ones { 2, 1 }, nil, o)
    assert.same({ 1, 0 }, probit.classes(single):totable())
  end)
end)

describe("categorical", function()
  local categorical = heads.categorical
  local m, v = pn.tensor { { 1, 0, -1 } }, pn.tensor { { .3, .2, .5 } }
  local function label(k) return pn.tensor({ k }, { dtype = "int64" }) end

  it("has the expected log-likelihood to second order", function()
    local o = told { out = 3, objective = "taylor" }
    for k = 0, 2 do near(categorical.objectives.taylor(label(k), m, v, o), 1 - k - 1.47997519034, 1e-11) end
    -- with no variance: the softmax itself, whose log-sum-exp is 1.40760596444
    near(categorical.objectives.taylor(label(0), m, nil, o), 1 - 1.40760596444, 1e-11)
  end)

  it("or by draws of the outputs, around the exact value", function()
    local g = pn.generator(3)
    local o = told { out = 3, objective = "draws", draw = function(mean, variance, count)
      return mean + variance:sqrt() * pn.randn({ count, 1, 3 }, { generator = g })
    end }
    o.draws = { train = 400000 }
    local value = categorical.objectives.draws(label(0), m, v, o):item()
    near(value, 1 - 1.47975415034, 6 * .6 / 400000 ^ .5)
    assert.is_true(6 * .6 / 400000 ^ .5 < .006)
  end)

  it("predicts by Taylor, or by draws that come to the exact mean as their number grows", function()
    local o = told { out = 3, objective = "taylor", predictive = "taylor" }
    local p = categorical.predict(m, v, nil, o).probabilities[1]
    for k, want in ipairs { .633612670081, .257719267124, .108668062795 } do near(p[k], want, 1e-12) end
    near(p:sum(), 1, 1e-15)
    assert.is_true(categorical.closed(o))
    near(categorical.log_predictive(label(1), m, v, nil, o), math.log(.257719267124), 1e-11)
    -- the exact mean by quadrature over a grid of 81^3
    local grid = pn.linspace(-6, 6, 81)
    local w = (grid:square() * -.5):exp()
    w = w / w:sum()
    local f = pn.stack({ (1 + .3 ^ .5 * grid):reshape { 81, 1, 1 }:broadcast_to { 81, 81, 81 },
      (.2 ^ .5 * grid):reshape { 1, 81, 1 }:broadcast_to { 81, 81, 81 },
      (-1 + .5 ^ .5 * grid):reshape { 1, 1, 81 }:broadcast_to { 81, 81, 81 } }, -1)
    local weight = (w:reshape { 81, 1, 1 } * w:reshape { 1, 81, 1 } * w:reshape { 1, 1, 81 }):unsqueeze(-1)
    local exact = (f:softmax(-1) * weight):sum { 1, 2, 3 }
    local errors = {}
    for k, count in ipairs { 100, 100000 } do
      local drawn = m + v:sqrt() * pn.randn({ count, 1, 3 }, { generator = pn.generator(4) })
      local each = drawn:softmax(-1)
      local q = categorical.predict(m, v, drawn, told { out = 3, predictive = "draws" }).probabilities[1]
      local error = each:std(1)[1] / count ^ .5
      assert.is_true(((q - exact) / error):abs():max():item() < 6)
      errors[k] = error:max():item()
    end
    near(errors[1] / errors[2], 1000 ^ .5, 8)
  end)

  it("has a logarithm where the second order leaves [0, 1]", function()
    local o = told { out = 2, objective = "taylor", predictive = "taylor" }
    local far, wide = pn.tensor { { 1, 0 } }, pn.tensor { { 30, 30 } }
    local p = categorical.predict(far, wide, nil, o).probabilities[1]
    assert.is_true(p[1]:item() < 0 and p[2]:item() > 1, tostring(p))
    near(categorical.log_predictive(label(0), far, wide, nil, o), math.log(1e-12), 1e-12)
    near(categorical.log_predictive(label(1), far, wide, nil, o), 0, 0)
  end)

  it("takes targets of every form that fits, and names the others", function()
    local one, three = told { out = 1 }, told { out = 3 }
    local int64 = { dtype = "int64" }
    assert.same({ { 0 }, { 1 } }, heads.probit.prepare(pn.tensor({ 0, 1 }, int64), one):totable())
    assert.same({ { 0, 1, 1 } }, heads.probit.prepare(pn.tensor({ { 0, 1, 1 } }, int64), three):totable())
    assert.same({ { 2 }, { 3 } }, heads.normal.prepare(pn.tensor({ 2, 3 }, int64), one):totable())
    for _, head in ipairs { heads.probit, categorical } do
      assert.equal(0, head.prepare(pn.zeros({ 0 }, int64), three):size(1))
      for _, bad in ipairs { -1, 3 } do
        assert.error_matches(function() head.prepare(label(bad), three) end,
          "test: y must be labels from 0 to 2, got [1]", 1, true)
      end
    end
    for got, bad in pairs { ["number"] = 3, ["[]"] = pn.tensor(2), ["[2, 3, 1]"] = pn.ones { 2, 3, 1 } } do
      for _, head in ipairs { heads.normal, heads.probit } do
        assert.error_matches(function() head.prepare(bad, three) end, "test: y must be a tensor [N] or [N, out], got "
          .. got, 1, true)
      end
      assert.error_matches(function() categorical.prepare(bad, three) end, "test: y must be labels, int64 [N], got "
        .. got, 1, true)
    end
    assert.error_matches(function() categorical.prepare(pn.zeros({ 2, 1 }, int64), three) end, "labels, int64 [N]", 1,
      true)
    assert.error_matches(function() heads.normal.prepare(pn.tensor { { 1, 0 / 0, 1 } }, three) end, "y must be finite")
    assert.error_matches(function() heads.normal.prepare(pn.ones { 3 }, three) end, "of the 3 outputs, got [3]", 1,
      true)
    for _, y in ipairs { pn.tensor { { 0 }, { 1 } }, pn.tensor { { 1, 0 }, { 0, 1 } } } do -- classes of targets
      assert.same(y:size(2) == 1 and { 0, 1 } or { 0, 1 }, heads.probit.labels(y):totable())
      assert.equal("int64", heads.probit.labels(y):dtype())
    end
  end)

  it("refuses labels that are none", function()
    local o = told { out = 3 }
    assert.error_matches(function() categorical.prepare(label(3), o) end, "labels from 0 to 2")
    assert.error_matches(function() categorical.prepare(label(-1), o) end, "labels from 0 to 2")
    assert.error_matches(function() categorical.prepare(pn.ones { 2 }, o) end, "labels, int64 %[N%]")
    assert.error_matches(function() heads.probit.prepare(pn.full({ 2, 3 }, .5), o) end, "zeros and ones")
    assert.error_matches(function() heads.normal.prepare(pn.ones { 2, 2 }, o) end, "each of the 3 outputs")
  end)
end)

describe("normal", function()
  it("averages densities, not logarithms, over draws", function()
    local o = told { out = 2, objective = "expected_log", noise_precision = 4.0 }
    local y, f = pn.tensor { { .3, -1 } }, pn.randn({ 7, 1, 2 }, { generator = pn.generator(2) })
    local each = pn.dist.normal(f, .5):log_prob(y):sum(-1)
    near(heads.normal.log_predictive(y, f:mean(1), f:var(1, 0), f, o), each:exp():mean():log():item(), 1e-13)
    local m, v = pn.tensor { { .8, .1 } }, pn.tensor { { .236, 1 } }
    near(heads.normal.log_predictive(y, m, v, nil, o),
      pn.dist.normal(m, (v + .25):sqrt()):log_prob(y):sum():item(), 1e-13)
  end)
end)

describe("methods side by side", function()
  local g = pn.generator(8)
  local x = pn.randn({ 90, 2 }, { generator = g })
  local y = x[{ {}, 1 }] * 2 + pn.randn({ 90 }, { generator = g }) * .2
  local function compare(given)
    local o = { network = function() return pn.nn.mlp({ 2, 8, 1 }, { activation = "relu" }) end, data = { x, y },
      epochs = 4, batch_size = 30, seeds = { 1, 2 }, rate = .1, lr = .01 }
    for name, value in pairs(given or {}) do o[name] = value end
    return pn.vbp.compare(o)
  end

  it("are a row for each method and seed, the same as a learner alone", function()
    local before = clock()
    local r = compare()
    assert.equal(10, #r)
    local seconds = 0
    for _, row in ipairs(r) do seconds = seconds + row.seconds end
    assert.is_true(seconds > 0 and seconds <= clock() - before) -- of ten runs, one after another
    local alone = pn.vbp.learner { network = pn.nn.mlp({ 2, 8, 1 }, { activation = "relu" }), method = "clt", seed = 2,
      lr = .01 }
    alone:fit { data = { x, y }, epochs = 4, batch_size = 30, seed = 2, lr = .01 }
    local found
    for _, row in ipairs(r) do found = row.method == "clt" and row.seed == 2 and row or found end
    near(found.log_likelihood, alone:log_predictive(x, y):mean():item(), 0)
    near(found.bound, alone:bound(x, y).bound, 0)
    near(found.error, alone:error_rate(x, y):item(), 0)
    local text = tostring(r)
    for _, name in ipairs { "vbp", "clt", "local", "dropout", "map" } do assert.matches("\n" .. name .. " ", text) end
  end)

  it("have means and paired differences with their errors", function()
    local r = compare { methods = { "vbp", "map" }, seeds = { 1, 2, 3 } }
    local a, b = {}, {}
    for _, row in ipairs(r) do table.insert(row.method == "vbp" and a or b, row.log_likelihood) end
    local d = { a[1] - b[1], a[2] - b[2], a[3] - b[3] }
    local mean = (d[1] + d[2] + d[3]) / 3
    local se = (((d[1] - mean) ^ 2 + (d[2] - mean) ^ 2 + (d[3] - mean) ^ 2) / 2 / 3) ^ .5
    local got = r:difference("vbp", "map", "log_likelihood")
    near(got.value, mean, 1e-14)
    near(got.se, se, 1e-14)
    near(r:mean("map", "log_likelihood").value, (b[1] + b[2] + b[3]) / 3, 1e-14)
  end)

  it("are read by name, also a row of one's own, with one seed or two", function()
    local own = {}
    for name, f in pairs(pn.vbp.method "map") do own[name] = f end
    local unnamed = {}
    for name, f in pairs(own) do unnamed[name] = f end
    own.name = "mine"
    local test = { x * .5, y * .5 }
    local told_rows = {}
    local r = compare { methods = { own, unnamed }, seeds = { 0 }, epochs = 1, test = test,
      on_row = function(row) told_rows[#told_rows + 1] = row end }
    assert.same({ r[1], r[2] }, told_rows)
    assert.same({ "mine", "own", 0 }, { r[1].method, r[2].method, r[1].seed })
    near(r[1].log_likelihood, r[1].learner:log_predictive(table.unpack(test)):mean():item(), 0)
    near(r[1].error, r[1].learner:error_rate(table.unpack(test)):item(), 0)
    near(r[1].bound, r[1].learner:bound(x, y).bound, 0)
    local m, d = r:mean("mine", "bound"), r:difference("mine", "own", "bound")
    near(m.value, r[1].bound, 0)
    near(d.value, 0, 0)
    assert.is_true(m.se ~= m.se and d.se ~= d.se) -- one run has no spread
    assert.is_nil(tostring(r):find("+-", 1, true))
    assert.matches("\nmine +%-?[%d.]+ ", tostring(r))
    r = compare { methods = { "map" }, seeds = { 1, 2 }, epochs = 1 }
    near(r:mean("map", "bound").se, math.abs(r[1].bound - r[2].bound) / 2, 1e-12)
    assert.matches("\nmap +%-?[%d.]+ %+%- [%d.]+ +[%d.]+ %+%- ", tostring(r))
    r = compare { methods = { "map" }, seeds = false, epochs = 1 }
    assert.same({ 1, 1 }, { #r, r[1].seed })
    r = compare { methods = false, seeds = { 1 }, epochs = 1 }
    assert.equal(5, #r)
  end)

  it("refuse what they do not know", function()
    assert.error_matches(function() compare { method = "vbp" } end, "compare: unknown option 'method'")
    assert.error_matches(function() compare { seed = 1 } end, "compare: unknown option 'seed'")
    assert.error_matches(function() compare { methods = "vbp" } end,
      "compare: methods must be a list of at least one, got string")
    local r = compare { methods = { "map" }, seeds = { 1 }, epochs = 1 }
    assert.error_matches(function() r:difference("map", "map", "errors") end,
      "^difference: what must be a number of the rows, got errors")
    assert.error_matches(function() r:difference("map", "vbp", "error") end,
      "^difference: other must be one of the methods compared, got vbp")
    assert.error_matches(function() r:difference("vbp", "map", "error") end,
      "^difference: method must be one of the methods compared, got vbp")
    assert.error_matches(function() compare { network = pn.nn.linear(2, 1) } end, "compare: network must be a function")
    assert.error_matches(function() compare { methods = {} } end, "methods must be a list")
    assert.error_matches(function() compare { priors = "normal" } end, "did you mean 'prior'")
    assert.error_matches(function() compare { methods = { "vbp" } }:mean("clt", "error") end, "one of the methods")
    assert.error_matches(function() compare { methods = { "vbp" } }:mean("vbp", "errors") end, "what must be")
  end)
end)
