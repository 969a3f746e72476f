-- The learner of variance back-propagation against the worked network of Haussmann (2021) (numbers by hand and by
-- quadrature, to every digit that is given), its terms apart, its methods side by side, its file.
local pn = require "penumbra"
local near = require("spec.helper").within
local nn, dist, infer = pn.nn, pn.dist, pn.infer

-- x = (1, -2), two hidden units, no biases; variances .04 and .09, prior precision 10, noise precision 2.
local function worked(given)
  local o = { network = nn.sequential { nn.linear(2, 2, { bias = false }), nn.relu(), nn.linear(2, 1,
    { bias = false }) }, prior_precision = 10, noise_precision = 2 }
  for name, value in pairs(given or {}) do o[name] = value end
  local m = pn.vbp.learner(o)
  local s = m:state()
  local dtype = m:parameters()[1]:dtype()
  s["net.net.1.weight"] = pn.tensor({ { .5, -.3 }, { -.25, .1 } }, { dtype = dtype })
  s["net.net.3.weight"] = pn.tensor({ { .8 }, { -.6 } }, { dtype = dtype })
  s["net.log_scale.1.weight"] = pn.full({ 2, 2 }, math.log(.2), { dtype = dtype })
  s["net.log_scale.3.weight"] = pn.full({ 2, 1 }, math.log(.3), { dtype = dtype })
  return m:load_state(s)
end

local x, y = pn.tensor { { 1, -2 } }, pn.tensor { 1 }

describe("the worked network", function()
  it("has the mean and variance of its gates, hard and soft, and of moment matching", function()
    for _, case in ipairs { { "vbp", math.huge, .8, .236 }, { "vbp", 10, .801971536982, .237369610249 },
      { "vbp", 100, .8, .236 }, { "clt", math.huge, .783811560787, .237945117744 } } do
      local m, v = worked { method = case[1], sharpness = case[2] }:moments(x)
      near(m, case[3], 1e-12)
      near(v, case[4], 1e-12)
    end
  end)

  it("has the bound, term by term, the noise and the prediction", function()
    local m = worked()
    local b = m:bound(x, y)
    near(b.data, -.848364942925, 1e-12)
    near(b.weights, 7.70044197941, 1e-11)
    near(b.bound, -8.54880692233, 1e-11)
    assert.equal(0, b.gates)
    near(m:log_predictive(x, y), -.792849866122, 1e-12)
    local p = m:predict(x)
    near(p.mean, .8, 1e-14)
    near(p.spread, .236, 1e-14)
    near(p.variance, .736, 1e-14)
    near(infer.noise_precision(pn.ones { 1, 1 }, m:moments(x)), 3.6231884058, 1e-10)
  end)

  it("adds the divergence of its gates, exactly or by (3.9), against Monte Carlo", function()
    for _, how in ipairs { "exact", "approximate" } do
      local m = worked { sharpness = 10, gate_kl = how }
      local want = 0
      for _, at in ipairs { 1, -.5 } do
        want = want + dist.kl_gate(at, .2 ^ .5, 10, { approximate = how == "approximate" }):item()
      end
      local b = m:bound(x, y)
      near(b.gates, want, 1e-12)
      near(b.bound, b.data - b.gates - b.weights, 1e-13)
    end
    -- E softplus(C a) - softplus(C m), a drawn from the two pre-activations
    local a = pn.tensor { 1, -.5 } + pn.randn({ 400000, 2 }, { generator = pn.generator(3) }) * .2 ^ .5
    local each = ((a * 10):softplus() - (pn.tensor { 10, -5 }):softplus()):sum(2)
    local estimate, error = each:mean():item(), each:std():item() / 400000 ^ .5
    assert.is_true(error < .01)
    near(worked { sharpness = 10, gate_kl = "exact" }:bound(x, y).gates, estimate, 6 * error)
  end)

  it("sums gates over layers, both of three pieces, through branches and beside covariances", function()
    pn.seed(6)
    local body = nn.sequential { nn.linear(3, 3), nn.hard_tanh { low = -.5, high = 2 }, nn.linear(3, 3) }
    local net = nn.sequential { nn.linear(2, 3), nn.leaky_relu { slope = .1 }, nn.residual(body), nn.linear(3, 1) }
    local m = pn.vbp.learner { network = net, sharpness = 4, gate_kl = "exact", log_variance = -2, start = "network" }
    local input, rule = pn.randn { 5, 2 }, { rule = "identity_heaviside", sharpness = 4 }
    local function layer(name, mean, v)
      local w, b = m.net:posterior(name .. ".weight"), m.net:posterior(name .. ".bias")
      local out = mean:square():matmul(w:variance()) + b:variance()
      out = v and out + v:matmul(w:variance() + w:mean():square()) or out
      return mean:matmul(w:mean()) + b:mean(), out
    end
    local f, v = layer("1", input)
    local want = dist.kl_gate(f, v:sqrt(), 4):sum():item()
    rule.slope = .1
    f, v = layer("3.body.1", nn.leaky_relu(rule):moments(f, v))
    want = want + dist.kl_gate(f - 2, v:sqrt(), 4):sum():item() + dist.kl_gate(-.5 - f, v:sqrt(), 4):sum():item()
    near(m:bound(input, pn.zeros { 5, 1 }).gates, want, 1e-10 * want)
    -- covariances change nothing at the first gates
    local costs = {}
    for k, structure in ipairs { "diagonal", "full" } do
      costs[k] = pn.vbp.learner { network = nn.mlp({ 2, 4, 1 }, { activation = "relu" }), seed = 1, sharpness = 4,
        gate_kl = "exact", structure = structure }:bound(input, pn.zeros { 5, 1 }).gates
    end
    near(costs[1], costs[2], 1e-12)
  end)

  it("computes in float32 when its network does", function()
    local how = { bias = false, dtype = "float32" }
    local m = worked { network = nn.sequential { nn.linear(2, 2, how), nn.relu(), nn.linear(2, 1, how) } }
    local mean, v = m:moments(x:to "float32")
    assert.equal("float32", v:dtype())
    near(mean, .8, 1e-6)
    near(v, .236, 1e-6)
    near(m:bound(x:to "float32", y:to "float32").bound, -8.54880692233, 1e-5)
    assert.error_matches(function() m:moments(x) end, "moments: x must be float32")
  end)
end)

