-- nn.mlp is the sequential that one would write, with the same draws; its errors.
local pn = require "penumbra"
local nn = pn.nn

local function same(a, b)
  local p, q = a:named_parameters(), b:named_parameters()
  assert.equal(#q, #p)
  for k, entry in ipairs(q) do
    assert.equal(entry[1], p[k][1])
    assert.equal(entry[2]:dtype(), p[k][2]:dtype())
    assert.same(entry[2]:totable(), p[k][2]:totable())
  end
end

describe("mlp", function()
  it("is the layers one would write", function()
    for _, dtype in ipairs { "float64", "float32" } do
      for _, bias in ipairs { true, false } do
        local x = pn.randn({ 6, 3 }, { dtype = dtype })
        pn.seed(2)
        local how = { dtype = dtype, init = "he", bias = bias }
        local by_hand = nn.sequential { nn.linear(3, 5, how), nn.relu(), nn.linear(5, 4, how), nn.relu(),
          nn.linear(4, 2, how) }
        pn.seed(2)
        local net = nn.mlp({ 3, 5, 4, 2 }, { activation = "relu", dtype = dtype, init = "he", bias = bias })
        same(net, by_hand)
        assert.same(by_hand(x):totable(), net(x):totable())
      end
    end
  end)

  it("takes a generator, and every activation", function()
    local function drawn(seed, activation)
      return nn.mlp({ 2, 3, 1 }, { activation = activation, generator = pn.generator(seed) })
    end
    pn.seed(9)
    local first = pn.randn {}
    pn.seed(9)
    same(drawn(4), drawn(4))
    assert.not_same(drawn(4):parameters()[1]:totable(), drawn(5):parameters()[1]:totable())
    assert.equal(first:item(), pn.randn {}:item()) -- the default one did not move
    local x = pn.randn { 5, 2 }
    for _, name in ipairs(nn.activations) do
      local net = drawn(4, name)
      local expected = net[3](nn[name]()(net[1](x)))
      assert.same(expected:totable(), net(x):totable())
      assert.same(expected:totable(), drawn(4, nn[name]())(x):totable())
    end
    local plain, net = drawn(4, "tanh"), drawn(4)
    assert.same(plain(x):totable(), net(x):totable())
    assert.same(plain(x):totable(), drawn(4, pn.tanh)(x):totable())
    assert.equal(2, #drawn(4, false))
    assert.equal(1, #nn.mlp { 3, 2 })
  end)

  it("lists the elementwise layers without parameters, and no others", function()
    local listed = {}
    for _, name in ipairs(nn.activations) do
      listed[name] = true
      local x = pn.randn { 2, 3 }
      assert.same({ nn[name]()(x:reshape { 6 }):totable(), 0 }, { nn[name]()(x):reshape({ 6 }):totable(),
        nn[name]():num_parameters() }, name)
    end
    for _, name in ipairs { "relu", "tanh", "softsign", "hard_sigmoid" } do assert.is_true(listed[name], name) end
    for _, name in ipairs { "flatten", "dropout", "max_pool2d", "prelu", "linear" } do assert.is_nil(listed[name]) end
  end)

  it("says what is wrong", function()
    for _, case in ipairs { { "mlp: sizes must be a list of at least two", { 3 } },
      { "mlp: sizes[2] must be a whole number", { 3, 0 } }, { "mlp: sizes must be a table", 3 },
      { "got 'tahn', did you mean 'tanh'?", { 2, 2 }, { activation = "tahn" } },
      { "a layer, a function or false, got number", { 2, 2 }, { activation = 3 } },
      { "mlp: unknown option 'activations', did you mean 'activation'", { 2, 2 }, { activations = "relu" } } } do
      local ok, message = pcall(nn.mlp, case[2], case[3])
      assert.is_false(ok)
      assert.truthy(message:find(case[1], 1, true), message)
    end
  end)
end)
