--- Bayesian neural stochastic differential equations, black or hybrid (Haussmann 2021, chapter 6): a network with a
--- posterior over its weights drifts, a prior drift says what is known, the diffusion is given:
---
---     theta ~ q,   h_0,   dh = (f_theta(h, t) + gamma r(h, t)) dt + G(h, t) dW,   y_k ~ N(a(h_(t_k)), noise^2)
---
---     local m = pn.models.bnsde { size = 3, hidden = { 100, 100 }, diffusion = 1, noise = 1, gamma = { 0, 1, 0 },
---       prior_drift = function(t, h) ... return dh end }                    -- t [B, 1], h and dh [S, B, 3]
---     m:fit { data = { y = y, times = t }, epochs = 100, batch_size = 2, objective = "e_pac_bayes_hybrid" }
---     print(m:bound({ y = y, times = t }))
---     local paths = m:forecast({ y = seen, times = t_seen }, 200, { draws = 21 })
---     m:filter(batch)      m:save "m.safetensors"      pn.restore("m.safetensors", { prior_drift = f })
---
--- A batch is {y = [T, B, p], times = [T] or [T, B], lengths = list or int64 [B]}: times increase, at any distance; NaN
--- where nothing was observed; what stands after a trajectory's length touches nothing. Paths are those of
--- Euler-Maruyama, one step from each time to the next or, with `step`, steps of at most that length.
---
--- size          p, numbers in an observation
--- latent        P, numbers in h (size). Without a decoder an observation shows the first `size` of them
--- prior_drift   r, a function (t, h) of tensors, t [B, 1] and h [S, B, P], to dh/dt of h's shape; captured in fit
--- gamma         a number or a list of P in [0, 1]: how much of r is taken in each number of h (1)
--- diffusion     diagonal of G: a number, a list of P, or a function (t, h) to h's shape; it is not learned, or the
---               bounds below would say nothing
--- noise         standard deviation of an observation given h, a number or a list of p; it is not learned either
--- initial       "first": a path begins at the first observation, which counts no more, numbers of h that it does not
---               show at N(0, 1); or {mean =, scale =}: at that normal law
--- encoder       hidden layers, a list, or a network, from `prefix` (3) observations to h at the time of the last of
---               them: paths begin there, and what follows counts
--- decoder       hidden layers, a list, or a network, from h to the mean of an observation
--- hidden, activation     of the drift: {50}, "softplus"; or `network`, a sequential of linear layers and elementwise
---               activations of your own from h (and t) to P numbers
--- time          true: t is an input of the drift, too
--- weights       "trajectory" (own weights for each trajectory of each draw, kept along the path), "draw" (the same for
---               all trajectories of a draw: one product) or "step" (drawn anew at each step, as local
---               reparametrisation does: acts like more diffusion, and is not the law of the bounds)
--- prior         of the weights, as of pn.nn.bayesian (1: N(0, 1)); posterior_scale: where theirs begins (0.01)
--- step          the longest Euler step
--- dtype         "float64" or "float32"
-- help: pn.models, methods m
local core = require "penumbra.core"
local data = require "penumbra.data"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local form = require "penumbra.form"
local hybrid_path = require "penumbra.models.bnsde.hybrid_path"
local metrics = require "penumbra.metrics"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local path_bound = require "penumbra.models.bnsde.path_bound"
local path_forecast = require "penumbra.models.bnsde.path_forecast"
local path_objective = require "penumbra.models.bnsde.path_objective"
local path_training = require "penumbra.models.bnsde.path_training"
local recording = require "penumbra.autodiff.recording"
local saved = require "penumbra.saved"
local trajectories = require "penumbra.models.bnsde.trajectories"

local bnsde = {}
local methods = {}

-- ---- objectives ----

