-- Gaussian factors by natural parameters, products of experts, and divergences of Gaussians and by Monte Carlo.
local pn = require "penumbra"
local golden = require "spec.golden.distribution.natural"
local refuses = require("spec.helper").refuses

local dist, N = pn.dist, pn.dist.natural

local function near(got, want, rel, what)
  got = type(got) == "number" and got or got:item()
  assert(got == want or math.abs(got - want) <= rel * math.max(1e-3, math.abs(want)),
    ("%s: %.12g, expected %.12g"):format(what or "value", got, want))
end

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

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

describe("a mixture of experts", function()
  it("has equal weights or given ones, of those that are there", function()
    local e = { dist.normal(0, 1), dist.normal({ 2, 3 }, 0.5), dist.laplace(-1, 1) }
    local x = pn.tensor { 0.3, 1 }
    local function by_hand(w)
      local total = 0
      for i = 1, 3 do
        total = total + (w[i] > 0 and e[i]:log_prob(x):exp() * w[i] or 0)
      end
      return total:log():totable()
    end
    local function same(got, want)
      for i, v in ipairs(want) do
        near(got:totable()[i], v, 1e-12)
      end
    end
    same(dist.mixture_of_experts(e):log_prob(x), by_hand { 1 / 3, 1 / 3, 1 / 3 })
    same(dist.mixture_of_experts(e, { 1, 2, 1 }):log_prob(x), by_hand { 0.25, 0.5, 0.25 })
    same(dist.mixture_of_experts(e, { 1, 2, 1 }, { true, false, true }):log_prob(x), by_hand { 0.5, 0, 0.5 })
    local mask = pn.tensor { { true, true, false }, { false, false, true } }
    local d = dist.mixture_of_experts(e, nil, mask)
    near(d:log_prob(x)[1], by_hand({ 0.5, 0.5, 0 })[1], 1e-12)
    near(d:log_prob(x)[2], by_hand({ 0, 0, 1 })[2], 1e-12)
    assert.same({ 2 }, d.batch_shape)
    -- draws pick one that is there
    local far = dist.mixture_of_experts(dist.normal({ -100, 100 }, 1), nil, pn.tensor { false, true })
    assert(far:sample({ 500 }):min():item() > 90)
    refuses("probs must be probabilities", dist.mixture_of_experts, e, nil, { false, false, false })
    refuses("experts must be a distribution or a list", dist.mixture_of_experts, 3)
    refuses("experts must be at least 1 distribution", dist.mixture_of_experts, {})
    assert.equal("float32", dist.mixture_of_experts(dist.normal(pn.zeros({ 2 }, { dtype = "float32" }), 1)).dtype)
  end)

  it("takes vectors from different families", function()
    local e = { dist.normal({ 0, 1 }, 1):independent(1),
      dist.multivariate_normal { loc = { 2, 2 }, covariance_matrix = { { 2, 1 }, { 1, 2 } } },
      dist.student_t(4, { -1, 0 }, 1):independent(1) }
    local d = dist.mixture_of_experts(e, { 0.2, 0.3, 0.5 })
    local x = pn.tensor { { 0.3, 1 }, { 4, -2 } }
    local want = (e[1]:log_prob(x):exp() * 0.2 + e[2]:log_prob(x):exp() * 0.3 + e[3]:log_prob(x):exp() * 0.5):log()
    assert((d:log_prob(x) - want):abs():max():item() < 1e-12)
    local mean = d:mean():totable()
    near(mean[1], 0.2 * 0 + 0.3 * 2 - 0.5, 1e-12)
    near(mean[2], 0.2 + 0.6, 1e-12)
    local draws = d:sample { 50000, generator = pn.generator(3) }
    local at, v = draws:mean(1):totable(), d:variance():totable()
    for i = 1, 2 do
      assert(math.abs(at[i] - mean[i]) < 6 * math.sqrt(v[i] / 50000))
    end
    -- far out the density is that of the heaviest tail, in logarithms
    near(d:log_prob(pn.tensor { 1e4, 0 }), e[3]:log_prob(pn.tensor { 1e4, 0 }):item() + math.log(0.5), 1e-9)
  end)
end)

