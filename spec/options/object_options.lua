--- Options of pictures, series, switching filters, structural models and of the methods of objects, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at, list = battery.at, battery.list
local dist, plot, smc = pn.dist, pn.plot, pn.smc
local structural = smc.structural

local drawn = battery.drawn
local once = battery.once
local function fields(x) return battery.fields(x, 0) end

local cases = {}

local function method(name, object, call, both, others, reasons)
  cases[name] = { function(o) return call(object(), o) end, both, others, reasons,
    method = function() return object()[name:match ":(.*)$"] end }
end

-- ---- pictures: what gnuplot is told ----

local function told(marks, o) return plot.script("a.svg", "svg", { plot.panel(marks) }, o) end
local x, y = pn.tensor { 0, 1, 2, 4 }, pn.tensor { 1, -1, 0.5, 2 }
local look = { colour = "#123456", label = "what" }
local function marks(name, call, others)
  local all = {}
  for _, part in ipairs { look, others or {} } do
    for key, v in pairs(part) do all[key] = v end
  end
  for key, v in pairs(all) do
    if v == "none" then all[key] = nil end
  end
  cases["pn.plot." .. name] = { function(o) return told { call(o) } end, {}, all }
end
marks("line", function(o) return plot.line(x, y, o) end, { width = 3, dashed = true })
marks("points", function(o) return plot.points(x, y, o) end, { size = 2 })
marks("impulses", function(o) return plot.impulses(x, y, o) end, { size = 2 })
marks("error_bars", function(o) return plot.error_bars(x, y, y:abs(), o) end, { size = 2 })
marks("band", function(o) return plot.band(x, y - 1, y + 1, o) end, { opacity = 0.5 })
marks("fan", function(o) return plot.fan(x, pn.stack({ y - 2, y - 1, y, y + 1, y + 2 }, 1), o) end, { opacity = 0.5 })
marks("bars", function(o) return plot.bars(x, y, o) end, { opacity = 0.5, width = 0.3 })
marks("histogram", function(o) return plot.histogram(drawn(1, 40), o) end, { opacity = 0.5, bins = 4, density = true })
marks("text", function(o) return plot.text(x, y, { "a", "b", "c", "d" }, o) end, { place = "left",
  label = battery.refused("what", "label must be absent") })
local grid = drawn(2, 4, 3)
marks("heatmap", function(o) return plot.heatmap(grid, o) end, { colour = "none", label = "none",
  colour_label = "z", palette = "grey", x = { 0, 2, 4 }, y = { 0, 2, 4, 6 } })
marks("contours", function(o)
  return table.unpack(plot.contours(grid, o))
end, { levels = { 0.1, 0.5 }, width = 3, x = { 0, 2, 4 }, y = { 0, 2, 4, 6 },
  label = at("what", { colour = "#123456" }) })
cases["pn.plot.roc"] = { function(o)
  return plot.script("a.svg", "svg", { plot.roc(pn.metrics.roc(pn.tensor({ 0, 1, 1, 0 }, { dtype = "int64" }),
    pn.tensor { 0.1, 0.7, 0.4, 0.5 }), o) })
end, {}, { label = "mine" } }
cases["pn.plot.confusion"] = { function(o)
  return plot.script("a.svg", "svg", { plot.confusion(pn.tensor({ { 3, 1 }, { 0, 4 } }, { dtype = "int64" }), o) })
end, {}, { names = { "cat", "dog" }, title = "both" } }
marks("images", function(o) return plot.images(drawn(3, 4, 2, 2), o) end, { colour = "none", label = "none", gap = 2,
  columns = 3, range = { -5, 5 }, palette = "viridis" })

-- ---- distributions ----

local p, q = dist.normal(pn.tensor { 0, 1 }, 1.2), dist.laplace(pn.tensor { 0.5, 1 }, 0.7)
local function rough(call)
  return { function(o)
    local e = call(o)
    return e.value, e.se
  end, { draws = 12 } }
