--- Draws from the posterior of a model, by site, and what is asked of them.
---
---     local p = pn.nuts(model, {data = {x, y}})
---     print(p)                     a line for each number: mean, sd, quantiles, R-hat, effective sample sizes
---     p.draws.w                    [chains, draws, ...]; sites of a scan have time next
---     p:summary()                  the same lines as a list; p:summary().w is the line of w
---     p:predict()                  draws of what was observed (the posterior predictive), by site [chains * draws, ...]
---     p:predict{data = {x_new}}    for other data; where the model observes nil, it draws
---     p:check{statistic = f}       posterior predictive checks: p-values and a picture
---     p:log_likelihood()           log density of each observation at each draw, by site [chains, draws, ...]
---     p.warnings                   what speaks against these draws; printed with them
---     p.statistics                 of each draw [chains, draws]: log_density, accept, step_size, depth, leapfrogs,
---                                  divergent, energy
---     p.divergences p.e_bfmi p.seconds
local core = require "penumbra.core"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local replay = require "penumbra.replay"

local posterior = {}

local methods = {}

local COLUMNS = { "mean", "sd", "q05", "median", "q95", "r_hat", "ess_bulk", "ess_tail", "mcse" }
local STATISTICS = { "log_density", "accept", "step_size", "depth", "leapfrogs", "divergent", "energy" }

