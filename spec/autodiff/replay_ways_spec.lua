-- Every way in which a value can leave a tensor, or a call can have an effect, inside a compiled function: each
-- function that scripts can reach is listed here by what it does to a capture, and those that would freeze something
-- are refused, at the line. A function that is not listed fails the test: say what it does.
local pn = require "penumbra"
local core = require "penumbra.core"
local common = require "spec.autodiff.replay_case"

local nn, optim, dist, train, data, plot = pn.nn, pn.optim, pn.dist, pn.train, pn.data, pn.plot
local metrics = pn.metrics

-- ---- what is there ----

-- Lists of functions by the place where scripts find them.
local function places()
  local out = {
    core = core, tensor = core.methods, distribution = core.distribution_methods, bijector = core.bijector_methods,
    natural = core.natural_methods, layer = core.layer_methods, optimiser = core.optimiser_methods,
    ["pn.nn"] = nn, ["pn.optim"] = optim, ["pn.dist"] = dist, ["pn.dist.bijector"] = dist.bijector,
    ["pn.dist.natural"] = dist.natural, ["pn.infer"] = pn.infer, ["pn.train"] = train, ["pn.data"] = data,
    ["pn.plot"] = plot, ["pn.metrics"] = metrics, ["pn.checkpoint"] = pn.checkpoint,
    ["pn.invariance"] = pn.invariance, ["pn.models"] = pn.models, ["pn.continual"] = pn.continual, pn = pn,
  }
  for key, meta in pairs(debug.getregistry()) do
    if type(key) == "string" and key:find "^penumbra%." and type(meta) == "table" then
      out[key .. " events"] = meta
      if type(rawget(meta, "__index")) == "table" then
        out[key .. " methods"] = meta.__index
      end
    end
  end
  return out
end

-- Rows make functions: batteries replay them.
local made_by_rows = {}
for _, row in ipairs(pn.rows()) do
  made_by_rows[row.name] = true
end

-- ---- what each does: words by class ----

local function set(text)
  local out = {}
  for name in text:gmatch "%S+" do
    out[name] = true
  end
  return out
end

