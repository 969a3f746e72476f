-- Networks to and from PyTorch: a state that PyTorch saved (spec/golden/nn/torch_exchange.py) gives its outputs here,
-- and is written from here under the same names with the same bits.
local pn = require "penumbra"
local nn = pn.nn

local FILE = "spec/golden/nn/torch_exchange.safetensors"

local function model(dtype)
  local o = { dtype = dtype or "float32" }
  local function with(more)
    more.dtype = o.dtype
    return more
  end
  return nn.module {
    digits = nn.sequential {
      nn.conv2d(1, 4, with { kernel = 5, stride = 2, padding = 2 }), nn.batch_norm(4, with {}), nn.relu(),
      nn.conv2d(4, 6, with { kernel = 3, stride = 2 }), nn.prelu(with { channels = 6 }), nn.flatten(),
      nn.linear(24, 8, with {}), pn.tanh, nn.linear(8, 10, with {}),
    },
    embed = nn.embedding(7, 4, with {}),
    recurrent = nn.recurrent("gru", 4, 3, { layers = 2, bidirectional = true, options = with {} }),
    memory = nn.lstm(6, 4, with {}),
    norm = nn.layer_norm(4, with {}),
    attention = nn.multi_head_attention(4, 2, with {}),
    heads = { nn.linear(4, 2, with {}), nn.bilinear(4, 4, 2, with { bias = false }) },
    temperature = pn.param(pn.full({}, 1, o)),
    forward = function(self, texts)
      local h = self.norm(self.memory(self.recurrent(self.embed(texts)))):permute { 2, 1, 3 }
      local a = self.attention(h):mean(2)
      return (self.heads[1](a) + self.heads[2](a, h:select(2, -1))) / self.temperature
    end,
  }
end

local function same_bits(a, b)
  return a:dtype() == b:dtype() and a:eq(b):all():item()
end

local function outputs(net, golden)
  return net.digits:evaluate(pn.tensor(golden.images):to "float32"), net:evaluate(pn.tensor(golden.texts):to "int64")
end

