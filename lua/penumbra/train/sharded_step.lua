--- A step of training by several ranks (pn.mpi) whose bits do not depend on how many there are. The rows of a batch
--- are cut into a fixed count of shards; each has a loss and gradients of its own, weighted by its share of the rows,
--- and these are added in a fixed binary tree: a rank adds what it has itself, and what another has comes by a
--- message from point to point. Rank 0 has the sum then, all get it, and all make the same update.
---
--- Random draws of a shard come from a stream that its step and its place among the shards choose. A buffer that the
--- loss carries an update of, as running statistics, becomes the weighted mean of what each shard would make of it.
-- help: nowhere
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"
local replay = require "penumbra.autodiff.replay"

local sharded_step = {}
local methods = {}
local meta = { __index = methods }

local STREAMS = 1 << 40 -- of a seed's split streams; the orders of epochs are those from 0 on
local DTYPES = { "float64", "float32" }

-- ---- one shard: a function of its tensors ----

-- What the buffers become by what y carries: a list in the order of `buffers`.
local function updated(y, buffers)
  local now, place = {}, {}
  for k, b in ipairs(buffers) do
    now[k], place[core.identity(b)] = b, k
  end
  local list = core.carried(y)
  for k = 1, #list, 3 do
    local at = place[core.identity(list[k])]
    if not at then
      core.error "fit: the loss updates a buffer that it did not update in the first step (distributed)"
    end
    now[at] = now[at] * (1 - list[k + 2]) + list[k + 1] * list[k + 2]
  end
  return now
end

