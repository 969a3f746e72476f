--- The metrics of pn.nuts by name, estimators and schedules in every combination: the same bits for any number of
--- threads, simulation-based calibration, few leapfrogs on columns of scales 1 to 100, funnels.
local pn = require "penumbra"
local dist = pn.dist

local METRICS = { "diagonal", "low_rank", "dense" }

-- Columns of scales 1 to 100 that all lean on one of them.
local function correlated_columns()
  pn.seed(9)
  local base, columns = pn.randn { 80 }, {}
  for k = 1, 5 do
    columns[k] = (base + pn.randn { 80 } * 0.3) * 10 ^ ((k - 1) / 2)
  end
  local x = pn.stack(columns, 2)
  return x, x:matmul(pn.tensor { 2, -1, 0.5, 0.1, -0.02 }) + pn.randn { 80 }
end

local regression = pn.model(function(m, x, y)
  local b = m:sample("b", dist.normal(pn.zeros { x:size(2) }, 10):independent(1))
  m:observe("y", dist.normal(x:matmul(b), 1):independent(1), y)
end)

local single = pn.model(function(m, x, y)
  local b = m:sample("b", dist.normal(pn.zeros({ x:size(2) }, { dtype = "float32" }), 10):independent(1))
  m:observe("y", dist.normal(x:matmul(b), 1):independent(1), y)
end)

-- The exact posterior of the regression.
local function exact(x, y)
  local precision = x:t():matmul(x) + pn.eye(x:size(2)) / 100
  local cov = precision:cholesky():cholesky_solve(pn.eye(x:size(2)))
  return cov:matmul(x:t():matmul(y)):totable(), cov
end

local function right(p, mean, cov)
  for k, want in ipairs(mean) do
    local row = p:summary()[("b[%d]"):format(k)]
    assert.is_true(math.abs(row.mean - want) < 6 * row.mcse, ("b[%d]: %g, not %g"):format(k, row.mean, want))
    assert.is_true(row.mcse < 0.1 * math.sqrt(cov[k][k]:item()))
  end
end

-- Leapfrogs of draws and warm-up together for the least effective draw, of bulk and tails.
local function cost(p)
  local least = math.huge
  for _, row in ipairs(p:summary()) do
    least = math.min(least, row.ess_bulk, row.ess_tail)
  end
  return p.gradients / least
end

describe("metrics", function()
  it("take few leapfrogs where columns are correlated and of scales 1 to 100", function()
    local x, y = correlated_columns()
    local mean, cov = exact(x, y)
    for _, metric in ipairs { "low_rank", "dense" } do
      pn.seed(1)
      local p = pn.nuts(regression, { data = { x, y }, metric = metric })
      right(p, mean, cov)
      assert.is_true(cost(p) <= 10, metric .. ": " .. cost(p))
      assert.equal(300, p.warmup)
      assert.matches("4000 draws of 4 chains after 300 of warm%-up", tostring(p))
    end
    pn.seed(1)
    local p = pn.nuts(regression, { data = { x, y } }) -- low rank is the default
    assert.is_true(cost(p) <= 10, cost(p))
    local slow = pn.nuts(regression, { data = { x, y }, metric = "diagonal", estimator = "stan", schedule = "stan",
      warmup = 300, draws = 200 })
    assert.is_true(cost(slow) > 50, cost(slow)) -- and that is what it saves
  end)

  it("are right for a target of float32", function()
    local x, y = correlated_columns()
    local mean, cov = exact(x, y)
    for _, metric in ipairs(METRICS) do
      pn.seed(2)
      local p = pn.nuts(single, { data = { x:to "float32", y:to "float32" }, metric = metric, draws = 500 })
      right(p, mean, cov)
    end
  end)

  it("give the same bits by 1, 2 and 3 threads, the length of the warm-up too", function()
    local x, y = correlated_columns()
    local before = pn.threads()
    for _, metric in ipairs(METRICS) do
      local draws = {}
      for k = 1, 3 do
        pn.threads(k)
        pn.seed(5)
        local p = pn.nuts(regression, { data = { x, y }, chains = 3, metric = metric, draws = 20 })
        draws[k] = { p.draws.b:totable(), p.warmup, p.gradients }
      end
      pn.threads(before)
      assert.same(draws[1], draws[2])
      assert.same(draws[1], draws[3])
    end
  end)

  it("and estimators and schedules go together in every way, and have names", function()
    local x, y = correlated_columns()
    local mean, cov = exact(x, y)
    local seen = {}
    for _, metric in ipairs(METRICS) do
      for _, estimator in ipairs { "fisher", "stan" } do
        for _, schedule in ipairs { "overlapping", "stan" } do
          pn.seed(3)
          local p = pn.nuts(regression, { data = { x, y }, metric = metric, estimator = estimator, schedule = schedule,
            warmup = 200, chains = 2, draws = 1000 })
          right(p, mean, cov)
          assert.equal(200, p.warmup)
          assert.is_nil(seen[p.gradients]) -- no two are the same
          seen[p.gradients] = true
        end
      end
    end
    local function message_of(o)
      return select(2, pcall(pn.nuts, regression, o))
    end
    assert.matches("nuts: dense is an option no more: write metric = 'dense'", message_of { dense = true })
    assert.matches("nuts: metric must be one of 'low_rank', 'diagonal', 'dense', got 'low%-rank'",
      message_of { metric = "low-rank" })
    assert.matches("nuts: warmup must be a whole number from 0 on, got 2.5", message_of { warmup = 2.5 })
    assert.equal(1000, pn.nuts(regression, { data = { x, y }, schedule = "stan", chains = 1, draws = 4 }).warmup)
  end)

  it("are calibrated, every one", function()
    local m = pn.model(function(m, x)
      local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
      local s = m:sample("s", dist.half_normal(2))
      m:plate("rows", x:size(1), function() m:observe("y", dist.normal(x:matmul(w), s)) end)
    end)
    pn.seed(4)
    local x = pn.randn { 12, 2 }
    x = pn.stack({ x:select(2, 1), x:select(2, 1) + x:select(2, 2) * 0.2 }, 2)
    for _, metric in ipairs(METRICS) do
      pn.seed(7)
      local sbc = pn.sbc(m, { data = { x }, simulations = 60, draws = 49, sampler = "nuts",
        options = { thin = 5, warmup = 200, metric = metric } })
      assert.is_true(sbc:passed(), metric .. "\n" .. tostring(sbc))
    end
  end)
end)

