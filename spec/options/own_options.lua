--- Options of what is made of functions (distributions, bijectors, operations, compiled and vectorised functions,
--- checks of gradients), of likelihoods by their parameters, and of the methods that no other table has, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local gnuplot = require "penumbra.plot.gnuplot"
local battery = require "spec.options.option_battery"
local at, made, list, refused = battery.at, battery.made, battery.list, battery.refused
local active, dist, gap, invariance, nn, smc = pn.active, pn.dist, pn.gap, pn.invariance, pn.nn, pn.smc

local drawn = battery.drawn
local once = battery.once
local function fields(x) return battery.fields(x, 2) end

local cases = {}

local function method(name, object, call, both, others, reasons)
  cases[name] = { function(o) return call(object(), o) end, both, others, reasons or {},
    method = function() return object()[name:match ":(.*)$"] end }
end

-- What a call gives, or that it is refused.
local function tried(f, ...)
  local ok, x = pcall(f, ...)
  return ok and x or "refused"
end

-- ---- distributions of one's own ----

local of_law = {
  name = "mine", parameters = { { "loc", default = 0.5 } }, support = "positive",
  log_prob = function(d, x) return -(x - d.loc):abs() end,
  rsample = function(d, shape, g) return pn.rand(shape, { generator = g }) + d.loc end,
  sample = function(d, shape, g) return pn.rand(shape, { generator = g }) * 2 + d.loc end,
  mean = function(d) return d.loc + 1 end, variance = function(d) return d.loc + 2 end,
  mode = function(d) return d.loc + 3 end, entropy = function(d) return d.loc + 4 end,
  cdf = function(d, x) return x / (x + d.loc) end, icdf = function(d, p) return p + d.loc end,
  log_cdf = function(_, x) return x * -0.1 end, log_survival = function(_, x) return x * -0.2 end,
  bijector = function() return dist.bijector.softplus() end,
}
local x = pn.tensor { 0.2, 0.9, 3 }
local beyond = pn.tensor { -1 }
local function of_own(o)
  local d = dist.custom(o)()
  local all = { d:log_prob(x), d:log_prob(beyond), tostring(d) }
  for _, name in ipairs { "mean", "variance", "mode", "entropy" } do all[#all + 1] = tried(d[name], d) end
  for _, name in ipairs { "cdf", "icdf", "log_cdf", "log_survival" } do
    all[#all + 1] = tried(d[name], d, pn.tensor { 0.2, 0.9 })
  end
  for _, name in ipairs { "rsample", "sample" } do
    pn.seed(3)
    all[#all + 1] = tried(d[name], d, { 4 })
  end
  all[#all + 1] = pn.model(function(m) m:sample("x", d) end):target():constrain(pn.tensor { 0.3 }).x
  return all
end
local function other(f) return function(...) return f(...) * 0.7 end end
cases["pn.dist.custom"] = { of_own, of_law, { name = "theirs", parameters = { { "loc", default = 0.9 } },
  support = "real", log_prob = other(of_law.log_prob), rsample = other(of_law.rsample), sample = other(of_law.sample),
  mean = other(of_law.mean), variance = other(of_law.variance), mode = other(of_law.mode),
  entropy = other(of_law.entropy), cdf = other(of_law.cdf), icdf = other(of_law.icdf), log_cdf = other(of_law.log_cdf),
  log_survival = other(of_law.log_survival), bijector = function() return dist.bijector.exp() end },
  { sample = "a row of its own: rsample goes before it", in_support = "a row of its own: of supports whose ends move",
    event_ndim = "a row of its own: of vectors", event_shape = "a row of its own: of vectors" } }
cases["pn.dist.custom without gradient"] = { function(o)
  return dist.custom(o)():sample { 3 }
end, { log_prob = of_law.log_prob, parameters = of_law.parameters, sample = of_law.sample }, {
  sample = other(of_law.sample) }, {}, method = function() return dist.custom end, only = { "sample" } }
cases["pn.dist.custom between ends"] = { function(o)
  return dist.custom(o)():log_prob(x)
end, { log_prob = of_law.log_prob, parameters = of_law.parameters, support = "interval",
  in_support = function(_, v) return v:lt(1) end }, { in_support = function(_, v) return v:gt(0.5) end }, {},
  method = function() return dist.custom end, only = { "in_support" } }
local function square(d, v) return (v - d.loc):square():sum(-1) * -0.5 end
cases["pn.dist.custom of vectors"] = { function(o)
  local d = dist.custom(o)(pn.zeros { 2, 3 })
  return d.batch_shape, d.event_shape, tried(d.log_prob, d, drawn(1, 2, 3))
end, { log_prob = square, parameters = { { "loc", event_ndim = 1 } }, event_ndim = 1 }, { event_ndim = 0,
  event_shape = { 4 } }, {}, method = function() return dist.custom end, only = { "event_ndim", "event_shape" } }

local of_map = { name = "mine", domain = "positive", codomain = "real", parameters = { { "shift", default = 0.5 } },
  forward = function(b, v) return v:log() + b.shift end, inverse = function(b, y) return (y - b.shift):exp() end,
  log_det = function(_, v) return -v:log() end }
cases["pn.dist.bijector.custom"] = { function(o)
  local b = dist.bijector.custom(o)()
  local d = dist.transformed(dist.exponential(1), b)
  return b:forward(x), b:inverse(x), b:forward_log_det(x), select(2, b:forward_log_det(x)), tostring(b), d.support,
    b.domain
end, of_map, { name = "theirs", domain = "nonnegative", codomain = "positive",
  parameters = { { "shift", default = 0.9 } }, forward = other(of_map.forward), inverse = other(of_map.inverse),
  log_det = other(of_map.log_det) }, { event_ndim = "a row of its own: of vectors" } }
cases["pn.dist.bijector.custom of vectors"] = { function(o)
  local b = dist.bijector.custom(o)()
  return #dist.transformed(dist.normal(pn.zeros { 2, 3 }, 1), b).event_shape
end, { domain = "real_vector", codomain = "real_vector", forward = function(_, v) return v * 2 end,
  inverse = function(_, v) return v / 2 end, log_det = function(_, v) return v:sum(-1) * 0 end },
  { event_ndim = 2 }, {},
  method = function() return dist.bijector.custom end, only = { "event_ndim" } }

-- ---- operations and what is done with functions ----

local function grad_of(f, v)
  local w = pn.param(v)
  return pn.grad(f(w):sum(), { w })[1]
end
cases["pn.op"] = { function(o)
  local f = pn.op(o)
  local ok, message = pcall(f, "no tensor")
  return f(x), grad_of(f, x), not ok and message
end, { name = "mine", forward = function(v) return v * 2 end, vjp = function(g) return g * 2 end,
  shape = function(s) return s end }, { name = "theirs", forward = function(v) return v * 3 end,
  vjp = function(g) return g * 3 end, shape = refused(function() return { 7 } end, "shape") } }
local w = pn.param(pn.tensor { 0.5, -1 })
local function checked(o)
  return fields(pn.check_gradients(function() return (w ^ 3):exp() end, { w }, o))
end
cases["pn.check_gradients"] = { checked, { order = 2 }, { order = 1, step = 1e-3,
  tolerance = refused(1e-16, "check_gradients"),
  tolerance2 = refused(1e-16, "check_gradients") } }
cases["pn.compile"] = { function(o)
  local f = pn.compile(function(v) return v * 2 end, o)
  for k = 1, 3 do f(pn.ones { k }) end
  return #f:plans(), f:captures()
end, {}, { plans = 2 }, { optimiser = "a row of its own", watch = "a row of its own" } }
local factor = 2
local function scaled(v) return v * factor end
local reached = { g1 = scaled }
cases["pn.compile that watches another function"] = { function(o)
  factor = 2
  local f = pn.compile(function(v) return reached["g" .. #v:shape()](v) end, o)
  f(x)
  factor = 3
  return f(x)
end, {}, { watch = scaled }, {}, method = function() return pn.compile end, only = { "watch" } }
cases["pn.compile of steps"] = { function(o)
  local p = pn.param(pn.tensor { 1, 2 })
  local step = pn.compile(function(v) return (p * v):square():sum() end,
    { optimiser = o.optimiser and pn.optim.sgd({ p }, { lr = o.optimiser }) or nil })
  local loss = step(pn.tensor { 1, 3 })
  return p, pn.is_tensor(loss)
end, {}, { optimiser = 0.1 }, {}, method = function() return pn.compile end, only = { "optimiser" } }
local matrix = drawn(2, 3, 3)
cases["pn.vmap"] = { function(o)
  return pn.vmap(function(v) return v:cumsum(1) end, o)(matrix)
end, {}, { in_axes = list { { 2 }, { -1 } } } }
cases["pn.optim.average"] = { function(o)
  local p = pn.param(pn.tensor { 1, 2 })
  local mean = pn.optim.average({ p }, o)
  for k = 1, 3 do
    p:set(pn.tensor { k, -k })
    mean:update()
  end
  mean:apply()
  return p
end, {}, { decay = 0.9 } }

-- ---- likelihoods by what is given as a parameter ----

for name, o in pairs { bernoulli = { "logits" }, poisson = { "rate" }, normal = { "loc", scale = 1 },
  student_t = { "loc", scale = 1, df = 4 }, negative_binomial = { "mean", dispersion = 0.5 }, probit = { "margin" } } do
  local option = o[1]
  cases[("pn.nn.likelihood.%s by %s"):format(name, option)] = { function(given)
    -- without it one output more says what it is
    local l = nn.likelihood[name](given)
    return l.width, given[option] and tried(l.law, l, pn.zeros { 4, 0 }) or "of outputs"
  end, { scale = o.scale, df = o.df, dispersion = o.dispersion }, { [option] = 2 }, {},
    method = function() return nn.likelihood[name] end, only = { option } }
end
cases["pn.nn.likelihood.categorical"] = { function(o)
  return nn.likelihood.categorical(o).width
end, { classes = 3 }, { classes = 4 } }
cases["pn.nn.likelihood.mixture"] = { function(o)
  return nn.likelihood.mixture(o).width
end, { components = 2 }, { components = 3 } }

-- ---- models of several sources ----

local sources = { a = { size = 3 }, b = { size = 2 } }
local seen = { a = drawn(3, 5, 3):gt(0):to "float64", b = drawn(4, 5, 2):gt(0):to "float64" }
cases["pn.models.multisource"] = { function(o)
  pn.seed(4)
  local m = pn.models.multisource(o)
  local data = {}
  for name in pairs(o.sources) do data[name] = seen[name]:to(o.dtype or "float64") end
  pn.seed(5)
  return m:bound(data, { draws = 2 }).value, m:encode(data)
end, { sources = sources, latent = 2, hidden = { 4 } }, { sources = { a = { size = 3 } }, latent = 3, hidden = { 5 },
  activation = "relu", likelihood = "normal", noise = at("network", { likelihood = "normal" }), scale_link = "exp",
  prior = dist.normal(pn.tensor { 0.5, -1 }, 2):independent(1), targets = { a = { size = 3 } } } }

-- ---- methods ----

local switching = { states = 2, switches = 2, base = 2, hidden = { 4 }, transition_hidden = 4, num_particles = 3,
  encoder = { 4 }, threshold = 0.9, size = 1, no_resampling = 2 }
local forecaster = once(function() return pn.models.rsgls(switching) end)
local batch = { y = drawn(5, 3, 4, 1) }
-- (the same functions for all forecasters of this kind)
cases["deep_state:filter"] = { function(o) return fields(forecaster():filter(batch, o)) end, {}, {}, {},
  method = function() return forecaster().filter end }
cases["deep_state:log_evidence"] = { function(o) return forecaster():log_evidence(batch, o) end, {}, {}, {},
  method = function() return forecaster().log_evidence end }
cases["deep_state:loss"] = { function(o) return forecaster():loss(batch, o) end, { iteration = 1 }, { iteration = 9 },
  {}, method = function() return forecaster().loss end }

local tiny = pn.model(function(m)
  m:observe("y", dist.normal(m:sample("x", dist.normal(0, 1)), 1), pn.tensor { 0.3, 1 }:sum())
end)
local fit = once(function() return pn.svi(tiny, "mean_field", { steps = 5 }) end)
method("fit:resample", fit, function(f, o) return f:resample(3, o) end, { draws = 30 }, { draws = 40 })
local report = once(function()
  return gap.measure(pn.models.deep_state { hidden = 2 }, nil, { y = pn.ones { 3, 2, 1 } })
end)
method("gap_report:panel", report, function(r, o) return pn.plot.script("a.svg", "svg", { r:panel(o) }) end, {},
  { title = "mine" })
local omega = gap.shared_posterior { loc = pn.tensor { { 0.5, -1 }, { -0.7, 0.2 } }, cov = pn.stack({
  pn.tensor { { 1, 0.3 }, { 0.3, 0.5 } }, pn.tensor { { 0.4, -0.2 }, { -0.2, 0.8 } } }, 1) }
cases["pn.gap.split"] = { function(o)
  return fields(gap.split(omega, { loc = pn.tensor { 0.1, 0.2 }, variance = pn.tensor { 0.3, 0.9 } }, o))
end }
local pair = once(function()
  local m = invariance.linear_model { x = pn.tensor { 1, -2, 0.5 }, noise_variance = 1, y = { 0.4 } }
  return m:approximation { loc = 1, variance = { 1, 2, 3 } }
end)
method("approximation:factor_precision", pair, function(a, o) return a:factor_precision(0.7, o) end, {}, { pivot = 1 })
local inputs, targets = drawn(6, 6, 2), drawn(7, 6, 1)
local layers = once(function()
  return invariance.fit_layers(nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) }, { x = inputs,
    y = targets, noise_scale = 0.5, steps = 2, draws = 2, input_draws = 3, max_sweeps = 1 })
end)
method("layer_fit:predict", layers, function(f, o) return f:predict(inputs, o) end, { draws = 3 }, { draws = 4 })

-- posteriors with labels that are summed out
local enumerated = once(function()
  return pn.nuts(pn.model(function(m, y)
    local mu = m:sample("mu", dist.normal(0, 1))
    m:plate("rows", 4, function()
      local z = m:sample("z", dist.bernoulli(0.4), { enumerate = true })
      m:observe("y", dist.normal(mu + z, 1), y)
    end)
  end), { data = { drawn(8, 4) }, chains = 1, warmup = 5, draws = 20 })
end)
cases["gibbs:label_draws"] = { function(o) return enumerated():label_draws(o) end, { draws = 5 }, { draws = 6 }, {},
  method = function() return enumerated().label_draws end }
cases["gibbs:labels"] = { function(o) return enumerated():labels(o) end, { draws = 5 }, { draws = 6 }, {},
  method = function() return enumerated().labels end }

-- What gnuplot is told to draw into a file.
local function drawing_of(p, o)
  local path, said = os.tmpname(), nil
  local old = { run = gnuplot.run, may_draw = gnuplot.may_draw }
  gnuplot.run, gnuplot.may_draw = function(script)
    said = script
    return nil, "not drawn", "missing"
  end, function() return true end
  local ok, message = pcall(p.plot, p, path .. ".svg", o)
  gnuplot.run, gnuplot.may_draw = old.run, old.may_draw
  os.remove(path)
  assert(ok, message)
  return (said:gsub("set output [^\n]*", ""))
end
local two_numbers = once(function()
  return pn.nuts(pn.model(function(m, y)
    local mu = m:sample("mu", dist.normal(0, 1))
    local sd = m:sample("sd", dist.half_normal(1))
    m:plate("rows", 4, function()
      m:observe("y", dist.normal(mu, sd), y)
      m:observe("z", dist.normal(mu, sd * 2), y + 1)
    end)
  end), { data = { drawn(8, 4) }, chains = 2, warmup = 20, draws = 20 })
end)
cases["gibbs:plot"] = { function(o) return drawing_of(two_numbers(), o) end, {}, { names = { "sd" },
  site = at("z", { kind = "predictive" }), size = { 300, 200 }, title = "mine" }, {},
  method = function() return two_numbers().plot end }

-- what a filter of linear parts goes on from
local one = pn.ones { 1, 1 }
local function filter_of()
  return smc.rbpf { num_particles = 3, initial_mean = pn.zeros { 1 }, initial_cov = one, generator = pn.generator(3),
    init = dist.categorical { 0.6, 0.4 },
    transition = function(s)
      return dist.categorical { probs = pn.tensor { { 0.9, 0.1 }, { 0.3, 0.7 } }:take(1, s) }
    end,
    system = function(s)
      return { transition = (s:to "float64" * 0.5 + 0.4):reshape { 3, 1, 1 }, transition_cov = one,
        emission = one, emission_cov = one }
    end }
end
local halfway = once(function()
  local f = filter_of()
  f:run(pn.ones { 3, 1 })
  local m = f:mixture()
  m.s = pn.tensor({ 0, 1, 1 }, { dtype = "int64" }):reshape(m.s:shape())
  return m
end)
cases["rbpf:resume"] = { function(o)
  local given = {}
  for key, v in pairs(halfway()) do given[key] = v end
  for key, v in pairs(o) do given[key] = v end
  local f = filter_of()
  f:resume(given)
  return f:observe(pn.tensor { 0.5 }), f:mixture().s
end, {}, { mean = made(function() return halfway().mean + 1 end), cov = made(function() return halfway().cov * 4 end),
  s = made(function() return 1 - halfway().s end),
  log_weights = made(function() return pn.tensor({ 0, -5, -9 }):reshape(halfway().log_weights:shape()) end) },
  { carried = "spec/smc/rbpf_spec.lua" }, method = function() return filter_of().resume end }
local regression = once(function()
  return smc.structural.level { scale = 0.4 } + smc.structural.regression { x = drawn(9, 8, 1) }
    + smc.structural.irregular { scale = 0.5 }
end)
cases["structural:forecast"] = { function(o)
  return fields(regression():forecast(drawn(10, 8), 3, o))
end, { inputs = { regression = drawn(11, 3, 1) } }, { inputs = { regression = drawn(12, 3, 1) } }, {},
  method = function() return regression().forecast end }

-- parameters of a network under other names
local vae = once(function() return pn.models.vae { data = 3, latent = 2, hidden = { 2 } } end)
local function as_list(state)
  local names, all = {}, {}
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for k, name in ipairs(names) do all[k] = { name, state[name] } end
  return all
end
local renamed = once(function()
  local part = vae():named_parameters()[1][1]:match "^(.*)%.[^.]*$"
  return { [part] = "first" }
end)
cases["autoencoder:state"] = { function(o) return as_list(vae():state(o)) end, {}, { layout = "torch",
  names = made(function() return renamed() end, { layout = "torch" }) }, {},
  method = function() return vae().state end }
cases["autoencoder:load_state"] = { function(o)
  local m = pn.models.vae { data = 3, latent = 2, hidden = { 2 } }
  m:load_state(vae():state { layout = "torch", names = renamed() }, o)
  return as_list(m:state())
end, { layout = "torch", names = made(function() return renamed() end) }, { layout = refused("penumbra", "names"),
  names = refused({}, "first") }, {}, method = function() return vae().load_state end }

-- ---- evidential and active learning ----

local classes = pn.tensor({ 0, 1, 2, 1, 0, 2 }, { dtype = "int64" })
local function evidential(o)
  return pn.evidential.learner { network = nn.mlp({ 2, 4, 3 }, { activation = "relu", generator = pn.generator(1) }),
    seed = 1, method = o }
end
cases["evidential_learner:fit"] = { function(o)
  local m = evidential "bedl"
  if o.optimiser then o.optimiser = pn.optim.sgd(m.net, { lr = o.optimiser }) end
  local h = m:fit(o)
  return h.loss, m:log_predictive(inputs, classes, { generator = pn.generator(2) })
end, { data = { inputs, classes }, epochs = 2, batch_size = 3 }, { data = { inputs * 2, classes }, epochs = 3,
  batch_size = 2, lr = 0.1, optimiser = 0.1, schedule = function(step) return 0.01 / (step + 1) end },
  { checkpoint = "spec/train/resume_spec.lua", checkpoint_every = "spec/train/resume_spec.lua",
    resume = "spec/train/resume_spec.lua" },
  method = function() return evidential("bedl").fit end }
-- (the same functions for all learners; these moments are those of draws)
local learner = once(function()
  local m = pn.vbp.learner { network = nn.mlp({ 2, 4, 1 }, { activation = "relu" }), seed = 1, method = "local" }
  m:fit { data = { inputs, targets }, epochs = 1 }
  return m
end)
local drawing = { draws = 5, generator = made(function() return pn.generator(5) end) }
local in_parts = { batch_size = "the same in other parts: spec/vbp/network_learner_spec.lua" }
cases["evidential_learner:log_predictive"] = { function(o)
  return learner():log_predictive(inputs, targets, o)
end, drawing, { draws = 6 }, in_parts, method = function() return learner().log_predictive end }
cases["evidential_learner:moments"] = { function(o) return learner():moments(inputs, o) end, drawing,
  { draws = 6 }, in_parts, method = function() return learner().moments end }
for name, o in pairs { bedl_hyper = { prior_precision = 1 }, bedl = { likelihood = "categorical" } } do
  local option = next(o)
  cases["pn.evidential.row " .. name .. " by " .. option] = { function(given)
    local row = pn.evidential.row(name, given)
    local normal = given.likelihood == "normal"
    local m = pn.vbp.learner { network = nn.mlp({ 2, 4, normal and 2 or 3 }, { activation = "relu" }), method = row,
      seed = 1, likelihood = normal and "normal" or nil }
    return m:fit { data = { inputs, normal and targets or classes }, epochs = 2, batch_size = 4 }.loss
  end, o, { prior_precision = 3, likelihood = "normal" }, {}, method = function() return pn.evidential.row end,
    only = { option } }
end

local chain = once(function()
  return pn.nuts(pn.model(function(m)
    m:sample("w", dist.normal(pn.zeros { 2, 3 }, 1):independent(2))
  end), { chains = 1, warmup = 5, draws = 20 })
end)
local function probabilities(sites, v) return v:matmul(sites.w):softmax(-1) end
local rows = drawn(13, 5, 2)
cases["pn.active.posterior"] = { function(o)
  local m = active.posterior(chain(), o)
  return m:predict(rows, pn.generator(3)), m:features(rows)
end, { classes = 3, probabilities = probabilities, draws = 5 }, { classes = refused(2, "[5, 5, 2]"), draws = 7,
  probabilities = function(sites, v) return probabilities(sites, v * 2) end, features = function(v) return v * 3 end },
  { batch_size = "pn.active.predictor in parts", fit = "spec/active/pool_spec.lua",
    keep = "spec/active/pool_spec.lua" } }

return cases
