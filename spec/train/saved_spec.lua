-- Files whose values are not what they must be: each loader says which, gives nil, message, code or raises at the
-- script's line, and leaves what is alive as it was.
local pn = require "penumbra"
local core = require "penumbra.core"
local form = require "penumbra.form"
local nn, optim, dist = pn.nn, pn.optim, pn.dist

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

local x = pn.tensor { { 0.1, 0.2 }, { -0.5, 0.3 }, { 0.7, -0.4 }, { 0.2, 0.9 } }
local y = pn.tensor { 0.3, -0.2, 0.5, 0.4 }

-- Writes the file again as change(tensors by name, texts) leaves it.
local function change(f)
  local flat, _, texts = core.files.load_safetensors(path)
  f(flat, texts)
  local names, tensors, keys, values = {}, {}, {}, {}
  for name, t in pairs(flat) do
    names[#names + 1], tensors[#tensors + 1] = name, t:contiguous()
  end
  for key, text in pairs(texts) do
    keys[#keys + 1], values[#values + 1] = key, text
  end
  assert(core.files.save_safetensors(path, names, tensors, keys, values))
end

-- Replaces text in the description of what is no tensor, which must be there.
local function say(from, to)
  change(function(_, texts)
    local text, n = texts["penumbra.structure"]:gsub(from, to)
    assert(n == 1, text)
    texts["penumbra.structure"] = text
  end)
end

local function is_format(pattern, nothing, message, code)
  assert.is_nil(nothing)
  assert.matches(pattern, message)
  assert.equal("format", code)
end

local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("^[^\n]-saved_spec.lua:%d+: ", message)
  assert.matches(pattern, message)
end

local function bits(t)
  local out = {}
  for name, v in pairs(t) do out[name] = core.is_tensor(v) and v:reshape { -1 }:totable() or v end
  return out
end

describe("a learner's file", function()
  local function network() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) } end

  before_each(function()
    local learner = pn.continual.learner { network = network(), likelihood = "normal", noise = 0.1, seed = 1,
      memory = { size = 2 }, draws = { train = 2, sites = 20, predict = 5 }, steps = { first = 3, later = 2 } }
    learner:observe(x, y)
    assert(learner:save(path))
  end)

  local function load() return pn.restore(path, { network = network() }) end

  it("with values that no learner has is refused", function()
    assert(load())
    for _, case in ipairs {
      { "precision", function(t) return t * -1 end, "'precision' must be positive" },
      { "precision", function(t) return t * (0 / 0) end, "'precision' must be finite" },
      { "precision_mean", function(t) return t / 0 end, "'precision_mean' must be finite" },
      { "prior_scale", function(t) return t * 0 end, "'prior_scale' must be 1e%-150 or more" },
      { "projection.log_scale", function(t) return t * 0 + 1e6 end, "'projection.log_scale' must be 340 or less" },
      { "projection.log_noise", function(t) return t:reshape { 1 } end, "log_noise' must have shape %[%], got %[1%]" },
      { "memory.age", function(t) return t - 7 end, "'memory.age' must be 0 or more" },
      { "memory.x", function(t) return t * (0 / 0) end, "'memory.x' must be finite" },
      { "memory.y", function(t) return t:slice(1, 1, 1) end, "y must have shape" },
    } do
      local whole
      change(function(flat) flat[case[1]], whole = case[2](flat[case[1]]), flat[case[1]] end)
      is_format(case[3], load())
      change(function(flat) flat[case[1]] = whole end)
    end
    assert(load())
  end)

  it("with options that no learner takes is refused", function()
    for _, case in ipairs {
      { '%["lr"%] = 0.05', '["lr"] = "fast"', "'?optimiser'?: lr must be a number" },
      { '%["first"%] = 3', '["first"] = -3', "steps.first must be a whole number" },
      { '%["update"%] = "sites"', '["update"] = "site"', "update must be one of" },
      { '%["size"%] = 2', '["size"] = 1', "must be data, as many as the memory holds" },
      { '%["step"%] = 1', '["step"] = -1', "'step' must be a whole number from 0" },
      { ', %["time"%] = 0}$', '}', "'time' is missing" },
      { '%["clipped"%] = 0', '["clipped"] = {}', "'counts.clipped' must be a whole number" },
    } do
      change(function(_, texts) texts.kept = texts["penumbra.structure"] end)
      say(case[1], case[2])
      is_format(case[3], load())
      change(function(_, texts) texts["penumbra.structure"], texts.kept = texts.kept, nil end)
    end
    assert(load())
  end)
end)

