-- Pictures of distributions. What plot.save does with a panel is spec/plot_spec.lua's.
local pn = require "penumbra"
local refuses = require("spec.helper").refuses
local dist = pn.dist

-- The numbers of a mark: {x, y} pairs.
local function data_of(panel, k)
  local list = {}
  for _, line in ipairs(panel.marks[k or 1].data) do
    local x, y = line:match "(%S+)%s+(%S+)"
    list[#list + 1] = { tonumber(x), tonumber(y) }
  end
  return list
end

describe("the picture of a distribution", function()
  it("is its density over where nearly all draws fall", function()
    local d = dist.normal(2, 3)
    local area, previous = 0, nil
    for _, v in ipairs(data_of(dist.panel(d))) do
      assert(math.abs(v[2] - d:log_prob(v[1]):exp():item()) < 1e-6)
      area = area + (previous and (v[1] - previous[1]) * (v[2] + previous[2]) / 2 or 0)
      previous = v
    end
    assert(area > 0.99 and area < 1.001, "area " .. area)
  end)

  it("has a curve a row, within the support, from 0 up", function()
    local panel = dist.panel(dist.gamma({ 0.5, 2 }, 1), { labels = { "0.5", "2" } })
    assert.equal(2, #panel.marks)
    assert.equal("0.5", panel.marks[1].label)
    assert.equal(0, panel.y_range[1])
    assert(data_of(panel)[1][1] > 0)
  end)

  it("has a dot a value for masses", function()
    local values = data_of(dist.panel(dist.categorical({ 0.2, 0.5, 0.3 })))
    assert.equal(3, #values)
    assert(math.abs(values[2][2] - 0.5) < 1e-9)
    assert.equal(2, #data_of(dist.panel(dist.bernoulli(0.3))))
  end)

  it("shows values that need not be whole, ends angles at pi, and looks at the middle of heavy tails", function()
    assert.same({ { 0.75, 1 } }, data_of(dist.panel(dist.delta(0.75))))
    local round = dist.panel(dist.von_mises(0, 0.1)).x_range
    assert(round[1] == -math.pi and round[2] == math.pi)
    assert(dist.panel(dist.cauchy(0, 1)).x_range[2] < 30)
    assert(dist.panel(dist.chi2(0.5)).y_range[2] < 1e3) -- a pole
    for _, scale in ipairs { 0.01, 1, 10, 1000 } do -- a curve fills the picture, however low
      local height = dist.panel(dist.normal(0, scale)).y_range[2] * scale * math.sqrt(2 * math.pi)
      assert(height > 1.06 and height < 1.09, height)
    end
  end)

  it("labels long numbers at 1, 2 or 5 times a power of ten, at most half as far apart as its ends", function()
    for _, range in ipairs { { 0, 1e4 }, { -1e4, 0 }, { 9e5, 9e5 + 40 }, { 1e4 - 9, 1e4 }, { -3e6, 4e6 }, { 0, 1e7 },
      { 5e4, 54001 }, { 12345, 12345.9 } } do
      local want = 0
      for power = -3, 7 do
        for _, times in ipairs { 1, 2, 5 } do
          local step = times * 10.0 ^ power
          want = step <= (range[2] - range[1]) / 2 * (1 + 1e-12) and math.max(want, step) or want
        end
      end
      local step = dist.panel(dist.normal(0, 1), { x_range = range }).x_step
      assert(math.abs(step / want - 1) < 1e-12, ("%g to %g: %g, not %g"):format(range[1], range[2], step, want))
    end
    assert.is_nil(dist.panel(dist.normal(0, 1), { x_range = { -9999, 9999 } }).x_step)
    assert.equal(1, dist.panel(dist.poisson(3), { x_range = { 0, 12 } }).x_step)
    assert.is_nil(dist.panel(dist.poisson(3), { x_range = { 0, 13 } }).x_step)
  end)

  -- The density at a draw of a normal of two numbers is uniform below its peak: a fiftieth of them is above 0.98 of it.
  it("has colours up to what a fiftieth of the draws is above, so that a peak is not alone", function()
    local d = dist.multivariate_normal { loc = { 0, 1 }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
    local top = 0
    local panel = dist.panel(d, { num_points = 101, x_range = { -3, 3 }, y_range = { -5, 7 } })
    for _, line in ipairs(panel.marks[1].data) do
      top = math.max(top, tonumber(line:match "%S+$") or 0)
    end
    local peak = d:log_prob(pn.tensor { 0, 1 }):exp():item()
    assert(math.abs(top / peak - 0.98) < 0.012, top / peak)
  end)

  it("has colours for pairs of numbers", function()
    local d = dist.multivariate_normal { loc = { 0, 1 }, scale_tril = { { 1, 0 }, { 0.5, 1 } } }
    assert.equal(1, #dist.panel(d, { num_points = 30 }).marks)
    assert.equal(1, #dist.panel(dist.normal(pn.zeros { 2 }, 1):independent(1)).marks)
  end)

  it("shows pairs where they lie, however far out, with a seventh of room on each side", function()
    local widths = {}
    for k, loc in ipairs { 0, 1000 } do
      local d = dist.multivariate_normal { loc = { loc, -loc }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
      local low, high = { math.huge, math.huge }, { -math.huge, -math.huge }
      for _, line in ipairs(dist.panel(d, { num_points = 30 }).marks[1].data) do
        local at = { line:match "(%S+) (%S+)" }
        for i = 1, 2 do
          local v = tonumber(at[i])
          low[i], high[i] = math.min(low[i], v), math.max(high[i], v)
        end
      end
      widths[k] = { high[1] - low[1], high[2] - low[2] }
      assert(low[1] < loc - 2 and high[1] > loc + 2 and low[2] < -loc - 4 and high[2] > 4 - loc)
    end
    -- the same draws about another place: more than six and less than fourteen standard deviations
    for i = 1, 2 do assert(math.abs(widths[1][i] - widths[2][i]) < 0.02 * widths[1][i]) end
    assert(widths[1][1] > 6 and widths[1][1] < 14)
  end)

  it("is of every row", function()
    for _, row in ipairs(pn.rows()) do
      if row.kind == "distribution" then
        local call = require("penumbra.shell.example").call(row)
        local panel = dist.panel(load("return " .. call, "=", "t", { pn = pn })(), { num_points = 30 })
        assert(#panel.marks >= 1 and panel.title, row.name)
      end
    end
  end)

  it("is a triangle for shares of three, white outside", function()
    local panel = dist.panel(dist.dirichlet { 2, 3, 4 }, { num_points = 20 })
    local d, inside, outside = dist.dirichlet { 2, 3, 4 }, 0, 0
    for _, line in ipairs(panel.marks[1].data) do
      local x, y, z = line:match "(%S+) (%S+) (%S+)"
      if z == "NaN" then
        outside = outside + 1
        assert(x + y >= 0.98)
      else
        inside = inside + 1
        local p = d:log_prob({ tonumber(x), tonumber(y), 1 - x - y }):exp():item()
        assert(tonumber(z) <= p * (1 + 1e-6))
      end
    end
    assert(inside > 170 and outside > 170)
  end)

  it("shows the masses of one-hot labels, and where the entries of longer events fall", function()
    local values = data_of(dist.panel(dist.one_hot_categorical { 0.2, 0.5, 0.3 }))
    assert.same({ 0, 1, 2 }, { values[1][1], values[2][1], values[3][1] })
    assert(math.abs(values[2][2] - 0.5) < 1e-9)
    local bars = dist.panel(dist.normal({ 0, 10, 20 }, 1):independent(1))
    assert.equal(2, #bars.marks)
    for k, v in ipairs(data_of(bars)) do assert(math.abs(v[2] - 10 * (k - 1)) < 0.2) end
    assert.equal(3, #dist.panel(dist.gaussian_random_walk(1, 30)).marks) -- a fan
    assert.equal("entry, row by row", dist.panel(dist.wishart { df = 5, scale_matrix = pn.eye(2) }).x_label)
  end)

  it("labels rows by what differs, and has short parameters as title", function()
    local panel = dist.panel(dist.gamma { concentration = { 0.5, 2 }, rate = 1 })
    assert.equal("gamma{concentration = {0.5, 2}, rate = 1}", panel.title)
    assert.equal("concentration", panel.legend_title)
    assert.equal("0.5", panel.marks[1].label)
    assert.equal("2", panel.marks[2].label)
    assert.equal("loc, scale", dist.panel(dist.normal({ 0, 1 }, { 1, 2 })).legend_title)
  end)

  it("can be of several distributions", function()
    local panel = dist.panel { dist.normal(0, 1), dist.gamma({ 1, 2 }, 1) }
    assert.same({ "normal(0, 1)", "gamma, 1", "gamma, 2" },
      { panel.marks[1].label, panel.marks[2].label, panel.marks[3].label })
    assert(panel.x_range[1] < -2 and panel.x_range[2] > 4)
    local masses = dist.panel { dist.poisson(2), dist.binomial(3, 0.5) }
    assert.equal("mass", masses.y_label)
    local first, second = data_of(masses, 1), data_of(masses, 3)
    assert(first[1][1] < 0 and second[1][1] > 0) -- side by side
    assert.equal(4, #second) -- no number beyond the trials
    refuses("plot: needs a distribution or a list of distributions", dist.panel, {})
    refuses("plot: item 2 must be a distribution, got number", dist.panel, { dist.normal(0, 1), 3 })
    refuses("several distributions in one picture must be of numbers", dist.panel,
      { dist.normal(0, 1), dist.dirichlet { 1, 2, 3 } })
  end)

  it("leaves out what a mask leaves out", function()
    assert.equal(2, #dist.panel(dist.masked(dist.normal({ 0, 1, 2 }, 1), pn.tensor { true, false, true })).marks)
  end)

  it("refuses what has no picture", function()
    refuses("plot: events of normal have no picture", dist.panel, dist.normal(pn.zeros { 401 }, 1):independent(1))
    refuses("plot: vectors and matrices are drawn for a batch of 1, got 2", dist.panel,
      dist.normal(pn.zeros { 2, 3 }, 1):independent(1))
    refuses("plot: batch must have 1 to 8 rows, got 9", dist.panel, dist.normal(pn.zeros { 9 }, 1))
    refuses("plot: x_range must be {low, high}", dist.panel, dist.normal(0, 1), { x_range = { 3 } })
    refuses("plot: num_points must be at least 2, got 1", dist.panel, dist.normal(0, 1), { num_points = 1 })
    refuses("unknown option 'tilte'", dist.panel, dist.normal(0, 1), { tilte = "x" })
  end)

  it("is shown without a path, and leaves no file", function()
    local shown = {}
    local plot = require "penumbra.plot"
    local show, save = plot.show, plot.save
    plot.show, plot.save = function(panel) shown[#shown + 1] = panel.title return true end, function() error "saved" end
    local mine = dist.custom { log_prob = function(_, x) return dist.normal(0, 1):log_prob(x) end,
      icdf = function(_, p) return dist.normal(0, 1):icdf(p) end }
    local ok, message = pcall(function()
      assert.is_true(mine():plot { title = "of a script" })
      mine():plot(nil, { title = "and again" })
      refuses("saved", mine().plot, mine(), "x.svg", { title = "in a file" })
      dist.normal(0, 1):plot()
      dist.normal(0, 1):plot { title = "second" }
      dist.plot({ dist.normal(0, 1), dist.gumbel(0, 1) }, nil, { title = "third" })
    end)
    plot.show, plot.save = show, save
    assert(ok, message)
    assert.same({ "of a script", "and again" }, { shown[1], shown[2] })
    assert.equal("second third", table.concat(shown, " ", #shown - 1))
    assert.equal(nil, io.open "normal.svg")
  end)

  it("is written as a file", function()
    local path = os.tmpname()
    os.remove(path)
    local made, _, code = dist.normal(0, 1):plot(path .. ".svg", { title = "A normal" })
    os.remove(path .. ".svg")
    assert(made == path .. ".svg" or code == "missing")
  end)
end)
