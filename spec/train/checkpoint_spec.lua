-- Checkpoints: a run that is interrupted goes on to the same bits; everything comes back into live objects or plainly;
-- what does not fit changes nothing; damaged files are refused by name.
local pn = require "penumbra"
local nn, optim, dist, checkpoint = pn.nn, pn.optim, pn.dist, pn.checkpoint

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

local function bits(t) return t:detach():reshape{t:numel()}:totable() end

-- A run of all kinds of things.
local function make(seed)
  pn.seed(seed)
  local r = { net = nn.sequential{nn.linear(3, 4), nn.tanh(), nn.linear(4, 1)}, generator = pn.generator(seed) }
  r.flow = dist.transformed(dist.normal(pn.param(pn.zeros{1}), 1), dist.bijector.affine(pn.param(pn.ones{1}), 2))
  r.guide = { dist.normal(pn.param(pn.ones{2}), pn.param(pn.ones{2})), ["odd.name"] = pn.param(pn.ones{2}) }
  r.optimiser = optim.adam(r.net, {lr = 0.01})
  r.noisy = optim.sgld(r.guide, {lr = 1e-3})
  r.mean = optim.average(r.net)
  r.plateau = optim.plateau(0.01, {patience = 0})
  return r
end

local function live(r)
  return { net = r.net, generator = r.generator, flow = r.flow, guide = r.guide, optimiser = r.optimiser,
    noisy = r.noisy, mean = r.mean, plateau = r.plateau }
end