end
cases["pn.dist.kl_monte_carlo"] = rough(function(o) return dist.kl_monte_carlo(p, q, o) end)
cases["pn.dist.entropy_monte_carlo"] = rough(function(o) return dist.entropy_monte_carlo(p, o) end)
cases["pn.dist.jensen_shannon_monte_carlo"] = rough(function(o) return dist.jensen_shannon_monte_carlo(p, q, o) end)
cases["pn.dist.expectation_monte_carlo"] = rough(function(o)
  return dist.expectation_monte_carlo(p, function(v) return v:sin() end, o)
end)
local loc, scale = pn.param(pn.tensor { 0.3, -1 }), pn.param(pn.tensor { 0.5, 0.8 })
for name, call in pairs { kl = function(o) return dist.kl_monte_carlo(dist.normal(loc, scale), q, o) end,
  entropy = function(o) return dist.entropy_monte_carlo(dist.normal(loc, scale), o) end,
  jensen_shannon = function(o) return dist.jensen_shannon_monte_carlo(dist.normal(loc, scale), q, o) end,
  expectation = function(o)
    return dist.expectation_monte_carlo(dist.normal(loc, scale), function(v) return v:sin() end, o)
  end } do
  cases["the gradient of pn.dist." .. name .. "_monte_carlo"] = { function(o)
    local value = call(o).value
    return value:requires_grad() and pn.grad(value:sum(), { loc, scale }) or "none"
  end, { draws = 5 }, {}, {}, method = function() return dist[name .. "_monte_carlo"] end, only = { "pathwise" } }
  cases["pn.dist." .. name .. "_monte_carlo"][4] = { pathwise = "a row of its own: it shows in the gradient" }
end
cases["pn.dist.kl_gate"] = { function(o) return dist.kl_gate(pn.tensor { 0.3, -1 }, 0.5, 4, o) end }
local two = dist.mixture({ 0.4, 0.6 }, dist.normal(pn.tensor { 0, 2 }, 1))
local other = dist.mixture({ 0.5, 0.5 }, dist.normal(pn.tensor { 0.5, 1 }, pn.tensor { 1, 0.6 }))
cases["pn.dist.kl_mixture"] = { function(o) return dist.kl_mixture(two, other, o) end, {}, { steps = 2 },
  { steps = "a row of its own: it stops by itself" } }
cases["pn.dist.bijector.random"] = { function(o)
  local b = dist.bijector.random("inverse_autoregressive", 4, o)
  return b:forward(drawn(4, 3, 4):to(o.dtype or "float64"))
end, {}, { hidden = { 5 }, scale = 0.5 }, { split = "spec/distribution/bijector_spec.lua" } }

-- ---- optimisers that listen ----

cases["pn.optim.plateau"] = { function(o)
  local watch, all = pn.optim.plateau(1, o), {}
  for k, loss in ipairs { 5, 4, 3.999, 4.1, 4.2, 3.5, 3.6, 3.7, 3.8, 3.9, 4, 4.1 } do
    all[k] = watch:step(loss)
  end
  return all
end, { patience = 1 }, { patience = 3, factor = 0.5, cooldown = 2, threshold = 0.2, least = 0.5 } }
local function rosenbrock(w) return (1 - w[1]):square() + 100 * (w[2] - w[1]:square()):square() end
cases["pn.optim.lbfgs"] = { function(o)
  local w, count = pn.param(pn.tensor { -1.2, 1 }), 0
  pn.optim.lbfgs({ w }, o):step(function()
    count = count + 1
    return rosenbrock(w)
  end)
  return w, count
end, {}, { lr = 0.3, max_steps = 3, history = 1, tolerance_grad = 10, tolerance_change = 0.1, max_evaluations = 6 } }

-- ---- structural series ----

local series = drawn(5, 14):cumsum(1)
local function structural_case(name, make, both, others, reasons)
  cases["pn.smc.structural." .. name] = { function(o)
    local m = make(o) + structural.irregular { scale = 0.5 }
    local r = m:fit(series, { steps = 3 })
    return r.log_likelihood_at_fit, r.values or r:parameters()
  end, both, others, reasons }
end
structural_case("level", function(o) return structural.level(o) end, {}, { scale = 0.4, name = "base" })
structural_case("trend", function(o) return structural.trend(o) end, {}, { scale = 0.4, slope_scale = 0.1, name = "t" })
structural_case("seasonal", function(o) return structural.seasonal(o) end, { period = 4 }, { period = 3, scale = 0.4,
  name = "week", harmonics = at(1, { form = "trigonometric" }) })
structural_case("cycle", function(o) return structural.cycle(o) end, {}, { period = 5, damping = 0.8, scale = 0.4,
  name = "c", shortest = 4, start = 8 })
structural_case("arma", function(o) return structural.arma(o) end, { p = 1 }, { p = 2, q = 1, ar = { 0.4 },
  ma = at({ 0.2 }, { q = 1 }), scale = 0.4, name = "noise" })
