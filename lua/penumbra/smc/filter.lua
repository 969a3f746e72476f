--- Particle filters for models written as functions of tensors with a leading particle axis.
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"

local filter = {}

local methods = {}

-- ---- models as functions ----

-- What the three forms of a model have in common: `start`, `move` and `weigh` of a filter.
local function of_functions(o)
  return {
    start = function(self)
      return o.init(self.machine.num_particles, self.shape)
    end,
    move = function(_, state, t, u, y)
      return o.step(state, t, u, y)
    end,
    weigh = function(_, state, y, t, previous, extra)
      return o.log_weight(state, y, t, previous, extra)
    end,
  }
end

-- One draw per particle: a distribution of one state, or of as many as there are particles.
local function draw(self, d)
  local lead = #self.shape
  if #d.batch_shape >= lead then
    return d:sample({}, self.generator)
  end
  local shape = table.move(self.shape, 1, lead - #d.batch_shape, 1, {})
  return d:sample(shape, self.generator)
end

-- The observation as each particle's distribution takes it: log_prob stretches no axis by itself.
local function for_each(d, y)
  y = core.is_tensor(y) and y or core.tensor(y)
  local shape = table.move(d.batch_shape, 1, #d.batch_shape, 1, {})
  table.move(d.event_shape, 1, #d.event_shape, #shape + 1, shape)
  return y:ndim() < #shape and y:broadcast_to(shape) or y
end

local function of_distributions(o)
  local function proposed(self, previous, t, u, y)
    return o.proposal and o.proposal(previous, y, t, u) or previous and o.transition(previous, t, u)
      or o.prior(self.machine.num_particles)
  end
  return {
    start = function(self, t, u, y)
      local q = proposed(self, nil, t, u, y)
      return draw(self, q), q
    end,
    move = function(self, state, t, u, y)
      local q = proposed(self, state, t, u, y)
      return draw(self, q), q
    end,
    weigh = function(self, state, y, t, previous, q, u)
      local d = o.observation(state, t, u)
      local lw = d:log_prob(for_each(d, y))
      if not o.proposal then
        return lw
      end
      local p = previous and o.transition(previous, t, u) or o.prior(self.machine.num_particles)
      return lw + p:log_prob(state) - q:log_prob(state)
    end,
  }
end

-- ---- observing ----

-- The first-stage weights of the auxiliary filter; what is to be taken off the second ones.
local function look_ahead(self, y, t, u)
  if not self.lookahead or y == nil or self.state == nil then
    return nil
  end
  local score = self.lookahead(self.state, y, t, u)
  return score, self.machine:tilt(score)
end

--- filter:observe(y [, u]): one step: resamples if that is due, moves the particles (but the first time: `init` or
--- `prior` is of the state at the first observation) and weighs them by y; y = nil: missing. u: the step's inputs. The
--- increment [B...] of the log-evidence.
function methods:observe(y, u)
  local s, t = self.machine, self.machine:steps() + 1
  local previous, state, extra
  local score, ahead = look_ahead(self, y, t, u)
  if self.state == nil then
    state, extra = self.model.start(self, t, u, y)
  else
    local ancestors = s:resample()
    previous = s:select(self.state, ancestors)
    score = score and s:select(score, ancestors)
    state, extra = self.model.move(self, previous, t, u, y)
  end
  local log_w
  if y == nil then
    log_w = core.zeros(self.shape)
  else
    log_w = self.model.weigh(self, state, y, t, previous, extra, u)
  end
  local increment = s:weigh(score and log_w - score or log_w)
  self.state = state
  return ahead and ahead + increment or increment
end

--- filter:run(ys [, {inputs = us}]): observes ys[1], ys[2], ... (a tensor [T, ...] or a list; in a list false stands for a
--- missing observation) with inputs us[1], ... Returns {log_evidence = [B...], increments = [T, B...]} of these.
function methods:run(ys, given)
  local o = options.check("run", given, { inputs = options.optional() })
  local n = core.is_tensor(ys) and ys:size(1) or #ys
  local increments = {}
  for t = 1, n do
    increments[t] = self:observe(ys[t] or nil, o.inputs and o.inputs[t])
  end
  increments = core.stack(increments, 1)
  return { log_evidence = increments:to("float64"):sum(1), increments = increments }
end

--- filter:log_evidence(): the log-evidence so far, [B...], float64.
function methods:log_evidence()
  return self.machine:log_evidence()
end

--- filter:mean([f]): the weighted mean of the state now, or of f(state).
function methods:mean(f)
  local state = self.state
  if f ~= nil then
    state = options.argument("mean", "f", f, "function")(state)
  end
  return self.machine:mean(state)
end

--- filter:reset(): back to before the first observation.
function methods:reset()
  self.machine:reset()
  self.state = nil
end

local class = { __index = core.public(methods), __name = "filter" }

local own_options = {
  init = options.optional "function", step = options.optional "function", log_weight = options.optional "function",
  prior = options.optional "function", transition = options.optional "function",
  observation = options.optional "function", proposal = options.optional "function",
  lookahead = options.optional "function",
}

local function model_of(o)
  local first, second = { "init", "step", "log_weight" }, { "prior", "transition", "observation" }
  local missing, others = nil, false
  for _, name in ipairs(first) do
    missing = missing or not o[name] and name
  end
  for _, name in ipairs(second) do
    others = others or o[name] ~= nil
  end
  if not others then
    if missing then
      core.error(("filter: %s is missing (a model is init, step and log_weight, or prior, transition and observation)")
        :format(missing))
    elseif o.proposal then
      core.error "filter: proposal belongs to prior, transition and observation (step draws by itself)"
    end
    return of_functions(o)
  end
  for _, name in ipairs(second) do
    if not o[name] then
      core.error(("filter: %s is missing (a model is init, step and log_weight, or prior, transition and observation)")
        :format(name))
    end
  end
  for _, name in ipairs(first) do
    if o[name] then
      core.error(("filter: %s does not go with prior, transition and observation"):format(name))
    end
  end
  return of_distributions(o)
end

--- filter{init =, step =, log_weight =, num_particles =, ...}: a particle filter. A model is written in one of two ways.
---
--- Functions of states with particles first ([N, B..., event...]; a tensor or a table of tensors):
---   init(n, shape)           the state at the first observation; shape = {n, B...}
---   step(state, t, u, y)     the state at t, from the one before; whatever it returns beside goes to log_weight
---   log_weight(state, y, t, previous, extra)    [N, B...]: log p(y | state), plus log p(state | previous) - log q where
---                            step draws from a proposal; previous is nil at the first observation
---
--- Distributions, which are drawn from and evaluated (pn.dist), each with batch [N, B...] or, of prior, none:
---   prior(n), transition(state, t, u), observation(state, t, u)
---   proposal(previous, y, t, u)    draws in place of transition (guided filter); previous is nil the first time, and nil
---                            for a result means prior or transition
---
--- lookahead(state, y, t, u)  log-scores [N, B...] of particles for the next observation: the auxiliary filter of Pitt &
---                            Shephard 1999
---
--- Other options as pn.smc has them. t counts from 1.
---
--- filter(model, {data =, values =, num_particles =, ...}) filters with a pn.model written with m:scan
--- (pn.help "penumbra.smc.scan_filter").
function filter.filter(given, more)
  if require "penumbra.infer.model".is(given) then
    return require "penumbra.smc.scan_filter".run(given, more)
  end
  local known = {}
  for name, rule in pairs(machine.options) do
    known[name] = rule
  end
  for name, rule in pairs(own_options) do
    known[name] = rule
  end
  local o = options.check("filter", given, known)
  local model = model_of(o)
  local of_machine = {}
  for name in pairs(machine.options) do
    of_machine[name] = o[name]
  end
  local s = machine.new(of_machine)
  local shape = { s.num_particles, table.unpack(s.batch) }
  return setmetatable({ machine = s, model = model, shape = shape, lookahead = o.lookahead, generator = o.generator },
    class)
end

filter.model_of = model_of

return filter
