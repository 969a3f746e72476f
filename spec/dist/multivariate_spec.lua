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
