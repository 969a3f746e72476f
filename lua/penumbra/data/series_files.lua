--- Files as sets of series: GluonTS's JSON lines, and CSV by columns and by rows.
-- help: nowhere
local calendar = require "penumbra.data.calendar"
local core = require "penumbra.core"
local options = require "penumbra.options"
local series = require "penumbra.data.series"

local series_files = {}

-- The set of items by checked options.
local function set_of(where, items, o)
  return series.new(where, items, { freq = o.freq, features = o.features, dtype = o.dtype })
end

-- A host can keep files from its scripts.
local function check_files(where)
  if not core.files then
    core.error(where .. ": this script may not open files")
  end
end

-- ---- GluonTS ----

local MISSING = { NaN = true, nan = true, [""] = true }

-- A list of numbers with NaN in the place of texts that say so; nil if something else is in it.
local function numbers(list)
  local out = {}
  for i, v in ipairs(type(list) == "table" and list or { list }) do
    out[i] = type(v) == "number" and v or MISSING[v] and 0 / 0 or nil
    if out[i] == nil then
      return nil
    end
  end
  return out
end

-- [T] or, of a list of lists, one for each variable, [T, p]; nil if it is neither.
local function table_of(list)
  if type(list) ~= "table" or #list == 0 then
    return nil
  elseif type(list[1]) ~= "table" then
    local row = numbers(list)
    return row and core.tensor(row, { dtype = "float64" })
  end
  local rows = {}
  for k, part in ipairs(list) do
    rows[k] = type(part) == "table" and numbers(part)
    if not rows[k] or #rows[k] ~= #rows[1] or #rows[k] == 0 then
      return nil
    end
  end
  return core.tensor(rows, { dtype = "float64" }):t()
end

-- A GluonTS date may have a fraction of seconds or a zone behind it; nil if there is none.
local function start_of(v)
  if type(v) == "table" then -- {"$timestamp": ...} or a period of GluonTS's older writers
    v = v["$timestamp"] or v.start
  end
  local text = type(v) == "string" and v:gsub("%.%d+", ""):gsub("[+-]%d%d:?%d%d$", "") or ""
  return calendar.moment(text) and text or nil
end

-- The item of one line; nil, what is wrong with it.
local function gluonts_item(line, k, identities)
  if type(line) ~= "table" or line.target == nil then
    return nil, "has no target"
  end
  local target = table_of(line.target)
  if not target then
    return nil, "has a target that is no list of numbers"
  end
  local item = { target = target, start = start_of(line.start), item_id = line.item_id }
  if line.start ~= nil and not item.start then
    return nil, ("has a start that is no date, '%s'"):format(tostring(line.start))
  end
  local given = line.feat_dynamic_real
  if type(given) == "table" and #given > 0 then
    item.covariates = table_of(given)
    if not item.covariates or item.covariates:ndim() ~= 2 then
      return nil, "has a feat_dynamic_real that is no list of lists of numbers"
    end
  end
  local cat = type(line.feat_static_cat) == "table" and line.feat_static_cat[1]
  item.series = math.type(cat) == "integer" and cat >= 0 and cat or identities and (k - 1) % identities or nil
  return item
end

--- See pn.data.gluonts.
function series_files.gluonts(path, given)
  options.argument("gluonts", "path", path, "string")
  local o = options.check("gluonts", given, options.merged(series.options, { identities = options.optional "number" }))
  local identities = o.identities and options.whole("gluonts", "identities", o.identities, 1)
  check_files "gluonts"
  local lines, message, code = core.files.json(path, true)
  if not lines then
    return nil, (message:gsub("^json", "gluonts")), code
  end
  local items = {}
  for k, line in ipairs(lines) do
    local item, why = gluonts_item(line, k, identities)
    if not item then
      return nil, ("gluonts: file '%s', object %d %s"):format(path, k, why), "format"
    end
    items[k] = item
  end
  if #items == 0 then
    return nil, ("gluonts: file '%s' holds no series"):format(path), "format"
  end
  return set_of("gluonts", items, o)
end

-- ---- CSV ----

-- The finite part of a row: what stands before the NaN at its end; nil where nothing does.
local function trimmed(row)
  local last = #row
  while last > 0 and row[last] ~= row[last] do
    last = last - 1
  end
  return last > 0 and core.tensor({ table.unpack(row, 1, last) }, { dtype = "float64" }) or nil
end

local function by_row(path, o, read_csv)
  local texts, header, code = core.files.load_csv_text(path, nil, o.header, nil, nil, { o.name or 1 }, nil, 0, 0)
  if not texts then
    return nil, header, code
  end
  local columns = o.columns
  if not columns then
    columns = {}
    for k = 2, #core.files.load_csv_text(path, nil, o.header, nil, nil, nil, nil, 0, 1) do
      columns[k - 1] = k
    end
  end
  local x, message, kind = read_csv(path, { header = o.header, columns = columns, dtype = "float64" })
  if not x then
    return nil, message, kind
  end
  local items = {}
  for k, row in ipairs(x:totable()) do
    local target = trimmed(row)
    if not target then
      return nil, ("series_csv: file '%s', row %d has no numbers"):format(path, k), "format"
    end
    items[k] = { target = target, item_id = texts[k], start = o.start }
  end
  return items
end

local function by_column(path, o, read_csv)
  local start, kinds = o.start, nil
  if o.date then
    kinds = { [o.date] = "date" }
  end
  local x, names, code = read_csv(path, { header = o.header, columns = o.columns, kinds = kinds, dtype = "float64" })
  if not x then
    return nil, names, code
  end
  local items, kept = {}, {}
  for k = 1, x:size(2) do
    local name = names and names[k] or tostring(k)
    local column = x:select(2, k)
    if name == o.date then
      local v = column[1]:item()
      local year, month, day = calendar.date(math.floor(v))
      local second = math.floor((v - math.floor(v)) * 86400 + 0.5)
      start = ("%04d-%02d-%02d %02d:%02d:%02d"):format(year, month, day, second // 3600, second % 3600 // 60,
        second % 60)
    else
      kept[#kept + 1] = { name, column }
    end
  end
  for k, pair in ipairs(kept) do
    items[k] = { target = pair[2], item_id = pair[1], start = start }
  end
  if o.joint then
    local columns = {}
    for k, item in ipairs(items) do
      columns[k] = item.target
    end
    items = { { target = core.stack(columns, 2), start = start } }
  end
  return items
end

--- See pn.data.series_csv; read_csv is pn.data.csv.
function series_files.csv(path, given, read_csv)
  options.argument("series_csv", "path", path, "string")
  local o = options.check("series_csv", given, options.merged(series.options, { by = options.choice("column", "row"),
    columns = options.optional "table", date = options.optional "string", name = options.optional(), joint = false,
    header = options.optional "boolean", start = options.optional "string" }))
  check_files "series_csv"
  for _, pair in ipairs { { "date", "row" }, { "name", "column" }, { "joint", "row" } } do
    if o[pair[1]] and o.by == pair[2] then
      core.error(("series_csv: %s is not used with by = '%s'"):format(pair[1], pair[2]))
    end
  end
  local items, message, code = (o.by == "row" and by_row or by_column)(path, o, read_csv)
  if not items then
    return nil, message, code
  end
  return set_of("series_csv", items, o)
end

return series_files