describe("a posterior's file", function()
  local model = pn.model(function(m)
    m:observe("y", dist.normal(m:sample("w", dist.normal(0, 1)), 1), y)
  end)

  before_each(function()
    pn.seed(1)
    assert(pn.nuts(model, { chains = 2, warmup = 20, draws = 8 }):save(path))
  end)

  it("with values that no posterior has is refused", function()
    local function load() return pn.restore(path, { model = model }) end
    assert(load())
    for _, case in ipairs {
      { "unconstrained", function(t) return t[1] end, "'unconstrained' must have shape %[any, any, any%]" },
      { "unconstrained", function(t) return t * (0 / 0) end, "'unconstrained' must be finite" },
      { "unconstrained", function() return pn.zeros { 0, 8, 1 } end, "'unconstrained' must not be empty" },
      { "statistics.divergent", function(t) return t * (0 / 0) end, "'statistics.divergent' must be finite" },
      { "statistics.divergent", function(t) return t * 0 + 1e300 end, "'statistics.divergent' must be 1 or less" },
      { "statistics.energy", function(t) return t:slice(2, 1, 3) end, "'statistics.energy' must have shape %[2, 8%]" },
      { "draws.w", function(t) return t * (0 / 0) end, "other values of 'w' than the file has", "domain" },
    } do
      local whole
      change(function(flat) flat[case[1]], whole = case[2](flat[case[1]]), flat[case[1]] end)
      local nothing, message, code = load()
      assert.is_nil(nothing)
      assert.matches(case[3], message)
      assert.equal(case[4] or "format", code)
      change(function(flat) flat[case[1]] = whole end)
    end
    say('%["seconds"%] = [%d.e-]+', '["seconds"] = "long"')
    is_format("'seconds' must be a finite number from 0 on, got 'long'", load())
  end)
end)

describe("a fit's file", function()
  local model = pn.model(function(m)
    m:observe("y", dist.normal(m:sample("w", dist.normal(0, 1)), 1), y)
  end)

  it("is loaded whole or not at all", function()
    pn.seed(2)
    local fit = pn.svi(model, "mean_field", { steps = 20 })
    assert(fit:save(path))
    local function load() return pn.restore(path, { model = model, guide = "mean_field" }) end
    for _, case in ipairs {
      { "optimiser.v.guide.loc", function(t) return t - 1e6 end, "v.guide.loc' must be sums of squares, 0 or more" },
      { "optimiser.m.guide.loc", function(t) return t / 0 end, "m.guide.loc' must be finite" },
      { "optimiser.step", function(t) return t - 1000 end, "'step' must be numbers of steps" },
      { "losses", function(t) return t * (0 / 0) end, "'losses' must be finite" },
      { "parameters.guide.loc", function(t) return t * (0 / 0) end, "'parameters.guide.loc' must be finite" },
      { "parameters.guide.log_scale", function() return nil end, "description of the tables" },
    } do
      local whole
      change(function(flat) whole = assert(flat[case[1]]) flat[case[1]] = case[2](whole) end)
      is_format(case[3], load())
      change(function(flat) flat[case[1]] = whole end)
    end
    local again = assert(load())
    assert.same(bits(fit:state()), bits(again:state()))
    assert.same(bits(fit.optimiser:state()), bits(again.optimiser:state()))
    assert.same(fit.losses, again.losses)
    raises("a fit needs its model and guide", pn.restore, path, { model = model })
    raises("steps must be absent", pn.restore, path, { model = model, guide = "mean_field", steps = 5 })
  end)
end)

