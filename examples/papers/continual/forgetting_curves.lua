--- What time without data does to a belief N(5, 0.1^2) about a weight with prior N(0, 1): Bayesian forgetting, which
--- moves natural parameters to the prior's, and an Ornstein-Uhlenbeck process, which moves mean and variance (Kurle et
--- al. 2020, section 4, figure 2). The document does not say where its curves start; 5 is the end of its axis.
---
---     penumbra examples/papers/continual/forgetting_curves.lua [--out FOLDER]
---
--- writes forgetting_curves.txt, the table below, and forgetting_curves.svg: means, standard deviations, and both for
--- one rate, for t from 0 to 250 in lags. The curves are walked in steps of one lag; the table is reached in one step.
---
---              forgetting, rate 0.05     OU, stiffness 0.025
---          t     mean         sd         mean         sd
---    0.00000   5.00000    0.10000     5.00000    0.10000
---    1.00000   4.99737    0.10257     4.87655    0.24142
---   10.00000   4.96671    0.12880     3.89400    0.63209
---   27.72589   4.84750    0.20049     2.50000    0.86747
---   50.00000   4.46443    0.34065     1.43252    0.95851
---  100.00000   1.86634    0.79402     0.41042    0.99666
---  250.00000   0.00135    0.99987     0.00965    1.00000
---
--- Forgetting keeps the mean while the belief is much surer than the prior and then lets go of it at once (half of it
--- after 90 lags); the process pulls at the mean from the first step, half of it after ln 2 / stiffness = 27.7 lags.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local plot = pn.plot

local option = experiment.options({}, {})
local write = experiment.report(option, "forgetting_curves")
local prior, start = pn.dist.normal(0, 1), pn.dist.normal(5, 0.1)

local function forgetting(rate) return pn.continual.bayesian_forgetting { rate = rate } end
local function reverting(stiffness) return pn.continual.ornstein_uhlenbeck { stiffness = stiffness } end

local function after(law, t)
  local d = law:apply(start, prior, t):to_distribution()
  return d.loc:item(), d.scale:item()
end

-- ---- the table ----

write("             forgetting, rate 0.05     OU, stiffness 0.025")
write("         t     mean         sd         mean         sd")
for _, t in ipairs { 0, 1, 10, math.log(2) / 0.025, 50, 100, 250 } do
  local mean, sd = after(forgetting(0.05), t)
  local ou_mean, ou_sd = after(reverting(0.025), t)
  write("%10.5f %9.5f  %9.5f   %9.5f  %9.5f", t, mean, sd, ou_mean, ou_sd)
end

-- ---- the curves: many small steps; that they meet the closed form is the semigroup ----

local STEPS = 250

local function walk(law)
  local q, means, sds = start, { 5 }, { 0.1 }
  for k = 1, STEPS do
    q = law:apply(q, prior, 1):to_distribution()
    means[k + 1], sds[k + 1] = q.loc:item(), q.scale:item()
  end
  local mean, sd = after(law, STEPS)
  assert(math.abs(means[STEPS + 1] - mean) < 1e-9 and math.abs(sds[STEPS + 1] - sd) < 1e-9)
  return means, sds
end

local t = pn.arange(STEPS + 1)
local panels = {}
local colours = { "#1b4f8a", "#2f8fb3", "#3aa66b", "#d98e2b", "#b5486a" }

local function row(title, symbol, make, values, shown)
  local mean_panel = { title = title .. ": mean", y_range = { 0, 5.2 }, x_label = "t", legend = "below",
    legend_title = symbol }
  local sd_panel = { title = title .. ": standard deviation", y_range = { 0, 1.1 }, x_label = "t",
    legend = "below", legend_title = symbol }
  local both
  for k, value in ipairs(values) do
    local means, sds = walk(make(value))
    local style = { label = tostring(value), colour = colours[k] }
    mean_panel[k], sd_panel[k] = plot.line(t, means, style), plot.line(t, sds, style)
    if value == shown then
      local m, s = pn.tensor(means), pn.tensor(sds)
      both = plot.panel { title = ("%s: mean +- sd, %s = %g"):format(title, symbol, value), x_label = "t",
        y_range = { -1.2, 5.5 }, legend = "none", plot.band(t, m - s, m + s, { colour = colours[k] }),
        plot.line(t, m, { colour = colours[k] }) }
    end
  end
  local n = #panels
  panels[n + 1], panels[n + 2], panels[n + 3] = plot.panel(mean_panel), plot.panel(sd_panel), both
end

row("forgetting", "rate", forgetting, { 0.01, 0.025, 0.05, 0.1, 0.2 }, 0.05)
row("Ornstein-Uhlenbeck", "stiffness", reverting, { 0.005, 0.0125, 0.025, 0.05, 0.1 }, 0.025)
experiment.picture(option, "forgetting_curves", panels, { columns = 3, size = { 1320, 760 } })
