--- Predators and prey with noise (Haussmann 2021, 6.4.1, figure 6.3): a black box, the prior SDE with parameters that
--- are off by N(0, 0.5^2), and the hybrid of both, forecast from t = 5 on; over seeds, each with data of its own.
---
---     penumbra lotka_volterra.lua [--seeds 20] [--epochs 50] [--noise 0.1] [--out FOLDER] [--results FILE]
---
--- Runs are kept in the file of results and made once; the picture is of the first seed. What the document leaves open
--- and what came out: README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local simulated = dofile(here .. "/simulated.lua")
local equation = simulated.lotka_volterra

local option = experiment.options({ seeds = 20, epochs = 50, noise = 0.1, off = 0.5, draws = 50, lr = 1e-3, batch = 2,
  results = "", part = "1/1", show = false, weights = "trajectory", ahead = 200, hidden = 50, prior = 1,
  posterior_scale = 0.01 }, { seeds = 1, epochs = 2, draws = 8, ahead = 20, hidden = 10 })
local report = simulated.report(experiment, option, "lotka_volterra")

-- ---- data: t in [0, 5] to learn from, (5, 10] to be forecast; 10 sequences of 50 each ----

local function data_of(seed)
  local path = simulated.draw(equation, { steps = 1000, every = 100, dt = 1e-4, seed = seed })
  local pieces = { every = 50, count = 10, size = 50 }
  pieces.from = 1
  local train = simulated.windows(path, pieces)
  pieces.from = 501
  local long = simulated.windows(path, { from = 500, every = 1, count = 1, size = option.ahead + 1 })
  return path, train, simulated.windows(path, pieces), long
end

local LIMIT <const> = 100 -- beyond which a path is lost: populations are below 12
local KINDS = { "black box", "black box, no KL", "prior only", "hybrid", "hybrid, no KL" }
local objectives = { ["black box"] = "e_pac_bayes", ["black box, no KL"] = "e_bayes", hybrid = "e_pac_bayes_hybrid",
  ["hybrid, no KL"] = "e_bayes_hybrid" }

local function model_of(kind, theta, train, seed)
  if kind == "prior only" then
    return simulated.prior(equation, theta, option.noise)
  end
  pn.seed(seed)
  local h = option.hidden
  local m = pn.models.bnsde { size = 2, hidden = { h, h, h }, activation = "relu", diffusion = equation.diffusion,
    noise = option.noise, weights = option.weights, prior = option.prior, posterior_scale = option.posterior_scale,
    prior_drift = kind:find "hybrid" and equation.drift(theta) or nil }
  m:fit { data = train, epochs = option.epochs, batch_size = option.batch, lr = option.lr, seed = seed,
    objective = objectives[kind] }
  return m
end

local function run(job)
  local path, train, test, long = data_of(job.seed)
  local theta = simulated.disturbed(equation.theta, option.off, 1000 + job.seed, true)
  local m = model_of(job.kind, theta, train, job.seed)
  local g = pn.generator(job.seed)
  local short = simulated.judge(m, test, { draws = option.draws, width = 2, limit = LIMIT, generator = g })
  local far, h, mean, sd = simulated.judge(m, long, { draws = option.draws, width = 3, limit = LIMIT,
    generator = g })
  local bound = job.kind ~= "prior only" and m:bound(train, { generator = g }) or {}
  return { mse50 = short.mse, cover50 = short.cover, mse200 = far.mse, cover200 = far.cover, spread200 = far.spread,
    lost = far.lost, bound = bound.path_mean_log, kl = bound.kl }, { path = path, h = h, mean = mean, sd = sd }
end

local jobs = {}
for seed = 1, option.seeds do
  for _, kind in ipairs(KINDS) do
    jobs[#jobs + 1] = { kind = kind:gsub("[ ,]+", "_"), seed = seed, epochs = option.epochs, noise = option.noise,
      off = option.off, weights = option.weights, ahead = option.ahead }
  end
end
local names = {}
for _, kind in ipairs(KINDS) do names[kind:gsub("[ ,]+", "_")] = kind end

local runs = experiment.runs { option = option, jobs = jobs, order = { "kind", "seed" }, run = function(job)
  return (run { kind = names[job.kind], seed = job.seed })
end }

-- ---- the table ----

report("%d seeds, %d epochs; squared error of the mean of %d paths, 49 steps from each of 10 starts, %d from t = 5",
  option.seeds, option.epochs, option.draws, option.ahead)
report("%-18s %-18s %-8s | %-20s %-8s %-8s %-5s | %s", "", "49 steps: error", "+-2 sd", "far: error", "+-3 sd", "sd",
  "lost", "bound")
local wins = {}
for _, kind in ipairs(KINDS) do
  local list = experiment.find(runs, { kind = kind:gsub("[ ,]+", "_") })
  local function column(name)
    local values = {}
    for _, r in ipairs(list) do values[#values + 1] = r[name] end
    return experiment.moments(values)
  end
  local short, _, short_se = column "mse50"
  local far, _, far_se = column "mse200"
  report("%-18s %8.4f +- %.4f  %.3f    | %9.3f +- %.3f    %.3f    %.3f    %.3f | %s", kind, short, short_se,
    (column "cover50"), far, far_se, (column "cover200"), (column "spread200"), (column "lost"),
    kind == "prior only" and "-" or ("%.1f"):format((column "bound")))
  for _, r in ipairs(list) do
    wins[r.seed] = wins[r.seed] or {}
    wins[r.seed][kind] = r
  end
end
for _, what in ipairs { "mse50", "mse200" } do
  local both, black, prior = 0, 0, 0
  for _, r in pairs(wins) do
    local b, p = r.hybrid[what] < r["black box"][what], r.hybrid[what] < r["prior only"][what]
    black, prior, both = black + (b and 1 or 0), prior + (p and 1 or 0), both + (b and p and 1 or 0)
  end
  report("%s: the hybrid is below the black box in %d, below the prior in %d, below both in %d of %d seeds", what,
    black, prior, both, option.seeds)
end

-- ---- the picture ----

local panels = {}
for _, kind in ipairs { "black box", "prior only", "hybrid" } do
  local _, found = run { kind = kind, seed = 1 }
  local first, last = 401, math.min(500 + option.ahead, 1000)
  local seen = found.path:slice(1, first, last)
  local at = pn.arange(first - 1, last):to "float64" * 0.01
  local ahead = 5 + pn.arange(option.ahead):to "float64" * 0.01
  local marks = { title = kind, x_label = "t", y_range = { -1, 12 }, legend = "none" }
  for d, colour in ipairs { "#2f6db3", "#b5486a" } do
    local function of(x) return x:select(2, 1):select(2, d) end
    local mean, sd = of(found.mean), of(found.sd)
    marks[#marks + 1] = pn.plot.band(ahead, mean - sd * 3, mean + sd * 3, { colour = colour })
    for s = 1, math.min(5, option.draws) do
      marks[#marks + 1] = pn.plot.line(ahead, found.h[s]:select(2, 1):select(2, d), { colour = colour, width = 0.4 })
    end
    marks[#marks + 1] = pn.plot.line(at, seen:select(2, d), { colour = "#333333" })
  end
  panels[#panels + 1] = pn.plot.panel(marks)
end
experiment.picture(option, "lotka_volterra", panels, { columns = 3, size = { 900, 300 } })
