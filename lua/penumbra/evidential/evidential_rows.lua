--- Evidential methods as rows of penumbra.vbp.method_rows, so that they stand in one table with variational ones. Each
--- is told options and gives a row with a likelihood of its own; means and variances pass by moment matching, one
--- independent draw of all weights for each datum, so that its likelihood is log of a mean (5.1).
-- help: none
local array = require "penumbra.array"
local core = require "penumbra.core"
local evidence = require "penumbra.evidential.evidence"
local nn = require "penumbra.nn"
local heads = require "penumbra.vbp.likelihood_heads"
local method_rows = require "penumbra.vbp.method_rows"
local options = require "penumbra.options"

local evidential_rows = {}

local WHERE <const> = "rows"

local known = { likelihood = options.choice("categorical", "normal"), draws = 5, limit = 15,
  evidence = options.choice("exp", "relu"), annealing = options.choice("linear", "none"), anneal_epochs = 10,
  divergence = options.choice("sum", "mean"), log_constant = options.choice("bound", "log_n"), delta = 0.1,
  prior_precision = 1, noise_precision = 100, concentration = 1, rate = 0.01 }

local function check(method, given)
  local o = options.check(WHERE, given, known)
  for _, name in ipairs { "prior_precision", "noise_precision", "concentration", "rate", "limit" } do
    if not (o[name] > 0 and o[name] < math.huge) then
      core.error(("%s: %s must be a positive number, got %s"):format(WHERE, name, tostring(o[name])))
    end
  end
  if not (o.delta > 0 and o.delta < 1) then
    core.error(("%s: delta must lie strictly between 0 and 1, got %g"):format(WHERE, o.delta))
  elseif method == "edl" and o.likelihood == "normal" then
    core.error(WHERE .. ': edl is of classes: likelihood must be "categorical"')
  end
  options.whole(WHERE, "anneal_epochs", o.anneal_epochs, 1)
  return o
end

-- ---- likelihoods ----

-- Of classes: the objective keeps in `step` what the loss needs of the same draws.
local function class_head(o, step, wants)
  local head = { doc = "labels int64 [N], log of the mean probability over draws of the outputs", default = "log_mean",
    prepare = heads.categorical.prepare, classes = heads.categorical.classes, labels = heads.categorical.labels }
  function head.closed() return false end
  head.objectives = {
    log_mean = function(y, m, v, told)
      local f = v and told.draw(m, v, o.draws) or m:unsqueeze(1)
      step.divergence = wants and evidence.divergence(evidence.concentrations(f, { limit = o.limit })):mean(1) or nil
      return evidence.log_mean(y, f)
    end,
  }
  function head.predict(m, v, f)
    local p, epistemic, aleatoric = evidence.parts(f:softmax(-1))
    return { probabilities = p, mean = m, variance = v, epistemic = epistemic, aleatoric = aleatoric }
  end
  function head.log_predictive(y, _, _, f) return evidence.log_mean(y, f) end
  return head
end

-- Of numbers: two outputs for each, its mean and the logarithm of its law's variance; two_outputs false (blnn): one.
local function number_head(o, step, two_outputs, wants)
  local noise = 1 / o.noise_precision
  local function moments(m, v)
    v = v or m:zeros_like()
    if two_outputs then return evidence.normal(m, v, noise) end
    return m, v, v:zeros_like() + noise
  end
  local head = { doc = "numbers under normal noise of fixed precision", default = "log_marginal" }
  function head.closed() return true end
  function head.prepare(y, told)
    local width = two_outputs and told.out // 2 or told.out
    local fits = core.is_tensor(y) and (y:ndim() == 1 and width == 1 or y:ndim() == 2 and y:size(2) == width)
    if not fits or two_outputs and told.out % 2 == 1 then
      core.error(("%s: y must be [N, %d]: the network has %d outputs, %s"):format(told.where, width, told.out,
        two_outputs and "two for each number, first all means, then all logarithms of variances" or "one a number"))
    end
    return (y:ndim() == 1 and y:unsqueeze(2) or y):to(told.dtype)
  end
  local function log_marginal(y, m, v)
    local mean, epistemic, aleatoric = moments(m, v)
    local law = epistemic + aleatoric - noise -- of the mean of y, without the noise
    step.divergence = wants and evidence.normal_divergence(mean, law, o.prior_precision) or nil
    return evidence.log_normal(y, mean, epistemic + aleatoric)
  end
  head.objectives = { log_marginal = log_marginal }
  function head.predict(m, v)
    local mean, epistemic, aleatoric = moments(m, v)
    return { mean = mean, variance = epistemic + aleatoric, epistemic = epistemic, aleatoric = aleatoric }
  end
  function head.log_predictive(y, m, v)
    local mean, epistemic, aleatoric = moments(m, v)
    return evidence.log_normal(y, mean, epistemic + aleatoric)
  end
  return head
end

local function head_of(o, step, two_outputs, wants)
  return o.likelihood == "categorical" and class_head(o, step, wants) or number_head(o, step, two_outputs, wants)
end

-- ---- rows ----

-- A row of moment matching, whose weights have no prior.
local function local_row(name, doc, head)
  local base = method_rows.rows.clt
  return { name = name, doc = doc, gates = "clt", closed = true, make = base.make, outputs = base.outputs,
    moments = base.moments, draws = base.draws, kl = function() return 0 end, likelihood = head }
