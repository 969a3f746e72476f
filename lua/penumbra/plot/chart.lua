--- Pictures of time series, as panels: forecasts in bands and what a particle filter went through. They are functions
--- of pn.plot.
---
---     pn.plot.save("forecast.svg", pn.plot.fan_chart{draws = draws, observations = y, start = 100})
---     pn.plot.save("trace.svg", pn.plot.filter_trace(machine:trace(), {num_particles = 500}), {columns = 1})
-- help: pn.plot, quiet
local core = require "penumbra.core"
local metrics = require "penumbra.metrics"
local options = require "penumbra.options"
local plot = require "penumbra.plot.panel"

local chart = {}

-- what a panel is told beside its marks
local PANEL = { title = options.optional "string", x_label = options.optional "string",
  y_label = options.optional "string", x_range = options.optional "table", y_range = options.optional "table",
  y_log = options.optional "boolean", x_log = options.optional "boolean", legend = options.any "auto",
  legend_title = options.optional "string" }

local function with_panel(known)
  for name, rule in pairs(PANEL) do
    known[name] = rule
  end
  return known
end

local function to_panel(o, marks)
  for name in pairs(PANEL) do
    marks[name] = o[name]
  end
  return plot.panel(marks)
end

-- ---- colours ----

-- A colour "#rrggbb" with so much white in it.
local function tint(colour, white)
  local out = "#"
  for part in colour:sub(2):gmatch "%x%x" do
    local v = tonumber(part, 16)
    out = out .. ("%02x"):format(math.floor(v + (255 - v) * white + 0.5))
  end
  return out
end

local BLUE, DARK, RED = "#2f6db3", "#333333", "#b5486a"

-- ---- forecasts ----

-- Numbers of a vector.
local function vector(where, role, t, n)
  t = options.numbers(where, role, t, "tensor")
  if t:ndim() ~= 1 or n and t:size(1) ~= n then
    core.error(("%s: %s must have shape [%s], got [%s]"):format(where, role, n or "T", table.concat(t:shape(), ", ")))
  end
  return t:detach():to "float64"
end

-- What gives quantiles: a function of a probability, and the number of steps.
local function law_of(where, o)
  if (o.draws == nil) == (o.mean == nil) then
    core.error(where .. ": either draws or mean and variance must be given")
  end
  if o.draws then
    local draws = options.numbers(where, "draws", o.draws, "tensor")
    if draws:ndim() ~= 2 or draws:size(1) < 1 then
      core.error(("%s: draws must have shape [S, T], got [%s]"):format(where, table.concat(draws:shape(), ", ")))
    end
    draws = draws:detach():to "float64"
    return function(p)
      return metrics.quantiles(draws, { p })[1]
    end, draws:size(2)
  end
  local mean = vector(where, "mean", o.mean)
  if o.variance == nil then
    core.error(where .. ": variance must be given beside mean")
  end
  local scale = vector(where, "variance", o.variance, mean:size(1)):sqrt()
  return function(p)
    return mean + scale * core.tensor(p, { dtype = "float64" }):ndtri()
  end, mean:size(1)
end

-- Shares of probability, the largest first.
local function sorted_levels(where, levels)
  local out = {}
  for i, a in ipairs(levels) do
    if type(a) ~= "number" or not (a > 0 and a < 1) then
      core.error(("%s: levels must lie between 0 and 1, got %s at %d"):format(where, tostring(a), i))
    end
    out[i] = a
  end
  if #out == 0 then
    core.error(where .. ": levels must hold at least one number")
  end
  table.sort(out, function(a, b) return a > b end)
  return out
end

-- The lowest and the highest of some vectors that are finite.
local function extent(vectors)
  local low, high = math.huge, -math.huge
  for _, t in ipairs(vectors) do
    for _, v in ipairs(t:totable()) do
      if v - v == 0 then
        low, high = math.min(low, v), math.max(high, v)
      end
    end
  end
  return low, high
end

local fan_options = with_panel { draws = options.optional(), mean = options.optional(), variance = options.optional(),
  x = options.optional(), levels = { 0.5, 0.8, 0.95 }, observations = options.optional(),
  observed_at = options.optional(), start = options.optional "number", label = "median", colour = BLUE }

