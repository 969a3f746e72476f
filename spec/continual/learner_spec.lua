-- The learner on streams whose answer is known: conjugate models in closed form, online variational Bayes written out,
-- draws of the weights one network at a time.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local continual, nn = pn.continual, pn.nn

local function off(want, got)
  want = pn.is_tensor(want) and want or pn.tensor(want)
  assert.same(want:shape(), got:shape())
  return ((got - want):abs() / (want:abs() + 1)):max():item()
end

local function close(want, got, limit, what)
  local d = off(want, got)
  assert(d <= limit, ("%s: off by %.3g"):format(what or "value", d))
end

local function bits(a, b)
  assert.same(a:totable(), b:totable())
end

local NOISE = 0.5

-- y = x w + noise without a hidden layer: the ELBO is a parabola in the means, and its optimum has a formula.
local function linear(inputs, o)
  local given = { network = nn.linear(inputs, 1, { bias = false }), likelihood = "normal", noise = NOISE, prior = 1,
    seed = 1, steps = { first = 800, later = 800 }, optimiser = { lr = 0.1, beta2 = 0.999 } }
  for name, value in pairs(o or {}) do given[name] = value end
  return continual.learner(given)
end

local function stream(inputs, n)
  local g = pn.generator(11)
  local x = pn.randn({ n, inputs }, { generator = g })
  return x, x:sum(2) * 0.7 + pn.randn({ n }, { generator = g }) * NOISE
end

-- precision and precision_mean of the diagonal of the exact posterior of weighted data, prior N(0, 1)
local function exact(x, y, weights)
  local w = (weights or pn.ones { x:size(1) }):unsqueeze(2) / NOISE ^ 2
  return (x:square() * w):sum(1) + 1, (x * y:unsqueeze(2) * w):sum(1)
end

local function fed(learner, x, y, ends, times)
  local from, reports = 1, {}
  for k, to in ipairs(ends) do
    reports[k] = learner:observe(x:slice(1, from, to), y:slice(1, from, to), times and times[k])
    from = to + 1
  end
  return reports
end

