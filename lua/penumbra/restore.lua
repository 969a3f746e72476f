--- What a method :save has written, made again: one function for all that can be fitted.
---
---     m:save "m.safetensors"            a forecaster, an autoencoder: m = pn.restore "m.safetensors"
---     p:save "draws.safetensors"        p = pn.restore("draws.safetensors", { model = model, data = { x, y } })
-- help: pn
local data = require "penumbra.data"
local forecaster = require "penumbra.models.forecaster"
local models = require "penumbra.models"
local options = require "penumbra.options"
local saved = require "penumbra.saved"

-- those whose objects are saved
require "penumbra.active.pool_file"
require "penumbra.continual.learner"
require "penumbra.infer.posterior"
require "penumbra.infer.svi"
require "penumbra.models.bnsde"
require "penumbra.models.factor_analysis"
require "penumbra.models.gaussian_mixture"
require "penumbra.models.multisource"
require "penumbra.models.vae"
require "penumbra.models.variational_em"
require "penumbra.vbp.network_learner"
require "penumbra.vbp.relu_ascent"

forecaster.constructors = models

local restore = {}

--- restore(path [, {...}]): what a method :save has written to the file, as it was: a posterior of pn.nuts, pn.hmc or
--- pn.smc, a fit of pn.svi, a learner of pn.continual, pn.vbp or pn.evidential, a forecaster, an autoencoder, a factor
--- analysis, a Gaussian mixture, a model without encoder or of several sources, a neural SDE, a variational ReLU
--- network, a pool of pn.active; nil, message, code for a file that is missing, damaged or nothing of the kind. What a
--- file cannot hold is given in the table:
---     of a posterior       model, data: of the same model and data
---     of a fit             model, guide, data and what else pn.svi was given; fit:continue(steps) goes on
---     of a learner         network, of the same architecture; likelihood, where it was a function or a row; method,
---                          where it was a row; progress
---     of a pool            x, model; acquisition, where it was a function
---     of other models      options that were functions or networks, by their names
--- Raises where the table is not what the file asks for. Tables of tensors: pn.load; a run: pn.checkpoint.load; a
--- filter that goes on, of the same options: f:load.
function restore.restore(path, given)
  options.argument("restore", "path", path, "string")
  options.argument("restore", "options", given == nil and {} or given, "table")
  local contents, about, code = data.load(path)
  if not contents then
    return nil, about, code
  end
  local kind, nouns = saved.kind_of(contents, about)
  if not kind then
    return nil, ("restore: '%s' is no %s"):format(path, table.concat(nouns, ", no ")), "format"
  end
  local made, message, why = kind.restore(path, given or {})
  if made then
    return made
  end
  return nil, message, why
end

return restore
