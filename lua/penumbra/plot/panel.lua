--- Marks (lines, dots, bands, bars, pictures) and panels of them. They are functions of pn.plot.
-- help: pn.plot, quiet
local core = require "penumbra.core"
local contour = require "penumbra.plot.contour"
local gnuplot = require "penumbra.plot.gnuplot"
local options = require "penumbra.options"

local plot = {}

---- values ----

local function append(list, value, where, role)
  if type(value) == "number" then
    list[#list + 1] = value
  elseif type(value) == "boolean" then
    list[#list + 1] = value and 1 or 0
  elseif type(value) == "table" then
    for _, v in ipairs(value) do append(list, v, where, role) end
  elseif type(value) == "userdata" and getmetatable(value) == "penumbra.tensor" then
    append(list, value:totable(), where, role)
  else
    core.error(("%s: %s must be a tensor or a list of numbers, got a %s"):format(where, role, type(value)))
  end
end

-- A tensor or (nested) list as a flat list of numbers; n, if given, is how many there must be.
local function values_of(value, where, role, n)
  local list = {}
  append(list, value, where, role)
  if n and #list ~= n then
    core.error(("%s: %s must have %d values as x has, got %d"):format(where, role, n, #list))
  end
  return list
end

-- x and how many; x == nil counts 1, 2, ... as far as y goes.
local function positions(x, y, where)
  if x ~= nil then return values_of(x, where, "x") end
  local list = {}
  for i = 1, #values_of(y, where, "y") do list[i] = i end
  return list
end

-- The rows of a matrix: a 2-d tensor or a list of equally long lists.
local function rows_of(matrix, where, role)
  if type(matrix) == "userdata" and getmetatable(matrix) == "penumbra.tensor" then matrix = matrix:totable() end
  if type(matrix) ~= "table" or #matrix == 0 then
    core.error(("%s: %s must be a 2-d tensor or a list of lists"):format(where, role))
  end
  local rows = {}
  for i = 1, #matrix do
    if type(matrix[i]) == "number" then core.error(("%s: %s must have 2 axes, got 1"):format(where, role)) end
    rows[i] = values_of(matrix[i], where, role)
    if #rows[i] ~= #rows[1] then
      core.error(("%s: rows of %s must be equally long, got %d and %d"):format(where, role, #rows[1], #rows[i]))
    end
  end
  return rows
end

local function number(v)
  if v ~= v or v == math.huge or v == -math.huge then return "NaN" end
  return ("%.10g"):format(v)
end

-- Columns side by side, as the lines of a gnuplot data block.
local function lines_of(...)
  local columns, lines, row = { ... }, {}, {}
  for i = 1, #columns[1] do
    for k, column in ipairs(columns) do row[k] = number(column[i]) end
    lines[i] = table.concat(row, " ")
  end
  return lines
end

---- marks: each is {data = lines, style(colour) -> gnuplot's words} ----

local mark = {}
mark.__index = mark
mark.__name = "mark"

function mark:__tostring()
  return ("a mark of %d points, for pn.plot.panel{mark, title = ...} or pn.plot.show{mark}"):format(#self.data)
end

plot.mark_kind = mark -- for those that take marks

local function new_mark(fields) return setmetatable(fields, mark) end

local function style_options(where, opt, more)
  local known = { label = options.optional "string", colour = options.optional "string" }
  for key, value in pairs(more or {}) do known[key] = value end
  local o = options.check(where, opt, known)
  if o.label and known.place then
    core.error(where .. ": label must be absent: words stand in no legend")
  elseif o.colour and not o.colour:match "^#%x%x%x%x%x%x$" then
    core.error(("%s: colour must be like '#2f6db3', got '%s'"):format(where, o.colour))
  end
  return o
end

--- A line through (x, y). x nil: 1, 2, ... Options: label, colour "#rrggbb", width (2), dashed (false).
function plot.line(x, y, opt)
  local o = style_options("plot.line", opt, { width = 2, dashed = false })
  local at = positions(x, y, "plot.line")
  return new_mark { label = o.label, colour = o.colour, data = lines_of(at, values_of(y, "plot.line", "y", #at)),
    style = ("using 1:2 with lines linewidth %g dashtype %d linecolor rgb '%%s'"):format(o.width, o.dashed and 2 or 1) }
end

--- Dots at (x, y). x nil: 1, 2, ... Options: label, colour, size (0.6).
function plot.points(x, y, opt)
  local o = style_options("plot.points", opt, { size = 0.6 })
  local at = positions(x, y, "plot.points")
  return new_mark { label = o.label, colour = o.colour, data = lines_of(at, values_of(y, "plot.points", "y", #at)),
    style = ("using 1:2 with points pointtype 7 pointsize %g linecolor rgb '%%s'"):format(o.size) }
end

--- Dots at (x, y) on lines that rise from 0. x nil: 1, 2, ... Options: label, colour, size (0.6). Returns a list of
--- marks.
function plot.impulses(x, y, opt)
  local o = style_options("plot.impulses", opt, { size = 0.6 })
  local at = positions(x, y, "plot.impulses")
  local stems = new_mark { colour = o.colour, data = lines_of(at, values_of(y, "plot.impulses", "y", #at)),
    style = "using 1:2 with impulses linewidth 1.5 linecolor rgb '%s'" }
  return { fan = true, stems, plot.points(at, y, o) }
end

--- Dots at (x, y) with vertical bars. `err`: the half length per dot, or {lower = , upper = } as ends.
--- Options: label, colour, size (0.6).
function plot.error_bars(x, y, err, opt)
  local where = "plot.error_bars"
  local o = style_options(where, opt, { size = 0.6 })
  local at = positions(x, y, where)
  local centre, low, high = values_of(y, where, "y", #at), {}, {}
  if type(err) == "table" and (err.lower or err.upper) then
    low, high = values_of(err.lower, where, "err.lower", #at), values_of(err.upper, where, "err.upper", #at)
  else
    for i, e in ipairs(values_of(err, where, "err", #at)) do low[i], high[i] = centre[i] - e, centre[i] + e end
  end
  return new_mark { label = o.label, colour = o.colour, data = lines_of(at, centre, low, high),
    style = ("using 1:2:3:4 with yerrorbars pointtype 7 pointsize %g linewidth 1.3 linecolor rgb '%%s'")
      :format(o.size), roomy = true,
    plain = { "using 1:2:3:4 with yerrorbars pointtype 7 linecolor rgb '%s'",
      "using 1:2 with points pointtype 7 linecolor rgb '%s'" } }
end

--- The area between lower and upper. Options: label, colour, opacity (0.25).
function plot.band(x, lower, upper, opt)
  local o = style_options("plot.band", opt, { opacity = 0.25 })
  local at = positions(x, lower, "plot.band")
  return new_mark { label = o.label, colour = o.colour,
    plain = { "DOTS using 1:2 with lines linecolor rgb '%s'", "DOTS using 1:3 with lines linecolor rgb '%s'" },
    data = lines_of(at, values_of(lower, "plot.band", "lower", #at), values_of(upper, "plot.band", "upper", #at)),
    style = ("using 1:2:3 with filledcurves fillstyle transparent solid %g noborder linecolor rgb '%%s'")
      :format(o.opacity) }
end

--- Nested intervals: `quantiles` are curves from the lowest to the highest, a list of vectors or a tensor
--- [number of curves, n]; first and last bound the widest band, and so on; with an odd number the middle
--- one becomes a line. Options: label, colour, opacity of each band (0.22). Returns a list of marks.
function plot.fan(x, quantiles, opt)
  local o = style_options("plot.fan", opt, { opacity = 0.22 })
  local rows = rows_of(quantiles, "plot.fan", "quantiles")
  if #rows < 2 then core.error(("plot.fan: quantiles must be at least 2 curves, got %d"):format(#rows)) end
  local marks, at = { fan = true }, positions(x, rows[1], "plot.fan")
  for i = 1, #rows // 2 do
    marks[i] = plot.band(at, rows[i], rows[#rows + 1 - i], { colour = o.colour, opacity = o.opacity })
  end
  if #rows % 2 == 1 then marks[#marks + 1] = plot.line(at, rows[#rows // 2 + 1], { colour = o.colour }) end
  marks[#marks].label = o.label
  return marks
end

--- Bars of these heights, from 0 up or down, at x (nil: 1, 2, ...; names of a panel's x_names stand there). Options:
--- width (0.8 of what is between two), label, colour, opacity (0.85).
function plot.bars(x, heights, opt)
  local where = "plot.bars"
  local o = style_options(where, opt, { width = 0.8, opacity = 0.85 })
  local at = positions(x, heights, where)
  local least = math.huge
  for i = 2, #at do least = math.min(least, math.abs(at[i] - at[i - 1])) end
  local width = o.width * (least > 0 and least < math.huge and least or 1)
  local widths, tall, below_zero = {}, values_of(heights, where, "heights", #at), nil
  for i = 1, #at do widths[i], below_zero = width, below_zero or tall[i] < 0 end
  return new_mark { label = o.label, colour = o.colour, from_zero = true, below_zero = below_zero,
    data = lines_of(at, tall, widths),
    style = ("using 1:2:3 with boxes fillstyle transparent solid %g noborder linecolor rgb '%%s'"):format(o.opacity) }
end

local SIDES = { centre = "center", above = "center offset 0, 0.8", below = "center offset 0, -0.8",
  right = "left offset 0.8, 0", left = "right offset -0.8, 0" }

--- Words at (x, y): a list of strings. Options: place ("centre", or "above", "below", "left", "right" of what stands
--- there), colour.
function plot.text(x, y, words, opt)
  local where = "plot.text"
  local o = style_options(where, opt, { place = options.choice("centre", "above", "below", "left", "right") })
  local at = positions(x, y, where)
  local heights, lines = values_of(y, where, "y", #at), {}
  options.argument(where, "words", words, "table")
  for i = 1, #at do
    if type(words[i]) ~= "string" then
      core.error(("%s: words must have a string for each of the %d places, got a %s"):format(where, #at,
        type(words[i])))
    end
    lines[i] = ("%s %s %s"):format(number(at[i]), number(heights[i]), gnuplot.quote(words[i]))
  end
  return new_mark { colour = o.colour, data = lines, roomy = true, words = true,
    style = "using 1:2:3 with labels " .. SIDES[o.place] .. " textcolor rgb '%s'" }
end

-- Bins of whole numbers: each holds as many of them, and its edges lie between two.
local function whole_bins(sorted, bins)
  local low, high = sorted[1], sorted[#sorted]
  for _, v in ipairs(sorted) do
    if v % 1 ~= 0 then return nil end
  end
  local count = high - low + 1
  local each = math.max(1, math.ceil(count / (bins or 40)))
  return low - 0.5, each, math.ceil(count / each)
end

-- Edges of equally wide bins; how many: Freedman and Diaconis (1981), between 5 and 80.
local function bin_edges(sorted, bins)
  local n, low, high = #sorted, sorted[1], sorted[#sorted]
  if low == high then low, high = low - 0.5, high + 0.5 end
  if not bins then
    local spread = sorted[(3 * n + 3) // 4] - sorted[(n + 3) // 4]
    local width = 2 * spread * n ^ (-1 / 3)
    bins = width > 0 and math.ceil(math.min((high - low) / width, 80)) or 10
    bins = math.max(bins, 5)
  end
  return low, (high - low) / bins, bins
end

--- How often values fall where. Options: bins (chosen from the data; of whole numbers each bin holds as many of them,
--- so there may be fewer), density (false: counts; true: area
--- one), label, colour, opacity (0.65).
function plot.histogram(values, opt)
  local o = style_options("plot.histogram", opt, { bins = options.optional "number", density = false, opacity = 0.65 })
  local sorted = {}
  for _, v in ipairs(values_of(values, "plot.histogram", "values")) do
    if number(v) ~= "NaN" then sorted[#sorted + 1] = v end
  end
  if #sorted == 0 then core.error "plot.histogram: values must hold a finite number" end
  table.sort(sorted)
  local low, width, bins = whole_bins(sorted, o.bins)
  if not low then low, width, bins = bin_edges(sorted, o.bins) end
  local counts, centres, widths = {}, {}, {}
  for i = 1, bins do counts[i], centres[i], widths[i] = 0, low + (i - 0.5) * width, width end
  for _, v in ipairs(sorted) do
    local i = math.min(math.floor((v - low) / width) + 1, bins)
    counts[i] = counts[i] + 1
  end
  if o.density then
    for i = 1, bins do counts[i] = counts[i] / (#sorted * width) end
  end
  return new_mark { label = o.label, colour = o.colour, data = lines_of(centres, counts, widths), counts = counts,
    style = ("using 1:2:3 with boxes fillstyle transparent solid %g border rgb '#ffffff' linecolor rgb '%%s'")
      :format(o.opacity),
    from_zero = true }
end

local function axis_or_count(axis, n, where, role)
  if axis ~= nil then
    local list = values_of(axis, where, role)
    if #list ~= n then core.error(("%s: %s must have %d values, got %d"):format(where, role, n, #list)) end
    return list
  end
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- Eight letters from light to dark, each as often as a cell is wide in letters, for a matrix of n columns.
local function ramp(n)
  return ((". : - = + * # @"):gsub("%S", function(letter) return letter:rep(math.max(1, math.min(50 // n, 6))) end))
end

--- A matrix in colours, its first row on top; with `y` given the rows stand at these heights instead.
--- Cells that are not finite stay white. Options: x, y (centres of columns and rows), colour_label, palette ("viridis",
--- or "grey" from black to white).
function plot.heatmap(matrix, opt)
  local where = "plot.heatmap"
  local o = options.check(where, opt, { x = options.optional(), y = options.optional(),
    colour_label = options.optional "string", palette = options.choice("viridis", "grey") })
  local rows = rows_of(matrix, where, "matrix")
  local xs, ys = axis_or_count(o.x, #rows[1], where, "x"), axis_or_count(o.y, #rows, where, "y")
  local px, py, pz, low, high = {}, {}, {}, math.huge, -math.huge
  for i, row in ipairs(rows) do
    for j, v in ipairs(row) do
      local k = #pz + 1
      px[k], py[k], pz[k] = xs[j], ys[i], v
      if number(v) ~= "NaN" then low, high = math.min(low, v), math.max(high, v) end
    end
  end
  local crisp = math.max(#rows, #rows[1]) <= 40 -- drawn cell by cell; many would leave gaps
  return new_mark { data = lines_of(px, py, pz), style = "using 1:2:3 with image" .. (crisp and " pixels" or ""),
    image = true,
    plain = { ("using 1:2:(word('%s', 1 + int(7.999 * ($3 - (%.10g)) / %.10g))) with labels")
      :format(ramp(#rows[1]), low, high > low and high - low or 1) },
    downwards = o.y == nil, colour_label = o.colour_label, palette = o.palette, extent = { low, high } }
end

local SHADES = ".:-=+*#@"

-- Rows of pixels as lines of `letters` letters at most: two for each pixel, or one for each second row; of larger
-- pictures each so manieth.
local function picture_in_letters(rows, ends, letters)
  local wide = #rows[1] * 2 <= letters and 2 or 1
  local every = math.max(1, math.ceil(#rows[1] * wide / letters))
  local lines = {}
  for i = 1, #rows, every * (3 - wide) do
    local line = {}
    for j = 1, #rows[1], every do
      local share = (rows[i][j] - ends[1]) / (ends[2] > ends[1] and ends[2] - ends[1] or 1)
      local at = share == share and math.floor(math.min(math.max(share, 0), 1) * (#SHADES - 0.001)) + 1
      line[#line + 1] = (at and SHADES:sub(at, at) or " "):rep(wide)
    end
    lines[#lines + 1] = table.concat(line)
  end
  local margin = (" "):rep((letters - #lines[1]) // 2)
  return margin .. table.concat(lines, "\n" .. margin) .. "\n"
end

-- Heights of lines: as many as `levels` says at equal distances between the ends, or those that it lists.
local function heights_of(where, levels, low, high)
  if type(levels) == "table" then
    if #levels == 0 then core.error(where .. ": levels must hold at least one number") end
    return values_of(levels, where, "levels")
  end
  local list, count = {}, options.whole(where, "levels", levels, 1)
  for k = 1, count do list[k] = low + (high - low) * k / (count + 1) end
  return list
end

local LOW_TO_HIGH = { "#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39" }

--- Lines of equal height of a matrix whose rows stand at y and whose columns stand at x (1, 2, ... unless given,
--- upwards): a surface, a density, the border of a classifier (levels = {0.5}). Cells with a corner that is not finite
--- have no line. Options: x, y, levels (6: how many between lowest and highest; or a list of heights), colour (one for
--- all, with label; unless given dark is low and light is high, and each height stands in the legend), label, width
--- (1.5). Returns a list of marks.
function plot.contours(matrix, opt)
  local where = "plot.contours"
  local o = style_options(where, opt, { x = options.optional(), y = options.optional(), levels = options.any(6),
    width = 1.5 })
  local rows = rows_of(matrix, where, "matrix")
  if #rows < 2 or #rows[1] < 2 then
    core.error(("%s: matrix must have 2 rows and 2 columns at least, got [%d, %d]"):format(where, #rows, #rows[1]))
  end
  local xs, ys = axis_or_count(o.x, #rows[1], where, "x"), axis_or_count(o.y, #rows, where, "y")
  local low, high = math.huge, -math.huge
  for _, row in ipairs(rows) do
    for _, v in ipairs(row) do
      if v - v == 0 then low, high = math.min(low, v), math.max(high, v) end
    end
  end
  local marks, heights = {}, heights_of(where, o.levels, low, high)
  for k, height in ipairs(heights) do
    local lines = {}
    for _, path in ipairs(contour.paths(rows, xs, ys, height)) do
      if #lines > 0 then lines[#lines + 1] = "" end -- the pen is lifted
      for _, at in ipairs(path) do lines[#lines + 1] = number(at[1]) .. " " .. number(at[2]) end
    end
    local shade = LOW_TO_HIGH[#heights > 1 and 1 + math.floor((k - 1) / (#heights - 1) * (#LOW_TO_HIGH - 1) + 0.5) or 1]
    if #lines > 0 then
      marks[#marks + 1] = new_mark { data = lines, colour = o.colour or shade,
        label = not o.colour and ("%.4g"):format(height) or #marks == 0 and o.label or nil,
        style = ("using 1:2 with lines linewidth %g linecolor rgb '%%s'"):format(o.width) }
    end
  end
  if #marks == 0 then
    core.error(("%s: no level crosses the heights, which lie between %g and %g"):format(where, low, high))
  end
  marks.fan = true
  return marks
end

--- Pictures x [n, rows, columns] side by side, as one mark with square pixels and without axes. Options: columns (of
--- pictures; about as many as rows), gap (1; white pixels in between), palette ("grey", from black to white, or
--- "viridis"), range ({low, high}, the values at the ends of the palette; of all pictures). For a panel of its own.
function plot.images(x, opt)
  local where = "plot.images"
  local o = options.check(where, opt, { columns = options.optional "number", gap = 1,
    palette = options.choice("grey", "viridis"), range = options.optional "table" })
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 3 or x:numel() == 0 then
    core.error(("%s: x must be [n, rows, columns], got [%s]"):format(where, table.concat(x:shape(), ", ")))
  end
  local n, height, width = table.unpack(x:shape())
  local columns = options.whole(where, "columns", o.columns or math.ceil(math.sqrt(n)), 1)
  local gap = options.whole(where, "gap", o.gap, 0)
  if o.range and not (type(o.range[1]) == "number" and type(o.range[2]) == "number" and o.range[1] < o.range[2]) then
    core.error(where .. ": range must be {low, high}")
  end
  local images, rows = x:totable(), {}
  columns = math.min(columns, n)
  for i = 1, (n + columns - 1) // columns * (height + gap) - gap do
    local row, line = {}, (i - 1) % (height + gap) + 1
    for j = 1, columns * (width + gap) - gap do
      local place = (i - 1) // (height + gap) * columns + (j - 1) // (width + gap) + 1
      local pixel = (j - 1) % (width + gap) + 1
      row[j] = images[place] and images[place][line] and images[place][line][pixel] or 0 / 0
    end
    rows[i] = row
  end
  local m = plot.heatmap(rows, { palette = o.palette })
  m.square, m.range = { #rows, #rows[1] }, o.range
  m.letters = function(letters) return picture_in_letters(rows, o.range or m.extent, letters) end
  return m
end

---- panels ----

local panel_options = { title = options.optional "string", x_label = options.optional "string",
  y_label = options.optional "string", x_range = options.optional "table", y_range = options.optional "table",
  x_log = false, y_log = false, x_step = options.optional "number", y_step = options.optional "number",
  x_names = options.optional "table",
  y_names = options.optional "table", legend_title = options.optional "string",
  legend = options.choice("auto", "top right", "top left", "bottom right", "bottom left", "below", "none") }

local panel_kind = {}
plot.panel_kind = panel_kind -- for those that draw panels

--- One picture of several. Marks in the order in which they are drawn, and title, x_label, y_label, x_range
--- {low, high}, y_range, x_log, y_log, x_step and y_step (between labels), x_names and y_names (lists of words that
--- stand at 1, 2, ... instead of numbers; {}: an axis without any), legend_title, legend ("top right", "top left",
--- "bottom right", "bottom left", "below", "none"; unless given, a corner that marks leave empty, else below).
function plot.panel(content)
  local where = "plot.panel"
  if type(content) ~= "table" then core.error(where .. ": needs a table of marks") end
  local given, marks = {}, {}
  for key, value in pairs(content) do
    if math.type(key) ~= "integer" then given[key] = value end
  end
  for i, item in ipairs(content) do
    local list = type(item) == "table" and item.fan and item or { item }
    for _, m in ipairs(list) do
      if getmetatable(m) ~= mark then
        core.error(("%s: item %d must be a mark such as plot.line(x, y), got a %s"):format(where, i, type(m)))
      end
      marks[#marks + 1] = m
    end
    if item.fan then item[1].fan_start, item[1].fan_size = true, #item end
  end
  if #marks == 0 then core.error(where .. ": needs at least one mark") end
  local o = options.check(where, given, panel_options)
  o.marks = marks
  return setmetatable(o, panel_kind)
end

return plot
