-- Sites of single data, scores, memories and updates: quadrature (spec/golden/continual/sites.py), the same sums one
-- datum and one draw at a time by automatic differentiation, closed forms of linear models, all subsets.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local continual, dist, nn = pn.continual, pn.dist, pn.nn
local golden = dofile "spec/golden/continual/sites.lua"

local function close(want, got, limit, what)
  want, got = pn.is_tensor(want) and want or pn.tensor(want), pn.is_tensor(got) and got or pn.tensor(got)
  assert.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("%s: off by %.3g"):format(what or "value", off))
end

local function column(list)
  return pn.tensor(list):unsqueeze(2)
end

-- ---- one logistic weight, by quadrature ----

local function logistic()
  local g = golden.logistic
  local s = dist.natural.diagonal(column(g.precision_mean), column(g.precision))
  local q = dist.normal(pn.tensor { g.mean }, g.variance ^ 0.5):independent(1)
  return s, dist.normal(pn.zeros { 1 }, 1):independent(1), q, { expected_log_likelihood = pn.tensor(g.expected) }
end

describe("sites", function()
  -- At the optimum prior and sites multiply to q, whose moments quadrature found by themselves.
  it("of one logistic weight are those by quadrature, and multiply to the optimum", function()
    local g = golden.logistic
    local exact, _, q = logistic()
    local net, draws = nn.linear(1, 1, { bias = false }), 200000
    for k, estimator in ipairs { "reparametrised", "hessian" } do
      local s, terms = continual.sites(net, column(g.x), pn.tensor(g.y), { likelihood = "bernoulli", posterior = q,
        draws = draws, estimator = estimator, generator = pn.generator(k) })
      -- one draw of a gradient is below |x|, one of g eps / scale below |x| / scale
      local width = pn.tensor(g.x):abs():unsqueeze(2) * (6 / draws ^ 0.5)
      assert(((s.precision - exact.precision):abs() / width):max():item() < g.variance ^ -0.5)
      assert(((s.precision_mean - exact.precision_mean):abs() / width):max():item() < 1 + g.variance ^ -0.5)
      assert(((terms.expected_log_likelihood - pn.tensor(g.expected)):abs() / width:squeeze(2)):max():item()
        < g.variance ^ 0.5)
      -- the prior times them has the moments that quadrature found for q by themselves
      local all = width:sum():item()
      assert.near(1 / g.variance, 1 + s.precision:sum():item(), all * g.variance ^ -0.5)
      assert.near(g.mean / g.variance, s.precision_mean:sum():item(), all * (1 + g.variance ^ -0.5))
      assert(all < 0.1 / g.variance)
    end
  end)

  -- Mpmath gives the same at 25 digits, the fifth as -0.70461304.
  local printed = golden.logistic.score

  it("score as printed, by size, and without the constant", function()
    local s, _, q, terms = logistic()
    close(printed, continual.scores(s, q, terms), 1e-12)
    close({ -.69862087, -.69393684, -.72088684, -.69317701, -.70461304 }, continual.scores(s, q, terms), 1e-8)
    close(pn.tensor(printed):abs(), continual.scores(s, q, terms, { kind = "absolute" }), 1e-12)
    local g = golden.logistic
    local signed = (pn.tensor(g.y) * 2 - 1) * pn.tensor(g.x)
    terms.log_likelihood_at_mean = -((signed * -g.mean):softplus())
    -- E_q[log p] - log p(m) + lambda v / 2: without eta
    close(terms.expected_log_likelihood - terms.log_likelihood_at_mean + pn.tensor(g.precision) * (g.variance / 2),
      continual.scores(s, q, terms, { kind = "centred" }), 1e-12)
  end)

  it("score tempered data by weight times the score, or without the weight by name", function()
    local s, _, q, terms = logistic()
    local w = pn.tensor { 1, 0.5, 0.25, 0.9, 0.1 }
    local tempered = dist.natural.diagonal(s.precision_mean * w:unsqueeze(2), s.precision * w:unsqueeze(2))
    local told = { expected_log_likelihood = terms.expected_log_likelihood * w }
    close(pn.tensor(printed) * w, continual.scores(tempered, q, told), 1e-12)
    close(printed, continual.scores(tempered, q, told, { weights = w }), 1e-12)
    assert.matches("weights must be positive", message_of(continual.scores, s, q, terms, { weights = w * 0 }))
  end)

  it("add up to the ELBO, below the evidence", function()
    local s, prior, q, terms = logistic()
    local elbo = continual.residual_elbo(s, prior, q, terms):item()
    assert(math.abs(elbo + 3.788309432) < 1e-9)
    assert(math.abs(elbo - golden.logistic.elbo) < 1e-11)
    assert(elbo < golden.logistic.log_evidence and math.abs(golden.logistic.log_evidence + 3.786430209) < 1e-9)
  end)

  it("of a linear model are exact, with scores of closed form", function()
    local x, y = pn.tensor { { 1, .5 }, { .2, -1 }, { -.7, .3 } }, pn.tensor { .8, -.4, .1 }
    local prior = dist.normal(pn.tensor { .1, -.2 }, pn.tensor { 1, 2 }:sqrt()):independent(1)
    local q = dist.normal(pn.tensor { .352525388521, .527831204801 },
      pn.tensor { .140449438202, .170648464164 }:sqrt()):independent(1)
    local function drawn(draws)
      return continual.sites(nn.linear(2, 1, { bias = false }), x, y, { likelihood = "normal", noise_scale = 0.5,
        posterior = q, estimator = "hessian", draws = draws, generator = pn.generator(1) })
    end
    local s, terms = drawn(100)
    close({ { 4, 1 }, { .16, 4 }, { 1.96, .36 } }, s.precision, 1e-13)
    local eta = { { 2.144337590399, .894949222957 }, { .102264963841, 1.882020310817 },
      { .163378212033, .416121326358 } }
    -- moments of the draws enter precision_mean and the expectation: the exact ones for the rest
    local exact = dist.natural.diagonal(pn.tensor(eta), s.precision)
    local square = (y - x:matmul(q:mean())):square() + (x:square() * q:variance()):sum(2)
    local told = { expected_log_likelihood = square / -0.5 - 0.5 * math.log(2 * math.pi * 0.25),
      log_likelihood_at_mean = terms.log_likelihood_at_mean }
    close({ -1.133643551553, -0.694650473082, -0.402093429103 }, continual.scores(exact, q, told), 1e-11)
    close({ 0, 0, 0 }, continual.scores(exact, q, told, { kind = "centred" }), 1e-13)
    close(-3.198758798488, continual.residual_elbo(exact, prior, q, told), 1e-11)
    -- a draw of the gradient has a deviation of at most 4 (1 + 1) 0.42 < 3.4
    close(eta, drawn(100000).precision_mean, 6 * 3.4 / 100000 ^ 0.5)
  end)
end)

