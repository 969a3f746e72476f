--- Options of samplers, of inference and of networks and models that other specs leave out, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at, made, list = battery.at, battery.made, battery.list
local dist, infer, nn, smc = pn.dist, pn.infer, pn.nn, pn.smc

local drawn = battery.drawn
local function fields(x) return battery.fields(x, 0) end

local cases = {}

-- ---- samplers of a posterior ----

local coin = pn.model(function(m, y)
  local mu = m:sample("mu", dist.normal(0, 1))
  local scale = m:sample("scale", dist.gamma(2, 2))
  m:plate("rows", y:size(1), function() m:observe("y", dist.normal(mu, scale + 0.2), y) end)
end)
local data = { drawn(1, 5) + 1 }
local function draws_of(p) return p.draws, p.statistics and p.statistics.accept end
local tiny = { data = data, chains = 1, warmup = 12, draws = 4 }
local function with(base, more)
  local all = {}
  for _, part in ipairs { base, more } do
    for key, v in pairs(part) do all[key] = v end
  end
  return all
end
local of_hmc = { chains = 2, warmup = 14, draws = 5, data = { drawn(2, 5) }, init = made(function()
  return { mu = pn.tensor(0.3), scale = pn.tensor(1) }
end), radius = 0.5, target_accept = 0.6, schedule = at("stan", { warmup = 60 }), estimator = at("stan", {
  warmup = 60 }), metric = list { at("diagonal", { warmup = 60 }), at("dense", { warmup = 60 }) } }
cases["pn.nuts"] = { function(o) return draws_of(pn.nuts(coin, o)) end, with(tiny, { warmup = 40 }),
  with(of_hmc, { max_depth = 1 }) }
cases["pn.hmc"] = { function(o) return draws_of(pn.hmc(coin, o)) end, with(tiny, { steps = 3, warmup = 40 }),
  with(of_hmc, { steps = 5 }) }
for name, choices in pairs { schedule = { "stan" }, estimator = { "stan" }, metric = { "diagonal", "dense" } } do
  cases["pn.nuts"][3][name], cases["pn.hmc"][3][name] = list(choices), list(choices)
end

local chain = pn.model(function(m, y)
  local rate = m:sample("rate", dist.beta(2, 2))
  local x0 = m:sample("x0", dist.normal(0, 1))
  m:scan("steps", y:size(1), x0, function(before, t)
    local x = m:sample("x", dist.normal(before * rate, 1))
    m:observe("y", dist.normal(x, 1), y[t])
    return x
  end)
end)
local series = { drawn(3, 4) * 1.5 }
local schemes = list { "multinomial", "stratified" }
local of_chain = { data = { drawn(4, 4) }, num_particles = 9, resampling = schemes, threshold = 1 }
local where_of = { parameters = "spec/smc/scan_parameter_spec.lua", state = "spec/smc/scan_parameter_spec.lua" }
local function particle_draws(p) return p.draws.rate, p.log_evidence end
local pmcmc = { data = series, warmup = 6, draws = 6, num_particles = 8, chains = 1 }
cases["pn.smc.pmmh"] = { function(o) return particle_draws(smc.pmmh(chain, o)) end, pmcmc,
  with(of_chain, { warmup = 30, draws = 7, chains = 2, threshold = 0.99, target_accept = at(0.9, { warmup = 30 }),
    init = { rate = pn.tensor(0.9) } }), where_of }
cases["pn.smc.particle_gibbs"] = { function(o) return particle_draws(smc.particle_gibbs(chain, o)) end, pmcmc,
  { data = of_chain.data, num_particles = 9, warmup = 9, draws = 7, chains = 2, moves = 2,
    target_accept = at(0.9, { warmup = 30 }), init = { rate = pn.tensor(0.9) } }, { state = where_of.state } }
cases["pn.smc.liu_west"] = { function(o)
  local r = smc.liu_west(chain, o)
  return r.draws.rate, r.history.rate.mean, r.history.rate.sd
end, { data = series, num_particles = 12 }, with(of_chain, { num_particles = 13, discount = 0.8,
  lookahead = at(false, { lookahead = true }) }), where_of }
cases["pn.smc.smc2"] = { function(o)
  local r = smc.smc2(chain, o)
  return r.log_evidence, r.draws and r.draws.rate
end, { data = series, num_parameters = 6, num_particles = 8, threshold = 0.9, max_moves = 2 },
  with(of_chain, { num_parameters = 7, threshold = 0.2, max_moves = 1 }), with(where_of, {
    mixing = "spec/smc/pmcmc_spec.lua", least_accept = "a row of its own", most_particles = "a row of its own" }) }
