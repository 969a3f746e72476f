-- Transformations of weights that leave a network alone: outputs before and after, the paper's matrices against the
-- weights that are moved, and the networks that are refused.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local inv, nn = pn.invariance, pn.nn

local function same(a, b, limit)
  local off = (a - b):abs():max():item()
  assert(off <= (limit or 1e-12), ("off by %.3g"):format(off))
end

local function network(bias)
  local set = { bias = bias }
  return nn.sequential { nn.linear(2, 4, set), nn.tanh(), nn.linear(4, 3, set), pn.relu, nn.softplus(),
    nn.linear(3, 2, set) }
end

describe("a node permutation", function()
  it("leaves the outputs alone, biases and all", function()
    pn.seed(1)
    for _, bias in ipairs { true, false } do
      local net, x = network(bias), pn.randn { 20, 2 }
      local before = net:state()
      local values, moved = inv.permute(net, { { 3, 1, 2, 4 }, { 2, 3, 1 } })
      same(net(x), moved(x))
      same(before["1.weight"], net:state()["1.weight"], 0)
      assert.is_true((values["1.weight"] - before["1.weight"]):abs():max():item() > 0.01)
      local loaded = network(bias)
      loaded:load_state(values)
      same(net(x), loaded(x))
      -- node 1 is what node 3 was
      same(values["1.weight"][{ {}, 1 }], before["1.weight"][{ {}, 3 }], 0)
      if bias then same(values["1.bias"][1], before["1.bias"][3], 0) end
    end
  end)

  it("is the paper's block of Kronecker products on the vector of all weights", function()
    local net, orders = network(false), { { 3, 1, 2, 4 }, { 2, 3, 1 } }
    local function vector(values)
      return pn.concatenate({ values["1.weight"]:reshape { -1 }, values["3.weight"]:reshape { -1 },
        values["6.weight"]:reshape { -1 } }, 1)
    end
    local P = inv.permutation_matrix({ 2, 4, 3, 2 }, orders)
    same(P:matmul(vector(net:state())), vector((inv.permute(net, orders))), 0)
    same(P:matmul(P:t()), pn.eye(26), 0)
    -- equation 112: the first three nodes become z3, z1, z2
    same(inv.permutation_matrix({ 1, 4, 1 }, { { 3, 1, 2, 4 } })[{ { 1, 4 }, { 1, 4 } }],
      pn.tensor { { 0, 0, 1, 0 }, { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 0, 1 } }, 0)
  end)

  it("is one of n!", function()
    for n = 1, 6 do
      local all, count, seen = inv.permutations(n), 1, {}
      for k = 2, n do count = count * k end
      assert.same({ count, n }, all:shape())
      same(all:sort(2):to "float64", pn.arange(n):to "float64":broadcast_to { count, n }, 0)
      for _, row in ipairs(all:totable()) do seen[table.concat(row, " ")] = true end
      local found = 0
      for _ in pairs(seen) do found = found + 1 end
      assert.equal(count, found)
      same(all[1]:to "float64", pn.arange(n):to "float64", 0)
    end
  end)
end)

