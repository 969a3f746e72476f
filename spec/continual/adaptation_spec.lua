-- What time does to a belief: the tables of the paper's figure 2, closed forms, the weighted posterior that the
-- recursion must equal.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local continual, dist = pn.continual, pn.dist

local function near(want, got, limit)
  got = pn.is_tensor(got) and got:item() or got
  assert(math.abs(want - got) <= (limit or 1e-8) * math.max(1, math.abs(want)), ("%.12g for %.12g"):format(got, want))
end

local standard = dist.normal(0, 1)

local function after(operator, loc, scale, t, prior)
  local p = operator:apply(dist.normal(loc, scale), prior or standard, t):to_distribution()
  return p:mean():item(), p:stddev():item()
end

-- Figure 2 (t, mean and deviation under forgetting 0.05, under stiffness 0.025), from N(5, 0.1^2).
local figure = {
  { 0, 5, 0.1, 5, 0.1 }, { 1, 4.99737, 0.10257, 4.87655, 0.24142 }, { 10, 4.96671, 0.12880, 3.89400, 0.63209 },
  { 27.7258872, 4.84750, 0.20049, 2.5, 0.86747 }, { 50, 4.46443, 0.34065, 1.43252, 0.95851 },
  { 100, 1.86634, 0.79402, 0.41042, 0.99666 }, { 250, 0.00135, 0.99987, 0.00965, 1 },
}

local operators = {
  bayesian_forgetting = continual.bayesian_forgetting { rate = 0.1, lag = 2.5 },
  ornstein_uhlenbeck = continual.ornstein_uhlenbeck { stiffness = 0.3, lag = 2.5 },
  wiener = continual.wiener { rate = 0.2, lag = 2.5 },
}

