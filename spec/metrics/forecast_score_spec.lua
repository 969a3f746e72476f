--- Scores of point forecasts and rolling evaluation against sums that a script writes out
--- (spec/golden/metrics/forecast_score.py), closed forms, and forecasters that are known.
local pn = require "penumbra"
local metrics = pn.metrics
local refused = require("spec.helper").refuses
local g = dofile "spec/golden/metrics/forecast_score.lua"

local y, point, draws, history = pn.tensor(g.y), pn.tensor(g.point), pn.tensor(g.draws), pn.tensor(g.history)

local function near(want, got, tolerance)
  assert(math.abs(want - got) <= (tolerance or 1e-13) * math.max(1, math.abs(want)), ("%.17g %.17g"):format(want, got))
end

describe("scores of points", function()
  it("are the sums that are written out, with gaps, series of unequal size, and draws", function()
    near(g.mase_1, metrics.mase(y, point, history))
    near(g.mase_3, metrics.mase(y, point, history, { season = 3 }))
    near(g.mase_draws, metrics.mase(y, draws, history))
    near(g.smape, metrics.smape(y, point))
    near(g.smape_draws, metrics.smape(y, draws))
    near(g.nd, metrics.normalised_deviation(y, point))
    near(g.nd_draws, metrics.normalised_deviation(y, draws))
  end)

  it("are the same in float32", function()
    local function single(x) return x:to "float32" end
    near(g.mase_3, metrics.mase(single(y), single(point), single(history), { season = 3 }), 1e-5)
    near(g.smape, metrics.smape(single(y), single(point)), 1e-5)
    near(g.nd, metrics.normalised_deviation(single(y), single(point)), 1e-5)
  end)

  it("have their closed forms", function()
    local line = pn.arange(1, 13, { dtype = "float64" })
    local ahead, last = pn.tensor { 13, 14, 15, 16 }, pn.full({ 4 }, 12)
    near(2.5, metrics.mase(ahead, last, line)) -- errors 1 2 3 4, the line moves by 1 a step
    near(0.625, metrics.mase(ahead, last, line, { season = 4 })) -- and by 4 a season
    near(2, metrics.smape(ahead, last * 0))
    near(1, metrics.normalised_deviation(ahead, last * 0))
    near(0, metrics.smape(last * 0, last * 0))
    for _, c in ipairs { 3, 1e6 } do -- without units
      near(metrics.mase(y, point, history), metrics.mase(y * c, point * c, history * c))
      near(metrics.smape(y, point), metrics.smape(y * c, point * c))
    end
  end)

  it("refuse what has no score", function()
    refused("mase: draws must be at least 2 draws shaped like y", metrics.mase, y, point:slice(1, 1, 2), history)
    refused("mase: history must be [T, ...], time first, of the series of y [4, 3], got [13]", metrics.mase, y, point,
      history:select(2, 1))
    refused("mase: history must be longer than a season of 13 steps", metrics.mase, y, point, history, { season = 13 })
    refused("mase: history must change from one season of 1 steps", metrics.mase, y, point, history * 0)
    refused("mase: season must be a whole number from 1 on, got 0", metrics.mase, y, point, history, { season = 0 })
    refused("smape: y must have at least one number that was observed", metrics.smape, y * (0 / 0), point)
    refused("normalised_deviation: y must have a number that is not 0", metrics.normalised_deviation, y * 0, point)
    refused("smape: y must be a tensor, got 3", metrics.smape, 3, point)
  end)
end)

