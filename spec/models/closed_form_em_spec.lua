--- Factor analysis and Gaussian mixtures by EM in closed form: steps against a script that writes out conditional
--- Gaussians row by row (spec/golden/models/closed_form_em.py); where they end, no slope of densities computed another
--- way; probabilistic principal components from the eigenvalues of the covariance.
local pn = require "penumbra"
local helper = require "spec.helper"
local g = dofile "spec/golden/models/closed_form_em.lua"

local refused = helper.refuses
local x, w = pn.tensor(g.x), pn.tensor(g.w)

local function near(want, got, tolerance)
  local apart = (pn.tensor(want) - got:detach():reshape { -1 }:to "float64"):abs():max():item()
  assert(apart <= (tolerance or 1e-10), apart)
end

-- A list of row -> log density, of what was seen of it, by the law N(mean, cov) of the whole row: numbers with a slope.
local function each_density(rows, mean, cov)
  local list = {}
  for n, row in rows:rows() do
    local seen = {}
    for d, v in ipairs(row:totable()) do
      if v == v then seen[#seen + 1] = d - 1 end
    end
    if #seen == 0 then
      list[n] = pn.zeros {}
    else
      local at = pn.tensor(seen, { dtype = "int64" })
      list[n] = pn.dist.multivariate_normal { loc = mean:take(1, at), covariance_matrix = cov:take(1, at):take(2, at) }
        :log_prob(row:take(1, at))
    end
  end
  return pn.stack(list, 1)
end

local function factor_law(m) return m.loc, m.loadings:matmul(m.loadings:t()) + m.variance:diag_embed() end

local function mixture_density(m, rows)
  local parts = {}
  for k = 1, m.components do
    local cov = m.cov[k]
    if m.covariance == "diagonal" then cov = cov:diag_embed() end
    if m.covariance == "spherical" then cov = pn.eye(m.data) * cov end
    parts[k] = each_density(rows, m.loc[k], cov) + m.logits:log_softmax(1)[k]
  end
  return pn.stack(parts, 2):logsumexp(2)
end

local function rising(history, tolerance)
  for k = 2, #history do assert(history[k] >= history[k - 1] - (tolerance or 1e-12), k) end
end

-- The weighted log densities of a model and those of the same law computed another way have one gradient, where
-- there is something to learn yet.
local function same_slopes(m, rows, weights, each, tensors)
  local got = pn.grad((m:log_likelihood(rows) * weights):sum(), tensors)
  for k, slope in ipairs(pn.grad((each * weights):sum(), tensors)) do
    local size = slope:abs():max():item()
    assert(size > 1e-2 and helper.off(got[k], slope) <= 1e-8 * size, k)
  end
end

local function flat(loss, tensors)
  for _, slope in ipairs(pn.grad(loss, tensors)) do
    assert(slope:abs():max():item() < 2e-6, slope:abs():max():item())
  end
end

describe("factor analysis", function()
  local function new(noise, more)
    local o = { data = 3, latent = 1, noise = noise }
    for key, value in pairs(more or {}) do o[key] = value end
    return pn.models.factor_analysis(o)
  end

  it("makes the steps that are written out, with gaps and weights", function()
    for _, noise in ipairs { "diagonal", "isotropic" } do
      local m, want = new(noise), g["factor_" .. noise]
      m:load_state { loc = pn.tensor { 1, -1, 0 }, loadings = pn.tensor(g.start_load),
        variance = noise == "diagonal" and pn.tensor { 1, 1.2, 0.8 } or pn.full({ 3 }, 1.1) }
      m.begun = true
      local run = m:fit { data = x, weights = w, max_steps = 4, tolerance = 0 }
      near(want[1], pn.tensor(run.history))
      for k, name in ipairs { "loc", "loadings", "variance" } do near(want[k + 1], m[name]) end
    end
  end)

  it("ends where the likelihood has no slope, and never falls", function()
    for _, noise in ipairs { "diagonal", "isotropic" } do
      pn.seed(2)
      local load = pn.tensor { { 1, 0.8, -0.9, 0.1, 0, 0.7 }, { 0.1, -0.6, 0.2, 1, 0.9, -0.8 } } -- far from Heywood's
      local rows = pn.randn { 150, 2 }:matmul(load) + pn.randn { 150, 6 } * 0.6 + 2
      rows = pn.where(pn.rand { 150, 6 }:lt(0.2), 0 / 0, rows)
      local weights = pn.rand { 150 } * 3
      local m = new(noise, { data = 6, latent = 2 })
      m:fit { data = rows, weights = weights, max_steps = 1 }
      same_slopes(m, rows, weights, each_density(rows, factor_law(m)), { m.loc, m.loadings })
      local run = m:fit { data = rows, weights = weights, max_steps = 3000, tolerance = -1 } -- all of them
      assert.same({ 3000, false }, { run.steps, run.converged })
      rising(run.history)
      local each = each_density(rows, factor_law(m))
      assert.is_true(helper.off(m:log_likelihood(rows), each) < 1e-10)
      local loss = (each * weights):sum() / weights:sum()
      assert.is_true(math.abs(loss:item() - run.log_likelihood) < 1e-10)
      if noise == "diagonal" then
        flat(loss, { m.loc, m.loadings, m.variance })
      else
        local slopes = pn.grad(loss, { m.loc, m.loadings, m.variance })
        assert.is_true(slopes[1]:abs():max():item() < 2e-6 and slopes[2]:abs():max():item() < 2e-6)
        assert.is_true(math.abs(slopes[3]:sum():item()) < 2e-6) -- along the one variance that there is
      end
    end
  end)

  it("is probabilistic principal components", function()
    pn.seed(3)
    local rows = pn.randn { 80, 4 } * pn.tensor { 3, 2, 1, 0.7 } + pn.randn { 80, 1 }
    local m = new("isotropic", { data = 4, latent = 2 })
    m:fit { data = rows, tolerance = 1e-15, max_steps = 5000 }
    local off = rows - rows:mean(1)
    local values, vectors = (off:t():matmul(off) / 80):eigh() -- Tipping & Bishop 1999, equations 7 and 8
    local noise = (values[1]:item() + values[2]:item()) / 2
    near({ noise, noise, noise, noise }, m.variance, 1e-6)
    local u, left = vectors:slice(2, 3, 4), values:slice(1, 3, 4) - noise
    assert.is_true(helper.off(m.loadings:matmul(m.loadings:t()), (u * left):matmul(u:t())) < 1e-5)
    assert.is_true(helper.off(m.loc, rows:mean(1)) < 1e-10)
  end)

  it("counts a row with weight 2 twice", function()
    local whole = x:slice(1, 1, 4)
    local one, other = new "diagonal", new "diagonal"
    one:fit { data = pn.concatenate({ x, whole }, 1), max_steps = 7, tolerance = 0, generator = pn.generator(1) }
    local twice = pn.ones { 14 } + pn.arange(14):lt(4):to "float64"
    other:fit { data = x, weights = twice, max_steps = 7, tolerance = 0, generator = pn.generator(1) }
    assert.is_true(helper.off(one.loadings, other.loadings) < 1e-10)
    assert.is_true(helper.off(one.variance, other.variance) < 1e-10)
  end)

  it("knows latents, gaps and draws", function()
    local m = new("diagonal", { latent = 2, generator = nil })
    pn.seed(5)
    m:fit { data = x, max_steps = 10 }
    local mean, cov = factor_law(m)
    local row = pn.tensor { { 1.5, 0 / 0, 0.3 } }
    local at = pn.tensor({ 0, 2 }, { dtype = "int64" })
    local gain = cov:take(2, at):matmul(cov:take(1, at):take(2, at):inverse())
    local filled = m:impute(row)[1]
    assert.is_true(math.abs(filled[2]:item() - (mean[2] + (gain[2] * (row[1]:take(1, at) - mean:take(1, at))):sum())
      :item()) < 1e-10)
    assert.same({ 1.5, 0.3 }, { filled[1]:item(), filled[3]:item() })
    local load = m.loadings:take(1, at)
    local z = load:t():matmul(cov:take(1, at):take(2, at):inverse())
    local q = m:encode(row)
    near((z:matmul(row[1]:take(1, at) - mean:take(1, at))):totable(), q:mean())
    near((pn.eye(2) - z:matmul(load)):reshape { 4 }:totable(), q:arguments().precision_matrix[1]:inverse(), 1e-9)
    local draws = m:generate(40000, { generator = pn.generator(1) })
    assert.is_true(helper.off(draws:mean(1), mean) < 0.1)
    assert.is_true(helper.off(draws:t():cov(), cov) < 0.15)
    assert.is_true(helper.off(m:law():log_prob(draws:slice(1, 1, 9)), m:log_likelihood(draws:slice(1, 1, 9))) < 1e-9)
  end)
end)

describe("a Gaussian mixture", function()
  local function new(covariance, more)
    local o = { data = 3, components = 2, covariance = covariance }
    for key, value in pairs(more or {}) do o[key] = value end
    return pn.models.gaussian_mixture(o)
  end

  it("makes the steps that are written out, with gaps and weights", function()
    for _, covariance in ipairs { "full", "diagonal", "spherical" } do
      local m, want = new(covariance, { floor = 1e-3 }), g["mixture_" .. covariance] -- which nothing comes near
      local scale = pn.tensor { 1.5, 0.7 }
      m:load_state { logits = pn.tensor { 0.4, 0.6 }:log(), loc = pn.tensor(g.start_loc),
        cov = covariance == "spherical" and scale or covariance == "diagonal" and scale:unsqueeze(2) * pn.ones { 3 }
          or scale:reshape { 2, 1, 1 } * pn.eye(3) }
      m.begun = true
      local run = m:fit { data = x, weights = w, max_steps = 4, tolerance = 0 }
      near(want[1], pn.tensor(run.history))
      near(want[2], m.logits:softmax(1))
      near(want[3], m.loc)
      local cov = m.cov:detach()
      cov = covariance == "full" and cov or covariance == "diagonal" and cov:diag_embed()
        or cov:reshape { 2, 1, 1 } * pn.eye(3)
      near(want[4], cov)
    end
  end)

  it("ends where the likelihood has no slope, and never falls", function()
    pn.seed(7)
    local rows = pn.concatenate({ pn.randn { 30, 2 } * pn.tensor { 1, 0.4 }, pn.randn { 40, 2 } * 0.6 + 3 }, 1)
    rows = pn.where(pn.rand { 70, 2 }:lt(0.15), 0 / 0, rows)
    local weights = pn.rand { 70 } + 0.2
    for _, covariance in ipairs { "full", "diagonal", "spherical" } do
      local m = new(covariance, { data = 2 })
      m:fit { data = rows, weights = weights, max_steps = 1, generator = pn.generator(3) }
      same_slopes(m, rows, weights, mixture_density(m, rows), m:parameters())
      local run = m:fit { data = rows, weights = weights, max_steps = 20000, tolerance = 1e-14,
        generator = pn.generator(3) }
      assert.is_true(run.converged)
      rising(run.history)
      local each = mixture_density(m, rows)
      assert.is_true(helper.off(m:log_likelihood(rows), each) < 1e-10)
      flat((each * weights):sum() / weights:sum(), m:parameters())
      assert.is_true(m:impute(rows):isnan():any():item() == false)
    end
  end)

  it("is the same in any unit, from the rows that it starts at", function()
    local source = pn.generator(8)
    local rows = pn.randn({ 30, 2 }, { generator = source }) + pn.randn({ 30, 2 }, { generator = source }):gt(0):to
      "float64" * 2
    for _, covariance in ipairs { "full", "diagonal" } do
      for seed = 1, 5 do
        local histories = {}
        for k, unit in ipairs { 1, 1024 } do
          local m = pn.models.gaussian_mixture { data = 2, components = 3, covariance = covariance, floor = 0 }
          histories[k] = m:fit { data = rows * pn.tensor { unit, 1 }, max_steps = 2, tolerance = -1,
            generator = pn.generator(seed) }.history
        end
        for k, value in ipairs(histories[1]) do assert.near(value - math.log(1024), histories[2][k], 1e-9) end
      end
    end
  end)

  it("fills gaps by what the rest says of both component and number", function()
    local m = new "full"
    m:fit { data = x, weights = w, max_steps = 5, generator = pn.generator(2), tolerance = 0 }
    local row = pn.tensor { { 2.2, 0 / 0, -0.4 } }
    local share, want = m:predict(row)[1], 0
    local at = pn.tensor({ 0, 2 }, { dtype = "int64" })
    for k = 1, 2 do
      local mean, cov = m.loc[k], m.cov[k]
      local gain = cov[2]:take(1, at):matmul(cov:take(1, at):take(2, at):inverse())
      want = want + (share[k] * (mean[2] + (gain * (row[1]:take(1, at) - mean:take(1, at))):sum())):item()
    end
    assert.is_true(math.abs(m:impute(row)[1][2]:item() - want) < 1e-10)
    local draws = m:generate(20, { generator = pn.generator(4) })
    assert.is_true(helper.off(m:law():log_prob(draws), m:log_likelihood(draws)) < 1e-9)
  end)

  it("keeps covariances above the floor, and still never falls", function()
    local rows = pn.concatenate({ pn.randn({ 40, 2 }, { generator = pn.generator(1) }), pn.ones { 8, 2 } * 5 }, 1)
    for _, covariance in ipairs { "full", "diagonal", "spherical" } do
      local m = new(covariance, { data = 2, floor = 0.05 })
      local run = m:fit { data = rows, generator = pn.generator(5) }
      rising(run.history)
      local least = covariance == "full" and m.cov:detach():eigh():min():item() or m.cov:min():item()
      assert.is_true(least > 0.05 - 1e-12 and least < 0.05 + 1e-9) -- eight equal rows
    end
    refused("a covariance:", function() new("full", { data = 2 }):fit { data = rows, generator = pn.generator(5) } end)
  end)
end)

describe("models by EM in closed form", function()
  local kinds = { factor_analysis = { data = 3, latent = 1 }, gaussian_mixture = { data = 3, components = 2,
    floor = 1e-3 } }

  it("are the same in float32, and after a file", function()
    for name, o in pairs(kinds) do
      local single = {}
      for key, value in pairs(o) do single[key] = value end
      single.dtype = "float32"
      local m, other = pn.models[name](o), pn.models[name](single)
      local how = { max_steps = 3, tolerance = 0, weights = w }
      how.data, how.generator = x, pn.generator(1)
      m:fit { data = x, max_steps = 1, generator = pn.generator(1) }
      local state = {}
      for key, value in pairs(m:state()) do state[key] = value:to "float32" end
      other:load_state(state)
      other.begun = true
      m:fit(how)
      other:fit { data = x:to "float32", max_steps = 3, tolerance = 0, weights = w:to "float32" }
      assert.is_true(helper.off(m:log_likelihood(x), other:log_likelihood(x:to "float32"):to "float64") < 1e-3)
      local path = os.tmpname()
      assert(m:save(path))
      local again = assert(pn.restore(path))
      assert.equal(0, helper.off(m:log_likelihood(x), again:log_likelihood(x)))
      local one, two = m:fit { data = x, max_steps = 2 }, again:fit { data = x, max_steps = 2 } -- goes on from there
      assert.same(one.history, two.history)
      os.remove(path)
    end
  end)

  it("stop where a step gains less than is asked, or when they are told", function()
    for name, o in pairs(kinds) do
      local function fit(more)
        local m = pn.models[name](o)
        more.data, more.generator = x, pn.generator(1)
        return m:fit(more)
      end
      local h = fit({ max_steps = 6, tolerance = -1 }).history
      assert.equal(6, #h)
      local r = fit { tolerance = 1e9 }
      assert.same({ 2, true, h[2], 2 }, { r.steps, r.converged, r.log_likelihood, #r.history })
      assert.is_true(h[2] - h[1] > h[3] - h[2] and h[3] - h[2] > h[4] - h[3])
      r = fit { tolerance = h[3] - h[2] } -- what grows by as much goes on
      assert.same({ 4, true }, { r.steps, r.converged })
      local calls = 0
      r = fit { tolerance = -1, on_step = function(s)
        calls = calls + 1
        return s.steps < 3
      end }
      assert.same({ 3, 3, false }, { calls, r.steps, r.converged })
    end
    assert.equal("factor_analysis(3 -> 1, diagonal noise)", tostring(pn.models.factor_analysis(kinds.factor_analysis)))
    assert.equal("gaussian_mixture(2 components, 3 numbers, full covariance)",
      tostring(pn.models.gaussian_mixture(kinds.gaussian_mixture)))
  end)

  -- The log-likelihood before the first step tells where it began.
  it("begin at rows far from one another, or at loadings that share the variance", function()
    local nan, n = 0 / 0, 200
    local rows, weights = pn.tensor { { 0, 1 }, { 2, nan }, { 3, 5 } }, pn.tensor { 1, 2, 1 }
    local variance = { (49 / 16 + 2 / 16 + 25 / 16) / 4, 4 } -- around 7 / 4 and 3: weighed, of what was seen
    local start = { { 0, 1 }, { 2, 3 }, { 3, 5 } } -- the mean in the place of a gap
    local function apart(i, j) -- by what both rows have
      local d = (start[i][1] - start[j][1]) ^ 2 / variance[1]
      return i ~= 2 and j ~= 2 and d + (start[i][2] - start[j][2]) ^ 2 / variance[2] or d
    end
    local chance = {}
    for i = 1, 3 do
      local sum = 0
      for j = 1, 3 do sum = sum + apart(i, j) * weights[j]:item() end
      for j = 1, 3 do
        local pair = math.min(i, j) * 10 + math.max(i, j)
        chance[pair] = (chance[pair] or 0) + weights[i]:item() / 4 * apart(i, j) * weights[j]:item() / sum
      end
    end
    for covariance, cov in pairs { full = pn.tensor(variance):diag_embed(), diagonal = pn.tensor(variance),
      spherical = pn.tensor((variance[1] + variance[2]) / 2) } do
      local value, found = {}, {}
      for i = 1, 3 do
        for j = i + 1, 3 do
          local each = mixture_density({ components = 2, data = 2, covariance = covariance, logits = pn.zeros { 2 },
            loc = pn.tensor { start[i], start[j] }, cov = pn.stack({ cov, cov }, 1) }, rows)
          value[i * 10 + j] = ((each * weights):sum() / 4):item()
        end
      end
      for seed = 1, n do
        local m = pn.models.gaussian_mixture { data = 2, components = 2, covariance = covariance, floor = 0.1 }
        local run = m:fit { data = rows, weights = weights, max_steps = 1, generator = pn.generator(seed) }
        local first = run.history[1]
        local best
        for pair, v in pairs(value) do
          best = (not best or math.abs(v - first) < math.abs(value[best] - first)) and pair or best
        end
        assert.near(value[best], first, 1e-10)
        found[best] = (found[best] or 0) + 1
      end
      for pair, p in pairs(chance) do
        assert.near(p, (found[pair] or 0) / n, 6 * (p * (1 - p) / n) ^ 0.5, pair)
      end
    end
    local wide = pn.randn({ 50, 6 }, { generator = pn.generator(2) }) * pn.tensor { 3, 1, 1, 2, 1, 1 } + 1
    for _, noise in ipairs { "diagonal", "isotropic" } do
      local m = pn.models.factor_analysis { data = 6, latent = 4, noise = noise }
      local first = m:fit({ data = wide, max_steps = 1, generator = pn.generator(3) }).history[1]
      local spread = (wide - wide:mean(1)):square():mean(1)
      local load = pn.randn({ 6, 4 }, { generator = pn.generator(3) }) * (spread / 4):sqrt():unsqueeze(2)
      local cov = load:matmul(load:t()) + (noise == "diagonal" and spread or spread * 0 + spread:mean()):diag_embed()
      local law = pn.dist.multivariate_normal { loc = wide:mean(1), covariance_matrix = cov }
      assert.near(law:log_prob(wide):mean():item(), first, 1e-10)
    end
  end)

  it("refuse what they cannot learn from", function()
    for name, o in pairs(kinds) do
      local m = pn.models[name](o)
      local function fit(given) return function() m:fit(given) end end
      refused("fit: x must be [N, 3], got [14, 2]", fit { data = x:slice(2, 1, 2) })
      refused("fit: x must be float64 as the model is, got float32", fit { data = x:to "float32" })
      refused("fit: column 2 of the data has no number that was observed", fit { data =
        pn.where(pn.tensor { 0, 1, 0 }:gt(0), 0 / 0, x) })
      refused("fit: a column of the data does not vary", fit { data = x * 0 + pn.ones { 14, 1 } })
      for _, bad in ipairs { -w, w * 0, w / 0, w:slice(1, 1, 13), w:unsqueeze(2), w - w:max() } do
        refused("fit: weights must be [14] numbers that are not negative", fit { data = x, weights = bad })
      end
      m:fit { data = x, weights = w - w:min(), max_steps = 1 } -- one of them counts nothing
      for text, more in pairs { ["floor must not be negative, got inf"] = { floor = math.huge },
        ["dtype must be 'float64' or 'float32', got 'int64'"] = { dtype = "int64" },
        ["data must be a whole number from 1 on, got 1.5"] = { data = 1.5 } } do
        local other = {}
        for _, list in ipairs { o, more } do
          for key, value in pairs(list) do other[key] = value end
        end
        refused(name .. ": " .. text, pn.models[name], other)
      end
      refused("fit: x must be finite, or NaN where it was not observed", fit { data = x / 0 })
      refused(name .. ": data must be a whole number from 1 on, got 0", pn.models[name], { data = 0, latent = 1,
        components = 1, [name == "factor_analysis" and "components" or "latent"] = nil })
      refused("must not be negative", pn.models[name], { data = 1, floor = -1,
        [name == "factor_analysis" and "latent" or "components"] = 1 })
    end
    refused("fit: data must have at least 2 rows, one for each component", function()
      pn.models.gaussian_mixture { data = 3, components = 2 }:fit { data = x:slice(1, 2, 2) }
    end)
    pn.models.gaussian_mixture { data = 3, components = 2, floor = 1e-3 }:fit { data = x:slice(1, 2, 3), max_steps = 1 }
  end)
end)
