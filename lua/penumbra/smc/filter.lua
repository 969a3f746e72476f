--- Particle filters for models written as functions of tensors with a leading particle axis.
-- help: pn.smc
local core = require "penumbra.core"
local filter_model = require "penumbra.smc.filter_model"
local linear_system = require "penumbra.smc.kalman.linear_system"
local machine = require "penumbra.smc.machine"
local models = require "penumbra.infer.model"
local online = require "penumbra.smc.online"
local options = require "penumbra.options"
local scan_filter = require "penumbra.smc.scan_filter"
local smoothed_paths = require "penumbra.smc.smoothed_paths"
local islands = require "penumbra.smc.islands"
local two_filter = require "penumbra.smc.two_filter"

local filter = {}

local methods = {}

-- ---- observing ----

-- The first-stage weights of the auxiliary filter; what is to be taken off the second ones.
local function look_ahead(self, y, t, u)
  if not self.lookahead or y == nil or self.state == nil then
    return nil
  end
  local score = self.lookahead(self.state, y, t, u)
  return score, self.machine:tilt(score)
end

-- The states of the last particles are those of the reference, a state [B..., event...].
local function with_reference(state, reference, shape)
  local n = shape[1]
  local parts, k = machine.flatten("reference", reference, {}), 0
  return machine.map("reference", function(x)
    k = k + 1
    local wanted = x:shape()
    wanted[1] = 1
    return core.concatenate({ x:slice(1, 1, n - 1), parts[k]:reshape(wanted) }, 1)
  end, state)
end

-- Draws an ancestor for the reference's state now: by w p(reference | particle). Lindsten, Jordan & Schoen 2014.
local function sample_ancestor(self, reference, t, u)
  local s = self.machine
  local wide = machine.map("reference", function(x)
    local shape = x:shape()
    table.insert(shape, 1, 1)
    x = x:reshape(shape)
    shape[1] = s.num_particles
    return x:broadcast_to(shape):contiguous()
  end, reference)
  local log_w = s:log_weights() + self.model.transition_log_prob(self.state, wide, t, u)
  local uniform = core.rand(log_w:shape(), { generator = self.generator, dtype = log_w:dtype() })
  machine.core_of(s):assign((log_w - (-uniform:log()):log()):argmax(1))
end

-- One step; reference: the state of the last particle, or nil.
local function advance(self, y, u, reference, ancestor_sampling)
  local s, t = self.machine, self.machine:steps() + 1
  local previous, state, extra, ancestors
  local score, ahead = look_ahead(self, y, t, u)
  if self.state == nil then
    state, extra = self.model.start(self, t, u, y)
  else
    if ancestor_sampling then
      sample_ancestor(self, reference, t, u)
    end
    if s.by_transport then
      previous = s:transport(self.state)
    else
      ancestors = s:resample()
      previous = s:select(self.state, ancestors)
      score = score and s:select(score, ancestors)
    end
    state, extra = self.model.move(self, previous, t, u, y)
  end
  if reference then
    state = with_reference(state, reference, self.shape)
  end
  local log_w
  if y == nil then
    log_w = core.zeros(self.shape, { dtype = machine.flatten("filter", state, {})[1]:dtype() })
  else
    log_w = self.model.weigh(self, state, y, t, previous, extra, u)
  end
  local increment = s:weigh(score and log_w - score or log_w)
  self.state = state
  if s.history then
    s:keep(state)
  end
  return ahead and ahead + increment or increment, ancestors
end

--- filter:observe(y [, u]): one step: resamples if that is due, moves the particles (but the first time: `init` or
--- `prior` is of the state at the first observation) and weighs them by y; y = nil: missing. u: the step's inputs. The
--- increment [B...] of the log-evidence.
function methods:observe(y, u)
  local increment = advance(self, y, u)
  return increment
end

local function square(x)
  return x * x
end

