--- DeepState: a linear Gaussian state space model of level, slope and seasons for each series, whose noise a recurrent
--- network sets from the covariates:
---
---     h_t = LSTM(h_(t-1), x_t),    x_t features of u_t and the series, never of observations
---     l_t = a l_(t-1) + N(0, diag r_t^2),    y_t = c_t l_t + d_t + N(0, q_t^2),    l_0 ~ N(m_0, diag v_0^2)
---
--- a and c_t are those of the structure (pn.help "penumbra.models.issm"); r_t (one for level, slope and each cycle),
--- q_t and v_0 are softplus of affine functions of h_t (v_0 of h_1), m_0 and d_t affine.
---
---     local m = pn.models.deep_state { covariates = 4, series = 8, seasonal = { 5 } }
---
--- Further options, beside those of pn.help "penumbra.models.forecaster":
---     level, trend, seasonal   the structure: a level unless false, a slope if true, cycles
---     hidden   units of each LSTM layer (40);   layers  of them on each other (1)
---     offset   true: with d_t
---     noise    standard deviations r, q and v with which training begins (0.1), in the units of the scaling
---
--- Several observed variables are series of their own, with noise of their own from one network. log_evidence is the
--- exact log likelihood, by the Kalman filter; what was not observed is left out of it. smooth(batch) gives {mean,
--- cov}, [T, B, p, n] and [T, B, p, n, n], of the states, and the same of l_0 as initial, without T.
--- Forecasts: "ancestral" paths of states, or "marginal", each step from its own law.
--- Rangapuram, Seeger, Gasthaus, Stella, Wang & Januschowski 2018.
-- help: pn.models
local core = require "penumbra.core"
local forecaster = require "penumbra.models.forecaster"
local form = require "penumbra.form"
local issm = require "penumbra.models.issm"
local kalman = require "penumbra.smc.kalman"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local prepared_batch = require "penumbra.models.prepared_batch"

local deep_state = {}

local LEAST = 1e-6 -- of standard deviations

-- ---- what the network says ----

-- The features of all steps [T, B, d]: ones for a model without.
local function features_of(self, x, steps, size)
  return x or core.ones({ steps, size, 1 }, { dtype = self.dtype })
end

-- The top layer's states [T, B, hidden] from a list of {h, c} (nil: zeros), and those after the last step.
local function unrolled(self, x, states)
  local last = {}
  for k, layer in ipairs(self.layers) do
    local h, c
    if states then
      x, h, c = layer:unroll(x, states[k][1], states[k][2])
    else
      x, h, c = layer:unroll(x)
    end
    last[k] = { h, c }
  end
  return x, last
end

-- The states of the layers after each series' own last step.
local function states_after(self, x, b)
  if not b.lengths then
    return select(2, unrolled(self, x))
  end
  local states
  for t = 1, b.steps do
    local _, new = unrolled(self, x:slice(1, t, t), states)
    local column = b.active[t]:unsqueeze(2)
    for k, pair in ipairs(states and new or {}) do
      for i = 1, 2 do
        pair[i] = core.where(column, pair[i], states[k][i])
      end
    end
    states = new
  end
  return states
end

-- x [T, B, p count] as [T, B p, count].
local function by_variable(x, count)
  return x:reshape { x:size(1), -1, count }
end

-- Standard deviations r [T, B p, n] and q [T, B p, 1], offsets d [T, B p, 1] or nil, emission c [T, B p, 1, n] of the
-- steps `time` [T, B].
local function noise_of(self, h, time)
  local s, blocks = self.structure, self.blocks:size(1)
  local out = by_variable(self.head(h), blocks + 1 + (self.offset and 1 or 0))
  local deviation = out:slice(-1, 1, blocks + 1):softplus() + LEAST
  local pattern = s:emission(time):unsqueeze(3)
  pattern = pattern:broadcast_to { time:size(1), time:size(2), self.size, s.n }:reshape { time:size(1), -1, s.n }
  return {
    r = deviation:slice(-1, 1, blocks):matmul(self.blocks) * pattern,
    q = deviation:slice(-1, blocks + 1, blocks + 1),
    d = self.offset and out:slice(-1, blocks + 2, blocks + 2) or nil,
    c = pattern:unsqueeze(3),
  }
