-- Sets of time series: GluonTS's files, CSV by columns and rows, the calendar, windows and histories.
local pn = require "penumbra"
local calendar = require "penumbra.data.calendar"

local paths = {}

local function written(text, suffix)
  local path = os.tmpname() .. (suffix or "")
  paths[#paths + 1] = path
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local function same(want, got)
  got = got:totable()
  for i = 1, math.max(#want, #got) do
    local w, g = want[i], got[i]
    assert.is_true(w == g or w ~= w and g ~= g, ("element %d: want %s, got %s"):format(i, w, g))
  end
end

describe("a set of series", function()
  teardown(function()
    for _, path in ipairs(paths) do os.remove(path) end
  end)

  it("know a unit by all its names", function()
    for one, other in pairs { MS = "M", ME = "M", A = "Y", ["15T"] = "15min", h = "H" } do
      local b = {}
      for k, freq in ipairs { one, other } do
        local set = pn.data.series({ { target = { 1, 2, 3 }, start = "2023-03-05 06:30" },
          { target = { 4, 5, 6, 7 }, start = "2021-12-31" } }, { freq = freq, features = { "age" } })
        local w = set:windows { size = 3, count = 4, generator = pn.generator(1) }
        b[k] = { w.start:totable(), w.inputs:totable(), w.y:totable() }
      end
      assert.same(b[2], b[1], one)
    end
    local _, message = pcall(pn.data.series, { { target = { 1, 2 }, start = "2023-03-05" } }, { freq = "fortnight" })
    assert.matches("freq", message)
  end)

  it("is read from GluonTS's lines, with what is missing", function()
    local set = assert(pn.data.gluonts(written [[
{"start": "2024-02-28 22:00:00", "target": [1, NaN, "NaN", null, 2.5], "item_id": "a \" NaN", "feat_static_cat": [3]}

{"target": [4, 5], "start": "2024-02-29T01:00:00.000", "feat_static_cat": [0]}
]], { freq = "H", features = { "hour_of_day", "age" } }))
    local nan = 0 / 0
    assert.equal(2, #set)
    same({ 1, nan, nan, nan, 2.5 }, set.items[1].target:squeeze(2))
    assert.equal('a " NaN', set.items[1].item_id)
    assert.same({ 3, 0, 4 }, { set.items[1].series, set.items[2].series, set.identities })
    local b = set:history {}
    assert.same({ 5, 2, 1 }, b.y:shape())
    assert.same({ 5, 2 }, b.lengths:totable())
    assert.equal(3, b.start[2]:item() - b.start[1]:item()) -- hours
    local u = b.inputs:totable()
    for t, hour in ipairs { 22, 23, 0, 1, 2 } do
      assert.is_true(math.abs(u[t][1][1] - (hour / 23 - 0.5)) < 1e-15)
      assert.is_true(math.abs(u[t][1][2] - math.log(t + 1, 10)) < 1e-15)
    end
  end)

  it("has several variables and covariates that go on into the future", function()
    local set = assert(pn.data.gluonts(written [==[
{"start": "2024-01-01", "target": [[1, 2, 3], [4, 5, "NaN"]], "feat_dynamic_real": [[1, 2, 3, 4, 5]]}
{"start": "2024-01-01", "target": [[7, 8], [9, 0]], "feat_dynamic_real": [[6, 7, 8, 9]]}]==], { identities = 1 }))
    assert.same({ 2, 1, 1 }, { set.size, set.covariates, set.identities })
    same({ 3, 0 / 0 }, set.items[1].target[3])
    local f = set:future { steps = 2 }
    assert.same({ { { 4 }, { 8 } }, { { 5 }, { 9 } } }, f.inputs:totable())
    assert.is_false(f.y:eq(f.y):any():item())
    f = set:future { steps = 2, drop = 1, items = { 2, 1 } }
    assert.same({ { { 7 }, { 3 } }, { { 8 }, { 4 } } }, f.inputs:totable())
    assert.equal(8, f.y[1][1][1]:item())
    local h = set:history { drop = 1, steps = 1, items = { 2, 1 } }
    assert.same({ { { 7, 9 }, { 2, 5 } } }, h.y:totable())
    assert.equal(2, set:without(1).items[1].length)
  end)

  it("is read from CSV by columns with dates, jointly, and by ragged rows", function()
    local path = written "date,a,b\n2016-07-01 23:00:00,1,2\n2016-07-02 00:00:00,3,\n"
    local set = assert(pn.data.series_csv(path, { date = "date", freq = "H", features = { "hour_of_day" } }))
    assert.same({ "a", "b", 2 }, { set.items[1].item_id, set.items[2].item_id, #set })
    same({ 2, 0 / 0 }, set.items[2].target:squeeze(2))
    assert.same({ { { 0.5 }, { 0.5 } }, { { -0.5 }, { -0.5 } } }, set:history({}).inputs:totable())
    local joint = assert(pn.data.series_csv(path, { date = "date", joint = true }))
    assert.same({ 1, 2 }, { #joint, joint.size })
    local rows = assert(pn.data.series_csv(written '"id","V1","V2","V3"\n"H1","5","6",\n"H2","7","8","9"\n',
      { by = "row" }))
    assert.same({ "H1", "H2" }, { rows.items[1].item_id, rows.items[2].item_id })
    same({ 5, 6 }, rows.items[1].target:squeeze(2))
    same({ 7, 8, 9 }, rows.items[2].target:squeeze(2))
  end)

  it("draws windows that lie in their series, by the generator alone", function()
    local items = {}
    for k = 1, 3 do
      items[k] = { target = pn.arange(10 * k) + 1000 * k }
    end
    local set = pn.data.series(items)
    local seen = {}
    for trial = 1, 200 do
      local b = set:windows { size = 12, count = 4, generator = pn.generator(trial) }
      for i = 1, 4 do
        local k, length = b.series[i]:item() + 1, b.lengths and b.lengths[i]:item() or b.y:size(1)
        assert.equal(math.min(12, 10 * k), length)
        local first = b.y[1][i]:item() - 1000 * k
        assert.equal(b.start[i]:item(), first)
        assert.equal(1000 * k + first + length - 1, b.y[length][i]:item())
        seen[k .. " " .. first] = true
      end
    end
    local count = 0
    for _ in pairs(seen) do count = count + 1 end
    assert.equal(1 + 9 + 19, count) -- every start of every series
    local a = set:windows { size = 5, count = 2, generator = pn.generator(1) }
    assert.same(a.y:totable(), set:windows({ size = 5, count = 2, generator = pn.generator(1) }).y:totable())
  end)

  it("knows dates as the operating system's calendar does, and business days", function()
    for day = -30000, 40000, 37 do
      local y, m, d = calendar.date(day)
      local want = os.date("!*t", day * 86400)
      assert.same({ want.year, want.month, want.day }, { y, m, d })
      assert.equal(day, calendar.days(y, m, d))
      assert.equal(want.yday - 1, math.floor((calendar.features.day_of_year(day) + 0.5) * 365 + 0.5))
      assert.equal((want.wday + 5) % 7, math.floor((calendar.features.day_of_week(day) + 0.5) * 6 + 0.5))
    end
    -- a feature of each part of a date, from -1/2 to 1/2
    for k = 0, 400 do
      local time = k * 7654321 - 1e9 // 1
      local day, second, want = time // 86400, time % 86400, os.date("!*t", time)
      for name, x in pairs { minute_of_hour = want.min / 59, hour_of_day = want.hour / 23,
        day_of_month = (want.day - 1) / 30, month = (want.month - 1) / 11, day_of_week = (want.wday + 5) % 7 / 6,
        day_of_year = (want.yday - 1) / 365 } do
        assert.near(x - 0.5, calendar.features[name](day, second, k), 1e-15)
      end
      assert.near(10 ^ calendar.features.age(day, second, k), 2 + k, 1e-9)
    end
    local parts = { "minute_of_hour", "hour_of_day", "day_of_week", "day_of_month", "day_of_year", "age" }
    for first, text in ipairs { "10min", "H", "D" } do -- none that is the same at all steps
      assert.same(table.move(parts, first, 6, 1, {}), calendar.usual(calendar.frequency(text)))
    end
    assert.same({ "month", "age" }, calendar.usual(calendar.frequency "Q"))
    local b, friday = calendar.frequency "B", calendar.days(2024, 3, 1)
    for i, want in ipairs { 1, 4, 5, 6, 7, 8, 11 } do
      assert.equal(calendar.days(2024, 3, want), (calendar.at(b, friday, 0, i - 1)))
    end
    assert.equal(4, calendar.origin(b, friday, 0) % 5)
    local h = calendar.frequency "H"
    assert.equal(4 * 24 + 7, calendar.origin(h, friday, 7 * 3600) % 168)
    local day, second = calendar.at(calendar.frequency "15min", friday, 86399 - 899, 2)
    assert.same({ friday + 1, 900 }, { day, second })
    assert.equal(calendar.days(2025, 1, 1), (calendar.at(calendar.frequency "M", friday, 0, 10)))
    assert.is_nil(calendar.frequency "fortnight")
  end)

  it("says what is wrong with a file or an item", function()
    local none, message, code = pn.data.gluonts "no/such/file"
    assert.same({ nil, "io" }, { none, code })
    assert.matches("^gluonts: ", message)
    for text, why in pairs { ['{"start": "2024-01-01"}'] = "object 1 has no target",
      ['{"target": ["x"]}'] = "object 1 has a target that is no list of numbers",
      ['{"target": [1], "start": "soon"}'] = "object 1 has a start that is no date, 'soon'",
      ['{"target": [1]} {"target": [1]}'] = "is no JSON: at byte 17", ["\n"] = "holds no series" } do
      local set, said, kind = pn.data.gluonts(written(text))
      assert.same({ nil, "format" }, { set, kind })
      assert.matches(why, said, 1, true)
    end
    local function fails(want, f, ...)
      local ok, said = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(want, said, 1, true)
    end
    fails("series: item 2 must have as many numbers a step as the first has", pn.data.series,
      { { target = { 1 } }, { target = { { 1, 2 } } } })
    fails("series: features[1], 'month', needs freq and the start of every series", pn.data.series,
      { { target = { 1 } } }, { features = { "month" } })
    fails("series: freq must be S, T, H, D, B, W, M, Q or Y", pn.data.series, { { target = { 1 } } }, { freq = "x" })
    local set = pn.data.series({ { target = { 1, 2 }, covariates = { 1, 2 } } })
    fails("future: covariates of item '1' end at step 2, 3 are needed", set.future, set, { steps = 1 })
    fails("history: item '1' has 2 steps, drop must be less, got 2", set.history, set, { drop = 2 })
  end)
end)
