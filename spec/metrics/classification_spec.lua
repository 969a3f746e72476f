-- Metrics of classification against NumPy and scikit-learn.
local pn = require "penumbra"
local metrics = pn.metrics
local g = dofile "spec/golden/metrics/classification.lua"

local draws, y = pn.tensor(g.draws), pn.tensor(g.y, { dtype = "int64" })
local probs = draws:mean(1)

local function near(got, want, tolerance)
  assert.is_true(math.abs(got - want) <= (tolerance or 1e-12), ("got %.15g, want %.15g"):format(got, want))
end

describe("metrics of classification", function()
  it("have scikit-learn's values, of probabilities and of draws", function()
    for _, p in ipairs { probs, draws } do
      near(metrics.accuracy(y, p), g.accuracy)
      near(metrics.log_likelihood(y, p), g.log_likelihood)
      near(metrics.brier(y, p), g.brier)
      near(metrics.ece(y, p), g.ece15)
      near(metrics.ece(y, p, { bins = 4 }), g.ece4)
    end
    near(metrics.auc(pn.tensor(g.label, { dtype = "int64" }), pn.tensor(g.score)), g.auc)
  end)

  it("part the entropy into what is of the data and of the draws", function()
    local total, aleatoric, epistemic = metrics.predictive_entropy(draws)
    for name, t in pairs { total = total, aleatoric = aleatoric, mutual = epistemic } do
      assert.is_true((t - pn.tensor(g[name])):abs():max():item() < 1e-12, name)
    end
    near(metrics.ecdf_auc(total, 3), g.ecdf_auc, 1e-5) -- the golden value is a sum of trapezia
  end)

  it("have the values of certain and of uniform predictions", function()
    local hot = pn.eye(3):take(1, y)
    near(metrics.accuracy(y, hot), 1)
    near(metrics.brier(y, hot), 0)
    near(metrics.ece(y, hot), 0)
    near(metrics.log_likelihood(y, hot), 0)
    local total, aleatoric, epistemic = metrics.predictive_entropy(pn.stack { hot, hot })
    near(total:sum():item() + aleatoric:sum():item() + epistemic:sum():item(), 0)
    near(metrics.ecdf_auc(total, 3), math.log(3))
    near(metrics.ecdf_auc(pn.full({ 5 }, math.log(3)), 3), 0)
    near(metrics.auc(pn.tensor({ 0, 1, 1 }, { dtype = "int64" }), pn.tensor { 1, 2, 3 }), 1)
    near(metrics.auc(pn.tensor({ 0, 1, 1 }, { dtype = "int64" }), pn.ones { 3 }), 0.5)
    local bins = metrics.reliability(y, hot)
    assert.equal(1, #bins)
    assert.equal(40, bins[1].count)
    assert.equal(3, #pn.plot.reliability(bins).marks)
  end)

  it("stand in bins (low, high], one datum at a time", function()
    local shares = { 0.02, 0.25, 0.26, 0.5, 0.74, 0.75, 0.9, 1, 0 }
    local truth = { 1, 0, 1, 1, 0, 1, 0, 1, 0 }
    local score, label = pn.tensor(shares), pn.tensor(truth, { dtype = "int64" })
    for name, of in pairs {
      calibration_curve = function(k) return shares[k], truth[k] end,
      reliability = function(k)
        return math.max(shares[k], 1 - shares[k]), (shares[k] > 0.5 and 1 or 0) == truth[k] and 1 or 0
      end,
    } do
      for count = 1, 5 do
        local want = {}
        for bin = 1, count do
          local low, high, n, confidence, right = (bin - 1) / count, bin / count, 0, 0, 0
          for k = 1, #shares do
            local value, hit = of(k)
            if (value > low or value == 0 and bin == 1) and value <= high then
              n, confidence, right = n + 1, confidence + value, right + hit
            end
          end
          if n > 0 then
            want[#want + 1] = { low = low, high = high, count = n, confidence = confidence / n, accuracy = right / n }
          end
        end
        local got = metrics[name](label, score, { bins = count })
        assert.equal(#want, #got)
        for k, bin in ipairs(want) do
          for key, v in pairs(bin) do assert.near(v, got[k][key], 1e-12, name .. " " .. key) end
        end
      end
    end
  end)

  -- counted by hand: of class 0 two of three found, of 1 one of two, of 2 both; class 1 is said once wrongly
  it("take classes that were decided, too", function()
    local truth = pn.tensor { 0, 0, 0, 1, 1, 2, 2 }
    local said = pn.tensor({ 0, 1, 0, 1, 0, 2, 2 }, { dtype = "int64" })
    assert.same({ { 2, 1, 0 }, { 1, 1, 0 }, { 0, 0, 2 } }, metrics.confusion(truth, said):totable())
    assert.is_true(math.abs(metrics.accuracy(truth, said) - 5 / 7) < 1e-12)
    assert.is_true(math.abs(metrics.f1(truth, said) - (4 / 6 + 2 / 4 + 1) / 3) < 1e-12)
    -- classes that nobody has, or nobody says
    assert.same({ { 1, 0, 0 }, { 0, 0, 0 }, { 0, 0, 1 } }, metrics.confusion(pn.tensor { 0, 2 }, pn.tensor({ 0, 2 },
      { dtype = "int64" })):totable())
    assert.same({ 3, 3 }, metrics.confusion(pn.tensor { 0, 1 }, pn.tensor({ 2, 2 }, { dtype = "int64" })):shape())
    assert.same({ { 1, 1 }, { 0, 2 } }, metrics.confusion(pn.tensor { 0, 0, 1, 1 }, pn.tensor { 0.2, 0.9, 0.7, 0.6 }
      :gt(0.5)):totable())
    assert.has_error(function() metrics.accuracy(truth, said - 1) end)
    assert.has_error(function() metrics.accuracy(truth, said:slice(1, 1, 3)) end)
    -- the area takes true and false as 1 and 0
    assert.equal(0.75, metrics.auc(pn.tensor { 0, 0, 1, 1 }:gt(0), pn.tensor { 1, 3, 2, 4 }))
  end)

  it("refuse what would stretch or is no probability, by name", function()
    for name, f in pairs { accuracy = metrics.accuracy, brier = metrics.brier, ece = metrics.ece,
        log_likelihood = metrics.log_likelihood, reliability = metrics.reliability } do
      for _, case in ipairs { { y:unsqueeze(2), probs }, { y, probs:slice(1, 1, 1) }, { y, probs * 2 },
          { y + 1, probs }, { y:to "float64" + 0.5, probs } } do
        assert.error_matches(function() f(case[1], case[2]) end, (name:gsub("ece", "reliability")) .. ": ")
      end
    end
    assert.has_error(function() metrics.auc(y:gt(5):to "int64", probs:select(2, 1)) end)
    assert.has_error(function() metrics.ecdf_auc(pn.full({ 2 }, 5), 3) end)
    assert.has_error(function() metrics.predictive_entropy(probs) end)
  end)
end)
