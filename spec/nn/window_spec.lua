--- Windows over sequences and volumes: what PyTorch's values (spec/golden/nn/torch_layers.py) do not show. Moments
--- against closed forms, pools of other sizes that must agree, infinities beside a window, ties, replay of other sizes,
--- refusals.
local pn = require "penumbra"
local nn = pn.nn

local function largest(t) return t:abs():max():item() end

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

describe("moments", function()
  it("of a mean are the mean and the variance over the number of elements", function()
    pn.seed(1)
    local all = { avg_pool1d = { 2, 3, 6 }, avg_pool2d = { 2, 3, 6, 4 }, avg_pool3d = { 2, 3, 4, 2, 4 } }
    for name, sizes in pairs(all) do
      local mean, variance, axes = pn.randn(sizes), pn.rand(sizes) + 0.1, #sizes - 2
      local pool = nn[name] { kernel = 2 }
      local m, v = pool:moments(mean, variance)
      assert.same(pool(mean):totable(), m:totable())
      assert.is_true(largest(v - pool(variance) / 2 ^ axes) < 1e-15)
      assert.is_true(v:min():item() > 0)
    end
  end)

  it("of the largest element are its own", function()
    local mean, variance = pn.tensor { { { 1, 5, 2, 0, 7, 3 } } }, pn.tensor { { { 10, 20, 30, 40, 50, 60 } } }
    local m, v = nn.max_pool1d(2):moments(mean, variance)
    assert.same({ { { 5, 2, 7 } } }, m:totable())
    assert.same({ { { 20, 30, 50 } } }, v:totable())
    refused("max_pool3d: has no moments of an uncertain input", function()
      local x = pn.ones { 1, 1, 2, 2, 2 }
      nn.max_pool3d(2):moments(x, x)
    end)
  end)

  it("of convolutions are those of sums of independent numbers", function()
    pn.seed(2)
    for name, sizes in pairs { conv3d = { 1, 2, 3, 2, 3 }, conv_transpose1d = { 1, 2, 4 } } do
      local layer = nn[name](2, 3, 2, { bias_init = "he" })
      local mean, variance = pn.param(pn.randn(sizes)), pn.rand(sizes)
      local m, v = layer:moments(mean, variance)
      assert.same(layer(mean):totable(), m:totable())
      local want = pn.jacobian(function(x) return layer(x):flatten() end, mean:detach()) -- rows: outputs
      want = (want:reshape { v:numel(), -1 }:square():matmul(variance:flatten()))
      assert.is_true(largest(v:flatten() - want) < 1e-13)
    end
  end)
end)

describe("adaptive pools", function()
  it("are pools of equal windows where the size divides, and the input where it is the size", function()
    pn.seed(3)
    local x = pn.randn { 2, 3, 6, 8 }
    assert.is_true(largest(nn.adaptive_avg_pool2d { size = { 3, 4 } }(x) - nn.avg_pool2d(2)(x)) < 1e-15)
    local even = nn.max_pool2d { kernel = { 2, 4 } }
    assert.same(even(x):totable(), nn.adaptive_max_pool2d { size = { 3, 2 } }(x):totable())
    assert.same(x:totable(), nn.adaptive_avg_pool2d { size = { 6, 8 } }(x):totable())
    assert.is_true(largest(nn.adaptive_avg_pool2d(1)(x) - x:mean({ 3, 4 }, true)) < 1e-15)
  end)

  it("keep infinities and NaN to the windows that hold them", function()
    local x = pn.tensor { { { 1, 2, math.huge, 4, 5, 6, 7 } } }
    assert.same({ { { 1.5, math.huge, math.huge, 5.5, 6.5 } } }, nn.adaptive_avg_pool1d(5)(x):totable())
    local y = nn.adaptive_avg_pool1d(3)(pn.tensor { { { 1, 2, 3, 4, 5, 6, 0 / 0 } } })
    assert.same({ 2, 4 }, y[1][1]:slice(1, 1, 2):totable())
    assert.is_true(y[1][1][3]:isnan():item())
  end)

  it("give the slope of a tie to the first place, as pools do", function()
    local x = pn.param(pn.zeros { 1, 1, 5 })
    assert.same({ { { 1, 1, 0, 1, 0 } } }, pn.grad(nn.adaptive_max_pool1d(3)(x):sum(), { x })[1]:totable())
    local v = pn.param(pn.zeros { 1, 1, 2, 2, 2 })
    local slope = pn.grad(nn.max_pool3d(2)(v):sum(), { v })[1]
    assert.same({ 1, 0, 0, 0, 0, 0, 0, 0 }, slope:flatten():totable())
  end)
end)

