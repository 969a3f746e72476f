--- Options of pn.smc's functions and methods, for spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at, made, list = battery.at, battery.made, battery.list
local smc, kalman = pn.smc, pn.smc.kalman

local drawn = battery.drawn

local spd = pn.tensor { { 0.5, 0.1 }, { 0.1, 0.3 } }
local y = drawn(1, 5, 2)
local there = pn.tensor { { 1, 1 }, { 1, 0 }, { 0, 1 }, { 1, 1 }, { 1, 1 } }:gt(0)
local inputs = drawn(2, 5, 1)
local system = { transition = pn.tensor { { 0.9, 0.2 }, { -0.1, 0.7 } }, transition_cov = spd,
  emission = pn.tensor { { 1, 0.5 }, { 0, 1 } }, emission_cov = spd * 0.7, initial_mean = pn.tensor { 0.5, -1 },
  initial_cov = spd * 2 }
local driven = { transition_input = pn.tensor { { 0.3 }, { 1 } } }
for name, x in pairs(system) do driven[name] = x end

local cases = {}

-- ---- hidden Markov models ----

local hmm = smc.hmm { initial = { 0.3, 0.7 }, transition = { { 0.8, 0.2 }, { 0.4, 0.6 } },
  emission = pn.dist.normal(pn.tensor { -1, 1 }, pn.tensor { 0.5, 1 }) }
local seen, lit = pn.tensor { 0.3, -1, 2, 0.5, 1 }, pn.tensor { 1, 0, 1, 1, 1 }:gt(0)
local path = pn.tensor({ 0, 1, 1, 0, 1 }, { dtype = "int64" })
local of_hmm = {
  log_likelihood = function(o) return hmm:log_likelihood(seen, o) end,
  filter = function(o) return hmm:filter(seen, o) end,
  smooth = function(o) return hmm:smooth(seen, o) end,
  viterbi = function(o) return hmm:viterbi(seen, o) end,
  log_joint = function(o) return hmm:log_joint(path, seen, o) end,
  forecast = function(o) return hmm:forecast(seen, 2, o).states end,
  sample_states = function(o) return hmm:sample_states(seen, o) end,
}
for name, call in pairs(of_hmm) do
  cases["hmm:" .. name] = { call, {}, { observed = lit }, method = function() return hmm[name] end }
end
-- a shared generator draws 40 paths that a single one would hardly change
cases["hmm:sample_states"][2] = { draws = 40 }
cases["hmm:sample"] = { function(o)
  local states, observations = hmm:sample(20, o)
  return states, observations
end, {}, { batch_shape = { 2 } }, method = function() return hmm.sample end }
local function fitted(m, trace)
  return m.log_initial, m.log_transition, m.emission.loc, m.emission.scale, trace
end
cases["hmm:fit"] = { function(o) return fitted(hmm:fit(seen, o)) end, { max_steps = 3 }, { observed = lit,
  tolerance = 10, initial = false, transition = false, emission = false, scale_floor = 2,
  steps = made(function() return 2 end, { optimiser = false }) }, {
  optimiser = "a row of its own: hmm:fit by gradients", steps = "the same" },
  method = function() return hmm.fit end }
cases["hmm:fit"][3].steps = nil

-- ---- Kalman ----

local sides = { first = "predicted", observed = there, inputs = inputs }
local function kalman_case(name, call, others, both)
  local all = {}
  for _, part in ipairs { sides, others or {} } do
    for key, value in pairs(part) do all[key] = value end
  end
  for key, value in pairs(all) do
    if value == "none" then all[key] = nil end
  end
  cases["pn.smc.kalman." .. name] = { call, both or {}, all }
end
-- (Of a system with an input matrix the inputs are what is asked for: without them it is refused.)
local function of(o) return o.inputs and driven or system end
kalman_case("filter", function(o) return kalman.filter(of(o), y, o) end)
kalman_case("log_likelihood", function(o) return kalman.log_likelihood(of(o), y, o) end)
kalman_case("smooth", function(o) return kalman.smooth(of(o), y, o) end)
kalman_case("forecast", function(o) return kalman.forecast(of(o), y, 2, o) end, { inputs = drawn(3, 7, 1) })
kalman_case("sample", function(o) return kalman.sample(of(o), 5, o) end, { observed = "none", draws = 2,
  batch_shape = { 3 } })