describe("a funnel", function()
  local y = { 28, 8, -3, 7, -1, 1, 18, 12 }
  local sigma = { 15, 10, 16, 11, 9, 11, 10, 18 }

  local function schools(centred)
    return pn.model(function(m)
      local mu, tau = m:sample("mu", dist.normal(0, 5)), m:sample("tau", dist.half_cauchy(5))
      m:plate("schools", 8, function()
        local theta = centred and m:sample("theta", dist.normal(mu, tau)) or mu + tau * m:sample("z", dist.normal(0, 1))
        m:observe("y", dist.normal(theta, pn.tensor(sigma)), pn.tensor(y))
      end)
    end)
  end

  local neal = pn.model(function(m)
    local v = m:sample("v", dist.normal(0, 3))
    m:plate("rows", 9, function() m:sample("x", dist.normal(0, (v / 2):exp())) end)
  end)

  it("is named by pn.diagnose, with the variable that makes it, and not where there is none", function()
    local function hint(m, o)
      for _, p in ipairs(pn.diagnose(m, o or { draws = 10 }).advice) do
        if p.kind == "funnel" then return p.site, p.message end
      end
    end
    pn.seed(1)
    local site, message = hint(schools(true))
    assert.equal("theta", site)
    assert.matches("scale of 'theta' depends on 'tau'.*tau %* z", message)
    assert.equal("x", (hint(neal)))
    assert.is_nil((hint(schools(false))))
    local x, rows = correlated_columns()
    assert.is_nil((hint(regression, { data = { x, rows } })))
    assert.matches("funnel %(advice%): the scale of 'x' depends on 'v'", tostring(pn.diagnose(neal)))
  end)

  it("diverges as it is, and not where it is written as advised", function()
    pn.seed(2)
    local p = pn.nuts(neal, { draws = 500 })
    assert.is_true(p.divergences > 0)
    assert.matches("transitions diverged", tostring(p))
    local q = pn.nuts(pn.model(function(m)
      local v = m:sample("v", dist.normal(0, 3))
      m:plate("rows", 9, function() m:deterministic("x", (v / 2):exp() * m:sample("z", dist.normal(0, 1))) end)
    end), { draws = 500 })
    assert.equal(0, q.divergences)
    local row = q:summary().v
    assert.is_true(math.abs(row.mean) < 6 * row.mcse and math.abs(row.sd - 3) < 0.3)
  end)
end)
