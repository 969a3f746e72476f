--- Data: files in and out, splits, minibatches, standardising.
---
---     local x, names = assert(pn.data.csv("energy.csv.gz"))
---     local train, test = pn.data.split({inputs, targets}, 0.9)
---     for xb, yb in pn.data.batches(train, {batch_size = 32}) do ... end
---     assert(pn.save("net.safetensors", net:state()))
---     net:load_state(assert(pn.load("net.safetensors")))
---
--- A file that is missing, damaged or of another kind gives nil, message, code ("io", "format", "dtype",
--- "shape", "domain", "memory"); a wrong argument raises. A save that fails leaves the old file as it was.
-- help: pn.data, part
local core = require "penumbra.core"
local options = require "penumbra.options"
local pack = require "penumbra.distribution.pack"
local structure = require "penumbra.data.structure"

local data = {}

-- a host can keep files from its scripts
local files = core.files or setmetatable({}, {__index = function(_, name)
  core.error(name .. ": this script may not open files")
end})

-- ---- loading ----

-- {first, last}, from 1, as the first row from 0 and how many; 0: all that follow.
local function read_range(rows)
  if not rows then
    return 0, 0
  end
  local first = options.whole("csv", "rows[1]", rows[1], 1)
  if rows[2] == nil then
    return first - 1, 0
  end
  local last = options.whole("csv", "rows[2]", rows[2], first)
  return first - 1, last - first + 1
end

-- What load_csv gives; where it met a text, with what reads one.
local function hinting(x, message, code)
  if not x and code == "format" and message:find("must be a number, got", 1, true) then
    message = message .. [[ (columns of text are read by kinds = {name = "category"}, or "skip")]]
  end
  return x, message, code
end

