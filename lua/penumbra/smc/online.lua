--- Particle filters one observation at a time: a step is captured once and replayed for each observation, without a
--- graph and without allocating. C hosts take the same filter with pn_runtime_filter.
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local replay = require "penumbra.autodiff.replay"

local online = {}

-- Increment, effective sample size, then the state's means and variances, all float64.
local function summary(s, increment, state)
  local parts = { increment:to("float64"):reshape { 1 }, s:effective_sample_size():to("float64"):reshape { 1 } }
  local squares = {}
  for _, part in ipairs(machine.flatten("online", state, {})) do
    local x = part:to "float64"
    local mean = s:mean(x)
    local lead = mean:shape()
    table.insert(lead, 1, 1)
    parts[#parts + 1] = mean:reshape { -1 }
    squares[#squares + 1] = s:mean((x - mean:reshape(lead)):square()):reshape { -1 }
  end
  table.move(squares, 1, #squares, #parts + 1, parts)
  return core.concatenate(parts, 1)
end

-- The observation as the model sees it: 0-d where `observation` is nil.
local function seen_as(y, o)
  y = not o.observation and y:reshape {} or y
  return o.dtype and y:to(o.dtype) or y
end

-- The step as a function of tensors: (state..., weighed, y, t) -> state..., weighed, summary; the first one takes no
-- state, and one that is missing no y. `forms` receives the form of the state.
local function step_of(self, of_machine, o, first, seen, forms)
  return function(...)
    local given = table.pack(...)
    local t, y = given[given.n], seen and seen_as(given[given.n - 1], o) or nil
    local s = machine.new(of_machine)
    local inside = { machine = s, shape = self.shape }
    local previous, state, extra, score, increment
    if first then
      state, extra = self.model.start(inside, t, nil, y)
      forms.state = forms.state or state
    else
      local before = machine.rebuild(forms.state, given)
      machine.core_of(s):restore(given[#machine.flatten("online", before, {}) + 1])
      if self.lookahead and seen then
        score = self.lookahead(before, y, t)
        increment = s:tilt(score)
      end
      local ancestors = s:resample()
      previous = s:select(before, ancestors)
      score = score and s:select(score, ancestors)
      state, extra = self.model.move(inside, previous, t, nil, y)
    end
    local parts = machine.flatten("online", state, {})
    local log_w = seen and self.model.weigh(inside, state, y, t, previous, extra)
      or core.zeros(self.shape, { dtype = parts[1]:dtype() })
    local own = s:weigh(score and log_w - score or log_w)
    parts[#parts + 1] = machine.core_of(s):get "weighed"
    parts[#parts + 1] = summary(s, increment and increment + own or own, state)
    return table.unpack(parts)
  end
end

--- make(filter, options): see filter:online. Internal.
function online.make(self, given)
  local o = options.check("online", given, { observation = options.optional "number",
    dtype = options.optional "string" })
  if o.observation then
    options.whole("online", "observation", o.observation, 1)
  end
  if #self.machine.batch_shape > 0 then
    core.error "online: a filter online has no batch"
  end
  local of_machine = {}
  for key, value in pairs(self.of_machine) do
    of_machine[key] = value
  end
  of_machine.trace, of_machine.history, of_machine.generator = false, false, nil
  local forms, compiled = {}, {}
  local y, t = core.zeros({ o.observation or 1 }, { dtype = "float64" }), core.zeros({}, { dtype = "float64" })
  local watch = self.model.body
  local function compile(first, seen, ...)
    local f = replay.compile(step_of(self, of_machine, o, first, seen, forms), { plans = 1, watch = watch })
    compiled[#compiled + 1] = f
    return table.pack(f(...))
  end
  local before = core.rng_state()
  local carry = compile(true, true, y, t)
  carry[carry.n] = y
  carry[carry.n + 1] = t
  compile(false, true, table.unpack(carry))
  compile(true, false, t)
  carry[carry.n], carry[carry.n + 1] = t, nil
  compile(false, false, table.unpack(carry))
  core.set_rng_state(before)
  return core.new_filter(table.unpack(compiled))
end

return online
