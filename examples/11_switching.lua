--- Calm and turbulent markets: daily returns whose log-variance is a regime's level plus a slow wave, found by a
--- Rao-Blackwellised particle filter. The logarithm of a squared return is that log-variance plus a noise that seven
--- normals describe well (Kim, Shephard & Chib 1998). Given the regime and which of the seven it was, all is linear and
--- Gaussian: these two labels are the particles, 14 in all, each weighed for every particle (proposal "optimal"), and
--- the wave is summed out exactly (So, Lam & Li 1998 for the model). Parameters are learned on the first 70 % of the
--- days by the gradient of the filter's log-evidence over windows side by side, and judged on the rest.
---
---     penumbra examples/11_switching.lua [--quick] [--data DIR] [--seed N] [--out FILE.svg]
---
--- DIR holds classics/sp500_returns_1990_1999.csv (daily S&P 500 returns in percent); without it a series is made.
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out, folder = false, 1, "switching.svg", nil
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  elseif arg[i] == "--data" and arg[i + 1] then
    folder, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 11_switching.lua [--quick] [--data DIR] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- ---- the series ----

-- Returns of a market like the model, and its regimes: 2 % a day to leave the calm, 4 % the turbulence.
local function made(days)
  local returns, regimes, regime, wave = {}, {}, 0, 0
  local u, z = pn.rand { days }:totable(), pn.randn { days, 2 }:totable()
  for t = 1, days do
    if u[t] < (regime == 0 and 0.006 or 0.012) then
      regime = 1 - regime
    end
    wave = 0.9 * wave + 0.15 * z[t][1]
    regimes[t], returns[t] = regime, math.exp(0.5 * (regime * 1.8 - 1.2 + wave)) * z[t][2]
  end
  return pn.tensor(returns), pn.tensor(regimes)
end

local returns, truth
if folder then
  returns = assert(pn.data.csv(folder .. "/classics/sp500_returns_1990_1999.csv")):select(2, 1)
  print(("S&P 500, 1990 to 1999: %d daily returns"):format(returns:numel()))
else
  returns, truth = made(1500)
  print "no --data: a series of 1500 days made for the purpose, whose regimes are known"
end
local days = returns:numel()
local series = ((returns - returns:mean()):square() + 1e-3):log():unsqueeze(-1) -- [T, 1]

-- ---- the model ----

-- log of a squared standard normal as a mixture of 7: weights, means, variances (Kim, Shephard & Chib 1998, table 4)
local weight = pn.tensor { 0.00730, 0.10556, 0.00002, 0.04395, 0.34001, 0.24566, 0.25750 }
local offset = pn.tensor { -10.12999, -3.97281, -8.56686, 2.77786, 0.61942, 1.79518, -1.08819 } - 1.2704
local spread = pn.tensor { 5.79596, 2.61369, 5.17950, 0.16735, 0.64009, 0.34023, 1.26261 }
local SEVEN = 7

