-- Windows that overlap much are pooled by another way than few: both against the definition, with their gradients.
local pn = require "penumbra"

-- visit(i, j, place, value) for every window [i, j] of x [1, 1, H, W] and each of its elements, in the order of rows
local function each(x, k, s, p, visit)
  local t, shape = x:totable()[1][1], x:shape()
  local H, W = shape[3], shape[4]
  local rows, columns = (H + 2 * p[1] - k[1]) // s[1] + 1, (W + 2 * p[2] - k[2]) // s[2] + 1
  for i = 1, rows do
    for j = 1, columns do
      for a = math.max((i - 1) * s[1] - p[1] + 1, 1), math.min((i - 1) * s[1] - p[1] + k[1], H) do
        for b = math.max((j - 1) * s[2] - p[2] + 1, 1), math.min((j - 1) * s[2] - p[2] + k[2], W) do
          visit((i - 1) * columns + j, (a - 1) * W + b, t[a][b])
        end
      end
    end
  end
  return rows, columns
end

local function expected(x, k, s, p)
  local most, sum, count, at, hits = {}, {}, {}, {}, {}
  local rows, columns = each(x, k, s, p, function(w, place, v)
    if not at[w] or (most[w] == most[w] and (v > most[w] or v ~= v)) then most[w], at[w] = v, place end
    sum[w], count[w] = (sum[w] or 0) + v, (count[w] or 0) + 1
  end)
  local mean, inside = {}, {}
  for w = 1, rows * columns do
    mean[w], inside[w] = sum[w] / (k[1] * k[2]), sum[w] / count[w]
    hits[at[w]] = (hits[at[w]] or 0) + 1
  end
  for i = 1, x:numel() do hits[i] = hits[i] or 0 end
  local function shaped(t) return pn.tensor(t):reshape(1, 1, rows, columns) end
  return { max = shaped(most), mean = shaped(mean), inside = shaped(inside),
    hits = pn.tensor(hits):reshape(x:shape()):to "float64" }
end

local function assert_equal(y, want, tolerance)
  local same = pn.where(want:isnan(), y:isnan(), (y - want):abs():le(tolerance))
  assert.is_true(same:all():item())
end

describe("pooling with any window", function()
  it("is what the definition says", function()
    pn.seed(3)
    math.randomseed(3)
    local pick = math.random
    for round = 1, 150 do
      local H, W = pick(1, 24), pick(1, 24)
      local k = { pick(1, H + 2), pick(1, W + 2) }
      local p, s = { pick(0, k[1] // 2), pick(0, k[2] // 2) }, { pick(1, 3), pick(1, 3) }
      if H + 2 * p[1] >= k[1] and W + 2 * p[2] >= k[2] then
        local x = (pn.rand(1, 1, H, W) * 8):floor() -- with ties
        if round % 5 == 0 then x = pn.where(pn.rand(1, 1, H, W):lt(0.02), pn.full({ 1 }, 0 / 0), x) end
        local want = expected(x, k, s, p)
        assert_equal(x:max_pool2d(k, s, p), want.max, 0)
        assert_equal(x:avg_pool2d(k, s, p), want.mean, 1e-12)
        assert_equal(x:avg_pool2d(k, s, p, false), want.inside, 1e-12)
        assert_equal(x:to "float32":avg_pool2d(k, s, p):to "float64", want.mean, 1e-5)
        if round % 5 ~= 0 then -- the first of the largest gets the gradient
          local w = pn.param(x)
          assert_equal(pn.grad(w:max_pool2d(k, s, p):sum(), { w })[1], want.hits, 0)
          for _, all in ipairs { true, false } do -- <A r, g> = <r, A' g>
            local r, g = pn.param(pn.randn(1, 1, H, W)), pn.randn(want.mean:shape())
            local y = (r:avg_pool2d(k, s, p, all) * g):sum()
            assert.near(y:item(), (pn.grad(y, { r })[1] * r):sum():item(), 1e-9)
          end
        end
      end
    end
  end)

  it("are refused of pictures beyond 2^24 rows or columns, before any memory is asked for", function()
    for axis = 3, 4 do
      for _, pool in ipairs { "max_pool2d", "avg_pool2d" } do
        local shape = { 1, 1, 1, 1 }
        shape[axis] = (1 << 24) + 1
        local x = pn.zeros { 1, 1, 1, 1 }:broadcast_to(shape)
        assert.error_matches(function() x[pool](x, 1) end, pool .. ": x must have shape")
      end
    end
  end)
end)