describe("the numbers of continual learning with Gaussian factors", function()
  it("are those of tempering towards the prior", function()
    -- spec-001, 4.9: prior N(0, 1), start N(5, 0.1^2), p_0^(1 - c) q^c with c = 0.95^t
    local prior, start = dist.normal(0, 1), dist.normal(5, 0.1)
    for _, row in ipairs { { 0, 5, 0.1 }, { 1, 4.99737, 0.10257 }, { 10, 4.96671, 0.12880 },
      { 27.7258872, 4.84750, 0.20049 }, { 50, 4.46443, 0.34065 }, { 100, 1.86634, 0.79402 },
      { 250, 0.00135, 0.99987 } } do
      local d = N.tempered(prior, start, 0.95 ^ row[1]):to_distribution()
      assert(math.abs(d.loc:item() - row[2]) < 6e-6, row[1])
      assert(math.abs(d.scale:item() - row[3]) < 6e-6, row[1])
    end
    -- half a step twice is a step
    local half = N.tempered(prior, N.tempered(prior, start, 0.95 ^ 0.5), 0.95 ^ 0.5)
    near(half.precision, N.tempered(prior, start, 0.95).precision:item(), 1e-13)
  end)

  it("are those of sites at the optimum: identities, normaliser, residual bound, multiply and divide", function()
    -- one weight, logistic likelihoods: expectations by Gauss-Hermite quadrature would do; here a grid
    local xs, ys = { 0.5, -1.2, 2, 0.3, -0.7 }, { 1, 0, 1, 0, 1 }
    local grid = pn.linspace(-12, 12, 4001)
    local function expected(q, f)
      return (f(grid) * q:log_prob(grid):exp()):sum() * (24 / 4000)
    end
    local function likelihood(i)
      return function(w) return -pn.softplus(-(w * (xs[i] * (2 * ys[i] - 1)))) end
    end
    local prior, q = N.of(dist.normal(0, 1)), dist.normal(0, 1)
    local sites
    for _ = 1, 60 do -- the fixed point of the sites
      sites = {}
      for i = 1, 5 do
        local mean, variance = pn.param(q.loc:detach() + 0), pn.param(q:variance():detach() + 0)
        local e = expected(dist.normal(mean, variance:sqrt()), likelihood(i))
        local g = pn.grad(e, { mean, variance })
        local precision = g[2]:detach() * -2
        sites[i] = N.scalar(g[1]:detach() + precision * mean:detach(), precision)
      end
      q = N.product({ prior, table.unpack(sites) }):to_distribution()
    end
    local bound, residual = -dist.kl(q, dist.normal(0, 1)), 0
    for i = 1, 5 do
      local e = expected(q, likelihood(i))
      bound = bound + e
      residual = residual + e - sites[i]:expected_log(q)
    end
    -- log Z_q = sum of 1/2 log(L_0 / L*) + 1/2 eta*^2 / L* - 1/2 eta_0^2 / L_0
    local all = N.product { prior, table.unpack(sites) }
    local log_z = all:log_normaliser() - prior:log_normaliser()
    near(log_z, ((prior.precision / all.precision):log() + all.precision_mean ^ 2 / all.precision):item() / 2, 1e-12)
    near(log_z + residual, bound:item(), 1e-9, "residual form of the bound")
    -- 9a and 9b: sites 1 and 2 stay in memory
    local multiplied, divided = N.product { prior, sites[3], sites[4], sites[5] }, N.of(q) / sites[1] / sites[2]
    near(multiplied.precision, divided.precision:item(), 1e-9)
    near(multiplied.precision_mean, divided.precision_mean:item(), 1e-9)
  end)

  it("are those of the residual score of a Gaussian likelihood", function()
    -- spec-001, 6.2: the score is log p(y | w = 0) when the site is exact
    local x, y, s, q = 0.8, 1.3, 0.6, dist.normal(0.4, 0.9)
    local site = N.scalar(x * y / s ^ 2, x ^ 2 / s ^ 2)
    local m, v = q.loc * x, q:variance() * x ^ 2
    local expected = dist.normal(m, s):log_prob(pn.tensor(y)) - v / (2 * s ^ 2)
    near(expected - site:expected_log(q), dist.normal(0, s):log_prob(y):item(), 1e-12)
  end)
end)

