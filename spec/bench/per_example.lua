--- The gradient of each example's loss: 784-100-10, 512 examples, float64, beside a loop over the examples in Lua.
local pn = require "penumbra"

return function(bench)
  pn.seed(1)
  local n = 512
  local net = pn.nn.sequential{pn.nn.linear(784, 100), pn.nn.relu(), pn.nn.linear(100, 10)}
  local x, y = pn.randn{n, 784}, pn.randint(0, 10, {n})
  local params = net:parameters()
  local function loss(a, b) return -net(a):log_softmax(2):gather(2, b:unsqueeze(2)):mean() end
  local function free(list)
    for _, t in ipairs(list) do t:close() end
  end
  local loop = bench.time(function()
    local all = {}
    for i = 1, n do all[i] = pn.grad(loss(x:slice(1, i, i), y:slice(1, i, i)), params) end
    for i = 1, n do free(all[i]) end
  end)
  local compiled = pn.compile(function(a, b) return table.unpack((pn.per_example_grad(loss, net, {a, b}))) end)
  local eager = bench.time(function() free(pn.per_example_grad(loss, net, {x, y})) end)
  local replayed = bench.time(function() free{compiled(x, y)} end)
  bench.row("per-example gradients of 784-100-10, 512 examples, eager (PyTorch 475)", eager * 1e3, "ms", 475)
  bench.row("per-example gradients of 784-100-10, 512 examples, replayed", replayed * 1e3, "ms", 475)
  bench.row("per-example gradients, a loop over the examples / eager", loop / eager, "times")
end