cases["pn.smc.smc2 that takes more particles"] = { function(o)
  local r = smc.smc2(chain, o)
  return r.log_evidence, r.draws and r.draws.rate
end, { data = series, num_parameters = 6, num_particles = 4, threshold = 0.99, max_moves = 3, least_accept = 0.999 },
  { least_accept = 0.001, most_particles = 4 }, {}, method = function() return smc.smc2 end,
  only = { "least_accept", "most_particles" } }
local function tempered(o)
  local p = smc.sample(coin, o)
  local levels = {}
  for k, level in ipairs(p.ladder) do levels[k] = level.level end
  return p.draws, levels, p.log_evidence.value
end
cases["pn.smc.sample"] = { tempered, { data = data, num_particles = 12, max_moves = 3 }, {
  data = { drawn(2, 5) }, num_particles = 14, start = "normal", threshold = 0.9, by = "data", kernel = "hmc",
  mixing = at(0.05, { max_moves = 9 }), max_moves = 1, waste_free = 3, scale = at(1, { start = "normal" }),
  islands = 2, exchange = at(1, { islands = 3 }) } }

-- ---- guides and checks ----

local function losses(fit) return fit.losses, fit:sample(2) end
cases["pn.svi"] = { function(o) return losses(pn.svi(coin, "mean_field", o)) end, { data = data, steps = 5 }, {
  data = { drawn(2, 5) }, steps = 6, lr = 0.2, draws = 3, estimator = at("iwae", { draws = 3 }),
  schedule = function(k) return 0.01 * k end, divergence = "monte_carlo" },
  { optimiser = "spec/infer/svi_spec.lua", vectorised = "the same numbers: spec/infer/svi_spec.lua",
    divergence = "a row of its own: a guide of laws that the model has" } }
local gaussian = pn.model(function(m, y)
  local mu = m:sample("mu", dist.normal(0, 1))
  m:plate("rows", y:size(1), function() m:observe("y", dist.normal(mu, 1), y) end)
end)
local function guide() return pn.model(function(m)
  m:sample("mu", dist.normal(m:param("loc", pn.zeros {}), m:param("scale", pn.ones {}, { constraint = "positive" })))
end) end
cases["pn.svi's divergence"] = { function(o) return pn.svi(gaussian, guide(), o).losses end, { data = data, steps = 3 },
  {}, {}, method = function() return pn.svi end, only = { "divergence" } }
local fit
local function fitted()
  if not fit then
    pn.seed(3)
    fit = pn.svi(coin, "mean_field", { data = data, steps = 20, lr = 0.05 })
  end
  return fit
end
cases["fit:bound"] = { function(o) return fields(fitted():bound(o)) end, { draws = 5 }, {}, {},
  method = function() return fitted().bound end }
cases["fit:predict"] = { function(o) return fitted():predict(o) end, { draws = 3 }, { data = { drawn(2, 4) } }, {},
  method = function() return fitted().predict end }
cases["pn.prior_predictive"] = { function(o) return pn.prior_predictive(coin, o) end, { data = data, draws = 3 },
  { data = { drawn(2, 4) } } }
cases["pn.infer.stream"] = { function(o)
  local s = infer.stream(o)
  for k = 1, 30 do s:add(drawn(50 + k, 3, 1)) end
  return s:log_mean(), s:pareto_k()
end, { draws = 90 }, { draws = battery.refused(60, "got 90 draws for 60") } }
cases["pn.infer.anneal"] = { function(o)
  local all = {}
  for step = 0, 12 do all[step + 1] = infer.anneal(step, o) end
  return all
end, { steps = 10 }, { steps = 8, from = 0.2, to = 2, cycles = 2, ramp = 0.5 } }
cases["pn.infer.running_baseline"] = { function(o)
  local b = infer.running_baseline(o)
  local all = {}
  for k = 1, 3 do
    b:update(k)
    all[k] = b.value
  end
  return all
end }
local log_w = drawn(8, 9, 1)
cases["pn.infer.sir"] = { function(o) return infer.sir(log_w, 6, o) end, {}, { values = drawn(9, 9, 1, 2) } }
cases["pn.infer.expected_log_likelihood"] = { function(o)
  return infer.expected_log_likelihood("probit", pn.tensor { 1, 0, 1 }, drawn(10, 3), pn.ones { 3 }, o)
end, {}, { precision = 3 }, {
  draws = "spec/nn/likelihood_spec.lua", points = "spec/nn/likelihood_spec.lua",
  generator = "spec/nn/likelihood_spec.lua" } }
