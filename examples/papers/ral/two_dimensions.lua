--- What each acquisition asks for, in two dimensions: two moons of 600 points, 6 random labels, 24 more in rounds of 6,
--- a network of 24 units by moments. A panel for each: the pool, what was asked for in colours of the rounds, and where
--- the model's probability of a class is a half at the end.
---
---     penumbra examples/papers/ral/two_dimensions.lua [--out FOLDER] [--seed 1]
---
--- The document has no such picture; it shows how the acquisitions of table 4.1 differ. Errors over --seeds 20 seeds
--- stand in two_dimensions.txt, differences to random paired by seed.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local nn, active = pn.nn, pn.active

local option = experiment.options({ seed = 1, seeds = 20, epochs = 200 }, { seeds = 1, epochs = 5 })

-- Two half circles with noise; classes as they lie.
local function moons(n, generator)
  local angle = pn.rand({ n }, { generator = generator }) * math.pi
  local noise = pn.randn({ n, 2 }, { generator = generator })
  local y = pn.arange(n):to("int64"):remainder(2)
  local side = y:to "float64" * 2 - 1
  local x = pn.stack({ angle:cos() * side + (1 - side) * 0.5 - 0.5, angle:sin() * side + (1 - side) * 0.25 }, 2)
  return x * 1.3 + noise * 0.15, y
end

local function new_model(seed)
  pn.seed(seed)
  local net = nn.bayesian(nn.sequential { nn.linear(2, 24, { init = "he" }), nn.relu { rule = "clt" },
    nn.linear(24, 2, { init = "he" }) }, { posterior_scale = 0.1 })
  local opt = pn.optim.adam(net, { lr = 0.02 })
  local step = pn.compile(function(x, sign, num_data)
    local m, v = net:moments(x)
    return -(sign * m / (v + 1):sqrt()):log_ndtr():sum(2):mean() + net:kl() / (num_data * 10)
  end, { optimiser = opt })
  return active.network(net, { classes = 2, link = "probit", keep = { net = net, optimiser = opt },
    fit = function(x, y)
      local sign, num_data = pn.one_hot(y, 2):to "float64" * 2 - 1, pn.full({}, y:numel())
      for _ = 1, option.epochs do step(x, sign, num_data) end
    end })
end

local NAMES <const> = { "random", "entropy", "thinned", "bald", "bald_weights", "batch_bald", "core_set",
  "margin", "reinforced" }
local own = { bald_weights = { "bald", method = "weights", kind = "renormalised" },
  thinned = { "thinned", every = 8, points = 12 }, batch_bald = { "batch_bald", draws = 40 },
  reinforced = { "reinforced", ranked = 300, every = 8, points = 12, hidden = 32, kl_weight = 1e-4 } }

local function run(name, seed)
  local x, y = moons(600, pn.generator(seed))
  local tx, ty = moons(2000, pn.generator(seed + 1000))
  local pool = active.pool { x = x, model = new_model(seed), acquisition = own[name] or name, first = 6, count = 6,
    max_labels = 30, seed = seed }
  pool:run(y)
  return pool, x, 100 * pool:predict(tx):argmax(2):ne(ty):to("float64"):mean():item()
end

-- ---- the picture ----

local side = pn.linspace(-2.2, 2.2, 41)

-- Where the probability passes one half: points of a grid between whose neighbours it does.
local function boundary(pool)
  local gx, gy = pn.meshgrid(side, side)
  local points = pn.stack({ gx:flatten(), gy:flatten() }, 2)
  local p = pool:predict(points)
  local one = (p:select(2, 2) / p:sum(2)):gt(0.5):reshape { 41, 41 }
  local edge = one:slice(1, 1, 40):ne(one:slice(1, 2, 41)):slice(2, 1, 40):logical_or(
    one:slice(2, 1, 40):ne(one:slice(2, 2, 41)):slice(1, 1, 40))
  local at = edge:flatten()
  return gx:slice(1, 1, 40):slice(2, 1, 40):flatten()[at], gy:slice(1, 1, 40):slice(2, 1, 40):flatten()[at]
end

local colours = { "#222222", "#2f6db3", "#3c8d40", "#c2572b", "#b8367a" }

local function panel(name, pool, x)
  local marks = { title = name, x_range = { -2.2, 2.2 }, y_range = { -2.2, 2.2 }, legend = "none",
    pn.plot.points(x:select(2, 1), x:select(2, 2), { colour = "#d0d0d0", size = 0.25 }) }
  local bx, by = boundary(pool)
  if bx:numel() > 0 then marks[#marks + 1] = pn.plot.points(bx, by, { colour = "#e0b040", size = 0.3 }) end
  local _, asked = pool:labelled()
  for round = 1, 5 do
    local part = asked:slice(1, 6 * round - 5, 6 * round)
    marks[#marks + 1] = pn.plot.points(part:select(2, 1), part:select(2, 2), { colour = colours[round], size = 0.8 })
  end
  return pn.plot.panel(marks)
end

local panels, errors = {}, {}
for k, name in ipairs(NAMES) do
  errors[name] = {}
  for seed = option.seed, option.seed + option.seeds - 1 do
    local pool, x, e = run(name, seed)
    errors[name][seed] = e
    if seed == option.seed then panels[k] = panel(name, pool, x) end
  end
end

local write = experiment.report(option, "two_dimensions")
write("test error in per cent at 30 labels over %d seeds, +- standard deviation; differences to random paired, +- "
  .. "standard error", option.seeds)
for _, name in ipairs(NAMES) do
  local list = {}
  for _, e in pairs(errors[name]) do list[#list + 1] = e end
  local mean, sd = experiment.moments(list)
  local d, se = experiment.paired(errors[name], errors.random)
  write("%-12s %6.2f +- %-6.2f %7.2f +- %-6.2f", name, mean, sd, d, se)
end
experiment.picture(option, "two_dimensions", panels, { columns = 3, size = { 1000, 900 } })
