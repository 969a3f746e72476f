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

  it("has covariates before features, 0 behind an end, and the numbers of its calendar", function()
    local function made(o)
      return pn.data.series({
        { target = { 1, 2, 3 }, covariates = { { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 } }, series = 4,
          item_id = "a", start = "2023-12-31 22:00" },
        { target = pn.tensor { 5, 6 }, covariates = { { 7, 70 }, { 8, 80 } }, start = "2023-12-31" } }, o)
    end
    local set = made { freq = "H", features = { "hour_of_day", "month" } }
    assert.equal("series set (2 series of 2 to 3 steps, 1 observed, 4 covariates)", tostring(set))
    assert.same({ "a", "2", 4, 1, 5 }, { set.items[1].item_id, set.items[2].item_id, set.items[1].series,
      set.items[2].series, set.identities })
    local b = set:history {}
    local want = { { { 1, 10, 22 / 23 - 0.5, 0.5 }, { 7, 70, -0.5, 0.5 } },
      { { 2, 20, 0.5, 0.5 }, { 8, 80, 1 / 23 - 0.5, 0.5 } }, { { 3, 30, -0.5, -0.5 }, { 0, 0, 0, 0 } } }
    assert.is_true((b.inputs - pn.tensor(want)):abs():max():item() < 1e-15)
    assert.same({ { 3, 2 }, { 4, 1 } }, { b.lengths:totable(), b.series:totable() })
    assert.equal(22, b.start[1]:item() - b.start[2]:item())
    same({ 3, 0 / 0 }, b.y[3]:squeeze(2))
    b = set:history { steps = 2 } -- all alike long
    assert.same({ nil, { 1, 2 }, { 2, 5 } }, { b.lengths, { b.start[1]:item() - set.items[1].origin, b.y:size(1) },
      b.y[1]:squeeze(2):totable() })
    local few = set:history { steps = 2, items = { 2 } }
    assert.same({ 2, 1, 4 }, few.inputs:shape())
    local f = set:future { steps = 2, drop = 1, items = { 1 } }
    assert.same({ { { 3 } }, { { 3, 30, -0.5, -0.5 } } }, { f.y[1]:totable(), f.inputs[1]:totable() })
    assert.same({ 40, 0 / 0 ~= 0 / 0 }, { f.inputs[2][1][2]:item(), f.y[2]:ne(f.y[2]):all():item() })
    assert.same({ { { 5 } }, { { 6 } } }, set:future({ steps = 2, drop = 2, items = { 2 } }).y:totable())
    local short = set:without(1)
    assert.same({ 2, 1, 3, 4 }, { short.items[1].length, short.items[2].length, set.items[1].length,
      short.items[1].covariates:size(1) })
    assert.same({ 1, 2 }, short.items[1].target:squeeze(2):totable())
    assert.equal("float32", made({ dtype = "float32" }):history({}).inputs:dtype())
    assert.equal("float32", made({ dtype = "float32", features = true }):history({}).y:dtype())
    assert.equal(3, made({ features = true }).covariates) -- without a step's length of the age alone
    assert.equal(2 + 5, made({ freq = "H", features = true }).covariates)
    assert.equal(0, pn.data.series({ { target = { 1 } } }).covariates)
    assert.is_nil(pn.data.series({ { target = { 1 } } }):history({}).inputs)
  end)

  it("computes features of any steps, whichever were asked for before", function()
    local items = { { target = pn.ones { 40, 2 }, start = "2024-02-28" }, { target = pn.ones { 9, 2 },
      start = "2024-02-28" }, { target = pn.ones { 9, 2 }, start = "2024-02-28 03:00" } }
    local set = pn.data.series(items, { freq = "H", features = true })
    for k, given in ipairs { { 2, 0, 3 }, { 1, 20, 20 }, { 3, 0, 30 }, { 2, 2, 11 }, { 1, 0, 17 } } do
      local fresh = pn.data.series({ items[given[1]] }, { freq = "H", features = true })
      local length, steps = items[given[1]].target:size(1) - given[2], given[3]
      local f = set:future { steps = steps, drop = given[2], items = { given[1] } }
      assert.same(fresh:future({ steps = steps, drop = given[2] }).inputs:totable(), f.inputs:totable(), k)
      for i = 0, steps - 1 do
        local hour = (length + i + (given[1] == 3 and 3 or 0)) % 24
        assert.near(hour / 23 - 0.5, f.inputs[i + 1][1][1]:item(), 1e-15)
        assert.near(math.log(length + i + 2, 10), f.inputs[i + 1][1][5]:item(), 1e-15)
      end
    end
  end)

  it("counts steps from a Monday or a January on, whatever the step", function()
    for text, first in pairs { S = 86400 * 3, ["15min"] = 96 * 3, T = 1440 * 3, H = 72, ["6H"] = 12, D = 3, ["2D"] = 1,
      W = 0, B = 3, M = 12 * 1970, MS = 12 * 1970, Q = 4 * 1970, ["2Q"] = 2 * 1970, A = 1970, Y = 1970,
        ["2Y"] = 985 } do
      local f = calendar.frequency(text)
      assert.equal(first, calendar.origin(f, 0, 0), text) -- 1970-01-01 was a Thursday
      for _, day in ipairs { 0, 58, 89, 364, calendar.days(2024, 2, 28), calendar.days(1969, 12, 31), -4, -20000 } do
        local second = f.seconds and 3600 * 7 + 60 or 5
        local origin = calendar.origin(f, day, second)
        for _, i in ipairs { 0, 1, 2, 11, 12, 35, 400 } do
          local there, time = calendar.at(f, day, second, i)
          assert.equal(origin + i, calendar.origin(f, there, time), text)
          assert.is_true(f.seconds ~= nil or time == second)
        end
      end
    end
    local march = calendar.days(2023, 3, 31) -- the last day is one that every month has
    for i, want in ipairs { { 3, 28 }, { 4, 28 } } do
      local _, month, day = calendar.date((calendar.at(calendar.frequency "M", march, 0, i - 1)))
      assert.same(want, { month, day })
    end
    assert.same({ 3 * 5 - 1, 3 * 5 - 1, 3 * 5 - 1, 3 * 5 }, { calendar.business_day(15), calendar.business_day(16),
      calendar.business_day(17), calendar.business_day(18) }) -- Friday to Monday
    for _, text in ipairs { "", "0D", "3", "BB", "x", "MB" } do assert.is_nil(calendar.frequency(text), text) end
    assert.same({ "day_of_month", "day_of_year", "age" }, calendar.usual(calendar.frequency "W"))
    assert.same({ "age" }, calendar.usual(calendar.frequency "Y"))
    for other, text in pairs { T = "S", B = "D", MIN = "S" } do
      assert.same(calendar.usual(calendar.frequency(text)), calendar.usual(calendar.frequency(other)))
    end
  end)

  it("reads the parts of a date in any order, and none that is not there", function()
    local function read(text, form) return calendar.read(text, calendar.format("f", form)) end
    local value, day, second = read("07h05 on 9.3.2024", "%Hh%M on %d.%m.%Y")
    assert.same({ calendar.days(2024, 3, 9), 7 * 3600 + 300 }, { day, second })
    assert.near(day + second / 86400, value, 1e-9)
    assert.same({ nil, 86399.5 }, { read("x2024-1-1", "%Y-%m-%d"), (select(3, read("2024-1-1 23:59:59.5",
      "%Y-%m-%d %H:%M:%S"))) })
    for text, is in pairs { ["2024-1-31"] = true, ["2024-4-30"] = true, ["2024-4-31"] = false, ["2024-0-3"] = false,
      ["2024-3-0"] = false, ["2024-12-1"] = true, ["2024-13-1"] = false, ["2000-2-29"] = true, ["1900-2-29"] = false,
      ["2023-2-29"] = false, ["2024-2-29"] = true, ["2024-2-30"] = false, ["2024-6-31"] = false,
      ["2024-9-31"] = false, ["2024-11-31"] = false, ["2024-7-31"] = true, ["2024-8-31"] = true } do
      assert.equal(is, read(text, "%Y-%m-%d") ~= nil, text)
    end
    for text, is in pairs { ["2024-1-1 24:00:00"] = true, ["2024-1-1 25:00:00"] = false,
      ["2024-1-1 23:59:60"] = true, ["2024-1-1 23:60:00"] = false, ["2024-1-1 23:59:61"] = false } do
      assert.equal(is, read(text, "%Y-%m-%d %H:%M:%S") ~= nil, text)
    end
    for form, why in pairs { ["%Y-%m"] = "must have %Y, %m and %d", ["%Y-%d"] = "must have", ["%m-%d"] = "must have",
      ["%Y-%m-%d %d"] = "each once", ["%Y-%m-%d %q"] = "made of" } do
      assert.error_matches(function() calendar.format("csv", form) end, "csv: date must", 1, true)
      assert.matches(why, select(2, pcall(calendar.format, "csv", form)), 1, true)
    end
    for text, want in pairs { ["2024-03-01"] = 0, ["2024-03-01T06:00:07"] = 21607, ["2024-03-01 06:00:07"] = 21607,
      ["2024-03-01T06:00:07Z"] = 21607, ["2024-03-01 06:00"] = 21600 } do
      assert.same({ calendar.days(2024, 3, 1), want }, { calendar.moment(text) })
    end
    assert.is_nil(calendar.moment "1.3.2024")
  end)

  it("reads what GluonTS writes of starts, identities and covariates", function()
    local lines = {}
    for k, start in ipairs { '"2024-03-01T06:00:00+01:00"', '"2024-03-01 06:00:00.500"', '{"$timestamp": "2024-03-01 '
      .. '06:00:00"}', '{"start": "2024-03-01T06:00:00-0300"}', '"2024-03-01T06:00:00Z"' } do
      lines[k] = ('{"start": %s, "target": [1, ""], "feat_static_cat": [%s]}'):format(start,
        ({ "-1", "1.5", '"a"', "3", "0" })[k])
    end
    local path = written(table.concat(lines, "\n"))
    local set = assert(pn.data.gluonts(path, { freq = "H", dtype = "float32", features = { "age" } }))
    local b = set:history {}
    assert.same({ 0, 1, 2, 3, 0 }, b.series:totable())
    assert.equal("float32", b.y:dtype())
    for k = 1, 5 do assert.equal(b.start[1]:item(), b.start[k]:item()) end
    assert.equal(6, b.start[1]:item() % 24)
    same({ 1, 0 / 0 }, set.items[1].target:squeeze(2))
    assert.same({ 0, 1, 0, 3, 0 }, assert(pn.data.gluonts(path, { identities = 2 })):history({}).series:totable())
    for text, why in pairs { ['{"target": []}'] = "a target that is no list",
      ['{"target": [[1, 2], [3]]}'] = "a target",
      ['{"target": [[], []]}'] = "a target", ['{"target": [[1], 2]}'] = "a target", ['{"target": 3}'] = "a target",
      ['{"target": [[1, "x"]]}'] = "a target", ['[1]'] = "no target", ['3'] = "no target",
      ['{"target": [1], "start": 3}'] = "a start that is no date",
      ['{"target": [1], "feat_dynamic_real": [1]}'] = "a feat_dynamic_real",
      ['{"target": [1], "feat_dynamic_real": [["x"]]}'] = "a feat_dynamic_real" } do
      local none, said, code = pn.data.gluonts(written('{"target": [1]}\n' .. text))
      assert.same({ nil, "format" }, { none, code }, text)
      assert.matches("object 2 has " .. why, said, 1, true)
    end
    assert.equal(0, assert(pn.data.gluonts(written '{"target": [1], "feat_dynamic_real": []}')).covariates)
  end)

  it("takes the columns and rows that are asked for of a CSV file", function()
    local path = written "t,a,b,c\n2024-03-01 06:30:15,1,2,3\n2024-03-01 06:30:16,4,,6\n"
    local set = assert(pn.data.series_csv(path, { date = "t", columns = { "c", "t", "a" }, freq = "S" }))
    assert.same({ "c", "a", 2 }, { set.items[1].item_id, set.items[2].item_id, #set })
    same({ 3, 6 }, set.items[1].target:squeeze(2))
    assert.equal(((calendar.days(2024, 3, 1) + 3) * 86400 + 6 * 3600 + 30 * 60 + 15), set.items[1].origin)
    local joint = assert(pn.data.series_csv(path, { date = "t", joint = true, freq = "S", dtype = "float32" }))
    same({ 4, 0 / 0, 6 }, joint.items[1].target[2])
    assert.same({ set.items[1].origin, "float32" }, { joint.items[1].origin, joint.items[1].target:dtype() })
    local plain = assert(pn.data.series_csv(written "1,2\n3,4\n", { header = false, start = "2024-03-01", freq = "D" }))
    assert.same({ "1", "2", { 2, 4 }, calendar.days(2024, 3, 1) + 3 }, { plain.items[1].item_id,
      plain.items[2].item_id, plain.items[2].target:squeeze(2):totable(), plain.items[1].origin })
    path = written "u,id,V1,V2,V3\n1,x,5,,7\n2,y,8,9,\n"
    set = assert(pn.data.series_csv(path, { by = "row", name = "id", columns = { "V1", "V2", "V3" },
      start = "2024-03-01", freq = "D", features = true }))
    assert.same({ "x", "y", calendar.days(2024, 3, 1) + 3, 4 }, { set.items[1].item_id, set.items[2].item_id,
      set.items[2].origin, set.covariates })
    same({ 5, 0 / 0, 7 }, set.items[1].target:squeeze(2))
    same({ 8, 9 }, set.items[2].target:squeeze(2))
    set = assert(pn.data.series_csv(written "1,5,6\n2,7,\n", { by = "row", header = false }))
    assert.same({ "1", "2", { 5, 6 }, { 7 } }, { set.items[1].item_id, set.items[2].item_id,
      set.items[1].target:squeeze(2):totable(), set.items[2].target:squeeze(2):totable() })
    local none, said, code = pn.data.series_csv(written "id,a\nx,1\ny,\n", { by = "row" })
    assert.same({ nil, "format" }, { none, code })
    assert.matches("row 2 has no numbers", said)
    for _, by in ipairs { "row", "column" } do
      none, said, code = pn.data.series_csv("no/such/file", { by = by })
      assert.same({ nil, "io" }, { none, code }, said)
    end
    none, said, code = pn.data.series_csv(path, { by = "row", name = "id", columns = { "W" } })
    assert.same({ nil, "domain" }, { none, code }, said)
    for _, o in ipairs { { date = "t", by = "row" }, { name = "t" }, { joint = true, by = "row" } } do
      assert.error_matches(function() pn.data.series_csv(path, o) end, "is not used with by = '" .. (o.by or "column"))
    end
  end)

  it("is refused with a field, a list, a date or an option that is none", function()
    local function fails(want, list, o) assert.error_matches(function() pn.data.series(list, o) end, want, 1, true) end
    fails("series: the list of series must have at least one", {})
    fails("series: item 1 has an unknown field 'x'; known: covariates, item_id, series, start, target", { { x = 1 } })
    fails("series: the target of item 1 must be a tensor or a list of numbers, got 3", { { target = 3 } })
    fails("series: the target of item 2 must be [T] or [T, p], got [1, 1, 1]", { { target = { 1 } },
      { target = pn.ones { 1, 1, 1 } } })
    fails("series: the target of item 1 must be [T] or [T, p], got ", { { target = pn.ones { 0 } } })
    fails("series: the covariates of item 1 must be [T] or [T, p], got ", { { target = { 1 },
      covariates = pn.ones {} } })
    fails("series: the series of item 1 must be a whole number from 0 on, got -1", { { target = { 1 }, series = -1 } })
    fails("series: the start of item 1 must be a date (year-month-day), got 'soon'", { { target = { 1 },
      start = "soon" } })
    fails("series: item 2 must have as many numbers a step as the first has", { { target = { 1 }, covariates = { 1 } },
      { target = { 1 } } })
    fails("series: item 2 must have as many numbers a step as the first has", { { target = { 1 } }, { target = { 1 },
      covariates = { 1 } } })
    fails("series: features[2] must be one of age, day_of_month, day_of_week, day_of_year, hour_of_day, "
      .. "minute_of_hour, month, got 'week'", { { target = { 1 } } }, { features = { "age", "week" } })
    fails("series: features[1], 'month', needs freq", { { target = { 1 }, start = "2024-01-01" }, { target = { 1 } } },
      { freq = "D", features = { "month" } })
    fails("features", { { target = { 1 } } }, { features = 3 })
    local set = pn.data.series { { target = { 1, 2 } }, { target = { 1, 2, 3 } } }
    for want, call in pairs { ["future: item '1' has 2 steps, drop must be at most that, got 3"] = { "future",
      { steps = 1, drop = 3 } }, ["history: items[2] must be at most 2, got 3"] = { "history", { items = { 1, 3 } } },
      ["without: n must be less than 2, the steps of item '1', got 2"] = { "without", 2 },
      ["without: n must be a whole number from 0 on, got -1"] = { "without", -1 },
      ["history: steps must be a whole number from 1 on, got 0"] = { "history", { steps = 0 } },
      ["future: drop must be a whole number from 0 on, got -1"] = { "future", { steps = 1, drop = -1 } },
      ["windows: size must be a whole number from 1 on, got 0"] = { "windows", { size = 0, count = 1 } } } do
      assert.error_matches(function() set[call[1]](set, call[2]) end, want, 1, true)
    end
    assert.same({ nil, 1, 2 }, { set:future({ steps = 1, drop = 2, items = { 1 } }).inputs,
      set:future({ steps = 1, drop = 2, items = { 1 } }).y:item(), set:without(0).items[1].length })
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
