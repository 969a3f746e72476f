--- An object of every kind that the public interface makes: the chunk takes pn and hold, to which what callbacks are
--- given goes and which returns it, and gives a table of functions, each of which makes one anew.
local pn, hold = ...

local function steps(o)
  o.init = function(n) return pn.randn(n) end
  o.step = function(state, ...) hold(state, ...) return state + pn.randn(state:shape()) end
  o.log_weight = function(state, y, ...) hold(state, y, ...) return pn.dist.normal(state, 1):log_prob(y) end
  o.num_particles = o.num_particles or 8
  return o
end

local function laws(o)
  o.prior = function() return pn.dist.normal(0, 1) end
  o.transition = function(state) return pn.dist.normal(state, 1) end
  o.observation = function(state) return pn.dist.normal(state, 1) end
  o.num_particles = 8
  return o
end

local tiny = pn.model(function(m, ...)
  hold(m, ...)
  m:observe("y", pn.dist.normal(m:sample("z", pn.dist.normal(0, 1)), 1), 1)
end)

local chain = pn.model(function(m, y)
  local rate = m:sample("rate", pn.dist.beta(2, 2))
  m:scan("steps", 3, m:sample("x0", pn.dist.normal(0, 1)), function(before, t, ...)
    hold(m, before, t, ...)
    local x = m:sample("x", pn.dist.normal(before * rate, 1))
    m:observe("y", pn.dist.normal(x, 1), y[t])
    return x
  end)
end)
local observed = pn.ones { 3 }

local function linear()
  return pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }
end

local network = function() return pn.nn.sequential { pn.nn.linear(1, 2), pn.nn.tanh(), pn.nn.linear(2, 1) } end

