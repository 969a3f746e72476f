--- Draws of the states and observations of a linear system: from the prior and given observations. A path of draws is
--- the mean of a prediction whose offsets are the noise.
-- help: pn.smc
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"
local smoothing = require "penumbra.smc.kalman.smoothing"

local drawing = {}

local fused = core.gaussian
local apply, spread = linear_system.apply, linear_system.spread

local function joined(...)
  local list = {}
  for k = 1, select("#", ...) do
    list[k] = (select(k, ...)) or nil
  end
  return list
end

-- Normal draws [lead..., n] of covariance x.
local function noise(x, lead, generator)
  local n = x:size(-1)
  local shape = { table.unpack(lead) }
  shape[#shape + 1] = n
  local draws = core.randn(shape, { dtype = x:dtype(), generator = generator })
  return apply(filtering.root(x), draws)
end

-- The path from x_0 [B..., n] with the offsets [T, B..., n]; a with or without axes of time and batch.
local function path(first, a, offsets, reverse)
  for _ = a:ndim(), offsets:ndim() do
    a = a:unsqueeze(1)
  end
  return fused.path(first, a, offsets, reverse)
end

-- A time axis apart from draws: [T, S, B...] operands out of [T, B...].
local function beside_draws(s, name)
  local x = s[name]
  return x and s:timed(name) and x:unsqueeze(2) or x
end

--- The system for `draws` side by side in front of its batch.
function drawing.repeated(s, draws)
  local fields = { batch = s.batch + 1, lead = { draws, table.unpack(s.lead) } }
  for _, name in ipairs { "a", "b", "q", "c", "d", "r", "y", "observed" } do
    fields[name] = beside_draws(s, name)
  end
  return s:with(fields)
end

--- States [T + 1, S, B..., n] (T of them if the initial state is that of the first observation) and observations
--- [T, S, B..., p] of the prior; s as from drawing.repeated.
function drawing.prior(s, generator)
  local first = s.mean + noise(s.cov, s.lead, generator)
  local states = first:unsqueeze(1)
  local x = s.predicted and (s.steps > 1 and s:from(2) or nil) or s
  if x then
    local steps = noise(x.q, { x.steps, table.unpack(s.lead) }, generator)
    steps = x.b and steps + x.b or steps
    states = core.concatenate(joined(states, path(first, x.a, steps, false)), 1)
  end
  local count = states:size(1)
  local seen = apply(s.c, states:slice(1, count - s.steps + 1, count))
  seen = s.d and seen + s.d or seen
  return states, seen + noise(s.r, { s.steps, table.unpack(s.lead) }, generator)
end

--- Filter forwards, sample backwards (Carter & Kohn 1994; Frühwirth-Schnatter 1994): [S, T..., B..., n] as
--- [T + 1, S, B..., n]. f: the filter's moments [T, B..., ...] of s, not repeated. nil, message, code.
function drawing.backwards(s, f, draws, generator)
  local mean, cov, x = smoothing.chain(s, f.mean, f.cov)
  local last_mean, last_cov = mean:select(1, -1), cov:select(1, -1)
  local lead = { draws, table.unpack(s.lead) }
  local last = last_mean + noise(last_cov, lead, generator)
  if not x then
    return last:unsqueeze(1)
  end
  local k, message, code = smoothing.backward_kernel(x, mean, cov)
  if not k then
    return nil, message, code
  end
  local offsets = k.offset:unsqueeze(2) + noise(k.cov:unsqueeze(2), { x.steps, table.unpack(lead) }, generator)
  return core.concatenate({ path(last, k.gain:unsqueeze(2), offsets, true), last:unsqueeze(1) }, 1)
end

--- The simulation smoother of Durbin & Koopman (2002): draws x, y of the prior, corrected by the smoothed mean of what
--- the observations differ from them. `mean_of(s)` is the smoothed mean; s repeated.
function drawing.corrected(s, generator, mean_of)
  local states, seen = drawing.prior(s, generator)
  local zero = core.zeros({ s.n }, { dtype = s.a:dtype() })
  local y = spread(s.y, { s.steps, table.unpack(s.lead) }, 1)
  local apart = s:with { y = y - seen, mean = zero }
  apart.b, apart.d = nil, nil
  local mean, message, code = mean_of(apart)
  if not mean then
    return nil, message, code
  end
  return states + mean
end

return drawing
