-- A compiled function of a result and another view of the same result (its transpose, a row, its diagonal, a part)
-- reads what other tiles have yet to write: values and gradients are the eager ones to the bit, at sizes below, about
-- and beyond a tile.
local pn = require "penumbra"

local views = {
  transpose = function(y) return y + y:t() * 2 end,
  ["permuted product"] = function(y) return (y * y:t()):tanh() - y end,
  diagonal = function(y) return y:exp() * y:diagonal():unsqueeze(2) end,
  ["diagonal along the other axis"] = function(y) return y - y:diagonal():unsqueeze(1) * 3 end,
  row = function(y) return y * 2 + y:select(1, y:size(1)) end,
  column = function(y) return (y - y:select(2, 1):unsqueeze(2)):square() end,
  ["neighbouring rows"] = function(y) return (y:slice(1, 2, y:size(1)) - y:slice(1, 1, y:size(1) - 1)):abs() end,
  ["neighbouring columns"] = function(y) return y:slice(2, 2, y:size(2)) * y:slice(2, 1, y:size(2) - 1) + 1 end,
  corner = function(y) return y + y:slice(1, 1, 1):slice(2, 1, 1) end,
  reshaped = function(y) return y + y:t():reshape(y:shape()) end,
  ["sums of rows and of the transpose's"] = function(y) return (y:sum(2, true) + y:t():sum(2, true)):sigmoid() + y end,
  ["sums of its first rows"] = function(y) return y + y:slice(1, 1, y:size(1) - 1):sum(2):sum() end,
  ["sums of rows of its first half"] = function(y)
    local half = (y * 2):slice(1, 1, y:size(1) // 2)
    return y:slice(1, 1, y:size(1) // 2) + half:sum(2, true)
  end,
  ["sums of rows of its last half"] = function(y)
    local n = y:size(1)
    return y:slice(1, 1, n - n // 2) + (y * 2):slice(1, n // 2 + 1, n):sum(2, true)
  end,
  ["rows of other lengths"] = function(y) -- of n numbers, of n - 1
    local n = y:size(1)
    local wide = y:slice(1, 1, n - 1):reshape { n - 1, 1, n } * (y[1] + 1)
    local one = wide:reshape { n, n - 1 } * y:select(1, n):slice(1, 1, n - 1)
    return one:exp() - one
  end,
  ["sums of rows, and pieces of the rows"] = function(y)
    local n = y:size(1)
    local x = y:reshape { n * n, 1 } * pn.ones({ 6 }, { dtype = y:dtype() })
    local z = x * 1.5
    local piece = z:reshape { n * n, 2, 3 } * x:select(1, 1):slice(1, 1, 3)
    return piece:reshape { n * n, 6 } + z:sum(2, true)
  end,
  ["mean of rows of the transpose"] = function(y) return y:t() - y:t():mean(2, true) + y end,
  ["softmax beside its transpose"] = function(y) return y:softmax(2) + y:softmax(2):t() end,
}

local names = {}
for name in pairs(views) do names[#names + 1] = name end
table.sort(names)

local function bits(want, got, what)
  assert.same(want:shape(), got:shape())
  assert(want:eq(got):all():item(), ("%s: off by %.3g"):format(what, (want - got):abs():max():item()))
end

describe("a compiled function of a result with", function()
  for _, name in ipairs(names) do
    it(name, function()
      for _, dtype in ipairs { "float64", "float32" } do
        for _, n in ipairs { 3, 40, 200 } do
          local o = { dtype = dtype }
          local w = pn.param(pn.randn({ n }, { dtype = dtype, generator = pn.generator(1) }))
          local function f(x)
            local y = (x * w + 0.1):tanh() * 1.5 - x:square() * 0.2
            local z = views[name](y)
            local out = (z * 0.7):sin() + z
            return out, pn.grad((out * out):sum(), { w })[1]
          end
          local compiled = pn.compile(f)
          compiled(pn.randn({ n, n }, o))
          for seed = 2, 3 do
            local x = pn.randn({ n, n }, { dtype = dtype, generator = pn.generator(seed) })
            local value, slope = f(x)
            local replayed, replayed_slope = compiled(x)
            local what = ("%s of %d in %s"):format(name, n, dtype)
            bits(value, replayed, what)
            bits(slope, replayed_slope, what .. ", gradient")
          end
          assert.equal(1, compiled:captures())
        end
      end
    end)
  end
end)
