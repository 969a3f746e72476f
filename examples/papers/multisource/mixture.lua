--- Eight normals on a circle, seen by two sources: the first sees the first coordinate, the second the second (Kurle,
--- Guennemann & van der Smagt 2019, section 5.1). Each alone cannot tell two components apart; the product of their
--- beliefs can. Trained by L(ind), 25,000 steps of 32 fresh data, K = 8.
---
---     penumbra examples/papers/multisource/mixture.lua [--steps 25000] [--lr 1e-4] [--seed 1]
---         [--start 0.1] [--objective ind] [--out FOLDER]
---
--- writes mixture.txt, mixture.svg (--pictures png) and mixture.safetensors, from which it goes on. Results: README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local steps = dofile(here .. "/steps.lua")
local dist, plot = pn.dist, pn.plot

local option = experiment.options({ steps = 25000, lr = 1e-4, seed = 1, batch = 32, draws = 8, hidden = 32,
  start = 0.1, side = 241, sir = 4000, objective = "ind" }, { steps = 120, lr = 3e-3, side = 61, sir = 400 })
local write = experiment.report(option, "mixture")
local COMPONENTS <const>, NOISE <const> = 8, 0.1

-- ---- data ----

local angle = pn.arange(COMPONENTS):to "float64" * (2 * math.pi / COMPONENTS)
local centres = pn.stack({ angle:cos(), angle:sin() }, 2)

local function coordinates(x) return { first = x:slice(2, 1, 1), second = x:slice(2, 2, 2) } end

local function batch()
  local k = pn.randint(0, COMPONENTS, { option.batch })
  local x = centres:take(1, k) + NOISE * pn.randn { option.batch, 2 }
  return { x:slice(2, 1, 1), x:slice(2, 2, 2) }
end

-- the means, turned by two degrees
local turned = angle + 2 * math.pi / 180
local test = pn.stack({ turned:cos(), turned:sin() }, 2)

-- ---- the model ----

pn.seed(option.seed)
local hidden = { option.hidden, option.hidden }
local m = pn.models.multisource { sources = { first = { size = 1 }, second = { size = 1 } }, latent = 2,
  hidden = hidden, likelihood = "normal", noise = "network" }
-- From scales of 1 L(ind) stays where z means nothing (2.166 nats): decoders begin with those of the noise.
for _, d in pairs(m.decoders) do d:bias():set(pn.tensor { 0, 2 * math.log(option.start) }) end
local seconds, loss = steps.train { model = m, steps = option.steps, batch = batch, lr = option.lr, seed = option.seed,
  path = not option.quick and option.out .. "/mixture.safetensors" or nil, name = "mixture",
  loss = function(a, b)
    return m:loss({ first = a, second = b }, { objective = option.objective, draws = option.draws })
  end }
write("%d steps, %.0f s, last loss %.4f", option.steps, seconds, loss)

-- ---- what each belief predicts ----

local function nearest(x) -- [..., 2] -> component
  return (x:unsqueeze(-2) - centres):square():sum(-1):argmin(-1)
end

local data = coordinates(test)
local beliefs = m:beliefs(data)
beliefs.product = m:fuse(data)
local order = { "first", "second", "product" }

-- Shares [8, 8] of draws of a belief whose predicted means lie nearest to each component.
local function shares(q, n)
  local laws = m:decode(q:sample { n })
  local k = nearest(pn.concatenate({ laws.first:mean(), laws.second:mean() }, -1))
  return pn.one_hot(k, COMPONENTS):to "float64":mean(1)
end

