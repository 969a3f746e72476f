--- Rao-Blackwellised particle filters: particles s for what is not Gaussian, and for each of them the exact moments of
--- a state x that is linear and Gaussian once s is known (Doucet, de Freitas, Murphy & Russell 2000).
---
---     s_1 ~ init,  s_t ~ transition(s_{t-1}),  x_0 ~ N(initial_mean, initial_cov)
---     x_t = A(s_t) x_{t-1} + b(s_t) + N(0, Q(s_t)),      y_t = C(s_t) x_t + d(s_t) + N(0, R(s_t))
---
---     local f = pn.smc.rbpf{
---       num_particles = 100, initial_mean = m0, initial_cov = v0, init = dist.categorical{0.6, 0.4},
---       transition = function(s, t, u) return dist.categorical{probs = rows:take(1, s)} end,
---       system = function(s, t, u)
---         return {transition = a:take(1, s), transition_cov = q:take(1, s), emission = c, emission_cov = r} end}
---     local result = f:run(y)               -- y [T, B..., p]: log_evidence, mean, cov, probabilities
---     local paths = f:smooth{draws = 50}      -- given all of y
---     local ahead = f:forecast(12)
---
--- Particles are the first axis, independent series the next ones: s is [N, B..., event], moments [N, B..., n] and [N,
--- B..., n, n].
-- help: pn.smc, methods rbpf
local backward = require "penumbra.smc.backward_simulation"
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local linear_system = require "penumbra.smc.kalman.linear_system"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local switching = require "penumbra.smc.switching"

local rbpf = {}
local methods = {}

-- ---- a step ----

