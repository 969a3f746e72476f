--- Pictures of distributions: d:plot("gamma.svg") draws the density or mass of each row of the batch; of pairs of
--- numbers and shares of three the density in colours; of longer vectors and matrices where each entry falls.
---
---     dist.gamma({0.8, 2, 5}):plot("gamma.svg")                        -- a curve for each row
---     dist.plot({dist.normal(0, 1), dist.student_t(3)}, "tails.svg")   -- several distributions
---     pn.plot.save("both.svg", {dist.panel(p), dist.panel(q)})         -- several panels
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"
local plot = require "penumbra.plot"

local density = {}

local settings = { title = options.optional "string", x_range = options.optional "table",
  y_range = options.optional "table", labels = options.optional "table", num_points = 400,
  legend = options.optional "string" }
local DRAWS, MOST_ROWS, MOST_VALUES, MOST_ENTRIES = 2000, 8, 200, 400

local function batch_size(d)
  local n = 1
  for _, size in ipairs(d.batch_shape) do
    n = n * size
  end
  return n
end

---- words ----

local function number(v) return ("%.4g"):format(v) end

-- The distribution in a line, if it is a short one.
local function short(d)
  local text = tostring(d):gsub("  batch.*$", ""):gsub("  float32$", "")
  return #text <= 46 and not text:find "\n" and text or d.name
end

