-- One function for a batch of examples: every operation, and its gradient, batched in any of its inputs, is what a loop
-- over the examples gives; gradients of each example's loss; composition with gradients and replays.
local pn = require "penumbra"
local ops = require "spec.autodiff.op_case"

local N = 3

local function off(got, want, what, limit)
  assert.are.same(want:shape(), got:shape(), what)
  assert.are.equal(want:dtype(), got:dtype(), what)
  if want:dtype() == "bool" or want:dtype() == "int64" then
    assert.is_true(want:numel() == 0 or got:eq(want):all():item(), what)
    return
  end
  local worst = want:numel() == 0 and 0 or ((got - want):abs() - want:abs() * limit):max():item()
  assert(worst <= limit, ("%s: off by %.3g"):format(what, worst))
end

-- Examples of an input: each scaled by a number of its own, inside its domain.
local function examples_of(x, domain)
  local list = {}
  local lo, hi = domain and domain[1] or 0, domain and domain[2] or 0
  for i = 1, N do
    local s = 1 - 0.06 * (i - 1)
    list[i] = (lo == 0 and hi == 0 or lo == -math.huge) and x * s or (x - lo) * s + lo
  end
  return pn.stack(list, 1)
end

local function each(f, inputs, mapped, batch)
  local parts
  for i = 1, N do
    local at = {}
    for k = 1, #inputs do at[k] = mapped[k] and batch[k][i] or inputs[k] end
    local out = table.pack(f(table.unpack(at)))
    parts = parts or {}
    for r = 1, out.n do
      parts[r] = parts[r] or {}
      parts[r][i] = out[r]
    end
  end
  for r = 1, #parts do parts[r] = pn.stack(parts[r], 1) end
  return parts
end

