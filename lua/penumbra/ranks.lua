--- Work that is shared out over the ranks of mpirun (pn.help "pn.mpi"): who has what, and what all must know. One
--- process is a team of one, and needs no MPI.
-- help: nowhere
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"

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

--- team:gather(rows, count): rows [mine, ...] of all ranks one below the other, [count, ...], on all. Row k of the
--- result stands where share(count) puts it; each of count things may be several rows.
function methods:gather(rows, count)
  if self.size == 1 then
    return rows
  end
  local most = (count + self.size - 1) // self.size
  local first, last = self:share(count)
  local mine, shape = last - first + 1, rows:shape()
  local each = shape[1] // mine
  if mine < most then -- all ranks send as many
    shape[1] = each * (most - mine)
    rows = core.concatenate({ rows, core.zeros(shape, { dtype = rows:dtype() }) }, 1)
  end
  local all = mpi.all_gather(rows)
  if count % self.size == 0 then
    shape[1] = each * count
    return all:reshape(shape)
  end
  local list = {}
  for rank = 0, self.size - 1 do
    local from, to = count * rank // self.size + 1, count * (rank + 1) // self.size
    list[rank + 1] = all[rank + 1]:slice(1, 1, each * (to - from + 1))
  end
  return core.concatenate(list, 1)
end

--- team:sum(v): the sum of a whole number over all ranks.
function methods:sum(v)
  return self.size == 1 and v or mpi.all_reduce(core.tensor({ v }, { dtype = "int64" })):item()
end

--- team:fail(message): an error that all ranks raise.
function methods:fail(message)
  if self.size > 1 then
    mpi.fail(message)
  end
  core.error(message)
end

--- team:agree(what): raises, on all ranks, where a list of texts is not the same on all of them: ranks that were given
--- other data, another seed or another script.
function methods:agree(what)
  if self.size == 1 then
    return
  end
  local all = mpi.all_gather_values(what)
  for rank = 1, self.size - 1 do
    local other = all[rank + 1]
    for k = 1, math.max(#all[1], type(other) == "table" and #other or 0) do
      local text = type(other) == "table" and other[k] or type(other)
      if text ~= all[1][k] then
        self:fail(("%s: all ranks must do the same: rank 0 has %s, rank %d %s"):format(self.where, tostring(all[1][k]),
          rank, tostring(text)))
      end
    end
  end
end

--- team:send(x, rank): a tensor.
function methods:send(x, rank) -- luacheck: ignore self
  mpi.send(x, rank)
end

--- team:receive(rank): a tensor of that rank.
function methods:receive(rank) -- luacheck: ignore self
  local x = mpi.receive(rank)
  return x
end

--- team(where, distributed): of all ranks, or of this process alone. where: the function that says what is wrong.
function ranks.team(where, distributed)
  return setmetatable({ rank = distributed and mpi.rank() or 0, size = distributed and mpi.size() or 1, where = where },
    class)
end

return ranks