cases["pn.infer.evidence_fixed_point"] = { function(o)
  local inputs = drawn(11, 30, 2)
  return fields(assert(infer.evidence_fixed_point(inputs, inputs:sum(2) + drawn(12, 30) * 0.3, o)))
end, {}, { alpha = 3, beta = 4, learn_beta = false, max_steps = battery.refused(1, "step"), tolerance = 0.5 } }
-- ---- networks ----

local x = drawn(20, 4, 3)
local function network_of(make)
  return function(o)
    local net = make(o)
    return net(x, pn.generator(5)), #net:parameters()
  end
end
cases["pn.nn.mlp"] = { network_of(function(o) return nn.mlp({ 3, 4, 2 }, o) end), {}, { activation = "relu",
  bias = false, init = "orthogonal" }, { dtype = "a row of its own" } }
local sequence = drawn(21, 5, 2, 4)
for _, kind in ipairs { "encoder", "decoder" } do
  for _, layers in ipairs { false, true } do
    local name = "transformer_" .. kind .. (layers and "" or "_layer")
    cases["pn.nn." .. name] = { function(o)
      local net = layers and nn[name](4, 2, 1, o) or nn[name](4, 2, o)
      local inputs = sequence:to(o.dtype or "float64")
      for k, w in ipairs(net:parameters()) do
        w:set((w + drawn(30 + k, table.unpack(w:shape())):to(w:dtype()) * 0.3):detach())
      end
      if kind == "decoder" then return net(inputs, inputs * 0.5, pn.generator(7)) end
      return net(inputs, pn.generator(7))
    end, {}, { activation = "gelu", bias = false, causal = kind == "encoder" and true or false, dropout = 0.5,
      epsilon = 0.1, feedforward = 7, norm_first = true, norm = layers and true or nil },
      { generator = "spec/nn/transformer_spec.lua: where parameters begin" } }
  end
end
local noisy = nn.sequential { nn.linear(3, 4, { generator = pn.generator(2) }), nn.dropout { rate = 0.5 },
  nn.linear(4, 2, { generator = pn.generator(3) }) }
local uncertain = nn.bayesian(nn.sequential { nn.linear(3, 4, { generator = pn.generator(2) }), nn.relu(),
  nn.linear(4, 2, { generator = pn.generator(3) }) }, { posterior_scale = 0.3 })
cases["pn.nn.predict"] = { function(o)
  local first, second = nn.predict(uncertain, x, o)
  return first, second
end, { draws = 3 }, { moments = true, batch_size = 2, mode = "mean" } }
cases["pn.nn.predict by mode"] = { function(o) return nn.predict(noisy, x, o) end, { draws = 2 },
  { mode = "training" }, {}, method = function() return nn.predict end, only = { "mode" } }
cases["pn.nn.bayesian"] = { function(o)
  local b = nn.bayesian(nn.linear(3, 2, { generator = pn.generator(2) }), o)
  return b(x, pn.generator(4)), b:kl()
end, {}, { prior = dist.normal(0, 2), estimator = "weights", posterior_scale = 0.2,
  draws = at(3, { prior = dist.student_t(3, 0, 1) }) } }

-- ---- models ----

local rows = pn.rand({ 30, 4 }, { generator = pn.generator(22) })
cases["pn.models.vae"] = { function(o)
  local m = pn.models.vae(o)
  local batch = rows:gt(0.5):to(o.dtype or "float64")
  if o.decoder == "categorical" then batch = batch:to "int64" end
  local told = o.condition and { condition = rows:slice(2, 1, o.condition) } or nil
  return m:loss(batch, told)
end, { data = 4, latent = 2, hidden = { 3 } }, {
  data = battery.refused(5, "4"), latent = 3, hidden = { value = { 4 } }, layers = 2, decoder = "normal",
  noise = at("network", { decoder = "normal" }), categories = at(3, { decoder = "categorical" }),
  components = at(3, { decoder = "mixture" }), posterior = "flow", structure = at("ladder", { latent = { 2, 1 } }),
  flow = list { at("planar"), at("real_nvp") }, flows = at(2, { posterior = "flow" }),
  flow_hidden = at(5, { posterior = "flow" }), mean = pn.tensor { 0.2, 0.3, 0.5, 0.7 }, condition = 1,
  prior = at("conditional", { condition = 1 }), activation = "relu" },
  { encoder = "spec/models/vae_network_spec.lua", decoder_network = "spec/models/vae_network_spec.lua",
    flow = "a row of its own" } }
