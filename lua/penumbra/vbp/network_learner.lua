--- A network that learns by one of several methods side by side: variance back-propagation and what it is compared with
--- (Haussmann, Hamprecht & Kandemir 2019; Haussmann 2021, chapter 3).
---
---     local m = pn.vbp.learner { network = nn.mlp({ 13, 50, 1 }, { activation = "relu" }), prior_precision = 10 }
---     m:fit { data = { x, y }, epochs = 100, batch_size = 16, lr = 0.01 }
---     local p = m:predict(x)                       -- p.mean, p.variance; of classes p.probabilities
---     m:log_predictive(x, y)                       -- [N]
---     print(m:bound(x, y).bound)
---     m:save "m.safetensors"
---     m = pn.restore("m.safetensors", { network = function() return nn.mlp({ 13, 50, 1 }, ...) end })
---
--- The bound (3.3) is the expected log-likelihood, less the expected divergence of the gates (`gate_kl`), less the
--- divergence of the weights from their prior; a step maximises it with the first term scaled from the minibatch to all
--- data. Options:
---   network          layers, a sequential or a module of certain parameters, or a function that makes one. Layers of
---                    straight pieces get the gates of the method; its parameters become the posterior's means
---   method           "vbp": moments through gates; "clt": moment matching; "local": local reparametrisation;
---                    "dropout"; "map": the most probable point. Or a row of one's own (pn.help
---                    "penumbra.vbp.method_rows")
---   likelihood       "normal", y like the outputs; "categorical", labels int64 [N]; "probit", zeros and ones like the
---                    outputs, or labels, each class against all others. Or a row (pn.help
---                    "penumbra.vbp.likelihood_heads")
---   objective        of "normal": "expected_log". Of "categorical": "taylor", to second order (default), or "draws" of
---                    the outputs. Of "probit": "bound" (default; 3.1.7), "log_expected", the logarithm of (4.4),
---                    "expected_log" by quadrature, or "printed_bound", 3.1.7 as it is printed, with + var f
---   predictive       of "categorical": "draws" of the outputs or "taylor"
---   prior            "normal", "log_uniform" (by quadrature), "log_uniform_approximate" (Molchanov et al. 2017) or
---                    "horseshoe" (by inverse gamma laws in closed form), of weights and biases of linear and
---                    convolutional layers; all else is trained without a prior
---   prior_precision  of the normal prior (1); the horseshoe's scale is its root's inverse
---   bias             "uncertain": as the weights; "certain": trained without prior and variance
---   sharpness        C of the gates sigmoid(C f), with "vbp": inf or a number
---   gate_kl          false; "exact" or "approximate" (3.9): the expected divergence of the gates is part of the bound.
---                    It needs a finite sharpness (the experiments of the document leave it out)
---   start            of the means: "he", normal of variance 2 / fan-in; "lecun", 1 / fan-in; "network", as they are
---   log_variance, spread    the logarithms of the variances start normal around -9 with deviation 0.001
---   structure        "diagonal"; "full": covariances between the units of a layer (3.5.3; linear layers and relu,
---                    leaky_relu, prelu as gates)
---   noise_precision  of "normal" at the start, of the margins of "probit" (1)
---   learn_noise      "normal": the precision is set to its optimum after each epoch (3.3.1; true)
---   rate             of dropout (0.5)
---   draws            {train = 1, predict = 100}: where something is drawn
---   lr               of Adam (0.001)
---   seed             of start and draws
-- help: pn.vbp, methods learner
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local form = require "penumbra.form"
local gates = require "penumbra.vbp.gates"
local heads = require "penumbra.vbp.likelihood_heads"
local methods_of = require "penumbra.vbp.method_rows"
local learner_options = require "penumbra.vbp.learner_options"
local nn = require "penumbra.nn"
local normal_outputs = require "penumbra.infer.normal_outputs"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"
local saved = require "penumbra.saved"
local train = require "penumbra.train"

local learner = {}
local methods = {}
local inner = setmetatable({}, { __mode = "k" }) -- learner -> its parts
local class = { __name = "learner", __index = core.namespace("a learner", methods) }

function class:__tostring()
  return ("learner by %s of %s"):format(self.method, tostring(self.net))
end

-- ---- making ----

