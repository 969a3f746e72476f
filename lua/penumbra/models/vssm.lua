--- The residual variational state-space model of Bayer, Soelch, Mirchev, Kayalibay & van der Smagt (2021), whose
--- inference network sees at each step what its `conditioning` lets it see:
---
---     z_1 = flow(e_1),   z_t = f(z_(t-1), u_(t-1)) + g(z_(t-1), u_(t-1)) e_t,   e_t ~ N(0, 1),   y_t ~ p(y_t | z_t)
---     q(e_t | z_(t-1), y, u) = N(m, s^2) with (m, s) = network(f(z_(t-1), u_(t-1)), features_t)
---
---     local m = pn.models.vssm { size = 3, latent = 20, conditioning = "semi", prefix = 7 }
---     m:fit { series = batch, batch_size = 32, steps = 30000, lr = 3e-3, decay = 1, beta1 = 0.8, beta2 = 0.999 }
---     m:bound(test, { draws = 100 })      m:generate(64, { steps = 25 })      m:sees(3, 25)
---     m:forecast(beginnings, 18)          draws after a beginning, by a particle filter, without q
---
--- A forecaster (pn.help "penumbra.models.forecaster"): batches, gaps (NaN), lengths, controls (inputs [T, B, k]; u_t
--- acts on the step from t to t + 1), fit, filter, forecast, save are as described there. log_evidence is the evidence
--- lower bound at one draw of the path, in nats a series, divergences in closed form.
---
--- latent        n, numbers of z (8)
--- conditioning  "full": q sees the whole series; "semi": z_1 sees the first `prefix` (7) steps, z_t those up to t;
---               "partial": z_1 sees y_1, z_t those up to t; or a mask, bool [T, T], whose row t says what z_t sees.
---               What partial inference costs however good its networks are: pn.gap
---               (bidirectional, whether features look backwards too, follows; another one is an error)
--- markov        true: q of z_t sees z_(t-1), too; false: it does not (as STORN's, DKF's in its experiments)
--- posterior     q of the first step: "noise", of e_1, with the divergence in closed form; "state", of z_1, whose prior
---               density takes n passes for each layer of the flow
--- transition    f: "residual", "plain" or "highway"; pn.help "penumbra.models.residual_states"
--- gain          g: "network", "shared" (a parameter for each number, at first softplus(0.5)), or positive numbers; at
---               least `floor` (1e-4)
--- flows, flow_hidden     layers of the flow (4) and its one or two hidden sizes ({16}); flows = 0: z_1 is normal
--- output        "normal", "bernoulli" (0 or 1) or another of pn.nn.likelihood
--- mean          of "normal": "network", or "first": the first numbers of z
--- noise         of "normal": "shared" (a parameter for each number, from noise_scale, 0.5, on), "network", or the
---               standard deviation itself, a number or a list
--- units, layers of the recurrent network of features: 64, 1
--- hidden        {32}: hidden layers, a list for all networks or {transition =, initial =, disturbance =, prefix =,
---               emission =}; prefix: of what z_1 sees
--- activation    "tanh": of all, or by network a name or a list with one for each layer
--- init          "xavier": weights of these networks (pn.nn.initialise), for all or by network; recurrent layers and
---               the flow begin as they do everywhere
--- warmup        iterations of fit in which the weight of the divergence rises from 0 to 1 (0, as published)
--- num_particles of the filter behind filter and forecast, 1000
--- features, scaling      0 and "none": inputs go in as they are, and y is seen as it is. Another scaling is taken from
---               the whole series, the future too
-- help: pn.models, methods m
local conditioned_features = require "penumbra.models.conditioned_features"
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local emission = require "penumbra.models.emission"
local forecaster = require "penumbra.models.forecaster"
local metrics = require "penumbra.metrics"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local prepared_batch = require "penumbra.models.prepared_batch"
local recording = require "penumbra.autodiff.recording"
local residual_posterior = require "penumbra.models.residual_posterior"
local residual_paths = require "penumbra.models.residual_paths"
local residual_states = require "penumbra.models.residual_states"

local vssm = {}

local HALF_LOG_TAU = 0.91893853320467274178 -- log(2 pi) / 2
local LEAST = 1e-6 -- of a scale out of a network
local MOST_LAYERS = 1000 -- of a flow or a recurrent network

local for_draws = prepared_batch.for_draws

-- ---- emission ----

local function positive(x) return x:softplus() + LEAST end

