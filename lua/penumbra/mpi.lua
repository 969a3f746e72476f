--- Several processes as one program, by MPI: what `mpirun -n 4 penumbra script.lua` starts is a rank each, which all
--- run the same script; without mpirun there is one rank, and everything works as it stands.
---
---     local mpi = pn.mpi
---     local mean = mpi.all_reduce(gradient, "mean")        -- the same on all ranks
---     if mpi.rank() == 0 then print(mean) end
---
--- Ranks count from 0, as MPI, mpirun and Slurm name them in what they print; the row of a rank in what gather makes,
--- as the positions of all tensors, from 1: row rank + 1.
---
--- Tensors do not change (pn.help "pn.tensor"), so every call returns a new one, without gradient, that MPI has
--- written where it lies: `g = mpi.all_reduce(g)`; a parameter is set by `w:set(mpi.broadcast(w))`. What is given is
--- read where it lies, without a copy unless it is a strided view. float64, float32, int64 and bool.
---
--- What all ranks call together (barrier, all_reduce, broadcast, gather, all_gather, scatter, and of plain values
--- broadcast_value, gather_values, all_gather_values) must be the same call with the same shape, dtype, root and op
--- on all of them; else it is an error on all of them, not a wait for ever. Who waits for others longer than
--- timeout() allows raises too; so does a cancellation or the deadline of a host. After such a wait was given up, the
--- job can only end.
---
--- A rank on which an error is not caught, or that calls os.exit with a failure, ends the job: all ranks, within a
--- second or so, with one message that names the rank and, in the command `penumbra`, the error; the interpreter
--- lua5.4 prints the error above it. mpirun ends the job when a rank is killed. A rank whose script ends while others
--- wait in a call of all ranks ends it, too.
---
--- A host in C that has initialised MPI keeps the end of it: nothing here finalises, and an error is the host's to
--- tell. Otherwise MPI is initialised by the first call, with MPI_THREAD_SERIALIZED: calls may come from any thread,
--- one at a time. In a host that initialised it below that level they must come from its main thread. Messages go
--- through communicators of their own.
---
--- Needs the module penumbra.mpi_core, which is built where MPI is found (Debian: libopenmpi-dev, openmpi-bin) and
--- found by package.cpath. available() says whether it is there.
-- help: pn.mpi, part
local core = require "penumbra.core"
local plain_value = require "penumbra.mpi.plain_value"

local mpi = {}

-- ---- the module in C ----

local MODULE = "penumbra.mpi_core"

-- The module, or nil and why it is not there. (A sandbox has no package.)
local function find()
  local from = core.package()
  if not from or not from.searchpath then
    return nil, "this script may load no modules in C"
  end
  local open = from.preload and from.preload[MODULE]
  if not open then
    local path = from.searchpath(MODULE, from.cpath)
    if not path then
      return nil, "the module penumbra.mpi_core is not in package.cpath"
    end
    local message
    open, message = from.loadlib(path, "luaopen_penumbra_mpi_core")
    if not open then
      return nil, message
    end
  end
  return open(MODULE)
end

local link, missing

-- The module, or an error that says what to do.
local function linked(where)
  if not link then
    link, missing = find()
  end
  if not link then
    core.error(("%s: MPI is not there: %s. It is built by `make` where MPI is found (Debian: apt install "
      .. "libopenmpi-dev openmpi-bin)"):format(where, missing))
  end
  return link
end

--- available(): is MPI there? Without it every other function raises, and says what to install.
function mpi.available()
  if not link then
    link = find()
  end
  return link ~= nil
end

-- ---- who is there ----

--- rank(): the number of this process among all, from 0.
function mpi.rank() return linked("rank").rank() end

--- size(): how many ranks there are; 1 without mpirun.
function mpi.size() return linked("size").size() end

--- timeout([seconds]): how long a rank waits for others before it raises, 0 for ever; returns it. 1800 at first: rank
--- 0 may validate a model, or write it, while the others wait.
function mpi.timeout(seconds) return linked("timeout").timeout(seconds) end

--- abort(message): ends the job on all ranks with this message and the number of the rank. Does not return.
function mpi.abort(message)
  if type(message) ~= "string" then
    core.error(("abort: message must be a string, got %s"):format(type(message)))
  end
  return linked("abort").abort(message)
end

--- fail(message): raises the message on all ranks, each of which must call it: where nothing catches it rank 0 alone
--- tells it, and the job ends.
function mpi.fail(message)
  if type(message) ~= "string" then
    core.error(("fail: message must be a string, got %s"):format(type(message)))
  end
  return linked("fail").fail(message)
