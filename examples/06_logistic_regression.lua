--- Bayesian logistic regression: which mails are spam? Every coefficient has a posterior, the test mails get honest
--- probabilities. NUTS beside two guides of pn.svi: one multivariate normal (full_rank) matches the posterior, normals
--- that are independent (mean_field) cannot, because columns that say the same are told apart with too much certainty.
---
---     penumbra examples/06_logistic_regression.lua [--quick] [--seed N] [--out FILE.svg] [--data FILE.csv]
---
--- --data: a table whose last column is 0 or 1, such as UCI's spambase.csv.gz (4601 mails, 57 columns); columns that
--- are not negative are taken as log(x + 0.01) where they are skewed. Without it the data are generated.
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out, path = false, 1, "logistic_regression.svg", nil
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  elseif arg[i] == "--data" and arg[i + 1] then
    path, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 06_logistic_regression.lua [--quick] [--seed N] [--out FILE.svg] [--data FILE.csv]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- The data: x [rows, columns], y [rows] of 0 and 1. A fifth of the rows is kept for the test.
local function generated()
  local n, names = 1500, { "a", "a_again", "b", "c", "d", "e" }
  local x = pn.randn { n, 6 }
  local a = x:slice(2, 1, 1)
  x = pn.concatenate({ a, a + 0.3 * x:slice(2, 2, 2), x:slice(2, 3, 6) }, 2) -- the second repeats the first
  local logits = x:matmul(pn.tensor { 1, 1, -1.5, 0.5, 0, 0 }) - 0.5
  return x, dist.bernoulli { logits = logits }:sample(), names
end
local function read(file)
  local table_of_it, names = pn.data.csv(file)
  if not table_of_it then error(names, 0) end
  local k = table_of_it:size(2)
  local x = table_of_it:slice(2, 1, k - 1)
  if x:min():item() >= 0 then x = (x + 0.01):log() end
  return x, table_of_it:select(2, k), names or {}
end
local x, y, names = (path and read or generated)(path)
print(("%s: %d rows, %d columns"):format(path and path:match "[^/]*$" or "generated data", x:size(1), x:size(2)))
local order = pn.randperm(x:size(1))
local n_test = x:size(1) // 5
local test, rest = order:slice(1, 1, n_test), order:slice(1, n_test + 1, -1)
local to_x = pn.data.standardise(x:take(1, rest))
local x_train, y_train = to_x(x:take(1, rest)), y:take(1, rest)
local x_test, y_test = to_x(x:take(1, test)), y:take(1, test)

local model = pn.model(function(m, columns, label)
  local bias = m:sample("bias", dist.normal(0, 5))
  local w = m:sample("w", dist.normal(pn.zeros { columns:size(2) }, 1):independent(1))
  m:plate("rows", columns:size(1), function()
    m:observe("y", dist.bernoulli { logits = columns:matmul(w) + bias }, label)
  end)
end)
local data = { x_train, y_train }
local posterior = pn.nuts(model, { data = data, warmup = quick and 300 or 1000, draws = quick and 500 or 1000,
  progress = true })
print(("NUTS: %d draws in %.1f s, %d divergences"):format(posterior.draws.bias:numel(), posterior.seconds,
  posterior.divergences))
local fits = {}
for _, name in ipairs { "mean_field", "full_rank" } do
  local fit = pn.svi(model, name, { data = data, steps = quick and 1500 or 5000, draws = 4, lr = 0.02 })
  local bound = fit:bound { draws = 10000 }
  print(("%-11s ELBO %.2f, log evidence %.2f, k-hat %.2f, %.1f s"):format(name .. ":", bound.elbo, bound.value,
    fit:k_hat(10000), fit.seconds))
  fits[name] = fit
end
local mean_field, full_rank = fits.mean_field:sample(4000), fits.full_rank:sample(4000)
local weighted = fits.full_rank:resample(2000, { draws = 40000 })
local nuts = { bias = posterior.draws.bias:reshape { -1 }, w = posterior.draws.w:reshape { -1, x:size(2) } }