-- Weighted mean and mean square of a state, appended to the lists of `out`.
local function moments(self, state, out)
  out.mean[#out.mean + 1] = self.machine:mean(state)
  out.square[#out.square + 1] = self.machine:mean(machine.map("mean", square, state))
end

-- The states of the last `lag` steps, each at the places of today's ancestors; the mean of one that falls out is final.
local function slide(self, window, lag, ancestors, out)
  for k = 1, #window do
    window[k] = self.machine:select(window[k], ancestors)
  end
  window[#window + 1] = self.state
  if #window > lag then
    moments(self, table.remove(window, 1), out)
  end
end

local function in_order(a)
  return { mean = machine.stack(a.mean), square = machine.stack(a.square) }
end

local function check_run(self, o)
  if o.reference and not self.machine.conditional then
    core.error "run: a reference needs a filter made with conditional = true"
  elseif o.ancestor_sampling and not (o.reference and self.model.transition_log_prob) then
    core.error "run: ancestor_sampling needs a reference and the transition's density (transition_log_prob)"
  elseif o.lag and self.machine.by_transport then
    core.error "run: lag needs ancestors, which gradient = 'transport' does not have"
  elseif o.lag then
    options.whole("run", "lag", o.lag, 0)
  end
end

local function detached(x)
  return x:detach()
end

--- filter:run(ys [, options]): observes ys[1], ys[2], ... (a tensor [T, ...] or a list, in which false stands for a
--- missing observation). Returns {log_evidence = [B...], increments = [T, B...]} of these; with moments = true also
--- mean and square [T, B..., event...], the filtered E[x] and E[x^2], in the form of the state.
---
--- inputs             us: us[1], us[2], ... go with ys[1], ys[2], ...
--- moments            true for mean and square
--- lag                L: also smoothed = {mean =, square =} [T, B..., event...], moments of the state at t given y up
---                    to t + L by
---                    the ancestors that particles have then (fixed-lag smoothing: a little biased, of low variance)
--- record             true: all particles of all steps are kept, for filter:smooth
--- reference          a path as filter.machine:draw_path() gives it, [T, B..., event...]: the last particle of each
---                    filter
---                    follows it (conditional SMC); needs conditional = true
--- ancestor_sampling  true: the reference's ancestors are drawn anew (Lindsten, Jordan & Schoen 2014); needs threshold
---                    = 1
---                    and the transition's density: `transition`, or transition_log_prob(previous, state, t, u)
function methods:run(ys, given)
  local o = options.check("run", given, { inputs = options.optional(), moments = false,
    reference = options.optional(), ancestor_sampling = false, lag = options.optional "number", record = false })
  check_run(self, o)
  local n = core.is_tensor(ys) and ys:size(1) or #ys
  local increments, now, late, window = {}, { mean = {}, square = {} }, { mean = {}, square = {} }, {}
  self.record = o.record and {} or nil
  for t = 1, n do
    local reference = o.reference and machine.map("reference", function(x) return x[t] end, o.reference)
    local again, u = o.ancestor_sampling and self.state ~= nil, o.inputs and o.inputs[t]
    local ancestors
    increments[t], ancestors = advance(self, ys[t] or nil, u, reference, again)
    if o.moments then
      moments(self, self.state, now)
    end
    if o.lag then
      slide(self, window, o.lag, ancestors, late)
    end
    if o.record then
      self.record[t] = { state = machine.map("record", detached, self.state), y = ys[t] or nil,
        u = u, log_w = self.machine:log_weights():detach() }
    end
  end
  for k = 1, #window do
    moments(self, window[k], late)
  end
  increments = core.stack(increments, 1)
  local result = { log_evidence = increments:to("float64"):sum(1), increments = increments }
  if o.moments then
    now = in_order(now)
    result.mean, result.square = now.mean, now.square
  end
  result.smoothed = o.lag and in_order(late) or nil
  return result
end

--- filter:smooth{draws = M}: M paths of each filter given all observations of the last filter:run(ys, {record = true}),
--- [T, M, B..., event...], drawn backwards through all particles (Godsill, Doucet & West 2004); needs the transition's
--- density. M N T densities, or with log_bound about M T / the chance that a pair fits: log_bound, a number or a
--- function of t, is what the log density of the transition to t never exceeds, and ancestors are drawn by rejection
--- (Douc, Garivier, Moulines & Olsson 2011; without a batch).
---
--- filter:smooth{method = "two_filter"}: the marginals of the same, by a filter that runs backwards and meets this one
--- (Bresler 1986; Briers, Doucet & Maskell 2010), of a filter made of prior, transition and observation whose state is
--- one tensor: {state = [T, N, B..., event...], log_weights = [T, N, B...] normalised, mean = and square =
--- [T, B..., event...], the moments of the state at t given all y, effective_sample_size = [T, B...]}, without
--- gradients; 2 N N T densities. The particles at t are N new draws of an artificial law of the state at t.
---
--- artificial(t)      that law, a distribution with batch [N, B...], [B...] or none. Its tails must not be lighter than
---                    those of the state at t given y; where it fits badly effective sample sizes are far below N. By
---                    default a normal with the means and 1.5 times the standard deviations of the filter's weighted
---                    particles at t, each number of the state by itself (not for discrete states)
function methods:smooth(given)
  local two = type(given) == "table" and rawget(given, "method") == "two_filter"
  local smoother = two and two_filter or smoothed_paths
  local result = smoother.smooth(self, given) -- no tail call: errors tell the script's line
  return result
end

--- filter:online([{observation = p, dtype = "float32"}]): the filter one observation at a time, from its beginning:
--- f:observe(y), y a number, a list or a tensor of p numbers (without `observation` y is 0-d to the model; of `dtype`,
--- float64 if none is given), nil where it is missing, gives the increment of the log-evidence as a number; f:run(ys)
--- takes the rows of ys [T, p] (or [T]) at once, NaN missing, and gives increments [T], means and variances [T, m];
--- f:mean() and f:variance() [m] of all numbers of the state, parts in the order of their names; f:log_evidence(),
--- f:effective_sample_size(), f:steps(), f:reset(), f:save(path) and f:load(path) (state and the default generator's
--- position; nil, message, code on failure). The model is captured once: t is a 0-d tensor, there are no inputs and no
--- batch, draws come from the default generator. C hosts take it with pn_runtime_filter.
function methods:online(given)
  return online.make(self, given)
end

--- filter:log_evidence(): the log-evidence so far, [B...], float64.
function methods:log_evidence()
  return self.machine:log_evidence()
end

local function seen_through(where, self, f)
  return f == nil and self.state or options.argument(where, "f", f, "function")(self.state)
end

--- filter:mean([f]): the weighted mean of the state now, or of f(state).
function methods:mean(f)
  return self.machine:mean(seen_through("mean", self, f))
end

--- filter:variance([f]): the weighted variance of each number of the state now, or of f(state): weights sum to 1, there
--- is no correction for few particles.
function methods:variance(f)
  local state = seen_through("variance", self, f)
  local mean = self.machine:mean(state)
  if core.is_tensor(state) then
    return self.machine:mean((state - mean):square())
  end
  local squares = {}
  for name, part in pairs(state) do
    squares[name] = (part - mean[name]):square()
  end
  return self.machine:mean(squares)
end

--- filter:reset(): back to before the first observation.
function methods:reset()
  self.machine:reset()
  self.state, self.record = nil, nil
end

local class = { __index = core.public(methods), __name = "filter" }

function class:__tostring()
  return ("filter of %d particles at t = %d"):format(self.machine.num_particles, self.machine:steps())
end

-- A filter of a model that filter_model has read; of the machine's options those of `set` in place of o's.
local function one(model, o, set)
  local of_machine = {}
  for name in pairs(machine.options) do
    of_machine[name] = o[name]
  end
  of_machine.generator = nil
  for name, value in pairs(set) do
    of_machine[name] = value
  end
  local s = machine.new(of_machine)
  if s.by_transport and o.lookahead then
    core.error "filter: lookahead needs ancestors, which gradient = 'transport' does not have"
  end
  local shape = { s.num_particles, table.unpack(s.batch_shape) }
  return setmetatable({ machine = s, model = model, shape = shape, lookahead = o.lookahead,
    generator = of_machine.generator, of_machine = of_machine }, class)
end

--- filter{init =, step =, log_weight =, num_particles =, ...}: a particle filter. A model is written in one of two
--- ways.
---
--- Functions of states with particles first ([N, B..., event...]; a tensor or a table of tensors):
---   init(n, shape)           the state at the first observation; shape = {n, B...}
---   step(state, t, u, y)     the state at t, from the one before; whatever it returns beside goes to log_weight
---   log_weight(state, y, t, previous, extra)    [N, B...]: log p(y | state), plus log p(state | previous) - log q
---   where
---                            step draws from a proposal; previous is nil at the first observation
---
--- Distributions, which are drawn from and evaluated (pn.dist), each with batch [N, B...] or, of prior, none:
---   prior(n) (or a distribution), transition(state, t, u), observation(state, t, u)
---   proposal(previous, y, t, u)    draws in place of transition (guided filter); previous is nil the first time, and
---   nil
---                            for a result means prior or transition
---
--- lookahead(state, y, t, u)  log-scores [N, B...] of particles for the next observation: the auxiliary filter of Pitt
--- &
---                            Shephard 1999
---
--- transition_log_prob(previous, state, t, u)  [N, B...], beside init, step and log_weight: for ancestor sampling and
---                            backward sampling
---
--- exact_filter(system) is the same for a linear Gaussian system.
---
--- islands                    M: so many filters of num_particles each, whose weights follow their evidence; whole
---                            islands are resampled where the effective sample size of these is at most exchange (0.5)
---                            M. What a function of the model draws it draws from the default generator. observe, run,
---                            mean, variance, log_evidence, reset are the methods: pn.help "penumbra.smc.islands"
---
--- distributed                true: the islands (one for each rank unless given) are shared out over the ranks of
---                            mpirun; all ranks have the results, which are the same bits for any number of them
---
--- Other options as pn.smc has them; with history = true states are kept for filter.machine:paths(). t counts from 1.
---
--- filter(model, {data =, values =, num_particles =, ...}) filters with a pn.model written with m:scan
--- (pn.help "penumbra.smc.scan_filter").
function filter.filter(given, more)
  if models.is(given) then
    return scan_filter.run(given, more)
  end
  local o = options.check("filter", given, options.merged(machine.options, filter_model.options, islands.options))
  local model = filter_model.read(o)
  local team = islands.team("filter", o)
  if team then
    return islands.new(team, function() return one(model, o, { degenerate = "zero", trace = false }) end, o)
  end
  return one(model, o, { generator = o.generator })
end

local OF_EXACT = { initial_mean = "mean", initial_cov = "cov", transition = "a", transition_offset = "b",
  transition_cov = "q", emission = "emission", emission_offset = "d", emission_cov = "r" }

--- exact_filter(system): the exact filter of a pn.smc.linear_system or a table of its parts (without inputs, batch,
--- time or diffuse state), of which initial_mean and initial_cov are those of the first observation's state, one
--- observation at a time: methods as filter:online() gives them; numbers of y are missing where they are NaN. For whole
--- sequences see pn.smc.kalman.
function filter.exact_filter(system)
  local s, given = linear_system.parts("exact_filter", system), {}
  for name, x in pairs(s) do
    if x and not OF_EXACT[name] then
      core.error(("exact_filter: the system may have no %s"):format(name))
    elseif x then
      given[OF_EXACT[name]] = x
    end
  end
  given.mean = given.mean or core.zeros({ s.transition:size(-1) }, { dtype = s.transition:dtype() })
  return core.new_exact_filter(given)
end

return filter
