--- Options of checks and comparisons, of stochastic equations, of what learns step by step, and of methods that
--- predict, for spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at, made, list = battery.at, battery.made, battery.list
local active, continual, dist, gap, infer, invariance, nn, vbp = pn.active, pn.continual, pn.dist, pn.gap, pn.infer,
  pn.invariance, pn.nn, pn.vbp

local drawn = battery.drawn
local once = battery.once
local function fields(x) return battery.fields(x, 2) end

local function with(base, more)
  local all = {}
  for _, part in ipairs { base, more } do
    for key, v in pairs(part) do all[key] = v end
  end
  return all
end

local cases = {}

local function method(name, object, call, both, others, reasons)
  cases[name] = { function(o) return call(object(), o) end, both, others, reasons,
    method = function() return object()[name:match ":(.*)$"] end }
end

-- ---- calibration ----

local gaussian = pn.model(function(m, n)
  local mu = m:sample("mu", dist.normal(0, 1))
  m:plate("rows", n, function() m:observe("y", dist.normal(mu, 2)) end)
end)
local function near_exact(shift)
  return function(observed, n)
    local y = observed.y
    local precision = 1 + y:numel() / 4
    return { mu = dist.normal(y:sum():item() / 4 / precision + shift, precision ^ -0.5):sample { n } }
  end
end
cases["pn.sbc"] = { function(o)
  local r = pn.sbc(gaussian, o)
  local ranks = {}
  for k, row in ipairs(r) do ranks[k] = fields(row) end
  return fields(r), ranks, (tostring(r):gsub("in [%d.]+ s:", ""))
end, { data = { 4 }, simulations = 10, draws = 9, sampler = near_exact(0) }, { data = { 6 }, simulations = 12,
  draws = 19, sampler = near_exact(1), level = 0.5, quantities = function(s) return { square = s.mu:square() } end },
  { simulate = "spec/infer/calibration_spec.lua", options = "spec/infer/calibration_spec.lua: of a named sampler",
    results = "spec/jobs_spec.lua" } }
cases["pn.vsbc"] = { function(o)
  local r = pn.vsbc(gaussian, "mean_field", o)
  return fields(r)
end, { data = { 4 }, simulations = 10, draws = 20, options = { steps = 2 } }, { data = { 6 }, simulations = 12,
  options = { steps = 3 } }, { simulate = "spec/infer/calibration_spec.lua", results = "spec/jobs_spec.lua" } }
cases["pn.calibration"] = { function(o)
  return fields(pn.calibration(drawn(1, 9):round(), drawn(2, 12, 9):round(), o))
end, {}, { levels = { 0.5, 0.9 } } }
local coin = pn.model(function(m, y)
  local mu = m:sample("mu", dist.normal(0, 1))
  m:plate("rows", y:size(1), function() m:observe("y", dist.normal(mu, 1), y) end)
end)
local function short(m, data) return pn.nuts(m, { data = data, chains = 1, warmup = 5, draws = 6 }) end
local data = { drawn(3, 6) }
cases["pn.k_fold"] = { function(o)
  local r = pn.k_fold(coin, o)
  return r.elpd, r.pointwise, r.folds
end, { data = data, folds = 2, fit = short }, { data = { drawn(4, 6) }, folds = 3, fit = function(m, d)
  return pn.nuts(m, { data = d, chains = 1, warmup = 5, draws = 9 })
end }, { rows = "spec/infer/compare_spec.lua", generator = "of the folds: fit draws of its own" } }
local fits = once(function()
  return { a = short(coin, data):loo(), b = short(pn.model(function(m, y)
    local mu = m:sample("mu", dist.normal(1, 1))
    m:plate("rows", y:size(1), function() m:observe("y", dist.laplace(mu, 1), y) end)
  end), data):loo() }
end)
cases["pn.compare"] = { function(o)
  local r = pn.compare(fits(), o)
  local all = {}
  for k, row in ipairs(r) do all[k] = fields(row) end
  return all
end, { draws = 30 }, {}, { site = "spec/infer/compare_spec.lua" } }
cases["pn.diagnose"] = { function(o)
  local d = pn.diagnose(coin, o)
  return tostring(d)
end, { data = data }, { data = { drawn(3, 6) + 9 }, draws = 7 } }

