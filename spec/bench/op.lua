--- What one operation costs when called from Lua: 8 elements, where the arithmetic is nothing. And operations along
--- short rows beside the exponentials of as many elements.
local pn = require "penumbra"

return function(bench)
  local n = 1000
  local function per_op(f) return bench.time(f) / n * 1e6 end
  local x, y = pn.rand(8), pn.rand(8)
  bench.row("add, 8 elements, from Lua, not recorded", per_op(function()
    for _ = 1, n do local _ = x + y end
  end), "us")
  local w = pn.param(pn.rand(8))
  bench.row("add, 8 elements, from Lua, recorded", per_op(function()
    for _ = 1, n do local _ = w + y end
  end), "us")
  bench.row("exp, 8 elements, from Lua, recorded", per_op(function()
    for _ = 1, n do local _ = w:exp() end
  end), "us")
  bench.row("scalar times tensor, 8 elements, from Lua, recorded", per_op(function()
    for _ = 1, n do local _ = 2 * w end
  end), "us")
  bench.row("chain of 20 ops, forward and backward, per op", bench.time(function()
    local z = w
    for _ = 1, 19 do z = z * y end
    z:sum():backward()
  end) / 20 * 1e6, "us")

  local rows = pn.randn{100000, 10}
  local limit = bench.time(function() return rows:exp() end)
  local function to_exp(name, aim, f)
    bench.row(name .. ", 10^5 rows of ten, to exp of as many", bench.time(f) / limit, "times", aim)
  end
  to_exp("log_softmax", 3, function() return rows:log_softmax(-1) end)
  to_exp("logsumexp", 2.5, function() return rows:logsumexp(-1) end)
  to_exp("sum", 1, function() return rows:sum(-1) end)
  local labels = pn.dist.categorical{logits = rows}:sample()
  to_exp("log_prob of categorical", 3.5, function() return pn.dist.categorical{logits = rows}:log_prob(labels) end)
  local leaf = pn.param(rows)
  to_exp("the same and its gradient", 6.5, function()
    return pn.grad(pn.dist.categorical{logits = leaf}:log_prob(labels):sum(), {leaf})
  end)
end