-- The moments of x_0, one for each particle.
local function prior_of(self)
  local moments, of_system = {}, type(self.system) == "table" and self.system or {}
  for _, name in ipairs { "initial_mean", "initial_cov" } do
    local x = self[name] or of_system[name]
    if type(x) == "function" then x = x() end
    moments[#moments + 1] = options.argument("rbpf", name, x, "tensor")
  end
  local mean, cov = moments[1], moments[2]
  local wide = table.move(self.shape, 1, #self.shape, 1, {})
  wide[#wide + 1] = mean:size(-1)
  return mean:broadcast_to(wide), cov
end

-- Moments of x_{t-1} that know of s = s_t, and log p(s | past): where s_t depends on x_{t-1} it is an observation of
-- it. Without (conditioning = "published") x_{t-1} keeps its moments.
local function condition(self, view, s)
  local link = view.link
  if not link or self.conditioning == "published" then return view.mean, view.cov, nil end
  local mean, cov, log_prob = core.kalman_update(view.mean, view.cov, s, link.matrix, link.offset, link.cov)
  if not mean then core.error("rbpf: conditioning on s: " .. cov) end
  return mean, cov, log_prob
end

local function predicted(self, view, s)
  local mean, cov = condition(self, view, s)
  local m = switching.system_at(self, s, view.t, view.input)
  mean, cov = core.kalman_predict(mean, cov, m.a, m.b, m.q)
  return mean, cov, m
end

-- What a proposal may look at: the past, y, and what each s would make of it.
local view_methods = core.namespace("a view", {
  --- view:predict(s): mean and cov of x_t if s_t is s.
  predict = function(view, s)
    local mean, cov = predicted(view.filter, view, s)
    return mean, cov
  end,
  --- view:log_likelihood(s): log p(y_t | s_t = s, past), and the moments of x_t given y_t.
  log_likelihood = function(view, s)
    local mean, cov, m = predicted(view.filter, view, s)
    local given = { observed = view.observed or nil }
    local after, after_cov, log_prob = core.kalman_update(mean, cov, view.y, m.c, m.d, m.r, given)
    if not after then core.error("rbpf: log_likelihood: " .. after_cov) end
    return log_prob, after, after_cov
  end,
})
local view_class = { __index = view_methods, __name = "view" }

local function look(self, state, t, y, u, observed)
  local view = setmetatable({ filter = self, t = t, y = y or false, input = u, observed = observed or false,
    law = false, link = false }, view_class) -- (what is nil is looked for in the methods)
  if not state then
    view.mean, view.cov = prior_of(self)
    view.law = not self.sampler and switching.first_law(self, u)
    return view
  end
  view.s, view.mean, view.cov, view.carried = state.s, state.mean, state.cov, state.carried
  view.link = self.coupling and switching.link_at(self, view.s, t, u, view.carried)
  if view.link and not self.sampler then
    view.law = switching.fitted(switching.coupled_law(view.mean, view.cov, view.link), self.shape)
  elseif not self.sampler then
    local moments = self.conditioning == "published" and { mean = view.mean, cov = view.cov } or nil
    view.law = switching.law_at(self, view.s, t, u, self.shape, moments)
  end
  return view
end

-- The Kalman step given s: the state, and log p(y | s, past). Without any y: the prediction, nil.
local function exact_step(self, view, mean, cov, s, carried)
  local m = switching.system_at(self, s, view.t, view.input, carried)
  local state, log_prob = { s = s, carried = carried, system = m }, nil
  if not view.y then
    state.mean, state.cov = core.kalman_predict(mean, cov, m.a, m.b, m.q)
  elseif self.measurement_update then
    state.mean, state.cov, log_prob, state.auxiliary = self.measurement_update(view, mean, cov, m)
  else
    state.mean, state.cov, log_prob = core.kalman_step(mean, cov, m.a, m.b, m.q, view.y, m.c, m.d, m.r,
      { observed = view.observed or nil })
  end
  if not state.mean then
    core.error(("rbpf: step %d: %s"):format(view.t, state.cov))
  end
  return state, log_prob
end

local function sum(x, y)
  return x and y and x + y or x or y
end

-- Draws from the law or the proposal: state and the logarithm of its weight. A draw without a path counts as one of a
-- fixed proposal: the slope of its log density is part of its weight.
local function propose(self, view)
  local law = view.law
  if self.sampler then
    local s, ratio, carried = self.sampler(view)
    local mean, cov = condition(self, view, s)
    local state, log_y = exact_step(self, view, mean, cov, s, carried)
    return state, sum(log_y, ratio)
  elseif not dist.is(law) then
    if self.proposal then
      core.error "rbpf: a proposal needs a transition and an init that give distributions"
    end
    return exact_step(self, view, view.mean, view.cov, law)
  end
  local from = self.proposal and switching.fitted(self.proposal(view), self.shape) or law
  local s = switching.draw(self, from, self.shape)
  local mean, cov, log_p = condition(self, view, s)
  local path, extra = switching.has_path(from), nil
  if from ~= law or not path and switching.followed(law) then
    local log_q = from:log_prob(s)
    extra = (from ~= law and (log_p or law:log_prob(s)) or log_q) - (path and log_q or log_q:detach())
  end
  local state, log_y = exact_step(self, view, mean, cov, s)
  return state, sum(log_y, extra and extra:to(state.mean:dtype()))
end

local function num_labels(law)
  local arguments = law:arguments()
  return (arguments.logits or arguments.probs):size(-1)
end

-- Elements k[...] of the first axis of x [K, ..., event].
local function chosen(x, k)
  local shape = x:shape()
  local index = k:unsqueeze(1)
  for _ = index:ndim() + 1, #shape do
    index = index:unsqueeze(-1)
  end
  shape[1] = 1
  return x:gather(1, index:broadcast_to(shape)):squeeze(1)
end

-- All labels of a categorical switch weighed for each particle: p(s | past, y) itself is drawn from, and the weight,
-- the sum over labels, does not depend on the draw.
local function propose_optimal(self, view)
  local law = view.law
  if not dist.is(law) or law.name ~= "categorical" then
    core.error(("rbpf: proposal 'optimal' needs a categorical switch, got %s"):format(dist.is(law) and law.name
      or "draws of it"))
  end
  law = law:expand(self.shape)
  local num = num_labels(law)
  local shape, wide = { num }, { num }
  for k, size in ipairs(self.shape) do
    shape[k + 1], wide[k + 1] = 1, size
  end
  local labels = core.arange(num, { dtype = "int64" }):reshape(shape)
  local joint = law:log_prob(labels:broadcast_to(wide))
  local all, log_y = exact_step(self, view, view.mean, view.cov, labels)
  local mean, cov = all.mean, all.cov
  joint = sum(joint:to(mean:dtype()), log_y)
  local order = {}
  for k = 1, #wide do
    order[k] = k % #wide + 1
  end
  local s = dist.categorical { logits = joint:detach():permute(order) }:sample { generator = self.generator }
  wide[#wide + 1] = mean:size(-1)
  mean = chosen(mean:broadcast_to(wide), s)
  wide[#wide + 1] = mean:size(-1)
  cov = chosen(cov:broadcast_to(wide), s)
  local total = joint:logsumexp(1)
  if joint:requires_grad() then
    local picked = chosen(joint, s)
    total = total:detach() + (picked - picked:detach()) -- the slope of what was drawn, with the value 0
  end
  return { s = s, mean = mean, cov = cov }, total
end

-- Without resampled_gradient, moments that were resampled pass no gradient on where a filter was due.
local function resampled(pass, state)
  local self = pass.filter
  local due = not self.resampled_gradient
    and pass.machine:effective_sample_size():le(self.threshold * self.shape[1]) or nil
  local ancestors = pass.machine:resample()
  local parts = { s = state.s, mean = state.mean, cov = state.cov, carried = state.carried }
  return ancestors == nil and state or machine.map("rbpf", function(x)
    x = core.new_selected(x, ancestors)
    local mask = x:requires_grad() and due
    for _ = #self.shape + 1, mask and x:ndim() or 0 do
      mask = mask:unsqueeze(-1)
    end
    return mask and mask:where(x:detach(), x) or x
  end, parts)
end

local function advance(pass, state, t, y, u, observed)
  local self = pass.filter
  local view = look(self, state and resampled(pass, state), t, y, u, observed)
  pass.labels = pass.labels or dist.is(view.law) and view.law.name == "categorical" and num_labels(view.law)
  local log_increment
  if self.proposal == "optimal" then
    state, log_increment = propose_optimal(self, view)
  else
    state, log_increment = propose(self, view)
  end
  return state, pass.machine:weigh(log_increment or core.zeros(self.shape, { dtype = state.mean:dtype() }))
end

-- ---- a pass over a series ----

local function new_pass(self)
  return { filter = self, machine = machine.new(self.machine_options), steps = {}, t = 0, state = false,
    labels = false }
end

local function observe(pass, y, input, observed)
  local self, t = pass.filter, pass.t + 1
  local state, increment = advance(pass, pass.state or nil, t, y, input, observed)
  pass.t, pass.state = t, state
  if self.history then
    pass.steps[t] = { s = state.s, mean = state.mean, cov = state.cov, log_weights = pass.machine:log_weights(), y = y,
      input = input, observed = observed }
  end
  return increment
end

-- sum_p w_p (V_p + (m_p - m)(m_p - m)^T) around m = sum_p w_p m_p; w [N, B...].
local function matched(weights, means, covs)
  local w = weights:unsqueeze(-1)
  local mean = (w * means):sum(1, true)
  local off = (means - mean):unsqueeze(-1)
  return mean:squeeze(1), (w:unsqueeze(-1) * (covs + off * off:transpose(-2, -1))):sum(1)
end

-- 1 at the label, [..., K].
local function one_hot(s, num, like)
  return s:unsqueeze(-1):eq(core.arange(num, { dtype = "int64" })):to(like:dtype())
end

local function moments_of(pass)
  return matched(pass.machine:weights(), pass.state.mean, pass.state.cov)
end

local function probabilities_of(pass)
  local w, state = pass.machine:weights(), pass.state
  return (w:unsqueeze(-1) * one_hot(state.s, pass.labels, w)):sum(1)
end

-- u_t of a list, or of a tensor with time as its first axis.
local function input_at(inputs, t)
  if type(inputs) == "userdata" then return inputs:select(1, t) end
  return inputs and inputs[t]
end

-- ---- what scripts call ----

local function current(self, where)
  return self.pass or core.error(("rbpf: %s: nothing was observed yet"):format(where))
end

--- rbpf:observe(y [, u [, observed]]): takes in the next observation y [B..., p] (nil: nothing was observed) with
--- inputs u, which transition and system get, and gives the increment of the log-evidence [B...]. observed: bool [B...,
--- p], false where an element is missing, as NaN is by itself; true: all is there, and y is not looked at.
function methods:observe(y, u, observed)
  if y ~= nil then
    options.argument("rbpf: observe", "y", y, "tensor")
    observed = linear_system.observed_of("rbpf: observe", y, observed)
  end
  return rbpf.observe(self, y, u, observed)
end

--- observe(f, y, u, observed): f:observe without a look at y: observed is all that is said of what is missing.
function rbpf.observe(self, y, u, observed)
  self.pass = self.pass or new_pass(self)
  return observe(self.pass, y, u, observed)
end

local run_options = { inputs = options.any(nil), observed = options.any(nil), moments = true }

--- Observes a whole series y [T, B..., p] from its beginning. options: inputs (u_t by t: a list, or a tensor with time
--- as its first axis), observed (bool [T, B..., p]; NaN is missing by itself; true: all is there), moments (true; false
--- leaves out what is marked *). Gives log_evidence [B...] and increments [T, B...], both with a gradient;
--- effective_sample_size [T, B...]*, mean [T, B..., n]* and cov [T, B..., n, n]* of x_t given y up to t; of a
--- categorical switch probabilities [T, B..., K]*; and machine, the step machine as it stands at the end. f:smooth,
--- f:forecast, f:observe and the others go on from there (but not within pn.compile, which would not renew what they
--- see).
function methods:run(y, given)
  options.argument("rbpf: run", "y", y, "tensor")
  local o = options.check("rbpf: run", given, run_options)
  local pass = new_pass(self)
  local lists = { increments = {}, effective_sample_size = {}, mean = {}, cov = {}, probabilities = {} }
  for t = 1, y:size(1) do
    local there, y_t = core.is_tensor(o.observed) and o.observed:select(1, t) or o.observed, y:select(1, t)
    lists.increments[t] = observe(pass, y_t, input_at(o.inputs, t),
      linear_system.observed_of("rbpf: observe", y_t, there))
    if o.moments then
      lists.mean[t], lists.cov[t] = moments_of(pass)
      lists.effective_sample_size[t] = pass.machine:effective_sample_size()
      lists.probabilities[t] = pass.labels and probabilities_of(pass) or nil
    end
  end
  local result = { log_evidence = pass.machine:log_evidence(), machine = pass.machine }
  for name, list in pairs(lists) do
    result[name] = list[1] and core.stack(list, 1)
  end
  if not core.capture.going_on() then -- a replay would not renew it
    self.pass = pass
  end
  return result
end

--- Forgets all observations.
function methods:reset()
  self.pass = false
end

--- How many observations were taken in.
function methods:steps()
  return self.pass and self.pass.t or 0
end

--- The sum of the increments so far, [B...].
function methods:log_evidence()
  return current(self, "log_evidence").machine:log_evidence()
end

--- The effective sample size of the weights, [B...].
function methods:effective_sample_size()
  return current(self, "effective_sample_size").machine:effective_sample_size()
end

--- The filter as a Gaussian mixture: {log_weights [N, B...] (normalised), s, mean [N, B..., n], cov [N, B..., n, n]},
--- and what `sampler` keeps, carried.
function methods:mixture()
  local pass = current(self, "mixture")
  local x = pass.state
  return { log_weights = pass.machine:log_weights(), s = x.s, mean = x.mean, cov = x.cov, carried = x.carried }
end

local mixture_parts = { log_weights = options.required "tensor", s = options.required(),
  mean = options.required "tensor", cov = options.required "tensor", carried = options.any(nil) }

--- Goes on from a mixture as f:mixture() gives it, of a filter like this one: what this one has observed is forgotten,
--- and its log-evidence counts from here. f:smooth needs all observations, and so refuses.
function methods:resume(mixture)
  local given = options.check("rbpf: resume", mixture, mixture_parts)
  local want, got = options.shape_text(self.shape), options.shape_text(given.log_weights)
  if want ~= got then
    core.error(("rbpf: resume: log_weights must be %s, got %s"):format(want, got))
  end
  local pass = new_pass(self)
  pass.machine:tilt(given.log_weights + math.log(self.shape[1]))
  pass.state, pass.resumed, self.pass = given, true, pass
end

--- Mean [B..., n] and covariance [B..., n, n] of x_t given y up to t: the moments of the mixture.
function methods:moments()
  return moments_of(current(self, "moments"))
end

--- The weighted mean over the particles of x [N, B..., ...], a tensor with a value for each.
function methods:mean(x)
  return current(self, "mean").machine:mean(x)
end

--- go_on(f, before): as f:resume, or, where before.weighed holds a machine's weights as they were, to the same bits as
--- without the break. Internal.
function rbpf.go_on(self, before)
  if not before.weighed then return self:resume(before) end
  local pass = new_pass(self)
  machine.core_of(pass.machine):restore(before.weighed)
  pass.state, pass.resumed, self.pass = before, true, pass
end

local function labels_of(pass, where)
  return pass.labels or core.error(("rbpf: %s: only a categorical switch has them"):format(where))
end

--- Probabilities [B..., K] of the K labels of a categorical switch given y up to t.
function methods:probabilities()
  local pass = current(self, "probabilities")
  labels_of(pass, "probabilities")
  return probabilities_of(pass)
end

-- Means over the draws (axis 2) of moments [T, M, B..., n], [T, M, B..., n, n]: those of the mixture.
local function matched_draws(means, covs)
  local mean = means:mean(2, true)
  local off = (means - mean):unsqueeze(-1)
  return mean:squeeze(2), (covs + off * off:transpose(-2, -1)):mean(2)
end

--- smoothed(f, steps, num, labels): what f:smooth gives of steps that a filter like f has kept, and z, their own
--- observations, where steps have them.
function rbpf.smoothed(self, steps, num, labels)
  local mean, cov = prior_of(self)
  local s, means, covs, z = backward.simulate(self, steps, num, mean:select(1, 1), cov)
  local result = { s = s, path_mean = means, path_cov = covs, z = z }
  result.mean, result.cov = matched_draws(means, covs)
  result.probabilities = labels and one_hot(s, labels, means):mean(2) or nil
  return result
end

--- Paths of the particle part drawn backwards given all that was observed, and the exact smoother of x along each of
--- them. options: draws, how many (as many as particles). Gives s [T, draws, B..., event], path_mean [T, draws, B...,
--- n], path_cov [T, draws, B..., n, n]; mean [T, B..., n] and cov [T, B..., n, n], the moments of x_t given all y; of a
--- categorical switch probabilities [T, B..., K]. No gradient. It needs history = true, a transition that gives a
--- distribution, and conditioning = "exact" where s depends on x. Lindsten, Bunch, Saerkkae, Schoen & Godsill 2016.
function methods:smooth(given)
  local o = options.check("rbpf: smooth", given, { draws = self.shape[1] })
  local pass = current(self, "smooth")
  if not self.history then
    core.error "rbpf: smooth needs a filter with history = true"
  elseif self.conditioning == "published" then
    core.error "rbpf: smooth needs conditioning = 'exact'"
  elseif pass.resumed or self.sampler or self.measurement_update then
    core.error("rbpf: smooth needs " .. (pass.resumed and "all observations: this filter goes on from a mixture"
      or "a filter without sampler and measurement_update"))
  elseif not core.is_tensor(pass.state.s) then
    core.error "rbpf: smooth needs particles that are a tensor, and a transition that gives a distribution"
  end
  return recording.off(rbpf.smoothed, self, pass.steps, o.draws, pass.labels)
end

--- foresee(f, state, t, u): a step without y: the state after it, and mean and covariance of y for each particle.
function rbpf.foresee(self, state, t, input)
  local view = look(self, state, t, nil, input)
  local s, _, carried = view.law, nil, nil
  if self.sampler then
    s, _, carried = self.sampler(view)
  end
  s = dist.is(s) and switching.draw(self, s, self.shape) or s
  local mean, cov = condition(self, view, s)
  local after = exact_step(self, view, mean, cov, s, carried)
  return after, switching.emitted(after.mean, after.cov, after.system)
end

local FORESEEN = { "s", "state_mean", "state_cov", "y_mean", "y_cov", "mean", "cov", "probabilities" }

--- The next `steps` observations: each particle goes on by its own law, its Gaussian part exactly. options: inputs, as
--- for f:run, from the first of these steps on. Gives, for each of H steps, the mixture: log_weights [N, B...], s [H,
--- N, B..., event], state_mean and state_cov, y_mean [H, N, B..., p] and y_cov [H, N, B..., p, p]; its moments mean [H,
--- B..., p] and cov [H, B..., p, p]; of a categorical switch probabilities [H, B..., K].
function methods:forecast(steps, given)
  options.whole("rbpf: forecast", "steps", steps, 1)
  local o = options.check("rbpf: forecast", given, { inputs = options.any(nil) })
  local pass = current(self, "forecast")
  local log_weights, state, lists = pass.machine:log_weights(), pass.state, {}
  local w = log_weights:exp()
  for _, name in ipairs(FORESEEN) do
    lists[name] = {}
  end
  for h = 1, steps do
    local y, y_cov
    state, y, y_cov = rbpf.foresee(self, state, pass.t + h, input_at(o.inputs, h))
    local mean, cov = matched(w, y, y_cov)
    for k, value in ipairs { state.s, state.mean, state.cov, y, y_cov, mean, cov } do
      lists[FORESEEN[k]][h] = value
    end
    lists.probabilities[h] = pass.labels and (w:unsqueeze(-1) * one_hot(state.s, pass.labels, w)):sum(1) or nil
  end
  local ahead = { log_weights = log_weights }
  for name, list in pairs(lists) do
    ahead[name] = type(list[1]) == "userdata" and core.stack(list, 1) or list[1] and list
  end
  return ahead
end

local class = { __name = "rbpf", __index = core.namespace("a Rao-Blackwellised filter", methods),
  __tostring = function(self) return ("rbpf of %d particles"):format(self.num_particles) end }

-- The machine's options, and the filter's own.
local rbpf_options = { history = true, init = options.any(nil), initial_mean = options.any(nil),
  initial_cov = options.any(nil),
  transition = options.optional "function", coupling = options.optional "function",
  system = options.any(nil), proposal = options.any(nil), conditioning = options.choice("exact", "published"),
  sampler = options.optional "function", measurement_update = options.optional "function", resampled_gradient = true }
local of_machine = {}
for name, rule in pairs(machine.options) do
  if name ~= "history" and name ~= "conditional" then
    rbpf_options[name], of_machine[#of_machine + 1] = rule, name
  end
end

local function check_parts(o)
  local of_system = type(o.system) == "table" and o.system or {}
  if type(o.system) ~= "table" and type(o.system) ~= "function" then
    core.error(("rbpf: system must be a function of particles or a linear system, got %s"):format(type(o.system)))
  end
  for _, name in ipairs { "initial_mean", "initial_cov" } do
    local x = o[name] or of_system[name]
    if not core.is_tensor(x) and type(x) ~= "function" then
      core.error(("rbpf: %s must be a tensor, or a function that gives it, got %s"):format(name, type(x)))
    end
  end
  if o.sampler then
    if o.init ~= nil or o.transition or o.proposal ~= nil then
      core.error "rbpf: sampler stands in the place of init, transition and proposal"
    end
  elseif not dist.is(o.init) and type(o.init) ~= "function" then
    core.error("rbpf: init must be a distribution, or a function that gives one or draws of it")
  end
  if o.gradient == "transport" then
    core.error "rbpf: gradient 'transport' makes means of particles, which labels and covariances do not have"
  elseif not o.sampler and not o.transition == not o.coupling then
    core.error "rbpf: needs a transition or a coupling, one of the two"
  elseif o.proposal ~= nil and o.proposal ~= "optimal" and type(o.proposal) ~= "function" then
    core.error "rbpf: proposal must be a function or 'optimal'"
  end
end

--- A filter whose particles s_t carry the exact moments of a state x_t that is linear and Gaussian given their path.
---
---     s_1 ~ init,  s_t ~ transition(s_{t-1}),  x_0 ~ N(initial_mean, initial_cov)
---     x_t = A(s_t) x_{t-1} + b(s_t) + N(0, Q(s_t)),      y_t = C(s_t) x_t + d(s_t) + N(0, R(s_t))
---
--- initial_mean  [..., n] of x_0, or a function that gives it; initial_cov [..., n, n]; both may stand in system
--- init          law of s_1, or a function of the shape {N, B...} and u_1 that gives it, or draws [N, B..., event] of
---               it
--- transition    function(s, t, u): law of s_t given s = s_{t-1} [N, B..., event], or draws of it (a tensor, or a table
---               of tensors; without a density there is no proposal, no smoothing)
--- coupling      in its place, for switches that depend on the state: function(s, t, u) gives F [..., k, n], f [..., k]
---               (or nil) and S [..., k, k] of s_t = F x_{t-1} + f + N(0, S)
--- system        function(s, t, u): {transition =, transition_cov =, emission =, emission_cov =, transition_offset =,
---               emission_offset =, transition_input =, emission_input =} given s = s_t, with or without the axes of s;
---               what is added may be left out; or a pn.smc.linear_system (a table of its parts) for all s
--- proposal      function(view): the law to draw s_t from, where it is not that of the model. view.law is p(s_t |
---               past), view.s s_{t-1}, view.mean and view.cov the moments of x_{t-1}, view.y, view.t, view.input;
---               view:predict(s) gives mean and cov of x_t if s_t = s, view:log_likelihood(s) then log p(y_t | s,
---               past), mean and cov given y_t. "optimal", for a categorical switch: p(s_t | past, y_t), all labels
---               weighed; system gets s as [K, 1, ...]
--- conditioning  of x_{t-1} on an s_t that depends on it: "exact" counts s_t as an observation of x_{t-1}, as the model
---               above asks. "published" leaves that out, as the recursion in the paper does (Kurle et al. 2020,
---               section 3.3): the filter of another model, in which s_t depends on the moments of x_{t-1}; transition
---               then gets {mean =, cov =} of x_{t-1} as fourth argument
--- sampler       in the place of init, transition and proposal: function(view) gives draws of s_t, the logarithm of
---               p(s_t | past) over their density (nil: 0), and what particles carry beside s, a table of tensors
---               (nil): view.carried, and the fourth argument of coupling and system. view.link is what coupling gives;
---               at the first step view.s is nil, in a forecast view.y is false
--- measurement_update  in the place of the Kalman step, for observations that are not linear and Gaussian:
---               function(view, mean, cov, m) of the moments of x_{t-1} and m.a ... m.r gives those of x_t and the
---               logarithm of what the weight is multiplied by; view.y, view.observed
--- resampled_gradient  true; false: states that were resampled pass no gradient to the steps before
--- history       true: what f:smooth needs is kept
--- num_particles, resampling, threshold, batch_shape, gradient, generator and the others of pn.smc: as there
---
--- Draws of s without a path for the gradient count as those of a fixed proposal, so that their laws' parameters get a
--- gradient.
---
--- f:observe(y), f:run(y), f:moments(), f:mixture(), f:probabilities(), f:mean(x), f:smooth{draws =},
--- f:forecast(steps).
--- Source: Doucet, de Freitas, Murphy & Russell 2000; Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020.
function rbpf.rbpf(given)
  linear_system.refuse_missing("rbpf", given)
  if type(given) == "table" and given.prior ~= nil then
    core.error "rbpf: prior is called initial_mean and initial_cov"
  end
  local o = options.check("rbpf", given, rbpf_options)
  check_parts(o)
  o.shape, o.pass, o.machine_options = { o.num_particles, table.unpack(o.batch_shape or {}) }, false, {}
  for _, name in ipairs(of_machine) do
    o.machine_options[name] = o[name]
  end
  for _, name in ipairs { "coupling", "proposal", "sampler", "measurement_update" } do
    o[name] = o[name] or false -- what is nil is looked for in the methods
  end
  return setmetatable(o, class)
end

rbpf.methods, rbpf.matched = methods, matched
-- The methods of what this makes, by what help calls the objects.
rbpf.objects = { ["rbpf:"] = methods, ["view:"] = view_methods }

return rbpf