-- Mean and scale of y for z [..., n].
local function normal_of(self, z)
  local p, first = self.size, self.given.mean == "first"
  local out = self.decoder and self.decoder(z)
  local loc = first and z:slice(-1, 1, p) or out:slice(-1, 1, p)
  if self.log_noise then
    return loc, self.log_noise:exp()
  elseif self.noise then
    return loc, self.noise
  end
  return loc, positive(first and out or out:slice(-1, p + 1, 2 * p))
end

-- The law of y given z [..., n], each number for itself.
local function law_of(self, z)
  if self.law then
    return self.law:law(self.decoder(z))
  end
  return dist.normal(normal_of(self, z))
end

-- log p(y | z) [...] over what was observed.
local function log_likelihood(self, z, y, observed)
  if self.law then
    return self.law:log_prob(self.decoder(z), y, observed)
  end
  local loc, scale = normal_of(self, z)
  local each = ((y - loc) / scale):square() * -0.5 - scale:log() - HALF_LOG_TAU
  return observed and core.where(observed, each, core.zeros({}, { dtype = self.dtype })):sum(-1) or each:sum(-1)
end

-- ---- inference ----

-- What each step holds: [T, B, 2 p + inputs].
local function seen_of(self, b, u)
  return core.concatenate({ b.y, b.observed:to(self.dtype), u }, 3)
end

-- The features of a batch, and what of the disturbance network they alone give, for each of `draws`.
local function told_of(self, b, u, draws)
  local first, later = self.told:of(seen_of(self, b, u), b.lengths)
  return for_draws(first:unsqueeze(1), draws):select(1, 1), for_draws(self.disturbance.from_features(later), draws)
end

local function loc_scale(out, n)
  return out:slice(-1, 1, n), positive(out:slice(-1, n + 1, 2 * n))
end

-- A step of q: z_t, and mean, scale and draw of e_t, of what features give (see told_of), the prior's mean f and gain g
-- and noise.
local function later_step(self, given, f, g, noise)
  local net = self.disturbance
  local out = net.from_state and net.from_state(f) + given or given
  local loc, scale = loc_scale(net.rest and net.rest(out) or out, self.latent)
  local x = loc + scale * noise
  if net.from_state then
    return f + g * x, loc, scale, x
  end
  return x, (loc - f) / g, scale / g, (x - f) / g -- it was of z_t itself
end

-- The first step: z_1, and what the bound or the weights lose by it, [N]; with weighed = "density" the logarithm of the
-- factor by which q(z_1) is less dense than the noise.
local function first_step(self, first, noise, weighed)
  local loc, scale = loc_scale(self.initial(first), self.latent)
  local x = loc + scale * noise
  if self.given.posterior == "state" then
    if weighed == "density" then return x, scale:log():sum(-1) end
    local e, log_det = self.states:undo(x)
    return x, ((e:square() - noise:square()) * 0.5 - scale:log()):sum(-1) + log_det
  end
  local z = self.states:start(x)
  if weighed == "density" then
    local log_det
    z, log_det = self.states:log_det(x)
    return z, scale:log():sum(-1) + log_det
  end
  local square = weighed and x:square() - noise:square() or loc:square() + scale:square() - 1
  return z, (square * 0.5 - scale:log()):sum(-1)
end

local function at(x, t) return x and x:select(1, t) end

-- The gains of all steps but the first, [T - 1, N, n]; [n] where they are the same always.
local function g_of(self, gains) return self.given.gain == "network" and core.stack(gains, 1) or gains[1] end

-- A path of q for each draw: z [T, N, n], and the divergence [N] as above; with how.parts what the path's density is
-- made of, see residual_posterior.
local function path_of(self, b, how)
  local draws = how.draws or 1
  local u = forecaster.features(self, b)
  local first, given = told_of(self, b, u, draws)
  local steps, count, n = b.steps, b.size * draws, self.latent
  local noise = how.noise or core.randn({ steps, count, n }, { dtype = self.dtype, generator = how.generator })
  local controls, z1, lost = for_draws(u, draws), first_step(self, first, noise[1],
    how.parts and "density" or how.weighed)
  local z = { z1 }
  if steps == 1 then
    z1 = z1:unsqueeze(1)
    return how.parts and { z = z1, first = lost } or z1, lost
  end
  local terms, scales, gains = {}, {}, {}
  for t = 2, steps do
    local f, g = self.states:move(z[t - 1], at(controls, t - 1))
    local loc, scale, e
    z[t], loc, scale, e = later_step(self, given[t], f, g, noise[t])
    local square = how.weighed and e:square() - noise[t]:square() or loc:square() + scale:square() - 1
    scales[t - 1], gains[t - 1] = scale, g
    terms[t - 1] = (square * 0.5 - scale:log()):sum(-1)
  end
  if how.parts then
    return { z = core.stack(z, 1), first = lost, scale = core.stack(scales, 1),
      gain = g_of(self, gains) }
  end
  local later = core.stack(terms, 1)
  if b.active then
    local active = for_draws(b.active:slice(1, 2, steps), draws)
    later = core.where(active, later, core.zeros({}, { dtype = self.dtype }))
  end
  return core.stack(z, 1), lost + later:sum(1)