structural_case("regression", function(o) return structural.regression(o) end, { x = drawn(6, 14, 1) },
  { x = drawn(7, 14, 1), scale = 0.3, name = at("of x", { scale = false }) })
cases["pn.smc.structural.irregular"] = { function(o)
  local m = structural.level { scale = 0.4 } + structural.irregular(o)
  local r = m:fit(series, { steps = 3 })
  return r.log_likelihood_at_fit, r.values
end, {}, { scale = 0.4, name = "noise" } }
local level = once(function() return structural.level {} + structural.irregular {} end)
method("structural:fit", level, function(m, o) return fields(m:fit(series, o)) end, { steps = 5 }, { steps = 2,
  tolerance = 0.5, start = { ["level.scale"] = 2 } }, { start = "spec/smc/structural_spec.lua" })

-- ---- linear systems ----

local spd = pn.tensor { { 0.5, 0.1 }, { 0.1, 0.3 } }
local system = { transition = pn.tensor { { 0.9, 0.2 }, { -0.1, 0.7 } }, transition_cov = spd,
  emission = pn.tensor { { 1, 0.5 } }, emission_cov = pn.tensor { { 0.4 } }, initial_mean = pn.tensor { 0.5, -1 },
  initial_cov = spd * 2 }
local others = { transition = pn.eye(2) * 0.8, transition_cov = spd * 2, emission = pn.tensor { { 0.5, 1 } },
  emission_cov = pn.tensor { { 1 } }, initial_mean = pn.tensor { 0, 0 }, initial_cov = spd,
  transition_offset = pn.tensor { 0.3, 0 }, emission_offset = pn.tensor { 0.5 }, diffuse = { 1 },
  transition_input = pn.tensor { { 0.3 }, { 1 } }, emission_input = pn.tensor { { 0.7 } } }
local ys, us = drawn(8, 5, 1), drawn(9, 5, 1)
cases["pn.smc.linear_system"] = { function(o)
  local driven = o.transition_input or o.emission_input
  return smc.kalman.log_likelihood(smc.linear_system(o), ys, driven and { inputs = us } or {})
end, system, others }
cases["pn.smc.exact_filter"] = { function(o)
  local f = smc.exact_filter(o)
  return f:run(ys)
end, system, { transition = others.transition, transition_cov = others.transition_cov, emission = others.emission,
  emission_cov = others.emission_cov, initial_mean = others.initial_mean, initial_cov = others.initial_cov,
  transition_offset = others.transition_offset, emission_offset = others.emission_offset,
  diffuse = battery.refused({ 1 }, "may have no diffuse"),
  transition_input = battery.refused(others.transition_input, "may have no transition_input"),
  emission_input = battery.refused(others.emission_input, "may have no emission_input") } }
cases["pn.smc.hmm.new"] = { function(o) return smc.hmm(o):log_likelihood(pn.tensor { 0.3, -1, 2 }) end,
  { initial = { 0.3, 0.7 }, transition = { { 0.8, 0.2 }, { 0.4, 0.6 } },
    emission = dist.normal(pn.tensor { -1, 1 }, pn.tensor { 0.5, 1 }) }, {
  initial = { 0.6, 0.4 }, transition = { { 0.5, 0.5 }, { 0.4, 0.6 } }, emission = dist.normal(pn.tensor { -1, 1 }, 1) },
  { initial_logits = "a row of its own: in the place of initial", transition_logits = "the same" } }
cases["pn.smc.hmm of logits"] = { function(o)
  o.emission = dist.normal(pn.tensor { -1, 1 }, 1)
  return smc.hmm(o):log_likelihood(pn.tensor { 0.3, -1, 2 })
end, { initial_logits = { 0.3, 0.7 }, transition_logits = { { 0.8, 0.2 }, { 0.4, 0.6 } } },
  { initial_logits = { 1, 0 }, transition_logits = { { 1, 0 }, { 0, 1 } } }, {},
  method = function() return smc.hmm.new end, only = { "initial_logits", "transition_logits" } }

-- ---- Rao-Blackwellised filters ----

local rows = pn.tensor { { 0.85, 0.15 }, { 0.3, 0.7 } }
local function column(values) return pn.tensor(values):reshape { 2, 1, 1 } end
local slopes, noises = column { 0.9, -0.5 }, column { 0.1, 0.4 }
local function of_label(s)
  return { transition = slopes:take(1, s), transition_cov = noises:take(1, s), emission = pn.tensor { { 1 } },
    emission_cov = pn.tensor { { 0.2 } } }
