-- What op_density.c computes in one pass: values and derivatives of reference, other x, broadcasting; relu's gradient.
local pn = require "penumbra"

local function log_prob(x, l)
  return pn.dist.bernoulli { logits = l }:log_prob(x)
end

local golden = dofile "spec/golden/autodiff/bernoulli.lua"

describe("Bernoulli log mass of logits", function()
  it("has the values of spec/golden/autodiff/bernoulli.py, with derivatives up to the third", function()
    for one = 0, 1 do
      local l = pn.param(pn.tensor(golden.logits))
      local y = log_prob(pn.full({ #golden.logits }, one), l)
      local first = pn.grad(y:sum(), { l }, { create_graph = true })[1]
      local second = pn.grad(first:sum(), { l }, { create_graph = true })[1]
      local third = pn.grad(second:sum(), { l })[1]
      for k, v in ipairs(golden.logits) do
        local value, slope = golden.bernoulli_log_mass[one + 1][k], golden.bernoulli_score[one + 1][k]
        assert.near(value, y[k]:item(), 1e-14 * math.abs(value))
        assert.near(slope, first[k]:item(), 1e-14 * math.abs(slope))
        assert.near(golden.curvature[k], second[k]:item(), 1e-14)
        assert.near(-golden.curvature[k] * pn.tanh(pn.tensor(v / 2)):item(), third[k]:item(), 1e-14)
      end
    end
  end)

  it("is -inf with gradient 0 at other x, and NaN at NaN", function()
    local l = pn.param(pn.tensor { 0.5, 0.5, 0.5, 0.5 })
    local y = log_prob(pn.tensor { 0.5, -1, math.huge, 0 / 0 }, l)
    for k = 1, 3 do
      assert.equal(-math.huge, y[k]:item())
    end
    assert.is_true(y[4]:item() ~= y[4]:item())
    assert.same({ 0, 0, 0, 0 }, pn.grad(y:sum(), { l })[1]:totable())
    local p = pn.param(pn.tensor { 0.5, 0.5, 0.5, 0.5 })
    local z = pn.dist.bernoulli(p):log_prob(pn.tensor { 0.5, -1, math.huge, 0 / 0 })
    assert.equal(-math.huge, z[1]:item())
    assert.is_true(z[4]:item() ~= z[4]:item())
    assert.same({ 0, 0, 0, 0 }, pn.grad(z:sum(), { p })[1]:totable())
  end)

  it("broadcasts and reads strided operands, in both types", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local o = { dtype = dtype }
      pn.seed(4)
      local x = (pn.rand({ 3, 700 }, o) - 0.5):gt(0):to(dtype)
      local l = pn.randn({ 700, 2, 3 }, o):permute { 2, 3, 1 }
      local y = log_prob(x, l)
      local want = ((x * 2 - 1) * l):log_sigmoid()
      assert.is_true((y - want):abs():max():item() == 0)
      assert.same({ 2, 3, 700 }, y:shape())
    end
  end)

  it("has no slope in x, as with probs: between 0 and 1 there is no mass", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local x, l = pn.param(pn.tensor({ 0, 1 }, { dtype = dtype })), pn.tensor({ 0.7, -0.4 }, { dtype = dtype })
      for _, d in ipairs { pn.dist.bernoulli { logits = l }, pn.dist.bernoulli { probs = l:sigmoid() } } do
        assert.is_false(d:log_prob(x):requires_grad())
      end
    end
  end)
end)

describe("Bernoulli log mass of rows of logits", function()
  -- rows of numbers of an event, and each number as an event of its own
  local function rows(x, l, moved)
    return pn.dist.bernoulli({ logits = l }):independent(moved or 1):log_prob(x)
  end
  local function ones(shape, dtype)
    return (pn.rand(shape, { dtype = dtype }) - 0.6):gt(0):to(dtype)
  end
  local function gap(a, b)
    return ((a - b):abs() / (b:abs() + 1e-300)):max():item()
  end

  it("keeps the digits of spec/golden/autodiff/bernoulli.py, alone and in sums", function()
    local n = #golden.logits
    for one = 0, 1 do
      local want = golden.bernoulli_log_mass[one + 1]
      local x, l = pn.full({ n, 1 }, one), pn.tensor(golden.logits):unsqueeze(2)
      assert.is_true(gap(rows(x, l), pn.tensor(want)) < 1e-14)
      -- one of them among numbers without mass to speak of
      local sure = pn.full({ n, 40 }, one == 1 and 800 or -800)
      local y = rows(pn.full({ n, 41 }, one), pn.concatenate({ sure, l }, 2))
      assert.is_true(gap(y, pn.tensor(want)) < 1e-14)
    end
  end)

  it("is the sum of the elements', and so is its gradient, for rows of any length", function()
    for dtype, tolerance in pairs { float64 = 1e-14, float32 = 2e-6 } do
      for _, n in ipairs { 1, 15, 16, 17, 31, 32, 33, 64, 700, 2048, 2049, 4500 } do
        pn.seed(n)
        local x, l = ones({ 3, n }, dtype), pn.param(pn.randn({ 3, n }, { dtype = dtype }) * 8)
        local g = pn.tensor({ 0.3, -2, 5 }, { dtype = dtype })
        local apart, y = log_prob(x, l), rows(x, l)
        assert.is_true(gap(y, apart:to("float64"):sum(2):to(dtype)) < tolerance)
        local want = pn.grad((apart * g:unsqueeze(2)):sum(), { l })[1]
        assert.equal(0, (pn.grad((y * g):sum(), { l })[1] - want):abs():max():item())
        local graph = pn.grad((y * g):sum(), { l }, { create_graph = true })[1]
        assert.is_true((graph - want):abs():max():item() < 1e-6)
        assert.is_true(graph:requires_grad())
      end
    end
  end)

  it("is finite for rows of any length", function()
    for dtype, tolerance in pairs { float64 = 1e-14, float32 = 1e-6 } do
      local y = rows(pn.ones({ 40000 }, { dtype = dtype }), pn.zeros({ 40000 }, { dtype = dtype }))
      assert.near(-1, y:item() / (40000 * math.log(2)), tolerance)
    end
  end)

  it("broadcasts, reads strided operands and sums over further axes", function()
    for dtype, tolerance in pairs { float64 = 1e-13, float32 = 1e-5 } do
      pn.seed(5)
      local o = { dtype = dtype }
      local x = ones({ 3, 50 }, dtype)
      for _, l in ipairs { pn.randn({ 2, 3, 50 }, o), pn.randn({ 50, 3, 2 }, o):permute { 3, 2, 1 },
        pn.randn({ 2, 1, 50 }, o), pn.randn({ 50 }, o), pn.randn({ 2, 3, 1 }, o) } do
        for _, given in ipairs { x, x:unsqueeze(1):broadcast_to { 2, 3, 50 }, x:t():contiguous():t() } do
          local w = pn.param(l)
          local all = w:broadcast_to { 2, 3, 50 }
          local apart, y = log_prob(given, all), rows(given, all)
          assert.is_true(gap(y, apart:sum(3)) < tolerance)
          assert.is_true(gap(rows(given, all, 2), apart:sum { 2, 3 }) < tolerance)
          local slope = pn.grad(apart:sum(), { w })[1]
          assert.is_true((pn.grad(y:sum(), { w })[1] - slope):abs():max():item() < 100 * tolerance)
        end
      end
    end
  end)

  it("is -inf without slope where an x is neither 0 nor 1, and NaN where one is NaN", function()
    local l = pn.param(pn.tensor { { 0.5, 0.2 }, { 0.5, 0.2 }, { 0.5, 0.2 }, { 0.5, 0.2 } })
    local y = rows(pn.tensor { { 1, 0.5 }, { math.huge, 0 }, { 0 / 0, 1 }, { 1, 0 } }, l)
    assert.equal(-math.huge, y[1]:item())
    assert.equal(-math.huge, y[2]:item())
    assert.is_true(y[3]:item() ~= y[3]:item() and y[4]:item() > -2)
    local g = pn.grad(y:sum(), { l })[1]:totable()
    assert.same({ 0, 0, 0 }, { g[1][2], g[2][1], g[3][1] })
    assert.is_true(g[1][1] > 0 and g[2][2] < 0 and g[3][2] > 0)
  end)

  it("has the same bits for any number of threads, in a replay and under vmap", function()
    pn.seed(6)
    local x, l = ones({ 300, 250 }, "float32"), pn.param(pn.randn({ 300, 250 }, { dtype = "float32" }))
    local function both(given)
      local y = rows(given, l)
      return y, pn.grad((y * y):sum(), { l })[1]
    end
    local y, g = both(x)
    local old = pn.threads()
    pn.threads(2)
    local y2, g2 = both(x)
    pn.threads(old)
    local y3, g3 = pn.compile(both)(x)
    for _, pair in ipairs { { y, y2 }, { g, g2 }, { y, y3 }, { g, g3 } } do
      assert.equal(0, (pair[1] - pair[2]):abs():max():item())
    end
    local mapped = pn.vmap(function(a, b)
      return rows(a, b)
    end)(x, l:detach())
    assert.equal(0, (mapped - y):abs():max():item())
  end)
end)

describe("divergence of normals from a prior around zero", function()
  local want = dofile "spec/golden/autodiff/divergence.lua"

  it("has the value and the slopes of spec/golden/autodiff/divergence.py", function()
    for dtype, tolerance in pairs { float64 = 1e-12, float32 = 1e-5 } do
      local o = { dtype = dtype, bias = false, prior_scale = want.prior }
      local layer = pn.nn.bayes_linear(4, 1, o)
      local function column(t)
        return pn.tensor(t, { dtype = dtype }):reshape { 4, 1 }
      end
      layer:load_state { weight_loc = column(want.loc), weight_log_scale = column(want.log_scale) }
      local params = layer:parameters()
      local value = layer:kl()
      assert.near(want.normal_divergence, value:item(), tolerance * want.normal_divergence)
      local g = pn.grad(value * 3, params)
      for k = 1, 4 do
        assert.near(3 * want.loc_slope[k], g[1][k]:item(), 20 * tolerance)
        assert.near(3 * want.normal_divergence_slope[k], g[2][k]:item(), 20 * tolerance)
      end
    end
  end)

  it("is the closed form for any number of weights and any memory, with second derivatives", function()
    pn.seed(7)
    for _, n in ipairs { 1, 7, 8, 255, 256, 257, 1000 } do
      local layer = pn.nn.bayes_linear(n, 1, { prior_scale = 0.4, bias = false })
      local m, s = table.unpack(layer:parameters())
      s:set(pn.randn { n, 1 } * 0.3)
      local direct = (((s * 2):exp() + m:square()) / (2 * 0.16) - s):sum() + n * (math.log(0.4) - 0.5)
      assert.near(direct:item(), layer:kl():item(), 1e-12 * math.abs(direct:item()))
      local function second(y)
        local g = pn.grad(y, { m, s }, { create_graph = true })
        return pn.grad((g[1]:square() + g[2]:square()):sum(), { m, s })
      end
      local got, expected = second(layer:kl()), second(direct)
      for k = 1, 2 do
        assert.is_true(((got[k] - expected[k]):abs():max() / expected[k]:abs():max()):item() < 1e-12)
      end
    end
  end)

  it("goes with draws of the local estimator: one row, weights of zero but for one, noise drawn beforehand", function()
    -- y = x m + sqrt(x^2 e^(2 log s)) noise with x = 1
    pn.seed(12)
    local layer = pn.nn.bayes_linear(1, 4, { bias = false })
    local m, log_s = pn.tensor { want.loc }, pn.tensor { want.log_scale }
    layer:load_state { weight_loc = m, weight_log_scale = log_s }
    local noise = pn.randn({ 1, 4 }, { generator = pn.generator(3) })
    local y = layer(pn.ones { 1, 1 }, pn.generator(3))
    local g = pn.grad(y:sum(), { layer:parameters()[2] })[1]
    for k = 1, 4 do
      local e, s = noise[1][k]:item(), math.sqrt(want.log_scale_variance[k])
      -- the reference's draw, moved to our noise
      local draw = want.normal_draw[k] + s * (e - want.noise[k])
      assert.near(draw, y[1][k]:item(), 1e-12)
      local slope = want.normal_draw_slope[k] / want.noise[k] * e * 2 * want.log_scale_variance[k]
      assert.near(slope, g[1][k]:item(), 1e-12)
    end
  end)

  it("relu passes the gradient where the result is positive", function()
    local case = want.relu_slope
    local x = pn.param(pn.tensor(case.y))
    local g = pn.grad((x:relu() * pn.tensor(case.g)):sum(), { x }, { create_graph = true })[1]
    assert.same(case.value, g:totable())
    local w = pn.param(pn.tensor { 0.5, -2, 3 })
    local first = pn.grad(((x * w):relu() * x):sum(), { w }, { create_graph = true })[1]
    local y = case.y
    assert.same({ 0, 0, y[3] ^ 2 }, first:totable())
    assert.same({ 0, 0, 2 * y[3] }, pn.grad(first:sum(), { x })[1]:totable())
  end)

  it("leaky_relu passes the gradient whole above 0, at 0 and below a part of it", function()
    local case, slope = want.leaky_relu, want.leaky_relu_slope
    local f = pn.nn.leaky_relu { slope = case.slope }
    for _, step in ipairs { 1, 2 } do -- rows that run on, and every second element
      local x = pn.param(pn.stack({ pn.tensor(case.x), pn.tensor(case.x) }, 2):reshape { 6 })
      local part = x:slice(1, 1, step == 1 and 3 or 6, step)
      part = step == 1 and pn.param(pn.tensor(case.x)) or part
      local y = f(part)
      assert.same(case.value, y:totable())
      assert.same(slope.value, pn.grad((y * pn.tensor(slope.g)):sum(), { part })[1]:totable())
    end
    local x, w = pn.param(pn.tensor(case.x)), pn.param(pn.tensor { 0.5, -2, 3 })
    local first = pn.grad((f(x * w) * x):sum(), { w }, { create_graph = true })[1]
    assert.same({ case.x[1] ^ 2 * 0.25, 0, case.x[3] ^ 2 }, first:totable())
    assert.same({ 2 * case.x[1] * 0.25, 0, 2 * case.x[3] }, pn.grad(first:sum(), { x })[1]:totable())
  end)
end)
