--- Test error against the number of labels by what asks for them (Haussmann 2021, table 4.1, figure 4.3): 50 random
--- labels, 5 more a round, 30 epochs after each in minibatches of 10 from where the network stands.
---
---     penumbra examples/papers/ral/curves.lua --data FOLDER        FOLDER holds train-images-idx3-ubyte.gz ...
---     penumbra examples/papers/ral/curves.lua --quick              seconds, on generated images
---
--- Runs are kept in curves.runs, one a line, and made once: stopped, the same command goes on. --labels 400 --tested
--- 10000 --candidates 10000 --seeds 1,2,3,4,5 is the document's size, about 15 minutes a run. What was run, at which
--- size, and what came out: README.md beside this file.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local labelling = dofile(here .. "/labelling.lua")

local option = experiment.options({ data = "", set = "generated", acquisitions = "random,entropy,bald,thinned,reinforced",
  seeds = "1,2,3", network = "lenet", kind = "clt", labels = 400, first = 50, count = 5, epochs = 30, batch = 10,
  lr = 1e-4, precision = 10, candidates = 10000, tested = 10000, every = 2, results = "curves.runs", part = "1/1",
  show = false, name = "curves" },
  { acquisitions = "random,entropy,reinforced", seeds = "1", network = "dense", labels = 30, first = 20, epochs = 2,
    candidates = 200, results = "", every = 1, lr = 1e-3 })

local SETTINGS <const> = { "network", "kind", "labels", "first", "count", "epochs", "batch", "lr", "precision",
  "candidates", "tested", "every" }

local jobs = {}
for _, seed in ipairs(experiment.words(option.seeds)) do
  for _, name in ipairs(experiment.words(option.acquisitions)) do
    local job = { set = option.set, acquisition = name, seed = seed }
    for _, key in ipairs(SETTINGS) do job[key] = option[key] end
    jobs[#jobs + 1] = job
  end
end

local data
local runs = experiment.runs { option = option, jobs = jobs, order = { "set", "acquisition", "seed", "average", "final" },
  run = function(job)
    data = data or { labelling.data(option) }
    local record = labelling.run(job.acquisition, job.seed, job, data)
    print(("%s, seed %d: average error %.2f %%, final %.2f %%"):format(job.acquisition, job.seed, record.average,
      record.final))
    return record
  end }

-- ---- the table ----

local write = experiment.report(option, option.name)

-- Runs of an acquisition: lists by what, and by seed.
local function of(name)
  local found = { average = {}, final = {}, curves = {}, counts = nil }
  for _, r in ipairs(experiment.find(runs, { acquisition = name })) do
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

local base = of "random"
write("%s, %s %s, %d to %d labels, test error in per cent; differences to random paired by seed, +- standard error",
  option.set, option.network, option.kind, option.first, option.labels)
write("%-20s %5s  %-16s %-16s %-18s %-18s", "acquisition", "runs", "average", "final", "average - random",
  "final - random")
local panels = { title = option.set, x_label = "labels", y_label = "test error, per cent", size = { 680, 430 } }
local colours = { "#555555", "#2f6db3", "#c2572b", "#3c8d40", "#8a4fa3", "#b8860b", "#1b9e9e", "#d04f8a", "#6b6b00" }
for k, name in ipairs(experiment.words(option.acquisitions)) do
  local mine = of(name)
  local n = #mine.curves
  if n > 0 then
    local a, a_sd = experiment.moments(list_of(mine.average))
    local f, f_sd = experiment.moments(list_of(mine.final))
    local da, da_se = experiment.paired(mine.average, base.average)
    local df, df_se = experiment.paired(mine.final, base.final)
    write("%-20s %5d  %6.2f +- %-6.2f %6.2f +- %-6.2f %7.2f +- %-7.2f %7.2f +- %-7.2f", name, n, a, a_sd, f, f_sd, da,
      da_se, df, df_se)
    local curves = pn.tensor(mine.curves)
    local mean, sd, x = curves:mean(1), n > 1 and curves:std(1) or curves:mean(1) * 0, pn.tensor(mine.counts)
    local colour = colours[(k - 1) % #colours + 1]
    panels[#panels + 1] = pn.plot.band(x, mean - sd, mean + sd, { colour = colour, opacity = 0.12 })
    panels[#panels + 1] = pn.plot.line(x, mean, { colour = colour, label = name })
  end
end
if #panels > 0 then experiment.picture(option, option.name, panels) end
