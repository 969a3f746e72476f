-- Objectives against sums written out by hand.
local pn = require "penumbra"
local dist, infer = pn.dist, pn.infer
local objective = require "penumbra.infer.objective"

local function near(got, want)
  assert(math.abs(got - want) < 1e-12 * math.max(1, math.abs(want)), ("got %.15g, want %.15g"):format(got, want))
end

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("elbo of a minibatch", function()
  local ll = pn.tensor { -1.0, -2.0, -3.0 }

  it("scales the likelihood to the data set and counts the divergence once", function()
    near(infer.elbo({ log_likelihood = ll, kl = 5, num_data = 30 }):item(), -6 * 10 - 5)
    near(infer.elbo({ log_likelihood = ll, kl = pn.tensor(5), num_data = 3 }):item(), -11)
    near(infer.elbo({ log_likelihood = ll, kl = pn.tensor { 5.0 }, num_data = 3 }):item(), -11)
  end)

  it("takes the mean over draws, the sum over data", function()
    local draws = pn.stack({ ll, ll * 3 }, 1)
    near(infer.elbo({ log_likelihood = draws, kl = 1, num_data = 6 }):item(), (-6 - 18) / 2 * 2 - 1)
  end)

  it("asks for N", function()
    assert.matches("objective_spec.lua:%d+: elbo: num_data is required: the number N of data",
      message_of(infer.elbo, { log_likelihood = ll, kl = 1 }))
  end)

  it("refuses an N below the minibatch, a sum in place of likelihoods, a divergence per weight", function()
    assert.matches("num_data must be at least the minibatch's size 3, got 2",
      message_of(infer.elbo, { log_likelihood = ll, kl = 1, num_data = 2 }))
    assert.matches("log_likelihood must have 1 to 2 axes",
      message_of(infer.elbo, { log_likelihood = ll:sum(), kl = 1, num_data = 3 }))
    assert.matches("kl must have one element", message_of(infer.elbo, { log_likelihood = ll, kl = ll, num_data = 3 }))
    assert.matches("unknown option 'kll', did you mean 'kl'",
      message_of(infer.elbo, { log_likelihood = ll, kll = 1, num_data = 3 }))
  end)
end)

