-- Tensors as a script sees them: making, asking, indexing, printing, giving up.
local core = require "penumbra.core"
local pn = require "penumbra"

local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
  assert.matches("tensor_spec.lua:%d+: ", message)
end

local int = { dtype = "int64" }

describe("making a tensor", function()
  it("takes nested tables, and gives them back", function()
    local t = { { 1, 2, 3 }, { 4, 5, 6 } }
    local x = pn.tensor(t)
    assert.same(t, x:totable())
    assert.same({ 2, 3 }, x:shape())
    assert.equal("float64", x:dtype())
    assert.equal("bool", pn.tensor({ true, false }):dtype())
    assert.same({ (1 << 53) + 1 }, pn.tensor({ (1 << 53) + 1 }, int):totable())
    assert.equal("float32", pn.tensor({ 1, dtype = "float32" }):dtype())
    assert.equal(2.5, pn.tensor(2.5):item())
    assert.same({ 0 }, pn.tensor({}):shape())
  end)

  it("tells its sizes as a list that prints", function()
    local s = pn.ones({ 2, 3 }):shape()
    assert.equal("[2, 3]", tostring(s))
    assert.equal("[]", tostring(pn.tensor(1):shape()))
    assert.same({ 2, 3, 2 }, { s[1], s[2], #s })
    assert.same({ 2, 3 }, { table.unpack(s) })
    assert.equal("2x3", table.concat(s, "x"))
    local path = os.tmpname()
    assert(pn.save(path, { x = pn.ones(2), sizes = s })) -- a plain list for all that asks
    assert.same({ 2, 3 }, pn.load(path).sizes)
    assert(pn.checkpoint.save(path, { sizes = s }))
    assert.same({ 2, 3 }, pn.checkpoint.load(path).sizes)
    os.remove(path)
    assert.same({ 2, 3 }, pn.tensor(s):to("int64"):totable())
    s[1] = "x"
    assert.equal("[x, 3]", tostring(s):gsub("?", "x"))
  end)

  it("takes sizes as a list or as numbers, options in either", function()
    assert.same({ 2, 3 }, pn.zeros({ 2, 3 }):shape())
    assert.same({ 2, 3 }, pn.zeros(2, 3):shape())
    assert.same({}, pn.ones():shape())
    assert.equal("int64", pn.ones({ 2, dtype = "int64" }):dtype())
    assert.equal("float32", pn.rand(2, 3, { dtype = "float32" }):dtype())
    assert.same({ 7, 7 }, pn.full({ 2 }, 7):totable())
    assert.same({ 1, 3, 5 }, pn.arange(1, 6, 2):totable())
    assert.same({ 0, 0.5, 1 }, pn.linspace(0, 1, 3):totable())
    assert.same({ { 1, 0 }, { 0, 1 } }, pn.eye(2):totable())
  end)

  it("says what is wrong", function()
    raises("one length, got 2 and 1", pn.tensor, { { 1, 2 }, { 3 } })
    raises("must be a list like the others", pn.tensor, { { 1 }, 2 })
    raises("must be a number like the others", pn.tensor, { 1, { 2 } })
    raises("numbers or booleans, got string", pn.tensor, { "a" })
    raises("pn.stack joins tensors", pn.tensor, { pn.ones(2) })
    raises("'dtype'", pn.zeros, { 2, dtyp = "int64" })
    raises("'float64', 'float32', 'int64' or 'bool'", pn.zeros, { 2, dtype = "double" })
    raises("sizes must not be negative", pn.zeros, { -1 })
    raises("whole number", pn.zeros, { 1.5 })
    raises("at most 8", pn.zeros, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    raises("memory", pn.zeros, 1 << 40)
    raises("must be a number", pn.full, { 2 }, {})
  end)
end)

describe("a number among tensors", function()
  it("takes the element type of the float tensors, whatever else is there", function()
    local f, b = pn.ones({ 2, dtype = "float32" }), pn.tensor { true, false }
    assert.equal("float32", (f * 2):dtype())
    assert.equal("float32", (2 - f):dtype())
    assert.equal("float32", pn.where(b, 0.5, f):dtype())
    assert.equal("float32", pn.where(b, f, 0.5):dtype())
    assert.equal("float64", pn.where(b, 1, 0.5):dtype())
    assert.equal("int64", (pn.ones({ 2, dtype = "int64" }) + 1):dtype())
  end)
end)

describe("indexing", function()
  local x = pn.arange(12):reshape { 3, 4 }

  it("counts from 1 and from the end", function()
    assert.same({ 0, 1, 2, 3 }, x[1]:totable())
    assert.same({ 8, 9, 10, 11 }, x[-1]:totable())
    assert.equal(6, x[{ 2, 3 }]:item())
    assert.same({ 1, 5, 9 }, x[{ {}, 2 }]:totable())
    assert.same({ 3, 7, 11 }, x[{ "...", -1 }]:totable())
  end)

  it("reshapes strided tensors as their copies", function()
    local function same(t, ...)
      local flat = t:numel()
      assert.same(t:contiguous():reshape(flat):totable(), t:reshape(...):reshape(flat):totable())
    end
    local cube = pn.arange(48):reshape { 2, 3, 8 }
    local part = cube:slice(3, 1, 6)
    same(part, 2, 3, 2, 3)
    same(part, 1, 2, 3, 1, 3, 2, 1)
    same(part, 2, 9, 2)
    same(cube:slice(3, 1, 6, 2), 6, 3)
    same(cube:slice(2, 1, 2), 4, 8)
    same(cube:slice(2, 1, 2), 2, 2, 2, 4)
    same(cube:slice(3, 8, 1, -1), 2, 3, 4, 2)
    same(cube:permute(3, 1, 2), 2, 4, 2, 3)
    same(cube:permute(3, 1, 2), 8, 6)
    same(pn.ones({ 3, 1 }):broadcast_to(3, 8), 3, 2, 4)
  end)

  it("takes ranges with both ends", function()
    assert.same({ { 5, 6 }, { 9, 10 } }, x[{ { 2, 3 }, { 2, 3 } }]:totable())
    assert.same({ { 3, 2, 1, 0 } }, x[{ { 1 }, { 4, 1, -1 } }]:totable())
    assert.same({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 } }, x[{ { 3, 1, -2 } }]:totable())
    assert.same({ { 1, 2 } }, x:slice(1, 1, 1):slice(2, 2, 3):totable())
    assert.same({ 0, 4 }, x[{ { 2, 1 } }]:shape())
    assert.same({ 3, 1 }, pn.arange(4):slice(1, -1, 1, -2):totable())
  end)

  it("takes index tensors, whose numbers are data and count from 0, and masks", function()
    assert.same({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 } }, x[pn.tensor({ 2, 0 }, int)]:totable())
    assert.same({ { 1, 0 }, { 5, 4 }, { 9, 8 } }, x[{ {}, pn.tensor({ 1, 0 }, int) }]:totable())
    assert.same({ 10, 11 }, x[x:gt(9)]:totable())
    assert.same({ { 4, 5, 6, 7 } }, x[pn.tensor { false, true, false }]:totable())
  end)

  it("lets gradients through", function()
    local w = pn.param(x)
    assert(pn.check_gradients(function()
      return w[{ { 2, 3 }, pn.tensor({ 1, 1, 3 }, int) }]:square()
    end, { w }, { order = 2 }))
    assert(pn.check_gradients(function()
      return w[x:gt(4.5)]:square()
    end, { w }))
  end)

  it("says what is wrong", function()
    raises("must lie in 1 .. 3 .*got 4", function()
      return x[4]
    end)
    raises("got 0", function()
      return x[0]
    end)
    raises("2 axes, got 3 entries", function()
      return x[{ 1, 1, 1 }]
    end)
    raises("step of a range must not be 0", function()
      return x[{ { 1, 2, 0 } }]
    end)
    raises("whole", function()
      return x[pn.tensor { 1.5 }]
    end)
    raises("no method or field 'shappe'", function()
      return x:shappe()
    end)
    raises("do not change", function()
      x[1] = 2
    end)
    raises("x:item", function()
      return pn.tensor(1)[1]
    end)
    raises("element by element", function()
      return x < x
    end)
  end)
end)

describe("printing", function()
  local function text(x, want)
    assert.equal(want, tostring(x))
  end

  it("is NumPy's", function()
    text(pn.tensor { { 1, 2 }, { 3, 4 } }, "[[1 2]\n [3 4]]\nfloat64 [2, 2]")
    text(pn.tensor { 1.5, -2, 0.25 }, "[ 1.50 -2.00  0.25]\nfloat64 [3]")
    text(pn.tensor { 1e-8, 1 }, "[1.0000e-08 1.0000e+00]\nfloat64 [2]")
    text(pn.tensor { 0 / 0, 1 / 0, -1 / 0, 1 }, "[ nan  inf -inf    1]\nfloat64 [4]")
    text(pn.tensor({ 1, 20 }, int), "[ 1 20]\nint64 [2]")
    text(pn.tensor { true, false }, "[ true false]\nbool [2]")
    assert.equal("2  float64 []", core.text(pn.tensor(2)))
    text(pn.zeros { 0, 3 }, "[]\nfloat64 [0, 3]")
    assert.equal("[1]\nfloat64 [1] parameter", core.text(pn.param(pn.ones(1))))
    assert.equal("[2]\nfloat64 [1] tracked", core.text(pn.param(pn.ones(1)) * 2))
  end)

  it("of one element is its number", function()
    for _, x in ipairs { pn.tensor(2), pn.tensor { 1 / 3 }, pn.tensor { { -7 } }, pn.tensor({ 5 }, int),
      pn.tensor(true), pn.tensor(0.1, { dtype = "float32" }), pn.param(3) } do
      text(x, tostring(x:item()))
      assert.equal(("loss %s!"):format(x:item()), ("loss %s!"):format(x))
      assert.equal("loss " .. tostring(x:item()), "loss " .. x)
    end
  end)

  it("breaks rows that are longer than a line of a terminal", function()
    local digits = {}
    for k = 0, 39 do
      digits[k + 1] = ("%2d"):format(k)
    end
    text(pn.arange(40), ("[%s\n %s]\nfloat64 [40]"):format(table.concat(digits, " ", 1, 26),
      table.concat(digits, " ", 27)))
    text(pn.arange(26), ("[%s]\nfloat64 [26]"):format(table.concat(digits, " ", 1, 26)))
    pn.seed(1)
    for _, x in ipairs { pn.randn { 1000 } * 1e-9, pn.randn { 3, 300 }, pn.randn { 2, 2, 2, 60 },
      pn.randn { 300 }:gt(0), pn.arange(999, int) + (1 << 62), pn.full({ 1000 }, 0 / 0),
      pn.randn { 5000, 3 }, pn.randn { 1000, 1 } } do
      local rows, whole = 0, tostring(x)
      for line in whole:gmatch "[^\n]+" do
        assert.is_true(#line <= 79, line)
        rows = rows + 1
      end
      assert(not whole:find " \n")
      local numbers = select(2, whole:gsub("\n%l+%d* %[[%d, ]*%]$", ""):gsub("[^%s%[%]]+", ""))
      assert.equal(x:numel() <= 1000 and x:numel() or numbers, numbers) -- none is lost
      assert.is_true(rows > 4)
    end
  end)

  it("shows the corners of a big one", function()
    local lines = {}
    for line in tostring(pn.zeros { 100, 100 }):gmatch "[^\n]+" do
      lines[#lines + 1] = line
    end
    assert.equal(8, #lines)
    assert.equal("[[0 0 0 ... 0 0 0]", lines[1])
    assert.equal(" ...", lines[4])
  end)
end)

describe("giving up", function()
  it("frees at once with close and <close>", function()
    collectgarbage()
    local before = pn.memory()
    do
      local x <close> = pn.zeros(1000000)
      assert.is_true(pn.memory() >= before + 8000000)
      assert.equal(1000000, x:numel())
    end
    assert.equal(before, (pn.memory()))
    local y = pn.zeros(2)
    y:close()
    y:close()
    assert.equal("tensor (closed)", tostring(y))
    raises("closed", function()
      return y + 1
    end)
    raises("closed", function()
      return y:shape()
    end)
  end)

  it("needs no collectgarbage in a loop", function()
    collectgarbage()
    local before, top = pn.memory(), 0
    for _ = 1, 2000 do
      local x = pn.zeros(100000)
      assert(x)
      top = math.max(top, (pn.memory()))
    end
    assert.is_true(top < before + 64e6, "peak " .. top)
  end)

  it("survives a finaliser that closes what a call is using", function()
    for _ = 1, 200 do
      local x, y = pn.rand(50), pn.rand(50)
      setmetatable({}, {
        __gc = function()
          x:close()
          y:close()
        end,
      })
      for _ = 1, 50 do
        local ok, message = pcall(function()
          return x:slice(1, 1, 20):sum() + (x * y):sum() + pn.stack({ x, y }):sum()
        end)
        assert.is_true(ok or message:find "closed" ~= nil, message)
      end
      collectgarbage "step"
    end
  end)

  it("copies parameters, which change", function()
    local w = pn.param(pn.tensor { { 1, 2 }, { 3, 4 } })
    local copy, turned, row, half = pn.tensor(w), pn.tensor(w:t()), pn.tensor(w[1]), pn.tensor(w, { dtype = "float32" })
    pn.optim.sgd({ w }, { lr = 0.5 }):step((w * w):sum())
    w:set(pn.full({ 2, 2 }, 7))
    assert.same({ { 1, 2 }, { 3, 4 } }, copy:totable())
    assert.same({ { 1, 3 }, { 2, 4 } }, turned:totable())
    assert.same({ 1, 2 }, row:totable())
    assert.same({ { 1, 2 }, { 3, 4 } }, half:totable())
    local f = pn.compile(function(x) return pn.tensor(w) * x end)
    for k = 1, 3 do
      w:set(pn.full({ 2, 2 }, k))
      local y = f(pn.full({ 2, 2 }, 2))
      w:set(pn.zeros(2, 2))
      assert.same({ { 2 * k, 2 * k }, { 2 * k, 2 * k } }, y:totable())
    end
  end)

  it("keeps its metatable to itself", function()
    assert.equal("penumbra.tensor", getmetatable(pn.zeros(1)))
    assert.has_error(function()
      setmetatable(pn.zeros(1), {})
    end)
    local net = pn.nn.linear(2, 3)
    assert.equal("penumbra.layer", getmetatable(net))
    assert.equal("penumbra.optimiser", getmetatable(pn.optim.sgd(net:parameters(), { lr = 1 })))
  end)
end)

describe("gradients", function()
  it("come as a list, in order, and can be differentiated again", function()
    local a, b = pn.param(pn.tensor { 2.0 }), pn.param(pn.tensor { 3.0 })
    local y = (a ^ 2 * b):sum()
    local g = pn.grad(y, { b, a }, { create_graph = true })
    assert.equal(4, g[1]:item())
    assert.equal(12, g[2]:item())
    local h = pn.grad(g[2]:sum(), { a, b })
    assert.equal(6, h[1]:item())
    assert.equal(4, h[2]:item())
  end)

  it("are left in parameters by backward, and added up", function()
    local w = pn.param(pn.tensor { 1.0, 2.0 })
    assert.is_nil(w:grad())
    w:square():sum():backward()
    w:square():sum():backward()
    assert.same({ 4, 8 }, w:grad():totable())
    w:clear_grad()
    assert.is_nil(w:grad())
  end)

  it("are not recorded inside no_grad, which restores itself after an error", function()
    local w = pn.param(pn.ones(2))
    assert.is_false(pn.no_grad(function()
      return (w * 2):requires_grad()
    end))
    assert.is_false((pcall(pn.no_grad, error, "x")))
    assert.is_true((w * 2):requires_grad())
    assert.is_false((w * 2):detach():requires_grad())
  end)

  it("of a changed parameter are refused", function()
    local w = pn.param(pn.ones(2))
    local y = w:square():sum()
    w:set(pn.zeros(2))
    raises("changed", y.backward, y)
  end)

  it("say what is wrong", function()
    local w = pn.param(pn.ones(2))
    raises("one element", function()
      (w * 2):backward()
    end)
    raises("does not depend", function()
      pn.ones(1):sum():backward()
    end)
    raises("list of tensors", function()
      pn.grad(w:sum(), w)
    end)
    raises("create_graph", function()
      pn.grad(w:sum(), { w }, { create_grph = true })
    end)
    raises("must be a parameter", function()
      pn.ones(1):set(pn.ones(1))
    end)
    for _, order in ipairs { 0, 3, 1.5 } do
      raises("check_gradients: order must be 1 or 2, got " .. order, function()
        pn.check_gradients(function() return w * w end, { w }, { order = order })
      end)
    end
    raises("check_gradients: order 1, params%[1%], element 1: gradient .* differences", function()
      pn.check_gradients(function() return w:detach():square() * w end, { w })
    end)
    local v = pn.param(pn.tensor { 0.09, 1 })
    local report = pn.check_gradients(function() return v * v end, { v })
    assert.is_true(report.error < 1e-9 and report.param == 1 and report.order == 1)
    assert.is_true(math.abs(report.gradient - report.differences) <= report.error * math.max(1, report.differences))
    assert.same({ 0.09, 1 }, v:totable()) -- the parameters come back
    -- gradient s_k and differences (1 + c_k) s_k, c = 1/2, 2, 1, with the weights s_k = sin(0.37 k + 1), k from 0
    local a, b, c = pn.param(pn.tensor { 4, 5 }), pn.param(pn.tensor { 6 }), pn.tensor { 0.5, 2, 1 }
    local function wrong()
      local x = pn.concatenate({ a, b }, 1)
      return x + x:detach() * c
    end
    report = pn.check_gradients(wrong, { a, b }, { tolerance = 1 })
    assert.same({ 1, 2, 1 }, { report.param, report.element, report.order })
    assert.is_true(math.abs(report.error - 2 / 3) < 1e-6)
    assert.is_true(math.abs(report.gradient - math.sin(1.37)) < 1e-12)
    assert.is_true(math.abs(report.differences - 3 * math.sin(1.37)) < 1e-6)
    raises("check_gradients: order 1, params%[1%], element 1", function() pn.check_gradients(wrong, { a, b }) end)
    report = pn.check_gradients(wrong, { b, a }, { tolerance = 1 })
    assert.same({ 2, 2 }, { report.param, report.element })
    -- values and first derivatives of u^3 / 3; no second one, where it must be 2 u
    local u = pn.param(pn.tensor { 0.5, -2 })
    local function cube() return u:detach():square() * (u - u:detach()) + (u ^ 3 / 3):detach() end
    assert.is_true(pn.check_gradients(cube, { u }).error < 1e-6)
    raises("check_gradients: order 2, params%[1%], element 1", function()
      pn.check_gradients(cube, { u }, { order = 2 })
    end)
    -- the sum of what f gives has gradient 0 for x - x of the other element, the weighted one has not
    raises("order 1", function()
      pn.check_gradients(function() return pn.stack { u[1], -u[1]:detach(), -u[2]:detach(), u[2] } end, { u })
    end)
  end)
end)

describe("random numbers", function()
  it("come again with the seed and the state", function()
    pn.seed(3)
    local a = pn.randn(5):totable()
    local state = pn.rng_state()
    local b = pn.randn(5):totable()
    pn.seed(3)
    assert.same(a, pn.randn(5):totable())
    pn.set_rng_state(state)
    assert.same(b, pn.randn(5):totable())
  end)

  it("come from generators of one's own", function()
    local g = pn.generator(1)
    local s = g:split(0)
    local a = pn.rand(4, { generator = g }):totable()
    assert.same(a, pn.rand(4, { generator = pn.generator(1) }):totable())
    assert.not_same(a, pn.rand(4, { generator = s }):totable())
    local p = pn.randperm(100, { generator = g }):sort():totable()
    assert.equal(99, p[100])
    local n = pn.randint(-2, 3, { 1000 })
    assert.equal(-2, n:min():item())
    assert.equal(2, n:max():item())
  end)
end)

describe("every row", function()
  it("has a line of help and its arguments", function()
    for _, row in ipairs(pn.rows()) do
      assert.not_equal("", row.doc, row.name)
      assert.is_true(#row.name > 1)
    end
  end)
end)