--- A table of numbers as a tensor [rows, columns], and the list of column names (nil without a header).
--- Gzipped files are recognised; lines end in LF, CRLF or CR. Empty cells, NA, N/A, NaN, null, None and ? become NaN;
--- other text is an error that names line and column. Options:
---   delimiter  one character (found out if not given; " " means runs of blanks)
---   header     true or false. If not given, a first line of texts is one, a first line of numbers is data; one that
---              may be either is an error that names the cell
---   columns    list of names, or of positions from 1 (-1 is the last): what to read, in this order
---   rows       {first, last}, from 1 below the header, or {first}: which rows
---   missing    one more text that means a missing value
---   comment    one character: lines that begin with it are passed over
---   decimal    "," where numbers have a comma: then a point in one is an error
---   kinds      table name -> "category", "date", "skip" or "number" (the rest), of a file with a header: categories
---              become codes from 0, dates days since 1970-01-01 with the time of day as a fraction, missing ones NaN.
---              Then a third result is a table name -> list of levels, sorted: level k has the code k - 1
---   levels     table name -> list of levels, as another file gave them; a text that is none of them is an error
---   date       how dates are written, as "%d.%m.%Y"; of %Y %m %d %H %M %S (ISO's forms)
---   dtype      "float64", "float32" or "int64" (where a missing value is an error); pn.default_dtype()
function data.csv(path, given)
  local o = options.check("csv", given, {
    delimiter = options.optional "string",
    header = options.optional "boolean",
    columns = options.optional "table",
    rows = options.optional "table",
    missing = options.optional "string",
    decimal = options.optional "string",
    comment = options.optional "string",
    kinds = options.optional "table",
    levels = options.optional "table",
    date = options.optional "string",
    dtype = options.optional "string",
  })
  local first, count = read_range(o.rows)
  if not o.kinds then
    if o.levels or o.date then
      core.error(("csv: %s is only used with kinds"):format(o.levels and "levels" or "date"))
    end
    return hinting(files.load_csv(path, o.delimiter, o.header, o.dtype, o.missing, o.columns, o.decimal, first, count,
      o.comment))
  end
  return require("penumbra.data.mixed_table").read(path, o, function(columns)
    return files.load_csv(path, o.delimiter, o.header, o.dtype, o.missing, columns, o.decimal, first, count, o.comment)
  end, function(columns, one)
    return files.load_csv_text(path, o.delimiter, o.header, nil, o.missing, columns, o.decimal, one and 0 or first,
      one and 1 or count, o.comment)
  end)
end

--- An array that stays in its file (.npy, IDX or safetensors, not gzipped, of any size) and is read by rows, as
--- data.batches, data.split and train.fit ask for them. Its elements stay as narrow as they are in the file until then.
---
---     local images <close> = assert(pn.data.open("train-images-idx3-ubyte", {dtype = "float32"}))
---     for x in pn.data.batches(images, {batch_size = 100}) do ... x / 255 ... end
---
--- Options: dtype (of the rows; one that holds every value), name (of the tensor in a safetensors file with several).
--- Methods as a tensor's: a:size(axis), a:shape(), a:ndim(), a:dtype(), a:slice(1, first, last) and a:take(1, index),
--- which give tensors; a:type() ("uint8"), a:close(). Rows are read when they are asked for: a file that is changed
--- meanwhile gives what then stands there; one that has shrunk is an error at the row.
function data.open(path, given)
  local o = options.check("open", given, {dtype = options.optional "string", name = options.optional "string"})
  return files.open(path, o.name, o.dtype)
end

--- What stands in a JSON file (may be gzipped): objects as tables by name, arrays as lists (pn.tensor makes tensors of
--- lists of numbers), null as NaN, a missing number. {lines = true}: a file with one value a line gives the list of
--- these; blank lines count for nothing, and a bare NaN is an empty text.
function data.json(path, given)
  options.argument("json", "path", path, "string")
  local o = options.check("json", given, {lines = false})
  return files.json(path, o.lines)
end

--- The tensor in a NumPy .npy file (may be gzipped). Integers load as int64, half precision as float32.
function data.npy(path)
  return files.load_npy(path)
end

--- The tensor in an IDX file, MNIST's format (may be gzipped). Integers load as int64; {dtype = "float32"}
--- converts while reading, which needs half the memory.
function data.idx(path, given)
  local o = options.check("idx", given, {dtype = options.optional "string"})
  return files.load_idx(path, o.dtype)
end

--- raw(path, {shape =, element = "uint8", dtype =}): a file that is nothing but numbers of one type, row-major and
--- little-endian (may be gzipped), as a tensor of this shape: CIFAR's binary files, what NumPy's tofile wrote.
---
---     local rows = pn.data.raw("data_batch_1.bin", {shape = {10000, 3073}})     -- a label and 3 x 32 x 32 bytes each
---
--- element   "uint8", "int8", "uint16", ..., "float16", "float32", "float64", "bool"
--- dtype     of the tensor: "int64" for integers, "float32" for float16 and float32, "float64", "bool" if not given
--- A file that is longer or shorter gives nil, message, code.
function data.raw(path, given)
  options.argument("raw", "path", path, "string")
  local o = options.check("raw", given, {shape = options.required "table", element = "uint8",
    dtype = options.optional "string"})
  local widened = o.element:find "^u?int" and "int64" or ({float64 = "float64", bool = "bool"})[o.element] or "float32"
  return files.load_raw(path, o.element, o.shape, o.dtype or widened)
end

--- image(path [, {dtype =}]): a picture as a tensor [height, width, channels] with numbers from 0 to 1: PNG of every
--- kind but interlaced ones (1 channel of grey, 3 of colours or a palette, 2 and 4 with opacity), binary PGM (1) and
--- PPM (3). What PNG files say of gamma, and of transparency in a palette, is passed over.
---
---     local photo = assert(pn.data.image "heron.png")
---     local small = pn.data.resize(photo:mean { 3 }, 64, 64)
---
--- dtype   "float64" or "float32"; pn.default_dtype()
function data.image(path, given)
  local o = options.check("image", given, {dtype = options.optional "string"})
  return files.load_image(path, o.dtype)
end

-- [to, from]: how much of each of `from` pixels lies in each of `to`, in shares that add up to 1.
local function shares(to, from, dtype)
  local edge = core.arange(to, {dtype = dtype}):unsqueeze(2) * (from / to)
  local pixel = core.arange(from, {dtype = dtype}):unsqueeze(1)
  return (core.minimum(edge + from / to, pixel + 1) - core.maximum(edge, pixel)):relu() * (to / from)
end

--- resize(x, height, width): pictures [..., h, w] as [..., height, width], each new pixel the average of the area that
--- it covers, with fractions of pixels as what they are; the mean of a picture stays as it is. (Channels stand before,
--- so that data.image's need x:permute { 3, 1, 2 }.)
function data.resize(x, height, width)
  if not core.is_tensor(x) or x:ndim() < 2 or not x:dtype():find "^float" then
    core.error "resize: x must be a float tensor [..., height, width]"
  end
  height, width = options.whole("resize", "height", height, 1), options.whole("resize", "width", width, 1)
  local h, w, dtype = x:size(-2), x:size(-1), x:dtype()
  if h == 0 or w == 0 then
    core.error "resize: x has no pixels"
  end
  return shares(height, h, dtype):matmul(x):matmul(shares(width, w, dtype):t())
end

--- The arrays of a NumPy .npz file: a table name -> tensor, and the list of names in the file's order.
function data.npz(path)
  local tensors, names, code = files.load_npz(path)
  if not tensors then
    return nil, names, code
  end
  return tensors, names
end

-- "a.b.c" -> t.a.b.c; a part that is a whole number becomes an index.
local function nest(flat)
  local root = {}
  for name, tensor in pairs(flat) do
    local at, last = root, nil
    for part in (name .. "."):gmatch "(.-)%." do
      if last ~= nil then
        if at[last] == nil then
          at[last] = {}
        elseif type(at[last]) ~= "table" then
          return nil, ("load: '%s' is a tensor and a table"):format(name), "format"
        end
        at = at[last]
      end
      last = math.tointeger(part) or part
    end
    if at[last] ~= nil then
      return nil, ("load: '%s' is a tensor and a table"):format(name), "format"
    end
    at[last] = tensor
  end
  return root
end

--- What a safetensors file holds, and the file's metadata as a table of strings. A file that pn.save wrote gives the
--- table that was saved: tables within tables, numbers, strings and booleans to the bit, distributions, bijectors and
--- Gaussian factors as such. One of PyTorch's and others' gives a table name -> tensor. {nested = true} turns the
--- dotted names of such a file into tables within tables, {nested = false} gives names and tensors alone, whoever
--- wrote it. F64, F32, I64 and BOOL load as they are, narrower integers as int64, F16 and BF16 as float32.
function data.safetensors(path, given)
  local o = options.check("load", given, {nested = options.optional "boolean"})
  local tensors, names, texts = files.load_safetensors(path)
  if not tensors then
    return nil, names, texts
  end
  local text = texts[structure.KEY]
  texts[structure.KEY] = nil
  local whole, message, code = pack.unfold(tensors, texts)
  if whole and text and o.nested ~= false then
    whole, message, code = structure.build(text, whole)
  elseif whole and o.nested then
    whole, message, code = nest(whole)
  end
  if not whole then
    return nil, message, code
  end
  return whole, texts
end

-- ---- time series ----

--- series(list [, {freq =, features =, dtype =}]): a set of time series for forecasters, of items {target =, start =,
--- item_id =, series =, covariates =}; pn.help "penumbra.data.series" tells what it can do.
---   target      [T] or [T, p], a tensor or a list; NaN where nothing was observed
---   start       date of the first step, "2024-01-31" or with a time of day
---   item_id     a name (the position);  series: its identity from 0 (the position less 1)
---   covariates  [T or more, k], as far as they are known
---   freq        "H", "15min", "D", "B" (business days), "W", "M"...
---   features    further covariates: a list of minute_of_hour, hour_of_day, day_of_week, day_of_month, day_of_year,
---               month, age; true: those that tell steps of freq apart, and age
function data.series(list, given)
  local module = require "penumbra.data.series"
  return module.new("series", list, options.check("series", given, module.options))
end

--- gluonts(path [, {freq =, features =, dtype =}]): a file of GluonTS's as a set of series (pn.data.series): JSON, one
--- object a line (may be gzipped): start, target (numbers, or lists of them for several variables, a list each),
--- item_id, feat_dynamic_real (covariates), feat_static_cat (whose first is the identity). NaN, "NaN" and null are
--- missing values. Identities that are not given count the lines; `identities = n`: they start again after every n
--- lines, as in test files with several windows of the same series.
function data.gluonts(path, given)
  return require("penumbra.data.series_files").gluonts(path, given)
end

--- series_csv(path [, {by = "column"}]): a CSV file (may be gzipped) as a set of series (pn.data.series): each column a
--- series, or with by = "row" each row, empty cells behind its end left out, as the M4 competition has it. Options:
---   by        "column" or "row"
---   columns   which columns: a list of names or places (all but that of the dates, or of the names)
---   date      the column of the dates, a name (by column): its first is the start of all series
---   name      the column of the names, a name or place (by row)
---   joint     true: all columns are one series of several variables
---   header    as of pn.data.csv
---   start     of all series;  freq, features, dtype: as of pn.data.series
function data.series_csv(path, given)
  return require("penumbra.data.series_files").csv(path, given, data.csv)
end

-- ---- saving ----

--- Writes a tensor [n] or [rows, columns] as CSV, gzipped if the name ends in .gz; numbers read back exactly.
--- Options: names (the header, a list), delimiter (","). Returns true, or nil, message, code.
function data.save_csv(path, tensor, given)
  local o = options.check("save_csv", given, {
    names = options.optional "table",
    delimiter = options.optional "string",
  })
  return files.save_csv(path, tensor, o.delimiter, o.names)
end

--- Writes what numpy.load reads, gzipped if the name ends in .gz. Returns true, or nil, message, code.
function data.save_npy(path, tensor)
  return files.save_npy(path, tensor)
end

--- Writes an IDX file, gzipped if the name ends in .gz. Integers take one unsigned byte each if all fit, else
--- four. Returns true, or nil, message, code.
function data.save_idx(path, tensor)
  return files.save_idx(path, tensor)
end

-- For .npz: the leaves of a table of tensors as sorted names and the tensors in that order.
local function flatten(where, tree)
  if type(tree) ~= "table" then
    core.error(("%s: tensors must be a table, got %s"):format(where, type(tree)))
  end
  local flat, names, open = {}, {}, {}
  local function walk(prefix, t)
    if open[t] then
      core.error(("%s: table '%s' contains itself"):format(where, prefix))
    end
    open[t] = true
    for key, value in pairs(t) do
      if type(key) ~= "string" and math.type(key) ~= "integer" then
        core.error(("%s: names must be strings or whole numbers, got %s"):format(where, tostring(key)))
      end
      local name = prefix == "" and tostring(key) or prefix .. "." .. key
      if core.is_tensor(value) then
        if flat[name] then
          core.error(("%s: two tensors have the name '%s'"):format(where, name))
        end
        flat[name] = value
        names[#names + 1] = name
      elseif type(value) == "table" then
        walk(name, value)
      else
        core.error(("%s: '%s' must be a tensor or a table of tensors, got %s"):format(where, name, type(value)))
      end
    end
    open[t] = nil
  end
  walk("", tree)
  table.sort(names)
  local tensors = {}
  for k, name in ipairs(names) do
    tensors[k] = flat[name]
  end
  return names, tensors
end

--- Writes a table of tensors as .npz, which numpy.load reads; tables within it become dotted names. Options:
--- compressed (false). Returns true, or nil, message, code.
function data.save_npz(path, tensors, given)
  local o = options.check("save_npz", given, {compressed = false})
  local names, list = flatten("save_npz", tensors)
  return files.save_npz(path, names, list, o.compressed)
end

--- Writes a table as a safetensors file, from which pn.load makes it again: tensors, distributions, bijectors, Gaussian
--- factors, numbers, strings, booleans, and tables of these in any depth, under names that are strings or whole
--- numbers. Other readers see the tensors, with paths as names ({a = {b = x}} is "a.b"). A network, an optimiser or a
--- generator is saved by its :state(). metadata: a table of strings. Returns true, or nil, message, code.
function data.save_safetensors(path, tensors, metadata)
  local names, list, kinds = structure.flatten("save", tensors)
  local keys, texts = {}, {}
  if metadata ~= nil and type(metadata) ~= "table" then
    core.error("save: metadata must be a table of strings, got " .. type(metadata))
  end
  for key, text in pairs(metadata or {}) do
    if type(key) ~= "string" or type(text) ~= "string" then
      core.error(("save: metadata must be a table of strings, got %s under '%s'"):format(type(text), tostring(key)))
    elseif key:find "^penumbra%." then
      core.error(("save: names in metadata that begin with 'penumbra.' are taken, got '%s'"):format(key))
    end
    kinds[key] = text
  end
  for key in pairs(kinds) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for k, key in ipairs(keys) do
    texts[k] = kinds[key]
  end
  return files.save_safetensors(path, names, list, keys, texts)
end

data.save = data.save_safetensors
data.load = data.safetensors

-- ---- rows: every function takes one tensor or a list of tensors with the same first size ----

-- A tensor, or an array in a file.
local function has_rows(v)
  return core.is_tensor(v) or type(v) == "userdata" and getmetatable(v) == "penumbra.array_file"
end

-- A list of tensors or arrays in files, its number of rows, and whether one was given.
local function read_rows(where, given)
  local single = has_rows(given)
  local list = single and {given} or given
  if type(list) ~= "table" or #list == 0 then
    core.error(("%s: data must be a tensor or a list of tensors, got %s"):format(where,
      type(given) == "table" and "an empty list" or type(given)))
  end
  local n
  for k, x in ipairs(list) do
    if not has_rows(x) then
      core.error(("%s: data[%d] must be a tensor, got %s"):format(where, k, type(x)))
    end
    if x:ndim() == 0 then
      core.error(("%s: data[%d] must have rows, got a tensor without axes"):format(where, k))
    end
    n = n or x:size(1)
    if x:size(1) ~= n then
      core.error(("%s: all tensors must have the same number of rows, got %d and %d"):format(where, n, x:size(1)))
    end
  end
  return list, n, single
end

-- The rows at `index` of every tensor; one tensor again if one was given.
local function take_rows(list, single, index)
  local out = {}
  for k, x in ipairs(list) do
    out[k] = x:take(1, index)
  end
  return single and out[1] or out
end

local function integers(list)
  return core.tensor(list, {dtype = "int64"})
end

local function order_of(n, shuffle, generator)
  if shuffle then
    return core.randperm(n, {generator = generator})
  end
  return core.arange(n, {dtype = "int64"})
end

--- Splits rows: split(x, {0.8, 0.1, 0.1}) gives three tensors; one number f means {f, 1 - f}. x may be a list
--- of tensors with the same first size, then each part is such a list. Sizes are rounded so that they add up.
--- Options: shuffle (true), generator.
function data.split(x, fractions, given)
  local o = options.check("split", given, {shuffle = true, generator = options.optional()})
  local list, n, single = read_rows("split", x)
  if type(fractions) == "number" then
    fractions = {fractions, 1 - fractions}
  end
  if type(fractions) ~= "table" or #fractions == 0 then
    core.error("split: fractions must be a number or a list of numbers, got " .. type(fractions))
  end
  local total = 0
  for _, f in ipairs(fractions) do
    if type(f) ~= "number" or not (f >= 0 and f <= 1) then
      core.error("split: fractions must lie in 0 to 1, got " .. tostring(f))
    end
    total = total + f
  end
  if total > 1 + 1e-9 then
    core.error(("split: fractions must add up to at most 1, got %g"):format(total))
  end
  local order, parts, sum, first = order_of(n, o.shuffle, o.generator), {}, 0, 0
  for k, f in ipairs(fractions) do
    sum = sum + f
    local stop = math.min(n, math.floor(sum * n + 0.5))
    parts[k] = take_rows(list, single, stop > first and order:slice(1, first + 1, stop) or integers {})
    first = stop
  end
  return table.unpack(parts)
end

--- Splits off given rows: returns the rows not named in `index`, in order, and those at `index`. index: a list
--- or an int64 tensor of row numbers from 0, as files of standard splits hold them.
function data.holdout(x, index)
  local list, n, single = read_rows("holdout", x)
  local held, rest = {}, {}
  if type(index) == "table" then
    index = core.tensor(index, {dtype = "float64"}) -- as a fraction would be seen in
  elseif not core.is_tensor(index) then
    core.error("holdout: index must be a list or a tensor of row numbers, got " .. type(index))
  end
  for _, i in ipairs(index:reshape(-1):totable()) do
    if math.tointeger(i) == nil or i < 0 or i >= n then
      core.error(("holdout: row numbers must lie in 0 to %d, got %s"):format(n - 1,
        tostring(math.tointeger(i) or i)))
    end
    held[math.tointeger(i)] = true
  end
  for i = 0, n - 1 do
    if not held[i] then
      rest[#rest + 1] = i
    end
  end
  return take_rows(list, single, integers(rest)), take_rows(list, single, index:reshape(-1):to("int64"))
end

--- Iterates over minibatches: for xb, yb in pn.data.batches({x, y}, {batch_size = 32}) do ... end. x may be one
--- tensor, and arrays in files (data.open), larger than memory perhaps. Each call is one epoch; shuffled anew each
--- time. Options: batch_size (required), shuffle (true), drop_last (false: the last batch may be smaller), generator.
function data.batches(x, given)
  local o = options.check("batches", given, {
    batch_size = options.required "number",
    shuffle = true,
    drop_last = false,
    generator = options.optional(),
  })
  local size = o.batch_size
  local list, n = read_rows("batches", x)
  local order, first = o.shuffle and core.randperm(n, {generator = o.generator}), 0
  local last = o.drop_last and n - n % size or n
  return function()
    if first >= last then
      return nil
    end
    local count, out = math.min(size, last - first), {}
    local index = order and order:slice(1, first + 1, first + count)
    for k, t in ipairs(list) do
      out[k] = index and t:take(1, index) or t:slice(1, first + 1, first + count)
    end
    first = first + count
    return table.unpack(out)
  end
end

-- ---- standardising ----

local scaler = {}
scaler.__index = scaler
scaler.__name = "penumbra.scaler"

function scaler:__tostring()
  return ("scaler of %d columns"):format(self.mean:numel())
end

local function check_scaled(where, role, value)
  if type(value) ~= "number" then
    options.argument(where, role, value, "tensor")
  end
end

--- x in standard units: (x - mean) / scale.
function scaler:apply(x)
  check_scaled("apply", "x", x)
  return (x - self.mean) / self.scale
end

scaler.__call = scaler.apply

--- The way back: z * scale + mean.
function scaler:invert(z)
  check_scaled("invert", "z", z)
  return z * self.scale + self.mean
end

core.public(scaler)

--- standardise(x): the scaler of x's columns: s(x) or s:apply(x) gives (x - mean) / scale over the first axis, of x or
--- of other data, s:invert(z) goes back; s.mean and s.scale are its numbers. scale is the standard deviation (divisor
--- n), and 1 for a constant column. Take it from the training rows only.
function data.standardise(x)
  if not core.is_tensor(x) or x:ndim() == 0 or x:size(1) == 0 then
    core.error("standardise: x must be a tensor with rows")
  end
  local mean = x:mean(1)
  local scale = x:std(1, 0)
  -- a column of one value may leave rounding noise of its mean behind
  local constant = x:max(1):eq(x:min(1))
  local s = setmetatable({mean = mean, scale = core.where(constant, core.ones(scale:shape(), {dtype = x:dtype()}),
    scale)}, scaler)
  return s
end

data.ball_video = require "penumbra.data.ball_video".ball_video
for _, home in ipairs { "toy", "augment", "lagged", "zarr" } do
  for name, make in pairs(require("penumbra.data." .. home)) do
    data[name] = make
  end
end

return data
