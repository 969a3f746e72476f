--- Estimates of the log predictive density of data that a model has not seen, from the densities of those that it has
--- at each draw of the posterior: Pareto-smoothed importance sampling and the widely applicable information criterion.
--- What both give has elpd, the sum over observations of the log predictive density (nats), se its standard error, p
--- the effective number of parameters and `pointwise` [N].
--- Sources: Vehtari, Gelman & Gabry 2017; Watanabe 2010.
-- help: nowhere
local at_draws = require "penumbra.infer.at_draws"
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

local function count_of(shape)
  local n = 1
  for _, size in ipairs(shape) do
    n = n * size
  end
  return n
end

-- The name of the i-th observation of sites with these shapes: y[17], y[3, 2].
local function observation(shapes, names, i)
  for _, name in ipairs(names) do
    local shape = shapes[name]
    local count = count_of(shape)
    if i <= count then
      local place, rest = {}, i - 1
      for axis = #shape, 1, -1 do
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
local function loo_warning(k, draws, shapes, names)
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
    told[place] = ("%s (%.2f)"):format(observation(shapes, names, bad[place]), values[bad[place]])
  end
  return ("Pareto k-hat is above %.2f for %d of %d observations: %s%s. Without them the posterior would be another "
    .. "one, and their densities are not to be trusted: look whether the model fits them (an outlier, tails that are "
    .. "too light), draw more, or fit without each of them and score it then"):format(limit, #bad, #values,
    table.concat(told, ", "), #bad > #told and ", ..." or "")
end

-- Numbers of log densities that are held at a time: observations go in blocks of so many by the draws.
local BLOCK = 2 ^ 22

-- What is asked for of the observations of posterior p: {shapes by site, names in order, numel, draws}, and each(f),
-- which calls f(log densities [chains, draws, n]) for block after block. where: the function called.
local function observations(where, p, site)
  local z = p.unconstrained
  local shapes, names, block
  if z then
    shapes, names, block = at_draws.likelihood_blocks(p.target, p.model, p.args, z:reshape { -1, z:size(3) })
  else
    shapes, names, block = at_draws.stored_blocks(p:log_likelihood())
  end
  table.sort(names)
  if site ~= nil and not shapes[site] then
    core.error(("%s: the model observes no '%s'; it observes %s"):format(where, tostring(site),
      table.concat(names, ", ")))
  end
  local self = { shapes = shapes, names = site and { site } or names, numel = 0, draws = p.chains * p.length }
  for _, name in ipairs(self.names) do
    self.numel = self.numel + count_of(shapes[name])
  end
  local most = math.max(1, BLOCK // self.draws | 0)
  local function each(f)
    for first = 1, self.numel, most do
      if first > 1 then
        collectgarbage() -- what the block before has left
      end
      f(block(self.names, first, math.min(self.numel, first + most - 1)):reshape { p.chains, p.length, -1 })
    end
  end
  return self, each
end

-- Of a block of log densities: those of its observations left out and the others, k-hat, log densities with them.
local function loo_parts(by_chain)
  local n, draws = by_chain:size(3), by_chain:size(1) * by_chain:size(2)
  local ll = by_chain:reshape { draws, n }
  local efficiency = by_chain:size(2) >= 4 and relative_efficiency(by_chain) or nil
  local log_w, k = log_weights.psis { log_w = -ll, relative_efficiency = efficiency }
  return { pointwise = (log_w + ll):logsumexp(1), k = k, all = ll:logsumexp(1) - math.log(draws) }
end

-- The same for the information criterion: log densities, variances over the draws.
local function waic_parts(by_chain)
  local draws = by_chain:size(1) * by_chain:size(2)
  local ll = by_chain:reshape { draws, -1 }
  local each = (ll - ll:mean(1, true)):square():sum(1) / (draws - 1)
  return { each = each, pointwise = ll:logsumexp(1) - math.log(draws) - each }
end

-- Parts of blocks, one after the other.
local function gather(lists, parts)
  for name, t in pairs(parts) do
    lists[name] = lists[name] or {}
    table.insert(lists[name], t)
  end
end
local function joined(lists)
  local whole = {}
  for name, list in pairs(lists) do
    whole[name] = core.concatenate(list, 1)
  end
  return whole
end

local function loo_of(parts, seen)
  return predictive_density.new(parts.pointwise, { method = "loo", p = (parts.all - parts.pointwise):sum():item(),
    k = parts.k, draws = seen.draws, warning = loo_warning(parts.k, seen.draws, seen.shapes, seen.names) })
end

local function waic_of(parts, seen)
  local each = parts.each
  local worst, at = each:max():item(), math.tointeger(each:argmax():item()) + 1
  local bad = each:gt(0.4):sum():item()
  local warning = bad > 0 and ("the log density of %d of %d observations has a variance above 0.4 over the draws, "
    .. "%s the largest (%.2f): do not trust this number, take p:loo"):format(bad, each:numel(),
    observation(seen.shapes, seen.names, at), worst) or nil
  return predictive_density.new(parts.pointwise, { method = "waic", p = each:sum():item(), draws = seen.draws,
    warning = warning })
end

--- What p:loo gives of a posterior.
function predictive_density.loo(p, site)
  local seen, each = observations("loo", p, site)
  local lists = {}
  each(function(ll) gather(lists, loo_parts(ll)) end)
  return loo_of(joined(lists), seen)
end

--- What p:waic gives of a posterior.
function predictive_density.waic(p, site)
  local seen, each = observations("waic", p, site)
  local lists = {}
  each(function(ll) gather(lists, waic_parts(ll)) end)
  return waic_of(joined(lists), seen)
end

--- Both.
function predictive_density.both(p, site)
  local seen, each = observations("loo", p, site)
  local loo, waic = {}, {}
  each(function(ll)
    gather(loo, loo_parts(ll))
    gather(waic, waic_parts(ll))
  end)
  return loo_of(joined(loo), seen), waic_of(joined(waic), seen)
end

return predictive_density
