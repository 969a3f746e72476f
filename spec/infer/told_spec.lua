-- What inference says of itself: data that are NaN, chains that never moved, bounds that fell, observations whose
-- weights have too heavy a tail, and no alarm where nothing is wrong.
local pn = require "penumbra"
local posterior = require "penumbra.infer.posterior"

local dist, infer = pn.dist, pn.infer

local function rows(n, law)
  return pn.model(function(m, y)
    local a = m:sample("a", dist.normal(0, 1))
    m:plate("rows", n, function() m:observe("y", law and law(a) or dist.normal(a, 1), y) end)
  end)
end

describe("NaN among data", function()
  local y = pn.tensor { 0.1, 0.5, 0 / 0, 1, 0 / 0 }
  local model = rows(5)

  it("is told by each sampler, with its place", function()
    for name, run in pairs {
      nuts = function() pn.nuts(model, { data = { y }, warmup = 4, draws = 4 }) end,
      svi = function() pn.svi(model, "full_rank", { data = { y }, steps = 1 }) end,
      guide = function()
        pn.svi(model, pn.model(function(m) m:sample("a", dist.normal(m:param("loc", 0), 1)) end),
          { data = { y }, steps = 1 })
      end,
      sample = function() pn.smc.sample(model, { data = { y }, num_particles = 8 }) end,
    } do
      local ok, message = pcall(run)
      local told = "observe: 'y' has NaN, 2 of 5 values, the first at [3]: the density is NaN"
      assert(not ok and message:find(told, 1, true), name .. ": " .. tostring(message))
    end
  end)

  it("is told by filters of models, at the step", function()
    local walk = pn.model(function(m, v)
      local mu = m:sample("mu", dist.normal(0, 1))
      m:scan("t", v:size(1), pn.zeros {}, function(h, t)
        h = m:sample("h", dist.normal(h + mu, 1))
        m:observe("y", dist.normal(h, 1), v[t])
        return h
      end)
    end)
    for _, run in ipairs {
      function() pn.smc.filter(walk, { data = { y }, values = { mu = 0 }, num_particles = 16 }) end,
      function() pn.smc.pmmh(walk, { data = { y }, num_particles = 16, warmup = 4, draws = 4, chains = 2 }) end,
    } do
      assert.error_matches(run, "observe: 'y[3]' is NaN: the density is NaN everywhere", 1, true)
    end
  end)

  it("may be looked at, and masked", function()
    local t = model:trace(y)
    assert.is_true(t.sites.y.log_prob:isnan():any():item())
    assert.matches("what is observed has NaN", tostring(pn.diagnose(model, { data = { y } })))
    local masked = rows(5, function(a) return dist.masked(dist.normal(a, 1), y:isnan():logical_not()) end)
    local fit = pn.svi(masked, "laplace", { data = { y }, steps = 50 })
    assert.is_true(math.abs(fit.guide:law():mean():item() - 1.6 / 4) < 1e-8)
  end)
end)

