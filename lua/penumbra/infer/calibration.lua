--- Is inference right? Parameters and data are drawn from the model's own joint law, the posterior of each data set is
--- sampled, and the rank of each parameter among its draws must be uniform.
---
---     local sbc = pn.sbc(model, {data = {x}, simulations = 200})
---     print(sbc)                    a line for each quantity: mean and spread of the ranks, p-value, what is wrong
---     sbc:passed()                  true if nothing is
---     sbc:plot("sbc.svg")           empirical distribution functions less the uniform one, in their bands; ranks
---     sbc.ranks["w[1]"]             int64 [simulations], from 0 to draws
---     sbc.p_values["w[1]"]          of uniformity: exact, over the whole of the distribution function at once
---     sbc.rng_state                 of the default generator before the first simulation: the same ranks again
---
--- The model's observed sites are drawn and then observed in place of what the data holds, so data are the covariates,
--- with anything of the right shape (or nil) for what is observed. Beside all latent variables "log_likelihood" is a
--- quantity: the ranks of parameters alone are uniform too for a sampler that never looks at the data.
---
---     pn.vsbc(model, "mean_field", {data = {x}})    of a guide: which marginals are biased (asks for less: symmetry)
---
--- Sources: Talts, Betancourt, Simpson, Vehtari & Gelman 2018; Sailynoja, Burkner & Vehtari 2022 (bands); Modrak et al.
--- 2023 (quantities of the data); Yao, Vehtari, Simpson & Gelman 2018 (VSBC).
-- help: pn
local core = require "penumbra.core"
local at_draws = require "penumbra.infer.at_draws"
local log_weights = require "penumbra.infer.log_weights"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local nuts = require "penumbra.infer.nuts"
local simulations = require "penumbra.infer.simulations"
local svi = require "penumbra.infer.svi"
local uniformity = require "penumbra.infer.uniformity"
local plot = require "penumbra.plot"

local calibration = {}

-- ---- the joint law ----