-- ---- Laplace ----

local inputs, targets = drawn(5, 8, 2), drawn(6, 8, 1)
local function normal_law(f) return dist.normal(f, 1):independent(1) end
local network = once(function() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) } end)
cases["pn.infer.laplace"] = { function(o)
  local la = infer.laplace(network(), inputs, targets, o)
  return la:log_evidence(), la:linearised(inputs):variance()
end, { likelihood = normal_law }, { prior_precision = 3, likelihood = function(f)
  return dist.normal(f, 2):independent(1)
end } }

-- ---- stochastic equations ----

local times = pn.tensor { 0, 0.5, 1 }
local function drift(_, y) return y:sin() - y end
local function diffusion(_, y) return y * 0 + 0.3 + y:square() * 0.1 end
cases["pn.sde"] = { function(o)
  local f = diffusion
  if o.method == "sra1" then f = function(t, y) return (t + 0.3) * pn.ones_like(y) end end
  return pn.sde(drift, f, pn.ones { 2, 2 }, times, o)
end, { step = 0.1 }, { step = 0.05, method = list { "milstein", "heun" }, calculus = at("stratonovich", { method =
  "milstein" }), path = made(function() return pn.brownian { seed = 3, shape = { 2, 2 } } end) },
  { noise = "spec/autodiff/sde_spec.lua", parameters = "spec/autodiff/sde_gradient_spec.lua",
    per_path = "spec/autodiff/sde_gradient_spec.lua", gradient = "spec/autodiff/sde_gradient_spec.lua",
    chunk = "the same paths in other parts: spec/autodiff/sde_spec.lua", adaptive = "a row of its own",
    rtol = "a row of its own", atol = "a row of its own", first_step = "a row of its own",
    max_steps = "a row of its own", calculus = "spec/autodiff/sde_order_spec.lua" } }
cases["pn.sde of adapted steps"] = { function(o)
  return pn.sde(drift, diffusion, pn.ones { 2, 2 }, times, o)
end, { adaptive = true, method = "milstein", path = made(function()
  return pn.brownian { seed = 3, shape = { 2, 2 } }
end), rtol = 1e-2, atol = 1e-2 }, { rtol = 1e-1, atol = 0.1, first_step = 0.01,
  max_steps = battery.refused(3, "steps") },
  {}, method = function() return pn.sde end, only = { "rtol", "atol", "first_step", "max_steps" } }
cases["pn.brownian"] = { function(o)
  local b = pn.brownian(o)
  return b:increment(0.1, 0.7)
end, { seed = 3, shape = { 2 } }, { shape = { 3 }, start = 0.05, tolerance = 0.3 } }

-- ---- divergences of chains ----

local spd = pn.tensor { { 0.5, 0.1 }, { 0.1, 0.3 } }
local chain = { loc = pn.tensor { 0, 1 }, covariance = spd, matrix = pn.eye(2) * 0.7, noise = spd }
local other = { loc = pn.tensor { 0.5, 1 }, covariance = spd * 2, matrix = pn.eye(2) * 0.5, noise = spd * 1.5 }
cases["pn.dist.kl_gaussian_chain"] = { function(o) return dist.kl_gaussian_chain(o, other, 3) end, chain,
  { loc = other.loc, covariance = other.covariance, matrix = other.matrix, noise = other.noise,
    offset = pn.tensor { 1, 0 } } }
