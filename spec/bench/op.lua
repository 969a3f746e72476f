--- What one operation costs when called from Lua: 8 elements, where the arithmetic is nothing.
local pn = require "penumbra"

return function(bench)
  local n = 1000
  local function per_op(f) return bench.time(f) / n * 1e6 end
  local x, y = pn.rand(8), pn.rand(8)
  bench.row("add, 8 elements, from Lua, not recorded", per_op(function()
    for _ = 1, n do local _ = x + y end
  end), "us", 0.3)
  local w = pn.param(pn.rand(8))
  bench.row("add, 8 elements, from Lua, recorded (PyTorch 1.2)", per_op(function()
    for _ = 1, n do local _ = w + y end
  end), "us", 0.3)
  bench.row("exp, 8 elements, from Lua, recorded", per_op(function()
    for _ = 1, n do local _ = w:exp() end
  end), "us", 0.3)
  bench.row("scalar times tensor, 8 elements, from Lua, recorded (PyTorch 2.5)", per_op(function()
    for _ = 1, n do local _ = 2 * w end
  end), "us", 0.5)
  bench.row("chain of 20 ops, forward and backward, per op (PyTorch 2.1)", bench.time(function()
    local z = w
    for _ = 1, 19 do z = z * y end
    z:sum():backward()
  end) / 20 * 1e6, "us", 1)
end
