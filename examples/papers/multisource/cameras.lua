--- Three cameras see a pendulum (Kurle, Guennemann & van der Smagt 2019, section 5.3): images in, the bob's x, y out.
--- Camera 0 looks along the z-axis, 1 and 2 are turned by 45 degrees about the x- and the y-axis; distance twice the
--- radius of rotation, 32 x 32 pixels, noise 0.1. After two of three rotations camera 0 sends noise alone: conflict
--- rises, the fusion rule drops it, the predictions of the other two stay sharp. L(ind), K = 16, 50,000 steps of 16.
---
---     penumbra examples/papers/multisource/cameras.lua [--steps 50000] [--lr 5e-5] [--seed 1] [--out FOLDER]
---
--- writes cameras.txt, cameras.svg (--pictures png) and cameras.safetensors, from which it goes on. Results and open
--- choices: README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local steps = dofile(here .. "/steps.lua")
local plot = pn.plot

local option = experiment.options({ steps = 50000, lr = 5e-5, seed = 1, batch = 16, draws = 16, side = 32, focal = 1.5,
  radius = 0.12, noise = 0.1, start = 0.1, angles = 240, healthy = 20000, rate = 0.01, predict = 500 },
  { steps = 60, lr = 1e-3, side = 12, angles = 24, healthy = 300, predict = 50 })
local write = experiment.report(option, "cameras")
local o32 <const> = { dtype = "float32" }

-- ---- the scene: a bob on the unit circle about the z-axis, cameras at distance 2 that look at the origin ----

