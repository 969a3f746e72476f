--- Transformer layers against PyTorch's (spec/golden/nn/transformers.py): values, slopes, names of the state; then
--- causality, dropout, replay, finite differences and refusals.
local pn = require "penumbra"
local nn = pn.nn

local golden = dofile "spec/golden/nn/transformers.lua"

local function tensor(v, dtype)
  local t = pn.tensor(v)
  return t:dtype() == "bool" and t or t:to(dtype)
end

local function near(got, want, tolerance)
  want = pn.is_tensor(want) and want or pn.tensor(want)
  assert.same(want:shape(), got:shape())
  local gap = (got:to "float64" - want):abs():max():item()
  assert(gap <= tolerance * math.max(1, want:abs():max():item()), gap)
end

-- A network of the kind, with the options; sizes as in the golden script.
local function make(kind, given, count)
  local o = { feedforward = 6 }
  for key, v in pairs(given) do o[key] = v end
  if count then
    return nn[kind](4, 2, count, o)
  end
  return nn[kind](4, 2, o)
end

-- The masks of a case in the order of a call; what is causal needs none.
local function masks_of(case)
  local padding = case.masks.src_key_padding_mask
  if padding then
    return pn.tensor(padding):reshape { 2, 1, 1, 3 }
  end
  local memory = case.masks.memory_mask
  return nil, memory and pn.tensor(memory)
end

