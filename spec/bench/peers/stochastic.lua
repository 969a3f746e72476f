--- Stochastic differential equations of `make bench-peers`: 1,000 steps of many paths, float32: dX = 0.5 X dt +
--- 0.3 X dW from 1 to time 1, and Lorenz's attractor with noise of size 1 on each number, to time 0.1. The peers' means
--- of the ends are held to ours.
local pn = require "penumbra"

local o32 <const> = { dtype = "float32" }
local stochastic = { steps = 1000, paths = 100000 }

local function brownian(method)
  local y0, times = pn.ones({ stochastic.paths, 1 }, o32), pn.tensor { 0, 1 }
  return function()
    return pn.sde(function(_, y) return y * 0.5 end, function(_, y) return y * 0.3 end, y0, times,
      { step = 1 / stochastic.steps, method = method })[2]
  end
end

local function lorenz(method)
  local y0 = pn.tensor({ { 1, 1, 28 } }, o32):broadcast_to { stochastic.paths, 3 }:contiguous()
  local times, one = pn.tensor { 0, 0.1 }, pn.ones({ 1, 3 }, o32)
  local function drift(_, h)
    local x, y, z = h:slice(2, 1, 1), h:slice(2, 2, 2), h:slice(2, 3, 3)
    return pn.concatenate({ (y - x) * 10, x * 28 - y - x * z, x * y - z * 2.67 }, 2)
  end
  return function()
    return pn.sde(drift, function(_, h) return one + h:detach() * 0 end, y0, times,
      { step = 0.1 / stochastic.steps, method = method, noise = "additive" })[2]
  end
end

stochastic.rows = { { "GBM Euler-Maruyama", brownian "euler_maruyama" }, { "GBM Milstein", brownian "milstein" },
  { "Lorenz Euler-Maruyama", lorenz "euler_maruyama" }, { "Lorenz SRA1", lorenz "sra1" } }

return stochastic
