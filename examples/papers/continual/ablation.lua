--- What the two parts of Gaussian residual scoring do alone (Kurle et al. 2020, appendix A.1, figure 8), on Energy and
--- Concrete as in uci_stream.lua: the method whole (grs), with a k-center memory in place of its own (grs_k_center),
--- with its memory but the Gaussian part fitted anew to the data that left it (grs_refit); the same with memories by
--- the absolute and the centred score; and variational continual learning with k-center and random memories (k_center,
--- random).
---
---     penumbra ablation.lua --data FOLDER --results runs.txt [--sets energy,concrete] [--seeds 4] [--memories 15,25]
---     penumbra ablation.lua --data FOLDER --memories 5,10,15,20,25 --seeds 16 --size document      the document's
---     penumbra ablation.lua --data FOLDER --results runs.txt --show      tables and pictures of what there is
---
--- The score: the mean log predictive density of a fifth of the rows, held out, after each step, and its mean over the
--- last tenth of the steps. A seed is a split and an order of the rows, the same for all methods. A run that the file
--- of results has is not made again, and the file of uci_stream.lua serves; `--part 1/2` and `--part 2/2` share the
--- runs between two processes. Noise, rate, activation and size are those of uci_stream.lua, which says how they were
--- chosen. It writes ablation.txt (means, and grs minus each method over common seeds) and ablation.svg (over size and
--- over time). Without --data streams are made up, and the scores say nothing about the document's.
--- Results, and what the document leaves open, are on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment, streams = dofile(here .. "/experiment.lua"), dofile(here .. "/streams.lua")
local plot = pn.plot

local option = experiment.options({ data = "", results = "", sets = "energy,concrete", seeds = 4, first_seed = 1,
  methods = "grs,grs_refit,grs_absolute,grs_absolute_refit,grs_centred,grs_centred_refit,grs_k_center,k_center,"
  .. "random", memories = "15,25", size = "reduced", draws = 10, sites = 5000, first = 2000, later = 1000,
  predict = 500, lr = 0, activation = "", noise = "", steps = 100000, show = false, part = "1/1", rows = 200 },
  { sets = "energy", seeds = 1, memories = "15", draws = 1, sites = 20, first = 10, later = 5, predict = 20, steps = 3,
    rows = 100 })
local folder = option.data ~= "" and option.data or false
if not folder and not option.show then print "no --data: streams are made up, which says nothing about the methods" end

local names, methods = experiment.words(option.sets), experiment.words(option.methods)
local memories = experiment.words(option.memories)

-- ---- runs ----

local function run(job)
  local stream = streams.stream(job.set, { data = folder, seed = job.seed, rows = option.rows })
  local size = experiment.size(streams, job.set, option)
  local learner = experiment.learner(stream, { method = job.method, memory = job.memory, seed = job.seed, size = size,
    choice = experiment.choice(streams, job.set, option) })
  local result = experiment.follow(streams, stream, learner, { steps = option.steps })
  result.lml, result.ahead = experiment.last_mean(result.curve, 0.1), nil
  print(("%s %s, memory %d, seed %d: %.4f"):format(job.set, job.method, job.memory, job.seed, result.lml))
  return result
end

local function jobs()
  local list = {}
  for seed = option.first_seed, option.seeds do
    for _, memory in ipairs(memories) do
      for _, name in ipairs(names) do
        local size, choice = experiment.described(experiment.size(streams, name, option),
          experiment.choice(streams, name, option))
        for _, method in ipairs(methods) do
          list[#list + 1] = { set = name, method = method, memory = memory, seed = seed,
            size = size .. experiment.suffix(option), choice = choice }
        end
      end
    end
  end
  return list
end

-- ---- tables and pictures ----

