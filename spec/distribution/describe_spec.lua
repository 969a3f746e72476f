--- Distributions, bijectors and Gaussian factors as text.
local pn = require "penumbra"
local dist, bijector = pn.dist, pn.dist.bijector

local function shows(text, value) assert.equal(text, tostring(value)) end

describe("the text of a distribution", function()
  it("has parameters as a script writes them and shapes", function()
    shows("normal{loc = 0, scale = 1}", dist.normal(0, 1))
    shows("gamma{concentration = {0.5, 1, 2}, rate = 1}  batch [3] event []", dist.gamma { 0.5, 1, 2 })
    shows("uniform{low = 0, high = 3.14159}", dist.uniform(0, math.pi))
    shows("multivariate_normal{loc = {0, 1}, scale_tril = {{1, 0}, {0.5, 1}}}  batch [] event [2]",
      dist.multivariate_normal { loc = { 0, 1 }, scale_tril = { { 1, 0 }, { 0.5, 1 } } })
    shows("normal{loc = 0, scale = 1}  batch [4] event []", dist.normal(0, 1):expand { 4 })
    shows("normal{loc = {0, 0}, scale = 1}:independent(1)  batch [] event [2]",
      dist.normal(pn.zeros { 2 }, 1):independent(1))
  end)

  it("has shapes of many numbers, and the dtype that is not usual", function()
    shows("gamma{concentration = float64 [100, 3], rate = 2}  batch [100, 3] event []",
      dist.gamma(pn.ones { 100, 3 }, 2))
    shows("normal{loc = {0, 0}, scale = 1}  batch [2] event [] float32",
      dist.normal(pn.zeros({ 2 }, { dtype = "float32" }), 1))
  end)

  it("shows what it is made of, on several lines if one is too short", function()
    shows("transformed(normal{loc = 0, scale = 1}, chain{affine{loc = 1, scale = 2}, exp()})",
      dist.transformed(dist.normal(0, 1), bijector.chain { bijector.affine(1, 2), bijector.exp() }))
    shows("masked(normal{loc = {0, 0}, scale = 1}, {true, false})  batch [2] event []",
      dist.masked(dist.normal(pn.zeros { 2 }, 1), pn.tensor { true, false }))
    shows("mixture(categorical{probs = {0.5, 0.5}}, normal{loc = {0, 1}, scale = 1})",
      dist.mixture({ 0.5, 0.5 }, dist.normal({ 0, 1 }, 1)))
    shows([[
mixture(
  categorical{probs = {0.3, 0.7}},
  {normal{loc = -1, scale = 0.4}, gamma{concentration = 4, rate = 2}}
)]], dist.mixture({ 0.3, 0.7 }, { dist.normal(-1, 0.4), dist.gamma(4, 2) }))
  end)

  it("fills a line of 100 letters, and what stands inside another one less", function()
    local function named(length)
      return dist.custom { name = ("n"):rep(length), parameters = { { "a" } }, log_prob = function(_, x) return x end }
    end
    shows(("n"):rep(93) .. "{a = 1}", named(93)(1))
    shows(("n"):rep(94) .. "{\n  a = 1\n}", named(94)(1))
    shows(("n"):rep(120) .. "{}", dist.custom { name = ("n"):rep(120), log_prob = function(_, x) return x end }())
    shows("transformed(\n  " .. ("n"):rep(90) .. "{a = 1},\n  exp()\n)", dist.transformed(named(90)(1), bijector.exp()))
    shows("transformed(\n  " .. ("n"):rep(91) .. "{\n    a = 1\n  },\n  exp()\n)",
      dist.transformed(named(91)(1), bijector.exp()))
    shows("mixture(categorical{probs = {0.2, 0.3, 0.5}}, {n{a = 1}, n{a = 2}, n{a = 3}})",
      dist.mixture({ 0.2, 0.3, 0.5 }, { named(1)(1), named(1)(2), named(1)(3) }))
    shows("mixture(categorical{probs = {0.2, 0.8}}, {n{a = {1, 1}}, n{a = {2, 2}}}):independent(1)  batch [] event [2]",
      dist.mixture({ 0.2, 0.8 }, { named(1)(1), named(1)(2) }):expand({ 2 }):independent(1))
  end)

  it("has up to 16 numbers by value, whole ones below 1e15 as such, and the dtype behind shapes or alone", function()
    local few, many = dist.delta(pn.zeros { 16 }), dist.delta(pn.zeros { 17 })
    shows("delta{loc = {" .. ("0, "):rep(15) .. "0}}  batch [16] event []", few)
    shows("delta{loc = float64 [17]}  batch [17] event []", many)
    shows("delta{loc = float64 [0]}  batch [0] event []", dist.delta(pn.zeros { 0 }))
    shows("normal{loc = 1e+15, scale = 1}", dist.normal(1e15, 1))
    shows("normal{loc = -999999999999999, scale = 0.333333}", dist.normal(1 - 1e15, 1 / 3))
    shows("truncated_normal{loc = 0, scale = 1, low = -inf, high = inf}", dist.truncated_normal(0, 1))
    shows("normal{loc = 0, scale = 1}  float32", dist.normal(0, 1):to "float32")
    shows("delta{loc = {{1, 2}, {3, 4}}}:independent(1)  batch [2] event [2] float32",
      dist.delta(pn.tensor { { 1, 2 }, { 3, 4 } }):independent(1):to "float32")
    shows("delta{loc = {1, 2}}:independent(1)  batch [] event [2] float32",
      dist.delta(pn.tensor { 1, 2 }):independent(1):to "float32")
  end)

  it("makes the same distribution again, for every row", function()
    for _, row in ipairs(pn.rows()) do
      if row.kind == "distribution" then
        for _, case in ipairs(require("spec.golden.distribution." .. row.name).cases) do
          local d = dist[row.name](case.params)
          local text = tostring(d)
          if not text:find "float64 %[" and not text:find "inf" then
            local again = load("return dist." .. text:gsub("  batch.*", ""), "=", "t", { dist = dist })()
            for name, t in pairs(d:arguments()) do
              local difference = (again[name]:to "float64" - t:to "float64"):abs() / (t:to "float64":abs() + 1e-300)
              assert(difference:max():item() < 1e-5, text)
            end
          end
        end
      end
    end
  end)

  it("is short after close", function()
    local d = dist.normal(0, 1)
    d:close()
    shows("closed distribution", d)
  end)
end)

