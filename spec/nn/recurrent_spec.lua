-- Recurrent layers, loops over the rows that have a state: sequences and steps, states given and returned, gradients,
-- any number of threads.
local pn = require "penumbra"
local nn = pn.nn
local golden = dofile "spec/golden/nn/layers.lua"
local int64 = { dtype = "int64" }
local packed = dofile "spec/golden/nn/torch_recurrent.lua"

local rows = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "layer" and row.states > 0 then
    rows[#rows + 1] = row
  end
end

local function max_difference(a, b)
  return (a - b):abs():max():item()
end

-- states [batch..., 2] for a layer of 2 hidden units
local function states(row, shape, make)
  local list = {}
  for k = 1, row.states do
    list[k] = (make or pn.randn)(shape)
  end
  return list
end

describe("a stack of recurrent layers", function()
  it("drops out between its layers alone", function()
    local x = pn.randn({ 4, 2, 3 }, { generator = pn.generator(1) })
    local one = nn.recurrent("gru", 3, 2, { dropout = 0.9 })
    assert.same(one[1].forward(x):totable(), one(x):totable())
    local two = nn.recurrent("gru", 3, 2, { layers = 2, dropout = 0.9 })
    local dropped, between = two(x), two.between(x)
    assert.is_true(between:eq(0):any():item())
    assert.is_true((dropped - two:evaluate(x)):abs():max():item() > 0)
    assert.same(two[2].forward(two[1].forward(x)):totable(), two:evaluate(x):totable())
    assert.is_nil(nn.recurrent("gru", 3, 2, { layers = 2 }).between)
  end)
end)

describe("recurrent layers", function()
  it("are gru, lstm and rnn", function()
    local names = {}
    for k, row in ipairs(rows) do
      names[k] = row.name .. row.states
    end
    assert.same({ "gru1", "lstm2", "rnn1" }, names)
  end)

  for _, row in ipairs(rows) do
    it(row.name .. " unrolls a batch from given states to the values of spec/golden/nn/layers.py", function()
      for dtype, tolerance in pairs { float64 = 1e-12, float32 = 2e-6 } do
        local o, want, state = { dtype = dtype }, golden[row.name], {}
        for key, value in pairs(want.state) do
          state[key] = pn.tensor(value, o)
        end
        local layer = nn[row.name](3, 2, o):load_state(state)
        local x, start = pn.tensor(golden.sequence, o), {}
        for k = 1, row.states do
          start[k] = pn.tensor(golden.start[k], o)
        end
        local got = { layer:unroll(x, table.unpack(start)) }
        assert.is_true(max_difference(got[1]:to "float64", pn.tensor(want.outputs)) < tolerance)
        local last = { want.last.h, want.last.c }
        assert.equal(row.states + 1, #got)
        for k = 1, row.states do
          assert.is_true(max_difference(got[k + 1]:to "float64", pn.tensor(last[k])) < tolerance)
        end
      end
    end)

    it(row.name .. " gives PyTorch's values of sequences with lengths, both ways and on each other", function()
      local want, x = packed[row.name], pn.tensor(packed.x)
      local lengths = pn.tensor(packed.lengths, int64)
      local outputs = {}
      for k, reverse in ipairs { false, true } do
        local layer, state = nn[row.name](3, 2, { reverse = reverse }), {}
        for name, value in pairs(want.states[k]) do
          state[name] = pn.tensor(value)
        end
        outputs[k] = layer:load_state(state)(x, lengths)
      end
      assert.is_true(max_difference(pn.concatenate(outputs, 3), pn.tensor(want.outputs)) < 1e-14)
      local net = nn.recurrent(row.name, 3, 2, { layers = 2, bidirectional = true })
      local state = {}
      for k, place in ipairs { "1.forward.", "1.backward.", "2.forward.", "2.backward." } do
        for name, value in pairs(want.states[k]) do
          state[place .. name] = pn.tensor(value)
        end
      end
      net:load_state(state)
      assert.is_true(max_difference(net(x, lengths), pn.tensor(want.stacked)) < 1e-14)
      assert.is_true(max_difference(net(x), pn.tensor(want.plain)) < 1e-14)
      local compiled = pn.compile(function(t, n) return net(t, n) end)
      for _ = 1, 2 do
        assert.same(net(x, lengths):totable(), compiled(x, lengths):totable())
        lengths = pn.tensor({ 1, 0, 5, 2 }, int64)
      end
      assert.equal(1, compiled:captures())
    end)

    it(row.name .. " with lengths has both orders of derivatives, none of what comes after the end", function()
      pn.seed(7)
      local x, lengths = pn.param(pn.randn { 4, 3, 3 }), pn.tensor({ 2, 4, 0 }, int64)
      for _, reverse in ipairs { false, true } do
        local layer = nn[row.name](3, 2, { reverse = reverse })
        local params = layer:parameters()
        params[#params + 1] = x
        params.names = nil
        assert(pn.check_gradients(function()
          return layer(x, lengths):square():sum()
        end, params, { order = 2 }))
        local g = pn.grad(layer(x, lengths):sum(), { x })[1]
        assert.equal(0, g[3]:slice(1, 1, 1):abs():max():item())
        assert.equal(0, g:slice(2, 3, 3):abs():max():item())
      end
      local ok, message = pcall(nn[row.name](3, 2), x, pn.tensor({ 1, 2 }, int64))
      assert.is_false(ok)
      assert.matches(row.name .. ": lengths must have shape %[3%], got %[2%]", message)
    end)

    it(row.name .. " by steps is the same as unrolled, also with a state from zeros", function()
      pn.seed(2)
      local layer, x = nn[row.name](3, 2), pn.randn { 6, 4, 3 }
      local whole = { layer:unroll(x) }
      local state = {}
      for t = 1, 6 do
        state = { layer:step(x[t], table.unpack(state)) }
        assert.equal(row.states, #state)
        assert.is_true(max_difference(state[1], whole[1][t]) < 1e-14)
      end
      for k = 1, row.states do
        assert.is_true(max_difference(state[k], whole[k + 1]) < 1e-14)
      end
      assert.is_true(max_difference(whole[1], layer(x)) == 0)
      local h = layer:step(pn.randn { 3 })
      assert.same({ 2 }, h:shape())
    end)

    it(row.name .. " of many units is the same by steps and unrolled, with its gradients", function()
      for dtype, near in pairs { float64 = 1e-13, float32 = 5e-5 } do
        pn.seed(3)
        local o = { dtype = dtype }
        local layer, x, weight = nn[row.name](3, 70, o), pn.randn({ 4, 37, 3 }, o), pn.randn({ 4, 37, 70 }, o)
        local whole, outputs, state = layer:unroll(x), {}, {}
        for t = 1, 4 do
          state = { layer:step(x[t], table.unpack(state)) }
          outputs[t] = state[1]
        end
        assert.is_true(max_difference(pn.stack(outputs, 1), whole) < near)
        local of_whole = pn.grad((whole * weight):sum(), layer:parameters())
        local of_steps = pn.grad((pn.stack(outputs, 1) * weight):sum(), layer:parameters())
        for k, g in ipairs(of_steps) do
          assert.is_true(max_difference(g, of_whole[k]) < near * g:abs():max():item())
        end
      end
    end)

    it(row.name .. " has both orders of derivatives in parameters, sequence and states", function()
      pn.seed(5)
      local layer, x = nn[row.name](3, 2), pn.param(pn.randn { 4, 2, 3 })
      local params, start = layer:parameters(), states(row, { 2, 2 }, function(shape)
        return pn.param(pn.randn(shape))
      end)
      params[#params + 1] = x
      for _, h in ipairs(start) do
        params[#params + 1] = h
      end
      params.names = nil
      local weight = pn.randn { 4, 2, 2 }
      assert(pn.check_gradients(function()
        local out = { layer:unroll(x, table.unpack(start)) }
        local total = (out[1] * weight):sum()
        for k = 2, #out do
          total = total + (out[k] * weight[k]):square():sum()
        end
        return total
      end, params, { order = 2 }))
    end)

    it(row.name .. " gives the same gradients with and without a graph of them", function()
      pn.seed(6)
      for _, steps in ipairs { 1, 3, 70 } do -- 70: more than an operation takes inputs
        local layer = nn[row.name](3, 2)
        local x = pn.randn { steps, 5, 3 }
        local params = layer:parameters()
        local loss = layer(x):square():sum()
        local plain, graph = pn.grad(loss, params), pn.grad(loss, params, { create_graph = true })
        for k in ipairs(params) do
          assert.is_true(max_difference(plain[k], graph[k]) < 1e-11, row.parameters[k])
        end
      end
    end)

    it(row.name .. " without bias is the one with biases of zero", function()
      local with, without = nn[row.name](3, 2), nn[row.name](3, 2, { bias = false })
      assert.equal(2, #without:parameters())
      local state, x = without:state(), pn.randn { 4, 2, 3 }
      state.bias_ih, state.bias_hh = pn.zeros(with:state().bias_ih:shape()), pn.zeros(with:state().bias_hh:shape())
      with:load_state(state)
      assert.is_true(max_difference(with(x), without(x)) < 1e-15)
    end)

    it(row.name .. " gives the same bits for any number of threads", function()
      local before = pn.threads()
      local layer, x, first = nn[row.name](40, 64), pn.randn { 30, 150, 40 }, nil
      for _, threads in ipairs { 1, 2, 3 } do
        pn.threads(threads)
        local y = layer(x)
        local g = pn.grad(y:square():sum(), layer:parameters())
        g[#g + 1] = y
        first = first or g
        for k, t in ipairs(g) do
          assert.is_true((t - first[k]):abs():max():item() == 0)
        end
      end
      pn.threads(before)
    end)

    it(row.name .. " reads strided sequences and states", function()
      local layer, x = nn[row.name](3, 2), pn.randn { 3, 5, 4 }:permute { 2, 3, 1 }
      local start = states(row, { 2, 4 })
      local turned, straight = {}, {}
      for k, h in ipairs(start) do
        turned[k], straight[k] = h:t(), h:t():contiguous()
      end
      local a = layer:unroll(x, table.unpack(turned))
      local b = layer:unroll(x:contiguous(), table.unpack(straight))
      assert.is_true(max_difference(a, b) < 1e-14)
    end)

    it(row.name .. " refuses what does not fit, at the script's line", function()
      local layer = nn[row.name](3, 2)
      local x, h = pn.zeros { 4, 5, 3 }, pn.zeros { 5, 2 }
      for message, f in pairs {
        ["must have shape %[T, %.%.%., 3%], got %[3%]"] = function() layer(pn.zeros { 3 }) end,
        ["at least one step, got %[0, 5, 3%]"] = function() layer(pn.zeros { 0, 5, 3 }) end,
        ["input must have shape %[T, %.%.%., 3%], got %[4, 5, 2%]"] = function() layer(pn.zeros { 4, 5, 2 }) end,
        ["state must have shape %[5, 2%], got %[2, 5%]"] = function() layer:unroll(x, h:t()) end,
        ["state must be a tensor, got number"] = function() layer:step(x[1], 3) end,
        ["state must be at most"] = function() layer:step(x[1], h, h, h) end,
        ["has no state, so no unroll"] = function() nn.linear(3, 2):unroll(x) end,
        ["has no state, so no step"] = function() nn.relu():step(x) end,
      } do
        local ok, got = pcall(f)
        assert.is_false(ok)
        assert.matches(message, got)
        assert.matches("recurrent_spec.lua:%d+: ", got)
      end
      local ok, got = pcall(layer.unroll, layer, x, pn.zeros({ 5, 2 }, { dtype = "float32" }))
      assert.is_false(ok)
      assert.matches("dtype", got)
    end)

    it(row.name .. " learns through a compiled step what it learns eagerly", function()
      local function train(compiled)
        pn.seed(9)
        local cell, head = nn[row.name](2, 5), nn.linear(5, 1)
        local net = nn.sequential { cell, head }
        local opt = pn.optim.adam(net:parameters(), { lr = 0.01 })
        local function loss(x, y)
          return (net(x) - y):square():mean()
        end
        local step = compiled and pn.compile(loss, { optimiser = opt })
        local losses = {}
        for k = 1, 20 do
          local x = pn.randn { 7, 3, 2 }
          local y = x:cumsum(1):sum(3):unsqueeze(3)
          losses[k] = step and step(x, y) or opt:step(loss(x, y)) and 0 or loss(x, y):item()
        end
        return net:state(), losses
      end
      local eager, replayed = train(false), train(true)
      for name, value in pairs(eager) do
        assert.same(value:totable(), replayed[name]:totable(), name)
      end
    end)
  end
end)
