--- train.fit{distributed = true}: the same bits for any number of ranks (spec/mpi/training.lua under mpirun), and, in
--- one process, against the same training written out.
local pn = require "penumbra"
local job = require "spec.mpi.job"
local nn, optim = pn.nn, pn.optim

local function bits(result) return result.code == 0 and result.out:match "bits: (%x+)" or error(result.out) end

local function script(...) return table.concat({ "spec/mpi/training.lua", ... }, " ") end

local function close(a, b, what)
  assert(math.abs(a - b) <= 1e-12 * (1 + math.abs(b)), ("%s: %.17g instead of %.17g"):format(what, a, b))
end

describe("train.fit by several ranks", function()
  if not job.possible then
    it("needs MPI", function() pending(job.why) end)
    return
  end

  it("gives the same bits by 1, 2 and 4 ranks, compiled and eager, and as one process", function()
    -- (some by the stock interpreter, which reads the modules where they lie)
    local results = job.run_all { { 1, script "plain" }, { 2, script "plain" }, { 4, script "plain", job.lua },
      { 3, script "eager" }, { 1, script "split" }, { 2, script "split" }, { 1, script "shards" },
      { 4, script "shards", job.lua } }
    local alone, code = job.alone(job.command .. " " .. script "plain")
    local plain = bits { out = alone, code = code }
    for k = 1, 4 do assert.equal(plain, bits(results[k])) end
    local split, shards = bits(results[5]), bits(results[7])
    assert.equal(split, bits(results[6]))
    assert.equal(shards, bits(results[8]))
    assert(split ~= plain and shards ~= plain) -- the ways are different ones
  end)

  it("goes on from rank 0's file on another number of ranks, also after a rank was killed", function()
    local first, second = os.tmpname(), os.tmpname()
    os.remove(first)
    os.remove(second)
    local before = job.run_all { { 2, script("half", first) }, { 4, script("killed", second) }, { 1, script "plain" } }
    local plain = bits(before[3])
    bits(before[1])
    assert(before[2].code ~= 0 and before[2].out:find "rank 3 .*signal 9", before[2].out)
    local after = job.run_all { { 4, script("plain", first) }, { 1, script("plain", second) } }
    for k = 1, 2 do assert.equal(plain, bits(after[k])) end
    os.remove(first)
    os.remove(second)
  end)

  -- Data, and a network that draws nothing and has no buffers.
  local N = 37
  local function made()
    pn.seed(5)
    local x, y = pn.randn { N, 3 }, pn.randn { N, 2 }
    return x, y, nn.mlp({ 3, 5, 2 }, { activation = "tanh" })
  end

  local function fitted(given)
    local x, y, net = made()
    local o = { data = { x, y }, optimiser = optim.sgd(net:parameters(), { lr = 0.1 }), epochs = 3, batch_size = 15,
      seed = 2, loss = function(a, b) return (net(a) - b):square():mean() end }
    for key, v in pairs(given) do o[key] = v end
    return pn.train.fit(o).history, net
  end

  it("weights shards of unequal rows as one batch does, in tree and fast", function()
    local want, plain = fitted {}
    for _, way in ipairs { { shards = 4 }, { shards = 40 }, {}, { reduce = "fast" } } do
      way.distributed = true
      local got, net = fitted(way)
      for k, loss in ipairs(want) do close(got[k], loss, "loss") end
      for k, w in ipairs(plain:parameters()) do
        close((w - net:parameters()[k]):abs():max():item(), 0, "parameter")
      end
    end
    local _, _, net = made()
    local list = net:parameters()
    fitted { distributed = true, optimiser = { -- one of Lua, without states that the library knows
      parameters = function() return list end, step = error,
      apply = function(_, slopes)
        for k, w in ipairs(list) do w:set(w:detach() - slopes[k] * 0.1) end
      end },
      loss = function(a, b) return (net(a) - b):square():mean() end }
    for k, w in ipairs(plain:parameters()) do close((w - list[k]):abs():max():item(), 0, "parameter") end
  end)

  it("reads rows of a file as it takes rows of a tensor", function()
    local x, y = made()
    local first, second = os.tmpname(), os.tmpname()
    assert(pn.data.save_npy(first, x) and pn.data.save_npy(second, y))
    local want = fitted { distributed = true }
    local a <close> = assert(pn.data.open(first))
    local b <close> = assert(pn.data.open(second))
    assert.same(want, fitted { distributed = true, data = { a, b } })
    os.remove(first)
    os.remove(second)
  end)

  it("trains on a file larger than its memory, to the same bits by any number of ranks", function()
    -- (make soak: 2 GB through 256 MiB)
    local way = os.getenv "PN_SOAK" and "" or " --quick"
    local folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir " .. folder)
    local said = {}
    for k, n in ipairs { 1, 2 } do
      local out, code = job.run(n, ("examples/17_beyond_memory.lua%s --data %s"):format(way, folder), nil, 1800)
      assert(code == 0, out)
      said[k] = assert(out:match "loss %S+ in %d+ steps; sum of the weights %S+", out) -- lines of progress have times
      for most in out:gmatch "(%d+) MiB in the process" do -- a sanitiser keeps more
        assert(os.getenv "SANITIZE" or tonumber(most) < 320, out)
      end
      assert(select(2, out:gsub("of tensors and Lua at most", "")) == n, out)
    end
    assert.equal(said[1], said[2])
    os.execute("rmdir " .. folder)
  end)

  it("makes a buffer the weighted mean of what each shard makes of it", function()
    pn.seed(6)
    local x = pn.randn { 7, 2 } * 3 + 1
    local norm, layer = nn.batch_norm(2), nn.linear(2, 1)
    local sgd = optim.sgd(nn.sequential { layer }:parameters(), { lr = 1e-9 })
    pn.train.fit { data = x, optimiser = sgd, epochs = 1, distributed = true, shards = 3,
      loss = function(a) return layer(norm(a)):square():mean() end, model = { norm, layer } }
    -- rows 1-2, 3-4 and 5-7; running statistics begin at 0 and 1, and move by 0.1; the variance is the unbiased one
    local mean, variance = pn.zeros { 2 }, pn.zeros { 2 }
    for _, rows in ipairs { { 1, 2 }, { 3, 4 }, { 5, 7 } } do
      local part = x:slice(1, rows[1], rows[2])
      local m = part:size(1)
      local centre = part:sum(1) / m
      mean = mean + centre * (m / 7)
      variance = variance + (part - centre):square():sum(1) / (m - 1) * (m / 7)
    end
    local found = {}
    for _, b in ipairs(pn.nn.sequential { norm }:named_buffers()) do found[b[1]:match "[^.]*$"] = b[2] end
    close((found.running_mean - mean * 0.1):abs():max():item(), 0, "running mean")
    close((found.running_var - (variance * 0.1 + 0.9)):abs():max():item(), 0, "running variance")
  end)

  it("draws by seed, step and shard, and leaves the generators alone", function()
    local generator, seen = pn.generator(9), {}
    local w = pn.param(pn.zeros { 1 })
    local function run(epochs)
      pn.seed(1)
      local before, own = pn.rng_state(), generator:state()
      local list = {}
      pn.train.fit { data = pn.zeros { 4, 1 }, optimiser = optim.sgd({ w }, { lr = 0 }), epochs = epochs, seed = 3,
        distributed = true, shards = 2, generator = generator, loss = function(a)
          local u, v = pn.rand { 1 }, pn.rand({ 1 }, { generator = generator })
          list[#list + 1] = ("%.17g %.17g"):format(u:item(), v:item())
          return (w * a):sum() + (u + v):sum() * 0
        end }
      assert.same(before, pn.rng_state())
      assert.same(own, generator:state())
      return list
    end
    local list = run(2)
    assert.same(list, run(2))
    for k = 2, #list do -- the first call looks for buffers, with the draws of its shard
      assert(not seen[list[k]], "two shards with the same draws")
      seen[list[k]] = true
    end
    assert.equal(5, #list)
  end)

  it("refuses what it cannot do, by name", function()
    local _, _, net = made()
    local function refused(pattern, given)
      local ok, message = pcall(fitted, given)
      assert(not ok and tostring(message):find(pattern), message)
    end
    refused("fit: shards is only used with distributed", { shards = 4 })
    refused("fit: reduce is only used with distributed", { reduce = "fast", distributed = false })
    refused("fit: reduce must be one of 'tree', 'fast', got 'mean'", { reduce = "mean", distributed = true })
    refused('shards is only used with reduce = "tree"', { reduce = "fast", shards = 2, distributed = true })
    refused("fit: shards must be a whole number from 1 on, got 0", { shards = 0, distributed = true })
    refused("fit: optimiser must be an optimiser with apply", { distributed = true,
      optimiser = optim.lbfgs(net:parameters()) })
    refused("fit: the loss is not finite: .*log", { distributed = true, loss = function(a)
      return (net(a) - 100):log():mean()
    end, optimiser = optim.sgd(net:parameters(), { lr = 0.1 }) })
    local out, code = job.run(2, [[-e 'local w = pn.param(pn.zeros { 1 })
      pn.train.fit { data = pn.zeros { 4 + pn.mpi.rank(), 1 }, optimiser = pn.optim.sgd({ w }, { lr = 1 }), epochs = 1,
        distributed = true, loss = function(a) return (a * w):mean() end }']])
    assert(code ~= 0 and out:find "fit: the ranks differ in rows: 4, and 5 on rank 1", out)
  end)
end)
