--- DeepAR: an autoregressive recurrent network. The LSTM sees the observation of the step before and the covariates of
--- its own, and gives the law of the observation:
---
---     h_t = LSTM(h_(t-1), [y_(t-1), seen_(t-1), x_t]),    y_t ~ p(. | theta(h_t))
---
---     local m = pn.models.deepar { covariates = 4, series = 8, output = "student_t" }
---
--- x_t are features of u_t and the series.
---
--- Further options, beside those of pn.help "penumbra.models.forecaster":
---     hidden   units of each LSTM layer (40);   layers  of them on each other (2)
---     output   "normal" (loc, softplus scale), "student_t" (2 + softplus degrees of freedom), "negative_binomial",
---              counts: mean and dispersion a, variance mean + a mean^2, the mean as a multiple of the series' scale
---              and a over its root; scaling is then "mean" or "none". Or another likelihood of pn.nn.likelihood but of
---              labels, by its name, made or in Lua
---
--- What was not observed goes in as 0 beside an indicator `seen`, 0 for it and before the first step; it adds nothing
--- to the likelihood. log_evidence is the exact log likelihood, the numbers of a step independent given those before.
--- Forecasts are ancestral draws. Salinas, Flunkert, Gasthaus & Januschowski 2020.
-- help: pn.models
local core = require "penumbra.core"
local forecaster = require "penumbra.models.forecaster"
local likelihood = require "penumbra.nn.likelihood"
local nn = require "penumbra.nn"
local options = require "penumbra.options"

local deepar = {}

-- ---- laws ----

local LEAST = 1e-6 -- of scales

-- Where the numbers of each head begin among the outputs of an observation: degrees of freedom come last.
local function places_of(row)
  local places, at = {}, 1
  for _, last in ipairs { false, true } do
    for _, head in ipairs(row.heads) do
      if (head == "df") == last then
        places[head], at = at, at + (row:size(head) or 1)
      end
    end
  end
  return places
end

-- Means of counts are multiples of the series' scale [B, p].
local function maps_of(scale)
  local function positive(out) return out:softplus() + LEAST end
  local function scaled(out) return positive(out) * scale end
  return { positive = positive, mean = scaled, rate = scaled,
    dispersion = function(out) return positive(out) / scale:sqrt() end }
end

