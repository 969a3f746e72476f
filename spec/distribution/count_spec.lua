-- Sums over the values of counts by few points: entropies and the beta-binomial distribution function against the sum
-- term by term, for parameters of all sizes.
local pn = require "penumbra"

local dist = pn.dist

local function near(got, want, rel, what)
  assert(math.abs(got - want) <= rel * math.abs(want) + 1e-15, ("%s: %.17g, expected %.17g"):format(what, got, want))
end

-- -sum p log p over 0 .. last
local function surprise(d, last)
  local lp = d:log_prob(pn.arange(last + 1))
  return -(lp:exp() * pn.where(lp:isfinite(), lp, 0 * lp)):sum():item()
end

describe("the entropy of counts", function()
  it("is the sum term by term", function()
    for _, rate in ipairs { 1e-12, 0.3, 4, 31, 32.5, 33, 63, 64, 65, 130, 1000, 4096, 31415.9 } do
      near(dist.poisson(rate):entropy():item(), surprise(dist.poisson(rate), math.floor(rate + 60 * rate ^ 0.5 + 60)),
        1e-12, "poisson " .. rate)
    end
    for _, n in ipairs { 1, 2, 33, 64, 100, 1001, 70000 } do
      for _, p in ipairs { 1e-5, 0.03, 0.5, 0.77, 0.9999 } do
        local d = dist.binomial(n, p)
        near(d:entropy():item(), surprise(d, n), 1e-11, ("binomial %g %g"):format(n, p))
      end
      for _, ab in ipairs { { 0.01, 0.02 }, { 0.5, 3 }, { 40, 0.3 }, { 7, 9 }, { 1e3, 5e3 }, { 1e7, 1e6 },
        { 1e-6, 1e6 } } do
        local d = dist.beta_binomial(n, ab[1], ab[2])
        near(d:entropy():item(), surprise(d, n), 1e-11, ("beta_binomial %g %g %g"):format(n, ab[1], ab[2]))
      end
    end
    for _, r in ipairs { 1e-6, 0.02, 0.7, 5, 300, 1e5 } do
      for _, p in ipairs { 1e-4, 0.3, 0.9, 0.997 } do
        local d, mean = dist.negative_binomial(r, p), r * p / (1 - p)
        local last = math.floor(mean + 80 / (1 - p) + 60 * (mean / (1 - p)) ^ 0.5 + 60)
        if last < 1000000 then
          near(d:entropy():item(), surprise(d, last), 1e-11, ("negative_binomial %g %g"):format(r, p))
        end
        local same = dist.gamma_poisson(r, (1 - p) / p)
        near(same:entropy():item(), d:entropy():item(), 1e-11, ("gamma_poisson %g %g"):format(r, p))
      end
    end
  end)

  it("has the normal limit", function()
    local function limit(variance)
      return math.log(2 * math.pi * math.exp(1) * variance) / 2
    end
    for _, rate in ipairs { 1e12, 1.001e12, 1e16, 1e100, 1e300 } do
      near(dist.poisson(rate):entropy():item(), limit(rate), 1e-12, "poisson " .. rate)
    end
    near(dist.binomial(1e15, 0.3):entropy():item(), limit(0.21e15), 1e-11, "binomial")
    near(dist.negative_binomial(1e13, 0.5):entropy():item(), limit(2e13), 1e-11, "negative binomial")
    -- and that of a gamma variable, of which the counts are multiples
    near(dist.gamma_poisson(2.5, 1e-9):entropy():item(), dist.gamma(2.5, 1e-9):entropy():item(), 1e-10, "gamma_poisson")
  end)

  it("has slopes of the first and second order", function()
    local a, b = pn.param(pn.tensor { 0.4, 30, 5000 }), pn.param(pn.tensor { 2, 500, 3 })
    local p = pn.param(pn.tensor { 0.2, 0.7, 0.99 })
    for name, d in pairs {
      poisson = function() return dist.poisson(a) end,
      binomial = function() return dist.binomial({ 5, 100, 20000 }, p) end,
      negative_binomial = function() return dist.negative_binomial(b, p) end,
      gamma_poisson = function() return dist.gamma_poisson(a, b) end,
      beta_binomial = function() return dist.beta_binomial({ 5, 100, 20000 }, a, b) end,
      zero_inflated_poisson = function() return dist.zero_inflated_poisson(p, a) end,
      multinomial = function() return dist.multinomial { total_count = 300, logits = pn.stack({ p, a:log() }, -1) } end,
      dirichlet_multinomial = function() return dist.dirichlet_multinomial(40, pn.stack({ p, b, a }, -1)) end,
    } do
      assert(pn.check_gradients(function() return d():entropy() end, { a, b, p }, { order = 2 }), name)
    end
  end)

  it("is the same element by element in a large batch", function()
    local rate = pn.linspace(0.01, 400, 2500):reshape { 50, 50 }
    local want = dist.poisson(pn.param(rate)):entropy():totable()
    assert.same(want, dist.poisson(rate):entropy():totable())
    near(want[20][30], dist.poisson(rate[{ 20, 30 }]:item()):entropy():item(), 1e-14, "one")
    local narrow = dist.negative_binomial(pn.full({ 3, 1 }, 2.5, { dtype = "float32" }),
      pn.linspace(0.1, 0.9, 1000, { dtype = "float32" }))
    local h = narrow:entropy()
    assert.same({ 3, 1000 }, h:shape())
    assert.equal("float32", h:dtype())
    near(h:totable()[3][1000], dist.negative_binomial(2.5, pn.tensor(0.9, { dtype = "float32" }):to "float64")
      :entropy():item(), 1e-6, "float32")
    local sums = dist.multinomial(10, pn.softmax(pn.randn { 2000, 3 }, -1))
    near(sums:entropy():totable()[1999], dist.multinomial(10, sums.probs[1999]):entropy():item(), 1e-13, "multinomial")
  end)

  it("is found where parameters are known only in a replay", function()
    local f = pn.compile(function(rate) return dist.poisson(rate):entropy() end)
    for k = 0, 14 do
      local rate = pn.tensor { 10.0 ^ (k - 3), 7.5 }
      assert.same(dist.poisson(rate):entropy():totable(), f(rate):totable())
    end
  end)

  it("adds over classes as it does over cells", function()
    near(dist.multinomial(50, { 0.3, 0.7 }):entropy():item(), dist.binomial(50, 0.3):entropy():item(), 1e-12,
      "two classes")
    near(dist.dirichlet_multinomial(50, { 0.3, 7 }):entropy():item(), dist.beta_binomial(50, 0.3, 7):entropy():item(),
      1e-12, "two concentrations")
    near(dist.dirichlet_multinomial(9, { 2 }):entropy():item(), 0, 0, "one class")
    near(dist.multinomial(9, { 1 }):entropy():item(), 0, 0, "one class")
  end)
end)

