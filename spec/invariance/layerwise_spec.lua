-- The layer-wise posterior as a distribution, against a mixture of dense normal laws (spec/golden/invariance/
-- linear_model.py) and the closed form of the linear model; the layer-by-layer fit where its optimum is known.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local inv, nn = pn.invariance, pn.nn
local golden = dofile "spec/golden/invariance/linear_model.lua".node

local function close(want, got, limit)
  if not pn.is_tensor(want) then want = pn.tensor(want) end
  assert.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end

local function posterior()
  return inv.node_posterior { loc = golden.loc, scale = golden.scale, prior_loc = golden.prior_loc,
    prior_scale = golden.prior_scale, inputs = golden.inputs } -- the last input is 0
end

describe("the layer-wise posterior", function()
  it("has the density and moments of a mixture of dense normal laws", function()
    local q = posterior()
    close(golden.log_prob, q:log_prob(pn.tensor(golden.w)), 1e-12)
    close(golden.mean, q:mean(), 1e-12)
    close(golden.covariance, inv.node_covariance(q), 1e-12)
    close(pn.tensor(golden.covariance):diagonal(), q:variance(), 1e-12)
    local wide = q:expand { 2 }
    close(pn.tensor { golden.log_prob, golden.log_prob }:t(), wide:log_prob(pn.tensor(golden.w):unsqueeze(2)
      :broadcast_to { 5, 2, 3 }), 1e-12)
    close(inv.node_covariance(q), inv.node_covariance(wide)[2], 1e-14)
    assert.same({ 4, 2, 3 }, wide:sample({ 4 }):shape())
    assert(message_of(inv.node_covariance, pn.dist.normal(0, 1)):find("node_covariance: q must be a node_posterior", 1,
      true))
  end)

  it("draws what it says, also with inputs of each batch", function()
    local q, n = posterior(), 100000
    local covariance = pn.tensor(golden.covariance)
    local wide = q:expand { 2 }
    for _, w in ipairs { q:sample({ n }, pn.generator(1)), wide:sample({ n }, pn.generator(2))[{ {}, 2 }] } do
      local off = w - pn.tensor(golden.mean)
      local spread = covariance:diagonal()
      assert.is_true(off:mean(1):abs():le((spread / n):sqrt() * 6):all():item())
      -- sums of products have the variance that the draws show
      local products = off:unsqueeze(3) * off:unsqueeze(2)
      local limit = (products:var(1) / n):sqrt() * 6
      assert.is_true((products:mean(1) - covariance):abs():le(limit):all():item())
      assert.is_true(limit:max():item() < 0.05)
    end
  end)

  it("is the prior where nothing was seen, with gradients that are finite", function()
    local loc, log_scale = pn.param(pn.ones(3)), pn.param(pn.zeros(3))
    local q = inv.node_posterior { loc = loc, scale = log_scale:exp(), inputs = pn.zeros { 1, 3 } }
    local w = pn.randn({ 4, 3 }, { generator = pn.generator(1) })
    close(pn.dist.normal(0, 1):log_prob(w):sum(2), q:log_prob(w), 1e-13)
    close(pn.zeros(3), q:mean(), 0)
    close(pn.eye(3), inv.node_covariance(q), 0)
    local both = inv.node_posterior { loc = loc, scale = log_scale:exp(), inputs = { { 0, 0, 0 }, { 1, 2, 0 } } }
    local draw = both:rsample({ 8 }, pn.generator(2))
    for _, g in ipairs(pn.grad(both:log_prob(draw):sum() + both:variance():sum(), { loc, log_scale })) do
      assert.is_true(g:isfinite():all():item())
      assert.is_true(g:abs():max():item() > 1e-3)
    end
    pn.check_gradients(function()
      local q_both = inv.node_posterior { loc = loc, scale = log_scale:exp(), inputs = { { 0, 0, 0 }, { 1, 2, 0 } } }
      return q_both:log_prob(w):sum() + q_both:mean():square():sum()
    end, { loc, log_scale })
  end)

  it("of one datum is the closed form of the linear model", function()
    local x, m, lambda = pn.tensor { 1, 2, -0.5, 0.7 }, pn.tensor { 0.3, 1, -1, 2 }, pn.tensor { 0.2, 1, 3, 0.4 }
    local mu, sigma = pn.tensor { 0.2, -0.4, 1, 0.3 }, pn.tensor { 1, 2, 3, 4 }
    local model = inv.linear_model { x = x, y = { 1 }, noise_variance = 1, prior_mean = mu, prior_variance = sigma }
    local closed = model:approximation({ loc = m, variance = lambda }):q_mix()
    local q = inv.node_posterior { loc = m, scale = lambda:sqrt(), prior_loc = mu, prior_scale = sigma:sqrt(),
      inputs = x:unsqueeze(1) }
    local w = pn.randn({ 5, 4 }, { generator = pn.generator(1) })
    close(closed:log_prob(w), q:log_prob(w), 1e-12)
    close(closed:mean(), q:mean(), 1e-12)
    close(closed:covariance(), inv.node_covariance(q), 1e-12)
    local layerwise = require "penumbra.invariance.layerwise"
    local mean, variance = closed:law(x)
    local d = { loc = m:unsqueeze(1), scale = lambda:sqrt():unsqueeze(1), prior_loc = mu:unsqueeze(1),
      prior_scale = sigma:sqrt():unsqueeze(1) }
    local a, v = layerwise.law(d, x:unsqueeze(1))
    close(mean, a:squeeze(), 1e-12)
    close(variance, v:squeeze(), 1e-12)
    close(closed:kl(model:prior()), layerwise.component_kl(q):squeeze(), 1e-12)
  end)
end)

