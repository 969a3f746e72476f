--- Batches of series as models see them: read, checked, on the models' scale, with masks in the place of NaN and of
--- lengths. Fields of a prepared batch:
---
---     y           [T, B, p], (y - location) / scale; 0 where nothing was observed
---     raw         [T, B, p], y itself, 0 where nothing was observed; of models of counts (self.discrete) alone
---     observed    bool [T, B, p]: seen, and not after the end of the series
---     active      bool [T, B]: not after the end; nil where all series are of T steps
---     complete    true if all of `observed` is true
---     inputs      [T, B, k], 0 after the end; nil for a model without covariates
---     lengths     int64 [B], or nil;   series: int64 [B], or nil
---     start       int64 [B]: the step of the first observation, 0 where none was given
---     location, scale   [B, p]
---     steps, size       T, B
-- help: pn.models
local core = require "penumbra.core"
local options = require "penumbra.options"

local prepared_batch = {}

local shape_text = options.shape_text

-- ---- reading ----

local known = { y = options.required "tensor", inputs = options.optional "tensor", lengths = options.optional(),
  series = options.optional(), start = options.optional(), context = options.optional "number",
  location = options.optional "tensor", scale = options.optional "tensor" }

-- A list or int64 tensor of `size` whole numbers from least to most, as a tensor.
local function whole_numbers(where, role, v, size, least, most)
  local x = type(v) == "table" and core.tensor(v, { dtype = "int64" }) or options.argument(where, role, v, "tensor")
  if x:dtype() ~= "int64" or x:ndim() ~= 1 or x:size(1) ~= size then
    core.error(("%s: %s must be int64 [%d], got %s %s"):format(where, role, size, x:dtype(), shape_text(x)))
  elseif x:min():item() < least or x:max():item() > most then
    core.error(("%s: %s must lie between %d and %d, got %d to %d"):format(where, role, least, most, x:min():item(),
      x:max():item()))
  end
  return x
end

--- real(where, self, role, x, want): x, of shape `want`, in the model's dtype, into which the other real one is
--- converted.
function prepared_batch.real(where, self, role, x, want)
  if not x:dtype():find "^float" then
    core.error(("%s: %s must be float64 or float32, got %s (convert with :to)"):format(where, role, x:dtype()))
  elseif shape_text(x) ~= want then
    core.error(("%s: %s must have shape %s, got %s"):format(where, role, want, shape_text(x)))
  end
  return x:to(self.dtype)
end
local real = prepared_batch.real

-- Shapes and dtypes of what was given, whose tensors are converted in place of their options.
local function check(where, self, o, size)
  local y = o.y
  if y:ndim() ~= 3 or y:size(3) ~= self.size or y:size(1) < 1 or y:size(2) < 1 or size and y:size(2) ~= size then
    core.error(("%s: y must have shape [T, %s, %d], got %s"):format(where, size and tostring(size) or "B", self.size,
      shape_text(y)))
  end
  local steps, b = y:size(1), y:size(2)
  o.y = real(where, self, "y", y, shape_text(y))
  if self.covariates > 0 or o.inputs then
    local want = ("[%d, %d, %d]"):format(steps, b, self.covariates)
    if self.covariates == 0 then
      core.error(where .. ": inputs must be absent, this model has no covariates")
    elseif not o.inputs then
      core.error(("%s: inputs, the covariates, must have shape %s, got nil"):format(where, want))
    end
    o.inputs = real(where, self, "inputs", o.inputs, want)
  end
  if (o.location == nil) ~= (o.scale == nil) then
    core.error(where .. ": location and scale come together")
  end
  for _, role in ipairs { "location", "scale" } do
    if o[role] then
      o[role] = real(where, self, role, o[role], ("[%d, %d]"):format(b, self.size))
    end
  end
  if o.context and options.whole(where, "context", o.context, 1) > steps then
    core.error(("%s: context must be at most %d, the steps of y, got %d"):format(where, steps, o.context))
  end
end

-- ---- scales ----

-- x where the bool tensor is true, else 0.
local function kept(mask, x)
  return core.where(mask, x, core.zeros({}, { dtype = x:dtype() }))
end

-- The mean along the first axis of x [T, B, p] where the mask is true; 0 where nothing is.
local function mean_of(mask, x)
  local count = mask:to(x:dtype()):sum(1)
  return kept(mask, x):sum(1) / count:clamp(1, math.huge)
end

-- 1 in the place of a scale that is 0.
local function positive(scale)
  return core.where(scale:gt(0), scale, core.ones({}, { dtype = scale:dtype() }))
end

-- A scale, but not less than the share `least` of the mean |y|.
local function at_least(scale, least, y, observed)
  return positive(least > 0 and core.maximum(scale, mean_of(observed, y:abs()) * least) or scale)
end

local function none(y)
  local shape = { y:size(2), y:size(3) }
  return core.zeros(shape, { dtype = y:dtype() }), core.ones(shape, { dtype = y:dtype() })
end

local function mean(y, observed)
  return (none(y)), positive(mean_of(observed, y:abs()))
end

local function standard(y, observed, least)
  local location = mean_of(observed, y)
  return location, at_least(mean_of(observed, (y - location):square()):sqrt(), least, y, observed)
