--- The training loop that most scripts want, and what stands around it. Nothing here is needed: a loop of
--- `opt:step(loss)` does the same.
-- help: pn.train, part
local core = require "penumbra.core"
local files = require "penumbra.data"
local options = require "penumbra.options"
local parameters = require "penumbra.nn.parameters"
local progress = require "penumbra.train.progress"
local replay = require "penumbra.autodiff.replay"

local train = {}

-- ---- fit ----

-- The number of rows, which all tensors of the list have.
local function check_data(data)
  local n
  data = core.is_tensor(data) and { data } or data
  for k, t in ipairs(type(data) == "table" and data or {}) do
    if not core.is_tensor(t) or t:ndim() == 0 then
      core.error(("fit: data[%d] must be a tensor with data along its first axis"):format(k))
    end
    n = n or t:size(1)
    if t:size(1) ~= n then
      core.error(("fit: data[%d] must have %d rows like data[1], got %d"):format(k, n, t:size(1)))
    end
  end
  if not n then
    core.error "fit: data must be a tensor or a list of tensors"
  elseif n == 0 then
    core.error "fit: data must have at least 1 row, got 0"
  end
  return data, n
end

local fit_options = {
  data = options.required(),
  loss = options.required "function",
  optimiser = options.required(),
  epochs = options.required "number",
  batch_size = options.optional "number",
  schedule = options.optional "function",
  validate = options.optional "function",
  validate_every = options.optional "number",
  patience = options.optional "number",
  model = options.optional(),
  on_epoch = options.optional "function",
  progress = options.any(false),
  compile = options.optional "boolean",
  generator = options.optional "generator",
}

local function check_count(name, v)
  if v ~= nil and not (math.tointeger(v) and v >= 1) then
    core.error(("fit: %s must be a whole number from 1, got %s"):format(name, tostring(v)))
  end
end

