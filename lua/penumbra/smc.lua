--- Sequential Monte Carlo, and the exact filters that prove it.
---
---     local s = pn.smc{num_particles = 500, resampling = "systematic", threshold = 0.5}     -- a step machine
---     pn.smc.kalman  .hmm  .rbpf  ...                                                       -- parts of their own
---
--- More by pn.help "penumbra.smc.machine" and the names of the parts.
local core = require "penumbra.core"

local smc = {}

-- namespaces below this one, each a module of its own
local parts = {}
-- single functions: name -> the module that has them
local members = { filter = "filter", exact_filter = "filter", resample = "machine", schemes = "machine" }
-- Rao-Blackwellised filters and the bounds of filters
members.rbpf = "rbpf"
for _, name in ipairs { "elbo", "iwae", "fivo", "vsmc" } do
  members[name] = "sequential_bound"
end

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
    return require("penumbra.smc.machine").new(given)
  end,
})

return core.namespace("pn.smc", smc, lazy_names())
