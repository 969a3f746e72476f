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
--- Other options: --chains 4, --warmup 1000, --ess 4000 (draws are added until the least bulk ESS of a posterior is so
--- large), --guides mean_field,full_rank,flow (or none), --steps 50000 (of a guide), --sampler smc (an SMC sampler,
--- pn.smc.sample, in place of NUTS), --quick.
---
--- NUTS passes a posterior when for every row of the reference |mean - reference| <= 4 sqrt(mcse^2 + reference mcse^2)
--- (z is the left side over the root, the largest of the rows) and the ratio of standard deviations lies within 10 % of
--- 1 (sd: the worst). q is the same for quantiles: the largest |F - p| / sqrt(p (1 - p) (1 / ESS + 1 / reference ESS))
--- over rows and p = 5, 50, 95 %, where F is the share of our draws at or below the reference quantile. All chains
--- count. A guide is not expected to pass. Of it: the largest error of a mean in standard deviations of the reference,
--- the least and the largest ratio of standard deviations, and k-hat of its importance weights, above 0.7 where
--- weighting cannot mend it. "wrong" stands where an error exceeds 0.2 or a ratio lies beyond 20 %.
---
--- With --sampler smc, 2500 particles at first and --seed 1 (draws: particles; an ESS that counts siblings as one):
---
---   posterior            dim draws    z    sd     q        ESS         s
---   kidscore_momiq         3  4685 1.55 0.978  1.38       4686       1.8
---   kidscore_interaction   5  5829 2.02 1.005  1.47       4949       2.2
---   logearn_height         3  4755 1.57 1.003  2.22       4658       4.2
---   logmesquite            8  4871 1.47 0.980  1.95       4644       0.4
---   nes                   10  5382 2.01 1.020  2.13       4742       0.6
---   blr                    6  5221 1.40 1.015  1.96       5189       6.3
---   arK                    7  5410 1.69 0.980  1.76       5162       5.7
---   garch11                4  5824 1.87 0.970  3.94       5792       1.0
---   eight_schools         10  5288 2.08 1.026  2.69       4518       0.6
---   gp_regr                3  5112 1.15 1.040  2.67       5062       0.5
---
--- The others were not run by it.
---
--- Measured with --seed 1, 4 chains, warm-up 1000 and the draws of each chain that the ESS asked for (s: seconds of the
--- last run, on two cores that others used too). Every posterior passes.
---
---   posterior            dim draws    z    sd     q R-hat   ESS div     s
---   kidscore_momiq         3  3912 1.80 1.019  2.03 1.001  4790   0   8.1
---   kidscore_interaction   5  5339 1.17 0.991  1.79 1.001  4554   0  40.6
---   logearn_height         3  4832 0.76 0.989  0.76 1.001  4640   0  53.2
---   logmesquite            8  2500 1.43 1.012  1.29 1.001  4131   0   1.4
---   nes                   10  3023 2.09 0.968  1.89 1.001  4731   0  19.7
---   blr                    6  5240 0.78 1.009  2.03 1.001  4833   0   3.8
---   diamonds              26  2500 2.39 0.972  2.81 1.002 11380   0   3.9
---   kilpisjarvi            3  4134 1.15 0.975  1.63 1.001  4879   0  20.3
---   arK                    7  2500 1.49 1.021  2.29 1.001  5791   0   5.8
---   garch11                4  2500 1.05 0.979  2.06 1.001  4927   0  13.1
---   hmm_drive_0            6  2500 1.48 0.978  2.40 1.000 10696   0  23.7
---   eight_schools         10  2500 1.53 1.026  2.78 1.000  5632   5   0.7
---   low_dim_gauss_mix      5  2500 1.98 0.988  1.97 1.001  9133   0   8.7
---   gp_regr                3  2500 1.22 0.983  2.00 1.000  8798   0   1.8
---   gp_pois_regr          13  3430 1.46 1.031  2.52 1.001  4623  23  32.3
---   lotka_volterra         8  2500 1.25 1.022  1.98 1.001 11102   0  32.9
---   one_comp_mm_elim_abs   4  5000 1.88 0.928  1.72 1.001  7549   1  94.6
---
--- Guides after 50,000 steps of 4 particles, 10,000 draws: k-hat, the largest error of a mean, the least
--- and the largest ratio of standard deviations; * is wrong. Independent normals are too narrow wherever columns are
--- correlated, by up to a factor of hundreds; full rank and flow are right but for the worst scaled (diamonds,
--- kilpisjarvi, kidscore_interaction, whose optimisation may not have ended) and for tails (gp_pois_regr,
--- eight_schools).
---
---                        mean-field                full-rank                 flow
---   posterior            k-hat  error  sd          k-hat  error  sd          k-hat  error  sd
---   kidscore_momiq        0.81   0.03 0.15  0.98*  0.21   0.02 0.98  0.99   0.48   0.04 0.98  0.99
---   kidscore_interaction  0.95   1.11 0.06  0.99*  0.45   1.04 0.87  1.00*  0.53   0.07 0.78  1.00*
---   logearn_height        0.86   0.01 0.06  0.99*  0.24   0.02 0.97  0.99   0.12   0.06 0.97  1.00
---   logmesquite           1.05   0.02 0.22  0.90*  0.65   0.04 0.91  0.97   0.75   0.04 0.95  0.98
---   nes                   0.98   0.02 0.12  0.99*  0.45   0.03 0.98  1.01   0.32   0.04 0.92  0.99
---   blr                   0.83   0.12 0.47  0.96*  0.50   0.12 0.97  1.18   0.11   0.15 0.98  1.01
---   diamonds              1.23   6.33 0.01  1.00*  3.82  17.32 0.31  1.20*  1.01   2.65 0.01  1.00*
---   kilpisjarvi           0.92   1.96 0.00  0.99*  1.12   3.74 1.69  1.75*  0.89   1.49 0.22  0.97*
---   arK                   1.14   0.04 0.23  0.99*  0.43   0.03 0.98  1.01   0.54   0.04 0.96  1.00
---   garch11               0.74   0.07 0.51  0.93*  0.68   0.03 0.89  0.97   0.89   0.02 0.98  1.00
---   hmm_drive_0           0.72 299.16 0.73 92.03*  0.64   0.06 0.97  1.08   0.56   0.05 0.97  1.08
---   eight_schools         0.54   0.23 0.76  1.01*  0.56   0.19 0.80  1.01*  0.76   0.03 0.98  1.14
---   low_dim_gauss_mix     0.69   0.03 0.80  1.16*  0.25   0.05 0.97  1.00   0.21   0.08 0.97  0.99
---   gp_regr               0.54   0.02 0.99  1.03   0.52   0.02 0.99  1.03   0.56   0.02 0.99  1.03
---   gp_pois_regr          1.44   1.03 0.04  1.92*  0.83   0.40 0.37  1.17*  0.68   0.12 0.73  1.07*
---   lotka_volterra        0.96   0.08 0.15  0.89*  0.64   0.04 0.90  0.96   0.70   0.03 0.93  0.98
---   one_comp_mm_elim_abs  0.70   0.30 0.46  0.92*  0.71   0.18 0.59  0.91*  0.46   0.05 0.83  0.96
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local models = dofile(here .. "/models.lua")

-- ---- the command line ----

local option = { data = false, only = false, out = false, draws = 2500, warmup = 1000, chains = 4, ess = 4000, seed = 1,
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
  s.chains, s.warmup, s.draws, s.data = option.chains, option.warmup, draws, data
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
    return ("%d chains; warm-up %d; draws %d; ESS %d; seed %d"):format(option.chains, option.warmup, option.draws,
      option.ess, option.seed)
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
