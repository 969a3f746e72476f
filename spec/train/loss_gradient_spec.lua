-- Of every loss that a trainer makes, the gradient along one direction of all parameters is that of differences of the
-- same loss on the same draws: half of a gradient, or a term without one, shows. The losses are those that the
-- trainers themselves hand to pn.train.fit, to pn.compile with an optimiser, or to L-BFGS.
local pn = require "penumbra"
local lbfgs = require "penumbra.optim.lbfgs"
local replay = require "penumbra.autodiff.replay"
local train = require "penumbra.train"
local nn = pn.nn

-- What `run` hands to train.fit; stage: the how-manieth time (trainings before it run).
local function handed(run, stage)
  local fit, found, k = train.fit, nil, 0
  train.fit = function(o) -- luacheck: ignore
    k = k + 1
    if k < (stage or 1) then return fit(o) end
    found = o
    error(o)
  end
  local ok, message = pcall(run)
  train.fit = fit -- luacheck: ignore
  assert(found, ok or message)
  return found
end

-- What `run` hands to compile, and calls that with; after `skip` others.
local function compiled(run, skip)
  local compile, found, k = replay.compile, nil, 0
  replay.compile = function(f, how) -- luacheck: ignore
    k = k + 1
    if k <= (skip or 0) then return compile(f, how) end
    return function(...)
      found = { loss = f, data = { ... }, parameters = how.optimiser:parameters() }
      error(found)
    end
  end
  local ok, message = pcall(run)
  replay.compile = compile -- luacheck: ignore
  assert(found, ok or message)
  return found
end

-- What `run` has L-BFGS minimise first, and over what.
local function minimised(run)
  local make, found = lbfgs.new, nil
  lbfgs.new = function(list) -- luacheck: ignore
    return { iterations = 0, step = function(_, f)
      found = { loss = f, data = {}, parameters = list, value = f():item() }
      error(found)
    end }
  end
  local ok, message = pcall(run)
  lbfgs.new = make -- luacheck: ignore
  assert(found, ok or message)
  return found
end

-- list: parameters; they are moved a little first, away from kinks and from where they all are alike.
local function check(o, list, what)
  local data, rows = {}, o.batch_size or o.data[1] and o.data[1]:size(1)
  for k, x in ipairs(o.data) do data[k] = x:size(1) > rows and x:slice(1, 1, rows) or x end
  local g, state = pn.generator(12), o.generator and o.generator:state()
  local way, at = {}, {}
  for k, p in ipairs(list) do
    way[k] = pn.randn(p:shape(), { generator = g })
    at[k] = p:detach() + pn.randn(p:shape(), { generator = g }) * 0.05
    p:set(at[k])
  end
  local function loss()
    pn.seed(4)
    if state then o.generator:set_state(state) end
    return (o.loss(table.unpack(data)))
  end
  local slope = 0
  for k, grad in ipairs(pn.grad(loss(), list)) do
    slope = slope + (grad and (grad * way[k]):sum():item() or 0)
  end
  local function along(h)
    for k, p in ipairs(list) do p:set(at[k] + way[k] * h) end
    return loss():item()
  end
  local h = 1e-5
  local wanted = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
  assert.near(wanted, slope, 2e-6 * math.max(1, math.abs(slope)), what)
  assert(math.abs(slope) > 1e-3, what)
end

