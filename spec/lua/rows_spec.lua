--- Going through the rows of a tensor.
local pn = require "penumbra"

describe("x:rows()", function()
  it("gives positions from 1 and the sub-tensors", function()
    local x, seen = pn.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } }, {}
    for i, row in x:rows() do seen[i] = row:totable() end
    assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, seen)
    local sum = 0
    for i, v in pn.tensor { 1, 2, 4 }:rows() do sum = sum + i * v:item() end
    assert.equal(17, sum)
    for _ in pn.zeros { 0, 2 }:rows() do error "there is none" end
  end)

  it("lets gradients through", function()
    local w, total = pn.param(pn.tensor { { 1, 2 }, { 3, 4 } }), 0
    for i, row in w:rows() do total = total + (row * i):sum() end
    assert.same({ { 1, 1 }, { 2, 2 } }, pn.grad(total, { w })[1]:totable())
  end)

  it("is unrolled where a function is compiled", function()
    local function f(x)
      local total = 0
      for i, row in x:rows() do total = total + (row * i):sum() end
      return total
    end
    local g, x = pn.compile(f), pn.arange(6):reshape { 3, 2 }
    for k = 1, 3 do assert.equal(f(x * k):item(), g(x * k):item()) end
  end)

  it("is refused for a tensor without axes", function()
    assert.error_matches(function() return pn.tensor(1):rows() end, "rows: a tensor without axes has no rows")
  end)
end)

describe("a tensor is no table", function()
  local x = pn.tensor { 1, 2 }

  it("for ipairs", function()
    local ok, message = pcall(function() for _ in ipairs(x) do local _ = 0 end end)
    assert.is_false(ok)
    assert.matches("rows_spec.lua:%d+: ipairs: .*for i, row in x:rows%(%) do", message)
    assert.error_matches(function() return x[3] end, "index: position must lie in 1 .. 2")
  end)

  it("for pairs", function()
    local ok, message = pcall(function() for _ in pairs(x) do local _ = 0 end end)
    assert.is_false(ok)
    assert.matches("rows_spec.lua:%d+: pairs: .*for i, row in x:rows%(%) do", message)
  end)
end)