-- Values [chains, draws, n] cut into sites by name; those of a scan joined, time first.
local function by_site(values, outputs)
  local chains, draws = values:size(1), values:size(2)
  local sites, steps, order = {}, {}, {}
  for _, out in ipairs(outputs) do
    local shape = { chains, draws, table.unpack(out.shape) }
    local part = values:slice(3, out.first, out.last):reshape(shape)
    local name = out.time and #out.time == 1 and out.base or out.name
    if name ~= out.name then
      steps[name] = steps[name] or {}
      steps[name][#steps[name] + 1] = part
    else
      sites[name] = part:contiguous()
    end
    if not (steps[name] and #steps[name] > 1) then
      order[#order + 1] = name
    end
  end
  for name, parts in pairs(steps) do
    sites[name] = core.stack(parts, 3)
  end
  return sites, order
end

posterior.by_site = by_site

-- "w[2, 1]" for the elements of a value of this shape, row by row.
local function element_names(name, shape)
  local n = 1
  for _, size in ipairs(shape) do
    n = n * size
  end
  if #shape == 0 then
    return { name }
  end
  local names = {}
  for i = 0, n - 1 do
    local place, rest = {}, i
    for k = #shape, 1, -1 do
      place[k] = rest % shape[k] + 1
      rest = rest // shape[k]
    end
    names[i + 1] = ("%s[%s]"):format(name, table.concat(place, ", "))
  end
  return names
end

posterior.element_names = element_names

local function shown(v, width)
  if v ~= v then
    return (" "):rep(width - 1) .. "-"
  end
  local text = math.abs(v) >= 1e5 and ("%.3g"):format(v) or ("%.4g"):format(v)
  return (" "):rep(width - #text) .. text
end

local summary_class = { __index = {} }

function summary_class.__tostring(self)
  local longest, lines = 4, {}
  for _, row in ipairs(self) do
    longest = math.max(longest, #row.name)
  end
  local head = (" "):rep(longest)
  for _, column in ipairs(COLUMNS) do
    head = head .. (" "):rep(10 - #column) .. column
  end
  lines[1] = head
  for _, row in ipairs(self) do
    local line = row.name .. (" "):rep(longest - #row.name)
    for _, column in ipairs(COLUMNS) do
      local v = row[column]
      line = line .. (column:find "^ess" and v == v and ("%10d"):format(math.floor(v + 0.5))
        or column == "r_hat" and v == v and ("%10.3f"):format(v) or shown(v, 10))
    end
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n")
end

local function summary_of(sites, names)
  local list = setmetatable({}, summary_class)
  for _, site in ipairs(names) do
    local draws = sites[site]
    local shape = draws:shape()
    local rows = core.draws_summary(draws:to("float64"):reshape { shape[1], shape[2], -1 }):totable()
    for k, name in ipairs(element_names(site, { table.unpack(shape, 3) })) do
      local row = { name = name }
      for j, column in ipairs(COLUMNS) do
        row[column] = rows[k][j]
      end
      list[#list + 1] = row
      list[name] = row
    end
  end
  return list
end

posterior.summary_of = summary_of

--- A list of {name, mean, sd, q05, median, q95, r_hat, ess_bulk, ess_tail, mcse}, an entry for each number, and the
--- entries by name. Names: a list of sites (all unless given). As text, a table.
function methods:summary(names)
  for _, site in ipairs(names or self.names) do
    if not self.draws[site] then
      core.error(("summary: there is no site '%s' among %s"):format(tostring(site), table.concat(self.names, ", ")))
    end
  end
  return summary_of(self.draws, names or self.names)
end

-- Energy fraction of missing information of each chain (Betancourt 2016): below 0.3 momenta move too little energy.
local function e_bfmi(energy)
  local n = energy:size(2)
  local steps = (energy:slice(2, 2, n) - energy:slice(2, 1, n - 1)):square():sum(2)
  local spread = (energy - energy:mean(2, true)):square():sum(2)
  return (steps / spread):totable()
end

local function warnings_of(self, max_depth)
  local list = {}
  local function add(...)
    list[#list + 1] = (...):format(select(2, ...))
  end
  local total = self.statistics.divergent:numel()
  if self.divergences > 0 then
    add("%d of %d transitions diverged: the step is too long for a narrow part of the posterior (target_accept = 0.95, or "
      .. "variables that are scaled and shifted: tau * z + mu)", self.divergences, total)
  end
  local deep = max_depth and self.statistics.depth:ge(max_depth):to("float64"):sum():item() or 0
  if deep > 0 then
    add("%d of %d transitions reached max_depth = %d: correlated or badly scaled variables (dense = true)", deep, total,
      max_depth)
  end
  for k, v in ipairs(self.e_bfmi) do
    if v < 0.3 then
      add("E-BFMI of chain %d is %.2f, below 0.3: heavy tails that momenta do not reach", k, v)
    end
  end
  local worst_r, worst_ess = nil, nil
  for _, row in ipairs(self:summary()) do
    if row.r_hat > 1.01 and (not worst_r or row.r_hat > worst_r.r_hat) then
      worst_r = row
    end
    local ess = math.min(row.ess_bulk, row.ess_tail)
    if ess < 100 * self.chains and (not worst_ess or ess < math.min(worst_ess.ess_bulk, worst_ess.ess_tail)) then
      worst_ess = row
    end
  end
  if worst_r then
    add("R-hat of '%s' is %.3f, above 1.01: the chains have not mixed", worst_r.name, worst_r.r_hat)
  end
  if worst_ess then
    add("effective sample size of '%s' is %d, below 100 a chain", worst_ess.name,
      math.floor(math.min(worst_ess.ess_bulk, worst_ess.ess_tail)))
  end
  return list
end

local predict_options = { data = options.optional "table", model = options.optional(), draws = options.optional "number" }

-- f(z) gives a list of tensors: these for every row of z [N, n], each [N, ...], names(k) names them.
local function for_each_draw(z, watch, f)
  local shapes
  local compiled = replay.compile(function(x)
    local parts, flat = f(x), {}
    shapes = {}
    for k, t in ipairs(parts) do
      shapes[k] = t:shape()
      flat[k] = t:to("float64"):reshape { -1 }
    end
    return core.concatenate(flat, 1)
  end, { watch = watch, plans = 1 })
  f(z[1]) -- once outside of a capture
  compiled(z[1])
  local rows, list, at = compiled:map(z), {}, 1
  for k, shape in ipairs(shapes) do
    local n = 1
    for _, size in ipairs(shape) do
      n = n * size
    end
    list[k] = rows:slice(2, at, at + n - 1):reshape { z:size(1), table.unpack(shape) }:contiguous()
    at = at + n
  end
  return list
end

local function flat_draws(self, n)
  local z = self.unconstrained:reshape { -1, self.unconstrained:size(3) }
  if not n or n >= z:size(1) then
    return z
  end
  local order = core.randperm(z:size(1)):slice(1, 1, n)
  return z:take(1, order)
end

-- Draws of what model m observes on args, at each row of z: by site [N, ...].
local function predicted(t, m, args, z)
  local names = {}
  local list = for_each_draw(z, m.body, function(x)
    local parts = {}
    for _, site in ipairs(model.run(m, args, { predict = true, value = t:values_at(x) }).order) do
      if site.predicted then
        names[#parts + 1] = site.name
        parts[#parts + 1] = site.value
      end
    end
    if #parts == 0 then
      core.error "predict: the model observes nothing"
    end
    return parts
  end)
  local sites = {}
  for k, name in ipairs(names) do
    sites[name] = list[k]
  end
  return sites
end

posterior.predicted = predicted

--- Draws of the observed sites given the draws of the latent ones, by site [chains * draws, ...]. Options: data, a list of
--- other arguments for the model; model, another model with these latent variables; draws, how many at most (picked at
--- random).
function methods:predict(given)
  local o = options.check("predict", given, predict_options)
  return predicted(self.target, o.model or self.model, o.data and model.packed(o.data) or self.args,
    flat_draws(self, o.draws))
end

--- The log density of each observation at each draw, by site: [chains, draws, ...].
function methods:log_likelihood()
  local names = {}
  local list = for_each_draw(flat_draws(self), self.model.body, function(z)
    local parts = {}
    local t = model.run(self.model, self.args, { value = self.target:values_at(z) })
    for _, site in ipairs(t.order) do
      if site.observed then
        names[#parts + 1] = site.name
        parts[#parts + 1] = site.log_prob
      end
    end
    if #parts == 0 then
      core.error "log_likelihood: the model observes nothing"
    end
    return parts
  end)
  local sites = {}
  for k, name in ipairs(names) do
    local shape = list[k]:shape()
    sites[name] = list[k]:reshape { self.chains, -1, table.unpack(shape, 2) }
  end
  return sites
end

--- Posterior predictive checks: statistics of what was observed against those of `draws` (1000) replications of it. Gives
--- a list of {name, observed, mean, q05, q95, p_value, replicated}, also by name; p_value is the share of replications
--- above the observed one (ties half): near 0 or 1 the model cannot make data like these. As text a table;
--- check:plot(path) is a picture. Options: statistic, a function of the site's value that gives a number, or a table
--- name -> function (mean, sd, min and max unless given); site, which one where several are observed; data, as for predict.
function methods:check(given)
  return require("penumbra.infer.predictive").check(self, given, self.target:values_at(flat_draws(self, 1)[1]))
end

local class = { __name = "posterior", __index = core.namespace("a posterior", methods) }

function class.__tostring(self)
  local n = self.statistics.accept:numel()
  local text = ("%s\n%d draws of %d chains in %.1f s"):format(tostring(self:summary(self.latent)), n, self.chains,
    self.seconds)
  for _, warning in ipairs(self.warnings) do
    text = text .. "\nwarning: " .. warning
  end
  return text
end

--- new{model =, args =, target =, unconstrained = [chains, draws, n], statistics = [chains, draws, 7], seconds =}: the
--- posterior of these draws. Internal.
function posterior.new(given)
  local self, target = setmetatable(given, class), given.target
  local z = self.unconstrained
  self.chains = z:size(1)
  local values = target:compiled_values()
  values(z[1][1])
  local rows = values:map(z:reshape { -1, z:size(3) })
  self.draws, self.names = by_site(rows:reshape { self.chains, z:size(2), -1 }, target:outputs())
  self.latent = {}
  local deterministic = {}
  for _, out in ipairs(target:outputs()) do
    deterministic[out.time and out.base or out.name] = out.deterministic
  end
  for _, name in ipairs(self.names) do
    if not deterministic[name] then
      self.latent[#self.latent + 1] = name
    end
  end
  local columns = {}
  for k, name in ipairs(STATISTICS) do
    columns[name] = self.statistics:select(3, k):contiguous()
  end
  self.statistics = columns
  self.divergences = math.floor(columns.divergent:sum():item() + 0.5)
  self.e_bfmi = z:size(2) > 1 and e_bfmi(columns.energy) or {}
  self.warnings = z:size(2) >= 4 and warnings_of(self, given.max_depth) or {}
  return self
end

return posterior
