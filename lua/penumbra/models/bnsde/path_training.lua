--- How Bayesian neural SDEs are trained: minibatches of trajectories, or of windows of them, through pn.train.fit.
-- help: nowhere
local core = require "penumbra.core"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local path_objective = require "penumbra.models.bnsde.path_objective"
local train = require "penumbra.train"
local trajectories = require "penumbra.models.bnsde.trajectories"

local path_training = {}

local known = options.merged({ data = options.required "table", epochs = options.required "number",
  batch_size = options.optional "number", window = options.optional "number", lr = options.optional "number",
  schedule = options.optional "function", optimiser = options.optional(), compile = true,
  seed = options.optional "number", warmup = options.optional "number", count = 50,
  on_epoch = options.optional "function", checkpoint = options.optional "string",
  checkpoint_every = options.optional "number", resume = options.optional "boolean", progress = options.any(false) },
  path_objective.options)

-- ---- SGLD ----

-- Langevin dynamics of the means of the drift's weights; what has no prior, encoder and decoder too, descends alone.
local function langevin(self, lr)
  local certain = parameters.list { self.encoder, self.decoder }
  for _, entry in ipairs(parameters.named(self.network.net)) do
    certain[#certain + 1] = not self.network.log_scale[entry[1]] and entry[2] or nil
  end
  return optim.sgld(parameters.list { self.network.net, self.encoder, self.decoder },
    { lr = lr, groups = #certain > 0 and { { certain, temperature = 0 } } or nil })
end

-- Room for `count` samples of all weights, of which there are none yet.
local function room_for(self, count)
  local width = drift_weights.flat(self.network):size(1)
  self.kept = core.buffer(core.zeros({ count, width }, { dtype = self.dtype }))
  self.kept_count = core.buffer(core.zeros({}, { dtype = "float64" }))
end

--- make_room(model, state): room for the samples that a saved state has.
function path_training.make_room(self, state)
  local kept = state.kept
  if kept and kept:ndim() == 2 and kept:size(1) > 0 then
    room_for(self, kept:size(1))
  end
end

-- After each epoch from `warmup` on the weights are kept, at the place of the oldest.
local function keep(self, o)
  room_for(self, o.count)
  return function(s)
    if s.epoch <= o.warmup then
      return
    end
    local count = self.kept_count:item() // 1 | 0
    local at = core.arange(o.count, { dtype = "int64" }):eq(count % o.count):unsqueeze(2)
    self.kept:set(core.where(at, drift_weights.flat(self.network):unsqueeze(1), self.kept))
    self.kept_count:set(core.full({}, count + 1.0))
  end
end

-- lr (1 + step / b)^-0.55, b a tenth of all steps (Welling & Teh 2011 with their exponent)
local function decaying(lr, steps)
  return function(step) return lr * (1 + 10 * step / steps) ^ -0.55 end
end

-- ---- the run ----

local function read(self, given)
  local o = options.check("fit", given, known)
  local row = path_objective.row("fit", self, o)
  local b = trajectories.read("fit", self, o.data)
  o.warmup = o.warmup or o.epochs // 2
  if o.window then
    options.whole("fit", "window", o.window, b.first + 1)
    if o.window > b.steps then
      core.error(("fit: window must be at most the %d steps of y, got %d"):format(b.steps, o.window))
    elseif not b.observed:gt(0):all():item() then
      core.error "fit: window is for trajectories without gaps, all of one length"
    end
  end
  o.batch_size = math.min(o.batch_size or b.size, b.size)
  return o, row, b
end

--- fit(model, given): see m:fit.
function path_training.fit(self, given)
  local o, row, b = read(self, given)
  local how = { num_data = b.size, draws = o.draws, delta = o.delta, path_kl = o.path_kl }
  local optimiser, schedule, on_epoch = o.optimiser, o.schedule, o.on_epoch
  self.kept, self.kept_count = nil, nil
  if row.point then
    local kept = keep(self, o)
    local lr, steps = o.lr or 1e-5, o.epochs * math.ceil(b.size / o.batch_size)
    optimiser = optimiser or langevin(self, lr)
    schedule = schedule or decaying(lr, steps)
    on_epoch = function(s)
      kept(s)
      return o.on_epoch and o.on_epoch(s)
    end
  end
  optimiser = optimiser or optim.adam(self:parameters(), { lr = o.lr or 1e-3 })
  return train.fit { data = { b.y, b.observed, b.times }, epochs = o.epochs, batch_size = o.batch_size,
    optimiser = optimiser, schedule = schedule, compile = o.compile, seed = o.seed, on_epoch = on_epoch,
    checkpoint = o.checkpoint, checkpoint_every = o.checkpoint_every, resume = o.resume, progress = o.progress,
    model = o.checkpoint and self or nil,
    loss = function(...)
      local rows = trajectories.rows(b, ...)
      return path_objective.loss(self, o.window and trajectories.windows(rows, o.window) or rows, row, how)
    end }
end

return path_training