describe("a state", function()
  it("of an optimiser is taken whole or not at all", function()
    local w = pn.param(pn.ones { 2 })
    local opt = optim.amsgrad({ w = w }, { lr = 0.1 })
    opt:step(w:square():sum())
    local before = bits(opt:state())
    for name, case in pairs {
      ["m.w"] = { pn.tensor { 0, 0 / 0 }, "'m.w' must be finite" },
      ["v.w"] = { pn.tensor { 1, -1 }, "'v.w' must be sums of squares, 0 or more" },
      ["v_max.w"] = { pn.tensor { 0 / 0, 1 }, "'v_max.w' must be sums of squares, 0 or more" },
      step = { pn.tensor({ math.maxinteger }, { dtype = "int64" }), "'step' must be numbers of steps, .* 0 to 2%^53" },
    } do
      local state = opt:state()
      for key in pairs(state) do state[key] = key ~= name and key ~= "step" and state[key] + 1 or state[key] end
      state[name] = case[1]
      raises(case[2], opt.load_state, opt, state)
      assert.same(before, bits(opt:state()))
    end
    local state = opt:state()
    state["v.w"] = pn.tensor { 1 / 0, 1 } -- a square that was too large
    opt:load_state(state)
  end)

  it("of an optimiser that keeps no arrays is its steps", function()
    local w = pn.param(pn.ones { 2 })
    local opt = optim.sgld { w }
    opt:step(w:square():sum())
    assert.same({ step = { 1 } }, bits(opt:state()))
    raises("'step' must be numbers of steps", opt.load_state, opt, { step = pn.tensor({ -1 }, { dtype = "int64" }) })
    assert.same({ step = { 1 } }, bits(opt:load_state(opt:state()):state()))
  end)

  it("of L-BFGS, of an average, of a plateau has numbers that these have", function()
    local w = pn.param(pn.zeros { 2 })
    local opt = optim.lbfgs({ w }, { max_steps = 3 })
    opt:step(function() return (w - pn.tensor { 1, 2 }):square():square():sum() end)
    local function with(name, t)
      local state = opt:state()
      state[name] = t
      return state
    end
    raises("'numbers' must be finite", opt.load_state, opt, with("numbers", pn.full({ 4 }, 0 / 0)))
    raises("number 1 of 'numbers' must be a whole number", opt.load_state, opt,
      with("numbers", pn.tensor { 0.5, 1, 1, 1 }))
    raises("'rho' must be positive", opt.load_state, opt, with("rho", opt:state().rho * -1))
    raises("'s' must be finite", opt.load_state, opt, with("s", opt:state().s / 0))
    raises("'s' must have shape", opt.load_state, opt, with("s", pn.tensor(1)))
    local mean = optim.average({ w })
    raises("'count' must be 0 or more", mean.load_state, mean, { count = pn.tensor({ -1 }, { dtype = "int64" }) })
    local plateau = optim.plateau(0.1)
    for name, value in pairs { rate = 0 / 0, best = 0 / 0, bad = -1, resting = 0.5 } do
      local state = plateau:state()
      state[name] = value
      raises("'" .. name .. "' must be", plateau.load_state, plateau, state)
    end
    plateau:load_state(plateau:state())
  end)
end)

