--- The filter of a diffuse start (smc/kalman/diffuse.lua) whose columns share their covariances, so that these are
--- computed and kept once: for large orders, of which there are as many columns.
-- help: pn.smc
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local filtering = require "penumbra.smc.kalman.filtering"

local shared_start = {}

--- From this order on it pays.
shared_start.LEAST = 33

--- What the filter of the augmented system a [1 + k columns] gives, with one covariance for all columns: mean [T, 1 +
--- k, batch..., n], cov [T, 1, batch..., n, n], log_prob of the first column [T, 1, batch...]; and the states before
--- each observation, before_mean, before_cov. M_t = (1 - K c) a M_(t-1) for the other columns, which have neither y
--- nor offsets. nil, message, code.
function shared_start.filter(a)
  local function first(x) return x and x:slice(2, 1, 1) end
  local one = a:with { mean = a.mean:slice(1, 1, 1), lead = { 1, table.unpack(a.lead, 2) }, y = first(a.y),
    b = first(a.b), d = first(a.d) }
  local mean, cov, log_prob = filtering.covariance(one)
  if not mean then
    return nil, cov, log_prob
  end
  local before_mean, before_cov = filtering.predicted(one, mean, cov)
  local _, _, _, _, _, gain = core.kalman_update(before_mean, before_cov, one.y, one.c, one.d, one.r,
    { observed = one.observed, details = true })
  if not gain then
    return nil, "the innovation covariances have changed", "singular"
  end
  local steps, count = a.steps, a.lead[1]
  -- the gain of what is missing is 0
  local keep = linear_system.unit(cov, a.n) - gain:matmul(a.c)
  local onward = keep:matmul(a.a)
  if a.predicted then -- the first column is observed as it is
    onward = core.concatenate({ keep:slice(1, 1, 1), steps > 1 and onward:slice(1, 2, steps) or nil }, 1)
  end
  local start = a.mean:slice(1, 2, count)
  local shape = { steps, table.unpack(start:shape()) }
  local columns = core.gaussian.path(start, onward, core.zeros(shape, { dtype = cov:dtype() }), false)
  local last = start:unsqueeze(1)
  last = steps > 1 and core.concatenate({ last, columns:slice(1, 1, steps - 1) }, 1) or last
  local before = linear_system.apply(a.a, last)
  if a.predicted then
    before = core.concatenate({ start:unsqueeze(1), steps > 1 and before:slice(1, 2, steps) or nil }, 1)
  end
  return { mean = core.concatenate({ mean, columns }, 2), cov = cov, log_prob = log_prob,
    before_mean = core.concatenate({ before_mean, before }, 2), before_cov = before_cov }
end

return shared_start
