--- Options of pn.active, pn.evidential, pn.fusion, pn.continual, pn.vbp and pn.pac, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at, made, list = battery.at, battery.made, battery.list
local active, continual, evidential, fusion, pac, vbp = pn.active, pn.continual, pn.evidential, pn.fusion, pn.pac,
  pn.vbp

local drawn = battery.drawn

local cases = {}

-- The fields of an object.
local function numbers_of(c)
  local numbers = {}
  for key, v in next, c do numbers[key] = v end
  return numbers
end

-- ---- active ----

local probs = (drawn(1, 6, 5, 3) * 2):softmax(-1) -- draws, data, classes
local x = drawn(2, 9, 2)
cases["pn.active.entropy"] = { function(o) return active.entropy(probs[1] * 0.9, o) end }
cases["pn.active.bald"] = { function(o) return active.bald(probs * 0.9, o) end }
local mean, variance = drawn(3, 4, 3), pn.rand({ 4, 3 }, { generator = pn.generator(4) }) + 0.2
cases["pn.active.bald_moments"] = { function(o) return active.bald_moments(mean, variance, o) end, {}, {
  points = 9, method = list { "closed", "draws" } }, { generator = "a row of its own", draws = "a row of its own",
  link = "a row of its own: it says what draws and methods there are" } }
cases["active.bald_moments of draws"] = { function(o) return active.bald_moments(mean, variance, o) end,
  { link = "softmax", draws = 40 }, {}, {}, method = function() return active.bald_moments end,
  only = { "generator", "link", "draws" } }
cases["pn.active.joint_entropy"] = { function(o) return active.joint_entropy(probs, o) end,
  { outcomes = 9, draws = 50 }, { outcomes = 10000 } }
cases["pn.active.batch_bald"] = { function(o)
  local places, gains = active.batch_bald(probs, 3, o)
  return places, gains
end, { outcomes = 9, draws = 50 }, { outcomes = 10000 } }
cases["pn.active.core_set"] = { function(o) return active.core_set(x, 3, o) end, {}, { labelled = x:slice(1, 4, 6) } }
cases["pn.active.returns"] = { function(o) return active.returns(pn.tensor { 1, 2, 0.5 }, o) end }
cases["pn.active.policy_loss"] = { function(o) return active.policy_loss(drawn(5, 4), drawn(6, 4), o) end, {},
  { baseline = 0.3, weights = pn.tensor { 1, 0, 2, 1 } } }

-- ---- evidential ----

local f = drawn(8, 6, 3) * 3
cases["pn.evidential.concentrations"] = { function(o) return evidential.concentrations(f, o) end, {}, { limit = 2 } }

-- ---- fusion ----

local prior = pn.dist.normal(pn.zeros { 2 }, pn.ones { 2 }):independent(1)
local function belief(seed, scale)
  return pn.dist.normal(drawn(seed, 4, 2), pn.full({ 4, 2 }, scale)):independent(1)
end
local beliefs = { belief(9, 0.5), belief(10, 0.7), belief(11, 0.6) }
local other_prior = pn.dist.normal(pn.zeros { 2 } + 0.5, pn.ones { 2 } * 1.2):independent(1)
local lit = pn.tensor { { 1, 1, 1 }, { 1, 0, 1 }, { 1, 1, 1 }, { 0, 1, 1 } }:gt(0)
local function moments(q, ...) return q:mean(), q:variance(), ... end
local both = { prior = prior }
local sides = { prior = other_prior, observed = lit }
cases["pn.fusion.product"] = { function(o) return moments(fusion.product(beliefs, o)) end, both, sides }
cases["pn.fusion.mvae"] = { function(o) return moments(fusion.mvae(beliefs, o)) end, both, sides }
cases["pn.fusion.pointwise_mutual_information"] = { function(o)
  return fusion.pointwise_mutual_information(beliefs, o)
end, both, sides }
cases["pn.fusion.conflicts"] = { function(o) return fusion.conflicts(beliefs, o) end, both, sides }
cases["pn.fusion.fuse"] = { function(o)
  local law, report = fusion.fuse(beliefs, o)
  return law:mean(), law:variance(), numbers_of(report)
end, both, { prior = other_prior, observed = lit, conflict_threshold = 1e-3, drop = at(true, {
  conflict_threshold = 1e-3 }) } }
