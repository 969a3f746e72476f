--- Every option of a forecaster and of its fit changes what comes out: each stands here beside another value of it,
--- which must not give the bits of the first. An option that is new and not here fails.
local pn = require "penumbra"
local known_options = require "penumbra.shell.known_options"
local battery = require "spec.options.option_battery"
local unfit = require "spec.options.unfit_numbers"

local NAN = 0 / 0
local ABSENT = {}

local function with(base, more)
  local o = {}
  for _, list in ipairs { base, more } do
    for key, value in pairs(list) do o[key] = value end
  end
  for key, value in pairs(more) do
    if value == ABSENT then o[key] = nil end
  end
  return o
end

-- What each kind is, small; then by option another value, {value = a list or what makes the value} or {value, by = what
-- is changed for both, or what makes that}, or {same = true}.
local kinds = {}

local of_all = { size = 2, covariates = 1, series = 5, embedding = 2, features = 3, scaling = "standard",
  least_scale = 5, dtype = "float32" }
local function kind(name, base, changes)
  kinds[name] = { base = with({ size = 1, covariates = 2, series = 4, embedding = 3, features = 4, scaling = "change" },
    base), changes = with(of_all, changes) }
end

kind("deepar", { hidden = 3, layers = 1 }, { hidden = 4, layers = 2, output = "student_t" })
kind("deep_state", { hidden = 3, seasonal = { 2 } }, { hidden = 4, layers = 2, level = { false },
  trend = true, seasonal = { value = { 3 } }, offset = true, noise = 0.3 })

local switching = { states = 3, switches = 2, base = 2, hidden = { 4 }, transition_hidden = 4, num_particles = 3,
  encoder = { 4 }, threshold = 0.9 }
local of_switching = { states = 2, switches = 3, base = 3, hidden = { value = { 3 } }, transition_hidden = 3,
  num_particles = 4, encoder = false, threshold = 0, average = "log_scales", sharing = "none", floor = 1e-2,
  scales = { value = { state = { 0.1, 0.2 } } }, resampling = "multinomial", no_resampling = 2, frozen = 2,
  resampled_gradient = false, gradient = "stop_gradient", scaling_of_bases = 5,
  controls = { value = { "b" } }, conditioning = "published" }
-- (Without recurrence nothing is conditioned on the switch.)
kind("sgls", switching, with(of_switching, { switch = "categorical", conditioning = { same = true },
  stay = { 1, by = { switch = "categorical" } } }))
kind("rsgls", switching, of_switching)
local structured = with(switching, { seasonal = { 2 } })
structured.states = nil
kind("rsgls_issm", structured, with(of_switching, { level = { false }, trend = true,
  seasonal = { value = { 3 } }, size = { same = true }, states = { same = true } })) -- one number; states follow
kind("arsgls", with(switching, { auxiliary = 2, emission_hidden = { 3 }, encoder = { 4, 4 } }), with(of_switching, {
  auxiliary = 3, emission = "student_t", emission_hidden = { value = { 4 } }, recurrent = false }))

local function network(inputs, outputs, weight)
  local layer = pn.nn.linear(inputs, outputs)
  layer:load_state { weight = pn.full({ inputs, outputs }, weight), bias = pn.zeros { outputs } }
  return layer
end
local function own() return { encoder = network(1, 4, 0.1), decoder = network(2, 2, 0.1) } end
local image = { size = 64, hidden = { 4 }, scaling = "none", filters = 3, output = "bernoulli" }
kind("kvae", { latent = 2, state = 3, base = 2, units = 3, hidden = { 4 }, belief_draws = 3 }, {
  latent = 3, state = 4, base = 3, units = 4, hidden = { value = { 5 } }, belief_draws = 4, activation = "tanh",
  image = { value = { 8, 8 }, by = image }, filters = { 4, by = with(image, { image = { 8, 8 } }) },
  encoder = { value = function() return network(1, 4, 0.2) end, by = own },
  decoder = { value = function() return network(2, 2, 0.2) end, by = own },
  output = "student_t", latent_variance = 0.03, noise = "mixed", average = { "log_scales", by = { noise = "mixed" } },
  stable = false, inputs = { value = { "weights" } }, objective = "monte_carlo",
  state_draws = { "marginal", by = { objective = "monte_carlo" } }, impute = "mean", entropy = "closed",
  reconstruction = 0.3, jitter = 1e-3, init = { value = { emission = 1 } } })
