--- What a memory keeps: a network of 2 x 16 tanh units with priors N(0, 1) on a stream of two moons, 150 data at first
--- and 15 at each later step, with a memory of 30 chosen by Gaussian residual scoring (Kurle et al. 2020, figure 3),
--- with the score as printed, its size and the centred one: the predictive probabilities and the memory at steps 0, 25
--- and 50, and how likely the model found the data of the next step that it then kept, and those that it did not.
---
---     penumbra two_moons.lua --results runs.txt [--seeds 8] [--scores residual,absolute,centred] [--lr 0.05]
---         [--steps 50] [--noise 0.15] [--first 5000] [--later 1000] [--draws 10] [--sites 10000]
---     penumbra two_moons.lua --results runs.txt --choose [--try_lr 0.01,0.02,0.05]       the rate
---     penumbra two_moons.lua --results runs.txt --show                   the table of what there is
---
--- writes two_moons.txt and, of seed 1, two_moons_SCORE.svg when it is run. A run that the file of results has is not
--- made again. --choose goes by the mean log density of batches before they are learned, over all scores on streams of
--- their own. The document gives neither noise nor optimisation. Results are on README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local nn, plot = pn.nn, pn.plot

local option = experiment.options({ steps = 50, memory = 30, batch = 150, later_batch = 15, noise = 0.15, seeds = 8,
  first_seed = 1, scores = "residual,absolute,centred", first = 5000, later = 1000, draws = 10, sites = 10000,
  lr = 0.05, predict = 500, side = 61, results = "", show = false, part = "1/1", choose = false,
  try_lr = "0.01,0.02,0.05", try_seeds = 2 },
  { side = 15, predict = 50, steps = 4, first = 100, later = 30, draws = 2, sites = 200, seeds = 1 })

-- ---- the stream, centred and scaled as its first batch ----

local function stream_of(seed)
  local first_x = pn.data.two_moons(option.batch, { noise = option.noise, seed = seed * 1000 })
  local centre, width = first_x:mean(1), first_x:std(1, 0)
  local test_x, test_y = pn.data.two_moons(1000, { noise = option.noise, seed = seed * 1000 + 999 })
  local function batch(t)
    local x, y = pn.data.two_moons(t == 0 and option.batch or option.later_batch, { noise = option.noise,
      seed = seed * 1000 + t })
    return (x - centre) / width, y
  end
  return { batch = batch, test_x = (test_x - centre) / width, test_y = test_y }
end

local function learner_of(job)
  return pn.continual.learner {
    network = nn.sequential { nn.linear(2, 16), nn.tanh(), nn.linear(16, 16), nn.tanh(), nn.linear(16, 1) },
    likelihood = "bernoulli", prior = 1, seed = job.seed,
    memory = { size = option.memory, score = job.score },
    draws = { train = option.draws, sites = option.sites, predict = option.predict },
    steps = { first = option.first, later = option.later }, optimiser = { lr = job.lr },
  }
end

-- ---- pictures ----

local axis = pn.linspace(-3, 3, option.side)
local grid = pn.stack({ pn.tile(axis, { option.side }), pn.repeat_interleave(axis, option.side, 1) }, 2)
local blue, red = "#2f6fd0", "#d0392b"

