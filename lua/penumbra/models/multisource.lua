--- Autoencoders of several sources (Kurle, Guennemann & van der Smagt 2019): each source has an encoder of its own,
--- whose belief q_m(z | x_m) can be compared with the others', fused with any of them, and left out.
---
---     local m = pn.models.multisource { sources = { top = { size = 392 }, bottom = { size = 392 } }, latent = 16 }
---     m:fit { data = { top = x1, bottom = x2 }, epochs = 50, objective = "hybrid" }
---     m:bound({ top = x1, bottom = x2 }, { objective = "poe" })       m:encode { top = x1 }
---     local q, report = m:fuse({ top = x1, bottom = x2 }, { conflict_threshold = 1.3 })
---     m:predict({ top = x1 }, { targets = { "bottom" } })             m:impute { top = x1 }      m:generate(10)
---     m:save "m.safetensors"                                           pn.restore "m.safetensors"
---
--- What an encoder reads (a source) and what the model explains (a target) are named apart: several sources may explain
--- one target, whose likelihood counts once. What has the same name is the same data. Data are tables from names to
--- tensors [B, size]; a row that is NaN throughout is not there, nor is where `observed` is false: a table from names
--- to true, false or bool [B], or bool [B, M], sources in the order of their names. Of what is not there nothing
--- counts: M is the number of sources of the datum, the prior is divided out M - 1 times, an absent target has no
--- likelihood. Without any source the belief is the prior. Sources are summed and drawn in the order of their names.
---
--- Options of multisource:
---
--- sources        {name = {size =, hidden =, activation =, categories =, encoder =}}: numbers in the source; hidden
---                layers; `categories`: labels, int64 (size 1), read as one of so many; encoder: a network of one's own
---                from [B, size] to means and what scale_link makes scales [B, 2 latent], or to normals (a
---                plain function may stand there, too: it has no parameters to train or save)
--- targets        {name = {size =, likelihood =, noise =, hidden =, activation =, categories =, components =,
---                decoder =}}; without: the sources. decoder: a network of one's own (penumbra.models.decoder)
--- latent         size of z
--- hidden, activation, likelihood, noise      of all that say nothing else: {200, 200} (from the data on), "tanh",
---                "bernoulli" (a likelihood of pn.nn.likelihood, also made or in Lua), "shared"
--- scale_link     "sigmoid": scales of beliefs are below the prior's, so that their product always exists; "exp":
---                e^(y/2), as in pn.models.vae: a product that does not exist is an error
--- prior          a normal of event [latent]; N(0, 1) without
--- dtype          "float64" or "float32"
---
--- The model answers parameters(), state(), load_state(t) as networks do. Objectives: pn.help "m:loss".
-- help: pn.models, methods m
local core = require "penumbra.core"
local data = require "penumbra.data"
local dist = require "penumbra.distribution"
local estimate = require "penumbra.estimate"
local form = require "penumbra.form"
local fusion = require "penumbra.fusion"
local infer = require "penumbra.infer"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local nn = require "penumbra.nn"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local saved = require "penumbra.saved"
local source_data = require "penumbra.models.multisource.source_data"
local source_network = require "penumbra.models.multisource.source_network"
local source_objective = require "penumbra.models.multisource.source_objective"
local source_prediction = require "penumbra.models.multisource.source_prediction"
local train = require "penumbra.train"

local multisource = {}
local methods = {}

-- ---- arguments ----

local selecting = { observed = options.any(nil), sources = options.optional "table",
  targets = options.optional "table" }

-- The options of a call and the prepared batch; sources and targets as lists of names.
local function read(self, where, x, given, known, quick)
  local o = options.check(where, given, options.merged(selecting, known))
  o.sources = source_data.names(where, self, o.sources, "sources")
  o.targets = source_data.names(where, self, o.targets, "targets")
  return source_data.read(where, self, x, o.observed, quick), o
end

local objective_options = { objective = options.any "hybrid", draws = 16, estimator = options.choice("iwae", "dreg") }