describe("a run's file", function()
  local function train(net, resume)
    return pn.train.fit { data = { x, y }, optimiser = optim.adam(net, { lr = 0.01 }), epochs = resume and 3 or 2,
      batch_size = 2, seed = 1, model = net, checkpoint = path, resume = resume,
      loss = function(a, b) return (net(a):squeeze(2) - b):square():mean() end }
  end

  it("with a position that no run has raises, and the network is as it was", function()
    train(nn.linear(2, 1))
    local net = nn.linear(2, 1)
    local before = bits(net:state())
    for _, case in ipairs {
      { '%["epoch"%] = 3', '["epoch"] = true', "'epoch' must be a whole number" },
      { '%["history"%] = {', '["history"] = {[9] = 1, ', "'history' must be a list of 2" },
      { '%["step"%] = 4', '["step"] = 4.5', "'step' must be a whole number" },
      { '%["batch"%] = 1', '["batch"] = 0', "'batch' must be a whole number from 1" },
      { '%["stopped"%] = false', '["stopped"] = "no"', "'stopped' must be true or false" },
      { '%["batch"%]', '["score"] = "high", ["batch"]', "'score' must be a number" },
      { '%["batch"%]', '["best"] = {}, ["best_epoch"] = 1, ["batch"]', "'best' must be a number" },
      { '%["batch"%]', '["best"] = 0.5, ["batch"]', "'best_epoch' is missing" },
      { '%["batch"%]', '["best"] = 0.5, ["best_epoch"] = 4, ["batch"]', "'best_epoch' must be .* 1 to 3" },
      { '%["scores"%] = {}', '["scores"] = {[1] = "high"}', "'scores' must be numbers by epoch" },
      { '%["scores"%] = {}', '["scores"] = {["last"] = 1}', "'scores' must be numbers by epoch" },
      { '%["scores"%] = {}', '["scores"] = 1', "'scores' must be numbers by epoch" },
    } do
      change(function(_, texts) texts.kept = texts["penumbra.structure"] end)
      say(case[1], case[2])
      raises("fit: resume: '.*' does not fit: " .. case[3], train, net, true)
      assert.same(before, bits(net:state()))
      change(function(_, texts) texts["penumbra.structure"], texts.kept = texts.kept, nil end)
    end
    assert.equal(3, train(net, true).epoch)
  end)

  it("of another training of a forecaster changes nothing in this one", function()
    local series = pn.data.series({ { target = pn.randn { 20 } } }, { freq = "D" })
    local function fit(m, lr, resume)
      return m:fit { series = series, steps = 2, batch_size = 2, window = 8, lr = lr, checkpoint = path,
        resume = resume, compile = false, seed = 1 }
    end
    fit(pn.models.deepar { hidden = 3 }, 0.01)
    local other = pn.models.deepar { hidden = 3 }
    local before = bits(other:state())
    raises("had lr 0.01, got 0.02", fit, other, 0.02, true)
    assert.same(before, bits(other:state()))
  end)
end)

describe("a forecaster's file", function()
  it("that names none, or options that it does not take, is refused", function()
    assert(pn.models.deepar { hidden = 3 }:save(path))
    for _, case in ipairs {
      { '"deepar"', '"vae"', "unknown option '[%w_]+'" },
      { '"deepar"', '"deeper"', "'?deeper'?" },
      { '%["hidden"%] = 3', '["hidden"] = -3', "hidden must be" },
      { '%["hidden"%] = 3', '["hidden"] = 4', "must have shape" },
      { '%["hidden"%] = 3', '["hiden"] = 3', "unknown option 'hiden'" },
    } do
      change(function(_, texts) texts.kept = texts["penumbra.structure"] end)
      say(case[1], case[2])
      is_format(case[3], pn.restore(path))
      change(function(_, texts) texts["penumbra.structure"], texts.kept = texts.kept, nil end)
    end
    assert(pn.restore(path))
  end)
end)

