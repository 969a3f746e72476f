-- What fits, predictions and reports give back holds no graph: a tensor that did would keep alive all that it was
-- computed from, and let gradients of what is done with it later into parameters that are settled.
local pn = require "penumbra"
local nn = pn.nn

-- Every tensor that x reaches, by what leads to it; parameters are their own.
local function with_graph(x, path, seen, found)
  seen, found = seen or {}, found or {}
  if pn.is_tensor(x) then
    if x:requires_grad() and not x:is_param() then found[#found + 1] = path end
  elseif type(x) == "table" and not seen[x] then
    seen[x] = true
    for key, value in next, x do with_graph(value, path .. "." .. tostring(key), seen, found) end
  end
  return found
end

local function keeps_none(what, ...)
  for k = 1, select("#", ...) do
    assert.same({}, with_graph((select(k, ...)), what .. " " .. k))
  end
end

describe("what is given back keeps no graph:", function()
  local g = pn.generator(3)
  local x, y = pn.randn({ 6, 2 }, { generator = g }), pn.randn({ 6, 1 }, { generator = g })
  local labels = x:sum(2):gt(0):to "float64"
  local function net() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) } end

  it("the steps and predictions of a continual learner", function()
    local learner = pn.continual.learner { network = net(), likelihood = "bernoulli", seed = 1,
      steps = { first = 3, later = 3 }, memory = { size = 2 }, draws = { sites = 20 } }
    local report = learner:observe(x, labels)
    local other = learner:observe(x, labels)
    keeps_none("learner", report, other, learner.posterior.precision, learner.posterior.precision_mean,
      learner.projection.precision, learner.memory, learner:predict(x), learner:log_predictive(x, labels))
    local noisy = pn.continual.learner { network = net(), likelihood = "normal", noise = { learn = true }, seed = 1,
      steps = { first = 3, later = 3 } }
    keeps_none("learner of numbers", noisy:observe(x, y), noisy.projection.precision, noisy:predict(x))
  end)

  it("sites of data and their scores", function()
    local q = pn.dist.normal(pn.zeros { 13 }, 0.3):independent(1)
    local sites, terms = pn.continual.sites(net(), x, labels, { likelihood = "bernoulli", posterior = q, draws = 5 })
    keeps_none("sites", sites.precision, sites.precision_mean, terms,
      pn.continual.scores(sites, pn.dist.natural.diagonal(pn.zeros { 13 }, pn.full({ 13 }, 11)), terms))
  end)

  it("posteriors and bounds of variational EM", function()
    local m = pn.models.variational_em { data = 2, latent = 1, hidden = { 3 }, decoder = "normal" }
    local s = m:fit { data = x, epochs = 2, batch_size = 4 }
    local q, other = m:posteriors(), m:infer(x, { steps = 3 })
    keeps_none("variational EM", s, q:mean(), q:variance(), other:mean(), other:variance(),
      m:bound(x, { draws = 5, steps = 3 }))
  end)

  it("layers that were fitted, and draws by them", function()
    local fit = pn.invariance.fit_layers(net(), { x = x, y = y, noise_scale = 0.3, steps = 4, max_sweeps = 2 })
    keeps_none("fit", fit.layers, fit.trace, fit:posterior(1):mean(), fit:posterior(2):sample { 3 },
      fit:predict(x, { draws = 3 }))
  end)

  it("the permutations of a Bayesian network", function()
    local mix = pn.invariance.permutation_mixture(nn.bayesian(net(), { posterior_scale = 0.2 }))
    local w = mix:sample { 3 }
    keeps_none("permutations", mix.loc, mix.scale, w, mix:log_prob(w), mix:log_ratio(w), mix:mean_field_sample { 2 })
  end)

  it("networks whose nodes are exchanged or moved", function()
    local model = nn.sequential { nn.linear(2, 3), nn.relu(), nn.linear(3, 1) }
    keeps_none("permute", (pn.invariance.permute(model, { { 3, 1, 2 } })))
    keeps_none("translate", (pn.invariance.translate_network(model, x[1])))
  end)

  it("Laplace's laws of parameters and outputs", function()
    local model = net()
    local la = pn.infer.laplace(model, x, labels:unsqueeze(2), { likelihood = "bernoulli", prior_precision = 1 })
    local q = la:linearised(x)
    keeps_none("laplace", q:mean(), q:variance(), la:posterior():mean(), la:posterior():sample())
  end)

  it("fits of guides and their draws", function()
    local model = pn.model(function(m)
      local w = m:sample("w", pn.dist.normal(pn.zeros { 2 }, 1):independent(1))
      m:observe("y", pn.dist.normal(x:matmul(w), 0.5):independent(1), y:squeeze(2))
    end)
    for _, guide in ipairs { "mean_field", "full_rank" } do
      local fit = pn.svi(model, guide, { steps = 5 })
      keeps_none(guide, fit.history, fit:sample(4))
    end
    local p = pn.nuts(model, { warmup = 20, draws = 10, chains = 1, progress = false })
    keeps_none("nuts", p.draws, p:predict(), p:log_likelihood())
    local s = pn.smc.sample(model, { num_particles = 40 })
    keeps_none("smc", s.draws, s.ladder, s.log_evidence)
  end)

  it("beliefs, forecasts and histories of forecasters", function()
    for _, o in ipairs { { "deepar", { hidden = 3 } }, { "deep_state", { hidden = 3, trend = true } },
      { "kvae", { latent = 2, state = 2, base = 2, units = 3, hidden = { 3 } } },
      { "sgls", { states = 2, switches = 2, base = 2, hidden = { 3 }, transition_hidden = 3, num_particles = 3,
        encoder = { 3 } } } } do
      o[2].size = 1
      local m = pn.models[o[1]](o[2])
      local b = { y = pn.randn { 6, 2, 1 } }
      local s = m:fit { series = b, steps = 2, seed = 1 }
      local belief = m:filter(b)
      keeps_none(o[1], s, belief.state, belief:update(pn.zeros { 2, 1 }).state, m:forecast(belief, 2, { draws = 2 }),
        m:quantiles(belief, 2, { 0.1, 0.9 }))
    end
  end)

  it("EM of linear systems and of hidden Markov models", function()
    local system = { transition = pn.param(pn.eye(1) * 0.5), transition_cov = pn.param(pn.eye(1)),
      emission = pn.eye(1), emission_cov = pn.param(pn.eye(1)), initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1) }
    local e = pn.smc.kalman.em(system, pn.randn { 8, 1 }, { steps = 2 })
    for name, part in pairs(e.system) do assert.is_false(part:requires_grad() and not part:is_param(), name) end
    keeps_none("em", e.log_likelihood)
    local m = pn.smc.hmm { initial = pn.tensor { 0.4, 0.6 }, transition = pn.tensor { { 0.9, 0.1 }, { 0.3, 0.7 } },
      emission = pn.dist.normal(pn.param(pn.tensor { -1, 1 }), pn.param(pn.tensor { 1, 2 })) }
    local fitted, trace = m:fit(pn.randn { 12 }, { max_steps = 2 })
    keeps_none("fit", trace, fitted.log_initial, fitted.log_transition, fitted.emission:mean())
  end)
end)
