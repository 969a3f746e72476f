-- A run of train.fit by several ranks, run by training_spec.lua: prints, on rank 0, every bit of what was trained.
--   training.lua WAY [FILE]      ways below; FILE: the checkpoint
local pn = require "penumbra"
local mpi = pn.mpi
local nn, optim = pn.nn, pn.optim
local way, file = arg[1], arg[2]
local rank = mpi.rank()
pn.threads(1)
pn.seed(3)
local N = 66 -- batches of 24, 24 and 18 rows for 8 shards
local x, y = pn.randn { N, 4 }, pn.randn { N, 1 }
pn.seed(7 + rank) -- what ranks begin with differs: rank 0's counts
local net = nn.sequential { nn.linear(4, 8), nn.batch_norm(8), nn.tanh(), nn.dropout(0.3), nn.linear(8, 1) }
local generator = pn.generator(100 + rank)
local opt = optim.adam(net:parameters(), { lr = 0.05 })
for _ = 0, rank do opt:step(net(x):square():mean()) end -- and the optimiser's state
local epochs = way == "half" and 2 or 4
local options = {
  data = { x, y }, optimiser = opt, epochs = epochs, batch_size = 24, model = net, generator = generator,
  distributed = true, compile = way ~= "eager", split = way == "split" and 0.3 or nil,
  validate_every = way == "split" and 1 or nil, reduce = way == "fast" and "fast" or nil,
  shards = way == "shards" and 5 or nil, checkpoint = file, resume = file and way ~= "half" and true or nil,
  loss = function(a, b)
    local noise = pn.randn({ a:size(1), 1 }, { generator = generator }) * 0.1
    return (net(a) + noise - b):square():mean()
  end,
}
if file then
  options.checkpoint_every = 1
end
if way == "killed" then
  options.on_epoch = function(run)
    if run.epoch == 3 and rank == mpi.size() - 1 then
      os.execute "kill -9 $PPID"
    end
  end
end
local run = pn.train.fit(options)
local bytes = {}
local function put(t)
  for _, v in ipairs(t:reshape { t:numel() }:totable()) do bytes[#bytes + 1] = ("<d"):pack(v) end
end
for _, w in ipairs(net:parameters()) do put(w) end
for _, b in ipairs(net:named_buffers()) do put(b[2]) end
for _, loss in ipairs(run.history) do bytes[#bytes + 1] = ("<d"):pack(loss) end
bytes[#bytes + 1] = ("<d"):pack(run.score or 0)
put(pn.randn({ 1 }, { generator = generator }))
local text = table.concat(bytes):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
for r, other in ipairs(mpi.all_gather_values(text)) do
  assert(other == text, "rank " .. r - 1 .. " ended elsewhere")
end
if rank == 0 then
  print(run)
  print("bits: " .. text)
end
