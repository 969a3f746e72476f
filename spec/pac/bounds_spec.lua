-- Bounds by name. Formulas against mpmath (spec/golden/pac/bounds.py), the constants by the exact sums that the proofs
-- need, the calls by coverage: enumerated for one hypothesis, simulated for the worst posterior of a class.
local pn = require "penumbra"
local pac = pn.pac
local rows = require "penumbra.pac.bound_rows"
local of_risk = {}
for _, name in ipairs(pac.names()) do of_risk[#of_risk + 1] = not rows[name].own and name or nil end
local golden = dofile "spec/golden/pac/bounds.lua"

-- what the golden names with a word after the bound's stands for
local given = { ["maurer exact"] = { constant = "exact" }, ["lambda 0.7"] = { lambda = 0.7 },
  ["catoni 1.3"] = { lambda = 1.3 }, ["catoni grid"] = { lambda = { 0.5, 1, 2 } },
  ["germain 1.5"] = { log_constant = 1.5 }, ["empirical_bernstein 0.01"] = { variance = 0.01 },
  finite_class = { count = 10 } }

local function value(name, case)
  local o = { risk = case.risk, n = case.n, delta = case.delta }
  local row = name:match "^%S+"
  if row ~= "hoeffding" and row ~= "finite_class" then o.kl = case.kl end
  for key, v in pairs(given[name] or {}) do o[key] = v end
  return pac.bound(row, o)
end

-- [0 .. n] / n, and the logarithm of the binomial masses at risk p
local function binomial(n, p)
  local k = pn.arange(n + 1):to "float64"
  local log_choose = pn.tensor(n + 1.0):lgamma() - (k + 1):lgamma() - (n + 1 - k):lgamma()
  return k / n, log_choose + k * math.log(p) + (n - k) * math.log(1 - p)
end

-- log E e^(times exponent(k / n, p))
local function log_moment(row, n, p, o, times)
  local q, mass = binomial(n, p)
  return (mass + row.exponent(q, pn.full({ n + 1 }, p), n, o or {}) * (times or 1)):logsumexp(1):item()
end

local risks = { 1e-4, 0.003, 0.03, 0.1, 0.25, 0.5, 0.75, 0.97, 0.9999 }

describe("bounds", function()
  it("are what their formulas say", function()
    local seen = {}
    for _, case in ipairs(golden.values) do
      for name, want in pairs(case) do
        if name ~= "risk" and name ~= "kl" and name ~= "n" and name ~= "delta" then
          local got = value(name, case):item()
          assert(math.abs(got - want) <= 1e-12 * want, ("%s n %d: %.17g, want %.17g"):format(name, case.n, got, want))
          seen[name:match "^%S+"] = true
        end
      end
    end
    for _, name in ipairs(of_risk) do assert(seen[name], name .. " has no golden value") end
  end)

  it("have the document's values", function()
    local function near(want, name, o, minus)
      assert.near(want, pac.bound(name, o):item() - (minus or 0), 1e-11)
    end
    near(0.135810151574, "hoeffding", { risk = 0, n = 100, delta = 0.05 })
    near(0.17308183826, "finite_class", { risk = 0, n = 100, delta = 0.05, count = 10 })
    near(0.393488475627, "pinsker", { risk = 0, n = 20, delta = 0.05, kl = 1.00658162717 })
    near(0.414923920696, "pinsker", { risk = 0, n = 20, delta = 0.025, kl = 1.00658162717 })
    near(0.220078601107, "maurer",
      { risk = 0.1, n = 100, delta = 2 * math.sqrt(100) * math.exp(-5), kl = 0 })
  end)

  it("rest on moments that hold, and would not with twice the exponent", function()
    local twice = {}
    for name, row in pairs(rows) do
      for _, n in ipairs(row.exponent and { math.max(row.least, 2), 8, 20, 100, 1000 } or {}) do
        local list = name == "catoni" and { 0.01, 0.3, 1, 3, 8 } or name == "lambda" and { 0.05, 0.5, 1, 1.9 }
          or name == "empirical_bernstein" and { 0.01 * n, 0.3 * n, n } or { false }
        for _, p in ipairs(risks) do
          for _, l in ipairs(list) do
            local o = { lambda = l or nil }
            local allowed = row.log_moment(n, o)
            local exact = log_moment(row, n, p, o)
            assert(exact <= allowed + 1e-10, ("%s n %d p %g: %.15g is above %.15g"):format(name, n, p, exact, allowed))
            twice[name] = twice[name] or log_moment(row, n, p, o, 2) > allowed + 1e-6
          end
        end
      end
    end
    for name, row in pairs(rows) do
      assert(not row.exponent or name == "germain" or twice[name], name .. " has an exponent that could be doubled")
    end
  end)

  -- With log(1 / delta) = 1 and the ratio 1.15: (1 + 50^(1/2)) / 2 = 4.0355 is below 1.15^10 = 4.0456, which it would
  -- not be with one datum more; ((e - 2) 50 / 4)^(1/2) = 2.996 lies between 1.15^7 = 2.660 and 1.15^8 = 3.059.
  it("of the variance have grids of so many points", function()
    local o = { ratio = 1.15, variance_ratio = 1.15 }
    assert.same({ 9, 10 }, { rows.empirical_bernstein.counts(50, math.exp(-1), o) })
    assert.same({ 9, 11 }, { rows.empirical_bernstein.counts(51, math.exp(-1), o) })
    assert.same({ 2, 1 }, { rows.empirical_bernstein.counts(2, 0.9, { ratio = 100, variance_ratio = 100 }) })
  end)

  it("of the variance rest on theirs", function()
    local twice = false
    for _, n in ipairs { 2, 8, 100, 1000 } do
      for _, p in ipairs(risks) do
        local q, mass = binomial(n, p)
        local v = q * (1 - q) * (n / (n - 1))
        for _, l in ipairs { 0.01, 0.3, 1, 2 * (n - 1) / n } do
          local e = rows.empirical_bernstein.variance_exponent(v, p, n, { lambda = l })
          assert((mass + e):logsumexp(1):item() <= 1e-10)
          -- without the quadratic term nothing would hold it
          twice = twice or (mass + e + p * (1 - p) * (l ^ 2 * n ^ 2 / (4 * (n - 1)))):logsumexp(1):item() > 1e-6
        end
      end
    end
    assert(twice)
  end)

  it("have constants with the exact slack", function()
    for _, case in ipairs(golden.slack) do
      for name, want in pairs(case) do
        if type(want) == "table" then
          local exact = log_moment(rows[name], case.n, case.p)
          assert.near(math.log(want[2]), exact, 1e-11)
          assert.near(want[1], rows[name].log_moment(case.n, {}) - exact, 1e-11)
        end
      end
      -- the exact constant leaves none, whatever the risk
      local moment = log_moment(rows.maurer, case.n, case.p)
      assert.near(moment, rows.maurer.log_moment(case.n, { constant = "exact" }), 1e-12)
    end
    assert.near(13.2100, math.exp(rows.maurer.log_moment(100, { constant = "exact" })), 5e-5)
    assert.near(40.3032, math.exp(rows.maurer.log_moment(1000, { constant = "exact" })), 5e-5)
    -- half of 2 sqrt n would be below what it must not be below
    for _, n in ipairs { 8, 100, 1000 } do
      assert(rows.maurer.log_moment(n, {}) - math.log(2) < rows.maurer.log_moment(n, { constant = "exact" }))
    end
    -- Catoni's moment is exactly 1
    for _, l in ipairs { 0.01, 1, 5 } do
      assert.near(0, log_moment(rows.catoni, 300, 0.1, { lambda = l }), 1e-10)
    end
  end)

  it("are the largest risk that the exponent allows", function()
    for name, row in pairs(rows) do
      if row.value then
        for _, c in ipairs { 0.5, 3, 20 } do
          local o = { lambda = name == "catoni" and 1 or name == "lambda" and 0.7 or nil }
          local q = pn.tensor { 0.01, 0.2, 0.6 }
          local p = row.value(q, pn.tensor(c), 100, o)
          local legal = p:lt(1)
          local gap = (row.exponent(q, p, 100, o) - c) / c
          assert(pn.where(legal, gap, 0):abs():max():item() < 1e-10, name)
          assert(legal:any():item())
        end
      end
    end
  end)

  it("stand in their order", function()
    for _, n in ipairs { 8, 50, 1000, 60000 } do
      for _, kl in ipairs { 0, 1, 30, 1000 } do
        for _, delta in ipairs { 0.001, 0.05, 0.5 } do
          local o = { risk = pn.tensor { 0, 0.001, 0.02, 0.2, 0.5, 0.9 }, n = n, kl = kl, delta = delta }
          local v = {}
          for _, name in ipairs { "seeger", "maurer", "pinsker", "mcallester", "quadratic", "lambda" } do
            v[name] = pac.bound(name, o)
          end
          local function below(a, b)
            assert((v[a] - v[b]):max():item() <= 1e-13, a .. " above " .. b)
          end
          below("maurer", "seeger")
          below("maurer", "pinsker")
          below("pinsker", "mcallester")
          below("maurer", "quadratic")
          assert((v.quadratic / v.lambda - 1):abs():max():item() < 1e-12) -- the best lambda is the quadratic bound
          local exact = pac.bound("maurer", { risk = o.risk, n = n, kl = kl, delta = delta, constant = "exact" })
          assert((exact - v.maurer):max():item() <= 1e-13)
          for _, l in ipairs { 0.1, 0.5, 1, 1.5 } do
            local fixed = pac.bound("lambda", { risk = o.risk, n = n, kl = kl, delta = delta, lambda = l })
            assert((v.lambda - fixed):max():item() <= 1e-12)
          end
        end
      end
    end
  end)

  it("cover one hypothesis as often as they say: every outcome enumerated", function()
    for _, name in ipairs(of_risk) do
      for _, n in ipairs { 8, 40, 200 } do
        for _, delta in ipairs { 0.3, 0.05 } do
          local o = { risk = (pn.arange(n + 1):to "float64") / n, n = n, delta = delta }
          if name ~= "hoeffding" and name ~= "finite_class" then o.kl = 0 end
          if name == "finite_class" then o.count = 1 end
          local value_of = pac.bound(name, o)
          for _, p in ipairs(risks) do
            local _, mass = binomial(n, p)
            local missed = pn.where(value_of:lt(p), mass:exp(), 0):sum():item()
            assert(missed <= delta, ("%s n %d: misses %.4f at risk %g"):format(name, n, missed, p))
          end
        end
      end
      -- of draws the same, and nearly all of delta is spent somewhere
    end
    local spent = 0
    for _, draws in ipairs { 1, 10, 100 } do
      local seen = (pn.arange(draws + 1):to "float64") / draws
      local value_of = pac.draws_bound { risk = seen, draws = draws, delta = 0.1 }
      for k = 1, 199 do
        local _, mass = binomial(draws, k / 200)
        local missed = pn.where(value_of:lt(k / 200), mass:exp(), 0):sum():item()
        assert(missed <= 0.1)
        spent = math.max(spent, missed)
      end
    end
    assert(spent > 0.04, spent)
  end)

  it("cover the worst posterior of a class in 2,000 simulated sets", function()
    local sets, count, n, delta = 2000, 30, 100, 0.1
    local risk = pn.linspace(0.02, 0.6, count)
    local seen = pn.dist.binomial { total_count = n, probs = risk }:sample({ sets }, pn.generator(28)) / n
    for _, name in ipairs(of_risk) do
      local o = { risk = seen, n = n, delta = delta }
      if name == "finite_class" then o.count = count elseif name ~= "hoeffding" then o.kl = math.log(count) end
      -- of hoeffding one hypothesis, of the others the one that misses most
      local missed = pac.bound(name, o):lt(risk)
      missed = name == "hoeffding" and missed:select(2, 7) or missed:any(2)
      local share = missed:to("float64"):mean():item()
      assert(share <= delta + 6 * math.sqrt(delta * (1 - delta) / sets), ("%s misses %.4f"):format(name, share))
      -- posteriors in between: e^(-b n r), whose divergence is known
      if o.kl then
        for _, b in ipairs { 0.05, 1 } do
          local log_q = (seen * (-b * n)):log_softmax(-1)
          local q = log_q:exp()
          local kl = (q * (log_q + math.log(count))):sum(-1)
          o.risk, o.kl = (q * seen):sum(-1):clamp(0, 1), kl:relu()
          assert(pac.bound(name, o):lt((q * risk):sum(-1)):to("float64"):mean():item() <= delta)
        end
      end
    end
  end)

  it("of sequences are those of theorem 1, with 2 sqrt N and 4 sqrt N in their places", function()
    local n, s, delta, kl = 20, 10, 0.05, 1.00658162717
    local ll = pn.randn({ s, n }, { generator = pn.generator(2) }) * 0.7 - 3
    local o = { log_likelihood = ll, kl = kl, delta = delta, log_peak = 0.5 }
    local v = {}
    for name, row in pairs(rows) do
      if name:find "^path_" then v[name] = pac.bound(name, o):item() end
      assert(row.own or not name:find "^path_")
    end
    local log_mean, mean_log, risk = 0, 0, 0 -- by plain sums
    for k = 1, n do
      local total = 0
      for d = 1, s do
        local l = ll[d][k]:item()
        total, mean_log = total + math.exp(l) / s, mean_log - l / (s * n)
      end
      log_mean, risk = log_mean - math.log(total) / n, risk + (1 - total / math.exp(0.5)) / n
    end
    assert.near(0.393488475627, v.path_risk - risk, 1e-11)
    assert.near(0.414923920696 + 0.578126790923, v.path_drawn - risk, 2e-12)
    assert.near(0.414923920696 + 0.578126790923 + 0.5, v.path_log_mean - log_mean, 2e-12)
    assert.near(0.414923920696 + 0.578126790923 + 0.5, v.path_mean_log - mean_log, 2e-12)
    assert(v.path_risk < v.path_drawn and v.path_drawn < v.path_log_mean and v.path_log_mean < v.path_mean_log)
    -- one draw: (6.14) is (6.15); and what each draw's Hoeffding then costs
    o.log_likelihood = ll:slice(1, 1, 1)
    assert.near(pac.bound("path_log_mean", o):item(), pac.bound("path_mean_log", o):item(), 1e-12)
    assert.near(math.sqrt(math.log(2 * n / delta) / 2) - 0.578126790923,
      pac.bound("path_drawn", o):item() - pac.bound("path_risk", o):item() - (0.414923920696 - 0.393488475627)
        - 0.578126790923, 1e-10)
    -- a grid of hypotheses shares delta
    o.count = 4
    local part = pac.bound("path_risk", o):item()
    o.count, o.delta = nil, delta / 4
    assert.near(part, pac.bound("path_risk", o):item(), 1e-15)
    for _, case in ipairs { { "log_peak", -9, "above log_peak" }, { "kl", -1, "kl must not be negative" },
        { "delta", 2, "delta must lie strictly" }, { "count", 0, "count must be a whole number from 1 on" },
        { "log_likelihood", pn.zeros(3), "log_likelihood must be [S, N]" },
        { "log_likelihood", pn.zeros(2, 7) - 9, "the number of sequences must be a whole number from 8 on, got 7" } } do
      local wrong = { log_likelihood = ll, kl = kl, delta = delta, log_peak = 0.5, [case[1]] = case[2] }
      local ok, message = pcall(pac.bound, "path_risk", wrong)
      assert(not ok and tostring(message):find(case[3], 1, true), tostring(message))
    end
    local kl_param = pn.param(pn.tensor(kl))
    assert(pn.check_gradients(function()
      return pac.bound("path_log_mean", { log_likelihood = ll, kl = kl_param, delta = delta, log_peak = 0.5 })
    end, { kl_param }))
  end)

  it("of sequences cover the risk in simulated sets", function()
    -- y ~ normal(theta, 1), Q = normal(m, s^2), P = normal(0, 1); truth: y ~ normal(0.3, 1): E p in closed form
    local g, n, s, delta, sets, missed = pn.generator(30), 40, 30, 0.2, 300, 0
    local peak, m, sd = -0.5 * math.log(2 * math.pi), 0.2, 0.3
    local kl = 0.5 * (sd ^ 2 + m ^ 2 - 1) - math.log(sd)
    local risk = 1 - math.exp(pn.dist.normal(m, math.sqrt(2 + sd ^ 2)):log_prob(0.3):item() - peak)
    for _ = 1, sets do
      local y = pn.randn({ n }, { generator = g }) + 0.3
      local theta = pn.randn({ s, n }, { generator = g }) * sd + m
      local ll = pn.dist.normal(theta, 1):log_prob(y:unsqueeze(1):broadcast_to { s, n })
      missed = missed + (pac.bound("path_drawn", { log_likelihood = ll, kl = kl, delta = delta,
        log_peak = peak }):item() < risk and 1 or 0)
    end
    assert(missed / sets <= delta)
  end)

  it("pass gradients to risk and divergence", function()
    local risk, kl = pn.param(pn.tensor { 0.05, 0.3 }), pn.param(pn.tensor { 20.0, 3 })
    for _, name in ipairs(of_risk) do
      local o = { risk = risk, n = 400, delta = 0.05 }
      if name == "finite_class" then o.count = 3 elseif name ~= "hoeffding" then o.kl = kl end
      assert(pn.check_gradients(function() return pac.bound(name, o) end, o.kl and { risk, kl } or { risk }))
    end
    local tenth = pn.tensor({ 0.1 }, { dtype = "float32" })
    local single = pac.bound("maurer", { risk = tenth, kl = 3, n = 100, delta = 0.1 })
    assert.equal("float32", single:dtype())
    local double = pac.bound("maurer", { risk = tenth:to "float64", kl = 3, n = 100, delta = 0.1 })
    assert.near(double:item(), single:item(), 3e-7)
  end)

  it("say what they are", function()
    for _, row in ipairs(pac.describe()) do
      local text = tostring(row)
      for _, part in ipairs { row.name, row.formula, row.source, row.holds, "1 - delta" } do
        assert(text:find(part, 1, true), text)
      end
    end
    assert.equal("Maurer 2004, theorem 5", pac.describe("maurer").source)
    assert.same({ "risk", "n", "delta", "kl" }, pac.describe("maurer").needs)
  end)

  it("refuse what would make the number void", function()
    local function refused(message, name, o)
      local ok, got = pcall(pac.bound, name, o)
      assert(not ok and tostring(got):find(message, 1, true), tostring(got))
    end
    local o = { risk = 0.1, n = 100, delta = 0.05, kl = 1 }
    local function with(key, v)
      local all = { [key] = v }
      for k, x in pairs(o) do all[k] = k == key and v or x end
      return all
    end
    refused("there is no bound 'maurr', did you mean 'maurer'?", "maurr", o)
    refused("risk must lie in 0 to 1", "maurer", with("risk", 1.5))
    refused("risk must lie in 0 to 1", "maurer", with("risk", 0 / 0))
    refused("kl must not be negative", "maurer", with("kl", -1))
    refused("kl must not be negative", "maurer", with("kl", 0 / 0))
    refused("delta must lie strictly between 0 and 1, got 0", "maurer", with("delta", 0.0))
    refused("n must be a whole number from 8 on, got 7", "maurer", with("n", 7))
    refused("n must be a whole number", "maurer", with("n", 10.5))
    refused("unknown option 'count'", "maurer", with("count", 3))
    refused("constant must be one of", "maurer", with("constant", "half"))
    refused("lambda must lie between 0 and 2", "lambda", with("lambda", 2))
    refused("lambda must lie between 0 and 700", "catoni", with("lambda", { 1, -1 }))
    refused("lambda must be a number or a list", "catoni", with("lambda", {}))
    refused("ratio must be above 1", "empirical_bernstein", with("ratio", 1))
    refused("option 'count' is required", "finite_class", { risk = 0.1, n = 10, delta = 0.1 })
    local ok, message = pcall(pac.draws_bound, { risk = 0.1, draws = 0, delta = 0.1 })
    assert(not ok and tostring(message):find("draws must be a whole number from 1 on", 1, true))
  end)

  it("say what they need, in the order of the alphabet", function()
    local names = pac.names()
    for k = 2, #names do assert(names[k - 1] < names[k]) end
    local all = pac.describe()
    assert.equal(#names, #all)
    for k, name in ipairs(names) do assert.equal(name, all[k].name) end
    for name, want in pairs { hoeffding = { { "risk", "n", "delta" }, {}, 1 },
      finite_class = { { "risk", "n", "delta", "count" }, {}, 1 }, lambda = { { "risk", "n", "delta", "kl" },
        { "constant", "lambda" }, 8 }, draws = { { "delta", "risk", "draws" }, {}, 1 },
      empirical_bernstein = { { "risk", "n", "delta", "kl" }, { "ratio", "variance", "variance_ratio" }, 2 },
      majority_vote = { { "delta", "kl", "disagreement" }, {}, 1 }, path_risk = { { "delta", "kl",
        "log_likelihood [S, N]", "log_peak" }, { "count" }, 8 } } do
      local row = pac.describe(name)
      assert.same(want, { row.needs, row.options, row.least })
    end
    assert(tostring(pac.describe "lambda"):find("  needs   risk, n, delta, kl; n >= 8\n", 1, true))
    assert.error_matches(function() pac.describe(3) end, "describe: name must be a string", 1, true)
    assert.error_matches(function() pac.describe "maurr" end, "describe: there is no bound 'maurr'", 1, true)
  end)

  -- Each at its end and beyond it.
  it("take numbers up to the ends of their ranges, and none beyond", function()
    local function refused(text, name, o)
      for key, v in pairs { risk = 0.1, n = 100, delta = 0.05 } do o[key] = o[key] or v end
      if name ~= "finite_class" then o.kl = o.kl or 1 end
      local ok, message = pcall(pac.bound, name, o)
      assert(not ok and message:find(text, 1, true), tostring(message))
    end
    for _, risk in ipairs { 0, 1 } do
      assert(pac.bound("maurer", { risk = risk, n = 8, delta = 0.5, kl = 0 }):item() >= risk)
      local by_draws = pac.draws_bound { risk = risk, draws = 1, delta = 0.5 }:item()
      assert.near(risk == 1 and 1 or 0.5, by_draws, 1e-12)
    end
    refused("bound: risk must lie in 0 to 1: a bound holds for losses in [0, 1] only", "maurer", { risk = -0.01 })
    for _, v in ipairs { 1.0, math.huge } do
      for _, name in ipairs { "ratio", "variance_ratio" } do
        refused(("bound: %s must be above 1, got %s"):format(name, v), "empirical_bernstein", { [name] = v })
      end
    end
    refused("bound: delta must lie strictly between 0 and 1, got 1", "maurer", { delta = 1 })
    refused("bound: count must be a whole number from 1 on, got 0", "finite_class", { count = 0 })
    refused("bound: lambda must lie between 0 and 2, got 0", "lambda", { lambda = 0.0 })
    refused("bound: lambda must lie between 0 and 2, got x", "lambda", { lambda = "x" })
    refused("bound: lambda must lie between 0 and 700, got 700", "catoni", { lambda = 700 })
    refused("bound: lambda must be a table", "catoni", { lambda = "x" })
    refused("bound: log_constant must be a number, got string", "germain", { log_constant = "x" })
    for _, risk in ipairs { -0.1, 1.1, 0 / 0 } do
      assert.error_matches(function() pac.draws_bound { risk = pn.tensor(risk), draws = 3, delta = 0.1 } end,
        "draws_bound: risk must lie in 0 to 1", 1, true)
    end
    for _, delta in ipairs { 0.0, 1.0 } do
      assert.error_matches(function() pac.draws_bound { risk = 0.1, draws = 3, delta = delta } end,
        "draws_bound: delta must lie strictly between 0 and 1", 1, true)
    end
    -- several risks at once, in the type that they have
    local three = pac.draws_bound { risk = pn.tensor({ 0, 0.2, 1 }, { dtype = "float32" }), draws = 4, delta = 0.1 }
    assert.equal("float32", three:dtype())
    assert.near(pac.draws_bound { risk = 0.2, draws = 4, delta = 0.1 }:item(), three[2]:item(), 1e-6)
    -- a list of lambdas is paid for by its length; one number is a list of one
    local function catoni(lambda, delta)
      return pac.bound("catoni", { risk = 0.1, n = 100, delta = delta, kl = 2, lambda = lambda }):item()
    end
    assert.equal(catoni({ 0.7 }, 0.05), catoni(0.7, 0.05))
    assert.near(math.min(catoni(0.5, 0.02), catoni(2, 0.02)), catoni({ 0.5, 2 }, 0.04), 1e-15)
    -- a log-likelihood may stand at its peak
    local at = { log_likelihood = pn.full({ 2, 8 }, 0.5), kl = 0, delta = 0.1, log_peak = 0.5 }
    assert.near(math.sqrt(math.log(2 * 8 ^ 0.5 / 0.1) / 16), pac.bound("path_risk", at):item(), 1e-12)
    for _, delta in ipairs { 0.0, 1.0 } do
      at.delta = delta
      assert.error_matches(function() pac.bound("path_risk", at) end, "delta must lie strictly between 0 and 1", 1,
        true)
    end
    at.delta, at.log_likelihood = 0.1, pn.zeros { 0, 8 }
    assert.error_matches(function() pac.bound("path_risk", at) end, "log_likelihood must be [S, N]", 1, true)
  end)
end)
