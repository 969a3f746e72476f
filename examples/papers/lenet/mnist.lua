--- The strided LeNet5 of Haussmann, Hamprecht & Kandemir 2019 (table 3.4 of Haussmann 2021) on MNIST: deterministic,
--- Bayesian by local reparametrisation, and Bayesian with means and variances propagated in closed form.
---
---   penumbra mnist.lua --data FOLDER --method moments          FOLDER holds train-images-idx3-ubyte.gz ...
---   penumbra mnist.lua --data FOLDER --method clt --validate   holds the last 10,000 training images out, to test on
---   penumbra mnist.lua --data FOLDER --out FILE                saves after every epoch; the same with --resume goes on
---   penumbra mnist.lua --quick                                 seconds, on generated images
---
--- Methods: deterministic; local (one draw per image and unit); moments (identity-Heaviside gates: variance
--- back-propagation); clt (moment matching). Convolutions 5 x 5 of 20 and 50 channels with stride 2, 500 units, 10
--- classes, no padding; He means, log-variances from -9, prior precision 100, Adam from 2e-3 (the document: 1e-3),
--- minibatches of 100. The rate falls along half a cosine, an assumption: the document gives none. With moments the
--- expected log-likelihood of the classes is taken to second order (infer.expected_log_likelihood), and predictions
--- average the softmax of 100 draws of the outputs alone.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local nn, optim, dist, infer = pn.nn, pn.optim, pn.dist, pn.infer

local option = { data = false, method = "moments", epochs = 20, batch = 100, lr = 2e-3, precision = 100, seed = 1,
  quick = false, validate = false,
  out = false, resume = false }
local methods = { deterministic = true, ["local"] = true, moments = true, clt = true }
local o32 = { dtype = "float32" }

local function read_options(args)
  local k = 1
  while k <= #args do
    local name = args[k]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then
      io.stderr:write("mnist: unknown option ", args[k], "\n")
      os.exit(1)
    elseif name == "quick" or name == "validate" or name == "resume" then
      option[name] = true
    else
      k = k + 1
      option[name] = tonumber(args[k]) or args[k]
    end
    k = k + 1
  end
  if not methods[option.method] then
    io.stderr:write("mnist: --method must be deterministic, local, moments or clt\n")
    os.exit(1)
  end
end

-- Bars of ten directions with noise: something to run on where no data is at hand.
local function generated(n)
  local labels = pn.randint(0, 10, { n })
  local angle = labels:to "float32" * (math.pi / 10)
  local grid = pn.linspace(-1, 1, 28, o32)
  local x = angle:cos():reshape { n, 1, 1 } * grid + angle:sin():reshape { n, 1, 1 } * grid:unsqueeze(-1)
  local image = (x:square() * -40):exp() + pn.randn({ n, 28, 28 }, o32) * 0.2
  return image:clamp(0, 1):reshape { n, 1, 28, 28 }, labels
end

local function load_part(name, n)
  local images = assert(pn.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(option.data, name), o32))
  local labels = assert(pn.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(option.data, name)))
  return (images / 255):reshape { n, 1, 28, 28 }, labels:to "int64"
end

local function new_network()
  local how = { init = "he", dtype = "float32" }
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local function relu() return nn.relu { rule = option.method == "clt" and "clt" or "identity_heaviside" } end
  local net = nn.sequential { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(), nn.linear(800, 500, how), relu(),
    nn.linear(500, 10, how) }
  if option.method == "deterministic" then return net end
  return nn.bayesian(net, { prior = dist.normal(0, option.precision ^ -0.5), posterior_scale = math.exp(-4.5) })
end

local function by_moments() return option.method == "moments" or option.method == "clt" end

local function label_log_prob(logits, y)
  return logits:log_softmax(-1):gather(-1, y:unsqueeze(-1)):squeeze(-1)
end

-- Log-likelihoods of the labels, [batch], or their expectation under the weights.
local function log_likelihood(net, x, y)
  if not by_moments() then return label_log_prob(net(x), y) end
  return infer.expected_log_likelihood("categorical", y, net:moments(x))
end

-- Probabilities of the classes, [n, 10], by so many draws.
local function predict(net, x, draws, generator)
  return pn.no_grad(function()
    if option.method == "deterministic" then return net(x):softmax(-1) end
    if by_moments() then
      local m, v = net:moments(x)
      local f = m + v:sqrt() * pn.randn({ draws, x:size(1), 10 }, { dtype = "float32", generator = generator })
      return f:softmax(-1):mean(1)
    end
    local sum = 0
    for _ = 1, draws do sum = sum + net(x, generator):softmax(-1) end
    return sum / draws
  end)
end

-- Error in per cent and mean log-likelihood. The draws are its own: training goes on as if it had not been.
local function test(net, x, y, draws)
  local right, ll, n, generator = 0, 0, x:size(1), pn.generator(option.seed + 1000)
  for from = 1, n, 500 do
    local last = math.min(from + 499, n)
    local p, label = predict(net, x[{ { from, last } }], draws, generator), y[{ { from, last } }]
    right = right + p:argmax(-1):eq(label):to("float64"):sum():item()
    ll = ll + p:clamp(1e-12, 1):log():gather(-1, label:unsqueeze(-1)):sum():item()
  end
  return 100 - 100 * right / n, ll / n
end

-- Images and labels to train on, then those to test on.
local function load_data()
  if not option.data then
    print "no --data: generated bars instead of MNIST; the figures mean nothing but that it runs"
    local n = option.quick and 400 or 10000
    local x, y = generated(n)
    return x, y, generated(n // 4)
  end
  local x, y = load_part("train", 60000)
  if option.validate then
    return x[{ { 1, 50000 } }], y[{ { 1, 50000 } }], x[{ { 50001, 60000 } }], y[{ { 50001, 60000 } }]
  end
  return x, y, load_part("t10k", 10000)
end

read_options(arg)
pn.seed(option.seed)
local x, y, test_x, test_y = load_data()
if option.quick then option.epochs = 1 end
local net, n = new_network(), x:size(1)
local steps, part = option.epochs * math.ceil(n / option.batch), option.validate and "validation" or "test"
local function loss(bx, by)
  local value = -log_likelihood(net, bx, by):mean()
  return option.method == "deterministic" and value or value + net:kl() / n
end
print(("%s: %d parameters, %d images, %d epochs"):format(option.method, net:num_parameters(), n, option.epochs))
local mark, seconds, epochs = os.clock(), 0, 0
pn.train.fit { data = { x, y }, batch_size = option.batch, epochs = option.epochs, loss = loss, compile = true,
  optimiser = optim.adam(net:parameters(), { lr = option.lr }),
  schedule = optim.cosine(option.lr, option.lr / 100, steps),
  checkpoint = option.out or nil, resume = option.resume or nil, seed = option.seed,
  on_epoch = function(s)
    seconds, epochs = seconds + os.clock() - mark, epochs + 1
    if not option.quick and s.epoch < option.epochs then
      local wrong, ll = test(net, test_x, test_y, 10)
      print(("epoch %d: loss %.4f, %s error %.2f %%, log-likelihood %.4f (10 draws), %.1f s an epoch"):format(s.epoch,
        s.loss, part, wrong, ll, seconds / epochs))
      io.stdout:flush()
    end
    mark = os.clock()
  end }
local wrong, ll = test(net, test_x, test_y, option.quick and 5 or 100)
print(("%s: %s error %.2f %%, log-likelihood %.4f, %.1f s of processor an epoch"):format(option.method, part, wrong, ll,
  seconds / math.max(epochs, 1)))
