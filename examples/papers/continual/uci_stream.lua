--- Learning tables of data batch by batch, with memories chosen in several ways (Kurle et al. 2020, section 6.1, table
--- 1, figures 4, 7 and 9): Gaussian residual scoring (grs) beside variational continual learning with k_center and
--- random memories, and no memory (none). A fifth of the rows is held out; a first batch, then small ones
--- (streams.lua); the mean log predictive density of the held-out rows after each step, and its mean over the last
--- tenth of the steps.
---
---     penumbra uci_stream.lua --data FOLDER --results runs.txt [--sets yacht,energy] [--seeds 16]
---     penumbra uci_stream.lua --data FOLDER --results runs.txt --memories all --sets energy,yacht --seeds 4
---     penumbra uci_stream.lua --data FOLDER --size document ...          the document's draws and steps
---     penumbra uci_stream.lua --data FOLDER --choose                     what the document leaves open
---     penumbra uci_stream.lua --data FOLDER --sets mnist --images 100    pictures of MNIST's memory of that size
---
--- A run that the file of results has is not made again; `--part 1/2` and `--part 2/2` share the runs between two
--- processes. Further options and their defaults stand in `option` below: draws, sites (draws for sites), first and
--- later (steps of the optimisation) are a reduced size; the document's, in streams.lua, is about 1000 times as much
--- work. It writes uci_stream.txt, a table with paired differences, and uci_stream.svg.
---
--- Noise, learning rate and activation are not in the document. --choose looks for them on the training rows of seed 0
--- alone, a fifth of which it holds out, one after the other: the mean score of the methods of table 1, so that no
--- method has a choice of its own.
---
--- RESULTS
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment, streams = dofile(here .. "/experiment.lua"), dofile(here .. "/streams.lua")
local plot = pn.plot

local option = experiment.options({ data = "", results = "", sets = "yacht,energy,boston,concrete",
  methods = "grs,k_center,random,none", seeds = 16, first_seed = 1, memories = "table", size = "reduced", draws = 10,
  sites = 5000, first = 2000, later = 500, lr = 0, noise = "", activation = "", steps = 100000, choose = false,
  images = 0, part = "1/1", rows = 200 },
  { sets = "yacht", seeds = 2, draws = 2, sites = 50, first = 50, later = 10, steps = 3, rows = 100 })
local folder = option.data ~= "" and option.data or false
if not folder then print "no --data: streams are made up, which says nothing about the methods" end

-- What --choose found, of the grid below.
local chosen = {
  concrete = { activation = "tanh", lr = 0.05, noise = 0.3 }, boston = { activation = "tanh", lr = 0.05, noise = 0.3 },
  energy = { activation = "tanh", lr = 0.05, noise = 0.1 }, yacht = { activation = "tanh", lr = 0.05, noise = 0.1 },
  spam = { activation = "tanh", lr = 0.05 }, wine = { activation = "tanh", lr = 0.05 },
  mnist = { activation = "tanh", lr = 0.05 },
}

local function choice_of(name, more)
  local choice = {}
  for key, value in pairs(chosen[name]) do choice[key] = value end
  choice.lr = option.lr > 0 and option.lr or choice.lr
  choice.activation = option.activation ~= "" and option.activation or choice.activation
  choice.noise = option.noise ~= "" and (tonumber(option.noise) or option.noise) or choice.noise
  for key, value in pairs(more or {}) do choice[key] = value end
  return choice
end

local function size_of(name)
  local d = streams.sets[name].document
  return option.size == "document" and { draws = d.draws, sites = d.sites, first = d.first, later = d.later }
    or { draws = option.draws, sites = option.sites, first = option.first, later = option.later }
end

local function size_text(size)
  return ("%d-%d-%d-%d"):format(size.draws, size.sites, size.first, size.later)
end

local function choice_text(name)
  local c = choice_of(name)
  return ("%s-%g-%s"):format(c.activation, c.lr, tostring(c.noise or ""))
end

-- ---- one run ----

local function draw_memory(k, learner)
  local x = learner.memory.x
  experiment.picture(option, ("mnist_memory_%d"):format(k), { plot.panel { title = ("memory after step %d"):format(k),
    plot.images(x:reshape { x:size(1), 28, 28 }, { columns = 20 }) } })
end

local function run(job)
  local stream = streams.stream(job.set, { data = folder, seed = job.seed, inner = job.inner, rows = option.rows })
  local learner = experiment.learner(stream, { method = job.method, memory = job.memory, seed = job.seed,
    size = size_of(job.set), choice = job.tried or choice_of(job.set) })
  local pictured = option.images > 0 and job.set == "mnist" and job.method == "grs"
  local result = experiment.follow(streams, stream, learner, { steps = option.steps, told = function(k)
    if pictured and (k - 1) % 25 == 0 and k > 1 and k <= 101 then draw_memory(k - 1, learner) end
  end })
  result.lml = experiment.last_mean(result.curve, 0.1)
  print(("%s %s, memory %d, seed %d: %.4f"):format(job.set, job.method, job.memory, job.seed, result.lml))
  return result
end

-- ---- what is open ----

local grid = { { "noise", { 0.05, 0.1, 0.2, 0.3, 0.5, "learned" } }, { "activation", { "tanh", "relu" } },
  { "lr", { 0.02, 0.05, 0.1 } } }

