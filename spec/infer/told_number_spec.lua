--- Numbers that are told beside draws and fits, each by a loop: energy fractions, the bound of the last steps, bands of
--- uniform numbers, the colours of chains.
local pn = require "penumbra"
local near = require("spec.helper").near
local uniformity = require "penumbra.infer.uniformity"
local dist = pn.dist

local model = pn.model(function(m)
  local a = m:sample("a", dist.normal(0, 1))
  m:observe("y", dist.normal(a, 1):expand { 3 }:independent(1), pn.tensor { 1, 2, 4 })
end)

describe("what is told of draws", function()
  it("is each chain's share of the energy that momenta move", function()
    pn.seed(3)
    local p = pn.nuts(model, { chains = 3, warmup = 50, draws = 60 })
    local energy = p.statistics.energy:totable()
    for c = 1, 3 do
      local mean, steps, spread = 0, 0, 0
      for _, e in ipairs(energy[c]) do mean = mean + e / 60 end
      for k, e in ipairs(energy[c]) do
        spread = spread + (e - mean) ^ 2
        if k > 1 then steps = steps + (e - energy[c][k - 1]) ^ 2 end
      end
      near(p.e_bfmi[c], steps / spread, 1e-9)
    end
  end)

  it("colours chains in turn, each its own up to the sixth", function()
    pn.seed(3)
    local p = pn.nuts(model, { chains = 8, warmup = 5, draws = 8 })
    local save, got = pn.plot.save, nil
    pn.plot.save = function(_, panels) got = panels return "x" end
    local ok, message = pcall(p.plot, p, "x.svg")
    pn.plot.save = save
    assert(ok, message)
    local seen = {}
    for c = 1, 8 do seen[c] = got[2].marks[c].colour or got[2].marks[c].style:match "#%x+" end
    assert.equal(seen[1], seen[7])
    assert.equal(seen[2], seen[8])
    local other = {}
    for c = 1, 6 do
      assert.is_string(seen[c])
      assert.is_nil(other[seen[c]])
      other[seen[c]] = true
    end
  end)
end)

describe("what is told of a fit", function()
  it("is the bound's mean over the last tenth of the steps, one at least", function()
    pn.seed(1)
    for steps, count in pairs { [3] = 1, [10] = 1, [25] = 2, [47] = 4 } do
      local fit = pn.svi(model, "mean_field", { steps = steps })
      for k = 1, steps do fit.losses[k] = (k * 7 % 13) + k * 0.25 end
      local sum = 0
      for k = steps - count + 1, steps do sum = sum + fit.losses[k] end
      local text = tostring(fit)
      local bound = ("%.3f"):format(-sum / count)
      assert(text:find(("bound %s (last %d steps)"):format(bound, count), 1, true), text)
    end
    local fit = pn.svi(model, "mean_field", { steps = 2 })
    fit.losses = { 1e12, 2e12 }
    assert.matches("bound %-2e%+12 %(last 1 steps%)", tostring(fit))
  end)
end)

