--- Classification of pictures (Haussmann 2021, table 3.2): the strided LeNet5 of table 3.4 on MNIST and Fashion-MNIST
--- by five methods from the same start, with the same prior, minibatches and schedule; test error and log-likelihood.
---
---     penumbra images.lua --data FOLDER --results runs.txt [--sets mnist,fashion-mnist] [--seeds 3] [--epochs 100]
---     penumbra images.lua --data FOLDER --results runs.txt --show
---
--- FOLDER holds the folders mnist and fashion-mnist of IDX files. A run that the file of results has is not made again;
--- one that was stopped goes on from its file in --out, mid-epoch too. --sets cifar makes up pictures of CIFAR's shape
--- (the set is not at hand) for the network of 192 channels. Settings and results are on README.md beside this file.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn = pn.nn

local option = experiment.options({ data = "", results = "", sets = "mnist,fashion-mnist", seeds = 1, epochs = 100,
  methods = "vbp,clt,local,dropout,map", lr = 1e-3, batch = 100, schedule = "constant", rate = 0.5, draws = 20,
  train = 60000, objective = "taylor", show = false, part = "1/1" },
  { sets = "mnist", epochs = 1, train = 200, draws = 5, methods = "vbp,local" })
local f32 = { dtype = "float32" }

-- channels, side and the network of each shape of pictures
local shapes = {
  mnist = { channels = 1, side = 28, filters = { 20, 50 }, flat = 800, units = 500 },
  cifar = { channels = 3, side = 32, filters = { 192, 192 }, flat = 4800, units = 1000 },
}
shapes["fashion-mnist"] = shapes.mnist

-- error in % and log-likelihood of the document: DVI, VarOut, VBP
local document = { mnist = { clt = "0.97 -0.03", ["local"] = "1.12 -0.03", vbp = "0.85 -0.03" },
  ["fashion-mnist"] = { clt = "10.33 -0.29", ["local"] = "10.81 -0.30", vbp = "10.10 -0.28" } }

-- ---- data ----

-- Bars of ten directions with noise: something to run on where no data is at hand.
local function made_up(n, shape, seed)
  local g, side = pn.generator(seed), shape.side
  local labels = pn.randint(0, 10, { n }, { generator = g })
  local angle = labels:to "float32" * (math.pi / 10)
  local grid = pn.linspace(-1, 1, side, f32)
  local x = angle:cos():reshape { n, 1, 1 } * grid + angle:sin():reshape { n, 1, 1 } * grid:unsqueeze(-1)
  local bars = (x:square() * -40):exp():unsqueeze(2):broadcast_to { n, shape.channels, side, side }
  return bars + pn.randn({ n, shape.channels, side, side }, { dtype = "float32", generator = g }) * 0.2, labels
end

local function part_of(set, name)
  local stem = ("%s/%s/%s"):format(option.data, set, name)
  local x = assert(pn.data.idx(stem .. "-images-idx3-ubyte.gz", f32))
  local y = assert(pn.data.idx(stem .. "-labels-idx1-ubyte.gz"))
  return (x / 255):unsqueeze(2), y:to "int64"
end

-- CIFAR-10's binary files: rows of a label and 3 x 32 x 32 bytes.
local function cifar(files)
  local x, y = {}, {}
  for k, name in ipairs(files) do
    local rows = assert(pn.data.raw(("%s/cifar/%s.bin"):format(option.data, name), { shape = { 10000, 3073 } }))
    x[k] = rows:slice(2, 2, 3073):to "float32":reshape { 10000, 3, 32, 32 } / 255
    y[k] = rows:slice(2, 1, 1):reshape { 10000 }
  end
  return pn.concatenate(x, 1), pn.concatenate(y, 1)
end

local function is_there(set)
  return option.data ~= "" and (set ~= "cifar" or
    pn.data.raw(option.data .. "/cifar/test_batch.bin", { shape = { 10000, 3073 } }) ~= nil)
end

local kept = {}

