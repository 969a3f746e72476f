--- Where the nats go that amortised inference loses: what the best posterior is that may not see all of the data, what
--- it costs, exactly where there is a closed form, and measured for anybody's model (Bayer, Soelch, Mirchev, Kayalibay
--- & van der Smagt 2021, "Mind the gap when conditioning amortised inference in sequential latent-variable models";
--- Cremer, Li & Duvenaud 2018).
---
---     local s = pn.gap.shared_posterior{loc = {-1, 1}, variance = {0.25, 1}}       s.loc, s.variance, s.gap
---     local g = pn.gap.linear_gaussian(system, {steps = 25, conditioning = "partial"})     g.gap, g.bound
---     local h = pn.gap.discrete{initial =, transition =, emission =, steps = 3}     h.bound.optimal, ...
---     local report = pn.gap.measure(model, inference, data)                         print(report)
---     local world = pn.gap.flights()                                                world:sample(100)
-- help: pn.gap, part
local face = require "penumbra.face"

local gap = {}

-- single functions: name -> the module that has them
local members = {
  ceiling = "surrogate",
  discrete = "discrete",
  flights = "surrogate",
  glyph_rows = "surrogate",
  linear_gaussian = "linear_gaussian",
  marginal_fit = "marginal_fit",
  measure = "measure",
  mask = "mask",
  shared_posterior = "shared_posterior",
  split = "shared_posterior",
  traffic_days = "surrogate",
  univariate = "shared_posterior",
}

return (face("pn.gap", gap, "penumbra.gap.", members))
