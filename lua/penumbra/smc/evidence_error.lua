--- The variance of the log evidence of one run of a sampler whose particles are resampled level by level.
-- help: pn.smc
local core = require "penumbra.core"

local evidence_error = {}

local float64 = { dtype = "float64" }
local LAG = 5 -- levels over which particles remember

local methods = {}

local function by_ancestor(self, family, apart)
  return core.zeros({ self.n }, float64):scatter_add(1, family, apart)
end

--- account:add(log_w [, log_share]): takes in the log-weights [N] of a level, of particles that count alike or as
--- their shares of sum 1. Gives the log of their mean.
---
--- The error of the log evidence is the sum over levels t of e_t = sum_i share_i (w_i / mean w - 1), in which particles
--- with a common ancestor at the level before, sum by sum, are independent draws. Its variance is that of the e_t and
--- twice their covariances with those of up to LAG levels before, by sums over common ancestors (the variance
--- estimators of Lee & Whiteley 2018 and Olsson & Douc 2019 in their simplest form).
function methods:add(log_w, log_share)
  local log_mean = log_share and (log_w + log_share):logsumexp(1):item() or log_w:logsumexp(1):item() - math.log(self.n)
  local apart = (log_w - log_mean):exp() - 1
  apart = log_share and apart * log_share:exp() or apart / self.n
  local own = self.families[1] and by_ancestor(self, self.families[1], apart) or apart
  self.variance = self.variance + own:square():sum():item()
  for lag, earlier in ipairs(self.sums) do
    local family = self.families[lag + 1]
    local mine = family and by_ancestor(self, family, apart) or self.families[lag] and by_ancestor(self,
      self.families[lag], apart)
    self.variance = self.variance + 2 * (earlier * mine):sum():item()
  end
  table.insert(self.sums, 1, own)
  self.sums[LAG + 1] = nil
  return log_mean
end

--- account:resampled(places): particle i of the next level stems from particle places[i] [N] of this one.
function methods:resampled(places)
  for lag, family in ipairs(self.families) do
    self.families[lag] = family:take(1, places)
  end
  table.insert(self.families, 1, places)
  self.families[LAG + 2] = nil
end

--- account:error(): the standard error so far.
function methods:error() return math.sqrt(math.max(self.variance, 0)) end

local class = { __index = methods }

--- new(n): for n particles. Internal.
function evidence_error.new(n)
  -- families[j]: places of the ancestors j levels before; sums[j]: by ancestor, of the level j before this
  return setmetatable({ n = n, variance = 0, families = {}, sums = {} }, class)
end

return evidence_error
