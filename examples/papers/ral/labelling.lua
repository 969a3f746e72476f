--- What the experiments of this folder share: data, the networks of the document, how they are trained in a round, and
--- one run of labelling. It does nothing when it is run by itself.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn, optim, dist, active = pn.nn, pn.optim, pn.dist, pn.active

local labelling = {}

local o32 = { dtype = "float32" }

-- ---- data ----

-- Bars of ten directions with noise: something to run on where no data is at hand.
local function generated(n)
  local labels = pn.randint(0, 10, { n })
  local angle = labels:to "float32" * (math.pi / 10)
  local grid = pn.linspace(-1, 1, 28, o32)
  local x = angle:cos():reshape { n, 1, 1 } * grid + angle:sin():reshape { n, 1, 1 } * grid:unsqueeze(-1)
  return ((x:square() * -40):exp() + pn.randn({ n, 28, 28 }, o32) * 0.6):reshape { n, 1, 28, 28 }, labels
end

local function part(folder, name)
  local images = assert(pn.data.idx(("%s/%s-images-idx3-ubyte.gz"):format(folder, name), o32))
  local labels = assert(pn.data.idx(("%s/%s-labels-idx1-ubyte.gz"):format(folder, name)))
  return (images / 255):reshape { images:size(1), 1, 28, 28 }, labels:to "int64"
end

