-- Numbers below the smallest normal one: products and convolutions of float32 take them as 0, on any number of threads;
-- everything else keeps them.
local pn = require "penumbra"

local o32 = { dtype = "float32" }
local tiny = 1e-40 -- a float32 from 1.2e-38 on is normal

local function largest(t) return t:abs():max():item() end

-- Products of every route: small, of vectors, by BLAS, in threads; f(number, how) gives one.
local function products(x, how)
  local function full(...) return pn.full({ ... }, x, how) end
  local function ones(...) return pn.ones({ ... }, how) end
  return {
    small = full(3, 4):matmul(ones(4, 2)),
    vector = full(300, 20):matmul(ones(20, 1)),
    blas = full(30, 40):matmul(ones(40, 50)),
    threads = how == o32 and full(400, 60):matmul(ones(60, 100)) or full(1),
    folded = full(4, 30, 20):matmul(ones(20, 30)),
    conv = pn.conv2d(full(1, 2, 8, 8), ones(4, 2, 3, 3)),
    transpose = pn.conv_transpose2d(full(1, 2, 8, 8), ones(2, 4, 3, 3)),
  }
end

describe("subnormal numbers", function()
  it("count as 0 in products of float32, and in no others", function()
    for name, y in pairs(products(tiny, o32)) do assert.equal(0, largest(y), name) end
    for name, y in pairs(products(1e-310, { dtype = "float64" })) do
      assert.is_true(largest(y) > 0, name)
    end
    for name, y in pairs(products(1e-36, o32)) do -- normal numbers stay
      assert.is_true(largest(y) >= 0.9e-36, name)
    end
  end)

  it("do not change sums in which they are not all", function()
    pn.seed(3)
    local x, w = pn.randn({ 64, 300 }, o32), pn.randn({ 300, 100 }, o32)
    local spoilt = pn.where(x:abs():lt(0.3), pn.full({ 64, 300 }, tiny, o32), x)
    local clean = pn.where(x:abs():lt(0.3), pn.zeros({ 64, 300 }, o32), x)
    assert.same(clean:matmul(w):totable(), spoilt:matmul(w):totable())
  end)

  it("are kept by all other arithmetic, also after a product", function()
    pn.ones({ 300, 200 }, o32):matmul(pn.ones({ 200, 100 }, o32))
    local x = pn.full({ 1000 }, tiny, o32)
    assert.is_true((x * 0.5):min():item() > 0)
    assert.is_true((x + x):min():item() > tiny)
    assert.is_true(x:sum():item() > 900 * tiny)
  end)

  it("give the same bits on any number of threads", function()
    local before = pn.threads()
    local function all()
      pn.seed(4)
      -- exponents that reach far below the smallest normal number
      local x = (pn.randn({ 300, 150 }, o32) * 30 - 60):exp()
      assert.is_true(x:square():min():item() < 1e-38)
      local image = (pn.randn({ 16, 3, 20, 20 }, o32) * 20 - 60):exp()
      local kernel = image:slice(1, 1, 8):slice(3, 1, 5):slice(4, 1, 5)
      return { x:matmul(x:t()), pn.conv2d(image, kernel) }
    end
    pn.threads(1)
    local one = all()
    pn.threads(2)
    local two = all()
    pn.threads(before)
    for k = 1, 2 do
      assert.is_true(one[k]:eq(two[k]):all():item() == true)
      assert.is_true(one[k]:max():item() > 0)
    end
  end)
end)
