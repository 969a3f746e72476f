--- Laws of an observation given the output of a network, element by element, so that what is missing can be left out.
---
---     local e = emission.new("gaussian", 3 [, floor])   -- floor of squared scales, 1e-12
---     e.width                  numbers that the network gives, 3 * e.width in all: [..., e.width * 3]
---     e:law(output)            the law of y [..., 3], each element for itself
---
--- gaussian      loc and scale, sqrt(softplus(output)^2 + floor)
--- student_t     degrees of freedom, 2 + softplus, which have a variance, loc and scale
--- bernoulli     logits of 0 or 1, kept within 15 (probabilities from 3e-7) by 15 tanh(output / 15): beyond 87 their
---               gradients are no normal numbers of float32, with which processors are many times slower
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"

local emission = {}

--- names: the kinds of laws.
emission.names = { "gaussian", "student_t", "bernoulli" }

local function part(y, k, n)
  local size = y:size(-1) // n
  return n == 1 and y or y:slice(-1, (k - 1) * size + 1, k * size)
end

local LEAST = 1e-12 -- of a variance: softplus may give 0
local MOST = 15 -- of a logit

local function scale(y, floor)
  return (y:softplus():square() + floor):sqrt()
end

local kinds = {
  gaussian = { width = 2, law = function(y, floor)
    return dist.normal(part(y, 1, 2), scale(part(y, 2, 2), floor))
  end },
  student_t = { width = 3, law = function(y, floor)
    return dist.student_t(part(y, 1, 3):softplus() + 2, part(y, 2, 3), scale(part(y, 3, 3), floor))
  end },
  bernoulli = { width = 1, law = function(y)
    return dist.bernoulli { logits = (y * (1 / MOST)):tanh() * MOST }
  end },
}

local class = {}
class.__index = class

--- The law of y [..., data] for a network's output [..., width * data].
function class:law(output)
  return kinds[self.kind].law(output, self.floor)
end

--- log p(y | output) [...]: the sum over the elements where the bool tensor `observed`, shaped like y, is true.
function class:log_prob(output, y, observed)
  local zero = core.zeros({}, { dtype = y:dtype() })
  local each = self:law(output):log_prob(core.where(observed, y, zero))
  return core.where(observed, each, zero):sum(-1)
end

--- new(kind, data [, floor]): data numbers in an observation.
function emission.new(kind, data, floor)
  return setmetatable({ kind = kind, data = data, width = kinds[kind].width, floor = floor or LEAST }, class)
end

return emission
