-- Divergences of two kinds: every pair against quadrature, its slopes against differences, and draws.
local pn = require "penumbra"
local refuses = require("spec.helper").refuses
local golden = { table.unpack((require "spec.golden.distribution.kl")) }
for _, case in ipairs((require "spec.golden.distribution.kl_discrete")) do
  golden[#golden + 1] = case
end

local dist = pn.dist
local DRAWS = 30000

local known, infinite, counted = {}, {}, 0
for _, pair in ipairs(dist.kl_pairs()) do
  local key = pair[1] .. "/" .. pair[2]
  if pair.infinite then
    infinite[key] = true
  else
    known[key] = true
    counted = counted + 1
  end
end

local function near(got, want, rel, what)
  assert(got == want or math.abs(got - want) <= rel * math.max(math.abs(want), 1e-3),
    ("%s: %.15g, expected %.15g"):format(what, got, want))
end

-- An end at the edge of the other support: moved, it makes the divergence infinite. So do whole numbers of trials.
local function is_edge(case, k, name, v)
  local trials = name == "total_count" or case[k] == "gamma_poisson" and name == "concentration"
  if name == "scale" then
    return case[2] == "pareto" and case.q.scale == case.p.low and v == case.q.scale
  end
  return trials or (name == "low" or name == "high") and
    (v == 0 or v == 1 or math.abs(v) == math.huge or v == case.q.scale)
end

-- The two distributions of a golden case, and the leaves that their parameters are.
local function leaves_of(case)
  local leaves, both = {}, {}
  for k, side in ipairs { "p", "q" } do
    both[k] = {}
    for name, v in pairs(case[side]) do
      local leaf = pn.tensor(v)
      if not is_edge(case, k, name, v) then
        leaf = pn.param(leaf)
        leaves[#leaves + 1] = leaf
      end
      both[k][name] = leaf
    end
  end
  return leaves, function()
    return dist[case[1]](both[1]), dist[case[2]](both[2])
  end
end

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

describe("by Monte Carlo", function()
  -- Of a scale family -log p of a draw loc + scale e is log scale + a function of e alone: each draw has the gradient
  -- 1 / scale. The divergence's, of a normal from one of the same location, is scale e^2 / s^2 - 1 / scale.
  it("an entropy has the exact gradient of a scale family, and the standard error of its draws", function()
    local scale = pn.param(1.7)
    for _, d in ipairs { dist.normal(0.4, scale), dist.laplace(0.4, scale), dist.gumbel(0.4, scale) } do
      local e = dist.entropy_monte_carlo(d, { draws = 50, pathwise = true, generator = pn.generator(1) })
      assert.near(1 / 1.7, pn.grad(e.value, { scale })[1]:item(), 1e-12)
    end
    local p = dist.normal(0, pn.tensor(1.7))
    for _, n in ipairs { 20, 700 } do
      for _, pathwise in ipairs { false, true } do
        local x = (pathwise and p.rsample or p.sample)(p, { n, generator = pn.generator(2) })
        local lp, box = p:log_prob(x), dist.uniform(-100, 100)
        local function o() return { draws = n, pathwise = pathwise, generator = pn.generator(2) } end
        for _, pair in ipairs { { -lp, dist.entropy_monte_carlo(p, o()) },
          { lp - box:log_prob(x), dist.kl_monte_carlo(p, box, o()) },
          { lp, dist.expectation_monte_carlo(p, function(z) return p:log_prob(z) end, o()) } } do
          assert.near(pair[1]:mean():item(), pair[2].value:item(), 1e-12)
          assert.near(pair[1]:std():item() / n ^ 0.5, pair[2].se:item(), 1e-12)
        end
      end
    end
  end)

  it("all have the gradients of differences, the draws held", function()
    local w = { pn.param(pn.tensor { 0.3, -1 }), pn.param(pn.tensor { 0.7, 1.2 }), pn.param(pn.tensor { 1.5, 0.4 }) }
    for name, f in pairs {
      kl = dist.kl_monte_carlo, entropy = function(p, _, o) return dist.entropy_monte_carlo(p, o) end,
      expectation = function(p, _, o) return dist.expectation_monte_carlo(p, function(x) return x:sin() end, o) end,
      jensen_shannon = dist.jensen_shannon_monte_carlo,
      normal_log_uniform = function(p) return { value = dist.kl_normal_log_uniform(p) } end,
      of_vectors = function(p) return { value = dist.kl_normal_log_uniform(p:independent(1)) } end,
    } do
      local report = pn.check_gradients(function()
        return f(dist.normal(w[1], w[2]), dist.normal(w[3], 1.3), { draws = 30, pathwise = true,
          generator = pn.generator(5) }).value
      end, w, { tolerance = 1e-6 })
      assert(math.abs(report.gradient) > 0, name)
    end
  end)
end)

describe("the divergence of two kinds", function()
  it("is known for more than 40 pairs", function()
    assert(counted > 40, counted)
  end)

  it("is that of quadrature, or refused by name", function()
    local seen = {}
    for _, case in ipairs(golden) do
      local p, q, pair = case[1], case[2], case[1] .. "/" .. case[2]
      local a, b = dist[p](case.p), dist[q](case.q)
      if known[pair] or infinite[pair] or case.value == math.huge then
        near(dist.kl(a, b):item(), case.value, 1e-8, pair)
        seen[pair] = true
      else
        refuses(("kl: there is no closed form for %s and %s (kl_monte_carlo estimates it)"):format(p, q), dist.kl, a, b)
      end
      assert(not infinite[pair] or case.value == math.huge, pair)
    end
    for pair in pairs(known) do
      local p, q = pair:match "(.*)/(.*)"
      assert(p == q or seen[pair] or p == "delta" or pair:find "multivariate_normal" or p == "multivariate_student_t"
        or p == "gaussian_random_walk" or q == "gaussian_random_walk", pair .. " has no golden value")
    end
  end)

  -- Rows of p against a column of q, in either type.
  it("is that of each pair of a batch, and in float32 what float64 makes of the same numbers", function()
    for _, case in ipairs(golden) do
      local pair = case[1] .. "/" .. case[2]
      if known[pair] and not pair:find "horseshoe" then
        local function of(dtype)
          local law = {}
          for k, side in ipairs { "p", "q" } do
            local t = {}
            for name, v in pairs(case[side]) do
              local one = pn.tensor(v, { dtype = "float32" }):to(dtype)
              local rank = #one:shape()
              t[name] = rank == 0 and one:broadcast_to(k == 1 and { 3 } or { 2, 1 }):contiguous() or one
            end
            law[k] = dist[case[k]](t)
          end
          return dist.kl(law[1], law[2]), law
        end
        local ok, single, law = pcall(of, "float32")
        if ok then -- ends that are on the edge of a support may lie beyond it once they are rounded
          assert.equal("float32", single:dtype())
          local double = of "float64"
          assert.same(single:shape(), double:shape())
          if #law[1].batch_shape > 0 and #law[2].batch_shape > 0 then assert.same({ 2, 3 }, double:shape()) end
          local one, values = double:reshape { -1 }[1]:item(), single:reshape({ -1 }):totable()
          for k, v in ipairs(double:reshape({ -1 }):totable()) do
            near(v, one, 1e-12, pair)
            assert(values[k] == one or math.abs(values[k] - one) <= 1e-5 * math.abs(one) + 2e-6,
              ("%s in float32: %.9g, not %.9g"):format(pair, values[k], one))
          end
        end
      end
    end
  end)

  it("agrees with draws", function()
    for k, case in ipairs(golden) do
      local p, q = dist[case[1]](case.p), dist[case[2]](case.q)
      if known[case[1] .. "/" .. case[2]] and case.value < 50 then
        local m, e = both(dist.kl_monte_carlo(p, q, { draws = DRAWS, generator = pn.generator(k) }))
        m, e = m:item(), e:item()
        assert(math.abs(m - case.value) <= 6 * e + 1e-8, ("%s and %s: %g, by draws %g +- %g"):format(case[1], case[2],
          case.value, m, e))
        -- narrow: where q falls faster than p its logarithm has heavy tails
        assert(e <= 0.05 * math.max(1, case.value), ("%s and %s: standard error %g"):format(case[1], case[2], e))
      end
    end
  end)

  it("has slopes in the parameters of both", function()
    for _, case in ipairs(golden) do
      if known[case[1] .. "/" .. case[2]] and case.value < math.huge then
        local leaves, make = leaves_of(case)
        local ok, message = pcall(pn.check_gradients, function() return dist.kl(make()) end, leaves)
        assert(ok and message, ("%s and %s: %s"):format(case[1], case[2], tostring(message)))
      end
    end
  end)

  it("has no NaN among the slopes where it is infinite", function()
    for _, case in ipairs(golden) do
      if known[case[1] .. "/" .. case[2]] and case.value == math.huge then
        local leaves, make = leaves_of(case)
        local kl = dist.kl(make())
        if kl:requires_grad() then
          for _, g in ipairs(pn.grad(kl, leaves)) do
            assert(not g:isnan():item(), case[1] .. "/" .. case[2])
          end
        end
      end
    end
  end)

  it("has float32 where both have", function()
    for _, case in ipairs(golden) do
      if known[case[1] .. "/" .. case[2]] and case.value < 1e3 then
        local function narrow(t)
          local out = {}
          for name, v in pairs(t) do
            out[name] = pn.tensor(v, { dtype = "float32" })
          end
          return out
        end
        local kl = dist.kl(dist[case[1]](narrow(case.p)), dist[case[2]](narrow(case.q)))
        assert.equal("float32", kl:dtype())
        near(kl:item(), case.value, 1e-3, case[1] .. "/" .. case[2] .. " in float32")
      end
    end
  end)

  it("broadcasts, and adds over independent axes", function()
    local p, q = dist.gamma({ { 2 }, { 3 } }, { 1, 2, 4 }), dist.log_normal(0, { 1, 2, 3 })
    local kl = dist.kl(p, q)
    assert.same({ 2, 3 }, kl:shape())
    near(kl:totable()[2][3], dist.kl(dist.gamma(3, 4), dist.log_normal(0, 3)):item(), 1e-14, "an element")
    local joint = dist.kl(p:independent(1), q:independent(1))
    assert.same({ 2 }, joint:shape())
    near(joint:totable()[1], kl:sum({ 2 }):totable()[1], 1e-14, "independent")
    local far = dist.kl(dist.normal({ 1, 2 }, 1):independent(1), dist.gamma({ 1, 2 }, 1):independent(1))
    assert.same({}, far:shape())
    assert.equal(math.huge, far:item())
    refuses("kl: gamma and log_normal must have one event shape", dist.kl, p:independent(1), q)
    refuses("must have one dtype", dist.kl, p, dist.log_normal(pn.zeros { 3, dtype = "float32" }, 1))
  end)

  it("is infinite where the first has values outside the support of the second, element by element", function()
    local kl = dist.kl(dist.uniform({ -1, 0, 0.5 }, { 1, 1, 2 }), dist.beta(2, 3)):totable()
    assert.equal(math.huge, kl[1])
    assert(kl[2] < math.huge)
    assert.equal(math.huge, kl[3])
    assert.equal(math.huge, dist.kl(dist.normal(0, 1), dist.exponential(1)):item())
    assert.equal(math.huge, dist.kl(dist.gamma(1, 1), dist.beta(1, 1)):item())
    assert.equal(math.huge, dist.kl(dist.horseshoe(1), dist.gamma(1, 1)):item())
    -- a half-open support inside a truncated one
    local wide = dist.truncated_normal { loc = 0, scale = 2, low = { 0, 0.1 } }
    local of = dist.kl(dist.gamma(2, 1), wide):totable()
    assert(of[1] < math.huge and of[2] == math.huge)
    -- the same for moments that do not exist
    assert.equal(math.huge, dist.kl(dist.student_t(2, 0, 1), dist.normal(0, 1)):item())
    assert.equal(math.huge, dist.kl(dist.student_t(1, 0, 1), dist.laplace(0, 1)):item())
    assert.equal(math.huge, dist.kl(dist.inverse_gamma(1, 1), dist.exponential(1)):item())
    assert.equal(math.huge, dist.kl(dist.gamma(1, 1), dist.inverse_gamma(1, 1)):item())
  end)

  it("is zero for one law by two names", function()
    for _, pair in ipairs {
      { dist.exponential(1.7), dist.gamma(1, 1.7) }, { dist.chi2(5), dist.gamma(2.5, 0.5) },
      { dist.uniform(0, 1), dist.beta(1, 1) }, { dist.half_normal(2), dist.truncated_normal { scale = 2, low = 0 } },
      { dist.normal(1, 2), dist.truncated_normal(1, 2) } } do
      near(dist.kl(pair[1], pair[2]):item(), 0, 1e-11, "there")
      near(dist.kl(pair[2], pair[1]):item(), 0, 1e-11, "back")
    end
  end)
end)

describe("the divergence of two logistic laws", function()
  it("is closed where they share the scale, or two relaxed gates the temperature", function()
    for _, case in ipairs((require "spec.golden.distribution.documents").shared) do
      local d = case.distance
      for _, scale in ipairs { 0.5, 3 } do
        local kl = dist.kl(dist.logistic(0, scale), dist.logistic(-d * scale, scale)):item()
        assert(math.abs(kl - case.value) <= 1e-10 * case.value + 1e-15 * d ^ 2, d)
      end
      local gate = dist.kl(dist.relaxed_bernoulli { temperature = 0.4, logits = d },
        dist.relaxed_bernoulli { temperature = 0.4, logits = 0 })
      near(gate:item(), case.value, 1e-10, "gate " .. d)
    end
    local gates = dist.relaxed_bernoulli { temperature = 0.4, probs = { 0.3, 0.7 } }
    local m, e = both(dist.kl_monte_carlo(gates, dist.relaxed_bernoulli(0.4, 0.5), { generator = pn.generator(1) }))
    local kl = dist.kl(gates, dist.relaxed_bernoulli(0.4, 0.5))
    assert((m - kl):abs():le(e * 6):all():item() and e:max():item() < 0.02)
  end)

  it("has slopes, also in a scale that is one tensor, and is refused by name elsewhere", function()
    local a, b, s = pn.param(pn.tensor { 0.3, 2, 0.05 }), pn.param(pn.tensor { -1, 2.05, 0 }), pn.param(0.7)
    assert(pn.check_gradients(function()
      return dist.kl(dist.logistic(a, s), dist.logistic(b, s))
    end, { a, b, s }, { order = 2 }))
    refuses("kl: there is no closed form for logistic and logistic with scale 1 and 2", dist.kl, dist.logistic(0, 1),
      dist.logistic(0, 2))
    refuses("and are not one tensor", dist.kl, dist.logistic(0, s), dist.logistic(0, 0.7))
    refuses("kl: there is no closed form for relaxed_bernoulli and relaxed_bernoulli with temperature 1 and 2", dist.kl,
      dist.relaxed_bernoulli(1, 0.5), dist.relaxed_bernoulli(2, 0.5))
    local f = pn.compile(function(x) return dist.kl(dist.logistic(0, x), dist.logistic(1, 2)) end)
    near(f(pn.tensor(2)):item(), dist.kl(dist.logistic(0, 2), dist.logistic(1, 2)):item(), 1e-14, "replayed")
    refuses("with scale 3 and 2", f, pn.tensor(3))
  end)
end)

describe("the divergence of a law with heavy tails", function()
  it("is that of quadrature far out too", function()
    -- the mean of a logarithm at a distance that dwarfs the law: log of the distance
    for _, far in ipairs { 1e8, 1e30, 1e120 } do
      local own = 2 * math.log(far) + math.log(math.pi)
      for _, p in ipairs { dist.logistic(0, 1), dist.cauchy(0, 1), dist.uniform(-1, 1) } do
        near(dist.kl(p, dist.cauchy(far, 1)):item(), own - p:entropy():item(), 1e-9, p.name)
      end
    end
    -- Student's t of many degrees is normal
    near(dist.kl(dist.logistic(0, 1), dist.student_t(1e9, 0.3, 1.5)):item(),
      dist.kl(dist.logistic(0, 1), dist.normal(0.3, 1.5)):item(), 1e-6, "many degrees")
    near(dist.kl(dist.logistic(0, 1), dist.student_t(1, 0.3, 1.5)):item(),
      dist.kl(dist.logistic(0, 1), dist.cauchy(0.3, 1.5)):item(), 1e-12, "one degree")
  end)

  -- E[f(x)], x logistic, by the trapezoidal rule, and x uniform by tanh-sinh's.
  local function of_logistic(loc, scale, f)
    local z = pn.linspace(-80, 80, 32001)
    local weight = (-2 * ((z * 0.5):abs():exp() + (z * -0.5):abs():neg():exp()):log()):exp() * 0.005
    return (f(loc + scale * z) * weight):sum():item()
  end
  local function of_uniform(low, high, f)
    local t = pn.linspace(-4, 4, 16001)
    local u = t:sinh() * (math.pi / 2)
    local share = (2 * u):sigmoid()
    local weight = share * (-2 * u):sigmoid() * t:cosh() * (math.pi * 8 / 16000)
    return (f(low + (high - low) * share) * weight):sum():item()
  end

  it("is that of quadrature near and far, on both sides of where series begin", function()
    local function check(got, want, ...)
      assert(math.abs(got - want) < 3e-14 * (1 + math.abs(want)), ("%s: %.17g, by quadrature %.17g"):format(
        table.concat({ ... }, " "), got, want))
    end
    -- the logistic's width is 2 pi 2.5, its series begins at ten of them; the uniform's at eight halves of its own
    for _, b in ipairs { 0.25, 3, 40, 100, 156.5, 157.5, 400 } do
      for _, a in ipairs { 0, 1.7, -20, 156.5, -157.5, 600 } do
        local q = dist.cauchy(a - 3, b)
        local want = of_logistic(-3, 2.5, function(x) return q:log_prob(x) end)
        local p = dist.logistic(-3, 2.5)
        check(dist.kl(p, q):item(), -want - p:entropy():item(), "logistic", a, b)
      end
    end
    for _, b in ipairs { 0.05, 0.3, 1, 5, 7.95, 8.05, 40 } do
      for _, a in ipairs { 0, 0.5, -1, 1.5, 7.95, -8.05, 100 } do
        local p, q = dist.uniform(1, 4), dist.cauchy(2.5 + 1.5 * a, 1.5 * b)
        local want = -math.log(3) - of_uniform(1, 4, function(x) return q:log_prob(x) end)
        check(dist.kl(p, q):item(), want, "uniform", a, b)
        q = dist.logistic(2.5 + 1.5 * a, b)
        want = -math.log(3) - of_uniform(1, 4, function(x) return q:log_prob(x) end)
        check(dist.kl(p, q):item(), want, "uniform and logistic", a, b)
      end
    end
  end)

  it("has the slopes of differences on both sides of where series begin", function()
    for _, b in ipairs { 0.4, 7, 12 } do
      for _, a in ipairs { 0.3, -9, 14 } do
        local w = { pn.param(a), pn.param(b), pn.param(1.3) }
        for _, p in ipairs { "logistic", "uniform" } do
          assert(pn.check_gradients(function()
            local law = p == "logistic" and dist.logistic(0.2, w[3] * 0.12) or dist.uniform(-0.3, w[3])
            local value = dist.kl(law, dist.cauchy(w[1], w[2]))
            return p == "logistic" and value or value + dist.kl(law, dist.logistic(w[1], w[2]))
          end, w, { order = 2 }))
        end
      end
    end
  end)

  it("of vectors and a normal comes from moments", function()
    local one = dist.multivariate_student_t { df = 4.5, loc = { 0.1 }, scale_tril = { { 0.8 } } }
    local q = dist.multivariate_normal { loc = { -0.4 }, scale_tril = { { 1.3 } } }
    near(dist.kl(one, q):item(), dist.kl(dist.student_t(4.5, 0.1, 0.8), dist.normal(-0.4, 1.3)):item(), 1e-12, "one")
    local p = dist.multivariate_student_t { df = { 5, 2, 1e9 }, loc = { 1, 0 }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
    q = dist.multivariate_normal { loc = { 0, 0 }, scale_tril = { { 2, 0 }, { -0.5, 2 } } }
    local kl = dist.kl(p, q)
    local m, e = both(dist.kl_monte_carlo(p, q, { draws = 200000, generator = pn.generator(3) }))
    assert(math.abs((m - kl):totable()[1]) < 6 * e:totable()[1] and e:totable()[1] < 0.02)
    assert.equal(math.huge, kl:totable()[2])
    local normal = dist.multivariate_normal { loc = { 1, 0 }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
    near(kl:totable()[3], dist.kl(normal, q):item(), 1e-7, "many degrees")
    local rows = dist.normal({ 0, 1 }, { 2, 1 })
    local dense = dist.multivariate_normal { loc = { 0, 1 }, scale_tril = { { 2, 0 }, { 0, 1 } } }
    near(dist.kl(p, rows:independent(1)):totable()[1], dist.kl(p, dense):totable()[1], 1e-12, "independent normals")
    local df, loc = pn.param(5), pn.param(pn.tensor { 1, 0 })
    assert(pn.check_gradients(function()
      return dist.kl(dist.multivariate_student_t { df = df, loc = loc, scale_tril = { { 1, 0 }, { 0.5, 2 } } }, q)
    end, { df, loc }, { order = 2 }))
  end)
end)

describe("the divergence of a point", function()
  it("is minus the log density or mass there", function()
    local at = dist.delta(pn.tensor { 0.5, 2 })
    for _, q in ipairs { dist.normal(0, 1), dist.gamma({ 2, 3 }, 1), dist.poisson(1.5),
      dist.mixture({ 0.5, 0.5 }, dist.normal({ 0, 1 }, 1)) } do
      local want = q:log_prob(at.loc):totable()
      for i, v in ipairs(dist.kl(at, q):totable()) do
        near(v, -want[i], 1e-14, q.name)
      end
    end
    assert.equal(math.huge, dist.kl(at, dist.beta(1, 2)):totable()[2])
    local joint = dist.multivariate_normal { loc = { 0, 1 }, covariance_matrix = { { 2, 1 }, { 1, 2 } } }
    near(dist.kl(at:independent(1), joint):item(), -joint:log_prob(at.loc):item(), 1e-14, "vectors")
    assert.same({ 3 }, dist.kl(at:independent(1), joint:expand { 3 }):shape())
    assert.same({ 4, 3 }, dist.kl(at:expand({ 4, 1, 2 }):independent(1), joint:expand { 3 }):shape())
    local loc = pn.param(pn.tensor { 0.5, 2 })
    assert(pn.check_gradients(function() return dist.kl(dist.delta(loc):independent(1), joint) end, { loc },
      { order = 2 }))
    refuses("must have one event shape", dist.kl, at, joint)
  end)
end)

describe("the divergence of a multivariate normal and independent normals", function()
  local joint = dist.multivariate_normal { loc = { 0.3, -1, 2 },
    covariance_matrix = { { 2, 0.5, -0.3 }, { 0.5, 1, 0.2 }, { -0.3, 0.2, 0.7 } } }
  local apart = dist.normal({ 0, 0.5, 1 }, { 0.5, 2, 1.5 })

  local function dense(d)
    return dist.multivariate_normal { loc = d:mean(), covariance_matrix = d:variance():diag_embed() }
  end

  it("is that of the dense one", function()
    local p, q = joint, apart:independent(1)
    near(dist.kl(p, q):item(), dist.kl(p, dense(q)):item(), 1e-12, "joint, apart")
    near(dist.kl(q, p):item(), dist.kl(dense(q), p):item(), 1e-12, "apart, joint")
    local common = dist.normal(pn.zeros { 3 }, 2):independent(1)
    near(dist.kl(p, common):item(), dist.kl(p, dense(common)):item(), 1e-12, "one scale for all")
    near(dist.kl(common, p):item(), dist.kl(dense(common), p):item(), 1e-12, "one scale for all")
    for _, pair in ipairs { { p, q }, { q, p } } do
      local m, e = both(dist.kl_monte_carlo(pair[1], pair[2], { draws = DRAWS, generator = pn.generator(2) }))
      assert(math.abs(m:item() - dist.kl(pair[1], pair[2]):item()) < 6 * e:item() and e:item() < 0.1)
    end
  end)

  it("is known wherever the multivariate one is", function()
    local low = dist.low_rank_multivariate_normal { loc = { 1, 2, 0 }, cov_factor = { { 1 }, { 0.5 }, { -1 } },
      cov_diag = { 0.5, 0.3, 1 } }
    local factor = pn.tensor { { 1 }, { 0.5 }, { -1 } }
    local full = dist.multivariate_normal { loc = { 1, 2, 0 },
      covariance_matrix = factor:matmul(factor:t()) + pn.tensor({ 0.5, 0.3, 1 }):diag_embed() }
    local q = apart:independent(1)
    near(dist.kl(low, q):item(), dist.kl(full, q):item(), 1e-12, "low rank, apart")
    near(dist.kl(q, low):item(), dist.kl(q, full):item(), 1e-12, "apart, low rank")
    local rows = dist.normal(pn.zeros { 4, 3 }, 1):independent(2)
    assert.same({ 2 }, dist.kl(low:expand({ 2, 4 }):independent(1), rows):shape())
    refuses("kl: there is no closed form for low_rank_multivariate_normal and normal", dist.kl, low, apart)
  end)

  it("has batches, more independent axes and slopes", function()
    local p, q = joint:expand { 4, 2 }, dist.normal(pn.zeros { 2, 3 }, 1)
    assert.same({ 4, 2 }, dist.kl(p, q:independent(1)):shape())
    local sum = dist.kl(p:independent(1), q:independent(2))
    assert.same({ 4 }, sum:shape())
    near(sum:totable()[1], dist.kl(p, q:independent(1)):totable()[1][1] * 2, 1e-12, "sum")
    refuses("kl: multivariate_normal and normal must have one event shape", dist.kl, joint, apart)
    local loc, scale = pn.param(pn.tensor { 0, 0.5 }), pn.param(pn.tensor { 0.5, 2 })
    local tril, at = pn.param(pn.tensor { { 1.5, 0 }, { 0.3, 0.7 } }), pn.param(pn.tensor { 1, -0.5 })
    assert(pn.check_gradients(function()
      local a, b = dist.multivariate_normal { loc = at, scale_tril = tril:tril() },
        dist.normal(loc, scale):independent(1)
      return dist.kl(a, b) + dist.kl(b, a)
    end, { loc, scale, tril, at }, { order = 2 }))
  end)
end)

describe("divergences the documents print", function()
  it("are these", function()
    -- thesis on Bayesian nets (spec-004): KL(N(0.3, 0.04) || N(0, 1/10))
    near(dist.kl(dist.normal(0.3, 0.2), dist.normal(0, math.sqrt(0.1))):item(), 0.608145365937078, 1e-12, "normal")
    -- regression datum of the PAC objective: variance s_1^2 + exp(m_2 + s_2^2 / 2), prior precision 1
    local v = 0.09 + math.exp(-1.2 + 0.25 / 2)
    near(dist.kl(dist.normal(0.4, math.sqrt(v)), dist.normal(0, 1)):item(), 0.216127167569, 1e-10, "datum")
    -- evidential learning: KL(Dir(a) || Dir(1))
    for _, case in ipairs { { { 1, 1, 1 }, 0 }, { { 2, 3, 5 }, 0.768034844169189 },
      { { 0.5, 1.5, 4 }, 1.50100238770459 },
      { { 10, 10, 10, 10, 10, 10, 10, 10, 10, 10 }, 6.95726935825627 }, { { 100, 1, 1 }, 6.55694550246743 } } do
      near(dist.kl(dist.dirichlet(case[1]), dist.dirichlet(pn.ones(#case[1]))):item(), case[2], 1e-12, "Dirichlet")
    end
    -- mean-field weights: 1/2 (alpha (mu^2 + sigma^2) - 1 - log(alpha sigma^2)), prior precision alpha
    local mu, sigma, alpha = 0.7, 0.3, 2.5
    near(dist.kl(dist.normal(mu, sigma), dist.normal(0, alpha ^ -0.5)):item(),
      0.5 * (alpha * (mu ^ 2 + sigma ^ 2) - 1 - math.log(alpha * sigma ^ 2)), 1e-12, "mean field")
  end)
end)

describe("KL of gammas", function()
  it("has golden values and slopes on both sides of each border of its formulas", function()
    local rows = pn.tensor((require "spec.golden.distribution.bend"))
    local p, q = pn.param(rows:select(2, 1):contiguous()), pn.param(rows:select(2, 2):contiguous())
    local kl = dist.kl(dist.gamma(p, 1), dist.gamma(q, 1))
    local g = pn.grad(kl:sum(), { p, q })
    local function check(got, column, slack)
      local want = rows:select(2, column)
      local over = (got - want):abs() - want:abs() * 1e-12
      assert.is_true(over:max():item() < slack)
    end
    check(kl, 3, 5e-16) -- of e(p) and e(q), which are below 1
    check(g[1], 4, 1e-15)
    check(g[2], 5, 1e-15)
  end)
end)
