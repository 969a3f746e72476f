-- Evidential methods: golden values of Haussmann 2021, chapter 5 (closed forms), optima that
-- are known, exact splits of uncertainty, and the learners that follow them.
local pn = require "penumbra"
local nn, evidential = pn.nn, pn.evidential

local function near(want, got, tolerance, text)
  assert(math.abs(got - want) <= (tolerance or 1e-12), ("%s: got %.15g, want %.15g"):format(text or "", got, want))
end

local function label(k, n) return pn.full({ n or 1 }, k, { dtype = "int64" }) end

local function told(generator)
  return { draw = function(m, v, count)
    return m + v:sqrt() * pn.randn({ count, table.unpack(m:shape()) }, { dtype = m:dtype(), generator = generator })
  end }
end

-- Mean loss of a bedl_pac row at certain outputs.
local function certain_loss(row, y, f, num_data)
  local head = row.likelihood
  return row.loss(head.objectives[head.default](y, f, nil, told()), 0, num_data)
end

describe("evidence", function()
  it("has the closed forms of Dirichlet laws", function()
    near(0.836363636363636, (evidential.loss(label(1), pn.tensor { { 2.0, 3, 5 } }, 0)):item())
    for _, case in ipairs { { { 1, 1, 1 }, 0 }, { { 2, 3, 5 }, 0.768034844169189 },
        { { 0.5, 1.5, 4 }, 1.50100238770459 },
        { { 10, 10, 10, 10, 10, 10, 10, 10, 10, 10 }, 6.95726935825627 }, { { 100, 1, 1 }, 6.55694550246743 } } do
      local alpha = pn.param(pn.tensor(case[1]):to "float64")
      near(case[2], evidential.divergence(alpha):item(), 1e-11)
      -- (a_c - 1) psi'(a_c) - (a_0 - C) psi'(a_0)
      local total = alpha:sum():detach()
      local want = (alpha - 1) * alpha:polygamma(1) - (total - #case[1]) * total:polygamma(1)
      local g = pn.grad(evidential.divergence(alpha), { alpha })[1]
      assert((g - want):abs():max():item() < 1e-10)
    end
    -- what the squares cost, by enumeration of the first two moments: E lambda_c^2 = p (p (a_0) + 1) / (a_0 + 1)
    local alpha = pn.rand({ 20, 4 }, { generator = pn.generator(1) }) * 5 + 0.1
    local y = pn.randint(0, 4, { 20 }, { generator = pn.generator(2) })
    local total = alpha:sum({ -1 }, true)
    local p = alpha / total
    local second = p * (p * total + 1) / (total + 1)
    local hot = y:one_hot(4, "float64")
    local want = (hot - hot * p * 2 + second):sum(-1)
    assert((evidential.loss(y, alpha, 0) - want):abs():max():item() < 1e-13)
    -- the divergence leaves out the evidence for y
    local misled = evidential.loss(label(0), pn.tensor { { 9.0, 2, 3 } }) - evidential.loss(label(0),
      pn.tensor { { 9.0, 2, 3 } }, 0)
    near(evidential.divergence(pn.tensor { 1.0, 2, 3 }):item(), misled:item(), 1e-13)
  end)

  it("is made of outputs by name, and stays finite", function()
    local f = pn.tensor { -1000.0, -1, 0, 2, 1000 }
    assert.same({ 1, 1, 1, 3, 1001 }, evidential.concentrations(f, { evidence = "relu" }):totable())
    local e = evidential.concentrations(f):totable()
    near(math.exp(15), e[5], 1e-6)
    near(math.exp(2), e[4])
    near(math.exp(-15), e[1])
    for _, dtype in ipairs { "float64", "float32" } do
      local x = pn.param(pn.tensor({ 40.0, -40, 15 }, { dtype = dtype }))
      local d = evidential.divergence(evidential.concentrations(x))
      assert(d:isfinite():item() and pn.grad(d, { x })[1]:isfinite():all():item())
    end
  end)

  it("parts the variance of an indicator exactly", function()
    local p = pn.randn({ 7, 30, 4 }, { generator = pn.generator(3) }):softmax(-1)
    local mean, epistemic, aleatoric = evidential.parts(p)
    assert((epistemic + aleatoric - mean * (1 - mean)):abs():max():item() < 1e-15)
    assert(epistemic:min():item() > 0)
    -- one draw, or draws that agree, have no epistemic part
    local _, none = evidential.parts(p:slice(1, 1, 1))
    assert.equal(0, none:abs():max():item())
  end)
end)

describe("log of the mean probability", function()
  it("is that, and not the mean of the logarithms", function()
    local row = evidential.row("bedl", { draws = 5 })
    local head = row.likelihood
    local m, v = pn.tensor { { 1.0, 0, -1 } }, pn.tensor { { 2.0, 1, 3 } }
    local f = told(pn.generator(9)).draw(m, v, 5)
    local got = head.objectives.log_mean(label(2), m, v, told(pn.generator(9))):item()
    local sum, logs = 0, 0
    for s = 1, 5 do
      local z, all = f[s][1]:totable(), 0
      for _, value in ipairs(z) do all = all + math.exp(value) end
      sum, logs = sum + math.exp(z[3]) / all / 5, logs + math.log(math.exp(z[3]) / all) / 5
    end
    near(math.log(sum), got)
    assert(got > logs + 0.01)
    -- nothing but differences of outputs counts
    local shifted = head.objectives.log_mean(label(2), m + 7, v, told(pn.generator(9))):item()
    near(got, shifted, 1e-12)
  end)

  it("tends to the integral", function()
    -- two classes: E sigmoid(d), d ~ normal(0.5, 1.3)
    local row = evidential.row("bedl", { draws = 400000 })
    local m, v = pn.tensor { { 0.2, -0.3 } }, pn.tensor { { 0.9, 0.4 } }
    local got = row.likelihood.objectives.log_mean(label(0), m, v, told(pn.generator(4))):exp():item()
    near(0.597850609732012, got, 6 * 0.21 / math.sqrt(400000))
  end)
end)

describe("the bound as a regulariser", function()
  -- The best (a, b) for separable data: alpha = (a, b, ..., b) for each datum.
  local function optimum(classes, given, num_data)
    local row = evidential.row("bedl_pac", given)
    local a, b = pn.param(pn.tensor(1.0)), pn.param(pn.tensor(0.0))
    local function loss()
      local f = pn.concatenate({ a:reshape { 1 }, b:broadcast_to { classes - 1 } }, 1):unsqueeze(1)
      return certain_loss(row, label(0), f, num_data)
    end
    local opt = pn.optim.lbfgs({ a, b }, { tolerance_change = 1e-16, tolerance_grad = 1e-13 })
    for _ = 1, 60 do opt:step(loss) end
    local alpha = { math.exp(a:item()), math.exp(b:item()) }
    return alpha[1], alpha[2], alpha[1] / (alpha[1] + (classes - 1) * alpha[2]), loss():item()
  end

  it("has the optimum of separable data, as the document prints it", function()
    local given = { delta = 1 - 1e-15 } -- log delta / N, which many data take away
    for _, case in ipairs { { 2, 2.264256, 0.845287, 0.728164, 1.478980 },
        { 3, 2.566468, 0.880796, 0.592983, 1.781457 },
        { 5, 2.927035, 0.916423, 0.443979, 2.187306 }, { 10, 3.343525, 0.950857, 0.280939, 2.779317 } } do
      local a, b, p, loss = optimum(case[1], given, 1)
      near(case[2], a, 2e-6, "a")
      near(case[3], b, 1e-6, "b")
      near(case[4], p, 1e-6, "p")
      near(case[5], loss, 1e-6, "loss")
    end
  end)

  it("and in the form that weighs the divergence N times less", function()
    local given = { divergence = "mean", log_constant = "log_n", delta = 0.1 }
    local a, b, p, loss = optimum(10, given, 60000)
    near(3983.20, a, 0.02, "a")
    near(0.999806, b, 1e-6, "b")
    near(0.997746, p, 1e-6, "p")
    near(0.0354563, loss, 1e-7, "loss")
    a, b, p = optimum(5, given, 60000)
    near(3026.86, a, 0.02, "a")
    near(0.999744, b, 1e-6, "b")
    near(0.998681, p, 1e-6, "p")
  end)

  it("of numbers has the value of the worked case", function()
    local row = evidential.row("bedl_pac", { likelihood = "normal", delta = 0.1 })
    local head = row.likelihood
    local m, v, y = pn.tensor { { 0.4, -1.2 } }, pn.tensor { { 0.09, 0.25 } }, pn.tensor { { 0.9 } }
    near(0.441297755300994, head.predict(m, v).variance:item(), 1e-14)
    near(0.09, head.predict(m, v).epistemic:item(), 1e-15)
    near(0.01 + math.exp(-1.2 + 0.125), head.predict(m, v).aleatoric:item(), 1e-14)
    near(-0.793176271568, head.log_predictive(y, m, v):item(), 1e-11)
    local ll = head.objectives.log_marginal(y, m, v)
    near(5.08668376193, row.loss(ll, 0, 1):item(), 1e-11)
    near(0.216127167569, (row.loss(ll, 0, 1) + ll:mean()):item() ^ 2 - 100 / (2 * math.pi) + math.log(0.1), 1e-10)
    -- the mean over data is KL / N of all of them; "mean" divides once more; log_n in the place of N beta / (2 pi)
    local m3, v3 = m:broadcast_to { 3, 2 } * pn.tensor { { 1.0 }, { 2 }, { 3 } }, v:broadcast_to { 3, 2 }
    local y3, kl = pn.tensor { { 0.9 }, { 0.1 }, { -0.4 } }, 0
    for k = 1, 3 do
      local s = 0.09 + math.exp(m3[k][2]:item() + 0.125)
      kl = kl + 0.5 * (s + m3[k][1]:item() ^ 2 - 1 - math.log(s))
    end
    for _, case in ipairs { { {}, kl / 3 + 100 / (2 * math.pi) },
        { { divergence = "mean" }, kl / 9 + 100 / (2 * math.pi) },
        { { log_constant = "log_n" }, kl / 3 + math.log(3) / 3 } } do
      local o = { likelihood = "normal", delta = 0.1 }
      for key, value in pairs(case[1]) do o[key] = value end
      local r = evidential.row("bedl_pac", o)
      local each = r.likelihood.objectives.log_marginal(y3, m3, v3)
      near(math.sqrt(case[2] - math.log(0.1) / 3), (r.loss(each, 0, 3) + each:mean()):item(), 1e-12)
    end
  end)

  it("has the moments of its law, drawn level by level", function()
    local g, s = pn.generator(5), 400000
    local f1 = pn.randn({ s }, { generator = g }) * 0.3 + 0.4
    local f2 = pn.randn({ s }, { generator = g }) * 0.5 - 1.2
    local y = f1 + (f2 * 0.5):exp() * pn.randn({ s }, { generator = g }) + 0.1 * pn.randn({ s }, { generator = g })
    near(0.4, y:mean():item(), 6 * math.sqrt(0.44 / s))
    near(0.441297755300994, y:var():item(), 6 * 0.44 * math.sqrt(2.5 / s))
  end)

  -- Each in closed form beside the laws of pn.dist, unequal in every element.
  it("has the densities and divergences of normal laws, at any precision", function()
    local evidence, normal = require "penumbra.evidential.evidence", pn.dist.normal
    local g = pn.generator(9)
    local mean, variance = pn.randn({ 4, 3 }, { generator = g }), pn.rand({ 4, 3 }, { generator = g }) + 0.2
    local y = pn.randn({ 4, 3 }, { generator = g })
    for _, dtype in ipairs { "float64", "float32" } do
      local m, v, x = mean:to(dtype), variance:to(dtype), y:to(dtype)
      local limit = dtype == "float64" and 1e-12 or 1e-5
      near(0, (evidence.log_normal(x, m, v) - normal(m, v:sqrt()):log_prob(x):sum(-1)):abs():max():item(), limit)
      for _, precision in ipairs { 0.4, 7 } do
        local prior = normal(pn.zeros({ 3 }, { dtype = dtype }), precision ^ -0.5)
        local want = pn.dist.kl(normal(m, v:sqrt()), prior):sum(-1)
        near(0, (evidence.normal_divergence(m, v, precision) - want):abs():max():item(), 10 * limit)
      end
    end
    local wide, spread = pn.randn({ 4, 6 }, { generator = g }), pn.rand({ 4, 6 }, { generator = g })
    local first, own, noise = evidence.normal(wide, spread, 0.3)
    near(0, (first - wide:slice(2, 1, 3)):abs():max():item(), 0)
    near(0, (own - spread:slice(2, 1, 3)):abs():max():item(), 0)
    local law = pn.dist.log_normal(wide:slice(2, 4, 6), spread:slice(2, 4, 6):sqrt())
    near(0, (noise - 0.3 - law:mean()):abs():max():item(), 1e-12)
  end)

  it("differentiates", function()
    local m, v = pn.param(pn.randn({ 4, 6 }, { generator = pn.generator(6) })), pn.param(pn.rand({ 4, 6 }) + 0.3)
    local y = pn.randint(0, 6, { 4 })
    for _, method in ipairs { "bedl", "bedl_pac" } do
      for _, likelihood in ipairs { "categorical", "normal" } do
        local row = evidential.row(method, { likelihood = likelihood })
        local target = likelihood == "normal" and pn.randn({ 4, 3 }, { generator = pn.generator(1) }) or y
        assert(pn.check_gradients(function()
          local head = row.likelihood
          local ll = head.objectives[head.default](target, m, v, told(pn.generator(8)))
          return row.loss and row.loss(ll, 0, 50) or -ll:mean()
        end, { m, v }))
      end
    end
    local edl = evidential.row("edl", { annealing = "none" })
    assert(pn.check_gradients(function() return -edl.likelihood.objectives.squares(y, m):mean() end, { m }))
  end)
end)

describe("priors on means and variances", function()
  it("have the density of the document", function()
    local net = nn.linear(1, 1, { bias = false })
    net:load_state { weight = pn.tensor { { 0.3 } } }
    local q = nn.bayesian(net, { posterior_scale = 0.2 })
    local row = evidential.row("bedl_hyper", { concentration = 2, rate = 0.5, prior_precision = 10 })
    local normal = pn.dist.normal(0, 10 ^ -0.5):log_prob(0.3):item()
    near(-4.22966688652, row.log_prior(q):item() - normal, 1e-11)
    near(4.22966688652 - normal, row.kl(q):item(), 1e-11)
    local parameters = q:parameters()
    assert(pn.check_gradients(function() return row.kl(q) end, parameters))
  end)
end)

describe("the rows of evidential methods", function()
  -- Sums over five draws of the outputs, three classes.
  it("of classes predict by draws, and keep the divergence of the same draws within their limit", function()
    local f = pn.randn({ 5, 4, 3 }, { generator = pn.generator(3) }) * 4
    local m, v, y = pn.zeros { 4, 3 }, pn.ones { 4, 3 }, pn.tensor({ 0, 2, 1, 1 }, { dtype = "int64" })
    local function draw(count)
      return { draw = function(_, _, draws)
        assert.equal(count, draws)
        return f
      end }
    end
    local p = f:softmax(-1)
    for _, method in ipairs { "blnn", "bedl", "bedl_hyper", "bedl_pac" } do
      local head = evidential.row(method, { limit = 2 }).likelihood
      local told_of = head.predict(m, v, f)
      assert.is_true((told_of.probabilities - p:mean(1)):abs():max():item() < 1e-14)
      assert.is_true((told_of.epistemic - p:var(1, 0)):abs():max():item() < 1e-14)
      assert.is_true((told_of.aleatoric - (p * (1 - p)):mean(1)):abs():max():item() < 1e-14)
      assert.same({ m, v }, { told_of.mean, told_of.variance })
      local want = p:gather(-1, y:reshape { 1, 4, 1 }:broadcast_to { 5, 4, 1 }):squeeze(-1):mean(1):log()
      assert.is_true((head.log_predictive(y, m, v, f) - want):abs():max():item() < 1e-12)
      assert.is_true((head.objectives.log_mean(y, m, v, draw(5)) - want):abs():max():item() < 1e-12)
      assert.is_false(head.closed())
    end
    local row = evidential.row("bedl_pac", { limit = 2, draws = 7, delta = 0.2 })
    local ll = row.likelihood.objectives.log_mean(y, m, v, draw(7))
    local kl = pn.dist.kl(pn.dist.dirichlet(f:clamp(-2, 2):exp()), pn.dist.dirichlet(pn.ones { 3 })):mean()
    near(math.sqrt(kl:item() + 1 - math.log(0.2) / 50), (row.loss(ll, 0, 50) + ll:mean()):item(), 1e-12)
  end)

  it("of numbers predict one output as mean and its variance, or two", function()
    local m, v = pn.tensor { { 0.3, -0.4, 0.2, 0.1 } }, pn.tensor { { 0.2, 0.5, 0.1, 0.3 } }
    local y = pn.tensor { { 1.0, -0.5, 0.3, 0 } }
    local row = evidential.row("blnn", { likelihood = "normal", noise_precision = 4 })
    assert.equal(0, row.kl())
    local head = row.likelihood
    assert.is_true(head.closed())
    local want = head.predict(m, v)
    assert.is_true((want.variance - v - 0.25):abs():max():item() < 1e-15)
    assert.same({ m, v }, { want.mean, want.epistemic })
    assert.equal(0.25, want.aleatoric:min():item())
    local law = pn.dist.normal(m, (v + 0.25):sqrt()):log_prob(y):sum(-1)
    near(law:item(), head.log_predictive(y, m, v):item())
    near(law:item(), head.objectives.log_marginal(y, m, v):item())
    near(pn.dist.normal(m, 0.5):log_prob(y):sum(-1):item(), head.log_predictive(y, m):item()) -- certain outputs
    local function prepare(of, shape, out)
      local told_of = { out = out, where = "fit", dtype = "float32" }
      return evidential.row(of, { likelihood = "normal" }).likelihood.prepare(pn.ones(shape), told_of)
    end
    for _, case in ipairs { { "blnn", { 5 }, 1, { 5, 1 } }, { "blnn", { 5, 3 }, 3, { 5, 3 } }, { "bedl", { 5 }, 2,
      { 5, 1 } }, { "bedl", { 5, 2 }, 4, { 5, 2 } } } do
      local z = prepare(case[1], case[2], case[3])
      assert.same(case[4], z:shape())
      assert.equal("float32", z:dtype())
    end
    for text, case in pairs { ["fit: y must be [N, 3]: the network has 3 outputs, one a number"] = { "blnn", { 5 }, 3 },
      ["fit: y must be [N, 1]: the network has 1 outputs, one a number"] = { "blnn", { 5, 2 }, 1 } } do
      local ok, message = pcall(prepare, table.unpack(case))
      assert(not ok and message:find(text, 1, true), message)
    end
  end)

  it("of a deterministic network predict by the concentrations of its outputs", function()
    local f, y = pn.tensor { { 0.5, -1, 3 }, { -2, 1, 0.2 } }, pn.tensor({ 2, 1 }, { dtype = "int64" })
    for kind, alpha in pairs { exp = f:clamp(-2, 2):exp(), relu = f:relu() + 1 } do
      local head = evidential.row("edl", { evidence = kind, limit = 2 }).likelihood
      local p, told_of = alpha / alpha:sum({ -1 }, true), head.predict(f, false)
      for name, want in pairs { concentration = alpha, probabilities = p, aleatoric = p * (1 - p), epistemic = p * 0,
        mean = f } do
        assert.is_true((told_of[name] - want):abs():max():item() < 1e-14, name)
      end
      assert.is_false(told_of.variance)
      for k = 1, 2 do near(math.log(p[k][y[k]:item() + 1]:item()), head.log_predictive(y, f)[k]:item()) end
      assert.is_true(head.closed())
    end
    assert.equal(0, evidential.row("edl").kl())
  end)

  it("are refused numbers that are none, by name", function()
    for _, name in ipairs { "prior_precision", "noise_precision", "concentration", "rate", "limit" } do
      for _, value in ipairs { 0.0, math.huge } do
        local ok, message = pcall(evidential.row, "bedl", { [name] = value })
        assert(not ok and message:find(("rows: %s must be a positive number, got %s"):format(name, value), 1, true),
          message)
      end
    end
    for text, o in pairs { ["rows: delta must lie strictly between 0 and 1, got 1"] = { delta = 1.0 },
      ["rows: anneal_epochs must be a whole number from 1 on, got 0"] = { anneal_epochs = 0 } } do
      local ok, message = pcall(evidential.row, "bedl", o)
      assert(not ok and message:find(text, 1, true), message)
    end
    assert.is_false((pcall(evidential.row, 3)))
  end)
end)

describe("an evidential learner", function()
  local x = pn.randn({ 300, 2 }, { generator = pn.generator(11) })
  local y = (x[{ {}, 1 }] * x[{ {}, 2 }]):gt(0):to "int64"
  local function net(out) return nn.mlp({ 2, 24, out or 2 }, { activation = "relu" }) end

  it("learns classes by each method, and says how sure it is", function()
    for _, method in ipairs { "blnn", "edl", "bedl", "bedl_hyper", "bedl_pac" } do
      local m = evidential.learner { network = net(), method = method, seed = 1, lr = 0.01 }
      local run = m:fit { data = { x, y }, epochs = 20, batch_size = 30, seed = 1 }
      assert(m:error_rate(x, y):item() < 0.08, ("%s: %g"):format(method, m:error_rate(x, y):item()))
      assert(run.epoch == 20 and m.method == method)
      local p = m:predict(x)
      assert((p.epistemic + p.aleatoric - p.probabilities * (1 - p.probabilities)):abs():max():item() < 1e-12)
      if method == "edl" then
        assert.equal(0, p.epistemic:abs():max():item())
        assert((p.concentration / p.concentration:sum({ -1 }, true) - p.probabilities):abs():max():item() < 1e-14)
      end
    end
  end)

  it("takes the same steps replayed and not", function()
    for _, case in ipairs { { "blnn" }, { "edl" }, { "bedl" }, { "bedl_hyper" }, { "bedl_pac" },
        { "bedl_pac", "normal" }, { "bedl_hyper", "normal" } } do
      local losses = {}
      for k, compile in ipairs { true, false } do
        local m = evidential.learner { network = net(), method = case[1], likelihood = case[2], seed = 5, lr = 0.01 }
        local target = case[2] and x[{ {}, 1 }] or y
        losses[k] = m:fit({ data = { x, target }, epochs = 3, batch_size = 40, seed = 1, compile = compile }).history
      end
      for k = 1, 3 do near(losses[2][k], losses[1][k], 1e-10 * math.abs(losses[2][k]), case[1]) end
    end
  end)

  it("tracks the noise of numbers", function()
    local g = pn.generator(12)
    local u = pn.rand({ 800, 1 }, { generator = g }) * 4 - 2
    local scale = u:abs() * 0.3 + 0.1
    local z = (u * 2):sin() + scale * pn.randn({ 800, 1 }, { generator = g })
    local best = pn.dist.normal((u * 2):sin(), scale):log_prob(z):mean():item()
    for _, method in ipairs { "bedl", "bedl_pac" } do
      local m = evidential.learner { network = nn.mlp({ 1, 40, 2 }, { activation = "relu" }), method = method,
        likelihood = "normal", seed = 2, lr = 0.01, noise_precision = 400 }
      m:fit { data = { u, z }, epochs = 60, batch_size = 50, seed = 1 }
      assert(m:log_predictive(u, z):mean():item() > best - 0.12)
      local p = m:predict(u)
      assert((p.epistemic + p.aleatoric - p.variance):abs():max():item() < 1e-14)
      local learnt = p.variance:sqrt() -- the likelihood knows only the sum of both parts
      local centred, true_scale = learnt - learnt:mean(), scale - scale:mean()
      local correlation = (centred * true_scale):sum() / (centred:square():sum() * true_scale:square():sum()):sqrt()
      assert(correlation:item() > 0.8, correlation:item())
    end
  end)

  it("anneals by epochs, also of a run that is resumed", function()
    local function learner(annealing)
      return evidential.learner { network = net(), method = "edl", seed = 3, annealing = annealing, anneal_epochs = 4 }
    end
    -- while the share is 0 the loss is that of the squares alone
    local m = learner "linear"
    local own = evidential.loss(y, evidential.concentrations((m:moments(x))), 0):mean():item()
    local first = m:fit { data = { x, y }, epochs = 1, lr = 1e-9 }
    near(own, first.loss, 1e-6)
    local shares = {}
    for k = 1, 5 do
      local f = m:moments(x)
      local loss = m:fit({ data = { x, y }, epochs = 1, lr = 1e-9 }).loss
      local alpha = evidential.concentrations(f)
      local squares, all = evidential.loss(y, alpha, 0):mean():item(), evidential.loss(y, alpha, 1):mean():item()
      shares[k] = (loss - squares) / (all - squares)
    end
    for k, want in ipairs { 0.25, 0.5, 0.75, 1, 1 } do near(want, shares[k], 1e-6) end
    local whole = learner "none"
    near(evidential.loss(y, evidential.concentrations((whole:moments(x))), 1):mean():item(),
      whole:fit({ data = { x, y }, epochs = 1, lr = 1e-9 }).loss, 1e-6)
    local path = os.tmpname()
    local function run(epochs, resume)
      local each = learner "linear"
      each:fit { data = { x, y }, epochs = epochs, batch_size = 50, checkpoint = path, resume = resume, seed = 1 }
      return each:state()
    end
    run(2, false)
    local resumed, straight = run(5, true), run(5, false)
    for name, t in pairs(straight) do assert(resumed[name]:eq(t):all():item(), name) end
    os.remove(path)
  end)

  it("stands in one table with variational methods, and in a file", function()
    local c = pn.vbp.compare { methods = { "clt", evidential.row("bedl"), evidential.row("edl") },
      likelihood = "categorical", network = net, data = { x, y }, epochs = 3, batch_size = 50 }
    assert.same({ "clt", "bedl", "edl" }, { c[1].method, c[2].method, c[3].method })
    assert(tostring(c):find("bedl", 1, true))
    local path = os.tmpname()
    local m = c[2].learner
    assert(m:save(path))
    local row = evidential.row "bedl"
    local back = assert(pn.restore(path, { network = net, method = row, likelihood = row.likelihood }))
    local g = pn.generator(1)
    local want = m:predict(x, { generator = pn.generator(1) }).probabilities
    assert(back:predict(x, { generator = g }).probabilities:eq(want):all():item())
    os.remove(path)
  end)

  it("runs in float32", function()
    local small = nn.mlp({ 2, 24, 2 }, { activation = "relu", dtype = "float32" })
    for _, method in ipairs { "bedl_pac", "edl" } do
      local m = evidential.learner { network = small, method = method, seed = 1, lr = 0.01 }
      local run = m:fit { data = { x:to "float32", y }, epochs = 5, batch_size = 30 }
      assert(run.loss == run.loss and run.loss < run.history[1])
      small = nn.mlp({ 2, 24, 2 }, { activation = "relu", dtype = "float32" })
    end
  end)

  it("refuses what does not fit", function()
    local function no(message, f, ...)
      local ok, got = pcall(f, ...)
      assert(not ok and tostring(got):find(message, 1, true), tostring(got))
    end
    no("there is no method 'bedlpac', did you mean 'bedl_pac'", evidential.row, "bedlpac")
    no("edl is of classes", evidential.row, "edl", { likelihood = "normal" })
    no("delta must lie strictly between 0 and 1", evidential.row, "bedl_pac", { delta = 0.0 })
    no("noise_precision must be a positive number", evidential.row, "bedl", { noise_precision = -1 })
    no("divergence must be one of", evidential.row, "bedl_pac", { divergence = "total" })
    no("unknown option", evidential.learner, { network = net(), method = "bedl", drawz = 3 })
    local m = evidential.learner { network = net(3), likelihood = "normal" }
    no("two for each number", m.fit, m, { data = { x, x[{ {}, 1 }] }, epochs = 1 })
    no("fit: y must be [N, 1]: the network has 3 outputs, two for each number, first all means", m.fit, m,
      { data = { x, x[{ {}, 1 }] }, epochs = 1 })
    m = evidential.learner { network = net(4), likelihood = "normal" }
    for _, wrong in ipairs { x[{ {}, 1 }], x:repeat_interleave(2, 2):slice(2, 1, 3), x:unsqueeze(3) } do
      no("fit: y must be [N, 2]: the network has 4 outputs, two for each number", m.fit, m, { data = { x, wrong },
        epochs = 1 })
    end
    m = evidential.learner { network = net(), method = "bedl" }
    no("y must be labels from 0 to 1", m.fit, m, { data = { x, y + 1 }, epochs = 1 })
    no("probabilities must be draws [S, N, C]", evidential.parts, pn.ones(2, 2))
  end)
end)