describe("what draws are worth", function()
  it("is nothing where a chain never moved", function()
    local stuck = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:factor("point", pn.where(a:eq(0.3), pn.zeros {}, pn.full({}, -1e9)))
    end)
    local p = pn.hmc(stuck, { warmup = 0, draws = 20, chains = 2, steps = 2, init = { a = 0.3 } })
    assert.matches("warning: all draws of chain 1, 2 are equal: they never moved", (tostring(p):gsub("\n  ", " ")))
    local fine = pn.nuts(rows(3), { data = { pn.zeros { 3 } }, warmup = 100, draws = 100 })
    assert.is_nil(tostring(fine):find("never moved", 1, true))
  end)

  it("is not in doubt at an R-hat that is shown as the limit", function()
    -- two chains apart by what gives 1.0102: shown as 1.010
    local g = pn.generator(2)
    local z = pn.randn({ 2, 500, 1 }, { generator = g })
    local target = pn.model(function(m) m:sample("a", dist.normal(0, 1)) end):target()
    local low, high = 0, 1
    local function at(shift)
      return posterior.new { model = target.model, args = {}, target = target, seconds = 0, max_depth = false,
        unconstrained = z + pn.tensor { 0, shift }:reshape { 2, 1, 1 },
        statistics = { log_density = pn.zeros { 2, 500 }, accept = pn.ones { 2, 500 } } }
    end
    local p
    for _ = 1, 60 do
      local middle = (low + high) / 2
      p = at(middle)
      if p:summary()[1].r_hat > 1.0102 then high = middle else low = middle end
    end
    assert.is_true(p:summary()[1].r_hat > 1.01)
    for _, warning in ipairs(p.warnings) do assert.is_nil(warning:find("R-hat", 1, true)) end
    assert.matches("R%-hat of 'a' is 1.0%d%d, above 1.01", table.concat(at(0.5).warnings, " "))
  end)
end)

describe("a bound that fell", function()
  it("is told, by medians that single draws do not move", function()
    local model = pn.model(function(m, y)
      local a = m:sample("a", dist.normal(0, 1))
      m:observe("y", dist.normal(a, 0.1), y)
    end)
    local fit = pn.svi(model, "mean_field", { data = { pn.zeros { 5 } }, steps = 400, lr = 0.02 })
    assert.equal(0, fit.fall)
    assert.is_nil(tostring(fit):find("DIVERGED", 1, true))
    local best = -fit:bound { draws = 100 }.value
    fit.schedule = function() return 5 end
    fit:continue(100)
    assert.is_true(-fit:bound { draws = 100 }.value > best + 5) -- it did diverge
    assert.is_true(fit.fall > 5)
    local known = fit.fall
    fit:continue(10) -- too few to change what is known
    assert.equal(known, fit.fall)
    for k = #fit.losses + 1, #fit.losses + 60 do fit.losses[k] = 0 / 0 end
    fit:continue(0)
    assert.equal(math.huge, fit.fall)
    assert.matches("DIVERGED: the bound fell by .* take a smaller lr", tostring(fit))
  end)
end)

describe("laplace", function()
  it("finds the mode of a regression whose inputs are far from 0", function()
    local n = 120
    for seed = 1, 4 do
      local g = pn.generator(seed)
      local x = pn.randn({ n }, { generator = g }) * 10 + 66
      local y = x * 1500 - 80000 + pn.randn({ n }, { generator = g }) * 20000
      local fit = pn.svi(pn.model(function(m)
        local a, b, s = m:flat "a", m:flat "b", m:flat("s", "positive")
        m:plate("rows", n, function() m:observe("y", dist.normal(a + b * x, s), y) end)
      end), "laplace", {})
      local design = pn.stack({ pn.ones { n }, x }, 2)
      local exact = pn.lstsq(design, y)
      local mode = fit.guide:law():mean()
      assert.is_true((mode:slice(1, 1, 2) / exact:reshape { 2 } - 1):abs():max():item() < 1e-6)
      local residual = (y - design:matmul(exact:reshape { 2, 1 }):squeeze(-1)):square():sum():item()
      assert.is_true(math.abs(2 * mode[3]:item() - math.log(residual / (n - 1))) < 1e-6) -- the mode of log s
    end
  end)
end)

