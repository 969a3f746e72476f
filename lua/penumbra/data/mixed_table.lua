--- CSV files whose columns are more than numbers: categories and dates as numbers, columns left out.
-- help: nowhere
local calendar = require "penumbra.data.calendar"
local core = require "penumbra.core"
local options = require "penumbra.options"

local mixed_table = {}

local KINDS = { number = true, category = true, date = true, skip = true }

-- ---- dates ----

local function dates(path, name, texts, format)
  local formats, out = {}, {}
  for k, f in ipairs(format and { format } or calendar.ISO) do
    formats[k] = { calendar.format("csv", f) }
  end
  for i, text in ipairs(texts) do
    local v = text == "" and 0 / 0 or nil
    for k = 1, v and 0 or #formats do
      v = v or calendar.read(text, formats[k][1], formats[k][2])
    end
    if not v then
      return nil, ("csv: file '%s' column '%s', row %d must be a date%s, got '%s'"):format(path, name, i,
        format and " like " .. format or " (year-month-day)", text), "format"
    end
    out[i] = v
  end
  return out
end

-- ---- categories ----

-- Codes from 0 of texts by their levels, which are sorted unless they are given; a missing one is NaN.
local function codes(path, name, texts, levels)
  local code, known = {}, levels ~= nil
  if not known then
    local seen = {}
    levels = {}
    for _, text in ipairs(texts) do
      if text ~= "" and not seen[text] then
        seen[text], levels[#levels + 1] = true, text
      end
    end
    table.sort(levels)
  end
  for k, text in ipairs(levels) do
    code[text] = k - 1
  end
  local out = {}
  for i, text in ipairs(texts) do
    out[i] = code[text] or text == "" and 0 / 0 or nil
    if not out[i] then
      return nil, ("csv: file '%s' column '%s', row %d is '%s', which is none of its levels"):format(path, name, i,
        text), "domain"
    end
  end
  return out, levels
end

-- ---- the table ----

-- The names of the columns wanted, in order, and the kind of each; nil, message, code where there is none.
local function plan(o, header, path)
  local known, wanted = {}, {}
  for _, name in ipairs(header) do
    known[name] = true
  end
  for name, kind in pairs(o.kinds) do
    if type(name) ~= "string" or not KINDS[kind] then
      core.error(("csv: kinds must be a table name -> 'number', 'category', 'date' or 'skip', got %s under %s"):format(
        tostring(kind), tostring(name)))
    elseif not known[name] then
      return nil, ("csv: file '%s' has no column '%s'%s"):format(path, name, options.suggestion(name, header)), "domain"
    end
  end
  for _, name in ipairs(o.columns or header) do
    if o.kinds[name] ~= "skip" then
      wanted[#wanted + 1] = name
    end
  end
  if #wanted == 0 then
    core.error "csv: kinds leaves no column"
  end
  return wanted
end

--- What pn.data.csv gives for options with `kinds`. numbers(columns) and texts(columns, one) read columns of the file;
--- `one` a single row.
function mixed_table.read(path, o, numbers, texts)
  for _, name in ipairs(o.columns or {}) do
    options.argument("csv", "columns, with kinds,", name, "string")
  end
  local cells, header, code = texts(nil, true)
  if not cells then
    return nil, header, code
  elseif not header then
    return nil, ("csv: file '%s' has no header, so no columns for kinds"):format(path), "domain"
  end
  local wanted, message
  wanted, message, code = plan(o, header, path)
  if not wanted then
    return nil, message, code
  end
  local plain, columns, levels = {}, {}, {}
  for k, name in ipairs(wanted) do
    local kind = o.kinds[name] or "number"
    if kind == "number" then
      plain[#plain + 1] = name
    else
      local list, more
      list, more, code = texts({ name })
      if not list then
        return nil, more, code
      end
      local values
      if kind == "date" then
        values, more, code = dates(path, name, list, o.date)
      else
        values, more, code = codes(path, name, list, o.levels and o.levels[name])
        levels[name] = values and more
      end
      if not values then
        return nil, more, code
      end
      columns[k] = core.tensor(values, { dtype = o.dtype })
    end
  end
  if #plain > 0 then
    local x
    x, message, code = numbers(plain)
    if not x then
      return nil, message, code
    end
    local at = 0
    for k = 1, #wanted do
      if not columns[k] then
        at = at + 1
        columns[k] = x:select(2, at)
      end
    end
  end
  return core.stack(columns, 2), wanted, levels
end

return mixed_table
