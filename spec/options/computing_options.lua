--- Options of functions of tensors, of gradients and equations, of metrics, data, gaps and invariances, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local at = battery.at
local metrics, gap, invariance = pn.metrics, pn.gap, pn.invariance

local drawn = battery.drawn

-- The fields of an object.
local function fields(x)
  local all = {}
  for key, v in next, x do
    if pn.is_tensor(v) or type(v) == "number" or type(v) == "string" or type(v) == "boolean" then all[key] = v end
  end
  return all
end

local cases = {}
local NAN, INF = 0 / 0, math.huge
local function int(values) return pn.tensor(values, { dtype = "int64" }) end

-- ---- tensors ----

local x, z = drawn(1, 4, 3), drawn(2, 4, 3)
cases["pn.norm"] = { function(o) return pn.norm(x, o) end, {}, { p = 1, axis = 2, keepdim = at(true, { axis = 2 }) } }
cases["pn.cdist"] = { function(o) return pn.cdist(x, z, o) end, {}, { p = 1 } }
cases["pn.cov"] = { function(o) return pn.cov(x, o) end, {}, { correction = 0 } }
local low_rank = pn.tensor { { 1, 2 }, { 2, 4.0001 } }
cases["pn.matrix_rank"] = { function(o) return pn.matrix_rank(low_rank, o) end, {}, { rtol = 1e-3 } }
cases["pn.pinv"] = { function(o) return pn.pinv(low_rank, o) end, {}, { rtol = 1e-3 } }
cases["pn.lstsq"] = { function(o) return pn.lstsq(low_rank, pn.tensor { { 1 }, { 2.5 } }, o) end, {}, { rtol = 1e-3 } }
cases["pn.nan_to_num"] = { function(o) return pn.nan_to_num(pn.tensor { 1, NAN, INF, -INF }, o) end, {},
  { nan = 7, posinf = 8, neginf = -9 } }
local near = { pn.tensor { 1, 2, NAN, 0 }, pn.tensor { 1 + 1e-6, 2.1, NAN, 1e-9 } }
cases["pn.isclose"] = { function(o) return pn.isclose(near[1], near[2], o) end, {}, { rtol = 0.1, atol = 1e-12,
  equal_nan = true } }
cases["pn.allclose"] = { function(o) return pn.allclose(near[1]:slice(1, 1, 1), near[2]:slice(1, 1, 1), o) end, {},
  { rtol = 1e-12, atol = at(1e-3, { rtol = 1e-12 }) }, { equal_nan = "a row of its own" } }
cases["pn.allclose of NaN"] = { function(o) return pn.allclose(pn.tensor { NAN }, pn.tensor { NAN }, o) end, {},
  { equal_nan = true }, {}, method = function() return pn.allclose end, only = { "equal_nan" } }
cases["pn.bincount"] = { function(o) return pn.bincount(int { 0, 2, 2, 1 }, o) end, {},
  { num_bins = 5, weights = pn.tensor { 1, 0.5, 2, 1 } } }
cases["pn.histogram"] = { function(o)
  local counts, edges = pn.histogram(x:reshape { -1 }, o)
  return counts, edges
end, {}, { bins = 4, range = { -1, 1 }, weights = pn.linspace(0, 1, 12) } }
local logits, labels = drawn(3, 5, 3), int { 0, 2, 1, 1, 0 }
cases["pn.cross_entropy"] = { function(o) return pn.cross_entropy(logits, labels, o) end, {},
  { weights = pn.tensor { 1, 2, 0.5 }, ignore = 1, smoothing = 0.1 } }
cases["pn.kl_div"] = { function(o) return pn.kl_div(logits:log_softmax(-1), (logits * 0.5):softmax(-1), o) end, {},
  { log_target = true } }
local log_p = drawn(4, 6, 2, 4):log_softmax(-1)
local words = int { { 1, 2 }, { 3, 1 } }
local of_ctc = { lengths = int { 6, 4 }, label_lengths = int { 2, 1 }, blank = 3 }
cases["pn.ctc_log_prob"] = { function(o)
  return pn.ctc_log_prob(log_p, o.blank and int { { 1, 2 }, { 0, 1 } } or words, o)
end, {}, of_ctc }
cases["pn.ctc_loss"] = { function(o)
  return pn.ctc_loss(log_p, o.blank and int { { 1, 2 }, { 0, 1 } } or words, o)
end, {}, { lengths = of_ctc.lengths, label_lengths = of_ctc.label_lengths, blank = 3,
  zero_infinity = at(true, { lengths = int { 6, 1 } }) } }

-- ---- gradients and equations ----

local function with_graph(call)
  return { function(o)
    local got = call(o)
    local first = type(got) == "table" and got[1] or got
    return first:requires_grad(), got
  end, {}, { create_graph = true } }
