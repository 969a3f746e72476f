--- Regression on tables of data (Haussmann 2021, table 5.1): BEDL, BEDL-Hyper and BEDL-PAC with variational dropout and
--- dropout beside them; test log-likelihood in nats of the target's own units, over the splits of the tables.
---
---     penumbra uci.lua --data FOLDER --results runs.txt [--sets boston,energy] [--splits 20] [--epochs 100]
---     penumbra uci.lua --data FOLDER --results runs.txt --show          the tables of what there is
---     penumbra uci.lua --data FOLDER --results runs.txt --minutes 9     stops after the run in which that time is over
---
--- FOLDER holds NAME.csv.gz, the target last, and NAME.test_splits.txt, a split a line. A run that the file of results
--- has is not made again. Hyperparameters that the document does not give are chosen on the training rows of the first
--- split and printed. Settings, choices and results are on README.md; without --data a table is made up.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")

local option = experiment.options({ data = "", results = "", sets = "boston,concrete,energy,wine,kin8nm,power,naval,"
  .. "protein", splits = 20, methods = "bedl,bedl_hyper,bedl_pac,local,dropout", epochs = 100, lr = 1e-3, beta = 100,
  delta = 0.1, rate = 0.05, draws = 100, minutes = 1e9, show = false, part = "1/1" },
  { sets = "energy", splits = 2, epochs = 3, draws = 10 })

-- name -> file, minibatch, hidden units, and what the document gives for BEDL, Hyper, PAC, VarOut and MC Dropout
local sets = {
  boston = { "bostonHousing", 16, 50, -2.45, -2.57, -2.43, -2.63, -2.46 },
  concrete = { "concrete", 32, 50, -3.09, -3.30, -3.02, -3.15, -3.04 },
  energy = { "energy", 16, 50, -0.87, -2.59, -0.73, -3.29, -1.99 },
  kin8nm = { "kin8nm", 64, 50, 1.12, 0.44, 1.15, 1.09, 0.95 },
  naval = { "naval-propulsion-plant", 64, 50, 5.76, 3.69, 5.60, 5.50, 3.80 },
  power = { "power-plant", 64, 50, -2.80, -2.98, -2.79, -2.82, -2.89 },
  protein = { "protein-tertiary-structure", 256, 100, -2.82, -3.00, -2.77, -2.90, -2.80 },
  wine = { "wine-quality-red", 32, 50, -0.93, -1.00, -0.90, -0.88, -0.93 },
}

-- What is chosen on training rows, by the likelihood of a fifth of them: name -> list of candidates.
local candidates = {
  bedl_pac = { { prior_precision = 0.1 }, { prior_precision = 1 }, { prior_precision = 10 } },
  bedl_hyper = { { prior_precision = 1, concentration = 1, rate = 1e-4 },
    { prior_precision = 1, concentration = 1, rate = 1e-2 }, { prior_precision = 10, concentration = 2, rate = 1e-3 } },
}

-- ---- data ----

local tables = {}

