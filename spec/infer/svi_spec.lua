--- pn.svi with guides of one's own: bounds, evidence and gradients of conjugate models against their closed forms, by
--- every estimator.
local pn = require "penumbra"
local dist = pn.dist
local objective = require "penumbra.infer.objective"
local helper = require "spec.helper"
local message_of, near = helper.message_of, helper.near

-- Bayesian linear regression with known noise: posterior N(mean, precision^-1), evidence N(y; 0, X X' + s^2 I).
local function regression()
  pn.seed(11)
  local x = pn.randn { 20, 2 }
  local y = x:matmul(pn.tensor { 1, -2 }) + pn.randn { 20 } * 0.5
  local precision = x:t():matmul(x) / 0.25 + pn.eye(2)
  local covariance = precision:cholesky():cholesky_solve(pn.eye(2))
  local cover = x:matmul(x:t()) + pn.eye(20) * 0.25
  return { x = x, y = y, covariance = covariance, mean = covariance:matmul(x:t():matmul(y) / 0.25),
    evidence = dist.multivariate_normal { loc = pn.zeros { 20 }, covariance_matrix = cover }:log_prob(y):item(),
    model = pn.model(function(m, inputs, outputs)
      local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
      m:plate("rows", inputs:size(1), function(i)
        m:observe("y", dist.normal((inputs:take(1, i) * w):sum(-1), 0.5), outputs:take(1, i))
      end)
    end) }
end

local function full_rank(loc, tril)
  return pn.model(function(m)
    m:sample("w", dist.multivariate_normal { loc = m:param("loc", loc or pn.zeros { 2 }),
      scale_tril = m:param("tril", tril or pn.eye(2) * 0.1, { constraint = "lower_cholesky" }) })
  end)
end

local ESTIMATORS = { "elbo", "sticking_the_landing", "iwae", "dreg", "renyi", { "renyi", alpha = 0.2 },
  "score_function",
  "vimco", "reweighted_wake_sleep" }

describe("a guide that is the posterior", function()
  local c = regression()
  local tril = c.covariance:cholesky()

  it("has weights that are all the evidence, by every estimator", function()
    for _, estimator in ipairs(ESTIMATORS) do
      for _, vectorised in ipairs { false, true } do
        local fit = pn.svi(c.model, full_rank(c.mean, tril), { data = { c.x, c.y }, steps = 0, draws = 3,
          estimator = estimator, vectorised = vectorised, divergence = "monte_carlo" })
        local bound = fit:bound { draws = 20 }
        near(bound.value, c.evidence)
        near(bound.elbo, c.evidence)
        near(bound.se, 0, 1e-7)
        fit:continue(1)
        near(-fit.losses[1], c.evidence)
      end
    end
  end)

  it("has the gradient 0 along the path of its draws, with no variance", function()
    for _, estimator in ipairs { "sticking_the_landing", "dreg" } do
      local guide = full_rank(c.mean, tril)
      local fit = pn.svi(c.model, guide, { data = { c.x, c.y }, steps = 0, draws = 4, estimator = estimator })
      local loss = objective.estimate(fit, fit.how)
      for _, g in ipairs(pn.grad(loss, guide:parameters())) do
        assert.is_true(g:abs():max():item() < 1e-9)
      end
    end
  end)

  it("is found by every estimator from afar, eagerly and compiled", function()
    for _, estimator in ipairs { "elbo", "sticking_the_landing", "iwae", "dreg", "renyi", "score_function" } do
      pn.seed(5)
      local guide = full_rank()
      local fit = pn.svi(c.model, guide, { data = { c.x, c.y }, steps = 1500, lr = 0.03, draws = 4,
        estimator = estimator, vectorised = estimator ~= "score_function" })
      local limit = estimator == "score_function" and 0.15 or 0.03
      assert.is_true((guide:param "loc" - c.mean):abs():max():item() < limit, tostring(estimator))
      assert.is_true(math.abs(fit:bound { draws = 2000 }.value - c.evidence) < 0.02, tostring(estimator))
      assert.is_true(fit:k_hat() < 0.7, tostring(estimator))
      for _, n in ipairs { 0, -1, 2.5, "10" } do
        assert.error_matches(function() fit:k_hat(n) end, "k_hat: n must be")
      end
    end
  end)

  it("follows the same losses eagerly and compiled", function()
    for _, estimator in ipairs(ESTIMATORS) do
      local losses = {}
      for k, compile in ipairs { false, true } do
        pn.seed(4)
        losses[k] = pn.svi(c.model, full_rank(), { data = { c.x, c.y }, steps = 5, draws = 2, estimator = estimator,
          compile = compile }).losses
      end
      for k = 1, 5 do near(losses[1][k], losses[2][k], 1e-12) end
    end
  end)
end)

describe("the gradient of a bound", function()
  -- z ~ N(0, 1), y ~ N(z, 1), q = N(a, s): ELBO = E_q[log p] + H(q); d/da = y - 2a, d/ds = 1/s - 2s.
  local function normal_pair(divergence, estimator, a, s, particles)
    local pair = pn.model(function(m, y)
      local z = m:sample("z", dist.normal(0, 1))
      m:observe("y", dist.normal(z, 1), y)
    end)
    local guide = pn.model(function(m) m:sample("z", dist.normal(m:param("a", a), m:param("s", s))) end)
    return pn.svi(pair, guide, { data = { 1.5 }, steps = 0, draws = particles, vectorised = true,
      estimator = estimator,
      divergence = divergence }), guide
  end

  it("has the exact gradient as its mean, for elbo in all forms", function()
    pn.seed(1)
    local a, s, n = 0.3, 0.8, 20000
    for _, case in ipairs { { "analytic", "elbo" }, { "monte_carlo", "elbo" }, { nil, "sticking_the_landing" },
      { nil, "score_function" } } do
      local fit, guide = normal_pair(case[1], case[2], a, s, n)
      local bound = case[2] == "elbo" and -objective.negative_elbo(fit, fit.how) or objective.estimate(fit, fit.how)
      local g = pn.grad(bound, guide:parameters())
      near(bound:item(), -0.5 * (math.log(2 * math.pi) * 2 + a * a + s * s + (1.5 - a) ^ 2 + s * s)
        + 0.5 * math.log(2 * math.pi * math.exp(1)) + math.log(s), 0.03)
      near(g[1]:item(), 1.5 - 2 * a, 0.07)
      near(g[2]:item(), 1 / s - 2 * s, 0.07)
    end
  end)

  it("may be another estimate, of the same bound: one value by the same draws", function()
    for k, case in ipairs { { "iwae", "dreg" }, { "elbo", "sticking_the_landing" }, { "elbo", "score_function" } } do
      local values, slopes = {}, {}
      for i, name in ipairs(case) do
        pn.seed(30 + k)
        local fit, guide = normal_pair("monte_carlo", name, 0.3, 0.8, 5)
        local bound = objective.estimate(fit, fit.how)
        values[i], slopes[i] = bound:item(), pn.grad(bound, guide:parameters())[2]:item()
      end
      near(values[1], values[2], 1e-12)
      assert.is_true(math.abs(slopes[1] - slopes[2]) > 1e-3, case[2])
    end
  end)

  it("of discrete draws is that of the sum over their values", function()
    -- z ~ Bernoulli(0.3), y ~ N(2 z, 1); q = Bernoulli(sigmoid(l)): d ELBO / dl = q (1 - q) (f(1) - f(0)).
    local m = pn.model(function(m)
      local z = m:sample("z", dist.bernoulli(0.3))
      m:observe("y", dist.normal(z * 2, 1), 1.6)
    end)
    local l = 0.4
    local q = 1 / (1 + math.exp(-l))
    local function f(z)
      return math.log(z == 1 and 0.3 or 0.7) + dist.normal(2 * z, 1):log_prob(1.6):item()
        - math.log(z == 1 and q or 1 - q)
    end
    local want = q * (1 - q) * (f(1) - f(0))
    for _, case in ipairs { { "elbo", true, "monte_carlo" }, { "elbo", false, "monte_carlo" },
      { "elbo", true, "analytic" }, { "score_function", true, "analytic" } } do
      local guide = pn.model(function(g) g:sample("z", dist.bernoulli { logits = g:param("l", l) }) end)
      local n = case[2] and 8000 or 500
      pn.seed(9)
      local fit = pn.svi(m, guide, { steps = 0, draws = n, vectorised = case[2], estimator = case[1],
        divergence = case[3], compile = false })
      local bound = case[1] == "elbo" and -objective.negative_elbo(fit, fit.how) or objective.estimate(fit, fit.how)
      near(bound:item(), q * f(1) + (1 - q) * f(0), 0.1)
      near(pn.grad(bound, guide:parameters())[1]:item(), want, case[2] and 0.02 or 0.08)
    end
  end)

  it("of one or two discrete draws has that mean exactly, whatever the others' costs are taken away", function()
    local m = pn.model(function(m)
      m:observe("y", dist.normal(m:sample("z", dist.bernoulli(0.3)) * 2, 1), 1.6)
    end)
    local l = 0.4
    local q = 1 / (1 + math.exp(-l))
    local f = {}
    for z = 0, 1 do
      f[z] = math.log(z == 1 and 0.3 or 0.7) + dist.normal(2 * z, 1):log_prob(1.6):item()
        - math.log(z == 1 and q or 1 - q)
    end
    for n = 1, 2 do
      for _, vectorised in ipairs { true, false } do
        local guide = pn.model(function(g) g:sample("z", dist.bernoulli { logits = g:param("l", l) }) end)
        local fit = pn.svi(m, guide, { steps = 0, draws = n, vectorised = vectorised, divergence = "monte_carlo",
          compile = false })
        local slope = {} -- by how many of the draws are 1, which the bound tells
        pn.seed(2)
        for _ = 1, 60 do
          local bound = -objective.negative_elbo(fit, fit.how)
          for ones = 0, n do
            if math.abs(bound:item() - (ones * f[1] + (n - ones) * f[0]) / n) < 1e-9 then
              slope[ones] = pn.grad(bound, guide:parameters())[1]:item()
            end
          end
        end
        local mean = n == 1 and q * slope[1] + (1 - q) * slope[0]
          or q ^ 2 * slope[2] + 2 * q * (1 - q) * slope[1] + (1 - q) ^ 2 * slope[0]
        near(mean, q * (1 - q) * (f[1] - f[0]), 1e-9)
      end
    end
  end)

  it("of a discrete guide leads to the posterior", function()
    local m = pn.model(function(m, y)
      m:plate("rows", 3, function()
        local z = m:sample("z", dist.bernoulli(0.3))
        m:observe("y", dist.normal(z * 2, 1), y)
      end)
    end)
    local y, evidence, want = { 0, 1, 2.5 }, 0, {}
    for i, v in ipairs(y) do
      local on = 0.3 * math.exp(dist.normal(2, 1):log_prob(v):item())
      local off = 0.7 * math.exp(dist.normal(0, 1):log_prob(v):item())
      want[i], evidence = on / (on + off), evidence + math.log(on + off)
    end
    for _, estimator in ipairs { "elbo", "score_function", "vimco", "reweighted_wake_sleep" } do
      pn.seed(2)
      local guide = pn.model(function(g)
        local l = g:param("l", pn.zeros { 3 })
        g:plate("rows", 3, function() g:sample("z", dist.bernoulli { logits = l }) end)
      end)
      local fit = pn.svi(m, guide, { data = { pn.tensor(y) }, steps = 1500, lr = 0.05, draws = 8, vectorised = true,
        estimator = estimator })
      for i, v in ipairs(guide:param("l"):sigmoid():totable()) do
        assert(math.abs(v - want[i]) < 0.1, ("%s: %g, want %g"):format(estimator, v, want[i]))
      end
      near(fit:bound { draws = 4000 }.value, evidence, 0.02)
      assert.same({ 4000, 3 }, fit:log_weights(4000):shape())
    end
  end)

  -- log w = log sum_k p(k) N(y; x + 2 k, 1) at the guide's draws of x from its prior; their mean is the evidence.
  it("has log-weights in which what is enumerated is summed out", function()
    local m = pn.model(function(m)
      local x = m:sample("x", dist.normal(0, 1))
      m:observe("y", dist.normal(x + m:sample("k", dist.bernoulli(0.3), { enumerate = true }) * 2, 1), 1.5)
    end)
    local guide = pn.model(function(g) g:sample("x", dist.normal(g:param("l", 0), 1)) end)
    local function p(v) return math.exp(dist.normal(0, v ^ 0.5):log_prob(1.5):item()) end
    local evidence = 0.7 * p(2) + 0.3 * math.exp(dist.normal(2, 2 ^ 0.5):log_prob(1.5):item())
    for _, compile in ipairs { true, false } do
      local fit = pn.svi(m, guide, { steps = 0, compile = compile })
      local w = fit:log_weights(1500):exp()
      assert.near(evidence, w:mean():item(), 6 * w:std():item() / 1500 ^ 0.5)
    end
  end)

  it("refuses estimators that need a path where there is none", function()
    local m = pn.model(function(m) m:observe("y", dist.normal(m:sample("z", dist.bernoulli(0.3)), 1), 1) end)
    local guide = pn.model(function(g) g:sample("z", dist.bernoulli(g:param("p", 0.5))) end)
    for _, estimator in ipairs { "iwae", "dreg", "renyi", "sticking_the_landing" } do
      assert.matches("svi: 'z' at .-svi_spec.lua:%d+ is drawn without a path for the gradient, which estimator '"
        .. estimator, message_of(pn.svi, m, guide, { estimator = estimator, draws = 2 }))
    end
  end)
end)

describe("rows of a plate taken in parts", function()
  local function pair(batch)
    local y = pn.arange(12):to "float64" * 0.3
    local m = pn.model(function(m)
      m:plate("rows", 12, { batch_size = batch }, function(i)
        local z = m:sample("z", dist.normal(0, 1))
        m:observe("y", dist.normal(z, 1), y:take(1, i))
      end)
    end)
    local guide = pn.model(function(g)
      local k = g:param("k", 0.4)
      g:plate("rows", 12, { batch_size = batch }, function(i)
        g:sample("z", dist.normal(y:take(1, i) * k, 0.8))
      end)
    end)
    local evidence = dist.normal(0, math.sqrt(2)):log_prob(y):sum():item()
    return m, guide, evidence
  end

  it("weigh each datum by draws of itself", function()
    pn.seed(3)
    local m, guide, evidence = pair(4)
    for _, vectorised in ipairs { false, true } do
      local fit = pn.svi(m, guide, { steps = 0, estimator = "iwae", draws = 300, vectorised = vectorised,
        compile = false })
      local sum = 0
      for _ = 1, 30 do sum = sum + objective.estimate(fit, fit.how):item() * 12 / 30 end
      near(sum, evidence, 0.1)
      near(fit:bound { draws = 500 }.value, evidence, 0.01) -- of all rows, whatever the batch
      assert.same({ 500, 12 }, fit:log_weights(500):shape())
    end
  end)

  it("are refused where a datum's weight would be an estimate", function()
    local m = pn.model(function(m)
      local z = m:sample("z", dist.normal(0, 1))
      m:plate("rows", 6, { batch_size = 2 }, function(i) m:observe("y", dist.normal(z, 1), pn.ones { 6 }:take(1,
        i)) end)
    end)
    local guide = pn.model(function(g) g:sample("z", dist.normal(g:param("a", 0), 1)) end)
    assert.matches("svi: estimator 'iwae' needs the whole of plate 'rows', of which 2 of 6 rows are taken",
      message_of(pn.svi, m, guide, { estimator = "iwae", draws = 2 }))
    assert.matches("svi: estimator 'iwae' needs the whole of plate 'rows'",
      message_of(pn.svi, m, "mean_field", { estimator = "iwae", draws = 2 }))
    for _, name in ipairs { "renyi", "dreg", "vimco", "reweighted_wake_sleep" } do
      assert.matches("svi: estimator '" .. name .. "' needs the whole of plate 'rows'",
        message_of(pn.svi, m, guide, { estimator = name, draws = 2 }))
    end
    for _, name in ipairs { "elbo", "sticking_the_landing", "score_function" } do -- linear in the rows
      assert.equal(2, #pn.svi(m, guide, { estimator = name, draws = 2, steps = 2 }).losses)
    end
    -- the bound of the whole data from a fit by parts
    pn.seed(6)
    local fit = pn.svi(m, guide, { steps = 800, lr = 0.02 })
    local evidence = dist.multivariate_normal { loc = pn.zeros { 6 }, covariance_matrix = pn.eye(6) + 1 }
      :log_prob(pn.ones { 6 }):item()
    near(fit:bound { draws = 4000 }.value, evidence, 0.02)
  end)

  it("must be taken alike by guide and model", function()
    local m = pair(4)
    local guide = pn.model(function(g) g:sample("z", dist.normal(pn.zeros { 4 }, 1)) end)
    assert.matches("svi: 'z' is in no plate in the guide at .-svi_spec.lua:%d+ and in plate 'rows' %(4 of 12 rows%) in "
      .. "the model at .-svi_spec.lua:%d+: its terms would not count alike", message_of(pn.svi, m, guide, {}))
  end)
end)

describe("an eager step", function()
  -- w alone, before v, after v, or seen; two or three of three rows, seen as y or, in every fourth step, as z
  local y, mean_of, seen_w = pn.tensor { 0.3, -1.2, 0.8 }, { w = 0.5, v = 0 }, pn.tensor(0.7)
  local step, breaks, kept = 0, false, setmetatable({}, { __mode = "v" })
  local function sites()
    return step % 5 == 4 and { "v", "w" } or step > 0 and step % 5 == 0 and { "v" } or step % 3 == 1 and { "w", "v" }
      or { "w" }
  end
  local model = pn.model(function(m)
    local mean = 0
    for _, name in ipairs(sites()) do
      kept[name] = m:sample(name, dist.normal(mean_of[name], 2))
      mean = mean + kept[name]
    end
    if sites()[1] == "v" and not sites()[2] then m:observe("w", dist.normal(mean, 2), seen_w) end
    m:plate("rows", 3, { batch_size = 2 + step % 2 }, function(i)
      m:observe(step % 4 == 3 and "z" or "y", dist.normal(mean, 1.5), y:take(1, i))
      if breaks then error "broken" end
    end)
    m:factor("f", mean * 0.1)
  end)
  local guide = pn.model(function(m)
    local loc = { w = m:param("w loc", 0.2), v = m:param("v loc", -0.4) }
    for _, name in ipairs(sites()) do m:sample(name, dist.normal(loc[name], 0.6)) end
  end)

  -- The same bound by the same draws; w alone has its divergence in closed form: v is not there at first.
  local function by_hand(loc)
    local mean, loss = 0, nil
    for _, name in ipairs(sites()) do
      local p, q = dist.normal(mean_of[name], 2), dist.normal(loc[name], 0.6)
      local x = q:rsample()
      local t = name == "w" and dist.kl(q, p) or q:log_prob(x) - p:log_prob(x)
      mean, loss = mean + x, loss and loss + t or t
    end
    if sites()[1] == "v" and not sites()[2] then loss = loss - dist.normal(mean, 2):log_prob(seen_w) end
    local rows = 2 + step % 2
    local seen = rows < 3 and y:take(1, pn.randperm(3):slice(1, 1, rows)) or y
    return (loss - dist.normal(mean, 1.5):log_prob(seen):sum() * (3 / rows) - mean * 0.1):item()
  end

  it("has the bound of the sites that it meets, whatever those of the step before were", function()
    local fit = pn.svi(model, guide, { steps = 0, compile = false, schedule = function() return 0.1 end })
    for k = 1, 24 do
      step, breaks = k, k % 7 == 0
      local loc = { w = guide:param("w loc"):item(), v = guide:param("v loc"):item() }
      pn.seed(k)
      local ok = pcall(fit.continue, fit, 1)
      assert.equal(not breaks, ok)
      pn.seed(k)
      if ok then near(fit.losses[#fit.losses], by_hand(loc), 1e-12) end
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(kept)) -- (what was drawn goes with its step)
  end)

  it("refuses a name that stands twice, however the steps before went", function()
    local twice = false
    local fit = pn.svi(pn.model(function(m)
      for _ = 1, twice and 2 or 1 do m:sample("w", dist.normal(0, 1)) end
      m:observe("y", dist.normal(0, 1), 1)
    end), pn.model(function(m) m:sample("w", dist.normal(m:param("loc", 0), 1)) end), { steps = 3, compile = false })
    twice = true
    assert.matches("there is a site 'w' already", message_of(fit.continue, fit, 1))
  end)
end)

describe("a fit", function()
  local c = regression()

  it("goes on from a file as if it had not been left", function()
    local path = os.tmpname()
    local function schedule() return 0.01 end
    local function make(steps)
      pn.seed(8)
      return pn.svi(c.model, full_rank(), { data = { c.x, c.y }, steps = steps, schedule = schedule })
    end
    local function restored()
      return pn.restore(path, { model = c.model, guide = full_rank(), data = { c.x, c.y }, schedule = schedule })
    end
    local whole = make(30)
    local first = make(20)
    assert(first:save(path))
    local position = pn.rng_state()
    local second = assert(restored())
    assert.equal(20, #second.losses)
    pn.set_rng_state(position)
    second:continue(10)
    for k = 1, 30 do near(second.losses[k], whole.losses[k], 1e-12) end
    for name, t in pairs(whole:state()) do near((t - second:state()[name]):abs():max():item(), 0) end
    assert(pn.save(path, { x = pn.ones { 2 } }))
    local fit, message, code = restored()
    assert.is_nil(fit)
    assert.matches(" no fit that fit:save has written", message)
    assert.equal("format", code)
    os.remove(path)
    local none, why, kind = restored()
    assert.is_nil(none)
    assert.is_string(why)
    assert.equal("io", kind)
  end)

  it("says that the bound was still rising, where it was", function()
    local function far(mean)
      return pn.model(function(m) m:sample("x", dist.normal(pn.full({ 3 }, mean), 1):independent(1)) end)
    end
    pn.seed(4)
    local fit = pn.svi(far(30), "mean_field", { steps = 1000 })
    assert.is_true(fit.rise > 1)
    assert.matches("still rising: by [%d.]+ in the third quarter", tostring(fit))
    fit:continue(8000)
    assert.equal(0, fit.rise)
    assert.is_nil(tostring(fit):find("rising", 1, true))
    for _, mean in ipairs { 0, 3, 8 } do -- the steps that are taken unless told otherwise
      fit = pn.svi(far(mean), "full_rank", {})
      assert.equal(4000, #fit.losses)
      assert.equal(0, fit.rise)
      near(fit:sample(4000).x:mean():item(), mean, 0.05)
    end
  end)

  it("summarises, samples and predicts", function()
    local guide = full_rank(c.mean, c.covariance:cholesky())
    local fit = pn.svi(c.model, guide, { data = { c.x, c.y }, steps = 0 })
    pn.seed(1)
    local row = fit:summary(4000)["w[1]"]
    near(row.mean, c.mean[1]:item(), 0.02)
    near(row.sd, math.sqrt(c.covariance[1][1]:item()), 0.05)
    assert.matches("mean +sd +q05 +median +q95\n", tostring(fit:summary()))
    assert.same({ 50, 2 }, fit:sample(50).w:shape())
    assert.same({ 30, 20 }, fit:predict { draws = 30 }.y:shape())
    assert.same({ 30, 3 }, fit:predict { draws = 30, data = { c.x:slice(1, 1, 3), c.y } }.y:shape())
    assert.matches("a guide of one's own: 0 steps", tostring(fit))
  end)

  it("refuses wrong arguments at the script's line", function()
    local here = debug.getinfo(1, "S").short_src:gsub("%p", "%%%0")
    local guide = full_rank()
    local function refused(pattern, ...)
      local args, line = table.pack(...), debug.getinfo(1, "l").currentline + 1
      local message = message_of(function() return pn.svi(table.unpack(args, 1, args.n)) end)
      assert.matches(("^%s:%d: "):format(here, line), message)
      assert.matches(pattern, message)
    end
    local data = { c.x, c.y }
    refused("svi: needs a model %(pn.model%), got nil")
    refused("svi: guide must be a model, a guide of pn.infer.guide or the name of one, got number", c.model, 3,
      { data = data })
    refused("guide: there is no guide 'mean_feld', there are .-, did you mean 'mean_field'", c.model, "mean_feld",
      { data = data })
    refused("svi: unknown option 'step', did you mean 'steps'", c.model, guide, { step = 3 })
    refused("svi: estimator must be one of .-, got 'elbow', did you mean 'elbo'", c.model, guide,
      { estimator = "elbow" })
    refused("svi: estimator 'vimco' needs at least 2 draws, got 1", c.model, guide, { estimator = "vimco" })
    refused("svi: draws must be a whole number from 1 on, got 0", c.model, guide, { draws = 0 })
    refused("svi: guide 'mean_field' has the estimators .-, got 'vimco'", c.model, "mean_field", { data = data,
      estimator = "vimco", draws = 2 })
  end)

  it("says what guide and model lack", function()
    local function guide_of(name)
      return pn.model(function(g) g:sample(name, dist.normal(pn.zeros { 2 }, 1):independent(1)) end)
    end
    local data = { data = { c.x, c.y } }
    assert.matches("svi: the guide has no site 'w', which the model samples at .-svi_spec.lua:%d+",
      message_of(pn.svi, c.model, guide_of "v", data))
    assert.matches("svi: the guide samples 'y' at .-, which the model observes", message_of(pn.svi, c.model,
      pn.model(function(g)
        g:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
        g:sample("y", dist.normal(pn.zeros { 20 }, 1))
      end), data))
    local net = pn.nn.linear(2, 2)
    assert.matches("svi: the bound depends on a parameter of shape %[.-%] that nobody trains", message_of(pn.svi,
      c.model, pn.model(function(g)
        g:sample("w", dist.normal(net(pn.ones { 1, 2 }):squeeze(1), 1):independent(1))
      end), data))
    local still = pn.model(function(m, x, y)
      local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
      m:plate("rows", 20, function() m:observe("y", dist.normal(x:matmul(w), 1), y) end)
    end)
    assert.matches("%(with vectorised = true the values of latent variables have 3 particles along an axis",
      message_of(pn.svi, still, full_rank(), { data = { c.x, c.y }, draws = 3, vectorised = true }))
  end)
end)

describe("a fit of svi", function()
  local m = pn.model(function(r)
    local a = r:sample("a", dist.normal(0, 1))
    r:observe("y", dist.normal(a, 1), 1)
  end)

  it("has its whole rate for half of the steps, and falls to a hundredth along half a cosine", function()
    for _, steps in ipairs { 8, 7 } do
      local rates, at = {}, {}
      local fit = pn.svi(m, "mean_field", { steps = steps, lr = 0.2, on_step = function(f, k, loss)
        rates[#rates + 1], at[#at + 1] = f.optimiser.lr, k
        assert.equal(loss, f.losses[k])
      end })
      fit:continue(2)
      for k = 1, steps do
        local t = (k - 1) / steps
        local want = t < 0.5 and 0.2 or 0.2 * (0.01 + 0.99 * (1 + math.cos(2 * math.pi * (t - 0.5))) / 2)
        assert(math.abs(rates[k] - want) < 1e-12, k)
      end
      assert.same({ 0.2, 0.2, steps + 1, steps + 2 }, { rates[steps + 1], rates[steps + 2], at[steps + 1],
        at[steps + 2] })
    end
    local rates = {}
    pn.svi(m, "mean_field", { steps = 3, schedule = function(k) return k / 10 end, on_step = function(f)
      rates[#rates + 1] = f.optimiser.lr
    end }):continue(1)
    assert.same({ 0.1, 0.2, 0.3, 0.4 }, rates)
    local own = pn.svi(m, "mean_field", { steps = 6, optimiser = function(list)
      return pn.optim.sgd(list, { lr = 0.125 })
    end })
    assert.equal(0.125, own.optimiser.lr)
    local few = pn.svi(m, "mean_field", { steps = 9, on_step = function(_, k) return k < 3 end })
    assert.equal(3, #few.losses)
    assert.equal(3, #few:continue(0).losses)
  end)

  it("takes a thousand draws unless told otherwise, for resampling twenty for one", function()
    local fit = pn.svi(m, "mean_field", { steps = 3 })
    assert.same({ 1000 }, fit:sample().a:shape())
    assert.same({ 1000, 1 }, fit:log_weights():shape())
    assert.same({ 1000 }, fit:predict().y:shape())
    assert.same({ 1000 }, fit:resample().a:shape())
    local asked, of = {}, fit.guide.log_weights
    fit.guide.log_weights = function(self, n)
      asked[#asked + 1] = n
      return of(self, n)
    end
    fit:resample(7)
    fit:resample(7, { draws = 50 })
    fit:bound()
    fit:k_hat()
    assert.same({ 140, 50, 1000, 1000 }, asked)
    for _, name in ipairs { "sample", "summary", "log_weights", "resample", "k_hat" } do
      for _, n in ipairs { 0, 1.5, "x" } do
        local ok, message = pcall(fit[name], fit, n)
        assert.is_false(ok)
        assert.matches(("%s: n must be a whole number from 1 on, got %s"):format(name, n), message)
      end
    end
    assert.matches("resample: draws must be a whole number", select(2, pcall(fit.resample, fit, 3, { draws = 0 })))
    assert.matches("continue: steps must be a whole number", select(2, pcall(fit.continue, fit, -1)))
    local own = pn.svi(m, pn.model(function(g) g:sample("a", dist.normal(g:param("loc", 0), 1)) end), { steps = 1 })
    assert.matches("resample: needs an automatic guide with a density", select(2, pcall(own.resample, own, 3)))
    assert.same({ 1000 }, own:sample().a:shape())
    assert.equal(1, #own:summary())
  end)
end)
