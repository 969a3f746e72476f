--- Pictures of a posterior: what stands in them, by the numbers that gnuplot is given.
local pn = require "penumbra"
local dist = pn.dist
local gnuplot = require "penumbra.plot.gnuplot"
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
