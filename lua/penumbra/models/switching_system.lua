--- Deep switching linear systems and their Rao-Blackwellised particle filter: what SGLS, RSGLS, RSGLS-ISSM and ARSGLS
--- have in common. Particles are the switches (and auxiliary variables); each carries the exact moments of a state that
--- is linear and Gaussian once they are known.
---
---     s_t = F(s_{t-1}) x_{t-1} + f(s_{t-1}, u_t) + N(0, S(s_{t-1}))
---     x_t = A(s_t) x_{t-1} + B(s_t) u_t + N(0, Q(s_t))
---     z_t = C(s_t) x_t + D(s_t) u_t + N(0, R(s_t)),       y_t = z_t, or y_t ~ p(y | z_t) by a network
---
--- Matrices are averages of base matrices (penumbra.models.base_matrices), proposals products of the model's laws and
--- an encoder's Gaussians (penumbra.models.ladder). The log-evidence is that of the particle filter: its exponential is
--- unbiased, itself it is a lower bound in expectation. Particles are the first axis, series the second.
---
--- Options: pn.help "penumbra.models.switching_model".
---
--- Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, Deep Rao-Blackwellised particle filters for time
--- series forecasting, with the errata that the comments here name.
-- help: module, methods m
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local forecaster = require "penumbra.models.forecaster"
local ladder = require "penumbra.models.ladder"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local prepared_batch = require "penumbra.models.prepared_batch"

local switching_system = {}

-- ---- what is the same for all particles, for all steps at once ----

-- x [T, B, size] through base matrices [num, rows, size]: [T, B, num, rows].
local function controls(self, name, x, frozen)
  local bases = self.bases.bases[name]
  if not bases then
    return nil
  end
  bases = frozen and bases:detach() or bases
  local shape = x:shape()
  local flat = (bases * self.bases.scaling):reshape { -1, shape[3] }
  return x:matmul(flat:t()):reshape { shape[1], shape[2], self.bases.count, -1 }
end

-- What the steps of a prepared batch, or of what is to come, need beside the particles; from a belief's start on.
local function surroundings(self, b, how)
  local frozen = how and how.frozen
  local around = { u = b.features or forecaster.features(self, b), y = b.y, observed = b.observed }
  if around.u then
    around.b, around.d = controls(self, "b", around.u, frozen), controls(self, "d", around.u, frozen)
    around.switch_inputs = self.kind.inputs(self, around.u)
  end
  if self.issm then
    local time = prepared_batch.time(b)
    around.c, around.innovation = self.issm:emission(time):unsqueeze(3), self.issm:innovation(time)
  end
  if b.observed then
    around.seen = b.observed:any(3, true)
    around.q = self.encoder and self.encoder(b.y, around.u) or {}
  end
  return around
end

local PARTS = { "u", "b", "d", "switch_inputs", "c", "innovation", "y", "observed", "seen" }

local function slice_of(q, t)
  return q and { loc = q.loc:select(1, t), variance = q.variance:select(1, t) }
end

local function at_step(around, t)
  local at = {}
  for _, name in ipairs(PARTS) do
    at[name] = around[name] and around[name]:select(1, t)
  end
  if around.q then
    at.q_s, at.q_z = slice_of(around.q.s, t), slice_of(around.q.z, t)
  end
  return at
end

-- ---- the linear system given a switch ----

-- sum_k w_k x_k of x [B, num, rows] for weights [P, B, num], a product for each series: [P, B, rows].
local function averaged(weights, x)
  return x and weights:transpose(-3, -2):matmul(x):transpose(-3, -2)
end

local function system_at(self, held, weights, at)
  local m = held(weights, "system")
  local g = self.control_group
  m.a, m.c = m.a or self.issm.a, m.c or at.c
  if at.innovation then
    m.q = m.q * at.innovation
  end
  m.q_variance, m.r_variance = m.q, m.r
  m.q, m.r = m.q:diag_embed(), m.r:diag_embed()
  m.b, m.d = averaged(weights[g.b], at.b) or m.b, averaged(weights[g.d], at.d) or m.d
  return m
end

local function failed(what, why)
  core.error(("switching system: %s: %s"):format(what, why))
end

local LOG_2_PI = core.log_2pi

-- A Kalman step of a system that stands still (a = I) and emits one number: v = y - c x - d, s = c V c^T + r, V - (V
-- c^T) (V c^T)^T / s. Of order n^2, where core.kalman_step is of order n^3.
local function standing_step(mean, cov, m, at)
  if m.b then
    mean = mean + m.b
  end
  cov = cov + m.q
  local c, seen = m.c:squeeze(-2), at.observed:to(mean:dtype())
  local h = cov:matmul(c:unsqueeze(-1)):squeeze(-1)
  local s = (h * c):sum(-1, true) + m.r_variance
  local v = at.y - (mean * c):sum(-1, true)
  v = m.d and v - m.d or v
  local log_prob = ((v:square() / s + s:log() + LOG_2_PI) * seen):squeeze(-1) * -0.5
  local root = h * (s:rsqrt() * seen)
  return mean + h * (v / s * seen), cov - root:unsqueeze(-1) * root:unsqueeze(-2), log_prob
