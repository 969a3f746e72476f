-- What all forecasters share: batches and their errors, padding, scales, training and its resumption, beliefs, files.
-- Each model is one row of `kinds` and runs through all of it.
local pn = require "penumbra"
local core = require "penumbra.core"
local message_of = require("spec.helper").message_of

local int64 = { dtype = "int64" }

local function switching(size)
  return { size = size, states = 3, switches = 2, base = 2, hidden = { 4 }, transition_hidden = 4, num_particles = 3,
    encoder = { 4 } }
end

-- name -> options of a small model of one or two observed variables; `random`: filtering draws, `particles` step by
-- step, the others so that a filter and updates one by one agree in law alone; `single`: of one variable alone
local kinds = {
  deepar = { options = function(size) return { size = size, hidden = 5, layers = 2 } end },
  kvae = { random = true, options = function(size)
    return { size = size, latent = 2, state = 3, base = 2, units = 4, hidden = { 5 }, belief_draws = 2 }
  end },
  deep_state = { options = function(size)
    return { size = size, hidden = 4, trend = true, seasonal = { 3, { period = 2, every = 3 } }, offset = true }
  end },
  sgls = { random = true, particles = true, options = switching },
  rsgls = { random = true, particles = true, options = switching },
  rsgls_issm = { random = true, particles = true, single = true, options = function(size)
    local o = switching(size)
    o.states, o.seasonal = nil, { 3 }
    return o
  end },
  arsgls = { random = true, particles = true, options = function(size)
    local o = switching(size)
    o.emission_hidden, o.auxiliary = { 4 }, 2
    return o
  end },
  vssm = { random = true, options = function(size)
    return { size = size, latent = 3, units = 4, hidden = { 4 }, flows = 1, flow_hidden = { 4 }, num_particles = 5,
      conditioning = "partial" }
  end },
}

-- Each kind that there is stands above.
for path in io.popen("grep -l 'forecaster[.]new(class' lua/penumbra/models/*.lua"):lines() do
  local name = path:match "([%w_]+)%.lua$"
  assert(kinds[name] or name == "forecaster", path)
end

local function options_of(name, size, more)
  local o = kinds[name].options(size)
  o.covariates, o.series, o.embedding, o.features, o.scaling = 2, 4, 3, 4, "change"
  for key, value in pairs(more or {}) do
    o[key] = value
  end
  return o
end

local function make(name, size, more)
  pn.seed(5)
  return pn.models[name](options_of(name, size, more))
end

local function batch(size, steps, more)
  local g = pn.generator(2)
  local b = { y = pn.randn({ steps, 3, size }, { generator = g }):cumsum(1) + 10, series = { 0, 3, 1 },
    inputs = pn.randn({ steps, 3, 2 }, { generator = g }), start = { 5, 0, 9 } }
  for key, value in pairs(more or {}) do
    b[key] = value
  end
  return b
end

local function difference(a, b)
  return (a - b):abs():max():item()
end

local function a_set(steps)
  local g, items = pn.generator(8), {}
  for k = 1, 4 do
    local y = pn.randn({ steps - 5 * k }, { generator = g }):cumsum(1):totable()
    y[7] = 0 / 0
    items[k] = { target = y, covariates = pn.randn({ steps, 2 }, { generator = g }), start = "2024-01-0" .. k }
  end
  return pn.data.series(items, { freq = "D" })
end

