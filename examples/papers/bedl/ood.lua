--- Digits against pictures of other things (Haussmann 2021, table 5.2): LeNet5 with strides on MNIST by six methods;
--- error on MNIST, ECDF-AUC of the entropy on Fashion-MNIST and notMNIST, and beside it what it must be read with: the
--- entropy and the likelihood on MNIST itself. BEDL-PAC in both forms of its divergence: as the document prints it
--- ("sum"), and N times less ("mean").
---
---     penumbra ood.lua --mnist FOLDER --fashion FOLDER --notmnist FOLDER --results runs.txt [--epochs 20] [--seeds 3]
---     penumbra ood.lua ... --methods edl,bedl_pac --images 6000 --test 2000     fewer images to train on, and to test
---     penumbra ood.lua --results runs.txt --show                      the table of what there is
---
--- A FOLDER holds train-images-idx3-ubyte.gz ... or, of what is outside, t10k-images-idx3-ubyte.gz alone, whose 10,000
--- images are taken. A run that the file of results has is not made again. Settings, choices and results are on
--- README.md; without --mnist a quick run is made on generated images.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn = pn.nn

local option = experiment.options({ mnist = "", fashion = "", notmnist = "", results = "",
  methods = "dropout,local,clt,edl,bedl,bedl_pac,bedl_pac_mean", seeds = 3, epochs = 20, batch = 100, lr = 1e-3,
  images = 60000, test = 10000, rate = 0.5, draws = 5, delta = 0.1, show = false, part = "1/1", minutes = 1e9 },
  { seeds = 1, epochs = 1, images = 200, batch = 50, methods = "dropout,edl,bedl,bedl_pac,bedl_pac_mean" })

-- error on MNIST in per cent and ECDF-AUC on Fashion-MNIST of the document
local printed = { dropout = { 1.12, 0.429 }, ["local"] = { 1.47, 1.381 }, clt = { 0.72, 1.318 }, edl = { 1.08, 0.132 },
  bedl = { 0.81, 1.512 }, bedl_pac = { 0.66, 0.055 } }
local called = { ["local"] = "VarOut", clt = "DVI", edl = "EDL", bedl = "BEDL", bedl_pac = "BEDL-PAC, sum",
  bedl_pac_mean = "BEDL-PAC, mean", dropout = "MC Dropout" }

local VARIATIONAL <const> = { vbp = true, clt = true, ["local"] = true, dropout = true, map = true } -- of pn.vbp

local o32 = { dtype = "float32" }

local function load(folder, name, n)
  local images = assert(pn.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(folder, name), o32))
  local labels = assert(pn.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(folder, name)))
  n = math.min(n or images:size(1), images:size(1))
  local x = ((images:slice(1, 1, n) / 255 - 0.1307) / 0.3081):reshape { n, 1, 28, 28 }
  return { x, labels:slice(1, 1, n):to "int64" }
end

-- Bars of ten directions with noise, or for other pictures rings.
local function generated(n, rings)
  local labels = pn.randint(0, 10, { n })
  local angle = labels:to "float32" * (math.pi / 10)
  local grid = pn.linspace(-1, 1, 28, o32)
  local x = rings and (grid:square() + grid:unsqueeze(-1):square()):reshape { 1, 28, 28 } * 1.5
      - (angle:cos() * 0.3 + 0.6):reshape { n, 1, 1 }
    or angle:cos():reshape { n, 1, 1 } * grid + angle:sin():reshape { n, 1, 1 } * grid:unsqueeze(-1)
  return { ((x:square() * -40):exp() + pn.randn({ n, 28, 28 }, o32) * 0.2):reshape { n, 1, 28, 28 }, labels }
end

local data

local function load_data()
  if data then return data end
  if option.mnist == "" then
    pn.seed(1)
    data = { train = generated(option.images), test = generated(100), outside = { rings = generated(100, true) } }
    return data
  end
  data = { outside = {}, train = load(option.mnist, "train", option.images),
    test = load(option.mnist, "t10k", option.test) }
  for _, name in ipairs { "fashion", "notmnist" } do
    if option[name] ~= "" then data.outside[name] = load(option[name], "t10k", option.test) end
  end
  return data
end

local function network()
  local function conv(from, to) return nn.conv2d(from, to, { kernel = 5, stride = 2, dtype = "float32" }) end
  return nn.sequential { conv(1, 20), nn.relu(), conv(20, 50), nn.relu(), nn.flatten(), nn.linear(800, 500, o32),
    nn.relu(), nn.linear(500, 10, o32) }
