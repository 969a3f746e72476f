--- pn.nuts and posteriors: conjugate models within Monte Carlo error, what is asked of draws, and files.
local pn = require "penumbra"
local helper = require "spec.helper"
local message_of, near = helper.message_of, helper.near
local dist = pn.dist
local where_mpi_is = pcall(require, "penumbra.mpi_core") and it or pending
local golden = dofile "spec/golden/infer/loo.lua"

local coin = pn.model(function(m, heads, n)
  local p = m:sample("p", dist.beta(2, 3))
  m:deterministic("odds", p / (1 - p))
  m:observe("heads", dist.binomial(n, p), heads)
end)

local line = pn.model(function(m, x, y)
  local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
  m:plate("rows", x:size(1), { batch_size = 4 }, function(i)
    m:observe("y", dist.normal(x:take(1, i):matmul(w), 0.5), y and y:take(1, i))
  end)
end)

local function line_data()
  pn.seed(11)
  local x = pn.randn { 20, 2 }
  return x, x:matmul(pn.tensor { 1, -2 }) + pn.randn { 20 } * 0.5
end

describe("nuts", function()
  it("has the moments of a beta posterior within 6 standard errors", function()
    pn.seed(1)
    local p = pn.nuts(coin, { data = { 6, 10 }, chains = 4, warmup = 300, draws = 500 })
    local row, a, b = p:summary().p, 8, 7
    assert.is_true(row.mcse < 0.01)
    assert.is_true(math.abs(row.mean - a / (a + b)) < 6 * row.mcse)
    near(row.sd, math.sqrt(a * b / ((a + b) ^ 2 * (a + b + 1))), 0.1)
    near(row.q05, dist.beta(a, b):icdf(0.05):item(), 0.03)
    near(row.q95, dist.beta(a, b):icdf(0.95):item(), 0.03)
    assert.is_true(row.r_hat < 1.02 and row.ess_bulk > 400)
    near(p.draws.odds[2][7]:item(), p.draws.p[2][7]:item() / (1 - p.draws.p[2][7]:item()))
    assert.matches("mean +sd +q05 +median +q95 +r_hat +ess_bulk +ess_tail +mcse\np +0%.5", tostring(p))
    assert.matches("2000 draws of 4 chains", tostring(p))
    assert.is_nil(tostring(p):find("odds", 1, true))
    assert.matches("odds", tostring(p:summary()))
  end)

  it("takes all rows of a plate, whatever its batch", function()
    local x, y = line_data()
    local covariance = (x:t():matmul(x) / 0.25 + pn.eye(2)):cholesky():cholesky_solve(pn.eye(2))
    local mean = covariance:matmul(x:t():matmul(y) / 0.25)
    local p = pn.nuts(line, { data = { x, y }, chains = 2, warmup = 300, draws = 500 })
    for k = 1, 2 do
      local row = p:summary()[("w[%d]"):format(k)]
      assert.is_true(math.abs(row.mean - mean[k]:item()) < 6 * row.mcse and row.mcse < 0.02)
      near(row.sd, math.sqrt(covariance[k][k]:item()), 0.12)
    end
    local ll = p:log_likelihood().y
    assert.same({ 2, 500, 20 }, ll:shape())
    local want = dist.normal(x:matmul(p.draws.w[2][9]), 0.5):log_prob(y):totable()
    for i, v in ipairs(ll[2][9]:totable()) do near(v, want[i]) end
    assert.same({ 1000, 20 }, p:predict().y:shape())
    local at = p:predict { data = { pn.tensor { { 10, 0 }, { 0, 10 }, { 1, 1 }, { 0, 0 } } }, draws = 600 }
    assert.same({ 600, 4 }, at.y:shape())
    assert.same({ 1000, 2 }, p:predict { data = { pn.eye(2) } }.y:shape()) -- fewer rows than a batch
    near(at.y:mean(1)[1]:item(), 10 * mean[1]:item(), 0.05)
  end)

  where_mpi_is("gives the same draws where they are shared out to a single rank", function()
    local x, y = line_data()
    local function draws(o)
      pn.seed(5)
      local fit = { data = { x, y }, chains = 3, warmup = 50, draws = 20, distributed = o }
      return pn.nuts(line, fit).draws.w:totable()
    end
    assert.same(draws(), draws(true))
  end)

  it("gives the same draws with any number of threads, and hmc the same posterior", function()
    local x, y = line_data()
    local before, draws = pn.threads(), {}
    for k = 1, 2 do
      pn.threads(k)
      pn.seed(5)
      draws[k] = pn.nuts(line, { data = { x, y }, chains = 3, warmup = 50, draws = 20 }).draws.w:totable()
    end
    pn.threads(before)
    assert.same(draws[1], draws[2])
    -- a quarter of a turn; the exact mean is (X^T X / 0.25 + I)^-1 X^T y / 0.25
    local p = pn.hmc(line, { data = { x, y }, chains = 2, warmup = 300, draws = 500, steps = 2 })
    local exact = (x:t():matmul(x) * 4 + pn.eye(2)):solve(x:t():matmul(y) * 4):totable()
    for k = 1, 2 do
      local row = p:summary()[("w[%d]"):format(k)]
      assert.is_true(row.mcse < 0.03)
      assert.is_true(math.abs(row.mean - exact[k]) < 6 * row.mcse, ("%g, not %g"):format(row.mean, exact[k]))
    end
  end)

  it("keeps variables in their sets and starts where it is told", function()
    pn.seed(2)
    local m = pn.model(function(m)
      m:sample("s", dist.dirichlet(pn.tensor { 2, 3, 4 }))
      m:flat("o", "ordered_vector", { 2 })
      m:factor("f", -m.sites.o.value:square():sum() * 0.5)
    end)
    local p = pn.nuts(m, { chains = 2, warmup = 200, draws = 200, init = { s = { 0.2, 0.3, 0.5 }, o = { -1, 1 } } })
    near(p.draws.s:sum(3):min():item(), 1, 1e-9)
    assert.is_true((p.draws.o:select(3, 2) - p.draws.o:select(3, 1)):min():item() > 0)
    for k, a in ipairs { 2, 3, 4 } do near(p:summary()[("s[%d]"):format(k)].mean, a / 9, 0.05) end
  end)

  it("starts what it is not told where nothing is told, in each chain elsewhere", function()
    local m = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:sample("b", dist.normal(a, 1))
      m:factor("f", pn.where(m.sites.b.value:gt(-1.5), pn.tensor(0), pn.tensor(-math.huge)))
    end)
    local p = pn.nuts(m, { warmup = 20, draws = 4, init = { a = 3 }, generator = pn.generator(3) })
    assert.is_true(p.draws.b:min():item() > -1.5)
    local t, seen = p.target, {}
    for k = 1, 40 do
      local z = t:start_at({ a = 9 }, function(at) return (t:evaluate(at)) end, 2, pn.generator(k))
      assert.equal(9, z[1]:item())
      seen[k] = z[2]:item()
    end
    local b = pn.tensor(seen) -- uniform on (-1.5, 2): others have density 0
    assert.is_true(b:min():item() > -1.5 and b:min():item() < -1 and b:max():item() > 1.5 and b:max():item() < 2)
    assert.same({ 9, 8 }, t:start_at({ a = 9, b = 8 }, error, 2):totable())
    local fit = pn.svi(m, pn.infer.guide("mean_field", { init = { a = 9 } }), { steps = 0 })
    near(fit:sample(400).a:mean():item(), 9, 0.3)
    assert.matches("init: the model has no latent variable 'c'; it has a, b", message_of(pn.svi, m,
      pn.infer.guide("mean_field", { init = { c = 9 } }), { steps = 0 }))
    local walk = pn.model(function(n)
      n:sample("a", dist.normal(0, 1))
      n:scan("t", 3, 0, function(h) return n:sample("h", dist.normal(h, 1)) end)
    end):target()
    local z = walk:start_at({ h = pn.tensor { 4, 5, 6 } }, function() return pn.tensor(0) end)
    assert.same({ 4, 5, 6 }, z:slice(1, 2, 4):totable())
    assert.same({ 2, 4, 5, 6 }, walk:start_at({ a = 2, h = pn.tensor { 4, 5, 6 } }, error):totable())
    local most = 0
    for _ = 1, 100 do most = math.max(most, walk:start():abs():max():item()) end
    assert.is_true(most > 1.9 and most < 2)
    local function missing() return walk:start_at({ ["h[4]"] = 1 }, error) end
    assert.matches("no latent variable 'h%[4%]'.*; it has a, h%[1%], h%[2%], h%[3%]$", message_of(missing))
  end)

  it("joins the steps of a scan, time first", function()
    pn.seed(3)
    local m = pn.model(function(m, y)
      m:scan("t", 3, pn.tensor(0), function(x, t)
        x = m:sample("x", dist.normal(x, 1))
        m:observe("y", dist.normal(x, 1), y[t])
        return x
      end)
    end)
    local p = pn.nuts(m, { data = { pn.tensor { 1, 2, 3 } }, chains = 2, warmup = 300, draws = 500 })
    assert.same({ 2, 500, 3 }, p.draws.x:shape())
    -- the posterior mean solves (K + I) a = y, K_st = min(s, t)
    local k = pn.tensor { { 1, 1, 1 }, { 1, 2, 2 }, { 1, 2, 3 } }
    local want = k:matmul((k + pn.eye(3)):cholesky():cholesky_solve(pn.tensor { 1, 2, 3 }:unsqueeze(2))):squeeze(2)
    for t = 1, 3 do
      local row = p:summary()[("x[%d]"):format(t)]
      assert.is_true(math.abs(row.mean - want[t]:item()) < 6 * row.mcse and row.mcse < 0.06)
    end
  end)

  it("refuses what it cannot sample", function()
    local here = debug.getinfo(1, "S").short_src:gsub("%p", "%%%0")
    local function refused(pattern, f, ...)
      local args, at = table.pack(...), debug.getinfo(1, "l").currentline + 1
      local message = message_of(function() return f(table.unpack(args, 1, args.n)) end)
      assert.matches(("^%s:%d: "):format(here, at), message)
      assert.matches(pattern, message)
    end
    refused("nuts: needs a model %(pn.model%), got table", pn.nuts, {})
    refused("nuts: unknown option 'chain', did you mean 'chains'", pn.nuts, coin, { chain = 2 })
    refused("nuts: draws must be a whole number from 4 on, got 2", pn.nuts, coin, { draws = 2 })
    refused("hmc: option 'steps' is required", pn.hmc, coin, {})
    refused("the model has no continuous latent variable", pn.nuts, pn.model(function() end), {})
    assert.matches("sample: 'z' is discrete and has no gradient: enumerate it", message_of(pn.nuts,
      pn.model(function(m) m:sample("z", dist.poisson(3)) end)))
    assert.matches("init: the model has no latent variable 'q'; it has p$", message_of(pn.nuts, coin,
      { data = { 6, 10 }, init = { q = 1 } }))
  end)
