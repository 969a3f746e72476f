-- pn.dist.custom and pn.dist.bijector.custom: rows of the library written again in Lua against the rows themselves, in
-- every place where a distribution can stand; and what is refused.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local LOG_ROOT = 0.5 * math.log(2 * math.pi)

local normal = dist.custom {
  name = "my_normal",
  parameters = { { "loc", default = 0 }, { "scale", constraint = "positive", default = 1 } },
  log_prob = function(d, x) return ((x - d.loc) / d.scale):square() * -0.5 - d.scale:log() - LOG_ROOT end,
  rsample = function(d, shape, g) return d.loc + d.scale * pn.randn(shape, { generator = g, dtype = d.dtype }) end,
  mean = function(d) return d.loc end,
  variance = function(d) return d.scale:square() end,
  mode = function(d) return d.loc end,
  entropy = function(d) return d.scale:log() + LOG_ROOT + 0.5 end,
  cdf = function(d, x) return (1 + ((x - d.loc) / (d.scale * math.sqrt(2))):erf()) * 0.5 end,
  icdf = function(d, p) return d.loc + d.scale * math.sqrt(2) * (p * 2 - 1):erfinv() end,
}

local exponential = dist.custom {
  name = "my_exponential", support = "nonnegative", parameters = { rate = "positive" },
  log_prob = function(d, x) return d.rate:log() - d.rate * x end,
  icdf = function(d, p) return -(-p):log1p() / d.rate end,
}

local poisson = dist.custom {
  name = "my_poisson", support = "nonnegative_integer", parameters = { rate = "positive" },
  log_prob = function(d, x) return x * d.rate:log() - d.rate - (x + 1):lgamma() end,
  sample = function(d, shape, g)
    local sizes = table.move(shape, 1, #shape - #d.batch_shape, 1, {})
    sizes.generator = g
    return dist.poisson(d.rate):sample(sizes):to(d.dtype)
  end,
}

local dirichlet = dist.custom {
  name = "my_dirichlet", support = "simplex",
  parameters = { { "concentration", constraint = "positive", event_ndim = 1 } },
  log_prob = function(d, x)
    local a = d.concentration
    return ((a - 1) * x:log()):sum { -1 } + a:sum { -1 }:lgamma() - a:lgamma():sum { -1 }
  end,
  rsample = function(d, shape, g)
    local sizes = table.move(shape, 1, #shape - #d.batch_shape - 1, 1, {})
    sizes.generator = g
    return dist.dirichlet(d.concentration):rsample(sizes)
  end,
  mean = function(d) return d.concentration / d.concentration:sum({ -1 }, true) end,
}

local window = dist.custom {
  name = "my_uniform", support = "interval", parameters = { { "low" }, { "high" } },
  log_prob = function(d) return -(d.high - d.low):log() end,
  in_support = function(d, x) return x:ge(d.low):logical_and(x:le(d.high)) end,
  icdf = function(d, p) return d.low + (d.high - d.low) * p end,
}

local gumbel_map = dist.bijector.custom {
  name = "gumbel_map", domain = "interval",
  forward = function(_, u) return -(-u:log()):log() end,
  inverse = function(_, y) return (-(-y):exp()):exp() end,
  log_det = function(_, u) return -(-u:log()):log() - u:log() end,
}

local shift_map = dist.bijector.custom {
  name = "shift_map", parameters = { { "shift" }, { "scale", constraint = "positive" } },
  forward = function(b, x) return b.shift + b.scale * x end,
  inverse = function(b, y) return (y - b.shift) / b.scale end,
  log_det = function(b, x) return b.scale:log():broadcast_to(x:shape()) end,
}

local function near(a, b, tolerance)
  assert.are.same(b:shape(), a:shape())
  assert.are.equal(b:dtype(), a:dtype())
  local both = (a - b):abs() / (b:abs() + 1)
  local equal = a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b)))
  local gap = pn.where(equal, pn.zeros({}, { dtype = a:dtype() }), both):max():item()
  assert.is_true(gap <= (tolerance or 1e-12), ("apart by %g"):format(gap))
end

local function exact(a, b)
  near(a, b, 0)