describe("leaving out one", function()
  it("fits no tail to weights that are equal to a percent, and says nothing", function()
    local n, g = 40, pn.generator(1)
    local y = pn.randn({ n }, { generator = g })
    local model = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:plate("rows", n, function()
        m:observe("y", dist.normal(a, 1), y)
        m:observe("sure", dist.bernoulli { logits = a + pn.full({ n }, 15) }, pn.ones { n })
      end)
    end)
    local p = pn.nuts(model, { warmup = 200, draws = 500, generator = g })
    local loo = p:loo()
    assert.is_nil(loo.warning)
    assert.same(pn.zeros({ n }):totable(), p:loo("sure").k:totable())
    assert.is_true(math.abs(p:loo("sure").elpd / p:log_likelihood().sure:mean():item() / n - 1) < 1e-2)
    -- the limit is a percent between the tail's least and largest weight, whatever lies below
    local tail = pn.linspace(-0.0099, 0, 1000):unsqueeze(2)
    local _, k = infer.psis(pn.concatenate({ tail - pn.full({ 1000, 1 }, 3), tail }, 1))
    assert.equal(0, k:item())
    _, k = infer.psis(pn.concatenate({ tail * 20 - 3, tail * 20 }, 1))
    assert.not_equal(0, k:item())
  end)

  it("names the observations that it cannot tell", function()
    local y = pn.tensor { { 0.1, -0.2, 0.3 }, { 0.2, 14, -0.1 } }
    local model = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 10))
      m:observe("calm", dist.normal(a, 1), pn.tensor { 0.1, 0.2 })
      m:observe("y", dist.normal(a, 0.5), y)
    end)
    local loo = pn.nuts(model, { warmup = 200, draws = 500, generator = pn.generator(1) }):loo()
    assert.matches("^Pareto k%-hat is above 0.70 for %d of 8 observations: y%[2, 2%] %(", loo.warning)
    assert.matches("fit without each of them", loo.warning)
    assert.matches("warning: Pareto", tostring(loo))
  end)
end)

describe("model:log_density", function()
  local y = pn.tensor { 0.1, 3, 2.5, -0.5, 1 }
  local model = pn.model(function(m)
    local w = m:sample("w", dist.beta(2, 2))
    local g = m:sample("g", dist.bernoulli(0.3), { enumerate = true })
    m:plate("rows", 5, function()
      local z = m:sample("z", dist.bernoulli(w), { enumerate = true })
      m:observe("y", dist.normal(z * 3 + g, 1), y)
    end)
  end)

  it("sums out what is enumerated, given or not", function()
    local function at(shift)
      local function law(loc) return dist.normal(loc + shift, 1):log_prob(y):exp() end
      return (law(0) * 0.6 + law(3) * 0.4):log():sum():item()
    end
    local prior = dist.beta(2, 2):log_prob(0.4):item()
    local both = math.log(0.7 * math.exp(at(0)) + 0.3 * math.exp(at(1)))
    assert.is_true(math.abs(model:log_density { w = 0.4 }:item() - prior - both) < 1e-12)
    assert.is_true(math.abs(model:log_density { w = 0.4, g = 1 }:item() - prior - at(1) - math.log(0.3)) < 1e-12)
    local z = pn.tensor { 0, 1, 1, 0, 0 }
    local each = dist.bernoulli(0.4):log_prob(z) + dist.normal(z * 3, 1):log_prob(y)
    local want = prior + math.log(0.7) + each:sum():item()
    assert.is_true(math.abs(model:log_density { w = 0.4, g = 0, z = z }:item() - want) < 1e-12)
    assert.error_matches(function() model:log_density { g = 0 } end, "no value is given for 'w'", 1, true)
  end)
end)

