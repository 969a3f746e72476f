--- Our side of `make bench-peers`, one group of rows: lua spec/bench/peers/ours.lua GROUP
--- Prints lines key<TAB>who<TAB>seconds; who is "eager" or "replayed".
local pn = require "penumbra"
package.path = "spec/bench/peers/?.lua;" .. package.path
local clock = os.clock

pn.threads(1)
pn.seed(1)

local function print_row(key, who, seconds)
  io.write(("%s\t%s\t%.6g\n"):format(key, who, seconds))
  io.flush()
end

--- Seconds of processor time per call: rounds of about 20 ms, the best one counts (others were disturbed).
local function time(f, patience)
  local n = 1
  f()
  f()
  while true do
    local start = clock()
    for _ = 1, n do f() end
    local spent = clock() - start
    if spent > 0.01 then break end
    n = spent < 1e-4 and n * 20 or math.ceil(n * 0.02 / spent)
  end
  local best, began, rounds = math.huge, clock(), 0
  while rounds < 4 or clock() - began < (patience or 0.4) do
    local start = clock()
    for _ = 1, n do f() end
    best, rounds = math.min(best, (clock() - start) / n), rounds + 1
  end
  return best
end

local only = table.pack(table.unpack(arg, 2))
local function wanted(name)
  for _, given in ipairs(only) do if given == name then return true end end
  return only.n == 0
end

local groups = {}

-- A row of training.lua: eager and replayed.
local function measure_row(row)
  local key, given = row[1], row.tensors
  local parameters, loss, step = row.parameters, row.loss
  if row.run then
    step = row.replayed
    if step then print_row(key, "eager", time(function() row.run(table.unpack(given)) end)) end
  elseif row.gradients then
    local function both(...)
      return table.unpack(pn.grad(loss(...), parameters))
    end
    print_row(key, "eager", time(function() both(table.unpack(given)) end))
    step = pn.compile(both)
  else
    local opt = pn.optim.adam(parameters, {lr = 1e-4})
    print_row(key, "eager", time(function() opt:step(loss(table.unpack(given))) end))
    step = pn.compile(loss, {optimiser = opt})
  end
  if step then print_row(key, "replayed", time(function() step(table.unpack(given)) end)) end
end

local function measure_rows(file, names)
  for _, name in ipairs(names) do
    if wanted(name) then measure_row(require(file)[name]()) end
  end
end

function groups.training()
  measure_rows("training", {"product", "small", "deep", "bayesian", "classifier", "wide_classifier", "vae", "iwae",
    "gru", "gru128", "lstm128", "attention", "lenet", "lenet_moments", "bayesian_local", "bayesian_weights",
    "bayesian_flipout", "per_example", "gaussian_process"})
end

function groups.sources() measure_rows("sources", {"ind", "poe", "hybrid"}) end

-- The same call recorded node by node and replayed.
local function both_ways(key, f, ...)
  local given = table.pack(...)
  print_row(key, "eager", time(function() f(table.unpack(given)) end))
  local replay = pn.compile(f)
  print_row(key, "replayed", time(function() replay(table.unpack(given)) end))
end

-- The same in less time, and without the row where it cannot be done.
local function quick(key, f, ...)
  local given = table.pack(...)
  local function measure(who, g)
    local ok, seconds = pcall(time, function() g(table.unpack(given)) end, 0.12)
    if ok then print_row(key, who, seconds) else io.stderr:write(key, ", ", who, ": ", seconds, "\n") end
  end
  measure("eager", f)
  measure("replayed", pn.compile(f))
end

function groups.elementwise()
  for _, dtype in ipairs{"float32", "float64"} do
    local o = {dtype = dtype}
    for _, n in ipairs{65536, 1000000} do
      local x = pn.rand({n}, o) * 5 + 0.05
      for _, name in ipairs{"exp", "log", "tanh", "erf", "lgamma", "digamma"} do
        both_ways(("%s %s %d"):format(name, dtype, n), pn[name], x)
      end
    end
    both_ways("normals " .. dtype, function() return pn.randn({1000000}, o) end)
    both_ways("chain " .. dtype, function(t)
      return ((t * 2 + 1):tanh() * t - t:square()):exp():sum()
    end, pn.randn({1000, 1000}, o))
  end
  local w, y = pn.param(pn.rand(8)), pn.rand(8)
  print_row("add of 8", "eager", time(function() local _ = w + y end))