end)

-- The posterior of golden.y whose draws are the formula of loo.py.
local function formula_posterior()
  local m = pn.model(function(m, y)
    local mu = m:flat "mu"
    m:plate("rows", 6, function() m:observe("y", dist.normal(mu, 1), y) end)
  end)
  local y = pn.tensor(golden.y)
  local mu = ((pn.arange(400):to "float64" + 1) * 12.9898):sin() * 0.4 + 0.3
  local args = { y, n = 1 }
  return require("penumbra.infer.posterior").new { model = m, args = args, seconds = 0,
    target = require("penumbra.infer.target").new(m, args, pn.generator(1), true), unconstrained = mu:reshape { 4,
      100, 1 },
    statistics = pn.zeros { 4, 100, 7 } }
end

describe("leave-one-out", function()
  it("has the values of ArviZ", function()
    local loo = formula_posterior():loo()
    near(loo.elpd, golden.elpd, 1e-8)
    near(loo.se, golden.se, 1e-8)
    near(loo.p, golden.p, 1e-6)
    for i, v in ipairs(loo.pointwise:totable()) do near(v, golden.pointwise[i], 1e-8) end
    for i, v in ipairs(loo.k:totable()) do near(v, golden.k[i], 1e-6) end
    assert.is_nil(loo.warning)
    assert.matches("6 observations, 400 draws\nelpd_loo +%-22.80, standard error 10.90", tostring(loo))
    assert.matches("loo: the model observes no 'x'; it observes y", message_of(function()
      formula_posterior():loo "x"
    end))
  end)
end)