local function object(o, net)
  local dtype = net:parameters()[1]:dtype()
  local noise = core.buffer(core.full({}, o.noise_precision, { dtype = dtype }))
  local whole = nn.module { net = net, noise_precision = noise }
  local self = setmetatable({ net = net, noise_precision = noise, method = type(o.method) == "string" and o.method
    or o.row.name or "own" }, class)
  inner[self] = { o = o, whole = whole, dtype = dtype }
  return self
end

--- pn.vbp.learner.
function learner.new(given)
  local o = learner_options.check(given)
  local net = learner_options.network("learner", o.network)
  if o.row.gates then
    net = gates.set_rule(net, o.row.gates, o.sharpness)
  end
  o.weights = learner_options.begin(net, o)
  return object(o, o.row.make(net, o))
end

-- The parts of a learner, and for the functions of heads what they are told.
local function parts(where, self, out)
  local p = inner[self]
  if not p then
    core.error(where .. ": needs a learner, as in m:" .. where .. "(...)")
  end
  local o = p.o
  return p, { where = where, out = out, dtype = p.dtype, objective = o.objective, predictive = o.predictive,
    draws = o.draws, noise_precision = self.noise_precision,
    draw = function(m, v, count)
      local e = core.randn({ count, table.unpack(m:shape()) }, { dtype = m:dtype(), generator = o.generator })
      return m + v:sqrt() * e
    end }
end

