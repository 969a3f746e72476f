--- Switching Gaussian linear systems: a switch that follows its own law chooses, or weighs, the matrices of a linear
--- Gaussian system.
---
---     local m = pn.models.sgls{size = 2, states = 3, switches = 5}                              -- Gaussian switches
---     local m = pn.models.sgls{size = 1, states = 2, switches = 4, switch = "categorical"}      -- one of 4 systems
---
--- Options: those of forecasters and of penumbra.models.switching_model, and
---
---     switch    "gaussian": s_t = f(s_{t-1}, u_t) + N(0, S(s_{t-1})), matrices averaged; "categorical": s_t is one of
---               `switches` labels, each with matrices of its own (`base` and the networks are not used)
---     encoder   {64}: hidden layers of an encoder that the proposal looks at y with; false: s_t from its own law
---     stay      2: log-odds at the start that a label stays (categorical)
---     controls  {"d"}: which control matrices there are where there are covariates, of "b" and "d"
---
--- Source: Doucet, de Freitas, Murphy & Russell 2000; Kurle et al. 2020, section 2.3.
-- help: pn.models
local forecaster = require "penumbra.models.forecaster"
local ladder = require "penumbra.models.ladder"
local options = require "penumbra.options"
local switching_model = require "penumbra.models.switching_model"

local sgls = {}

local class

local own_options = { switch = options.choice("gaussian", "categorical"), encoder = options.any(false), stay = 2,
  controls = options.optional "table" }

--- sgls{size =, states =, switches =, ...}: a switching Gaussian linear system; pn.help "penumbra.models.sgls".
function sgls.sgls(given)
  local o = switching_model.checked("sgls", given, own_options)
  options.whole("sgls", "states", o.states or 0, 1)
  local self = switching_model.build(forecaster.new(class, o), o, { kind = o.switch, stay = o.stay,
    controls = o.controls or { "d" } })
  if switching_model.sizes_of("sgls", "encoder", o.encoder) then
    self.encoder = ladder.encoder { inputs = o.size + self.input_size, hidden = o.encoder, s = o.switches,
      dtype = o.dtype, floor = self.floor }
  end
  return self
end

class = switching_model.class("sgls")

return sgls
