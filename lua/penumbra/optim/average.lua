--- Averages of parameters over the steps of an optimiser: what they end at is often better than the last step.
-- help: pn.optim, methods average
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"

local average = {}
average.__index = average
average.__name = "average"

--- Takes the parameters as they are now into the average; the first time, the average is they. Returns the average.
function average:update()
  recording.off(function()
    local n = self.count
    local share = n == 0 and 1 or self.decay and 1 - self.decay or 1 / (n + 1)
    for k, w in ipairs(self.list) do
      local now = w:detach()
      self.values[k] = n == 0 and now + 0 or self.values[k] + (now - self.values[k]) * share
    end
  end)
  self.count = self.count + 1
  return self
end

local function check_any(self, where)
  if self.count == 0 then
    core.error(where .. ": nothing has been averaged yet (average:update())")
  end
end

-- Puts values into the parameters and gives back what they were.
local function exchange(self, values)
  local old = {}
  for k, w in ipairs(self.list) do
    old[k] = w:detach() + 0
    w:set(values[k])
  end
  return old
end

--- Calls f(...) with the averages in the place of the parameters, which come back afterwards, also on an error.
--- Returns what f returns.
function average:with(f, ...)
  check_any(self, "with")
  if type(f) ~= "function" then
    options.argument("with", "f", f, "function")
  end
  local old = exchange(self, self.values)
  local result = table.pack(pcall(f, ...))
  exchange(self, old)
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

--- Sets the parameters to the averages, for good.
function average:apply()
  check_any(self, "apply")
  exchange(self, self.values)
  return self
end

--- Table name -> tensor: "count" and an average for each parameter.
function average:state()
  local state = { count = core.tensor({ self.count }, { dtype = "int64" }) }
  for k, t in ipairs(self.values) do
    state[self.names[k]] = t + 0
  end
  return state
end

--- Restores what state() gave. What does not fit raises, and then nothing has changed.
function average:load_state(state)
  options.argument("load_state", "state", state, "table")
  local whole = form.tensor { dtype = "int64", shape = { 1 }, least = 0, most = 1 << 53 }
  local count = form.check("load_state", "'count'", state.count, whole)
  local fields, values = { count = form.any }, {}
  for k, w in ipairs(count:item() > 0 and self.list or {}) do
    fields[self.names[k]] = form.tensor { like = w }
  end
  form.check("load_state", "state", state, form.record(fields, "part of this average's state"))
  for k, name in ipairs(count:item() > 0 and self.names or {}) do
    values[k] = state[name] + 0
  end
  self.count, self.values = math.tointeger(count:item()), values
  return self
end

function average:__tostring()
  return ("average(%s, of %d)"):format(self.decay and ("decay = %g"):format(self.decay) or "uniform", self.count)
end

core.public(average)

--- new(list, names, given): an average of the parameters in the list.
function average.new(list, names, given)
  local o = options.check("average", given or {}, { decay = options.optional "number" })
  if o.decay and not (o.decay >= 0 and o.decay < 1) then
    core.error(("average: decay must lie in [0, 1), got %g"):format(o.decay))
  end
  local own = {}
  for k, w in ipairs(list) do
    if not w:is_param() then
      core.error(("average: parameter %d must be made by param, got another tensor"):format(k))
    end
    own[k] = "mean." .. (names and names[k] or tostring(k))
  end
  return setmetatable({ list = list, names = own, decay = o.decay, count = 0, values = {} }, average)
end

return average
