-- Distributions of counts and choices: laws of draws by enumeration, limits and identities between rows, sizes at
-- which naive formulas and samplers fail.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist
local N = 200000

local function near(got, want, rel, what)
  got, want = got:reshape({ -1 }):totable(), want:reshape({ -1 }):totable()
  assert(#got == #want, ("%s: %d numbers, expected %d"):format(what or "", #got, #want))
  for i, w in ipairs(want) do
    assert(got[i] == w or math.abs(got[i] - w) <= rel * math.max(1e-300, math.abs(w)),
      ("%s: number %d is %.17g, expected %.17g"):format(what or "", i, got[i], w))
  end
end

-- Pearson's statistic of label draws 0 .. n - 1 against their masses stays below its limit at 6 sigma.
local function has_masses(labels, mass, what)
  local n = mass:numel()
  local seen = pn.scatter_add(pn.zeros { n }, 1, labels:reshape({ -1 }):to "int64", pn.ones { labels:numel() })
  local expected = mass * labels:numel()
  assert(expected:min():item() > 5, "too few draws")
  local statistic = ((seen - expected) ^ 2 / expected):sum():item()
  assert(statistic < n + 6 * math.sqrt(2 * n) + 18, ("%s: chi-square %g of %d"):format(what, statistic, n))
end

local function kolmogorov(u)
  local n = u:numel()
  local sorted, rank = u:reshape({ -1 }):sort(), pn.arange(n)
  return math.max(((rank + 1) / n - sorted):max():item(), (sorted - rank / n):max():item()) * math.sqrt(n)
end

-- All x of three counts that sum to m, and what tells them apart: x_1 (m + 1) + x_2.
local function shares_of(m)
  local all, code = {}, {}
  for i = 0, m do
    for j = 0, m - i do
      all[#all + 1] = { i, j, m - i - j }
      code[i * (m + 1) + j] = #all - 1
    end
  end
  local place = {}
  for k = 1, (m + 1) ^ 2 do
    place[k] = code[k - 1] or 0
  end
  return pn.tensor(all, { dtype = "float64" }), pn.tensor(place, { dtype = "float64" })
end

local function column(x, i)
  return x:slice(-1, i, i):reshape { -1 }
end

describe("draws of count vectors", function()
  local rows = {
    multinomial = dist.multinomial(4, { 0.2, 0.5, 0.3 }),
    dirichlet_multinomial = dist.dirichlet_multinomial(4, { 0.7, 2, 1.3 }),
  }
  for name, d in pairs(rows) do
    it(name .. " have the mass of each vector", function()
      local all, place = shares_of(4)
      local x = d:sample { N, generator = pn.generator(3) }
      local code = (column(x, 1) * 5 + column(x, 2)):to "int64"
      has_masses(place:take(1, code), d:log_prob(all):exp(), name)
    end)
  end

  it("multinomial: each count is binomial, also of many classes and few trials", function()
    for _, case in ipairs { { 3, 400 }, { 1000, 3 }, { 50, 17 }, { 20, 1500 } } do
      local m, classes = case[1], case[2]
      local p = pn.arange(classes) + 1
      p = p / p:sum()
      local x = dist.multinomial(m, p):sample { 20000, generator = pn.generator(m) }
      near(x:sum { -1 }, pn.full({ 20000 }, m), 0, "sum")
      for _, i in ipairs { 1, classes // 2, classes } do
        local own = dist.binomial(m, p:slice(1, i, i):reshape {})
        local se = own:stddev():item() / math.sqrt(20000)
        local mean, second = column(x, i):mean():item(), ((column(x, i) - own:mean()) ^ 2)
        assert(math.abs(mean - own:mean():item()) < 6 * se, ("mean %g of class %d"):format(mean, i))
        local spread = second:std():item() / math.sqrt(20000)
        local rare = own:mean():item() * 20000 < 50
        assert(rare or math.abs(second:mean():item() - own:variance():item()) < 6 * spread + 1e-12, "variance")
      end
    end
  end)

  it("never give a class of probability 0, and spend all trials", function()
    local x = dist.multinomial(7, { 0, 0.4, 0, 0.6, 0 }):sample { 5000, generator = pn.generator(4) }
    for _, i in ipairs { 1, 3, 5 } do
      assert.equal(0, column(x, i):sum():item())
    end
    near(x:sum { -1 }, pn.full({ 5000 }, 7), 0)
    assert.same({ 0, 0 }, dist.multinomial(0, { 0.5, 0.5 }):sample():totable())
    assert.same({ 1e9 }, dist.multinomial(1e9, { 1 }):sample():totable())
  end)

  it("take a number of trials and probabilities per item", function()
    local d = dist.multinomial(pn.tensor { { 3 }, { 1000 } }, pn.tensor { { 0.2, 0.8 }, { 0.9, 0.1 }, { 0.5, 0.5 } })
    local x = d:sample { 20000, generator = pn.generator(5) }
    assert.same({ 2, 3 }, d.batch_shape)
    local off = (x:mean { 1 } - d:mean()) / (d:stddev() / math.sqrt(20000))
    assert(off:abs():max():item() < 6)
  end)
end)

describe("draws of counts", function()
  it("do not depend on how the parameters are laid out", function()
    for _, rate in ipairs { 0.3, 7, 40, 1e6 } do
      local one = dist.poisson(rate):sample { 3000, generator = pn.generator(9) }
      local each = dist.poisson(pn.full({ 3000 }, rate)):sample { generator = pn.generator(9) }
      assert.same(one:totable(), each:totable())
    end
    for _, p in ipairs { 0.02, 0.4, 0.97 } do
      local one = dist.binomial(120, p):sample { 3000, generator = pn.generator(9) }
      local each = dist.binomial(120, pn.full({ 3000 }, p)):sample { generator = pn.generator(9) }
      assert.same(one:totable(), each:totable())
    end
    local p = pn.rand({ 30 }, { generator = pn.generator(2) })
    local many = dist.categorical { probs = p / p:sum() } -- guided and searched
    local some = many:sample { 100, generator = pn.generator(9) }
    assert.same(some:totable(), many:sample({ 5000, generator = pn.generator(9) }):slice(1, 1, 100):totable())
  end)

  it("of large counts are normal after standardising", function()
    local normal = dist.normal(0, 1)
    local large = {
      dist.poisson(1e9), dist.poisson(1e12), dist.binomial(1e9, 0.3), dist.binomial(1e15, 0.5),
      dist.binomial(1e12, 1e-3), dist.negative_binomial(1e9, 0.2), dist.gamma_poisson(1e10, 2),
    }
    for k, d in ipairs(large) do
      local x = d:sample { 100000, generator = pn.generator(40 + k) }
      local distance = kolmogorov(normal:cdf((x - d:mean()) / d:stddev()))
      assert(distance < 3.23, ("%s: Kolmogorov-Smirnov %g"):format(tostring(d), distance))
    end
  end)

  it("of tiny probabilities come at their rate", function()
    -- one draw in 1e4 or rarer, 2e6 draws: counts of events are Poisson
    local rare = {
      { dist.poisson(1e-4), 1e-4 }, { dist.binomial(1e9, 1e-13), 1e-4 }, { dist.binomial(1e9, 1 - 2 ^ -43), nil },
      { dist.geometric(1 - 1e-4), 1e-4 }, { dist.zero_inflated_poisson(0.5, 2e-4), 1e-4 },
    }
    for k, case in ipairs(rare) do
      local d, p = case[1], case[2]
      local x = d:sample { 2000000, generator = pn.generator(60 + k) }
      if p then
        local events = x:gt(0):to("float64"):sum():item()
        assert(math.abs(events - 2e6 * p) < 6 * math.sqrt(2e6 * p), ("%s: %d events"):format(tostring(d), events))
      else
        local events = (1e9 - x):sum():item()
        local mean = 2e6 * 1e9 * 2 ^ -43
        assert(math.abs(events - mean) < 6 * math.sqrt(mean), ("%s: %d events"):format(tostring(d), events))
      end
    end
  end)
end)

describe("relaxed one-hot labels", function()
  it("have their largest share at a label of the categorical law, at any temperature", function()
    local p = pn.tensor { 0.1, 0.6, 0.3 }
    for k, t in ipairs { 0.02, 0.5, 1, 30 } do
      local x = dist.relaxed_one_hot_categorical(t, p):sample { N, generator = pn.generator(20 + k) }
      has_masses(x:argmax(-1), p, "temperature " .. t)
    end
  end)

  it("of two classes are relaxed Bernoulli variables", function()
    for k, t in ipairs { 0.3, 0.9, 4 } do
      local d = dist.relaxed_one_hot_categorical { temperature = t, logits = { 0.7, -0.4 } }
      local b = dist.relaxed_bernoulli { temperature = t, logits = 1.1 }
      local x = pn.linspace(0.001, 0.999, 99)
      near(d:log_prob(pn.stack({ x, 1 - x }, -1)):exp(), b:log_prob(x):exp(), 1e-11, "density")
      local distance = kolmogorov(b:cdf(column(d:sample { N, generator = pn.generator(30 + k) }, 1)))
      assert(distance < 3.23, "Kolmogorov-Smirnov " .. distance)
    end
  end)

  it("stay inside the simplex with finite densities and slopes, in both dtypes", function()
    for _, dtype in ipairs { "float64", "float32" } do
      for _, t in ipairs { 1e-3, 0.1, 1, 1e3 } do
        local logits = pn.param(pn.tensor({ 3, -2, 0.5, 30 }, { dtype = dtype }))
        local d = dist.relaxed_one_hot_categorical { temperature = t, logits = logits }
        local x = d:rsample { 20000, generator = pn.generator(8) }
        assert(x:min():item() > 0 and x:isfinite():all():item())
        assert(d:log_prob(x):isfinite():all():item(), ("density at temperature %g in %s"):format(t, dtype))
        local g = pn.grad((x * pn.arange(4):to(dtype)):sum(), { logits })[1]
        assert(g:isfinite():all():item())
      end
    end
  end)

  it("have the slope of a mean in their draws", function()
    local leaf = pn.param(pn.tensor { 0.3, -0.5, 0.8 })
    local w = pn.tensor { 1, -2, 0.5 }
    local function mean(logits)
      local d = dist.relaxed_one_hot_categorical { temperature = 0.7, logits = logits }
      return (d:rsample { N, generator = pn.generator(77) } * w):sum { -1 }
    end
    local slope = pn.grad(mean(leaf):mean(), { leaf })[1]:totable()
    for i = 1, 3 do
      local step = pn.tensor { i == 1 and 0.05 or 0, i == 2 and 0.05 or 0, i == 3 and 0.05 or 0 }
      -- other draws above and below: the error is that of two means
      local up, down = mean(leaf:detach() + step), mean(leaf:detach() - step)
      local error_of = math.sqrt((up:var():item() + down:var():item()) / N) / 0.1
      assert(math.abs((up - down):mean():item() / 0.1 - slope[i]) < 6 * error_of + 1e-3)
    end
  end)
end)

describe("counts in their limits", function()
  local k = pn.arange(40)

  it("binomial of many trials is Poisson", function()
    near(dist.binomial(1e13, 3e-13):log_prob(k), dist.poisson(3):log_prob(k), 1e-10, "binomial")
    near(dist.negative_binomial(1e14, 3e-14):log_prob(k), dist.poisson(3):log_prob(k), 1e-10, "negative binomial")
    near(dist.gamma_poisson(1e14, 1e14 / 3):log_prob(k), dist.poisson(3):log_prob(k), 1e-10, "gamma-Poisson")
  end)

  it("beta-binomial and Dirichlet-multinomial are binomial and multinomial of sure probabilities", function()
    local x = pn.arange(11)
    near(dist.beta_binomial(10, 3e14, 7e14):log_prob(x), dist.binomial(10, 0.3):log_prob(x), 1e-11)
    near(dist.beta_binomial(10, 1, 1):log_prob(x), pn.full({ 11 }, -math.log(11)), 1e-13)
    local y = pn.stack({ x, 10 - x }, -1)
    near(dist.dirichlet_multinomial(10, { 0.7, 2 }):log_prob(y), dist.beta_binomial(10, 0.7, 2):log_prob(x), 1e-13)
    near(dist.multinomial(10, { 0.3, 0.7 }):log_prob(y), dist.binomial(10, 0.3):log_prob(x), 1e-13)
  end)

  it("gamma-Poisson and geometric are negative binomials", function()
    local p = 1 / (1 + 1.7)
    near(dist.gamma_poisson(2.5, 1.7):log_prob(k), dist.negative_binomial(2.5, p):log_prob(k), 1e-12)
    near(dist.geometric(0.3):log_prob(k), dist.negative_binomial(1, 0.7):log_prob(k), 1e-12)
    near(dist.gamma_poisson(2.5, 1.7):icdf(0.77), dist.negative_binomial(2.5, p):icdf(0.77), 0)
  end)

  it("one-hot and multinomial of one trial are categorical", function()
    local logits = { 0.3, -1, 0.9, 0 }
    local labels = dist.categorical { logits = logits }:log_prob(pn.arange(4, { dtype = "int64" }))
    near(dist.one_hot_categorical({ logits = logits }):log_prob(pn.eye(4)), labels, 1e-13)
    near(dist.multinomial({ total_count = 1, logits = logits }):log_prob(pn.eye(4)), labels, 1e-13)
  end)

  it("quantiles are the least values that reach a probability", function()
    for _, d in ipairs { dist.poisson(1e9), dist.binomial(1e9, 0.3), dist.negative_binomial(3e5, 0.4),
      dist.poisson(1e-3), dist.geometric(1e-6), dist.zero_inflated_poisson(0.3, 4.5) } do
      local p = pn.rand({ 300 }, { generator = pn.generator(6) })
      local x = d:icdf(p)
      assert(d:cdf(x):ge(p):all():item(), tostring(d))
      assert(pn.logical_or(x:eq(0), d:cdf(x - 1):lt(p)):all():item(), tostring(d))
    end
  end)

  it("has divergences near 0 that keep their digits", function()
    near(dist.kl(dist.poisson(3), dist.poisson(3 * (1 + 1e-6))), pn.tensor(1.4999995e-12), 1e-6)
  end)
end)

describe("divergences of counts", function()
  it("of unequal numbers of trials are infinite or refused by name", function()
    assert.equal(math.huge, dist.kl(dist.binomial(5, 0.3), dist.binomial(4, 0.3)):item())
    local function refuses(pattern, p, q)
      local ok, message = pcall(dist.kl, p, q)
      assert(not ok and message:find(pattern, 1, true), message)
    end
    refuses("no closed form for binomial and binomial with total_count 4 and 5",
      dist.binomial(4, 0.3), dist.binomial(5, 0.3))
    refuses("no closed form for negative_binomial and geometric with total_count 2 and 1",
      dist.negative_binomial(2, 0.3), dist.geometric(0.3))
    refuses("must have one event shape", dist.one_hot_categorical { 0.5, 0.5 }, dist.one_hot_categorical { 1 })
  end)

  it("check the trials at every call of a compiled function", function()
    local f = pn.compile(function(n)
      return dist.kl(dist.negative_binomial(n, 0.3), dist.negative_binomial(2, 0.4))
    end)
    f(pn.tensor(2))
    local ok, message = pcall(f, pn.tensor(3))
    assert(not ok and message:find("total_count 3 and 2", 1, true), message)
  end)
end)

describe("a mass", function()
  it("has no slope in x, however its parameters are given", function()
    local p, k = pn.tensor { 0.3, 0.8 }, pn.tensor { 0.2, 0.5, 0.3 }
    for _, case in ipairs {
      { "bernoulli", { 0, 1 }, { probs = p }, { logits = p:logit() } },
      { "binomial", { 0, 3 }, { total_count = 3, probs = p }, { total_count = 3, logits = p:logit() } },
      { "geometric", { 0, 3 }, { probs = p }, { logits = p:logit() } },
      { "negative_binomial", { 0, 3 }, { total_count = 3, probs = p }, { total_count = 3, logits = p:logit() } },
      { "one_hot_categorical", { 0, 1, 0 }, { probs = k }, { logits = k:log() } },
      { "multinomial", { 1, 2, 0 }, { total_count = 3, probs = k }, { total_count = 3, logits = k:log() } },
      { "beta_binomial", { 0, 3 }, { total_count = 3, concentration1 = 2, concentration0 = 1 } },
      { "poisson", { 0, 3 }, { rate = 2 } }, { "zero_inflated_poisson", { 0, 3 }, { gate = 0.2, rate = 2 } } } do
      for way = 3, #case do
        local x, leaf = pn.param(pn.tensor(case[2])), pn.param(pn.tensor(1))
        local lp = dist[case[1]](case[way]):log_prob(x) * leaf
        assert.same(pn.zeros(x:shape()):totable(), pn.grad(lp:sum() + x:sum() * 0, { x })[1]:totable(), case[1])
      end
    end
  end)
end)
