--- Flights seen by position alone (Bayer et al. 2021, section 5.2) on the surrogate UAV-S, whose exact likelihood and
--- optimal gaps are known (pn.gap.flights): a residual VSSM with full, semi (k = 7) and partial (k = 1) inference.
---
---     penumbra uav.lua --keep RUNS --results uav_runs.txt            30,000 updates, three seeds; goes on where it was
---     penumbra uav.lua --keep RUNS --results uav_runs.txt --updates 4000 --seeds 1 --count 10240
---     penumbra uav.lua --keep RUNS --results uav_runs.txt --show     table and pictures of what there is
---     penumbra uav.lua --quick                                       seconds
---
--- Settings are those of the document's tables C.2 (semi and partial) and C.3 (full); --setting semi takes C.2 for all,
--- full C.3. What the document leaves open stands in the table on this folder's page, with results. It writes uav.txt,
--- uav_predictions.svg (after the first 8 steps: median and 90 % of draws beside the flight) and uav_density.svg (the
--- density of the last position).
local here = arg[0]:gsub("[^/]*$", "")
local runs = dofile(here .. "vssm_runs.lua")
local pn = require "penumbra"
local experiment = runs.experiment

local option = experiment.options({ updates = 30000, seeds = 3, count = 10240, keep = "", results = "", part = "1/1",
  show = false, conditionings = "full,semi,partial", seconds = 1e9, prefix = 8, draws = 10, particles = 1000,
  clip = 10, test = 10240, setting = "own" },
  { updates = 4, seeds = 1, count = 64, test = 64, draws = 1, particles = 50, pictures = "svg" })

local world = pn.gap.flights {}
local function data_of(part)
  local count = part == 1 and option.count or option.test
  return (world:sample(count, { seed = 100 + part, dtype = "float32" }))
end

local function setting_of(kind) return runs.settings.uav[option.setting == "own" and kind or option.setting] end

local function new_model(kind, seed)
  pn.seed(1000 + seed)
  return runs.model(setting_of(kind), kind, { size = 3, mean = "first", noise = { 0.15, 0.15, 0.075 },
    num_particles = option.particles, dtype = "float32" })
end

local train, validation, test = data_of(1), data_of(2), data_of(3)
local exact = world:log_prob(test)

-- Density of the true last position after the first `prefix` steps, and coverage of 90 % bands.
local function predictions(model)
  local count = math.min(option.test, 100)
  local part = test:slice(2, 1, count)
  local belief = model:filter { y = part:slice(1, 1, option.prefix) }
  local ahead = world.steps - option.prefix
  local paths = model:forecast(belief, ahead, { draws = option.particles })
  local last = paths:select(2, ahead):contiguous()
  local density = pn.metrics.kernel_log_density(part[world.steps]:contiguous(), last):to "float64"
  local q = pn.metrics.quantiles(last, { 0.05, 0.95 })
  return { density = density:sum(-1):mean():item(), density_se = density:sum(-1):std():item() / math.sqrt(count),
    coverage = pn.metrics.interval_coverage(part[world.steps]:contiguous(), q[1], q[2]), ess =
      belief.state.effective_sample_size:min():item() }, paths, density
end

local function job_run(job)
  local model = new_model(job.kind, job.seed)
  local r = runs.fit(model, setting_of(job.kind), { train = { y = train }, validation = { y = validation },
    updates = job.updates, seed = job.seed, seconds = option.seconds, clip = option.clip,
    file = runs.file_of(option, { "uav", job.kind, job.setting, job.updates, job.count, job.seed }) })
  if not r.done then
    print(("stopped after %d updates; run again to go on"):format(r.updates))
    os.exit(0)
  end
  if option.keep ~= "" then
    assert(model:save(runs.file_of(option, { "uav_model", job.kind, job.setting, job.updates, job.count, job.seed })))
  end
  local bound, error, each = runs.elbo(model, { y = test }, option.draws)
  local missing = exact - each
  local iwae = model:bound({ y = test:slice(2, 1, math.min(option.test, 500)) }, { draws = option.draws * 10,
    batch_size = 5000 })
  local p = predictions(model)
  return { validation = r.validation, best_update = r.best_update, fit_minutes = r.fit_minutes, bound = bound,
    bound_se = error, missing = missing:mean():item(), missing_se = missing:std():item() / math.sqrt(option.test),
    iwae = iwae:mean():item(), density = p.density, density_se = p.density_se, coverage = p.coverage, ess = p.ess }
end

local jobs = {}
for seed = 1, option.seeds do
  for _, kind in ipairs(experiment.words(option.conditionings)) do
    jobs[#jobs + 1] = { kind = kind, seed = seed, updates = option.updates, count = option.count,
      setting = option.setting }
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = job_run, order = { "kind", "seed", "updates" } }

-- ---- what there is ----

-- The gap at the parameters that made the data, which training need not come to: others may have a smaller one. Of semi
-- inference where each z_t sees the first 7 steps, which is exact; of the document's, whose later states see
-- no more than those up to t, the gap is at least that.
local function gap_of(kind)
  return pn.gap.linear_gaussian(world.system, { steps = world.steps, first = "predicted", conditioning = kind,
    prefix = kind == "semi" and 7 or nil, hold = kind == "semi" or nil })
end

local report = experiment.report(option, "uav")
local likelihood = gap_of("full").log_likelihood:item()
report("flights: E log p(x) = %.4f nats a sequence; of the test set %.4f (se %.3f)", likelihood, exact:mean():item(),
  exact:std():item() / math.sqrt(option.test))
report("%-8s %5s %8s %10s %10s %8s %10s %10s %9s %9s %9s", "", "seed", "updates", "bound", "missing", "se", "at truth",
  "iwae", "density", "coverage", "minutes")
for _, kind in ipairs(experiment.words(option.conditionings)) do
  local optimal = ("%s%.3f"):format(kind == "semi" and ">" or "", gap_of(kind).gap:item())
  for _, r in ipairs(experiment.find(all, { kind = kind })) do
    report("%-8s %5d %8d %10.3f %10.3f %8.3f %10s %10.3f %9.3f %9.3f %9.1f", kind, r.seed, r.updates, r.bound,
      r.missing, r.missing_se, optimal, r.iwae, r.density, r.coverage, r.fit_minutes)
  end
end

local function picture()
  local band, dens = {}, {}
  local t = pn.arange(1, world.steps + 1)
  for _, kind in ipairs(experiment.words(option.conditionings)) do
    local saved = pn.restore(runs.file_of(option, { "uav_model", kind, option.setting, option.updates,
      option.count, 1 }))
    if saved then
      pn.seed(7)
      local _, paths, density = predictions(saved)
      local q = pn.metrics.quantiles(paths:select(3, 1):select(-1, 1):contiguous(), { 0.05, 0.5, 0.95 }):to "float64"
      local later = t:slice(1, option.prefix + 1, world.steps)
      band[#band + 1] = pn.plot.panel { title = kind, pn.plot.fan(later, q, { label = "90 % of draws" }),
        pn.plot.line(t, test:select(2, 1):select(2, 1):contiguous():to "float64", { label = "flight" }) }
      dens[#dens + 1] = pn.plot.histogram(density:sum(-1), { label = kind, density = true })
    end
  end
  if #band > 0 then
    experiment.picture(option, "uav_predictions", band)
    experiment.picture(option, "uav_density", pn.plot.panel(dens))
  end
end
if option.keep ~= "" then picture() end