describe("a forecaster", function()
  for name in pairs(kinds) do
    describe(name, function()
      it("has no use for what stands behind the end of a series: values, gradients, states", function()
        local size = kinds[name].single and 1 or 2
        local m = make(name, size)
        local whole = batch(size, 9, { lengths = { 6, 9, 4 } })
        local g = pn.generator(3)
        local other = {}
        for key, value in pairs(whole) do
          other[key] = value
        end
        local after = pn.arange(9, int64):unsqueeze(2):ge(pn.tensor(whole.lengths, int64)):unsqueeze(3)
        other.y = pn.where(after, pn.full({}, 0 / 0), whole.y)
        other.inputs = pn.where(after, pn.randn({ 9, 3, 2 }, { generator = g }) * 1e6, whole.inputs)
        local value = m:log_evidence(whole, { generator = pn.generator(1) })
        assert.equal(0, difference(value, m:log_evidence(other, { generator = pn.generator(1) })))
        local a = pn.grad(m:loss(whole, { generator = pn.generator(1) }), m:parameters())
        local b = pn.grad(m:loss(other, { generator = pn.generator(1) }), m:parameters())
        for k, x in ipairs(a) do
          assert.is_true(not x and not b[k] or difference(x, b[k]) == 0)
        end
      end)

      -- Along one direction of all parameters, nothing resampled: a term that is lost or halved shows.
      it("has the gradient of its loss, by differences", function()
        local m = make(name, 1)
        if m.threshold then m.threshold = 0 end
        local y = batch(1, 6).y:totable()
        y[4][2][1] = 0 / 0
        local b = batch(1, 6, { y = pn.tensor(y), lengths = { 6, 4, 5 } })
        local g, list = pn.generator(12), m:parameters()
        local way, at = {}, {}
        for k, p in ipairs(list) do -- (not where biases of 0 meet an input of 0: leaky_relu has a kink there)
          way[k] = pn.randn(p:shape(), { generator = g })
          at[k] = p:detach() + pn.randn(p:shape(), { generator = g }) * 0.05
          p:set(at[k])
        end
        local function loss() return m:loss(b, { generator = pn.generator(1) }) end
        local slope = 0
        for k, grad in ipairs(pn.grad(loss(), list)) do
          slope = slope + (grad and (grad * way[k]):sum():item() or 0)
        end
        local function along(h)
          for k, p in ipairs(list) do p:set(at[k] + way[k] * h) end
          return loss():item()
        end
        local h = 1e-5
        local wanted = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
        assert.near(wanted, slope, 1e-6 * math.max(1, math.abs(slope)))
        assert.is_true(math.abs(slope) > 1e-3)
      end)

      it("knows after padded series what it knows after the same without", function()
        local m = make(name, 1)
        local padded = batch(1, 9, { lengths = { 6, 6, 6 } })
        local whole = batch(1, 9)
        whole.y, whole.inputs = whole.y:slice(1, 1, 6), whole.inputs:slice(1, 1, 6)
        local u = pn.randn { 3, 3, 2 }
        local paths = {}
        for k, b in ipairs { padded, whole } do
          pn.seed(3)
          paths[k] = m:forecast(b, 3, { draws = 4, inputs = u, generator = pn.generator(4) })
        end
        assert.is_true(kinds[name].random or difference(paths[1], paths[2]) < 1e-10)
        local one = m:filter(batch(1, 9, { lengths = { 6, 9, 4 } }))
        assert.same({ 11, 9, 13 }, one.start:totable()) -- the step that comes next
      end)

      it("takes a scale from the context, and tells the density of y itself", function()
        local m = make(name, 1)
        local b = batch(1, 8, { context = 5 })
        local value = m:log_evidence(b, { generator = pn.generator(1) })
        local scale = (b.y:slice(1, 2, 5) - b.y:slice(1, 1, 4)):abs():mean(1)
        local given = batch(1, 8, { location = b.y[1], scale = scale })
        assert.is_true(difference(value, m:log_evidence(given, { generator = pn.generator(1) })) < 1e-10)
        -- p(y) of y = a x + c is p(x) / a
        local plain = batch(1, 8)
        plain.y = (b.y - b.y[1]) / scale
        plain.location, plain.scale = pn.zeros { 3, 1 }, pn.ones { 3, 1 }
        local want = m:log_evidence(plain, { generator = pn.generator(1) }) - scale:log():sum(2) * 8
        assert.is_true(difference(value, want) < 1e-10)
      end)

      local function same_forecasts(more)
        local m = make(name, 1, more)
        local b = batch(1, 9)
        b.location, b.scale = pn.full({ 3, 1 }, 10), pn.full({ 3, 1 }, 2)
        local y = b.y:totable()
        y[6][2][1] = 0 / 0
        b.y = pn.tensor(y)
        local u = pn.randn { 4, 3, 2 }
        local function ahead(belief)
          return m:forecast(belief, 4, { draws = 3, inputs = u, generator = pn.generator(4) })
        end
        pn.seed(11)
        local whole = ahead(m:filter(b))
        assert.same({ 3, 4, 3, 1 }, whole:shape())
        pn.seed(11)
        local first = { y = b.y:slice(1, 1, 6), inputs = b.inputs:slice(1, 1, 6), series = b.series, start = b.start,
          location = b.location, scale = b.scale }
        local belief = m:filter(first)
        for t = 7, 9 do
          belief = belief:update(b.y[t], b.inputs[t])
        end
        assert.is_true(kinds[name].random and not kinds[name].particles or difference(whole, ahead(belief)) < 1e-10)
        pn.seed(11)
        assert.is_true(kinds[name].random or difference(whole, ahead(b)) == 0)
        local levels = m:quantiles(belief, 4, { 0.1, 0.9 }, { inputs = u })
        assert.same({ 2, 4, 3, 1 }, levels:shape())
        assert.is_true((levels[2] - levels[1]):min():item() >= 0)
      end

      -- Particles that are never resampled carry their weights from a belief to the next.
      it("draws the same forecasts after a filter, after updates and after a batch", function()
        same_forecasts()
        if kinds[name].particles then same_forecasts { threshold = 0 } end
      end)

      it("trains on windows to the same bits with and without a break, compiled and not", function()
        local set, path = a_set(50), os.tmpname()
        os.remove(path)
        local function train(m, more)
          local o = { series = set, window = 20, context = 12, steps = 8, batch_size = 3, seed = 4 }
          for key, value in pairs(more or {}) do
            o[key] = value
          end
          return m:fit(o)
        end
        local whole = make(name, 1)
        local h = train(whole)
        assert.equal(8, #h.history)
        local broken = make(name, 1)
        train(broken, { checkpoint = path, on_step = function(s) return s.iteration < 3 end })
        local again = make(name, 1)
        local rest = train(again, { checkpoint = path, resume = true })
        local eager = make(name, 1)
        train(eager, { compile = false })
        for key, x in pairs(whole:state()) do
          assert.equal(0, difference(x, again:state()[key]), key)
          assert.equal(0, difference(x, eager:state()[key]), key)
        end
        assert.same(h.history, rest.history)
        assert.matches("had batch_size 3, got 4", message_of(train, again, { checkpoint = path, resume = true,
          batch_size = 4 }))
        os.remove(path)
      end)

      it("keeps the parameters of the best score on a held-out batch, with a break and without", function()
        local set, held, path = a_set(50), batch(1, 9), os.tmpname()
        os.remove(path)
        local function train(more)
          local m, kept = make(name, 1), {}
          local o = { series = set, window = 20, context = 12, steps = 9, batch_size = 3, seed = 4, lr = 0.1,
            validate = held, validate_every = 2 }
          for key, value in pairs(more or {}) do o[key] = value end
          local inner = o.on_step
          function o.on_step(s)
            kept[s.iteration] = m:state()
            return inner and inner(s)
          end
          return m, m:fit(o), kept
        end
        local function same(m, state)
          for key, x in pairs(m:state()) do assert.equal(0, difference(x, state[key]), key) end
        end
        local m, s, kept = train()
        local best
        for k, iteration in ipairs { 2, 4, 6, 8, 9 } do -- the scores are losses that anybody can ask for
          local at = make(name, 1):load_state(kept[iteration])
          local score = -at:loss(held, { generator = pn.generator(s.seed):split(1 << 40) }):item()
          assert.equal(iteration, s.scores[k].iteration)
          assert.is_true(math.abs(score - s.scores[k].score) <= 1e-12 * math.abs(score))
          best = (not best or s.scores[k].score > s.scores[best].score) and k or best
        end
        assert.same({ s.scores[best].score, s.scores[best].iteration }, { s.best, s.best_iteration })
        same(m, kept[s.best_iteration])
        for _, stop in ipairs { 1, 5, 9 } do
          train { checkpoint = path, on_step = function(now) return now.iteration < stop end }
          local again, rest = train { checkpoint = path, resume = true }
          same(again, m:state())
          assert.same({ s.scores, s.best_iteration }, { rest.scores, rest.best_iteration })
          os.remove(path)
        end
      end)

      it("is the same after saving", function()
        local path, m = os.tmpname(), make(name, 1)
        assert(m:save(path))
        local other = assert(pn.restore(path))
        local b = batch(1, 5)
        assert.equal(0, difference(m:log_evidence(b, { generator = pn.generator(1) }),
          other:log_evidence(b, { generator = pn.generator(1) })))
        os.remove(path)
      end)
    end)
  end

  it("stops when patience is over, and stays so", function()
    local path = os.tmpname()
    os.remove(path)
    local scores = { 1, 3, 2, 0 / 0, 3, 5, 4, 4, 4, 4 }
    local function train(more)
      local m, asked = make("deepar", 1), 0
      local o = { series = a_set(50), window = 20, steps = 30, batch_size = 2, seed = 1, validate_every = 3,
        patience = 3, validate = function(s)
          asked = asked + 1
          return scores[s.iteration // 3]
        end }
      for key, value in pairs(more or {}) do o[key] = value end
      return m, m:fit(o), asked
    end
    local _, s, asked = train { checkpoint = path } -- 3 is best; three looks are not better
    assert.same({ 15, true, 5, 3, 6 }, { s.iteration, s.stopped, asked, s.best, s.best_iteration })
    local _, rest, more = train { checkpoint = path, resume = true }
    assert.same({ 15, true, 0 }, { rest.iteration, rest.stopped, more })
    local _, on = train { checkpoint = path, resume = true, patience = 4 }
    assert.same({ 5, 18, 30, true }, { on.best, on.best_iteration, on.iteration, on.stopped })
    os.remove(path)
    for _, name in ipairs { "patience", "validate_every" } do
      assert.matches("fit: " .. name .. " is only used with validate", message_of(function()
        make("deepar", 1):fit { series = a_set(50), window = 20, steps = 1, [name] = 2 }
      end))
    end
    local often = {}
    local looked = pn.models.deepar { hidden = 1, layers = 1 }:fit { series = { y = pn.ones { 3, 1, 1 } }, steps = 101,
      validate = function(now) return -now.iteration end }
    for k, look in ipairs(looked.scores) do often[k] = look.iteration end
    assert.same({ 100, 101 }, often)
    assert.matches("fit: validate must return a number %(larger is better%), got nil", message_of(train, {
      validate = function() end }))
    assert.matches("fit: validate must be a function, got 3", message_of(train, { validate = 3 }))
  end)

  -- What is drawn at a time is told by a kind that keeps count; a switching system's step holds 3 n n + n (k + p).
  it("draws so many paths at a time as a step of all may hold numbers", function()
    local m, b = make("sgls", 1), batch(1, 5)
    local kind, u = getmetatable(m).kind, pn.randn { 2, 3, 2 }
    local paths, width = kind.paths, kind.width
    assert.equal(3 * 3 * 3 + 3 * (2 + 1), width(m))
    local counts
    function kind.paths(self, state, o)
      counts[#counts + 1] = o.draws
      return paths(self, state, o)
    end
    local ok, message = pcall(function()
      for _, case in ipairs { { 2 ^ 19, nil, { 2, 2, 2, 1 } }, { 2 ^ 30, nil, { 1, 1, 1, 1, 1, 1, 1 } },
        { nil, nil, { 7 } }, { 2 ^ 19, 3, { 3, 3, 1 } }, { nil, 7, { 7 } } } do
        counts, kind.width = {}, case[1] and function() return case[1] end
        local x = m:forecast(b, 2, { draws = 7, inputs = u, batch_size = case[2] })
        assert.same(case[3], counts)
        assert.same({ 7, 2, 3, 1 }, x:shape())
      end
    end)
    kind.paths, kind.width = paths, width
    assert(ok, message)
    -- a kind that says nothing holds a number for each series
    local plain = pn.models.deepar { hidden = 2 }
    local belief, other = plain:filter { y = pn.ones { 3, 2, 1 } }, getmetatable(plain).kind
    belief.size, counts, paths = 2 ^ 20, {}, other.paths
    function other.paths(_, _, o)
      counts[#counts + 1] = o.draws
      return pn.zeros { o.draws, o.steps, 2, 1 }
    end
    ok, message = pcall(function() assert.same({ 6, 1, 2, 1 }, plain:forecast(belief, 1, { draws = 6 }):shape()) end)
    other.paths = paths
    assert(ok, message)
    assert.same({ 4, 2 }, counts)
  end)

  it("finds scales of what was observed alone", function()
    local nan = 0 / 0
    local y = pn.tensor { { { nan } }, { { 2 } }, { { 3 } }, { { nan } }, { { 7 } }, { { 5 } } }
    local read = require "penumbra.models.prepared_batch".read
    local want = { none = { 0, 1 }, mean = { 0, 17 / 4 }, change = { 2, 1.5 }, standard = { 4.25, 3.6875 ^ 0.5 } }
    for scaling, w in pairs(want) do
      local b = read("spec", pn.models.deepar { scaling = scaling, hidden = 2 }, { y = y })
      assert.is_true(math.abs(b.location:item() - w[1]) < 1e-12 and math.abs(b.scale:item() - w[2]) < 1e-12, scaling)
    end
    local m = pn.models.deepar { scaling = "change", least_scale = 0.5, hidden = 2 }
    assert.equal(17 / 8, read("spec", m, { y = y }).scale:item())
    for scaling in pairs(want) do -- nothing to measure: 1
      local b = read("spec", pn.models.deepar { scaling = scaling, hidden = 2 }, { y = pn.zeros { 3, 2, 1 } })
      assert.equal(2, b.scale:sum():item())
    end
  end)

  it("finds a change between two steps, and none in one; ends that all have are none", function()
    local read = require "penumbra.models.prepared_batch".read
    local m = pn.models.deepar { scaling = "change", hidden = 2 }
    local y = pn.tensor { { { 2 } }, { { 5 } }, { { 3 } } }
    for steps, want in ipairs { 1, 3, 2.5 } do
      local b = read("spec", m, { y = y:slice(1, 1, steps), lengths = { steps } })
      assert.same({ 2, want }, { b.location:item(), b.scale:item() })
      assert.is_nil(b.lengths)
      assert.is_nil(b.active)
      assert.is_true(b.complete)
      local first = read("spec", m, { y = y, context = steps })
      assert.same({ 2, want }, { first.location:item(), first.scale:item() })
    end
    assert.same({ true, true, false }, read("spec", m, { y = y, lengths = { 2 } }).active:squeeze(2):totable())
    for text, b in pairs { ["context must be a whole number from 1 on, got 0"] = { y = y, context = 0 },
      ["y must have shape [T, B, 1], got [0, 3, 1]"] = { y = pn.zeros { 0, 3, 1 } },
      ["y must have shape [T, B, 1], got [3, 0, 1]"] = { y = pn.zeros { 3, 0, 1 } },
      ["y must have shape [T, B, 1], got [3, 1]"] = { y = pn.zeros { 3, 1 } },
      ["start must lie between 0 and 9007199254740992, got -1 to -1"] = { y = y, start = { -1 } },
      ["start must lie between 0 and 9007199254740992, got 9007199254740993"] = { y = y, start = { (1 << 53) + 1 } },
      ["lengths must be int64 [1], got int64 [1, 1]"] = { y = y, lengths = { { 1 } } },
      ["lengths must be int64 [1], got float64 [1]"] = { y = y, lengths = pn.ones { 1 } },
    } do
      assert.matches(text, message_of(m.log_evidence, m, b), 1, true)
    end
    assert.equal(1 << 53, read("spec", m, { y = y, start = { 1 << 53 } }).start:item())
    assert.equal("belief of deepar about 1 series", tostring(m:filter { y = y }))
    assert.equal(("deepar(1 observed, 0 covariates, %d parameters)"):format(m:num_parameters()), tostring(m))
  end)

  -- Adam moves a parameter whose slope stays the same by the rate itself.
  it("trains at a rate that falls to the part that is left, in as many steps, of 50 windows each", function()
    local b = { y = pn.randn({ 6, 2, 1 }, { generator = pn.generator(1) }) }
    for steps, rates in ipairs { { 1 }, { 1, 0.25 }, { 1, 0.5, 0.25 } } do
      local m, at, moved = make("deepar", 1, { covariates = 0, series = 0 }), nil, {}
      local bias = m:parameters()[#m:parameters()]
      at = bias:detach() + 0
      local from, loss = core.clock(), m:loss(b):item()
      local s = m:fit { series = b, steps = steps, lr = 1e-7, decay = 0.25, seed = 3, on_step = function()
        moved[#moved + 1] = (bias:detach() - at):abs():max():item() / 1e-7
        at = bias:detach() + 0
      end }
      for k, rate in ipairs(rates) do assert.near(rate, moved[k], 1e-3) end
      assert.same({ steps, s.history[steps], 3, loss }, { s.iteration, s.loss, s.seed, s.history[1] })
      assert.is_true(s.seconds > 0 and s.seconds <= core.clock() - from)
    end
    -- of a batch, one of its series at a time, each of them
    local some, met = make("deepar", 1, { covariates = 0, series = 0 }), {}
    local alone = {}
    for k = 1, 2 do alone[k] = some:loss({ y = b.y:slice(2, k, k), location = pn.zeros { 1, 1 }, scale =
      pn.ones { 1, 1 } }):item() end
    for _, v in ipairs(some:fit({ series = { y = b.y, location = pn.zeros { 2, 1 }, scale = pn.ones { 2, 1 } },
      steps = 30, batch_size = 1, lr = 1e-12, seed = 2 }).history) do
      local k = math.abs(v - alone[1]) < 1e-8 and 1 or 2
      assert.near(alone[k], v, 1e-8)
      met[k] = true
    end
    assert.same({ true, true }, met)
    local set, lists = a_set(50), {}
    for k, size in ipairs { false, 50, 51 } do
      lists[k] = make("deepar", 1):fit({ series = set, window = 9, steps = 1, batch_size = size or nil, seed = 4 })
        .history
    end
    assert.same(lists[2], lists[1])
    assert.are_not.same(lists[3], lists[1])
    -- covariates of a set are those that the model has, or nobody's
    make("deepar", 1, { covariates = 0 }):fit { series = set, window = 9, steps = 1, batch_size = 2 }
    make("deepar", 1, { covariates = 1, series = 0 }):fit { series = pn.data.series({ { target = pn.randn { 12 },
      covariates = pn.randn { 12, 1 } } }), window = 9, steps = 1, batch_size = 2 }
    local path = os.tmpname()
    os.remove(path)
    local function train(o)
      for key, value in pairs { series = set, window = 9, steps = 3, batch_size = 2, seed = 4, checkpoint = path } do
        if o[key] == nil then o[key] = value end
      end
      return make("deepar", 1):fit(o)
    end
    assert.matches("fit: window must be a whole number from 1 on, got 0", message_of(function()
      make("deepar", 1):fit { series = set, steps = 1 }
    end))
    local whole = train {}
    local again = train { resume = true }
    assert.same({ whole.loss, 3, whole.seconds }, { again.loss, again.iteration, again.seconds })
    os.remove(path)
    -- the seconds are those of all parts
    local part = train { on_step = function(s) return s.iteration < 2 end }
    local from = core.clock()
    local both = train { resume = true }
    assert.same({ 2, 3 }, { part.iteration, both.iteration })
    assert.is_true(both.seconds > part.seconds and both.seconds <= part.seconds + core.clock() - from)
    os.remove(path)
    -- the file appears as often as is asked, and at the end
    local there = {}
    local function exists()
      local file <close> = io.open(path)
      return file ~= nil
    end
    train { steps = 5, checkpoint_every = 2, on_step = function(s)
      there[s.iteration] = exists()
      os.remove(path)
    end }
    assert.same({ false, false, true, false, true }, there)
    assert.is_true(exists())
    local contents = assert(pn.checkpoint.load(path))
    contents.run.history = pn.zeros { 4 }
    assert(pn.checkpoint.save(path, contents))
    assert.matches("must have a loss for each iteration", message_of(train, { steps = 5, resume = true }))
    os.remove(path)
  end)

  it("names what is wrong with a batch, an option, a file", function()
    local m = make("deepar", 1)
    for text, b in pairs {
      ["log_evidence: y must have shape [T, B, 1], got [5, 3, 2]"] = batch(2, 5),
      ["log_evidence: inputs, the covariates, must have shape [5, 3, 2], got nil"] = { y = pn.zeros { 5, 3, 1 } },
      ["log_evidence: inputs must have shape [5, 3, 2], got [4, 3, 2]"] = batch(1, 5, { inputs = pn.zeros { 4, 3,
        2 } }),
      ["log_evidence: lengths must lie between 1 and 5, got 0 to 5"] = batch(1, 5, { lengths = { 0, 5, 3 } }),
      ["log_evidence: lengths must be int64 [3], got int64 [2]"] = batch(1, 5, { lengths = { 1, 5 } }),
      ["log_evidence: series must lie between 0 and 3, got 0 to 4"] = batch(1, 5, { series = { 0, 4, 1 } }),
      ["log_evidence: context must be at most 5, the steps of y, got 6"] = batch(1, 5, { context = 6 }),
      ["log_evidence: location and scale come together"] = batch(1, 5, { scale = pn.ones { 3, 1 } }),
      ["log_evidence: y must be finite, or NaN where nothing was observed"] = batch(1, 5,
        { y = pn.full({ 5, 3, 1 }, 1 / 0) }),
      ["log_evidence: y must be float64 or float32, got int64"] = batch(1, 5, { y = pn.zeros({ 5, 3, 1 }, int64) }),
      ["log_evidence: unknown option 'lenghts', did you mean 'lengths'?"] = batch(1, 5, { lenghts = { 1 } }),
    } do
      assert.matches(text, message_of(m.log_evidence, m, b), 1, true)
    end
    assert.matches("forecast: inputs, the covariates to come, must have shape [2, 3, 2], got nil",
      message_of(m.forecast, m, batch(1, 5), 2), 1, true)
    assert.matches("forecast: the belief must be one of this model",
      message_of(m.forecast, make("deepar", 1), m:filter(batch(1, 5)), { steps = 2 }), 1, true)
    assert.matches("log_evidence: a batch is a table {y = [T, B, p], inputs =, ...}, as set:history{steps =} gives it, "
      .. "got a tensor", message_of(m.log_evidence, m, pn.ones { 3, 1, 1 }), 1, true)
    assert.matches("smooth: deepar has no latent state", message_of(m.smooth, m, batch(1, 5)), 1, true)
    assert.matches("update: y must have shape [T, 3, 1], got [1, 2, 1]",
      message_of(m:filter(batch(1, 5)).update, m:filter(batch(1, 5)), pn.zeros { 2, 1 }), 1, true)
    assert.matches("deepar has joint paths alone, mode = 'ancestral'", message_of(m.forecast, m, batch(1, 5), 2,
      { mode = "marginal", inputs = pn.zeros { 2, 3, 2 } }))
    assert.matches("deepar: scaling must be 'mean' or 'none' for counts, got 'change'", message_of(make, "deepar", 1,
      { output = "poisson" }))
    for _, scaling in ipairs { "mean", "none" } do make("deepar", 1, { output = "poisson", scaling = scaling }) end
    assert.matches("inputs of images must not enter the encoder", message_of(make, "kvae", 64, { image = { 8, 8 },
      inputs = { "encoder" }, scaling = "none" }))
    assert.matches("forecast: inputs must be absent, this model has no covariates", message_of(function()
      pn.models.deepar { hidden = 2 }:forecast({ y = pn.ones { 2, 1, 1 } }, 1, { inputs = pn.ones { 1, 1, 1 } })
    end))
    assert.matches("log_evidence: inputs must be absent", message_of(function()
      pn.models.deepar { hidden = 2 }:log_evidence { y = pn.ones { 2, 1, 1 }, inputs = pn.ones { 2, 1, 1 } }
    end))
    assert.matches("log_evidence: scale must be positive", message_of(m.log_evidence, m, batch(1, 5,
      { location = pn.zeros { 3, 1 }, scale = pn.tensor { { 1 }, { 0 }, { 2 } } })))
    m:log_evidence(batch(1, 5, { location = pn.zeros { 3, 1 }, scale = pn.full({ 3, 1 }, 1e-3) }))
    assert.matches("log_evidence: series, the identities, must be int64 %[3%], got nil", message_of(m.log_evidence, m,
      { y = pn.ones { 5, 3, 1 }, inputs = pn.ones { 5, 3, 2 } }))
    assert.matches("update: y_t must have shape %[3, 1%], got %[3%]", message_of(m:filter(batch(1, 5)).update,
      m:filter(batch(1, 5)), pn.ones { 3 }))
    local path, set = os.tmpname(), a_set(50)
    local function train(o)
      local all = { series = set, window = 9, steps = 1, batch_size = 2, seed = 4 }
      for key, value in pairs(o) do all[key] = value end
      return make("deepar", 1):fit(all)
    end
    train { checkpoint = path }
    assert.matches("had seed 4, got 5", message_of(train, { checkpoint = path, resume = true, seed = 5 }))
    assert.equal(1, train({ checkpoint = path, resume = true }).iteration)
    os.remove(path)
    for pattern, o in pairs { ["fit: context must be at most the window, 9, got 10"] = { context = 10 },
      ["fit: resume is only used with checkpoint"] = { resume = true },
      ["fit: lr must be positive, got 0"] = { lr = 0 }, ["fit: decay must be positive, got %-1"] = { decay = -1 },
      ["fit: clip must be positive, got 0"] = { clip = 0 } } do
      assert.matches(pattern, message_of(train, o))
    end
    train { context = 9 }
    for _, name in ipairs { "window", "context" } do
      assert.matches("fit: window and context are for a series set", message_of(m.fit, m, { series = batch(1, 5),
        steps = 1, [name] = 3 }))
    end
    local ok, message, code = pn.restore "no/such/file"
    assert.same({ nil, "io" }, { ok, code })
    assert.is_string(message)
    assert.is_nil(pn.models.nothing)
  end)
end)

describe("numbers of the other real dtype", function()
  for name in pairs(kinds) do
    it("are converted to those of a " .. name, function()
      local m, other = make(name, 1, { dtype = "float32" }), pn.generator(3)
      local wide = batch(1, 5, { location = pn.full({ 3, 1 }, 9.5), scale = pn.full({ 3, 1 }, 2) })
      local narrow = {}
      for key, v in pairs(wide) do
        narrow[key] = pn.is_tensor(v) and v:to "float32" or v
      end
      local u = pn.randn({ 2, 3, 2 }, { generator = other })
      local answers = {}
      for k, b in ipairs { wide, narrow } do
        local to_come = k == 1 and u or u:to "float32"
        pn.seed(6)
        local belief = m:filter(b, { generator = pn.generator(1) })
        local after = belief:update(b.y[5], to_come[1])
        answers[k] = { m:log_evidence(b, { generator = pn.generator(1) }),
          m:forecast(belief, 2, { inputs = to_come, draws = 3, generator = pn.generator(1) }),
          m:forecast(after, 2, { inputs = to_come, draws = 3, generator = pn.generator(1) }) }
      end
      for k, x in ipairs(answers[1]) do
        assert.equal("float32", x:dtype())
        assert.same(answers[2][k]:totable(), x:totable())
      end
      local set = pn.data.series({ { target = pn.randn { 12 }, covariates = pn.randn { 12, 2 } } },
        { dtype = "float64" })
      m:fit { series = set, window = 8, context = 5, steps = 2, batch_size = 2 }
    end)
  end
end)
