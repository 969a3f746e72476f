-- Runs that are broken off and go on: the oracle is the run that was never broken.
local core = require "penumbra.core"
local pn = require "penumbra"
local nn, optim, train = pn.nn, pn.optim, pn.train

local build = os.getenv "BUILD" or "build"
local path = os.tmpname()

teardown(function() os.remove(path) end)

-- A network with noise in its layers, so that generators count, too; the same in each process.
local function problem(more)
  pn.seed(5)
  local x = pn.randn { 120, 3 }
  local y = x:matmul(pn.randn { 3, 1 }) + pn.randn { 120, 1 } * 0.1
  local net = nn.sequential { nn.bayes_linear(3, 6), nn.tanh(), nn.linear(6, 1) }
  local opt = optim.adam(net:parameters(), { lr = 1e-2 })
  local o = { data = { x, y }, model = net, optimiser = opt, batch_size = 16, epochs = 6, split = 0.2, patience = 4,
    loss = function(a, b) return (net(a) - b):square():mean() end }
  for key, value in pairs(more or {}) do o[key] = value end
  return o, net
end

local function assert_same(a, net_a, b, net_b)
  assert.same(a.history, b.history)
  assert.same(a.scores, b.scores)
  assert.equal(a.step, b.step)
  assert.equal(a.best_epoch, b.best_epoch)
  local state = net_b:state()
  for name, v in pairs(net_a:state()) do
    assert.is_true(v:eq(state[name]):all():item(), name)
  end
end

-- Breaks a run off by `stop`, options that make fit end early, and goes on with another default generator.
local function broken(more, stop)
  os.remove(path)
  local o = problem(more)
  o.checkpoint = path
  for key, value in pairs(stop) do o[key] = value end
  local ok = pcall(train.fit, o)
  local b, net = problem(more)
  b.checkpoint, b.resume = path, true
  pn.seed(99)
  return train.fit(b), net, ok
end

