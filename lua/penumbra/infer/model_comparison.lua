--- Which of several models predicts better: differences of expected log predictive densities with their standard
--- errors, and weights of the models.
--- Sources: Vehtari, Gelman & Gabry 2017 (differences); Yao, Vehtari, Simpson & Gelman 2018 (weights).
-- help: pn
local core = require "penumbra.core"
local at_draws = require "penumbra.infer.at_draws"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local predictive_density = require "penumbra.infer.predictive_density"

local model_comparison = {}

local COLUMNS = { "elpd", "se", "difference", "difference_se", "p", "weight", "pseudo_bma", "pseudo_bma_plus", "waic" }
local FORMAT = { weight = "%.3f", pseudo_bma = "%.3f", pseudo_bma_plus = "%.3f" }

local class = { __name = "comparison" }

function class.__tostring(self)
  local longest = #"model"
  for _, row in ipairs(self) do
    longest = math.max(longest, #row.name)
  end
  local lines = { ("%-" .. longest .. "s"):format "model" }
  for k, row in ipairs(self) do
    lines[k + 1] = ("%-" .. longest .. "s"):format(row.name)
  end
  for _, column in ipairs(COLUMNS) do
    if self[1][column] then
      local texts, widest = { column }, #column
      for k, row in ipairs(self) do
        texts[k + 1] = row[column] and (FORMAT[column] or "%.2f"):format(row[column]) or "-"
        widest = math.max(widest, #texts[k + 1])
      end
      for k, text in ipairs(texts) do
        lines[k] = lines[k] .. (" "):rep(widest + 2 - #text) .. text
      end
    end
  end
  for _, warning in ipairs(self.warnings) do
    lines[#lines + 1] = "warning: " .. warning
  end
  return table.concat(lines, "\n")
end

-- ---- weights ----

-- The mean over the data of log sum_k w_k p_k, and mu times the sum of log w.
local function barrier(p, w, mu)
  return p:t():matmul(w):log():mean():item() + mu * w:log():sum():item()
end

-- A step of Newton's method for it under sum w = 1, in units of w: the matrix is then far from singular.
local function newton_step(p, w, mu)
  local share = p * w:unsqueeze(2) / p:t():matmul(w) -- [K, N]: a model's part of a datum
  local k, n = p:size(1), p:size(2)
  local slope = share:mean(2) + mu
  local curvature = share:matmul(share:t()) / n + core.eye(k) * mu
  local both = curvature:solve(core.stack({ slope, w }, 2))
  local a, b = both:select(2, 1), both:select(2, 2)
  local level = (w * a):sum() / (w * b):sum()
  return (a - b * level) * w, ((slope - w * level) * (a - b * level)):sum():item()
end

local LEAST = 1e-13 -- of the barrier: the sum of the logarithms is then within K * 1e-13 of the largest

-- The weights w >= 0, sum 1, with the largest mean over the data of log sum_k w_k p_k(y_i); log_p [K, N]. By an
-- interior point: the objective is concave.
local function stacking(log_p)
  local k = log_p:size(1)
  local p = (log_p - log_p:max(1, true)):exp()
  local w, mu = core.full({ k }, 1 / k, { dtype = "float64" }), 1
  while mu > LEAST do
    mu = mu * 0.2
    for _ = 1, 50 do
      local step, gain = newton_step(p, w, mu)
      if not (gain > 1e-10 * mu) then
        break
      end
      local room = (-step / w):max():item()
      local size, now = room > 0 and math.min(1, 0.95 / room) or 1, barrier(p, w, mu)
      local slack = 1e-15 * math.abs(now)
      while size > 1e-10 and not (barrier(p, w + step * size, mu) >= now + 1e-4 * size * gain - slack) do
        size = size / 2
      end
      w = w + step * size
      w = w / w:sum()
    end
  end
  return w:totable()
end

-- Of the Bayesian bootstrap: [N, K] densities weighted by Dirichlet(1, ..., 1) draws, `draws` of them.
local function bootstrapped(log_p, draws, generator)
  local n, total, left = log_p:size(2), nil, draws
  while left > 0 do
    local count = math.min(left, math.max(1, 2 ^ 20 // n))
    local e = -core.rand({ count, n }, { generator = generator, dtype = "float64" }):neg():log1p()
    local elpd = (e / e:sum(2, true)):matmul(log_p:t()) * n
    local sum = elpd:softmax(-1):sum(1)
    total, left = total and total + sum or sum, left - count
  end
  return (total / draws):totable()
end

-- ---- what is compared ----

-- Names and values of a list, or of a table by name, in order.
local function entries_of(models)
  options.argument("compare", "models", models, "table")
  local names, entries = {}, {}
  for name in pairs(models) do
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    if type(a) ~= type(b) then
      return type(a) == "number"
    end
    return a < b
  end)
  for k, name in ipairs(names) do
    entries[k] = { name = tostring(name), value = models[name] }
  end
  if #entries < 2 then
    core.error(("compare: needs at least two models, got %d"):format(#entries))
  end
  return entries
end

local function same(a, b)
  return a:numel() == b:numel() and a:eq(b):logical_or(a:isnan():logical_and(b:isnan())):all():item()
end

-- Do all models see the same? Otherwise their densities are of other data, or in other units.
local function check_data(entries, site)
  local first
  for _, entry in ipairs(entries) do
    local seen = posterior.is(entry.value) and at_draws.observed_values(entry.value, site)
    if seen and first and not same(seen, first.seen) then
      core.error(("compare: '%s' and '%s' observe other data (%d and %d numbers): only densities of the same data, in "
        .. "the same units, can be compared"):format(first.name, entry.name, first.seen:numel(), seen:numel()))
    end
    first = first or seen and { name = entry.name, seen = seen } or nil
  end
end

-- The estimates of all, and what else is shown.
local function estimates_of(entries, site)
  for _, entry in ipairs(entries) do
    local value = entry.value
    if posterior.is(value) then
      local loo, waic = predictive_density.both(value, site)
      entry.estimate, entry.waic = loo, waic.elpd
    elseif predictive_density.is(value) then
      entry.estimate = value
    else
      core.error(("compare: '%s' must be a posterior, or what p:loo, p:waic or pn.k_fold gives, got %s"):format(
        entry.name, core.is_tensor(value) and "a tensor" or type(value)))
    end
    local one, here = entries[1].estimate, entry.estimate
    if here.method ~= one.method or here.pointwise:numel() ~= one.pointwise:numel() then
      core.error(("compare: '%s' is %s of %d observations, '%s' %s of %d: they must be the same"):format(
        entries[1].name, one.method, one.pointwise:numel(), entry.name, here.method, here.pointwise:numel()))
    end
  end
end

local compare_options = { site = options.optional "string", draws = options.optional "number",
  generator = options.optional() }

--- compare(models [, options]): which model of a list, or of a table by name, predicts data like these better. Of
--- posteriors (their p:loo and p:waic), or of what p:loo, p:waic or pn.k_fold gave.
---
---     local c = pn.compare{linear = p1, quadratic = p2}
---     print(c)                       -- a line for each model, the best first
---     c[2].difference, c[2].difference_se      c.linear.weight
---
--- A list, also by name, of {name, elpd, se, difference, difference_se, p, weight, pseudo_bma, waic}: difference is
--- elpd less that of the best model, in nats, and difference_se its standard error by the pairs of observations (a
--- difference of less than 4, or of less than two standard errors, tells nothing). weight is that of stacking: the
--- mixture of the models' predictive distributions that predicts best; pseudo_bma goes by exp(elpd) alone. Its field
--- `warnings` says whose elpd is not to be trusted.
---
--- Options: site, which observed site; draws, of the Bayesian bootstrap: also pseudo_bma_plus, the mean of pseudo_bma
--- over so many reweightings of the data (generator). All models must observe the same numbers: compare raises where
--- they do not.
function model_comparison.compare(models, given)
  if posterior.is(models) then
    core.error "compare: models are one list, as in pn.compare{a, b}, or a table by name"
  end
  local o = options.check("compare", given, compare_options)
  local entries = entries_of(models)
  check_data(entries, o.site)
  estimates_of(entries, o.site)
  table.sort(entries, function(a, b)
    if a.estimate.elpd ~= b.estimate.elpd then
      return a.estimate.elpd > b.estimate.elpd
    end
    return a.name < b.name
  end)
  local list = {}
  for k, entry in ipairs(entries) do
    list[k] = entry.estimate.pointwise:to "float64":reshape { -1 }
  end
  local log_p, best = core.stack(list, 1), list[1]
  local n = best:numel()
  local weights, by_elpd = stacking(log_p), log_p:sum(2):softmax(-1):totable()
  local plus = o.draws and bootstrapped(log_p, o.draws, o.generator)
  local self = setmetatable({ warnings = {}, method = entries[1].estimate.method }, class)
  for k, entry in ipairs(entries) do
    local e, apart = entry.estimate, list[k] - best
    self[k] = { name = entry.name, elpd = e.elpd, se = e.se, p = e.p, waic = entry.waic, estimate = e,
      difference = e.elpd - entries[1].estimate.elpd,
      difference_se = math.sqrt(n * (apart - apart:mean()):square():mean():item()), weight = weights[k],
      pseudo_bma = by_elpd[k], pseudo_bma_plus = plus and plus[k] or nil }
    self[entry.name] = self[entry.name] or self[k] -- (a model may be called "warnings")
    self.warnings[#self.warnings + 1] = e.warning and entry.name .. ": " .. e.warning or nil
  end
  return self
end

return model_comparison