kind("vssm", { latent = 3, units = 4, hidden = { 4 }, flows = 1, flow_hidden = { 3 }, num_particles = 5,
  conditioning = "semi", prefix = 2 }, { latent = 4, units = 3, hidden = { value = { 5 } }, flows = 2,
  flow_hidden = { value = { 4 } }, num_particles = 6, prefix = 3, markov = false,
  conditioning = { "partial", by = { prefix = ABSENT } },
  bidirectional = { same = true }, -- follows from conditioning; another one is an error
  posterior = "state", transition = "highway", gain = "shared", floor = 0.5, output = "student_t",
  mean = "first", noise = "network", noise_scale = 1, layers = 2, activation = "relu", init = "he", warmup = 3 })
kinds.vssm.base.features, kinds.vssm.base.scaling = 4, "change"

-- jitter is for what only the Monte Carlo objective draws
kinds.kvae.changes.jitter = { 1e-3, by = { objective = "monte_carlo" } }

local of_fit = { steps = 4, lr = 0.02, decay = 0.5, beta1 = 0.5, beta2 = 0.5, clip = 1e-3, seed = 5, batch_size = 2,
  window = 7, context = 4 }
-- What changes no number: how a step is computed, files, what is told.
local silent = { series = true, compile = true, checkpoint = true, checkpoint_every = true, resume = true,
  on_step = true, progress = true }
-- Which of the parameters on the way are kept: spec/models/forecaster_spec.lua.
for _, name in ipairs { "validate", "validate_every", "patience" } do silent[name] = true end

local function names_of(f, ...)
  local _, message = pcall(f, ...)
  local names = {}
  for each in message:match("known: (.*)"):gmatch "[%w_]+" do names[#names + 1] = each end
  assert(#names > 8, message)
  return names
end

local function batch_of(o)
  local g = pn.generator(2)
  local x = pn.randn({ 7, 3, o.size }, { generator = g }):cumsum(1)
  local y = (o.output == "bernoulli" and x:gt(0):to "float64" or x + 10):totable()
  for k = 1, o.size do y[4][2][k] = NAN end
  y[3][1][1] = NAN
  return { y = pn.tensor(y), series = { 0, 3, 1 }, inputs = pn.randn({ 7, 3, o.covariates }, { generator = g }),
    start = { 5, 0, 9 } }
end

local function numbers(t)
  if t:ndim() == 0 then return { ("%a"):format(t:item()) } end
  local list = {}
  for k, v in ipairs(t:reshape { -1 }:totable()) do list[k] = ("%a"):format(v) end
  return list
end

-- All that a model gives: losses of training, evidence, forecasts. `other`: of what the batch is not as usual.
local function outcome(name, o, fit, series, other)
  pn.seed(5)
  local m = pn.models[name](o)
  local b = with(batch_of(o), other or {})
  local h = m:fit(with({ series = series or b, steps = 3, lr = 0.01, decay = 0.1, seed = 4, compile = false },
    fit or {}))
  local list = {}
  for k, v in ipairs(h.history) do list[k] = ("%a"):format(v) end
  pn.seed(6)
  local u = pn.randn({ 2, 3, o.covariates }, { generator = pn.generator(9) })
  for _, t in ipairs { m:log_evidence(b, { generator = pn.generator(1) }),
    m:forecast(b, 2, { draws = 2, inputs = u, generator = pn.generator(1) }) } do
    for _, text in ipairs(numbers(t)) do list[#list + 1] = text end
  end
  return table.concat(list, " ")
end

-- The loss has the slope of differences along one direction of all parameters, nothing resampled; of what draws no
-- labels, whose choice has none.
local function has_its_slope(name, o, key)
  if o.switch == "categorical" then return end
  pn.seed(5)
  local m, b, g = pn.models[name](o), batch_of(o), pn.generator(12)
  if m.threshold then m.threshold = 0 end
  local list, way, at, slope = m:parameters(), {}, {}, 0
  for k, p in ipairs(list) do -- away from the corners of rectifiers
    way[k] = pn.randn(p:shape(), { generator = g, dtype = p:dtype() })
    at[k] = p:detach() + pn.randn(p:shape(), { generator = g, dtype = p:dtype() }) * 0.05
  end
  local function along(h)
    for k, p in ipairs(list) do p:set(at[k] + way[k] * h) end
    return m:loss(b, { generator = pn.generator(1) })
  end
  for k, grad in ipairs(pn.grad(along(0), list)) do slope = slope + (grad and (grad * way[k]):sum():item() or 0) end
  local h = 1e-6
  local wanted = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))):item() / (12 * h)
  assert.near(wanted, slope, 1e-5 * math.max(1, math.abs(slope)), key)
