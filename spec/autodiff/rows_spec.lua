-- Short rows: gradients by kernels beside those of the graph that is differentiated again, and the same bits for any
-- number of threads and whether or not a group of a replay reduces its rows.
local pn = require "penumbra"

local function close(got, want, limit)
  assert.are.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end
local function same(got, want)
  assert.are.same(want:shape(), got:shape())
  assert.is_true((got:eq(want):logical_or(got:ne(got):logical_and(want:ne(want)))):all():item())
end

local along = {softmax = -1, log_softmax = -1, logsumexp = -1, sum = -1, mean = -1, max = -1, min = -1}

describe("short rows", function()
  for name, axis in pairs(along) do
    it("have one gradient of " .. name .. " with and without a graph", function()
      pn.seed(2)
      for _, dtype in ipairs{"float64", "float32"} do
        local limit = dtype == "float64" and 1e-13 or 1e-5
        for _, n in ipairs{1, 2, 7, 10, 33, 64, 65} do
          local x = pn.param((pn.randn{23, n} * 4):to(dtype))
          local y = pn[name](x, axis)
          local g = pn.rand(y:shape(), {dtype = dtype})
          local kernel = pn.grad((y * g):sum(), {x})[1]
          close(kernel, pn.grad((y * g):sum(), {x}, {create_graph = true})[1], limit)
        end
      end
    end)
    it("give one " .. name .. " whatever computes it", function()
      pn.seed(3)
      local x = pn.randn{20000, 10}
      local function f(t) return pn[name](t * 1.5 - 1, axis) * 2 end
      local old = pn.threads()
      pn.threads(1)
      local want = f(x)
      same(pn.compile(f)(x), want)
      for _, n in ipairs{2, 3} do
        pn.threads(n)
        same(f(x), want)
        same(pn.compile(f)(x), want)
      end
      pn.threads(old)
      same(f(x:slice(1, 17, 17)), want:slice(1, 17, 17))
      same(f(x:slice(1, 100, 119)), want:slice(1, 100, 119))
    end)
  end

  it("that are -inf throughout have logsumexp -inf without a slope", function()
    local x = pn.param(pn.tensor{{-math.huge, -math.huge}, {0, 0}})
    local y = x:logsumexp(-1)
    assert.are.equal(-math.huge, y:totable()[1])
    assert.are.same({{0, 0}, {0.5, 0.5}}, pn.grad(y:slice(1, 2, 2):sum(), {x})[1]:totable())
    assert.are.same({0, 0}, pn.grad(y:sum(), {x})[1]:totable()[1])
  end)

  it("of truth values are told by any and all", function()
    local x = pn.tensor{{true, false, true}, {false, false, false}, {true, true, true}}
    assert.are.same({true, false, true}, x:any(-1):totable())
    assert.are.same({false, false, true}, x:all(-1):totable())
    assert.are.same({true, true, true}, x:any(1):totable())
    assert.are.same({true, false, true}, x:t():any(1):totable())
    assert.are.same({false, false, true}, x:t():all(1):totable())
    local y = pn.tensor{{0, 0 / 0}, {0, 0}}
    assert.are.same({true, false}, y:any(-1):totable())
    assert.are.same({}, pn.zeros{0, 3}:any(-1):totable())
    assert.are.same({false, false}, pn.zeros{2, 0}:any(-1):totable())
    assert.are.same({true, true}, pn.zeros{2, 0}:all(-1):totable())
    assert.is_false(pn.zeros{3, 4}:any():item() ~= false and pn.zeros{3, 4}:any():item() ~= 0)
  end)

  it("beside what repeats give what they give beside all of it, at once and in replays", function()
    pn.seed(4)
    local shapes = {{{50, 10}, {50, 1}}, {{50, 10}, {10}}, {{7, 9, 3}, {7, 1, 3}}, {{7, 9, 3}, {9, 1}},
      {{7, 9, 3}, {1, 9, 1}}, {{3, 5, 1, 31}, {5, 4, 1}},
      {{600, 32}, {600, 1}}, {{600, 33}, {600, 1}}, {{3000, 2}, {1, 2}}, {{9, 1}, {1, 8}}}
    local function mixed(x, y)
      local z = (x * y - y) / (y:abs() + 1)
      return pn.where(y:gt(0), z:exp(), x:abs() ^ y) + (x:gt(y):logical_or(z:lt(0))):to(x:dtype())
    end
    for _, pair in ipairs(shapes) do
      for _, dtype in ipairs{"float64", "float32"} do
        local x, y = pn.randn(pair[1]):to(dtype), (pn.randn(pair[2]) * 2):round():to(dtype)
        local whole = (x * 0 + y):shape()
        local function wide(t) return t:broadcast_to(whole):contiguous() end
        local want = mixed(wide(x), wide(y))
        same(mixed(x, y), want)
        same(pn.compile(mixed)(x, y), want)
        same(y:broadcast_to(whole):exp(), wide(y):exp())
        same(mixed(wide(x):transpose(-1, -2), wide(y):transpose(-1, -2)):transpose(-1, -2), want)
      end
    end
  end)

  it("that lie apart have the shares of copies", function()
    pn.seed(6)
    for _, dtype in ipairs{"float64", "float32"} do
      local x = pn.randn{5, 7, 43}:to(dtype)
      for k, y in ipairs{x:slice(3, 4, 23), x:slice(2, 2, 5), x:slice(2, 2, 5):slice(3, 1, 20), x:transpose(1, 2),
        x:transpose(1, 2):slice(3, 2, 12), x:select(2, 3), x:select(2, 3):slice(2, 2, 40), x:transpose(1, 3)} do
        local copy = y:contiguous()
        same(y:softmax(-1), copy:softmax(-1))
        same(y:log_softmax(-1), copy:log_softmax(-1))
        assert((y:softmax(-1):sum(-1) - 1):abs():max():item() < 1e-5, k)
      end
    end
  end)

  for _, name in ipairs{"softmax", "log_softmax", "logsumexp", "sum", "mean", "max", "min", "argmax", "argmin"} do
    it("along any axis give the " .. name .. " of rows along the last", function()
      pn.seed(5)
      for _, shape in ipairs{{10, 37}, {3, 10, 8}, {4, 7, 5}, {2, 3, 64, 3}, {2, 65, 3}, {5, 1, 4}} do
        for _, dtype in ipairs{"float64", "float32"} do
          local limit = dtype == "float64" and 1e-13 or 1e-5
          local x = pn.param((pn.randn(shape) * 3):to(dtype))
          for axis = 1, #shape do
            local y = pn[name](x, axis)
            local keeps = #y:shape() == #shape
            local last = pn[name](x:transpose(axis, -1):contiguous(), -1)
            local want = keeps and last:transpose(axis, -1) or last
            if not keeps and axis < #shape then -- the last axis stands where the reduced one was
              local order = {}
              for k = 1, #shape - 1 do order[k] = k < axis and k or k == #shape - 1 and axis or k + 1 end
              want = last:permute(order)
            end
            if not name:find "^arg" then
              close(y, want, limit)
              local g = pn.rand(y:shape(), {dtype = dtype})
              local kernel = pn.grad((y * g):sum(), {x})[1]
              close(kernel, pn.grad((want * g):sum(), {x}, {create_graph = true})[1], 10 * limit)
            else
              same(y, want)
            end
          end
        end
      end
    end)
  end

  it("longer than a vector have their extremes wherever these stand, and NaN with one", function()
    pn.seed(8)
    for _, dtype in ipairs{"float64", "float32"} do
      for _, n in ipairs{65, 96, 97, 131} do
        local rows, places = pn.rand({n, n}):to(dtype), pn.arange(n):to(dtype)
        for _, top in ipairs{2, 0 / 0} do
          local x = pn.where(pn.eye(n):gt(0), pn.tensor(top, {dtype = dtype}), rows) -- row i: at place i
          if top == top then
            same(x:max(-1), places * 0 + top)
            same((-x):min(-1), places * 0 - top)
            close(x:softmax(-1):diagonal(), pn.exp(places * 0 + top) / x:exp():sum(-1),
              dtype == "float64" and 1e-14 or 1e-6)
          else
            for _, y in ipairs{x:max(-1), x:min(-1), x:logsumexp(-1), x:softmax(-1):sum(-1)} do
              assert.are_equal(n, y:isnan():to "int64":sum():item())
            end
          end
        end
      end
    end
  end)

  it("that are many and wide add up by columns as a product with ones does", function()
    pn.seed(9)
    for _, dtype in ipairs{"float64", "float32"} do
      for _, shape in ipairs{{150, 1100}, {131, 2049}, {200, 300}, {1000, 130}, {70, 512}} do
        local x, threads = pn.randn(shape):to(dtype), pn.threads()
        pn.threads(1)
        local sums = x:sum(1)
        pn.threads(threads)
        close(sums, pn.ones({1, shape[1]}, {dtype = dtype}):matmul(x):squeeze(1), dtype == "float64" and 1e-12 or 1e-4)
        pn.threads(3)
        same(x:sum(1), sums)
        pn.threads(threads)
      end
    end
  end)
end)
