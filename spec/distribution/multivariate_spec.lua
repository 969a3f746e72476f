-- Distributions of vectors and matrices: projections of draws against laws that are known, divergences across kinds,
-- and identities between rows.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist
local N = 100000

local function numbers(t, out)
  out = out or {}
  for _, v in ipairs(type(t) == "table" and t or { t }) do
    if type(v) == "table" then
      numbers(v, out)
    else
      out[#out + 1] = v
    end
  end
  return out
end

local function near(got, want, rel, what)
  got = type(got) == "userdata" and numbers(got:totable()) or numbers(got)
  want = type(want) == "userdata" and numbers(want:totable()) or numbers(want)
  assert(#got == #want, ("%s: %d numbers, expected %d"):format(what or "", #got, #want))
  for i, w in ipairs(want) do
    assert(math.abs(got[i] - w) <= rel * math.max(1, math.abs(w)),
      ("%s: number %d is %.17g, expected %.17g"):format(what or "", i, got[i], w))
  end
end

-- Kolmogorov's distance of u from uniform, times sqrt(n), is above 3.23 with probability 2e-9.
local function has_law(law, x, what)
  local u = law:cdf(x:reshape { -1 }):sort()
  local n = u:numel()
  local rank = pn.arange(n)
  local distance = math.max(((rank + 1) / n - u):max():item(), (u - rank / n):max():item()) * math.sqrt(n)
  assert(distance < 3.23, ("%s: Kolmogorov-Smirnov %g"):format(what, distance))
end

-- E_p[log p - log q] by draws is `value` within 6 standard errors.
local function kl_by_draws(p, q, value, seed)
  local x = p:sample { N, generator = pn.generator(seed) }
  local t = p:log_prob(x) - q:log_prob(x)
  local m, se = t:mean():item(), t:std():item() / math.sqrt(N)
  assert(6 * se < 0.1 * value, "the interval is too wide to mean something")
  assert(math.abs(m - value) < 6 * se, ("%g is not within 6 * %g of %g"):format(m, se, value))
end

describe("dirichlet", function()
  local function share(x, i)
    return x:slice(-1, i, i)
  end

  it("has beta shares and sums of shares", function()
    for k, a in ipairs { { 2, 3, 5 }, { 0.5, 0.3, 4 }, { 0.05, 0.1, 0.2 }, { 1e4, 2e4, 5e3 } } do
      local x = dist.dirichlet(a):sample { N, generator = pn.generator(k) }
      local rest = a[1] + a[2] + a[3]
      for i, v in ipairs(a) do
        has_law(dist.beta(v, rest - v), share(x, i), "share " .. i)
      end
      has_law(dist.beta(a[1] + a[2], a[3]), share(x, 1) + share(x, 2), "sum of shares")
    end
  end)

  it("draws inside the open simplex at 1e-3 and 1e4, with finite slopes", function()
    for _, v in ipairs { 1e-3, 1e4 } do
      local a = pn.param(pn.full({ 5 }, v))
      local x = dist.dirichlet(a):rsample { 20000, generator = pn.generator(3) }
      assert.is_true(x:min():item() > 0 and x:max():item() < 1)
      near(x:sum { -1 }, pn.ones { 20000 }, 1e-12)
      assert.is_true(pn.grad((x * pn.arange(5)):sum(), { a })[1]:isfinite():all():item())
      local f = dist.dirichlet(pn.full({ 5 }, v, { dtype = "float32" })):sample { 20000 }
      assert.is_true(f:min():item() > 0 and f:max():item() < 1)
    end
  end)

  it("of two shares is beta", function()
    local x = pn.linspace(0.01, 0.99, 50)
    local d, b = dist.dirichlet { 2.5, 0.7 }, dist.beta(2.5, 0.7)
    near(d:log_prob(pn.stack({ x, 1 - x }, -1)), b:log_prob(x), 1e-12)
    near(d:entropy(), b:entropy(), 1e-12)
    near(dist.kl(d, dist.dirichlet { 1, 4 }), dist.kl(b, dist.beta(1, 4)), 1e-12)
  end)

  it("has a mode at a corner or face where concentrations are small", function()
    near(dist.dirichlet({ 0.2, 0.9, 0.5 }):mode(), { 0, 1, 0 }, 0)
    near(dist.dirichlet({ 1, 1 }):mode(), { 0.5, 0.5 }, 0)
    near(dist.dirichlet({ 3, 0.5, 2 }):mode(), { 2 / 3, 0, 1 / 3 }, 1e-15)
  end)
end)

describe("low_rank_multivariate_normal", function()
  it("has a row of the batch for each mean, factor and diagonal, or one of these for all", function()
    local g = pn.generator(4)
    local function some(lead, ...)
      local shape = table.move({ ... }, 1, select("#", ...), #lead + 1, table.move(lead, 1, #lead, 1, {}))
      return pn.randn(shape, { generator = g })
    end
    for _, a in ipairs { {}, { 4 } } do
      for _, b in ipairs { {}, { 4 }, { 2, 1 } } do
        for _, c in ipairs { {}, { 4 }, { 2, 4 } } do
          local loc, factor, variance = some(a, 3), some(b, 3, 2), (some(c, 3) * 0.5):exp()
          local d = dist.low_rank_multivariate_normal(loc, factor, variance)
          local full = dist.multivariate_normal { loc = loc,
            covariance_matrix = factor:matmul(factor:transpose(-2, -1)) + variance:diag_embed() }
          assert.same(full.batch_shape, d.batch_shape)
          local x = some(d.batch_shape, 3)
          for _, name in ipairs { "log_prob", "entropy", "variance" } do
            local at = name == "log_prob" and x or nil
            local got, want = d[name](d, at), full[name](full, at)
            assert.same(want:shape(), got:shape(), name)
            assert.is_true((got - want):abs():max():item() < 1e-11, name)
          end
        end
      end
    end
  end)

  local loc, diag = { 0.3, -1, 0.5 }, pn.tensor { 0.5, 1.5, 0.25 }
  local w = pn.tensor { { 0.8, 0.3 }, { -0.4, 0.9 }, { 1.5, 0.2 } }
  local low = dist.low_rank_multivariate_normal(loc, w, diag)
  local full = dist.multivariate_normal(loc, w:matmul(w:t()) + pn.eye(3) * diag)
  local other_low = dist.low_rank_multivariate_normal({ 0, 0, 1 }, { { 1 }, { 0.5 }, { -1 } }, { 1, 0.5, 2 })
  local v = pn.tensor { { 1 }, { 0.5 }, { -1 } }
  local other_full = dist.multivariate_normal({ 0, 0, 1 }, v:matmul(v:t()) + pn.eye(3) * pn.tensor { 1, 0.5, 2 })

  it("is the normal with that covariance", function()
    local x = pn.randn({ 100, 3 }, { generator = pn.generator(1) }) * 3
    near(low:log_prob(x), full:log_prob(x), 1e-12)
    near(low:entropy(), full:entropy(), 1e-12)
    near(low:variance(), full:variance(), 1e-12)
    near(dist.kl(low, full), 0, 1e-12)
    near(dist.kl(full, low), 0, 1e-12)
    local pairs_of = { { low, other_low }, { low, other_full }, { full, other_low } }
    for _, pair in ipairs(pairs_of) do
      near(dist.kl(pair[1], pair[2]), dist.kl(full, other_full), 1e-12)
      kl_by_draws(pair[1], pair[2], dist.kl(full, other_full):item(), 3)
    end
  end)

  it("has gradients of its divergences across kinds", function()
    local a, b, l = pn.param(w), pn.param(diag), pn.param(full.scale_tril)
    for _, way in ipairs { false, true } do
      assert(pn.check_gradients(function()
        local p = dist.low_rank_multivariate_normal(loc, a, b:exp())
        local q = dist.multivariate_normal { loc = { 0, 0, 1 }, scale_tril = l:tril() }
        return way and dist.kl(p, q) or dist.kl(q, p)
      end, { a, b, l }, { order = 2 }))
    end
  end)

  it("draws with normal projections and chi-square distances", function()
    local x = low:sample { N, generator = pn.generator(5) }
    local u = pn.tensor { 0.3, -1, 0.7 }
    local cov = full.covariance_matrix
    local spread = math.sqrt(u:matmul(cov):matmul(u):item())
    has_law(dist.normal((u * pn.tensor(loc)):sum():item(), spread), x:matmul(u), "projection")
    local z = (x - pn.tensor(loc)):t()
    has_law(dist.chi2(3), (z * cov:solve(z)):sum { 1 }, "distance")
  end)

  it("serves 200 components with 3 factors", function()
    local g = pn.generator(9)
    local factor = pn.randn({ 200, 3 }, { generator = g })
    local big = dist.low_rank_multivariate_normal(pn.zeros { 200 }, factor, pn.ones { 200 } * 0.1)
    local x = big:sample { 10, generator = g }
    local dense = factor:matmul(factor:t()) + pn.eye(200) * 0.1
    near(big:log_prob(x), dist.multivariate_normal(pn.zeros { 200 }, dense):log_prob(x), 1e-9)
  end)
end)

describe("normal_inverse_gamma", function()
  local d = dist.normal_inverse_gamma(0.4, 2, 3, 2.5)

  it("draws variances that are inverse gamma and means that are Student's t", function()
    local x = d:sample { N, generator = pn.generator(1) }
    has_law(dist.inverse_gamma(3, 2.5), x:slice(-1, 2, 2), "variance")
    has_law(dist.student_t(6, 0.4, math.sqrt(2.5 / 3 / 2)), x:slice(-1, 1, 1), "mean")
    has_law(dist.normal(0, 1), (x:slice(-1, 1, 1) - 0.4) / (x:slice(-1, 2, 2) / 2):sqrt(), "mean given variance")
  end)

  it("is the product of its two factors", function()
    local x = d:sample { 50, generator = pn.generator(2) }
    local mu, v = x:select(-1, 1), x:select(-1, 2)
    near(d:log_prob(x), dist.inverse_gamma(3, 2.5):log_prob(v) + dist.normal(0.4, (v / 2):sqrt()):log_prob(mu), 1e-12)
  end)

  it("predicts by Student's t: the density of y averaged over draws", function()
    local x = d:sample { N, generator = pn.generator(4) }
    local y = dist.normal(x:select(-1, 1), x:select(-1, 2):sqrt()):log_prob(pn.full({ N }, 1.3)):exp()
    local exact = dist.student_t(6, 0.4, math.sqrt(2.5 * 3 / (2 * 3))):log_prob(1.3):exp():item()
    assert(math.abs(y:mean():item() - exact) < 6 * y:std():item() / math.sqrt(N))
  end)
end)

local function entry(x, i, j)
  return x:select(-2, i):select(-1, j)
end

describe("wishart", function()
  local v = pn.tensor { { 2, 0.6, 0.1 }, { 0.6, 0.5, -0.1 }, { 0.1, -0.1, 1.2 } }
  local u = pn.tensor { 0.4, -1, 0.3 }

  it("draws with chi-square forms and chi-square pivots", function()
    for k, df in ipairs { 3.5, 9, 1e4 } do
      local x = dist.wishart(df, v):sample { N, generator = pn.generator(k) }
      has_law(dist.gamma(df / 2, 0.5 / u:matmul(v):matmul(u):item()), x:matmul(u):matmul(u), "u^T X u")
      has_law(dist.gamma(df / 2, 0.5 / 0.5), entry(x, 2, 2), "a diagonal entry")
      -- 1 / (X^-1)_nn is chi-square with df - n + 1, times 1 / (V^-1)_nn: the last pivot
      local pivot = entry(x:cholesky(), 3, 3) ^ 2 / v:cholesky()[{ 3, 3 }]:item() ^ 2
      has_law(dist.chi2(df - 2), pivot, "last pivot")
    end
  end)

  it("is the law of sums of squares of normals", function()
    local z = dist.multivariate_normal(pn.zeros { 3 }, v):sample { 20000, 5, generator = pn.generator(6) }
    local x = z:transpose(-2, -1):matmul(z)
    local mean, se = dist.wishart(5, v):log_prob(x):mean():item(), 6 * dist.wishart(5, v):log_prob(x):std():item() / 141
    assert(math.abs(mean + dist.wishart(5, v):entropy():item()) < se)
  end)

  it("of one by one is gamma, its inverse inverse gamma", function()
    local x = pn.linspace(0.1, 9, 40)
    local column = x:reshape { 40, 1, 1 }
    near(dist.wishart(3, { { 0.7 } }):log_prob(column), dist.gamma(1.5, 0.5 / 0.7):log_prob(x), 1e-12)
    near(dist.inverse_wishart(3, { { 0.7 } }):log_prob(column), dist.inverse_gamma(1.5, 0.35):log_prob(x), 1e-12)
    local p, q = dist.wishart(3, { { 0.7 } }), dist.wishart(5, { { 0.2 } })
    near(dist.kl(p, q), dist.kl(dist.gamma(1.5, 0.5 / 0.7), dist.gamma(2.5, 0.5 / 0.2)), 1e-12)
  end)

  it("gives matrices that are singular to rounding density 0, and no error", function()
    local eye = pn.eye(3, { dtype = "float32" })
    for _, d in ipairs {
      dist.wishart(3, eye), dist.inverse_wishart(3, eye), dist.normal_inverse_wishart(eye[1] * 0, 1, 3, eye),
    } do
      local x = d:sample { N, generator = pn.generator(2) }
      local lp = d:log_prob(x)
      assert.equal(0, lp:isnan():sum():item())
      local none = lp:isinf():sum():item()
      assert(none > 0 and none < 0.02 * N, ("%s: %d draws"):format(d.name, none))
    end
  end)

  it("refuses too few degrees of freedom by name, also where they are a batch", function()
    for _, name in ipairs { "wishart", "inverse_wishart" } do
      for _, df in ipairs { 2, pn.tensor { 5, 1.5 } } do
        local ok, message = pcall(dist[name], df, v)
        assert.is_false(ok)
        assert.matches(name .. ": df %- %(n %- 1%) must be positive, got %-?0", message)
      end
    end
  end)
end)

describe("inverse_wishart", function()
  local s = pn.tensor { { 2, 0.6 }, { 0.6, 0.5 } }

  it("draws inverses of wishart draws", function()
    for k, df in ipairs { 2.5, 7, 1e4 } do
      local x = dist.inverse_wishart(df, s):sample { N, generator = pn.generator(k) }
      has_law(dist.inverse_gamma((df - 1) / 2, 0.5 * 0.5), entry(x, 2, 2), "a diagonal entry")
      -- u^T X^-1 u over u^T S^-1 u is chi-square(df)
      local u = pn.tensor { 0.4, -1 }
      local precision = x:inverse()
      has_law(dist.chi2(df), precision:matmul(u):matmul(u) / s:inverse():matmul(u):matmul(u):item(), "u^T X^-1 u")
    end
  end)

  it("has the density of inverses: |d X^-1 / d X| = det X^-(n + 1)", function()
    local x = dist.inverse_wishart(5, s):sample { 100, generator = pn.generator(8) }
    local w = dist.wishart { df = 5, scale_matrix = s:inverse() }
    near(dist.inverse_wishart(5, s):log_prob(x), w:log_prob(x:inverse()) - 3 * x:logdet(), 1e-9)
  end)
end)

describe("normal_inverse_wishart", function()
  local loc, s = pn.tensor { 0.3, -1 }, pn.tensor { { 2, 0.6 }, { 0.6, 0.5 } }
  local d = dist.normal_inverse_wishart(loc, 2, 6, s)
  local x = d:sample { N, generator = pn.generator(1) }
  local mu, cov = x:select(-2, 1), x:slice(-2, 2, 3)

  it("draws covariances that are inverse Wishart and means that are Student's t", function()
    has_law(dist.inverse_gamma(2.5, 1), entry(cov, 1, 1), "variance")
    has_law(dist.student_t(5, 0.3, math.sqrt(2 / (2 * 5))), mu:select(-1, 1), "mean")
    local z = (mu - loc):unsqueeze(-1)
    has_law(dist.chi2(2), (z * cov:solve(z)):sum { -2, -1 } * 2, "mean given covariance")
  end)

  it("is the product of its two factors", function()
    local few, some = mu:slice(1, 1, 50), cov:slice(1, 1, 50)
    local parts = dist.inverse_wishart(6, s):log_prob(some) + dist.multivariate_normal(loc, some / 2):log_prob(few)
    near(d:log_prob(x:slice(1, 1, 50)), parts, 1e-10)
  end)

  it("of one component is normal_inverse_gamma", function()
    local one = dist.normal_inverse_wishart({ 0.4 }, 2, 6, { { 5 } })
    local pair = dist.normal_inverse_gamma(0.4, 2, 3, 2.5)
    local y = pair:sample { 50, generator = pn.generator(3) }
    near(one:log_prob(y:unsqueeze(-1)), pair:log_prob(y), 1e-10)
    near(one:entropy(), pair:entropy(), 1e-12)
    local other_one = dist.normal_inverse_wishart({ 1 }, 1, 4, { { 3 } })
    near(dist.kl(one, other_one), dist.kl(pair, dist.normal_inverse_gamma(1, 1, 2, 1.5)), 1e-12)
  end)
end)

describe("multivariate_student_t", function()
  local loc, s = pn.tensor { 0.3, -1, 0.5 }, pn.tensor { { 2, 0.6, 0.1 }, { 0.6, 0.5, -0.1 }, { 0.1, -0.1, 1.2 } }

  it("draws with F distances and Student's t projections", function()
    local u = pn.tensor { 0.4, -1, 0.3 }
    for k, df in ipairs { 0.7, 3, 1e6 } do
      local z = dist.multivariate_student_t(df, loc, s):sample { N, generator = pn.generator(k) } - loc
      has_law(dist.student_t(df, 0, math.sqrt(u:matmul(s):matmul(u):item())), z:matmul(u), "projection")
      local f = (z:t() * s:solve(z:t())):sum { 1 } / df -- of F: f / (1 + f) is Beta(n/2, df/2)
      if df < 1e3 then
        has_law(dist.beta(1.5, df / 2), f / (1 + f), "distance")
      end
    end
  end)

  it("of one component is Student's t, and normal in the limit", function()
    local x = pn.linspace(-30, 30, 41)
    near(dist.multivariate_student_t(2.5, { 0.4 }, { { 4 } }):log_prob(x:unsqueeze(-1)),
      dist.student_t(2.5, 0.4, 2):log_prob(x), 1e-12)
    local y = pn.randn({ 20, 3 }, { generator = pn.generator(2) })
    near(dist.multivariate_student_t(1e14, loc, s):log_prob(y), dist.multivariate_normal(loc, s):log_prob(y), 1e-11)
    near(dist.multivariate_student_t(1e14, loc, s):entropy(), dist.multivariate_normal(loc, s):entropy(), 1e-11)
  end)
end)

describe("matrix_normal", function()
  local loc = pn.tensor { { 0.3, -1, 0.5 }, { 1, 0, -2 } }
  local row = pn.tensor { { 2, 0.6 }, { 0.6, 0.5 } }
  local column = pn.tensor { { 2, 0.6, 0.1 }, { 0.6, 0.5, -0.1 }, { 0.1, -0.1, 1.2 } }
  local d = dist.matrix_normal(loc, row, column)

  it("is the normal of its entries with covariance U_ik V_jl", function()
    local cov = pn.einsum("ik,jl->ijkl", row, column):reshape { 6, 6 }
    local joined = dist.multivariate_normal(loc:reshape { 6 }, cov)
    local x = d:sample { 50, generator = pn.generator(1) }
    near(d:log_prob(x), joined:log_prob(x:reshape { 50, 6 }), 1e-10)
    near(d:entropy(), joined:entropy(), 1e-12)
    near(d:variance(), joined:variance(), 1e-12)
  end)

  it("draws with normal projections", function()
    local x = d:sample { N, generator = pn.generator(2) }
    local u, v = pn.tensor { 0.7, -1 }, pn.tensor { 0.4, -1, 0.3 }
    local variance = u:matmul(row):matmul(u):item() * v:matmul(column):matmul(v):item()
    has_law(dist.normal(u:matmul(loc):matmul(v):item(), math.sqrt(variance)), x:matmul(v):matmul(u), "u^T X v")
  end)
end)

describe("lkj_cholesky", function()
  it("draws correlations that are beta on (-1, 1), each as any other", function()
    for k, case in ipairs { { 2, 1 }, { 3, 0.4 }, { 4, 2.5 }, { 5, 50 } } do
      local n, eta = table.unpack(case)
      local l = dist.lkj_cholesky(n, eta):sample { N, generator = pn.generator(k) }
      local r = l:matmul(l:transpose(-2, -1))
      local b = eta + (n - 2) / 2
      for i = 2, n do
        for j = 1, i - 1 do
          has_law(dist.beta(b, b), (entry(r, i, j) + 1) / 2, ("dimension %d: r[%d][%d]"):format(n, i, j))
        end
      end
      near(entry(r, n, n), pn.ones { N }, 1e-12)
    end
  end)

  it("takes dimensions 0 and 1, and refuses what is no dimension", function()
    assert.same({ 3, 0, 0 }, dist.lkj_cholesky(0):sample({ 3 }):shape())
    assert.same({ 1, 1, 1 }, numbers(dist.lkj_cholesky(1, 2):sample({ 3 }):totable()))
    near(dist.lkj_cholesky(1, 2):log_prob(pn.ones { 1, 1 }), 0, 0)
    for _, bad in ipairs { -1, 1.5, 1e300 } do
      local ok, message = pcall(dist.lkj_cholesky, bad)
      assert.is_false(ok)
      assert.matches("lkj_cholesky: dimension must be", message)
    end
    local ok, message = pcall(dist.lkj_cholesky, pn.tensor { 2, 2 })
    assert.is_false(ok)
    assert.matches("dimension must be one number, got shape %[2%]", message)
  end)

  it("cannot take its dimension from what a plan computes, and says so", function()
    local f = pn.compile(function(n)
      return dist.lkj_cholesky(n):log_prob(pn.eye(2))
    end)
    local ok, message = pcall(f, pn.tensor(2))
    assert.is_false(ok)
    assert.matches("dimension", message)
  end)
end)

describe("gaussian_random_walk", function()
  it("is the normal with covariance scale^2 min(i, j)", function()
    local d = dist.gaussian_random_walk(1.3, 4)
    local i = pn.arange(1, 5)
    local cov = pn.minimum(i:unsqueeze(-1), i:unsqueeze(1)) * 1.3 ^ 2
    local joined = dist.multivariate_normal(pn.zeros { 4 }, cov)
    local x = d:sample { N, generator = pn.generator(1) }
    near(d:log_prob(x:slice(1, 1, 50)), joined:log_prob(x:slice(1, 1, 50)), 1e-12)
    near(d:entropy(), joined:entropy(), 1e-12)
    for k = 1, 4 do
      has_law(dist.normal(0, 1.3 * math.sqrt(k)), x:select(-1, k), "step " .. k)
    end
    has_law(dist.normal(0, 1.3), x:select(-1, 4) - x:select(-1, 3), "increment")
  end)

  it("may have no steps", function()
    local d = dist.gaussian_random_walk(1, 0)
    assert.same({ 5, 0 }, d:sample({ 5 }):shape())
    near(d:log_prob(pn.zeros { 5, 0 }), pn.zeros { 5 }, 0)
  end)
end)