-- The same in fewer letters: "student_t(3, 0, 1)".
local function brief(d)
  local values = {}
  for _, row in ipairs(core.distribution_rows()) do
    for _, p in ipairs(row.name == d.name and #d.parts == 0 and row.parameters or {}) do
      local t = d:arguments()[p.name]
      if t and t:numel() ~= 1 then return d.name end
      values[#values + 1] = t and number(t:item()) or nil
    end
  end
  return #values > 0 and ("%s(%s)"):format(d.name, table.concat(values, ", ")) or d.name
end

-- The values of the parameters in which rows differ, a text for each row, and their names; nil where they are no
-- numbers.
local function row_labels(d, rows)
  local list, names = {}, {}
  if rows == 1 then return nil end
  for name, t in pairs(d:arguments()) do
    if t:numel() > 1 then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local ok, wide = pcall(function() return d[name]:broadcast_to(d.batch_shape):reshape { rows }:totable() end)
    if not ok then return nil end
    for row, v in ipairs(wide) do
      list[row] = (list[row] and list[row] .. ", " or "") .. number(v)
    end
  end
  if #names > 0 then return list, table.concat(names, ", ") end
end

---- ranges ----

-- Quantiles of each component of draws, a list for each row of the batch: quantiles(d, n, {0.05, 0.5})[row][k] = {..}.
local function quantiles(d, components, levels)
  local x = d:sample { DRAWS, generator = core.generator(1) }:to("float64"):reshape { DRAWS, -1, components }
  local sorted, list = (x:sort(1)), {}
  local places = {}
  for i, p in ipairs(levels) do places[i] = math.floor(p * DRAWS) end
  local picked = sorted:take(1, core.tensor(places, { dtype = "int64" })):totable()
  for row = 1, x:size(2) do
    list[row] = {}
    for k = 1, components do
      list[row][k] = {}
      for i = 1, #levels do list[row][k][i] = picked[i][row][k] end
    end
  end
  return list
end

-- Where nearly all draws fall: {low, high} for each component, joined over the batch. Of heavy tails no more than
-- `widths` of the middle half.
local function ranges(d, components, widths)
  local list = {}
  for _, row in ipairs(quantiles(d, components, { 0.005, 0.25, 0.5, 0.75, 0.995 })) do
    for k, q in ipairs(row) do
      local width = q[4] > q[2] and q[4] - q[2] or math.huge
      local r = list[k] or { math.huge, -math.huge }
      r[1] = math.min(r[1], math.max(q[1], q[3] - widths * width))
      r[2] = math.max(r[2], math.min(q[5], q[3] + widths * width))
      list[k] = r
    end
  end
  return list
end

local FLOOR = { positive = 0, nonnegative = 0, unit_interval = 0, open_unit_interval = 0 }
local CEILING = { unit_interval = 1, open_unit_interval = 1 }

-- A little more than the range, but not beyond the ends of the support; angles have the whole circle.
local function widened(d, r)
  if d.support == "angle" then return { -math.pi, math.pi } end
  local low, high = r[1], r[2]
  local room = (high - low) * 0.1
  room = room > 0 and room or math.max(1, math.abs(low) * 0.1)
  return { math.max(low - room, FLOOR[d.support] or -math.huge),
    math.min(high + room, CEILING[d.support] or math.huge) }
end

local function joined(a, b)
  return a and { math.min(a[1], b[1]), math.max(a[2], b[2]) } or b
end

---- densities and masses of numbers ----

-- What was drawn, each value once.
local function drawn(d)
  local list, seen = {}, {}
  for _, v in ipairs(d:sample({ DRAWS, generator = core.generator(1) }):to("float64"):reshape({ -1 }):totable()) do
    if not seen[v] and #list < MOST_VALUES then
      seen[v] = true
      list[#list + 1] = v
    end
  end
  table.sort(list)
  return list
end

local ANYWHERE = { real = true, point = true, atom = true } -- supports of masses at numbers that need not be whole

-- The values of a mass to show: whole numbers of the range and the support, or, where values need not be whole, those
-- that were drawn.
local function mass_values(d, r)
  if ANYWHERE[d.support] then return drawn(d) end
  local first, last = math.max(0, math.ceil(r[1] - 1e-9)), math.floor(r[2] + 1e-9)
  if d.support == "boolean" then
    first, last = 0, 1
  elseif d.support == "trials" then
    last = math.min(last, math.tointeger(d.total_count:max():item()) or last)
  elseif d.support == "integer_interval" then
    last = math.min(last, d.probs:size(-1) - 1)
  end
  local list, step = {}, math.max(1, (last - first) // (2 * MOST_VALUES)) -- of very many every step-th
  for v = first, last, step do list[#list + 1] = v end
  return list
end

-- The grid as x for every row of the batch, and the density there: a list of columns.
local function columns(d, x, rows)
  local shape = { x:size(1) }
  local wide = x
  for _, size in ipairs(d.batch_shape) do
    shape[#shape + 1] = size
    wide = wide:unsqueeze(-1)
  end
  local y = core.exp(d:log_prob(wide:broadcast_to(shape))):to("float64"):reshape { x:size(1), rows }
  local list = {}
  for row = 1, rows do
    list[row] = y:slice(2, row, row):reshape({ -1 }):totable()
  end
  return list
end

-- Where the picture of d ends: at the top of the curves, but where one has a pole at half more than what most draws
-- see.
local function top_of(d, curves, rows)
  local top, usual = 0, 0
  for _, y in ipairs(curves) do
    for _, v in ipairs(y) do
      top = v < math.huge and math.max(top, v) or top
    end
  end
  local x = d:sample { DRAWS, generator = core.generator(2) }
  local at_draws = core.exp(d:log_prob(x)):to("float64"):reshape({ DRAWS, rows }):sort(1):totable()[DRAWS - DRAWS // 5]
  for _, v in ipairs(at_draws) do usual = math.max(usual, v) end
  return math.min(top, usual < math.huge and usual > 0 and 1.5 * usual or top)
end

-- Rows that a mask leaves out have no density.
local function counted(d, rows)
  if d.name ~= "masked" then return nil end
  local ok, mask = pcall(function() return d.parts[2]:broadcast_to(d.batch_shape):reshape({ rows }):totable() end)
  return ok and mask or nil
end

-- Appends the curves of d to the panel's content; `beside`: how far to the right of a value its first stem stands, and
-- each next one.
local function add_curves(content, d, r, n, labels, beside)
  local rows, dtype = batch_size(d), d:sample():dtype()
  local x = d.discrete and core.tensor(mass_values(d, r), { dtype = dtype })
  if not x then
    local step = (r[2] - r[1]) / n -- off the ends, where a density may be 0 or infinite
    x = core.linspace(r[1] + step * 1e-3, r[2] - step * 1e-3, n, { dtype = dtype })
  end
  local curves, mask = columns(d, x, rows), counted(d, rows)
  for row, y in ipairs(curves) do
    local label = labels and labels[row]
    if not (mask and mask[row] == false) then
      local shift = beside and beside[1] + (row - 1) * beside[2] or 0
      content[#content + 1] = d.discrete and plot.impulses(shift ~= 0 and x:to "float64" + shift or x, y,
          { label = label, size = 0.8 })
        or plot.line(x, y, { label = label })
    else
      curves[row] = {}
    end
  end
  return top_of(d, curves, rows)
end

local function label_part(labels, first, count)
  return labels and table.move(labels, first, first + count - 1, 1, {})
end

-- The distance between labels along x: 1 for a few whole numbers, few labels where they are long; nil as it comes.
local function label_step(range, whole)
  local width = range[2] - range[1]
  if whole and width <= 12 then return 1 end
  if math.max(math.abs(range[1]), math.abs(range[2])) < 1e4 then return nil end
  local power = 10 ^ math.floor(math.log(width / 2, 10))
  local times = width / 2 / power
  return power * (times >= 5 and 5 or times >= 2 and 2 or 1)
end

local function of_numbers(list, o)
  local rows, range, discrete = 0, nil, true
  for _, d in ipairs(list) do
    rows, discrete = rows + batch_size(d), discrete and d.discrete
  end
  if rows < 1 or rows > MOST_ROWS then
    core.error(("plot: batch must have 1 to %d rows, got %d"):format(MOST_ROWS, rows))
  end
  for _, d in ipairs(list) do
    local r = widened(d, ranges(d, 1, 6)[1])
    if d.discrete then
      local values = mass_values(d, o.x_range or r)
      local room = ANYWHERE[d.support] and #values > 1 and (values[#values] - values[1]) * 0.1
        or ANYWHERE[d.support] and 1 or 0.5
      r = #values > 0 and { values[1] - room, values[#values] + room } or r
    end
    range = joined(range, r)
  end
  range = o.x_range or range
  local content = { title = o.title or #list == 1 and short(list[1]) or nil, x_label = "x",
    y_label = discrete and "mass" or "density", x_range = range,
    x_step = label_step(range, discrete and not ANYWHERE[list[1].support]) }
  local step = discrete and rows > 1 and not ANYWHERE[list[1].support] and math.min(0.15, 0.6 / rows) or 0
  local top, first, longest = 0, 1, 0
  for _, d in ipairs(list) do
    local count = batch_size(d)
    local labels = label_part(o.labels, first, count)
    if not labels then labels, content.legend_title = row_labels(d, count) end
    if #list > 1 and not o.labels then
      content.legend_title = nil
      for row = 1, count do
        labels = labels or {}
        labels[row] = labels[row] and d.name .. ", " .. labels[row] or brief(d)
      end
    end
    local beside = { (first - (rows + 1) / 2) * step, step }
    top = math.max(top, add_curves(content, d, range, o.num_points, labels, beside))
    first = first + count
    for _, label in pairs(labels or {}) do longest = math.max(longest, #label) end
  end
  content.legend = o.legend or longest > 14 and "below" or nil
  if content.legend == "below" then content.x_label = nil end -- it would stand on the legend
  content.y_range = o.y_range or top > 0 and { 0, top * 1.08 } or nil
  return plot.panel(content)
end

---- densities of two numbers in colours ----

local function grid(limits, n, dtype) return core.linspace(limits[1], limits[2], n, { dtype = dtype }) end

-- log_prob at points [n, n, event] for a batch of 1.
local function at_points(d, x)
  for _ = 1, #d.batch_shape do
    x = x:unsqueeze(3)
  end
  return core.exp(d:log_prob(x)):to("float64"):reshape { x:size(1), x:size(2) }
end

-- Colours end where few draws see more, or at three times what half of them see.
local function coloured(d, y, a, b, content)
  local seen = core.exp(d:log_prob(d:sample { DRAWS, generator = core.generator(2) })):to("float64"):reshape({ -1 })
  seen = seen:sort():totable()
  local most = math.min(seen[DRAWS - DRAWS // 50], 3 * seen[DRAWS // 2])
  if most < math.huge and most > 0 then y = y:clamp(-math.huge, most) end
  content[1] = plot.heatmap(y, { x = a, y = b })
  return plot.panel(content)
end

local function of_pairs(d, o)
  local r, n = ranges(d, 2, 4), math.min(o.num_points, 150)
  local dtype = d:sample():dtype()
  local function axis(limits, floor)
    local room = (limits[2] - limits[1]) * 0.15
    return grid({ math.max(limits[1] - room, floor), limits[2] + room }, n, dtype)
  end
  local a = o.x_range and grid(o.x_range, n, dtype) or axis(r[1], -math.huge)
  local b = o.y_range and grid(o.y_range, n, dtype) or axis(r[2], d.support == "mean_and_variance" and 0 or -math.huge)
  local x = core.stack({ a:unsqueeze(1):broadcast_to { n, n }, b:unsqueeze(2):broadcast_to { n, n } }, -1)
  return coloured(d, at_points(d, x), a, b, { title = o.title or short(d), x_label = "x_1", y_label = "x_2" })
end

-- Shares of three, the third being the rest: a triangle.
local function of_shares(d, o)
  local n, dtype = math.min(o.num_points, 150), d:sample():dtype()
  local a = core.linspace(0.5 / n, 1 - 0.5 / n, n, { dtype = dtype })
  local first, second = a:unsqueeze(1):broadcast_to { n, n }, a:unsqueeze(2):broadcast_to { n, n }
  local inside = (first + second):lt(1 - 0.25 / n)
  local function held(x) return core.where(inside, x, core.full({}, 1 / 3, { dtype = dtype })) end
  first, second = held(first), held(second)
  local x = core.stack({ first, second, 1 - first - second }, -1)
  local y = core.where(inside, at_points(d, x), core.full({}, 0 / 0, { dtype = "float64" }))
  return coloured(d, y, a, a, { title = o.title or short(d), x_label = "x_1", y_label = "x_2  (x_3 is the rest)" })
end

-- Masses of labels that are vectors of one 1.
local function of_labels(d, o, classes)
  local rows, shape, x = batch_size(d), { classes }, core.eye(classes, { dtype = d:sample():dtype() })
  if rows < 1 or rows > MOST_ROWS then
    core.error(("plot: batch must have 1 to %d rows, got %d"):format(MOST_ROWS, rows))
  end
  for _, size in ipairs(d.batch_shape) do
    shape[#shape + 1] = size
    x = x:unsqueeze(2)
  end
  shape[#shape + 1] = classes
  local y = core.exp(d:log_prob(x:broadcast_to(shape))):to("float64"):reshape { classes, rows }
  local content = { title = o.title or short(d), x_label = "class, from 0", y_label = "mass", legend = o.legend,
    x_range = { -0.5, classes - 0.5 }, y_range = o.y_range or { 0, y:max():item() * 1.08 },
    x_step = classes <= 12 and 1 or nil }
  for row = 1, rows do
    content[#content + 1] = plot.impulses(core.arange(classes), y:slice(2, row, row):reshape { -1 },
      { label = o.labels and o.labels[row], size = 0.8 })
  end
  return plot.panel(content)
end

---- entries of longer events, one by one ----

local function of_entries(d, o, entries, is_matrix)
  local q = quantiles(d, entries, { 0.05, 0.25, 0.5, 0.75, 0.95 })[1]
  local at, curves = {}, { {}, {}, {}, {}, {} }
  for k, levels in ipairs(q) do
    at[k] = k
    for i, v in ipairs(levels) do curves[i][k] = v end
  end
  local content = { title = o.title or short(d), x_label = is_matrix and "entry, row by row" or "entry",
    y_label = "50 % and 90 % of draws", y_range = o.y_range,
    x_range = o.x_range or { 0.5, entries + 0.5 }, x_step = entries <= 12 and 1 or nil }
  if entries > 12 then
    content.x_range = o.x_range or { 1, entries }
    content[1] = plot.fan(at, curves)
  else
    local function between(low, high, size, colour)
      return plot.error_bars(at, curves[3], { lower = curves[low], upper = curves[high] }, { size = size,
        colour = colour })
    end
    content[1] = between(1, 5, 0.1, "#9db8d6")
    content[2] = between(2, 4, 0.9, "#2f6db3")
  end
  return plot.panel(content)
end

---- which picture ----

local function numel(sizes)
  local n = 1
  for _, size in ipairs(sizes) do n = n * size end
  return n
end

local function of_vectors(d, o)
  local event = d.event_shape
  local entries = numel(event)
  if d.support == "one_hot" and #event == 1 then return of_labels(d, o, entries) end
  if batch_size(d) ~= 1 then
    core.error("plot: vectors and matrices are drawn for a batch of 1, got " .. batch_size(d))
  end
  if #event == 1 and entries == 3 and d.support == "simplex" then return of_shares(d, o) end
  if #event == 1 and entries == 2 and not d.discrete and d.support ~= "simplex" then return of_pairs(d, o) end
  if entries < 1 or entries > MOST_ENTRIES then
    core.error(("plot: events of %s have no picture: at most %d numbers do, got %d"):format(d.name, MOST_ENTRIES,
      entries))
  end
  return of_entries(d, o, entries, #event == 2)
end

--- panel(d [, options]): the density or mass of d as a panel for pn.plot.save: a curve (dots on stems for a mass) for
--- each of at most 8 rows of the batch; colours for pairs of numbers and shares of three; for longer events the median,
--- half and nine tenths of the draws of each entry. d may be a list of distributions of numbers. Options: title,
--- x_range {low, high} (from draws), y_range, labels (one a row; else what differs), legend (a place as for
--- plot.panel), num_points (400).
function density.panel(d, given)
  local o = options.check("plot", given or {}, settings)
  for _, name in ipairs { "x_range", "y_range" } do
    local r = o[name]
    if r and not (type(r[1]) == "number" and type(r[2]) == "number" and r[1] < r[2]) then
      core.error(("plot: %s must be {low, high}"):format(name))
    end
  end
  if o.num_points < 2 then core.error(("plot: num_points must be at least 2, got %g"):format(o.num_points)) end
  local list = type(d) == "table" and not own.is(d) and d or { d }
  if #list == 0 then core.error "plot: needs a distribution or a list of distributions" end
  for i, each in ipairs(list) do
    if not own.is(each) and (type(each) ~= "userdata" or getmetatable(each) ~= "penumbra.distribution") then
      core.error(("plot: item %d must be a distribution, got %s"):format(i, type(each)))
    elseif #list > 1 and #each.event_shape > 0 then
      core.error(("plot: several distributions in one picture must be of numbers; %s is not"):format(each.name))
    end
  end
  return #list[1].event_shape == 0 and of_numbers(list, o) or of_vectors(list[1], o)
end

--- plot(d [, path [, options]]): draws panel(d, options) into the file path, without one on the terminal. Returns what
--- pn.plot.save and pn.plot.show do: the path or true, or nil, message, code.
function density.plot(d, path, given)
  if type(path) == "table" and given == nil then
    path, given = nil, path
  end
  local panel = recording.off(density.panel, d, given)
  if path == nil then
    return plot.show(panel)
  end
  return plot.save(path, panel)
end

return density
