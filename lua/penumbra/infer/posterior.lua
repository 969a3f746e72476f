--- Draws from the posterior of a model, by site, and what is asked of them.
---
---     local p = pn.nuts(model, {data = {x, y}})
---     print(p)                     a line for each number: mean, sd, quantiles, R-hat, effective sample sizes
---     p.draws.w                    [chains, draws, ...]; sites of a scan have time next
---     p:summary()                  the same lines as a list; p:summary().w is the line of w
---     p:predict()                  draws of what was observed (the posterior predictive), [chains * draws, ...]
---     p:predict{data = {x_new}}    for other data; where the model observes nil, it draws
---     p:plot("trace.svg", {kind = "pairs"})    pictures: trace, rank, marginal, forest, pairs, energy, predictive
---     p:check{statistic = f}       posterior predictive checks: p-values and a picture
---     p:log_likelihood()           log density of each observation at each draw, by site [chains, draws, ...]
---     p:loo()                      leave-one-out predictive density, with the k-hat of each observation; p:waic()
---     pn.compare{p, other}         which model predicts better: pn.help "pn.compare"
---     p:labels()                   posterior of enumerated variables, by site [..., K]; p:label_draws() draws of them
---     p:save(path)                 draws and statistics to a file; pn.restore(path, {model =, data =})
---     p:save_arviz(path)           the same as ArviZ reads it; pn.infer.arviz(path)
---     p.warnings                   what speaks against these draws; printed with them
---     p.statistics                 of each draw [chains, draws]: log_density, accept, step_size, depth, leapfrogs,
---                                  divergent, energy
---     p.divergences p.e_bfmi p.seconds p.warmup (iterations a chain) p.gradients (of all chains, warm-up included)
-- help: pn, methods p
local core = require "penumbra.core"
local arviz_groups = require "penumbra.infer.arviz_groups"
local at_draws = require "penumbra.infer.at_draws"
local data = require "penumbra.data"
local estimate = require "penumbra.estimate"
local form = require "penumbra.form"
local layout = require "penumbra.layout"
local label_posterior = require "penumbra.infer.label_posterior"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local posterior_plot = require "penumbra.infer.posterior_plot"
local predictive_density = require "penumbra.infer.predictive_density"
local saved = require "penumbra.saved"
local predictive = require "penumbra.infer.predictive"
local targets = require "penumbra.infer.target"

local posterior = { by_site = at_draws.by_site, predicted = at_draws.predicted }

local methods = {}

local COLUMNS = { "mean", "sd", "q05", "median", "q95", "r_hat", "ess_bulk", "ess_tail", "mcse" }
local INDEPENDENT = { "mean", "sd", "q05", "median", "q95" }
local PARTICLES = { "mean", "sd", "q05", "median", "q95", "ess_bulk", "ess_tail", "mcse" } -- siblings stand together
local STATISTICS = { "log_density", "accept", "step_size", "depth", "leapfrogs", "divergent", "energy" }

-- A number of a summary: three or four digits that mean something.
local function shown(column, v)
  if v ~= v then
    return "-"
  elseif column:find "^ess" then
    return ("%d"):format(math.floor(v + 0.5))
  elseif column == "r_hat" then
    return ("%.3f"):format(v)
  elseif column == "mcse" then
    return ("%.2g"):format(v)
  end
  return math.abs(v) >= 1e5 and ("%.3g"):format(v) or ("%.4g"):format(v)
end

