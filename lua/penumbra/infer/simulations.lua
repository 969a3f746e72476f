--- The simulations of pn.sbc, one after another or as jobs (pn.help "penumbra.jobs").
-- help: nowhere
local core = require "penumbra.core"
local jobs = require "penumbra.jobs"
local progress = require "penumbra.progress"

local simulations = {}

-- The simulations as jobs, which are told apart by where the generator stood: lists of ranks, names and sizes.
local function simulate_jobs(o, state, simulate)
  local list, found, ess = {}, {}, {}
  for k = 1, o.simulations do
    list[k] = { simulation = k, rng_state = table.concat(state, ",") }
  end
  local results = jobs.jobs { jobs = list, results = o.results, distributed = o.distributed, progress = o.progress,
    run = function(_, k)
      local ranks, names, size = simulate(k)
      return { ranks = ranks:totable(), names = names, ess = size }
    end }
  for k, r in ipairs(results) do
    if type(r) ~= "table" or type(r.ranks) ~= "table" or type(r.names) ~= "table" or #r.ranks ~= #r.names then
      core.error(("sbc: results: %s has no ranks for simulation %d"):format(o.results, k))
    end
    found[k], ess[#ess + 1] = core.tensor(r.ranks, { dtype = "int64" }), r.ess
  end
  return found, results[1].names, ess
end

-- The simulations one after another.
local function simulate_here(where, o, simulate)
  local list, names, ess = {}, nil, {}
  local bar <close> = progress.asked(o.progress, { total = o.simulations, label = where })
  for k = 1, o.simulations do
    list[k], names, ess[#ess + 1] = simulate(k)
    if bar then
      bar:step(1, "", "simulating")
    end
  end
  return list, names, ess
end

--- all(where, o, state, simulate): a list of what simulate(k) gives first, ranks [quantities], the quantities' names,
--- and a list of effective sample sizes. state: of the default generator at the beginning.
function simulations.all(where, o, state, simulate)
  if o.results or o.distributed then
    return simulate_jobs(o, state, simulate)
  end
  return simulate_here(where, o, simulate)
end

return simulations
