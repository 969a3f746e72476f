--- Models that are whole: made of an options table, trained by fit, saved and loaded.
---
---     local m = pn.models.deepar { size = 1, covariates = 3, output = "student_t" }
---     m:fit { series = pn.data.gluonts("train.json.gz", { freq = "B" }), iterations = 2500, window = 90 }
---     local paths = m:forecast(batch, { steps = 30, num_paths = 100 })          -- [100, 30, B, 1]
---
--- Forecasters of time series share one interface, pn.help "penumbra.models.forecaster". Autoencoders:
--- pn.help "penumbra.models.vae".
-- help: pn.models, part
local core = require "penumbra.core"

local models = {}

-- constructors: name -> the module that has it, under the same name
local members = {
  arsgls = "arsgls",
  deep_state = "deep_state",
  deepar = "deepar",
  kvae = "kvae",
  rsgls = "rsgls",
  rsgls_issm = "rsgls_issm",
  sgls = "sgls",
  load = "forecaster",
}

local function lazy_names()
  local names = {}
  for name in pairs(members) do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

setmetatable(models, {
  __index = function(_, name)
    local home = members[name]
    if not home then
      return core.missed("pn.models", name)
    end
    models[name] = core.public(require("penumbra.models." .. home)[name])
    return rawget(models, name)
  end,
})

return core.namespace("pn.models", models, lazy_names())
