--- Pictures, drawn by gnuplot when it is installed, as SVG, PNG or PDF by the file's name.
---
---     local ok, message = pn.plot.save("band.svg", {
---       title = "Predictive band", x_label = "x", y_label = "y",
---       pn.plot.fan(x, { q05, q25, q50, q75, q95 }, { label = "prediction" }),
---       pn.plot.points(data_x, data_y, { label = "data" }),
---     })
---     pn.plot.show(panel)           or panel:show(): on the terminal
---
--- A panel is a table of marks and labels; `save` takes one panel, or a list of panels made by
--- `plot.panel`. Values may be tensors of any shape (read in row-major order) or lists of numbers;
--- what is not finite is left out.
-- help: pn.plot, part
local core = require "penumbra.core"
local chart = require "penumbra.plot.chart"
local gnuplot = require "penumbra.plot.gnuplot"
local options = require "penumbra.options"
local panel = require "penumbra.plot.panel"

local plot = {}

for _, part in ipairs { panel, chart } do
  for name, f in pairs(part) do
    if type(f) == "function" then plot[name] = f end
  end
end

local panel_kind = panel.panel_kind

---- the picture ----

local figure_options = { title = options.optional "string", size = options.optional "table",
  columns = options.optional "number", legend = options.choice("panels", "below"), aligned = false }
local OF_FIGURE = { size = true, columns = true, aligned = true }

local function figure_size(where, o, columns, rows, many, panels)
  if not o.size then
    local shape = not many and panels[1].marks[1].square -- of pictures: the canvas takes their shape
    if shape then
      local wide = shape[2] >= shape[1]
      local long, short = 640, math.max(120, 640 * (wide and shape[1] / shape[2] or shape[2] / shape[1]))
      local title = (panels[1].title or o.title) and 30 or 0
      return wide and long or short, (wide and short or long) + title
    end
    if many then
      return columns * 440, rows * 330 + (o.title and 30 or 0) + (o.legend == "below" and 30 or 0)
    end
    return 680, 430
  end
  local w, h = o.size[1], o.size[2]
  if type(w) ~= "number" or type(h) ~= "number" or not (w >= 50 and w <= 10000 and h >= 50 and h <= 10000) then
    core.error(where .. ": size must be {width, height}, each from 50 to 10000")
  end
  return w, h
end

-- Panels and figure options of what the user gave to `where`.
local function read_figure(where, content, opt)
  local kind = getmetatable(content)
  local one = kind == panel_kind or kind == panel.mark_kind or type(content) == "table" and content.fan
  if one then content = { content } end
  if type(content) ~= "table" then core.error(where .. ": needs a panel or a list of panels") end
  local many = getmetatable(content[1]) == panel_kind
  local given, own = {}, {}
  for key, value in pairs(opt or {}) do given[key] = value end
  for key, value in pairs(content) do
    local of_figure = OF_FIGURE[key] or many and (key == "title" or key == "legend")
    if of_figure then given[key] = value else own[key] = value end
  end
  local o = options.check(where, given, figure_options)
  if #content == 0 then
    core.error(("%s: needs at least one mark such as plot.line(x, y), or panels"):format(where))
  end
  if not many then return { plot.panel(own) }, o end
  for i, p in ipairs(content) do
    if getmetatable(p) ~= panel_kind then core.error(("%s: item %d must be a plot.panel"):format(where, i)) end
  end
  for key in pairs(own) do
    if math.type(key) ~= "integer" then
      core.error(("%s: unknown option '%s'%s"):format(where, tostring(key),
        options.suggestion(key, { "title", "size", "columns", "legend", "aligned" })))
    end
  end
  return content, o
end

