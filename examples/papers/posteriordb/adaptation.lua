--- Estimator by schedule: what a warm-up of Hamiltonian Monte Carlo makes of the posteriors of posteriordb, by metric
--- (diagonal, low rank, dense), estimator (Fisher divergence, Stan's variances) and schedule of windows (overlapping,
--- Stan's), in gradients per effective draw.
---
---   penumbra adaptation.lua --data FOLDER --out results     results/adaptation.csv: rows that are there are not run
---   penumbra adaptation.lua --data FOLDER --out results --only arK --metrics dense --seeds 3
---   penumbra adaptation.lua --quick                         two generated data sets, short
---
--- Gradients are all evaluations of four chains, warm-up and search for a step size included; effective draws the
--- least, over the numbers of the unconstrained posterior, of the effective sample sizes of bulk, tails and squares. z
--- is the largest standardised error of a mean against the reference (README.md says how it is counted).
--- Other options: --warmup 300 (default: as the sampler does it), --draws 1000.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local models = dofile(here .. "/models.lua")
local summary = require "penumbra.core".draws_summary

local experiment = dofile(here .. "/../continual/experiment.lua")
local words = experiment.words

-- (Whatever the number of threads, a chain makes the same draws.)
local option = experiment.options({ data = "", out = "", only = "", metrics = "diagonal,low_rank,dense",
  warmup = "300", draws = 1000, seeds = 1, threads = pn.threads() },
  { warmup = "60", draws = 60, only = "arK,eight_schools" })

local function wanted(name)
  for _, part in ipairs(words(option.only)) do
    if name:find(part, 1, true) then
      return true
    end
  end
  return option.only == ""
end

-- ---- data, references ----

local function data_of(entry)
  if option.data == "" then
    return entry.generate()
  end
  for _, name in ipairs { "data.json", "data.json.gz" } do
    local path = ("%s/%s/%s"):format(option.data, entry.name, name)
    local file = io.open(path)
    if file then
      file:close()
      return assert(pn.data.json(path))
    end
  end
end

-- The largest |mean - reference| / sqrt(mcse^2 + reference mcse^2).
local function error_of(entry, p)
  local file = option.data ~= "" and io.open(("%s/%s/reference.csv"):format(option.data, entry.name))
  if not file then
    return nil
  end
  local rows, columns, worst = p:summary(), nil, 0
  for line in file:lines() do
    local cells = words(line)
    local row = columns and rows[cells[1]]
    if not columns then
      columns = {}
      for k, name in ipairs(cells) do columns[name] = k end
    elseif row and not (entry.logarithms and entry.logarithms[cells[1]]) then
      local mean, mcse = tonumber(cells[columns.mean]), tonumber(cells[columns.mcse_mean])
      worst = math.max(worst, math.abs(row.mean - mean) / math.sqrt(row.mcse ^ 2 + mcse ^ 2))
    end
  end
  file:close()
  return worst
end

-- ---- one run ----

local columns = { "posterior", "metric", "estimator", "schedule", "asked", "draws", "seed", "warmup", "gradients",
  "leapfrogs", "bulk", "tail", "squares", "r_hat", "divergences", "z", "seconds" }

local function least(z, column)
  local low = math.huge
  for _, row in ipairs(summary(z:contiguous()):totable()) do
    low = row[column] == row[column] and math.min(low, row[column]) or 1
  end
  return low
end

local function run(entry, data, r)
  pn.seed(r.seed)
  local s = { data = data, draws = r.draws, metric = r.metric, estimator = r.estimator, schedule = r.schedule,
    warmup = math.tointeger(tonumber(r.asked)) }
  for name, value in pairs(entry.settings or {}) do
    if name ~= "draws" then
      s[name] = value
    end
  end
  local p = pn.nuts(entry.model, s)
  local z = p.unconstrained
  r.warmup, r.gradients, r.divergences, r.seconds = p.warmup, p.gradients, p.divergences, p.seconds
  r.leapfrogs = math.floor(p.statistics.leapfrogs:sum():item())
  r.bulk, r.tail = least(z, 7), least(z, 8)
  r.squares = least((z - z:reshape({ -1, z:size(3) }):mean(1)):square(), 7)
  r.r_hat, r.z = 0, error_of(entry, p)
  for _, row in ipairs(summary(z:contiguous()):totable()) do
    r.r_hat = math.max(r.r_hat, row[6] == row[6] and row[6] or math.huge)
  end
end

-- ---- the file ----

local path = option.out ~= "" and option.out .. "/adaptation.csv"
local results = {}

local function key_of(r)
  return table.concat({ r.posterior, r.metric, r.estimator, r.schedule, r.asked, r.draws, r.seed }, " ")
end

local function load_results()
  local file = path and io.open(path)
  for line in file and file:lines() or function() end do
    local r, k = {}, 0
    for cell in (line .. ","):gmatch "([^,]*)," do
      k = k + 1
      r[columns[k]] = k > 5 and tonumber(cell) or cell
    end
    results[key_of(r)] = r
  end
  if file then
    file:close()
  end
end

local function keep(r)
  results[key_of(r)] = r
  if not path then
    return
  end
  local cells = {}
  for k, name in ipairs(columns) do
    local v = r[name]
    cells[k] = v == nil and "" or math.type(v) == "float" and ("%.6g"):format(v) or tostring(v)
  end
  local file = assert(io.open(path, "a"))
  file:write(table.concat(cells, ","), "\n")
  file:close()
end

-- ---- the table ----

local function cost(r) return r.gradients / math.min(r.bulk, r.tail, r.squares) end

-- Gradients per effective draw, the median of the seeds; ! where R-hat is above 1.01, ? where z is above 4; in brackets
-- divergences of all.
local function cell(rows)
  if #rows == 0 then
    return "-"
  end
  table.sort(rows, function(a, b) return cost(a) < cost(b) end)
  local middle, mark, divergences = cost(rows[(#rows + 1) // 2]), "", 0
  for _, r in ipairs(rows) do
    divergences = divergences + r.divergences
    mark = r.r_hat > 1.01 and "!" or mark == "" and (tonumber(r.z) or 0) > 4 and "?" or mark
  end
  return (middle >= 1000 and "%.0f%s%s" or "%.3g%s%s"):format(middle, mark,
    divergences > 0 and (" (%d)"):format(divergences) or "")
end

local ways = {}
for _, metric in ipairs(words(option.metrics)) do
  for _, estimator in ipairs { "fisher", "stan" } do
    for _, schedule in ipairs { "overlapping", "stan" } do
      ways[#ways + 1] = { metric, estimator, schedule }
    end
  end
end

load_results()
local head = ("%-42s"):format "gradients per effective draw"
for _, way in ipairs(ways) do
  head = head .. (" %12s"):format(("%s %s %s"):format(way[1]:sub(1, 4), way[2]:sub(1, 3), way[3]:sub(1, 3)))
end
print(head)
for _, entry in ipairs(models) do
  local json = wanted(entry.name) and data_of(entry)
  local data = json and entry.arguments(json)
  local line = ("%-42s"):format(entry.name)
  for _, way in ipairs(data and ways or {}) do
    local rows = {}
    for seed = 1, option.seeds do
      local r = { posterior = entry.name, metric = way[1], estimator = way[2], schedule = way[3], asked = option.warmup,
        draws = option.draws, seed = seed }
      if not results[key_of(r)] then
        run(entry, data, r)
        keep(r)
      end
      rows[seed] = results[key_of(r)]
    end
    line = line .. (" %12s"):format(cell(rows))
  end
  if data then
    print(line)
    io.stdout:flush()
  end
end
