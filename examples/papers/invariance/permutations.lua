--- How much of what a mean-field posterior lacks is due to node permutations (Kurle et al. 2022, appendix E): the gap
--- KL[q_0 || q_mix] of trained networks with one hidden layer of 1 to 6 nodes, 720 modes, and with two hidden layers,
--- where the sum over all permutations is exact. The gap is at most ln |P| and is reached where the modes lie apart; at
--- the prior it is 0.
---
---     penumbra examples/papers/invariance/permutations.lua [--quick] [--seed 1] [--steps 6000] [--out FOLDER]
---
--- prints, for each network, the ELBO and the gap, what the ELBO of the mixture is, and the bounds that need no sum
--- over all permutations; and the gap of one network on the way from the prior to its posterior. Writes
--- permutations.png.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local dist, inv, nn, optim, plot = pn.dist, pn.invariance, pn.nn, pn.optim, pn.plot

local option = { quick = false, seed = 1, steps = 6000, out = "." }
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-(%w+)$"
  if name == "quick" then
    option.quick, option.steps = true, 300
  elseif name == "out" and arg[i + 1] then
    option.out, i = arg[i + 1], i + 1
  elseif (name == "seed" or name == "steps") and math.tointeger(tonumber(arg[i + 1])) then
    option[name], i = math.tointeger(tonumber(arg[i + 1])), i + 1
  else
    io.stderr:write("usage: permutations.lua [--quick] [--seed N] [--steps N] [--out FOLDER]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(option.seed)

local noise, n = 0.1, 40
local x = pn.linspace(-1, 1, n):unsqueeze(2)
local y = (x * 4):sin() + pn.randn { n, 1 } * noise

local function network(hidden)
  local sizes = { 1, table.unpack(hidden) }
  sizes[#sizes + 1] = 1
  return nn.mlp(sizes, { activation = "tanh" })
end

-- A mean-field posterior under the prior N(0, 1) of all weights, which permutations leave alone, and its ELBO.
local function trained(hidden)
  local net = nn.bayesian(network(hidden), { prior = 1, posterior_scale = 0.1 })
  local function elbo() return dist.normal(net(x), noise):log_prob(y):sum() - net:kl() end
  local opt = optim.adam(net:parameters(), { lr = 0.02 })
  local step = pn.compile(function() return elbo() * (-1 / n) end, { optimiser = opt })
  for k = 1, option.steps do
    opt.lr = 0.02 * 0.5 * (1 + math.cos(math.pi * (k - 1) / option.steps)) + 1e-5
    step()
  end
  local sum, draws = 0, option.quick and 100 or 1000
  pn.no_grad(function()
    for _ = 1, draws do sum = sum + elbo():item() / draws end
  end)
  return net, sum
end

local draws = option.quick and 500 or 5000
local nets, gaps, most, kept = {}, {}, {}, nil
local list = { { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 2, 2 }, { 3, 3 }, { 4, 4 } }
if not option.quick then
  list[#list + 1] = { 5, 5 }
end
print "hidden    |P|       ELBO   gap (+- error)     ln |P|   ELBO + gap     lower    upper    ms a draw"
for _, hidden in ipairs(list) do
  local net, elbo = trained(hidden)
  local mix = inv.permutation_mixture(net)
  local start = pn.clock()
  local r = mix:gap { draws = draws }
  local spent = (pn.clock() - start) / draws * 1e3
  local b = mix:bounds { draws = draws // 5, permutations = 50 }
  print(("%-6s %6.0f  %9.2f  %8.4f +- %6.4f  %8.4f  %10.2f  %8.4f %8.4f %9.4f"):format(table.concat(hidden, " + "),
    math.exp(r.largest), elbo, r.gap, r.standard_error, r.largest, elbo + r.gap, b.lower, b.upper, spent))
  io.flush()
  nets[#nets + 1], gaps[#gaps + 1], most[#most + 1] = table.concat(hidden, "+"), r.gap, r.largest
  kept = #hidden == 1 and hidden[1] == 4 and mix or kept
end

-- From the prior (0) to the posterior (1): means shrunk, scales between. Every one of these is a mean-field law.
local way, along = pn.linspace(0, 1, option.quick and 6 or 21), {}
for k = 1, way:size(1) do
  local t = way[k]:item()
  local net = network { 4 }
  local values, scales = kept:values(kept.loc * t), kept:values(kept.scale * t + (1 - t))
  net:load_state(values)
  along[k] = inv.permutation_mixture(net, { scale = scales }):gap({ draws = draws }).gap
end
print(("4 nodes, from the prior to the posterior: gap %.4f, %.4f half way, %.4f; ln 24 = %.4f"):format(along[1],
  along[#along // 2 + 1], along[#along], math.log(24)))

local at = pn.arange(1, #nets + 1):to "float64"
local path, message = plot.save(option.out .. "/permutations.png", { columns = 2, size = { 1100, 460 },
  plot.panel { title = "The permutation gap of trained networks", x_label = "nodes of the hidden layers",
    y_label = "nats", x_names = nets, y_range = { 0, 10 }, legend = "top left",
    plot.points(at, most, { label = "ln |P|", colour = "#777777", size = 1 }),
    plot.points(at, gaps, { label = "gap", colour = "#c0392b", size = 0.7 }) },
  plot.panel { title = "4 nodes, from the prior to the posterior", x_label = "0: the prior, 1: the posterior",
    y_label = "nats", legend = "top left",
    plot.line(pn.tensor { 0, 1 }, pn.full({ 2 }, math.log(24)), { label = "ln 24", colour = "#777777", dashed = true }),
    plot.line(way, along, { label = "gap", colour = "#c0392b" }) } })
print(path and "wrote " .. path or "no picture: " .. message)
