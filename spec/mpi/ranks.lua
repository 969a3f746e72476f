-- What each rank of a job checks of pn.mpi against what it must be by arithmetic: run by mpi_spec.lua under mpirun with
-- several numbers of ranks. Rank 0 prints "passed: RANKS" when all have come to the end.
local core = require "penumbra.core"
local pn = require "penumbra"
local mpi = pn.mpi
local rank, size = mpi.rank(), mpi.size()
assert(mpi.available() and size == tonumber(arg[1]), "the number of ranks")

local DTYPES = { "float64", "float32", "int64", "bool" }
local TYPED = { bool = function(x) return x:ne(0) end }

-- Element i of rank r's tensor [3, 5] is f(r, i), small whole numbers; transposed where a strided view is wanted.
local function of_rank(dtype, f, r)
  local list = {}
  for i = 0, 14 do list[i + 1] = f(r, i) end
  local t = pn.tensor(list, { dtype = dtype ~= "bool" and dtype or "float64" }):reshape { 3, 5 }
  return (TYPED[dtype] or function(x) return x end)(t)
end

local function expect(got, want, what)
  local ok = got:dtype() == want:dtype() and pn.all(got:eq(want)):item() == true
    and table.concat(got:shape(), ",") == table.concat(want:shape(), ",")
  if not ok then error(("%s on rank %d: %s instead of %s"):format(what, rank, got, want)) end
end

-- ---- reductions ----

local function number(r, i) return (r * 7 + i * 3) % 5 - 1 end
local function positive(r, i) return (r + i) % 3 + 1 end
local function folded(f, op)
  return function(_, i)
    local v = f(0, i)
    for r = 1, size - 1 do v = op(v, f(r, i)) end
    return v
  end
end
local OPS = { -- a list: the order of pairs is another one on each rank
  { "sum", function(a, b) return a + b end }, { "prod", function(a, b) return a * b end }, { "max", math.max },
  { "min", math.min },
}
for _, dtype in ipairs(DTYPES) do
  for _, row in ipairs(OPS) do
    local name, op = row[1], row[2]
    if dtype ~= "bool" or name == "max" or name == "min" then
      local f = name == "prod" and positive or dtype == "bool" and function(r, i) return number(r, i) > 0 and 1 or 0 end
        or number
      local t, want = of_rank(dtype, f, rank), of_rank(dtype, folded(f, op))
      expect(mpi.all_reduce(t, name), want, name .. " " .. dtype)
      expect(mpi.all_reduce(t:t(), name), want:t(), name .. " of a view " .. dtype)
      expect(t, of_rank(dtype, f, rank), "what was given, " .. name)
    end
  end
end
expect(mpi.all_reduce(pn.full({ 2 }, rank, { dtype = "float32" }), "mean"),
  pn.full({ 2 }, (size - 1) / 2, { dtype = "float32" }), "mean")
for _, name in ipairs { "max", "min" } do -- NaN of one rank, whichever, in one element
  for _, dtype in ipairs { "float64", "float32" } do
    for r = 0, size - 1 do
      local x = pn.tensor({ 1, rank == r and 0 / 0 or 2, 3 }, { dtype = dtype })
      local y = mpi.all_reduce(x, name):totable()
      assert(y[1] == 1 and y[2] ~= y[2] and y[3] == 3, name .. " of NaN")
    end
  end
end
assert(mpi.all_reduce(pn.zeros { 0, 3 }):numel() == 0 and mpi.all_reduce(pn.tensor(2)):item() == 2 * size)

-- ---- from and to one rank ----

for root = 0, size - 1 do
  for _, dtype in ipairs(DTYPES) do
    local function mine(r) return of_rank(dtype, number, r) end
    expect(mpi.broadcast(rank == root and mine(root) or nil, root), mine(root), "broadcast " .. dtype)
    local rows = {}
    for r = 0, size - 1 do rows[r + 1] = mine(r) end
    local all = pn.stack(rows, 1)
    local got = mpi.gather(mine(rank), root)
    assert((got ~= nil) == (rank == root), "gather on root alone")
    if got then expect(got, all, "gather " .. dtype) end
    expect(mpi.all_gather(mine(rank)), all, "all_gather " .. dtype)
    expect(mpi.scatter(rank == root and all or nil, root), mine(rank), "scatter " .. dtype)
    expect(mpi.exchange(mine(rank), (rank + 1) % size, (rank - 1) % size, 3), mine((rank - 1) % size), "exchange")
  end