pn.seed(option.seed + 1)
local found = {}
for _, name in ipairs(order) do found[name] = pn.no_grad(shares, beliefs[name], 2000) end
-- the component that looks the same to a source: its mirror image
local mirror = { first = function(k) return (COMPONENTS - k) % COMPONENTS end,
  second = function(k) return (COMPONENTS // 2 - k) % COMPONENTS end }
write "\nshare of draws that predict the true component, and the one that looks the same to the source:"
write("%9s  %-16s %-16s %s", "component", "first alone", "second alone", "product")
local right, both = 0, 0
for k = 0, COMPONENTS - 1 do
  local words = {}
  for _, name in ipairs { "first", "second" } do
    local row, other = found[name][k + 1], mirror[name](k)
    local same = other == k and 0 or row[other + 1]:item()
    words[#words + 1] = other == k and ("%.3f  (alone)"):format(row[k + 1]:item())
      or ("%.3f  %.3f"):format(row[k + 1]:item(), same)
    both = both + ((other == k or same > 0.1 and row[k + 1]:item() > 0.1) and 1 or 0)
  end
  local p = found.product[k + 1]
  right = right + (p:argmax():item() == k and 1 or 0)
  write("%9d  %-16s %-16s %.3f", k, words[1], words[2], p[k + 1]:item())
end
write("the product's likeliest component is the true one at %d of %d test points; single beliefs keep both", right,
  COMPONENTS)
write("of two components (more than a tenth of the draws each) in %d of %d cases", both, 2 * COMPONENTS)

-- ---- resampling against the posterior of the learnt model on a grid ----

local axis = pn.linspace(-4, 4, option.side)
local grid = pn.stack({ axis:unsqueeze(2):broadcast_to { option.side, option.side },
  axis:unsqueeze(1):broadcast_to { option.side, option.side } }, 3):reshape { option.side ^ 2 // 1, 1, 2 }

local function log_joint(k)
  return function(z)
    local laws = m:decode(z)
    return dist.normal(0, 1):log_prob(z):sum(-1) + laws.first:log_prob(data.first[k]:unsqueeze(1))
      + laws.second:log_prob(data.second[k]:unsqueeze(1))
  end
end

write "\nagainst the posterior of the learnt model on a grid (mean of z, its standard deviations) at each test point:"
write("%9s  %-16s %-16s | effective sample size of %d draws", "component", "grid", "resampled", option.sir)
write("%9s  %-16s %-16s | %8s %8s %8s", "", "", "from the product", "first", "second", "product")
local larger, posterior = 0, {}
for k = 1, COMPONENTS do
  pn.no_grad(function()
    local log_p = log_joint(k)(grid):reshape { option.side ^ 2 // 1 }
    local p = log_p:softmax(1)
    posterior[k] = p:reshape { option.side, option.side }
    local flat = grid:squeeze(2)
    local mean = (p:unsqueeze(2) * flat):sum(1)
    local sd = ((p:unsqueeze(2) * (flat - mean):square()):sum(1)):sqrt()
    local sizes, drawn = {}, nil
    for _, name in ipairs(order) do
      local q = beliefs[name]
      local at = dist.normal(q.loc[k]:unsqueeze(1), q.scale[k]:unsqueeze(1)):independent(1)
      local z, told = pn.fusion.resample(at, log_joint(k), { draws = option.sir })
      sizes[#sizes + 1], drawn = told.effective_sample_size:item(), z
    end
    larger = larger + ((sizes[3] > sizes[1] and sizes[3] > sizes[2]) and 1 or 0)
    local z = drawn:squeeze(2)
    write("%9d  (%5.2f, %5.2f)   (%5.2f, %5.2f)   | %8.1f %8.1f %8.1f", k - 1, mean[1]:item(), mean[2]:item(),
      z:mean(1)[1]:item(), z:mean(1)[2]:item(), sizes[1], sizes[2], sizes[3])
    write("%9s  (%5.3f, %5.3f)   (%5.3f, %5.3f)   |", "+-", sd[1]:item(), sd[2]:item(), z:std(1)[1]:item(),
      z:std(1)[2]:item())
  end)
end
write("the product's effective sample size is larger than both at %d of %d test points", larger, COMPONENTS)

-- ---- pictures ----

local every = pn.arange(0, option.side, 6):to "int64" -- of the grid, for the picture

local function cloud(k)
  local marks = { title = ("beliefs about z, component %d"):format(k - 1), x_label = "z_1", y_label = "z_2",
    x_range = { -4, 4 }, y_range = { -4, 4 }, legend = "bottom right" }
  for i, name in ipairs { "first", "second", "product" } do
    local q = beliefs[name]
    local z = q.loc[k]:detach() + q.scale[k]:detach() * pn.randn { 150, 2 }
    marks[i] = plot.points(z:slice(2, 1, 1), z:slice(2, 2, 2), { label = name, size = 0.3 })
  end
  return plot.panel(marks)
end

local function predictions(k)
  local marks = { title = "what they predict", x_label = "x_1", y_label = "x_2", x_range = { -1.6, 1.6 },
    y_range = { -1.6, 1.6 }, legend = "none" }
  for i, name in ipairs { "first", "second", "product" } do
    local q = beliefs[name]
    local laws = m:decode((q.loc[k]:detach() + q.scale[k]:detach() * pn.randn { 150, 2 }))
    local x = pn.concatenate({ laws.first:mean(), laws.second:mean() }, -1):detach()
    marks[i] = plot.points(x:slice(2, 1, 1), x:slice(2, 2, 2), { size = 0.3 })
  end
  marks[4] = plot.points(test[k]:slice(1, 1, 1), test[k]:slice(1, 2, 2), { size = 1.2, colour = "#000000" })
  return plot.panel(marks)
end

local panels = {}
for _, k in ipairs { 2, 4 } do
  panels[#panels + 1] = cloud(k)
  panels[#panels + 1] = plot.panel { title = "posterior of the learnt model", x_label = "z_1", y_label = "z_2",
    plot.heatmap(posterior[k]:t():take(1, every):take(2, every), { x = axis:take(1, every), y = axis:take(1, every) }) }
  panels[#panels + 1] = predictions(k)
end
experiment.picture(option, "mixture", panels, { columns = 3, size = { 860, 560 } })
