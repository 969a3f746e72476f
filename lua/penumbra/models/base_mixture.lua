--- A Gaussian linear system whose matrices are weighted averages of K base matrices:
---
---     x_t = A_t x_(t-1) + B_t u_t + N(0, R),   z_t = C_t x_t + D_t u_t + N(0, Q),   A_t = sum_k weight_k A_k, ...
---
--- R and Q are diagonal, their parameters logarithms of inverse scales. With noise = "mixed" these are averaged, too:
--- averaging = "log" (the logarithms), "covariance" (the variances) or "precision".
-- help: nowhere
local core = require "penumbra.core"

local base_mixture = {}

local class = {}
class.__index = class

-- sum_k weights [..., K] of base [K, rows, columns] -> [..., rows, columns]
local function average(weights, base)
  local shape = weights:shape()
  local k, rows, columns = table.unpack(base:shape())
  shape[#shape] = rows
  shape[#shape + 1] = columns
  return weights:matmul(base:reshape { k, rows * columns }):reshape(shape)
end

-- [..., n, k] times [..., k]
local function apply(a, x)
  return a:matmul(x:unsqueeze(-1)):squeeze(-1)
end

local from_log = {
  log = function(weights, log_inverse_scale)
    return (weights:matmul(log_inverse_scale) * -2):exp()
  end,
  covariance = function(weights, log_inverse_scale)
    return weights:matmul((log_inverse_scale * -2):exp())
  end,
  precision = function(weights, log_inverse_scale)
    return weights:matmul((log_inverse_scale * 2):exp()):reciprocal()
  end,
}

-- A diagonal covariance [n, n], or [..., n, n] if it is mixed.
local function covariance(self, weights, log_inverse_scale)
  if self.noise == "mixed" then
    return from_log[self.averaging](weights, log_inverse_scale):diag_embed()
  end
  return (log_inverse_scale * -2):exp():diag_embed()
end

--- The operands of Kalman steps by the names of pn.kalman_step, for weights [..., K] and inputs u [..., m] or nil: a,
--- b, q of the transition, c, d, r of the emission; b and d are nil without inputs.
function class:operands(weights, u)
  return {
    a = average(weights, self.transition), c = average(weights, self.emission),
    b = self.transition_input and apply(average(weights, self.transition_input), u) or nil,
    d = self.emission_input and apply(average(weights, self.emission_input), u) or nil,
    q = covariance(self, weights, self.state_noise), r = covariance(self, weights, self.emission_noise),
  }
end

--- The moments of x_0: mean [n] and diagonal covariance [n, n].
function class:initial()
  return self.initial_mean, (self.initial_noise * -2):exp():diag_embed()
end

--- new{base =, state =, observed =, transition_inputs =, emission_inputs =, noise =, averaging =, dtype =, init =}: K,
--- the orders of x and z, sizes of u where it enters (0: it does not); init = {transition, emission, inputs:
--- deviations of the base matrices around 1 and 0; state_scale, emission_scale, initial_scale}.
function base_mixture.new(o)
  local k, n, p, dtype = o.base, o.state, o.observed, { dtype = o.dtype }
  local function normal(scale, rows, columns)
    return core.randn({ k, rows, columns }, dtype) * scale
  end
  local function scales(size, scale)
    return core.param(core.full(o.noise == "mixed" and { k, size } or { size }, -math.log(scale), dtype))
  end
  return setmetatable({
    noise = o.noise, averaging = o.averaging,
    transition = core.param(core.eye(n, dtype) + normal(o.init.transition, n, n)),
    emission = core.param(normal(o.init.emission, p, n)),
    transition_input = o.transition_inputs > 0 and core.param(normal(o.init.inputs, n, o.transition_inputs)) or nil,
    emission_input = o.emission_inputs > 0 and core.param(normal(o.init.inputs, p, o.emission_inputs)) or nil,
    state_noise = scales(n, o.init.state_scale), emission_noise = scales(p, o.init.emission_scale),
    initial_mean = core.param(core.zeros({ n }, dtype)),
    initial_noise = core.param(core.full({ n }, -math.log(o.init.initial_scale), dtype)),
  }, class)
end

return base_mixture