local function layout_of(where, panels, o)
  local columns = o.columns or math.ceil(math.sqrt(#panels))
  if columns < 1 or columns % 1 ~= 0 then core.error(where .. ": columns must be a whole number above 0") end
  local last = #panels
  for _, p in ipairs(panels) do last = math.max(last, p.cell or 0) end
  return columns, (last + columns - 1) // columns
end

--- The gnuplot program that draws `content` (as for `save`) into the file `target` of kind "svg", "png" or "pdf".
function plot.script(target, kind, content, opt)
  options.argument("plot.script", "target", target, "string")
  if not gnuplot.terminals[kind] then
    core.error(("plot.script: kind must be 'svg', 'png' or 'pdf', got '%s'"):format(tostring(kind)))
  end
  local panels, o = read_figure("plot.save", content, opt)
  local columns, rows = layout_of("plot.save", panels, o)
  local w, h = figure_size("plot.save", o, columns, rows, #panels > 1, panels)
  o.width, o.height = w, h
  local scale = kind == "png" and 2 or kind == "pdf" and 1 / 72 or 1 -- pdf counts in inches
  if not target:match "^/" then target = "./" .. target end -- a leading | or < would mean a command
  local terminal = gnuplot.terminals[kind]:format(kind == "pdf" and w * scale or math.floor(w * scale),
    kind == "pdf" and h * scale or math.floor(h * scale))
  return gnuplot.compose(terminal .. "\nset output " .. gnuplot.quote(target), panels, o, columns)
end

--- Draws `content` into the file `path`, whose name ends in .svg, .png or .pdf. content: a panel (a table of
--- marks with labels, see `plot.panel`), a list of panels, or a mark alone. Options, there or in `opt`: size {width,
--- height} in points, title, columns (of panels), legend ("below": one for all panels), aligned (true: the axes of all
--- panels are equally large, for panels without numbers at inner axes). The file appears whole or not at all. Returns
--- the path, or nil, message, code: "missing" without gnuplot or where a host lets scripts start no programs, "io" if
--- the file cannot be written.
function plot.save(path, content, opt)
  if type(path) ~= "string" then core.error(("plot.save: path must be a string, got a %s"):format(type(path))) end
  local kind = (path:match "%.(%a+)$" or ""):lower()
  if not gnuplot.terminals[kind] then
    core.error(("plot.save: path must end in .svg, .png or .pdf, got '%s'"):format(path))
  end
  if path:find "%c" then core.error "plot.save: path must not contain control characters" end
  if not gnuplot.may_draw() then
    return nil, "plot.save: gnuplot draws, and this host lets scripts start no programs", "missing"
  end
  local unique = os.tmpname()
  os.remove(unique)
  local target = ("%s.%s.tmp"):format(path, unique:match "[%w_]+$")
  local script = plot.script(target, kind, content, opt)
  local probe, message = io.open(target, "wb")
  if not probe then return nil, "plot.save: " .. message:gsub("%.[%w_]+%.tmp", ""), "io" end
  probe:close()
  local ok, code
  ok, message, code = gnuplot.run(script, "plot.save")
  if ok and not gnuplot.exists(target) then ok, message, code = nil, "plot.save: gnuplot wrote nothing", "state" end
  if ok then ok, message = os.rename(target, path) end
  if ok then return path end
  os.remove(target)
  return nil, message, code or "io"
end

---- on the terminal ----

local sixels -- does the terminal understand them? nil: not asked yet

-- Asks the terminal for its primary device attributes: 4 among them means sixels (VT340; xterm's ctlseqs).
local function understands_sixels()
  if sixels == nil then
    local answer = core.terminal_answer(io.stdin, io.stdout, "\27[c", "c")
    sixels = answer ~= nil and (answer:match "\27%[%?([%d;]*)c$" or ""):find "%f[%d]4%f[%D]" ~= nil
  end
  return sixels
end

local show_options = { columns = options.optional "number", title = options.optional "string",
  size = options.optional "table", kind = options.choice("auto", "text", "sixel"),
  legend = options.choice("panels", "below"), aligned = false }

-- Pictures in letters: two for each pixel where there is room.
local function picture_in_letters(p, width)
  local text = p.marks[1].letters(width)
  return (p.title and (" "):rep((width - #p.title) // 2) .. p.title .. "\n" or "") .. text .. "\n"
end

-- Panels in letters, one below the other. Returns the text, or nil, message, code.
local function in_letters(panels, o, width)
  local height = math.min(math.max(width // 4, 16), 30)
  local terminal = ("set terminal dumb noenhanced size %d,%d"):format(width, height)
  local parts, run = {}, {}
  local function draw()
    if #run == 0 then return true end
    local one = { legend = o.legend, letters = width - 8, title = #panels == 1 and o.title or nil }
    local said, message, code = gnuplot.run(gnuplot.compose(terminal, run, one, 1, true), "plot.show")
    if not said then return nil, message, code end
    parts[#parts + 1], run = said, {}
    return true
  end
  if o.title and (#panels > 1 or panels[1].title) then
    parts[1] = (" "):rep(math.max(0, (width - #o.title) // 2)) .. o.title .. "\n"
  end
  for _, p in ipairs(panels) do
    if p.marks[1].letters then
      local ok, message, code = draw()
      if not ok then return nil, message, code end
      parts[#parts + 1] = picture_in_letters(p, width)
    else
      run[#run + 1] = p
    end
  end
  local ok, message, code = draw()
  if not ok then return nil, message, code end
  local said = table.concat(parts, "\n")
  return (said:gsub("\f", ""):gsub("[ ]+\n", "\n"):gsub("^\n+", ""):gsub("\n\n+", "\n\n"))
end

--- Shows `content` (as for `save`) on the terminal: in colours where the terminal says that it understands sixels, else
--- in letters as wide as the terminal, one panel below the other; in a notebook as a picture below the cell; also
--- panel:show(). Options: columns of panels, title, kind ("text" or "sixel" to choose). Returns true, or nil, message,
--- code: "missing" without gnuplot or where a host lets scripts start no programs.
function plot.show(content, opt)
  gnuplot.pictured = true
  local given = {}
  local chosen = options.check("plot.show", opt, show_options)
  for key, value in pairs(opt or {}) do given[key] = key ~= "kind" and value or nil end
  if gnuplot.viewer and chosen.kind == "auto" then return gnuplot.viewer(content, given) end
  if not gnuplot.may_draw() then
    return nil, "plot.show: gnuplot draws, and this host lets scripts start no programs", "missing"
  end
  local panels, o = read_figure("plot.show", content, given)
  local columns, rows = layout_of("plot.show", panels, o)
  local width = core.terminal(io.stdout)
  local said, message, code, after
  if chosen.kind == "sixel" or chosen.kind == "auto" and width and understands_sixels() then
    local w, h = figure_size("plot.show", o, columns, rows, #panels > 1, panels)
    o.width, o.height = w, h
    local terminal = ("set terminal sixelgd truecolor noenhanced size %d,%d background '#ffffff'"):format(w, h)
    said, message, code = gnuplot.run(gnuplot.compose(terminal, panels, o, columns), "plot.show")
    after = "\n"
  else
    said, message, code = in_letters(panels, o, math.min(math.max((width or 80) - 1, 40), 160))
  end
  if not said then return nil, message, code end
  io.stdout:write(said, after or "")
  io.stdout:flush()
  return true
end

panel_kind.__index = core.namespace("a panel", { show = plot.show })

function panel_kind:__tostring()
  return ("a panel%s of %d mark%s: p:show() shows it here, pn.plot.save(\"name.svg\", p) writes a file"):format(
    self.title and ' "' .. self.title .. '"' or "", #self.marks, #self.marks == 1 and "" or "s")
end

return plot
