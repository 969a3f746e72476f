--- Deep switching linear systems: what SGLS, RSGLS, RSGLS-ISSM and ARSGLS add to a Rao-Blackwellised filter
--- (pn.smc.rbpf). Particles are the switches (and auxiliary variables); each carries the exact moments of a state
--- that is linear and Gaussian once they are known.
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
local forecaster = require "penumbra.models.forecaster"
local ladder = require "penumbra.models.ladder"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local prepared_batch = require "penumbra.models.prepared_batch"
local rbpf = require "penumbra.smc.rbpf"
local replayed_step = require "penumbra.models.replayed_step"
local recording = require "penumbra.autodiff.recording"
local sequential_bound = require "penumbra.smc.sequential_bound"
local switching = require "penumbra.smc.switching"

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

local PARTS = { "u", "b", "d", "switch_inputs", "c", "innovation", "y", "observed", "seen" }

-- What `around` has, a list of {name =, field =, x = [T, ...]}: a field where the name stands for a Gaussian.
local function parts_of(around)
  local list = {}
  for _, name in ipairs(PARTS) do
    list[#list + 1] = around[name] and { name = name, x = around[name] } or nil
  end
  for _, name in ipairs(around.q and { "s", "z" } or {}) do
    local q = around.q[name]
    for _, field in ipairs(q and { "loc", "variance" } or {}) do
      list[#list + 1] = { name = "q_" .. name, field = field, x = q[field] }
    end
  end
  return list
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
  return parts_of(around)
end

local function put(at, part, x)
  if part.field then
    at[part.name] = at[part.name] or {}
    at[part.name][part.field] = x
  else
    at[part.name] = x
  end
end

local function at_step(parts, t)
  local at = {}
  for _, part in ipairs(parts) do
    put(at, part, part.x:select(1, t))
  end
  return at
end

-- The parts side by side, so that a replayed step takes few tensors: by dtype [T, width]; where each stands, a list;
-- and that as a text.
local function side_by_side(parts)
  local lists, rows, places, form = {}, {}, {}, {}
  for k, part in ipairs(parts) do
    local dtype, shape = part.x:dtype(), part.x:shape()
    local list, steps = lists[dtype] or { width = 0 }, table.remove(shape, 1)
    local width = part.x:numel() // steps
    lists[dtype], list[#list + 1] = list, part.x:reshape { steps, width }
    places[k] = { name = part.name, field = part.field, dtype = dtype, first = list.width + 1,
      last = list.width + width, shape = shape }
    list.width, form[k] = list.width + width, part.name .. " " .. table.concat(shape, "x")
  end
  for dtype, list in pairs(lists) do
    rows[dtype] = core.concatenate(list, 2)
  end
  return rows, places, table.concat(form, " ")
end

local function row_at(rows, t)
  local row = {}
  for dtype, x in pairs(rows) do
    row[dtype] = x:select(1, t)
  end
  return row
end

-- step(self, parts, generator) whose parts.at is a row.
local function of_row(places, step)
  return function(self, parts, generator)
    local at = {}
    for _, place in ipairs(places) do
      put(at, place, parts.at[place.dtype]:slice(1, place.first, place.last):reshape(place.shape))
    end
    parts.at = at
    return step(self, parts, generator)
  end
end

-- ---- the linear system given a switch ----

-- sum_k w_k x_k of x [B, num, rows] for weights [P, B, num], a product for each series: [P, B, rows].
local function averaged(weights, x)
  return x and weights:transpose(-3, -2):matmul(x):transpose(-3, -2)
end

-- Matrices a, b, c, d, and variances q, r.
local function system_at(self, held, weights, at)
  local m = held(weights, "system")
  local g = self.control_group
  m.a, m.c = m.a or self.issm.a, m.c or at.c
  m.q = at.innovation and m.q * at.innovation or m.q
  m.b, m.d = averaged(weights[g.b], at.b) or m.b, averaged(weights[g.d], at.d) or m.d
  return m
end

local LOG_2_PI = core.log_2pi

-- A Kalman step of a system that stands still (a = I) and emits one number: v = y - c x - d, s = c V c^T + r, V - (V
-- c^T) (V c^T)^T / s. Of order n^2, where core.kalman_step is of order n^3 (`make bench`: standing.lua).
local function standing_step(mean, cov, m, at)
  if m.b then
    mean = mean + m.b
  end
  cov = cov + m.q
  local c, seen = m.c:squeeze(-2), at.observed:to(mean:dtype())
  local h = cov:matmul(c:unsqueeze(-1)):squeeze(-1)
  local s = (h * c):sum(-1, true) + m.r:squeeze(-1)
  local v = at.y - (mean * c):sum(-1, true)
  v = m.d and v - m.d or v
  local log_prob = ((v:square() / s + s:log() + LOG_2_PI) * seen):squeeze(-1) * -0.5
  local root = h * (s:rsqrt() * seen)
  return mean + h * (v / s * seen), cov - root:unsqueeze(-1) * root:unsqueeze(-2), log_prob
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
  local loc, loc_cov = switching.emitted(mean, cov, m)
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
    core.error("switching system: the state given the auxiliary variable: " .. after_cov)
  end
  return after, after_cov, log_weight, z
end

-- ---- the filter ----

-- The parts of a filter of pn.smc.rbpf, whose inputs are what at_step gives: init, coupling or transition, and system,
-- which takes the weights that were `drawn` with s.
local function model_of(self, size, how, drawn)
  local kind, held = self.kind, self.bases:held(how.frozen and self.frozen_names or nil)
  local function next_law(s, at, carried)
    s = kind.coded(self, s)
    return kind.next(self, held, { s = s, weights = carried or self.bases:weights(s) }, at)
  end
  local model = { batch_shape = { size }, num_particles = how.num_particles or self.num_particles, trace = false,
    conditioning = self.conditioning, resampling = self.resampling, threshold = how.threshold or self.threshold,
    resampled_gradient = self.resampled_gradient, gradient = self.gradient, generator = how.generator,
    initial_mean = self.prior_mean, initial_cov = (self.prior_log_inverse_scale * -2):exp():diag_embed() }
  function model.init(_, at) return kind.law(kind.first(self, at)) end
  if self.bases.bases.f then
    function model.coupling(s, _, at, carried)
      local link = next_law(s, at, carried).link
      link.cov = link.variance:diag_embed()
      return switching.ready(link)
    end
  else
    function model.transition(s, _, at) return kind.law(next_law(s, at)) end
  end
  function model.system(s, _, at)
    local m = system_at(self, held, drawn and drawn.weights or self.bases:weights(kind.coded(self, s)), at)
    m.q, m.r = m.q:diag_embed(), m.r:diag_embed()
    return switching.ready(m)
  end
  return model, next_law
end

-- The filter whose switches look at what was observed, and whose particles keep the weights of the bases. (In the
-- published listing q stands in the place of pi, log w_t in that of log w_{t-1}, and the state is updated by y, not z.)
local function filter_of(self, size, how)
  local latest, group = {}, self.recurrence_group
  local model, next_law = model_of(self, size, how, latest)
  local shape, generator = { model.num_particles, size }, how.generator
  model.init, model.transition, model.history = nil, nil, false
  function model.sampler(view)
    local at = view.input
    local law = view.link and { link = view.link } or view.s and next_law(view.s, at, view.carried)
      or self.kind.first(self, at)
    local s, ratio = self.kind.draw(self, law, view, at.q_s, at.seen, shape, generator)
    latest.weights = self.bases:weights(s)
    return s, ratio, { [group] = latest.weights[group] }
  end
  if self.emission or self.standing then
    function model.measurement_update(view, mean, cov, m)
      if self.emission then
        return auxiliary_step(self, mean, cov, m, view.input, shape, generator)
      end
      return standing_step(mean, cov, m, view.input)
    end
  end
  return rbpf.rbpf(model)
end

-- The increment of the log-evidence with a step, exactly 0 where nothing was observed: [B].
local function taken_in(f, at)
  local increment = rbpf.observe(f, at.y, at, at.observed)
  return at.seen:squeeze(-1):where(increment, 0)
end

--- evidence(self, b, how): the filter's log-evidence of a prepared batch, [B].
function switching_system.evidence(self, b, how)
  local around, f = surroundings(self, b, how), filter_of(self, b.size, how)
  local total, increments = nil, {}
  for t = 1, b.steps do
    increments[t] = taken_in(f, at_step(around, t))
    total = total and total + increments[t] or increments[t]
  end
  local score = self.gradient == "score_function"
    and sequential_bound.score(f.pass.machine, core.stack(increments, 1))
  return score and total + score:to(self.dtype) or total
end

--- The options of m:smooth(batch, {draws = 100, generator =}).
switching_system.smooth_options = { draws = 100, generator = options.optional "generator" }

--- smooth: mean [T, B, n] and cov [T, B, n, n] of the state given all of y; s [T, draws, B, k], paths of the
--- switch; path_mean and path_cov, the state along each of them. It needs conditioning = "exact" where the switch
--- depends on the state.
function switching_system.smooth(self, b, o)
  local around, inputs = surroundings(self, b), {}
  for t = 1, b.steps do
    inputs[t] = at_step(around, t)
  end
  local f = rbpf.rbpf((model_of(self, b.size, o)))
  f:run(b.y, { inputs = inputs, observed = b.observed, moments = false })
  return f:smooth { draws = o.draws }
end

--- The options of m:smooth of a model with an auxiliary variable.
switching_system.auxiliary_smooth_options = options.merged(switching_system.smooth_options,
  { num_particles = options.optional "number" })

--- smooth_auxiliary: the same where the system emits a hidden z_t: the particles of the model's own filter, whose
--- proposals look at y, are drawn backwards with their z, which is what the state has been observed by. Also z [T,
--- draws, B, auxiliary], paths of it, and log_evidence [B] of that filter. num_particles: the model's unless given.
function switching_system.smooth_auxiliary(self, b, o)
  if self.bases.bases.f and self.conditioning == "published" then
    core.error "smooth: needs conditioning = 'exact'"
  end
  local how = { num_particles = o.num_particles, generator = o.generator }
  local around, f, steps = surroundings(self, b), filter_of(self, b.size, how), {}
  local total
  for t = 1, b.steps do
    local at = at_step(around, t)
    local increment = taken_in(f, at)
    total = total and total + increment or increment
    local state = f.pass.state
    steps[t] = { s = state.s, z = state.auxiliary, mean = state.mean, cov = state.cov,
      log_weights = f.pass.machine:log_weights(), y = at.y, input = at,
      observed = at.seen:broadcast_to { b.size, self.auxiliary } }
  end
  local result = rbpf.smoothed(rbpf.rbpf((model_of(self, b.size, how))), steps, o.draws)
  result.log_evidence = total
  return result
end

-- ---- beliefs ----

local function where_active(active, new, old)
  local before, k = machine.flatten("update", old, {}), 0
  return machine.map("update", function(x)
    local mask = active
    for _ = 2, x:ndim() - 1 do
      mask = mask:unsqueeze(-1)
    end
    k = k + 1
    return mask:where(x, before[k])
  end, new)
end

-- A step of the filter on tensors alone: parts.at is what at_step gives, parts.before the particles and their weights,
-- as a machine holds them (weighed) or as a belief has them; nil at the first step.
local function filter_step(self, parts, generator)
  local at, before = parts.at, parts.before
  local f = filter_of(self, at.y:size(1), { generator = generator })
  if before then
    rbpf.go_on(f, before)
  end
  local increment = taken_in(f, at)
  local state, weights = f.pass.state, f.pass.machine
  return increment, weights:log_weights(), machine.core_of(weights):get "weighed", state.s, state.mean, state.cov,
    state.carried[self.recurrence_group], state.auxiliary
end

-- What is known after each step of these parts, and the increment of the log-evidence: a function of t.
local function replayed_steps(self, before, around, how)
  local group, replayed = self.recurrence_group, replayed_step.of(self, how)
  local rows, places, form = side_by_side(around)
  local step = of_row(places, filter_step)
  local first, later = replayed("first " .. form, step), nil
  local x = before and before.particles
  local carry = x and { log_weights = before.log_weights, s = x.s, mean = x.mean, cov = x.cov, carried = x.weights }
  return function(t)
    local increment, log_weights, weighed, s, mean, cov, weights, z = (later or first) { at = row_at(rows, t),
      before = carry }
    later = later or replayed("later " .. form, step)
    carry = { weighed = weighed, s = s, mean = mean, cov = cov, carried = { [group] = weights } }
    return { log_weights = log_weights, particles = { s = s, mean = mean, cov = cov, weights = carry.carried, z = z } },
      increment
  end
end

-- The same by one filter, which `each` sees.
local function seen_steps(self, around, how, size, each)
  local f = filter_of(self, size, how)
  return function(t)
    local increment = taken_in(f, at_step(around, t))
    local x = f.pass.state
    each(t, f, x, increment)
    return { log_weights = f.pass.machine:log_weights(), particles = { s = x.s, mean = x.mean, cov = x.cov,
      weights = x.carried, z = x.auxiliary } }, increment
  end
end

-- Steps of b from what was known before; each series stops at its own end. `each` sees every step.
local function go_on(self, before, b, how, each)
  local around = surroundings(self, b)
  local step = each and seen_steps(self, around, how, b.size, each) or replayed_steps(self, before, around, how)
  local now, total = before, before and before.log_evidence
  for t = 1, b.steps do
    local after, increment = step(t)
    total = total and total + increment or increment
    after = b.active and now and where_active(b.active:select(1, t), after, { log_weights = now.log_weights,
      particles = now.particles }) or after
    after.log_evidence, now = total, after
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

local function drawn(mean, cov, generator)
  return ladder.draw(mean, cov, core.randn(mean:shape(), { dtype = mean:dtype(), generator = generator }))
end

local function with_noise(self, x, variance, generator)
  return x + variance:sqrt() * core.randn(x:shape(), { dtype = self.dtype, generator = generator })
end

local function through(a, x, b)
  local y = a:size(-2) == 1 and (a:squeeze(-2) * x):sum(-1, true) or a:matmul(x:unsqueeze(-1)):squeeze(-1)
  return b and y + b or y
end

-- y given z: z itself without an emission.
local function observation(self, z, generator)
  if not self.emission then
    return z
  end
  return self.emission(z):sample { generator = generator }
end

local steps = {}

-- A step of a joint path: the state is drawn, too. What the next step needs, and what is observed.
function steps.ancestral(self, parts, generator)
  local now, at, held = parts.now, parts.at, self.bases:held_columns(parts.bases)
  local shape = now.x:shape()
  shape[#shape] = nil
  local s = self.kind.onward(self, self.kind.next(self, held, now, at), now.x, shape, generator)
  local weights = self.bases:weights(s)
  local m = system_at(self, held, weights, at)
  local still = self.issm and not self.issm.moves -- a = I
  local x = with_noise(self, still and (m.b and now.x + m.b or now.x) or through(m.a, now.x, m.b), m.q, generator)
  local z = with_noise(self, through(m.c, x, m.d), m.r, generator)
  return observation(self, z, generator), weights[self.recurrence_group], s, x
end

-- A step whose state is summed out, its moments not updated by what is drawn.
function steps.marginal(self, parts, generator)
  local now = parts.now
  local count, size = now.s:size(1), now.s:size(2)
  local f = filter_of(self, size, { num_particles = count, generator = generator })
  local after, z, cov = rbpf.foresee(f, { s = now.s, mean = now.mean, cov = now.cov, carried = now.weights }, 0,
    parts.at)
  return observation(self, drawn(z, cov, generator), generator), after.carried[self.recurrence_group], after.s,
    after.mean, after.cov
end

--- width(self): numbers that a step of one path of one series holds: covariances and matrices.
function switching_system.width(self)
  local n = self.states
  return 3 * n * n + n * (self.switches + (self.auxiliary or self.size))
end

-- Where paths begin, as many as parts.many [draws] is long: particles by their weights. What a step takes and gives.
local function start(self, parts, generator, joint)
  local ancestors = ancestors_of(parts.log_weights, parts.many:size(1), generator)
  local x = parts.particles
  local function picked(part) return core.new_selected(part, ancestors) end
  local weights, s, mean, cov = picked(x.weights[self.recurrence_group]), picked(x.s), picked(x.mean), picked(x.cov)
  if joint then
    return weights, s, drawn(mean, cov, generator)
  end
  return weights, s, mean, cov
end

local starts = {
  ancestral = function(self, parts, generator) return start(self, parts, generator, true) end,
  marginal = function(self, parts, generator) return start(self, parts, generator, false) end,
}

-- What a step takes: of joint paths the state x, else its moments.
local function form_of(self, o, weights, s, x, cov)
  local form = { s = s, weights = { [self.recurrence_group] = weights }, cov = cov }
  form[o.mode == "ancestral" and "x" or "mean"] = x
  return form
end

--- paths(self, state, o): draws [draws, steps, B, p] from a belief's state: {particles, log_weights}. "ancestral":
--- joint paths; "marginal": the state summed out, its moments not updated by what is drawn.
function switching_system.paths(self, state, o)
  local replayed, list, p = replayed_step.of(self, o), {}, state.particles
  local rows, places, form = side_by_side(surroundings(self, o))
  local step = replayed(("step %s %s"):format(o.mode, form), of_row(places, steps[o.mode]))
  local weights, s, x, cov = replayed("start " .. o.mode, starts[o.mode]) { log_weights = state.log_weights,
    many = core.zeros { o.draws }, particles = { s = p.s, mean = p.mean, cov = p.cov, weights = p.weights } }
  local bases = o.mode == "ancestral" and self.bases:by_columns("system", "recurrence") or nil
  for t = 1, o.steps do
    local now = form_of(self, o, weights, s, x, cov)
    list[t], weights, s, x, cov = step { now = now, at = row_at(rows, t), bases = bases }
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

local function emission_moments(self, w, state)
  if self.emission then
    local law = self.emission(state.auxiliary)
    return matched(w, law:mean(), law:variance())
  end
  local loc, cov = switching.emitted(state.mean, state.cov, state.system)
  return matched(w, loc, cov:diagonal())
end

--- m:filtered(batch [, {generator =}]): the filter along a batch: a table with mean and variance [T, B, p] of an
--- observation like y_t given y up to t, state_mean and state_variance [T, B, n] of x_t given the same,
--- effective_sample_size and increments of the log-evidence (of what the model sees, as scaled) [T, B].
function methods:filtered(batch, given)
  local o = options.check("filtered", given, { generator = options.optional "generator" })
  local b = prepared_batch.read("filtered", self, batch)
  local lists = { mean = {}, variance = {}, state_mean = {}, state_variance = {}, effective_sample_size = {},
    increments = {} }
  recording.off(go_on, self, nil, b, { generator = o.generator }, function(t, f, state, increment)
    local w = f.pass.machine:weights()
    lists.mean[t], lists.variance[t] = emission_moments(self, w, state)
    lists.state_mean[t], lists.state_variance[t] = matched(w, state.mean, state.cov:diagonal())
    lists.effective_sample_size[t], lists.increments[t] = f:effective_sample_size(), increment
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
  return rbpf.matched(state.log_weights:exp(), state.particles.mean, state.particles.cov)
end

switching_system.methods = methods

return switching_system
