--- Laws of an observation given the output of a network, element by element, so that what is missing can be left out.
---
---     local e = emission.new("arsgls", "emission", "normal", 3 [, floor])   -- floor of squared scales, 1e-12
---     e.width                  numbers that the network gives, 3 * e.width in all: [..., e.width * 3]
---     e:law(output)            the law of y [..., 3], each element for itself
---
--- A likelihood of pn.nn.likelihood, by its name, made or in Lua, but of no labels. Positive numbers are
--- sqrt(softplus(output)^2 + floor); logits of 0 or 1 are kept within 15 (probabilities from 3e-7) by
--- 15 tanh(output / 15): beyond 87 their gradients are no normal numbers of float32, with which processors are many
--- times slower.
-- help: nowhere
local core = require "penumbra.core"
local likelihood = require "penumbra.nn.likelihood"

local emission = {}

local LEAST = 1e-12 -- of a variance: softplus may give 0
local MOST = 15 -- of a logit

local class = {}
class.__index = class

-- Ways from outputs to numbers.
local function maps_of(self)
  return {
    positive = function(y) return (y:softplus():square() + self.floor):sqrt() end,
    logits = self.row.name == "bernoulli" and function(y) return (y * (1 / MOST)):tanh() * MOST end or nil,
  }
end

--- The law of y [..., data] for a network's output [..., width * data].
function class:law(output)
  return self.row:law_of_blocks(output, maps_of(self))
end

--- log p(y | output) [...]: the sum over the elements where the bool tensor `observed`, shaped like y, is true.
function class:log_prob(output, y, observed)
  local zero = core.zeros({}, { dtype = y:dtype() })
  local each = self:law(output):log_prob(core.where(observed, y, zero))
  return core.where(observed, each, zero):sum(-1)
end

--- new(where, role, kind, data [, floor]): data numbers in an observation; kind as option `role` of `where`.
function emission.new(where, role, kind, data, floor)
  local row = likelihood.read(where, kind, { role = role, without = "label" })
  return setmetatable({ kind = row.name, row = row, data = data, width = row.width, floor = floor or LEAST }, class)
end

return emission