describe("a stream of a linear Gaussian model", function()
  local splits = { { 12 }, { 5, 12 }, { 1, 2, 9, 12 } }

  it("has the posterior of the batch, however it is split, for one weight", function()
    local x, y = stream(1, 12)
    local precision, eta = exact(x, y)
    for _, ends in ipairs(splits) do
      local learner = linear(1)
      local reports = fed(learner, x, y, ends)
      close(precision, learner.posterior.precision, 1e-9, "precision")
      close(eta, learner.posterior.precision_mean, 1e-9, "precision_mean")
      assert.equal("projection", reports[1].method)
      for _, report in ipairs(reports) do assert.equal(0, report.clipped) end
      assert.equal(0, learner.counts.clipped + learner.counts.clipped_steps)
      bits(learner.posterior.precision, learner.projection.precision)
    end
  end)

  -- Where the family has the posterior, the ELBO at its optimum is log p(batch | all before).
  it("tells the evidence of each batch", function()
    local x, y = stream(1, 12)
    local function evidence(n)
      local s = x:slice(1, 1, n)
      return pn.dist.multivariate_normal { loc = pn.zeros { n }, covariance_matrix = s:matmul(s:t())
        + pn.eye(n) * NOISE ^ 2 }:log_prob(y:slice(1, 1, n)):item()
    end
    local learner, before = linear(1, { initial = { share = 0.9 } }), 0
    local reports = fed(learner, x, y, { 5, 6, 12 })
    for k, n in ipairs { 5, 6, 12 } do
      local told = reports[k].elbo
      assert.near(evidence(n) - before, told.last, 1e-7)
      assert.equal(told.first, told.curve[1])
      assert.equal(20, #told.curve)
      before = evidence(n)
      -- each point is the mean of the steps between
      for j = 2, 20 do assert(told.curve[j] >= told.curve[j - 1] - 0.2, j) end
    end
  end)

  it("has it for orthogonal inputs; for correlated ones the precision only", function()
    local x, y = stream(2, 12)
    local axis = pn.tensor { { 1, 0 }, { 0, 1 }, { 1, 0 }, { 1, 0 }, { 0, 1 }, { 0, 1 }, { 1, 0 }, { 0, 1 }, { 0, 1 },
      { 1, 0 }, { 1, 0 }, { 0, 1 } }
    local apart = x * axis
    local precision, eta = exact(apart, y)
    local full_precision = exact(x, y)
    local a = x:t():matmul(x) / NOISE ^ 2 + pn.eye(2)
    local full_mean = a:solve(x:t():matmul(y:unsqueeze(2)) / NOISE ^ 2):squeeze(2)
    for k, ends in ipairs(splits) do
      local learner = linear(2)
      fed(learner, apart, y, ends)
      close(precision, learner.posterior.precision, 1e-9)
      close(eta, learner.posterior.precision_mean, 1e-8)
      local correlated = linear(2, { steps = { first = 3000, later = 3000 } })
      fed(correlated, x, y, ends)
      local q = correlated.posterior
      close(full_precision, q.precision, 1e-9)
      local d = off(full_mean, q.precision_mean / q.precision)
      if k == 1 then assert(d < 1e-6, d) else assert(d > 1e-3, d) end
    end
  end)
end)

-- ---- online variational Bayes ----

-- One hidden layer of three tanh units, two inputs, Bernoulli: the ELBO's steps one operation after another.
local function online_bayes(batches, seed, o)
  local P, sizes = 13, { { 1, 6, { 2, 3 } }, { 7, 9 }, { 10, 12, { 3, 1 } }, { 13, 13 } }
  local function cut(t, k)
    local part = t:slice(1, sizes[k][1], sizes[k][2])
    return sizes[k][3] and part:reshape(sizes[k][3]) or part
  end
  local scale = pn.concatenate { pn.full({ 9 }, 0.5 ^ 0.5), pn.full({ 4 }, (3 * nn.activation_variance "tanh") ^ -0.5) }
  local g = pn.generator(seed):split(0):split(0)
  local mean = pn.param(scale * pn.randn({ P }, { generator = g }) * 0.999 ^ 0.5)
  local log_scale = pn.param(scale:log() + 0.5 * (math.log(1 - 0.999) - 2 * 0.001 ^ 2)
    + pn.randn({ P }, { generator = g }) * 0.001)
  local precision = scale:square():reciprocal()
  local eta = precision * 0
  for k, batch in ipairs(batches) do
    local x, y, n = batch[1], batch[2]:unsqueeze(2), batch[1]:size(1)
    local adam = pn.optim.adam({ mean, log_scale }, { beta2 = 0.99 })
    g = pn.generator(seed):split(k - 1):split(1)
    for step = 1, o.steps do
      local v = (log_scale * 2):exp()
      local m1, v1 = x:matmul(cut(mean, 1)), x:square():matmul(cut(v, 1))
      m1, v1 = m1 + cut(mean, 2), v1 + cut(v, 2)
      local h = (m1 + (v1 + 1e-30):sqrt() * pn.randn({ o.draws, n, 3 }, { generator = g })):reshape { -1, 3 }:tanh()
      local m2, v2 = h:matmul(cut(mean, 3)), h:square():matmul(cut(v, 3))
      m2, v2 = (m2 + cut(mean, 4)):reshape { o.draws, n, 1 }, (v2 + cut(v, 4)):reshape { o.draws, n, 1 }
      local f = m2 + (v2 + 1e-30):sqrt() * pn.randn({ o.draws, n, 1 }, { generator = g })
      local expected = (-(((1 - y * 2) * f):softplus():sum(3))):mean(1)
      local kl = ((v + mean:square()) * precision * 0.5 - mean * eta - log_scale):sum()
      adam.lr = 0.05 * 0.01 ^ ((step - 1) / (o.steps - 1))
      adam:step(kl - expected:sum())
    end
    precision = (log_scale:detach() * -2):exp()
    eta = mean:detach() * precision
  end
  return eta, precision
end

describe("without forgetting and memory", function()
  it("it is online variational Bayes, to the bit", function()
    local g = pn.generator(4)
    local batches = {}
    for k, n in ipairs { 8, 5, 5 } do
      local x = pn.randn({ n, 2 }, { generator = g })
      batches[k] = { x, x:sum(2):gt(0):to "float64" }
    end
    local o = { draws = 4, steps = 60 }
    local eta, precision = online_bayes(batches, 9, o)
    local net = nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) }
    for _, more in ipairs { {}, { memory = { size = 0 }, forget = continual.bayesian_forgetting { rate = 0 } } } do
      local learner = continual.learner { network = net, likelihood = "bernoulli", seed = 9, draws = { train = o.draws,
        predict = 10 }, steps = { first = o.steps, later = o.steps }, memory = more.memory, forget = more.forget }
      for _, batch in ipairs(batches) do learner:observe(batch[1], batch[2]) end
      bits(eta, learner.posterior.precision_mean)
      bits(precision, learner.posterior.precision)
    end
  end)
end)

-- How far Newton's step goes from q, in standard deviations and in log scale, on minus the ELBO of one logistic weight
-- after predecessor p, expectations by quadrature. Second the same from N(0, 1).
local function newton(q, p, x, y)
  local z = pn.linspace(-8, 8, 801)
  local weight = (z:square() * -0.5):exp()
  weight = weight / weight:sum()
  local function step(mean, log_scale)
    local m, l = pn.param(pn.tensor { mean }), pn.param(pn.tensor { log_scale })
    local f = x:matmul((m + l:exp() * z):unsqueeze(1))
    local expected = -(((f * (1 - y * 2):unsqueeze(2)):softplus() * weight):sum())
    local kl = (((l * 2):exp() + m:square()) * p.precision * 0.5 - m * p.precision_mean - l):sum()
    local g = pn.concatenate(pn.grad(kl - expected, { m, l }, { create_graph = true }), 1)
    local rows = {}
    for k = 1, 2 do rows[k] = pn.concatenate(pn.grad(g[k], { m, l }, { create_graph = true }), 1):detach() end
    local move = pn.stack(rows):solve(g:detach():unsqueeze(2))
    return math.max(math.abs(move[1][1]:item()) / math.exp(log_scale), math.abs(move[2][1]:item()))
  end
  return step((q.precision_mean / q.precision):item(), q.precision:log():item() * -0.5), step(0, 0)