end
local w = pn.param(pn.tensor { 1, 2 })
cases["pn.jacobian"] = with_graph(function(o) return pn.jacobian(function(v) return v ^ 3 end, w, o) end)
cases["pn.hessian"] = with_graph(function(o) return pn.hessian(function(v) return (v ^ 3):sum() end, w, o) end)
cases["pn.jvp"] = with_graph(function(o)
  local _, t = pn.jvp(function(v) return v ^ 3 end, w, pn.ones { 2 }, o)
  return t
end)
cases["pn.vjp"] = with_graph(function(o)
  local _, t = pn.vjp(function(v) return v ^ 3 end, w, pn.ones { 2 }, o)
  return t
end)
local tight = { rtol = 1e-3, atol = 1e-3 }
local function decay(t, v) return (t * 3):cos() * 2 - v end
local from, times = pn.tensor { 1, 0.5 }, pn.tensor { 0, 0.5, 2 }
cases["pn.odeint"] = { function(o) return pn.odeint(decay, from, times, o) end, tight, {
  rtol = 1e-1, atol = 1e-1, first_step = 0.01, max_step = 0.05, method = "rosenbrock" },
  { max_steps = "a row of its own", parameters = "spec/autodiff/odeint_spec.lua", events =
    "spec/autodiff/odeint_events_spec.lua", gradient = "spec/autodiff/odeint_checkpoints_spec.lua" } }
cases["pn.odeint's end"] = { function(o) return pn.odeint(decay, from, times, o) end, {},
  { max_steps = battery.refused(2, "steps") }, {}, method = function() return pn.odeint end, only = { "max_steps" } }

-- ---- metrics ----

local obs, draws = drawn(5, 6), drawn(6, 9, 6)
local probs = (drawn(7, 40, 3) * 2):softmax(-1)
local classes = (drawn(8, 40, 3) + probs * 3):argmax(-1)
local yes = pn.tensor(drawn(9, 40):gt(0):to("int64"):totable(), { dtype = "int64" })
for _, name in ipairs { "crps", "energy_score" } do
  cases["pn.metrics." .. name] = { function(o)
    if name == "crps" then return metrics.crps(obs, draws, o) end
    return metrics.energy_score(drawn(10, 4, 2), drawn(11, 9, 4, 2), o)
  end }
end
cases["pn.metrics.ece"] = { function(o) return metrics.ece(classes, probs, o) end, {}, { bins = 4 } }
cases["pn.metrics.reliability"] = { function(o) return metrics.reliability(classes, probs, o) end, {}, { bins = 4 } }
cases["pn.metrics.calibration_curve"] = { function(o)
  return metrics.calibration_curve(yes, probs:select(2, 1), o)
end, {}, { bins = 4 } }
cases["pn.metrics.kernel_log_density"] = { function(o)
  return metrics.kernel_log_density(drawn(12, 3, 2), drawn(13, 20, 3, 2), o)
end, {}, { bandwidth = 0.5 } }
cases["pn.metrics.mase"] = { function(o) return metrics.mase(obs, obs * 0.9, draws:select(1, 1), o) end, {},
  { season = 2 } }
cases["pn.metrics.mean_scaled_interval_score"] = { function(o)
  return metrics.mean_scaled_interval_score(obs, obs * 0.9 - 0.3, obs * 0.8 + 0.1, draws:select(1, 1), o)
end, {}, { level = 0.8, season = 2 } }
cases["pn.metrics.normalised_crps"] = { function(o) return metrics.normalised_crps(obs, draws, o) end, {},
  { levels = { 0.2, 0.7 } } }
cases["pn.metrics.quantiles"] = { function(o) return metrics.quantiles(draws, { 0.31, 0.77 }, o) end }
cases["pn.metrics.pit"] = { function(o) return metrics.pit(pn.ones { 6 }, pn.ones { 9, 6 }, o) end }
cases["pn.metrics.ood"] = { function(o) return fields(metrics.ood(probs, probs * 0.5 + 1 / 6, o)) end, {},
  { y = classes } }
cases["pn.metrics.wasserstein_1d"] = { function(o) return metrics.wasserstein_1d(obs, draws:select(1, 2), o) end, {},
  { weights = pn.linspace(0.1, 1, 6), other_weights = pn.linspace(1, 0.1, 6) } }
cases["pn.metrics.wasserstein"] = { function(o) return metrics.wasserstein(x, z, o) end, {},
  { weights = pn.linspace(0.1, 1, 4), other_weights = pn.linspace(1, 0.1, 4), cost = drawn(14, 4, 4):abs() } }