end

local makers = {}

makers.blnn = function(o)
  return local_row("blnn", "Bayesian local network: log of the likelihood's mean over weights, by type-II likelihood",
    head_of(o, {}, false))
end

makers.bedl = function(o)
  return local_row("bedl", "Bayesian evidential deep learning: log of the marginal likelihood (5.7, 5.4)",
    head_of(o, {}, true))
end

-- log p of means under N(0, 1 / prior_precision) and of variances under InvGamma(concentration, rate), summed.
local function log_hyperprior(net, o)
  local total
  local shape, rate = o.concentration, o.rate
  local constant = shape * math.log(rate) - core.tensor(shape):lgamma():item()
  for _, name in ipairs(net.names) do
    local q = net:posterior(name)
    local mean, log_variance = q:mean(), net.log_scale[name] * 2
    local part = (mean:square() * (-0.5 * o.prior_precision) + 0.5 * math.log(o.prior_precision / (2 * math.pi))
      - log_variance * (shape + 1) - (-log_variance):exp() * rate + constant):sum()
    total = total and total + part or part
  end
  return total
end

makers.bedl_hyper = function(o)
  local row = local_row("bedl_hyper", "BEDL with priors on means and variances of the weights (5.3.1), their maximum",
    head_of(o, {}, true))
  function row.kl(net) return -log_hyperprior(net, o) end
  row.log_prior = function(net) return log_hyperprior(net, o) end
  return row
end

-- sqrt((KL - log delta) / N + log B / N) (5.10). The divergence is one of all data, so that KL / N is the mean of
-- theirs; "mean" weighs it N times less.
local function regulariser(o, each, num_data)
  local kl = each:mean()
  kl = o.divergence == "mean" and kl / num_data or kl
  local constant = o.log_constant == "log_n" and math.log(num_data) / num_data
    or o.likelihood == "categorical" and 1 or o.noise_precision / (2 * math.pi)
  return (kl + (constant - math.log(o.delta) / num_data)):sqrt()
end

makers.bedl_pac = function(o)
  local step = {}
  local row = local_row("bedl_pac", "BEDL with a PAC-Bayes bound as its regulariser (5.10)",
    head_of(o, step, true, true))
  function row.loss(log_likelihood, _, num_data)
    return regulariser(o, step.divergence, num_data) - log_likelihood:mean()
  end
  return row
end

-- ---- a deterministic network ----

local function edl_head(o, state)
  local head = { doc = "labels int64 [N] by a Dirichlet law of their probabilities", default = "squares",
    prepare = heads.categorical.prepare, classes = heads.categorical.classes, labels = heads.categorical.labels }
  local function alpha_of(f) return evidence.concentrations(f, { evidence = o.evidence, limit = o.limit }) end
  function head.closed() return true end
  head.objectives = {
    squares = function(y, m)
      local alpha, hot = alpha_of(m), array.one_hot(y, m:size(-1), m:dtype())
      return -(evidence.squares(hot, alpha)
        + evidence.divergence(evidence.misleading(hot, alpha)) * state.share(m:dtype()))
    end,
  }
  function head.predict(m, v)
    local alpha = alpha_of(m)
    local p = alpha / alpha:sum({ -1 }, true)
    return { probabilities = p, mean = m, variance = v, epistemic = p:zeros_like(), aleatoric = p * (1 - p),
      concentration = alpha }
  end
  function head.log_predictive(y, m)
    local alpha = alpha_of(m)
    return (alpha / alpha:sum({ -1 }, true)):log():gather(-1, y:unsqueeze(-1)):squeeze(-1)
  end
  return head
end

makers.edl = function(o)
  local state = {}
  local base = method_rows.rows.map
  local row = { name = "edl", doc = "evidential deep learning (Sensoy, Kaplan & Kandemir 2018): deterministic",
    closed = true, point = true, outputs = base.outputs, moments = base.moments, draws = base.draws,
    kl = function() return 0 end, likelihood = edl_head(o, state) }
  -- epochs so far are part of the network, so that a run that is resumed goes on with them
  function row.make(net)
    state.epochs = core.buffer(core.zeros({}, { dtype = net:parameters()[1]:dtype() }))
    return nn.module { net = net, epochs = state.epochs,
      forward = function(self, x, generator) return self.net(x, generator) end }
  end
  function state.share()
    return o.annealing == "none" and 1 or (state.epochs / o.anneal_epochs):clamp(0, 1)
  end
  function row.after_epoch() state.epochs:set(state.epochs:detach() + 1) end
  return row
end

--- names(): the methods in the order of the document.
function evidential_rows.names() return { "blnn", "edl", "bedl", "bedl_hyper", "bedl_pac" } end

--- row(method, options): a row of that method.
function evidential_rows.row(method, given)
  options.argument(WHERE, "method", method, "string")
  if not makers[method] then
    core.error(("%s: there is no method '%s'%s"):format(WHERE, method, options.suggestion(method,
      evidential_rows.names())))
  end
  return makers[method](check(method, given))
end

--- known: the options of rows.
evidential_rows.known = known

return evidential_rows