end

describe("a learner's optimiser", function()
  -- Adam's first step is the rate in every parameter, whatever the gradient: counted in the prior's deviations it is
  -- that many of them.
  it("counts means in weights, or in the prior's standard deviations", function()
    local x, y = stream(2, 6)
    for _, dtype in ipairs { "float64", "float32" } do
      local before
      for _, prior_units in ipairs { false, true } do
        local net = nn.sequential { nn.linear(2, 3, { dtype = dtype }), nn.tanh(), nn.linear(3, 1, { dtype = dtype }) }
        local deviation = pn.concatenate({ pn.full({ 6 }, 0.5), pn.full({ 3 }, 2), pn.full({ 3 }, 3), pn.ones { 1 } },
          1)
        local function means(steps, lr)
          local learner = continual.learner { network = net, likelihood = "normal", noise = NOISE, seed = 4,
            prior = function(name, p)
              local of = { ["1.weight"] = 0.5, ["1.bias"] = 2, ["3.weight"] = 3, ["3.bias"] = 1 }
              return pn.dist.normal(p:zeros_like(), of[name])
            end, steps = { first = steps }, optimiser = { lr = lr, prior_units = prior_units } }
          learner:observe(x:to(dtype), y:to(dtype))
          return learner.projection.precision_mean / learner.projection.precision
        end
        local start = means(1, 1e-9)
        before = before or start
        close(before, start, 1e-6)
        local moved = (means(1, 0.1) - start):abs()
        close((prior_units and deviation or deviation * 0 + 1) * 0.1, moved, 1e-5, dtype)
      end
    end
  end)

  it("finds the same optimum in either", function()
    local x, y = stream(1, 12)
    local precision, precision_mean = exact(x, y)
    precision = precision - 1 + 1 / 4 -- exact has the prior N(0, 1)
    local learner = linear(1, { optimiser = { lr = 0.1, beta2 = 0.999, prior_units = true }, prior = 2 })
    learner:observe(x, y)
    close(precision, learner.posterior.precision, 1e-3)
    close(precision_mean, learner.posterior.precision_mean, 1e-3)
  end)
end)

describe("a stream of a logistic weight", function()
  it("is where the ELBO of each batch is flat, by quadrature", function()
    local g = pn.generator(5)
    local x = pn.randn({ 30, 1 }, { generator = g })
    local y = (x * 1.5):sigmoid():squeeze(2):gt(pn.rand({ 30 }, { generator = g })):to "float64"
    local learner = continual.learner { network = nn.linear(1, 1, { bias = false }), likelihood = "bernoulli",
      prior = 1,
      seed = 3, steps = { first = 800, later = 800 }, draws = { train = 32 }, optimiser = { lr = 0.05 } }
    local p, from = pn.dist.natural.diagonal(pn.zeros { 1 }, pn.ones { 1 }), 1
    for _, to in ipairs { 12, 30 } do
      local bx, by = x:slice(1, from, to), y:slice(1, from, to)
      learner:observe(bx, by)
      local left, at_first = newton(learner.posterior, p, bx, by)
      assert(left < 0.03 and at_first > 0.2, ("%g of %g"):format(left, at_first))
      p, from = learner.posterior, to + 1
    end
  end)
end)

-- ---- forgetting ----

