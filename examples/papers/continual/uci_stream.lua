--- Learning tables of data batch by batch, with memories chosen in several ways (Kurle et al. 2020, section 6.1, table
--- 1, figures 4, 7 and 9): Gaussian residual scoring by the score as printed, its size and the centred one (grs,
--- grs_absolute, grs_centred) beside variational continual learning with k_center and random memories, no memory (none)
--- and all training rows in one step (offline), which no stream should beat; further those of ablation.lua. A fifth of
--- the rows is held out; a first batch, then small ones (streams.lua); the mean log predictive density of the held-out
--- rows after each step, and its mean over the last tenth of the steps.
---
---     penumbra uci_stream.lua --data FOLDER --results runs.txt [--sets yacht,energy] [--seeds 16]
---     penumbra uci_stream.lua --data FOLDER --results runs.txt --memories all --sets energy,yacht --seeds 4
---     penumbra uci_stream.lua --results runs.txt --show                   tables and pictures of what there is
---     penumbra uci_stream.lua --data FOLDER --size document ...           the document's draws and steps
---     penumbra uci_stream.lua --data FOLDER --results chosen.txt --choose --try_noise 0.1,0.2     what it leaves open
---     penumbra uci_stream.lua --data FOLDER --sets mnist --images 100     pictures of MNIST's memory of that size
---
--- A run that the file of results has is not made again; `--part 1/2` and `--part 2/2` share the runs between two
--- processes. Draws, sites (draws for sites), first and later (steps of the optimisation) are a reduced size; the
--- document's, in streams.lua, is about 1000 times as much work. It writes uci_stream.txt, a table with paired
--- differences, the score after the first batch (`begin`) and the runs that `fell`, in which a step lowered the score
--- by 0.3 or more (`most`: the largest such fall), and uci_stream.svg. Results, and what the document leaves open, are
--- on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment, streams = dofile(here .. "/experiment.lua"), dofile(here .. "/streams.lua")
local plot = pn.plot

local option = experiment.options({ data = "", results = "", sets = "yacht,energy,boston,concrete",
  methods = "grs,grs_absolute,grs_centred,k_center,random,none,offline", seeds = 16, first_seed = 1,
  memories = "table", size = "reduced", draws = 10, sites = 5000, first = 2000, later = 1000, predict = 500, lr = 0,
  noise = "", activation = "", prior_units = false, steps = 100000, choose = false, folds = 2,
  try_lr = "0.005,0.01,0.02,0.05,0.1", try_noise = "", try_methods = "grs,grs_absolute,k_center,random", show = false,
  images = 0, part = "1/1", rows = 200 },
  { sets = "yacht", seeds = 2, draws = 2, sites = 50, first = 50, later = 10, predict = 20, steps = 3, rows = 100,
    folds = 1, try_lr = "0.02,0.05" })
local folder = option.data ~= "" and option.data or false
if not folder and not option.show then print "no --data: streams are made up, which says nothing about the methods" end

-- ---- one run ----

local function draw_memory(k, learner)
  local x = learner.memory.x
  experiment.picture(option, ("mnist_memory_%d"):format(k), { plot.panel { title = ("memory after step %d"):format(k),
    plot.images(x:reshape { x:size(1), 28, 28 }, { columns = 20 }) } }, { size = { 900, 320 } })
end

-- The largest fall of a curve from one step to the next.
local function largest_fall(curve)
  local fall = 0
  for k = 2, #curve do fall = math.max(fall, curve[k - 1] - curve[k]) end
  return fall
end

local function run(job)
  local stream = streams.stream(job.set, { data = folder, seed = job.seed, fold = job.fold, rows = option.rows })
  if job.method == "offline" then stream = streams.whole(stream) end
  local size = experiment.size(streams, job.set, option)
  local learner = experiment.learner(stream, { method = job.method, memory = job.memory, seed = job.seed, size = size,
    choice = experiment.choice(streams, job.set, option) })
  local pictured = option.images > 0 and job.set == "mnist" and job.method == "grs"
  local result = experiment.follow(streams, stream, learner, { steps = option.steps, told = function(k)
    if pictured and (k - 1) % 25 == 0 and k > 1 and k <= 101 then draw_memory(k - 1, learner) end
  end })
  result.lml, result.ahead = experiment.last_mean(result.curve, 0.1), nil
  result.fall, result.begin = largest_fall(result.curve), result.curve[1]
  print(("%s %s, memory %d, seed %d%s: %.4f"):format(job.set, job.method, job.memory, job.seed,
    job.fold and ", fold " .. job.fold or "", result.lml))
  return result
end

-- ---- what is open ----

local order = { "set", "method", "memory", "seed", "size", "choice", "lml", "minutes" }

-- The runs of a method with a choice: its key in a file of results.
local function key_of(name, method, memory, seed, fold)
  local size, choice = experiment.described(experiment.size(streams, name, option), experiment.choice(streams, name,
    option))
  return { set = name, method = method, memory = memory, seed = seed, fold = fold,
    size = size .. experiment.suffix(option), choice = choice }