end
local switching = { num_particles = 6, initial_mean = pn.tensor { 0.2 }, initial_cov = pn.tensor { { 1 } },
  init = dist.categorical { 0.6, 0.4 },
  transition = function(s) return dist.categorical { probs = rows:take(1, s) } end,
  system = of_label }
local values = drawn(10, 5, 1) * 2
local function switched(o, given)
  local f = smc.rbpf(o)
  local r = f:run(values, given)
  return r.log_evidence, r.increments, r.mean, r.cov, r.probabilities, #f.pass.machine:trace()
end
cases["pn.smc.rbpf"] = { switched, switching, {
  num_particles = 7, initial_mean = pn.tensor { 1 }, initial_cov = pn.tensor { { 2 } },
  init = dist.categorical { 0.1, 0.9 }, batch_shape = { 2 },
  transition = function(s) return dist.categorical { probs = rows:take(1, 1 - s) } end,
  system = function(s) return of_label(1 - s) end, threshold = 0.99,
  resampling = list { at("killing", { threshold = 1 }), at("multinomial", { threshold = 1 }), at("residual", {
    threshold = 1 }) },
  proposal = list { "optimal", function() return dist.categorical { 0.5, 0.5 } end } },
  { resampling = "rows of smc.machine", trace = "rows of smc.machine", gradient = "spec/smc/rbpf_spec.lua",
    alpha = "spec/smc/rbpf_spec.lua", history = "spec/smc/rbpf_spec.lua: what smooth needs",
    degenerate = "rows of smc.machine", coupling = "spec/smc/rbpf_spec.lua", conditioning = "spec/smc/rbpf_spec.lua",
    sampler = "spec/smc/switching_example_spec.lua", measurement_update = "spec/smc/rbpf_spec.lua",
    resampled_gradient = "spec/smc/rbpf_spec.lua" } }
local filter = once(function() return smc.rbpf(switching) end)
method("rbpf:run", filter, function(f, o) return fields(f:run(values, o)) end, {}, {
  observed = pn.tensor { 1, 1, 0, 1, 1 }:gt(0):reshape { 5, 1 } }, { inputs = "spec/smc/rbpf_spec.lua" })

-- ---- series ----

local set = once(function()
  local items = {}
  for k = 1, 4 do items[k] = { target = drawn(20 + k, 9 + k):totable() } end
  return pn.data.series(items)
end)
local function batch_of(b) return b.y, b.lengths or 0, b.series or 0 end
method("series_set:windows", set, function(s, o) return batch_of(s:windows(o)) end, { size = 4, count = 3 })
method("series_set:history", set, function(s, o) return batch_of(s:history(o)) end, { steps = 5 },
  { drop = 2, steps = 6, items = { 1, 3 } })
method("series_set:future", set, function(s, o) return s:future(o).y end, { steps = 2, drop = 3 },
  { drop = 4, steps = 3, items = { 1, 3 } })

-- ---- forecasters ----

local batch = { y = drawn(30, 6, 2, 1):cumsum(1) }
local deep_state = once(function() return pn.models.deep_state { hidden = 2, layers = 1, seasonal = {} } end)
local deepar = once(function() return pn.models.deepar { hidden = 2, layers = 1 } end)
local covered = once(function() return pn.models.deepar { hidden = 2, layers = 1, covariates = 1 } end)
method("deep_state:forecast", deep_state, function(m, o) return m:forecast(batch, 2, o) end, { draws = 3 },
  { batch_size = 2 }, { inputs = "a row of its own", mode = "a row of its own" })
cases["deepar:forecast by inputs"] = { function(o)
  return covered():forecast({ y = batch.y, inputs = drawn(31, 6, 2, 1) }, 2, o)
end, { draws = 3, inputs = drawn(32, 2, 2, 1) }, { inputs = drawn(33, 2, 2, 1) }, {},
  method = function() return covered().forecast end, only = { "inputs", "draws" } }
method("deep_state:quantiles", deep_state, function(m, o) return m:quantiles(batch, 2, { 0.2, 0.7 }, o) end,
  { draws = 5 }, { batch_size = 2 }, { inputs = "deepar:forecast by inputs", mode = "deep_state:forecast" })
method("deep_state:log_evidence", deepar, function(m, o) return m:log_evidence(batch, o) end, {}, {},
  { generator = "an exact evidence draws nothing" })