-- What the table of options cannot say of single values.
local function check_options(o)
  check_count("epochs", o.epochs)
  check_count("batch_size", o.batch_size)
  check_count("validate_every", o.validate_every)
  if o.patience ~= nil and o.patience ~= math.huge then
    check_count("patience", o.patience)
  end
  for _, name in ipairs { "validate_every", "patience", "model" } do
    if o[name] ~= nil and not o.validate then
      core.error(("fit: %s is only used with validate"):format(name))
    end
  end
  options.object("fit", "optimiser", o.optimiser, "an optimiser, as pn.optim.adam(net, {lr = 1e-3})", "step")
  if o.progress and o.progress ~= true then
    options.object("fit", "progress", o.progress, "true, false or a file", "write")
  end
  local kind = type(o.model)
  if o.model ~= nil and (kind ~= "table" and kind ~= "userdata" or #parameters.named(o.model) == 0) then
    core.error(("fit: model must hold parameters, got %s"):format(kind))
  end
end

local function rate_of(o, step)
  local rate = o.schedule(step)
  if type(rate) ~= "number" then
    core.error(("fit: schedule must return a number, the learning rate, got %s"):format(type(rate)))
  end
  return rate
end

-- One pass over the data; returns the mean loss of its minibatches.
local function one_epoch(o, data, size, s, bar)
  local total, count = 0, 0
  local function step(first, ...)
    if first == nil then
      return false
    end
    if o.schedule then
      o.optimiser.lr = rate_of(o, s.step + 1)
    end
    local loss = o.update(first, ...)
    s.step, total, count = s.step + 1, total + loss, count + 1
    if bar then
      bar:step(1, "epoch", s.epoch, "loss", loss, s.best and "best" or nil, s.best)
    end
    return true
  end
  local batches = files.batches(data, { size = size, generator = o.generator })
  while step(batches()) do -- every step is whole: an error leaves parameters that can be used
  end
  return total / count
end

-- Keeps the best score and the parameters that gave it; true when patience is over.
local function judge(o, s)
  local before = core.mode "evaluation"
  local ok, score = pcall(o.validate, s.epoch)
  core.mode(before)
  if not ok then
    error(score, 0)
  end
  s.score = score
  if type(s.score) ~= "number" then
    core.error(("fit: validate must return a number (larger is better), got %s"):format(type(s.score)))
  end
  if not s.best or s.score > s.best then
    s.best, s.best_epoch = s.score, s.epoch
    s.snapshot = o.model and parameters.state(o.model)
  end
  return s.epoch - s.best_epoch >= (o.patience or math.huge)
end

-- A whole step: a function of the minibatch's tensors that gives the loss as a number.
local function update_of(o)
  if o.compile then
    return replay.compile(o.loss, { optimiser = o.optimiser })
  end
  return function(...)
    return o.optimiser:step((o.loss(...)))
  end
end

local function run(o, data, size, s, bar)
  local start = core.clock()
  o.update = update_of(o)
  for epoch = 1, o.epochs do
    s.epoch = epoch
    s.loss = one_epoch(o, data, size, s, bar)
    s.history[epoch] = s.loss
    s.seconds = core.clock() - start
    local enough = o.validate and epoch % (o.validate_every or 1) == 0 and judge(o, s)
    if o.on_epoch and o.on_epoch(s) == false then
      enough = true
    end
    if enough then
      s.stopped = true
      break
    end
  end
end

--- Trains by minibatches; returns a table with `history` (mean loss per epoch), `loss` (the last),
--- `epoch`, `step`, `seconds` and, with validation, `score`, `best`, `best_epoch`.
---
---     train.fit{data = {x, y}, optimiser = opt, epochs = 40,
---       loss = function(x, y) return (net(x) - y):square():mean() end}
---
--- data        a tensor or a list of tensors, data along the first axis, at least one row
--- loss        function of the minibatch's tensors; returns a 0-d tensor
--- epochs      how many times to go through the data, from 1
--- batch_size  rows of a minibatch, from 1; nil (the default) is all data at once
--- schedule    function of the step (from 1): the learning rate (optim.cosine and others)
--- validate    function of the epoch: a score, larger is better; run every `validate_every` epochs (1), in
---             evaluation mode: net(x) in it is net:evaluate(x)
--- patience    epochs without a better score after which to stop (never)
--- model       network, flow, distribution or list whose parameters of the best score are put back at the end
--- on_epoch    function of the table that will be returned; false stops
--- progress    true for a line on standard error, or a file
--- generator   of the order of the data
--- compile     true: steps are captured and replayed (pn.compile), the same numbers in less time, if `loss` reads no
---             values and does nothing else than compute; not the default, since what it takes from math.random,
---             clocks or files would be taken once
---
--- An error or an interruption inside passes on as it is; every step is whole, so parameters and
--- optimiser can be used, or training continued, afterwards.
function train.fit(given)
  local o = options.check("fit", given, fit_options)
  local data, n = check_data(o.data)
  check_options(o)
  local size = o.batch_size or n
  local s = { epoch = 0, epochs = o.epochs, step = 0, loss = 0 / 0, seconds = 0, history = {}, stopped = false }
  local steps = o.epochs * math.ceil(n / size)
  local bar_out = o.progress == true and io and io.stderr or o.progress ~= true and o.progress
  local bar = bar_out and io and progress.new { total = steps, label = "training", out = bar_out } or nil
  local ok, message = pcall(run, o, data, size, s, bar)
  if bar then
    bar:finish()
  end
  if not ok then
    error(message, 0)
  end
  if s.snapshot then
    parameters.load_state(o.model, s.snapshot)
  end
  s.snapshot = nil
  return s
end

--- The scaler of x's columns: s(x) gives mean 0 and standard deviation 1, s:invert(z) goes back; a constant
--- column keeps scale 1. Take it from the training rows only. (pn.data.standardise also returns s(x).)
function train.standardise(x)
  local _, scaler = files.standardise(x)
  return scaler
end

return train
