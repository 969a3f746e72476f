-- Order, running values and counting, against NumPy and PyTorch.
local pn = require "penumbra"
local case = require "spec.lua.array_case"

local g, float, whole, same = case.golden, case.float, case.whole, case.same
local x, z, holes = float(g.x), float(g.z), float(g.holes)

describe("order and counting", function()
  it("have quantiles of all elements, of lists of levels, of whole numbers and at NaN", function()
    same(x:quantile(0.3), g.quantile_all)
    same(x:quantile({ 0, 0.25, 0.9 }, 2), g.quantile_list)
    same(whole(g.whole):quantile(0.4), g.quantile_whole)
    same(holes:quantile(0.5, 2), g.quantile_nan)
    same(x:median(), g.median_all)
    same(x:to("float32"):quantile(0.3), g.quantile_all, 1e-6)
    assert.equal("float32", x:to("float32"):quantile(0.3):dtype())
  end)

  it("have running products, sums of exponentials and extremes", function()
    same(z:cumprod(), g.cumprod)
    same(case.slope(pn.cumprod, z), g.cumprod_slope)
    same(whole(g.whole):cumprod(1), g.cumprod_whole)
    assert.equal("int64", whole(g.whole):cumprod(1):dtype())
    same(z:to("float32"):cumprod(), g.cumprod, 1e-6)
    same(float(g.lower):logcumsumexp(), g.logcumsumexp)
    same(case.slope(pn.logcumsumexp, float(g.finite) / 100), g.logcumsumexp_slope, 1e-13)
    local most, at = pn.concatenate({ z, float { { 1, 1, 0 / 0, 2 } } }, 1):cummax()
    same(most, g.cummax)
    same(at, g.cummax_at)
    local least, place = z:cummin(1)
    same(least, g.cummin)
    same(place, g.cummin_at)
    same(case.slope(pn.cummax, z), g.cummax_slope)
    same(x:diff(2, 1), g.diff)
    same(x:trapezoid(float { 0, 0.5, 2, 3 }, 1), g.trapezoid)
    same(x:trapezoid(0.5), g.trapezoid_step)
    for n = 0, 1 do same(pn.ones { 2, n }:trapezoid(3), { 0, 0 }) end
  end)

  it("put NaN last, among the largest and among the smallest", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local v = pn.tensor({ 0 / 0, 3, -1 / 0, 0 / 0, 2 }, { dtype = dtype })
      for largest, want in pairs { [true] = { 1, 4, 2, 0 }, [false] = { 2, 4, 1, 0 } } do
        local values, at = v:topk(4, 1, largest)
        assert.same(want, at:totable())
        assert.is_true(values:isfinite():to("int64"):sum():item() == 2 and values:isnan():totable()[4])
        assert.is_false(v:topk(3, 1, largest):isnan():any():item())
      end
    end
    assert.matches("NaN last", require("penumbra.shell.help").text "topk")
  end)

  it("have finite gradients where sums of exponentials are 0", function()
    local lower = float(g.lower)
    local s = case.slope(function(v) return pn.where(v:logcumsumexp():eq(-math.huge), 0, v:logcumsumexp()) end, lower)
    assert.is_true(s:isfinite():all():item())
    same(s[3], float { 0, 0, 0, 0 })
    same(pn.grad(pn.param(lower):logcumsumexp():select(1, 3):sum() * 0 + 1, { pn.param(lower) })[1], lower:zeros_like())
  end)

  it("find places", function()
    local row, wanted = float(g.sorted_row), float(g.wanted)
    same(row:searchsorted(wanted), g.place_left)
    same(row:searchsorted(wanted, "right"), g.place_right)
    same(whole({ 0, 2, 2, 5 }):searchsorted(whole(g.whole), "right"), g.whole_right)
    assert.equal(3, row:searchsorted(0.25):item())
    same(float({}):searchsorted(wanted), pn.zeros(2, 3))
    same(float(g.at):interp(float(g.places), float(g.heights)), g.interp)
    same(whole(g.whole):isin { 7, 0, 9 }, g.isin)
    same(whole(g.whole):isin(whole {}), pn.zeros(2, 4))
    assert.is_false(float({ 0 / 0 }):isin({ 0 / 0, 1 }):item())
  end)

  it("count", function()
    local function thrice(values, a, b, c, name)
      same(a, values[name])
      same(b, values[name .. "_inverse"])
      same(c, values[name .. "_counts"])
    end
    local a, b, c = float(g.many):unique()
    thrice(g, a, b, c, "unique")
    a, b, c = whole(g.whole):unique()
    thrice(g, a, b, c, "unique_whole")
    same(a:take(1, b), g.whole)
    assert.same({ false, true }, (pn.tensor({ true, false, true }):unique()):totable())
    local classes = whole(g.classes)
    same(classes:bincount(), g.bincount)
    same(classes:bincount { weights = float(g.weights), num_bins = 8 }, g.bincount_long)
    local spread = float(g.spread)
    local counts, edges = spread:histogram { bins = 5, range = { 0, 1 } }
    same(counts, g.histogram)
    same(edges, g.histogram_edges)
    counts, edges = x:histogram()
    same(counts, g.histogram_own)
    same(edges, g.histogram_own_edges)
    same(spread:histogram { bins = { -1, 0, 0.3, 5 }, weights = pn.arange(0, 10) }, g.histogram_list)
    assert.equal(20, pn.ones({ 20 }):histogram():sum():item())
    -- even bins hold what a search among their edges finds, on the edges themselves and beside them
    for _, given in ipairs { { 7, -1, 1.5 }, { 100, 0.1, 0.7 }, { 30, 1000, 1000.5 }, { 9, -1e-9, 1e-9 }, { 3, 2, 2 },
      { 90, 1000, 1000.001 } } do
      for _, dtype in ipairs { "float64", "float32" } do
        local n, low, high = table.unpack(given)
        local _, ends = pn.zeros({ 1 }, { dtype = dtype }):histogram { bins = n, range = { low, high } }
        local step = ends:abs() * (dtype == "float64" and 2 ^ -52 or 2 ^ -23)
        local strange = pn.tensor({ 0 / 0, math.huge, -math.huge, low - 1, high + 1 }, { dtype = dtype })
        local v = pn.concatenate({ ends, ends - step, ends + step, strange, pn.rand({ 500 }, { dtype = dtype }) *
          (high - low) + low }, 1)
        local even = v:histogram { bins = n, range = { low, high } }
        same(even, (v:histogram { bins = ends }):totable())
        assert.is_true(even:sum():item() >= 500)
      end
    end
    -- weights, their gradients and edges of all examples at once; long rows by lines
    local row, weights, three = float { -1, 0.5, 0.5, 0 / 0, 2, 3 }, float { 1, 2, 4, 8, 16, 32 }, { -1, 0.5, 1, 2 }
    same(row:histogram { bins = three, weights = weights }, { 1, 6, 16 })
    same(case.slope(function(u) return (row:histogram { bins = three, weights = u }) end, weights),
      float { 2, 12, 12, 0, 32, 0 })
    same(pn.vmap(function(u) return (u:histogram { bins = three }) end)(pn.stack({ row, row + 1 }, 1)),
      { { 1, 2, 1 }, { 1, 0, 2 } })
    for _, n in ipairs { 511, 512, 1000, 4097 } do
      for at = 0, 3 do
        local long = pn.zeros({ n }):scatter_add(1, whole { n - 1 - at * 100 }, float { 5 - at })
        for _, dtype in ipairs { "float64", "float32", "int64" } do
          assert.same({ 5 - at, at - 5 }, { long:to(dtype):max():item(), (-long:to(dtype)):min():item() })
        end
        local hole = long:scatter_add(1, whole { at }, float { 0 / 0 })
        assert.is_true(hole:max():isnan():item() and hole:to("float32"):min():isnan():item())
      end
    end
    same(holes:nansum(1), g.nansum)
    same(holes:nanmean(2), g.nanmean)
    same(case.slope(function(v) return v:nansum(1) end, float { { 1, 0 / 0 } }), float { { 2, 0 } })
  end)

  it("have gradients of both orders as finite differences", function()
    case.differentiates(pn.cumprod, float { { 0.5, 0, -2, 3 }, { 1.5, 0, 0, 0.7 } })
    case.differentiates(function(v) return v:cumprod(1) end, float { { 0.5, 0.3 }, { 0, 1.2 }, { 2, -1 } })
    case.differentiates(pn.logcumsumexp, float { { 0.5, -1, 2, 3 }, { -4, 0, 0.1, -0.7 } })
    case.differentiates(function(v, a) return v:linear_recurrence(a, 1) end, float { { 1, -1 }, { 0.5, 2 }, { 0, 3 } },
      float { 0.5, -0.9 })
    case.differentiates(function(v) return (v:cummax()) end, float { 0.5, -1, 2, 1, 3 })
    case.differentiates(function(v, p, y) return v:interp(p, y) end, float { 0.2, 1.4, -3 }, float { 0, 1, 2.5 },
      float { 1, -1, 0.3 })
    case.differentiates(function(v) return v:trapezoid(float { 0, 0.5, 2 }) end, float { 1, 2, -1 })
    case.differentiates(function(v, p) return v:trapezoid(p) end, float { 1, 2, -1 }, float { 0, 0.5, 2 })
    case.differentiates(function(v) return select(2, float { 1, 2 }:histogram { bins = v }) end, float { 0, 1.5, 3 })
    case.differentiates(function(v) return v:quantile({ 0.2, 0.7 }, 1) end, float { { 1, 5 }, { 2, 3 }, { 0.5, 9 } })
  end)

  it("replay to the same bits", function()
    for _, f in ipairs { function(v) return v:cumprod() end, function(v) return (v:cummax(1)) end, function(v)
        return v:quantile({ 0.1, 0.6 }, 2) end, function(v) return v:interp(float(g.places), float(g.heights)) end,
        function(v) return v:isin(x:select(1, 1)) end, function(v) return v:round():to("int64"):abs():reshape({ -1 })
          :bincount { num_bins = 9 } end, function(v)
        return (v:histogram { bins = 4, range = { -1, 1 } }) end } do
      case.replays(f, x)
    end
  end)

  it("are done for all examples at once", function()
    local rows, factors = pn.stack({ x, x * 0.5 - 1, x:square() }, 1), float { { 0.5 }, { -1 }, { 2 } }
    local function recur(v, a) return v:linear_recurrence(a, 1) end
    for k, axes in ipairs { { 1, 1 }, { 1, false }, { false, 1 } } do
      local got = pn.vmap(recur, { in_axes = axes })(k == 3 and x or rows, k == 2 and factors[1] or factors)
      for i = 1, 3 do
        same(got[i], recur(k == 3 and x or rows[i], k == 2 and factors[1] or factors[i]))
      end
    end
    same(pn.vmap(function(v) return v:cumprod(1) end)(rows), rows:cumprod(2))
    same(pn.vmap(function(v) return v:logcumsumexp(2) end)(rows), rows:logcumsumexp(3))
    same(pn.vmap(function(v) return (v:cummax(1)) end)(rows), (rows:cummax(2)))
    same(pn.vmap(function(v) return v:diagonal(1) end)(rows), rows:diagonal(1))
  end)

  it("refuse by name what does not fit", function()
    local classes = whole(g.classes)
    for name, f in pairs { quantile = function() x:quantile {} end, cumprod = function() x:cumprod(3) end,
        cummax = function() x:cummax(0) end, diff = function() x:diff(-1) end, trapezoid = function()
        x:trapezoid(float { 1, 2 }) end, searchsorted = function() x[1]:searchsorted(x, "up") end, interp = function()
        x:interp(x[1], x[1]:slice(1, 1, 2)) end, isin = function() x:isin(3) end, unique = function() pn.unique(3) end,
        bincount = function() whole({ 2, -1 }):bincount() end, histogram = function() x:histogram { bins = 0 } end,
        nansum = function() pn.nansum "x" end } do
      assert.error_matches(f, "^" .. name .. ": ")
    end
    assert.error_matches(function() classes:bincount { num_bins = 3 } end, "bincount: ")
    assert.error_matches(function() whole({ 1, -1 }):bincount { num_bins = 3 } end, "bincount: ")
    assert.error_matches(function() x:bincount() end, "bincount: x must be %[n%]")
    assert.error_matches(function() x[1]:bincount() end, "bincount: x must be whole numbers, got float64")
  end)
end)