--- fit{data =, epochs =, ...}: trains on the trajectories of a batch (pn.train.fit) and returns its table.
---
--- objective    "e_bayes": the logarithm of the mean likelihood of the draws; "e_pac_bayes": minus the mean
---              log-likelihood + sqrt((KL + log(4 sqrt N / delta)) / (2 N)), minimised, KL that of the weights and of
---              the paths; with a prior_drift "e_bayes_hybrid", "e_pac_bayes_hybrid" (the default is the latter);
---              "vi": the evidence lower bound; "sgld": samples of the weights by Langevin dynamics
--- draws, delta, path_kl     1, 0.05; "sum": the divergences of the N paths are summed, as in theorem 1; "mean"
--- batch_size   trajectories of a minibatch (all)
--- window       so many steps of each trajectory of a minibatch, from a start at random (all)
--- lr, schedule, optimiser   1e-3 of Adam; of SGLD 1e-5, decaying as (b + step)^-0.55
--- warmup, count     of SGLD: epochs before weights are kept, one a further epoch (half), and how many at most, the
---              last ones (50)
--- seed, checkpoint, checkpoint_every, resume, on_epoch, progress, compile (true): as of pn.train.fit
function methods:fit(given)
  return path_training.fit(self, given)
end

--- loss(batch [, {objective =, draws = 1, delta = 0.05, path_kl = "sum", num_data =, generator =}]): the objective of
--- fit, 0-d, to be minimised; num_data: of how many trajectories the batch is a part (none more).
function methods:loss(batch, given)
  local o = options.check("loss", given, options.merged(path_objective.options, { num_data = options.optional "number",
    generator = options.optional "generator" }))
  local row, b = path_objective.row("loss", self, o), trajectories.read("loss", self, batch)
  o.num_data = options.whole("loss", "num_data", o.num_data or b.size, b.size)
  return path_objective.loss(self, b, row, o)
end

--- paths(batch [, {draws = 1, noise =, generator =}]): drawn paths of the trajectories of a batch: {states = [S, C, B,
--- P] at the C times whose observations count, log_likelihood = [S, B], path_kl = [S, B]}, with gradients. noise [K,
--- S, B, P]: the standard normals of the K Euler steps.
function methods:paths(batch, given)
  local o = options.check("paths", given, { draws = 1, noise = options.optional "tensor",
    generator = options.optional "generator" })
  local b = trajectories.read("paths", self, batch)
  if o.noise then
    local want = { hybrid_path.grid(b).steps, o.draws, b.size, self.latent }
    if table.concat(want, ",") ~= table.concat(o.noise:shape(), ",") or o.noise:dtype() ~= self.dtype then
      core.error(("paths: noise must be %s [%s], got %s [%s]"):format(self.dtype, table.concat(want, ", "),
        o.noise:dtype(), table.concat(o.noise:shape(), ", ")))
    end
  end
  local p = path_objective.draw(self, b, { draws = o.draws, noise = o.noise, generator = o.generator })
  p.states = p.states:transpose(1, 2)
  return p
end

--- bound(batch [, {draws = 10, delta = 0.05, path_kl = "sum", generator =}]): theorem 1 for the N trajectories of a
--- batch, N >= 8: what the risk 1 - p(y | path) / B of a new one is at most, B the largest the density can be, with
--- probability 1 - delta; a table that prints: path_risk, path_drawn, path_log_mean (6.14), path_mean_log (6.15) as
--- pn.pac.describe tells them, `risk` on these data, kl, weight_kl, path_kl (of all trajectories, by draws) and its
--- standard error path_kl_se, log_peak (mean log B), vacuous, and `holds`: true, or the reason why the theorem is not
--- of this model.
function methods:bound(batch, given)
  local o = options.check("bound", given, { draws = 10, delta = 0.05, path_kl = options.choice("sum", "mean"),
    generator = options.optional "generator" })
  local b = trajectories.read("bound", self, batch)
  return recording.off(path_bound.of, "bound", self, b, o)
end

