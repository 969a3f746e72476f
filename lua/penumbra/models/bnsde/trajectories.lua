--- Trajectories as a Bayesian neural SDE sees them: read, checked, rows first.
---
---     y          [N, T, p], 0 where nothing was observed
---     observed   [N, T, p], 1 where something was, in the model's dtype
---     times      [N, T]; after the end of a trajectory the last time again, so that its path stands still
---     parts      list of T - 1: into how many Euler steps the interval from each time to the next is divided
---     first      the position of the time at which paths begin; `counted` that of the first observation that counts
---     last       int64 [N]: the position of each trajectory's own end, from 0
-- help: nowhere
local core = require "penumbra.core"
local options = require "penumbra.options"

local trajectories = {}

local MOST <const> = 1000000 -- Euler steps of a path

local known = { y = options.required "tensor", times = options.required(), lengths = options.optional() }

local function text_of(x) return "[" .. table.concat(x:shape(), ", ") .. "]" end

local function all(x) return x:all():item() end

-- int64 [B], whole numbers from 1 to T; nil for nil.
local function lengths_of(where, v, steps, count)
  if v == nil then
    return nil
  end
  local x = type(v) == "table" and core.tensor(v, { dtype = "int64" }) or options.argument(where, "lengths", v,
    "tensor")
  if x:dtype() ~= "int64" or x:ndim() ~= 1 or x:size(1) ~= count or not all(x:ge(1):logical_and(x:le(steps))) then
    core.error(("%s: lengths must be int64 [%d], from 1 to %d"):format(where, count, steps))
  end
  return x
end

-- times [T] or [T, B] as [B, T], after the end the last time of each; and the intervals [T - 1, B], nil of one time.
local function times_of(where, self, v, steps, count, lengths)
  local t = options.numbers(where, "times", v, "tensor"):detach():to(self.dtype)
  local shape = t:shape()
  if not (#shape == 1 and shape[1] == steps or #shape == 2 and shape[1] == steps and shape[2] == count) then
    core.error(("%s: times must have shape [%d] or [%d, %d], got %s"):format(where, steps, steps, count, text_of(t)))
  end
  t = #shape == 1 and t:unsqueeze(2):broadcast_to { steps, count } or t
  if lengths then
    local ends = t:gather(1, (lengths - 1):unsqueeze(1))
    t = core.where(core.arange(steps, { dtype = "int64" }):unsqueeze(2):lt(lengths), t, ends)
  end
  if not all(t:isfinite()) then
    core.error(where .. ": times must be finite")
  end
  if steps == 1 then
    return t:t():contiguous(), nil
  end
  local width = t:slice(1, 2, steps) - t:slice(1, 1, steps - 1)
  if not all(lengths and width:ge(0) or width:gt(0)) then
    core.error(where .. ": times must increase")
  end
  return t:t():contiguous(), width
end

--- parts(where, width, step): into how many steps of at most `step` (nil: one) the intervals [T - 1, B] fall, a list.
function trajectories.parts(where, width, step)
  local parts, total = {}, 0
  for k, longest in ipairs(width:max(2):totable()) do
    parts[k] = step and math.max(1, math.ceil(longest / step - 1e-6)) or 1
    total = total + parts[k]
    if total > MOST then
      core.error(("%s: step %g makes more than %d steps of these times"):format(where, step, MOST))
    end
  end
  return parts
end

-- What the beginning of paths needs of the data.
local function check_beginning(where, self, b, count)
  if self.initial == "law" then
    return
  end
  local seen = b.observed:slice(2, 1, count)
  if not all(seen:gt(0)) then
    core.error(("%s: the first %s of each trajectory must be observed, where paths begin, or give bnsde a law as "
      .. "`initial`"):format(where, count > 1 and count .. " observations" or "observation"))
  end
end

--- read(where, model, batch [, alone]): the trajectories of {y = [T, B, p], times = [T] or [T, B], lengths =}; with
--- `alone`, those that may end where paths begin.
function trajectories.read(where, self, batch, alone)
  local o = options.check(where, batch, known)
  local y = o.y:detach()
  if y:ndim() ~= 3 or y:size(3) ~= self.size or y:numel() == 0 then
    core.error(("%s: y must have shape [T, B, %d], got %s"):format(where, self.size, text_of(y)))
  elseif not y:dtype():find "^float" then
    core.error(("%s: y must be float64 or float32, got %s (convert with :to)"):format(where, y:dtype()))
  end
  local steps, count = y:size(1), y:size(2)
  local first = self.initial == "encoder" and self.prefix or 1
  if steps < (alone and first or first + 1) then
    core.error(("%s: y must have at least %d steps, got %d"):format(where, alone and first or first + 1, steps))
  end
  local lengths = lengths_of(where, o.lengths, steps, count)
  y = y:to(self.dtype):transpose(1, 2):contiguous()
  local observed = y:eq(y)
  if lengths then
    if lengths:min():item() < first then
      core.error(("%s: lengths must be at least %d, where paths begin"):format(where, first))
    end
    observed = observed:logical_and(core.arange(steps, { dtype = "int64" }):lt(lengths:unsqueeze(2)):unsqueeze(3))
  end
  y = core.where(observed, y, core.zeros({}, { dtype = self.dtype }))
  if not all(y:isfinite()) then
    core.error(where .. ": y must be finite, or NaN where nothing was observed")
  end
  local b = { y = y, observed = observed:to(self.dtype), size = count, steps = steps, first = first,
    counted = self.initial == "law" and 1 or first + 1,
    last = lengths and lengths - 1 or core.full({ count }, steps - 1, { dtype = "int64" }) }
  local width
  b.times, width = times_of(where, self, o.times, steps, count, lengths)
  b.parts = width and trajectories.parts(where, width, self.step) or {}
  check_beginning(where, self, b, first)
  return b
end

--- rows(b, y, observed, times): the trajectories of which a minibatch has these tensors.
function trajectories.rows(b, y, observed, times)
  return { y = y, observed = observed, times = times, size = y:size(1), steps = y:size(2), parts = b.parts,
    first = b.first, counted = b.counted }
end

--- windows(b, size): of each trajectory `size` steps from a start that is drawn, all that fit alike likely; every
--- interval has as many Euler steps as the longest.
function trajectories.windows(b, size)
  local most = 1
  for _, m in ipairs(b.parts) do most = math.max(most, m) end
  local parts = {}
  for k = 1, size - 1 do parts[k] = most end
  local count, room = b.size, b.steps - size + 1
  local start = core.randint(0, room, { count, 1 })
  local index = start + core.arange(size, { dtype = "int64" })
  local wide = index:unsqueeze(3):broadcast_to { count, size, b.y:size(3) }
  return { y = b.y:gather(2, wide), observed = b.observed:gather(2, wide), times = b.times:gather(2, index),
    size = count, steps = size, parts = parts, first = b.first, counted = b.counted }
end

return trajectories
