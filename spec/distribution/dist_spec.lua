-- Every set against its members, and what no single row shows. (Rows against the battery: rows_*_spec.lua.)
local pn = require "penumbra"
local sets = require "spec.golden.distribution.constraint"

local dist = pn.dist

describe("a set", function()
  for name, set in pairs(sets) do
    it(name .. " holds its members and no others", function()
      for _, v in ipairs(set.inside) do
        assert.equal(0, dist.within(name, pn.tensor(v)):logical_not():sum():item())
      end
      for _, v in ipairs(set.outside) do
        assert.equal(1, dist.within(name, pn.tensor(v)):logical_not():sum():item())
      end
    end)
  end

  it("is an error when unknown or too small", function()
    assert.has_error(function() dist.within("positiv", 1) end)
    assert.has_error(function() dist.within("simplex", 1) end)
  end)
end)

describe("a constructor", function()
  it("takes parameters in order or by name, numbers, tensors and lists", function()
    assert.equal(2, dist.normal(1, 2).scale:item())
    assert.equal(1, dist.normal(1).scale:item())
    assert.equal(3, dist.normal({ scale = 3 }).scale:item())
    assert.equal(0, dist.normal().loc:item())
    assert.same({ 0.2, 0.8 }, dist.categorical({ 0.2, 0.8 }).probs:totable())
    assert.same({ 3 }, dist.normal({ loc = { 1, 2, 3 } }).batch_shape)
    assert.equal("[3]", tostring(dist.normal({ loc = { 1, 2, 3 } }).batch_shape))
    assert.equal("[]", tostring(dist.normal(0, 1).event_shape))
    assert.equal("float32", dist.normal(pn.zeros({ 2, dtype = "float32" }), 1):sample():dtype())
  end)

  it("blames the user's line", function()
    local ok, message = pcall(function() return dist.gamma(1, -1) end)
    assert.is_false(ok)
    assert.matches("dist_spec.lua:%d+: gamma: rate must be positive, got %-1", message)
  end)

  it("tells of a NaN without its sign", function()
    for _, nan in ipairs { 0 / 0, -(0 / 0) } do
      assert.error_matches(function() dist.normal(0, nan) end, "scale must be finite, got nan$")
      assert.error_matches(function() dist.dirichlet(pn.tensor { nan, 1 }) end, "got %[nan, 1%]$")
    end
  end)

  it("derives the alternatives", function()
    assert.is_true(math.abs(dist.bernoulli(0.75).logits:item() - math.log(3)) < 1e-12)
    assert.is_true(math.abs(dist.categorical({ logits = { 0, math.log(3) } }).probs:totable()[2] - 0.75) < 1e-12)
  end)
end)

describe("a parameter under training", function()
  it("gets its gradient through log_prob and rsample", function()
    local w = pn.param(pn.tensor { 0.5 })
    local d = dist.gamma(w:exp(), 2)
    d:log_prob(pn.tensor { 1.5 }):sum():backward()
    assert.is_true(w:grad():item() ~= 0)
    local g = pn.grad(d:rsample({ 100 }):sum(), { w })[1]
    assert.is_true(g:item() > 0)
  end)

  it("draws tiny gamma variables inside the support, with a finite slope", function()
    local a = pn.param(pn.full({ 2000 }, 1e-3))
    local x = dist.gamma(a):rsample { generator = pn.generator(4) }
    assert.equal(0, dist.within("positive", x):logical_not():sum():item())
    assert.equal(0, pn.grad(x:sum(), { a })[1]:isfinite():logical_not():sum():item())
  end)

  it("cannot be differentiated twice through a gamma draw, which says so", function()
    local a = pn.param(pn.full({ 2 }, 1.5))
    local x = dist.gamma(a):rsample()
    local g = pn.grad(x:sum(), { a }, { create_graph = true })[1]
    local ok, message = pcall(pn.grad, g:sum(), { a })
    assert.is_false(ok)
    assert.matches("log_gamma_slope: has no derivative in a", message)
  end)
end)
