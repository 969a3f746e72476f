--- Values as a front end with pictures shows them: tables of HTML for tensors, summaries, posteriors and networks, SVG
--- for panels. All text in them is escaped.
-- help: nowhere
local core = require "penumbra.core"
local mode = require "penumbra.nn.mode"
local panel = require "penumbra.plot.panel"
local plot = require "penumbra.plot"
local pretty = require "penumbra.shell.pretty"

local rich = {}

local ROWS, COLUMNS = 20, 12 -- of a tensor

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- Text as HTML that shows it.
function rich.escape(text) return (text:gsub("[&<>\"']", entities)) end

-- A table of HTML: head and rows are lists of texts, of which the first column names the rows; note stands below.
local function table_of(head, rows, note)
  local out = { "<table>", "<thead><tr>" }
  for _, text in ipairs(head) do out[#out + 1] = "<th>" .. rich.escape(text) .. "</th>" end
  out[#out + 1] = "</tr></thead>\n<tbody>"
  for _, row in ipairs(rows) do
    out[#out + 1] = "<tr>"
    for j, text in ipairs(row) do
      local tag = j == 1 and "th" or "td"
      out[#out + 1] = ("<%s>%s</%s>"):format(tag, rich.escape(text), tag)
    end
    out[#out + 1] = "</tr>\n"
  end
  out[#out + 1] = "</tbody></table>"
  if note then out[#out + 1] = "<pre>" .. rich.escape(note) .. "</pre>" end
  return table.concat(out)
end

---- tensors ----

-- Which of n positions are shown, 0 for a gap.
local function chosen(n, most)
  local list = {}
  for i = 1, n do
    if n <= most or i <= most // 2 or i > n - (most - most // 2) then
      list[#list + 1] = i
    elseif list[#list] ~= 0 then
      list[#list + 1] = 0
    end
  end
  return list
end

local function number_text(v)
  if math.type(v) ~= "float" then return tostring(v) end
  return ("%.5g"):format(v)
end

-- The positions of `list` along an axis.
local function picked(x, axis, list)
  local parts, from = {}, 1
  while from <= #list do
    local to = from
    while list[to + 1] == list[to] + 1 do to = to + 1 end
    if list[from] > 0 then parts[#parts + 1] = x:slice(axis, list[from], list[to]) end
    from = to + 1
  end
  return core.concatenate(parts, axis)
end

local function row_of(list, name, text_at)
  local row, n = { name }, 0
  for _, j in ipairs(list) do
    n = n + (j > 0 and 1 or 0)
    row[#row + 1] = j == 0 and "…" or text_at(n, j)
  end
  return row
end

-- A matrix, or a vector as one row.
local function of_tensor(x)
  local shape = x:shape()
  if #shape < 1 or #shape > 2 or x:numel() == 0 then return nil end
  local sizes = ("%s [%s]"):format(x:dtype(), table.concat(shape, ", "))
  x = x:detach()
  if #shape == 1 then x = x:reshape { 1, shape[1] } end
  local rows, columns = chosen(x:size(1), ROWS), chosen(x:size(2), COLUMNS)
  local values = picked(picked(x, 1, rows), 2, columns):totable()
  local list, n = {}, 0
  for k, i in ipairs(rows) do
    n = n + (i > 0 and 1 or 0)
    local at = n
    list[k] = row_of(columns, #shape == 1 and "" or i == 0 and "…" or ("%d"):format(i), function(j)
      return i == 0 and "…" or number_text(values[at][j])
    end)
  end
  return table_of(row_of(columns, "", function(_, j) return ("%d"):format(j) end), list, sizes)
end

---- models ----

-- The text of a summary, line by line: a name and as many words as there are columns.
local function of_summary(summary, note)
  local head, rows = { "", table.unpack(summary.columns) }, {}
  for line in (tostring(summary) .. "\n"):gmatch "(.-)\n" do
    local words, row = {}, summary[#rows]
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    rows[#rows + 1] = row and { row.name, table.unpack(words, #words - #summary.columns + 1) } or {}
  end
  return table_of(head, { table.unpack(rows, 2) }, note)
end

local function of_posterior(p)
  local summary = p:summary(p.latent)
  local text = tostring(summary)
  return of_summary(summary, tostring(p):sub(#text + 2))
end

local function of_network(net)
  local rows, names, state = {}, {}, net:state()
  for name in pairs(state) do names[#names + 1] = name end
  if #names == 0 then return nil end
  table.sort(names)
  for i, name in ipairs(names) do
    local x = state[name]
    rows[i] = { name, x:dtype(), table.concat(x:shape(), " × "), ("%d"):format(x:numel()) }
  end
  return table_of({ "", "dtype", "shape", "numbers" }, rows, tostring(net))
end

--- A picture of `content` (as for pn.plot.save) as SVG, or nil, message, code.
function rich.picture(content, opt)
  local name = os.tmpname()
  local path, message, code = plot.save(name .. ".svg", content, opt)
  os.remove(name)
  if not path then return nil, message:gsub("^plot%.save", "plot.show"), code end
  local file = assert(io.open(path, "rb"))
  local svg = file:read "a"
  file:close()
  os.remove(path)
  return svg
end

-- (Nothing of a user's is called to find out what a value is.)
local function html_of(value)
  if core.is_tensor(value) then return of_tensor(value) end
  local meta = debug.getmetatable(value)
  local own = type(value) == "table" and type(meta) == "table"
  local first = own and rawget(value, 1)
  if own and rawget(meta, "__name") == "posterior" then
    return of_posterior(value)
  elseif type(first) == "table" and rawget(first, "mcse") then
    return of_summary(value)
  elseif mode.is_network(value) then
    return of_network(value)
  end
end

--- The forms of a value by their media types; text: what it is as text. What cannot be shown as a table or a picture is
--- text alone.
function rich.bundle(value, text)
  local bundle = { ["text/plain"] = text or pretty.format(value) }
  if getmetatable(value) == panel.panel_kind then
    local ok, svg = pcall(rich.picture, value)
    bundle["image/svg+xml"] = ok and svg or nil
  else
    local ok, html = pcall(html_of, value)
    bundle["text/html"] = ok and html or nil
  end
  return bundle
end

return rich
