--- Two-filter smoothing of particles (Bresler 1986; Briers, Doucet & Maskell 2010): a filter that runs backwards from
--- the last observation meets the one that ran forwards. Internal to penumbra.smc.filter.
---
--- What lies ahead, p(y_{t:T} | x_t), need not be integrable in x_t: an artificial law gamma_t makes a distribution of
--- it, gamma_t(x_t) p(y_{t:T} | x_t), which particles z_t drawn from gamma_t represent with weights
---     v_t^j ~ g(y_t | z_t^j) sum_k v_{t+1}^k / gamma_{t+1}(z_{t+1}^k) f(z_{t+1}^k | z_t^j).
--- What lies behind, p(x_t | y_{1:t-1}), is the filter's sum_i w_{t-1}^i f(x_t | x_{t-1}^i), the prior where t = 1, and
--- takes the place of gamma_t: the smoothed weights are v_t^j / gamma_t(z_t^j) p(z_t^j | y_{1:t-1}).
-- help: pn.smc
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local paths = require "penumbra.smc.smoothed_paths"

local two_filter = {}

local INFLATION = 1.5 -- of the fitted standard deviations: heavier tails than those of what is sought

-- Weights [N, B...] beside a state [N, B..., event...].
local function beside(w, x)
  local shape = w:shape()
  for k = w:ndim() + 1, x:ndim() do
    shape[k] = 1
  end
  return w:to(x:dtype()):reshape(shape)
end

local function mean(log_w, x)
  return (beside(log_w:exp(), x) * x):sum(1)
end

-- ---- the artificial laws ----

-- A normal like the filter's particles at t, but wider, each number of the state by itself; batch [B...].
local function fitted(step, t)
  local x, log_w = step.state, step.log_w
  local loc = mean(log_w, x)
  local sd = mean(log_w, (x - loc):square()):sqrt()
  if not (sd:min():item() > 0) then
    core.error(("smooth: artificial is required, since the filter's particles at step %d are all the same"):format(t))
  end
  local law = dist.normal(loc, sd * INFLATION)
  local event = x:ndim() - log_w:ndim()
  return event > 0 and law:independent(event) or law
end

-- The law of the state at t.
local function law_at(step, t, artificial)
  if not artificial then
    return fitted(step, t)
  end
  return options.argument("smooth", ("artificial(%d)"):format(t), artificial(t), "distribution")
end

local function check_shape(t, what, x, want)
  local got
  got, want = table.concat(x:shape(), ", "), table.concat(want, ", ")
  if got ~= want then
    core.error(("smooth: artificial(%d) must have %s [%s], got [%s]"):format(t, what, want, got))
  end
end

-- N particles of each filter at t, and the log densities [N, B...] that they were drawn with.
local function draw(self, step, t, artificial)
  local law = law_at(step, t, artificial)
  local shape = table.move(self.shape, 1, #self.shape - #law.batch_shape, 1, {})
  local z = law:sample(shape, self.generator):detach()
  check_shape(t, "draws", z, step.state:shape())
  local log_law = law:log_prob(z):detach()
  check_shape(t, "log densities", log_law, self.shape)
  return z, log_law
end

-- ---- weights ----

local function normalised(log_w, t)
  local total = log_w:logsumexp(1)
  if not (math.abs(total:sum():item()) < math.huge) then
    core.error(("smooth: all weights are 0, or one is not a number, at step %d: artificial(%d) must cover the state "
      .. "there"):format(t, t))
  end
  return log_w - total
end

-- log sum_k later^k f(z_next^k | z^j), [N, B...]; later: logs of weights.
local function ahead(self, z, z_next, later, t, u)
  return paths.in_chunks(z:size(1), later:numel(), function(first, last)
    local lp = paths.pair_log_prob(self, z:slice(1, first, last), z_next, t + 1, u)
    return (lp + later:unsqueeze(1)):logsumexp(2):detach()
  end)
end

-- log p(z^j | y_{1:t-1}), [N, B...].
local function behind(self, z, t)
  local before, u = self.record[t - 1], self.record[t].u
  if not before then
    return self.model.prior(self.machine.num_particles):log_prob(z):detach()
  end
  return paths.in_chunks(z:size(1), before.log_w:numel(), function(first, last)
    local lp = paths.pair_log_prob(self, before.state, z:slice(1, first, last), t, u)
    return (lp + before.log_w:unsqueeze(2)):logsumexp(1):detach()
  end)
end

-- Particles and their smoothed log-weights at all times.
local function meet(self, artificial)
  local record, state, log_w = self.record, {}, {}
  local later -- log of v_{t+1} / gamma_{t+1}
  for t = #record, 1, -1 do
    local step = record[t]
    local z, log_law = draw(self, step, t, artificial)
    state[t] = z
    local v = core.zeros(self.shape, { dtype = log_law:dtype() })
    if step.y ~= nil then
      v = v + self.model.observation_log_prob(z, step.y, t, step.u):detach()
    end
    if later then
      v = v + ahead(self, z, state[t + 1], later, t, record[t + 1].u)
    end
    later = normalised(v, t) - log_law
    log_w[t] = normalised(later + behind(self, z, t), t)
  end
  return state, log_w
end

--- smooth(filter, given): see filter:smooth with method = "two_filter". Internal.
function two_filter.smooth(self, given)
  local o = options.check("smooth", given, { method = paths.methods, artificial = options.optional "function" })
  local record = paths.recorded(self)
  if not self.model.observation_log_prob then
    core.error "smooth: two_filter needs the densities of a filter made of prior, transition and observation"
  elseif not core.is_tensor(record[1].state) then
    core.error(("smooth: two_filter needs a state that is one tensor, got a %s"):format(type(record[1].state)))
  elseif not o.artificial and self.model.prior(self.machine.num_particles).discrete then
    core.error "smooth: artificial is required where the state is discrete"
  end
  local state, log_w = meet(self, o.artificial)
  local first, second, size = {}, {}, {}
  for t = 1, #record do
    first[t], second[t] = mean(log_w[t], state[t]), mean(log_w[t], state[t]:square())
    size[t] = (-(log_w[t] * 2):logsumexp(1)):exp()
  end
  return { state = machine.stack(state), log_weights = core.stack(log_w, 1), mean = core.stack(first, 1),
    square = core.stack(second, 1), effective_sample_size = core.stack(size, 1) }
end

return two_filter
