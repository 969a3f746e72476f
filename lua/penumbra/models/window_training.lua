--- How forecasters are trained: windows of the series at random, Adam, a rate that decays exponentially. `m:fit{...}`
--- returns {history =, loss =, iteration =, seconds =, seed =, stopped =}: history has the loss of each iteration.
---
---     m:fit { series = set, steps = 2500, batch_size = 50, window = 90, context = 60, lr = 5e-3, decay = 1e-2,
---       seed = 1, checkpoint = "run.safetensors", resume = true, progress = true }
---
--- series      a series set (pn.data.series, pn.data.gluonts): each window is one of its series, all alike likely, from
---             a start that is uniform; a series shorter than the window comes whole. A batch as log_evidence takes it,
---             in its place, is trained on as it is in each iteration; with batch_size each takes so many of its
---             series at random, all alike likely, with their scales in the whole batch
--- steps       2500, one minibatch each
--- batch_size  windows of a minibatch, 50; of a batch: its series of a minibatch (all)
--- window      steps of a window
--- context     steps from the start of a window that give its scale (all of them)
--- lr, decay   the rate, 5e-3, and what part of it is left in the last iteration, 1e-2 (1: constant)
--- beta1, beta2, clip   Adam's, 0.9 and 0.95; the largest norm of the gradient, 10
--- seed        of windows, which depend on it and the iteration alone, and of draws in the loss; drawn if not given
--- compile     true: steps are captured and replayed
--- checkpoint  name of a file to which the run is written every `checkpoint_every` iterations (100) and at the end
--- resume      true: goes on from that file to the same bits as without the break. Without such a file it begins
--- validate    what is held out: a batch as log_evidence takes it, whose score is minus its loss; or a function of the
---             table that will be returned, which gives a score, larger is better. It is asked every `validate_every`
---             iterations (100) and after the last; the parameters of the best score are put back at the end, and the
---             result has score, scores (a list of {iteration =, score =}), best and best_iteration
--- patience    looks without a better score after which to stop (never)
--- on_step   function of the table that will be returned; false stops, and the file is written
--- progress    true for a line on standard error, or a file
-- help: pn.models
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local early_stopping = require "penumbra.models.early_stopping"
local form = require "penumbra.form"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local prepared_batch = require "penumbra.models.prepared_batch"
local progress = require "penumbra.progress"
local replay = require "penumbra.autodiff.replay"

local window_training = {}

--- settings(model, iteration): what goes into `how` at that iteration, a new table; second the text of the phase.
function window_training.settings(self, iteration)
  local phase = getmetatable(self).kind.phase
  local how = {}
  if not phase then
    return how, ""
  end
  local name, settings, values = phase(self, iteration)
  for key, value in pairs(settings or {}) do
    how[key] = value
  end
  how.values = values and core.tensor(values, { dtype = self.dtype }) or nil
  return how, name
end

--- loss(model, b, how): minus the log evidence of a prepared batch over the number of observed values.
function window_training.loss(self, b, how)
  local seen = b.observed:to(self.dtype):sum():clamp(1, math.huge)
  return -getmetatable(self).kind.evidence(self, b, how):sum() / seen
end

local fit_options = {
  series = options.required "table", steps = 2500, batch_size = options.optional "number",
  window = options.optional "number", context = options.optional "number", lr = 5e-3, decay = 1e-2, beta1 = 0.9,
  beta2 = 0.95, clip = 10, seed = options.optional "number", compile = true, checkpoint = options.optional "string",
  checkpoint_every = 100, resume = false, on_step = options.optional "function", progress = options.any(false),
}

local function read(self, given)
  local o = options.check("fit", given, options.merged(early_stopping.options, fit_options))
  o.set = type(o.series.windows) == "function" and o.series or nil
  o.all = not o.set and not o.batch_size -- the batch as it is
  o.batch_size = o.batch_size or 50
  options.whole("fit", "steps", o.steps, 1)
  for _, name in ipairs { "lr", "decay", "clip" } do
    if not (o[name] > 0) then
      core.error(("fit: %s must be positive, got %g"):format(name, o[name]))
    end
  end
  if o.set then
    o.window = options.whole("fit", "window", o.window or 0, 1)
    if o.context and options.whole("fit", "context", o.context, 1) > o.window then
      core.error(("fit: context must be at most the window, %d, got %d"):format(o.window, o.context))
    end
  elseif o.window or o.context then
    core.error "fit: window and context are for a series set"
  else
    o.whole = prepared_batch.read("fit", self, o.series)
  end
  if o.resume and not o.checkpoint then
    core.error "fit: resume is only used with checkpoint"
  end
  early_stopping.read(self, o)
  return o
end

-- ---- a step ----

-- The tensors of a prepared batch, as arguments of a compiled function.
local NAMES = { "y", "raw", "observed", "active", "inputs", "lengths", "series", "start", "location", "scale" }