cases["pn.dist.kl_markov_chain"] = { function(o)
  return dist.kl_markov_chain(o, { initial = { 0.5, 0.5 }, transition = { { 0.6, 0.4 }, { 0.1, 0.9 } } }, 3)
end, { initial = { 0.3, 0.7 }, transition = { { 0.5, 0.5 }, { 0.2, 0.8 } } }, { initial = { 0.4, 0.6 },
  transition = { { 0.6, 0.4 }, { 0.2, 0.8 } } } }
local slope = drawn(7, 4, 3, 2)
cases["pn.dist.kl_path"] = { function(o) return dist.kl_path(o) end, { drift = slope, diffusion = 0.5, step = 0.1 },
  { drift = slope * 2, diffusion = 0.7, step = 0.2 }, { diffusion_matrix = "spec/distribution/document_spec.lua" } }

-- ---- gaps by optimisation, invariant layers ----

local vae = once(function() return pn.models.vae { data = 4, latent = 2, hidden = { 3 } } end)
local rows = pn.rand({ 12, 4 }, { generator = pn.generator(8) }):gt(0.5):to "float64"
cases["pn.gap.measure"] = { function(o) return fields(gap.measure(vae(), nil, rows, o)) end,
  { steps = 2, rounds = 2, draws = 2, judge_draws = 4, importance_draws = 8, widths = { 1 }, batch_size = 4 }, {
  steps = 3, rounds = 3, draws = 3, judge_draws = 5, importance_draws = 9, widths = { 2 }, batch_size = 5, lr = 0.2,
  log_likelihood = function(x) return pn.full({ x:size(1) }, -1) end, tolerance = 100, local_batch = 5 },
  { judge_draws = "spec/gap/measure_spec.lua", split = "spec/gap/measure_spec.lua", training =
    "spec/gap/measure_spec.lua", widths = "spec/gap/measure_spec.lua: the mask of these hides nothing" } }
local bayesian = once(function() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) } end)
cases["pn.invariance.fit_layers"] = { function(o)
  local f = invariance.fit_layers(bayesian(), o)
  return f:predict(inputs, { draws = 3, generator = pn.generator(4) }), f.objective, f.sweeps
end, { x = inputs, y = targets, noise_scale = 0.5, steps = 2, draws = 2, input_draws = 3, max_sweeps = 2 }, {
  x = inputs * 2, y = targets * 2, noise_scale = 0.7, steps = 3, draws = at(3, { kl = "mixture" }), input_draws = 4,
  max_sweeps = 1, lr = 0.1, prior_scale = 2, scale = 0.3, tolerance = 100, log_likelihood = made(function() end) },
  { log_likelihood = "spec/invariance/layerwise_spec.lua", tolerance = "spec/invariance/layerwise_spec.lua",
    draws = "spec/invariance/layerwise_spec.lua" } }
cases["pn.invariance.fit_layers"][3].log_likelihood = nil
local datum = pn.tensor { 0.4, -1 }
cases["pn.invariance.translate_network"] = { function(o)
  return fields(invariance.translate_network(bayesian(), datum, o))
end, {}, { layer = 2, scale = 2, pivot = 1, delta = at(pn.ones { 3, 2 }, { layer = 1 }) },
  { pivot = "spec/invariance/transform_spec.lua" } }

-- ---- evidential learning ----

local classes = pn.tensor({ 0, 1, 2, 1, 0, 2, 1, 0 }, { dtype = "int64" })
local function evidential_of(name, both, others, only)
  cases["pn.evidential.row " .. name] = { function(o)
    local row = pn.evidential.row(name:match "^%S+", o)
    local m = vbp.learner { network = nn.mlp({ 2, 4, o.likelihood == "normal" and 2 or 3 }, { activation = "relu" }),
      method = row, seed = 1, likelihood = o.likelihood == "normal" and "normal" or nil }
    local y = o.likelihood == "normal" and targets or classes
    local h = m:fit { data = { inputs, y }, epochs = 2, batch_size = 4 }
    return h.loss, m:log_predictive(inputs, y)
  end, both, others, {}, method = function() return pn.evidential.row end, only = only }
