--- Options that no row of these tables is about, by the function's or method's name: the spec that asks the same of
--- all of them (asked), or nothing (open: the options, which changing alone no case shows), held to what the
--- library lists by spec/options/option_ledger_spec.lua.
local models = "spec/models/option_effect_spec.lua"

local asked = {
  ["pn.models.arsgls"] = models, ["pn.models.deep_state"] = models, ["pn.models.deepar"] = models,
  ["pn.models.kvae"] = models, ["pn.models.rsgls"] = models, ["pn.models.rsgls_issm"] = models,
  ["pn.models.sgls"] = models, ["pn.models.vssm"] = models, ["autoencoder:fit"] = models,
  -- the same function by another name
  ["lbfgs:new"] = "pn.optim.lbfgs", ["laplace:new"] = "pn.infer.laplace",
  ["laplace:evidence_fixed_point"] = "pn.infer.evidence_fixed_point", ["module:predict"] = "pn.nn.predict",
  ["history:transport"] = "pn.smc.transport", ["deep_state:smooth"] = "a batch's fields: " .. models,
  ["kvae:log_joint"] = "a batch's fields: " .. models,
  ["fit:save_arviz"] = "spec/infer/arviz_spec.lua", ["gibbs:save_arviz"] = "spec/infer/arviz_spec.lua",
  ["pn.infer.cmdstan"] = "spec/infer/cmdstan_spec.lua", ["pn.nn.save_onnx"] = "spec/nn/onnx_spec.lua",
  ["pn.data.save_zarr"] = "spec/lua/zarr_spec.lua",
  ["pn.smc.kalman.fisher_gradient"] = "a system's parts: pn.smc.linear_system",
}

local open = {
  ["approximation:factor_precision"] = "pivot",
  ["autoencoder:load_state"] = "layout names",
  ["autoencoder:state"] = "layout names",
  ["deep_state:filter"] = "generator",
  ["deep_state:log_evidence"] = "generator",
  ["deep_state:loss"] = "generator iteration",
  ["evidential_learner:fit"] = "batch_size checkpoint checkpoint_every compile data epochs lr on_epoch optimiser"
    .. " progress resume schedule seed",
  ["evidential_learner:log_predictive"] = "batch_size draws generator",
  ["evidential_learner:moments"] = "batch_size draws generator",
  ["fit:resample"] = "draws",
  ["gap_report:panel"] = "title",
  ["gibbs:label_draws"] = "draws",
  ["gibbs:labels"] = "draws",
  ["gibbs:plot"] = "kind names site size title",
  ["layer_fit:predict"] = "draws generator",
  ["pn.active.ask"] = "names path read_from show steps write_to",
  ["pn.active.posterior"] = "batch_size classes draws features fit keep probabilities",
  ["pn.check_gradients"] = "order step tolerance tolerance2",
  ["pn.checkpoint.load"] = "default_generator",
  ["pn.compile"] = "optimiser plans watch",
  ["pn.data.csv"] = "columns comment date decimal delimiter dtype header kinds levels missing rows",
  ["pn.data.idx"] = "dtype",
  ["pn.data.image"] = "dtype",
  ["pn.data.json"] = "lines",
  ["pn.data.load"] = "nested",
  ["pn.data.open"] = "dtype name",
  ["pn.data.raw"] = "dtype element shape",
  ["pn.data.save_csv"] = "delimiter names",
  ["pn.data.save_npz"] = "compressed",
  ["pn.dist.bijector.custom"] = "codomain domain event_ndim forward inverse log_det name parameters",
  ["pn.dist.custom"] = "bijector cdf entropy event_ndim event_shape icdf in_support log_cdf log_prob"
    .. " log_survival mean mode name parameters rsample sample support variance",
  ["pn.evidential.row"] = "likelihood prior_precision",
  ["pn.gap.split"] = "family",
  ["pn.jobs"] = "distributed jobs keep progress results run skip",
  ["pn.models.multisource"] = "activation dtype hidden latent likelihood noise prior scale_link sources targets",
  ["pn.nn.likelihood.bernoulli"] = "logits",
  ["pn.nn.likelihood.categorical"] = "classes",
  ["pn.nn.likelihood.mixture"] = "components",
  ["pn.nn.likelihood.negative_binomial"] = "mean",
  ["pn.nn.likelihood.normal"] = "loc",
  ["pn.nn.likelihood.poisson"] = "rate",
  ["pn.nn.likelihood.probit"] = "margin",
  ["pn.nn.likelihood.student_t"] = "loc",
  ["pn.op"] = "forward name shape vjp",
  ["pn.optim.average"] = "decay",
  ["pn.plot.filter_trace"] = "filter num_particles threshold x x_label",
  ["pn.plot.show"] = "aligned columns kind legend size title",
  ["pn.vmap"] = "in_axes",
  ["rbpf:resume"] = "carried cov log_weights mean s",
  ["structural:forecast"] = "inputs",
}

return { asked = asked, open = open }
