--- A network is trained on a file larger than the memory it may use, by one process or by several: each rank reads, by
--- rows, only what its shards of a batch need, in an order that depends on the seed and the epoch alone, so that any
--- number of ranks ends at the same bits.
---
---     penumbra examples/17_beyond_memory.lua [--quick] [--size GB] [--data FOLDER] [--seed N] [--keep]
---     mpirun -n 2 penumbra examples/17_beyond_memory.lua
---
--- The file (2 GB; --quick 8 MB) is made by the script, 16 MiB at a time, in FOLDER ("."), which all ranks see, and
--- removed at the end unless it is kept. Tensors and Lua may take 256 MiB of each rank; the most that a process had in
--- memory is printed.
local pn = require "penumbra"
local nn = pn.nn

local quick, seed, size, folder, keep = false, 1, 2, ".", false
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--keep" then
    keep = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--size" and tonumber(arg[i + 1]) then
    size, i = tonumber(arg[i + 1]), i + 1
  elseif arg[i] == "--data" and arg[i + 1] then
    folder, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 17_beyond_memory.lua [--quick] [--size GB] [--data FOLDER] [--seed N] [--keep]\n")
    os.exit(1)
  end
  i = i + 1
end
local limit = 256 << 20
pn.memory_limit(limit)
pn.threads(1)
pn.seed(seed)
pn.default_dtype "float32"

-- Without MPI a single process does the same.
local several = pn.mpi.available()
local rank, ranks = several and pn.mpi.rank() or 0, several and pn.mpi.size() or 1

-- ---- the file: y and 127 inputs a row (more, in a larger file), of which y sees the first eight ----

local columns = 128
local rows = quick and 1 << 14 or math.floor(size * 2 ^ 30 / (4 * columns)) -- 512 bytes each
if rows > 1 << 22 then -- the order of an epoch's rows takes 8 bytes of memory each: longer rows, not more
  columns, rows = math.ceil(columns * rows / (1 << 22)), 1 << 22
end
local path = ("%s/beyond_memory_%d.npy"):format(folder, seed)

local function npy_header(shape)
  local text = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }"):format(shape[1], shape[2])
  text = text .. (" "):rep(-(#text + 11) % 64) .. "\n"
  return "\x93NUMPY\1\0" .. ("<I2"):pack(#text) .. text
end

-- Rows of the file, as bytes: those of a .npy file without its header.
local function bytes_of(t)
  local part = path .. ".part"
  assert(pn.data.save_npy(part, t))
  local file <close> = assert(io.open(part, "rb"))
  file:seek("set", 8)
  local header = ("<I2"):unpack(file:read(2))
  file:seek("cur", header)
  return file:read "a"
end

local weight = pn.randn { 8, 1 }
local function some_rows(n)
  local x = pn.randn { n, columns - 1 }
  local y = x:slice(2, 1, 8):matmul(weight):sin() + pn.randn { n, 1 } * 0.1
  return pn.concatenate({ y, x }, 2)
end

if rank == 0 then
  local file <close> = assert(io.open(path, "wb"))
  file:write(npy_header { rows, columns })
  local at_once = (16 << 20) // (4 * columns)
  for from = 1, rows, at_once do
    file:write(bytes_of(some_rows(math.min(at_once, rows - from + 1))))
    collectgarbage()
  end
  os.remove(path .. ".part")
end
if several then
  pn.mpi.barrier()
end

-- ---- training ----

pn.seed(seed)
local table_in_file <close> = assert(pn.data.open(path))
local net = nn.mlp({ columns - 1, 32, 1 }, { activation = "tanh" })
local run = pn.train.fit {
  data = table_in_file, batch_size = 4096, epochs = 1, seed = seed, compile = true, distributed = several,
  optimiser = pn.optim.adam(net:parameters(), { lr = 3e-3 }), progress = not quick,
  loss = function(row)
    return (net(row:slice(2, 2, columns)) - row:slice(2, 1, 1)):square():mean()
  end,
}

-- ---- what it took ----

-- The most memory that this process has had, MiB; where the system does not say, NaN.
local function most_memory()
  local file <close> = io.open "/proc/self/status"
  return file and tonumber(file:read("a"):match "VmHWM:%s*(%d+) kB") / 1024 or 0 / 0
end

local _, peak = pn.memory()
local mine = { ("%.0f MiB of tensors and Lua at most (allowed: %d), %.0f MiB in the process"):format(peak / 2 ^ 20,
  limit >> 20, most_memory()) }
local all = several and pn.mpi.gather_values(mine) or { mine, n = 1 }
if rank == 0 then
  local check = 0
  for _, w in ipairs(net:parameters()) do check = check + w:sum():item() end
  print(("%d rows of %d numbers, %.3g GiB, by %d rank%s: loss %.5f in %d steps; sum of the weights %.9g"):format(rows,
    columns, rows * columns * 4 / 2 ^ 30, ranks, ranks == 1 and "" or "s", run.loss, run.step, check))
  for r = 1, all.n do print(("rank %d: %s"):format(r - 1, all[r][1])) end
  if not keep then
    os.remove(path)
  end
end
