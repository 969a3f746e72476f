--- Streams whose law changes (Kurle et al. 2020, section 6.2 and appendix A.2, figures 6 and 10): what a Bayesian
--- network that forgets gains over one that does not. Weather, Gas and Covertype in the order of their files; online
--- variational Bayes (none), a Wiener process, whose parameter is a rate (wiener) or a rate of variance
--- (wiener_variance), an Ornstein-Uhlenbeck process (ornstein_uhlenbeck) and Bayesian forgetting, each over values of
--- its parameter, and Bayesian forgetting at one rate with memories of several sizes by the score as printed, its size
--- and the centred one (memory, memory_absolute, memory_centred). The score: the mean log predictive density of each
--- batch under the posterior of the step before, before it forgets, by 500 draws; averaged over the last half.
---
---     penumbra drift.lua --data FOLDER --results runs.txt [--sets weather,gas,covertype] [--values 5] [--runs 3]
---     penumbra drift.lua --data FOLDER --size document --values 10 --memories 10 --runs 8        the document's
---     penumbra drift.lua --data FOLDER --choose [--try_lr 0.01,0.05] [--try_draws 2,4 --try_steps 100,200]
---     penumbra drift.lua --data FOLDER --results runs.txt --sets gas --mixed                 see README.md
---     penumbra drift.lua --data FOLDER --results runs.txt --show                 tables and pictures of what there is
---
--- A run that the file of results has is not made again; `--part 1/2` and `--part 2/2` share the runs between two
--- processes. Values are equally spaced from 0 to the end of the document's axis (`ends` below; that of Weather's
--- forgetting rate is not readable, 0.04 here), times --reach, or --shares 0,0.5,1 of it; those at 0 are online
--- variational Bayes, and a memory of 0 is forgetting alone. A memory goes with the document's rates. Sizes of batches,
--- networks and memories are those of its table 2 (streams.lua); its draws and steps, --size document, are 600 to 5000
--- times the work of `reduced`. Rate, draws and steps are by --choose on the first quarter of the steps. It writes
--- drift.txt, with two lines of no network (frequencies of the classes so far and of the batch before), drift.svg
--- (scores over parameters) and drift_time.svg (the best of each method by time). Without --data streams are made up.
--- Results, and what the document leaves open, are on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment, streams = dofile(here .. "/experiment.lua"), dofile(here .. "/streams.lua")
local plot = pn.plot

local option = experiment.options({ data = "", results = "", sets = "weather,gas,covertype", values = 5, memories = 5,
  shares = "", reach = 1, runs = 3, first_run = 1, size = "reduced",
  methods = "wiener,wiener_variance,ornstein_uhlenbeck,bayesian_forgetting,memory,memory_absolute,memory_centred",
  try_draws = "", try_first = "", try_steps = "", try_lr = "0.005,0.01,0.02,0.05,0.1",
  try_methods = "none,memory,memory_absolute", choose = false, show = false, mixed = false, activation = "tanh", lr = 0,
  dtype = "float32", steps = 100000, part = "1/1",
  rows = 400 },
  { sets = "weather", values = 2, memories = 2, runs = 1, steps = 5, rows = 100 })
local folder = option.data ~= "" and option.data or false
if not (folder or option.show) then print "no --data: streams are made up, which says nothing about the document's" end
pn.threads(1)

-- ---- what is swept ----

-- Where the axes of the document's figures 6 and 10 end, and the rate that goes with a memory.
local ends = {
  weather = { wiener = 2.5e-3, ornstein_uhlenbeck = 2e-3, bayesian_forgetting = 0.04, with_memory = 0.031 },
  gas = { wiener = 2.5e-3, ornstein_uhlenbeck = 2e-3, bayesian_forgetting = 0.02, with_memory = 0.0095 },
  covertype = { wiener = 2.5e-2, ornstein_uhlenbeck = 4e-2, bayesian_forgetting = 0.15, with_memory = 0.11 },
}
for _, e in pairs(ends) do e.wiener_variance = e.wiener end -- the same axis, read as sigma_diff^2 / sigma_0^2

