--- Distributions, bijectors and Gaussian factors as text, as a script would write them: parameters by value where they
--- are few numbers, else by shape; what they are made of inside, on lines of its own where one line is too short.
-- help: nowhere
local core = require "penumbra.core"
local options = require "penumbra.options"

local FEW = 16 -- numbers shown by value; the core refuses them in a capture

local function number(v)
  if type(v) ~= "number" or v ~= v then return type(v) == "number" and "nan" or tostring(v) end
  if v == math.floor(v) and math.abs(v) < 1e15 then return ("%d"):format(v) end
  return ("%.6g"):format(v)
end

local function list(v)
  if type(v) ~= "table" then return number(v) end
  local parts = {}
  for i, entry in ipairs(v) do parts[i] = list(entry) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local shape_text = options.shape_text

local function value(t)
  if t:numel() > FEW or t:numel() == 0 then return ("%s %s"):format(t:dtype(), shape_text(t:shape())) end
  return list(t:ndim() == 0 and t:item() or t:totable())
end

-- A text or {open, items, close}: fits on one line or takes one for each item.
local function render(node, indent, width)
  if type(node) == "string" then return node end
  local flat = {}
  for i, item in ipairs(node.items) do flat[i] = (item.label or "") .. render(item.node, "", math.huge) end
  local line = node.open .. table.concat(flat, ", ") .. node.close
  if #line + #indent <= width or #flat == 0 then return line end
  local lines, inner = { node.open }, indent .. "  "
  for i, item in ipairs(node.items) do
    local label = item.label or ""
    lines[i + 1] = inner .. label .. render(item.node, inner, width - 1) .. (i < #flat and "," or "")
  end
  lines[#lines + 1] = indent .. node.close
  return table.concat(lines, "\n")
end

-- Parameters in the order of their row, or of a script's kind.
local function parameter_items(rows, v)
  local items, given = {}, v:arguments()
  for _, row in ipairs(type(v) == "table" and { v.kind } or rows) do
    for _, p in ipairs(row.name == v.name and row.parameters or {}) do
      if given[p.name] then items[#items + 1] = { label = p.name .. " = ", node = value(given[p.name]) } end
    end
  end
  return items
end

local function bijector_node(b)
  local items = parameter_items(core.bijector_rows(), b)
  for _, part in ipairs(b.parts) do items[#items + 1] = { node = bijector_node(part) } end
  local open, close = "{", "}"
  if b.name == "inverse" or #items == 0 then open, close = "(", ")" end
  return { open = b.name .. open, items = items, close = close }
end

local function kind_of(v)
  local meta = getmetatable(v)
  return type(meta) == "table" and rawget(meta, "own") and "penumbra." .. meta.__name or meta
end

local function distribution_node(d)
  local parts, moved = d.parts, d.independent_rank
  local tail = moved > 0 and (":independent(%d)"):format(moved) or ""
  if #parts == 0 then
    local items = parameter_items(core.distribution_rows(), d)
    return { open = d.name .. "{", items = items, close = "}" .. tail }
  end
  local items = {}
  local target = items
  for i, part in ipairs(parts) do
    local kind = kind_of(part)
    if d.name == "mixture" and i == 2 and #parts > 2 then -- labels, then a list
      target = {}
      items[2] = { node = { open = "{", items = target, close = "}" } }
    end
    target[#target + 1] = { node = kind == "penumbra.distribution" and distribution_node(part)
      or kind == "penumbra.bijector" and bijector_node(part) or value(part) }
  end
  return { open = d.name .. "(", items = items, close = ")" .. tail }
end

local WIDTH = 100

local describe = {}

--- value(t): a tensor's numbers as a script writes them if they are few, else dtype and shape.
describe.value = value

--- distribution(d): `gamma{concentration = {0.5, 1, 2}, rate = 1}  batch [3] event []`; without shapes for one number,
--- with the dtype where it is not float64.
function describe.distribution(d)
  local text, batch, event = render(distribution_node(d), "", WIDTH), d.batch_shape, d.event_shape
  if #batch + #event > 0 then text = ("%s  batch %s event %s"):format(text, shape_text(batch), shape_text(event)) end
  return d.dtype == "float64" and text or text .. (#batch + #event > 0 and " " or "  ") .. d.dtype
end

--- bijector(b): `chain{affine{loc = 1, scale = 2}, exp()}`.
function describe.bijector(b) return render(bijector_node(b), "", WIDTH) end

--- natural(s): `scalar Gaussian factor{precision_mean = 1, precision = 2}`.
function describe.natural(s)
  local items = { { label = "precision_mean = ", node = value(s.precision_mean) },
    { label = "precision = ", node = value(s.precision) } }
  return render({ open = s.form .. " Gaussian factor{", items = items, close = "}" }, "", WIDTH)
end

return describe