kalman_case("sample_posterior", function(o) return kalman.sample_posterior(of(o), y, o) end, { draws = 2 })
kalman_case("elbo", function(o) return kalman.elbo(of(o), y, o) end)
cases["pn.smc.kalman.elbo"].only = { "first", "observed", "inputs" }
-- (The same number by each: a long series shows that it is found by another way.)
cases["kalman.elbo's entropy"] = { function(o) return kalman.elbo(system, drawn(12, 40, 2), o) end, {}, {},
  method = function() return kalman.elbo end, only = { "entropy" } }
kalman_case("em", function(o)
  local r = kalman.em(of(o), y, o)
  return r.log_likelihood, r.steps, r.converged, r.system.transition, r.system.emission, r.system.emission_cov
end, { tolerance = 0.5, fixed = { "emission" } }, { steps = 3 })
cases["pn.smc.kalman.discretise"] = { function(o) return kalman.discretise(o) end,
  { drift = pn.tensor { { -0.5, 1 }, { 0, -1 } }, diffusion = spd, step = 0.3 },
  { drift = pn.tensor { { -0.4, 1 }, { 0, -1 } }, diffusion = spd * 2, offset = pn.tensor { 1, 2 } } }

-- ---- systems that are not linear ----

local curved = { transition = function(x, _, u) return u and x:sin() + u or x:sin() end, transition_cov = spd,
  emission = function(x) return x + x:square() * 0.2 end, emission_cov = spd * 0.7,
  initial_mean = pn.tensor { 0.5, -1 }, initial_cov = spd * 2 }
for name, others in pairs { extended = {}, unscented = { kappa = 1, smooth = true },
  ensemble = { inflation = 1.5, num_particles = 6, taper = pn.tensor { { 1, 0.1 }, { 0.1, 1 } },
    emission_taper = pn.tensor { { 1, 0.1 }, { 0.1, 1 } } } } do
  local all = { inputs = inputs, observed = there, first = "predicted", smooth = name ~= "ensemble" and true or nil }
  for key, value in pairs(others) do all[key] = value end
  cases["pn.smc." .. name] = { function(o) return smc[name](curved, y, o) end,
    name == "ensemble" and { num_particles = 5 } or {}, all }
end

-- ---- particles ----

local log_w, many = drawn(8, 6), drawn(9, 40) * 2
cases["pn.smc.resample"] = { function(o) return smc.resample(many, o) end }
cases["pn.smc.transport"] = { function(o) return smc.transport(drawn(4, 6, 2), log_w, o) end, {},
  { steps = 2, epsilon = 0.3 } }

local series = drawn(5, 6) * 2
local us = pn.tensor { 1, 0, 2, 0, 1, 3 }
local function walk(o)
  o.prior = o.prior or function() return pn.dist.normal(0, 1) end
  o.transition = o.transition or function(x, _, u) return pn.dist.normal(x * 0.9 + (u or 0), 0.7) end
  o.observation = o.observation or function(x) return pn.dist.normal(x, 0.5) end
  return o
end
local function filtered(o, given)
  local f = smc.filter(walk(o))
  local r = f:run(series, given or { moments = true })
  return r.log_evidence, r.increments, r.mean, r.square, #f.machine:trace()
end
local function other_law(x) return pn.dist.normal(x * 0.5, 0.9) end
cases["pn.smc.filter"] = { filtered, { num_particles = 8 }, {
  num_particles = 9, batch_shape = { 2 }, threshold = 0.9, prior = pn.dist.normal(1, 1),
  islands = 2, exchange = at(1, { islands = 3 }),
  transition = other_law, observation = other_law,
  resampling = list { "killing", "multinomial", "residual", "stratified", at("ssp", { threshold = 1 }) },
  proposal = function(x, obs) return pn.dist.normal(x and (x + obs) / 2 or obs, 0.8) end,
  lookahead = function(x, obs) return pn.dist.normal(x, 1):log_prob(obs) end },
  { trace = "rows of smc.machine", history = "spec/smc/machine_spec.lua", gradient = "a row of its own",
    alpha = "a row of its own", conditional = "filter:run's reference", degenerate = "a row of its own",
    init = "the other way to write a model: a row of its own", step = "the same", log_weight = "the same",
    transition_log_prob = "filter:run's ancestor_sampling" } }

