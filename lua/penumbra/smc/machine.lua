--- The step machine of particle filters: weights, evidence, when and how to resample. A script drives it:
---
---     local s = pn.smc{num_particles = 1000, resampling = "systematic", threshold = 0.5}
---     local x = prior:sample{1000}
---     for t = 1, T do
---       if t > 1 then
---         x = s:select(x, s:resample())                  -- the state itself where nothing is due
---         x = move(x)
---       end
---       s:weigh(log_prob(y[t], x))                       -- the increment of the log-evidence
---     end
---     print(s:log_evidence(), s:mean(x))
---
--- Particles are the first axis, filters that run side by side the next ones: log-weights [N] or [N, B...], parts of a
--- state [N, B..., event...]. pn.smc.filter drives it for a model written as functions.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"
local particle_state = require "penumbra.smc.particle_state"
local transport = require "penumbra.smc.transport"

local machine = {}

local schemes = {}
for _, row in ipairs(core.resampler_rows()) do
  schemes[#schemes + 1] = row.name
end
table.sort(schemes, function(a, b) -- the default first
  return (a == "systematic" and "" or a) < (b == "systematic" and "" or b)
end)

machine.options = {
  num_particles = options.required "number",
  resampling = options.choice(table.unpack(schemes)),
  threshold = 0.5,
  batch_shape = options.optional "table",
  gradient = options.choice("dropped", "stop_gradient", "score_function", "soft", "transport"),
  alpha = 0.5,
  degenerate = options.choice("error", "zero"),
  trace = true, history = false, conditional = false,
  generator = options.optional "generator",
}

local methods = {}

-- The machine in C, by the table around it: scripts have the methods below alone. Its `restore` and `assign` are for
-- the filters of this folder.
local cores = setmetatable({}, { __mode = "k" })

local function core_of(s)
  return cores[s] or core.error "smc: methods are called with a colon, as in s:weigh(log_increment)"
end
machine.core_of = core_of

--- s:resample(): ancestors [N, B...], int64, 0-based, by the weights; nil where no filter of the batch is due, that is
--- where all effective sample sizes are above threshold * N. A filter that is not due keeps its places. Weights are
--- equal from here on. In a captured step (pn.compile) ancestors come whoever is due.
function methods:resample()
  local ancestors = core_of(self):resample()
  if self.scores and ancestors ~= nil then
    self.scores[core_of(self):steps() + 1] = core_of(self):get "ancestor_log_prob"
  end
  return ancestors
end

-- ---- states ----

local map, flatten = particle_state.map, particle_state.flatten
machine.map, machine.flatten, machine.rebuild, machine.stack = map, flatten, particle_state.rebuild,
  particle_state.stack

--- s:select(state, ancestors): the parts of the state [N, B..., event...] at the ancestors' places; nil ancestors: the
--- state as it is.
function methods:select(state, ancestors) -- luacheck: ignore self
  if ancestors == nil then
    return state
  end
  return map("select", function(x) return core.new_selected(x, ancestors) end, state)
end

--- s:transport(state [, {epsilon = 0.5, steps = 100}]): in place of s:resample() and s:select: the state after
--- resampling by optimal transport (pn.smc.transport), differentiable in states and weights; the state as it is where
--- no filter is due. All parts of the state must be floats.
function methods:transport(state, given)
  return transport.move(self, state, given)
end

--- s:weigh(log_increment): multiplies the weights by exp(log_increment [N, B...]) and normalises them; the increment
--- [B...] of the log-evidence, logsumexp(log w + log_increment) with log w normalised: no other 1/N enters.
--- Differentiable where log_increment is. An error names the step where a weight is NaN ("nan") or all are 0
--- ("degenerate", unless the machine was made with degenerate = "zero"); nothing has changed then.
function methods:weigh(log_increment)
  return core_of(self):weigh(log_increment)
end

--- s:tilt(log_factor): as s:weigh, but no step of its own: its increment is one part of the next step's, as the
--- first-stage weights of the auxiliary filter are.
function methods:tilt(log_factor)
  return core_of(self):weigh(log_factor, true)
end

--- s:log_weights(): normalised, [N, B...].
function methods:log_weights()
  return core_of(self):get "log_weights"
end

--- s:weights(): they sum to 1, [N, B...].
function methods:weights()
  return core_of(self):get "weights"
end

--- s:log_evidence(): the sum of all increments so far, [B...], float64.
function methods:log_evidence()
  return core_of(self):get "log_evidence"
end

--- s:effective_sample_size(): 1 / sum w^2, [B...], from 1 to N.
function methods:effective_sample_size()
  return core_of(self):get "effective_sample_size"
end

--- s:ancestor_log_prob(): log-weights that the ancestors were chosen by, [N, B...], 0 in filters that were not due:
--- what a score function is made of. With gradient = "score_function", after s:resample() and before s:weigh(); else
--- nil.
function methods:ancestor_log_prob()
  return core_of(self):get "ancestor_log_prob"
end

--- s:mean(x): the weighted mean of x [N, B..., event...], or of each tensor in a table: [B..., event...].
function methods:mean(x)
  local w = self:weights()
  local lead = w:ndim()
  return map("mean", function(part)
    local shape = w:shape()
    for k = lead + 1, part:ndim() do
      shape[k] = 1
    end
    return (w:to(part:dtype()):reshape(shape) * part):sum(1)
  end, x)
end

--- s:keep(state): with history = true, after each step: keeps the state [N, B..., event...] (a tensor or a table) for
--- s:paths(). Particles without descendants are forgotten: about T + 3 N log N remain (Jacob, Murray & Rubenthaler
--- 2015).
function methods:keep(state)
  local list = flatten("keep", state, {})
  core_of(self):keep(table.unpack(list))
  self.form = state
end

--- s:paths([particles]): the paths of all particles [T, N, B..., event...], in the form of the state; or of one of each
--- filter, particles [B...], int64, 0-based: [T, B..., event...].
function methods:paths(particles)
  if not self.form then
    core.error "paths: no state was kept (s:keep(state) after each step, with history = true)"
  end
  local k = 0
  return map("paths", function()
    k = k + 1
    return core_of(self):paths(k, particles)
  end, self.form)
end

--- s:draw(): a particle of each filter by the weights: [B...], int64, 0-based.
function methods:draw()
  local log_w = self:log_weights():detach()
  local u = core.rand(log_w:shape(), { generator = self.generator, dtype = log_w:dtype() })
  return (log_w - (-u:log()):log()):argmax(1) -- the largest of log w + Gumbel numbers
end

--- s:draw_path(): a path by the weights: s:paths(s:draw()).
function methods:draw_path()
  return self:paths(self:draw())
end

--- s:nodes(): how many particles of all steps are kept, and the bytes they take.
function methods:nodes()
  return core_of(self):nodes()
end

local columns = { "effective_sample_size", "unique_ancestors", "largest_weight", "log_increment", "resampled",
  "log_evidence_variance" }

--- s:trace(): what happened, a table of tensors [T, B...]: effective_sample_size; unique_ancestors, how many particles
--- of the step before have descendants; largest_weight; log_increment, of the evidence; resampled, 1 or 0;
--- log_evidence_variance, the variance of the log-evidence so far as this one run tells it: Lee & Whiteley 2018. It is
--- unbiased where resampling is multinomial, too large with schemes of less noise, and tends to 1 once all particles
--- descend from one.
function methods:trace()
  local rows, out = core_of(self):trace(), {}
  for k, name in ipairs(columns) do
    out[name] = rows:select(2, k)
  end
  return out
end

--- s:steps(): how often weights were updated.
function methods:steps()
  return core_of(self):steps()
end

--- s:reset(): back to equal weights, no evidence and no steps. The generator goes on.
function methods:reset()
  core_of(self):reset()
  self.form = nil
  self.scores = self.scores and {}
end

local class = { __index = core.public(methods), __name = "smc" }

function class:__tostring()
  return ("smc machine of %d particles at step %d"):format(self.num_particles, self:steps())
end

machine.methods = methods

--- pn.smc{num_particles =, ...}: a step machine. See pn.help "penumbra.smc.machine".
---
--- num_particles  N
--- resampling     "systematic" and the others of pn.smc.schemes()
--- threshold      0.5: resample where the effective sample size is at most 0.5 N; 0 never, 1 always
--- batch_shape    sizes of further axes: filters that run side by side, each by itself
--- gradient       through resampling: "dropped" (none: biased, of low variance), "stop_gradient" (weights w / stop(w),
---                Scibior & Wood 2021: exact for the evidence, of high variance), "score_function" (as "dropped", and
---                s:ancestor_log_prob() gives what the score is made of), "soft" (ancestors by alpha w + (1 - alpha)
---                / N and weights that make up for it, Karkus, Hsu & Lee 2018), "transport" (pn.smc.filter uses
---                s:transport in place of s:resample: differentiable, the evidence biased)
--- alpha          0.5, of "soft"
--- degenerate     "error", or "zero": a filter whose weights are all 0 gets evidence 0 (an increment of -inf) and goes
---                on with equal weights
--- trace          true: s:trace() tells what happened at each step
--- history        false; true: s:keep(state) keeps the tree of ancestors for s:paths()
--- conditional    false; true: the last particle of a filter is its own ancestor, and the caller gives it its states
---                (conditional SMC; with resampling = "multinomial")
--- generator      a pn.generator
function machine.new(given)
  local o = options.check("smc", given, machine.options)
  local by_transport = o.gradient == "transport"
  if by_transport and (o.history or o.conditional) then
    core.error "smc: gradient 'transport' has no ancestors, which history and conditional are about"
  end
  local own = core.new_smc({ num_particles = o.num_particles, resampling = o.resampling, threshold = o.threshold,
    batch = o.batch_shape, gradient = by_transport and "dropped" or o.gradient, alpha = o.alpha,
    zero_possible = o.degenerate == "zero", trace = o.trace, history = o.history, conditional = o.conditional },
    o.generator)
  local s = setmetatable({ generator = o.generator, num_particles = math.tointeger(o.num_particles),
    batch_shape = o.batch_shape or {}, threshold = o.threshold, history = o.history, conditional = o.conditional,
    by_transport = by_transport,
    scores = o.gradient == "score_function" and {} }, class) -- scores: step -> ancestor_log_prob
  cores[s] = own
  return s
end

--- resample(log_w [, {resampling = "systematic", generator =}]): ancestors [N, B...] by log-weights [N, B...] of any
--- sum: int64, 0-based.
function machine.resample(log_w, given)
  local o = options.check("resample", given, { resampling = machine.options.resampling,
    generator = options.optional "generator" })
  return core.new_ancestors(o.resampling, log_w, o.generator)
end

--- schemes(): the names of the resampling schemes, a list.
function machine.schemes()
  return table.move(schemes, 1, #schemes, 1, {})
end

return machine
