--- Worlds that make sequences and know their exact likelihood, in which sequential inference that leaves out later
--- observations must lose: flights seen by position alone, pictures read row by row, days of traffic.
---
---     local world = pn.gap.flights()
---     local x, states = world:sample(1000, {seed = 1})      x [25, 1000, 3]
---     world:log_prob(x)                                      [1000]: exact, in nats a sequence
---
--- Time is the leading axis of x [T, n, p]. Options of sample: seed or generator, dtype. Fields: steps T, size p,
--- ceiling: the most that log p(x_t | z_t) can be, in nats a step.
-- help: pn.gap, methods world
local core = require "penumbra.core"
local matrix = require "penumbra.array.matrix"
local options = require "penumbra.options"
local distribution = require "penumbra.distribution"
local hmm = require "penumbra.smc.hmm"
local system = require "penumbra.smc.system"

local surrogate = {}

local LOG_TAU = core.log_2pi

--- ceiling(scale): the most that log p(x_t | z_t) of normal observations with these standard deviations (a number, or a
--- list: one for each element) can be, in nats a step; a number.
function surrogate.ceiling(scale)
  local sd = options.numbers("ceiling", "scale", scale)
  sd = core.is_tensor(sd) and sd or core.tensor(sd)
  if not sd:gt(0):all():item() then
    core.error "ceiling: scale must be positive"
  end
  return -(sd:log() + LOG_TAU / 2):sum():item()
end

-- n, a generator and the dtype of a call of sample.
local function read_sample(n, given)
  local o = options.check("sample", given, { seed = options.optional "number", generator = options.optional "generator",
    dtype = "float64" })
  options.whole("sample", "n", n, 1)
  if o.seed and o.generator then
    core.error "sample: seed and generator exclude each other"
  elseif o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("sample: dtype must be 'float64' or 'float32', got '%s'"):format(o.dtype))
  end
  return n, o.generator or o.seed and core.generator(o.seed) or nil, o.dtype
end

