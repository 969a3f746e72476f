--- Walks of one subject, 50 numbers a frame, by a latent Bayesian neural SDE with encoder and decoder (Haussmann 2021,
--- 6.4.3, table 6.2): E-Bayes, E-PAC-Bayes, VI, SGLD, and hybrids whose prior drift was learnt on other sequences; 297
--- frames are forecast from the first three.
---
---     penumbra mocap.lua [--data FOLDER] [--seeds 10] [--epochs 3000] [--results FILE] [--out FOLDER]
---
--- FOLDER holds mocap35.csv.gz (split, seq, step, x1 ... x50: 16 walks to learn from, 3, and 4 to be forecast); without
--- it, data are generated: oscillators of a population and of one subject behind a random network. Runs are kept in the
--- file of results and made once. The document's settings, what it leaves open and what came out: README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local simulated = dofile(here .. "/simulated.lua")

local option = experiment.options({ data = "", seeds = 10, epochs = 3000, batch = 7, lr = 1e-3, noise = 1,
  diffusion = 0.1, draws = 50, results = "", part = "1/1", show = false, units = 30, sgld_lr = 1e-8, prior = 1,
  methods = "1,2,3,4,5,6", weights = "trajectory" }, { seeds = 1, epochs = 3, draws = 4, units = 5, methods = "2,6" })
local report = simulated.report(experiment, option, "mocap")
local STEP <const>, LATENT <const> = 0.1, 6

-- ---- data: {y = [T, B, 50], times} ----

local function batch_of(y) return { y = y, times = pn.arange(y:size(1)):to "float64" * STEP } end

