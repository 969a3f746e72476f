--- One training step written in Lua: forward, loss, backward, Adam. Batch 32.
local pn = require "penumbra"
local nn, optim = pn.nn, pn.optim

local function step_of(net, inputs, dtype)
  local x, y = pn.randn({32, inputs}, {dtype = dtype}), pn.randn({32, 1}, {dtype = dtype})
  local opt = optim.adam(net:parameters(), {lr = 1e-3})
  return function()
    opt:step((net(x) - y):square():mean())
  end
end

return function(bench)
  for _, dtype in ipairs{"float64", "float32"} do
    local o = {dtype = dtype}
    local small = nn.sequential{nn.linear(1, 50, o), nn.relu(), nn.linear(50, 1, o)}
    bench.row(("step of 1-50-1, batch 32, Adam, %s"):format(dtype),
      bench.time(step_of(small, 1, dtype)) * 1e6, "us")
    local deep = nn.sequential{nn.linear(64, 64, o), nn.relu(), nn.linear(64, 64, o), nn.relu(), nn.linear(64, 1, o)}
    bench.row(("step of 64-64-64-1, batch 32, Adam, %s"):format(dtype),
      bench.time(step_of(deep, 64, dtype)) * 1e6, "us")
  end
  local bayes = nn.sequential{nn.bayes_linear(1, 50), nn.relu(), nn.bayes_linear(50, 1)}
  local x, y = pn.randn{32, 1}, pn.randn{32, 1}
  local opt = optim.adam(bayes:parameters(), {lr = 1e-3})
  bench.row("step of Bayesian 1-50-1, batch 32, local draws, with KL, Adam", bench.time(function()
    local ll = (bayes(x) - y):square():sum(2) * -0.5
    opt:step(-pn.infer.elbo{log_likelihood = ll, kl = bayes:kl(), num_data = 320})
  end) * 1e6, "us")
end