describe("a prior of weights", function()
  local rows = require "penumbra.vbp.weight_prior"
  local golden = dofile "spec/golden/vbp/weight_priors.lua"

  it("log-uniform is quadrature's, and Molchanov's formula is near it", function()
    for _, c in ipairs(golden.log_uniform) do
      local loc, log_scale = pn.tensor(c[1] + 0.0), pn.tensor(math.log(c[2]))
      near(rows.log_uniform.kl(loc, log_scale), c[3], 1e-13 * (1 + c[3]))
      near(rows.log_uniform.kl(-loc, log_scale), c[3], 1e-13 * (1 + c[3]))
      near(rows.log_uniform_approximate.kl(loc, log_scale), c[3], 5e-3)
    end
  end)

  it("horseshoe is the least divergence of its hierarchy, and no less than the marginal's", function()
    for _, c in ipairs(golden.horseshoe) do
      local value = rows.horseshoe.kl(pn.tensor(c[1] + 0.0), pn.tensor(math.log(c[2])), c[3])
      near(value, c[4], 1e-12)
      assert.is_true(value:item() >= c[5])
    end
  end)

  it("has gradients in mean and scale, and counts every weight once in the bound", function()
    local loc, log_scale = pn.param(pn.tensor { .3, -1.2, 0.01 }), pn.param(pn.tensor { -.5, -2, .4 })
    for name, row in pairs(rows) do
      assert.is_true(pn.check_gradients(function() return row.kl(loc, log_scale, .7):sin():sum() end,
        { loc, log_scale }).error < 1e-6, name)
      if row.log_prob then
        assert(pn.check_gradients(function() return row.log_prob(loc, .7):sin():sum() end, { loc }))
        near((row.log_prob(loc, .7) - pn.dist[name](0, .7):log_prob(loc)):abs():max(), 0, 1e-12, name)
      end
      local m = worked { prior = name }
      local want = 0
      for _, w in ipairs { { .5, .2 }, { -.3, .2 }, { -.25, .2 }, { .1, .2 }, { .8, .3 }, { -.6, .3 } } do
        want = want + row.kl(pn.tensor(w[1]), pn.tensor(math.log(w[2])), 10 ^ -.5):item()
      end
      near(m:bound(x, y).weights, want, 1e-12, name)
      near(m.net:kl(), want, 1e-12, name)
    end
  end)
end)

