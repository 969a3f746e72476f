--- What a memory keeps: a network of 2 x 16 tanh units with priors N(0, 1) on a stream of two moons, 150 data at first
--- and 15 at each later step, with a memory of 30 chosen by Gaussian residual scoring (Kurle et al. 2020, figure 3):
--- the predictive probabilities and the memory at steps 0, 25 and 50, and how likely the model found the data of the
--- next step that it then kept, and those that it did not.
---
---     penumbra examples/papers/continual/two_moons.lua [--steps 50] [--noise 0.15] [--score residual] [--seed 1]
---         [--first 5000] [--later 1000] [--draws 10] [--sites 10000] [--lr 0.05] [--out FOLDER]
---
--- writes two_moons.txt and two_moons.svg. The document gives neither noise nor optimisation.
---
--- Measured with the defaults, half a minute of one thread:
---
---   step   test LML   of the batch kept, LML   not kept, LML   |logit| of memory, batch     ages       bias  clipped
---      0    -0.3412                                                    1.28        1.48   0 to 0     0.0208        0
---     25    -0.3225              9    -0.092       6    -0.307         2.50        2.42   0 to 25    0.0073        0
---     50    -0.3301              5    -0.841      10    -0.081         2.74        2.40   0 to 17    0.0039        0
---
--- Over all 50 steps the log density of new data before they were learned was -0.506 for the 262 that were then kept
--- and -0.222 for the 488 that were not; step by step they lie -0.327 +- 0.083 (standard error) apart, as the document
--- says. That the memory is near the boundary does not come out: the mean |logit| over all steps is 2.32 in the memory
--- and 2.20 in the batches. It holds misclassified tips of the moons together with quite ordinary data. And the
--- posterior stays where the first batch has put it: a nearly straight boundary (vb_or_mcmc.lua), of which it becomes
--- ever surer; 50 batches do not make it bend, and the test LML hardly rises.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/experiment.lua")
local nn, plot = pn.nn, pn.plot

local option = experiment.options({ steps = 50, memory = 30, batch = 150, later_batch = 15, noise = 0.15, seed = 1,
  score = "residual", first = 5000, later = 1000, draws = 10, sites = 10000, lr = 0.05, predict = 500,
  side = 61 }, { side = 15, predict = 50, steps = 4, first = 100, later = 30, draws = 2, sites = 200 })
local write = experiment.report(option, "two_moons")

-- ---- the stream, centred and scaled as its first batch ----

local first_x = pn.data.two_moons(option.batch, { noise = option.noise, seed = option.seed * 1000 })
local centre, width = first_x:mean(1), first_x:std(1, 0)

local function batch(t)
  local x, y = pn.data.two_moons(t == 0 and option.batch or option.later_batch, { noise = option.noise,
    seed = option.seed * 1000 + t })
  return (x - centre) / width, y
end

local test_x, test_y = pn.data.two_moons(1000, { noise = option.noise, seed = option.seed * 1000 + 999 })
test_x = (test_x - centre) / width

local learner = pn.continual.learner {
  network = nn.sequential { nn.linear(2, 16), nn.tanh(), nn.linear(16, 16), nn.tanh(), nn.linear(16, 1) },
  likelihood = "bernoulli", prior = 1, seed = option.seed,
  memory = { size = option.memory, score = option.score },
  draws = { train = option.draws, sites = option.sites, predict = option.predict },
  steps = { first = option.first, later = option.later }, optimiser = { lr = option.lr },
}

-- ---- pictures ----

local side = option.side
local axis = pn.linspace(-3, 3, side)
local grid = pn.stack({ pn.tile(axis, { side }), pn.repeat_interleave(axis, side, 1) }, 2)

local panels, blue, red = {}, "#2f6fd0", "#d0392b"

