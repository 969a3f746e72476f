--- Funnels: where the scale of a variable is itself a variable, and data say little, no step size suits both ends. What
--- `pn.diagnose` advises, and what the advice is worth: Neal's funnel (its law is known), eight schools, and the
--- regression of nes with intercepts and slopes by groups of age, each as written (centred), with a smaller step
--- (target_accept = 0.99) and as advised (a standard variable that is scaled and shifted).
---
---   penumbra funnels.lua --data FOLDER              FOLDER holds posteriordb's nes1980-nes and eight_schools-...
---   penumbra funnels.lua                            generated data of the same form
---   penumbra funnels.lua --quick                    seconds
---
--- Other options: --draws 2500 (of each of four chains), --seeds 3, --warmup (the sampler's own), --metric diagonal,
--- --estimator stan, --schedule stan. What was found: README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local models = dofile(here .. "/models.lua")
local experiment = dofile(here .. "/../continual/experiment.lua")
local dist = pn.dist

local option = experiment.options({ data = "", draws = 2500, seeds = 3, warmup = 0, metric = "low_rank",
  estimator = "fisher", schedule = "overlapping" },
  { draws = 50, seeds = 1, warmup = 50 })

local function data_of(name)
  for _, entry in ipairs(models) do
    if entry.name == name then
      return option.data == "" and entry.generate()
        or assert(pn.data.json(("%s/%s/data.json"):format(option.data, name)))
    end
  end
end

-- n values of a normal law of this mean and scale: as they stand, or scaled and shifted from standard ones.
local function normals(m, name, mean, scale, centred)
  if centred then
    return m:sample(name, dist.normal(mean, scale))
  end
  return m:deterministic(name, mean + scale * m:sample(name .. "_standard", dist.normal(0, 1)))
end

-- Each: the model by whether it is centred, its data, the variable to look at, its law where it is known.
local function neal(centred)
  return pn.model(function(m)
    local v = m:sample("v", dist.normal(0, 3))
    m:plate("rows", 9, function() normals(m, "x", 0, (v / 2):exp(), centred) end)
  end)
end

local function schools(centred)
  return pn.model(function(m, sigma, y)
    local mu, tau = m:sample("mu", dist.normal(0, 5)), m:sample("tau", dist.half_cauchy(5))
    m:plate("schools", y:size(1), function()
      m:observe("y", dist.normal(normals(m, "theta", mu, tau, centred), sigma), y)
    end)
  end)
end

local function ages(centred)
  return pn.model(function(m, x, ideology, age, y)
    local beta, sigma = m:flat("beta", "real", { x:size(2) }), m:flat("sigma", "positive")
    local level, slope = m:sample("level", dist.half_normal(1)), m:sample("slope", dist.half_normal(1))
    local a, b
    m:plate("ages", 4, function()
      a, b = normals(m, "a", 0, level, centred), normals(m, "b", 0, slope, centred)
    end)
    m:plate("rows", x:size(1), function()
      m:observe("y", dist.normal(x:matmul(beta) + a:take(1, age) + b:take(1, age) * ideology, sigma), y)
    end)
  end)
end

local function ages_data()
  local d = data_of "nes1980-nes"
  local function column(name) return pn.tensor(d[name], { dtype = "float64" }) end
  local age, ideology = pn.tensor(d.age_discrete):to "int64", column "real_ideo"
  local x = pn.stack({ pn.ones { age:size(1) }, ideology, column "race_adj", column "educ1", column "gender",
    column "income" }, 2)
  return { x, ideology - ideology:mean(), age - 1, column "partyid7" }
end

local function schools_data()
  local d = data_of "eight_schools-eight_schools_noncentered"
  return { pn.tensor(d.sigma, { dtype = "float64" }), pn.tensor(d.y, { dtype = "float64" }) }
end

local cases = {
  { "Neal's funnel", neal, {}, "v", "0, 3" },
  { "eight schools", schools, schools_data(), "tau" },
  { "nes by age", ages, ages_data(), "slope" },
}

-- The least effective sample size of bulk and tails over all numbers of draws [chains, draws, n]; 1 if there is none.
local function least_effective(z)
  local low = math.huge
  for _, row in ipairs(pn.infer.summary { z = z }) do
    local least = math.min(row.ess_bulk, row.ess_tail)
    low = least == least and math.min(low, least) or 1
  end
  return low
end

-- Gradients, warm-up included, an effective draw of bulk and tails; divergences; R-hat; `watched`'s mean and deviation.
local function run(model, data, watched, accept)
  local cost, divergences, r_hat, mean, sd = {}, 0, 0, 0, 0
  for seed = 1, option.seeds do
    pn.seed(seed)
    local p = pn.nuts(model, { data = data, draws = option.draws, target_accept = accept,
      warmup = option.warmup > 0 and option.warmup or nil, metric = option.metric, estimator = option.estimator,
      schedule = option.schedule })
    local row = p:summary()[watched]
    cost[seed] = p.gradients / least_effective(p.unconstrained)
    divergences, r_hat = divergences + p.divergences, math.max(r_hat, row.r_hat)
    mean, sd = mean + row.mean / option.seeds, sd + row.sd / option.seeds
  end
  table.sort(cost)
  return ("%9.1f  %11d  %6.3f  %7.3f  %7.3f"):format(cost[(#cost + 1) // 2], divergences, r_hat, mean, sd)
end

print(("%d draws of four chains, %d seeds: gradients an effective draw (median), divergences (of all), the worst R-hat"
  ):format(option.draws, option.seeds))
print(("%-34s %9s  %11s  %6s  %7s  %7s"):format("", "gradients", "divergences", "R-hat", "mean", "sd"))
for _, case in ipairs(cases) do
  local name, maker, data, watched, known = table.unpack(case, 1, 5)
  print(("%s: %s%s"):format(name, watched, known and " (in truth " .. known .. ")" or ""))
  for _, advice in ipairs(pn.diagnose(maker(true), { data = data, draws = 10 }).advice) do
    print("  " .. advice.message)
  end
  print(("  %-32s %s"):format("as written", run(maker(true), data, watched)))
  print(("  %-32s %s"):format("target_accept = 0.99", run(maker(true), data, watched, 0.99)))
  print(("  %-32s %s"):format("as advised", run(maker(false), data, watched)))
  io.stdout:flush()
end