describe("rolling evaluation", function()
  local series, offsets = pn.tensor(g.series), pn.tensor(g.offsets)

  -- Draws around the last value that was observed.
  local function around_last(seen)
    local known = seen[seen:isnan():logical_not()]
    return offsets + known[known:size(1)]
  end

  it("scores what came after each origin", function()
    local r = metrics.backtest(series, around_last, { steps = 3, first = 8, every = 2 })
    assert.same(g.origins, r.origins)
    for k in ipairs(g.origins) do
      near(g.crps[k], r.by_origin.crps[k])
      near(g.rolling_mase[k], r.by_origin.mase[k])
      near(g.rolling_smape[k], r.by_origin.smape[k])
      near(g.rolling_nd[k], r.by_origin.normalised_deviation[k])
    end
    for k, v in ipairs(g.by_step) do near(v, r.by_step.crps[k]:item()) end
    local sum = 0
    for _, v in ipairs(g.crps) do sum = sum + v end
    near(sum / #g.crps, r.crps)
    assert.matches("^4 origins, 3 steps ahead\norigin     crps     mase    smape       nd\n8 ", tostring(r))
  end)

  it("shows a function what there was at the origin, and no more", function()
    local seen, origins = {}, {}
    local r = metrics.backtest(pn.arange(20, { dtype = "float64" }), function(past, steps, origin)
      seen[#seen + 1], origins[#origins + 1] = past:totable(), origin
      return pn.arange(1, steps + 1, { dtype = "float64" }) + past[past:size(1)] -- the line goes on
    end, { steps = 4, season = 2 })
    assert.same({ 6, 10, 14 }, origins)
    for k, origin in ipairs(origins) do
      assert.equal(origin, #seen[k])
      assert.equal(origin - 1, seen[k][origin])
    end
    assert.same({ 0, 0, 0, 0 }, { r.crps, r.mase, r.smape, r.normalised_deviation })
  end)

  it("refuses what cannot be scored", function()
    local function wrong() return pn.ones { 2 } end
    refused("backtest: forecast must return [3], or draws [S, ...] of that, got [2]", metrics.backtest, series, wrong,
      { steps = 3 })
    local function draws_of_0(s) return function(_, steps) return pn.zeros { s, steps } end end
    refused("backtest: forecast must return [3], or draws [S, ...] of that, got [1, 3]", metrics.backtest, series,
      draws_of_0(1), { steps = 3 })
    local function zeros(_, steps) return pn.zeros { steps } end
    near(metrics.backtest(series, zeros, { steps = 3 }).crps,
      metrics.backtest(series, draws_of_0(2), { steps = 3 }).crps)
    refused("backtest: y must have at least 19 steps, time first, got [17]", metrics.backtest, series, wrong,
      { steps = 3, first = 16 })
    refused("backtest: first must be a whole number from 2 on, got 1", metrics.backtest, series, wrong,
      { steps = 3, first = 1 })
    refused("backtest: option 'steps' is required", metrics.backtest, series, wrong)
    refused("backtest: forecast from origin 4: no luck", metrics.backtest, series, function() return nil, "no luck" end,
      { steps = 3 })
  end)

  it("is what a forecaster's own forecasts give", function()
    local items = {}
    for k, n in ipairs { 40, 33, 36 } do
      items[k] = { target = (pn.arange(n, { dtype = "float64" }) * (0.3 * k)):sin() + k * 2 }
    end
    local set = pn.data.series(items)
    pn.seed(3)
    local m = pn.models.deepar { output = "normal", hidden = 4 }
    local function generator() return pn.generator(7) end
    local r = m:backtest { series = set, steps = 5, origins = 3, every = 4, history = 12, season = 2, draws = 20,
      generator = generator() }
    assert.same({ -13, -9, -5 }, r.origins)
    local drawing = generator()
    for k, drop in ipairs { 13, 9, 5 } do
      local paths = m:forecast(set:history { steps = 12, drop = drop }, 5, { draws = 20, generator = drawing })
      local actual = set:future { steps = 5, drop = drop }.y
      near(metrics.crps(actual, paths):mean():item(), r.by_origin.crps[k])
      near(metrics.smape(actual, paths), r.by_origin.smape[k])
      local sum = 0 -- each series by its own history, however long
      for b, item in ipairs(items) do
        local n = item.target:size(1)
        sum = sum + metrics.mase(actual:select(2, b), paths:select(3, b),
          item.target:slice(1, 1, n - drop):unsqueeze(2), { season = 2 }) / #items
      end
      near(sum, r.by_origin.mase[k])
    end
    refused("backtest: item '2' has 33 steps, 3 origins need more than 34", m.backtest, m,
      { series = set, steps = 5, origins = 3, every = 14 })
    refused("backtest: series must be a series set", m.backtest, m, { series = {}, steps = 5 })
  end)
end)

describe("lags", function()
  local nan = 0 / 0
  local function same(want, got)
    assert.same(#want, got:size(1))
    for t, row in ipairs(want) do
      for k, v in ipairs(row) do
        local x = got:select(1, t):select(1, k):item()
        assert(x == v or x ~= x and v ~= v, ("%d %d: %s %s"):format(t, k, v, x))
      end
    end
  end

  it("are earlier values", function()
    same({ { nan, nan }, { 5, nan }, { 6, nan }, { nan, 5 } }, pn.data.lags(pn.tensor { 5, 6, nan, 8 }, { 1, 3 }))
    same({ { 0, 0 }, { 0, 0 }, { 5, 0 }, { 6, 5 }, { 0, 6 }, { 8, 0 } },
      pn.data.lags(pn.tensor { 5, 6, nan, 8 }, { 2, 3 }, { ahead = 2, fill = 0 }))
    local z = pn.randn { 6, 2, 3 }
    local x = pn.data.lags(z, { 4, 9, 1 })
    assert.same({ 6, 2, 9 }, x:shape())
    for t = 1, 6 do
      for k, lag in ipairs { 4, 9, 1 } do
        local got = x[t]:slice(2, 3 * k - 2, 3 * k)
        if t > lag then
          assert.is_true(got:eq(z[t - lag]):all():item())
        else
          assert.is_true(got:isnan():all():item())
        end
      end
    end
    assert.equal("float32", pn.data.lags(z:to "float32", { 1 }):dtype())
  end)

  it("serve a forecaster as covariates that reach beyond the series", function()
    local z = (pn.arange(48, { dtype = "float64" }) * (math.pi / 6)):sin() + 3 -- a season of 12
    local x = pn.data.lags(z, { 12, 24 }, { ahead = 6, fill = 0 })
    local set = pn.data.series { { target = z, covariates = x } }
    local future = set:future { steps = 6 }
    for h = 1, 6 do assert.equal(z[36 + h]:item(), future.inputs[h][1][1]:item()) end
    local m = pn.models.deepar { covariates = 2, output = "normal", hidden = 3 }
    local r = m:backtest { series = set, steps = 6, origins = 2, draws = 10 }
    assert.is_true(r.crps > 0 and r.crps < math.huge)
  end)

  it("refuse what is not known yet", function()
    refused("lags: a lag must be at least ahead, 3, or it asks for what is not known yet, got lags[2] = 2",
      pn.data.lags, pn.ones { 5 }, { 7, 2 }, { ahead = 3 })
    refused("lags: lags[1] must be a whole number from 1 on, got 0", pn.data.lags, pn.ones { 5 }, { 0 })
    refused("lags: lags must have at least one number", pn.data.lags, pn.ones { 5 }, {})
    refused("lags: y must be [T] or [T, ..., p], time first, got []", pn.data.lags, pn.ones {}, { 1 })
  end)
end)