-- What --choose found enough of: draws and steps of the optimisation, and draws for sites; and rates, those of Weather
-- and Gas chosen by it.
local reduced = {
  weather = { draws = 2, sites = 1000, first = 1000, later = 100, lr = 0.005 },
  gas = { draws = 8, sites = 1000, first = 500, later = 400, lr = 0.02 },
  covertype = { draws = 4, sites = 1000, first = 1000, later = 240, lr = 0.05 },
}

local laws = {
  none = function() end,
  wiener = function(v) return pn.continual.wiener { rate = v } end,
  wiener_variance = function(v) return pn.continual.wiener { variance_rate = v } end,
  ornstein_uhlenbeck = function(v) return pn.continual.ornstein_uhlenbeck { stiffness = v } end,
  bayesian_forgetting = function(v) return pn.continual.bayesian_forgetting { rate = v } end,
}

-- Methods with a memory: whose memory, in experiment.methods.
local memories = { memory = "grs", memory_absolute = "grs_absolute", memory_centred = "grs_centred" }
for name in pairs(memories) do laws[name] = laws.bayesian_forgetting end

local function size_of(name)
  if option.quick then return { draws = 1, sites = 20, first = 10, later = 5, predict = 20 } end
  local d = streams.sets[name].document
  return option.size == "document" and { draws = d.draws, sites = d.sites, first = d.first, later = d.later }
    or reduced[name]
end

local function mixed(name)
  return option.mixed and name == "gas" and "-mixed" or ""
end

local function size_text(name, size)
  size = size or size_of(name)
  return ("%d-%d-%d-%d%s%s"):format(size.draws, size.sites, size.first, size.later, experiment.suffix(option),
    mixed(name))
end

-- ---- one run ----

local gas_batches = { 445, 1244, 1586, 161, 197, 2300, 294, 470 }

local cache = {}

local function stream_of(name)
  if cache[name] then return cache[name] end
  local s = streams.stream(name, { data = folder, rows = option.rows })
  if option.mixed and name == "gas" and folder then
    local g, places, from = pn.generator(9), {}, 0
    for k, rows in ipairs(gas_batches) do
      places[k], from = pn.randperm(rows, { generator = g }) + from, from + rows
    end
    local order = pn.concatenate(places, 1)
    s.x, s.y = s.x:take(1, order), s.y:take(1, order)
  end
  s.x = s.x:to(option.dtype)
  cache[name] = s
  return s
end

local function rate_of(name)
  return option.lr > 0 and option.lr or reduced[name].lr
end

local function learner_of(job, size, lr)
  return experiment.learner(stream_of(job.set), { method = memories[job.method] or "none", memory = job.memory,
    seed = job.run, size = size, forget = laws[job.method](job.value),
    choice = { activation = option.activation, lr = lr } })
end

-- A run of the job; size, rate and number of steps but for those of the options.
local function run(job, size, lr, most)
  local stream, precision, mean, steps = stream_of(job.set), 0, 0, 0
  local learner = learner_of(job, size or size_of(job.set), lr or rate_of(job.set))
  local result = experiment.follow(streams, stream, learner, { steps = most or option.steps,
    told = function(_, _, report)
      if report.bias then
        steps, precision, mean = steps + 1, precision + report.bias.precision, mean + report.bias.mean
      end
    end })
  result.lml, result.curve, result.noise = experiment.last_mean(result.ahead, 0.5), nil, nil
  result.bias_precision, result.bias_mean = precision / math.max(1, steps), mean / math.max(1, steps)
  print(("%s %s %g, memory %d, run %d: %.4f"):format(job.set, job.method, job.value, job.memory, job.run, result.lml))
  return result
end

