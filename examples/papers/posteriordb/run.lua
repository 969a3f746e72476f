--- The posteriors of posteriordb, whose means and standard deviations others computed: sampled by NUTS and compared
--- with the reference draws, and beside it three variational guides, whose errors are measured.
---
---   penumbra run.lua --data FOLDER                  all posteriors below FOLDER (eight_schools-.../data.json,
---                                                   reference.csv)
---   penumbra run.lua --data FOLDER --only garch,arK --draws 2000 --seed 3
---   penumbra run.lua --data FOLDER --out results    results/results.csv, guides.svg: rows that are there are not run
---                                                   again
---   penumbra run.lua                                generated data of the same form, nothing to compare with
---
--- Other options: --chains 4, --warmup (the sampler's own unless given), --metric low_rank (or diagonal, dense), --ess
--- 4000 (draws are added until the least bulk ESS of a posterior is so large), --guides mean_field,full_rank,flow (or
--- none), --steps 50000 (of a guide), --sampler smc (an SMC sampler, pn.smc.sample, in place of NUTS), --quick.
---
--- What passes and what was found: README.md, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local models = dofile(here .. "/models.lua")
dofile(here .. "/../continual/experiment.lua").checked(arg)

-- ---- the command line ----

local option = { data = false, only = false, out = false, draws = 2500, warmup = -1, metric = "low_rank",
  chains = 4, ess = 4000, seed = 1,
  guides = "mean_field,full_rank,flow", steps = 50000, sampler = "nuts", quick = false }
local k = 1
while arg and arg[k] do
  local name = arg[k]:match "^%-%-(%w+)$"
  local value = arg[k + 1]
  if name == "quick" then
    option.quick = true
  elseif name == nil or option[name] == nil or value == nil then
    io.stderr:write("run: ", name and option[name] ~= nil and "no value for " or "unknown option ", arg[k], "\n")
    os.exit(1)
  elseif type(option[name]) == "number" then
    option[name] = math.tointeger(tonumber(value)) or option[name]
    k = k + 1
  else
    option[name] = value
    k = k + 1
  end
  k = k + 1
end
if option.sampler ~= "nuts" and option.sampler ~= "smc" then
  io.stderr:write("run: --sampler must be nuts or smc, got ", option.sampler, "\n")
  os.exit(1)
end
if option.quick then
  option.chains, option.draws, option.warmup, option.ess, option.steps = 2, 200, 200, 0, 100
end

local function listed(text)
  local list = {}
  for word in text:gmatch "[^,]+" do
    list[#list + 1] = word
  end
  return list
end

local methods = { option.sampler }
for _, name in ipairs(option.guides ~= "none" and listed(option.guides) or {}) do
  methods[#methods + 1] = name
end

local function wanted(name)
  if not option.only then
    return true
  end
  for _, part in ipairs(listed(option.only)) do
    if name:find(part, 1, true) then
      return true
    end
  end
  return false
end

-- ---- data and references ----

local function exists(path)
  local file = io.open(path)
  if file then
    file:close()
  end
  return file ~= nil
end

-- The data of a posterior and its folder, or nil where a folder was named and lacks it.
local function data_of(entry)
  if not option.data then
    return entry.generate()
  end
  local folder = option.data .. "/" .. entry.name
  for _, name in ipairs { "/data.json", "/data.json.gz" } do
    if exists(folder .. name) then
      return assert(pn.data.json(folder .. name)), folder
    end
  end
end

-- Rows {name, mean, sd, q05, q50, q95, mcse, ess}; heavy tails are held to the moments of their logarithms (site
-- `log`).
local function read_reference(entry, folder)
  local rows, columns = {}, nil
  for line in io.lines(folder .. "/reference.csv") do
    local cells = listed(line)
    if not columns then
      columns = cells
    else
      local row = { name = cells[1] }
      for j = 2, #cells do
        row[columns[j]] = tonumber(cells[j])
      end
      row.mcse = row.mcse_mean
      local log = entry.logarithms and entry.logarithms[row.name]
      if log then
        row.mean, row.sd, row.mcse, row.log = log.mean, log.sd, log.mcse, "log_" .. row.name
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- All draws of one number, as a vector: column_of({beta = [n, 2]}, "beta[2]").
local function column_of(draws, name)
  local site, place = name:match "^([^%[]+)%[(%d+)%]$"
  local values = draws[site or name]
  return values:reshape({ values:size(1), -1 }):select(2, math.tointeger(place) or 1)
end

-- ---- NUTS, or an SMC sampler ----

local function has_priors(entry, data)
  return (pcall(function() entry.model:target(table.unpack(data)):draw_priors(1) end))
end

-- Particles are led from the priors, or where there are none from what a short fit knows of the posterior.
local function sample_particles(entry, data, draws)
  local start = "prior"
  if not has_priors(entry, data) then
    local guide = pn.infer.guide("full_rank", { init = entry.settings and entry.settings.init or nil })
    start = pn.svi(entry.model, guide, { data = data, steps = 2000, draws = 4 })
  end
  return pn.smc.sample(entry.model, { data = data, num_particles = draws, start = start })
end

local function sample(entry, data, draws)
  if option.sampler == "smc" then
    return sample_particles(entry, data, draws)
  end
  local s = {}
  for name, value in pairs(entry.settings or {}) do
    s[name] = value
  end
  s.chains, s.draws, s.data, s.metric = option.chains, draws, data, option.metric
  s.warmup = option.warmup >= 0 and option.warmup or nil
  return pn.nuts(entry.model, s)
end

-- The rows of the summary that count: those of the reference, or of all latent variables.
local function rows_of(p, reference)
  local summary, rows = p:summary(not reference and p.latent or nil), {}
  for i, ref in ipairs(reference or summary) do
    rows[i] = assert(summary[ref.log or ref.name], ref.name)
  end
  return rows
end

local function least_ess(rows)
  local least = math.huge
  for _, row in ipairs(rows) do
    least = math.min(least, row.ess_bulk)
  end
  return math.floor(least)
end

-- The largest standardised error of a share of draws at or below a reference quantile.
local function quantile_error(p, reference, rows)
  local worst, draws = 0, {}
  for name, t in pairs(p.draws) do
    draws[name] = t:reshape { t:size(1) * t:size(2), -1 }
  end
  for i, ref in ipairs(reference) do
    local column = column_of(draws, ref.name)
    for name, level in pairs { q05 = 0.05, q50 = 0.5, q95 = 0.95 } do
      if ref[name] then
        local share = column:le(ref[name]):to("float64"):mean():item()
        worst = math.max(worst, math.abs(share - level)
          / math.sqrt(level * (1 - level) * (1 / rows[i].ess_bulk + 1 / ref.ess)))
      end
    end
  end
  return worst
end

local function run_nuts(entry, data, reference)
  local known = entry.settings and entry.settings.draws or 0 -- how many it is known to need
  local draws = option.quick and option.draws or math.max(option.draws, known)
  local p = sample(entry, data, draws)
  local rows = rows_of(p, reference)
  while least_ess(rows) < option.ess do -- the same chains, longer
    draws = math.ceil(draws * math.max(1.2, 1.15 * option.ess / least_ess(rows)))
    pn.seed(option.seed)
    p = sample(entry, data, draws)
    rows = rows_of(p, reference)
  end
  local result = { draws = draws, r_hat = 0, ess = least_ess(rows), divergences = p.divergences or 0,
    seconds = p.seconds, dim = p.target.size }
  for _, row in ipairs(rows) do
    result.r_hat = math.max(result.r_hat, row.r_hat)
  end
  if reference then
    result.z, result.sd = 0, 1
    for i, ref in ipairs(reference) do
      local ratio = rows[i].sd / ref.sd
      result.z = math.max(result.z, math.abs(rows[i].mean - ref.mean) / math.sqrt(rows[i].mcse ^ 2 + ref.mcse ^ 2))
      result.sd = math.abs(math.log(ratio)) > math.abs(math.log(result.sd)) and ratio or result.sd
    end
    result.q = quantile_error(p, reference, rows)
    result.verdict = result.z <= 4 and result.sd > 0.9 and result.sd < 1.1 and "ok" or "MISSED"
  end
  return result
end

-- ---- guides ----

local function run_guide(entry, name, data, reference)
  local start = pn.clock()
  local fit = pn.svi(entry.model, pn.infer.guide(name, { init = entry.settings and entry.settings.init or nil }),
    { data = data, steps = option.steps, draws = 4 })
  local result = { seconds = pn.clock() - start, k_hat = fit:k_hat(10000), draws = option.steps }
  if reference then
    local draws = fit:sample(10000)
    result.error, result.low, result.high = 0, math.huge, 0
    for _, ref in ipairs(reference) do
      local column = column_of(draws, ref.log or ref.name)
      local ratio = column:std():item() / ref.sd
      result.error = math.max(result.error, math.abs(column:mean():item() - ref.mean) / ref.sd)
      result.low, result.high = math.min(result.low, ratio), math.max(result.high, ratio)
    end
    result.verdict = (result.error > 0.2 or result.low < 0.8 or result.high > 1.2) and "wrong" or "right"
  end
  return result
end

-- ---- what was measured, kept in a file ----

local columns = { "posterior", "method", "settings", "dim", "draws", "z", "sd", "q", "r_hat", "ess", "divergences",
  "error", "low", "high", "k_hat", "seconds", "verdict" }
local results, path = {}, option.out and option.out .. "/results.csv"

local function settings_text(method)
  if method == "smc" then
    return ("draws %d; ESS %d; seed %d"):format(option.draws, option.ess, option.seed)
  elseif method == "nuts" then
    return ("%s; %d chains; warm-up %s; draws %d; ESS %d; seed %d"):format(option.metric, option.chains,
      option.warmup < 0 and "by itself" or option.warmup, option.draws, option.ess, option.seed)
  end
  return ("%d steps; seed %d"):format(option.steps, option.seed)
end

local function key_of(r) return r.posterior .. " " .. r.method .. " " .. r.settings end

local function read_results()
  local first = true
  for line in io.lines(path) do
    local r, j = {}, 0
    for cell in (line .. ","):gmatch "([^,]*)," do
      j = j + 1
      r[columns[j] or ""] = cell ~= "" and (tonumber(cell) or cell) or nil
    end
    if not first then
      results[key_of(r)] = r
    end
    first = false
  end
end

local function write_result(r)
  results[key_of(r)] = r
  if not path then
    return
  end
  local new = not exists(path)
  local file = assert(io.open(path, "a"))
  if new then
    file:write(table.concat(columns, ","), "\n")
  end
  local cells = {}
  for j, name in ipairs(columns) do
    local v = r[name]
    cells[j] = v == nil and "" or math.type(v) == "float" and ("%.6g"):format(v) or tostring(v)
  end
  file:write(table.concat(cells, ","), "\n")
  file:close()
end

-- ---- tables and picture ----

local function shown(format, v)
  local width = format:match "%d+"
  return v == nil and ("%" .. width .. "s"):format "-" or format:format(v)
end

local function print_nuts(r)
  print(("%-42s %3s %6s %6s %6s %6s %6s %7s %4s %6s  %s"):format(r.posterior, shown("%3d", r.dim),
    shown("%6d", r.draws), shown("%6.2f", r.z), shown("%6.3f", r.sd), shown("%6.2f", r.q), shown("%6.3f", r.r_hat),
    shown("%7d", r.ess), shown("%4d", r.divergences), shown("%6.1f", r.seconds), r.verdict or ""))
  io.flush()
end

local function print_guides(name, list)
  local line = ("%-42s"):format(name)
  for _, r in ipairs(list) do
    line = line .. (" %5s %5s %5s %5s%s"):format(shown("%5.2f", r.k_hat), shown("%5.2f", r.error),
      shown("%5.2f", r.low), shown("%5.2f", r.high), r.verdict == "wrong" and "*" or " ")
  end
  print(line)
end

-- Three panels with a line for each posterior: k-hat, errors of means, ratios of standard deviations.
local function picture(file, names, of)
  local n, panels = #names, {}
  local short, blank = {}, {}
  for i, name in ipairs(names) do
    short[i], blank[i] = name:match("%-(.*)$"):gsub("_noncentered", ""), ""
  end
  local function panel(more, mark)
    for j = 2, #methods do
      local list, at = {}, {}
      for i, name in ipairs(names) do
        local r = of(name, methods[j])
        if r and r.error then
          list[#list + 1], at[#at + 1] = r, i + (j - 3) * 0.2
        end
      end
      for _, m in ipairs { mark(list, at, methods[j]:gsub("_", "-")) } do
        more[#more + 1] = m
      end
    end
    more.y_range, more.y_names, more.legend = { n + 1, 0 }, #panels == 0 and short or blank, "below"
    panels[#panels + 1] = pn.plot.panel(more)
  end
  local function field(list, name, low, high)
    local values = {}
    for i, r in ipairs(list) do
      values[i] = math.min(high, math.max(low, r[name]))
    end
    return values
  end
  local function bar(x)
    return pn.plot.line({ x, x }, { 0, n + 1 }, { colour = "#888888", dashed = true, width = 1 })
  end
  panel({ x_label = "k-hat", bar(0.7) }, function(list, at, name)
    return pn.plot.points(field(list, "k_hat", -1, 3), at, { label = name })
  end)
  panel({ x_label = "worst mean: error / sd", x_log = true, x_range = { 0.005, 200 }, bar(0.2) },
    function(list, at, name) return pn.plot.points(field(list, "error", 0.005, 200), at, { label = name }) end)
  local shade = { "#2f6db3", "#d9752b", "#3a9276" }
  local drawn = 0
  panel({ x_label = "least, largest ratio of sd", x_log = true, x_range = { 0.005, 20 }, bar(1) },
    function(list, at, name)
      drawn = drawn + 1
      local low, high, marks = field(list, "low", 0.005, 20), field(list, "high", 0.005, 20), {}
      local colour = shade[(drawn - 1) % #shade + 1]
      for i, y in ipairs(at) do
        marks[i] = pn.plot.line({ low[i], high[i] }, { y, y }, { colour = colour, width = 1.5 })
      end
      marks[#marks + 1] = pn.plot.points(low, at, { colour = colour, label = name })
      marks[#marks + 1] = pn.plot.points(high, at, { colour = colour })
      return table.unpack(marks)
    end)
  return pn.plot.save(file, panels, { columns = 3, size = { 1250, 90 + 26 * n },
    title = "Posteriors of posteriordb: what variational guides make of them" })
end

-- ---- all of it ----

if path and exists(path) then
  read_results()
end
if not option.data then
  print "no --data: generated data of the same form, nothing to compare with"
end
print(("%-42s %3s %6s %6s %6s %6s %6s %7s %4s %6s"):format(option.sampler:upper(), "dim", "draws", "z", "sd", "q",
  "R-hat", "ESS", "div", "s"))
local names, failed, lost = {}, 0, {}
local function find(name, method) return results[name .. " " .. method .. " " .. settings_text(method)] end

for _, entry in ipairs(models) do
  local json, folder = data_of(entry)
  if wanted(entry.name) and not json then
    lost[#lost + 1] = entry.name
  elseif wanted(entry.name) then
    names[#names + 1] = entry.name
    local data = entry.arguments(json)
    local reference = folder and read_reference(entry, folder)
    for _, method in ipairs(methods) do
      if not find(entry.name, method) then
        pn.seed(option.seed)
        local ok, r
        if method == option.sampler then
          r = run_nuts(entry, data, reference)
        else
          ok, r = pcall(run_guide, entry, method, data, reference)
          r = ok and r or { verdict = "failed: " .. tostring(r):gsub("[,\n]", " ") }
        end
        r.posterior, r.method, r.settings = entry.name, method, settings_text(method)
        write_result(r)
      end
    end
    local r = find(entry.name, option.sampler)
    failed = failed + (r.verdict == "MISSED" and 1 or 0)
    print_nuts(r)
  end
end

if #methods > 1 then
  local head, sub = ("%-42s"):format "\nguides", ("%-42s"):format ""
  for j = 2, #methods do
    head = head .. (" %-24s"):format(methods[j])
    sub = sub .. (" %5s %5s %5s %5s "):format("k-hat", "error", "sd", "")
  end
  print(head .. "\n" .. sub)
  for _, name in ipairs(names) do
    local list = {}
    for j = 2, #methods do
      list[j - 1] = find(name, methods[j])
      if list[j - 1].verdict and list[j - 1].verdict:find "^failed" then
        print(("  %s, %s %s"):format(name, methods[j], list[j - 1].verdict))
      end
    end
    print_guides(name, list)
  end
  if option.out and option.data then
    for _, kind in ipairs { "svg", "png" } do
      local ok, message = picture(("%s/guides.%s"):format(option.out, kind), names, find)
      print(ok or message)
    end
  end
end
for _, name in ipairs(lost) do
  print(name .. ": no data below " .. option.data)
end
os.exit(failed == 0)
