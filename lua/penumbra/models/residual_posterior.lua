--- Posteriors of a residual state-space model as pn.gap.measure takes them apart: draws of whole paths of states
--- [S, N, T, n] with the logarithms of their densities, of the model's own inference network and of wider ones.
-- help: nowhere
local core = require "penumbra.core"
local prepared_batch = require "penumbra.models.prepared_batch"
local forecaster = require "penumbra.models.forecaster"
local parameters = require "penumbra.parameters"

local residual_posterior = {}

local HALF_LOG_TAU = 0.91893853320467274178 -- log(2 pi) / 2

-- log N(e; 0, 1), summed.
local function standard(e) return (e:square() * -0.5 - HALF_LOG_TAU):sum(-1) end

-- The sum over t of each step's x [T, N] while series go on.
local function total(x, active)
  return (active and core.where(active, x, core.zeros({}, { dtype = x:dtype() })) or x):sum(1)
end

-- log g, summed over the n numbers of a state: g is [..., n], or [n] or [1] where it is the same always.
local function log_gain(g, like) return (g:log() + like * 0):sum(-1) end

-- States z [T, N, n] a step on: f and g of all steps at once, [T - 1, N, n].
local function moves(self, z, u)
  local steps, count, n = z:size(1), z:size(2), z:size(3)
  local from = z:slice(1, 1, steps - 1):reshape { -1, n }
  local f, g = self.states:move(from, u and u:slice(1, 1, steps - 1):reshape { -1, u:size(3) })
  return f:reshape { steps - 1, count, n }, g:ndim() > 1 and g:reshape { steps - 1, count, n } or g
end

-- [S, N, T, n] as [T, S N, n].
local function time_first(z)
  local s, count, steps, n = table.unpack(z:shape())
  return z:reshape { s * count, steps, n }:transpose(1, 2)
end

--- log_joint(model, z, b, log_likelihood): log p(y, z) of draws z [S, N, T, n] of a prepared batch of N series, [S, N].
function residual_posterior.log_joint(self, z, b, log_likelihood)
  local draws, steps = z:size(1), b.steps
  local u = prepared_batch.for_draws(forecaster.features(self, b), draws)
  local active = prepared_batch.for_draws(b.active, draws)
  z = time_first(z)
  local e, log_det = self.states:undo(z[1])
  local value = standard(e) - log_det
  if steps > 1 then
    local f, g = moves(self, z, u)
    local later = (z:slice(1, 2, steps) - f) / g
    value = value + total(standard(later) - log_gain(g, later), active and active:slice(1, 2, steps))
  end
  local y = log_likelihood(self, z, prepared_batch.for_draws(b.y, draws), prepared_batch.for_draws(b.observed, draws))
  return (value + y:sum(1)):reshape { draws, b.size }
end

local methods = {}
local class = { __index = methods }

--- draw(b, draws, generator): z [S, N, T, n] of a prepared batch and log q(z) [S, N].
function methods:draw(b, draws, generator)
  local m, n = self.model, self.model.latent
  local count, steps = draws * b.size, b.steps
  local noise = core.randn({ steps, count, n }, { dtype = m.dtype, generator = generator })
  local path = self.path(m, b, { draws = draws, noise = noise, parts = true })
  local value = standard(noise[1]) - path.first
  local active = prepared_batch.for_draws(b.active, draws)
  if steps > 1 then
    local each = standard(noise:slice(1, 2, steps)) - path.scale:log():sum(-1) - log_gain(path.gain, path.scale)
    value = value + total(each, active and active:slice(1, 2, steps))
  end
  local z = path.z:transpose(1, 2):reshape { draws, b.size, steps, n }
  return z, value:reshape { draws, b.size }
end

--- parameters(): of the inference network alone.
function methods:parameters()
  return parameters.list { self.model.told, self.model.initial, self.model.disturbance }
end

--- widened(factor): the posterior of an untrained network that sees the same, its layers `factor` times as wide.
function methods:widened(factor)
  return residual_posterior.new(self.widen(factor), self.path, self.widen)
end

--- new(model, path, widen): path is the model's way to draw, widen(factor) a model with the same prior and emission and
--- another inference network.
function residual_posterior.new(model, path, widen)
  local sees_all = model.told.kind == "full" and model.given.markov or nil
  return setmetatable({ model = model, path = path, widen = widen, sees_all = sees_all }, class)
end

return residual_posterior