end

-- The mean score over methods and folds of the training rows of seed 0 with a choice, which stands in the options.
local function tried(name, choice)
  option.activation, option.lr, option.noise = choice.activation, choice.lr, choice.noise or ""
  local list, sum = {}, 0
  for _, method in ipairs(experiment.words(option.try_methods)) do
    for fold = 1, option.folds do
      list[#list + 1] = key_of(name, method, streams.sets[name].memory, 0, fold)
    end
  end
  local runs = experiment.runs { option = option, jobs = list, run = run, order = order }
  for _, record in ipairs(runs) do sum = sum + record.lml / #list end
  if #runs < #list then return -math.huge end
  print(("choose %s: %s, lr %g, noise %s: %.4f"):format(name, choice.activation, choice.lr, tostring(choice.noise
    or "none"), sum))
  return sum
end

-- From the setting that stands in streams.chosen one thing after another, rates, noises, activations, as long as one
-- of them becomes better.
local function choose(name)
  local given = { option.activation, option.lr, option.noise }
  local best = experiment.choice(streams, name, option)
  local values = { lr = experiment.words(option.try_lr), activation = { "tanh", "relu" },
    noise = best.noise and experiment.words(option.try_noise) or {} }
  local known, score, better = {}, nil, true
  local function try(choice)
    local key = ("%s %g %s"):format(choice.activation, choice.lr, tostring(choice.noise))
    if known[key] then return end
    known[key] = tried(name, choice)
    if not score or known[key] > score then best, score, better = choice, known[key], true end
  end
  try(best)
  while better do
    better = false
    for _, what in ipairs { "lr", "noise", "activation" } do
      local middle = best
      for _, value in ipairs(values[what]) do
        local choice = { activation = middle.activation, lr = middle.lr, noise = middle.noise }
        choice[what] = value
        try(choice)
      end
    end
  end
  option.activation, option.lr, option.noise = table.unpack(given)
  print(("chosen of %s: %s, lr %g, noise %s: %.4f"):format(name, best.activation, best.lr, tostring(best.noise
    or "none"), score))
end

-- ---- many ----

local names, methods = experiment.words(option.sets), experiment.words(option.methods)
local without = { none = true, offline = true } -- methods that have no memory

local function memories_of(name)
  if option.images > 0 then return { option.images } end
  return option.memories == "table" and { streams.sets[name].memory }
    or option.memories == "all" and streams.sets[name].memories or experiment.words(option.memories)
end

local function jobs()
  local list = {}
  for seed = option.first_seed, option.seeds do
    for _, name in ipairs(names) do
      for m, memory in ipairs(memories_of(name)) do
        for _, method in ipairs(methods) do
          if m == 1 or not without[method] then
            list[#list + 1] = key_of(name, method, without[method] and 0 or memory, seed)
          end
        end
      end
    end
  end
  return list
end

local document = {
  concrete = { grs = -0.779, k_center = -0.798, random = -0.800 }, boston = { grs = -0.619, k_center = -0.638,
    random = -0.664 }, energy = { grs = 0.365, k_center = -0.119, random = -0.078 },
  yacht = { grs = 1.925, k_center = 1.658, random = 1.648 }, spam = { grs = -0.216, k_center = -0.219,
    random = -0.217 }, wine = { grs = -1.165, k_center = -1.212, random = -1.194 },
  mnist = { grs = -0.148, k_center = -0.158, random = -0.153 },
}
document.wine_red = document.wine -- which the text calls red, and whose axis has the white one's steps

local function by_seed(runs, job)
  local values, list = {}, {}
  for _, record in ipairs(experiment.find(runs, job)) do
    values[record.seed], list[#list + 1] = record.lml, record.lml
  end
  return values, list
end

-- mean +- standard error of the first's scores less the second's over common seeds, or nothing.
local function less(a, b)
  local difference, deviation, pairs_of = experiment.paired(a, b)
  return pairs_of > 0 and ("%.3f +- %.3f"):format(difference, deviation) or ""
end

-- Of the runs of a job: how many have a step that lowers the score by 0.3 or more, the largest fall, and the mean score
-- after the first batch.
local function falls(runs, job)
  local count, largest, list = 0, 0, {}
  for k, record in ipairs(experiment.find(runs, job)) do
    local fall = record.fall or largest_fall(record.curve)
    count, largest = count + (fall >= 0.3 and 1 or 0), math.max(largest, fall)
    list[k] = record.begin or record.curve[1] -- a file of results may have the first score alone
  end
  return count, largest, (experiment.moments(list))
end

-- A line for each method: mean, standard deviation, the document's, and each score's memory minus it over common seeds;
-- runs that fall.
local function table_of(write, runs)
  local header = { "set", "memory", "method", "runs", "LML", "sd", "document", "grs - it", "absolute - it",
    "centred - it", "begin", "fell", "most" }
  write("%-8s %6s %-12s %4s %7s %6s %8s %17s %17s %17s %7s %5s %5s", table.unpack(header))
  for _, name in ipairs(names) do
    for _, memory in ipairs(memories_of(name)) do
      local function of(method)
        return { set = name, method = method, memory = without[method] and 0 or memory }
      end
      local scored, cells = { "grs", "grs_absolute", "grs_centred" }, {}
      for _, method in ipairs(methods) do
        local values, list = by_seed(runs, of(method))
        if #list > 0 then
          local mean, sd = experiment.moments(list)
          local told = (folder or option.show) and memory == streams.sets[name].memory and document[name][method]
          local count, largest, first = falls(runs, of(method))
          for k, other in ipairs(scored) do
            cells[k] = method == other and "" or less(by_seed(runs, of(other)), values)
          end
          write("%-8s %6d %-12s %4d %7.3f %6.3f %8s %17s %17s %17s %7.3f %5d %5.2f", name, of(method).memory, method,
            #list, mean, sd, told and ("%.3f"):format(told) or "", cells[1], cells[2], cells[3], first,
            count, largest)
        end
      end
    end
  end
end

local colours = { grs = "#c0392b", k_center = "#2255aa", random = "#3aa66b", none = "#555555", grs_k_center = "#a0721e",
  grs_refit = "#7d5ba6", grs_absolute = "#e377c2", grs_centred = "#d98e2b", offline = "#111111" }
local labels = { grs = "GRS", k_center = "k-center", random = "random", none = "no memory",
  grs_k_center = "GRS, k-center", grs_refit = "GRS, refit", grs_absolute = "GRS, absolute",
  grs_centred = "GRS, centred", offline = "offline" }

-- LML after each step, the mean over runs, a band of one standard error to both sides; learned offline, a level.
local function over_time(runs, name, memory)
  local marks = { title = ("%s, memory %d"):format(name, memory), x_label = "step", y_label = "test LML",
    legend = "below" }
  local steps = 1
  for _, method in ipairs(methods) do
    local found = experiment.find(runs, { set = name, method = method, memory = without[method] and 0 or memory })
    local at, mean, low, high = {}, {}, {}, {}
    for k = 1, found[1] and #(found[1].curve or {}) or 0 do -- a file of results may leave the curves out
      local values = {}
      for _, record in ipairs(found) do values[#values + 1] = record.curve[k] end
      local m, _, e = experiment.moments(values)
      at[k], mean[k], low[k], high[k] = k - 1, m, m - e, m + e
    end
    steps = math.max(steps, #at - 1)
    if #at > 0 then
      local colour, level = colours[method], method == "offline"
      if level then at, mean = { 0, steps }, { mean[1], mean[1] } end
      marks[#marks + 1] = not level and plot.band(at, low, high, { colour = colour, opacity = 0.1 }) or nil
      marks[#marks + 1] = plot.line(at, mean, { colour = colour, width = 1.5, dashed = method == "none" or level,
        label = labels[method] })
    end
  end
  marks.x_range = { 0, steps }
  return #marks > 0 and plot.panel(marks)
end

-- LML of the last tenth with one standard error; what has no memory, a level.
local function over_memory(runs, name)
  local list = memories_of(name)
  local last = list[#list]
  local marks = { title = name .. ", last tenth", x_label = "memory", y_label = "test LML", legend = "none",
    x_range = { 0, last + list[1] / 2 } }
  for m, method in ipairs(methods) do
    local at, mean, errors = {}, {}, {}
    for k, memory in ipairs(list) do
      local _, found = by_seed(runs, { set = name, method = method, memory = without[method] and 0 or memory })
      if #found > 0 and (k == 1 or not without[method]) then
        local value, _, e = experiment.moments(found)
        at[#at + 1], mean[#at + 1], errors[#at + 1] = memory + (m - 2) * last / 150, value, e
      end
    end
    if #at > 0 then
      local level = without[method]
      marks[#marks + 1] = plot.line(level and { 0, last + list[1] / 2 } or at, level and { mean[1], mean[1] } or mean,
        { colour = colours[method], width = 1.5, dashed = level })
      marks[#marks + 1] = plot.error_bars(level and { list[1] / 4 } or at, mean, errors, { colour = colours[method] })
    end
  end
  return plot.panel(marks)
end

local function pictures(runs)
  local panels = {}
  for _, name in ipairs(names) do
    local list = memories_of(name)
    if #experiment.find(runs, { set = name }) > 0 then
      panels[#panels + 1] = over_time(runs, name, list[(#list + 1) // 2]) or nil
      panels[#panels + 1] = #list > 1 and over_memory(runs, name) or nil
    end
  end
  if #panels == 0 then return end
  local columns = math.min(2, #panels)
  experiment.picture(option, "uci_stream", panels, { columns = columns, size = { math.max(660, 560 * columns),
    420 * math.ceil(#panels / math.max(1, columns)) } })
end

if option.choose then
  for _, name in ipairs(names) do choose(name) end
else
  local runs = experiment.runs { option = option, jobs = jobs(), run = run, order = order }
  table_of(experiment.report(option, "uci_stream"), runs)
  pictures(runs)
end
