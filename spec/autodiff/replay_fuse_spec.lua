-- Groups of a plan: elementwise chains over rows, jumps and reductions of many sizes give the eager bits, whatever is
-- broadcast, for any number of threads.
local pn = require "penumbra"

local function same(a, b)
  if a:numel() == 0 then
    return b:numel() == 0
  end
  return pn.logical_or(a:eq(b), pn.logical_and(a:isnan(), b:isnan())):all():item()
end

local function check(f, ...)
  local want = { f(...) }
  local plan = pn.compile(f)
  plan(...)
  local got = { plan(...) }
  assert.equal(#want, #got)
  for k = 1, #want do
    assert.same(want[k]:shape(), got[k]:shape())
    assert.is_true(same(want[k], got[k]), ("result %d differs"):format(k))
  end
  return plan:plans()[1]
end

describe("groups", function()
  for _, dtype in ipairs { "float64", "float32" } do
    local o = { dtype = dtype }

    it("hold what is broadcast over the first, the second and the last axis, with sums of rows, " .. dtype, function()
      pn.seed(1)
      for _, size in ipairs { { 3, 4, 5 }, { 7, 1, 33 }, { 2, 3, 511 }, { 2, 3, 512 }, { 3, 2, 513 }, { 2, 5, 784 },
        { 2, 2, 1023 }, { 2, 2, 1024 }, { 3, 2, 1025 }, { 40, 30, 6 }, { 1, 9, 1 }, { 300, 2, 2 } } do
        local k, b, d = table.unpack(size)
        local z, x = pn.randn({ k, b, d }, o), pn.randn({ b, d }, o)
        local w, g = pn.randn({ d }, o), pn.randn({ k, b, 1 }, o)
        check(function(t, u, v, s)
          local e = ((t - u):square() * -0.5 + v) * s
          return e:sum(3), (e:tanh() + u):mean(3)
        end, z, x, w, g)
        check(function(t, u, v, s)
          return (t + u) * v, ((t * s):abs() - u):sum { 2, 3 }, (t:sigmoid() * v):max(3)
        end, z, x, w, g)
      end
    end)

    it("hold masks and other element sizes beside sums of rows, " .. dtype, function()
      pn.seed(2)
      for _, d in ipairs { 5, 500, 600, 1000, 1024 } do
        local x, y = pn.randn({ 6, d }, o), pn.randn({ 6, d }, o)
        check(function(t, u)
          local keep = (t * 2):gt(u)
          local chosen = pn.where(keep, t, u)
          return chosen:sum(2), keep, (chosen:to "float64" * 2):sum(2), (chosen:to "float32" + 1):sum(2)
        end, x, y)
      end
    end)
  end

  it("sum rows that are longer than a tile piece by piece", function()
    pn.seed(3)
    for _, dtype in ipairs { "float64", "float32" } do
      local o = { dtype = dtype }
      for _, size in ipairs { { 1, 511 }, { 1, 513 }, { 2, 767 }, { 3, 768 }, { 2, 769 }, { 1, 1025 }, { 4, 1279 },
        { 1, 1280 }, { 2, 1281 }, { 1, 2049 }, { 300, 1100 }, { 1, 100003 } } do
        local x, y = pn.randn(size, o), pn.randn(size, o)
        local plan = check(function(t, u)
          local e = (t * u):tanh()
          return e:sum(), e:mean(), (e + t):square():sum()
        end, x, y)
        assert.equal(1, plan.steps)
        assert.is_true(plan.bytes < 0.2 * x:numel() + 20000)
        check(function(t, u)
          local e = t:exp() - u
          return e, e:sum(2), (e * t):mean(2, true), (e:to "float64" * 2):sum(), e:max(2)
        end, x, y)
      end
    end
  end)

  it("need no memory for what only they read", function()
    local o = { dtype = "float32" }
    local z, x = pn.randn({ 20, 30, 784 }, o), pn.randn({ 30, 784 }, o)
    local plan = check(function(t, u)
      return ((t - u):square() * t):sum(3)
    end, z, x)
    assert.equal(1, plan.steps)
    assert.is_true(plan.bytes < 1.1 * 4 * (z:numel() + x:numel()) + 10000)
  end)

  it("give the same bits for any number of threads", function()
    local before = pn.threads()
    local z, x, first = pn.randn { 60, 20, 100 }, pn.randn { 20, 100 }, nil
    local plan = pn.compile(function(t, u)
      local e = (t * u):exp()
      return e, e:sum(3)
    end)
    local all = pn.compile(function(t)
      return ((t * 2):tanh() + t):sum()
    end)
    for threads = 1, 3 do
      pn.threads(threads)
      plan(z, x)
      local e, s = plan(z, x)
      all(z)
      first = first or { e, s, all(z) }
      assert.is_true(same(first[1], e) and same(first[2], s) and same(first[3], all(z)))
    end
    pn.threads(before)
  end)

  -- Parts of a matrix [m, n] that was made in the group: what each gives stands in the group if it has m n elements.
  local reads = {
    function(made, m, _, _, u) return made:slice(1, 1, m, 2) * u end,
    function(made, _, _, t) return made:slice(1, 1, 1) * t end,
    function(made, m, n, t) return made:slice(1, 1, 1):broadcast_to { m, n } - t end,
    function(made, m, _, t) return made:slice(1, m, m) * t end,
    function(made, _, n, t) return made:slice(2, 1, 1) * t + made:slice(2, n, n) end,
    function(made) return made:transpose(1, 2) * 3 end,
    function(made, _, n) return made:slice(2, 1, n, 2) + 1 end,
    function(made, m, n) return made:reshape(m * n):slice(1, 1, m * n, 2) * 2 end,
  }

  it("read parts of what they made by their own steps, on the first axis and on the last", function()
    for _, size in ipairs { { 3, 2 }, { 40, 40 }, { 200, 200 }, { 3, 3000 }, { 5, 1 } } do
      local m, n = table.unpack(size)
      local x, y = pn.randn { m, n }, pn.randn { (m + 1) // 2, n }
      check(function(t, u)
        local made, out = t * 2 + 1, {}
        for k, read in ipairs(reads) do out[k] = read(made, m, n, t, u) end
        return table.unpack(out)
      end, x, y)
      for _, read in ipairs(reads) do
        check(function(t, u) return read(t * 2 + 1, m, n, t, u) end, x, y)
      end
    end
  end)

  it("of a loop's turn read what the turn before left, in no more steps than what was there before", function()
    local turns <const> = 60
    for _, width in ipairs { 7, 700, 5000 } do
      local x = pn.randn { turns, width }
      local function steps(before)
        local plan = check(function(t)
          local h, states, more = t:select(1, 1), {}, {}
          for k = 1, turns do
            local other = before and h or t:select(1, k)
            h = (h * 0.5 + t:select(1, k)):tanh()
            states[k], more[k] = h, (other * 1.5 + 1):sin()
          end
          return pn.stack(states, 1), pn.stack(more, 1)
        end, x)
        assert.equal(1, plan.loops)
        return plan.steps
      end
      assert.equal(steps(false), steps(true), width)
    end
  end)
end)
