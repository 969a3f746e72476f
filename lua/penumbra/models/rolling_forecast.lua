--- Rolling evaluation of a forecaster: what m:backtest does.
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"
local rolling_origin = require "penumbra.metrics.rolling_origin"

local rolling_forecast = {}

local backtest_options = { series = options.required "table", steps = options.required "number", origins = 1,
  every = options.optional "number", history = options.optional "number", season = 1, draws = 100,
  generator = options.optional "generator" }

-- The values of all items up to the last `drop` ones, NaN before shorter series begin: [T, B, p].
local function past(set, drop)
  local most, list = 0, {}
  for _, item in ipairs(set.items) do most = math.max(most, item.length - drop) end
  for k, item in ipairs(set.items) do
    local y = item.target:slice(1, 1, item.length - drop)
    local short = most - y:size(1)
    list[k] = short == 0 and y
      or core.concatenate({ core.full({ short, set.size }, 0 / 0, { dtype = y:dtype() }), y }, 1)
  end
  return core.stack(list, 2)
end

--- backtest(model, given): see m:backtest.
function rolling_forecast.backtest(self, given)
  local o = options.check("backtest", given, backtest_options)
  if type(o.series.windows) ~= "function" then
    core.error "backtest: series must be a series set, as pn.data.series makes one"
  end
  local steps = options.whole("backtest", "steps", o.steps, 1)
  local origins = options.whole("backtest", "origins", o.origins, 1)
  local every = options.whole("backtest", "every", o.every or steps, 1)
  local longest, pieces = steps + (origins - 1) * every, {}
  for _, item in ipairs(o.series.items) do
    if item.length <= longest + o.season then
      core.error(("backtest: item '%s' has %d steps, %d origins need more than %d"):format(item.item_id, item.length,
        origins, longest + o.season))
    end
  end
  for r = 1, origins do
    local drop = steps + (origins - r) * every
    local batch = o.series:history { steps = o.history, drop = drop }
    local future = o.series:future { steps = steps, drop = drop }
    local uses = self.covariates > 0
    batch.inputs = uses and batch.inputs or nil
    pieces[r] = { origin = -drop, y = future.y, history = past(o.series, drop),
      prediction = self:forecast(batch, steps, { draws = o.draws, inputs = uses and future.inputs or nil,
        generator = o.generator }):to(future.y:dtype()) }
  end
  return rolling_origin.report(steps, pieces, o.season)
end

return rolling_forecast