describe("the distribution function of beta-binomial counts", function()
  it("is the sum of the masses", function()
    for _, n in ipairs { 1, 40, 3000, 300000 } do
      for _, ab in ipairs { { 0.02, 0.01 }, { 0.5, 3 }, { 3, 0.5 }, { 40, 70 }, { 1e4, 1e3 } } do
        local d, x = dist.beta_binomial(n, ab[1], ab[2]), pn.arange(n + 1)
        local want, what = d:log_prob(x):exp():cumsum(1), ("%g %g %g"):format(n, ab[1], ab[2])
        local at = (pn.linspace(0, 1, 23) * n):floor()
        local cdf = d:cdf(at)
        assert((cdf - want:take(1, at:to "int64")):abs():max():item() < 1e-11, what)
        assert((d:log_cdf(at):exp() - cdf):abs():max():item() < 1e-13, what .. ": log_cdf")
        assert((d:log_survival(at):exp() - (1 - cdf)):abs():max():item() < 1e-13, what .. ": log_survival")
        local p = pn.tensor { 0, 1e-9, 0.1, 0.5, 0.83 }
        local q = d:icdf(p)
        assert(d:cdf(q):ge(p):all():item(), what .. ": icdf")
        assert(d:cdf(q - 1):lt(p):logical_or(q:eq(0)):all():item(), what .. ": icdf is least")
      end
    end
  end)

  it("keeps the digits of both tails", function()
    -- uniform on 0 .. n for a = b = 1; P(X = 0) = b / (a + b) for n = 1
    local d = dist.beta_binomial(1e9, 1, 1)
    near(d:cdf(pn.tensor(4)):item(), 5 / (1e9 + 1), 1e-12, "lower")
    near(d:log_survival(pn.tensor(1e9 - 5)):item(), math.log(5 / (1e9 + 1)), 1e-12, "upper")
    near(dist.beta_binomial(1, 1e12, 3):cdf(pn.tensor(0)):item(), 3 / (1e12 + 3), 1e-12, "one trial")
    -- P(X > x) nears p^x far out, whatever the shape
    local far = dist.negative_binomial { total_count = 3, probs = 0.4 }:log_survival(1e300):item()
    near(far / 1e300, math.log(0.4), 1e-12, "far")
  end)

  it("has slopes in the concentrations", function()
    local a, b = pn.param(pn.tensor { 0.4, 30, 50 }), pn.param(pn.tensor { 2, 50, 3 })
    assert(pn.check_gradients(function()
      local d = dist.beta_binomial({ 5, 100, 2000 }, a, b)
      return d:cdf(pn.tensor { 2, 30, 1800 }) + d:log_survival(pn.tensor { 1, 45, 1900 })
    end, { a, b }, { order = 2 }))
  end)
end)

describe("the most probable counts", function()
  it("of a multinomial law are more probable than their neighbours", function()
    local g = pn.generator(5)
    for _, m in ipairs { 1, 7, 100, 12345 } do
      local p = pn.rand({ 20, 5 }, { generator = g }):pow(3)
      local d = dist.multinomial(m, p / p:sum({ -1 }, true))
      local x = d:mode()
      assert(x:sum { -1 }:eq(m):all():item())
      local here = d:log_prob(x)
      for i = 1, 5 do
        for j = 1, 5 do
          local move = pn.eye(5)[i] - pn.eye(5)[j]
          assert(d:log_prob(x + move):le(here + 1e-9):all():item())
        end
      end
    end
  end)

  it("of given values come from their joint weight", function()
    local d = dist.empirical { values = { { 3, 1, 3, 2 }, { 5, 5, 1, 0 } }, log_weights = { 0, 0.5, 0, -1 } }
    assert.same({ 3, 5 }, d:mode():totable())
    assert.same({ { 1, 0 }, { 3, 5 }, { 3, 5 } }, d:icdf(pn.tensor { { 0, 0 }, { 0.9, 0.9 }, { 1, 1 } }):totable())
  end)
end)
