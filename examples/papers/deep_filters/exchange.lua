--- Forecasts of eight daily exchange rates (the "nips" version of GluonTS), after Kurle, Rangapuram, de Bezenac,
--- Guennemann & Gasthaus (2020), "Deep Rao-Blackwellised particle filters for time series forecasting", section 5.2:
--- five rolling windows of 30 business days, and one long-term forecast of the same 150 days.
---
---   penumbra exchange.lua --data exchange_rate_nips_test.json.gz --results exchange.txt
---   penumbra exchange.lua --results results/exchange.runs --show      the table of the runs in a file, nothing is run
---   penumbra exchange.lua --data ... --methods deepar,deep_state --seeds 3 --picture exchange.svg
---   penumbra exchange.lua --data ... --choose --batch 20              what the document leaves open
---   penumbra exchange.lua --data ... --ablation --iterations 500 --batch 20      encoder and particles
---   penumbra exchange.lua --data ... --scaling standard               that scaling for all, under a name of its own
---   python3 classical.py exchange_rate_nips_test.json.gz --results exchange.txt     exponential smoothing and ARIMA
---
--- A run that was stopped goes on where it stood; runs that the file of results has are not made again. Without --data
--- it makes up random walks, which says nothing about the methods.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local forecasting = dofile(here .. "/forecasting.lua")

local option = forecasting.read_options({ data = false, results = false, methods = false, seeds = 3, first = 1,
  iterations = 2500, batch = 50, paths = 100, repeats = 5, picture = false, choose = false, choose_iterations = 500,
  ablation = false, scaling = false, show = false, out = false, dtype = "float64", quick = false,
  progress = false }, arg)

-- Table 1 of the document (its KVAE lets transitions make states longer: kvae_mc and kvae_rb are this library's)
local paper = { deepar = { "0.009", "0.019" }, deep_state = { "0.010", "0.017" },
  kvae_mc_published = { "0.010", "0.020" }, kvae_rb_published = { "0.009", "0.018" },
  rsgls_issm = { "0.007", "0.014" }, arsgls = { "0.009", "0.022" } }

-- The eight longest series of the file: all windows of a series end within its longest.
local function read()
  if option.data then
    local all = assert(pn.data.gluonts(option.data, { freq = "B", identities = 8 }))
    local items = {}
    for k = 1, 8 do
      local item = all.items[#all - 8 + k]
      items[k] = { target = item.target, start = "1990-01-01", item_id = "rate " .. k }
    end
    return pn.data.series(items, { freq = "B", features = true })
  end
  io.write "no --data: random walks that are made up\n"
  local g, items = pn.generator(1), {}
  for k = 1, option.quick and 3 or 8 do
    items[k] = { target = (pn.randn({ option.quick and 200 or 2000 }, { generator = g }) * 0.005):cumsum(1):exp(),
      start = "1990-01-01" }
  end
  return pn.data.series(items, { freq = "B", features = true })
end

local size = option.iterations == 2500 and option.batch == 50 and "" or ("-%dx%d"):format(option.iterations,
  option.batch)
local problem = { name = "exchange" .. size, set = not option.show and read(),
  horizon = 30, test = 150, season = 5, seasonal = { 5 },
  embedding = 8, iterations = option.iterations, batch = option.batch, lr = 5e-3, paths = option.paths,
  repeats = option.repeats, dtype = option.dtype, progress = option.progress }
if option.dtype ~= "float64" then -- under a name of its own
  problem.name = problem.name:gsub("^exchange", "exchange-" .. option.dtype)
end
local grid = {}
for _, scaling in ipairs { "mean", "standard", "change" } do
  grid[#grid + 1] = { scaling = scaling, context = 30 }
end
-- what --choose found; of ARSGLS the choice of KVAE is taken
local choices = { all = { scaling = "standard", context = 30 } }
for name, scaling in pairs { deep_state = "change", rsgls_issm = "change",
  rsgls_issm_exact = "change" } do
  choices[name] = { scaling = scaling, context = 30 }
end
if option.scaling then -- the same for all
  problem.name = problem.name:gsub("^exchange", "exchange-" .. option.scaling)
  choices = { all = { scaling = option.scaling, context = 30 } }
end
local names = option.methods and forecasting.words(option.methods)
  or { "random_walk", "random_walk_250", "seasonal_naive", "deepar", "deep_state" }

if option.ablation then -- names of its own in the file of results, for lines with a column more
  problem.name, problem.evidence = problem.name:gsub("^exchange", "exchange-ablation"), true
  names = option.methods and names or { "rsgls_issm", "rsgls_issm_no_encoder", table.unpack(forecasting.particles) }
end
for name in pairs(forecasting.methods) do -- variants go as what they vary
  local base = name:match "^(.*)_no_encoder$" or name:match "^(.*)_%d+$"
  choices[name] = choices[name] or base and choices[base]
end

if option.quick then
  for _, choice in pairs(choices) do
    choice.context = 20
  end
  problem.horizon, problem.test, problem.iterations, problem.batch, problem.paths, problem.repeats = 5, 10, 3, 4, 20, 1
  option.seeds = 1
end
if option.show then
  forecasting.print_table(problem, forecasting.shown(problem, option), paper)
elseif option.choose then
  problem.name = ("exchange-%dx%d"):format(option.choose_iterations, option.batch)
  forecasting.choose(problem, names, grid, option)
else
  local found, pictures = forecasting.run_all(problem, names, choices, option)
  forecasting.print_table(problem, found, option.data and paper)
  if option.picture then
    forecasting.draw((option.out and option.out .. "/" or "") .. option.picture, problem, pictures, { 1, 4, 7 })
  end
end
