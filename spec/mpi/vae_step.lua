-- Times of several ranks, printed by rank 0 as lines name<TAB>value<TAB>unit (spec/bench/ranks.lua, run under mpirun):
--   vae_step.lua messages      latency and seconds per byte of send and receive, between ranks 0 and 1
--   vae_step.lua all_reduce    of 1 kB to 64 MB
--   vae_step.lua step [weak]   of a variational autoencoder 784-400-20, float32, Adam: batches of 512 rows in 8 shards,
--                              or of 256 rows and 4 shards a rank; what rank 0 uses of a processor for its own part;
--                              the share of the time that it spends with others
-- Each is the best of several rounds: others were disturbed.
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"
local pn = require "penumbra"
local what, weak = arg[1], arg[2] == "weak"
local rank, size = mpi.rank(), mpi.size()
pn.threads(1)
pn.default_dtype "float32"

local function row(name, value, unit)
  if rank == 0 then print(("%s\t%.6g\t%s"):format(name, value, unit)) end
end

-- Seconds per call of f, which all ranks call.
local function best(count, rounds, f)
  local least = math.huge
  for _ = 1, rounds do
    mpi.barrier()
    local start = core.clock()
    for _ = 1, count do f() end
    least = math.min(least, (core.clock() - start) / count)
  end
  return least
end

local ways = {}

function ways.messages()
  local n, mean_x, mean_y, xx, xy, points = 0, 0, 0, 0, 0, {}
  for _, bytes in ipairs { 4, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22 } do
    local t = pn.zeros { bytes // 4 }
    local time = best(bytes < 1 << 16 and 200 or 20, 10, function()
      if rank == 0 then
        mpi.send(t, 1)
        mpi.receive(1)
      elseif rank == 1 then
        mpi.send(mpi.receive(0), 0)
      end
    end) / 2
    points[#points + 1] = { bytes, time }
    row(("message of %d bytes"):format(bytes), time * 1e6, "us")
  end
  for _, p in ipairs(points) do
    local w = 1 / p[2] ^ 2 -- relative errors count
    n, mean_x, mean_y = n + w, mean_x + w * p[1], mean_y + w * p[2]
  end
  mean_x, mean_y = mean_x / n, mean_y / n
  for _, p in ipairs(points) do
    xx = xx + (p[1] - mean_x) ^ 2 / p[2] ^ 2
    xy = xy + (p[1] - mean_x) * (p[2] - mean_y) / p[2] ^ 2
  end
  row("alpha", (mean_y - xy / xx * mean_x) * 1e6, "us")
  row("beta", xy / xx * 1e9, "ns/byte")
end

function ways.all_reduce()
  for _, bytes in ipairs { 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26 } do
    local t = pn.ones { bytes // 4 }
    local time = best(bytes < 1 << 18 and 100 or bytes < 1 << 24 and 5 or 2, 8, function() mpi.all_reduce(t) end)
    row(("all_reduce %d bytes"):format(bytes), time * 1e6, "us")
  end
end

local function autoencoder()
  local nn = pn.nn
  local encoder = nn.sequential { nn.linear(784, 400), nn.relu(), nn.linear(400, 40) }
  local decoder = nn.sequential { nn.linear(20, 400), nn.relu(), nn.linear(400, 784) }
  return { encoder, decoder }, function(x)
    local out = encoder(x)
    local loc, log_scale = out:slice(2, 1, 20), out:slice(2, 21, 40) * 0.5
    local scale = log_scale:exp()
    local z = loc + scale * pn.randn { x:size(1), 20 }
    local logits = decoder(z)
    local nats = (pn.softplus(logits) - logits * x):sum(2)
    local kl = ((loc:square() + scale:square() - 1) * 0.5 - log_scale):sum(2)
    return (nats + kl):mean()
  end
end

-- Seconds in which this rank waits for others and sends, and what it uses of a processor meanwhile.
local spent, used = 0, 0
local function timed(name)
  local f = mpi[name]
  mpi[name] = function(...)
    local start, processor = core.clock(), os.clock()
    local out = table.pack(f(...))
    spent, used = spent + core.clock() - start, used + os.clock() - processor
    return table.unpack(out, 1, out.n)
  end
end

function ways.step()
  pn.seed(1)
  local net, loss = autoencoder()
  local parameters = {}
  for _, part in ipairs(net) do table.move(part:parameters(), 1, #part:parameters(), #parameters + 1, parameters) end
  local opt = pn.optim.adam(parameters, { lr = 1e-3 })
  local batch, shards = weak and 256 * size or 512, weak and 4 * size or 8
  local x = pn.rand { batch, 784 }:gt(0.5):to "float32"
  if size > 1 then
    for _, name in ipairs { "send", "receive", "broadcast" } do timed(name) end
  end
  local least, own, share, start, processor = math.huge, math.huge, 0, core.clock(), os.clock()
  pn.train.fit { data = x, loss = loss, optimiser = opt, epochs = 40, shards = shards, seed = 1,
    distributed = true, compile = true, on_epoch = function(run)
      local time = core.clock() - start
      if run.epoch > 2 and time < least then
        least, share = time, spent / time
      end
      own = run.epoch > 2 and math.min(own, os.clock() - processor - used) or own
      mpi.barrier()
      start, spent, processor, used = core.clock(), 0, os.clock(), 0
    end }
  row("step", least * 1e3, "ms")
  row("processor without others", own * 1e3, "ms")
  row("with others", share, "of it")
  if size == 1 then
    local grads = {}
    for k, w in ipairs(parameters) do grads[k] = pn.zeros(w:shape()) end
    row("update", best(5, 5, function() opt:apply(grads) end) * 1e3, "ms")
    local vector = pn.zeros { 652824 }
    row("sum", best(5, 5, function() return vector + vector end) * 1e3, "ms")
  end
end

ways[what]()
