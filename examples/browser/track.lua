-- Where is the mouse? It is seen with noise whose tails are heavy,
-- and moves on as it did, more or less.
local pn = require "penumbra"
local dist, N = pn.dist, 2000

local filter = pn.smc.filter { num_particles = N, threshold = 0.5, trace = false,
  init = function(n)
    return { place = pn.rand { n, 2 }, speed = pn.randn { n, 2 } * 0.01 }
  end,
  step = function(x, _, _, y)
    local speed = x.speed * 0.9 + pn.randn { N, 2 } * 0.012
    local pull = y and 0 or 0.05 -- unseen it stays about the middle
    return { place = x.place + speed + (0.5 - x.place) * pull, speed = speed }
  end,
  log_weight = function(x, y)
    return dist.student_t(4, x.place, 0.03):log_prob(y):sum(-1)
  end }

-- A step; what the page draws: the particles and their weights; mean,
-- standard deviation and effective sample size.
function track(y, seen)
  filter:observe(seen:item() > 0 and y or nil)
  local mean = filter:mean().place
  local spread = filter:variance().place:sqrt()
  local weights = filter.machine:weights()
  local size = 1 / (weights ^ 2):sum()
  return pn.concatenate({ filter.state.place, weights:reshape { N, 1 } }, 2),
    pn.concatenate({ mean, spread, size:reshape { 1 } }, 1)
end