local function packed(b, values)
  local names, list = {}, {}
  for _, name in ipairs(NAMES) do
    if b[name] then
      names[#names + 1], list[#list + 1] = name, b[name]
    end
  end
  list[#list + 1] = values
  return names, list
end

-- What `packed` took apart.
local function unpacked(b, names, ...)
  local list = { ... }
  local again = { steps = b.steps, size = b.size, complete = b.complete }
  for k, name in ipairs(names) do
    again[name] = list[k]
  end
  return again, list[#names + 1]
end

-- A whole step on a prepared batch: a function that gives the loss as a number. Of each way to compute there is one
-- compiled function.
local function stepper(self, o, optimiser, generator)
  local ways = {}
  return function(b, iteration)
    local how, phase = window_training.settings(self, iteration)
    how.generator = generator
    if not o.compile then
      return optimiser:step(window_training.loss(self, b, how))
    end
    local names, list = packed(b, how.values)
    local key = table.concat(names, " ") .. tostring(b.complete) .. b.steps .. " " .. b.size .. phase
    if not ways[key] then
      local frame = { steps = b.steps, size = b.size, complete = b.complete }
      ways[key] = replay.compile(function(...)
        local again, values = unpacked(frame, names, ...)
        how.values = values
        return window_training.loss(self, again, how)
      end, { optimiser = optimiser })
    end
    return ways[key](table.unpack(list))
  end
end

-- ---- the run ----

local SAME = { "steps", "batch_size", "window", "context", "lr", "decay", "beta1", "beta2", "clip" }

local function save(o, s, live)
  local run = { iteration = s.iteration, seed = s.seed, seconds = s.seconds,
    history = core.tensor(s.history, { dtype = "float64" }), options = {}, selection = early_stopping.state(s) }
  for _, name in ipairs(SAME) do
    run.options[name] = o[name]
  end
  local ok, message = checkpoint.save(o.checkpoint, { net = live.net, optimiser = live.optimiser,
    generator = live.generator, run = run })
  if not ok then
    core.error("fit: checkpoint: " .. message)
  end
end

local function exists(path)
  local file = io and io.open(path, "rb")
  if file then
    file:close()
  end
  return file ~= nil
end

local run_form = form.record { net = form.any, optimiser = form.any, generator = form.any, run = form.record {
  iteration = form.whole(0), seed = form.integer, seconds = form.number { least = 0 }, options = form.map(form.any),
  history = form.tensor { dtype = "float64", shape = { -1 }, finite = true }, selection = early_stopping.form } }

local function resumed(self, o, live)
  local function loaded(into)
    local saved, message = checkpoint.load(o.checkpoint, into, { default_generator = false })
    return saved or core.error("fit: resume: " .. tostring(message))
  end
  local run = form.check(("fit: resume: '%s' does not fit"):format(o.checkpoint), "it", loaded(), run_form).run
  for _, name in ipairs(SAME) do
    if run.options[name] ~= o[name] then
      core.error(("fit: the run saved in '%s' had %s %s, got %s"):format(o.checkpoint, name,
        tostring(run.options[name]), tostring(o[name])))
    end
  end
  if o.seed and o.seed ~= run.seed then
    core.error(("fit: the run saved in '%s' had seed %d, got %d"):format(o.checkpoint, run.seed, o.seed))
  end
  if run.history:numel() ~= run.iteration then
    core.error(("fit: resume: '%s' must have a loss for each iteration"):format(o.checkpoint))
  end
  loaded(live)
  local s = { iteration = run.iteration, seed = run.seed, seconds = run.seconds, history = run.history:totable() }
  s.stopped = early_stopping.resume(self, o, s, run.selection)
  return s
end

-- The minibatch of an iteration, by seed and iteration alone.
local function batch_at(self, o, s, iteration)
  if o.all then
    return o.whole
  elseif o.whole then
    return prepared_batch.rows(o.whole, core.randint(0, o.whole.size, { o.batch_size },
      { generator = core.generator(s.seed):split(iteration) }))
  end
  local windows = o.set:windows { size = o.window, count = o.batch_size,
    generator = core.generator(s.seed):split(iteration) }
  windows.context = o.context and math.min(o.context, windows.y:size(1))
  if self.covariates == 0 then
    windows.inputs = nil
  end
  return prepared_batch.read("fit", self, windows)
end

-- The loss of a batch that is held out, as at the end of training.
local function held_out_loss(self, b, how)
  for key, value in pairs(window_training.settings(self, math.huge)) do how[key] = value end
  return window_training.loss(self, b, how)
end

local function run(self, o, s, live, bar)
  local step, start = stepper(self, o, live.optimiser, live.generator), core.clock() - s.seconds
  while s.iteration < o.steps and not s.stopped do
    local k = s.iteration + 1
    live.optimiser.lr = o.lr * o.decay ^ ((k - 1) / math.max(1, o.steps - 1))
    s.loss = step(batch_at(self, o, s, k), k)
    s.iteration, s.history[k], s.seconds = k, s.loss, core.clock() - start
    if bar then
      bar:step(1, "loss", s.loss)
    end
    s.stopped = o.validate ~= nil and (k % o.validate_every == 0 or k == o.steps)
      and early_stopping.look(self, o, s, held_out_loss)
    s.stopped = o.on_step ~= nil and o.on_step(s) == false or s.stopped
    if o.checkpoint and (k % o.checkpoint_every == 0 or k == o.steps or s.stopped) then
      save(o, s, live)
    end
  end
end

--- fit{series =, steps = 2500, ...}: trains a forecaster; see pn.help "penumbra.models.window_training".
function window_training.fit(self, given)
  local o = read(self, given)
  local optimiser = optim.adam(self:parameters(), { lr = o.lr, beta1 = o.beta1, beta2 = o.beta2, clip_norm = o.clip })
  local seed = o.seed or core.randint(0, 1 << 53, {}):item()
  local live = { net = self, optimiser = optimiser, generator = core.generator(seed):split(0) }
  local s = o.resume and exists(o.checkpoint) and resumed(self, o, live)
    or { iteration = 0, seed = seed, seconds = 0, stopped = false, history = {} }
  s.loss = s.history[s.iteration]
  local bar <close> = progress.asked(o.progress, { total = o.steps, done = s.iteration, label = "training" })
  run(self, o, s, live, bar)
  early_stopping.finish(self, s)
  return s
end

return window_training