local function check_x(where, p, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() < 2 or x:dtype() ~= p.dtype then
    core.error(("%s: x must be %s with data along its first axis, [N, ...], got %s [%s]"):format(where, p.dtype,
      x:dtype(), table.concat(x:shape(), ", ")))
  elseif not x:isfinite():all():item() then
    core.error(where .. ": x must be finite")
  end
  return x
end

-- How many outputs a datum has, by a call on the first.
local function outputs_of(where, p, x)
  if not p.out then
    if x:size(1) == 0 then
      core.error(where .. ": x must have at least one row")
    end
    local m = recording.off(p.o.row.moments, p.whole.net, x:slice(1, 1, 1), p.o, 1, core.generator(0))
    if m:ndim() ~= 2 then
      core.error(("%s: network must give outputs [N, out], got [%s]"):format(where, table.concat(m:shape(), ", ")))
    end
    p.out = m:size(2)
  end
  return p.out
end

local function prepared(where, self, x, y)
  local p = parts(where, self)
  check_x(where, p, x)
  local _, told = parts(where, self, outputs_of(where, p, x))
  local ready = p.o.head.prepare(y, told)
  if ready:size(1) ~= x:size(1) then
    core.error(("%s: y must have %d rows like x, got %d"):format(where, x:size(1), ready:size(1)))
  end
  return p, told, ready
end

-- ---- training ----

-- A minibatch's loss, as a mean over data.
local function loss_of(p, told, num_data)
  local o, net = p.o, p.whole.net
  local objective = o.head.objectives[o.objective]
  return function(x, y)
    local m, v, cost = methods_of.outputs(o.row, net, x, o, o.generator)
    local each = objective(y, m, v, told)
    each = cost and each - cost or each
    local kl = o.row.kl(net, o)
    if o.row.loss then
      return o.row.loss(each, kl, num_data, o)
    end
    return kl / num_data - each:mean()
  end
end

local function batches(x, size)
  local from = 1 - size
  return function()
    from = from + size
    if from <= x:size(1) then
      local last = math.min(from + size - 1, x:size(1))
      return (from > 1 or last < x:size(1)) and x:slice(1, from, last) or x, from, last
    end
  end
end

-- Mean and variance of the outputs, of `count` draws where they are not closed, batch by batch.
local function moments_of(p, x, count, size, generator)
  local means, variances = {}, {}
  for part in batches(x, size) do
    local k = #means + 1
    means[k], variances[k] = p.o.row.moments(p.whole.net, part, p.o, count, generator)
  end
  if #means == 1 then
    return means[1], variances[1]
  end
  return core.concatenate(means, 1), core.concatenate(variances, 1)
end

-- 1 / beta = mean of E (y - f)^2 over all training data (3.3.1). The variance over few draws is too small by one of
-- them.
local function update_noise(self, p, x, y)
  local count = p.o.draws.train
  local precision
  if p.o.row.closed then
    precision = normal_outputs.noise_precision(y, moments_of(p, x, count, 1000, p.o.generator))
  else
    local list = {}
    for part in batches(x, 1000) do
      list[#list + 1] = p.o.row.draws(p.whole.net, part, p.o, count, p.o.generator)
    end
    precision = normal_outputs.noise_precision(y, #list == 1 and list[1] or core.concatenate(list, 2))
  end
  self.noise_precision:set(precision)
end

local fit_options = {
  data = options.required "table", epochs = options.required "number", batch_size = options.optional "number",
  lr = options.optional "number", schedule = options.optional "function", optimiser = options.any(nil),
  seed = options.optional "number", checkpoint = options.optional "string",
  checkpoint_every = options.optional "number", resume = options.optional "boolean",
  on_epoch = options.optional "function", progress = options.any(false), compile = true,
}

local function optimiser_of(p, o)
  if o.optimiser ~= nil then
    p.optimiser, p.own = o.optimiser, false
  elseif not p.optimiser then
    p.optimiser, p.own = optim.adam(p.whole:parameters(), { lr = p.o.lr }), true
  end
  if o.lr then
    learner_options.positive("fit", "lr", o.lr)
    p.optimiser.lr = o.lr
  end
  return p.optimiser
end

--- fit{data = {x, y}, epochs =, ...}: trains from where the learner stands, with the Adam it had before; returns what
--- pn.train.fit does. x [N, ...], y as the likelihood asks. After each epoch the noise of "normal" is set to its
--- optimum.
---   batch_size, lr, schedule, seed, checkpoint, checkpoint_every, resume, on_epoch, progress, compile (true)
---                    as of pn.train.fit; on_epoch runs after the noise is set
---   optimiser        another one, over m:parameters(), from here on
function methods:fit(given)
  local o = options.check("fit", given, fit_options)
  local x, y = o.data[1], o.data[2]
  local p, told, ready = prepared("fit", self, x, y)
  local own = p.o
  local learns = own.head == heads.normal and own.learn_noise
  return train.fit {
    data = { x, ready }, epochs = o.epochs, batch_size = o.batch_size, schedule = o.schedule, seed = o.seed,
    checkpoint = o.checkpoint, checkpoint_every = o.checkpoint_every, resume = o.resume, progress = o.progress,
    compile = o.compile, generator = own.generator, model = o.checkpoint and p.whole or nil,
    optimiser = optimiser_of(p, o), loss = loss_of(p, told, x:size(1)),
    on_epoch = function(s)
      if learns then
        recording.off(update_noise, self, p, x, ready)
      end
      if own.row.after_epoch then
        own.row.after_epoch()
      end
      return o.on_epoch and o.on_epoch(s)
    end,
  }
end

-- ---- predictions ----

local reading = { draws = options.optional "number", batch_size = 1000, generator = options.optional "generator" }

local function read(where, self, x, given)
  local p = parts(where, self)
  check_x(where, p, x)
  local o = options.check(where, given, reading)
  local _, told = parts(where, self, outputs_of(where, p, x))
  return p, told, o.draws or p.o.draws.predict, o.batch_size, o.generator or p.o.generator
end

--- moments(x [, {draws =, batch_size = 1000, generator =}]): mean and variance of the outputs, [N, out] each: closed
--- with "vbp" and "clt", those of draws with "local" and "dropout"; a point ("map") has the variance 0.
function methods:moments(x, given)
  local p, _, count, size, generator = read("moments", self, x, given)
  return recording.off(moments_of, p, x, count, size, generator)
end

--- draws(x [, {draws =, batch_size =, generator =}]): draws of the outputs, [draws, N, out]. Where moments are closed
--- those of a normal law at the last layer; data are drawn independently of each other.
function methods:draws(x, given)
  local p, _, count, size, generator = read("draws", self, x, given)
  return recording.off(function()
    local list = {}
    for part in batches(x, size) do
      list[#list + 1] = p.o.row.draws(p.whole.net, part, p.o, count, generator)
    end
    return #list == 1 and list[1] or core.concatenate(list, 2)
  end)
end

-- f(mean, variance, draws or nil, first row, last row) for each batch of x.
local function for_batches(p, told, x, count, size, generator, f)
  local head, row, net = p.o.head, p.o.row, p.whole.net
  local sample = not (row.closed and head.closed(told))
  for part, from, last in batches(x, size) do
    local m, v, d
    if sample then
      d = row.draws(net, part, p.o, count, generator)
    end
    if row.closed then
      m, v = row.moments(net, part, p.o, count, generator)
    else
      m, v = d:mean(1), d:var(1, 0)
    end
    f(m, v, d, from, last)
  end
end

--- predict(x [, {draws =, batch_size =, generator =}]): of "normal" {mean =, variance = of y, spread = of the outputs},
--- of the others {probabilities =, mean =, variance =} of the outputs, [N, out] each.
function methods:predict(x, given)
  local p, told, count, size, generator = read("predict", self, x, given)
  return recording.off(function()
    local lists, out = {}, {}
    for_batches(p, told, x, count, size, generator, function(m, v, d)
      for name, t in pairs(p.o.head.predict(m, v, d, told)) do
        lists[name] = lists[name] or {}
        table.insert(lists[name], t)
      end
    end)
    for name, list in pairs(lists) do out[name] = #list == 1 and list[1] or core.concatenate(list, 1) end
    return out
  end)
end

--- log_predictive(x, y [, {draws =, batch_size =, generator =}]): log of the density that predictions give to each
--- datum, [N], in nats: log of the mean over draws where they are not closed.
function methods:log_predictive(x, y, given)
  local p, told, count, size, generator = read("log_predictive", self, x, given)
  local _, _, ready = prepared("log_predictive", self, x, y)
  return recording.off(function()
    local list = {}
    for_batches(p, told, x, count, size, generator, function(m, v, d, from, last)
      list[#list + 1] = p.o.head.log_predictive(ready:slice(1, from, last), m, v, d, told)
    end)
    return core.concatenate(list, 1)
  end)
end

--- classes(x [, ...]): the most likely labels, int64 [N]: by the largest probability with "categorical", with "probit"
--- by the largest mean.
function methods:classes(x, given)
  local p = parts("classes", self)
  if not p.o.head.classes then
    core.error "classes: this likelihood has no classes"
  end
  return p.o.head.classes(self:predict(x, given))
end

--- error_rate(x, y [, ...]): the share of data whose class is another than y says; with "normal" the root mean squared
--- error.
function methods:error_rate(x, y, given)
  local p, _, ready = prepared("error_rate", self, x, y)
  if not p.o.head.classes then
    return (self:predict(x, given).mean - ready):square():mean():sqrt()
  end
  return self:classes(x, given):ne(p.o.head.labels(ready)):to("float64"):mean()
end

--- bound(x, y): the terms of the bound of all these data, in nats: {bound =, data =, gates =, weights =, num_data =},
--- bound = data - gates - weights. With "dropout" and "map" weights is -log p of the point, and the sum no bound.
function methods:bound(x, y)
  local p, told, ready = prepared("bound", self, x, y)
  local o, data, cost_of_gates = p.o, 0, 0
  return recording.off(function()
    for part, from, last in batches(x, 1000) do
      local m, v, cost = methods_of.outputs(o.row, p.whole.net, part, o, o.generator)
      data = data + o.head.objectives[o.objective](ready:slice(1, from, last), m, v, told):sum():item()
      cost_of_gates = cost_of_gates + (cost and cost:sum():item() or 0)
    end
    local kl = o.row.kl(p.whole.net, o)
    kl = core.is_tensor(kl) and kl:item() or kl
    return { bound = data - cost_of_gates - kl, data = data, gates = cost_of_gates, weights = kl,
      num_data = x:size(1) }
  end)
end

--- generate(x [, {sharpness =, generator =}]): draws the model (3.1.2) at x: weights from their prior, gates z ~
--- Bernoulli(sigmoid(C f)), y: {outputs =, y =, gates = {{input =, open =}, ...}}, the gates in the order in which they
--- are met. sharpness: C, by default the learner's own. y of "normal" alone.
function methods:generate(x, given)
  local p = parts("generate", self)
  local own = p.o
  local o = options.check("generate", given, { sharpness = own.sharpness, generator = options.optional "generator" })
  check_x("generate", p, x)
  if not own.prior_row.sample then
    core.error(('generate: prior "%s" is improper: it cannot be drawn'):format(own.prior))
  elseif not (o.sharpness > 0) then
    core.error(("generate: sharpness must be a positive number or math.huge, got %s"):format(tostring(o.sharpness)))
  end
  local generator = o.generator or own.generator
  return recording.off(function()
    local net = p.whole.net.log_scale and p.whole.net.net or p.whole.net
    local values = {}
    for _, entry in ipairs(parameters.named(net)) do
      local how = { dtype = p.dtype, generator = generator }
      values[entry[1]] = own.weights[entry[1]] and own.prior_row.sample(entry[2]:shape(), own.prior_scale, how)
        or entry[2]
    end
    local f, open = gates.generate(parameters.with(net, values), x, o.sharpness, generator)
    local y = own.head == heads.normal and f + core.randn(f:shape(), { dtype = f:dtype(), generator = generator })
      / self.noise_precision:sqrt() or nil
    return { outputs = f, y = y, gates = open }
  end)
end

-- ---- parameters and files ----

--- parameters(): what is trained, a list.
function methods:parameters()
  return parts("parameters", self).whole:parameters()
end

--- state(): the values of all parameters and of the noise's precision by name, copies.
function methods:state()
  return parts("state", self).whole:state()
end

--- load_state(t): the way back.
function methods:load_state(t)
  parts("load_state", self).whole:load_state(t)
  return self
end

--- become_prior(): makes today's posterior the prior of what comes next, with "vbp", "clt" and "local" under a normal
--- prior: one pass over a stream of batches.
function methods:become_prior()
  local p = parts("become_prior", self)
  local net = p.whole.net
  if not net.become_prior or p.o.prior ~= "normal" then
    core.error 'become_prior: needs a method with a posterior, and prior = "normal"'
  end
  net:become_prior()
  return self
end

local KIND <const> = "network learner"
local SAVED <const> = { "objective", "predictive", "prior", "prior_precision", "bias", "sharpness", "gate_kl",
  "log_variance", "spread", "structure", "noise_precision", "learn_noise", "rate", "draws", "lr" }

--- save(path): the learner with its Adam, but for its network's layers, rows and an optimiser of one's own, in a file
--- that appears whole or not at all; pn.restore makes it again. Returns true, or nil, message, code.
function methods:save(path)
  local p = parts("save", self)
  options.argument("save", "path", path, "string")
  local kept, state = {}, p.whole:state()
  for _, name in ipairs(SAVED) do kept[name] = p.o[name] end
  for _, name in ipairs { "method", "likelihood" } do
    kept[name] = type(p.o[name]) == "string" and p.o[name] or "own"
  end
  kept.sharpness = kept.sharpness < math.huge and kept.sharpness or nil
  local one_pass = false
  for name in pairs(state) do one_pass = one_pass or name:find "^net%.priors%." ~= nil end
  kept.lr = p.own and p.optimiser.lr or kept.lr
  return checkpoint.save(path, { kind = KIND, options = kept, state = state, generator = p.o.generator:state(),
    one_pass = one_pass, optimiser = p.own and p.optimiser:state() or nil })
end

local function state_form(like)
  local fields = {}
  for name, t in pairs(like) do
    fields[name] = form.tensor { like = t, finite = true, positive = name == "noise_precision"
      or name:find "^net%.priors%..*%.scale$" ~= nil }
  end
  return form.record(fields)
end

-- The options must be a table: what is in it the constructor looks at.
local function learner_form()
  return form.record { kind = form.text(KIND), options = form.map(form.any), state = form.map(form.tensor {}),
    generator = form.generator, one_pass = form.boolean, optimiser = form.optional(form.map(form.tensor {})) }
end

local learner_file = saved.file { noun = "learner of pn.vbp that m:save has written", read = checkpoint.load,
  is = function(found) return found.kind == KIND end, form = learner_form }

local function restored(found, asked)
  local o = found.options
  for _, name in ipairs { "method", "likelihood" } do
    local own = o[name] == "own"
    if own ~= (asked[name] ~= nil) then
      core.error(("restore: %s must be %s, got %s"):format(name, own and "the row that the learner had"
        or ("absent: that of the learner was '%s'"):format(tostring(o[name])), type(asked[name])))
    end
    o[name] = asked[name] or o[name]
  end
  o.network, o.start = asked.network, "network"
  local self = learner.new(o)
  if found.one_pass then
    self:become_prior()
  end
  form.check("restore", "state", found.state, state_form(self:state()))
  self:load_state(found.state)
  local p = inner[self]
  p.o.generator:set_state(found.generator)
  if found.optimiser then
    optimiser_of(p, {}):load_state(found.optimiser)
  end
  return self
end

saved.restored_by(learner_file, function(path, asked)
  local o = options.check("restore", asked, { network = options.required(), method = options.any(nil),
    likelihood = options.any(nil) })
  local found, message, code = saved.read("restore", path, learner_file)
  if not found then
    return nil, message, code
  end
  return saved.make("restore", path, restored, found, o)
end)

core.namespace("a learner", methods)

return learner
