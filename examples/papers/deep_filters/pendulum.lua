--- A damped pendulum that swings from the top, seen as noisy positions: two switching linear systems learn it from 50
--- steps of many swings, filter 50 steps of new ones and forecast the next 100. In RSGLS the switch follows the state,
--- so that the matrices are those of a linearisation where the pendulum is; in SGLS it does not. (Kurle, Rangapuram, de
--- Bezenac, Guennemann & Gasthaus 2020, Deep Rao-Blackwellised particle filters, section 5.1.)
---
---     penumbra examples/papers/deep_filters/pendulum.lua [--quick | --paper] [--tricks] [--validation]
---         [--model rsgls|rsgls_published|sgls] [--iterations N] [--particles N] [--seed N] [--out DIR]
---         [--results FILE] [--show]
---
--- --tricks: short runs of RSGLS (300 iterations, batches of 25, 8 particles), each with one choice changed.
---
--- The paper does not print its constants. Here: angle'' = -(9.81 / 2) sin(angle) - angle' / 4, by Runge-Kutta steps of
--- 0.01 s, a position 0.5 (sin, -cos) of the angle every 0.1 s with noise of 0.05; at first the angle is pi + g, the
--- velocity 4 g, g standard normal within -2 to 2.
---
--- Without an option: 2000 swings, batches of 50, 16 particles, 1000 iterations, float32. --paper: 5000 swings, batches
--- of 100, 64 particles, 2500 iterations (50 epochs), float64. Everything else as in the paper: state 3, switch 5, 10
--- bases, networks of 32 units, Adam from 1e-2 to 1e-4 with beta2 0.95, the first tenth of training without resampling,
--- gradients clipped at 10, no encoder, 100 particles to forecast. Base matrices move 5 times as fast as the networks.
--- A run writes its state to DIR and goes on from there. --results: a line a run is kept, and a run that is there is
--- not made again; --show: the table of these.
---
--- Settings were decided after a look at the swings of --validation (one set for each seed), which --tricks scores,
--- too. What is scored otherwise is a set on which nothing was decided, the same for all seeds.
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local kept_runs = dofile(here .. "/../kept_runs.lua")
dofile(here .. "/../continual/experiment.lua").checked(arg)

local o = { out = ".", seed = 1, models = { "rsgls", "rsgls_published", "sgls" } }
local sizes = { swings = 2000, batch = 50, particles = 16, iterations = 1000, dtype = "float32", test = 200,
  paths = 100 }

local function usage()
  io.stderr:write("usage: pendulum.lua [--quick | --paper] [--tricks] [--validation] ",
    "[--model rsgls|rsgls_published|sgls] [--iterations N] [--particles N] [--seed N] [--out DIR] ",
    "[--results FILE] [--show]\n")
  os.exit(1)
end

local numbers = { ["--seed"] = "seed", ["--iterations"] = "iterations", ["--particles"] = "particles" }
local k = 1
while arg[k] do
  local name = arg[k]
  if name == "--quick" then
    o.quick = true
    sizes = { swings = 40, batch = 8, particles = 4, iterations = 12, dtype = "float32", test = 6, paths = 20 }
  elseif name == "--paper" then
    sizes = { swings = 5000, batch = 100, particles = 64, iterations = 2500, dtype = "float64", test = 200,
      paths = 100 }
  elseif name == "--tricks" then
    o.tricks, o.validation = true, true
  elseif name == "--validation" or name == "--show" then
    o[name:sub(3)] = true
  elseif numbers[name] and math.tointeger(tonumber(arg[k + 1])) then
    o[numbers[name]], k = math.tointeger(tonumber(arg[k + 1])), k + 1
  elseif name == "--model" and (arg[k + 1] == "rsgls" or arg[k + 1] == "rsgls_published" or arg[k + 1] == "sgls") then
    o.models, k = { arg[k + 1] }, k + 1
  elseif (name == "--out" or name == "--results") and arg[k + 1] then
    o[name:sub(3)], k = arg[k + 1], k + 1
  else
    usage()
  end
  k = k + 1
end
if o.tricks and not o.quick then
  sizes.batch, sizes.particles, sizes.iterations = 25, 8, 300
end
if o.validation and not o.quick then
  sizes.test = o.tricks and 50 or 100
end
sizes.iterations, sizes.particles = o.iterations or sizes.iterations, o.particles or sizes.particles

