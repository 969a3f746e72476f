--- Zarr stores, version 2: folders with a file for each chunk of an array and JSON about them, as xarray and ArviZ read
--- and write them. Groups hold named arrays whose axes have names, and coordinates, arrays of one axis by its name.
---
---     pn.data.save_zarr("draws.zarr", { posterior = { mu = x } }, { dims = { mu = { "chain", "draw" } } })
---     local groups, about = pn.data.zarr "draws.zarr"
---     groups.posterior.mu, about.dims.posterior.mu, about.coords.posterior.chain
---
--- Written: one chunk for each array, uncompressed, row-major, little-endian, with consolidated metadata. Read: chunks
--- of any size in either axis order, fill values for those that are not there, numbers of all widths in either byte
--- order; not compressed or filtered ones. Source: Zarr storage specification, version 2; xarray's encoding of it.
-- help: pn.data
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local zarr_text = require "penumbra.data.zarr_text"

local zarr = {}

local files = core.files or setmetatable({}, { __index = function(_, name)
  core.error(name .. ": this script may not open files")
end })

local MOST_CHUNKS = 1 << 20  -- of an array
local MOST_FILLED = 1 << 24  -- elements of a store that no file holds
local MOST_LETTERS = 1 << 20 -- of a coordinate of texts

-- Is it the name of a file in a folder, and no file of Zarr's own?
local function is_name(text)
  return type(text) == "string" and #text > 0 and #text < 200 and text:sub(1, 1) ~= "." and not text:find "[/\\%c]"
end

-- ---- writing ----

local TYPES = { float64 = "<f8", float32 = "<f4", int64 = "<i8", bool = "|b1" }

-- A store on its way to a file: names and tensors of chunks; the metadata of all, by the names of their files.
local function new_store() return { names = {}, tensors = {}, texts = {} } end

