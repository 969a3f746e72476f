--- Bayesian regression on tables of data: one hidden layer of 50 ReLU units, standardised by training
--- statistics, learned observation noise, over many splits into training and test rows, by one of
--- several methods (`--method`): local (local reparametrisation, the default), weights (one draw of the
--- weights a minibatch), flipout, clt and heaviside (means and variances in closed form, by moment matching
--- and by variance back-propagation), dropout (Monte Carlo dropout of the units at a rate of 0.05).
--- Reports the test log-likelihood (nats, in the target's own units) and the RMSE, as mean and standard
--- error over the splits.
---
---   penumbra uci_regression.lua --data energy.csv.gz                 20 random splits, or those of the
---                                                                    file energy.test_splits.txt beside it
---   penumbra uci_regression.lua --data t.csv --target price --splits my_splits.txt --jobs 4
---   penumbra uci_regression.lua --data t.csv --save model.safetensors       trains on all rows, saves
---   penumbra uci_regression.lua --data new.csv --load model.safetensors     predicts, one row per row
---
--- A splits file holds one split a line: the test rows, counted from 0. Further options and their
--- defaults are in `option` below. The setting is that of Kingma, Salimans & Welling (2015) with a proper
--- normal prior: Adam from 0.01, prior precision 10, the noise precision set after every epoch to its optimum
--- 1 / beta = mean of E[(y - f)^2] over the training rows (beta = 1 at first; infer.noise_precision). With clt and
--- heaviside the objective is the evidence bound of Haussmann (2021), (3.3) with (3.5), and that update the published
--- one, both in closed form; the others draw. Minibatches of 64
--- and a learning rate that falls along half a cosine matter: with a constant rate and minibatches of 16
--- (`--schedule constant --batch 16`) the noise of the gradient prunes units before they are of use.
---
--- What was run and what came out: README.md beside this file.
local pn = require "penumbra"
local nn, optim, infer, train = pn.nn, pn.optim, pn.infer, pn.train
local metrics = require "penumbra.metrics"

local option = {
  data = false, target = false, splits = false, jobs = 2, split = false, save = false, load = false,
  hidden = 50, epochs = 400, batch = 64, lr = 0.01, schedule = "cosine", prior_precision = 10, draws = 200,
  seed = 1, compile = "yes", quick = false, method = "local", rate = 0.05,
}
local methods = { ["local"] = true, weights = true, flipout = true, clt = true, heaviside = true, dropout = true }

local function usage(message)
  io.stderr:write("uci_regression: ", message, "\n")
  local names = {}
  for name, value in pairs(option) do names[#names + 1] = ("  --%s (%s)"):format(name, tostring(value)) end
  table.sort(names)
  io.stderr:write("options and their defaults:\n", table.concat(names, "\n"), "\n")
  os.exit(1)
end

local function read_options(args)
  local i = 1
  while i <= #args do
    local name = args[i]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then usage("unknown option " .. args[i]) end
    if name == "quick" then
      option.quick = true
    else
      local value = args[i + 1]
      i = i + 1
      if type(option[name]) == "number" or name == "split" then value = tonumber(value) end
      if value == nil then usage("--" .. name .. " needs a value") end
      option[name] = value
    end
    i = i + 1
  end
end

--- The table without its target, [N, D], and the target, [N].
local function load_table()
  if not option.data then -- something to run on where no data is at hand
    local x = pn.randn(option.quick and 120 or 500, 4, { generator = pn.generator(7) })
    local noise = pn.randn(#x, { generator = pn.generator(8) })
    return x, x[{ {}, 1 }]:sin() * 3 + x[{ {}, 2 }] * x[{ {}, 3 }] + noise * 0.3
  end
  local values, header = assert(pn.data.csv(option.data))
  local column = values:size(2)
  if option.target then
    column = tonumber(option.target)
    for k, name in ipairs(header or {}) do
      if name == option.target then column = k end
    end
    if not column then usage(("no column '%s' in %s"):format(option.target, option.data)) end
  end
  local rest = {}
  for k = 1, values:size(2) do
    if k ~= column then rest[#rest + 1] = k - 1 end
  end
  if option.load and not option.target and values:size(2) == option.columns then -- no target: all are inputs
    return values
  end
  return values:take(2, pn.tensor(rest, { dtype = "int64" })), values[{ {}, column }]
end

--- The list of splits, each a list of test rows counted from 0.
local function load_splits(n)
  local path = option.splits or option.data and option.data:gsub("%.csv.*$", "") .. ".test_splits.txt"
  local file = path and io.open(path)
  local splits = {}
  if not file then
    if option.splits then usage("cannot open " .. option.splits) end
    for k = 1, option.quick and 2 or 20 do
      local order = pn.randperm(n, { generator = pn.generator(1000 + k) })
      splits[k] = order[{ { 1, math.max(1, n // 10) } }]:totable()
    end
    return splits
  end
  for line in file:lines() do
    local rows = {}
    for row in line:gmatch "%d+" do rows[#rows + 1] = math.tointeger(row) end
    if #rows > 0 then splits[#splits + 1] = rows end
  end
  file:close()
  return splits
end

local function complement(rows, n)
  local out, test = {}, {}
  for _, row in ipairs(rows) do test[row] = true end
  for row = 0, n - 1 do
    if not test[row] then out[#out + 1] = row end
  end
  return out
end

local function by_moments() return option.method == "clt" or option.method == "heaviside" end

local function new_network(inputs)
  local prior_scale, posterior_scale = option.prior_precision ^ -0.5, math.exp(-4.5)
  if option.method == "dropout" then
    return nn.sequential { nn.linear(inputs, option.hidden, { init = "he" }), nn.relu(),
      nn.dropout { rate = option.rate }, nn.linear(option.hidden, 1, { init = "he" }) }
  elseif option.method == "flipout" then
    return nn.bayesian(nn.sequential { nn.linear(inputs, option.hidden, { init = "he" }), nn.relu(),
      nn.linear(option.hidden, 1, { init = "he" }) },
      { prior = prior_scale, posterior_scale = posterior_scale, estimator = "flipout" })
  end
  local layer = { prior_scale = prior_scale, posterior_scale = posterior_scale, init = "he",
    estimator = option.method == "weights" and "weights" or "local" }
  return nn.sequential { nn.bayes_linear(inputs, option.hidden, layer),
    nn.relu { rule = option.method == "heaviside" and "identity_heaviside" or "clt" },
    nn.bayes_linear(option.hidden, 1, layer) }
end

-- Mean and variance of the function at each row where moments are propagated, else one draw of it.
local function outputs(net, x)
  if not by_moments() then return net(x):squeeze(2) end
  local m, v = net:moments(x)
  return m:squeeze(2), v:squeeze(2)
end

-- The divergence from the prior; of dropout, a point, the negative log prior.
local function divergence(net)
  if option.method ~= "dropout" then return net:kl() end
  local total = 0
  for _, p in ipairs(net:parameters()) do total = p:square():sum() + total end
  return total * (0.5 * option.prior_precision)
end

--- Trains on standardised x [N, D], y [N]; returns the network and the noise precision beta: the evidence bound and,
--- after each epoch, the update of the noise of Haussmann (2021), (3.5) and 3.3.1, exact where moments are propagated,
--- else by one draw.
local function fit(x, y)
  local n, net = x:size(1), new_network(x:size(2))
  local opt = optim.adam(net:parameters(), { lr = option.lr })
  local steps, beta = option.epochs * math.ceil(n / option.batch), 1
  train.fit {
    data = { x, y }, batch_size = option.batch, epochs = option.epochs, optimiser = opt,
    compile = option.compile == "yes", -- beta changes from epoch to epoch: two captures in each
    schedule = option.schedule == "cosine" and optim.cosine(option.lr, option.lr / 100, steps) or nil,
    loss = function(bx, by)
      local f, v = outputs(net, bx)
      local log_likelihood = infer.expected_log_likelihood("normal", by, f, v or f * 0, { precision = beta })
      return infer.elbo { log_likelihood = log_likelihood, kl = divergence(net), num_data = n } * (-1 / n)
    end,
    on_epoch = function()
      beta = pn.no_grad(function() return infer.noise_precision(y, outputs(net, x)):item() end)
    end,
  }
  return net, beta
end

--- Draws of the mean function at x, [S, N].
local function draws(net, x)
  return pn.no_grad(function()
    if by_moments() then
      local m, v = net:moments(x)
      return (m + v:sqrt() * pn.randn { option.draws, x:size(1), 1 }):squeeze(3)
    end
    local list = {}
    for s = 1, option.draws do list[s] = net(x):squeeze(2) end
    local parts = {}
    for s = 1, #list, 50 do parts[#parts + 1] = pn.stack({ table.unpack(list, s, math.min(s + 49, #list)) }) end
    return pn.concatenate(parts, 1)
  end)
end

local function run_split(x, y, test_rows, k)
  pn.seed(option.seed * 1000 + k)
  local n = x:size(1)
  local test = pn.tensor(test_rows, { dtype = "int64" })
  local rest = pn.tensor(complement(test_rows, n), { dtype = "int64" })
  local sx, sy = pn.data.standardise(x:take(1, rest)), pn.data.standardise(y:take(1, rest))
  local net, beta = fit(sx(x:take(1, rest)), sy(y:take(1, rest)))
  local f = draws(net, sx(x:take(1, test)))
  local target, scale = sy(y:take(1, test)), beta ^ -0.5
  local unit = sy.scale:item()
  local ll = metrics.mixture_log_prob(target, f, scale):mean():item() - math.log(unit)
  local cdf = metrics.mixture_cdf(target, f, scale)
  return ll, metrics.rmse(target, f:mean(1)) * unit, metrics.coverage(cdf, 0.5), metrics.coverage(cdf, 0.9)
end

-- ---- many splits: `jobs` processes, each working through its share ----

local function quote(s) return "'" .. tostring(s):gsub("'", "'\\''") .. "'" end

local function child_command(share, jobs)
  local words = { quote(arg[-1] or "penumbra"), quote(arg[0]), "--split", share + jobs / 1000 }
  for name, value in pairs(option) do
    if value and name ~= "quick" and name ~= "split" and name ~= "jobs" then
      words[#words + 1] = "--" .. name .. " " .. quote(value)
    end
  end
  if option.quick then words[#words + 1] = "--quick" end
  return table.concat(words, " ")
end

--- --split 2.004 means: of 4 processes the second. Prints a line per split.
local function child(x, y, splits)
  local share = math.floor(option.split)
  local jobs = math.floor((option.split - share) * 1000 + 0.5)
  for k = share, #splits, jobs do
    print("split", k, run_split(x, y, splits[k], k))
    io.stdout:flush()
  end
end

local function mean_and_error(list)
  local sum, square = 0, 0
  for _, v in ipairs(list) do sum = sum + v end
  local mean = sum / #list
  for _, v in ipairs(list) do square = square + (v - mean) ^ 2 end
  return mean, #list > 1 and math.sqrt(square / (#list - 1) / #list) or 0
end

local function report(results, n, d, seconds)
  local names = { "test log-likelihood", "test RMSE", "inside 50 % interval", "inside 90 % interval" }
  print(("%d rows, %d features, %d splits, %.0f s"):format(n, d, #results, seconds))
  for k, name in ipairs(names) do
    local column = {}
    for s, r in ipairs(results) do column[s] = r[k] end
    print(("%-22s %8.3f +- %.3f"):format(name, mean_and_error(column)))
  end
end

local function all_splits(n, d, count)
  local start, results, pipes = os.time(), {}, {}
  for j = 1, math.min(option.jobs, count) do
    pipes[j] = assert(io.popen(child_command(j, math.min(option.jobs, count))))
  end
  for _, pipe in ipairs(pipes) do
    for line in pipe:lines() do
      local numbers = {}
      for v in line:match("^split%s+%d+%s+(.*)"):gmatch "%S+" do numbers[#numbers + 1] = tonumber(v) end
      results[#results + 1] = numbers
      io.stderr:write(("\r%d of %d splits done "):format(#results, count))
    end
    if not pipe:close() then error("a process failed", 0) end
  end
  io.stderr:write "\n"
  report(results, n, d, os.time() - start)
end

-- ---- one model on all rows: saved, and loaded to predict ----

local function save(x, y)
  pn.seed(option.seed)
  local sx, sy = pn.data.standardise(x), pn.data.standardise(y)
  local net, beta = fit(sx(x), sy(y))
  local state = net:state()
  state["input.loc"], state["input.scale"] = sx.mean, sx.scale
  state["target.loc"], state["target.scale"] = sy.mean, sy.scale
  state["noise.beta"] = pn.tensor(beta)
  assert(pn.save(option.save, state))
  print(("saved %s: %d inputs, %d units"):format(option.save, x:size(2), option.hidden))
end

--- Prints mean, standard deviation and the 90 % interval of each row.
local function predict(model, x)
  local net = new_network(x:size(2))
  local own = {}
  for name in pairs(net:state()) do own[name] = model[name] end
  net:load_state(own)
  local f = draws(net, (x - model["input.loc"]) / model["input.scale"])
  local noise = model["noise.beta"]:item() ^ -0.5
  local loc, scale = model["target.loc"]:item(), model["target.scale"]:item()
  local mean = (f:mean(1) * scale + loc):totable()
  local sd = ((f:var(1, 0) + noise ^ 2):sqrt() * scale):totable()
  local low = (metrics.mixture_quantile(0.05, f, noise) * scale + loc):totable()
  local high = (metrics.mixture_quantile(0.95, f, noise) * scale + loc):totable()
  print "mean,sd,q05,q95"
  for i = 1, #mean do print(("%.6g,%.6g,%.6g,%.6g"):format(mean[i], sd[i], low[i], high[i])) end
end

read_options(arg)
if option.quick then option.epochs, option.draws = math.min(option.epochs, 20), 50 end
if not methods[option.method] then usage("--method must be local, weights, flipout, clt, heaviside or dropout") end
local model = option.load and assert(pn.load(option.load))
if model then
  option.columns, option.hidden = model["input.loc"]:numel(), model["1.weight_loc"]:size(2)
end
local x, y = load_table()
if model then
  predict(model, x)
elseif option.save then
  save(x, y)
else
  local splits = load_splits(x:size(1))
  if option.split then
    child(x, y, splits)
  else
    all_splits(x:size(1), x:size(2), #splits)
  end
end
