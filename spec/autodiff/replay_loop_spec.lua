-- Loops of compiled functions: what the function does over and over is replayed as a loop, and gives the bits of an
-- eager call, whatever is in it; what cannot be a loop stays as it is.
local pn = require "penumbra"
local cases = require "spec.autodiff.op_case"
local common = require "spec.autodiff.replay_case"
local dist, optim = pn.dist, pn.optim
local same, rounds = common.same, common.rounds

-- The only plan of the compiled f.
local function plan_of(f)
  return f:plans()[1]
end

-- The plan of f after a call with arguments, whose results are those of an eager call (drawing the same numbers).
local function checked(f, ...)
  pn.seed(3)
  local want = table.pack(f(...))
  local place = pn.rng_state()
  local compiled = pn.compile(f)
  compiled(...)
  for _ = 1, 2 do
    pn.seed(3)
    local got = table.pack(compiled(...))
    assert.same(place, pn.rng_state())
    for k = 1, want.n do
      same(got[k], want[k], "result " .. k)
    end
  end
  return plan_of(compiled)
end

describe("an operation in a loop", function()
  local TURNS = 40

  local function at_turns(inputs)
    local all = {}
    for k, x in ipairs(inputs) do
      local list = {}
      for t = 1, TURNS do
        list[t] = x * (1 - 0.002 * t)
      end
      all[k] = pn.stack(list, 1)
    end
    return all
  end

  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden and row.name ~= "nonzero" then
      for _, dtype in ipairs { "float64", "float32" } do
        it(("%s gives what an eager one gives, %s"):format(row.name, dtype), function()
          local call, inputs = cases.case(row, dtype, row.square and { 2, 3, 3 } or { 2, 3 })
          local function each(...)
            local all, out = { ... }, {}
            for t = 1, TURNS do
              local x = {}
              for k = 1, #all do
                x[k] = all[k]:select(1, t)
              end
              out[t] = call(x)
            end
            return pn.stack(out, 1)
          end
          local xs = at_turns(inputs)
          local plan = checked(each, table.unpack(xs))
          assert(plan.steps < TURNS, "steps: " .. plan.steps)
          if row.differentiable then
            local w = cases.params(xs)
            checked(function()
              local y = each(table.unpack(w))
              return y, table.unpack(pn.grad((y * y):sum(), w))
            end)
          end
        end)
      end
    end
  end
end)

-- x_t = f(x_(t-1), t), its sum of squares and gradients in x_0 and the weight.
local function recursion(turns, f)
  local w, start = pn.param(pn.tensor { 0.9, 0.2, -0.4 }), pn.param(pn.tensor { 1, 2, 3 })
  return function(scale)
    local x, loss = start * scale, pn.tensor(0)
    for t = 1, turns do
      x = f(x, t, w)
      loss = loss + x:square():sum()
    end
    return x, loss, table.unpack(pn.grad(loss, { w, start }))
  end
end

