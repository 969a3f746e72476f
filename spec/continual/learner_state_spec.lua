-- A learner's state: observe is all or nothing, what is saved goes on to the same bits, and what cannot be learned from
-- is refused by name.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local continual, nn = pn.continual, pn.nn

local function network(dtype)
  return nn.sequential { nn.linear(2, 4, { dtype = dtype }), nn.tanh(), nn.linear(4, 3, { dtype = dtype }) }
end

local function new(more)
  local given = { network = network(), likelihood = "categorical", seed = 5, memory = { size = 4 },
    forget = continual.bayesian_forgetting { rate = 0.1, lag = 2 }, steps = { first = 60, later = 40 },
    draws = { train = 3, sites = 50, predict = 20 } }
  for name, value in pairs(more or {}) do given[name] = value end
  return continual.learner(given)
end

local g = pn.generator(2)
local xs, ys = {}, {}
for k = 1, 3 do
  xs[k] = pn.randn({ k == 1 and 12 or 5, 2 }, { generator = g })
  ys[k] = (xs[k]:slice(2, 1, 1):gt(0):to "int64" + xs[k]:slice(2, 2, 2):gt(0):to "int64"):squeeze(2)
end

-- Everything that a learner knows, as tables of numbers.
local function all(learner)
  local memory = learner.memory
  return { learner.step, learner.time, learner.posterior.precision:totable(),
    learner.posterior.precision_mean:totable(), learner.projection.precision:totable(),
    learner.projection.precision_mean:totable(), learner.noise_scale, learner.counts,
    memory and { memory.x:totable(), memory.y:totable(), memory.age:totable() } }
end

local function fed(learner, from, to)
  for k = from, to do learner:observe(xs[k], ys[k], 1.5 * k) end
  return learner
end

describe("a batch", function()
  it("that cannot be learned from is refused by name, and nothing has changed", function()
    local learner = fed(new(), 1, 1)
    local before = all(learner)
    local x, y = xs[2], ys[2]
    local nan = pn.full({ 5, 2 }, 0 / 0)
    for _, case in ipairs {
      { "x must be a tensor, got nil" },
      { "x must have shape %[N, 2%] with N > 0, got %[5, 3%]", pn.zeros { 5, 3 }, y },
      { "x must have shape %[N, 2%] with N > 0, got %[0, 2%]", pn.zeros { 0, 2 }, y },
      { "x must be float64, as the network is, got float32", x:to "float32", y },
      { "x must be finite", nan, y }, { "y must be a tensor", x, 3 },
      { "y must be classes, int64 of shape %[5%]", x, pn.zeros { 5 } },
      { "y must be classes, int64 of shape %[5%]", x, ys[1] },
      { "y must be classes from 0 to 2, got 0 to 3", x, pn.tensor({ 0, 1, 2, 3, 0 }, { dtype = "int64" }) },
      { "time must be a finite number, got string", x, y, "now" }, { "time must be a finite number", x, y, 0 / 0 },
      { "time must not run back: the batch before was of 1.5, got 1", x, y, 1 },
    } do
      assert.matches("observe: " .. case[1], message_of(learner.observe, learner, case[2], case[3], case[4]))
    end
    assert.same(before, all(learner))
    assert.same(all(fed(new(), 1, 2)), all(fed(learner, 2, 2)))
    local regression = continual.learner { network = nn.linear(2, 1), likelihood = "normal", noise = 1 }
    assert.matches("y must be finite", message_of(regression.observe, regression, x, nan:slice(2, 1, 1)))
    local two = continual.learner { network = nn.linear(2, 1), likelihood = "bernoulli" }
    assert.matches("y must be 0 or 1", message_of(two.observe, two, x, pn.full({ 5 }, 2)))
  end)

  it("of another form than those before is refused", function()
    local own = continual.learner { network = network(), likelihood = function(f, y) return (f * y):sum(3) end,
      memory = { size = 2 }, steps = { first = 5 }, draws = { sites = 5, predict = 5 }, seed = 1 }
    own:observe(xs[2], pn.ones { 5, 3 })
    assert.matches("y must be float64 of shape %[N, 3%] as in the batches before, got float64 of shape %[5%]",
      message_of(own.observe, own, xs[2], pn.ones { 5 }))
  end)
end)

