--- The options of pn.models.kvae, checked.
-- help: none
local base_matrices = require "penumbra.models.base_matrices"
local core = require "penumbra.core"
local forecaster = require "penumbra.models.forecaster"
local form = require "penumbra.form"
local nn = require "penumbra.nn"
local options = require "penumbra.options"

local kvae_options = {}

local own_options = {
  latent = 2, state = 4, base = 3, units = 50, hidden = options.any { 64, 64 },
  activation = options.one_of("leaky_relu", nn.activations),
  image = options.optional "table", filters = 32, encoder = options.optional(), decoder = options.optional(),
  output = options.any "normal", latent_variance = options.optional "number",
  noise = options.choice("shared", "mixed"), average = options.choice(table.unpack(base_matrices.averages)),
  stable = true, inputs = options.any { "weights", "emission" },
  objective = options.choice("rao_blackwellised", "monte_carlo"), state_draws = options.choice("joint", "marginal"),
  impute = options.choice("sample", "mean"), entropy = options.choice("sampled", "closed"), reconstruction = 1,
  belief_draws = 100, jitter = 0, init = options.any {},
}

local positive = form.number { above = 0 }

local init_options = { transition = 0.05, emission = 0.5, inputs = 0.05, state_scale = 0.3, emission_scale = 0.2,
  initial_scale = 1 }

local places = { weights = true, emission = true, transition = true, encoder = true, decoder = true }

local function where_inputs_enter(o)
  options.argument("kvae", "inputs", o.inputs, "table")
  local enters = {}
  for k, name in ipairs(o.inputs) do
    if not places[name] then
      core.error(("kvae: inputs[%d] must be 'weights', 'emission', 'transition', 'encoder' or 'decoder', got %s")
        :format(k, tostring(name)))
    end
    enters[name] = true
  end
  return enters
end

--- read(given): the checked options of kvae, and where inputs enter, a table name -> true.
function kvae_options.read(given)
  local o = forecaster.options("kvae", given, own_options)
  for _, name in ipairs { "latent", "state", "base", "units", "filters", "belief_draws" } do
    o[name] = options.whole("kvae", name, o[name], 1)
  end
  options.argument("kvae", "hidden", o.hidden, "table")
  for k, n in ipairs(o.hidden) do
    options.whole("kvae", ("hidden[%d]"):format(k), n, 1)
  end
  o.init = options.check("kvae: init", o.init, init_options)
  for name in pairs(init_options) do
    form.check("kvae: init", ("'%s'"):format(name), o.init[name], name:find "scale$" and positive or form.number())
  end
  forecaster.fits("kvae", o, { latent_variance = positive, reconstruction = form.number(),
    jitter = form.number { least = 0 } })
  if (o.encoder == nil) ~= (o.decoder == nil) then
    core.error "kvae: encoder and decoder come together"
  elseif o.encoder and not (nn.is_network(o.encoder) and nn.is_network(o.decoder)) then
    core.error "kvae: encoder and decoder must be networks, as nn.sequential{...}"
  elseif o.output == "bernoulli" and o.scaling ~= "none" then
    core.error(("kvae: output 'bernoulli' is of pixels 0 or 1 and needs scaling = 'none', got '%s'"):format(o.scaling))
  end
  return o, where_inputs_enter(o)
end

return kvae_options
