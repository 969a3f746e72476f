--- Are predictions right? Draws of what was, or will be, observed against the observations.
---
---     local c = pn.calibration(y, draws)          y [N, ...], draws [S, N, ...]: draws[s] as y might have been
---     print(c)                    coverage and width of central intervals, CRPS, p-value of uniform PIT values
---     c.coverage[0.9]             share of y within the central 90 % interval
---     c.pit                       probability integral transforms, uniform for calibrated predictions
---     c:plot("calibration.svg")
---
---     local check = p:check{statistic = {min = pn.min, zeros = function(y) return y:eq(0):sum() end}}
---     print(check)                posterior predictive p-values: of a posterior or of a fit of pn.svi
---     check:plot("check.svg")
---
---     pn.prior_predictive(model, {data = {x}, draws = 1000}).y      what the model expects before it has seen data
---
--- Sources: Gneiting, Balabdaoui & Raftery 2007 (PIT); Gneiting & Raftery 2007 (CRPS); Gelman, Meng & Stern 1996.
-- help: pn
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local at_draws = require "penumbra.infer.at_draws"
local metrics = require "penumbra.metrics"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local uniformity = require "penumbra.infer.uniformity"
local plot = require "penumbra.plot"

local predictive = {}

-- ---- calibration of predictions ----

local CELLS = 1000 -- of the unit interval, for the uniformity of PIT values

local methods = {}

-- Quantiles of draws [S, N] at a level, between the two nearest ones: [N].
local function quantile(sorted, level)
  local at = level * (sorted:size(1) - 1)
  local low = math.min(math.floor(at), sorted:size(1) - 2)
  local share = at - low
  return sorted[low + 1] * (1 - share) + sorted[low + 2] * share
end

local function cells_of(pit)
  local list = (pit * CELLS):floor():totable()
  for k, v in ipairs(list) do
    list[k] = math.min(math.floor(v), CELLS - 1)
  end
  return list
end