describe("elbo of other forms", function()
  local ll = pn.tensor { { -1.0, -2.0, -3.0 }, { -1.5, -2.5, 0 } }
  local kl = pn.tensor { 0.5, 0.25, 1 }

  it("agree where the divergence and the entropy are those of the draws", function()
    local log_prior, log_q = pn.randn { 2, 3 }, pn.randn { 2, 3 }
    local want = infer.elbo(ll + log_prior, log_q):item()
    near(infer.elbo({ log_likelihood = ll, kl = log_q - log_prior }):item(), want)
    near(infer.elbo({ log_joint = ll + log_prior, entropy = -log_q }):item(), want)
  end)

  it("keep the bound as value while beta and free bits change the gradient", function()
    local k = pn.param(kl)
    local y = infer.elbo({ log_likelihood = ll, kl = k, beta = 0.1 })
    near(y:item(), ll:mean():item() - kl:mean():item())
    for _, g in ipairs(pn.grad(y, { k })[1]:totable()) do near(g, -0.1 / 3) end
    local beta = pn.tensor(0.5)
    local step = pn.compile(function(b)
      return pn.grad(infer.elbo({ log_likelihood = ll, kl = k, beta = b }), { k })[1]
    end)
    step(beta)
    near(step(pn.tensor(0.2)):totable()[2], -0.2 / 3)
  end)

  it("refuse what does not say how the terms count", function()
    local function refused(text, ...) assert.matches(text, message_of(infer.elbo, ...)) end
    refused("elbo: write elbo{log_likelihood = ll, kl = kl, num_data = N}, elbo{log_joint", { log_likelihood = ll })
    refused("elbo: write elbo{log_likelihood", { log_p = ll, log_q = ll, kl = 1 })
    refused("elbo: write elbo{log_likelihood", {})
    refused("elbo: log_q must be a tensor, got number", ll, 3)
    refused("beta, free_bits and num_data need the form with log_likelihood and kl",
      { log_p = ll, log_q = ll, beta = 1 })
    refused("kl must be %[B%], or %[K, B%] like log_likelihood, without num_data, got shape %[2%]",
      { log_likelihood = ll, kl = pn.ones { 2 } })
    refused("kl must be %[B, D%], a divergence per dimension, for free bits, got shape %[3%]",
      { log_likelihood = ll, kl = kl, free_bits = 1 })
    refused("kl must be %[B, D%], a divergence per dimension, for free bits, got shape %[1%]",
      { log_likelihood = ll, kl = pn.ones { 1 }, free_bits = 1 })
    near(infer.elbo { log_likelihood = pn.tensor { -2 }, kl = pn.tensor { 0.5 } }:item(), -2.5) -- a batch of one
    refused("groups must divide the dimensions of kl, got shape %[3, 4%]",
      { log_likelihood = ll, kl = pn.ones { 3, 4 }, free_bits = 1, groups = 3 })
    refused("beta must have one element, got shape %[3%]", { log_likelihood = ll, kl = kl, beta = kl })
    refused("num_data is required", { log_likelihood = ll, kl = kl:sum() })
    refused("kl must be below %+inf, got inf at element 2", { log_likelihood = ll, kl = pn.tensor { 0, math.huge, 1 } })
    assert.matches("map: num_data is required", message_of(infer.map, { log_likelihood = kl, log_prior = -1 }))
    assert.matches("map: log_prior must have one element", message_of(infer.map,
      { log_likelihood = kl, log_prior = kl, num_data = 3 }))
    assert.matches("map: num_data must be at least the minibatch's size 3, got 2", message_of(infer.map,
      { log_likelihood = kl, log_prior = -1, num_data = 2 }))
  end)
end)

describe("bounds of log-weights", function()
  local log_w = pn.tensor { { -1.0, 0.5 }, { -2.0, 0.25 }, { 0.75, -3.0 } }

  it("elbo is the mean", function()
    near(infer.elbo(log_w, log_w * 0):item(), (-1 + 0.5 - 2 + 0.25 + 0.75 - 3) / 6)
  end)

  it("iwae is the mean over data of the log of the mean weight", function()
    local a = math.log((math.exp(-1) + math.exp(-2) + math.exp(0.75)) / 3)
    local b = math.log((math.exp(0.5) + math.exp(0.25) + math.exp(-3)) / 3)
    near(infer.iwae(log_w):item(), (a + b) / 2)
  end)

  it("one draw is the elbo; more are never below it; -inf among the weights is a weight of 0", function()
    local one = log_w[{ { 1, 1 } }]
    near(infer.iwae(one):item(), infer.elbo(one, one * 0):item())
    assert.is_true(infer.iwae(log_w):item() >= infer.elbo(log_w, log_w * 0):item())
    local dead = pn.tensor { { 0.0 }, { -math.huge } }
    near(infer.iwae(dead):item(), -math.log(2))
  end)
end)