describe("a run that goes on", function()
  it("after 3 of 6 epochs gives the same bits as 6, eager and compiled", function()
    for _, compile in ipairs { false, true } do
      local o, net = problem { compile = compile }
      local whole = train.fit(o)
      local rest, other, ok = broken({ compile = compile }, { epochs = 3 })
      assert.is_true(ok)
      assert.equal(6, #rest.history)
      assert_same(whole, net, rest, other)
    end
  end)

  it("after an error in the middle of an epoch gives the same bits", function()
    local rate = function() return 1e-2 end
    local o, net = problem { schedule = rate }
    local whole = train.fit(o)
    local rest, other, ok = broken({ schedule = rate }, { schedule = function(step)
      return step < 15 and 1e-2 or error "enough"
    end })
    assert.is_false(ok)
    assert_same(whole, net, rest, other)
  end)

  it("after an error in on_epoch, between two epochs, gives the same bits", function()
    local o, net = problem()
    local whole = train.fit(o)
    local rest, other, ok = broken({}, { on_epoch = function(s) assert(s.epoch < 4) end })
    assert.is_false(ok)
    assert_same(whole, net, rest, other)
  end)

  it("takes the rate and the generator of the file", function()
    local function with(more)
      more.generator = pn.generator(8)
      more.loss = nil
      local o, net = problem(more)
      o.loss = function(a, b)
        return (net(a) - b + pn.randn(b:shape(), { generator = o.generator }) * 0.1):square():mean()
      end
      o.on_epoch = function(s) o.optimiser.lr = 0.01 / s.epoch end
      return o, net
    end
    local o, net = with {}
    local whole = train.fit(o)
    os.remove(path)
    local a = with { epochs = 2, checkpoint = path }
    train.fit(a)
    local b, other = with { checkpoint = path, resume = true }
    local rest = train.fit(b)
    assert_same(whole, net, rest, other)
    assert.equal(0.01 / 6, b.optimiser.lr)
  end)

  it("begins where there is no file, and stays stopped where it had stopped", function()
    os.remove(path)
    local o = problem { checkpoint = path, resume = true, on_epoch = function(s) return s.epoch < 3 end }
    assert.equal(3, train.fit(o).epoch)
    local again = problem { checkpoint = path, resume = true }
    local s = train.fit(again)
    assert.equal(3, s.epoch)
    assert.is_true(s.stopped)
  end)

  it("refuses a file that is no run, or of another one, at the script's line", function()
    local function message(o)
      local ok, text = pcall(function() return train.fit(o), nil end)
      assert.is_false(ok)
      return text
    end
    assert(pn.save(path, { a = pn.zeros { 2 } }))
    assert.matches("^spec/train/resume_spec.lua:%d+: fit: resume: '.*' holds no training run$",
      message((problem { checkpoint = path, resume = true })))
    assert(pn.save(path, { kind = "training run", net = {} }))
    assert.matches("fit: resume: '.*' was written by an earlier version$",
      message((problem { checkpoint = path, resume = true })))
    local other = problem { checkpoint = path, epochs = 1 }
    other.optimiser = pn.optim.sgd(other.model, { lr = 0.1 })
    train.fit(other)
    assert.matches("'optimiser': .* must be sgd as in the file, got adam",
      message((problem { checkpoint = path, resume = true })))
    local file = assert(io.open(path, "wb"))
    file:write "rubbish rubbish rubbish"
    file:close()
    assert.matches("fit: resume: .*file '.*' ", message((problem { checkpoint = path, resume = true })))
    os.remove(path)
    train.fit((problem { checkpoint = path, epochs = 1, seed = 4 }))
    assert.matches("had seed 4, got 5", message((problem { checkpoint = path, resume = true, seed = 5 })))
    assert.matches("had batch_size 16, got 17", message((problem { checkpoint = path, resume = true,
      batch_size = 17 })))
    local o = problem { checkpoint = path, resume = true }
    o.data = { o.data[1]:slice(1, 1, 100), o.data[2]:slice(1, 1, 100) }
    assert.matches("had rows 120, got 100", message(o))
    local folder = path .. ".none/x"
    assert.matches("fit: checkpoint: .*cannot be", message((problem { checkpoint = folder, epochs = 1 })))
  end)

  it("refuses options that have nothing to serve", function()
    for name, value in pairs { resume = true, checkpoint_every = 2, seed = -1, split = 1, patience = 3 } do
      local o = problem { [name] = value }
      o.split = name == "split" and 1 or nil
      o.patience, o.model = name == "patience" and 3 or nil, nil
      local ok, text = pcall(train.fit, o)
      assert.is_false(ok)
      assert.matches("fit: " .. name, text)
    end
    local o = problem { resume = false } -- asks for nothing
    assert.equal(o.epochs, train.fit(o).epoch)
  end)
end)

describe("the rows of a run", function()
  it("come in an order that depends on seed and epoch alone", function()
    local function orders(more)
      local x = pn.arange(20):to "float64"
      local w = pn.param(pn.zeros {})
      local seen = {}
      local o = { data = x, optimiser = optim.sgd({ w }, { lr = 0.1 }), epochs = 3, batch_size = 6, seed = 3,
        loss = function(t)
          seen[#seen + 1] = table.concat(t:totable(), " ")
          return w * 1
        end }
      for key, value in pairs(more) do o[key] = value end
      train.fit(o)
      return seen
    end
    local a = orders {}
    pn.rand { 100 }
    assert.same(a, orders {})
    assert.not_same(a, orders { seed = 4 })
    assert.equal(12, #a)
    for epoch = 0, 2 do -- each row once
      local rows = {}
      for k = 1, 4 do
        for v in a[4 * epoch + k]:gmatch "%S+" do rows[#rows + 1] = tonumber(v) end
      end
      table.sort(rows)
      for i = 1, 20 do assert.equal(i - 1, rows[i]) end
    end
    assert.not_equal(a[1], a[5])
    local kept = orders { split = 0.25, validate = function(_, t)
      assert.equal(5, t:size(1))
      return t:sum():item()
    end }
    assert.equal(9, #kept)
  end)
end)

describe("an interruption", function()
  local script = [[
    local pn = require "penumbra"
    local path, ready = arg[1], arg[2]
    pn.seed(1)
    local x = pn.randn { 600, 20 }
    local y = pn.randn { 600, 1 }
    local net = pn.nn.sequential { pn.nn.bayes_linear(20, 40), pn.nn.tanh(), pn.nn.linear(40, 1) }
    local o = { data = { x, y }, model = net, optimiser = pn.optim.adam(net), batch_size = 4, epochs = 40,
      checkpoint = path, checkpoint_every = 1000, resume = arg[3] == "resume", seed = 2,
      loss = function(a, b) return (net(a) - b):square():mean() end }
    if ready then
      o.on_epoch = function(s)
        if s.epoch == 3 then io.open(ready, "w"):close() end
      end
    end
    local s = pn.train.fit(o)
    print(("%a %d %a"):format(s.loss, s.step, net:state()["1.weight.loc"]
      and net:state()["1.weight.loc"]:sum():item() or 0))
  ]]

  it("leaves a checkpoint, from which the run goes on to the same bits", function()
    local name, ready = os.tmpname(), os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write(script)
    file:close()
    local command = build .. "/penumbra"
    local function run(...)
      local pipe = io.popen(("%s %s %s"):format(command, name, table.concat({ ... }, " ")))
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    os.remove(path)
    local whole = run(path)
    os.remove(path)
    os.remove(ready)
    local _, _, code = os.execute(([[%s %s %s %s >/dev/null 2>%s.err & pid=$!
      n=0; while [ ! -e %s ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
      kill -INT $pid; wait $pid]]):format(command, name, path, ready, ready, ready))
    local err = assert(io.open(ready .. ".err")):read "a"
    assert.not_equal(0, code)
    assert.matches("interrupted", err)
    local saved = assert(pn.load(path))
    assert.is_true(saved.epoch >= 3 and saved.epoch < 40)
    assert.equal(whole, run(path, "''", "resume"))
    for _, f in ipairs { name, ready, ready .. ".err" } do os.remove(f) end
  end)

  it("is held off where work is brought to safety, in the command alone", function()
    assert.is_nil(core.sheltered)
  end)
end)
