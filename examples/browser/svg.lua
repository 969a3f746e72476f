--- Panels as SVG, for a place without gnuplot: what marks hold, drawn in plain shapes. A mark says in gnuplot's words
--- how it is drawn; kinds of which nothing is known here are left out, and said.
local svg = {}

local colours = { "#2f6db3", "#d9752b", "#3a9276", "#b5486a", "#7a62ad", "#8a7433", "#5f6b78" }
local viridis = { { 68, 1, 84 }, { 62, 73, 137 }, { 38, 130, 142 }, { 53, 183, 121 }, { 181, 222, 43 },
  { 253, 231, 37 } }
local greys = { { 0, 0, 0 }, { 255, 255, 255 } }

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local function escape(text) return (text:gsub('[&<>"]', entities)) end

-- gnuplot's quoted words: octal escapes, backslashes twice.
local function unquote(text)
  text = text:match '^"(.*)"$' or text
  return (text:gsub("\\(%d%d%d)", function(digits) return string.char(tonumber(digits, 8)) end):gsub("\\\\", "\\"))
end

-- The rows of a mark's data: lists of numbers (nan where there is none) and, of words, a text; false lifts the pen.
local function rows_of(mark)
  local rows = {}
  for i, line in ipairs(mark.data) do
    local row = {}
    if mark.words then
      local x, y, text = line:match "^(%S+) (%S+) (.*)$"
      row = { tonumber(x) or 0 / 0, tonumber(y) or 0 / 0, text = unquote(text) }
    else
      for field in line:gmatch "%S+" do row[#row + 1] = tonumber(field) or 0 / 0 end
    end
    rows[i] = #row > 0 and row or false
  end
  return rows
end

---- axes ----

local function widen(range, v)
  if v - v == 0 then range[1], range[2] = math.min(range[1], v), math.max(range[2], v) end
end

-- From where to where the marks of a panel reach: two pairs, and whether one stands on 0.
local function extents(drawn)
  local x, y = { math.huge, -math.huge }, { math.huge, -math.huge }
  local from_zero = false
  for _, one in ipairs(drawn) do
    from_zero = from_zero or one.mark.from_zero
    for _, row in ipairs(one.rows) do
      if row then
        local half = one.kind == "boxes" and row[3] / 2 or one.mark.image and one.half[1] or 0
        widen(x, row[1] - half)
        widen(x, row[1] + half)
        half = one.mark.image and one.half[2] or 0
        widen(y, row[2] - half)
        widen(y, row[2] + half)
        if one.kind == "filledcurves" then widen(y, row[3]) end
        if one.kind == "yerrorbars" then widen(y, row[3]) widen(y, row[4]) end
      end
    end
    if one.kind == "boxes" or one.kind == "impulses" then widen(y, 0) end
  end
  return x, y, from_zero
end

-- A scale: from and to in data, and the place of a value between 0 and 1.
local function scale_of(range, given, log, margin, floor)
  local low, high = range[1], range[2]
  if low > high then low, high = 0, 1 end
  if log then
    low, high = math.log(math.max(low, 1e-300), 10), math.log(math.max(high, 1e-300), 10)
  end
  if low == high then low, high = low - 0.5, high + 0.5 end
  local room = (high - low) * margin
  low, high = floor and low == 0 and 0 or low - room, floor and high == 0 and 0 or high + room
  if given then
    low, high = given[1], given[2]
    if log then low, high = math.log(low, 10), math.log(high, 10) end
  end
  return { low = low, high = high, log = log, place = function(v)
    if log then v = v > 0 and math.log(v, 10) or -1e9 end
    return (v - low) / (high - low)
  end }
end

-- Where numbers stand on an axis: {value, text}...
local function ticks(scale, names, step)
  local list = {}
  local low, high = math.min(scale.low, scale.high), math.max(scale.low, scale.high)
  if names then
    for i, name in ipairs(names) do list[i] = { i, name } end
    return list
  elseif scale.log then
    local every = math.max(1, math.ceil((high - low) / 6))
    for k = math.ceil(low - 1e-9), math.floor(high + 1e-9), every do
      list[#list + 1] = { 10.0 ^ k, ("%g"):format(10.0 ^ k) }
    end
    return list
  end
  if not step then
    local rough = (high - low) / 6
    local unit = 10 ^ math.floor(math.log(rough, 10))
    step = rough / unit
    step = unit * (step < 1.5 and 1 or step < 3.5 and 2 or step < 7.5 and 5 or 10)
  end
  for k = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
    list[#list + 1] = { k * step, ("%.6g"):format(k * step + 0.0) }
  end
  return list
end

---- marks ----

local draw = {}

-- Paths of one pen: each run of finite points.
local function path_of(rows, at, k)
  local out, down = {}, false
  for _, row in ipairs(rows) do
    if row and row[1] == row[1] and row[k] == row[k] then
      local x, y = at(row[1], row[k])
      out[#out + 1] = ("%s%.1f %.1f"):format(down and "L" or "M", x, y)
      down = true
    else
      down = false
    end
  end
  return table.concat(out)
end

function draw.lines(one, at)
  local dash = one.style:find "dashtype 2" and ' stroke-dasharray="7 5"' or ""
  return ('<path d="%s" fill="none" stroke="%s" stroke-width="%g"%s/>'):format(path_of(one.rows, at, 2), one.colour,
    (tonumber(one.style:match "linewidth (%S+)") or 2) * 0.9, dash)
end

local function each(one, at, format)
  local out = {}
  for _, row in ipairs(one.rows) do
    if row and row[1] == row[1] and row[2] == row[2] then out[#out + 1] = format(row, at(row[1], row[2])) end
  end
  return table.concat(out)
end

function draw.points(one, at)
  local r = 6 * (tonumber(one.style:match "pointsize (%S+)") or 0.6)
  return each(one, at, function(_, x, y)
    return ('<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>'):format(x, y, r, one.colour)
  end)
end

function draw.impulses(one, at)
  return each(one, at, function(row, x, y)
    local _, zero = at(row[1], 0)
    return ('<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="1.5"/>'):format(x, zero, y, one.colour)
  end)
end

function draw.yerrorbars(one, at)
  return each(one, at, function(row, x)
    local _, low = at(row[1], row[3])
    local _, high = at(row[1], row[4])
    return ('<path d="M%.1f %.1fV%.1fm-3 0h6" stroke="%s" stroke-width="1.3"/>'):format(x, low, high, one.colour)
  end) .. draw.points(one, at)
end

function draw.filledcurves(one, at)
  local up, down = {}, {}
  for _, row in ipairs(one.rows) do
    if row and row[2] == row[2] and row[3] == row[3] then
      up[#up + 1] = ("%.1f %.1f"):format(at(row[1], row[2]))
      table.insert(down, 1, ("%.1f %.1f"):format(at(row[1], row[3])))
    end
  end
  if #up == 0 then return "" end
  return ('<path d="M%sL%sZ" fill="%s" fill-opacity="%s"/>'):format(table.concat(up, "L"), table.concat(down, "L"),
    one.colour, one.style:match "solid (%S+)" or "0.25")
end

function draw.boxes(one, at)
  local opacity, border = one.style:match "solid (%S+)" or "0.7", one.style:find "border rgb" and "#ffffff" or "none"
  return each(one, at, function(row, _, y)
    local left, zero = at(row[1] - row[3] / 2, 0)
    local right = at(row[1] + row[3] / 2, 0)
    return ('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%s" stroke="%s"/>'):format(left,
      math.min(y, zero), right - left, math.abs(zero - y), one.colour, opacity, border)
  end)
end

function draw.labels(one, at)
  local anchor = one.style:find " left " and "start" or one.style:find " right " and "end" or "middle"
  local dx = anchor == "start" and 7 or anchor == "end" and -7 or 0
  local dy = tonumber(one.style:match "center offset 0, (%S+)")
  return each(one, at, function(row, x, y)
    return ('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>'):format(x + dx,
      y + 4 - (dy and dy * 14 or 0), anchor, one.colour, escape(row.text))
  end)
end

local function shade(palette, share)
  local at = math.min(math.max(share, 0), 1) * (#palette - 1)
  local k = math.min(math.floor(at), #palette - 2)
  local out = {}
  for i = 1, 3 do out[i] = math.floor(palette[k + 1][i] + (palette[k + 2][i] - palette[k + 1][i]) * (at - k) + 0.5) end
  return ("#%02x%02x%02x"):format(table.unpack(out))
end

function draw.image(one, at)
  local low, high = table.unpack(one.mark.range or one.mark.extent)
  local palette = one.mark.palette == "grey" and greys or viridis
  local out = {}
  for _, row in ipairs(one.rows) do
    if row[3] == row[3] then
      local left, top = at(row[1] - one.half[1], row[2] + one.half[2])
      local right, bottom = at(row[1] + one.half[1], row[2] - one.half[2])
      out[#out + 1] = ('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>'):format(math.min(left, right),
        math.min(top, bottom), math.abs(right - left) + 0.4, math.abs(bottom - top) + 0.4,
        shade(palette, high > low and (row[3] - low) / (high - low) or 0.5))
    end
  end
  return table.concat(out)
end

-- Half a cell of a picture: half the least distance of two columns and of two rows.
local function half_cell(rows)
  local half = {}
  for k = 1, 2 do
    local seen, list = {}, {}
    for _, row in ipairs(rows) do
      if not seen[row[k]] then
        seen[row[k]] = true
        list[#list + 1] = row[k]
      end
    end
    table.sort(list)
    half[k] = #list > 1 and (list[2] - list[1]) / 2 or 0.5
  end
  return half
end

-- What is drawn of a panel: {mark, kind, style, colour, rows}..., and the kinds that are not.
local function prepare(panel)
  local drawn, unknown, used, sharing = {}, {}, 0, 0
  for _, mark in ipairs(panel.marks) do
    if mark.fan_start then sharing = mark.fan_size end
    if not mark.image and not mark.colour and (sharing == 0 or mark.fan_start) then used = used + 1 end
    local one = { mark = mark, kind = mark.style:match "with (%a+)", style = mark.style, rows = rows_of(mark),
      colour = mark.colour or colours[(math.max(used, 1) - 1) % #colours + 1] }
    if mark.image then one.half = half_cell(one.rows) end
    if draw[one.kind] then drawn[#drawn + 1] = one else unknown[#unknown + 1] = one.kind end
    if sharing > 0 then sharing = sharing - 1 end
  end
  return drawn, unknown
end

---- panels ----

local function add_axes(out, panel, box, x, y)
  local function add(...) out[#out + 1] = (...):format(select(2, ...)) end
  for _, tick in ipairs(ticks(x, panel.x_names, panel.x_step)) do
    local at = box.left + x.place(tick[1]) * box.width
    add('<path d="M%.1f %.1fv%.1f" stroke="#e4e4e4"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>', at,
      box.top, box.height, at, box.top + box.height + 16, escape(tick[2]))
  end
  for _, tick in ipairs(ticks(y, panel.y_names, panel.y_step)) do
    local at = box.top + (1 - y.place(tick[1])) * box.height
    add('<path d="M%.1f %.1fh%.1f" stroke="#e4e4e4"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>', box.left, at,
      box.width, box.left - 6, at + 4, escape(tick[2]))
  end
  add('<path d="M%.1f %.1fv%.1fh%.1f" fill="none" stroke="#5a5a5a"/>', box.left, box.top, box.height, box.width)
  if panel.x_label then
    add('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>', box.left + box.width / 2, box.top + box.height + 34,
      escape(panel.x_label))
  end
  if panel.y_label then
    local px, py = box.left - 46, box.top + box.height / 2
    add('<text x="%.1f" y="%.1f" text-anchor="middle" transform="rotate(-90 %.1f %.1f)">%s</text>', px, py, px, py,
      escape(panel.y_label))
  end
end

-- Labels in a row below the axes.
local function add_legend(out, drawn, box)
  local x, y = box.left, box.top + box.height + 54
  for _, one in ipairs(drawn) do
    if one.mark.label then
      out[#out + 1] = ('<rect x="%.1f" y="%.1f" width="14" height="8" fill="%s"/><text x="%.1f" y="%.1f">%s</text>')
        :format(x, y - 8, one.colour, x + 19, y, escape(one.mark.label))
      x = x + 36 + 7 * (utf8.len(one.mark.label) or #one.mark.label)
    end
  end
end

local clips = 0
local function add_panel(out, panel, left, top, width, height)
  local drawn, unknown = prepare(panel)
  local labelled, square, downwards = false, false, false
  for _, one in ipairs(drawn) do
    labelled = labelled or one.mark.label and panel.legend ~= "none"
    square, downwards = square or one.mark.square, downwards or one.mark.downwards
  end
  local box = { left = left + (square and 8 or 66), top = top + (panel.title and 30 or 12) }
  box.width = left + width - 14 - box.left
  box.height = top + height - (square and 8 or labelled and 66 or 44) - box.top
  local xs, ys, from_zero = extents(drawn)
  local image = drawn[1] and drawn[1].mark.image
  local x = scale_of(xs, panel.x_range, panel.x_log, image and 0 or 0.03)
  local y = scale_of(ys, panel.y_range, panel.y_log, image and 0 or 0.04, from_zero)
  if downwards and not panel.y_range then
    y = scale_of(ys, { ys[2], ys[1] }, panel.y_log, 0)
  end
  if not square then add_axes(out, panel, box, x, y) end
  if panel.title then
    out[#out + 1] = ('<text x="%.1f" y="%.1f" text-anchor="middle" font-size="14">%s</text>'):format(
      box.left + box.width / 2, top + 18, escape(panel.title))
  end
  clips = clips + 1
  out[#out + 1] = ('<clipPath id="clip%d"><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"/></clipPath>'):format(
    clips, box.left, box.top - 2, box.width + 2, box.height + 2) .. ('<g clip-path="url(#clip%d)">'):format(clips)
  local function at(vx, vy) return box.left + x.place(vx) * box.width, box.top + (1 - y.place(vy)) * box.height end
  for _, one in ipairs(drawn) do out[#out + 1] = draw[one.kind](one, at) end
  out[#out + 1] = "</g>"
  if labelled then add_legend(out, drawn, box) end
  if #unknown > 0 then
    out[#out + 1] = ('<text x="%.1f" y="%.1f" fill="#b5486a">not drawn here: %s</text>'):format(box.left,
      top + height - 4, escape(table.concat(unknown, ", ")))
  end
end

--- A picture of panels, as SVG. o: size {width, height}, columns, title.
function svg.picture(panels, o)
  local columns = o.columns or math.ceil(math.sqrt(#panels))
  local last = #panels
  for _, p in ipairs(panels) do last = math.max(last, p.cell or 0) end
  local rows = (last + columns - 1) // columns
  local width = o.size and o.size[1] or (#panels == 1 and 640 or columns * 420)
  local height = o.size and o.size[2] or (#panels == 1 and 400 or rows * 310) + (o.title and 30 or 0)
  local top = o.title and 30 or 0
  local out = { ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" fill="#333333" '
    .. 'font-family="Helvetica, sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="#ffffff"/>'):format(
    width, height, width, height) }
  if o.title then
    out[2] = ('<text x="%g" y="20" text-anchor="middle" font-size="15">%s</text>'):format(width / 2, escape(o.title))
  end
  for i, p in ipairs(panels) do
    local cell = (p.cell or i) - 1
    add_panel(out, p, cell % columns * width / columns, top + cell // columns * (height - top) / rows, width / columns,
      (height - top) / rows)
  end
  out[#out + 1] = "</svg>"
  return table.concat(out, "\n")
end

return svg