end

local function learner(method, seed)
  local name, form = method:match "^(bedl_pac)_(%a+)$"
  local o = { method = name or method, network = network(), seed = seed, likelihood = "categorical",
    draws = option.draws }
  if VARIATIONAL[method] then
    -- one weight draw, or one of the outputs, a step; the divergence of the weights with precision 100
    o.objective, o.draws, o.rate = "draws", { train = 1, predict = option.draws }, option.rate
    o.prior_precision = method == "dropout" and 1 or 100
    return pn.vbp.learner(o)
  end
  o.delta = option.delta
  if form then
    o.divergence, o.log_constant = form, "log_n"
  end
  return pn.evidential.learner(o)
end

local began = os.time()

local function run(job)
  if os.time() - began > option.minutes * 60 then
    print "the time is over: the same command goes on"
    os.exit(0)
  end
  local d, clock = load_data(), os.clock()
  local m = learner(job.method, job.seed)
  m:fit { data = d.train, epochs = job.epochs, batch_size = option.batch, lr = option.lr, seed = job.seed }
  local seconds = os.clock() - clock
  local inside = m:predict(d.test[1]).probabilities
  local result = { seconds = seconds }
  for name, other in pairs(d.outside) do
    local r = pn.metrics.ood(inside, m:predict(other[1]).probabilities, { y = d.test[2] })
    result.error, result.log_likelihood, result.inside = 100 * r.error, r.log_likelihood, r.inside_entropy
    result["ecdf_" .. name], result["auc_" .. name], result["fpr_" .. name] = r.ecdf_auc, r.auc, r.fpr95
    if job.seed == 1 and not option.quick then
      experiment.picture(option, ("ood_%s_%s"):format(job.method, name), pn.plot.ood(r), { columns = 2 })
    end
  end
  print(("%s, seed %d: error %.2f %%, %.0f s"):format(job.method, job.seed, result.error, seconds))
  return result
end

local methods, jobs = experiment.words(option.methods), {}
for seed = 1, option.seeds do
  for _, method in ipairs(methods) do
    jobs[#jobs + 1] = { method = method, seed = seed, epochs = option.epochs, images = option.images,
      test = option.test }
  end
end
local order = { "method", "seed", "epochs", "images" }
local all = experiment.runs { option = option, jobs = jobs, run = run, order = order }

-- ---- the table ----

local report = experiment.report(option, "ood")
local K <const> = math.log(10)

local function mean(method, what)
  local list = {}
  for _, r in ipairs(experiment.find(all, { method = method })) do list[#list + 1] = r[what] end
  local value, _, se = experiment.moments(list)
  return value, se, #list
end

report("error, likelihood, entropy inside; outside ECDF-AUC from 0 (uniform) to %.4f (certain), AUC, FPR at 95 %%", K)
for _, name in ipairs { "fashion", "notmnist", "rings" } do
  if all[1] and all[1]["ecdf_" .. name] then
    report("%-15s  n  error %%         log-lik.  entropy   ECDF-AUC          AUC     FPR     %s", name,
      name == "fashion" and "the document: error, ECDF-AUC" or "")
    for _, method in ipairs(methods) do
      local wrong, wrong_se, n = mean(method, "error")
      local ecdf, ecdf_se = mean(method, "ecdf_" .. name)
      local p = name == "fashion" and printed[method]
      if n > 0 then
        report("%-15s %2d  %5.2f +- %.2f   %8.4f  %6.4f   %6.4f +- %.4f  %6.4f  %6.4f  %s", called[method], n, wrong,
          wrong_se, (mean(method, "log_likelihood")), (mean(method, "inside")), ecdf, ecdf_se,
          (mean(method, "auc_" .. name)), (mean(method, "fpr_" .. name)), p and ("%.2f, %.3f"):format(p[1], p[2]) or "")
      end
    end
  end
end
-- A classifier that is uniform everywhere has the best score there is.
local uniform = pn.full({ 1, 10 }, 0.1)
report("a classifier that is uniform everywhere: error 90 %%, ECDF-AUC %.4f, AUC %.2f",
  pn.metrics.ood(uniform, uniform).ecdf_auc, pn.metrics.ood(uniform, uniform).auc)