describe("a picture of ranks", function()
  local function drawn(object, ...)
    local save, got = pn.plot.save, nil
    pn.plot.save = function(_, panels) got = panels return "x" end
    local ok, message = pcall(object.plot, object, "x.svg", ...)
    pn.plot.save = save
    assert(ok, message)
    return got
  end

  local function columns(mark)
    local list = { {}, {}, {}, {} }
    for i, line in ipairs(mark.data) do
      local k = 0
      for word in line:gmatch "%S+" do
        k = k + 1
        list[k][i] = tonumber(word)
      end
    end
    return list
  end

  -- values: whole numbers of n cells; the share below each point less that of uniform ones, in its band.
  local function check(panel, law, values, level)
    local band, line = columns(panel.marks[1]), columns(panel.marks[2])
    local low, high = law:band(level)
    local n, last = #values, #law.points + 2
    assert.equal(last, #band[1])
    for j = 1, last do
      local at = j == 1 and 0 or j == last and 1 or law.points[j - 1] / law.cells
      local below = 0
      for _, v in ipairs(values) do below = below + (v < at * law.cells - 1e-9 and 1 or 0) end
      local inner = j > 1 and j < last
      near(band[1][j], at, 1e-8)
      near(line[1][j], at, 1e-8)
      near(line[2][j], inner and below / n - at or 0, 1e-8)
      near(band[2][j], inner and low[j - 1] / n - at or 0, 1e-8)
      near(band[3][j], inner and high[j - 1] / n - at or 0, 1e-8)
    end
  end

  it("has the shares below less those of uniform ones, in their band", function()
    pn.seed(4)
    local sbc = pn.sbc(model, { simulations = 24, draws = 9, level = 0.9, sampler = function(_, n)
      return { a = pn.randn { n } }
    end })
    local panels = drawn(sbc)
    assert.equal(2 * #sbc.names, #panels)
    for k, name in ipairs(sbc.names) do
      check(panels[2 * k - 1], sbc.law, sbc.ranks[name]:totable(), 0.9)
      assert.matches("^" .. name .. " %(p = ", panels[2 * k - 1].title)
    end
    local y, draws = pn.randn { 30 }, pn.randn { 40, 30 } * 1.5
    local c = pn.calibration(y, draws)
    local cells = {}
    for i, v in ipairs(c.pit:totable()) do cells[i] = math.min(999, math.floor(v * 1000)) end
    panels = drawn(c)
    check(panels[1], c.law, cells, 0.99)
    local shares = columns(panels[3].marks[2])
    for k, level in ipairs { 0.5, 0.8, 0.9, 0.95 } do
      local within, widths, error_of = 0, 0, math.sqrt(level * (1 - level) / 30)
      for i = 1, 30 do
        local list = draws:select(2, i):totable()
        table.sort(list)
        local ends = {}
        for e, p in ipairs { (1 - level) / 2, (1 + level) / 2 } do
          local at = 1 + 39 * p
          local low = math.min(39, math.floor(at))
          ends[e] = list[low] + (at - low) * (list[low + 1] - list[low])
        end
        widths = widths + (ends[2] - ends[1]) / 30
        within = within + (y[i]:item() >= ends[1] and y[i]:item() <= ends[2] and 1 / 30 or 0)
      end
      near(c[k].coverage, within, 1e-9)
      near(c.coverage[level], within, 1e-9)
      near(c[k].width, widths, 1e-9)
      near(c[k].standard_error, error_of, 1e-9)
      near(shares[1][k], level, 1e-9)
      near(shares[2][k], within, 1e-8)
      near(shares[3][k], within - 2 * error_of, 1e-8)
    end
  end)
end)

describe("a band of uniform numbers", function()
  -- Probabilities of a binomial by products.
  local function binomial(n, p)
    local mass = { [0] = (1 - p) ^ n }
    for k = 1, n do mass[k] = mass[k - 1] * (n - k + 1) / k * p / (1 - p) end
    return mass
  end

  -- (Of two tails that are equal, rounding may leave one out.)
  it("is no wider than the narrowest of those whose tails are alike that holds its level", function()
    for _, size in ipairs { { 5, 4 }, { 4, 7 }, { 6, 3 } } do
      local n, cells = size[1], size[2]
      local law = uniformity.new(n, cells)
      local tails, at_once = {}, {}
      for j, point in ipairs(law.points) do
        local mass, sum = binomial(n, point / cells), 0
        tails[j] = {}
        for r = 0, n do
          local above = 1 - sum
          sum = sum + mass[r]
          tails[j][r] = { sum, above } -- of r or fewer, of r or more
          at_once[#at_once + 1] = 2 * sum
          at_once[#at_once + 1] = 2 * above
        end
      end
      table.sort(at_once)
      -- all outcomes: the least gamma that leaves each out
      local outcomes = {}
      for k = 0, math.tointeger(cells ^ n) - 1 do
        local values, rest, least = {}, k, math.huge
        for i = 1, n do values[i], rest = rest % cells, rest // cells end
        for j, r in ipairs(law:counts(values)) do
          least = math.min(least, 2 * tails[j][r][1], 2 * tails[j][r][2])
        end
        outcomes[k + 1] = least
      end
      for _, level in ipairs { 0.5, 0.8, 0.95 } do
        local best = 0
        for i = 1, #at_once do
          local gamma, within = (at_once[i] + (at_once[i + 1] or 2)) / 2, 0 -- between two that differ
          for _, least in ipairs(outcomes) do within = within + (least > gamma and 1 or 0) end
          local apart = (at_once[i + 1] or 2) - at_once[i] > 1e-9
          if apart and within / #outcomes >= level then best = math.max(best, gamma) end
        end
        local least, most = law:band(level)
        for j in ipairs(law.points) do
          local low, high = 0, n
          while 2 * tails[j][low][1] <= best do low = low + 1 end
          while 2 * tails[j][high][2] <= best do high = high - 1 end
          assert(low <= least[j] and most[j] <= high, ("n %d, level %g, point %d"):format(n, level, j))
        end
      end
    end
  end)
end)
