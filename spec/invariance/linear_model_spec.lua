-- The over-parametrised linear model: all figures against K x K matrices and integrals of another program
-- (spec/golden/invariance/linear_model.py), the optima by maximising the bounds, what the paper prints beside what
-- holds.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local inv, optim = pn.invariance, pn.optim
local golden = dofile "spec/golden/invariance/linear_model.lua"

local function close(want, got, limit, what)
  if not pn.is_tensor(want) then want = pn.tensor(want) end
  if not pn.is_tensor(got) then got = pn.tensor(got) end
  assert.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("%s: off by %.3g"):format(what or "value", off))
end

local function canonical(K, N)
  return inv.linear_model { size = K, y = pn.ones { N }, noise_variance = golden.noise }
end

-- The factor of a row of the golden table.
local function factor_of(model, name)
  if name == "mix" then return model:optimum "mix" end
  return model:optimum("mean_field", { mean = name })
end

local function general(case)
  local model = inv.linear_model { x = pn.tensor(case.x), y = pn.tensor(case.y), noise_variance = case.noise,
    prior_mean = pn.tensor(case.prior_mean), prior_variance = pn.tensor(case.prior_variance) }
  local V = pn.tensor(case.covariance)
  local given = { loc = pn.tensor(case.loc) }
  if case.name == "full" then given.covariance = V else given.variance = V:diagonal() end
  return model, model:approximation(given)
end

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

