--- Forecasts of videos after Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, section 5.3: a ball bounces
--- between walls, 32 by 32 black and white pixels; models see 20 images and forecast 40.
---
---   penumbra balls.lua --model kvae_rb --out RESULTS     trains, scores, draws; goes on where RESULTS stands
---   penumbra balls.lua --model all --out RESULTS         all models, and a picture of their scores side by side
---   penumbra balls.lua --quick                           seconds
---   penumbra balls.lua ... --results balls.runs          keeps a line a run; a run that is there is not made again
---   penumbra balls.lua --results balls.runs --show       the tables of these
---
--- Models: kvae_mc, kvae_rb (the two objectives of a Kalman variational autoencoder), kvae_marginal (the objective as
--- in the code published with it), arsgls (recurrent switches, an auxiliary variable, particles), arsgls_published (the
--- same with the paper's recursion, in which a switch that was drawn does not inform the state that it follows), last
--- (the last image stays), other (another video: who knows nothing).
--- Other options: --kind box, gravity, polygon or pong (the last three were only run small); --iterations 4000; --batch
--- 32; --network conv, with --filters 8 (the paper's have 32), or layers, of 128 and 64 units; --train 5000 and --test
--- 100 videos; --samples 32; --seed 1; --lr 0.005, which falls to a twentieth; --weight 0.3 of the pixels' likelihood
--- against everything else in what is maximised, the same for all models; of arsgls --particles 8, --encoder none (it
--- proposes without a look at the image), --gradient dropped, stop_gradient or score_function, --resampling; --watch N:
--- scores on the way, every N iterations; --videos validation: scores those on which settings were decided, not those
--- of the table; --minutes: of training, after which a run is scored as it is and may be gone on with.
---
--- Scores: means over test videos and samples of images of the Wasserstein-1 distance from the true image, both as
--- distributions over pixels (an empty image counts as 32 pixels away), and of the share of equal pixels. Up to image
--- 20 samples are those of smoother (kvae) or filter (arsgls, as many particles as samples), then those of joint paths.
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local images = require "penumbra.models.image_network"
local kept_runs = dofile(here .. "/../kept_runs.lua")

local option = { model = "all", kind = "box", iterations = 4000, batch = 32, filters = 8, train = 5000, test = 100,
  samples = 32, seed = 1, lr = 0.005, particles = 8, network = "conv", minutes = 1e9, out = false,
  quick = false, threads = 1, weight = 0.3, encoder = "ladder", watch = 0, videos = "test",
  gradient = "dropped", resampling = "systematic", results = false, show = false }
local CONTEXT, AHEAD, SIDE, PIXELS = 20, 40, 32, 1024
local o32 = { dtype = "float32" }

local function read_options(args)
  local k = 1
  while k <= #args do
    local name = args[k]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then
      io.stderr:write("balls: unknown option ", args[k], "\n")
      os.exit(1)
    elseif name == "quick" or name == "show" then
      option[name] = true
    else
      k = k + 1
      option[name] = tonumber(args[k]) or args[k]
    end
    k = k + 1
  end
  if option.quick then
    local small = { iterations = 3, batch = 4, filters = 2, train = 8, test = 2, samples = 3, particles = 2 }
    for name, v in pairs(small) do option[name] = v end
    CONTEXT, AHEAD = 6, 3
  end
end

-- ---- models ----

local function layers(...)
  return pn.nn.mlp({ ... }, { init = "he", activation = "relu", dtype = "float32" })
end

local function encoder(outputs)
  if option.network == "layers" then return layers(PIXELS, 128, 64, outputs) end
  return images.encoder("balls", { image = { SIDE, SIDE }, size = PIXELS, filters = option.filters,
    dtype = "float32" }, outputs)
end

local function decoder(inputs)
  if option.network == "layers" then return layers(inputs, 64, 128, PIXELS) end
  return images.decoder("balls", { image = { SIDE, SIDE }, size = PIXELS, filters = option.filters,
    dtype = "float32" }, inputs)
end

-- The size of z: places of the ball and of the paddles.
local function latent() return option.kind == "pong" and 6 or 2 end

-- The sizes of the paper: 10 states, 10 base matrices, a switch of 8, z of 2; variances of q below 0.03 and (by
-- default, in all models) the weight 0.3 of the pixels as in Fraccaro et al. 2017.
local function kvae(objective, paths)
  return function()
    return pn.models.kvae { size = PIXELS, encoder = encoder(2 * latent()), decoder = decoder(latent()),
      output = "bernoulli", scaling = "none", dtype = "float32", latent = latent(), state = 10, base = 10, units = 50,
      latent_variance = 0.03, stable = false, reconstruction = option.weight, objective = objective,
      state_draws = paths, belief_draws = option.samples,
      init = { emission = 0.3, state_scale = 0.28, emission_scale = 0.17 }, jitter = 1e-6 }
  end
end

-- The same encoder, of which the switch is read through one layer more.
local function ladder()
  local function head(layer, limit)
    return pn.nn.module { layer = layer, forward = function(self, h)
      local y = self.layer(h)
      local n = y:size(-1) // 2
      local raw = y:slice(-1, n + 1, 2 * n)
      return { loc = y:slice(-1, 1, n), variance = limit and raw:sigmoid() * limit or raw:softplus() + 1e-4 }
    end }
  end
  local linear = pn.nn.linear
  return pn.nn.module { stem = encoder(64), z = head(linear(64, 2 * latent(), o32), 0.03),
    deeper = pn.nn.sequential { pn.nn.relu(), linear(64, 64, o32), pn.nn.relu() }, s = head(linear(64, 16, o32)),
    forward = function(self, y)
      local steps, count = y:size(1), y:size(2)
      local h = self.stem(y:reshape { steps * count, PIXELS }):reshape { steps, count, 64 }
      return { z = self.z(h), s = self.s(self.deeper(h)) }
    end }
end

-- The law of the pixels, whose logarithm the filter weighs as the autoencoders' objectives do.
local function pixels()
  return pn.nn.module { net = decoder(latent()), forward = function(self, z)
    local shape = z:shape()
    local y = self.net(z:reshape { -1, latent() })
    shape[#shape] = PIXELS
    local law = pn.dist.bernoulli { logits = (y:reshape(shape) / 15):tanh() * 15 } -- as penumbra.models.emission
    return { event_shape = law.event_shape, log_prob = function(_, x) return law:log_prob(x) * option.weight end,
      sample = function(_, how) return law:sample(how) end }
  end }
end

-- In "exact" a switch that is drawn tells of the state that it follows, in "published" it does not.
local function arsgls(conditioning)
  return function()
    return pn.models.arsgls { size = PIXELS, scaling = "none", dtype = "float32", states = 10, switches = 8,
      auxiliary = latent(), base = 10, hidden = { 64 }, transition_hidden = 64, num_particles = option.particles,
      conditioning = conditioning, emission = pixels(), encoder = option.encoder == "ladder" and ladder(),
      gradient = option.gradient, resampling = option.resampling }
  end
end

local models = {
  kvae_rb = kvae "rao_blackwellised", kvae_mc = kvae("monte_carlo", "joint"),
  kvae_marginal = kvae("monte_carlo", "marginal"),
  arsgls = arsgls "exact", arsgls_published = arsgls "published",
}
local all = { "kvae_rb", "kvae_mc", "kvae_marginal", "arsgls", "arsgls_published", "last", "other" }

-- ---- training ----

-- Whole videos at random, as a set of series gives windows.
local function training_set(videos)
  return { windows = function(_, given)
    local index = pn.randint(0, videos:size(2), { given.count }, { generator = given.generator })
    return { y = videos:take(2, index) }
  end }
end

local function path_of(name, model)
  return option.out and ("%s/%s_%s_%s"):format(option.out, option.kind, model or option.model, name)
end

local function train(name, m, videos, watched)
  local last, start, watching = nil, pn.clock(), 0
  local s = m:fit { series = training_set(videos), window = CONTEXT, steps = option.iterations,
    batch_size = option.batch, lr = option.lr, decay = 0.05, clip = 150, seed = option.seed,
    checkpoint = path_of("run.safetensors", name) or nil, resume = option.out and true or false,
    on_step = function(s)
      last = last and 0.98 * last + 0.02 * s.loss or s.loss
      if s.iteration % 100 == 0 then
        print(("%s: iteration %d, loss %.5f a pixel, %.0f s"):format(name, s.iteration, last, s.seconds))
        io.stdout:flush()
      end
      if option.watch > 0 and s.iteration % option.watch == 0 then
        watching = watching - pn.clock()
        watched(s.iteration)
        watching = watching + pn.clock()
      end
      return pn.clock() - start - watching < 60 * option.minutes
    end }
  print(("%s: %d iterations in %.1f minutes, loss %.5f"):format(name, s.iteration, s.seconds / 60, last or s.loss))
  return s.seconds, last or s.loss
end

-- ---- scores ----

-- Samples [S, CONTEXT + AHEAD, B, pixels] of a model that sees the first images of y. By smoothing:
local function smoothed_samples(m, y)
  local seen, s = y:slice(1, 1, CONTEXT), option.samples
  local ahead = m:forecast({ y = seen }, AHEAD, { draws = s })
  return pn.concatenate({ m:smooth({ y = seen }, { draws = s }).observation, ahead }, 2)
end

-- By filtering: particles by their weights, and an image of each one's z.
local function filtered_samples(m, y)
  local s, size, past, belief = option.samples, y:size(2), {}, nil
  for t = 1, CONTEXT do
    belief = belief and belief:update(y[t]) or m:filter { y = y:slice(1, 1, 1) }
    local z = belief.state.particles.z
    local index = pn.dist.categorical { logits = belief.state.log_weights:t():contiguous() }:sample { s }
    z = z:gather(1, index:unsqueeze(-1):broadcast_to { s, size, z:size(3) })
    past[t] = m.emission(z):sample()
  end
  return pn.concatenate({ pn.stack(past, 2), m:forecast(belief, AHEAD, { draws = s }) }, 2)
end

local baselines = {
  last = function(y)
    local still = y:slice(1, CONTEXT, CONTEXT):broadcast_to { AHEAD, y:size(2), PIXELS }
    return pn.concatenate({ y:slice(1, 1, CONTEXT), still }, 1):unsqueeze(1)
  end,
  other = function(y) return y:flip(2):unsqueeze(1) end,
}

-- Means over videos and samples at each step: distance and accuracy, [T] each; and samples of a few videos.
local function scores(draw, videos)
  local sum, right, count, shown = 0, 0, 0, nil
  local part = 10
  for first = 1, videos:size(2), part do
    local y = videos:slice(2, first, math.min(videos:size(2), first + part - 1))
    local x = pn.no_grad(draw, y)
    shown = shown or x:slice(3, 1, math.min(2, y:size(2))):slice(1, 1, math.min(3, x:size(1)))
    local s, steps, b = x:size(1), x:size(2), x:size(3)
    local true_y = y:unsqueeze(1):broadcast_to(x:shape()):contiguous():reshape { s, steps, b, SIDE, SIDE }
    x = x:contiguous():reshape { s, steps, b, SIDE, SIDE }
    local far = pn.metrics.image_wasserstein(true_y, x, { empty = SIDE })
    local same = pn.metrics.pixel_accuracy(true_y, x)
    sum, right, count = sum + far:to("float64"):mean(1):sum(2), right + same:mean(1):sum(2), count + b
  end
  return sum / count, right / count, shown
end

-- ---- pictures ----

local function draw(path, panels, size)
  local done, message = pn.plot.save(path, panels, { size = size })
  print(done and "picture: " .. done or "no picture: " .. message)
end

-- The truth and three sample paths of two videos, a row each.
local function trajectories(name, videos, shown)
  local steps, rows = math.min(CONTEXT + AHEAD, 40), {}
  for b = 1, shown:size(3) do
    rows[#rows + 1] = videos:slice(1, 1, steps):select(2, b)
    for s = 1, shown:size(1) do rows[#rows + 1] = shown:select(1, s):select(2, b):slice(1, 1, steps) end
  end
  local x = pn.concatenate(rows, 1):reshape { -1, SIDE, SIDE }
  draw(path_of("paths.png", name), { pn.plot.panel { legend = "none",
    title = ("%s: truth and three samples, twice; forecast from image %d on"):format(name, CONTEXT + 1),
    pn.plot.images(x, { columns = steps }) } }, { 1400, 340 })
end

local function curves(found)
  local far, same = {}, {}
  for _, entry in ipairs(found) do
    far[#far + 1] = pn.plot.line(nil, entry.far, { label = entry.name })
    same[#same + 1] = pn.plot.line(nil, entry.same, { label = entry.name })
  end
  far.title, far.x_label, far.y_label, far.legend = option.kind, "image", "Wasserstein distance in pixels", "top left"
  same.title, same.x_label, same.y_label, same.legend = option.kind, "image", "pixel accuracy", "bottom left"
  draw(("%s/%s_scores.png"):format(option.out, option.kind), { pn.plot.panel(far), pn.plot.panel(same) })
end

-- ---- what is kept of runs ----

local SETTINGS = { "kind", "model", "network", "filters", "train", "batch", "iterations", "lr", "particles", "weight",
  "encoder", "gradient", "resampling", "videos", "test", "samples" }
local WHICH = table.move(SETTINGS, 1, #SETTINGS, 1, {})
WHICH[#WHICH + 1] = "seed"
local SCORES = { "seen", "next", "ten", "ahead", "last", "seen_same", "ahead_same", "loss", "minutes" }

local OF_ARSGLS = { "particles", "encoder", "gradient", "resampling" }

-- A run of the model `name` by its settings; what does not touch it is "-".
local function run_of(name)
  local run = { model = name }
  for _, key in ipairs(WHICH) do
    run[key] = run[key] or option[key]
  end
  for _, key in ipairs(name:find "^arsgls" and {} or OF_ARSGLS) do run[key] = "-" end
  if baselines[name] then
    for _, key in ipairs { "network", "filters", "train", "batch", "iterations", "lr", "weight", "samples", "seed" } do
      run[key] = "-"
    end
  end
  run.filters = run.network == "conv" and run.filters or "-"
  return run
end

-- The run in the file, if it was made.
local function kept(run)
  local key = kept_runs.key(run, WHICH)
  for _, other in ipairs(kept_runs.read(option.results)) do
    if kept_runs.key(other, WHICH) == key then return other end
  end
end

-- A table for each set of settings but the model and what is ARSGLS's own, a line for each of these: means over seeds,
-- and standard deviations of the two that are compared.
local function show()
  local about = { "kind", "network", "train", "batch", "iterations", "weight", "videos", "test", "samples" }
  local list = {}
  for _, run in ipairs(kept_runs.read(option.results)) do
    list[#list + 1] = not baselines[run.model] and run or nil
  end
  for _, set in ipairs(kept_runs.grouped(list, about)) do
    print(set.key)
    print("model             particles  gradient        seeds  W1: seen  21     21-30            21-60            60"
      .. "      equal: seen  21-60    minutes")
    for _, runs in ipairs(kept_runs.grouped(set, SETTINGS)) do
      local first, mean = runs.first, {}
      for _, name in ipairs(SCORES) do mean[name] = kept_runs.mean_sd(runs, name) end
      local function told(name)
        local text = kept_runs.told("%6.3f", mean[name], select(2, kept_runs.mean_sd(runs, name)), #runs)
        return text .. (" "):rep(15 - #text)
      end
      print(("%-17s %-10s %-15s %5d  %8.3f  %5.3f  %s  %s  %6.3f  %.4f       %.4f  %6.1f"):format(first.model,
        first.particles, first.gradient, #runs, mean.seen, mean.next, told "ten", told "ahead", mean.last,
        mean.seen_same, mean.ahead_same, mean.minutes))
    end
    for _, run in ipairs(kept_runs.read(option.results)) do
      if baselines[run.model] and run.kind == set.first.kind and run.videos == set.first.videos
        and run.test == set.first.test then
        print(("%-17s %33s %8.3f  %5.3f  %6.3f           %6.3f           %6.3f  %.4f       %.4f"):format(run.model, "",
          run.seen, run.next, run.ten, run.ahead, run.last, run.seen_same, run.ahead_same))
      end
    end
  end
end

-- ---- the run ----

-- Means of the curves; loss and seconds of the training, nil on the way.
local function report(name, far, same, loss, seconds)
  local function mean(x, from, to) return x:slice(1, from, to):mean():item() end
  local last = CONTEXT + AHEAD
  local run = { seen = mean(far, 1, CONTEXT), next = mean(far, CONTEXT + 1, CONTEXT + 1),
    ten = mean(far, CONTEXT + 1, CONTEXT + math.min(10, AHEAD)), ahead = mean(far, CONTEXT + 1, last),
    last = far[last]:item(), seen_same = mean(same, 1, CONTEXT), ahead_same = mean(same, CONTEXT + 1, last),
    loss = loss or 0, minutes = (seconds or 0) / 60 }
  print(("%-14s W1: seen %.3f, ahead 1 to 10 %.3f, all %.3f, last %.3f; accuracy: seen %.4f, ahead %.4f; %.1f min")
    :format(name, run.seen, run.ten, run.ahead, run.last, run.seen_same, run.ahead_same, run.minutes))
  io.stdout:flush()
  if seconds and option.out then
    assert(pn.data.save_csv(path_of("scores.csv", name), pn.stack({ far, same }, 2)))
  end
  if seconds and option.results then
    for key, value in pairs(run_of(name)) do run[key] = value end
    kept_runs.keep(option.results, run, WHICH, SCORES)
  end
end

-- Samples of a model by name. Particles of a filter that is scored are as many as the samples.
local function drawer(name, m)
  if not name:find "^arsgls" then
    return function(y) return smoothed_samples(m, y) end
  end
  return function(y)
    m.num_particles = option.samples
    local x = filtered_samples(m, y)
    m.num_particles = option.particles
    return x
  end
end

local function run(name, videos, test)
  local seconds, loss, drawing = 0, 0, baselines[name]
  pn.seed(option.seed)
  if not drawing then
    local m = models[name]()
    print(m)
    drawing = drawer(name, m)
    seconds, loss = train(name, m, videos, function(iteration)
      local far, same = scores(drawing, test)
      report(("%s %d"):format(name, iteration), far, same)
    end)
    pn.seed(option.seed)
  end
  local far, same, shown = scores(drawing, test)
  report(name, far, same, loss, seconds)
  if option.out then trajectories(name, test, shown) end
  return { name = name, far = far, same = same }
end

read_options(arg or {})
if option.show then return show() end
pn.threads(option.threads)
local names = option.model == "all" and all or { option.model }
local train_videos = pn.data.ball_video(option.train, { kind = option.kind, steps = CONTEXT, seed = 1234,
  dtype = "float32" })
local test_videos = pn.data.ball_video(option.test, { kind = option.kind, steps = CONTEXT + AHEAD,
  seed = option.videos == "validation" and 4321 or 8765, dtype = "float32" })
local found = {}
for _, name in ipairs(names) do
  if not (models[name] or baselines[name]) then
    io.stderr:write("balls: --model must be all, ", table.concat(all, ", "), "\n")
    os.exit(1)
  end
  if not kept(run_of(name)) then found[#found + 1] = run(name, train_videos, test_videos) end
end
if option.out and #found > 1 then curves(found) end
