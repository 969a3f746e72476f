--- Lorenz's attractor with noise, of which one equation is known, its parameter off by N(0, off^2) (Haussmann 2021,
--- 6.4.2, table 6.1, figures 6.4 to 6.9): E-Bayes, E-PAC-Bayes and their hybrids, and the prior SDE with all equations.
---
---     penumbra lorenz.lua [--reps 50] [--window 24] [--off 1] [--data one] [--time] [--results FILE] [--out FOLDER]
---
--- --data one: one realisation for all repetitions, or each: one for each. Runs are kept in the file of results and
--- made once: stopped, the script goes on; --rows 9,10 makes those of the table alone, without a picture unless all are
--- made. What the document leaves open and what came out: README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local simulated = dofile(here .. "/simulated.lua")
local equation = simulated.lorenz

local option = experiment.options({ reps = 50, epochs = 100, window = 24, off = 1, data = "one", time = false,
  noise = 1, draws = 21, lr = 1e-3, batch = 2, hidden = 100, results = "", part = "1/1", show = false,
  weights = "trajectory", prior = 1, posterior_scale = 0.01, far = 999,
  rows = "1,2,3,4,5,6,7,8,9,10" },
  { reps = 1, epochs = 1, hidden = 10, far = 60, draws = 8 })
local report = simulated.report(experiment, option, "lorenz")
local LIMIT <const> = 1000 -- beyond which a path is lost: states are below 60

-- ---- data: t in [0, 10) to learn from, [10, 20) to be forecast ----

