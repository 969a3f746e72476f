--- A device that learns: the calibration curve of a sensor drifts, then jumps when a part is changed, and the device
--- sees it only where the temperature of the hour happens to be. It keeps a normal law over 49 weights and two dozen
--- readings; each hour's six are learned and thrown away.
---
---     penumbra 13_learning_device.lua [--quick] [--seed N] [--out FILE.svg]
---
--- Three learners follow the same stream: one that adds up all it saw (online variational Bayes), one that forgets, and
--- one that forgets and keeps the readings that its normal law says least of. examples/embed/learning_device.c runs the
--- third one within a C program.
---
--- Hours 61 to 120, of which the first has the new part; readings have a noise of 0.1 (their log density would be 0.88
--- if the curve were known). Rate and size of the memory were looked for on the stream of seed 1; seeds 1, 2, 3:
---
---                              log density of the next readings    error of the curve, everywhere
---     adds up                      -12.42   -10.83   -10.91            0.544   0.539   0.491
---     forgets                       -0.25     0.04    -0.23            0.375   0.394   0.375
---     forgets and remembers          0.12     0.36     0.11            0.332   0.296   0.319
---
--- Half a minute. Scores are "centred": the printed one of a reading is, up to the noise, -y^2, and keeps those near 0.
local pn = require "penumbra"
local nn = pn.nn

local option = { quick = false, seed = 1, out = "learning_device.svg" }
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-(%w+)$"
  if name == "quick" then
    option.quick = true
  elseif name == "out" and arg[i + 1] then
    option.out, i = arg[i + 1], i + 1
  elseif name == "seed" and math.tointeger(tonumber(arg[i + 1])) then
    option.seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  else
    io.stderr:write("usage: 13_learning_device.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end

-- ---- the world ----

local HOURS <const>, FIRST <const>, READINGS <const>, NOISE <const> = option.quick and 6 or 120,
  60, 6, 0.1
local CHANGED <const> = option.quick and 4 or 60 -- the hour at which the part is changed
local generator = pn.generator(option.seed)

-- The curve at an hour: it turns slowly, and is another one after the change.
local function curve(x, hour)
  local phase = hour * 0.012
  if hour >= CHANGED then
    return (x * 2 + phase + 1):sin() * 0.8 - x * 0.2
  end
  return (x * 2 + phase):sin()
end

-- Readings of an hour: the temperature swings over a day, and stays near where it is within the hour. The first are
-- those of the maker, everywhere.
local function readings(hour)
  local how, x = { generator = generator }
  if hour == 0 then
    x = pn.rand({ FIRST, 1 }, how) * 4 - 2
  else
    x = pn.randn({ READINGS, 1 }, how) * 0.25 + 1.6 * math.sin(2 * math.pi * hour / 24)
  end
  return x, curve(x, hour) + pn.randn(x:shape(), how) * NOISE
end

-- ---- the learners ----

local function learner(forget, memory)
  local quick = option.quick
  return pn.continual.learner {
    network = nn.sequential { nn.linear(1, 16), nn.tanh(), nn.linear(16, 1) },
    likelihood = "normal", noise = NOISE, prior = 1, seed = option.seed,
    forget = forget and pn.continual.bayesian_forgetting { rate = forget } or nil,
    memory = memory and { size = memory, score = "centred" } or nil,
    steps = { first = quick and 20 or 2000, later = quick and 20 or 500 },
    draws = { train = 8, sites = quick and 200 or 4000, predict = 500 },
  }
end

local FORGET <const>, MEMORY <const> = 0.2, 24
local learners = {
  { name = "adds up", learner = learner(nil, nil), colour = "#7f7f7f" },
  { name = "forgets", learner = learner(FORGET, nil), colour = "#d9752b" },
  { name = "forgets and remembers", learner = learner(FORGET, MEMORY), colour = "#1f77b4" },
}

-- ---- the stream ----

local grid = pn.linspace(-2.2, 2.2, 111):unsqueeze(2)
local shown = option.quick and { [2] = true, [3] = true, [5] = true } or { [57] = true, [66] = true, [119] = true }
local panels = {}

local function picture(l, hour)
  local p, truth, x = l:predict(grid), curve(grid, hour):squeeze(2), grid:squeeze(2)
  local mean, sd = p.mean:squeeze(2), p.variance:squeeze(2):sqrt()
  local series = { title = ("hour %d%s"):format(hour, hour >= CHANGED and ", another part" or ""),
    x_label = "temperature", y_label = "reading", y_range = { -2, 2 }, legend = "below",
    pn.plot.band(x, mean - sd * 2, mean + sd * 2, { colour = "#1f77b4", opacity = 0.3, label = "two deviations" }),
    pn.plot.line(x, mean, { colour = "#1f77b4", label = "learned" }),
    pn.plot.line(x, truth, { colour = "#000000", dashed = true, width = 1, label = "truth" }) }
  if l.memory then
    series[#series + 1] = pn.plot.points(l.memory.x:squeeze(2), l.memory.y:squeeze(2),
      { colour = "#d62728", label = "memory" })
  end
  return pn.plot.panel(series)
end

local everywhere = pn.linspace(-1.6, 1.6, 65):unsqueeze(2)
for _, l in ipairs(learners) do l.ahead, l.off = {}, {} end
for hour = 0, HOURS - 1 do
  local x, y = readings(hour)
  local truth = curve(everywhere, hour)
  for _, l in ipairs(learners) do
    local report = l.learner:observe(x, y, hour)
    l.ahead[#l.ahead + 1] = report.log_predictive_before
    l.off[#l.off + 1] = ((l.learner:predict(everywhere).mean - truth):square():mean():sqrt()):item()
  end
  if shown[hour] then
    panels[#panels + 1] = picture(learners[3].learner, hour)
  end
end

-- ---- what came of it ----

local function mean_of(list, from, to)
  local sum = 0
  for k = from, to do sum = sum + list[k] end
  return sum / (to - from + 1)
end

-- Root of the mean square over the hours, as each hour's is over temperatures.
local function root_of(list, from, to)
  local squares = {}
  for k = from, to do squares[k] = list[k] ^ 2 end
  return mean_of(squares, from, to) ^ 0.5
end

local half = HOURS // 2 + 1
print(("Hours %d to %d, of a noise of %g:"):format(half, HOURS, NOISE))
print("                           log density of the next readings   error of the curve, everywhere")
for _, l in ipairs(learners) do
  print(("  %-24s %8.3f %38.3f"):format(l.name, mean_of(l.ahead, half, HOURS), root_of(l.off, half, HOURS)))
end
local device = learners[3].learner
local numbers = device.posterior.precision:numel() * 4 + device.memory.x:numel() + device.memory.y:numel() +
  device.memory.age:numel()
print(("The device keeps %d numbers: a normal law and its projection over %d weights, %d readings with their ages.")
  :format(numbers, device.posterior.precision:numel(), device.memory.x:size(1)))

local hours, over = pn.arange(HOURS) * 1.0, { title = "Error of the curve, everywhere", x_label = "hour",
  y_label = "root mean square", legend = "below" }
for _, l in ipairs(learners) do
  over[#over + 1] = pn.plot.line(hours, pn.tensor(l.off), { colour = l.colour, label = l.name })
end
panels[#panels + 1] = pn.plot.panel(over)
panels.columns, panels.size = 2, { 1000, 760 }
local saved, why = pn.plot.save(option.out, panels)
print(saved and "picture: " .. option.out or "no picture: " .. why)
