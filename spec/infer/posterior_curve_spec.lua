--- Curves and ends of intervals in pictures of a posterior, by loops over lists of its draws.
local pn = require "penumbra"
local near = require("spec.helper").near
local curves = require "spec.infer.curves"
local draw = require "penumbra.infer.posterior_plot"
local dist = pn.dist

pn.seed(5)
local p = pn.nuts(pn.model(function(m)
  local a = m:sample("a", dist.normal(0, 3))
  local b = m:sample("b", dist.gamma(2, 40))
  m:observe("y", dist.normal(a, 1 + b):expand { 5 }:independent(1), pn.tensor { 1, 2.5, 4, 0.3, -1 })
end), { chains = 2, warmup = 100, draws = 80 })

local function panels_of(options)
  local save, got, figure = pn.plot.save, nil, nil
  pn.plot.save = function(_, panels, o) got, figure = panels, o return "x" end
  local ok, message = pcall(p.plot, p, "x.svg", options)
  pn.plot.save = save
  assert(ok, message)
  return got, figure
end

local function columns(mark)
  local list = {}
  for i, line in ipairs(mark.data) do
    local k = 0
    for word in line:gmatch "%S+" do
      k = k + 1
      list[k] = list[k] or {}
      list[k][i] = tonumber(word)
    end
  end
  return list
end