local function by_seed(runs, job)
  local values, list, clipped = {}, {}, 0
  for _, record in ipairs(experiment.find(runs, job)) do
    values[record.seed], list[#list + 1], clipped = record.lml, record.lml, clipped + record.clipped
  end
  return values, list, clipped / math.max(1, #list)
end

-- mean +- standard error of the first's scores less the second's over common seeds, or nothing.
local function less(a, b)
  local difference, deviation, pairs_of = experiment.paired(a, b)
  return pairs_of > 0 and ("%.3f +- %.3f"):format(difference, deviation) or ""
end

local function table_of(write, runs)
  write("%-9s %6s  %-18s %4s  %7s %6s  %16s  %16s  %7s", "set", "memory", "method", "runs", "LML", "sd", "grs - it",
    "absolute - it", "clipped")
  for _, name in ipairs(names) do
    for _, memory in ipairs(memories) do
      local grs = by_seed(runs, { set = name, method = "grs", memory = memory })
      local absolute = by_seed(runs, { set = name, method = "grs_absolute", memory = memory })
      for _, method in ipairs(methods) do
        local values, list, clipped = by_seed(runs, { set = name, method = method, memory = memory })
        if #list > 0 then
          local mean, sd = experiment.moments(list)
          write("%-9s %6d  %-18s %4d  %7.3f %6.3f  %16s  %16s  %7.1f", name, memory, method, #list, mean, sd,
            method == "grs" and "" or less(grs, values), method == "grs_absolute" and "" or less(absolute, values),
            clipped)
        end
      end
    end
  end
end

local colours = { grs = "#c0392b", grs_k_center = "#a0721e", grs_refit = "#8e44ad", k_center = "#2255aa",
  random = "#3aa66b", grs_absolute = "#e377c2", grs_absolute_refit = "#7d5ba6", grs_centred = "#e08a1e",
  grs_centred_refit = "#555555" }
local labels = { grs = "GRS", grs_k_center = "GRS, k-center memory", grs_refit = "GRS, refit",
  k_center = "VCL k-center", random = "VCL random", grs_absolute = "absolute", grs_absolute_refit = "absolute, refit",
  grs_centred = "centred", grs_centred_refit = "centred, refit" }

local function over_memory(runs, name)
  local marks = { title = name .. ", last tenth", x_label = "memory", y_label = "test LML",
    x_range = { memories[1] - 5, memories[#memories] + 5 } }
  for m, method in ipairs(methods) do
    local at, mean, errors = {}, {}, {}
    for _, memory in ipairs(memories) do
      local _, list = by_seed(runs, { set = name, method = method, memory = memory })
      if #list > 0 then
        local value, _, e = experiment.moments(list)
        at[#at + 1], mean[#at + 1], errors[#at + 1] = memory + (m - 3) * 0.5, value, e
      end
    end
    if #at > 0 then
      marks[#marks + 1] = plot.line(at, mean, { colour = colours[method] })
      marks[#marks + 1] = plot.error_bars(at, mean, errors, { colour = colours[method] })
    end
  end
  return #marks > 0 and plot.panel(marks) or nil
end

-- After each step, the mean over runs.
local function over_time(runs, name, memory)
  local marks = { title = ("%s, memory %d"):format(name, memory), x_label = "step", y_label = "test LML",
    legend = "below" }
  for _, method in ipairs(methods) do
    local found = experiment.find(runs, { set = name, method = method, memory = memory })
    local at, mean = {}, {}
    for k = 1, found[1] and #(found[1].curve or {}) or 0 do -- a file of results may leave the curves out
      local sum = 0
      for _, record in ipairs(found) do sum = sum + record.curve[k] / #found end
      at[k], mean[k] = k - 1, sum
    end
    if #at > 0 then
      marks[#marks + 1] = plot.line(at, mean, { colour = colours[method], width = 1.5, label = labels[method] })
      marks.x_range = { 0, math.max(1, #at - 1) }
    end
  end
  return #marks > 0 and plot.panel(marks) or nil
end

local runs = experiment.runs { option = option, jobs = jobs(), run = run,
  order = { "set", "method", "memory", "seed", "size", "choice", "lml", "minutes" } }
table_of(experiment.report(option, "ablation"), runs)
local panels, columns = {}, 1 + #memories
for _, name in ipairs(names) do
  local row = { over_memory(runs, name) }
  for _, memory in ipairs(memories) do row[#row + 1] = over_time(runs, name, memory) end
  for _, panel in ipairs(row) do panels[#panels + 1] = panel end
end
if #panels > 0 then
  experiment.picture(option, "ablation", panels, { columns = math.min(columns, 3), size = { 480 * math.min(columns, 3),
    380 * math.ceil(#panels / math.min(columns, 3)) } })
end
