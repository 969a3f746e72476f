--- Pictures of a posterior: what stands in them, by the numbers that gnuplot is given.
local pn = require "penumbra"
local dist = pn.dist
local gnuplot = require "penumbra.plot.gnuplot"
local curves = require "spec.infer.curves"
local posterior_plot = require "penumbra.infer.posterior_plot"
local refused = require("spec.helper").refused

pn.seed(1)
local y, sigma = pn.tensor { 28, 8, -3, 7, -1, 1, 18, 12 }, pn.tensor { 15, 10, 16, 11, 9, 11, 10, 18 }
local schools = pn.model(function(m)
  local mu, tau = m:sample("mu", dist.normal(0, 5)), m:sample("tau", dist.half_cauchy(5))
  m:plate("schools", 8, function()
    m:observe("y", dist.normal(m:sample("theta", dist.normal(mu, tau)), sigma), y)
  end)
end)
local p = pn.nuts(schools, { chains = 2, warmup = 200, draws = 200 })
-- which transitions diverge differs between processors: here every 17th
p.statistics.divergent = (pn.arange(400) % 17):eq(3):to("float64"):reshape { 2, 200 }
p.divergences = p.statistics.divergent:sum():item()

-- The panels that p:plot would draw, and the size.
local function panels_of(of, options)
  local plot, got, figure = require "penumbra.plot", nil, nil
  local save = plot.save
  plot.save = function(_, panels, o) got, figure = panels, o return "x" end
  local ok, message = pcall(of.plot, of, "x.svg", options)
  plot.save = save
  assert(ok, message)
  return got, figure
end

local function column(mark, k)
  local list = {}
  for i, line in ipairs(mark.data) do
    local at = 0
    for word in line:gmatch "%S+" do
      at = at + 1
      list[i] = at == k and tonumber(word) or list[i]
    end
  end
  return list
end

