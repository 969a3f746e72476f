--- Forecasts of hourly series, after Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus (2020), section 5.2: seven
--- rolling windows of 24 hours, and one long-term forecast of the same 168. The structural models have a level, 24
--- hours and 7 days: 32 states.
---
---   penumbra hourly.lua --set electricity --data electricity_321x840.csv.gz --results hourly.txt
---   penumbra hourly.lua --set ett --data ETTh1.csv.gz,ETTh2.csv.gz         seven series of each of two transformers
---   penumbra hourly.lua --set ett --data ... --choose                      the scaling, as of exchange.lua
---   penumbra hourly.lua --set m4 --data m4_hourly_train.csv.gz             the last 168 hours of each training series
---   penumbra hourly.lua --set gluonts --data test.json.gz                  solar, traffic...: one series a line
---   python3 classical.py electricity_321x840.csv.gz --hourly --items 40 --results hourly.txt
---
--- Options as of exchange.lua (--show, --dtype), and --items N: the first N series alone. The window of the electricity
--- set is not dated: a day of the week has a number, but its name is not known. Without --data it makes up series with
--- a day and a week. A run that was stopped goes on where it stood; runs that the file of results has are not made
--- again.
---
--- Settings of the document: embedding of 50, features of 64, Adam (0.9, 0.95), 5e-3 (electricity 1e-3) down by 1e-2
--- over 2500 iterations of 50 windows; open there: windows of a week and a day, and their scale, the mean |y| of the
--- week. On ETT, whose series have either sign, it is mean and standard deviation, for all methods, as --choose found
--- with DeepAR and DeepState on the week before the test: 0.71 and 0.71 of the random walk, 0.83 and 1.26 by the mean.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local forecasting = dofile(here .. "/forecasting.lua")

local option = forecasting.read_options({ set = "made_up", data = false, results = false, methods = false, seeds = 3,
  first = 1, iterations = 2500, batch = 50, paths = 100, repeats = 1, items = 0, lr = 0, picture = false,
  context = 168, scaling = false, choose = false, choose_iterations = 150, show = false, out = false,
  dtype = "float64", quick = false, progress = false }, arg)
local features = { "hour_of_day", "day_of_week", "age" }
local MONDAY = "2012-01-02 00:00:00"

-- Series with a day and a week, whose noise is larger by day.
local function made_up()
  io.write "no --data: series that are made up\n"
  local g, items = pn.generator(1), {}
  for k = 1, option.quick and 3 or 40 do
    local steps = option.quick and 24 * 12 or 24 * 35
    local t = pn.arange(steps)
    local day = (t * (2 * math.pi / 24) + k):sin()
    local week = pn.where((t / 24):floor():remainder(7):ge(5), pn.full({}, -1.5), pn.zeros {})
    local noise = pn.randn({ steps }, { generator = g }) * (day * 0.2 + 0.4)
    items[k] = { target = (day * 2 + week + noise + 8) * (10 * k), start = MONDAY }
  end
  return items
end

local function copied(set, keep)
  local items = {}
  for _, item in ipairs(set.items) do
    if keep(item) then
      items[#items + 1] = { target = item.target, start = MONDAY, item_id = item.item_id }
    end
  end
  return items
end

local readers = {
  made_up = made_up,
  electricity = function() -- without clients that used nothing
    return copied(assert(pn.data.series_csv(option.data, { header = false })), function(item)
      return item.target:abs():sum():item() > 0
    end)
  end,
  m4 = function()
    return copied(assert(pn.data.series_csv(option.data, { by = "row" })), function() return true end)
  end,
  ett = function()
    local items = {}
    for _, path in ipairs(forecasting.words(option.data)) do
      for _, item in ipairs(assert(pn.data.series_csv(path, { date = "date", freq = "H" })).items) do
        items[#items + 1] = { target = item.target, start = "2016-07-01 00:00:00", item_id = item.item_id }
      end
    end
    return items
  end,
  gluonts = function()
    local items = {}
    for k, item in ipairs(assert(pn.data.gluonts(option.data, { freq = "H" })).items) do
      items[k] = { target = item.target, item_id = item.item_id, start = MONDAY }
    end
    return items
  end,
}

local read = readers[option.set]
if not read or not option.show and option.set ~= "made_up" and not option.data then
  io.stderr:write("hourly: --set must be electricity, m4, ett or gluonts, with --data\n")
  os.exit(1)
end
local all, items = option.show and {} or read(), {}
for k, item in ipairs(all) do
  if option.items == 0 or k <= option.items then
    items[#items + 1] = item
  end
end

local name = option.set
if option.items > 0 then
  name = ("%s-%d"):format(name, option.items)
end
local scaling = option.scaling or option.set == "ett" and "standard" or "mean"
if option.scaling then -- under a name of its own
  name = ("%s-%s"):format(name, scaling)
end
if option.iterations ~= 2500 or option.batch ~= 50 then
  name = ("%s-%dx%d"):format(name, option.iterations, option.batch)
end
if option.dtype ~= "float64" then
  name = name:gsub("^%w+", "%0-" .. option.dtype)
end
local problem = { name = name, set = not option.show and pn.data.series(items, { freq = "H", features = features }),
  horizon = 24, test = 168, season = 168, seasonal = { 24, { period = 7, every = 24 } }, embedding = 50,
  iterations = option.iterations, batch = option.batch, paths = option.paths, repeats = option.repeats,
  lr = tonumber(option.lr) ~= 0 and tonumber(option.lr) or option.set == "electricity" and 1e-3 or 5e-3,
  dtype = option.dtype, progress = option.progress }
local choices = { all = { scaling = scaling, context = option.context } }
local names = option.methods and forecasting.words(option.methods)
  or { "random_walk", "seasonal_naive", "deepar", "deep_state" }
-- Table 1 of the document: of all of electricity, not of this part of it
local paper = option.set == "electricity" and { deepar = { "0.057", "0.062" }, deep_state = { "0.071", "0.088" },
  kvae_mc_published = { "0.319", "0.318" }, kvae_rb_published = { "0.296", "0.305" }, rsgls_issm = { "0.070", "0.091" },
  arsgls = { "0.138", "0.154" } } or nil

if option.quick then
  problem.horizon, problem.test, problem.iterations, problem.batch, problem.paths = 6, 12, 2, 2, 10
  choices.all.context, option.seeds = 30, 1
end
if option.show then
  forecasting.print_table(problem, forecasting.shown(problem, option), paper)
elseif option.choose then
  local grid = {}
  for k, each in ipairs { "mean", "standard", "change" } do
    grid[k] = { scaling = each, context = option.context }
  end
  problem.name = ("%s-%dx%d"):format(option.set, option.choose_iterations, option.batch)
  forecasting.choose(problem, names, grid, option)
else
  local found, pictures = forecasting.run_all(problem, names, choices, option)
  forecasting.print_table(problem, found, paper)
  if option.picture then
    forecasting.draw((option.out and option.out .. "/" or "") .. option.picture, problem, pictures, { 1, 2, 3 })
  end
end