describe("layout torch", function()
  local golden = dofile "spec/golden/nn/torch_exchange.lua"
  local saved = assert(pn.load(FILE))

  it("PyTorch's state gives PyTorch's outputs", function()
    local net = model()
    assert.equal(net, net:load_state(saved, { layout = "torch" }))
    local digits, texts = outputs(net, golden)
    assert.is_true((digits:to "float64" - pn.tensor(golden.digits_out)):abs():max():item() < 1e-6)
    assert.is_true((texts:to "float64" - pn.tensor(golden.texts_out)):abs():max():item() < 1e-6)
  end)

  it("is written under PyTorch's names, to the bit", function()
    local net, path = model(), os.tmpname()
    net:load_state(saved, { layout = "torch" })
    assert(pn.save(path, net:state { layout = "torch" }))
    local back = assert(pn.load(path))
    os.remove(path)
    for name, t in pairs(saved) do
      assert.is_true(back[name] ~= nil and same_bits(back[name], t), name)
      assert.same(t:shape(), back[name]:shape())
    end
    for name in pairs(back) do
      assert.is_truthy(saved[name], name)
    end
  end)

  it("names what does not fit, and then changes nothing", function()
    local net = model()
    local before = net:state()
    local bad = { ["no.such"] = pn.zeros { 1 } }
    for name, t in pairs(saved) do
      bad[name] = t
    end
    bad["digits.6.weight"], bad["embed.weight"], bad["norm.bias"] = bad["digits.6.weight"]:t(), nil, pn.zeros { 4 }
    local ok, message = pcall(net.load_state, net, bad, { layout = "torch" })
    assert.is_false(ok)
    assert.truthy(message:find("'digits.6.weight' must have shape [8, 24], got [24, 8]", 1, true), message)
    assert.truthy(message:find("'embed.weight' is missing", 1, true), message)
    assert.truthy(message:find("'norm.bias' must be float32, got float64", 1, true), message)
    assert.truthy(message:find("'no.such' is not a parameter or buffer", 1, true), message)
    for name, t in pairs(net:state()) do
      assert.is_true(same_bits(t, before[name]))
    end
  end)

  it("refuses a part that gives no name", function()
    local net = nn.sequential { nn.linear(2, 3), nn.linear(3, 1) }
    net.torch_name = function() return 3 end
    local ok, message = pcall(net.state, net, { layout = "torch" })
    assert.is_false(ok)
    assert.truthy(message:find("torch_name' must return a name, got number", 1, true), message)
  end)

  it("gives parts another place", function()
    local net = nn.sequential { nn.linear(2, 3), nn.relu(), nn.sequential { nn.linear(3, 1) } }
    local names = { [1] = "fc1", ["3"] = "", ["3.1"] = "fc2" }
    local state = net:state { layout = "torch", names = names }
    local keys = {}
    for name in pairs(state) do
      keys[#keys + 1] = name
    end
    table.sort(keys)
    assert.same({ "fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight" }, keys)
    local other = nn.sequential { nn.linear(2, 3), nn.relu(), nn.sequential { nn.linear(3, 1) } }
    other:load_state(state, { layout = "torch", names = names })
    assert.is_true(same_bits(net(pn.ones { 1, 2 }), other(pn.ones { 1, 2 })))
    assert.has_error(function() net:state { layout = "torch", names = { ["4"] = "x" } } end,
      "state: names['4'] is no part of this network")
    assert.has_error(function() net:state { layout = "torch", names = { ["1"] = "2.0" } } end,
      "state: '1.weight' and '3.1.weight' have the same name in PyTorch, '2.0.weight'")
    assert.has_error(function() net:state { names = {} } end, "state: names is only used with layout = \"torch\"")
  end)

  it("writes shared layers under each name and reads any of them", function()
    local shared = nn.linear(2, 2)
    local net = nn.module { a = shared, b = { shared } }
    local state = net:state { layout = "torch" }
    assert.is_true(same_bits(state["a.weight"], state["b.0.weight"]))
    state["a.weight"], state["a.bias"] = nil, nil
    local w = shared:state().weight
    shared:load_state { weight = pn.zeros { 2, 2 }, bias = pn.zeros { 2 } }
    net:load_state(state, { layout = "torch" })
    assert.is_true(same_bits(shared:state().weight, w))
    state["a.weight"] = pn.zeros { 2, 2 }
    assert.has_error(function() net:load_state(state, { layout = "torch" }) end,
      "load_state: 'b.0.weight' must have the values of its other name")
  end)

  it("knows every parameter and buffer of the rows that have a counterpart", function()
    local without = {}
    for _, row in ipairs(require "penumbra.core".layer_rows()) do
      local n = 0
      for word in (row.torch or ""):gmatch "%S+" do
        n = n + (word:find "=0$" and 0 or 1)
      end
      if row.torch then
        assert.equal(#row.parameters + #row.buffers, n, row.name)
      elseif #row.parameters > 0 then
        without[#without + 1] = row.name
      end
    end
    assert.same({ "bayes_linear", "highway", "actnorm" }, without)
  end)

  it("refuses by name what PyTorch does not have", function()
    local function refused(part, what)
      assert.has_error(function() nn.sequential { nn.relu(), part }:state { layout = "torch" } end,
        ("state: '2' is %s, which has no counterpart in PyTorch"):format(what))
    end
    refused(nn.bayes_linear(2, 1), "a layer bayes_linear")
    refused(nn.actnorm(2), "a layer actnorm")
    refused(nn.highway(2), "a layer highway")
    refused(nn.gru(2, 1, { reverse = true }), "a gru that runs in reverse alone (nn.recurrent runs both ways)")
    local flow = pn.dist.bijector.affine(pn.param(pn.zeros { 2 }), 1)
    assert.has_error(function() nn.module { flow = flow }:state { layout = "torch" } end,
      "state: 'flow' is a bijector, which has no counterpart in PyTorch")
    assert.has_error(function() nn.linear(1, 1):state { layout = "jax" } end,
      "state: layout must be 'penumbra' or 'torch', got 'jax'")
  end)
end)