describe("a tempered stream", function()
  local RATE, LAG = 0.2, 2
  local times, ends = { 0, 1, 4, 4.5 }, { 4, 7, 9, 12 }

  -- Exponents (1 - rate)^(age / lag) of all data at the last time (equation 10).
  local function weights()
    local list, from = {}, 1
    for k, to in ipairs(ends) do
      for _ = from, to do list[#list + 1] = (1 - RATE) ^ ((times[#times] - times[k]) / LAG) end
      from = to + 1
    end
    return pn.tensor(list)
  end

  it("has the posterior of the batch form with a memory of any size and any selection", function()
    local x, y = stream(1, 12)
    local precision, eta = exact(x, y, weights())
    for _, case in ipairs { { 0, "residual" }, { 2, "residual" }, { 2, "random" }, { 5, "k_center" },
      { 20, "residual" }, { 3, "random", "refit" }, { 3, "residual", "refit" } } do
      local learner = linear(1, { forget = continual.bayesian_forgetting { rate = RATE, lag = LAG }, update = case[3],
        memory = { size = case[1], select = case[2] }, estimator = "hessian", draws = { sites = 20000 } })
      local reports = fed(learner, x, y, ends, times)
      local what = case[2] .. " " .. case[1]
      -- second derivatives of a linear model are the same at every draw; first ones are not
      close(precision, learner.projection.precision, 1e-9, what)
      local exactly = case[1] == 0 or case[1] == 20 or case[3]
      close(eta, learner.projection.precision_mean, exactly and 1e-8 or 0.02, what)
      assert.near((1 - RATE) ^ (0.5 / LAG), reports[4].weight, 1e-15)
      assert.equal(0.5, reports[4].elapsed)
      assert.equal(case[1] == 20, reports[2].memory_exceeds_data)
      if case[1] == 20 then
        assert.equal(4, learner.counts.memory_exceeds_data)
        close(pn.tensor { 1. }, learner.posterior.precision, 1e-15, "nothing has left the memory")
        local ages = learner.memory.age:sort()
        close({ 0, 0, 0, .5, .5, 3.5, 3.5, 3.5, 4.5, 4.5, 4.5, 4.5 }, ages, 1e-12, "ages")
      end
    end
  end)

  it("that is constant is worth 1 / rate batches", function()
    local learner = linear(1, { forget = continual.bayesian_forgetting { rate = RATE }, steps = { first = 300,
      later = 300 } })
    local x, y = pn.ones { 1, 1 }, pn.ones { 1 }
    for _ = 1, 60 do learner:observe(x, y) end
    close({ 1 + 1 / RATE / NOISE ^ 2 }, learner.posterior.precision, 2e-6)
    assert.equal(59, learner.time)
  end)

  it("diffuses without a memory; with one that is an error which says why", function()
    local x, y = stream(1, 6)
    for _, forget in ipairs { continual.ornstein_uhlenbeck { stiffness = 0.1 }, continual.wiener { rate = 0.1 } } do
      local learner = linear(1, { forget = forget })
      learner:observe(x, y)
      local q = learner.posterior
      learner:observe(x, y, 3)
      local before = forget:apply(q, pn.dist.natural.diagonal(pn.zeros { 1 }, pn.ones { 1 }), 3)
      close(before.precision + x:square():sum() / NOISE ^ 2, learner.posterior.precision, 1e-9)
      assert.matches(forget.name .. ": memory must be empty: a diffusion", message_of(linear, 1, { forget = forget,
        memory = { size = 3 } }))
    end
  end)
end)

-- ---- baselines ----

describe("variational continual learning", function()
  it("leaves the memory out of the first update, and projects it onto the posterior of all data", function()
    local x, y = stream(1, 12)
    for _, select in ipairs { "random", "k_center" } do
      local learner = linear(1, { memory = { size = 4, select = select }, update = "refit" })
      local report = learner:observe(x:slice(1, 1, 9), y:slice(1, 1, 9))
      assert.equal("refit", report.method)
      local kept = exact(learner.memory.x, learner.memory.y:squeeze(2))
      local all = exact(x:slice(1, 1, 9), y:slice(1, 1, 9))
      close(all - kept + 1, learner.posterior.precision, 1e-9, "without the memory")
      learner:observe(x:slice(1, 10, 12), y:slice(1, 10, 12))
      local precision, eta = exact(x, y)
      close(precision, learner.projection.precision, 1e-9, select)
      close(eta, learner.projection.precision_mean, 1e-8, select)
      local few = linear(1, { memory = { size = 20, select = select }, update = "refit", steps = { first = 1500 } })
      few:observe(x, y)
      close({ 1. }, few.posterior.precision, 1e-15, "a memory larger than the data")
      close(precision, few.projection.precision, 1e-9)
    end
  end)

  it("draws its random memory: every datum has its turn, whatever came first", function()
    local x, y = stream(1, 6)
    local counts, values = {}, x:squeeze(2):totable()
    for seed = 1, 60 do
      local learner = linear(1, { memory = { size = 2, select = "random" }, update = "refit", seed = seed,
        steps = { first = 1 } })
      learner:observe(x, y)
      local kept = learner.memory.x:squeeze(2):totable()
      assert(kept[1] ~= kept[2])
      for _, v in ipairs(kept) do counts[v] = (counts[v] or 0) + 1 end
    end
    -- binomial(60, 1/3): 20, deviation 3.7
    for _, v in ipairs(values) do assert(math.abs((counts[v] or 0) - 20) < 4.5 * 3.7, counts[v]) end
  end)

  it("with scores refits the Gaussian part to what left the memory", function()
    local x, y = stream(1, 12)
    local learner = linear(1, { memory = { size = 4 }, update = "refit", draws = { sites = 500 } })
    local reports = fed(learner, x, y, { 7, 12 })
    local precision, eta = exact(x, y)
    local kept, kept_eta = exact(learner.memory.x, learner.memory.y:squeeze(2))
    close(precision, learner.projection.precision, 1e-9)
    close(precision - kept + 1, learner.posterior.precision, 1e-9)
    close(eta - kept_eta, learner.posterior.precision_mean, 1e-8)
    assert.same({ 9 }, reports[2].scores:shape())
    local order = reports[2].scores:totable()
    table.sort(order, function(a, b) return a > b end)
    assert.equal(4, learner.memory.x:size(1))
    assert.equal(4, reports[2].memory.kept_new + reports[2].memory.kept_old)
  end)
end)

-- ---- sites in a network ----

describe("the Gaussian part of a network", function()
  local site_totals = require "penumbra.continual.site_totals"

  it("is the same by multiplying and by dividing, after the correction", function()
    local g = pn.generator(3)
    local net = nn.sequential { nn.linear(2, 4), nn.tanh(), nn.linear(4, 3) }
    local learner = continual.learner { network = net, likelihood = "categorical", seed = 2, memory = { size = 6 },
      steps = { first = 300, later = 200 }, draws = { sites = 400, predict = 10 },
      forget = continual.bayesian_forgetting { rate = 0.1 } }
    local x = pn.randn({ 20, 2 }, { generator = g })
    local y = (x:slice(2, 1, 1):gt(0):to "int64" + x:slice(2, 2, 2):gt(0):to "int64"):squeeze(2)
    local first = learner:observe(x:slice(1, 1, 15), y:slice(1, 1, 15))
    local before = learner.posterior
    local second = learner:observe(x:slice(1, 16, 20), y:slice(1, 16, 20))
    assert.same({ "divide", "multiply" }, { first.method, second.method })
    assert.equal(0, learner.counts.clipped)
    -- the step's sites once more, from the same draws
    local e, state = learner._engine, learner._state
    local p = continual.bayesian_forgetting { rate = 0.1 }:apply(before, e.prior, 1)
    local all = site_totals.estimate(e.model, state.projection, x, y, { draws = 100, generator = pn.generator(1) })
    local q = learner.projection
    local lacking = site_totals.lacking(all, p, q)
    local kept, others = {}, {}
    for i = 0, 19 do table.insert(i % 3 == 0 and kept or others, i) end
    kept, others = pn.tensor(kept, { dtype = "int64" }), pn.tensor(others, { dtype = "int64" })
    local both = {}
    for k, method in ipairs { "multiply", "divide" } do
      both[k] = site_totals.update(all, lacking, p, q, { kept = kept, others = others, method = method, floor = 1e-9 })
    end
    close(both[1].precision, both[2].precision, 1e-11)
    close(both[1].precision_mean, both[2].precision_mean, 1e-11)
    -- scores and update are those of the parts, one after another
    local sites, terms = continual.sites(net, x, y, { likelihood = "categorical", posterior = q, draws = 100,
      antithetic = true, generator = pn.generator(1) })
    sites = continual.correct_bias(sites, p, q)
    for _, kind in ipairs { "residual", "absolute", "centred" } do
      close(continual.scores(sites, q, terms, { kind = kind }), site_totals.scores(all, lacking, q, kind), 1e-9, kind)
    end
    -- without the sites of all data: their product, and the draws once more for those that are chosen
    local few = site_totals.estimate(e.model, state.projection, x, y, { draws = 100, generator = pn.generator(1),
      many = 0 })
    lacking = site_totals.lacking(few, p, q)
    close(site_totals.scores(all, lacking, q, "residual"), site_totals.scores(few, lacking, q, "residual"), 1e-11)
    local how = { kept = kept, others = others, method = "multiply", floor = 1e-9 }
    close(both[1].precision, site_totals.update(few, lacking, p, q, how).precision, 1e-11)
    local by_parts, told = continual.gaussian_update(sites, p, q, { kept = kept, method = "divide", floor = 0.5 })
    local guarded, raised = site_totals.update(all, lacking, p, q, { kept = kept, others = others, method = "divide",
      floor = 0.5 })
    close(by_parts.precision, guarded.precision, 1e-11)
    assert.equal(told.clipped, raised)
  end)

  it("keeps the data of the largest scores", function()
    local x, y = stream(1, 12)
    local learner = linear(1, { memory = { size = 3 }, draws = { sites = 500 } })
    local report = learner:observe(x, y)
    local scores, order = report.scores:totable(), {}
    for k = 1, 12 do order[k] = k end
    table.sort(order, function(a, b) return scores[a] > scores[b] end)
    local kept, want = learner.memory.x:squeeze(2):totable(), {}
    for k = 1, 3 do want[k] = x[order[k]][1]:item() end
    table.sort(kept)
    table.sort(want)
    assert.same(want, kept)
    assert.same({ kept_new = 3, kept_old = 0, ages = { 0., 0., 0. } }, report.memory)
  end)

  -- One weight and known noise s: with sites as exact as their draws the printed score of a datum is its log likelihood
  -- at w = 0, -log(2 pi s^2) / 2 - y^2 / (2 s^2), whatever x; that of old data counts its weight times, unless
  -- tempered = false. Which five data of the fifteen have the largest sum is found among all 3003 choices.
  for _, case in ipairs { { "residual", true }, { "absolute", true }, { "absolute", false }, { "centred", true } } do
    local kind, tempered = case[1], case[2]
    it(("keeps by the score %s what a closed form says%s"):format(kind, tempered and "" or ", untempered"), function()
      local sd = 0.3
      local function of(y, weight)
        local s = -0.5 * math.log(2 * math.pi * sd ^ 2) - y ^ 2 / (2 * sd ^ 2)
        s = kind == "centred" and 0 or kind == "absolute" and math.abs(s) or s
        return tempered and s * weight or s
      end
      local x, y = stream(1, 20)
      y = y * 0.5
      local learner = linear(1, { noise = sd, memory = { size = 5, score = kind, tempered = tempered },
        estimator = "hessian", draws = { sites = 40000 }, forget = continual.bayesian_forgetting { rate = 0.3 } })
      learner:observe(x:slice(1, 1, 10), y:slice(1, 1, 10))
      local old = learner.memory.y:reshape({ -1 }):totable()
      local report = learner:observe(x:slice(1, 11, 20), y:slice(1, 11, 20))
      local scores = {}
      for k, v in ipairs(y:slice(1, 11, 20):totable()) do scores[k] = { y = v, score = of(v, 1) } end
      for _, v in ipairs(old) do scores[#scores + 1] = { y = v, score = of(v, 0.7) } end
      for k, s in ipairs(scores) do assert.near(s.score, report.scores[k]:item(), 0.01) end
      if kind == "centred" then return end
      local best, sum = nil, -math.huge
      local function choose(from, chosen, so_far)
        if #chosen == 5 then
          if so_far > sum then best, sum = { table.unpack(chosen) }, so_far end
          return
        end
        for k = from, #scores do
          chosen[#chosen + 1] = scores[k].y
          choose(k + 1, chosen, so_far + scores[k].score)
          chosen[#chosen] = nil
        end
      end
      choose(1, {}, 0)
      local kept = learner.memory.y:reshape({ -1 }):totable()
      table.sort(best) table.sort(kept)
      assert.same(best, kept)
    end)
  end

  it("is guarded where a precision would be lost, and counted", function()
    local x, y = stream(1, 12)
    x = pn.concatenate { x:slice(1, 1, 11), pn.tensor { { 3. } } } -- what says most is kept, and divided out
    local fine = linear(1, { memory = { size = 2, select = "k_center" }, estimator = "hessian" })
    assert.equal(0, fine:observe(x, y).clipped)
    local short = linear(1, { steps = { first = 1 }, initial = { share = 0.01 }, memory = { size = 2,
      select = "k_center" }, guard = { unconverged = 0.1 }, estimator = "hessian", draws = { sites = 200 } })
    local report = short:observe(x, y)
    assert(report.unconverged and report.bias.mean > 0.1)
    assert.equal(1, short.counts.unconverged)
    assert.equal(1, short.counts.clipped)
    assert.equal(1, short.counts.clipped_steps)
    -- the larger of the two biases decides
    local low, high = math.min(report.bias.precision, report.bias.mean), math.max(report.bias.precision,
      report.bias.mean)
    assert(high > low * 1.1 + 1e-3)
    for _, case in ipairs { { (low + high) / 2, true }, { high * 1.01, false } } do
      local again = linear(1, { steps = { first = 1 }, initial = { share = 0.01 }, memory = { size = 2,
        select = "k_center" }, guard = { unconverged = case[1] }, estimator = "hessian", draws = { sites = 200 } })
      assert.equal(case[2], again:observe(x, y).unconverged)
    end
    close({ 1e-3 }, short.posterior.precision, 1e-12)
  end)
end)

-- ---- predictions ----

describe("predictions", function()
  it("of a linear model have closed forms", function()
    local x, y = stream(2, 12)
    local learner = linear(2)
    learner:observe(x, y)
    local q = learner.projection
    local mean = x:matmul(q.precision_mean / q.precision)
    local spread = x:square():matmul(q.precision:reciprocal())
    local p = learner:predict(x, { draws = 3 })
    close(mean:unsqueeze(2), p.mean, 1e-12)
    close(spread:unsqueeze(2), p.spread, 1e-12)
    close((spread + NOISE ^ 2):unsqueeze(2), p.variance, 1e-12)
    close(pn.dist.normal(mean, (spread + NOISE ^ 2):sqrt()):log_prob(y), learner:log_predictive(x, y), 1e-12)
  end)

  -- y = w x + noise: N(y; m x, x^2 / precision + noise^2) under the belief of before, whatever is forgotten then.
  it("of a batch, before it is learned from, are those of the posterior of all before", function()
    local x, y = stream(1, 12)
    for _, rate in ipairs { 0, 0.4 } do
      local learner = linear(1, { forget = continual.bayesian_forgetting { rate = rate }, draws = { predict = 2 } })
      local weights, from = pn.ones { 12 }, 1
      for k, to in ipairs { 5, 6, 12 } do
        local told = learner:observe(x:slice(1, from, to), y:slice(1, from, to)).log_predictive_before
        local mean, spread = pn.zeros { 1 }, pn.ones { 1 }
        if k > 1 then
          local n = from - 1
          local precision, eta = exact(x:slice(1, 1, n), y:slice(1, 1, n), weights:slice(1, 1, n))
          mean, spread = eta / precision, precision:reciprocal()
        end
        local total = 0
        for i = from, to do
          local at = x[i][1]:item()
          local variance = at ^ 2 * spread:item() + NOISE ^ 2
          total = total - 0.5 * ((y[i]:item() - mean:item() * at) ^ 2 / variance + math.log(2 * math.pi * variance))
        end
        assert.near(total / (to - from + 1), told, 1e-8)
        -- when the next batch comes, all up to here have been tempered once for each batch that came after them
        local kept = {}
        for i = 1, 12 do kept[i] = weights[i]:item() * (i < from and 1 - rate or 1) end
        weights, from = pn.tensor(kept), to + 1
      end
    end
  end)

  it("of a network are means over draws of its weights", function()
    local g = pn.generator(8)
    local function net(outputs) return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, outputs) } end
    local x = pn.randn({ 3, 2 }, { generator = g })
    local targets = { normal = pn.tensor { .1, -.5, 1 }, bernoulli = pn.tensor { 1, 0, 1 },
      categorical = pn.tensor({ 0, 2, 1 }, { dtype = "int64" }) }
    for likelihood, y in pairs(targets) do
      local plain = net(likelihood == "categorical" and 3 or 1)
      local learner = continual.learner { network = plain, likelihood = likelihood, seed = 1,
        noise = likelihood == "normal" and 0.4 or nil }
      local q, S = learner.projection, 4000 -- the prior: wide
      local weights = (q.precision_mean / q.precision)
        + pn.randn({ S, q.precision:size(1) }, { generator = g }) / q.precision:sqrt()
      -- layer by layer, a network a draw
      local n = likelihood == "categorical" and 3 or 1
      local h = (x:matmul(weights:slice(2, 1, 6):reshape { S, 2, 3 }) + weights:slice(2, 7, 9):unsqueeze(2)):tanh()
      local f = h:matmul(weights:slice(2, 10, 9 + 3 * n):reshape { S, 3, n })
        + weights:slice(2, 10 + 3 * n, 9 + 4 * n):unsqueeze(2)
      local p, log_p
      if likelihood == "normal" then
        p = f
        log_p = pn.dist.normal(f:squeeze(3), 0.4):log_prob(y)
      elseif likelihood == "bernoulli" then
        p = f:sigmoid()
        log_p = (p:squeeze(3) * y + (1 - p:squeeze(3)) * (1 - y)):log()
      else
        p = f:softmax(3)
        log_p = (p * pn.one_hot(y, 3)):sum(3):log()
      end
      local got = learner:predict(x, { draws = S })
      local own, density = got.mean or got.probabilities, log_p:exp()
      local error_of = ((p:var(1) + 1e-12) * (2 / S)):sqrt()
      assert(((own - p:mean(1)):abs() / error_of):max():item() < 6 and error_of:max():item() < 0.04, likelihood)
      assert(((got.spread or got.variance) / p:var(1) - 1):abs():max():item() < 0.25, likelihood)
      local told = learner:log_predictive(x, y, { draws = S }):exp()
      error_of = (density:var(1) * (2 / S)):sqrt()
      assert(((told - density:mean(1)):abs() / error_of):max():item() < 6, likelihood)
      bits(learner:log_predictive(x, y), learner:log_predictive(x, y))
      assert(off(got.variance, learner:predict(x, { draws = S, generator = g }).variance) > 0)
    end
  end)

  -- Each row has draws of its own: the variance over equal rows of the mean of S draws is 1 / (S - 1) of their mean
  -- empirical variance, in whatever blocks the draws are taken (here 16, 16 and 7).
  it("of many data at once have the moments of all draws", function()
    local n, S = 22000, 39
    local learner = continual.learner { network = nn.sequential { nn.linear(1, 3), nn.tanh(), nn.linear(3, 1) },
      likelihood = "bernoulli", seed = 2 }
    local p = learner:predict(pn.ones { n, 1 }, { draws = S })
    assert.same({ n, 1 }, p.variance:shape())
    assert.near(1, p.probabilities:var():item() * (S - 1) / p.variance:mean():item(), 6 * (2 / n) ^ 0.5)
  end)
end)

describe("the beginning of the first optimisation", function()
  -- E exp(2 log_scale) = 1 - share, whatever alpha is: with the means' share it is the prior's variance.
  it("shares the prior's variance between random means and scales", function()
    for _, case in ipairs { { 0.3, 0.2 }, { 0.9, 0.05 } } do
      local share, alpha, n = case[1], case[2], 20000
      local learner = continual.learner { network = nn.linear(n, 1, { bias = false }), likelihood = "bernoulli",
        prior = 1, steps = { first = 1, later = 1 }, draws = { train = 1 }, optimiser = { lr = 1e-12 }, seed = 3,
        initial = { share = share, alpha = alpha } }
      learner:observe(pn.zeros { 1, n }, pn.zeros { 1 })
      local q = learner.projection
      local mean, variance = q.precision_mean / q.precision, q.precision:reciprocal()
      local error = 6 / n ^ 0.5
      assert.near(share, mean:square():mean():item(), share * 2 ^ 0.5 * error)
      assert.near(1 - share, variance:mean():item(), (1 - share) * 2 * alpha * error * 1.1)
      assert.near(alpha, (variance:log() * 0.5):std():item(), alpha * error)
    end
  end)
end)

describe("predictions of very many data", function()
  it("are made of several blocks of draws, each counted as large as it is", function()
    pn.seed(8)
    local learner = continual.learner { network = nn.mlp({ 1, 4, 4, 1 }, { activation = "tanh" }),
      likelihood = "normal", noise = 0.1, prior = 1, steps = { first = 60, later = 60 }, optimiser = { lr = 0.1 } }
    local x = pn.linspace(-1, 1, 6):unsqueeze(2)
    learner:observe(x, x:squeeze(2) * 3)
    local one = learner:predict(pn.tensor { { 0.7 } }, { draws = 20000 })
    local many = learner:predict(pn.full({ 2000, 1 }, 0.7), { draws = 1000 }) -- 131 at a time, and the rest
    assert.is_true((many.mean[1] - one.mean[1]):abs():item() < 6 * (one.spread:item() / 1000) ^ 0.5)
    assert.near(1, many.spread[1]:item() / one.spread:item(), 0.2)
  end)
end)

-- ---- noise and likelihoods of one's own ----

describe("what is learned beside the weights", function()
  it("is the noise: at the optimum the mean of the expected squares", function()
    local x, y = stream(1, 12)
    local learner = linear(1, { noise = { learn = true, initial = 1 }, steps = { first = 2500 } })
    local report = learner:observe(x, y)
    local q = learner.projection
    local square = (y - x:matmul(q.precision_mean / q.precision)):square() + x:square():matmul(q.precision:reciprocal())
    assert.near(square:mean():sqrt():item(), learner.noise_scale, 1e-6)
    assert.equal(learner.noise_scale, report.noise_scale)
    -- data that have left the memory count by their squares of then, and are forgotten as the weights are
    for _, case in ipairs { { 0, 0 }, { 0, 0.3 }, { 4, 0.3, "refit", "random" } } do
      local stream_of = linear(1, { noise = { learn = true, initial = 1 }, steps = { first = 2500, later = 2500 },
        memory = { size = case[1], select = case[4] }, update = case[3],
        forget = continual.bayesian_forgetting { rate = case[2] } })
      local left, sum = 0, 0
      local function squares(from, to)
        local p = stream_of.projection
        local a, b = x:slice(1, from, to), y:slice(1, from, to)
        return ((b - a:matmul(p.precision_mean / p.precision)):square()
          + a:square():matmul(p.precision:reciprocal())):sum():item()
      end
      for k, to in ipairs { 7, 12 } do
        local from = k == 1 and 1 or 8
        local told = stream_of:observe(x:slice(1, from, to), y:slice(1, from, to))
        left, sum = left * (1 - case[2]), sum * (1 - case[2])
        if case[1] == 0 then
          left, sum = left + to - from + 1, sum + squares(from, to)
          assert.near((sum / left) ^ 0.5, told.noise_scale, 1e-6)
        else -- four of seven are kept, then four of nine
          assert.near(k == 1 and 3 or 3 * 0.7 + 5 - 0.3 * (4 - told.memory.kept_old), stream_of._state.past:slice(1, 1,
            1):item(), 1e-12)
        end
      end
    end
    assert.equal(NOISE, linear(1).noise_scale)
  end)

  it("takes a likelihood of one's own", function()
    local x, y = stream(1, 12)
    local named = linear(1)
    local own = continual.learner { network = nn.linear(1, 1, { bias = false }), prior = 1, seed = 1,
      draws = { train = 50 }, steps = { first = 800 }, optimiser = { lr = 0.1 }, likelihood = function(f, t)
        return pn.dist.normal(f:squeeze(3), NOISE):log_prob(t)
      end }
    named:observe(x, y)
    own:observe(x, y)
    close(named.posterior.precision, own.posterior.precision, 0.05)
    close(named.posterior.precision_mean, own.posterior.precision_mean, 0.05)
    local got, want = own:log_predictive(x, y, { draws = 20000 }), named:log_predictive(x, y)
    assert(off(want, got) < 0.1)
  end)
end)