end

-- Predict and update of 3200 filters; gradients of the sums of mean, covariance and density in all operands.
function groups.kalman()
  for _, size in ipairs{{4, 2}, {10, 4}} do
    local n, p = size[1], size[2]
    local x = {pn.randn{3200, n}, pn.eye(n):broadcast_to{3200, n, n}:contiguous(), pn.randn{n, n} * 0.3, pn.randn{n},
      pn.eye(n), pn.randn{3200, p}, pn.randn{p, n}, pn.randn{p}, pn.eye(p)}
    local function step(mean, cov, a, b, q, y, c, d, r)
      mean, cov = pn.kalman_predict(mean, cov, a, b, q)
      return pn.kalman_update(mean, cov, y, c, d, r)
    end
    local key = ("Kalman %d, %d"):format(n, p)
    both_ways(key, step, table.unpack(x))
    local w = {}
    for k, t in ipairs(x) do w[k] = pn.param(t) end
    both_ways(key .. ", gradient", function()
      local mean, cov, log_prob = step(table.unpack(w))
      return table.unpack(pn.grad(mean:sum() + cov:sum() + log_prob:sum(), w))
    end)
  end
end

--- Log likelihood of 64 series of 1000 observations, and its gradient in the system.
function groups.gaussian()
  for _, size in ipairs{{4, 2}, {10, 4}} do
    local n, p = size[1], size[2]
    local mean, cov, y = pn.zeros{n}, pn.eye(n), pn.randn{1000, 64, p}
    local w = {pn.param(pn.eye(n) * 0.9), pn.param(pn.eye(n)), pn.param(pn.randn{p, n}), pn.param(pn.eye(p))}
    local function total(a, q, c, r)
      return pn.smc.kalman.log_likelihood({initial_mean = mean, initial_cov = cov, transition = a, transition_cov = q,
        emission = c, emission_cov = r}, y):sum()
    end
    local key = ("sequence %d, %d"):format(n, p)
    local held = {}
    for k, t in ipairs(w) do held[k] = t:detach() end
    both_ways(key, total, table.unpack(held))
    both_ways(key .. ", gradient", function() return table.unpack(pn.grad(total(table.unpack(w)), w)) end)
  end
end

-- A switch of 3 labels with a linear Gaussian system each: 64 particles for each of 50 series, bootstrap proposals,
-- systematic resampling below half of the effective sample size, a pass of 10 steps. The gradient is that of the
-- log-evidence in all matrices and the switch's logits.
function groups.rbpf()
  local labels, num, batch, steps = 3, 64, 50, 10
  for _, size in ipairs{{4, 2}, {10, 4}} do
    local n, p = size[1], size[2]
    local function table_of(rows, cols, scale) return pn.param(pn.randn{labels, rows, cols} * scale) end
    local a, c = table_of(n, n, 0.5 / n ^ 0.5), table_of(p, n, 1)
    local q, r = pn.param(pn.eye(n):broadcast_to{labels, n, n}:contiguous()),
      pn.param(pn.eye(p):broadcast_to{labels, p, p}:contiguous())
    local logits = pn.param(pn.randn{labels, labels})
    local first = pn.dist.categorical{logits = pn.zeros{labels}}
    local f = pn.smc.rbpf{num_particles = num, batch_shape = {batch}, initial_mean = pn.zeros{n},
      initial_cov = pn.eye(n), init = first, history = false,
      transition = function(s) return pn.dist.categorical{probs = logits:softmax(-1):take(1, s)} end,
      system = function(s)
        return {transition = a:take(1, s), transition_cov = q:take(1, s), emission = c:take(1, s),
          emission_cov = r:take(1, s)}
      end}
    local y = pn.randn{steps, batch, p}
    local key, plain = ("RBPF %d, %d"):format(n, p), {moments = false, observed = true}
    both_ways(key, function(given) return pn.no_grad(function() return f:run(given, plain).log_evidence end) end, y)
    local list = {a, c, q, r, logits}
    both_ways(key .. ", gradient", function(given)
      return table.unpack(pn.grad(f:run(given, plain).log_evidence:sum(), list))
    end, y)
  end
end

