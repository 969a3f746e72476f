-- Scores of forecasts by paths against sums that NumPy writes out (spec/golden/metrics/forecast.py).
local pn = require "penumbra"
local metrics = pn.metrics
local g = dofile "spec/golden/metrics/forecast.lua"

local y, draws = pn.tensor(g.y), pn.tensor(g.draws)

local function levels(count)
  local list = {}
  for i = 1, count - 1 do list[i] = i / count end
  return list
end

describe("scores of forecasts", function()
  it("are those of all pairs of paths", function()
    assert.is_true((metrics.crps(y, draws) - pn.tensor(g.fair)):abs():max():item() < 1e-14)
    assert.is_true((metrics.crps(y, draws, { fair = false }) - pn.tensor(g.plain)):abs():max():item() < 1e-14)
    assert.is_true((metrics.energy_score(y, draws, { fair = false }) - pn.tensor(g.energy)):abs():max():item() < 1e-14)
  end)

  it("are GluonTS's weighted quantile loss on a stated grid", function()
    local function near(want, count, interpolation)
      local got = metrics.normalised_crps(y, draws, { levels = levels(count), interpolation = interpolation })
      assert.is_true(math.abs(got - want) < 1e-14, got)
    end
    near(g.tenths_linear, 10, "linear")
    near(g.tenths_nearest, 10, "nearest")
    near(g.twentieths_nearest, 20, "nearest")
    assert.equal(metrics.normalised_crps(y, draws), metrics.normalised_crps(y, draws, { levels = levels(10) }))
  end)

  it("leave out what was not observed", function()
    local nan = 0 / 0
    local some = pn.tensor { 1, nan, 3, nan }
    local many = pn.tensor { { 0, 9, 2, 9 }, { 2, 9, 5, 9 }, { 1, 9, 4, 9 } }
    assert.equal(metrics.normalised_crps(pn.tensor { 1, 3 }, many:take(2, pn.tensor { 0, 2 }:to "int64")),
      metrics.normalised_crps(some, many))
    assert.matches("normalised_crps: y is NaN throughout", select(2, pcall(metrics.normalised_crps, some * nan, many)))
  end)

  it("refuse shapes that would broadcast", function()
    for _, f in ipairs { metrics.crps, metrics.normalised_crps, metrics.pit } do
      for _, wrong in ipairs { y:unsqueeze(2), y:slice(1, 1, 1), y:slice(2, 1, 1), y:unsqueeze(1) } do
        local ok, message = pcall(f, wrong, draws)
        assert.is_false(ok)
        assert.matches("draws must be at least 2 draws shaped like y", message, 1, true)
      end
    end
  end)
end)
