--- Counts with a gamma rate, and draws of its exact posterior.
local pn = require "penumbra"
local dist = pn.dist
local poisson_rate = {}

poisson_rate.model = pn.model(function(m, n)
  local lambda = m:sample("lambda", dist.gamma(3, 2))
  m:plate("rows", n, function() m:observe("y", dist.poisson(lambda)) end)
end)

function poisson_rate.exact(observed, n)
  return { lambda = dist.gamma(3 + observed.y:sum():item(), 2 + observed.y:numel()):sample { n } }
end

return poisson_rate