end

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message, 1, true)
  assert.matches("own_spec.lua:", message, 1, true)
end

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

describe("a law of one's own", function()
  it("passes the gradients of its functions and moments as the library's does", function()
    local x, p = pn.param(pn.tensor { -0.4, 1.3 }), pn.param(pn.tensor { 0.2, 0.9 })
    local loc, scale = pn.param(pn.tensor { 0.3, -0.2 }), pn.param(pn.tensor { 0.8, 1.7 })
    local list = { x, p, loc, scale }
    for _, name in ipairs { "log_prob", "cdf", "icdf", "log_cdf", "log_survival", "mean", "variance", "mode",
      "entropy" } do
      local values, slopes = {}, {}
      for k, make in ipairs { normal, dist.normal } do
        local d = make(loc, scale)
        local ok, y = pcall(d[name], d, name == "icdf" and p or x)
        values[k] = ok and y or false
        slopes[k] = ok and y:requires_grad() and pn.grad((y * pn.tensor { 1, -2 }):sum(), list)
      end
      if values[1] and values[2] then
        assert.is_true((values[1] - values[2]):abs():max():item() < 1e-12, name)
        for i in ipairs(list) do
          local a, b = slopes[1] and slopes[1][i], slopes[2] and slopes[2][i]
          assert.is_true(((a or x * 0) - (b or x * 0)):abs():max():item() < 1e-10, name .. " " .. i)
        end
      end
    end
  end)
end)

