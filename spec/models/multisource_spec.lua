-- Autoencoders of several sources against linear Gaussian models, whose posteriors, bounds and gradients are known in
-- closed form or by quadrature, and against the autoencoder of one source.
local pn = require "penumbra"
local golden = require "spec.golden.fusion.two_sensors"
local linear_sensors = require "spec.fusion.linear_sensors"
local helper = require "spec.helper"
local refuses, near, close = helper.refuses, helper.within, helper.close
local new_vae = pn.models.vae
local dist = pn.dist

local VARIANCE <const> = { a = 0.5, b = 2, c = 1 }
local X <const> = { a = 0.7, b = -1.1, c = 0.4 }

-- z ~ N(0, 1), x_m = z + e_m, with the posteriors given each sensor as beliefs.
local function sensors(names, dtype)
  local sources = {}
  for _, name in ipairs(names) do sources[name] = { size = 1 } end
  local m = pn.models.multisource { sources = sources, latent = 1, hidden = {}, likelihood = "normal", dtype = dtype }
  for _, name in ipairs(names) do
    local precision = 1 + 1 / VARIANCE[name]
    local s = precision ^ -0.5
    local w, b = table.unpack(m.encoders[name].net[1]:parameters())
    w:set(pn.tensor({ { 1 / (VARIANCE[name] * precision), 0 } }, { dtype = m.dtype }))
    b:set(pn.tensor({ 0, math.log(s / (1 - s)) }, { dtype = m.dtype }))
    w, b = table.unpack(m.decoders[name].net[1]:parameters())
    w:set(pn.ones({ 1, 1 }, { dtype = m.dtype }))
    b:set(pn.zeros({ 1 }, { dtype = m.dtype }))
    m.decoders[name].log_scale:set(pn.full({ 1 }, 0.5 * math.log(VARIANCE[name]), { dtype = m.dtype }))
  end
  return m
end

local function repeated(names, n)
  local x = {}
  for _, name in ipairs(names) do x[name] = pn.full({ n, 1 }, X[name]) end
  return x
end

