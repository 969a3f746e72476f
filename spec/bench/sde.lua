-- Stochastic differential equations: time in steps and paths, memory of the three ways to a gradient as steps grow
-- tenfold. (sde_loop.c compares with a loop by hand.)
local pn = require "penumbra"

return function(bench)
  pn.threads(1)
  local function own(_, y) return y end

  local function seconds(paths, steps, method)
    local y0, best = pn.ones(paths, 1), math.huge
    for _ = 1, 3 do
      local start = os.clock()
      pn.sde(own, own, y0, pn.tensor { 0, 1 }, { step = 1 / steps, method = method })
      best = math.min(best, os.clock() - start)
    end
    return best
  end

  for _, method in ipairs { "euler_maruyama", "milstein" } do
    local base = seconds(20000, 200, method)
    bench.row(("geometric Brownian motion by %s, a step of a path"):format(method), base / 20000 / 200 * 1e9, "ns")
    bench.row(("%s, 5 times the steps"):format(method), seconds(20000, 1000, method) / base, "times", 6.5)
    bench.row(("%s, 5 times the paths"):format(method), seconds(100000, 200, method) / base, "times", 6.5)
  end

  local function kept(gradient, steps)
    local y0 = pn.param(pn.ones(1000, 1))
    collectgarbage()
    local before = pn.memory()
    local y = pn.sde(own, own, y0, pn.tensor { 0, 1 },
      { step = 1 / steps, gradient = gradient, method = "reversible_heun" })
    local after = pn.memory()
    return y and after - before
  end
  for _, way in ipairs { { "graph", 10.5 }, { "checkpoints", 3.5 }, { "reversible", 1.1 } } do
    bench.row(("memory of gradient = '%s', 10000 steps / 1000"):format(way[1]), kept(way[1], 10000) /
      kept(way[1], 1000), "times", way[2])
  end
end