cases["pn.metrics.image_wasserstein"] = { function(o)
  local a = drawn(15, 2, 3, 3):abs()
  return metrics.image_wasserstein(a, pn.concatenate({ a:slice(1, 2, 2), pn.zeros { 1, 3, 3 } }, 1), o)
end, { empty = 5 }, { empty = 7 } }
cases["pn.metrics.backtest"] = { function(o)
  return fields(metrics.backtest(drawn(16, 12), function(history, n)
    return pn.full({ 20, n }, history:mean():item()) + drawn(17, 20, n)
  end, o))
end, { steps = 2 }, { first = 8, every = 3, season = 3 } }

-- ---- data ----

for _, name in ipairs { "two_moons", "circles", "spirals", "checkerboard" } do
  cases["pn.data." .. name] = { function(o) return pn.data[name](9, o) end, {}, { radii = { 2, 1 }, noise = 0.3 } }
end
for name, own in pairs { two_moons = {}, circles = { radii = { 2, 1 } }, spirals = {}, checkerboard = {} } do
  own.noise = 0.3
  cases["pn.data." .. name][3] = own
end
cases["pn.data.rotating_boundary"] = { function(o) return pn.data.rotating_boundary(9, 3, o) end, {},
  { noise = 0.2, degrees = 9, scale = 5, width = 1 } }
cases["pn.data.ball_video"] = { function(o) return pn.data.ball_video(2, o) end, {}, { steps = 5 } }
cases["pn.data.lags"] = { function(o) return pn.data.lags(obs, { 1, 2 }, o) end, {}, { fill = 7 } }
cases["pn.data.split"] = { function(o)
  local a, b = pn.data.split(x, { 0.5, 0.5 }, o)
  return a, b
end }
cases["pn.data.augment"] = { function(o) return pn.data.augment(drawn(18, 3, 6, 6), o) end, { shift = 2, rotate = 5 },
  { shift = 1, rotate = 9, flip = true } }