--- choose_gamma(batch [, {grid = {0, 0.5, 1}, draws = 10, delta = 0.05, generator =}]): the bound (6.15) for every
--- gamma out of grid^P, each at delta over their number, so that all hold together; gamma becomes the one with the
--- least, and the bounds are returned, a list of {gamma =, bound =}, the least first.
function methods:choose_gamma(batch, given)
  local o = options.check("choose_gamma", given, { grid = options.any { 0, 0.5, 1 }, draws = 10, delta = 0.05,
    generator = options.optional "generator" })
  local b = trajectories.read("choose_gamma", self, batch)
  return recording.off(path_bound.choose_gamma, self, b, o)
end

-- ---- the parts of the equation ----

--- sample_weights([{draws = 1, count = 1, generator =}]): weights of the drift for h [draws, count, P], which m:drift
--- takes; of a model with weights = "step" those of one step.
function methods:sample_weights(given)
  local o = options.check("sample_weights", given, { draws = 1, count = 1, generator = options.optional "generator" })
  return drift_weights.draw(self.network, { weights = self.weights, draws = o.draws, count = o.count, steps = 1,
    generator = o.generator, rows = path_objective.samples(self) })
end

--- drift(t, h [, weights]): f(h, t) + gamma r(h, t) of h [S, B, P] at t [B, 1]; without weights at their means.
function methods:drift(t, h, weights)
  local f = hybrid_path.network(self, weights or drift_weights.mean(self.network), 1, t, h)
  local r = hybrid_path.prior(self, t, h)
  return r and f + r or f
end

--- mean_drift(): the drift f + gamma r at the means of the weights, as they are now: a function (t, h) that further
--- training does not change, to be another model's prior_drift.
function methods:mean_drift()
  local weights = drift_weights.frozen(drift_weights.mean(self.network))
  local gamma = self.gamma and self.gamma:detach() + 0
  return function(t, h)
    local f = hybrid_path.network(self, weights, 1, t, h)
    return gamma and f + gamma * self.prior_drift(t, h) or f
  end
end

--- diffusion(t, h): the diagonal of G(h, t), of h's shape.
function methods:diffusion(t, h)
  return hybrid_path.scale(self, t, h):broadcast_to(h:shape())
end

-- ---- what follows observations ----

