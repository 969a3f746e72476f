-- Files, splits, minibatches and standardising as a script sees them. (Every fixture's values are compared in
-- spec/c/file_test.c.)
local pn = require "penumbra"
local data = pn.data
local fixtures = "spec/golden/files/"

local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
  assert.matches("data_spec.lua:%d+: ", message)
end

local function fails(pattern, code, result, message, got)
  assert.is_nil(result)
  assert.matches(pattern, message)
  assert.equal(code, got)
end

local function same(x, y)
  assert.same(x:shape(), y:shape())
  assert.equal(x:dtype(), y:dtype())
  local both_nan = x:ne(x):logical_and(y:ne(y))
  assert.is_true(x:eq(y):logical_or(both_nan):all():item())
end

describe("files", function()
  local path

  before_each(function()
    path = os.tmpname()
  end)

  after_each(function()
    os.remove(path)
  end)

  it("load as what NumPy and safetensors wrote", function()
    same(pn.tensor({1, -2, 3, -(1 << 62), (1 << 62) + 1, 0}, {dtype = "int64"}):reshape(2, 3),
      data.npy(fixtures .. "i8.npy"))
    local arrays, names = data.npz(fixtures .. "stored.npz")
    assert.same({"w", "layer.b", "n", "\u{e4}", "s"}, names)
    same(data.npy(fixtures .. "f8.npy"), arrays.w)
    local tensors, metadata = pn.load(fixtures .. "all.safetensors")
    assert.same({["made by"] = "safetensors \u{fc} \"quoted\""}, metadata)
    same(arrays.w, tensors["net.0.bias"])
    local images = data.idx(fixtures .. "u1.idx.gz")
    assert.same({2, 3, 4}, images:shape())
    assert.equal("int64", images:dtype())
    same(images:to("float32"), data.idx(fixtures .. "u1.idx.gz", {dtype = "float32"}))
  end)

  it("load pictures as numbers from 0 to 1", function() -- the values of all: spec/c/file_test.c
    local x = assert(data.image(fixtures .. "palette.png"))
    assert.same({6, 5, 3}, x:shape())
    assert.equal("float64", x:dtype())
    same(x:to("float32"), assert(data.image(fixtures .. "palette.png", {dtype = "float32"})))
    assert.same({2, 3, 1}, data.image(fixtures .. "hundred.pgm"):shape())
    fails("interlaced", "format", data.image(fixtures .. "bad_interlaced.png"))
    fails("claims 100000 x 100000", "format", data.image(fixtures .. "bad_rows.png"))
    fails("cannot be opened", "io", data.image "no/such.png")
    assert.error_matches(function() data.image(fixtures .. "grey.png", {dtype = "int64"}) end,
      "image: dtype must be float64 or float32, got int64")
  end)

  it("resize pictures by averaging over areas", function()
    -- each pixel is cut into height x width equal parts, of which a new one has h x w
    local function by_parts(rows, height, width)
      local h, w, out = #rows, #rows[1], {}
      for i = 1, height do
        out[i] = {}
        for j = 1, width do
          local sum = 0
          for a = (i - 1) * h, i * h - 1 do
            for b = (j - 1) * w, j * w - 1 do sum = sum + rows[a // height + 1][b // width + 1] end
          end
          out[i][j] = sum / (h * w)
        end
      end
      return pn.tensor(out)
    end
    local x = pn.rand({2, 5, 7}, {generator = pn.generator(3)})
    for _, size in ipairs {{3, 4}, {5, 7}, {1, 1}, {8, 3}, {10, 14}} do
      local y = data.resize(x, size[1], size[2])
      for k = 1, 2 do
        local wanted = by_parts(x[k]:totable(), size[1], size[2])
        assert.is_true((y[k] - wanted):abs():max():item() < 1e-14)
      end
      local narrow = data.resize(x:to "float32", size[1], size[2])
      assert.is_true((narrow:to "float64" - y):abs():max():item() < 1e-6)
    end
    for _, bad in ipairs {{pn.ones(3), 1, 1}, {pn.ones(2, 2), 0, 1}, {pn.ones(2, 2), 1, 1.5}, {pn.arange(4), 1, 1},
        {pn.ones(0, 2), 1, 1}, {3, 1, 1}} do
      assert.error_matches(function() data.resize(table.unpack(bad)) end, "resize: ")
    end
  end)

  it("load a CSV with its header, by columns, in the default dtype", function()
    local x, names = data.csv(fixtures .. "excel.csv")
    assert.same({"id", "a, \"quoted\"\nname", "last"}, names)
    assert.same({3, 3}, x:shape())
    assert.equal("float64", x:dtype())
    assert.is_nil((select(2, data.csv(fixtures .. "semicolon.csv"))))
    local y, chosen = data.csv(fixtures .. "tab.csv", {columns = {"last", "id"}, dtype = "float32"})
    assert.same({"last", "id"}, chosen)
    same(y, data.csv(fixtures .. "tab.csv", {columns = {-1, 1}, dtype = "float32"}))
    same(y:to("float64"):select(2, 2), x:to("float32"):to("float64"):select(2, 1))
    pn.default_dtype("float32")
    local single = data.csv(fixtures .. "excel.csv")
    pn.default_dtype("float64")
    assert.equal("float32", single:dtype())
    assert.same({{2, 1}, {4, 3}},
      data.csv(fixtures .. "bom.csv", {columns = {2, 1}, dtype = "int64"}):totable())
    assert.same({3, 1}, data.csv(fixtures .. "bom.csv", {header = false, columns = {1}, missing = "x"}):shape())
  end)

  local function csv(text, given)
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
    return data.csv(path, given)
  end

  it("are tables of CSV with any ends of lines", function()
    local rows = {"a;b", "1;2", "", "3;\"4\"", "5;6"}
    for _, last in ipairs {"", "x"} do
      for _, ending in ipairs {"\n", "\r\n", "\r"} do
        local x, names = csv(table.concat(rows, ending) .. (last == "" and "" or ending))
        assert.same({{1, 2}, {3, 4}, {5, 6}}, x:totable())
        assert.same({"a", "b"}, names)
        assert.same({{1, 2}, {3, 4}, {5, 6}}, csv(table.concat(rows, ending, 2)):totable())
        fails("line 5, column 2 must be a number, got 'x'", "format", csv(table.concat(rows, ending, 1, 4) .. ending ..
          "5;x" .. ending))
        fails("line 4 has 3 columns", "format", csv(table.concat(rows, ending, 1, 3) .. ending .. "1;2;3"))
        assert.same({"a\rb"}, select(2, csv("\"a\rb\"" .. ending .. "1" .. ending)))
        fails("line 4, column 1 must be a number, got 'x'", "format", csv("\"a\r\rb\"" .. ending .. "x",
          {header = true}))
      end
    end
  end)

  it("lose no line of CSV to a header that is none", function()
    assert.same({{1, 2, 3}}, csv("1,2,3\r"):totable())
    assert.same({{1, 2}, {3, 4}}, csv("1,2\n3,4\n"):totable())
    assert.same({3, 1}, csv("1\n2\n\n3"):shape())
    fails("line 1, column 3 must be a number, got 'abc'", "format", csv("1,2,abc\n"))
    fails("line 1, column 3 is 'abc' over a number, .*header = true or false", "format", csv("1,2,abc\n3,4,5\n"))
    assert.same({{3, 4, 5}}, csv("1,2,abc\n3,4,5\n", {header = true}):totable())
    fails("line 1, column 3 must be a number, got 'abc'", "format", csv("1,2,abc\n3,4,5\n", {header = false}))
    assert.same({2, 1}, csv("5.1,setosa\n4.9,\n", {columns = {1}}):shape()) -- a text over nothing
    local none, only = csv("\n\na,b\n") -- names without data
    assert.same({0, 2}, none:shape())
    assert.same({"a", "b"}, only)
    fails("line 3, column 1 must be a number, got 'a'", "format", csv("\n\na,b\n", {header = false}))
    assert.same({{3, 4}}, csv("1,2\n3,4\n", {header = true}):totable())
    assert.same({"", "b"}, select(2, csv(",b\n0,1\n")))
    local x, names = csv("a,b\n,\n1,2\n")
    assert.same({2, 2}, x:shape())
    assert.same({"a", "b"}, names)
  end)

  it("fail with a reason and a code", function()
    fails("cannot be opened: No such file", "io", data.csv("no/such.csv"))
    fails("line 2, column 1 must be a number, got '2020%-01%-01'", "format", data.csv(fixtures .. "text_column.csv"))
    fails("no column 'x'", "domain", data.csv(fixtures .. "text_column.csv", {columns = {"x"}}))
    fails("is no .npy file", "format", data.npy(fixtures .. "excel.csv"))
    fails("'<c16'", "dtype", data.npy(fixtures .. "bad_complex.npy"))
    fails("is no IDX file", "format", data.idx(fixtures .. "excel.csv"))
    fails("is no .npz file", "format", data.npz(fixtures .. "excel.csv"))
    fails("is no safetensors file", "format", pn.load(fixtures .. "excel.csv"))
    fails("cannot be written: No such file", "io", pn.save("no/such/folder/x", {}))
    fails("cannot be written: No such file", "io", data.save_npy("no/such/folder/x", pn.ones(1)))
    assert.equal(0, pn.ones(1):sub(1):item()) -- the error is not left behind
  end)

  it("are charged to the memory limit", function()
    collectgarbage() -- what dies later would make room
    local used = pn.memory()
    pn.memory_limit(used + (1 << 20))
    local x, message, code = data.npz(fixtures .. "deflated.npz")
    pn.memory_limit(used + (1 << 14))
    local y, _, code2 = data.npz(fixtures .. "deflated.npz")
    pn.memory_limit(0)
    assert(x, message)
    assert.is_nil(code)
    assert.is_nil(y)
    assert.equal("memory", code2)
  end)

  it("refuse wrong arguments at the script's line", function()
    raises("csv: path must be a string, got nil", data.csv)
    raises("csv: path must be a string, got number", data.csv, 1)
    raises("zero byte", data.npy, "a\0b")
    raises("unknown option 'delimeter', did you mean 'delimiter'", data.csv, "x", {delimeter = ";"})
    raises("one character", data.csv, "x", {delimiter = "::"})
    raises("dtype must be", data.csv, "x", {dtype = "double"})
    raises("all names or all positions", data.csv, "x", {columns = {1, "b"}})
    raises("name 2 must be a string", data.csv, "x", {columns = {"b", 1}})
    raises("columns must not be empty", data.csv, "x", {columns = {}})
    raises("must be a tensor, got table", data.save_npy, path, {})
    raises("1 or 2 axes, got 0", data.save_csv, path, pn.tensor(1))
    raises("one entry for each of 2 columns, got 1", data.save_csv, path, pn.ones(1, 2), {names = {"a"}})
    raises("tensors must be a table, got nil", pn.save, path)
    raises("'a.b' must be a tensor or a table of tensors, got number", data.save_npz, path, {a = {b = 1}})
    raises("two tensors have the name 'a.b'", data.save_npz, path, {a = {b = pn.ones(1)}, ["a.b"] = pn.ones(1)})
    raises("'a.b' must be a tensor, .* a string or a boolean, got function", pn.save, path, {a = {b = print}})
    raises("'net' is a network: save its :state", pn.save, path, {net = pn.nn.sequential{}})
    raises("'net.1' is a layer: save its :state", pn.save, path, {net = {pn.nn.relu()}})
    raises("'x' is an object", pn.save, path, {x = setmetatable({}, {})})
    raises("'g' is a generator: save its :state", pn.save, path, {g = pn.generator(1)})
    raises("names must be strings or whole numbers, got 0.5", pn.save, path, {[0.5] = pn.ones(1)})
    raises("begin with 'penumbra.' are taken", pn.save, path, {}, {["penumbra.structure"] = "{}"})
    raises("text 1 must not hold a zero byte, got 'a\\0", pn.save, path, {}, {note = "a\0b"})
    raises("text 1 must not hold a zero byte", data.save_npz, path, {["a\0b"] = pn.ones(1)})
    raises("metadata must be a table of strings, got number under 'k'", pn.save, path, {}, {k = 1})
    local loop = {}
    loop.loop = loop
    raises("contains itself", pn.save, path, loop)
  end)

  it("keep nested tables of tensors and metadata", function()
    local w, b = pn.randn{3, 2}, pn.randn({2}, {dtype = "float32"})
    local tree = {net = {layers = {w, {b = b}}}, n = pn.tensor({1, 2}, {dtype = "int64"}), none = pn.zeros{0, 3}}
    assert.is_true(pn.save(path, tree, {step = "7"}))
    local flat, metadata = pn.load(path, {nested = false})
    local names = {}
    for name in pairs(flat) do names[#names + 1] = name end
    table.sort(names)
    assert.same({"n", "net.layers.1", "net.layers.2.b", "none"}, names)
    assert.same({step = "7"}, metadata)
    same(w, flat["net.layers.1"])
    local nested = pn.load(path, {nested = true})
    same(b, nested.net.layers[2].b)
    same(tree.n, nested.n)
    assert.is_true(data.save_npz(path, tree, {compressed = true}))
    same(b, data.npz(path)["net.layers.2.b"])
    assert.is_true(pn.save(path, {a = w, ["a.b"] = w}))
    same(w, pn.load(path)["a.b"])
    fails("is a tensor and a table", "format", pn.load(path, {nested = true})) -- as a file of others
    for k = 1, 16 do -- in either order of the table that holds them
      assert.is_true(pn.save(path, {["n" .. k] = w, ["n" .. k .. ".b.c"] = w}))
      fails("load: 'n" .. k .. "[.bc]*' is a tensor and a table", "format", pn.load(path, {nested = true}))
    end
    local shared = {w}
    assert.is_true(data.save_npz(path, {a = shared, b = shared})) -- twice, and not within itself
    assert.same({"a.1", "b.1"}, select(2, data.npz(path)))
    shared.me = {shared}
    raises("save_npz: table 'a.me.1' contains itself", data.save_npz, path, {a = shared})
    raises("save_npz: names must be strings or whole numbers, got 0.5", data.save_npz, path, {[0.5] = w})
    raises("save: metadata must be a table of strings, got number", pn.save, path, {}, 3)
    raises("save: metadata must be a table of strings, got string under '1'", pn.save, path, {}, {"note"})
  end)

  it("keep a network, ready to load", function()
    local net = pn.nn.sequential{pn.nn.linear(3, 4), pn.nn.relu(), pn.nn.linear(4, 1)}
    local x = pn.randn{5, 3}
    local before = net(x)
    assert(pn.save(path, net:state()))
    local other = pn.nn.sequential{pn.nn.linear(3, 4), pn.nn.relu(), pn.nn.linear(4, 1)}
    other:load_state(assert(pn.load(path)))
    same(before, other(x))
  end)

  it("read back what was saved", function()
    local x = pn.randn{4, 3}
    x = pn.where(x:gt(1), pn.full(x:shape(), 0 / 0), x)
    assert(data.save_npy(path, x))
    same(x, data.npy(path))
    assert(data.save_idx(path, x))
    same(x, data.idx(path))
    assert(data.save_csv(path, x, {names = {"a", "b;", "c"}, delimiter = ";"}))
    local y, names = data.csv(path)
    same(x, y)
    assert.same({"a", "b;", "c"}, names)
    assert(data.save_csv(path, x:t()))
    same(x:t():contiguous(), data.csv(path))
  end)
end)

describe("rows", function()
  local x = pn.arange(20):reshape(10, 2)
  local y = pn.arange(10, {dtype = "int64"})

  it("are split into parts that cover all of them once", function()
    local a, b, c = data.split({x, y}, {0.5, 0.3, 0.2}, {generator = pn.generator(1)})
    assert.same({5, 3, 2}, {a[1]:size(1), b[1]:size(1), c[2]:size(1)})
    local all = pn.concatenate({a[2], b[2], c[2]}, 1):sort()
    assert.same(y:totable(), all:totable())
    assert.same(a[1]:select(2, 1):totable(), a[2]:to("float64"):mul(2):totable())
    local again = data.split({x, y}, {0.5, 0.3, 0.2}, {generator = pn.generator(1)})
    same(a[2], again[2])
    local first, rest = data.split(x, 0.75, {shuffle = false})
    same(x:slice(1, 1, 8), first)
    same(x:slice(1, 9, 10), rest)
    local none, everything = data.split(x, {0, 1}, {shuffle = false})
    assert.same({0, 2}, none:shape())
    same(x, everything)
    raises("fractions must add up to at most 1", data.split, x, {0.9, 0.2})
    raises("fractions must lie in 0 to 1", data.split, x, {-0.1})
    raises("same number of rows, got 10 and 3", data.split, {x, pn.ones(3)}, 0.5)
    raises("must have rows", data.split, pn.tensor(1), 0.5)
    raises("unknown option 'shufle'", data.split, x, 0.5, {shufle = false})
  end)

  it("are held out by number", function()
    local train, test = data.holdout({x, y}, {3, 0, 7})
    assert.same({3, 0, 7}, test[2]:totable())
    assert.same({1, 2, 4, 5, 6, 8, 9}, train[2]:totable())
    assert.same({{6, 7}, {0, 1}, {14, 15}}, test[1]:totable())
    local t = select(2, data.holdout(y, pn.tensor({9, 1}, {dtype = "int64"})))
    assert.same({9, 1}, t:totable())
    local all = data.holdout(y, {})
    same(y, all)
    raises("row numbers must lie in 0 to 9, got 10", data.holdout, x, {10})
    raises("row numbers must lie in 0 to 9, got %-1", data.holdout, x, {-1})
    raises("index must be a list", data.holdout, x, 3)
  end)

  it("come in minibatches, each row once an epoch", function()
    local sizes, seen = {}, {}
    for xb, yb in data.batches({x, y}, {batch_size = 4, generator = pn.generator(5)}) do
      sizes[#sizes + 1] = xb:size(1)
      for k, label in ipairs(yb:totable()) do
        seen[#seen + 1] = label
        assert.equal(2 * label, xb:select(1, k):select(1, 1):item())
      end
    end
    assert.same({4, 4, 2}, sizes)
    local order = {table.unpack(seen)}
    table.sort(order)
    assert.same(y:totable(), order)
    assert.not_same(y:totable(), seen)
    local g = pn.generator(5)
    local function epoch()
      local out = {}
      for yb in data.batches(y, {batch_size = 3, generator = g}) do out[#out + 1] = yb:totable() end
      return out
    end
    assert.not_same(epoch(), epoch())
    local plain = {}
    for yb in data.batches(y, {batch_size = 4, shuffle = false, drop_last = true}) do plain[#plain + 1] =
      yb:totable() end
    assert.same({{0, 1, 2, 3}, {4, 5, 6, 7}}, plain)
    assert.is_nil(data.batches(pn.zeros{0, 3}, {batch_size = 2})())
    raises("option 'batch_size' is required", data.batches, x, {})
    raises("batch_size must be a whole number from 1", data.batches, x, {batch_size = 0})
  end)

  it("are refused by what is wrong with them", function()
    raises("split: data must be a tensor or a list of tensors, got an empty list", data.split, {}, 0.5)
    raises("batches: data must be a tensor or a list of tensors, got number", data.batches, 3, {batch_size = 1})
    raises("holdout: data%[2%] must be a tensor, got string", data.holdout, {x, "y"}, {0})
    raises("split: data%[1%] must have rows, got a tensor without axes", data.split, {pn.tensor(1)}, 0.5)
    raises("split: fractions must be a number or a list of numbers, got table", data.split, x, {})
    raises("split: fractions must be a number or a list of numbers, got string", data.split, x, "half")
    raises("split: fractions must lie in 0 to 1, got 1.5", data.split, x, 1.5)
    raises("split: fractions must lie in 0 to 1, got half", data.split, x, {0.5, "half"})
    raises("split: fractions must add up to at most 1, got 1.1", data.split, x, {0.6, 0.5})
    raises("row numbers must lie in 0 to 9, got 0.5", data.holdout, x, {0.5})
    raises("row numbers must lie in 0 to 9, got 0.5", data.holdout, x, pn.tensor{0.5})
    raises("holdout: index must be a list or a tensor of row numbers, got nil", data.holdout, x)
    raises("apply: x must be a tensor, got 'x'", data.standardise(x).apply, data.standardise(x), "x")
    raises("invert: z must be a tensor, got nil", data.standardise(x).invert, data.standardise(x))
    raises("standardise: x must be a tensor with rows", data.standardise, pn.zeros{0, 2})
    raises("standardise: x must be a tensor with rows", data.standardise, 3)
    raises("csv: levels is only used with kinds", data.csv, "x", {levels = {}})
    raises("csv: date is only used with kinds", data.csv, "x", {date = "%Y"})
    raises("csv: rows%[1%] must be a whole number from 1 on, got 0", data.csv, "x", {rows = {0}})
    raises("csv: rows%[2%] must be a whole number from 3 on, got 2", data.csv, "x", {rows = {3, 2}})
  end)

  it("are split to the last one, and counted from 0 in index tensors of any type and shape", function()
    local a, b, c = data.split(y, {0.3, 0.3, 0.4}, {shuffle = false}) -- the sums round to 3, 6 and 10
    assert.same({{0, 1, 2}, {3, 4, 5}, {6, 7, 8, 9}}, {a:totable(), b:totable(), c:totable()})
    local p, q = data.split(y, 0.25, {shuffle = false}) -- 2.5 becomes 3
    assert.same({3, 7}, {p:size(1), q:size(1)})
    local some = data.split(y, {0.25}, {shuffle = false})
    assert.equal(3, some:size(1))
    local rest, held = data.holdout(y, pn.tensor{{9, 0}, {4, 4}})
    assert.same({{1, 2, 3, 5, 6, 7, 8}, {9, 0, 4, 4}}, {rest:totable(), held:totable()})
    local sizes = {}
    for t in data.batches(y, {batch_size = 5, drop_last = true}) do sizes[#sizes + 1] = t:size(1) end
    for t in data.batches(y, {batch_size = 11}) do sizes[#sizes + 1] = t:size(1) end
    for t in data.batches(y, {batch_size = 11, drop_last = true}) do sizes[#sizes + 1] = t:size(1) end
    assert.same({5, 5, 10}, sizes)
    local s = data.standardise(x)
    assert.equal("scaler of 2 columns", tostring(s))
    assert.same({{-1, -1}, {1, 1}}, {((s(3) - s(3)) - 1):totable(), s:invert((1 - s.mean) / s.scale):totable()})
  end)

  it("are standardised by their own statistics", function()
    local wide = pn.concatenate({pn.randn{50, 2} * 3 + 7, pn.full({50, 1}, 0.1)}, 2)
    local s = data.standardise(wide)
    local z = s(wide)
    assert.is_true(z:mean(1):abs():max():item() < 1e-12)
    assert.same({true, true}, (z:std(1, 0):slice(1, 1, 2) - 1):abs():lt(1e-12):totable())
    assert.equal(1, s.scale:totable()[3])
    assert.is_true((s:invert(z) - wide):abs():max():item() < 1e-12)
    same(z, s:apply(wide))
    raises("x must be a tensor with rows", data.standardise, pn.tensor(1))
    assert.is_nil(pn.train.standardise) -- one of the name
  end)
end)

-- the project's real data, where it is at hand
local shared = "../shared/data/"
local probe = io.open(shared .. "README.md")
if probe then
  probe:close()
  describe("real data", function()
    local function shape(x, ...) assert.same({...}, x:shape()) end

    it("loads: UCI with the standard splits", function()
      for name, size in pairs {bostonHousing = {506, 14, 20, 51}, concrete = {1030, 9, 20, 103},
        energy = {768, 9, 20, 77}, kin8nm = {8192, 9, 20, 819}, yacht = {308, 7, 20, 31},
        ["naval-propulsion-plant"] = {11934, 17, 20, 1193}, ["power-plant"] = {9568, 5, 20, 957},
        ["protein-tertiary-structure"] = {45730, 10, 5, 4573}, ["wine-quality-red"] = {1599, 12, 20, 160}} do
        local x, names = assert(data.csv(shared .. "uci/" .. name .. ".csv.gz"))
        shape(x, size[1], size[2])
        assert.equal(size[2], #names)
        assert.is_true(x:isfinite():all():item())
        local splits = assert(data.csv(shared .. "uci/" .. name .. ".test_splits.txt", {dtype = "int64"}))
        shape(splits, size[3], size[4])
        local train, test = data.holdout(x, splits:select(1, 1))
        assert.same({size[1] - size[4], size[4]}, {train:size(1), test:size(1)})
      end
      shape(assert(data.csv(shared .. "uci/spambase.csv.gz")), 4601, 58)
      shape(assert(data.csv(shared .. "uci/wine-quality-white.csv.gz")), 4898, 12)
    end)

    it("loads: images and labels", function()
      local counts = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}
      local labels = assert(data.idx(shared .. "mnist/train-labels-idx1-ubyte.gz"))
      for digit = 0, 9 do assert.equal(counts[digit + 1], labels:eq(digit):sum():item()) end
      local images = assert(data.idx(shared .. "mnist/train-images-idx3-ubyte.gz", {dtype = "float32"}))
      shape(images, 60000, 28, 28)
      assert.equal(255, images:max():item())
      assert.is_true(math.abs(images:to("float64"):mean():item() / 255 - 0.1306604762738429) < 1e-12)
      for _, set in ipairs {"mnist", "fashion-mnist", "notmnist"} do
        shape(assert(data.idx(shared .. set .. "/t10k-images-idx3-ubyte.gz", {dtype = "float32"})), 10000, 28, 28)
        shape(assert(data.idx(shared .. set .. "/t10k-labels-idx1-ubyte.gz")), 10000)
      end
    end)

    it("loads: series, streams, motion", function()
      shape(assert(data.csv(shared .. "forecasting/exchange_rate.txt.gz")), 7588, 8)
      shape(assert(data.csv(shared .. "forecasting/electricity_321x840.csv.gz")), 840, 321)
      local columns = {2, 3, 4, 5, 6, 7, 8}
      shape(assert(data.csv(shared .. "forecasting/ETTh1.csv.gz", {columns = columns})), 17420, 7)
      columns = {}
      for k = 2, 49 do columns[k - 1] = k end
      shape(assert(data.csv(shared .. "forecasting/m4_hourly_test.csv.gz", {columns = columns})), 414, 48)
      columns = {}
      for k = 2, 961 do columns[k - 1] = k end
      local m4 = assert(data.csv(shared .. "forecasting/m4_hourly_train.csv.gz", {columns = columns}))
      shape(m4, 414, 960)
      assert.same({{700, 960}}, {{m4:isfinite():sum(2):min():item(), m4:isfinite():sum(2):max():item()}})
      shape(assert(data.csv(shared .. "drift/covtype_first20000.csv.gz")), 20000, 55)
      shape(assert(data.csv(shared .. "drift/noaa_weather.csv.gz")), 18159, 9)
      shape(assert(data.csv(shared .. "drift/gas_drift_raw_8of10.csv.gz")), 6697, 130)
      local _, names = assert(data.csv(shared .. "mocap/mocap35.csv.gz", {columns = {2, 3}}))
      assert.same({"seq", "step"}, names)
      local nile = data.csv(shared .. "classics/nile.csv", {columns = {"flow"}})
      shape(nile, 100, 1)
      shape(assert(data.csv(shared .. "classics/gbpusd_sv_945.csv", {columns = {-1}})), 945, 1)
    end)
  end)
end
