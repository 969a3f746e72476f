--- Index tensors that are whole floats: read as int64 would be, looked at where they are given, refused in captures.
local pn = require "penumbra"

local function refused(pattern, f)
  local ok, message = pcall(f)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

pn.seed(4)
local x = pn.randn { 5, 3 }
local whole = pn.tensor({ 4, 0, -1, 2 }, { dtype = "int64" })
local places = pn.tensor({ { 1, 0, -2 }, { 4, 4, 0 } }, { dtype = "int64" })

-- What takes an index: f(index) gives a tensor.
local readers = {
  take = { whole, function(i) return x:take(1, i) end },
  ["x[i]"] = { whole, function(i) return x[i] end },
  ["x[{i, k}]"] = { whole, function(i) return x[{ i, 2 }] end },
  gather = { places, function(i) return x:gather(1, i) end },
  scatter_add = { places, function(i) return x:scatter_add(1, i, pn.ones { 2, 3 }) end },
  embedding = { pn.tensor({ 0, 3 }, { dtype = "int64" }), (function()
    local layer = pn.nn.embedding(4, 2)
    return function(i) return layer(i) end
  end)() },
}

describe("an index of whole floats", function()
  for name, reader in pairs(readers) do
    it("is read by " .. name .. " as int64 is", function()
      local index, f = reader[1], reader[2]
      for _, dtype in ipairs { "float64", "float32" } do
        local got = f(index:to(dtype))
        assert.same(f(index):totable(), got:totable())
        -- not contiguous
        local spread = pn.stack({ index, index * 0 + 1 }, -1):to(dtype):select(-1, 1)
        assert.same(f(index):totable(), f(spread):totable())
      end
      refused("index must be whole numbers, got 0.5", function() f(index:to "float64" * 0 + 0.5) end)
      refused("index must be whole numbers, got NaN", function() f(index:to "float64" * (0 / 0)) end)
      refused("index must be whole numbers, got inf", function() f(index:to "float64" + math.huge) end)
      refused("index must lie in 0 to %d+, got 9", function() f(index:to "float64" * 0 + 9) end)
      if name ~= "x[i]" then refused("must be int64", function() f(index:gt(0)) end) end -- there a mask
      refused("index must be int64, got a parameter of float64", function() f(pn.param(index:to "float64")) end)
    end)
  end

  it("has the gradients of int64, of any order", function()
    for name, f in pairs { take = function(w, i) return w:take(1, i) end, gather = function(w, i)
      return w:gather(1, i)
    end, scatter_add = function(w, i) return (w:slice(1, 1, 2) * 1):scatter_add(1, i * 0, w:slice(1, 3, 4)) end } do
      local index = name == "take" and whole or places
      local function gradients(i)
        local w = pn.param(x)
        local g = pn.grad((f(w, i) ^ 3):sum(), { w }, { create_graph = true })[1]
        return { g:totable(), pn.grad((g * g):sum(), { w })[1]:totable() }
      end
      assert.same(gradients(index), gradients(index:to "float64"))
    end
  end)

  it("is int64 in a compiled function, which would have to look at it in each replay", function()
    local take = pn.compile(function(i) return x:take(1, i) end)
    refused('take: index must be int64 in a compiled function, got float64 %(x:to"int64" before it%)', function()
      take(whole:to "float64")
    end)
    local again = pn.compile(function(i) return x:take(1, i) end)
    assert.same(x:take(1, whole):totable(), again(whole):totable())
    local layer = pn.nn.embedding(4, 2)
    refused("embedding: input must be int64, got float64", function()
      pn.compile(function(i) return layer(i) end)(pn.tensor { 0, 3 })
    end)
  end)
end)
