--- Regression on tables of data (Haussmann 2021, table 3.1): one hidden layer of 50 units (protein 100) by five methods
--- from the same start, with the same prior, minibatches and schedule; test log-likelihood in nats of the target's own
--- units and root mean squared error, over the splits of the tables.
---
---     penumbra uci.lua --data FOLDER --results runs.txt [--sets yacht,boston] [--splits 20] [--methods vbp,clt]
---     penumbra uci.lua --data FOLDER --results runs.txt --show          the tables of what there is
---     penumbra uci.lua --data FOLDER --results runs.txt --minutes 9     stops after the run in which that time is over
---
--- FOLDER holds NAME.csv.gz, the target last, and NAME.test_splits.txt, a split a line. A run that the file of results
--- has is not made again. Settings, choices and results are on README.md beside this file; without --data a table is
--- made up.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")

local option = experiment.options({ data = "", results = "",
  sets = "boston,concrete,energy,yacht,wine,kin8nm,power,naval,protein", splits = 20,
  methods = "vbp,clt,local,dropout,map", steps = 12000, lr = 0.01, schedule = "cosine",
  rate = 0.05, draws = 100, minutes = 1e9, show = false, part = "1/1" },
  { sets = "yacht", splits = 2, steps = 100, draws = 10 })

-- name -> file, minibatch, hidden units, and what the document gives for DVI, VarOut and VBP
local sets = {
  boston = { "bostonHousing", 16, 50, -2.58, -2.59, -2.59 },
  concrete = { "concrete", 32, 50, -3.23, -3.18, -3.15 },
  energy = { "energy", 16, 50, -2.09, -1.25, -1.11 },
  kin8nm = { "kin8nm", 64, 50, 1.01, 1.02, 1.04 },
  naval = { "naval-propulsion-plant", 64, 50, 5.84, 5.52, 5.79 },
  power = { "power-plant", 64, 50, -2.82, -2.83, -2.85 },
  protein = { "protein-tertiary-structure", 256, 100, -2.94, -2.92, -2.92 },
  wine = { "wine-quality-red", 32, 50, -0.96, -0.96, -0.96 },
  yacht = { "yacht", 16, 50, -1.41, -1.65, -1.54 },
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
local function split_of(t, k)
  local kept = pn.ones { t.x:size(1) }:scatter_add(1, t.splits[k], pn.full(t.splits[k]:shape(), -1.0))
  local rest = kept:nonzero():squeeze(2)
  local sx, sy = pn.data.standardise(t.x:take(1, rest)), pn.data.standardise(t.y:take(1, rest))
  local function part(rows) return { sx(t.x:take(1, rows)), sy(t.y:take(1, rows)) } end
  return part(rest), part(t.splits[k]), sy.scale:item()
end

-- ---- one run ----

local began = os.time()

local function run(job)
  if os.time() - began > option.minutes * 60 then
    print "the time is over: the same command goes on"
    os.exit(0)
  end
  local about, t = sets[job.set], load_table(job.set)
  local train, test, unit = split_of(t, job.split)
  local m = pn.vbp.learner { method = job.method, seed = job.split, prior_precision = 10, rate = option.rate,
    network = pn.nn.mlp({ t.x:size(2), about[3], 1 }, { activation = "relu" }), draws = option.draws }
  local each = math.ceil(train[1]:size(1) / about[2])
  local epochs = math.max(1, math.ceil(job.steps / each))
  local clock = os.clock()
  m:fit { data = train, epochs = epochs, batch_size = about[2], seed = job.split, lr = option.lr,
    schedule = job.schedule == "cosine" and pn.optim.cosine(option.lr, option.lr / 100, epochs * each) or nil }
  local result = { ll = m:log_predictive(test[1], test[2]):mean():item() - math.log(unit),
    rmse = m:error_rate(test[1], test[2]):item() * unit, bound = m:bound(train[1], train[2]).bound / train[1]:size(1),
    beta = m.noise_precision:item(), seconds = os.clock() - clock }
  print(("%s %d %s: %.3f, %.4g, %.1f s"):format(job.set, job.split, job.method, result.ll, result.rmse, result.seconds))
  return result
end

local methods, jobs = experiment.words(option.methods), {}
for _, set in ipairs(experiment.words(option.sets)) do
  local n = math.min(option.splits, #load_table(set).splits)
  for split = 1, n do
    for _, method in ipairs(methods) do
      jobs[#jobs + 1] = { set = set, split = split, method = method, steps = option.steps, schedule = option.schedule }
    end
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = run, order = { "set", "split", "method", "steps",
  "schedule" } }

-- ---- tables ----

local report = experiment.report(option, "uci")

local function column(set, method, what)
  local list = {}
  for _, r in ipairs(experiment.find(all, { set = set, method = method })) do list[r.split] = r[what] end
  return list
end

local function of(list, form)
  local values = {}
  for _, v in pairs(list) do values[#values + 1] = v end
  local mean, _, se = experiment.moments(values)
  local text = #values > 1 and (form .. " +- " .. form):format(mean, se) or #values == 1 and form:format(mean) or ""
  return text, #values
end

for _, what in ipairs { "ll", "rmse" } do
  report("%s, mean and standard error over splits%s", what == "ll" and "test log-likelihood" or "test error (rmse)",
    what == "ll" and "; the document's DVI, VarOut, VBP" or "")
  for _, set in ipairs(experiment.words(option.sets)) do
    local words, most = {}, 0
    for k, method in ipairs(methods) do
      local text, n = of(column(set, method, what), what == "ll" and "%.3f" or "%.3g")
      words[k], most = ("%-22s"):format(text), math.max(most, n)
    end
    local printed = what == "ll" and (" %6.2f %6.2f %6.2f"):format(table.unpack(sets[set], 4)) or ""
    report("%-9s %2d  %s%s", set, most, table.concat(words), printed)
  end
end
report "log-likelihood of vbp less that of the others, paired by split"
for _, set in ipairs(experiment.words(option.sets)) do
  local words = {}
  for _, method in ipairs(methods) do
    local mean, se, n = experiment.paired(column(set, "vbp", "ll"), column(set, method, "ll"))
    words[#words + 1] = method ~= "vbp" and n > 1 and ("%s %.3f +- %.3f   "):format(method, mean, se) or nil
  end
  report("%-9s %s", set, table.concat(words, ""))
end
