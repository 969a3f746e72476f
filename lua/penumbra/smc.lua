--- Sequential Monte Carlo, and the exact filters that prove it.
---
---     local s = pn.smc{num_particles = 500, resampling = "systematic", threshold = 0.5}     -- a step machine
---     pn.smc.kalman  .hmm  .rbpf  ...                                                       -- parts of their own
---     pn.smc.filter(model, {data =, values =})      a pn.model with m:scan as a particle filter
---     pn.smc.pmmh .smc2 .particle_gibbs .liu_west   its parameters, (model, {data =})
---     pn.smc.sample(model, {data =})                an SMC sampler of any pn.model, with its evidence
---
--- More by pn.help "penumbra.smc.machine" and the names of the parts.
-- help: pn.smc, part
local core = require "penumbra.core"

local smc = {}

-- namespaces below this one, each a module of its own
local parts = {
  kalman = true,
  structural = true,
  hmm = true,
}
-- single functions: name -> the module that has them
local members = {
  elbo = "sequential_bound",
  ensemble = "ensemble",
  exact_filter = "filter",
  extended = "nonlinear",
  filter = "filter",
  fivo = "sequential_bound",
  gaspari_cohn = "ensemble",
  iwae = "sequential_bound",
  linear_system = "system",
  liu_west = "liu_west",
  particle_gibbs = "gibbs",
  pmmh = "pmmh",
  rbpf = "rbpf",
  resample = "machine",
  sample = "tempering",
  schemes = "machine",
  smc2 = "nested",
  unscented = "nonlinear",
  vsmc = "sequential_bound",
  transport = "transport",
}

local function lazy_names()
  local names = {}
  for _, list in ipairs { parts, members } do
    for name in pairs(list) do
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

setmetatable(smc, {
  lazy = lazy_names(), -- what pairs does not see yet
  __index = function(_, name)
    local part, home = parts[name], members[name]
    if part then
      smc[name] = core.namespace("pn.smc." .. name, require("penumbra.smc." .. name))
    elseif home then
      smc[name] = core.public(require("penumbra.smc." .. home)[name])
    else
      return core.missed("pn.smc", name)
    end
    return rawget(smc, name)
  end,
  __call = function(_, given)
    local made = require("penumbra.smc.machine").new(given) -- no tail call: errors tell the script's line
    return made
  end,
})

return core.namespace("pn.smc", smc, lazy_names())