local function walks(folder)
  local x, names, levels = pn.data.csv(folder .. "/mocap35.csv.gz", { kinds = { split = "category" } })
  if not x then return nil, names end
  local sets, column = {}, {}
  for k, name in ipairs(names) do column[name] = k end
  for k, name in ipairs(levels.split) do
    local rows = x:select(2, column.split):eq(k - 1):nonzero():reshape { -1 }
    local own = x:take(1, rows)
    sets[name] = own:slice(2, column.x1, column.x50):reshape { own:size(1) // 300, 300, 50 }:transpose(1, 2)
  end
  local y = sets.train
  return { train = batch_of(y), others = batch_of(y:slice(2, 1, 8)), test = batch_of(sets.test) }
end

-- Three coupled Van der Pol oscillators, seen through a random network 6 -> 30 -> 50; a population has other stiffness
-- and pace for each sequence, a subject its own.
local function oscillators()
  local g = pn.generator(3)
  local function randn(...) return pn.randn({ ... }, { generator = g }) end
  local a, b = randn(6, 30), randn(30, 50)
  local steps = option.quick and 40 or 300
  local function draw(count, stiff, pace)
    local h, list = randn(1, count, 6), {}
    for k = 1, 100 + steps do
      for _ = 1, 10 do
        local x, v = h:slice(3, 1, 3), h:slice(3, 4, 6)
        local dv = stiff * (1 - x:square()) * v - x + 0.2 * (x:mean(3):unsqueeze(3) - x)
        h = h + pn.concatenate({ v, dv }, 3) * (pace * 0.01) + 0.003 * randn(1, count, 6)
      end
      if k > 100 then list[k - 100] = h:squeeze(1) end
    end
    return batch_of((pn.stack(list, 1):matmul(a):softplus():matmul(b) * 0.3))
  end
  local function each(count) return pn.rand({ 1, count, 1 }, { generator = g }) end
  return { train = draw(16, 1, 1), test = draw(4, 1, 1), others = draw(43, each(43) + 0.5, each(43) * 0.4 + 0.8) }
end

local sets, why
if option.data ~= "" then sets, why = walks(option.data) end
local found = sets ~= nil
if not found then
  report(why and "no data (%s): generated ones" or "generated data: oscillators", why)
  sets = oscillators()
end
local centre = sets.train.y:mean(1):mean(1)
local spread = (sets.test.y - centre):square():mean():item()

-- ---- models ----

local function model(seed, more)
  pn.seed(seed)
  local u = option.units
  local given = { size = 50, latent = LATENT, hidden = { u }, encoder = { u, u }, decoder = { u, u }, prefix = 3,
    diffusion = option.diffusion, noise = option.noise, prior = option.prior, weights = option.weights }
  for name, v in pairs(more or {}) do given[name] = v end
  return pn.models.bnsde(given)
end

-- Snippets of 30 frames in the first third of the epochs, 50 up to five sixths, then 100, 7 in a minibatch. SGLD begins
-- where Adam has found the most probable weights: from the start on every rate that moves it diverges.
local function train(m, data, objective, seed)
  local adam = pn.optim.adam(m:parameters(), { lr = option.lr })
  local e, longest = option.epochs, data.y:size(1)
  for k, phase in ipairs { { e // 3, 30 }, { e * 5 // 6 - e // 3, 50 }, { e - e * 5 // 6, 100 } } do
    local langevin = objective == "sgld" and k == 3
    m:fit { data = data, objective = objective, epochs = phase[1], window = math.min(phase[2], longest),
      seed = seed + k, batch_size = option.batch, optimiser = not langevin and adam or nil,
      lr = langevin and option.sgld_lr or option.lr,
      schedule = not langevin and function() return option.lr end or nil }
  end
  return m
end

local learnt = {}
-- What was learnt of other sequences: encoder, decoder, and the mean drift, which stays as it is.
local function prior_of(seed)
  learnt[seed] = learnt[seed] or train(model(seed), sets.others, "e_pac_bayes", seed)
  local m = learnt[seed]
  local other = model(seed) -- with parameters of its own
  other:load_state(m:state())
  return { encoder = other.encoder, decoder = other.decoder, prior_drift = m:mean_drift() }
end

local METHODS = { { "(i) E-Bayes", "e_bayes" }, { "(ii) E-PAC-Bayes", "e_pac_bayes" }, { "D-BNN (VI)", "vi" },
  { "D-BNN (SGLD)", "sgld" }, { "(iii) E-Bayes-Hybrid", "e_bayes_hybrid" },
  { "(iv) E-PAC-Bayes-Hybrid", "e_pac_bayes_hybrid" } }

local function run(job)
  local objective = METHODS[job.method][2]
  local m = model(job.seed, objective:find "hybrid" and prior_of(job.seed) or nil)
  train(m, sets.train, objective, job.seed)
  local y = sets.test.y
  local steps = y:size(1)
  local h = m:forecast({ y = y:slice(1, 1, 3), times = sets.test.times:slice(1, 1, 3) }, steps - 3, { draws =
    option.draws, step = STEP, mode = "mean", generator = pn.generator(job.seed) })
  local truth = y:slice(1, 4, steps)
  local each = pn.dist.normal(h, option.noise):log_prob(truth:unsqueeze(1):broadcast_to(h:shape())):sum(-1)
  return { mse = (h:mean(1) - truth):square():mean():item(), spread = h:std(1):mean():item(),
    nll = -(each:logsumexp(1) - math.log(option.draws)):mean():item() }
end

local jobs, chosen = {}, experiment.words(option.methods)
for seed = 1, option.seeds do
  for _, method in ipairs(chosen) do
    jobs[#jobs + 1] = { method = method, seed = seed, epochs = option.epochs, noise = option.noise,
      diffusion = option.diffusion, weights = option.weights, data = found and "walks" or "generated" }
  end
end
local runs = experiment.runs { option = option, jobs = jobs, run = run, order = { "method", "seed", "epochs" } }

report("%d walks to learn from, %d to be forecast, %d frames; %d seeds, %d epochs, noise %g, diffusion %g, weights "
  .. "per %s", sets.train.y:size(2), sets.test.y:size(2), sets.test.y:size(1), option.seeds, option.epochs,
  option.noise, option.diffusion, option.weights)
report("squared error of the mean walk of those to learn from: %.2f", spread)
report("%-26s %-20s %-22s %s", "", "squared error", "NLL of a frame", "sd of paths")
for _, method in ipairs(chosen) do
  local list = experiment.find(runs, { method = method })
  local function column(name)
    local values = {}
    for k, r in ipairs(list) do values[k] = r[name] end
    return experiment.moments(values)
  end
  local mse, sd = column "mse"
  local nll, nll_sd = column "nll"
  report("%-26s %8.2f +- %-8.2f %9.1f +- %-8.1f %.2f", METHODS[method][1], mse, sd, nll, nll_sd, (column "spread"))
end