-- The bootstrap filter of x' = 0.9 x + 0.5 N(0, 1), y = x + 0.7 N(0, 1), resampled at each step.
function groups.smc()
  local dist = pn.dist
  for _, size in ipairs{{1000, 100}, {100000, 20}, {1000000, 5}} do
    local n, y = size[1], pn.randn(size[2])
    local filter = pn.smc.filter{num_particles = n, threshold = 1, trace = false,
      prior = function() return dist.normal(0, 1) end,
      transition = function(x) return dist.normal(0.9 * x, 0.5) end,
      observation = function(x) return dist.normal(x, 0.7) end}
    local key = "bootstrap " .. n
    print_row(key, "eager", time(function()
      filter:reset()
      filter:run(y)
    end))
    local online = filter:online()
    print_row(key, "replayed", time(function()
      online:reset()
      online:run(y)
    end))
  end
end

-- Keys are "name what n": log_prob, its gradient and draws of every row, 10^2 and 10^6 numbers, float64.
function groups.distributions()
  local density = require "density"
  local folder = (os.getenv "BUILD" or "build") .. "/peers-data"
  os.execute("mkdir -p " .. folder)
  for _, row in ipairs(density.rows()) do
    for _, n in ipairs(wanted(row.name) and {100, 1000000} or {}) do
      pn.seed(1)
      local ok, made, why = pcall(density.make, row, n, folder)
      if not ok then made, why = nil, made end
      if not made then io.stderr:write(row.name, ": ", why, "\n") end
      for _, what in ipairs(made and {"log_prob", "gradient", "sample"} or {}) do
        local f = made[what]
        quick(("%s %s %d"):format(row.name, what, n), table.unpack(f))
      end
      collectgarbage()
    end
  end
end

function groups.sampling()
  local build, sampling, reference = os.getenv "BUILD" or "build", require "sampling", require "reference_posteriors"
  reference.prepare(build .. "/peers-data/bridge", build, sampling.json)
  sampling.measure(print_row, build .. "/peers-data", wanted)
  reference.measure(print_row, wanted)
end

function groups.inference()
  require "inference".measure(print_row, time, (os.getenv "BUILD" or "build") .. "/peers-data")
end

function groups.switching()
  require "switching".measure(print_row, time, (os.getenv "BUILD" or "build") .. "/peers-data", wanted)
end

function groups.residual() require "residual".measure(print_row, wanted) end

function groups.lenet() require "lenet".measure(print_row, time, wanted) end

-- Outcomes are summed over up to 10^4, then so many drawn. Written with what is chosen for the peer to compare.
function groups.batchbald()
  local folder = (os.getenv "BUILD" or "build") .. "/peers-data"
  os.execute("mkdir -p " .. folder)
  for _, row in ipairs{{4, 500}, {4, 2000}, {6, 200}} do
    pn.seed(1)
    local n, N, best, batch = row[1], row[2], math.huge, nil
    local draws = (pn.randn{100, N, 10} * 2):softmax(-1)
    for _ = 1, 3 do
      local start = clock()
      batch = pn.active.batch_bald(draws, n, {outcomes = 10000, draws = 10000})
      best = math.min(best, clock() - start)
    end
    local values, se = {}, {}
    for k, step in ipairs(batch.steps) do values[k], se[k] = step.value, step.se end
    assert(pn.data.save_npz(("%s/batchbald-%d_of_%d.npz"):format(folder, n, N),
      {draws = draws, places = batch.places, values = pn.tensor(values), se = pn.tensor(se)}))
    print_row(("BatchBALD %d of %d"):format(n, N), "eager", best)
  end
end

function groups.sites()
  local rows = require "sites"
  for _, row in ipairs(rows) do
    for _, call in ipairs(rows.calls(row)) do print_row(call[1], "eager", time(call[2]) / call[3]) end
  end
end

-- Of each row the mean of the ends, which the peers must come near to.
function groups.stochastic()
  local folder = (os.getenv "BUILD" or "build") .. "/peers-data"
  os.execute("mkdir -p " .. folder)
  for _, row in ipairs(require("stochastic").rows) do
    local best, ends = math.huge, nil
    for _ = 1, 3 do
      local start = clock()
      ends = row[2]():to "float64"
      best = math.min(best, clock() - start)
    end
    assert(pn.data.save_npz(("%s/stochastic-%s.npz"):format(folder, (row[1]:gsub("%W+", "_"))),
      {mean = ends:mean{1}, se = ends:std{1} / math.sqrt(ends:size(1))}))
    print_row(row[1], "eager", best)
  end
end

local group = groups[arg[1]] or error("no group " .. tostring(arg[1]))
group()