describe("the bound that pn.svi follows", function()
  it("counts each term as its plates say, also those that draws do not reach, side by side or one by one", function()
    local u, y = pn.tensor { 0.5, -1, 2, 0.3 }, pn.tensor { 1, 0.2, -0.7, 1.4 }
    local rows = pn.tensor({ 2, 0 }, { dtype = "int64" })
    local pair = pn.model(function(m)
      local z = m:sample("z", dist.normal(0.5, 2))
      m:plate("rows", 4, { batch_size = 2 }, function(i)
        local x = m:sample("x", dist.normal(z, 1))
        m:observe("u", dist.normal(0, 1.5), u:take(1, i))
        m:observe("y", dist.normal(x, 0.5), y:take(1, i))
        m:factor("each", i:to "float64")
      end)
      m:factor("once", 0.25)
    end)
    local loc = pn.tensor { 0.1, 0.2, 0.3, 0.4 }
    for _, kind in ipairs { "normal", "detached" } do -- the second has no path, and its score beside the bound
      local guide = pn.model(function(m)
        local a, s = m:param("a", 0.3), m:param("s", 0.8)
        m:sample("z", dist.normal(a, s))
        m:plate("rows", 4, { batch_size = 2 }, function(i) m:sample("x", dist.normal(loc:take(1, i), s)) end)
      end)
      for _, case in ipairs { { false, 3 }, { true, 3 }, { false, 1 }, { true, 1 } } do
        local vectorised, n = table.unpack(case)
        local fit = pn.svi(pair, guide, { steps = 0, draws = n, vectorised = vectorised,
          divergence = kind == "detached" and "monte_carlo" or nil })
        fit.how.guide.detached = kind == "detached"
        pn.seed(2)
        local run = objective.run_pair
        objective.run_pair = function(self, how) return run(self, how, { rows = rows }) end
        local loss = objective.negative_elbo(fit, fit.how)
        objective.run_pair = run
        local a, s = table.unpack(guide:parameters())
        local slopes = pn.grad(loss, { a, s })
        pn.seed(2)
        local costs, scores = {}, {}
        local function draw(d) return kind == "detached" and d:sample() or d:rsample() end
        local qx = dist.normal(loc:take(1, rows), s)
        local z, x = dist.normal(a, s), qx
        if vectorised then z, x = draw(z:expand { n, 1 }), draw(x:expand { n, 2 }) end
        for k = 1, n do
          local zk, xk = vectorised and z[k][1] or draw(z), vectorised and x[k] or draw(x)
          local score = dist.normal(a, s):log_prob(zk) + qx:log_prob(xk):sum() * 2
          local closed = kind == "normal" and dist.kl(dist.normal(a, s), dist.normal(0.5, 2))
            + dist.kl(qx, dist.normal(zk, 1)):sum() * 2
          local log_p = dist.normal(0, 1.5):log_prob(u:take(1, rows)):sum() * 2
            + dist.normal(xk, 0.5):log_prob(y:take(1, rows)):sum() * 2 + (2 + 0) * 2 + 0.25
          costs[k] = closed and closed - log_p or score - log_p - dist.normal(0.5, 2):log_prob(zk)
            - dist.normal(zk, 1):log_prob(xk):sum() * 2
          scores[k] = score
        end
        local cost, score = pn.stack(costs, 1), pn.stack(scores, 1)
        local want = cost:mean()
        near(loss:item(), want:item())
        if kind == "detached" then
          local signal = cost:detach()
          signal = n > 1 and (signal - signal:mean()) * (n / (n - 1)) or signal
          want = want + (score * signal):mean()
        end
        for k, slope in ipairs(pn.grad(want, { a, s })) do near(slopes[k]:item(), slope:item()) end
      end
    end
  end)

  it("is a sum for each row of the outermost plate that holds all, or one sum", function()
    local y = pn.randn { 4, 3 }
    local taken = { rows = pn.tensor({ 2, 0 }, { dtype = "int64" }), cells = pn.tensor({ 1, 3 }, { dtype = "int64" }) }
    local part = y:take(1, taken.cells):take(2, taken.rows)
    for _, outside in ipairs { false, true } do
      local function body(m, f)
        local law = dist.normal(m:param("t", 0.3), 1)
        if outside then return f(m:sample("z", law), m) end
        m:plate("rows", 3, { batch_size = 2 }, function(i) f(m:sample("z", law), m, i) end)
      end
      local function cells(z, m, i)
        if outside then
          m:plate("rows", 3, { batch_size = 2 }, function(k)
            m:observe("y", dist.normal(z, 1), y:take(1, taken.cells):take(2, k):sum(1))
          end)
          return
        end
        m:plate("cells", 4, { batch_size = 2 }, function(k)
          m:observe("y", dist.normal(z, 1), y:take(1, k):take(2, i))
        end)
      end
      for _, particles in ipairs { false, 3 } do
        local fit = pn.svi(pn.model(function(m) body(m, cells) end), pn.model(function(m) body(m, function() end) end),
          { steps = 0, draws = 3, vectorised = particles and true or false, estimator = "score_function" })
        local run, z = objective.run_pair, nil
        objective.run_pair = function(self, how)
          local g, m = run(self, how, taken)
          z = g.sites.z.value
          return g, m
        end
        local terms = objective.densities(fit, fit.how)
        objective.run_pair = run
        local function log_normal(x, loc) return (x - loc):square() * -0.5 - 0.5 * math.log(2 * math.pi) end
        local own = log_normal(z, 0.3)
        local want = outside and own + log_normal(part:sum(1), z):sum({ -1 }, particles and true or false) * 1.5
          or own + log_normal(part, z):sum({ -2 }, particles and true or false) * 2
        local shape = outside and { 1 } or { 2 }
        if particles then table.insert(shape, 1, particles) end
        assert.same({ shape, shape }, { terms.log_p:shape(), terms.log_q:shape() })
        near((terms.log_p - want:reshape(shape)):abs():max():item(), 0)
        near((terms.log_q - own:reshape(shape)):abs():max():item(), 0)
      end
    end
  end)

  it("through draws is that of pn.infer's estimators on the same draws, some of weight 0", function()
    -- z_i ~ N(t, 1) where z_i > low_i, y_i ~ N(z_i, 1); the last datum has weights of 0 alone
    local y = pn.tensor { 1.5, -0.5, 0.2 }
    local function alive(z, low) return pn.where(z:gt(low), pn.tensor(0), pn.tensor(-math.huge)) end
    local function check(name, low, vectorised)
      local pair = pn.model(function(m)
        local t = m:param("t", 0.2)
        m:plate("rows", 3, function()
          local z = m:sample("z", dist.normal(t, 1))
          m:factor("alive", alive(z, low))
          m:observe("y", dist.normal(z, 1), y)
        end)
      end)
      local guide = pn.model(function(m)
        local a, s = m:param("a", 0.3), m:param("s", 0.8)
        m:plate("rows", 3, function() m:sample("z", dist.normal(a, s)) end)
      end)
      local fit = pn.svi(pair, guide, { steps = 0, draws = 4, vectorised = vectorised, estimator = name })
      local a, s = table.unpack(guide:parameters())
      local t = pair:parameters()[1]
      pn.seed(4)
      local bound = objective.estimate(fit, fit.how)
      local slopes = pn.grad(bound, { a, s, t })
      pn.seed(4)
      local rows = {}
      for k = 1, 4 do rows[k] = not vectorised and dist.normal(a, s):expand({ 3 }):rsample() or nil end
      local z = vectorised and dist.normal(a, s):expand({ 4, 3 }):rsample() or pn.stack(rows, 1)
      local log_p = dist.normal(t, 1):log_prob(z) + dist.normal(z, 1):log_prob(y) + alive(z, low)
      local want = pn.infer[name](log_p, dist.normal(a, s):log_prob(z), z)
      assert.is_true(bound:item() == want:item() or math.abs(bound:item() - want:item()) < 1e-12)
      for k, slope in ipairs(pn.grad(want, { a, s, t })) do
        near(slopes[k]:item(), slope:item())
        assert.is_true(math.abs(slope:item()) > 1e-3)
      end
    end
    for _, vectorised in ipairs { false, true } do
      check("sticking_the_landing", pn.full({ 3 }, -100), vectorised)
      check("dreg", pn.tensor { 0, -100, 0.4 }, vectorised)
      check("dreg", pn.tensor { 0, -100, 100 }, vectorised)
    end
  end)
end)
