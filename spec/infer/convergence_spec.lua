--- Summaries of draws against arviz: means, quantiles, R-hat, effective sample sizes, standard errors.
local core = require "penumbra.core"
local pn = require "penumbra"
local golden = dofile "spec/golden/infer/convergence.lua"

local columns = { "mean", "sd", "q05", "median", "q95", "r_hat", "ess_bulk", "ess_tail", "mcse" }

describe("a summary of draws", function()
  for _, case in ipairs(golden) do
    it("is arviz's: " .. case.name, function()
      local draws = case.rising and pn.arange(2 * case.rising):to("float64"):reshape { 2, case.rising, 1 }
        or pn.tensor(case.draws):unsqueeze(3)
      local got = core.draws_summary(draws):totable()[1]
      for k, name in ipairs(columns) do
        local want = case.summary[k]
        assert.truthy(math.abs(got[k] - want) <= 1e-8 * math.max(1, math.abs(want)),
          ("%s: got %.12g, want %.12g"):format(name, got[k], want))
      end
    end)
  end

  it("is NaN where a draw is not finite, and says nothing of constants", function()
    local draws = pn.randn { 2, 20, 1 }
    local bad = pn.concatenate({ draws, draws / pn.zeros { 2, 20, 1 }, pn.ones { 2, 20, 1 } }, 3)
    local got = core.draws_summary(bad):totable()
    assert.equal(got[1][1], got[1][1])
    for k = 1, 9 do
      assert.not_equal(got[2][k], got[2][k])
    end
    assert.equal(1, got[3][1])
    assert.equal(0, got[3][2])
    assert.not_equal(got[3][6], got[3][6])
  end)

  it("is told of draws of one's own, by name and number, as a posterior's summary", function()
    pn.seed(3)
    local theta, a = pn.randn { 4, 100, 2 } * pn.tensor { 1, 5 }, pn.randn { 4, 100 } + pn.arange(4):unsqueeze(2) * 3
    local list = pn.infer.summary { theta = theta, a = a }
    local want = core.draws_summary(theta):totable()
    assert.equal(want[2][2], list["theta[2]"].sd)
    assert.equal(want[2][6], list["theta[2]"].r_hat)
    assert.equal(want[1][7], list["theta[1]"].ess_bulk)
    assert.is_true(list.a.r_hat > 1.5 and list["theta[1]"].r_hat < 1.05)
    assert.equal("a", list[1].name)
    assert.matches("r_hat ess_bulk ess_tail .*\ntheta%[2%]", tostring(list))
    assert.error_matches(function() pn.infer.summary { theta = pn.ones(3) } end, "%[chains, draws, ...%] by name", nil,
      false)
    assert.error_matches(function() pn.infer.summary { theta } end, "by name", nil, false)
  end)

  it("refuses what is no list of chains", function()
    assert.error_matches(function() core.draws_summary(pn.zeros { 3, 4 }) end, "draws must be float64", nil, false)
    assert.error_matches(function() core.draws_summary(pn.zeros { 2, 3, 1 }) end, "at least 4 draws", nil, false)
  end)
end)