describe("the gradient of a training loss is that of differences:", function()
  local g = pn.generator(3)
  local x = pn.randn({ 6, 2 }, { generator = g })
  local numbers, labels = pn.randn({ 6, 3 }, { generator = g }), pn.tensor({ 0, 2, 1, 1, 0, 2 }, { dtype = "int64" })
  local bits = numbers:gt(0):to "float64"

  local function each(cases, f)
    for _, case in ipairs(cases) do
      it(case[1], function()
        pn.seed(2)
        f(case[1], table.unpack(case, 2))
      end)
    end
  end

  -- of pn.vbp.learner: options, y
  each({
    { "a learner's, moments through gates, and their cost", { sharpness = 4, gate_kl = "exact" }, numbers },
    { "the cost of gates as printed", { sharpness = 4, gate_kl = "approximate", prior = "log_uniform" }, numbers },
    { "covariances, labels", { structure = "full", likelihood = "categorical" }, labels },
    { "moment matching, draws of outputs", { method = "clt", likelihood = "categorical", objective = "draws",
      prior = "log_uniform_approximate" }, labels },
    { "moment matching, one against all", { method = "clt", likelihood = "probit", prior = "horseshoe" }, labels },
    { "the expected log, by quadrature", { likelihood = "probit", objective = "expected_log" }, bits },
    { "the log of the expected", { likelihood = "probit", objective = "log_expected", bias = "certain" }, bits },
    { "the bound as printed", { likelihood = "probit", objective = "printed_bound" }, bits },
    { "local reparametrisation", { method = "local" }, numbers },
    { "local reparametrisation, labels", { method = "local", likelihood = "categorical" }, labels },
    { "local reparametrisation, bits", { method = "local", likelihood = "probit" }, bits },
    { "dropout", { method = "dropout", likelihood = "categorical", objective = "draws" }, labels },
    { "the most probable point", { method = "map", prior_precision = 3 }, numbers },
    { "the most probable point, labels", { method = "map", likelihood = "categorical" }, labels },
  }, function(name, given, y)
    local activation = (given.gate_kl or given.method) and nn.prelu() or nn.relu()
    local o = { network = nn.sequential { nn.linear(2, 4), activation, nn.linear(4, 3) }, log_variance = -2 }
    for key, value in pairs(given) do o[key] = value end
    local m = pn.vbp.learner(o)
    check(handed(function() m:fit { data = { x, y }, epochs = 1, batch_size = 4 } end), m:parameters(), name)
  end)

  it("a network's that evidence trains", function()
    for _, method in ipairs { "edl", "bedl", "bedl_hyper", "bedl_pac" } do
      pn.seed(2)
      local m = pn.evidential.learner { method = method, network = nn.mlp({ 2, 4, 3 }, { activation = "relu" }) }
      check(handed(function() m:fit { data = { x, labels }, epochs = 1, batch_size = 4 } end), m:parameters(), method)
    end
  end)

  it("a bound's of generalisation, and its prior's", function()
    local bayesian = require "penumbra.nn.bayesian"
    local many = { x:repeat_interleave(4, 1), labels:repeat_interleave(4, 1) }
    for stage = 1, 2 do
      for _, bound in ipairs { "quadratic", "mcallester" } do
        pn.seed(2)
        local net, make, q = nn.mlp({ 2, 4, 3 }, { activation = "tanh" }), bayesian.bayesian, nil
        bayesian.bayesian = function(...) -- luacheck: ignore
          q = make(...)
          return q
        end
        local ok, o = pcall(handed, function() pn.pac.train(net, many, { bound = bound, prior_epochs = 1, epochs = 1,
          batch_size = 5, prior_scale = 0.3 }) end, stage)
        bayesian.bayesian = make -- luacheck: ignore
        assert(ok, o)
        check(o, stage == 1 and net:parameters() or q:parameters(), bound .. stage)
      end
    end
  end)

  -- of pn.models.vae: options of the model, of fit
  local rows = pn.rand({ 5, 4 }, { generator = g })
  each({
    { "an autoencoder's", {}, {} },
    { "of draws", {}, { draws = 3 } },
    { "importance weighted", {}, { objective = "iwae", draws = 3 } },
    { "of pixels drawn anew", {}, { binarise = true } },
    { "of normals, by a flow", { decoder = "normal", posterior = "flow", flows = 2, flow_hidden = 3 }, { draws = 2 } },
    { "of normals, weighted, by a flow", { decoder = "normal", noise = "network", posterior = "flow", flow = "planar",
      flows = 2 }, { objective = "iwae", draws = 3 } },
    { "of two levels", { latent = { 2, 3 }, hidden = { { 3 }, { 4 } } }, {} },
    { "of two levels, weighted", { latent = { 2, 3 }, hidden = { { 3 }, { 4 } } }, { objective = "iwae", draws = 3 } },
    { "of a ladder", { latent = { 2, 3 }, hidden = { { 3 }, { 4 } }, structure = "ladder" }, { draws = 2 } },
    { "of a ladder, weighted", { latent = { 2, 3 }, hidden = { { 3 }, { 4 } }, structure = "ladder" },
      { objective = "iwae", draws = 3 } },
    { "by networks of one's own", { decoder = "normal", encoder = nn.mlp { 4, 3, 4 },
      decoder_network = nn.mlp { 2, 3, 4 } }, { draws = 2 } },
    { "beside a condition", { condition = 2, prior = "conditional" }, { draws = 2 } },
    { "beside a condition, two levels", { condition = 2, prior = "conditional", latent = { 2, 2 },
      hidden = { { 3 }, { 3 } } }, { objective = "iwae", draws = 2 } },
  }, function(name, given, how)
    local o = { data = 4, latent = 2, hidden = { 3 } }
    for key, value in pairs(given) do o[key] = value end
    local m = pn.models.vae(o)
    how.data, how.epochs, how.batch_size = (how.binarise or o.decoder) and rows or rows:gt(0.4):to "float64", 1, 4
    how.condition = o.condition and pn.randn({ 5, 2 }, { generator = pn.generator(6) })
    check(handed(function() m:fit(how) end), m:parameters(), name)
  end)

  it("an autoencoder's of several sources, some of them absent", function()
    local b, none = bits:slice(1, 1, 4):slice(2, 1, 2), 0 / 0
    local a = pn.tensor { { 1, 0, 1 }, { none, none, none }, { 0, 0, 1 }, { 1, 1, 0 } }
    for _, objective in ipairs { "ind", "moe", "poe", "hybrid" } do
      pn.seed(2)
      local m = pn.models.multisource { sources = { a = { size = 3 }, b = { size = 2 } }, latent = 2, hidden = { 3 } }
      check(handed(function() m:fit { data = { a = a, b = b }, epochs = 1, objective = objective, draws = 3 } end),
        m:parameters(), objective)
    end
  end)

  it("a Bayesian neural SDE's", function()
    local y = pn.randn({ 5, 3, 2 }, { generator = g })
    for _, given in ipairs { { "vi" }, { "sgld" }, { "e_bayes" }, { "e_pac_bayes" }, { "e_bayes_hybrid", true },
      { "e_pac_bayes_hybrid", true } } do
      pn.seed(2)
      local m = pn.models.bnsde { size = 2, hidden = { 3 }, diffusion = 0.4, noise = 0.7, posterior_scale = 0.3,
        prior_drift = given[2] and function(_, h) return -h end or nil }
      check(handed(function() m:fit { data = { y = y, times = pn.linspace(0, 1, 5) }, epochs = 1, draws = 2,
        objective = given[1] } end), m:parameters(), given[1])
    end
    for latent = 2, 4 do -- fewer and more latents than what is observed, from an encoder of the first two
      pn.seed(2)
      local m = pn.models.bnsde { size = 3, latent = latent, hidden = { 3 }, encoder = latent < 4 and { 3 } or nil,
        decoder = latent < 4 and { 3 } or nil, prefix = latent < 4 and 2 or nil, noise = 0.7, posterior_scale = 0.3,
        diffusion = function(_, h) return h:square() * 0.1 + 0.4 end, activation = "tanh" }
      local more = pn.randn({ 5, 3, 3 }, { generator = g })
      check(handed(function() m:fit { data = { y = more, times = pn.linspace(0, 1, 5) }, epochs = 1, draws = 2,
        objective = "e_bayes" } end), m:parameters(), "latents")
    end
  end)

  it("a residual state space model's bounds of draws", function()
    local b = { y = pn.randn({ 3, 2, 1 }, { generator = g }) }
    for _, objective in ipairs { "iwae", "elbo" } do
      pn.seed(2)
      local m = pn.models.vssm { size = 1, latent = 2, units = 2, hidden = { 3 }, flows = 1, flow_hidden = { 3 } }
      local own = pn.generator(5)
      check({ data = {}, generator = own, loss = function()
        return -m:bound(b, { draws = 3, objective = objective, generator = own }):sum()
      end }, m:parameters(), objective)
    end
  end)

  it("what gates that are drawn let through, with slopes of each channel", function()
    local gates = require "penumbra.vbp.gates"
    for _, layer in ipairs { nn.prelu { channels = 4 }, nn.prelu(), nn.leaky_relu { slope = 0.2 }, nn.hard_tanh(),
      nn.hard_sigmoid() } do
      pn.seed(2)
      local net = nn.sequential { nn.linear(2, 4), layer }
      -- hard gates are the layer's own
      assert.near(0, (gates.generate(net, x, math.huge) - net(x)):abs():max():item(), 1e-14)
      check({ data = {}, loss = function() return (gates.generate(net, x, math.huge) * bits:select(2, 1):unsqueeze(2))
        :sin():sum() end }, net:parameters(), layer:type())
    end
  end)

  -- What a layer's fit moves are its own means and scales.
  it("a layer's, of the invariance-abiding posterior", function()
    local y, net = pn.randn({ 6, 1 }, { generator = g }), nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) }
    for layer = 0, 1 do
      for _, how in ipairs { {}, { kl = "mixture" }, { expectation = "marginal" }, { log_likelihood = function(f, t)
        return (f - t):cosh():log():sum(-1) * -2
      end } } do
        local own = pn.generator(5)
        local given = { x = x, y = y, steps = 1, max_sweeps = 1, generator = own, draws = 2, input_draws = 2 }
        for key, value in pairs(how) do given[key] = value end
        given.noise_scale = not given.log_likelihood and 0.6 or nil
        local o = compiled(function() pn.invariance.fit_layers(net, given) end, layer)
        o.generator = own
        check(o, o.parameters, ("layer %d %s"):format(layer, how.kl or how.expectation or ""))
      end
    end
  end)

  it("what fits structural series, which begins where it was told", function()
    local structural = pn.smc.structural
    local y = pn.randn({ 12 }, { generator = g }):cumsum(1):totable()
    y[5] = 0 / 0
    y = pn.tensor(y)
    local irregular = structural.irregular {}
    for _, case in ipairs {
      { structural.level {}, { ["level.scale"] = 0.7 } },
      { structural.trend {}, { ["trend.scale"] = 0.4, ["trend.slope_scale"] = 0.2 } },
      { structural.seasonal { period = 3 }, { ["seasonal.scale"] = 0.6 } },
      { structural.cycle {}, { ["cycle.scale"] = 0.5, ["cycle.period"] = 4.5, ["cycle.damping"] = 0.8 } },
      { structural.arma { p = 2, q = 1, scale = 0.8 }, {}, true },
    } do
      local model, start = case[1] + irregular, case[2]
      local elsewhere = case[3] -- coefficients that take no start
      start["irregular.scale"] = 1.3
      local o = minimised(function() model:fit(y, { start = start }) end)
      if not elsewhere then
        assert.near(-model:log_likelihood(y, start):sum():item(), o.value, 1e-8)
      end
      check(o, o.parameters, model:names()[1])
    end
  end)

  it("what fits a normal to a mixture, and posteriors of linear systems to a mask", function()
    local o = minimised(function()
      pn.gap.marginal_fit { loc = { -1, 0.7 }, scale = { 0.4, 0.8 }, weights = { 0.3, 0.7 } }
    end)
    check(o, o.parameters, "marginal_fit")
    local system = pn.smc.linear_system { transition = { { 0.9, 0.2 }, { -0.1, 0.7 } }, transition_cov = { { 0.3, 0.1 },
      { 0.1, 0.5 } }, emission = { { 1, 0.5 } }, emission_cov = { { 0.25 } }, initial_mean = { 0.3, 0 },
      initial_cov = { { 1, 0 }, { 0, 2 } } }
    o = minimised(function()
      pn.gap.linear_gaussian(system, { steps = 4, method = "optimisation", conditioning = "partial" })
    end)
    check(o, o.parameters, "linear_gaussian")
  end)
