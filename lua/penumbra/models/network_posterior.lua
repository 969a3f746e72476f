--- The posterior of a model as a network that can be drawn from, refitted and widened on its own, the model as it is:
--- what pn.gap.measure asks of a model's amortised_posterior().
---
---     local q = network_posterior.new{network = encoder, draw = function(network, x, draws, generator) ... end,
---       widen = function(factor) return wider_encoder end, sees_all = false}
---     local z, log_q = q:draw(x, 8)
-- help: none
local options = require "penumbra.options"

local network_posterior = {}

local methods = {}
methods.__index = methods
methods.__name = "network posterior"

--- draw(x, draws [, generator]) -> z [S, N, ...], log q(z | x) [S, N], with a graph in the network's parameters.
function methods:draw(x, draws, generator)
  return self.drawing(self.network, x, draws, generator)
end

--- parameters(): those of the network.
function methods:parameters()
  return self.network:parameters()
end

--- new{network =, draw = function (network, x, draws, generator) -> z, log_q, widen = function (factor) -> a
--- new network with hidden layers that many times as wide, or nil, sees_all = false}.
function network_posterior.new(given)
  local o = options.check("network_posterior", given, { network = options.required(),
    draw = options.required "function", widen = options.optional "function", sees_all = false, eager = false })
  local self = { network = o.network, drawing = o.draw, sees_all = o.sees_all, eager = o.eager }
  if o.widen then
    self.widened = function(_, factor)
      return network_posterior.new { network = o.widen(factor), draw = o.draw, widen = o.widen, sees_all = o.sees_all,
        eager = o.eager }
    end
  end
  return setmetatable(self, methods)
end

return network_posterior
