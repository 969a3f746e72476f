-- A training loop needs no collectgarbage, in either of Lua's modes: graphs inside layers count too.
local pn = require "penumbra"
local nn, optim = pn.nn, pn.optim

local function largest_of(steps, step)
  collectgarbage()
  local base, largest = pn.memory(), 0
  for _ = 1, steps do
    step()
    largest = math.max(largest, pn.memory() - base)
  end
  return largest / 2 ^ 20
end

describe("memory", function()
  for _, mode in ipairs { "incremental", "generational" } do
    it("of a loop stays bounded in " .. mode .. " mode", function()
      local before = collectgarbage(mode)
      local net = nn.sequential { nn.bayes_linear(1, 100), nn.relu(), nn.bayes_linear(100, 1) }
      local opt = optim.sgd(net:parameters(), { lr = 1e-6 })
      local x = pn.randn { 1000, 1 }
      local graph = largest_of(1, function() -- what one step keeps
        opt:step(net(x):square():mean() + net:kl() * 1e-3)
      end)
      local trained = largest_of(200, function()
        opt:step(net(x):square():mean() + net:kl() * 1e-3)
      end)
      local big = pn.zeros { 1000, 500 }
      local computed = largest_of(200, function()
        return big + 1
      end)
      collectgarbage(before)
      assert.is_true(graph > 2) -- big enough to mean something: 200 of them are 400 MiB and more
      assert.is_true(trained < 100, ("training: %.0f MiB"):format(trained))
      assert.is_true(computed < 100, ("results: %.0f MiB"):format(computed))
    end)
  end

  -- Every way in which tensors reach a script tells the collector of them.
  local x, d = pn.randn { 500, 1000 }, pn.dist.normal(pn.zeros(500, 1000), 1)
  local square, normal = pn.eye(8):broadcast_to { 7000, 8, 8 } + 0, pn.dist.normal(0, 1)
  local twice = pn.compile(function(t) return t * 2 end)
  local w, eye = pn.param(pn.zeros { 500, 1000 }), pn.eye(8)
  local ways = {
    operation = function() return x + 1 end,
    ["two results"] = function() return x:sort(2) end,
    factors = function() return square:eigh() end,
    filter = function() return pn.kalman_predict(square:slice(1, 1, 7000):sum(3), square, eye, nil, eye) end,
    gradient = function() return pn.grad((w * x):sum(), { w }) end,
    draws = function() return normal:sample { 500, 1000 } end,
    density = function() return d:log_prob(x) end,
    ["draws and density"] = function() return d:rsample_log_prob {} end,
    bijector = function() return pn.dist.bijector.exp():forward_log_det(x) end,
    generator = function() return pn.randn { 500, 1000 } end,
    compiled = function() return twice(x) end,
  }
  for name, way in pairs(ways) do
    it("of results stays bounded: " .. name, function()
      way()
      local used = largest_of(60, way)
      assert.is_true(used < 100, ("%.0f MiB"):format(used))
    end)
  end
end)