-- Columns as wide as they must be: 80 hold the names of most models.
local function summary_text(self)
  local lines = { "" }
  for k, row in ipairs(self) do
    lines[k + 1] = row.name
  end
  local function add(texts, format)
    local widest = 0
    for _, text in ipairs(texts) do
      widest = math.max(widest, #text)
    end
    for k, text in ipairs(texts) do
      lines[k] = lines[k] .. format(text, widest)
    end
  end
  add(lines, function(text, widest) return (" "):rep(widest - #text) end)
  for _, column in ipairs(self.columns) do
    local texts = { column }
    for k, row in ipairs(self) do
      texts[k + 1] = shown(column, row[column])
    end
    add(texts, function(text, widest) return (" "):rep(widest + 1 - #text) .. text end)
  end
  return table.concat(lines, "\n")
end

-- independent: of draws that are no chains, whose number alone tells how good the means are; or the columns shown.
local function summary_of(sites, names, independent)
  local columns = type(independent) == "table" and independent or independent and INDEPENDENT or COLUMNS
  local list = setmetatable({}, { __index = { columns = columns }, __tostring = summary_text })
  for _, site in ipairs(names) do
    local draws = sites[site]
    local shape = draws:shape()
    local rows = core.draws_summary(draws:to("float64"):reshape { shape[1], shape[2], -1 }):totable()
    for k, name in ipairs(at_draws.element_names(site, { table.unpack(shape, 3) })) do
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
  if names ~= nil then
    options.argument("summary", "names", names, "table")
  end
  for _, site in ipairs(names or self.names) do
    if not self.draws[site] then
      core.error(("summary: there is no site '%s' among %s"):format(tostring(site), table.concat(self.names, ", ")))
    end
  end
  return summary_of(self.draws, names or self.names, self.particles and PARTICLES)
end

-- Energy fraction of missing information of each chain (Betancourt 2016): below 0.3 momenta move too little energy.
local function e_bfmi(energy)
  local n = energy:size(2)
  local steps = (energy:slice(2, 2, n) - energy:slice(2, 1, n - 1)):square():sum(2)
  local spread = (energy - energy:mean(2, true)):square():sum(2)
  return (steps / spread):totable()
end

-- What speaks against trajectories.
local function warn_of_trajectories(self, max_depth, add)
  local total = self.statistics.divergent:numel()
  if self.divergences > 0 then
    add("%d of %d transitions diverged: the step is too long for a narrow part of the posterior (target_accept = 0.95, "
      .. "or variables that are scaled and shifted: tau * z + mu)", self.divergences, total)
  end
  local depth = self.statistics.depth
  local deep = max_depth and depth and depth:ge(max_depth):to("float64"):sum():item() or 0
  if deep > 0 then
    add("%d of %d transitions reached max_depth = %d: correlated or badly scaled variables (metric = "
      .. "'dense', or a longer warmup)", deep, total, max_depth)
  end
  for k, v in ipairs(self.e_bfmi) do
    if v < 0.3 then
      add("E-BFMI of chain %d is %.2f, below 0.3: heavy tails that momenta do not reach", k, v)
    end
  end
end

-- All numbers of draws that were read, [chains, draws, n].
local function flattened(self)
  local parts = {}
  for k, name in ipairs(self.latent) do
    parts[k] = self.draws[name]:to("float64"):reshape { self.chains, self.length, -1 }
  end
  return core.concatenate(parts, 3)
end

local function warnings_of(self, max_depth)
  local list = {}
  local function add(...)
    list[#list + 1] = (...):format(select(2, ...))
  end
  if self.divergences then
    warn_of_trajectories(self, max_depth, add)
  end
  local z, still = self.unconstrained or flattened(self), {}
  for k, moved in ipairs(z:ne(z:slice(2, 1, 1)):any(-1):any(-1):totable()) do
    still[#still + 1] = not moved and ("%d"):format(k) or nil
  end
  if #still > 0 then
    add("all draws of chain %s are equal: %s never moved from the start, and no number here means anything",
      table.concat(still, ", "), #still == 1 and "it" or "they")
  end
  local worst_r, worst_ess = nil, nil
  for _, row in ipairs(self:summary()) do
    -- as it is shown: 1.0100001 is not above 1.01
    if (tonumber(("%.3f"):format(row.r_hat)) or 0) > 1.01 and (not worst_r or row.r_hat > worst_r.r_hat) then
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

local predict_options = { data = options.optional "table", model = options.optional(),
  draws = options.optional "number" }

-- Raises where draws that were read from a file have no model.
local function needs_model(where, self)
  if not self.target then
    core.error(("%s: these draws were read from a file without their model; pn.restore makes a posterior with it of "
      .. "what p:save has written"):format(where))
  end
end

local function flat_draws(where, self, n)
  needs_model(where, self)
  local z = self.unconstrained:reshape { -1, self.unconstrained:size(3) }
  if not n or n >= z:size(1) then
    return z
  end
  local order = core.randperm(z:size(1)):slice(1, 1, n)
  return z:take(1, order)
end

--- Draws of the observed sites given the draws of the latent ones, by site [chains * draws, ...], and values of the
--- deterministic ones; those of a scan have time next. Options: data, a list of other arguments for the model; model,
--- another model with these latent variables; draws, how many at most (picked at random). Enumerated variables in no
--- plate are drawn from their posterior given each draw and the data that were sampled from, those of rows from their
--- priors.
function methods:predict(given)
  local o = options.check("predict", given, predict_options)
  local z = flat_draws("predict", self, o.draws)
  return at_draws.predicted(self.target, o.model or self.model, o.data and model.packed(o.data) or self.args, z)
end

local data_options = { data = options.optional "table" }

--- The log density of each observation at each draw, by site: [chains, draws, ...]; sites of a scan have time next.
--- Enumerated variables are summed out; sites that share one are one entry, "x, y". Option: data, a list of other
--- arguments for the model, with what was observed there.
function methods:log_likelihood(given)
  local o = options.check("log_likelihood", given, data_options)
  if self.log_densities and not o.data then
    return self.log_densities
  end
  local z = flat_draws("log_likelihood", self)
  local sites, names = at_draws.log_likelihood(self.target, self.model, o.data and model.packed(o.data) or self.args, z)
  for _, name in ipairs(names) do
    sites[name] = sites[name]:reshape { self.chains, -1, table.unpack(sites[name]:shape(), 2) }
  end
  return sites
end

local label_options = { draws = options.optional "number" }

--- The posterior probabilities of the values of enumerated variables, which are summed out of the draws: a table site
--- -> [rows..., K], those of a scan [time, rows..., K]: given all data, the mean over the draws. Option: draws, how
--- many of them at most (picked at random).
---
---     local z = p:labels().z             -- [rows, K]
---     z:argmax(-1)                       -- the likeliest value of each row, from 0 on
function methods:labels(given)
  local o = options.check("labels", given, label_options)
  local z = flat_draws("labels", self, o.draws)
  return label_posterior.probabilities(self.target, self.model, self.args, z)
end

--- Joint draws of the enumerated variables given each draw of the others and all data: a table site -> int64
--- [chains * draws, rows...]; those of a scan have time next. Option: draws, how many at most (picked at random).
function methods:label_draws(given)
  local o = options.check("label_draws", given, label_options)
  local z = flat_draws("label_draws", self, o.draws)
  return label_posterior.draws(self.target, self.model, self.args, z)
end

--- Posterior predictive checks: statistics of what was observed against those of `draws` (1000) replications of it.
--- Gives a list of {name, observed, mean, q05, q95, p_value, replicated}, also by name; p_value is the share of
--- replications above the observed one (ties half): near 0 or 1 the model cannot make data like these. As text a table;
--- check:plot(path) is a picture. Options: statistic, a function of the site's value that gives a number, or a table
--- name -> function (mean, sd, min and max unless given); site, which one where several are observed; data, as for
--- predict.
function methods:check(given)
  local z = flat_draws("check", self, 1)
  return predictive.check(self, given, self.target:values_at(z[1]))
end

--- Leave-one-out predictive density by Pareto-smoothed importance sampling: how well the model predicts an observation
--- from all others. Each element of an observed site is one observation. site: the name of one observed site (all of
--- them together unless given).
---
---     local a, b = p1:loo(), p2:loo()
---     print(a, a.elpd - b.elpd)      -- the larger predicts better: pn.compare{a, b} says how sure that is
---
--- Gives elpd (the sum of log p(y_i | y_-i), nats), se its standard error, p (the effective number of parameters),
--- pointwise [N] and k [N], the k-hat of each observation, and a warning that names the worst of them, nil while all
--- are below what the number of draws allows. How much of the weights' tail is smoothed follows from the relative
--- efficiency of each observation's likelihood along the chains. Vehtari, Gelman & Gabry 2017.
function methods:loo(site)
  return predictive_density.loo(self, site)
end

--- The widely applicable information criterion: elpd = sum of log mean density less the variance of the log density
--- over the draws. The same question as p:loo's, answered without a diagnostic of each observation: prefer p:loo. site:
--- as there. Gives elpd, se, p, pointwise [N], and a warning where a variance is above 0.4. Watanabe 2010.
function methods:waic(site)
  return predictive_density.waic(self, site)
end

--- Draws a picture of the draws into the file `path` (.svg, .png, .pdf), without a path on the terminal. Option kind:
---
---     "trace"         laws and paths of the chains, divergences at the foot (unless kind says otherwise)
---     "rank"          how the ranks of each chain lie among all draws: level where chains have one law
---     "marginal"      the law of each number, its middle 90 % and its mean
---     "forest"        median, middle 50 % and 90 % of each number, one below the other
---     "pairs"         each number against each one before it, divergences in red: where they gather is the trouble
---     "energy"        energies and their changes: far narrower changes do not reach the tails (E-BFMI)
---     "predictive"    laws of replicated data (p:predict) over that of what was observed; site: which one
---
--- names: sites or elements ({"w", "s[2]"}; all latent ones unless given, as many as a picture holds), title, size
--- {width, height}. Returns the path (true), or nil, message, code ("missing" without gnuplot).
function methods:plot(path, given)
  return posterior_plot.draw(self, path, given)
end

--- Writes draws and statistics to a safetensors file: the draws by site as other programs read them, "draws.w", and
--- what pn.restore makes the posterior of again. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  needs_model("save", self)
  local evidence = self.log_evidence
  return data.save_safetensors(path, { draws = self.draws, unconstrained = self.unconstrained,
    statistics = self.statistics, seconds = self.seconds, max_depth = self.max_depth, particles = self.particles,
    log_evidence = evidence and evidence.value, log_evidence_error = evidence and evidence.se,
    warmup = self.warmup, gradients = self.gradients }, { format = "penumbra posterior" })
end

--- Writes the draws as ArviZ reads them (arviz.from_zarr(path)): a Zarr store, a folder, with the groups posterior,
--- sample_stats (lp, acceptance_rate, step_size, tree_depth, n_steps, diverging, energy) and observed_data. Options:
---
--- groups    more of them, a list: "log_likelihood", "posterior_predictive", "prior"
--- draws     of the prior, 1000
--- dims      table site -> list of names of its axes after chain and draw; theta_dim_0, ... unless given
--- coords    table name of an axis -> vector or list of texts; 0, 1, 2, ... unless given
---
--- pn.infer.arviz(path) reads it. Returns true, or nil, message, code.
function methods:save_arviz(path, given)
  return arviz_groups.save_posterior(self, path, given)
end

local class = { __name = "posterior", __index = core.namespace("a posterior", methods) }

function class.__tostring(self)
  local n = self.chains * self.length
  local before = self.warmup and (" after %d of warm-up"):format(self.warmup) or ""
  local taken = self.seconds and (" in %.1f s"):format(self.seconds) or ""
  local summary = self.length >= 4 and tostring(self:summary(self.latent)) or "too few draws for a summary"
  local text = ("%s\n%d %s%s"):format(summary, n, self.particles and "particles"
    or ("draws of %d chains%s"):format(self.chains, before), taken)
  if self.log_evidence then
    text = ("%s, log evidence %.4f"):format(text, self.log_evidence.value)
    text = self.log_evidence.se and ("%s, standard error %.2g"):format(text, self.log_evidence.se) or text
  end
  for _, warning in ipairs(self.warnings) do
    text = text .. "\n" .. layout.fill("warning: " .. warning, "", "  ", 79)
  end
  return text
end

-- Divergences, energies and warnings, where the statistics tell them.
local function judged(self, max_depth)
  local columns = self.statistics
  if self.particles then
    self.warnings = self.warnings or {}
    return self
  end
  if columns.divergent then
    self.divergences = math.floor(columns.divergent:sum():item() + 0.5)
    self.e_bfmi = columns.energy and self.length > 1 and e_bfmi(columns.energy) or {}
  end
  self.warnings = self.length >= 4 and warnings_of(self, max_depth) or {}
  return self
end

--- new{model =, args =, target =, unconstrained = [chains, draws, n], statistics = [chains, draws, 7] or columns by
--- name, seconds =}: the posterior of these draws. particles: they are no chains (chains = 1); their log_evidence and
--- its error. Internal.
function posterior.new(given)
  local self, target = setmetatable(given, class), given.target
  if self.log_evidence then
    self.log_evidence, self.log_evidence_error = estimate.new(self.log_evidence, self.log_evidence_error), nil
  end
  local z = self.unconstrained
  self.chains, self.length = z:size(1), z:size(2)
  local values = target:compiled_values()
  values(z[1][1])
  local rows = values:map(z:reshape { -1, z:size(3) })
  self.draws, self.names = at_draws.by_site(rows:reshape { self.chains, z:size(2), -1 }, target:outputs())
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
  local columns = self.statistics
  if core.is_tensor(columns) then
    columns = {}
    for k, name in ipairs(STATISTICS) do
      columns[name] = self.statistics:select(3, k):contiguous()
    end
    self.statistics = columns
  end
  return judged(self, given.max_depth)
end

--- of_draws{draws = {name = [chains, draws, ...]}, names =, statistics = {name = [chains, draws]}}: the posterior of
--- draws that were read from a file, which has no model. What else it may have: warmup, seconds, max_depth, particles
--- with log_evidence, log_densities = {name = [chains, draws, ...]} and notes, a list of warnings. Internal.
function posterior.of_draws(given)
  local self = setmetatable(given, class)
  local first = self.draws[self.names[1]]
  if self.log_evidence then
    self.log_evidence, self.log_evidence_error = estimate.new(self.log_evidence, self.log_evidence_error), nil
  end
  self.chains, self.length, self.latent = first:size(1), first:size(2), self.latent or self.names
  judged(self, self.max_depth)
  self.warnings = table.move(self.notes or {}, 1, #(self.notes or {}), #self.warnings + 1, self.warnings)
  return self
end

--- Is x a posterior?
function posterior.is(x)
  return type(x) == "table" and getmetatable(x) == class
end

local restore_options = { model = options.any(nil), data = options.optional "table" }

-- Where statistics lie; log densities may be infinite.
local BOUNDS = { accept = { 0, 1 + 1e-9 }, divergent = { 0, 1 }, depth = { 0, 64 }, leapfrogs = { 0, 2 ^ 53 },
  step_size = { 0 } }

-- They have a number for each draw; those of trajectories come together.
local function statistics_form(z, found)
  local fields = {}
  local function add(name)
    local bounds = BOUNDS[name] or {}
    fields[name] = form.tensor { dtype = { "float64", "float32", "int64", "bool" }, shape = { z:size(1), z:size(2) },
      finite = not name:find "^log_", least = bounds[1], most = bounds[2] }
  end
  add "accept"
  for name in pairs(type(found) == "table" and found or {}) do
    add(tostring(name))
  end
  for _, name in ipairs(fields.divergent and STATISTICS or {}) do
    add(name)
  end
  return form.record(fields)
end

local posterior_file = saved.file {
  noun = "posterior that p:save has written",
  is = function(_, metadata) return metadata.format == "penumbra posterior" end,
  form = function(found)
    local z = form.tensor { dtype = "float64", shape = { -1, -1, -1 }, finite = true, nonempty = true }
    local fields = { unconstrained = z, draws = form.map(form.tensor {}), statistics = form.any,
      seconds = form.number { least = 0 }, max_depth = form.optional(form.whole(0)),
      particles = form.optional(form.boolean), log_evidence = form.optional(form.number()),
      log_evidence_error = form.optional(form.number { least = 0 }), warmup = form.optional(form.whole(0)),
      gradients = form.optional(form.whole(0)) }
    if #form.misfits(found.unconstrained, z) == 0 then
      fields.statistics = statistics_form(found.unconstrained, found.statistics)
    end
    return form.record(fields)
  end,
}

-- Within rounding of each other, and NaN and infinite at the same places?
local function alike(own, t)
  local same = own:eq(t):logical_or(own:isnan():logical_and(t:isnan()))
  local finite = t:isfinite()
  local size = core.where(finite, t, core.zeros({}, { dtype = t:dtype() })):abs():max():item()
  local near = (own - t):abs():le(1e-6 * (1 + size)):logical_and(finite)
  return same:logical_or(near):all():item()
end

-- Why draws from a file cannot be those of a posterior, or nil.
local function misfit(self, found)
  local drawn = {} -- deterministic sites that depend on discrete draws have the file's
  for _, out in ipairs(self.target.enumerates and self.target:outputs() or {}) do
    drawn[out.time and out.base or out.name] = out.deterministic
  end
  for name, t in pairs(found.draws) do
    local own = self.draws[name]
    local same = own and table.concat(own:shape(), ",") == table.concat(t:shape(), ",")
    if same and own:dtype() ~= t:dtype() then
      return ("site '%s' of the file is %s, in the model %s"):format(name, t:dtype(), own:dtype())
    elseif not same then
      return ("site '%s' of the file is %s"):format(name, own and "of another shape in the model" or "not in the model")
    elseif drawn[name] then
      self.draws[name] = t
    elseif not alike(own, t) then
      return ("the model gives other values of '%s' than the file has"):format(name)
    end
  end
  return nil
end

saved.restored_by(posterior_file, function(path, given)
  local o = options.check("restore", given, restore_options)
  local m = o.model
  if not model.is(m) then
    core.error("restore: needs a model (pn.model), got " .. type(m))
  end
  local found, message, code = saved.read("restore", path, posterior_file)
  if not found then
    return nil, message, code
  end
  local args = model.packed(o.data)
  local t = targets.new(m, args, core.generator(0), true)
  if t.size ~= found.unconstrained:size(3) then
    return nil, ("restore: the file is of another model: it has %d numbers a draw, the model has %d"):format(
      found.unconstrained:size(3), t.size), "shape"
  end
  local self = posterior.new { model = m, args = args, target = t, unconstrained = found.unconstrained,
    statistics = found.statistics, seconds = found.seconds, max_depth = found.max_depth, particles = found.particles,
    warmup = found.warmup, gradients = found.gradients, log_evidence = found.log_evidence,
    log_evidence_error = found.log_evidence_error }
  local why = misfit(self, found)
  if why then
    return nil, "restore: the file is of another model: " .. why, "domain"
  end
  return self
end)

posterior.methods = methods

return posterior