end
for _, n in ipairs { 1, 200000 } do -- MPI sends these two in two ways
  if rank == 0 then
    for r = 1, size - 1 do mpi.send(pn.full({ n }, r), r, r) end
    local seen = {}
    for _ = 1, size - 1 do
      local t, from = mpi.receive(nil, 9)
      assert(t:size(1) == from * n and t[-1]:item() == from and not seen[from], "receive of any rank")
      seen[from] = true
    end
  else
    local t, from = mpi.receive(0, rank)
    assert(from == 0 and t:size(1) == n and t[n]:item() == rank, "receive")
    mpi.send(pn.full({ rank * n }, rank), 0, 9)
  end
end

-- ---- plain values ----

local value = { 1, -0.5, "a\0b", true, { x = math.mininteger, inf = math.huge }, [10] = false }
local got = mpi.broadcast_value(rank == size - 1 and value or print, size - 1)
assert(got[1] == 1 and math.type(got[1]) == "integer" and got[2] == -0.5 and got[3] == "a\0b" and got[4] == true
  and got[5].x == math.mininteger and got[5].inf == math.huge and got[10] == false, "broadcast_value")
local list = mpi.all_gather_values(rank > 0 and { rank, ("x"):rep(rank) } or nil)
assert(list.n == size and list[1] == nil and (size == 1 or list[size][2] == ("x"):rep(size - 1)), "all_gather_values")
assert((mpi.gather_values(rank, size - 1) ~= nil) == (rank == size - 1), "gather_values")
if size > 1 and rank == 0 then mpi.send_value({ 1 }, 1) end
if rank == 1 then assert(mpi.receive_value()[1] == 1) end

-- ---- what is read and written where it lies ----

local N = 1 << 18
local square = pn.randn { 512, 512 }
local function grows(x, what)
  collectgarbage()
  core.reset_peak()
  local before = pn.memory()
  mpi.all_reduce(x)
  local _, peak = pn.memory()
  -- (blocks are rounded up)
  assert(peak - before < what * 1.4 * 8 * N, ("%d bytes for %d tensors"):format(peak - before, what))
  return peak - before
end
assert(grows(square, 1) >= 8 * N, "the result alone")
assert(grows(square:t(), 2) >= 16 * N, "a strided view is copied: this is how the other is known not to be")

-- ---- refusals, on all ranks alike, after which the ranks go on ----

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok and tostring(message):find(pattern), ("'%s' instead of '%s'"):format(message, pattern))
end
refused("all_reduce: t must be a tensor, got nil", mpi.all_reduce)
refused("all_reduce: op must be", mpi.all_reduce, square, "median")
refused('all_reduce: a bool tensor has "max"', mpi.all_reduce, square:gt(0), "sum")
refused('"mean" is of float64 and float32', mpi.all_reduce, pn.arange(0, 2, 1, { dtype = "int64" }), "mean")
refused("broadcast: root must be a rank, 0 to %d, got " .. size, mpi.broadcast, square, size)
refused("root must be a rank", mpi.gather, square, 0.5)
refused("root must be a rank", mpi.gather, square, "0")
refused("send: to must be a rank, 0 to %d+, got %-1", mpi.send, square, -1)
refused("tag must be a whole number", mpi.send, square, 0, 40000)
refused("sends to itself", mpi.send, square, rank)
refused("gets no message from itself", mpi.receive, rank)
refused("send: t must be a tensor", mpi.send, "x", 0)
refused("send_value: value must be made of", mpi.send_value, print, 0)
refused("got a tensor %(send those", mpi.all_gather_values, { square })
refused("a table with a metatable", mpi.all_gather_values, setmetatable({}, {}))
refused("timeout: seconds must be a number", mpi.timeout, -1)
local deep = {}
for _ = 1, 200 do deep = { deep } end
refused("nested more than 100 deep", mpi.all_gather_values, deep)
refused("all_reduce cannot be part of a compiled function",
  pn.compile(function(x) return mpi.all_reduce(x):sum() end), square)
if size > 1 then
  local other = rank == 1
  refused("differ in the size of axis 2: 3 and 4", mpi.all_reduce, pn.zeros { 2, other and 3 or 4 })
  refused("differ in the number of axes: 1 and 2", mpi.all_gather, other and pn.zeros { 2 } or pn.zeros { 2, 1 })
  refused("differ in dtype: float32 and bool", mpi.gather,
    other and pn.zeros({ 2 }, { dtype = "bool" }) or pn.zeros({ 2 }, { dtype = "float32" }))
  refused("differ in root: 0 and 1", mpi.broadcast, pn.zeros { 2 }, other and 1 or 0)
  refused("differ in op: sum and max", mpi.all_reduce, pn.zeros { 2 }, other and "max" or "sum")
  refused("differ in what they call: barrier and all_reduce", other and mpi.barrier or mpi.all_reduce, pn.zeros { 2 })
end

assert(mpi.timeout(60) == 60 and mpi.timeout() == 60)
mpi.barrier()
if rank == 0 then print("passed: " .. size) end
