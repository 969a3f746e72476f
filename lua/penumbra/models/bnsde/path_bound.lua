--- Theorem 1 of Haussmann 2021 for a Bayesian neural SDE, by pn.pac's chain, and gamma chosen on a grid by it.
-- help: nowhere
local core = require "penumbra.core"
local options = require "penumbra.options"
local path_objective = require "penumbra.models.bnsde.path_objective"
local risk_bounds = require "penumbra.pac.risk_bounds"

local path_bound = {}

local MOST <const> = 4096 -- gammas on a grid

local NAMES = { "path_risk", "path_drawn", "path_log_mean", "path_mean_log" }

local class = { __name = "bound", __tostring = function(self)
  local lines = {}
  for _, name in ipairs { "risk", "kl", "weight_kl", "path_kl", "log_peak", table.unpack(NAMES) } do
    lines[#lines + 1] = ("%-14s %.6g"):format(name, self[name])
  end
  lines[#lines + 1] = self.vacuous and "vacuous: a risk lies in 0 to 1" or "not vacuous"
  lines[#lines + 1] = self.holds == true and ("holds with probability %g"):format(1 - self.delta)
    or "theorem 1 is not of this model: " .. self.holds
  return table.concat(lines, "\n")
end }

-- true, or why the theorem does not speak of the model.
local function holds(self, o)
  if self.weights == "step" then
    return "weights are drawn anew at each step, whose divergence is another one"
  elseif o.path_kl == "mean" then
    return "the divergences of the paths are averaged"
  elseif self.encoder or self.decoder then
    return "encoder and decoder are fitted to data and have no prior"
  end
  return true
end

--- of(where, model, b, o): see m:bound; o.count: of how many bounds this is one, for which delta is divided.
function path_bound.of(where, self, b, o)
  if self.kept then
    core.error(where .. ": a model fitted by SGLD has samples, no posterior whose divergence is known")
  end
  local p = path_objective.draw(self, b, o)
  local s = o.draws
  local weight_kl, each = self.network:kl():item(), p.path_kl:mean(1)
  local peak = path_objective.log_peak(self, b)
  local paths = (o.path_kl == "mean" and each:mean() or each:sum()):item()
  local out = { weight_kl = weight_kl, path_kl = paths, kl = weight_kl + paths, log_peak = peak:mean():item(),
    delta = o.delta, holds = holds(self, o) }
  local totals = o.path_kl == "mean" and p.path_kl:mean(2) or p.path_kl:sum(2)
  out.path_kl_se = s > 1 and totals:std(1):item() / math.sqrt(s) or nil
  if not (out.kl < math.huge) then
    core.error(where .. ": the divergence of the paths is not finite: does the diffusion vanish, or do paths explode?")
  end
  -- densities over their own largest value, so that log B is 0: trajectories with gaps have a B of their own
  local given = { log_likelihood = p.log_likelihood - peak, log_peak = 0, kl = out.kl, delta = o.delta,
    count = o.count }
  for _, name in ipairs(NAMES) do out[name] = risk_bounds.bound(name, given):item() end
  out.risk = (1 - (given.log_likelihood:logsumexp(1) - math.log(s)):exp()):mean():item()
  out.vacuous = out.path_risk >= 1
  return setmetatable(out, class)
end

-- The k-th, from 0, of the lists of n members of grid.
local function member(grid, n, k)
  local list = {}
  for d = 1, n do
    list[d], k = grid[k % #grid + 1], k // #grid
  end
  return list
end

--- choose_gamma(model, b, o): see m:choose_gamma.
function path_bound.choose_gamma(self, b, o)
  local where = "choose_gamma"
  if not self.prior_drift then
    core.error(where .. ": the model has no prior_drift")
  end
  options.argument(where, "grid", o.grid, "table")
  for _, g in ipairs(o.grid) do
    if type(g) ~= "number" or not (g >= 0 and g <= 1) then
      core.error(("%s: grid must be a list of numbers from 0 to 1, got %s"):format(where, tostring(g)))
    end
  end
  local count = (#o.grid) ^ self.latent
  if count < 1 or count > MOST then
    core.error(("%s: grid must have 1 to %d members over %d numbers of h, got %g"):format(where, MOST, self.latent,
      count))
  end
  local before, list = self.gamma + 0, {}
  local generator = o.generator or core.generator(core.randint(0, 1 << 53, {}):item())
  local state = generator:state()
  local ok, message = pcall(function()
    for k = 0, count - 1 do
      local gamma = member(o.grid, self.latent, k // 1 | 0)
      generator:set_state(state) -- the same draws for all
      self.gamma:set(core.tensor(gamma, { dtype = self.dtype }))
      list[#list + 1] = { gamma = gamma, bound = path_bound.of(where, self, b, { draws = o.draws, delta = o.delta,
        path_kl = "sum", generator = generator, count = count // 1 | 0 }) }
    end
  end)
  if not ok then
    self.gamma:set(before)
    error(message, 0)
  end
  table.sort(list, function(x, y) return x.bound.path_mean_log < y.bound.path_mean_log end)
  self.gamma:set(core.tensor(list[1].gamma, { dtype = self.dtype }))
  return list
end

return path_bound
