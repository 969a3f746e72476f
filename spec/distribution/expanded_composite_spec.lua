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

-- Laws of a script in every place of a composite, beside the library's rows of the same law, vectors among them.
describe("a composite of laws of a script", function()
  local shares = dist.custom { name = "shares", support = "simplex",
    parameters = { { "concentration", constraint = "positive", event_ndim = 1 } },
    log_prob = function(d, x) return dist.dirichlet(d.concentration):log_prob(x) end,
    rsample = function(d, shape, g)
      local lead = table.move(shape, 1, #shape - #d.batch_shape - 1, 1, {})
      return dist.dirichlet(d.concentration):rsample(lead, g)
    end,
    mean = function(d) return dist.dirichlet(d.concentration):mean() end,
    variance = function(d) return dist.dirichlet(d.concentration):variance() end,
    mode = function(d) return dist.dirichlet(d.concentration):mode() end,
    entropy = function(d) return dist.dirichlet(d.concentration):entropy() end }
  local width = dist.custom { name = "width", support = "interval", parameters = { size = "positive" },
    log_prob = function(d) return -d.size:log() end,
    in_support = function(d, x) return x:ge(0):logical_and(x:le(d.size)) end,
    icdf = function(d, p) return p * d.size end }
  local a = pn.tensor { { 2, 3, 4 }, { 1.5, 7, 2 } } -- two batches or components of three shares
  local x = pn.tensor { { { 0.2, 0.3, 0.5 }, { 0.6, 0.3, 0.1 } }, { { 0.1, 0.1, 0.8 }, { 0.5, 0.5, 0.5 } } }

  local function near(got, want)
    assert.same(want:shape(), got:shape())
    local equal = got:eq(want):logical_or((got - want):abs():lt(1e-12))
    assert(equal:all():item(), tostring(got) .. tostring(want))
  end

  it("of vectors is masked and mixed as the row is", function()
    local mask = pn.tensor { { true, false }, { true, true }, { false, true } }
    local mine, row = dist.masked(shares(a), mask), dist.masked(dist.dirichlet(a), mask)
    near(mine:log_prob(x:unsqueeze(2):broadcast_to { 2, 3, 2, 3 }),
      row:log_prob(x:unsqueeze(2):broadcast_to { 2, 3, 2, 3 }))
    for _, f in ipairs { "mean", "variance", "mode", "entropy" } do near(mine[f](mine), row[f](row)) end
    for _, f in ipairs { "sample", "rsample" } do
      near(mine[f](mine, { 4, 5 }, pn.generator(2)), row[f](row, { 4, 5 }, pn.generator(2)))
    end
    assert.same({ { 3, 2 }, { 3 } }, { mine.batch_shape, mine.event_shape })
    for _, law in ipairs { dist.mixture({ 0.3, 0.7 }, shares(a)),
      dist.mixture({ 0.3, 0.7 }, { shares(a[1]), shares(a[2]) }) } do
      local want = dist.mixture({ 0.3, 0.7 }, dist.dirichlet(a))
      near(law:log_prob(x), want:log_prob(x))
      for _, f in ipairs { "mean", "variance" } do near(law[f](law), want[f](want)) end
      local draws = law:sample({ 3, 400 }, pn.generator(1))
      assert.same({ 3, 400, 3 }, draws:shape())
      near(draws:sum(-1), pn.ones { 3, 400 })
      assert((draws:mean(1):mean(1) - want:mean()):abs():max():item() < 0.03)
    end
  end)

  it("is 0 beyond an end that is a parameter, on either side of a mixture's components", function()
    local d = dist.mixture({ 0.25, 0.75 }, { width(1), width(2) })
    local want = pn.tensor { 0, 0.25 + 0.375, 0.375, 0 }
    near(d:log_prob({ -0.5, 0.5, 1.5, 2.5 }):exp(), want)
    assert.same(want[2]:log():item(), d:log_prob(1):item())
    -- the bijector's parameters widen the batch, whose rows are drawn apart
    local shifted = dist.bijector.custom { name = "shifted", parameters = { { "by" } },
      forward = function(b, v) return v + b.by end, inverse = function(b, v) return v - b.by end,
      log_det = function(_, v) return v * 0 end }
    local line = dist.custom { name = "line", log_prob = function(_, v) return dist.normal(0, 1):log_prob(v) end,
      rsample = function(_, shape, g) return pn.randn(shape, { generator = g }) end }
    local wide = dist.transformed(line(), shifted(pn.tensor { 0, 0, 5 }))
    assert.same({ 3 }, wide.batch_shape)
    local draws = wide:sample({ 2 }, pn.generator(3))
    near(draws, pn.randn({ 2, 3 }, { generator = pn.generator(3) }) + pn.tensor { 0, 0, 5 })
    near(wide:log_prob(draws), dist.normal(pn.tensor { 0, 0, 5 }, 1):log_prob(draws))
    local matrices = dist.bijector.custom { name = "matrices", event_ndim = 2, forward = function(_, v) return v end,
      inverse = function(_, v) return v end, log_det = function(_, v) return v:sum { -1, -2 } * 0 end }()
    local flat = dist.normal(pn.zeros { 3 }, 1):independent(1)
    assert.error_matches(function() dist.transformed(flat, matrices) end, "at least 2 axes for matrices, got 1$")
  end)

  it("has what its part has, and no more", function()
    local function g(_, shape, generator) return pn.randn(shape, { generator = generator }) end
    local function quantile(_, p) return p end
    for _, case in ipairs { { {} }, { { sample = g }, "sample" }, { { rsample = g }, "sample", "rsample" },
      { { icdf = quantile }, "sample", "rsample" }, { { mean = function() return pn.zeros {} end }, "mean" } } do
      local o = { log_prob = function(_, v) return v * 0 end }
      for name, f in pairs(case[1]) do o[name] = f end
      local part, has = dist.custom(o)(), {}
      for k = 2, #case do has[case[k]] = true end
      for _, d in ipairs { dist.masked(part, pn.tensor(true)), dist.transformed(part, dist.bijector.exp()) } do
        for _, f in ipairs { "sample", "rsample", "mean", "entropy" } do
          local ok, message = pcall(d[f], d)
          local want = (has[f] or false) and not (f == "mean" and d.name == "transformed")
          assert.equal(want, ok, d.name .. " " .. f .. tostring(message))
          if not ok then assert.matches(("^[^ ]* ?%s: %s does not exist"):format(d.name, f), message) end
        end
      end
    end
  end)

  it("asks a density on all numbers at infinity, too, and sees an event as a whole", function()
    for rank, set in pairs { [0] = "real", "real_vector", "real_matrix" } do
      local shape = ({ [0] = {}, { 2 }, { 2, 2 } })[rank]
      local d = dist.custom { support = set, event_shape = rank > 0 and shape or nil, log_prob = function(_, v)
        local up = v:gt(0):to "float64"
        for _ = 1, rank do up = up:sum(-1) end
        return -up
      end }()
      assert.equal(-2.0 ^ rank, d:log_prob(pn.full(shape, math.huge)):item())
    end
    local positive = dist.custom { support = "positive", event_ndim = 2, event_shape = { 1, 2 },
      log_prob = function(_, v) return v:log():sum { -1, -2 } end }()
    near(positive:log_prob { { { 1, 2 } }, { { -1, 2 } }, { { 2, 3 } } },
      pn.tensor { math.log(2), -math.huge, math.log(6) })
    assert.is_true(positive:log_prob({ { 0 / 0, 1 } }):isnan():item())
  end)
end)
