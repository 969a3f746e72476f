--- Training steps in float32, written as a user writes them. Each row is
---   {key, tensors = {...}, loss = function(...) -> loss, parameters = list, gradients = only those, no update}
--- or {key, tensors = {...}, run = function(...), what is done, replayed = the same of captured parts}.
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

-- ---- larger layers ----

local function squares(key, net, x)
  return {key, parameters = net:parameters(), tensors = {x},
    loss = function(given) return net(given):square():mean() end}
end

function training.gru128() return squares("GRU 64-128", nn.gru(64, 128, o), pn.randn({100, 32, 64}, o)) end
function training.lstm128() return squares("LSTM 64-128", nn.lstm(64, 128, o), pn.randn({100, 32, 64}, o)) end
function training.attention()
  return squares("attention 4x64", nn.multi_head_attention(256, 4, o), pn.randn({8, 128, 256}, o))
end

local function of_labels(key, net, x, kl)
  local labels = {}
  for i = 1, x:size(1) do labels[i] = i % 10 end
  return {key, parameters = net:parameters(), tensors = {x, pn.tensor(labels, {dtype = "int64"})},
    loss = function(data, label)
      local nll = -dist.categorical{logits = net(data)}:log_prob(label):mean()
      return kl and nll + net:kl() / 60000 or nll
    end}
end

-- Strides in the place of pooling.
local function lenet(rule)
  local function conv(from, to) return nn.conv2d(from, to, {kernel = 5, stride = 2, dtype = "float32"}) end
  local function relu() return nn.relu{rule = rule} end
  return nn.sequential{conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(), nn.linear(800, 500, o), relu(),
    nn.linear(500, 10, o)}
end

function training.lenet() return of_labels("LeNet5", lenet(), pn.rand({100, 1, 28, 28}, o)) end

--- Means and variances through the layers, ReLU by moment matching; the expected log likelihood to second order.
function training.lenet_moments()
  local net = nn.bayesian(lenet "clt", {prior = 0.1, posterior_scale = 0.01})
  local row = of_labels("LeNet5 moments", net, pn.rand({100, 1, 28, 28}, o))
  function row.loss(x, label)
    local m, v = net:moments(x)
    local z = m:softmax(-1)
    local ll = m:log_softmax(-1):gather(-1, label:unsqueeze(-1)):squeeze(-1) - (v * (z - z:square())):sum(-1) * 0.5
    return net:kl() / 60000 - ll:mean()
  end
  return row
end

local function bayesian_classifier(estimator)
  local net = nn.bayesian(nn.sequential{nn.linear(784, 400, o), nn.relu(), nn.linear(400, 10, o)},
    {prior = 1, estimator = estimator})
  return of_labels("Bayesian 784-400-10, " .. estimator, net, pn.rand({100, 784}, o), true)
end

function training.bayesian_local() return bayesian_classifier "local" end
function training.bayesian_weights() return bayesian_classifier "weights" end
function training.bayesian_flipout() return bayesian_classifier "flipout" end

-- ---- other things than a step ----

local function close(...)
  for _, t in ipairs{...} do t:close() end
end

--- The gradient of the loss of each of 512 examples.
function training.per_example()
  local net = nn.sequential{nn.linear(784, 100, o), nn.relu(), nn.linear(100, 10, o)}
  local function loss(x, label) return -net(x):log_softmax(2):gather(2, label:unsqueeze(2)):mean() end
  local function all(x, label) return table.unpack((pn.per_example_grad(loss, net, {x, label}))) end
  local compiled = pn.compile(all)
  return {"per-example gradients", tensors = {pn.randn({512, 784}, o), pn.randint(0, 10, {512})},
    run = function(...) close(all(...)) end, replayed = function(...) close(compiled(...)) end}
end

--- Ten iterations of L-BFGS with strong Wolfe conditions on the marginal likelihood of a Gaussian process of 400 data,
--- float64, from the same start: logarithms of length, scale and noise.
function training.gaussian_process()
  local x = pn.linspace(0, 4, 400):unsqueeze(2)
  local y = (x * 3):sin():squeeze(2) + (x * 50):sin():squeeze(2) * 0.1
  local w = pn.param(pn.zeros{3})
  local distance, eye = (x - x:t()):square(), pn.eye(400)
  local function loss()
    local length, scale, noise = w[1]:exp(), w[2]:exp(), w[3]:exp()
    local l = ((distance * (-0.5 / length:square())):exp() * scale:square() + eye * (noise:square() + 1e-6)):cholesky()
    return l:solve_triangular(y):square():sum() * 0.5 + l:diagonal():log():sum()
  end
  local compiled = pn.compile(function()
    local value = loss()
    return value, pn.grad(value, {w})[1]
  end)
  local function minimise(f)
    w:set(pn.zeros{3})
    return pn.optim.lbfgs({w}, {max_steps = 10}):step(f)
  end
  return {"L-BFGS on a GP", tensors = {}, run = function() minimise(loss) end,
    replayed = function() minimise(compiled) end}
end

--- A product of 768 x 768, which a peer that keeps to the processor level cannot take faster than multiply-adds.
function training.product()
  local x = pn.randn({768, 768}, o)
  local function square(of) return of:matmul(of) end
  return {"product 768", tensors = {x}, run = square, replayed = pn.compile(square)}
end

return training
