--- What the specs of residual variational state-space models share: the linear one whose answers are known, draws of it
--- and its training.
local pn = require "penumbra"
local assert = require "luassert"
local window_training = require "penumbra.models.window_training"

local case = {}

local A <const>, Q <const>, R <const> = 0.9, 0.19, 0.25 -- z_t = A z_(t-1) + N(0, Q), y_t = z_t + N(0, R), z_1 ~ N(0, 1)

-- The system above as a VSSM whose inference is drawn anew.
function case.linear(more)
  local o = { size = 1, latent = 1, flows = 0, transition = "plain", gain = math.sqrt(Q), mean = "first",
    noise = math.sqrt(R), units = 8, hidden = { transition = {}, initial = {}, disturbance = { 8 }, prefix = { 4 },
    emission = {} } }
  for key, value in pairs(more or {}) do o[key] = value end
  local m = pn.models.vssm(o)
  m.states.net[1]:parameters()[1]:set(pn.tensor({ { A } }, { dtype = m.dtype }))
  m.states.net[1]:parameters()[2]:set(pn.tensor({ 0 }, { dtype = m.dtype }))
  return m
end

-- Kalman's begins a step earlier: from N(0, 1), which is stationary.
case.system = { transition = pn.tensor { { A } }, transition_cov = pn.tensor { { Q } }, emission = pn.ones { 1, 1 },
  emission_cov = pn.tensor { { R } }, initial_mean = pn.zeros { 1 }, initial_cov = pn.ones { 1, 1 } }

-- `count` draws of the system, [steps, count, 1].
function case.draws_of(steps, count, generator)
  local function noise() return pn.randn({ count, 1 }, { generator = generator }) end
  local z, y = noise(), {}
  for t = 1, steps do
    z = t == 1 and z or z * A + noise() * math.sqrt(Q)
    y[t] = z + noise() * math.sqrt(R)
  end
  return pn.stack(y, 1)
end

-- Adam on `list` of a model's parameters, draws of the system anew in each step; the rate falls to the part `last`.
function case.train(m, list, o)
  local optimiser, generator = pn.optim.adam(list, { lr = o.lr }), pn.generator(o.seed or 1)
  local observed = pn.ones({ o.steps, o.rows, 1 }):gt(0)
  local step = pn.compile(function(y)
    return window_training.loss(m, { y = y, observed = observed, complete = true, size = o.rows, steps = o.steps }, {})
  end, { optimiser = optimiser })
  for k = 1, o.turns do
    optimiser.lr = o.lr * o.last ^ (k / o.turns)
    step(case.draws_of(o.steps, o.rows, generator))
  end
end

function case.exact(y) return pn.smc.kalman.log_likelihood(case.system, y) end

-- The mean of x is `want` up to 6 standard errors, which are less than `narrow`.
function case.near_mean(want, x, narrow)
  local error = x:std():item() / math.sqrt(x:numel())
  assert.is_true(error < narrow, ("standard error %g"):format(error))
  assert.near(want, x:mean():item(), 6 * error)
end

function case.copies(y, n) return pn.tensor(y):reshape { #y, 1, 1 }:broadcast_to { #y, n, 1 }:contiguous() end

function case.lower(steps)
  local s = pn.arange(steps)
  return s:unsqueeze(1):le(s:unsqueeze(2))
end

return case
