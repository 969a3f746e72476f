--- A batch of a learner by stage: the sizes of Yacht, Spambase (float64) and MNIST (float32) once the memory is full;
--- 10 draws in training, 1000 for the sites (20 for MNIST). A step of the projection beside its matrix products alone,
--- and what twice the draws cost.
local pn = require "penumbra"
local nn = pn.nn

local cases = {
  { name = "Yacht", sizes = { 6, 16, 16, 1 }, new = 10, memory = 15, likelihood = "gaussian", steps = 2000,
    sites = 1000 },
  { name = "Spam", sizes = { 57, 32, 32, 1 }, new = 25, memory = 25, likelihood = "bernoulli", steps = 500,
    sites = 1000 },
  { name = "MNIST", sizes = { 784, 64, 64, 10 }, new = 250, memory = 150, likelihood = "categorical", steps = 40,
    sites = 20, dtype = "float32" },
}

local function network(sizes, dtype)
  local layers = {}
  for l = 1, #sizes - 1 do
    layers[#layers + 1] = nn.linear(sizes[l], sizes[l + 1], { dtype = dtype })
    layers[#layers + 1] = l < #sizes - 1 and nn.tanh() or nil
  end
  return nn.sequential(layers)
end

-- Seconds of all products of a step: mean and variance of each layer forward, and both gradients of each; the first
-- layer's are of data, not of draws, and have none in the data.
local function products(bench, case, draws)
  local total, n = 0, case.new + case.memory
  for l = 1, #case.sizes - 1 do
    local i, o, rows = case.sizes[l], case.sizes[l + 1], l == 1 and n or n * draws
    local how = { dtype = case.dtype }
    local h, w, d = pn.randn({ rows, i }, how), pn.randn({ i, o }, how), pn.randn({ rows, o }, how)
    total = total + 2 * bench.time(function()
      h:matmul(w):close()
      h:t():matmul(d):close()
      if l > 1 then d:matmul(w:t()):close() end
    end)
  end
  return total
end

return function(bench)
  for _, case in ipairs(cases) do
    local function fed(draws)
      local from, to -- processor time of the later 19 of 20 parts of a projection
      local learner = pn.continual.learner { network = network(case.sizes, case.dtype), likelihood = case.likelihood,
        noise = case.likelihood == "gaussian" and 0.1 or nil, seed = 1, memory = { size = case.memory },
        draws = { train = draws, sites = case.sites, predict = 500 }, steps = { first = 20, later = case.steps },
        progress = function(_, done, steps)
          if done * 20 // steps == 1 then from = os.clock() else to = os.clock() end
        end }
      local report
      for k = 1, 3 do
        local n = k == 1 and case.memory or case.new
        local x = pn.randn({ n, case.sizes[1] }, { dtype = case.dtype, generator = pn.generator(k) })
        local y = case.likelihood == "categorical" and pn.zeros({ n }, { dtype = "int64" }) or x:slice(2, 1, 1):gt(0)
          :to(x:dtype())
        report = learner:observe(x, y)
      end
      return report.seconds, (to - from) / (case.steps * 19 / 20)
    end
    local once, step = fed(10)
    local _, twice = fed(20)
    local alone = products(bench, case, 10)
    bench.row(("learner, %s: a step of the projection"):format(case.name), step * 1e6, "us")
    bench.row(("learner, %s: a step / its matrix products"):format(case.name), step / alone, "times")
    bench.row(("learner, %s: a step of 20 draws / of 10"):format(case.name), twice / step, "times", 2.6)
    bench.row(("learner, %s: sites, per datum and draw"):format(case.name),
      once.sites / (case.sites * (case.new + case.memory)) * 1e6, "us")
    for _, stage in ipairs { "predict", "sites", "scores", "update" } do
      bench.row(("learner, %s: %s"):format(case.name, stage), once[stage] * 1e3, "ms")
    end
    local _, peak = pn.memory()
    bench.row(("learner, %s: tensors at their peak, so far"):format(case.name), peak / 2 ^ 20, "MiB")
  end
end