local function sorted(list)
  local s = table.move(list, 1, #list, 1, {})
  table.sort(s)
  return s
end

local function all_of(name)
  local list = {}
  for _, row in ipairs(p.draws[name]:totable()) do table.move(row, 1, #row, #list + 1, list) end
  return list
end

local function same(want, got, what)
  assert.equal(#want, #got, what)
  for i, v in ipairs(want) do near(got[i], v, 1e-6) end
end

describe("curves of a posterior", function()
  it("are kernel densities", function()
    -- few draws, or equal ones
    local lists = { { 0.5, 2 }, { 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 4.5 }, { 2.5, 2.5, 2.5 } }
    for _, n in ipairs { 9, 40 } do
      lists[#lists + 1] = (pn.randn({ n }, { generator = pn.generator(n) }) * 3 + 1):totable()
    end
    for _, bounded in ipairs { true, false } do
      for _, list in ipairs(lists) do
        local at, height = draw.density(pn.tensor(list), 17, bounded)
        local x, y = curves.density(list, 17, bounded)
        same(x, at:totable(), "places")
        same(y, height:totable(), "heights")
      end
    end
  end)

  it("of traces: each chain's law, its draws, steps of round numbers", function()
    local panels, figure = panels_of {}
    assert.same({ 900, 480 }, figure.size)
    for k, name in ipairs { "a", "b" } do
      local low, high = math.huge, -math.huge
      for c = 1, 2 do
        local list = p.draws[name][c]:totable()
        local x, y = curves.density(list, 160, true)
        local seen = columns(panels[2 * k - 1].marks[c])
        same(x, seen[1])
        same(y, seen[2])
        for _, v in ipairs(list) do low, high = math.min(low, v), math.max(high, v) end
      end
      local step, best = panels[2 * k].y_step, nil
      for power = -4, 3 do -- the round number that is next to a part of 3.5 by ratio, with ends 1.5, 3.2 and 7
        for _, lead in ipairs { { 1, 0.7, 1.5 }, { 2, 1.5, 3.2 }, { 5, 3.2, 7 } } do
          local size = (high - low) / 3.5 / 10 ^ power
          if size >= lead[2] and size < lead[3] then best = lead[1] * 10 ^ power end
        end
      end
      near(step, best)
    end
  end)

  it("of ranks end a little above the largest bin or the band", function()
    for _, panel in ipairs((panels_of { kind = "rank" })) do
      local mean, top = 80 / 20, 0
      local sd = (80 * (1 / 20) * (19 / 20)) ^ 0.5
      for c = 2, 3 do
        local seen = columns(panel.marks[c])
        for b = 1, 20 do
          top = math.max(top, seen[2][2 * b])
          near(seen[1][2 * b - 1], (b - 1) * 8)
          near(seen[1][2 * b], b * 8)
        end
      end
      near(panel.y_range[2], 1.05 * math.max(top, mean + 2.5 * sd))
    end
  end)

  it("of marginals: the middle nine tenths and the mean", function()
    for k, name in ipairs { "a", "b" } do
      local panel, list = panels_of { kind = "marginal" }[k], all_of(name)
      local x, y = curves.density(list, 240, true)
      local inside, heights, mean, top = {}, {}, 0, 0
      for i, at in ipairs(x) do
        if at >= curves.quantile(list, 0.05) and at <= curves.quantile(list, 0.95) then
          inside[#inside + 1], heights[#heights + 1] = at, y[i]
        end
        top = math.max(top, y[i])
      end
      for _, v in ipairs(list) do mean = mean + v / #list end
      local band, line, middle = columns(panel.marks[1]), columns(panel.marks[2]), columns(panel.marks[3])
      same(inside, band[1])
      same(heights, band[3])
      for _, v in ipairs(band[2]) do assert.equal(0, v) end
      same(x, line[1])
      same(y, line[2])
      same({ mean, mean }, middle[1])
      same({ 0, top }, middle[2])
    end
  end)

  it("of forests: medians, halves and nine tenths, the first on top", function()
    local panels, figure = panels_of { kind = "forest" }
    local panel = panels[1]
    assert.same({ "b", "a" }, panel.y_names)
    assert.same({ 0.3, 2.7 }, panel.y_range)
    assert.same({ 640, 220 }, figure.size)
    for k, name in ipairs { "a", "b" } do
      local list, y = all_of(name), 3 - k
      local thin, thick, dot = columns(panel.marks[k]), columns(panel.marks[2 + k]), columns(panel.marks[5])
      same({ curves.quantile(list, 0.05), curves.quantile(list, 0.95) }, thin[1])
      same({ curves.quantile(list, 0.25), curves.quantile(list, 0.75) }, thick[1])
      same({ y, y }, thin[2])
      same({ y, y }, thick[2])
      near(dot[1][k], curves.quantile(list, 0.5), 1e-6)
      assert.equal(y, dot[2][k])
    end
  end)

  it("of pairs: ranges with a twentieth to spare", function()
    local panels = panels_of { kind = "pairs" }
    local function range(name)
      local s = sorted(all_of(name))
      local room = 0.05 * (s[#s] - s[1])
      return { s[1] - room, s[#s] + room }
    end
    same(range "a", panels[1].x_range)
    same(range "a", panels[2].x_range)
    same(range "b", panels[2].y_range)
    same(range "b", panels[3].x_range)
    assert.same({ nil, "a", "b" }, { panels[1].x_label, panels[2].x_label, panels[3].x_label })
    assert.equal("b", panels[2].y_label)
  end)

  it("of pairs: no more dots than 1500 in a panel and 12000 in all", function()
    local many = pn.nuts(pn.model(function(m) m:sample("v", dist.normal(pn.zeros { 6 }, 1):independent(1)) end),
      { chains = 2, warmup = 50, draws = 1000 })
    local save, got = pn.plot.save, nil
    pn.plot.save = function(_, panels) got = panels return "x" end
    for n = 2, 6 do
      local names = {}
      for k = 1, n do names[k] = ("v[%d]"):format(k) end
      many:plot("x.svg", { kind = "pairs", names = names })
      local dots = math.min(1500, 24000 // (n * (n - 1)))
      assert.equal(dots, #got[2].marks[1].data)
      local seen, list = columns(got[2].marks[1]), many.draws.v:select(3, 1):reshape({ -1 }):totable()
      near(seen[1][1], list[1], 1e-8) -- from the first draw to the last
      near(seen[1][dots], list[2000], 1e-8)
    end
    pn.plot.save = save
  end)

  it("of counts: shares with a tenth of room above, six tenths of a number beside", function()
    local y = { 0, 1, 1, 3, 2, 1 }
    local q = pn.nuts(pn.model(function(m)
      local rate = m:sample("rate", dist.gamma(2, 1))
      m:plate("rows", 6, function() m:observe("n", dist.poisson(rate), pn.tensor(y)) end)
    end), { chains = 1, warmup = 50, draws = 60 })
    local save, got = pn.plot.save, nil
    pn.plot.save = function(_, panels) got = panels return "x" end
    pn.seed(8)
    q:plot("x.svg", { kind = "predictive" })
    pn.plot.save = save
    pn.seed(8)
    local drawn, low, high, top = q:predict({ draws = 40 }).n:totable(), 0, 3, 0
    for _, row in ipairs(drawn) do
      for _, v in ipairs(row) do low, high = math.min(low, v), math.max(high, v) end
    end
    local bars, dots = columns(got[1].marks[1]), columns(got[1].marks[2])
    for k = low, high do
      local shares, own = {}, 0
      for i, row in ipairs(drawn) do
        shares[i] = 0
        for _, v in ipairs(row) do shares[i] = shares[i] + (v == k and 1 / 6 or 0) end
      end
      for _, v in ipairs(y) do own = own + (v == k and 1 / 6 or 0) end
      local i = math.tointeger(k - low + 1)
      near(dots[2][i], own, 1e-8)
      for j, p_ in ipairs { 0.5, 0.05, 0.95 } do near(bars[1 + j][i], curves.quantile(shares, p_), 1e-8) end
      top = math.max(top, own, curves.quantile(shares, 0.95))
    end
    same({ low - 0.6, high + 0.6 }, got[1].x_range)
    same({ 0, 1.1 * top }, got[1].y_range)
  end)

  it("of energies: those less their chain's mean, and the steps between", function()
    local panel = panels_of { kind = "energy" }[1]
    local level, steps = {}, {}
    for _, chain in ipairs(p.statistics.energy:totable()) do
      local mean = 0
      for _, e in ipairs(chain) do mean = mean + e / #chain end
      for k, e in ipairs(chain) do
        level[#level + 1] = e - mean
        if k > 1 then steps[#steps + 1] = e - chain[k - 1] end
      end
    end
    for k, list in ipairs { level, steps } do
      local x, y = curves.density(list, 160, true)
      local seen = columns(panel.marks[k])
      same(x, seen[1])
      same(y, seen[2])
    end
  end)

  it("of predictions: what was observed, and replications", function()
    local panel = panels_of { kind = "predictive" }[1]
    local x, y = curves.density({ 1, 2.5, 4, 0.3, -1 }, 200)
    local seen = columns(panel.marks[41])
    same(x, seen[1])
    same(y, seen[2])
    assert.equal(120, #columns(panel.marks[1])[1])
    local at, height = columns(panel.marks[1])[1], columns(panel.marks[1])[2]
    assert(math.abs(pn.trapezoid(pn.tensor(height), pn.tensor(at)):item() - 1) < 0.05)
  end)
end)
