--- Particle filters of models written with m:scan.
---
---     local r = pn.smc.filter(model, {data = {y}, values = {rho = 0.9}, num_particles = 1000})
---     r.log_evidence  r.increments    [], [T]; [B], [T, B] where values have an axis of B sets of parameters
---     r.filtered.x                    {mean = [T, ...], sd = [T, ...]}: moments of the site x given y[1 .. t]
---     r.ess                           [T]: effective sample sizes
---
--- The model's function is run once; what it draws within m:scan is drawn for all particles, what it observes weighs
--- them, and the carry is resampled between steps. More by pn.help "penumbra.smc.state_space".
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local space = require "penumbra.smc.state_space"

local scan_filter = {}

local known = options.merged({ values = options.optional "table", moments = true }, machine.options, space.options)
known.parameters = nil

local function of_machine(o)
  local given = {}
  for name in pairs(machine.options) do
    given[name] = o[name]
  end
  return given
end

-- The values of all parameters as tensors.
local function values_of(self, given)
  local values, known_names = {}, {}
  for _, name in ipairs(self.parameters) do
    local v = given[name]
    known_names[name] = true
    if v == nil then
      core.error(("filter: '%s' is a parameter of the model: give it in values (or let the carry have it, if it "
        .. "belongs to the state)"):format(name))
    end
    values[name] = core.is_tensor(v) and v or core.tensor(v)
  end
  for name in pairs(given) do
    if self.of_state and self.of_state[name] then
      core.error(("filter: '%s' belongs to the state: it starts the carry of m:scan and reaches nothing else (with %s "
        .. "+ 0 there it is a parameter)"):format(name, name))
    elseif not known_names[name] then
      core.error(("filter: the model has no parameter '%s'%s"):format(tostring(name), options.suggestion(name,
        self.parameters)))
    end
  end
  return values
end

-- Weighted moments of what was drawn at one step, appended to lists by name.
local function add_moments(s, lead, kept, moments)
  for name, x in pairs(kept) do
    if x:ndim() >= #lead and x:size(1) == lead[1] then
      local mean = s:mean(x)
      local list = moments[name] or { mean = {}, sd = {} }
      moments[name] = list
      list.mean[#list.mean + 1] = mean
      list.sd[#list.sd + 1] = s:mean((x - mean):square()):sqrt()
    end
  end
end

local function stacked(moments)
  for _, list in pairs(moments) do
    list.mean, list.sd = core.stack(list.mean, 1), core.stack(list.sd, 1)
  end
  return moments
end

--- run(model, options): filters the data through the model's m:scan.
---
--- data           list of the model's arguments after m
--- values         table parameter -> value: all latent sites outside of m:scan but those that the carry holds; with
---                batch_shape = {B} each has an axis of B in front
--- state          names of sites outside of m:scan that belong to the state though they are not found in the carry
--- num_particles  and the other options of pn.smc
--- moments        true: means and standard deviations of the sites within m:scan
function scan_filter.run(m, given)
  local o = options.check("filter", given, known)
  local self = space.new("filter", m, o)
  local values = values_of(self, o.values or {})
  local s = machine.new(of_machine(o))
  local lead = { s.num_particles, table.unpack(s.batch_shape) }
  local increments, ess, moments, state = {}, {}, {}, nil
  self:open(values, lead, function(process)
    for t = 1, process.steps do
      local kept = o.moments and {} or nil
      state, increments[t] = space.advance(process, s, lead, state, t, kept)
      ess[t] = s:effective_sample_size()
      if kept then
        add_moments(s, lead, kept, moments)
      end
    end
    return state
  end)
  increments = core.stack(increments, 1)
  return { log_evidence = increments:to("float64"):sum(1), increments = increments, ess = core.stack(ess, 1),
    filtered = stacked(moments), state = state, machine = s }
end

return scan_filter
