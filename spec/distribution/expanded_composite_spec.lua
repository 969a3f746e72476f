--- What is made of other distributions and then expanded takes every value that its batch admits: one with fewer axes
--- than the batch, where the parts have an axis of size 1, has the density of the value that is repeated by hand.
local pn = require "penumbra"
local dist, bijector = pn.dist, pn.dist.bijector

local loc = pn.tensor { { { -0.5 } }, { { 0 } }, { { 1 } } } -- [3, 1, 1]
local pair = pn.stack({ loc, loc + 1 }, -1)

local cases = {
  transformed = dist.transformed(dist.normal(loc, 1), bijector.exp()),
  ["a joint mixture"] = dist.mixture(pn.tensor { 0.4, 0.6 }, dist.normal(pair, 1)),
  ["a mixture of a list"] = dist.mixture(pn.tensor { 0.4, 0.6 }, { dist.normal(loc, 1), dist.laplace(loc, 2) }),
  masked = dist.masked(dist.normal(loc, 1), pn.tensor { { { true } }, { { false } }, { { true } } }),
  truncated = dist.truncated(dist.normal(loc, 1), 0, 4),
  censored = dist.censored(dist.normal(loc, 1), 0.5, 4),
  ["zero_inflated"] = dist.zero_inflated(dist.poisson(loc:exp()), 0.3),
  hurdle = dist.hurdle(dist.poisson(loc:exp()), 0.3),
  ["transformed twice"] = dist.transformed(dist.transformed(dist.normal(loc, 1), bijector.exp()), bijector.softplus()),
}

-- of laws written in Lua
local cut = dist.truncated(dist.normal(loc, 1), -1, 4)
cases["masked, in Lua"] = dist.masked(cut, pn.tensor { { { true } }, { { false } }, { { true } } })
cases["transformed, in Lua"] = dist.transformed(cut, bijector.affine { loc = 0.5, scale = 1.5 })
cases["a mixture of a list, in Lua"] = dist.mixture(pn.tensor { 0.4, 0.6 }, { cut, dist.laplace(loc, 2) })

local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

describe("an expanded composite:", function()
  for _, name in ipairs(names) do
    it(name, function()
      local d, count = cases[name], 0
      local x = pn.tensor { { 1, 2 }, { 3, 0.7 } }
      if d.discrete then x = x:floor() end
      local whole = x:broadcast_to { 3, 2, 2 }
      for _, f in ipairs { "log_prob", "cdf", "log_cdf", "log_survival" } do
        local wide = d:expand { 3, 2, 2 }
        local ok, want = pcall(wide[f], wide, whole)
        if ok then
          count = count + 1
          local got = wide[f](wide, x)
          assert.same(want:totable(), got:totable())
          -- and of each row of the batch it is what the part says of the value alone
          if f == "log_prob" then
            for k = 1, 3 do
              local alone = want[k]:totable()
              local part = d:log_prob(whole):select(1, k):totable()
              assert.same(part, alone)
            end
          end
        else
          assert.matches("does not exist", want, 1, true)
        end
      end
      assert.is_true(count >= 1)
    end)
  end

  for _, name in ipairs(names) do
    it(name .. " in float32, too", function()
      local d, x = cases[name], pn.tensor { { { 1, 2 }, { 3, 0.7 } } }:broadcast_to { 3, 2, 2 }
      if d.discrete then x = x:floor() end
      if name == "transformed, in Lua" then
        assert.error_matches(function() d:to "float32" end, "cannot change its dtype")
        return
      end
      local narrow = d:to "float32"
      assert.equal("float32", narrow.dtype)
      assert.same(d.batch_shape, narrow.batch_shape)
      local function same(f, ...)
        local ok, want = pcall(d[f], d, ...)
        if not ok then return end
        local got = narrow[f](narrow, ... and (...):to "float32")
        assert.equal("float32", got:dtype())
        assert(((got:to "float64" - want):abs() / (1 + want:abs())):max():item() < 1e-5, f)
      end
      for _, f in ipairs { "log_prob", "cdf", "log_cdf", "log_survival" } do same(f, x) end
      for _, f in ipairs { "mean", "variance", "mode", "entropy" } do same(f) end
      assert.equal("float32", narrow:sample({ 2 }):dtype())
    end)
  end

  it("a mixture leaves its list, and what is expanded, as they were", function()
    local list = { cut, dist.laplace(loc, 2) }
    local d = dist.mixture(pn.tensor { 0.4, 0.6 }, list)
    local before = d:log_prob(loc):totable()
    for _, sizes in ipairs { { 3, 2, 2 }, { 2, 3, 1, 1 } } do
      assert.same(sizes, d:expand(sizes):log_prob(loc:broadcast_to(sizes)):shape())
    end
    assert.same(before, d:log_prob(loc):totable())
    assert.equal(cut, list[1])
    assert.same({ 3, 1, 1 }, list[2].batch_shape)
  end)

  it("masked says of values what its base does, and nothing of what is masked", function()
    local d = cases["masked, in Lua"]
    for _, f in ipairs { "mean", "variance", "mode" } do
      local ok, want = pcall(cut[f], cut)
      if ok then assert.same(want:totable(), d[f](d):totable()) end
    end
    local there = pn.tensor { { { 1 } }, { { 0 } }, { { 1 } } }
    local own = dist.masked(dist.hurdle(dist.poisson(loc:exp()), 0.3), there:gt(0))
    assert.same((dist.hurdle(dist.poisson(loc:exp()), 0.3):log_prob(there) * there):totable(),
      own:log_prob(there):totable())
    local function drawn(law, f) return law[f](law, { 4, generator = pn.generator(3) }) end
    for _, f in ipairs { "sample", "rsample" } do assert.same(drawn(cut, f):totable(), drawn(d, f):totable()) end
  end)

  it("still refuses what would be stretched", function()
    for _, name in ipairs { "a joint mixture", "transformed" } do
      local wide = cases[name]:expand { 3, 2, 2 }
      assert.error_matches(function() wide:log_prob(pn.ones { 1, 2 }) end, "would be stretched")
      assert.error_matches(function() wide:log_prob(pn.ones { 3, 2 }) end, "must broadcast with the batch")
    end
  end)
end)