-- Tensors as one vector of each dtype.
local function flattened(list)
  local out = {}
  for _, dtype in ipairs(DTYPES) do
    local some = {}
    for _, t in ipairs(list) do
      if t:dtype() == dtype then
        some[#some + 1] = t:reshape { t:numel() }
      end
    end
    out[#out + 1] = #some > 0 and core.concatenate(some, 1) or nil
  end
  return out
end

-- The way back: tensors like those of `list` out of the vectors.
local function unflattened(list, vectors)
  local out, group = {}, 0
  for _, dtype in ipairs(DTYPES) do
    local at, found = 0, false
    for k, t in ipairs(list) do
      if t:dtype() == dtype then
        group = found and group or group + 1
        found = true
        out[k] = vectors[group]:slice(1, at + 1, at + t:numel()):reshape(t:shape())
        at = at + t:numel()
      end
    end
  end
  return out
end

-- Loss, gradients and buffers of a shard, times its weight, as vectors: from a list of parameters and one of buffers.
-- weight: a 0-d tensor of the loss's dtype, so that a plan serves any.
local function body_of(loss_of, parameters, buffers)
  return function(weight, ...)
    local loss = (loss_of(...))
    local weighted = loss * weight
    local list = core.grad(weighted, parameters)
    table.insert(list, 1, weighted)
    for _, b in ipairs(updated(loss, buffers)) do
      list[#list + 1] = b * (b:dtype() == weight:dtype() and weight or weight:to(b:dtype()))
    end
    return table.unpack(flattened(list))
  end
end

-- ---- where shards lie ----

local function owner(self, shard) return shard * self.size // self.shards end

-- The first of the rows of a shard, from 0, out of n.
local function first_row(self, shard, n) return shard * n // self.shards end

-- The sum over the shards from `low` to below `high`, on the rank that owns the first of them; nil elsewhere, and where
-- they have no rows. leaf(shard): the vectors of one.
local function add_up(self, low, high, n, leaf)
  if first_row(self, low, n) == first_row(self, high, n) then
    return nil
  elseif high - low == 1 then
    return owner(self, low) == self.rank and leaf(low) or nil
  end
  local middle = low + 1
  while 2 * (middle - low) < high - low do
    middle = low + 2 * (middle - low)
  end
  local left, right = add_up(self, low, middle, n, leaf), add_up(self, middle, high, n, leaf)
  local to, from = owner(self, low), owner(self, middle)
  local has_left = first_row(self, low, n) < first_row(self, middle, n)
  local has_right = first_row(self, middle, n) < first_row(self, high, n)
  if has_right and from ~= to then
    right = self.move(right, from, to)
  end
  if self.rank ~= to or not (has_left and has_right) then
    return left or right
  end
  for k, v in ipairs(left) do left[k] = v + right[k] end
  return left
end

-- Sends vectors from one rank to another: they are there on the second alone.
local function mover(self)
  return function(vectors, from, to)
    local out
    if self.rank == from then
      for _, v in ipairs(vectors) do mpi.send(v, to) end
    elseif self.rank == to then
      out = {}
      for k = 1, self.groups do out[k] = mpi.receive(from) end
    end
    return out
  end
end

-- ---- a step ----

-- Draws from here on are those of a shard of a step.
local function set_stream(self, step, shard)
  local stream = self.streams:split(step):split(shard)
  core.set_rng_state(stream:state())
  if self.generator then
    self.generator:set_state(stream:split(0):state())
  end
end

-- Calls f and puts the generators back as they were, whatever becomes of it.
local function with_streams(self, f)
  local before, own = core.rng_state(), self.generator and self.generator:state()
  local out = table.pack(pcall(f))
  core.set_rng_state(before)
  if own then
    self.generator:set_state(own)
  end
  if not out[1] then
    error(out[2], 0)
  end
  return table.unpack(out, 2, out.n)
end

-- What the loss of the first step shows: the buffers that it carries, and so what all vectors hold.
local function prepare(self, rows, n, step)
  local shard = self.rank * self.shards // self.size
  local first, last = first_row(self, shard, n), first_row(self, shard + 1, n)
  set_stream(self, step, shard)
  local loss = (self.loss(rows(first + 1, math.max(last, first + 1))))
  local seen, buffers = {}, {}
  for k, b in ipairs(core.carried(loss)) do
    if k % 3 == 1 and not seen[core.identity(b)] then
      seen[core.identity(b)] = true
      buffers[#buffers + 1] = b
    end
  end
  self.buffers, self.like = buffers, { loss:detach() }
  for _, list in ipairs { self.parameters, buffers } do
    table.move(list, 1, #list, #self.like + 1, self.like)
  end
  self.groups = #flattened(self.like)
  local body = body_of(self.loss, self.parameters, buffers)
  self.run = self.compile and replay.compile(body, { watch = self.loss }) or body
end

-- The weighted vectors of the rows from `first` to below `last`, from 0, of n.
local function vectors_of(self, rows, first, last, n)
  local weight = core.tensor((last - first) / n, { dtype = self.like[1]:dtype() })
  local out = { self.run(weight, rows(first + 1, last)) }
  for k, v in ipairs(out) do out[k] = v:detach() end
  return out
end

-- The sum of all shards, on all ranks.
local function total_of(self, rows, n, step)
  local function leaf(shard)
    set_stream(self, step, shard)
    return vectors_of(self, rows, first_row(self, shard, n), first_row(self, shard + 1, n), n)
  end
  if self.reduce == "tree" then
    local sum = add_up(self, 0, self.shards, n, leaf)
    local out = {}
    for k = 1, self.groups do
      out[k] = mpi.broadcast(self.rank == 0 and sum[k] or nil)
    end
    return out
  end
  local some = first_row(self, self.rank, n) < first_row(self, self.rank + 1, n)
  local out = some and leaf(self.rank) or flattened(self.like)
  for k, v in ipairs(out) do
    out[k] = mpi.all_reduce(some and v or core.zeros(v:shape(), { dtype = v:dtype() }))
  end
  return out
end

-- A loss or gradient is not finite, on all ranks: raises on all what the first shard says that has such a loss.
local function refuse(self, rows, n, step)
  local cause
  for shard = 0, self.shards - 1 do
    local first, last = first_row(self, shard, n), first_row(self, shard + 1, n)
    if not cause and first < last and owner(self, shard) == self.rank then
      set_stream(self, step, shard)
      local loss = (self.loss(rows(first + 1, last)))
      if not (math.abs(loss:item()) < math.huge) then
        cause = ("the loss is not finite: %s"):format(core.nonfinite_cause(loss))
      end
    end
  end
  local causes, first = mpi.all_gather_values(cause), nil
  for r = causes.n, 1, -1 do first = causes[r] or first end
  core.error("fit: " .. (first or "a gradient is not finite, but the loss is"))
end

local function is_finite(vectors)
  for _, v in ipairs(vectors) do
    if not core.all(v:isfinite()):item() then
      return false
    end
  end
  return true
end

--- step:update(number, rows, n): the step of this number, from 1, on a batch of n rows; rows(first, last) gives the
--- tensors of some of them, positions from 1. Returns the loss as a number.
function methods:update(number, rows, n)
  return with_streams(self, function()
    if not self.run then
      prepare(self, rows, n, number)
    end
    local total = total_of(self, rows, n, number)
    if not is_finite(total) then
      refuse(self, rows, n, number)
    end
    local list = unflattened(self.like, total)
    local count = #self.parameters
    set_stream(self, number, self.shards) -- of an optimiser that draws
    self.optimiser:apply(table.move(list, 2, count + 1, 1, {}))
    for k, b in ipairs(self.buffers) do
      b:set(list[count + 1 + k])
    end
    return list[1]:item()
  end)
end

-- ---- the same beginning on all ranks ----

--- share(o, s): what rank 0 begins with becomes that of all ranks: seed, parameters and buffers, the optimiser's
--- state, generators. Raises on all ranks where their data or positions differ.
function sharded_step.share(o, s, buffers)
  s.seed = mpi.broadcast_value(s.seed)
  local mine = { rows = s.rows, batch_size = s.batch_size, epochs = s.epochs, epoch = s.at.epoch, batch = s.at.batch }
  for r, other in ipairs(mpi.all_gather_values(mine)) do
    for _, name in ipairs { "rows", "batch_size", "epochs", "epoch", "batch" } do
      if other[name] ~= mine[name] then
        core.error(("fit: the ranks differ in %s: %d, and %d on rank %d (data and the file of a run must be the same "
          .. "on all)"):format(name, mine[name], other[name], r - 1))
      end
    end
  end
  for _, list in ipairs { o.optimiser:parameters(), buffers } do
    for _, w in ipairs(list) do w:set(mpi.broadcast(w)) end
  end
  for i = 1, getmetatable(o.optimiser) == "penumbra.optimiser" and o.optimiser:num_states() or 0 do
    o.optimiser:set_state_at(i, mpi.broadcast((select(2, o.optimiser:state_at(i)))))
  end
  core.set_rng_state(mpi.broadcast_value(core.rng_state()))
  if o.generator then
    o.generator:set_state(mpi.broadcast_value(o.generator:state()))
  end
end

--- new(o, seed): the step of the options o of train.fit.
function sharded_step.new(o, seed)
  local rank, size = mpi.rank(), mpi.size()
  local shards = o.reduce == "tree" and o.shards or size
  if shards < size then
    core.error(("fit: shards must be at least the number of ranks, %d, got %d"):format(size, shards))
  end
  local self = setmetatable({ rank = rank, size = size, shards = shards, reduce = o.reduce, loss = o.loss,
    optimiser = o.optimiser, parameters = o.optimiser:parameters(), generator = o.generator, compile = o.compile,
    streams = core.generator(seed):split(STREAMS) }, meta)
  self.move = mover(self)
  return self
end

return sharded_step