cases["deep_state:log_evidence"] = nil

-- ---- autoencoders ----

local picture = pn.rand({ 6, 4 }, { generator = pn.generator(34) }):gt(0.5):to "float64"
local vae = once(function() return pn.models.vae { data = 4, latent = 2, hidden = { 3 } } end)
local told_vae = once(function()
  return pn.models.vae { data = 4, latent = 2, hidden = { 3 }, condition = 2, prior = "conditional" }
end)
local says_where = drawn(38, 6, 4):gt(0)
local says, other_says = drawn(35, 6, 2), drawn(36, 6, 2)
method("autoencoder:loss", vae, function(m, o) return m:loss(picture, o) end, {}, { draws = 3,
  objective = list { "iwae", "dreg" } }, { condition = "the methods of a conditional autoencoder",
  objective = "a row of its own" })
cases["an autoencoder's objectives"] = { function(o)
  local m = vae()
  local loss = m:loss(picture, o)
  return loss, pn.grad(loss, m:parameters())
end, { draws = 3 }, {}, {}, method = function() return vae().loss end, only = { "objective" } }
method("autoencoder:bound", vae, function(m, o) return fields(m:bound(picture, o)) end, { draws = 6 }, {},
  { condition = "the methods of a conditional autoencoder",
    batch_size = "the same but for rounding: spec/models/option_effect_spec.lua" })
method("autoencoder:impute", vae, function(m, o)
  local found, history = m:impute(picture, says_where, o)
  return found, history
end, { draws = 3, warmup = 2 }, { draws = 4, warmup = 4, history = true },
  { condition = "the methods of a conditional autoencoder" })
method("autoencoder:encode", vae, function(m, o)
  local law = m:encode(picture, o)
  return pn.is_tensor(law) and law or law:mean()
end, {}, { draws = 3 }, { condition = "the methods of a conditional autoencoder",
  draws = "spec/models/vae_spec.lua" })
method("autoencoder:generate", vae, function(m, o) return m:generate(3, o) end, {}, {},
  { condition = "the methods of a conditional autoencoder" })
for name, call in pairs { loss = function(m, o) return m:loss(picture, o) end,
  bound = function(m, o)
    o.draws = 4
    return fields(m:bound(picture, o))
  end,
  decode = function(m, o) return m:decode(drawn(37, 6, 2), o):mean() end,
  encode = function(m, o) return m:encode(picture, o):mean() end,
  reconstruct = function(m, o) return m:reconstruct(picture, o) end,
  posterior_law = function(m, o) return m:posterior_law(picture, o):mean() end,
  impute = function(m, o)
    o.draws, o.warmup = 2, 2
    return m:impute(picture, says_where, o)
  end,
  generate = function(m, o) return m:generate(6, o) end } do
  cases["a conditional autoencoder's " .. name] = { function(o) return call(told_vae(), o) end, { condition = says },
    { condition = other_says }, {}, method = function() return told_vae()[name] end, only = { "condition" } }
end

-- ---- one linear model, by weights ----

local line = once(function()
  return pn.invariance.linear_model { x = { 1, 2, -0.5, 0 }, y = { 1, 2 }, noise_variance = 0.2 }
end)
for _, name in ipairs { "elbo", "expected_log_likelihood" } do
  method("linear_model:" .. name, line, function(m, o) return m[name](m, m:posterior(), o) end)
end
method("linear_model:data_bound", line, function(m, o) return m:data_bound(o) end)
method("linear_model:optimum", line, function(m, o) return fields(m:optimum("mean_field", o)) end)

local pair = once(function()
  return line():approximation { loc = { 0.3, 0.1, 0, 0.2 }, variance = { 1, 0.5, 2, 1 } }
end)
local function moments_of(law) return law:mean(), law:variance() end
method("linear_model:approximation", line, function(m, o) return moments_of(m:approximation(o):q0()) end,
  { loc = { 0.3, 0.1, 0, 0.2 }, variance = { 1, 0.5, 2, 1 } }, { loc = { 0, 0.1, 0, 0.2 },
  variance = { 2, 0.5, 2, 1 } }, { covariance = "spec/invariance/linear_model_spec.lua: in the place of variance" })
method("approximation:finite", pair, function(m, o) return moments_of(m:finite(2, o)) end, {}, { pivot = 1 }, {
  pivot = "the same law by another basis: spec/invariance/linear_model_spec.lua" })