end

-- The Kalman filter's system, from noise and the moments of the state before.
local function system_of(self, noise, mean, cov)
  return { transition = self.structure.a, transition_cov = noise.r:square():diag_embed(), emission = noise.c,
    emission_offset = noise.d, emission_cov = noise.q:square():unsqueeze(-1), initial_mean = mean,
    initial_cov = cov }
end

-- The moments of l_0 of B p series from the first h [B, hidden].
local function start_of(self, h)
  local n = self.structure.n
  local out = self.first(h):reshape { -1, 2 * n }
  return out:slice(-1, 1, n), (out:slice(-1, n + 1, 2 * n):softplus() + LEAST):square():diag_embed()
end

-- System, observations [T, B p, 1] and options of a whole batch; third the inputs of the network.
local function read(self, b)
  local x = features_of(self, forecaster.features(self, b), b.steps, b.size)
  local h = unrolled(self, x)
  local mean, cov = start_of(self, h[1])
  local how = b.complete and {} or { observed = by_variable(b.observed, 1) }
  return system_of(self, noise_of(self, h, prepared_batch.time(b)), mean, cov), by_variable(b.y, 1), how, x
end

local function must(value, message)
  return value or core.error("deep_state: " .. tostring(message))
end

-- ---- the model ----

local function evidence(self, b)
  local system, y, how = read(self, b)
  return must(kalman.log_likelihood(system, y, how)):reshape({ b.size, self.size }):sum(2)
end

-- The moments of the state [B p, n] after each series' own last step.
local function moments_after(self, f, b)
  local n, lengths = self.structure.n, b.lengths
  if not lengths then
    return f.mean:select(1, -1), f.cov:select(1, -1)
  end
  local mean = f.mean:reshape { b.steps, b.size, self.size, n }
  local cov = f.cov:reshape { b.steps, b.size, self.size, n, n }
  return prepared_batch.at_lengths(b, mean):reshape { -1, n }, prepared_batch.at_lengths(b, cov):reshape { -1, n, n }
end

local function filter(self, b)
  local system, y, how, x = read(self, b)
  local mean, cov = moments_after(self, must(kalman.filter(system, y, how)), b)
  return { mean = mean, cov = cov, states = states_after(self, x, b) }
end

local function advance(self, state, b)
  local h, states = unrolled(self, features_of(self, forecaster.features(self, b), b.steps, b.size), state.states)
  local system = system_of(self, noise_of(self, h, prepared_batch.time(b)), state.mean, state.cov)
  local f = must(kalman.filter(system, by_variable(b.y, 1), { observed = by_variable(b.observed, 1) }))
  return { mean = f.mean[1], cov = f.cov[1], states = states }
end

local function smooth(self, b)
  local system, y, how = read(self, b)
  local s, n = must(kalman.smooth(system, y, how)), self.structure.n
  local lead = { b.size, self.size, n }
  return { mean = s.mean:reshape { b.steps, table.unpack(lead) },
    cov = s.cov:reshape { b.steps, b.size, self.size, n, n },
    initial = { mean = s.initial.mean:reshape(lead), cov = s.initial.cov:reshape { b.size, self.size, n, n } } }
end

-- ---- forecasts ----

-- Observations [S, B p] from their means [S or 1, B p] and variances.
local function draw(mean, variance, count, generator)
  local z = core.randn({ count, variance:size(-1) }, { dtype = mean:dtype(), generator = generator })
  return mean + variance:sqrt() * z
end

-- c x of c [B p, 1, n] and x [..., B p, n].
local function seen(c, x, d)
  local y = (x * c:squeeze(2)):sum(-1)
  return d and y + d:squeeze(2) or y
end

local function marginal(self, state, noise, o)
  local a, mean, cov, out = self.structure.a, state.mean, state.cov, {}
  for t = 1, o.steps do
    mean = mean:matmul(a:t())
    cov = a:matmul(cov):matmul(a:t()) + noise.r[t]:square():diag_embed()
    local c = noise.c[t]
    local variance = c:matmul(cov):matmul(c:transpose(-1, -2)):reshape { -1 } + noise.q[t]:square():squeeze(2)
    out[t] = draw(seen(c, mean, noise.d and noise.d[t]), variance, o.draws, o.generator)
  end
  return out