-- Recorded, or of shapes, dtypes and names alone: nothing is frozen that could differ.
local harmless = set [[
  arange contiguous detach einsum eye flip full gather ge grad gt is_tensor le linspace ones zeros lt select slice sort
  split squeeze stack std tensor to topk transpose unsqueeze var where within kl dtype ndim numel shape size is_param
  call_in_turn with uncertain __pairs mode evaluate own_buffers named_buffers num_buffers is_buffer with_update carried
  update_buffers resize
  requires_grad close masked_select nonzero set_no_grad no_grad eigh svd qr slogdet kalman_predict kalman_update
  rand randn randint randperm concatenate t cast crps energy_score pit
  new_biject_to new_bijector new_composed_bijector new_distribution new_masked new_mixture new_natural new_natural_of
  new_renyi new_transformed
  log_prob mean variance stddev mode entropy cdf icdf sample rsample expand independent parameters
  log_cdf log_survival forward_log_det inverse_log_det rsample_log_prob
  quantile median searchsorted roll unbind repeat_interleave tile meshgrid one_hot
  kron logit log2 log10 cross_entropy huber
  chunk flatten moveaxis zeros_like ones_like full_like trunc nan_to_num isclose cumprod cummax cummin diff trapezoid
  interp isin nansum nanmean norm matrix_norm diag trace outer cross block_diag matrix_power solve_right matrix_rank
  pinv lstsq cov corrcoef
  predictive_entropy two_moons circles spirals checkerboard rotating_boundary ball_video
  entropy_monte_carlo expectation_monte_carlo kl_normal_log_uniform mixture_of_experts
  forward inverse log_abs_det moments configuration kl stochastic type own_parameters named_parameters
  num_parameters arguments identity leaf_beyond
  __add __sub __mul __div __idiv __mod __pow __unm __concat __len __lt __le __index __newindex __call __close __gc
  __name __metatable __eq
  is is_network module sequential mlp residual concat recurrent
  transformer_encoder_layer transformer_decoder_layer transformer_encoder transformer_decoder
  biject_to expanded masked mixture transformed product_of_experts panel renyi
  kl_monte_carlo jensen_shannon_monte_carlo chain random normal multivariate_normal
  sum_log_prob kl_mixture kl_gate kl_bernoulli_inverse geometric_mean kl_path kl_gaussian_chain kl_markov_chain
  mixture_cdf mixture_log_prob mixture_quantile
  batches holdout series lags
  apply num_states expected_log log_factor log_normaliser to_distribution of product scalar tempered compile
  cosine decay ramp warmup constant exponential step_decay piecewise
  forward_log_det inverse_log_det log_cdf log_survival rsample_log_prob unroll entropy_monte_carlo
  expectation_monte_carlo kl_normal_log_uniform mixture_of_experts
  new_hmm_filter new_hmm_viterbi new_hmm_sample new_transport new_image_transport
  quantiles quantile_loss crps_quantiles crps_normal interval_score wasserstein_1d wasserstein image_wasserstein
  pixel_accuracy kernel_log_density
  new_estimator new_sir sir running_baseline anneal pareto_k_threshold
  expected_log_likelihood noise_precision expected_softmax
  jacobian hessian jacobian_matrix hessian_matrix hessian_product gauss_newton_product odeint op custom
  sde brownian increment area
  jvp vjp vmap per_example_grad examples
  average lbfgs plateau predict activation_variance
  guide model
  new_smc new_ancestors new_selected
  bayesian_forgetting ornstein_uhlenbeck wiener posterior new_gaussian_sites correct_bias scores residual_elbo
  censored truncated hurdle zero_inflated ordered_logistic ordered_probit mse mae bce bce_logits kl_div cdist
  ctc_log_prob ctc_loss
  fftfreq rfftfreq fftconvolve rotate shift crop augment
  curves gap_formula data_bound node_posterior node_covariance permutations permutation_matrix permute
]]

-- What they say is about the machine or the program, and is the same or of no consequence.
local about = set [[
  blas clock memory modules source error version terminal terminal_answer traceback lazy_names rows kl_pairs help
  missed last_missed namespace package public raised_status reset_peak script_line
  set_tostring
  op_rows distribution_rows composite_rows bijector_rows layer_rows optimiser_rows initialiser_rows linalg_rows
  estimator_rows resampler_rows
  plans captures forget __tostring name
]]

local net = nn.linear(3, 1)
local scaled = nn.actnorm(1)
local w = pn.param(pn.ones(3))
local checkpoint_file = os.tmpname()
assert(pn.checkpoint.save(checkpoint_file, { net = net }))

-- Make a description of a picture or a schedule out of tables: reading happens in `points`, `line` and so on.
-- Three classes, and probabilities of them.
local function classes() return pn.zeros({ 3 }, { dtype = "int64" }) end
local function some() return pn.tensor({ 0, 1, 1 }, { dtype = "int64" }) end
local function shares(x) return pn.stack({ x, -x }, 2):softmax(2) end