end
evidential_of("bedl", {}, { draws = 3, limit = 0.1 }, { "draws" })
evidential_of("edl", {}, { anneal_epochs = 3, limit = 0.1 }, { "annealing", "anneal_epochs", "evidence", "limit" })
evidential_of("bedl_pac", {}, { delta = 0.5 }, { "delta", "divergence", "log_constant" })
evidential_of("bedl_hyper", {}, { concentration = 3, rate = 0.5 }, { "concentration", "rate" })
evidential_of("bedl normal", { likelihood = "normal" }, { noise_precision = 3 }, { "noise_precision" })
local learner = once(function()
  local l = pn.evidential.learner { network = nn.mlp({ 2, 4, 3 }, { activation = "relu" }), seed = 1, method = "bedl" }
  l:fit { data = { inputs, classes }, epochs = 1 }
  return l
end)
for _, name in ipairs { "predict", "draws" } do
  local call = function(l, o)
    local r = l[name](l, inputs, with({ generator = pn.generator(5) }, o))
    return pn.is_tensor(r) and r or fields(r)
  end
  method("evidential_learner:" .. name, learner, call, { draws = 4 }, {},
    { batch_size = "the same in other parts: spec/vbp/network_learner_spec.lua" })
end

-- ---- active learning ----

local x, weights = drawn(9, 7, 2), drawn(10, 4, 2, 3)
local function of_weights(z, k) return z:matmul(weights[k]):softmax(-1) end
local function predictions(m)
  local p = m:predict(x, pn.generator(3))
  return p, m:features(x), m:weight_draws(x, 2, pn.generator(3)) or 0
end
cases["pn.active.predictor"] = { function(o) return predictions(active.predictor(o)) end,
  { classes = 3, probabilities = function(z) return of_weights(z, 1) end }, {
  classes = battery.refused(2, "[7, 2]"), probabilities = function(z) return of_weights(z, 2) end,
  features = function(z) return z * 2 end, moments = made(function()
    return function(z) return z:matmul(weights[1]), z:matmul(weights[2]):square() end
  end, { probabilities = false }), link = at("probit"), batch_size = 2,
  weight_draws = function(z, n) return pn.stack({ of_weights(z, 1), of_weights(z, 2) }, 1):slice(1, 1, n) end },
  { fit = "spec/active/pool_spec.lua", keep = "spec/active/pool_spec.lua: its file", link = "a row of its own",
    moments = "a row of its own", batch_size = "a row of its own" } }
cases["pn.active.predictor by moments"] = { function(o) return predictions(active.predictor(o)) end,
  { classes = 3, moments = function(z) return z:matmul(weights[1]), z:matmul(weights[2]):square() end },
  { moments = function(z) return z:matmul(weights[2]), z:matmul(weights[2]):square() end }, {},
  method = function() return active.predictor end, only = { "moments", "link" } }
