--- Two convolutions of 96 filters on MNIST (Haussmann 2021, table 5.3): BEDL and BEDL-PAC; the document has .91 and
--- .63 % of errors, beside Gaussian processes' 1.21 to 0.84 that it cites.
---
---     penumbra images.lua --data FOLDER --results runs.txt [--epochs 50] [--methods bedl,bedl_pac] [--images 60000]
---     penumbra images.lua --results runs.txt --show
---
--- FOLDER holds train-images-idx3-ubyte.gz ... A run that the file of results has is not made again. Settings, choices
--- and results are on README.md; without --data a quick run is made on generated images.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn = pn.nn

local option = experiment.options({ data = "", results = "", methods = "bedl,bedl_pac,bedl_pac_mean", seeds = 1,
  epochs = 50, batch = 100, lr = 1e-3, filters = 96, images = 60000, draws = 5, show = false, part = "1/1" },
  { epochs = 1, images = 100, batch = 50, filters = 4 })

local o32 = { dtype = "float32" }
local printed = { bedl = 0.91, bedl_pac = 0.63 }

local function load(name)
  local images = assert(pn.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(option.data, name), o32))
  local labels = assert(pn.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(option.data, name)))
  return ((images / 255 - 0.1307) / 0.3081):reshape { images:size(1), 1, 28, 28 }, labels:to "int64"
end

local function load_data()
  if option.data == "" then
    local function bars(n)
      local label = pn.randint(0, 10, { n })
      local place = pn.arange(28):to("float32"):reshape { 1, 1, 28 } - (label:to "float32" * 2.5):reshape { n, 1, 1 }
      local x = (place:square() * -0.1):exp():broadcast_to { n, 28, 28 }
      return { (x + pn.randn({ n, 28, 28 }, o32) * 0.1):reshape { n, 1, 28, 28 }, label }
    end
    return bars(option.images), bars(100)
  end
  local x, y = load "train"
  local n = math.min(option.images, x:size(1))
  return { x:slice(1, 1, n), y:slice(1, 1, n) }, { load "t10k" }
end

local train, test

local function run(job)
  if not train then train, test = load_data() end
  local function conv(from, to) return nn.conv2d(from, to, { kernel = 5, stride = 2, dtype = "float32" }) end
  local f = option.filters
  local name, form = job.method:match "^(bedl_pac)_(%a+)$"
  local m = pn.evidential.learner { method = name or job.method, likelihood = "categorical", seed = job.seed,
    draws = option.draws, divergence = form, log_constant = form and "log_n" or nil,
    network = nn.sequential { conv(1, f), nn.relu(), conv(f, f), nn.relu(), nn.flatten(), nn.linear(f * 16, 10, o32) } }
  local clock = os.clock()
  m:fit { data = train, epochs = job.epochs, batch_size = option.batch, lr = option.lr, seed = job.seed }
  local result = { error = 100 * m:error_rate(test[1], test[2]):item(),
    ll = m:log_predictive(test[1], test[2]):mean():item(), seconds = os.clock() - clock }
  print(("%s, seed %d: error %.2f %%, %.0f s"):format(job.method, job.seed, result.error, result.seconds))
  return result
end

local jobs = {}
for seed = 1, option.seeds do
  for _, method in ipairs(experiment.words(option.methods)) do
    jobs[#jobs + 1] = { method = method, seed = seed, epochs = option.epochs, images = option.images }
  end
end
local order = { "method", "seed", "epochs", "images" }
local all = experiment.runs { option = option, jobs = jobs, run = run, order = order }
local report = experiment.report(option, "images")
report "method          seed  images  epochs  error %%   log-likelihood   the document, 50 epochs"
for _, r in ipairs(all) do
  report("%-14s %5d  %6d  %6d  %6.2f   %8.4f          %s", r.method, r.seed, r.images, r.epochs, r.error, r.ll,
    printed[r.method] and ("%.2f"):format(printed[r.method]) or "")
end
