-- Beliefs of several sources against exact posteriors: of one number by quadrature, of linear Gaussian sensors of any
-- size by the joint covariance of latents and observations.
local pn = require "penumbra"
local golden = require "spec.golden.fusion.two_sensors"
local linear_sensors = require "spec.fusion.linear_sensors"
local helper = require "spec.helper"
local refuses, near, close = helper.refuses, helper.within, helper.close
local dist, fusion = pn.dist, pn.fusion

local function belief(x, v, dtype)
  local precision = 1 + 1 / v
  return dist.normal(pn.tensor({ x / v / precision }, { dtype = dtype }),
    pn.tensor({ precision ^ -0.5 }, { dtype = dtype })):independent(1)
end

local function standard(n, dtype)
  return dist.normal(pn.zeros({ n }, { dtype = dtype }), pn.ones({ n }, { dtype = dtype })):independent(1)
end

-- All non-empty subsets of 1 to n.
local function subsets(n)
  local list = {}
  for set = 1, (1 << n) - 1 do
    local members = {}
    for k = 1, n do
      if set >> (k - 1) & 1 == 1 then members[#members + 1] = k end
    end
    list[#list + 1] = members
  end
  return list
end

describe("two sensors of one number", function()
  local q1, q2, prior = belief(0.7, 0.5), belief(-1.1, 2), standard(1)
  local both = { q1, q2 }

  it("give the values of quadrature", function()
    local q = fusion.product(both, { prior = prior })
    near(q:mean(), golden.fused_mean, 1e-12)
    near(q:variance(), golden.fused_variance, 1e-12)
    near(fusion.pointwise_mutual_information(both, { prior = prior }), golden.information, 1e-12)
    near(fusion.conflict(q1, q2, prior), golden.conflict_12, 1e-10)
    near(fusion.conflict(q2, q1, prior), golden.conflict_21, 1e-12)
    local c, names = fusion.conflicts({ b = q2, a = q1 }, { prior = prior })
    assert.same({ "a", "b" }, names)
    near(c[1][2], golden.conflict_12, 1e-10)
    near(c[2][1], golden.conflict_21, 1e-12)
    near(c:diagonal():abs():max(), 0, 0)
  end)

  it("count the prior once: with an expert of its own it is another posterior", function()
    -- precisions 3, 1.5 and the prior's 1: divided out once 3.5, as an expert 5.5, forgotten 4.5
    near(fusion.product(both, { prior = prior }):variance(), 1 / 3.5, 1e-12)
    near(fusion.mvae(both, { prior = prior }):variance(), 1 / 5.5, 1e-12)
    near(fusion.mvae({ q1 }, { prior = prior }):variance(), 1 / 4, 1e-12) -- of any subset
    near(fusion.product({ q1 }, { prior = prior }):variance(), 1 / 3, 1e-12)
  end)

  it("are resampled to the posterior, from any belief", function()
    local function log_joint(z)
      return (prior:log_prob(z) + dist.normal(z, math.sqrt(0.5)):log_prob(pn.full(z:shape(), 0.7)):squeeze(-1)
        + dist.normal(z, math.sqrt(2)):log_prob(pn.full(z:shape(), -1.1)):squeeze(-1))
    end
    local sizes = {}
    for name, q in pairs { product = fusion.product(both, { prior = prior }), first = q1, second = q2 } do
      local z, told = fusion.resample(q, log_joint, { draws = 20000, generator = pn.generator(3) })
      assert.same({ 20000, 1 }, z:shape())
      local se = math.sqrt(golden.fused_variance / told.effective_sample_size:item())
      near(z:mean(), golden.fused_mean, 6 * se, name)
      assert(se < 0.01)
      near(told.log_evidence, golden.log_evidence, 0.05, name)
      sizes[name] = told.effective_sample_size:item()
    end
    near(sizes.product, 20000, 1e-6) -- the posterior itself: all weights are equal
    assert(sizes.first < 18500 and sizes.second < 14000)
  end)
end)

describe("linear Gaussian sensors", function()
  for _, case in ipairs { { { 1, 1 }, 1 }, { { 2, 1, 3 }, 2 }, { { 3, 2, 2, 1 }, 4 } } do
    it(("of %d numbers have the exact joint posterior and mutual information, whatever the subset"):format(case[2]),
      function()
        local g = pn.generator(case[2])
        local m = linear_sensors.new(case[1], case[2], g)
        local _, x = m:draw(5, g)
        local prior, beliefs = m:prior(), {}
        for k = 1, #case[1] do beliefs[k] = m:belief(x, k) end
        for _, set in ipairs(subsets(#case[1])) do
          local some, observed, apart = {}, {}, 0
          for k = 1, #case[1] do observed[k] = false end
          for i, k in ipairs(set) do
            some[i], observed[k] = beliefs[k], true
            apart = apart + m:log_evidence(x, { k })
          end
          local mean, cov = m:posterior(x, set)
          local information = m:log_evidence(x, set) - apart
          for _, call in ipairs { { some, { prior = prior } }, { beliefs, { prior = prior, observed = observed } } } do
            local q = fusion.product(call[1], call[2])
            close(q:mean(), mean, 1e-9)
            close(q.covariance_matrix, cov, 1e-9)
            close(fusion.pointwise_mutual_information(call[1], call[2]), information, 1e-9)
          end
        end
      end)
  end

  it("have the conflicts of the formula, and none where a source is not there", function()
    local g = pn.generator(5)
    local m = linear_sensors.new({ 2, 3, 1 }, 3, g)
    local _, x = m:draw(4, g)
    local beliefs, means, covs = {}, {}, {}
    for k = 1, 3 do
      beliefs[k] = m:belief(x, k)
      means[k], covs[k] = m:posterior(x, { k })
    end
    local c = fusion.conflicts(beliefs, { prior = m:prior() })
    for i = 1, 3 do
      for j = 1, 3 do
        local want = linear_sensors.divergence(means[j], covs[j], means[i], covs[i])
          / linear_sensors.divergence(means[j], covs[j], m.mean:broadcast_to { 4, 3 }, m.cov)
        close(c:select(-1, j):select(-1, i), want, 1e-9)
      end
    end
    local there = pn.tensor { { true, true, false }, { true, true, true }, { false, true, true },
      { false, false, false } }
    local some = fusion.conflicts(beliefs, { prior = m:prior(), observed = there })
    close(some[2], c[2], 0)
    near(some[1][1][3], 0, 0)
    near(some[1][2][1], c[1][2][1]:item(), 0)
    near(some[4]:abs():max(), 0, 0)
    -- by names, one for each datum or for all
    local q = fusion.product(beliefs, { prior = m:prior(), observed = there })
    local mean, cov = m:posterior(x, { 2, 3 })
    close(q:mean()[3], mean[3], 1e-9)
    close(q.covariance_matrix[3], cov, 1e-9)
    close(q:mean()[4], m.mean, 1e-12) -- no source at all is the prior
    close(q.covariance_matrix[4], m.cov, 1e-12)
    close(fusion.pointwise_mutual_information(beliefs, { prior = m:prior(), observed = there })[4], pn.zeros {}, 1e-12)
  end)
end)

describe("a product of beliefs", function()
  it("does not depend on the order of the table, to the bit", function()
    local g = pn.generator(1)
    local list = {}
    for k = 1, 5 do
      list[k] = dist.normal(pn.randn({ 7, 3 }, { generator = g }), pn.rand({ 7, 3 }, { generator = g })):independent(1)
    end
    local prior = standard(3)
    local a, b = {}, {}
    for k = 1, 5 do a["s" .. k] = list[k] end
    for k = 5, 1, -1 do b["s" .. k] = list[k] end
    local p, q = fusion.product(a, { prior = prior }), fusion.product(b, { prior = prior })
    assert.is_true(p.loc:eq(q.loc):all():item())
    assert.is_true(p.scale:eq(q.scale):all():item())
  end)

  it("mixes diagonal beliefs with such that have covariances", function()
    local full = dist.multivariate_normal { loc = { 0.5, -1 }, covariance_matrix = { { 0.4, 0.1 }, { 0.1, 0.5 } } }
    local diagonal = dist.normal({ 1, 0.2 }, { 0.6, 0.3 }):independent(1)
    local q = fusion.product({ full, diagonal }, { prior = standard(2) })
    local precision = full.covariance_matrix:inverse() + diagonal:variance():reciprocal():diag_embed() - pn.eye(2)
    local eta = full.covariance_matrix:inverse():matmul(full.loc:unsqueeze(2)):squeeze(2)
      + diagonal:mean() / diagonal:variance()
    close(q.covariance_matrix, precision:inverse(), 1e-12)
    close(q:mean(), precision:inverse():matmul(eta:unsqueeze(2)):squeeze(2), 1e-12)
  end)

  it("has gradients, and both real types", function()
    local loc, raw = pn.param(pn.randn({ 2, 3 }, { generator = pn.generator(2) })), pn.param(pn.zeros { 2, 3 })
    local there = pn.tensor { { true, false }, { true, true } }
    assert(pn.check_gradients(function()
      local beliefs = { dist.normal(loc, raw:sigmoid()):independent(1), dist.normal(loc ^ 2, 0.7):independent(1) }
      local q = fusion.product(beliefs, { prior = standard(3), observed = there })
      return q:log_prob(pn.ones { 2, 3 } * 0.3):sum() + fusion.pointwise_mutual_information(beliefs, {
        prior = standard(3), observed = there }):sum() + fusion.conflicts(beliefs, { prior = standard(3) }):sum()
    end, { loc, raw }))
    local q32 = fusion.product({ belief(0.7, 0.5, "float32"), belief(-1.1, 2, "float32") },
      { prior = standard(1, "float32") })
    assert.equal("float32", q32.dtype)
    near(q32:mean(), golden.fused_mean, 1e-6)
    near(fusion.conflict(standard(1, "float32"), standard(1, "float32"), standard(1, "float32")), 0, 0)
  end)

  it("names the source that knows less than the prior, where the precision is not positive", function()
    local good = dist.normal(pn.zeros { 2, 2 }, pn.tensor { { 0.9, 0.9 }, { 0.95, 1.05 } }):independent(1)
    local wide = dist.normal(pn.zeros { 2, 2 }, pn.tensor { { 0.9, 0.9 }, { 0.9, 5 } }):independent(1)
    refuses("product: the product's precision of datum 2 must be positive, got", fusion.product,
      { a = good, wide = wide }, { prior = standard(2) })
    refuses("source 'wide' knows less than the prior there (its precision less the prior's is -0.96)", fusion.product,
      { a = good, wide = wide }, { prior = standard(2) })
    local alone = dist.normal(pn.zeros { 1 }, 5):independent(1)
    refuses("product: the product's precision must be positive, got -0.92: source 'a' knows less", fusion.product,
      { a = alone, b = alone }, { prior = standard(1) })
    -- the general form: wider than the prior, and valid with a source that knows enough
    local enough = fusion.product({ a = dist.normal(pn.zeros { 2 }, 0.5):independent(1), wide = wide },
      { prior = standard(2) })
    near(enough:variance()[2][2], 1 / (4 + 0.04 - 1), 1e-12)
    local broad = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = { { 4, 3.5 }, { 3.5, 4 } } }
    refuses("source 'broad' knows less", fusion.product, { broad = broad, a = dist.normal(pn.zeros { 2 }, 1.2)
      :independent(1) }, { prior = standard(2) })
  end)

  it("refuses what is no belief, with the source's name", function()
    local q, prior = belief(0, 1), standard(1)
    refuses("product: the belief of source 'b' must be a normal distribution", fusion.product, { a = q, b = 3 },
      { prior = prior })
    refuses("of source 'b' must be a normal distribution or a Gaussian factor, got gamma", fusion.product,
      { a = q, b = dist.gamma(1, 1) }, { prior = prior })
    refuses("product: the precision of source 'b' must be positive, got -2", fusion.product,
      { a = q, b = dist.natural.diagonal({ 1 }, { -2 }) }, { prior = prior })
    refuses("the belief of source 'b' must be about as many numbers as that of 'a', 1, got 2", fusion.product,
      { a = q, b = standard(2) }, { prior = prior })
    refuses("product: prior must be about as many numbers as the beliefs, 1, got 2", fusion.product, { a = q },
      { prior = standard(2) })
    refuses("product: option 'prior' is required", fusion.product, { a = q })
    refuses("observed names the source 'radat', which has no belief, did you mean 'radar'", fusion.product,
      { radar = q }, { prior = prior, observed = { radat = true } })
    refuses("observed must be bool of shape [2], one for each of 2 sources, got bool [3]", fusion.product, { q, q },
      { prior = prior, observed = pn.tensor { true, true, true } })
    refuses("observed of source 1 must be true, false or bool of shape [4], got bool [3]", fusion.product,
      { q:expand { 4 }, q }, { prior = prior, observed = { pn.tensor { true, true, false } } })
    refuses("product: beliefs must be a table", fusion.product, q, { prior = prior })
    refuses("product: unknown option 'priro', did you mean 'prior'", fusion.product, { q }, { priro = prior })
    assert.equal(prior, fusion.product({}, { prior = prior }))
  end)
end)

describe("mixtures of beliefs", function()
  local a, b, prior = belief(0.7, 0.5), belief(-1.1, 2), standard(1)
  local x = pn.tensor { 0.3 }
  local function density(q) return q:log_prob(x):exp():item() end

  it("weigh the sources that are there", function()
    near(density(fusion.mixture { a = a, b = b }), (density(a) + density(b)) / 2, 1e-12)
    near(density(fusion.mixture({ a = a, b = b }, { weights = { a = 3, b = 1 } })),
      density(a) * 0.75 + density(b) * 0.25, 1e-12)
    near(density(fusion.mixture({ a = a, b = b }, { observed = { a = false } })), density(b), 1e-12)
    refuses("mixture: the weight of source 'b' must not be negative, got -1", fusion.mixture, { a = a, b = b },
      { weights = { a = 3, b = -1 } })
    refuses("each datum must have a source that is there", fusion.mixture, { a = a }, { observed = { a = false } })
    refuses("mixture: beliefs must have at least one source", fusion.mixture, {})
  end)

  it("are drawn in strata, and are the mean over products of all subsets", function()
    local z, q = fusion.mmvae({ a = a, b = b }, { draws = 4000, generator = pn.generator(4) })
    assert.same({ 2, 4000, 1 }, z:shape())
    for k, law in ipairs { a, b } do
      near(z[k]:mean(), law:mean():item(), 6 * math.sqrt(law:variance():item() / 4000))
      near(z[k]:var():item() / law:variance():item(), 1, 6 * math.sqrt(2 / 4000))
    end
    near(density(q), (density(a) + density(b)) / 2, 1e-12)
    for form, fused in pairs { expert = fusion.mvae, divided = fusion.product } do
      local want = 0
      for _, some in ipairs { { a }, { b }, { a, b } } do want = want + density(fused(some, { prior = prior })) / 3 end
      near(density(fusion.mopoe({ a, b }, { prior = prior, form = form })), want, 1e-12, form)
    end
  end)
end)

describe("beliefs of many names, shapes and masks", function()
  local prior = standard(1)
  local function many(...) return belief(0.7, 0.5):expand { ... } end

  it("are gone through in the order of numbers, then names", function()
    local _, names = fusion.conflicts({ b = belief(0.1, 1), belief(0.2, 1), a = belief(0.3, 1), [3] = belief(0.4, 1) },
      { prior = prior })
    assert.same({ 1, 3, "a", "b" }, names)
  end)

  -- Every form of a mask against the products of the sources that are there.
  it("take masks of each source, of all, and of fewer axes", function()
    local a, b = belief(0.7, 0.5), belief(-1.1, 2)
    local wide = { a = a:expand { 2, 3 }, b = b }
    local row = pn.tensor { true, false, true }
    local both = fusion.product({ a = a, b = b }, { prior = prior }):variance():item()
    local one = fusion.product({ a = a }, { prior = prior }):variance():item()
    local other = fusion.product({ b = b }, { prior = prior }):variance():item()
    for k, case in ipairs { { { b = row }, { both, one, both } }, { { a = row }, { both, other, both } },
      { { b = row:unsqueeze(1) }, { both, one, both } }, { { b = true }, { both, both, both } },
      { { b = false, a = true }, { one, one, one } }, { { b = pn.tensor { true }:reshape { 1, 1 } },
        { both, both, both } }, { { a = pn.tensor { { true }, { true } } }, { both, both, both } },
      { pn.stack({ row, pn.tensor { true, true, false } }, -1), { both, other, one } } } do
      local v = fusion.product(wide, { prior = prior, observed = case[1] }):variance()
      v = v:broadcast_to { 2, 3, 1 }
      for i = 1, 2 do
        for j = 1, 3 do near(v[i][j][1]:item(), case[2][j], 1e-12, k) end
      end
      -- experts with a prior of their own: the same masks
      local w = fusion.mvae(wide, { prior = prior, observed = case[1] }):variance():broadcast_to { 2, 3, 1 }
      for j = 1, 3 do near(1 / w[1][j][1]:item() - 1 / case[2][j], case[2][j] == both and 2 or 1, 1e-9, k) end
    end
    assert.equal(prior, fusion.mvae({}, { prior = prior }))
  end)

  it("refuse masks that fit nothing, one for each way", function()
    local beliefs = { many(2, 3), many(3) }
    local function refused(text, observed)
      refuses(text, fusion.product, beliefs, { prior = prior, observed = observed })
    end
    local head = "product: observed must be bool of shape [2, 3, 2], one for each of 2 sources, got "
    refused(head .. "float64 [3, 2]", pn.ones { 3, 2 })
    refused(head .. "bool [2, 3]", pn.ones({ 2, 3 }):gt(0))
    refused(head .. "bool [1, 2, 3, 2]", pn.ones({ 1, 2, 3, 2 }):gt(0))
    local own = "product: observed of source 2 must be true, false or bool of shape [2, 3], got "
    refused(own .. "number", { true, 3 })
    refused(own .. "float64 [3]", { true, pn.ones { 3 } })
    refused(own .. "bool [2]", { true, pn.ones({ 2 }):gt(0) })
    refused(own .. "bool [1, 2, 3]", { true, pn.ones({ 1, 2, 3 }):gt(0) })
    refused("product: observed must be a table", 3)
    refuses("conflicts: beliefs must have at least one source", fusion.conflicts, {}, { prior = prior })
    near(fusion.pointwise_mutual_information({}, { prior = prior }), 0, 0)
    assert.equal(prior, fusion.mopoe({}, { prior = prior }))
    refuses("mmvae: beliefs must have at least one source", fusion.mmvae, {})
    local crowd = {}
    for k = 1, 11 do crowd[k] = many() end
    refuses("mopoe: all subsets of at most 10 sources are gone through, got 11 sources", fusion.mopoe, crowd,
      { prior = prior })
  end)

  it("have the shape that all broadcast to", function()
    local batch_shape = require("penumbra.fusion.named_beliefs").batch_shape
    for _, case in ipairs { { { 2, 3 }, { { 2, 3 }, { 2, 3 } } }, { { 2, 3 }, { { 3 }, { 2, 1 } } },
      { { 2, 3 }, { { 1, 3 }, { 2, 1 } } }, { { 4, 2, 3 }, { {}, { 1 }, { 4, 1, 3 }, { 2, 1 } } },
      { {}, { {}, {} } } } do
      local list = {}
      for k, shape in ipairs(case[2]) do list[k] = { law = { batch_shape = shape } } end
      assert.same(case[1], batch_shape(list))
      local last = table.remove(list)
      assert.same(case[1], batch_shape(list, last))
    end
  end)

  it("weigh what is there by weights of 0 and more", function()
    local a, b, x = belief(0.7, 0.5), belief(-1.1, 2), pn.tensor { 0.3 }
    local function density(q) return q:log_prob(x):exp():item() end
    near(density(fusion.mixture({ a = a, b = b }, { weights = { a = 0, b = 2 } })), density(b), 1e-12)
    refuses("mixture: weights of source 'b' must be a number", fusion.mixture, { a = a, b = b },
      { weights = { a = 1 } })
    refuses("mixture: weights must be a table", fusion.mixture, { a = a }, { weights = 3 })
    refuses("mixture: each datum must have a source that is there and has a weight above 0", fusion.mixture,
      { a = a, b = b }, { weights = { a = 0, b = 2 }, observed = { b = false } })
    local q = fusion.mixture({ a = a:expand { 2 }, b = b }, { weights = { a = 3, b = 1 },
      observed = { a = pn.tensor { true, false } } })
    local each = q:log_prob(x:broadcast_to { 2, 1 }):exp()
    near(each[1], density(a) * 0.75 + density(b) * 0.25, 1e-12)
    near(each[2], density(b), 1e-12)
    assert.same({ 2, 1, 1 }, (fusion.mmvae { a, b }):shape())
  end)

  it("are resampled by weights that tell of themselves", function()
    local q = dist.normal(pn.tensor { 0, 1 }, 1)
    local function log_joint(z) return z * pn.tensor { 0.5, -1 } end
    local function run(more)
      local o = { draws = 500, generator = pn.generator(2) }
      for key, value in pairs(more or {}) do o[key] = value end
      return fusion.resample(q, log_joint, o)
    end
    local z, told = run()
    assert.same({ 500, 2 }, z:shape())
    local w = told.log_weights:softmax(1)
    close(told.effective_sample_size, 1 / w:square():sum(1), 1e-9)
    close(told.log_evidence, told.log_weights:exp():mean(1):log(), 1e-12)
    local drawn = q:sample { 500, generator = pn.generator(2) }
    close(told.log_weights, log_joint(drawn) - q:log_prob(drawn), 1e-12)
    assert.same(z:totable(), (run()):totable())
    assert.not_same(z:totable(), (run { resampling = "multinomial" }):totable())
    assert.same({ 1000, 2 }, (fusion.resample(q, log_joint)):shape())
    refuses("resample: what log_joint gives must be a tensor", fusion.resample, q, function() return 3 end)
    refuses("resample: log_joint must be a function", fusion.resample, q, 3)
    refuses("resample: q must be a distribution", fusion.resample, 3, log_joint)
  end)
end)
