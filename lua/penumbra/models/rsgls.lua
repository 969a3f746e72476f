--- Recurrent switching Gaussian linear systems: the switch follows the state of the linear system, so that the matrices
--- are those of a linearisation where the state is.
---
---     local m = pn.models.rsgls{size = 2, states = 3, switches = 5}
---     m:fit{series = batch, steps = 2500, lr = 1e-2}
---     m:forecast(m:filter(batch), 100)
---
--- Options: those of forecasters and of penumbra.models.switching_model, and
---
---     encoder   {64}: hidden layers of an encoder that the proposal of the switch looks at y with; false: from its law
---     controls  {"d"}: which control matrices there are where there are covariates, of "b" and "d"
---
--- Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, section 3.1.
-- help: pn.models
local forecaster = require "penumbra.models.forecaster"
local ladder = require "penumbra.models.ladder"
local options = require "penumbra.options"
local switching_model = require "penumbra.models.switching_model"

local rsgls = {}

local class

local own_options = { encoder = options.any(false), controls = options.optional "table" }

--- rsgls{size =, states =, switches =, ...}: a recurrent switching Gaussian linear system; pn.help
--- "penumbra.models.rsgls".
function rsgls.rsgls(given)
  local o = switching_model.checked("rsgls", given, own_options)
  options.whole("rsgls", "states", o.states or 0, 1)
  local self = switching_model.build(forecaster.new(class, o), o, { kind = "gaussian", recurrent = true,
    controls = o.controls or { "d" } })
  if switching_model.sizes_of("rsgls", "encoder", o.encoder) then
    self.encoder = ladder.encoder { inputs = o.size + self.input_size, hidden = o.encoder, s = o.switches,
      dtype = o.dtype, floor = self.floor }
  end
  return self
end

class = switching_model.class("rsgls")

return rsgls
