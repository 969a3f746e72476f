--- Hidden Markov models: exact inference over whole sequences, in logarithms.
---
---     local m = pn.smc.hmm{initial = {0.5, 0.5}, transition = {{0.9, 0.1}, {0.2, 0.8}},
---       emission = pn.dist.normal(pn.tensor{-1, 1}, 0.5)}
---     m:log_likelihood(y)                  log-likelihood of y [T, B...]: [B...]; differentiable, twice and more
---     m:filter(y)                    log-probabilities of the states given what was seen so far
---     m:smooth(y)                    posterior probabilities of states (and of neighbouring pairs) given all of y
---     m:viterbi(y)                   the most probable path, int64 [T, B...]
---     m:sample_states(y, {draws = n})    paths drawn from the posterior, int64 [n, T, B...]
---     m:forecast(y, h)     probabilities of the states, and the law of the observations, of the next h steps
---     m:sample(T)                    states and observations drawn from the model
---     m:fit(y)                       Baum and Welch's algorithm: a model of higher likelihood
---
--- Time is the leading axis of y: [T, B..., event] for B... sequences side by side. States are numbered from 0.
---
--- Options of the constructor, by the name that says what is given:
---   initial or initial_logits        of the first state: [K] or [B..., K]
---   transition or transition_logits  from state (row) to state (column): [K, K], of each step [T, K, K], or of each
---                                    sequence [1 or T, B..., K, K]. Entry t leads into step t: the first is not used.
---                                    Rows are normalised; a probability of 0 (a logit of -inf) is legal
---   emission   a distribution whose last batch axis counts the states ([K], or all axes of the log-likelihoods), or a
---              function of y that gives such a distribution or log-likelihoods [T, B..., K]
---
--- Where the emission is a distribution, an observation that is NaN is missing. Option of all methods that take y:
--- observed, bool [T, B...], false where nothing was observed, whatever y holds there. Sequences of different lengths
--- end in such steps.
---
--- Rabiner 1989. A sum that would underflow is taken anew in logarithms, so that no scaling is lost on the way.
-- help: pn.smc.hmm, part
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"
local baum_welch = require "penumbra.smc.baum_welch"

local hmm = {}

---- shapes ----

local shape_text = options.shape_text

-- The logarithm of probabilities along the last axis, normalised; 0 gives -inf and no gradient.
local function log_normalised(p)
  local none = p:eq(0)
  local safe = core.where(none, core.ones({}, { dtype = p:dtype() }), p)
  return core.where(none, core.full({}, -math.huge, { dtype = p:dtype() }), (safe / p:sum({ -1 }, true)):log())
end

-- One of `name` and `name`_logits as normalised logarithms.
local function logarithms(o, name)
  local logits = name .. "_logits"
  if (o[name] == nil) == (o[logits] == nil) then
    core.error(("hmm: exactly one of %s and %s must be given"):format(name, logits))
  end
  local given = o[name] ~= nil and name or logits
  local x = options.numbers("hmm", given, o[given], "tensor")
  if x:ndim() < 1 or x:size(-1) < 1 then
    core.error(("hmm: %s must have an axis of at least 1 state, got %s"):format(given, shape_text(x)))
  end
  if given == name then
    local sums = x:ge(0):logical_and((x:sum({ -1 }, true) - 1):abs():lt(1e-5))
    if not core.capture.going_on() and not sums:all():item() then
      core.error(("hmm: %s must be probabilities that sum to 1 along the last axis"):format(given))
    end
    return log_normalised(x)
  end
  return x:log_softmax(-1)
end

local function count_of(sizes, from, to)
  local n = 1
  for i = from, to do n = n * sizes[i] end
  return n
end

