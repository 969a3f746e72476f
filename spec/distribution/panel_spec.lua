--- What a picture of a distribution shows, by loops over its draws: ranges, tops, stems side by side, entries.
local pn = require "penumbra"
local near = require("spec.helper").near
local dist = pn.dist

local DRAWS <const> = 2000

local function data_of(mark)
  local list = {}
  for i, line in ipairs(mark.data) do
    list[i] = {}
    for word in line:gmatch "%S+" do table.insert(list[i], tonumber(word) or word) end
  end
  return list
end

-- Draws of one number each by a generator of this seed, in order.
local function sorted(d, seed)
  local list = d:sample({ DRAWS, generator = pn.generator(seed) }):reshape({ -1 }):totable()
  table.sort(list)
  return list
end

local function at(list, level) return list[math.min(#list, math.floor(level * #list) + 1)] end

-- Where nearly all fall, but of heavy tails six widths of the middle half; a tenth of room, not beyond the support.
local function range_of(list, floor, ceiling)
  local width, middle = at(list, 0.75) - at(list, 0.25), at(list, 0.5)
  local low = math.max(at(list, 0.005), middle - 6 * width)
  local high = math.min(at(list, 0.995), middle + 6 * width)
  local room = 0.1 * (high - low)
  return { math.max(floor or -math.huge, low - room), math.min(ceiling or math.huge, high + room) }
end

describe("a panel of a distribution", function()
  it("goes as far as nearly all draws, or six widths of the middle half", function()
    for _, case in ipairs { { dist.normal(2, 3) }, { dist.cauchy(1, 2) }, { dist.student_t(1, 0, 1) },
      { dist.gamma(2, 3), 0 }, { dist.beta(2, 5), 0, 1 }, { dist.log_normal(0, 2), 0 }, { dist.laplace(-4, 1) } } do
      local d, floor, ceiling = table.unpack(case, 1, 3)
      local want, got = range_of(sorted(d, 1), floor, ceiling), dist.panel(d).x_range
      near(got[1], want[1])
      near(got[2], want[2])
    end
    -- of several the widest
    local both = dist.panel({ dist.normal(0, 1), dist.gamma(2, 1) }).x_range
    local one, two = range_of(sorted(dist.normal(0, 1), 1)), range_of(sorted(dist.gamma(2, 1), 1), 0)
    near(both[1], math.min(one[1], two[1]))
    near(both[2], math.max(one[2], two[2]))
    assert.same(both, dist.panel({ dist.gamma(2, 1), dist.normal(0, 1) }).x_range)
  end)

  it("is as high as its curve, or half more than what a fifth of the draws see", function()
    for _, d in ipairs { dist.normal(0, 1), dist.gamma(0.3, 1), dist.gamma(0.3, 0.01), dist.beta(0.4, 0.6),
      dist.chi2(0.5), dist.exponential(2) } do
      local panel, top = dist.panel(d, { num_points = 101 }), 0
      for _, row in ipairs(data_of(panel.marks[1])) do
        if row[2] ~= "NaN" then top = math.max(top, row[2]) end
        near(row[2], d:log_prob(row[1]):exp():item(), 1e-6)
      end
      local seen = d:log_prob(d:sample { DRAWS, generator = pn.generator(2) }):exp():totable()
      table.sort(seen)
      near(panel.y_range[2], 1.08 * math.min(top, 1.5 * seen[1600]), 1e-6)
      assert.equal(0, panel.y_range[1])
      -- points at equal distances, the first and last a thousandth of a step off the ends
      local first, last = panel.marks[1].data[1]:match "%S+", panel.marks[1].data[101]:match "%S+"
      local step = (panel.x_range[2] - panel.x_range[1]) / 101
      near(tonumber(first), panel.x_range[1] + step / 1000, 1e-7)
      near(tonumber(last), panel.x_range[2] - step / 1000, 1e-7)
    end
  end)

  it("has stems of rows side by side, together no wider than six tenths", function()
    for _, rows in ipairs { 1, 2, 3, 6 } do
      local rate = (pn.arange(1, rows + 1) * 1.5):to "float64"
      local d = dist.poisson(rate)
      local panel = dist.panel(d, { x_range = { -0.5, 6.5 } })
      local step = rows > 1 and math.min(0.15, 0.6 / rows) or 0
      assert.equal(2 * rows, #panel.marks)
      for row = 1, rows do
        local stems = data_of(panel.marks[2 * row - 1])
        for k = 0, 6 do
          near(stems[k + 1][1], k + (row - (rows + 1) / 2) * step)
          near(stems[k + 1][2], dist.poisson(1.5 * row):log_prob(k):exp():item(), 1e-8)
        end
      end
    end
    local two = dist.panel({ dist.poisson(2), dist.geometric(0.4) }, { x_range = { -0.5, 3.5 } })
    near(data_of(two.marks[1])[1][1], -0.075)
    near(data_of(two.marks[3])[1][1], 0.075)
    assert.same({ -0.5, 1.5 }, dist.panel(dist.bernoulli(0.3)).x_range)
    assert.same({ 0, 1 }, { data_of(dist.panel(dist.bernoulli(0.3)).marks[1])[1][1], data_of(dist.panel(
      dist.bernoulli(0.3)).marks[1])[2][1] })
  end)

  it("of very many whole numbers shows four hundred or so", function()
    local values = data_of(dist.panel(dist.poisson(2500), { x_range = { 0, 5000 } }).marks[1])
    assert.equal(1 + 5000 // 12, #values)
    for k, row in ipairs(values) do assert.equal(12 * (k - 1), row[1]) end
    assert.equal(1 + 5000 // 12, #data_of(dist.panel(dist.poisson(3500), { x_range = { 1000, 6000 } }).marks[1]))
    assert.equal(401, #data_of(dist.panel(dist.poisson(200), { x_range = { 0, 400 } }).marks[1]))
  end)

  it("of longer vectors shows each entry's quantiles", function()
    for _, n in ipairs { 4, 14 } do
      local d = dist.normal(pn.arange(n):to "float64", pn.arange(1, n + 1) * 0.5):independent(1)
      local panel = dist.panel(d)
      local x = d:sample { DRAWS, generator = pn.generator(1) }
      local function level(k, p)
        local list = x:select(2, k):totable()
        table.sort(list)
        return at(list, p)
      end
      for k = 1, n do
        if n <= 12 then
          local wide, narrow = data_of(panel.marks[1])[k], data_of(panel.marks[2])[k]
          for i, want in ipairs { k, level(k, 0.5), level(k, 0.05), level(k, 0.95) } do near(wide[i], want, 1e-8) end
          for i, want in ipairs { k, level(k, 0.5), level(k, 0.25), level(k, 0.75) } do near(narrow[i], want, 1e-8) end
        else
          for i, p in ipairs { 0.05, 0.25 } do
            local row = data_of(panel.marks[i])[k]
            near(row[2], level(k, p), 1e-8)
            near(row[3], level(k, 1 - p), 1e-8)
          end
          near(data_of(panel.marks[3])[k][2], level(k, 0.5), 1e-8)
        end
      end
      assert.same(n <= 12 and { 0.5, n + 0.5 } or { 1, n }, panel.x_range)
    end
  end)

  it("of pairs and shares has the density at each point", function()
    local d = dist.multivariate_normal { loc = { 0, 1 }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
    local seen = d:log_prob(d:sample { DRAWS, generator = pn.generator(2) }):exp():totable()
    table.sort(seen)
    local most = math.min(seen[DRAWS - DRAWS // 50], 3 * seen[DRAWS // 2])
    local rows = data_of(dist.panel(d, { num_points = 7, x_range = { -2, 2 }, y_range = { -3, 5 } }).marks[1])
    for _, row in ipairs(rows) do
      near(row[3], math.min(most, d:log_prob(pn.tensor { row[1], row[2] }):exp():item()), 1e-8)
    end
    local places = {}
    for k = 0, 6 do places[k + 1] = -2 + 4 * k / 6 end
    for k = 1, 7 do near(rows[k][1], places[k], 1e-8) end
    local law = dist.dirichlet { 2, 3, 4 }
    seen = law:log_prob(law:sample { DRAWS, generator = pn.generator(2) }):exp():totable()
    table.sort(seen)
    most = math.min(seen[DRAWS - DRAWS // 50], 3 * seen[DRAWS // 2])
    for _, row in ipairs(data_of(dist.panel(law, { num_points = 9 }).marks[1])) do
      local rest = 1 - row[1] - row[2]
      if rest > 0.25 / 9 + 1e-9 then
        near(row[3], math.min(most, law:log_prob(pn.tensor { row[1], row[2], rest }):exp():item()), 1e-8)
      else
        assert.equal("NaN", row[3])
      end
    end
  end)
end)

-- What stands beside the marks, and each way of giving it.
describe("the words and the frame of a panel", function()
  local function named(name)
    return dist.custom { name = name, log_prob = function(_, x) return dist.normal(0, 1):log_prob(x) end,
      rsample = function(_, shape, g) return pn.randn(shape, { generator = g }) end }()
  end
  local function labels_of(panel)
    local list = {}
    for _, mark in ipairs(panel.marks) do list[#list + 1] = mark.label end
    return list
  end

  it("have a title as a script writes it up to 46 letters, else the name", function()
    assert.equal(("n"):rep(44) .. "{}", dist.panel(named(("n"):rep(44))).title)
    assert.equal(("n"):rep(45), dist.panel(named(("n"):rep(45))).title)
    assert.equal("normal{loc = 0, scale = 1}", dist.panel(dist.normal(0, 1):to "float32").title)
    assert.equal("normal{loc = {0, 1}, scale = 1}", dist.panel(dist.normal({ 0, 1 }, 1):to "float32").title)
    assert.equal("mine", dist.panel(dist.normal(0, 1), { title = "mine" }).title)
    assert.is_nil(dist.panel({ dist.normal(0, 1), dist.normal(0, 2) }).title)
    local mixed = dist.mixture({ 0.3, 0.7 }, { dist.normal(-1, 0.4), dist.gamma(4, 2) })
    assert.equal("mixture", dist.panel(mixed).title) -- its text has lines
  end)

  it("label rows by all in which they differ, and laws beside others by few letters", function()
    local panel = dist.panel(dist.gamma({ { 0.5 }, { 2 } }, { 1, 3, 1 / 3 }))
    assert.equal("concentration, rate", panel.legend_title)
    assert.same({ "0.5, 1", "0.5, 3", "0.5, 0.3333", "2, 1", "2, 3", "2, 0.3333" }, labels_of(panel))
    assert.same({}, labels_of(dist.panel(dist.normal(0, 1))))
    assert.same({}, labels_of(dist.panel(dist.normal(0, 1):expand { 2 })))
    assert.is_nil(dist.panel(dist.normal(0, 1):expand { 2 }).legend_title)
    local own = dist.masked(dist.normal({ 0, 1 }, 1), pn.tensor { true, true })
    assert.same({}, labels_of(dist.panel(own)))
    local several = dist.panel { dist.student_t(3), dist.normal({ 1, 2 }, 1), dist.poisson(4):expand { 1 },
      dist.mixture({ 0.5, 0.5 }, dist.normal({ 0, 1 }, 1)), named "mine" }
    assert.same({ "student_t(3, 0, 1)", "normal, 1", "normal, 2", "poisson(4)", "mixture", "mine" },
      labels_of(several))
    assert.is_nil(several.legend_title)
    assert.equal("density", several.y_label) -- not all are masses
    local given = dist.panel({ dist.normal(0, 1), dist.normal({ 1, 2 }, 1) }, { labels = { "a", "b", "c" } })
    assert.same({ "a", "b", "c" }, labels_of(given))
    -- a legend of long labels stands below, in place of the name of x
    for length, place in pairs { [14] = false, [15] = "below" } do
      local wide = dist.panel(dist.normal(0, 1), { labels = { ("w"):rep(length) } })
      assert.equal(place or "auto", wide.legend)
      assert.equal(not place and "x" or nil, wide.x_label)
      local left = dist.panel(dist.normal(0, 1), { labels = { ("w"):rep(length) }, legend = "top left" })
      assert.same({ "top left", "x" }, { left.legend, left.x_label })
    end
    assert.same({ "density", "mass" }, { dist.panel(dist.normal(0, 1)).y_label, dist.panel(dist.poisson(1)).y_label })
  end)

  it("take ranges as they are given", function()
    for _, d in ipairs { dist.normal(0, 1), dist.poisson(3), dist.normal(pn.zeros { 4 }, 1):independent(1),
      dist.normal(pn.zeros { 13 }, 1):independent(1) } do
      local panel = dist.panel(d, { x_range = { 1, 7 }, y_range = { -1, 2 }, title = "t" })
      assert.same({ { 1, 7 }, { -1, 2 }, "t" }, { panel.x_range, panel.y_range, panel.title })
    end
    local labels = dist.panel(dist.one_hot_categorical { 0.2, 0.8 }, { y_range = { -1, 2 }, legend = "below",
      title = "t", labels = { "only" } })
    assert.same({ { -1, 2 }, { -0.5, 1.5 }, "below", "t", "only", "class, from 0", "mass" }, { labels.y_range,
      labels.x_range, labels.legend, labels.title, labels_of(labels)[1], labels.x_label, labels.y_label })
  end)

  it("end where masses do", function()
    assert.same({ -0.25, 1.75 }, dist.panel(dist.delta(0.75)).x_range)
    local few = dist.empirical { values = { 0.5, 2.5, 1.25 }, log_weights = { 0, 0, 0 } }
    local panel = dist.panel(few)
    near(panel.x_range[1], 0.3)
    near(panel.x_range[2], 2.7)
    assert.same({ 0.5, 1.25, 2.5 }, { data_of(panel.marks[1])[1][1], data_of(panel.marks[1])[2][1],
      data_of(panel.marks[1])[3][1] })
    local many = pn.arange(300):to "float64" / 8
    assert.equal(200, #data_of(dist.panel(dist.empirical { values = many, log_weights = pn.zeros { 300 } }).marks[1]))
    for _, case in ipairs { { dist.categorical { 0.2, 0.5, 0.3 }, 2 }, { dist.binomial({ 3, 5 }, 0.5), 5 },
      { dist.bernoulli(0.5), 1 } } do
      for _, o in ipairs { {}, { x_range = { -2.5, 9.5 } } } do
        local seen = data_of(dist.panel(case[1], o).marks[1])
        assert.equal(case[2] + 1, #seen)
        for k, row in ipairs(seen) do assert(math.abs(row[1] - (k - 1)) < 0.3) end
      end
      assert.same({ -0.5, case[2] + 0.5 }, dist.panel(case[1]).x_range)
    end
    -- whole numbers of the range of the draws, ends of it among them
    for _, rate in ipairs { 1, 20 } do
      local want = range_of(sorted(dist.poisson(rate), 1), 0)
      local got = dist.panel(dist.poisson(rate)).x_range
      assert.same({ math.max(0, math.ceil(want[1])) - 0.5, math.floor(want[2]) + 0.5 }, got)
    end
    -- where the middle half is one value the tails are all seen; else six widths of the middle half, the median its end
    for _, case in ipairs { { 0.1, 0.88 }, { 0.3, 0.68 } } do
      local counts = dist.custom { support = "nonnegative_integer", log_prob = function(_, x) return x * 0 end,
        sample = function(_, shape, g)
          local u = pn.rand(shape, { generator = g })
          return pn.where(u:lt(case[1]), 0 * u, pn.where(u:lt(case[1] + case[2]), 0 * u + 1, 0 * u + 100))
        end }()
      local got = dist.panel(counts).x_range
      assert.same({ -0.5, case[1] < 0.25 and 110.5 or 7.5 }, got)
    end
    local counts = data_of(dist.panel(dist.poisson(2), { x_range = { 1, 4 } }).marks[1])
    assert.same({ 4, 1, 4 }, { #counts, counts[1][1], counts[4][1] })
    -- draws that are all equal have a tenth of their size beside them, at least 1
    for loc, room in pairs { [5] = 1, [-1] = 1, [30] = 3, [-30] = 3 } do
      local range = dist.panel(dist.normal(loc, 1e-300)).x_range
      near(range[1], loc - room)
      near(range[2], loc + room)
    end
    assert.equal(0, dist.panel(dist.half_normal(1)).x_range[1])
    assert.equal(0, dist.panel(dist.gamma(1, 1)).x_range[1])
    local share = dist.panel(dist.relaxed_bernoulli(0.2, 0.5)).x_range
    assert.same({ 0, 1 }, share)
  end)

  it("leave out all rows of a mask, and masses of one kind of label", function()
    local none = dist.masked(dist.normal({ 0, 1 }, 1), pn.tensor { false, false })
    assert.error_matches(function() dist.panel(none) end, "needs at least one mark")
    local p = { { 0.2, 0.5, 0.3 }, { 0.6, 0.1, 0.3 } }
    local panel = dist.panel(dist.one_hot_categorical(p), { labels = { "a", "b" } })
    assert.same({ 0, 0.6 * 1.08 }, panel.y_range)
    for row = 1, 2 do
      for k, v in ipairs(data_of(panel.marks[2 * row - 1])) do
        assert.equal(k - 1, v[1])
        near(v[2], p[row][k], 1e-9)
      end
    end
    for classes, step in pairs { [12] = 1, [13] = false } do
      local d = dist.one_hot_categorical(pn.full({ classes }, 1 / classes))
      assert.equal(step or nil, dist.panel(d).x_step)
      local v = dist.panel(dist.normal(pn.zeros { classes }, 1):independent(1))
      assert.equal(step or nil, v.x_step)
      assert.equal(step and 2 or 3, #v.marks)
      assert.same({ "entry", "50 % and 90 % of draws" }, { v.x_label, v.y_label })
    end
  end)

  it("of pairs reach over what draws see, a seventh more, and no lower than a variance", function()
    local function ends(panel)
      local low, high = { math.huge, math.huge }, { -math.huge, -math.huge }
      for _, row in ipairs(data_of(panel.marks[1])) do
        for i = 1, 2 do low[i], high[i] = math.min(low[i], row[i]), math.max(high[i], row[i]) end
      end
      return low, high
    end
    local d = dist.multivariate_student_t { df = 1.5, loc = { 3, -1 }, scale_tril = { { 1, 0 }, { 0.5, 2 } } }
    local low, high = ends(dist.panel(d, { num_points = 5 }))
    local draws = d:sample { DRAWS, generator = pn.generator(1) }
    for i = 1, 2 do
      local list = draws:select(2, i):totable()
      table.sort(list)
      local width, middle = at(list, 0.75) - at(list, 0.25), at(list, 0.5)
      local a = math.max(at(list, 0.005), middle - 4 * width)
      local b = math.min(at(list, 0.995), middle + 4 * width)
      near(low[i], a - 0.15 * (b - a), 1e-8)
      near(high[i], b + 0.15 * (b - a), 1e-8)
    end
    local joint = dist.normal_inverse_gamma { loc = 0, count = 1, concentration = 2, rate = 1 }
    assert.equal("mean_and_variance", joint.support)
    assert.equal(0, (ends(dist.panel(joint, { num_points = 5 })))[2])
    assert.equal(150 * 150, #dist.panel(d, { num_points = 151 }).marks[1].data)
    assert.same({ "x_1", "x_2" }, { dist.panel(d, { num_points = 3 }).x_label, dist.panel(d, { num_points = 3 })
      .y_label })
    local shares = dist.panel(dist.dirichlet { 2, 3, 4 }, { num_points = 4 })
    assert.same({ "x_1", "x_2  (x_3 is the rest)" }, { shares.x_label, shares.y_label })
    local first, last = ends(shares)
    assert.same({ 0.125, 0.125, 0.875, 0.875 }, { first[1], first[2], last[1], last[2] })
    assert.equal("mine", dist.panel(dist.dirichlet { 2, 3, 4 }, { title = "mine", num_points = 3 }).title)
    assert.equal("mine", dist.panel(d, { title = "mine", num_points = 3 }).title)
    -- neither of these is a pair of numbers that may be drawn by its density
    for _, entries in ipairs { dist.dirichlet { 2, 3 }, dist.dirichlet { 2, 3, 4, 5 },
      dist.multinomial(5, { 0.3, 0.7 }), dist.normal(pn.zeros { 3 }, 1):independent(1) } do
      assert.equal(2, #dist.panel(entries).marks)
    end
    assert.equal(3, #dist.panel(dist.normal(pn.zeros { 400 }, 1):independent(1)).marks)
  end)

  it("are refused where they are none", function()
    local n = dist.normal(0, 1)
    for _, case in ipairs { { "plot: x_range must be {low, high}", n, { x_range = { 2, 1 } } },
      { "plot: x_range must be {low, high}", n, { x_range = { 1, 1 } } },
      { "plot: y_range must be {low, high}", n, { y_range = { 1, "2" } } },
      { "plot: y_range must be {low, high}", n, { y_range = { "1", 2 } } },
      { "plot: num_points must be at least 2, got 1.5", n, { num_points = 1.5 } },
      { "plot: batch must have 1 to 8 rows, got 0", dist.normal(pn.zeros { 0 }, 1) },
      { "plot: batch must have 1 to 8 rows, got 9", { n:expand { 5 }, n:expand { 2, 2 } } },
      { "plot: batch must have 1 to 8 rows, got 9", dist.one_hot_categorical(pn.full({ 9, 2 }, 0.5)) },
      { "plot: batch must have 1 to 8 rows, got 0", dist.one_hot_categorical(pn.full({ 0, 2 }, 0.5)) },
      { "plot: vectors and matrices are drawn for a batch of 1, got 2", dist.dirichlet { { 1, 2, 3 }, { 1, 2, 3 } } },
      { "plot: events of normal have no picture: at most 400 numbers do, got 0",
        dist.normal(pn.zeros { 0 }, 1):independent(1) },
      { "plot: events of normal have no picture: at most 400 numbers do, got 401",
        dist.normal(pn.zeros { 401 }, 1):independent(1) },
      { "plot: item 1 must be a distribution, got number", { 3 } },
      { "plot: item 1 must be a distribution, got userdata", { pn.ones { 2 } } } } do
      local ok, message = pcall(dist.panel, case[2], case[3])
      assert(not ok and message:find(case[1], 1, true), case[1] .. ": " .. tostring(message))
    end
    assert.equal(8, #dist.panel({ n:expand { 4 }, n:expand { 2, 2 } }).marks)
    assert.equal(16, #dist.panel(dist.one_hot_categorical(pn.full({ 8, 2 }, 0.5))).marks)
    assert.equal(2, #dist.panel(n, { num_points = 2 }).marks[1].data)
  end)
end)
