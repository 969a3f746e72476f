--- What partial inference makes of a model that is trained with it, exactly: of all linear Gaussian systems with so
--- many latent numbers an axis, the one with the highest partial bound on flights (UAV-S, pn.gap.flights), by gradients
--- of the bound in closed form (pn.gap.linear_gaussian). The observations' noise is its true one, as in uav.lua.
---
---     penumbra best_linear_system.lua                        2, 4 and 7 latent numbers, both noises; a minute
---     penumbra best_linear_system.lua --latent 2 --steps 600
---     penumbra best_linear_system.lua --quick
---
--- It writes best_linear_system.txt: the bound at the true parameters, at the best ones, and log p(x) of these: what
--- training with partial inference gives up. Results stand on this folder's page.
local here = arg[0]:gsub("[^/]*$", "")
local experiment = dofile(here .. "../continual/experiment.lua")
local pn = require "penumbra"

local option = experiment.options({ latent = "2,4,7", noises = "0.15,0.075", steps = 1500, lr = 3e-3,
  conditioning = "partial" }, { latent = "2", noises = "0.15", steps = 3 })

local STEPS = 25

-- A lower triangular root of a covariance that is not below 1e-10.
local function covariance(root)
  local n = root:size(1)
  local i = pn.arange(n)
  local l = root * i:unsqueeze(1):le(i:unsqueeze(2)):to "float64"
  return l:matmul(l:t()) + pn.eye(n) * 1e-10
end

-- The true axis within n numbers, and others that begin small.
local function start(n)
  local a, q, p = pn.eye(n):totable(), {}, {}
  a[1][2] = 0.1
  for k = 1, n do
    q[k], p[k] = k == 1 and 0.01 or 0.1, k == 1 and 0.1 or 1
    for j = 1, k > 2 and n or 0 do a[k][j] = (j == k and 0.8 or 0) + 0.05 * math.sin(3 * k + j) end
  end
  return pn.param(pn.tensor(a)), pn.param(pn.tensor(q):diag_embed()), pn.param(pn.tensor(p):diag_embed())
end

local report = experiment.report(option, "best_linear_system")
report("%-6s %6s %12s %12s %12s %12s", "noise", "latent", "at truth", "best bound", "its log p", "true log p")
for _, noise in ipairs(experiment.words(option.noises)) do
  local truth = pn.gap.flights { noise_scale = { noise } }.system
  local how = { steps = STEPS, first = "predicted", conditioning = option.conditioning, data = truth }
  local known = pn.gap.linear_gaussian(truth, how)
  for _, n in ipairs(experiment.words(option.latent)) do
    local a, q, p = start(n)
    local optimiser, best = pn.optim.adam({ a, q, p }, { lr = option.lr }), nil
    for k = 1, option.steps do
      optimiser.lr = option.lr * 0.05 ^ (k / option.steps)
      local r = pn.gap.linear_gaussian(pn.smc.linear_system { transition = a, transition_cov = covariance(q),
        emission = pn.eye(1, n), emission_cov = pn.tensor { { noise ^ 2 } }, initial_mean = pn.zeros { n },
        initial_cov = covariance(p) }, how)
      if not best or r.bound:item() > best.bound then
        best = { bound = r.bound:item(), log_likelihood = r.log_likelihood:item() }
      end
      optimiser:step(-r.bound:sum())
    end
    report("%-6g %6d %12.4f %12.4f %12.4f %12.4f", noise, n, known.bound:item(), best.bound, best.log_likelihood,
      known.log_likelihood:item())
  end
end