describe("the numbers of the translation-invariant posterior", function()
  it("come from a factor of rank 1 and the divergences of dense and independent normals", function()
    -- spec-000, I-10 and section 12 (spec-003, S14-S16): prior N(0, K), noise 1 / (2 pi e), 10 targets 1, m = 1,
    -- lambda = K s_y^2 / N; q_0 multiplies a diagonal factor, q_mix its limit under translations, 1 1^T / (1^T lambda)
    for _, case in ipairs { { 2, 4.646317, 2.570257, 2.076060 }, { 10, 21.254801, 2.570257, 18.684544 } } do
      local k = case[1]
      local noise = 1 / (2 * math.pi * math.exp(1))
      local lambda, ones = k * noise / 10, pn.ones { k }
      local prior = dist.normal(pn.zeros { k }, math.sqrt(k)):independent(1)
      local q0 = (N.of(prior) * N.diagonal(ones / lambda, ones / lambda)):to_distribution()
      local site = N.full(ones / lambda, pn.ones { k, k } / (k * lambda))
      local mix = (N.of(prior) * site):to_distribution()
      assert.equal("multivariate_normal", mix.name)
      near(dist.kl(q0, prior), case[2], 3e-7, "KL[q_0 || p]")
      near(dist.kl(mix, prior), case[3], 3e-7, "KL[q_mix || p]")
      near(dist.kl(q0, mix), case[4], 3e-7, "gap")
      local phi = (k + lambda) / lambda
      near(dist.kl(q0, mix), (k - 1) / 2 * (math.log(phi) + 1 / phi - 1), 1e-9, "closed form of the gap")
      near(dist.kl(q0, prior) - dist.kl(mix, prior), dist.kl(q0, mix):item(), 1e-9, "lemma 2")
    end
  end)
end)