cases["pn.fusion.mixture"] = { function(o)
  return fusion.mixture(beliefs, o):mean()
end, {}, { weights = { 0.7, 0.2, 0.1 }, observed = lit } }
cases["pn.fusion.mopoe"] = { function(o) return fusion.mopoe(beliefs, o):mean() end, both, { prior = other_prior } }
cases["pn.fusion.mmvae"] = { function(o) return fusion.mmvae(beliefs, o) end, {}, { draws = 2 } }
cases["pn.fusion.conflict_threshold"] = { function(o)
  return fusion.conflict_threshold(drawn(12, 2000, 2, 2):abs(), o)
end, { rate = 0.1 }, { rate = 0.2, confidence = 0.9 } }
cases["pn.fusion.resample"] = { function(o)
  return fusion.resample(beliefs[1], function(z) return -z:square():sum(-1) * 3 end, o)
end, { draws = 8 } }

-- ---- continual ----

local function normal(m, v) return pn.dist.normal(pn.tensor(m), pn.tensor(v):sqrt()):independent(1) end
local q0, q = normal({ 0, 0.5 }, { 1, 2 }), normal({ 0.3, -0.2 }, { 0.5, 0.4 })
local factors = pn.dist.natural.diagonal(drawn(13, 3, 2), pn.rand({ 3, 2 }, { generator = pn.generator(14) }))
local terms = { expected_log_likelihood = pn.tensor { -3, 0.2, 1 }, log_likelihood_at_mean = drawn(16, 3) }
cases["pn.continual.scores"] = { function(o) return continual.scores(factors, q, terms, o) end, {},
  { weights = pn.tensor { 1, 0.5, 0.2 } } }
cases["pn.continual.correct_bias"] = { function(o)
  local s = continual.correct_bias(factors, q0, q, o)
  return s.precision, s.precision_mean
end }
cases["pn.continual.gaussian_update"] = { function(o)
  local s, clipped = continual.gaussian_update(factors, normal({ 0, 0.5 }, { 0.4, 0.4 }), q, o)
  return s.precision, s.precision_mean, clipped
end, { kept = { 0 } }, { kept = { 1 }, num_new = 1, floor = at(0.9, { method = "divide" }),
  method = list { at("multiply", { num_new = 9 }), at("divide", { num_new = 1 }) } } }
cases["pn.continual.k_center"] = { function(o) return continual.k_center(x, 3, o) end }
local net = pn.nn.sequential { pn.nn.linear(2, 2), pn.nn.tanh(), pn.nn.linear(2, 1) }
local own_q = pn.dist.normal(pn.full({ 9 }, 0.2), pn.full({ 9 }, 0.5)):independent(1)
local other_q = pn.dist.normal(pn.full({ 9 }, 0.1), pn.full({ 9 }, 0.5)):independent(1)
local targets = drawn(17, 9, 1)
local of_sites = { draws = 7, noise_scale = 0.7, posterior = other_q, weights = pn.linspace(0.2, 1, 9),
  antithetic = at(true, { draws = 6 }), likelihood = made(function()
    return function(yy, ff) return -(yy - ff):square():sum(-1) end
  end, { noise_scale = false }), budget = made(function() return 64 end, { estimator = "hessian", draws = 40 }) }
local sites_both = { likelihood = "normal", noise_scale = 0.5, posterior = own_q, draws = 6 }
local sites_reasons = { likelihood = "spec/continual/sites_spec.lua: each by its own oracle",
  budget = "the same sums in other parts: sites_spec's blocks of data" }
local function without(t, ...)
  local copy = {}
  for key, v in pairs(t) do copy[key] = v end
  for _, key in ipairs { ... } do copy[key] = nil end
  return copy
end
cases["pn.continual.sites"] = { function(o)
  local s, t = continual.sites(net, x, targets, o)
  return s.precision, s.precision_mean, t
end, sites_both, without(of_sites, "likelihood", "budget"), sites_reasons }
cases["pn.continual.sites"][3].rows = { 0, 3 }
cases["pn.continual.site_sums"] = { function(o) return continual.site_sums(net, x, targets, o) end, sites_both,
  without(of_sites, "likelihood", "budget"), sites_reasons }
-- ---- vbp ----

