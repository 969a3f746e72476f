--- Variational autoencoders: p(x | z) p(z) by networks, with a posterior q(z | x) by networks, trained together by a
--- bound on log p(x). One model with four choices: the likelihood, the levels of latents, the posterior, the objective.
---
---     local m = pn.models.vae{data = 784, latent = 50, hidden = {200, 200}, dtype = "float32"}
---     m:fit{data = images, binarise = true, epochs = 50, objective = "iwae", draws = 50}
---     m:bound(test, {draws = 5000})    m:generate(64)    m:reconstruct(x)    m:impute(x, observed)    m:encode(x)
---     m:save "m.safetensors"    pn.restore "m.safetensors"
---
--- Options:
---
--- data           numbers in a datum
--- latent         size of z; a list {100, 50} from the data up makes a hierarchy, `layers = 2` one of equal sizes
--- hidden         {200, 200}: hidden layers of the encoder, the decoder's mirror them; a list of lists for each level
--- decoder        "bernoulli", "normal", "categorical" (`categories`; x are labels, int64), "mixture" (`components`) or
---                another likelihood of pn.nn.likelihood, also made or in Lua; pn.help "penumbra.models.decoder"
--- noise          of "normal": "shared", a parameter for each dimension, or "network"
--- posterior      "gaussian" or "flow" (one level): `flows` (4) bijectors `flow` ("inverse_autoregressive", "planar",
---                "real_nvp") with `flow_hidden` (64) units
--- structure      of several levels: "backward" (z_1 from x, z_2 from z_1...) or "ladder" (penumbra.models.hierarchy)
--- condition      size of what stands beside each datum, [B, condition]: everything then takes it after x; `prior` =
---                "conditional" makes the prior of the topmost latents depend on it, too
--- mean           [data]: where the decoder of 0 and 1 or of normals begins. Unless given, the first fit of a new model
---                takes the mean of its data; false: its bias is drawn as any other. Without a mean a model of several
---                levels may stay where its latents mean nothing
--- activation, dtype   "tanh", "relu"...; "float64" or "float32"
--- encoder, decoder_network   networks of one's own, as of convolutions (penumbra.models.image_network): rows [N, data
---                + condition] to [N, 2 latent], means and log variances of the first level (of no ladder); and
---                rows [N, latent + condition] to [N, data * numbers of the decoder's law]
---
--- The model answers parameters(), state(), load_state(t) as networks do. Kingma & Welling 2014; Rezende, Mohamed &
--- Wierstra 2014; Burda, Grosse & Salakhutdinov 2016; Soenderby et al. 2016; Sohn, Lee & Yan 2015; Kingma et al. 2016.
-- help: pn.models, public
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local data = require "penumbra.data"
local decoder = require "penumbra.models.decoder"
local estimate = require "penumbra.estimate"
local form = require "penumbra.form"
local hierarchy = require "penumbra.models.hierarchy"
local infer = require "penumbra.infer"
local network_posterior = require "penumbra.models.network_posterior"
local nn = require "penumbra.nn"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local replay = require "penumbra.autodiff.replay"
local row_network = require "penumbra.models.row_network"
local saved = require "penumbra.saved"
local train = require "penumbra.train"

local vae, beside = {}, hierarchy.beside

-- ---- arguments ----

-- Checks a batch of data [B, data] of the function `where`; gives it back.
local function checked(self, where, x)
  options.argument(where, "x", x, "tensor")
  local want = self.kind == "categorical" and "int64" or self.dtype
  if x:ndim() ~= 2 or x:size(2) ~= self.data or x:size(1) == 0 then
    core.error(("%s: x must have shape [B, %d], got [%s]"):format(where, self.data, table.concat(x:shape(), ", ")))
  elseif x:dtype() ~= want then
    core.error(("%s: x must be %s, got %s"):format(where, want, x:dtype()))
  end
  return x
end

-- Checks the condition of n data: nil for a model without.
local function checked_condition(self, where, c, n)
  if self.condition == 0 then
    if c ~= nil then
      core.error(where .. ": this model has no condition (vae{condition = size})")
    end
    return nil
  end
  options.argument(where, "condition", c, "tensor")
  if c:ndim() ~= 2 or c:size(1) ~= n or c:size(2) ~= self.condition or c:dtype() ~= self.dtype then
    core.error(("%s: condition must be %s of shape [%d, %d], got %s [%s]"):format(where, self.dtype, n, self.condition,
      c:dtype(), table.concat(c:shape(), ", ")))
  end
  return c
end

-- What bound, fit, encode... take as (x, options): options.condition checked with x.
local function read(self, where, x, given, known)
  known.condition = options.optional "tensor"
  local o = options.check(where, given, known)
  checked(self, where, x)
  checked_condition(self, where, o.condition, x:size(1))
  return o
end

-- ---- densities ----

local methods = {}

-- Draws and the log-likelihood of x: run, [B] or [k, B].
local function run_of(self, x, c, how)
  local run = self.latents:run(self.likelihood:given(x), c, how)
  run.log_likelihood = self.likelihood(beside(run.z[1], c)):log_prob(x)
  return run
end

-- log p(x, z) - log q(z | x) of k draws, [k, B].
local function log_weights(self, x, c, k)
  local run = run_of(self, x, c, { draws = k })
  return run.log_likelihood + self.latents:log_prior(run) - self.latents:log_posterior(run), run
end

local function elbo(self, x, c, draws, beta)
  local run = run_of(self, x, c, { draws = draws > 1 and draws or nil })
  return infer.elbo { log_likelihood = run.log_likelihood, kl = self.latents:relative_entropy(run), beta = beta }
end

local function iwae(self, x, c, draws)
  return infer.iwae((log_weights(self, x, c, draws)))
end

local function dreg(self, x, c, draws)
  local run = run_of(self, x, c, { draws = draws })
  return infer.dreg(run.log_likelihood + self.latents:log_prior(run), self.latents:log_posterior(run), run.z)
end

local objectives = { elbo = elbo, iwae = iwae, dreg = dreg }

local function check_objective(self, where, o)
  if o.objective == "dreg" and self.posterior == "flow" then
    core.error(where .. ": dreg needs log q at given draws, which a flow has only backwards; take objective = 'iwae'")
  end
end

--- loss(x [, {objective = "elbo", draws = 1, condition =}]): the negative bound in nats per datum, to be minimised.
--- "elbo" uses closed forms of divergences where there are, "iwae" and "dreg" are importance weighted bounds of `draws`
--- draws. x [B, data].
function methods:loss(x, given)
  local o = read(self, "loss", x, given, { objective = options.choice("elbo", "iwae", "dreg"), draws = 1 })
  check_objective(self, "loss", o)
  return -objectives[o.objective](self, x, o.condition, o.draws)
end

-- Compiled functions by model: of the model's value they are no part.
local compiled = setmetatable({}, { __mode = "k" })

local function compiled_of(self, name, make)
  compiled[self] = compiled[self] or {}
  compiled[self][name] = compiled[self][name] or make()
  return compiled[self][name]
end

local BLOCK = 2000 -- draws of all data together in one call: they stay in the processor's caches

--- bound(x [, {draws = 1000, condition =, batch_size = 20}]): the importance weighted bound of x [B, data] with
--- thousands of draws for each datum, in constant memory, in nats per datum: a table with `value`, `se`, its
--- standard error (over draws), `each` [B] the bound of each datum, `elbo` the mean log-weight,
--- `effective_sample_size` the mean one. `batch_size` data go through the networks at a time.
function methods:bound(x, given)
  local o = read(self, "bound", x, given, { draws = 1000, batch_size = 20 })
  local draws, rows = o.draws, o.batch_size
  local n, parts = x:size(1), { each = {}, elbo = 0, variance = 0, ess = 0 }
  for first = 1, n, rows do
    local last = math.min(n, first + rows - 1)
    local batch, c = x:slice(1, first, last), o.condition and o.condition:slice(1, first, last)
    local most = math.max(1, BLOCK // (last - first + 1))
    local stream, left = infer.stream { draws = draws }, draws
    while left > 0 do
      local k = math.min(left, most)
      local weigh = compiled_of(self, "weights" .. k, function()
        return replay.compile(function(a, b)
          return (log_weights(self, a, b, k))
        end)
      end)
      local log_w = recording.off(weigh, table.unpack { batch, c })
      stream:add(log_w)
      left = left - k
    end
    parts.each[#parts.each + 1] = stream:log_mean()
    parts.elbo = parts.elbo + stream:elbo():sum():item()
    parts.variance = parts.variance + stream:standard_error():square():sum():item()
    parts.ess = parts.ess + stream:effective_sample_size():sum():item()
  end
  local each = core.concatenate(parts.each, 1)
  return estimate.new(each:to "float64":mean():item(), math.sqrt(parts.variance) / n, { each = each,
    elbo = parts.elbo / n, effective_sample_size = parts.ess / n })
end

-- ---- training ----

local fit_options = {
  data = options.required "tensor", condition = options.optional "tensor", epochs = options.required "number",
  batch_size = 100, objective = options.choice("elbo", "iwae", "dreg"), draws = options.optional "number", lr = 1e-3,
  schedule = options.optional "function", optimiser = options.optional(), binarise = false, warmup = 0,
  compile = true, generator = options.optional "generator", on_epoch = options.optional "function",
  validate = options.optional "function", validate_every = options.optional "number",
  patience = options.optional "number", progress = options.any(false), seed = options.optional "number",
  checkpoint = options.optional "string", checkpoint_every = options.optional "number", resume = false,
}

-- What constructors were given, by model.
local given_to = setmetatable({}, { __mode = "k" })

-- The decoders' last biases as drawn, of models that have been given no mean.
local drawn = setmetatable({}, { __mode = "k" })

-- The first fit begins at the mean of its data; not where the bias has been trained or loaded.
local function begin_at_data(self, x)
  local before = drawn[self]
  drawn[self] = nil
  if before and before:eq(self.likelihood:bias()):all():item() then
    self.likelihood:begin_at(x:mean { 1 })
  end
end

-- The loss of a minibatch, drawn black and white if so asked.
local function step_loss(self, o, beta)
  local objective, draws = objectives[o.objective], o.draws
  return function(x, c)
    if o.binarise then
      x = core.rand(x:shape(), { dtype = self.dtype }):lt(x):to(self.dtype)
    end
    return -objective(self, x, c, draws, beta and beta:detach())
  end
end

--- fit{data =, epochs =, ...}: trains by minibatches (pn.train.fit), returns its table with `history`, the mean loss of
--- each epoch. A new model begins with the decoder's mean at the data's, unless `mean` said where.
---
--- data         [N, data]
--- condition    [N, condition] for a conditional model
--- objective    "elbo", "iwae" or "dreg"; `draws` for each datum (1 for the elbo, 50)
--- batch_size   rows of a minibatch, 100
--- binarise     true: data are intensities in [0, 1], and each time a datum is used its pixels are drawn anew as 0 or 1
--- lr           of Adam, 1e-3; `schedule`: a function of the step instead; `optimiser`: another one, to be gone on with
--- warmup       epochs in which the weight of the divergence rises from 0 to 1 (elbo only)
--- compile      true: steps are captured once and replayed
--- validate, validate_every, patience, on_epoch, progress, generator, seed, checkpoint, checkpoint_every, resume: as of
---              pn.train.fit; the parameters of the best score are put back
function methods:fit(given)
  local o = options.check("fit", given, fit_options)
  checked(self, "fit", o.data)
  checked_condition(self, "fit", o.condition, o.data:size(1))
  o.draws = o.draws or o.objective == "elbo" and 1 or 50
  check_objective(self, "fit", o)
  if o.warmup > 0 and o.objective ~= "elbo" then
    core.error "fit: warmup is of objective 'elbo' only"
  elseif o.binarise and (self.kind ~= "bernoulli" or o.data:min():item() < 0 or o.data:max():item() > 1) then
    core.error "fit: binarise needs a bernoulli decoder and data between 0 and 1"
  end
  if self.likelihood:tells_mean() then
    begin_at_data(self, o.data)
  end
  local opt = o.optimiser or optim.adam(self:parameters(), { lr = o.lr })
  local beta = o.warmup > 0 and core.param(core.zeros({}, { dtype = self.dtype })) or nil
  local ramp = o.warmup * math.ceil(o.data:size(1) / o.batch_size)
  local rate = o.schedule or function() return o.optimiser and opt.lr or o.lr end
  return train.fit { data = { o.data, o.condition }, epochs = o.epochs, batch_size = o.batch_size, optimiser = opt,
    loss = step_loss(self, o, beta), compile = o.compile, generator = o.generator, seed = o.seed,
    on_epoch = o.on_epoch, validate = o.validate, validate_every = o.validate_every, patience = o.patience,
    checkpoint = o.checkpoint, checkpoint_every = o.checkpoint_every, resume = o.resume or nil,
    model = (o.validate or o.checkpoint) and self or nil, progress = o.progress,
    schedule = (o.schedule or beta or not o.optimiser) and function(step)
      if beta then
        beta:set(core.tensor(math.min(1, (step - 1) / ramp), { dtype = self.dtype }))
      end
      return rate(step)
    end or nil }
end

-- ---- latents and data ----

-- One level as its tensor, several as a list.
local function unlisted(z)
  return #z == 1 and z[1] or z
end

--- encode(x [, {draws = k, condition =}]): latents of x [B, data]: the means of q, or k draws [k, B, latent]. Of
--- several levels a list, z_1 first; means are then those given the means of the levels that were run before.
function methods:encode(x, given)
  local o = read(self, "encode", x, given, { draws = options.optional "number" })
  return recording.off(function()
    return unlisted(self.latents:run(self.likelihood:given(x), o.condition, { draws = o.draws, mean = not o.draws }).z)
  end)
end

--- posterior_law(x [, {condition =}]): q(z | x) as a distribution, with a graph; of one level without a flow.
function methods:posterior_law(x, given)
  local o = read(self, "posterior_law", x, given, {})
  if self.posterior == "flow" or self.latents.levels > 1 then
    core.error "posterior_law: only one level without a flow has a posterior in closed form; take m:encode"
  end
  return self.latents:run(self.likelihood:given(x), o.condition, { mean = true }).q[1]
end

-- What pn.gap.measure hands on: x, or {x, condition}.
local function datum_parts(self, where, given)
  local x, c = given, nil
  if type(given) == "table" then
    x, c = given[1], given[2]
  end
  if self.latent[2] then
    core.error(where .. ": only of models with one level of latents")
  end
  return checked(self, where, x), checked_condition(self, where, c, x:size(1))
end

--- log_joint(z, x): log p(x, z) of draws z [S, B, latent] for x [B, data] (or {x, condition}), [S, B]; differentiable.
--- Of models of one level.
function methods:log_joint(z, given)
  local x, c = datum_parts(self, "log_joint", given)
  local run = run_of(self, x, c, { given = { z } })
  return run.log_likelihood + self.latents:log_prior(run)
end

--- amortised_posterior(): q(z | x) of a model of one level, as pn.gap.measure takes it. It sees all of x.
function methods:amortised_posterior()
  return network_posterior.new { network = self.latents, sees_all = true, draw = function(_, given, draws, generator)
    local x, c = datum_parts(self, "draw", given)
    if self.posterior == "flow" then
      local run = self.latents:run(self.likelihood:given(x), c, { draws = draws })
      return run.z[1], self.latents:log_posterior(run)
    end
    local law = self.latents:run(self.likelihood:given(x), c, { mean = true }).q[1]
    local z = generator and law:rsample({ draws }, generator) or law:rsample { draws }
    return z, law:log_prob(z)
  end }
end

--- decode(z [, {condition =}]): the law of x given z_1 [B, latent]; a distribution.
function methods:decode(z, given)
  local o = options.check("decode", given, { condition = options.optional "tensor" })
  options.argument("decode", "z", z, "tensor")
  if z:ndim() ~= 2 or z:size(2) ~= self.latent[1] or z:dtype() ~= self.dtype then
    core.error(("decode: z must be %s of shape [B, %d], got %s [%s]"):format(self.dtype, self.latent[1], z:dtype(),
      table.concat(z:shape(), ", ")))
  end
  checked_condition(self, "decode", o.condition, z:size(1))
  return self.likelihood(beside(z, o.condition))
end

--- generate(n [, {condition =, sample = false}]): n data from the model [n, data]: the means of p(x | z) (of labels the
--- likeliest) at latents from the prior, with sample = true draws of x. Second the latents, a list.
function methods:generate(n, given)
  options.whole("generate", "n", n, 1)
  local o = options.check("generate", given, { condition = options.optional "tensor", sample = false })
  local c = checked_condition(self, "generate", o.condition, n)
  return recording.off(function()
    local z = self.latents:generate(n, c)
    local law = self.likelihood(beside(z[1], c))
    return o.sample and law:sample() or self.likelihood:expected(law), z
  end)
end

--- reconstruct(x [, {condition =}]): the mean of p(x | z) at the posterior mean of z, [B, data].
function methods:reconstruct(x, given)
  local o = read(self, "reconstruct", x, given, {})
  return recording.off(function()
    local z = self.latents:run(self.likelihood:given(x), o.condition, { mean = true }).z
    return self.likelihood:expected(self.likelihood(beside(z[1], o.condition)))
  end)
end

-- One step of the chain of impute from the state s: latents from q given the filled data, taken or not, then the
-- missing from p(x | z). Each of [B].
local function impute_step(self, s, mask, c, always)
  local latents, filled = self.latents, s.x
  local run = run_of(self, filled, c, {})
  local forward = latents:log_posterior(run)
  local proposal = run.log_likelihood + latents:log_prior(run) - forward
  local now = run_of(self, filled, c, { given = s.z })
  local current = now.log_likelihood + latents:log_prior(now) - latents:log_posterior(now)
  local taken = core.rand(current:shape(), { dtype = self.dtype }):log():lt(proposal - current)
  if always then
    taken = taken:eq(taken)
  end
  local z = {}
  for level = 1, latents.levels do
    z[level] = core.where(taken:unsqueeze(-1), run.z[level], s.z[level])
  end
  local law = self.likelihood(beside(z[1], c))
  local x = core.where(mask, s.x, law:sample())
  return { z = z, x = x, law = law, taken = taken }
end

--- impute(x, observed [, {draws = 100, warmup = 50, condition =, history = false}]): fills in what is missing: [B,
--- data] with the entries of x where the bool tensor observed [B, data] is true, and elsewhere their means given those,
--- over `draws` steps of a Markov chain (of labels the most frequent); history = true gives its values, [draws, B,
--- data]. Second, the share of proposals taken.
---
--- The chain goes from (z, x_missing) to z proposed by q(z | x) and taken by Metropolis and Hastings' rule, then to
--- x_missing from p(x | z): its law tends to p(z, x_missing | x_observed), whatever q; slowly where few are taken, as
--- with a q that is narrower than the posterior. In the first half of the warmup all are taken, which finds a place to
--- start from. Rezende, Mohamed & Wierstra 2014; Mattei & Frellsen 2018.
function methods:impute(x, observed, given)
  local o = read(self, "impute", x, given, { draws = 100, warmup = 50, history = false })
  options.argument("impute", "observed", observed, "tensor")
  if observed:dtype() ~= "bool" or table.concat(observed:shape(), " ") ~= table.concat(x:shape(), " ") then
    core.error(("impute: observed must be bool of shape [%s], got %s [%s]"):format(table.concat(x:shape(), ", "),
      observed:dtype(), table.concat(observed:shape(), ", ")))
  end
  local c, labels = o.condition, self.kind == "categorical"
  return recording.off(function()
    local start = self.latents:generate(x:size(1), c)
    local s = { z = start, x = core.where(observed, x, self.likelihood(beside(start[1], c)):sample()) }
    local values, sum, taken = {}, nil, 0
    s.z = self.latents:run(self.likelihood:given(s.x), c, {}).z
    for step = 1, o.warmup + o.draws do
      s = impute_step(self, s, observed, c, step <= o.warmup // 2)
      if step > o.warmup then
        taken = taken + s.taken:to(self.dtype):mean():item()
        if o.history then
          values[#values + 1] = s.x
        else -- the mean given z has less variance than the draw
          local mean = labels and self.likelihood:given(s.x) or s.law:mean()
          sum = sum and sum + mean or mean
        end
      end
    end
    if o.history then
      return core.stack(values, 1), taken / o.draws
    end
    local mean = sum / o.draws
    if labels then
      mean = mean:reshape { x:size(1), self.data, self.likelihood.categories }:argmax(-1)
    end
    return core.where(observed, x, mean), taken / o.draws
  end)
end

local KIND <const> = "variational autoencoder" -- of files

--- save(path): writes options and parameters; pn.restore(path, {...}) makes the model again, given the decoder where it
--- is no name. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local kept, asked = saved.parted(given_to[self])
  kept.mean, kept.dtype = nil, self.dtype
  return data.save(path, { kind = KIND, options = kept, asked = asked, parameters = self:state(),
    untrained = drawn[self] ~= nil })
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a variational autoencoder", methods), network = true }

function class:__tostring()
  local sizes = {}
  for k, n in ipairs(self.latent) do
    sizes[k] = tostring(n)
  end
  return ("vae(%d -> %s, %s decoder, %s posterior, %d parameters)"):format(self.data, table.concat(sizes, " -> "),
    self.kind, self.posterior == "flow" and "flow" or #sizes > 1 and self.structure or "gaussian",
    self:num_parameters())
end

-- ---- making ----

local new_options = {
  data = options.required "number", latent = options.required(), hidden = options.any { 200, 200 },
  layers = options.optional "number", decoder = options.any "bernoulli",
  noise = options.choice("shared", "network"), categories = 2, components = 5,
  posterior = options.choice("gaussian", "flow"), structure = options.choice("backward", "ladder"),
  flow = options.choice("inverse_autoregressive", "planar", "real_nvp"), flows = 4, flow_hidden = 64,
  mean = options.optional(), encoder = options.any(nil), decoder_network = options.any(nil),
  condition = 0, prior = options.choice("standard", "conditional"), dtype = options.optional "string",
  activation = options.one_of("tanh", nn.activations),
}

local function sizes_of(role, list, least)
  if type(list) ~= "table" or #list < least then
    core.error(("vae: %s must be a list of sizes, got %s"):format(role, type(list) == "table" and "an empty one"
      or tostring(list)))
  end
  local out = {}
  for k, n in ipairs(list) do
    out[k] = options.whole("vae", ("%s[%d]"):format(role, k), n, 1)
  end
  return out
end

-- Sizes of the latents, from the data up.
local function latents_of(o)
  if type(o.latent) == "table" then
    if o.layers and o.layers ~= #o.latent then
      core.error(("vae: layers must be the length of latent, %d, got %s"):format(#o.latent, tostring(o.layers)))
    end
    return sizes_of("latent", o.latent, 1)
  end
  local n, list = options.whole("vae", "latent", o.latent, 1), {}
  for level = 1, options.whole("vae", "layers", o.layers or 1, 1) do
    list[level] = n
  end
  return list
end

-- A list of sizes for each level.
local function hidden_of(o, levels, least)
  local list = {}
  options.argument("vae", "hidden", o.hidden, "table")
  local each = type(o.hidden[1]) == "table"
  if each and #o.hidden ~= levels then
    core.error(("vae: hidden must have a list for each of %d levels, got %d"):format(levels, #o.hidden))
  end
  for level = 1, levels do
    list[level] = each and sizes_of(("hidden[%d]"):format(level), o.hidden[level], least)
      or sizes_of("hidden", o.hidden, least)
  end
  return list
end

-- The decoder begins at o.mean.
local function begin_at(likelihood, o)
  local mean = options.argument("vae", "mean", o.mean, "tensor")
  if mean:ndim() ~= 1 or mean:size(1) ~= o.data or mean:dtype() ~= o.dtype then
    core.error(("vae: mean must be %s of shape [%d], got %s [%s]"):format(o.dtype, o.data, mean:dtype(),
      table.concat(mean:shape(), ", ")))
  elseif not likelihood:begin_at(mean) then
    core.error(("vae: mean is for a bernoulli or normal decoder, got '%s'"):format(likelihood.kind))
  end
end

--- vae{data =, latent =, ...}: a variational autoencoder, its parameters drawn anew; options in
--- pn.help "penumbra.models.vae".
function vae.vae(given)
  local o = options.check("vae", given, new_options)
  for _, name in ipairs { "data", "categories", "flows", "flow_hidden" } do
    o[name] = options.whole("vae", name, o[name], 1)
  end
  o.condition = options.whole("vae", "condition", o.condition, 0)
  o.dtype = o.dtype or core.default_dtype()
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("vae: dtype must be 'float64' or 'float32', got '%s'"):format(o.dtype))
  end
  local latent = latents_of(o)
  local structure = o.posterior == "flow" and "flow" or #latent > 1 and o.structure or "backward"
  local hidden = hidden_of(o, #latent, structure == "ladder" and 1 or 0)
  if structure == "flow" and #latent > 1 then
    core.error(("vae: posterior 'flow' is for one level of latents, got %d"):format(#latent))
  elseif o.prior == "conditional" and o.condition == 0 then
    core.error "vae: prior 'conditional' needs a condition (its size)"
  elseif o.encoder and structure == "ladder" then
    core.error "vae: encoder is for structure 'backward', whose first level it gives"
  end
  local likelihood = decoder.new("vae", o.decoder, latent[1] + o.condition, o.data, {
    hidden = hierarchy.reversed(hidden[1]), activation = o.activation, dtype = o.dtype, noise = o.noise,
    categories = o.categories, components = o.components, own = o.decoder_network })
  if o.mean then
    begin_at(likelihood, o)
  end
  local latents = hierarchy.new { latent = latent, hidden = hidden, inputs = likelihood.encoder_inputs,
    condition = o.condition, conditional_prior = o.prior == "conditional", structure = structure,
    activation = o.activation, dtype = o.dtype, flow = o.flow, flows = o.flows, flow_hidden = o.flow_hidden,
    first = row_network.new("vae", "encoder", o.encoder, likelihood.encoder_inputs + o.condition, 2 * latent[1],
      o.dtype) }
  local self = setmetatable({ data = o.data, latent = latent, kind = likelihood.kind, posterior = o.posterior,
    structure = structure, condition = o.condition, dtype = o.dtype, likelihood = likelihood,
    latents = latents }, class)
  drawn[self] = o.mean == nil and likelihood:bias() and likelihood:bias() + 0 or nil -- a copy
  given_to[self] = given
  return self
end

-- ---- files ----

local vae_file = saved.file {
  noun = "variational autoencoder that m:save has written",
  is = function(found) return found.kind == KIND end,
  form = function()
    return form.record { kind = form.any, options = form.map(form.any), asked = saved.asked_form,
      parameters = form.map(form.tensor { finite = true }), untrained = form.boolean }
  end,
}

saved.restored_by(vae_file, function(path, given)
  local found, message, code = saved.read("restore", path, vae_file)
  if not found then
    return nil, message, code
  end
  local o = saved.joined("restore", found.options, found.asked, given)
  return saved.make("restore", path, function()
    local self = vae.vae(o):load_state(found.parameters)
    drawn[self] = found.untrained and self.likelihood:bias() and self.likelihood:bias() + 0 or nil
    return self
  end)
end)

core.namespace("penumbra.models.vae", vae)
return vae