describe("the start of a learner", function()
  local function big(given)
    local o = { network = nn.sequential { nn.conv2d(3, 40, { kernel = 5 }), nn.relu(), nn.flatten(),
      nn.linear(640, 300), nn.relu(), nn.linear(300, 10) }, likelihood = "categorical", seed = 4 }
    for name, value in pairs(given or {}) do o[name] = value end
    return pn.vbp.learner(o)
  end

  it("has means of variance 2 / fan-in, logarithms of variances around -9, biases of 0", function()
    for start, factor in pairs { he = 2, lecun = 1 } do
      local s = big { start = start }:state()
      for name, fan in pairs { ["1.weight"] = 75, ["4.weight"] = 640, ["6.weight"] = 300 } do
        local w = s["net.net." .. name]
        local n = w:numel()
        near(w:square():mean() * fan / factor, 1, 6 * (2 / n) ^ .5, name)
        near(w:mean() * (fan / factor) ^ .5, 0, 6 / n ^ .5, name)
        local l = s["net.log_scale." .. name] * 2
        near(l:mean(), -9, 6e-3 / n ^ .5, name)
        near(l:std() / 1e-3, 1, 6 * (.5 / n) ^ .5, name)
      end
      assert.equal(0, s["net.net.1.bias"]:abs():max():item())
    end
  end)

  it("is the same for each method with the same seed, and stays where it is told to", function()
    local one = big():state()
    for _, method in ipairs { "clt", "local", "dropout", "map" } do
      local other = big { method = method }:state()
      local prefix = (method == "clt" or method == "local") and "net.net." or "net."
      assert.equal(0, (one["net.net.4.weight"] - other[prefix .. "4.weight"]):abs():max():item())
    end
    local net = nn.linear(3, 2)
    local before = net:state()
    local m = pn.vbp.learner { network = net, start = "network" }
    assert.same(before.weight:totable(), m:state()["net.net.weight"]:totable())
  end)

  it("keeps biases certain where it is told to", function()
    local s = big { bias = "certain" }:state()
    assert.is_nil(s["net.log_scale.1.bias"])
    assert.is_not_nil(s["net.log_scale.1.weight"])
    assert.is_not_nil(big():state()["net.log_scale.1.bias"])
  end)
end)

