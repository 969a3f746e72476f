--- Distributions between limits, with zeros of their own and of ordered labels: against values of mpmath
--- (spec/golden/distribution/limited.py), rows of the library that say the same, sums and integrals to one, and
--- conjugate posteriors.
local pn = require "penumbra"
local refused = require("spec.helper").refused
local dist = pn.dist

local golden = dofile "spec/golden/distribution/limited.lua"

local function near(got, want, tolerance)
  got = type(got) == "number" and got or got:item()
  assert(got == want or math.abs(got - want) <= (tolerance or 1e-12) * math.max(1, math.abs(want)),
    ("got %.15g, want %.15g"):format(got, want))
end

local function all_near(got, want, tolerance)
  got, want = got:totable(), pn.is_tensor(want) and want:totable() or want
  assert.equal(#want, #got)
  for k, v in ipairs(want) do near(got[k], v, tolerance) end
end

local function weibull() return dist.weibull { scale = 2, concentration = 1.5 } end

-- Draws have the cdf of d: Dvoretzky, Kiefer & Wolfowitz's bound at 1e-9.
local function check_draws(d, n)
  local x = d:sample { n }
  local sorted = x:sort(1)
  local grid = pn.unique(sorted)
  local below = sorted:searchsorted(grid, "right"):to "float64" / n
  local gap = (below - d:cdf(grid)):abs():max():item()
  assert(gap < math.sqrt(math.log(2e9) / (2 * n)), gap)
  return x
end

describe("a censored distribution", function()
  it("has the densities between its limits and the probabilities beyond them", function()
    for _, case in ipairs { { dist.censored(weibull(), 0.5, 3), golden.censored_weibull },
      { dist.censored(dist.poisson(4), 2, 6), golden.censored_poisson } } do
      local d, want = case[1], case[2]
      all_near(d:log_prob(want.x), want.log_prob, 1e-13)
      assert.same({ -math.huge, -math.huge }, d:log_prob({ -1, 7 }):totable())
      assert.is_true(d:log_prob(0 / 0):isnan():item())
    end
    near(dist.censored(dist.poisson(4), 2, 6):log_prob({ 2, 3, 4, 5, 6 }):logsumexp(), 0)
    -- far out the probability is what is left of the tail
    near(dist.censored(dist.normal(0, 1), nil, 20):log_prob(20), dist.normal(0, 1):log_survival(20):item())
  end)

  it("has limits for each row, gradients in all parameters, and both dtypes", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local loc, scale = pn.param(pn.tensor({ 0.5 }, { dtype = dtype })), pn.param(pn.tensor(1.2, { dtype = dtype }))
      local low = pn.tensor({ -math.huge, -1, 0.2 }, { dtype = dtype })
      local high = pn.tensor({ math.huge, 1, math.huge }, { dtype = dtype })
      local x = pn.tensor({ { 3, 1, 0.2 }, { 0.1, -1, 0.7 } }, { dtype = dtype })
      local function f() return dist.censored(dist.normal(loc, scale), low, high):log_prob(x):sum() end
      local d = dist.normal(0.5, 1.2)
      local want = d:log_prob(3) + d:log_survival(1) + d:log_cdf(0.2) + d:log_prob(0.1) + d:log_cdf(-1)
        + d:log_prob(0.7)
      near(f(), want:item(), dtype == "float64" and 1e-6 or 1e-5)
      assert.equal(dtype, f():dtype())
      if dtype == "float64" then
        assert.is_true(pn.check_gradients(f, { loc, scale }).error < 1e-7)
      end
      for _, g in ipairs(pn.grad(f(), { loc, scale })) do assert.is_true(g:isfinite():all():item()) end
    end
  end)

  it("draws the limits as often as values lie beyond them", function()
    pn.seed(1)
    for _, base in ipairs { weibull(), dist.poisson(2) } do
      check_draws(dist.censored(base, 1, 3), 20000)
    end
    local d = dist.censored(weibull(), 0.5, 3)
    near(d:icdf(d:cdf(1.7)), 1.7, 1e-12)
    assert.same({ 0.5, 3 }, d:icdf({ 1e-9, 1 - 1e-9 }):totable())
    assert.same({ 4, 2, 3 }, dist.censored(dist.normal(pn.zeros { 2, 1 }, 1), pn.tensor { -1, 0, 1 }):sample({ 4 })
      :shape())
  end)

  it("is observed, predicted and scored: an exponential law whose rate has a gamma posterior", function()
    pn.seed(2)
    local n, limit = 60, 1.5
    local t = dist.exponential(0.7):sample { n }
    local seen = t:lt(limit)
    t = pn.minimum(t, pn.tensor(limit))
    local m = pn.model(function(m, times, event)
      local rate = m:sample("rate", dist.gamma(2, 3))
      m:plate("rows", times:size(1), function()
        m:observe("t", dist.censored(dist.exponential(rate), nil, pn.where(event, pn.tensor(math.huge), times)), times)
      end)
    end)
    local p = pn.nuts(m, { data = { t, seen }, chains = 2, warmup = 300, draws = 1000 })
    local events, total = seen:sum():item(), t:sum():item()
    assert.is_true(events < n - 10)
    local row, mean = p:summary().rate, (2 + events) / (3 + total)
    assert(math.abs(row.mean - mean) < 6 * row.mcse and row.mcse < 0.01, row.mean)
    near(row.sd, math.sqrt(2 + events) / (3 + total), 0.1)
    -- leaving one out: a censored time is predicted by P(t > c), an event by its density
    local a, b, want = 2 + events, 3 + total, 0
    for i, v in ipairs(t:totable()) do
      local e = seen[i]:item() and 1 or 0
      local a1, b1 = a - e, b - v
      want = want + (e == 1 and math.log(a1) + a1 * math.log(b1) - (a1 + 1) * math.log(b1 + v)
        or a1 * (math.log(b1) - math.log(b1 + v)))
    end
    near(p:loo().elpd, want, 5e-3)
    local fixed = pn.model(function(m2)
      local rate = m2:sample("rate", dist.gamma(2, 3))
      m2:plate("rows", n, function() m2:observe("t", dist.censored(dist.exponential(rate), nil, limit), t) end)
    end)
    local drawn = p:predict({ model = fixed, data = {} }).t
    assert.equal(limit, drawn:max():item())
    local share = drawn:eq(limit):to("float64"):mean():item()
    near(share, ((b / (b + limit)) ^ a), 0.05)
  end)

  it("refuses what it is not for", function()
    refused("censored: d must be a distribution, got 3", dist.censored, 3, 1)
    refused("censored: needs a limit, low or high", dist.censored, dist.normal(0, 1))
    refused("censored: low must be below high", dist.censored, dist.normal(0, 1), 2, 2)
    refused("censored: high is NaN", dist.censored, dist.normal(0, 1), 0, 0 / 0)
    refused("censored: d must be a distribution of numbers %(before :independent%)", dist.censored,
      dist.normal(pn.zeros { 2 }, 1):independent(1), 0)
    refused("batch of d, low and high must broadcast, got %[2%] and %[3%]", dist.censored,
      dist.normal(pn.zeros { 2 }, 1),
      pn.zeros { 3 })
    refused("censored: its ends have a probability of their own", pn.nuts, pn.model(function(m)
      m:sample("x", dist.censored(dist.normal(0, 1), 0))
    end))
    refused("log_cdf does not exist", function() dist.censored(dist.horseshoe(1), 0):log_prob(0) end)
  end)
end)

describe("a truncated distribution", function()
  it("has the densities of mpmath, also far out, and of the library's own", function()
    for _, c in ipairs(golden.truncated_normal) do
      near(dist.truncated(dist.normal(0, 1), c.low, c.high):log_prob(c.x), c.log_prob, 1e-10)
    end
    all_near(dist.truncated(dist.poisson(4), 2, 6):log_prob { 2, 3, 4, 5, 6 }, golden.truncated_poisson, 1e-13)
    assert.same({ -math.huge, -math.huge }, dist.truncated(dist.poisson(4), 2, 6):log_prob({ 1, 7 }):totable())
    local loc, low = pn.param(pn.tensor { 0.3, -1 }), pn.param(pn.tensor(-0.5))
    local ours = dist.truncated(dist.normal(loc, 2), low, 1.5)
    local row = dist.truncated_normal { loc = loc, scale = 2, low = low, high = 1.5 }
    local x = pn.tensor { 0.1, 1.2 }
    all_near(ours:log_prob(x), row:log_prob(x), 1e-13)
    all_near(ours:cdf(x), row:cdf(x), 1e-13)
    all_near(ours:icdf { 0.2, 0.9 }, row:icdf { 0.2, 0.9 }, 1e-12)
    local a, b = pn.grad(ours:log_prob(x):sum(), { loc, low }), pn.grad(row:log_prob(x):sum(), { loc, low })
    for k = 1, 2 do all_near(a[k]:reshape { -1 }, b[k]:reshape { -1 }, 1e-11) end
    assert.is_true(pn.check_gradients(function()
      return dist.truncated(dist.gamma(loc:exp(), 2), low:exp(), 3):log_prob(x + 0.6):sum()
    end, { loc, low }).error < 1e-6)
  end)

  it("draws between its limits, with a gradient, and is a latent variable", function()
    pn.seed(3)
    for _, base in ipairs { weibull(), dist.poisson(3), dist.student_t(4, 0, 1) } do
      check_draws(dist.truncated(base, 1, 3), 20000)
      check_draws(dist.truncated(base, nil, 2), 20000)
      check_draws(dist.truncated(base, 2), 20000)
    end
    local scale = pn.param(pn.tensor(2))
    local x = dist.truncated(dist.weibull { scale = scale, concentration = 1.5 }, 1, 3):rsample { 2000 }
    assert.is_true(pn.grad(x:mean(), { scale })[1]:item() > 0)
    local m = pn.model(function(m)
      m:sample("x", dist.truncated(dist.gamma(2, 1), 1, 3))
      m:sample("y", dist.truncated(dist.gamma(2, 1), nil, 3))
      m:sample("z", dist.truncated(dist.laplace(0, 1), 2))
    end)
    local p = pn.nuts(m, { chains = 2, warmup = 300, draws = 1500 })
    -- x e^-x over [1, 3], [0, 3]; 2 + an exponential number
    local function mean(low, high)
      local function f(v) return math.exp(-v) * (v ^ 2 + 2 * v + 2) end
      local function g(v) return math.exp(-v) * (v + 1) end
      return (f(low) - f(high)) / (g(low) - g(high))
    end
    for name, want in pairs { x = mean(1, 3), y = mean(0, 3), z = 3 } do
      local row = p:summary()[name]
      assert(math.abs(row.mean - want) < 6 * row.mcse and row.mcse < 0.05, name .. row.mean)
    end
    refused("truncated: as a latent variable normal needs the limit low, too", pn.nuts, pn.model(function(r)
      r:sample("x", dist.truncated(dist.normal(0, 1), nil, 1))
    end))
  end)
end)

describe("zeros of their own", function()
  it("added to a Poisson law are the library's zero-inflated one", function()
    local gate, rate = pn.param(pn.tensor { 0.3, 0, 0.9 }), pn.param(pn.tensor { 1.5, 4, 0.2 })
    local ours, row = dist.zero_inflated(dist.poisson(rate), gate), dist.zero_inflated_poisson(gate, rate)
    local x = pn.tensor { 0, 2, 1 }
    all_near(ours:log_prob(x), row:log_prob(x), 1e-13)
    all_near(ours:log_prob(pn.tensor({ 0, 2, 1 }, { dtype = "int64" })), row:log_prob(x), 1e-13)
    all_near(ours:mean(), row:mean(), 1e-13)
    all_near(ours:variance(), row:variance(), 1e-13)
    all_near(ours:cdf(x), row:cdf(x), 1e-13)
    local gate2 = pn.param(pn.tensor { 0.3, 0.5, 0.9 })
    assert.is_true(pn.check_gradients(function()
      return dist.zero_inflated(dist.negative_binomial(rate, pn.tensor(0.4)), gate2):log_prob(x):sum()
    end, { rate, gate2 }).error < 1e-6)
    near(dist.zero_inflated(dist.binomial(3, 0.4), 0.2):log_prob({ 0, 1, 2, 3 }):logsumexp(), 0)
    pn.seed(4)
    check_draws(dist.zero_inflated(dist.negative_binomial(3, 0.4), 0.25), 20000)
  end)

  it("in place of a law's have its moments and sum to one", function()
    all_near(dist.hurdle(dist.poisson(1.5), 0.3):log_prob { 0, 1, 2, 3, 4 }, golden.hurdle_poisson, 1e-13)
    local d = dist.hurdle(dist.binomial(6, 0.3), 0.45)
    local x = pn.arange(7):to "float64"
    local p = d:log_prob(x):exp()
    near(p:sum(), 1)
    near(d:mean(), (p * x):sum():item())
    near(d:variance(), (p * x:square()):sum():item() - (p * x):sum():item() ^ 2)
    all_near(d:cdf(x), p:cumsum(1), 1e-12)
    local rain = dist.hurdle(dist.gamma(2, 3), 0.6)
    near(rain:log_prob(0), math.log(0.6))
    near(rain:log_prob(0.7), math.log(0.4) + dist.gamma(2, 3):log_prob(0.7):item())
    near(rain:mean(), 0.4 * 2 / 3)
    near(rain:variance(), 0.4 * (2 / 9 + 4 / 9) - (0.4 * 2 / 3) ^ 2)
    pn.seed(5)
    check_draws(d, 20000)
    check_draws(dist.hurdle(dist.negative_binomial(0.5, 0.3), 0.2), 20000)
    check_draws(rain, 20000)
    local rate, gate = pn.param(pn.tensor { 1.5, 0.2 }), pn.param(pn.tensor(0.3))
    assert.is_true(pn.check_gradients(function()
      return dist.hurdle(dist.poisson(rate), gate):log_prob({ { 0, 0 }, { 2, 1 } }):sum()
    end, { rate, gate }).error < 1e-6)
    assert.equal("float32", dist.hurdle(dist.poisson(pn.tensor(2, { dtype = "float32" })), 0.3):log_prob(1):dtype())
  end)

  it("are observed, predicted and scored", function()
    pn.seed(6)
    local y = pn.tensor { 0, 3, 0, 0, 1, 5, 0, 2, 0, 4, 0, 1 }
    for name, law in pairs { zero_inflated = dist.zero_inflated, hurdle = dist.hurdle } do
      local m = pn.model(function(m, seen)
        local gate, rate = m:sample("gate", dist.beta(1, 1)), m:sample("rate", dist.gamma(2, 1))
        m:plate("rows", 12, function() m:observe("y", law(dist.poisson(rate), gate), seen) end)
      end)
      local p = pn.nuts(m, { data = { y }, chains = 2, warmup = 300, draws = 500 })
      if name == "hurdle" then -- the gate's posterior is known: beta(1 + 6, 1 + 6)
        local row = p:summary().gate
        assert(math.abs(row.mean - 0.5) < 6 * row.mcse and row.mcse < 0.02)
        near(row.sd, math.sqrt(0.25 / 15), 0.1)
      end
      assert.is_nil(p:loo().warning)
      assert.equal(0, (p:predict().y - p:predict().y:round()):abs():min():item())
      assert(math.abs(p:predict().y:eq(0):to("float64"):mean():item() - 0.5) < 0.1)
    end
  end)

  it("refuse what they are not for", function()
    refused("zero_inflated: d must have a probability of 0, got gamma, which is continuous", dist.zero_inflated,
      dist.gamma(1, 1), 0.1)
    refused("hurdle: d must be of counts or of positive numbers, got normal, whose support is real", dist.hurdle,
      dist.normal(0, 1), 0.1)
    refused("hurdle: gate must be between 0 and 1, got 1.5", dist.hurdle, dist.poisson(1), 1.5)
    refused("zero_inflated: gate must be a tensor, a number or a list of numbers, got nil", dist.zero_inflated,
      dist.poisson(1))
    refused("hurdle: 0 has a probability of its own", pn.nuts, pn.model(function(m)
      m:sample("x", dist.hurdle(dist.gamma(1, 1), 0.3))
    end))
  end)
end)

describe("ordered labels", function()
  local cuts = pn.tensor { -1, 0.5, 2 }

  it("have the probabilities of mpmath, also far out", function()
    for _, c in ipairs(golden.ordered) do
      local d = dist[c.kind](c.eta, cuts)
      assert.equal("categorical", d.name)
      -- a categorical's logits lose what is below 1e-16 of one
      all_near(d:log_prob(pn.arange(4)), c.log_prob, 1e-12)
    end
    near(dist.ordered_logistic(0.4, { 1 }):log_prob(1), pn.tensor(0.4 - 1):log_sigmoid():item())
    near(dist.ordered_probit(0.4, { 1 }):log_prob(0), pn.tensor(1 - 0.4):log_ndtr():item())
  end)

  it("have gradients, batches of predictors and of cut points, and are fitted", function()
    pn.seed(7)
    local eta, c = pn.param(pn.randn { 5 }), pn.param(cuts)
    local y = pn.tensor({ 0, 1, 2, 3, 1 }, { dtype = "int64" })
    for _, kind in ipairs { "ordered_logistic", "ordered_probit" } do
      assert.is_true(pn.check_gradients(function() return dist[kind](eta, c):log_prob(y):sum() end, { eta, c }).error
        < 1e-6)
    end
    assert.same({ 5 }, dist.ordered_logistic(eta, pn.randn({ 5, 3 }):sort(-1)).batch_shape)
    local x = pn.randn { 400 }
    local m = pn.model(function(m, at, seen)
      local b = m:sample("b", dist.normal(0, 2))
      local k = m:sample("c", dist.normal(pn.zeros { 3 }, 3):independent(1), { constraint = "ordered_vector" })
      m:plate("rows", at:size(1), function() m:observe("y", dist.ordered_logistic(b * at, k), seen) end)
    end)
    local data = dist.ordered_logistic(1.3 * x, cuts):sample()
    local p = pn.nuts(m, { data = { x, data }, chains = 2, warmup = 300, draws = 300 })
    local s = p:summary()
    for name, want in pairs { b = 1.3, ["c[1]"] = -1, ["c[2]"] = 0.5, ["c[3]"] = 2 } do
      assert(math.abs(s[name].mean - want) < 4 * s[name].sd and s[name].sd < 0.3, name)
    end
    assert.same({ 600, 400 }, p:predict().y:shape())
    assert.is_nil(p:loo().warning)
  end)

  it("refuse cut points that do not ascend", function()
    refused("ordered_logistic: cutpoints must ascend %(as a latent variable", dist.ordered_logistic, 0, { 1, 1 })
    refused("ordered_probit: cutpoints must be %[..., K %- 1%], at least one, got shape %[0%]", dist.ordered_probit, 0,
      pn.zeros { 0 })
    refused("ordered_logistic: eta and cutpoints must have one dtype", dist.ordered_logistic,
      pn.zeros({ 2 }, { dtype = "float32" }), { 1, 2 })
  end)
end)