describe("a transformer", function()
  for number, case in ipairs(golden) do
    it(("has PyTorch's values and slopes: %s, case %d"):format(case.kind, number), function()
      for dtype, tolerance in pairs { float64 = 1e-12, float32 = 2e-5 } do
        local given, state, inputs = { dtype = dtype }, {}, {}
        for key, v in pairs(case.options) do given[key] = v end
        local net = make(case.kind, given, case.count)
        for name, v in pairs(case.state) do state[name] = tensor(v, dtype) end
        net:load_state(state, { layout = "torch" })
        for k, v in ipairs(case.inputs) do inputs[k] = pn.param(tensor(v, dtype)) end
        local mask, memory_mask = masks_of(case)
        local arguments = { table.unpack(inputs) }
        arguments[#inputs + 1], arguments[#inputs + 2] = mask, memory_mask
        local y = net:evaluate(table.unpack(arguments, 1, #inputs + 2))
        near(y:detach(), case.output, tolerance)
        local named, wanted = {}, { inputs[1] }
        for k, key in ipairs { "output", "slope" } do assert(case[key], k) end
        for name in pairs(case.slopes) do named[#named + 1] = name end
        table.sort(named)
        local turned = {}
        for k, name in ipairs(named) do
          local own = name:gsub("%.(%d+)%.", function(n) return (".%d."):format(n + 1) end)
          for _, entry in ipairs(net:named_parameters()) do
            if entry[1] == own then wanted[k + 1] = entry[2] end
          end
          turned[k] = name:find "linear%d.weight" ~= nil -- [out, in] there
        end
        local slopes = pn.grad(y:square():sum(), wanted)
        near(slopes[1], case.slope, 10 * tolerance)
        for k, name in ipairs(named) do
          near(turned[k] and slopes[k + 1]:t() or slopes[k + 1], case.slopes[name], 10 * tolerance)
        end
      end
    end)
  end

  it("sees no later places where it is causal, and all of the memory", function()
    pn.seed(1)
    local x, memory = pn.randn { 2, 5, 4 }, pn.randn { 2, 3, 4 }
    local changed = pn.concatenate({ x:slice(2, 1, 3), pn.randn { 2, 2, 4 } }, 2)
    for kind, count in pairs { transformer_encoder = 2, transformer_decoder = 2 } do
      local net = make(kind, { causal = kind == "transformer_encoder" or nil }, count)
      local function run(z, m) return kind == "transformer_encoder" and net:evaluate(z) or net:evaluate(z, m) end
      local gap = (run(x, memory) - run(changed, memory)):abs():max { 1, 3 }
      assert.is_true(gap:slice(1, 1, 3):max():item() == 0 and gap:slice(1, 4, 5):min():item() > 1e-3)
      if kind == "transformer_decoder" then
        local other = pn.concatenate({ memory:slice(2, 1, 2), pn.randn { 2, 1, 4 } }, 2)
        assert.is_true((run(x, memory) - run(x, other)):abs():max { 1, 3 }:min():item() > 1e-4)
      end
    end
    local free = make("transformer_encoder_layer", {})
    local gap = (free:evaluate(x) - free:evaluate(changed)):abs():max { 1, 3 }
    assert.is_true(gap:min():item() > 1e-4)
  end)

  it("drops out in training alone: all of both branches at a rate of one", function()
    pn.seed(2)
    local x, g = pn.randn { 2, 3, 4 }, pn.generator(1)
    local net = make("transformer_encoder_layer", { dropout = 1, norm_first = true })
    assert.same(x:totable(), net(x, g):totable())
    assert.is_true((net:evaluate(x) - x):abs():max():item() > 0.1)
    local memory = pn.randn { 2, 2, 4 }
    assert.same(x:totable(), make("transformer_decoder_layer", { dropout = 1, norm_first = true })(x, memory):totable())
    net = make("transformer_encoder_layer", { dropout = 0.3 })
    assert.same(net(x, pn.generator(7)):totable(), net(x, nil, pn.generator(7)):totable())
    assert.is_true((net(x, pn.generator(7)) - net(x, pn.generator(8))):abs():max():item() > 0.01)
    assert.same(net:evaluate(x):totable(), net:evaluate(x):totable())
  end)

  it("drops out at each of its four places, in PyTorch's order", function()
    pn.seed(6)
    local x = pn.randn { 2, 3, 4 }
    for _, first in ipairs { false, true } do
      local net, g = make("transformer_encoder_layer", { dropout = 0.3, norm_first = first }), pn.generator(9)
      for _, entry in ipairs(net:named_parameters()) do entry[2]:set(pn.randn(entry[2]:shape())) end
      local drop = nn.dropout { rate = 0.3 }
      local function attention(z) return drop(net.self_attn(z, g), g) end
      local function inner(z) return drop(net.linear2(drop(net.linear1(z):relu(), g)), g) end
      local want
      if first then
        local h = x + attention(net.norm1(x))
        want = h + inner(net.norm2(h))
      else
        local h = net.norm1(x + attention(x))
        want = net.norm2(h + inner(h))
      end
      assert.same(want:totable(), net(x, pn.generator(9)):totable())
    end
  end)

  it("drops what attention sees with its mean kept", function()
    pn.seed(3)
    local x, n, rate = pn.randn { 1, 3, 4 }, 4000, 0.4
    local layer = nn.multi_head_attention(4, 2, { dropout = rate })
    local y = layer(x:tile { n, 1, 1 }, pn.generator(5))
    local want, mean, se = layer:evaluate(x)[1], y:mean(1), y:std(1) / n ^ 0.5
    assert.is_true(se:min():item() > 0.0005 and se:max():item() < 0.03)
    assert.is_true(((mean - want) / se):abs():max():item() < 6)
  end)

  it("is replayed as it is called, with slopes that differences show", function()
    pn.seed(4)
    for kind, inputs in pairs { transformer_encoder_layer = 1, transformer_decoder_layer = 2 } do
      local net = make(kind, { activation = "tanh", norm_first = kind == "transformer_decoder_layer" })
      local list = { pn.param(pn.randn { 2, 3, 4 }), inputs == 2 and pn.param(pn.randn { 2, 2, 4 }) or nil }
      local parameters = net:parameters()
      parameters.names = nil
      for _, x in ipairs(list) do parameters[#parameters + 1] = x end
      assert(pn.check_gradients(function() return net:evaluate(table.unpack(list)):square():sum() end, parameters))
      local function f(...)
        local y = net(...)
        return y, pn.grad(y:square():sum(), { net.linear1:parameters()[1] })[1]
      end
      local step = pn.compile(f)
      for _ = 1, 2 do
        for k, x in ipairs(list) do list[k] = x:detach() end
        pn.seed(5)
        local want, slope = f(table.unpack(list))
        pn.seed(5)
        local got, again = step(table.unpack(list))
        assert.same(want:totable(), got:totable())
        assert.same(slope:totable(), again:totable())
        list[1] = pn.randn { 2, 3, 4 }
      end
    end
  end)

  it("takes mixed activations, leaves biases out, saves and loads", function()
    local net = make("transformer_encoder", { activation = pn.exp, bias = false, norm = true }, 1)
    local names = {}
    for _, entry in ipairs(net:named_parameters()) do names[entry[1]] = true end
    assert.is_true(names["layers.1.linear1.weight"] and names["norm.weight"] and not names["layers.1.linear1.bias"]
      and not names["layers.1.self_attn.in_proj_bias"])
    local other = make("transformer_encoder", { activation = pn.exp, bias = false, norm = true }, 1)
    local x = pn.randn { 1, 2, 4 }
    other:load_state(net:state())
    assert.same(net:evaluate(x):totable(), other:evaluate(x):totable())
  end)

  it("refuses by name", function()
    local function refused(pattern, f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    refused("multi_head_attention: heads must divide size, 4, got 3", nn.transformer_encoder_layer, 4, 3)
    refused("transformer_encoder_layer: activation must be the name of one, a layer or a function, got 'rely', did you "
      .. "mean 'relu'%?", nn.transformer_encoder_layer, 4, 2, { activation = "rely" })
    refused("transformer_decoder_layer: dropout must lie in 0 to 1, got 2", nn.transformer_decoder_layer, 4, 2,
      { dropout = 2 })
    refused("transformer_encoder: layers must be a whole number from 1", nn.transformer_encoder, 4, 2, 0)
    for _, dropout in ipairs { -1e-9, 1 + 1e-9 } do
      refused("transformer_encoder_layer: dropout must lie in 0 to 1, got", nn.transformer_encoder_layer, 4, 2,
        { dropout = dropout })
    end
    for _, dropout in ipairs { 0.0, 1.0 } do
      assert.same({ 1, 2, 1 }, nn.transformer_encoder_layer(1, 1, { feedforward = 1, dropout = dropout })(pn.ones {
        1, 2, 1 }):shape())
    end
    refused("size must be a whole number from 1 on, got 0", nn.transformer_encoder_layer, 0, 1)
    refused("heads must be a whole number from 1 on, got 0", nn.transformer_encoder_layer, 4, 0)
    refused("feedforward must be a whole number from 1 on, got 0", nn.transformer_encoder_layer, 4, 2,
      { feedforward = 0 })
    refused("transformer_encoder_layer: unknown option 'norm_fist', did you mean 'norm_first'%?",
      nn.transformer_encoder_layer, 4, 2, { norm_fist = true })
    refused("needs what the encoder gave", nn.transformer_decoder_layer(4, 2), pn.randn { 1, 2, 4 })
    refused("transformer_spec.lua:%d+: multi_head_attention: input must have shape %[batch, target, 4%], got %[2, 4%]",
      function() nn.transformer_encoder_layer(4, 2)(pn.randn { 2, 4 }) end)
  end)

  it("is four times as wide inside unless it is told", function()
    for inner, o in pairs { [24] = {}, [5] = { feedforward = 5 } } do
      local found = {}
      for _, entry in ipairs(nn.transformer_encoder_layer(6, 2, o):named_parameters()) do
        found[entry[1]] = entry[2]:numel()
      end
      assert.equal(6 * inner, found["linear1.weight"])
      assert.equal(6 * inner, found["linear2.weight"])
      assert.equal(inner, found["linear1.bias"])
    end
  end)
end)