local function load_set(set)
  if kept.name == set then return kept end
  local x, y, test_x, test_y
  if not is_there(set) then
    x, y = made_up(math.min(option.train, 2000), shapes[set], 1)
    test_x, test_y = made_up(math.min(option.train, 500), shapes[set], 2)
  else
    if set == "cifar" then
      x, y = cifar { "data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5" }
      test_x, test_y = cifar { "test_batch" }
    else
      x, y = part_of(set, "train")
      test_x, test_y = part_of(set, "t10k")
    end
    if option.train < 60000 then x, y = x:slice(1, 1, option.train), y:slice(1, 1, option.train) end
  end
  kept = { name = set, train = { x, y }, test = { test_x, test_y } }
  return kept
end

-- ---- one run ----

local function network(shape)
  local a, b = shape.filters[1], shape.filters[2]
  return nn.sequential { nn.conv2d(shape.channels, a, { kernel = 5, stride = 2, dtype = "float32" }), nn.relu(),
    nn.conv2d(a, b, { kernel = 5, stride = 2, dtype = "float32" }), nn.relu(), nn.flatten(),
    nn.linear(shape.flat, shape.units, f32), nn.relu(), nn.linear(shape.units, 10, f32) }
end

local function run(job)
  local set = load_set(job.set)
  local m = pn.vbp.learner { network = network(shapes[job.set]), method = job.method, likelihood = "categorical",
    objective = job.objective, prior_precision = 100, seed = job.seed, rate = option.rate, draws = option.draws }
  local path = ("%s/%s_%s_%d_%d.run"):format(option.out, job.set, job.method, job.seed, job.epochs)
  local clock, steps = os.clock(), job.epochs * math.ceil(set.train[1]:size(1) / option.batch)
  local run_of = m:fit { data = set.train, epochs = job.epochs, batch_size = option.batch, seed = job.seed,
    lr = option.lr, schedule = job.schedule == "cosine" and pn.optim.cosine(option.lr, option.lr / 100, steps) or nil,
    checkpoint = not option.quick and path or nil, resume = not option.quick or nil,
    on_epoch = function(s)
      local text = ("%s %s %d: epoch %d, loss %.4f"):format(job.set, job.method, job.seed, s.epoch, s.loss)
      if not option.quick then print(text) end
    end }
  local seconds = os.clock() - clock
  local result = { error = 100 * m:error_rate(set.test[1], set.test[2]):item(), loss = run_of.loss,
    ll = m:log_predictive(set.test[1], set.test[2]):mean():item(), seconds = seconds, train = set.train[1]:size(1) }
  os.remove(path)
  print(("%s %s %d: error %.2f %%, log-likelihood %.4f, %.0f s"):format(job.set, job.method, job.seed, result.error,
    result.ll, seconds))
  return result
end

local jobs = {}
for _, set in ipairs(experiment.words(option.sets)) do
  for seed = 1, option.seeds do
    for _, method in ipairs(experiment.words(option.methods)) do
      jobs[#jobs + 1] = { set = set, seed = seed, method = method, epochs = option.epochs, schedule = option.schedule,
        objective = option.objective }
    end
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = run, order = { "set", "seed", "method", "epochs",
  "schedule", "objective" } }

-- ---- the table ----

local report = experiment.report(option, "images")
report("%d epochs, minibatches of %d, rate %g (%s)", option.epochs, option.batch, option.lr, option.schedule)
report("%-14s %-8s %5s  %-16s %-18s %s", "set", "method", "seeds", "error %", "log-likelihood", "the document")
for _, set in ipairs(experiment.words(option.sets)) do
  for _, method in ipairs(experiment.words(option.methods)) do
    local errors, lls = {}, {}
    for k, r in ipairs(experiment.find(all, { set = set, method = method })) do errors[k], lls[k] = r.error, r.ll end
    local e, sd = experiment.moments(errors)
    local l, l_sd = experiment.moments(lls)
    local several = #errors > 1
    report("%-14s %-8s %5d  %-16s %-18s %s", set, method, #errors,
      several and ("%.2f +- %.2f"):format(e, sd) or #errors == 1 and ("%.2f"):format(e) or "not run",
      several and ("%.4f +- %.4f"):format(l, l_sd) or #errors == 1 and ("%.4f"):format(l) or "",
      option.data ~= "" and set ~= "cifar" and document[set][method] or "")
  end
end