local reads = {
  ["tensor.item"] = function(x) return x * x:sum():item() end,
  ["tensor.totable"] = function(x) return x * x:totable()[1] end,
  ["penumbra.tensor events.__tostring"] = function(x) return #tostring(x) > 0 and x end,
  ["core.text"] = function(x) return #core.text(x) > 0 and x end,
  ["penumbra.tensor events.__concat"] = function(x) return #("x" .. x) > 0 and x end,
  ["pn.unique"] = function(x) return pn.unique(x) end,
  ["pn.allclose"] = function(x) return pn.allclose(x, x) and x end,
  ["pn.bincount"] = function(x) return pn.bincount(x:to "int64") end,
  ["pn.histogram"] = function(x) return (pn.histogram(x)) end,
  ["tensor.nonzero"] = function(x) return x:gt(0):nonzero() end,
  ["tensor.masked_select"] = function(x) return x:masked_select(x:gt(0)) end,
  ["penumbra.tensor events.__index"] = function(x) return x[x:gt(0)] end,
  ["penumbra.distribution events.__tostring"] = function(x) return #tostring(dist.normal(x:sum(), 1)) > 0 and x end,
  ["penumbra.distribution.bijector events.__tostring"] = function(x)
    return #tostring(dist.bijector.affine(x:sum(), 1)) > 0 and x
  end,
  ["pn.metrics.rmse"] = function(x) return x * metrics.rmse(x, x * 2) end,
  ["pn.metrics.accuracy"] = function(x) return x * metrics.accuracy(classes(), shares(x)) end,
  ["pn.metrics.log_likelihood"] = function(x) return x * metrics.log_likelihood(classes(), shares(x)) end,
  ["pn.metrics.brier"] = function(x) return x * metrics.brier(classes(), shares(x)) end,
  ["pn.metrics.ece"] = function(x) return x * metrics.ece(classes(), shares(x)) end,
  ["pn.metrics.reliability"] = function(x) return x * #metrics.reliability(classes(), shares(x)) end,
  ["pn.metrics.auc"] = function(x) return x * metrics.auc(pn.tensor({ 0, 1, 1 }, { dtype = "int64" }), x) end,
  ["pn.metrics.ood"] = function(x)
    local p = pn.stack({ x:sigmoid(), 1 - x:sigmoid() }, 2)
    return x * metrics.ood(p, p).auc
  end,
  ["pn.metrics.ecdf_auc"] = function(x) return x * metrics.ecdf_auc(x:sigmoid() * 0.5, 3) end,
  ["pn.metrics.calibration_curve"] = function(x) return x * #metrics.calibration_curve(some(), x:sigmoid()) end,
  ["pn.metrics.confusion"] = function(x) return x * metrics.confusion(some(), x:sigmoid()).counts:sum() end,
  ["pn.metrics.f1"] = function(x) return x * metrics.f1(some(), x:sigmoid()) end,
  ["pn.metrics.roc"] = function(x) return x * metrics.roc(some(), x:sigmoid()).auc end,
  ["pn.metrics.r_squared"] = function(x) return x * metrics.r_squared(x, x * 2) end,
  ["pn.metrics.mase"] = function(x) return x * metrics.mase(x, x * 2, x) end,
  ["pn.metrics.smape"] = function(x) return x * metrics.smape(x, x * 2) end,
  ["pn.metrics.normalised_deviation"] = function(x) return x * metrics.normalised_deviation(x, x * 2) end,
  ["pn.metrics.backtest"] = function(x)
    return x * metrics.backtest(x, function(seen) return seen:slice(1, -1, -1) end, { steps = 1, first = 2 }).crps
  end,
  ["tensor.matrix_exp"] = function(x) return x:diag_embed():matrix_exp() end,
  ["pn.metrics.coverage"] = function(x) return x * metrics.coverage(x, 0.5) end,
  ["pn.metrics.normalised_crps"] = function(x) return x * metrics.normalised_crps(x, pn.stack { x, x + 1 }) end,
  ["pn.metrics.interval_coverage"] = function(x) return x * metrics.interval_coverage(x, x - 1, x) end,
  ["pn.metrics.mean_scaled_interval_score"] = function(x)
    return x * metrics.mean_scaled_interval_score(x, x - 1, x, x)
  end,
  ["pn.data.class_weights"] = function(x) return x * data.class_weights(x:abs():floor()):sum() end,
  ["pn.data.save_npy"] = function(x) data.save_npy(os.tmpname(), x) return x end,
  ["pn.data.save_zarr"] = function(x)
    data.save_zarr(os.tmpname() .. ".zarr", { g = { x = x } })
    return x
  end,
  ["pn.data.save_npz"] = function(x) data.save_npz(os.tmpname(), { x = x }) return x end,
  ["pn.data.save_csv"] = function(x) data.save_csv(os.tmpname(), x:reshape { 1, 3 }) return x end,
  ["pn.data.save_idx"] = function(x) data.save_idx(os.tmpname(), x) return x end,
  ["pn.data.save_safetensors"] = function(x) data.save_safetensors(os.tmpname(), { x = x }) return x end,
  ["pn.data.save"] = function(x) pn.save(os.tmpname(), { x = x }) return x end,
  ["pn.checkpoint.save"] = function(x) pn.checkpoint.save(os.tmpname(), { x = x }) return x end,
  ["pn.checkpoint.load"] = function(x) pn.checkpoint.load(checkpoint_file, { net = net }) return x end,
  ["pn.plot.images"] = function(x) plot.script { plot.images(x:reshape { 1, 1, 3 }) } return x end,
  ["pn.plot.points"] = function(x) plot.script { plot.points(x, x) } return x end,
  ["pn.plot.line"] = function(x) plot.script { plot.line(x, x) } return x end,
  ["pn.plot.band"] = function(x) plot.script { plot.band(x, x, x + 1) } return x end,
  ["pn.plot.histogram"] = function(x) plot.script { plot.histogram(x) } return x end,
  ["pn.plot.heatmap"] = function(x) plot.script { plot.heatmap(x:reshape { 1, 3 }) } return x end,
  ["pn.plot.contours"] = function(x) plot.script { plot.contours(pn.stack({ x, x + 1 }, 1)) } return x end,
  ["pn.plot.error_bars"] = function(x) plot.script { plot.error_bars(x, x, x) } return x end,
  ["pn.plot.fan"] = function(x) plot.script { plot.fan(x, { x, x + 1 }) } return x end,
  ["pn.plot.fan_chart"] = function(x) plot.script { plot.fan_chart { mean = x, variance = x + 1 } } return x end,
  ["pn.plot.filter_trace"] = function(x)
    plot.filter_trace { effective_sample_size = x, resampled = x, log_increment = x, unique_ancestors = x,
      largest_weight = x }
    return x
  end,
  ["pn.plot.show"] = function(x) plot.show { plot.line(x, x) } return x end,
  ["pn.infer.summary"] = function(x)
    return x * pn.infer.summary { theta = pn.stack({ x, x + 1 }, 1):reshape { 1, 6 } }.theta.mean
  end,
  ["pn.infer.pareto_warning"] = function(x) return pn.infer.pareto_warning(x, 100) and x or x end,
  ["pn.infer.laplace"] = function(x)
    pn.infer.laplace(net, x:reshape { 1, 3 }, pn.ones { 1, 1 }, { likelihood = function(f)
      return dist.normal(f, 1):independent(1)
    end })
    return x
  end,
  ["pn.infer.evidence_fixed_point"] = function(x)
    pn.infer.evidence_fixed_point(x:reshape { 3, 1 }, x)
    return x
  end,
  ["pn.invariance.linear_model"] = function(x)
    pn.invariance.linear_model { x = x, y = pn.ones(2), noise_variance = 1 }
    return x
  end,
  ["pn.invariance.translation_basis"] = function(x) return x + pn.invariance.translation_basis(x):sum() end,
  ["pn.invariance.translate"] = function(x) return pn.invariance.translate(x, x, pn.ones(2)) end,
  ["pn.invariance.translate_network"] = function(x) pn.invariance.translate_network(net, x) return x end,
  ["pn.invariance.permutation_mixture"] = function(x)
    pn.invariance.permutation_mixture(nn.sequential { net, nn.linear(1, 1) }, { scale = x:sum() })
    return x
  end,
  ["pn.continual.top"] = function(x) return pn.continual.top(x, 1) end,
  ["pn.continual.k_center"] = function(x) return pn.continual.k_center(x, 2) end,
  ["pn.continual.gaussian_update"] = function(x)
    local s = dist.natural.scalar(x, x)
    return pn.continual.gaussian_update(s, dist.normal(0, 1), dist.normal(0, 1)).precision
  end,
  ["core.nonfinite_cause"] = function(x) return #core.nonfinite_cause((w * x):sum()) > 0 and x end,
  ["core.draws_summary"] = function(x) core.draws_summary(x:reshape { 1, 3, 1 }) return x end,
  ["distribution.plot"] = function(x) dist.normal(x:sum(), 1):plot(os.tmpname() .. ".svg") return x end,
}

