-- A pool: what is asked and told, refused, never seen; the same bits from a seed and from a file; where random loses.
local pn = require "penumbra"
local near = require("spec.helper").within
local active, nn = pn.active, pn.nn

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return (message:gsub("^[^:]+:%d+: ", ""))
end

local function long(list) return pn.tensor(list, { dtype = "int64" }) end

local data = pn.randn({ 120, 2 }, { generator = pn.generator(3) })
local classes = data:select(2, 1):gt(0):to "int64" + data:select(2, 2):gt(1):to "int64"

-- A small Bayesian network with a model around it, always the same.
local function network_model(o)
  local before = pn.rng_state()
  pn.seed(11)
  local net = nn.bayesian(nn.sequential { nn.linear(2, 8), nn.relu { rule = "clt" }, nn.linear(8, 3) })
  pn.set_rng_state(before)
  local opt = pn.optim.adam(net, { lr = 1e-2 })
  local given = { classes = 3, link = "probit", keep = { net = net, optimiser = opt }, fit = function(x, y)
    local t = pn.one_hot(y, 3):to "float64"
    for _ = 1, 4 do
      local order = pn.randperm(x:size(1)) -- of the default generator
      local m, v = net:moments(x:take(1, order))
      local z, t_now = m / (v + 1):sqrt(), t:take(1, order):slice(1, 1, math.min(7, x:size(1)))
      z = z:slice(1, 1, t_now:size(1))
      opt:step(-(t_now * z:log_ndtr() + (1 - t_now) * (-z):log_ndtr()):sum(2):mean() + net:kl() / x:size(1))
    end
  end }
  for name, v in pairs(o or {}) do given[name] = v end
  return active.network(net, given), net
end

local small = { "reinforced", ranked = 60, every = 4, points = 6, hidden = 5 }

local function network_pool(acquisition, o)
  local given = { x = data, model = network_model(), acquisition = acquisition, first = 6, count = 3, max_labels = 21,
    seed = 5 }
  for name, v in pairs(o or {}) do given[name] = v end
  return active.pool(given)
end

local function all(pool)
  local p, _, y = pool:labelled()
  return { p:totable(), y:totable(), pool.round, pool.refused, pool.reports,
    pool:predict(data):totable() }
end

-- A model whose predictions are fixed, [N, C] found by the first column of x.
local function table_model(p, o)
  local given = { classes = p:size(2), probabilities = function(x) return p:take(1, x:select(2, 1):to "int64") end }
  for name, v in pairs(o or {}) do given[name] = v end
  return active.predictor(given)
end

local function index_pool(p, o, more)
  local given = { x = pn.arange(p:size(1)):unsqueeze(2), model = table_model(p, more), seed = 2 }
  for name, v in pairs(o or {}) do given[name] = v end
  return active.pool(given)
end

