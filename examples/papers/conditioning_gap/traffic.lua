--- Days of traffic (Bayer et al. 2021, section 5.4) on the surrogate Traffic-S, whose exact likelihood and futures are
--- known (pn.gap.traffic_days), and on daily curves of a transformer's oil temperature (ETT): a residual VSSM with
--- full, semi (k = 7) and partial (k = 1) inference, settings of the document's tables E.2 to E.4.
---
---     penumbra traffic.lua --keep RUNS --results traffic_runs.txt                 150,000 updates, 181 and 10,000 days
---     penumbra traffic.lua --keep RUNS --results traffic_runs.txt --updates 10000 --days 10000
---     penumbra traffic.lua --data ETTh1.csv.gz --results traffic_runs.txt --days 0    curves of 24 hours
---     penumbra traffic.lua --keep RUNS --results traffic_runs.txt --show          table and picture of what there is
---     penumbra traffic.lua --quick                                                seconds
---
--- Speeds go in standardised by the training set; bounds are in nats a day of miles per hour (degrees). It writes
--- traffic.txt and traffic_futures.svg (after 12 half hours: draws beside those of the exact law).
local here = arg[0]:gsub("[^/]*$", "")
local runs = dofile(here .. "vssm_runs.lua")
local pn = require "penumbra"
local experiment = runs.experiment

local option = experiment.options({ updates = 150000, seeds = 1, days = "181,10000", keep = "", results = "",
  part = "1/1", show = false, conditionings = "full,semi,partial", seconds = 1e9, prefix = 12, draws = 10,
  particles = 1000, test = 2000, data = "" },
  { updates = 4, days = "32", test = 64, draws = 1, particles = 50 })

local world = pn.gap.traffic_days {}

-- Days of a file's last column, hour by hour, [24, days, 1]: the first three fifths, the next and the last.
local function curves()
  local x = assert(pn.data.csv(option.data, { columns = { -1 } })):reshape { -1 }
  local days = x:numel() // 24
  local y = x:slice(1, 1, days * 24):reshape { days, 24 }:t():unsqueeze(3):contiguous()
  local a, b = days * 3 // 5, days * 4 // 5
  return { y:slice(2, 1, a), y:slice(2, a + 1, b), y:slice(2, b + 1, days) }
end

-- {train, validation, test}, each [T, n, 1], standardised by the first's mean and deviation: second and third.
local function data_of(days)
  local parts = days > 0 and { (world:sample(days, { seed = 21 })), (world:sample(option.test, { seed = 22 })),
    (world:sample(option.test, { seed = 23 })) } or curves()
  local mean, sd = parts[1]:mean():item(), parts[1]:std():item()
  for k, x in ipairs(parts) do parts[k] = ((x - mean) / sd):to "float32" end
  return parts, mean, sd
end

-- Of the days of the test set after a beginning: continuous ranked probability score of all that follows, in units of
-- the data, and the density of the last number.
local function predictions(model, test, sd)
  local count, steps = math.min(test:size(2), 100), test:size(1)
  local part = test:slice(2, 1, count):contiguous()
  local belief = model:filter { y = part:slice(1, 1, option.prefix) }
  local paths = model:forecast(belief, steps - option.prefix, { draws = option.particles })
  local later = part:slice(1, option.prefix + 1, steps):contiguous()
  local density = pn.metrics.kernel_log_density(later, paths) - math.log(sd)
  return { crps = pn.metrics.crps(later, paths):mean():item() * sd, density = density:mean():item() }
end

local function job_run(job)
  local setting = runs.settings.traffic[job.kind]
  local parts, mean, sd = data_of(job.days)
  local T = parts[1]:size(1)
  pn.seed(2000 + job.seed)
  local model = runs.model(setting, job.kind, { size = 1, noise = setting.scale / sd, dtype = "float32",
    num_particles = option.particles })
  local r = runs.fit(model, setting, { train = { y = parts[1] }, validation = { y = parts[2] }, updates = job.updates,
    seed = job.seed, seconds = option.seconds,
    file = runs.file_of(option, { "traffic", job.kind, job.updates, job.days, job.seed }) })
  if not r.done then
    print(("stopped after %d updates; run again to go on"):format(r.updates))
    os.exit(0)
  end
  if option.keep ~= "" then
    assert(model:save(runs.file_of(option, { "traffic_model", job.kind, job.updates, job.days, job.seed })))
  end
  local bound, error, each = runs.elbo(model, { y = parts[3] }, option.draws)
  local result = { fit_minutes = r.fit_minutes, best_update = r.best_update, bound = bound - T * math.log(sd),
    bound_se = error, validation = r.validation - T * math.log(sd), test_days = parts[3]:size(2) }
  if job.days > 0 then
    local missing = world:log_prob(parts[3]:to "float64" * sd + mean) - (each - T * math.log(sd))
    result.missing, result.missing_se = missing:mean():item(), missing:std():item() / math.sqrt(missing:numel())
  end
  for name, value in pairs(predictions(model, parts[3], sd)) do result[name] = value end
  return result
end

local jobs = {}
for _, days in ipairs(experiment.words(option.days)) do
  for seed = 1, option.seeds do
    for _, kind in ipairs(experiment.words(option.conditionings)) do
      jobs[#jobs + 1] = { kind = kind, seed = seed, updates = option.updates, days = days }
    end
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = job_run, order = { "kind", "days", "seed" } }

-- ---- what there is ----

local report = experiment.report(option, "traffic")
report("%-8s %6s %5s %8s %8s %10s %8s %10s %8s %8s %9s", "", "days", "seed", "updates", "best at", "bound", "se",
  "missing", "se", "crps", "density")
for _, r in ipairs(all) do
  report("%-8s %6d %5d %8d %8d %10.3f %8.3f %10s %8s %8.3f %9.3f", r.kind, r.days, r.seed, r.updates, r.best_update,
    r.bound, r.bound_se, r.missing and ("%.3f"):format(r.missing) or "-",
    r.missing_se and ("%.3f"):format(r.missing_se) or "-", r.crps, r.density)
end

-- Draws of one day's rest by each model and by the exact law.
local function picture(days)
  local parts, mean, sd = data_of(days)
  local day = parts[3]:slice(2, 1, 1):contiguous()
  local beginning, panels = day:slice(1, 1, option.prefix), {}
  local t = pn.arange(option.prefix + 1, day:size(1) + 1)
  local function panel(title, draws)
    local lines = { title = title }
    for k = 1, 12 do
      lines[k] = pn.plot.line(t, draws[k]:reshape { -1 }:to "float64", { width = 0.6 })
    end
    panels[#panels + 1] = pn.plot.panel(lines)
  end
  panel("exact law", world:sample_after(beginning:to "float64" * sd + mean, 12, { generator = pn.generator(5) }))
  for _, kind in ipairs(experiment.words(option.conditionings)) do
    local m = pn.restore(runs.file_of(option, { "traffic_model", kind, option.updates, days, 1 }))
    if m then
      panel(kind, m:forecast({ y = beginning }, t:numel(), { draws = 12, generator = pn.generator(5) }) * sd + mean)
    end
  end
  experiment.picture(option, "traffic_futures", panels)
end

local longest = experiment.words(option.days)
longest = longest[#longest]
if option.keep ~= "" and longest > 0 then picture(longest) end