-- A model of `regimes` regimes as options of pn.smc.rbpf, and its parameters. Label s = 7 regime + component.
local function market(regimes)
  local p = { level = pn.param(pn.tensor { -1 }), gap = pn.param(pn.tensor { 0.5 }), -- levels: level, level + exp(gap)
    keep = pn.param(pn.tensor { 2.5 }), noise = pn.param(pn.tensor { -2 }), -- wave: sigmoid(keep), exp(noise)
    stay = pn.param(pn.tensor { 4, 4 }) } -- days in a regime: a day more with probability sigmoid(stay)
  local list = regimes == 2 and { p.level, p.gap, p.keep, p.noise, p.stay } or { p.level, p.keep, p.noise }
  local one = pn.eye(1)

  -- What the parameters make of all labels: level and log-probabilities of what may follow.
  local function levels()
    return regimes == 1 and p.level or pn.concatenate({ p.level, p.level + p.gap:exp() }, 1)
  end
  local function moves() -- log P [regimes, regimes]
    if regimes == 1 then
      return pn.zeros { 1, 1 }
    end
    local stay, go = p.stay:log_sigmoid(), (-p.stay):log_sigmoid()
    return pn.stack({ pn.stack({ stay:select(1, 1), go:select(1, 1) }, 1),
      pn.stack({ go:select(1, 2), stay:select(1, 2) }, 1) }, 1)
  end
  local function with_component(log_p) -- [..., regimes] -> [..., labels]
    local shape = log_p:shape()
    local joint = log_p:unsqueeze(-1) + weight:log()
    shape[#shape] = regimes * SEVEN
    return joint:reshape(shape)
  end

  local m = { num_particles = 30, proposal = "optimal", gradient = "stop_gradient" }
  m.initial_mean = pn.zeros { 1 }
  function m.initial_cov()
    local keep, noise = p.keep:sigmoid(), p.noise:exp()
    return (noise:square() / (1 - keep:square())):reshape { 1, 1 }
  end
  function m.init() -- the regime's own long run
    local go = (-p.stay):log_sigmoid()
    local first = regimes == 1 and pn.zeros { 1 } or pn.stack({ go:select(1, 2), go:select(1, 1) }, 1):log_softmax(1)
    return dist.categorical { logits = with_component(first) }
  end
  function m.transition(s)
    return dist.categorical { logits = with_component(moves()):take(1, s // SEVEN) }
  end
  function m.system(s)
    local component, regime = s % SEVEN, s // SEVEN
    return { transition = p.keep:sigmoid():reshape { 1, 1 },
      transition_cov = p.noise:exp():square():reshape { 1, 1 }, emission = one,
      emission_offset = (levels():take(1, regime) + offset:take(1, component)):unsqueeze(-1),
      emission_cov = spread:take(1, component):unsqueeze(-1):unsqueeze(-1) }
  end
  return m, list, p
end

-- ---- learning: windows of the training days side by side ----

local WINDOW = 60
local training = days * 7 // 10 // WINDOW * WINDOW
local batch = training // WINDOW
local windows = series:slice(1, 1, training):reshape { batch, WINDOW, 1 }:permute { 2, 1, 3 }:contiguous()

local function learn(regimes, steps)
  local m, list, p = market(regimes)
  m.batch_shape = { batch }
  local optimiser = pn.optim.adam(list, { lr = 0.05 })
  local step = pn.compile(function(y)
    return -pn.smc.fivo(pn.smc.rbpf, m, y)
  end, { optimiser = optimiser })
  local start, last = os.clock(), 0
  for k = 1, steps do
    local loss = step(windows)
    last = k > steps - 10 and last - loss / 10 or last
  end
  print(("%d regime%s: log-evidence of a window of %d days %.2f (the last 10 of %d steps), %.1f s"):format(regimes,
    regimes > 1 and "s" or "", WINDOW, last, steps, os.clock() - start))
  return m, p
end

local steps = quick and 60 or 300
local single = learn(1, steps)
local model, p = learn(2, steps)
local low, high = p.level:item(), p.level:item() + math.exp(p.gap:item())
print(("volatility of the regimes %.2f and %.2f percent a day, mean stay %.0f and %.0f days"):format(math.exp(low / 2),
  math.exp(high / 2), 1 + math.exp(p.stay:totable()[1]), 1 + math.exp(p.stay:totable()[2])))
print(("wave of the log-variance: keeps %.2f of itself a day, noise %.2f"):format(pn.sigmoid(p.keep):item(),
  math.exp(p.noise:item())))

-- ---- the whole series: filtered for the score, smoothed for the picture ----

local function judged(m)
  m.batch_shape, m.num_particles = nil, quick and 100 or 400
  local f = pn.smc.rbpf(m)
  local result = pn.no_grad(function() return f:run(series, { moments = false }) end)
  local rest = result.increments:slice(1, training + 1, days)
  return f, rest:mean():item()
end
local _, with_one = judged(single)
local f, with_two = judged(model)
print(("days not learned from: log predictive density a day %.4f with one regime, %.4f with two"):format(with_one,
  with_two))

local smoothed = f:smooth { draws = quick and 40 or 200 }
local turbulent = smoothed.probabilities:slice(2, SEVEN + 1, 2 * SEVEN):sum(2)
print(("turbulent: %.0f %% of the days"):format(100 * turbulent:mean():item()))
if truth then
  local right = turbulent:gt(0.5):to("float64"):eq(truth):to("float64"):mean():item()
  print(("the regime is right on %.0f %% of the days"):format(100 * right))
end

-- Volatility exp((level + wave) / 2): each path's mean, and between paths and around them two standard deviations.
local regime = (smoothed.s // SEVEN):to "float64" -- [T, M]
local log_variance = low + (high - low) * regime + smoothed.path_mean:squeeze(-1)
local center = log_variance:mean(2)
local deviation = (log_variance:var(2) + smoothed.path_cov:reshape { days, -1 }:mean(2)):sqrt()
local day = pn.arange(1, days + 1)
local function volatility(z) return ((center + deviation * z) / 2):exp() end
local above = pn.plot.panel { title = "Size of daily returns, and smoothed volatility with its 95 % band",
  y_label = "percent", legend = "top left", x_range = { 1, days },
  y_range = { 0, math.min(5, returns:abs():max():item()) },
  pn.plot.points(day, (returns - returns:mean()):abs(), { label = "|return|", size = 0.15, colour = "#aaaaaa" }),
  pn.plot.band(day, volatility(-1.96), volatility(1.96), { colour = "#1f77b4", opacity = 0.35 }),
  pn.plot.line(day, volatility(0), { label = "volatility", colour = "#1f77b4", width = 1.5 }) }
local below = { title = "Probability of the turbulent regime given all days", x_label = "trading day",
  y_label = "probability", x_range = { 1, days }, y_range = { 0, 1.05 }, legend = truth and "top left" or "none",
  pn.plot.band(day, turbulent * 0, turbulent, { colour = "#d62728", opacity = 0.4 }),
  pn.plot.line(day, turbulent, { colour = "#d62728", width = 1, label = "smoothed" }) }
if truth then
  below[#below + 1] = pn.plot.line(day, truth, { colour = "#000000", width = 1, dashed = true, label = "true" })
end
local picture, why = pn.plot.save(out, { columns = 1, size = { 1000, 620 }, above, pn.plot.panel(below) })
print(picture and "picture: " .. picture or "no picture: " .. why)