describe("a pool", function()
  local p = (pn.randn({ 30, 3 }, { generator = pn.generator(1) }) * 2):softmax(-1)

  it("asks the same until it is told, takes labels in parts, and says what is left", function()
    local pool = index_pool(p, { first = 4, count = 3 })
    local first = pool:ask()
    assert.same(first:totable(), pool:ask():totable())
    assert.same({ left = 3 }, pool:tell({ 1 }, { first[3]:item() }))
    assert.same({ left = 1 }, pool:tell(long { 0, 0 }, first:slice(1, 1, 2)))
    assert.same(first:totable(), pool:ask():totable())
    local report = pool:tell({ 1 }, { first[4]:item() })
    assert.same({ left = 0, round = 0, refused = 0, labelled = 4, new = { 0, 1 }, unseen = { 2 } }, report)
    local positions, x, y = pool:labelled()
    assert.same(first:totable(), positions:totable())
    assert.same(first:totable(), x:select(2, 1):to("int64"):totable())
    assert.same({ 0, 0, 1, 1 }, y:totable())
  end)

  it("asks next for the largest entropy among what has no label", function()
    local pool = index_pool(p, { first = 4, count = 3, acquisition = "entropy" })
    local first = pool:ask()
    pool:tell { 0, 1, 2, 0 }
    local h = active.entropy(p)
    for _, at in ipairs(first:totable()) do h = pn.where(pn.arange(30):eq(at), -1, h) end
    assert.same(active.top(h, 3):totable(), pool:ask():totable())
    assert.equal("pool{30 data, round 1, 4 labels of 30, 0 refused}", tostring(pool))
  end)

  it("asks next by the smallest lead, the smallest largest probability, or the cover of the features", function()
    local list, where = p:totable(), { cos = {}, sin = {} }
    for k = 1, 30 do where.cos[k], where.sin[k] = math.cos(k * k), math.sin(k * k) end
    local function features(x)
      assert.is_true(x:size(1) <= 7) -- in blocks
      local at = x:select(2, 1):to "int64"
      return pn.stack({ pn.tensor(where.cos):take(1, at), pn.tensor(where.sin):take(1, at) }, 2)
    end
    local values = {}
    function values.margin(k)
      local row = table.move(list[k], 1, 3, 1, {})
      table.sort(row)
      return row[3] - row[2]
    end
    function values.variation_ratio(k) return math.max(table.unpack(list[k])) end
    for _, name in ipairs { "margin", "variation_ratio", "core_set" } do
      local pool = index_pool(p, { first = 4, count = 3, acquisition = name }, { features = features, batch_size = 7 })
      local known = pool:ask():totable()
      pool:tell({ 0, 1, 2, 0 })
      local got = pool:ask():totable()
      local labelled, order = {}, {}
      for _, k in ipairs(known) do labelled[k] = true end
      if name == "core_set" then -- always the farthest from all that are near already
        for j = 1, 3 do
          local far, best = -1, nil
          for k = 0, 29 do
            local nearest = math.huge
            for other in pairs(labelled) do
              nearest = math.min(nearest, (where.cos[k + 1] - where.cos[other + 1]) ^ 2
                + (where.sin[k + 1] - where.sin[other + 1]) ^ 2)
            end
            if nearest > far then far, best = nearest, k end
          end
          order[j], labelled[best] = best, true
        end
      else
        for k = 0, 29 do order[#order + 1] = not labelled[k] and k or nil end
        table.sort(order, function(a, b) return values[name](a + 1) < values[name](b + 1) end)
      end
      assert.same({ order[1], order[2], order[3] }, got, name)
    end
  end)

  it("reads entropies of probits as yes or no of each class, or as it is told", function()
    for _, kind in ipairs { false, "binary", "raw", "renormalised" } do
      local one = (pn.rand({ 30, 3 }, { generator = pn.generator(8) }) * 0.98) + 0.01 -- not laws of one class
      local pool = index_pool(one, { first = 4, acquisition = { "entropy", kind = kind or nil } }, { link = "probit" })
      local first = pool:ask():totable()
      pool:tell { 0, 1, 2, 0 }
      local h = active.entropy(one, { kind = kind or "binary" })
      for _, at in ipairs(first) do h = pn.where(pn.arange(30):eq(at), -1, h) end
      assert.same(active.top(h, 5):totable(), pool:ask():totable())
    end
  end)

  it("refuses labels that are none, and nothing is lost", function()
    local pool = index_pool(p, { first = 4 })
    assert.matches("^tell: nothing was asked for", message_of(pool.tell, pool, { 1 }))
    local asked = pool:ask():totable()
    pool:tell({ 2 }, { asked[1] })
    assert.matches("^tell: labels%[2%] must be a class from 0 to 2, or %-1 where it is refused, got 3",
      message_of(pool.tell, pool, { 1, 3, 0, 0 }))
    assert.matches("^tell: labels%[1%] must be a class", message_of(pool.tell, pool, { 0.5, 1, 0, 0 }))
    assert.matches("^tell: labels%[1%] must be a class", message_of(pool.tell, pool, { 0 / 0, 1, 0, 0 }))
    assert.matches("^tell: labels must be 4 whole numbers, an int64 tensor or a list, got 2",
      message_of(pool.tell, pool, { 0, 1 }))
    assert.matches("^tell: positions%[1%] must be one that was asked for, got %-3",
      message_of(pool.tell, pool, { 0 }, { -3 }))
    assert.same(asked, pool:ask():totable())
    assert.same({ left = 1 }, pool:tell({ 1, 1 }, { asked[2], asked[3] })) -- the first one's is still there
  end)

  it("sets aside what nobody can label, and does not count it", function()
    local pool = index_pool(p, { first = 4, count = 26, max_labels = 40 })
    local asked = pool:ask():totable()
    local report = pool:tell { 0, -1, 1, -1 }
    assert.equal(2, report.refused) assert.equal(2, report.labelled)
    assert.same({ asked[2], asked[4] }, pool.refused)
    for _, at in ipairs(pool:ask():totable()) do assert.truthy(at ~= asked[2] and at ~= asked[4]) end
    local rest = pool:ask():numel()
    assert.equal(26, rest)
    local none = {}
    for k = 1, rest do none[k] = -1 end
    assert.equal(2, pool:tell(none).labelled)
    local nothing, message, code = pool:ask()
    assert.is_nil(nothing)
    assert.equal("ask: the pool is dry: of 30 data 2 have a label, 28 were refused", message)
    assert.equal("missing", code)
    assert.equal(2, pool:labelled():numel())
  end)

  it("is not changed by what a script writes into it", function()
    local pool = index_pool(p, { first = 4, count = 3, acquisition = "random" })
    pool.count, pool.order, pool.labels, pool.free = -1, 7, nil, "none"
    pool:ask()
    pool:tell { 0, 1, 2, 0 }
    pool.refused[1], pool.seen[1], pool.reports[1] = 5, nil, "x"
    assert.equal(3, pool:ask():numel())
    assert.same({}, pool.refused)
    assert.equal(1, pool.seen[1])
    assert.equal(4, pool.reports[1].labelled)
    assert.matches("^ask: it must be called with a colon on a pool, as pool:ask, got table", message_of(pool.ask, {}))
  end)

  it("ends with its budget, to the label", function()
    local pool = index_pool(p, { first = 4, count = 3, max_labels = 9, acquisition = "random" })
    local counts = {}
    pool:run(pn.zeros({ 30 }, { dtype = "int64" }), { on_step = function(r) counts[#counts + 1] = r.labelled end })
    assert.same({ 4, 7, 9 }, counts)
    local _, message, code = pool:ask()
    assert.equal("ask: the budget of 9 labels is spent", message)
    assert.equal("limit", code)
    assert.same({ 1, 2 }, pool.reports[3].unseen)
  end)

  it("of 50 first and 70 rounds of 5 has 400 labels, each datum once, the same first ones for all", function()
    local q = (pn.randn { 500, 3 }):softmax(-1)
    local firsts = {}
    for _, name in ipairs { "random", "entropy", "thinned" } do
      local pool = index_pool(q, { first = 50, count = 5, max_labels = 400, acquisition = name })
      pool:run(pn.randint(0, 3, { 500 }))
      local positions = pool:labelled()
      assert.equal(400, positions:unique():numel())
      assert.equal(71, #pool.reports)
      firsts[#firsts + 1] = positions:slice(1, 1, 50):totable()
    end
    assert.same(firsts[1], firsts[2]) assert.same(firsts[1], firsts[3])
  end)

  it("ranks a random choice of the seed where that is asked for, and the rest when it is used up", function()
    local pool = index_pool(p, { first = 2, count = 4, candidates = 10 })
    pool:run(pn.randint(0, 3, { 30 }), { steps = 3 })
    local ten = pool:labelled():totable()
    local again = index_pool(p, { first = 10, candidates = 10 }):ask()
    table.sort(ten)
    assert.same(ten, pn.sort(again, 1):totable())
    pool:run(pn.randint(0, 3, { 30 }))
    assert.equal(30, pool:labelled():numel())
  end)

  it("begins with labels that are known", function()
    local y = pn.full({ 30 }, -1, { dtype = "int64" })
    y = y:scatter_add(1, long { 3, 8 }, long { 2, 3 })
    local fitted
    local pool = index_pool(p, { y = y, count = 2 }, { fit = function(_, labels) fitted = labels:totable() end })
    local asked = pool:ask():totable()
    assert.same({ 1, 2 }, fitted)
    assert.equal(2, #asked)
    assert.matches("^pool: first must be 1 or more", message_of(index_pool, p, { first = 0 }))
  end)

  it("keeps the labels when training fails, and trains again when it is asked", function()
    local fails, calls = true, 0
    local pool = index_pool(p, { first = 3, count = 2 }, { fit = function()
      calls = calls + 1
      if fails then error "out of order" end
    end })
    pool:ask()
    assert.matches("out of order", message_of(pool.tell, pool, { 0, 1, 2 }))
    assert.equal(3, pool:labelled():numel())
    fails = false
    assert.equal(2, pool:ask():numel())
    assert.equal(2, calls)
    assert.equal(1, pool.round)
  end)

  it("takes a function as acquisition, and says what it may give", function()
    local pool = index_pool(p, { first = 1, count = 2, acquisition = function(_, x) return -x:select(2, 1) end })
    local first = pool:ask():item()
    pool:tell { 0 }
    local want = first == 0 and { 1, 2 } or first == 1 and { 0, 2 } or { 0, 1 }
    assert.same(want, pool:ask():totable())
    local wrong = index_pool(p, { first = 1, acquisition = function() return 3 end })
    wrong:ask()
    wrong:tell { 0 }
    assert.matches("^ask: acquisition must give scores %[29%], got number", message_of(wrong.ask, wrong))
  end)

  it("refuses options by name, and models that cannot do what is asked", function()
    assert.matches("must be one of 'bald', 'batch_bald', .*got 'entropi', did you mean 'entropy'",
      message_of(index_pool, p, { acquisition = "entropi" }))
    assert.matches("^pool: every must be a whole number from 1 on, got 0",
      message_of(index_pool, p, { acquisition = { "thinned", every = 0 } }))
    for _, name in ipairs { "thinned", "entropy", "bald" } do
      assert.matches("^pool: kind must be one of 'renormalised', 'binary', 'raw', got 'row', did you mean 'raw'",
        message_of(index_pool, p, { acquisition = { name, kind = "row" } }))
    end
    assert.matches("^pool: unknown option 'evry', did you mean 'every'",
      message_of(index_pool, p, { acquisition = { "thinned", evry = 3 } }))
    assert.matches("^pool: model must be of pn.active.network", message_of(active.pool, { x = data, model = {} }))
    local pool = index_pool(p, { first = 3, acquisition = "batch_bald" })
    pool:ask()
    pool:tell { 0, 1, 2 }
    assert.matches("^ask: 'batch_bald' needs draws of the weights, which this model does not give",
      message_of(pool.ask, pool))
    local nan = index_pool(p * (0 / 0), { first = 3 })
    nan:ask()
    nan:tell { 0, 1, 2 }
    assert.matches("the model's probabilities must give numbers, got NaN", message_of(nan.ask, nan))
  end)
end)

describe("models", function()
  it("of nn.bayesian give draws that all data share, and by = 'draws' their mean", function()
    local model, net = network_model()
    local x = pn.concatenate({ data:slice(1, 1, 5), data:slice(1, 1, 5) }, 1)
    local draws = model:weight_draws(x, 6, pn.generator(1))
    assert.same(draws:slice(2, 1, 5):totable(), draws:slice(2, 6, 10):totable())
    assert.truthy(draws:std(1):min():item() > 1e-4)
    -- moments against draws: one hidden layer is exact in mean and variance of the outputs
    local m, v = model:moments(x)
    local list = {}
    for k = 1, 3000 do
      local values, g = {}, pn.generator(9):split(k)
      for _, name in ipairs(net.names) do values[name] = net:posterior(name):sample({}, g) end
      list[k] = require("penumbra.parameters").with(net.net, values)(x)
    end
    local f = pn.stack(list)
    assert.truthy(((f:mean(1) - m):abs() / (v / 3000):sqrt()):max():item() < 6)
    assert.truthy((f:var(1) / v - 1):abs():max():item() < 6 * math.sqrt(2 / 3000) * 2)
    local by_draws = active.network(net, { classes = 3, link = "probit", by = "draws", draws = 2000 })
    local d = by_draws:predict(x, pn.generator(3)) - model:predict(x)
    assert.truthy(d:abs():max():item() < 0.03)
  end)

  it("are posteriors of pn.nuts, too", function()
    local x = pn.randn { 40, 2 }
    local y = (x:matmul(pn.tensor { 3, -2 })):sigmoid():gt(pn.rand { 40 }):to "float64"
    local model = pn.model(function(m, a, b)
      local w = m:sample("w", pn.dist.normal(pn.zeros { 2 }, 2):independent(1))
      m:observe("y", pn.dist.bernoulli { logits = a:matmul(w) }, b)
    end)
    local p
    local by_draws = active.posterior(function() return p end, { classes = 2, draws = 60,
      probabilities = function(sites, a)
        local one = sites.w:matmul(a:t()):sigmoid()
        return pn.stack({ 1 - one, one }, 3)
      end,
      fit = function(a, b)
        p = pn.nuts(model, { data = { a, b:to "float64" }, chains = 1, warmup = 60, draws = 60, progress = false })
      end })
    local pool = active.pool { x = x, model = by_draws, acquisition = "batch_bald", first = 8, count = 2,
      max_labels = 12, seed = 1 }
    pool:run(y:to "int64")
    local w = p.draws.w:reshape { -1, 2 }
    local want = x:matmul(w:t()):sigmoid():mean(2) -- 60 draws of 60: all of them
    assert.truthy((pool:predict(x):select(2, 2) - want):abs():max():item() < 1e-12)
    assert.equal(12, pool:labelled():numel())
  end)

  it("are refused where they give what they should not", function()
    assert.matches("^predictor: one of probabilities, moments and weight_draws must be given",
      message_of(active.predictor, { classes = 2 }))
    assert.matches('^network: net must be of pn.nn.bayesian for by = "draws"',
      message_of(active.network, nn.linear(2, 2), { classes = 2, by = "draws" }))
    local wrong = active.predictor { classes = 2, probabilities = function(x) return x end }
    assert.matches("^predict: the model's probabilities must give floats %[120, 2%], got float64 %[120, 3%]",
      message_of(wrong.predict, wrong, pn.zeros { 120, 3 }))
    for _, got in ipairs { pn.zeros { 2, 5 }, pn.zeros { 3 } } do
      wrong = active.predictor { classes = 2, probabilities = function(x) return x end,
        features = function() return got end }
      local shape = table.concat(got:shape(), ", ")
      assert.matches("^features: the model's features must give %[3, D%], got %[" .. shape .. "%]",
        message_of(wrong.features, wrong, pn.zeros { 3, 2 }))
    end
  end)

  it("give features without a graph, though they be parameters", function()
    local table_of = pn.param(pn.arange(10):to "float64":reshape { 5, 2 })
    local p = active.predictor { classes = 2, probabilities = function(x) return x end,
      features = function() return table_of end }
    local got = p:features(pn.zeros { 5, 2 })
    assert.is_false(got:requires_grad())
    assert.same(table_of:totable(), got:totable())
    assert.is_true(table_of:requires_grad())
  end)
end)

describe("a run", function()
  local acquisitions = { "bald", { "batch_bald", draws = 8, outcomes = 9 }, "core_set", small, "thinned" }

  it("is the same to the bit from its seed, whatever else is drawn, and leaves the default generator alone", function()
    for _, acquisition in ipairs(acquisitions) do
      pn.seed(1)
      local one = all(network_pool(acquisition):run(classes))
      pn.seed(77)
      local state = pn.rng_state()
      local two = all(network_pool(acquisition):run(classes, { on_step = function() pn.randn { 3 } end }))
      assert.same(one, two)
      pn.set_rng_state(state)
      network_pool(acquisition):run(classes)
      assert.same(state, pn.rng_state())
    end
    assert.are_not.same(all(network_pool("random"):run(classes))[1],
      all(network_pool("random", { seed = 6 }):run(classes))[1])
  end)

  it("goes on from a file at any point, to the same bits", function()
    local path = os.tmpname()
    for _, acquisition in ipairs { "bald", small } do
      local want = all(network_pool(acquisition):run(classes))
      local pool = network_pool(acquisition)
      local function again()
        assert(pool:save(path))
        pool = assert(pn.restore(path, { x = data, model = network_model() }))
      end
      for _ = 1, 6 do
        again() -- before it asks
        local positions = pool:ask()
        again() -- before any label
        assert.same(positions:totable(), pool:ask():totable())
        local y = classes:take(1, positions)
        pool:tell(y:slice(1, 1, 1), positions:slice(1, 1, 1))
        again() -- with one of the labels
        pool:tell(y:slice(1, 2, -1), positions:slice(1, 2, -1))
      end
      assert.same(want, all(pool))
    end
    os.remove(path)
  end)

  it("goes on from a file to the same bits with a learner of pn.vbp", function()
    local x = pn.randn({ 60, 2 }, { generator = pn.generator(3) })
    local truth = (x:select(2, 1) + x:select(2, 2)):gt(0):to "int64"
    local function model()
      local m = pn.vbp.learner { network = pn.nn.mlp({ 2, 8, 2 }, { activation = "relu" }), likelihood = "probit",
        seed = 1 }
      local opt = pn.optim.adam(m:parameters(), { lr = 0.02 })
      return pn.active.predictor { classes = 2, link = "probit", moments = function(a) return m:moments(a) end,
        fit = function(a, y, round)
          m:fit { data = { a, y }, epochs = 20, batch_size = 10, optimiser = opt, seed = round.seed }
        end, keep = { learner = m, optimiser = opt } }, m
    end
    local function pool_of(p)
      return active.pool { x = x, model = p, acquisition = "bald", first = 6, count = 3, max_labels = 18, seed = 2 }
    end
    local first, one = model()
    local whole = pool_of(first):run(truth)
    local part, path = pool_of((model())), os.tmpname()
    part:tell(truth:take(1, part:ask()))
    part:ask()
    assert(part:save(path))
    local second, two = model()
    local again = assert(pn.restore(path, { x = x, model = second })):run(truth)
    os.remove(path)
    assert.same((whole:labelled()):totable(), (again:labelled()):totable())
    assert.is_true((one:moments(x)):eq((two:moments(x))):all():item())
    assert(whole:predict(x):argmax(2):eq(truth):to("float64"):mean():item() > 0.85)
  end)

  it("goes on from a file that was written where training had failed", function()
    local path = os.tmpname()
    local want = all(network_pool(small):run(classes))
    local pool = network_pool(small)
    pool:run(classes, { steps = 2 })
    local positions = pool:ask()
    local has = require("penumbra.active.pool").inner(pool).model.has
    local real = has.fit
    has.fit = function() error "stopped" end
    assert.matches("stopped", message_of(pool.tell, pool, classes:take(1, positions)))
    assert(pool:save(path))
    has.fit = real
    pool = assert(pn.restore(path, { x = data, model = network_model() }))
    assert.same(want, all(pool:run(classes)))
    os.remove(path)
  end)

  it("keeps its request where the prediction before training fails", function()
    local want = all(network_pool(small):run(classes))
    local pool = network_pool(small)
    pool:run(classes, { steps = 2 })
    local positions = pool:ask()
    local has = require("penumbra.active.pool").inner(pool).model.has
    local real = has.moments
    has.moments = function() error "no network" end
    assert.matches("no network", message_of(pool.tell, pool, classes:take(1, positions)))
    has.moments = real
    assert.same(positions:totable(), pool:ask():totable())
    assert.same(want, all(pool:run(classes)))
  end)

  it("is refused with other data, another model or a file that is none", function()
    local path = os.tmpname()
    assert(network_pool(small):save(path))
    assert.matches("^restore: x must be the data of", message_of(pn.restore, path,
      { x = data + 1, model = network_model() }))
    local _, message = pn.restore(path, { x = data, model = table_model(pn.ones { 120, 2 } / 2) })
    assert.matches("does not fit: 'classes' must be a whole number from 2 to 2", message)
    assert(pn.save(path, { kind = "active pool" }))
    local nothing, why, code = pn.restore(path, { x = data, model = network_model() })
    assert.is_nil(nothing)
    assert.equal("format", code, why)
    os.remove(path)
    -- numbers at the ends of what they may be, and just outside
    local checkpoint = require "penumbra.checkpoint"
    local q = (pn.randn({ 120, 3 }, { generator = pn.generator(1) }) * 2):softmax(-1)
    local pool = index_pool(q, { first = 4, count = 3 })
    pool:ask()
    pool:tell { 0, 1, 2, 0 }
    assert(pool:save(path))
    local function restored(change)
      local found = assert(checkpoint.load(path))
      change(found, found.reports[1])
      local other = os.tmpname()
      assert(checkpoint.save(other, found))
      local ok, again, text = pcall(pn.restore, other, { x = pn.arange(120):unsqueeze(2), model = table_model(q) })
      os.remove(other)
      return ok and again ~= nil and again ~= false, not ok and again or text
    end
    local function set(place, name, value) return function(found, report)
      (place == "report" and report or place == "options" and found.options or found)[name] = value
    end end
    for _, case in ipairs { { "report", "left", 0, -1, 1 }, { "report", "labelled", 120, -1, 121 },
      { "report", "refused", 120, -1, 121 }, { "report", "round", 0, -1, 0.5 },
      { "report", "new", { 2 }, { -1 }, { 3 } }, { "report", "unseen", { 0, 2 }, { 3 }, { 0.5 } },
      { "pool", "round", 1, -1, 1.5 },
      { "options", "count", 1, 0, 1.5 }, { "options", "first", 0, -1, 0.5 }, { "options", "max_labels", 1, 0, "1" },
      { "options", "candidates", 1, 0, 1.5 }, { "options", "seed", 0, -1, 0.5 } } do
      local what = case[1] .. "." .. case[2]
      local fine, text = restored(set(case[1], case[2], case[3]))
      assert(fine, what .. ": " .. tostring(text))
      for k = 4, 5 do assert.is_false((restored(set(case[1], case[2], case[k]))), what .. " " .. k) end
    end
    pool:ask()
    assert(pool:save(path))
    for place, fine in pairs { [119] = true, [120] = false } do -- the last datum, and one behind it
      local ok, text = restored(function(found)
        local positions = found.asked.positions:totable()
        positions[#positions] = place
        found.asked.positions = pn.tensor(positions, { dtype = "int64" })
      end)
      assert.equal(fine, ok)
      assert(fine or tostring(text):find "asked.positions", text)
    end
    os.remove(path)
    assert.same({ nil, nil, "io" }, { pn.restore(path, { x = data, model = network_model() }), nil,
      (select(3, pn.restore(path, { x = data, model = network_model() }))) })
  end)
end)

-- Thresholds k = 0 .. N on a line of N data: datum i is of class 1 where i >= k, no noise, every k as probable. What is
-- known is an interval low < k <= high; class 1 where more than half of it says so. The Bayes error is 0.
local N, TRUTH <const> = 400, 394

local function threshold_pool(acquisition, seed)
  local low, high = -1, N
  local function indices(x) return x:select(2, 1) end
  local model = active.predictor { classes = 2,
    probabilities = function(x)
      local one = ((indices(x) - low) / (high - low)):clamp(0, 1)
      return pn.stack({ 1 - one, one }, 2)
    end,
    weight_draws = function(x, n)
      local k = (pn.arange(n) * ((high - low) / n)):floor() + low + 1
      local one = indices(x):unsqueeze(1):ge(k:unsqueeze(2)):to "float64"
      return pn.stack({ 1 - one, one }, 3)
    end,
    fit = function(x, y)
      local i = indices(x)
      low = math.max(-1, (pn.where(y:eq(0), i, -1)):max():item())
      high = math.min(N, (pn.where(y:eq(1), i, N)):min():item())
    end }
  local x = pn.arange(N):unsqueeze(2)
  local pool = active.pool { x = x, model = model, acquisition = acquisition, first = 1, count = 1, max_labels = 12,
    seed = seed }
  local truth = pn.arange(N):ge(TRUTH):to "int64"
  pool:run(truth)
  return pool:predict(x):argmax(2):ne(truth):sum():item()
end

describe("a pool with a rare class", function()
  -- The exact mean number of errors after n labels at random: over the largest labelled i below the threshold and the
  -- smallest above, hypergeometric.
  local function exact_random(n)
    local function log_choose(a, b)
      if b < 0 or b > a then return -math.huge end
      return (pn.tensor(a + 1):lgamma() - pn.tensor(b + 1):lgamma() - pn.tensor(a - b + 1):lgamma()):item()
    end
    local total, all_of_them, mass = 0, log_choose(N, n), 0
    for low = -1, TRUTH - 1 do
      for high = TRUTH, N do
        local ends = (low >= 0 and 1 or 0) + (high < N and 1 or 0)
        local free = (low >= 0 and low or 0) + (high < N and N - 1 - high or 0)
        local p = math.exp(log_choose(free, n - ends) - all_of_them)
        local first = low + (high - low) // 2 + 1 -- the first i with (i - low) / (high - low) > 1/2
        total, mass = total + p * math.abs(first - TRUTH), mass + p
      end
    end
    near(1, mass, 1e-9)
    return total
  end

  it("is learned without error by 12 labels of BALD, while random provably makes many", function()
    local want, errors = exact_random(12), {}
    for seed = 1, 40 do
      errors[seed] = threshold_pool("random", seed)
      if seed <= 5 then
        assert.equal(0, threshold_pool({ "bald", draws = 401 }, seed))
        assert.equal(0, threshold_pool({ "batch_bald", draws = 401 }, seed))
      end
    end
    local e = pn.tensor(errors):to "float64"
    local se = e:std():item() / math.sqrt(40)
    near(want, e:mean():item(), 6 * se)
    assert.truthy(want > 5 and want - 6 * se > 0, ("%g +- %g"):format(want, se))
  end)
end)