end

-- Mean and variance of C x + d + N(0, R) for x ~ N(mean, cov).
local function emitted(mean, cov, m)
  local loc = m.c:matmul(mean:unsqueeze(-1)):squeeze(-1)
  return m.d and loc + m.d or loc, m.c:matmul(cov):matmul(m.c:transpose(-2, -1)) + m.r
end

-- sum over what was observed of log p(y | z). A law over a whole observation counts if all of it was observed.
local function log_emission(self, z, at)
  local law = self.emission(z)
  local log_p = law:log_prob(at.y)
  if #law.event_shape > 0 then
    return at.observed:all(-1):where(log_p, 0)
  end
  return at.observed:where(log_p, 0):sum(-1)
end

-- The auxiliary variable: drawn from p(z) q(z), then an observation of the state. Where nothing was observed z is
-- summed out and nothing is learnt.
local function auxiliary_step(self, mean, cov, m, at, shape, generator)
  mean, cov = core.kalman_predict(mean, cov, m.a, m.b, m.q)
  local loc, loc_cov = emitted(mean, cov, m)
  local q, log_z = at.q_z, nil
  if q then
    loc, loc_cov, log_z = ladder.product(loc, loc_cov, q, at.seen)
  end
  local wide = table.move(shape, 1, #shape, 1, {})
  wide[#wide + 1] = self.auxiliary
  local z = ladder.draw(loc, loc_cov, core.randn(wide, { dtype = self.dtype, generator = generator }))
  local log_weight = log_emission(self, z, at)
  if q then
    log_weight = log_weight + ladder.log_ratio(log_z, z, q, at.seen)
  end
  local after, after_cov = core.kalman_update(mean, cov, z, m.c, m.d, m.r, { observed = at.seen:broadcast_to {
    shape[2], self.auxiliary } })
  if not after then
    failed("the state given the auxiliary variable", after_cov)
  end
  return after, after_cov, log_weight, z
end

-- ---- a step of the filter ----

-- Moments that come from resampling without a way back for the gradient, where a filter was due.
local function cut(self, state, due)
  if self.resampled_gradient or not due then
    return state
  end
  local out = {}
  for name, x in pairs(state) do
    local mask = due
    for _ = 3, x:ndim() do
      mask = mask:unsqueeze(-1)
    end
    out[name] = mask:where(x:detach(), x)
  end
  return out
end

local function resampled(self, pass, state)
  local due = not self.resampled_gradient
    and pass.machine:effective_sample_size():le(pass.threshold * self.num_particles) or nil
  local ancestors = pass.machine:resample()
  if ancestors == nil then
    return state
  end
  state = { s = state.s, mean = state.mean, cov = state.cov, weights = state.weights } -- the next z needs no last one
  return cut(self, pass.machine:select(state, ancestors), due)
end

-- The next state {s, mean, cov, weights.., z} of all particles, and the logarithm of what their weights are multiplied
-- by: log p(y | z) + log p(z) + log p(s) - log pi(z) - log pi(s). (In the published listing q stands in the place of
-- pi, log w_t in that of log w_{t-1}, and the state is updated by y, not z.)
local function step(self, pass, state, at)
  local law
  if state then
    state = resampled(self, pass, state)
    law = self.kind.next(self, pass.held, { s = state.s, weights = { [self.recurrence_group] = state.weights } }, at)
  else
    state = { mean = self.prior_mean, cov = (self.prior_log_inverse_scale * -2):exp():diag_embed() }
    law = self.kind.first(self, at)
  end
  local s, ratio = self.kind.draw(self, law, state, at.q_s, at.seen, pass.shape, pass.generator)
  local mean, cov = state.mean, state.cov
  if law.link and self.conditioning == "exact" then
    mean, cov = self.kind.conditioned(mean, cov, law, s)
  end
  local weights = self.bases:weights(s)
  local m = system_at(self, pass.held, weights, at)
  local log_weight, z
  if self.emission then
    mean, cov, log_weight, z = auxiliary_step(self, mean, cov, m, at, pass.shape, pass.generator)
  elseif self.standing then
    mean, cov, log_weight = standing_step(mean, cov, m, at)
  else
    mean, cov, log_weight = core.kalman_step(mean, cov, m.a, m.b, m.q, at.y, m.c, m.d, m.r, { observed = at.observed })
    if not mean then
      failed("a Kalman step", cov)
    end
  end
  local after = { s = s, mean = mean, cov = cov, weights = weights[self.recurrence_group], z = z }
  return after, ratio and log_weight + ratio or log_weight, m
end

local function new_pass(self, size, how, log_weights)
  local threshold = how.threshold or self.threshold
  local pass = { shape = { self.num_particles, size }, threshold = threshold, generator = how.generator,
    held = self.bases:held(how.frozen and self.frozen_names or nil),
    machine = machine.new { num_particles = self.num_particles, batch_shape = { size }, resampling = self.resampling,
      threshold = threshold, generator = how.generator, trace = false } }
  if log_weights then
    pass.machine:tilt(log_weights + math.log(self.num_particles))
  end
  return pass
end

-- The increment of the log-evidence, exactly 0 where nothing was observed: [B].
local function weighed(pass, log_weight, at)
  local increment = pass.machine:weigh(log_weight)
  return at.seen:squeeze(-1):where(increment, 0)
end

--- evidence(self, b, how): the filter's log-evidence of a prepared batch, [B].
function switching_system.evidence(self, b, how)
  local around, pass = surroundings(self, b, how), new_pass(self, b.size, how)
  local state, total
  for t = 1, b.steps do
    local at = at_step(around, t)
    local log_weight
    state, log_weight = step(self, pass, state, at)
    local increment = weighed(pass, log_weight, at)
    total = total and total + increment or increment
  end
  return total
end

-- ---- beliefs ----

local function where_active(active, new, old)
  local out = {}
  for name, x in pairs(new) do
    local mask = active
    for _ = 2, x:ndim() - 1 do
      mask = mask:unsqueeze(-1)
    end
    out[name] = mask:where(x, old[name])
  end
  return out
end

local function known(pass, state, total)
  return { particles = state, log_weights = pass.machine:log_weights(), log_evidence = total }
end

-- Steps of b from what was known before; each series stops at its own end. `each` sees every step.
local function go_on(self, before, b, how, each)
  local around = surroundings(self, b)
  local pass = new_pass(self, b.size, how, before and before.log_weights)
  local state, now = before and before.particles, before
  local total = before and before.log_evidence
  for t = 1, b.steps do
    local at = at_step(around, t)
    local log_weight, m
    state, log_weight, m = step(self, pass, state, at)
    local increment = weighed(pass, log_weight, at)
    total = total and total + increment or increment
    local after = known(pass, state, total)
    if b.active and now then
      local active = b.active:select(1, t)
      after = { particles = where_active(active, state, now.particles), log_evidence = total,
        log_weights = active:where(after.log_weights, now.log_weights) }
    end
    now = after
    if each then
      each(t, pass, state, m, increment)
    end
  end
  return now
end

--- filter(self, b, how): {particles = {s, mean, cov, weights, z}, log_weights [P, B], log_evidence [B]} after the last
--- step of each series.
function switching_system.filter(self, b, how)
  return go_on(self, nil, b, how)
end

--- advance(self, before, b): the same after the steps of b.
function switching_system.advance(self, before, b)
  return go_on(self, before, b, {})
end

-- ---- forecasts ----

-- Systematic draws of m of P particles by the weights: ancestors [m, B], int64.
local function ancestors_of(log_weights, m, generator)
  local particles, size = log_weights:size(1), log_weights:size(2)
  local total = log_weights:exp():cumsum(1)
  local comb = (core.arange(m, { dtype = total:dtype() }):unsqueeze(2)
    + core.rand({ 1, size }, { dtype = total:dtype(), generator = generator })) / m
  local below = total:unsqueeze(1):lt(comb:unsqueeze(2) * total:slice(1, particles, particles):unsqueeze(1))
  return below:to("int64"):sum(2):minimum(core.full({}, particles - 1, { dtype = "int64" }))
end

local function picked(x, ancestors)
  local shape = ancestors:shape()
  for k = 3, x:ndim() do
    shape[k] = x:size(k)
  end
  local index = ancestors
  for _ = 3, x:ndim() do
    index = index:unsqueeze(-1)
  end
  return x:gather(1, index:broadcast_to(shape))
end

local function drawn(mean, cov, generator)
  return ladder.draw(mean, cov, core.randn(mean:shape(), { dtype = mean:dtype(), generator = generator }))
end

local function with_noise(self, x, variance, generator)
  return x + variance:sqrt() * core.randn(x:shape(), { dtype = self.dtype, generator = generator })
end

local function through(a, x, b)
  local y = a:matmul(x:unsqueeze(-1)):squeeze(-1)
  return b and y + b or y
end

-- y given z: z itself without an emission.
local function observation(self, z, generator)
  if not self.emission then
    return z
  end
  return self.emission(z):sample { generator = generator }
end

local modes = {}

-- A joint path: the state is drawn, too.
function modes.ancestral(self, o, held, at, now)
  local law = self.kind.next(self, held, { s = now.s, weights = { [self.recurrence_group] = now.weights } }, at)
  local s = self.kind.onward(self, law, now.x, o.shape, o.generator)
  local weights = self.bases:weights(s)
  local m = system_at(self, held, weights, at)
  local x = with_noise(self, through(m.a, now.x, m.b), m.q_variance, o.generator)
  local z = with_noise(self, through(m.c, x, m.d), m.r_variance, o.generator)
  return { s = s, x = x, weights = weights[self.recurrence_group] }, z
end

-- The state summed out; moments that are not updated by what is drawn.
function modes.marginal(self, o, held, at, now)
  local law = self.kind.next(self, held, { s = now.s, weights = { [self.recurrence_group] = now.weights } }, at)
  local s = self.kind.draw(self, law, now, nil, nil, o.shape, o.generator)
  local mean, cov = now.mean, now.cov
  if law.link and self.conditioning == "exact" then
    mean, cov = self.kind.conditioned(mean, cov, law, s)
  end
  local weights = self.bases:weights(s)
  local m = system_at(self, held, weights, at)
  mean, cov = core.kalman_predict(mean, cov, m.a, m.b, m.q)
  local loc, loc_cov = emitted(mean, cov, m)
  return { s = s, mean = mean, cov = cov, weights = weights[self.recurrence_group] }, drawn(loc, loc_cov, o.generator)
end

--- paths(self, state, o): draws [draws, steps, B, p] from a belief's state: {particles, log_weights}.
function switching_system.paths(self, state, o)
  local ancestors = ancestors_of(state.log_weights, o.draws, o.generator)
  local now = {}
  for name, x in pairs(state.particles) do
    now[name] = picked(x, ancestors)
  end
  if o.mode == "ancestral" then
    now.x = drawn(now.mean, now.cov, o.generator)
  end
  local how = { shape = { o.draws, o.size }, generator = o.generator }
  local around, held, list = surroundings(self, o), self.bases:held(), {}
  for t = 1, o.steps do
    local z
    now, z = modes[o.mode](self, how, held, at_step(around, t), now)
    list[t] = observation(self, z, o.generator)
  end
  return core.stack(list, 2)
end

-- ---- moments along the way ----

local function matched(w, means, variances)
  w = w:unsqueeze(-1)
  local mean = (w * means):sum(1)
  return mean, (w * (variances + (means - mean):square())):sum(1)
end

local methods = {}

local function emission_moments(self, pass, state, m)
  if self.emission then
    local law = self.emission(state.z)
    return matched(pass.machine:weights(), law:mean(), law:variance())
  end
  local loc, cov = emitted(state.mean, state.cov, m)
  return matched(pass.machine:weights(), loc, cov:diagonal())
end

--- m:filtered(batch [, {generator =}]): the filter along a batch: a table with mean and variance [T, B, p] of an
--- observation like y_t given y up to t, state_mean and state_variance [T, B, n] of x_t given the same,
--- effective_sample_size and increments of the log-evidence (of what the model sees, as scaled) [T, B].
function methods:filtered(batch, given)
  local o = options.check("filtered", given, { generator = options.optional "generator" })
  local b = prepared_batch.read("filtered", self, batch)
  local lists = { mean = {}, variance = {}, state_mean = {}, state_variance = {}, effective_sample_size = {},
    increments = {} }
  recording.off(go_on, self, nil, b, { generator = o.generator }, function(t, pass, state, m, increment)
    lists.mean[t], lists.variance[t] = emission_moments(self, pass, state, m)
    lists.state_mean[t], lists.state_variance[t] = matched(pass.machine:weights(), state.mean,
      state.cov:diagonal())
    lists.effective_sample_size[t], lists.increments[t] = pass.machine:effective_sample_size(), increment
  end)
  local out = {}
  for name, list in pairs(lists) do
    out[name] = core.stack(list, 1)
  end
  out.mean, out.variance = out.mean * b.scale + b.location, out.variance * b.scale:square()
  return out
end

--- m:moments(belief): mean [B, n] and covariance [B, n, n] of the state x_t as a belief has it: of its mixture.
function methods:moments(belief) -- luacheck: ignore self
  local state = belief.state
  local w, particles = state.log_weights:exp():unsqueeze(-1), state.particles
  local mean = (w * particles.mean):sum(1)
  local off = (particles.mean - mean):unsqueeze(-1)
  return mean, (w:unsqueeze(-1) * (particles.cov + off * off:transpose(-2, -1))):sum(1)
end

--- m:steps_of(b): what the steps of a prepared batch compute with: held (bases), at (a function of t), system (a
--- function of the model, held, weights, at(t): matrices a ... r), size (B).
function methods:steps_of(b)
  local around = surroundings(self, b)
  return { held = self.bases:held(), size = b.size, system = system_at, at = function(t) return at_step(around, t) end }
end

switching_system.methods = methods

return switching_system
