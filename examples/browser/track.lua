-- Where is the mouse? It is seen with noise whose tails are heavy, and moves on as it did, more or less.
local pn = require "penumbra"
local dist, N = pn.dist, 2000

local filter = pn.smc.filter { num_particles = N, threshold = 0.5, trace = false,
  init = function(n)
    return { place = pn.rand { n, 2 }, speed = pn.randn { n, 2 } * 0.01 }
  end,
  step = function(x)
    local speed = x.speed * 0.9 + pn.randn { N, 2 } * 0.012
    return { place = x.place + speed, speed = speed }
  end,
  log_weight = function(x, y)
    return dist.student_t(4, x.place, 0.03):log_prob(y):sum(-1)
  end }

-- A step; what the page draws: the particles, and mean, deviation and effective sample size.
function track(y, seen)
  filter:observe(seen:item() > 0 and y or nil)
  local mean = filter:mean().place
  local spread = filter:variance().place:sqrt()
  local weights = filter.machine:weights()
  return filter.state.place, pn.concatenate({ mean, spread, (1 / (weights ^ 2):sum()):reshape { 1 } }, 1)
end
