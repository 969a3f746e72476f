--- What a script has dropped is never the reason why memory is lacking: under a limit, with the collector stopped and
--- the account full of garbage, everything that fits without it is made.
local pn = require "penumbra"

local MIB = 1 << 20

-- Fills the account with tensors of `size` numbers each until `bytes` of it are in use, and drops them at once.
local function litter(bytes, size)
  local kept = {}
  while pn.memory() < bytes do
    kept[#kept + 1] = pn.zeros(size)
  end
end

local function limited(limit, garbage, f)
  collectgarbage()
  local base = pn.memory()
  litter(base + garbage, 128)
  collectgarbage "stop"
  pn.memory_limit(base + limit)
  local ok, message = pcall(f)
  pn.memory_limit(0)
  collectgarbage "restart"
  assert(ok, message)
end

local makers = {
  ["a layer"] = function() return pn.nn.linear(3, 2) end,
  ["an operation"] = function() return pn.ones(10):exp() end,
  ["a distribution"] = function() return pn.dist.normal(pn.zeros(5), 1) end,
  ["a bijector"] = function() return pn.dist.bijector.exp() end,
  ["a set of particles"] = function() return pn.smc { num_particles = 10 } end,
  ["a generator"] = function() return pn.generator(1) end,
}

describe("memory that a script has dropped", function()
  for name, make in pairs(makers) do
    it("gives way to " .. name, function()
      limited(8 * MIB, 8 * MIB - 256, function()
        for _ = 1, 1000 do make() end
      end)
    end)
  end

  it("gives way to a large layer, with the numbers it would have had", function()
    local numbers = {}
    for k, garbage in ipairs { 0, 8 * MIB } do
      limited(12 * MIB, garbage, function()
        pn.seed(3)
        numbers[k] = pn.nn.linear(512, 1024):parameters()[1]:sum():item()
      end)
    end
    assert(numbers[1] == numbers[2])
  end)

  it("gives way to an optimiser's state and to gradients", function()
    local w = pn.param(pn.ones(256, 1024))
    limited(8 * MIB, 5 * MIB, function() return pn.optim.adam { w } end)
    local loss = (w * w):sum()
    limited(8 * MIB, 5 * MIB, function() return pn.grad(loss, { w }) end)
  end)
end)