local realisations = {}
local function data_of(seed)
  local path = realisations[seed] or simulated.draw(equation, { steps = 2000, every = 100, dt = 1e-4, seed = seed })
  realisations = { [seed] = path }
  local every = math.max(50, option.window)
  local o = { every = every, count = 1000 // every, size = option.window }
  o.from = 1
  local train = simulated.windows(path, o)
  o.from = 1001
  return train, simulated.windows(path, o), path
end

-- ---- models ----

local ROWS = {
  { "none, E-Bayes", objective = "e_bayes" }, { "none, E-PAC-Bayes", objective = "e_pac_bayes" },
  { "zeta, E-Bayes-Hybrid", objective = "e_bayes_hybrid", gamma = { 1, 0, 0 } },
  { "zeta, E-PAC-Bayes-Hybrid", objective = "e_pac_bayes_hybrid", gamma = { 1, 0, 0 } },
  { "kappa, E-Bayes-Hybrid", objective = "e_bayes_hybrid", gamma = { 0, 1, 0 } },
  { "kappa, E-PAC-Bayes-Hybrid", objective = "e_pac_bayes_hybrid", gamma = { 0, 1, 0 } },
  { "rho, E-Bayes-Hybrid", objective = "e_bayes_hybrid", gamma = { 0, 0, 1 } },
  { "rho, E-PAC-Bayes-Hybrid", objective = "e_pac_bayes_hybrid", gamma = { 0, 0, 1 } },
  { "all, prior only", objective = "prior" }, { "all, true parameters", objective = "truth" },
}

local function model_of(row, train, rep)
  local theta = simulated.disturbed(equation.theta, option.off, 1000 + rep)
  if not row.objective:find "^e_" then
    return simulated.prior(equation, row.objective == "truth" and equation.theta or theta, option.noise)
  end
  pn.seed(rep)
  local m = pn.models.bnsde { size = 3, hidden = { option.hidden, option.hidden }, activation = "softplus",
    diffusion = equation.diffusion, noise = option.noise, weights = option.weights, time = option.time,
    prior = option.prior, posterior_scale = option.posterior_scale,
    prior_drift = row.gamma and equation.drift(theta) or nil, gamma = row.gamma }
  m:fit { data = train, epochs = option.epochs, batch_size = option.batch, lr = option.lr, seed = rep,
    objective = row.objective }
  return m
end

-- Forecasts from t = 10 on: shares within +-2 standard deviations at 100, 200 and 1,000 steps.
local function far_of(m, path, seed)
  local batch = simulated.windows(path, { from = 1001, every = 1, count = 1, size = option.far + 1 })
  local found, h, mean, sd = simulated.judge(m, batch, { draws = option.draws, limit = LIMIT,
    generator = pn.generator(seed) })
  local inside = (mean - batch.y:slice(1, 2, option.far + 1)):abs():le(sd * 2):to "float64"
  local function until_step(k) return inside:slice(1, 1, math.min(k, option.far)):mean():item() end
  return { cover100 = until_step(100), cover200 = until_step(200), cover1000 = until_step(1000), lost = found.lost },
    batch, h, mean, sd
end

local function run(job)
  local row = ROWS[job.row]
  local train, test, path = data_of(option.data == "one" and 1 or job.rep)
  local m = model_of(row, train, job.rep)
  local found = simulated.judge(m, test, { draws = option.draws, limit = LIMIT, generator = pn.generator(job.rep) })
  local far = far_of(m, path, job.rep)
  far.mse, far.cover, far.lost_short = found.mse, found.cover, found.lost
  if row.objective:find "^e_" and train.y:size(2) >= 8 then
    far.bound = m:bound(train, { generator = pn.generator(job.rep) }).path_mean_log
  end
  return far
end

local jobs, chosen = {}, experiment.words(option.rows)
for rep = 1, option.reps do
  for _, row in ipairs(chosen) do
    jobs[#jobs + 1] = { row = row, rep = rep, window = option.window, off = option.off, data = option.data,
      time = tostring(option.time), weights = option.weights, epochs = option.epochs, noise = option.noise }
  end
end
local runs = experiment.runs { option = option, jobs = jobs, run = run,
  order = { "row", "rep", "window", "off", "data", "time", "weights" } }

-- ---- the table ----

report("window %d, parameter off by N(0, %g^2), data: %s, weights per %s, %d epochs, %d repetitions%s",
  option.window, option.off, option.data, option.weights, option.epochs, option.reps,
  option.time and ", time as an input" or "")
report("%-28s %-18s %-8s %-8s | within +-2 sd to 100, 200, %d steps, lost | %s", "", "squared error", "median",
  "+-2 sd", option.far, "bound")
local means = {}
for _, k in ipairs(chosen) do
  local row = ROWS[k]
  local list = experiment.find(runs, { row = k })
  local function column(name)
    local values = {}
    for _, r in ipairs(list) do -- nan, a text, where a window has lost all paths
      values[#values + 1] = type(r[name]) == "number" and r[name] or nil
    end
    table.sort(values)
    local mean, _, se = experiment.moments(values)
    local n = #values
    return mean, se, n > 0 and (values[(n + 1) // 2] + values[n // 2 + 1]) / 2 or 0 / 0
  end
  local mse, se, median = column "mse"
  means[k] = mse
  local bound = column "bound"
  report("%-28s %8.3f +- %-6.3f %8.3f    %.3f   | %.3f %.3f %.3f  %.3f | %s", row[1], mse, se, median, (column "cover"),
    (column "cover100"), (column "cover200"), (column "cover1000"), (column "lost"),
    bound == bound and ("%.1f"):format(bound) or "-")
  local count = 0
  for _, r in ipairs(list) do count = count + (type(r.mse) == "number" and 0 or 1) end
  if count > 0 then report("    without %d repetitions in which a window has lost all paths", count) end
end
if means[6] and means[2] then
  report("kappa's equation known: %.3f of the squared error of none (E-PAC-Bayes)", means[6] / means[2])
end
for _, pair in ipairs { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } } do
  local a, b = {}, {}
  for _, r in ipairs(experiment.find(runs, { row = pair[1] })) do a[r.rep] = r.mse end
  for _, r in ipairs(experiment.find(runs, { row = pair[2] })) do b[r.rep] = r.mse end
  local off, se = experiment.paired(b, a)
  if off == off then report("%-28s with the KL term: %+.3f +- %.3f", ROWS[pair[1]][1], off, se) end
end

-- ---- the picture: the first repetition from t = 10 on, as figures 6.5 to 6.8 ----

local panels = {}
for _, k in ipairs(#chosen == #ROWS and { 2, 8, 6 } or {}) do
  local train, _, path = data_of(1)
  local _, batch, _, mean, sd = far_of(model_of(ROWS[k], train, 1), path, 1)
  local steps = math.min(300, option.far)
  local at = 10 + 0.01 * pn.arange(1, steps + 1):to "float64"
  local marks = { title = ROWS[k][1], x_label = "t", y_range = { -40, 60 }, legend = "none" }
  for d, colour in ipairs { "#2f6db3", "#b5486a", "#4a8f4a" } do
    local function of(x) return x:select(2, 1):select(2, d):slice(1, 1, steps) end
    marks[#marks + 1] = pn.plot.band(at, of(mean) - of(sd) * 2, of(mean) + of(sd) * 2, { colour = colour })
    marks[#marks + 1] = pn.plot.line(at, of(mean), { colour = colour })
    marks[#marks + 1] = pn.plot.line(at, of(batch.y:slice(1, 2, option.far + 1)), { colour = "#333333", width = 0.6 })
  end
  panels[#panels + 1] = pn.plot.panel(marks)
end
if #panels > 0 then experiment.picture(option, "lorenz", panels, { columns = 3, size = { 900, 300 } }) end
