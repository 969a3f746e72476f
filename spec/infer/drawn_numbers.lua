--- Numbers that depend on a seed alone, for programs and models that are written by chance. PN_SEED, as for the C
--- sweeps, moves all seeds.
local pn = require "penumbra"

local FIRST = tonumber(os.getenv "PN_SEED" or 1) - 1

--- drawn_numbers(seed): {uniform(), below(n) (1 .. n), between(a, b), chance(p), one_of(list), seed}.
return function(seed)
  local g = pn.generator(seed + 100003 * FIRST)
  local list, at = {}, 0
  local r = { seed = seed }
  function r.uniform()
    if at == #list then list, at = pn.rand({ 64 }, { generator = g, dtype = "float64" }):totable(), 0 end
    at = at + 1
    return list[at]
  end
  function r.below(n) return math.floor(r.uniform() * n) + 1 end
  function r.between(a, b) return a + (b - a) * r.uniform() end
  function r.chance(p) return r.uniform() < p end
  function r.one_of(choices) return choices[r.below(#choices)] end
  return r
end