local learner_file = os.tmpname()
assert(pn.continual.learner({ network = net, likelihood = "bernoulli" }):save(learner_file))
local tiny = pn.model(function(m) m:observe("y", dist.normal(m:sample("z", dist.normal(0, 1)), 1), 1) end)
local opt = optim.sgd { w }
local g = pn.generator(1)
local unit = pn.eye(1)
local exact_filter = pn.smc.exact_filter { initial_mean = pn.zeros { 1 }, initial_cov = unit, transition = unit,
  transition_cov = unit, emission = unit,
  emission_cov = unit }
local particles = require "penumbra.smc.machine".core_of(pn.smc { num_particles = 3, history = true })
local weights = pn.infer.stream { draws = 5 }:add(pn.ones(5, 1))

-- Effects that a replay would not repeat, and objects that belong outside.
local effects = {
  ["core.param"] = function(x) return pn.param(x) end,
  ["pn.nn.fit_actnorm"] = function(x) nn.fit_actnorm(scaled, x:reshape { 3, 1 }) return x end,
  ["pn.nn.save_onnx"] = function(x) nn.save_onnx(os.tmpname(), net, { shape = { -1, 3 } }) return x end,
  ["pn.nn.bayesian"] = function(x) nn.bayesian(nn.linear(3, 2)) return x end,
  ["pn.continual.learner"] = function(x) pn.continual.learner { network = net, likelihood = "bernoulli" } return x end,
  ["pn.restore"] = function(x) pn.restore(learner_file, { network = net }) return x end,
  ["core.buffer"] = function(x) nn.buffer(x) return x end,
  ["core.new_layer"] = function(x) nn.linear(3, 2) return x end,
  ["core.initialise"] = function(x) nn.initialise("he", { 2, 3 }) return x end,
  ["core.new_optim"] = function(x) optim.sgd { pn.param(x) } return x end,
  ["core.seed"] = function(x) pn.seed(1) return x end,
  ["core.rng_state"] = function(x) pn.rng_state() return x end,
  ["core.set_rng_state"] = function(x) pn.set_rng_state(pn.rng_state()) return x end,
  ["core.generator"] = function(x) pn.generator(1) return x end,
  ["penumbra.generator methods.state"] = function(x) g:state() return x end,
  ["penumbra.generator methods.set_state"] = function(x) g:set_state { 1, 2 } return x end,
  ["penumbra.generator methods.split"] = function(x) g:split(1) return x end,
  ["core.default_dtype"] = function(x) pn.default_dtype "float32" return x end,
  ["core.validate"] = function(x) pn.validate(true) return x end,
  ["core.threads"] = function(x) pn.threads(1) return x end,
  ["core.memory_limit"] = function(x) pn.memory_limit(1 << 40) return x end,
  ["tensor.set"] = function(x) w:set(x) return x end,
  ["tensor.backward"] = function(x) (w * x):sum():backward() return x end,
  ["tensor.clear_grad"] = function(x) w:clear_grad() return x end,
  ["tensor.grad"] = function(x) w:grad() return x end,
  ["optimiser.step"] = function(x) opt:step((w * x):sum()) return x end,
  ["optimiser.state_at"] = function(x) opt:state_at(1) return x end,
  ["optimiser.check_state_at"] = function(x) opt:check_state_at(1, pn.zeros { 1, dtype = "int64" }) return x end,
  ["optimiser.set_state_at"] = function(x) opt:set_state_at(1, pn.zeros { 1, dtype = "int64" }) return x end,
  ["optimiser.set_own"] = function(x) opt:set_own(1, "lr", 0.1) return x end,
  ["optimiser.state"] = function(x) opt:state() return x end,
  ["optimiser.load_state"] = function(x) opt:load_state {} return x end,
  ["penumbra.optimiser events.__index"] = function(x) return x * opt.lr end,
  ["penumbra.optimiser events.__tostring"] = function(x) return #tostring(opt) > 0 and x end,
  ["penumbra.optimiser events.__newindex"] = function(x) opt.lr = 0.1 return x end,
  ["layer.state"] = function(x) net:state() return x end,
  ["layer.load_state"] = function(x) net:load_state { weight = pn.zeros { 3, 1 }, bias = pn.zeros { 1 } } return x end,
  ["core.new_stream"] = function(x) pn.infer.stream() return x end,
  ["pn.infer.stream"] = function(x) pn.infer.stream { draws = 5 } return x end,
  ["penumbra.stream methods.add"] = function(x) weights:add(x:reshape { 3, 1 }) return x end,
  ["penumbra.stream methods.count"] = function(x) return x * weights:count() end,
  ["penumbra.stream methods.log_mean"] = function(x) return x * weights:log_mean() end,
  ["penumbra.stream methods.standard_error"] = function(x) return x * weights:standard_error() end,
  ["penumbra.stream methods.elbo"] = function(x) return x * weights:elbo() end,
  ["penumbra.stream methods.effective_sample_size"] = function(x) return x * weights:effective_sample_size() end,
  ["penumbra.stream methods.pareto_k"] = function(x) return x * weights:pareto_k() end,
  ["penumbra.filter methods.observe"] = function(x) exact_filter:observe(1) return x end,
  ["penumbra.filter methods.run"] = function(x) return x * exact_filter:run(pn.ones { 1 }) end,
  ["penumbra.filter methods.log_evidence"] = function(x) return x * exact_filter:log_evidence() end,
  ["penumbra.filter methods.mean"] = function(x) return x * exact_filter:mean() end,
  ["penumbra.filter methods.variance"] = function(x) return x * exact_filter:variance() end,
  ["penumbra.filter methods.reset"] = function(x) exact_filter:reset() return x end,
  ["core.new_exact_filter"] = function(x)
    local one = pn.eye(1)
    pn.smc.exact_filter { initial_mean = x:slice(1, 1, 1), initial_cov = one, transition = one, transition_cov = one,
      emission = one, emission_cov = one }
    return x
  end,
  ["penumbra.smc methods.resample"] = function(x) particles:resample() return x end,
  ["penumbra.smc methods.weigh"] = function(x) particles:weigh(x) return x end,
  ["penumbra.smc methods.get"] = function(x) return x * particles:get "log_evidence" end,
  ["penumbra.smc methods.restore"] = function(x) particles:restore(nil) return x end,
  ["penumbra.smc methods.reset"] = function(x) particles:reset() return x end,
  ["penumbra.smc methods.steps"] = function(x) return x * particles:steps() end,
  ["penumbra.smc methods.assign"] = function(x) particles:assign(x) return x end,
  ["penumbra.smc methods.trace"] = function(x) return x * particles:trace():sum() end,
  ["penumbra.smc methods.keep"] = function(x) particles:keep(x) return x end,
  ["penumbra.smc methods.paths"] = function(x) return x * particles:paths(1) end,
  ["penumbra.smc methods.nodes"] = function(x) return x * particles:nodes() end,
  ["pn.check_gradients"] = function(x) pn.check_gradients(function() return (w * x):sum() end, { w }) return x end,
  ["pn.train.fit"] = function(x)
    train.fit { data = x, loss = function(t) return (w * t):sum() end, optimiser = opt, epochs = 1 }
    return x
  end,
  ["pn.invariance.fit_layers"] = function(x)
    pn.invariance.fit_layers(net, { x = x:reshape { 1, 3 }, y = pn.ones { 1, 1 }, noise_scale = 1, steps = 1 })
    return x
  end,
  ["pn.continual.sites"] = function(x)
    local q = dist.normal(pn.zeros { 4 }, 1):independent(1)
    pn.continual.sites(net, x:reshape { 1, 3 }, pn.ones { 1 }, { likelihood = "bernoulli", posterior = q, draws = 1 })
    return x
  end,
  ["pn.continual.site_sums"] = function(x)
    local q = dist.normal(pn.zeros { 4 }, 1):independent(1)
    pn.continual.site_sums(net, x:reshape { 1, 3 }, pn.ones { 1 }, { likelihood = "bernoulli", posterior = q,
      draws = 1 })
    return x
  end,
  ["pn.svi"] = function(x) pn.svi(tiny, "mean_field", { steps = 1 }) return x end,
  ["pn.jobs"] = function(x) pn.jobs { jobs = 1, run = function() return 1 end } return x end,
  ["pn.nuts"] = function(x) pn.nuts(tiny, { chains = 1, warmup = 5, draws = 5 }) return x end,
  ["pn.hmc"] = function(x) pn.hmc(tiny, { chains = 1, warmup = 5, draws = 5, steps = 2 }) return x end,
  ["pn.diagnose"] = function(x) pn.diagnose(tiny) return x end,
  ["pn.dist.bijector.random"] = function(x) dist.bijector.random("planar", 3) return x end,
}