-- The checked weights of the objective of a call.
local function objective_of(where, o)
  o.weights = source_objective.weights_of(where, o.objective)
  if o.estimator then
    source_objective.check_estimator(where, o.estimator, o.weights)
  end
  return o
end

-- ---- bounds and training ----

--- loss(x [, {objective = "hybrid", draws = 16, estimator = "iwae", observed =, sources =, targets =}]): the negative
--- bound in nats per datum, to be minimised; may stand in pn.compile (so it does not look for NaN). objective:
---     "ind"      the mean over sources of the importance weighted bounds of their beliefs
---     "moe"      the same weights over the mixture of beliefs; for draws > 1 not tight, however many
---     "poe"      the bound of the product of beliefs; beliefs alone then mean little
---     "hybrid"   half "ind", half "poe"; or a table of weights that sum to 1, {ind = 0.2, moe = 0.3, poe = 0.5}
--- estimator of the gradient: "iwae" (along the draws), or of ind and poe "dreg" (doubly reparametrised; Tucker et al.
--- 2019). sources, targets: lists of names, those that are read and explained.
function methods:loss(x, given)
  local b, o = read(self, "loss", x, given, objective_options, true)
  return -source_objective.bound(self, b, objective_of("loss", o))
end

local BLOCK <const> = 2000 -- draws of all data together in one call: they stay in the processor's caches

-- Log-weights of k draws of each of a batch, replayed: a list of [k, B] in the order of log_weights.
local compiled = setmetatable({}, { __mode = "k" })

