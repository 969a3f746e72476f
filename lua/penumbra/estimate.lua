--- An estimate and its standard error as one table: `value` and `se`, numbers or tensors of one shape, and what else
--- the same draws tell. Printed as "-12.31 (standard error 0.02)".
-- help: nowhere
local core = require "penumbra.core"

local estimate = {}

local function number(v) return core.is_tensor(v) and v:item() or v end

local class = { __name = "estimate", __tostring = function(self)
  if core.is_tensor(self.value) and self.value:numel() ~= 1 then
    return ("value %s\nstandard error %s"):format(tostring(self.value:detach()), tostring(self.se))
  end
  local value = ("%.6g"):format(number(self.value))
  return self.se and ("%s (standard error %.2g)"):format(value, number(self.se)) or value
end }

--- new(value, se [, more]): the table; se may be nil where nothing tells it.
function estimate.new(value, se, more)
  local self = { value = value, se = se }
  for name, v in pairs(more or {}) do self[name] = v end
  return setmetatable(self, class)
end

return estimate
