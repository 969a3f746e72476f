-- metrics.ood against values from the definitions (spec/golden/metrics/ood.py), and where it would mislead.
local pn = require "penumbra"
local metrics = pn.metrics
local g = dofile "spec/golden/metrics/ood.lua"

describe("data of other classes", function()
  it("are told as by the definitions", function()
    local r = metrics.ood(pn.tensor(g.inside), pn.tensor(g.outside), { y = pn.tensor(g.y, { dtype = "int64" }) })
    for _, name in ipairs { "auc", "aupr_outside", "aupr_inside", "fpr95", "inside_entropy", "outside_entropy",
        "log_likelihood", "error" } do
      assert(math.abs(r[name] - g[name]) < 1e-12, ("%s: %.15g, want %.15g"):format(name, r[name], g[name]))
    end
    assert(math.abs(r.ecdf_auc - g.ecdf_auc) < 1e-5) -- the golden value is a sum of trapezia
    assert.near(math.log(4) - r.outside_entropy, r.ecdf_auc, 1e-12)
    for _, name in ipairs { "false_positive", "true_positive" } do
      assert((r.roc[name] - pn.tensor(g[name])):abs():max():item() < 1e-12)
    end
    assert(not r.uniform and not tostring(r):find("nearly uniform", 1, true))
  end)

  it("of draws are those of their mean", function()
    local p = pn.randn({ 5, 40, 3 }, { generator = pn.generator(1) }):softmax(-1)
    local q = pn.randn({ 5, 30, 3 }, { generator = pn.generator(2) }):softmax(-1)
    assert.near(metrics.ood(p:mean(1), q:mean(1)).auc, metrics.ood(p, q).auc, 1e-13)
  end)

  it("are told best, by the printed score, by who is uniform everywhere, and that is said", function()
    local uniform = pn.full({ 50, 10 }, 0.1)
    local r = metrics.ood(uniform, uniform)
    assert.near(0, r.ecdf_auc, 1e-12)
    assert.near(0.5, r.auc, 1e-12)
    assert(r.uniform and tostring(r):find("a low ECDF-AUC says nothing here", 1, true))
    local lines = {}
    local y = pn.arange(50):ge(20):to "int64"
    for line in tostring(metrics.ood(uniform, uniform, { y = y })):gmatch "[^\n]+" do
      lines[#lines + 1] = line
    end
    for k, pattern in ipairs { "^50 data inside, 50 outside, 10 classes$", "ECDF%-AUC .* %-?0.0000 .* 2.3026",
      "mean entropy .* 2.3026, 2.3026$", "ROC%-AUC 0.5000", "inside: error 60.00 %%, log%-likelihood %-2.3026$",
      "nearly uniform" } do
      assert.matches(pattern, lines[k])
    end
    assert.equal(6, #lines)
    for k = 2, 9 do -- uniform is what has more than 9 tenths of log K
      for rows, held in pairs { [17] = false, [19] = true } do
        local sure = pn.eye(k):slice(1, 1, 1):repeat_interleave(20 - rows, 1)
        local p = pn.concatenate({ pn.full({ rows, k }, 1 / k), sure }, 1)
        assert.equal(held, metrics.ood(p, p).uniform)
      end
    end
    local certain = pn.tensor { { 1.0, 0 }, { 0, 1 } }
    assert.near(math.log(2), metrics.ood(certain, certain).ecdf_auc, 1e-15)
    local ideal = metrics.ood(certain, pn.full({ 3, 2 }, 0.5))
    assert.same({ 1, 1, 1, 0 }, { ideal.auc, ideal.aupr_outside, ideal.aupr_inside, ideal.fpr95 })
  end)

  it("can be drawn: shares of entropies up to each, and what is found of either kind", function()
    local r = metrics.ood(pn.tensor(g.inside), pn.tensor(g.outside))
    local panels = pn.plot.ood(r)
    assert.equal(2, #panels)
    assert.same({ 0, math.log(r.classes) }, panels[1].x_range)
    for k, name in ipairs { "inside", "outside" } do
      local values, n = r.entropies[name]:totable(), 0
      for _, line in ipairs(panels[1].marks[k].data) do
        local x, y = line:match "(%S+)%s+(%S+)"
        local below, up_to = 0, 0
        for _, v in ipairs(values) do
          below, up_to = below + (v < x - 1e-9 and 1 or 0), up_to + (v <= x + 1e-9 and 1 or 0)
        end
        n = n + 1
        assert.near(n / #values, tonumber(y), 1e-6)
        assert.is_true(below < n and n <= up_to)
      end
      assert.equal(#values, n)
      assert.equal(name, panels[1].marks[k].label)
    end
    for i, line in ipairs(panels[2].marks[2].data) do
      local x, y = line:match "(%S+)%s+(%S+)"
      assert.near(r.roc.false_positive[i]:item(), tonumber(x), 1e-6)
      assert.near(r.roc.true_positive[i]:item(), tonumber(y), 1e-6)
    end
  end)

  it("must be probabilities of the same classes", function()
    for _, case in ipairs { { pn.ones(3, 2), pn.ones(3, 2) / 2, "inside must be probabilities, which add up to 1" },
        { pn.ones(3, 2) / 2, pn.ones(3, 4) / 4, "the same classes, got 2 and 4" },
        { pn.ones(3), pn.ones(3), "inside must be probabilities [N, K]" } } do
      local ok, message = pcall(metrics.ood, case[1], case[2])
      assert(not ok and tostring(message):find(case[3], 1, true), tostring(message))
    end
  end)
end)