describe("a learner", function()
  local g = pn.generator(8)
  local inputs = pn.randn({ 120, 2 }, { generator = g })
  local real = inputs[{ {}, 1 }] * 2 - inputs[{ {}, 2 }]:abs() + pn.randn({ 120 }, { generator = g }) * .2
  local labels = (inputs[{ {}, 1 }]:gt(0):to "int64" + inputs[{ {}, 2 }]:gt(.5):to "int64")

  local function make(given)
    local likelihood = given.likelihood or "normal"
    local o = { network = nn.mlp({ 2, 16, likelihood == "normal" and 1 or 3 }, { activation = "relu" }), seed = 5,
      rate = .05, lr = .02, draws = 40 }
    for name, value in pairs(given) do o[name] = value end
    return pn.vbp.learner(o), likelihood == "normal" and real or labels
  end

  it("learns by every method and likelihood, better than knowing nothing", function()
    for _, method in ipairs(pn.vbp.method()) do
      for _, likelihood in ipairs { "normal", "categorical", "probit" } do
        local m, target = make { method = method, likelihood = likelihood }
        local run = m:fit { data = { inputs, target }, epochs = 60, batch_size = 30, seed = 2 }
        assert.is_true(run.history[60] < run.history[1], method .. " " .. likelihood)
        local error = m:error_rate(inputs, target):item()
        assert.is_true(error < (likelihood == "normal" and .5 or .12), ("%s %s %g"):format(method, likelihood, error))
        local least = { normal = -1, categorical = -.4, probit = -.7 }
        assert.is_true(m:log_predictive(inputs, target):mean():item() > least[likelihood], method .. " " .. likelihood)
      end
    end
  end)

  it("sets the noise of all training data after each epoch, unless it is fixed", function()
    for _, method in ipairs { "vbp", "clt", "map" } do
      local m = make { method = method }
      m:fit { data = { inputs, real }, epochs = 3, batch_size = 50, seed = 1 }
      local mean, v = m:moments(inputs)
      near(m.noise_precision, 1 / ((real:unsqueeze(2) - mean):square() + v):mean():item(), 1e-9, method)
      local fixed = make { method = method, learn_noise = false, noise_precision = 3 }
      fixed:fit { data = { inputs, real }, epochs = 1, batch_size = 50 }
      near(fixed.noise_precision, 3, 0)
    end
  end)

  it("steps on the noise that was set: compiled as eager, to the bit", function()
    local values = {}
    for k, compile in ipairs { true, false } do
      local m = make {}
      m:fit { data = { inputs, real }, epochs = 3, batch_size = 50, seed = 1, compile = compile }
      values[k] = m:state()
    end
    for name, t in pairs(values[1]) do near((t - values[2][name]):abs():max(), 0, 0, name) end
  end)

  it("scales the data term to all data: one step of all batches' means is that of the bound", function()
    for _, given in ipairs { {}, { sharpness = 6, gate_kl = "exact" }, { sharpness = 6, gate_kl = "approximate" },
      { method = "clt" }, { method = "map" }, { structure = "full" }, { prior = "horseshoe" } } do
      given.learn_noise = false
      local m = make(given)
      local opt = pn.optim.sgd(m:parameters(), { lr = 0 })
      local run = m:fit { data = { inputs, real }, epochs = 1, batch_size = 40, optimiser = opt }
      near(run.loss, -m:bound(inputs, real).bound / 120, 1e-12)
    end
  end)

  it("puts a point's penalty at -log p of its weights", function()
    local m = make { method = "map", prior_precision = 3, bias = "certain" }
    local want = 0
    for name, t in pairs(m:state()) do
      if name:find "weight$" then want = want - dist.normal(0, 3 ^ -.5):log_prob(t):sum():item() end
    end
    near(m:bound(inputs, real).weights, want, 1e-10)
  end)

  it("drops units in predictions, at its rate, and none with a rate of 0", function()
    local m = make { method = "dropout", rate = .4 }
    local s, point = m:state(), inputs:slice(1, 1, 3)
    local h = (point:matmul(s["net.1.weight"]) + s["net.1.bias"]):relu()
    local each = h:square():matmul(s["net.3.weight"]:square()) * (.4 / .6) -- variance of a sum of dropped units
    local _, v = m:moments(point, { draws = 8000 })
    assert.is_true((v / each - 1):abs():max():item() < .15)
    near(make { method = "dropout", rate = 0 }:draws(point, { draws = 5 }):var(1):max(), 0, 1e-28)
  end)

  it("raises its bound epoch by epoch, by small steps on all data and by the noise that it sets", function()
    for _, sharpness in ipairs { math.huge, 8 } do
      local m = make { sharpness = sharpness, lr = 1e-3 }
      local before = m:bound(inputs, real).bound
      local fell = 0
      for _ = 1, 60 do
        m:fit { data = { inputs, real }, epochs = 1 }
        local now = m:bound(inputs, real).bound
        fell = fell + (now < before and 1 or 0)
        before = now
      end
      assert.equal(0, fell)
    end
  end)

  it("comes near what is known of its data: the log-likelihood of the law that made them", function()
    local g2 = pn.generator(31)
    local function data(n)
      local a = pn.randn({ n, 1 }, { generator = g2 })
      return a, a:abs():squeeze(2) * 2 - 1 + pn.randn({ n }, { generator = g2 }) * .3
    end
    local train_x, train_y = data(500)
    local test_x, test_y = data(500)
    local known = pn.dist.normal(test_x:abs():squeeze(2) * 2 - 1, .3):log_prob(test_y):mean():item()
    for _, method in ipairs { "vbp", "clt", "local" } do
      local m = pn.vbp.learner { network = nn.mlp({ 1, 20, 1 }, { activation = "relu" }), method = method, seed = 1,
        draws = 50 }
      m:fit { data = { train_x, train_y }, epochs = 150, batch_size = 50, lr = .01, seed = 1 }
      local ll = m:log_predictive(test_x, test_y):mean():item()
      assert.is_true(ll > known - .05 and ll < known + .02, ("%s %g, known %g"):format(method, ll, known))
    end
  end)

  it("goes on from where it stands with the Adam it had", function()
    local whole, halves = make {}, make {}
    whole:fit { data = { inputs, real }, epochs = 6, seed = 3 }
    halves:fit { data = { inputs, real }, epochs = 3, seed = 3 }
    halves:fit { data = { inputs, real }, epochs = 3, seed = 3 }
    for name, t in pairs(whole:state()) do near((t - halves:state()[name]):abs():max(), 0, 0, name) end
  end)

  it("resumes a run from its file to the same bits, draws and noise too", function()
    local path = os.tmpname()
    for _, method in ipairs { "vbp", "local" } do
      os.remove(path)
      local how = { data = { inputs, real }, epochs = 4, batch_size = 30, seed = 3, checkpoint = path }
      local whole = make { method = method }
      whole:fit { data = { inputs, real }, epochs = 4, batch_size = 30, seed = 3 }
      how.epochs = 2
      make { method = method }:fit(how)
      how.epochs, how.resume = 4, true
      local rest = make { method = method, seed = 77 }
      rest:fit(how)
      for name, t in pairs(whole:state()) do near((t - rest:state()[name]):abs():max(), 0, 0, method .. name) end
    end
    os.remove(path)
  end)

  it("predicts in batches what it predicts at once", function()
    local m = make { likelihood = "categorical", predictive = "taylor" }
    for _, size in ipairs { 7, inputs:size(1) // 2, inputs:size(1) } do -- many batches, two, one
      local p, q = m:predict(inputs), m:predict(inputs, { batch_size = size })
      for name, t in pairs(p) do
        assert.same(t:shape(), q[name]:shape())
        near((t - q[name]):abs():max(), 0, 1e-13)
      end
      local whole, parts = { m:moments(inputs) }, { m:moments(inputs, { batch_size = size }) }
      for k = 1, 2 do
        assert.same(whole[k]:shape(), parts[k]:shape())
        near((whole[k] - parts[k]):abs():max(), 0, 1e-13)
      end
    end
    assert.same({ 9, 120, 3 }, m:draws(inputs, { draws = 9, batch_size = 50 }):shape())
    assert.same({ 120 }, m:classes(inputs):shape())
  end)

  it("draws outputs with the moments that it states, by each method", function()
    for _, method in ipairs { "vbp", "clt", "local", "dropout" } do
      local m = make { method = method, log_variance = -2, rate = .3 }
      local f = m:draws(inputs:slice(1, 1, 4), { draws = 6000, generator = pn.generator(2) })
      local mean, v = m:moments(inputs:slice(1, 1, 4), { draws = 6000, generator = pn.generator(3) })
      assert.is_true(((f:mean(1) - mean):abs() / (v / 6000):sqrt()):max():item() < 8.5, method)
      assert.is_true((f:var(1) / v - 1):abs():max():item() < .2, method)
    end
  end)

  it("comes back from its file, predictions and all", function()
    local path = os.tmpname()
    for _, given in ipairs { { method = "vbp", sharpness = 20 }, { method = "local", likelihood = "categorical" },
      { method = "dropout", likelihood = "probit" }, { method = "clt", prior = "horseshoe" } } do
      local m, target = make(given)
      m:fit { data = { inputs, target }, epochs = 2, batch_size = 50 }
      assert(m:save(path))
      local other = assert(pn.restore(path, { network = function()
        return nn.mlp({ 2, 16, given.likelihood and 3 or 1 }, { activation = "relu" })
      end }))
      assert.equal(given.method, other.method)
      near((m:log_predictive(inputs, target) - other:log_predictive(inputs, target)):abs():max(), 0, 0)
      near(m:bound(inputs, target).weights, other:bound(inputs, target).weights, 0)
      for _, each in ipairs { m, other } do
        each:fit { data = { inputs, target }, epochs = 1, batch_size = 50, seed = 7 }
      end
      for name, t in pairs(m:state()) do assert(t:eq(other:state()[name]):all():item(), name) end -- with its Adam
    end
    local bad, message, code = pn.restore(path, { network = nn.linear(2, 1) })
    assert.is_nil(bad)
    assert.equal("format", code)
    assert.matches("does not fit", message)
    assert(pn.save(path, { a = pn.ones { 1 } }))
    assert.is_nil((pn.restore(path, { network = nn.linear(2, 1) })))
    os.remove(path)
  end)

  it("takes today's posterior as tomorrow's prior, and keeps it in its file", function()
    local m = make { method = "vbp" }
    m:fit { data = { inputs, real }, epochs = 5 }
    m:become_prior()
    near(m:bound(inputs, real).weights, 0, 1e-9)
    m:fit { data = { inputs, real }, epochs = 2 }
    local late = m:bound(inputs, real).weights
    assert.is_true(late > 1e-4)
    local path = os.tmpname()
    assert(m:save(path))
    near(assert(pn.restore(path, { network = nn.mlp({ 2, 16, 1 }, { activation = "relu" }) })):bound(inputs,
      real).weights, late, 0)
    os.remove(path)
    assert.error_matches(function() make { method = "map" }:become_prior() end, "become_prior: needs")
  end)

  it("reads its own draws: means, variances, densities and errors are those of what it tells", function()
    local point, target = inputs:slice(1, 1, 4), real:slice(1, 1, 4):unsqueeze(2)
    local function how() return { draws = 5, generator = pn.generator(2) } end
    for _, method in ipairs { "local", "dropout" } do
      local m = make { method = method, log_variance = -2, rate = .3, noise_precision = 3 }
      local f = m:draws(point, how())
      assert.same(f:totable(), m:draws(point, how()):totable())
      local p, mean, v = m:predict(point, how()), m:moments(point, how())
      for _, pair in ipairs { { p.mean, f:mean(1) }, { p.spread, f:var(1, 0) }, { p.variance, f:var(1, 0) + 1 / 3 },
        { mean, f:mean(1) }, { v, f:var(1, 0) } } do
        near((pair[1] - pair[2]):abs():max(), 0, 1e-12, method)
      end
      local each = dist.normal(f, 3 ^ -.5):log_prob(target):sum(-1)
      near((m:log_predictive(point, target, how()) - each:logsumexp(1) + math.log(5)):abs():max(), 0, 1e-12)
      near(m:error_rate(point, target, how()), (f:mean(1) - target):square():mean():sqrt():item(), 1e-12)
      assert.same({ 40, 4, 1 }, m:draws(point):shape())
    end
    -- without a generator, the learner's own
    local one, two = make { method = "local" }, make { method = "local" }
    assert.same(one:draws(point):totable(), two:draws(point):totable())
    assert.same(one:predict(point).mean:totable(), two:predict(point).mean:totable())
    assert.same({ 100, 4, 1 }, make { method = "local", draws = { train = 2 } }:draws(point):shape())
  end)

  -- E (y - f)^2 of draws that hardly vary is the squared residual; of many draws it is that of their moments.
  it("sets the noise of methods by draws over more data than go through at a time", function()
    local wide = pn.randn({ 1100, 2 }, { generator = pn.generator(12) })
    local y_wide = wide[{ {}, 1 }]
    local certain = make { method = "local", log_variance = -60, spread = 0, draws = { train = 2 }, start = "network" }
    certain:fit { data = { wide, y_wide }, epochs = 1, optimiser = pn.optim.sgd(certain:parameters(), { lr = 0 }) }
    local f = certain:draws(wide, { draws = 1 })[1]
    near(certain.noise_precision, 1 / (f - y_wide:unsqueeze(2)):square():mean():item(), 1e-8)
    local m = make { method = "local", log_variance = -2, draws = { train = 4000 } }
    m:fit { data = { inputs, real }, epochs = 1, optimiser = pn.optim.sgd(m:parameters(), { lr = 0 }) }
    local mean, v = m:moments(inputs, { draws = 4000 })
    near(m.noise_precision, 1 / ((real:unsqueeze(2) - mean):square() + v):mean():item(), .02 * m.noise_precision:item())
  end)

  it("is trained by another optimiser, at another rate, as told, and calls what follows an epoch", function()
    for _, bad in ipairs { 0.0, math.huge } do
      assert.error_matches(function() make {}:fit { data = { inputs, real }, epochs = 1, lr = bad } end,
        "fit: lr must be a positive number")
    end
    local m, epochs = make { learn_noise = false }, 0
    local before = m:state()
    local run = m:fit { data = { inputs, real }, epochs = 5, lr = 1e-300, on_epoch = function(s)
      epochs = epochs + 1
      return s.epoch < 3
    end }
    assert.same({ 3, 3 }, { epochs, #run.history })
    for name, t in pairs(m:state()) do near((t - before[name]):abs():max(), 0, 1e-200, name) end
    -- its Adam keeps the rate; an optimiser of one's own is not written
    local path = os.tmpname()
    assert(m:save(path))
    local function again()
      return assert(pn.restore(path, { network = nn.mlp({ 2, 16, 1 }, { activation = "relu" }) }))
    end
    local other = again()
    other:fit { data = { inputs, real }, epochs = 1 }
    for name, t in pairs(other:state()) do near((t - before[name]):abs():max(), 0, 1e-200, name) end
    m:fit { data = { inputs, real }, epochs = 1, optimiser = pn.optim.sgd(m:parameters(), { lr = 0 }) }
    assert(m:save(path))
    other = again()
    other:fit { data = { inputs, real }, epochs = 1 }
    assert.is_true((other:parameters()[1] - m:parameters()[1]):abs():max():item() > .01)
    os.remove(path)
    -- one row at a time, of two
    local whole, parts = m:moments(inputs:slice(1, 1, 2)), m:moments(inputs:slice(1, 1, 2), { batch_size = 1 })
    assert.same(whole:shape(), parts:shape())
    near((whole - parts):abs():max(), 0, 1e-13)
    near(m:bound(inputs, real).num_data, 120, 0)
    assert.equal("learner by vbp of " .. tostring(m.net), tostring(m))
  end)

  it("of certain weights is drawn from, too, and has a y of numbers alone", function()
    local point = inputs:slice(1, 1, 3)
    for _, method in ipairs { "map", "dropout", "vbp" } do
      local g2 = make { method = method }:generate(point, { generator = pn.generator(1) })
      assert.same({ { 3, 1 }, { 3, 1 }, 1 }, { g2.outputs:shape(), g2.y:shape(), #g2.gates })
    end
    assert.is_nil(make { likelihood = "categorical" }:generate(point).y)
    local any = make { sharpness = .5 }
    local function drawn(o) return any:generate(point, o).outputs:totable() end
    assert.same(drawn { generator = pn.generator(1) }, drawn { generator = pn.generator(1), sharpness = .5 })
    assert.is_not.same(drawn(), drawn())
    local m = make { method = "map" }
    assert.same({ 7, 3, 1 }, m:draws(point, { draws = 7 }):shape())
    near((m:draws(point, { draws = 7 })[7] - m:moments(point)):abs():max(), 0, 0)
  end)

  it("takes a method and a likelihood of one's own", function()
    local row = setmetatable({ loss = function(ll, kl, n) return (kl / n):sqrt() - ll:mean() end },
      { __index = pn.vbp.method "vbp" })
    local own = {}
    for name, f in pairs(pn.vbp.method "vbp") do own[name] = f end
    own.loss = row.loss
    local m = make { method = own, learn_noise = false }
    local run = m:fit { data = { inputs, real }, epochs = 1, optimiser = pn.optim.sgd(m:parameters(), { lr = 0 }) }
    local b = m:bound(inputs, real)
    near(run.loss, (b.weights / 120) ^ .5 - b.data / 120, 1e-12)
    assert.equal("own", m.method)
    -- its name, its likelihood, and what it does after an epoch; a file holds neither row
    local calls = 0
    own.name, own.likelihood, own.loss = "mine", "categorical", nil
    function own.after_epoch() calls = calls + 1 end
    m = pn.vbp.learner { network = nn.mlp({ 2, 4, 3 }, { activation = "relu" }), method = own, seed = 1 }
    m:fit { data = { inputs, labels }, epochs = 2 }
    assert.same({ 2, "mine" }, { calls, m.method })
    assert.is_not_nil(m:predict(inputs).probabilities)
    local path, net = os.tmpname(), nn.mlp({ 2, 4, 3 }, { activation = "relu" })
    assert(m:save(path))
    assert.matches("method must be the row that the learner had, got nil", select(2, pn.restore(path,
      { network = net })))
    assert.matches("likelihood must be absent: that of the learner was 'categorical', got table",
      select(2, pn.restore(path, { network = net, method = own, likelihood = own })))
    local back = assert(pn.restore(path, { network = net, method = own }))
    assert.same(m:predict(inputs).probabilities:totable(), back:predict(inputs).probabilities:totable())
    os.remove(path)
    own.kl = 3
    assert.error_matches(function() make { method = own } end, "learner: method.kl must be a function, got 3")
  end)

  it("refuses what does not go together, by name", function()
    local function refuses(pattern, given)
      assert.error_matches(function() make(given) end, pattern)
    end
    refuses("method must be one of", { method = "vpb" })
    refuses("did you mean 'vbp'", { method = "vpb" })
    refuses("likelihood must be one of", { likelihood = "poisson" })
    refuses("gate_kl needs", { gate_kl = "exact" })
    refuses("gate_kl must be", { gate_kl = true, sharpness = 10 })
    refuses("structure = \"full\" needs", { structure = "full", method = "clt" })
    refuses("needs prior = \"normal\"", { method = "map", prior = "horseshoe" })
    refuses("sharpness must be", { sharpness = 0 })
    refuses("prior_precision must be", { prior_precision = -1 })
    refuses("objective must be one of", { objective = "taylor" })
    refuses("network must", { network = 3 })
    refuses("network must have a linear", { network = nn.prelu() })
    refuses('gate_kl must be false, "exact" or "approximate", got all', { gate_kl = "all", sharpness = 10 })
    refuses("gate_kl needs", { gate_kl = "approximate", method = "clt", sharpness = 10 })
    refuses("gate_kl needs", { gate_kl = "approximate", sharpness = math.huge })
    for _, name in ipairs { "prior_precision", "noise_precision", "lr" } do
      for _, v in ipairs { 0.0, math.huge } do refuses(name .. " must be a positive number", { [name] = v }) end
    end
    for _, o in ipairs { { spread = -1e-9 }, { spread = math.huge }, { log_variance = 100.0 },
      { log_variance = -100 } } do
      refuses("log_variance and spread must be finite, spread not negative", o)
    end
    make { spread = 0.0, log_variance = -99 }
    refuses("network must have parameters, and no posterior", { network = nn.relu() })
    refuses("network must have parameters, and no posterior", { network = nn.bayesian(nn.linear(2, 1)) })
    refuses("draws.train must be a whole number from 1 on, got 0", { draws = { train = 0 } })
    refuses("draws.predict must be a whole number from 1 on, got 0", { draws = { predict = 0 } })
    local learner = make {}
    for _, name in ipairs { "predict", "generate", "classes", "become_prior", "parameters" } do
      assert.error_matches(function() learner[name]({}, inputs) end, name .. ": needs a learner, as in m:" .. name, 1,
        true)
    end
    assert.error_matches(function() make { method = "map" }:become_prior() end, "become_prior: needs a method with")
    assert.error_matches(function() make { prior = "log_uniform" }:become_prior() end,
      "become_prior: needs a method with")
    for _, bad in ipairs { inputs[1], inputs:to "float32", inputs:to "int64" } do
      assert.error_matches(function() make {}:predict(bad) end, "predict: x must be float64 with data along its first")
    end
    assert.error_matches(function() make {}:generate(inputs, { sharpness = 0.0 }) end, "sharpness must be a positive")
    assert.error_matches(function() make {}:log_predictive(inputs, 3) end, "log_predictive: y must be a tensor")
    local rows = pn.vbp.learner { network = nn.linear(2, 1), seed = 1 }
    assert.error_matches(function() rows:log_predictive(pn.ones { 3, 4, 2 }, real) end,
      "log_predictive: network must give outputs [N, out], got [1, 4, 1]", 1, true)
    local gap = pn.where(pn.arange(120):eq(7), 0 / 0, real)
    assert.error_matches(function() make {}:fit { data = { inputs, gap }, epochs = 1 } end, "fit: y must be finite")
    assert.error_matches(function() make {}:predict(inputs / 0) end, "predict: x must be finite")
    local m = make { likelihood = "categorical" }
    assert.error_matches(function() m:log_predictive(inputs, real) end, "log_predictive: y must be labels, int64")
    assert.error_matches(function() m:fit { data = { inputs, labels + 1 }, epochs = 1 } end, "labels from 0 to 2")
    assert.error_matches(function() m:fit { data = { inputs, labels:slice(1, 1, 5) }, epochs = 1 } end, "120 rows")
    assert.error_matches(function() make { likelihood = "normal" }:classes(inputs) end, "no classes")
    assert.error_matches(function() make { prior = "log_uniform" }:generate(inputs) end, "improper")
  end)
end)