-- Mean log probability of each batch by the frequencies of classes: of all rows before, and of the batch before, each
-- with one row more of every class.
local function by_frequencies(s)
  local all, last, of_all, of_last = {}, {}, {}, {}
  local classes = s.y:max():item() + 1
  for c = 0, classes - 1 do all[c], last[c] = 1, 1 end
  for k = 1, math.min(s.num_steps, option.steps) do
    local _, y = streams.batch(s, k)
    local n, sum_all, sum_last, score_all, score_last, now = y:numel(), 0, 0, 0, 0, {}
    for c = 0, classes - 1 do
      sum_all, sum_last, now[c] = sum_all + all[c], sum_last + last[c], 1
    end
    for _, c in ipairs(y:totable()) do
      score_all, score_last = score_all + math.log(all[c] / sum_all), score_last + math.log(last[c] / sum_last)
      now[c] = now[c] + 1
    end
    of_all[k], of_last[k] = score_all / n, score_last / n
    for c = 0, classes - 1 do all[c], last[c] = all[c] + now[c] - 1, now[c] end
  end
  return of_all, of_last
end

-- Their record.
local function frequencies(name)
  local all, last = by_frequencies(stream_of(name))
  return { lml = experiment.last_mean(all, 0.5), last = experiment.last_mean(last, 0.5) }
end

-- ---- draws and steps, by the first quarter of a stream, which no score counts ----

local function choice_text(lr)
  return ("%s-%g-%s"):format(option.activation, lr, option.dtype)
end

local order = { "set", "method", "value", "memory", "run", "size", "choice", "lml", "minutes" }

