--- Automatic guides against posteriors with a closed form.
local pn = require "penumbra"
local guide = require "penumbra.infer.guide"
local near = require("spec.helper").near
local dist = pn.dist

-- z ~ N(0, [[1, r], [r, 1]]) seen as y = z + noise: a correlated normal posterior.
local function correlated()
  local prior = pn.tensor { { 1, 0.8 }, { 0.8, 1 } }
  local y = pn.tensor { 1, -0.5 }
  local precision = prior:cholesky():cholesky_solve(pn.eye(2)) + pn.eye(2) / 0.25
  local covariance = precision:cholesky():cholesky_solve(pn.eye(2))
  return { precision = precision, covariance = covariance, mean = covariance:matmul(y / 0.25), y = y,
    evidence = dist.multivariate_normal { loc = pn.zeros { 2 }, covariance_matrix = prior + pn.eye(2) * 0.25 }
      :log_prob(y):item(),
    model = pn.model(function(m, data)
      local z = m:sample("z", dist.multivariate_normal { loc = pn.zeros { 2 }, covariance_matrix = prior })
      m:observe("y", dist.normal(z, 0.5):independent(1), data)
      m:deterministic("sum", z:sum())
    end) }
end

local binomial = pn.model(function(m) m:observe("y", dist.binomial(10, m:sample("p", dist.beta(2, 3))), 6) end)

-- A mean seen by 20 rows, each with its noise, of which a plate takes 4 at a time.
local function rows_of_unequal_noise()
  local g = pn.generator(3)
  local y, scale = pn.randn({ 20 }, { generator = g }) + 1, pn.arange(1, 21) / 10
  local weight = scale:square():reciprocal()
  local precision = 1 / 4 + weight:sum():item()
  return { mean = (y * weight):sum():item() / precision, variance = 1 / precision,
    model = pn.model(function(m)
      local z = m:sample("z", dist.normal(0, 2))
      m:plate("rows", 20, { batch_size = 4 }, function(i)
        m:observe("y", dist.normal(z, scale:take(1, i)), y:take(1, i))
      end)
    end) }
end

