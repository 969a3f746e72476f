--- One training step of a LeNet5 that passes means and variances on, float32, batch 100, replayed: by moment matching,
--- whose variances and gradients underflow, next to gates, whose do not.
local pn = require "penumbra"
local nn, optim, dist = pn.nn, pn.optim, pn.dist

local function step_of(rule)
  pn.seed(1)
  local how = { init = "he", dtype = "float32" }
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local function relu() return nn.relu { rule = rule } end
  local net = nn.bayesian(nn.sequential { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(),
    nn.linear(800, 500, how), relu(), nn.linear(500, 10, how) },
    { prior = dist.normal(0, 0.1), posterior_scale = math.exp(-4.5) })
  -- a bright square each on black, as handwriting is
  local x = pn.zeros({ 100, 1, 28, 28 }, { dtype = "float32" })
  local i = pn.arange(28):to "float32"
  local near = (i - 14):abs():lt(5):to "float32"
  x = x + (near * near:unsqueeze(-1)) * pn.rand({ 100, 1, 28, 28 }, { dtype = "float32" })
  local labels = pn.randint(0, 10, { 100 })
  local step = pn.compile(function()
    local m, v = net:moments(x)
    local z = m:softmax(-1)
    local fit = m:log_softmax(-1):gather(-1, labels:unsqueeze(-1)):squeeze(-1) - (v * (z - z:square())):sum(-1) * 0.5
    return -fit:mean() + net:kl() / 60000
  end, { optimiser = optim.adam(net:parameters(), { lr = 1e-3 }) })
  for _ = 1, 20 do step() end -- a little trained
  return step
end

return function(bench)
  local gates, matching = step_of "identity_heaviside", step_of "clt"
  local first, second = math.huge, math.huge
  for _ = 1, 3 do -- in turn: others' load comes and goes
    first, second = math.min(first, bench.time(gates)), math.min(second, bench.time(matching))
  end
  bench.row("step of LeNet5, batch 100, float32, gates", first * 1e3, "ms")
  bench.row("step of LeNet5, batch 100, float32, moment matching against gates", second / first, "ratio", 2)
end
