--- Kalman variational autoencoders (Fraccaro, Kamronn, Paquet & Winther 2017): an autoencoder for each observation,
--- whose latents z_t are what a Gaussian linear system emits. Its matrices at t are averages of K base matrices,
--- weighted by a recurrent network of the z before t:
---
---     y_t ~ p(y_t | z_t),   z_t = C_t x_t + D_t u_t + N(0, Q),   x_t = A_t x_(t-1) + B_t u_t + N(0, R)
---     A_t = sum_k w_tk A_k, ...,   w_t = softmax(V h_t),   h_t = lstm(h_(t-1), z_(t-1), u_t),   z_0 is a parameter
---     q(z_t | y_t) = N(encoder(y_t))
---
---     local m = pn.models.kvae { size = 1, covariates = 3, latent = 4, state = 8, base = 10 }
---     local v = pn.models.kvae { size = 1024, image = { 32, 32 }, output = "bernoulli", latent = 2, state = 10 }
---
--- A forecaster (pn.help "penumbra.models.forecaster"). log_evidence is a bound at one draw of the z: sum_t log p(y_t |
--- z_t) - log q(z_t | y_t) + log p(z), on average at most log p(y); bound() takes more draws. Beliefs hold
--- `belief_draws` draws of the z, each with its Kalman filter. smooth(batch, {draws = 32}) gives {state =,
--- latent =, observation =}, [S, T, B, ...]: draws of x_t given all of y, of z_t given x_t, and of y_t given that z_t.
--- Within a gap impute = "mean" looks both ways; "sample" has drawn the z there from what came before.
---
--- latent, state, base   orders of z (2) and x (4), number of base matrices (3)
--- units       of the recurrent network, 50
--- hidden      {64, 64}: layers of encoder and decoder, the latter's the other way round; `activation` "leaky_relu"
--- image       {rows, columns}: images of that size, divisible by 8, and networks of convolutions instead: three with
---             stride 2 and `filters` (32) channels, and three of 4 filters with subpixel shuffles back
--- encoder, decoder   networks of one's own: y [N, p] -> [N, 2 latent] and z [N, latent] -> [N, width p], width as of
---             the output; pn.restore asks for them again
--- output      "normal", "student_t", "bernoulli" (pixels 0 or 1; scaling = "none") or another of pn.nn.likelihood
--- latent_variance   the most that q may have, as 0.03: it is that times a sigmoid; absent: any
--- noise       "shared": R and Q are the same always; "mixed": averages of K, by `average` of "scales", "variances" or
---             "log_scales" (pn.help "penumbra.models.base_matrices")
--- stable      true: no A_k makes any state longer (its largest singular value is at most 1), so that nothing grows
---             without bound in forecasts beyond the lengths that were trained on; false: any A_k, as published
--- inputs      where covariates (their features) enter: {"weights", "emission"}; also "transition", "encoder",
---             "decoder"
--- objective   what fit maximises: "rao_blackwellised", log p(z) in closed form, or "monte_carlo": log p(x, z) at a
---             draw of the smoothed states x, and the entropy of their law. Both are the same on average. With
---             state_draws = "marginal" each x_t is drawn on its own, as in the published code: a lower bound to both
--- impute      a step without any observation: "sample" draws its z from its predictive law (the bound stays one),
---             "mean" gives the predictive mean to the recurrent network and leaves the step out of the Kalman filter,
---             as published (no bound). Single missing elements are 0 to the encoder and no part of the likelihood
--- entropy     of q in fit and log_evidence: "sampled", - log q at the draw, or "closed", its mean
--- reconstruction   weight of log p(y | z) in what fit maximises, 1 (0.3 in the published code)
--- jitter      added to the covariances of smoothed states before they are factored, 0
--- init        {transition = 0.05, emission = 0.5, inputs = 0.05: deviations of A_k from 1 and of C_k and of B_k, D_k
---             from 0; state_scale = 0.3, emission_scale = 0.2, initial_scale = 1: standard deviations}
-- help: pn.models, methods m
local core = require "penumbra.core"
local base_matrices = require "penumbra.models.base_matrices"
local emission = require "penumbra.models.emission"
local forecaster = require "penumbra.models.forecaster"
local image_network = require "penumbra.models.image_network"
local kvae_options = require "penumbra.models.kvae_options"
local network_posterior = require "penumbra.models.network_posterior"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local prepared_batch = require "penumbra.models.prepared_batch"
local state_paths = require "penumbra.models.state_paths"