describe("a loop", function()
  it("of any number of turns gives the eager bits", function()
    for turns = 1, 50 do
      local plan = checked(recursion(turns, function(x, _, w)
        return (x * w):tanh() + 0.1
      end), pn.tensor(1.5))
      if turns >= 36 then
        assert(plan.loops >= 2, turns .. " turns, loops: " .. plan.loops)
      end
    end
  end)

  it("has a plan whose size does not depend on its turns", function()
    local steps = {}
    for k, turns in ipairs { 60, 600 } do
      local f = recursion(turns, function(x, t, w)
        return (x * w + t):tanh()
      end)
      steps[k] = checked(f, pn.tensor(1.5)).steps
    end
    assert.equal(steps[1], steps[2])
    assert(steps[1] < 50)
  end)

  local ways = {
    ["a first turn of its own"] = function(x, t, w)
      return t == 1 and x * 2 or x * w
    end,
    ["a last turn of its own"] = function(x, t, w)
      return t == 80 and x:exp() or x * w
    end,
    ["a turn of its own in the middle"] = function(x, t, w)
      return t == 31 and x:exp():neg() or x * w
    end,
    ["a last turn that differs in a number only"] = function(x, t, w)
      return x * w + (t == 80 and 5 or 1)
    end,
    ["two kinds of turns by turns"] = function(x, t, w)
      return t % 2 == 0 and x:tanh() or x * w
    end,
    ["two kinds of turns without order"] = function(x, t, w)
      return (t * t * 7 % 11) % 3 == 0 and x:tanh() or x * w
    end,
    ["another kind of turn from its middle on"] = function(x, t, w)
      return t > 40 and x:tanh() or x * w
    end,
    ["the number of the turn in it"] = function(x, t, w)
      return x * w + t / 80
    end,
    ["draws in it"] = function(x, _, w)
      return x * w + pn.randn { 3 } * pn.rand { 3 }
    end,
    ["draws from another range at each second turn"] = function(x, t, w)
      return x * w + pn.randint(t % 2, 7, 3):to "float64" * 0.1
    end,
    ["draws from ranges of other ends"] = function(x, t, w)
      return x * w + pn.randint(0, t > 40 and 7 or 9, 3):to "float64" * 0.1
    end,
    ["another kind of draw at each second turn"] = function(x, t, w)
      return x * w + (t % 2 == 0 and pn.randn { 3 } or pn.rand { 3 })
    end,
    ["orders of three in it"] = function(x, t, w)
      return x * w + (t % 2 == 0 and pn.randperm(3) or pn.randint(0, 3, 3)):to "float64" * 0.1
    end,
    ["draws of distributions in it"] = function(x, _, w)
      return x * w + dist.gamma(x:tanh():square() + 1, 2):rsample() + dist.poisson(3):sample { 3 }
    end,
    ["matrices in it"] = function(x, t, w)
      local a = x:unsqueeze(2):matmul(w:unsqueeze(1)) + pn.eye(3) * (20 + t)
      return a:cholesky():matmul(x:unsqueeze(2)):squeeze(2) * 0.1
    end,
    ["views of what the turn before gave"] = function(x, _, w)
      return x:flip(1) * w + x:slice(1, 2, 2) + x:select(1, 3)
    end,
    ["a loop within"] = function(x, _, w)
      for k = 1, 3 do
        x = (x * w + k):tanh()
      end
      return x
    end,
    ["a long loop within"] = function(x, _, w)
      for k = 1, 40 do
        x = (x * w + k):tanh()
      end
      return x
    end,
    ["the same tensor at each turn and a branch on the last"] = function(x, t, w)
      local y = x * w:exp() - w
      return t == 80 and y or y + w
    end,
  }
  -- Ways that leave no long loop; all others have one at least.
  local short = { ["two kinds of turns without order"] = true, ["a loop within"] = false }
  for name, f in pairs(ways) do
    it("with " .. name .. " gives the eager bits", function()
      local plan = checked(recursion(80, f), pn.tensor(0.5))
      assert.equal(not short[name], plan.loops > 0)
      rounds(name, recursion(80, f), 4, function(k)
        return pn.tensor(0.5 / k)
      end)
    end)
  end

  it("of ten thousand turns, one of which differs late, gives the eager bits", function()
    local different = {
      ["another operation"] = function(y, w) return (y * w):sin() + 0.5 end,
      ["another number"] = function(y, w) return (y * w):tanh() + 0.25 end,
      ["another shape"] = function(y, w) return (y * w):sum():tanh() + y * 0.5 end,
      ["an operand of another turn"] = function(_, w, first) return (first * w):tanh() + 0.5 end,
    }
    local w, start = pn.param(pn.tensor { 0.9, 0.2, -0.4 }), pn.param(pn.tensor { 1, 2, 3 })
    for name, other in pairs(different) do
      local plan = checked(function(scale)
        local x, loss, early = start * scale, pn.tensor(0), nil
        for t = 1, 10000 do
          early = t == 7 and x or early
          x = t == 9000 and other(x, w, early) or (x * w):tanh() + 0.5
          loss = loss + x:square():sum()
        end
        return x, loss, table.unpack(pn.grad(loss, { w, start }))
      end, pn.tensor(1.5))
      assert(plan.loops >= 2 and plan.steps < 100, name .. ": " .. plan.steps)
    end
  end)

  it("begins at what a function without arguments draws first", function()
    for turns = 3, 60, 19 do
      checked(function()
        local x = pn.randn { 3 }
        local first = x
        for t = 1, turns do
          x = (x * 0.9 + first):tanh() + first * (t % 2)
        end
        return x, first
      end)
    end
  end)

  it("that looks two turns back is one", function()
    local w = pn.param(pn.tensor { 0.5, -0.3 })
    local function f(noise)
      local a, b, loss = pn.tensor(0), pn.tensor(1), pn.tensor(0)
      for t = 1, 100 do
        a, b = b, w[1] * b + w[2] * a + noise:select(1, t)
        loss = loss + (b - a):square()
      end
      return loss, b, table.unpack(pn.grad(loss, { w }))
    end
    local plan = checked(f, pn.randn { 100 })
    assert(plan.loops >= 2 and plan.steps < 100, plan.steps)
  end)

  it("over a list that another one made is one, forwards or backwards", function()
    local function f(x)
      local list, sum = {}, x:select(1, 1)
      for t = 1, 50 do
        list[t] = (x:select(1, t) + 1):log() + x:select(1, 51 - t)
      end
      for t = 50, 1, -1 do
        sum = sum * 0.9 + list[t]
      end
      for t = 1, 50 do
        sum = sum * list[t] + list[1]
      end
      return sum, pn.stack(list, 1)
    end
    local plan = checked(f, pn.rand { 50 } + 1)
    assert.equal(3, plan.loops)
  end)

  local pieces = {
    ["that follow one another"] = { { 1, 2 }, { 3, 4 }, { 5, 6 } },
    ["with gaps"] = { { 1, 3, 2 }, { 4, 6, 2 } },
    ["of which the second has gaps"] = { { 1, 2 }, { 3, 5, 2 }, { 5, 6 } },
    ["of which the first has gaps"] = { { 1, 3, 2 }, { 3, 4 } },
    ["of one number each"] = { { 1, 1 }, { 3, 3 }, { 5, 5 } },
    ["of one number each, unevenly"] = { { 1, 1 }, { 2, 2 }, { 4, 4 } },
    ["of several sizes"] = { { 1, 2 }, { 3, 3 }, { 4, 6 } },
    ["that overlap"] = { { 1, 2 }, { 2, 3 }, { 3, 4 } },
    ["that are one"] = { { 1, 6 } },
  }
  for name, ranges in pairs(pieces) do
    it("whose results are joined in pieces " .. name .. " gives the eager bits", function()
      local function f(x)
        local h, list, back, some = x, {}, {}, {}
        for t = 1, 40 do
          h = (h * 0.9):sin() + 0.1
          for k, range in ipairs(ranges) do
            list[#list + 1] = h:slice(1, range[1], range[2], range[3] or 1)
            table.insert(back, 1, list[#list])
            if k == 1 and t % 3 == 0 then
              some[#some + 1] = list[#list]
            end
          end
        end
        return pn.concatenate(list), pn.concatenate(back), pn.concatenate(some)
      end
      assert(checked(f, pn.tensor { 1, 2, 3, 4, 5, 6 }).loops > 0)
    end)
  end

  it("reads what it has just made and keeps as it lies, crosswise and in part", function()
    local plan = checked(function(x)
      local h, list, sum = x, {}, x
      for t = 1, 36 do
        h = (h * 0.9):sin() + 0.1
        sum = sum * 0.5 + h:t() * h - h:slice(1, 2, 2) + h:flip(2):exp() + (list[t - 1] or x)
        list[t] = h
      end
      return sum, pn.stack(list, 1)
    end, pn.randn { 72, 72 })
    assert.equal(1, plan.loops)
  end)

  it("reads large arguments where they lie", function()
    local function f(x, a)
      local h = x:select(1, 1)
      for t = 1, 60 do
        h = (x:select(1, t) + a:matmul(h)):tanh()
      end
      return h
    end
    rounds("large", f, 4, function(k)
      return pn.randn { 60, 200 } * k, pn.randn { 200, 200 } * 0.1
    end)
  end)

  it("has second derivatives", function()
    local w = pn.param(pn.tensor { 0.3, 0.4 })
    local function f(x)
      local h = x
      for _ = 1, 60 do
        h = (h * w):sin() + 1
      end
      local g = pn.grad(h:sum(), { w }, { create_graph = true })[1]
      return g, pn.grad(g:square():sum(), { w })[1]
    end
    assert(checked(f, pn.tensor { 1, 2 }).loops > 1)
  end)

  it("of training steps leaves the parameters of eager ones", function()
    local a, b = pn.param(pn.tensor { 1, 2 }), pn.param(pn.tensor { 1, 2 })
    local function step(w, opt)
      return function(x)
        local loss
        for _ = 1, 40 do
          loss = (w * x - 1):square():sum()
          opt:apply(pn.grad(loss, { w }))
        end
        return loss
      end
    end
    local eager = step(a, optim.adam({ a }, { lr = 0.1 }))
    local compiled = pn.compile(step(b, optim.adam({ b }, { lr = 0.1 })))
    for k = 1, 3 do
      same(compiled(pn.tensor { k, 1 }), eager(pn.tensor { k, 1 }), "loss")
      same(b, a, "parameter")
    end
  end)

  -- f(x) fails where an element of x is not positive.
  local function fails(f)
    local compiled, x = pn.compile(f), pn.ones(50)
    compiled(x)
    pn.seed(5)
    local want, place = f(x), pn.rng_state()
    local bad = pn.where(pn.arange(50):eq(41), pn.tensor(-1), x)
    pn.seed(5)
    common.refused("normal: scale must be positive, got -1", compiled, bad)
    pn.seed(5)
    assert.error(function() f(bad) end)
    local after = pn.rng_state()
    pn.seed(5)
    pcall(compiled, bad)
    assert.same(after, pn.rng_state())
    pn.seed(5)
    same(compiled(x), want, "after a failure")
    assert.same(place, pn.rng_state())
    assert.equal(1, compiled:captures())
    assert.equal(1, plan_of(compiled).loops)
  end

  it("that fails at some turn leaves generators where they were, and the eager call tells", function()
    fails(function(x)
      local sum = pn.tensor(0)
      for t = 1, 50 do
        sum = sum + dist.normal(pn.randn {}, x:select(1, t)):rsample()
      end
      return sum
    end)
  end)

  it("that is done when something behind it fails has its draws taken back", function()
    fails(function(x)
      local sum = pn.randn {}
      for t = 1, 50 do
        sum = sum + x:select(1, t) * pn.randn {}
      end
      return dist.normal(sum, x:min()):rsample()
    end)
  end)

  it("follows parameters that are set, and constants that are not", function()
    local w, y = pn.param(pn.tensor { 1, 2, 3 }), {}
    for t = 1, 120 do
      y[t] = pn.tensor(math.sin(t))
    end
    local function f(x)
      local sum = x
      for t = 1, 120 do
        sum = sum * 0.5 + w:select(1, 1 + t % 3) * y[t]
      end
      return sum
    end
    local compiled = pn.compile(f)
    for k = 1, 3 do
      w:set(pn.tensor { k, -k, 2 })
      same(compiled(pn.tensor(k)), f(pn.tensor(k)), "round " .. k)
    end
    assert.equal(1, plan_of(compiled).loops)
  end)
end)

describe("constant numbers that look alike", function()
  it("stay apart: zeros of both signs, types, shapes", function()
    local function f(x)
      local y = x:to "float32"
      return 1 / (x * pn.tensor(0.0)), 1 / (x * pn.tensor(-0.0)), 1 / (y * pn.tensor(0.0, { dtype = "float32" })),
        1 / (y * pn.tensor(-0.0, { dtype = "float32" })), x + pn.tensor(2), x + pn.tensor { 2 },
        x + pn.tensor { { 2 } }, y + pn.tensor(2, { dtype = "float32" }), x:take(1, pn.tensor { 0 }:to "int64"),
        x:take(1, pn.tensor(0):to "int64"), pn.tensor(true):where(x, 5), pn.tensor(false):where(x, 5),
        x:unsqueeze(2):matmul(pn.tensor { { 2 } }), pn.concatenate({ x, pn.tensor { 2 } }, 1)
    end
    local x = pn.tensor { 3, 4 }
    local want, compiled = table.pack(f(x)), pn.compile(f)
    compiled(x)
    local got = table.pack(compiled(x))
    assert.equal(1, compiled:captures())
    for k = 1, want.n do
      assert.same(want[k]:shape(), got[k]:shape(), "result " .. k)
      assert.equal(want[k]:dtype(), got[k]:dtype(), "result " .. k)
      assert.same(want[k]:totable(), got[k]:totable(), "result " .. k)
    end
    assert.same({ { math.huge, math.huge }, { -math.huge, -math.huge } }, { got[1]:totable(), got[2]:totable() })
  end)

  it("are one for a loop that makes its number anew at each turn, and that of another loop is its own", function()
    local function f(x)
      for _ = 1, 60 do x = (x * pn.tensor(0.5)):sin() end
      for _ = 1, 60 do x = (x * pn.tensor(0.25)):sin() end
      for t = 1, 60 do x = (x + pn.tensor(t % 3 * 0.5)):sin() end
      return x
    end
    local x, compiled = pn.tensor { 3, 4 }, pn.compile(f)
    compiled(x)
    assert.same(f(x):totable(), compiled(x):totable())
    assert.equal(3, compiled:plans()[1].loops)
  end)
end)