describe("the layer-by-layer fit", function()
  it("of a single linear layer with one input reaches the exact posterior", function()
    local K, N, noise = 5, 6, 0.3
    local x = pn.tensor { 0.5, -1, 0.3, 1.2, 0.8 }
    local y = pn.randn({ N }, { generator = pn.generator(3) }) * 0.3 + 1
    local model = inv.linear_model { x = x, y = y, noise_variance = noise ^ 2, scale = 1, prior_variance = 0.7 }
    for _, expectation in ipairs { "conditional", "marginal" } do
      pn.seed(1)
      local exact = expectation == "conditional"
      local fit = inv.fit_layers(nn.linear(K, 1, { bias = false }), { x = x:unsqueeze(1):broadcast_to { N, K },
        y = y:unsqueeze(2), noise_scale = noise, prior_scale = 0.7 ^ 0.5, steps = 1500, lr = 0.05, max_sweeps = 1,
        expectation = expectation })
      local q, limit = fit:posterior(1), exact and 1e-6 or 0.05
      close(model:posterior():mean(), q:mean()[1], limit)
      close(model:posterior():covariance(), inv.node_covariance(q)[1], limit)
      if exact then
        assert.near(model:log_evidence():item(), fit.trace[1][1], 1e-6)
        local f = fit:predict(x:unsqueeze(1), { draws = 40000, generator = pn.generator(1) })
        local mean, variance = model:predictive(model:posterior())
        local spread = variance:item() - noise ^ 2
        assert.near(mean:item(), f:mean():item(), 6 * (spread / 40000) ^ 0.5)
        assert.near(spread, f:var():item(), 6 * spread * (2 / 40000) ^ 0.5)
      end
    end
  end)

  -- With one input, both expectations and both divergences make one objective, the ELBO; data that say little, so that
  -- a likelihood or a divergence that counts twice shows.
  it("has one optimum by every way to take its expectations", function()
    local K, N, noise = 2, 3, 1
    local x, y = pn.tensor { 0.8, -0.6 }, pn.tensor { 1.2, 0.7, 1.6 }
    local model = inv.linear_model { x = x, y = y, noise_variance = noise ^ 2, scale = 1, prior_variance = 1.5 }
    local _, exact = model:predictive(model:posterior())
    local function log_likelihood(f, t)
      return (((t - f) / noise):square() + math.log(2 * math.pi * noise ^ 2)):sum(-1) * -0.5
    end
    for _, given in ipairs { { expectation = "conditional" }, { expectation = "marginal" },
      { expectation = "conditional", kl = "mixture" } } do
      pn.seed(4)
      local o = { x = x:unsqueeze(1):broadcast_to { N, K }, y = y:unsqueeze(2), prior_scale = 1.5 ^ 0.5, steps = 1500,
        lr = 0.02, max_sweeps = 1, log_likelihood = log_likelihood, input_draws = 20, draws = 40,
        generator = pn.generator(5) }
      for key, value in pairs(given) do o[key] = value end
      local fit = inv.fit_layers(nn.linear(K, 1, { bias = false }), o)
      local q = fit:posterior(1)
      local spread = (x:unsqueeze(1):matmul(inv.node_covariance(q)[1]):matmul(x:unsqueeze(2))):item()
      assert.near(1, spread / (exact:item() - noise ^ 2), 0.12, given.expectation)
      assert.near(0, (model:posterior():mean() - q:mean()[1]):abs():max():item(), 0.08)
      assert.near(model:log_evidence():item(), fit.trace[1][1], 0.1)
      assert.same({ N * 20, K }, fit.layers[1].inputs:shape())
    end
  end)

  -- Steps of Adam along a slope that stands are as long as the rate, lr (1 + cos(pi (k - 1) / n)) / 2.
  it("moves by the rates of half a cosine, anew in each sweep", function()
    local net, lr = nn.linear(1, 1), 1e-6
    local w, b = table.unpack(net:parameters())
    local before = pn.concatenate({ w:reshape { 1 }, b }, 1):detach() + 0
    for sweeps = 1, 2 do
      local fit = inv.fit_layers(net, { x = pn.ones { 2, 1 }, y = pn.full({ 2, 1 }, 50), noise_scale = 0.5, lr = lr,
        steps = 5, max_sweeps = sweeps, tolerance = 1e-300 })
      assert.is_true(((fit.layers[1].loc[1] - before) / lr - 3 * sweeps):abs():max():item() < 1e-3)
      assert.is_true(((fit.layers[1].log_scale[1] - math.log(0.5)) / lr):abs():min():item() > 2.99 * sweeps)
    end
  end)

  it("starts at the weights of the network, and at the share of the prior's scale that was asked for", function()
    local net = nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) }
    local fit = inv.fit_layers(net, { x = pn.ones { 2, 2 }, y = pn.ones { 2, 1 }, noise_scale = 0.3, steps = 1,
      lr = 1e-13, max_sweeps = 1, prior_scale = { 2, 3 }, scale = 0.25 })
    for l, layer in ipairs { net[1], net[3] } do
      local w, b = table.unpack(layer:parameters())
      close(pn.concatenate({ w:t(), b:unsqueeze(2) }, 2), fit.layers[l].loc, 1e-12)
      close(pn.full(fit.layers[l].loc:shape(), math.log(0.25 * (l + 1))), fit.layers[l].log_scale, 1e-12)
    end
  end)

  it("draws the inputs of the next layer from what was fitted, and hands on the point that was asked for", function()
    local N, draws = 3, 500
    local x, y = pn.tensor { { -1 }, { 0.2 }, { 0.8 } }, pn.tensor { { 0.3 }, { -0.2 }, { 0.5 } }
    for _, point in ipairs { "loc", "mean" } do
      pn.seed(6)
      local fit = inv.fit_layers(nn.sequential { nn.linear(1, 2), nn.tanh(), nn.linear(2, 1) }, { x = x, y = y,
        noise_scale = 0.5, input_draws = draws, steps = 5, max_sweeps = 1, point = point })
      local first, second = fit.layers[1], fit.layers[2]
      local want = point == "mean" and fit:posterior(1):mean() or first.loc
      close(want, first.point, 1e-12)
      assert.is_true((fit:posterior(1):mean() - first.loc):abs():max():item() > 1e-3)
      -- rows of a datum stand N apart; tanh undone, they have the law of the pre-activations
      assert.same({ N * draws, 3 }, second.inputs:shape())
      local h = second.inputs:slice(2, 1, 2)
      local u = (((1 + h) / (1 - h)):log() * 0.5):reshape { draws, N, 2 }
      local mean, variance = require "penumbra.invariance.layerwise".law({ loc = first.loc,
        scale = first.log_scale:exp(), prior_loc = first.prior_loc, prior_scale = first.prior_scale },
        pn.concatenate({ x, pn.ones { N, 1 } }, 2))
      assert.is_true(((u:mean(1) - mean):abs() / (variance / draws):sqrt()):max():item() < 6)
      assert.is_true((u:var(1) / variance - 1):abs():max():item() < 6 * (2 / draws) ^ 0.5)
      assert.equal(1, second.inputs:select(2, 3):min():item())
    end
  end)

  it("ends where the last layer's objective changes by no more than the tolerance", function()
    local x = pn.linspace(-1, 1, 4):unsqueeze(2)
    for _, noise in ipairs { 0.2, 3 } do -- objectives far above 1, and nearer
      local function fit(tolerance)
        pn.seed(2)
        return inv.fit_layers(nn.sequential { nn.linear(1, 3), nn.tanh(), nn.linear(3, 1) }, { x = x, y = (x * 3):sin(),
          noise_scale = noise, steps = 4, max_sweeps = 3, tolerance = tolerance })
      end
      local whole = fit(1e-300)
      assert.same({ 3, false }, { whole.sweeps, whole.converged })
      local first, second = whole.trace[1][2], whole.trace[2][2]
      local change = math.abs(second - first) / math.max(1, math.abs(second))
      local ended = fit(change * 1.001)
      assert.same({ 2, true, second }, { ended.sweeps, ended.converged, ended.trace[2][2] })
      assert.equal(3, fit(change * 0.999).sweeps)
    end
  end)

  it("fits networks in every way that is offered", function()
    local x = pn.linspace(-1, 1, 12):unsqueeze(2)
    local y = (x * 3):sin()
    for _, given in ipairs { {}, { kl = "mixture" }, { expectation = "marginal", point = "mean" }, {
      input_draws = 1 } } do
      pn.seed(2)
      local net = nn.sequential { nn.linear(1, 6), nn.tanh(), nn.linear(6, 1) }
      given.x, given.y, given.noise_scale, given.steps, given.max_sweeps = x, y, 0.2, 100, 2
      local fit = inv.fit_layers(net, given)
      assert.same({ 30, 12, 1 }, fit:predict(x, { draws = 30 }):shape())
      assert.same({ 6 }, fit:posterior(1).batch_shape)
      assert.same({ 7 }, fit:posterior(2).event_shape)
      assert.equal(#fit.trace, fit.sweeps)
      if not given.expectation then
        assert.is_true((fit:predict(x):mean(1) - y):square():mean():item() < 0.25) -- of a variance of 0.52
      end
    end
    -- the scale of the noise is short for the likelihood that it says
    local traces = {}
    for k, given in ipairs { { noise_scale = 0.2 }, { log_likelihood = function(f, t)
      return pn.dist.normal(f, 0.2):log_prob(t):sum(-1)
    end } } do
      pn.seed(4)
      local net = nn.sequential { nn.linear(1, 6), nn.tanh(), nn.linear(6, 1) }
      given.x, given.y, given.steps, given.max_sweeps, given.expectation = x, y, 20, 2, "marginal"
      traces[k] = inv.fit_layers(net, given).trace
    end
    for sweep, row in ipairs(traces[1]) do
      for l, value in ipairs(row) do assert.near(value, traces[2][sweep][l], 1e-8 * math.abs(value)) end
    end
    -- classes, by a log likelihood of one's own
    pn.seed(3)
    local labels = x:gt(0):to "int64":squeeze(2)
    local fit = inv.fit_layers(nn.sequential { nn.linear(1, 4), pn.tanh, nn.linear(4, 2) }, { x = x, y = labels,
      max_sweeps = 2, steps = 200, log_likelihood = function(f, t) return f:log_softmax(-1):gather(2,
        t:unsqueeze(2)) end })
    assert.is_true(fit:predict(x):mean(1):argmax(2):eq(labels):to("float64"):mean():item() > 0.9)
  end)

  it("shows its errors", function()
    local net, x = nn.linear(2, 1), pn.ones { 3, 2 }
    local fit = inv.fit_layers(net, { x = x, y = pn.ones { 3, 1 }, noise_scale = 1, max_sweeps = 1, steps = 1 })
    for text, call in pairs { ["posterior: there are 1 layers, got 2"] = { fit.posterior, fit, 2 },
      ["posterior: l must be a whole number from 1 on, got 0"] = { fit.posterior, fit, 0 },
      ["predict: x must have shape [n, 2], got [2]"] = { fit.predict, fit, pn.ones { 2 } },
      ["predict: x must have shape [n, 2], got [2, 3]"] = { fit.predict, fit, pn.ones { 2, 3 } } } do
      assert(message_of(table.unpack(call)):find(text, 1, true), text)
    end
    assert.same({ 4, 3, 1 }, fit:predict(x, { draws = 4 }):shape())
    assert.same({ 100, 3, 1 }, fit:predict(x):shape())
    assert.equal("layer-by-layer fit of 1 layers, 1 sweeps", tostring(fit))
    fit.converged = true
    assert.equal("layer-by-layer fit of 1 layers, 1 sweeps, converged", tostring(fit))
    for text, given in pairs {
      ["fit_layers: exactly one of noise_scale and log_likelihood must be given"] = { x = x, y = pn.ones { 3, 1 } },
      ["fit_layers: x must have shape [N, 2], got [3]"] = { x = pn.ones(3), y = x, noise_scale = 1 },
      ["fit_layers: y must have 3 rows as x has, got [2]"] = { x = x, y = pn.ones(2), noise_scale = 1 },
      ["fit_layers: y must have shape [N, 1], got [3, 2]"] = { x = x, y = x, noise_scale = 1 },
      ["fit_layers: steps must be a whole number from 1 on, got 0"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 1,
        steps = 0 },
      ["fit_layers: input_draws must be a whole number from 1 on, got 0"] = { x = x, y = pn.ones { 3, 1 },
        noise_scale = 1, input_draws = 0 },
      ["fit_layers: noise_scale must be positive, got 0"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 0.0 },
      ["fit_layers: lr must be positive, got 0"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 1, lr = 0.0 },
      ["fit_layers: scale must be positive, got 0"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 1, scale = 0.0 },
      ["fit_layers: tolerance must be positive, got 0"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 1,
        tolerance = 0.0 },
      ["fit_layers: exactly one of noise_scale and log_likelihood"] = { x = x, y = pn.ones { 3, 1 }, noise_scale = 1,
        log_likelihood = print },
      ["fit_layers: x must have shape [N, 2], got [3, 1]"] = { x = pn.ones { 3, 1 }, y = x, noise_scale = 1 },
      ["fit_layers: y must have 3 rows as x has, got []"] = { x = x, y = pn.ones {}, noise_scale = 1 },
      ["fit_layers: y must have shape [N, 1], got [3]"] = { x = x, y = pn.ones { 3 }, noise_scale = 1 },
      ["fit_layers: prior_scale of layer 1 must be a positive number, got nil"] = { x = x, y = pn.ones { 3, 1 },
        noise_scale = 1, prior_scale = {} },
      ["fit_layers: sweeps is called max_sweeps"] = { x = x, y = x, sweeps = 1 },
      ["fit_layers: kl must be one of 'components', 'mixture', got 'both'"] = { x = x, y = x, kl = "both" },
      ["fit_layers: prior_scale of layer 1 must be a positive number, got 0"] = { x = x, y = pn.ones { 3, 1 },
        noise_scale = 1, prior_scale = 0 },
    } do
      local message = message_of(inv.fit_layers, net, given)
      assert(message:find(text, 1, true), message)
    end
  end)
end)
