--- A network of one's own in a model: what takes rows [N, inputs] and gives rows [N, outputs], as convolutions between
--- two reshapes do, called with any axes in front.
-- help: nowhere
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"

local row_network = {}

local class = { __name = "network", network = true, __index = parameters.methods }

function class:__call(h)
  local shape = h:shape()
  local size = table.remove(shape)
  local y = self.net(#shape == 1 and h or h:reshape { -1, size })
  if y:ndim() ~= 2 or y:size(2) ~= self.outputs then
    core.error(("%s: %s must give [N, %d] for [N, %d], got [%s]"):format(self.where, self.role, self.outputs, size,
      table.concat(y:shape(), ", ")))
  end
  shape[#shape + 1] = self.outputs
  return #shape == 2 and y or y:reshape(shape)
end

--- new(where, role, net, inputs, outputs, dtype): the network, checked on a row of zeros; nil for nil.
function row_network.new(where, role, net, inputs, outputs, dtype)
  if net == nil then
    return nil
  elseif not nn.is_network(net) then
    core.error(("%s: %s must be a network, got %s"):format(where, role, type(net)))
  end
  local self = setmetatable({ net = net, outputs = outputs, where = where, role = role }, class)
  local mode = core.mode "evaluation"
  local ok, message = pcall(self, core.zeros({ 1, inputs }, { dtype = dtype }))
  core.mode(mode)
  if not ok then
    core.error((tostring(message):gsub("^[^\n]-:%d+: ", "")))
  end
  return self
end

return row_network
