--- Fan charts and traces of filters: what stands in the picture.
local pn = require "penumbra"
local plot = pn.plot

-- The program of a picture, its texts as they are meant.
local function script(content)
  local text = plot.script("a.svg", "svg", content)
  return (text:gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end))
end

-- The numbers of data block k of a gnuplot script.
local function block(text, k)
  local body = assert(text:match("%$data" .. k .. " << EOD\n(.-)EOD"), "no block " .. k)
  local rows = {}
  for line in body:gmatch "[^\n]+" do
    local row = {}
    for word in line:gmatch "%S+" do row[#row + 1] = tonumber(word) or word end
    rows[#rows + 1] = row
  end
  return rows
end

local function near(got, want)
  for i, row in ipairs(want) do
    for k, v in ipairs(row) do
      assert.is_true(math.abs(got[i][k] - v) < 1e-8, ("row %d: %s, not %s"):format(i, got[i][k], v))
    end
  end
  assert.equal(#want, #got)
end

describe("pn.plot.fan_chart", function()
  it("draws the quantiles of draws, the widest band first, then median, data and start", function()
    local draws = pn.stack({ pn.arange(0, 101), pn.arange(0, 101) * 2 }, 2)
    local text = script(plot.fan_chart { draws = draws, levels = { 0.5, 0.9 }, x = { 10, 20 }, start = 15,
      observations = { 3 }, title = "f" })
    near(block(text, 1), { { 10, 5, 95 }, { 20, 10, 190 } })
    near(block(text, 2), { { 10, 25, 75 }, { 20, 50, 150 } })
    near(block(text, 3), { { 10, 50 }, { 20, 100 } })
    near(block(text, 4), { { 10, 3 } })
    near(block(text, 5), { { 10, 3 } })
    near(block(text, 6), { { 15, 3 }, { 15, 190 } })
    for _, word in ipairs { 'title "90%"', 'title "50%"', 'title "median"', 'title "observed"' } do
      assert.matches(word, text, 1, true)
    end
    -- darker within: the tints are colours of their own, so that the legend shows what the picture has
    assert.is_truthy(text:find("#e0e9f4", 1, true) and text:find("#78a0ce", 1, true))
  end)

  it("draws those of a normal", function()
    local text = script(plot.fan_chart { mean = pn.tensor { 1, 2 }, variance = { 4, 9 }, levels = { 0.95 } })
    local z = 1.959963984540054
    near(block(text, 1), { { 1, 1 - 2 * z, 1 + 2 * z }, { 2, 2 - 3 * z, 2 + 3 * z } })
    near(block(text, 2), { { 1, 1 }, { 2, 2 } })
  end)

  it("takes what pn.smc.hmm forecasts", function()
    pn.seed(1)
    local m = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
      emission = pn.dist.normal(pn.tensor { -1, 1 }, 0.5) }
    local _, y = m:sample(20)
    local f = m:forecast(y, 5)
    local text = script(plot.fan_chart { draws = f.observations:sample { 200 }, x = pn.arange(21, 26), start = 20.5,
      observations = y, observed_at = pn.arange(1, 21) })
    assert.equal(5, #block(text, 1))
    assert.equal(20, #block(text, 5))
  end)

  it("refuses what does not fit", function()
    local cases = {
      ["either draws or mean and variance"] = {}, ["variance must be given beside mean"] = { mean = { 1, 2 } },
      ["draws must have shape [S, T], got [2]"] = { draws = { 1, 2 } },
      ["variance must have shape [2]"] = { mean = { 1, 2 }, variance = { 1 } },
      ["levels must lie between 0 and 1, got 95 at 1"] = { mean = { 1 }, variance = { 1 }, levels = { 95 } },
      ["observed_at must be given for 2 observations"] = { mean = { 1 }, variance = { 1 }, observations = { 1, 2 } },
      ["unknown option 'observation'"] = { observation = 1 },
    }
    for pattern, o in pairs(cases) do
      local ok, message = pcall(function() plot.fan_chart(o) end)
      assert.is_false(ok, pattern)
      assert.matches("chart_spec.lua:%d+:", message)
      assert.matches(pattern, message, 1, true)
    end
  end)
end)

describe("pn.plot.filter_trace", function()
  local trace = { effective_sample_size = pn.tensor { { 80, 10 }, { 40, 20 }, { 90, 30 } },
    resampled = pn.tensor { { 0, 1 }, { 0, 0 }, { 1, 0 } }, largest_weight = pn.full({ 3, 2 }, 0.1),
    log_increment = pn.tensor { { -1, -4 }, { -math.huge, -5 }, { -3, -6 } },
    unique_ancestors = pn.tensor { { 100, 1 }, { 100, 2 }, { 35, 3 } } }

  it("draws size, resampling, increments and ancestors, of the filter that is asked for", function()
    local panels = plot.filter_trace(trace, { num_particles = 100, threshold = 0.4 })
    assert.equal(4, #panels)
    local text = script(panels)
    local first = text:match "set title \"effective.-unset title"
    near(block(first, 1), { { 1, 80 }, { 2, 40 }, { 3, 90 } })
    near(block(first, 2), { { 3, 90 } })
    near(block(first, 3), { { 1, 40 }, { 3, 40 } })
    assert.matches('title "threshold 40"', first, 1, true)
    local second = text:match "set title \"increment.-unset title"
    assert.same({ 2, "NaN" }, block(second, 1)[2]) -- left out
    near(block(text:match "set title \"unique.-unset title", 1), { { 1, 100 }, { 2, 100 }, { 3, 35 } })
    for k, top in pairs { 102, nil, 102, 1 } do assert.same({ 0, top }, panels[k].y_range) end
    local alone = plot.filter_trace(trace, { filter = 2 })
    for k, top in pairs { 30 * 1.05, nil, 3 * 1.05, 1 } do
      assert.equal(0, alone[k].y_range[1])
      assert.is_true(math.abs(alone[k].y_range[2] - top) < 1e-12)
    end
    local other = script(plot.filter_trace(trace, { filter = 2, x = { 5, 6, 7 } }))
    near(block(other, 1), { { 5, 10 }, { 6, 20 }, { 7, 30 } })
    near(block(other, 2), { { 5, 10 } })
  end)

  it("refuses what is no trace", function()
    local cases = {
      ["filter must be one of 2, got 3"] = function() plot.filter_trace(trace, { filter = 3 }) end,
      ["trace must be a table"] = function() plot.filter_trace(pn.ones { 3 }) end,
      ["trace must be what s:trace() gives"] = function() plot.filter_trace {} end,
      ["x must have shape [3]"] = function() plot.filter_trace(trace, { x = { 1 } }) end,
    }
    for pattern, f in pairs(cases) do
      local ok, message = pcall(f)
      assert.is_false(ok, pattern)
      assert.matches("chart_spec.lua:%d+:", message)
      assert.matches(pattern, message, 1, true)
    end
  end)
end)

describe("pictures of forecasts", function()
  it("have tints from light to dark, all that a panel is told, and their parts as they are asked for", function()
    local told = { title = "t", x_label = "u", y_label = "v", x_range = { 1, 9 }, y_range = { -4, 4 }, x_log = true,
      y_log = true, legend = "top left", legend_title = "w" }
    local o = { draws = pn.arange(0, 101):unsqueeze(2):to "float32", colour = "#000000", label = "mid", start = 2,
      observations = { 3, 4 }, observed_at = { 1, 2 } }
    for name, value in pairs(told) do o[name] = value end
    local p = plot.fan_chart(o)
    for name, value in pairs(told) do assert.same(value, p[name], name) end
    -- of black: white shares 0.85, 0.60 and 0.35 of 255, rounded
    local labels = { "95%", "80%", "50%", "mid", false, "observed", false }
    local colours = { "#d9d9d9", "#999999", "#595959", "#000000", "#333333", "#333333", "#333333" }
    for k, m in ipairs(p.marks) do
      assert.same({ labels[k], colours[k] }, { m.label or false, m.colour }, k)
    end
    assert.equal(7, #p.marks)
    for k = 1, 3 do assert.matches("solid 1 noborder", p.marks[k].style) end
    assert.same({ "1 2.5 97.5" }, p.marks[1].data)
    assert.same({ "1 3", "2 4" }, p.marks[5].data)
    assert.same({ "2 2.5", "2 97.5" }, p.marks[7].data) -- over all that is drawn
    for k, thin in pairs { [4] = "2 dashtype 1 ", [5] = "0.8 dashtype 1 ", [7] = "1.2 dashtype 2 " } do
      assert(p.marks[k].style:find("linewidth " .. thin, 1, true), k)
    end
    assert(p.marks[6].style:find("pointsize 0.35 ", 1, true))
    local bare = plot.fan_chart { mean = { 1, 2, 3 }, variance = { 1, 1, 1 }, observations = { 5, 0 / 0 }, start = 1 }
    assert.same({ false, "auto" }, { bare.title or false, bare.legend })
    assert.same({ "1 5", "2 NaN" }, bare.marks[5].data) -- at the first of x
    assert.equal("median", bare.marks[4].label)
    assert.equal("1 5", bare.marks[7].data[2]) -- the highest is what was seen
    assert.near(1 - 1.959963984540054, tonumber(bare.marks[7].data[1]:match "%S+$"), 1e-8)
    for seen, ends in pairs { [200] = { "1 25", "1 200" }, [-5] = { "1 -5", "1 75" } } do
      local single = plot.fan_chart { draws = pn.arange(0, 101):unsqueeze(2), levels = { 0.5 }, start = 1,
        observations = { seen } }
      assert.same(ends, single.marks[5].data)
    end
    assert.equal(9, #plot.fan_chart({ mean = { 1 }, variance = { 1 }, levels = { 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
      0.5 } }).marks) -- as often as it is said
    local line = plot.fan_chart { mean = { 1, 2 }, variance = { 1, 1 }, observations = { 5, 6 } }
    assert.equal(6, #line.marks) -- as many as there are steps, and no start
  end)

  it("refuse each what they cannot draw", function()
    local refuses = require("spec.helper").refuses
    refuses("fan_chart: either draws or mean and variance", plot.fan_chart, { draws = { { 1 } }, mean = { 1 },
      variance = { 1 } })
    refuses("fan_chart: draws must have shape [S, T], got [0, 2]", plot.fan_chart, { draws = pn.ones { 0, 2 } })
    refuses("fan_chart: draws must have shape [S, T], got [1, 1, 1]", plot.fan_chart, { draws = pn.ones { 1, 1, 1 } })
    refuses("fan_chart: mean must be a tensor or a list of numbers, got 3", plot.fan_chart, { mean = 3, variance = 3 })
    refuses("fan_chart: draws must be a tensor or a list of numbers, got 3", plot.fan_chart, { draws = 3 })
    refuses("fan_chart: mean must have shape [T], got [1, 1]", plot.fan_chart, { mean = { { 1 } }, variance = { 1 } })
    refuses("fan_chart: x must have shape [1], got [2]", plot.fan_chart, { draws = { { 1 } }, x = { 1, 2 } })
    refuses("fan_chart: observed_at must have shape [2], got [1]", plot.fan_chart, { draws = { { 1 } },
      observations = { 1, 2 }, observed_at = { 1 } })
    refuses("observed_at must be given for 2 observations beside 1 steps", plot.fan_chart, { draws = { { 1 } },
      observations = { 1, 2 } })
    refuses("fan_chart: levels must hold at least one number", plot.fan_chart, { draws = { { 1 } }, levels = {} })
    for bad, text in pairs { [0] = "0", [1] = "1", half = "half" } do
      refuses("fan_chart: levels must lie between 0 and 1, got " .. text .. " at 2", plot.fan_chart,
        { draws = { { 1 } }, levels = { 0.5, bad } })
    end
  end)
end)

describe("a filter's pictures", function()
  local function trace(more)
    local t = { effective_sample_size = { 8, 4 }, resampled = { 0, 0 }, largest_weight = { 0.1, 0.2 },
      log_increment = { -1, -2 }, unique_ancestors = { 10, 6 } }
    for name, value in pairs(more or {}) do t[name] = value end
    for name, value in pairs(t) do t[name] = type(value) == "table" and pn.tensor(value) or value end
    return t
  end

  it("have titles, what stands along x where no legend does, and thin blue lines", function()
    local titles = { "effective sample size", "increment of the log-evidence", "unique ancestors", "largest weight" }
    for _, case in ipairs { { trace(), {}, 1 }, { trace { resampled = { 1, 0 } }, { x_label = "day" }, 2 },
      { trace(), { num_particles = 10, threshold = 0.25 }, 2 } } do
      local panels = plot.filter_trace(case[1], case[2])
      for k, p in ipairs(panels) do
        assert.same({ titles[k], "below" }, { p.title, p.legend })
        assert.equal(k == 1 and case[3] or 1, #p.marks)
        assert.equal(#p.marks == 1 and (case[2].x_label or "step") or nil, p.x_label)
        assert.equal("#2f6db3", p.marks[1].colour)
        assert.matches("linewidth 1.3 dashtype 1 ", p.marks[1].style)
      end
    end
    local resampled = plot.filter_trace(trace { resampled = { 1, 0 } })[1].marks[2]
    assert.same({ "resampled before", "#b5486a", { "1 8" } }, { resampled.label, resampled.colour, resampled.data })
    assert.matches("pointsize 0.45 ", resampled.style)
    local line = plot.filter_trace(trace(), { num_particles = 10, threshold = 0.25, x = { 3, 7 } })[1].marks[2]
    assert.same({ "threshold 2.5", "#333333", { "3 2.5", "7 2.5" } }, { line.label, line.colour, line.data })
    assert.matches("linewidth 1 dashtype 2 ", line.style)
    assert.equal("threshold 5", plot.filter_trace(trace(), { num_particles = 10 })[1].marks[2].label)
  end)

  it("refuse what is no trace, by the part that is none", function()
    local refuses = require("spec.helper").refuses
    for name, bad in pairs { resampled = 3, log_increment = pn.tensor(1), largest_weight = "x" } do
      refuses(("trace must be what s:trace() gives, a table of tensors [T, B...]: %s is a %s"):format(name,
        type(bad)), plot.filter_trace, trace { [name] = bad })
    end
    refuses("filter_trace: filter must be a whole number from 1 on, got 0", plot.filter_trace, trace(), { filter = 0 })
    local none = {}
    for name in pairs(trace()) do none[name] = pn.ones { 0, 1 } end
    refuses("filter_trace: trace must have at least one step", plot.filter_trace, none)
    none.effective_sample_size = pn.ones { 1, 2 }
    refuses("filter_trace: filter must be one of 1, got 2", plot.filter_trace, trace { resampled = pn.ones { 2, 1 },
      effective_sample_size = pn.ones { 2, 2 } }, { filter = 2 })
  end)
end)

describe("pictures of predictions", function()
  local refuses = require("spec.helper").refuses
  local function words_of(m)
    local list = {}
    for k, line in ipairs(m.data) do
      list[k] = line:gsub('"', ""):gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end)
    end
    return list
  end

  it("have the intervals of Agresti and Coull within 0 and 1, and the range of the bins", function()
    local bins = { { confidence = 0.1, accuracy = 0, count = 3 }, { confidence = 0.5, accuracy = 0.5, count = 12 },
      { confidence = 0.995, accuracy = 1 } } -- a bin without a count has one datum
    local p = plot.reliability(bins)
    local want, lowest = {}, 1
    for k, bin in ipairs(bins) do
      local n, hits = bin.count or 1, bin.accuracy * (bin.count or 1)
      local centre = (hits + 2) / (n + 4)
      local half = 2 * (centre * (1 - centre) / (n + 4)) ^ 0.5
      want[k] = { bin.confidence, bin.accuracy, math.max(0, math.min(bin.accuracy, centre - half)),
        math.min(1, math.max(bin.accuracy, centre + half)) }
      lowest = math.min(lowest, want[k][3])
    end
    near(block(script(p), 2), want)
    assert.same({ 0.08, 1 }, p.x_range)
    assert.same({ 0, 1.02 }, p.y_range)
    assert.same({ "0.08 0.08", "1 1" }, p.marks[1].data)
    assert.same({ "calibrated", "observed", false }, { p.marks[1].label, p.marks[2].label, p.marks[3].label or false })
    assert.same({ "confidence", "accuracy" }, { p.x_label, p.y_label })
    assert.same({ "#333333", "#2f6db3", "#2f6db3" }, { p.marks[1].colour, p.marks[2].colour, p.marks[3].colour })
    assert.matches("linewidth 1 dashtype 2 ", p.marks[1].style)
    assert.matches("pointsize 0.8 ", p.marks[2].style)
    assert.matches("linewidth 1.2 dashtype 1 ", p.marks[3].style)
    local sure = plot.reliability { { confidence = 0.9, accuracy = 0.8, count = 96, low = 0.01, high = 0.9 } }
    assert.near(0.92, sure.x_range[2], 1e-12)
    assert.equal(0, sure.x_range[1]) -- a fiftieth below 0.01 is cut off at 0
    for _, bin in ipairs { { confidence = 0.9, accuracy = 0.5, count = 96 }, { confidence = 0.5, accuracy = 0.9,
      count = 96 } } do -- of 100 and two more hits: standard errors by 0.5 and 0.884
      local share = (96 * bin.accuracy + 2) / 100
      local least = math.min(share - 0.2 * math.sqrt(share * (1 - share)), bin.confidence - 0.02)
      local drawn = plot.reliability { bin }
      assert.near(least - 0.02, drawn.y_range[1], 1e-12)
      assert.same({ ("%s %s"):format(bin.confidence, bin.accuracy) }, drawn.marks[3].data)
    end
    refuses("plot.reliability: bins must be what metrics.reliability gives, with data", plot.reliability, {})
    refuses("plot.reliability: bins must be a table, got 3", plot.reliability, 3)
    refuses("plot.reliability: bins must be a table, got 'x'", plot.reliability, { "x" })
    refuses("plot.calibration_curve: bins must be what metrics.calibration_curve gives", plot.calibration_curve, {})
  end)

  it("have the data of each bin in its middle", function()
    local bins = { { confidence = 0.15, accuracy = 0.2, count = 5, low = 0.1, high = 0.2 },
      { confidence = 0.32, accuracy = 0.4, count = 7, low = 0.3, high = 0.4 } }
    local curve, bars = table.unpack(plot.calibration_curve(bins))
    assert.same({ "probability of class 1", "share of class 1" }, { curve.x_label, curve.y_label })
    near(block(script(bars), 1), { { 0.15, 5, 0.19 }, { 0.35, 7, 0.19 } })
    assert.same({ "probability of class 1", "data" }, { bars.x_label, bars.y_label })
    for _, p in ipairs { curve, bars } do
      assert.near(0.08, p.x_range[1], 1e-12)
      assert.near(0.42, p.x_range[2], 1e-12)
    end
  end)

  it("have a curve with its area, and chance beside it", function()
    local roc = { false_positive = pn.tensor { 0, 0, 0.5, 1 }, true_positive = pn.tensor { 0, 0.5, 0.75, 1 } }
    local p = plot.roc(roc)
    assert.equal("area 0.750", p.marks[2].label) -- 0.5 (0.5 + 0.75) / 2 + 0.5 (0.75 + 1) / 2
    assert.equal("net: area 0.750", plot.roc(roc, { label = "net" }).marks[2].label)
    assert.same({ { "0 0", "1 1" }, { "0 0", "0 0.5", "0.5 0.75", "1 1" } }, { p.marks[1].data, p.marks[2].data })
    assert.same({ { 0, 1 }, { 0, 1.01 }, "bottom right", "share of class 0 taken for 1", "share of class 1 found" },
      { p.x_range, p.y_range, p.legend, p.x_label, p.y_label })
    assert.matches("linewidth 1 dashtype 2 ", p.marks[1].style)
    for _, name in ipairs { "false_positive", "true_positive" } do
      local bad = { false_positive = roc.false_positive, true_positive = roc.true_positive }
      bad[name] = { 1 }
      refuses(("plot.roc: curve.%s must be a tensor, got a table"):format(name), plot.roc, bad)
    end
    refuses("plot.roc: curve must be a table, got nil", plot.roc)
  end)

  it("have counts in the colour that stands out from their share", function()
    -- shares 3 / 5 and 2 / 5, 4 / 5 and 1 / 5, and of a class without data 0
    local counts = pn.tensor({ { 3, 2, 0 }, { 1, 4, 0 }, { 0, 0, 0 } }, { dtype = "int64" })
    local p = plot.confusion(counts, { title = "t" })
    assert.same({ "0", "1", "2" }, p.x_names)
    assert.same({ p.x_names, "t", "taken for", "class" }, { p.y_names, p.title, p.x_label, p.y_label })
    near(block(script(p), 1), { { 1, 1, 0.6 }, { 2, 1, 0.4 }, { 3, 1, 0 }, { 1, 2, 0.2 }, { 2, 2, 0.8 }, { 3, 2, 0 },
      { 1, 3, 0 }, { 2, 3, 0 }, { 3, 3, 0 } })
    assert.same({ { 0, 1 }, "share of the class" }, { p.marks[1].range, p.marks[1].colour_label })
    local seen = {}
    for k = 2, #p.marks do seen[p.marks[k].colour] = words_of(p.marks[k]) end
    assert.same({ ["#222222"] = { "2 2 4" }, ["#ffffff"] = { "1 1 3", "2 1 2", "3 1 0", "1 2 1", "3 2 0", "1 3 0",
      "2 3 0", "3 3 0" } }, seen)
    local all = plot.confusion(pn.tensor({ { 2, 0 }, { 0, 3 } }, { dtype = "int64" }), { names = { "no", "yes" } })
    assert.same({ { "no", "yes" }, 3 }, { all.x_names, #all.marks })
    assert.equal(2, #plot.confusion(pn.tensor({ { 7 } }, { dtype = "int64" })).marks) -- no text without words
    refuses("plot.confusion: counts must be [K, K], got [2, 3]", plot.confusion, counts:slice(1, 1, 2))
    refuses("plot.confusion: counts must be [K, K], got [3, 3, 1]", plot.confusion, counts:unsqueeze(3))
    refuses("plot.confusion: counts must be a tensor, got a table", plot.confusion, { { 1 } })
    refuses("plot.confusion: names must be 3, as there are classes, got 2", plot.confusion, counts,
      { names = { "a", "b" } })
  end)

  it("have at most 400 points of a curve, its ends among them", function()
    local n = 1000
    local roc = { false_positive = pn.linspace(0, 1, n), true_positive = pn.linspace(0, 1, n):sqrt() }
    local result = { entropies = { inside = pn.linspace(0.5, 0, n), outside = pn.linspace(0.2, 0.9, 401) }, roc = roc,
      classes = 3 }
    local p = plot.ood(result)
    for k, ends in ipairs { { 0, 0.5 }, { 0.2, 0.9 } } do
      local rows = block(script(p[1]), k)
      assert.equal(400, #rows)
      assert.near(ends[1], rows[1][1], 1e-9)
      assert.near(ends[2], rows[400][1], 1e-9)
      assert.near(1 / 400, rows[1][2], 1e-9)
      assert.equal(1, rows[400][2])
    end
    assert.same({ "inside", "outside", "#2f6db3", "#b5486a" }, { p[1].marks[1].label, p[1].marks[2].label,
      p[1].marks[1].colour, p[1].marks[2].colour })
    assert.same({ { 0, math.log(3) }, { 0, 1 }, "entropy", "share below", "top left" }, { p[1].x_range, p[1].y_range,
      p[1].x_label, p[1].y_label, p[1].legend })
    assert.equal(400, #p[2].marks[2].data)
    assert.same({ { "0 0", "1 1" }, "1 1" }, { p[2].marks[1].data, p[2].marks[2].data[400] })
    assert.matches("linewidth 1 dashtype 2 ", p[2].marks[1].style)
    assert.same({ { 0, 1 }, { 0, 1 }, "inside taken for outside", "outside found" }, { p[2].x_range, p[2].y_range,
      p[2].x_label, p[2].y_label })
    refuses("plot.ood: result must be a table, got 3", plot.ood, 3)
    refuses("plot.ood: result.entropies must be a table, got nil", plot.ood, { roc = {} })
    refuses("plot.ood: result.roc must be a table, got nil", plot.ood, { entropies = {} })
  end)

  it("have the epochs of a run, whole ones where these are few", function()
    local list = {}
    for k = 1, 11 do list[k] = 1 / k end
    local many = plot.history({ history = list, scores = { [11] = 3 }, best = 3.14159265, best_epoch = 11 },
      { x_label = "pass", log = true })
    assert.same({ "loss", "pass", true, false }, { many[1].title, many[1].x_label, many[1].y_log,
      many[1].x_step or false })
    assert.same({ "score", "pass", false, false, "best, 3.1416" }, { many[2].title, many[2].x_label, many[2].y_log,
      many[2].x_step or false, many[2].marks[2].label })
    assert.same({ { "11 3" }, { "11 3.14159265" } }, { many[2].marks[1].data, many[2].marks[2].data })
    assert.same({ "#2f6db3", "#2f6db3", "#b5486a" }, { many[1].marks[1].colour, many[2].marks[1].colour,
      many[2].marks[2].colour })
    assert.matches("pointsize 1 ", many[2].marks[2].style)
    list[11] = nil
    local few = plot.history { history = list }
    assert.same({ 1, 1, false, "epoch" }, { #few, few[1].x_step, few[1].y_log, few[1].x_label })
    local begun = plot.history { history = { 1, 2, 3 }, scores = { 5, 6, 7 }, epoch = 2, best = 5, best_epoch = 1 }
    assert.same({ "1 5", "2 6" }, begun[2].marks[1].data)
    refuses("plot.history: run must be a table, got nil", plot.history)
    refuses("plot.history: run.history must be a table, got nil", plot.history, {})
    refuses("plot.history: run must have at least one epoch", plot.history, { history = {} })
  end)
end)
