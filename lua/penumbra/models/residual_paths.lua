--- Paths of a residual state-space model's prior (pn.help "penumbra.models.residual_states") and its particle filter.
--- What a belief holds: {z = [N, B, n] equally weighted, u = [B, k] or nil, log_evidence = [B], effective_sample_size =
--- [B], its least so far, generator =}.
-- help: nowhere
local core = require "penumbra.core"
local filter = require "penumbra.smc.filter"
local forecaster = require "penumbra.models.forecaster"
local machine = require "penumbra.smc.machine"
local prepared_batch = require "penumbra.models.prepared_batch"

local residual_paths = {}

local function noise_like(self, shape, generator)
  return core.randn(shape, { dtype = self.dtype, generator = generator })
end

-- The state after z [N, n], of a control u [N, k] or nil.
local function step(self, z, u, generator)
  local f, g = self.states:move(z, u)
  return f + g * noise_like(self, f:shape(), generator)
end

local function at(x, t) return x and x:select(1, t) end

--- prior(model, count, o, u): states [steps, count, n]; o has steps and generator, u [steps, count, k] or nil.
function residual_paths.prior(self, count, o, u)
  local z = { self.states:start(noise_like(self, { count, self.latent }, o.generator)) }
  for t = 2, o.steps do
    z[t] = step(self, z[t - 1], at(u, t - 1), o.generator)
  end
  return core.stack(z, 1)
end

-- ---- the particle filter ----

-- x [B, ...] for each of n particles, [n, B, ...].
local function wide(x, n)
  return x and x:unsqueeze(1):broadcast_to { n, table.unpack(x:shape()) }:contiguous() or nil
end

local function flat(x) return x and x:reshape { -1, x:size(-1) } or nil end

-- Particles [N, B, n] a step on, where a series goes on.
local function moved(self, z, u, active, generator)
  local next_z = step(self, flat(z), flat(wide(u, z:size(1))), generator):reshape(z:shape())
  return active and core.where(active:unsqueeze(2), next_z, z) or next_z
end

local function weight_of(self, z, seen, log_likelihood)
  local n = z:size(1)
  return log_likelihood(self, z, wide(seen.y, n), wide(seen.observed, n))
end

-- Equally weighted particles out of weighted ones.
local function even(z, log_w, generator)
  return core.new_selected(z, machine.resample(log_w, { generator = generator }))
end

local function effective(log_w)
  local w = log_w:softmax(1)
  return 1 / w:square():sum(1)
end

--- filter(model, b, {generator =, log_likelihood =}): the belief after each series' own last step, by a bootstrap
--- filter: particles of the prior, weighted by log p(y_t | z_t), resampled where half of them are worth nothing.
function residual_paths.filter(self, b, how)
  local u, n = forecaster.features(self, b), self.num_particles
  local list, least = {}, nil
  for t = 1, b.steps do
    list[t] = { y = b.y[t], observed = b.observed[t], active = at(b.active, t) }
  end
  local f = filter.filter { num_particles = n, batch_shape = { b.size }, generator = how.generator, trace = false,
    init = function()
      return self.states:start(noise_like(self, { n * b.size, self.latent }, how.generator)):reshape { n, b.size,
        self.latent }
    end,
    step = function(z, t, _, seen) return moved(self, z, at(u, t - 1), seen.active, how.generator) end,
    log_weight = function(z, seen) return weight_of(self, z, seen, how.log_likelihood) end }
  for t = 1, b.steps do
    f:observe(list[t])
    local ess = f.machine:effective_sample_size()
    least = least and core.minimum(least, ess) or ess
  end
  return { z = even(f.state, f.machine:log_weights(), how.generator), u = u and prepared_batch.at_lengths(b, u) or nil,
    log_evidence = f:log_evidence(), effective_sample_size = least, generator = how.generator }
end

--- advance(model, state, b, {log_likelihood =}): the belief after one more step.
function residual_paths.advance(self, state, b, how)
  local u = forecaster.features(self, b)
  local z = moved(self, state.z, state.u, nil, state.generator)
  local log_w = weight_of(self, z, { y = b.y[1], observed = b.observed[1] }, how.log_likelihood)
  local top = log_w:max(1)
  if not top:isfinite():all():item() then
    core.error "update: no particle gives y_t a density: take a model with more num_particles"
  end
  return { z = even(z, log_w, state.generator), u = at(u, 1),
    log_evidence = state.log_evidence + (log_w:logsumexp(1) - math.log(z:size(1))):to "float64",
    effective_sample_size = core.minimum(state.effective_sample_size, effective(log_w)), generator = state.generator }
end

--- after(model, state, o): states [steps, draws B, n] that come after a belief; o.steps, o.draws, o.size (B),
--- o.features [steps, B, k] or nil, o.generator.
function residual_paths.after(self, state, o)
  local have = state.z:size(1)
  -- evenly spread over the particles, of which those with one ancestor stand side by side
  local from = core.rand({}, { generator = o.generator }):item()
  local index = ((core.arange(o.draws) + from) * (have / o.draws)):floor():clamp(0, have - 1):to "int64"
  local z = state.z:take(1, index):reshape { o.draws * o.size, self.latent }
  local u = state.u and flat(wide(state.u, o.draws))
  local later, list = prepared_batch.for_draws(o.features, o.draws), {}
  for t = 1, o.steps do
    z = step(self, z, u, o.generator)
    list[t], u = z, at(later, t)
  end
  return core.stack(list, 1)
end

return residual_paths