local function marks_of(x, y, size, marks)
  for k = 0, 1 do
    local at = y:eq(k):nonzero():reshape { -1 }
    if at:numel() > 0 then
      local p = x:take(1, at)
      marks[#marks + 1] = plot.points(p:select(2, 1), p:select(2, 2), { colour = k == 0 and blue or red, size = size })
    end
  end
end

-- The predictive probabilities, the data so far, those of the step and the memory.
local function panel_of(learner, t, seen)
  local probabilities = learner:predict(grid).probabilities:reshape { option.side, option.side }
  local marks = { title = ("step %d: data (small), memory (large)"):format(t), legend = "none", x_range = { -3, 3 },
    y_range = { -3, 3 }, plot.heatmap(probabilities, { x = axis, y = axis, palette = "grey" }) }
  local n = #seen.x
  if n > 1 then
    marks_of(pn.concatenate({ table.unpack(seen.x, 1, n - 1) }, 1), pn.concatenate({ table.unpack(seen.y, 1, n - 1) },
      1), 0.2, marks)
  end
  marks_of(seen.x[n], seen.y[n], 0.45, marks)
  local kept = learner.memory
  marks[#marks + 1] = plot.points(kept.x:select(2, 1), kept.x:select(2, 2), { colour = "#f0c000", size = 1.25 })
  marks_of(kept.x, kept.y, 0.9, marks)
  return plot.panel(marks)
end

-- ---- a run ----

-- Is the row of x among those of the memory?
local function kept_rows(learner, x)
  return (x:unsqueeze(2) - learner.memory.x:unsqueeze(1)):abs():sum(3):min(2):eq(0)
end

-- The mean where the mask is true, or nil, and how often it is.
local function mean_where(values, mask)
  local at = mask:nonzero():reshape { -1 }
  return at:numel() > 0 and values:take(1, at):mean():item() or nil, at:numel()
end

-- Adds a mean of n numbers to {[1] = steps, [2] = means, sum =, count =}.
local function add(curve, t, mean, n)
  if mean then
    curve[1][#curve[1] + 1], curve[2][#curve[2] + 1] = t, mean
    curve.sum, curve.count = curve.sum + mean * n, curve.count + n
  end
end

local function mean_logit(learner, at)
  local p = learner:predict(at).probabilities
  return (p:log() - (1 - p):log()):abs():mean():item()
end

local function run(job)
  local stream, learner, pictured = stream_of(job.seed), learner_of(job), job.seed == option.first_seed
  local kept_curve, left_curve = { {}, {}, sum = 0, count = 0 }, { {}, {}, sum = 0, count = 0 }
  local seen, panels, apart, logits, ahead = { x = {}, y = {} }, {}, {}, { memory = {}, batch = {} }, {}
  for t = 0, option.steps do
    local x, y = stream.batch(t)
    local before = t > 0 and learner:log_predictive(x, y)
    learner:observe(x, y, t)
    seen.x[t + 1], seen.y[t + 1] = x, y
    if before then
      local mask = kept_rows(learner, x)
      local kept, num_kept = mean_where(before, mask)
      local left, num_left = mean_where(before, mask:logical_not())
      add(kept_curve, t, kept, num_kept)
      add(left_curve, t, left, num_left)
      apart[#apart + 1], ahead[t] = kept and left and kept - left or nil, before:mean():item()
    end
    logits.memory[t + 1], logits.batch[t + 1] = mean_logit(learner, learner.memory.x), mean_logit(learner, x)
    if pictured and (t == 0 or t == option.steps // 2 or t == option.steps) then
      panels[#panels + 1] = panel_of(learner, t, seen)
    end
  end
  if pictured and not option.choose then
    panels[#panels + 1] = plot.panel { title = "LML of the next batch, before it is learned", x_label = "step",
      legend = "below",
      plot.points(left_curve[1], left_curve[2], { colour = "#555555", label = "not kept" }),
      plot.points(kept_curve[1], kept_curve[2], { colour = "#d07a00", label = "kept in the memory" }) }
    experiment.picture(option, "two_moons_" .. job.score, panels, { columns = 2, size = { 1000, 900 } })
  end
  local difference, _, deviation = experiment.moments(apart)
  local result = { lml = learner:log_predictive(stream.test_x, stream.test_y):mean():item(),
    ahead = experiment.moments(ahead), kept = kept_curve.sum / math.max(1, kept_curve.count),
    num_kept = kept_curve.count, left = left_curve.sum / math.max(1, left_curve.count), num_left = left_curve.count,
    apart = difference, apart_se = deviation, memory_logit = experiment.moments(logits.memory),
    batch_logit = experiment.moments(logits.batch), clipped = learner.counts.clipped }
  print(("%s, rate %g, seed %d: ahead %.4f, |logit| of memory %.2f, of batches %.2f"):format(job.score, job.lr,
    job.seed, result.ahead, result.memory_logit, result.batch_logit))
  return result
end

-- ---- many ----

local scores = experiment.words(option.scores)

local function jobs(first, last, lr)
  local list = {}
  for seed = first, last do
    for _, score in ipairs(scores) do
      list[#list + 1] = { score = score, seed = seed, lr = lr, size = ("%d-%d-%d-%d-%d-%d-%g"):format(option.draws,
        option.sites, option.first, option.later, option.steps, option.memory, option.noise) }
    end
  end
  return list
end

local function runs_of(list)
  return experiment.runs { option = option, jobs = list, run = run, order = { "score", "seed", "lr", "size", "lml" } }
end

-- The rate, by streams that the table has not.
local function choose()
  for _, lr in ipairs(experiment.words(option.try_lr)) do
    local runs, list = runs_of(jobs(101, 100 + option.try_seeds, lr)), {}
    for k, record in ipairs(runs) do list[k] = record.ahead end
    if #list > 0 then print(("choose: rate %g: LML ahead %.4f"):format(lr, (experiment.moments(list)))) end
  end
end

local function column(found, name)
  local list = {}
  for k, record in ipairs(found) do list[k] = record[name] end
  local mean, _, deviation = experiment.moments(list)
  return ("%.3f +- %.3f"):format(mean, deviation)
end

local function table_of(write, runs)
  write("%-9s %5s %17s %17s %17s %17s %17s %17s", "score", "runs", "test LML", "LML of kept", "of not kept", "apart",
    "|logit| of memory", "of batches")
  for _, score in ipairs(scores) do
    local found = experiment.find(runs, { score = score })
    if #found > 0 then
      write("%-9s %5d %17s %17s %17s %17s %17s %17s", score, #found, column(found, "lml"), column(found, "kept"),
        column(found, "left"), column(found, "apart"), column(found, "memory_logit"), column(found, "batch_logit"))
    end
  end
end

if option.choose then
  choose()
else
  table_of(experiment.report(option, "two_moons"), runs_of(jobs(option.first_seed, option.seeds, option.lr)))
end