end

-- Numbers that an option cannot be are refused by its name.
local function check_refused(name, key, option, base)
  local now = base[key]
  if now == nil then now = option.default end
  for _, bad in ipairs(unfit.of("pn.models." .. name, option, now)) do
    local ok, message = pcall(pn.models[name], with(base, { [key] = bad[1] }))
    message = tostring(message)
    assert(not ok and message:find(key, 1, true), ("%s = %s: %s"):format(key, bad[1], message))
    local from = bad.from and message:match "from (%-?%d+) on"
    assert(not from or tonumber(from) == bad.from, message)
  end
end

describe("an option that is not what it was changes what comes out of", function()
  for _, name in ipairs { "deepar", "deep_state", "sgls", "rsgls", "rsgls_issm", "arsgls", "kvae", "vssm" } do
    local base, changes = kinds[name].base, kinds[name].changes
    it(name, function()
      local before, known, known_of = {}, {}, {}
      for _, option in ipairs(known_options.of(pn.models[name])) do known_of[option.name] = option end
      for _, key in ipairs(names_of(pn.models[name], { no_such_option_of_a_model = 1 })) do
        known[key] = true
        local change = changes[key]
        assert(change ~= nil, key .. " is an option that is not here")
        if type(change) ~= "table" then change = { change } end
        check_refused(name, key, known_of[key], base)
        if not change.same then
          local function both() return with(base, type(change.by) == "function" and change.by() or change.by or {}) end
          local id, second = change.by and key or "", both()
          before[id] = before[id] or outcome(name, both())
          second[key] = change.value or change[1]
          if type(second[key]) == "function" then second[key] = second[key]() end
          assert(before[id] ~= outcome(name, second), key .. " changes nothing")
          if second.dtype ~= "float32" then has_its_slope(name, second, key) end
        end
      end
      for key in pairs(changes) do assert(known[key], key .. " is no option") end
      local plain = before[""]
      assert.equal(plain, outcome(name, base))
      for key, value in pairs { series = { 0, 2, 1 }, inputs = batch_of(base).inputs * 2,
        start = base.seasonal and { 5, 1, 9 } or nil, lengths = { 7, 5, 7 } } do
        assert(plain ~= outcome(name, base, nil, nil, { [key] = value }), key .. " of a batch changes nothing")
      end
    end)
  end

  -- p(a y + b) is p(y) / a for each number that is seen.
  it("a batch, where y is in other units, by their Jacobian alone", function()
    for name, case in pairs(kinds) do
      pn.seed(5)
      local o = with(case.base, { scaling = "standard" })
      local m, b = pn.models[name](o), batch_of(o)
      local other = with(b, { y = b.y * 3 - 70 })
      local wanted = b.y:eq(b.y):to "float64":sum(1):sum(2) * -math.log(3)
      for _, method in ipairs { "log_evidence", "bound" } do
        local function of(x) return m[method](m, x, { generator = pn.generator(1) }) end
        if m[method] then
          local off = (of(other) - of(b) - wanted):abs():max():item()
          assert(off < 1e-7, ("%s: %s is off by %g"):format(name, method, off))
        end
      end
    end
  end)

  it("the rate, which falls from lr to its part decay in the last iteration", function()
    local optim, made = require "penumbra.optim", nil
    local adam, m = optim.adam, pn.models.deepar(kinds.deepar.base)
    optim.adam = function(...)
      made = adam(...)
      return made
    end
    local rates = {}
    local ok, message = pcall(m.fit, m, { series = batch_of(kinds.deepar.base), steps = 5, lr = 0.02, decay = 0.1,
      seed = 1, on_step = function(s) rates[s.iteration] = made.lr end })
    optim.adam = adam
    assert(ok, message)
    assert.equal(5, #rates)
    for k, rate in ipairs(rates) do assert.near(0.02 * 0.1 ^ ((k - 1) / 4), rate, 1e-15) end
  end)

  it("training", function()
    local g, items = pn.generator(8), {}
    for k = 1, 4 do
      items[k] = { target = pn.randn({ 20 }, { generator = g }):cumsum(1):totable(),
        covariates = pn.randn({ 20, 2 }, { generator = g }), start = "2024-01-01" }
    end
    local set = pn.data.series(items, { freq = "D" })
    local base = kinds.deepar.base
    local fit = { batch_size = 3, window = 8, context = 5 }
    local before = outcome("deepar", base, fit, set)
    assert.equal(before, outcome("deepar", base, fit, set))
    local m = pn.models.deepar { hidden = 2 }
    for _, key in ipairs(names_of(m.fit, m, { no_such_option_of_a_model = 1 })) do
      assert(silent[key] or of_fit[key], key .. " is an option that is not here")
      if not silent[key] then
        assert(before ~= outcome("deepar", base, with(fit, { [key] = of_fit[key] }), set), key .. " changes nothing")
      end
    end
  end)

  -- {value} beside the base, or {value, by = what both have}.
  it("an autoencoder's training", function()
    local x = pn.rand({ 12, 5 }, { generator = pn.generator(3) }):gt(0.5):to "float64"
    local function after(given)
      pn.seed(7)
      local m = pn.models.vae { data = 5, latent = 2, hidden = { 4 } }
      local s = m:fit(with({ data = x, epochs = 2, batch_size = 4, lr = 0.01, compile = false }, given))
      local list = numbers(pn.tensor { s.loss })
      for _, w in ipairs(m:parameters()) do
        for _, text in ipairs(numbers(w)) do list[#list + 1] = text end
      end
      return table.concat(list, " ")
    end
    local changes = { data = { 1 - x }, epochs = { 3 }, batch_size = { 5 }, lr = { 0.02 }, warmup = { 1 },
      objective = { "iwae", by = { draws = 3 } }, draws = { 3 }, binarise = { true },
      schedule = { function(step) return 0.01 / (step + 1) end }, generator = { pn.generator(5) },
      seed = { 5 }, condition = { nil }, optimiser = { nil } }
    local untold = { compile = true, progress = true, on_epoch = true, validate = true, validate_every = true,
      patience = true, condition = true, optimiser = true, checkpoint = true, checkpoint_every = true, resume = true }
    local m = pn.models.vae { data = 5, latent = 2 }
    assert.equal(after {}, after { compile = true })
    for _, key in ipairs(names_of(m.fit, m, { no_such_option_of_a_model = 1 })) do
      assert(untold[key] or changes[key], key .. " is an option that is not here")
      if not untold[key] then
        local by = changes[key].by or {}
        assert(after(by) ~= after(with(by, { [key] = changes[key][1] })), key .. " changes nothing")
      end
    end
  end)

  it("not what is told of a training, which goes to its last step", function()
    pn.seed(5)
    local m, b = pn.models.deepar(kinds.deepar.base), batch_of(kinds.deepar.base)
    assert.equal(3, battery.check_progress(function(file)
      m:fit { series = b, steps = 3, progress = file, compile = false }
    end))
  end)

  it("an autoencoder's bound by importance, which takes its data in parts", function()
    pn.seed(8)
    local m = pn.models.vae { data = 5, latent = 2, hidden = { 4 } }
    local x, list = pn.rand { 7, 5 }:gt(0.5):to "float64", {}
    for k, size in ipairs { 3, 7, 100 } do
      pn.seed(9)
      list[k] = m:bound(x, { draws = 400, batch_size = size })
      assert.same({ 7 }, list[k].each:shape())
    end
    assert.equal(list[2].value, list[3].value)
    assert.is_true(math.abs(list[1].value - list[2].value) < 6 * (list[1].se ^ 2 + list[2].se ^ 2) ^ 0.5)
    pn.seed(9)
    assert.is_true(m:bound(x, { draws = 4000 }).se < list[2].se * 0.7) -- a tenth of the variance, of heavy tails
  end)
end)
