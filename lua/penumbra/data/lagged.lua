--- Earlier values of a series as its inputs.
-- help: pn.data
local core = require "penumbra.core"
local options = require "penumbra.options"

local lagged = {}

-- The list of lags, each a whole number from 1.
local function read_lags(list)
  options.argument("lags", "lags", list, "table")
  local out = {}
  for k, lag in ipairs(list) do out[k] = options.whole("lags", ("lags[%d]"):format(k), lag, 1) end
  if #out == 0 then
    core.error "lags: lags must have at least one number, as {1, 7}"
  end
  return out
end

--- lags(y, lags [, {ahead = 0, fill = NaN}]): what y [T] or [T, ..., p] was at earlier steps, as inputs: [T + ahead,
--- ..., p k] for a list of k lags, lag after lag: row t has y[t - lag]. ahead: rows for so many steps after the last,
--- for forecasts; each lag must reach back to what is known then. Where there is no earlier value, and where it is NaN,
--- the number `fill`.
---
---     local x = pn.data.lags(y, { 24, 168 }, { ahead = 24, fill = 0 })     -- covariates of an item of pn.data.series
function lagged.lags(y, lags, given)
  options.argument("lags", "y", y, "tensor")
  local o = options.check("lags", given, { ahead = 0, fill = options.any(0 / 0) })
  local ahead = options.whole("lags", "ahead", o.ahead, 0)
  lags = read_lags(lags)
  if y:ndim() == 0 then
    core.error "lags: y must be [T] or [T, ..., p], time first, got []"
  end
  local x = y:ndim() == 1 and y:unsqueeze(2) or y
  local steps, parts = x:size(1), {}
  for k, lag in ipairs(lags) do
    if lag < ahead then
      core.error(("lags: a lag must be at least ahead, %d, or it asks for what is not known yet, got lags[%d] = %d")
        :format(ahead, k, lag))
    end
    local before = math.min(lag, steps + ahead)
    local known = steps + ahead - before
    local shape = x:shape()
    shape[1] = before
    local empty = core.full(shape, o.fill, { dtype = x:dtype() })
    parts[k] = known > 0 and core.concatenate({ empty, x:slice(1, 1, known) }, 1) or empty
  end
  local out = #parts > 1 and core.concatenate(parts, x:ndim()) or parts[1]
  if o.fill == o.fill then
    out = core.where(out:isnan(), core.full({}, o.fill, { dtype = out:dtype() }), out)
  end
  return out
end

return lagged