local t = math.pi / 4
local turns = { -- rows: right, up, towards the camera
  { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
  { { 1, 0, 0 }, { 0, math.cos(t), -math.sin(t) }, { 0, math.sin(t), math.cos(t) } },
  { { math.cos(t), 0, -math.sin(t) }, { 0, 1, 0 }, { math.sin(t), 0, math.cos(t) } },
}
local pixel = pn.linspace(-1, 1, option.side, o32)

-- Images [n, side^2] of bobs at angles [n, 1] by camera k, without noise: a disc with a soft edge, in perspective.
local function rendered(angle, k)
  local x, y = angle:cos(), angle:sin()
  local r = turns[k]
  local function along(row) return x * row[1] + y * row[2] end
  local depth = 2 - along(r[3])
  local u, v = along(r[1]) / depth * option.focal, along(r[2]) / depth * option.focal
  local size = (depth ^ -1) * (option.radius * option.focal)
  local n = angle:size(1)
  local du = (pixel - u):square():unsqueeze(2) -- [n, 1, columns]
  local dv = (-pixel - v):square():unsqueeze(3)
  local distance = (du + dv):sqrt()
  local edge = 2 / option.side
  return ((size:unsqueeze(3) - distance) * (2 / edge)):sigmoid():reshape { n, option.side ^ 2 // 1 }
end

local function images(angle, failed)
  local x = {}
  for k = 1, 3 do
    local name = "camera" .. k - 1
    local noise = option.noise * pn.randn({ angle:size(1), option.side ^ 2 // 1 }, o32)
    x[name] = k == 1 and failed and noise or rendered(angle, k) + noise
  end
  return x
end

local function positions(angle) return pn.concatenate({ angle:cos(), angle:sin() }, 2) end

local function random_angles(n) return pn.rand({ n, 1 }, o32) * (2 * math.pi) end

-- ---- the model ----

local names = { "camera0", "camera1", "camera2" }
local sources = {}
for _, name in ipairs(names) do sources[name] = { size = option.side ^ 2 // 1, hidden = { 32, 32 } } end
local log_scale = pn.param(pn.full({}, math.log(option.start), o32))
pn.seed(option.seed)
local m = pn.models.multisource { sources = sources, latent = 2, dtype = "float32",
  targets = { bob = { size = 2, hidden = { 16, 64, 256 }, -- from the data on: the decoder is 256-64-16
    likelihood = pn.nn.likelihood.normal { log_scale = log_scale } } } }
local seconds, loss = steps.train { model = m, steps = option.steps, lr = option.lr, seed = option.seed,
  path = not option.quick and option.out .. "/cameras.safetensors" or nil, name = "cameras",
  batch = function() return { random_angles(option.batch) } end,
  loss = function(angle)
    local x = images(angle)
    x.bob = positions(angle)
    return m:loss(x, { objective = "ind", draws = option.draws })
  end }
write("%d steps, %.0f s, last loss %.3f, scale of the bob's place %.4f", option.steps, seconds, loss,
  log_scale:exp():item())

-- ---- the threshold, on healthy data ----

pn.seed(option.seed + 1)
local function conflicts_of(n)
  local parts = {}
  for first = 1, n, 2000 do
    local angle = random_angles(math.min(2000, n - first + 1))
    parts[#parts + 1] = m:conflicts(images(angle))
  end
  return pn.concatenate(parts, 1):detach()
end
local limit = pn.fusion.conflict_threshold(conflicts_of(option.healthy), { rate = option.rate })
write("threshold of mutual conflict for a false-alarm rate of %g, from %d healthy data: %.4f", option.rate,
  option.healthy, limit)

-- ---- three rotations, the last without camera 0 ----

local n = option.angles
local angle = (pn.arange(3 * n):to "float32" * (2 * math.pi / n)):unsqueeze(2)
local whole, broken = images(angle:slice(1, 1, 2 * n)), images(angle:slice(1, 2 * n + 1, 3 * n), true)
local x = {}
for _, name in ipairs(names) do x[name] = pn.concatenate({ whole[name], broken[name] }, 1) end
local truth = positions(angle)
local _, report = m:fuse(x, { conflict_threshold = limit })
local dropped = report.left_out:to "float64"

local ways = { { "camera0", { "camera0" } }, { "camera1", { "camera1" } }, { "camera2", { "camera2" } },
  { "0 and 1", { "camera0", "camera1" } }, { "0 and 2", { "camera0", "camera2" } },
  { "1 and 2", { "camera1", "camera2" } }, { "all", names }, { "by the rule", names, limit } }
write("\nof the bob's place: root mean square error of the mean of %d draws, and their standard deviation",
  option.predict)
write("%-12s %19s %19s", "", "rotations 1, 2", "rotation 3")
local spread = {}
for _, way in ipairs(ways) do
  local draws = m:predict(x, { sources = way[2], targets = { "bob" }, samples = true, draws = option.predict,
    conflict_threshold = way[3] }).bob
  local error = (draws:mean(1) - truth):square():sum(2)
  local variance = draws:var(1):sum(2)
  spread[way[1]] = { mean = draws:mean(1), sd = variance:sqrt() }
  local function over(v, first, last) return math.sqrt(v:slice(1, first, last):mean():item()) end
  write("%-12s %9.4f %9.4f %9.4f %9.4f", way[1], over(error, 1, 2 * n), over(variance, 1, 2 * n),
    over(error, 2 * n + 1, 3 * n), over(variance, 2 * n + 1, 3 * n))
end
write("\nleft out by the rule, share of data:   camera0 %.4f, camera1 %.4f, camera2 %.4f in rotations 1 and 2",
  table.unpack(dropped:slice(1, 1, 2 * n):mean(1):totable()))
write("                                       camera0 %.4f, camera1 %.4f, camera2 %.4f in rotation 3",
  table.unpack(dropped:slice(1, 2 * n + 1, 3 * n):mean(1):totable()))
write("no majority in %.4f and %.4f of the data", report.undecided:slice(1, 1, 2 * n):to "float64":mean():item(),
  report.undecided:slice(1, 2 * n + 1, 3 * n):to "float64":mean():item())
local c = report.conflicts
for _, pair in ipairs { { 1, 2 }, { 2, 1 }, { 1, 3 }, { 3, 1 }, { 2, 3 }, { 3, 2 } } do
  local v = c:select(-1, pair[2]):select(-1, pair[1])
  write("mean conflict c(%d || %d): %.2f, then %.2f", pair[1] - 1, pair[2] - 1, v:slice(1, 1, 2 * n):mean():item(),
    v:slice(1, 2 * n + 1, 3 * n):mean():item())
end

-- ---- pictures ----

local time = angle:squeeze(2) / (2 * math.pi)
local lines = { title = "conflict over time", x_label = "rotations", y_label = "c(m || n)", y_log = true,
  legend = "below" }
for _, pair in ipairs { { 1, 2 }, { 2, 1 }, { 1, 3 }, { 3, 1 }, { 2, 3 }, { 3, 2 } } do
  lines[#lines + 1] = plot.line(time, c:select(-1, pair[2]):select(-1, pair[1]):maximum(1e-3),
    { label = ("%d || %d"):format(pair[1] - 1, pair[2] - 1), width = 1 })
end
local function predicted(name)
  local s = spread[name]
  return plot.panel { title = "x of the bob: " .. name, x_label = "rotations", y_label = "x", y_range = { -2.2, 2.2 },
    legend = "none", plot.fan(time, { s.mean:select(2, 1) - s.sd * 2, s.mean:select(2, 1),
      s.mean:select(2, 1) + s.sd * 2 }), plot.line(time, truth:select(2, 1), { dashed = true, width = 1 }) }
end
experiment.picture(option, "cameras", { plot.panel(lines), predicted "camera0", predicted "all",
  predicted "by the rule" }, { columns = 2, size = { 760, 500 } })
option.pictures = "png"
local look = pn.concatenate({ rendered(angle:slice(1, 1, 1), 1), rendered(angle:slice(1, 1, 1), 2),
  rendered(angle:slice(1, 1, 1), 3) }, 1)
for k = 2, 4 do
  local a = angle:slice(1, 1 + (k - 1) * n // 5, 1 + (k - 1) * n // 5)
  look = pn.concatenate({ look, rendered(a, 1), rendered(a, 2), rendered(a, 3) }, 1)
end
experiment.picture(option, "cameras_seen", plot.panel { title = "what cameras 0, 1, 2 see",
  plot.images(look:reshape { 12, option.side, option.side }:to "float64", { columns = 6 }) }, { size = { 520, 240 } })
