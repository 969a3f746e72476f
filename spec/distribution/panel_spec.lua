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
  end)

  it("is as high as its curve, or half more than what a fifth of the draws see", function()
    for _, d in ipairs { dist.normal(0, 1), dist.gamma(0.3, 1), dist.beta(0.4, 0.6), dist.chi2(0.5),
      dist.exponential(2) } do
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