-- Some steps; a list of every number that came up.
local function go_on(r, steps)
  local seen = {}
  for _ = 1, steps do
    local x = pn.randn({5, 3}, {generator = r.generator})
    local loss = (r.net(x) - x:sum(2, true)):square():mean()
    seen[#seen + 1] = r.optimiser:step(loss)
    seen[#seen + 1] = r.noisy:step(r.guide[1].loc:square():sum() + r.guide["odd.name"]:square():sum()
      + (r.guide[1]:variance() - 1):square():sum())
    r.mean:update()
    r.optimiser.lr = r.plateau:step(seen[#seen - 1])
  end
  for _, holder in ipairs{r.net, r.flow, r.guide} do
    for _, w in ipairs(require "penumbra.parameters".list(holder)) do
      for _, v in ipairs(bits(w)) do seen[#seen + 1] = v end
    end
  end
  seen[#seen + 1] = r.optimiser.lr
  return seen
end

describe("a checkpoint", function()
  it("lets a run go on to the same bits, default generator and learning rate among them", function()
    local r = make(1)
    go_on(r, 5)
    local contents = live(r)
    contents.epoch, contents.notes = 3, "a\0b \"c\" \255"
    contents.history = { 0.1, 1 / 3, { deep = true } }
    assert(checkpoint.save(path, contents))
    local want = go_on(r, 5)
    local other = make(99)
    local w = other.net:parameters()[1]
    local saved = assert(checkpoint.load(path, live(other)))
    assert.are.equal(3, saved.epoch)
    assert.are.equal("a\0b \"c\" \255", saved.notes)
    assert.are.same({ 0.1, 1 / 3, { deep = true } }, saved.history)
    assert.are.equal(other.net, saved.net)
    assert.are.equal(w, other.net:parameters()[1])
    assert.are.same(want, go_on(other, 5))
  end)

  it("holds any number of tables beside each other, a hundred within each other, and none within itself", function()
    local one, many, deep = { 7 }, {}, { 1 }
    for k = 1, 150 do many[k] = { k, one } end
    assert(checkpoint.save(path, { many = many }))
    assert.are.same({ many = many }, (checkpoint.load(path)))
    for _ = 1, 98 do deep = { deep } end
    assert(checkpoint.save(path, { deep = deep })) -- which makes a hundred
    assert.are.same({ deep = deep }, (checkpoint.load(path)))
    one[2] = many
    for _, contents in ipairs { { deep = { deep } }, { many = many } } do
      local ok, message = pcall(checkpoint.save, path, contents)
      assert.is_false(ok)
      assert.matches("contains itself, or is nested more than 100 deep", message)
    end
  end)

  it("gives states and plain values without live objects, which pn.load reads too", function()
    local r = make(2)
    go_on(r, 1)
    local best = { score = 0.5, at = pn.tensor{1, 2} }
    assert(checkpoint.save(path, { net = r.net, best = best, prior = dist.normal(0, 2) }))
    local saved = assert(checkpoint.load(path))
    assert.are.same(bits(r.net:parameters()[1]), bits(saved.net["1.weight"]))
    assert.are.equal(0.5, saved.best.score)
    assert.are.same({1, 2}, saved.best.at:totable())
    assert.are.equal(2, saved.prior:stddev():item())
    local flat = assert(pn.load(path, {nested = false}))
    assert.is_true(flat["net.1.weight"] ~= nil)
    local fresh = make(3)
    fresh.net:load_state(saved.net)
    assert.are.same(bits(r.net:parameters()[1]), bits(fresh.net:parameters()[1]))
  end)

  it("keeps every kind of optimiser", function()
    for _, row in ipairs(pn.rows()) do
      if row.kind == "optimiser" then
        local function run(w, opt, steps)
          for _ = 1, steps do opt:step((w - pn.tensor{1, 2}):square():sum()) end
          return bits(w)
        end
        pn.seed(1)
        local w = pn.param(pn.zeros{2})
        local opt = optim[row.name]({w}, {lr = 0.02})
        run(w, opt, 3)
        opt.lr = 0.01
        assert(checkpoint.save(path, {w = w, optimiser = opt}))
        local want = run(w, opt, 4)
        local v = pn.param(pn.ones{2})
        local other = optim[row.name]{v}
        assert(checkpoint.load(path, {w = v, optimiser = other}))
        assert.are.same(want, run(v, other, 4), row.name)
      end
    end
    local w = pn.param(pn.zeros{2})
    local opt = optim.lbfgs({w}, {max_steps = 1})
    local function f() return (w - pn.tensor{1, 2}):square():square():sum() end
    for _ = 1, 3 do opt:step(f) end
    assert(checkpoint.save(path, {w = w, optimiser = opt}))
    opt:step(f)
    local want = bits(w)
    local again = optim.lbfgs({w}, {max_steps = 1})
    assert(checkpoint.load(path, {w = w, optimiser = again}))
    again:step(f)
    assert.are.same(want, bits(w))
  end)

  it("changes nothing when something does not fit, and says what", function()
    local r = make(4)
    go_on(r, 2)
    assert(checkpoint.save(path, live(r)))
    local function refused(pattern, change)
      local other = make(5)
      go_on(other, 1)
      local into = live(other)
      change(into, other)
      local before, position, rate = bits(other.net:parameters()[1]), pn.rng_state(), other.optimiser.lr
      local state = other.generator:state()
      local ok, message = pcall(checkpoint.load, path, into)
      assert.is_false(ok)
      assert.matches(pattern, message)
      assert.are.same(before, bits(other.net:parameters()[1]))
      assert.are.same(position, pn.rng_state())
      assert.are.same(state, other.generator:state())
      assert.are.equal(rate, other.optimiser.lr)
    end
    refused("'optimiser': load_state: optimiser must be adam as in the file, got sgd", function(into, o)
      into.optimiser = optim.sgd(o.net)
    end)
    refused("'noisy': load_state: 'step' must have shape", function(into)
      into.noisy = optim.sgld(nn.linear(2, 2))
    end)
    refused("'net': load_state: .*is missing", function(into) into.net = nn.linear(7, 7) end)
    refused("'more' is not in the file", function(into) into.more = nn.linear(2, 2) end)
    refused("'plateau' must be", function(into) into.plateau = pn.generator(1) end)
    refused("'guide.odd.name'", function(into) into.guide["odd.name"] = pn.param(pn.ones{3}) end)
    refused("'net' must be something that can be loaded into, got number", function(into) into.net = 3 end)
  end)

  it("refuses to save what it cannot, by name", function()
    assert.has_error(function() checkpoint.save(path, { a = { f = print } }) end)
    local t = {}
    t.t = t
    assert.has_error(function() checkpoint.save(path, t) end)
    assert.has_error(function() checkpoint.save(path, nn.linear(2, 2)) end)
    assert.has_error(function() checkpoint.save(path, {["penumbra.checkpoint"] = 1}) end,
      "checkpoint.save: the name 'penumbra.checkpoint' is taken")
  end)

  it("in a file that is cut, changed in its header, missing or something else gives nil and says why", function()
    local r = make(6)
    assert(checkpoint.save(path, live(r)))
    local file = assert(io.open(path, "rb"))
    local text = file:read "a"
    file:close()
    local function with(changed)
      local out = assert(io.open(path, "wb"))
      out:write(changed)
      out:close()
      return checkpoint.load(path, live(make(7)))
    end
    for _, size in ipairs{0, 7, 9, 200, #text // 2, #text - 1} do
      local got, message = with(text:sub(1, size))
      assert.is_nil(got)
      assert.is_string(message)
    end
    local got, message, code = with((text:gsub("kinds", "kimds", 1)))
    assert.is_nil(got)
    assert.matches("no checkpoint", message)
    assert.are.equal("format", code)
    assert(pn.save(path, {x = pn.ones(2)}))
    assert.matches("no checkpoint", select(2, checkpoint.load(path)))
    assert.is_nil((checkpoint.load(path .. ".missing")))
  end)

  it("leaves the default generator where it is if asked to", function()
    pn.seed(1)
    assert(checkpoint.save(path, {x = 1}))
    pn.seed(2)
    local state = pn.rng_state()
    assert(checkpoint.load(path, {}, {default_generator = false}))
    assert.are.same(state, pn.rng_state())
    assert(checkpoint.load(path, {}))
    assert.are_not.same(state, pn.rng_state())
  end)
end)
