--- Training steps in float32, written as a user writes them. Each row is
---   {key, tensors = {...}, loss = function(...) -> loss, parameters = list, gradients = only those, no update}
--- The peers' files hold the same nets under the same keys.
local pn = require "penumbra"
local nn, dist, infer = pn.nn, pn.dist, pn.infer
local o = {dtype = "float32"}
local training = {}

local function regression(key, inputs, net)
  return {key, parameters = net:parameters(), tensors = {pn.randn({32, inputs}, o), pn.randn({32, 1}, o)},
    loss = function(x, y)
      return (net(x) - y):square():mean()
    end}
end

function training.small()
  return regression("1-50-1", 1, nn.sequential{nn.linear(1, 50, o), nn.relu(), nn.linear(50, 1, o)})
end

function training.deep()
  return regression("64-64-64-1", 64,
    nn.sequential{nn.linear(64, 64, o), nn.relu(), nn.linear(64, 64, o), nn.relu(), nn.linear(64, 1, o)})
end

--- Local reparametrisation: each output is drawn from its normal given the weights' means and variances.
function training.bayesian()
  local net = nn.sequential{nn.bayes_linear(13, 50, o), nn.relu(), nn.bayes_linear(50, 1, o)}
  local noise = pn.tensor(0.1, o)
  return {"Bayesian 13-50-1", parameters = net:parameters(), tensors = {pn.randn({32, 13}, o), pn.randn({32, 1}, o)},
    loss = function(x, y)
      local ll = dist.normal(net(x), noise):log_prob(y):sum(2)
      return -infer.elbo{log_likelihood = ll, kl = net:kl(), num_data = 506} / 506
    end}
end

local function classifier(key, batch, sizes)
  local layers, labels = {}, {}
  for k = 2, #sizes do
    layers[#layers + 1] = nn.linear(sizes[k - 1], sizes[k], o)
    layers[#layers + 1] = k < #sizes and nn.relu() or nil
  end
  local net = nn.sequential(layers)
  for i = 1, batch do labels[i] = i % sizes[#sizes] end
  return {key, parameters = net:parameters(),
    tensors = {pn.rand({batch, sizes[1]}, o), pn.tensor(labels, {dtype = "int64"})},
    loss = function(x, label)
      return -dist.categorical{logits = net(x)}:log_prob(label):mean()
    end}
end

function training.classifier() return classifier("784-64-10", 64, {784, 64, 10}) end
function training.wide_classifier() return classifier("784-400-20", 100, {784, 400, 20}) end

-- Encoder 784-200-200-(40 means, 40 logarithms of variances), decoder 40-200-200-784, tanh.
local function autoencoder()
  local encoder = nn.sequential{nn.linear(784, 200, o), nn.tanh(), nn.linear(200, 200, o), nn.tanh(),
    nn.linear(200, 80, o)}
  local decoder = nn.sequential{nn.linear(40, 200, o), nn.tanh(), nn.linear(200, 200, o), nn.tanh(),
    nn.linear(200, 784, o)}
  local zero, one = pn.zeros({40}, o), pn.ones({40}, o)
  local function posterior(x)
    local h = encoder(x)
    return dist.normal(h:slice(2, 1, 40), (h:slice(2, 41, 80) * 0.5):exp()):independent(1)
  end
  local parameters = encoder:parameters()
  table.move(decoder:parameters(), 1, #decoder:parameters(), #parameters + 1, parameters)
  return posterior, function(z)
    return dist.bernoulli{logits = decoder(z)}:independent(1)
  end, dist.normal(zero, one):independent(1), parameters, (pn.rand({100, 784}, o) - 0.5):ge(0):to "float32"
end

function training.vae()
  local posterior, likelihood, prior, parameters, x = autoencoder()
  return {"VAE", parameters = parameters, tensors = {x}, loss = function(data)
    local q = posterior(data)
    return dist.kl(q, prior):mean() - likelihood(q:rsample()):log_prob(data):mean()
  end}
end

function training.iwae()
  local posterior, likelihood, prior, parameters, x = autoencoder()
  return {"IWAE K=50", parameters = parameters, tensors = {x}, loss = function(data)
    local q = posterior(data)
    local z = q:rsample{50}
    local given = data:unsqueeze(1):broadcast_to{50, 100, 784}
    return -infer.iwae(likelihood(z):log_prob(given) + prior:log_prob(z) - q:log_prob(z))
  end}
end

-- PyTorch's equations: reset and update gates, the candidate's recurrent part after the reset.
local function gru(inputs, hidden)
  local bound = hidden ^ -0.5
  local function weight(shape) return pn.param((pn.rand(shape, o) * 2 - 1) * bound) end
  local wi, wh = weight{inputs, 3 * hidden}, weight{hidden, 3 * hidden}
  local bi, bh = weight{3 * hidden}, weight{3 * hidden}
  return {wi, wh, bi, bh}, function(x)
    local steps, batch = x:size(1), x:size(2)
    local all = x:matmul(wi) + bi
    local h, out = pn.zeros({batch, hidden}, o), {}
    for t = 1, steps do
      local given, carried = all[t], h:matmul(wh) + bh
      local gates = (given:slice(2, 1, 2 * hidden) + carried:slice(2, 1, 2 * hidden)):sigmoid()
      local r, z = gates:slice(2, 1, hidden), gates:slice(2, hidden + 1, 2 * hidden)
      local n = (given:slice(2, 2 * hidden + 1) + r * carried:slice(2, 2 * hidden + 1)):tanh()
      h = n + z * (h - n)
      out[t] = h
    end
    return pn.stack(out)
  end
end

function training.gru()
  local parameters, net
  if nn.gru then
    net = nn.gru(8, 32, o)
    parameters = net:parameters()
  else
    parameters, net = gru(8, 32)
  end
  return {"GRU 8-32", parameters = parameters, gradients = true, tensors = {pn.randn({50, 16, 8}, o)},
    loss = function(x)
      return (net(x)):square():mean()
    end}
end

return training
