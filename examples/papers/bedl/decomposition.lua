--- What of a prediction's variance is of the model and what of the data (Haussmann 2021, 5.2.2 and 5.4): numbers with
--- noise that grows, and two moons, by BEDL and BEDL-PAC, with pictures.
---
---     penumbra decomposition.lua [--out FOLDER] [--epochs 300]
---
--- Both parts sum to the whole exactly; which of them a datum's variance goes to is another matter: the likelihood of a
--- network whose weights are drawn anew for each datum (5.1) knows only their sum. The tables say how well the sum
--- follows the noise that made the data, and how much of it stands as epistemic. Results are on README.md.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")

local option = experiment.options({ epochs = 300, rows = 600, lr = 5e-3, beta = 400, seed = 1 },
  { epochs = 3, rows = 100 })
local report = experiment.report(option, "decomposition")

-- ---- numbers: y = sin(2 x) + noise of scale 0.05 + 0.25 |x|, none between 1 and 2 ----

local function numbers(n, generator)
  local x = pn.rand({ n, 1 }, { generator = generator }) * 4 - 3 -- from -3 to 1
  local far = pn.rand({ n, 1 }, { generator = generator }):gt(0.8)
  x = pn.where(far, x * 0.25 + 2.75, x) -- a fifth from 2 to 3
  local scale = x:abs() * 0.25 + 0.05
  return x, (x * 2):sin() + scale * pn.randn({ n, 1 }, { generator = generator }), scale
end

local x, y, scale = numbers(option.rows, pn.generator(option.seed))
local grid = pn.linspace(-4, 4, 161):unsqueeze(-1)
local panels = {}

report "numbers: mean log-likelihood (of the truth), correlation of the variance with that of the noise, shares"
for _, method in ipairs { "bedl", "bedl_pac" } do
  local m = pn.evidential.learner { method = method, likelihood = "normal", seed = option.seed,
    noise_precision = option.beta, network = pn.nn.mlp({ 1, 50, 2 }, { activation = "relu" }), lr = option.lr }
  m:fit { data = { x, y }, epochs = option.epochs, batch_size = 50, seed = option.seed }
  local p, g = m:predict(x), m:predict(grid)
  assert((p.epistemic + p.aleatoric - p.variance):abs():max():item() < 1e-12)
  local a, b = p.variance:log(), scale:square():log()
  a, b = a - a:mean(), b - b:mean()
  report("%-9s %.3f (%.3f)  correlation of logarithms %.3f  epistemic share %.3f, in the gap %.3f, beyond %.3f", method,
    m:log_predictive(x, y):mean():item(), pn.dist.normal((x * 2):sin(), scale):log_prob(y):mean():item(),
    ((a * b):sum() / (a:square():sum() * b:square():sum()):sqrt()):item(), (p.epistemic / p.variance):mean():item(),
    (g.epistemic / g.variance):slice(1, 106, 116):mean():item(),
    (g.epistemic / g.variance):slice(1, 145, 161):mean():item())
  local at, mean = grid:squeeze(-1), g.mean:squeeze(-1)
  local function band(variance, colour, label)
    local width = variance:sqrt():squeeze(-1) * 2
    return pn.plot.band(at, mean - width, mean + width, { colour = colour, label = label })
  end
  panels[#panels + 1] = pn.plot.panel { band(g.variance, "#a9c4e6", "all"), band(g.epistemic, "#b5486a", "epistemic"),
    pn.plot.points(x:squeeze(-1), y:squeeze(-1), { colour = "#333333", size = 0.2 }),
    pn.plot.line(at, mean, { colour = "#2f6db3" }), title = method, y_range = { -3, 3 }, legend = "bottom left" }
end
experiment.picture(option, "decomposition_numbers", panels, { columns = 2 })

-- ---- classes: two moons ----

local function moons(n, generator)
  local angle = pn.rand({ n }, { generator = generator }) * math.pi
  local label = pn.rand({ n }, { generator = generator }):gt(0.5)
  local first = pn.stack({ angle:cos(), angle:sin() }, -1)
  local second = pn.stack({ 1 - angle:cos(), 0.5 - angle:sin() }, -1)
  local points = pn.where(label:unsqueeze(-1):broadcast_to { n, 2 }, second, first)
  return points + pn.randn({ n, 2 }, { generator = generator }) * 0.15, label:to "int64"
end

local points, label = moons(option.rows, pn.generator(option.seed + 1))
local side = 61
local u = pn.linspace(-2, 3, side):unsqueeze(-1):broadcast_to { side, side }
local v = pn.linspace(-1.75, 2.25, side):unsqueeze(1):broadcast_to { side, side }
local plane = pn.stack({ u:reshape { -1 }, v:reshape { -1 } }, -1)
panels = {}

report "two moons: error, log-likelihood, mean variance of the class, of which epistemic, on the data and on the plane"
for _, method in ipairs { "bedl", "bedl_pac", "edl" } do
  local m = pn.evidential.learner { method = method, likelihood = "categorical", seed = option.seed, draws = 100,
    network = pn.nn.mlp({ 2, 50, 2 }, { activation = "relu" }), lr = option.lr }
  m:fit { data = { points, label }, epochs = option.epochs // 3 + 1, batch_size = 50, seed = option.seed }
  local p, g = m:predict(points), m:predict(plane)
  assert((p.epistemic + p.aleatoric - p.probabilities * (1 - p.probabilities)):abs():max():item() < 1e-12)
  report("%-9s %.3f  %.3f   data %.4f, %.4f   plane %.4f, %.4f", method, m:error_rate(points, label):item(),
    m:log_predictive(points, label):mean():item(), (p.epistemic + p.aleatoric):mean():item(), p.epistemic:mean():item(),
    (g.epistemic + g.aleatoric):mean():item(), g.epistemic:mean():item())
  for _, part in ipairs { "epistemic", "aleatoric" } do
    panels[#panels + 1] = pn.plot.panel { pn.plot.heatmap(g[part]:slice(2, 1, 1):reshape { side, side }:t()),
      title = ("%s: %s"):format(method, part) }
  end
end
experiment.picture(option, "decomposition_moons", panels, { columns = 2 })