describe("adaptation", function()
  it("has the curves of figure 2", function()
    local forget = continual.bayesian_forgetting { rate = 0.05 }
    local revert = continual.ornstein_uhlenbeck { stiffness = 0.025 }
    for _, row in ipairs(figure) do
      local mean, scale = after(forget, 5, 0.1, row[1])
      near(row[2], mean, 5e-6) near(row[3], scale, 5e-6)
      mean, scale = after(revert, 5, 0.1, row[1])
      near(row[4], mean, 5e-6) near(row[5], scale, 5e-6)
    end
  end)

  it("has the closed forms in scalars", function()
    local revert = continual.ornstein_uhlenbeck { stiffness = 0.1 }
    local forget = continual.bayesian_forgetting { rate = 0.1 }
    for _, row in ipairs { { revert, 1, 1.809674836072, 0.189456554453 }, { revert, 3, 1.481636441363, 0.456676480267 },
      { forget, 1, 1.99778024417, 0.0110987791343 }, { forget, 3, 1.99259269383, 0.0136666165557 } } do
      local mean, scale = after(row[1], 2, 0.1, row[2])
      near(row[3], mean, 1e-11) near(row[4], scale ^ 2, 1e-11)
    end
    local mean, scale = after(continual.wiener { rate = 0.5, lag = 2 }, 2, 0.1, 3, dist.normal(7, 4))
    near(2, mean) near(0.01 + 0.5 ^ 2 * 16 * 1.5, scale ^ 2)
    mean, scale = after(continual.wiener { variance_rate = 0.5, lag = 2 }, 2, 0.1, 3, dist.normal(7, 4))
    near(2, mean) near(0.01 + 0.5 * 16 * 1.5, scale ^ 2)
  end)

  for name, operator in pairs(operators) do
    it(name .. " over two times is that over their sum, weight by weight", function()
      local q = dist.normal(pn.tensor { 2, -1, 0.5 }, pn.tensor { 0.1, 2, 1 }):independent(1)
      local prior = dist.normal(pn.tensor { 0, 1, 0.5 }, pn.tensor { 1, 0.5, 1 }):independent(1)
      local once = operator:apply(q, prior, 3.7)
      local twice = operator:apply(operator:apply(q, prior, 1.2), prior, 2.5)
      assert.equal("diagonal", once.form)
      for _, part in ipairs { "precision", "precision_mean" } do
        near(0, (once[part] - twice[part]):abs():max(), 1e-13)
        near(0, (operator:apply(q, prior, 0)[part] - dist.natural.of(q)[part]):abs():max(), 1e-13)
      end
      local far = operator:apply(q, prior, 1e4):to_distribution()
      local off = (far:mean() - prior:mean()):abs():max():item() + (far:stddev() - prior:stddev()):abs():max():item()
      local stays = operator:apply(prior, prior, 3).precision
      if name == "wiener" then
        assert(off > 1 and stays[{ 1 }]:item() < 1, "a free diffusion does not return")
      else
        near(0, off, 1e-12)
        near(0, (stays - dist.natural.of(prior).precision):abs():max(), 1e-13)
      end
    end)
  end

  -- A scalar weight, y ~ N(x w, 0.5), at times 0, 0.7, 2, 5.5: recursion (11) against the batch (10).
  it("forgets in recursion what the weighted posterior forgets at once", function()
    local times, x, y = { 0, 0.7, 2, 5.5 }, { 1, -0.4, 2, 0.3 }, { 0.5, 1, 1.5, -1 }
    local forget, prior = continual.bayesian_forgetting { rate = 0.2, lag = 1.8 }, dist.normal(0.3, 2)
    local function term(k, w) return dist.natural.scalar(x[k] * y[k] / 0.5 * w, x[k] ^ 2 / 0.5 * w) end
    local q, batch = dist.natural.of(prior), dist.natural.of(prior)
    for k, t in ipairs(times) do
      q = forget:apply(q, prior, t - (times[k - 1] or 0)) * term(k, 1)
      batch = batch * term(k, 0.8 ^ ((times[4] - t) / 1.8))
      near(0.8 ^ ((times[4] - t) / 1.8), forget:memory_weight(times[4] - t), 1e-14)
    end
    near(batch.precision:item(), q.precision, 1e-13)
    near(batch.precision_mean:item(), q.precision_mean, 1e-13)
  end)

  it("counts a constant stream as 1 / rate batches", function()
    local forget = continual.bayesian_forgetting { rate = 0.1, lag = 3 }
    near(10, forget:memory_weight(pn.arange(400) * 3):sum(), 1e-12)
    local q = dist.natural.of(standard)
    for _ = 1, 400 do
      q = forget:apply(q, standard, 3) * dist.natural.scalar(0, 2)
    end
    near(21, q.precision, 1e-12)
    local nothing = continual.bayesian_forgetting { rate = 0 }
    near(1, nothing:memory_weight(50), 0)
    assert.equal(q.precision:item(), nothing:apply(q, standard, 7).precision:item())
  end)

  it("refuses a memory under a diffusion, and what is no time", function()
    for _, name in ipairs { "ornstein_uhlenbeck", "wiener" } do
      assert.matches(name .. ": memory must be empty", message_of(operators[name].memory_weight, operators[name], 1))
    end
    local forget = operators.bayesian_forgetting
    assert.matches("bayesian_forgetting: elapsed must be a number from 0 on, got %-1",
      message_of(forget.apply, forget, standard, standard, -1))
    assert.matches("rate must be at least 0 and below 1, got 1",
      message_of(continual.bayesian_forgetting, { rate = 1 }))
    assert.matches("lag must be positive", message_of(continual.wiener, { rate = 1, lag = 0 }))
    assert.matches("wiener: one of rate and variance_rate must be given, got neither",
      message_of(continual.wiener, { lag = 1 }))
    assert.matches("wiener: one of rate and variance_rate must be given, got both",
      message_of(continual.wiener, { rate = 1, variance_rate = 1 }))
    assert.matches("wiener: variance_rate must be a number from 0 on, got %-1",
      message_of(continual.wiener, { variance_rate = -1 }))
    assert.matches("option 'stiffness' is required", message_of(continual.ornstein_uhlenbeck, {}))
    for _, bad in ipairs { math.huge, 0 / 0, "1", pn.ones { 2 } } do
      assert.matches("bayesian_forgetting: elapsed must be a number from 0 on, got ", message_of(forget.apply, forget,
        standard, standard, bad))
    end
    assert.matches("bayesian_forgetting: age must be a number from 0 on, or a tensor of them, got %-1",
      message_of(forget.memory_weight, forget, -1))
    assert.matches("bayesian_forgetting: age must be 0 or more everywhere, got %-2", message_of(forget.memory_weight,
      forget, pn.tensor { -2 }))
    assert.equal(0, forget:memory_weight(pn.zeros { 0 }):numel())
    for _, bad in ipairs { 0, -1, math.huge } do
      assert.matches("ornstein_uhlenbeck: lag must be positive, got", message_of(continual.ornstein_uhlenbeck,
        { stiffness = 1, lag = bad }))
    end
    for _, bad in ipairs { -1e-9, math.huge } do
      assert.matches("ornstein_uhlenbeck: stiffness must be a number from 0 on, got", message_of(
        continual.ornstein_uhlenbeck, { stiffness = bad }))
    end
    assert.matches("rate must be at least 0 and below 1, got %-", message_of(continual.bayesian_forgetting, { rate =
      -1e-9 }))
    near(1, after(continual.ornstein_uhlenbeck { stiffness = 0 }, 1, 2, 5), 1e-12)
    assert.same({ "bayesian_forgetting{rate = 0.1, lag = 2.5}", "wiener{variance_rate = 0.5, lag = 1}" },
      { tostring(forget), tostring(continual.wiener { variance_rate = 0.5 }) })
    local vectors = dist.normal(pn.zeros { 2 }, 1):independent(1)
    assert.matches("prior must be a factor of numbers, as q is, got one of vectors", message_of(forget.apply, forget,
      standard, vectors, 1))
    assert.matches("prior must be a factor of vectors, as q is, got one of numbers", message_of(forget.apply, forget,
      vectors, standard, 1))
    assert.matches("q must be a normal distribution or a Gaussian factor, got number", message_of(forget.apply, forget,
      1, standard, 1))
    local full = dist.multivariate_normal { loc = pn.zeros { 2 }, covariance_matrix = pn.eye(2) }
    assert.matches("q must have a precision for each weight", message_of(forget.apply, forget, full, full, 1))
  end)
end)
