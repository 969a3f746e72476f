--- What the inference network of a sequential model is told at each step: features of those observations that its
--- conditioning lets it see, and of no others. Bayer, Soelch, Mirchev, Kayalibay & van der Smagt 2021, section 5.1.
---
---     local f = conditioned_features.new("vssm", { conditioning = "semi", prefix = 7, inputs = 6, units = 64, ... })
---     local first, later = f:of(x)      x [T, B, inputs] -> [B, f.first_size] for z_1, [T, B, f.size] for z_t, t > 1
---     f:sees(t, steps)                  bool [steps]: the steps that feature t depends on
---
---   "partial"  z_1 sees step 1, by layers of its own; z_t the steps 1 to t, by a recurrent network that runs forward
---   "semi"     z_1 sees the steps 1 to `prefix`; z_t as before
---   "full"     all see all steps: a network that runs both ways
---   a mask     bool [T, T], row t the steps that z_t sees: an affine map of those, each step with weights of its own;
---              for series of at most T steps
-- help: nowhere
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local progress = require "penumbra.progress"

local conditioned_features = {}

local methods = {}
local class = { network = true, __index = methods }

-- ---- layers ----

-- The k-th activation, of a name for all or a list.
local function activation_of(activation, k)
  return nn[type(activation) == "table" and activation[k] or activation]()
end

--- network(inputs, hidden, activation, outputs, o): a sequential of hidden layers, each with its activation, and a
--- linear one at the end; without it where outputs is nil. o.dtype, o.init (of weights, "xavier").
function conditioned_features.network(inputs, hidden, activation, outputs, o)
  local list, size = {}, inputs
  local how = { dtype = o.dtype, init = o.init or "xavier" }
  for k, width in ipairs(hidden) do
    list[#list + 1], list[#list + 2] = nn.linear(size, width, how), activation_of(activation, k)
    size = width
  end
  if outputs then
    list[#list + 1] = nn.linear(size, outputs, how)
  end
  return nn.sequential(list), outputs or size
end

conditioned_features.activation_of = activation_of

-- ---- kinds ----

-- The first steps of x [T, B, d] as [B, prefix d], zeros where there are none.
local function beginning(x, prefix)
  local steps, count, d = x:size(1), x:size(2), x:size(3)
  local head = x:slice(1, 1, math.min(steps, prefix)):transpose(1, 2):reshape { count, -1 }
  if steps < prefix then
    head = core.concatenate({ head, core.zeros({ count, (prefix - steps) * d }, { dtype = x:dtype() }) }, 2)
  end
  return head
end

local told = setmetatable({}, { __mode = "k" }) -- whose prefix was found to be too long

local function forward_only(self, x)
  if x:size(1) < self.prefix and not told[self] then
    told[self] = true
    progress.say(("%s: prefix %d is longer than a series of %d steps, of which z_1 sees all"):format(self.where,
      self.prefix, x:size(1)))
  end
  return self.first(beginning(x, self.prefix)), self.recurrent(x)
end

local function both_ways(self, x, lengths)
  local h = self.recurrent(x, lengths)
  return h:select(1, 1), h
end

-- Each step's own affine map of the steps that it sees.
local function masked(self, x)
  local steps, count, d = x:size(1), x:size(2), x:size(3)
  if steps > self.steps then
    core.error(("%s: conditioning is a mask of %d steps, the series has %d"):format(self.where, self.steps, steps))
  end
  local w = self.weight * self.mask
  w = w:slice(1, 1, steps):slice(2, 1, steps):reshape { steps, steps * d, self.size }
  local h = x:transpose(1, 2):reshape { 1, count, steps * d }:matmul(w) + self.bias:slice(1, 1, steps)
  return h:select(1, 1), h
end

local ways = { partial = forward_only, semi = forward_only, full = both_ways, mask = masked }

--- of(x [, lengths]): features for z_1 [B, first_size] and for the others [T, B, size] (what stands there for t = 1 is
--- not used) of what each step holds, x [T, B, inputs], 0 after the end of a series.
function methods:of(x, lengths)
  return ways[self.kind](self, x, lengths)
end

--- sees(t, steps): the steps that feature t depends on, of a series of so many: bool [steps].
function methods:sees(t, steps)
  if self.kind == "mask" then
    return self.seen[t]:slice(1, 1, steps)
  end
  local s = core.arange(1, steps + 1)
  return s:le(self.kind == "full" and steps or t == 1 and self.prefix or t)
end

-- ---- making ----

local function mask_of(where, given)
  local mask = type(given) == "table" and core.tensor(given) or given
  if not core.is_tensor(mask) or mask:dtype() ~= "bool" or mask:ndim() ~= 2 or mask:size(1) ~= mask:size(2)
    or mask:size(1) < 1 then
    core.error(("%s: conditioning must be 'partial', 'semi', 'full' or a mask, bool [T, T], got %s"):format(where,
      core.is_tensor(mask) and ("%s [%s]"):format(mask:dtype(), table.concat(mask:shape(), ", ")) or
      type(given) == "string" and "'" .. given .. "'" .. options.suggestion(given, { "partial", "semi", "full" })
      or type(given)))
  end
  return mask
end

local function recurrent(o, both)
  return nn.recurrent("gru", o.inputs, o.units, { layers = o.layers, bidirectional = both,
    options = { dtype = o.dtype } })
end

--- new(where, o): o.conditioning, o.prefix (of "semi"), o.inputs (numbers of a step), o.units and o.layers of the
--- recurrent network, o.hidden, o.activation and o.init of the layers that z_1 has of its own, o.dtype.
function conditioned_features.new(where, o)
  local kind = o.conditioning
  local self = setmetatable({ where = where, size = o.units, first_size = o.units }, class)
  if kind == "partial" or kind == "semi" then
    self.kind, self.prefix = kind, kind == "semi" and o.prefix or 1
    self.first, self.first_size = conditioned_features.network(self.prefix * o.inputs, o.hidden, o.activation, nil,
      { dtype = o.dtype, init = o.init })
    self.recurrent = recurrent(o, false)
  elseif kind == "full" then
    self.kind, self.recurrent = kind, recurrent(o, true)
    self.size, self.first_size = 2 * o.units, 2 * o.units
  else
    local mask = mask_of(where, kind)
    local steps, how = mask:size(1), { dtype = o.dtype }
    self.kind, self.steps, self.seen = "mask", steps, mask
    self.mask = mask:to(o.dtype):reshape { steps, steps, 1, 1 }
    self.weight = core.param(core.randn({ steps, steps, o.inputs, o.units }, how) / math.sqrt(steps * o.inputs))
    self.bias = core.param(core.zeros({ steps, 1, o.units }, how))
  end
  return self
end

return conditioned_features
