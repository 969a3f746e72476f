--- Models that are whole: made of an options table, trained by fit, saved and loaded.
---
---     local set = assert(pn.data.gluonts("train.json.gz", { freq = "B" }))
---     local m = pn.models.deepar { output = "student_t" }
---     m:fit { series = set, steps = 2500, window = 90, context = 60 }
---     local paths = m:forecast(set:history { steps = 60 }, 30)
---     m:save "deepar.safetensors"     pn.restore "deepar.safetensors"
---
--- Forecasters of time series share one interface, pn.help "penumbra.models.forecaster"; one of them, with inference
--- that sees what it is let see, is pn.help "penumbra.models.vssm". Deep latent-variable models: pn.help
--- "penumbra.models.vae", "penumbra.models.variational_em"; in closed form "penumbra.models.factor_analysis",
--- "penumbra.models.gaussian_mixture"; of several sources, "penumbra.models.multisource".
--- Bayesian neural stochastic differential equations: "penumbra.models.bnsde".
-- help: pn.models, part
local face = require "penumbra.face"

local models = {}

-- constructors: name -> the module that has it, under the same name
local members = {
  arsgls = "arsgls",
  bnsde = "bnsde",
  deep_state = "deep_state",
  deepar = "deepar",
  factor_analysis = "factor_analysis",
  gaussian_mixture = "gaussian_mixture",
  kvae = "kvae",
  multisource = "multisource",
  rsgls = "rsgls",
  rsgls_issm = "rsgls_issm",
  sgls = "sgls",
  vae = "vae",
  variational_em = "variational_em",
  vssm = "vssm",
}

return (face("pn.models", models, "penumbra.models.", members))
