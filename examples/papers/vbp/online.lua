--- One pass over MNIST (Haussmann 2021, table 3.3): one hidden layer of 500 units, each minibatch seen once; V-ReLU-Net
--- by coordinate ascent, whose posterior of a batch is the next prior, beside the methods that take one gradient step a
--- batch.
---
---     penumbra online.lua --data FOLDER --results runs.txt [--seeds 10]
---     penumbra online.lua --data FOLDER --results runs.txt --show
---     penumbra online.lua --data FOLDER --validate ...      learns from the first 50,000 at most, tests on the last
---     10,000
---
--- FOLDER holds the folder mnist of IDX files. A run that the file of results has is not made again. Settings, choices
--- and results are on README.md beside this file; without --data pictures are made up.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn = pn.nn

local option = experiment.options({ data = "", results = "", seeds = 3, methods = "relu_net,local,clt,vbp,dropout,map",
  batch = 100, lr = 1e-3, precision = 1, units = 500, sweeps = 3, alpha = 1, beta = 10, gamma = 10, train = 60000,
  rate = 0.5, draws = 100, validate = false, show = false, part = "1/1" },
  { seeds = 1, train = 600, units = 30, draws = 5, methods = "relu_net,local,vbp" })

local document = { relu_net = "92.8 +- 0.2", ["local"] = "96.7 +- 0.2", clt = "96.6 +- 0.2", vbp = "96.6 +- 0.2" }

-- ---- data ----

local function made_up(n, seed)
  local g = pn.generator(seed)
  local y = pn.randint(0, 10, { n }, { generator = g })
  local centre = pn.randn({ 10, 784 }, { generator = pn.generator(0) })
  return centre:take(1, y) * 0.3 + pn.randn({ n, 784 }, { generator = g }) * 0.5, y
end

local function part_of(name)
  local stem = ("%s/mnist/%s"):format(option.data, name)
  local x = assert(pn.data.idx(stem .. "-images-idx3-ubyte.gz", { dtype = "float64" }))
  return (x / 255):reshape { -1, 784 }, assert(pn.data.idx(stem .. "-labels-idx1-ubyte.gz")):to "int64"
end

local function load_data()
  if option.data == "" then
    local x, y = made_up(option.train, 1)
    return { x, y }, { made_up(300, 2) }
  end
  local x, y = part_of "train"
  if option.validate then
    local n = math.min(option.train, 50000)
    return { x:slice(1, 1, n), y:slice(1, 1, n) }, { x:slice(1, 50001, 60000), y:slice(1, 50001, 60000) }
  end
  return { x:slice(1, 1, option.train), y:slice(1, 1, option.train) }, { part_of "t10k" }
end

local train, test

-- ---- one run ----

local function run_relu_net(job)
  local m = pn.vbp.relu_net { sizes = { 784, option.units, 10 }, prior_precision = option.alpha,
    noise_precision = option.beta, unit_precision = option.gamma, seed = job.seed }
  local order = pn.randperm(train[1]:size(1), { generator = pn.generator(job.seed) })
  for from = 1, order:size(1), option.batch do
    local rows = order:slice(1, from, math.min(from + option.batch - 1, order:size(1)))
    m:observe(train[1]:take(1, rows), train[2]:take(1, rows), { max_sweeps = option.sweeps })
  end
  return 100 * m:classes(test[1]):eq(test[2]):to("float64"):mean():item(), 0
end

local function run_learner(job)
  local m = pn.vbp.learner { method = job.method, likelihood = "categorical", prior_precision = option.precision,
    seed = job.seed, rate = option.rate, draws = option.draws, lr = option.lr,
    network = nn.mlp({ 784, option.units, 10 }, { activation = "relu", dtype = "float32" }) }
  m:fit { data = { train[1]:to "float32", train[2] }, epochs = 1, batch_size = option.batch, seed = job.seed }
  local x = test[1]:to "float32"
  return 100 - 100 * m:error_rate(x, test[2]):item(), m:log_predictive(x, test[2]):mean():item()
end

local function run(job)
  if not train then train, test = load_data() end
  local clock = os.clock()
  local accuracy, ll = (job.method == "relu_net" and run_relu_net or run_learner)(job)
  local seconds = os.clock() - clock
  print(("%s %d: accuracy %.2f %%, %.0f s"):format(job.method, job.seed, accuracy, seconds))
  return { accuracy = accuracy, ll = ll, seconds = seconds }
end

local jobs = {}
for seed = 1, option.seeds do
  for _, method in ipairs(experiment.words(option.methods)) do
    local own = method == "relu_net" and ("%g_%g_%g_%d"):format(option.alpha, option.beta, option.gamma, option.sweeps)
      or ("%g_%g"):format(option.precision, option.lr)
    jobs[#jobs + 1] = { method = method, seed = seed, setting = own, batch = option.batch,
      rows = option.validate and -option.train or option.train }
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = run, order = { "method", "seed", "setting", "batch",
  "rows" } }

-- ---- the table ----

local report = experiment.report(option, "online")
report("%-9s %5s  %-17s %-16s %s", "method", "seeds", "accuracy %, sd", "log-likelihood", "the document")
for _, method in ipairs(experiment.words(option.methods)) do
  local accuracies, lls = {}, {}
  for k, r in ipairs(experiment.find(all, { method = method })) do accuracies[k], lls[k] = r.accuracy, r.ll end
  local mean, sd = experiment.moments(accuracies)
  local ll = experiment.moments(lls)
  report("%-9s %5d  %6.2f +- %.2f   %-16s %s", method, #accuracies, mean, sd,
    method ~= "relu_net" and ("%8.4f"):format(ll) or "", option.data ~= "" and document[method] or "")
end
