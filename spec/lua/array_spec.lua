-- Operations on arrays that others make together, against NumPy, SciPy and PyTorch.
local pn = require "penumbra"
local case = require "spec.lua.array_case"
local g, float, whole, same = case.golden, case.float, case.whole, case.same
local x, y, u = float(g.x), whole(g.y), float(g.u)

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
    for name, f in pairs { quantile = function() return pn.quantile(w, 0.4, 1) end, logit = function()
        return pn.logit(w):sum() end, roll = function() return (pn.roll(w, 1, 1) * w:square()):sum() end,
        kron = function() return pn.kron(w:unsqueeze(1), w:unsqueeze(2)):square():sum() end } do
      assert(pn.check_gradients(f, { w }), name)
    end
  end)

  it("have NumPy's shapes and elements", function()
    local c = float(g.c)
    same(c:select(1, 1):select(1, 1):tile { 2, 1, 3 }, g.tile_list)
    same(c:tile { 2, 3 }, g.tile_last)
    same(x:repeat_interleave({ 2, 0, 1, 3 }, 1), g.repeat_list)
    assert.error_matches(function() x:repeat_interleave({ 1, 2 }, 1) end, "^repeat_interleave: times must be")
    same(c:moveaxis(3, 1), g.moveaxis)
    same(c:moveaxis(-1, 1), g.moveaxis)
    same(c:flatten(), c:reshape { -1 })
    same(c:flatten(2), c:reshape { 2, 12 })
    same(c:flatten(1, 2), c:reshape { 6, 4 })
    local sizes = {}
    for k, piece in ipairs(pn.arange(0, 11):chunk(4)) do sizes[k] = piece:size(1) end
    assert.same(g.chunk, sizes)
    same(pn.concatenate(c:chunk(3, -1), 3), c)
    for k, size in ipairs { { 1, 0, 3 }, 3 } do
      local pieces = c:split(size, 3)
      assert.equal(({ 3, 2 })[k], #pieces)
      same(pn.concatenate(pieces, 3), c)
    end
    same(float(g.z):trunc(), g.trunc)
    local odd = float { 0 / 0, math.huge, -math.huge, 2.5 }
    same(odd:nan_to_num(), g.nan_to_num)
    same(odd:nan_to_num { nan = -1, posinf = 9, neginf = -9 }, g.nan_to_num_own)
    assert.same({ 0, 0x1.fffffep127, -0x1.fffffep127, 2.5 }, odd:to("float32"):nan_to_num():totable())
    local inf, nan = math.huge, 0 / 0
    same(float({ 1, 1, inf, inf, nan, 0 }):isclose(float { 1 + 1e-6, 1.1, inf, -inf, nan, 1e-9 }), g.isclose)
    same(float({ nan, inf }):isclose(float { nan, 1 }, { equal_nan = true }), g.isclose_nan)
    assert.is_true(x:allclose(x + 1e-9))
    assert.is_false(x:allclose(x + 1e-3))
    for _, like in ipairs { x:to "float32", y } do
      assert.same({ like:shape(), like:dtype() }, { like:zeros_like():shape(), like:ones_like():dtype() })
      assert.equal(2 * like:numel(), like:full_like(2):sum():item())
    end
  end)

  it("are methods of tensors", function()
    same(x:quantile(0.3, 1), g.quantile)
    same(x:roll(2, 2), g.roll)
    same(x:slice(1, 1, 2):slice(2, 1, 3):kron(x:slice(1, 3, 4):slice(2, 1, 2)), g.kron)
    same(x:cross_entropy(y), g.cross_entropy)
    assert.error_matches(function() x:roll(0.5, 1) end, "^roll: shift must be")
    assert.error_matches(function() x:norm { q = 2 } end, "^norm: unknown option 'q'")
  end)

  it("take what is empty", function()
    local none = x:slice(1, 5, 4)
    assert.same({ 0, 5 }, none:shape())
    assert.same({ 0, 5 }, x[{ { 5, 4 } }]:shape())
    assert.same({ 4, 0 }, x[{ {}, { 1, 0 } }]:shape())
    assert.same({ 4, 0 }, x[{ {}, { 3, 2 } }]:shape())
    assert.same({ 0, 5 }, none[{ { 1, 0 } }]:shape())
    assert.same({ 0, 5 }, x:slice(1, 5):shape())
    same(pn.concatenate({ none, x, x:slice(1, 1, 0) }, 1), x)
    for _, bad in ipairs { { 6, 5 }, { 0, 2 }, { 5, 5 }, { 1, 0, -1 } } do
      assert.error_matches(function() return x[{ bad }] end, "range must lie in 1 .. 4")
    end
    for name, shape in pairs { roll = { 0, 5 }, cumprod = { 0, 5 }, cummax = { 0, 5 }, diff = { 0, 5 }, flatten = { 0 },
        trunc = { 0, 5 }, nan_to_num = { 0, 5 }, trapezoid = { 5 } } do
      local arguments = { roll = { 1, 1 }, diff = { 1, 1 }, trapezoid = { 1, 1 }, cumprod = { 1 }, cummax = { 1 } }
      assert.same(shape, none[name](none, table.unpack(arguments[name] or {})):shape(), name)
    end
    assert.equal(0, none:norm():item())
    assert.equal(0, #none:unbind(1))
    assert.same({ 0 }, (none:unique()):shape())
    assert.same({ 0 }, whole({}):bincount():shape())
    assert.same({ 5, 0 }, none:pinv():shape())
    assert.same({ 0, 5 }, none:isin({ 1 }):shape())
    assert.equal(0, none:histogram():sum():item())
    local w = pn.param(x)
    local slope = pn.grad((w:slice(1, 5, 4):cumprod(1):sum() + w:slice(1, 5, 4):logcumsumexp(1):sum()), { w })[1]
    same(slope, x * 0)
  end)

  it("refuse sizes without end before anything is made", function()
    for name, f in pairs { chunk = function() x:chunk(1 << 62) end, tensor = function() x:tile(1 << 62, 1) end,
        ["tensor:"] = function() x:repeat_interleave(1 << 62, 1) end } do
      assert.error_matches(f, "^" .. name .. ".*4611686018427387904")
    end
  end)

  it("refuse by name what does not fit", function()
    for name, f in pairs { quantile = function() pn.quantile(x, 2, 1) end, median = function() pn.median(x, 3) end,
        roll = function() pn.roll(x, 0.5, 1) end, tile = function() pn.tile(x, 0, 1) end,
        cross_entropy = function() pn.cross_entropy(x, y:unsqueeze(2)) end, huber = function()
        pn.huber(x, x:slice(1, 1, 1)) end, kron = function() pn.kron(x, y) end, one_hot = function()
        pn.one_hot(y, 0) end, searchsorted = function() pn.searchsorted(x, x) end, meshgrid = function()
        pn.meshgrid(x, x) end, split = function() x:split({ 1, 2 }, 1) end, chunk = function() x:chunk(0) end,
        flatten = function() x:flatten(2, 1) end, moveaxis = function() x:moveaxis(3, 1) end, full_like = function()
        x:full_like "a" end, nan_to_num = function() x:nan_to_num { inf = 1 } end, isclose = function()
        x:isclose(x, { tol = 1 }) end, allclose = function() pn.allclose(1, x) end } do
      assert.error_matches(f, "^" .. name)
    end
  end)
end)
