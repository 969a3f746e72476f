-- Gaussian factors by natural parameters, products of experts, and divergences of Gaussians and by Monte Carlo.
local pn = require "penumbra"
local golden = require "spec.golden.dist.natural"

local dist, N = pn.dist, pn.dist.natural

local function near(got, want, rel, what)
  got = type(got) == "number" and got or got:item()
  assert(got == want or math.abs(got - want) <= rel * math.max(1e-3, math.abs(want)),
    ("%s: %.12g, expected %.12g"):format(what or "value", got, want))
end

local function refuses(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert(message:find(pattern, 1, true), ("message %q lacks %q"):format(message, pattern))
end

describe("a Gaussian factor", function()
  it("has the integral and expectations of quadrature", function()
    local s = golden.scalar
    local a = N.scalar(s.eta, s.lam)
    near(a:log_normaliser(), s.log_normaliser, 1e-8)
    near(a:expected_log(dist.normal(s.loc, s.scale)), s.expected_log, 1e-8)
    local f = golden.full
    local b = N.full(f.eta, f.lam)
    near(b:log_normaliser(), f.log_normaliser, 1e-8)
    near(b:expected_log(dist.multivariate_normal { loc = f.loc, covariance_matrix = f.covariance }), f.expected_log,
      1e-8)
    local d = N.diagonal(f.eta, { 1.5, 0.8 })
    near(d:log_normaliser(), N.scalar(f.eta[1], 1.5):log_normaliser():item() +
      N.scalar(f.eta[2], 0.8):log_normaliser():item(), 1e-12)
    local q = dist.normal(f.loc, { 0.5, 2 }):independent(1)
    near(N.full(f.eta, { { 1.5, 0 }, { 0, 0.8 } }):expected_log(q), d:expected_log(q):item(), 1e-12)
  end)

  it("comes from a normal and goes back", function()
    local scalar = dist.normal(pn.tensor { 1, -2 }, pn.tensor { 0.5, 3 })
    local diagonal = scalar:independent(1)
    local full = dist.multivariate_normal { loc = golden.full.loc, covariance_matrix = golden.full.covariance }
    for _, d in ipairs { scalar, diagonal, full, full:expand { 3 } } do
      local s = N.of(d)
      local again = s:to_distribution()
      assert.same(d.batch_shape, again.batch_shape)
      assert.same(d.event_shape, again.event_shape)
      local x = d:sample { 4 }
      assert((d:log_prob(x) - again:log_prob(x)):abs():max():item() < 1e-9)
      -- a density is its factor over the integral
      assert((s:log_factor(x) - s:log_normaliser() - d:log_prob(x)):abs():max():item() < 1e-9)
    end
    assert.equal("scalar", N.of(scalar).form)
    assert.equal("diagonal", N.of(diagonal).form)
    assert.equal("full", N.of(full).form)
    refuses("natural: there are no natural parameters of gamma", N.of, dist.gamma(1, 1))
  end)

  it("multiplies, divides and takes powers as densities do", function()
    local x = pn.randn({ 6, 2 }, { generator = pn.generator(1) })
    local a, b = N.full(golden.full.eta, golden.full.lam), N.diagonal({ 0.4, -1 }, { 0.5, -2 })
    local function same(s, want)
      assert((s:log_factor(x) - want):abs():max():item() < 1e-12)
    end
    same(a * b, a:log_factor(x) + b:log_factor(x))
    same(b * a, a:log_factor(x) + b:log_factor(x))
    same(a / b, a:log_factor(x) - b:log_factor(x))
    same(b ^ 0.3, b:log_factor(x) * 0.3)
    same(b ^ pn.tensor { 0.3 }, b:log_factor(x) * 0.3)
    same(N.tempered(a, b, 0.25), a:log_factor(x) * 0.75 + b:log_factor(x) * 0.25)
    same(N.product { a, b, b }, a:log_factor(x) + 2 * b:log_factor(x))
    assert.equal("full", (b * a).form)
    assert.equal("diagonal", (b * b).form)
    refuses("factors must be of numbers or of vectors alike", function() return a * N.scalar(1, 1) end)
  end)

  it("may have negative precision, which only a distribution refuses", function()
    local site = N.scalar(0.3, -0.5)
    near(site:log_factor(2), 0.6 + 0.25 * 4, 1e-12)
    near(site:expected_log(dist.normal(1, 2)), 0.3 + 0.25 * (1 + 4), 1e-12)
    near((site * N.of(dist.normal(0, 1))).precision, 0.5, 1e-12)
    refuses("to_distribution: precision must be positive, got -0.5", site.to_distribution, site)
    refuses("log_normaliser: precision must be positive", site.log_normaliser, site)
    local full = N.full({ 0, 0 }, { { 1, 2 }, { 2, 1 } })
    refuses("precision must be a symmetric positive definite matrix", full.to_distribution, full)
  end)

  it("finds its sites where expectations have slopes, and the bound they give is exact", function()
    -- a Gaussian likelihood's sites are the likelihood itself: the bound is the evidence
    local prior, data, noise = dist.normal(0.5, 2), { 0.3, 1.1, -0.4 }, 0.7
    local sites = {}
    for i, y in ipairs(data) do
      sites[i] = N.scalar(y / noise ^ 2, 1 / noise ^ 2)
    end
    local p0 = N.of(prior)
    local joint = N.product { p0, table.unpack(sites) }
    local q = joint:to_distribution()
    local bound = joint:log_normaliser() - p0:log_normaliser()
    for i, y in ipairs(data) do
      local expected = dist.normal(q.loc, noise):log_prob(pn.tensor(y)) - q:variance() / (2 * noise ^ 2)
      bound = bound + expected - sites[i]:expected_log(q)
    end
    local evidence = dist.multivariate_normal {
      loc = pn.full({ 3 }, 0.5), covariance_matrix = pn.eye(3) * noise ^ 2 + 4 }
    near(bound, evidence:log_prob(pn.tensor(data)):item(), 1e-10)
    -- divided out again, the others remain
    local without = (joint / sites[2]):to_distribution()
    near(without.loc, N.product({ p0, sites[1], sites[3] }):to_distribution().loc:item(), 1e-12)
  end)

  it("carries gradients and float32", function()
    local eta, lam = pn.param(pn.tensor(golden.full.eta)), pn.param(pn.tensor { { 1.5, 0.3 }, { 0.3, 0.8 } })
    local shift = pn.param(pn.tensor { 0.4, 0.2 })
    assert(pn.check_gradients(function()
      local symmetric = (lam + lam:t()) / 2
      local s = N.full(eta, symmetric) * N.diagonal(shift, shift ^ 2)
      return s:log_normaliser() + s:log_factor(pn.tensor { 1, 2 }) +
        s:expected_log(dist.normal(shift, 2):independent(1)) + s:to_distribution():log_prob(pn.tensor { 1, 2 })
    end, { eta, lam, shift }, { order = 2 }))
    local s = N.scalar(pn.tensor({ 1, 2 }, { dtype = "float32" }), 3)
    assert.equal("float32", s:log_normaliser():dtype())
    assert.equal("float32", (s * s):to_distribution():sample():dtype())
  end)

  it("refuses what does not fit", function()
    refuses("form must be scalar, diagonal or full", pn.dist.natural.scalar and require("penumbra.core").new_natural,
      "round", 1, 1)
    refuses("precision must fit a full precision_mean", N.full, { 1, 2 }, { 1, 2 })
    refuses("precision must be a tensor or a number", N.scalar, 1, "x")
    refuses("factor 1 must be a Gaussian factor", N.product, { 3 })
    refuses("must have 0 event axes for a scalar factor", function()
      return N.scalar(1, 1):expected_log(dist.normal({ 1, 2 }, 1):independent(1))
    end)
    assert(tostring(N.scalar(1, 1)):find("scalar Gaussian factor", 1, true))
  end)
end)

describe("a product of experts", function()
  it("divides the prior out as often as it is counted too much", function()
    local e = {}
    for i, v in ipairs(golden.experts.list) do
      e[i] = dist.normal(v[1], v[2])
    end
    local p = dist.product_of_experts(e, dist.normal(0, 1))
    near(p:mean(), golden.experts.mean, 1e-8)
    near(p:variance(), golden.experts.variance, 1e-8)
    -- an expert that says what the prior says adds nothing; without a prior it counts
    e[4] = dist.normal(0, 1)
    near(dist.product_of_experts(e, dist.normal(0, 1)):mean(), golden.experts.mean, 1e-8)
    assert(dist.product_of_experts(e):variance():item() < golden.experts.variance - 1e-3)
    near(dist.product_of_experts({ e[1] }, e[4]).scale, 0.5, 1e-12)
  end)

  it("takes batches of vectors and refuses beliefs wider than the prior", function()
    local a = dist.normal(pn.zeros { 5, 3 }, 0.5):independent(1)
    local p = dist.product_of_experts({ a, a }, dist.normal(pn.zeros { 3 }, 1):independent(1))
    assert.same({ 5 }, p.batch_shape)
    assert.same({ 3 }, p.event_shape)
    near(p.scale:slice(1, 1, 1):slice(2, 1, 1):reshape {}, (4 + 4 - 1) ^ -0.5, 1e-12)
    local wide = dist.normal(0, 2)
    refuses("to_distribution: precision must be positive, got -0.5", dist.product_of_experts, { wide, wide },
      dist.normal(0, 1))
  end)
end)

describe("Renyi divergence", function()
  local p1, q1 = dist.normal(0.3, 0.8), dist.normal(-0.4, 1.3)
  local p2 = dist.multivariate_normal { loc = { 0.2, -0.5 }, covariance_matrix = { { 1.0, 0.4 }, { 0.4, 2.0 } } }
  local q2 = dist.multivariate_normal { loc = { 1.0, 0.3 }, covariance_matrix = { { 1.5, -0.2 }, { -0.2, 1.2 } } }

  it("has the values of quadrature", function()
    for _, case in ipairs(golden.renyi_numbers) do
      near(dist.renyi(p1, q1, case.order), case.value, 1e-8, "order " .. case.order)
    end
    for _, case in ipairs(golden.renyi_vectors) do
      near(dist.renyi(p2, q2, case.order), case.value, 1e-8, "order " .. case.order)
    end
    near(dist.renyi(p1, q1, 1), golden.kl, 1e-8)
    near(dist.renyi(p1, q1, 1 + 1e-6), golden.kl, 1e-5)
    near(dist.renyi(p2, p2, 0.5), 0, 1e-9)
  end)

  it("is infinite where it does not exist, without a NaN in the gradient", function()
    local s = pn.param(pn.tensor { 1, 3 })
    local d = dist.renyi(dist.normal(0, s), dist.normal(0, 1), 2)
    assert.equal(math.huge, d:totable()[2])
    assert(pn.grad(d:slice(1, 1, 1):sum(), { s })[1]:isfinite():all():item())
    local wide = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = { { 9, 0 }, { 0, 1 } } }
    assert.equal(math.huge, dist.renyi(wide, q2, 2):item())
  end)

  it("sums over independent axes and has gradients", function()
    local a, b = dist.normal({ 0.3, 1 }, 0.8), dist.normal({ 0, 0 }, 1.3)
    near(dist.renyi(a:independent(1), b:independent(1), 0.7), dist.renyi(a, b, 0.7):sum():item(), 1e-12)
    local m, l = pn.param(pn.tensor { 0.2, 0.1 }), pn.param(pn.tensor { { 1, 0 }, { 0.3, 0.7 } })
    assert(pn.check_gradients(function()
      return dist.renyi(dist.multivariate_normal { loc = m, scale_tril = l:tril() }, q2, 0.6)
    end, { m, l }, { order = 2 }))
    refuses("renyi: there is no closed form for normal and gamma", dist.renyi, p1, dist.gamma(1, 1), 0.5)
    refuses("renyi: order must be positive and finite, got -1", dist.renyi, p1, q1, -1)
    refuses("renyi: order must be a number", dist.renyi, p1, q1)
  end)
end)