describe("a translation", function()
  it("leaves pre-activations alone, with any pivot", function()
    pn.seed(2)
    local x, w, delta = pn.tensor { 1, 0, -2, 0.5 }, pn.randn { 5, 4 }, pn.randn { 5, 3 }
    for _, pivot in ipairs { 1, 3, 4, -1 } do
      local B = inv.translation_basis(x, { pivot = pivot })
      assert.same({ 4, 3 }, B:shape())
      same(x:matmul(B), pn.zeros { 3 }, 1e-15)
      same(inv.translate(w, x, delta, { pivot = pivot }), w + delta:matmul(B:t()), 1e-14)
      same(inv.translate(w, x, delta, { pivot = pivot }):matmul(x), w:matmul(x))
    end
    same(inv.translation_basis(pn.ones(3)), pn.tensor { { 1, 0 }, { 0, 1 }, { -1, -1 } }, 0) -- equation 14
    assert(message_of(inv.translation_basis, x, { pivot = 2 }):find("pivot must be a place where x is not 0", 1, true))
    assert(message_of(inv.translation_basis, pn.zeros(3)):find("x must not be zero", 1, true))
    assert(message_of(inv.translation_basis, pn.ones(1)):find("at least 2 elements", 1, true))
    assert(message_of(inv.translate, w, x, w):find("K, K and K - 1, got [5, 4], [4] and [5, 4]", 1, true))
  end)

  it("has pivots from the front and the back, and none elsewhere", function()
    local x = pn.tensor { 1, 0, -2, 0 }
    local function basis(pivot) return inv.translation_basis(x, { pivot = pivot }) end
    same(basis(nil), basis(3), 0) -- the last that is not 0
    same(basis(-2), basis(3), 0)
    same(basis(-4), basis(1), 0)
    assert.is_true((basis(1) - basis(3)):abs():max():item() > 0.1)
    for text, given in pairs { ["translation_basis: pivot must be at most 4, got 5"] = 5,
      ["translation_basis: pivot must be a whole number from 1 on, got 0"] = -5,
      ["translation_basis: pivot must be a place where x is not 0, got 4"] = -1 } do
      local message = message_of(inv.translation_basis, x, { pivot = given })
      assert(message:find(text, 1, true), message)
    end
    assert(message_of(inv.translation_basis, x, { pivot = 0 }):find("from 1 on, got 0", 1, true))
    for _, wrong in ipairs { pn.ones { 2, 2 }, pn.ones {}, pn.ones { 0 } } do
      assert(message_of(inv.translation_basis, wrong):find("translation_basis: x must have one axis, got [", 1, true))
    end
    assert(message_of(inv.translate, pn.ones { 4 }, x, pn.ones { 2 }):find("translate: the last axes of w, x and delta",
      1, true))
    assert(message_of(inv.translate, pn.ones { 3 }, x, pn.ones { 3 }):find("K, K and K - 1, got [3], [4] and [3]", 1,
      true))
    assert(message_of(inv.translate, pn.ones {}, x, pn.ones { 3 }):find("K, K and K - 1, got [], [4]", 1, true))
    assert(message_of(inv.translate, pn.ones { 4 }, x, pn.ones {}):find("[4] and []", 1, true))
    same(inv.translate(pn.tensor { 1, 2 }, pn.tensor { 4, 2 }, pn.tensor { 3 }), pn.tensor { 4, -4 }, 1e-15)
  end)

  it("leaves a network alone at its datum, layer by layer, and nowhere else", function()
    pn.seed(3)
    for _, bias in ipairs { true, false } do
      local net, x = network(bias), pn.tensor { 0.7, -1.2 }
      for _, p in ipairs(net:parameters()) do p:set(pn.randn(p:shape())) end -- biases other than 0, too
      local at, elsewhere = x:unsqueeze(1), pn.randn { 5, 2 }
      for _, given in ipairs { {}, { layer = 1 }, { layer = 2, scale = 3 }, { layer = 3 } } do
        local values, moved = inv.translate_network(net, x, given)
        same(net(at), moved(at))
        assert.is_true((net(elsewhere) - moved(elsewhere)):abs():min():item() > 1e-6)
        local loaded = network(bias)
        loaded:load_state(values)
        same(net(at), loaded(at))
        for k, name in ipairs { "1.weight", "3.weight", "6.weight" } do
          local off = (values[name] - net:state()[name]):abs():max():item()
          assert.equal(given.layer == nil or given.layer == k, off > 1e-3)
        end
        same(net[1](at), moved[1](at)) -- the activations too
        same(net[3](net[2](net[1](at))), moved[3](moved[2](moved[1](at))))
      end
    end
    local delta = pn.randn { 4, 2 }
    local net = network(true)
    local once, thrice = {}, {}
    for into, scale in pairs { [once] = 1, [thrice] = 3 } do -- as far as it is told
      into.w = inv.translate_network(net, pn.tensor { 0.7, -1.2 }, { layer = 1, scale = scale,
        generator = pn.generator(5) })["1.weight"] - net:state()["1.weight"]
    end
    same(thrice.w, once.w * 3, 1e-13)
    local values = inv.translate_network(net, pn.tensor { 0.7, -1.2 }, { layer = 1, delta = delta, pivot = 3 })
    same(values["1.weight"], net:state()["1.weight"] + delta:t(), 1e-15) -- the bias is the pivot
  end)
end)