-- ---- Monte Carlo ----

local function perceptron()
  return nn.sequential { nn.linear(1, 1, { bias = false }), nn.tanh(), nn.linear(1, 1, { bias = false }) }
end

-- x, y and options for a golden case of two weights.
local function golden_case(kind)
  local g = golden[kind]
  return column(g.x), column(g.y), { likelihood = kind, noise_scale = kind == "normal" and 0.3 or nil,
    posterior = dist.normal(pn.tensor(g.mean), pn.tensor(g.variance):sqrt()):independent(1), draws = 40000,
    generator = pn.generator(7) }, g
end

-- A network with all that counts, its posterior, and S draws of its weights in the order in which sites draws them.
local function larger(inputs, outputs)
  pn.seed(5)
  local net = nn.sequential { nn.linear(inputs, 3), pn.softplus, nn.tanh(),
    nn.linear(3, 4, { bias = false }), nn.sigmoid(), nn.linear(4, outputs) }
  return nn.bayesian(net, { posterior_scale = 0.4 }), net
end

-- The sums of one draw after another and one datum after another, by the gradient of the whole network.
local function one_by_one(net, x, log_p, S, q, generator)
  local named, eps = net:named_parameters(), {}
  for k, entry in ipairs(named) do
    local shape = entry[2]:shape()
    table.insert(shape, 1, S)
    eps[k] = pn.randn(shape, { generator = generator })
  end
  local m, scale = q.precision_mean / q.precision, q.precision:pow(-0.5)
  local etas, precisions, expected = {}, {}, {}
  for n = 1, x:size(1) do
    local g_sum, h_sum, value = pn.zeros { m:size(1) }, pn.zeros { m:size(1) }, 0
    for s = 1, S do
      local noise = {}
      for k in ipairs(named) do noise[k] = eps[k][{ s }]:reshape { -1 } end
      noise = pn.concatenate(noise, 1)
      local from = 1
      local means = m + scale * noise
      for _, entry in ipairs(named) do
        local size = entry[2]:numel()
        entry[2]:set(means:slice(1, from, from + size - 1):reshape(entry[2]:shape()))
        from = from + size
      end
      local v = log_p(net(x:slice(1, n, n)), n)
      local list = {}
      for k, entry in ipairs(named) do list[k] = entry[2] end
      for k, gradient in ipairs(pn.grad(v, list)) do list[k] = gradient:reshape { -1 } end
      local g = pn.concatenate(list, 1)
      g_sum, h_sum, value = g_sum + g, h_sum + g * noise, value + v:item()
    end
    precisions[n] = h_sum / scale / -S
    etas[n] = g_sum / S + precisions[n] * m
    expected[n] = value / S
  end
  return pn.stack(etas), pn.stack(precisions), pn.tensor(expected)
