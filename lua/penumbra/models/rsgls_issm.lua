--- Recurrent switching systems of level, slope and seasons: transition and emission are those of a structure
--- (penumbra.models.issm), and the noise of states and observations and what covariates add are averaged by a switch
--- that follows the state.
---
---     local m = pn.models.rsgls_issm{covariates = 9, series = 8, seasonal = {5}, switches = 10, base = 20,
---       hidden = {64}, transition_hidden = 64, num_particles = 10, scaling = "change"}
---
--- Options: those of forecasters and of penumbra.models.switching_model (`states` follows from the structure), and
---
---     level, trend, seasonal   of the structure: true, false, {7} or {24, {period = 7, every = 24}}
---     encoder   {64}: hidden layers of an encoder that the proposal of the switch looks at y with; false: from its law
---     controls  {"d"}: which control matrices there are where there are covariates, of "b" and "d"
---
--- Seasons follow from the steps of a batch: its `start` says where each series begins. Source: Kurle, Rangapuram, de
--- Bezenac, Guennemann & Gasthaus 2020, appendices 7.3 and 7.7.2.
-- help: pn.models
local core = require "penumbra.core"
local forecaster = require "penumbra.models.forecaster"
local issm = require "penumbra.models.issm"
local ladder = require "penumbra.models.ladder"
local options = require "penumbra.options"
local switching_model = require "penumbra.models.switching_model"

local rsgls_issm = {}

local class

local own_options = { level = true, trend = false, seasonal = options.optional "table", encoder = options.any(nil),
  controls = options.optional "table" }

--- rsgls_issm{seasonal = {7}, switches = 10, ...}: a recurrent switching system of level, slope and seasons; pn.help
--- "penumbra.models.rsgls_issm".
function rsgls_issm.rsgls_issm(given)
  local o = switching_model.checked("rsgls_issm", given, own_options)
  if o.size ~= 1 then
    core.error(("rsgls_issm: size must be 1, got %d"):format(o.size))
  elseif o.states then
    core.error "rsgls_issm: states follow from level, trend and seasonal"
  end
  local structure = issm.new { level = o.level, trend = o.trend, seasonal = o.seasonal, dtype = o.dtype }
  local self = switching_model.build(forecaster.new(class, o), o, { kind = "gaussian", recurrent = true,
    issm = structure, controls = o.controls or { "d" } })
  if switching_model.sizes_of("rsgls_issm", "encoder", o.encoder) ~= false then
    self.encoder = ladder.encoder { inputs = 1 + self.input_size, hidden = o.encoder or { 64 }, s = o.switches,
      dtype = o.dtype, floor = self.floor }
  end
  return self
end

class = switching_model.class("rsgls_issm")

return rsgls_issm