describe("an automatic guide", function()
  local c, unequal = correlated(), rows_of_unequal_noise()

  it("fits a correlated normal as well as it can", function()
    for name, can in pairs { full_rank = true, low_rank = true, flow = true, laplace = true, mean_field = false } do
      pn.seed(1)
      local fit = pn.svi(c.model, name, { data = { c.y }, steps = 1500, lr = 0.03, draws = 4 })
      local bound = fit:bound { draws = 4000 }
      near(bound.value, c.evidence, 0.02)
      local draws = fit:sample(20000)
      for k = 1, 2 do near(draws.z:mean(1)[k]:item(), c.mean[k]:item(), 0.04) end
      if can then
        near(bound.elbo, c.evidence, name == "low_rank" and 0.1 or 0.03)
        near(draws.sum:var():item(), c.covariance:sum():item(), 0.1)
        assert.is_true(fit:k_hat() < 0.7, name)
      else -- variances 1 / precision: known to be too small
        for k = 1, 2 do
          near(draws.z:select(2, k):var():item(), 1 / c.precision[k][k]:item(), 0.05)
        end
        assert.is_true(draws.sum:var():item() < 0.8 * c.covariance:sum():item())
        assert.is_true(bound.elbo < c.evidence - 0.02)
      end
    end
  end)

  it("at the mode has the Hessian there", function()
    local fit = pn.svi(c.model, "laplace", { data = { c.y }, steps = 200 })
    local q = fit.guide:law()
    assert.is_false(q:mean():requires_grad()) -- what is found stays, whatever becomes of the parameter
    for k = 1, 2 do
      near(q:mean()[k]:item(), c.mean[k]:item(), 1e-8)
      near(q:variance()[k]:item(), c.covariance[k][k]:item(), 1e-8)
    end
    near(fit:bound { draws = 10 }.value, c.evidence, 1e-8)
  end)

  -- Beta posterior on the scale of logits: the Jacobian moves mode and curvature. A plate of which 4 of 20 rows are
  -- taken at a time, each with its noise: mode and Hessian count all.
  it("at the mode has the Jacobian's part of the Hessian, and all rows of a plate", function()
    local a, b = 2 + 6, 3 + 4
    local q = pn.svi(binomial, "laplace", { steps = 100 }).guide:law()
    near(q:mean()[1]:item(), math.log(a / b), 1e-9)
    near(q:variance()[1]:item(), (a + b) / (a * b), 1e-9)
    q = pn.svi(unequal.model, "laplace", { steps = 100 }).guide:law()
    near(q:mean()[1]:item(), unequal.mean, 1e-9)
    near(q:variance()[1]:item(), unequal.variance, 1e-9)
  end)

  -- Newton's steps alone, from afar: one for a normal posterior.
  it("is led to the mode by Newton's steps on the whole density", function()
    local function reached(m, from)
      local w = pn.param(pn.tensor { from })
      guide.newton { params = { { "z", w } }, target = m:target() }
      return w:item()
    end
    near(reached(binomial, 0.5), math.log(8 / 7), 1e-10)
    near(reached(unequal.model, 5), unequal.mean, 1e-12)
    -- of -sqrt(1 + d^2) a whole step leads from d to -d^3, which is lower from 1 on: a quarter of it is taken first
    local bowl = pn.model(function(m)
      m:factor("f", -((m:flat("z", "real") - 3):square() + 1):sqrt())
    end)
    near(reached(bowl, 5), 3, 1e-9)
  end)

  it("has the gradient of its bound in all that it learns, the draws held", function()
    local pair = pn.model(function(m)
      local p = m:sample("p", dist.beta(2, 3))
      local z = m:sample("z", dist.normal(p, 1):expand { 2 }:independent(1))
      m:observe("y", dist.binomial(10, p), 6)
      m:observe("x", dist.normal(z, 0.5):independent(1), c.y)
    end)
    for name, given in pairs { mean_field = {}, full_rank = {}, low_rank = { rank = 2 }, flow = { hidden = { 3 } },
      delta = {}, laplace = {} } do
      pn.seed(3)
      local g, list = guide.make(guide.new(name, given), pair:target()), {}
      for k, entry in ipairs(g:named_parameters()) do list[k] = entry[2] end
      pn.check_gradients(function()
        pn.seed(4)
        return g:bound(2)
      end, list, { tolerance = 1e-6 })
    end
  end)

  it("of a point is the mode of the constrained density", function()
    local m = pn.model(function(m) m:observe("y", dist.binomial(10, m:sample("p", dist.beta(2, 3))), 6) end)
    local fit = pn.svi(m, "delta", { steps = 800, lr = 0.05 })
    near(fit:sample(1).p:item(), (2 + 6 - 1) / (2 + 3 + 10 - 2), 1e-3)
    local ok, message = pcall(fit.log_weights, fit)
    assert.is_false(ok)
    assert.matches("log_weights: a guide 'delta' has no density", message)
  end)

  it("finds the evidence by every estimator of draws with a path", function()
    -- those whose gradient has no variance at the posterior end there; iwae's drowns in its noise (Rainforth et al.
    -- 2018)
    for estimator, limit in pairs { elbo = 0.06, sticking_the_landing = 1e-3, iwae = 0.2, dreg = 1e-3, renyi = 0.1 } do
      pn.seed(2)
      local fit = pn.svi(c.model, "full_rank", { data = { c.y }, steps = 1200, lr = 0.03, draws = 4,
        estimator = estimator })
      near(fit:bound { draws = 2000 }.value, c.evidence, 0.02)
      local mean = fit.guide:law():mean()
      for k = 1, 2 do near(mean[k]:item(), c.mean[k]:item(), limit) end
    end
  end)

  it("knows beta-binomial and gamma-Poisson evidence", function()
    local function beta(a, b) return math.exp(pn.tensor(a):lgamma():item() + pn.tensor(b):lgamma():item()
      - pn.tensor(a + b):lgamma():item()) end
    pn.seed(3)
    local coin = pn.model(function(m) m:observe("y", dist.binomial(10, m:sample("p", dist.beta(2, 3))), 6) end)
    local fit = pn.svi(coin, "mean_field", { steps = 800, lr = 0.03 })
    near(fit:bound { draws = 4000 }.value, math.log(210 * beta(8, 7) / beta(2, 3)), 0.02)
    near(fit:summary(8000).p.mean, 8 / 15, 0.02)
    -- rate ~ Gamma(3, 2), y ~ Poisson(rate): y is negative binomial
    local count = pn.model(function(m) m:observe("y", dist.poisson(m:sample("r", dist.gamma(3, 2))), 4) end)
    fit = pn.svi(count, "flow", { steps = 800, lr = 0.02 })
    local want = math.log(15) + 3 * math.log(2 / 3) + 4 * math.log(1 / 3)
    near(fit:bound { draws = 4000 }.value, want, 0.02)
    near(fit:summary(8000).r.mean, 7 / 3, 0.03)
  end)

  it("trains variables of rows that are taken in parts", function()
    pn.seed(4)
    local y = pn.tensor { -2, -1, 0, 1, 2, 3 }
    local m = pn.model(function(m)
      m:plate("rows", 6, { batch_size = 2 }, function(i)
        local s = m:sample("s", dist.normal(0, 1))
        m:observe("y", dist.normal(s, 1), y:take(1, i))
      end)
    end)
    local fit = pn.svi(m, "mean_field", { steps = 6000, lr = 0.02 })
    local draws = fit:sample(8000).s
    assert.same({ 8000, 6 }, draws:shape())
    for k = 1, 6 do near(draws:mean(1)[k]:item(), y[k]:item() / 2, 0.1) end
    near(fit:bound { draws = 4000 }.value, dist.normal(0, math.sqrt(2)):log_prob(y):sum():item(), 0.05)
  end)

  it("starts where it is told and takes its options", function()
    local fit = pn.svi(c.model, pn.infer.guide("low_rank", { rank = 1, init = { z = { 0.25, -3 } }, scale = 1e-6 }),
      { data = { c.y }, steps = 0 })
    near(fit:sample(2).z[1][2]:item(), -3, 1e-4)
    assert.equal("guide low_rank of 2 numbers", tostring(fit.guide))
    local here = debug.getinfo(1, "S").short_src:gsub("%p", "%%%0")
    local function refused(pattern, ...)
      local args, line = table.pack(...), debug.getinfo(1, "l").currentline + 1
      local _, message = pcall(function() return pn.infer.guide(table.unpack(args, 1, args.n)) end)
      assert.matches(("^%s:%d: "):format(here, line), message)
      assert.matches(pattern, message)
    end
    refused("guide: there is no guide 'full', there are delta, .-, did you mean 'full_rank'%?", "full")
    refused("guide: unknown option 'rnk', did you mean 'rank'", "low_rank", { rnk = 2 })
    refused("guide: unknown option 'rank'", "full_rank", { rank = 2 })
    local ok, message = pcall(pn.svi, c.model, pn.infer.guide("low_rank", { rank = 3 }), { data = { c.y } })
    assert.is_false(ok)
    assert.matches("guide: rank must be a whole number from 1 to 2, got 3", message)
  end)
end)
