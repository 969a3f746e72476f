--- Posteriors of the group `sampling` of `make bench-peers`, and what our side measures of them. Their data go to
--- BUILD/peers-data/NAME.json, where numpyro_sampling.py and its like read them.
---
--- Keys, in seconds of processor time, 4 chains on one thread; medians of SEEDS runs, except `cold`:
---   NAME leapfrog    per leapfrog after the warm-up, log density and gradient included
---   NAME ess         per effective draw after a warm-up of 1000 (bulk; the variable that has the fewest)
---   NAME cold        from a model to rank-normalised R-hat below 1.01 of all variables: warm-up of 500, then blocks of
---                    100 draws; whatever compiles does so within
---   NAME warm        the same again, when all is compiled (ours captures its plans anew each time)
---
--- Figures: examples/papers/posteriordb/README.md.
local pn = require "penumbra"
local core = require "penumbra.core"
local models = dofile "examples/papers/posteriordb/models.lua"

local function logistic_data()
  local x = pn.concatenate({pn.ones{690, 1}, pn.randn{690, 14}}, 2)
  local y = pn.rand{690}:lt(x:matmul(pn.randn{15} * 0.5):sigmoid()):to "float64"
  return {x = x:totable(), y = y:totable()}
end

local logistic = {
  generate = logistic_data,
  arguments = function(d) return {pn.tensor(d.x), pn.tensor(d.y)} end,
  model = pn.model(function(m, x, y)
    local beta = m:sample("beta", pn.dist.normal(pn.zeros{x:size(2)}, 1):independent(1))
    m:plate("rows", x:size(1), function()
      m:observe("y", pn.dist.bernoulli{logits = x:matmul(beta)}, y)
    end)
  end),
}

local list = {
  {"eight_schools", models["eight_schools-eight_schools_noncentered"]}, {"logistic", logistic},
  {"kidiq", models["kidiq-kidscore_momiq"]}, {"arK", models["arK-arK"]}, {"gp_regr", models["gp_pois_regr-gp_regr"]},
}

local function json(v)
  if type(v) == "number" then return math.type(v) == "integer" and tostring(v) or ("%.17g"):format(v) end
  local parts = {}
  if #v > 0 then
    for k, x in ipairs(v) do parts[k] = json(x) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for k, x in pairs(v) do parts[#parts + 1] = ('"%s": %s'):format(k, json(x)) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function least(summary, column)
  local worst = column == 6 and -math.huge or math.huge
  for _, row in ipairs(summary:totable()) do
    worst = column == 6 and math.max(worst, row[6]) or math.min(worst, row[column])
  end
  return worst
end

local function sampler_of(m, args, seed, warmup, draws)
  local t, generator = m:target(table.unpack(args)), pn.generator(seed)
  local gradient = t:compiled_gradient()
  gradient(pn.zeros{t.size})
  return core.new_sampler(gradient, {chains = 4, warmup = warmup, draws = draws}, nil, generator)
end

-- Seconds until R-hat is below 1.01; to compute it is no part of them, as with the peers.
local function until_mixed(entry, args, seed)
  local start = os.clock()
  local s = sampler_of(entry.model, args, seed, 500, 5000)
  s:run(500)
  local spent = os.clock() - start
  repeat
    start = os.clock()
    s:run(100)
    spent = spent + os.clock() - start
  until s:finished() or least(core.draws_summary(s:draws()), 6) < 1.01
  return spent
end

local sampling = {json = json}

local SEEDS = 9

local function median(values)
  table.sort(values)
  return values[#values // 2 + 1]
end

local function write_data(folder, name, data)
  os.execute("mkdir -p " .. folder)
  local file = assert(io.open(("%s/%s.json"):format(folder, name), "w"))
  file:write(json(data), "\n")
  file:close()
end

--- sampling.each(folder, f): f(name, entry, args) for each posterior, its data written where the peers read them.
function sampling.each(folder, f)
  for _, row in ipairs(list) do
    local name, entry = row[1], row[2]
    pn.seed(1)
    local data = entry.generate()
    write_data(folder, name, data)
    f(name, entry, entry.arguments(data))
  end
end

function sampling.measure(print_row, folder, wanted)
  sampling.each(folder, function(name, entry, args)
    if not wanted(name) then return end
    local warm, leapfrog, ess = {}, {}, {}
    print_row(name .. " cold", "replayed", until_mixed(entry, args, 100))
    for seed = 1, SEEDS do
      warm[seed] = until_mixed(entry, args, seed)
      local s = sampler_of(entry.model, args, seed, 1000, 1000)
      s:run(1000)
      local start = os.clock()
      s:run(1000)
      local spent = os.clock() - start
      leapfrog[seed] = spent / s:statistics():slice(3, 5, 5):sum():item()
      ess[seed] = spent / least(core.draws_summary(s:draws()), 7)
    end
    print_row(name .. " warm", "replayed", median(warm))
    print_row(name .. " leapfrog", "replayed", median(leapfrog))
    print_row(name .. " ess", "replayed", median(ess))
  end)
end

return sampling
