--- What random gates cost (Haussmann 2021, figures 3.3 and 3.4): the expected divergence E KL(q(z) || p(z | a)) of a
--- gate whose input is a ~ N(mu, sigma^2), over a grid of mu and sigma: by quadrature, by (3.9) and by draws of a; the
--- largest differences between them; and for other values of C.
---
---     penumbra gates.lua [--sharpness 1] [--size 41] [--draws 1000000] [--out FOLDER] [--pictures svg]
---
--- The pictures and what is seen on them are on README.md beside this file.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local pn = require "penumbra"
local experiment = dofile(here .. "/../continual/experiment.lua")
local plot = pn.plot

local option = experiment.options({ sharpness = 1, low = -5, high = 5, widest = 5, size = 41, draws = 1000000,
  seed = 1 }, { size = 13, draws = 2000 })
local report = experiment.report(option, "gates")

-- The grid: [sigma, mu].
local mu = pn.linspace(option.low, option.high, option.size)
local sigma = pn.linspace(option.widest / option.size, option.widest, option.size)
local m = mu:unsqueeze(1):broadcast_to { option.size, option.size }:contiguous()
local s = sigma:unsqueeze(2):broadcast_to { option.size, option.size }:contiguous()

-- The same by draws, row by row of the grid, with the same standard normal draws everywhere; and the largest standard
-- error.
local function by_draws(C)
  local e = pn.randn({ option.draws }, { generator = pn.generator(option.seed) })
  local rows, worst = {}, 0
  for i = 1, option.size do
    local row = {}
    for j = 1, option.size do
      local a = (e * sigma[i]:item() + mu[j]:item()) * C
      local each = a:softplus()
      row[j] = each:mean():item() - pn.tensor(C * mu[j]:item()):softplus():item()
      worst = math.max(worst, each:std():item() / option.draws ^ 0.5)
    end
    rows[i] = row
  end
  return pn.tensor(rows), worst
end

local C = option.sharpness
local exact, approximate = pn.dist.kl_gate(m, s, C), pn.dist.kl_gate(m, s, C, { approximate = true })
local drawn, error_of_draws = by_draws(C)
report("C = %g, mu from %g to %g, sigma to %g, %d x %d, %d draws a pair", C, option.low, option.high, option.widest,
  option.size, option.size, option.draws)
report("largest value: quadrature %.6f, (3.9) %.6f, draws %.6f", exact:max():item(), approximate:max():item(),
  drawn:max():item())
report("largest difference: (3.9) less quadrature %.6f, draws less quadrature %.6f (largest standard error %.6f)",
  (approximate - exact):abs():max():item(), (drawn - exact):abs():max():item(), error_of_draws)
report "at mu = 0, sigma = 1: C, quadrature, (3.9), their ratio"
for _, each in ipairs { 0.1, 1, 10, 100, 1000 } do
  local a = pn.dist.kl_gate(0, 1, each):item()
  local b = pn.dist.kl_gate(0, 1, each, { approximate = true }):item()
  report("  %6g  %12.6f  %12.6f  %8.4f", each, a, b, b / a)
end

local function map(title, values)
  return plot.panel { title = title, x_label = "mu", y_label = "sigma",
    plot.heatmap(values, { x = mu, y = sigma, colour_label = "nats" }) }
end
experiment.picture(option, "gates", { map("quadrature", exact), map("(3.9)", approximate), map("draws", drawn) },
  { size = { 900, 760 } })
