--- The gnuplot program that a list of panels is (penumbra.plot makes them), and running it.
-- help: nowhere
local core = require "penumbra.core"

local gnuplot = {}

---- the look ----

-- Told apart by people who do not see all colours; after Wong (2011), Nature Methods 8, 441.
local colours = { "#2f6db3", "#d9752b", "#3a9276", "#b5486a", "#7a62ad", "#8a7433", "#5f6b78" }
-- Colours of a matrix, from low to high.
local palettes = { grey = "0 '#000000', 1 '#ffffff'" }
palettes.viridis = "0 '#440154', 1 '#482878', 2 '#3e4989', 3 '#31688e', 4 '#26828e', 5 '#1f9e89', 6 '#35b779', " ..
  "7 '#6ece58', 8 '#b5de2b', 9 '#fde725'"

local theme = [[
set encoding utf8
set border 3 linecolor rgb '#5a5a5a' linewidth 1
set tics nomirror out scale 0.5 textcolor rgb '#333333'
set grid back linecolor rgb '#e4e4e4' linetype 1 linewidth 0.7
set datafile missing 'NaN'
set key noautotitle Left reverse samplen 1.6 spacing 1.15 textcolor rgb '#333333'
set style fill solid 1 noborder
]]

--- A gnuplot string that can only mean itself: whatever is no letter or blank as an octal escape. (A digit after an
--- escape would be read as a part of it. Doubled quotes in a single-quoted string are misread at its start; a backquote
--- would run a command. Backslashes are undone twice.)
function gnuplot.quote(text)
  return '"' .. text:gsub("%c+", " "):gsub("\\", "\\\\"):gsub("[\1-\31!-@%[-`{-\127]", function(ch)
    return ("\\%03o"):format(ch:byte())
  end) .. '"'
end
local quote = gnuplot.quote

