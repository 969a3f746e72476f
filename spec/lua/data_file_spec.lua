-- Arrays that stay in their files, CSV files with more than numbers, and problems that make their own data.
local pn = require "penumbra"
local data = pn.data

local path = os.tmpname()
teardown(function() os.remove(path) end)

local function write(text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function equal(a, b)
  assert.same(b:shape(), a:shape())
  assert.equal(b:dtype(), a:dtype())
  assert.is_true(a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b))):all():item())
end

describe("an array in a file", function()
  -- the loaders, which have golden files of their own, are the oracle
  it("gives the rows that the loaders give, of every format and type", function()
    local golden = "spec/golden/files/"
    for name in ([[f8.npy f4.npy f2.npy i8.npy i4_big.npy i2.npy i1.npy u1.npy u2.npy u4.npy b1.npy f8_big.npy f8.idx
        f4.idx i1.idx i2.idx i4.idx u1.idx axes8.npy]]):gmatch "%S+" do
      local whole = assert(name:find "npy$" and data.npy(golden .. name) or data.idx(golden .. name))
      local a <close> = assert(data.open(golden .. name))
      assert.same(whole:shape(), a:shape())
      assert.equal(whole:dtype(), a:dtype())
      equal(a:slice(1, 1, -1), whole)
      local n = a:size(1)
      local index = pn.tensor({ n - 1, 0, n - 1 }, { dtype = "int64" })
      equal(a:take(1, index), whole:take(1, index))
      local b <close> = assert(data.open(golden .. name, { dtype = "float32" }))
      equal(b:slice(1, 1, n), whole:to "float32")
    end
  end)

  it("is found by its name in a safetensors file", function()
    local x, y = pn.randn { 5, 2, 3 }, pn.arange(7)
    assert(pn.save(path, { x = x, y = y }))
    local a <close> = assert(data.open(path, { name = "x" }))
    equal(a:take(1, pn.tensor({ 4, 2 }, { dtype = "int64" })), x:take(1, pn.tensor({ 4, 2 }, { dtype = "int64" })))
    local b <close> = assert(data.open(path, { name = "y" }))
    equal(b:slice(1, 2, 4), y:slice(1, 2, 4))
    local none, message, code = data.open(path)
    assert.is_nil(none)
    assert.matches("holds 2 tensors: one must be named", message)
    assert.equal("domain", code)
    assert.matches("holds no tensor 'z'", select(2, data.open(path, { name = "z" })))
    assert(pn.save(path, { only = x }))
    local c <close> = assert(data.open(path))
    assert.equal(5, c:size(1))
  end)

  it("stays narrow, and takes no memory for its rows", function()
    local x = pn.randint(0, 256, { 1000, 784 })
    assert(data.save_idx(path, x))
    local a <close> = assert(data.open(path, { dtype = "float32" }))
    assert.equal("uint8", a:type())
    assert.equal("float32", a:dtype())
    assert.matches("^uint8 %[1000, 784%] in a file, read as float32$", tostring(a))
    local total, rows = 0, 0
    for batch in data.batches(a, { batch_size = 64, generator = pn.generator(1) }) do
      total, rows = total + batch:sum():item(), rows + batch:size(1)
    end
    assert.equal(1000, rows)
    assert.equal(x:sum():item(), total)
    local y = pn.arange(1000):to "int64"
    for images, labels in data.batches({ a, y }, { batch_size = 300, generator = pn.generator(1) }) do
      equal(images, x:take(1, labels):to "float32")
    end
    local first, second = data.split(a, 0.25, { shuffle = false })
    equal(second, x:slice(1, 251, 1000):to "float32")
    assert.equal(250, first:size(1))
  end)

  it("trains as a tensor does", function()
    local x = pn.randn { 60, 3 }
    assert(data.save_npy(path, x))
    local a <close> = assert(data.open(path))
    local function run(rows)
      local w = pn.param(pn.zeros { 3 })
      pn.train.fit { data = rows, optimiser = pn.optim.sgd({ w }, { lr = 0.1 }), epochs = 3, batch_size = 16, seed = 1,
        split = 0.2, loss = function(t) return (t:matmul(w) - 1):square():mean() end }
      return w
    end
    equal(run(a), run(x))
  end)

  it("that has shrunk, or is another, is an error at the row, not a crash", function()
    assert(data.save_npy(path, pn.zeros { 1000, 10 }))
    local a <close> = assert(data.open(path))
    assert.equal(0, a:slice(1, 1000, 1000):sum():item())
    local file = assert(io.open(path, "rb"))
    local text = file:read(40000)
    file:close()
    write(text)
    assert.equal(0, a:slice(1, 1, 10):sum():item())
    assert.error_matches(function() return a:slice(1, 1000, 1000) end, "shrank while it was read")
    assert.error_matches(function() return a:take(1, pn.tensor({ 999 }, { dtype = "int64" })) end, "shrank")
    equal(a:slice(1, 1, 2), pn.zeros { 2, 10 })
  end)

  it("refuses what has no rows, and rows that are not there", function()
    for name, text in pairs { ["scalar.npy"] = "single number", ["fortran.npy"] = "Fortran's order",
        ["gz.npy.gz"] = "gzipped", ["bad_string.npy"] = "type", ["savetxt.csv"] = "no safetensors file",
        ["none"] = "cannot be opened" } do
      local a, message = data.open("spec/golden/files/" .. name)
      assert.is_nil(a)
      assert.matches(text, message)
    end
    assert(data.save_npy(path, pn.zeros { 4, 2 }))
    assert.matches("has no name", select(2, data.open(path, { name = "x" })))
    local a = assert(data.open(path))
    local function index(...) return pn.tensor({ ... }, { dtype = "int64" }) end
    for _, f in ipairs { function() return a:take(1, index(4)) end, function() return a:take(1, index(-1)) end,
        function() return a:take(1, index(2, 3, 4)) end, function() return a:slice(1, 0, 2) end,
        function() return a:slice(1, 3, 5) end, function() return a:slice(2, 1, 1) end,
        function() return a:take(1, pn.zeros { 2 }) end } do
      assert.has_error(f)
    end
    assert.same({ 0, 2 }, a:slice(1, 3, 2):shape())
    assert.same({ 0, 2 }, a:take(1, pn.zeros({ 0 }, { dtype = "int64" })):shape())
    a:close()
    a:close()
    assert.error_matches(function() return a:size(1) end, "is closed")
    write(("\147NUMPY\1\0"):rep(3))
    assert.is_nil((data.open(path)))
  end)
end)

