--- A boundary between two classes that turns by 5 degrees a step, ten times around in 721 steps (Kurle et al. 2020,
--- section 6.2 and appendix A.3): x uniform on (-3, 3)^2, y Bernoulli with logits 10 (sin a, cos a) . x.
---
--- Part "logistic" (figure 5): logistic regression by online variational Bayes, with a Wiener process, with an
--- Ornstein-Uhlenbeck process and with Bayesian forgetting at several rates: how the means follow the truth, and how
--- well each batch is predicted before and after it is learned. The best that can be is the mean of log p under the
--- truth, -0.0614 (-0.0548 where the boundary is parallel to a side, -0.0745 at 45 degrees); ln 2 is what a model
--- without time ends at.
---
--- Part "networks" (figure 11): the same by networks of several sizes without adaptation, which should end at -ln 2 as
--- the linear model does, and with forgetting, without and with a memory.
---
---     penumbra examples/papers/continual/rotating_boundary.lua [--parts logistic,networks] [--results runs.txt]
---         [--steps 721] [--batch 150] [--first 2000] [--later N] [--lr RATE] [--draws 4] [--sites 500] [--seed 1]
---         [--out FOLDER]
--- Results, and what the document leaves open, are on README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local nn, plot = pn.nn, pn.plot

local option = experiment.options({ parts = "logistic,networks", results = "", steps = 721, batch = 150, first = 2000,
  later = 0, lr = 0, draws = 4, sites = 500, predict = 200, prior = 10, seed = 1, part = "1/1" },
  { parts = "logistic,networks", steps = 5, batch = 20, first = 20, later = 5, draws = 2, sites = 50, predict = 20 })
local TURN <const> = 72 -- steps

-- Steps of the optimisation at later batches, and its rate.
local function effort(hidden)
  local linear = hidden == "-"
  return option.later > 0 and option.later or linear and 200 or 100, option.lr > 0 and option.lr or 0.05
end

-- ---- what is run ----

local logistic, networks = {}, {}

local function add(list, panel, label, hidden, forget, value, memory)
  list[#list + 1] = { panel = panel, label = label, hidden = hidden, forget = forget, value = value,
    memory = memory or 0 }
end

add(logistic, "-", "online VB", "-", "none", 0)
for _, v in ipairs(option.quick and { 0.3 } or { 0.05, 0.1, 0.2 }) do add(logistic, "-", "Wiener", "-", "wiener", v) end
for _, v in ipairs(option.quick and { 0.1 } or { 0.01, 0.02, 0.05 }) do
  add(logistic, "-", "OU", "-", "ornstein_uhlenbeck", v)
end
for _, v in ipairs(option.quick and { 0.2 } or { 0.1, 0.2, 0.4 }) do
  add(logistic, "-", "forgetting", "-", "bayesian_forgetting", v)
end

if option.quick then
  add(networks, "a", "8", "8", "none", 0)
  add(networks, "e", "8x8 + 10 data", "8-8", "bayesian_forgetting", 0.3, 10)
else
  add(networks, "a", "linear", "0", "none", 0)
  for _, h in ipairs { "8", "32" } do add(networks, "a", h, h, "none", 0) end
  for _, h in ipairs { "8-8", "32-32" } do add(networks, "b", (h:gsub("-", "x")), h, "none", 0) end
  for _, h in ipairs { "8-8-8", "32-32-32" } do add(networks, "c", (h:gsub("-", "x")), h, "none", 0) end
  add(networks, "d", "8x8 OU 0.05", "8-8", "ornstein_uhlenbeck", 0.05)
  add(networks, "d", "8x8 forgetting 0.3", "8-8", "bayesian_forgetting", 0.3)
  add(networks, "e", "8x8 forgetting 0.3 + 10 data", "8-8", "bayesian_forgetting", 0.3, 10)
  add(networks, "e", "8x8 forgetting 0.3 + 50 data", "8-8", "bayesian_forgetting", 0.3, 50)
  add(networks, "f", "8x8 + 10 data", "8-8", "none", 0, 10)
  add(networks, "f", "8x8 + 50 data", "8-8", "none", 0, 50)
end

-- ---- the truth ----

local function truth(t)
  local a = math.rad(5 * t)
  return pn.tensor { 10 * math.sin(a), 10 * math.cos(a) }
end

-- E log p(y | x, v) under w, by the midpoint rule; of w itself minus the entropy of y.
local function best(w, v)
  local n = option.quick and 100 or 900
  local side = (pn.arange(n):to "float64" + 0.5) * (6 / n) - 3
  local f = side:unsqueeze(2) * w[1] + side * w[2]
  local g = v and side:unsqueeze(2) * v[1] + side * v[2] or f
  local p = f:sigmoid()
  return -(p * (-g):softplus() + (1 - p) * g:softplus()):mean():item()
