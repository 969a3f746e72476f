-- nn.bayesian, nn.predict, moments through layers: against the worked network of Haussmann (2021), closed forms, draws.
local pn = require "penumbra"
local core = require "penumbra.core"
local near = require("spec.helper").within
local nn, dist = pn.nn, pn.dist

-- Draws of f, their mean and variance within `sigmas` of what is said; the interval must mean something.
local function agrees(draws, mean, variance, narrow)
  local n = draws:size(1)
  local m, v = draws:mean(1), draws:var(1)
  local error_m = (variance / n):sqrt() * 6
  local fourth = (draws - m):square():square():mean(1)
  local error_v = ((fourth - v:square()) / n):sqrt() * 6
  assert.is_true((m - mean):abs():le(error_m):all():item() == true)
  assert.is_true((v - variance):abs():le(error_v):all():item() == true)
  assert.is_true((error_v / variance):max():item() < narrow)
end

describe("moments through a network", function()
  -- x = (1, -2), first weights [[.5, -.25], [-.3, .1]] of variance .04, second (.8, -.6) of variance .09, no biases
  local function worked(rule, sharpness)
    local how = { bias = false, prior_scale = 10 ^ -0.5 }
    local first, second = nn.bayes_linear(2, 2, how), nn.bayes_linear(2, 1, how)
    first:load_state { weight_loc = pn.tensor { { .5, -.3 }, { -.25, .1 } },
      weight_log_scale = pn.full({ 2, 2 }, math.log(.2)) }
    second:load_state { weight_loc = pn.tensor { { .8 }, { -.6 } }, weight_log_scale = pn.full({ 2, 1 }, math.log(.3)) }
    return nn.sequential { first, nn.relu { rule = rule, sharpness = sharpness }, second }, first
  end

  it("gives the worked network's digits by each rule", function()
    local x = pn.tensor { { 1, -2 } }
    for _, case in ipairs {
      { "identity_heaviside", math.huge, .8, .236 },
      { "identity_heaviside", 10, .801971536982, .237369610249 },
      { "identity_heaviside", 100, .8, .236 },
      { "clt", 1, .783811560787, .237945117744 },
    } do
      local net = worked(case[1], case[2])
      local m, v = net:moments(x)
      near(m:item(), case[3], 1e-12)
      near(v:item(), case[4], 1e-12)
      near(net:kl():item(), 7.70044197941, 1e-10)
    end
    local _, first = worked("clt", 1)
    local m, v = nn.sequential { first, nn.relu() }:moments(x)
    near(m[1][1]:item(), 1.00197132322, 1e-11)
    near(m[1][2]:item(), .029609162986, 1e-11)
    near(v[1][1]:item(), .195490058794, 1e-11)
    near(v[1][2]:item(), .0106739637026, 1e-11)
  end)

  it("is exact for one hidden layer by moment matching", function()
    pn.seed(4)
    local net = nn.sequential { nn.bayes_linear(3, 8, { estimator = "weights", posterior_scale = 0.4 }), nn.relu(),
      nn.bayes_linear(8, 1, { estimator = "weights", posterior_scale = 0.3 }) }
    local x = pn.tensor { { 0.4, -1, 2 } }
    local m, v = net:moments(x)
    local list = {}
    for s = 1, 20000 do list[s] = pn.no_grad(net, x):reshape { 1 } end
    agrees(pn.stack(list), m:reshape { 1 }, v:reshape { 1 }, 0.2)
  end)

  it("takes covariances through gates: exact at any depth where gates stand still", function()
    pn.seed(5)
    -- large biases: the gates of every draw are those of the means
    local function layer(n, m)
      local l = nn.bayes_linear(n, m, { estimator = "weights", posterior_scale = 0.1 })
      local state = l:state()
      state.bias_loc = pn.tensor(10.0) * (pn.arange(m) % 2 * 2 - 1)
      return l:load_state(state)
    end
    local gate = nn.relu { rule = "identity_heaviside" }
    local net = nn.sequential { layer(3, 6), gate, layer(6, 6), gate, nn.bayes_linear(6, 2, { estimator = "weights",
      posterior_scale = 0.1 }) }
    local x = pn.tensor { { 0.4, -1, 2 } }
    local m, c = net:moments(x, pn.zeros { 1, 3, 3 })
    local _, diagonal = net:moments(x)
    local list = {}
    for s = 1, 20000 do list[s] = pn.no_grad(net, x):reshape { 2 } end
    local draws = pn.stack(list)
    agrees(draws, m:reshape { 2 }, c[1]:diagonal(), 0.2)
    local centred = draws - draws:mean(1)
    local cross = (centred[{ {}, 1 }] * centred[{ {}, 2 }])
    local error_c = 6 * (cross:var():item() / 20000) ^ 0.5
    near(cross:mean():item(), c[1][1][2]:item(), error_c)
    assert.is_true(error_c < 0.3 * math.abs(c[1][1][2]:item()) + 0.1)
    assert.is_true((diagonal - c[1]:diagonal()):abs():max():item() > 1e-3) -- the diagonal recursion is biased here
  end)

  it("passes max pooling by the element that is largest in the mean", function()
    local mean = pn.tensor { 1, 5, 2, 4, 3, 3, 7, 0, 1, 1, 1, 2, 9, 8, 0, 0 }:reshape { 1, 1, 4, 4 }
    local variance = pn.arange(16):reshape { 1, 1, 4, 4 }
    local m, v = nn.max_pool2d { kernel = 2 }:moments(mean, variance)
    assert.same({ { 5, 7 }, { 9, 2 } }, m[1][1]:totable())
    assert.same({ { 1, 6 }, { 12, 11 } }, v[1][1]:totable())
  end)

  it("refuses what has no moments", function()
    assert.error_matches(function() nn.tanh():moments(pn.zeros { 1, 2 }, pn.ones { 1, 2 }) end, "no moments")
    assert.error_matches(function() nn.relu():moments(pn.zeros { 1, 2 }, pn.ones { 1, 2, 2 }) end, "gates only")
  end)
end)