local function try(name, method, size, lr)
  local memory = memories[method]
  local job = { set = name, method = method, value = memory and ends[name].with_memory or 0,
    memory = memory and streams.sets[name].memory or 0, run = 1, part = "quarter", size = size_text(name, size),
    choice = choice_text(lr) }
  local found = experiment.runs { option = option, jobs = { job }, order = order, run = function(own)
    local result = run(own, size, lr, math.max(2, math.min(20, stream_of(name).num_steps // 4)))
    table.remove(result.ahead, 1)
    result.lml = experiment.last_mean(result.ahead, 1)
    return result
  end }[1]
  if found then
    print(("choose %-9s %-15s rate %g, draws %2d, steps %4d and %4d: LML ahead %.4f, bias %.3f"):format(name, method,
      lr, size.draws, size.first, size.later, found.lml, math.max(found.bias_precision, found.bias_mean)))
  end
  return found and found.lml or -math.huge
end

-- Calls f(words) for the words of a text, or for the other value where it is "".
local function tried(text, other)
  local list = experiment.words(text)
  return ipairs(#list > 0 and list or { other })
end

local function choose(name)
  local own, best, score = reduced[name], nil, -math.huge
  local given = experiment.words(option.try_methods)
  for _, lr in tried(option.try_lr, rate_of(name)) do
    for _, draws in tried(option.try_draws, own.draws) do
      for _, first in tried(option.try_first, own.first) do
        for _, later in tried(option.try_steps, own.later) do
          local sum, size = 0, { draws = draws, sites = 1000, first = first, later = later }
          for _, method in ipairs(given) do sum = sum + try(name, method, size, lr) / #given end
          local text = ("rate %g, draws %d, steps %d and %d"):format(lr, draws, first, later)
          if sum > score then best, score = text, sum end
        end
      end
    end
  end
  if best then print(("chosen of %s: %s: %.4f"):format(name, best, score)) end
end

-- ---- many ----

local names, methods = experiment.words(option.sets), experiment.words(option.methods)

-- Of the largest value, from 0 to 1.
local function shares_of(count)
  local list = experiment.words(option.shares)
  for k = 0, #list == 0 and count - 1 or -1 do list[k + 1] = k / math.max(1, count - 1) end
  return list
end

-- The points of a method: {method =, value =, memory =} from 0 on, and what they are plotted over.
local function points_of(name, method)
  local list, memory = {}, memories[method]
  local largest = memory and streams.sets[name].memory or ends[name][method] * option.reach
  for k, share in ipairs(shares_of(memory and option.memories or option.values)) do
    local at = largest * share
    list[k] = { at = at, point = memory and { method = share > 0 and method or "bayesian_forgetting",
      value = ends[name].with_memory, memory = math.floor(at + 0.5) }
      or { method = share > 0 and method or "none", value = at, memory = 0 } }
  end
  return list
end

local function job_of(name, point, index)
  return { set = name, method = point.method, value = point.value, memory = point.memory, run = index,
    size = size_text(name), choice = choice_text(rate_of(name)) }
end

local function key_of(job)
  return ("%s %s %.6g %d"):format(job.set, job.method, job.value, job.memory)
end

local function jobs()
  local list, seen = {}, {}
  for index = option.first_run, option.runs do
    for _, name in ipairs(names) do
      for _, method in ipairs(methods) do
        for _, p in ipairs(points_of(name, method)) do
          local job = job_of(name, p.point, index)
          local key = key_of(job) .. " " .. index
          list[#list + 1] = not seen[key] and job or nil
          seen[key] = true
        end
      end
      list[#list + 1] = index == option.first_run and { set = name, method = "frequencies", value = 0, memory = 0,
        run = 0, size = "0" .. experiment.suffix(option) .. mixed(name), choice = "" } or nil
    end
  end
  return list
end

-- ---- tables ----

-- All runs by point: {at run = LML}, and the records.
local function gathered(runs)
  local by_point = {}
  for _, record in ipairs(runs) do
    local key = key_of(record)
    by_point[key] = by_point[key] or { lml = {}, list = {}, records = {} }
    local p = by_point[key]
    p.lml[record.run], p.list[#p.list + 1], p.records[#p.records + 1] = record.lml, record.lml, record
  end
  return by_point
end

local function at_point(by_point, name, point)
  return by_point[key_of { set = name, method = point.method, value = point.value, memory = point.memory }]
end

local function line_of(write, name, method, point, found, reference)
  local mean, sd = experiment.moments(found.list)
  local bias, clipped, compared = 0, 0, ""
  for _, record in ipairs(found.records) do
    bias = math.max(bias, record.bias_precision, record.bias_mean)
    clipped = clipped + record.clipped / #found.records
  end
  if reference and reference ~= found then
    local difference, deviation, pairs_of = experiment.paired(found.lml, reference.lml)
    compared = pairs_of > 0 and ("%8.4f %7s"):format(difference, pairs_of > 1 and ("%.4f"):format(deviation) or "")
      or ""
  end
  write("%-10s %-20s %8.5g %6d %5d  %8.4f %7.4f  %16s  %s", name, method, point.value, point.memory, #found.list, mean,
    sd, compared, point.memory > 0 and ("%6.3f %7.1f"):format(bias, clipped) or "")
end

-- The point of a method of the largest mean, not counting that at 0; nil without runs.
local function best_of(by_point, name, method)
  local best, score
  for _, p in ipairs(points_of(name, method)) do
    local found = p.at > 0 and at_point(by_point, name, p.point)
    local mean = found and experiment.moments(found.list)
    if mean and (not score or mean > score) then best, score = p.point, mean end
  end
  return best
end

local function claim(write, name, by_point, title, a, b)
  local one, other = a and at_point(by_point, name, a), b and at_point(by_point, name, b)
  if not one or not other then return end
  local difference, deviation, pairs_of = experiment.paired(one.lml, other.lml)
  if pairs_of > 0 then
    write("%-10s %-58s %8.4f%s", name, title, difference, pairs_of > 1
      and (" +- %.4f (%d runs)"):format(deviation, pairs_of) or " (1 run)")
  end
end

local short = { wiener = "Wiener", wiener_variance = "Wiener, variance", ornstein_uhlenbeck = "OU",
  bayesian_forgetting = "forgetting", memory = "memory", memory_absolute = "memory, absolute",
  memory_centred = "memory, centred", none = "online VB" }

local function table_of(write, by_point)
  write("%-10s %-20s %8s %6s %5s  %8s %7s  %16s  %6s %7s", "set", "method", "value", "memory", "runs", "LML", "sd",
    "- online VB   se", "bias", "clipped")
  for _, name in ipairs(names) do
    local none, seen = { method = "none", value = 0, memory = 0 }, {}
    local reference = at_point(by_point, name, none)
    for _, method in ipairs(methods) do
      for _, p in ipairs(points_of(name, method)) do
        local found = at_point(by_point, name, p.point)
        if found and not seen[found] then
          line_of(write, name, p.point.method, p.point, found, reference)
          seen[found] = true
        end
      end
    end
    local found = at_point(by_point, name, { method = "frequencies", value = 0, memory = 0 })
    if found then
      write("%-10s %-42s %8.4f\n%-10s %-42s %8.4f", name, "frequencies of classes so far", found.records[1].lml, name,
        "frequencies of the batch before", found.records[1].last)
    end
  end
  write("\nthe best value of each method, which the same scores choose; differences of runs with the same seed")
  for _, name in ipairs(names) do
    local none = { method = "none", value = 0, memory = 0 }
    local alone = { method = "bayesian_forgetting", value = ends[name].with_memory, memory = 0 }
    for _, method in ipairs(methods) do
      local best = best_of(by_point, name, method)
      if best then
        claim(write, name, by_point, ("%s (%s) - online VB"):format(short[method], memories[method]
          and best.memory or ("%.4g"):format(best.value)), best, none)
      end
    end
    claim(write, name, by_point, "best OU - best forgetting", best_of(by_point, name, "ornstein_uhlenbeck"),
      best_of(by_point, name, "bayesian_forgetting"))
    for _, method in ipairs(methods) do
      for k, p in ipairs(memories[method] and points_of(name, method) or {}) do
        if k > 1 then
          claim(write, name, by_point, ("%s of %d - forgetting at its rate"):format(short[method], p.point.memory),
            p.point, alone)
        end
      end
      if memories[method] then
        claim(write, name, by_point, ("best %s - best OU"):format(short[method]), best_of(by_point, name, method),
          best_of(by_point, name, "ornstein_uhlenbeck"))
      end
    end
  end
end

-- ---- pictures ----

local axis = { wiener = "diffusion rate, thousandths", wiener_variance = "variance rate, thousandths",
  ornstein_uhlenbeck = "stiffness, thousandths", bayesian_forgetting = "forgetting rate, thousandths",
  memory = "memory size", memory_absolute = "memory size", memory_centred = "memory size" }
local titles = { wiener = "Wiener process", wiener_variance = "Wiener, of variance",
  ornstein_uhlenbeck = "Ornstein-Uhlenbeck", bayesian_forgetting = "forgetting", memory = "memory, printed",
  memory_absolute = "memory, absolute", memory_centred = "memory, centred" }
local colours = { wiener = "#3aa66b", wiener_variance = "#1b6e42", ornstein_uhlenbeck = "#2255aa",
  bayesian_forgetting = "#c0392b", memory = "#8e44ad", memory_absolute = "#e377c2", memory_centred = "#d98e2b",
  none = "#555555" }

-- Scores of a method over its points, with one standard deviation, and that of online variational Bayes, dashed; all
-- methods of a set on one scale.
local function over_points(by_point, name)
  local panels, low, high = {}, math.huge, -math.huge
  for m, method in ipairs(methods) do
    local at, mean, spread = {}, {}, {}
    for _, p in ipairs(points_of(name, method)) do
      local found = at_point(by_point, name, p.point)
      if found then
        local value, sd = experiment.moments(found.list)
        at[#at + 1], mean[#mean + 1], spread[#spread + 1] = memories[method] and p.at or 1000 * p.at, value, sd
        low, high = math.min(low, value - sd), math.max(high, value + sd)
      end
    end
    local largest = memories[method] and streams.sets[name].memory or 1000 * ends[name][method] * option.reach
    panels[m] = { title = ("%s: %s"):format(name, titles[method]), x_label = axis[method], x_range = { 0, largest },
      y_label = m == 1 and "LML ahead" or nil,
      #at > 0 and plot.line(at, mean, { colour = colours[method] }) or nil }
    panels[m][2] = #at > 0 and plot.error_bars(at, mean, spread, { colour = colours[method] }) or nil
    local none = at_point(by_point, name, { method = "none", value = 0, memory = 0 })
    if none and #at > 0 then
      local level = experiment.moments(none.list)
      panels[m][3] = plot.line({ 0, largest }, { level, level }, { colour = colours.none, dashed = true })
    end
  end
  local margin = 0.05 * (high - low) + 1e-9
  local drawn = {}
  for _, panel in ipairs(panels) do
    panel.y_range = { low - margin, high + margin }
    drawn[#drawn + 1] = #panel > 0 and plot.panel(panel) or nil
  end
  return drawn
end

-- The mean over runs, and of `width` steps around each.
local function smooth(records, width)
  local at, out, n = {}, {}, #records[1].ahead
  for k = 2, n do
    local sum, count = 0, 0
    for j = math.max(2, k - width // 2), math.min(n, k + width // 2) do
      for _, record in ipairs(records) do sum, count = sum + record.ahead[j], count + 1 end
    end
    at[k - 1], out[k - 1] = k - 1, sum / count
  end
  return at, out
end

-- The best of each method with online variational Bayes first: {method, records, label}.
local function compared(by_point, name)
  local none = { method = "none", value = 0, memory = 0 }
  local list, points = {}, { { "none", none } }
  for _, method in ipairs(methods) do points[#points + 1] = { method, best_of(by_point, name, method) } end
  for _, item in ipairs(points) do
    local method, point = item[1], item[2]
    local found = point and at_point(by_point, name, point)
    list[#list + 1] = found and { method = method, records = found.records, label = method == "none" and short.none
      or ("%s %.4g"):format(short[method], memories[method] and point.memory or point.value) } or nil
  end
  return list
end

-- LML of each batch, and the sum of what each method had more than online variational Bayes until then.
local function over_time(by_point, name)
  local list, n = compared(by_point, name), 1
  for _, item in ipairs(list) do
    if not item.records[1].ahead then return end -- a file of results may leave the curves out
    n = #item.records[1].ahead
  end
  local width = math.max(1, n // 20)
  local left = { title = width > 1 and ("%s: mean of %d steps"):format(name, width // 2 * 2 + 1) or name,
    legend = "below", x_label = "step", y_label = "LML ahead", x_range = { 0, n } }
  local right = { title = name .. ": gained over online VB, summed", x_label = "step", x_range = { 0, n } }
  local base, base_line
  for _, item in ipairs(list) do
    local at, mean = smooth(item.records, width)
    local colour, is_base = colours[item.method], item.method == "none"
    local line = plot.line(at, mean, { colour = colour, width = 1.5, label = item.label, dashed = is_base })
    local _, each = smooth(item.records, 1)
    if is_base then
      base, base_line = each, line
    else
      left[#left + 1] = line
    end
    if base and not is_base then
      local sum, sums = 0, {}
      for k = 1, #each do
        sum = sum + each[k] - base[k]
        sums[k] = sum
      end
      right[#right + 1] = plot.line(at, sums, { colour = colour, width = 1.5 })
    end
  end
  left[#left + 1] = base_line -- above the others, the nearest of which it hides otherwise
  return #left > 0 and plot.panel(left) or nil, #right > 0 and plot.panel(right) or nil
end

local function pictures(by_point)
  local sweeps, times = {}, {}
  for _, name in ipairs(names) do
    for _, panel in ipairs(over_points(by_point, name)) do sweeps[#sweeps + 1] = panel end
    local left, right = over_time(by_point, name)
    times[#times + 1] = left
    times[#times + 1] = right
  end
  if #sweeps > 0 then
    local columns = math.min(#methods, 4)
    experiment.picture(option, "drift", sweeps, { columns = columns, size = { 350 * columns, 300 * math.ceil(#sweeps
      / columns) } })
  end
  if #times > 0 then
    experiment.picture(option, "drift_time", times, { columns = math.min(2, #times),
      size = { 1300, 330 * math.ceil(#times / 2) } })
  end
end

if option.choose then
  for _, name in ipairs(names) do choose(name) end
else
  local runs = experiment.runs { option = option, jobs = jobs(), order = order, run = function(job)
    return job.method == "frequencies" and frequencies(job.set) or run(job)
  end }
  local by_point = gathered(runs)
  table_of(experiment.report(option, "drift"), by_point)
  pictures(by_point)
end
