--- Models of particle filters written as functions, in their two ways (pn.help "pn.smc.filter"), as a filter drives
--- them: start, move and weigh.
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"
local switching = require "penumbra.smc.switching"

local filter_model = {}

-- What the three forms of a model have in common: `start`, `move` and `weigh` of a filter.
local function of_functions(o)
  return {
    transition_log_prob = o.transition_log_prob,
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

-- One draw per particle: a distribution of one state, or of as many as there are particles. Where a gradient is asked
-- for, along its path.
local function draw(self, d)
  local lead = #self.shape
  local sample = switching.has_path(d) and switching.followed(d) and d.rsample or d.sample
  if #d.batch_shape >= lead then
    return sample(d, {}, self.generator)
  end
  local shape = table.move(self.shape, 1, lead - #d.batch_shape, 1, {})
  return sample(d, shape, self.generator)
end

-- log q(state) of a draw without a path counts as that of a fixed proposal: it has no gradient.
local function log_proposal(q, state)
  local log_q = q:log_prob(state)
  return switching.has_path(q) and log_q or log_q:detach()
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
  local function observation_log_prob(state, y, t, u)
    local d = o.observation(state, t, u)
    return d:log_prob(for_each(d, y))
  end
  return {
    prior = o.prior,
    transition_log_prob = function(previous, state, t, u)
      return o.transition(previous, t, u):log_prob(state)
    end,
    observation_log_prob = observation_log_prob,
    start = function(self, t, u, y)
      local q = proposed(self, nil, t, u, y)
      return draw(self, q), q
    end,
    move = function(self, state, t, u, y)
      local q = proposed(self, state, t, u, y)
      return draw(self, q), q
    end,
    weigh = function(self, state, y, t, previous, q, u)
      local lw = observation_log_prob(state, y, t, u)
      if not o.proposal then
        local fixed = not switching.has_path(q) and switching.followed(q)
        return fixed and lw + q:log_prob(state) - log_proposal(q, state) or lw
      end
      local p = previous and o.transition(previous, t, u) or o.prior(self.machine.num_particles)
      return lw + p:log_prob(state) - log_proposal(q, state)
    end,
  }
end

filter_model.options = {
  init = options.optional "function", step = options.optional "function", log_weight = options.optional "function",
  prior = options.optional(), transition = options.optional "function",
  observation = options.optional "function", proposal = options.optional "function",
  lookahead = options.optional "function", transition_log_prob = options.optional "function",
}

--- read(o): {start =, move =, weigh =, ...} of the options of a filter.
function filter_model.read(o)
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
  if dist.is(o.prior) then
    local law = o.prior
    o.prior = function() return law end
  end
  options.argument("filter", "prior", o.prior, "function")
  return of_distributions(o)
end

return filter_model