end

-- Reconstruction minus divergence of each draw, [N], and the path.
local function bound_of(self, b, how)
  local z, lost = path_of(self, b, how)
  local draws = how.draws or 1
  local observed = (self.law or not b.complete) and for_draws(b.observed, draws) or nil
  if how.values then -- fit's weight of the divergence
    lost = lost * how.values[1]
  end
  return log_likelihood(self, z, for_draws(b.y, draws), observed):sum(1) - lost, z
end

local function evidence(self, b, how)
  return (bound_of(self, b, how))
end

-- fit's iterations differ in the weight of the divergence alone.
local function phase(self, iteration)
  local warmup = self.given.warmup
  return "", nil, warmup > 0 and { math.min(1, iteration / (warmup + 1)) } or nil
end

local methods = {}

--- bound(batch [, {draws = 1, objective = "iwae", batch_size =, generator =}]): a lower bound on log p(y_1 ... y_T) of
--- each series, [B], in nats a series: of several draws the importance weighted one (Burda, Grosse &
--- Salakhutdinov 2016), which tends to log p(y) with their number; objective = "elbo": their mean, with divergences in
--- closed form. batch_size: paths that are drawn at a time; then there is no gradient. Without it all at once, with.
function methods:bound(batch, given)
  local o = options.check("bound", given, { draws = 1, objective = options.choice("iwae", "elbo"),
    batch_size = options.optional "number", generator = options.optional "generator" })
  local b = prepared_batch.read("bound", self, batch)
  local function of(part, size)
    local how = { draws = o.draws, generator = o.generator, weighed = o.objective == "iwae" and o.draws > 1 }
    local each = bound_of(self, part, how):reshape { o.draws, size }
    return o.objective == "elbo" and each:mean(1) or each:logsumexp(1) - math.log(o.draws)
  end
  if not o.batch_size then
    return of(b, b.size) - prepared_batch.log_jacobian(b)
  end
  local rows, list = math.max(1, o.batch_size // o.draws), {}
  for from = 0, b.size - 1, rows do
    local index = core.arange(from, math.min(from + rows, b.size), { dtype = "int64" })
    list[#list + 1] = recording.off(of, prepared_batch.rows(b, index), index:size(1))
  end
  return core.concatenate(list, 1) - prepared_batch.log_jacobian(b)
end

--- sees(t, steps): what q of z_t looks at in a series of so many steps: {observations = bool [steps] (y and inputs of
--- those steps), state = whether it looks at z_(t-1)}. Gradients of its features in everything else are exactly 0.
function methods:sees(t, steps)
  steps = options.whole("sees", "steps", steps, 1)
  t = options.whole("sees", "t", t, 1)
  if t > steps or self.told.steps and steps > self.told.steps then
    core.error(("sees: %s must be at most %d, got %d"):format(t > steps and "t" or "steps",
      t > steps and steps or self.told.steps, t > steps and t or steps))
  end
  return { observations = self.told:sees(t, steps), state = t > 1 and self.given.markov }
end

--- inference_parameters(): the parameters of q alone, a list.
function methods:inference_parameters()
  return parameters.list { self.told, self.initial, self.disturbance }
end

--- generative_parameters(): the parameters of p alone, a list.
function methods:generative_parameters()
  return parameters.list { self.states, self.decoder, self.log_noise, self.inputs }
end

local NETWORKS = { "transition", "initial", "disturbance", "prefix", "emission" }

-- hidden or activation by network.
local function by_network(o, name, default)
  local given, out = o[name], {}
  local each = type(given) == "table" and #given == 0 and next(given) ~= nil
  if each then
    local known = {}
    for _, network in ipairs(NETWORKS) do known[network] = options.any(default) end
    given = options.check("vssm: " .. name, given, known)
  end
  for _, network in ipairs(NETWORKS) do
    out[network] = each and given[network] or given
  end
  return out
end

-- ---- what pn.gap.measure asks ----

--- prepared(batch): a batch read and checked, as log_joint and the posteriors of pn.gap.measure take it:
--- pn.gap.measure(m, nil, m:prepared(test)).
function methods:prepared(batch)
  return prepared_batch.read("prepared", self, batch)
end

--- log_joint(z, b): log p(y, z) [S, N] of states z [S, N, T, latent] and a batch b of m:prepared.
function methods:log_joint(z, b)
  return residual_posterior.log_joint(self, z, b, log_likelihood)
end

--- amortised_posterior(): the model's inference network as pn.gap.measure takes it, with draw, parameters, widened.
function methods:amortised_posterior()
  local function widen(factor)
    factor = options.whole("widened", "factor", factor, 1)
    local o, hidden = options.merged(self.given), by_network(self.given, "hidden", { 32 })
    for _, name in ipairs { "initial", "disturbance", "prefix" } do
      local wide = {}
      for k, size in ipairs(hidden[name]) do wide[k] = size * factor end
      hidden[name] = wide
    end
    o.units, o.hidden = o.units * factor, hidden
    local other = vssm.vssm(o)
    for _, name in ipairs { "states", "decoder", "log_noise", "noise", "inputs", "law" } do other[name] = self[name] end
    return other
  end
  return residual_posterior.new(self, path_of, widen)
end

--- take(b, index): the series of a batch of m:prepared at the places of int64 index [K], from 0.
function methods.take(_, b, index) return prepared_batch.rows(b, index) end

--- count(b): how many series a batch of m:prepared has.
function methods.count(_, b) return b.size end

-- ---- samples ----

-- y of the states z [T, ..., n], or its mean.
local function observe(self, z, o)
  local law = law_of(self, z)
  return o.sample == false and law:mean() or law:sample(o.generator and { generator = o.generator } or nil)
end

--- generate(n, {steps =, inputs =, sample = true, generator =}): n series from the model, [steps, n, p], on the
--- model's scale (that of y with scaling = "none"); second the states [steps, n, latent]. inputs [steps, n, k] of a
--- model with controls; sample = false: the means of y given the states.
function methods:generate(n, given)
  local o = options.check("generate", given, { steps = options.required "number", sample = true,
    inputs = options.optional "tensor", generator = options.optional "generator" })
  n, o.steps = options.whole("generate", "n", n, 1), options.whole("generate", "steps", o.steps, 1)
  if (self.covariates > 0) ~= (o.inputs ~= nil) then
    core.error(("generate: inputs must be %s"):format(self.covariates > 0 and ("[%d, %d, %d], got nil"):format(o.steps,
      n, self.covariates) or "absent, this model has no covariates"))
  end
  o.inputs = o.inputs and prepared_batch.real("generate", self, "inputs", o.inputs,
    ("[%d, %d, %d]"):format(o.steps, n, self.covariates))
  if self.identities > 0 then
    core.error "generate: a model with identities of series has none for new ones; take m:forecast"
  end
  return recording.off(function()
    local z = residual_paths.prior(self, n, o, forecaster.features(self, { steps = o.steps, size = n,
      inputs = o.inputs }))
    return observe(self, z, o), z
  end)
end

local function smooth(self, b, o)
  local how = { draws = o.draws, generator = o.generator }
  local z = path_of(self, b, how)
  local function paths_first(x) return x:reshape { b.steps, how.draws, b.size, x:size(-1) }:transpose(1, 2) end
  return { state = paths_first(z), observation = paths_first(observe(self, z, o)) * b.scale + b.location }
end

--- predictive_density(beginning, y [, {draws = 1000, bandwidth =, inputs =, generator =}]): log density of each number
--- of what came after a beginning (a batch, or a belief), y [steps, B, p], under draws of m:forecast: kernel estimates,
--- number by number (pn.metrics.kernel_log_density), [steps, B, p]. inputs as forecast has them.
function methods:predictive_density(beginning, y, given)
  local o = options.check("predictive_density", given, { draws = 1000, bandwidth = options.optional "number",
    inputs = options.optional "tensor", generator = options.optional "generator" })
  options.argument("predictive_density", "y", y, "tensor")
  local paths = self:forecast(beginning, y:size(1), { draws = o.draws, inputs = o.inputs, generator = o.generator })
  return metrics.kernel_log_density(y:to(self.dtype), paths, { bandwidth = o.bandwidth })
end

-- ---- making ----

local class = forecaster.class { name = "vssm", methods = methods, evidence = evidence, phase = phase,
  smooth = smooth,
  smooth_options = { draws = 32, generator = options.optional "generator" },
  filter = function(self, b, how)
    return residual_paths.filter(self, b, { generator = how.generator, log_likelihood = log_likelihood })
  end,
  advance = function(self, state, b)
    return residual_paths.advance(self, state, b, { log_likelihood = log_likelihood })
  end,
  paths = function(self, state, o)
    local z = residual_paths.after(self, state, o)
    return observe(self, z, { generator = o.generator }):reshape { o.steps, o.draws, o.size, self.size }:transpose(1, 2)
  end }

vssm.path_of, vssm.log_likelihood, vssm.bound_of = path_of, log_likelihood, bound_of

local own_options = {
  latent = 8, conditioning = options.any "full", prefix = options.optional "number", markov = true,
  bidirectional = options.optional "boolean",
  posterior = options.choice("noise", "state"), transition = options.choice("residual", "plain", "highway"),
  gain = options.any "network", floor = 1e-4, flows = 4, flow_hidden = options.any { 16 },
  output = options.any "normal", mean = options.choice("network", "first"), noise = options.any "shared",
  noise_scale = 0.5, units = 64, layers = 1, hidden = options.any { 32 }, activation = options.any "tanh",
  init = options.any "xavier",
  warmup = 0, num_particles = 1000, features = 0, scaling = options.choice("none", "mean", "standard", "change"),
}

local function check_hidden(role, list, least, most)
  if type(list) ~= "table" or #list < least or #list > most then
    core.error(("vssm: %s must be a list of %s sizes, got %s"):format(role, most < math.huge and ("%d or %d"):format(
      least, most) or "hidden", type(list) == "table" and #list or tostring(list)))
  end
  for k, size in ipairs(list) do options.whole("vssm", ("%s[%d]"):format(role, k), size, 1) end
end

local function check_activations(role, given, count)
  local list = type(given) == "table" and given or { given }
  if type(given) == "table" and #given ~= count then
    core.error(("vssm: %s must be a name or a list of %d, one for each hidden layer, got %d"):format(role, count,
      #given))
  end
  for _, name in ipairs(list) do
    options.check("vssm", { activation = name }, { activation = options.one_of("tanh", nn.activations) })
  end
end

local function check_noise(o)
  if o.noise == "shared" or o.noise == "network" then
    if not (o.noise_scale > 0 and o.noise_scale < math.huge) then
      core.error(("vssm: noise_scale must be positive, got %g"):format(o.noise_scale))
    end
    return
  end
  local list = type(o.noise) == "table" and o.noise or { o.noise }
  for _, s in ipairs(list) do
    if type(s) ~= "number" or not (s > 0 and s < math.huge) or #list ~= 1 and #list ~= o.size then
      core.error(("vssm: noise must be 'shared', 'network', a positive number or %d of them, got %s"):format(o.size,
        type(o.noise) == "string" and "'" .. o.noise .. "'" or tostring(s)))
    end
  end
  if #list == 0 then core.error("vssm: noise must not be an empty list") end
end

local function check_conditioning(o)
  if o.prefix and o.conditioning ~= "semi" then
    core.error "vssm: prefix is of conditioning 'semi' (that of 'partial' is 1)"
  end
  local full = o.conditioning == "full"
  if o.bidirectional and not full then
    core.error(("vssm: bidirectional features would let %s inference see what comes after t: take "
      .. "conditioning = 'full'"):format(type(o.conditioning) == "string" and "'" .. o.conditioning .. "'" or "masked"))
  elseif o.bidirectional == false and full then
    core.error "vssm: bidirectional is of conditioning 'full', whose features run both ways: take 'partial' or 'semi'"
  end
  o.prefix = o.conditioning == "semi" and options.whole("vssm", "prefix", o.prefix or 7, 1) or nil
end

local function checked(given)
  local o = forecaster.options("vssm", given, own_options)
  for _, name in ipairs { "latent", "units", "layers" } do
    o[name] = options.whole("vssm", name, o[name], 1)
  end
  o.flows = options.whole("vssm", "flows", o.flows, 0)
  for _, name in ipairs { "flows", "layers" } do
    if o[name] > MOST_LAYERS then
      core.error(("vssm: %s must be at most %d, got %d"):format(name, MOST_LAYERS, o[name]))
    end
  end
  if not (o.floor > 0 and o.floor < math.huge) then
    core.error(("vssm: floor, the least gain, must be positive, got %g"):format(o.floor))
  elseif o.output ~= "normal" and (o.mean == "first" or o.noise ~= "shared") then
    core.error "vssm: mean and noise are of output 'normal'"
  elseif o.mean == "first" and o.latent < o.size then
    core.error(("vssm: mean 'first' needs at least size = %d latent numbers, got %d"):format(o.size, o.latent))
  elseif type(o.gain) == "string" and o.gain ~= "network" and o.gain ~= "shared" then
    core.error(("vssm: gain must be 'network', 'shared' or positive numbers, got '%s'%s"):format(o.gain,
      options.suggestion(o.gain, { "network", "shared" })))
  end
  check_hidden("flow_hidden", o.flow_hidden, 1, 2)
  check_conditioning(o)
  check_noise(o)
  return o
end

-- The emission: a network, and the noise of a normal one.
local function add_emission(self, o, hidden, activation, init)
  local how, width = { dtype = o.dtype }
  if o.output ~= "normal" then
    self.law = emission.new("vssm", "output", o.output, o.size)
    local targets = self.law.row.row.targets or "real"
    if targets ~= "real" and o.scaling ~= "none" then
      core.error(("vssm: output '%s' takes y as it is and needs scaling = 'none', got '%s'"):format(self.law.kind,
        o.scaling))
    end
    width = self.law.width * o.size
  else
    width = (o.mean == "network" and o.size or 0) + (o.noise == "network" and o.size or 0)
    if o.noise == "shared" then
      self.log_noise = core.param(core.full({ o.size }, math.log(o.noise_scale), how))
    elseif o.noise ~= "network" then
      self.noise = core.tensor(type(o.noise) == "table" and o.noise or { o.noise }, how)
    end
  end
  self.decoder = width > 0 and conditioned_features.network(o.latent, hidden, activation, width,
    { dtype = o.dtype, init = init }) or nil
end

-- Layers on each other, the first of which takes f and features by weights of their own, so that what features give
-- is computed once for all steps.
local function disturbance_of(o, features, hidden, activation, init)
  local first, how = hidden[1] or 2 * o.latent, { dtype = o.dtype, init = init }
  local net = { from_features = nn.linear(features, first, how) }
  net.from_state = o.markov and nn.linear(o.latent, first, { dtype = o.dtype, init = init, bias = false }) or nil
  if hidden[1] then
    local rest = conditioned_features.network(first, table.move(hidden, 2, #hidden, 1, {}),
      type(activation) == "table" and table.move(activation, 2, #activation, 1, {}) or activation, 2 * o.latent, how)
    net.rest = nn.sequential { conditioned_features.activation_of(activation, 1), rest }
  end
  return net
end

--- vssm{size =, latent =, conditioning =, ...}: a residual variational state-space model, its parameters drawn anew;
--- options: pn.help "penumbra.models.vssm" and "penumbra.models.forecaster".
function vssm.vssm(given)
  local o = checked(given)
  local hidden, activation = by_network(o, "hidden", { 32 }), by_network(o, "activation", "tanh")
  local init = by_network(o, "init", "xavier")
  for _, name in ipairs(NETWORKS) do
    options.argument("vssm", "init", init[name], "string")
    check_hidden("hidden", hidden[name], name == "prefix" and 1 or 0, math.huge)
    check_activations("activation", activation[name], #hidden[name])
  end
  local self = forecaster.new(class, o)
  self.latent, self.num_particles = o.latent, o.num_particles
  local m = self.input_size
  self.states = residual_states.new("vssm", { latent = o.latent, inputs = m, transition = o.transition, gain = o.gain,
    floor = o.floor, hidden = hidden.transition, activation = activation.transition, init = init.transition,
    flows = o.flows, flow_hidden = o.flow_hidden, dtype = o.dtype })
  add_emission(self, o, hidden.emission, activation.emission, init.emission)
  self.told = conditioned_features.new("vssm", { conditioning = o.conditioning, prefix = o.prefix,
    inputs = 2 * o.size + m, units = o.units, layers = o.layers, hidden = hidden.prefix,
    activation = activation.prefix, init = init.prefix, dtype = o.dtype })
  self.initial = conditioned_features.network(self.told.first_size, hidden.initial, activation.initial, 2 * o.latent,
    { dtype = o.dtype, init = init.initial })
  self.disturbance = disturbance_of(o, self.told.size, hidden.disturbance, activation.disturbance, init.disturbance)
  return self
end

return vssm
