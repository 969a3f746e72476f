--- Training steps eager and replayed (pn.compile): the same bits, what differs is what surrounds the arithmetic.
local pn = require "penumbra"
local nn, optim, infer, dist = pn.nn, pn.optim, pn.infer, pn.dist

local function allocations()
  return (select(4, pn.memory()))
end

local function regression(net)
  return function(x, y)
    return (net(x) - y):square():mean()
  end
end

local function bayesian(net)
  local noise = pn.tensor(0.1, {dtype = "float32"})
  return function(x, y)
    local ll = dist.normal(net(x), noise):log_prob(y):sum(2)
    return -infer.elbo{log_likelihood = ll, kl = net:kl(), num_data = 506} / 506
  end
end

local function models(o)
  return {
    {"1-50-1", 1, nn.sequential{nn.linear(1, 50, o), nn.relu(), nn.linear(50, 1, o)}, regression},
    {"64-64-64-1", 64, nn.sequential{nn.linear(64, 64, o), nn.relu(), nn.linear(64, 64, o), nn.relu(),
      nn.linear(64, 1, o)}, regression},
    {"Bayesian 13-50-1, local draws, with KL", 13, nn.sequential{nn.bayes_linear(13, 50, o), nn.relu(),
      nn.bayes_linear(50, 1, o)}, bayesian},
  }
end

-- Seconds per operation that the capture of n of them takes, which are the same but come without order.
local function capture_of(bench, n)
  local x = pn.ones(3)
  local function f(a)
    local list, s, at = {}, a, 1
    for k = 1, 50 do
      list[k] = (a * k):tanh()
    end
    for _ = 1, n do
      at = (at * 7919 + 13) % 10007
      s = s + list[1 + at % 50]
    end
    return s
  end
  return bench.time(function() pn.compile(f)(x) end) / n
end

-- What a choice between two results costs where no branch may foresee it: half of 65536 numbers are below 0.
local function leaky(bench, o)
  local x = pn.param(pn.randn({65536}, o))
  local function times(f)
    return bench.time(function() pn.no_grad(function() f(x) end) end),
      bench.time(function() pn.grad(f(x):square():sum(), {x}) end)
  end
  local plain, plain_slope = times(pn.relu)
  local value, slope = times(nn.leaky_relu())
  bench.row("leaky_relu of 65536, float32, to relu", value / plain, "x", 2)
  bench.row("  its slope to that of relu", slope / plain_slope, "x", 2)
end

return function(bench)
  local short, long = capture_of(bench, 500), capture_of(bench, 4000)
  bench.row("capture without loops, an operation of 4000", long * 1e6, "us")
  bench.row("  to one of 500", long / short, "x", 2)
  local o = {dtype = "float32"}
  leaky(bench, o)
  for _, m in ipairs(models(o)) do
    local name, inputs, net, objective = table.unpack(m)
    local x, y = pn.randn({32, inputs}, o), pn.randn({32, 1}, o)
    local opt, loss = optim.adam(net:parameters(), {lr = 1e-4}), objective(net)
    bench.row(("step of %s, batch 32, Adam, float32, eager"):format(name), bench.time(function()
      opt:step(loss(x, y))
    end) * 1e6, "us")
    local step = pn.compile(loss, {optimiser = opt})
    bench.row(("step of %s, batch 32, Adam, float32, replayed"):format(name), bench.time(function()
      step(x, y)
    end) * 1e6, "us")
    bench.row("  steps of its plan", step:plans()[1].steps, "")
    local before = allocations()
    for _ = 1, 1000 do step(x, y) end
    bench.row("  blocks taken from the allocator in 1000 replays", allocations() - before, "", 0)
    collectgarbage "stop"
    local heap = collectgarbage "count"
    for _ = 1, 1000 do step(x, y) end
    bench.row("  bytes of Lua in 1000 replays", (collectgarbage "count" - heap) * 1024, "", 0)
    collectgarbage "restart"
  end
  local x = pn.randn({1000, 1000}, o)
  local function chain(t)
    return ((t * 2 + 1):tanh() * t - t:square()):exp():sum()
  end
  local f = pn.compile(chain)
  local name = "chain of 7 elementwise ops and a sum, 10^6 float32, "
  bench.row(name .. "eager", bench.time(function() chain(x) end) * 1e3, "ms")
  bench.row(name .. "replayed", bench.time(function() f(x) end) * 1e3, "ms")
end