describe("a deep latent-variable model's file", function()
  local data = pn.tensor { { 0.3, -0.2, 1.5 }, { 0.1, 0.4, 1.1 }, { -0.3, 0.2, 0.9 } }

  it("makes the model again, of every shape", function()
    local poisson = nn.likelihood.poisson {}
    for _, o in ipairs { { decoder = "normal" }, { decoder = "normal", noise = "network", dtype = "float32" },
      { latent = { 2, 1 }, structure = "ladder" }, { posterior = "flow", flows = 1 }, { mean = pn.full({ 3 }, 0.2) },
      { decoder = "categorical", categories = 3 }, { decoder = poisson }, { condition = 2, prior = "conditional" } } do
      local given = { data = 3, latent = 1, hidden = { 4 } }
      for name, v in pairs(o) do given[name] = v end
      local seen = o.decoder == "normal" and data or data:gt(0):to "float64"
      seen = o.dtype and seen:to(o.dtype) or o.decoder == "categorical" and seen:to "int64" or seen
      local m = pn.models.vae(given)
      assert(m:save(path))
      local again = assert(pn.restore(path, { decoder = o.decoder == poisson and poisson or nil }))
      local function loss(model)
        pn.seed(3)
        return model:loss(seen, { condition = o.condition and pn.ones { 3, 2 } }):item()
      end
      assert.equal(loss(m), loss(again))
      assert.same(bits(m:state()), bits(again:state()))
    end
    raises("option 'decoder' is required", function()
      assert(pn.models.vae { data = 3, latent = 1, decoder = poisson }:save(path))
      pn.restore(path)
    end)
    raises("unknown option 'decoder'", function()
      assert(pn.models.vae { data = 3, latent = 1 }:save(path))
      pn.restore(path, { decoder = poisson })
    end)
  end)

  it("keeps whether the first fit is still to come, and goes on to the same bits", function()
    for _, before in ipairs { 0, 2 } do
      pn.seed(5)
      local m = pn.models.vae { data = 3, latent = 1, hidden = { 4 }, decoder = "normal" }
      if before > 0 then m:fit { data = data, epochs = before } end
      assert(m:save(path))
      local again = assert(pn.restore(path))
      for _, model in ipairs { m, again } do
        pn.seed(6)
        model:fit { data = data, epochs = 1, lr = 1e-3 }
      end
      assert.same(bits(m:state()), bits(again:state()))
    end
  end)

  it("keeps the posteriors of the rows", function()
    local m = pn.models.variational_em { data = 3, latent = 2, decoder = "normal" }
    m:fit { data = data, epochs = 2, batch_size = 2 }
    assert(m:save(path))
    local again = assert(pn.restore(path))
    assert.same(m:posteriors():mean():totable(), again:posteriors():mean():totable())
    assert.same(m:posteriors():variance():totable(), again:posteriors():variance():totable())
    assert.same(bits(m:state()), bits(again:state()))
    assert.equal(2, #again:fit { data = data, epochs = 2, batch_size = 2 }.history)
  end)

  it("with values that it cannot have is refused", function()
    assert(pn.models.variational_em { data = 3, latent = 2, decoder = "normal" }:save(path))
    is_format("'parameters.log_scale' must be finite", (function()
      change(function(flat) flat["parameters.log_scale"] = flat["parameters.log_scale"] / 0 end)
      return pn.restore(path)
    end)())
    assert(pn.models.vae { data = 3, latent = 2 }:save(path))
    for _, case in ipairs { { '%["latent"%] = 2', '["latent"] = -2', "latent must be a whole number" },
      { '%["data"%] = 3', '["data"] = 4', "must have shape" },
      { '%["latent"%] = 2', '["latnt"] = 2', "unknown option" },
      { '%["untrained"%] = true', '["untrained"] = 1', "'untrained' must be true or false" } } do
      change(function(_, texts) texts.kept = texts["penumbra.structure"] end)
      say(case[1], case[2])
      is_format(case[3], pn.restore(path))
      change(function(_, texts) texts["penumbra.structure"], texts.kept = texts.kept, nil end)
    end
    assert(pn.save(path, { a = pn.ones { 2 } }))
    is_format("no fit that fit:save has written, no forecaster .*, no variational autoencoder", pn.restore(path))
  end)
end)

describe("a file of tables", function()
  it("whose description is damaged says so in words of its own", function()
    assert(pn.save(path, { d = dist.normal(pn.zeros { 2 }, 1), n = 1 }))
    for _, text in ipairs { "distribution normal; parts 0", "distribution normal; batch 2; independent 0; parts 9",
      "distribution normal; batch 99999999999999999999; independent 0; parts 0",
      "distribution normal; batch 2; independent 0; parts 99999999999999999999", "bijector normal; parts 0" } do
      change(function(_, texts) texts["penumbra.kind:d"] = text end)
      local nothing, message, code = pn.load(path)
      is_format("load: 'd' cannot be made: ", nothing, message, code)
      assert.is_nil(message:find("attempt to", 1, true) or message:find("bad argument", 1, true)
        or message:find(".lua:", 1, true))
    end
    assert(pn.save(path, { a = { b = 1 } }))
    say('{%["b"%] = 1}', ("{[1] = "):rep(100000) .. "1" .. ("}"):rep(100000))
    is_format("description of the tables", pn.load(path))
  end)
end)

describe("a name of a file", function()
  it("with a zero byte is refused, wherever one is taken", function()
    local filter = pn.smc.exact_filter { initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1),
      transition = pn.eye(1), transition_cov = pn.eye(1),
      emission = pn.ones { 1, 1 }, emission_cov = pn.eye(1) }
    local named = path .. "\0.more"
    local t = pn.ones { 2 }
    for name, f in pairs { filter_save = function() return filter:save(named) end,
      filter_load = function() return filter:load(named) end, open = function() return pn.data.open(named) end,
      inner = function() return pn.data.open(path, { name = "a\0b" }) end,
      json = function() return pn.data.json(named) end,
      gluonts = function() return pn.data.gluonts(named) end, csv = function() return pn.data.csv(named) end,
      series = function() return pn.data.series_csv(named) end, npy = function() return pn.data.npy(named) end,
      npz = function() return pn.data.npz(named) end, idx = function() return pn.data.idx(named) end,
      load = function() return pn.load(named) end, save = function() return pn.save(named, { t = t }) end,
      save_csv = function() return pn.data.save_csv(named, t) end,
      save_npy = function() return pn.data.save_npy(named, t) end,
      save_npz = function() return pn.data.save_npz(named, { t = t }) end,
      save_idx = function() return pn.data.save_idx(named, pn.arange(2)) end,
      delimiter = function() return pn.data.csv(path, { delimiter = "\0" }) end,
      missing = function() return pn.data.csv(path, { missing = "NA\0" }) end,
      checkpoint = function() return pn.checkpoint.save(named, { t = t }) end,
      resumed = function() return pn.checkpoint.load(named) end,
      learner = function() return pn.restore(named, { network = nn.linear(1, 1) }) end,
      vbp = function() return pn.restore(named, { network = nn.linear(1, 1) }) end,
      forecaster = function() return pn.restore(named) end } do
      local ok, message = pcall(f)
      assert.is_false(ok, name)
      assert.matches("must not hold a zero byte, got '", message)
    end
    assert.equal(0, assert(io.open(path, "rb")):seek "end") -- nothing was written
  end)
end)

