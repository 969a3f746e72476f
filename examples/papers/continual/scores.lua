--- What the three readings of the score (Kurle et al. 2020, equation 8) measure: on the first batch of tables of data
--- the rank correlation of the score as printed, its size and the centred one with the spread of the network's output
--- (what the datum may still say of the weights) and with the log density of the datum after it was learned; and what
--- the data that are kept have of both, by their mean rank, from 0 to 1.
---
---     penumbra scores.lua --data FOLDER --results runs.txt [--sets yacht,energy,boston,concrete] [--seeds 8]
---     penumbra scores.lua --results runs.txt --show
---
--- Noise, rate, activation and steps are those of uci_stream.lua. It writes scores.txt. Results are on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment, streams = dofile(here .. "/experiment.lua"), dofile(here .. "/streams.lua")

local option = experiment.options({ data = "", results = "", sets = "yacht,energy,boston,concrete", seeds = 8,
  first_seed = 1, size = "reduced", draws = 10, sites = 20000, first = 2000, later = 1000, predict = 500, lr = 0,
  noise = "", activation = "", prior_units = false, steps = 100000, show = false, part = "1/1", rows = 200 },
  { sets = "yacht", seeds = 1, draws = 2, sites = 100, first = 50, predict = 20, rows = 100 })
local folder = option.data ~= "" and option.data or false
if not folder and not option.show then print "no --data: rows are made up, which says nothing about the scores" end

local kinds = { "residual", "absolute", "centred" }

-- Ranks from 0 to 1 of a list; equal values, which numbers of these kinds have by chance alone, in any order.
local function ranks(list)
  local order, rank = {}, {}
  for k = 1, #list do order[k] = k end
  table.sort(order, function(a, b)
    if list[a] ~= list[b] then return list[a] < list[b] end
    return a < b
  end)
  for place, k in ipairs(order) do rank[k] = (place - 1) / (#list - 1) end
  return rank
end

-- The correlation of two lists of ranks, each of which has every rank once.
local function correlation(a, b)
  local squares, n = 0, #a
  for k = 1, n do squares = squares + ((a[k] - b[k]) * (n - 1)) ^ 2 end
  return 1 - 6 * squares / (n * (n ^ 2 - 1))
end

local function mean_at(ranks_of, places)
  local sum = 0
  for _, place in ipairs(places) do sum = sum + ranks_of[place + 1] / #places end
  return sum
end

local function run(job)
  local stream = streams.stream(job.set, { data = folder, seed = job.seed, rows = option.rows })
  local choice = experiment.choice(streams, job.set, option)
  local learner = experiment.learner(stream, { method = "none", memory = 0, seed = job.seed,
    size = experiment.size(streams, job.set, option), choice = choice })
  local x, y = streams.batch(stream, 1)
  local prior = learner.posterior
  learner:observe(x, y)
  local q = learner.projection
  local network = experiment.network(stream.inputs, stream.set.hidden, stream.outputs, choice.activation)
  local sites, terms = pn.continual.sites(network, x:to "float64", y:to "float64", { likelihood = "normal",
    noise_scale = choice.noise, posterior = q, draws = option.sites, antithetic = true,
    generator = pn.generator(job.seed) })
  sites = pn.continual.correct_bias(sites, prior, q)
  local spread = ranks(learner:predict(x).spread:reshape({ -1 }):totable())
  local density = ranks(learner:log_predictive(x, y):totable())
  local record = {}
  for _, kind in ipairs(kinds) do
    local scores = pn.continual.scores(sites, q, terms, { kind = kind })
    local kept, own = pn.continual.top(scores, stream.set.memory):totable(), ranks(scores:totable())
    record[kind] = { correlation(own, spread), correlation(own, density), mean_at(spread, kept),
      mean_at(density, kept) }
  end
  return record
end

local function jobs()
  local list = {}
  for seed = option.first_seed, option.seeds do
    for _, name in ipairs(experiment.words(option.sets)) do
      local size, choice = experiment.described(experiment.size(streams, name, option),
        experiment.choice(streams, name, option))
      list[#list + 1] = { set = name, seed = seed, size = size .. experiment.suffix(option), choice = choice }
    end
  end
  return list
end

-- mean +- standard error over runs of the k-th number of a score.
local function column(runs, kind, k)
  local list = {}
  for i, record in ipairs(runs) do list[i] = record[kind][k] end
  local mean, _, deviation = experiment.moments(list)
  return ("%.2f +- %.2f"):format(mean, deviation)
end

local runs = experiment.runs { option = option, jobs = jobs(), run = run, order = { "set", "seed", "size", "choice" } }
local write = experiment.report(option, "scores")
write("%-9s %-9s %4s  %14s  %14s  %14s  %14s", "set", "score", "runs", "with spread", "with density", "spread of kept",
  "density of kept")
for _, name in ipairs(experiment.words(option.sets)) do
  local found = experiment.find(runs, { set = name })
  for _, kind in ipairs(#found > 0 and kinds or {}) do
    write("%-9s %-9s %4d  %14s  %14s  %14s  %14s", name, kind, #found, column(found, kind, 1), column(found, kind, 2),
      column(found, kind, 3), column(found, kind, 4))
  end
end