end

describe("sites by Monte Carlo", function()
  for _, kind in ipairs { "bernoulli", "normal" } do
    it("agree with quadrature: " .. kind, function()
      local x, y, o, g = golden_case(kind)
      local s, terms = continual.sites(perceptron(), x, y, o)
      local error = pn.tensor(g.deviation) / o.draws ^ 0.5
      local off = (s.precision - pn.tensor(g.precision)):abs() / error
      assert(off:max():item() < 6, off:max():item())
      -- narrow: the gaussian's precisions go to 7, its slopes to 10 times the other's
      assert(error:max():item() * 6 < (kind == "normal" and 0.7 or 0.05))
      o.draws, o.estimator, o.generator = 40000, "hessian", pn.generator(8)
      local curved = continual.sites(perceptron(), x, y, o)
      off = (curved.precision - pn.tensor(g.precision)):abs() / error
      assert(off:max():item() < 3, off:max():item())
      close(g.precision_mean, curved.precision_mean, kind == "normal" and 0.15 or 0.02)
      close(g.expected, terms.expected_log_likelihood, kind == "normal" and 0.03 or 0.02)
    end)
  end

  -- Deviations of one draw's precision at the first datum of the logistic example: 0.90 and 0.057.
  it("has the variance of each estimator", function()
    local g, n = golden.logistic, 400
    local net, x, y = nn.linear(1, 1, { bias = false }), pn.full({ 1, 1 }, g.x[1]), pn.full({ 1 }, g.y[1])
    local _, _, q = logistic()
    for name, deviation in pairs { reparametrised = 0.90, hessian = 0.057 } do
      local square, generator = 0, pn.generator(3)
      for _ = 1, n do
        local s = continual.sites(net, x, y, { likelihood = "bernoulli", posterior = q, draws = 20, estimator = name,
          generator = generator })
        square = square + (s.precision:item() - g.precision[1]) ^ 2 * 20 / n
      end
      assert(math.abs(square / deviation ^ 2 - 1) < 6 * (2 / n) ^ 0.5, name .. " " .. square ^ 0.5)
    end
  end)

  local cases = {
    normal = { y = function() return pn.randn { 4, 2 } end, log_p = function(f, y)
      return dist.normal(y, 0.7):log_prob(f):sum()
    end },
    categorical = { y = function() return pn.tensor({ 1, 0, 1, 1 }, { dtype = "int64" }) end, log_p = function(f, y)
      return (f - f:logsumexp(2):unsqueeze(2))[{ 1, y:item() + 1 }]
    end },
    bernoulli = { y = function() return pn.tensor { { 0, 1 }, { 1, 1 }, { 0, 0 }, { 1, 0 } } end,
      log_p = function(f, y) return dist.bernoulli { logits = f }:log_prob(y:unsqueeze(1)):sum() end },
  }
  for kind, case in pairs(cases) do
    it("are the sums of single data and draws: " .. kind, function()
      local b, net = larger(3, 2)
      local x, y, q = pn.randn { 4, 3 }, case.y(), continual.posterior(b)
      local o = { likelihood = kind, noise_scale = kind == "normal" and 0.7 or nil, draws = 5,
        generator = pn.generator(2) }
      local s, terms = continual.sites(b, x, y, o)
      local eta, precision, expected = one_by_one(net, x, function(f, n) return case.log_p(f, y[{ n }]) end, 5, q,
        pn.generator(2))
      close(precision, s.precision, 1e-10, "precision")
      close(eta, s.precision_mean, 1e-10, "precision_mean")
      close(expected, terms.expected_log_likelihood, 1e-11, "expectation")
      if kind == "normal" then -- a function of the script's own
        o.posterior, o.generator, o.noise_scale = q, pn.generator(2), nil
        o.likelihood = function(f, targets) return dist.normal(targets, 0.7):log_prob(f):sum(-1) end
        close(precision, continual.sites(b, x, y, o).precision, 1e-10)
      end
    end)
  end

  it("have no graph: nothing of the passes is kept for a gradient", function()
    local bayesian = larger(2, 1)
    local x, y = pn.randn { 3, 2 }, pn.randn { 3, 1 }
    for _, estimator in ipairs { "reparametrised", "hessian" } do
      local s, terms = continual.sites(bayesian, x, y, { likelihood = "normal", noise_scale = 0.5, draws = 4,
        estimator = estimator })
      for _, t in ipairs { s.precision, s.precision_mean, terms.expected_log_likelihood, terms.expected_log_site,
        terms.log_likelihood_at_mean } do
        assert.is_false(t:requires_grad())
      end
    end
  end)

  it("of both estimators are the same mean, for deeper networks", function()
    local b = larger(2, 3)
    local x, y = pn.randn { 6, 2 }, pn.tensor({ 0, 1, 2, 2, 1, 0 }, { dtype = "int64" })
    local s = {}
    for k, name in ipairs { "reparametrised", "hessian" } do
      s[k] = continual.sites(b, x, y, { likelihood = "categorical", draws = 20000, estimator = name,
        generator = pn.generator(k) })
    end
    -- one draw's deviation is below sqrt(2) |g| / scale < 1.5 here: 6 sigma
    assert((s[1].precision - s[2].precision):abs():max():item() < 6 * 1.5 / 20000 ^ 0.5)
    assert(s[2].precision:max():item() > 0.15)
  end)

  it("do not depend on threads, nor on blocks of data but for rounding", function()
    local b = larger(2, 1)
    local x, y, before = pn.randn { 300, 2 }, pn.randn { 300 }, pn.threads()
    local function found(threads, draws, budget, estimator)
      pn.threads(threads)
      local s = continual.sites(b, x, y, { likelihood = "normal", noise_scale = 1, draws = draws,
        generator = pn.generator(4), budget = budget, estimator = estimator })
      pn.threads(before)
      return s
    end
    for _, estimator in ipairs { "reparametrised", "hessian" } do
      assert.same(found(1, 200, nil, estimator).precision:totable(), found(3, 200, nil, estimator).precision:totable())
      -- room for 12 draws of a part of the data
      local whole, parts = found(1, 12, nil, estimator), found(1, 12, 15360, estimator)
      close(whole.precision, parts.precision, 1e-11)
      close(whole.precision_mean, parts.precision_mean, 1e-11)
    end
  end)

  -- six numbers for each node of a datum and draw, two for each weight of a draw; rows for 16 draws at least
  it("hold as many numbers at once as the budget says, about", function()
    for _, case in ipairs { { sizes = { 60, 60 }, nodes = 60, weights = 3660, budget = 60000 },
      { sizes = { 2, 90, 1 }, nodes = 91, weights = 361, budget = 30000 } } do
      local sizes, S, N = case.sizes, 1, 1
      while N < 7 and 16 * (N + 1) * 6 * case.nodes <= case.budget do N = N + 1 end
      while (S + 1) * (N * 6 * case.nodes + 2 * case.weights) <= case.budget do S = S + 1 end
      local most, widest, seen = 0, 0, 0
      continual.sites(nn.bayesian(nn.mlp(sizes)), pn.randn { 7, sizes[1] }, pn.zeros { 7, sizes[#sizes] }, { draws = 70,
        budget = case.budget, likelihood = function(f, y)
          most = math.max(most, f:size(1))
          if f:size(1) > 1 then widest, seen = math.max(widest, f:size(2)), seen + f:size(1) * f:size(2) end
          return dist.normal(y, 1):log_prob(f):sum(-1)
        end })
      -- each datum and draw once for its value, once for its slope
      assert.same({ S, N, 2 * 70 * 7 }, { most, widest, seen })
    end
  end)

  it("are tempered by weights, in float32 too, and under no_grad", function()
    local net = perceptron()
    local x, y, o = golden_case "bernoulli"
    o.draws = 50
    local plain, terms = continual.sites(net, x, y, o)
    o.generator, o.weights = pn.generator(7), { 1, 0.5, 0 }
    local s, told = pn.no_grad(function() return continual.sites(net, x, y, o) end)
    local w = pn.tensor(o.weights)
    close(plain.precision * w:unsqueeze(2), s.precision, 1e-14)
    close(plain.precision_mean * w:unsqueeze(2), s.precision_mean, 1e-14)
    close(terms.expected_log_likelihood * w, told.expected_log_likelihood, 1e-14)
    pn.default_dtype "float32"
    local small = perceptron()
    pn.default_dtype "float64"
    local found = continual.sites(small, x:to "float32", y, { likelihood = "bernoulli", posterior = o.posterior,
      draws = 50 })
    assert.equal("float32", found.precision:dtype())
  end)

  it("are refused where there are none, by name", function()
    local b = larger(2, 1)
    local x, y = pn.randn { 4, 2 }, pn.zeros { 4 }
    local function refused(pattern, net, o, at, to)
      assert.matches(pattern, message_of(continual.sites, net, at or x, to or y, o))
    end
    refused("sites: the network must be fully connected with elementwise activations, got layer_norm",
      nn.sequential { nn.linear(2, 2), nn.layer_norm(2), nn.linear(2, 1) }, { likelihood = "bernoulli" })
    refused("posterior must be given", nn.linear(2, 1), { likelihood = "bernoulli" })
    refused("posterior must be of all 3 weights", nn.linear(2, 1), { likelihood = "bernoulli",
      posterior = dist.normal(pn.zeros { 2 }, 1):independent(1) })
    refused("'bias' without a posterior", nn.bayesian(nn.linear(2, 1), { prior = { weight = 1, bias = false } }),
      { likelihood = "bernoulli" })
    refused("sites: likelihood must be one of 'bernoulli', 'categorical', .* did you mean 'probit'", b,
      { likelihood = "probitt" })
    refused("sites: gaussian is called normal", b, { likelihood = "gaussian", noise_scale = 1 })
    refused("sites: noise_scale stands in the likelihood already", b, { noise_scale = 1,
      likelihood = nn.likelihood.normal { scale = 1 } })
    refused("noise_scale must be a positive number", b, { likelihood = "normal" })
    local q = dist.normal(pn.zeros { 3 }, 1):independent(1)
    local odd = { likelihood = "bernoulli", posterior = q, draws = 3, antithetic = true }
    refused("draws must be even with antithetic, got 3", nn.linear(2, 1), odd)
    odd.antithetic = false
    assert.is_true(continual.sites(nn.linear(2, 1), x, y, odd).precision:isfinite():all():item())
    refused("weights must have shape %[4%], got %[3%]", b, { likelihood = "bernoulli", weights = { 1, 1, 1 } })
    refused("weights must have shape %[4%], got %[4, 1%]", b, { likelihood = "bernoulli", weights = pn.ones { 4, 1 } })
    refused("y must be 0 or 1", b, { likelihood = "bernoulli" }, x, pn.full({ 4 }, 2))
    refused("y must be classes", b, { likelihood = "categorical" })
    refused("x must have shape %[N, 2%]", b, { likelihood = "bernoulli" }, pn.zeros { 4, 3 })
    refused("estimator must be \"reparametrised\" where the likelihood is a function", b,
      { estimator = "hessian", likelihood = function(f) return f:sum(-1) end })
    refused("estimator must be \"reparametrised\" for an activation with a kink, as after linear layer 1",
      nn.bayesian(nn.sequential { nn.linear(2, 2), nn.relu(), nn.linear(2, 1) }),
      { estimator = "hessian", likelihood = "bernoulli" })
    refused("likelihood must give %[%d+, 4%]", b, { likelihood = function(f) return f:sum() end })
    refused("likelihood must give %[%d+, 4%] .*, got %[3, %d+%]$", b, { likelihood = function(f)
      return f:sum(-1):slice(1, 1, 3) * pn.ones { 3, 4 }
    end, draws = 7 })
    refused("likelihood must give %[7, 4%] .*, got number", b, { likelihood = function() return 3 end, draws = 7 })
    for _, bad in ipairs { pn.zeros { 3 }, pn.zeros { 4, 2 }, pn.zeros { 4, 1, 1 }, pn.zeros { 3, 1 } } do
      refused("sites: y must have shape %[4, 1%], got ", b, { likelihood = "bernoulli" }, x, bad)
    end
    refused("sites: y must have 4 data along its first axis, got %[%]", b, { likelihood = function(f) return f:sum(-1)
      end }, x, pn.tensor(1))
    refused("sites: y must have 4 data along its first axis, got %[3%]", b, { likelihood = function(f) return f:sum(-1)
      end }, x, pn.ones { 3 })
    for _, bad in ipairs { -1, 0.5 } do
      refused("y must be whole numbers from 0 on for likelihood \"poisson\"", b, { likelihood = "poisson" }, x,
        pn.full({ 4 }, bad))
    end
    refused("y must be 0 or 1", b, { likelihood = "bernoulli" }, x, pn.full({ 4 }, 0.5))
    for _, bad in ipairs { 0, -1, math.huge } do
      refused("noise_scale must be a positive number", b, { likelihood = "normal", noise_scale = bad })
    end
    local three, int64 = larger(2, 3), { dtype = "int64" }
    for label, text in pairs { [-1] = "y must be classes from 0 to 2, got %-1 to 0", [3] =
      "y must be classes from 0 to 2, got 0 to 3" } do
      refused(text, three, { likelihood = "categorical" }, x, pn.tensor({ 0, 0, label, 0 }, int64))
    end
    for _, bad in ipairs { pn.zeros({ 4, 1 }, int64), pn.zeros({ 3 }, int64), pn.zeros { 4 } } do
      refused("y must be classes, int64 of shape %[4%]", three, { likelihood = "categorical" }, x, bad)
    end
    continual.sites(three, x, pn.tensor({ 0, 2, 1, 0 }, int64), { likelihood = "categorical", draws = 2 })
    refused("likelihood categorical takes 4 outputs, the network has 3", three, { likelihood =
      nn.likelihood.categorical { classes = 4 } }, x, pn.zeros({ 4 }, int64))
    for _, bad in ipairs { pn.zeros { 0, 2 }, pn.zeros { 2 }, pn.zeros { 4, 2, 1 } } do
      refused("sites: x must have shape %[N, 2%] with N > 0, got", b, { likelihood = "bernoulli" }, bad)
    end
    refused("sites: x must be float64, as the network is, got float32", b, { likelihood = "bernoulli" },
      x:to "float32")
    refused("sites: budget must be a whole number from 1 on, got 0", b, { likelihood = "bernoulli", budget = 0 })
    refused("posterior must have positive precisions, got 0", nn.linear(2, 1), { likelihood = "bernoulli", posterior =
      dist.natural.diagonal(pn.zeros { 3 }, pn.tensor { 1, 0, 1 }) })
    refused("posterior must be of all 3 weights", nn.linear(2, 1), { likelihood = "bernoulli", posterior =
      dist.natural.diagonal(pn.zeros { 1, 3 }, pn.ones { 1, 3 }) })
    refused("sites: rows must be places of data, got boolean", b, { likelihood = "bernoulli", rows = true })
    for _, bad in ipairs { {}, pn.ones { 2 }, pn.zeros({ 1, 2 }, int64) } do
      refused("sites: rows must be places of data, int64 %[M%] with M > 0, got", b, { likelihood = "bernoulli", rows =
        bad })
    end
    refused("rows must be places from 0 to 3, got %-1 to 3", b, { likelihood = "bernoulli", rows = { 3, -1 } })
    assert.matches("posterior: network must be of pn.nn.bayesian, got a userdata", message_of(continual.posterior,
      nn.linear(2, 1)))
  end)
end)

-- ---- memory and update ----

-- Sites of Monte Carlo at a posterior that is no optimum: nothing adds up before the correction.
local function rough()
  local b = larger(2, 1)
  local x, y = pn.randn { 7, 2 }, pn.tensor { 0, 1, 1, 0, 1, 0, 1 }
  local q = continual.posterior(b)
  local s, terms = continual.sites(b, x, y, { likelihood = "bernoulli", draws = 500, generator = pn.generator(6) })
  local n = q.precision:size(1)
  return s, dist.normal(pn.zeros { n }, 1):independent(1), q, terms
end

describe("correction of bias", function()
  it("makes sites multiply to the posterior; the printed sign doubles the error", function()
    local s, prior, q = rough()
    local p = dist.natural.of(prior)
    local c, wrong = continual.correct_bias(s, prior, q), continual.correct_bias(s, prior, q, { sign = "printed" })
    for _, part in ipairs { "precision", "precision_mean" } do
      local lack = q[part] - p[part] - s[part]:sum(1)
      assert(lack:abs():max():item() > 0.1)
      close(q[part] - p[part], c[part]:sum(1), 1e-11)
      close(lack * 2, q[part] - p[part] - wrong[part]:sum(1), 1e-11)
    end
  end)

  it("makes both updates one", function()
    local s, prior, q, terms = rough()
    local kept = { 0, 2, 6 }
    local function both(sites)
      local a, first = continual.gaussian_update(sites, prior, q, { kept = kept, method = "multiply" })
      local b, second = continual.gaussian_update(sites, prior, q, { kept = kept, method = "divide" })
      assert.same({ "multiply", "divide" }, { first.method, second.method })
      return a, b, first.clipped + second.clipped
    end
    local a, b, clipped = both(continual.correct_bias(s, prior, q))
    assert.equal(0, clipped)
    close(a.precision, b.precision, 1e-11)
    close(a.precision_mean, b.precision_mean, 1e-11)
    a, b = both(s)
    assert((a.precision - b.precision):abs():max():item() > 0.1)
    -- and the ELBO from residuals that of its definition
    local c = continual.correct_bias(s, prior, q)
    local kl = dist.kl(q:to_distribution(), prior)
    close(terms.expected_log_likelihood:sum() - kl, continual.residual_elbo(c, prior, q, terms), 1e-10)
  end)
end)

describe("gaussian_update", function()
  local function three()
    local s = dist.natural.diagonal(column { 1, 2, 3 }, column { 1, 2, -1 })
    return s, dist.normal(pn.zeros { 1 }, 1):independent(1), dist.natural.diagonal(pn.tensor { 6 }, pn.tensor { 3 })
  end

  it("multiplies where the new data are at most those kept, else divides", function()
    local s, p, q = three()
    local function method(num_new, kept)
      return select(2, continual.gaussian_update(s, p, q, { kept = pn.tensor(kept, { dtype = "int64" }),
        num_new = num_new })).method
    end
    assert.equal("multiply", method(2, { 0, 1 }))
    assert.equal("divide", method(3, { 0, 1 }))
    assert.equal("divide", method(nil, { 0 }))
  end)

  it("without a memory is the posterior, bit for bit", function()
    local s, p, q = three()
    local r, report = continual.gaussian_update(s, p, q)
    assert.equal("divide", report.method)
    assert.equal(q.precision:item(), r.precision:item())
    assert.equal(q.precision_mean:item(), r.precision_mean:item())
  end)

  it("raises negative precisions and counts them", function()
    local s, p, q = three()
    local r, report = continual.gaussian_update(s, p, q, { kept = { 0, 1 }, num_new = 9, floor = 0.25 })
    assert.equal(1, report.clipped)
    close({ 0.25 }, r.precision, 0)
    close({ 0.5 }, r.precision_mean, 0) -- the posterior's mean, 2
    assert.matches("places from 0 to 2, got 3", message_of(continual.gaussian_update, s, p, q, { kept = { 3 } }))
    assert.matches("once, got 1 twice", message_of(continual.gaussian_update, s, p, q, { kept = { 1, 1 } }))
    assert.matches("floor must be above 0", message_of(continual.gaussian_update, s, p, q, { floor = 0 }))
    assert.matches("floor must be above 0 and at most 1", message_of(continual.gaussian_update, s, p, q,
      { floor = 1.01 }))
    close(q.precision, continual.gaussian_update(s, q, q, { floor = 1.0 }).precision, 0)
  end)

  it("is the sum over what has left, or the posterior less what stays, weight by weight", function()
    local diagonal, g = dist.natural.diagonal, pn.generator(3)
    local function draws(...) return pn.randn({ ... }, { generator = g }) end
    local s = diagonal(draws(4, 3), pn.rand({ 4, 3 }, { generator = g }) + 0.1)
    local p, q = diagonal(draws(3), pn.tensor { 1, 2, 3 }), diagonal(draws(3), pn.tensor { 5, 6, 7 })
    local kept, others = pn.tensor({ 2, 0 }, { dtype = "int64" }), pn.tensor({ 1, 3 }, { dtype = "int64" })
    for _, case in ipairs { { 2, "multiply" }, { 3, "divide" }, { nil, "divide" }, { 9, "multiply", "multiply" },
      { 0, "divide", "divide" } } do
      local r, report = continual.gaussian_update(s, p, q, { kept = kept, num_new = case[1], method = case[3] })
      assert.same({ method = case[2], clipped = 0 }, report)
      for _, name in ipairs { "precision_mean", "precision" } do
        close(case[2] == "multiply" and p[name] + s[name]:take(1, others):sum(1) or q[name]
          - s[name]:take(1, kept):sum(1), r[name], 1e-14)
      end
    end
    for sign, way in pairs { sum = 1, printed = -1 } do
      local c = continual.correct_bias(s, p, q, { sign = sign })
      for _, name in ipairs { "precision_mean", "precision" } do
        close(s[name] + way * (q[name] - p[name] - s[name]:sum(1)) / 4, c[name], 1e-14)
      end
    end
    -- what the sites say of themselves under q, and all of them as a bound
    local terms = { expected_log_likelihood = draws(4), log_likelihood_at_mean = draws(4) }
    local mean, variance = q.precision_mean / q.precision, q.precision:reciprocal()
    local at_mean = (s.precision_mean * mean - s.precision * mean:square() / 2):sum(2)
    local spread = (s.precision * variance):sum(2) / -2
    local score = terms.expected_log_likelihood - at_mean - spread
    close(score, continual.scores(s, q, terms), 1e-14)
    close(score:abs(), continual.scores(s, q, terms, { kind = "absolute" }), 1e-14)
    close(terms.expected_log_likelihood - terms.log_likelihood_at_mean - spread, continual.scores(s, q, terms,
      { kind = "centred" }), 1e-14)
    local product = diagonal(p.precision_mean + s.precision_mean:sum(1), p.precision + s.precision:sum(1))
    close(product:log_normaliser() - p:log_normaliser() + score:sum(), continual.residual_elbo(s, p, q, terms), 1e-13)

    local function refused(want, f, ...) assert.matches(want, message_of(f, ...), 1, true) end
    local update, scores = continual.gaussian_update, continual.scores
    refused("gaussian_update: sites must have one batch axis, of data, got precision of shape [3]", update, p, p, q)
    refused("gaussian_update: predecessor must be of 3 weights, as the sites are, got precision_mean of shape [2]",
      update, s, diagonal(draws(2), pn.ones { 2 }), q)
    refused("gaussian_update: posterior must be of 3 weights", update, s, p, s)
    refused("gaussian_update: posterior must be of 3 weights", update, s, p, dist.normal(0, 1))
    refused("gaussian_update: sites must be a normal distribution or a Gaussian factor, got number", update, 3, p, q)
    refused("gaussian_update: kept must be places of data, got number", update, s, p, q, { kept = 3 })
    refused("gaussian_update: kept must be places from 0 to 3, got -1", update, s, p, q, { kept = { -1 } })
    refused("gaussian_update: kept must be places from 0 to 3, got 0.5", update, s, p, q, { kept = { 0.5 } })
    refused("scores: terms must be the table that sites gives, got number", scores, s, q, 3)
    refused("scores: terms must have expected_log_likelihood, got none", scores, s, q, {})
    refused("scores: terms.expected_log_likelihood must have shape [4], a number for each site, got [3]", scores, s, q,
      { expected_log_likelihood = pn.ones { 3 } })
    refused("scores: terms.expected_log_likelihood must have shape [4]", scores, s, q, { expected_log_likelihood =
      pn.ones { 4, 1 } })
    refused("scores: terms must have log_likelihood_at_mean, got none", scores, s, q, { expected_log_likelihood =
      draws(4) }, { kind = "centred" })
    refused("scores: weights must have shape [4]", scores, s, q, terms, { weights = pn.ones { 3 } })
    refused("top: scores must have one axis, got shape [1, 4]", continual.top, draws(1, 4), 2)
    refused("top: scores must be numbers, got nan at place 1", continual.top, pn.tensor { 1, 0 / 0 }, 1)
    refused("k_center: x must have data along its first axis", continual.k_center, pn.ones {}, 1)
    refused("k_center: x must have data along its first axis", continual.k_center, pn.ones { 0, 2 }, 1)
    close(q.precision, update(s, p, q, { kept = pn.zeros({ 0 }, { dtype = "int64" }) }).precision, 0)
    refused("top: M must be a whole number from 0 on, got -1", continual.top, draws(4), -1)
    refused("k_center: M must be a whole number from 0 on, got -1", continual.k_center, draws(4, 2), -1)
    assert.equal("divide", select(2, update(s, p, q, { kept = { 0, 1, 2 } })).method) -- of four new ones three stay
    local cube = draws(4, 2, 2)
    assert.same(continual.k_center(cube:reshape { 4, 4 }, 3):totable(), continual.k_center(cube, 3):totable())
    assert.equal(0, continual.k_center(cube, 0):numel())
  end)
end)

-- All subsets of M of n places.
local function subsets(n, M)
  local list = {}
  local function grow(from, chosen)
    if #chosen == M then
      list[#list + 1] = { table.unpack(chosen) }
      return
    end
    for i = from, n - 1 do
      chosen[#chosen + 1] = i
      grow(i + 1, chosen)
      chosen[#chosen] = nil
    end
  end
  grow(0, {})
  return list
end

describe("a memory", function()
  it("of the top scores has the largest sum of all subsets", function()
    pn.seed(11)
    local s = pn.randn { 9 }
    local values, best = s:totable(), -math.huge
    for _, chosen in ipairs(subsets(9, 4)) do
      local sum = 0
      for _, i in ipairs(chosen) do sum = sum + values[i + 1] end
      best = math.max(best, sum)
    end
    local sum = 0
    for _, i in ipairs(continual.top(s, 4):totable()) do sum = sum + values[i + 1] end
    assert(math.abs(sum - best) < 1e-14)
    assert.same({ 0, 1 }, continual.top(pn.tensor { 1, 1, 1 }, 2):totable())
    assert.same({ 0, 1 }, continual.top(pn.tensor { 1, 2 }, 5):totable())
    assert.equal(0, continual.top(pn.tensor { 1, 1 }, 0):numel())
    assert.matches("scores must be numbers, got nan", message_of(continual.top, pn.tensor { 1, 0 / 0 }, 1))
  end)

  it("of k centers reaches within twice the best radius", function()
    pn.seed(12)
    for _ = 1, 5 do
      local x = pn.randn { 10, 2 }
      local d = (x:unsqueeze(1) - x:unsqueeze(2)):square():sum(3):sqrt():totable()
      local function radius(chosen)
        local r = 0
        for i = 1, 10 do
          local nearest = math.huge
          for _, j in ipairs(chosen) do nearest = math.min(nearest, d[i][j + 1]) end
          r = math.max(r, nearest)
        end
        return r
      end
      local best = math.huge
      for _, chosen in ipairs(subsets(10, 3)) do best = math.min(best, radius(chosen)) end
      assert(radius(continual.k_center(x, 3):totable()) <= 2 * best)
    end
  end)

  it("of k centers takes the farthest, then each datum once", function()
    local x = pn.tensor { { 0 }, { 1 }, { 5 }, { 5 }, { -3 } }
    assert.same({ 0, 2, 4 }, continual.k_center(x, 3):totable())
    assert.same({ 1, 2, 4 }, continual.k_center(x, 3, { first = 1 }):totable())
    local all = continual.k_center(x, 9):totable()
    table.sort(all)
    assert.same({ 0, 1, 2, 3, 4 }, all)
    assert.matches("first must be below", message_of(continual.k_center, x, 2, { first = 5 }))
  end)
end)
