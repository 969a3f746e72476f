--- Work that is shared out over the ranks of mpirun: who has what, and what all must know. One process is a team of one.
-- help: nowhere
local core = require "penumbra.core"

local ranks = {}

local methods = {}
local class = { __index = methods }

--- team:share(count): the first and the last of `count` things, from 1 on, that stand on this rank: neighbours stand
--- together, and no rank has two more than another.
function methods:share(count)
  return count * self.rank // self.size + 1, count * (self.rank + 1) // self.size
end

--- team:owner(k, count): the rank where thing k stands.
function methods:owner(k, count) return (k * self.size - 1) // count end

--- team:gather(rows, count): rows [mine, ...] of all ranks one below the other, [count, ...], on all.
function methods:gather(rows, count) return rows end

function methods:agree(text) end
function methods:sum(v) return v end

--- team(where, distributed)
function ranks.team(where, distributed)
  return setmetatable({ rank = 0, size = 1, where = where }, class)
end

return ranks
