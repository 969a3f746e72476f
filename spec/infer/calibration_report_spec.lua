--- Calibration: what samplers are given, what reports say and show, by hand from the ranks; what is refused.
local curves = require "spec.infer.curves"
local helper = require "spec.helper"
local pn = require "penumbra"
local poisson_rate = require "spec.infer.poisson_rate"
local uniformity = require "penumbra.infer.uniformity"
local dist, refuses = pn.dist, helper.refuses

local rate, exact = poisson_rate.model, poisson_rate.exact

local function calibrate(more, m)
  pn.seed(11)
  local o = { data = { 5 }, sampler = exact, simulations = 40, draws = 9 }
  for key, value in pairs(more or {}) do o[key] = value end
  return pn.sbc(m or rate, o)
end

-- The panels that x:plot(...) would save, and how.
local function panels_of(x, ...)
  local plot, got = require "penumbra.plot", nil
  local save = plot.save
  plot.save = function(path, panels, figure) got = { path, panels, figure } return "saved" end
  local ok, result = pcall(x.plot, x, ...)
  plot.save = save
  assert(ok, result)
  assert.equal("saved", result)
  return table.unpack(got, 1, 3)
end

local function column(mark, k)
  local list = {}
  for i, line in ipairs(mark.data) do
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = tonumber(word) end
    list[i] = words[k]
  end
  return list
end

