local pn = require "penumbra"
local dist = pn.dist

-- Two correlated normals, observed through their sum: the posterior is known in closed form.
local model = pn.model(function(m, y)
  local z = m:sample("z", dist.normal(pn.zeros { 2 }, 1):independent(1))
  m:deterministic("sum", z:sum())
  m:observe("y", dist.normal(z:sum(), 1), y)
end)
local y = pn.tensor(1.5)
-- precision I + 1 1'; mean of each = y / 3; variance 1 - 1 / 3; covariance -1 / 3. Independent normals have precision 2
-- in all directions, where the posterior has 1 and 3: k-hat = 1 - 1 / 2.
local mean, variance, covariance = 0.5, 2 / 3, -1 / 3

describe("draws of a guide picked by their weights", function()
  it("are draws of the posterior", function()
    pn.seed(1)
    local fit = pn.svi(model, "mean_field", { data = { y }, steps = 2000, draws = 4 })
    local plain = fit:sample(20000).z
    local deviation = plain:std(1):totable()
    assert.is_true(deviation[1] ^ 2 < 0.59) -- 1 / 2, too narrow
    local drawn, k_hat = fit:resample(4000, { draws = 200000 })
    assert.same({ 4000, 2 }, drawn.z:shape())
    assert.same({ 4000 }, drawn.sum:shape())
    assert.near(0.5, k_hat, 0.2)
    local z = drawn.z
    local gap = math.sqrt(variance / 4000) * 6
    assert.near(mean, z:select(2, 1):mean():item(), gap)
    assert.near(variance, z:select(2, 1):var():item(), 0.06)
    local c = (z:select(2, 1) - mean) * (z:select(2, 2) - mean)
    assert.near(covariance, c:mean():item(), 0.06)
    assert.near(0, (drawn.sum - z:sum(2)):abs():max():item(), 1e-12)
  end)

  it("need a guide with a density", function()
    local fit = pn.svi(model, "delta", { data = { y }, steps = 10 })
    assert.has_error(function() fit:resample(10) end, "resample: needs an automatic guide with a density")
    assert.has_error(function() fit:resample(0) end, "resample: n must be a whole number from 1 on, got 0")
  end)
end)

describe("k_hat", function()
  it("is a number that tells a near guide from a far one", function()
    pn.seed(2)
    local near = pn.svi(model, "full_rank", { data = { y }, steps = 3000, draws = 4, lr = 0.02 })
    local far = pn.svi(model, "mean_field", { data = { y }, steps = 2000, draws = 4 })
    assert.is_true(near:k_hat(4000) < 0.5)
    assert.is_true(far:k_hat(4000) > near:k_hat(4000))
  end)

  it("is -inf where the guide is the posterior itself, whose weights are alike", function()
    local law = dist.normal(pn.zeros { 2 }, 1)
    local same = pn.model(function(m) return m:sample("z", law:independent(1)) end)
    local guide = pn.model(function(g)
      local loc = g:param("loc", pn.zeros { 2 })
      return g:sample("z", dist.normal(loc, 1):independent(1))
    end)
    local fit = pn.svi(same, guide, { steps = 1, lr = 1e-200 })
    local largest, each = fit:k_hat(100)
    assert.equal(-math.huge, largest)
    assert.equal(-math.huge, each:max():item())
  end)
end)

describe("pn.infer.guide", function()
  it("makes guides with options", function()
    pn.seed(3)
    local guide = pn.infer.guide("low_rank", { rank = 1, init = { z = { 0.5, 0.5 } } })
    local fit = pn.svi(model, guide, { data = { y }, steps = 500 })
    assert.matches("low_rank", tostring(fit))
    assert.has_error(function() pn.infer.guide "ful_rank" end)
  end)
end)