--- Draws the picture into the file `path` (.svg or .png): the empirical distribution function of the PIT values less
--- the uniform one, in the band that holds it everywhere with probability 99 %, their histogram, and coverage against
--- level. Returns what pn.plot.save returns.
function methods:plot(path)
  options.argument("plot", "path", path, "string")
  local n, law = self.pit:size(1), self.law
  local low, high = law:band(0.99)
  local counts = law:counts(cells_of(self.pit))
  local z, lower, upper, apart = { 0 }, { 0 }, { 0 }, { 0 }
  for j, point in ipairs(law.points) do
    local at = point / law.cells
    z[j + 1], lower[j + 1], upper[j + 1] = at, low[j] / n - at, high[j] / n - at
    apart[j + 1] = counts[j] / n - at
  end
  z[#z + 1], lower[#lower + 1], upper[#upper + 1], apart[#apart + 1] = 1, 0, 0, 0
  local levels, shares, errors = {}, {}, {}
  for k, row in ipairs(self) do
    levels[k], shares[k], errors[k] = row.level, row.coverage, 2 * row.standard_error
  end
  return plot.save(path, {
    plot.panel { title = ("PIT (p = %.2g)"):format(self.p_value), x_range = { 0, 1 }, x_label = "PIT",
      y_label = "share below, less uniform", plot.band(z, lower, upper, { colour = "#5f6b78" }), plot.line(z, apart) },
    plot.panel { title = "PIT", x_range = { 0, 1 }, x_label = "PIT", y_label = "observations",
      plot.histogram(self.pit, { bins = math.max(5, math.min(20, n // 10)) }) },
    plot.panel { title = "coverage of central intervals", x_range = { 0, 1 }, y_range = { 0, 1 }, x_label = "level",
      y_label = "share within", plot.line({ 0, 1 }, { 0, 1 }, { dashed = true, colour = "#888888" }),
      plot.error_bars(levels, shares, errors) },
  }, { columns = 3, size = { 1260, 380 } })
end

local class = { __name = "calibration", __index = core.namespace("a calibration", methods) }

function class.__tostring(self)
  local lines = { ("%8s %10s %8s %12s"):format("level", "coverage", "+-", "mean width") }
  for _, row in ipairs(self) do
    lines[#lines + 1] = ("%8.3g %10.4f %8.4f %12.5g"):format(row.level, row.coverage, row.standard_error, row.width)
  end
  lines[#lines + 1] = ("%d observations, %d draws: CRPS %.5g, PIT uniform with p = %.2g"):format(self.pit:size(1),
    self.draws, self.crps, self.p_value)
  return table.concat(lines, "\n")
end

local calibration_options = { levels = options.any(nil), generator = options.optional() }

--- calibration(y, draws, {levels = {0.5, 0.8, 0.9, 0.95}}) -> how well draws predict y [N, ...], draws [S, N, ...]
--- (pn.help "penumbra.infer.predictive"): a list of {level, coverage, standard_error, width}, an entry for each central
--- interval between quantiles of the draws, with fields coverage[level], pit [N...] (flat; ties and the space between
--- draws at random, by `generator`), p_value of their uniformity, crps (fair, the mean). Observations are taken as
--- independent: the standard error and the p-value of correlated ones are too small.
function predictive.calibration(y, draws, given)
  local o = options.check("calibration", given, calibration_options)
  options.draws("calibration", y, draws)
  local levels = o.levels or { 0.5, 0.8, 0.9, 0.95 }
  for _, level in ipairs(options.argument("calibration", "levels", levels, "table")) do
    if type(level) ~= "number" or not (level > 0 and level < 1) then
      core.error(("calibration: levels must lie between 0 and 1, got %s"):format(tostring(level)))
    end
  end
  local s = draws:size(1)
  y, draws = y:detach():to("float64"):reshape { -1 }, draws:detach():to("float64"):reshape { s, -1 }
  local n = y:size(1)
  local self = setmetatable({ coverage = {}, draws = s, pit = metrics.pit(y, draws, { generator = o.generator }),
    crps = metrics.crps(y, draws):mean():item(), law = uniformity.new(n, CELLS) }, class)
  self.p_value = self.law:p_value(self.law:counts(cells_of(self.pit)))
  local sorted = draws:sort(1)
  for k, level in ipairs(levels) do
    local low, high = quantile(sorted, (1 - level) / 2), quantile(sorted, (1 + level) / 2)
    local share = y:ge(low):logical_and(y:le(high)):to("float64"):mean():item()
    self[k] = { level = level, coverage = share, standard_error = math.sqrt(level * (1 - level) / n),
      width = (high - low):mean():item() }
    self.coverage[level] = share
  end
  return self
end

-- ---- posterior predictive checks ----

local check_methods = {}

--- Draws histograms of the replicated statistics, the observed one as a line, into the file `path` (.svg or .png).
function check_methods:plot(path)
  options.argument("plot", "path", path, "string")
  local panels = {}
  for k, row in ipairs(self) do
    local bars = plot.histogram(row.replicated, { label = "replicated" })
    local most = math.max(table.unpack(bars.counts))
    panels[k] = plot.panel { title = ("%s (p = %.3f)"):format(row.name, row.p_value), x_label = row.name,
      y_label = "draws", legend = "below", bars,
      plot.line({ row.observed, row.observed }, { 0, most }, { label = "observed", colour = "#b5486a", width = 3 }) }
  end
  return plot.save(path, panels)
end

local check_class = { __name = "check", __index = core.namespace("a check", check_methods) }

function check_class.__tostring(self)
  local longest = #"statistic"
  for _, row in ipairs(self) do
    longest = math.max(longest, #row.name)
  end
  local lines = { ("%-" .. longest .. "s %10s %10s %10s %10s %8s"):format("statistic", "observed", "replicated", "q05",
    "q95", "p") }
  for _, row in ipairs(self) do
    lines[#lines + 1] = ("%-" .. longest .. "s %10.4g %10.4g %10.4g %10.4g %8.3f"):format(row.name, row.observed,
      row.mean, row.q05, row.q95, row.p_value)
  end
  return table.concat(lines, "\n")
end

local check_options = { statistic = options.any(nil), site = options.optional "string", draws = 1000,
  data = options.optional "table" }

local usual = { "mean", "sd", "min", "max" }
local usual_statistics = {
  mean = function(y) return y:mean() end,
  sd = function(y) return y:std() end,
  min = function(y) return y:min() end,
  max = function(y) return y:max() end,
}

-- Names and functions of what was asked for.
local function statistics_of(given)
  if given == nil then
    return usual, usual_statistics
  elseif type(given) == "function" then
    return { "statistic" }, { statistic = given }
  end
  local names = {}
  for name, f in pairs(options.argument("check", "statistic", given, "table")) do
    if type(name) ~= "string" or type(f) ~= "function" then
      core.error "check: statistic must be a function of what is observed, or a table name -> function"
    end
    names[#names + 1] = name
  end
  if #names == 0 then
    core.error "check: statistic must have at least one function"
  end
  table.sort(names)
  return names, given
end

local function value_of(name, f, y)
  local v = f(y)
  v = core.is_tensor(v) and v:numel() == 1 and v:to("float64"):item() or v
  if type(v) ~= "number" then
    core.error(("check: statistic '%s' must give one number, got %s"):format(name,
      core.is_tensor(v) and "a tensor of shape [" .. table.concat(v:shape(), ", ") .. "]" or type(v)))
  end
  return v
end

local function share_and_quantiles(row)
  local above, equal, sum = 0, 0, 0
  local sorted = table.move(row.replicated, 1, #row.replicated, 1, {})
  table.sort(sorted)
  for _, v in ipairs(sorted) do
    above = above + (v > row.observed and 1 or 0)
    equal = equal + (v == row.observed and 1 or 0)
    sum = sum + v
  end
  local n = #sorted
  row.p_value, row.mean = (above + 0.5 * equal) / n, sum / n
  row.q05, row.q95 = sorted[math.max(1, math.ceil(0.05 * n))], sorted[math.ceil(0.95 * n)]
end

--- What `check` of a posterior and of a fit does, with their way to predict and a way to give latent values. Internal.
function predictive.check(self, given, value)
  local o = options.check("check", given, check_options)
  options.whole("check", "draws", o.draws, 2)
  local names, functions = statistics_of(o.statistic)
  local observed, sites = at_draws.observed(self.model, self.args, value)
  local site = o.site or sites[1]
  if not observed[site] then
    core.error(o.site and ("check: the model observes no '%s'%s"):format(o.site, options.suggestion(o.site, sites))
      or "check: the model observes nothing")
  elseif not o.site and #sites > 1 then
    core.error(("check: option 'site' must be one of what is observed: %s"):format(table.concat(sites, ", ")))
  end
  local replicated = self:predict { draws = o.draws, data = o.data }[site]
  local check = setmetatable({}, check_class)
  for k, name in ipairs(names) do
    local row = { name = name, observed = value_of(name, functions[name], observed[site]), replicated = {} }
    for i = 1, replicated:size(1) do
      row.replicated[i] = value_of(name, functions[name], replicated[i])
    end
    share_and_quantiles(row)
    check[k], check[name] = row, row
  end
  return check
end

-- ---- before data ----

local prior_options = { data = options.optional "table", draws = 1000 }

--- prior_predictive(model, {data = {x, y}}): draws of everything in a model before it has seen anything: latent
--- variables from their priors, deterministic sites, and what is observed given them, a table site -> [draws, ...];
--- sites of a scan have time next. data: the model's arguments after m (what was observed among them is not looked at);
--- draws: 1000. Variables without a prior (m:flat) are an error, unless their value is given by model:intervene.
function predictive.prior_predictive(m, given)
  local o = options.check("prior_predictive", given, prior_options)
  if not model.is(m) then
    core.error(("prior_predictive: needs a model (pn.model), got %s"):format(type(m)))
  end
  local function value(_, site)
    if site.constraint then
      core.error(("prior_predictive: '%s' is restricted to a set by its constraint: draws from its law would leave it")
        :format(site.name))
    end
  end
  local z = core.zeros({ o.draws, 1 }, { dtype = "float64" })
  local sites = recording.off(at_draws.sites, "prior_predictive", m, model.packed(o.data), z, function()
    return { predict = true, whole = true, detached = true, value = model.replaying(m, value) }
  end, function(site)
    return site.predicted or site.kind == "deterministic" or site.kind == "sample" and not site.observed
  end)
  return sites
end

return predictive