-- Models make layers; an options table for each.
for name, options in pairs { deepar = {}, deep_state = {}, kvae = {}, rsgls_issm = {}, sgls = { states = 2 },
  rsgls = { states = 2 }, arsgls = { states = 2 } } do
  effects["pn.models." .. name] = function(x) pn.models[name](options) return x end
end

-- Read files, or call what is listed: at the capture only, as os.time and print do. Documented.
local once = set [[
  csv idx load npy open npz raw safetensors save script files new points impulses capture history
  reliability bars
  standardise split parameters
  json gluonts series_csv image zarr arviz cmdstan trap_nan objects
  new_sampler new_filter run finished iteration gradients draws statistics metric new_population evaluate
  halted windows judge
]]

describe("inside a compiled function", function()
  teardown(function()
    os.remove(checkpoint_file)
    os.remove(learner_file)
  end)
  for kind, list in pairs { ["a value cannot leave by"] = reads, ["nobody can call"] = effects } do
    for name, f in pairs(list) do
      it(kind .. " " .. name, function()
        local message = common.refused("compile: ", pn.compile(f), pn.ones(3) * 0.5)
        local info = debug.getinfo(f, "S")
        local line = tonumber(message:match "replay_ways_spec.lua:(%d+):")
        assert(line and line >= info.linedefined and line <= info.lastlinedefined, message)
        assert.equal("float64", pn.default_dtype())
      end)
    end
  end

  it("every function is known", function()
    local special = {}
    for _, list in ipairs { reads, effects } do
      for name in pairs(list) do
        special[name:match "([^.]+)$"] = true
      end
    end
    local missing = {}
    for place, list in pairs(places()) do
      for name, v in pairs(list) do
        local known = made_by_rows[name] or harmless[name] or about[name] or once[name] or special[name]
        if not known and type(v) == "function" then
          missing[#missing + 1] = place .. "." .. name
        end
      end
    end
    table.sort(missing)
    assert(#missing == 0, "say what these do to a capture: " .. table.concat(missing, ", "))
  end)
end)
