-- Steps of small tensors, which a replay does without looking at anything else: the eager bits for all sizes, types,
-- broadcasts, transposes, operands that come twice and values that are none; joins, sums and checks beside them.
local pn = require "penumbra"
local dist = pn.dist

local function same(a, b) return pn.logical_or(a:eq(b), pn.logical_and(a:isnan(), b:isnan())):all():item() end

local function check(f, ...)
  local want, plan = { f(...) }, pn.compile(f)
  plan(...)
  for _ = 1, 2 do
    local got = { plan(...) }
    for k = 1, #want do
      assert.same(want[k]:shape(), got[k]:shape())
      assert.is_true(same(want[k], got[k]), ("result %d differs"):format(k))
    end
  end
  return plan:plans()[1]
end

local function strange(n, o)
  local values = { 0, math.huge, -math.huge, 0 / 0, -1e300, 1e-310, 3 }
  local list = {}
  for k = 1, n do list[k] = values[(k - 1) % #values + 1] end
  return pn.tensor(list, o)
end

describe("lean steps", function()
  for _, dtype in ipairs { "float64", "float32" } do
    local o = { dtype = dtype }
    for _, n in ipairs { 1, 3, 8, 40, 200, 600 } do
      it(("of %d elements give the eager bits, %s"):format(n, dtype), function()
        pn.seed(n)
        local x, s = pn.randn({ n }, o), pn.randn({}, o)
        for _, t in ipairs { x, strange(n, o) } do
          check(function(a, b)
            local e = (a * b + a):tanh() - a / b
            local m = e:gt(a)
            return e, m, pn.where(m, e, b), (e * e):sum(), (b * b):exp(), e:sum() + b, e:mean(), e:max()
          end, t, s)
          check(function(a, b)
            return pn.concatenate { a, a * 2, (b + 1):reshape { 1 }, a:flip(1) }, pn.stack({ a, a - b }, 2)
          end, t, s)
        end
      end)

      it(("of %d rows give the eager bits, %s"):format(n, dtype), function()
        pn.seed(n)
        local k = n < 100 and n or 2
        local x, y, r = pn.randn({ n, k }, o), pn.randn({ n, 1 }, o), pn.randn({ k }, o)
        check(function(a, b, v)
          local e = (a - b) * v
          local u = n < 100 and e + a:t() or e
          return e, u, u:sum(2), u:sum(1), u:mean(2, true) + b, (u * u):sum(), u:matmul(v), v:matmul(a:t())
        end, x, y, r)
      end)
    end

    it("of densities with a scale that is known have the eager bits and gradients, " .. dtype, function()
      pn.seed(5)
      for _, law in ipairs { "normal", "cauchy", "laplace", "logistic", "gumbel", "half_normal", "half_cauchy" } do
        for _, n in ipairs { 1, 3, 300 } do
          for _, scale in ipairs { pn.tensor(1.7, o), pn.rand({ n }, o) + 0.5 } do
            local x, m = pn.rand({ n }, o) * 3, pn.randn({ n }, o):requires_grad(true)
            check(function(a, b)
              local halved = law:find "half_"
              local lp = (halved and dist[law](scale) or dist[law](b, scale)):log_prob(a)
              local g = pn.grad(lp:sum(), halved and { a } or { a, b })
              return lp, table.unpack(g)
            end, x:requires_grad(true), m)
          end
        end
      end
    end)
  end

  it("of checks refuse what the eager ones refuse, at every call", function()
    local f = pn.compile(function(s, m) return dist.normal(m, s):log_prob(m) end)
    local m = pn.randn { 3 }
    for _ = 1, 3 do
      f(pn.tensor(2), m)
      local ok, message = pcall(f, pn.tensor(-2), m)
      assert(not ok and message:find("scale must be positive, got -2", 1, true), message)
      ok, message = pcall(f, pn.tensor(2), pn.tensor { 1, 0 / 0, 1 })
      assert(not ok and message:find("loc must be finite", 1, true), message)
    end
  end)

  it("that follow one another count as one, and turn with a loop", function()
    local x = pn.randn { 100, 4 }
    local plan = check(function(t)
      local h, sums = t[1], {}
      for k = 1, 100 do
        h = (h * 0.5 + t[k]):tanh()
        sums[k] = h:sum() + (h * h):max()
      end
      return h, pn.stack(sums, 1)
    end, x)
    assert(plan.loops > 0 and plan.steps < 20, plan.steps)
    assert.equal(1, check(function(t) return ((t * 2):exp() + t):tanh():sum() end, x[1]).steps)
  end)
end)
