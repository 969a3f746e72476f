--- The normal law nearest to a mixture in KL(nu || mixture): what a family of normals makes of p(z | C), which is a
--- mixture of posteriors (Bayer et al. 2021, section 3.1 and figure 1).
-- help: pn.gap
local core = require "penumbra.core"
local lbfgs = require "penumbra.optim.lbfgs"
local options = require "penumbra.options"

local marginal_fit = {}

local LOG_TAU = core.log_2pi
local REACH, NODES = 12, 2401 -- standard deviations of nu to each side, and places of the trapezoidal rule

-- log of the mixture at z [...].
local function log_mixture(z, m)
  local parts = ((z:unsqueeze(-1) - m.loc) / m.scale):square() * -0.5 - m.scale:log() - LOG_TAU / 2 + m.weights:log()
  return parts:logsumexp(-1)
end

-- KL(N(loc, scale^2) || mixture) by quadrature in units of nu.
local function divergence(loc, scale, m)
  local t = core.linspace(-REACH, REACH, NODES)
  local density = ((t * t + LOG_TAU) * -0.5):exp() * (2 * REACH / (NODES - 1))
  local cross = (density * log_mixture(loc + scale * t, m)):sum()
  return -cross - scale:log() - (LOG_TAU + 1) / 2
end

-- A minimum that is reached from a start.
local function descend(m, loc, scale)
  local at, log_scale = core.param(core.tensor(loc)), core.param(core.tensor(math.log(scale)))
  local opt = lbfgs.new({ at, log_scale }, { max_steps = 200, tolerance_grad = 1e-11, tolerance_change = 1e-15 })
  local kl = opt:step(function() return divergence(at, log_scale:exp(), m) end)
  return { loc = at:item(), scale = math.exp(log_scale:item()), kl = kl }
end

--- marginal_fit{loc =, scale = [, weights =]} -> {minima =, best =, shared =}: the local minima {loc, scale, kl} of
--- KL(nu || mixture) over normals nu, for a mixture of normals [K] (lists or tensors), that are reached from the
--- mixture's moments and from each component, the lowest first; best is that one; shared = {loc, scale, kl} the shared
--- posterior omega and its divergence from the mixture.
function marginal_fit.marginal_fit(given)
  local where = "marginal_fit"
  local o = options.check(where, given, { loc = options.required(), scale = options.required(),
    weights = options.optional() })
  local loc = options.numbers(where, "loc", o.loc, "tensor"):to "float64"
  local scale = options.numbers(where, "scale", o.scale, "tensor"):to "float64"
  local K = loc:ndim() == 1 and loc:size(1) or 0
  if K == 0 or scale:ndim() ~= 1 or scale:size(1) ~= K or not scale:gt(0):all():item() then
    core.error(where .. ": loc and scale must be lists of one length, scale positive")
  end
  local weights = o.weights and options.numbers(where, "weights", o.weights, "tensor"):to "float64"
    or core.full({ K }, 1 / K)
  if weights:ndim() ~= 1 or weights:size(1) ~= K or math.abs(weights:sum():item() - 1) > 1e-6
    or not weights:gt(0):all():item() then
    core.error(("%s: weights must be %d positive numbers that sum to 1"):format(where, K))
  end
  local m = { loc = loc, scale = scale, weights = weights }
  local mean = (weights * loc):sum()
  local spread = (weights * (scale:square() + (loc - mean):square())):sum():sqrt():item()
  local minima = { descend(m, mean:item(), spread) }
  for k = 1, K do
    local found = descend(m, loc[k]:item(), scale[k]:item())
    local new = true
    for _, other in ipairs(minima) do
      new = new and (math.abs(found.loc - other.loc) > 1e-4 or math.abs(found.scale - other.scale) > 1e-4)
    end
    minima[#minima + 1] = new and found or nil
  end
  table.sort(minima, function(a, b) return a.kl < b.kl or a.kl == b.kl and a.loc < b.loc end)
  local precision = (weights / scale:square()):sum()
  local centre = (weights * loc / scale:square()):sum() / precision
  local own = precision:sqrt():reciprocal()
  return { minima = minima, best = minima[1],
    shared = { loc = centre:item(), scale = own:item(), kl = divergence(centre, own, m):item() } }
end

return marginal_fit
