--- Pictures of distributions: d:plot("gamma.svg") draws the density or mass of each row of the batch, or the density
--- of pairs of numbers in colours.
local core = require "penumbra.core"
local options = require "penumbra.options"
local plot = require "penumbra.plot"

local density = {}

local settings = { title = options.optional "string", x_range = options.optional "table",
  y_range = options.optional "table", labels = options.optional "table", num_points = 400, legend =
  options.choice("top right", "top left", "bottom right", "bottom left", "below", "none") }
local DRAWS, MOST_ROWS, MOST_VALUES = 2000, 8, 200

local function batch_size(d)
  local n = 1
  for _, size in ipairs(d.batch_shape) do
    n = n * size
  end
  return n
end

-- Where nearly all draws fall: {low, high} for each component of x [draws, batch * event], joined over the batch. Of
-- heavy tails no more than 6 widths of the middle half.
local function ranges(d, components)
  local x = d:sample { DRAWS, generator = core.generator(1) }:to("float64"):reshape { DRAWS, -1, components }
  local list = {}
  for k = 1, components do
    local low, high = math.huge, -math.huge
    for row = 1, x:size(2) do
      local v = x:slice(3, k, k):slice(2, row, row):reshape({ DRAWS }):sort():totable()
      local middle, width = v[DRAWS // 2], v[DRAWS * 3 // 4] - v[DRAWS // 4]
      width = width > 0 and width or math.huge
      low = math.min(low, math.max(v[DRAWS // 200], middle - 6 * width))
      high = math.max(high, math.min(v[DRAWS - DRAWS // 200], middle + 6 * width))
    end
    list[k] = { low, high }
  end
  return list
end

local FLOOR = { positive = 0, nonnegative = 0, unit_interval = 0, open_unit_interval = 0, angle = -math.pi }
local CEILING = { unit_interval = 1, open_unit_interval = 1, angle = math.pi }

-- A little more than the range, but not beyond the ends of the support.
local function widened(d, r)
  local low, high = r[1], r[2]
  local room = (high - low) * 0.1
  room = room > 0 and room or math.max(1, math.abs(low) * 0.1)
  return { math.max(low - room, FLOOR[d.support] or -math.huge),
    math.min(high + room, CEILING[d.support] or math.huge) }
end

-- The values of a mass to show: whole numbers of the range, or, where values need not be whole, those that were drawn.
local function mass_points(d, r)
  local dtype = d:sample():dtype()
  if d.support == "real" or d.support == "point" then
    local list, seen = {}, {}
    for _, v in ipairs(d:sample({ DRAWS, generator = core.generator(1) }):to("float64"):reshape({ -1 }):totable()) do
      if not seen[v] and #list < MOST_VALUES then
        seen[v] = true
        list[#list + 1] = v
      end
    end
    table.sort(list)
    local room = #list > 1 and (list[#list] - list[1]) * 0.1 or 1
    return core.tensor(list, { dtype = dtype }), { list[1] - room, list[#list] + room }
  end
  local first, last = math.max(0, math.ceil(r[1] - 1e-9)), math.floor(r[2] + 1e-9)
  if d.support == "boolean" then
    first, last = 0, 1
  end
  return core.arange(first, last + 1, { dtype = dtype }), { first - 0.5, last + 0.5 }
end

-- Where the picture ends: at the top of the curves, but where one has a pole at half more than what most draws see.
local function top_of(d, curves, rows)
  local top, usual = 0, 0
  for _, y in ipairs(curves) do
    for _, v in ipairs(y:totable()) do
      top = v < math.huge and math.max(top, v) or top
    end
  end
  local x = d:sample { DRAWS, generator = core.generator(2) }
  local at_draws = core.exp(d:log_prob(x)):to("float64"):reshape { DRAWS, rows }
  for row = 1, rows do
    local v = at_draws:slice(2, row, row):reshape({ DRAWS }):sort():totable()
    usual = math.max(usual, v[DRAWS - DRAWS // 5])
  end
  return math.min(top, usual < math.huge and usual > 0 and 1.5 * usual or top)
end

-- The grid as x for every row of the batch, and the density there: [points, rows] as lists of columns.
local function columns(d, x, rows)
  local shape = { x:size(1) }
  local wide = x
  for _, size in ipairs(d.batch_shape) do
    shape[#shape + 1] = size
    wide = wide:unsqueeze(-1)
  end
  local y = core.exp(d:log_prob(wide:broadcast_to(shape))):reshape { x:size(1), rows }
  local list = {}
  for row = 1, rows do
    list[row] = y:slice(2, row, row):reshape { -1 }
  end
  return list
end

local function of_numbers(d, o)
  local rows = batch_size(d)
  if rows < 1 or rows > MOST_ROWS then
    core.error(("plot: batch must have 1 to %d rows, got %d"):format(MOST_ROWS, rows))
  end
  local r = o.x_range or widened(d, ranges(d, 1)[1])
  local x
  if d.discrete then
    x, r = mass_points(d, r)
  else
    local step = (r[2] - r[1]) / o.num_points -- off the ends, where a density may be 0 or infinite
    x = core.linspace(r[1] + step * 1e-3, r[2] - step * 1e-3, o.num_points, { dtype = d:sample():dtype() })
  end
  local content = { title = o.title or d.name, x_label = "x", y_label = d.discrete and "mass" or "density",
    legend = o.legend, x_range = r, y_range = o.y_range }
  local curves = columns(d, x, rows)
  local top = top_of(d, curves, rows)
  content.y_range = content.y_range or top > 0 and { 0, top * 1.08 } or nil
  for row, y in ipairs(curves) do
    local label = o.labels and o.labels[row] or nil
    if d.discrete then
      content[#content + 1] = plot.impulses(x, y, { label = label, size = 0.8 })
    else
      content[#content + 1] = plot.line(x, y, { label = label })
    end
  end
  return plot.panel(content)
end

local function of_pairs(d, o)
  if batch_size(d) ~= 1 then
    core.error("plot: pairs of numbers are drawn for a batch of 1, got " .. batch_size(d))
  end
  local r, n = ranges(d, 2), math.min(o.num_points, 150)
  local dtype = d:sample():dtype()
  local function axis(limits)
    local room = (limits[2] - limits[1]) * 0.15
    return core.linspace(limits[1] - room, limits[2] + room, n, { dtype = dtype })
  end
  local a, b = axis(o.x_range or r[1]), axis(o.y_range or r[2])
  local x = core.stack({ a:unsqueeze(1):broadcast_to { n, n }, b:unsqueeze(2):broadcast_to { n, n } }, -1)
  local batch = #d.batch_shape
  for _ = 1, batch do
    x = x:unsqueeze(3)
  end
  local y = core.exp(d:log_prob(x)):reshape { n, n }
  return plot.panel { title = o.title or d.name, x_label = "x_1", y_label = "x_2",
    plot.heatmap(y, { x = a, y = b, colour_label = "density" }) }
end

--- panel(d [, options]): the density or mass of d as a panel for plot.save: a curve (dots on stems for a mass) for
--- each of at most 8 rows of the batch, or colours for pairs of numbers. Options: title, x_range {low, high} (from
--- draws), y_range, labels (one a row), legend, num_points (400).
function density.panel(d, given)
  local o = options.check("plot", given or {}, settings)
  local event = d.event_shape
  if #event == 0 then
    return of_numbers(d, o)
  elseif #event == 1 and event[1] == 2 and not d.discrete and d.support ~= "simplex" then
    return of_pairs(d, o)
  elseif #event == 1 and event[1] == 1 then
    core.error("plot: events of 1 number have no picture; take the distribution before :independent")
  end
  core.error(("plot: events of %s have no picture: numbers and pairs of numbers do"):format(d.name))
end

--- plot(d [, path [, options]]): draws panel(d, options) into the file path, d's name with .svg unless given. Returns
--- the path, or nil, message, code as plot.save does.
function density.plot(d, path, given)
  if type(path) == "table" and given == nil then
    path, given = nil, path
  end
  local before = core.set_no_grad(true)
  local ok, panel = pcall(density.panel, d, given)
  core.set_no_grad(before)
  if not ok then
    error(panel, 0)
  end
  return plot.save(path or d.name .. ".svg", panel)
end

return density
