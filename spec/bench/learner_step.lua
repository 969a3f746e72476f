--- A batch of a learner by stage: the sizes of Yacht, Spambase (float64) and MNIST (float32) once the memory is full;
--- 10 draws in training, 1000 for the sites (20 for MNIST). Processor time and the most memory of each stage; a step
--- of the projection beside its matrix products alone, and by draws, data and weights (site.lua has it of the sites).
local core = require "penumbra.core"
local pn = require "penumbra"
local nn = pn.nn

-- wider: hidden layers with which the network has 4 times the weights, to 2 parts of 100.
local cases = {
  { name = "Yacht", sizes = { 6, 16, 16, 1 }, wider = 36, new = 10, memory = 15, likelihood = "normal", steps = 2000,
    sites = 1000 },
  { name = "Spam", sizes = { 57, 32, 32, 1 }, wider = 82, new = 25, memory = 25, likelihood = "bernoulli", steps = 500,
    sites = 1000 },
  { name = "MNIST", sizes = { 784, 64, 64, 10 }, wider = 217, new = 250, memory = 150, likelihood = "categorical",
    steps = 40, sites = 20, dtype = "float32" },
}

local MUST <const> = 4 * 1.6 -- arrays that no longer fit the nearer caches cost up to half more for each number
local STAGES <const> = { "predict", "projection", "sites", "scores", "update" }

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

-- Calls f, which reads core.clock at the beginning and at the end of each stage, and gives the largest number of bytes
-- of tensors in each stage, with what the collector leaves for later of that stage.
local function peaks_of(f)
  local clock, places, peaks = core.clock, 0, {}
  core.clock = function()
    places = places + 1
    if places % 2 == 1 then
      collectgarbage()
      core.reset_peak()
    else
      peaks[STAGES[places // 2]] = select(2, pn.memory())
    end
    return clock()
  end
  local ok, message = pcall(f)
  core.clock = clock
  assert(ok, message)
  assert(places == 2 * #STAGES, "the stages of a step are others")
  return peaks
end

local function learner_of(case, sizes, draws, memory, progress)
  return pn.continual.learner { network = network(sizes, case.dtype), likelihood = case.likelihood,
    noise = case.likelihood == "normal" and 0.1 or nil, seed = 1, memory = memory and { size = memory },
    draws = { train = draws, sites = case.sites, predict = 500 }, steps = { first = case.steps, later = case.steps },
    progress = progress }
end

local function batch(case, n, k)
  local x = pn.randn({ n, case.sizes[1] }, { dtype = case.dtype, generator = pn.generator(k) })
  return x, case.likelihood == "categorical" and pn.randint(0, 10, { n }, { generator = pn.generator(k) })
    or x:slice(2, 1, 1):gt(0):to(x:dtype())
end

-- Seconds of a step of the projection on as many data, the best twentieth after the first two.
local function step_of(case, sizes, draws, n)
  local best, before = math.huge, nil
  learner_of(case, sizes, draws, nil, function(_, done, steps)
    local now = os.clock()
    if done * 20 // steps > 2 then best = math.min(best, (now - before) / (steps // 20)) end
    before = now
  end):observe(batch(case, n, 1))
  return best
end

-- Seconds by stage of a batch of a learner whose memory is full, the least of three, and bytes by stage of the next.
local function stages_of(case)
  local learner, seconds = learner_of(case, case.sizes, 10, case.memory), {}
  learner:observe(batch(case, case.memory, 1))
  for k = 2, 5 do
    local report = learner:observe(batch(case, case.new, k))
    for _, stage in ipairs(k > 2 and STAGES or {}) do
      seconds[stage] = math.min(seconds[stage] or math.huge, report.seconds[stage])
    end
  end
  return seconds, peaks_of(function() learner:observe(batch(case, case.new, 6)) end)
end

return function(bench)
  pn.threads(1)
  core.clock = os.clock -- seconds of a report: of the processor
  for _, case in ipairs(cases) do
    local function row(what, value, unit, must)
      bench.row(("learner, %s: %s"):format(case.name, what), value, unit, must)
    end
    local sizes, n = case.sizes, case.new + case.memory
    local step = step_of(case, sizes, 10, n)
    row("a step of the projection", step * 1e6, "us")
    row("a step / its matrix products", step / products(bench, case, 10), "times")
    local wide = { sizes[1], case.wider, case.wider, sizes[4] }
    for _, more in ipairs { { "draws", sizes, 40, n }, { "data", sizes, 10, 4 * n }, { "weights", wide, 10, n } } do
      row(("a step of 4 times the %s / of once"):format(more[1]), step_of(case, table.unpack(more, 2)) / step, "times",
        MUST)
    end
    collectgarbage()
    local before = pn.memory()
    local seconds, peaks = stages_of(case)
    row("sites, per datum and draw", seconds.sites / (case.sites * n) * 1e6, "us")
    local all = 0
    for _, stage in ipairs(STAGES) do
      row(stage, seconds[stage] * 1e3, "ms")
      row(stage .. ", tensors at their peak", (peaks[stage] - before) / 2 ^ 20, "MiB")
      all = math.max(all, peaks[stage] - before)
    end
    row("a batch, tensors at their peak", all / 2 ^ 20, "MiB")
  end
end