describe("the divergence from the log-uniform prior of dropout", function()
  it("is within 0.01 of the integral", function()
    -- log alpha, E_q[log q - log p] by quadrature (SciPy), 0 where alpha is infinite
    for _, row in ipairs { { -8, 4.635014 }, { -6, 3.633937 }, { -4, 2.625755 }, { -2, 1.544155 }, { 0, 0.426686 },
      { 2, 0.066168 }, { 4, 0.009130 }, { 8, 0.000168 } } do
      local q = dist.normal(pn.tensor { 2, -3 }, pn.tensor { 2, 3 } * math.exp(row[1] / 2))
      local kl = dist.kl_normal_log_uniform(q):totable()
      assert(math.abs(kl[1] - row[2]) < 0.01 and math.abs(kl[1] - kl[2]) < 1e-12, row[1])
      near(dist.kl_normal_log_uniform(q:independent(1)), kl[1] + kl[2], 1e-12)
    end
    local loc = pn.param(pn.tensor { 0.3, -2 })
    local function f() return dist.kl_normal_log_uniform(dist.normal(loc, 0.7)) end
    assert(pn.check_gradients(f, { loc }, { order = 2 }))
    refuses("q must be a normal distribution", dist.kl_normal_log_uniform, dist.gamma(1, 1))
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

  it("leaves out experts that are missing, by a mask", function()
    local prior = dist.normal(0, 1)
    local e = { dist.normal({ 0.8, 0.1 }, 0.5), dist.normal({ -0.3, 0.2 }, { 0.7, 0.9 }), dist.normal(1.5, 0.9) }
    local mask = pn.tensor { { true, false, true }, { false, false, false } }
    local p = dist.product_of_experts(e, prior, mask)
    near(p.loc[1], dist.product_of_experts({ e[1], e[3] }, prior).loc[1]:item(), 1e-12, "two of three")
    near(p.scale[1], dist.product_of_experts({ e[1], e[3] }, prior).scale[1]:item(), 1e-12, "two of three")
    near(p.loc[2], 0, 1e-12, "none: the prior")
    near(p.scale[2], 1, 1e-12, "none: the prior")
    local by_list = dist.product_of_experts(e, prior, { pn.tensor { true, false }, false, pn.tensor { true, false } })
    assert.same(p.loc:totable(), by_list.loc:totable())
    -- one distribution with the experts along its last batch axis, vectors with a precision for each number or a matrix
    local stacked = dist.normal(pn.randn({ 4, 3, 2 }, { generator = pn.generator(1) }), 0.6)
    local which = pn.rand({ 4, 3 }, { generator = pn.generator(2) }):gt(0.4)
    local wide = dist.normal(pn.zeros { 2 }, 1)
    local joint = dist.product_of_experts(stacked:independent(1), wide:independent(1), which)
    assert.same({ 4 }, joint.batch_shape)
    local dense = dist.multivariate_normal { loc = stacked.loc, covariance_matrix = pn.eye(2) * 0.36 }
    local round = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = pn.eye(2) }
    local full = dist.product_of_experts(dense, round, which)
    assert((full:mean() - joint:mean()):abs():max():item() < 1e-12)
    assert((full:variance() - joint:variance()):abs():max():item() < 1e-12)
    -- a missing expert has no slope
    local loc, scale = pn.param(pn.tensor { 0.8, 1e9 }), pn.param(pn.tensor { 0.5, 1e-9 })
    local q = dist.product_of_experts(dist.normal(loc, scale), prior, pn.tensor { true, false })
    near(q.loc, 0.8, 1e-12)
    local g = pn.grad(q.loc + q.scale, { loc, scale })
    assert.equal(0, g[1]:totable()[2])
    assert.equal(0, g[2]:totable()[2])
    refuses("mask must have 3 as last size", dist.product_of_experts, e, prior, pn.tensor { true })
    refuses("mask must be a bool tensor or a list of 3", dist.product_of_experts, e, prior, { true })
    refuses("must have the experts as last batch axis", dist.product_of_experts, dist.normal(0, 1), prior)
    refuses("to_distribution: precision must be positive", dist.product_of_experts,
      { dist.normal(0, 2), dist.normal(0, 2) }, prior) -- less precise than the prior, which is counted once too often
  end)

  it("along a batch axis is that of a list, whatever the experts share", function()
    local loc = pn.randn({ 4, 3, 2 }, { generator = pn.generator(1) })
    local tril = pn.randn({ 4, 3, 2, 2 }, { generator = pn.generator(2) }):tril(-1) * 0.4 + pn.eye(2) * 0.7
    local wide = dist.multivariate_normal { loc = { 0, 1 }, covariance_matrix = { { 2, 0.3 }, { 0.3, 3 } } }
    local function near_all(a, b) assert((a - b):abs():max():item() < 1e-12) end
    for _, triangle in ipairs { tril, tril[1], tril:slice(2, 1, 1), tril[{ 1, 1 }] } do
      local list = {}
      for k = 1, 3 do
        local own = triangle:ndim() == 2 and triangle or triangle:select(-3, triangle:size(-3) == 1 and 1 or k)
        list[k] = dist.multivariate_normal { loc = loc:select(2, k), scale_tril = own }
      end
      local got = dist.product_of_experts(dist.multivariate_normal { loc = loc, scale_tril = triangle }, wide)
      local want = dist.product_of_experts(list, wide)
      near_all(got:mean(), want:mean())
      near_all(got.covariance_matrix, want.covariance_matrix)
    end
    for _, scale in ipairs { pn.rand({ 4, 3 }) * 0.5 + 0.2, pn.tensor { 0.3, 0.5, 0.7 }, pn.tensor { { 0.3 }, { 0.4 },
      { 0.5 }, { 0.6 } }, pn.tensor { 0.4 } } do
      local list, numbers = {}, loc:select(3, 1)
      for k = 1, 3 do
        list[k] = dist.normal(numbers:select(2, k), scale:select(-1, scale:size(-1) == 1 and 1 or k))
      end
      local got, want = dist.product_of_experts(dist.normal(numbers, scale)), dist.product_of_experts(list)
      near_all(got.loc, want.loc)
      near_all(got.scale, want.scale)
    end
  end)

  it("is the posterior of independent observations, with their mutual information and conflict", function()
    -- z ~ N(0, 1), x_1 = z + N(0, 0.5), x_2 = z + N(0, 2) at (0.7, -1.1): spec-000, G5 (variances)
    local prior, x, noise = dist.normal(0, 1), { 0.7, -1.1 }, { 0.5, 2 }
    local single, log_px = {}, 0
    for i = 1, 2 do
      single[i] = (N.of(prior) * N.scalar(x[i] / noise[i], 1 / noise[i])):to_distribution()
      log_px = log_px + dist.normal(0, math.sqrt(1 + noise[i])):log_prob(x[i]):item()
    end
    local joint = dist.product_of_experts(single, prior)
    near(joint:mean(), 0.242857142857, 1e-11)
    near(joint:variance(), 0.285714285714, 1e-11)
    -- ln p(x) / prod p(x_m) = ln Z(prior)^(M - 1) Z(joint) / prod Z(single)
    local pmi = N.of(prior):log_normaliser() + N.of(joint):log_normaliser() - N.of(single[1]):log_normaliser() -
      N.of(single[2]):log_normaliser()
    near(pmi, -0.198628500145, 1e-11)
    near(pmi + log_px, -3.153544264943, 1e-12)
    near(dist.kl(single[2], single[1]) / dist.kl(single[2], prior), 11.570480676850, 1e-11)
    near(dist.kl(single[1], single[2]) / dist.kl(single[1], prior), 1.900522357123, 1e-11)
    -- the mixture of the experts: a bound below ln p(x), by draws of each (L(MoE), K = 1)
    local mixture, bound, variance = dist.mixture_of_experts(single), 0, 0
    for i = 1, 2 do
      local m, se = both(dist.expectation_monte_carlo(single[i], function(z)
        local lp = prior:log_prob(z)
        for k = 1, 2 do
          lp = lp + dist.normal(z, math.sqrt(noise[k])):log_prob(pn.full({ z:size(1) }, x[k]))
        end
        return lp - mixture:log_prob(z)
      end, { draws = 200000, generator = pn.generator(i) }))
      bound, variance = bound + m:item() / 2, variance + se:item() ^ 2 / 4
    end
    assert(math.abs(bound + 3.483128245483) < 6 * math.sqrt(variance) and variance < 1e-4, bound)
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
    near(dist.renyi(p1, q1, 1 + 1e-9), golden.kl, 1e-8)
    near(dist.renyi(p2, q2, 1 - 1e-9), dist.kl(p2, q2):item(), 1e-8)
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

  it("exists where the mixed precision is positive: a < v_p / (v_p - v_q)", function()
    local p = dist.multivariate_normal { loc = { 1, 0 }, covariance_matrix = { { 9, 0.1 }, { 0.1, 0.5 } } }
    local q = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = { { 1, 0 }, { 0, 1 } } }
    for _, order in ipairs { 0.01, 0.5, 0.999, 1.001, 1.12, 1.124 } do
      local a, b = dist.renyi(dist.normal(1, 3), dist.normal(0, 1), order):item(), dist.renyi(p, q, order):item()
      assert(a > 0 and a < math.huge and b > 0 and b < math.huge, order)
    end
    for _, order in ipairs { 1.125, 1.126, 3, 1e6 } do
      assert.equal(math.huge, dist.renyi(dist.normal(1, 3), dist.normal(0, 1), order):item())
      assert.equal(math.huge, dist.renyi(p, q, order):item())
    end
    assert(dist.renyi(dist.normal(1, 1), dist.normal(0, 3), 1e6):item() < math.huge)
  end)

  it("takes independent normals for vectors, near order 1 as well", function()
    local a, b = dist.normal({ 0.3, 1, 0 }, { 0.8, 2, 0.1 }), dist.normal({ 0, 0, 0.05 }, { 1.3, 2.1, 0.11 })
    local function dense(d)
      return dist.multivariate_normal { loc = d:mean(), covariance_matrix = d:variance():diag_embed() }
    end
    for _, e in ipairs { 0.3, 1e-2, 1e-3, 3e-4, 1e-4, 1e-6, 1e-9, 1e-12 } do
      for _, order in ipairs { 1 - e, 1 + e } do
        local want = dist.renyi(a:independent(1), b:independent(1), order):item()
        for _, pair in ipairs { { dense(a), dense(b) }, { a:independent(1), dense(b) },
          { dense(a), b:independent(1) } } do
          near(dist.renyi(pair[1], pair[2], order), want, 1e-9, "order " .. order)
        end
      end
    end
    refuses("renyi: there is no closed form for normal and multivariate_normal with different events", dist.renyi, a,
      dense(b), 0.5)
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
      local m, se = both(dist[name](p, q, { draws = 100000, generator = pn.generator(4) }))
      assert(se:item() < 0.01, name .. " is too wide")
      assert(math.abs(m:item() - want) <= 6 * se:item(), name)
    end
    local m, se = both(dist.kl_monte_carlo(p, p))
    assert.equal(0, m:item())
    assert.equal(0, se:item())
    near(dist.jensen_shannon_monte_carlo(dist.normal(0, 1), dist.normal(1e3, 1)).value, math.log(2), 1e-9)
  end)

  it("stand in where a pair has no closed form, which names them", function()
    refuses("kl: there is no closed form for normal and student_t (kl_monte_carlo estimates it)", dist.kl, p,
      dist.student_t(2, 1))
    local m, se = both(dist.kl_monte_carlo(dist.gamma({ 2, 3 }, 1), p, { draws = 1000 }))
    assert.same({ 2 }, m:shape())
    assert.same({ 2 }, se:shape())
    assert.equal(math.huge, dist.kl_monte_carlo(p, dist.gamma(2, 1)).value:item())
    refuses("samples is called draws", dist.kl_monte_carlo, p, q, { samples = 3 })
    refuses("argument 2 must be a distribution", dist.kl_monte_carlo, p, 3)
    refuses("draws must be at least 2", dist.kl_monte_carlo, p, q, { draws = 1 })
  end)

  it("have a gradient along draws", function()
    local loc = pn.param(pn.tensor(0.3))
    local m = dist.kl_monte_carlo(dist.normal(loc, 0.8), q, { draws = 50000, pathwise = true,
      generator = pn.generator(9) })
    near(pn.grad(m.value, { loc })[1], 0.7 / 1.69, 0.03)
  end)
end)