describe("the text of a bijector", function()
  it("has parameters and parts", function()
    shows("exp()", bijector.exp())
    shows("inverse(exp())", bijector.inverse(bijector.exp()))
    shows("chain{affine{loc = 1, scale = 2}, exp()}", bijector.chain { bijector.affine(1, 2), bijector.exp() })
    assert.matches("^masked_autoregressive{\n  hidden_weight = float64 %[2, 24%],\n",
      tostring(bijector.random("masked_autoregressive", 2, { hidden = { 24 } })))
  end)
end)

describe("the text of a Gaussian factor", function()
  it("has its natural parameters", function()
    shows("scalar Gaussian factor{precision_mean = 1, precision = -2}", dist.natural.scalar(1, -2))
    shows("diagonal Gaussian factor{precision_mean = {1, 2}, precision = {3, 4}}",
      dist.natural.diagonal({ 1, 2 }, { 3, 4 }))
  end)
end)

describe("conveniences of a distribution", function()
  it("take lists", function()
    local x = pn.tensor { { 0, 1 }, { 2, 3 } }
    local d = dist.normal({ 0, 1 }, 2)
    assert.same(d:log_prob(x):totable(), d:log_prob({ { 0, 1 }, { 2, 3 } }):totable())
    assert.same(d:cdf(x):totable(), d:cdf({ { 0, 1 }, { 2, 3 } }):totable())
    assert.equal("float32", dist.gamma(2, 1):to("float32"):log_prob({ 1, 2 }):dtype())
    assert.same(bijector.exp():forward(x):totable(), bijector.exp()({ { 0, 1 }, { 2, 3 } }):totable())
    for text, f in pairs {
      ["kl: q must be a distribution, got tensor"] = function() return dist.kl(d, x) end,
      ["exp: x must be a tensor or a number, got distribution"] = function() return pn.exp(d) end,
      ["normal: loc must be a tensor or a number, got distribution"] = function() return dist.normal(d, 1) end,
    } do
      local fine, why = pcall(f)
      assert(not fine and why:find(text, 1, true), why)
    end
    local ok, message = pcall(function() return d:log_prob "x" end)
    assert(not ok and message:find("normal: log_prob: x must be a tensor, a number or a list, got string", 1, true))
  end)

  it("change the dtype of all parameters and parts", function()
    for _, d in ipairs {
      dist.gamma({ 1, 2 }, 3):expand { 3, 2 }:independent(1),
      dist.mixture({ 0.3, 0.7 }, { dist.normal(-1, 0.4), dist.gamma(4, 2) }),
      dist.transformed(dist.normal(0, 1), bijector.chain { bijector.affine(1, 2), bijector.exp() }),
      dist.masked(dist.normal(pn.zeros { 2 }, 1), pn.tensor { true, false }),
      dist.categorical { 0.2, 0.8 },
    } do
      local e = d:to "float32"
      assert.equal("float32", e.dtype)
      assert.equal(d.name, e.name)
      assert.same(d.batch_shape, e.batch_shape)
      assert.same(d.event_shape, e.event_shape)
      local x = d:sample { 5 }
      local p, q = d:log_prob(x), e:log_prob(x:dtype() == "float64" and x:to "float32" or x):to "float64"
      assert((p - q):abs():max():item() < 1e-4)
      assert.equal("float64", e:to("float64").dtype)
    end
    assert.is_false(pcall(function() return dist.normal(0, 1):to "int64" end))
  end)

  it("map a distribution by a bijector", function()
    shows("transformed(normal{loc = 0, scale = 1}, exp())", bijector.exp()(dist.normal(0, 1)))
  end)
end)