end

local function log_likelihood(f, y)
  return -(((1 - y:to "float64" * 2) * f):softplus())
end

-- ---- a run ----

local laws = {
  none = function() end,
  wiener = function(v) return pn.continual.wiener { rate = v } end,
  ornstein_uhlenbeck = function(v) return pn.continual.ornstein_uhlenbeck { stiffness = v } end,
  bayesian_forgetting = function(v) return pn.continual.bayesian_forgetting { rate = v } end,
}

local function network(hidden)
  local sizes = { 2 }
  for width in hidden:gmatch "%d+" do
    sizes[#sizes + 1] = tonumber(width) > 0 and math.tointeger(width) or nil
  end
  sizes[#sizes + 1] = 1
  return nn.mlp(sizes, { activation = "tanh", bias = hidden ~= "-" })
end

-- Log predictive density of each batch before and after it is learned, and of the regression means and scales of both
-- weights.
local function run(job)
  local linear, later, lr = job.hidden == "-", effort(job.hidden)
  local learner = pn.continual.learner { network = network(job.hidden), likelihood = "bernoulli",
    prior = linear and option.prior or "unit_variance", forget = laws[job.forget](job.value), seed = job.seed,
    memory = job.memory > 0 and { size = job.memory } or nil,
    draws = { train = option.draws, sites = option.sites, predict = option.predict },
    steps = { first = option.first, later = later }, optimiser = { lr = lr } }
  local r = { ahead = {}, after = {}, true_ahead = {}, w1 = {}, w2 = {}, s1 = {}, s2 = {} }
  for t = 0, option.steps - 1 do
    local x, y, w = pn.data.rotating_boundary(option.batch, t, { seed = job.seed })
    r.ahead[t + 1] = learner:observe(x, y, t).log_predictive_before
    r.after[t + 1] = learner:log_predictive(x, y):mean():item()
    if linear then
      local q = learner.projection:to_distribution()
      r.w1[t + 1], r.w2[t + 1] = q.loc[1]:item(), q.loc[2]:item()
      r.s1[t + 1], r.s2[t + 1] = q.scale[1]:item(), q.scale[2]:item()
      r.true_ahead[t + 1] = log_likelihood(x:matmul(w), y):mean():item()
    end
  end
  if not linear then
    r.w1, r.w2, r.s1, r.s2, r.true_ahead = nil, nil, nil, nil, nil
  end
  r.clipped = learner.counts.clipped
  print(("%s %s %g, memory %d: %.4f"):format(job.label, job.hidden, job.value, job.memory,
    experiment.last_mean(r.after, 0.5)))
  return r
end

local function runs_of(list)
  local jobs = {}
  for k, item in ipairs(list) do
    local later, lr = effort(item.hidden)
    local job = { seed = option.seed, size = ("%d-%d-%d-%g-%d"):format(option.steps, option.batch, later, lr,
      option.draws) }
    for name, value in pairs(item) do job[name] = value end
    jobs[k] = job
  end
  return experiment.runs { option = option, jobs = jobs, run = run,
    order = { "panel", "hidden", "forget", "value", "memory", "seed", "size", "minutes" } }
end

-- ---- figure 5 ----

local write = experiment.report(option, "rotating_boundary")

local function correlation(a, b, from)
  local x, y = {}, {}
  for k = from, #a do x[#x + 1], y[#y + 1] = a[k], b[k] end
  x, y = pn.tensor(x), pn.tensor(y)
  x, y = x - x:mean(), y - y:mean()
  return ((x * y):sum() / (x:square():sum() * y:square():sum()):sqrt()):item()
end

local function mean_from(list, from)
  local sum = 0
  for k = from, #list do sum = sum + list[k] end
  return sum / (#list - from + 1)
end

local function true_paths()
  local a, b = {}, {}
  for t = 0, option.steps - 1 do
    local w = truth(t)
    a[t + 1], b[t + 1] = w[1]:item(), w[2]:item()
  end
  return a, b
end

local function figure_5(found)
  local from = math.min(TURN + 1, option.steps // 2)
  local a, b = true_paths()
  local angles, mean, before = {}, 0, 0
  for k, t in ipairs { 0, 3, 6, 9 } do
    angles[k] = ("%.5f"):format(best(truth(t)))
  end
  for t = 0, TURN - 1 do
    mean, before = mean + best(truth(t)) / TURN, before + best(truth(t), truth(t - 1)) / TURN
  end
  write("best LML at 0, 15, 30, 45 degrees: %s; over a turn %.5f; of these batches %.5f", table.concat(angles, " "),
    mean, mean_from(found[1].true_ahead, from))
  write("with the true weights of the step before: %.5f", before)
  write("%-12s %6s   %8s %8s   %9s %9s   %8s", "", "rate", "ahead", "after", "corr. w1", "corr. w2", "|mean|")
  local panels, shown = {}, {}
  for _, r in ipairs(found) do
    local size = 0
    for k = from, #r.w1 do size = size + math.sqrt(r.w1[k] ^ 2 + r.w2[k] ^ 2) / (#r.w1 - from + 1) end
    local ahead = mean_from(r.ahead, from)
    write("%-12s %6g   %8.4f %8.4f   %9.4f %9.4f   %8.3f", (r.label:gsub("_", " ")), r.value, ahead,
      mean_from(r.after, from), correlation(r.w1, a, from), correlation(r.w2, b, from), size)
    if not shown[r.label] or ahead > shown[r.label].score then shown[r.label] = { record = r, score = ahead } end
  end
  local t = pn.arange(option.steps)
  for _, label in ipairs { "online_VB", "Wiener", "OU", "forgetting" } do
    local r = shown[label] and shown[label].record
    if r then
      local m1, m2, s1, s2 = pn.tensor(r.w1), pn.tensor(r.w2), pn.tensor(r.s1), pn.tensor(r.s2)
      panels[#panels + 1] = plot.panel { title = ("%s%s"):format(label:gsub("_", " "), r.value > 0
        and (", rate %g"):format(r.value) or ""), x_label = "t", legend = "below", x_range = { 0, option.steps - 1 },
        y_range = { -17, 17 },
        plot.line(t, a, { colour = "#999999", dashed = true, width = 1, label = "truth" }),
        plot.line(t, b, { colour = "#999999", dashed = true, width = 1 }),
        plot.band(t, m1 - s1, m1 + s1, { colour = "#2255aa" }),
        plot.band(t, m2 - s2, m2 + s2, { colour = "#c0392b" }),
        plot.line(t, m1, { colour = "#2255aa", width = 1.5, label = "w1" }),
        plot.line(t, m2, { colour = "#c0392b", width = 1.5, label = "w2" }) }
    end
  end
  experiment.picture(option, "rotating_logistic", panels, { columns = 2, size = { 1300, 800 } })
end

-- ---- figure 11 ----

local titles = { a = "no adaptation, linear and one layer", b = "no adaptation, two layers",
  c = "no adaptation, three layers", d = "adaptation, two layers", e = "forgetting with a memory",
  f = "no adaptation, with a memory" }
local colours = { "#111111", "#2255aa", "#c0392b", "#3aa66b" }
local lowest = { a = -1, d = -0.15, e = -0.15 } -- where axes end

-- The mean of `width` values around each.
local function smooth(list, width)
  local out = {}
  for k = 1, #list do
    local low, high, sum = math.max(1, k - width // 2), math.min(#list, k + width // 2), 0
    for j = low, high do sum = sum + list[j] end
    out[k] = sum / (high - low + 1)
  end
  return out
end

local function figure_11(found)
  write("\n%-30s %8s %8s %8s   %8s   %8s   %s", "log predictive density after", "turn 1", "turn 5", "turn 10", "all",
    "ahead", "clipped")
  local panels, marks = {}, {}
  local function draw(name, r, label)
    local panel = marks[name] or { title = titles[name], x_label = "t", legend = "below",
      x_range = { 0, option.steps - 1 }, y_range = { lowest[name] or -0.75, 0 } }
    marks[name] = panel
    panel[#panel + 1] = plot.line(pn.arange(#r.after), smooth(r.after, 9), { width = 1.5, colour = colours[#panel + 1],
      label = name == "e" and label:gsub("forgetting 0.3 ", "") or label })
  end
  for _, r in ipairs(found) do
    local function turn(k)
      local list = {}
      for t = (k - 1) * TURN + 1, k * TURN do list[#list + 1] = r.after[t] end
      return #list > 0 and ("%.4f"):format((experiment.moments(list))) or ""
    end
    local label = tostring(r.label):gsub("_", " ")
    write("%-30s %8s %8s %8s   %8.4f   %8.4f   %d", label, turn(1), turn(5), turn(10), mean_from(r.after, 1),
      mean_from(r.ahead, 2), r.clipped)
    draw(r.panel, r, label)
    if r.panel == "d" and r.forget == "bayesian_forgetting" then draw("e", r, label) end
    if r.panel == "b" and r.hidden == "8-8" then draw("f", r, label) end
  end
  for _, name in ipairs { "a", "b", "c", "d", "e", "f" } do
    panels[#panels + 1] = marks[name] and plot.panel(marks[name])
  end
  experiment.picture(option, "rotating_networks", panels, { columns = math.min(3, #panels), size = { 1400, 800 } })
end

for _, name in ipairs(experiment.words(option.parts)) do
  if name == "logistic" then
    figure_5(runs_of(logistic))
  else
    figure_11(runs_of(networks))
  end
end