describe("vmap of", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden and row.name ~= "nonzero" then
      it(row.name .. " is a loop over the examples, whatever is mapped", function()
        local call, inputs = ops.case(row, "float64", row.square and {2, 3, 3} or {2, 3})
        local function f(...)
          local list = {...}
          local y = call(list)
          if not row.differentiable then return y end
          for k = 1, #list do list[k] = list[k]:detach():requires_grad(true) end
          local z = call(list)
          local weight = (pn.arange(z:numel(), {dtype = z:dtype()}) * 0.37 + 1):sin():reshape(z:shape())
          return y, table.unpack(pn.grad((z * weight):sum(), list))
        end
        for set = 1, (1 << #inputs) - 1 do
          if #inputs < 4 or set == (1 << #inputs) - 1 or set & (set - 1) == 0 then
            local mapped, axes, batch, given = {}, {}, {}, {}
            for k, x in ipairs(inputs) do
              mapped[k] = set >> (k - 1) & 1 == 1
              axes[k] = mapped[k] and 1
              batch[k] = examples_of(x, row.domain[k])
              given[k] = mapped[k] and batch[k] or x
            end
            local got = {pn.vmap(f, {in_axes = axes})(table.unpack(given))}
            local want = each(f, inputs, mapped, batch)
            assert.are.equal(#want, #got)
            for r = 1, #want do
              off(got[r], want[r], ("%s, inputs %d, result %d"):format(row.name, set, r), 1e-11)
            end
          end
        end
      end)
    end
  end

  local weight = pn.param(pn.randn({4, 3}, {generator = pn.generator(1)}))
  local x = pn.randn({5, 4}, {generator = pn.generator(2)})
  local function f(row) return row:reshape{1, 4}:matmul(weight):tanh():sum() end

  it("a function with parameters outside has gradients in them and in its argument", function()
    local leaf = x:detach():requires_grad(true)
    local got = pn.grad((pn.vmap(f)(leaf) * pn.arange(5)):sum(), {weight, leaf})
    local want = pn.grad((leaf:matmul(weight):tanh():sum(2) * pn.arange(5)):sum(), {weight, leaf})
    for k = 1, 2 do off(got[k], want[k], "gradient " .. k, 1e-12) end
  end)

  it("what is cut off from the graph stays cut off", function()
    local leaf = x:detach():requires_grad(true)
    local y = pn.vmap(function(row) return (row:detach() * row):sum() end)(leaf)
    off(pn.grad(y:sum(), {leaf})[1], x, "detach", 1e-15)
    local z = pn.vmap(function(row) return pn.no_grad(function() return row * 2 end) * row end)(leaf)
    off(pn.grad(z:sum(), {leaf})[1], x * 2, "no_grad", 1e-15)
    local function outside(row) return pn.no_grad(function() return row * 2 end), row * 3, row:detach() * 4 end
    local a, b, d = pn.vmap(outside)(leaf)
    assert.are.same({false, true, false}, {a:requires_grad(), b:requires_grad(), d:requires_grad()})
  end)

  it("a vmap is the function of both axes", function()
    local all = pn.vmap(pn.vmap(function(a) return a * a end))(x)
    off(all, x * x, "twice", 1e-15)
  end)

  it("other axes, no examples, one example and results that are the same for all", function()
    off(pn.vmap(function(a) return a:sum() end, {in_axes = {2}})(x), x:sum(1), "axis 2", 1e-12)
    off(pn.vmap(function(a) return a:sum() end, {in_axes = {-1}})(x), x:sum(1), "axis -1", 1e-12)
    off(pn.vmap(f)(pn.zeros{0, 4}), pn.zeros{0}, "none", 0)
    off(pn.vmap(function(a) return a:softmax(1), pn.ones{2} end)(pn.zeros{0, 4}), pn.zeros{0, 4}, "none", 0)
    off(pn.vmap(f)(x:slice(1, 1, 1)), f(x[1]):reshape{1}, "one", 1e-14)
    local same, own = pn.vmap(function(a) return pn.ones{2} * 3, a end)(x)
    off(same, pn.full({5, 2}, 3), "constant", 0)
    off(own, x, "itself", 0)
  end)

  it("is replayed to the same bits, with parameters read in place and arguments of the replay outside", function()
    local function outer(rows, scale)
      local factor = scale * 2
      return pn.vmap(function(row) return f(row) * factor:exp() end)(rows)
    end
    local compiled = pn.compile(outer)
    for k = 1, 3 do
      local rows, scale = x * k, pn.tensor(0.1 * k)
      off(compiled(rows, scale), outer(rows, scale):detach(), "call " .. k, 0)
      weight:set(weight * 0.9)
    end
    assert.are.equal(1, compiled:captures())
  end)

  it("what differs from example to example is refused, and so are draws and what is no tensor", function()
    local function message(g, ...)
      local ok, text = pcall(pn.vmap(g), ...)
      assert.is_false(ok)
      return text
    end
    assert.matches("random numbers", message(function(a) return a + pn.randn{4} end, x))
    assert.matches("differ", message(function(a) return a * a:sum():item() end, x))
    assert.matches("result 1 of f must be a tensor, got number", message(function() return 1 end, x))
    assert.matches("as many examples", message(function(a, b) return a + b end, x, pn.ones{4}))
    assert.matches("axis 1 of examples", message(function(a) return a end, pn.tensor(1)))
    assert.matches("boom", message(function() error "boom" end, x))
    for _, axis in ipairs { 1.5, "x", true, {} } do
      assert.error_matches(function() pn.vmap(f, { in_axes = { axis } })(x) end,
        "vmap: in_axes%[1%] must be an axis or false, got")
    end
    for _, axis in ipairs { 0, 3, -3 } do
      local told = ("argument 1 must have axis %d of examples, got shape"):format(axis)
      assert.error_matches(function() pn.vmap(f, { in_axes = { axis } })(x) end, told, 1, true)
    end
    off(pn.vmap(f)(x), x:matmul(weight):tanh():sum(2):detach(), "afterwards", 1e-12)
    local outer = pn.compile(function(a, s) return pn.vmap(function(row) return row * s:item() end)(a) end)
    assert.has_error(function() outer(x, pn.tensor(2)) end)
  end)
end)

describe("per_example_grad", function()
  local nn = pn.nn

  -- against one gradient per example
  local function against_loop(f, net, batch, limit)
    local params = net.parameters and net:parameters() or net
    local grads, losses = pn.per_example_grad(f, net, batch)
    assert.are.equal(#params, #grads)
    local n = batch[1]:size(1)
    for i = 1, n do
      local one = {}
      for k, t in ipairs(batch) do one[k] = t:slice(1, i, i) end
      local loss = f(table.unpack(one))
      off(losses[i], loss:detach():reshape {}, "loss", limit)
      for k, g in ipairs(pn.grad(loss, params)) do
        off(grads[k][i], g, ("example %d, parameter %d"):format(i, k), limit)
      end
    end
  end

  local function cross_entropy(net)
    return function(x, y) return -net(x):log_softmax(-1):gather(2, y:unsqueeze(2)):mean() end
  end

  it("of a network of linear layers", function()
    pn.seed(4)
    for _, activation in ipairs{"relu", "tanh", "softplus"} do
      local net = nn.sequential{nn.linear(6, 5), nn[activation](), nn.linear(5, 3)}
      against_loop(cross_entropy(net), net, {pn.randn{7, 6}, pn.randint(0, 3, {7})}, 1e-12)
    end
  end)

  it("of convolutions and pooling", function()
    pn.seed(5)
    local kernel, net = pn.param(pn.randn{4, 1, 3, 3}), nn.linear(16, 3)
    local module = nn.module{kernel = kernel, net = net, forward = function(self, x)
      local h = x:conv2d(self.kernel, 1, 1):relu():max_pool2d(2)
      return self.net(h:avg_pool2d(2):reshape{x:size(1), 16})
    end}
    against_loop(cross_entropy(module), module, {pn.randn{4, 1, 8, 8}, pn.randint(0, 3, {4})}, 1e-11)
  end)

  it("of a table of embeddings", function()
    pn.seed(6)
    local table_of, out = pn.param(pn.randn{9, 3}), pn.param(pn.randn{3})
    local holder = {table_of, out}
    against_loop(function(y) return (table_of:take(1, y):tanh():sum(2) * out):sum():square() end, holder,
      {pn.randint(0, 9, {5, 4})}, 1e-12)
  end)

  it("sums to the gradient of the batch, float32 too", function()
    pn.seed(7)
    pn.default_dtype "float32"
    local net = nn.sequential{nn.linear(20, 10), nn.relu(), nn.linear(10, 4)}
    local x, y = pn.randn{32, 20}, pn.randint(0, 4, {32})
    pn.default_dtype "float64"
    local f = cross_entropy(net)
    local grads = pn.per_example_grad(f, net, {x, y})
    for k, g in ipairs(pn.grad(f(x, y), net:parameters())) do off(grads[k]:mean(1), g, "mean", 1e-5) end
  end)

  it("refuses losses of more than one element and holders of nothing", function()
    local net = nn.linear(2, 2)
    assert.has_error(function() pn.per_example_grad(function(x) return net(x) end, net, pn.ones{3, 2}) end,
      "per_example_grad: f must give one element for a batch of one, got shape [1, 2]")
    local function loss(x) return net(x):sum() end
    local function refused(text, ...)
      local ok, message = pcall(pn.per_example_grad, ...)
      assert.is_false(ok)
      assert.is_true(message:find("per_example_grad: " .. text, 1, true) ~= nil, message)
    end
    local x = pn.ones{3, 2}
    refused("there is no parameter in params", loss, {}, x)
    refused("f must be a function, got", 3, net, x)
    refused("params must be a list of parameters or a network, got number", loss, 3, x)
    refused("batch must be a table, got", loss, net, 3)
    refused("batch[2] must be a tensor, got", loss, net, {x, 3})
    refused("batch[2] must have an axis of examples, got a 0-d tensor", loss, net, {x, pn.tensor(1)})
    refused("what f gives must be a tensor, got", function() return 3 end, net, x)
    refused("boom", function() error("per_example_grad: boom", 0) end, net, x)
    local w = pn.param(pn.tensor{2, -1}) -- one tensor instead of a list, for parameters and batch
    local grads, losses = pn.per_example_grad(function(row) return (row * w):sum():square() end, w,
      pn.tensor{{1, 3}, {2, 0}})
    assert.same({{{-2, -6}, {16, 0}}}, {grads[1]:totable()})
    assert.same({1, 16}, losses:totable())
    assert.equal(1, #grads)
    assert.is_false(losses:requires_grad())
    losses = select(2, pn.per_example_grad(function(row) return (row * w):sum(2) end, w, pn.ones{3, 2}))
    assert.same({3}, losses:shape())
    for _, case in ipairs{{"f must be a function", 3}, {"there must be at least one tensor", function() end},
      {"argument 2 must be a tensor", function() end, x, 3}} do
      local ok, message = pcall(function() return pn.vmap(case[2])(table.unpack(case, 3)) end)
      assert.is_false(ok)
      assert.matches("vmap: " .. case[1], message)
    end
  end)
end)
