--- Auxiliary variable recurrent switching Gaussian linear systems: what the linear system emits is a hidden variable z,
--- of which a network makes the law of an observation: numbers, counts of 0 and 1, images.
---
---     local m = pn.models.arsgls{size = 1, states = 16, switches = 10, auxiliary = 10, base = 20, hidden = {64},
---       transition_hidden = 64, num_particles = 10}
---     local m = pn.models.arsgls{size = 1024, states = 10, switches = 8, auxiliary = 2, emission = decoder,
---       encoder = ladder, scaling = "none"}                                             -- networks of one's own
---
--- Options: those of forecasters and of penumbra.models.switching_model, and
---
---     auxiliary  size of z (that of `switches`)
---     emission   "normal", "student_t", "bernoulli" or another of pn.nn.likelihood, by name, made or in Lua: a network
---                {64, 64} (`emission_hidden`) gives the parameters of each number of y. Or what is called with z [...,
---                auxiliary] and gives a distribution of y: with batch [..., size], or batch [...] and event [size]
---                (then a step counts if all of it was observed)
---     encoder    {64, 64, 64}: hidden layers of the ladder: z is read from the last but one, the switch from the last.
---                Or what is called with y [T, B, size] and features of u (or nil) and gives {z = {loc =, variance =},
---                s = {loc =, variance =}}, either of them or both; false: proposals do not look at y
---     recurrent  true; false: the switch does not follow the state
---     controls   {"d"}: which control matrices there are where there are covariates, of "b" and "d"
---
--- m:smooth(batch, {draws = 100, num_particles =, generator =}) gives mean [T, B, n] and cov of the state given all of
--- y, s and z [T, draws, B, ...], paths of the switch and of what the system emits, path_mean, path_cov, log_evidence
--- [B].
---
--- Networks of one's own are tables that hold their layers, so that they are found and trained; a model that has them
--- saves its state by pn.save(path, m:state()). Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020.
-- help: pn.models
local core = require "penumbra.core"
local emission = require "penumbra.models.emission"
local forecaster = require "penumbra.models.forecaster"
local ladder = require "penumbra.models.ladder"
local likelihood = require "penumbra.nn.likelihood"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local switching_model = require "penumbra.models.switching_model"
local switching_system = require "penumbra.models.switching_system"

local arsgls = {}

local class, unsaved_class

-- A network of z and the law of y that its output makes.
local emission_class = { __name = "emission", __index = parameters.methods, __call = function(self, z)
  return self.law:law(self.net(z))
end }

-- Raises unless x, the option `name`, can be called.
local function check_network(name, x, what)
  local meta = getmetatable(x)
  if type(x) ~= "function" and not nn.is_network(x) and not (type(meta) == "table" and rawget(meta, "__call")) then
    core.error(("arsgls: %s must be %s, or what is called, got %s"):format(name, what, type(x)))
  end
end

local function emission_of(o, floor)
  if type(o.emission) ~= "string" and not likelihood.is(o.emission) then
    check_network("emission", o.emission, "a likelihood")
    return o.emission
  end
  local law = emission.new("arsgls", "emission", o.emission, o.size, floor)
  local sizes = { o.auxiliary, table.unpack(o.emission_hidden) }
  sizes[#sizes + 1] = o.size * law.width
  local net = nn.mlp(sizes, { activation = "leaky_relu", dtype = o.dtype })
  return setmetatable({ law = law, net = net }, emission_class)
end

-- Sizes of layers, where it is no network of one's own.
local function is_list(x) return type(x) == "table" and not getmetatable(x) end

local own_options = { auxiliary = options.optional "number", emission = options.any "normal",
  emission_hidden = { 64, 64 }, encoder = options.any(nil), recurrent = true, controls = options.optional "table" }

--- arsgls{size =, states =, switches =, auxiliary =, ...}: a recurrent switching system with an auxiliary variable and
--- a network of the observation; pn.help "penumbra.models.arsgls".
function arsgls.arsgls(given)
  local o = switching_model.checked("arsgls", given, own_options)
  options.whole("arsgls", "states", o.states or 0, 1)
  o.auxiliary = options.whole("arsgls", "auxiliary", o.auxiliary or o.switches, 1)
  local self = switching_model.build(forecaster.new(class, o), o, { kind = "gaussian", recurrent = o.recurrent,
    emitted = o.auxiliary, controls = o.controls or { "d" } })
  self.emission = emission_of(o, self.floor)
  if o.encoder == nil or is_list(o.encoder) then
    if o.encoder and #switching_model.sizes_of("arsgls", "encoder", o.encoder) == 0 then
      core.error "arsgls: encoder must have a layer, or be false"
    end
    self.encoder = ladder.encoder { inputs = o.size + self.input_size, hidden = o.encoder or { 64, 64, 64 },
      s = o.switches, z = o.auxiliary, dtype = o.dtype, floor = self.floor }
  else
    if o.encoder then
      check_network("encoder", o.encoder, "a list of sizes of layers, false")
    end
    self.encoder = o.encoder or nil
  end
  if type(o.emission) ~= "string" or not (o.encoder == nil or o.encoder == false or is_list(o.encoder)) then
    self.given = {} -- networks of one's own stand in the fields above
    setmetatable(self, unsaved_class)
  end
  return self
end

-- Particles drawn backwards, with their auxiliary variables.
local smoother = { smooth = switching_system.smooth_auxiliary,
  smooth_options = switching_system.auxiliary_smooth_options }

class = switching_model.class("arsgls", smoother)
unsaved_class = switching_model.class("arsgls", options.merged(smoother, { methods = { save = function()
  core.error "save: this model has networks of your own: pn.save(path, m:state()) keeps its state"
end } }))

return arsgls