-- x, y and the list of splits, each an int64 tensor of test rows.
local function load_table(name)
  if tables[name] then return tables[name] end
  local t = { splits = {} }
  if option.data == "" then
    local g = pn.generator(7)
    t.x = pn.randn({ 150, 4 }, { generator = g })
    t.y = t.x[{ {}, 1 }]:sin() * 3 + t.x[{ {}, 2 }] * t.x[{ {}, 3 }] + pn.randn({ 150 }, { generator = g }) * 0.3
    for k = 1, option.splits do t.splits[k] = pn.randperm(150, { generator = pn.generator(k) }):slice(1, 1, 15) end
  else
    local path = ("%s/%s"):format(option.data, sets[name][1])
    local values = assert(pn.data.csv(path .. ".csv.gz"))
    t.x, t.y = values[{ {}, { 1, values:size(2) - 1 } }], values[{ {}, values:size(2) }]
    for line in assert(io.lines(path .. ".test_splits.txt")) do
      local rows = {}
      for row in line:gmatch "%d+" do rows[#rows + 1] = math.tointeger(row) end
      if #rows > 0 then t.splits[#t.splits + 1] = pn.tensor(rows, { dtype = "int64" }) end
    end
  end
  tables[name] = t
  return t
end

-- Training and test rows, standardised by the training rows; the target's scale.
local function parts_of(x, y, test)
  local kept = pn.ones { x:size(1) }:scatter_add(1, test, pn.full(test:shape(), -1.0))
  local rest = kept:nonzero():squeeze(2)
  local sx, sy = pn.data.standardise(x:take(1, rest)), pn.data.standardise(y:take(1, rest))
  local function part(rows) return { sx(x:take(1, rows)), sy(y:take(1, rows)) } end
  return part(rest), part(test), sy.scale:item()
end

-- ---- one run ----

local evidential = { bedl = true, bedl_hyper = true, bedl_pac = true }

-- Mean log-likelihood and root mean squared error of `test` after training on `train`.
local function fitted(about, method, chosen, seed, train, test)
  local columns, epochs = train[1]:size(2), option.epochs
  local m
  if evidential[method] then
    local o = { method = method, likelihood = "normal", seed = seed, noise_precision = option.beta,
      delta = option.delta, network = pn.nn.mlp({ columns, about[3], 2 }, { activation = "relu" }) }
    for name, v in pairs(chosen or {}) do o[name] = v end
    m = pn.evidential.learner(o)
  else
    m = pn.vbp.learner { method = method, seed = seed, prior_precision = 1, rate = option.rate, draws = option.draws,
      network = pn.nn.mlp({ columns, about[3], 1 }, { activation = "relu" }) }
  end
  m:fit { data = train, epochs = epochs, batch_size = about[2], seed = seed, lr = option.lr }
  return m:log_predictive(test[1], test[2]):mean():item(), m:error_rate(test[1], test[2]):item()
end

local choices = {}

local function chosen_for(set, method)
  local list, about, t = candidates[method], sets[set], load_table(set)
  if not list then return nil, "-" end
  local key = set .. method
  if not choices[key] then
    local train = parts_of(t.x, t.y, t.splits[1])
    local n = train[1]:size(1)
    local held = pn.randperm(n, { generator = pn.generator(99) }):slice(1, 1, n // 5)
    local rest, aside = parts_of(train[1], train[2], held)
    local best, text
    for _, each in ipairs(list) do
      local ll = fitted(about, method, each, 1, rest, aside)
      if not best or ll > best then
        best, choices[key] = ll, each
        text = ("%g/%g/%g"):format(each.prior_precision, each.concentration or 0, each.rate or 0)
      end
    end
    choices[key .. "text"] = text
    print(("%s %s: prior_precision/concentration/rate %s"):format(set, method, text))
  end
  return choices[key], choices[key .. "text"]
end

local began = os.time()

local function run(job)
  if os.time() - began > option.minutes * 60 then
    print "the time is over: the same command goes on"
    os.exit(0)
  end
  local t = load_table(job.set)
  local train, test, unit = parts_of(t.x, t.y, t.splits[job.split])
  local clock = os.clock()
  local chosen, text = chosen_for(job.set, job.method)
  local ll, wrong = fitted(sets[job.set], job.method, chosen, job.split, train, test)
  local result = { ll = ll - math.log(unit), rmse = wrong * unit, chosen = text, seconds = os.clock() - clock }
  print(("%s %d %s: %.3f, %.4g, %.1f s"):format(job.set, job.split, job.method, result.ll, result.rmse, result.seconds))
  return result
end

local methods, jobs = experiment.words(option.methods), {}
for _, set in ipairs(experiment.words(option.sets)) do
  for split = 1, math.min(option.splits, option.show and 20 or #load_table(set).splits) do
    for _, method in ipairs(methods) do
      jobs[#jobs + 1] = { set = set, split = split, method = method, epochs = option.epochs }
    end
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = run, order = { "set", "split", "method", "epochs" } }

-- ---- tables ----

local report = experiment.report(option, "uci")

local function column(set, method)
  local list = {}
  for _, r in ipairs(experiment.find(all, { set = set, method = method })) do list[r.split] = r.ll end
  return list
end

local function values_of(list)
  local values = {}
  for _, v in pairs(list) do values[#values + 1] = v end
  return values
end

report("test log-likelihood, mean and standard error over splits; the document's BEDL, Hyper, PAC, VarOut, MC Dropout")
report("%-9s %2s  %s", "set", "n", table.concat(methods, "         "))
for _, set in ipairs(experiment.words(option.sets)) do
  local words, most = {}, 0
  for k, method in ipairs(methods) do
    local values = values_of(column(set, method))
    local mean, _, se = experiment.moments(values)
    words[k] = ("%-18s"):format(#values > 0 and ("%7.3f +- %.3f"):format(mean, se) or "")
    most = math.max(most, #values)
  end
  report("%-9s %2d  %s  %5.2f %5.2f %5.2f %5.2f %5.2f", set, most, table.concat(words), table.unpack(sets[set], 4))
end

-- Two-sided sign test: the probability of so many or fewer of n coins on the rarer side, twice.
local function sign_test(wins, n)
  local few, total, choose = math.min(wins, n - wins), 0, 1
  for k = 0, few do
    total = total + choose
    choose = choose * (n - k) / (k + 1)
  end
  return math.min(1, 2 * total / 2 ^ n)
end

for _, pair in ipairs { { "bedl_pac", "bedl" }, { "bedl_hyper", "bedl" } } do
  report("%s less %s, paired by split; sign test over splits", pair[1], pair[2])
  local ahead, of = 0, 0
  for _, set in ipairs(experiment.words(option.sets)) do
    local a, b, wins, n = column(set, pair[1]), column(set, pair[2]), 0, 0
    for split, v in pairs(a) do
      if b[split] then
        n, wins = n + 1, wins + (v > b[split] and 1 or 0)
      end
    end
    if n > 0 then
      local mean, se = experiment.paired(a, b)
      ahead, of = ahead + (mean > 0 and 1 or 0), of + 1
      report("%-9s %7.3f +- %.3f   better in %d of %d splits, p = %.3g", set, mean, se, wins, n, sign_test(wins, n))
    end
  end
  report("better on %d of %d sets, p = %.3g", ahead, of, sign_test(ahead, of))
end