end

local function ancestral(self, state, noise, o)
  local a, out = self.structure.a, {}
  local root = must(state.cov:cholesky())
  local like = { dtype = self.dtype, generator = o.generator }
  local shape = { o.draws, state.mean:size(1), self.structure.n }
  local x = state.mean + root:matmul(core.randn(shape, like):unsqueeze(-1)):squeeze(-1)
  for t = 1, o.steps do
    x = x:matmul(a:t()) + noise.r[t] * core.randn(shape, like)
    out[t] = draw(seen(noise.c[t], x, noise.d and noise.d[t]), noise.q[t]:square():squeeze(2), o.draws,
      o.generator)
  end
  return out
end

local function paths(self, state, o)
  local h = unrolled(self, features_of(self, o.features, o.steps, o.size), state.states)
  local noise = noise_of(self, h, prepared_batch.time(o))
  local out = (o.mode == "marginal" and marginal or ancestral)(self, state, noise, o)
  return core.stack(out, 2):reshape { o.draws, o.steps, o.size, self.size }
end

local methods = {}

--- amortised_posterior(): says that there is none, as pn.gap.measure takes it: states are integrated out exactly.
function methods.amortised_posterior()
  return { exact = true }
end

local class = forecaster.class { name = "deep_state", methods = methods, evidence = evidence, filter = filter,
  advance = advance, paths = paths, smooth = smooth, smooth_options = {} }

-- ---- making ----

-- Which state belongs to which standard deviation: 0 and 1, [blocks, n].
local function blocks_of(structure)
  local rows, at = {}, 0
  local function block(count)
    local row = {}
    for k = 1, structure.n do
      row[k] = k > at and k <= at + count and 1 or 0
    end
    rows[#rows + 1], at = row, at + count
  end
  for _ = 1, structure.lead do
    block(1)
  end
  for _, season in ipairs(structure.seasons) do
    block(season.period)
  end
  return core.tensor(rows, { dtype = structure.dtype })
end

-- A linear layer whose outputs begin at `start` [p count].
local function affine(inputs, start, dtype)
  local layer = nn.linear(inputs, start:numel(), { dtype = dtype })
  layer:load_state { weight = layer:state().weight, bias = start:to(dtype) }
  return layer
end

-- For each of p variables `count` numbers v between zeros, [p (zeros + count + after)].
local function starts(p, zeros, count, after, v)
  local float64 = { dtype = "float64" }
  local row = core.concatenate { core.zeros({ zeros }, float64), core.full({ count }, v, float64),
    core.zeros({ after }, float64) }
  return row:broadcast_to({ p, row:size(1) }):reshape { -1 }
end

local own = { level = true, trend = false, seasonal = options.optional "table", hidden = 40, layers = 1,
  offset = false, noise = 0.1 }

--- deep_state{size = 1, ...}: a structural model whose noise a recurrent network sets, drawn anew; options in pn.help
--- "penumbra.models.deep_state".
function deep_state.deep_state(given)
  local o = forecaster.options("deep_state", given, own)
  for _, name in ipairs { "hidden", "layers" } do
    o[name] = options.whole("deep_state", name, o[name], 1)
  end
  forecaster.fits("deep_state", o, { noise = form.number { above = 0 } })
  local self = forecaster.new(class, o)
  self.structure = issm.new { level = o.level, trend = o.trend, seasonal = o.seasonal, dtype = o.dtype }
  self.blocks, self.offset = blocks_of(self.structure), o.offset and true or nil
  self.layers = {}
  for k = 1, o.layers do
    self.layers[k] = nn.lstm(k == 1 and math.max(1, self.input_size) or o.hidden, o.hidden, { dtype = o.dtype })
  end
  local v, n = math.log(math.exp(o.noise) - 1), self.structure.n
  self.head = affine(o.hidden, starts(o.size, 0, self.blocks:size(1) + 1, o.offset and 1 or 0, v), o.dtype)
  self.first = affine(o.hidden, starts(o.size, n, n, 0, v), o.dtype)
  return self
end

return deep_state
