--- Calibration as calls: bands against enumeration, simulation-based calibration of right samplers and of planted
--- faults, guides, predictions and posterior predictive checks. Seeds are stored here; models and simulations are small
--- enough for every run of the tests, SOAK (make soak) multiplies the simulations.
local pn = require "penumbra"
local poisson_rate = require "spec.infer.poisson_rate"
local uniformity = require "penumbra.infer.uniformity"
local dist = pn.dist

local rate, exact_rate = poisson_rate.model, poisson_rate.exact

local SIMULATIONS = 100 * (tonumber(os.getenv "PN_SOAK") and 5 or 1)

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return (tostring(message):gsub("^[^:]*:%d+: ", ""))
end

-- ---- models: two conjugate, two not ----

local function normal_mean(prior_scale)
  return pn.model(function(m, n)
    local mu = m:sample("mu", dist.normal(1, prior_scale))
    m:plate("rows", n, function() m:observe("y", dist.normal(mu, 2)) end)
  end)
end

-- Exact draws of mu given y ~ normal(mu, 2), mu ~ normal(1, prior_scale).
local function exact_normal(prior_scale)
  return function(observed, n)
    local y = observed.y
    local precision = 1 / prior_scale ^ 2 + y:numel() / 4
    local mean = (1 / prior_scale ^ 2 + y:sum():item() / 4) / precision
    return { mu = dist.normal(mean, precision ^ -0.5):sample { n } }
  end
end

local logistic = pn.model(function(m, x)
  local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
  m:plate("rows", x:size(1), function() m:observe("y", dist.bernoulli { logits = x:matmul(w) }) end)
end)

local scale = pn.model(function(m, n)
  local sigma = m:sample("sigma", dist.half_normal(2))
  m:plate("rows", n, function() m:observe("y", dist.student_t(5, 0, sigma)) end)
end)

local function covariates()
  pn.seed(5)
  return pn.randn { 12, 2 }
end

-- name, model, data, its exact sampler or nil
local cases = {
  { "a normal mean", normal_mean(1.5), { 6 }, exact_normal(1.5) },
  { "a Poisson rate", rate, { 5 }, exact_rate },
  { "logistic regression", logistic, { covariates() } },
  { "the scale of Student-t errors", scale, { 8 } },
}

local settings = { nuts = { thin = 3, warmup = 200 }, importance = { num_particles = 4000 } }

local function calibrate(m, data, sampler, seed, more)
  pn.seed(seed)
  local o = { data = data, sampler = sampler, simulations = SIMULATIONS, draws = 49, options = settings[sampler] }
  for key, value in pairs(more or {}) do
    o[key] = value
  end
  return pn.sbc(m, o)
end