describe("a distribution of a script", function()
  local x = pn.randn { 5, 4, 3 }
  local pairs_of = {
    normal = { normal(pn.zeros { 4, 1 }, { 1, 2, 3 }), dist.normal(pn.zeros { 4, 1 }, pn.tensor { 1, 2, 3 }), x },
    exponential = { exponential { rate = { 1, 2, 3 } }, dist.exponential { rate = { 1, 2, 3 } },
      pn.tensor { { -1, 0.5, 2 }, { 0 / 0, math.huge, 1e-3 } } },
    poisson = { poisson { rate = { 1, 2, 3 } }, dist.poisson { rate = { 1, 2, 3 } },
      pn.tensor { { 0, 1, 2 }, { -1, 0.5, 7 } } },
    dirichlet = { dirichlet { concentration = { { 1, 2, 3 }, { 4, 5, 6 } } },
      dist.dirichlet { concentration = { { 1, 2, 3 }, { 4, 5, 6 } } },
      pn.tensor { { { 0.2, 0.3, 0.5 }, { 0.1, 0.1, 0.8 } }, { { 0.5, 0.5, 0.5 }, { 0 / 0, 0.2, 0.3 } } } },
    uniform = { window(pn.zeros(3), { 1, 2, 3 }), dist.uniform(pn.zeros(3), pn.tensor { 1, 2, 3 }),
      pn.tensor { { -1, 0.5, 2 }, { 0.5, 3, 0 / 0 } } },
  }

  for name, case in pairs(pairs_of) do
    it("has the shapes and densities of the row " .. name, function()
      local mine, row, at = case[1], case[2], case[3]
      assert.is_true(dist.is(mine))
      for _, field in ipairs { "batch_shape", "event_shape", "support", "discrete", "dtype", "independent_rank" } do
        assert.are.same(row[field], mine[field])
      end
      near(mine:log_prob(at), row:log_prob(at))
      near(mine:independent(1):log_prob(at), row:independent(1):log_prob(at))
      assert.are.same(row:sample { 2, 7 }:shape(), mine:sample { 2, 7 }:shape())
      assert.are.same(row:sample(7):shape(), mine:sample(7):shape())
      local wide = { 2, table.unpack(row.batch_shape) }
      local draw = row:expand(wide):sample()
      near(mine:expand(wide):log_prob(draw), row:expand(wide):log_prob(draw))
    end)
  end

  it("has the other functions of the row", function()
    local mine, row = pairs_of.normal[1], pairs_of.normal[2]
    for _, name in ipairs { "mean", "variance", "stddev", "mode", "entropy" } do
      near(mine[name](mine), row[name](row))
    end
    for _, name in ipairs { "cdf", "log_cdf", "log_survival" } do
      near(mine[name](mine, x), row[name](row, x), 1e-9)
    end
    local p = pn.tensor { -0.1, 0.2, 1.5 }
    near(mine:icdf(p), row:icdf(p), 1e-9)
    near(mine:independent(2):entropy(), row:independent(2):entropy())
    exact(mine:sample({ 3 }, pn.generator(5)), row:sample({ 3 }, pn.generator(5)))
    exact(mine:sample { 3, generator = pn.generator(5) }, mine:rsample({ 3 }, pn.generator(5)))
    local draw, lp = mine:rsample_log_prob { 3 }
    near(lp, row:log_prob(draw))
    near(exponential { rate = 2 }:sample({ 20000 }, pn.generator(1)):mean(), pn.tensor(0.5), 0.02)
  end)

  it("has gradients to its parameters and in x", function()
    local w, at = pn.param(pn.tensor { 0.3, 1.2 }), pn.param(pn.randn { 3 })
    assert.is_true(pn.check_gradients(function() return normal(w[1], w[2]):log_prob(at) end, { w, at },
      { order = 2 }).error < 1e-5)
    local function slope(d) return pn.grad(d:rsample({ 50 }, pn.generator(2)):square():sum(), { w })[1] end
    near(slope(normal(w[1], w[2])), slope(dist.normal(w[1], w[2])), 1e-10)
    local rate = pn.param(pn.tensor(2))
    local function inner(d) return pn.grad(d:log_prob(pn.tensor { 1, 2, 0.5 }):sum(), { rate })[1] end
    near(inner(exponential { rate = rate }), inner(dist.exponential(rate)))
    local outside = exponential { rate = rate }:log_prob { -1, 1, 2 }
    near(pn.grad(outside:slice(1, 2, 3):sum(), { rate })[1], pn.tensor(1 - 3.0)) -- 2 / rate - 3
    local quantile = normal(0, w[2]):icdf { 0.3, 1.5, -0.1 } -- of no probabilities there is none, nor a slope
    near(pn.grad(quantile:sum(), { w })[1], pn.tensor { 0, dist.normal(0, 1):icdf(0.3):item() }, 1e-9)
    local d = normal(w, 1)
    assert.are.equal("loc", d:named_parameters()[1][1])
    assert.are.equal(2, d:num_parameters())
  end)

  it("is one of float32", function()
    local d = normal(pn.zeros({ 2 }, { dtype = "float32" }), 2)
    assert.are.equal("float32", d.dtype)
    assert.are.equal("float32", d:sample { 3 }:dtype())
    near(d:log_prob { 1, 2 }, dist.normal(pn.zeros({ 2 }, { dtype = "float32" }), 2):log_prob { 1, 2 }, 1e-6)
    assert.are.equal("float64", d:to "float64":sample():dtype())
  end)

  it("is shown as a script writes it", function()
    assert.are.equal("my_normal{loc = 0, scale = {1, 2}}  batch [2] event []", tostring(normal(0, { 1, 2 })))
    assert.are.equal("transformed(my_normal{loc = 0, scale = 1}, exp())",
      tostring(dist.transformed(normal(), dist.bijector.exp())))
    assert.are.equal("gumbel_map()", tostring(gumbel_map()))
    assert.are.equal("chain{gumbel_map(), shift_map{shift = 1, scale = 2}}",
      tostring(dist.bijector.chain { gumbel_map(), shift_map(1, 2) }))
    assert.are.equal("distribution my_normal", tostring(normal))
  end)

  it("is replayed to the bit", function()
    local body = function(y)
      local d = normal(y:mean(), y:square():mean() + 1)
      local log_normal = dist.transformed(normal(y[1], 1), dist.bijector.exp())
      return d:log_prob(y), log_normal:log_prob(y), exponential { rate = d.scale }:log_prob(y),
        dist.masked(d, y:gt(0)):log_prob(y), window(0, 1):log_prob(y)
    end
    local step, y = pn.compile(body), pn.randn { 6, 3 }
    step(pn.rand { 6, 3 }) -- of which all are inside
    local replayed, eager = { step(y) }, { body(y) }
    for k = 1, #eager do
      exact(replayed[k], eager[k])
    end
    assert.are.equal(1, step:captures())
    local scaled = pn.compile(function(s) return normal(0, s):log_prob(1) end)
    scaled(pn.tensor(1))
    refused("my_normal: scale must be positive, got -1", scaled, pn.tensor(-1))
  end)

  it("is captured anew when something that its functions find outside has changed", function()
    local k = 1
    local kind = dist.custom { log_prob = function(_, v) return v * k end }
    local d = kind {}
    local step = pn.compile(function(v) return d:log_prob(v) end)
    step(pn.ones(2))
    k = 3
    exact(step(pn.ones(2)), pn.full({ 2 }, 3))
  end)
end)