local function marks_of(x, y, size, marks)
  for k = 0, 1 do
    local at = y:eq(k):nonzero():reshape { -1 }
    if at:numel() > 0 then
      local p = x:take(1, at)
      marks[#marks + 1] = plot.points(p:select(2, 1), p:select(2, 2), { colour = k == 0 and blue or red, size = size })
    end
  end
end

local seen_x, seen_y = {}, {}

local function draw(t, x, y)
  local marks = { title = ("step %d: data (small), memory (large)"):format(t), legend = "none", x_range = { -3, 3 },
    y_range = { -3, 3 }, plot.heatmap(learner:predict(grid).probabilities:reshape { side, side },
      { x = axis, y = axis, palette = "grey" }) }
  if #seen_x > 0 then marks_of(pn.concatenate(seen_x, 1), pn.concatenate(seen_y, 1), 0.2, marks) end
  marks_of(x, y, 0.45, marks)
  local kept = learner.memory
  marks[#marks + 1] = plot.points(kept.x:select(2, 1), kept.x:select(2, 2), { colour = "#f0c000", size = 1.25 })
  marks_of(kept.x, kept.y, 0.9, marks)
  panels[#panels + 1] = plot.panel(marks)
end

-- ---- the stream ----

-- Is the row of x among those of the memory?
local function kept_rows(x)
  local distance = (x:unsqueeze(2) - learner.memory.x:unsqueeze(1)):abs():sum(3):min(2)
  return distance:eq(0)
end

local function mean_where(values, mask)
  local at = mask:nonzero():reshape { -1 }
  return at:numel() > 0 and values:take(1, at):mean():item() or nil, at:numel()
end

local kept_curve, left_curve = { {}, {} }, { {}, {} }
local kept_sum, left_sum, kept_count, left_count, pairs_of = 0, 0, 0, 0, {}
local near = { {}, {} }

write "step   test LML   of the batch kept, LML   not kept, LML   |logit| of memory, batch     ages       bias  clipped"
for t = 0, option.steps do
  local x, y = batch(t)
  local before = t > 0 and learner:log_predictive(x, y)
  local report = learner:observe(x, y, t)
  local mask = kept_rows(x)
  local kept, num_kept, left, num_left
  if before then
    kept, num_kept = mean_where(before, mask)
    left, num_left = mean_where(before, mask:logical_not())
    if kept then
      kept_curve[1][#kept_curve[1] + 1], kept_curve[2][#kept_curve[2] + 1] = t, kept
      kept_sum, kept_count = kept_sum + kept * num_kept, kept_count + num_kept
    end
    if left then
      left_curve[1][#left_curve[1] + 1], left_curve[2][#left_curve[2] + 1] = t, left
      left_sum, left_count = left_sum + left * num_left, left_count + num_left
    end
    pairs_of[#pairs_of + 1] = kept and left and kept - left
  end
  local function logit(at)
    local p = learner:predict(at).probabilities
    return (p:log() - (1 - p):log()):abs():mean():item()
  end
  near[1][t + 1], near[2][t + 1] = logit(learner.memory.x), logit(x)
  if t == 0 or t == option.steps // 2 or t == option.steps then
    draw(t, x, y)
    local oldest = 0
    for _, age in ipairs(report.memory.ages) do oldest = math.max(oldest, age) end
    write("%4d   %8.4f   %12s  %8s  %6s  %8s   %10.2f  %10.2f   0 to %-4g  %8.4f  %5d", t,
      learner:log_predictive(test_x, test_y):mean():item(), num_kept or "", kept and ("%.3f"):format(kept) or "",
      num_left or "", left and ("%.3f"):format(left) or "", near[1][t + 1], near[2][t + 1], oldest,
      math.max(report.bias.precision, report.bias.mean), learner.counts.clipped)
  end
  seen_x[#seen_x + 1], seen_y[#seen_y + 1] = x, y
end

local difference, _, deviation = experiment.moments(pairs_of)
write("LML of new data over all steps: %.3f of %d that were kept, %.3f of %d that were not; by step %.3f +- %.3f apart",
  kept_sum / kept_count, kept_count, left_sum / left_count, left_count, difference, deviation)
local memory_logit, batch_logit = experiment.moments(near[1]), experiment.moments(near[2])
write("mean |logit| over all steps: %.2f of the memory, %.2f of the batches", memory_logit, batch_logit)

panels[#panels + 1] = plot.panel { title = "LML of the next batch, before it is learned", x_label = "step",
  legend = "below",
  plot.points(left_curve[1], left_curve[2], { colour = "#555555", label = "not kept" }),
  plot.points(kept_curve[1], kept_curve[2], { colour = "#d07a00", label = "kept in the memory" }) }
experiment.picture(option, "two_moons", panels, { columns = 2, size = { 1000, 900 } })