describe("Monte Carlo divergences", function()
  local p, q = dist.normal(0.3, 0.8), dist.normal(-0.4, 1.3)
  it("agree with quadrature within their standard error", function()
    for name, want in pairs { kl_monte_carlo = golden.kl, jensen_shannon_monte_carlo = golden.jensen_shannon } do
      local m, se = dist[name](p, q, { num_samples = 100000, generator = pn.generator(4) })
      assert(se:item() < 0.01, name .. " is too wide")
      assert(math.abs(m:item() - want) <= 6 * se:item(), name)
    end
    local m, se = dist.kl_monte_carlo(p, p)
    assert.equal(0, m:item())
    assert.equal(0, se:item())
    near((dist.jensen_shannon_monte_carlo(dist.normal(0, 1), dist.normal(1e3, 1))), math.log(2), 1e-9)
  end)

  it("stand in where a pair has no closed form, which names them", function()
    refuses("kl: there is no closed form for normal and student_t (kl_monte_carlo estimates it)", dist.kl, p,
      dist.student_t(2, 1))
    local m, se = dist.kl_monte_carlo(dist.gamma({ 2, 3 }, 1), p, { num_samples = 1000 })
    assert.same({ 2 }, m:shape())
    assert.same({ 2 }, se:shape())
    assert.equal(math.huge, dist.kl_monte_carlo(p, dist.gamma(2, 1)):item())
    refuses("unknown option", dist.kl_monte_carlo, p, q, { samples = 3 })
    refuses("argument 2 must be a distribution", dist.kl_monte_carlo, p, 3)
    refuses("num_samples must be at least 2", dist.kl_monte_carlo, p, q, { num_samples = 1 })
  end)

  it("have a gradient along draws", function()
    local loc = pn.param(pn.tensor(0.3))
    local m = dist.kl_monte_carlo(dist.normal(loc, 0.8), q, { num_samples = 50000, pathwise = true,
      generator = pn.generator(9) })
    near(pn.grad(m, { loc })[1], 0.7 / 1.69, 0.03)
  end)
end)
