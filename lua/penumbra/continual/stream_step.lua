--- One step of a learner on a stream: forget, project, choose what to keep, bring the Gaussian part up to date (Kurle
--- et al. 2020, algorithm 1; the baselines of section 2.2 and appendix A.1).
--
-- A state is a table that nothing changes: {step =, time =, gaussian = (q, a factor), projection = (a belief), memory =
-- {x =, y =, age =} or nil, counts =, past =}. `run` makes the next one of it. All draws come from generators of the
-- seed, the step and the purpose, so that a step that failed and is repeated gives what it would have given.
--
-- A learned noise is a number, not a law; what data that left the memory say of it is kept in `past`, [2]: how many
-- numbers they were, and their expected squares under the projection of the step in which they left.
-- help: none
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local memory = require "penumbra.continual.memory"
local observation = require "penumbra.continual.observation"
local progress = require "penumbra.progress"
local projection = require "penumbra.continual.projection"
local site_totals = require "penumbra.continual.site_totals"

local stream_step = {}

local PURPOSE <const> = { initial = 0, projection = 1, sites = 2, selection = 3, second = 4, ahead = 5, predict = 6,
  noise = 7 }
local LEAST_WEIGHT <const> = 1e-30

--- generator(seed, step, purpose): the generator of all draws of a step for that purpose.
function stream_step.generator(seed, step, purpose)
  return core.generator(seed):split(step):split(PURPOSE[purpose])
end

-- ---- the data of a step: first the new ones, then the memory ----

local function joined(new, old)
  return old and core.concatenate({ new, old }, 1) or new
end

-- What the step sees: data, with targets as the likelihood takes them, their ages and the weights of their likelihoods.
local function gathered(self, s, batch, elapsed)
  local n, kept = batch.x:size(1), s.memory
  local d = { x = joined(batch.x, kept and kept.x), y = joined(batch.y, kept and kept.y), num_new = n,
    age = joined(core.zeros { n }, kept and kept.age + elapsed) }
  d.num_data = d.x:size(1)
  d.targets = self.model.kind.check("observe", d.y, d.num_data, self.model.net.outputs, self.model)
  d.past = s.past
  if self.forget and s.past and self.forget.name == "bayesian_forgetting" then
    d.past = s.past * self.forget:memory_weight(elapsed)
  end
  d.weights = core.ones { d.num_data }
  if kept and self.forget then
    d.weights = self.forget:memory_weight(d.age):clamp(LEAST_WEIGHT, 1)
    d.tempered = true
  end
  return d
end

local function rows(d, places)
  return { x = d.x:take(1, places), targets = d.targets:take(1, places), weights = d.weights:take(1, places),
    num_data = places:numel(), past = d.past }
end

-- ---- projections ----

-- What is told of a run: to the user's function, or a line for each.
local function told(self, stage, bar)
  if bar then
    return function(done, _, elbo) bar:step(done - bar.done, "elbo", elbo) end
  end
  return self.progress and function(done, steps, elbo) self.progress(stage, done, steps, elbo) end or nil
end

local function project(self, runner, stage, purpose, step, d, predecessor, start, steps)
  local bar <close> = self.progress == true and progress.asked(true, { total = steps, label = stage }) or nil
  return projection.run(runner, { start = start, predecessor = predecessor, x = d.x, y = d.targets,
    weights = d.weights:to(self.model.net.dtype), past = d.past, steps = steps, lr = self.lr, final = self.final,
    generator = stream_step.generator(self.seed, step, purpose),
    told = told(self, stage, bar) })
end

local function belief_of(q, like)
  local mean, variance = gaussian.moments(q)
  local dtype = like.mean:dtype()
  return { mean = mean:to(dtype), log_scale = (variance:log() * 0.5):to(dtype), log_noise = like.log_noise }
end

-- Where the optimisation begins.
local function start_of(self, s, predecessor)
  if s.step == 0 or self.start == "initial" then
    local first = self.initial(stream_step.generator(self.seed, 0, "initial"))
    first.log_noise = s.projection.log_noise
    return first
  end
  return self.start == "predecessor" and belief_of(predecessor, s.projection) or s.projection