describe("windows", function()
  it("of three axes are a number or a list of three, and print so", function()
    local layer = nn.conv3d(2, 3, { kernel = { 1, 2, 3 }, stride = 2 })
    assert.equal("conv3d(2 -> 3, kernel = {1, 2, 3}, stride = 2)", tostring(layer))
    assert.same({ 3, 2, 1, 2, 3 }, nn.conv3d(2, 3, { kernel = { 1, 2, 3 } }):parameters()[1]:shape())
    refused("conv3d: kernel must be a whole number or a list of three", nn.conv3d, 2, 3, { kernel = { 1, 2 } })
    refused("max_pool3d: padding must be a whole number in %[0, 65536%] or three of them, got 1x%-1x1", nn.max_pool3d,
      { kernel = 2, padding = { 1, -1, 1 } })
    refused("max_pool3d: option kernel must be given", nn.max_pool3d)
    refused("max_pool2d: kernel must be a whole number or a list of two", nn.max_pool2d, { kernel = { 1, 2, 3 } })
    refused("max_pool1d: kernel must be a number", nn.max_pool1d, { kernel = { 1, 2 } })
    local largest_size = nn.conv3d(1, 1, { kernel = 1, dilation = 65536, stride = { 65536, 1, 65535 } })
    assert.same({ 1, 1, 1, 1, 1 }, largest_size(pn.ones { 1, 1, 1, 1, 1 }):shape())
  end)

  it("refuse what does not fit", function()
    refused("conv3d: kernel of depth 3 must fit in the padded volume, got depth 2", function()
      nn.conv3d(1, 1, 3)(pn.ones { 1, 1, 2, 5, 5 })
    end)
    refused("conv3d: groups must divide in and out, 3 and 4, got 2", nn.conv3d, 3, 4, { kernel = 1, groups = 2 })
    refused("adaptive_avg_pool1d: input must have at least one place along each axis, got size 0", function()
      nn.adaptive_avg_pool1d(2)(pn.ones { 1, 1, 0 })
    end)
    refused("adaptive_max_pool1d: input must be float64 or float32, got int64", function()
      nn.adaptive_max_pool1d(2)(pn.zeros({ 1, 1, 3 }, { dtype = "int64" }))
    end)
    refused("glu: input must have an even size along axis %-1, got %[2, 3%]", function() nn.glu()(pn.ones { 2, 3 }) end)
    refused("glu: input must have an even size along axis 3, got %[2, 4%]", function()
      nn.glu { axis = 3 }(pn.ones { 2, 4 })
    end)
  end)

  it("are replayed for inputs of another size, each captured once", function()
    pn.seed(4)
    local net = nn.sequential { nn.conv3d(1, 2, { kernel = 2, padding = 1 }), nn.adaptive_max_pool3d(2), nn.flatten() }
    local step = pn.compile(function(x) return net(x) end)
    for _, n in ipairs { 3, 4, 3 } do
      local x = pn.randn { 2, 1, n, 3, 3 }
      assert.same(net(x):totable(), step(x):totable())
    end
    assert.equal(2, step:captures())
  end)
end)
