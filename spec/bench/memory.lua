--- 100,000 steps of training without one collectgarbage: memory must stay where it was.
local pn = require "penumbra"

return function(bench)
  local x, y = pn.randn{32, 1}, pn.randn{32, 1}
  local w1, b1 = pn.param(pn.randn{1, 50}), pn.param(pn.zeros{50})
  local w2, b2 = pn.param(pn.randn{50, 1}), pn.param(pn.zeros{1})
  local params = {w1, b1, w2, b2}
  local function step()
    local h = (x:matmul(w1) + b1):relu()
    local loss = (h:matmul(w2) + b2 - y):square():mean()
    return pn.grad(loss, params)
  end
  for _ = 1, 1000 do step() end
  local early = bench.peak()
  for _ = 1, 100000 do step() end
  bench.row("peak memory after 1,000 steps", early, "MiB")
  bench.row("peak memory after 100,000 steps, no collectgarbage", bench.peak(), "MiB")
  bench.row("  to that after 1,000", bench.peak() / early, "x", 1.05)
end