-- log p of the sensors that are there, by the covariance of what they see.
local function log_evidence(names)
  local values, covariance = {}, {}
  for i, name in ipairs(names) do
    values[i], covariance[i] = X[name], {}
    for j in ipairs(names) do covariance[i][j] = 1 + (i == j and VARIANCE[name] or 0) end
  end
  return dist.multivariate_normal { loc = pn.zeros { #names }, covariance_matrix = covariance }
    :log_prob(pn.tensor(values)):item()
end

describe("the bounds of two linear sensors", function()
  local m = sensors { "a", "b" }
  local n = 40000

  -- Mean and standard error of the bound of K draws over n data that are all the same.
  local function estimate(objective, k)
    local more = m:bound(repeated({ "a", "b" }, n), { objective = objective, draws = k, batch_size = 2000 })
    return more.each:mean():item(), more.each:std():item() / math.sqrt(n)
  end

  it("are those of quadrature, in order, and the product's is the evidence", function()
    pn.seed(1)
    for objective, want in pairs { ind = golden.ind, moe = golden.moe } do
      local value, se = estimate(objective, 1)
      near(value, want, 6 * se, objective)
      assert(se < 0.01, se)
      local better = estimate(objective, 8)
      assert(value < better and better < golden.log_evidence + 6 * se, objective)
    end
    for _, k in ipairs { 1, 7 } do
      local more = m:bound(repeated({ "a", "b" }, 3), { objective = "poe", draws = k })
      close(more.each, pn.full({ 3 }, golden.log_evidence), 1e-10)
    end
    local mixed = { ind = 0.25, moe = 0.25, poe = 0.5 }
    local more = m:bound(repeated({ "a", "b" }, 3), { objective = mixed, draws = 40000 })
    near(more.each:mean(), 0.25 * golden.log_evidence + 0.25 * golden.moe_limit + 0.5 * golden.log_evidence, 2e-3)
  end)

  it("do not become tight with many draws below the mixture", function()
    pn.seed(2)
    local more = m:bound(repeated({ "a", "b" }, 4), { objective = "moe", draws = 200000 })
    assert(more.se < 1e-3)
    near(more.value, golden.moe_limit, 6 * more.se)
    assert(golden.log_evidence - more.value > 0.01)
    more = m:bound(repeated({ "a", "b" }, 4), { objective = "ind", draws = 200000 })
    near(more.value, golden.log_evidence, 6 * more.se)
  end)
end)

describe("what is not there", function()
  it("counts nowhere: the bound of the product is the evidence of any subset", function()
    local names = { "a", "b", "c" }
    local m = sensors(names)
    local x, rows, want = repeated(names, 8), {}, {}
    for set = 0, 7 do
      local there, marks = {}, {}
      for k, name in ipairs(names) do
        marks[k] = set >> (k - 1) & 1 == 1
        there[#there + 1] = marks[k] and name or nil
      end
      rows[set + 1], want[set + 1] = marks, #there > 0 and log_evidence(there) or 0
      if #there > 0 then -- as data that are not given at all
        local some = {}
        for _, name in ipairs(there) do some[name] = pn.full({ 1, 1 }, X[name]) end
        near(-m:loss(some, { objective = "poe", draws = 3 }), want[set + 1], 1e-10)
      end
    end
    local observed = pn.tensor(rows)
    local more = m:bound(x, { objective = "poe", draws = 5, observed = observed })
    close(more.each, pn.tensor(want), 1e-10)
    -- or as NaN
    for k, name in ipairs(names) do
      x[name] = pn.where(observed:select(2, k):unsqueeze(2), x[name], pn.tensor(0 / 0))
    end
    more = m:bound(x, { objective = "poe", draws = 5 })
    close(more.each, pn.tensor(want), 1e-10)
    local mean = m:encode(x)
    near(mean[1], 0, 0) -- no source: the prior
    near(mean[4], (X.a / 0.5 + X.b / 2) / (1 + 1 / 0.5 + 1 / 2), 1e-12)
    local q, report = m:fuse(x)
    near(q:variance()[8], 1 / (1 + 2 + 0.5 + 1), 1e-12)
    assert.is_true(report.none[1]:item())
    assert.equal("no source is there: the belief is the prior", report:said(1))
  end)

  it("leaves the loss of a single exact belief exact, whatever the objective and the draws", function()
    local m = sensors { "a", "b" }
    for _, o in ipairs { { "ind", "iwae" }, { "ind", "dreg" }, { "moe", "iwae" }, { "poe", "dreg" },
      { "hybrid", "iwae" } } do
      local loss = m:loss(repeated({ "a", "b" }, 3), { objective = o[1], estimator = o[2], draws = 3,
        observed = { a = pn.tensor { false, false, false } } })
      near(-loss, log_evidence { "b" }, 1e-10, o[1] .. " " .. o[2])
    end
    -- of two: half of ind on the same draws, and half of the product's bound, which is the evidence
    pn.seed(5)
    local ind = m:loss(repeated({ "a", "b" }, 3), { objective = "ind", draws = 3 }):item()
    pn.seed(5)
    near(m:loss(repeated({ "a", "b" }, 3), { draws = 3 }), 0.5 * ind - 0.5 * golden.log_evidence, 1e-10)
  end)

  it("is absent in the bounds of single beliefs, too", function()
    pn.seed(3)
    local m = sensors { "a", "b" }
    local n = 30000
    -- of a third of the data b alone is there: its belief is the exact posterior
    local there = pn.arange(n):remainder(3):eq(0)
    for _, objective in ipairs { "ind", "moe" } do
      local more = m:bound(repeated({ "a", "b" }, n), { objective = objective, draws = 1, batch_size = 3000,
        observed = { a = there:logical_not() } })
      close(more.each[there], pn.full({ n // 3 }, log_evidence { "b" }), 1e-10)
      local others = more.each[there:logical_not()]
      near(others:mean(), golden[objective], 6 * others:std():item() / math.sqrt(others:numel()), objective)
    end
  end)
end)

describe("sensors of vectors, whose beliefs have covariances", function()
  -- A model with the exact posteriors of linear sensors for beliefs: networks of one's own.
  local function model(sizes, latent, g)
    local s, sources, targets = linear_sensors.new(sizes, latent, g), {}, {}
    s.mean, s.cov = pn.zeros { latent }, pn.eye(latent)
    for k, n in ipairs(sizes) do
      s.sensor[k].r = pn.eye(n) * 0.4
      local net = pn.nn.linear(latent, n)
      local w, b = table.unpack(net:parameters())
      w:set(s.sensor[k].a:t())
      b:set(s.sensor[k].b)
      sources["x" .. k] = { size = n, encoder = function(x) return s:belief({ [k] = x }, k) end }
      targets["x" .. k] = { size = n, decoder = net,
        likelihood = pn.nn.likelihood.normal { log_scale = pn.full({ n }, 0.5 * math.log(0.4)) } }
    end
    return s, pn.models.multisource { sources = sources, targets = targets, latent = latent }
  end

  for _, case in ipairs { { { 1, 2 }, 2 }, { { 2, 1, 3 }, 3 } } do
    it(("of %d numbers have bounds in order, and the evidence for the product's, whatever is there"):format(case[2]),
      function()
        pn.seed(13)
        local g = pn.generator(case[2])
        local s, m = model(case[1], case[2], g)
        local _, drawn = s:draw(1, g)
        for set = 1, (1 << #case[1]) - 1 do
          local there, x, observed = {}, {}, {}
          for k = 1, #case[1] do
            local name = "x" .. k
            x[name] = drawn[k]:broadcast_to { 2000, case[1][k] }:contiguous()
            observed[name] = set >> (k - 1) & 1 == 1
            if observed[name] then there[#there + 1] = k end
          end
          local want = s:log_evidence(drawn, there):item()
          local function bound(objective, draws)
            local more = m:bound(x, { objective = objective, draws = draws, observed = observed,
              batch_size = 2000 })
            return more.each:mean():item(), more.each:std():item() / math.sqrt(2000), more.each
          end
          local value, _, each = bound("poe", 2)
          near(value, want, 1e-9)
          close(each, pn.full({ 2000 }, want), 1e-9)
          local one, e1 = bound("ind", 1)
          local eight, e8 = bound("ind", 8)
          local mixed, em = bound("moe", 1)
          assert(one <= eight + 6 * (e1 + e8) + 1e-9 and eight <= want + 6 * e8 + 1e-9)
          assert(one <= mixed + 6 * (e1 + em) + 1e-9 and mixed <= want + 6 * em + 1e-9)
          if #there == 1 then near(eight, want, 1e-9) end
        end
      end)
  end
end)

-- ---- gradients ----

local GRID <const> = pn.linspace(-7, 7, 561) -- steps of 0.025
local STEP <const> = 0.025

-- The expected objective of K = 1 or 2 draws of one datum by sums over a grid, from the densities of the model's
-- parameters alone, with a graph.
local function exact_objective(m, names, objective, k)
  local log_p = dist.normal(0, 1):log_prob(GRID)
  local q, total = {}, 0
  for _, name in ipairs(names) do
    local w, b = table.unpack(m.encoders[name].net[1]:parameters())
    local y = w[1] * X[name] + b
    q[#q + 1] = dist.normal(y[1], y[2]:sigmoid())
    w, b = table.unpack(m.decoders[name].net[1]:parameters())
    log_p = log_p + dist.normal(GRID * w[1][1] + b[1], m.decoders[name].log_scale[1]:exp()):log_prob(pn.full({ 561 },
      X[name]))
  end
  local function expected(law, below)
    local weight = law:log_prob(GRID):exp() * STEP
    local log_w = log_p - below
    if k == 1 then return (weight * log_w):sum() end
    local both = log_w:unsqueeze(1):logaddexp(log_w:unsqueeze(2)) - math.log(2)
    return (weight:unsqueeze(1) * weight:unsqueeze(2) * both):sum()
  end
  if objective == "poe" then
    local precision, eta = 1 - #q, 0
    for _, law in ipairs(q) do
      precision, eta = precision + law.scale ^ -2, eta + law.loc / law.scale ^ 2
    end
    local law = dist.normal(eta / precision, precision ^ -0.5)
    return expected(law, law:log_prob(GRID))
  end
  local mixture
  for _, law in ipairs(q) do
    local part = law:log_prob(GRID) - math.log(#q)
    mixture = mixture and mixture:logaddexp(part) or part
  end
  for _, law in ipairs(q) do
    total = total + expected(law, objective == "moe" and mixture or law:log_prob(GRID)) / #q
  end
  return total
end

-- A model that is not at its optimum.
local function disturbed(names)
  local m, g = sensors(names), pn.generator(9)
  for _, p in ipairs(m:parameters()) do p:set(p + 0.3 * pn.randn(p:shape(), { generator = g })) end
  return m
end

describe("gradients", function()
  local names = { "a", "b" }
  local m = disturbed(names)

  -- Mean and standard error of the gradient over `runs` batches.
  local function estimated(o, n, runs)
    local all, x = {}, repeated(names, n)
    for run = 1, runs do
      local parts = {}
      for i, g in ipairs(pn.grad(-m:loss(x, o), m:parameters())) do parts[i] = g:reshape { -1 } end
      all[run] = pn.concatenate(parts, 1)
    end
    all = pn.stack(all, 1)
    return all:mean(1), all:std(1) / math.sqrt(runs)
  end

  local function exact(objective, k)
    local parts = {}
    for i, g in ipairs(pn.grad(exact_objective(m, names, objective, k), m:parameters())) do
      parts[i] = g:reshape { -1 }
    end
    return pn.concatenate(parts, 1)
  end

  for _, case in ipairs { { "ind", "iwae" }, { "ind", "dreg" }, { "moe", "iwae" }, { "poe", "iwae" },
    { "poe", "dreg" } } do
    it(("of %s by %s have the exact gradient as their mean"):format(case[1], case[2]), function()
      pn.seed(4)
      for k = 1, 2 do
        local mean, se = estimated({ objective = case[1], estimator = case[2], draws = k }, 2000, 60)
        local want = exact(case[1], k)
        local off = ((mean - want):abs() / (se + 1e-9)):max():item()
        assert(off < 6, ("%d draws: %g standard errors"):format(k, off))
        assert(se:max():item() < 0.02 * want:abs():max():item())
      end
    end)
  end

  it("of mixtures of objectives are mixtures of gradients, on the same draws", function()
    local x = repeated(names, 5)
    local function gradient(objective)
      pn.seed(7)
      local parts = {}
      for i, g in ipairs(pn.grad(m:loss(x, { objective = objective, draws = 3 }), m:parameters())) do
        parts[i] = g:reshape { -1 }
      end
      return pn.concatenate(parts, 1)
    end
    close(gradient { ind = 0.75, moe = 0.25 }, gradient "ind" * 0.75 + gradient "moe" * 0.25, 1e-12)
  end)

  it("leave a source that is not there alone, and weigh the others", function()
    pn.seed(5)
    local x = repeated(names, 4)
    local there = { b = pn.tensor { true, true, false, false } }
    for _, o in ipairs { { "ind", "iwae" }, { "ind", "dreg" }, { "moe", "iwae" }, { "hybrid", "iwae" },
      { "hybrid", "dreg" } } do
      local function gradient(data, observed, objective)
        local list = pn.grad(m:loss(data, { objective = objective, estimator = o[2], draws = 3, observed = observed }),
          m:parameters())
        return list
      end
      local function parameters_of(name)
        local places = {}
        for i, entry in ipairs(m:named_parameters()) do
          if entry[1]:find("^encoders%." .. name) then places[#places + 1] = i end
        end
        return places
      end
      local none = gradient(x, { b = false }, o[1])
      for _, i in ipairs(parameters_of "b") do assert.equal(0, none[i]:abs():max():item()) end
      -- in the mean over many data it is that of those with both and of those with one
      local n = 6000
      local mixed = gradient(repeated(names, n), { b = pn.arange(n):remainder(2):eq(0) }, o[1])
      local both, alone = gradient(repeated(names, n), nil, o[1]), gradient(repeated(names, n), { b = false }, o[1])
      for i = 1, #mixed do
        local want = (both[i] + alone[i]) / 2
        assert((mixed[i] - want):abs():max():item() < 0.06 * (1 + want:abs():max():item()), o[1] .. " " .. o[2])
      end
      assert(gradient(x, there, o[1]))
    end
  end)
end)

-- ---- one source ----

describe("a model of one source", function()
  it("has pn.models.vae's importance weighted bound and its gradient on the same draws, whatever the objective",
    function()
      for _, dtype in ipairs { "float64", "float32" } do
        local f = { dtype = dtype }
        local one = new_vae { data = 3, latent = 2, hidden = { 5 }, decoder = "normal", dtype = dtype, mean = false }
        local m = pn.models.multisource { sources = { x = { size = 3 } }, latent = 2, hidden = { 5 },
          likelihood = "normal", scale_link = "exp", dtype = dtype }
        local pairs_of = { { m.encoders.x.net, one.latents.encoder[1] }, { m.decoders.x.net, one.likelihood.net } }
        local mine, its = {}, {}
        for _, pair in ipairs(pairs_of) do
          for i, p in ipairs(pair[1]:parameters()) do
            p:set(pair[2]:parameters()[i]:detach())
            mine[#mine + 1], its[#its + 1] = p, pair[2]:parameters()[i]
          end
        end
        mine[#mine + 1], its[#its + 1] = m.decoders.x.log_scale, one.likelihood.log_scale
        local x = pn.randn({ 4, 3 }, f)
        for _, estimator in ipairs { "iwae", "dreg" } do
          pn.seed(11)
          local want = one:loss(x, { objective = estimator, draws = 6 })
          local gradient = pn.grad(want, its)
          for _, objective in ipairs { "ind", "poe", "moe" } do -- a hybrid's halves have draws of their own
            if objective ~= "moe" or estimator == "iwae" then
              pn.seed(11)
              local got = m:loss({ x = x }, { objective = objective, estimator = estimator, draws = 6 })
              local tolerance = dtype == "float64" and 1e-12 or 2e-5
              near(got, want:item(), tolerance * (1 + math.abs(want:item())), objective)
              for i, g in ipairs(pn.grad(got, mine)) do close(g, gradient[i], tolerance * 10) end
            end
          end
        end
      end
    end)
end)

describe("what a bound of several sources tells", function()
  it("are moments of the weights that its draws have, of terms by their shares, in blocks of unequal sizes", function()
    local source_data = require "penumbra.models.multisource.source_data"
    local source_objective = require "penumbra.models.multisource.source_objective"
    local m = disturbed { "a", "b" }
    local x = { a = pn.randn { 5, 1 }, b = pn.randn { 5, 1 } }
    local observed = { b = pn.tensor { true, false, true, true, false } }
    local names, draws = { "a", "b" }, 30
    for _, weights in ipairs { { poe = 1 }, { ind = 0.3, poe = 0.7 }, { ind = 0.2, moe = 0.5, poe = 0.3 } } do
      pn.seed(5)
      local b = m:bound(x, { draws = draws, batch_size = 3, objective = weights, observed = observed })
      pn.seed(5)
      local whole, each = source_data.read("spec", m, x, observed), {}
      local elbo, variance, ess = 0, 0, 0
      for _, rows in ipairs { { 1, 3 }, { 4, 5 } } do
        local how, sum = { weights = weights, draws = draws, sources = names, targets = names }, 0
        for _, term in ipairs(source_objective.log_weights(m, source_data.rows(whole, rows[1], rows[2]), how)) do
          local log_w, w = term.log_p - term.log_q, pn.ones { rows[2] - rows[1] + 1 } * term.share * weights[term.kind]
          local stream = pn.infer.stream { draws = draws }
          stream:add(log_w)
          sum = sum + (log_w:logsumexp(1) - math.log(draws)) * w
          elbo = elbo + (log_w:mean(1) * w):sum():item()
          variance = variance + (stream:standard_error() * w):square():sum():item()
          ess = ess + (w / log_w:softmax(1):square():sum(1)):sum():item()
        end
        each[#each + 1] = sum:detach()
      end
      each = pn.concatenate(each, 1)
      close(b.each, each, 1e-10)
      near(b.value, each:mean():item(), 1e-10)
      near(b.elbo, elbo / 5, 1e-10)
      near(b.se, math.sqrt(variance) / 5, 1e-10)
      near(b.effective_sample_size, ess / 5, 1e-9)
    end
  end)
end)

-- ---- names and kinds of data ----

describe("sources and targets", function()
  it("may differ: noisy copies explain one target, whose likelihood counts once", function()
    pn.seed(6)
    local m = pn.models.multisource { sources = { copy1 = { size = 1 }, copy2 = { size = 1 } }, latent = 1, hidden = {},
      targets = { clean = { size = 1, likelihood = "normal" } } }
    for _, name in ipairs { "copy1", "copy2" } do -- both are sure of nothing: N(0, s^2), s near 1
      local w, b = table.unpack(m.encoders[name].net[1]:parameters())
      w:set(pn.zeros { 1, 2 })
      b:set(pn.tensor { 0, 30 })
    end
    local w, b = table.unpack(m.decoders.clean.net[1]:parameters())
    w:set(pn.ones { 1, 1 } * 2)
    b:set(pn.zeros { 1 })
    m.decoders.clean.log_scale:set(pn.zeros { 1 })
    local x = { copy1 = pn.zeros { 2, 1 }, copy2 = pn.zeros { 2, 1 }, clean = pn.tensor { { 1.5 }, { -1 } } }
    local want = dist.normal(0, math.sqrt(5)):log_prob(pn.tensor { 1.5, -1 })
    for _, objective in ipairs { "ind", "moe", "poe" } do
      local more = m:bound(x, { objective = objective, draws = 400000, batch_size = 2 })
      close(more.each, want, 0.02)
    end
  end)

  it("do not depend on the order of the table, to the bit, nor on what is compiled", function()
    local function model(order)
      pn.seed(8)
      local sources, data = {}, {}
      for _, name in ipairs(order) do
        sources[name] = { size = 2 }
        data[name] = pn.full({ 4, 2 }, #name) * pn.arange(2):to "float64"
      end
      return pn.models.multisource { sources = sources, latent = 2, hidden = { 3 } }, data
    end
    local a, x = model { "first", "second", "third4", "x" }
    local b, y = model { "x", "third4", "second", "first" }
    for name in pairs(x) do x[name], y[name] = x[name]:gt(3):to "float64", y[name]:gt(3):to "float64" end
    pn.seed(2)
    local want = a:loss(x):item()
    pn.seed(2)
    assert.equal(want, b:loss(y):item())
    pn.seed(2)
    local observed = pn.tensor { { true, false, true, true }, { true, true, true, true }, { false, false, false, true },
      { false, false, false, false } }
    local masked = a:loss(x, { observed = observed, estimator = "dreg" }):item()
    pn.seed(2)
    local step = pn.compile(function(f, s, t, u) return a:loss({ first = f, second = s, third4 = t, x = u },
      { observed = observed, estimator = "dreg" }) end)
    near(step(x.first, x.second, x.third4, x.x), masked, 1e-12)
    local one = a:fit { data = x, epochs = 2, batch_size = 2, seed = 3, observed = observed }
    local two = b:fit { data = y, epochs = 2, batch_size = 2, seed = 3, observed = observed, compile = false }
    assert.equal(#one.history, 2)
    near(one.history[2], two.history[2], 0.5) -- other draws, the same rows
  end)

  it("may be labels, in and out", function()
    pn.seed(9)
    local n = 300
    local label = pn.randint(0, 3, { n, 1 })
    local x = (label:to "float64" - 1) * 3 + 0.3 * pn.randn { n, 1 }
    local m = pn.models.multisource { latent = 2, hidden = { 16 },
      sources = { label = { categories = 3 }, x = { size = 1 } },
      targets = { label = { categories = 3 }, x = { size = 1, likelihood = "normal" } } }
    local before = -m:loss({ label = label, x = x }, { draws = 50 }):item()
    m:fit { data = { label = label, x = x }, epochs = 200, batch_size = 100, lr = 0.01, draws = 4 }
    -- log 1/3 and the normals' entropy: -1.0986 - 0.2149
    local value = m:bound({ label = label, x = x }, { objective = "poe", draws = 100, batch_size = 300 }).value
    assert(value > before + 1 and value > -2.1 and value < -1.25, value)
    local p = m:predict({ x = x }, { targets = { "label" } }).label
    assert.same({ n, 1, 3 }, p:shape())
    assert(p:argmax(-1):eq(label):to "float64":mean():item() > 0.97)
    local two = pn.tensor({ { 0 }, { 2 } }, { dtype = "int64" })
    local drawn = m:predict({ label = two }, { targets = { "x" }, draws = 300 }).x
    assert(drawn[1]:item() < -2 and drawn[2]:item() > 2)
    local filled = m:impute { x = pn.tensor { { -3 }, { 3 } } }
    assert.same({ { 0 }, { 2 } }, filled.label:totable())
    assert.same({ { -3 }, { 3 } }, filled.x:totable())
  end)
end)

-- ---- predictions ----

describe("predictions of linear sensors", function()
  local m = sensors { "a", "b", "c" }
  local n = 20000
  -- z given a: mean 0.7 / 1.5, variance 1 / 3
  local mean, variance = X.a / 1.5, 1 / 3

  it("are the exact conditionals", function()
    pn.seed(10)
    local x = { a = pn.full({ n, 1 }, X.a) }
    local drawn = m:predict(x, { targets = { "b" }, draws = 1, samples = true }).b
    near(drawn:mean(), mean, 6 * math.sqrt((variance + 2) / n))
    near(drawn:var():item() / (variance + 2), 1, 6 * math.sqrt(2 / n))
    near(m:predict(x, { targets = { "b" }, draws = 1 }).b:mean(), mean, 6 * math.sqrt(variance / n))
    -- named as a target it is no source
    local all = repeated({ "a", "b", "c" }, 1)
    local want = log_evidence { "a", "b", "c" } - log_evidence { "a", "c" }
    near(m:log_predictive(all, { targets = { "b" }, draws = 200000 }), want, 0.01)
    near(m:log_predictive(all, { targets = { "b", "c" }, draws = 200000 }),
      log_evidence { "a", "b", "c" } - log_evidence { "a" }, 0.01)
    near(m:reconstruct(x).b[1], mean, 1e-12)
  end)

  it("fill in what is missing, in one pass and by the chain, which tends to the same law", function()
    pn.seed(11)
    local x = repeated({ "a", "b", "c" }, n)
    local observed = { b = false, c = pn.arange(n):lt(n // 2) }
    local filled = m:impute(x, { observed = observed, samples = true })
    near(filled.a:mean(), X.a, 1e-12)
    near(filled.c[1], X.c, 0)
    local steps = 0
    for _, method in ipairs { "one_pass", "chain" } do
      local drawn = m:impute(x, { observed = { b = false, c = false }, samples = true, method = method, steps = 40,
        start = method == "chain" and { b = pn.full({ n, 1 }, 5) } or nil,
        on_step = function(step) steps = step end }).b
      near(drawn:mean(), mean, 6 * math.sqrt((variance + 2) / n), method)
      near(drawn:var():item() / (variance + 2), 1, 6 * math.sqrt(2 / n), method)
    end
    assert.equal(40, steps)
    -- one step of it believes what was filled in before: z given a and b = 5
    local two = sensors { "a", "b" }
    local first = two:impute({ a = x.a }, { samples = true, method = "chain", steps = 1,
      start = { b = pn.full({ n, 1 }, 5) } }).b
    near(first:mean(), (X.a / 0.5 + 5 / 2) / 3.5, 6 * math.sqrt((1 / 3.5 + 2) / n))
    near(m:impute(x, { observed = { b = false, c = false }, draws = 50 }).b:mean(), mean, 0.01)
  end)

  it("come from the prior without any source", function()
    pn.seed(12)
    local x, z = m:generate(n, { sample = true })
    near(x.b:var():item() / 3, 1, 6 * math.sqrt(2 / n))
    assert.same({ n, 1 }, z:shape())
    near(m:decode(z).a:mean()[1], z[1]:item(), 1e-12)
  end)
end)

-- ---- files and mistakes ----

describe("a saved model", function()
  it("is restored whole, given the networks that it was made of", function()
    local path = os.tmpname()
    local m = pn.models.multisource { latent = 2, hidden = { 4 }, dtype = "float32",
      sources = { left = { size = 2 }, label = { categories = 3, hidden = { 2 } } },
      targets = { left = { size = 2, likelihood = "normal", noise = "network" } } }
    assert(m:save(path))
    local again = assert(pn.restore(path))
    local x = { left = pn.randn({ 3, 2 }, { dtype = "float32" }), label = pn.tensor({ { 0 }, { 2 }, { 1 } },
      { dtype = "int64" }) }
    pn.seed(1)
    local want = m:loss(x):item()
    pn.seed(1)
    assert.equal(want, again:loss(x):item())
    local net = pn.nn.mlp({ 2, 3, 4 }, { activation = "relu" })
    local prior = dist.normal({ 1, -1 }, { 2, 0.5 }):independent(1)
    local own = pn.models.multisource { latent = 2, sources = { x = { size = 2, encoder = net } }, prior = prior,
      likelihood = "normal", hidden = {} }
    assert(own:save(path))
    refuses("restore: option 'sources' is required", pn.restore, path, { prior = prior })
    local other = assert(pn.restore(path, { prior = prior,
      sources = { x = { size = 2, encoder = pn.nn.mlp({ 2, 3, 4 }, { activation = "relu" }) } } }))
    local y = { x = pn.randn { 3, 2 } }
    pn.seed(1)
    want = own:loss(y):item()
    pn.seed(1)
    assert.equal(want, other:loss(y):item())
    -- scales below the prior's own
    assert(own:beliefs(y).x:variance():lt(pn.tensor { 4, 0.25 }):all():item())
    os.remove(path)
    local nothing, message, code = pn.restore(path)
    assert(nothing == nil and message and code)
  end)

  it("goes on where a run was interrupted", function()
    local path = os.tmpname()
    os.remove(path)
    local x = { a = pn.randn { 20, 1 }, b = pn.randn { 20, 1 } }
    local function run(epochs, resume, file)
      pn.seed(4)
      local m = disturbed { "a", "b" }
      m:fit { data = x, epochs = epochs, batch_size = 5, seed = 2, checkpoint = file, checkpoint_every = 1,
        resume = resume }
      return m
    end
    local whole = run(4, nil, path .. ".whole")
    run(2, nil, path)
    local resumed = run(4, true, path)
    for i, p in ipairs(whole:parameters()) do close(p, resumed:parameters()[i], 0) end
    os.remove(path)
    os.remove(path .. ".whole")
  end)
end)

describe("a model of several sources", function()
  local m = sensors { "a", "b" }
  local x = repeated({ "a", "b" }, 3)

  it("refuses what does not fit, with the source's name", function()
    local multisource = pn.models.multisource
    refuses("multisource: sources.a: option 'size' is required", multisource, { sources = { a = {} }, latent = 1 })
    refuses("multisource: sources.a: unknown option 'sise', did you mean 'size'", multisource,
      { sources = { a = { sise = 1 } }, latent = 1 })
    refuses("multisource: sources must be a table with names, got the key 1", multisource,
      { sources = { { size = 1 } }, latent = 1 })
    refuses("multisource: sources must have at least one", multisource, { sources = {}, latent = 1 })
    refuses("multisource: source and target 'a' must have one size, got 1 and 2", multisource,
      { sources = { a = { size = 1 } }, targets = { a = { size = 2 } }, latent = 1 })
    refuses("multisource: scale_link 'sigmoid' needs a diagonal prior", multisource, { sources = { a = { size = 1 } },
      latent = 2, prior = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = { { 1, 0.5 }, { 0.5, 1 } } } })
    refuses("multisource: prior must be a float64 normal of event [2]", multisource, { sources = { a = { size = 1 } },
      latent = 2, prior = dist.normal(pn.zeros { 3 }, 1):independent(1) })
    for got, prior in pairs { normal = dist.normal(pn.zeros { 3, 2 }, 1):independent(1), student_t =
      dist.student_t(4, pn.zeros { 2 }, 1):independent(1), ["normal "] = dist.normal(pn.zeros({ 2 },
      { dtype = "float32" }), 1):independent(1), [" normal"] = dist.normal(pn.zeros { 1, 2 }, 1):independent(2),
      ["  normal"] = dist.normal(0, 1) } do
      refuses("multisource: prior must be a float64 normal of event [2] without a batch, got " .. got:gsub(" ", ""),
        multisource, { sources = { a = { size = 1 } }, latent = 2, prior = prior })
    end
    refuses("multisource: dtype must be 'float64' or 'float32', got 'int64'", multisource, { sources = { a = { size =
      1 } }, latent = 2, dtype = "int64" })
    refuses("multisource: targets must have at least one", multisource, { sources = { a = { size = 1 } }, targets = {},
      latent = 1 })
    refuses("multisource: latent must be a whole number from 1 on, got 0", multisource, { sources = { a = {
      size = 1 } }, latent = 0 })
    refuses("loss: x.a must have shape [B, 1], got [3, 2]", m.loss, m, { a = pn.zeros { 3, 2 } })
    refuses("loss: x.b must have shape [3, 1], got [2, 1]", m.loss, m, { a = pn.zeros { 3, 1 }, b = pn.zeros { 2, 1 } })
    refuses("loss: x names 'd', which is no source or target; there are a, b", m.loss, m, { d = pn.zeros { 3, 1 } })
    refuses("loss: x must hold at least one source or target", m.loss, m, {})
    refuses("loss: observed of source 'a' must be true, false or bool of shape [3], got bool [2]", m.loss, m, x,
      { observed = { a = pn.tensor { true, false } } })
    refuses("loss: observed must be bool of shape [3, 2], one for each source, got bool [3, 3]", m.loss, m, x,
      { observed = pn.zeros { 3, 3 }:gt(0) })
    refuses("loss: observed names 'A', which is no source or target, did you mean 'a'", m.loss, m, x,
      { observed = { A = true } })
    refuses("loss: weights of objective must sum to 1, got 1.5", m.loss, m, x, { objective = { ind = 1, poe = 0.5 } })
    refuses("loss: objective.moe must not be negative", m.loss, m, x, { objective = { ind = 1.5, moe = -0.5 } })
    refuses("loss: objective must be one of 'hybrid', 'ind', 'moe', 'poe', got 'pow', did you mean 'poe'", m.loss, m, x,
      { objective = "pow" })
    refuses("loss: estimator 'dreg' is of 'ind' and 'poe'", m.loss, m, x, { objective = "moe", estimator = "dreg" })
    refuses("fit: estimator 'dreg' is of 'ind' and 'poe'", m.fit, m, { data = x, epochs = 1, objective = "moe",
      estimator = "dreg" })
    refuses("predict: targets names 'B', which is none, did you mean 'b'", m.predict, m, x, { targets = { "B" } })
    refuses("log_predictive: x must hold the target 'b'", m.log_predictive, m, { a = x.a }, { targets = { "b" } })
    refuses("impute: start names 'c', which is no target", m.impute, m, x, { start = { c = x.a } })
    local half = pn.models.multisource { sources = { w = { size = 2 } }, latent = 1 }
    refuses("bound: x.w is NaN in part for datum 2", half.bound, half, { w = pn.tensor { { 0, 0 }, { 1, 0 / 0 } } })
    refuses("decode: z must be float64 of shape [..., B, 1]", m.decode, m, pn.zeros { 2, 2 })
  end)

  it("takes parts at their bounds, and names what a part is not", function()
    local multisource = pn.models.multisource
    local function made(source, more)
      local o = { sources = { a = source }, latent = 2, hidden = { 3 }, likelihood = "normal" }
      for name, v in pairs(more or {}) do o[name] = v end
      return multisource(o)
    end
    for text, source in pairs { ["sources.a: size must be a whole number from 1 on, got 0"] = { size = 0 },
      ["sources.a: categories must be a whole number from 2 on, got 1"] = { categories = 1 },
      ["sources.a: hidden[2] must be a whole number from 1 on, got 0"] = { size = 1, hidden = { 1, 0 } },
      ["multisource: sources.a must be a table, got 3"] = 3,
      ["sources.a: encoder must be a function, got 3"] = { size = 1, encoder = 3 } } do
      refuses(text, made, source)
    end
    local label = made { categories = 3 }
    assert.same({ 1, { 3, 3 }, { 3, 4 } }, { label.encoders.a.size, label.encoders.a.net[1]:state().weight:shape(),
      label.encoders.a.net[3]:state().weight:shape() })
    local labels = pn.tensor({ { 0 }, { 2 } }, { dtype = "int64" })
    assert.same({ { 1, 0, 0 }, { 0, 0, 1 } }, label.encoders.a:given(labels):totable())
    refuses("loss: x.a must be int64, got float64", label.loss, label, { a = pn.zeros { 2, 1 } })
    refuses("loss: x.a must be float64, got int64", m.loss, m, { a = labels })
    assert.equal(15, made({ size = 1 }, { likelihood = "mixture" }).decoders.a.net[3]:state().bias:numel())
    local one = pn.ones { 2, 1 }
    for _, bad in ipairs { pn.ones { 2 }, pn.ones { 0, 1 }, pn.ones { 2, 1, 1 } } do
      refuses("loss: x.a must have shape [B, 1], got ", m.loss, m, { a = bad })
    end
    for text, network in pairs { ["encoder must give a normal or outputs [B, 4], got [2, 3]"] = function()
      return pn.ones { 2, 3 } end, ["outputs [B, 4], got [2, 4, 1]"] = function() return pn.ones { 2, 4, 1 } end,
      ["outputs [B, 4], got number"] = function() return 3 end,
      ["sources.a: encoder must give a normal of event [2]"] = function()
        return dist.normal(pn.zeros { 2, 3 }, 1):independent(1)
      end, ["a: encoder must give a normal of event [2]"] = function() return dist.normal(pn.zeros { 2, 2 }, 1) end } do
      local own = made { size = 1, encoder = network }
      refuses(text, own.beliefs, own, { a = one })
    end
    local law = dist.normal(pn.zeros { 2, 2 }, 1):independent(1)
    assert.equal(law, made({ size = 1, encoder = function() return law end }):beliefs({ a = one }).a)
    for _, z in ipairs { pn.zeros { 1 }, pn.zeros({ 2, 1 }, { dtype = "float32" }) } do
      refuses("decode: z must be float64 of shape [..., B, 1], got ", m.decode, m, z)
    end
    assert.same({ 1, 1, 1 }, m:decode(pn.zeros { 1, 1, 1 }).a:mean():shape())
    refuses("impute: steps must be a whole number from 1 on, got 0", m.impute, m, x, { steps = 0 })
    for _, start in ipairs { pn.ones { 3 }, pn.ones { 2, 1 }, pn.ones { 3, 2 } } do
      refuses("impute: start.a must have shape [3, 1], got ", m.impute, m, x, { start = { a = start } })
    end
    refuses("impute: start.a must be a tensor, got 3", m.impute, m, x, { start = { a = 3 } })
    for got, mask in pairs { ["float64 [3]"] = pn.ones { 3 }, ["bool [3, 1]"] = pn.ones({ 3, 1 }):gt(0),
      ["bool [2]"] = pn.ones({ 2 }):gt(0), number = 3 } do
      refuses("loss: observed of source 'a' must be true, false or bool of shape [3], got " .. got, m.loss, m, x,
        { observed = { a = mask } })
    end
    for got, mask in pairs { ["float64 [3, 2]"] = pn.ones { 3, 2 }, ["bool [3]"] = pn.ones({ 3 }):gt(0),
      ["bool [2, 2]"] = pn.ones({ 2, 2 }):gt(0), ["bool [3, 1]"] = pn.ones({ 3, 1 }):gt(0) } do
      refuses("loss: observed must be bool of shape [3, 2], one for each source, got " .. got, m.loss, m, x,
        { observed = mask })
    end
    refuses("loss: sources names 'c', which is none", m.loss, m, x, { sources = { "c" } })
  end)

  it("counts what is not there, by a mask or as NaN, in no source and no target", function()
    local gap, data = 0 / 0, pn.tensor { { 0.7 }, { 0.7 }, { 0.7 }, { 0.7 } }
    local seen = pn.tensor { true, false, true, true }
    local holes = { a = pn.tensor { { 0.7 }, { 0.7 }, { gap }, { 0.7 } }, b = data }
    local law = m:fuse(holes, { observed = { a = seen } })
    local both, alone = m:fuse({ a = data, b = data }), m:fuse { b = data }
    for n, there in ipairs { true, false, false, true } do
      near(law:mean()[n], (there and both or alone):mean()[n]:item(), 1e-12)
    end
    local density = m:log_predictive(holes, { targets = { "a" }, observed = { a = seen }, draws = 7 })
    for n, there in ipairs { true, false, false, true } do assert.equal(not there, density[n]:item() == 0) end
    local filled = m:impute({ a = holes.a, b = data }, { observed = { a = seen }, method = "chain", steps = 2 })
    assert.is_true(filled.a:isfinite():all():item())
    assert.same({ 0.7, 0.7 }, { filled.a[1]:item(), filled.a[4]:item() })
    assert.is_true(filled.a[2]:item() ~= 0.7 and filled.a[3]:item() ~= 0.7)
    assert.same(data:totable(), filled.b:totable())
    assert.same({ 7, 4, 1 }, m:predict(holes, { draws = 7, samples = true }).b:shape())
  end)

  it("says which belief breaks a product, where scales may exceed the prior's", function()
    local wide = pn.models.multisource { sources = { good = { size = 1 }, wide = { size = 1 } }, latent = 1,
      hidden = {}, scale_link = "exp", likelihood = "normal" }
    for name, log_variance in pairs { good = 0.5, wide = 4 } do
      local w, b = table.unpack(wide.encoders[name].net[1]:parameters())
      w:set(pn.zeros { 1, 2 })
      b:set(pn.tensor { 0, log_variance })
    end
    refuses("fuse: the product's precision of datum 1 must be positive, got -0.375154: source 'wide' knows less",
      wide.fuse, wide,
      { good = pn.zeros { 1, 1 }, wide = pn.zeros { 1, 1 } })
  end)

  it("fuses by rule and by other forms", function()
    pn.seed(1)
    local many = sensors { "a", "b", "c" }
    local data = { a = pn.full({ 2, 1 }, 0.5), b = pn.tensor { { 0.4 }, { -60 } }, c = pn.full({ 2, 1 }, 0.6) }
    local q, report = many:fuse(data, { conflict_threshold = 2 })
    assert.equal("believed: 'a', 'b', 'c'", report:said(1))
    assert.equal("left out: 'b'; believed: 'a', 'c'", report:said(2))
    near(q:mean()[2], (0.5 / 0.5 + 0.6 / 1) / (1 + 2 + 1), 1e-12)
    assert.same({ 2, 3, 3 }, (many:conflicts(data)):shape())
    near(many:fuse(data, { by = "mvae" }):variance()[1], 1 / (1 + 3 + 1.5 + 2), 1e-12)
    for _, by in ipairs { "mixture", "mopoe" } do
      assert.same({ 2 }, many:fuse(data, { by = by }).batch_shape)
    end
    near(many:pointwise_mutual_information({ a = pn.full({ 1, 1 }, X.a), b = pn.full({ 1, 1 }, X.b) }),
      golden.information, 1e-12)
    refuses("fuse: conflict_threshold is of by = 'product'", many.fuse, many, data, { by = "mvae",
      conflict_threshold = 1 })
    refuses("fuse: by = 'mopoe' needs sources that are there for all data", many.fuse, many, data, { by = "mopoe",
      observed = { a = pn.tensor { true, false } } })
    -- without any source: the prior
    local copies = pn.models.multisource { sources = { copy = { size = 1 } }, latent = 1, hidden = {},
      targets = { clean = { size = 1, likelihood = "normal" } }, prior = dist.normal({ 3 }, { 2 }):independent(1) }
    local clean = { clean = pn.ones { 2, 1 } }
    for _, by in ipairs { "product", "mixture" } do
      local law, said = copies:fuse(clean, { by = by })
      assert.same({ { 2 }, { { 3 }, { 3 } } }, { law.batch_shape, law:mean():totable() })
      close(law:variance(), pn.full({ 2, 1 }, 4), 1e-12)
      assert.same(by == "product" and {} or nil, said and said.names)
    end
    assert.same({ { 3 }, { 3 } }, copies:encode(clean):totable())
    assert.same({ 7, 2, 1 }, copies:encode(clean, { draws = 7 }):shape())
    assert.matches("^multisource%(copy %-> 1 %-> clean, %d+ parameters%)$", tostring(copies))
  end)
end)
