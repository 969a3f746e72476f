--- How long some rows take, here: run by the command and by node the same lines tell how much slower the browser is.
---   penumbra examples/browser/pace.lua [--quick]
---   node --no-experimental-fetch build/wasm/command examples/browser/pace.lua
local pn = require "penumbra"
pn.threads(1)
pn.seed(1)

local rounds = arg[1] == "--quick" and 1 or 40

-- The best of several rounds, in milliseconds.
local function row(name, f)
  f()
  local best = math.huge
  for _ = 1, rounds do
    local began = pn.clock()
    f()
    best = math.min(best, pn.clock() - began)
  end
  print(("%-50s %9.3f ms"):format(name, best * 1000))
end

local a, b = pn.randn { 256, 256 }, pn.randn { 256, 256 }
row("product of 256 x 256 matrices", function() return a:matmul(b) end)
local f = a:to "float32"
row("the same in float32", function() return f:matmul(f) end)
local symmetric = a:matmul(a:transpose()) + pn.eye(256)
row("Cholesky factor, 256 x 256", function() return symmetric:cholesky() end)
row("eigenvalues, 256 x 256", function() return symmetric:eigh() end)
row("a million draws of a standard normal", function() return pn.randn { 1000000 } end)
local x = pn.rand { 1000000 } + 0.5
row("exponential of a million numbers", function() return x:exp() end)
row("log gamma of a million numbers", function() return x:lgamma() end)

local folder = arg[0]:match "^(.*)/" or "."
dofile(folder .. "/track.lua")
local y, seen = pn.tensor { 0.5, 0.5 }, pn.tensor(1)
row("a step of the page's filter, 2,000 particles", function() return track(y, seen) end)

local schools = pn.model(function(m, effect, spread)
  local mu, tau = m:sample("mu", pn.dist.normal(0, 5)), m:sample("tau", pn.dist.half_cauchy(5))
  local eta = m:sample("eta", pn.dist.normal(pn.zeros { 8 }, 1):independent(1))
  m:observe("y", pn.dist.normal(mu + tau * eta, spread):independent(1), effect)
end)
local target = schools:target(pn.tensor { 28, 8, -3, 7, -1, 1, 18, 12 }, pn.tensor { 15, 10, 16, 11, 9, 11, 10, 18 })
local at = pn.zeros { 10 }
row("eight schools: 100 log densities and gradients", function()
  for _ = 1, 100 do target:evaluate(at) end
end)