describe("a posterior", function()
  it("comes back from its file", function()
    pn.seed(4)
    local path = os.tmpname()
    local p = pn.nuts(coin, { data = { 6, 10 }, chains = 2, warmup = 100, draws = 50 })
    assert(p:save(path))
    local q = assert(pn.restore(path, { model = coin, data = { 6, 10 } }))
    assert.equal(tostring(p), tostring(q))
    assert.same(p.draws.odds:totable(), q.draws.odds:totable())
    assert.same(p.statistics.energy:totable(), q.statistics.energy:totable())
    assert.same(p.warnings, q.warnings)
    local nothing, message, code = pn.restore(path, { model = line, data = { line_data() } })
    assert.is_nil(nothing)
    assert.matches("the file is of another model: it has 1 numbers a draw, the model has 2", message)
    assert.equal("shape", code)
    local other = pn.model(function(m)
      local x = m:sample("p", dist.normal(0, 1))
      m:deterministic("odds", x)
    end)
    assert.matches("the model gives other values of 'o?d?d?s?p?' than the file has",
      select(2, pn.restore(path, { model = other })))
    assert(pn.save(path, { x = pn.ones { 2 } }))
    assert.matches("no posterior that p:save has written", select(2, pn.restore(path, { model = coin })))
    os.remove(path)
    assert.equal("io", select(3, pn.restore(path, { model = coin })))
  end)

  it("says that variables of rows are those of their data", function()
    local m = pn.model(function(m, y)
      m:plate("rows", y:size(1), function()
        m:observe("y", dist.normal(m:sample("z", dist.normal(0, 1)), 1), y)
      end)
    end)
    local p = pn.nuts(m, { data = { pn.ones { 3 } }, chains = 1, warmup = 20, draws = 20 })
    assert.matches("sample: 'z' has 2 rows in plate 'rows' here and 3 in the draws",
      message_of(p.predict, p, { data = { pn.ones { 2 } } }))
  end)
end)
