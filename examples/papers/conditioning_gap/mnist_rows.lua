--- Pictures read row by row (Bayer et al. 2021, section 5.3): a residual VSSM with partial and full inference on MNIST,
--- binarised once, and on glyph rows, whose exact likelihood and exact classifier are known (pn.gap.glyph_rows).
---
---     penumbra mnist_rows.lua --data FOLDER --keep RUNS --results rows_runs.txt    100,000 updates, two seeds
---     penumbra mnist_rows.lua --keep RUNS --results rows_runs.txt --updates 3000   without --data glyph rows alone
---     penumbra mnist_rows.lua --data FOLDER --keep RUNS --results rows_runs.txt --show    table and pictures
---     penumbra mnist_rows.lua --quick                                              seconds, on glyph rows
---
--- --warmup is the share of the updates in which the weight of the divergence rises to 1 (0.2; the document names none,
--- and without it full inference ended with hidden states that mean nothing, see this folder's page).
--- FOLDER holds train-images-idx3-ubyte.gz ... Settings: the document's tables D.1 (partial) and D.2 (full).
--- The last 10,000 training images are for validation. For each model: the test bound (the mean of 10 draws), the
--- importance weighted bound of 100 draws on 200 pictures, and the divergence of the classes of 10,000 samples from the
--- uniform law, by a strided LeNet5 trained on pictures binarised as the samples are (of glyphs by Bayes' rule).
--- It writes rows.txt, and of samples rows_SET_KIND.png with the bars of classes in rows_classes.svg.
local here = arg[0]:gsub("[^/]*$", "")
local runs = dofile(here .. "vssm_runs.lua")
local pn = require "penumbra"
local experiment = runs.experiment

local option = experiment.options({ updates = 100000, seeds = 2, data = "", keep = "", results = "", part = "1/1",
  show = false, conditionings = "full,partial", sets = "digits,glyphs", seconds = 1e9, draws = 10, count = 50000,
  test = 10000, samples = 10000, classifier_epochs = 3, warmup = 0.2 },
  { updates = 2, seeds = 1, sets = "glyphs", count = 100, test = 50, samples = 50, draws = 1 })

local o32 = { dtype = "float32" }
local SIDE = 28

-- ---- pictures: x [28, n, 28] of 0 and 1 ----

-- Grey values as chances, drawn once.
local function binarised(images, seed)
  return pn.rand(images:shape(), { dtype = "float32", generator = pn.generator(seed) }):lt(images / 255):to "float32"
end

local sets = {}

function sets.digits()
  if option.data == "" then return nil end
  local function part(name)
    return assert(pn.data.idx(("%s/%s-ubyte.gz"):format(option.data, name), name:find "images" and o32 or nil))
  end
  local function rows(x) return x:transpose(1, 2):contiguous() end
  local all, labels = binarised(part "train-images-idx3", 11), part "train-labels-idx1":to "int64"
  local test, test_labels = binarised(part "t10k-images-idx3", 12), part "t10k-labels-idx1":to "int64"
  return { train = rows(all:slice(1, 1, math.min(50000, option.count))), validation = rows(all:slice(1, 50001, 60000)),
    test = rows(test:slice(1, 1, option.test)), images = all:slice(1, 1, 50000), labels = labels:slice(1, 1, 50000),
    test_images = test, test_labels = test_labels }
end

function sets.glyphs()
  local world = pn.gap.glyph_rows {}
  local function part(seed, n) return (world:sample(n, { seed = seed, dtype = "float32" })) end
  local test = part(33, option.test)
  return { train = part(31, option.count), validation = part(32, math.min(2000, option.test)), test = test,
    log_prob = world:log_prob(test), classes = function(x) return world:class_log_probs(x):argmax(-1) end }
end

-- ---- the classifier of digits ----

local function new_classifier()
  local nn = pn.nn
  return nn.sequential { nn.conv2d(1, 20, { kernel = 5, stride = 2, dtype = "float32" }), nn.relu(),
    nn.conv2d(20, 50, { kernel = 5, stride = 2, dtype = "float32" }), nn.relu(), nn.flatten(), nn.linear(800, 500, o32),
    nn.relu(), nn.linear(500, 10, o32) }
end

local function classes_of(net, images)
  local list = {}
  for k = 1, images:size(1), 1000 do
    local part = images:slice(1, k, math.min(k + 999, images:size(1)))
    list[#list + 1] = pn.no_grad(net, part:unsqueeze(2)):argmax(-1)
  end
  return pn.concatenate(list, 1)
end

-- It is kept in a file, and tells its error on binarised test images.
local function classifier(set)
  local path = option.keep ~= "" and option.keep .. "/rows_classifier.safetensors"
  pn.seed(41)
  local net = new_classifier()
  local state = path and pn.load(path)
  if state then
    net:load_state(state)
  else
    local optimiser = pn.optim.adam(net, { lr = 1e-3 })
    pn.train.fit { data = { set.images:unsqueeze(2), set.labels }, epochs = option.classifier_epochs, batch_size = 100,
      optimiser = optimiser, seed = 42, loss = function(x, y) return pn.cross_entropy(net(x), y):mean() end }
    if path then assert(pn.save(path, net:state())) end
  end
  local right = classes_of(net, set.test_images):eq(set.test_labels):to "float64":mean():item()
  return net, 1 - right
end

-- sum h log(10 h) of classes, and their shares.
local function divergence(classes)
  local shares, total = pn.bincount(classes, { num_bins = 10 }):to "float64" / classes:numel(), 0
  for _, h in ipairs(shares:totable()) do total = total + (h > 0 and h * math.log(10 * h) or 0) end
  return total, shares:totable()
end

-- ---- one run ----

local loaded = {}
local function set_of(name)
  if loaded[name] == nil then
    local set = sets[name]() or false
    if set and not set.classes then
      local net, error = classifier(set)
      set.classifier_error = error
      set.classes = function(x) return classes_of(net, x:transpose(1, 2):contiguous()) end
    end
    loaded[name] = set
  end
  return loaded[name]
end

local function job_run(job)
  local set, setting = set_of(job.set), runs.settings.rows[job.kind]
  pn.seed(3000 + job.seed)
  local model = runs.model(setting, job.kind, { size = SIDE, output = "bernoulli", dtype = "float32",
    warmup = math.floor(job.warmup * job.updates) })
  local r = runs.fit(model, setting, { train = { y = set.train }, validation = { y = set.validation }, looks = 10,
    updates = job.updates, seed = job.seed, seconds = option.seconds,
    file = runs.file_of(option, { "rows", job.set, job.kind, job.warmup, job.updates, job.seed }) })
  if not r.done then
    print(("stopped after %d updates; run again to go on"):format(r.updates))
    os.exit(0)
  end
  if option.keep ~= "" then
    assert(model:save(runs.file_of(option, { "rows_model", job.set, job.kind, job.warmup, job.updates, job.seed })))
  end
  local bound, error, each = runs.elbo(model, { y = set.test }, option.draws)
  local few = math.min(200, option.test)
  local tighter = model:bound({ y = set.test:slice(2, 1, few) }, { draws = 10 * option.draws, batch_size = 5000 })
  local kl, shares = divergence(set.classes((model:generate(option.samples, { steps = SIDE,
    generator = pn.generator(51) }))))
  local result = { fit_minutes = r.fit_minutes, best_update = r.best_update, validation = r.validation, bound = bound,
    bound_se = error, iwae = tighter:mean():item(), elbo_same = each:slice(1, 1, few):mean():item(), kl = kl,
    shares = shares, classifier_error = set.classifier_error }
  if set.log_prob then
    local missing = set.log_prob - each
    result.missing, result.missing_se = missing:mean():item(), missing:std():item() / math.sqrt(option.test)
  end
  return result
end

local jobs = {}
for _, set in ipairs(experiment.words(option.sets)) do
  for seed = 1, set == "digits" and option.data == "" and 0 or option.seeds do
    for _, kind in ipairs(experiment.words(option.conditionings)) do
      jobs[#jobs + 1] = { set = set, kind = kind, seed = seed, updates = option.updates, warmup = option.warmup }
    end
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = job_run, order = { "set", "kind", "seed" } }

-- ---- what there is ----

local report = experiment.report(option, "rows")
report("divergence of classes from the uniform law: %.5f on average of %d uniform draws", 9 / (2 * option.samples),
  option.samples)
report("%-7s %-8s %5s %8s %10s %7s %10s %10s %10s %9s %9s", "", "", "seed", "updates", "bound", "se", "missing", "iwae",
  "(bound)", "classes", "minutes")
for _, r in ipairs(all) do
  report("%-7s %-8s %5d %8d %10.3f %7.3f %10s %10.3f %10.3f %9.5f %9.1f", r.set, r.kind, r.seed, r.updates, r.bound,
    r.bound_se, r.missing and ("%.3f"):format(r.missing) or "-", r.iwae, r.elbo_same, r.kl, r.fit_minutes)
end
for _, name in ipairs(experiment.words(option.sets)) do
  local set = not option.quick and set_of(name)
  if set and set.test_labels then
    report("digits: test labels themselves %.7f; as the classifier sees the test images %.5f; its error %.4f",
      divergence(set.test_labels), (divergence(set.classes(set.test))), set.classifier_error)
  end
end

-- 8 x 8 samples of each model and the bars of its classes.
local function pictures()
  local bars = {}
  for _, r in ipairs(all) do
    local file = runs.file_of(option, { "rows_model", r.set, r.kind, r.warmup, r.updates, r.seed })
    local m = r.seed == 1 and pn.restore(file)
    if m then
      local x = m:generate(64, { steps = SIDE, generator = pn.generator(52) }):transpose(1, 2):contiguous()
      pn.plot.save(("%s/rows_%s_%s.png"):format(option.out, r.set, r.kind), { pn.plot.images(x:to "float64") })
      bars[#bars + 1] = pn.plot.panel { title = r.set .. ", " .. r.kind, y_range = { 0, 0.3 },
        pn.plot.impulses(pn.arange(10), pn.tensor(r.shares)) }
    end
  end
  if #bars > 0 then experiment.picture(option, "rows_classes", bars) end
end
if option.keep ~= "" then pictures() end