end

--- barrier(): returns when all ranks have called it.
function mpi.barrier() return linked("barrier").barrier() end

-- ---- tensors, all ranks together ----

--- all_reduce(t [, op]): over all ranks, element by element: "sum" (the default), "mean", "max", "min", "prod". Of
--- bool "max" (any) and "min" (all), of int64 all but "mean"; NaN where one is NaN. The order in which MPI adds
--- depends on the number of ranks: for sums whose bits do not see pn.train.
function mpi.all_reduce(t, op) return linked("all_reduce").all_reduce(t, op) end

--- broadcast(t [, root]): root's t (rank 0's), on all ranks. Others may give nil, or a tensor like it.
function mpi.broadcast(t, root) return linked("broadcast").broadcast(t, root) end

--- gather(t [, root]): [size, ...] on root (rank 0), row r + 1 that of rank r; nothing on others.
function mpi.gather(t, root) return linked("gather").gather(t, root) end

--- all_gather(t): the same on all ranks.
function mpi.all_gather(t) return linked("all_gather").all_gather(t) end

--- scatter(t [, root]): root's t (rank 0's) is [size, ...]; each rank gets its row r + 1. Others give nothing.
function mpi.scatter(t, root) return linked("scatter").scatter(t, root) end

-- ---- tensors, from one rank to another ----

--- send(t, to [, tag]): returns when t may be forgotten; a large one, when it is received. tag: 0 to 32767 (0); a
--- message is received under the tag it was sent under, those of one sender under one tag in their order. What goes
--- round in a ring, or to itself, goes by exchange.
function mpi.send(t, to, tag)
  if not core.is_tensor(t) then
    core.error(("send: t must be a tensor, got %s (send_value sends others)"):format(type(t)))
  end
  return linked("send").send(t, to, tag)
end

-- What was to be a tensor.
local function tensor_of(where, t, from)
  if type(t) == "string" then
    core.error(("%s: rank %d sent a value, not a tensor (receive_value)"):format(where, from))
  end
  return t
end

--- receive([from [, tag]]): the tensor that rank `from` (nil: any rank) sent to this one under the tag (0), and who
--- sent it. Its shape and dtype come with it.
function mpi.receive(from, tag)
  local t, sender = linked("receive").receive(from, tag)
  return tensor_of("receive", t, sender), sender
end

--- exchange(t, to, from [, tag]): sends t to one rank and returns what came from another (or the same, or itself), at
--- the same time. At most 1 GiB.
function mpi.exchange(t, to, from, tag)
  if not core.is_tensor(t) then
    core.error(("exchange: t must be a tensor, got %s"):format(type(t)))
  end
  return tensor_of("exchange", linked("exchange").exchange(t, to, from, tag), from)
end

-- ---- plain values: settings, jobs, names ----

--- broadcast_value(v [, root]): root's value (rank 0's), on all ranks: nil, booleans, numbers, strings, and plain
--- tables of these. What others give is not looked at.
function mpi.broadcast_value(v, root)
  local c = linked "broadcast_value"
  local here = c.rank() == (root or 0)
  return plain_value.value(c.broadcast_text(here and plain_value.text("broadcast_value", v) or nil, root))
end

local function values(texts)
  local out = { n = texts and #texts }
  for k = 1, out.n or 0 do
    out[k] = plain_value.value(texts[k])
  end
  return texts and out
end

--- gather_values(v [, root]): on root (rank 0) the list of all ranks' values, with their number `n`, value r + 1 that
--- of rank r; nothing on others.
function mpi.gather_values(v, root)
  return values(linked("gather_values").gather_texts(plain_value.text("gather_values", v), root or 0))
end

--- all_gather_values(v): the same on all ranks.
function mpi.all_gather_values(v)
  return values(linked("all_gather_values").gather_texts(plain_value.text("all_gather_values", v)))
end

--- send_value(v, to [, tag]): as send, a plain value.
function mpi.send_value(v, to, tag)
  return linked("send_value").send(plain_value.text("send_value", v), to, tag)
end

--- receive_value([from [, tag]]): the value that send_value sent, and who sent it.
function mpi.receive_value(from, tag)
  local text, sender = linked("receive_value").receive(from, tag)
  if type(text) ~= "string" then
    core.error(("receive_value: rank %d sent a tensor, not a value (receive)"):format(sender))
  end
  return plain_value.value(text), sender
end

return mpi
