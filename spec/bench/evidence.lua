--- What a method costs for a datum, in forward passes of the same network without uncertainty (Haussmann 2021, table
--- 5.4): moments, evidential predictions by 5 and by 50 draws of the outputs alone, draws of the weights, a
--- certificate's passes. LeNet5 with strides and a dense network, float32, batches of 100, replayed where a script
--- would.
local pn = require "penumbra"
local nn, dist = pn.nn, pn.dist

local o32 = { dtype = "float32" }

local function lenet(rule)
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local function relu() return nn.relu { rule = rule } end
  return nn.sequential { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(), nn.linear(800, 500, o32), relu(),
    nn.linear(500, 10, o32) }
end

local function dense()
  return nn.sequential { nn.linear(784, 600, o32), nn.relu(), nn.linear(600, 600, o32), nn.relu(),
    nn.linear(600, 600, o32), nn.relu(), nn.linear(600, 10, o32) }
end

local function replayed(f)
  local step = pn.compile(f)
  return function() pn.no_grad(step) end
end

return function(bench)
  pn.seed(1)
  local x = pn.rand({ 100, 1, 28, 28 }, o32)
  local plain = lenet()
  local bayes = nn.bayesian(lenet "clt", { prior = dist.normal(0, 1), posterior_scale = 0.01 })
  local function drawn(count)
    return replayed(function()
      local m, v = bayes:moments(x)
      local f = m + v:sqrt() * pn.randn({ count, 100, 10 }, o32)
      local p = f:softmax(-1)
      return p:mean(1), p:var(1, 0)
    end)
  end
  local forwards = {
    { "moments", replayed(function() return bayes:moments(x) end), 8 },
    { "evidential prediction, 5 draws", drawn(5), 8 },
    { "evidential prediction, 50 draws", drawn(50), 9 },
    { "one draw of the weights of each datum", replayed(function() return bayes(x) end), 8 },
  }
  local deterministic = replayed(function() return plain(x) end)
  local base, least = math.huge, {}
  for _ = 1, 3 do -- in turn: others' load comes and goes
    base = math.min(base, bench.time(deterministic))
    for k, each in ipairs(forwards) do least[k] = math.min(least[k] or math.huge, bench.time(each[2])) end
  end
  bench.row("forward of LeNet5, batch 100, float32", base * 1e3, "ms")
  for k, each in ipairs(forwards) do bench.row(each[1] .. ", against that", least[k] / base, "ratio", each[3]) end
  bench.row("evidential prediction, 50 draws against 5", least[3] / least[2], "ratio", 1.6)

  local data = { pn.rand({ 1000, 784 }, o32), pn.randint(0, 10, { 1000 }) }
  local certain = dense()
  local pass = replayed(function() return certain(data[1]) end)
  local q = nn.bayesian(dense(), { posterior_scale = 0.01, estimator = "local" })
  local g = pn.generator(1)
  local function certificate()
    return pn.pac.certificate(q, data, { draws = 2, prior_data = false, generator = g })
  end
  local one, both = math.huge, math.huge
  for _ = 1, 3 do
    one, both = math.min(one, bench.time(pass)), math.min(both, bench.time(certificate))
  end
  bench.row("certificate of 784-600-600-600-10, images x draws a second", 2000 / both, "per second")
  bench.row("its time for an image and draw, against a forward without uncertainty", both / 2 / one, "ratio", 8)
end
