-- Expected log-likelihoods under normal outputs, the noise that fits them, against quadrature and the worked network of
-- Haussmann (2021); derivatives of both orders; the regression whose noise is updated after each epoch.
local pn = require "penumbra"
local near = require("spec.helper").within
local nn, infer, dist = pn.nn, pn.infer, pn.dist
local golden = dofile "spec/golden/infer/normal_outputs.lua"

describe("an expected log-likelihood", function()
  it("is that of quadrature: normal and probit", function()
    for _, kind in ipairs { "normal", "probit" } do
      for _, row in ipairs(golden[kind]) do
        local y, m, v = pn.tensor { row[1] }, pn.tensor { row[2] }, pn.tensor { row[3] }
        for _, precision in ipairs { row[4], pn.tensor(row[4]) } do
          near(infer.expected_log_likelihood(kind, y, m, v, { precision = precision }):item(), row[5], 1e-12)
        end
      end
    end
  end)

  it("of classes is right to second order", function()
    local g = golden.logits
    local m, v = pn.tensor { g.mean, g.mean, g.mean }, pn.tensor { g.variance, g.variance, g.variance }
    local ll = infer.expected_log_likelihood("categorical", pn.arange(3):to "int64", m, v):totable()
    for k = 1, 3 do
      near(ll[k], g.categorical[k], 1e-13)
      near(ll[k], g.exact[k], 1e-3)
    end
    local p = infer.expected_softmax(m[1], v[1])
    for k = 1, 3 do near(p[k]:item(), g.softmax[k], 1e-13) end
    near(p:sum():item(), 1, 1e-14)
  end)

  it("has gradients of first and second order in everything, float32 too", function()
    local y, m, v = pn.tensor { 1.0, 0.0 }, pn.param(pn.tensor { 0.3, -1.2 }), pn.param(pn.tensor { 0.5, 0.2 })
    local b = pn.param(pn.tensor(1.7))
    for _, kind in ipairs { "normal", "probit" } do
      local function f() return infer.expected_log_likelihood(kind, y, m, v, { precision = b }):sin():sum() end
      assert.is_true(pn.check_gradients(f, { m, v, b }).error < 1e-4)
      local function g()
        local total = 0
        for _, d in ipairs(pn.grad(f(), { m, v, b }, { create_graph = true })) do total = d:square():sum() + total end
        return total
      end
      assert.is_true(pn.check_gradients(g, { m, v, b }).error < 1e-3)
      near(f():item(), pn.compile(f)():item(), 1e-15)
    end
    local logits, spread = pn.param(pn.randn { 4, 3 }), pn.param(pn.rand { 4, 3 })
    local labels = pn.tensor({ 0, 2, 1, 1 }, { dtype = "int64" })
    assert.is_true(pn.check_gradients(function()
      return infer.expected_log_likelihood("categorical", labels, logits, spread):sin():sum()
    end, { logits, spread }).error < 1e-4)
    local l32 = infer.expected_log_likelihood("categorical", labels, logits:to "float32", spread:to "float32")
    assert.equal("float32", l32:dtype())
  end)

  it("refuses shapes that would be stretched, and unknown kinds", function()
    local one, two = pn.ones { 2, 1 }, pn.ones { 2 }
    assert.error_matches(function() infer.expected_log_likelihood("normal", two, one, one) end,
      "y must have the shape of mean, %[2, 1%], got %[2%]")
    assert.error_matches(function() infer.expected_log_likelihood("normal", one, one, two) end, "variance must have")
    assert.error_matches(function() infer.expected_log_likelihood("categorical", one, one, one) end,
      "without its last axis")
    assert.error_matches(function() infer.expected_log_likelihood("normall", one, one, one) end, "normal")
    assert.error_matches(function() infer.expected_log_likelihood("normal", one, one, one, { precision = -1 }) end,
      "precision must be positive, got %-1")
    assert.error_matches(function() infer.noise_precision(two, one) end, "mean must have the shape of y")
    local labels, scalar = pn.tensor({ 0, 1 }, { dtype = "int64" }), pn.tensor(1)
    for text, f in pairs {
      ["precision is of 'normal' and 'probit' by name, got kind categorical"] = function()
        infer.expected_log_likelihood("categorical", labels, pn.ones { 2, 2 }, pn.ones { 2, 2 }, { precision = 2 })
      end,
      ["y must have the shape of mean without its last axis, got [2] for mean [3, 2]"] = function()
        infer.expected_log_likelihood("categorical", labels, pn.ones { 3, 2 }, pn.ones { 3, 2 })
      end,
      ["expected_softmax: variance must have the shape of mean, [2, 1], got [2]"] = function()
        infer.expected_softmax(one, two)
      end,
      ["noise_precision: variance must have the shape of mean, [2], got [2, 1]"] = function()
        infer.noise_precision(two, two, one)
      end,
      ["noise_precision: y must have the shape of mean, [2, 1], got [2]"] = function()
        infer.noise_precision(two, one, one)
      end,
      ["noise_precision: mean must have the shape of y, [2], or be draws of it, got [0, 2]"] = function()
        infer.noise_precision(two, pn.ones { 0, 2 })
      end,
      ["noise_precision: mean must have the shape of y, [2], or be draws of it, got [4, 3]"] = function()
        infer.noise_precision(two, pn.ones { 4, 3 })
      end,
      ["noise_precision: variance must be a tensor"] = function() infer.noise_precision(two, two, 1) end,
      ["expected_log_likelihood: mean must be a tensor"] = function()
        infer.expected_log_likelihood("normal", two, 1, two)
      end,
    } do
      require("spec.helper").refuses(text, f)
    end
    near(infer.noise_precision(scalar, pn.tensor { 0, 3 }):item(), 1 / 2.5, 1e-15)
    near(infer.expected_log_likelihood("normal", two, two * 3, two)[2]:item(), -math.log(2 * math.pi) / 2 - 2.5, 1e-14)
  end)
end)