cases["pn.active.predictor in parts"] = { function(o)
  local seen = {}
  o.classes, o.probabilities = 3, function(z)
    seen[#seen + 1] = z:size(1)
    return of_weights(z, 1)
  end
  active.predictor(o):predict(x)
  return seen
end, {}, { batch_size = 2 }, {}, method = function() return active.predictor end, only = { "batch_size" } }
local uncertain = once(function()
  return nn.bayesian(nn.sequential { nn.linear(2, 3), nn.relu { rule = "clt" }, nn.linear(3, 3) },
    { posterior_scale = 0.3 })
end)
cases["pn.active.network"] = { function(o) return predictions(active.network(uncertain(), o)) end,
  { classes = 3, draws = 5 }, { classes = battery.refused(2, "[7, 2]"), by = "draws",
  features = function(z) return z * 2 end }, { fit = "spec/active/pool_spec.lua", keep = "spec/active/pool_spec.lua",
  batch_size = "pn.active.predictor in parts" } }
cases["pn.active.pool"] = { function(o)
  local pool = active.pool(o)
  local all = {}
  for k = 1, 2 do
    local asked = pool:ask()
    if not asked then break end
    all[k] = asked
    pool:tell(pn.zeros({ all[k]:size(1) }, { dtype = "int64" }))
  end
  return all
end, { x = drawn(11, 12, 2), model = active.predictor { classes = 3, probabilities = function(z)
  return of_weights(z, 1)
end }, first = 3, count = 2 }, {
  x = drawn(12, 12, 2) * 3, acquisition = "margin", first = 4, count = 3, max_labels = 4, candidates = 3,
  model = active.predictor { classes = 3, probabilities = function(z) return of_weights(z, 2) end } },
  { y = "spec/active/pool_spec.lua: answers of its own", acquisition = "spec/active/pool_spec.lua, each by its name" } }

-- ---- continual learning ----

local q, prior = dist.normal(pn.tensor { 0.3, -0.2 }, pn.tensor { 0.5, 0.4 }):independent(1),
  dist.normal(pn.zeros { 2 }, 1):independent(1)
for name, base in pairs { bayesian_forgetting = { rate = 0.2 }, ornstein_uhlenbeck = { stiffness = 0.2 },
  wiener = { rate = 0.2 } } do
  cases["pn.continual." .. name] = { function(o)
    local law = continual[name](o):apply(q, prior, 3)
    return law.precision, law.precision_mean
  end, base, { rate = base.rate and 0.4 or nil, stiffness = base.stiffness and 0.4 or nil, lag = 2 },
    { lag = "spec/continual/adaptation_spec.lua", variance_rate = name == "wiener" and "a row of its own" or nil } }
end
cases["pn.continual.wiener by variance_rate"] = { function(o)
  return continual.wiener(o):apply(q, prior, 3).precision
end, { variance_rate = 0.1 }, { variance_rate = 0.3 }, {}, method = function() return continual.wiener end,
  only = { "variance_rate" } }
local function small_net() return nn.sequential { nn.linear(2, 2, { generator = pn.generator(1) }), nn.tanh(),
  nn.linear(2, 1, { generator = pn.generator(2) }) } end
cases["pn.continual.learner"] = { function(o)
  local l = continual.learner(with(o, { network = small_net() }))
  local y = o.likelihood == "bernoulli" and targets:gt(0):to "float64" or targets
  l:observe(inputs:slice(1, 1, 4), y:slice(1, 1, 4), 1)
  l:observe(inputs:slice(1, 5, 8), y:slice(1, 5, 8), 2)
  local r = l:predict(inputs, { generator = pn.generator(7) })
  return pn.is_tensor(r) and r or fields(r)
end, { network = small_net, likelihood = "normal", noise = 0.5, seed = 3, draws = { train = 2, sites = 4, predict = 5 },
  steps = { first = 4, later = 3 }, memory = { size = 2 } }, {
  likelihood = at("bernoulli", { noise = false }), noise = 0.7, draws = { train = 3, sites = 4, predict = 5 },
  steps = { first = 4, later = 2 }, memory = { size = 3 }, optimiser = { lr = 0.2 }, initial = { alpha = 0.1 },
  prior = dist.normal(0, 3), update = "refit", forget = made(function()
    return continual.bayesian_forgetting { rate = 0.3 }
  end), guard = { floor = 0.99 } }, { network = "spec/continual/learner_spec.lua",
  likelihood = "spec/continual/learner_spec.lua", estimator = "spec/continual/learner_spec.lua",
  prior = "spec/continual/learner_spec.lua", guard = "spec/continual/learner_spec.lua",
  progress = "spec/continual/learner_spec.lua: a function" } }

-- ---- side by side ----

local function relu_net() return nn.mlp({ 2, 3, 1 }, { activation = "relu" }) end
cases["pn.vbp.compare"] = { function(o)
  local r = vbp.compare(o)
  local all = {}
  for k, row in ipairs(r) do
    all[k] = { row.method, row.seed, row.loss, row.log_likelihood, row.error, row.bound, row.noise_precision }
  end
  return all
end, { network = relu_net, methods = { "vbp" }, data = { inputs, targets }, epochs = 2 }, {
  network = function() return nn.mlp({ 2, 4, 1 }, { activation = "relu" }) end, methods = { "map" },
  data = { inputs * 2, targets }, epochs = 3, test = { inputs * 2, targets }, seeds = { 2 }, lr = 0.1, batch_size = 3,
  schedule = function(k) return 0.1 / k end } }

-- ---- networks ----

local sequence = drawn(13, 5, 2, 3)
cases["pn.nn.recurrent"] = { function(o)
  local net = nn.recurrent("rnn", 3, 4, o)
  return (net(sequence, pn.generator(7)))
end, { layers = 2 }, { layers = 3, bidirectional = true, dropout = 0.5, options = { activation = "relu" } },
  { dropout = "spec/nn/recurrent_spec.lua" } }
local outputs = drawn(14, 4, 1)
for name, others in pairs { normal = { scale = 2, log_scale = 0.3, precision = 3 }, student_t = { df = 3, scale = 2 },
  negative_binomial = { dispersion = 0.2 }, probit = { precision = 2 } } do
  for option, value in pairs(others) do
    cases[("pn.nn.likelihood.%s by %s"):format(name, option)] = { function(o)
      local law = nn.likelihood[name](o):law(name == "student_t" and drawn(14, 4, 1, 2) or outputs)
      return law:log_prob(name == "normal" and outputs * 0.5 or pn.ones { 4, 1 })
    end, { [option] = value }, { [option] = value * 2 }, {}, method = function() return nn.likelihood[name] end,
      only = { option } }
  end
end

-- ---- models that draw ----

for name, make in pairs { factor_analysis = function() return pn.models.factor_analysis { data = 2, latent = 1 } end,
  gaussian_mixture = function() return pn.models.gaussian_mixture { data = 2, components = 2 } end } do
  method(name .. ":generate", once(make), function(m, o) return m:generate(3, o) end)
end
local flights = once(function() return gap.flights { steps = 3 } end)
method("flights:sample", flights, function(s, o) return s:sample(3, o) end, {}, {},
  { dtype = "spec/gap/surrogate_spec.lua", seed = "a row of its own" })
cases["flights:sample by seed"] = { function(o) return flights():sample(3, o) end, {}, {}, {},
  method = function() return flights().sample end, only = { "seed" } }
local em_model = { data = 4, latent = 2, hidden = { 3 } }
cases["pn.models.variational_em"] = { function(o)
  local m = pn.models.variational_em(o)
  m:fit { data = rows:to(o.dtype or "float64"), epochs = 1, steps = 1 }
  return m:parameters()[1], m:posteriors():mean()
end, em_model, { data = battery.refused(5, "5"), latent = 3, hidden = { 5 }, decoder = "normal", activation = "relu",
  noise = at("network", { decoder = "normal" }) }, { categories = "pn.models.vae", components = "pn.models.vae" } }
cases["variational_em:fit"] = { function(o)
  local m = pn.models.variational_em(em_model)
  m:fit(o)
  return m:parameters()[1], m:posteriors():mean()
end, { data = rows, epochs = 2 }, { data = 1 - rows, epochs = 3, steps = 2, batch_size = 5, draws = 3, lr = 0.1,
  posterior_lr = 0.3 }, {}, method = function() return pn.models.variational_em(em_model).fit end }
local em = once(function()
  local m = pn.models.variational_em(em_model)
  m:fit { data = rows, epochs = 1, steps = 1 }
  return m
end)
method("variational_em:infer", em, function(m, o) return m:infer(rows, o):mean() end, { steps = 3, draws = 2 }, {
  steps = 4, draws = 3, lr = 0.3 })
method("variational_em:bound", em, function(m, o) return fields(m:bound(rows, o)) end, { steps = 3, draws = 2 })

return cases