local function relu_net() return pn.nn.mlp({ 2, 4, 1 }, { activation = "relu" }) end
cases["pn.vbp.relu_net"] = { function(o)
  local m = vbp.relu_net(o)
  local xs = x:to(o.dtype or "float64")
  m:observe(xs, targets:to(xs:dtype()))
  return m:predict(xs)
end, { sizes = { 2, 3, 1 }, seed = 1 }, { sizes = { 2, 4, 1 } }, {} }
local function learned(o)
  local given = without(o)
  given.network = (o.network or relu_net)()
  local m = vbp.learner(given)
  local h = m:fit { data = { x, targets }, epochs = 2, batch_size = 4 }
  local r = m:predict(x)
  return h.loss, m.noise_precision, r.mean, r.variance, m:bound(x, targets).bound
end
cases["the covariances of a pn.vbp.learner"] = { learned, { seed = 1, network = function()
  return pn.nn.mlp({ 2, 8, 8, 1 }, { activation = "relu" })
end, log_variance = -2 }, {}, {}, method = function() return vbp.learner end, only = { "structure" } }
cases["pn.vbp.learner"] = { learned, { seed = 1, network = relu_net }, {
  network = function() return pn.nn.mlp({ 2, 5, 1 }, { activation = "relu" }) end,
  method = list { "map", "dropout", "clt" }, sharpness = 5, gate_kl = at("exact", { sharpness = 5 }),
  likelihood = "student_t", draws = at({ train = 2 }, { method = "dropout" }), noise_precision = at(3, {
  learn_noise = false }), rate = at(0.2, { method = "dropout" }), spread = 0.2, lr = 0.01,
  log_variance = -5, prior_precision = 3 },
  { likelihood = "spec/vbp/likelihood_heads_spec.lua", objective = "likelihood_heads_spec's forms",
    predictive = "likelihood_heads_spec's forms",
    structure = "a row of its own: with one hidden layer there is none" } }

-- ---- pac ----

local data = { drawn(18, 60, 2), pn.tensor(drawn(18, 60, 2):select(2, 1):gt(0):to("int64"):totable(),
  { dtype = "int64" }) }
local function classifier()
  return pn.nn.mlp({ 2, 3, 2 }, { activation = "tanh", generator = pn.generator(19) })
end
local function trained(o)
  local m = pac.train(classifier(), data, o)
  local all = {}
  for k, w in ipairs(m.net:parameters()) do all[k] = w end
  return all, m.delta, m.data[1]:size(1), m.history.posterior.loss
end
cases["pn.pac.train"] = { trained, { epochs = 1, prior_epochs = 1, batch_size = 16, seed = 3 }, {
  seed = 4, bound = "lambda", bound_options = at({ weight = 2 }, { bound = "kl" }), delta = 0.2, split = 0.3,
  epochs = 2,
  prior_epochs = 2, batch_size = 8, prior_lr = 0.1, lr = 0.1, floor = 0.2, prior_scale = 0.1, estimator = "weights" },
  { checkpoint = "spec/train/resume_spec.lua", resume = "spec/train/resume_spec.lua",
    bound_options = "spec/pac/bounds_spec.lua" } }
local certified
local function bayesian()
  if not certified then
    pn.seed(20)
    certified = pn.nn.bayesian(classifier(), { posterior_scale = 0.3 }):become_prior()
    certified.net:parameters()[1]:set(certified.net:parameters()[1] + 0.1)
  end
  return certified
end
cases["pn.pac.certificate"] = { function(o) return numbers_of(pac.certificate(bayesian(), data, o)) end,
  { prior_data = false, draws = 2, delta = 0.05 }, {
  delta = 0.1, draw_delta = 0.1, bound = "quadratic", draws = 3, losses = { "error" }, joint = true, floor = 0.1,
  weights = "all" },
  { prior_data = "spec/pac/certificate_spec.lua: what is refused", bound_options = "spec/pac/bounds_spec.lua",
    batch_size = "the same bits but for what is drawn: certificate_spec" } }
cases["pn.pac.draws_bound"] = { pac.draws_bound, { risk = 0.2, draws = 20, delta = 0.05 }, { risk = 0.3, delta = 0.1 } }
cases["pn.pac.kl_inverse"] = { function(o) return pac.kl_inverse(pn.tensor(0.2), 0.1, o) end }
cases["pn.pac.split"] = { function(o)
  local a, b = pac.split(data, o)
  return a, b
end }

return cases
