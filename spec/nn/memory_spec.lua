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
end)
