--- Loops of 10,000 turns that are captured: what tensors take at most meanwhile, beside an eager call of the same, and
--- its time. Forwards (no graph): the tape alone; a recursion with its gradient; stochastic volatility by m:scan.
local pn = require "penumbra"
local core = require "penumbra.core"
local dist = pn.dist
local TURNS <const> = 10000

-- Bytes by which f() rises above what there was before, and its seconds.
local function rise(f)
  collectgarbage()
  collectgarbage()
  core.reset_peak()
  local before, start = core.memory(), os.clock()
  f()
  local seconds = os.clock() - start
  local _, peak = core.memory()
  return peak - before, seconds
end

local function recursion()
  local w, start = pn.param(pn.tensor { 0.9, 0.2, -0.4 }), pn.param(pn.tensor { 1, 2, 3 })
  return function(scale)
    local x, loss = start * scale, pn.tensor(0)
    for _ = 1, TURNS do
      x = (x * w):tanh() + 0.1
      loss = loss + x:square():sum()
    end
    return loss
  end, { w, start }
end

local function volatility()
  return pn.model(function(m, y)
    local mu, phi = m:sample("mu", dist.normal(0, 2)), m:sample("phi", dist.uniform(-1, 1))
    local sigma = m:sample("sigma", dist.half_normal(1))
    m:scan("time", TURNS, mu, function(h, t)
      h = m:sample("h", dist.normal(mu + phi * (h - mu), sigma))
      m:observe("y", dist.normal(0, (h / 2):exp()), y:select(1, t))
      return h
    end)
  end)
end

return function(bench)
  local function rows(name, eager, captured)
    local without = eager and rise(eager) or 0
    local with, seconds = rise(captured)
    if eager then bench.row(name .. ": eager, peak", without / 1e6, "MB") end
    bench.row(name .. ": captured, peak", with / 1e6, "MB")
    bench.row("  beside the eager one, for each turn", (with - without) / TURNS, "bytes", 6000)
    bench.row("  seconds of the capture", seconds, "s")
  end
  local f, params = recursion()
  local forward, x = pn.compile(f), pn.tensor(1.5)
  rows("recursion of 6 operations, forwards", nil, function() pn.no_grad(function() forward(x) end) end)
  local function gradient(scale)
    local loss = f(scale)
    return loss, table.unpack(pn.grad(loss, params))
  end
  local both = pn.compile(gradient)
  rows("the same with its gradient", function() gradient(x) end, function() both(x) end)
  local target = volatility():target(pn.randn { TURNS })
  local z = pn.randn { target.size } * 0.5
  rows("stochastic volatility, density and gradient", function()
    local at = pn.param(z)
    pn.grad(target:log_density(at), { at })
  end, function() target:evaluate(z) end)
end