describe("the noise of a regression", function()
  it("is the worked network's, with its bound and its prediction", function()
    local how = { bias = false, prior_scale = 10 ^ -0.5 }
    local first, second = nn.bayes_linear(2, 2, how), nn.bayes_linear(2, 1, how)
    first:load_state { weight_loc = pn.tensor { { .5, -.3 }, { -.25, .1 } },
      weight_log_scale = pn.full({ 2, 2 }, math.log(.2)) }
    second:load_state { weight_loc = pn.tensor { { .8 }, { -.6 } }, weight_log_scale = pn.full({ 2, 1 }, math.log(.3)) }
    local net = nn.sequential { first, nn.relu { rule = "identity_heaviside" }, second }
    local y = pn.ones { 1, 1 }
    local m, v = net:moments(pn.tensor { { 1, -2 } })
    local ll = infer.expected_log_likelihood("normal", y, m, v, { precision = 2 })
    near(ll:item(), -.848364942925, 1e-12)
    near(infer.elbo { log_likelihood = ll:sum(-1), kl = net:kl(), num_data = 1 }:item(), -8.54880692233, 1e-10)
    near(infer.noise_precision(y, m, v):item(), 3.6231884058, 1e-10)
    near(dist.normal(m, (v + 0.5):sqrt()):log_prob(y):item(), -.792849866122, 1e-12)
  end)

  it("maximises the expected log-likelihood; of draws it is that of their squares", function()
    pn.seed(3)
    local y, m, v = pn.randn(20), pn.randn(20), pn.rand(20)
    local b = pn.param(infer.noise_precision(y, m, v))
    near(pn.grad(infer.expected_log_likelihood("normal", y, m, v, { precision = b }):sum(), { b })[1]:item(), 0, 1e-12)
    local draws = m + v:sqrt() * pn.randn { 20000, 20 }
    near(infer.noise_precision(y, draws):item() / b:item(), 1, 0.02)
    near(infer.noise_precision(y, m):item(), 1 / (y - m):square():mean():item(), 1e-12)
    local some, wide, twice = pn.param(m), pn.param(v), pn.param(pn.randn { 2, 20 })
    pn.check_gradients(function() return infer.noise_precision(y, some, wide) end, { some, wide }, { tolerance = 1e-7 })
    pn.check_gradients(function() return infer.noise_precision(y, twice) end, { twice }, { tolerance = 1e-7 })
  end)

  it("is found by updates after each epoch", function()
    pn.seed(5)
    local x = pn.randn { 200, 2 }
    local y = x[{ {}, { 1, 1 } }] * 2 - x[{ {}, { 2, 2 } }] + pn.randn { 200, 1 } * 0.3
    local net = nn.bayesian(nn.linear(2, 1), { prior = 10 })
    local opt, beta = pn.optim.adam(net:parameters(), { lr = 0.05 }), pn.tensor(1.0)
    local step = pn.compile(function(precision)
      local m, v = net:moments(x)
      local ll = infer.expected_log_likelihood("normal", y, m, v, { precision = precision }):sum(-1)
      return -infer.elbo { log_likelihood = ll, kl = net:kl(), num_data = 200 } / 200
    end, { optimiser = opt })
    for _ = 1, 30 do
      for _ = 1, 10 do step(beta) end
      beta = pn.no_grad(function() return infer.noise_precision(y, net:moments(x)) end)
    end
    near(beta:item() ^ -0.5, 0.3, 6 * 0.3 / 400 ^ 0.5)
  end)
end)