describe("a posterior of draws that are given", function()
  local function read(draws, more)
    local given = { draws = draws, names = {}, statistics = {} }
    for name in pairs(draws) do given.names[#given.names + 1] = name end
    table.sort(given.names)
    for key, value in pairs(more or {}) do given[key] = value end
    return posterior.of_draws(given)
  end
  local g = pn.generator(8)
  local function noise(...) return pn.randn({ ... }, { generator = g }) end
  local function unfilled(p) return (tostring(p):gsub("\n  ", " ")) end

  it("says what its trajectories and chains suffer from, by numbers and names", function()
    local divergent = pn.tensor { { 0, 1, 0, 0, 1, 0 }, { 0, 0, 0, 1, 0, 0 } }
    local depth = pn.tensor { { 3, 4, 5, 6, 5, 1 }, { 5, 1, 2, 3, 7, 4 } }
    local energy = pn.tensor { { 1, 2, 3, 4, 5, 7 }, { 5, -1, 4, 2, -3, 6 } }
    local p = read({ a = noise(2, 6) }, { statistics = { divergent = divergent, depth = depth, energy = energy },
      max_depth = 5, notes = { "a note" } })
    assert.equal(3, p.divergences)
    local function share(list)
      local mean, steps, spread = 0, 0, 0
      for _, v in ipairs(list) do mean = mean + v / #list end
      for k, v in ipairs(list) do
        spread = spread + (v - mean) ^ 2
        steps = steps + (k > 1 and (v - list[k - 1]) ^ 2 or 0)
      end
      return steps / spread
    end
    for c = 1, 2 do assert.is_true(math.abs(p.e_bfmi[c] - share(energy[c]:totable())) < 1e-12) end
    assert.is_true(p.e_bfmi[1] < 0.5 and p.e_bfmi[1] > 0.3)
    local told = table.concat(p.warnings, "\n")
    assert.matches("^3 of 12 transitions diverged: ", told)
    assert.matches("\n5 of 12 transitions reached max_depth = 5: ", told)
    assert.is_nil(told:find("E-BFMI", 1, true))
    assert.equal("a note", p.warnings[#p.warnings])
    local slow = read({ a = noise(2, 40) }, { statistics = { divergent = pn.zeros { 2, 40 },
      energy = pn.stack({ pn.arange(40):to "float64", noise(40) }, 1), depth = pn.full({ 2, 40 }, 4) }, max_depth = 5 })
    told = table.concat(slow.warnings, "\n")
    assert.matches("E%-BFMI of chain 1 is 0.01, below 0.3", told)
    assert.is_nil(told:find("chain 2", 1, true))
    assert.is_nil(told:find("diverged", 1, true) or told:find("max_depth", 1, true))
    assert.same({}, read({ a = noise(2, 1) }, { statistics = { divergent = pn.zeros { 2, 1 },
      energy = pn.ones { 2, 1 } } }).e_bfmi)
  end)

  it("names the number that mixes worst, and the one that is told least of", function()
    local shift = pn.tensor { { 0 }, { 1 } }
    local p = read { a = noise(2, 300) + shift * 2, c = noise(2, 300),
      b = pn.stack({ noise(2, 300) + shift, noise(2, 300) + shift * 5 }, 3) }
    local lines, worst = p:summary(), nil
    assert.same({ "a", "b[1]", "b[2]", "c" }, { lines[1].name, lines[2].name, lines[3].name, lines[4].name })
    for _, row in ipairs(lines) do worst = (not worst or row.r_hat > worst.r_hat) and row or worst end
    assert.equal("b[2]", worst.name)
    local told = table.concat(p.warnings, "\n")
    assert.matches(("R%%-hat of 'b%%[2%%]' is %.3f, above 1.01"):format(worst.r_hat), told)
    local least = math.min(worst.ess_bulk, worst.ess_tail)
    assert.matches(("effective sample size of 'b%%[2%%]' is %d, below 100 a chain"):format(math.floor(least)), told)
    local walk = read { x = noise(2, 800):cumsum(2), y = noise(2, 800) }
    told = table.concat(walk.warnings, "\n")
    assert.matches("effective sample size of 'x' is", told)
    assert.same({}, read({ y = noise(2, 800) }).warnings)
    local few = read { a = noise(2, 60) }
    local one = few:summary().a
    assert.is_true(math.min(one.ess_bulk, one.ess_tail) > 40)
    assert.matches("effective sample size of 'a' is", table.concat(few.warnings, "\n"))
    -- tails that are drawn in one half of each chain
    local tails = read { a = noise(2, 600) * (pn.arange(600):ge(300):to "float64" * 9 + 1) }
    one = tails:summary().a
    assert.is_true(one.ess_bulk > 200 and one.ess_tail < 200)
    assert.matches(("effective sample size of 'a' is %d,"):format(math.floor(one.ess_tail)),
      table.concat(tails.warnings, "\n"))
    local still = read { a = pn.concatenate({ pn.ones { 1, 20 }, noise(1, 20) }, 1) }
    assert.matches("all draws of chain 1 are equal: it never moved from the start", table.concat(still.warnings))
    still = read { a = pn.concatenate({ pn.ones { 1, 20 }, noise(1, 20) }, 1), b = noise(2, 20) }
    assert.is_nil(table.concat(still.warnings):find("never moved", 1, true))
  end)

  it("shows as many digits as mean something, and what it has come from", function()
    local x = pn.concatenate({ pn.arange(400):reshape { 2, 200, 1 } * 1000 + 123456, noise(2, 200, 1) * 1e-3,
      pn.ones { 2, 200, 1 } }, 3)
    local p = read({ x = x }, { warmup = 50, seconds = 1.25 })
    local text = unfilled(p)
    local lines = p:summary()
    local halves = 0
    for k = 1, 2 do
      local row, want, got = lines[k], { lines[k].name }, {}
      for _, column in ipairs { "mean", "sd", "q05", "median", "q95" } do
        want[#want + 1] = (math.abs(row[column]) >= 1e5 and "%.3g" or "%.4g"):format(row[column])
      end
      for word in text:match(("\n(x%%[%d%%] [^\n]*)"):format(k)):gmatch "%S+" do got[#got + 1] = word end
      want[7], want[8], want[9], want[10] = ("%.3f"):format(row.r_hat), ("%.0f"):format(row.ess_bulk),
        ("%.0f"):format(row.ess_tail), ("%.2g"):format(row.mcse)
      assert.same(want, got)
      halves = halves + (row.ess_bulk % 1 > 0.5 and 1 or 0) + (row.ess_tail % 1 > 0.5 and 1 or 0)
    end
    assert.is_true(halves > 0) -- some are rounded up
    assert.matches("\nx%[3%] +1 +0 +1 +1 +1 +%- ", text)
    assert.matches("^ +mean +sd +q05 +median +q95 r_hat ess_bulk ess_tail +mcse\n", text)
    assert.matches("\n400 draws of 2 chains after 50 of warm%-up in 1.2 s\n", text .. "\n")
    local widths = {}
    for row in tostring(lines):gmatch "[^\n]+" do widths[#row] = true end
    assert.is_nil(next(widths, next(widths))) -- all lines end together
    assert.matches("\n400 draws of 2 chains\n", unfilled(read { x = x }) .. "\n")
    for length = 3, 4 do
      local few = read { a = noise(2, length) }
      assert.equal(length == 3, tostring(few):find("too few draws for a summary", 1, true) ~= nil)
      assert.equal(length == 3, #few.warnings == 0)
    end
    p = read({ a = noise(1, 16) }, { particles = true, log_evidence = -1.5, log_evidence_error = 0.125, seconds = 2 })
    assert.matches("\n16 particles in 2.0 s, log evidence %-1.5000, standard error 0.12$", tostring(p))
    assert.is_nil(tostring(p):find("r_hat", 1, true))
    assert.same({}, p.warnings)
    assert.matches("log evidence %-1.5000$", tostring(read({ a = noise(1, 16) }, { particles = true,
      log_evidence = -1.5 })))
    local ok, message = pcall(p.summary, p, { "b" })
    assert.is_false(ok)
    assert.matches("summary: there is no site 'b' among a", message)
    assert.matches("summary: names must be a table", select(2, pcall(p.summary, p, "a")))
    assert.equal(1, #p:summary { "a" })
    assert.is_true(posterior.is(p))
    assert.is_false(posterior.is {})
    assert.is_false(posterior.is(3))
  end)
end)
