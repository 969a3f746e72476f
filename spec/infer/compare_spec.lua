--- Comparison of models against ArviZ (spec/golden/infer/comparison.py) and closed forms of conjugate normal models;
--- cross- validation by refitting; prior predictive draws; deterministic sites in predictions.
local core = require "penumbra.core"
local pn = require "penumbra"
local dist = pn.dist
local posterior = require "penumbra.infer.posterior"
local target = require "penumbra.infer.target"
local helper = require "spec.helper"
local refused, near = helper.refused, helper.near

local golden = dofile "spec/golden/infer/comparison.lua"

-- The posterior of m on args whose draws [chains, draws, n] are these.
local function posterior_of(m, args, z)
  args.n = #args
  return posterior.new { model = m, args = args, seconds = 0, target = target.new(m, args, pn.generator(1), true),
    unconstrained = z, statistics = pn.zeros { z:size(1), z:size(2), 7 } }
end

-- Model k of comparison.py with its draws.
local function formula_model(k, y)
  local m = pn.model(function(m, x, seen)
    local mu = m:flat "mu"
    m:plate("rows", 12, function() m:observe("y", dist.normal(mu + x * golden.b[k], golden.s[k]), seen) end)
  end)
  local mu = ((pn.arange(400):to "float64" + 1) * (12.9898 + k - 1)):sin() * 0.3 + golden.a[k]
  return posterior_of(m, { pn.tensor(golden.x), pn.tensor(y or golden.y) }, mu:reshape { 4, 100, 1 })
end