--- filter(batch [, {num_particles = 1000, resampling =, threshold = 0.5, generator =}]): a particle filter:
--- {log_evidence = [B], the logarithm of an unbiased estimate of the likelihood, weights and paths integrated out;
--- states = [M, B, P] and log_weights = [M, B] after each trajectory's last observation}; m:forecast goes on from it,
--- with the weights that its particles have.
function methods:filter(batch, given)
  local o = options.check("filter", given, { num_particles = 1000, resampling = options.optional "string",
    threshold = 0.5, generator = options.optional "generator" })
  local b = trajectories.read("filter", self, batch)
  return recording.off(path_forecast.filtered, self, b, o)
end

--- forecast(batch, steps [, {draws = 100, step =, times =, mode = "observation", generator =}]): draws of what follows
--- each trajectory, [draws, steps, B, p]; the batch may also be what m:filter gave. Paths go on from the last
--- observation (with an encoder, the last `prefix` ones), with a law as `initial` from what the filter gives.
---
--- step, times    the distance of the times to come (that of the last two of each trajectory), or the times, [steps]
--- mode           "observation": with the noise of observations; "mean": without; "state": h, [draws, steps, B, P]
function methods:forecast(batch, steps, given)
  return recording.off(path_forecast.paths, "forecast", self, batch, steps, given)
end

--- quantiles(batch, steps, levels [, {...}]): quantiles of m:forecast(batch, steps, {...}), [Q, steps, B, p]: bands.
function methods:quantiles(batch, steps, levels, given)
  return metrics.quantiles(recording.off(path_forecast.paths, "quantiles", self, batch, steps, given), levels)
end

-- ---- files ----

-- What constructors were given, by model.
local given_to = setmetatable({}, { __mode = "k" })

local KIND <const> = "Bayesian neural SDE"

--- save(path): writes options and parameters; pn.restore(path, {prior_drift =, ...}) makes the model again, given the
--- options that were functions or networks. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local kept, asked = saved.parted(given_to[self])
  kept.dtype = self.dtype
  return data.save(path, { kind = KIND, options = kept, asked = asked, parameters = self:state() })
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a Bayesian neural SDE", methods), network = true, __name = "bnsde" }

function class:__tostring()
  return ("bnsde(%s, %d observed, %d latent, weights per %s, %d parameters)"):format(
    self.prior_drift and "hybrid" or "black box", self.size, self.latent, self.weights, self:num_parameters())
end

-- ---- making ----

local known = { size = options.required "number", latent = options.optional "number",
  prior_drift = options.optional "function", gamma = options.any(nil), diffusion = options.required(),
  noise = options.required(), initial = options.any(nil), encoder = options.any(nil), decoder = options.any(nil),
  prefix = options.optional "number", hidden = options.any { 50 },
  activation = options.one_of("softplus", nn.activations), network = options.optional(), time = false,
  weights = options.choice("trajectory", "draw", "step"), prior = options.any(1), posterior_scale = 0.01,
  step = options.optional "number", dtype = options.optional "string" }

-- A number or a list of n as a tensor [n], whose numbers must lie in low to high (`open`: above low).
local function vector(name, v, n, o, low, high, open)
  if type(v) == "number" then
    local list = {}
    for k = 1, n do list[k] = v end
    v = list
  end
  v = type(v) == "table" and not getmetatable(v) and core.tensor(v) or v
  local ok = core.is_tensor(v) and v:ndim() == 1 and v:size(1) == n and not v:is_param()
  v = ok and v:detach():to(o.dtype)
  ok = ok and v:isfinite():all():item() and (open and v:gt(low) or v:ge(low)):all():item()
    and v:le(high):all():item()
  if not ok then
    core.error(("bnsde: %s must be a number or a list of %d%s"):format(name, n, open and ", positive" or
      high < math.huge and (", from %g to %g"):format(low, high) or ""))
  end
  return v
end

-- A network of those sizes, or the script's own.
local function network_of(name, given, inputs, outputs, o)
  if nn.is_network(given) then
    return given
  end
  local is_list = type(given) == "table" and not getmetatable(given)
  local list, last = {}, inputs
  for k, size in ipairs(is_list and given or {}) do
    size = options.whole("bnsde", ("%s[%d]"):format(name, k), size, 1)
    list[#list + 1], list[#list + 2] = nn.linear(last, size, { dtype = o.dtype }), nn[o.activation]()
    last = size
  end
  if not is_list then
    core.error(("bnsde: %s must be a list of hidden layers or a network, got %s"):format(name, type(given)))
  end
  list[#list + 1] = nn.linear(last, outputs, { dtype = o.dtype })
  return nn.sequential(list)
end

-- Where paths begin.
local function set_initial(self, o)
  if o.encoder ~= nil then
    if o.initial ~= nil then
      core.error "bnsde: initial and encoder exclude each other"
    end
    self.initial, self.prefix = "encoder", options.whole("bnsde", "prefix", o.prefix or 3, 1)
    self.encoder = network_of("encoder", o.encoder, self.prefix * self.size, self.latent, o)
    return
  elseif o.prefix ~= nil then
    core.error "bnsde: prefix is only used with encoder"
  elseif type(o.initial) == "table" then
    local law = options.check("bnsde: initial", o.initial, { mean = options.any(0), scale = options.any(1) })
    self.initial = "law"
    self.initial_mean = vector("initial.mean", law.mean, self.latent, o, -math.huge, math.huge)
    self.initial_scale = vector("initial.scale", law.scale, self.latent, o, 0, math.huge)
    return
  elseif o.initial ~= nil and o.initial ~= "first" then
    core.error "bnsde: initial must be 'first' or a table {mean =, scale =}"
  elseif self.decoder then
    core.error "bnsde: with a decoder paths cannot begin at observations: give an encoder, or a law as initial"
  end
  self.initial = "first"
end

-- The drift's network with its posterior.
local function set_network(self, o)
  local inputs = self.latent + (o.time and 1 or 0)
  local net = o.network or network_of("hidden", o.hidden, inputs, self.latent, o)
  self.network = nn.bayesian(net, { prior = o.prior, posterior_scale = o.posterior_scale })
  local h = core.zeros({ 1, 1, inputs }, { dtype = self.dtype })
  local ok, out = pcall(drift_weights.apply, drift_weights.mean(self.network), 1, h)
  if not ok or out:size(-1) ~= self.latent then
    core.error(("bnsde: network must take %d inputs (h%s) and give %d outputs%s"):format(inputs,
      o.time and " and t" or "", self.latent, ok and "" or ": " .. form.reason(out)))
  end
end

local function check_numbers(o)
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("bnsde: dtype must be 'float64' or 'float32', got '%s'"):format(o.dtype))
  elseif o.step and not (o.step > 0 and o.step < math.huge) then
    core.error(("bnsde: step must be positive, got %g"):format(o.step))
  elseif o.gamma ~= nil and not o.prior_drift then
    core.error "bnsde: gamma is only used with prior_drift"
  end
end

--- bnsde{size =, diffusion =, noise =, ...}: a model with parameters drawn anew; options above (pn.help
--- "penumbra.models.bnsde").
function bnsde.bnsde(given)
  local o = options.check("bnsde", given, known)
  o.dtype = o.dtype or core.default_dtype()
  check_numbers(o)
  local size = options.whole("bnsde", "size", o.size, 1)
  local latent = options.whole("bnsde", "latent", o.latent or size, 1)
  local self = setmetatable({ size = size, latent = latent, dtype = o.dtype, time = o.time, weights = o.weights,
    prior_drift = o.prior_drift, step = o.step }, class)
  if latent < size and o.decoder == nil then
    core.error(("bnsde: latent must be at least size, %d, without a decoder, got %d"):format(size, latent))
  end
  self.noise = vector("noise", o.noise, size, o, 0, math.huge, true)
  if type(o.diffusion) == "function" then
    self.diffusion_function = o.diffusion
  else
    self.scale = vector("diffusion", o.diffusion, latent, o, 0, math.huge, true)
  end
  if o.prior_drift then
    self.gamma = core.buffer(vector("gamma", o.gamma == nil and 1 or o.gamma, latent, o, 0, 1))
  end
  self.decoder = o.decoder ~= nil and network_of("decoder", o.decoder, latent, size, o) or nil
  set_initial(self, o)
  set_network(self, o)
  given_to[self] = given
  return self
end

-- ---- pn.restore ----

-- Parameters and buffers: the model's load_state knows the rest.
local function parameters_form(v, name, wrong)
  form.map(form.tensor { finite = true })(v, name, wrong)
  if #wrong == 0 then
    form.optional(form.tensor { least = 0, most = 1 })(v.gamma, "'parameters.gamma'", wrong)
    form.optional(form.tensor { least = 0, most = 1 << 53 })(v.kept_count, "'parameters.kept_count'", wrong)
  end
end

local file = saved.file {
  noun = "neural SDE that m:save has written",
  is = function(found) return found.kind == KIND end,
  form = function()
    return form.record { kind = form.any, options = form.map(form.any), asked = saved.asked_form,
      parameters = parameters_form }
  end,
}

saved.restored_by(file, function(path, given)
  local found, message, code = saved.read("restore", path, file)
  if not found then
    return nil, message, code
  end
  local o = saved.joined("restore", found.options, found.asked, given)
  return saved.make("restore", path, function()
    local m = bnsde.bnsde(o)
    path_training.make_room(m, found.parameters)
    return m:load_state(found.parameters)
  end)
end)

return bnsde