local kvae = {}

local HALF_LOG_TAU = 0.91893853320467274178 -- log(2 pi) / 2
local LEAST = 1e-12 -- added to variances of q: softplus and sigmoid may give 0

-- ---- draws side by side ----

local for_draws = prepared_batch.for_draws

local function beside(...)
  local list = {}
  for k = 1, select("#", ...) do
    list[#list + 1] = (select(k, ...)) or nil
  end
  return #list > 1 and core.concatenate(list, -1) or list[1]
end

-- x if covariates enter there.
local function if_entered(self, where, x)
  return self.enters[where] and x or nil
end

-- f of the rows of x [T, N, n], as a network takes them.
local function rowwise(f, x)
  local shape = x:shape()
  local y = f(x:reshape { -1, shape[#shape] })
  shape[#shape] = y:size(-1)
  return y:reshape(shape)
end

-- ---- the parts ----

-- (Networks of one's own may give anything.)
local function check_width(role, out, want)
  if out:size(-1) ~= want then
    core.error(("kvae: %s must give %d numbers for each observation, got %d"):format(role, want, out:size(-1)))
  end
end

local function layers_of(o)
  return { init = "xavier", activation = o.activation, dtype = o.dtype }
end

-- An encoder of layers `factor` times as wide as `hidden`.
local function encoder_layers(self, factor)
  local o, sizes = self.given, {}
  for k, n in ipairs(o.hidden) do sizes[k + 1] = n * factor end
  sizes[1], sizes[#o.hidden + 2] = o.size + (self.enters.encoder and self.input_size or 0), 2 * o.latent
  return nn.mlp(sizes, layers_of(o))
end

-- q(z | y): mean and scale [T, B, latent]; by another encoder, if given.
local function encode(self, b, features, network)
  local out = rowwise(network or self.encoder, beside(b.y, if_entered(self, "encoder", features)))
  check_width("encoder", out, 2 * self.latent)
  local loc, raw = out:slice(-1, 1, self.latent), out:slice(-1, self.latent + 1, 2 * self.latent)
  local most = self.given.latent_variance
  return loc, ((most and raw:sigmoid() * most or raw:softplus():square()) + LEAST):sqrt()
end

-- The decoder's output for z [..., latent].
local function decode(self, z, features)
  local out = rowwise(self.decoder, beside(z, if_entered(self, "decoder", features)))
  check_width("decoder", out, self.law.width * self.law.data)
  return out
end

local function apply(a, x)
  return a:matmul(x:unsqueeze(-1)):squeeze(-1)
end

-- The bases as a pass uses them: with stable = true A_k over its largest singular value, where that exceeds 1.
local function held_bases(self)
  if not self.given.stable then
    return self.bases:held()
  end
  local a = self.bases.bases.a
  local largest = a:transpose(-1, -2):matmul(a):eigh():select(-1, -1)
  return self.bases:held(nil, { a = a / largest:clamp(1, math.huge):sqrt():unsqueeze(-1):unsqueeze(-1) })
end

-- The linear system after the output h of the recurrent network: operands by the names of pn.kalman_step; q and r are
-- diagonal. held: the bases as this pass uses them.
local function system_of(self, held, h, features)
  local s = held { self.weights(h):softmax(-1) }
  s.b, s.d = s.b and apply(s.b, features), s.d and apply(s.d, features)
  for name, x in pairs(self.noises) do
    s[name] = (x * -2):exp()
  end
  s.q, s.r = s.q:diag_embed(), s.r:diag_embed()
  return s
end

-- The moments of x_0.
local function initial(self)
  return self.initial_mean, (self.initial_noise * -2):exp():diag_embed()
end

-- log q(z | y), negative, [T, N]: at the draw or on average (which is no part of an importance weight).
local function minus_log_q(entropy, scale, noise)
  local square = entropy == "closed" and 1 or noise:square()
  return (scale:log() + square * 0.5 + HALF_LOG_TAU):sum(-1)
end

-- ---- all steps at once, of complete series ----

-- Adds to run the system at all steps and log p(z), [N].
local function at_once(self, run)
  local z, steps, count = run.z, run.steps, run.count
  local first = self.first:broadcast_to { 1, count, self.latent }
  local before = steps > 1 and core.concatenate({ first, z:slice(1, 1, steps - 1) }, 1) or first
  local h = self.recurrent(beside(before, if_entered(self, "weights", run.features)))
  local s = system_of(self, held_bases(self), h, run.features)
  s.mean, s.cov = initial(self)
  local log_prob, message = core.gaussian.log_prob(s.mean, s.cov, s.a, s.b, s.q, z, s.c, s.d, s.r)
  if not log_prob then
    core.error("kvae: " .. message)
  end
  run.system, run.log_prior = s, log_prob:sum(1)
end

-- ---- step by step ----

-- What is known before the first step, of `count` series.
local function beginning(self, count)
  local mean, cov = initial(self)
  local zero = core.zeros({ count, self.units }, { dtype = self.dtype })
  return { mean = mean:broadcast_to { count, self.state_size },
    cov = cov:broadcast_to { count, self.state_size, self.state_size }, h = zero, c = zero,
    z = self.first:broadcast_to { count, self.latent } }
end

-- z given the past alone: mean and covariance of the law of the next one.
local function predictive(m, v, s)
  local mean = s.c:matmul(m:unsqueeze(-1)):squeeze(-1)
  local cov = s.c:matmul(v):matmul(s.c:transpose(-1, -2)) + s.r
  return s.d and mean + s.d or mean, (cov + cov:transpose(-1, -2)) * 0.5
end

local function factor(x)
  local l, message = x:cholesky()
  if not l then
    core.error("kvae: a predictive covariance is not positive definite: " .. message)
  end
  return l
end

-- One step from `state`: the recurrent network, then z: from the encoder where `seen` [N] is true, else from the past
-- by `noise` [N, latent]. Gives the next state, the system and log p(z | past) [N]. seen nil: everywhere.
local function step(self, held, state, z, seen, noise, features)
  local h, c = self.recurrent:step(beside(state.z, if_entered(self, "weights", features)), state.h, state.c)
  local s, observed = system_of(self, held, h, features), nil
  if seen then
    local m, v = core.kalman_predict(state.mean, state.cov, s.a, s.b, s.q)
    local mean, cov = predictive(m, v, s)
    local sampled = self.given.impute == "sample"
    z = core.where(seen:unsqueeze(-1), z, sampled and mean + apply(factor(cov), noise) or mean)
    observed = not sampled and seen:unsqueeze(-1):broadcast_to(z:shape()) or nil
  end
  local mean, cov, log_prob = core.kalman_step(state.mean, state.cov, s.a, s.b, s.q, z, s.c, s.d, s.r,
    { observed = observed })
  if not mean then
    core.error("kvae: " .. cov)
  end
  return { mean = mean, cov = cov, h = h, c = c, z = z }, s, log_prob
end

-- The state `after` where the series goes on, else that before.
local function kept_after_end(on, after, before)
  if not on then
    return after
  end
  local out = {}
  for name, x in pairs(after) do
    local here = on
    for _ = 2, x:ndim() do
      here = here:unsqueeze(-1)
    end
    out[name] = core.where(here, x, before[name])
  end
  return out
end

local function at(x, t)
  return x and x:select(1, t)
end

local OPERANDS = { "a", "b", "c", "d", "q", "r" }

-- The same for series with gaps or of several lengths, and the state after each one's last step.
local function in_turn(self, run)
  local state, z, log_probs, list, held = beginning(self, run.count), {}, {}, {}, held_bases(self)
  local noise
  if self.given.impute == "sample" and not run.complete then
    noise = core.randn({ run.steps, run.count, self.latent }, { dtype = self.dtype, generator = run.generator })
  end
  for t = 1, run.steps do
    local next_state, s
    next_state, s, log_probs[t] = step(self, held, state, at(run.z, t), not run.complete and at(run.seen, t) or nil,
      at(noise, t), at(run.features, t))
    state = kept_after_end(at(run.active, t), next_state, state)
    z[t] = next_state.z
    for _, name in ipairs(OPERANDS) do
      if s[name] then
        list[name] = list[name] or {}
        list[name][t] = s[name]
      end
    end
  end
  local whole = {}
  for name, x in pairs(list) do
    whole[name] = self.noises[name] and x[1] or core.stack(x, 1)
  end
  whole.mean, whole.cov = initial(self)
  run.system, run.state, run.z = whole, state, core.stack(z, 1)
  local each = core.stack(log_probs, 1)
  local zero = core.zeros({}, { dtype = self.dtype })
  run.log_prior = core.where(run.seen, each, zero):sum(1)
  -- of the z that were drawn from their predictive law
  if not run.complete and self.given.impute == "sample" then
    local drawn = run.seen:logical_not()
    drawn = run.active and drawn:logical_and(run.active) or drawn
    run.log_drawn = core.where(drawn, each, zero):sum(1)
  end
end

-- ---- bounds ----

-- A draw of all z of a prepared batch, `draws` for each series: {z [T, N, latent], system, log_prior [N], ...}.
local function run_of(self, b, how)
  local draws = how.draws or 1
  local features = forecaster.features(self, b)
  local loc, scale = encode(self, b, features)
  local run = { steps = b.steps, count = draws * b.size, generator = how.generator, complete = b.complete,
    features = for_draws(features, draws), active = for_draws(b.active, draws) }
  loc, scale = for_draws(loc, draws), for_draws(scale, draws)
  run.scale = scale
  run.noise = core.randn(loc:shape(), { dtype = self.dtype, generator = how.generator })
  run.z = loc + scale * run.noise
  run.seen = for_draws(b.observed:any(-1), draws)
  run.b = { y = for_draws(b.y, draws), observed = for_draws(b.observed, draws) }
  if b.complete and not how.in_turn then
    at_once(self, run)
  else
    in_turn(self, run)
  end
  return run
end

-- The linear system with its z, as state_paths takes it.
local function with_latents(self, run)
  local s = run.system
  s.z, s.active = run.z, run.active
  local skipped = not run.complete and self.given.impute == "mean"
  s.observed = skipped and run.seen:unsqueeze(-1):broadcast_to(run.z:shape()):contiguous() or nil
  return s
end

-- The bound of each series and draw, [N].
local function bound_of(self, run, how)
  local output = decode(self, run.z, run.features)
  local likelihood = self.law:log_prob(output, run.b.y, run.b.observed)
  local local_terms = likelihood * (how.reconstruction or 1) + minus_log_q(how.entropy, run.scale, run.noise)
  local_terms = core.where(run.seen, local_terms, core.zeros({}, { dtype = self.dtype })):sum(1)
  if how.objective ~= "monte_carlo" then
    return local_terms + run.log_prior
  end
  local log_z = state_paths.estimate(with_latents(self, run), how.state_draws, how.generator, self.given.jitter)
  return local_terms + (run.log_drawn and log_z - run.log_drawn or log_z)
end

local methods = {}

--- bound(batch [, {draws = 1, objective = "rao_blackwellised", state_draws = "joint", generator =}]): a lower bound on
--- log p(y_1 ... y_T) of each series, [B]: of several draws of the z the importance weighted one (Burda, Grosse &
--- Salakhutdinov 2016), which tends to log p(y) with their number. objective and state_draws: as of the constructor.
function methods:bound(batch, given)
  local o = options.check("bound", given, { draws = 1, objective = options.choice("rao_blackwellised", "monte_carlo"),
    state_draws = options.choice("joint", "marginal"), generator = options.optional "generator" })
  local b = prepared_batch.read("bound", self, batch)
  local each = bound_of(self, run_of(self, b, o), o):reshape { o.draws, b.size }
  return each:logsumexp(1) - math.log(o.draws) - prepared_batch.log_jacobian(b)
end

--- log_joint(z, batch): log p(y, z) of draws z [S, B, T, latent], [S, B], the states integrated out; differentiable.
--- Of series without gaps.
function methods:log_joint(z, batch)
  local b = prepared_batch.read("log_joint", self, batch)
  if not b.complete then
    core.error "log_joint: needs series without gaps, of one length"
  end
  local S, features = z:size(1), forecaster.features(self, b)
  local run = { steps = b.steps, count = S * b.size, features = for_draws(features, S),
    z = z:permute({ 3, 1, 2, 4 }):reshape { b.steps, S * b.size, self.latent } }
  at_once(self, run)
  local seen = self.law:log_prob(decode(self, run.z, run.features), for_draws(b.y, S), for_draws(b.observed, S))
  return (seen:sum(1) + run.log_prior):reshape { S, b.size } - prepared_batch.log_jacobian(b)
end

-- A draw of z [S, B, T, latent] by an encoder, and log q.
local function drawn_by(self, network, batch, draws, generator)
  local b = prepared_batch.read("draw", self, batch)
  local loc, scale = encode(self, b, forecaster.features(self, b), network)
  local noise = core.randn({ draws, table.unpack(loc:shape()) }, { dtype = self.dtype, generator = generator })
  return (loc + scale * noise):transpose(2, 3), -minus_log_q("sampled", scale, noise):sum(2)
end

--- amortised_posterior(): q(z | y), the encoder, as pn.gap.measure takes it; wider ones where it has `hidden` layers.
function methods:amortised_posterior()
  local own = not (self.given.image or self.given.encoder)
  return network_posterior.new { network = self.encoder, eager = true,
    draw = function(...) return drawn_by(self, ...) end,
    widen = own and function(times) return (encoder_layers(self, times)) end or nil }
end

local function evidence(self, b, how)
  how.entropy = self.given.entropy
  return bound_of(self, run_of(self, b, how), how)
end

-- What fit and loss maximise.
local function phase(self)
  return "", { objective = self.given.objective, state_draws = self.given.state_draws,
    reconstruction = self.given.reconstruction }
end

-- ---- beliefs ----

local function filter(self, b, how)
  local run = run_of(self, b, { draws = self.given.belief_draws, generator = how.generator, in_turn = true })
  run.state.generator = how.generator
  return run.state
end

local function advance(self, state, b)
  local paths = state.z:size(1) // b.size
  local features = forecaster.features(self, b)
  local loc, scale = encode(self, b, features)
  loc, scale = for_draws(loc, paths):select(1, 1), for_draws(scale, paths):select(1, 1)
  local how = { dtype = self.dtype, generator = state.generator }
  local z = loc + scale * core.randn(loc:shape(), how)
  local seen = not b.complete and for_draws(b.observed:any(-1), paths):select(1, 1) or nil
  local noise = seen and core.randn(loc:shape(), how)
  local after = step(self, held_bases(self), state, z, seen, noise, at(for_draws(features, paths), 1))
  after.generator = state.generator
  return after
end

-- ---- forecasts ----

-- Draws of `count` paths out of those of a belief of `size` series, in turn.
local function paths_out_of(state, count, size)
  local have = state.z:size(1) // size
  local out = {}
  local index = core.remainder(core.arange(count, { dtype = "int64" }), have)
  for _, name in ipairs { "mean", "cov", "h", "c", "z" } do
    local x = state[name]
    local own = { table.unpack(x:shape(), 2) }
    out[name] = x:reshape { have, size, table.unpack(own) }:take(1, index):reshape { count * size, table.unpack(own) }
  end
  return out
end

-- A root of the diagonal covariance q.
local function scales_of(q)
  return q:diagonal():sqrt()
end

-- One step ahead: z and the state after it. x [N, n] is the path's own, nil in mode "marginal".
local function step_ahead(self, state, features, how)
  local h, c = self.recurrent:step(beside(state.z, if_entered(self, "weights", features)), state.h, state.c)
  local s = system_of(self, how.held, h, features)
  local function noise(size)
    return core.randn({ state.z:size(1), size }, { dtype = self.dtype, generator = how.generator })
  end
  local after = { h = h, c = c }
  if state.x then
    local x = apply(s.a, state.x) + scales_of(s.q) * noise(self.state_size)
    after.x = s.b and x + s.b or x
    local z = apply(s.c, after.x) + scales_of(s.r) * noise(self.latent)
    after.z = s.d and z + s.d or z
  else
    after.mean, after.cov = core.kalman_predict(state.mean, state.cov, s.a, s.b, s.q)
    local mean, cov = predictive(after.mean, after.cov, s)
    after.z = mean + apply(factor(cov), noise(self.latent))
  end
  return after
end

local function paths(self, state, o)
  local size = o.location:size(1)
  local now, features = paths_out_of(state, o.draws, size), for_draws(o.features, o.draws)
  if o.mode == "ancestral" then
    local noise = core.randn(now.mean:shape(), { dtype = self.dtype, generator = o.generator })
    now.x = now.mean + apply(factor(now.cov), noise)
  end
  local out, how = {}, { generator = o.generator, held = held_bases(self) }
  for t = 1, o.steps do
    now = step_ahead(self, now, at(features, t), how)
    local y = self.law:law(decode(self, now.z, at(features, t))):sample(o.generator and { generator = o.generator }
      or nil)
    out[t] = y:reshape { o.draws, size, self.size }
  end
  return core.stack(out, 2)
end

-- ---- smoothing ----

-- See above; observations are on the scale of y.
local function smooth(self, b, o)
  local run = run_of(self, b, { draws = o.draws, generator = o.generator })
  local s = with_latents(self, run)
  local x = state_paths.sample(s, o.generator, self.given.jitter):slice(1, 2, b.steps + 1)
  local z = apply(s.c, x)
  z = (s.d and z + s.d or z) + scales_of(s.r) * core.randn(z:shape(), { dtype = self.dtype, generator = o.generator })
  local y = self.law:law(decode(self, z, run.features)):sample(o.generator and { generator = o.generator } or nil)
  local function paths_first(v)
    return v:reshape { b.steps, o.draws, b.size, v:size(-1) }:transpose(1, 2)
  end
  return { state = paths_first(x), latent = paths_first(z), observation = paths_first(y) * b.scale + b.location }
end

-- ---- making ----

local class = forecaster.class { name = "kvae", methods = methods, evidence = evidence, phase = phase, filter = filter,
  advance = advance, paths = paths, smooth = smooth,
  smooth_options = { draws = 32, generator = options.optional "generator" } }

local function reversed(list)
  local out = {}
  for k, v in ipairs(list) do
    out[#list + 1 - k] = v
  end
  return out
end

-- Encoder and decoder: given, of convolutions, or layers.
local function networks(self, o, width)
  local m = self.input_size
  local inputs, latent = o.size + (self.enters.encoder and m or 0), o.latent + (self.enters.decoder and m or 0)
  if o.encoder then
    return o.encoder, o.decoder
  elseif o.image then
    if inputs > o.size then
      core.error "kvae: inputs of images must not enter the encoder"
    end
    return image_network.encoder("kvae", o, 2 * o.latent), image_network.decoder("kvae", o, latent)
  end
  local back = { latent, table.unpack(reversed(o.hidden)) }
  back[#back + 1] = width
  return encoder_layers(self, 1), nn.mlp(back, layers_of(o))
end

-- The bases, and the logarithms of inverse scales of noise that all share.
local function bases_of(self, o, m)
  local n, p, init = o.state, o.latent, o.init
  local matrices = { a = { n, n }, c = { p, n }, b = self.enters.transition and { n, m } or nil,
    d = self.enters.emission and { p, m } or nil }
  local mixed, names = o.noise == "mixed", { "a", "c" }
  for _, name in ipairs { "b", "d" } do
    names[#names + 1] = matrices[name] and name or nil
  end
  if mixed then
    table.move({ "q", "r" }, 1, 2, #names + 1, names)
  end
  local bases = base_matrices.new { count = o.base, inputs = o.base, groups = { names }, matrices = matrices,
    noises = mixed and { q = { n }, r = { p } } or {}, start = { a = "identity", c = "normal", b = "normal",
      d = "normal" }, average = o.average, spread = init.transition * n ^ 0.5, dtype = o.dtype }
  for name, deviation in pairs { c = init.emission, b = init.inputs, d = init.inputs } do
    local x = bases.bases[name]
    if x then
      x:set(x * deviation)
    end
  end
  local noises = {}
  for name, scale in pairs { q = init.state_scale, r = init.emission_scale } do
    local start = core.full({ name == "q" and n or p }, -math.log(scale), { dtype = o.dtype })
    if mixed then
      bases.bases[name]:set(start:broadcast_to { o.base, start:size(1) })
    else
      noises[name] = core.param(start)
    end
  end
  return bases, noises
end

--- kvae{size =, latent =, state =, base =, ...}: a Kalman variational autoencoder with parameters drawn anew; options:
--- pn.help "penumbra.models.kvae" and "penumbra.models.forecaster".
function kvae.kvae(given)
  local o, enters = kvae_options.read(given)
  local self = forecaster.new(class, o)
  self.enters = self.input_size > 0 and enters or {}
  self.law = emission.new("kvae", "output", o.output, o.size)
  self.encoder, self.decoder = networks(self, o, self.law.width * o.size)
  local m = self.input_size
  self.latent, self.state_size, self.units = o.latent, o.state, o.units
  self.recurrent = nn.lstm(o.latent + (self.enters.weights and m or 0), o.units, { dtype = o.dtype })
  self.weights = nn.linear(o.units, o.base, { dtype = o.dtype })
  self.first = core.param(core.zeros({ o.latent }, { dtype = o.dtype }))
  self.bases, self.noises = bases_of(self, o, m)
  self.initial_mean = core.param(core.zeros({ o.state }, { dtype = o.dtype }))
  self.initial_noise = core.param(core.full({ o.state }, -math.log(o.init.initial_scale), { dtype = o.dtype }))
  return self
end

return kvae