describe("a picture of a posterior", function()
  it("of traces has each chain's draws in order, and marks for those that diverged", function()
    local panels, figure = panels_of(p, { names = { "tau", "theta[2]" } })
    assert.equal(4, #panels)
    assert.equal(2, figure.columns)
    assert.same({ "tau", "tau", "theta[2]", "theta[2]" }, { panels[1].title, panels[2].title, panels[3].title,
      panels[4].title })
    local drawn = column(panels[4].marks[2], 2)
    for i, v in ipairs(p.draws.theta[2]:select(2, 2):totable()) do assert(math.abs(drawn[i] - v) < 1e-8) end
    local where = {}
    for c = 1, 2 do
      for i, v in ipairs(p.statistics.divergent[c]:totable()) do where[#where + 1] = v ~= 0 and i or nil end
    end
    assert.is_true(#where > 0)
    assert.same(where, column(panels[2].marks[3], 1))
    -- laws have area one, and none beyond the draws
    for c = 1, 2 do
      local x, height = pn.tensor(column(panels[1].marks[c], 1)), pn.tensor(column(panels[1].marks[c], 2))
      assert(math.abs(pn.trapezoid(height, x):item() - 1) < 0.01)
      assert.is_true(x:min():item() >= p.draws.tau[c]:min():item() - 1e-8)
    end
  end)

  it("of ranks counts all draws of each chain", function()
    local panels = panels_of(p, { kind = "rank", names = { "mu" } })
    assert.same({ 0, 400 }, panels[1].x_range)
    local band = panels[1].marks[1] -- of a binomial of 200 draws and 20 bins
    for k, at in ipairs { 0, 400 } do
      assert.equal(at, column(band, 1)[k])
      assert.is_true(math.abs(column(band, 2)[k] - (10 - 1.96 * 9.5 ^ 0.5)) < 1e-3)
      assert.is_true(math.abs(column(band, 3)[k] - (10 + 1.96 * 9.5 ^ 0.5)) < 1e-3)
    end
    local total = 0
    for c = 1, 2 do
      local counts = column(panels[1].marks[1 + c], 2)
      assert.equal(40, #counts)
      local n = 0
      for b = 1, 40, 2 do n = n + counts[b] end
      assert.equal(200, n)
      -- by hand: how many of the chain's draws are among the lowest twentieth of all
      local mine, all, low = p.draws.mu[c]:totable(), p.draws.mu:reshape({ -1 }):sort(1):totable(), 0
      for _, v in ipairs(mine) do low = low + (v <= all[20] and 1 or 0) end
      assert.equal(low, counts[1])
      total = total + low
    end
    assert.equal(20, total)
    local _, figure = panels_of(p, { kind = "rank" })
    assert.equal("the first 9 of 10 numbers (names says which)", figure.title)
  end)

  -- Whole numbers are often equal. Ranked by place, the first chain would have all the lowest.
  it("of ranks is level where draws are equal", function()
    local same = pn.model(function(m) m:deterministic("k", m:sample("a", dist.normal(0, 1)) * 0) end)
    local q = pn.nuts(same, { chains = 2, warmup = 50, draws = 2000 })
    local panel = panels_of(q, { kind = "rank", names = { "k" } })[1]
    for c = 1, 2 do
      for _, n in ipairs(column(panel.marks[1 + c], 2)) do assert(math.abs(n - 100) < 6 * 95 ^ 0.5, n) end
    end
    assert.equal(0, panel.y_range[1])
  end)

  it("of intervals, pairs and marginals has the numbers of the draws", function()
    local forest = panels_of(p, { kind = "forest" })[1]
    assert.equal("theta[8]", forest.y_names[1])
    assert.equal("mu", forest.y_names[10])
    local medians = column(forest.marks[21], 1)
    assert(math.abs(medians[2] - p:summary().tau.median) < 0.05)
    local ends = column(forest.marks[1], 1)
    assert(math.abs(ends[1] - p:summary().mu.q05) < 0.1 and math.abs(ends[2] - p:summary().mu.q95) < 0.1)
    local pairs_, figure = panels_of(p, { kind = "pairs", names = { "mu", "tau", "theta[1]" } })
    assert.equal(3, figure.columns)
    assert.is_true(figure.size[2] > figure.size[1]) -- the legend is below
    assert.equal(6, #pairs_) -- below the diagonal and on it
    for i, cell in ipairs { 1, 4, 5, 7, 8, 9 } do assert.equal(cell, pairs_[i].cell) end
    assert.equal(math.tointeger(p.divergences), #pairs_[2].marks[2].data)
    assert.equal(400, #pairs_[2].marks[1].data)
    local x, y_ = column(pairs_[2].marks[1], 1), column(pairs_[2].marks[1], 2)
    local mu, tau = p.draws.mu:reshape({ -1 }):totable(), p.draws.tau:reshape({ -1 }):totable()
    for i = 1, 400, 37 do assert(math.abs(x[i] - mu[i]) < 1e-8 and math.abs(y_[i] - tau[i]) < 1e-8) end
    local bad = column(pairs_[2].marks[2], 2) -- where every 17th draw stands
    for k, v in ipairs(bad) do assert(math.abs(v - tau[4 + 17 * (k - 1)]) < 1e-8) end
    assert.equal(10, #panels_of(p, { kind = "marginal" }))
    assert.matches("^E%-BFMI %d%.%d%d, %d%.%d%d$", panels_of(p, { kind = "energy" })[1].title)
  end)

  it("of predictions lays what was observed over replications", function()
    local panel = panels_of(p, { kind = "predictive" })[1]
    assert.equal(41, #panel.marks)
    local counts = pn.model(function(m)
      local rate = m:sample("rate", dist.gamma(2, 1))
      m:plate("rows", 6, function() m:observe("n", dist.poisson(rate), pn.tensor { 0, 1, 1, 3, 2, 1 }) end)
    end)
    local q = pn.nuts(counts, { chains = 1, warmup = 100, draws = 100 })
    panel = panels_of(q, { kind = "predictive", site = "n" })[1]
    local share = column(panel.marks[2], 2)
    for k, want in ipairs { 1 / 6, 3 / 6, 1 / 6, 1 / 6 } do assert(math.abs(share[k] - want) < 1e-8) end
    refused("plot: the model observes no 'z'", q.plot, q, "x.svg", { kind = "predictive", site = "z" })
  end)

  it("of whole numbers has the share of each, wherever they lie, as long as they are few", function()
    for _, case in ipairs { { low = 100, range = 3 }, { low = -70, range = 59 }, { low = 0, range = 60, curve = true } }
    do
      local draws = pn.arange(200) % (case.range + 1) + case.low
      local mu = p.draws.mu
      p.draws.mu = pn.stack({ draws, draws }, 1)
      local panels = panels_of(p, { names = { "mu" } })
      p.draws.mu = mu
      local line = panels[1].marks[2]
      local at, share = column(line, 1), column(line, 2)
      assert.equal(case.curve and 160 or case.range + 1, #at)
      for k, n in ipairs(case.curve and {} or at) do
        local many = draws:eq(n):to("float64"):mean():item()
        assert.equal(case.low + k - 1, n)
        assert.is_true(math.abs(share[k] - many) < 1e-8)
      end
    end
  end)

  it("of pairs has cells that are square, with room for labels on the left and below", function()
    for n, names in ipairs { { "mu" }, { "mu", "tau" }, { "mu", "tau", "theta[1]" } } do
      local _, figure = panels_of(p, { kind = "pairs", names = names })
      local side = 230 - 12 * n
      assert.same({ 90 + n * side, 120 + n * side }, figure.size)
      assert.is_true(figure.aligned)
    end
  end)

  it("is written as a file and on the terminal, and refuses what is not there", function()
    local path = os.tmpname()
    os.remove(path)
    local ok, _, code = p:plot(path .. ".svg", { kind = "forest" })
    if code == "missing" then return pending "no gnuplot" end
    assert.equal(path .. ".svg", ok)
    os.remove(path .. ".svg")
    refused("plot: there is no site 'theta%[9%]', did you mean 'theta%[%d%]'%?", p.plot, p, "x.svg",
      { names = { "theta[9]" } })
    refused("plot: kind must be one of 'trace', .*, did you mean 'pairs'%?", p.plot, p, "x.svg", { kind = "pair" })
    refused("plot.save: path must end in", p.plot, p, "x.doc")
  end)

  it("of panels without numbers on an axis has none, and a legend below leaves the label room", function()
    local plot = pn.plot
    local script = plot.script("a.svg", "svg", { plot.panel { y_names = {}, x_label = "x", legend = "below",
      plot.line({ 1, 2 }, { 1, 2 }, { label = "a" }) }, plot.panel { plot.line({ 1, 2 }, { 1, 2 }) } })
    local first, second = script:match "unset title(.-)unset title(.*)$"
    assert(first:find("unset ytics", 1, true) and first:find('set xlabel "x\\n"', 1, true))
    assert(second:find("set ytics autofreq", 1, true))
    assert.is_function(gnuplot.compose)
  end)
end)

-- What posterior_plot.draw gives plot.save for draws by name that are given here, [chains, draws, ...].
local function drawn(draws, options, more)
  local names = {}
  for name in pairs(draws) do names[#names + 1] = name end
  table.sort(names)
  local first = draws[names[1]]
  local q = { draws = draws, names = names, latent = names, chains = first:size(1), length = first:size(2),
    statistics = {} }
  for key, value in pairs(more or {}) do q[key] = value end
  return panels_of({ plot = function(_, ...) return posterior_plot.draw(q, ...) end }, options)
end

-- Marks of a panel by what of them is asked: a list.
local function each(panel, field)
  local list = {}
  for k, mark in ipairs(panel.marks) do list[k] = mark[field] or false end
  return list
end

local function near(want, got, what)
  assert.equal(#want, #got, what)
  for k, v in ipairs(want) do assert(math.abs(v - got[k]) <= 1e-6 * math.max(1, math.abs(v)), what or k) end
end

local NUMBERS <const> = { 0.5, -1.25, 3.1, 0.7, 0.9, 2.2, -0.4, 1.3, 6.5, 0.1 }

describe("what a picture shows", function()
  local two = pn.stack({ pn.tensor(NUMBERS), pn.tensor(NUMBERS) * 2 + 0.25 }, 1) -- two chains

  it("of traces: laws without numbers, paths with their steps, marks at the foot", function()
    local divergent = (pn.arange(20):eq(2)):logical_or(pn.arange(20):eq(19)):to("float64"):reshape { 2, 10 }
    local panels, figure = drawn({ a = two, b = two * 100 }, nil, { statistics = { divergent = divergent } })
    assert.same({ 2, 900, 480, "below" }, { figure.columns, figure.size[1], figure.size[2], figure.legend })
    assert.is_nil(figure.title)
    for k, name in ipairs { "a", "b" } do
      local left, right = panels[2 * k - 1], panels[2 * k]
      assert.same({ name, name, "density", {} }, { left.title, right.title, left.y_label, left.y_names })
      assert.equal(k == 2 and "draw" or nil, right.x_label)
      assert.same({ "chain 1", "chain 2" }, each(left, "label"))
      assert.same({ false, false, "diverged" }, each(right, "label"))
      local colours = each(left, "colour")
      assert.same({ colours[1], colours[2], "#b5486a" }, each(right, "colour"))
      assert.not_equal(colours[1], colours[2])
      local scale = k == 1 and 1 or 100
      for c = 1, 2 do
        local list = (two[c] * scale):totable()
        near(list, column(right.marks[c], 2))
        near({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, column(right.marks[c], 1))
        local x, height = curves.density(list, 160, true)
        near(x, column(left.marks[c], 1))
        near(height, column(left.marks[c], 2))
      end
      near({ 3, 10 }, column(right.marks[3], 1))
      near({ -2.25 * scale, -2.25 * scale }, column(right.marks[3], 2))
    end
    for _, right in ipairs { drawn({ a = two })[2], drawn({ a = two }, nil, { statistics = {
      divergent = divergent * 0 } })[2] } do
      assert.equal(2, #right.marks)
    end
  end)

  it("of paths: about three steps of 1, 2 or 5 times a power of ten", function()
    for _, case in ipairs { { 0, 1 }, { 3.5, 1 }, { 3.5 * 1.49, 1 }, { 3.5 * 1.5, 2 }, { 3.5 * 3.19, 2 },
      { 112, 50 }, { 3.5 * 6.99, 5 }, { 3.5 * 7, 10 }, { 0.035 * 2, 0.02 }, { 350 * 4, 500 } } do
      local draws = pn.arange(8):eq(5):to("float64"):reshape { 1, 8 } * case[1]
      near({ case[2] }, { drawn({ a = draws })[2].y_step }, "extent " .. case[1])
    end
  end)

  it("of many chains: labels up to eight, six colours by turns", function()
    for chains = 1, 9, 4 do
      chains = chains == 5 and 8 or chains
      local labels, seen = {}, {}
      for c = 1, chains do labels[c] = chains == 8 and "chain " .. c end
      local panel = drawn({ a = pn.tensor(NUMBERS):unsqueeze(1):broadcast_to { chains, 10 } })[1]
      assert.same(labels, each(panel, "label"))
      local colours = each(panel, "colour")
      for c = 1, math.min(6, chains) do
        assert.matches("^#%x+$", colours[c])
        assert.is_nil(seen[colours[c]])
        seen[colours[c]] = true
        assert.equal(colours[c], colours[c + 6] or colours[c])
      end
    end
  end)

  it("of ranks: steps from edge to edge of twenty bins, with room above the highest", function()
    local low, high = pn.arange(80):to "float64" + 0.5, pn.arange(80):to "float64" + 1000.5
    local panels, figure = drawn({ a = pn.stack({ low, high }, 1), b = pn.stack({ low * 2, low * 2 + 1 }, 1) },
      { kind = "rank" })
    assert.equal("below", figure.legend)
    assert.same({ "a", "rank of all draws", "draws" }, { panels[1].title, panels[1].x_label, panels[1].y_label })
    local x = {}
    for b = 0, 19 do x[2 * b + 1], x[2 * b + 2] = 8 * b, 8 * b + 8 end
    for c = 1, 2 do
      near(x, column(panels[1].marks[1 + c], 1))
      for k, v in ipairs(column(panels[1].marks[1 + c], 2)) do assert.equal((k <= 20) == (c == 1) and 8 or 0, v) end
      for _, v in ipairs(column(panels[2].marks[1 + c], 2)) do assert.equal(4, v) end
    end
    local top = 4 + 2.5 * (80 * 0.05 * 0.95) ^ 0.5
    near({ 0, 1.05 * top }, panels[2].y_range)
    near({ 0, 1.05 * math.max(top, 8) }, panels[1].y_range)
    local one = drawn({ a = low:reshape { 1, 80 } }, { kind = "rank" })[1]
    near({ 0, 80 }, one.x_range)
    near({ 0, 1.05 * top }, one.y_range)
    local apart = drawn({ a = pn.stack({ low, high, high + 1000, high + 2000 }, 1) }, { kind = "rank" })[1]
    near({ 0, 1.05 * 16 }, apart.y_range)
    assert.same({ "independent, 95 %", "chain 1", "chain 2" }, each(panels[1], "label"))
  end)

  it("of marginals: the middle 90 % of the curve, the mean as a line, bars of whole numbers", function()
    local list = two:reshape({ -1 }):totable()
    local panels, figure = drawn({ a = two, n = (two * 2):floor() }, { kind = "marginal" })
    assert.equal("below", figure.legend)
    local x, curve = curves.density(list, 240, true)
    near(x, column(panels[1].marks[2], 1))
    near(curve, column(panels[1].marks[2], 2))
    table.sort(list)
    local inside, heights, mean, top = {}, {}, 0, 0
    for k, at in ipairs(x) do
      if at >= curves.quantile(list, 0.05) and at <= curves.quantile(list, 0.95) then
        inside[#inside + 1], heights[#heights + 1] = at, curve[k]
      end
      top = math.max(top, curve[k])
    end
    for _, v in ipairs(list) do mean = mean + v / 20 end
    near(inside, column(panels[1].marks[1], 1))
    for _, v in ipairs(column(panels[1].marks[1], 2)) do assert.equal(0, v) end
    near(heights, column(panels[1].marks[1], 3))
    near({ mean, mean }, column(panels[1].marks[3], 1))
    near({ 0, top }, column(panels[1].marks[3], 2))
    assert.same({ "middle 90 %", false, "mean" }, each(panels[1], "label"))
    assert.matches("dashtype 2", panels[1].marks[3].style)
    assert.same({ "a", "n", "density", {} }, { panels[1].title, panels[2].title, panels[2].y_label, panels[2].y_names })
    assert.equal(1, #panels[2].marks)
    local total = 0
    for _, v in ipairs(panels[2].marks[1].counts) do total = total + v end
    near({ 1 }, { total }) -- bins of width 1
  end)

  it("of intervals: thin and thick lines from quantile to quantile, the first number on top", function()
    local draws = pn.arange(101):to("float64"):reshape { 1, 101 }
    local panels, figure = drawn({ a = draws, b = draws * 2 + 1 }, { kind = "forest" })
    local panel = panels[1]
    assert.same({ "b", "a" }, panel.y_names)
    near({ 0.3, 2.7 }, panel.y_range)
    assert.equal("none", panel.legend)
    assert.equal(5, #panel.marks)
    for k, ends in ipairs { { 5, 95 }, { 11, 191 }, { 25, 75 }, { 51, 151 } } do
      near(ends, column(panel.marks[k], 1))
      local height = k % 2 == 1 and 2 or 1
      near({ height, height }, column(panel.marks[k], 2))
    end
    near({ 50, 101 }, column(panel.marks[5], 1))
    near({ 2, 1 }, column(panel.marks[5], 2))
    assert.equal(640, figure.size[1])
    assert.equal(220, figure.size[2])
    figure = select(2, drawn({ a = draws:unsqueeze(3):broadcast_to { 1, 101, 8 } }, { kind = "forest" }))
    assert.equal(90 + 24 * 8, figure.size[2])
  end)

  it("of pairs: ranges with a margin, labels at the edges, no more dots than can be drawn", function()
    local names = {}
    for n = 1, 6 do
      names[n] = "v" .. n
      local draws = {}
      for k, name in ipairs(names) do draws[name] = (pn.arange(2000):to "float64" * 0.5 + k):reshape { 1, 2000 } end
      local panels = drawn(draws, { kind = "pairs" })
      assert.equal(n * (n + 1) // 2, #panels)
      local k = 0
      for i = 1, n do
        for j = 1, i do
          k = k + 1
          local panel = panels[k]
          near({ j - 0.05 * 999.5, j + 999.5 * 1.05 }, panel.x_range)
          assert.equal(i == n and names[j] or nil, panel.x_label)
          assert.equal(j == 1 and names[i] or nil, panel.y_label)
          assert.same(i < n and {} or nil, panel.x_names)
          assert.equal(200, panel.x_step)
          assert.same((i == j or j > 1) and {} or nil, panel.y_names)
          if i > j then
            local many = math.min(1500, 24000 // (n * (n - 1)))
            local x, y_ = column(panel.marks[1], 1), column(panel.marks[1], 2)
            assert.equal(many, #x)
            near({ j, j + 999.5 }, { x[1], x[many] })
            near({ i, i + 999.5 }, { y_[1], y_[many] })
            near({ i - 0.05 * 999.5, i + 999.5 * 1.05 }, panel.y_range)
            assert.equal(200, panel.y_step)
            assert.equal(1, #panel.marks)
            assert.is_nil(panel.marks[1].label)
          end
        end
      end
    end
    near({ 0.25 - 0.5, 0.25 + 0.5 }, drawn({ a = pn.full({ 1, 5 }, 0.25) }, { kind = "pairs" })[1].x_range)
    local bad = drawn({ a = two, b = two }, { kind = "pairs" }, { divergences = 1, statistics = {
      divergent = pn.eye(10):slice(1, 3, 4) } })
    assert.same({ "draws", "diverged" }, each(bad[2], "label"))
    near({ two[1][3]:item(), two[2][4]:item() }, column(bad[2].marks[2], 1))
    assert.is_nil(drawn({ a = two, b = two }, { kind = "pairs" }, { divergences = 0 })[2].marks[2])
  end)

  it("of energies: those less each chain's mean, and their changes within chains", function()
    local energy = pn.tensor { { 1.5, 2.25, 4, 3 }, { 10, 14.5, 12, 11 } }
    local more = { statistics = { energy = energy }, e_bfmi = { 0.456, 1 } }
    local panel = drawn({ a = two }, { kind = "energy" }, more)[1]
    assert.same({ "E-BFMI 0.46, 1.00", "energy", "density", {} }, { panel.title, panel.x_label, panel.y_label,
      panel.y_names })
    assert.same({ "energy less its mean", "its change in a transition" }, each(panel, "label"))
    for k, list in ipairs { { -1.1875, -0.4375, 1.3125, 0.3125, -1.875, 2.625, 0.125, -0.875 },
      { 0.75, 1.75, -1, 4.5, -2.5, -1 } } do
      local x, height = curves.density(list, 160, true)
      near(x, column(panel.marks[k], 1))
      near(height, column(panel.marks[k], 2))
    end
    more.statistics.energy = energy:slice(2, 1, 3)
    assert.equal(2, #drawn({ a = two }, { kind = "energy" }, more)[1].marks)
    for _, none in ipairs { { energy = energy:slice(2, 1, 2) }, {} } do
      refused("plot: kind 'energy' is of draws by trajectories %(pn.nuts, pn.hmc%)", posterior_plot.draw, { draws = {},
        names = {}, latent = {}, statistics = none }, "x.svg", { kind = "energy" })
    end
  end)

  it("of too many numbers: the first ones, which the title says; a title and a size that are given stay", function()
    for kind, most in pairs { trace = 8, rank = 9, marginal = 16, forest = 60, pairs = 6 } do
      local draws = pn.arange(10):to("float64"):reshape { 1, 10, 1 } + 0.5
      for extra = 0, 1 do
        local _, figure = drawn({ a = draws:broadcast_to { 1, 10, most + extra } }, { kind = kind })
        assert.equal(extra == 1 and ("the first %d of %d numbers (names says which)"):format(most, most + 1) or nil,
          figure.title)
      end
      local _, figure = drawn({ a = draws:broadcast_to { 1, 10, most + 1 } }, { kind = kind, title = "mine",
        size = { 300, 200 } })
      assert.same({ "mine", { 300, 200 } }, { figure.title, figure.size })
    end
    local panels = drawn({ a = two, b = two:unsqueeze(3):broadcast_to { 2, 10, 3 } }, { kind = "marginal",
      names = { "b[2]", "a" } })
    assert.same({ "a", "b[2]" }, { panels[1].title, panels[2].title })
  end)

  it("of replications: shares of whole numbers with the middle 90 %, curves of others", function()
    local counts = pn.tensor { 9, 0, 10, 11, 40, 10, 9, 10 }
    local function picture(m, options)
      local q = pn.nuts(m, { chains = 1, warmup = 20, draws = 60, generator = pn.generator(4) })
      local predicted
      local predict = q.predict
      q.predict = function(...)
        predicted = predict(...)
        return predicted
      end
      local panel = panels_of({ plot = function(_, ...) return posterior_plot.draw(q, ...) end }, options)[1]
      return panel, predicted
    end
    local m = pn.model(function(m)
      local rate = m:sample("rate", dist.gamma(2000, 200))
      m:observe("x", dist.normal(rate, 1), 9.5)
      m:plate("rows", 8, function() m:observe("n", dist.poisson(rate), counts) end)
    end)
    local panel, predicted = picture(m, { kind = "predictive", site = "n" })
    local n = predicted.n
    assert.same({ 40, 8 }, n:shape())
    local low, high = 0, 40
    assert.is_true(n:min():item() > low and n:max():item() < high)
    local top = 3 / 8
    for k = 0, high - low do
      local share = n:eq(low + k):to("float64"):mean(2)
      local list, got = share:totable(), {}
      top = math.max(top, curves.quantile(list, 0.95))
      for at = 1, 4 do got[at] = column(panel.marks[1], at)[k + 1] end
      near({ low + k, curves.quantile(list, 0.5), curves.quantile(list, 0.05), curves.quantile(list, 0.95) }, got)
      near({ counts:eq(low + k):to("float64"):mean():item() }, { column(panel.marks[2], 2)[k + 1] })
    end
    near({ low - 0.6, high + 0.6 }, panel.x_range)
    near({ 0, 1.1 * top }, panel.y_range)
    assert.same({ "replicated, 90 %", "observed" }, each(panel, "label"))
    assert.same({ "n", "share", "below" }, { panel.x_label, panel.y_label, panel.legend })
    assert.is_nil(panel.y_names)
    panel, predicted = picture(pn.model(function(r)
      local mu = r:sample("mu", dist.normal(0, 1))
      r:observe("z", dist.normal(mu, 1):expand { 6 }, pn.tensor { 0.5, 1.5, -1, 0.25, 3, 2.125 })
    end), { kind = "predictive" })
    assert.same({ "z", "density", {} }, { panel.x_label, panel.y_label, panel.y_names })
    assert.equal(41, #panel.marks)
    assert.same({ "replicated", false, "observed" }, { panel.marks[1].label, panel.marks[2].label or false,
      panel.marks[41].label })
    local x, height = curves.density(predicted.z[3]:totable(), 120)
    near(x, column(panel.marks[3], 1))
    near(height, column(panel.marks[3], 2))
    x, height = curves.density({ 0.5, 1.5, -1, 0.25, 3, 2.125 }, 200)
    near(x, column(panel.marks[41], 1))
    near(height, column(panel.marks[41], 2))
    panel = picture(pn.model(function(r) -- all alike: a share that no replication has
      local rate = r:sample("rate", dist.gamma(2000, 200))
      r:observe("n", dist.poisson(rate):expand { 12 }, pn.full({ 12 }, 10))
    end), { kind = "predictive" })
    near({ 0, 1.1 }, panel.y_range)
    panel = picture(pn.model(function(r) -- whole numbers that are too many for shares of each
      local rate = r:sample("rate", dist.gamma(200, 1))
      r:observe("n", dist.poisson(rate):expand { 3 }, pn.tensor { 100, 200, 160 })
    end), { kind = "predictive" })
    assert.equal(41, #panel.marks)
    refused("plot: the model observes nothing", picture, pn.model(function(r) r:sample("a", dist.normal(0, 1)) end),
      { kind = "predictive" })
  end)
end)

describe("histograms of whole numbers", function()
  it("have bins that hold as many of them each", function()
    local h = pn.plot.histogram(pn.tensor { 0, 0, 1, 2, 2, 2, 5 })
    assert.same({ 2, 1, 3, 0, 0, 1 }, h.counts)
    assert.same({ 0, 1, 2, 3, 4, 5 }, column(h, 1))
    local many = pn.plot.histogram(pn.arange(1000))
    assert.equal(40, #many.counts)
    for _, v in ipairs(many.counts) do assert.equal(25, v) end
    local few = pn.plot.histogram(pn.tensor { 1, 2, 3, 4, 5, 6 }, { bins = 3, density = true })
    for _, v in ipairs(few.counts) do assert(math.abs(v - 1 / 6) < 1e-12) end
    assert.equal(5, #pn.plot.histogram({ 0.5, 1, 2, 3 }).counts)
  end)
end)