describe("a form", function()
  it("says of everything in a value what does not fit", function()
    local f = form.record { a = form.tensor { shape = { -1, 2 }, dtype = "float64", finite = true },
      b = form.optional(form.whole(1, 5)), c = form.list(form.boolean), d = form.map(form.text("x", "y")) }
    assert.same({}, form.misfits({ a = pn.ones { 3, 2 }, c = { true }, d = {} }, f))
    assert.same({ "'a' must have shape [any, 2], got [2]", "'b' must be a whole number from 1 to 5, got 6",
      "'c.2' must be true or false, got 1", "'d.k' must be one of 'x', 'y', got 'z'", "'e' is not part of it" },
      form.misfits({ a = pn.ones { 2 }, b = 6, c = { true, 1 }, d = { k = "z" }, e = 1 }, f))
    assert.same({ "'a' is missing", "'c' must be a list", "'d' must be a table, got float64 of shape []" },
      form.misfits({ c = { nil, true }, d = pn.tensor(1) }, f))
    assert.same({ "it must be a table, got 3" }, form.misfits(3, f))
    for _, dtype in ipairs { "bool", "int64", "float32", "float64" } do
      local t = pn.tensor({ 0, 1 }, { dtype = dtype })
      assert.same({}, form.misfits(t, form.tensor { finite = true, least = 0, most = 1 }))
      assert.same({ "it must be positive" }, form.misfits(t, form.tensor { positive = true }))
      assert.same({ "it must be 0.5 or more" }, form.misfits(t, form.tensor { least = 0.5 }))
    end
  end)

  it("undoes what was done before a step that fails", function()
    local done = {}
    local function step(name, fails)
      return { load = function() done[#done + 1] = name if fails then error "no" end end,
        undo = function() done[#done + 1] = "-" .. name error "not undone" end }
    end
    local ok, message, which = form.all_or_nothing { step "a", step("b", true), step "c" }
    assert.is_false(ok)
    assert.matches("no$", message)
    assert.equal("function", type(which.load))
    assert.same({ "a", "b", "-b", "-a" }, done)
  end)
end)

describe("the fuzzer of files", function()
  it("finds none that ends the process, raises what is not ours or is taken in half", function()
    local command = ("LUA_PATH='%s' LUA_CPATH='%s' %s spec/fuzz/file.lua --seed 1 --seconds 2 --calls 200 2>&1"):format(
      package.path, package.cpath, os.getenv "LUA" or "lua5.4")
    local pipe = assert(io.popen(command))
    local text = pipe:read "a"
    assert(pipe:close(), text)
    assert(text:find "%d+ passed, 0 failed", text)
  end)
end)