local function put_array(store, path, t, dims, type_text, shape)
  local size, chunks, key = shape or t:shape(), {}, {}
  for k, n in ipairs(size) do
    chunks[k], key[k] = math.max(1, n), 0
  end
  store.texts[path .. "/.zarray"] = { zarr_format = 2, shape = zarr_text.list(size), chunks = zarr_text.list(chunks),
    dtype = type_text or TYPES[t:dtype()], order = "C", compressor = zarr_text.NULL, filters = zarr_text.NULL,
    fill_value = zarr_text.NULL }
  store.texts[path .. "/.zattrs"] = { _ARRAY_DIMENSIONS = zarr_text.list(dims) }
  if t:numel() > 0 then
    store.names[#store.names + 1] = path .. "/" .. (#key > 0 and table.concat(key, ".") or "0")
    store.tensors[#store.tensors + 1] = t
  end
end

-- A list of texts as NumPy's fixed width ones, UTF-32: two letters in each int64.
local function put_texts(store, path, dim, texts)
  local width, codes = 2, {}
  for k, text in ipairs(texts) do
    local n = type(text) == "string" and utf8.len(text)
    if not n then
      core.error(("save_zarr: coords.%s[%d] must be a text in UTF-8, got %s"):format(dim, k, type(text)))
    end
    width = math.max(width, n + n % 2)
  end
  for k, text in ipairs(texts) do
    local row = { utf8.codepoint(text, 1, -1) }
    for i = 1, width // 2 do
      codes[(k - 1) * (width // 2) + i] = (row[2 * i - 1] or 0) | (row[2 * i] or 0) << 32
    end
  end
  put_array(store, path, core.tensor(codes, { dtype = "int64" }), { dim }, "<U" .. width, { #texts })
end

-- The names of the axes of a variable.
local function dims_of(group, name, t, given)
  local where = ("save_zarr: dims.%s"):format(name)
  local dims = given[group .. "/" .. name] or given[name]
  if dims == nil then
    dims = {}
    for k = 1, t:ndim() do dims[k] = ("%s_dim_%d"):format(name, k - 1) end
  elseif type(dims) ~= "table" or #dims ~= t:ndim() then
    core.error(("%s must be a list of %d names, one for each axis"):format(where, t:ndim()))
  end
  for k, dim in ipairs(dims) do
    if not is_name(dim) then
      core.error(("%s[%d] must be a name without '/', got %s"):format(where, k, tostring(dim)))
    end
  end
  return dims
end

local function put_coordinate(store, group, dim, size, given)
  local path = group .. "/" .. dim
  if given == nil then
    put_array(store, path, core.arange(size, { dtype = "int64" }), { dim })
    return
  end
  local texts = type(given) == "table" and given or nil
  local n = texts and #texts or core.is_tensor(given) and given:ndim() == 1 and given:size(1) or -1
  if n ~= size then
    core.error(("save_zarr: coords.%s must be a vector or a list of texts of %d, as that axis has in group '%s'")
      :format(dim, size, group))
  elseif texts then
    put_texts(store, path, dim, texts)
  else
    put_array(store, path, given:detach(), { dim })
  end
end

local function put_group(store, group, variables, o)
  local sizes = {}
  if not is_name(group) then
    core.error(("save_zarr: group '%s' must be a name without '/'"):format(tostring(group)))
  end
  options.argument("save_zarr", "group " .. group, variables, "table")
  for name, t in pairs(variables) do
    if not is_name(name) or not core.is_tensor(t) then
      core.error(("save_zarr: '%s' of group '%s' must be a tensor with a name without '/', got %s"):format(
        tostring(name), group, core.is_tensor(t) and "a tensor" or type(t)))
    end
  end
  for _, name in ipairs(options.sorted_keys(variables)) do
    local t = variables[name]:detach()
    local dims = dims_of(group, name, t, o.dims)
    for k, dim in ipairs(dims) do
      if sizes[dim] and sizes[dim] ~= t:size(k) then
        core.error(("save_zarr: axis '%s' of group '%s' has %d and %d places"):format(dim, group, sizes[dim],
          t:size(k)))
      elseif variables[dim] then
        core.error(("save_zarr: '%s' of group '%s' is a variable and the name of an axis"):format(dim, group))
      end
      sizes[dim] = t:size(k)
    end
    put_array(store, group .. "/" .. name, t, dims)
  end
  for _, dim in ipairs(options.sorted_keys(sizes)) do
    put_coordinate(store, group, dim, sizes[dim], o.coords[dim])
  end
  store.texts[group .. "/.zgroup"] = { zarr_format = 2 }
  store.texts[group .. "/.zattrs"] = o.attributes[group] or {}
end

local save_options = { dims = options.optional "table", coords = options.optional "table",
  attributes = options.optional "table" }

--- save_zarr(path, {group = {name = tensor}} [, options]): writes a Zarr store (version 2), a folder that xarray opens
--- with xarray.open_zarr(path, group = "group") and zarr with zarr.open(path): for each group the tensors by name, bits
--- as they are. A store that was there is replaced when the new one is on disk; a folder that is none is left alone.
---
--- dims         table name (or "group/name") -> list of names of its axes; x_dim_0, x_dim_1, ... unless given
--- coords       table name of an axis -> vector, or list of texts, of its places; 0, 1, 2, ... unless given
--- attributes   table group -> table of numbers, strings, booleans and lists of them
---
--- Returns true, or nil, message, code.
function zarr.save_zarr(path, groups, given)
  options.argument("save_zarr", "path", path, "string")
  options.argument("save_zarr", "groups", groups, "table")
  local o = options.check("save_zarr", given, save_options)
  o.dims, o.coords, o.attributes = o.dims or {}, o.coords or {}, o.attributes or {}
  local store, keys, texts = new_store(), {}, {}
  store.texts[".zgroup"] = { zarr_format = 2 }
  for name in pairs(groups) do
    options.argument("save_zarr", "a group's name", name, "string")
  end
  for _, group in ipairs(options.sorted_keys(groups)) do
    put_group(store, group, groups[group], o)
  end
  local all = {}
  for name, about in pairs(store.texts) do all[name] = about end
  store.texts[".zmetadata"] = { metadata = all, zarr_consolidated_format = 1 }
  for k, name in ipairs(options.sorted_keys(store.texts)) do
    keys[k], texts[k] = name, zarr_text.json("save_zarr", store.texts[name])
  end
  return files.save_store(path, store.names, store.tensors, keys, texts)
end

-- ---- reading ----

-- Raises within form.guarded: what a file has wrong.
local function refuse(text, ...) error((text):format(...), 0) end

local function is_null(v) return v == nil or v ~= v end

local function is_shape(list, least)
  local good = type(list) == "table" and #list <= 8
  for k = 1, good and #list or 0 do
    local n = list[k]
    good = good and math.type(n) == "integer" and n >= least and n <= 1 << 44
  end
  return good
end

local function product(sizes, most)
  local n = 1
  for _, size in ipairs(sizes) do
    if size > 0 and n > most // size then
      return nil
    end
    n = n * size
  end
  return n
end

-- The number that stands for elements that no file holds, nil where there is none.
local function fill_of(v)
  local named = { NaN = 0 / 0, Infinity = math.huge, ["-Infinity"] = -math.huge }
  if type(v) == "string" then
    return named[v]
  elseif type(v) == "boolean" then
    return v and 1 or 0
  end
  return type(v) == "number" and v == v and v or nil
end

local UNCOMPRESSED = [[compressed (%s), which is not read here. In Python, before writing: for each group g and each
variable v in it, data[g][v].encoding["compressor"] = None (zarr: compressor=None)]]

-- What .zarray says of the array, looked at.
local function array_of(name, a)
  if type(a) ~= "table" or a.zarr_format ~= 2 then
    refuse("'%s' is no array of version 2", name)
  elseif not is_null(a.compressor) then
    local about = type(a.compressor) == "table" and tostring(a.compressor.id) or "by something"
    refuse("'%s' is " .. UNCOMPRESSED:gsub("\n", " "), name, about:gsub("[^%g]", "?"))
  elseif not is_null(a.filters) and not (type(a.filters) == "table" and #a.filters == 0) then
    refuse("'%s' is filtered, which is not read here", name)
  elseif a.dimension_separator ~= nil and a.dimension_separator ~= "." then
    refuse("'%s' has chunks in folders (dimension_separator); '.' is read here", name)
  elseif not is_shape(a.shape, 0) or not is_shape(a.chunks, 1) or #a.shape ~= #a.chunks then
    refuse("'%s' must have a shape and chunks of as many whole sizes, at most 8", name)
  elseif a.order ~= "C" and a.order ~= "F" then
    refuse("'%s' must have order C or F", name)
  elseif type(a.dtype) ~= "string" then
    refuse("'%s' must have a dtype of numbers or truth values", name)
  end
  local counts = {}
  for k, n in ipairs(a.shape) do counts[k] = (n + a.chunks[k] - 1) // a.chunks[k] end
  if not product(a.shape, 1 << 44) or not product(a.chunks, 1 << 44) or not product(counts, MOST_CHUNKS) then
    refuse("'%s' has shape [%s] in chunks of [%s], which is too many", name, table.concat(a.shape, ", "),
      table.concat(a.chunks, ", "))
  end
  return { name = name, shape = a.shape, chunks = a.chunks, counts = counts, type = a.dtype,
    fill = fill_of(a.fill_value), reversed = a.order == "F" }
end

local WIDENED = { f = "float64", i = "int64", u = "int64", b = "bool" }

-- The dtype that a tensor of this type text has.
local function dtype_of(a)
  local kind, size = a.type:match "^[<>|=](%a)(%d+)$"
  if not WIDENED[kind] then
    refuse("'%s' has dtype %s; numbers and truth values are read here", a.name, a.type:gsub("[^%g ]", "?"))
  end
  return kind == "f" and tonumber(size) < 8 and "float32" or WIDENED[kind]
end

-- What the chunk at these places holds of the array: sizes.
local function extent_of(a, place)
  local extent = {}
  for k, n in ipairs(a.shape) do extent[k] = math.min(a.chunks[k], n - place[k] * a.chunks[k]) end
  return extent
end

-- A chunk that no file holds.
local function filled(store, a, place, key)
  local extent = extent_of(a, place)
  if a.fill == nil then
    refuse("chunk %s of '%s' is missing, and no fill value stands for it", key, a.name)
  end
  store.filled = store.filled + product(extent, 1 << 44)
  if store.filled > MOST_FILLED then
    refuse("more than %d elements are missing at '%s'", MOST_FILLED, a.name)
  end
  local dtype = dtype_of(a)
  local fill = dtype == "int64" and math.tointeger(a.fill) or dtype ~= "int64" and a.fill
  if not fill then
    refuse("the fill value of '%s' must be a whole number", a.name)
  end
  return core.full(extent, dtype == "bool" and (fill ~= 0 and 1 or 0) or fill, { dtype = dtype == "bool" and "float64"
    or dtype }):to(dtype)
end

local function backwards(list)
  local turned = {}
  for k, v in ipairs(list) do turned[#list + 1 - k] = v end
  return turned
end

local function axes_backwards(n)
  local axes = {}
  for k = 1, n do axes[k] = n + 1 - k end
  return axes
end

local function chunk_at(store, a, place)
  local key = #place > 0 and table.concat(place, ".") or "0"
  local t, message, code = files.load_chunk(("%s/%s/%s"):format(store.path, a.name, key), a.type,
    a.reversed and backwards(a.chunks) or a.chunks)
  if not t and code == "missing" then
    return filled(store, a, place, key)
  elseif not t then
    refuse("%s", message)
  end
  t = a.reversed and #place > 1 and t:permute(axes_backwards(#place)) or t
  for k, n in ipairs(extent_of(a, place)) do
    t = n < a.chunks[k] and t:slice(k, 1, n) or t
  end
  return t
end

-- The chunks from this axis on, joined.
local function gathered(store, a, place, axis)
  if axis > #a.shape then
    return chunk_at(store, a, place)
  end
  local parts = {}
  for i = 0, a.counts[axis] - 1 do
    place[axis] = i
    parts[i + 1] = gathered(store, a, place, axis + 1)
    for k = axis + 1, #place do place[k] = nil end
  end
  return #parts == 1 and parts[1] or core.concatenate(parts, axis)
end

local function read_array(store, a)
  local dtype = dtype_of(a)
  if product(a.shape, 1 << 44) == 0 then
    return core.zeros(a.shape, { dtype = dtype })
  end
  return gathered(store, a, {}, 1):contiguous()
end

-- A vector of texts of fixed width as a list.
local function read_texts(store, a)
  local order, width = a.type:match "^([<>])U(%d+)$"
  width = tonumber(width)
  if width == 0 or width > MOST_LETTERS or a.shape[1] > MOST_LETTERS // width or a.reversed then
    refuse("'%s' has too many letters", a.name)
  end
  local codes = { name = a.name, shape = { a.shape[1], width }, chunks = { a.chunks[1], width }, counts = a.counts,
    type = order .. "u4", reversed = false }
  local texts = {}
  local function chunk(i)
    local n = math.min(a.chunks[1], a.shape[1] - i * a.chunks[1])
    local t, message = files.load_chunk(("%s/%s/%d"):format(store.path, a.name, i), codes.type, codes.chunks)
    if not t then
      refuse("%s", message)
    end
    for k, row in ipairs(t:slice(1, 1, n):totable()) do
      local letters = {}
      for j, code in ipairs(row) do
        if code > 0x10FFFF then
          refuse("'%s' has a letter that is none", a.name)
        end
        letters[j] = code > 0 and utf8.char(code) or ""
      end
      texts[i * a.chunks[1] + k] = table.concat(letters)
    end
  end
  for i = 0, a.counts[1] - 1 do chunk(i) end
  return texts
end

-- "a/b/c" as the name of a group and that of an array in it.
local function split_name(name)
  for part in (name .. "/"):gmatch "([^/]*)/" do
    if not is_name(part) then
      refuse("'%s' is no name of an array", name:gsub("[^%g ]", "?"))
    end
  end
  local group, variable = name:match "^(.*)/([^/]*)$"
  return group or "", variable or name
end

local function axis_names(name, a, attributes)
  local dims = attributes._ARRAY_DIMENSIONS
  local good = type(dims) == "table" and #dims == #a.shape
  for k = 1, good and #dims or 0 do good = good and type(dims[k]) == "string" end
  if good then
    return dims
  end
  dims = {}
  for k = 1, #a.shape do dims[k] = ("%s_dim_%d"):format(name, k - 1) end
  return dims
end

-- The value of an array as its attributes ask for it.
local function decoded(a, t, attributes)
  for _, name in ipairs { "scale_factor", "add_offset", "units" } do
    local packed = attributes[name]
    if packed ~= nil and (name ~= "units" or type(packed) == "string" and packed:find " since ") then
      refuse("'%s' is packed by its attribute '%s', which is not read here", a.name, name)
    end
  end
  return attributes.dtype == "bool" and t:dtype() ~= "bool" and t:ne(0) or t
end

local function read_one(store, found, key, text)
  local group, name = split_name(key)
  local attributes = store.metadata[key .. "/.zattrs"]
  attributes = type(attributes) == "table" and attributes or {}
  local a = array_of(key, text)
  local dims = axis_names(name, a, attributes)
  local is_coordinate = #dims == 1 and dims[1] == name
  if is_coordinate and a.type:find "^[<>]U%d+$" then
    found.coords[group] = found.coords[group] or {}
    found.coords[group][name] = read_texts(store, a)
  elseif not is_coordinate or a.type:find "^[<>|=][fiub]%d+$" then -- coordinates of other kinds are passed over
    local t = decoded(a, read_array(store, a), attributes)
    local home = is_coordinate and found.coords or found.groups
    home[group] = home[group] or {}
    home[group][name] = t
    if not is_coordinate then
      found.dims[group] = found.dims[group] or {}
      found.dims[group][name] = dims
    end
  end
end

local function read_all(path, about)
  if type(about) ~= "table" or about.zarr_consolidated_format ~= 1 or type(about.metadata) ~= "table" then
    refuse "its .zmetadata is not that of a store of version 2"
  end
  local store = { path = path, metadata = about.metadata, filled = 0 }
  local found = { groups = {}, dims = {}, coords = {}, attributes = {} }
  for key in pairs(about.metadata) do
    if type(key) ~= "string" then
      refuse "its .zmetadata must have names"
    end
  end
  for _, key in ipairs(options.sorted_keys(about.metadata)) do
    local array, group = key:match "^(.*)/%.zarray$", key:match "^(.*)/%.zgroup$"
    if array then
      read_one(store, found, array, about.metadata[key])
    elseif group then
      split_name(group)
      local attributes = about.metadata[group .. "/.zattrs"]
      found.groups[group] = found.groups[group] or {}
      found.attributes[group] = type(attributes) == "table" and attributes or {}
    end
  end
  return found.groups, { dims = found.dims, coords = found.coords, attributes = found.attributes }
end

-- What a folder without consolidated metadata is, perhaps.
local function hint(path, message)
  if files.json(path .. "/zarr.json") then
    return ("zarr: '%s' is a store of version 3; write version 2 (zarr_format=2, consolidated)"):format(path), "format"
  elseif files.json(path .. "/.zgroup") then
    return ("zarr: '%s' has no consolidated metadata: zarr.consolidate_metadata(path) in Python writes it"):format(
      path), "format"
  end
  return message, "io"
end

--- zarr(path): what stands in a Zarr store (version 2, consolidated metadata): a table group -> table name -> tensor,
--- and a table {dims = group -> name -> list of the axes' names, coords = group -> axis -> vector or list of texts,
--- attributes = group -> table}. Arrays of one axis by its name are coordinates; those that are neither numbers nor
--- texts of fixed width are passed over. Chunks may have any size and either axis order, chunks that are not there are
--- the fill value; compressed and filtered ones are not read. Integers load as int64. nil, message, code for what is no
--- such store or damaged.
function zarr.zarr(path)
  options.argument("zarr", "path", path, "string")
  path = #path > 1 and path:gsub("/+$", "") or path
  local about, message, code = files.json(path .. "/.zmetadata")
  if about == nil then
    if code == "io" then
      return nil, hint(path, message)
    end
    return nil, message, code
  end
  return form.guarded(("zarr: '%s'"):format(path), read_all, path, about)
end

return zarr