-- Adds a line to the program.
local function put(out, ...) out[#out + 1] = (...):format(select(2, ...)) end

-- Words at 1, 2, ... of an axis; none: an axis without numbers. Words that need more than `room` letters stand upright.
local function names_on(axis, names, room)
  if #names == 0 then return ("unset %stics"):format(axis) end
  local list, longest = {}, 0
  for i, name in ipairs(names) do
    if type(name) ~= "string" then
      core.error(("plot.panel: %s_names must be a list of strings, got a %s"):format(axis, type(name)))
    end
    longest = math.max(longest, utf8 and utf8.len(name) or #name)
    list[i] = ("%s %d"):format(quote(name), i)
  end
  local upright = axis == "x" and #names * (longest + 2) > room and " rotate by 90 right" or ""
  return ("set %stics%s (%s)"):format(axis, upright, table.concat(list, ", "))
end

local function range(out, axis, r, reverse)
  local where = "plot.panel"
  if r then
    if type(r[1]) ~= "number" or type(r[2]) ~= "number" or not (r[1] < r[2] or r[1] > r[2]) then
      core.error(("%s: %s_range must be {low, high}"):format(where, axis))
    end
    put(out, "set %srange [%.10g:%.10g]", axis, r[1], r[2])
  elseif reverse then
    put(out, "set %srange [*:*] reverse", axis)
  end
end

-- Each mark takes the next colour; the marks of a fan share one.
local function colour_marks(marks)
  local used, sharing = 0, 0
  local list = {}
  for i, m in ipairs(marks) do
    if m.fan_start then sharing = m.fan_size end
    if not m.image and not m.colour and (sharing == 0 or m.fan_start) then used = used + 1 end
    list[i] = m.colour or colours[(math.max(used, 1) - 1) % #colours + 1]
    if sharing > 0 then sharing = sharing - 1 end
  end
  return list
end

local places = { below = "set key bmargin center horizontal", none = "unset key" }

-- A style in letters: lines and dots are told apart by their characters, one for each colour.
local function lettered(style, k)
  style = style:gsub("linecolor rgb '[^']*'", style:find "^DOTS " and "linetype 0" or "linetype " .. k)
  style = style:gsub("^DOTS ", ""):gsub("pointtype 7", "pointtype " .. k)
  return (style:gsub("fillstyle transparent solid %S+ border rgb '[^']*'", "fillstyle empty"))
end

-- What gnuplot's `plot` says of each mark. In letters a label is apart from its sample.
local function write_marks(out, marks, plain, no_labels)
  local parts, colour, place, places_taken = {}, colour_marks(marks), {}, 0
  for i, m in ipairs(marks) do
    put(out, "$data%d << EOD", i)
    for _, line in ipairs(m.data) do
      if not (plain and m.image and line:find "NaN$") then put(out, "%s", line) end -- a cell without a letter
    end
    put(out, "EOD")
    if not place[colour[i]] then
      places_taken = places_taken + 1
      place[colour[i]] = places_taken
    end
    local styles = plain and m.plain or { m.style }
    for k, style in ipairs(styles) do
      style = style:format(colour[i])
      local title = k == #styles and m.label and not no_labels and "title " .. quote((plain and " " or "") .. m.label)
        or "notitle"
      parts[#parts + 1] = ("$data%d %s %s"):format(i, plain and lettered(style, place[colour[i]]) or style, title)
    end
  end
  put(out, "plot %s", table.concat(parts, ", "))
end

-- The places of marks: x and heights, as numbers.
local function places_of(marks)
  local list = {}
  for _, m in ipairs(marks) do
    for _, line in ipairs(m.data) do
      local x, y, z = line:match "^(%S+) (%S+) ?(%S*)"
      x, y = x and tonumber(x), y and tonumber(y)
      if x and y then
        list[#list + 1] = { x, y, m.from_zero }
        local other = m.plain and tonumber(z) -- the upper line of a band
        list[#list + 1] = other and { x, other } or nil
      end
    end
  end
  return list
end

local CORNERS = { "top right", "top left", "bottom right", "bottom left" }

-- The corner that no mark reaches, or "below". (Long lines are looked at where they are bent.)
local function empty_corner(p)
  local list = places_of(p.marks)
  local function extent(k, given, log)
    local low, high = math.huge, -math.huge
    for _, at in ipairs(list) do
      low, high = math.min(low, at[k]), math.max(high, at[k])
    end
    if given then low, high = math.min(given[1], given[2]), math.max(given[1], given[2]) end
    return function(v)
      if log then return low > 0 and v > 0 and math.log(v / low) / math.log(high / low) or 0.5 end
      return high > low and (v - low) / (high - low) or 0.5
    end
  end
  local x, y = extent(1, p.x_range, p.x_log), extent(2, p.y_range, p.y_log)
  local taken = {}
  for _, at in ipairs(list) do
    local side = x(at[1]) > 0.6 and "right" or x(at[1]) < 0.4 and "left" or nil
    local top, bottom = y(at[2]) > 0.65, y(at[2]) < 0.35 or at[3]
    if side and top then taken["top " .. side] = true end
    if side and bottom then taken["bottom " .. side] = true end
  end
  for _, corner in ipairs(CORNERS) do
    if not taken[corner] then return corner end
  end
  return "below"
end

-- The axes: labels, ranges, what stands at their ticks. room: of names along x, in letters.
local function write_axes(out, p, seen, plain, room)
  local image = seen.image
  if p.y_label and plain then -- beside the axis it would take the columns of letters
    put(out, "set label 1 %s at graph 0, graph 1 left offset character 0, character 1", quote(p.y_label))
    if not p.title then put(out, "set tmargin 2") end
  elseif p.y_label then
    put(out, "set ylabel %s textcolor rgb '#333333'", quote(p.y_label))
  end
  for _, axis in ipairs { "x", "y" } do
    local step, names = p[axis .. "_step"], p[axis .. "_names"]
    if p[axis .. "_log"] then put(out, "set logscale %s\nset format %s '%%g'", axis, axis) end -- 1e-06, not 0.0000010
    if step then put(out, "set %stics %.10g\nset format %s '%%.7g'", axis, step, axis) end
    if names then put(out, "%s", names_on(axis, names, room)) end
  end
  range(out, "x", p.x_range)
  range(out, "y", p.y_range, image and image.downwards)
  if seen.from_zero and not p.y_log then
    if not p.y_range then put(out, seen.below_zero and "set yrange [*<0:0<*]" or "set yrange [0:*]") end
    if seen.below_zero then put(out, "set xzeroaxis linetype 1 linecolor rgb '#5a5a5a' linewidth 1") end
    if not p.x_range then put(out, "set autoscale xfix\nset offsets graph 0.02, graph 0.02, 0, 0") end
  elseif seen.roomy and not image then
    local x, y = p.x_log and 0 or 0.04, p.y_log and 0 or seen.words and 0.06 or 0.03
    put(out, "set offsets graph %g, graph %g, graph %g, graph %g", x, x, y, y)
  end
end

local function write_image(out, image, p, plain)
  if plain then
    put(out, "set offsets graph 0.08, graph 0.08, graph 0.08, graph 0.08")
  else
    put(out, "set palette defined (%s)", palettes[image.palette])
    put(out, "unset grid\nset autoscale xfix\nset autoscale yfix")
  end
  put(out, "set datafile missing") -- a grid must be complete
  if image.range and not plain then put(out, "set cbrange [%.10g:%.10g]", image.range[1], image.range[2]) end
  if image.square and not plain then
    put(out, "set size ratio -1\nset border 0\nunset xtics\nunset ytics\nunset colorbox\nset margins 0.5,0.5,0.5,%s",
      p.title and "2" or "0.5")
  end
  if image.colour_label then put(out, "set cblabel %s textcolor rgb '#333333'", quote(image.colour_label)) end
end

-- What the marks of a panel ask of its axes.
local function look_at(marks)
  local seen = {}
  for _, m in ipairs(marks) do
    seen.image = seen.image or m.image and m
    for _, what in ipairs { "from_zero", "below_zero", "roomy", "words", "label" } do
      seen[what] = seen[what] or m[what]
    end
  end
  return seen
end

-- figure: {room =, in letters; shared =: is there one legend for all panels, or was it here?}
local function write_panel(out, p, plain, figure)
  local seen = look_at(p.marks)
  local labelled = seen.label and not figure.shared
  if p.title then put(out, "set title %s textcolor rgb '#222222'", quote(p.title)) end
  -- an empty second line, or a legend below would stand on the label
  local legend = labelled and p.legend == "auto" and not plain and empty_corner(p) or p.legend
  local below = labelled and legend == "below" and not plain and '\\n"'
  if p.x_label then put(out, "set xlabel %s textcolor rgb '#333333'", below and quote(p.x_label):sub(1, -2) .. below
    or quote(p.x_label)) end
  write_axes(out, p, seen, plain, figure.room)
  if plain then
    put(out, labelled and p.legend ~= "none" and "set key outside top horizontal Left reverse width 1" or "unset key")
  else
    put(out, labelled and (places[legend] or "set key inside vertical " .. legend) or "unset key")
  end
  if labelled and p.legend_title then put(out, "set key title %s", quote(p.legend_title)) end
  if seen.image then write_image(out, seen.image, p, plain) end
  write_marks(out, p.marks, plain, not labelled)
end

local function reset(out)
  put(out, "unset title\nunset xlabel\nunset ylabel\nunset cblabel\nunset logscale\nunset offsets\n" ..
    "unset label\nunset xzeroaxis\nset key title ''\nset xtics norotate\nset xtics autofreq\n" ..
    "set ytics autofreq\nset format x\nset format y\n" ..
    "set datafile missing 'NaN'\nset size noratio\nset border 3\nset colorbox\n" ..
    "set tics nomirror out scale 0.5\nset cbrange [*:*]\n" ..
    "set margins -1,-1,-1,-1\nset autoscale\nset xrange [*:*] noreverse\nset yrange [*:*] noreverse\nset grid")
end

---- the whole ----

-- what a kind of file is drawn by, its size in %d
gnuplot.terminals = {
  svg = "set terminal svg noenhanced size %d,%d font 'Helvetica,13' background '#ffffff'",
  png = "set terminal pngcairo noenhanced size %d,%d font 'Sans,11' fontscale 2 linewidth 2 pointscale 2 " ..
    "background '#ffffff'",
  pdf = "set terminal pdfcairo noenhanced size %.4gin,%.4gin font 'Sans,11' background '#ffffff'",
}

local bare = "unset grid\nset border 3\nset tics nomirror scale 0\nset key noautotitle samplen 4"

-- The labels of all panels, each once: {label, style, colour}.
local function labels_of(panels)
  local list, known = {}, {}
  for _, p in ipairs(panels) do
    local colour = colour_marks(p.marks)
    for i, m in ipairs(p.marks) do
      if m.label and not known[m.label .. colour[i]] then
        known[m.label .. colour[i]] = true
        list[#list + 1] = { m.label, m.style:format(colour[i]) }
      end
    end
  end
  return list
end

-- A strip at the foot of the canvas, `height` of it: what the labels of the panels above mean.
local function write_legend(out, labels, height)
  reset(out)
  put(out, "set size 1, %.6g\nset origin 0, 0\nset margins 0,0,0,0\nunset border\nunset xtics\nunset ytics\n" ..
    "unset grid\nset xrange [0:1]\nset yrange [0:1]\nset key at screen 0.5, screen %.6g center center horizontal",
    height, height / 2)
  local parts = {}
  put(out, "$none << EOD\n9 9 9 9\nEOD") -- nothing that is seen
  for i, one in ipairs(labels) do
    parts[i] = ("$none %s title %s"):format(one[2], quote(one[1]))
  end
  put(out, "plot %s", table.concat(parts, ", "))
end

local STRIP, TITLE, FOOT, LEFT, GAP = 34, 26, 60, 74, 20 -- in points

-- Where panel k of a grid stands, as words of gnuplot: a part of the canvas, or its axes themselves where all are
-- aligned.
local function place_of(k, grid)
  local row, column = (k - 1) // grid.columns, (k - 1) % grid.columns
  local top, bottom = grid.title and TITLE or 6, grid.legend and STRIP or 0
  if grid.aligned then
    bottom = bottom + FOOT
    local wide = (grid.width - LEFT - GAP - GAP * (grid.columns - 1)) / grid.columns
    local high = (grid.height - top - bottom - GAP * (grid.rows - 1)) / grid.rows
    local left, up = LEFT + column * (wide + GAP), grid.height - top - row * (high + GAP)
    return ("set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\n" ..
      "set bmargin at screen %.6g"):format(left / grid.width, (left + wide) / grid.width, up / grid.height,
      (up - high) / grid.height)
  end
  local high = (grid.height - top - bottom) / grid.rows
  return ("set size %.6g, %.6g\nset origin %.6g, %.6g"):format(1 / grid.columns, high / grid.height,
    column / grid.columns, (bottom + (grid.rows - 1 - row) * high) / grid.height)
end

-- Panels on one canvas of o.width by o.height points.
local function write_grid(out, panels, o, columns)
  local last = 0
  for i, p in ipairs(panels) do last = math.max(last, p.cell or i) end
  local labels = o.legend == "below" and labels_of(panels) or {}
  local grid = { columns = columns, rows = (last + columns - 1) // columns, title = o.title, aligned = o.aligned,
    legend = #labels > 0, width = o.width, height = o.height }
  put(out, "set multiplot%s", o.title and " title " .. quote(o.title) or "")
  for i, p in ipairs(panels) do
    reset(out)
    put(out, "%s", place_of(p.cell or i, grid))
    if o.aligned then put(out, "unset grid") end
    write_panel(out, p, false, { room = 60 // columns, shared = grid.legend })
  end
  if grid.legend then write_legend(out, labels, STRIP / o.height) end
  put(out, "unset multiplot")
end

--- The program that draws panels on a terminal of gnuplot; plain: in letters, each panel by itself. o: title, legend,
--- aligned, and width and height of the canvas.
function gnuplot.compose(terminal, panels, o, columns, plain)
  local out = { terminal, plain and "" or theme }
  if #panels > 1 and not plain then
    write_grid(out, panels, o, columns)
  else
    local known = false -- the labels of one legend for all
    for _, p in ipairs(panels) do
      if #panels == 1 and o.title and not p.title then p = setmetatable({ title = o.title }, { __index = p }) end
      reset(out)
      if plain then put(out, bare) end
      write_panel(out, p, plain, { room = plain and (o.letters or 60) or 60, shared = known })
      known = known or o.legend == "below" and look_at(p.marks).label
    end
  end
  put(out, "unset output\n")
  return table.concat(out, "\n")
end

--- Who shows pictures in place of the terminal: viewer(content, opt) as plot.show has them, or nil.
gnuplot.viewer = nil

--- Has plot.show been called since this was false? A prompt then need not tell that it returned true.
gnuplot.pictured = false

--- Is there somebody to draw? Inside a host that lets scripts start no programs there is nobody.
function gnuplot.may_draw() return io and io.popen and os and os.tmpname end

--- Runs gnuplot on a script. Returns what it has written, or nil, message, code.
function gnuplot.run(script, where)
  local name = os.tmpname()
  local file, message = io.open(name, "wb")
  if not file then return nil, where .. ": " .. message, "io" end
  file:write(script)
  file:close()
  local pipe = io.popen("gnuplot -d '" .. name .. "' 2>&1 </dev/null")
  local said = pipe:read "a"
  local ok, _, code = pipe:close()
  os.remove(name)
  if ok then return said end
  if code == 127 then
    return nil, where .. ": gnuplot is not installed (Debian: apt install gnuplot-nox)", "missing"
  end
  said = said:gsub("\n+$", ""):match "[^\n]*$" or ""
  return nil, where .. ": gnuplot failed: " .. said, "state"
end

--- Is there a file with something in it?
function gnuplot.exists(path)
  local file = io.open(path, "rb")
  local size = file and file:seek "end"
  if file then file:close() end
  return size and size > 0
end

return gnuplot