local function choose(name)
  local best, score = choice_of(name), nil
  for _, line in ipairs(grid) do
    local key, values = line[1], line[2]
    local usable = key ~= "noise" or streams.sets[name].likelihood == "gaussian"
    for _, value in ipairs(usable and values or {}) do
      local choice = choice_of(name, best)
      choice[key] = value
      if value ~= best[key] or not score then
        local sum, methods = 0, { "grs", "k_center", "random" }
        for _, method in ipairs(methods) do
          sum = sum + run({ set = name, method = method, memory = streams.sets[name].memory, seed = 0, inner = true,
            tried = choice }).lml / #methods
        end
        print(("choose %s %s = %s: %.4f"):format(name, key, value, sum))
        if not score or sum > score then best, score = choice, sum end
      end
    end
  end
  print(("choose %s: activation = %s, lr = %g, noise = %s: %.4f"):format(name, best.activation, best.lr,
    tostring(best.noise), score))
end

-- ---- many ----

local names, methods = experiment.words(option.sets), experiment.words(option.methods)

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
          if method ~= "none" or m == 1 then
            list[#list + 1] = { set = name, method = method, memory = method == "none" and 0 or memory, seed = seed,
              size = size_text(size_of(name)) .. (folder and "" or "-made-up"), choice = choice_text(name) }
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

local function by_seed(runs, job)
  local values, list = {}, {}
  for _, record in ipairs(experiment.find(runs, job)) do
    values[record.seed], list[#list + 1] = record.lml, record.lml
  end
  return values, list
end

-- A line for each method: mean, standard deviation, the document's, and grs minus it over common seeds.
local function table_of(write, runs)
  write("set       memory  method         runs     LML      sd   document   grs - it  +- se")
  for _, name in ipairs(names) do
    for _, memory in ipairs(memories_of(name)) do
      local grs = by_seed(runs, { set = name, method = "grs", memory = memory })
      for _, method in ipairs(methods) do
        local own = method == "none" and 0 or memory
        local values, list = by_seed(runs, { set = name, method = method, memory = own })
        if #list > 0 then
          local mean, sd = experiment.moments(list)
          local told = folder and memory == streams.sets[name].memory and document[name][method]
          local difference, deviation, pairs_of = experiment.paired(grs, values)
          write("%-9s %6d  %-13s %5d  %7.4f  %6.4f   %8s   %s", name, own, method, #list, mean, sd,
            told and ("%.3f"):format(told) or "", method ~= "grs" and pairs_of > 0
            and ("%8.4f %8.4f"):format(difference, deviation) or "")
        end
      end
    end
  end
end

local colours = { grs = "#c0392b", k_center = "#2255aa", random = "#3aa66b", none = "#555555" }
local labels = { grs = "GRS", k_center = "k-center", random = "random", none = "no memory" }

-- LML after each step, the mean over runs, a band of two standard errors.
local function over_time(runs, name, memory)
  local marks = { title = ("%s, memory %d"):format(name, memory), x_label = "step", y_label = "test LML",
    legend = "bottom right" }
  for _, method in ipairs(methods) do
    local found = experiment.find(runs, { set = name, method = method, memory = method == "none" and 0 or memory })
    local at, mean, low, high = {}, {}, {}, {}
    for k = 1, found[1] and #found[1].curve or 0 do
      local values = {}
      for _, record in ipairs(found) do values[#values + 1] = record.curve[k] end
      local m, _, e = experiment.moments(values)
      at[k], mean[k], low[k], high[k] = k - 1, m, m - 2 * e, m + 2 * e
    end
    if #at > 0 then
      local colour = colours[method]
      marks[#marks + 1] = plot.band(at, low, high, { colour = colour, opacity = 0.12 })
      marks[#marks + 1] = plot.line(at, mean, { colour = colour, label = labels[method] })
    end
  end
  return plot.panel(marks)
end

local function over_memory(runs, name)
  local marks = { title = name, x_label = "memory", y_label = "test LML, last tenth", legend = "bottom right" }
  for m, method in ipairs(methods) do
    local at, mean, errors = {}, {}, {}
    for _, memory in ipairs(memories_of(name)) do
      local _, list = by_seed(runs, { set = name, method = method, memory = method == "none" and 0 or memory })
      if #list > 0 then
        local value, _, e = experiment.moments(list)
        at[#at + 1], mean[#at + 1], errors[#at + 1] = memory + (m - 2) * 0.15, value, e
      end
    end
    if #at > 0 then
      marks[#marks + 1] = plot.line(at, mean, { colour = colours[method], label = labels[method] })
      marks[#marks + 1] = plot.error_bars(at, mean, errors, { colour = colours[method] })
    end
  end
  return plot.panel(marks)
end

local function pictures(runs)
  local panels = {}
  for _, name in ipairs(names) do
    local list = memories_of(name)
    if #experiment.find(runs, { set = name }) > 0 then
      panels[#panels + 1] = over_time(runs, name, list[(#list + 1) // 2])
      panels[#panels + 1] = #list > 1 and over_memory(runs, name) or nil
    end
  end
  experiment.picture(option, "uci_stream", panels, { columns = math.min(2, #panels) })
end

if option.choose then
  for _, name in ipairs(names) do choose(name) end
else
  local path = option.results ~= "" and option.results or os.tmpname()
  local runs = experiment.runs { results = path, jobs = jobs(), part = option.part, run = run,
    order = { "set", "method", "memory", "seed", "size", "choice", "lml", "minutes" } }
  if option.results == "" then os.remove(path) end
  table_of(experiment.report(option, "uci_stream"), runs)
  pictures(runs)
end