describe("the law of ranks", function()
  -- All cells^n outcomes: the share of which f(counts) is true.
  local function enumerated(law, f)
    local n, cells, hits = law.n, law.cells, 0
    for k = 0, cells ^ n - 1 do
      local values, rest = {}, math.tointeger(k)
      for i = 1, n do
        values[i], rest = rest % cells, rest // cells
      end
      hits = hits + (f(law:counts(values)) and 1 or 0)
    end
    return hits / cells ^ n
  end

  it("is that of all outcomes", function()
    for _, size in ipairs { { 5, 4 }, { 4, 7 }, { 6, 3 } } do
      local law = uniformity.new(size[1], size[2])
      for _, level in ipairs { 0.5, 0.9, 0.99 } do
        local least, most = law:band(level)
        local within = enumerated(law, function(counts)
          for j, r in ipairs(counts) do
            if r < least[j] or r > most[j] then return false end
          end
          return true
        end)
        assert.is_true(within >= level - 1e-9)
      end
      -- a p-value is the probability of one that small or smaller
      local seen = {}
      enumerated(law, function(counts)
        seen[("%.9f"):format(law:p_value(counts))] = true
      end)
      for text in pairs(seen) do
        local p = tonumber(text)
        local share = enumerated(law, function(counts) return law:p_value(counts) <= p + 1e-8 end)
        assert.is_true(math.abs(share - p) < 1e-8, ("%g %g"):format(share, p))
      end
    end
  end)

  it("holds 99 of 100 samples of a common size, whatever the number of ranks", function()
    pn.seed(3)
    for _, cells in ipairs { 100, 101 } do
      local law, out = uniformity.new(200, cells), 0
      for _ = 1, 500 do
        out = out + (law:p_value(law:counts(pn.randint(0, cells, { 200 }):totable())) <= 0.1 and 1 or 0)
      end
      assert.is_true(out > 50 - 41 and out < 50 + 41, out)
    end
  end)

  it("of symmetric numbers is that of all signs", function()
    local n = 8
    local function p_of(bits, sizes)
      local values = {}
      for i = 1, n do
        values[i] = ((bits >> i) & 1 == 1 and 1 or -1) * sizes(i)
      end
      return uniformity.symmetry(values)
    end
    local all = {}
    for bits = 0, 2 ^ (n + 1) - 1, 2 do
      all[#all + 1] = p_of(math.tointeger(bits), function(i) return i end)
    end
    for _, p in ipairs(all) do
      local share = 0
      for _, other in ipairs(all) do
        share = share + (other <= p + 1e-12 and 1 or 0)
      end
      assert.is_true(math.abs(share / #all - p) < 1e-12)
    end
    assert.equal(1, uniformity.symmetry {})
    assert.is_true(uniformity.symmetry { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } < 0.01)
    assert.is_true(p_of(0, function() return 1 end) <= p_of(2, function() return 1 end))
  end)
end)

describe("simulation-based calibration", function()
  for k, case in ipairs(cases) do
    local name, m, data, exact = table.unpack(case)
    for _, sampler in ipairs { exact or false, "nuts", "importance" } do
      if sampler then
        it(("passes for %s by %s"):format(name, type(sampler) == "string" and sampler or "exact draws"), function()
          local sbc = calibrate(m, data, sampler, 100 + k)
          assert.is_true(sbc:passed(), tostring(sbc))
          assert.equal("log_likelihood", sbc.names[#sbc.names])
          assert.same({ SIMULATIONS }, sbc.ranks.log_likelihood:shape())
          assert.is_nil(tostring(sbc):match "warning")
        end)
      end
    end
  end

  it("fails for draws that are too wide, and for a prior that is too narrow", function()
    local wide = calibrate(normal_mean(1.5), { 3 }, function(observed, n)
      local mu = exact_normal(1.5)(observed, n).mu
      return { mu = (mu - mu:mean()) * 1.6 + mu:mean() }
    end, 1, { simulations = 200 })
    assert.is_false(wide:passed())
    assert.matches("mu .*posterior too wide", tostring(wide))
    local narrow = calibrate(normal_mean(1.5), { 3 }, exact_normal(0.7), 1, { simulations = 200 })
    assert.is_false(narrow:passed())
    assert.is_true(narrow.p_values.mu < 1e-3)
    assert.matches("NOT uniform", tostring(narrow))
    assert.is_true(calibrate(normal_mean(1.5), { 3 }, exact_normal(1.5), 1, { simulations = 200 }):passed())
  end)

  it("fails for a lost Jacobian", function()
    local function sampler_with(jacobian)
      local target = pn.model(function(m, y)
        local z = m:flat "z"
        local sigma = m:deterministic("sigma", z:exp())
        m:factor("prior", dist.half_normal(2):log_prob(sigma) + z * jacobian)
        m:plate("rows", y:size(1), function() m:observe("y", dist.student_t(5, 0, sigma), y) end)
      end)
      return function(observed, n)
        local p = pn.nuts(target, { data = { observed.y }, chains = 1, warmup = 200, draws = 3 * n })
        return { sigma = p.draws.sigma[1]:slice(1, 3, 3 * n, 3) }
      end
    end
    local lost = calibrate(scale, { 3 }, sampler_with(0), 2)
    assert.is_true(lost.p_values.sigma < 1e-3, tostring(lost))
    assert.matches("sigma .*posterior too low", tostring(lost))
    assert.is_true(calibrate(scale, { 3 }, sampler_with(1), 2):passed())
  end)

  it("sees a sampler that never looks at the data by the log likelihood alone", function()
    local blind = calibrate(rate, { 5 }, function(_, n) return { lambda = dist.gamma(3, 2):sample { n } } end, 3)
    assert.is_true(blind.p_values.lambda > 0.01)
    assert.is_true(blind.p_values.log_likelihood < 1e-6)
  end)

  it("gives the same ranks from the stored state of the generator", function()
    local one = calibrate(rate, { 5 }, exact_rate, 9)
    pn.rand { 3 }
    pn.set_rng_state(one.rng_state)
    local two = pn.sbc(rate, { data = { 5 }, sampler = exact_rate, simulations = SIMULATIONS, draws = 49 })
    assert.same(one.ranks.lambda:totable(), two.ranks.lambda:totable())
  end)

  it("makes as many simulations as it is told", function()
    for _, n in ipairs { 10, 215 } do
      pn.seed(2)
      local sbc = pn.sbc(rate, { data = { 5 }, sampler = exact_rate, simulations = n, draws = 3 })
      assert.same({ n }, sbc.ranks.lambda:shape())
      assert.is_true(sbc:passed())
    end
  end)

  it("ranks discrete variables with their ties, states of a scan, and quantities of one's own", function()
    pn.seed(4)
    local labels = pn.model(function(m)
      local z = m:sample("z", dist.categorical { 0.5, 0.3, 0.2 })
      local last = m:scan("t", 2, pn.tensor(0), function(carry, t)
        return m:sample("x", dist.normal(carry * 0.5 + t, 1))
      end)
      m:observe("y", dist.normal(z:to "float64" + last, 1))
    end)
    local sbc = pn.sbc(labels, { sampler = "importance", simulations = 100, draws = 19, options = {
      num_particles = 1500 },
      quantities = function(v) return { sum = v["x[1]"] + v["x[2]"] } end })
    assert.same({ "z", "x[1]", "x[2]", "log_likelihood", "sum" }, sbc.names)
    assert.is_true(sbc:passed(), tostring(sbc))
  end)

  it("takes parameters and data from a function where the model cannot draw them", function()
    local flat = pn.model(function(m, y)
      local mu = m:flat "mu"
      m:factor("prior", dist.normal(0, 1):log_prob(mu))
      m:plate("rows", y:size(1), function() m:observe("y", dist.normal(mu, 1), y) end)
    end)
    local function simulate()
      local mu = pn.randn {}
      return { mu = mu }, { mu + pn.randn { 4 } }
    end
    local sbc = calibrate(flat, nil, "nuts", 6, { simulate = simulate })
    assert.is_true(sbc:passed(), tostring(sbc))
    local off = calibrate(flat, nil, "nuts", 6, { simulate = function()
      local values, data = simulate()
      return values, { data[1] + 0.7 }
    end })
    assert.is_false(off:passed())
    assert.matches("mu .*posterior too high", tostring(off))
  end)

  it("says what it cannot do", function()
    local function refused(text, m, o)
      assert.matches(text, message_of(pn.sbc, m, o), 1, true)
    end
    refused("sbc: needs a model (pn.model), got nil")
    refused("sbc: unknown option 'simulation', did you mean 'simulations'?", rate, { simulation = 3 })
    refused("sbc: simulations must be a whole number from 10 on, got 3", rate, { simulations = 3 })
    refused("sbc: sampler must be a function or one of 'nuts', 'hmc', 'importance', 'svi', got stan", rate,
      { sampler = "stan" })
    refused("thin must be a whole number from 1 on, got 0", rate, { options = { thin = 0 } })
    refused("sbc: the sampler must give 99 draws of 'lambda', a tensor [99, ...], got nil", rate,
      { data = { 5 }, sampler = function() return {} end })
    refused("sbc: the model observes nothing", pn.model(function(m) m:sample("x", dist.normal(0, 1)) end))
    refused("sbc: 'x' has no prior from which it could be drawn (give simulate, a function that draws)",
      pn.model(function(m) m:observe("y", dist.normal(m:flat "x", 1)) end))
    refused("'x' is restricted to a set by its constraint", pn.model(function(m)
      m:observe("y", dist.normal(m:sample("x", dist.normal(0, 1), { constraint = "positive" }), 1))
    end))
    refused("factor 'f' changes the joint law", pn.model(function(m)
      m:observe("y", dist.normal(m:sample("x", dist.normal(0, 1)), 1))
      m:factor("f", 1)
    end))
    local sbc = calibrate(rate, { 5 }, exact_rate, 9, { simulations = 10 })
    assert.matches("plot: there is no quantity 'lamda', did you mean 'lambda'?",
      message_of(sbc.plot, sbc, "x.svg", { "lamda" }), 1, true)
    assert.matches("passed: level must lie between 0 and 1", message_of(sbc.passed, sbc, 2), 1, true)
    -- a line for the names, each quantity and the whole, and one more where draws tell of too little
    local function lines_of(ess)
      local list = {}
      sbc.ess = ess
      for line in tostring(sbc):gmatch "[^\n]+" do list[#list + 1] = line:match "^%S+" end
      return list
    end
    assert.same({ "quantity", "lambda", "log_likelihood", "10" }, lines_of(49))
    assert.same({ "quantity", "lambda", "log_likelihood", "10", "warning:" }, lines_of(48))
  end)
end)

describe("a guide", function()
  it("of independent normals has sqrt(1 - rho^2) of the standard deviations of a correlated normal", function()
    for _, rho in ipairs { 0.5, 0.9, 0.99 } do
      pn.seed(7)
      local m = pn.model(function(s)
        s:sample("x", dist.multivariate_normal { loc = pn.zeros { 2 }, covariance_matrix = pn.tensor { { 1, rho },
          { rho, 1 } } })
      end)
      local fit = pn.svi(m, "mean_field", { steps = 4000, draws = 4 })
      local sd = fit:sample(40000).x:std(1):totable()
      for _, v in ipairs(sd) do
        -- 6 standard errors of 40,000 draws, and what is left of the last steps
        assert.is_true(math.abs(v / math.sqrt(1 - rho * rho) - 1) < 0.03, ("rho %g: %g"):format(rho, v))
      end
      local exact = pn.svi(m, "full_rank", { steps = 4000, draws = 4 }):sample(40000).x:std(1):totable()
      assert.is_true(math.abs(exact[1] - 1) < 0.05 and math.abs(exact[2] - 1) < 0.05)
    end
  end)

  -- correlated columns: w[1] + w[2] is well known, w[1] - w[2] is not
  local function correlated()
    pn.seed(8)
    local common = pn.randn { 20 }
    return pn.stack({ common + pn.randn { 20 } * 0.3, common + pn.randn { 20 } * 0.3 }, 2)
  end
  local line = pn.model(function(m, x)
    local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
    m:plate("rows", x:size(1), function() m:observe("y", dist.normal(x:matmul(w), 1)) end)
  end)

  it("that is too narrow fails calibration, and is not biased", function()
    local x = correlated()
    local sbc = calibrate(line, { x }, "svi", 21, { options = { guide = "mean_field", steps = 1000, lr = 0.02 } })
    assert.is_false(sbc:passed())
    assert.matches("w%[1%] .*posterior too narrow", tostring(sbc))
    pn.seed(22)
    local v = pn.vsbc(line, "mean_field", { data = { x }, simulations = SIMULATIONS,
      options = { steps = 1000, lr = 0.02 } })
    assert.same({ "w[1]", "w[2]" }, v.names)
    assert.is_true(v.p_values["w[1]"] > 0.01 and v.p_values["w[2]"] > 0.01, tostring(v))
    local full = calibrate(line, { x }, "svi", 21, { options = { guide = "full_rank", steps = 1000, lr = 0.02 } })
    assert.is_true(full:passed(), tostring(full))
  end)

  it("that lies beside the posterior is found by asymmetry", function()
    pn.seed(23)
    local m = pn.model(function(r, y)
      local mu = r:sample("mu", dist.normal(0, 1))
      r:plate("rows", y:size(1), function() r:observe("y", dist.normal(mu, 1), y) end)
    end)
    local v = pn.vsbc(m, "mean_field", { simulations = 60, draws = 200, options = { steps = 300, lr = 0.03 },
      simulate = function()
        local mu = pn.randn {}
        return { mu = mu }, { mu + pn.randn { 4 } - 0.6 }
      end })
    assert.is_true(v.p_values.mu < 0.01 and v.means.mu > 0.5, tostring(v))
    assert.matches("guide too low", tostring(v))
    assert.matches("^quantity [^\n]+\nmu [^\n]+\n60 simulations [^\n]+$", tostring(v))
    assert.matches("vsbc: guide must be", message_of(pn.vsbc, m, 3), 1, true)
  end)
end)

describe("scores of draws", function()
  local metrics = pn.metrics

  it("are the sums over pairs", function()
    local y, draws = pn.tensor { 2, -1 }, pn.tensor { { 0, 1 }, { 1, -3 }, { 3, 0.5 } }
    -- first datum: mean |x - y| = (2 + 1 + 1) / 3, pairs |0 - 1| + |0 - 3| + |1 - 3| = 6
    local fair, plain = metrics.crps(y, draws):totable(), metrics.crps(y, draws, { fair = false }):totable()
    assert.is_true(math.abs(fair[1] - (4 / 3 - 6 / 6)) < 1e-12)
    assert.is_true(math.abs(plain[1] - (4 / 3 - 6 / 9)) < 1e-12)
    -- second: mean (2 + 2 + 1.5) / 3, pairs 4 + 0.5 + 3.5 = 8
    assert.is_true(math.abs(fair[2] - (5.5 / 3 - 8 / 6)) < 1e-12)
    local wide = metrics.energy_score(y:unsqueeze(2), draws:unsqueeze(3)):totable()
    assert.is_true(math.abs(wide[1] - fair[1]) < 1e-12 and math.abs(wide[2] - fair[2]) < 1e-12)
    local plane = metrics.energy_score(pn.tensor { { 0, 0 } }, pn.tensor { { { 3, 4 } }, { { 0, 0 } } }):item()
    assert.is_true(math.abs(plane - (2.5 - 5 / 2)) < 1e-12)
  end)

  it("have the expectation of the closed form, with few draws when fair", function()
    pn.seed(31)
    local n, y = 20000, 0.7
    -- Gneiting & Raftery 2007: of a standard normal, y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt(pi)
    local cdf = dist.normal(0, 1):cdf(y):item()
    local exact = y * (2 * cdf - 1) + 2 * math.exp(-y * y / 2) / math.sqrt(2 * math.pi) - 1 / math.sqrt(math.pi)
    local scores = metrics.crps(pn.full({ n }, y), pn.randn { 4, n })
    local se = scores:std():item() / math.sqrt(n)
    assert.is_true(math.abs(scores:mean():item() - exact) < 6 * se and se < 0.005)
    local plain = metrics.crps(pn.full({ n }, y), pn.randn { 4, n }, { fair = false }):mean():item()
    assert.is_true(plain - exact > 20 * se)
  end)

  it("replay as they are", function()
    pn.seed(36)
    local y, draws = pn.randn { 5, 2 }, pn.randn { 6, 5, 2 }
    for _, f in ipairs { metrics.crps, metrics.energy_score } do
      local compiled = pn.compile(function(v, d) return f(v, d) end)
      compiled(y, draws)
      assert.same(f(y + 1, draws):totable(), compiled(y + 1, draws):totable())
    end
    local law = pn.compile(function(v, d) return metrics.pit(v, d) end)
    law(y, draws)
    assert.is_true((law(y, draws) - law(y, draws)):abs():max():item() > 0) -- drawn anew
  end)

  it("transform discrete and continuous observations to uniform ones, with few draws too", function()
    pn.seed(32)
    for _, d in ipairs { dist.normal(2, 3), dist.poisson(1.5) } do
      local c = pn.calibration(d:sample { 3000 }, d:sample { 9, 3000 })
      assert.is_true(c.p_value > 0.001)
      assert.is_true(math.abs(c.pit:mean():item() - 0.5) < 6 * math.sqrt(1 / 12 / 3000))
    end
  end)

  it("refuse what does not belong together", function()
    local y, draws = pn.zeros { 3 }, pn.zeros { 5, 3 }
    assert.matches("crps: draws must be at least 2 draws shaped like y, [S, ...], got [5, 3] for y [2]",
      message_of(metrics.crps, pn.zeros { 2 }, draws), 1, true)
    assert.matches("energy_score: y must have shape [N, D], got [3]", message_of(metrics.energy_score, y, draws), 1,
      true)
    assert.matches("pit: y must be a tensor", message_of(metrics.pit, 1, draws), 1, true)
    assert.matches("calibration: levels must lie between 0 and 1, got 90",
      message_of(pn.calibration, y, draws, { levels = { 90 } }), 1, true)
  end)
end)

describe("predictions", function()
  it("cover what they say if right, less if too narrow", function()
    pn.seed(33)
    local n, y = 4000, pn.randn { 4000 }
    local right, narrow = pn.calibration(y, pn.randn { 400, n }), pn.calibration(y, pn.randn { 400, n } * 0.7)
    for _, level in ipairs { 0.5, 0.8, 0.9, 0.95 } do
      local se = math.sqrt(level * (1 - level) / n)
      assert.is_true(math.abs(right.coverage[level] - level) < 6 * se + 2 / 400)
      local z = dist.normal(0, 1):icdf((1 + level) / 2):item()
      local short = 2 * dist.normal(0, 1):cdf(0.7 * z):item() - 1
      assert.is_true(math.abs(narrow.coverage[level] - short) < 6 * se + 2 / 400)
    end
    assert.is_true(right.p_value > 0.001 and narrow.p_value < 1e-6)
    assert.is_true(math.abs(right[3].width - 2 * 1.6449) < 0.05)
    assert.is_true(right.crps < narrow.crps)
    assert.matches("4000 observations, 400 draws: CRPS", tostring(right))
  end)
end)

describe("a posterior predictive check", function()
  local m = pn.model(function(r, y)
    local mu = r:sample("mu", dist.normal(0, 10))
    r:plate("rows", y:size(1), function() r:observe("y", dist.normal(mu, 1), y) end)
  end)

  it("tells data that the model cannot make from data that it can", function()
    pn.seed(34)
    local y = pn.randn { 50 }
    local bad = pn.concatenate({ y, pn.tensor { 9 } }, 1)
    local p = pn.nuts(m, { data = { y }, chains = 2, warmup = 200, draws = 300 })
    local check = p:check()
    assert.same({ "mean", "sd", "min", "max" }, { check[1].name, check[2].name, check[3].name, check[4].name })
    assert.is_true(math.abs(check.mean.observed - y:mean():item()) < 1e-12)
    assert.is_true(math.abs(check.mean.p_value - 0.5) < 0.2)
    for _, row in ipairs(check) do
      assert.is_true(row.p_value > 0.005 and row.p_value < 0.995)
      assert.equal(600, #row.replicated)
    end
    p = pn.nuts(m, { data = { bad }, chains = 2, warmup = 200, draws = 300 })
    check = p:check { statistic = function(v) return v:max() end, draws = 200 }
    assert.equal(200, #check.statistic.replicated)
    assert.is_true(check[1].p_value < 0.005)
    local fit = pn.svi(m, "mean_field", { data = { bad }, steps = 500 })
    check = fit:check { statistic = { top = pn.max, above = function(v) return v:gt(3):sum() end } }
    assert.is_true(check.top.p_value < 0.005 and check.above.p_value < 0.1)
    assert.matches("statistic +observed +replicated", tostring(check))
  end)

  it("refuses what is no number of a site", function()
    pn.seed(35)
    local p = pn.nuts(m, { data = { pn.randn { 5 } }, chains = 1, warmup = 100, draws = 20 })
    assert.matches("check: the model observes no 'x'", message_of(p.check, p, { site = "x" }), 1, true)
    assert.matches("check: statistic 'statistic' must give one number, got a tensor of shape [5]",
      message_of(p.check, p, { statistic = function(y) return y end }), 1, true)
    assert.matches("check: statistic must be", message_of(p.check, p, { statistic = { 3 } }), 1, true)
  end)
end)

describe("pictures of calibration", function()
  it("are drawn", function()
    local y = pn.randn { 40 }
    local m = cases[1][2]
    local p = pn.nuts(m:condition { y = pn.randn { 6 } }, { data = { 6 }, chains = 1, warmup = 100, draws = 50 })
    local pictures = {
      calibrate(rate, { 5 }, exact_rate, 9, { simulations = 30 }),
      pn.vsbc(m, "mean_field", { data = { 6 }, simulations = 10, options = { steps = 20 } }),
      pn.calibration(y, pn.randn { 50, 40 }), p:check(),
    }
    for _, picture in ipairs(pictures) do
      local name = os.tmpname()
      local path = name .. ".svg"
      assert.equal(path, picture:plot(path))
      local file = assert(io.open(path))
      assert.matches("</svg>", file:read "a")
      file:close()
      os.remove(name)
      os.remove(path)
    end
  end)
end)