local function own(o)
  o.num_particles = 8
  local f = smc.filter(o)
  return f:run(series, { moments = true })
end
cases["filter of functions"] = { function(o)
  local r = own(o)
  return r.log_evidence, r.mean
end, { init = function(n) return pn.randn { n } end,
  step = function(x) return x * 0.9 + pn.randn(x:shape()) * 0.5 end,
  log_weight = function(x, obs) return pn.dist.normal(x, 1):log_prob(obs) end }, {
  init = function(n) return pn.randn { n } * 2 end, step = function(x) return x * 0.5 + pn.randn(x:shape()) end,
  log_weight = function(x, obs) return pn.dist.normal(x, 2):log_prob(obs) end },
  method = function() return smc.filter end, only = { "init", "step", "log_weight" } }

local slope = pn.param(0.9)
cases["filter's gradient"] = { function(o)
  o.num_particles, o.threshold, o.resampling = 8, 1, "multinomial"
  o.transition = function(x) return pn.dist.normal(x * slope, 0.7) end
  local value = smc.filter(walk(o)):run(series).log_evidence
  return value, pn.grad(value, { slope })[1]
end, {}, { gradient = list { "stop_gradient", "soft", "transport" }, alpha = at(0.2, { gradient = "soft" }) },
  method = function() return smc.filter end, only = { "gradient", "alpha" } }

cases["filter:run"] = { function(o)
  local back = o.reference or o.ancestor_sampling
  local f = smc.filter(walk { num_particles = 8, conditional = back and true or false, threshold = 1,
    resampling = back and "multinomial" or nil })
  local r = f:run(series, o)
  return r.log_evidence, r.increments, r.mean, r.square, r.smoothed, f.record and #f.record or 0
end, {}, { inputs = us, moments = true, lag = list { 2, at(3, { lag = 1 }) }, record = true,
  reference = at(drawn(6, 6), { reference = drawn(7, 6) }), ancestor_sampling = at(true, { reference = drawn(7, 6) }) },
  method = function() return smc.filter(walk { num_particles = 8 }).run end }

local recorded
local function kept()
  if not recorded then
    recorded = smc.filter(walk { num_particles = 30 })
    pn.seed(4)
    recorded:run(series, { record = true })
  end
  return recorded
end
cases["filter:smooth, backwards"] = { function(o) return kept():smooth(o) end, { draws = 3 }, { draws = 4,
  log_bound = math.log(1 / 0.7 / math.sqrt(2 * math.pi)) + 1e-9 },
  method = function() return require "penumbra.smc.smoothed_paths".smooth end, only = { "draws", "log_bound" } }
cases["filter:smooth, two filters"] = { function(o) return kept():smooth(o).mean end, { method = "two_filter" },
  { artificial = function() return pn.dist.normal(0.5, 2) end },
  method = function() return require "penumbra.smc.two_filter".smooth end, only = { "artificial" } }

-- ---- bounds ----

local function of_bound(f, more)
  return function(o)
    local model = walk { num_particles = 6 }
    model.observation = function(x) return pn.dist.normal(x, 0.5) end
    for key, value in pairs(more or {}) do model[key] = value end
    return (f(smc.filter, model, series, o))
  end
end
for name, gradient in pairs { elbo = false, iwae = false, fivo = true, vsmc = true } do
  cases["pn.smc." .. name] = { of_bound(smc[name]), {}, { num_particles = 7, batch_shape = { 2 }, inputs = us,
    resampling = gradient and "multinomial" or nil, threshold = gradient and (name == "vsmc" and 0.3 or 1) or nil },
    { observed = "pn.smc.rbpf's run: a filter of laws refuses it",
      resampling = not gradient and "nothing is resampled" or nil,
      gradient = gradient and "bounds of a particle filter's gradient" or nil,
      baseline = gradient and "the same" or nil } }
end
cases["bounds of a particle filter's gradient"] = { function(o)
  local model = walk { num_particles = 6, resampling = "multinomial", threshold = 1,
    transition = function(x) return pn.dist.normal(x * slope, 0.7) end }
  local value = smc.fivo(smc.filter, model, series, o)
  return value, pn.grad(value, { slope })[1]
end, {}, { gradient = list { "score_function", "soft", "transport", "stop_gradient" },
  baseline = at(2, { gradient = "score_function" }) }, method = function() return smc.fivo end,
  only = { "gradient", "baseline" } }

return cases
