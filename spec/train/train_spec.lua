-- The training loop, standardising, and the measures of calibration.
local pn = require "penumbra"
local nn, optim, train, metrics = pn.nn, pn.optim, pn.train, pn.metrics

local function near(got, want, tolerance)
  assert(math.abs(got - want) <= (tolerance or 1e-12), ("got %.15g, want %.15g"):format(got, want))
end

local function problem()
  pn.seed(21)
  local x = pn.randn { 50, 2 }
  local y = x:matmul(pn.tensor { { 2.0 }, { -1.0 } }) + 0.5
  local net = nn.linear(2, 1)
  local opt = optim.adam(net:parameters(), { lr = 0.1 })
  local function loss(a, b)
    return (net(a) - b):square():mean()
  end
  return { data = { x, y }, loss = loss, optimiser = opt, epochs = 30, batch_size = 20 }, net
end

local function with(t, more)
  for key, value in pairs(more) do
    t[key] = value
  end
  return t
end

describe("fit", function()
  it("trains and tells", function()
    local o, net = problem()
    local s = train.fit(with(o, { epochs = 80 }))
    assert.matches("^a run of 80 epochs, %d+ steps in [%d.]+ s: loss " .. ("%.5g"):format(s.loss):gsub("%p", "%%%0"),
      tostring(s))
    assert.equal(80, #s.history)
    assert.equal(240, s.step)
    assert.is_true(s.loss < 1e-3 and s.loss < s.history[1] / 100)
    near(net:state().bias:item(), 0.5, 0.02)
  end)

  it("is repeatable by seed", function()
    local function once()
      return train.fit((problem())).history
    end
    assert.same(once(), once())
  end)

  it("gives the same numbers compiled, whatever changes between epochs", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local function once(compile)
        pn.seed(3)
        local o = { dtype = dtype }
        local x = pn.randn({ 50, 3 }, o)
        local y = x[{ {}, 1 }]:sin() + pn.randn({ 50 }, o) * 0.1
        local net = nn.sequential { nn.bayes_linear(3, 8, o), nn.tanh(), nn.bayes_linear(8, 1, o) }
        local opt, beta, runs = optim.adam(net:parameters(), { lr = 0.02 }), 1, { n = 0 }
        local s = train.fit {
          data = { x, y }, batch_size = 20, epochs = 12, optimiser = opt, model = net, compile = compile,
          schedule = optim.warmup(5, optim.cosine(0.02, 0.001, 30)), generator = pn.generator(4),
          loss = function(a, b)
            runs[#runs + 1] = true
            local ll = (b - net(a):squeeze(2)):square() * (-0.5 * beta)
            return pn.infer.elbo { log_likelihood = ll, kl = net:kl(), num_data = 50 } * (-1 / 50)
          end,
          validate = function()
            return -(y - net:mean(x):squeeze(2)):square():mean():item()
          end,
          on_epoch = function(t)
            beta = t.epoch < 6 and 1 or 2
          end,
        }
        s.seconds = nil
        return s, net:state(), opt:state(), pn.rng_state(), #runs
      end
      local s, net, opt, place, runs = once(false)
      local s2, net2, opt2, place2, runs2 = once(true)
      assert.same(s, s2)
      assert.same(place, place2)
      assert.equal(36, runs)
      assert.equal(4, runs2) -- two sizes of minibatches, two values of beta
      for key, t in pairs(net) do
        assert.same(t:totable(), net2[key]:totable())
      end
      for key, t in pairs(opt) do
        assert.same(t:totable(), opt2[key]:totable())
      end
    end
  end)

  it("refuses to compile a loss that reads", function()
    local o, net = problem()
    o.loss = function(a, b)
      local e = (net(a) - b):square():mean()
      return e:item() > 0 and e or e * 2
    end
    local ok, message = pcall(train.fit, with(o, { compile = true }))
    assert.is_false(ok)
    assert.matches("train_spec.lua:%d+: compile: item reads a value", message)
  end)

  it("stops when validation does not get better, and puts the best parameters back", function()
    local o, net = problem()
    local best
    local s = train.fit(with(o, {
      model = net, patience = 3,
      validate = function(epoch)
        if epoch == 5 then
          best = net:state().weight:totable()
        end
        return -math.abs(epoch - 5)
      end,
    }))
    assert.equal(8, s.epoch)
    assert.equal(5, s.best_epoch)
    assert.is_true(s.stopped)
    assert.same(best, net:state().weight:totable())
  end)

  it("sets the rate of the schedule, and stops when on_epoch says so", function()
    local o = problem()
    local s = train.fit(with(o, {
      schedule = optim.decay(0.1, 0.5, 3),
      on_epoch = function(now)
        return now.epoch < 2
      end,
    }))
    assert.equal(2, s.epoch)
    near(o.optimiser.lr, 0.05)
  end)

  it("passes an error on and can be continued", function()
    local o, net = problem()
    local before
    local ok, message = pcall(train.fit, with(o, {
      on_epoch = function()
        before = net:state().weight:totable()
        error "interrupted"
      end,
    }))
    assert.is_false(ok)
    assert.matches("interrupted", message)
    assert.same(before, net:state().weight:totable())
    o.on_epoch = nil
    assert.is_true(train.fit(o).loss < 0.5)
  end)

  it("writes its progress", function()
    local text = {}
    local file = { write = function(_, ...) text[#text + 1] = table.concat { ... } end, flush = function() end }
    train.fit(with(problem(), { progress = file, epochs = 3 }))
    assert.matches("training  100 %%  9/9  epoch 3  loss %d", table.concat(text))
  end)

  it("refuses what does not fit, by name", function()
    local o = problem()
    local ok, message = pcall(train.fit, with(o, { epoch = 3 }))
    assert.is_false(ok)
    assert.matches("unknown option 'epoch', did you mean 'epochs'", message)
    o.epoch = nil
    ok, message = pcall(train.fit, with(o, { data = { pn.zeros { 3 }, pn.zeros { 4 } } }))
    assert.is_false(ok)
    assert.matches("data%[2%] must have 3 rows like data%[1%], got 4", message)
  end)

  it("refuses each option that makes no sense, at the script's line, and trains nothing", function()
    local function score() return 1 end
    for _, case in ipairs {
      { "epochs must be a whole number from 1 on, got 0", epochs = 0 },
      { "epochs must be a whole number from 1 on, got %-1", epochs = -1 },
      { "epochs must be a whole number from 1 on, got 1.5", epochs = 1.5 },
      { "epochs must be a number, got %-?nan", epochs = 0 / 0 },
      { "epochs must be a whole number from 1 on, got inf", epochs = math.huge },
      { "batch_size must be a whole number from 1 on, got 0", batch_size = 0 },
      { "batch_size must be a whole number from 1 on, got %-5", batch_size = -5 },
      { "batch_size must be a whole number from 1 on, got 2.5", batch_size = 2.5 },
      { "batch_size must be a number, got 'all'", batch_size = "all" },
      { "validate_every must be a whole number from 1 on, got 0", validate_every = 0, validate = score },
      { "patience must be a whole number from 1 on, got 0", patience = 0, validate = score },
      { "patience must be a number, got %-?nan", patience = 0 / 0, validate = score },
      { "patience is only used with validate", patience = 3 },
      { "validate_every is only used with validate", validate_every = 3 },
      { "model is only used with validate", model = nn.linear(1, 1) },
      { "model must hold parameters, got number", model = 3, validate = score },
      { "model must hold parameters, got userdata", model = nn.relu(), validate = score },
      { "optimiser must be an optimiser, .* got a table", optimiser = {} },
      { "optimiser must be an optimiser, .* got 'adam'", optimiser = "adam" },
      { "progress must be true, false or a file, got 1", progress = 1 },
      { "generator must be a pn.generator, got 3", generator = 3 },
      { "compile must be true or false, got 1", compile = 1 },
      { "schedule must be a function, got 0.1", schedule = 0.1 },
      { "schedule must return a number, the learning rate, got nil", schedule = function() end },
      { "data must have at least 1 row, got 0", data = pn.zeros { 0, 2 } },
    } do
      local o, net = problem()
      local before = net:state()
      local what = table.remove(case, 1)
      local ok, message = pcall(function() return train.fit(with(o, case)), nil end)
      assert.is_false(ok, what)
      assert.matches("fit: " .. what, message)
      if not case.schedule then -- runs inside
        assert.matches("train_spec.lua:%d+: fit: ", message)
      end
      assert.same(before.weight:totable(), net:state().weight:totable())
    end
  end)

  it("takes all data at once without a batch_size, and a larger one than the data", function()
    for _, size in ipairs { false, 50, 1000 } do
      local s = train.fit(with(problem(), { epochs = 3, batch_size = size or nil }))
      if size then
        assert.equal(3, s.step)
      end
    end
    local o = problem()
    o.batch_size = nil
    assert.equal(30, train.fit(o).step)
  end)

  it("puts the best parameters of a flow or a list back, too", function()
    pn.seed(2)
    local d = pn.dist.normal(pn.param(pn.zeros {}), 1)
    local net = nn.module { parts = { d }, forward = function() end }
    for _, model in ipairs { d, { d }, net } do
      local best
      train.fit { data = pn.randn { 10 } + 3, loss = function(x) return -d:log_prob(x):mean() end,
        optimiser = optim.sgd(model, { lr = 0.1 }), epochs = 6, model = model,
        validate = function(epoch)
          best = epoch == 2 and d.loc:item() or best
          return -math.abs(epoch - 2)
        end }
      assert.equal(best, d.loc:item())
    end
  end)
end)

describe("metrics", function()
  local loc, scale = pn.tensor { { 0.0, 1.0 }, { 2.0, 1.5 } }, pn.tensor { { 1.0 }, { 0.5 } }
  local y = pn.tensor { 0.3, 1.2 }

  local function density(v, m, s)
    return math.exp(-0.5 * ((v - m) / s) ^ 2) / (s * math.sqrt(2 * math.pi))
  end

  it("mixture_log_prob is the log of the mean density", function()
    local got = metrics.mixture_log_prob(y, loc, scale):totable()
    near(got[1], math.log((density(0.3, 0, 1) + density(0.3, 2, 0.5)) / 2), 1e-12)
    near(got[2], math.log((density(1.2, 1, 1) + density(1.2, 1.5, 0.5)) / 2), 1e-12)
  end)

  it("mixture_cdf integrates it, mixture_quantile inverts it", function()
    local total, step = 0, 1e-3
    for k = 0, 8000 - 1 do
      local v = -7.7 + (k + 0.5) * step
      total = total + step * (density(v, 0, 1) + density(v, 2, 0.5)) / 2
    end
    near(metrics.mixture_cdf(y, loc, scale):totable()[1], total, 1e-6)
    for _, p in ipairs { 0.001, 0.25, 0.5, 0.95 } do
      local q = metrics.mixture_quantile(p, loc, scale)
      for _, u in ipairs(metrics.mixture_cdf(q, loc, scale):totable()) do
        near(u, p, 1e-12)
      end
    end
  end)

  it("coverage of a calibrated prediction is the level, within 6 standard errors", function()
    pn.seed(23)
    local n = 20000
    local centre = pn.randn { 1, n }
    local data = (centre + pn.randn { 1, n } * 0.7):reshape { n }
    for _, level in ipairs { 0.5, 0.9 } do
      local error = math.sqrt(level * (1 - level) / n)
      near(metrics.coverage(metrics.mixture_cdf(data, centre, 0.7), level), level, 6 * error)
      local narrow = metrics.coverage(metrics.mixture_cdf(data, centre, 0.5), level)
      assert.is_true(narrow < level - 6 * error) -- overconfidence shows
    end
    near(metrics.rmse(pn.tensor { 1.0, 2.0 }, pn.tensor { 4.0, 6.0 }), math.sqrt(12.5))
  end)

  it("refuse shapes that would stretch, by name and at the script's line", function()
    local column = pn.zeros { 2, 1 }
    for _, case in ipairs {
      { "rmse: y and prediction must have one shape, got %[2%] and %[2, 1%]", metrics.rmse, y, column },
      { "rmse: y and prediction must have one shape, got %[2%] and %[1%]", metrics.rmse, y, pn.zeros { 1 } },
      { "rmse: y and prediction must have one shape, got %[2%] and %[%]", metrics.rmse, y, pn.tensor(1) },
      { "rmse: prediction must be a tensor, got 1", metrics.rmse, y, 1 },
      { "mixture_log_prob: shapes must be y %[N%] .*, got %[2, 1%] and", metrics.mixture_log_prob, column, loc, scale },
      { "mixture_log_prob: scale must .* shape %[2, 2%], got %[3%]", metrics.mixture_log_prob, y, loc, pn.ones(3) },
      { "mixture_log_prob: scale must .* shape %[1, 2%], got %[2, 1%]", metrics.mixture_log_prob, y, pn.ones(1, 2),
        scale },
      { "mixture_log_prob: scale must be a number, got nil", metrics.mixture_log_prob, y, loc },
      { "mixture_cdf: scale must .* got %[1, 2, 2%]", metrics.mixture_cdf, y, loc, pn.ones(1, 2, 2) },
      { "mixture_cdf: y must be a tensor, got nil", metrics.mixture_cdf, nil, loc, scale },
      { "mixture_quantile: loc must have shape %[S, N%], got %[2%]", metrics.mixture_quantile, 0.5, y, 1 },
      { "mixture_quantile: scale must .* got %[3%]", metrics.mixture_quantile, 0.5, loc, pn.ones(3) },
      { "coverage: level must be a number, got nil", metrics.coverage, y },
      { "coverage: level must lie between 0 and 1, got 90", metrics.coverage, y, 90 },
      { "elbo: log_q must have shape %[K, 2%], got %[2, 1%]", pn.infer.elbo, y, column },
    } do
      local ok, message = pcall(function() return case[2](case[3], case[4], case[5]), nil end)
      assert.is_false(ok, case[1])
      assert.matches("train_spec.lua:%d+: " .. case[1], message)
    end
    assert.equal(0, metrics.rmse(pn.ones { 3, 1 }, pn.ones { 3, 1 }))
  end)
end)