cases["pn.data.batches"] = { function(o)
  local all = {}
  for b in pn.data.batches(drawn(19, 7, 2), o) do all[#all + 1] = pn.is_tensor(b) and b or b[1] end
  return all
end, { batch_size = 3 }, { batch_size = 2 } }

-- ---- gaps ----

local spd = pn.tensor { { 0.5, 0.1 }, { 0.1, 0.3 } }
local system = { transition = pn.tensor { { 0.9, 0.2 }, { -0.1, 0.7 } }, transition_cov = spd,
  emission = pn.tensor { { 1, 0.5 } }, emission_cov = pn.tensor { { 0.4 } }, initial_mean = pn.tensor { 0.5, -1 },
  initial_cov = spd * 2 }
local driven = { transition_input = pn.tensor { { 0.3 }, { 1 } } }
for name, t in pairs(system) do driven[name] = t end
cases["pn.gap.linear_gaussian"] = { function(o)
  return fields(gap.linear_gaussian(o.inputs and driven or system, o))
end, { steps = 3 }, { steps = 4, conditioning = "full", first = "predicted",
  prefix = 2, hold = at(true, { prefix = 3 }), inputs = drawn(20, 3, 1), data = { cov = pn.eye(3) },
  observed = pn.tensor { { 1 }, { 0 }, { 1 } }:gt(0), method = "optimisation" },
  { seed = "a row of its own", max_steps = "a row of its own", tolerance = "a row of its own",
    starts = "a row of its own", batch_shape = "spec/gap/linear_gaussian_spec.lua" } }
cases["pn.gap.linear_gaussian's search"] = { function(o)
  local r = gap.linear_gaussian(system, o)
  local starts = {}
  for k, start in ipairs(r.starts) do starts[k] = start end
  return fields(r), starts
end, { steps = 3, conditioning = "dvbf", max_steps = 3 }, { max_steps = 1, tolerance = 100, starts = 3 }, {},
  method = function() return gap.linear_gaussian end, only = { "seed", "max_steps", "tolerance", "starts" } }
local hidden = { initial = { 0.3, 0.7 }, transition = { { 0.8, 0.2 }, { 0.4, 0.6 } },
  emission = { { 0.9, 0.1 }, { 0.3, 0.7 } } }
local other = { initial = { 0.5, 0.5 }, transition = { { 0.6, 0.4 }, { 0.4, 0.6 } },
  emission = { { 0.6, 0.4 }, { 0.3, 0.7 } } }
cases["pn.gap.discrete"] = { function(o)
  local r = gap.discrete(o)
  return r.gap, r.bound, r.log_likelihood
end, { steps = 2, initial = hidden.initial, transition = hidden.transition, emission = hidden.emission },
  { initial = other.initial, transition = other.transition, emission = other.emission, data = other } }
cases["pn.gap.marginal_fit"] = { function(o)
  local r = gap.marginal_fit(o)
  return r.best, r.shared
end, { loc = { 0, 2 }, scale = { 1, 0.5 } }, { loc = { 0, 1 }, scale = { 1, 0.7 }, weights = { 0.3, 0.7 } } }
cases["pn.gap.mask"] = { function(o)
  local m = gap.mask("semi", 4, o)
  return m.observations, m.prefix
end, { prefix = 3 } }
cases["pn.gap.univariate"] = { function(o) return fields(gap.univariate(o)) end, { transition = 0.9 },
  { transition = 0.5 } }
local locs = drawn(21, 2, 3)
cases["pn.gap.shared_posterior"] = { function(o) return fields(gap.shared_posterior(o)) end,
  { loc = locs, variance = pn.ones { 2, 3 } }, { loc = locs * 2, variance = pn.ones { 2, 3 } * 0.5,
  weights = pn.tensor { 0.2, 0.8 } }, { cov = "rows of their own", probs = "rows of their own",
  log_probs = "rows of their own", log_posteriors = "rows of their own", log_proposal = "rows of their own" } }
local eye = pn.eye(3):unsqueeze(1):broadcast_to { 2, 3, 3 }
local laws = drawn(22, 2, 4):softmax(-1)
for row, of in pairs { dense = { { loc = locs, cov = eye }, { cov = eye * 2 } },
  ["of values"] = { { probs = laws }, { probs = pn.concatenate({ laws:slice(1, 2, 2), laws:slice(1, 2, 2) }, 1) } },
  ["of logs"] = { { log_probs = laws:log() }, { log_probs = (laws * 0.5 + 0.125):log() } },
  ["of draws"] = { { log_posteriors = drawn(23, 2, 5), log_proposal = drawn(24, 5) },
    { log_posteriors = drawn(25, 2, 5), log_proposal = drawn(26, 5) } } } do
  local names = {}
  for name in pairs(of[2]) do names[#names + 1] = name end
  cases["pn.gap.shared_posterior " .. row] = { function(o) return fields(gap.shared_posterior(o)) end, of[1], of[2], {},
    method = function() return gap.shared_posterior end, only = names }
end
cases["pn.gap.flights"] = { function(o) return gap.flights(o):sample(3, { seed = 1 }) end, { steps = 4 },
  { noise_scale = { 0.3, 0.1, 0.1 } } }

-- ---- invariances ----

local small = pn.nn.sequential { pn.nn.linear(2, 2, { generator = pn.generator(1) }), pn.nn.tanh(),
  pn.nn.linear(2, 1, { generator = pn.generator(2) }) }
cases["pn.invariance.curves"] = { function(o) return invariance.curves(o) end, { sizes = { 2, 5 } },
  { sizes = { 2, 6 }, target = 2, function_variance = 2, mean = at("printed", { optimum = "mean_field" }),
  num_data = 20 } }
local line = { x = { 1, 2, -0.5, 0 }, y = { 1, 2 }, noise_variance = 0.2 }
local function linear(o)
  local m = invariance.linear_model(o)
  local r = m:posterior()
  return r:mean(), r:variance()
end
cases["pn.invariance.linear_model"] = { linear, line, { x = { 1, 2, 0.5, 0 }, y = { 1, 3 }, noise_variance = 0.3,
  prior_mean = 0.5, prior_variance = 2, scale = 0.5 }, { size = "a row of its own: in the place of x" } }
local point, delta = pn.tensor { 0.4, 1.2, -0.3 }, pn.tensor { { 0.3, 0.1 } }
cases["pn.invariance.translate"] = { function(o) return invariance.translate(pn.tensor { { 1, 2, 3 } }, point, delta, o)
end, {}, { pivot = 1 } }
cases["pn.invariance.translation_basis"] = { function(o) return invariance.translation_basis(point, o) end, {},
  { pivot = 1 } }
cases["pn.invariance.permutation_mixture"] = { function(o)
  return invariance.permutation_mixture(small, o):log_prob(drawn(27, 4, 9))
end, { scale = 0.3 }, { scale = 0.5 } }
local wide = pn.nn.sequential { pn.nn.linear(1, 5, { generator = pn.generator(1) }), pn.nn.tanh(),
  pn.nn.linear(5, 1, { generator = pn.generator(2) }) }
local mixture = invariance.permutation_mixture(wide, { scale = 0.3 })
for _, name in ipairs { "gap", "bounds", "log_prob", "log_ratio" } do
  local drawing = name == "gap" or name == "bounds"
  cases["permutation_mixture:" .. name] = { function(o)
    if drawing then return mixture[name](mixture, o) end
    return mixture[name](mixture, drawn(28, 4, 16), o)
  end, drawing and { draws = 6 } or {}, { draws = drawing and 7 or nil, permutations = name == "bounds" and 3 or nil,
    method = name ~= "bounds" and "subsets" or nil }, {}, method = function() return mixture[name] end }
end

return cases