describe("a file without a header", function()
  local target = os.tmpname()
  after_each(function() os.remove(target) end)
  local function put(text)
    local f <close> = assert(io.open(target, "wb"))
    f:write(text)
  end

  it("gives its elements, of every type, in the shape that is asked for", function()
    for element, c in pairs { uint8 = { "B", "int64" }, int8 = { "b", "int64" }, uint16 = { "<I2", "int64" },
      int16 = { "<i2", "int64" }, int32 = { "<i4", "int64" }, uint32 = { "<I4", "int64" }, int64 = { "<i8", "int64" },
      uint64 = { "<I8", "int64" }, float32 = { "<f", "float32" }, float64 = { "<d", "float64" } } do
      local text = {}
      for k = 1, 6 do text[k] = string.pack(c[1], 21 * k) end
      put(table.concat(text))
      local t = assert(pn.data.raw(target, { shape = { 2, 3 }, element = element }))
      assert(t:dtype() == c[2], element)
      for k = 1, 6 do assert(t[(k + 2) // 3][(k - 1) % 3 + 1]:item() == 21 * k, element) end
      assert(pn.data.raw(target, { shape = { 6 }, element = element, dtype = "float32" }):dtype() == "float32")
    end
    put "\1\0\1"
    local bits = assert(pn.data.raw(target, { shape = { 3 }, element = "bool" }))
    assert(bits:dtype() == "bool" and bits:eq(pn.tensor { true, false, true }):all():item())
    put(string.pack("<I2I2", 0x3c00, 0xc100)) -- 1, -2.5 in half precision
    local half = assert(pn.data.raw(target, { shape = { 2 }, element = "float16" }))
    assert(half:dtype() == "float32" and half[1]:item() == 1 and half[2]:item() == -2.5)
  end)

  it("is refused where it is longer or shorter, or the words are wrong", function()
    put "abcdef"
    for _, shape in ipairs { { 5 }, { 7 }, { 2, 4 }, { 1 << 40, 1 << 40 }, {} } do
      local t, message, code = pn.data.raw(target, { shape = shape })
      assert(t == nil and message:find "holds 6 bytes" and code == "shape", message)
    end
    for _, case in ipairs { { "element must be the name", { shape = { 6 }, element = "word" } },
      { "shape.1 must not be negative", { shape = { -6 } } }, { "shape", {} },
      { "dtype", { shape = { 6 }, dtype = "x" } } } do
      local ok, message, more = pcall(pn.data.raw, target, case[2])
      message = ok and more or message
      assert(tostring(message):find(case[1], 1, true), tostring(message))
    end
    local t, _, code = pn.data.raw("no/such/file", { shape = { 1 } })
    assert(t == nil and code == "io")
  end)

  it("may be packed", function()
    put(("x"):rep(100))
    local name = target .. ".gz"
    assert(os.execute(("gzip -k %s"):format(target)))
    assert(pn.data.raw(name, { shape = { 10, 10 } }):sum():item() == 100 * ("x"):byte())
    for _, n in ipairs { 99, 101 } do
      local t, _, code = pn.data.raw(name, { shape = { n } })
      assert(t == nil and (code == "format" or code == "shape"), code)
    end
    os.remove(name)
  end)
end)

describe("a CSV file", function()
  local text = "city;when;temp;note\nBonn;01.02.2024;1,5;a\nAachen;29.02.2024;-2,25;b\n;01.03.1969;NA;\"c;d\"\n"
  local kinds = { city = "category", when = "date", note = "skip" }

  it("has categories and dates as numbers, and leaves columns out", function()
    write(text)
    local x, names, levels = data.csv(path, { kinds = kinds, date = "%d.%m.%Y", decimal = "," })
    assert.same({ "city", "when", "temp" }, names)
    assert.same({ city = { "Aachen", "Bonn" } }, levels)
    -- days since 1970: the calendar of Lua's own os.time, at noon UTC apart from zones
    local rows = x:totable()
    assert.same({ 1, 19754, 1.5 }, rows[1])
    assert.same({ 0, 19782, -2.25 }, rows[2])
    assert.is_true(rows[3][1] ~= rows[3][1] and rows[3][3] ~= rows[3][3])
    assert.equal(-306, rows[3][2])
  end)

  it("has its columns in the file's order, whichever kinds come first", function()
    local words = { a = { "1", "2" }, city = { "x", "y" }, b = { "30", "40" }, t = { "1970-01-06", "1970-01-07" } }
    local numbers = { a = { 1, 2 }, city = { 0, 1 }, b = { 30, 40 }, t = { 5, 6 } }
    for _, order in ipairs { { "a", "city", "b", "t" }, { "city", "a", "t", "b" }, { "t", "b", "a", "city" },
      { "b", "a", "t", "city" } } do
      local lines, want = { table.concat(order, ",") }, {}
      for row = 1, 2 do
        local fields = {}
        want[row] = {}
        for k, name in ipairs(order) do fields[k], want[row][k] = words[name][row], numbers[name][row] end
        lines[#lines + 1] = table.concat(fields, ",")
      end
      write(table.concat(lines, "\n") .. "\n")
      local x, names = data.csv(path, { kinds = { city = "category", t = "date" } })
      assert.same(order, names)
      assert.same(want, x:totable())
    end
  end)

  it("takes the levels of another file, and refuses others", function()
    write(text)
    local x = assert(data.csv(path, { kinds = kinds, date = "%d.%m.%Y", decimal = ",", rows = { 2, 2 },
      levels = { city = { "Ulm", "Aachen" } } }))
    assert.same({ { 1, 19782, -2.25 } }, x:totable())
    local none, message, code = data.csv(path, { kinds = kinds, date = "%d.%m.%Y", decimal = ",",
      levels = { city = { "Ulm", "Aachen" } } })
    assert.is_nil(none)
    assert.matches("column 'city', row 1 is 'Bonn', which is none of its levels", message)
    assert.equal("domain", code)
  end)

  it("has dates of ISO's forms, with the time of day, and refuses those that do not exist", function()
    write "t,x\n2000-02-29,1\n1970-01-01T12:00:00,2\n1900-03-01 06:00,3\n"
    local x = assert(data.csv(path, { kinds = { t = "date" } }))
    assert.same({ 11016, 0.5, -25507.75 }, x:select(2, 1):totable()) -- Python: (date - date(1970, 1, 1)).days
    write "t,x\n1970-01-02T07:30:36,1\n"
    x = assert(data.csv(path, { kinds = { t = "date" } }))
    assert.near(1 + 7 / 24 + 30 / 1440 + 36 / 86400, x[1][1]:item(), 1e-12)
    for _, bad in ipairs { "2023-02-29", "2023-13-01", "yesterday", "1900-02-29", "2023-04-31" } do
      write("t,x\n" .. bad .. ",1\n")
      local none, message = data.csv(path, { kinds = { t = "date" } })
      assert.is_nil(none)
      assert.matches("column 't', row 1 must be a date", message)
    end
  end)

  it("has the rows that are asked for", function()
    write "a,b\n1,2\n3,4\n5,6\n7,8\n"
    assert.same({ { 3, 4 }, { 5, 6 } }, data.csv(path, { rows = { 2, 3 } }):totable())
    assert.same({ { 7, 8 } }, data.csv(path, { rows = { 4 } }):totable())
    assert.same({ { 6 } }, data.csv(path, { rows = { 3, 3 }, columns = { "b" } }):totable())
    local none, message = data.csv(path, { rows = { 4, 5 } })
    assert.is_nil(none)
    assert.matches("has 4 rows", message)
    assert.has_error(function() data.csv(path, { rows = { 0, 1 } }) end)
    assert.has_error(function() data.csv(path, { rows = { 3, 2 } }) end)
  end)

  it("is told with what reads its texts, letters beyond ASCII as they are and broken ones as ?", function()
    write "x,city\n1,Köln\n"
    assert.matches("column 2 must be a number, got 'Köln' %(columns of text are read by kinds = {name = \"category\"}",
      select(2, data.csv(path)))
    write "x,city\n1,K\xC3\xA9ln\xC3\xF0\x9F\n"
    assert.matches("got 'Kéln%?%?%?' ", select(2, data.csv(path)))
  end)

  it("may have a comma in its numbers", function()
    write "1,5;-2;3e2\n,25;7,;1,0e-1\n"
    assert.same({ { 1.5, -2, 300 }, { 0.25, 7, 0.1 } }, data.csv(path, { decimal = ",", header = false }):totable())
    assert.same({ { -2, 300 } }, data.csv(path, { decimal = ",", header = false, columns = { 2, 3 }, dtype = "int64",
      rows = { 1, 1 } }):totable())
    write "1.5;2\n"
    assert.matches("must be a number, got '1.5'", select(2, data.csv(path, { decimal = ",", header = false })))
    write "1,5,2\n"
    assert.matches("has a comma between its columns", select(2, data.csv(path, { decimal = "," })))
    assert.has_error(function() data.csv(path, { decimal = ";" }) end)
  end)

  it("refuses kinds that make no sense", function()
    write(text)
    assert.matches("has no column 'twon'", select(2, data.csv(path, { kinds = { twon = "category" } })))
    for _, o in ipairs { { kinds = { city = "colour" } }, { levels = {} }, { date = "%Y" },
        { kinds = { when = "date" }, date = "%q" }, { kinds = { when = "date" }, date = "%Y-%m" } } do
      assert.has_error(function() data.csv(path, o) end)
    end
    write "1,2\n3,4\n"
    assert.matches("has no header", select(2, data.csv(path, { kinds = { a = "category" } })))
  end)
end)

describe("a problem that makes its own data", function()
  it("is the same for the same seed", function()
    for _, name in ipairs { "two_moons", "circles", "spirals", "checkerboard" } do
      local x, y = data[name](31, { seed = 4 })
      local u, v = data[name](31, { seed = 4 })
      assert.same({ 31, 2 }, x:shape())
      assert.equal("int64", y:dtype())
      equal(u, x)
      equal(v, y)
      assert.is_false(data[name](31, { seed = 5 }):eq(x):all():item())
      assert.has_error(function() data[name](0) end)
      assert.has_error(function() data[name](3, { noise = -1 }) end)
      assert.has_error(function() data[name](3, { seed = 1, generator = pn.generator(1) }) end)
    end
  end)

  it("stands on its curve without noise", function()
    local x, y = data.two_moons(101, { seed = 1, noise = 0 })
    local t = y:to "float64"
    local centre = pn.stack({ t, t * 0.5 }, 2)
    assert.is_true(((x - centre):square():sum(2) - 1):abs():max():item() < 1e-12)
    assert.equal(50, y:sum():item())
    x, y = data.circles(90, { seed = 1, noise = 0, radii = { 1, 0.5, 0.25 } })
    local radius = pn.tensor { 1, 0.5, 0.25 }:take(1, y)
    assert.is_true((x:square():sum(2):sqrt() - radius):abs():max():item() < 1e-12)
    x, y = data.spirals(99, { seed = 1, noise = 0, classes = 3, turns = 2 })
    local r = x:square():sum(2):sqrt()
    local a = (r * 2 + y:to "float64" / 3) * (2 * math.pi)
    assert.is_true((pn.stack({ r * a:cos(), r * a:sin() }, 2) - x):abs():max():item() < 1e-12)
    x, y = data.checkerboard(500, { seed = 1 })
    local column, row = ((x + 1) * 2):floor():to("int64"):totable(), y:totable()
    for i = 1, 500 do assert.equal((column[i][1] + column[i][2]) % 2, row[i]) end
  end)

  -- By quadrature of the entropy of the true model: -.05483 at 0 degrees, -.07454 at 45.
  it("are videos of a ball that keeps its energy and its radius, at its place", function()
    local inside = { box = { 5, 27, 5, 27 }, gravity = { 5, 27, 5, 27 }, polygon = { 4, 27, 4, 27 } }
    for kind, bounds in pairs(inside) do
      local frames, state = data.ball_video(40, { kind = kind, steps = 30, seed = 3 })
      assert.same({ 30, 40, 1024 }, frames:shape())
      assert.same({ 30, 40, 4 }, state:shape())
      local x, y = state:select(3, 1), state:select(3, 2)
      local energy = state:slice(3, 3, 4):square():sum(3) / 2 + y * (kind == "gravity" and 5 or 0)
      assert.near(0, (energy - energy[1]):abs():max():item(), 1e-10)
      for k, limit in ipairs(bounds) do
        local outmost = (k < 3 and x or y)[k % 2 == 1 and "min" or "max"]((k < 3 and x or y)):item()
        assert.is_true(k % 2 == 1 and outmost >= limit - 1e-9 or k % 2 == 0 and outmost <= limit + 1e-9)
      end
      -- the middle of the white pixels, and how many there are
      local pictures = frames:reshape { 30, 40, 32, 32 }
      local count = frames:sum(3)
      local middle = pn.arange(32) + 0.5
      assert.is_true((count / (9 * math.pi) - 1):abs():max():item() < 0.16)
      assert.is_true(((pictures:sum(3) * middle):sum(3) / count - x):abs():max():item() < 0.5)
      assert.is_true((32 - (pictures:sum(4) * middle):sum(3) / count - y):abs():max():item() < 0.5)
    end
    -- of pong: the energy falls at each hit, the paddles stand beside the ball that they hit
    local frames, state = data.ball_video(40, { kind = "pong", steps = 30, seed = 3 })
    local energy = state:slice(3, 3, 4):square():sum(3) / 2
    assert.near(50, energy[1]:max():item(), 1e-9)
    assert.is_true((energy:slice(1, 2, 30) - energy:slice(1, 1, 29)):max():item() < 1e-9)
    assert.is_true(energy[30]:max():item() < 50 and energy[30]:min():item() > 5)
    local x, off = state:select(3, 1), (state:select(3, 2) - state:select(3, 5)):abs()
    assert.is_true(x:min():item() >= 4 - 1e-9 and x:max():item() <= 26 + 1e-9)
    local near = x:lt(4.5):logical_or(x:gt(25.5))
    assert.is_true(near:any():item() and (off * near:to "float64"):max():item() < 3 + 3)
    local sides = frames:reshape { 30, 40, 32, 32 }:slice(4, 1, 1):sum(3)
    assert.is_true(sides:min():item() >= 6 and sides:max():item() <= 7)
    -- between walls: straight on
    state = select(2, data.ball_video(40, { seed = 3 }))
    local ahead = state[1]:slice(2, 1, 2) + state[1]:slice(2, 3, 4) * 0.2
    local free = ahead:ge(5):logical_and(ahead:le(27)):all(2)
    assert.is_true(free:any():item())
    local gone = pn.where(free:unsqueeze(2), state[2]:slice(2, 1, 2) - ahead, pn.zeros {})
    assert.near(0, gone:abs():max():item(), 1e-12)
    assert.same(state:totable(), select(2, data.ball_video(40, { generator = pn.generator(3) })):totable())
    assert.error_matches(function() data.ball_video(3, { kind = "bx" }) end, "ball_video: kind must be one of")
  end)

  it("with a boundary that turns has the log likelihood of its formula", function()
    for t, want in pairs { [0] = -0.05483, [9] = -0.07454 } do
      local x, y, w = data.rotating_boundary(400000, t, { seed = 3 })
      local lp = pn.dist.bernoulli { logits = x:matmul(w) }:log_prob(y:to "float64")
      local mean, error = lp:mean():item(), lp:std():item() / 400000 ^ 0.5
      assert.is_true(math.abs(mean - want) < 6 * error + 5e-6, ("%g, want %g"):format(mean, want))
      assert.is_true(6 * error < 0.004)
    end
    local a, b = data.rotating_boundary(5, 1, { seed = 3 }), (data.rotating_boundary(5, 2, { seed = 3 }))
    assert.is_false(a:eq(b):all():item())
  end)
end)