end

-- ---- what is kept ----

local function complement(places, n)
  local out, others = {}, {}
  for _, i in ipairs(places:numel() > 0 and places:totable() or {}) do out[i] = true end
  for i = 0, n - 1 do
    if not out[i] then others[#others + 1] = i end
  end
  return core.tensor(others, { dtype = "int64" })
end

-- Places of data to keep, not by scores.
local function selected(self, step, d)
  local size, generator = math.min(self.memory.size, d.num_data), stream_step.generator(self.seed, step, "selection")
  if size == 0 then
    return core.tensor({}, { dtype = "int64" })
  elseif self.memory.select == "random" then
    return (core.randperm(d.num_data, { generator = generator }):slice(1, 1, size):sort())
  end
  local first = core.randint(0, d.num_data, {}, { generator = generator }):item()
  return memory.k_center(d.x, size, { first = first })
end

local function remembered(d, places)
  return places:numel() > 0 and { x = d.x:take(1, places), y = d.y:take(1, places), age = d.age:take(1, places) } or nil
end

local function told_of_memory(d, places)
  local new, ages = 0, {}
  for k, place in ipairs(places:numel() > 0 and places:totable() or {}) do
    new = place < d.num_new and new + 1 or new
    ages[k] = d.age:slice(1, place + 1, place + 1):item()
  end
  return { kept_new = new, kept_old = places:numel() - new, ages = ages }
end

-- ---- updates ----

-- GRS and its ablations: one projection on all data; the Gaussian part by sites, or fitted anew without the kept data.
local function by_scores(self, w)
  local s, d, report, clock = w.state, w.data, w.report, core.clock()
  local found, elbo = project(self, self.runner, "projection", "projection", s.step, d, w.predecessor,
    start_of(self, s, w.predecessor), s.step == 0 and self.steps.first or self.steps.later)
  report.elbo, report.seconds.projection = elbo, core.clock() - clock
  local q, none = site_totals.factor(found), core.tensor({}, { dtype = "int64" })
  if not self.memory or self.memory.size == 0 then
    report.method, report.clipped = "projection", 0
    return q, found, none
  end
  local by_score = self.memory.select == "residual"
  local e, lacking
  if by_score or self.update == "sites" then
    clock = core.clock()
    e = site_totals.estimate(self.model, found, d.x, d.y, { draws = self.draws.sites, estimator = self.estimator,
      weights = d.tempered and d.weights or nil, centred = by_score and self.memory.score == "centred",
      generator = stream_step.generator(self.seed, s.step, "sites") })
    lacking = site_totals.lacking(e, w.predecessor, q)
    report.bias, report.seconds.sites = site_totals.bias(lacking, q), core.clock() - clock
  end
  clock = core.clock()
  local kept
  if by_score then
    report.scores = site_totals.scores(e, lacking, q, self.memory.score, not self.memory.tempered and d.weights or nil)
    kept = memory.top(report.scores, self.memory.size)
  else
    kept = selected(self, s.step, d)
  end
  report.seconds.scores = core.clock() - clock
  clock = core.clock()
  local others = complement(kept, d.num_data)
  local result
  if self.update == "sites" then
    report.method = d.num_new <= kept:numel() and "multiply" or "divide"
    result, report.clipped = site_totals.update(e, lacking, w.predecessor, q, { kept = kept, others = others,
      method = report.method, floor = self.guard.floor })
  else
    report.method, report.clipped = "refit", 0
    result = w.predecessor
    if others:numel() > 0 then
      result = site_totals.factor((project(self, self.fixed(), "refit", "second", s.step, rows(d, others),
        w.predecessor, found, w.second_steps)))
    end
  end
  report.seconds.update = core.clock() - clock
  return result, found, kept
end

-- VCL: choose, fit the Gaussian part to the data that are not kept, and for predictions project it with the memory.
local function by_choice(self, w)
  local s, d, report, clock = w.state, w.data, w.report, core.clock()
  local kept = selected(self, s.step, d)
  local others = complement(kept, d.num_data)
  report.method, report.clipped, report.seconds.scores = "refit", 0, core.clock() - clock
  clock = core.clock()
  local q, found = w.predecessor, belief_of(w.predecessor, s.projection)
  if others:numel() > 0 then
    found, report.elbo = project(self, self.runner, "projection", "projection", s.step, rows(d, others),
      w.predecessor, start_of(self, s, w.predecessor), s.step == 0 and self.steps.first or self.steps.later)
    q = site_totals.factor(found)
  end
  report.seconds.update = core.clock() - clock
  clock = core.clock()
  if kept:numel() > 0 then
    found, report.elbo_second = project(self, self.fixed(), "second projection", "second", s.step, rows(d, kept), q,
      found, w.second_steps)
  end
  report.seconds.projection = core.clock() - clock
  return q, found, kept
end

-- ---- the step ----

-- What is known of the noise once the data that are not kept have left.
local function past_after(self, s, d, found, kept)
  local others = complement(kept, d.num_data)
  if not self.learn_noise or others:numel() == 0 then
    return d.past
  end
  local model, left = self.model, rows(d, others)
  local squares = observation.expected_squares(model, found, left.x, left.targets, self.draws.predict,
    stream_step.generator(self.seed, s.step, "noise"))
  local weights = left.weights:to(model.net.dtype)
  return d.past + core.stack { weights:sum() * model.net.outputs, (squares * weights):sum() }
end

local function is_finite(t)
  return t:numel() == 0 or (t - t):abs():sum():item() == 0
end

local function counted(self, s, w, q)
  local report, counts = w.report, {}
  for name, value in pairs(s.counts) do counts[name] = value end
  report.unconverged = report.bias ~= nil
    and math.max(report.bias.precision, report.bias.mean) > self.guard.unconverged
  report.memory_exceeds_data = self.memory ~= nil and self.memory.size >= w.data.num_data
  counts.clipped = counts.clipped + report.clipped
  counts.clipped_steps = counts.clipped_steps + (report.clipped > 0 and 1 or 0)
  counts.unconverged = counts.unconverged + (report.unconverged and 1 or 0)
  counts.memory_exceeds_data = counts.memory_exceeds_data + (report.memory_exceeds_data and 1 or 0)
  if not (is_finite(q.precision_mean) and is_finite(q.precision)) then
    core.error(("observe: the Gaussian part after step %d is not finite"):format(s.step))
  end
  return counts
end

--- run(self, state, batch): the state after a checked batch {x =, y =, time =}, and the report of the step.
function stream_step.run(self, s, batch)
  local elapsed = s.step == 0 and 0 or batch.time - s.time
  local report = { step = s.step, time = batch.time, elapsed = elapsed, num_new = batch.x:size(1), weight = 1,
    seconds = {} }
  local clock = core.clock()
  local d = gathered(self, s, batch, elapsed)
  local new, ahead = d.targets:slice(1, 1, d.num_new), stream_step.generator(self.seed, s.step, "ahead")
  report.log_predictive_before =
    observation.log_predictive(self.model, s.projection, batch.x, new, self.draws.predict, ahead):mean():item()
  report.seconds.predict = core.clock() - clock
  local w = { state = s, report = report, predecessor = s.gaussian, data = d,
    second_steps = self.steps.second or (s.step == 0 and self.steps.first or self.steps.later) }
  if self.forget and s.step > 0 then
    w.predecessor = self.forget:apply(s.gaussian, self.prior, elapsed)
    report.weight = self.forget.name == "bayesian_forgetting" and self.forget:memory_weight(elapsed) or nil
  end
  local vcl = self.update == "refit" and self.memory and self.memory.select ~= "residual"
  local q, found, kept = (vcl and by_choice or by_scores)(self, w)
  report.memory = told_of_memory(w.data, kept)
  report.noise_scale = self.model.kind.noisy and math.exp(found.log_noise:item()) or nil
  local counts = counted(self, s, w, q)
  return { step = s.step + 1, time = batch.time, gaussian = q, projection = found,
    memory = remembered(w.data, kept), counts = counts, past = past_after(self, s, w.data, found, kept) }, report
end

return stream_step