describe("observe", function()
  it("that fails in the middle leaves the step before, and repeated gives what it would have given", function()
    for _, more in ipairs { {}, { update = "refit", memory = { size = 4, select = "k_center" } },
      { update = "refit" }, { likelihood = "normal", noise = { learn = true }, update = "refit" } } do
      local stop
      local function made(progress)
        local given = { progress = progress }
        for name, value in pairs(more) do given[name] = value end
        return new(given)
      end
      local learner = made(function(stage, done)
        if stop == stage and done > 10 then error("stopped", 0) end
      end)
      local classes, plain = ys, made()
      if more.likelihood then
        ys = {}
        for k, x in ipairs(xs) do ys[k] = pn.concatenate({ x, x:slice(2, 1, 1) }, 2):sin() end
      end
      fed(learner, 1, 1)
      local before, p = all(learner), learner:predict(xs[3])
      for _, stage in ipairs(more.update and { "projection", more.memory and "second projection" or "refit" }
        or { "projection" }) do
        stop = stage
        assert.equal("stopped", message_of(learner.observe, learner, xs[2], ys[2], 3))
        assert.same(before, all(learner))
      end
      stop = nil
      local again = learner:predict(xs[3])
      assert.same(p.variance:totable(), again.variance:totable())
      fed(learner, 2, 3)
      fed(plain, 1, 3)
      assert.same(all(plain), all(learner))
      ys = classes
    end
  end)

  it("shows a line that counts the steps of each stage", function()
    local written, stderr = {}, io.stderr
    local paper = { flush = function() end }
    function paper:write(...)
      for _, text in ipairs { ... } do written[#written + 1] = text end
      return self
    end
    io.stderr = paper -- luacheck: ignore
    local ok, message = pcall(function()
      fed(new { progress = true, update = "refit", memory = { size = 4, select = "k_center" } }, 1, 2)
    end)
    io.stderr = stderr -- luacheck: ignore
    assert(ok, message)
    local counted = {}
    for line in table.concat(written):gmatch "[^\n]+" do
      local stage, percent, done, total = line:match "^(%l[%l ]*%l) +(%d+) %%  (%d+)/(%d+)  elbo "
      if not done or tonumber(done) >= tonumber(total) then -- (a slow machine writes lines on the way)
        counted[#counted + 1] = percent == "100" and done == total and stage or line
      end
    end
    assert.same({ "projection", "second projection", "projection", "second projection" }, counted)
  end)

  it("under a limit of memory does the same", function()
    local learner = fed(new(), 1, 1)
    local before = all(learner)
    local failed = 0
    for room = 10, 20 do
      collectgarbage()
      collectgarbage()
      pn.memory_limit(pn.memory() + (1 << room))
      local ok, message = pcall(learner.observe, learner, xs[2], ys[2], 3)
      pn.memory_limit(0)
      if ok then break end
      failed = failed + 1
      assert.matches("memory", message)
      assert.same(before, all(learner))
    end
    assert(failed >= 3 and learner.step == 2, failed)
    assert.same(all(fed(new(), 1, 2)), all(learner))
  end)

  it("stands apart from predictions and from the default generator", function()
    local one, other = new(), new()
    for k = 1, 3 do
      fed(one, k, k)
      pn.seed(k)
      other:predict(xs[1])
      other:log_predictive(xs[1], ys[1], { draws = 7 })
      pn.no_grad(function() fed(other, k, k) end)
    end
    assert.same(all(one), all(other))
  end)

  it("reports what it did", function()
    local learner = new()
    local first, second = learner:observe(xs[1], ys[1], 10), learner:observe(xs[2], ys[2], 14)
    assert.same({ 0, 10, 0, 12, 1 }, { first.step, first.time, first.elapsed, first.num_new, first.weight })
    assert.same({ 1, 14, 4, 5 }, { second.step, second.time, second.elapsed, second.num_new })
    assert.near(0.9 ^ 2, second.weight, 1e-15)
    assert.same({ 12 }, first.scores:shape())
    assert.same({ 9 }, second.scores:shape())
    assert.equal(20, #first.elbo.curve)
    assert(first.elbo.last > first.elbo.first)
    assert.equal(4, second.memory.kept_new + second.memory.kept_old)
    assert.equal("string", type(second.method))
    assert.equal("number", type(second.log_predictive_before))
    for _, stage in ipairs { "predict", "projection", "sites", "scores", "update" } do
      assert(second.seconds[stage] >= 0)
    end
    assert.equal("learner{27 weights, step 2, memory 4}", tostring(learner))
    assert.equal(16, learner:observe(xs[3], ys[3]).time) -- the lag
  end)
end)

describe("a step", function()
  it("tells what of the memory is new, how old its data are, and what exceeded the guards", function()
    local learner = new { memory = { size = 14 } }
    local first = learner:observe(xs[1], ys[1], 10)
    assert.same({ 12, 0, 12 }, { first.memory.kept_new, first.memory.kept_old, #first.memory.ages })
    assert.same({ true, 1 }, { first.memory_exceeds_data, learner.counts.memory_exceeds_data })
    local second = learner:observe(xs[2], ys[2], 14)
    local memory = second.memory
    assert.same({ 14, false, 1 }, { memory.kept_new + memory.kept_old, second.memory_exceeds_data,
      learner.counts.memory_exceeds_data })
    local new_ones = 0
    for _, age in ipairs(memory.ages) do
      assert.is_true(age == 0 or age == 4)
      new_ones = new_ones + (age == 0 and 1 or 0)
    end
    assert.equal(new_ones, memory.kept_new)
    assert.same(memory.ages, learner.memory.age:totable())
    local single = new { memory = { size = 1 } }
    local third = single:observe(xs[1], ys[1], 10).memory
    assert.same({ 1, 0, { 0 } }, { third.kept_new, third.kept_old, third.ages })
    -- as many data as the memory holds: it exceeds them
    assert.is_true(new({ memory = { size = 12 } }):observe(xs[1], ys[1]).memory_exceeds_data)
    local bias = math.max(first.bias.precision, first.bias.mean)
    for factor, want in pairs { [1 - 1e-9] = true, [1] = false, [1 + 1e-9] = false } do
      local l = new { memory = { size = 14 }, guard = { unconverged = bias * factor } }
      assert.same({ want, want and 1 or 0 }, { l:observe(xs[1], ys[1], 10).unconverged, l.counts.unconverged })
    end
    local without = continual.learner { network = network(), likelihood = "categorical", seed = 5, steps = { first = 6,
      later = 4 }, draws = { train = 3, predict = 20 } }
    local report = without:observe(xs[1], ys[1])
    assert.same({ "projection", 0, 0, 0, false }, { report.method, report.clipped, report.time, report.elapsed,
      report.memory_exceeds_data })
    assert.same({ {}, 0, 0 }, { report.memory.ages, report.memory.kept_new, report.memory.kept_old })
    assert.same({ 1, 1, 1 }, { without:observe(xs[2], ys[2]).time, without.time, report.weight })
    assert.same({ "learner{27 weights, step 2, memory 0}", 2 }, { tostring(without), without.step })
    assert.matches("observe: time must not run back: the batch before was of 1, got 0.5", message_of(without.observe,
      without, xs[3], ys[3], 0.5))
    for _, time in ipairs { 0 / 0, math.huge, "1" } do
      assert.matches("observe: time must be a finite number, got ", message_of(without.observe, without, xs[3], ys[3],
        time))
    end
    assert.same({ 1, 0 }, { without:observe(xs[3], ys[3], 1).time, without:observe(xs[3], ys[3], 1).elapsed })
  end)
end)

describe("a file", function()
  local path = os.tmpname()
  after_each(function() os.remove(path) end)

  it("goes on to the same bits", function()
    local own = function(f, y) return -((f - y):square():sum(3)) end
    local targets = {}
    for k, x in ipairs(xs) do targets[k] = pn.concatenate({ x, x:slice(2, 1, 1) }, 2):sin() end
    for _, case in ipairs { { {} }, { { memory = false, forget = continual.wiener { rate = 0.2, lag = 3 } } },
      { { memory = false, forget = continual.wiener { variance_rate = 0.2, lag = 3 }, prior = 0.5,
        optimiser = { prior_units = true } } },
      { { likelihood = "normal", noise = { learn = true, initial = 0.3 }, network = network "float32" } },
      { { likelihood = own, update = "refit", memory = { size = 3, select = "random" } } } } do
      local more = case[1]
      more.memory = more.memory ~= false and (more.memory or { size = 4 }) or { size = 0 }
      local classes = ys
      if more.likelihood then
        ys = {}
        for k, t in ipairs(targets) do ys[k] = more.network and t:to "float32" or t end
      end
      local inputs = xs
      if more.network then
        xs = {}
        for k, x in ipairs(inputs) do xs[k] = x:to "float32" end
      end
      local learner = fed(new(more), 1, 2)
      assert(learner:save(path))
      local net = network(more.network and "float32")
      local loaded = assert(pn.restore(path, { network = net,
        likelihood = type(more.likelihood) == "function" and own or nil }))
      assert.same(all(learner), all(loaded))
      assert.same(learner:log_predictive(xs[3], ys[3]):totable(), loaded:log_predictive(xs[3], ys[3]):totable())
      assert.same(all(fed(learner, 3, 3)), all(fed(loaded, 3, 3)))
      xs, ys = inputs, classes
    end
  end)

  it("before any batch, too", function()
    assert(new():save(path))
    assert.same(all(fed(new(), 1, 1)), all(fed(pn.restore(path, { network = network() }), 1, 1)))
  end)

  it("of something else is refused", function()
    assert(new():save(path))
    assert.matches("restore: network must be as in .* of 1.weight %[2, 4%].*, got weight %[2, 3%]",
      message_of(pn.restore, path, { network = nn.linear(2, 3) }))
    assert.matches('restore: likelihood must be absent: that of the learner was "categorical"',
      message_of(pn.restore, path, { network = network(), likelihood = print }))
    local saved = assert(pn.checkpoint.load(path))
    for _, name in ipairs { "options", "step", "projection", "precision", "prior_scale", "counts" } do
      local less = {}
      for key, value in pairs(saved) do less[key] = key ~= name and value or nil end
      assert(pn.checkpoint.save(path, less))
      local got, message, code = pn.restore(path, { network = network() })
      assert.is_nil(got)
      assert.matches("'" .. name .. "' is missing", message)
      assert.equal("format", code)
    end
    assert(pn.checkpoint.save(path, { a = 1 }))
    assert.matches("no learner that learner:save has written", select(2, pn.restore(path,
      { network = network() })))
    local got, message, code = pn.restore("/nowhere/at/all", { network = network() })
    assert.is_nil(got)
    assert.equal("string", type(message))
    assert.equal("io", code)
  end)
end)

describe("options", function()
  it("that are wrong are named", function()
    local twice = nn.linear(2, 2)
    assert.matches('estimator must be "reparametrised" for an activation with a kink', message_of(continual.learner,
      { network = nn.sequential { nn.linear(2, 3), nn.relu(), nn.linear(3, 3) }, likelihood = "categorical",
        estimator = "hessian" }))
    for _, case in ipairs {
      { "option 'network' is required", { network = nil } },
      { "likelihood must be one of .* did you mean 'poisson'", { likelihood = "poison", noise = 0.1 } },
      { "gaussian is called normal", { likelihood = "gaussian", noise = 0.1 } },
      { "noise stands in the likelihood already", { likelihood = nn.likelihood.normal { scale = 1 }, noise = 1 } },
      { "noise must be a positive number", { likelihood = "normal" } },
      { "noise must be a positive number", { likelihood = "normal", noise = -1 } },
      { 'noise is only used with likelihood "normal"', { noise = 1 } },
      { "memory: option 'size' is required", { memory = {} } },
      { "memory.size must be a whole number", { memory = { size = 1.5 } } },
      { "memory: select must be one of", { memory = { size = 1, select = "best" } } },
      { "steps: unknown option 'latre', did you mean 'later'", { steps = { latre = 1 } } },
      { "steps.first must be a whole number", { steps = { first = 0 } } },
      { "draws.sites must be a whole number", { draws = { sites = 0 } } },
      { "optimiser.lr must be above 0", { optimiser = { lr = 0 } } },
      { "initial.share must be above 0 and below 1", { initial = { share = 1 } } },
      { "guard.floor must be above 0", { guard = { floor = 0 } } },
      { "forget must be an adaptation", { forget = 0.1 } }, { "update must be one of", { update = "site" } },
      { "progress must be true, false or a function", { progress = 3 } },
      { "prior of '1.weight' must be a normal distribution", { prior = pn.dist.laplace(0, 1) } },
      { "prior of '1.bias' must be a normal distribution, got none", { prior = { weight = 1, bias = false } } },
      { "the network must be fully connected", { network = nn.sequential { nn.linear(2, 3),
        nn.dropout { rate = 0.5 } } } },
      { "linear layer 2 must have weights of its own", { network = nn.sequential { twice, nn.tanh(), twice } } },
      { 'estimator must be "reparametrised" where', { estimator = "hessian", likelihood = function() end } },
      { "seed must be a whole number", { seed = -1 } },
      { "noise must be a positive number", { likelihood = "normal", noise = math.huge } },
      { "noise must be a positive number", { likelihood = "normal", noise = { learn = true, initial = 0 } } },
      { "memory: size must be a number from 0 on, got %-1", { memory = { size = -1 } } },
      { "draws.train must be a whole number from 1 on, got 0", { draws = { train = 0 } } },
      { "draws.predict must be a whole number from 1 on, got 0", { draws = { predict = 0 } } },
      { "steps.later must be a whole number from 1 on, got 0", { steps = { later = 0 } } },
      { "steps.second must be a whole number from 1 on, got 0", { steps = { second = 0 } } },
      { "optimiser.lr must be above 0, got inf", { optimiser = { lr = math.huge } } },
      { "optimiser.final must be above 0, got 0", { optimiser = { final = 0 } } },
      { "initial.share must be above 0 and below 1, got 0", { initial = { share = 0 } } },
      { "initial.alpha must be above .*, got %-1e%-09", { initial = { alpha = -1e-9 } } },
      { "guard.floor must be above 0 and below 1, got 1.5", { guard = { floor = 1.5 } } },
      { "guard.unconverged must be above 0, got 0", { guard = { unconverged = 0 } } },
    } do
      local given = { network = network(), likelihood = "categorical" }
      for name, value in pairs(case[2]) do given[name] = value end
      if next(case[2]) == nil then given.network = nil end
      assert.matches("learner: " .. case[1], message_of(continual.learner, given))
    end
  end)

  it("that stand at their bounds are taken, and defaults are as they are told", function()
    for _, more in ipairs { { initial = { alpha = 0 } }, { guard = { floor = 1 } }, { memory = { size = 0 } },
      { draws = { train = 1, sites = 1, predict = 1 } }, { steps = { first = 1, later = 1, second = 1 } },
      { forget = false, memory = { size = 2, tempered = false } }, { progress = true }, { seed = 0 } } do
      more.network, more.likelihood = network(), "categorical"
      if more.forget == false then more.forget = nil end
      continual.learner(more)
    end
    for _, name in ipairs { "ornstein_uhlenbeck", "wiener" } do
      local forget = continual[name] { [name == "wiener" and "rate" or "stiffness"] = 0.1 }
      new { forget = forget, memory = { size = 0 } }
      assert.matches(name .. ": memory must be empty", message_of(new, { forget = forget, memory = { size = 1 } }))
    end
    local told = {}
    local learner = new { progress = function(stage, done, steps, elbo)
      assert.equal("number", type(elbo))
      told[stage] = { done, steps }
    end }
    learner:observe(xs[1], ys[1])
    assert.same({ projection = { 60, 60 } }, told)
    learner:observe(xs[2], ys[2])
    assert.same({ projection = { 40, 40 } }, told)
    assert.is_nil(learner.noise_scale)
    local noisy = new { likelihood = "normal", noise = { learn = true }, network = network() }
    assert.near(0.1, noisy.noise_scale, 1e-15)
  end)
end)