-- The coefficients that are farthest from 0, and how far guides and NUTS are apart in all of them.
local summary = posterior:summary { "w" }
local far = pn.argsort(nuts.w:mean(1):abs(), 1, true):totable()
print(("\n%-26s %16s %16s %16s %16s"):format("", "NUTS", "mean-field", "full-rank", "weighted"))
for rank = 1, math.min(10, #far) do
  local k = far[rank] + 1
  io.write(("%-26s"):format(names[k] or "column " .. k))
  for _, sites in ipairs { nuts, mean_field, full_rank, weighted } do
    local w = sites.w:select(2, k)
    io.write((" %7.3f +-%6.3f"):format(w:mean():item(), w:std():item()))
  end
  print()
end
local function gaps(sites, independent) -- of means in Monte Carlo errors, and the smallest ratio of deviations
  local most, least = 0, math.huge
  for k, row in ipairs(summary) do
    local w = sites.w:select(2, k)
    local mc_error = math.sqrt(row.mcse ^ 2 + row.sd ^ 2 / independent)
    most = math.max(most, math.abs(w:mean():item() - row.mean) / mc_error)
    least = math.min(least, w:std():item() / row.sd)
  end
  return most, least
end
print(("mean-field: a standard deviation is %.2f times that of NUTS"):format(select(2, gaps(mean_field, 4000))))
print(("full-rank: no standard deviation below %.2f times that of NUTS"):format(select(2, gaps(full_rank, 4000))))
print(("weighted draws of full-rank and NUTS differ by at most %.1f Monte Carlo errors"):format(
  (gaps(weighted, 2000))))

-- The test rows: probabilities are means over draws.
local function probability(sites) return (sites.w:matmul(x_test:t()) + sites.bias:unsqueeze(2)):sigmoid():mean(1) end
local p_test = probability(nuts)
local wrong = p_test:gt(0.5):ne(y_test:gt(0.5)):to("float64"):mean():item()
print(("%d test rows: %.1f %% wrong; log-likelihood a row %.3f by NUTS, %.3f by mean-field"):format(n_test, 100 * wrong,
  dist.bernoulli { probs = p_test }:log_prob(y_test):mean():item(),
  dist.bernoulli { probs = probability(mean_field):clamp(1e-12, 1 - 1e-12) }:log_prob(y_test):mean():item()))

-- The picture: the farthest coefficients; the two that are told apart least; probabilities against frequencies.
local shown = math.min(12, #far)
local function intervals(sites, shift, label)
  local at, mid, low, high = {}, {}, {}, {}
  for rank = 1, shown do
    local w = pn.sort(sites.w:select(2, far[rank] + 1), 1)
    local n = w:size(1)
    at[rank], mid[rank] = rank + shift, w[n // 2]:item()
    low[rank], high[rank] = w[n // 20]:item(), w[n - n // 20]:item()
  end
  return pn.plot.error_bars(at, mid, { lower = low, upper = high }, { label = label })
end
local coefficients = pn.plot.panel { title = "The largest coefficients, 90 %", x_label = "rank", legend = "below",
  x_range = { 0.4, shown + 0.6 }, x_step = 1, intervals(nuts, -0.2, "NUTS"), intervals(full_rank, 0, "full-rank"),
  intervals(mean_field, 0.2, "mean-field") }
local z = (nuts.w - nuts.w:mean(1)) / nuts.w:std(1)
local between = z:t():matmul(z):tril(-1)
local place = between:abs():reshape({ -1 }):argmax():item()
local one, two = place // x:size(2) + 1, place % x:size(2) + 1
local function cloud(sites, label)
  return pn.plot.points(sites.w:slice(1, 1, 600):select(2, one), sites.w:slice(1, 1, 600):select(2, two),
    { label = label, size = 0.3 })
end
local pair = pn.plot.panel { title = "Two columns that say the same", x_label = names[one], y_label = names[two],
  legend = "below", cloud(nuts, "NUTS"), cloud(full_rank, "full-rank"), cloud(mean_field, "mean-field") }
local by_size = pn.argsort(p_test, 1)
local said, seen, err = {}, {}, {}
for k = 1, 10 do
  local bin = by_size:slice(1, (k - 1) * n_test // 10 + 1, k * n_test // 10)
  said[k], seen[k] = p_test:take(1, bin):mean():item(), y_test:take(1, bin):mean():item()
  err[k] = math.sqrt(said[k] * (1 - said[k]) / bin:numel())
end
local honest = pn.plot.panel { title = "Test rows: ten bins", x_label = "probability", y_label = "frequency",
  legend = "top left", x_range = { -0.02, 1.02 }, y_range = { -0.05, 1.1 },
  pn.plot.line({ 0, 1 }, { 0, 1 }, { dashed = true, colour = "#000000", width = 1 }),
  pn.plot.error_bars(said, seen, err, { label = "+- 1 deviation" }) }
local picture, why = pn.plot.save(out, { columns = 3, size = { 1320, 420 }, coefficients, pair, honest })
print(picture and "picture: " .. picture or "no picture: " .. why)
