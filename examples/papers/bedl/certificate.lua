--- Risk certificates of networks on MNIST: a dense one, 784-600-600-600-10, and LeNet5, with a prior that is learnt on
--- half of the training images and a posterior that makes a PAC-Bayes bound on the other half small; 0/1 error and
--- bounded log-loss, at delta 0.025 for the bound and 0.01 for the draws of the weights.
---
---     penumbra certificate.lua --data FOLDER --network dense [--bound quadratic] [--prior_epochs 20] [--epochs 20]
---     penumbra certificate.lua --data FOLDER --network lenet --draws 300
---     penumbra certificate.lua --data FOLDER --network dense --run FILE     goes on where FILE.* stand
---
--- Of the dense network every image gets a draw of all weights of its own, which local reparametrisation is exactly: 5
--- passes over 30,000 images are 150,000 independent draws, not of one law, and the bound of the mean of independent
--- terms holds for these as for others (Hoeffding 1963, theorem 1). Convolutions share their weights among positions:
--- there a draw serves all images and counts once. FOLDER holds train-images-idx3-ubyte.gz ...; without it a quick run
--- is made on generated images. Results and choices are on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn, pac = pn.nn, pn.pac

local option = experiment.options({ data = "", network = "dense", bound = "quadratic", prior_epochs = 20, epochs = 20,
  batch = 250, lr = 1e-3, prior_lr = 1e-3, prior_scale = 0.03, draws = 0, split = 0.5, seed = 1, run = "",
  images = 60000, hidden = 600 },
  { prior_epochs = 1, epochs = 1, images = 600, hidden = 20, batch = 100, draws = 2 })

local o32 = { dtype = "float32" }

local function load_part(name)
  local images = assert(pn.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(option.data, name), o32))
  local labels = assert(pn.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(option.data, name)))
  return (images / 255):reshape { images:size(1), 1, 28, 28 }, labels:to "int64"
end

-- Bars of ten directions with noise: something to run on where no data is at hand.
local function generated(n)
  local labels = pn.randint(0, 10, { n })
  local angle = labels:to "float32" * (math.pi / 10)
  local grid = pn.linspace(-1, 1, 28, o32)
  local x = angle:cos():reshape { n, 1, 1 } * grid + angle:sin():reshape { n, 1, 1 } * grid:unsqueeze(-1)
  return ((x:square() * -40):exp() + pn.randn({ n, 28, 28 }, o32) * 0.2):reshape { n, 1, 28, 28 }, labels
end

local function load_data()
  if option.data == "" then
    print "no --data: generated bars instead of MNIST; the figures mean nothing but that it runs"
    local x, y = generated(option.images)
    return { x, y }, { generated(option.images // 4) }
  end
  local x, y = load_part "train"
  local n = math.min(option.images, x:size(1))
  return { x:slice(1, 1, n), y:slice(1, 1, n) }, { load_part "t10k" }
end

local how = { init = "he", dtype = "float32" }

local function conv(from, to)
  return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
end

local networks = {
  dense = function(h)
    return nn.sequential { nn.flatten(), nn.linear(784, h, how), nn.relu(), nn.linear(h, h, how), nn.relu(),
      nn.linear(h, h, how), nn.relu(), nn.linear(h, 10, how) }
  end,
  lenet = function()
    return nn.sequential { conv(1, 20), nn.relu(), conv(20, 50), nn.relu(), nn.flatten(), nn.linear(800, 500, how),
      nn.relu(), nn.linear(500, 10, how) }
  end,
}

-- Error of the stochastic network, one draw of all weights an image, and of its means, in per cent.
local function errors(net, data)
  local drawn, mean, n = 0, 0, data[1]:size(1)
  pn.no_grad(function()
    for from = 1, n, 1000 do
      local last = math.min(from + 999, n)
      local x, y = data[1]:slice(1, from, last), data[2]:slice(1, from, last)
      drawn = drawn + net:evaluate(x):argmax(-1):ne(y):to("float64"):sum():item()
      mean = mean + net:mean(x):argmax(-1):ne(y):to("float64"):sum():item()
    end
  end)
  return 100 * drawn / n, 100 * mean / n
end

pn.seed(option.seed)
local train, test = load_data()
local net = assert(networks[option.network], "network must be dense or lenet")(option.hidden)
local draws = option.draws > 0 and option.draws or option.network == "dense" and 5 or 300
local clock = os.clock()
local m = pac.train(net, train, { bound = option.bound, split = option.split, seed = option.seed,
  prior_epochs = option.prior_epochs, epochs = option.epochs, batch_size = option.batch,
  prior_scale = option.prior_scale, prior_lr = option.prior_lr, lr = option.lr,
  checkpoint = option.run ~= "" and option.run or nil,
  resume = option.run ~= "" or nil, estimator = option.network == "dense" and "local" or "flipout",
  on_epoch = function(stage, s)
    if not option.quick then print(("%s, epoch %d: %.5f"):format(stage, s.epoch, s.loss)) end
  end })
local trained = os.clock() - clock
clock = os.clock()
local report = experiment.report(option, "certificate_" .. option.network)
local c = m:certificate { draws = draws, bound = "maurer", delta = 0.025, draw_delta = 0.01, batch_size = 500,
  generator = pn.generator(option.seed) }
local seconds = os.clock() - clock
report("%s: %d parameters, bound trained on: %s, %d + %d epochs, prior scale %g", option.network,
  m.net.net:num_parameters(), option.bound, option.prior_epochs, option.epochs, option.prior_scale)
report("%s", tostring(c))
local drawn, mean = errors(m.net, test)
report("error on %d test images: %.2f %% drawn, %.2f %% at the means", test[1]:size(1), drawn, mean)
report("%.0f s of processor for training, %.1f s for the certificate: %.0f images x draws a second", trained, seconds,
  m.data[1]:size(1) * draws / seconds)
for _, name in ipairs { "pinsker", "mcallester", "quadratic", "lambda", "catoni", "seeger" } do
  report("  the same draws by %-11s error %.3f %%, log-loss %.3f %%", name, 100 * pac.bound(name, {
    risk = c.error.posterior, kl = c.kl, n = c.num_data, delta = 0.025 }):item(), 100 * pac.bound(name, {
    risk = c.log_loss.posterior, kl = c.kl, n = c.num_data, delta = 0.025 }):item())
end
