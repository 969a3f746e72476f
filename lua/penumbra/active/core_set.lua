--- Data that cover the pool: the greedy k-center of features, from those that have labels on (Sener & Savarese 2018).
-- help: pn.active, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local core_set = {}

local BLOCK <const> = 1 << 20 -- elements of a block of distances

local function rows(where, role, x)
  options.argument(where, role, x, "tensor")
  if x:ndim() == 0 or not x:dtype():find "^float" then
    core.error(("%s: %s must be features, floats [N, ...], got %s [%s]"):format(where, role, x:dtype(),
      table.concat(x:shape(), ", ")))
  end
  x = x:detach():reshape { x:size(1), x:numel() // math.max(1, x:size(1)) }
  if x:numel() > 0 and not x:isfinite():all():item() then core.error(("%s: %s must be finite"):format(where, role)) end
  return x
end

-- The squared distance of each row of x to the nearest of `centres`, by blocks of these.
local function nearest_of(x, centres)
  local count, best = math.max(1, BLOCK // math.max(1, x:size(1))), nil
  local square = x:square():sum(2, true)
  for from = 1, centres:size(1), count do
    local part = centres:slice(1, from, math.min(centres:size(1), from + count - 1))
    local d = (square + part:square():sum(2) - x:matmul(part:t()) * 2):min(2)
    best = best and best:minimum(d) or d
  end
  return best:relu()
end

--- core_set(x, n [, {labelled =}]): the places, int64 [min(n, N)] from 0 on, of n rows of the features x [N, ...]:
--- always the one that is farthest from all that have a label, features `labelled` [L, ...], and from those chosen
--- before. Without labels the first is the row farthest from the mean. No row is then farther from the nearest centre
--- than twice what the best choice of n reaches.
function core_set.core_set(x, n, given)
  local where = "core_set"
  local o = options.check(where, given, { labelled = options.optional "tensor" })
  x = rows(where, "x", x)
  local N = x:size(1)
  n = math.min(options.whole(where, "n", n, 0), N)
  if n == 0 then return core.zeros({ 0 }, { dtype = "int64" }) end
  local nearest
  if o.labelled and o.labelled:size(1) > 0 then
    local labelled = rows(where, "labelled", o.labelled)
    if labelled:size(2) ~= x:size(2) or labelled:dtype() ~= x:dtype() then
      core.error(("%s: labelled must be %s features, %d a row, as x is, got %s, %d"):format(where, x:dtype(), x:size(2),
        labelled:dtype(), labelled:size(2)))
    end
    nearest = nearest_of(x, labelled)
  end
  local score = nearest or (x - x:mean(1, true)):square():sum(2)
  local places, index = {}, core.arange(N)
  for k = 1, n do
    local at = score:argmax(1):item()
    places[k] = at
    local d = (x - x:slice(1, at + 1, at + 1)):square():sum(2)
    nearest = core.where(index:eq(at), -1, nearest and nearest:minimum(d) or d) -- below 0: taken
    score = nearest
  end
  return core.tensor(places, { dtype = "int64" })
end

return core_set
