-- The Bernoulli log mass of logits in one pass: closed forms of its values and derivatives, other x, broadcasting.
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

  it("has the gradient in x of the formula for real x", function()
    local x, l = pn.param(pn.tensor { 0, 1 }), pn.tensor { 0.7, -0.4 }
    local g = pn.grad(log_prob(x, l):sum(), { x })[1]
    assert.near(2 * 0.7 / (1 + math.exp(-0.7)), g[1]:item(), 1e-12)
    assert.near(2 * -0.4 / (1 + math.exp(-0.4)), g[2]:item(), 1e-12)
  end)
end)
