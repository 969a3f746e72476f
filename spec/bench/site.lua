--- Gaussian sites of data: seconds for each draw, datum and weight, which stay as these grow; memory.
local pn = require "penumbra"

-- A call of sites or site_sums for a network inputs-width-width-1 of tanh, float32; and draws times data times weights.
local function call(f, inputs, width, n, draws)
  local o = { dtype = "float32" }
  local nn = pn.nn
  local net = nn.sequential { nn.linear(inputs, width, o), nn.tanh(), nn.linear(width, width, o), nn.tanh(),
    nn.linear(width, 1, o) }
  local P = net:num_parameters()
  local q = pn.dist.normal(pn.randn({ P }, o) * 0.1, pn.full({ P }, 0.1, o)):independent(1)
  local x, y = pn.randn({ n, inputs }, o), pn.randn({ n }, o)
  return function()
    return pn.continual[f](net, x, y, { likelihood = "normal", noise_scale = 1, posterior = q, draws = draws })
  end, n * draws * P
end

return function(bench)
  pn.seed(1)
  pn.threads(1)
  for _, f in ipairs { "sites", "site_sums" } do
    local base
    for _, case in ipairs { { "57-32-32-1, 50 data, 1024 draws", 57, 32, 50, 1024 },
      { "4 times the draws", 57, 32, 50, 4096 }, { "4 times the data", 57, 32, 200, 1024 },
      { "4 times the weights", 100, 70, 50, 1024 } } do
      local run, work = call(f, table.unpack(case, 2))
      local seconds = bench.time(run) / work
      bench.row(("%s, %s: for each draw, datum and weight"):format(f, case[1]), seconds * 1e12, "ps")
      if base then bench.row(("%s, %s: for each, to the first"):format(f, case[1]), seconds / base, "times", 1.3) end
      base = base or seconds
    end
  end
  local before = bench.peak()
  call("site_sums", 784, 64, 400, 64)()
  bench.row("site_sums, 784-64-64-1, 400 data: memory", bench.peak() - before, "MiB", 100)
end