local function weigher(self, o, b, k)
  local _, unflat = source_data.flat(b)
  local key = { k, table.concat(o.sources, " "), table.concat(o.targets, " ") }
  for _, name in ipairs { "ind", "moe", "poe" } do key[#key + 1] = (o.weights[name] or 0) > 0 and name or "" end
  for _, part in ipairs { "x", "there" } do key[#key + 1] = table.concat(named_beliefs.ordered(b[part]), " ") end
  key = table.concat(key, "\n")
  compiled[self] = compiled[self] or {}
  if not compiled[self][key] then
    local how = { weights = o.weights, draws = k, sources = o.sources, targets = o.targets }
    compiled[self][key] = replay.compile(function(...)
      local all, shares = {}, {}
      for i, t in ipairs(source_objective.log_weights(self, unflat(...), how)) do
        all[i] = t.log_p - t.log_q
        shares[i] = type(t.share) == "number" and core.full({ all[i]:size(2) }, t.share, { dtype = self.dtype })
          or t.share
      end
      return core.stack(all, 1), core.stack(shares, 1)
    end)
  end
  return compiled[self][key]
end

-- Of some rows: the bound of each [B], the mean log-weight, the variance of the bounds and the effective sample size,
-- sums over rows and terms by their weights.
local function bound_of_rows(self, b, o, kinds)
  local streams, list, left, share = {}, source_data.flat(b), o.draws, nil
  for k = 1, #kinds do streams[k] = infer.stream { draws = o.draws } end
  while left > 0 do
    local k = math.min(left, math.max(1, BLOCK // (b.size * #kinds)))
    local log_w
    log_w, share = weigher(self, o, b, k)(table.unpack(list))
    for i, s in ipairs(streams) do s:add(log_w[i]) end
    left = left - k
  end
  local each, sums = 0, { elbo = 0, variance = 0, ess = 0, weight = 0 }
  for i, s in ipairs(streams) do
    local w = share[i]:to "float64" * o.weights[kinds[i]] -- sums of weights are float64
    each = each + s:log_mean() * w
    sums.elbo = sums.elbo + (s:elbo() * w):sum():item()
    sums.variance = sums.variance + (s:standard_error() * w):square():sum():item()
    sums.ess = sums.ess + (s:effective_sample_size() * w):sum():item()
  end
  return each, sums
end

-- The kinds of terms of log_weights, in its order.
local function kinds_of(b, o)
  local kinds, m = {}, 0
  for _, name in ipairs(o.sources) do m = m + (b.x[name] and 1 or 0) end
  for _ = 1, math.max(m, 1) do
    for _, name in ipairs { "ind", "moe" } do
      kinds[#kinds + 1] = (o.weights[name] or 0) > 0 and name or nil
    end
  end
  kinds[#kinds + 1] = (o.weights.poe or 0) > 0 and "poe" or nil
  return kinds
end

--- bound(x [, {objective = "hybrid", draws = 1000, batch_size = 20, observed =, sources =, targets =}]): the objective
--- with thousands of draws for each datum, in constant memory, in nats per datum: a table with `value`, `se`, its
--- standard error (over draws), `each` [B], `elbo` the mean log-weight, `effective_sample_size` the mean one.
function methods:bound(x, given)
  local b, o = read(self, "bound", x, given, { objective = options.any "hybrid", draws = 1000, batch_size = 20 })
  objective_of("bound", o)
  local kinds, each, sums = kinds_of(b, o), {}, { elbo = 0, variance = 0, ess = 0 }
  recording.off(function()
    for first = 1, b.size, o.batch_size do
      local last = math.min(b.size, first + o.batch_size - 1)
      local part, s = bound_of_rows(self, source_data.rows(b, first, last), o, kinds)
      each[#each + 1] = part
      for name in pairs(sums) do sums[name] = sums[name] + s[name] end
    end
  end)
  each = core.concatenate(each, 1)
  return estimate.new(each:to "float64":mean():item(), math.sqrt(sums.variance) / b.size,
    { each = each, elbo = sums.elbo / b.size, effective_sample_size = sums.ess / b.size })
end

local fit_options = options.merged(selecting, { data = options.required "table", epochs = options.required "number",
  batch_size = 128,
  objective = options.any "hybrid", draws = 16, estimator = options.choice("iwae", "dreg"), lr = 1e-3,
  schedule = options.optional "function", optimiser = options.optional(), compile = true,
  generator = options.optional "generator", seed = options.optional "number",
  on_epoch = options.optional "function", validate = options.optional "function",
  validate_every = options.optional "number", patience = options.optional "number",
  checkpoint = options.optional "string", checkpoint_every = options.optional "number",
  resume = options.optional "boolean", progress = options.any(false) })

--- fit{data =, epochs =, ...}: trains by minibatches (pn.train.fit), returns its table with `history`, the mean loss of
--- each epoch.
---
--- data         a table from names to tensors [N, size]
--- observed, sources, targets, objective, draws (16), estimator      as of loss; sources that are not there are absent
---              in training too
--- batch_size   rows of a minibatch, 128
--- lr           of Adam, 1e-3; `schedule`: a function of the step instead; `optimiser`: another one, to be gone on with
--- compile      true: steps are captured once and replayed
--- seed, checkpoint, checkpoint_every, resume, validate, validate_every, patience, on_epoch, progress, generator: as of
---              pn.train.fit; the parameters of the best score are put back
function methods:fit(given)
  local o = options.check("fit", given, fit_options)
  objective_of("fit", o)
  o.sources = source_data.names("fit", self, o.sources, "sources")
  o.targets = source_data.names("fit", self, o.targets, "targets")
  local b = source_data.read("fit", self, o.data, o.observed)
  local list, unflat = source_data.flat(b)
  local how = { weights = o.weights, draws = o.draws, estimator = o.estimator, sources = o.sources,
    targets = o.targets }
  return train.fit { data = list, epochs = o.epochs, batch_size = math.min(o.batch_size, b.size),
    optimiser = o.optimiser or optim.adam(self:parameters(), { lr = o.lr }),
    loss = function(...) return -source_objective.bound(self, unflat(...), how) end, compile = o.compile,
    generator = o.generator, seed = o.seed, on_epoch = o.on_epoch, validate = o.validate,
    validate_every = o.validate_every, patience = o.patience, progress = o.progress, checkpoint = o.checkpoint,
    checkpoint_every = o.checkpoint_every, resume = o.resume,
    model = (o.validate or o.checkpoint) and self or nil, schedule = o.schedule }
end

-- ---- beliefs ----

-- The beliefs of the sources in x, and their masks, as pn.fusion takes them.
local function beliefs_of(self, b, o)
  local beliefs, observed = {}, {}
  for _, name in ipairs(o.sources) do
    if b.x[name] then
      beliefs[name] = self.encoders[name]:belief(b.x[name], self.prior)
      observed[name] = b.there[name]
    end
  end
  return beliefs, observed
end

--- beliefs(x [, {observed =, sources =}]): q_m(z | x_m) of each source in x, a table from names to distributions of
--- batch [B], with a graph. Where a source is not there its belief means nothing: second the table `observed` for
--- pn.fusion.
function methods:beliefs(x, given)
  local b, o = read(self, "beliefs", x, given, {})
  return beliefs_of(self, b, o)
end

--- conflicts(x [, {observed =, sources =}]): [B, M, M] and the names (pn.fusion.conflicts).
function methods:conflicts(x, given)
  local b, o = read(self, "conflicts", x, given, {})
  return recording.off(function()
    local beliefs, observed = beliefs_of(self, b, o)
    return fusion.conflicts(beliefs, { prior = self.prior.law, observed = observed })
  end)
end

--- pointwise_mutual_information(x [, {observed =, sources =}]): of the sources in x, [B] (pn.fusion).
function methods:pointwise_mutual_information(x, given)
  local b, o = read(self, "pointwise_mutual_information", x, given, {})
  return recording.off(function()
    local beliefs, observed = beliefs_of(self, b, o)
    return fusion.pointwise_mutual_information(beliefs, { prior = self.prior.law, observed = observed })
  end)
end

local fuse_options = { by = options.choice("product", "mixture", "mvae", "mopoe"),
  conflict_threshold = options.optional "number", drop = false }

-- The fused belief of a batch, and the report of the rule where a threshold is given.
local function fuse(self, where, b, o)
  local beliefs, observed = beliefs_of(self, b, o)
  local none = next(beliefs) == nil
  if none then
    beliefs, observed = { ["no source"] = self.prior.law:expand { b.size } },
      { ["no source"] = core.zeros { b.size }:gt(0) }
  end
  local by, prior = o.by or "product", self.prior.law
  if by == "product" then
    local law, report = fusion.fuse(beliefs, { prior = prior, observed = observed, drop = o.drop,
      conflict_threshold = o.conflict_threshold or math.huge })
    report.names = none and {} or report.names -- that of the stand-in is nobody's
    return law, report
  elseif o.conflict_threshold then
    core.error(("%s: conflict_threshold is of by = 'product'"):format(where))
  elseif by == "mixture" then
    return fusion.mixture(none and { prior:expand { b.size } } or beliefs, { observed = not none and observed or nil })
  elseif by == "mopoe" and next(observed) then
    core.error(("%s: by = 'mopoe' needs sources that are there for all data"):format(where))
  end
  return fusion[by](beliefs, { prior = prior, observed = by == "mvae" and observed or nil })
end

--- fuse(x [, {by = "product", conflict_threshold =, drop = false, observed =, sources =}]): one belief of batch [B] out
--- of those of the sources in x. by: "product" (the prior divided out), "mixture", "mvae", "mopoe" (pn.fusion). With
--- "product" second a report: what was left out by the rule of pn.fusion.fuse where a threshold is given, and where
--- there was no source at all (`none`: the belief is the prior).
function methods:fuse(x, given)
  local b, o = read(self, "fuse", x, given, fuse_options)
  return fuse(self, "fuse", b, o)
end

--- encode(x [, {draws =, by = "product", conflict_threshold =, drop =, observed =, sources =}]): latents: the mean of
--- the fused belief [B, latent], or `draws` of it [draws, B, latent].
function methods:encode(x, given)
  local b, o = read(self, "encode", x, given, { draws = options.optional "number", by = fuse_options.by,
    conflict_threshold = fuse_options.conflict_threshold, drop = false })
  return recording.off(function()
    local q = fuse(self, "encode", b, o)
    return o.draws and q:sample { o.draws } or q:mean()
  end)
end

source_prediction.add(methods, { read = read, fuse = fuse, fuse_options = fuse_options })

-- What constructors were given, by model.
local given_to = setmetatable({}, { __mode = "k" })

local KIND <const> = "model of several sources"

--- save(path): writes options and parameters; pn.restore(path, {...}) makes the model again, given the options that
--- held networks, functions or distributions. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local kept, asked = saved.parted(given_to[self])
  kept.dtype = self.dtype
  return data.save(path, { kind = KIND, options = kept, asked = asked,
    parameters = self:state() })
end

-- ---- making ----

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a model of several sources", methods), network = true,
  __name = "multisource" }

function class:__tostring()
  return ("multisource(%s -> %d -> %s, %d parameters)"):format(table.concat(self.source_names, ", "), self.latent,
    table.concat(self.target_names, ", "), self:num_parameters())
end

local new_options = { sources = options.required "table", targets = options.optional "table",
  latent = options.required "number", hidden = options.any { 200, 200 },
  activation = options.one_of("tanh", nn.activations), likelihood = options.any "bernoulli",
  noise = options.choice("shared", "network"), scale_link = options.choice("sigmoid", "exp"),
  prior = options.optional "distribution", dtype = options.optional "string" }

-- The prior, its size, its factor, and its scales where it is diagonal and not standard.
local function prior_of(o)
  local f = { dtype = o.dtype }
  local law = o.prior or dist.normal(core.zeros({ o.latent }, f), core.ones({ o.latent }, f)):independent(1)
  local normal = law.name == "normal" or law.name == "multivariate_normal"
  if not normal or #law.batch_shape > 0 or #law.event_shape ~= 1 or law.event_shape[1] ~= o.latent
    or law.dtype ~= o.dtype then
    core.error(("multisource: prior must be a %s normal of event [%d] without a batch, got %s"):format(o.dtype,
      o.latent, law.name))
  elseif law.name == "multivariate_normal" and o.scale_link == "sigmoid" then
    core.error "multisource: scale_link 'sigmoid' needs a diagonal prior; take 'exp'"
  end
  return { law = law, factor = dist.natural.of(law), size = o.latent, scale = o.prior and law:variance():sqrt() or nil }
end

--- multisource{sources =, targets =, latent =, ...}: a model with parameters drawn anew; options above
--- (pn.help "penumbra.models.multisource").
function multisource.multisource(given)
  local o = options.check("multisource", given, new_options)
  o.latent = options.whole("multisource", "latent", o.latent, 1)
  o.dtype = o.dtype or core.default_dtype()
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("multisource: dtype must be 'float64' or 'float32', got '%s'"):format(o.dtype))
  elseif next(o.sources) == nil then
    core.error "multisource: sources must have at least one"
  end
  options.argument("multisource", "hidden", o.hidden, "table")
  local encoders = source_network.encoders("multisource", o.sources, o)
  local targets = o.targets or source_network.targets_of(o.sources)
  if next(targets) == nil then
    core.error "multisource: targets must have at least one"
  end
  local decoders = source_network.decoders("multisource", targets, o)
  for name, d in pairs(decoders) do
    if encoders[name] and encoders[name].size ~= d.size then
      core.error(("multisource: source and target '%s' must have one size, got %d and %d"):format(name,
        encoders[name].size, d.size))
    end
  end
  local self = setmetatable({ encoders = encoders, decoders = decoders, latent = o.latent, dtype = o.dtype,
    prior = prior_of(o), source_names = named_beliefs.ordered(encoders),
    target_names = named_beliefs.ordered(decoders) }, class)
  given_to[self] = given
  return self
end

-- ---- files ----

local file = saved.file {
  noun = "model of several sources that m:save has written",
  is = function(found) return found.kind == KIND end,
  form = function()
    return form.record { kind = form.any, options = form.map(form.any), asked = saved.asked_form,
      parameters = form.map(form.tensor { finite = true }) }
  end,
}

saved.restored_by(file, function(path, given)
  local found, message, code = saved.read("restore", path, file)
  if not found then
    return nil, message, code
  end
  local o = saved.joined("restore", found.options, found.asked, given)
  return saved.make("restore", path, function()
    return multisource.multisource(o):load_state(found.parameters)
  end)
end)

core.namespace("penumbra.models.multisource", multisource)

return multisource
