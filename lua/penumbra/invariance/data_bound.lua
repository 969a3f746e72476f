--- The bound that finite, noisy data put on KL[q || p] (Coker et al. 2022; Kurle et al. 2022, section 2.2 and appendix
--- F).
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local LOG_2PI = core.log_2pi

local known = { y = options.required(), output_variance = options.required(), output_mean = options.any(0),
  noise_variance = options.required "number", noise_inside = false }

--- data_bound{y =, output_variance =, noise_variance = [, output_mean = 0, noise_inside = false]}: see pn.invariance.
local function data_bound(given)
  local o = options.check("data_bound", given, known)
  local y = options.numbers("data_bound", "y", o.y, "tensor")
  local mean = options.numbers("data_bound", "output_mean", o.output_mean)
  local variance = options.numbers("data_bound", "output_variance", o.output_variance)
  if not (o.noise_variance > 0) then
    core.error(("data_bound: noise_variance must be positive, got %s"):format(o.noise_variance))
  end
  local n = y:numel()
  local spread = ((y - mean):square() + variance):broadcast_to(y:shape())
  local bound = spread:sum() / (2 * o.noise_variance)
  local best = -0.5 * n * (LOG_2PI + math.log(o.noise_variance)) - (o.noise_inside and n / 2 or 0)
  return { bound = bound, best = best, prior = best - bound }
end

return data_bound
