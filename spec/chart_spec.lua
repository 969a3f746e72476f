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