--- data(option): x, y, test x, test y: the images of the folder option.data (IDX files as MNIST's), of the test set the
--- first option.tested; generated ones without a folder.
function labelling.data(option)
  if option.data == "" then
    pn.seed(1)
    local x, y = generated(option.quick and 300 or 4000)
    local tx, ty = generated(option.quick and 100 or 1000)
    return x, y, tx, ty
  end
  local x, y = part(option.data, "train")
  local tx, ty = part(option.data, "t10k")
  local n = math.min(option.tested, tx:size(1))
  return x, y, tx:slice(1, 1, n), ty:slice(1, 1, n)
end

-- ---- networks ----

-- Layers of the document's strided LeNet (table 4.3), or of a smaller dense network; `between` makes what stands after
-- each hidden layer beside its activation.
local function layers(name, between)
  local he = { init = "he", dtype = "float32" }
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local list = name == "lenet" and { conv(1, 20), "act", conv(20, 50), "act", nn.flatten(), nn.linear(800, 500, he),
    "act", nn.linear(500, 10, he) } or { nn.flatten(), nn.linear(784, 100, he), "act", nn.linear(100, 10, he) }
  local out = {}
  for _, layer in ipairs(list) do
    if layer == "act" then
      for _, each in ipairs { between() } do out[#out + 1] = each end
    else
      out[#out + 1] = layer
    end
  end
  return nn.sequential(out)
end

--- network(name, precision): means and variances by matching (clt), He means, log variances -9.
function labelling.network(name, precision)
  return nn.bayesian(layers(name, function() return nn.relu { rule = "clt" } end),
    { prior = dist.normal(0, precision ^ -0.5), posterior_scale = math.exp(-4.5) })
end

--- dropout(name): a deterministic network with dropout of one half after each hidden layer.
function labelling.dropout(name)
  return layers(name, function() return nn.relu(), nn.dropout { rate = 0.5 } end)
end

--- fixed(name): like network, but every weight has the variance of its squared mean, as Gaussian noise has that does
--- what dropout of one half does (p / (1 - p) = 1). A module whose moments are variances of sums with w^2 (v + m^2 +
--- v).
function labelling.fixed(name)
  local net = layers(name, function() return nn.relu { rule = "clt" } end)
  local function moments(_, m, v)
    for _, layer in ipairs(net) do
      local p = {}
      for _, entry in ipairs(layer:named_parameters()) do p[entry[1]] = entry[2] end
      if p.weight then
        local second = v and m:square() + v * 2 or m:square()
        if layer:type() == "conv2d" then
          v = second:conv2d(p.weight:square(), 2)
        else
          v = second:matmul(p.weight:square())
        end
        m = layer(m)
      else
        m, v = layer:moments(m, v)
      end
    end
    return m, v
  end
  return nn.module { net = net, forward = function(self, x) return self.net(x) end, moments = moments }
end

-- ---- training ----

-- log Phi(+-g / sqrt(1 + h)) summed over the classes, y one-hot: the logarithm of the expected likelihood (R4).
local function probit_ll(y, g, h)
  local z = h and g / (h + 1):sqrt() or g
  return ((y * 2 - 1) * z):log_ndtr():sum(2)
end

local function softmax_ll(y, f) return (y * f:log_softmax(-1)):sum(2) end

--- Kinds of networks: make(name, o), ll(net, x, y one-hot): [batch], penalty(net, o): nats, and how it predicts.
labelling.kinds = {
  clt = { make = function(name, o) return labelling.network(name, o.precision) end,
    ll = function(net, x, y) return probit_ll(y, net:moments(x)) end, penalty = function(net) return net:kl() end },
  clt_fixed = { make = function(name) return labelling.fixed(name) end,
    ll = function(net, x, y) return probit_ll(y, net:moments(x)) end },
  dropout_probit = { make = function(name) return labelling.dropout(name) end, dropout = true,
    ll = function(net, x, y) return probit_ll(y, net(x)) end },
  dropout_softmax = { make = function(name) return labelling.dropout(name) end, dropout = true,
    ll = function(net, x, y) return softmax_ll(y, net(x)) end },
}

-- Half the prior's precision times the squared weights: what the divergence is for weights without variance.
local function weight_decay(net, precision)
  local total = 0
  for _, p in ipairs(net:parameters()) do total = total + p:square():sum() end
  return total * (precision / 2)
end

--- trainer(net, kind, o): an optimiser, and train(x, y, {lr =, epochs =, batch_size =}) that goes on from where it
--- stands, in steps that are captured once for each size of a batch.
function labelling.trainer(net, kind, o)
  local opt = optim.adam(net, { lr = o.lr })
  local step = pn.compile(function(x, y, num_data)
    local penalty = kind.penalty and kind.penalty(net) or weight_decay(net, o.precision)
    return -kind.ll(net, x, y):mean() + penalty / num_data
  end, { optimiser = opt })
  local function train(x, y, how)
    local n, target = x:size(1), pn.one_hot(y, 10):to "float32"
    local num_data = pn.full({}, n, o32)
    opt.lr = how.lr
    local last
    for _ = 1, how.epochs do
      local order = pn.randperm(n)
      for from = 1, n, how.batch_size do
        local at = order:slice(1, from, math.min(from + how.batch_size - 1, n))
        last = step(x:take(1, at), target:take(1, at), num_data)
      end
    end
    return last
  end
  return opt, train
end

-- Draws of a network with dropout, [n, N, classes]: masks of their own for each datum.
local function dropout_draws(net, link)
  return function(x, n)
    local f = nn.predict(net, x, { draws = n, mode = "training", batch_size = 1000 })
    return link == "probit" and f:ndtr() or f:softmax(-1)
  end
end

--- model(o, rounds): a network with its trainer as pn.active takes it; o.kind of labelling.kinds, o.network "lenet" or
--- "dense". The rate falls linearly to 0 over the rounds; weights and optimiser go on from round to round.
function labelling.model(o, rounds)
  local kind = labelling.kinds[o.kind]
  local net = kind.make(o.network, o)
  local opt, train = labelling.trainer(net, kind, o)
  local link = o.kind == "dropout_softmax" and "softmax" or "probit"
  local given = { classes = 10, link = link, keep = { net = net, optimiser = opt }, fit = function(x, y, round)
    train(x, y, { lr = o.lr * (1 - round.round / rounds), epochs = o.epochs, batch_size = o.batch })
  end }
  if not kind.dropout then return active.network(net, given) end
  local draws = dropout_draws(net, link)
  given.weight_draws = draws
  given.probabilities = function(x) return draws(x, 12):mean(1) end
  return active.predictor(given)
end

--- error_of(model, x, y): per cent wrong; the class is that of the largest mean output.
function labelling.error_of(model, x, y)
  local p, m = model:predict(x)
  return 100 * (m or p):argmax(2):ne(y):to("float64"):mean():item()
end

-- ---- a run ----

--- Acquisitions of the experiments by the document's names and others.
labelling.acquisitions = { bald_12 = { "bald", draws = 12 }, random = "random", entropy = "entropy",
  bald = { "bald" }, thinned = "thinned",
  reinforced = { "reinforced" }, frozen = { "reinforced", policy = "frozen" },
  reset = { "reinforced", policy = "reset" }, reinforced_500 = { "reinforced", hidden = 500 },
  reinforced_scaled = { "reinforced", kl_weight = 1e-4 }, reinforced_each = { "reinforced", diversity = "each" },
  margin = "margin", variation_ratio = "variation_ratio", core_set = "core_set",
  batch_bald = { "batch_bald", draws = 20 }, entropy_raw = { "entropy", kind = "raw" },
  entropy_renormalised = { "entropy", kind = "renormalised" } }

--- run(name, seed, o, data): one repetition: 50 random labels, then o.count a round until o.labels. Weights, first
--- labels and candidates are the seed's, the same for all acquisitions. Returns {errors = per cent at each of counts,
--- average =, final =, classes = how many classes have a label at the end}.
function labelling.run(name, seed, o, data)
  local x, y, tx, ty = table.unpack(data)
  local rounds = math.ceil((o.labels - o.first) / o.count) + 1
  pn.seed(seed)
  local model = labelling.model(o, rounds)
  local pool = active.pool { x = x, model = model, acquisition = assert(labelling.acquisitions[name],
    "no acquisition " .. name), first = o.first, count = o.count, max_labels = o.labels, candidates = o.candidates,
    seed = seed }
  local errors, counts = {}, {}
  pool:run(y, { on_step = function(report)
    if report.round % o.every == 0 or report.labelled >= o.labels then
      errors[#errors + 1], counts[#counts + 1] = labelling.error_of(model, tx, ty), report.labelled
    end
  end })
  local sum, seen = 0, 0
  for _, e in ipairs(errors) do sum = sum + e end
  for _ in pairs(pool.seen) do seen = seen + 1 end
  return { errors = errors, counts = counts, average = sum / #errors, final = errors[#errors], classes = seen }
end

-- ---- jobs and their table ----

local SETTINGS <const> = { "network", "kind", "labels", "first", "count", "epochs", "batch", "lr", "precision",
  "candidates", "tested", "every" }

--- defaults(more): options of a script: the document's settings and those of a run, with `more`.
function labelling.defaults(more)
  local o = { data = "", set = "generated", seeds = "1,2,3", network = "lenet", kind = "clt", labels = 400, first = 50,
    count = 5, epochs = 30, batch = 10, lr = 1e-4, precision = 10, candidates = 10000, tested = 10000, every = 2,
    part = "1/1", show = false }
  for name, value in pairs(more) do o[name] = value end
  return o
end

--- quick(more): what of them --quick means.
function labelling.quick(more)
  local o = { seeds = "1", network = "dense", labels = 30, first = 20, epochs = 2, candidates = 200, results = "",
    every = 1, lr = 1e-3 }
  for name, value in pairs(more) do o[name] = value end
  return o
end

--- runs(option, variants): makes the runs that the file option.results lacks: of each seed all variants, {acquisition
--- =, kind = (option.kind)}. Gives all of them.
function labelling.runs(option, variants)
  local jobs, data = {}, nil
  for _, seed in ipairs(experiment.words(option.seeds)) do
    for _, variant in ipairs(variants) do
      local job = { set = option.set, acquisition = variant.acquisition, seed = seed }
      for _, key in ipairs(SETTINGS) do job[key] = option[key] end
      job.kind = variant.kind or option.kind
      jobs[#jobs + 1] = job
    end
  end
  return experiment.runs { option = option, jobs = jobs, order = { "set", "acquisition", "seed", "average", "final" },
    run = function(job)
      data = data or { labelling.data(option) }
      local record = labelling.run(job.acquisition, job.seed, job, data)
      print(("%s, %s, seed %d: average error %.2f %%, final %.2f %%"):format(job.acquisition, job.kind, job.seed,
        record.average, record.final))
      return record
    end }
end

-- Runs of a variant: figures by seed, curves, and at how many labels.
local function of(runs, option, variant)
  local found = { average = {}, final = {}, curves = {} }
  local job = { acquisition = variant.acquisition, kind = variant.kind or option.kind }
  for _, r in ipairs(experiment.find(runs, job)) do
    found.average[r.seed], found.final[r.seed] = r.average, r.final
    found.curves[#found.curves + 1], found.counts = r.errors, r.counts
  end
  return found
end

local function list_of(by_seed)
  local list = {}
  for _, v in pairs(by_seed) do list[#list + 1] = v end
  return list
end

labelling.colours = { "#555555", "#2f6db3", "#c2572b", "#3c8d40", "#8a4fa3", "#b8860b", "#1b9e9e", "#d04f8a",
  "#6b6b00" }

--- compare(option, runs, variants, name): a table, with differences to the first variant paired by seed, and a picture
--- of mean and one standard deviation.
function labelling.compare(option, runs, variants, name)
  local write = experiment.report(option, name)
  local base = of(runs, option, variants[1])
  local first = variants[1].label or variants[1].acquisition
  write("%s, %s, %d to %d labels: test error in per cent, +- standard deviation over runs; differences to %s are "
    .. "paired by seed, +- standard error", option.set, option.network, option.first, option.labels, first)
  write("%-22s %5s  %-16s %-16s %-18s %-18s", "acquisition", "runs", "average", "final", "average difference",
    "final difference")
  local panels = { title = option.set, x_label = "labels", y_label = "test error, per cent", size = { 680, 430 } }
  for k, variant in ipairs(variants) do
    local mine, label = of(runs, option, variant), variant.label or variant.acquisition
    local n = #mine.curves
    if n > 0 then
      local a, a_sd = experiment.moments(list_of(mine.average))
      local f, f_sd = experiment.moments(list_of(mine.final))
      local da, da_se = experiment.paired(mine.average, base.average)
      local df, df_se = experiment.paired(mine.final, base.final)
      write("%-22s %5d  %6.2f +- %-6.2f %6.2f +- %-6.2f %7.2f +- %-7.2f %7.2f +- %-7.2f", label, n, a, a_sd, f, f_sd,
        da, da_se, df, df_se)
      local curves, x = pn.tensor(mine.curves), pn.tensor(mine.counts)
      local mean = curves:mean(1)
      local sd, colour = n > 1 and curves:std(1) or mean * 0, labelling.colours[(k - 1) % #labelling.colours + 1]
      panels[#panels + 1] = pn.plot.band(x, mean - sd, mean + sd, { colour = colour, opacity = 0.12 })
      panels[#panels + 1] = pn.plot.line(x, mean, { colour = colour, label = label })
    end
  end
  if #panels > 0 then experiment.picture(option, name, panels) end
end

return labelling