local function near(want, got)
  assert.equal(#want, #got)
  for k, v in ipairs(want) do helper.near(got[k], v, 1e-6) end
end

describe("bands of ranks", function()
  -- An outcome is outside of the band exactly if one at most as likely has at most the probability 1 - level.
  it("are as narrow as the level allows", function()
    for _, size in ipairs { { 4, 6 }, { 5, 3 }, { 3, 7 } } do
      local n, cells = size[1], size[2]
      local law, outcomes = uniformity.new(n, cells), {}
      for k = 0, cells ^ n - 1 do
        local values, rest = {}, math.tointeger(k)
        for i = 1, n do
          values[i], rest = rest % cells, rest // cells
        end
        local counts = law:counts(values)
        outcomes[table.concat(counts, " ")] = counts
      end
      for key, counts in pairs(outcomes) do outcomes[key] = { counts, law:p_value(counts) } end
      for _, level in ipairs { 0.8, 0.9, 0.95, 0.99 } do
        assert.is_true(law:coverage(1) < level)
        local least, most = law:band(level)
        for _, outcome in pairs(outcomes) do
          local within = true
          for j, r in ipairs(outcome[1]) do within = within and r >= least[j] and r <= most[j] end
          assert.equal(outcome[2] > 1 - level + 1e-9, within)
        end
      end
    end
  end)

  it("stand at up to 99 places, fewer than numbers and than cells, as even as whole numbers can be", function()
    for _, case in ipairs { { 200, 1000, 100 }, { 50, 1000, 50 }, { 300, 7, 7 }, { 1, 10, 2 },
      { 99, 250, 99 }, { 150, 101, 100 } } do
      local n, cells, parts = table.unpack(case)
      local law, want = uniformity.new(n, cells), {}
      for j = 1, parts - 1 do want[j] = math.floor(j * cells / parts + 0.5) end
      assert.same(want, law.points)
      assert.equal(law, uniformity.new(n, cells)) -- kept
      assert.not_equal(law, uniformity.new(n + 1, cells))
    end
  end)

  it("of counts: how many numbers lie below each place, and zeros have no sign", function()
    local law = uniformity.new(5, 5)
    assert.same({ 1, 2, 3, 4 }, law.points)
    assert.same({ 1, 1, 3, 3 }, law:counts { 2, 0, 4, 2, 4 })
    assert.equal(uniformity.symmetry { 3, -1, 2 }, uniformity.symmetry { 0, 3, 0, -1, 2 })
    assert.equal(1, uniformity.symmetry { 0, 0 })
    assert.equal(0.5, uniformity.symmetry { 1, 2 }) -- two of four walks end two away
  end)
end)

describe("a sampler known by name", function()
  -- the same by a function that is given the model and the observations
  local function same(named, by_hand, n)
    local sbc = calibrate { sampler = named[1], options = named[2], simulations = n or 10 }
    local own = calibrate { sampler = by_hand, simulations = n or 10 }
    assert.same(own.ranks.lambda:totable(), sbc.ranks.lambda:totable())
    assert.same(own.ranks.log_likelihood:totable(), sbc.ranks.log_likelihood:totable())
    return sbc
  end

  it("is that of pn.nuts or pn.hmc, thinned; its effective sizes are told", function()
    for _, case in ipairs { { "nuts", nil, 4, 300 }, { "nuts", { thin = 3, warmup = 40 }, 3, 40 },
      { "hmc", { thin = 2, warmup = 30, steps = 3 }, 2, 30 } } do
      local name, given, thin, warmup = table.unpack(case, 1, 4)
      local sizes = {}
      local sbc = same({ name, given }, function(_, n, m)
        local p = pn[name](m, { data = { 5 }, chains = 1, warmup = warmup, draws = n * thin, steps = given
          and given.steps })
        sizes[#sizes + 1] = pn.infer.summary { z = p.unconstrained }[1].ess_bulk
        local list = p.draws.lambda[1]:totable()
        local kept = {}
        for k = 1, n do kept[k] = list[k * thin] end
        return { lambda = pn.tensor(kept) }
      end)
      table.sort(sizes)
      helper.near(sbc.ess, sizes[5])
    end
  end)

  it("tells the least effective size of its variables", function()
    local m = pn.model(function(r)
      local a, b = r:sample("a", dist.normal(0, 1)), r:sample("b", dist.normal(0, 10))
      r:observe("y", dist.normal(a + b, 0.1))
    end)
    local sizes = {}
    local sbc = calibrate({ sampler = "nuts", simulations = 10, draws = 12, options = { warmup = 20, thin = 1 } }, m)
    calibrate({ simulations = 10, draws = 12, sampler = function(observed, n)
      local p = pn.nuts(m:condition(observed), { data = { 5 }, chains = 1, warmup = 20, draws = n })
      local s = pn.infer.summary { z = p.unconstrained }
      sizes[#sizes + 1] = math.min(s["z[1]"].ess_bulk, s["z[2]"].ess_bulk)
      return { a = p.draws.a[1], b = p.draws.b[1] }
    end }, m)
    table.sort(sizes)
    helper.near(sbc.ess, sizes[5])
  end)

  it("is a guide's, or draws of the prior that are picked by their likelihood", function()
    same({ "svi", { steps = 20, lr = 0.1 } }, function(_, n, m)
      return pn.svi(m, "mean_field", { data = { 5 }, steps = 20, lr = 0.1 }):sample(n)
    end)
    same({ "svi", { steps = 20, guide = "full_rank" } }, function(_, n, m)
      return pn.svi(m, "full_rank", { data = { 5 }, steps = 20 }):sample(n)
    end)
    local one = calibrate { sampler = "importance", options = { num_particles = 1 } } -- all draws are that one
    assert.equal(1, one.ess)
    for _, r in ipairs(one.ranks.lambda:totable()) do assert.is_true(r == 0 or r == 9) end
    assert.is_true(calibrate({ sampler = "importance", simulations = 10 }).ess > 200)
  end)
end)

describe("a report of ranks", function()
  it("has the mean and spread of each quantity and what it suffers from", function()
    local sbc = calibrate()
    assert.same({ 40, 9, 0.99 }, { sbc.simulations, sbc.draws, sbc.level })
    assert.equal(rate, sbc.model)
    assert.is_true(sbc.seconds > 0 and sbc.seconds < 60)
    assert.same({ "lambda", "log_likelihood" }, sbc.names)
    for _, name in ipairs(sbc.names) do
      local list = sbc.ranks[name]:totable()
      for _, r in ipairs(list) do assert.is_true(r >= 0 and r <= 9) end
      helper.near(sbc.p_values[name], sbc.law:p_value(sbc.law:counts(list)))
    end
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, sbc.law.points)
    -- the larger of two standard scores: of the mean, variance 1 / 12 n, and of the spread, 0.8 / n
    local told = {}
    for _, case in ipairs { { 2, 6 }, { 3, 7 }, { 9, 9, 9 }, { 0, 0, 0 }, { 4, 5 }, { 0, 9 }, { 0, 9, 9 }, { 0, 0, 9 },
      { 4, 6, 6 }, { 1, 9 }, { 3, 3, 5 }, { 6, 6, 4 }, { 5, 7, 5, 7, 6 }, { 2, 2, 3 }, { 5, 6, 7, 8 } } do
      local list, u, mean, spread = {}, {}, 0, 0
      for k = 1, 40 do
        list[k] = case[k % #case + 1]
        u[k] = (list[k] + 0.5) / 10
        mean, spread = mean + u[k] / 40, spread + 12 * (u[k] - 0.5) ^ 2 / 40
      end
      local off, wide = (mean - 0.5) * math.sqrt(480), (spread - 1) * math.sqrt(50)
      local want = math.abs(off) > math.abs(wide) and (off > 0 and "low" or "high") or wide > 0 and "narrow" or "wide"
      sbc.ranks.lambda, sbc.p_values.lambda = pn.tensor(list, { dtype = "int64" }), 0.0001
      local m, s, fault = tostring(sbc):match "\nlambda +(%S+) +(%S+)    0%.0001  posterior too (%a+)\n"
      assert.equal(want, fault)
      helper.near(tonumber(m), mean, 6e-4)
      helper.near(tonumber(s), math.sqrt(spread), 6e-4)
      told[want] = true
    end
    assert.same({ low = true, high = true, narrow = true, wide = true }, told)
    -- a quantity is at fault below (1 - level) / quantities
    for _, off in ipairs { -1e-9, 0, 1e-9 } do
      sbc.p_values.lambda, sbc.p_values.log_likelihood = (1 - 0.99) / 2 + off, 1
      assert.equal(off >= 0, sbc:passed())
      assert.equal(off < 0, tostring(sbc):find("posterior too", 1, true) ~= nil)
      assert.matches(off < 0 and "ranks are NOT uniform" or "ranks are uniform", tostring(sbc))
      sbc.p_values.lambda = 0.1 + off
      assert.equal(off >= 0, sbc:passed(0.8))
    end
    assert.matches("40 simulations of 9 draws in %d+%.%d s: ranks are uniform %(mean 0.5 and spread 1 if uniform; "
      .. "99 %% bands%)$", tostring(sbc))
    for _, level in ipairs { 0, 1, "x" } do
      refuses("passed: level must lie between 0 and 1, got " .. level, sbc.passed, sbc, level)
    end
    assert.equal(0.9, calibrate({ level = 0.9 }).level)
  end)

  it("is drawn as distribution functions in their band and as histograms", function()
    local sbc = calibrate { quantities = function(v)
      return { a = v.lambda * 2, b = -v.lambda, c = 1, d = v.lambda:square(), e = 2, f = v.lambda }
    end }
    assert.same({ "lambda", "log_likelihood", "a", "b", "c", "d", "e", "f" }, sbc.names)
    assert.same(sbc.ranks.lambda:totable(), sbc.ranks.d:totable())
    assert.is_true(sbc.ranks.c:max():item() > 5 and sbc.ranks.c:min():item() < 4) -- ties fall on either side
    for k, r in ipairs(sbc.ranks.b:totable()) do assert.equal(9 - sbc.ranks.lambda[k]:item(), r) end
    local path, panels, figure = panels_of(sbc, "x.svg", { "lambda", "b" })
    assert.equal("x.svg", path)
    assert.same({ 2, { 880, 600 } }, { figure.columns, figure.size })
    assert.equal(4, #panels)
    local low, high = sbc.law:band(0.99)
    for k, name in ipairs { "lambda", "b" } do
      local ecdf, histogram = panels[2 * k - 1], panels[2 * k]
      assert.equal(("%s (p = %.2g)"):format(name, sbc.p_values[name]), ecdf.title)
      assert.equal(name, histogram.title)
      assert.same({ "rank / draws", "share below, less uniform", { 0, 1 } }, { ecdf.x_label, ecdf.y_label,
        ecdf.x_range })
      assert.same({ "rank / draws", "simulations", { 0, 1 } }, { histogram.x_label, histogram.y_label,
        histogram.x_range })
      local z, lower, upper, apart = { 0 }, { 0 }, { 0 }, { 0 }
      for j = 1, 9 do
        local below = 0
        for _, r in ipairs(sbc.ranks[name]:totable()) do below = below + (r < j and 1 or 0) end
        z[j + 1], lower[j + 1], upper[j + 1], apart[j + 1] = j / 10, low[j] / 40 - j / 10, high[j] / 40 - j / 10,
          below / 40 - j / 10
      end
      z[11], lower[11], upper[11], apart[11] = 1, 0, 0, 0
      near(z, column(ecdf.marks[1], 1))
      near(lower, column(ecdf.marks[1], 2))
      near(upper, column(ecdf.marks[1], 3))
      near(z, column(ecdf.marks[2], 1))
      near(apart, column(ecdf.marks[2], 2))
      assert.equal(5, #histogram.marks[1].counts)
      local total = 0
      for _, count in ipairs(histogram.marks[1].counts) do total = total + count end
      assert.equal(40, total)
    end
    for k, name in ipairs(sbc.names) do sbc.p_values[name] = (k * 5 % 8 + 1) / 10 end
    local titles = {}
    for k, panel in ipairs(select(2, panels_of(sbc, "x.svg"))) do titles[k] = k % 2 == 0 and panel.title or nil end
    local want = {}
    for k, name in ipairs(sbc.names) do want[k] = name end
    table.sort(want, function(a, b) return sbc.p_values[a] < sbc.p_values[b] end)
    for k = 1, 6 do assert.equal(want[k], titles[2 * k]) end
    assert.equal(12, #select(2, panels_of(sbc, "x.svg")))
    assert.equal(16, #select(2, panels_of(sbc, "x.svg", sbc.names)))
    for k, panel in ipairs(select(2, panels_of(calibrate(), "x.svg"))) do -- six at most stay in their order
      if k % 2 == 0 then assert.equal(k == 2 and "lambda" or "log_likelihood", panel.title) end
    end
    local six = calibrate { quantities = function(v) return { a = v.lambda, b = 1, c = -v.lambda, d = 2 } end }
    for k, name in ipairs(six.names) do six.p_values[name] = 1 - k / 10 end
    for k, panel in ipairs(select(2, panels_of(six, "x.svg"))) do
      if k % 2 == 0 then assert.equal(six.names[k // 2], panel.title) end
    end
    for n, bins in pairs { [10] = 5, [70] = 7, [190] = 19, [230] = 20 } do
      local _, shown = panels_of(calibrate { simulations = n }, "x.svg")
      assert.equal(bins, #shown[2].marks[1].counts)
    end
    refuses("plot: path must be a string", sbc.plot, sbc)
    refuses("plot: names must be a table", sbc.plot, sbc, "x.svg", "lambda")
  end)

  it("of a guide tells on which side its marginals lie", function()
    pn.seed(4)
    local v = pn.vsbc(rate, "mean_field", { data = { 5 }, simulations = 30, draws = 19, options = { steps = 5 } })
    assert.same({ 30, 19 }, { v.simulations, v.draws })
    assert.same({ "lambda" }, v.names)
    local sum, centred = 0, {}
    for k, u in ipairs(v.probabilities.lambda:totable()) do
      helper.near(u, (v.ranks.lambda[k]:item() + 0.5) / 20)
      sum, centred[k] = sum + u / 30, u - 0.5
    end
    helper.near(v.means.lambda, sum)
    helper.near(v.p_values.lambda, uniformity.symmetry(centred))
    for _, case in ipairs { { 0.75, 0.0099, "  guide too low" }, { 0.25, 0.0099, "  guide too high" },
      { 0.75, 0.01, "" } } do
      v.probabilities.lambda, v.p_values.lambda = pn.full({ 30 }, case[1]), case[2]
      assert.equal(("lambda %11.3f %9.3f %9.2g%s"):format(case[1], math.sqrt(0.75), case[2], case[3]),
        tostring(v):match "\n(lambda [^\n]*)")
    end
    local _, panels = panels_of(v, "x.svg")
    assert.same({ "lambda (p = 0.01)", "q(theta < true theta)", "simulations", { 0, 1 } }, { panels[1].title,
      panels[1].x_label, panels[1].y_label, panels[1].x_range })
    refuses("plot: there is no quantity 'lamda', did you mean 'lambda'?", v.plot, v, "x.svg", { "lamda" })
  end)
end)

describe("predictions against what was observed", function()
  it("have the coverage and width of intervals between their quantiles", function()
    pn.seed(6)
    local y, draws = pn.randn { 30, 2 } * 1.5, pn.randn { 13, 30, 2 }
    for _, levels in ipairs { false, { 0.25, 0.999 } } do
      local c = pn.calibration(y, draws, { levels = levels or nil, generator = pn.generator(1) })
      for k, level in ipairs(levels or { 0.5, 0.8, 0.9, 0.95 }) do
        local within, width = 0, 0
        for i, v in ipairs(y:reshape({ -1 }):totable()) do
          local seen = draws:reshape({ 13, -1 }):select(2, i):totable()
          local low, high = curves.quantile(seen, (1 - level) / 2), curves.quantile(seen, (1 + level) / 2)
          within, width = within + (v >= low and v <= high and 1 or 0) / 60, width + (high - low) / 60
        end
        helper.near(c[k].coverage, within)
        helper.near(c.coverage[level], within)
        helper.near(c[k].width, width)
        helper.near(c[k].standard_error, math.sqrt(level * (1 - level) / 60))
        assert.equal(level, c[k].level)
      end
      assert.equal(levels and 2 or 4, #c)
      assert.same({ 60 }, c.pit:shape())
      assert.equal(13, c.draws)
      helper.near(c.crps, pn.metrics.crps(y:reshape { -1 }, draws:reshape { 13, -1 }):mean():item())
      local text = tostring(c)
      assert.equal(("%8s %10s %8s %12s"):format("level", "coverage", "+-", "mean width"), text:match "^[^\n]+")
      assert.matches(("\n%8.3g %10.4f %8.4f %12.5g\n"):format(c[1].level, c[1].coverage, c[1].standard_error,
        c[1].width):gsub("%p", "%%%0"), text)
      assert.matches("\n60 observations, 13 draws: CRPS [%d.]+, PIT uniform with p = [%d.e-]+$", text)
    end
    for _, level in ipairs { 0, 1, "x" } do
      refuses("calibration: levels must lie between 0 and 1, got " .. level, pn.calibration, y, draws,
        { levels = { level } })
    end
    local c = pn.calibration(y, draws)
    local _, panels, figure = panels_of(c, "x.svg")
    assert.same({ 3, { 1260, 380 } }, { figure.columns, figure.size })
    assert.equal(("PIT (p = %.2g)"):format(c.p_value), panels[1].title)
    assert.equal("coverage of central intervals", panels[3].title)
    near({ 0.5, 0.8, 0.9, 0.95 }, column(panels[3].marks[2], 1))
    local shares, low = {}, {}
    for k = 1, 4 do shares[k], low[k] = c[k].coverage, c[k].coverage - 2 * c[k].standard_error end
    near(shares, column(panels[3].marks[2], 2))
    near(low, column(panels[3].marks[2], 3))
    near({ 0, 1 }, column(panels[3].marks[1], 2))
    refuses("plot: path must be a string", c.plot, c)
  end)

  it("by statistics: shares above, ties half, and quantiles of replications", function()
    pn.seed(7)
    local counts = pn.tensor { 2, 0, 1, 1, 3 }
    local m = pn.model(function(r)
      local lambda = r:sample("lambda", dist.gamma(3, 2))
      r:observe("n", dist.poisson(lambda):expand { 5 }, counts)
    end)
    local fit = pn.svi(m, "mean_field", { steps = 5 })
    for _, draws in ipairs { 2, 25, 40 } do
      local check = fit:check { draws = draws }
      for k, want in ipairs { { "mean", 1.4 }, { "sd", counts:std():item() }, { "min", 0 }, { "max", 3 } } do
        local row, above, sum = check[k], 0, 0
        assert.equal(row, check[want[1]])
        assert.equal(want[1], row.name)
        helper.near(row.observed, want[2])
        assert.equal(draws, #row.replicated)
        for _, v in ipairs(row.replicated) do
          above, sum = above + (v > row.observed and 1 or v == row.observed and 0.5 or 0), sum + v / draws
        end
        helper.near(row.p_value, above / draws)
        helper.near(row.mean, sum)
        local sorted = table.move(row.replicated, 1, draws, 1, {})
        table.sort(sorted)
        assert.same({ sorted[math.ceil(0.05 * draws)], sorted[math.ceil(0.95 * draws)] }, { row.q05, row.q95 })
      end
      local row = check.max
      assert.equal(("max       %10.4g %10.4g %10.4g %10.4g %8.3f"):format(row.observed, row.mean, row.q05, row.q95,
        row.p_value), tostring(check):match "[^\n]+$")
      local _, panels = panels_of(check, "x.svg")
      assert.equal(4, #panels)
      assert.same({ ("max (p = %.3f)"):format(row.p_value), "max", "draws", "below" }, { panels[4].title,
        panels[4].x_label, panels[4].y_label, panels[4].legend })
      near({ 3, 3 }, column(panels[4].marks[2], 1))
      near({ 0, math.max(table.unpack(panels[4].marks[1].counts)) }, column(panels[4].marks[2], 2))
    end
    refuses("check: draws must be a whole number from 2 on, got 1", fit.check, fit, { draws = 1 })
    refuses("check: statistic must have at least one function", fit.check, fit, { statistic = {} })
    refuses("check: statistic 'a' must give one number, got string", fit.check, fit, { statistic = {
      a = function() return "x" end } })
    refuses("check: statistic must be a table", fit.check, fit, { statistic = 3 })
    refuses("check: the model observes no 'm'", fit.check, fit, { site = "m" })
    local two = pn.svi(pn.model(function(r)
      local a = r:sample("a", dist.normal(0, 1))
      r:observe("x", dist.normal(a, 1), 0.5)
      r:observe("y", dist.normal(a, 1), 1)
    end), "mean_field", { steps = 1 })
    refuses("check: option 'site' must be one of what is observed: x, y", two.check, two)
    assert.equal(1, two:check({ site = "y", draws = 3 })[1].observed)
    local none = pn.svi(pn.model(function(r) r:sample("a", dist.normal(0, 1)) end), "mean_field", { steps = 1 })
    refuses("check: the model observes nothing", none.check, none)
  end)
end)

describe("what calibration refuses", function()
  local function refused(text, m, o)
    pn.seed(1)
    refuses(text, pn.sbc, m, o)
  end
  local function observing(f)
    return pn.model(function(m, ...)
      local x = m:sample("x", dist.normal(0, 1))
      m:observe("y", dist.normal(x, 1))
      if f then f(m, x, ...) end
    end)
  end

  it("of models", function()
    refused("sbc: the model has no latent variable", pn.model(function(m) m:observe("y", dist.normal(0, 1)) end))
    refused("sbc: 'x' is conditioned on a value (give simulate, a function that draws)",
      observing():condition { x = 0.5 })
    refused("plate 'rows' takes only 2 of 4 rows", observing(function(m, x)
      m:plate("rows", 4, { batch_size = 2 }, function() m:observe("z", dist.normal(x, 1)) end)
    end))
  end)

  it("of options and of what functions give", function()
    local o = { data = { 5 }, sampler = exact, draws = 9, simulations = 10 }
    local function with(more)
      local list = {}
      for key, value in pairs(o) do list[key] = value end
      for key, value in pairs(more) do list[key] = value end
      return list
    end
    refused("sbc: options belong to the samplers known by name", rate, with { options = { thin = 2 } })
    for _, level in ipairs { 0, 1 } do
      refused("sbc: level must lie between 0 and 1, got " .. level, rate, with { level = level })
    end
    refused("sbc: draws must be a whole number", rate, with { draws = 0 })
    refused("sbc: sampler must give a table site -> draws [9, ...], got number", rate,
      with { sampler = function() return 3 end })
    refused("sbc: the sampler must give 9 draws of 'lambda', a tensor [9, ...], got shape [8]", rate,
      with { sampler = function() return { lambda = pn.ones { 8 } } end })
    refused("sbc: quantity 'q' must be one number for each draw", rate, with { quantities = function()
      return { q = pn.ones { 2 } } end })
    refused("sbc: quantity 'q' must be one number for each draw", rate, with { quantities = function()
      return { q = "a" } end })
    refused("sbc: what quantities gives must be a table", rate, with { quantities = function() return 3 end })
    refused("sbc: simulate must give a table site -> value and a list of data, got number and table", rate,
      with { simulate = function() return 3, {} end })
    refused("sbc: simulate must give a table site -> value and a list of data, got table and nil", rate,
      with { simulate = function() return {} end })
    refused("sbc: simulate gave no value of 'lambda'", rate, with { simulate = function() return {}, { 5 } end })
    refused("warmup must be a whole number from 0 on, got -1", rate, with { sampler = "nuts",
      options = { warmup = -1 } })
    refused("num_particles must be a whole number from 1 on, got 0", rate, with { sampler = "importance",
      options = { num_particles = 0 } })
    refuses("vsbc: needs a model (pn.model), got number", pn.vsbc, 3, "mean_field")
    refuses("vsbc: simulations must be a whole number from 10 on, got 9", pn.vsbc, rate, "mean_field",
      { simulations = 9 })
  end)
end)
