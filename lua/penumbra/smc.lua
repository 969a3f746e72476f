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
local face = require "penumbra.face"

local smc = {}

-- namespaces below this one, each a module of its own
local parts = {
  kalman = "kalman",
  structural = "structural",
  hmm = "hmm",
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

setmetatable(smc, { __call = function(_, given)
  local made = require "penumbra.smc.machine".new(given) -- no tail call: errors tell the script's line
  return made
end })

return (face("pn.smc", smc, "penumbra.smc.", members, parts))