describe("many observations", function()
  -- posterior of a level and a scale, 200 draws
  local function big(n)
    local m = pn.model(function(m, y)
      local mu, s = m:flat "mu", m:flat "s"
      m:observe("y", dist.normal(mu + y:zeros_like(), s:exp()), y)
      m:observe("first", dist.normal(mu, 1), 0.5)
    end)
    local g = pn.generator(5)
    return posterior_of(m, { pn.randn({ n }, { generator = g }) }, pn.randn({ 2, 100, 2 }, { generator = g }) * 0.02)
  end

  it("go in blocks: what they take does not grow with their number, and is what one block gives", function()
    local function peak_of(p)
      collectgarbage() collectgarbage()
      core.reset_peak()
      local before = pn.memory()
      local r = p:loo()
      local _, peak = pn.memory()
      return peak - before, r
    end
    local few = peak_of(big(20000)) -- one block
    local p = big(45000)
    local more, loo = peak_of(p)
    -- all at once would be 2.25 times as many; how much of a block's garbage lives at a time is up to the collector
    assert.is_true(more < 1.6 * few, ("%d MB instead of %d MB"):format(more // 1e6, few // 1e6))
    assert.equal(45001, loo.pointwise:numel())
    local waic, ll = p:waic(), p:log_likelihood()
    for _, at in ipairs { 1, 2, 20971, 20972, 20973, 41942, 41943, 45001 } do -- ends of blocks; first the other site
      local own = at == 1 and ll.first:reshape { 200 } or ll.y:select(3, at - 1):reshape { 200 }
      local mean = own:logsumexp(1):item() - math.log(200)
      near(waic.pointwise[at]:item(), mean - own:var():item())
      local log_w = pn.infer.psis { log_w = -own:unsqueeze(2) }
      near(loo.pointwise[at]:item(), (log_w:squeeze(2) + own):logsumexp(1):item(), 1e-3)
    end
    near(waic.elpd, waic.pointwise:sum():item())
    near(p:loo("first").elpd, loo.pointwise[1]:item())
  end)
end)

describe("waic", function()
  it("has the values of ArviZ, whose variance is over S, not S - 1, draws", function()
    for k = 1, 3 do
      local waic = formula_model(k):waic()
      near(waic.p * 399 / 400, golden.p_waic[k], 1e-9)
      near(waic.elpd + waic.p - waic.p * 399 / 400, golden.elpd[k], 1e-9)
      assert.equal(golden.p_waic[k] > 1, waic.warning ~= nil)
    end
    assert.matches("12 observations, 400 draws\nelpd_waic +%-20.56, standard error 1.00\np_waic +0.13\nwaic +41.12$",
      tostring(formula_model(1):waic()))
    assert.matches("warning: the log density of " .. golden.above
      .. " of 12 observations .* y%[12%] the largest", tostring(formula_model(2):waic()))
  end)
end)

describe("a comparison", function()
  local density = require "penumbra.infer.predictive_density"
  local function estimates()
    local list = {}
    for k, name in ipairs { "a", "b", "c" } do
      list[name] = density.new(pn.tensor(golden.pointwise[k]), { method = "waic", draws = 400 })
    end
    return list
  end

  it("has the differences, their errors and the weights of ArviZ", function()
    local c = pn.compare(estimates(), { draws = 20000, generator = pn.generator(1) })
    assert.same({ "a", "c", "b" }, { c[1].name, c[2].name, c[3].name })
    for k, name in ipairs { "a", "b", "c" } do
      near(c[name].elpd, golden.elpd[k])
      near(c[name].se, golden.se[k])
      near(-c[name].difference, golden.difference[k])
      near(c[name].difference_se, golden.difference_se[k])
      near(c[name].weight, golden.weight[k], 1e-9)
      near(c[name].weight, golden.arviz_weight[k], 1e-4)
      near(c[name].pseudo_bma, golden.pseudo_bma[k])
      near(c[name].pseudo_bma_plus, golden.pseudo_bma_plus[k], 2e-3)
    end
    assert.matches("^model +elpd +se +difference +difference_se +weight +pseudo_bma +pseudo_bma_plus\n"
      .. "a +%-20.56 +1.00 +0.00 +0.00 +0.736 +1.000 +0.99%d\n", tostring(c))
    assert.is_nil(pn.compare(estimates())[1].pseudo_bma_plus)
  end)

  it("has weights that solve the conditions of optimality, also at the boundary and for models alike", function()
    pn.seed(2)
    for _, shape in ipairs { { 2, 50 }, { 5, 300 }, { 12, 40 } } do
      local log_p, list = pn.randn(shape) * 2, {}
      log_p = pn.concatenate({ log_p, log_p:slice(1, 1, 1) }, 1) -- a model twice
      for k = 1, shape[1] + 1 do
        list[k] = density.new(log_p[k], { method = "loo", draws = 1 })
      end
      local c, w = pn.compare(list), {}
      for k = 1, shape[1] + 1 do w[k] = c[tostring(k)].weight end
      w = pn.tensor(w)
      near(w:sum():item(), 1)
      local p = log_p:exp()
      local slope = (p / w:unsqueeze(1):matmul(p)):mean(2)
      assert(slope:max():item() < 1 + 1e-9, slope:max():item()) -- no model would gain by more
      assert(((slope - 1):abs() * w):max():item() < 1e-9) -- and those that have weight gain nothing
    end
  end)

  it("orders models by elpd and name, and calls each by its name", function()
    local function of(values, fields)
      local e = density.new(pn.tensor(values), { method = "loo", draws = 1 })
      for key, value in pairs(fields or {}) do e[key] = value end
      return e
    end
    local c = pn.compare { b = of { -1, -2 }, a = of { -2, -1 }, [1] = of { -3, -5 }, [2] = of({ -1, -1 }, { p = 2.5,
      warning = "w" }), warnings = of { -9, -9 } }
    local order = {}
    for k, row in ipairs(c) do order[k] = row.name end
    assert.same({ "2", "a", "b", "1", "warnings" }, order)
    assert.same({ "2: w" }, c.warnings)
    assert.equal(c[3], c.b)
    for k, want in ipairs { { -2, 0, 0 }, { -3, -1, 0.5 ^ 0.5 }, { -3, -1, 0.5 ^ 0.5 }, { -8, -6, 2 ^ 0.5 }, { -18, -16,
      0 } } do
      near(c[k].elpd, want[1])
      near(c[k].difference, want[2])
      near(c[k].difference_se, want[3])
    end
    local text = tostring(c)
    assert.matches("^model     ", text)
    assert.matches("\n2 [^\n]* 2%.50 [^\n]*\na [^\n]* %- ", text)
    assert.matches("\nwarning: 2: w$", text)
    assert.is_nil(text:find("waic", 1, true))
    refused("compare: '2' must be a posterior, .*, got a tensor", pn.compare, { of { 1 }, pn.ones(2) })
    refused("compare: 'a' is loo of 2 observations, 'b' loo of 3", pn.compare, { a = of { 1, 2 }, b = of { 1, 2, 3 } })
  end)

  it("refuses what is not comparable", function()
    local list = estimates()
    local a = formula_model(1)
    refused("compare: needs at least two models, got 1", pn.compare, { a })
    refused("compare: models must be a table, got nil", pn.compare)
    refused("compare: models are one list, as in pn.compare{a, b}", pn.compare, a, a)
    refused("compare: '2' must be a posterior, or what p:loo, p:waic or pn.k_fold gives, got number", pn.compare,
      { a, 3 })
    refused("compare: 'a' is waic of 12 observations, 'b' loo of 12: they must be the same", pn.compare,
      { a = list.a, b = a:loo() })
    local other = table.move(golden.y, 1, 12, 1, {})
    other[5] = 0.4
    refused("compare: '1' and '2' observe other data %(12 and 12 numbers%)", pn.compare, { a, formula_model(2, other) })
    refused("compare: unknown option 'sites', did you mean 'site'%?", pn.compare, { a, a }, { sites = "y" })
    refused("loo: the model observes no 'x'", pn.compare, { a, a }, { site = "x" })
  end)

  it("of posteriors takes leave-one-out, tells WAIC beside, and whose numbers are not to be trusted", function()
    local c = pn.compare { good = formula_model(1), other = formula_model(2) }
    near(c.good.waic, golden.elpd[1] - golden.p_waic[1] / 399, 1e-9)
    assert.equal("loo", c.method)
    assert.same({}, c.warnings)
    local bad = formula_model(2):loo()
    bad.warning = "Pareto"
    assert.same({ "bad: Pareto" }, pn.compare({ good = formula_model(1):loo(), bad = bad }).warnings)
    assert.matches(" +p +weight +pseudo_bma +waic\ngood", tostring(c))
    local widths, apart = {}, 0
    for line in tostring(c):gmatch "[^\n]+" do
      if not line:find "^warning" then widths[#widths + 1] = #line end
      apart = math.max(apart, #(line:match "%S(  +)waic$" or ""))
    end
    assert.equal(#c + 1, #widths)
    for _, width in ipairs(widths) do assert.equal(widths[1], width) end
    local longest = 0
    for _, row in ipairs(c) do longest = math.max(longest, #("%.2f"):format(row.waic)) end
    assert.equal(math.max(longest, 4) + 2 - 4, apart) -- columns end together, two blanks before the widest
  end)
end)

-- y_i ~ N(mu, s_i), mu ~ N(0, tau): everything is known
local TAU = 2
local function normal_model(tau)
  return pn.model(function(m, y, s)
    local mu = m:sample("mu", dist.normal(0, tau or TAU))
    m:plate("rows", y:size(1), function() m:observe("y", dist.normal(mu, s), y) end)
  end)
end

local function moments(y, s, tau)
  local precision, sum = 1 / (tau or TAU) ^ 2, 0
  for i, v in ipairs(y) do
    precision, sum = precision + 1 / s[i] ^ 2, sum + v / s[i] ^ 2
  end
  return sum / precision, 1 / precision
end

-- Its posterior with draws at equal steps of probability, in an order without correlation.
local function normal_posterior(m, data, count)
  local mean, variance = moments(data[1]:totable(), data[2]:totable())
  local z = pn.dist.normal(mean, math.sqrt(variance)):icdf((pn.arange(count):to "float64" + 0.5) / count)
  local order = pn.randperm(count, { generator = pn.generator(3) })
  return posterior_of(m, { data[1], data[2] }, z:take(1, order):reshape { 2, count // 2, 1 })
end

-- log p(y_out | y_in)
local function left_out(y, s, out)
  local ys, ss = {}, {}
  for i = 1, #y do
    if not out[i] then ys[#ys + 1], ss[#ss + 1] = y[i], s[i] end
  end
  local mean, variance = moments(ys, ss)
  local list = {}
  for i = 1, #y do
    list[i] = out[i] and dist.normal(mean, math.sqrt(variance + s[i] ^ 2)):log_prob(y[i]):item()
  end
  return list
end

describe("predictive densities of a conjugate normal", function()
  local y, s = { 1.2, -0.4, 0.7, 2.9, 0.1, 1.1, -1.3 }, { 1, 0.8, 1.5, 1, 1.2, 0.9, 1.1 }
  local data = { pn.tensor(y), pn.tensor(s) }
  local m = normal_model()

  it("left one out are those of p:loo", function()
    local loo = normal_posterior(m, data, 20000):loo()
    for i, v in ipairs(loo.pointwise:totable()) do near(v, left_out(y, s, { [i] = true })[i], 2e-3) end
    assert.is_nil(loo.warning)
  end)

  it("left out in folds are those of pn.k_fold, in the order of the rows", function()
    local sizes = {}
    local function fit(model, rows)
      sizes[#sizes + 1] = rows[1]:size(1)
      assert.equal("outer", rows[3])
      return normal_posterior(model, rows, 4000)
    end
    local fold = { 2, 0, 1, 0, 2, 2, 1 }
    local cv = pn.k_fold(m, { data = { data[1], data[2], "outer" }, folds = pn.tensor(fold, { dtype = "int64" }),
      fit = fit })
    assert.same({ 5, 5, 4 }, sizes)
    for k = 0, 2 do
      local out = {}
      for i = 1, 7 do out[i] = fold[i] == k end
      for i, v in ipairs(left_out(y, s, out)) do
        if v then near(cv.pointwise[i]:item(), v, 1e-4) end
      end
    end
    near(cv.elpd, cv.pointwise:sum():item())
    assert.equal(3, #cv.fits)
    assert.matches("^7 observations, 12000 draws\nelpd_k_fold +%-%d+%.%d%d, standard error", tostring(cv))
    local each = pn.k_fold(m, { data = data, folds = 7, fit = function(_, rows)
      return normal_posterior(m, rows, 4000)
    end })
    local loo = normal_posterior(m, data, 20000):loo()
    local c = pn.compare { a = each, b = each }
    near(each.elpd, loo.elpd, 2e-3)
    near(c.a.weight + c.b.weight, 1)
    local drawn = pn.k_fold(m, { data = data, folds = 2, generator = pn.generator(2), fit = function(model, rows)
      return pn.nuts(model, { data = rows, chains = 1, warmup = 100, draws = 200, generator = pn.generator(1) })
    end })
    assert.same({ 7 }, drawn.pointwise:shape())
    local again = pn.k_fold(m, { data = data, folds = drawn.folds:to "float64", fit = function(model, rows)
      return pn.nuts(model, { data = rows, chains = 1, warmup = 100, draws = 200, generator = pn.generator(1) })
    end })
    assert.equal("int64", again.folds:dtype())
    assert.same(drawn.pointwise:totable(), again.pointwise:totable()) -- whole floats number folds, too
  end)

  it("cannot be left out where there are no rows", function()
    local function fit() return normal_posterior(m, data, 40) end
    refused("k_fold: data has no tensor whose rows could be left out", pn.k_fold, m, { data = { 3 }, fit = fit })
    refused("k_fold: there are 7 rows, too few for 10 folds", pn.k_fold, m, { data = data, fit = fit })
    refused("k_fold: folds must be a whole number from 2 on, got 1", pn.k_fold, m, { data = data, folds = 1 })
    refused("k_fold: folds must have a whole number for each of the 7 rows, got float64 %[7%]", pn.k_fold,
      m, { data = data, folds = pn.full({ 7 }, 0.5) })
    refused("k_fold: fold 0 has no rows", pn.k_fold, m, { data = data, folds = pn.ones({ 7 }, { dtype = "int64" }),
      fit = fit })
    refused("k_fold: rows names argument 3, which is no tensor", pn.k_fold, m, { data = data, rows = { 1, 3 } })
    refused("k_fold: what fit gives must be a posterior, got 3", pn.k_fold, m, { data = data, folds = 2,
      fit = function() return 3 end })
    refused("k_fold: option 'data' is required", pn.k_fold, m, {})
    refused("k_fold: needs a model %(pn.model%), got number", pn.k_fold, 3, { data = data })
    refused("k_fold: folds must be numbered from 0 on, got %-1 to 2", pn.k_fold, m, { data = data,
      folds = pn.tensor { -1, 0, 1, 2, 0, 1, 2 } })
    refused("k_fold: folds must be numbered from 0 on, got 0 to 7", pn.k_fold, m, { data = data,
      folds = pn.arange(7):to "float64" * 7 / 6 * 6 / 7 + pn.arange(7):eq(6):to "float64" })
    for _, folds in ipairs { pn.zeros { 6 }, pn.zeros { 7, 1 }, pn.zeros({ 7 }, { dtype = "bool" }) } do
      refused("k_fold: folds must have a whole number for each of the 7 rows, got %a+%d* %[", pn.k_fold, m,
        { data = data, folds = folds })
    end
    refused("k_fold: arguments of rows must have as many rows as each other, got 7 and 3", pn.k_fold, m,
      { data = { data[1], data[2], pn.ones { 3 } }, rows = { 1, 3 } })
    refused("k_fold: rows names argument 3, which is no tensor with rows", pn.k_fold, m,
      { data = { data[1], data[2], pn.tensor(1) }, rows = { 1, 3 } })
    local shapes = {}
    pn.k_fold(m, { data = { data[1], data[2], pn.ones { 7 }, pn.tensor(2), pn.ones { 3 } }, rows = { 1, 2 }, folds = 7,
      fit = function(model, rows)
        for k = 1, 5 do shapes[k] = table.concat(rows[k]:shape(), ",") end
        return normal_posterior(model, rows, 40)
      end })
    assert.same({ "6", "6", "7", "", "3" }, shapes)
    local total = pn.model(function(r, x)
      local mu = r:sample("mu", dist.normal(0, 1))
      r:observe("y", dist.normal(mu, 1):expand({ x:size(1) }):independent(1), x)
    end)
    refused("k_fold: 'y' has densities of shape %[%] for 4 rows left out: each row must have its own", pn.k_fold, total,
      { data = { pn.tensor(y) }, folds = 2, generator = pn.generator(1), fit = function(model, rows)
        return posterior_of(model, { rows[1] }, pn.zeros { 1, 4, 1 })
      end })
  end)

  it("of other data are given by p:log_likelihood", function()
    local p = normal_posterior(m, data, 40)
    local got = p:log_likelihood { data = { pn.tensor { 5, 6 }, pn.tensor { 1, 2 } } }.y
    assert.same({ 2, 20, 2 }, got:shape())
    near(got[2][7][2]:item(), dist.normal(p.draws.mu[2][7]:item(), 2):log_prob(6):item())
  end)
end)

describe("prior predictive draws", function()
  it("are of everything in the model, whatever was observed", function()
    pn.seed(3)
    local n = 20000
    local m = pn.model(function(m, x, y)
      local mu = m:sample("mu", dist.normal(1, 2))
      local z = m:sample("z", dist.bernoulli(0.3), { enumerate = true })
      m:deterministic("both", mu + z)
      m:plate("rows", 3, function() m:observe("y", dist.normal(mu + x, 0.5), y) end)
      m:scan("t", 4, 0, function(h)
        h = m:sample("h", dist.normal(h, 1))
        m:observe("w", dist.poisson(h:exp()), 2)
        return h
      end)
    end)
    local x = pn.tensor { 0, 10, 20 }
    local seen = pn.prior_predictive(m, { data = { x, pn.full({ 3 }, 1000) }, draws = n })
    local names = {}
    for name in pairs(seen) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "both", "h", "mu", "w", "y", "z" }, names)
    assert.same({ n, 3 }, seen.y:shape())
    assert.same({ n, 4 }, seen.h:shape())
    assert.same({ n, 4 }, seen.w:shape())
    local sd = math.sqrt(4 + 0.25)
    for k = 1, 3 do
      local column = seen.y:select(2, k)
      assert(math.abs(column:mean():item() - 1 - 10 * (k - 1)) < 6 * sd / math.sqrt(n))
      assert(math.abs(column:std():item() / sd - 1) < 6 / math.sqrt(2 * n))
    end
    -- rows share mu: their correlation is 4 / 4.25
    assert(math.abs(pn.corrcoef(seen.y:t())[1][2]:item() - 4 / 4.25) < 0.01)
    assert(math.abs(seen.z:mean():item() - 0.3) < 6 * 0.46 / math.sqrt(n))
    assert.is_true((seen.both - seen.mu - seen.z):abs():max():item() < 1e-12)
    assert(math.abs(seen.h:select(2, 4):std():item() / 2 - 1) < 6 / math.sqrt(2 * n))
    assert.equal(0, (seen.w - seen.w:round()):abs():max():item())
    local fixed = pn.prior_predictive(m:intervene { mu = 7 }, { data = { x }, draws = 50 })
    assert.is_nil(fixed.mu)
    assert(math.abs(fixed.y:select(2, 1):mean():item() - 7) < 1)
  end)

  it("need priors", function()
    refused("flat: 'a' has no prior", pn.prior_predictive, pn.model(function(m)
      m:observe("y", dist.normal(m:flat "a", 1), 1)
    end))
    refused("prior_predictive: 'a' is restricted to a set by its constraint", pn.prior_predictive, pn.model(function(m)
      m:sample("a", dist.normal(pn.zeros { 2 }, 1):independent(1), { constraint = "ordered_vector" })
    end))
    refused("prior_predictive: needs a model %(pn.model%), got function", pn.prior_predictive, function() end)
    refused("prior_predictive: draws must be a whole number from 1 on, got 0", pn.prior_predictive, normal_model(),
      { draws = 0 })
  end)
end)

describe("predictions", function()
  it("have deterministic sites, and loops over time as one site", function()
    local m = pn.model(function(m, x, y)
      local b = m:sample("b", dist.normal(0, 1))
      local mu = m:deterministic("mu", b * x)
      m:plate("rows", x:size(1), function() m:observe("y", dist.normal(mu, 0.1), y) end)
      m:scan("t", 3, b, function(h, t)
        m:deterministic("h", h * t)
        m:observe("w", dist.normal(h * t, 0.1), t)
        return h
      end)
    end)
    local args = { pn.tensor { 1, 2 }, pn.tensor { 0.5, 1 } }
    local p = posterior_of(m, args, pn.tensor { { { 1 }, { 2 }, { 3 }, { 4 } } })
    local got = p:predict { data = { pn.tensor { 1, 5, 7 } } }
    assert.same({ { 1, 5, 7 }, { 2, 10, 14 }, { 3, 15, 21 }, { 4, 20, 28 } }, got.mu:totable())
    assert.same({ { 1, 2, 3 }, { 2, 4, 6 }, { 3, 6, 9 }, { 4, 8, 12 } }, got.h:totable())
    assert.is_true((got.w - got.h):abs():max():item() < 1)
    assert.same({ 4, 3 }, got.y:shape())
    assert.same({ 1, 4, 3 }, p:log_likelihood().w:shape())
    near(p:log_likelihood().w[1][2][3]:item(), dist.normal(6, 0.1):log_prob(3):item())
    assert.equal(4, #p:check { site = "w", draws = 4 })
    assert.matches("^5 observations, 4 draws", tostring(p:loo()))
  end)
end)
