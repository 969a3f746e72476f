--- Invariances of the likelihood: curves of the linear model over its number of weights, one model of a million
--- weights in time and memory, and what a draw of the permutation gap costs by the number of permutations.
local pn = require "penumbra"
local inv, nn = pn.invariance, pn.nn

return function(bench)
  pn.seed(1)
  local noise = 1 / (2 * math.pi * math.exp(1))

  -- figures 1 and 2: two numbers of data, the optima of q_mix and of q_0 with both means
  local function figures(most)
    local sizes = pn.arange(1, most + 1):to "float64"
    for _, n in ipairs { 10, 100 } do
      for _, o in ipairs { { "mix" }, { "mean_field", "printed" }, { "mean_field", "corrected" } } do
        inv.curves { sizes = sizes, num_data = n, optimum = o[1], mean = o[2] }
      end
    end
  end
  local some, all = bench.time(function() figures(1000) end), bench.time(function() figures(10000) end)
  bench.row("curves of figures 1 and 2, K = 1 to 1,000", some * 1e3, "ms")
  bench.row("curves of figures 1 and 2, K = 1 to 10,000", all * 1e3, "ms")
  bench.row("  to a tenth of them, by 10", all / some / 10, "times", 1.5)

  -- one model by vectors: both laws at an optimum, gap, ELBOs, a draw
  local function model(K)
    local m = inv.linear_model { size = K, y = pn.ones { 10 }, noise_variance = noise }
    local a = m:approximation(m:optimum "mean_field")
    local q = a:q_mix()
    return (a:gap() + m:elbo(a:q0()) + m:elbo(q) + q:sample(1):sum()):item()
  end
  local small, large
  pn.no_grad(function()
    small = bench.time(function() model(10000) end)
    local before = bench.peak()
    local start = os.clock()
    model(1000000)
    large = os.clock() - start
    bench.row("a model of K = 1,000,000: gap, ELBOs, a draw of q_mix", large * 1e3, "ms")
    -- 8 MB a vector; the matrices that are not formed would have 8 TB
    bench.row("  memory, in vectors of K", (bench.peak() - before) / (8e6 / 2 ^ 20), "x", 60)
  end)
  bench.row("  a weight, to that of K = 10,000", large / 1e6 / (small / 1e4), "times", 20)

  -- the gap: one hidden layer of k nodes, 2 inputs
  for _, k in ipairs { 3, 4, 5, 6, 7, 8 } do
    local mix = inv.permutation_mixture(nn.sequential { nn.linear(2, k), nn.tanh(), nn.linear(k, 1) }, { scale = 0.3 })
    local draws, count = 1000, math.floor(math.exp(mix.log_count) + 0.5)
    local w = mix:mean_field_sample(draws)
    local each = {}
    for _, method in ipairs { "enumerate", "subsets" } do
      local start, runs = os.clock(), 0
      repeat
        mix:log_ratio(w, { method = method })
        runs = runs + 1
      until os.clock() - start > 0.2
      each[method] = (os.clock() - start) / runs / draws
    end
    bench.row(("permutation gap, %d nodes, %d permutations: a draw, enumerated"):format(k, count), each.enumerate * 1e6,
      "us")
    bench.row("  a permutation", each.enumerate / count * 1e9, "ns")
    bench.row("  by subsets, a draw", each.subsets * 1e6, "us")
    bench.row("  enumerated / by subsets", each.enumerate / each.subsets, "times", k == 8 and ">= 5" or nil)
  end
end
