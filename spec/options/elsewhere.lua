--- Options that no row of these tables is about, by the function's or method's name: the spec that asks the same of
--- all of them, held to what the library lists by spec/options/option_ledger_spec.lua.
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

return { asked = asked }
