--- A LeNet5 that passes means and variances on, float32, batch 100, replayed: its output and its step of training
--- beside those of the network without uncertainty, by gates and by moment matching; a step by matching, whose
--- variances and gradients underflow, next to gates, whose do not.
local pn = require "penumbra"
local nn, optim, dist = pn.nn, pn.optim, pn.dist

local o32 = { dtype = "float32" }

-- A bright square each on black, as handwriting is.
local function images()
  local i = pn.arange(28):to "float32"
  local near = (i - 14):abs():lt(5):to "float32"
  return (near * near:unsqueeze(-1)) * pn.rand({ 100, 1, 28, 28 }, o32)
end

local function network(rule)
  local how = { init = "he", dtype = "float32" }
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local function relu() return nn.relu { rule = rule } end
  return nn.sequential { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(), nn.linear(800, 500, how), relu(),
    nn.linear(500, 10, how) }
end

-- A step and an output of the network without uncertainty (no rule) or of one with.
local function replayed(rule)
  pn.seed(1)
  local net, x, labels = network(rule), images(), pn.randint(0, 10, { 100 })
  if rule then net = nn.bayesian(net, { prior = dist.normal(0, 0.1), posterior_scale = math.exp(-4.5) }) end
  local function picked(f) return f:log_softmax(-1):gather(-1, labels:unsqueeze(-1)):squeeze(-1) end
  local step = pn.compile(function()
    if not rule then return -picked(net(x)):mean() end
    local m, v = net:moments(x)
    local z = m:softmax(-1)
    return -(picked(m) - (v * (z - z:square())):sum(-1) * 0.5):mean() + net:kl() / 60000
  end, { optimiser = optim.adam(net:parameters(), { lr = 1e-3 }) })
  for _ = 1, 20 do step() end -- a little trained
  local output = pn.compile(function()
    if not rule then return net(x) end
    return net:moments(x)
  end)
  return step, function() pn.no_grad(output) end
end

return function(bench)
  pn.threads(1)
  local list, least = {}, {}
  for _, rule in ipairs { "none", "identity_heaviside", "clt" } do
    list[rule .. " step"], list[rule .. " output"] = replayed(rule ~= "none" and rule or nil)
  end
  for _ = 1, 3 do -- in turn: others' load comes and goes
    for name, f in pairs(list) do least[name] = math.min(least[name] or math.huge, bench.time(f)) end
  end
  local gates, matching = "identity_heaviside ", "clt "
  bench.row("step of LeNet5, batch 100, float32, gates", least[gates .. "step"] * 1e3, "ms")
  bench.row("step of LeNet5, batch 100, float32, moment matching against gates",
    least[matching .. "step"] / least[gates .. "step"], "ratio", 2)
  for _, rule in ipairs { gates, matching } do
    local first = rule == gates
    bench.row(("output of LeNet5 by %s, against one without uncertainty"):format(first and "gates" or "matching"),
      least[rule .. "output"] / least["none output"], "ratio", first and 3 or nil)
    bench.row(("step of LeNet5 by %s, against one without uncertainty"):format(first and "gates" or "matching"),
      least[rule .. "step"] / least["none step"], "ratio", first and 3.5 or nil)
  end
end
