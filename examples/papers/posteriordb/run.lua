--- Samples the posteriors of posteriordb with NUTS and compares means and standard deviations with its reference draws:
--- |mean - reference| <= 4 sqrt(mcse^2 + reference mcse^2) and a ratio of standard deviations within 10 %, for every row.
---
---   penumbra run.lua --data FOLDER        all posteriors below FOLDER (eight_schools-.../data.json, reference.csv)
---   penumbra run.lua --data FOLDER --only garch --draws 2000 --seed 3
---   penumbra run.lua                      without data: generated data, two models, no comparison
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local models = dofile(here .. "/models.lua")

local option = { data = false, only = false, draws = 2500, warmup = 1000, chains = 4, seed = 1, quick = false }
local k = 1
while arg and arg[k] do
  local name = arg[k]:match "^%-%-(%w+)$"
  if name == nil or option[name] == nil then
    io.stderr:write("run: unknown option ", arg[k], "\n")
    os.exit(1)
  elseif name == "quick" then
    option.quick = true
  else
    k = k + 1
    option[name] = type(option[name]) == "number" and math.tointeger(tonumber(arg[k])) or arg[k]
  end
  k = k + 1
end
if option.quick then
  option.draws, option.warmup = 300, 300
end

local function read_reference(folder)
  local rows = {}
  local first = true
  for line in io.lines(folder .. "/reference.csv") do
    local name, mean, sd, _, _, _, mcse, ess = line:match "^([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+),([^,]+)"
    if not first then
      rows[#rows + 1] = { name = name, mean = tonumber(mean), sd = tonumber(sd), mcse = tonumber(mcse),
        ess = tonumber(ess) }
    end
    first = false
  end
  return rows
end

-- Our row for a row of the reference table, and what to hold it to: heavy tails are compared by their logarithms.
local function pair(p, entry, ref)
  local log = entry.logarithms and entry.logarithms[ref.name]
  if not log then
    return p:summary()[ref.name] or error("no row " .. ref.name), ref
  end
  local row = pn.draws_summary(p.draws[ref.name]:log():unsqueeze(3))[1]:totable()
  return { mean = row[1], sd = row[2], r_hat = row[6], ess_bulk = row[7], mcse = row[9] }, log
end

local function compare(p, entry, reference)
  local worst_z, worst_ratio, least_ess, worst_r = 0, 1, math.huge, 0
  for _, line in ipairs(reference) do
    local row, ref = pair(p, entry, line)
    local z = math.abs(row.mean - ref.mean) / math.sqrt(row.mcse ^ 2 + ref.mcse ^ 2)
    local ratio = row.sd / ref.sd
    worst_z = math.max(worst_z, z)
    if math.abs(math.log(ratio)) > math.abs(math.log(worst_ratio)) then
      worst_ratio = ratio
    end
    least_ess = math.min(least_ess, math.floor(row.ess_bulk))
    worst_r = math.max(worst_r, row.r_hat)
  end
  return worst_z, worst_ratio, least_ess, worst_r
end

local function exists(path)
  local file = io.open(path)
  if file then
    file:close()
  end
  return file ~= nil
end

local function data_of(entry)
  local folder = option.data and option.data .. "/" .. entry.name
  for _, name in ipairs { "/data.json", "/data.json.gz" } do
    if folder and exists(folder .. name) then
      return assert(pn.data.json(folder .. name)), folder
    end
  end
  return entry.generate()
end

local function settings_of(entry)
  local s = { chains = option.chains, warmup = option.warmup, draws = option.draws }
  for name, v in pairs(entry.settings or {}) do
    s[name] = v
  end
  s.draws = option.quick and option.draws or s.draws
  return s
end

if not option.data then
  print "no --data: generated data of the same form, nothing to compare with"
end
print(("%-42s %4s %7s %7s %6s %7s %5s %6s  %s"):format("posterior", "dim", "z", "sd/ref", "R-hat", "ESS", "div", "s", ""))
local failed = 0
for _, entry in ipairs(models) do
  if not option.only or entry.name:find(option.only, 1, true) then
    pn.seed(option.seed)
    local json, folder = data_of(entry)
    local s = settings_of(entry)
    s.data = entry.arguments(json)
    local start = pn.clock()
    local p = pn.nuts(entry.model, s)
    local seconds = pn.clock() - start
    if folder then
      local z, ratio, ess, r = compare(p, entry, read_reference(folder))
      local good = z <= 4 and ratio > 0.9 and ratio < 1.1
      failed = failed + (good and 0 or 1)
      print(("%-42s %4d %7.2f %7.3f %6.3f %7d %5d %6.1f  %s"):format(entry.name, p.target.size, z, ratio, r, ess,
        p.divergences, seconds, good and "ok" or "MISSED"))
    else
      local ess, r = math.huge, 0
      for _, row in ipairs(p:summary()) do
        ess, r = math.min(ess, math.floor(row.ess_bulk)), math.max(r, row.r_hat)
      end
      print(("%-42s %4d %7s %7s %6.3f %7d %5d %6.1f"):format(entry.name, p.target.size, "-", "-", r, ess, p.divergences,
        seconds))
    end
    io.flush()
  end
end
os.exit(failed == 0)