-- ---- what is drawn of fits and posteriors ----

local coin = pn.model(function(m, seen)
  local mu = m:sample("mu", dist.normal(0, 1))
  m:plate("rows", seen:size(1), function() m:observe("y", dist.normal(mu, 1), seen) end)
end)
local posterior = once(function()
  return pn.nuts(coin, { data = { drawn(42, 5) }, chains = 1, warmup = 10, draws = 12 })
end)
method("gibbs:predict", posterior, function(m, o) return m:predict(o) end, { draws = 4 }, { data = { drawn(43, 4) },
  draws = 5 }, { model = "spec/infer/nuts_spec.lua" })
method("gibbs:log_likelihood", posterior, function(m, o) return m:log_likelihood(o) end, {}, {
  data = { drawn(43, 4) } })
local days = once(pn.gap.traffic_days)
method("flights:sample_after", days, function(s, o) return s:sample_after(pn.full({ 20, 2, 1 }, 50), 3, o) end)
local kvae = once(function() return pn.models.kvae { units = 2, hidden = { 2 }, belief_draws = 1 } end)
method("kvae:bound", kvae, function(m, o) return m:bound({ y = drawn(44, 4, 2, 1) }, o) end, {}, {
  draws = 3 }, { state_draws = "a row of its own" })
cases["kvae:bound by draws of the states"] = { function(o)
  return kvae():bound({ y = drawn(44, 4, 2, 1) }, o)
end, { objective = "monte_carlo" }, {}, {}, method = function() return kvae().bound end, only = { "state_draws" } }
method("rbpf:forecast", once(function()
  local f = smc.rbpf { num_particles = 4, init = switching.init, transition = switching.transition,
    initial_mean = switching.initial_mean, initial_cov = switching.initial_cov,
    system = function(s, _, u)
      local m = of_label(s)
      m.transition_offset = (u or pn.zeros { 1 }):reshape { 1 }
      return m
    end }
  pn.seed(1)
  f:run(values, { inputs = drawn(45, 5, 1) })
  return f
end), function(f, o) return f:forecast(2, o).mean end, { inputs = drawn(46, 2, 1) }, { inputs = drawn(47, 2, 1) })
cases["pn.plot.history"] = { function(o)
  return plot.script("a.svg", "svg", plot.history({ history = { 3, 2, 1.5 } }, o))
end, {}, { log = true, x_label = "round" } }
local sheets = pn.stack({ y, y + 1, y - 1, y * 2 }, 1)
cases["pn.plot.fan_chart"] = { function(o) return plot.script("a.svg", "svg", { plot.fan_chart(o) }) end,
  { draws = sheets, observations = pn.tensor { 1, 2 } }, {
  draws = sheets * 2, levels = { 0.4 }, observations = pn.tensor { 1, 3 }, x = pn.tensor { 2, 3, 4, 7 },
  observed_at = pn.tensor { 0, 2 }, start = 2, label = "mid", colour = "#123456", title = "t", x_label = "time",
  y_label = "what", x_range = { 0, 9 }, y_range = { -9, 9 }, x_log = true, y_log = true, legend = "top left",
  legend_title = "bands" }, { mean = "a row of its own: in the place of draws", variance = "the same" } }
cases["pn.plot.fan_chart of a normal"] = { function(o) return plot.script("a.svg", "svg", { plot.fan_chart(o) }) end,
  { mean = y, variance = y:square() + 1 }, { mean = y + 1, variance = y:square() + 2 }, {},
  method = function() return plot.fan_chart end, only = { "mean", "variance" } }

-- ---- learning ----

local relu = once(function() return pn.vbp.relu_net { sizes = { 2, 3, 1 }, seed = 1 } end)
local inputs, targets = drawn(40, 7, 2), drawn(41, 7, 1)
local function fresh() return pn.vbp.relu_net { sizes = { 2, 3, 1 }, seed = 1 } end
cases["relu_net:observe"] = { function(o)
  local r = fresh():observe(inputs, targets, o)
  return r.bounds
end, {}, { max_sweeps = 1, tolerance = 100 }, {}, method = function() return relu().observe end }
cases["relu_net:fit"] = { function(o)
  local r = fresh():fit(o)
  return r.bounds, r.steps
end, { data = { inputs, targets }, max_sweeps = 4 }, { data = { inputs * 2, targets }, max_sweeps = 2,
  tolerance = 100, trace = true }, {}, method = function() return relu().fit end }

return cases
