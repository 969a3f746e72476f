--- The options of a learner (pn.help "penumbra.vbp.network_learner"), what they ask of each other, and the start of its
--- network.
-- help: none
local core = require "penumbra.core"
local heads = require "penumbra.vbp.likelihood_heads"
local methods_of = require "penumbra.vbp.method_rows"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local priors = require "penumbra.vbp.weight_prior"

local learner_options = {}

-- ---- options ----

--- The options by name, with what each must be.
learner_options.known = {
  network = options.required(), method = options.any "vbp", likelihood = options.any "normal",
  objective = options.optional "string", predictive = options.choice("draws", "taylor"),
  prior = options.choice("normal", "log_uniform", "log_uniform_approximate", "horseshoe"), prior_precision = 1,
  bias = options.choice("uncertain", "certain"), sharpness = math.huge, gate_kl = options.any(false),
  start = options.choice("he", "lecun", "network"), log_variance = -9, spread = 1e-3,
  structure = options.choice("diagonal", "full"), noise_precision = 1, learn_noise = true, rate = 0.5,
  draws = options.any(nil), lr = 1e-3, seed = options.optional "number",
}

--- positive(where, role, v): raises unless v is a positive number.
function learner_options.positive(where, role, v)
  if not (v > 0 and v < math.huge) then
    core.error(("%s: %s must be a positive number, got %s"):format(where, role, tostring(v)))
  end
end

-- The row that `given` names among `rows`, or is itself; its functions stand under these names.
local function row_of(role, given, rows, ...)
  if type(given) == "table" then
    for _, name in ipairs { ... } do
      options.argument("learner", ("%s.%s"):format(role, name), given[name], "function")
    end
    return given
  end
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  return rows[options.check("learner", { [role] = given }, { [role] = options.one_of(nil, names) })[role]]
end

local function check_draws(given)
  local draws = type(given) == "number" and { predict = given } or given
  draws = options.check("learner", draws, { train = 1, predict = 100 })
  return { train = options.whole("learner", "draws.train", draws.train, 1),
    predict = options.whole("learner", "draws.predict", draws.predict, 1) }
end

local function check_objective(o)
  local names = {}
  for name in pairs(o.head.objectives) do names[#names + 1] = name end
  table.sort(names)
  o.objective = options.check("learner", { objective = o.objective },
    { objective = options.one_of(o.head.default, names) }).objective
end

-- What one option asks of another.
local function check_together(o)
  if o.gate_kl and o.gate_kl ~= "exact" and o.gate_kl ~= "approximate" then
    core.error(('learner: gate_kl must be false, "exact" or "approximate", got %s'):format(tostring(o.gate_kl)))
  elseif o.gate_kl and (o.row.gates ~= "identity_heaviside" or o.sharpness == math.huge) then
    core.error 'learner: gate_kl needs method = "vbp" and a finite sharpness: hard gates cost infinitely much'
  elseif o.structure == "full" and o.row.gates ~= "identity_heaviside" then
    core.error 'learner: structure = "full" needs method = "vbp": covariances pass through gates only'
  elseif o.row.point and not o.prior_row.log_prob then
    core.error(('learner: method "%s" needs prior = "normal": a point has no density under "%s" to maximise'):format(
      o.method, o.prior))
  end
end

--- check(given): the options with their defaults, the rows that they name (row, head, prior_row) and a generator;
--- raises for what does not go together.
function learner_options.check(given)
  local o = options.check("learner", given, learner_options.known)
  for _, name in ipairs { "prior_precision", "noise_precision", "lr" } do
    learner_options.positive("learner", name, o[name])
  end
  if not (o.sharpness > 0) then
    core.error(("learner: sharpness must be a positive number or math.huge, got %s"):format(tostring(o.sharpness)))
  elseif not (o.spread >= 0 and o.spread < math.huge) or not (math.abs(o.log_variance) < 100) then
    core.error "learner: log_variance and spread must be finite, spread not negative"
  end
  o.row = row_of("method", o.method, methods_of.rows, "make", "outputs", "moments", "draws", "kl")
  o.likelihood = o.row.likelihood or o.likelihood
  o.head = row_of("likelihood", o.likelihood, heads, "prepare", "predict", "log_predictive", "closed")
  o.prior_row, o.prior_scale = priors[o.prior], o.prior_precision ^ -0.5
  o.draws = check_draws(o.draws)
  check_objective(o)
  check_together(o)
  o.generator = o.seed and core.generator(o.seed) or core.generator(core.randint(0, 1 << 53, {}):item())
  return o
end

-- ---- the network and its start ----

local function is_linear(kind)
  return kind == "linear" or kind:find "^conv" ~= nil
end

-- Rows and columns of one output's inputs: linear [in, out], convolutions [out, in / groups, ...], transposed ones
-- [in, out / groups, ...].
local function fan_in(kind, shape)
  local n = kind == "linear" and shape[1] or shape[2]
  for k = 3, #shape do n = n * shape[k] end
  return n
end

--- begin(net, o): draws the means of the layers' weights, sets their biases to 0 unless they stay, and gives the names
--- of those parameters that have a prior.
function learner_options.begin(net, o)
  local names, weights = {}, {}
  for _, entry in ipairs(parameters.named(net)) do names[core.identity(entry[2])] = entry[1] end
  parameters.map_layers(net, function(layer)
    local kind = layer:type()
    for _, entry in ipairs(is_linear(kind) and layer:own_parameters() or {}) do
      local name, p = entry[1], entry[2]
      weights[names[core.identity(p)]] = name == "weight" or o.bias == "uncertain" or nil
      if o.start ~= "network" and name == "weight" then
        local variance = (o.start == "he" and 2 or 1) / fan_in(kind, p:shape())
        p:set(core.randn(p:shape(), { dtype = p:dtype(), generator = o.generator }) * variance ^ 0.5)
      elseif o.start ~= "network" then
        p:set(p:zeros_like())
      end
    end
  end)
  if next(weights) == nil then
    core.error "learner: network must have a linear or a convolutional layer"
  end
  return weights
end

--- network(where, given): a network of certain parameters, or the one that a function makes.
function learner_options.network(where, given)
  local net = type(given) == "function" and given() or given
  if not nn.is_network(net) then
    core.error(("%s: network must be a layer, a sequential, a module, or a function that makes one, got %s"):format(
      where, type(net)))
  elseif #parameters.named(net) == 0 or parameters.kl { net } then
    core.error(where .. ": network must have parameters, and no posterior or divergence of its own")
  end
  return net
end

return learner_options