describe("nn.bayesian", function()
  local function small()
    return nn.sequential { nn.linear(3, 4), nn.tanh(), nn.linear(4, 2) }
  end

  it("predicts by draws, or by their mean and variance, batch by batch", function()
    local x = pn.randn({ 5, 2, 4, 4 }, { generator = pn.generator(3) })
    local net = nn.bayesian(nn.conv2d(2, 2, { kernel = 3 }), { posterior_scale = 0.3 })
    local m, v = net:moments(x)
    local n = m:numel()
    local draws = net:predict(x, { draws = 2000, generator = pn.generator(6) })
    assert.same({ 2000, 5, 2, 2, 2 }, draws:shape())
    agrees(draws:reshape { 2000, n }, m:reshape { n }, v:reshape { n }, 0.4)
    for _, batch in ipairs { 2, 5, 100 } do
      local mean, variance = net:predict(x, { draws = 300, batch_size = batch, moments = true,
        generator = pn.generator(7) })
      assert.is_true(((mean - m):abs() / (v / 300):sqrt()):max():item() < 6)
      assert.is_true((variance / v - 1):abs():max():item() < 6 * (2 / 300) ^ 0.5)
    end
    assert.equal(0, (nn.predict(net, x, { draws = 3, mode = "mean" }) - net:mean(x)):abs():max():item())
    assert.same({ 4, 0, 2, 2, 2 }, net:predict(pn.zeros { 0, 2, 4, 4 }, { draws = 4 }):shape())
    -- rows in as many parts as there are, and moments that are those of the same draws
    local noisy = nn.module { forward = function(_, rows, generator)
      return rows + pn.randn(rows:shape(), { generator = generator })
    end }
    for _, case in ipairs { { 1, 1 }, { 2, 1 }, { 2, 2 }, { 3, 2 }, { 4, 2 }, { 3, 7 } } do
      local rows = pn.arange(case[1]):to "float64":unsqueeze(2) * 100
      local function how(moments)
        return { draws = 4, batch_size = case[2], moments = moments, generator = pn.generator(3) }
      end
      local each, mean, variance = nn.predict(noisy, rows, how(false)), nn.predict(noisy, rows, how(true))
      assert.same({ 4, case[1], 1 }, each:shape())
      assert.is_true((each - rows):abs():max():item() < 6)
      assert.is_true((each:mean(1) - mean):abs():max():item() < 1e-12)
      assert.is_true((each:var(1, 0) - variance):abs():max():item() < 1e-12)
    end
    for got, bad in pairs { ["a number"] = pn.tensor(1), number = 3 } do
      assert.error_matches(function() nn.predict(noisy, bad) end,
        "predict: input must be a tensor with data along its first axis, got " .. got)
    end
    assert.error_matches(function() nn.predict(3, pn.ones { 2 }) end,
      "predict: network must be a layer, a sequential, a module or a function, got number")
  end)

  it("has gradients in means and scales, eager as replayed", function()
    pn.seed(7)
    for _, estimator in ipairs { "local", "weights", "flipout" } do
      local net, x = nn.bayesian(small(), { estimator = estimator }), pn.randn { 5, 3 }
      local loss = function() return net(x):square():mean() + net:kl() * 0.01 end
      local ps = net:parameters()
      assert.equal(8, #ps)
      for _, g in ipairs(pn.grad(loss(), ps)) do assert.is_true(g:square():sum():item() > 0) end
      local step = pn.compile(function() return loss() end)
      pn.seed(9)
      local eager = loss():item()
      pn.seed(9)
      assert.equal(eager, step():item())
      pn.seed(9)
      assert.equal(eager, step():item())
    end
  end)

  it("has the divergence's gradient in all that it is made of: against differences", function()
    local x = pn.randn { 4, 3 }
    for _, prior in ipairs { 2, "scale", "student", "laplace" } do
      local scale = (prior == "scale" or prior == "laplace") and pn.param(pn.tensor(0.7)) or nil
      local law = scale and dist[prior == "scale" and "normal" or prior](0.25, scale)
        or prior == "student" and dist.student_t(5, 0, 1) or prior
      local given = { prior = law, posterior_scale = 0.5, draws = 3 }
      local one, two = nn.bayesian(nn.linear(3, 2), given), nn.bayesian(nn.linear(2, 2), given)
      local net = nn.sequential { one, nn.tanh(), nn.sequential { two, nn.relu() } }
      local list = net:parameters()
      if scale then list[#list + 1] = scale end
      local function divergence()
        pn.seed(4)
        return net:kl()
      end
      assert.is_true(pn.check_gradients(divergence, list).error < 1e-5)
      pn.seed(4)
      near(net:kl():item(), (pn.seed(4) or one:kl() + two:kl()):item(), 1e-12)
      assert.is_true(net(x):requires_grad())
    end
  end)

  it("sums the divergence over all weights, in closed form where there is one", function()
    local net = nn.bayesian(small(), { prior = 2, posterior_scale = 0.5 })
    local want = 0
    for _, entry in ipairs(small():named_parameters()) do
      want = want + dist.kl(net:posterior(entry[1]), dist.normal(0, 2)):sum():item()
    end
    near(net:kl():item(), want, 1e-10)
    net(pn.randn { 2, 3 }) -- however often it is called
    near(net:kl():item(), want, 1e-10)
    pn.seed(8)
    local student = nn.bayesian(nn.linear(30, 30), { prior = dist.student_t(5, 0, 1), draws = 200 })
    local q, p = student:posterior "weight", dist.student_t(5, 0, 1)
    local draws = q:sample { 2000 }
    local estimate = (q:log_prob(draws) - p:log_prob(draws)):mean(1):sum():item()
    near(student:kl():item() / estimate, 1, 0.05)
  end)

  it("takes priors by name, learned ones too, and yesterday's posterior", function()
    local scale = pn.param(pn.tensor(0.7))
    local net = nn.bayesian(small(), { prior = { weight = dist.normal(0, scale), bias = 1 } })
    assert.is_true(math.abs(pn.grad(net:kl(), { scale })[1]:item()) > 0)
    local found = false
    for _, p in ipairs(net:parameters()) do found = found or core.identity(p) == core.identity(scale) end
    assert.is_true(found)
    net:become_prior()
    near(net:kl():item(), 0, 1e-12)
    pn.optim.sgd(net:parameters(), { lr = 0.1 }):step(net(pn.ones { 1, 3 }):square():sum())
    local late = net:kl():item()
    assert.is_true(late > 1e-6)
    local other = nn.bayesian(small(), { prior = { weight = dist.normal(0, pn.param(pn.tensor(0.7))), bias = 1 } })
    assert.error_matches(function() other:load_state(net:state()) end, "'priors.1.weight.loc' is not a parameter")
    other:become_prior():load_state(net:state())
    assert.equal(late, other:kl():item())
    local step = pn.compile(function() return other:kl() end)
    assert.equal(late, step():item())
    other:become_prior()
    near(step():item(), 0, 1e-12)
    assert.error_matches(function() nn.bayesian(small(), { prior = { bias = 1 } }) end, "no prior for '1.weight'")
    assert.error_matches(function() nn.bayesian(small(), { prior = -1 }) end, "positive scale")
    assert.error_matches(function() nn.bayesian(nn.relu()) end, "no parameters")
  end)

  it("is saved and loaded", function()
    local one, two = nn.bayesian(small()), nn.bayesian(small())
    two:load_state(one:state())
    local x = pn.randn { 3, 3 }
    assert.equal(0, (one:mean(x) - two:mean(x)):abs():max():item())
    near(one:kl():item(), two:kl():item(), 0)
  end)
end)

describe("priors of unit variance", function()
  it("know the variances of activations", function()
    -- Kurle et al. (2020), by Gauss quadrature
    for name, c in pairs { identity = 1, tanh = 0.3942944904, relu = 0.3408450569, sigmoid = 0.0433790359,
      softplus = 0.2715145018, elu = 0.6191785634, leaky_relu = 0.3440622403, erf = 0.4645590544,
      sin = 0.4323323584 } do
      near(nn.activation_variance(name), c, 1e-10)
    end
    near(nn.activation_variance(nn.relu()), 0.3408450569, 1e-10)
    near(nn.activation_variance(function(x) return x end), 1, 1e-12)
  end)

  it("make what the layers get have variance 1, shared between the means and the posterior", function()
    pn.seed(11)
    local net = nn.sequential { nn.linear(40, 300), nn.tanh(), nn.linear(300, 200) }
    local b = nn.bayesian(net, { prior = "unit_variance", posterior_scale = "unit_variance" })
    near(b.priors["1.weight"].scale:item(), 40 ^ -0.5, 1e-12)
    near(b.priors["3.weight"].scale:item(), (300 * 0.3942944904) ^ -0.5, 1e-10)
    local q = b:posterior "3.weight"
    local total = (q:mean():square():mean() + q:variance():mean()):item()
    near(total * 300 * 0.3942944904, 1, 6 * (2 / 60000) ^ 0.5)
    near(q:variance():mean():item() * 300 * 0.3942944904, 0.001, 1e-5)
  end)
end)

describe("predictions by draws", function()
  it("have as mean and variance those of the draws, batch by batch", function()
    pn.seed(3)
    local net = pn.nn.bayesian(pn.nn.linear(2, 3), { posterior_scale = 0.4 })
    local x = pn.randn { 5, 2 }
    for _, draws in ipairs { 1, 2, 7 } do
      for _, size in ipairs { 2, 5, 9 } do
        local function given(moments)
          return { draws = draws, batch_size = size, moments = moments, generator = pn.generator(4) }
        end
        local all = pn.nn.predict(net, x, given(false))
        local mean, variance = pn.nn.predict(net, x, given(true))
        assert.same({ draws, 5, 3 }, all:shape())
        assert.is_true((mean - all:mean(1)):abs():max():item() < 1e-12)
        assert.is_true((variance - (all - all:mean(1)):square():mean(1)):abs():max():item() < 1e-12)
      end
    end
  end)
end)
