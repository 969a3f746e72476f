--- The rows of `make bench-peers` in the order of printing: {key, title, unit, must, dtype, flops, bytes}.
---   must      what the ratio to the best of the peers is to reach at least, {peer = 3}, and that to the limit at most,
---             {limit = 2}; {PyTorch = 1.5}: to that peer. Figures of one run are compared, never microseconds.
---   which     "replayed": judged by that figure; "both": by the worse of eager and replayed; else by the better
---   flops     with rate = "product" (at the rate of a large product) or "multiply-add" (in registers), and
---   bytes     at the rate of a copy: the larger of the two is the limit
local rows = {}

local function add(row) rows[#rows + 1] = row end

-- Products of a training step: forward, gradient of each weight, gradient of each input that is not data.
local function products(batch, layers, data_first)
  local total = 0
  for k, l in ipairs(layers) do total = total + 2 * batch * l[1] * l[2] * (k == 1 and data_first and 2 or 3) end
  return total
end

-- Of a recurrent layer 64-128 over 100 steps, 32 sequences.
local function recurrent(gates)
  return products(3200, {{64, gates * 128}}, true) + products(3200, {{128, gates * 128}})
end

local lenet = products(14400, {{25, 20}}, true) + products(1600, {{500, 50}}) + products(100, {{800, 500}, {500, 10}})
local dense = products(100, {{784, 400}, {400, 10}}, true)
local encoder, decoder = {{784, 200}, {200, 200}, {200, 80}}, {{40, 200}, {200, 200}, {200, 784}}

for _, r in ipairs{
  {"product 768", "product of 768 x 768", nil, 2 * 768 ^ 3},
  {"1-50-1", "1-50-1, batch 32, Adam", 3, products(32, {{1, 50}, {50, 1}}, true)},
  {"64-64-64-1", "64-64-64-1, batch 32, Adam", 3, products(32, {{64, 64}, {64, 64}, {64, 1}}, true)},
  {"Bayesian 13-50-1", "Bayesian 13-50-1, batch 32, Adam", 3, 2 * products(32, {{13, 50}, {50, 1}}, true)},
  {"784-64-10", "784-64-10, batch 64, Adam", 1.3, products(64, {{784, 64}, {64, 10}}, true)},
  {"784-400-20", "784-400-20, batch 100, Adam", 1.3, products(100, {{784, 400}, {400, 20}}, true)},
  {"VAE", "VAE 784-200-200-40, batch 100, Adam", 1.3, products(100, encoder, true) + products(100, decoder)},
  {"IWAE K=50", "IWAE of the same, K = 50, Adam", 1.3, products(100, encoder, true) + products(5000, decoder)},
  {"GRU 8-32", "GRU 8-32, T 50, batch 16, gradient", 3, products(50 * 16, {{8, 96}, {32, 96}}, true)},
  {"GRU 64-128", "GRU 64-128, T 100, batch 32, Adam", 1, recurrent(3)},
  {"LSTM 64-128", "LSTM 64-128, T 100, batch 32, Adam", 1, recurrent(4)},
  {"attention 4x64", "attention 4 x 64, T 128, batch 8, Adam", 1, products(1024, {{256, 768}}, true)
    + products(1024, {{256, 256}}) + products(8 * 4 * 128, {{64, 128}, {128, 64}})},
  {"LeNet5", "LeNet5, strided, batch 100, Adam", 1, lenet},
  {"LeNet5 moments", "the same, means and variances, Adam", 1, 3 * lenet},
  {"Bayesian 784-400-10, local", "Bayesian 784-400-10, batch 100, local", 1, 2 * dense},
  {"Bayesian 784-400-10, weights", "the same, weights drawn once", 1, dense},
  {"Bayesian 784-400-10, flipout", "the same, flipout", 1, 2 * dense},
  {"per-example gradients", "gradients of 512 examples, 784-100-10", 1, products(512, {{784, 100}, {100, 10}}, true),
    bytes = 512 * 79510 * 4},
  -- 15 evaluations of a factorisation and its gradient, 3 times n^3 / 3
  {"L-BFGS on a GP", "L-BFGS on a GP of 400, 10 iterations", 1, 15 * 400 ^ 3, "float64"},
} do
  add{group = "training", key = r[1], title = r[2], unit = "us", must = {peer = r[3]}, flops = r[4], rate = "product",
    dtype = r[5] or "float32", bytes = r.bytes, which = "replayed"}
end

-- Four sources of 196 pixels, 16 draws of 128: each draw through all four decoders.
for _, r in ipairs{{"ind", "single beliefs", 4}, {"poe", "their product", 1}, {"hybrid", "both", 5}} do
  local read = 4 * products(128, {{196, 200}, {200, 200}, {200, 32}}, true)
  local explained = 4 * products(128 * 16 * r[3], {{16, 200}, {200, 200}, {200, 196}})
  add{group = "sources", key = "sources " .. r[1], title = ("four sources, K = 16, batch 128, %s, Adam"):format(r[2]),
    unit = "ms", must = {peer = 1}, flops = read + explained, rate = "product", dtype = "float32", which = "replayed"}
end

-- Residual state-space models: settings of an appendix, growth with the steps of a series, the peak of a process.
for _, r in ipairs{{"C.3", "flights, T 25, batch 32"}, {"D.2", "rows of pictures, T 28, batch 128"},
  {"E.4", "traffic, T 24, batch 8"}} do
  add{group = "residual", key = r[1], title = ("VSSM %s: %s"):format(r[1], r[2]), unit = "ms", must = {peer = 1},
    which = "replayed"}
end
for _, n in ipairs{25, 100, 400} do
  add{group = "residual", key = "C.3 T " .. n, title = ("VSSM C.3, T = %d"):format(n), unit = "ms", must = {peer = 1},
    which = "replayed"}
end
for _, n in ipairs{25, 100, 400} do
  add{group = "residual", key = "C.3 memory " .. n, title = ("VSSM C.3, T = %d: peak"):format(n), unit = "MB",
    must = {peer = 1}, which = "replayed"}
end

for _, name in ipairs{"plain", "gates", "matching", "evidential", "local", "dropout 5"} do
  for _, what in ipairs{"step", "forward"} do
    add{group = "lenet", key = ("LeNet5 %s %s"):format(name, what), title = ("LeNet5 %s, batch 100, %s"):format(name,
      what), unit = "us", must = {peer = 1}, which = "replayed"}
  end
end
for _, what in ipairs{"step", "forward"} do
  add{group = "lenet", key = "dense matching " .. what, title = "784-500-500-10 matching, batch 100, " .. what,
    unit = "us", must = {peer = 1}, which = "replayed"}
end
for _, name in ipairs{"dense", "convolutional"} do
  add{group = "lenet", key = "certificate " .. name, title = ("certificate, %s: an image and draw"):format(name),
    unit = "us", must = {peer = 1}}
end
for _, r in ipairs{{"4 of 500", "all outcomes"}, {"4 of 2000", "all outcomes"}, {"6 of 200", "the last two drawn"}} do
  add{group = "batchbald", key = "BatchBALD " .. r[1], title = ("BatchBALD, %s, 100 draws, %s"):format(r[1], r[2]),
    unit = "ms", must = {peer = 10}, dtype = "float64"}
end

for _, name in ipairs{"GBM Euler-Maruyama", "GBM Milstein", "Lorenz Euler-Maruyama", "Lorenz SRA1"} do
  add{group = "stochastic", key = name, title = name .. ", 10^5 paths, a step of one", unit = "ns", per = 1e8,
    must = {peer = 3}, dtype = "float32"}
end

for _, dtype in ipairs{"float32", "float64"} do
  local size = dtype == "float32" and 4 or 8
  for _, name in ipairs{"exp", "log", "tanh", "erf", "lgamma", "digamma"} do
    for _, n in ipairs{65536, 1000000} do
      add{group = "elementwise", key = ("%s %s %d"):format(name, dtype, n), unit = "ns", per = n, dtype = dtype,
        title = ("%s of %s, %s, each"):format(name, n == 65536 and "65536" or "10^6", dtype), must = {peer = 1},
        bytes = 2 * n * size}
    end
  end
  add{group = "elementwise", key = "normals " .. dtype, unit = "ns", per = 1000000, dtype = dtype,
    title = ("normals of 10^6, %s, each"):format(dtype), must = {peer = 1}, bytes = 1000000 * size}
  add{group = "elementwise", key = "chain " .. dtype, title = "7 elementwise and a sum, 10^6 " .. dtype, unit = "us",
    dtype = dtype, must = {peer = 1}, bytes = 1000000 * size, which = "replayed"}
end
add{group = "elementwise", key = "add of 8", title = "add of 8, recorded", unit = "us", must = {peer = 1},
  dtype = "float64"}

for _, size in ipairs{{4, 2}, {10, 4}} do
  local n, p = size[1], size[2]
  -- of a filter: state and observation in, state and density out
  local bytes = 8 * (2 * (n + n * n) + p + 1)
  -- predict 2 n^3 + n^3 (half of a symmetric product), innovation, gain and Joseph's form
  local flops = 2 * n * n + 6 * n ^ 3 + 5 * p * n * n + 4 * p * p * n
  for k, what in ipairs{"", ", gradient"} do
    add{group = "kalman", key = ("Kalman %d, %d%s"):format(n, p, what), unit = "ns", per = 3200, dtype = "float64",
      title = ("Kalman step, state %d, observation %d%s"):format(n, p, what), must = {peer = 3},
      bytes = 3200 * bytes * (k == 1 and 1 or 2), flops = 3200 * flops * (k == 1 and 1 or 3), rate = "multiply-add"}
  end
end

for _, size in ipairs{{4, 2}, {10, 4}} do
  for _, what in ipairs{"", ", gradient"} do
    add{group = "gaussian", key = ("sequence %d, %d%s"):format(size[1], size[2], what), unit = "us", dtype = "float64",
      title = ("Kalman, 64 series of 1000, %d, %d%s"):format(size[1], size[2], what), must = {peer = 1}}
  end
end

-- A pass of 10 steps, per step of one particle.
for _, size in ipairs{{4, 2, 5}, {10, 4, 3}} do
  for _, what in ipairs{"", ", gradient"} do
    add{group = "rbpf", key = ("RBPF %d, %d%s"):format(size[1], size[2], what), unit = "ns", per = 64 * 50 * 10,
      title = ("RBPF step, state %d, observation %d%s"):format(size[1], size[2], what), must = {peer = size[3]},
      dtype = "float64"}
  end
end

-- Deep Rao-Blackwellised filters on windows of exchange rates: a whole step of training, paths, the peak of a process.
for _, kind in ipairs{"RSGLS-ISSM", "ARSGLS"} do
  local function row(key, title, unit, must)
    add{group = "switching", key = kind .. " " .. key, title = kind .. " " .. title, unit = unit, must = must,
      which = unit == "ms" and "replayed" or nil}
  end
  for _, dtype in ipairs{"float32", "float64"} do row(dtype, "step of training, " .. dtype, "ms", {peer = 5}) end
  for _, n in ipairs{1, 10, 30} do row("particles " .. n, ("step, %d particles, float32"):format(n), "ms") end
  for _, n in ipairs(kind == "ARSGLS" and {8, 16, 32} or {}) do
    row("states " .. n, ("step, state of %d, float32"):format(n), "ms")
  end
  row("forecast", "8 x 30 days, 100 paths, float32", "ms", {peer = 3})
  row("memory", "T = 300, 10 windows, peak, float64", "MB", {peer = 1})
end

-- Four times the best peer where overhead counts. The limit is the loop by hand of bench/particle.c: at most twice
-- that.
for _, r in ipairs{{1000, 100, 4}, {100000, 20, 1}, {1000000, 5, 1}} do
  local row = {group = "smc", key = "bootstrap " .. r[1], unit = "ns", per = r[1] * r[2], dtype = "float64",
    by_hand = r[1]}
  row.title, row.must = ("bootstrap filter, N = %d, each"):format(r[1]), {peer = r[3], limit = 2}
  add(row)
end

-- Log density and gradient of the larger ones are a product with the data each; the others are small.
for _, r in ipairs{{"eight_schools", "eight schools"}, {"logistic", "logistic regression, 690 x 15"},
  {"kidiq", "kidiq, momiq"}, {"arK", "arK"}, {"gp_regr", "gp_regr"}} do
  for _, what in ipairs{{"leapfrog", "a leapfrog"}, {"ess", "an effective draw"},
    {"cold", "cold start to R-hat < 1.01"}, {"warm", "the same, compiled"}} do
    add{group = "sampling", key = r[1] .. " " .. what[1], title = ("NUTS, %s: %s"):format(r[2], what[2]), unit = "us",
      must = {peer = 1}, dtype = "float64"}
  end
end

-- All posteriors of posteriordb; each figure with the warm-up (reference_posteriors.lua).
for _, name in ipairs{"kidscore_momiq", "kidscore_interaction", "logearn_height", "logmesquite", "nes", "blr",
  "diamonds", "kilpisjarvi", "arK", "garch11", "hmm_drive_0", "eight_schools_noncentered", "low_dim_gauss_mix",
  "gp_regr", "gp_pois_regr", "lotka_volterra", "one_comp_mm_elim_abs"} do
  for _, what in ipairs{{"gradients", "gradients an effective draw", ""}, {"draw", "an effective draw", "us"},
    {"gradient", "a gradient", "us"}} do
    add{group = "sampling", key = what[1] .. " " .. name, title = ("%s: %s"):format(name, what[2]), unit = what[3],
      must = {peer = 1}, dtype = "float64", tally = what[2]}
  end
end

for _, r in ipairs{{"eight_schools", "eight schools", "mean-field", 10},
  {"logistic", "logistic regression, 690 x 15", "mean-field", 10},
  {"VAE", "VAE 784-200-200-40, batch 100", "amortised", 50}} do
  for _, estimator in ipairs{"elbo", "iwae"} do
    local name = estimator == "elbo" and "ELBO" or "IWAE K=" .. r[4]
    add{group = "inference", key = estimator .. " " .. r[1], title = ("%s, %s"):format(name, r[2]), unit = "us",
      must = {peer = 1}, dtype = r[1] == "VAE" and "float32" or "float64"}
    add{group = "inference", key = ("%s %s first"):format(estimator, r[1]), title = "  until the first step is done",
      unit = "us", must = {peer = 1}, dtype = "float64"}
  end
end

-- A draw of the weights for all data.
for _, name in ipairs{"Yacht", "Spam", "MNIST"} do
  add{group = "sites", key = "sites, " .. name, title = ("sites of each datum, %s, a draw"):format(name), unit = "us",
    must = {peer = 1}, dtype = "float32"}
  add{group = "sites", key = "sums of sites, " .. name, title = ("sums of sites, %s, a draw"):format(name), unit = "us",
    must = {peer = 1}, dtype = "float32"}
end

-- Rows of the keys "name what n" of ours.lua. Special-function ones should be three times as fast as PyTorch.
local special = {gamma = true, beta = true, dirichlet = true, student_t = true}

local function distributions(figures)
  local list = {}
  for key in pairs(figures) do
    local name, what, n = key:match "^([%w_]+) (%l[%l_]+) (%d+)$"
    if name and (n == "100" or n == "1000000") then
      list[#list + 1] = {key = key, title = ("%s %s, %s"):format(name, what, n == "100" and "10^2" or "10^6, each"),
        unit = n == "100" and "us" or "ns", per = n == "100" and 1 or 1000000, dtype = "float64",
        must = {PyTorch = special[name] and 3 or 1}, which = "both"}
    end
  end
  table.sort(list, function(a, b) return a.key < b.key end)
  return list
end

return {fixed = rows, distributions = distributions}
