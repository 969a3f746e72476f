--- A Bayesian network that learns from a stream of batches: a normal law over its weights, a memory of data that this
--- law says least of, and forgetting (Kurle, Cseke, Klushyn, van der Smagt & Guennemann 2020).
---
---     local learner = pn.continual.learner {
---       network = nn.sequential { nn.linear(6, 16), nn.tanh(), nn.linear(16, 1) },
---       likelihood = "normal", noise = 0.1,
---       memory = { size = 15 },
---       forget = pn.continual.bayesian_forgetting { rate = 0.05 },
---     }
---     local report = learner:observe(x, y, time)        -- a batch, of any size
---     local p = learner:predict(x)                      -- p.mean, p.variance; of classes p.probabilities
---     learner:log_predictive(x, y)                      -- [N]
---     learner:save "learner.safetensors"
---     learner = pn.restore("learner.safetensors", { network = net })
---
--- Two laws are kept: learner.posterior, the Gaussian part q of all data that left the memory, and learner.projection,
--- the normal law nearest to q times the likelihoods of the memory, which predicts. Options:
---   network      a sequential of linear layers and elementwise activations of pn.nn; its own parameters are not used.
---                Everything is computed in its dtype, the Gaussian part kept in float64
---   likelihood   "categorical" (y classes, int64 [N]) and "bernoulli" (y 0 or 1, [N] or [N, out]) of logits;
---                "normal" (y [N] or [N, out]); another of pn.nn.likelihood, by name, made or in Lua; or a function
---                (f, y) of outputs [S, N, out] that gives log p [S, N], or the distribution of y, and treats data
---                alone
---   noise        of "normal": the standard deviation, or {learn = true, initial = 0.1}: learned with the ELBO, to
---                which data that left the memory go on contributing by their expected squares of then
---   prior        as of pn.nn.bayesian, normal ("unit_variance")
---   initial      {share = 0.999, alpha = 0.001}: where the first optimisation begins: of the prior's variance this
---                share goes to random means, the rest to the law's own, whose logarithms spread by alpha
---   memory       nil: none. {size =, select = "residual", score = "residual", tempered = true}:
---                  select     "residual" keeps the data of the largest scores (pn.continual.scores), "k_center" and
---                             "random" do as they say
---                  score      "residual", as printed, which may keep what says least of the weights; "absolute", its
---                             size, which keeps data near a boundary; or "centred", which for regression remembers
---                             best (measured in examples/papers/continual/README.md)
---                  tempered   whether scores of old data are those of their tempered likelihoods, as printed
---   update       "sites": the Gaussian part by sites of single data (equations 9a, 9b). "refit": fitted to the data
---                that left, which with "k_center" and "random" is variational continual learning: the memory is
---                chosen first, also before the first update, and a second projection serves predictions alone
---   forget       bayesian_forgetting, or without a memory ornstein_uhlenbeck or wiener; nil forgets nothing
---   draws        {train = 10, sites = 10000, predict = 500}: for each datum and step; for the sites of a batch; for
---                each datum of a prediction. Those for sites are antithetic, and an even number, where
---                pn.continual.sites can make them so (`antithetic` there)
---   steps        {first = 2000, later = 1000, second =}: of the optimisation at the first and at later batches;
---                second, by default as many, where a batch has a second optimisation ("refit")
---   optimiser    {lr = 0.05, final = 0.01, beta1 = 0.9, beta2 = 0.99, prior_units = false}: Adam; the rate falls
---                geometrically to lr * final. prior_units: means are counted in the prior's standard deviations, so
---                that one rate suits layers of any width
---   start        where the optimisation begins: "previous", the projection before; "predecessor", the Gaussian part
---                after forgetting; "initial", drawn as at first
---   estimator    of the sites, "reparametrised" or "hessian" (pn.help "penumbra.continual.sites")
---   guard        {floor = 1e-3, unconverged = 0.5}: what the paper is silent about. A precision that dividing by sites
---                leaves below this share of the predecessor's is raised to it; a projection whose report.bias is above
---                `unconverged` counts as one
---   seed         of all draws, which depend on it, the step and their purpose alone; drawn if not given
---   progress     true: a line on standard error. A function (stage, done, steps, elbo), called 20 times a run
---
--- observe is all or nothing: an error, a limit of memory or time, an interrupt leaves the learner at the step before,
--- to the bit, and the batch may be given again. What can be read: learner.step, .time, .memory ({x, y, age}),
--- .posterior and .projection (factors over all weights in the network's order), .noise_scale and .counts, how often a
--- guard had to act.
-- help: pn.continual, methods learner
local adaptation = require "penumbra.continual.adaptation"
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local form = require "penumbra.form"
local likelihood = require "penumbra.continual.output_likelihood"
local mean_field = require "penumbra.continual.mean_field"
local observation = require "penumbra.continual.observation"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local projection = require "penumbra.continual.projection"
local recording = require "penumbra.autodiff.recording"
local rows = require "penumbra.nn.likelihood"
local saved = require "penumbra.saved"
local site_totals = require "penumbra.continual.site_totals"
local sites = require "penumbra.continual.sites"
local stream_step = require "penumbra.continual.stream_step"
local nn = require "penumbra.nn"

local learner = {}

local methods = {}

-- ---- options ----

local known = {
  network = options.required(), likelihood = options.required(), noise = options.any(nil),
  prior = options.any "unit_variance", initial = options.optional "table", memory = options.optional "table",
  update = options.choice("sites", "refit"), forget = options.optional(), draws = options.optional "table",
  steps = options.optional "table", optimiser = options.optional "table",
  start = options.choice("previous", "predecessor", "initial"),
  estimator = options.choice("reparametrised", "hessian"), guard = options.optional "table",
  seed = options.optional "number", progress = options.any(false),
}

local inner = {
  initial = { share = 0.999, alpha = 0.001 },
  memory = { size = options.required "number", select = options.choice("residual", "k_center", "random"),
    score = options.choice("residual", "absolute", "centred"), tempered = true },
  draws = { train = 10, sites = 10000, predict = 500 },
  steps = { first = 2000, later = 1000, second = options.optional "number" },
  optimiser = { lr = 0.05, final = 0.01, beta1 = 0.9, beta2 = 0.99, prior_units = false },
  guard = { floor = 1e-3, unconverged = 0.5 },
  noise = { learn = true, initial = 0.1 },
}

local function check_range(name, v, low, high)
  if not (v > low and v < high) then
    core.error(("learner: %s must be above %g%s, got %s"):format(name, low,
      high < math.huge and (" and below %g"):format(high) or "", v))
  end
end

local function check_inner(o)
  for _, name in ipairs { "initial", "draws", "steps", "optimiser", "guard" } do
    o[name] = options.check("learner: " .. name, o[name], inner[name])
  end
  o.memory = o.memory and options.check("learner: memory", o.memory, inner.memory)
  for _, name in ipairs { "train", "sites", "predict" } do
    o.draws[name] = options.whole("learner", "draws." .. name, o.draws[name], 1)
  end
  for _, name in ipairs { "first", "later", "second" } do
    o.steps[name] = o.steps[name] and options.whole("learner", "steps." .. name, o.steps[name], 1)
  end
  check_range("optimiser.lr", o.optimiser.lr, 0, math.huge)
  check_range("optimiser.final", o.optimiser.final, 0, math.huge)
  check_range("initial.share", o.initial.share, 0, 1)
  check_range("initial.alpha", o.initial.alpha, -1e-300, math.huge)
  check_range("guard.floor", o.guard.floor, 0, 1.0000001)
  check_range("guard.unconverged", o.guard.unconverged, 0, math.huge)
end

-- Whether the noise is learned, and its scale at first; nil for other likelihoods.
local function check_noise(o)
  local kind = likelihood.kind("learner", o.likelihood)
  if not kind.noisy or kind.noise then
    if o.noise ~= nil then
      core.error(kind.noise and "learner: noise stands in the likelihood already"
        or 'learner: noise is only used with likelihood "normal"')
    end
    return false, kind.noise
  end
  local noise, learn = o.noise, false
  if type(noise) == "table" then
    noise = options.check("learner: noise", noise, inner.noise)
    learn, noise = noise.learn, noise.initial
  end
  if not (type(noise) == "number" and noise > 0 and noise < math.huge) then
    core.error(('learner: noise must be a positive number, or {learn = true}, for likelihood "normal", got %s')
      :format(tostring(noise)))
  end
  return learn, noise
end

local function check_parts(o)
  if o.memory then
    o.memory.size = options.whole("learner", "memory.size", o.memory.size, 0)
  end
  if o.forget ~= nil then
    options.object("learner", "forget", o.forget, "an adaptation, as pn.continual.bayesian_forgetting gives", "apply",
      "memory_weight")
    if o.memory and o.memory.size > 0 then
      o.forget:memory_weight(0)
    end
  end
  if o.progress and o.progress ~= true and type(o.progress) ~= "function" then
    core.error("learner: progress must be true, false or a function, got " .. type(o.progress))
  end
  o.seed = o.seed or core.randint(0, 1 << 53, {}):item()
end

-- ---- what does not change in a learner's life ----

-- The prior as mean and scale of all weights, float64.
local function read_prior(net, given)
  local wrapped = nn.bayesian(net, { prior = given })
  local means, scales = {}, {}
  for k, entry in ipairs(parameters.named(net)) do
    local p, name = wrapped.priors[entry[1]], entry[1]
    if not p or p.name ~= "normal" then
      core.error(("learner: prior of '%s' must be a normal distribution, got %s"):format(name, p and p.name or "none"))
    end
    local like = core.zeros(entry[2]:shape())
    means[k] = (p.loc:detach():to "float64" + like):reshape { -1 }
    scales[k] = (p.scale:detach():to "float64" + like):reshape { -1 }
  end
  return core.concatenate(means, 1), core.concatenate(scales, 1)
end

-- Means and logarithms of scales at first (appendix I), as pn.nn.unit_variance draws them.
local function initial_draws(mean, scale, o, dtype)
  local centre = scale:log() + 0.5 * (math.log(1 - o.share) - 2 * o.alpha ^ 2)
  return function(generator)
    local n = { generator = generator }
    local first = mean + scale * core.randn(mean:shape(), n) * o.share ^ 0.5
    local log_scale = centre + core.randn(mean:shape(), n) * o.alpha
    return { mean = first:to(dtype), log_scale = log_scale:to(dtype) }
  end
end

-- What the sites of this network and likelihood refuse is refused before there are data.
local function check_sites(o, net)
  local kind = likelihood.kind("learner", o.likelihood)
  if o.estimator == "hessian" and kind.is_function then
    core.error 'learner: estimator must be "reparametrised" where the likelihood is a function, got "hessian"'
  elseif o.estimator == "hessian" then
    local how = { dtype = net.dtype }
    local flat = core.ones({ net.size }, how)
    local y = kind.label and core.zeros({ 1 }, { dtype = "int64" }) or core.zeros({ 1, kind.units(net.outputs) }, how)
    sites.sites(net.net, core.zeros({ 1, net.inputs }, how), y, { draws = 1,
      likelihood = o.likelihood, noise_scale = o.likelihood == "normal" and 1 or nil, estimator = o.estimator,
      posterior = core.new_natural("diagonal", flat, flat), generator = core.generator(0) })
  end
end

-- The machine of a learner, from options that are checked and the prior.
local function engine(o, net, learn_noise, mean, scale)
  local kind = likelihood.kind("learner", o.likelihood)
  local name = kind.noisy and "normal" or type(o.likelihood) == "string" and o.likelihood or nil
  local model = { net = net, name = name, likelihood = o.likelihood, dtype = net.dtype, noise_scale = 1,
    kind = kind }
  local precision = scale:square():reciprocal()
  local self = { model = model, prior = core.new_natural("diagonal", mean * precision, precision), memory = o.memory,
    update = o.update, forget = o.forget, draws = o.draws, steps = o.steps, lr = o.optimiser.lr,
    final = o.optimiser.final, start = o.start, estimator = o.estimator, guard = o.guard, seed = o.seed,
    progress = o.progress, options = o, learn_noise = learn_noise, prior_mean = mean, prior_scale = scale,
    initial = initial_draws(mean, scale, o.initial, net.dtype) }
  local how = { draws = o.draws.train, betas = { o.optimiser.beta1, o.optimiser.beta2 },
    unit = o.optimiser.prior_units and scale or nil }
  local fixed = projection.new(model, how)
  how.learn_noise = learn_noise
  self.runner = learn_noise and projection.new(model, how) or fixed
  self.fixed = function() return fixed end
  return self
end

-- The state before any data: the prior predicts.
local function nothing_seen(self, noise)
  local dtype = self.model.net.dtype
  return { step = 0, time = nil, gaussian = self.prior, memory = nil,
    projection = { mean = self.prior_mean:to(dtype), log_scale = self.prior_scale:log():to(dtype),
      log_noise = core.full({}, math.log(noise or 1), { dtype = dtype }) },
    counts = { clipped = 0, clipped_steps = 0, unconverged = 0, memory_exceeds_data = 0 },
    past = self.learn_noise and core.zeros({ 2 }, { dtype = dtype }) or nil }
end

-- ---- the object ----

-- What a script sees of a state: methods, fields, and the two tables that the methods use. A learner changes by having
-- another one, a single assignment.
local function view(self, state)
  local v = {}
  for name, f in pairs(methods) do v[name] = f end
  v.step, v.time, v.counts = state.step, state.time, {}
  for name, value in pairs(state.counts) do v.counts[name] = value end
  v.memory = state.memory and { x = state.memory.x, y = state.memory.y, age = state.memory.age } or nil
  v.posterior, v.projection = state.gaussian, site_totals.factor(state.projection)
  v.noise_scale = self.model.kind.noisy and math.exp(state.projection.log_noise:item()) or nil
  v._engine, v._state = self, state
  return setmetatable(v, getmetatable(methods))
end

local function object(self, state)
  local meta = { __name = "learner", __index = view(self, state) }
  function meta.__tostring(l)
    return ("learner{%d weights, step %d, memory %d}"):format(l.posterior.precision:numel(), l.step,
      l.memory and l.memory.x:size(1) or 0)
  end
  return setmetatable({}, meta)
end

-- Engine, state and metatable of a learner.
local function parts(where, l)
  local meta = getmetatable(l)
  if type(meta) ~= "table" or meta.__name ~= "learner" then
    core.error(("%s: it must be called with a colon on a learner, as learner:%s, got %s"):format(where, where, type(l)))
  end
  return meta.__index._engine, meta.__index._state, meta
end

-- pn.continual.learner.
function learner.new(given)
  local o = options.check("learner", given, known)
  check_inner(o)
  local learn_noise, noise = check_noise(o)
  local net = mean_field.read("learner", o.network)
  check_parts(o)
  check_sites(o, net)
  local mean, scale = read_prior(o.network, o.prior)
  local self = engine(o, net, learn_noise, mean, scale)
  return object(self, nothing_seen(self, noise))
end

-- ---- data ----

local function check_x(where, net, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 2 or x:size(2) ~= net.inputs or x:size(1) == 0 then
    core.error(("%s: x must have shape [N, %d] with N > 0, got [%s]"):format(where, net.inputs,
      table.concat(x:shape(), ", ")))
  elseif x:dtype() ~= net.dtype then
    core.error(("%s: x must be %s, as the network is, got %s"):format(where, net.dtype, x:dtype()))
  elseif (x - x):abs():max():item() ~= 0 then
    core.error(("%s: x must be finite"):format(where))
  end
  return x:detach()
end

-- y as the memory keeps it: [N, out] where it is a number for each output, else as given.
local function check_y(where, self, y, n, old)
  options.argument(where, "y", y, "tensor")
  local net, kind = self.model.net, self.model.kind
  local ready = kind.check(where, y, n, net.outputs, self.model)
  if not kind.label and y:dtype() ~= "int64" and (y - y):abs():max():item() ~= 0 then
    core.error(("%s: y must be finite"):format(where))
  end
  y = (kind.label or kind.is_function) and y:detach() or ready
  if old and (table.concat(old:shape(), ",", 2) ~= table.concat(y:shape(), ",", 2) or old:dtype() ~= y:dtype()) then
    core.error(("%s: y must be %s of shape [N%s] as in the batches before, got %s of shape [%s]"):format(where,
      old:dtype(), table.concat({ "", table.unpack(old:shape(), 2) }, ", "), y:dtype(),
      table.concat(y:shape(), ", ")))
  end
  return y, ready
end

local function check_time(self, s, time)
  if time == nil then
    return s.time and s.time + (self.forget and self.forget.lag or 1) or 0
  elseif type(time) ~= "number" or not (time - time == 0) then
    core.error(("observe: time must be a finite number, got %s"):format(type(time) == "number" and time or type(time)))
  elseif s.time and time < s.time then
    core.error(("observe: time must not run back: the batch before was of %.17g, got %.17g"):format(s.time, time))
  end
  return time
end

-- ---- methods ----

--- observe(x, y [, time]): learns from a batch x [N, in], y, that was seen at `time` (default: the time before plus the
--- average lag of `forget`, or 1). Returns a table: step, time, elapsed; weight, what of the past is left; num_new;
--- memory {kept_new, kept_old, ages}; elbo {first, last, curve}; scores [N + old], of the new data first, where the
--- memory is chosen by them; bias {precision, mean}, what the sites of the data together lacked, in units of the
--- projection, and unconverged, whether that is above the guard; method ("multiply" 9a, "divide" 9b, "refit",
--- "projection"), clipped; memory_exceeds_data; log_predictive_before, the mean log predictive density of the batch
--- before it was learned; noise_scale; seconds by stage.
function methods:observe(x, y, time)
  local self_engine, s, meta = parts("observe", self)
  x = check_x("observe", self_engine.model.net, x)
  y = check_y("observe", self_engine, y, x:size(1), s.memory and s.memory.y)
  local batch = { x = x, y = y, time = check_time(self_engine, s, time) }
  local state, report = recording.off(stream_step.run, self_engine, s, batch)
  meta.__index = view(self_engine, state)
  return report
end

local function reading(where, self, x, given)
  local e, s = parts(where, self)
  x = check_x(where, e.model.net, x)
  local o = options.check(where, given, { draws = e.draws.predict, generator = options.optional "generator" })
  return e, s, x, o.draws, o.generator or stream_step.generator(e.seed, s.step, "predict")
end

--- predict(x [, {draws =, generator =}]): {probabilities =, variance =} [N, out] of classes and of bernoulli, the
--- variance over draws; {mean =, variance =, spread =} [N, out] of "normal": variance that of y, spread that of the
--- outputs without noise; {mean =, variance =} of y for other likelihoods, of the outputs for a
--- function. The same draws at each call of a step.
function methods:predict(x, given)
  local e, s, input, draws, generator = reading("predict", self, x, given)
  return recording.off(observation.predict, e.model, s.projection, input, draws, generator)
end

--- log_predictive(x, y [, {draws =, generator =}]): log of the mean of p(y_n | x_n, w) over draws of the weights, [N].
function methods:log_predictive(x, y, given)
  local e, s, input, draws, generator = reading("log_predictive", self, x, given)
  local _, ready = check_y("log_predictive", e, y, input:size(1), s.memory and s.memory.y)
  return recording.off(observation.log_predictive, e.model, s.projection, input, ready, draws, generator)
end

-- ---- files ----

local KIND <const> = "continual learner"
local SAVED <const> = { "update", "start", "estimator", "seed", "memory", "initial", "draws", "steps", "optimiser",
  "guard" }

local function architecture(net)
  local list = {}
  for k, name in ipairs(net.names) do
    list[k] = name .. " [" .. table.concat(net.shapes[k], ", ") .. "]"
  end
  return table.concat(list, ", ") .. ", " .. net.dtype
end

--- save(path): writes the learner with its options, but for the network and a likelihood that is a function, to a file
--- (safetensors) that appears whole or not at all. Returns true, or nil, message, code.
function methods:save(path)
  local e, s = parts("save", self)
  options.argument("save", "path", path, "string")
  local o, forget = {}, e.forget
  for _, name in ipairs(SAVED) do o[name] = e.options[name] end
  local contents = { kind = KIND, options = o, architecture = architecture(e.model.net),
    likelihood = e.model.name or "function", learn_noise = e.learn_noise, prior_mean = e.prior_mean,
    prior_scale = e.prior_scale, step = s.step, time = s.time, counts = s.counts,
    precision_mean = s.gaussian.precision_mean, precision = s.gaussian.precision, projection = s.projection,
    memory = s.memory, past = s.past,
    forget = forget and { name = forget.name, parameter = forget.parameter, value = forget.value, lag = forget.lag } }
  return checkpoint.save(path, contents)
end

-- An option as it is given; check_inner and check_parts look at what is in it.
local given = form.optional(form.any)

-- The memory of a learner with so many data, of `size` at most.
local function memory_form(net, memory, kept)
  local x = type(kept) == "table" and kept.x
  local n = core.is_tensor(x) and x:ndim() > 0 and x:size(1) or -1
  local most = type(memory) == "table" and math.tointeger(memory.size)
  if not most or n < 1 or n > most then
    return form.refused "be data, as many as the memory holds at most"
  end
  return form.record { x = form.tensor { dtype = net.dtype, shape = { n, net.inputs }, finite = true },
    y = form.tensor { finite = true },
    age = form.tensor { dtype = "float64", shape = { n }, finite = true, least = 0 } }
end

local function learner_form(found, net)
  local function vector(dtype, positive)
    return form.tensor { dtype = dtype, shape = { net.size }, finite = true, positive = positive }
  end
  local function logarithm(shape) -- of what has a square
    local most = net.dtype == "float32" and 40 or 340
    return form.tensor { dtype = net.dtype, shape = shape, least = -most, most = most }
  end
  local o = type(found.options) == "table" and found.options or {}
  local seen, options_form = math.type(found.step) == "integer" and found.step > 0, {}
  for _, name in ipairs(SAVED) do options_form[name] = name == "memory" and given or form.any end
  options_form.seed = form.whole(0, math.maxinteger)
  return form.record { kind = form.text(KIND), options = form.record(options_form), architecture = form.text(),
    likelihood = form.text("function", table.unpack(rows.names)), learn_noise = form.boolean,
    prior_mean = vector "float64", prior_scale = form.tensor { dtype = "float64", shape = { net.size }, least = 1e-150,
      most = 1e150 }, step = form.whole(0),
    time = seen and form.number() or form.optional(form.number()),
    counts = form.record { clipped = form.whole(0), clipped_steps = form.whole(0), unconverged = form.whole(0),
      memory_exceeds_data = form.whole(0) },
    precision_mean = vector "float64", precision = vector("float64", true),
    projection = form.record { mean = vector(net.dtype), log_scale = logarithm { net.size },
      log_noise = logarithm {} },
    memory = form.optional(memory_form(net, o.memory, found.memory)),
    past = (found.learn_noise and function(f) return f end or form.optional)(form.tensor { dtype = net.dtype,
      shape = { 2 }, finite = true, least = 0 }),
    forget = form.optional(form.record { name = form.text("bayesian_forgetting", "ornstein_uhlenbeck", "wiener"),
      parameter = form.text("rate", "stiffness", "variance_rate"), value = form.number(), lag = form.number() }) }
end

-- What the file asks of who loads it.
local function check_asked(path, found, net, o)
  if found.architecture ~= architecture(net) then
    core.error(("restore: network must be as in '%s' of %s, got %s"):format(path, tostring(found.architecture),
      architecture(net)))
  end
  local is_function = found.likelihood == "function"
  local gives = o.likelihood ~= nil and type(o.likelihood) ~= "string"
  if is_function and not gives or not is_function and o.likelihood ~= nil then
    core.error(is_function and "restore: likelihood must be the function or the row that the learner had"
      or ('restore: likelihood must be absent: that of the learner was "%s"'):format(tostring(found.likelihood)))
  end
end

local learner_file = saved.file { noun = "learner that learner:save has written", read = checkpoint.load,
  is = function(found) return found.kind == KIND end, asks = check_asked, form = learner_form }

-- The options of the constructor, out of a file.
local function options_of(found, o)
  local all = found.options
  all.likelihood, all.progress = o.likelihood or found.likelihood, o.progress
  if found.forget then
    local f = found.forget
    all.forget = adaptation[f.name] { [f.parameter] = f.value, lag = f.lag }
  end
  for name, rule in pairs { update = known.update, start = known.start, estimator = known.estimator } do
    all[name] = options.check("restore", { [name] = all[name] }, { [name] = rule })[name]
  end
  check_inner(all)
  check_parts(all)
  if found.learn_noise and found.likelihood ~= "normal" then
    core.error 'restore: learn_noise must be false but for likelihood "normal"'
  end
  return all
end

-- The learner of a file's contents, which raises for what its constructor and its methods would refuse.
local function restored(found, net, o)
  local self = engine(options_of(found, o), net, found.learn_noise, found.prior_mean, found.prior_scale)
  if found.memory then
    check_y("memory", self, found.memory.y, found.memory.x:size(1))
  end
  return object(self, { step = found.step, time = found.time,
    gaussian = core.new_natural("diagonal", found.precision_mean, found.precision), projection = found.projection,
    memory = found.memory, counts = found.counts, past = found.past })
end

saved.restored_by(learner_file, function(path, asked)
  local o = options.check("restore", asked, { network = options.required(), likelihood = options.any(nil),
    progress = options.any(false) })
  local net = mean_field.read("restore", o.network)
  local found, message, code = saved.read("restore", path, learner_file, net, o)
  if not found then
    return nil, message, code
  end
  return saved.make("restore", path, restored, found, net, o)
end)

core.namespace("a learner", methods)

return learner