describe("a distribution of a script among others", function()
  local x = pn.randn { 6, 2 }

  it("is masked, mixed and transformed as the row is", function()
    local mask = pn.tensor { true, false }
    local hole = pn.tensor { { 1, 0 / 0 }, { 2, 3 } }
    near(dist.masked(normal({ 0, 1 }, 1), mask):log_prob(hole),
      dist.masked(dist.normal(pn.tensor { 0, 1 }, 1), mask):log_prob(hole))
    near(dist.masked(normal({ 0, 1 }, 1), mask):entropy(),
      dist.masked(dist.normal(pn.tensor { 0, 1 }, 1), mask):entropy())
    local row = dist.mixture({ 0.3, 0.7 }, dist.normal(pn.tensor { 0, 3 }, pn.tensor { 1, 0.5 }))
    for _, mine in ipairs { dist.mixture({ 0.3, 0.7 }, normal({ 0, 3 }, { 1, 0.5 })),
      dist.mixture({ 0.3, 0.7 }, { normal(0, 1), dist.normal(3, 0.5) }),
      dist.mixture_of_experts({ normal(0, 1), normal(3, 0.5) }, { 0.3, 0.7 }) } do
      near(mine:log_prob(x), row:log_prob(x))
      near(mine:mean(), row:mean())
      near(mine:variance(), row:variance())
      near(mine:cdf(x), row:cdf(x), 1e-9)
      near(mine:sample({ 40000 }, pn.generator(1)):mean(), row:mean(), 0.02)
      near(mine:expand { 4, 2 }:log_prob(pn.ones { 4, 2 }), row:expand { 4, 2 }:log_prob(pn.ones { 4, 2 }))
    end
    -- what all components share has no axis of theirs, or one of size 1
    near(dist.mixture({ 0.3, 0.7 }, normal({ 0, 3 }, 0.8)):log_prob(x),
      dist.mixture({ 0.3, 0.7 }, dist.normal(pn.tensor { 0, 3 }, 0.8)):log_prob(x))
    local loc, scale = pn.tensor { { 0, 3 }, { 1, -1 } }, pn.tensor { { 0.8 }, { 2 } }
    near(dist.mixture({ 0.3, 0.7 }, normal(loc, scale)):log_prob(pn.ones { 4, 2 }),
      dist.mixture({ 0.3, 0.7 }, dist.normal(loc, scale)):log_prob(pn.ones { 4, 2 }))
    local positive = pn.rand { 5, 2 } + 0.1
    local mine = dist.transformed(normal({ 0, 1 }, 0.5), dist.bijector.exp())
    near(mine:log_prob(positive), dist.log_normal(pn.tensor { 0, 1 }, 0.5):log_prob(positive))
    near(mine:sample({ 3 }, pn.generator(1)), dist.log_normal(pn.tensor { 0, 1 }, 0.5):sample({ 3 }, pn.generator(1)))
    assert.are.equal(-math.huge, mine:log_prob(-1)[1]:item())
    local vector = dist.transformed(normal(pn.zeros(2), 1), dist.bijector.softmax_centred())
    assert.are.same({ 3 }, vector.event_shape)
    local p = pn.tensor { 0.2, 0.3, 0.5 }
    near(vector:log_prob(p), dist.transformed(dist.normal(pn.zeros(2), 1), dist.bijector.softmax_centred()):log_prob(p))
  end)

  it("has divergences by draws", function()
    local kl, error_ = both(dist.kl_monte_carlo(normal(0, 1), dist.normal(1, 1), { generator = pn.generator(4) }))
    assert.is_true(error_:item() < 0.02 and (kl - 0.5):abs():item() < 6 * error_:item())
    local entropy, spread = both(dist.entropy_monte_carlo(exponential { rate = 2 }, { generator = pn.generator(4) }))
    assert.is_true(spread:item() < 0.02 and (entropy - (1 - math.log(2))):abs():item() < 6 * spread:item())
    assert.is_true(dist.jensen_shannon_monte_carlo(normal(0, 1), normal(1, 1)).value:item() < math.log(2))
  end)

  -- y ~ normal(a + b x, s): the same model with the library's rows and with those of a script
  local function regression(n, e)
    local data, y = pn.linspace(-1, 1, 20), pn.linspace(-1, 1, 20) * 0.7 + 0.2
    return pn.model(function(m)
      local w = m:sample("w", n { loc = pn.zeros(2), scale = 1 }:independent(1))
      local s = m:sample("s", e { rate = 2 })
      m:observe("y", n(w[1] + w[2] * data, s + 0.1), y)
    end)
  end

  it("is sampled by NUTS to the draws of the row, and by SVI", function()
    local function draws(n, e)
      return pn.nuts(regression(n, e), { chains = 2, warmup = 200, draws = 300, progress = false,
        generator = pn.generator(3) }).draws
    end
    local mine, row = draws(normal, exponential), draws(dist.normal, dist.exponential)
    for name, value in pairs(row) do
      local flat = value:reshape { 600, -1 }
      local error_ = (flat:var(1) / 600 * 4):sqrt() -- a quarter of the draws count
      local gap = (mine[name]:reshape { 600, -1 }:mean(1) - flat:mean(1)):abs() / error_
      assert.is_true(gap:max():item() < 6, name)
      assert.is_true(error_:max():item() < 0.05, name)
    end
    local function fitted(n, e, guide)
      pn.seed(1)
      return pn.svi(regression(n, e), guide, { steps = 400, progress = false, divergence = "monte_carlo" })
    end
    local automatic = fitted(normal, exponential, "mean_field")
    near(pn.tensor(automatic.losses), pn.tensor(fitted(dist.normal, dist.exponential, "mean_field").losses), 1e-9)
    local function guide(n)
      return pn.model(function(m)
        local loc, spread = m:param("loc", pn.zeros(2)), m:param("spread", pn.zeros(2))
        m:sample("w", n { loc = loc, scale = spread:exp() }:independent(1))
        m:sample("s", dist.transformed(n { loc = m:param("log_s", 0), scale = 0.1 }, dist.bijector.exp()))
      end)
    end
    local own = fitted(normal, exponential, guide(normal))
    near(pn.tensor(own.losses), pn.tensor(fitted(dist.normal, dist.exponential, guide(dist.normal)).losses), 1e-9)
  end)

  it("is a prior over positive numbers and shares that NUTS moves in", function()
    local m = pn.model(function(t)
      local p = t:sample("p", dirichlet { concentration = { 2, 3, 5 } })
      t:observe("n", dist.multinomial { probs = p, total_count = 10 }, pn.tensor { 2, 3, 5 })
      local u = t:sample("u", window(1, 3))
      t:observe("v", dist.normal(u, 0.5), 2)
    end)
    local d = pn.nuts(m, { chains = 2, warmup = 200, draws = 500, progress = false, generator = pn.generator(1) }).draws
    local mean = d.p:reshape { 1000, 3 }:mean(1) -- of a Dirichlet distribution with {4, 6, 10}
    near(mean, pn.tensor { 0.2, 0.3, 0.5 }, 0.03)
    near(d.u:reshape { 1000 }:mean(1), pn.tensor(2), 0.05)
    assert.is_true(d.u:min():item() > 1 and d.u:max():item() < 3)
  end)
end)

