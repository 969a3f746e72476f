--- Estimates of the log predictive density of data that a model has not seen, from the densities of those that it has
--- at each draw of the posterior: Pareto-smoothed importance sampling and the widely applicable information criterion.
--- What both give has elpd, the sum over observations of the log predictive density (nats), se its standard error, p
--- the effective number of parameters and `pointwise` [N].
--- Sources: Vehtari, Gelman & Gabry 2017; Watanabe 2010.
-- help: nowhere
local core = require "penumbra.core"
local log_weights = require "penumbra.infer.log_weights"

local predictive_density = {}

local class = { __name = "predictive density" }

local CRITERION = { loo = "looic", waic = "waic", k_fold = "k_foldic" } -- -2 elpd

function class.__tostring(self)
  local width = #"elpd_" + #self.method
  local function line(name, value)
    return ("\n%s%s %10.2f"):format(name, (" "):rep(width - #name), value)
  end
  local text = ("%d observations, %d draws"):format(self.pointwise:numel(), self.draws)
    .. line("elpd_" .. self.method, self.elpd) .. (", standard error %.2f"):format(self.se)
  text = self.p and text .. line("p_" .. self.method, self.p) or text
  text = text .. line(CRITERION[self.method], -2 * self.elpd)
  return self.warning and text .. "\nwarning: " .. self.warning or text
end

--- new(pointwise, fields): the estimate with these log densities of the observations [N] and what else is known of it.
--- Internal.
function predictive_density.new(pointwise, fields)
  local n = pointwise:numel()
  fields.pointwise, fields.elpd = pointwise, pointwise:sum():item()
  fields.se = math.sqrt(n * (pointwise - fields.elpd / n):square():mean():item())
  return setmetatable(fields, class)
end

--- Is x an estimate?
function predictive_density.is(x)
  return type(x) == "table" and getmetatable(x) == class
end

-- Effective sample size by the number of draws of the likelihood of each observation, [chains, draws, N] -> [N]: of its
-- mean, from the standard error that chains have. 1 where it is constant.
local function relative_efficiency(ll)
  local draws = ll:size(1) * ll:size(2)
  local likelihood = (ll - ll:max({ 1, 2 }, true)):exp()
  local rows = core.draws_summary(likelihood)
  local sd, mcse = rows:select(2, 2), rows:select(2, 9)
  local ess = (sd / mcse):square()
  return core.where(ess:isfinite():logical_and(ess:gt(0)), ess / draws, core.ones({ 1 }))
end

-- The name of the i-th observation of sites with shapes [chains, draws, ...]: y[17], y[3, 2].
local function observation(sites, names, i)
  for _, name in ipairs(names) do
    local shape, count = sites[name]:shape(), 1
    for axis = 3, #shape do
      count = count * shape[axis]
    end
    if i <= count then
      local place, rest = {}, i - 1
      for axis = #shape, 3, -1 do
        table.insert(place, 1, rest % shape[axis] + 1)
        rest = rest // shape[axis]
      end
      return #place > 0 and ("%s[%s]"):format(name, table.concat(place, ", ")) or name
    end
    i = i - count
  end
end

-- What to do about observations whose weights have too heavy a tail, the worst of them by name; nil where there is
-- none.
local function loo_warning(k, draws, sites, names)
  local limit = log_weights.pareto_k_threshold(draws)
  local values, bad, told = k:totable(), {}, {}
  for i, v in ipairs(values) do
    bad[#bad + 1] = not (v <= limit) and i or nil
  end
  if #bad == 0 then
    return nil
  end
  table.sort(bad, function(i, j) return values[i] > values[j] or values[i] == values[j] and i < j end)
  for place = 1, math.min(5, #bad) do
    told[place] = ("%s (%.2f)"):format(observation(sites, names, bad[place]), values[bad[place]])
  end
  return ("Pareto k-hat is above %.2f for %d of %d observations: %s%s. Without them the posterior would be another "
    .. "one, and their densities are not to be trusted: look whether the model fits them (an outlier, tails that are "
    .. "too light), draw more, or fit without each of them and score it then"):format(limit, #bad, #values,
    table.concat(told, ", "), #bad > #told and ", ..." or "")
end

-- The log densities of what is asked for, [chains, draws, N], with sites by name and the names in order. where: the
-- function called.
local function densities(where, p, site)
  local sites, names = p:log_likelihood(), {}
  for name in pairs(sites) do
    names[#names + 1] = name
  end
  table.sort(names)
  if site ~= nil and not sites[site] then
    core.error(("%s: the model observes no '%s'; it observes %s"):format(where, tostring(site),
      table.concat(names, ", ")))
  end
  names = site and { site } or names
  local parts = {}
  for k, name in ipairs(names) do
    parts[k] = sites[name]:reshape { p.chains, p.unconstrained:size(2), -1 }
  end
  return core.concatenate(parts, 3), sites, names
end

-- Of log densities by chain [chains, draws, N], of sites by these names.
local function loo_of(by_chain, sites, names)
  local n, draws = by_chain:size(3), by_chain:size(1) * by_chain:size(2)
  local ll = by_chain:reshape { draws, n }
  local efficiency = by_chain:size(2) >= 4 and relative_efficiency(by_chain) or nil
  local log_w, k = log_weights.psis { log_w = -ll, relative_efficiency = efficiency }
  local pointwise = (log_w + ll):logsumexp(1)
  local all = ll:logsumexp(1) - math.log(draws)
  return predictive_density.new(pointwise, { method = "loo", p = (all - pointwise):sum():item(), k = k, draws = draws,
    warning = loo_warning(k, draws, sites, names) })
end

local function waic_of(by_chain, sites, names)
  local draws = by_chain:size(1) * by_chain:size(2)
  local ll = by_chain:reshape { draws, -1 }
  local each = (ll - ll:mean(1, true)):square():sum(1) / (draws - 1)
  local pointwise = ll:logsumexp(1) - math.log(draws) - each
  local worst, at = each:max():item(), math.tointeger(each:argmax():item()) + 1
  local bad = each:gt(0.4):sum():item()
  local warning = bad > 0 and ("the log density of %d of %d observations has a variance above 0.4 over the draws, "
    .. "%s the largest (%.2f): do not trust this number, take p:loo"):format(bad, each:numel(),
    observation(sites, names, at), worst) or nil
  return predictive_density.new(pointwise, { method = "waic", p = each:sum():item(), draws = draws, warning = warning })
end

--- What p:loo gives of a posterior.
function predictive_density.loo(p, site)
  return loo_of(densities("loo", p, site))
end

--- What p:waic gives of a posterior.
function predictive_density.waic(p, site)
  return waic_of(densities("waic", p, site))
end

--- Both.
function predictive_density.both(p, site)
  local ll, sites, names = densities("loo", p, site)
  return loo_of(ll, sites, names), waic_of(ll, sites, names)
end

return predictive_density
