--- A random search over the document's space C.1 (Bayer et al. 2021) on the surrogate UAV-S: does the order of full,
--- semi and partial inference hang on one setting? The same draws of the space for each conditioning.
---
---     penumbra search.lua --results search_runs.txt                       24 configurations each, 3,000 updates
---     penumbra search.lua --results search_runs.txt --part 1/2            of two processes on one file the first
---     penumbra search.lua --results search_runs.txt --configurations 8 --updates 800
---     penumbra search.lua --results search_runs.txt --show                what there is
---     penumbra search.lua --quick                                         seconds
---
--- Each job is a line of the file of results; stopped, the search goes on where it stood. The score is the validation
--- bound, the mean of one draw of each of --test flights. It writes search.txt: the best of each conditioning, and in
--- how many configurations full is above semi and semi above partial.
local here = arg[0]:gsub("[^/]*$", "")
local runs = dofile(here .. "vssm_runs.lua")
local pn = require "penumbra"
local experiment = runs.experiment

local option = experiment.options({ updates = 3000, configurations = 24, count = 10240, test = 2000, results = "",
  part = "1/1", show = false, conditionings = "full,semi,partial", seed = 1, units = "32,64,128" },
  { updates = 2, configurations = 1, count = 64, test = 32, units = "32" })

local world = pn.gap.flights {}

-- A place of the space C.1, by its number alone.
local function configuration(k)
  local g = pn.generator(option.seed * 1000 + k)
  local function one(list) return list[pn.randint(1, #list + 1, { 1 }, { generator = g }):item()] end
  local function two(list) return { one(list), one(list) } end
  local wide, sizes, names = { 16, 32, 64, 128, 192 }, { 16, 32, 64, 128 }, { "softsign", "softplus", "relu", "tanh" }
  local c = { batch = one { 8, 16, 32, 64, 128 }, lr = one { 3e-3, 1e-3, 3e-4, 1e-4, 3e-5 },
    beta1 = one { 0.5, 0.8, 0.9 }, latent = pn.randint(16, 33, { 1 }, { generator = g }):item(),
    flows = one { 2, 4, 8, 12 },
    flow_hidden = two { 8, 16, 32, 64 }, transition = one { "residual", "highway", "plain" }, prefix = 7,
    hidden = { emission = {} }, activation = {} }
  for _, network in ipairs { "transition", "initial", "disturbance", "prefix" } do
    c.hidden[network], c.activation[network] = two(network == "transition" and wide or sizes), two(names)
  end
  c.units, c.layers = one(experiment.words(option.units)), one { 1, 2 }
  return c
end

local train, validation

local function job_run(job)
  train = train or world:sample(option.count, { seed = 101, dtype = "float32" })
  validation = validation or world:sample(option.test, { seed = 102, dtype = "float32" })
  local c = configuration(job.configuration)
  pn.seed(4000 + job.configuration)
  local model = runs.model(c, job.kind, { size = 3, mean = "first", noise = { 0.15, 0.15, 0.075 }, layers = c.layers,
    dtype = "float32" })
  local run = model:fit { series = { y = train }, batch_size = c.batch, steps = job.updates, lr = c.lr, decay = 1,
    beta1 = c.beta1, beta2 = 0.999, seed = job.configuration }
  local bound = runs.elbo(model, { y = validation }, 1)
  return { bound = bound, batch = c.batch, lr = c.lr, transition = c.transition, latent = c.latent, flows = c.flows,
    units = c.units, fit_minutes = run.seconds / 60 }
end

local jobs = {}
for k = 1, option.configurations do
  for _, kind in ipairs(experiment.words(option.conditionings)) do
    jobs[#jobs + 1] = { kind = kind, configuration = k, updates = option.updates }
  end
end
local all = experiment.runs { option = option, jobs = jobs, run = job_run,
  order = { "kind", "configuration", "updates" } }

-- ---- what there is ----

local report = experiment.report(option, "search")
local by = {}
for _, kind in ipairs(experiment.words(option.conditionings)) do
  local best
  by[kind] = {}
  for _, r in ipairs(experiment.find(all, { kind = kind })) do
    by[kind][r.configuration] = r.bound
    best = (not best or r.bound > best.bound) and r or best
  end
  if best then
    report("%-8s best of %d: %.3f (configuration %d: batch %d, rate %g, %s, %d latent, %d flows, %d units)", kind,
      #experiment.find(all, { kind = kind }), best.bound, best.configuration, best.batch, best.lr, best.transition,
      best.latent, best.flows, best.units)
  end
end
for _, pair in ipairs { { "full", "semi" }, { "semi", "partial" }, { "full", "partial" } } do
  local above, both = 0, 0
  for k, bound in pairs(by[pair[1]] or {}) do
    local other = (by[pair[2]] or {})[k]
    both, above = both + (other and 1 or 0), above + (other and bound > other and 1 or 0)
  end
  report("%s above %s in %d of %d configurations", pair[1], pair[2], above, both)
end