describe("a bijector of a script", function()
  local y = pn.randn { 5, 2 }

  it("gives the laws that its map gives", function()
    local uniform = dist.uniform(pn.zeros(2), 1)
    near(dist.transformed(uniform, gumbel_map()):log_prob(y), dist.gumbel(0, 1):log_prob(y))
    near(gumbel_map()(uniform):log_prob(y), dist.gumbel(0, 1):log_prob(y))
    local chain = dist.bijector.chain { gumbel_map(), dist.bijector.affine(1, 2) }
    near(dist.transformed(uniform, chain):log_prob(y), dist.gumbel(1, 2):log_prob(y))
    -- beside one of whole vectors the others' determinants are summed: x1, x1 x2
    local product = dist.bijector.custom { name = "product", domain = "positive", codomain = "positive",
      event_ndim = 1,
      forward = function(_, x) return x:cumprod(-1) end,
      inverse = function(_, v)
        return pn.stack({ v:select(-1, 1), v:select(-1, 2) / v:select(-1, 1) }, -1)
      end,
      log_det = function(_, x) return x:select(-1, 1):log() end }
    local three = dist.bijector.chain { shift_map(1, { 2, 3 }), dist.bijector.exp(), product() }
    local first = y:select(-1, 1) * 2 + 1
    near(three:forward(y), pn.stack({ first, first + y:select(-1, 2) * 3 + 1 }, -1):exp())
    near(three:log_abs_det(y), first * 2 + y:select(-1, 2) * 3 + 1 + math.log(6))
    near(three:inverse(three:forward(y)), y)
    assert.same({ "real", "positive" }, { tostring(three.domain), tostring(three.codomain) })
    refused("chain: values of shift_map must be positive for inverse", dist.bijector.chain, { dist.bijector.exp(),
      dist.bijector.inverse(dist.bijector.exp()), shift_map(1, 2), dist.bijector.inverse(dist.bijector.exp()) })
    refused("chain: values of shift_map must be positive for inverse", dist.bijector.chain,
      { shift_map(1, 2), dist.bijector.inverse(dist.bijector.exp()) })
    near(dist.transformed(normal(pn.zeros(2), 1), shift_map(1, { 2, 3 })):log_prob(y),
      dist.normal(1, pn.tensor { 2, 3 }):log_prob(y))
    near(dist.transformed(dist.normal(pn.zeros(2), 1):independent(1), shift_map(1, 2)):log_prob(y),
      dist.normal(pn.ones(2), 2):independent(1):log_prob(y))
    local back = dist.bijector.inverse(gumbel_map())
    near(back:forward(gumbel_map():forward { 0.3, 0.4 }), pn.tensor { 0.3, 0.4 })
    near(back:inverse { 0.3, 0.4 }, gumbel_map():forward { 0.3, 0.4 })
    near(back:log_abs_det(y), -gumbel_map():log_abs_det(back:forward(y)))
    assert.is_true(dist.bijector.is(back))
    local w = pn.param(pn.tensor(0.5))
    assert.is_true(pn.check_gradients(function()
      return dist.transformed(normal(pn.zeros(2), 1), shift_map(w, 2)):log_prob(y)
    end, { w }).error < 1e-6)
    assert.are.equal(1, #shift_map(w, 2):parameters())
  end)

  -- y = s Q x of pairs: a log determinant a number for each pair, also where log_det gives one number for all.
  it("has a log determinant without the axes of its events", function()
    local turned = dist.bijector.custom {
      name = "turned", domain = "real_vector", codomain = "real_vector", parameters = { { "scale" } },
      forward = function(b, x) return x:matmul(pn.tensor { { 0.6, 0.8 }, { -0.8, 0.6 } }) * b.scale end,
      inverse = function(b, v) return v:matmul(pn.tensor { { 0.6, -0.8 }, { 0.8, 0.6 } }) / b.scale end,
      log_det = function(b) return b.scale:log() * 2 end,
    }(3)
    local x = pn.randn({ 4, 5, 2 }, { generator = pn.generator(2) })
    near(turned:log_abs_det(x), pn.full({ 4, 5 }, 2 * math.log(3)))
    near(turned:inverse(turned:forward(x)), x)
    local d = dist.transformed(normal(pn.zeros(2), 1):independent(1), turned)
    near(d:log_prob(x), normal(pn.zeros(2), 3):independent(1):log_prob(x))
  end)

  -- y = A x of numbers that are mapped together: a multivariate normal; all six numbers of a matrix at a time
  it("maps more axes together than its set has", function()
    local a = pn.tensor { { 2, 0, 0 }, { 1, 1, 0 }, { 0.5, -1, 3 } }
    local linear = dist.bijector.custom { name = "linear", event_ndim = 1,
      forward = function(_, x) return x:matmul(a:t()) end,
      inverse = function(_, u) return a:solve(u:unsqueeze(-1)):squeeze(-1) end,
      log_det = function(_, x) return x:sum(-1) * 0 + math.log(6) end }()
    local law = dist.multivariate_normal { loc = pn.zeros { 3 }, covariance_matrix = a:matmul(a:t()) }
    local v = pn.randn({ 2, 3 }, { generator = pn.generator(3) })
    for _, base in ipairs { dist.normal(pn.zeros { 2, 3 }, 1), dist.normal(pn.zeros { 2, 3 }, 1):independent(1) } do
      local d = dist.transformed(base, linear)
      assert.same({ { 2 }, { 3 } }, { d.batch_shape, d.event_shape })
      near(d:log_prob(v), law:log_prob(v))
    end
    local twice = dist.bijector.custom { name = "twice", event_ndim = 2, forward = function(_, x) return x * 2 end,
      inverse = function(_, u) return u / 2 end,
      log_det = function(_, x) return x:sum(-1):sum(-1) * 0 + 6 * math.log(2) end }()
    near(dist.transformed(dist.normal(pn.zeros { 2, 3 }, 1), twice):log_prob(v), dist.normal(0, 2):log_prob(v):sum())
  end)

  it("is the way in which NUTS moves", function()
    local m = pn.model(function(t)
      local u = t:sample("u", dist.exponential(1), { constraint = dist.bijector.custom {
        codomain = "positive",
        forward = function(_, v) return v:exp() end,
        inverse = function(_, v) return v:log() end,
        log_det = function(_, v) return v end,
      } {} })
      t:observe("y", dist.poisson(u), 3)
    end)
    local d = pn.nuts(m, { chains = 2, warmup = 200, draws = 500, progress = false, generator = pn.generator(1) }).draws
    near(d.u:reshape { 1000 }:mean(1), pn.tensor(2), 0.1) -- gamma(4, 2)
  end)
end)

describe("what a distribution of a script refuses", function()
  local function plain(_, x) return x end
  it("is a kind that is none", function()
    refused("custom: option 'log_prob' is required", dist.custom, {})
    refused("custom: unknown option 'logprob', did you mean 'log_prob'?", dist.custom, { logprob = plain })
    refused("custom: there is no set 'positve', did you mean 'positive'?", dist.custom,
      { log_prob = plain, support = "positve" })
    refused("custom: support 'interval' depends on parameters: give in_support", dist.custom,
      { log_prob = plain, support = "interval" })
    refused("custom: parameter 'a': unknown option 'constrain', did you mean 'constraint'?", dist.custom,
      { log_prob = plain, parameters = { a = { constrain = "real" } } })
    refused("custom: parameter 'mean' has the name of a method", dist.custom,
      { log_prob = plain, parameters = { mean = "real" } })
    refused("custom: parameter 'name' has the name of a field", dist.custom,
      { log_prob = plain, parameters = { name = "real" } })
    refused("custom: event_ndim must be a whole number from 1 on, got 0", dist.custom,
      { log_prob = plain, support = "simplex", event_ndim = 0 })
    refused("custom: event_shape must give 1 sizes (or a parameter must have event_ndim = 1), got []",
      dist.custom { log_prob = plain, support = "simplex" }, {})
  end)

  it("is a parameter that is none", function()
    refused("my_normal: scale must be positive, got -1", normal, 0, -1)
    refused("my_normal: unknown option 'scal', did you mean 'scale'?", normal, { scal = 1 })
    refused("my_normal: number of positional parameters must be at most 2, got 3", normal, 0, 1, 2)
    refused("my_exponential: rate is missing", exponential, {})
    refused("my_normal: batch shapes of the parameters must broadcast, got [2] for scale after [3]", normal,
      pn.zeros(3), pn.ones(2))
    refused("my_normal: parameters must have one dtype, got float32 and float64 for scale", normal,
      pn.zeros({}, { dtype = "float32" }), pn.ones {})
    refused("my_normal: loc must be float64 or float32, got int64", normal, pn.tensor({ 1 }, { dtype = "int64" }))
    refused("my_dirichlet: concentration must have at least 1 axis, got shape []", dirichlet, 1)
    local two = dist.custom { log_prob = plain, parameters = { a = "real", b = "real" } }
    refused("custom: parameters must be given by name", two, 1, 2)
  end)

  it("is a point, a size or a function that is not there", function()
    local d = normal(pn.zeros { 4, 1 }, { 1, 2, 3 })
    refused("my_normal: log_prob: x would be stretched along an axis of size 1", d.log_prob, d, pn.zeros { 2, 1, 3 })
    refused("my_normal: log_prob: x must be float64 as the parameters are, got float32", d.log_prob, d,
      pn.zeros({ 4, 3 }, { dtype = "float32" }))
    refused("my_normal: log_prob: x must be a tensor, a number or a list, got string", d.log_prob, d, "x")
    refused("my_normal: cdf does not exist after independent", d.cdf, d:independent(1), 0)
    refused("my_exponential: mean does not exist", exponential { rate = 1 }.mean, exponential { rate = 1 })
    refused("my_exponential: entropy does not exist (entropy_monte_carlo estimates it)",
      exponential { rate = 1 }.entropy, exponential { rate = 1 })
    local bare = dist.custom { name = "bare", support = "real", log_prob = function(_, x) return -x:square() end }
    refused("bare: sample does not exist (what gives it is sample, rsample or icdf", bare().sample, bare())
    refused("my_poisson: rsample does not exist: its draws have no derivative", poisson { rate = 1 }.rsample,
      poisson { rate = 1 })
    refused("my_normal: sample: unknown option 'generater'", d.sample, d, { 2, generater = 1 })
    refused("my_normal: sample: size must not be negative, got -1", d.sample, d, { -1 })
    refused("my_normal: independent: k must be a number of batch axes, 0 to 2, got 3", d.independent, d, 3)
    refused("my_normal: expand: batch shape [4, 3] does not broadcast to [3]", d.expand, d, { 3 })
    refused("my_exponential: x must be not negative, got -1", d.log_prob, exponential { rate = 1 }:validate(), -1)
    refused("my_normal: a distribution does not change", function() d.loc2 = 3 end)
    refused("my_normal: to: dtype must be", d.to, d, "int64")
  end)

  it("is a function that gives something else", function()
    local wrong = dist.custom { name = "wrong", log_prob = function() return 3 end, rsample = function()
      return pn.zeros(5)
    end, mean = function() error "boom" end }
    refused("wrong: log_prob must return a tensor, got number", wrong {}.log_prob, wrong {}, 0)
    refused("wrong: rsample must return shape [2], got [5]", wrong {}.rsample, wrong {}, { 2 })
    refused("boom", wrong {}.mean, wrong {})
    local before = pn.param(pn.ones {})
    pcall(wrong {}.sample, wrong {}, { 2 })
    assert.is_true((before * 2):requires_grad()) -- gradients are recorded as before
  end)

  it("is what only the library's own have", function()
    local d = normal(0, 1)
    refused("kl: there is no closed form for my_normal and normal (kl_monte_carlo estimates it)", dist.kl, d,
      dist.normal(0, 1))
    refused("renyi: argument 1 must be a distribution, got a script's distribution", dist.renyi, d, d, 2)
    refused("transformed: values of the base must be positive for inverse, got my_normal on 'real'", dist.transformed,
      d, dist.bijector.inverse(dist.bijector.exp()))
    refused("save: 'd' is a distribution of a script: save d:arguments() and make it again", pn.save, "x.safetensors",
      { d = d })
    refused("save: 'b' is a bijector of a script", pn.save, "x.safetensors", { b = gumbel_map() })
  end)
end)