end)

describe("steps", function()
  local x = pn.rand({ 6, 2 }, { generator = pn.generator(3) }):gt(0.5):to "float64"
  local labels = pn.tensor({ 0, 1, 1, 0, 1, 0 }, { dtype = "int64" })
  local fits = {
    vae = function(o)
      o.data = x
      pn.models.vae { data = 2, latent = 1, hidden = { 2 } }:fit(o)
    end,
    multisource = function(o)
      o.data = { a = x }
      pn.models.multisource { sources = { a = { size = 2 } }, latent = 1, hidden = { 2 } }:fit(o)
    end,
    bnsde = function(o)
      o.data = { y = pn.randn { 4, 2, 1 }, times = pn.linspace(0, 1, 4) }
      pn.models.bnsde { size = 1, hidden = { 2 }, diffusion = 0.4, noise = 0.7 }:fit(o)
    end,
    ["vbp.learner"] = function(o)
      o.data = { x, labels }
      pn.vbp.learner { network = nn.mlp({ 2, 3, 2 }, { activation = "relu" }), likelihood = "categorical" }:fit(o)
    end,
    ["pac.train"] = function(o)
      pn.pac.train(nn.mlp { 2, 3, 2 }, { x:repeat_interleave(4, 1), labels:repeat_interleave(4, 1) }, o)
    end,
    ["gap.measure"] = function(o)
      o.epochs, o.steps, o.rounds, o.draws, o.judge_draws, o.importance_draws, o.widths = nil, 1, 1, 1, 2, 2, { 1 }
      pn.gap.measure(pn.models.vae { data = 2, latent = 1, hidden = { 2 } }, nil, x, o)
    end,
  }

  it("are compiled, unless compile = false says that they are not", function()
    for name, fit in pairs(fits) do
      for _, wanted in ipairs { "as it is", true, false } do
        local compile, count = replay.compile, 0
        replay.compile = function(...) -- luacheck: ignore
          count = count + 1
          return compile(...)
        end
        local given = { epochs = 1 }
        if wanted ~= "as it is" then given.compile = wanted end
        pn.seed(1)
        local ok, message = pcall(fit, given)
        replay.compile = compile -- luacheck: ignore
        assert(ok, message)
        assert.equal(wanted ~= false, count > 0, name)
      end
    end
  end)
end)
