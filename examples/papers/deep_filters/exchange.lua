--- Forecasts of eight daily exchange rates (the "nips" version of GluonTS), after Kurle, Rangapuram, de Bezenac,
--- Guennemann & Gasthaus (2020), "Deep Rao-Blackwellised particle filters for time series forecasting", section 5.2:
--- five rolling windows of 30 business days, and one long-term forecast of the same 150 days.
---
---   penumbra exchange.lua --data exchange_rate_nips_test.json.gz --results exchange.txt
---   penumbra exchange.lua --data ... --methods deepar,deep_state --seeds 3 --picture exchange.svg
---   penumbra exchange.lua --data ... --choose --batch 20              what the document leaves open
---   penumbra exchange.lua --data ... --ablation --iterations 500 --batch 20      encoder and particles
---   penumbra exchange.lua --data ... --scaling standard               that scaling for all, under a name of its own
---   python3 classical.py exchange_rate_nips_test.json.gz --results exchange.txt     exponential smoothing and ARIMA
---
--- A run that was stopped goes on where it stood; runs that the file of results has are not made again. Without --data
--- it makes up random walks, which says nothing about the methods.
---
--- Of the document (7.7.2): embedding of 8, features of 64, Adam (0.9, 0.95), 5e-3 down by 1e-2 over 2500 iterations,
--- batches of 50, 100 paths. Seasons are the five business days (the document has seven, of which two never come).
--- Open there is the scaling of a window by its first 30 steps. --choose trains with "mean", "standard" and "change",
--- three seeds of 500 iterations of 20 windows each (RSGLS-ISSM 150), without the last 300 days, scores them on the 150
--- days before the test, and takes the least mean of the seeds. Over the random walk:
---
---                  "mean"   "standard"   "change"
---   deepar         1.16     1.09         1.12
---   deep_state     1.01     0.96         0.95
---   kvae_rb        1.14     1.06         1.13      1.02, 0.97 and 1.39 by "change"
---   rsgls_issm     2.23     0.98         0.96
---
--- KVAE-MC and ARSGLS take the choice of KVAE-RB, the exact recursion that of the published one. Before that the choice
--- was by one seed ("mean" for DeepAR: 0.0098 and 0.0130 on the test), and with the models' own start of the noise
--- RSGLS-ISSM went astray for three of six seeds, which the test scores showed; what mends it, a start from 1e-2, was
--- found by the loss in training alone.
---
--- Minutes of one thread for a seed at the document's size, from 20 iterations timed: deep_state 1, deepar 1.5,
--- kvae_rb 4, kvae_mc 13, rsgls_issm 15 (exact 18), arsgls 56. `--iterations 500 --batch 20` is about 13 times less
--- for all. At that size, mean and standard deviation of 3 seeds, and what Table 1 of the document has; twice the
--- quantile losses at 0.1, ..., 0.9 over the sum of |y|, quantiles the nearest of 100 paths:
---
---                      rolling            document   long-term          document
---   random walk        0.0078 +- 0.0000              0.0154 +- 0.0003             steps by all changes before
---   random walk, 250   0.0072 +- 0.0000              0.0145 +- 0.0002             by the last 250
---   seasonal naive     0.0086 +- 0.0000              0.0150 +- 0.0000             does not beat the first rolling
---   ets                0.0076                        0.0160                       nor this one long-term
---   arima              0.0078                        0.0150
---   deepar             0.0075 +- 0.0003   0.009      0.0136 +- 0.0002   0.019
---   deep_state         0.0071 +- 0.0000   0.010      0.0141 +- 0.0003   0.017
---   kvae_mc            0.0076 +- 0.0001   0.010      0.0131 +- 0.0001   0.020
---   kvae_rb            0.0077 +- 0.0001   0.009      0.0131 +- 0.0001   0.018
---   rsgls_issm         0.0075 +- 0.0000   0.007      0.0134 +- 0.0002   0.014
---   rsgls_issm_exact   0.0074 +- 0.0000              0.0135 +- 0.0005
---   arsgls             0.0073 +- 0.0002   0.009      0.0133 +- 0.0003   0.022
---
--- All trained ones beat the first random walk, KVAE rolling by little. Rolling, none but deep_state comes to that of
--- the last 250 steps; long-term all do. The document's best, RSGLS-ISSM with 0.007 and 0.014, is about what that
--- random walk has, so that more than these two figures cannot be read off this set.
---
--- At the document's size (2500 iterations of 50 windows), 3 seeds: deep_state 0.0071 +- 0.0000 and 0.0141 +- 0.0001,
--- deepar 0.0078 +- 0.0003 and 0.0148 +- 0.0007 (rolling no better than the random walk), kvae_rb 0.0074 +- 0.0000 and
--- 0.0131 +- 0.0001; the others were not run at it.
---
--- --ablation, 500 x 20, 3 seeds: RSGLS-ISSM (published) without its encoder (R-17) and with other numbers of particles
--- (R-18). The log density is that of a day given the days before it in its window, by 64 particles:
---
---                             rolling            long-term          log density
---   10 particles              0.0075 +- 0.0000   0.0134 +- 0.0002   4.988 +- 0.022
---   10, no encoder            0.0075 +- 0.0001   0.0132 +- 0.0001   4.944 +- 0.019
---   1 particle                0.0074 +- 0.0001   0.0134 +- 0.0003   4.965 +- 0.006
---   16 (one seed)             0.0075             0.0133             5.004
---   32 (one seed)             0.0074             0.0134             4.979
---   1 (150 x 20, one seed)    0.0075             0.0134             4.932
---   8 (150 x 20, one seed)    0.0077             0.0133             4.911
---   16 (150 x 20, one seed)   0.0075             0.0133             4.934
---   32 (150 x 20, one seed)   0.0075             0.0133             4.935
---   64 (150 x 20, one seed)   0.0076             0.0133             4.913
---
--- Neither changes the scores by more than the seeds do; without the encoder the log density is less by 0.04, with one
--- particle by 0.02, about what two seeds differ by. The document has no effect of the particles either (wiki), but a
--- large one of the encoder (CRPS 0.207 and 0.265).
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local forecasting = dofile(here .. "/forecasting.lua")

local option = forecasting.read_options({ data = false, results = false, methods = false, seeds = 3, first = 1,
  iterations = 2500, batch = 50, paths = 100, repeats = 5, picture = false, choose = false, choose_iterations = 500,
  ablation = false, scaling = false, quick = false, progress = false }, arg)

-- Table 1 of the document
local paper = { deepar = { "0.009", "0.019" }, deep_state = { "0.010", "0.017" }, kvae_mc = { "0.010", "0.020" },
  kvae_rb = { "0.009", "0.018" }, rsgls_issm = { "0.007", "0.014" }, arsgls = { "0.009", "0.022" } }

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
local problem = { name = "exchange" .. size, set = read(), horizon = 30, test = 150, season = 5, seasonal = { 5 },
  embedding = 8, iterations = option.iterations, batch = option.batch, lr = 5e-3, paths = option.paths,
  repeats = option.repeats, progress = option.progress }
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
if option.choose then
  problem.name = ("exchange-%dx%d"):format(option.choose_iterations, option.batch)
  forecasting.choose(problem, names, grid, option)
else
  local found, pictures = forecasting.run_all(problem, names, choices, option)
  forecasting.print_table(problem, found, option.data and paper)
  if option.picture then
    forecasting.draw(option.picture, problem, pictures, { 1, 4, 7 })
  end
end
