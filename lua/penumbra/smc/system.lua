--- A linear Gaussian system as one object, checked once and taken by every filter that is exact for it:
---
---     x_0 ~ N(initial_mean, initial_cov)
---     x_t = transition x_(t-1) + transition_offset + transition_input u_t + N(0, transition_cov)
---     y_t = emission x_t + emission_offset + emission_input u_t + N(0, emission_cov),   t = 1 ... T
---
---     local s = pn.smc.linear_system{transition = a, transition_cov = q, emission = c, emission_cov = r,
---       initial_mean = m, initial_cov = p}
---     s:log_likelihood(y)   s:filter(y)   s:smooth(y)   s:sample(100, {draws = 5})   s:forecast(y, 12)   s:em(y)
---     pn.smc.kalman.filter(s, y)   pn.smc.extended(s, y)   pn.smc.exact_filter(s)   pn.smc.rbpf{system = s, ...}
---
--- Shapes, time, batches and the options of the methods are those of pn.help "penumbra.smc.kalman": they are its
--- functions with the system in front. The parts are the fields of the object; they do not change.
-- help: pn.smc, methods linear_system
local core = require "penumbra.core"
local kalman = require "penumbra.smc.kalman"
local reading = require "penumbra.smc.kalman.linear_system"

local linear_system = {}
local methods = {}

--- s:log_likelihood(y [, options]) -> [B...]: pn.smc.kalman.log_likelihood.
function methods:log_likelihood(y, given) return kalman.log_likelihood(self, y, given) end

--- s:filter(y [, options]) -> {mean, cov, ...}, of T states: pn.smc.kalman.filter.
function methods:filter(y, given) return kalman.filter(self, y, given) end

--- s:smooth(y [, options]) -> {mean, cov, lag_one, initial}, of T states: pn.smc.kalman.smooth.
function methods:smooth(y, given) return kalman.smooth(self, y, given) end

--- s:sample(steps [, options]) -> states, observations, initial: pn.smc.kalman.sample.
function methods:sample(steps, given) return kalman.sample(self, steps, given) end

--- s:sample_posterior(y [, options]) -> states, initial: pn.smc.kalman.sample_posterior.
function methods:sample_posterior(y, given) return kalman.sample_posterior(self, y, given) end

--- s:forecast(y, steps [, options]) -> {mean, cov, state_mean, state_cov}: pn.smc.kalman.forecast.
function methods:forecast(y, steps, given) return kalman.forecast(self, y, steps, given) end

--- s:em(y [, options]) -> {system, log_likelihood, steps, converged}: pn.smc.kalman.em; `system` is an object again.
function methods:em(y, given)
  local fit, message, code = kalman.em(self, y, given)
  if not fit then
    return nil, message, code
  end
  fit.system = linear_system.linear_system(fit.system)
  return fit
end

local class = { __name = "linear_system", __index = core.namespace("a linear system", methods) }

function class:__tostring()
  return ("linear_system: state %d, observation %d"):format(self.transition:size(-1), self.emission:size(-2))
end

local MOST <const> = 4096 -- numbers in a state or an observation, the filters' limit

local function largest(x)
  return x:abs():max():item()
end

-- Covariances are finite, symmetric and positive semidefinite but for rounding.
local function check_cov(name, x)
  if core.capture.going_on() then
    return
  end
  x = x:detach()
  local size, slack = largest(x), x:dtype() == "float32" and 1e-4 or 1e-9
  if not (largest(x - x:transpose(-1, -2)) <= slack * size) then
    core.error(("linear_system: %s must be finite and symmetric"):format(name))
  end
  local shift = core.eye(x:size(-1), { dtype = x:dtype() }) * (slack * size + 1e-30)
  if not (x + shift):cholesky() then
    core.error(("linear_system: %s must be positive semidefinite"):format(name))
  end
end

--- linear_system{transition =, transition_cov =, emission =, emission_cov =, initial_mean =, initial_cov =}: also
--- transition_offset, transition_input, emission_offset, emission_input, and diffuse in place of initial_cov. Lists of
--- numbers may stand for tensors; transition_cov, emission_cov and initial_cov are symmetric and positive semidefinite.
--- States and observations of 1 to 4096 numbers.
function linear_system.linear_system(given)
  local s = reading.parts("linear_system", given)
  for role, n in pairs { state = s.transition:size(-1), observation = s.emission:size(-2) } do
    if n > MOST then
      core.error(("linear_system: the %s must have at most %d numbers, got %d"):format(role, MOST, n))
    end
  end
  for _, name in ipairs { "transition_cov", "emission_cov", "initial_cov" } do
    if s[name] then
      check_cov(name, s[name])
    end
  end
  return setmetatable(s, class)
end

linear_system.methods = methods
-- The methods of what this makes, by what help calls the objects.
linear_system.objects = { ["linear_system:"] = methods }

return linear_system
