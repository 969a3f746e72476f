--- Data of several sources: tables from names to tensors [B, size], with masks that say what is there.
---
--- A prepared batch has size (B), x (name -> tensor without NaN) and there (name -> bool [B], nil where all are there).
-- help: nowhere
local core = require "penumbra.core"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local options = require "penumbra.options"

local source_data = {}

local shape_text = options.shape_text

-- Sizes and dtypes of what a model knows by name.
local function known_of(self)
  local known = {}
  for name, d in pairs(self.decoders) do
    known[name] = { size = d.size, dtype = d.categories and "int64" or d.row.row.targets == "label" and "int64"
      or self.dtype }
  end
  for name, e in pairs(self.encoders) do
    known[name] = { size = e.size, dtype = e.categories and "int64" or self.dtype }
  end
  return known
end

local function unknown(where, role, name, known)
  local names = options.sorted_keys(known)
  local near = options.suggestion(name, names)
  core.error(("%s: %s names %s, which is no source or target%s"):format(where, role, named_beliefs.quoted(name),
    near ~= "" and near or "; there are " .. table.concat(names, ", ")))
end

-- One tensor of the data.
local function checked(where, name, x, want, n)
  options.argument(where, ("x.%s"):format(name), x, "tensor")
  if x:ndim() ~= 2 or x:size(2) ~= want.size or x:size(1) ~= (n or x:size(1)) or x:size(1) == 0 then
    core.error(("%s: x.%s must have shape [%s, %d], got %s"):format(where, name, n or "B", want.size, shape_text(x)))
  elseif x:dtype() ~= want.dtype then
    core.error(("%s: x.%s must be %s, got %s"):format(where, name, want.dtype, x:dtype()))
  end
  return x:size(1)
end

-- A bool [n] out of true, false or a tensor.
local function mask_of(where, name, mask, n)
  if type(mask) == "boolean" then
    return core.full({ n }, mask and 1 or 0):gt(0)
  end
  if not core.is_tensor(mask) or mask:dtype() ~= "bool" or mask:ndim() ~= 1 or mask:size(1) ~= n then
    core.error(("%s: observed of source '%s' must be true, false or bool of shape [%d], got %s"):format(where, name, n,
      core.is_tensor(mask) and mask:dtype() .. " " .. shape_text(mask) or type(mask)))
  end
  return mask
end

-- The masks of `observed` into b.there.
local function masks(where, self, observed, known, b)
  if core.is_tensor(observed) then
    local m = #self.source_names
    if observed:dtype() ~= "bool" or observed:ndim() ~= 2 or observed:size(1) ~= b.size or observed:size(2) ~= m then
      core.error(("%s: observed must be bool of shape [%d, %d], one for each source, got %s %s"):format(where, b.size,
        m, observed:dtype(), shape_text(observed)))
    end
    for k, name in ipairs(self.source_names) do b.there[name] = observed:select(2, k) end
    return
  end
  for name, mask in pairs(options.argument(where, "observed", observed, "table")) do
    if not known[name] then
      unknown(where, "observed", name, known)
    end
    b.there[name] = mask_of(where, name, mask, b.size)
  end
end

-- Rows that are NaN throughout are not there; such as are in part are an error.
local function missing(where, name, b)
  local x = b.x[name]
  if x:dtype() == "int64" then
    return
  end
  local nan = x:isnan()
  if not nan:any():item() then
    return
  end
  local any, all = nan:any(2), nan:all(2)
  local part = any:ne(all)
  if part:any():item() then
    local n = part:to "int64":argmax(1):item() + 1
    core.error(("%s: x.%s is NaN in part for datum %d: a source is there as a whole or not at all"):format(where, name,
      n))
  end
  b.x[name] = core.where(nan, core.zeros({}, { dtype = x:dtype() }), x)
  b.there[name] = b.there[name] and b.there[name]:logical_and(all:logical_not()) or all:logical_not()
end

--- read(where, self, x, observed, quick): a prepared batch; without a look at values where `quick`.
function source_data.read(where, self, x, observed, quick)
  options.argument(where, "x", x, "table")
  local known = known_of(self)
  local b = { x = {}, there = {} }
  for _, name in ipairs(options.sorted_keys(x)) do
    if not known[name] then
      unknown(where, "x", name, known)
    end
    b.size = checked(where, name, x[name], known[name], b.size)
    b.x[name] = x[name]
  end
  if not b.size then
    core.error(where .. ": x must hold at least one source or target")
  end
  if observed ~= nil then
    masks(where, self, observed, known, b)
  end
  for name in pairs(quick and {} or b.x) do missing(where, name, b) end
  return b
end

--- names(where, self, given, role): a list of names out of those of the sources or targets, sorted; all of them where
--- none is given.
function source_data.names(where, self, given, role)
  local all = role == "sources" and self.source_names or self.target_names
  if given == nil then
    return all
  end
  options.argument(where, role, given, "table")
  local known, out = role == "sources" and self.encoders or self.decoders, {}
  for _, name in ipairs(given) do
    if not known[name] then
      core.error(("%s: %s names %s, which is none%s"):format(where, role, named_beliefs.quoted(name),
        options.suggestion(name, all)))
    end
    out[#out + 1] = name
  end
  table.sort(out)
  return out
end

--- flat(b): the tensors of a batch as a list, and a function that makes the batch of such a list: for steps that are
--- compiled.
function source_data.flat(b)
  local list, places = {}, {}
  for _, part in ipairs { "x", "there" } do
    for _, name in ipairs(options.sorted_keys(b[part])) do
      list[#list + 1] = b[part][name]
      places[#places + 1] = { part, name }
    end
  end
  return list, function(...)
    local made, given = { x = {}, there = {} }, { ... }
    for k, place in ipairs(places) do made[place[1]][place[2]] = given[k] end
    made.size = given[1]:size(1)
    return made
  end
end

--- rows(b, first, last): some rows of a batch.
function source_data.rows(b, first, last)
  local part = { x = {}, there = {}, size = last - first + 1 }
  for name, t in pairs(b.x) do part.x[name] = t:slice(1, first, last) end
  for name, t in pairs(b.there) do part.there[name] = t:slice(1, first, last) end
  return part
end

return source_data