local made = {
  tensor = function() return pn.tensor { { 1, 2 }, { 3, 4 } } end,
  parameter = function() return pn.param(pn.ones { 2 }) end,
  generator = function() return pn.generator(1) end,
  distribution = function() return pn.dist.normal(0, 1) end,
  mixture = function() return pn.dist.mixture({ 0.5, 0.5 }, pn.dist.normal({ 0, 1 }, 1)) end,
  transformed = function() return pn.dist.transformed(pn.dist.normal(0, 1), pn.dist.bijector.exp()) end,
  bijector = function() return pn.dist.bijector.affine(1, 2) end,
  natural = function() return pn.dist.natural.scalar(1, 1) end,
  optimiser = function() return pn.optim.adam { pn.param(1) } end,
  lbfgs = function() return pn.optim.lbfgs { pn.param(1) } end,
  compiled = function()
    local f = pn.compile(function() return pn.ones { 2 } end)
    f()
    return f
  end,
  batched = function() return pn.vmap(function(x) return hold(x):exp() end) end,
  step_machine = function() return pn.smc { num_particles = 10 } end,
  history = function()
    local s, x = pn.smc { num_particles = 10, history = true }, pn.randn { 10 }
    s:weigh(x)
    s:keep(x)
    return s
  end,
  filter = function()
    local f = pn.smc.filter(steps {})
    f:observe(pn.tensor(1))
    return f
  end,
  laws = function()
    local f = pn.smc.filter(laws {})
    f:run(pn.ones { 3 }, { record = true })
    return f
  end,
  online = function() return pn.smc.filter(laws {}):online() end,
  exact = function()
    local one = pn.ones { 1, 1 }
    return pn.smc.exact_filter { initial_mean = pn.zeros { 1 }, initial_cov = one, transition = one,
      transition_cov = one, emission = one, emission_cov = one }
  end,
  hmm = function()
    return pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
      emission = pn.dist.normal(pn.tensor { -1, 1 }, 1) }
  end,
  structural = function() return pn.smc.structural.level {} end,
  structural_fit = function()
    local parts = pn.smc.structural.level { scale = 1 } + pn.smc.structural.irregular { scale = 1 }
    return parts:fit(pn.tensor { 1, 2, 3, 2, 1, 4 })
  end,
  kalman = function()
    local one = pn.ones { 1, 1 }
    return pn.smc.kalman.filter({ transition = one, transition_cov = one, emission = one, emission_cov = one,
      initial_mean = pn.zeros { 1 }, initial_cov = one },
      pn.ones { 3, 1 })
  end,
  rbpf = function()
    local one, zero = pn.ones { 1, 1 }, pn.zeros { 1 }
    local f = pn.smc.rbpf { num_particles = 3, initial_mean = zero, initial_cov = one,
      init = pn.dist.categorical { 0.6, 0.4 },
      transition = function(s, ...) hold(s, ...) return pn.dist.categorical { probs = pn.full({ 3, 2 }, 0.5) } end,
      system = function(...) hold(...) return { transition = one, transition_cov = one, emission = one,
        emission_cov = one } end }
    f:run(pn.ones { 3, 1 })
    return f
  end,
  model = function() return tiny end,
  target = function()
    local t = tiny:target {}
    if t.for_host then t:for_host() end
    return t
  end,
  trace = function() return tiny:trace() end,
  fit = function() return pn.svi(tiny, "mean_field", { steps = 1, on_step = hold }) end,
  flow_fit = function() return pn.svi(tiny, "full_rank", { steps = 2 }) end,
  posterior = function() return pn.nuts(tiny, { chains = 1, warmup = 5, draws = 5 }) end,
  tempered = function() return pn.smc.sample(tiny, { num_particles = 16 }) end,
  stream = function() return pn.infer.stream { draws = 10 } end,
  laplace = function()
    return pn.infer.laplace(network(), pn.ones { 3, 1 }, pn.ones { 3, 1 }, { prior_precision = 1,
      likelihood = function(...) hold(...) return pn.dist.normal((...), 1):independent(1) end })
  end,
  sbc = function()
    local model = pn.model(function(m) m:observe("y", pn.dist.normal(m:sample("x", pn.dist.normal(0, 1)), 1)) end)
    return pn.sbc(model, { simulations = 10, draws = 9, sampler = function(data, n)
      hold(data, n)
      return { x = pn.dist.normal(data.y / 2, 0.5 ^ 0.5):sample { n } }
    end })
  end,
  calibration = function() return pn.calibration(pn.zeros { 5 }, pn.randn { 4, 5 }) end,
  module = function()
    return pn.nn.module { part = pn.nn.linear(2, 3), forward = function(_, x) return hold(x) end }
  end,
  trained = function()
    local net = network()
    return pn.train.fit { data = { pn.ones { 8, 1 }, pn.ones { 8, 1 } }, optimiser = pn.optim.sgd(net), epochs = 1,
      progress = false, loss = function(...) hold(...) return net((...)):square():mean() end, on_epoch = hold }
  end,
  scaler = function() return pn.data.standardise(pn.ones { 3, 2 }) end,
  batches = function() return pn.data.batches({ pn.ones { 4, 2 } }, { batch_size = 2 }) end,
  series_set = function() return pn.data.series { { target = { 1, 2, 3 } } } end,
  linear_model = linear,
  approximation = function() return linear():approximation { loc = 1, variance = { 1, 2 } } end,
  normal_law = function() return linear():posterior() end,
  dense_law = function() return linear():posterior():dense() end,
  permutation_mixture = function()
    local net = pn.nn.sequential { pn.nn.linear(1, 2), pn.nn.linear(2, 1) }
    return pn.invariance.permutation_mixture(net, { scale = 1 })
  end,
  layer_fit = function()
    return pn.invariance.fit_layers(pn.nn.linear(2, 1), { x = pn.ones { 2, 2 }, y = pn.ones { 2, 1 }, noise_scale = 1,
      steps = 1 })
  end,
  learner = function()
    local l = pn.continual.learner { network = network(), likelihood = "bernoulli", seed = 1,
      draws = { sites = 2, train = 2 }, memory = { size = 2 } }
    l:observe(pn.ones { 4, 1 }, pn.ones { 4, 1 }, 1)
    return l
  end,
  flights = function() return pn.gap.flights { steps = 2 } end,
  glyph_rows = function() return pn.gap.glyph_rows() end,
  traffic_days = function() return pn.gap.traffic_days() end,
  gap_report = function()
    return pn.gap.measure(pn.models.deep_state { hidden = 2 }, nil, { y = pn.ones { 3, 2, 1 } })
  end,
  evidential_learner = function()
    local l = pn.evidential.learner { network = pn.nn.mlp({ 1, 2, 2 }, { activation = "relu" }), seed = 1,
      method = "edl" }
    l:fit { data = { pn.ones { 4, 1 }, pn.ones({ 4 }, { dtype = "int64" }) }, epochs = 1 }
    return l
  end,
  certified = function()
    return pn.pac.train(pn.nn.linear(1, 2), { pn.ones { 20, 1 }, pn.ones({ 20 }, { dtype = "int64" }) },
      { prior_epochs = 1, epochs = 1, on_epoch = hold })
  end,
  certificate = function()
    return pn.pac.certificate(pn.nn.bayesian(pn.nn.linear(1, 2)), { pn.ones { 20, 1 },
      pn.ones({ 20 }, { dtype = "int64" }) }, { draws = 1, prior_data = false, losses = { "error",
      { name = "own", range = { 0, 1 }, loss = function(f, y) hold(f, y) return y * 0 end } } })
  end,
  bound_row = function() return pn.pac.describe "maurer" end,
  ood = function() return pn.metrics.ood(pn.full({ 3, 2 }, 0.5), pn.full({ 3, 2 }, 0.5)) end,
  vbp_learner = function()
    local l = pn.vbp.learner { network = pn.nn.mlp({ 1, 2, 1 }, { activation = "relu" }), seed = 1, sharpness = 5,
      gate_kl = "exact" }
    l:fit { data = { pn.ones { 4, 1 }, pn.ones { 4, 1 } }, epochs = 1 }
    return l
  end,
  comparison = function()
    return pn.vbp.compare { network = function() return pn.nn.mlp({ 1, 2, 1 }, { activation = "relu" }) end,
      methods = { "vbp", "map" }, data = { pn.ones { 4, 1 }, pn.ones { 4, 1 } }, epochs = 1 }
  end,
  relu_net = function()
    local m = pn.vbp.relu_net { sizes = { 1, 2, 1 }, seed = 1 }
    m:observe(pn.ones { 4, 1 }, pn.ones { 4, 1 })
    return m
  end,
  predictor = function()
    return pn.active.predictor { classes = 2, fit = hold, probabilities = function(x)
      hold(x)
      return pn.full({ x:size(1), 2 }, 0.5)
    end }
  end,
  label_pool = function()
    local net = pn.nn.bayesian(pn.nn.sequential { pn.nn.linear(1, 2), pn.nn.relu { rule = "clt" }, pn.nn.linear(2, 2) })
    local p = pn.active.pool { x = pn.randn { 9, 1 }, count = 2, first = 2, seed = 1,
      model = pn.active.network(net, { classes = 2, link = "probit", fit = hold }),
      acquisition = { "reinforced", ranked = 6, every = 2, points = 3, hidden = 2 } }
    p:ask()
    p:tell { 0, 1 }
    return p
  end,
  adaptation = function() return pn.continual.bayesian_forgetting { rate = 0.1 } end,
  autoencoder = function()
    local m = pn.models.vae { data = 2, latent = 1, hidden = { 2 } }
    m:fit { data = pn.ones { 4, 2 }, epochs = 1, progress = false }
    return m
  end,
  variational_em = function() return pn.models.variational_em { data = 2, latent = 1 } end,
  factor_analysis = function() return pn.models.factor_analysis { data = 2, latent = 1 } end,
  gaussian_mixture = function() return pn.models.gaussian_mixture { data = 2, components = 2 } end,
  kvae = function() return pn.models.kvae { units = 2, hidden = { 2 }, belief_draws = 1 } end,
  forecaster = function() return pn.models.deepar { hidden = 2, layers = 1 } end,
  belief = function() return pn.models.deepar({ hidden = 2, layers = 1 }):filter { y = pn.ones { 2, 1, 1 } } end,
  deep_state = function() return pn.models.deep_state { hidden = 2, layers = 1, seasonal = {} } end,
  plot_panel = function() return pn.plot.panel { pn.plot.line({ 1, 2 }, { 1, 2 }) } end,
  own_op = function()
    local f = pn.op { name = "mine", forward = function(...) hold(...) return (...) * 2 end,
      vjp = function(...) hold(...) return (...) end }
    local x = pn.param(pn.ones { 1 })
    pn.grad(f(x):sum(), { x })
    return f
  end,
  own_distribution = function()
    return pn.dist.custom { name = "mine", parameters = { "loc" },
      log_prob = function(d, x) hold(d, x) return x * 0 end,
      rsample = function(d, ...) hold(d, ...) return pn.zeros((...)) end } { loc = 0 }
  end,
  own_bijector = function()
    local function shifted(b, x) hold(b, x) return x end
    return pn.dist.bijector.custom { name = "mine", forward = shifted, inverse = shifted, log_det = shifted } {}
  end,
  hmc = function() return pn.hmc(tiny, { chains = 1, warmup = 2, draws = 4, steps = 2 }) end,
  gibbs = function()
    return pn.smc.particle_gibbs(chain, { data = { observed }, warmup = 2, draws = 4, num_particles = 8, chains = 1 })
  end,
  pmmh = function()
    return pn.smc.pmmh(chain, { data = { observed }, warmup = 2, draws = 4, num_particles = 8, chains = 2 })
  end,
  nested = function() return pn.smc.smc2(chain, { data = { observed }, num_parameters = 4, num_particles = 8 }) end,
  liu_west = function() return pn.smc.liu_west(chain, { data = { observed }, num_particles = 16 }) end,
  scanned = function()
    return pn.smc.filter(chain, { data = { observed }, values = { rate = 0.5 }, num_particles = 8 })
  end,
  odeint = function()
    return pn.odeint(function(...) hold(...) return (select(2, ...)) end, pn.ones { 1 }, pn.tensor { 0, 1 })
  end,
  brownian = function() return pn.brownian { seed = 1, shape = { 2 } } end,
  sde = function()
    local function f(...) hold(...) return (select(2, ...)) end
    return pn.sde(f, f, pn.ones { 2, 1 }, pn.tensor { 0, 1 })
  end,
}
for _, row in ipairs(pn.rows()) do
  if row.kind == "estimator" then made["estimator " .. row.name] = function() return pn.infer[row.name] end end
end

return made
