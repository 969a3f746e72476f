-- Labels and vectors by logits: one kernel against the formula in builders, its gradients against those of the formula
-- and of the graph that is differentiated again; sets of vectors with one member that is none among thousands.
local pn = require "penumbra"
local dist = pn.dist
local inf = math.huge

local function close(got, want, limit)
  assert.are.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end

-- log p by builders alone
local function formula(logits, x)
  local l = logits:log_softmax(-1)
  if x:dtype() == "int64" then return l:gather(-1, x:unsqueeze(-1)):squeeze(-1) end
  return pn.where(x:eq(0), x * 0, x * l):sum(-1)
end

local function check(name, logits, limit)
  local w = pn.param(logits)
  local x = dist[name]{logits = logits}:sample()
  local y, want = dist[name]{logits = w}:log_prob(x), formula(w, x)
  close(y, want, limit)
  local g = pn.rand(y:shape(), {dtype = logits:dtype()})
  local kernel = pn.grad((y * g):sum(), {w})[1]
  close(kernel, pn.grad((want * g):sum(), {w})[1], limit)
  local graph = pn.grad((y * g):sum(), {w}, {create_graph = true})[1]
  close(graph, kernel, limit)
  local again = pn.grad((graph * graph):sum(), {w})[1]
  local first = pn.grad((want * g):sum(), {w}, {create_graph = true})[1]
  close(again, pn.grad((first * first):sum(), {w})[1], 10 * limit)
end

describe("masses by logits", function()
  for _, name in ipairs{"categorical", "one_hot_categorical"} do
    it(name .. " agrees with its formula", function()
      pn.seed(5)
      for _, n in ipairs{1, 2, 3, 10, 64, 65} do
        check(name, pn.randn{37, n} * 3, 1e-12)
        check(name, pn.randn{2, 3, n}:to "float32", 2e-5)
      end
      check(name, pn.randn{10, 40}:t(), 1e-12)
      check(name, pn.randn{5}, 1e-12)
    end)
    it(name .. " gives draws of one distribution and batches that broadcast what each gives", function()
      pn.seed(6)
      local logits = pn.randn{4, 10}
      local d = dist[name]{logits = logits}
      local x = d:sample{7}
      local y = d:log_prob(x)
      for k = 1, 7 do
        close(y:slice(1, k, k):squeeze(1), d:log_prob(x:slice(1, k, k):squeeze(1)), 1e-13)
      end
    end)
    it(name .. " leaves out classes with logits -inf", function()
      local logits = pn.tensor{{-inf, 0, 1}, {2, -inf, -inf}}
      local w = pn.param(logits)
      local d = dist[name]{logits = w}
      local x = pn.tensor({1, 0}, {dtype = "int64"})
      if name ~= "categorical" then x = pn.tensor{{0, 1, 0}, {1, 0, 0}} end
      local y = d:log_prob(x)
      close(y, pn.tensor{-math.log(1 + math.exp(1)), 0}, 1e-14)
      local p = 1 / (1 + math.exp(1))
      close(pn.grad(y:sum(), {w})[1], pn.tensor{{0, 1 - p, p - 1}, {0, 0, 0}}, 1e-14)
    end)
  end

  it("are -inf outside the support, without a slope", function()
    local w = pn.param(pn.randn{3, 4})
    local y = dist.categorical{logits = w}:validate(false):log_prob(pn.tensor({4, -1, 0}, {dtype = "int64"}))
    assert.are.equal(-inf, y:totable()[1])
    assert.are.equal(-inf, y:totable()[2])
    local g = pn.grad(y:slice(1, 3, 3):sum(), {w})[1]
    assert.are.equal(0, g:slice(1, 1, 2):abs():max():item())
  end)
end)

describe("one vector among thousands that is no member", function()
  local function refused(name, parameter, value, what)
    local ok, message = pcall(function() return dist[name]{[parameter] = value} end)
    assert.is_false(ok)
    assert.matches(what, message)
  end
  for _, dtype in ipairs{"float64", "float32"} do
    it("is found in " .. dtype, function()
      local n = 3000
      local p = pn.full({n, 10}, 0.1, {dtype = dtype})
      assert.is_truthy(dist.categorical{probs = p})
      local bump = pn.zeros({n, 10}, {dtype = dtype})
      local function at(row, value)
        local column = pn.arange(n):eq(row):to(dtype):unsqueeze(-1)
        return bump + column * value
      end
      refused("categorical", "probs", p + at(2000, 1e-4), "sum to 1")
      refused("categorical", "probs", p + at(2000, -0.2), "sum to 1")
      refused("categorical", "logits", p / (1 - at(2999, 1)), "not all %-inf")
      refused("dirichlet", "concentration", p + at(7, -0.1), "positive")
      local x = dist.one_hot_categorical{probs = p}:sample()
      local d = dist.one_hot_categorical{probs = p}:validate(false)
      assert.are.equal(0, d:log_prob(x):isinf():sum():item())
      assert.are.equal(1, d:log_prob(x + at(11, 1)):isinf():sum():item())
      assert.are.equal(1, d:log_prob(x * (1 - at(11, 1))):isinf():sum():item())
    end)
  end
end)
