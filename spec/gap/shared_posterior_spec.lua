-- The shared posterior against closed figures, quadrature and enumeration; the split of what a q loses; the univariate
-- example; normals fitted to mixtures.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local gap = pn.gap

local function near(want, got, limit)
  got = pn.is_tensor(got) and got:reshape({ -1 }):totable() or type(got) == "table" and got or { got }
  want = type(want) == "table" and want or { want }
  assert.equal(#want, #got)
  for k, v in ipairs(want) do assert.near(v, got[k], limit) end
end

describe("the shared posterior", function()
  it("of normals has the known moments and costs", function()
    local s = gap.shared_posterior { loc = { -1, 1 }, variance = { 0.25, 0.25 } }
    near({ 0, 0.25, 2 }, { s.loc:item(), s.variance:item(), s.gap:item() }, 1e-12)
    s = gap.shared_posterior { loc = { -1, 1 }, variance = { 0.25, 1 } }
    near({ -0.6, 0.4, 0.9115717757 }, { s.loc:item(), s.variance:item(), s.gap:item() }, 1e-10)
    local three = { loc = { -1, 0, 2 }, variance = { 0.5, 1, 0.25 }, weights = { 0.2, 0.3, 0.5 } }
    s = gap.shared_posterior(three)
    near({ 1.3333333333, 0.3703703704, 1.8807375782 }, { s.loc:item(), s.variance:item(), s.gap:item() }, 1e-10)
    s = gap.shared_posterior { loc = { { -1 }, { 0 }, { 2 } }, cov = { { { 0.5 } }, { { 1 } }, { { 0.25 } } },
      weights = three.weights }
    near({ 1.3333333333, 0.3703703704, 1.8807375782 }, { s.loc:item(), s.cov:item(), s.gap:item() }, 1e-10)
    -- two, equally likely: Bhattacharyya's distance
    near((1 + 1) ^ 2 / (4 * 1.25) + 0.5 * math.log(0.625 / 0.5),
      gap.shared_posterior { loc = { -1, 1 }, variance = { 0.25, 1 } }.gap, 1e-12)
  end)

  it("in two dimensions is what the plane says, with unequal weights and in batches", function()
    local loc = pn.tensor { { 0.5, -1 }, { -0.7, 0.2 }, { 0.1, 0.9 } }
    local cov = pn.tensor { { { 1, 0.3 }, { 0.3, 0.5 } }, { { 0.4, -0.2 }, { -0.2, 0.8 } }, { { 0.6, 0 }, { 0, 1.5 } } }
    local w = pn.tensor { 0.2, 0.5, 0.3 }
    local s = gap.shared_posterior { loc = loc, cov = cov, weights = w }
    local n, reach = 401, 8
    local line = pn.linspace(-reach, reach, n)
    local grid = pn.stack({ line:unsqueeze(2):broadcast_to { n, n }, line:unsqueeze(1):broadcast_to { n, n } }, -1)
    local logs = {}
    for k = 1, 3 do
      logs[k] = pn.dist.multivariate_normal { loc = loc[k], covariance_matrix = cov[k] }:log_prob(grid) * w[k]
    end
    local mixed = pn.stack(logs, 1):sum(1)
    local cell = (2 * reach / (n - 1)) ^ 2
    near(-(mixed:exp():sum() * cell):log():item(), s.gap, 1e-9)
    local p = (mixed - mixed:logsumexp({ 1, 2 })):exp()
    local mean = (p:unsqueeze(-1) * grid):sum { 1, 2 }
    near(mean:totable(), s.loc, 1e-9)
    local off = grid - mean
    local products = off:unsqueeze(-1) * off:unsqueeze(-2)
    near((p:unsqueeze(-1):unsqueeze(-1) * products):sum({ 1, 2 }):reshape({ -1 }):totable(), s.cov, 1e-9)
    -- a batch, with weights of each
    local twice = gap.shared_posterior { loc = pn.stack({ loc, loc:flip(1) }, 2),
      cov = pn.stack({ cov, cov:flip(1) }, 2), weights = pn.stack({ w, w }, 2) }
    near({ s.gap:item(), gap.shared_posterior { loc = loc:flip(1), cov = cov:flip(1), weights = w }.gap:item() },
      twice.gap, 1e-12)
    -- diagonal ones as dense ones
    local variance = pn.tensor { { 1, 0.5 }, { 0.4, 0.8 }, { 0.6, 1.5 } }
    near(gap.shared_posterior { loc = loc, cov = variance:diag_embed(), weights = w }.gap:item(),
      gap.shared_posterior { loc = loc, variance = variance, weights = w }.gap, 1e-12)
    local half = gap.shared_posterior { loc = loc:to "float32", variance = variance:to "float32",
      weights = w:to "float32" }
    assert.equal("float32", half.gap:dtype())
  end)

  it("of discrete laws may equal their mixture though they differ; the cost tells", function()
    local p = pn.tensor { { 2 / 3, 1 / 3 }, { 1 / 3, 2 / 3 } }
    local s = gap.shared_posterior { probs = p }
    near(0.0588915178, s.gap, 1e-10)
    near({ 0.5, 0.5 }, s.log_probs:exp(), 1e-15)
    near(0, gap.shared_posterior { probs = { { 0.3, 0.7 }, { 0.3, 0.7 } } }.gap, 1e-15)
    -- 0 <= -log Z <= E KL(p(z | C) || p(z | C, c)), strictly between for unequal laws
    local q, w = pn.tensor { { 0.7, 0.2, 0.1 }, { 0.1, 0.5, 0.4 }, { 0.2, 0.2, 0.6 } }, pn.tensor { 0.5, 0.2, 0.3 }
    s = gap.shared_posterior { probs = q, weights = w }
    local mixture = (w:unsqueeze(-1) * q):sum(1)
    local bayes = (w:unsqueeze(-1) * mixture * (mixture.log(mixture) - q:log())):sum():item()
    assert.is_true(s.gap:item() > 0.01 and s.gap:item() < bayes - 0.001)
    -- by hand
    local z = 0
    for k = 1, 3 do
      z = z + q[1][k]:item() ^ 0.5 * q[2][k]:item() ^ 0.2 * q[3][k]:item() ^ 0.3
    end
    near(-math.log(z), s.gap, 1e-14)
    -- what no condition allows is not allowed, unless the condition never occurs
    s = gap.shared_posterior { probs = { { 0.5, 0.5, 0 }, { 0.2, 0.4, 0.4 } } }
    near({ 0 }, s.log_probs[3]:exp(), 0)
    s = gap.shared_posterior { probs = { { 0.5, 0.5, 0 }, { 0.2, 0.4, 0.4 } }, weights = { 0, 1 } }
    near({ 0.2, 0.4, 0.4 }, s.log_probs:exp(), 1e-15)
    near(0, s.gap, 1e-15)
  end)

  it("by draws agrees within its standard error", function()
    local normal = pn.dist.normal
    local z = normal(0, 2):sample({ 200000 }, pn.generator(3))
    local logs = pn.stack({ normal(-1, 0.5):log_prob(z), normal(1, 1):log_prob(z) }, 1)
    local s = gap.shared_posterior { log_posteriors = logs, log_proposal = normal(0, 2):log_prob(z),
      weights = { 0.3, 0.7 } }
    local exact = gap.shared_posterior { loc = { -1, 1 }, variance = { 0.25, 1 }, weights = { 0.3, 0.7 } }
    assert.is_true(s.se:item() < 0.005)
    near(exact.gap:item(), s.gap, 5 * s.se:item())
    local w = s.log_weights:exp()
    near(1, w:sum(), 1e-10)
    near(exact.loc:item(), (w * z):sum(), 0.02)
    assert.is_true(s.effective_sample_size:item() > 1e4)
  end)

  -- The posteriors' numbers, the weights and q are leaves, each figure has a weight of its own.
  it("has gradients in all that it is made of, and the split, too", function()
    local function leaf(...) return pn.param(pn.randn({ ... }, { generator = pn.generator(#{ ... } + 1) })) end
    local loc, spread, root, logits, w = leaf(3, 2, 2), leaf(3, 2, 2), leaf(3, 2, 2, 2), leaf(3, 2, 4), leaf(3, 2)
    local at, width, share, a = leaf(2, 2), leaf(2, 2), leaf(2, 4), leaf(3)
    local function total(list)
      local sum = 0
      for k, v in ipairs(list) do
        sum = sum + ((v + 0):reshape { -1 } * (pn.arange(v:numel()) + k):cos()):sum()
      end
      return sum
    end
    local function value()
      local weights, list = w:softmax(1), {}
      local cov = root:matmul(root:transpose(-2, -1)) + pn.eye(2) * 0.5
      local normal = gap.shared_posterior { loc = loc, variance = spread:exp(), weights = weights }
      local full = gap.shared_posterior { loc = loc, cov = cov, weights = weights }
      local law = gap.shared_posterior { log_probs = logits, weights = weights }
      local drawn = gap.shared_posterior { log_posteriors = logits:transpose(-2, -1), log_proposal = share:t(),
        weights = weights }
      for _, t in ipairs { normal.loc, normal.variance, normal.gap, full.loc, full.cov, full.gap, law.log_probs,
        law.gap, drawn.log_weights, drawn.gap, drawn.se, drawn.effective_sample_size } do
        list[#list + 1] = t
      end
      local own = { loc = at, cov = cov[1] }
      for _, family in ipairs { "full", "diagonal" } do
        for _, case in ipairs { { normal, { loc = at, variance = width:exp() } }, { full, own },
          { full, { loc = at, variance = width:exp() } }, { law, { log_probs = share:log_softmax(-1) } },
          { law, { probs = share:softmax(-1) } } } do
          local s = gap.split(case[1], case[2], { family = family })
          for _, name in ipairs { "conditioning", "approximation", "amortisation", "total" } do
            list[#list + 1] = s[name]
          end
        end
      end
      local u = gap.univariate { transition = a, noise_variance = 0.3, data_variance = 2 }
      for _, name in ipairs { "posterior_variance", "log_likelihood", "bound", "gap", "bound_gradient" } do
        list[#list + 1] = u[name]
      end
      return total(list)
    end
    assert(pn.check_gradients(value, { loc, spread, root, logits, w, at, width, share, a }))
  end)

  it("says what is wrong", function()
    local f = gap.shared_posterior
    assert.truthy(message_of(f, { loc = { 0, 1 }, variance = { 1, -1 } }):find("variance must be positive", 1, true))
    assert.truthy(message_of(f, { loc = { 0, 1 }, variance = { 1, 1 }, weights = { 1, 1 } }):find(
      "weights must be probabilities that sum to 1", 1, true))
    assert.truthy(message_of(f, { loc = { 0, 1 }, variance = { 1, 1 }, weights = { 1 } }):find("weights must be [2]", 1,
      true))
    assert.truthy(message_of(f, { loc = { 0, 1 } }):find("give loc and variance", 1, true))
    local half, square = { { 0.5, 0.5 }, { 0.2, 0.8 } }, pn.ones { 2, 1, 1 }
    for _, both in ipairs { { probs = half, log_probs = pn.tensor(half):log() }, { log_posteriors = square },
      { log_proposal = square }, { loc = square, variance = square, cov = square }, { variance = square }, {} } do
      assert.truthy(message_of(f, both):find("give loc and variance, loc and cov, probs, log_probs", 1, true))
    end
    assert.truthy(message_of(f, { probs = { { 1, 1 }, { 0, 1 } } }):find("sum to 1 along the last axis", 1, true))
    local two, wide = { { 0, 1 }, { 2, 3 } }, pn.eye(2):unsqueeze(1):tile { 2, 1, 1 }
    local log = pn.tensor(half):log()
    local zeros = pn.zeros { 2, 3 }
    for want, all in pairs {
      ["variance must be shaped like loc, [2, 2], got [2]"] = { { loc = two, variance = { 1, 1 } } },
      ["weights must be [2] or that with the batch's axes behind, got "] = { { loc = two, variance = { { 1, 1 },
        { 1, 1 } }, weights = pn.ones { 2, 2, 2 } / 2 }, { loc = two, variance = { { 1, 1 }, { 1, 1 } },
        weights = { 0.5, 0.3, 0.2 } }, { probs = half, weights = pn.ones {} }, { probs = half,
        weights = pn.ones { 2, 2 } / 2 } },
      ["weights must be float64 as the posteriors are, got float32"] = { { probs = half,
        weights = pn.tensor({ 0.5, 0.5 }):to "float32" } },
      ["weights must be probabilities that sum to 1"] = { { probs = half, weights = { 1.5, -0.5 } }, { probs = half,
        weights = { 0.5, 0.500002 } } },
      ["variance must be positive"] = { { loc = { 0, 1 }, variance = { 1, 0 } } },
      ["loc must be [K, ..., n] and cov [K, ..., n, n]"] = { { loc = { 0, 1 }, cov = { { 1, 0 }, { 0, 1 } } },
        { loc = { 0 }, cov = { { 1 } } }, { loc = two, cov = pn.eye(2) }, { loc = two, cov = wide:slice(3, 1, 1) },
          { loc = two,
        cov = wide:slice(2, 1, 1) }, { loc = two, cov = wide:slice(1, 1, 1) }, { loc = two, cov = wide:unsqueeze(1) } },
      ["sum to 1 along the last axis"] = { { probs = { { 1.5, -0.5 }, { 0, 1 } } }, { probs = { { 0.5, 0.50002 },
        { 0, 1 } } } },
      ["probabilities must be [K, ..., n], got [2]"] = { { probs = { 0.5, 0.5 } }, { log_probs = log[1] } },
      ["log_posteriors must be [K, S, ...] and log_proposal [S, ...]"] = { { log_posteriors = log[1],
        log_proposal = log[1][1] }, { log_posteriors = log, log_proposal = log }, { log_posteriors = zeros,
        log_proposal = pn.zeros { 2 } } },
    } do
      for k, given in ipairs(all) do assert.truthy(message_of(f, given):find(want, 1, true), want .. " " .. k) end
    end
    f { probs = half, weights = { 0.5, 0.5000005 } } -- beside rounding
    f { probs = { { 0.5, 0.500005 }, { 0, 1 } } }
    near(f({ probs = half, weights = { 0.3, 0.7 } }).gap:item(), f({ log_probs = log + pn.tensor { { 3 }, { -1 } },
      weights = { 0.3, 0.7 } }).gap, 1e-14) -- logarithms up to a constant of each law
    near(0, f({ log_posteriors = zeros, log_proposal = pn.zeros { 3 } }).gap, 1e-15)
    local omega = f { loc = two, variance = { { 1, 1 }, { 1, 1 } } }
    for want, given in pairs { ["q must have one of variance and cov"] = { omega, { loc = omega.loc,
      variance = omega.loc,
        cov = wide[1] } }, ["q must be of 2 numbers as omega is, got loc [1]"] = { omega, { loc = pn.ones { 1 },
        variance = pn.ones { 2 } } }, ["q must be of 2 numbers as omega is, got loc [2]"] = { omega,
        { loc = pn.ones { 2 }, variance = pn.ones { 3 } } },
      ["q must have probs or log_probs"] = { f { probs = half }, {} },
      ["omega must be what shared_posterior gives for normals"] = { f { log_posteriors = log, log_proposal = log[1] },
        {} } } do
      assert.truthy(message_of(gap.split, given[1], given[2]):find(want, 1, true), want)
    end
    for _, o in ipairs { { noise_variance = 0.0 }, { data_variance = 0.0 }, { noise_variance = -1.0 } } do
      o.transition = 0.3
      assert.truthy(message_of(gap.univariate, o):find("noise_variance and data_variance must be positive", 1, true))
    end
    assert.equal(0, gap.univariate({ transition = 0.3, noise_variance = 2.0, data_variance = 2.0 }).optimum)
    near(1, gap.univariate({ transition = 0.3, noise_variance = 1.0, data_variance = 2.0 }).optimum, 0)
    near(0.9 ^ 0.5, gap.univariate({ transition = 0.3 }).optimum, 1e-15)
    assert.truthy(message_of(f, { loc = { { 0 }, { 1 } }, cov = { { { 1 } }, { { -1 } } } }):find(
      "cov must be positive definite", 1, true))
  end)
end)

describe("the split", function()
  it("adds up to the expected divergence from each posterior", function()
    local loc = pn.tensor { { 0.5, -1 }, { -0.7, 0.2 } }
    local cov = pn.tensor { { { 1, 0.3 }, { 0.3, 0.5 } }, { { 0.4, -0.2 }, { -0.2, 0.8 } } }
    local w = pn.tensor { 0.3, 0.7 }
    local omega = gap.shared_posterior { loc = loc, cov = cov, weights = w }
    local q = { loc = pn.tensor { 0.1, 0.2 }, variance = pn.tensor { 0.3, 0.9 } }
    local law = pn.dist.multivariate_normal { loc = q.loc, covariance_matrix = q.variance:diag_embed() }
    local total = 0
    for k = 1, 2 do
      total = total + w[k]:item() * pn.dist.kl(law, pn.dist.multivariate_normal { loc = loc[k],
        covariance_matrix = cov[k] }):item()
    end
    for _, family in ipairs { "full", "diagonal" } do
      local s = gap.split(omega, q, { family = family })
      near(total, s.total, 1e-12)
      near(total, s.conditioning + s.approximation + s.amortisation, 1e-12)
      assert.is_true(s.amortisation:item() >= 0)
      assert.equal(family == "diagonal", s.approximation:item() > 1e-3)
    end
    -- the best diagonal q is one that nothing near is better than
    local best = { loc = omega.loc, variance = omega.cov:inverse():diagonal():reciprocal() }
    local s = gap.split(omega, best, { family = "diagonal" })
    near(0, s.amortisation, 1e-12)
    for _, factor in ipairs { 0.9, 1.1 } do
      assert.is_true(gap.split(omega, { loc = best.loc, variance = best.variance * factor }, { family = "diagonal" })
        .amortisation:item() > 1e-4)
    end
    near(0, gap.split(omega, { loc = omega.loc, cov = omega.cov }).amortisation, 1e-12)
    local p = gap.shared_posterior { probs = { { 0.2, 0.8 }, { 0.6, 0.4 } } }
    s = gap.split(p, { probs = pn.tensor { 0.5, 0.5 } })
    near(0.5 * (0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.6)
      + 0.5 * math.log(0.5 / 0.4)), s.total, 1e-14)
    near(0, s.approximation, 0) -- any law of two values is in the family
    near(pn.dist.kl(pn.dist.categorical { 0.5, 0.5 }, pn.dist.categorical { logits = p.log_probs }):item(),
      s.amortisation, 1e-14)
    assert.truthy(message_of(gap.split, omega, { loc = q.loc }):find("q must have one of variance and cov", 1, true))
  end)
end)

describe("the univariate example", function()
  it("has the known bounds, which fall with a", function()
    local a = pn.tensor { math.sqrt(0.9), 0, 0.5, 0.1, 0.3 }
    local u = gap.univariate { transition = a }
    near({ -5.9189385332, -4.7676459867, -5.3940274710, -4.8153010766, -5.0885729298 }, u.bound, 1e-10)
    near({ -1.4189385332, -4.7676459867, -1.8225988995, -4.3607556221, -2.7201518772 }, u.log_likelihood, 1e-10)
    near((u.log_likelihood - u.bound):totable(), u.gap, 1e-12)
    near({ 4.5, -0.9486833 }, { u.gap[1]:item(), u.bound_gradient[1]:item() }, 1e-7)
    near(0.1, u.posterior_variance[1], 1e-12)
    near(math.sqrt(0.9), u.optimum, 1e-15)
    -- the best q and its bound, from densities alone
    local node, weight = pn.linspace(-9, 9, 1801), 0.01
    local function bound(x2, a1, r, v) -- E over x of E_q[log p(x, z) - log q]
      local z = node * v ^ 0.5
      local q = pn.dist.normal(0, v ^ 0.5):log_prob(z)
      local joint = ((z * a1):square() + x2) * (-0.5 / r) - 0.5 * math.log(2 * math.pi * r)
        + pn.dist.normal(0, 1):log_prob(z)
      return (q:exp() * (joint - q)):sum():item() * weight * v ^ 0.5
    end
    local o = gap.univariate { transition = 0.7, noise_variance = 0.3, data_variance = 2 }
    local v = o.posterior_variance:item()
    near(bound(2, 0.7, 0.3, v), o.bound, 1e-9)
    for _, other in ipairs { 0.9 * v, 1.1 * v } do
      assert.is_true(bound(2, 0.7, 0.3, other) < o.bound:item() - 1e-4)
    end
    local w = pn.param(pn.tensor { 0.4, 1.2 })
    near(pn.grad(gap.univariate({ transition = w }).bound:sum(), { w })[1]:totable(),
      gap.univariate({ transition = w }).bound_gradient, 1e-12)
  end)
end)

describe("a normal fitted to a mixture of two", function()
  local rows = {
    { 0.30, shared = 3.4930412, one = { 0.9985391, 0.3024282, 0.6918360 }, both = { 0.8951393, 1.1383819 } },
    { 0.34, one = { 0.9934344, 0.3495710, 0.6877542 }, both = { nil, 0.7928790 } },
    { 0.36, one = { 0.9874580, 0.3771674, 0.6835357 }, both = { nil, 0.6678603 } },
    { 0.40, one = { 0.9544376, 0.4545826, 0.6664630 }, both = { nil, 0.4810618 } },
    { 0.42, both = { 0.9693023, 0.4109451 } },
    { 0.50, shared = 0.9433404, both = { 1.0235047, 0.2265079 } },
    { 1.00, shared = 0.1254328, both = { 1.3937322, 0.0108879 } },
  }
  it("covers one mode where they are narrow, both where they are wide", function()
    for _, row in ipairs(rows) do
      local f = gap.marginal_fit { loc = { -1, 1 }, scale = { row[1], row[1] } }
      local one, both
      for _, m in ipairs(f.minima) do
        if math.abs(m.loc) < 1e-6 then both = m elseif m.loc > 0 then one = m end
      end
      if row.shared then near(row.shared, f.shared.kl, 1e-7) end
      near({ 0, row[1] }, { f.shared.loc, f.shared.scale }, 1e-12)
      near(row.both[2], both.kl, 1e-7)
      if row.both[1] then near(row.both[1], both.scale, 1e-7) end
      assert.equal(row.one ~= nil, one ~= nil)
      if one then near(row.one, { one.loc, one.scale, one.kl }, 1e-7) end
      assert.equal(row[1] <= 0.34, math.abs(f.best.loc) > 0.5) -- the best switches between 0.34 and 0.36
    end
  end)
end)

describe("a normal fitted to any mixture", function()
  local function log_normal(z, loc, scale)
    return ((z - loc) / scale):square() * -0.5 - (scale * math.sqrt(2 * math.pi)):log()
  end

  -- KL(N(loc, scale^2) || mixture) on places that do not move with the normal; loc, scale [...].
  local function kl(m, loc, scale, nodes)
    local low, high = -14, 14
    local z, parts = pn.linspace(low, high, nodes or 1401), {}
    for k = 1, #m.loc do
      parts[k] = log_normal(z, m.loc[k], pn.tensor(m.scale[k])) + math.log(m.weights[k])
    end
    local q = log_normal(z, loc:unsqueeze(-1), scale:unsqueeze(-1))
    return (q:exp() * (q - pn.stack(parts, 1):logsumexp(1))):sum(-1) * ((high - low) / (z:numel() - 1))
  end

  -- How many places of a grid lie below their eight neighbours.
  local function valleys(m)
    local rows, columns = 81, 61
    local loc = pn.linspace(-2, 2, rows):unsqueeze(2) + pn.zeros { 1, columns }
    local scale = pn.linspace(math.log(0.2), math.log(2), columns):exp():unsqueeze(1) + pn.zeros { rows, 1 }
    local v = kl(m, loc, scale, 281)
    local inner, least = v:slice(1, 2, rows - 1):slice(2, 2, columns - 1), nil
    for i = 1, 3 do
      for j = 1, 3 do
        local beside = v:slice(1, i, rows - 3 + i):slice(2, j, columns - 3 + j)
        if i ~= 2 or j ~= 2 then least = least and least:minimum(beside) or beside end
      end
    end
    return inner:lt(least):sum():item()
  end

  local mixtures = { { loc = { -1, 1 }, scale = { 0.3, 0.31 }, weights = { 0.45, 0.55 } },
    { loc = { -1.2, 0.9 }, scale = { 0.5, 0.3 }, weights = { 0.3, 0.7 } }, { loc = { 0.7 }, scale = { 0.6 },
      weights = { 1 } }, -- the last one's middle valley is reached from its moments alone
    { loc = { 1.84, -1.24 }, scale = { 0.28, 0.28 }, weights = { 0.41, 0.59 } } }

  it("with unequal weights and scales lies where nothing near is lower, once for each valley", function()
    for _, m in ipairs(mixtures) do
      local f = gap.marginal_fit(m)
      assert.equal(valleys(m), #f.minima)
      for k, found in ipairs(f.minima) do
        local step = 1e-3
        local at = kl(m, pn.tensor { found.loc, found.loc - step, found.loc + step, found.loc, found.loc },
          pn.tensor { found.scale, found.scale, found.scale, found.scale - step, found.scale + step }):totable()
        near(at[1], found.kl, 1e-9)
        near({ 0, 0 }, { (at[3] - at[2]) / (2 * step), (at[5] - at[4]) / (2 * step) }, 2e-5)
        assert.is_true(math.min(at[2], at[3], at[4], at[5]) > at[1])
        assert.is_true(k == 1 or found.kl >= f.minima[k - 1].kl)
      end
      assert.equal(f.minima[1], f.best)
      local variance = {}
      for k, s in ipairs(m.scale) do variance[k] = s * s end
      local omega = gap.shared_posterior { loc = m.loc, variance = variance, weights = m.weights }
      near({ omega.loc:item(), omega.variance:item() }, { f.shared.loc, f.shared.scale ^ 2 }, 1e-12)
      near(kl(m, omega.loc, omega.variance:sqrt()):item(), f.shared.kl, 1e-9)
    end
  end)

  it("says what is wrong with a mixture", function()
    for text, given in pairs {
      ["marginal_fit: weights must be 2 positive numbers that sum to 1"] = { loc = { 0, 1 }, scale = { 1, 1 },
        weights = { 1.5, -0.5 } },
      ["marginal_fit: weights must be 3 positive numbers"] = { loc = { 0, 1, 2 }, scale = { 1, 1, 1 },
        weights = { 0.5, 0.5 } },
      ["marginal_fit: weights must be 1 positive numbers"] = { loc = { 0 }, scale = { 1 }, weights = { 0.9 } },
      ["marginal_fit: loc and scale must be lists of one length"] = { loc = { 0, 1 }, scale = { 1 } },
      ["one length, scale positive"] = { loc = { 0, 1 }, scale = { 1, -1 } },
    } do
      assert.truthy(message_of(gap.marginal_fit, given):find(text, 1, true))
    end
  end)

  it("is the same wherever 0 lies, and in any unit", function()
    -- (of these three one valley is not reached)
    local three = { loc = { -2, 0, 2 }, scale = { 0.2, 0.2, 0.2 }, weights = { 0.38, 0.2, 0.42 } }
    for _, m in ipairs { mixtures[1], mixtures[2], mixtures[3], mixtures[4], three } do
      local loc, scale, by, unit = {}, {}, 1e5, 100
      for k in ipairs(m.loc) do loc[k], scale[k] = m.loc[k] * unit + by, m.scale[k] * unit end
      local f, other = gap.marginal_fit(m), gap.marginal_fit { loc = loc, scale = scale, weights = m.weights }
      assert.equal(#f.minima, #other.minima)
      for k, found in ipairs(f.minima) do
        near({ found.kl, found.loc, found.scale }, { other.minima[k].kl, (other.minima[k].loc - by) / unit,
          other.minima[k].scale / unit }, 1e-6)
      end
    end
  end)
end)
