-- Structures of level, slope and seasons: dimensions of the published sets (daily 1 + 7, hourly 1 + 24 + 7), matrices
-- written out, and a cycle whose seasons last many steps.
local pn = require "penumbra"
local issm = require "penumbra.models.issm"

describe("issm", function()
  it("has the published dimensions", function()
    assert.equal(8, issm.new { seasonal = { 7 } }.n)
    local hourly = issm.new { seasonal = { 24, { period = 7, every = 24 } } }
    assert.equal(32, hourly.n)
    assert.same({ 168, 32 }, hourly:rows(168):shape())
    assert.equal(2, issm.new { trend = true }.n)
  end)

  it("writes the matrices of level, slope and season", function()
    local s = issm.new { trend = true, seasonal = { 3 } }
    assert.same({ { 1, 1, 0, 0, 0 }, { 0, 1, 0, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 0, 0, 1, 0 }, { 0, 0, 0, 0, 1 } },
      s.a:totable())
    assert.same({ { 1, 1, 0, 0, 1 }, { 1, 1, 1, 0, 0 } }, s:rows(2, 2):totable())
    assert.same({ "level", "slope", "season 1 of 3", "season 2 of 3", "season 3 of 3" }, s.names)
    assert.same({ { 1, 1 } }, issm.new { trend = true }:rows(1):totable())
  end)

  it("lets a season last many steps, and each series begin where it does", function()
    local s = issm.new { level = false, seasonal = { { period = 7, every = 24 } } }
    local time = pn.tensor({ { 0, 23, 24 }, { 167, 168, 24 * 6 } }, { dtype = "int64" })
    local at = s:emission(time):argmax(-1):totable()
    assert.same({ { 0, 0, 1 }, { 6, 0, 6 } }, at)
    assert.same(s:emission(time):totable(), s:innovation(time):totable())
  end)

  it("refuses what is no structure", function()
    assert.error_matches(function() issm.new { level = false } end, "issm: needs a level, a trend or seasons")
    assert.error_matches(function() issm.new { seasonal = { 1 } } end, "period must be a whole number from 2 on, got 1")
    assert.error_matches(function() issm.new { seasons = { 7 } } end, "unknown option 'seasons'")
    for _, name in ipairs { "emission", "innovation" } do
      local s = issm.new {}
      assert.error_matches(function() s[name](s, pn.zeros { 2 }) end, ("issm: %s: time must be int64, got float64")
        :format(name))
      assert.error_matches(function() s[name](s, 2) end, ("issm: %s: time must be a tensor, got 2"):format(name))
    end
    assert.error_matches(function() issm.new {}:rows(0) end, "issm: rows: T must be a whole number from 1 on, got 0")
    for _, seasonal in ipairs { { 65536 }, { 7, 65530 } } do
      assert.error_matches(function() issm.new { seasonal = seasonal } end,
        "issm: states of all cycles must be at most")
    end
    assert.error_matches(function() issm.new { seasonal = { 3, { period = 2, every = 0 } } } end,
      "issm: seasonal 2: every must be a whole number from 1 on, got 0")
    assert.equal(2, issm.new({ level = false, seasonal = { 2 } }).n)
    assert.same({ { 1, 1, 0 } }, issm.new({ seasonal = { 2 } }):rows(1):totable()) -- from season 0 on
  end)
end)