--- fan_chart{draws = [S, T]} or {mean = [T], variance = [T]}: a forecast as nested bands that hold the middle `levels`
--- ({0.5, 0.8, 0.95}) of its probability, and a line at the median: a panel. Quantiles of draws are metrics.quantiles;
--- mean and variance are those of a normal.
---
--- Further options: x, the T times (1, 2, ...); observations [n], dots joined by a line, at the times observed_at (the
--- first n of x); start, a time at which the forecast begins: a vertical line; label of the median, colour "#rrggbb",
--- and those of pn.plot.panel: title, x_label, y_label, x_range, y_range, x_log, y_log, legend, legend_title.
function chart.fan_chart(given)
  local where = "fan_chart"
  local o = options.check(where, given, fan_options)
  local quantile, steps = law_of(where, o)
  local x = o.x ~= nil and vector(where, "x", o.x, steps) or core.arange(1, steps + 1, { dtype = "float64" })
  local marks, drawn = {}, {}
  local levels = sorted_levels(where, o.levels)
  for i, level in ipairs(levels) do
    local low, high = quantile((1 - level) / 2), quantile((1 + level) / 2)
    local white = 0.85 - 0.5 * (i - 1) / math.max(#levels - 1, 1)
    marks[i] = plot.band(x, low, high, { opacity = 1, colour = tint(o.colour, white),
      label = ("%.6g%%"):format(level * 100) })
    drawn[#drawn + 1], drawn[#drawn + 2] = low, high
  end
  marks[#marks + 1] = plot.line(x, quantile(0.5), { colour = o.colour, label = o.label })
  if o.observations ~= nil then
    local y = vector(where, "observations", o.observations)
    local at = o.observed_at ~= nil and vector(where, "observed_at", o.observed_at, y:size(1))
    if not at and y:size(1) > steps then
      core.error(("%s: observed_at must be given for %d observations beside %d steps"):format(where, y:size(1), steps))
    end
    at = at or x:slice(1, 1, y:size(1))
    marks[#marks + 1] = plot.line(at, y, { colour = DARK, width = 0.8 })
    marks[#marks + 1] = plot.points(at, y, { colour = DARK, size = 0.35, label = "observed" })
    drawn[#drawn + 1] = y
  end
  if o.start then
    local low, high = extent(drawn)
    marks[#marks + 1] = plot.line({ o.start, o.start }, { low, high }, { colour = DARK, width = 1.2, dashed = true })
  end
  return to_panel(o, marks)
end

-- ---- filters ----

local trace_options = { x = options.optional(), filter = 1, num_particles = options.optional "number", threshold = 0.5,
  x_label = "step" }

-- A column of a trace as a vector: of one filter of a batch.
local function column(trace, name, o)
  local t = trace[name]
  if not core.is_tensor(t) or t:ndim() < 1 then
    core.error(("filter_trace: trace must be what s:trace() gives, a table of tensors [T, B...]: %s is a %s"):format(
      name, type(t)))
  end
  local steps = t:size(1)
  if steps == 0 then
    core.error "filter_trace: trace must have at least one step"
  end
  t = t:detach():to("float64"):reshape { steps, t:numel() // steps }
  if o.filter > t:size(2) then
    core.error(("filter_trace: filter must be one of %d, got %d"):format(t:size(2), o.filter))
  end
  return t:select(2, o.filter)
end

-- Those elements of x and y where `chosen` is 1.
local function where_one(x, y, chosen)
  local at, value = {}, {}
  local xs, ys = x:totable(), y:totable()
  for i, v in ipairs(chosen:totable()) do
    if v == 1 then
      at[#at + 1], value[#value + 1] = xs[i], ys[i]
    end
  end
  return at, value
end

--- filter_trace(trace [, options]): what a particle filter went through (s:trace() of pn.smc), as a list of panels:
--- effective sample size with the steps at which it resampled and the threshold below which it does; increments of the
--- log-evidence; particles of the step before that have descendants; the largest weight. For plot.save(path, panels,
--- {columns = 1}).
---
--- Options: num_particles, and threshold = 0.5 (a share of them) for the line; x, the T times; filter = 1, which of a
--- batch; x_label = "step".
function chart.filter_trace(trace, given)
  local where = "filter_trace"
  options.argument(where, "trace", trace, "table")
  local o = options.check(where, given, trace_options)
  o.filter = options.whole(where, "filter", o.filter, 1)
  local size = column(trace, "effective_sample_size", o)
  local steps = size:size(1)
  local x = o.x ~= nil and vector(where, "x", o.x, steps) or core.arange(1, steps + 1, { dtype = "float64" })
  local marks = { plot.line(x, size, { colour = BLUE, width = 1.3 }) }
  local at, value = where_one(x, size, column(trace, "resampled", o))
  if #at > 0 then
    marks[#marks + 1] = plot.points(at, value, { colour = RED, size = 0.45, label = "resampled before" })
  end
  if o.num_particles then
    local height = o.threshold * o.num_particles
    marks[#marks + 1] = plot.line({ x[1]:item(), x[steps]:item() }, { height, height },
      { colour = DARK, width = 1, dashed = true, label = ("threshold %.6g"):format(height) })
  end
  local function panel(title, list)
    list.title, list.legend = title, "below"
    list.x_label = #list == 1 and o.x_label or nil -- a legend stands in its place
    return plot.panel(list)
  end
  local top = o.num_particles and o.num_particles * 1.02 or select(2, extent { size }) * 1.05
  marks.y_range = { 0, top }
  local unique = column(trace, "unique_ancestors", o)
  return {
    panel("effective sample size", marks),
    panel("increment of the log-evidence", { plot.line(x, column(trace, "log_increment", o), { colour = BLUE,
      width = 1.3 }) }),
    panel("unique ancestors", { plot.line(x, unique, { colour = BLUE, width = 1.3 }), y_range = { 0,
      o.num_particles and top or select(2, extent { unique }) * 1.05 } }),
    panel("largest weight", { plot.line(x, column(trace, "largest_weight", o), { colour = BLUE, width = 1.3 }),
      y_range = { 0, 1 } }),
  }
end

-- Where the bins' confidences lie, a little wider, within [0, 1].
local function range_of(bins)
  local low, high = 1, 0
  for _, bin in ipairs(bins) do
    low, high = math.min(low, bin.low or bin.confidence), math.max(high, bin.high or bin.confidence)
  end
  return { math.max(0, low - 0.02), math.min(1, high + 0.02) }
end

-- Observed shares of bins by their confidence with two standard errors by their counts, and the diagonal.
local function calibration_panel(where, bins, more)
  options.argument(where, "bins", bins, "table")
  local x, y, low, high = {}, {}, {}, {}
  for k, bin in ipairs(bins) do
    options.argument(where, "bins", bin, "table")
    x[k], y[k] = bin.confidence, bin.accuracy
    -- Agresti & Coull's interval: of a share of 0 or 1, too
    local n = (bin.count or 1) + 4
    local centre = (y[k] * (n - 4) + 2) / n
    local half = 2 * math.sqrt(centre * (1 - centre) / n)
    low[k], high[k] = math.max(0, math.min(y[k], centre - half)), math.min(1, math.max(y[k], centre + half))
  end
  if #x == 0 then
    core.error(where .. ": bins must be what metrics." .. where:match "[%w_]+$" .. " gives, with data")
  end
  local span = range_of(bins)
  local floor = math.max(0, math.min(span[1], table.unpack(low)) - 0.02)
  local panel = { plot.line(span, span, { colour = DARK, width = 1, dashed = true, label = "calibrated" }),
    plot.error_bars(x, y, { lower = low, upper = high }, { colour = BLUE, size = 0.8,
      label = "observed" }),
    plot.line(x, y, { colour = BLUE, width = 1.2 }), x_range = span, y_range = { floor, 1.02 } }
  for key, value in pairs(more) do panel[key] = value end
  return plot.panel(panel)
end

--- A reliability diagram of metrics.reliability's bins: accuracy by confidence with two standard errors by the bins'
--- counts, and the diagonal of calibrated predictions, over the confidences that occur. Returns a panel.
function chart.reliability(bins)
  return calibration_panel("plot.reliability", bins, { x_label = "confidence", y_label = "accuracy" })
end

--- metrics.calibration_curve's bins as a list of two panels: how often class 1 is there by the probability that it was
--- given, with two standard errors, and how many data each bin has.
function chart.calibration_curve(bins)
  local curve = calibration_panel("plot.calibration_curve", bins, { x_label = "probability of class 1",
    y_label = "share of class 1" })
  local x, counts = {}, {}
  for k, bin in ipairs(bins) do
    x[k], counts[k] = (bin.low + bin.high) / 2, bin.count
  end
  return { curve, plot.panel { plot.bars(x, counts, { width = 0.95 }), x_range = range_of(bins),
    x_label = "probability of class 1", y_label = "data" } }
end

local curve_options = { label = options.optional "string" }

--- metrics.roc's curve with the diagonal of chance and its area: a panel.
function chart.roc(curve, given)
  options.argument("plot.roc", "curve", curve, "table")
  local o = options.check("plot.roc", given, curve_options)
  options.argument("plot.roc", "curve.false_positive", curve.false_positive, "tensor")
  options.argument("plot.roc", "curve.true_positive", curve.true_positive, "tensor")
  local x, y = curve.false_positive:to "float64", curve.true_positive:to "float64"
  local n = x:size(1)
  local area = ((x:slice(1, 2, n) - x:slice(1, 1, n - 1)) * (y:slice(1, 2, n) + y:slice(1, 1, n - 1)) / 2):sum():item()
  return plot.panel { plot.line({ 0, 1 }, { 0, 1 }, { colour = DARK, width = 1, dashed = true }),
    plot.line(x, y, { colour = BLUE, label = ("%sarea %.3f"):format(o.label and o.label .. ": " or "", area) }),
    x_range = { 0, 1 }, y_range = { 0, 1.01 }, x_label = "share of class 0 taken for 1",
    y_label = "share of class 1 found", legend = "bottom right" }
end

local confusion_options = { names = options.optional "table", title = options.optional "string" }

--- metrics.confusion's table as a panel: shares of each class in colours, numbers of data as text. Options: names of
--- the classes, title.
function chart.confusion(counts, given)
  local where = "plot.confusion"
  options.argument(where, "counts", counts, "tensor")
  local o = options.check(where, given, confusion_options)
  local k = counts:size(1)
  if counts:ndim() ~= 2 or counts:size(2) ~= k then
    core.error(("%s: counts must be [K, K], got [%s]"):format(where, table.concat(counts:shape(), ", ")))
  elseif o.names and #o.names ~= k then
    core.error(("%s: names must be %d, as there are classes, got %d"):format(where, k, #o.names))
  end
  local shares = (counts:to "float64" / counts:sum(2, true):to("float64"):clamp(1, math.huge)):totable()
  local names, light, dark = {}, { {}, {}, {} }, { {}, {}, {} }
  local numbers = counts:totable()
  for i = 1, k do
    names[i] = o.names and o.names[i] or ("%d"):format(i - 1)
    for j = 1, k do
      local to = shares[i][j] > 0.6 and dark or light
      table.insert(to[1], j)
      table.insert(to[2], i)
      table.insert(to[3], ("%d"):format(numbers[i][j]))
    end
  end
  local cells = plot.heatmap(shares, { colour_label = "share of the class" })
  cells.range = { 0, 1 }
  local panel = { title = o.title, x_label = "taken for", y_label = "class", x_names = names, y_names = names, cells }
  for colour, at in pairs { ["#ffffff"] = light, ["#222222"] = dark } do
    panel[#panel + 1] = #at[1] > 0 and plot.text(at[1], at[2], at[3], { colour = colour }) or nil
  end
  return plot.panel(panel)
end

-- At most so many points of a curve.
local function thinned(t)
  local n = t:size(1)
  return n <= 400 and t or t:take(1, (core.linspace(0, n - 1, 400)):round():to "int64")
end

--- Pictures of metrics.ood's result, a list of two panels: distribution functions of the entropy of the predictions
--- inside and outside, between 0 and log K, and the curve of the receiver operating characteristic.
function chart.ood(result)
  options.argument("plot.ood", "result", result, "table")
  options.argument("plot.ood", "result.entropies", result.entropies, "table")
  options.argument("plot.ood", "result.roc", result.roc, "table")
  local function steps(values, colour, label)
    local x = thinned(values:sort(1))
    return plot.line(x, core.linspace(1 / x:size(1), 1, x:size(1)), { colour = colour, label = label })
  end
  local roc = result.roc
  return { plot.panel { steps(result.entropies.inside, BLUE, "inside"),
      steps(result.entropies.outside, RED, "outside"), x_range = { 0, math.log(result.classes) },
      y_range = { 0, 1 }, x_label = "entropy", y_label = "share below", legend = "top left" },
    plot.panel { plot.line({ 0, 1 }, { 0, 1 }, { colour = DARK, width = 1, dashed = true }),
      plot.line(thinned(roc.false_positive), thinned(roc.true_positive), { colour = BLUE }), x_range = { 0, 1 },
      y_range = { 0, 1 }, x_label = "inside taken for outside", y_label = "outside found" } }
end

local history_options = { x_label = "epoch", log = false }

--- What a training run (pn.train.fit's result) came to: a list of panels for plot.save and plot.show: the loss by epoch
--- and, with validation, the score, whose best has a dot. Options: x_label ("epoch"), log (false; the loss on a
--- logarithmic axis).
function chart.history(run, given)
  local where = "plot.history"
  options.argument(where, "run", run, "table")
  local o = options.check(where, given, history_options)
  options.argument(where, "run.history", run.history, "table")
  if #run.history == 0 then
    core.error(where .. ": run must have at least one epoch")
  end
  local few = #run.history <= 10 and 1 or nil -- no half epochs
  local panels = { plot.panel { plot.line(nil, run.history, { colour = BLUE }), title = "loss", x_label = o.x_label,
    y_log = o.log, x_step = few } }
  local at, score = {}, {}
  for epoch = 1, run.epoch or #run.history do
    local v = run.scores and run.scores[epoch]
    if v then
      at[#at + 1], score[#score + 1] = epoch, v
    end
  end
  if #at > 0 then
    panels[2] = plot.panel { plot.line(at, score, { colour = BLUE }),
      plot.points({ run.best_epoch }, { run.best }, { colour = RED, size = 1,
        label = ("best, %.5g"):format(run.best) }),
      title = "score", x_label = o.x_label, x_step = few }
  end
  return panels
end

return chart
