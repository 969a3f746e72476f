--- Zarr stores: those that ArviZ and zarr-python have written (spec/golden/files/zarr_store.py), what is written by
--- hand against the specification, and stores that are damaged or ask for too much.
local pn = require "penumbra"
local helper = require "spec.helper"
local data = pn.data
local refuses = helper.refuses

local golden = assert(data.json "spec/golden/files/zarr_store.json")

local root = os.tmpname()
os.remove(root)
os.execute(("mkdir -p '%s'"):format(root))
local function fresh(name)
  local path = ("%s/%s"):format(root, name)
  os.execute(("rm -rf '%s'"):format(path))
  return path
end

local function write_all(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function read_all(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  return text
end

-- The files of a golden store in a folder, with others in place of some (false: none).
local function unpack_store(name, others)
  local path = fresh(name)
  local files = {}
  for key, hex in pairs(golden[name].files) do
    files[key] = hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
  end
  for key, text in pairs(others or {}) do files[key] = text end
  local folders = {}
  for key, text in pairs(files) do
    local folder = key:match "^(.*)/" or ""
    if not folders[folder] then
      folders[folder] = os.execute(("mkdir -p '%s/%s'"):format(path, folder))
    end
    if text then write_all(("%s/%s"):format(path, key), text) end
  end
  return path, files
end

-- Values and shape of a tensor against nested lists.
local function same(name, t, expected)
  local want = type(expected) == "table" and pn.tensor(expected, { dtype = t:dtype() ~= "float32" and t:dtype()
    or "float32" }) or pn.full({}, expected)
  if t:numel() == 0 then
    return
  end
  assert.same(want:shape(), t:shape(), name)
  assert.is_true(t:eq(want):all():item(), name)
end

describe("reading a Zarr store", function()
  it("of ArviZ: chunks, narrow numbers, truth values, names of axes, texts", function()
    local groups, about = assert(data.zarr(unpack_store "arviz"))
    local found = {}
    for group, variables in pairs(golden.arviz.expected) do
      for name, values in pairs(variables) do
        same(group .. "/" .. name, groups[group][name], values)
        found[#found + 1] = name
      end
    end
    assert.equal(9, #found)
    assert.equal("float32", groups.posterior.theta:dtype())
    assert.equal("int64", groups.posterior.k:dtype())
    assert.equal("bool", groups.sample_stats.diverging:dtype())
    assert.same({ "chain", "draw", "school" }, about.dims.posterior.theta)
    assert.same({ "Aachen", "Łódź", "x" }, about.coords.posterior.school)
    assert.same({ 0, 1, 2, 3 }, about.coords.posterior.draw:totable())
    assert.equal("zarr_store.py", about.attributes.posterior.made_by)
  end)

  it("of zarr-python: axis orders, byte orders, widths, chunks that are not there", function()
    local groups = assert(data.zarr(unpack_store "zarr"))
    local n = 0
    for name, values in pairs(golden.zarr.expected) do
      same(name, groups.g[name], values)
      n = n + 1
    end
    assert.equal(11, n)
    assert.same({ 0, 3 }, groups.g.nothing:shape())
    assert.is_true(groups.g.never:isnan():all():item())
    assert.equal("float32", groups.g.small:dtype())
  end)

  it("takes a chunk that begins as gzipped files do for what it is", function()
    local x = pn.tensor { string.unpack("<d", "\x1f\x8b\8\0\0\0\0\x3f"), 2 }
    local path = fresh "magic"
    assert(data.save_zarr(path, { g = { x = x } }))
    assert.equal("\x1f\x8b\8", read_all(path .. "/g/x/0"):sub(1, 3))
    assert.is_true(data.zarr(path).g.x:eq(x):all():item())
  end)

  it("says how to write without a compressor", function()
    local groups, message, code = data.zarr(unpack_store "compressed")
    assert.is_nil(groups)
    assert.equal("format", code)
    assert.matches("compressed %(blosc%).*encoding%[\"compressor\"%] = None", message)
  end)

  it("says what a folder without consolidated metadata is", function()
    local _, message = data.zarr(unpack_store("zarr", { [".zmetadata"] = false }))
    assert.matches("zarr.consolidate_metadata", message)
    _, message = data.zarr(unpack_store("zarr", { [".zmetadata"] = false, ["zarr.json"] = '{"zarr_format": 3}' }))
    assert.matches("version 3", message)
    local _, _, code = data.zarr(fresh "none")
    assert.equal("io", code)
  end)
end)

describe("texts of fixed width", function()
  it("are read chunk by chunk, in either order of bytes", function()
    local words = { "a", "bcd", "", "Łó", "e", "fgh", "i" }
    for order, pack in pairs { ["<"] = "<I4", [">"] = ">I4" } do
      local files = {}
      for i = 0, 2 do -- three of three, of which the last has two to spare
        local parts = {}
        for k = 1, 3 do
          local codes = { 0, 0, 0 }
          local at = 0
          for _, code in utf8.codes(words[3 * i + k] or "zz") do
            at = at + 1
            codes[at] = code
          end
          for _, code in ipairs(codes) do parts[#parts + 1] = string.pack(pack, code) end
        end
        files["g/name/" .. i] = table.concat(parts)
      end
      local path = fresh "texts"
      os.execute(("mkdir -p '%s/g/name' '%s/g/x'"):format(path, path))
      for name, text in pairs(files) do write_all(path .. "/" .. name, text) end
      local function array(shape, chunks, dtype, fill)
        return ('{"zarr_format": 2, "shape": [%d], "chunks": [%d], "dtype": "%s", "order": "C", "compressor": null, '
          .. '"filters": null, "fill_value": %s}'):format(shape, chunks, dtype, fill)
      end
      write_all(path .. "/.zmetadata", ('{"zarr_consolidated_format": 1, "metadata": {"g/name/.zarray": %s, '
        .. '"g/name/.zattrs": {"_ARRAY_DIMENSIONS": ["name"]}, "g/x/.zarray": %s, '
        .. '"g/x/.zattrs": {"_ARRAY_DIMENSIONS": ["name"]}}}'):format(array(7, 3, order .. "U3", '""'),
        array(7, 7, "<f8", "1.5")))
      local _, about = assert(data.zarr(path))
      assert.same(words, about.coords.g.name)
    end
  end)
end)

-- ---- damage ----

local ARRAY = [[{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f8", "order": "C", "compressor": null,
  "filters": null, "fill_value": 1.5}]]

-- A store with one array whose metadata are changed by gsub.
local function store_with(from, to, key, chunks)
  local text, count = ARRAY:gsub(from or "^$", to or "")
  assert(count == (from and 1 or 0))
  local path = fresh "damaged"
  os.execute(("mkdir -p '%s/g/x'"):format(path))
  write_all(path .. "/.zmetadata", ('{"zarr_consolidated_format": 1, "metadata": {"%s/.zarray": %s}}'):format(
    key or "g/x", text))
  for name, bytes in pairs(chunks or {}) do write_all(path .. "/g/x/" .. name, bytes) end
  return path
end

local two = string.pack("<dd", 3, 4)

describe("a damaged Zarr store", function()
  it("as it should be is read", function()
    assert.same({ 3, 4, 1.5, 1.5 }, data.zarr(store_with(nil, nil, nil, { ["0"] = two })).g.x:totable())
  end)

  it("is refused with a message", function()
    local function fails(want, ...)
      local groups, message, code = data.zarr(store_with(...))
      assert.is_nil(groups, want)
      assert.matches(want, message)
      assert.equal("format", code)
    end
    fails("holds 8 bytes", nil, nil, nil, { ["0"] = two:sub(1, 8) })
    fails("holds 17 bytes", nil, nil, nil, { ["0"] = two .. "x" })
    fails("no fill value", '"fill_value": 1.5', '"fill_value": null')
    fails("no fill value", '"fill_value": 1.5', '"fill_value": "x"')
    fails("too many", '%[4%], "chunks": %[2%]', '[17592186044416, 17592186044416], "chunks": [17592186044416, 1]')
    fails("too many", "%[4%]", "[1000000000]")
    fails("too many", '%[4%], "chunks": %[2%]', '[8388608, 8388608], "chunks": [8388608, 8388608]')
    fails("elements are missing", '%[4%], "chunks": %[2%]', '[1000000000], "chunks": [1000000]')
    fails("whole sizes", "%[4%]", "[-4]")
    fails("whole sizes", "%[4%]", "[4.5]")
    fails("whole sizes", "%[4%]", '["4"]')
    fails("whole sizes", "%[2%]", "[0]")
    fails("whole sizes", "%[2%]", "[2, 2]")
    fails("whole sizes", '%[4%], "chunks": %[2%]', '[1,1,1,1,1,1,1,1,1], "chunks": [1,1,1,1,1,1,1,1,1]')
    fails("order C or F", '"C"', '"A"')
    fails("filtered", '"filters": null', '"filters": [{"id": "delta"}]')
    fails("in folders", '"order"', '"dimension_separator": "/", "order"')
    fails("dtype |O", "<f8", "|O")
    fails("dtype <c16", "<f8", "<c16")
    fails("type must be", "<f8", "<f3")
    fails("no array of version 2", '"zarr_format": 2', '"zarr_format": 3')
    fails("whole number", '<f8', '<i8')
    fails("no name of an array", nil, nil, "../x")
    fails("no name of an array", nil, nil, "g/../../x")
    fails("no name of an array", nil, nil, "/etc/x")
    fails("no name of an array", nil, nil, "g//x")
    fails("no name of an array", nil, nil, "g/.zattrs")
  end)

  it("is refused where its attributes change its numbers, and read where they name its axes", function()
    local function read(attributes)
      local path = fresh "attributes"
      os.execute(("mkdir -p '%s/g/x'"):format(path))
      write_all(path .. "/.zmetadata", ('{"zarr_consolidated_format": 1, "metadata": {"g/x/.zarray": %s, '
        .. '"g/x/.zattrs": %s}}'):format(ARRAY, attributes))
      write_all(path .. "/g/x/0", two)
      return data.zarr(path)
    end
    for name, value in pairs { scale_factor = "2", add_offset = "1", units = '"days since 1970-01-01"' } do
      local groups, message, code = read(('{"%s": %s}'):format(name, value))
      assert.same({ nil, "format" }, { groups, code })
      assert.matches("'g/x' is packed by its attribute '" .. name .. "'", message, 1, true)
    end
    for attributes, axis in pairs { ['{"units": "days"}'] = "x_dim_0", ['{"_ARRAY_DIMENSIONS": ["t"]}'] = "t",
      ['{"_ARRAY_DIMENSIONS": ["t", "u"]}'] = "x_dim_0", ['{"_ARRAY_DIMENSIONS": [3]}'] = "x_dim_0",
      ['{"_ARRAY_DIMENSIONS": "t"}'] = "x_dim_0", ["3"] = "x_dim_0", ['{"dtype": "float"}'] = "x_dim_0" } do
      local groups, about = assert(read(attributes))
      assert.same({ { 3, 4, 1.5, 1.5 }, { axis } }, { groups.g.x:totable(), about.dims.g.x })
    end
    assert.same({ true, true, true, true }, read('{"dtype": "bool"}').g.x:totable())
    local _, about = assert(read('{"_ARRAY_DIMENSIONS": ["x"]}'))
    assert.same({ 3, 4, 1.5, 1.5 }, about.coords.g.x:totable()) -- an axis by its own name
  end)

  it("that is no JSON, or other JSON, is refused", function()
    for text, want in pairs { ["{"] = "is no JSON", ["[]"] = "not that of a store", ["3"] = "not that of a store",
      ['{"zarr_consolidated_format": 1, "metadata": 3}'] = "not that of a store",
      ['{"zarr_consolidated_format": 1, "metadata": {"x/.zarray": 3}}'] = "no array of version 2" } do
      local path = store_with()
      write_all(path .. "/.zmetadata", text)
      local groups, message, code = data.zarr(path)
      assert.is_nil(groups)
      assert.matches(want, message)
      assert.equal("format", code)
    end
  end)

  it("is held to the memory that a host grants", function()
    local path = fresh "large"
    assert(data.save_zarr(path, { g = { x = pn.zeros { 1 << 18 } } }))
    collectgarbage()
    pn.memory_limit(1 << 20)
    local ok, groups, message, code = pcall(data.zarr, path)
    pn.memory_limit(0)
    assert.is_true(not ok or groups == nil)
    if ok then assert.is_true(code == "memory" or message:find "memory" ~= nil, message) end
  end)
end)

-- ---- writing ----

describe("writing a Zarr store", function()
  local x = pn.tensor { { 1.5, 2, 3 }, { -4, 0 / 0, 1 / 0 } }

  it("gives raw chunks and metadata of version 2", function()
    local path = fresh "written"
    assert.is_true(data.save_zarr(path, { g = { x = x, n = pn.tensor({ 1, -2 }, { dtype = "int64" }),
      f = x:to "float32", b = x:gt(1), s = pn.full({}, 7.25), e = pn.zeros { 0, 2 } } },
      { dims = { x = { "row", "column" } }, coords = { row = { "a", "äöü" }, column = pn.tensor { 0.5, 1, 2 } },
        attributes = { g = { note = 'a "b"\n', n = 3, r = 0.5, list = { 1, 2 } } } }))
    assert.equal(string.pack("<dddd", 1.5, 2, 3, -4), read_all(path .. "/g/x/0.0"):sub(1, 32))
    assert.equal(48, #read_all(path .. "/g/x/0.0"))
    assert.equal(string.pack("<i8i8", 1, -2), read_all(path .. "/g/n/0"))
    assert.equal(string.pack("<fff", 1.5, 2, 3), read_all(path .. "/g/f/0.0"):sub(1, 12))
    assert.equal("\1\1\1\0\0\1", read_all(path .. "/g/b/0.0"))
    assert.equal(string.pack("<d", 7.25), read_all(path .. "/g/s/0"))
    assert.is_nil(read_all(path .. "/g/e/0.0"))
    assert.equal("a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xe4\0\0\0\xf6\0\0\0\xfc\0\0\0\0\0\0\0", read_all(path .. "/g/row/0"))
    local about = assert(data.json(path .. "/g/x/.zarray"))
    assert.same({ 2, 3 }, about.shape)
    assert.same({ 2, 3 }, about.chunks)
    assert.same({ "<f8", "C", 2 }, { about.dtype, about.order, about.zarr_format })
    assert.is_true(about.compressor ~= about.compressor and about.filters ~= about.filters
      and about.fill_value ~= about.fill_value) -- null
    assert.same({ "row", "column" }, data.json(path .. "/g/x/.zattrs")._ARRAY_DIMENSIONS)
    assert.equal("<U4", data.json(path .. "/g/row/.zarray").dtype)
    assert.equal('a "b"\n', data.json(path .. "/g/.zattrs").note)
    local all = data.json(path .. "/.zmetadata").metadata
    for key, text in pairs(all) do
      local own = assert(data.json(path .. "/" .. key), key)
      for name, value in pairs(text) do
        if value == value then assert.same(value, own[name], key) end
      end
    end
    local groups, back = assert(data.zarr(path))
    assert.same({ "a", "äöü" }, back.coords.g.row)
    assert.same({ 0.5, 1, 2 }, back.coords.g.column:totable())
    assert.is_true(groups.g.x:eq(x):logical_or(x:isnan()):all():item())
    assert.same({ true, true, true, false, false, true }, groups.g.b:reshape { -1 }:totable())
    assert.same({ 0, 2 }, groups.g.e:shape())
  end)

  it("of views writes their elements in order", function()
    local path = fresh "view"
    assert(data.save_zarr(path, { g = { x = x:t(), y = pn.full({ 1, 1 }, 3):broadcast_to { 2, 2 } } }))
    assert.equal(string.pack("<dd", 1.5, -4), read_all(path .. "/g/x/0.0"):sub(1, 16))
    assert.equal(string.pack("<dddd", 3, 3, 3, 3), read_all(path .. "/g/y/0.0"))
  end)

  it("replaces a store whole, and nothing that is none", function()
    local path = fresh "twice"
    assert(data.save_zarr(path, { g = { old = x } }))
    assert(data.save_zarr(path .. "/", { h = { new = x } }))
    assert.is_nil(read_all(path .. "/g/old/0.0"))
    assert.truthy(data.zarr(path).h.new)
    local list = io.popen(("ls -A '%s'"):format(root)):read "a"
    assert.is_nil(list:find "penumbra")
    local folder = fresh "mine"
    os.execute(("mkdir -p '%s'"):format(folder))
    write_all(folder .. "/letter", "dear")
    for _, taken in ipairs { folder, folder .. "/letter" } do
      local ok, message, code = data.save_zarr(taken, { g = { x = x } })
      assert.is_nil(ok)
      assert.equal("io", code)
      assert.matches("no Zarr store", message)
    end
    assert.equal("dear", read_all(folder .. "/letter"))
    local _, _, code = data.save_zarr(root .. "/no/such/folder", { g = { x = x } })
    assert.equal("io", code)
  end)

  it("removes what a killed process has left, and leaves a locked one alone", function()
    local path = fresh "killed"
    os.execute(("mkdir -p '%s.penumbra-0.tmp/g/x'"):format(path))
    write_all(path .. ".penumbra-0.tmp/g/x/0", "half")
    assert(data.save_zarr(path, { g = { x = x } }))
    assert.is_nil(read_all(path .. ".penumbra-0.tmp/g/x/0"))
  end)

  it("is refused where names or sizes do not fit", function()
    local path = fresh "refused"
    local function fails(want, ...) refuses(want, data.save_zarr, path, ...) end
    fails("must be a tensor with a name without '/'", { g = { ["a/b"] = x } })
    fails("must be a tensor with a name without '/'", { g = { [".zarray"] = x } })
    fails("must be a tensor with a name without '/'", { g = { x = 3 } })
    fails("must be a name without '/'", { [".."] = { x = x } })
    fails("list of 2 names", { g = { x = x } }, { dims = { x = { "a" } } })
    fails("2 and 3 places", { g = { x = x } }, { dims = { x = { "a", "a" } } })
    fails("a variable and the name of an axis", { g = { x = x, a = x } }, { dims = { x = { "a", "b" } } })
    fails("list of texts of 2", { g = { x = x } }, { dims = { x = { "a", "b" } }, coords = { a = { "one" } } })
    fails("did you mean 'coords'", { g = { x = x } }, { coord = {} })
    local function attributes(want, a) fails(want, { g = { x = x } }, { attributes = { g = { a = a } } }) end
    attributes("attributes must be numbers, strings, booleans, lists and tables of these, got function", print)
    attributes("texts must be UTF-8, got '?a'", "\255a")
    attributes("names must be strings, got 0.5", { [0.5] = 1 })
    assert.is_nil(read_all(path .. "/.zgroup"))
  end)
end)

teardown(function() os.execute(("rm -rf '%s'"):format(root)) end)