-- `lead` sizes, then others.
local function sizes_of(lead, ...)
  local sizes = table.move(lead, 1, #lead, 1, {})
  for _, n in ipairs { ... } do sizes[#sizes + 1] = n end
  return sizes
end

local function matches(shape, at, want)
  for i, n in ipairs(want) do
    if shape[at + i - 1] ~= n then return false end
  end
  return #shape == at + #want - 1
end

-- Initial state and transition of T steps of sequences with batch axes `batch`, as the passes take them.
local function operands(self, where, steps, batch)
  local k, n = self.num_states, count_of(batch, 1, #batch)
  local initial, transition = self.log_initial, self.log_transition
  if initial:ndim() == 1 then
    initial = initial:reshape { 1, k }
  elseif matches(initial:shape(), 1, sizes_of(batch, k)) then
    initial = initial:reshape { n, k }
  else
    core.error(("%s: initial %s does not fit observations of batch [%s]"):format(where, shape_text(initial),
      table.concat(batch, ", ")))
  end
  local shape = transition:shape()
  local rows = #shape > 2 and shape[1] or 1
  if #shape == 2 or #shape == 3 and (rows == steps or rows == 1) then
    transition = transition:reshape { rows, 1, k, k }
  elseif (rows == 1 or rows == steps) and matches(shape, 2, sizes_of(batch, k, k)) then
    transition = transition:reshape { rows, n, k, k }
  else
    core.error(("%s: transition %s does not fit %d steps of batch [%s]"):format(where, shape_text(transition), steps,
      table.concat(batch, ", ")))
  end
  return initial, transition
end

---- what is seen ----

-- y with the axis of the states before those of its events, seen by each state.
local function for_states(y, k, events)
  local shape = y:shape()
  local at = #shape - events + 1
  local sizes = table.move(shape, 1, #shape, 1, {})
  table.insert(sizes, at, k)
  return y:unsqueeze(at):broadcast_to(sizes)
end

-- Log-likelihoods under a distribution; its batch is [K] or that of the result.
local function under(self, where, d, y, observed)
  local k, events = self.num_states, #d.event_shape
  local lead = y:ndim() - events
  local batch = d.batch_shape
  if lead < 1 or batch[#batch] ~= k then
    core.error(("%s: emission's batch must end in %d states and y be [T, B..., event], got batch [%s] and y %s"):format(
      where, k, table.concat(batch, ", "), shape_text(y)))
  end
  local x = for_states(y, k, events)
  if observed then
    local sizes = table.move(x:shape(), 1, lead + 1, 1, {})
    d = dist.masked(d:expand(sizes), observed:unsqueeze(-1):broadcast_to(sizes))
  end
  return d:log_prob(x)
end

local function check_observed(where, y, observed, lead)
  options.argument(where, "observed", observed, "tensor")
  local fits = observed:dtype() == "bool" and observed:ndim() <= y:ndim() and (not lead or observed:ndim() == lead)
  for i = 1, fits and observed:ndim() or 0 do fits = fits and observed:size(i) == y:size(i) end
  if not fits then
    core.error(("%s: observed must be bool and shaped like y's steps and sequences, got %s %s for y %s"):format(where,
      observed:dtype(), shape_text(observed), shape_text(y)))
  end
end

-- observed, and false where an observation of y, events axes at the end, is NaN. In a capture, which must not read y,
-- without a look whether any is.
local function without_nan(where, y, events, observed)
  if y:ndim() <= events or not y:dtype():find "^float" then return observed end
  local nan = y:isnan()
  local capturing = core.capture.going_on()
  if not capturing and not nan:any():item() then return observed end
  if events > 0 then
    nan = nan:flatten(y:ndim() - events + 1)
    local some = nan:any(-1)
    nan = nan:all(-1)
    if observed then some = some:logical_and(observed:broadcast_to(some:shape())) end
    if not capturing and some:logical_and(nan:logical_not()):any():item() then
      core.error(where .. ": y has observations of which some numbers are NaN and some are not; observed = says which "
        .. "to leave out")
    end
  end
  return observed and nan:logical_not():logical_and(observed:broadcast_to(nan:shape())) or nan:logical_not()
end

-- Log-likelihoods [T, B..., K], zeros where nothing was observed, and observed as it came out.
local function seen(self, where, y, observed)
  y = options.numbers(where, "y", y, "tensor")
  if observed ~= nil then check_observed(where, y, observed) end
  local d = self.emission
  if type(d) == "function" then d = d(y) end
  local e
  if dist.is(d) then
    observed = without_nan(where, y, #d.event_shape, observed)
    e = under(self, where, d, y, observed)
  elseif core.is_tensor(d) then
    e = d
  else
    core.error(("%s: emission must give a distribution or a tensor, got a %s"):format(where, type(d)))
  end
  if e:ndim() < 2 or e:numel() == 0 or e:size(-1) ~= self.num_states then
    core.error(("%s: log-likelihoods must have shape [T, B..., %d] with at least one step, got %s"):format(where,
      self.num_states, shape_text(e)))
  end
  if observed and not dist.is(d) then
    check_observed(where, y, observed, e:ndim() - 1)
    e = core.where(observed:unsqueeze(-1), e, core.zeros({}, { dtype = e:dtype() }))
  end
  return e, observed
end

local y_options = { observed = options.optional "tensor" }

-- Of each sequence of observed [T, B...]: the number of steps up to the last true one, int64 [n].
local function lengths_of(observed, n)
  local t = observed:size(1)
  local place = core.arange(0, t, { dtype = "float64" }):reshape { t, 1 } + 1
  return (observed:reshape { t, n }:to "float64" * place):max(1):to "int64"
end

-- All that a pass over y needs. add: steps without observation after the last.
local function prepare(self, where, y, o, add)
  local e, observed = seen(self, where, y, o.observed)
  local shape = e:shape()
  local steps, k = shape[1], shape[#shape]
  local batch = table.move(shape, 2, #shape - 1, 1, {})
  e = e:reshape { steps, count_of(batch, 1, #batch), k }
  if add then e = e:pad(1, 0, add) end
  local p = { emission = e, steps = steps + (add or 0), batch = batch }
  p.initial, p.transition = operands(self, where, p.steps, batch)
  p.observed, p.lengths = observed, observed and lengths_of(observed, p.emission:size(2))
  return p
end

local function run(p, backward)
  return core.new_hmm_filter(p.initial, p.transition, p.emission, backward)
end

-- [T, B] or [T, B, K] with the batch axes of y.
local function unfold(p, t, ...)
  return t:reshape(sizes_of({ t:size(1), table.unpack(p.batch) }, ...))
end

---- methods ----

local methods = {}

--- m:log_likelihood(y [, {observed =}]): log-likelihood of y, states summed out: [B...]. -inf if y is impossible.
function methods:log_likelihood(y, given)
  local p = prepare(self, "log_likelihood", y, options.check("log_likelihood", given, y_options))
  local _, _, increment = run(p)
  return increment:sum(1):reshape(p.batch)
end

--- m:filter(y [, {observed =}]): a table of predicted, log p(z_t | y before t), and filtered, log p(z_t | y up to t),
--- each [T, B..., K]; increments, log p(y_t | y before t), [T, B...]; log_likelihood, their sum, [B...].
function methods:filter(y, given)
  local p = prepare(self, "filter", y, options.check("filter", given, y_options))
  local predicted, filtered, increment = run(p)
  local k = self.num_states
  return { predicted = unfold(p, predicted, k), filtered = unfold(p, filtered, k), increments = unfold(p, increment),
    log_likelihood = increment:sum(1):reshape(p.batch) }
end

local smooth_options = { observed = options.optional "tensor", pairwise = false }

--- m:smooth(y [, {observed =, pairwise = true}]): a table of marginals, p(z_t | y), [T, B..., K]; log_likelihood
--- [B...]; and with pairwise: pairs, p(z_{t-1}, z_t | y) for t from the second step on, [T - 1, B..., K, K].
--- Differentiable. By the product of two filters, one from each end.
function methods:smooth(y, given)
  local o = options.check("smooth", given, smooth_options)
  local p = prepare(self, "smooth", y, o)
  local k = self.num_states
  local _, filtered, increment = run(p)
  local later, with_own = run(p, true)
  local out = { marginals = unfold(p, (filtered + later):softmax(-1), k),
    log_likelihood = increment:sum(1):reshape(p.batch) }
  if o.pairwise then
    local t, a = p.steps, p.transition
    if a:size(1) > 1 then a = a:slice(1, 2, -1) end
    local n = filtered:size(2)
    local joint = filtered:slice(1, 1, t - 1):unsqueeze(-1) + a + with_own:slice(1, 2, t):unsqueeze(-2)
    out.pairs = unfold(p, joint:reshape { t - 1, n, k * k }:softmax(-1), k, k)
  end
  return out
end

--- m:viterbi(y [, {observed =}]): the most probable path of states given y, int64 [T, B...], and the log density of it
--- with y, [B...]. After its last observed step a sequence has no path: -1. An error if y is impossible. Viterbi 1967.
function methods:viterbi(y, given)
  local o = options.check("viterbi", given, y_options)
  local p = prepare(self, "viterbi", y, o)
  local path = core.new_hmm_viterbi(p.initial:detach(), p.transition:detach(), p.emission:detach(), p.lengths)
  return unfold(p, path), self:log_joint(unfold(p, path), y, given)
end

-- Elements [T, n] at states `path` of the last axis of x [T, n, K].
local function at_states(x, path)
  return x:gather(3, path:unsqueeze(3)):squeeze(3)
end

--- m:log_joint(states, y [, {observed =}]): log p(states, y), [B...], for a path of states int64 [T, B...]; steps of
--- state -1 do not count (they stand at the end).
function methods:log_joint(states, y, given)
  local o = options.check("log_joint", given, y_options)
  local p = prepare(self, "log_joint", y, o)
  options.argument("log_joint", "states", states, "tensor")
  local t, n, k = p.steps, p.emission:size(2), self.num_states
  if states:dtype() ~= "int64" or not matches(states:shape(), 1, sizes_of({ t }, table.unpack(p.batch))) then
    core.error(("log_joint: states must be int64 of shape [%s], got %s %s"):format(
      table.concat(sizes_of({ t }, table.unpack(p.batch)), ", "), states:dtype(), shape_text(states)))
  end
  states = states:reshape { t, n }
  local there = states:ge(0)
  local none = core.zeros({}, { dtype = p.emission:dtype() })
  local path = core.where(there, states, core.zeros({}, { dtype = "int64" }))
  local of_y = core.where(there, at_states(p.emission, path), none):sum(1)
  local first = path:slice(1, 1, 1)
  local start = at_states(p.initial:unsqueeze(1):broadcast_to { 1, n, k }, first)
  local total = of_y + core.where(there:slice(1, 1, 1), start, none):sum(1)
  if t > 1 then
    local a = p.transition
    if a:size(1) > 1 then a = a:slice(1, 2, -1) end
    local move = path:slice(1, 1, t - 1) * k + path:slice(1, 2, t)
    local moves = at_states(a:reshape { a:size(1), a:size(2), k * k }:broadcast_to { t - 1, n, k * k }, move)
    total = total + core.where(there:slice(1, 2, t), moves, none):sum(1)
  end
  return total:reshape(p.batch)
end

local states_options = { observed = options.optional "tensor", draws = 1, generator = options.optional() }

--- m:sample_states(y [, {draws = n, observed =, generator =}]): n paths from the posterior of the states given y, int64
--- [n, T, B...], by filtering forward and sampling backward. Steps after the last observation are drawn, too. An error
--- if y is impossible.
function methods:sample_states(y, given)
  local o = options.check("sample_states", given, states_options)
  local p = prepare(self, "sample_states", y, o)
  local _, filtered = run(p)
  local paths = core.new_hmm_sample(filtered:detach(), p.transition:detach(), o.draws, o.generator)
  return paths:reshape(sizes_of({ o.draws, p.steps }, table.unpack(p.batch)))
end

--- m:forecast(y, h [, {observed =}]): what follows after y: a table of states, the probabilities of the state at
--- the next h steps, [h, B..., K], and, where the emission is a distribution of batch [K], observations, the mixture
--- that each of the next observations follows, a distribution of batch [h, B...]. A transition that varies must reach
--- as far, T + h.
function methods:forecast(y, h, given)
  local o = options.check("forecast", given, y_options)
  h = options.whole("forecast", "steps", h, 1)
  local p = prepare(self, "forecast", y, o, h)
  local predicted = run(p)
  local k = self.num_states
  local out = { states = unfold(p, predicted:slice(1, p.steps - h + 1, p.steps):exp(), k) }
  local d = self.emission
  if dist.is(d) and #d.batch_shape == 1 then
    out.observations = dist.mixture(out.states, d:expand(out.states:shape()))
  end
  return out
end

local sample_options = { batch_shape = options.optional "table",
  generator = options.optional() }

--- m:sample(T [, {batch_shape = {B...}, generator =}]): states of T steps, int64 [T, B...], and observations drawn from
--- the model, [T, B..., event] (nil where the emission is a function).
function methods:sample(steps, given)
  local o = options.check("sample", given, sample_options)
  steps = options.whole("sample", "steps", steps, 1)
  local batch = o.batch_shape or {}
  for i, n in ipairs(batch) do options.whole("sample", ("batch_shape[%d]"):format(i), n, 1) end
  local k, n = self.num_states, count_of(batch, 1, #batch)
  local p = { batch = batch, emission = core.zeros({ steps, n, k }, { dtype = self.log_initial:dtype() }) }
  p.initial, p.transition = operands(self, "sample", steps, batch)
  local _, filtered = run(p)
  local states = core.new_hmm_sample(filtered:detach(), p.transition:detach(), 1, o.generator)
    :reshape(sizes_of({ steps }, table.unpack(batch)))
  local d = self.emission
  if not dist.is(d) then return states end
  local events = #d.event_shape
  local sizes = states:shape()
  if #d.batch_shape > 1 then sizes = {} end -- it has one law for each step and sequence
  local all = d:sample(sizes, o.generator)
  local wide = states:unsqueeze(-1)
  for _ = 1, events do wide = wide:unsqueeze(-1) end
  local at = all:ndim() - events
  local want = all:shape()
  want[at] = 1
  return states, all:gather(at, wide:broadcast_to(want)):squeeze(at)
end

--- m:fit(y [, options]): Baum and Welch's algorithm, expectation maximisation: a new model and the list of
--- log-likelihoods of y (summed over sequences) before each round and at the end, which never falls. Rounds end after
--- `max_steps` or once a round gains less than `tolerance` nats for each observation.
---
--- Options: observed; max_steps = 100; tolerance = 1e-7; initial, transition, emission = true (false: keep it);
--- scale_floor = 1e-6, the least scale of a normal. Emissions normal, categorical, poisson, bernoulli and exponential
--- of batch [K] are fitted in closed form. For any other, a function of y or a distribution with parameters to train,
--- give optimiser (as pn.optim.adam{w}), which takes `steps` = 10 gradient steps a round on the sum of posterior
--- probability times log-likelihood. Baum, Petrie, Soules & Weiss 1970.
function methods:fit(y, given)
  local fitted, trace = baum_welch.fit(self, y, given, prepare)
  return fitted, trace
end

local class = { __name = "hmm", __index = core.namespace("an hmm", methods) }

function class:__tostring()
  local d = self.emission
  local shown = dist.is(d) and d.name or "given by a function"
  return ("hidden Markov model of %d states, emission %s"):format(self.num_states, shown)
end

local model_options = {
  initial = options.optional(), initial_logits = options.optional(), transition = options.optional(),
  transition_logits = options.optional(), emission = options.required(),
}

--- pn.smc.hmm{initial =, transition =, emission =}: a hidden Markov model; pn.help "penumbra.smc.hmm" tells of options
--- and methods. It has the fields log_initial, log_transition (normalised), emission, num_states.
function hmm.new(given)
  local o = options.check("hmm", given, model_options)
  local initial, transition = logarithms(o, "initial"), logarithms(o, "transition")
  local k = initial:size(-1)
  if transition:ndim() < 2 or transition:size(-1) ~= k or transition:size(-2) ~= k then
    core.error(("hmm: transition must have shape [..., %d, %d] for initial %s, got %s"):format(k, k,
      shape_text(initial), shape_text(transition)))
  end
  if type(o.emission) ~= "function" and not dist.is(o.emission) then
    core.error(("hmm: emission must be a distribution or a function, got a %s"):format(type(o.emission)))
  end
  return setmetatable({ log_initial = initial, log_transition = transition, emission = o.emission, num_states = k },
    class)
end

local new = hmm.new -- as it is, without the name that errors of a namespace's functions get

return setmetatable(hmm, { __call = function(_, given)
  local made = new(given) -- no tail call: errors tell the script's line
  return made
end })