end

local function change(y, observed, least)
  local first = observed:to "int64":argmax(1):unsqueeze(1)
  local location = kept(observed, y):gather(1, first):squeeze(1)
  local steps = y:size(1)
  if steps == 1 then
    return location, (core.ones(location:shape(), { dtype = y:dtype() }))
  end
  local both = observed:slice(1, 2, steps):logical_and(observed:slice(1, 1, steps - 1))
  local moved = mean_of(both, (y:slice(1, 2, steps) - y:slice(1, 1, steps - 1)):abs())
  return location, at_least(moved, least, y, observed)
end

-- Location and scale [B, p] of y [T, B, p] where observed.
local scalings = { none = none, mean = mean, standard = standard, change = change }

-- ---- the batch ----

-- Which steps are not after the end, bool [T, B].
local function active_of(lengths, steps)
  return core.arange(steps, { dtype = "int64" }):unsqueeze(2):lt(lengths)
end

--- read(where, model, batch [, size]): the prepared batch for the model, in the function called `where`; size is that
--- which B must have.
function prepared_batch.read(where, self, batch, size)
  if type(batch) ~= "table" then
    local got = core.is_tensor(batch) and "tensor" or type(batch)
    core.error(("%s: a batch is a table {y = [T, B, p], inputs =, ...}, as set:history{steps =} gives it, got a %s")
      :format(where, got))
  end
  local o = options.check(where, batch, known)
  check(where, self, o, size)
  local y, u, active = o.y:detach(), o.inputs, nil
  local steps, count = y:size(1), y:size(2)
  local b = { steps = steps, size = count }
  if o.lengths then
    b.lengths = whole_numbers(where, "lengths", o.lengths, count, 1, steps)
    active = b.lengths:min():item() < steps and active_of(b.lengths, steps) or nil
    b.lengths = active and b.lengths
  end
  if self.identities > 0 then
    if o.series == nil then
      core.error(("%s: series, the identities, must be int64 [%d], got nil"):format(where, count))
    end
    b.series = whole_numbers(where, "series", o.series, count, 0, self.identities - 1)
  end
  b.start = o.start == nil and core.zeros({ count }, { dtype = "int64" })
    or whole_numbers(where, "start", o.start, count, 0, 1 << 53)
  local observed = y:eq(y)
  if active then
    observed = observed:logical_and(active:unsqueeze(3))
    u = u and kept(active:unsqueeze(3), u)
  end
  local raw = kept(observed, y)
  if not raw:isfinite():all():item() then
    core.error(where .. ": y must be finite, or NaN where nothing was observed")
  end
  if o.scale and not o.scale:gt(0):all():item() then
    core.error(where .. ": scale must be positive")
  end
  if o.scale then
    b.location, b.scale = o.location:detach(), o.scale:detach()
  else
    local from = o.context or steps
    b.location, b.scale = scalings[self.scaling](raw:slice(1, 1, from), observed:slice(1, 1, from),
      self.least_scale)
  end
  b.y, b.raw = kept(observed, (raw - b.location) / b.scale), self.discrete and raw or nil
  b.observed, b.active, b.inputs = observed, active, u
  b.complete = observed:all():item()
  return b
end

--- log_jacobian(b): what the log density of y has less than that of what the model sees, [B]: the sum of log scale over
--- what was observed.
function prepared_batch.log_jacobian(b)
  return (b.observed:to(b.scale:dtype()):sum(1) * b.scale:log()):sum(2)
end

--- time(b): the steps [T, B] (int64) of a prepared batch, or of what is to come: for seasons, which follow from the
--- step.
function prepared_batch.time(b)
  return core.arange(b.steps, { dtype = "int64" }):unsqueeze(2) + b.start
end

--- at_lengths(b, x): of x [T, B, ...] what stands at each series' own last step, [B, ...].
function prepared_batch.at_lengths(b, x)
  if not b.lengths then
    return x:select(1, -1)
  end
  local shape, index = x:shape(), { 1, b.size }
  for axis = 3, #shape do
    index[axis] = 1
  end
  shape[1] = 1
  return x:gather(1, (b.lengths - 1):reshape(index):broadcast_to(shape)):squeeze(1)
end

-- Which axis of a field is that of the series.
local axes = { y = 2, raw = 2, observed = 2, active = 2, inputs = 2, lengths = 1, series = 1, start = 1, location = 1,
  scale = 1 }

--- rows(b, index): the series of a prepared batch at the places of int64 index [K], from 0.
function prepared_batch.rows(b, index)
  local out = { steps = b.steps, size = index:size(1), complete = b.complete }
  for name, axis in pairs(axes) do
    out[name] = b[name] and b[name]:take(axis, index)
  end
  return out
end

--- for_draws(x, k): x [T, B, ...] for each of k draws, [T, k B, ...]; nil for nil.
function prepared_batch.for_draws(x, k)
  if not x or k == 1 then
    return x
  end
  local shape = x:shape()
  local wide = { shape[1], k, table.unpack(shape, 2) }
  local flat = { shape[1], k * shape[2], table.unpack(shape, 3) }
  return x:unsqueeze(2):broadcast_to(wide):contiguous():reshape(flat)
end

return prepared_batch
