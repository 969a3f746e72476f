--- What exchange.lua and hourly.lua share: the protocol of rolling and long-term forecasts, its scores, the methods,
--- runs that go on where they stopped, the table and the picture. It does nothing when it is run by itself.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local kept_runs = dofile(here .. "/../kept_runs.lua")

--- since: the times from which runs of a method count (kept_runs.lua).
local forecasting = { since = kept_runs.since }

-- ---- scores ----

local function levels(count)
  local list = {}
  for i = 1, count - 1 do
    list[i] = i / count
  end
  return list
end

local TENTHS, TWENTIETHS = levels(10), levels(20)

--- Scores of draws [S, steps, B, 1] of y [steps, B, 1]: twice the quantile losses over the sum of |y|, the mean over
--- the levels 0.1 ... 0.9 (`tenths`, what GluonTS and the paper's table report as CRPS) and 0.05 ... 0.95
--- (`twentieths`), the quantiles those of the draws nearest to the level; and the sum of the exact CRPS of the draws
--- over that of |y|.
function forecasting.score(y, draws)
  return {
    tenths = pn.metrics.normalised_crps(y, draws, { levels = TENTHS, interpolation = "nearest" }),
    twentieths = pn.metrics.normalised_crps(y, draws, { levels = TWENTIETHS, interpolation = "nearest" }),
    crps = (pn.metrics.crps(y, draws, { fair = false }):sum() / y:abs():sum()):item(),
  }
end

-- ---- forecasters without training ----

-- Standard deviation of y_t - y_(t - lag) of each item, [B, 1], over the last `last` steps.
local function change_sd(set, drop, lag, last)
  local y = set:history { drop = drop, steps = last and last + lag or nil }.y
  local n = y:size(1)
  return (y:slice(1, lag + 1, n) - y:slice(1, 1, n - lag)):square():mean(1):sqrt()
end

-- A random walk whose steps are normal, their standard deviation that of the last `last` changes (all).
local function random_walk(last)
  return function(problem, _, drop, steps, paths, generator)
    local set = problem.set
    local y = set:history { drop = drop, steps = 1 }.y[1]
    local sd = change_sd(set, drop, 1, last)
    return y + (pn.randn({ paths, steps, #set, 1 }, { generator = generator }) * sd):cumsum(2)
  end
end

-- The value of a season ago, with normal errors whose variance grows with each further season.
local function seasonal_naive(problem, _, drop, steps, paths, generator)
  local set, season = problem.set, problem.season
  local y = set:history { drop = drop, steps = season }.y
  local sd = change_sd(set, drop, season)
  local means, scales = {}, {}
  for h = 1, steps do
    means[h] = y[(h - 1) % season + 1]
    scales[h] = sd * math.sqrt((h - 1) // season + 1)
  end
  return pn.stack(means, 1) + pn.stack(scales, 1) * pn.randn({ paths, steps, #set, 1 }, { generator = generator })
end

-- ---- trained ones ----

-- What the document says of all (its section 7.7.2), and what it leaves open: see exchange.lua.
local function usual(problem, choice, more)
  local o = { covariates = problem.set.covariates, series = problem.set.identities, embedding = problem.embedding,
    features = 64, scaling = choice.scaling, least_scale = 1e-3, dtype = problem.dtype }
  for name, value in pairs(more) do
    o[name] = value
  end
  return o
end

-- Where the noise of switching systems begins: from 1e-4, as these models have it where nothing is said, training of
-- RSGLS-ISSM on exchange does not get under way for some seeds (a loss of 1e6 a step; seen in training alone).
local SCALES = { state = { 1e-2, 1 }, observation = { 1e-2, 1 }, switch = { 1e-2, 1 } }

-- Sizes of the document's 7.7.2; of KVAE, which it does not give, those of ARSGLS.
local function switching(conditioning, more)
  local o = { switches = 10, base = 20, hidden = { 64 }, transition_hidden = 64, num_particles = 10, scales = SCALES,
    conditioning = conditioning }
  for name, value in pairs(more or {}) do
    o[name] = value
  end
  return o
end

-- How they go: {particles =, encoder = false}, 10 and as the document has it where absent.
local function rsgls_issm(conditioning, how)
  how = how or {}
  return { make = function(problem, choice)
    return pn.models.rsgls_issm(usual(problem, choice, switching(conditioning, { seasonal = problem.seasonal,
      encoder = how.encoder == nil and { 64 }, num_particles = how.particles or 10 })))
  end }
end

local function arsgls(conditioning, how)
  how = how or {}
  return { make = function(problem, choice)
    return pn.models.arsgls(usual(problem, choice, switching(conditioning, { states = 16, auxiliary = 10,
      emission = "normal", encoder = how.encoder, num_particles = how.particles or 10 })))
  end }
end

-- stable: no transition makes a state longer, as the models have it where nothing is said; false: as published.
local function kvae(objective, stable)
  return { make = function(problem, choice)
    return pn.models.kvae(usual(problem, choice, { latent = 10, state = 16, base = 20, units = 64, hidden = { 64, 64 },
      objective = objective, stable = stable }))
  end }
end

--- Methods by name: `make` (problem, choice) gives a forecaster; `draw` forecasts without training. fit: further
--- options of m:fit.
forecasting.methods = {
  random_walk = { draw = random_walk() },
  random_walk_250 = { draw = random_walk(250) },
  seasonal_naive = { draw = seasonal_naive },
  deepar = { make = function(problem, choice)
    return pn.models.deepar(usual(problem, choice, { hidden = 40, layers = 2, output = choice.output or "student_t" }))
  end },
  deep_state = { make = function(problem, choice)
    return pn.models.deep_state(usual(problem, choice, { hidden = 40, seasonal = problem.seasonal }))
  end },
  kvae_mc = kvae("monte_carlo", true),
  kvae_rb = kvae("rao_blackwellised", true),
  kvae_mc_published = kvae("monte_carlo", false),
  kvae_rb_published = kvae("rao_blackwellised", false),
  rsgls_issm = rsgls_issm "published",
  rsgls_issm_exact = rsgls_issm "exact",
  arsgls = arsgls "published",
  arsgls_exact = arsgls "exact",
  rsgls_issm_no_encoder = rsgls_issm("published", { encoder = false }),
  arsgls_no_encoder = arsgls("published", { encoder = false }),
}

--- The order in tables, and the paper's Table 1 of exchange and electricity: rolling and long-term.
forecasting.order = { "random_walk", "random_walk_250", "seasonal_naive", "ets", "arima", "deepar", "deep_state",
  "kvae_mc_published", "kvae_mc", "kvae_rb_published", "kvae_rb", "rsgls_issm", "rsgls_issm_exact", "arsgls",
  "arsgls_exact", "rsgls_issm_no_encoder", "arsgls_no_encoder" }

--- Methods with so many particles in training and filtering: rsgls_issm_1, ...
forecasting.particles = {}
for _, count in ipairs { 1, 8, 16, 32, 64 } do
  local name = "rsgls_issm_" .. count
  forecasting.methods[name] = rsgls_issm("published", { particles = count })
  forecasting.particles[#forecasting.particles + 1] = name
  table.insert(forecasting.order, name)
end

-- ---- one run ----

-- Draws of the steps after the set's last `drop` ones, by the trained model or a method without.
local function draws(problem, method, model, choice, drop, steps, generator)
  if method.draw then
    return method.draw(problem, choice, drop, steps, problem.paths, generator)
  end
  local set = problem.set
  local future = set:future { steps = steps, drop = drop }
  local batch = set:history { steps = choice.history or choice.context, drop = drop }
  return model:forecast(batch, steps, { draws = problem.paths, inputs = future.inputs,
    generator = generator }):to "float64"
end

-- Scores of rolling and long-term forecasts over the last `test` steps of the set, and the long draws.
local function evaluate_once(problem, method, model, choice, generator)
  local all_y, all_draws, test, horizon = {}, {}, problem.test, problem.horizon
  for k = 1, test // horizon do
    local drop = test - (k - 1) * horizon
    all_y[k] = problem.set:future({ steps = horizon, drop = drop }).y
    all_draws[k] = draws(problem, method, model, choice, drop, horizon, generator)
  end
  local long_y = problem.set:future({ steps = test, drop = test }).y
  local long_draws = draws(problem, method, model, choice, test, test, generator)
  return { rolling = forecasting.score(pn.concatenate(all_y, 1), pn.concatenate(all_draws, 2)),
    long = forecasting.score(long_y, long_draws) }, long_draws
end

-- Their means over problem.repeats sets of paths: the score of one set of 100 has a noise of some percent.
local function evaluate(problem, method, model, choice, seed)
  pn.seed(1000 + seed)
  local generator, mean, long_draws = pn.generator(1000 + seed), nil, nil
  for _ = 1, problem.repeats do
    local scores
    scores, long_draws = evaluate_once(problem, method, model, choice, generator)
    mean = mean or { rolling = {}, long = {} }
    for part, list in pairs(scores) do
      for key, value in pairs(list) do
        mean[part][key] = (mean[part][key] or 0) + value / problem.repeats
      end
    end
  end
  return mean, long_draws
end

-- The log density of an observation of the rolling windows given those of the window and its context before, by as many
-- particles for every model: 64.
local function evidence(problem, model, choice, seed)
  local sum, count, set = 0, 0, problem.set
  local generator = pn.generator(2000 + seed)
  model.num_particles = model.num_particles and 64
  for drop = 0, problem.test - problem.horizon, problem.horizon do
    local before = set:history { steps = choice.context, drop = drop + problem.horizon }
    local all = set:history { steps = choice.context + problem.horizon, drop = drop }
    all.context = choice.context
    pn.no_grad(function()
      local gain = model:log_evidence(all, { generator = generator }) - model:log_evidence(before,
        { generator = generator })
      sum, count = sum + gain:sum():item(), count + problem.horizon * #set
    end)
  end
  return sum / count
end

--- run(problem, name, choice, seed [, files]): trains the method on all but the last problem.test steps (going on from
--- the checkpoint files.checkpoint) and scores it on these. Returns {rolling =, long =, seconds =, evidence =} (the
--- last where problem.evidence is set), and the long draws.
function forecasting.run(problem, name, choice, seed, files)
  local method, model, seconds = forecasting.methods[name], nil, 0
  pn.seed(seed)
  if method.make then
    model = method.make(problem, choice)
    local o = { series = problem.set:without(problem.test), steps = problem.iterations, batch_size = problem.batch,
      window = choice.context + problem.horizon, context = choice.context, lr = problem.lr, decay = 1e-2, seed = seed,
      checkpoint = files and files.checkpoint or nil, resume = files and true or false,
      progress = problem.progress }
    for key, value in pairs(method.fit or {}) do
      o[key] = value
    end
    seconds = model:fit(o).seconds
  end
  local scores, long_draws = evaluate(problem, method, model, choice, seed)
  scores.seconds = seconds
  scores.evidence = problem.evidence and model and evidence(problem, model, choice, seed) or nil
  return scores, long_draws
end

-- ---- results in a file: one line a run ----

local COLUMNS = { "rolling", "long", "rolling_twentieths", "long_twentieths", "rolling_crps", "long_crps", "minutes" }
local OPTIONAL = "evidence" -- a last column of some lines

local function line_of(problem, name, seed, s)
  return table.concat({ problem.name, name, seed, ("%.6f"):format(s.rolling.tenths), ("%.6f"):format(s.long.tenths),
    ("%.6f"):format(s.rolling.twentieths), ("%.6f"):format(s.long.twentieths), ("%.6f"):format(s.rolling.crps),
    ("%.6f"):format(s.long.crps), ("%.2f"):format(s.seconds / 60),
    s.evidence and ("%.4f"):format(s.evidence) }, " ") .. " on=" .. kept_runs.now()
end

-- The lines of a file and those of a list; none where there is no file.
local function lines_of(path, more)
  local list, file = { table.unpack(more) }, path and io.open(path)
  for line in file and file:lines() or function() end do
    list[#list + 1] = line
  end
  if file then
    file:close()
  end
  return list
end

-- Results by method from lines: lists of {seed =, rolling =, long =, ...}. Methods without training are the same for
-- every size of training ("exchange" and "exchange-500x20").
local function results_of(lines, set_name)
  local found, base = {}, set_name:gsub("%-%d+x%d+$", ""):gsub("^exchange%-.*$", "exchange")
  local function belongs(set, name)
    local trained = forecasting.methods[name] and forecasting.methods[name].make
    return set == set_name or not trained and set == base
  end
  for _, line in ipairs(lines) do
    local words = {}
    for word in line:gmatch "%S+" do
      words[#words + 1] = word
    end
    local counts = kept_runs.counts { method = words[2], on = line:match " on=(%S+)" }
    if #words >= 3 + #COLUMNS and belongs(words[1], words[2]) and counts then
      local one = { seed = tonumber(words[3]) }
      for k, column in ipairs(COLUMNS) do
        one[column] = tonumber(words[3 + k])
      end
      one[OPTIONAL] = tonumber(words[4 + #COLUMNS])
      found[words[2]] = found[words[2]] or {}
      table.insert(found[words[2]], one)
    end
  end
  return found
end

local function has(found, name, seed)
  for _, one in ipairs(found[name] or {}) do
    if one.seed == seed then
      return true
    end
  end
  return false
end

--- shown(problem, option): results by method of what the file option.results has.
function forecasting.shown(problem, option)
  return results_of(lines_of(assert(option.results, "--show needs --results"), {}), problem.name)
end

--- run_all(problem, names, choices, option): runs, for seeds option.first to option.seeds, what the file option.results
--- does not have yet, a line for each run appended (other processes may write there, too). A run that fails (its loss
--- became infinite) is told and left out. Returns the results by method, and the long draws of the first seed if there
--- is to be a picture.
function forecasting.run_all(problem, names, choices, option)
  local own, pictures = {}, {}
  for _, name in ipairs(names) do
    for seed = option.first, option.seeds do
      local done = has(results_of(lines_of(option.results, own), problem.name), name, seed)
      local wanted = option.picture and seed == option.first
      if not done or wanted then
        local files = option.results and { checkpoint = ("%s.%s.%s.%d.safetensors"):format(option.results, problem.name,
          name, seed) }
        local ok, s, long_draws = pcall(forecasting.run, problem, name, choices[name] or choices.all, seed, files)
        pictures[name] = ok and wanted and long_draws or pictures[name]
        local file = ok and option.results and not done and assert(io.open(option.results, "a"))
        if not ok and option.quick then
          error(s, 0)
        elseif not ok then
          io.write(("%s, seed %d: %s\n"):format(name, seed, tostring(s)))
        elseif file then
          file:write(line_of(problem, name, seed, s), "\n")
          file:close()
        elseif not done then
          own[#own + 1] = line_of(problem, name, seed, s)
        end
      end
    end
  end
  return results_of(lines_of(option.results, own), problem.name), pictures
end

-- ---- what is open is chosen on the last steps of the training data ----

-- Score of a run on the validation steps over that of the random walk: the mean of rolling and long-term. Infinite for
-- one that failed.
local function validated(inner, walk, name, choice, seed)
  local ok, s = pcall(forecasting.run, inner, name, choice, seed)
  local total = ok and (s.rolling.tenths / walk.rolling.tenths + s.long.tenths / walk.long.tenths) / 2 or 1 / 0
  total = total == total and total or 1 / 0
  local told = ok and ("rolling %.5f long %.5f, %.3f of the random walk, %.1f min"):format(s.rolling.tenths,
    s.long.tenths, total, s.seconds / 60) or tostring(s)
  io.write(("choose %s %s scaling %-8s context %3d seed %d: %s\n"):format(inner.name, name, choice.scaling,
    choice.context, seed, told))
  io.flush()
  collectgarbage()
  return total
end

--- choose(problem, names, grid, option): trains each method with each choice of the grid, for seeds option.first to
--- option.seeds, on the training data without its last problem.test steps, and scores it on these; returns, and prints,
--- the choice of each method whose mean over the seeds is least.
function forecasting.choose(problem, names, grid, option)
  local inner, best = {}, {}
  for key, value in pairs(problem) do
    inner[key] = value
  end
  inner.set, inner.iterations = problem.set:without(problem.test), option.choose_iterations or problem.iterations
  local walk = forecasting.run(inner, "random_walk", grid[1], 1)
  for _, name in ipairs(names) do
    local least = math.huge
    for _, choice in ipairs(forecasting.methods[name].make and grid or {}) do
      local sum, most = 0, 0
      for seed = option.first, option.seeds do
        local total = validated(inner, walk, name, choice, seed)
        sum, most = sum + total, math.max(most, total)
      end
      local mean = sum / (option.seeds - option.first + 1)
      io.write(("choose %s %s scaling %-8s context %3d: mean %.3f, worst %.3f of the random walk\n"):format(inner.name,
        name, choice.scaling, choice.context, mean, most))
      if mean < least then
        least, best[name] = mean, choice
      end
    end
    if best[name] then
      io.write(("choose %s %s: %s\n"):format(inner.name, name, best[name].scaling))
    end
  end
  return best
end

-- ---- table and picture ----

local function mean_sd(list, column)
  local sum, squares = 0, 0
  for _, one in ipairs(list) do
    sum = sum + one[column]
  end
  local mean = sum / #list
  for _, one in ipairs(list) do
    squares = squares + (one[column] - mean) ^ 2
  end
  return mean, #list > 1 and math.sqrt(squares / (#list - 1)) or 0
end

-- Which of the random walk and seasonal naive a method does not beat, as text.
local function behind(found, name, rolling, long)
  local list = {}
  for _, other in ipairs { "random_walk", "seasonal_naive" } do
    if found[other] and not name:find "^random_walk" and name ~= other then
      local first, second = rolling >= mean_sd(found[other], "rolling"), long >= mean_sd(found[other], "long")
      if first or second then
        list[#list + 1] = other .. (first and second and "" or first and " rolling" or " long-term")
      end
    end
  end
  return #list > 0 and "does not beat " .. table.concat(list, ", ") or ""
end

--- print_table(problem, found, paper): a line a method: mean and spread over the seeds, and what the paper has.
function forecasting.print_table(problem, found, paper)
  io.write(("%s: %s series, %d windows of %d steps and one of %d, %d times %d paths\n"):format(problem.name,
    problem.set and #problem.set or "all", problem.test // problem.horizon, problem.horizon, problem.test,
    problem.repeats, problem.paths))
  io.write("method             seeds  rolling           document  long-term         document",
    "  0.05 grid      exact CRPS     minutes\n")
  for _, name in ipairs(forecasting.order) do
    local list = found[name]
    if list then
      local mean, sd = {}, {}
      for _, column in ipairs(COLUMNS) do
        mean[column], sd[column] = mean_sd(list, column)
      end
      local told = paper and paper[name] or { "", "" }
      local note = behind(found, name, mean.rolling, mean.long)
      if list[1].evidence then
        note = ("log density %.3f +- %.3f  "):format(mean_sd(list, "evidence")) .. note
      end
      io.write(("%-18s %5d  %s  %8s  %s  %8s  %.4f %.4f  %.4f %.4f  %6.1f  %s\n"):format(name, #list,
        kept_runs.told("%.4f", mean.rolling, sd.rolling, #list), told[1],
        kept_runs.told("%.4f", mean.long, sd.long, #list), told[2], mean.rolling_twentieths, mean.long_twentieths,
        mean.rolling_crps, mean.long_crps, mean.minutes, note))
    end
  end
end

-- What a column shows: all that was observed and forecast, but not more than five times what was observed spans.
local function range_of(y, bands)
  local low, high = y:min():item(), y:max():item()
  local most, least = high + 2 * (high - low), low - 2 * (high - low)
  for _, q in ipairs(bands) do
    low, high = math.min(low, q:min():item()), math.max(high, q:max():item())
  end
  return { math.max(low, least), math.min(high, most) }
end

--- draw(path, problem, pictures, items): long-term forecasts with bands of 50 and 90 percent, a row for each method, a
--- column for each item.
function forecasting.draw(path, problem, pictures, items)
  local test, before, columns, names = problem.test, problem.test // 2, {}, {}
  for _, name in ipairs(forecasting.order) do
    names[#names + 1] = pictures[name] and name or nil
  end
  for c, i in ipairs(items) do
    local column = { y = problem.set:history({ steps = test + before, items = { i } }).y:reshape { -1 } }
    for r, name in ipairs(names) do
      column[r] = pn.metrics.quantiles(pictures[name]:select(3, i):squeeze(3), { 0.05, 0.25, 0.5, 0.75, 0.95 })
    end
    column.range = range_of(column.y, column)
    columns[c] = column
  end
  local panels = {}
  for r, name in ipairs(names) do
    for c, column in ipairs(columns) do
      panels[#panels + 1] = pn.plot.panel { title = ("%s, series %d"):format(name, items[c]),
        x_range = { -before, test }, x_label = r == #names and "steps" or nil, y_range = column.range,
        legend = #panels == 0 and "top left" or "none",
        pn.plot.fan(pn.arange(test), column[r], { label = "forecast" }),
        pn.plot.line(pn.arange(test + before) - before, column.y, { label = "observed" }) }
    end
  end
  if #panels > 0 then
    assert(pn.plot.save(path, panels, { columns = #items }))
  end
end

-- ---- the command line ----

local FLAGS = { quick = true, choose = true, ablation = true, progress = true, show = true }

--- read_options(option, args): fills the table of defaults from `--name value`; `--quick` and others that are false or
--- true take no value.
function forecasting.read_options(option, args)
  local i = 1
  while args and args[i] do
    local name = args[i]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then
      local names = {}
      for known, value in pairs(option) do
        names[#names + 1] = ("  --%s (%s)"):format(known, tostring(value))
      end
      table.sort(names)
      io.stderr:write("unknown option ", args[i], "; options and their defaults:\n", table.concat(names, "\n"), "\n")
      os.exit(1)
    elseif option[name] == false and FLAGS[name] then
      option[name] = true
    else
      i = i + 1
      local value = args[i] or error("--" .. name .. " needs a value", 0)
      option[name] = type(option[name]) == "number" and math.tointeger(tonumber(value)) or value
    end
    i = i + 1
  end
  return option
end

--- A list of words parted by commas.
function forecasting.words(text)
  local list = {}
  for word in text:gmatch "[^,]+" do
    list[#list + 1] = word
  end
  return list
end

return forecasting