-- x [T, n, p] in float64.
local function read_x(self, where, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 3 or x:size(1) ~= self.steps or x:size(3) ~= self.size or x:size(2) == 0 then
    core.error(("%s: x must be [%d, n, %d], got [%s]"):format(where, self.steps, self.size,
      table.concat(x:shape(), ", ")))
  end
  return x:to "float64"
end

-- ---- what all worlds can do ----

local methods = {}
local class = { __name = "world" }

function class:__tostring()
  return ("world of sequences of %d steps of %d numbers"):format(self.steps, self.size)
end

--- world:sample(n [, {seed =, generator =, dtype = "float64"}]) -> x [T, n, p], and what is hidden: of flights states
--- [T, n, 6] (positions, then speeds), of pictures classes int64 [n], of traffic regimes int64 [T, n] (1: jam).
function methods:sample(n, given)
  local count, generator, dtype = read_sample(n, given)
  local x, hidden = self.kind.sample(self, count, generator)
  return x:to(dtype), hidden:dtype() == "int64" and hidden or hidden:to(dtype)
end

--- world:log_prob(x) -> [n]: log p(x) of each sequence, exact: by the Kalman filter, the sum over all templates and
--- shifts, the forward algorithm.
function methods:log_prob(x)
  return (self.kind.log_prob(self, read_x(self, "log_prob", x)))
end

-- The world's own kind, or an error that names the one that the function is of.
local function only(self, where, kind, what)
  if self.kind ~= kind then
    core.error(("%s: this is of %s"):format(where, what))
  end
end

-- ---- flights ----

local flights = {}

--- Draws of flights.
function flights.sample(self, count, generator)
  local states, seen = self.system:sample(self.steps, { draws = count, first = "predicted", generator = generator })
  return seen:transpose(1, 2):contiguous(), states:transpose(1, 2):contiguous()
end

--- The density of flights.
function flights.log_prob(self, x)
  return self.system:log_likelihood(x, { first = "predicted" })
end

--- flights([{steps = 25, noise_scale = {0.15, 0.15, 0.075}}]): double integrators, one for each axis, of which the
--- position is seen: p_t = p_(t-1) + 0.1 v_(t-1) + N(0, 1e-4), v_t = v_(t-1) + N(0, 1e-2), x_t = p_t +
--- N(0, noise_scale^2), first state N(0, diag(0.01, 1)). `system` is that of all axes (positions, then speeds), to be
--- taken with first = "predicted". A control that enters the speed changes neither likelihood nor gaps.
function surrogate.flights(given)
  local o = options.check("flights", given, { steps = 25, noise_scale = options.any { 0.15, 0.15, 0.075 } })
  local steps = options.whole("flights", "steps", o.steps, 1)
  local sd = options.numbers("flights", "noise_scale", o.noise_scale, "tensor")
  if sd:ndim() ~= 1 or not sd:gt(0):all():item() then
    core.error "flights: noise_scale must be a list of positive numbers, one for each axis"
  end
  local axes = sd:size(1)
  local function both(a, b, c, d) -- the same 2 x 2 block for each axis
    return matrix.kron(core.tensor { { a, b }, { c, d } }, core.eye(axes))
  end
  local s = system.linear_system { transition = both(1, 0.1, 0, 1), transition_cov = both(1e-4, 0, 0, 1e-2),
    emission = core.eye(axes, 2 * axes), emission_cov = sd:square():diag_embed(),
    initial_mean = core.zeros { 2 * axes }, initial_cov = both(0.01, 0, 0, 1) }
  return setmetatable({ kind = flights, steps = steps, size = axes, system = s, noise_scale = sd,
    ceiling = surrogate.ceiling(sd) }, class)
end

-- ---- pictures row by row ----

local SIDE, MOST_SHIFT, FLIP, CLASSES = 28, 2, 0.02, 10

-- Strokes as {first row, last row, first column, last column}; those of the upper half end in row 12.
local stroke = {
  a = { 3, 5, 8, 21 }, f = { 3, 12, 8, 10 }, b = { 3, 12, 19, 21 }, g = { 13, 15, 8, 21 }, e = { 13, 25, 8, 10 },
  c = { 13, 25, 19, 21 }, d = { 23, 25, 8, 21 },
}
-- 0, 3, 8 and 9 have the same upper half.
local glyphs = { [0] = "abfecd", "bc", "abged", "abfgcd", "fbgc", "afgcd", "fgecd", "abc", "abfgecd", "abfgc" }

-- The templates, each at each shift: [10, 5, 28, 28].
local function templates()
  local all = {}
  for digit = 0, CLASSES - 1 do
    local shifted = {}
    for shift = -MOST_SHIFT, MOST_SHIFT do
      local rows = {}
      for r = 1, SIDE do
        rows[r] = {}
        for c = 1, SIDE do rows[r][c] = 0 end
      end
      for name in glyphs[digit]:gmatch "." do
        local s = stroke[name]
        for r = s[1], s[2] do
          for c = s[3], s[4] do rows[r][c + shift] = 1 end
        end
      end
      shifted[#shifted + 1] = rows
    end
    all[digit + 1] = shifted
  end
  return core.tensor(all)
end

local pictures = {}

--- Draws of pictures.
function pictures.sample(self, count, generator)
  local how = { generator = generator }
  local label = core.randint(0, CLASSES, { count }, how)
  local shift = core.randint(0, 2 * MOST_SHIFT + 1, { count }, how)
  local clean = self.templates:reshape { -1, SIDE, SIDE }:take(1, label * (2 * MOST_SHIFT + 1) + shift)
  local flipped = core.rand(clean:shape(), how):lt(FLIP):to "float64"
  local x = (clean - flipped):abs()
  return x:transpose(1, 2):contiguous(), label
end

-- log p(x, class, shift), [n, 50].
local function joint(self, x)
  local flat = x:transpose(1, 2):reshape { -1, SIDE * SIDE }
  local t = self.templates:reshape { -1, SIDE * SIDE }
  local agree = flat:matmul(t:t()) + (1 - flat):matmul((1 - t):t())
  return agree * math.log(1 - FLIP) + (SIDE * SIDE - agree) * math.log(FLIP) - math.log(t:size(1))
end

--- The density of pictures.
function pictures.log_prob(self, x)
  return joint(self, x):logsumexp(-1)
end

--- world:class_log_probs(x) -> [n, 10]: log p(class | x) of pictures, exact.
function methods:class_log_probs(x)
  only(self, "class_log_probs", pictures, "glyph_rows")
  local all = joint(self, read_x(self, "class_log_probs", x))
  return all:reshape { -1, CLASSES, 2 * MOST_SHIFT + 1 }:logsumexp(-1) - all:logsumexp({ -1 }, true)
end

--- glyph_rows(): ten digits of 28 x 28 pixels, 0 or 1, read from the top: x [28, n, 28]. Each class is as likely,
--- moved sideways by -2 to 2 pixels, each pixel then flipped with probability 0.02. 0, 3, 8 and 9 have the same rows 1
--- to 12. `templates` [10, 5, 28, 28].
function surrogate.glyph_rows(given)
  options.check("glyph_rows", given, {})
  return setmetatable({ kind = pictures, steps = SIDE, size = SIDE, templates = templates(), ceiling = 0 }, class)
end

-- ---- days of traffic ----

local DAY = 26

local traffic = {}

-- Speeds of regimes.
local function speeds(self, regime, how)
  local jam = regime:to "float64"
  local noise = core.randn(regime:shape(), how)
  local loc, scale = self.loc, self.scale
  return loc[1] + (loc[2] - loc[1]) * jam + (scale[1] + (scale[2] - scale[1]) * jam) * noise
end

--- Draws of days of traffic.
function traffic.sample(self, count, generator)
  local regime, speed = self.model:sample(self.steps, { batch_shape = { count }, generator = generator })
  return speed:unsqueeze(-1), regime
end

--- The density of days of traffic.
function traffic.log_prob(self, x)
  return self.model:log_likelihood(x:squeeze(-1))
end

--- world:sample_after(prefix, draws [, {generator =}]) -> [draws, T - k, n, 1]: draws of what follows the first k steps
--- of days of traffic, prefix [k, n, 1], under the exact law.
function methods:sample_after(prefix, draws, given)
  only(self, "sample_after", traffic, "traffic_days")
  local o = options.check("sample_after", given, { generator = options.optional "generator" })
  options.argument("sample_after", "prefix", prefix, "tensor")
  options.whole("sample_after", "draws", draws, 1)
  local k = prefix:ndim() == 3 and prefix:size(3) == 1 and prefix:size(1) or self.steps
  if k < 1 or k >= self.steps then
    core.error(("sample_after: prefix must be [k, n, 1] with k from 1 to %d, got [%s]"):format(self.steps - 1,
      table.concat(prefix:shape(), ", ")))
  end
  local how, n = { generator = o.generator }, prefix:size(2)
  local gap = core.full({ self.steps - k, n }, 0 / 0)
  local seen = core.concatenate({ prefix:to("float64"):squeeze(-1), gap }, 1)
  local last = self.model:filter(seen).filtered[k]:exp():select(-1, 2) -- the probability of a jam at step k
  local jam = core.rand({ draws, n }, how):lt(last):to "float64"
  local out = {}
  for t = k + 1, self.steps do
    local onset = self.onset[t]
    local p = jam * (1 - self.recovery) + (1 - jam) * onset
    jam = core.rand({ draws, n }, how):lt(p):to "float64"
    out[t - k] = speeds(self, jam, how):unsqueeze(-1)
  end
  return core.stack(out, 2)
end

--- traffic_days(): mean speeds of 26 half hours of a day, x [26, n, 1]: normal(60, 3) in free flow, normal(25, 6) in a
--- jam. A jam begins with probability 0.02 at a step, at steps 3 to 6 and 20 to 23 with 0.25, and ends with 0.3; before
--- the first step traffic flows. `model` is its pn.smc.hmm.
function surrogate.traffic_days(given)
  options.check("traffic_days", given, {})
  local recovery, onset, transition = 0.3, {}, {}
  for t = 1, DAY do
    local peak = t >= 3 and t <= 6 or t >= 20 and t <= 23
    onset[t] = peak and 0.25 or 0.02
    transition[t] = { { 1 - onset[t], onset[t] }, { recovery, 1 - recovery } }
  end
  local loc, scale = { 60, 25 }, { 3, 6 }
  local model = hmm.new { initial = { 1 - onset[1], onset[1] }, transition = core.tensor(transition),
    emission = distribution.normal(core.tensor(loc), core.tensor(scale)) }
  return setmetatable({ kind = traffic, steps = DAY, size = 1, model = model, onset = onset, recovery = recovery,
    loc = loc, scale = scale, ceiling = surrogate.ceiling(math.min(scale[1], scale[2])) }, class)
end

class.__index = core.namespace("a world", methods)

surrogate.methods = methods
-- The methods of what these make, by what help calls the objects.
surrogate.objects = { ["world:"] = methods }

return surrogate
