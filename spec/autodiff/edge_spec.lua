--- Edges: gradients over empty axes, at kinks, of steps, at NaN; determinants and solutions with subnormal pivots;
--- division with a floor; means of whole numbers; lists of many tensors; what an error says about gradients.
local pn = require "penumbra"
local cases = require "spec.autodiff.op_case"

local nan, huge = 0 / 0, math.huge
local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
  assert.matches("edge_spec.lua:%d+: ", message)
end
local function same(want, got)
  assert.equal(#want, #got)
  for k, v in ipairs(want) do
    assert(v == got[k] or v ~= v and got[k] ~= got[k], ("element %d: %s for %s"):format(k, got[k], v))
  end
end
local function slope(f, at)
  local w = pn.param(pn.tensor(at))
  return pn.grad(f(w):sum(), {w})[1]:totable()
end

--- First and second gradients of y in w: they exist, have the shapes of w and are zero where nothing is added up.
local function differentiate(what, f, w)
  local y = f(w)
  local g = pn.grad((y * 2):sum(), w, {create_graph = true})
  local total
  for k, x in ipairs(w) do
    assert.same(x:shape(), g[k]:shape(), what)
    local part = g[k]:square():sum() + (x * g[k]):sum()
    total = total and total + part or part
  end
  for k, h in ipairs(pn.grad(total, w)) do
    assert.same(w[k]:shape(), h:shape(), what)
    if y:numel() == 0 then assert.equal(0, h:abs():sum():item(), what) end
  end
end

describe("an empty axis", function()
  local tried = 0
  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden and row.differentiable and not row.once then
      it("has gradients of " .. row.name, function()
        for _, shape in ipairs{{0, 3}, {2, 0}, {0}, {2, 0, 3}, {0, 0}, {2, 3, 0}} do
          local ok, call, inputs = pcall(cases.case, row, "float64", shape)
          if ok and pcall(call, inputs) then
            tried = tried + 1
            differentiate(row.name .. " of " .. table.concat(shape, " x "), call, cases.params(inputs))
          end
        end
      end)
    end
  end
  it("was tried often", function() assert.is_true(tried > 300) end)

  local function zeros(...) return pn.param(pn.ones{...}) end
  for name, case in pairs{
    ["matrices"] = {function(x) return x[1]:matmul(x[2]) end, {2, 0}, {0, 3}},
    ["a batch"] = {function(x) return x[1]:matmul(x[2]) end, {4, 2, 0}, {0, 3}},
    ["a batch of nothing"] = {function(x) return x[1]:matmul(x[2]) end, {0, 2, 3}, {3, 4}},
    ["a batch by a vector"] = {function(x) return x[1]:matmul(x[2]) end, {4, 2, 0}, {0}},
    ["two batches"] = {function(x) return x[1]:matmul(x[2]) end, {4, 2, 0}, {4, 0, 3}},
    ["two broadcast batches"] = {function(x) return x[1]:matmul(x[2]) end, {4, 1, 2, 0}, {5, 0, 3}},
    ["vectors"] = {function(x) return x[1]:matmul(x[2]) end, {0}, {0}},
    ["a vector by matrices"] = {function(x) return x[1]:matmul(x[2]) end, {0}, {5, 0, 3}},
    ["no rows"] = {function(x) return x[1]:matmul(x[2]) end, {0, 3}, {3, 2}},
    ["no columns"] = {function(x) return x[1]:matmul(x[2]) end, {2, 3}, {3, 0}},
    ["einsum"] = {function(x) return pn.einsum("bij,jk->bik", x[1], x[2]) end, {4, 2, 0}, {0, 3}},
    ["einsum that sums"] = {function(x) return pn.einsum("ij,ij->i", x[1], x[2]) end, {2, 0}, {2, 0}},
    ["einsum of three"] = {function(x) return pn.einsum("ij,jk,kl->il", x[1], x[2], x[3]) end, {2, 0}, {0, 3}, {3, 2}},
    ["convolution without images"] = {function(x) return x[1]:conv2d(x[2]) end, {0, 2, 4, 4}, {3, 2, 2, 2}},
    ["convolution without channels"] = {function(x) return x[1]:conv2d(x[2]) end, {2, 0, 4, 4}, {3, 0, 2, 2}},
    ["convolution without results"] = {function(x) return x[1]:conv2d(x[2]) end, {2, 2, 4, 4}, {0, 2, 2, 2}},
    ["transposed convolution"] = {function(x) return x[1]:conv_transpose2d(x[2]) end, {2, 0, 4, 4}, {0, 2, 2, 2}},
    ["solutions"] = {function(x) return x[1]:solve(x[2]) end, {4, 0, 0}, {4, 0, 2}},
    ["no right sides"] = {function(x) return (x[1] + pn.eye(2)):solve(x[2]) end, {2, 2}, {2, 0}},
    ["determinants"] = {function(x) return x[1]:det() + x[1]:logdet() end, {3, 0, 0}},
    ["concatenation"] = {function(x) return pn.concatenate({x[1], x[2]}, 2) end, {2, 0}, {2, 3}},
    ["pooling"] = {function(x) return x[1]:max_pool2d(2) + x[1]:avg_pool2d(2) end, {0, 2, 4, 4}},
  } do
    it("has gradients in a product: " .. name, function()
      local w = {}
      for k = 2, #case do w[k - 1] = zeros(table.unpack(case[k])) end
      differentiate(name, case[1], w)
    end)
  end

  it("has gradients in layers", function()
    for _, shape in ipairs{{0, 3}, {5, 0, 3}, {0, 2, 3}} do
      local layer = pn.nn.linear(3, 4)
      local x = zeros(table.unpack(shape))
      differentiate("linear", function(w) return layer(w[1]) end, {x})
      differentiate("linear", function() return layer(x) end, layer:parameters())
    end
  end)
end)

describe("a slope", function()
  it("at NaN is NaN", function()
    local nn = pn.nn
    local fs = {
      relu = pn.relu, abs = pn.abs, elu = nn.elu(), leaky_relu = nn.leaky_relu(), gelu = nn.gelu(), silu = nn.silu(),
      softplus = pn.softplus, tanh = pn.tanh, sigmoid = pn.sigmoid, log_sigmoid = pn.log_sigmoid,
      maximum = function(x) return x:maximum(0) end, minimum = function(x) return x:minimum(0) end,
      other_maximum = function(x) return pn.maximum(0, x) end, clamp = function(x) return x:clamp(-0.5, 0.5) end,
      max = function(x) return x:max() end, min = function(x) return x:min(1) end,
      logsumexp = function(x) return x:logsumexp() end, square = pn.square, exp = pn.exp, sqrt = pn.sqrt,
    }
    for name, f in pairs(fs) do
      for _, other in ipairs{1, -1, huge} do
        local w = pn.param(pn.tensor{nan, other})
        local y = f(w)
        assert(y:sum():item() ~= y:sum():item(), name)
        local g = pn.grad(y:sum(), {w})[1]:totable()
        assert(g[1] ~= g[1], name .. " has a slope at NaN")
      end
    end
    for _, name in ipairs{"maximum", "minimum"} do
      local a, b = pn.param(pn.tensor{nan, 1, nan}), pn.param(pn.tensor{1, nan, nan})
      for _, g in ipairs(pn.grad(a[name](a, b):sum(), {a, b})) do same({nan, nan, nan}, g:totable()) end
    end
    local x = pn.param(pn.tensor{{{{1, nan}, {2, 3}}}})
    same({0, 1, 0, 0}, pn.grad(x:max_pool2d(2):sum(), {x})[1]:reshape(4):totable())
  end)

  -- values: the definitions at kinks that PyTorch has (torch 2: elu, leaky_relu, relu, maximum, clamp)
  it("at a kink is that of the branch that holds it", function()
    local nn = pn.nn
    same({1, 1, math.exp(-1)}, slope(nn.elu(), {0, 2, -1}))
    same({0.5}, slope(nn.elu{alpha = 0.5}, {0}))
    same({0.01, 1, 0.01}, slope(nn.leaky_relu(), {0, 2, -1}))
    same({0, 1, 0}, slope(pn.relu, {0, 2, -1}))
    same({0.5, 1, 0}, slope(function(x) return x:maximum(0) end, {0, 2, -1}))
    same({0.5, 0, 1}, slope(function(x) return x:minimum(0) end, {0, 2, -1}))
    local other = pn.tensor{huge, 5, -huge, huge}
    same({0.5, 1, 0.5, 0}, slope(function(x) return x:maximum(other) end, {huge, huge, -huge, 2}))
    same({1, 1, 0, 0, 1}, slope(function(x) return x:clamp(-1, 1) end, {-1, 1, 2, -huge, 0}))
    same({0, -1, 1}, slope(pn.abs, {0, -3, 3}))
    same({-1, 0, 1.5, huge}, pn.nn.elu()(pn.tensor{-huge, 0, 1.5, huge}):totable())
    same({-0.02, 0, 2, huge}, pn.nn.leaky_relu()(pn.tensor{-2, 0, 2, huge}):totable())
  end)

  it("lets a network that begins with zeros learn", function()
    local layer, act = pn.nn.linear(2, 1), pn.nn.elu()
    for _, w in ipairs(layer:parameters()) do w:set(pn.zeros(w:shape())) end
    local g = pn.grad(act(layer(pn.ones{3, 2})):sum(), layer:parameters())
    assert.is_true(g[1]:abs():min():item() > 0)
  end)

  it("has slopes of its own", function()
    local function limited(x) return x:clamp(-0.8, 0.7) end
    for _, f in ipairs{pn.nn.elu(), pn.nn.leaky_relu{slope = 0.3}, pn.relu, limited} do
      local w = pn.param(pn.tensor{-2, -0.5, 0.3, 1.5})
      assert(pn.check_gradients(function() return f(w):square() end, {w}, {order = 2}))
    end
    for _, name in ipairs{"maximum", "minimum"} do
      local a, b = pn.param(pn.tensor{1, 2, 3}), pn.param(pn.tensor{2, 1, 5})
      assert(pn.check_gradients(function() return pn[name](a, b):square() end, {a, b}, {order = 2}))
    end
  end)

  it("of a step is zero, to any order", function()
    for _, name in ipairs{"floor", "ceil", "round", "sign", "det_sign"} do
      local w = pn.param(name == "det_sign" and pn.eye(2) * 3 or pn.tensor{1.2, -2.7, 0, nan})
      local g = pn.grad(pn[name](w):sum(), {w}, {create_graph = true})[1]
      assert.same(w:shape(), g:shape())
      assert.equal(0, g:abs():sum():item())
      if name ~= "det_sign" then same({3, 5}, slope(function(x) return x * x + pn[name](x) end, {1.5, 2.5})) end
    end
    local w = pn.param(pn.tensor{5.5, -5.5})
    local y = w // 2
    assert.same({2, -3}, y:totable())
    assert.same({0, 0}, pn.grad(y:sum(), {w})[1]:totable())
    assert.equal(0, pn.grad((pn.eye(2) * pn.param(pn.tensor(2.0))):slogdet():sum(), {w})[1]:sum():item())
  end)

  it("is not there for whole numbers and truth values, and the error says so", function()
    local w = pn.param(pn.randn{3})
    for _, y in ipairs{w:argmax():to "float64", w:gt(0):to("float64"):sum()} do
      raises("whole numbers or truth values, which have no gradient", function() pn.grad(y, {w}) end)
    end
  end)

  it("in data is refused with the way to have it", function()
    local x = pn.tensor{1, 2}
    raises("input 1 must be a parameter or depend on one, got data %(call x:requires_grad%(true%)", function()
      pn.grad((x * x):sum(), {x})
    end)
    local ok, message = pcall(pn.compile(function(t) return pn.grad((t * t):sum(), {t})[1] end), x)
    assert.is_false(ok)
    assert.matches("call x:requires_grad%(true%) before anything is computed from it", message)
    local f = pn.compile(function(t) return pn.grad((t * t):sum(), {t:requires_grad(true)})[1] end)
    assert.has_error(function() f(x) end) -- too late: t * t is made first
    f = pn.compile(function(t)
      t:requires_grad(true)
      return pn.grad((t * t):sum(), {t})[1]
    end)
    for k = 1, 3 do assert.same({2 * k, 4 * k}, f(x * k):totable()) end
  end)
end)

describe("a subnormal number", function()
  it("counts as zero in a product of float32, and nowhere else", function()
    local small = pn.full({ 64, 64 }, 1e-20, { dtype = "float32" })
    local image = small:reshape { 1, 1, 64, 64 }
    local kernel = pn.full({ 3, 1, 5, 5 }, 1e-20, { dtype = "float32" })
    for _, y in ipairs { small:matmul(small), pn.conv2d(image, kernel) } do
      local most = y:abs():max():item() -- zero on x86, where it would be slow
      assert.is_true(most == 0 or math.abs(most - (y:ndim() == 2 and 64 or 25) * 1e-40) < 1e-44, most)
      assert.is_true((small * small):min():item() > 0)
      assert.is_true(pn.full({ 64, 64 }, 1e-160):matmul(pn.full({ 64, 64 }, 1e-160)):min():item() > 0)
    end
  end)
end)

describe("a subnormal pivot", function()
  local tiny, least = 1e-310, 5e-324
  local function diagonal(...) return pn.diag_embed(pn.tensor{...}) end
  local function many(a, n) return a:broadcast_to{n, 2, 2}:contiguous() end

  it("has a determinant, its logarithm and its sign, alone and in a batch", function()
    for _, entry in ipairs{{diagonal(1, tiny), tiny}, {diagonal(tiny, -2), -2 * tiny}, {diagonal(least, 1), least},
      {pn.tensor{{0, tiny}, {1, 0}}, -tiny}, {pn.tensor{{1, 1e-310}, {1, 3e-310}}, 3e-310 - 1e-310},
      {pn.tensor{{1, 1}, {tiny, 3 * tiny}}, 3 * tiny - tiny}} do
      for _, n in ipairs{1, 3, 4, 9} do
        local a = many(entry[1], n)
        for k = 1, n do
          assert.equal(entry[2], a:det():totable()[k])
          assert(math.abs(a:logdet():totable()[k] - math.log(math.abs(entry[2]))) < 1e-12 * 800)
          local sign, log_abs = a:slogdet()
          assert.equal(entry[2] > 0 and 1 or -1, sign:totable()[k])
          assert.equal(a:logdet():totable()[k], log_abs:totable()[k])
        end
      end
    end
  end)

  it("stands between others of a batch that keep their digits", function()
    local a = pn.randn{16, 2, 2} + pn.eye(2) * 3
    local mixed = pn.concatenate({a, many(diagonal(1, tiny), 3), a}, 1)
    assert.same(a:det():totable(), mixed:det():slice(1, 1, 16):totable())
    assert.same(a:inverse():totable(), mixed:inverse():slice(1, 20, 35):totable())
  end)

  it("is divided by", function()
    for _, n in ipairs{1, 4} do
      local a = many(diagonal(1, tiny), n)
      local b = pn.tensor{{3}, {2 * tiny}}:broadcast_to{n, 2, 1}
      for _, x in ipairs{a:solve(b), a:solve_triangular(b), a:solve_triangular(b, {upper = true}),
        diagonal(1, tiny):solve(b), diagonal(1, tiny):solve_triangular(b), pn.tensor{{3, 2 * tiny}}:broadcast_to{n, 2}
          :reshape(n, 2, 1):contiguous() / pn.tensor{{1}, {tiny}}} do
        for k = 1, n do same({3, 2}, x:reshape(n, 2):totable()[k]) end
      end
      for k = 1, n do same({1, 0, 0, huge}, a:inverse():reshape(n, 4):totable()[k]) end
    end
    local one = pn.tensor{{tiny}}:broadcast_to{5, 1, 1}
    same({1, 1, 1, 1, 1}, one:solve(pn.full({5, 1, 1}, tiny)):reshape(5):totable())
    local shared = pn.tensor{{1, 0}, {5, tiny}}:solve_triangular(pn.tensor{{1, 5 + 0.0}, {2, 10}}:reshape(2, 2, 1))
    same({1, 0, 2, 0}, shared:reshape(4):totable())
  end)

  it("has the gradients that are defined", function()
    for _, n in ipairs{1, 4} do
      local w = pn.param(many(diagonal(1, tiny), n))
      for k = 1, n do
        same({tiny, 0, 0, 1}, pn.grad(w:det():sum(), {w})[1]:reshape(n, 4):totable()[k])
        same({1, 0, 0, huge}, pn.grad(w:logdet():sum(), {w})[1]:reshape(n, 4):totable()[k])
      end
    end
  end)

  it("in float32 is another one", function()
    local a = diagonal(1, 1e-40):to "float32"
    local want = pn.tensor({1e-40}, {dtype = "float32"}):totable()[1]
    assert.equal(want, a:det():item())
    assert.equal(want, many(a, 9):det():totable()[9])
    same({1, 1}, a:solve(pn.tensor({1, 1e-40}, {dtype = "float32"})):totable())
  end)

  it("is not the only way out of range: products of pivots in between", function()
    local a = diagonal(1e-200, 1e-200, 1e300, 1e100)
    assert(math.abs(a:det():item() - 1) < 1e-12)
    assert(math.abs(a:broadcast_to{8, 4, 4}:det():totable()[3] - 1) < 1e-12)
    assert.equal(0, diagonal(1e-200, 1e-200):det():item())
    assert.equal(huge, diagonal(1e200, 1e200):det():item())
    assert.equal(0, diagonal(1, 0):det():item())
    assert.equal(-huge, diagonal(1, 0):logdet():item())
  end)
end)

describe("division with a floor", function()
  it("is Lua's", function()
    local golden = dofile "spec/golden/tensor/floor_divide.lua".floor_divide
    local int = {dtype = "int64"}
    for _, v in ipairs(golden.whole) do
      assert.equal(v[3], (pn.tensor({v[1]}, int) // pn.tensor({v[2]}, int)):totable()[1])
      assert.equal(v[1] // v[2], v[3])
    end
    for _, v in ipairs(golden.real) do
      assert.equal(v[3], (pn.tensor{v[1]} // v[2]):item())
      assert.equal(v[3], (v[1] // pn.tensor{v[2]}):item())
      assert.equal(v[1] // v[2], v[3])
    end
    assert.same({0, math.mininteger}, (pn.tensor({5, math.mininteger}, int) // pn.tensor({0, -1}, int)):totable())
    same({huge, -huge, nan}, (pn.tensor{1, -1, 0} // 0):totable())
    assert.equal("int64", (pn.tensor({5}, int) // 2):dtype())
    local x, y = pn.randint(-50, 50, {200}), pn.randint(1, 9, {200})
    assert.same(x:totable(), ((x // y) * y + x % y):totable())
  end)
end)

describe("the mean", function()
  it("of whole numbers and truth values is a float of the default dtype", function()
    local x = pn.tensor({{1, 2}, {4, 6}}, {dtype = "int64"})
    assert.equal(3.25, x:mean():item())
    assert.same({2.5, 4}, x:mean(1):totable())
    assert.equal("float64", x:mean():dtype())
    assert.equal(0.75, pn.tensor{true, true, false, true}:mean():item())
    assert.same({2.5, 4}, pn.compile(function(t) return t:mean(1) end)(x):totable())
    pn.default_dtype "float32"
    local dtype = x:mean():dtype()
    pn.default_dtype "float64"
    assert.equal("float32", dtype)
  end)
end)

describe("a list of tensors", function()
  it("may be long", function()
    local w = {}
    for k = 1, 300 do w[k] = pn.param(pn.tensor{k}) end
    local y = pn.concatenate(w, 1)
    assert.same({300, 1}, pn.stack(w):shape())
    local g = pn.grad((y * y):sum() + (pn.stack(w, 2) * 3):sum(), w)
    for k = 1, 300 do assert.same({2 * k + 3}, g[k]:totable()) end
    local f = pn.compile(function(x)
      local parts = {}
      for k = 1, 200 do parts[k] = x * k end
      return pn.concatenate(parts, 1), pn.stack(parts)
    end)
    local a, b = f(pn.ones{2})
    assert.same({400}, a:shape())
    assert.equal(200, b:max():item())
    raises("element 300 must be a tensor", function()
      w[300] = "x"
      pn.stack(w)
    end)
  end)
end)

describe("tensors without an axis", function()
  it("are refused by what needs one", function()
    local x, at = pn.tensor(5), pn.tensor({100000000}, {dtype = "int64"})
    raises("take: tensor must have an axis", pn.take, x, 1, at)
    raises("gather: tensor must have an axis", pn.gather, x, 1, pn.tensor(7, {dtype = "int64"}))
    raises("scatter_add: tensor must have an axis", pn.scatter_add, x, 1, pn.tensor(7, {dtype = "int64"}), x)
    for _, row in ipairs(pn.rows()) do
      if row.kind == "op" and not row.hidden and row.args:find "axis:a" and not row.args:find "index" then
        raises("axis", function()
          local list = row.args:find "list:T" ~= nil
          local _, commas = row.args:gsub(" ", "")
          return pn[row.name](table.unpack({list and {x, x} or x, 1, 1, 1}, 1, commas + 1))
        end)
      end
    end
  end)
end)

describe("transpose", function()
  it("swaps the last two axes unless told which", function()
    local x = pn.randn{2, 3, 4}
    assert.same(x:t():totable(), x:transpose():totable())
    assert.same({4, 3, 2}, pn.transpose(x, 1, 3):shape())
    raises("transpose: tensor must have at least 2 axes, got 1", function() pn.ones{3}:transpose() end)
    raises("transpose: axis", function() x:transpose(1) end)
  end)
end)

describe("steps", function()
  it("have slope 0 also at NaN and the infinities", function()
    for _, name in ipairs { "floor", "ceil", "round", "trunc", "sign" } do
      for _, dtype in ipairs { "float64", "float32" } do
        local x = pn.param(pn.tensor({ 0 / 0, 1.5, -2.5, 1 / 0, -1 / 0, 0 }, { dtype = dtype }))
        assert.same({ 0, 0, 0, 0, 0, 0 }, pn.grad(pn[name](x):sum(), { x })[1]:totable(), name)
      end
    end
  end)
end)

describe("remainder", function()
  it("is exact where the quotient is not, and as Lua's % at infinity and 0", function()
    for _, case in ipairs { { 1e17, 3 }, { -1e17, 3 }, { 1e300, -7 }, { -5, math.huge }, { 5, -math.huge },
      { -6, 3 } } do
      local got = pn.remainder(pn.tensor(case[1]), pn.tensor(case[2])):item()
      assert.equal(math.fmod(case[1] + 0.0, case[2]) == 0 and 0 or case[1] % case[2], got)
    end
    assert.is_true(pn.remainder(pn.tensor(5), pn.tensor(0)):isnan():item())
  end)
end)
