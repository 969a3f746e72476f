--- The divergence of two events and its inverses: see pn.pac.kl and pn.pac.kl_inverse.
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local binary_kl = {}

-- Both as tensors of one dtype.
local function both(where, a, x, b, y)
  x, y = options.numbers(where, a, x), options.numbers(where, b, y)
  local like = core.is_tensor(x) and x or core.is_tensor(y) and y
  local function tensor(v)
    return core.is_tensor(v) and v or core.full({}, v, { dtype = like and like:dtype() or nil })
  end
  return tensor(x), tensor(y)
end

--- kl(q, p): see pn.pac.kl.
function binary_kl.kl(q, p)
  return core.bernoulli_kl(both("kl", "q", q, "p", p))
end

local known = { argument = options.choice("p", "q"), side = options.choice("upper", "lower") }

--- inverse(x, bound [, options]): see pn.pac.kl_inverse.
function binary_kl.inverse(x, bound, given)
  local o = options.check("kl_inverse", given, known)
  local which = (o.argument == "q" and 2 or 0) + (o.side == "lower" and 1 or 0)
  local a, b = both("kl_inverse", "x", x, "bound", bound)
  return core.bernoulli_kl_inverse(a, b, which)
end

return binary_kl