cases["pn.models.vae"][3].hidden = { 5 }
cases["pn.models.vae's flow"] = { cases["pn.models.vae"][1], { data = 4, latent = 2, hidden = { 3 },
  posterior = "flow" }, {}, {}, method = function() return pn.models.vae end, only = { "flow" } }
for name, others in pairs { factor_analysis = { latent = 1, noise = "isotropic", floor = 0.5 },
  gaussian_mixture = { components = 3, covariance = "diagonal", floor = 0.7 } } do
  cases["pn.models." .. name] = { function(o)
    local m = pn.models[name](o)
    m:fit { data = rows:to(o.dtype or "float64"), max_steps = 2 }
    return m:log_likelihood(rows:to(o.dtype or "float64"))
  end, name == "factor_analysis" and { data = 4, latent = 2 } or { data = 4, components = 2, floor = 0.1 },
    with({ data = battery.refused(5, "4") }, others) }
end
local walk = { y = drawn(23, 5, 2, 2):cumsum(1), times = pn.linspace(0, 1, 5) }
local function drift(_, h) return -h * 0.5 end
cases["pn.models.bnsde"] = { function(o)
  local m = pn.models.bnsde(o)
  local b = { y = walk.y:to(o.dtype or "float64"), times = walk.times:to(o.dtype or "float64") }
  return m:loss(b, { generator = pn.generator(1) })
end, { size = 2, hidden = { 3 }, diffusion = 0.5, noise = 0.3 }, {
  size = battery.refused(3, "3"), hidden = { 4 }, diffusion = 0.7, noise = 0.5, activation = "relu", latent = 3,
  time = true, step = 0.05, weights = "step", posterior_scale = 0.3, prior = dist.normal(0, 2),
  prior_drift = drift, gamma = at(0.3, { prior_drift = drift }), initial = { mean = 0.3, scale = 2 } },
  { decoder = "spec/models/bnsde_use_spec.lua", encoder = "spec/models/bnsde_use_spec.lua",
    network = "spec/models/bnsde_spec.lua", prefix = "spec/models/bnsde_use_spec.lua",
    initial = "spec/models/bnsde_use_spec.lua", prior = "a row of its own" } }

-- ---- training ----

local inputs, targets = drawn(24, 9, 3), drawn(25, 9, 1)
cases["pn.train.fit"] = { function(o)
  local net = nn.linear(3, 1, { generator = pn.generator(2) })
  local given = with(o, { optimiser = pn.optim.sgd(net, { lr = 0.1 }), loss = o.loss and function(a, b)
    return (net(a) - b):abs():mean()
  end or function(a, b) return (net(a) - b):square():mean() end })
  if o.patience or o.validate_every then
    given.validate, given.model = function() return 1 end, net
  end
  local s = pn.train.fit(given)
  return s.loss, s.epoch, s.step, s.scores, s.best, net:parameters()[1]
end, { data = { inputs, targets }, epochs = 3, batch_size = 4, seed = 1 }, {
  data = { inputs * 2, targets }, epochs = 4, batch_size = 5, loss = function() end, patience = 1,
  schedule = function(k) return 0.1 / (k + 1) end, split = 0.3 },
  { checkpoint = "spec/train/checkpoint_spec.lua", checkpoint_every = "spec/train/checkpoint_spec.lua",
    resume = "spec/train/resume_spec.lua", model = "spec/train/train_spec.lua",
    optimiser = "spec/train/train_spec.lua", validate = "spec/train/train_spec.lua",
    validate_every = "spec/train/train_spec.lua", split = "spec/train/train_spec.lua",
    generator = "a row of its own: the seed stands in its place",
    shards = "spec/mpi/training_spec.lua", reduce = "spec/mpi/training_spec.lua" } }
cases["pn.train.fit's generator"] = { cases["pn.train.fit"][1], { data = { inputs, targets }, epochs = 2,
  batch_size = 4 }, {}, {}, method = function() return pn.train.fit end, only = { "generator" } }

return cases