-- Appends the site's place in a row of numbers to a layout, a list that is also indexed by name.
local function place(layout, site)
  local n = layout.size or 0
  local entry = { name = site.name, base = site.base, time = site.time, shape = site.value:shape(),
    dtype = site.value:dtype(), first = n + 1, last = n + site.value:numel() }
  layout.size = entry.last
  layout[#layout + 1], layout[site.name] = entry, entry
end

local function is_latent(site)
  return (site.kind == "sample" or site.kind == "flat") and not site.observed and not site.enumerable
end

local function part(row, entry)
  local t = row:slice(1, entry.first, entry.last):reshape(entry.shape)
  return entry.dtype ~= "float64" and t:to(entry.dtype) or t
end

local function flat(values)
  for k, t in ipairs(values) do
    values[k] = t:to("float64"):reshape { -1 }
  end
  return core.concatenate(values, 1)
end

-- n rows f(row), compiled; rows [n, ...] is what f is called with, one at a time.
local function mapped(m, rows, f)
  f(rows[1]) -- once outside of a capture
  local compiled = replay.compile(f, { watch = m.body, plans = 1 })
  compiled(rows[1])
  return compiled:map(rows)
end

-- What speaks against drawing a site of the model from its prior, or nil.
local function why_not(site)
  if site.constraint then
    return ("'%s' is restricted to a set by its constraint, so its prior cannot be drawn from"):format(site.name)
  elseif site.kind == "factor" then
    return ("factor '%s' changes the joint law by a density from which nothing is drawn"):format(site.name)
  elseif site.observed then
    return ("'%s' is conditioned on a value"):format(site.name)
  end
  for _, plate in ipairs(site.plates) do
    if plate.rows < plate.size then
      return ("plate '%s' takes only %d of %d rows"):format(plate.name, plate.rows, plate.size)
    end
  end
end

local function flat_has_no_prior(_, site)
  if site.kind == "flat" then
    core.error(("sbc: '%s' has no prior from which it could be drawn (give simulate, a function that draws)"):format(
      site.name))
  end
end

-- The layouts of latent and observed sites.
local function explore(where, m, args)
  local t = model.run(m, args, { predict = true, check = true, locate = true, value = flat_has_no_prior })
  local latent, observed = {}, {}
  for _, site in ipairs(t.order) do
    local why = why_not(site)
    if why then
      core.error(("%s: %s (give simulate, a function that draws)"):format(where, why))
    elseif site.predicted then
      place(observed, site)
    elseif is_latent(site) then
      place(latent, site)
    end
    latent.enumerates = latent.enumerates or site.enumerable
  end
  if #latent == 0 or #observed == 0 then
    core.error(("%s: the model %s"):format(where, #latent == 0 and "has no latent variable" or "observes nothing"))
  end
  return latent, observed
end

-- n draws of the latent sites and, where a layout of them is given, of the observed ones: [n, sizes].
local function draw_joint(m, args, latent, observed, n)
  return mapped(m, core.zeros { n, 1 }, function()
    local t, parts = model.run(m, args, { predict = true }), {}
    for _, layout in ipairs { latent, observed } do
      for _, entry in ipairs(layout) do
        parts[#parts + 1] = t.sites[entry.name].value
      end
    end
    return flat(parts)
  end)
end

local function sites_of(row, layout)
  local values = {}
  for _, entry in ipairs(layout) do
    values[entry.name] = part(row, entry)
  end
  return values
end

-- Log likelihood and the user's quantities at rows of latent values: [n, 1 + quantities]; their names.
local function evaluate(problem, rows, quantities)
  local names
  local values = mapped(problem.model, rows, function(row)
    local given = sites_of(row, problem.latent)
    local t = model.run(problem.model, problem.args, { value = function(_, site) return given[site.name] end })
    local total
    for _, site in ipairs(t.order) do
      if site.observed or site.kind == "factor" then
        local lp = site.log_prob:sum()
        total = total and total + lp or lp
      end
    end
    local parts = { total or core.tensor(0) }
    names = { "log_likelihood" }
    if quantities then
      local more = {}
      for name in pairs(options.argument("sbc", "what quantities gives", quantities(given), "table")) do
        more[#more + 1] = name
      end
      table.sort(more)
      local found = quantities(given)
      for _, name in ipairs(more) do
        local v = type(found[name]) == "number" and core.tensor(found[name]) or found[name]
        if not core.is_tensor(v) or v:numel() ~= 1 then
          core.error(("sbc: quantity '%s' must be one number for each draw"):format(tostring(name)))
        end
        parts[#parts + 1], names[#names + 1] = v, name
      end
    end
    return flat(parts)
  end)
  return values, names
end

-- ---- samplers: functions of a problem and how many draws, that give draws by site [n, ...] or a matrix of rows ----

local samplers, sampler_options = {}, {}

local function hamiltonian(name)
  sampler_options[name] = { thin = 4, warmup = 300 }
  return function(problem, n, o)
    local thin = o.thin
    local given = options.merged(o, { data = problem.args, chains = 1, draws = n * thin })
    given.thin = nil
    local p = nuts[name](problem.model, given)
    local sites = {}
    for site, draws in pairs(p.draws) do
      sites[site] = draws[1]:slice(1, thin, n * thin, thin)
    end
    problem.ess = p.unconstrained and core.draws_summary(p.unconstrained):select(2, 7):min():item()
    return sites
  end
end

samplers.nuts, samplers.hmc = hamiltonian "nuts", hamiltonian "hmc"

-- Draws of the prior, picked by their likelihoods.
sampler_options.importance = { num_particles = 2000 }
samplers.importance = function(problem, n, o)
  local rows = draw_joint(problem.model, problem.args, problem.latent, {}, o.num_particles)
  local log_w = evaluate(problem, rows):slice(2, 1, 1)
  problem.ess = log_weights.effective_sample_size(log_w):item()
  return log_weights.sir(log_w, n, { values = rows:unsqueeze(2) }):squeeze(2)
end

sampler_options.svi = { guide = "mean_field" }
samplers.svi = function(problem, n, o)
  local given = options.merged(o, { data = problem.args })
  given.guide = nil
  return svi.svi(problem.model, o.guide, given):sample(n)
end

-- Rows [n, size] of what a sampler gave.
local function packed(where, draws, n, layout)
  if core.is_tensor(draws) then
    return draws
  elseif type(draws) ~= "table" then
    core.error(("%s: sampler must give a table site -> draws [%d, ...], got %s"):format(where, n, type(draws)))
  end
  local parts = {}
  for k, entry in ipairs(layout) do
    local value = draws[entry.name]
    if value == nil and entry.time then
      value = draws[entry.base]
      for _, t in ipairs(entry.time) do
        value = value and value:select(2, t)
      end
    end
    local size = entry.last - entry.first + 1
    if not core.is_tensor(value) or value:numel() ~= n * size then
      core.error(("%s: the sampler must give %d draws of '%s', a tensor [%d, ...], got %s"):format(where, n,
        entry.name, n, core.is_tensor(value) and "shape [" .. table.concat(value:shape(), ", ") .. "]" or type(value)))
    end
    parts[k] = value:to("float64"):reshape { n, size }
  end
  return core.concatenate(parts, 2)
end

-- ---- simulations ----

-- The model given simulated data, its true latent values, and the layout of these.
local function problem_of(where, m, o, k, joint)
  if not o.simulate then
    local row = joint.rows[k]
    local latent = joint.latent
    local observed = sites_of(row:slice(1, latent.size + 1, row:size(1)), joint.observed)
    return { model = m:condition(observed), args = joint.args, latent = latent, observed = observed,
      truth = row:slice(1, 1, latent.size) }
  end
  local values, data = o.simulate(k)
  if type(values) ~= "table" or type(data) ~= "table" then
    core.error(("%s: simulate must give a table site -> value and a list of data, got %s and %s"):format(where,
      type(values), type(data)))
  end
  local args, latent, parts = model.packed(data), {}, {}
  local t = model.run(m, args, { value = function(_, site)
    local value = model.given_value(where, values, site)
    if not value and not site.enumerable then
      core.error(("%s: simulate gave no value of '%s'"):format(where, site.name))
    end
    return value
  end })
  for _, site in ipairs(t.order) do
    if is_latent(site) then
      place(latent, site)
      parts[#parts + 1] = site.value
    end
    latent.enumerates = latent.enumerates or site.enumerable
  end
  return { model = m, args = args, latent = latent, observed = data, truth = flat(parts) }
end

local function quantity_names(layout)
  local names = {}
  for _, entry in ipairs(layout) do
    for _, name in ipairs(at_draws.element_names(entry.name, entry.shape)) do
      names[#names + 1] = name
    end
  end
  return names
end

-- How many draws lie below the truth, those equal to it at random on either side: int64 [quantities].
local function ranks_of(truth, draws)
  local below = draws:lt(truth):sum(1):to "float64"
  local equal = draws:eq(truth):sum(1):to "float64"
  return (below + (core.rand { truth:size(1) } * (equal + 1)):floor()):to "int64"
end

local common = { data = options.optional "table", simulations = 200, draws = 99, simulate = options.optional "function",
  options = options.optional "table", progress = options.any(false), distributed = false,
  results = options.optional "string" }

-- One simulation: ranks [quantities] and the quantities' names.
local function simulate_once(where, m, o, k, joint, sampler)
  local problem = problem_of(where, m, o, k, joint)
  local draws = packed(where, sampler(problem, o.draws), o.draws, problem.latent)
  local names, rows = quantity_names(problem.latent), core.concatenate({ problem.truth:unsqueeze(1), draws }, 1)
  if o.of_data and not problem.latent.enumerates then
    local more, more_names = evaluate(problem, rows, o.quantities)
    rows = core.concatenate({ rows, more }, 2)
    table.move(more_names, 1, #more_names, #names + 1, names)
  end
  return ranks_of(rows[1], rows:slice(1, 2, -1)), names, problem.ess
end

-- All simulations: ranks by quantity, [simulations] each.
local function simulate_all(where, m, o, sampler)
  local state, start = core.rng_state(), core.clock()
  local joint = { args = model.packed(o.data) }
  local list, names, ess
  recording.on(function()
    if not o.simulate then
      joint.latent, joint.observed = explore(where, m, joint.args)
      joint.rows = draw_joint(m, joint.args, joint.latent, joint.observed, o.simulations)
    end
    local function simulate(k) return simulate_once(where, m, o, k, joint, sampler) end
    list, names, ess = simulations.all(where, o, state, simulate)
  end)
  table.sort(ess)
  local table_of, columns = core.stack(list, 2), {}
  for k, name in ipairs(names) do
    columns[name] = table_of[k]
  end
  return { model = m, names = names, ranks = columns, simulations = o.simulations, draws = o.draws, rng_state = state,
    ess = ess[(#ess + 1) // 2], seconds = core.clock() - start }
end

-- The sampler as a function of a problem and the number of draws.
local function sampler_of(where, given, settings)
  if type(given) == "function" then
    if settings then
      core.error(("%s: options belong to the samplers known by name"):format(where))
    end
    return function(problem, n) return given(problem.observed, n, problem.model) end
  end
  local known = sampler_options[given]
  settings = options.merged(known, settings or {})
  for key in pairs(known) do
    if key ~= "guide" then
      settings[key] = options.whole(where, key, settings[key], key == "warmup" and 0 or 1)
    end
  end
  return function(problem, n) return samplers[given](problem, n, settings) end
end

local function check(where, m, given, known)
  if not model.is(m) then
    core.error(("%s: needs a model (pn.model), got %s"):format(where, type(m)))
  end
  local o = options.check(where, given, options.merged(common, known))
  options.whole(where, "simulations", o.simulations, 10)
  return o
end

-- ---- simulation-based calibration ----

local methods = {}

-- Ranks as numbers in (0, 1), a list.
local function unit(self, name)
  return ((self.ranks[name]:to "float64" + 0.5) / (self.draws + 1)):totable()
end

local function moments(values)
  local n, sum, squares = #values, 0, 0
  for _, v in ipairs(values) do
    sum = sum + v
    squares = squares + (v - 0.5) ^ 2
  end
  return sum / n, math.sqrt(12 * squares / n)
end

-- What a quantity whose ranks are not uniform suffers from.
local function fault(values)
  local n, mean, spread = #values, moments(values)
  local off, wide = (mean - 0.5) * math.sqrt(12 * n), (spread ^ 2 - 1) * math.sqrt(n / 0.8)
  if math.abs(off) > math.abs(wide) then
    return off > 0 and "posterior too low" or "posterior too high"
  end
  return wide > 0 and "posterior too narrow" or "posterior too wide"
end

-- The p-value below which one of all quantities is at fault at the level.
local function limit(self) return (1 - self.level) / #self.names end

--- passed([level]): true if no quantity's ranks leave their bands at the level (0.99 unless the call said otherwise),
--- which holds for all quantities together (Bonferroni).
function methods:passed(level)
  level = level or self.level
  if type(level) ~= "number" or not (level > 0 and level < 1) then
    core.error(("passed: level must lie between 0 and 1, got %s"):format(tostring(level)))
  end
  for _, name in ipairs(self.names) do
    if self.p_values[name] < (1 - level) / #self.names then
      return false
    end
  end
  return true
end

local function listed(where, self, names)
  for _, name in ipairs(options.argument(where, "names", names or self.names, "table")) do
    if not self.ranks[name] then
      core.error(("%s: there is no quantity '%s'%s"):format(where, tostring(name),
        options.suggestion(name, self.names)))
    end
  end
  return names or self.names
end

local MOST_PANELS = 6

--- Draws the picture into the file `path` (.svg or .png): for each quantity (or those of the list `names`, else the six
--- with the least p-values) the empirical distribution function of its ranks less the uniform one, in the band that
--- holds it everywhere with probability `level`, and a histogram of the ranks. Returns what pn.plot.save returns.
function methods:plot(path, names)
  options.argument("plot", "path", path, "string")
  local list = table.move(listed("plot", self, names), 1, #(names or self.names), 1, {})
  if not names and #list > MOST_PANELS then
    table.sort(list, function(a, b) return self.p_values[a] < self.p_values[b] end)
    list = table.move(list, 1, MOST_PANELS, 1, {})
  end
  local law, n = self.law, self.simulations
  local low, high = law:band(self.level)
  local z, lower, upper = { 0 }, { 0 }, { 0 }
  for j, point in ipairs(law.points) do
    z[j + 1] = point / law.cells
    lower[j + 1], upper[j + 1] = low[j] / n - z[j + 1], high[j] / n - z[j + 1]
  end
  local last = #z + 1
  z[last], lower[last], upper[last] = 1, 0, 0
  local panels = {}
  for _, name in ipairs(list) do
    local counts, apart = law:counts(self.ranks[name]:totable()), { 0 }
    for j, r in ipairs(counts) do
      apart[j + 1] = r / n - z[j + 1]
    end
    apart[last] = 0
    panels[#panels + 1] = plot.panel { title = ("%s (p = %.2g)"):format(name, self.p_values[name]), x_range = { 0, 1 },
      x_label = "rank / draws", y_label = "share below, less uniform",
      plot.band(z, lower, upper, { colour = "#5f6b78" }), plot.line(z, apart) }
    panels[#panels + 1] = plot.panel { title = name, x_label = "rank / draws", y_label = "simulations",
      x_range = { 0, 1 }, plot.histogram(unit(self, name), { bins = math.max(5, math.min(20, n // 10)) }) }
  end
  return plot.save(path, panels, { columns = 2, size = { 880, 300 * #list } })
end

local class = { __name = "sbc", __index = core.namespace("an sbc", methods) }

function class.__tostring(self)
  local longest = #"quantity"
  for _, name in ipairs(self.names) do
    longest = math.max(longest, #name)
  end
  local lines = { ("%-" .. longest .. "s %9s %9s %9s"):format("quantity", "mean", "spread", "p") }
  for _, name in ipairs(self.names) do
    local values = unit(self, name)
    local mean, spread = moments(values)
    local p = self.p_values[name]
    lines[#lines + 1] = ("%-" .. longest .. "s %9.3f %9.3f %9.2g%s"):format(name, mean, spread, p,
      p < limit(self) and "  " .. fault(values) or "")
  end
  lines[#lines + 1] = ("%d simulations of %d draws in %.1f s: ranks are %s (mean 0.5 and spread 1 if uniform; %g %% "
    .. "bands)"):format(self.simulations, self.draws, self.seconds, self:passed() and "uniform" or "NOT uniform",
    self.level * 100)
  if self.ess and self.ess < self.draws then
    lines[#lines + 1] = ("warning: the median effective sample size is %.0f, below %d draws: raise thin, or "
      .. "num_particles"):format(self.ess, self.draws)
  end
  return table.concat(lines, "\n")
end

--- sbc(model, options) -> simulation-based calibration (pn.help "penumbra.infer.calibration").
---
--- data         list of the model's arguments after m: covariates, and anything where observations stand
--- sampler      "nuts" (or "hmc", "importance": draws of the prior picked by their likelihood, "svi": a guide), or a
---              function (observed, draws, model) -> table site -> draws [draws, ...]; observed: table site -> value
--- options      of the sampler: those of pn.nuts and thin (4), warmup (300); num_particles (2000); of pn.svi, and guide
--- simulations  200
--- draws        99: of each posterior, so that there are 100 possible ranks
--- quantities   a function of a table site -> value that gives a table name -> number: further quantities to be ranked
--- simulate     a function (k) -> table site -> value, list of data: draws parameters and data where the model cannot
---              (flat priors, factors, constraints); sampler functions then get the list
--- level        0.99, of the bands
--- results      path of a file that the ranks of each simulation are added to: stopped, it goes on where it stood
---              (with the same seed: pn.help "penumbra.jobs")
--- distributed  true: simulations are shared out over the ranks of mpirun. With either of these each draws from a
---              stream of its own
--- progress     true for a line on standard error, or a file
function calibration.sbc(m, given)
  local o = check("sbc", m, given, { sampler = options.any "nuts", level = 0.99,
    quantities = options.optional "function" })
  if type(o.sampler) ~= "function" and not samplers[o.sampler] then
    core.error(("sbc: sampler must be a function or one of 'nuts', 'hmc', 'importance', 'svi', got %s"):format(
      tostring(o.sampler)))
  elseif not (o.level > 0 and o.level < 1) then
    core.error(("sbc: level must lie between 0 and 1, got %g"):format(o.level))
  end
  o.of_data = true
  local self = setmetatable(simulate_all("sbc", m, o, sampler_of("sbc", o.sampler, o.options)), class)
  self.level = o.level
  self.law = uniformity.new(self.simulations, self.draws + 1)
  self.p_values = {}
  for _, name in ipairs(self.names) do
    self.p_values[name] = self.law:p_value(self.law:counts(self.ranks[name]:totable()))
  end
  return self
end

-- ---- variational simulation-based calibration ----

local guide_methods = {}

--- Draws histograms of the probabilities into the file `path` (.svg or .png), of the quantities in the list `names` or
--- of all. Those of an unbiased marginal are symmetric about a half: hollow in the middle where it is too narrow.
function guide_methods:plot(path, names)
  options.argument("plot", "path", path, "string")
  local panels = {}
  for k, name in ipairs(listed("plot", self, names)) do
    panels[k] = plot.panel { title = ("%s (p = %.2g)"):format(name, self.p_values[name]), x_range = { 0, 1 },
      x_label = "q(theta < true theta)", y_label = "simulations",
      plot.histogram(self.probabilities[name], { bins = math.max(5, math.min(20, self.simulations // 10)) }) }
  end
  return plot.save(path, panels)
end

local guide_class = { __name = "vsbc", __index = core.namespace("a vsbc", guide_methods) }

function guide_class.__tostring(self)
  local longest = #"quantity"
  for _, name in ipairs(self.names) do
    longest = math.max(longest, #name)
  end
  local lines = { ("%-" .. longest .. "s %9s %9s %9s"):format("quantity", "mean", "spread", "p") }
  for _, name in ipairs(self.names) do
    local mean, spread = moments(self.probabilities[name]:totable())
    local p = self.p_values[name]
    lines[#lines + 1] = ("%-" .. longest .. "s %9.3f %9.3f %9.2g%s"):format(name, mean, spread, p,
      p < 0.01 / #self.names and (mean > 0.5 and "  guide too low" or "  guide too high") or "")
  end
  lines[#lines + 1] = ("%d simulations in %.1f s: p-values of symmetry about a half; a spread above 1: too narrow")
    :format(self.simulations, self.seconds)
  return table.concat(lines, "\n")
end

--- vsbc(model, guide, options) -> calibration of a guide (Yao et al. 2018): for each simulation the guide is fitted by
--- pn.svi and asked for the probability q(theta < theta_0) of each marginal, where theta_0 made the data. These are
--- symmetric about a half unless the marginal is biased; how wide it is does not matter.
---
---     local v = pn.vsbc(model, "mean_field", {data = {x}, options = {steps = 2000}})
---     print(v)  v:plot("vsbc.svg")  v.probabilities.w  [simulations]
---     v.p_values.w                  of symmetry (Butler's test); v.means.w above 0.5: the guide lies too low
---
--- Options: data, simulate, progress as for pn.sbc; simulations (200); draws (1000) of the guide; options, those of
--- pn.svi.
function calibration.vsbc(m, guide, given)
  local o = check("vsbc", m, given, { draws = 1000 })
  if type(guide) ~= "string" and type(guide) ~= "table" then
    core.error("vsbc: guide must be a model, a guide of pn.infer.guide or the name of one, got " .. type(guide))
  end
  local sampler = sampler_of("vsbc", "svi", options.merged(o.options or {}, { guide = guide }))
  local self = setmetatable(simulate_all("vsbc", m, o, sampler), guide_class)
  self.probabilities, self.p_values, self.means = {}, {}, {}
  for _, name in ipairs(self.names) do
    local u = unit(self, name)
    local centred = {}
    for k, v in ipairs(u) do
      centred[k] = v - 0.5
    end
    self.probabilities[name] = core.tensor(u)
    self.means[name] = moments(u)
    self.p_values[name] = uniformity.symmetry(centred)
  end
  return self
end

return calibration
