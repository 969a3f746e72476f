--- Scores of forecasts of series, time first, that are numbers without units. NaN in y was not observed and does not
--- count. A prediction is shaped like y, or draws [S, ...] of it, whose median is taken.
-- help: pn.metrics
local core = require "penumbra.core"
local options = require "penumbra.options"
local order = require "penumbra.array.order"

local forecast_score = {}

local shape_text = options.shape_text

-- ---- points ----

-- The point forecast: the prediction itself, or the median of draws.
local function point_of(where, y, prediction)
  options.argument(where, "y", y, "tensor")
  options.argument(where, "prediction", prediction, "tensor")
  if shape_text(y) == shape_text(prediction) then
    return prediction
  end
  options.draws(where, y, prediction)
  return order.median(prediction, 1)
end

local function none(x) return core.zeros({}, { dtype = x:dtype() }) end

-- x where y was observed, else 0; and which were.
local function at_observed(where, y, x)
  local observed = y:isnan():logical_not()
  if not observed:any():item() then
    core.error(where .. ": y must have at least one number that was observed")
  end
  return core.where(observed, x, none(x)), observed
end

local function mean_of(x, observed)
  return x:sum():item() / observed:to("float64"):sum():item()
end

--- normalised_deviation(y, prediction): sum |y - prediction| / sum |y| over all observed numbers: ND, as forecasting
--- libraries report it. Salinas, Flunkert, Gasthaus & Januschowski 2020.
function forecast_score.normalised_deviation(y, prediction)
  local where = "normalised_deviation"
  local error_, observed = at_observed(where, y, (y - point_of(where, y, prediction)):abs())
  local size = core.where(observed, y:abs(), none(y)):sum():item()
  if not (size > 0) then
    core.error(where .. ": y must have a number that is not 0")
  end
  return error_:sum():item() / size
end

--- smape(y, prediction): symmetric mean absolute percentage error, the mean over observed numbers of 2 |y - prediction|
--- / (|y| + |prediction|), which lies between 0 and 2 (0 where both are 0); times 100 it is the M4 competition's.
--- Makridakis 1993.
function forecast_score.smape(y, prediction)
  local point = point_of("smape", y, prediction)
  local apart, size = (y - point):abs() * 2, y:abs() + point:abs()
  local both = size:eq(0)
  local ratio = core.where(both, none(y), apart / core.where(both, none(y) + 1, size))
  return mean_of(at_observed("smape", y, ratio))
end

-- Mean absolute change of history [T, ...] from one season to the next, over pairs that were observed: [...].
local function seasonal_change(where, y, history, season)
  options.argument(where, "history", history, "tensor")
  local want, got = y:shape(), history:shape()
  if #want ~= #got or #want == 0 or table.concat(want, ",", 2) ~= table.concat(got, ",", 2) then
    core.error(("%s: history must be [T, ...], time first, of the series of y %s, got %s"):format(where, shape_text(y),
      shape_text(history)))
  elseif got[1] <= season then
    core.error(("%s: history must be longer than a season of %d steps, got %s"):format(where, season,
      shape_text(history)))
  end
  local change = (history:slice(1, season + 1, -1) - history:slice(1, 1, got[1] - season)):abs()
  local seen = change:isnan():logical_not()
  local scale = core.where(seen, change, none(change)):sum(1) / seen:to(change:dtype()):sum(1)
  if not scale:gt(0):all():item() then
    core.error(("%s: history must change from one season of %d steps to the next, in each series"):format(where,
      season))
  end
  return scale
end

--- mase(y, prediction, history [, {season = 1}]): mean absolute scaled error of y [H, ...]: |y - prediction| over the
--- mean absolute change of the history [T, ...] of the same series from one season to the next, each series by its own,
--- then the mean over observed numbers: below 1 what is better than the seasonal naive forecast was, one step ahead, in
--- the history. Hyndman & Koehler 2006.
function forecast_score.mase(y, prediction, history, given)
  local o = options.check("mase", given, { season = 1 })
  local point = point_of("mase", y, prediction)
  local scaled = (y - point):abs() / seasonal_change("mase", y, history, o.season):unsqueeze(1)
  return mean_of(at_observed("mase", y, scaled))
end

return forecast_score
