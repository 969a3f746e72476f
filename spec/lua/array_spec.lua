-- Operations on arrays that others make together, against NumPy, SciPy and PyTorch.
local pn = require "penumbra"
local g = dofile "spec/golden/tensor/array_values.lua"

local function float(t) return pn.tensor(t, { dtype = "float64" }) end
local function whole(t) return pn.tensor(t, { dtype = "int64" }) end
local x, y, u = float(g.x), whole(g.y), float(g.u)

local function same(got, want, tolerance)
  want = float(want)
  assert.same(want:shape(), got:shape())
  local gap = (got:to "float64" - want):abs() / (1 + want:abs())
  assert.is_true(gap:max():item() <= (tolerance or 1e-14), ("off by %g"):format(gap:max():item()))
end

describe("operations on arrays", function()
  it("have the values of NumPy and SciPy", function()
    same(pn.quantile(x, 0.3, 1), g.quantile)
    same(pn.median(x, 1), g.median)
    same(pn.median(x, -1), g.median2)
    same(pn.searchsorted(float { -1, 0, 0, 0.5 }, float { { -2, 0 }, { 0.25, 3 } }), g.searchsorted)
    same(pn.roll(x, 2, 2), g.roll)
    same(pn.roll(x, -5, 1), g.roll2)
    same(pn.repeat_interleave(x, 3, 2), g.repeat_interleave)
    same(pn.tile(x, 2, 1), g.tile)
    same(pn.stack({ pn.meshgrid(float { 1, 2 }, float { 3, 4, 5 }) }, 1), g.meshgrid)
    same(pn.one_hot(y, 5), g.one_hot)
    same(pn.kron(x:slice(1, 1, 2):slice(2, 1, 3), x:slice(1, 3, 4):slice(2, 1, 2)), g.kron)
    same(pn.stack(pn.unbind(x, 2), 2), g.x)
    same(pn.atanh(u * 0.99), g.atanh)
    same(pn.acosh(1 + u * 10), g.acosh)
    same(pn.logit(u), g.logit)
    same(pn.log2(u), g.log2)
    same(pn.log10(u), g.log10)
  end)

  it("have PyTorch's losses and slopes", function()
    local w = pn.param(x)
    local loss = pn.cross_entropy(w, y)
    same(loss, g.cross_entropy)
    same(pn.grad(loss, { w })[1], g.cross_entropy_slope)
    local huber = pn.huber(w, pn.zeros { 4, 5 }, 0.7)
    same(huber, g.huber)
    same(pn.grad(huber:sum(), { w })[1], g.huber_slope)
  end)

  it("have gradients as finite differences", function()
    local w = pn.param(float { 0.2, 0.7, 0.4, 0.35 })
    for name, f in pairs { quantile = function() return pn.quantile(w, 0.4, 1) end, atanh = function()
        return pn.atanh(w):sum() end, logit = function() return pn.logit(w):sum() end, acosh = function()
        return pn.acosh(w + 1):sum() end, roll = function() return (pn.roll(w, 1, 1) * w:square()):sum() end,
        kron = function() return pn.kron(w:unsqueeze(1), w:unsqueeze(2)):square():sum() end } do
      assert(pn.check_gradients(f, { w }), name)
    end
  end)

  it("refuse by name what does not fit", function()
    for name, f in pairs { quantile = function() pn.quantile(x, 2, 1) end, median = function() pn.median(x, 3) end,
        roll = function() pn.roll(x, 0.5, 1) end, tile = function() pn.tile(x, 0, 1) end,
        cross_entropy = function() pn.cross_entropy(x, y:unsqueeze(2)) end, huber = function()
        pn.huber(x, x:slice(1, 1, 1)) end, kron = function() pn.kron(x, y) end, one_hot = function()
        pn.one_hot(y, 0) end, searchsorted = function() pn.searchsorted(x, x) end, meshgrid = function()
        pn.meshgrid(x, x) end } do
      assert.error_matches(f, name .. ": ")
    end
  end)
end)