describe("networks that no transformation knows", function()
  it("are refused by name", function()
    local linear = function() return nn.linear(2, 2) end
    for text, net in pairs {
      ["got layer_norm as part 2"] = nn.sequential { linear(), nn.layer_norm(2), linear() },
      ["got prelu as part 2"] = nn.sequential { linear(), nn.prelu(), linear() },
      ["got dropout as part 2"] = nn.sequential { linear(), nn.dropout(), linear() },
      ["got bayes_linear as part 1"] = nn.sequential { nn.bayes_linear(2, 2) },
      ["got a function of your own as part 2"] = nn.sequential { linear(), function(x) return x end },
      ["got sequential as part 1"] = nn.sequential { nn.sequential { linear() }, linear() },
      ["must begin with a linear layer, got tanh"] = nn.sequential { nn.tanh(), linear() },
      ["linear layer 2 takes 3 inputs and gets 2"] = nn.sequential { linear(), nn.linear(3, 1) },
      ["got a module"] = nn.module { part = linear() },
      ["got number"] = 3,
    } do
      for name, f in pairs {
        permute = function() return inv.permute(net, { { 1, 2 } }) end,
        translate_network = function() return inv.translate_network(net, pn.ones(2)) end,
        permutation_mixture = function() return inv.permutation_mixture(net, { scale = 1 }) end,
        fit_layers = function()
          return inv.fit_layers(net, { x = pn.ones { 2, 2 }, y = pn.ones { 2, 2 }, noise_scale = 1 })
        end,
      } do
        local message = message_of(f)
        assert(message:find(text, 1, true) and message:find(name .. ": ", 1, true), message)
      end
    end
    local net = network(true)
    for text, f in pairs {
      ["permute: there must be a permutation for each of 2 hidden layers, got 1"] = function()
        inv.permute(net, { { 1, 2, 3, 4 } })
      end,
      ["permute: the permutation of hidden layer 2 must be 1 to 3 in some order, got 1"] = function()
        inv.permute(net, { { 1, 2, 3, 4 }, { 1, 1, 2 } })
      end,
      ["permute: the permutation of hidden layer 2 must list its 3 nodes, got 2"] = function()
        inv.permute(net, { { 1, 2, 3, 4 }, { 1, 2 } })
      end,
      ["permute: the permutation of hidden layer 1 must list its 4 nodes, got number"] = function()
        inv.permute(net, { 4, { 1, 2, 3 } })
      end,
      ["permute: the permutation of hidden layer 2 must be 1 to 3 in some order, got 4"] = function()
        inv.permute(net, { { 1, 2, 3, 4 }, { 1, 2, 4 } })
      end,
      ["permute: the permutation of hidden layer 2 must be 1 to 3 in some order, got 0"] = function()
        inv.permute(net, { { 1, 2, 3, 4 }, { 1, 0, 2 } })
      end,
      ["permutation_matrix: sizes must be those of the input, the hidden layers and the output, got 1"] = function()
        inv.permutation_matrix({ 3 }, {})
      end,
      ["permutation_matrix: size 2 must be a whole number from 1 on, got 0"] = function()
        inv.permutation_matrix({ 3, 0, 1 }, { {} })
      end,
      ["translate_network: x must be one datum, [2], got [1, 2]"] = function()
        inv.translate_network(net, pn.ones { 1, 2 })
      end,
      ["translate_network: layer must be at most 3, got 4"] = function()
        inv.translate_network(net, pn.ones(2), { layer = 4 })
      end,
      ["translate_network: delta is for one layer"] = function()
        inv.translate_network(net, pn.ones(2), { delta = pn.ones(1) })
      end,
      ["translate_network: delta must have shape [4, 2]: for each node one less"] = function()
        inv.translate_network(net, pn.ones(2), { layer = 1, delta = pn.ones { 4, 3 } })
      end,
      ["translate_network: delta must have shape [4, 2]: for each node one less than its weights and its bias, got"] =
        function() inv.translate_network(net, pn.ones(2), { layer = 1, delta = pn.ones { 3, 2 } }) end,
      ["translate_network: layer must be a whole number from 1 on, got 0"] = function()
        inv.translate_network(net, pn.ones(2), { layer = 0 })
      end,
      ["permutations: n must be at most 10"] = function() inv.permutations(11) end,
    } do
      local message = message_of(f)
      assert(message:find(text, 1, true), message)
    end
  end)
end)
