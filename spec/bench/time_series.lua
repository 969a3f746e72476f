--- What a model's loop over time costs, m:scan replayed as one loop: log density and gradient of a stochastic
--- volatility model of T turns, and the size of its plan.
local pn = require "penumbra"
local dist = pn.dist

local function volatility(T)
  return pn.model(function(m, y)
    local mu, phi = m:sample("mu", dist.normal(0, 2)), m:sample("phi", dist.uniform(-1, 1))
    local sigma = m:sample("sigma", dist.half_normal(1))
    m:scan("time", T, mu, function(h, t)
      h = m:sample("h", dist.normal(mu + phi * (h - mu), sigma))
      m:observe("y", dist.normal(0, (h / 2):exp()), y:select(1, t))
      return h
    end)
  end)
end

return function(bench)
  local first
  for _, T in ipairs { 20, 100, 1000, 10000 } do
    pn.seed(1)
    local target = volatility(T):target(pn.randn { T })
    local z = pn.randn { target.size } * 0.1
    local start = os.clock()
    target:evaluate(z)
    local capture, f = os.clock() - start, target:compiled_gradient()
    local spent = bench.time(function() f(z) end) / T
    first = first or spent
    local plan = f:plans()[1]
    bench.row(("stochastic volatility, T = %d: density and gradient, a turn"):format(T), spent * 1e9, "ns")
    bench.row("  to that of T = 20", spent / first, "x", 1.1)
    bench.row("  capture", capture, "s")
    bench.row("  steps of the plan", plan.steps, "")
    bench.row("  its tensors, a turn", plan.bytes / T, "B")
  end
end
