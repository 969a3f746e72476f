--- Loops over elements at the edges of their blocks (2048 and 16384 elements, src/tensor/shape.c), alone and by
--- threads: a whole is what its short slices are, each computed alone; sums of whole numbers are exact.
local pn = require "penumbra"

local SLICE = 1500 -- less than a block, and no divisor of one
local SIZES = { 2047, 2049, 16383, 16384, 16385, 32767, 32768, 32769, 49153 }

-- x [rows, n], whose rows lie apart where `apart`.
local function numbers(rows, n, dtype, apart)
  local x = pn.arange(rows * (n + 3)):to(dtype):reshape { rows, n + 3 }:remainder(1021) - 317
  return apart and x:slice(2, 2, n + 1) or pn.contiguous(x:slice(2, 2, n + 1))
end

local CALLS = {
  sum = function(x, column) return x + column end,
  scaled = function(x, column) return column * x end,
  compared = function(x, column) return x:lt(column) end,
  chosen = function(x, column) return pn.where(x:gt(0), x, column) end,
  whole = function(x) return x:to "int64" end,
  other_type = function(x) return x:to(x:dtype() == "float64" and "float32" or "float64") end,
  squared = function(x) return x:square() end,
  one = function(x) return x:sigmoid() end,
}

local function same(name, a, b)
  assert(a:dtype() == b:dtype() and a:eq(b):all():item(), name .. ": a slice is not what it is alone")
end

describe("at the edge of a block", function()
  for _, threads in ipairs { 1, 3 } do
    it(("elements are what they are alone, by %d threads"):format(threads), function()
      local before = pn.threads()
      pn.threads(threads)
      local ok, message = pcall(function()
        for k, n in ipairs(SIZES) do
          for _, dtype in ipairs { "float64", "float32" } do
            local rows = 1 + k % 3
            local x, column = numbers(rows, n, dtype, k % 2 == 0), pn.arange(rows):to(dtype):reshape { rows, 1 } + 2
            for name, call in pairs(CALLS) do
              local whole = call(x, column)
              for from = 1, n, SLICE do
                local to = math.min(from + SLICE - 1, n)
                local told = ("%s of [%d, %d], %s, from %d"):format(name, rows, n, dtype, from)
                same(told, whole:slice(2, from, to), call(pn.contiguous(x:slice(2, from, to)), column))
              end
              -- and with the long axis first
              local turned = x:transpose(1, 2)
              same(name .. " turned", call(turned, column:transpose(1, 2)), whole:transpose(1, 2))
            end
          end
        end
      end)
      pn.threads(before)
      assert(ok, message)
    end)
  end

  it("sums of whole numbers are exact", function()
    for _, n in ipairs(SIZES) do
      for _, dtype in ipairs { "float64", "int64" } do
        local x = pn.arange(3 * n):to(dtype):reshape { 3, n }
        local first = n * (n - 1) // 2
        assert.same({ first, first + n * n, first + 2 * n * n }, x:sum(2):to("int64"):totable())
        assert.same({ first, first + n * n, first + 2 * n * n }, x:transpose(1, 2):sum(1):to("int64"):totable())
        local down = x:sum(1)
        assert.equal(3 * n, down[1]:item())
        assert.equal(3 * n + 3 * (n - 1), down[n]:item())
        assert.equal(3 * n * (3 * n - 1) // 2, x:sum():to("int64"):item())
        assert.equal(3 * n - 1, x:max():item())
        assert.equal(n - 1, x:max(2)[1]:item())
        assert.equal(0, x:min():item())
      end
    end
  end)
end)
