--- The group `lenet` of `make bench-peers`: what uncertainty costs on LeNet5 with strides, float32, batch 100. Keys
---   LeNet5 NAME step, LeNet5 NAME forward     a step of training with Adam, an output (replayed)
--- of NAME "plain"; "gates" and "matching" (means and variances, a rectifier as a gate or by matching its moments);
--- "evidential" (matching; 5 draws of the outputs under a PAC-Bayes regulariser, Haussmann 2021, 5.10); "local" (an own
--- draw of all weights for each datum by local reparametrisation); "dropout 5" (5 passes of dropout before the dense
--- layers);
---   dense matching step, dense matching forward       matching in 784-500-500-10
---   certificate dense, certificate convolutional      seconds for an image and draw: 784-600-600-600-10, 1000 images,
---                                                     an own draw for each; LeNet5, a draw for all images
--- agreement.lua: held to the same loss and gradients, on the same noise; of "local", "dropout 5" and the certificates
--- where nothing is drawn (at the means, without dropout).
local pn = require "penumbra"
local agreement = require "agreement"
local evidence = require "penumbra.evidential.evidence"
local nn = pn.nn

local lenet = {}
local o32 = { dtype = "float32" }
local DRAWS, N, DELTA = 5, 60000, 0.1

local function network(rule, dropout)
  local function conv(from, to) return nn.conv2d(from, to, { kernel = 5, stride = 2, dtype = "float32" }) end
  local function relu() return nn.relu { rule = rule } end
  local list = { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten() }
  for _, layer in ipairs { nn.linear(800, 500, o32), relu(), nn.linear(500, 10, o32) } do
    if dropout and layer:type() == "linear" then list[#list + 1] = nn.dropout { rate = 0.5 } end
    list[#list + 1] = layer
  end
  return nn.sequential(list)
end

local function bayesian(rule, how)
  how = how or {}
  how.prior, how.posterior_scale = 0.1, 0.01
  return nn.bayesian(network(rule), how)
end

local function picked(f, label) return f:log_softmax(-1):gather(-1, label:unsqueeze(-1)):squeeze(-1) end

-- The expected log likelihood to second order, less the divergence.
local function second_order(net)
  return function(x, label)
    local m, v = net:moments(x)
    local z = m:softmax(-1)
    return net:kl() / N - (picked(m, label) - (v * (z - z:square())):sum(-1) * 0.5):mean()
  end
end

local function evidential(net)
  return function(x, label, noise)
    local m, v = net:moments(x)
    local f = m + v:sqrt() * (noise or pn.randn({ DRAWS, x:size(1), 10 }, o32))
    local kl = evidence.divergence(evidence.concentrations(f)):mean()
    return (kl + (1 - math.log(DELTA) / N)):sqrt() - evidence.log_mean(label, f):mean()
  end
end

-- Draws of dropout as more data; `mean`: without dropout.
local function dropped(net)
  return function(x, label, mean)
    if mean then return -picked(nn.mode("evaluation", net, x), label):mean() end
    local y = net(pn.concatenate({ x, x, x, x, x }, 1)):reshape { DRAWS, x:size(1), 10 }
    return -picked(y, label:unsqueeze(1):broadcast_to { DRAWS, x:size(1) }):mean()
  end
end

local rows = {
  plain = function()
    local net = network()
    return net, function(x, label) return -picked(net(x), label):mean() end, function(x) return net(x) end
  end,
  gates = function()
    local net = bayesian "identity_heaviside"
    return net, second_order(net), function(x) return net:moments(x) end
  end,
  matching = function()
    local net = bayesian "clt"
    return net, second_order(net), function(x) return net:moments(x) end
  end,
  evidential = function()
    local net = bayesian "clt"
    return net, evidential(net), function(x)
      local m, v = net:moments(x)
      local p = (m + v:sqrt() * pn.randn({ DRAWS, x:size(1), 10 }, o32)):softmax(-1)
      return p:mean(1), p:var(1, 0)
    end, pn.randn({ DRAWS, 100, 10 }, o32)
  end,
  ["local"] = function()
    local net = bayesian(nil, { estimator = "local" })
    return net, function(x, label, mean)
      return net:kl() / N - picked(mean and net:mean(x) or net(x), label):mean()
    end, function(x) return net(x) end, true
  end,
  ["dropout 5"] = function()
    local net = network(nil, true)
    return net, dropped(net), function(x)
      return net(pn.concatenate({ x, x, x, x, x }, 1)):reshape { DRAWS, x:size(1), 10 }:softmax(-1):mean(1)
    end, true
  end,
}

-- A network of dense layers, rectifiers between.
local function dense(sizes, rule)
  local list = {}
  for k = 2, #sizes do
    list[#list + 1] = nn.linear(sizes[k - 1], sizes[k], o32)
    list[#list + 1] = k < #sizes and nn.relu { rule = rule } or nil
  end
  return nn.sequential(list)
end

local function add_step(print_row, time, key, parameters, loss, x, labels)
  local optimiser = pn.optim.adam(parameters, { lr = 1e-4 })
  local step = pn.compile(function(a, b) return loss(a, b) end, { optimiser = optimiser })
  print_row(key, "eager", time(function() optimiser:step(loss(x, labels)) end))
  print_row(key, "replayed", time(function() step(x, labels) end))
end

local function add_forward(print_row, time, key, forward, x)
  local output = pn.compile(forward)
  print_row(key, "replayed", time(function() pn.no_grad(function() return output(x) end) end))
end

local function measure(print_row, time, name)
  pn.seed(1)
  local net, loss, forward, fixed = rows[name]()
  local x, labels = pn.rand({ 100, 1, 28, 28 }, o32), {}
  for i = 1, 100 do labels[i] = i % 10 end
  labels = pn.tensor(labels, { dtype = "int64" })
  agreement.write("lenet", "LeNet5 " .. name, net:named_parameters(), loss(x, labels, fixed),
    { x = x, labels = labels, noise = fixed and fixed ~= true and fixed or nil })
  add_step(print_row, time, ("LeNet5 %s step"):format(name), net:parameters(), loss, x, labels)
  add_forward(print_row, time, ("LeNet5 %s forward"):format(name), forward, x)
end

local function measure_dense(print_row, time)
  pn.seed(1)
  local net, x = nn.bayesian(dense({ 784, 500, 500, 10 }, "clt"), { prior = 0.1, posterior_scale = 0.01 }),
    pn.rand({ 100, 784 }, o32)
  add_step(print_row, time, "dense matching step", net:parameters(), second_order(net), x, pn.randint(0, 10, { 100 }))
  add_forward(print_row, time, "dense matching forward", function(a) return net:moments(a) end, x)
end

local function certify(print_row, time, key, net, x, how)
  pn.seed(1)
  local y = pn.randint(0, 10, { x:size(1) })
  agreement.write("lenet", key, net:named_parameters(), -picked(net:mean(x), y):mean(), { x = x, labels = y })
  how.draws, how.prior_data, how.generator = 2, false, pn.generator(1)
  local seconds = time(function() pn.pac.certificate(net, { x, y }, how) end)
  print_row(key, "eager", seconds / how.draws / x:size(1))
end

--- measure(print_row, time, wanted): the rows whose names are wanted: those above, with "dropout", "dense" and
--- "certificate".
function lenet.measure(print_row, time, wanted)
  for _, name in ipairs { "plain", "gates", "matching", "evidential", "local", "dropout 5" } do
    if wanted(name:match "%a+") then measure(print_row, time, name) end
  end
  if wanted "dense" then measure_dense(print_row, time) end
  if not wanted "certificate" then return end
  local net = nn.bayesian(dense { 784, 600, 600, 600, 10 },
    { prior = 0.1, posterior_scale = 0.01, estimator = "local" })
  certify(print_row, time, "certificate dense", net, pn.rand({ 1000, 784 }, o32), {})
  certify(print_row, time, "certificate convolutional", bayesian(nil, { estimator = "weights" }),
    pn.rand({ 1000, 1, 28, 28 }, o32), { weights = "all" })
end

return lenet