local SEEN, AHEAD, NOISE = 50, 100, 0.05

-- ---- what is kept of runs ----

local SETTINGS = { "swings", "batch", "particles", "iterations", "dtype", "test", "scored", "model" }
local WHICH = table.move(SETTINGS, 1, #SETTINGS, 1, {})
WHICH[#WHICH + 1] = "seed"
local SCORES = { "first", "second", "third", "fourth", "within", "loss", "minutes" } -- the ranges of the horizon, ...

local function run_of(name)
  return { model = name, seed = o.seed, swings = sizes.swings, batch = sizes.batch, particles = sizes.particles,
    iterations = sizes.iterations, dtype = sizes.dtype, test = sizes.test,
    scored = o.validation and "validation" or "test" }
end

local function is_kept(name)
  local key = kept_runs.key(run_of(name), WHICH)
  for _, run in ipairs(o.results and kept_runs.read(o.results) or {}) do
    if kept_runs.key(run, WHICH) == key then return true end
  end
  return false
end

if o.show then
  print "CRPS by steps ahead, mean and standard deviation over seeds; share within the central 90 %"
  print "particles  iterations  model            seeds  1-10            11-25           26-50           51-100"
  for _, runs in ipairs(kept_runs.grouped(kept_runs.read(o.results), SETTINGS)) do
    local line = { ("%9d  %10d  %-16s %5d"):format(runs.first.particles, runs.first.iterations, runs.first.model,
      #runs) }
    local function told(name)
      local mean, sd = kept_runs.mean_sd(runs, name)
      return kept_runs.told("%.3f", mean, sd, #runs)
    end
    for i = 1, 4 do line[#line + 1] = " " .. told(SCORES[i]) end
    line[#line + 1] = ("  %3.0f %%  loss %s"):format(100 * kept_runs.mean_sd(runs, "within"), told "loss")
    print(table.concat(line, " "))
  end
  return
end

-- ---- swings ----

-- n swings of `steps` steps: noisy positions [steps, n, 2], and the positions themselves.
local function swings(n, steps, seed)
  local g = pn.generator(seed)
  local function clipped() return pn.randn({ n }, { generator = g }):clamp(-2, 2) end
  local angle, velocity = clipped() + math.pi, clipped() * 4
  local function force(a, v) return a:sin() * (-9.81 / 2) - v * 0.25 end
  local h, list = 0.01, {}
  for t = 1, steps do
    list[t] = pn.stack({ angle:sin(), -angle:cos() }, 2) * 0.5
    for _ = 1, 10 do
      local v1, f1 = velocity, force(angle, velocity)
      local v2 = velocity + f1 * (h / 2)
      local f2 = force(angle + v1 * (h / 2), v2)
      local v3 = velocity + f2 * (h / 2)
      local f3 = force(angle + v2 * (h / 2), v3)
      local v4 = velocity + f3 * h
      local f4 = force(angle + v3 * h, v4)
      angle = angle + (v1 + v2 * 2 + v3 * 2 + v4) * (h / 6)
      velocity = velocity + (f1 + f2 * 2 + f3 * 2 + f4) * (h / 6)
    end
  end
  local truth = pn.stack(list, 1)
  return truth + pn.randn(truth:shape(), { generator = g }) * NOISE, truth
end

local train = swings(sizes.swings, SEEN + AHEAD, 1000 + o.seed)
-- Those that are scored: the same for all seeds, and by --validation others, on which settings were decided.
local test, test_truth = swings(sizes.test, SEEN + AHEAD, o.validation and 2000 + o.seed or 3000)

-- Minibatches for fit: swings at random, their first 50 steps.
local set = { windows = function(_, given)
  local rows = pn.randint(0, sizes.swings, { given.count }, { generator = given.generator })
  return { y = train:slice(1, 1, given.size):take(2, rows):to(sizes.dtype):contiguous() }
end }

-- ---- models ----

local function new_model(name, more)
  local options = { size = 2, states = 3, switches = 5, base = 10, hidden = { 32 }, transition_hidden = 32,
    num_particles = sizes.particles, scaling = "none", dtype = sizes.dtype, scaling_of_bases = 5,
    no_resampling = sizes.iterations // 10 }
  for key, value in pairs(more or {}) do
    options[key] = value
  end
  if name == "rsgls_published" then
    options.conditioning = "published"
  end
  pn.seed(o.seed)
  return pn.models[name:match "^r?sgls"](options)
end

local function learn(name, m, how)
  local path = ("%s/pendulum_%s.safetensors"):format(o.out, name)
  local every = math.max(1, sizes.iterations // 20)
  return m:fit { series = set, window = SEEN, batch_size = how.batch or sizes.batch,
    steps = how.iterations or sizes.iterations, lr = 1e-2, decay = 1e-2, beta2 = 0.95, clip = how.clip or 10,
    seed = o.seed, checkpoint = how.checkpoint and path or nil, checkpoint_every = how.checkpoint and 50 or nil,
    resume = how.checkpoint or nil, on_step = function(s)
      if not how.silent and (s.iteration % every == 0 or s.iteration == 1) then
        print(("%-16s iteration %5d, loss %8.4f, %6.0f s"):format(name, s.iteration, s.loss, s.seconds))
        io.stdout:flush()
      end
    end }
end

local RANGES = { { 1, 10 }, { 11, 25 }, { 26, 50 }, { 51, 100 } }

-- CRPS of draws [S, 100, B, 2] of what comes after the seen steps, by ranges of the horizon; and how much of it lies
-- within the central 90 %.
local function judged(draws)
  local future = test:slice(1, SEEN + 1, SEEN + AHEAD)
  local crps = pn.metrics.crps(future, draws:to "float64")
  if crps:ndim() > 1 then
    crps = crps:reshape { AHEAD, -1 }:mean(2)
  end
  local row = {}
  for i, range in ipairs(RANGES) do
    row[i] = crps:slice(1, range[1], range[2]):mean():item()
  end
  local low, high = pn.quantile(draws, 0.05, 1), pn.quantile(draws, 0.95, 1)
  local inside = future:ge(low:to "float64"):logical_and(future:le(high:to "float64"))
  row[#row + 1] = inside:to("float64"):mean():item()
  return row
end

local function show(name, row)
  print(("%-34s %s   %5.0f %%"):format(name, ("%8.4f"):rep(#RANGES):format(table.unpack(row)), 100 * row[#RANGES + 1]))
end

local function heading(first)
  local list = {}
  for i, range in ipairs(RANGES) do
    list[i] = ("%8s"):format(range[1] .. "-" .. range[2])
  end
  print(("%-34s %s   within 90 %%"):format(first, table.concat(list)))
end

local function forecast(m, count)
  m.num_particles = 100
  local seen = { y = test:slice(1, 1, SEEN):slice(2, 1, count or sizes.test):to(sizes.dtype):contiguous() }
  local b = m:filter(seen, { generator = pn.generator(5) })
  local mode = m.conditioning == "published" and "marginal" or "ancestral" -- its model has no joint paths
  return m:forecast(b, AHEAD, { draws = sizes.paths, mode = mode, generator = pn.generator(6) }), seen
end

-- What would be said without looking at the swing: other swings at the same step.
local function climate()
  local rows = pn.randperm(sizes.swings, { generator = pn.generator(3) }):slice(1, 1, math.min(sizes.swings, 100))
  local other = train:slice(1, SEEN + 1, SEEN + AHEAD):take(2, rows):permute { 2, 1, 3 }:unsqueeze(3)
  return other:broadcast_to { other:size(1), AHEAD, sizes.test, 2 }
end

-- ---- which tricks matter: short runs ----

if o.tricks then
  local tricks = {
    { "as above", {} },
    { "resampling from the start", { no_resampling = 0 } },
    { "resampling never", { threshold = 0 } },
    { "linear part frozen at first", { frozen = sizes.iterations // 10 } },
    { "gradients not clipped", {}, { clip = 1e9 } },
    { "no gradient through resampled moments", { resampled_gradient = false } },
    { "bases no faster than networks", { scaling_of_bases = 1 } },
    { "variances averaged", { average = "variances" } },
    { "log scales averaged", { average = "log_scales" } },
    { "one set of weights", { sharing = "all" } },
    { "weights for each matrix", { sharing = "none" } },
    { "conditioning as published", { conditioning = "published" } },
  }
  heading(("CRPS, %d iterations"):format(sizes.iterations))
  for _, trick in ipairs(tricks) do
    local m = new_model("rsgls", trick[2])
    local ok, s = pcall(learn, "rsgls", m, { silent = true, clip = trick[3] and trick[3].clip })
    if ok then
      local mean = 0
      for i = math.max(1, #s.history - 19), #s.history do
        mean = mean + s.history[i] / math.min(20, #s.history)
      end
      show(("%s (loss %.3f)"):format(trick[1], mean), judged(forecast(m)))
    else
      print(("%-34s %s"):format(trick[1], (tostring(s):gsub("\n.*", ""))))
    end
    io.stdout:flush()
    if o.quick then
      break
    end
  end
  return
end

-- ---- both models ----

local rows, pictures, models = {}, {}, {}
for _, name in ipairs(o.models) do models[#models + 1] = not is_kept(name) and name or nil end
if #models == 0 then return end
for _, name in ipairs(models) do
  local m = new_model(name)
  local s = learn(name, m, { checkpoint = not o.quick })
  print(("%s: %d parameters, %d iterations in %.0f s, loss %.4f"):format(name, m:num_parameters(), s.iteration,
    s.seconds, s.loss))
  local draws, seen = forecast(m)
  rows[#rows + 1] = { name, judged(draws) }
  if o.results then
    local run = run_of(name)
    run.loss, run.minutes = s.loss, s.seconds / 60
    for i = 1, 5 do run[SCORES[i]] = rows[#rows][2][i] end
    kept_runs.keep(o.results, run, WHICH, SCORES)
  end
  pictures[#pictures + 1] = { name = name, draws = draws, along = m:filtered(seen, { generator = pn.generator(5) }) }
end

print(("CRPS of %d swings, by steps ahead; position 0.5 from the pivot, noise %.2f"):format(sizes.test, NOISE))
heading "method"
for _, row in ipairs(rows) do
  show(row[1], row[2])
end
show("other swings at the same step", judged(climate()))
show("the true swing and its noise", judged(test_truth:slice(1, SEEN + 1, SEEN + AHEAD):unsqueeze(1)
  + pn.randn({ 100, AHEAD, sizes.test, 2 }, { generator = pn.generator(4) }) * NOISE))

-- ---- a picture: mean and 3 standard deviations of the first test swing, filtered and forecast ----

local COLOURS = { "#1f77b4", "#ff7f0e" }

local function panel(p)
  local series = { title = p.name:upper():gsub("_", ", ") .. ": filtered 50 steps, forecast 100", x_label = "step",
    y_label = "position", x_range = { 1, SEEN + AHEAD }, y_range = { -1.2, 1.2 }, legend = "top right" }
  local step, future = pn.arange(1, SEEN + AHEAD + 1), pn.arange(SEEN + 1, SEEN + AHEAD + 1)
  local along = { mean = p.along.mean:to "float64", sd = p.along.variance:to("float64"):sqrt() }
  local ahead = p.draws:to "float64"
  for axis, label in ipairs { "x", "y" } do
    local mean = pn.concatenate({ along.mean:select(2, 1):select(2, axis),
      ahead:mean(1):select(2, 1):select(2, axis) }, 1)
    local sd = pn.concatenate({ along.sd:select(2, 1):select(2, axis),
      ahead:var(1):sqrt():select(2, 1):select(2, axis) }, 1)
    local colour = COLOURS[axis]
    table.insert(series, axis, pn.plot.band(step, mean - sd * 3, mean + sd * 3,
      { colour = colour, opacity = 0.25 })) -- below all lines
    series[#series + 1] = pn.plot.line(step, mean, { colour = colour, width = 1.5, label = label })
    series[#series + 1] = pn.plot.points(step:slice(1, 1, SEEN), test:select(2, 1):select(2, axis):slice(1, 1, SEEN),
      { colour = colour, size = 0.2 })
    series[#series + 1] = pn.plot.line(future, test_truth:select(2, 1):select(2, axis):slice(1, SEEN + 1, SEEN + AHEAD),
      { colour = "#000000", width = 0.8, dashed = true })
  end
  return pn.plot.panel(series)
end

local drawing = { columns = 1, size = { 1000, 320 * #pictures } }
for i, p in ipairs(pictures) do
  drawing[i] = panel(p)
end
local picture, why = pn.plot.save(("%s/pendulum.svg"):format(o.out), drawing)
print(picture and "picture: " .. picture or "no picture: " .. why)