-- The law from the top layer's states [..., hidden]: of what the model sees; of counts that of y.
local function law_of(self, h, scale)
  local out, shape, places = self.head(h), h:shape(), self.places
  shape[#shape], shape[#shape + 1] = self.size, self.row.width
  out = out:reshape(shape)
  return self.row:law_from(function(_, head, size)
    local at = places[head]
    return size and out:slice(-1, at, at + size - 1) or out:select(-1, at)
  end, maps_of(scale))
end

-- ---- steps ----

-- The inputs of all steps of a batch [T, B, ...]: those before, and features x [T, B, d] or nil; before [B, 2 p] is
-- what stands before the first step.
local function inputs_of(self, b, x, before)
  local now = core.concatenate({ b.y, b.observed:to(self.dtype) }, 3)
  local late = before:unsqueeze(1)
  if b.steps > 1 then
    late = core.concatenate({ late, now:slice(1, 1, b.steps - 1) }, 1)
  end
  return x and core.concatenate({ late, x }, 3) or late, now
end

local function nothing_before(self, size)
  return core.zeros({ size, 2 * self.size }, { dtype = self.dtype })
end

-- The top layer's states of a whole sequence.
local function unrolled(self, x)
  for _, layer in ipairs(self.layers) do
    x = layer:unroll(x)
  end
  return x
end

-- One step of all layers from a list of states {h, c} of each: the top h and the new states.
local function stepped(self, x, states)
  local new = {}
  for k, layer in ipairs(self.layers) do
    local h, c
    if states then
      h, c = layer:step(x, states[k][1], states[k][2])
    else
      h, c = layer:step(x)
    end
    x, new[k] = h, { h, c }
  end
  return x, new
end

-- states where the bool tensor [B] is true are the new ones.
local function taken(mask, new, old)
  local out, column = {}, mask:unsqueeze(2)
  for k, pair in ipairs(new) do
    out[k] = {}
    for i, x in ipairs(pair) do
      out[k][i] = core.where(column, x, old and old[k][i] or x * 0)
    end
  end
  return out
end

-- ---- the model ----

local function evidence(self, b)
  local x = inputs_of(self, b, forecaster.features(self, b), nothing_before(self, b.size))
  local law = law_of(self, unrolled(self, x), b.scale)
  local log_prob = law:log_prob(b.raw or b.y)
  if not b.complete then
    log_prob = core.where(b.observed, log_prob, core.zeros({}, { dtype = self.dtype }))
  end
  return log_prob:sum { 1, 3 }
end

-- states: {h, c} of each layer after the inputs so far; before [B, 2 p]: the last observation, the next step's input.
local function advance_all(self, state, b)
  local x, now = inputs_of(self, b, forecaster.features(self, b), state.before)
  local states, before = state.states, state.before
  for t = 1, b.steps do
    local _, new = stepped(self, x[t], states)
    local active = b.active and b.active[t]
    states = active and taken(active, new, states) or new
    before = active and core.where(active:unsqueeze(2), now[t], before) or now[t]
  end
  return { states = states, before = before }
end

local function filter(self, b)
  return advance_all(self, { before = nothing_before(self, b.size) }, b)
end

-- x [B, n] once for each of `count` paths, [count B, n].
local function repeated(x, count)
  return x:unsqueeze(1):broadcast_to { count, x:size(1), x:size(2) }:reshape { -1, x:size(2) }
end

local function paths(self, state, o)
  if o.mode == "marginal" then
    core.error "forecast: deepar has joint paths alone, mode = 'ancestral'"
  end
  local count, before, states, out = o.draws, repeated(state.before, o.draws), {}, {}
  for k, pair in ipairs(state.states) do
    states[k] = { repeated(pair[1], count), repeated(pair[2], count) }
  end
  local scale, location = repeated(o.scale, count), repeated(o.location, count)
  local seen = core.ones({ before:size(1), self.size }, { dtype = self.dtype })
  for t = 1, o.steps do
    local x = o.features and core.concatenate({ before, repeated(o.features[t], count) }, 2) or before
    local h
    h, states = stepped(self, x, states)
    local y = law_of(self, h, scale):sample({}, o.generator)
    out[t] = y:reshape { count, o.size, self.size }
    before = core.concatenate({ self.discrete and (y - location) / scale or y, seen }, 2)
  end
  return core.stack(out, 2)
end

local class = forecaster.class { name = "deepar", evidence = evidence, filter = filter, advance = advance_all,
  paths = paths }

local own = { hidden = 40, layers = 2, output = options.any "normal" }

--- deepar{size = 1, ...}: an autoregressive recurrent network, its parameters drawn anew; options in pn.help
--- "penumbra.models.deepar".
function deepar.deepar(given)
  local o = forecaster.options("deepar", given, own)
  for _, name in ipairs { "hidden", "layers" } do
    o[name] = options.whole("deepar", name, o[name], 1)
  end
  local row = likelihood.read("deepar", o.output, { role = "output", without = "label" })
  local discrete = row.row.targets == "count" or nil
  if discrete and o.scaling ~= "mean" and o.scaling ~= "none" then
    core.error(("deepar: scaling must be 'mean' or 'none' for counts, got '%s'"):format(o.scaling))
  end
  local self = forecaster.new(class, o)
  self.output, self.row, self.places, self.discrete = row.name, row, places_of(row), discrete
  local dtype, size = { dtype = o.dtype }, 2 * o.size + self.input_size
  self.layers = {}
  for k = 1, o.layers do
    self.layers[k] = nn.lstm(k == 1 and size or o.hidden, o.hidden, dtype)
  end
  self.head = nn.linear(o.hidden, o.size * row.width, dtype)
  return self
end

return deepar
