--- Training steps of a model of several sources at the sizes of digits by quarters (Kurle et al. 2019, 5.2): four
--- sources of 196 pixels that are also the targets, 200-200 units (elu), 16 latents, 16 draws, batch 128, float32, for
--- each of three objectives. Rows as in training.lua. Each is written with the noise of its draws, see agreement.lua.
local pn = require "penumbra"
local agreement = require "agreement"
local source_objective = require "penumbra.models.multisource.source_objective"

local BATCH, DRAWS = 128, 16
local o32 = { dtype = "float32" }

-- The noise of the draws in order, one for each source and one for the product, as the loss takes it from this seed.
local function add_noise(data, model, b, objective)
  local o = { weights = source_objective.weights_of("loss", objective), draws = DRAWS, sources = model.source_names,
    targets = model.target_names }
  local beliefs = source_objective.beliefs(model, b, o.sources)
  for k, term in ipairs(source_objective.log_weights(model, b, o)) do
    local law = term.kind == "poe" and source_objective.product(beliefs, model.prior) or beliefs[k].law
    data["noise." .. (term.kind == "poe" and "poe" or k)] = (term.z - law:mean()) / law:variance():sqrt()
  end
end

local function row(objective)
  local key, sources, data, tensors = "sources " .. objective, {}, {}, {}
  for k = 1, 4 do sources["q" .. k] = { size = 196 } end
  local model = pn.models.multisource { sources = sources, latent = 16, hidden = { 200, 200 }, activation = "elu",
    dtype = "float32" }
  for k = 1, 4 do
    tensors[k] = pn.rand({ BATCH, 196 }, o32):lt(0.3):to "float32"
    data["q" .. k] = tensors[k]
  end
  local function loss(q1, q2, q3, q4)
    return model:loss({ q1 = q1, q2 = q2, q3 = q3, q4 = q4 }, { objective = objective, draws = DRAWS })
  end
  local record = {}
  for name, t in pairs(data) do record[name] = t end
  pn.seed(2)
  add_noise(record, model, { x = data, there = {}, size = BATCH }, objective)
  pn.seed(2)
  agreement.write("sources", key, model:named_parameters(), loss(table.unpack(tensors)), record)
  return { key, parameters = model:parameters(), tensors = tensors, loss = loss }
end

return { ind = function() return row "ind" end, poe = function() return row "poe" end,
  hybrid = function() return row "hybrid" end }