describe("the over-parametrised linear model", function()
  it("has the tables of the paper at the optima, by vectors and as curves", function()
    for _, row in ipairs(golden.linear) do
      local model = canonical(row.K, row.N)
      local best = factor_of(model, row.name)
      close(pn.full({ row.K }, row.loc), best.loc, 1e-8)
      close(pn.full({ row.K }, row.variance), best.variance, 1e-8)
      local a = model:approximation(best)
      local q0, q_mix, p = a:q0(), a:q_mix(), model:prior()
      local what = ("%s, K = %d, N = %d"):format(row.name, row.K, row.N)
      close(row.gap, a:gap(), 1e-8, what)
      close(row.gap, a:kl_difference(), 1e-8, what)
      close(row.gap, inv.gap_formula(row.K, row.K, row.variance), 1e-8, what)
      close(row.kl_q0, q0:kl(p), 1e-8, what)
      close(row.kl_q_mix, q_mix:kl(p), 1e-8, what)
      close(row.ell, model:expected_log_likelihood(q0), 1e-8, what)
      close(row.ell_q_mix, model:expected_log_likelihood(q_mix), 1e-8, what)
      local mean, variance = model:predictive(q0)
      close(row.mean, mean, 1e-8, what)
      close(row.variance_of_f + golden.noise, variance, 1e-8, what)
      local curve = inv.curves { sizes = { row.K }, num_data = row.N, mean = row.name ~= "mix" and row.name or nil,
        optimum = row.name == "mix" and "mix" or "mean_field" }
      for name, want in pairs { gap = row.gap, kl_q0 = row.kl_q0, kl_q_mix = row.kl_q_mix, predictive_mean = row.mean,
        expected_log_likelihood = row.ell, elbo_q0 = row.ell - row.kl_q0, elbo_q_mix = row.ell - row.kl_q_mix,
        function_variance = row.variance_of_f } do
        close({ want }, curve[name], 1e-8, what)
      end
    end
    for _, row in ipairs(golden.far) do
      close(row.gap, inv.curves({ sizes = { row.K }, num_data = row.N, optimum = row.name }).gap:item(), 1e-8)
    end
  end)

  it("reaches the evidence with q_mix at its optimum, for any number of weights", function()
    for _, K in ipairs { 1, 2, 7, 100, 10000 } do
      for _, N in ipairs { 10, 100 } do
        local model = canonical(K, N)
        local a = model:approximation(model:optimum "mix")
        close(golden.evidence["n" .. N], model:log_evidence(), 1e-11)
        close(golden.evidence["n" .. N], model:elbo(a:q_mix()), 1e-11)
        close(golden.evidence["n" .. N], a:corrected_elbo(), 1e-11)
        close(0, model:posterior():kl(a:q_mix()), 1e-11)
        close(N * 2 / (2 * golden.noise), model:data_bound().bound, 1e-12)
      end
    end
    assert.near(170.79468445, canonical(3, 10):data_bound().bound:item(), 1e-8)
    assert.near(1707.94684453, canonical(3, 100):data_bound().bound:item(), 1e-8)
  end)

  it("has the peaks and crossings of figure 1", function()
    local sizes = pn.arange(1, 2001):to "float64"
    for N, want in pairs { [10] = { 82, 18.2344, 84, 83 }, [100] = { 792, 184.4098, 532, 530 } } do
      local mix = inv.curves { sizes = sizes, num_data = N }
      local field = inv.curves { sizes = sizes, num_data = N, optimum = "mean_field" }
      local function first_above(curve) return curve:gt(mix.data_bound):nonzero()[1]:item() + 1 end
      assert.equal(want[1], field.gap:argmax():item() + 1)
      assert.near(want[2], field.gap:max():item(), 1e-4)
      assert.equal(want[3], first_above(mix.gap))
      assert.equal(want[4], first_above(mix.kl_q0))
      -- linear, and vanishing; the variances return to the prior's
      assert.near(0, (mix.gap[{ { 2, 2000 } }] - mix.gap[{ { 1, 1999 } }] - mix.gap[2]):abs():max():item(), 1e-9)
      local far = inv.curves { sizes = { 1e9 }, num_data = N, optimum = "mean_field" }
      assert.near(0, far.gap:item(), 1e-3)
      assert.near(1 + golden.noise, far.predictive_variance:item(), 1e-5)
      -- the mean collapses as printed, and not at the optimum
      assert.near(N / (N + golden.noise), far.predictive_mean:item(), 1e-9)
      local printed = inv.curves { sizes = { 1e9 }, num_data = N, optimum = "mean_field", mean = "printed" }
      assert.near(0, printed.predictive_mean:item(), 1e-5)
    end
  end)

  it("has the laws of any input, prior and factor, full or diagonal", function()
    for _, case in ipairs(golden.general) do
      local model, a = general(case)
      local q0, q_mix = a:q0(), a:q_mix()
      close(case.evidence, model:log_evidence(), 1e-10, case.name)
      close(case.q0_mean, q0:mean(), 1e-10, case.name)
      close(case.q0_covariance, q0:covariance(), 1e-10, case.name)
      close(case.q_mix_mean, q_mix:mean(), 1e-10, case.name)
      close(case.q_mix_covariance, q_mix:covariance(), 1e-10, case.name)
      close(pn.tensor(case.q_mix_covariance):diagonal(), q_mix:variance(), 1e-10, case.name)
      close(pn.tensor(case.q_mix_covariance):inverse(), q_mix:precision(), 1e-10, case.name)
      close(case.log_det, q_mix:log_det(), 1e-10, case.name)
      local mean, variance = q_mix:law(model.x)
      close(case.law_mean, mean, 1e-10, case.name)
      close(case.law_variance, variance, 1e-10, case.name)
      close(variance, select(2, q_mix:law(model.x + 0)), 1e-10, case.name) -- the other formula
      close(case.gap, a:gap(), 1e-10, case.name)
      close(case.gap, a:gap_by_matrices(), 1e-10, case.name)
      close(case.difference, a:kl_difference(), 1e-10, case.name)
      close(case.ell_q0, model:expected_log_likelihood(q0), 1e-10, case.name)
      close(case.ell_q_mix, model:expected_log_likelihood(q_mix), 1e-10, case.name)
      local w = pn.randn({ 3, 4 }, { generator = pn.generator(1) })
      local dense = pn.dist.multivariate_normal { loc = case.q_mix_mean, covariance_matrix = case.q_mix_covariance }
      close(dense:log_prob(w), q_mix:log_prob(w), 1e-10, case.name)
      close(dense:log_prob(w), q_mix:dense():log_prob(w), 1e-10, case.name)
      close(q_mix:kl(model:prior()), q_mix:dense():kl(model:prior()), 1e-9, case.name)
      close(model:posterior():dense():kl(q_mix:dense()), model:posterior():kl(q_mix), 1e-9, case.name)
    end
  end)

  it("has translations of a finite variance, whose limit is q_mix", function()
    for _, case in ipairs(golden.general) do
      local _, a = general(case)
      for _, beta in ipairs { 1, 10, 100 } do
        local want, q = case.finite["b" .. beta], a:finite(beta)
        close(want.mean, q:mean(), 1e-9, case.name)
        close(want.covariance, q:covariance(), 1e-9, case.name)
        close(want.precision, a:factor_precision(beta), 1e-9, case.name)
      end
      -- the error falls as beta^-2; and it does not matter which pivot the limit is taken with
      local off = {}
      for k, beta in ipairs { 100, 1000 } do
        off[k] = (a:factor_precision(beta) - a:factor_precision()):abs():max():item()
      end
      assert.near(100, off[1] / off[2], 0.5)
      close(a:q_mix():covariance(), a:finite(1e6, { pivot = 2 }):covariance(), 1e-9, case.name)
    end
  end)

  it("refuses the identities of lemmas 1 and 2 where they do not hold", function()
    local held = { constant = true, ["constant, x"] = true }
    for _, case in ipairs(golden.general) do
      local model, a = general(case)
      assert.equal(held[case.name] or false, a:is_constant_ratio())
      if held[case.name] then
        close(case.gap, a:gap_by_identity(), 1e-10)
        close(model:expected_log_likelihood(a:q0()), model:expected_log_likelihood(a:q_mix()), 1e-12)
      else
        local message = message_of(a.gap_by_identity, a)
        assert(message:find("gap_by_identity: variance / prior_variance must be the same", 1, true), message)
        assert(message_of(a.corrected_elbo, a):find("corrected_elbo: ", 1, true))
        close(case.difference, a:gap_by_identity { approximate = true }, 1e-10)
        assert.is_true(math.abs(case.difference - case.gap) > 1e-3)
      end
    end
    -- weights that the input does not see do not matter
    local blind = inv.linear_model { x = { 1, 0, 2 }, y = { 1, 2 }, noise_variance = 0.5 }
    local a = blind:approximation { loc = 1, variance = { 2, 7, 2 } }
    assert.is_true(a:is_constant_ratio())
    close(a:gap(), a:gap_by_identity(), 1e-12)
  end)

  it("takes a ratio for constant up to a tolerance, relative to the largest", function()
    local m = inv.linear_model { x = { 1, 3 }, y = { 1, 2 }, noise_variance = 0.5, prior_variance = { 2, 1 } }
    local function constant(given, tolerance)
      given.loc = 1
      return m:approximation(given):is_constant_ratio(tolerance)
    end
    for off, held in pairs { [0] = true, [0.9] = true, [1.1] = false } do
      assert.equal(held, constant({ covariance = { { 100, off }, { off, 50 } } }, 0.01), off)
    end
    assert.is_true(constant({ covariance = { { 100, 0 }, { 0, 50 } } }, 0))
    assert.is_true(constant({ variance = { 100, 50 } }, 0))
    assert.is_true(constant({ variance = { math.huge, math.huge } }, 0))
    for second, held in pairs { [50.6] = false, [50.4] = true, [49.6] = true, [49.4] = false } do
      assert.equal(held, constant({ variance = { 100, second } }, 0.01), second)
    end
  end)

  it("is maximised at the optima, and the printed mean is none", function()
    local y = pn.randn({ 6 }, { generator = pn.generator(4) }) * 0.3 + 0.8
    local model = inv.linear_model { x = { 1, 2, -0.5, 0 }, y = y, noise_variance = 0.2, prior_mean = { 0.2, 0, -1, 3 },
      prior_variance = { 1, 2, 3, 4 } }
    for which, part in pairs { mean_field = "q0", mix = "q_mix" } do
      local m, log_lambda = pn.param(pn.zeros { 4 }), pn.param(pn.zeros { 4 })
      local function approximation() return model:approximation { loc = m, variance = log_lambda:exp() } end
      local opt = optim.lbfgs({ m, log_lambda }, { max_steps = 300 })
      for _ = 1, 12 do
        opt:step(function()
          local a = approximation()
          return -model:elbo(a[part](a))
        end)
      end
      local best = model:approximation(model:optimum(which))
      local reached, known = approximation(), best[part](best)
      close(model:elbo(known), model:elbo(reached[part](reached)), 1e-6, which)
      close(known:mean(), reached[part](reached):mean(), 2e-3, which)
      close(known:variance(), reached[part](reached):variance(), 1e-2, which)
      if part == "q_mix" then
        close(model:log_evidence(), model:elbo(known), 1e-12)
      else
        local field = model:optimum "mean_field"
        assert.equal(math.huge, field.variance[4]:item()) -- the input does not see it: its prior stays
        assert.equal(3, known:mean()[4]:item())
        assert.near(4, known:variance()[4]:item(), 1e-12)
        close(best:q_mix():covariance(), best:finite(1e6):covariance(), 1e-9)
        local printed = model:approximation(model:optimum("mean_field", { mean = "printed" }))
        assert.is_true(model:elbo(printed:q0()):item() < model:elbo(known):item() - 1e-3)
        close(known:variance(), printed:q0():variance(), 1e-12)
      end
    end
  end)

  it("has the signs and shapes that hold where the paper prints others", function()
    -- equation 10: the ELBO of q_mix is the larger, by the gap
    local model = canonical(6, 10)
    local a = model:approximation { loc = 0.4, variance = 0.7 }
    assert.is_true(a:gap():item() > 0.1)
    close(a:gap(), model:elbo(a:q_mix()) - model:elbo(a:q0()), 1e-12)
    -- equation 18: increasing in phi = 1 + sigma^2 / lambda from 0 at 1, convex below 2 and concave above
    local phi = pn.linspace(1.001, 5, 400)
    local gap = inv.gap_formula(3, phi - 1, 1)
    local slope = gap[{ { 2, 400 } }] - gap[{ { 1, 399 } }]
    assert.is_true(slope:gt(0):all():item())
    local bend = slope[{ { 2, 399 } }] - slope[{ { 1, 398 } }]
    local at = phi[{ { 2, 399 } }]
    assert.is_true(bend:masked_select(at:lt(1.95)):gt(0):all():item())
    assert.is_true(bend:masked_select(at:gt(2.05)):lt(0):all():item())
    -- equation 11: the data bound is none of a q whose ELBO is below that of the prior
    model = canonical(100, 10)
    a = model:approximation(model:optimum "mix")
    local kl, bound = a:q0():kl(model:prior()):item(), model:data_bound().bound:item()
    assert.is_true(kl > bound and model:elbo(a:q0()):item() < model:elbo(model:prior()):item())
    local best = model:approximation(model:optimum "mean_field")
    assert.is_true(best:q0():kl(model:prior()):item() < bound)
    -- equation 14: g_mix has a precision of rank 1
    local p = canonical(4, 2):approximation({ loc = 1, variance = 3 }):factor_precision()
    close(pn.full({ 4, 4 }, 1 / 12), p, 1e-14)
  end)

  it("has gradients, eager and compiled", function()
    local m, log_lambda = pn.param(pn.tensor { 0.3, 1, -0.4 }), pn.param(pn.tensor { 0.1, -0.5, 0.8 })
    local model = inv.linear_model { x = { 1, 2, -0.5 }, y = { 0.5, 0.9 }, noise_variance = 0.2,
      prior_variance = { 1, 2, 3 } }
    local function value()
      local a = model:approximation { loc = m, variance = log_lambda:exp() }
      return a:gap() + model:elbo(a:q0()) * 2 - model:elbo(a:q_mix()) + a:finite(2):kl(model:posterior())
        + a:q_mix():log_prob(pn.ones(3)) + a:q_mix():log_det()
    end
    assert(pn.check_gradients(value, { m, log_lambda }))
    local compiled = pn.compile(value)
    for _ = 1, 2 do assert.equal(value():item(), compiled():item()) end
    m:set(pn.tensor { 1, 0, 2 })
    assert.equal(value():item(), compiled():item())
    local size = pn.param(4.0)
    assert(pn.check_gradients(function() return inv.gap_formula(size, size, size:exp()) end, { size }))
  end)

  -- Every figure, with its own weight in the sum, in all that a model and a factor are made of.
  it("has gradients of all figures in input, data, prior and factor, diagonal or full", function()
    local function leaf(...) return pn.param(pn.tensor { ... }) end
    local x, y, mean, spread = leaf(1, 2, -0.5), leaf(0.5, 0.9), leaf(0.3, -0.2, 0.6), leaf(0.2, 0.7, 1.1)
    local loc, lambda, root = leaf(0.3, 1, -0.4), leaf(0.1, -0.5, 0.8), pn.param(pn.tensor { { 0.9, 0, 0 },
      { 0.4, 0.7, 0 }, { -0.3, 0.2, 1.1 } })
    local other = pn.tensor { 0.7, -1.2, 0.4 }
    local function total(list)
      local sum = 0
      for k, v in ipairs(list) do
        v = v:ndim() > 0 and (v * (pn.arange(v:numel()) + 1):cos():reshape(v:shape())):sum() or v
        sum = sum + v * math.cos(k)
      end
      return sum
    end
    for _, full in ipairs { false, true } do
      local function value()
        local model = inv.linear_model { x = x, y = y, noise_variance = 0.2, scale = 0.8, prior_mean = mean,
          prior_variance = spread:exp() }
        local a = model:approximation { loc = loc, variance = not full and lambda:exp() or nil,
          covariance = full and root:matmul(root:t()) or nil }
        local best, field = model:optimum "mix", model:optimum "mean_field"
        local printed, b = model:optimum("mean_field", { mean = "printed" }), model:data_bound()
        local list = { model:log_evidence(), best.loc, best.variance, field.loc, field.variance, printed.loc, b.bound,
          b.prior, a:gap(), a:gap_by_matrices(), a:kl_difference(), a:corrected_elbo { approximate = true },
          a:gap_by_identity { approximate = true }, a:factor_precision(), a:factor_precision(1.5),
          a:finite(1.5, { pivot = 2 }):kl(model:posterior()) }
        local function law(q)
          local m, v = q:law(other)
          local own_mean, own_variance = q:law(model.x)
          local at, variance = model:predictive(q)
          for _, t in ipairs { q:mean(), q:variance(), q:covariance(), q:precision(), q:log_det(), m, v, own_mean,
            own_variance, at, variance, q:log_prob(other), q:log_prob(pn.stack({ other, loc }, 1)), model:elbo(q),
            model:expected_log_likelihood(q), q:kl(model:prior()), q:kl(model:posterior()), model:posterior():kl(q),
            q:rsample({ 2 }, pn.generator(4)) } do
            list[#list + 1] = t
          end
        end
        for _, q in ipairs { model:prior(), model:posterior(), a:q0(), a:q_mix() } do
          law(q)
          if q.dense then law(q:dense()) end
        end
        return total(list)
      end
      assert(pn.check_gradients(value, { x, y, mean, spread, loc, full and root or lambda }))
    end
  end)

  it("is the prior for a factor that says nothing", function()
    local model = canonical(3, 10)
    local a = model:approximation { loc = 5, variance = math.huge }
    for _, part in ipairs { "q0", "q_mix" } do
      close(0, a[part](a):kl(model:prior()), 1e-14)
      close(model:prior():mean(), a[part](a):mean(), 0)
      close(model:prior():variance(), a[part](a):variance(), 1e-14)
      assert.is_true(a[part](a):sample(2):isfinite():all():item())
    end
    close(0, a:gap(), 1e-14)
    assert.equal(0, inv.gap_formula(5, 1, math.huge):item())
  end)

  it("has laws that take the calls of distributions", function()
    local model, a = general(golden.general[4])
    local k = model:prior():mean():size(1)
    for _, q in ipairs { model:prior(), model:posterior(), a:q0(), a:q_mix(), a:q_mix():dense() } do
      assert.same({ { k }, {}, "float64" }, { q.event_shape, q.batch_shape, q.dtype })
      assert.same({ k }, q:sample():shape())
      assert.same({ 3, k }, q:sample { 3 }:shape())
      assert.same({ 3, 2, k }, q:sample { 3, 2, generator = pn.generator(1) }:shape())
      assert.same(q:sample({ 3 }, pn.generator(1)):totable(), q:sample { 3, generator = pn.generator(1) }:totable())
      assert.same({ 3, 2 }, q:log_prob(q:rsample { 3, 2 }):shape())
      local full = pn.dist.multivariate_normal { loc = q:mean(), covariance_matrix = q:covariance() }
      local p = model:prior()
      close(q:kl(p), pn.dist.kl(q, p), 1e-13)
      close(q:kl(p), pn.dist.kl(full, p), 1e-9)
      close(p:kl(q), pn.dist.kl(p, full), 1e-9)
      local value, spread = both(pn.dist.kl_monte_carlo(q, p, { draws = 2000, generator = pn.generator(4) }))
      assert.is_true(math.abs((value - q:kl(p)):item()) <= 6 * spread:item() + 1e-12)
      local ok, message = pcall(q.sample, q, { 2.5 })
      assert(not ok and message:find("normal_law: sample: sizes must be whole numbers", 1, true) or q.matrix, message)
    end
    local m, v = pn.param(model.prior_mean:detach() + 0), pn.param(pn.tensor(1))
    local leaf = inv.linear_model { x = model.x, y = model.y, noise_variance = 1, prior_mean = m,
      prior_variance = 2 * v }
    assert.is_true(leaf:posterior():rsample { 2 }:requires_grad())
    assert.is_false(leaf:posterior():sample { 2 }:requires_grad())
  end)

  it("draws from q_mix without a factorisation", function()
    local case = golden.general[4]
    local model, a = general(case)
    local n = 200000
    local w = a:q_mix():sample(n, pn.generator(2))
    local cov = pn.tensor(case.q_mix_covariance)
    local off = w - pn.tensor(case.q_mix_mean)
    local spread = cov:diagonal()
    -- 6 sigma: the variance of a sample covariance is (c_ij^2 + c_ii c_jj) / n
    local limit = ((cov:square() + spread:unsqueeze(2) * spread) / n):sqrt() * 6
    assert.is_true((off:t():matmul(off) / n - cov):abs():le(limit):all():item())
    assert.is_true(limit:max():item() < 0.07)
    assert.is_true(off:mean(1):abs():le((spread / n):sqrt() * 6):all():item())
    close(case.law_variance, w:matmul(model.x):var():item(), 6 * (2 / n) ^ 0.5)
  end)

  it("has both conventions of the expected log likelihood, which differ by N / 2", function()
    local model = canonical(5, 10)
    local q = model:posterior()
    local inside = { noise_inside = true }
    close(5, model:expected_log_likelihood(q) - model:expected_log_likelihood(q, inside), 1e-12)
    close(5, model:elbo(q) - model:elbo(q, inside), 1e-12)
    local one, other = model:data_bound(), model:data_bound(inside)
    close(one.bound, other.bound, 0)
    assert.near(5, one.best, 1e-12) -- the noise has an entropy of 0
    assert.near(0, other.best, 1e-12)
    close(model:expected_log_likelihood(model:prior()), one.prior, 1e-10)
    local c, d = inv.curves { sizes = { 3 } }, inv.curves { sizes = { 3 }, noise_inside = true }
    close({ 5 }, c.elbo_q0 - d.elbo_q0, 1e-12)
  end)

  it("has the dtype of its input", function()
    local x = pn.tensor({ 1, 0, 2 }, { dtype = "float32" })
    local model = inv.linear_model { x = x, y = pn.ones({ 5 }, { dtype = "float32" }), noise_variance = 0.2 }
    local double = inv.linear_model { x = { 1, 0, 2 }, y = pn.ones { 5 }, noise_variance = 0.2 }
    local plain = { loc = 1, variance = pn.ones({ 3 }, { dtype = "float32" }) }
    for _, given in ipairs { model:optimum "mean_field", plain } do
      local a, b = model:approximation(given), double:approximation { loc = pn.tensor(given.loc):to "float64",
        variance = given.variance:to "float64" }
      for _, name in ipairs { "gap", "kl_difference" } do
        assert.equal("float32", a[name](a):dtype())
        assert.near(b[name](b):item(), a[name](a):item(), 1e-5)
      end
      assert.near(b:finite(3):kl(double:posterior()):item(), a:finite(3):kl(model:posterior()):item(), 1e-4)
      assert.equal("float32", a:q_mix():sample(2):dtype())
    end
  end)

  it("shows its errors", function()
    local model = canonical(3, 2)
    for text, f in pairs {
      ["linear_model: noise_variance must be positive, got 0"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 0 }
      end,
      ["linear_model: option 'y' is required"] = function() inv.linear_model { size = 2, noise_variance = 1 } end,
      ["linear_model: size must be a whole number from 1 on, got 0"] = function()
        inv.linear_model { y = { 1 }, noise_variance = 1 }
      end,
      ["linear_model: x must not be zero"] = function()
        inv.linear_model { x = { 0, 0 }, y = { 1 }, noise_variance = 1 }
      end,
      ["linear_model: prior_variance must be positive"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 1, prior_variance = { 1, -1 } }
      end,
      ["linear_model: prior_mean must be a number or have shape [2], got [3]"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 1, prior_mean = { 1, 1, 1 } }
      end,
      ["approximation: exactly one of variance and covariance must be given"] = function()
        model:approximation { loc = 1 }
      end,
      ["optimum: which must be 'mix' or 'mean_field', got best"] = function() model:optimum "best" end,
      ["elbo: q must be a law of the 3 weights"] = function() model:elbo(canonical(2, 1):prior()) end,
      ["finite: pivot must be a place where x is not 0, got 2"] = function()
        inv.linear_model({ x = { 1, 0 }, y = { 1 }, noise_variance = 1 }):approximation({ loc = 1, variance = 1 })
          :finite(2, { pivot = 2 })
      end,
      ["covariance: a K x K matrix is formed up to K = 5000, got K = 6000"] = function()
        canonical(6000, 1):posterior():covariance()
      end,
      ["curves: unknown option 'size', did you mean 'sizes'?"] = function() inv.curves { size = 3 } end,
      ["gap_formula: variances must be positive"] = function() inv.gap_formula(3, 0, 1) end,
      ["curves: sizes must be"] = function() inv.curves { sizes = "x" } end,
      ["predictive: q must be a law of the 2 weights, as model:approximation gives them"] = function()
        canonical(2, 1):predictive(canonical(3, 1):posterior())
      end,
      ["elbo: q must be a law of the 2 weights"] = function() canonical(2, 1):elbo(pn.dist.normal(0, 1)) end,
      ["kl: p must be a law of the 2 weights, got of others"] = function()
        canonical(2, 1):posterior():kl(canonical(3, 1):posterior())
      end,
      ["kl: p must be a law of the 2 weights, got number"] = function() canonical(2, 1):posterior():kl(3) end,
      ["log_prob: w must have a last axis of 2 weights as float64, got [3] of float64"] = function()
        canonical(2, 1):posterior():log_prob(pn.ones { 3 })
      end,
      ["log_prob: w must have a last axis of 2 weights as float64, got [2] of float32"] = function()
        canonical(2, 1):posterior():log_prob(pn.ones({ 2 }, { dtype = "float32" }))
      end,
      ["law: x must have one axis of 2 weights as float64, got [1, 2] of float64"] = function()
        canonical(2, 1):posterior():law(pn.ones { 1, 2 })
      end,
      ["data_bound: noise_variance must be positive, got 0"] = function()
        inv.data_bound { y = { 1 }, output_variance = 1, noise_variance = 0.0 }
      end,
      ["linear_model: noise_variance must be positive, got inf"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = math.huge }
      end,
      ["linear_model: y must have one axis, got [1, 1]"] = function()
        inv.linear_model { size = 2, y = { { 1 } }, noise_variance = 1 }
      end,
      ["linear_model: y must have one axis, got [0]"] = function()
        inv.linear_model { size = 2, y = pn.zeros { 0 }, noise_variance = 1 }
      end,
      ["linear_model: x must have one axis and takes the place of size, got [2]"] = function()
        inv.linear_model { x = { 1, 2 }, size = 2, y = { 1 }, noise_variance = 1 }
      end,
      ["linear_model: x must have one axis, got [1, 2]"] = function()
        inv.linear_model { x = { { 1, 2 } }, y = { 1 }, noise_variance = 1 }
      end,
      ["linear_model: scale must be a finite number other than 0, got 0"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 1, scale = 0.0 }
      end,
      ["linear_model: scale must be a finite number other than 0, got inf"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 1, scale = math.huge }
      end,
      ["linear_model: prior_variance must be pos"] = function()
        inv.linear_model { size = 2, y = { 1 }, noise_variance = 1, prior_variance = { 1, 0 } }
      end,
      ["approximation: option 'loc' is required"] = function() model:approximation { variance = 1 } end,
      ["approximation: exactly one of variance and covariance"] = function()
        model:approximation { loc = 1, variance = 1, covariance = pn.eye(3) }
      end,
      ["approximation: covariance must have shape [3, 3], got [3, 2]"] = function()
        model:approximation { loc = 1, covariance = pn.ones { 3, 2 } }
      end,
      ["approximation: covariance must have shape [3, 3], got [2, 3]"] = function()
        model:approximation { loc = 1, covariance = pn.ones { 2, 3 } }
      end,
      ["approximation: covariance must have shape [3, 3], got [3]"] = function()
        model:approximation { loc = 1, covariance = pn.ones { 3 } }
      end,
      ["finite: beta must be positive and finite, got 0"] = function()
        model:approximation({ loc = 1, variance = 1 }):finite(0.0)
      end,
      ["finite: beta must be positive and finite, got inf"] = function()
        model:approximation({ loc = 1, variance = 1 }):finite(math.huge)
      end,
      ["gap_formula: variances must"] = function() inv.gap_formula(3, 1, 0) end,
      ["factor_precision: a K x K matrix is formed up to K = 5000, got K = 5001"] = function()
        canonical(5001, 1):approximation({ loc = 1, variance = 1 }):factor_precision()
      end,
      ["precision: a K x K matrix is formed up to K = 5000, got K = 5001"] = function()
        canonical(5001, 1):posterior():precision()
      end,
      ["is_constant_ratio: tolerance must be a number"] = function()
        model:approximation({ loc = 1, variance = 1 }):is_constant_ratio "x"
      end,
      ["data_bound: noise_variance must be positive, got -1"] = function()
        inv.data_bound { y = { 1 }, output_variance = 1, noise_variance = -1 }
      end,
    } do
      local message = message_of(f)
      assert(message:find(text, 1, true), message)
    end
    for _, o in ipairs { { num_data = 0 }, { noise_variance = 0.0 }, { function_variance = 0.0 }, { sizes = { 2,
      0.5 } } } do
      o.sizes = o.sizes or { 1, 2 }
      assert(message_of(inv.curves, o):find("curves: num_data, noise_variance and function_variance must be positive, "
        .. "sizes at least 1", 1, true))
    end
    assert.equal(0, inv.curves({ sizes = { 1 } }).gap:item())
    assert.equal("linear model of 3 weights and 2 observations", tostring(model))
    assert.equal("approximation of a posterior of 3 weights: a:q0(), a:q_mix()", tostring(model:approximation {
      loc = 1, variance = 1 }))
    assert.equal("normal_law(event [3], float64)", tostring(model:prior()))
    assert.same({ 1 / 3, 3 }, { model.scale, model.prior_variance[2]:item() }) -- 1 / K and K unless told
  end)
end)
