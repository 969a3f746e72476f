--- Forecasts from one origin after another, scored by what came: rolling evaluation.
-- help: pn.metrics
local core = require "penumbra.core"
local forecast_score = require "penumbra.metrics.forecast_score"
local options = require "penumbra.options"

local rolling_origin = {}

local shape_text = options.shape_text

-- (Fair) CRPS of draws, the absolute error of a point; [H, ...].
local function crps_of(y, prediction)
  if shape_text(y) == shape_text(prediction) then
    return (y - prediction):abs()
  end
  local s = prediction:size(1)
  local rank = core.arange(s, { dtype = "float64" }):to(prediction:dtype()) * 2 - (s - 1)
  for _ = 1, y:ndim() do
    rank = rank:unsqueeze(2)
  end
  return (prediction - y):abs():mean(1) - (prediction:sort(1) * rank):sum(1) / (s * (s - 1))
end

local NAMES = { "crps", "mase", "smape", "normalised_deviation" }

local meta = { __name = "backtest" }

function meta:__tostring()
  local lines = { ("%d origins, %d steps ahead"):format(#self.origins, self.steps), "origin     crps     mase    smape"
    .. "       nd" }
  local function line(head, at)
    lines[#lines + 1] = ("%-6s %8.4g %8.4g %8.4g %8.4g"):format(head, table.unpack(at))
  end
  for r, origin in ipairs(self.origins) do
    local at = {}
    for k, name in ipairs(NAMES) do at[k] = self.by_origin[name][r] end
    line(origin, at)
  end
  local at = {}
  for k, name in ipairs(NAMES) do at[k] = self[name] end
  line("mean", at)
  return table.concat(lines, "\n")
end

local function mean(list)
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

--- report(steps, pieces, season): scores of forecasts from several origins: a table as metrics.backtest gives. pieces:
--- a list of {origin, y [H, ...], prediction, history [T, ...]}.
function rolling_origin.report(steps, pieces, season)
  local self = { steps = steps, origins = {}, by_origin = {}, by_step = {} }
  for _, name in ipairs(NAMES) do self.by_origin[name] = {} end
  local total, count
  for r, p in ipairs(pieces) do
    local observed = p.y:isnan():logical_not()
    local crps = core.where(observed, crps_of(p.y, p.prediction), core.zeros({}, { dtype = p.y:dtype() }))
    self.origins[r] = p.origin
    self.by_origin.mase[r] = forecast_score.mase(p.y, p.prediction, p.history, { season = season })
    self.by_origin.smape[r] = forecast_score.smape(p.y, p.prediction)
    self.by_origin.normalised_deviation[r] = forecast_score.normalised_deviation(p.y, p.prediction)
    self.by_origin.crps[r] = crps:sum():item() / observed:to("float64"):sum():item()
    local by_step, seen = crps:reshape { steps, -1 }:sum(2), observed:to(crps:dtype()):reshape { steps, -1 }:sum(2)
    total, count = total and total + by_step or by_step, count and count + seen or seen
  end
  self.by_step.crps = total / count
  for _, name in ipairs(NAMES) do self[name] = mean(self.by_origin[name]) end
  return setmetatable(self, meta)
end

local backtest_options = { steps = options.required "number", first = options.optional "number",
  every = options.optional "number", season = 1 }

-- The prediction of a forecasting function, which must be of what was asked.
local function predicted(forecast, history, actual, origin)
  local prediction, message = forecast(history, actual:size(1), origin)
  if prediction == nil and type(message) == "string" then
    core.error(("backtest: forecast from origin %d: %s"):format(origin, message))
  end
  options.argument("backtest", "what forecast returns", prediction, "tensor")
  local want = actual:shape()
  local got = prediction:shape()
  local same = shape_text(actual) == shape_text(prediction)
  if not same and (#got ~= #want + 1 or got[1] < 2 or table.concat(got, ",", 2) ~= table.concat(want, ",")) then
    core.error(("backtest: forecast must return %s, or draws [S, ...] of that, got %s"):format(shape_text(actual),
      shape_text(prediction)))
  end
  return prediction
end

--- backtest(y, forecast, {steps =, first =, every =, season = 1}): rolling evaluation: from each origin t the function
--- forecast(history, steps, t) sees the history y[1 ... t] of a series (or several side by side) y [T, ...] and says
--- the next `steps` values: draws [S, steps, ...], or a point forecast [steps, ...]. Origins are first, first + every,
--- ... as long as `steps` values follow: first is by default season + steps, every is steps. Whether it trains anew at
--- each origin is the function's own business; what comes after t it is never shown.
---
--- Gives crps (the mean, fair; of a point the absolute error), mase, smape and normalised_deviation, each the mean over
--- the origins; by_origin, lists of them; by_step.crps [steps]; origins. print shows a table. Tashman 2000.
function rolling_origin.backtest(y, forecast, given)
  options.argument("backtest", "y", y, "tensor")
  options.argument("backtest", "forecast", forecast, "function")
  local o = options.check("backtest", given, backtest_options)
  local steps, season = options.whole("backtest", "steps", o.steps, 1), o.season
  local first = options.whole("backtest", "first", o.first or season + steps, season + 1)
  local every = options.whole("backtest", "every", o.every or steps, 1)
  if y:ndim() == 0 or y:size(1) < first + steps then
    core.error(("backtest: y must have at least %d steps, time first, got %s"):format(first + steps, shape_text(y)))
  end
  local pieces = {}
  for origin = first, y:size(1) - steps, every do
    local history, actual = y:slice(1, 1, origin), y:slice(1, origin + 1, origin + steps)
    pieces[#pieces + 1] = { origin = origin, y = actual, history = history,
      prediction = predicted(forecast, history, actual, origin) }
  end
  return rolling_origin.report(steps, pieces, season)
end

return rolling_origin
