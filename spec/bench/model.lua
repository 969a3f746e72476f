--- Training steps whose products are large: eager, replayed, and what their products alone would take at the rate of
--- a square one. The same shapes as spec/bench/peers.
local pn = require "penumbra"
local nn, optim, infer, dist = pn.nn, pn.optim, pn.infer, pn.dist
local o = {dtype = "float32"}

-- products of one matrix per row of the batch: forward, gradient of the weight, gradient of the input (not of data)
local function flops(batch, layers)
  local n = 0
  for k, l in ipairs(layers) do n = n + 2 * batch * l[1] * l[2] * (k == 1 and 2 or 3) end
  return n
end

local function classifier()
  local net = nn.sequential{nn.linear(784, 64, o), nn.relu(), nn.linear(64, 10, o)}
  local x = pn.rand({64, 784}, o)
  local y = pn.floor(pn.rand({64}, o) * 10):to "int64"
  return net:parameters(), function(data, labels)
    return -dist.categorical{logits = net(data)}:log_prob(labels):mean()
  end, {x, y}, flops(64, {{784, 64}, {64, 10}})
end

local function vae(draws)
  local encoder = nn.sequential{nn.linear(784, 200, o), nn.tanh(), nn.linear(200, 200, o), nn.tanh(),
    nn.linear(200, 80, o)}
  local decoder = nn.sequential{nn.linear(40, 200, o), nn.tanh(), nn.linear(200, 200, o), nn.tanh(),
    nn.linear(200, 784, o)}
  local zero, one = pn.zeros({40}, o), pn.ones({40}, o)
  local data = (pn.rand({100, 784}, o) - 0.3):gt(0):to "float32"
  local net = nn.module{encoder = encoder, decoder = decoder, forward = function(self, x)
    local h = self.encoder(x)
    local q = dist.normal(h:slice(2, 1, 40), (h:slice(2, 41, 80) * 0.5):exp()):independent(1)
    local prior = dist.normal(zero, one):independent(1)
    if not draws then
      local z = q:rsample()
      local p = dist.bernoulli{logits = self.decoder(z)}:independent(1)
      return (dist.kl(q, prior) - p:log_prob(x)):mean()
    end
    local z = q:rsample{draws}
    local p = dist.bernoulli{logits = self.decoder(z)}:independent(1)
    return -infer.iwae(p:log_prob(x) + prior:log_prob(z) - q:log_prob(z))
  end}
  local k = draws or 1
  local work = flops(100, {{784, 200}, {200, 200}, {200, 80}})
    + flops(100 * k, {{0, 0}, {40, 200}, {200, 200}, {200, 784}})
  return net:parameters(), function(x) return net(x) end, {data}, work
end

-- no update: the gradients of all parameters are the result
local function recurrent(cell)
  local net = nn[cell](8, 32, o)
  local params = net:parameters()
  return params, function(x)
    return table.unpack(pn.grad(net(x):square():sum(), params))
  end, {pn.randn({50, 16, 8}, o)}
end

local models = {
  {"784-64-10, batch 64, Adam", classifier, 130},
  {"VAE 784-200-200-40, batch 100, Adam", vae, 2640},
  {"IWAE of the same, K = 50", function() return vae(50) end, 108000},
  {"GRU 8-32, T = 50, batch 16, forward and backward", function() return recurrent "gru" end, 1000},
  {"LSTM 8-32, T = 50, batch 16, forward and backward", function() return recurrent "lstm" end, 1000},
}

return function(bench, only)
  local a, b = pn.randn({768, 768}, o), pn.randn({768, 768}, o)
  local rate = 2 * 768 ^ 3 / bench.time(function() pn.matmul(a, b) end)
  bench.row("product of 768 x 768 matrices, float32", rate * 1e-9, "GFLOP/s")
  for _, m in ipairs(models) do
    local name, make = table.unpack(m)
    if not only or name:find(only, 1, true) then
      pn.seed(1)
      local params, f, data, work = make()
      local opt = work and optim.adam(params, {lr = 1e-3})
      bench.row(name .. ", float32, eager", bench.time(function()
        local loss = f(table.unpack(data))
        if opt then opt:step(loss) end
      end) * 1e6, "us")
      local step = pn.compile(f, {optimiser = opt})
      bench.row(name .. ", float32, replayed", bench.time(function() step(table.unpack(data)) end) * 1e6, "us")
      if work then bench.row("  its products at that rate", work / rate * 1e6, "us") end
      bench.row("  steps of its plan", step:plans()[1].steps, "")
    end
  end
end
