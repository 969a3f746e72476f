--- The training loop that most scripts want, and what stands around it. Nothing here is needed: a loop of
--- `opt:step(loss)` does the same.
-- help: pn.train, part
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"
local recording = require "penumbra.autodiff.recording"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local progress = require "penumbra.progress"
local replay = require "penumbra.autodiff.replay"
local saved_run = require "penumbra.train.saved_run"
local sharded_step = require "penumbra.train.sharded_step"

local train = {}

local SHARDS = 8 -- of a batch, unless the user says so

-- ---- options ----

-- An array in a file, as pn.data.open gives.
local function is_file(v)
  return type(v) == "userdata" and getmetatable(v) == "penumbra.array_file"
end

-- The data as a list, and their number of rows.
local function check_data(data)
  local n
  data = type(data) == "table" and data or { data }
  for k, t in ipairs(data) do
    if not (core.is_tensor(t) or is_file(t)) or t:ndim() == 0 then
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
  seed = options.optional "number",
  schedule = options.optional "function",
  split = options.optional "number",
  validate = options.optional "function",
  validate_every = options.optional "number",
  patience = options.optional "number",
  model = options.optional(),
  checkpoint = options.optional "string",
  checkpoint_every = options.optional "number",
  resume = options.optional "boolean",
  on_epoch = options.optional "function",
  progress = options.any(false),
  compile = options.optional "boolean",
  generator = options.optional "generator",
  distributed = options.optional "boolean",
  shards = options.optional "number",
  reduce = options.optional "string",
}

-- Options that serve others: name -> the others, one of which must be there.
local serving = {
  validate_every = { "validate", "split" }, patience = { "validate", "split" },
  model = { "validate", "split", "checkpoint", "distributed" }, checkpoint_every = { "checkpoint" },
  resume = { "checkpoint" },
  shards = { "distributed" }, reduce = { "distributed" },
}

local function check_serving(o)
  for _, name in ipairs { "validate_every", "patience", "model", "checkpoint_every", "resume", "shards", "reduce" } do
    local found = o[name] == nil or o[name] == false
    for _, other in ipairs(serving[name]) do
      found = found or o[other] ~= nil and o[other] ~= false
    end
    if not found then
      core.error(("fit: %s is only used with %s"):format(name, table.concat(serving[name], " or ")))
    end
  end
end

-- Of a run by several ranks. (What is not asked for is nil: other runs know nothing of ranks.)
local function check_distributed(o)
  o.distributed = o.distributed or nil
  if not o.distributed then
    return
  end
  o.reduce = options.check("fit", { reduce = o.reduce }, { reduce = options.choice("tree", "fast") }).reduce
  if o.shards and o.reduce == "fast" then
    core.error 'fit: shards is only used with reduce = "tree"; "fast" makes one of each rank'
  end
  o.shards = o.reduce == "tree" and (o.shards or SHARDS) or nil
  options.object("fit", "optimiser", o.optimiser, "an optimiser with apply, as pn.optim.adam (distributed)", "apply",
    "parameters")
end

-- What the table of options cannot say of single values.
local function check_options(o)
  if o.patience ~= nil and o.patience ~= math.huge then
    options.whole("fit", "patience", o.patience, 1)
  end
  if o.split ~= nil and not (o.split > 0 and o.split < 1) then
    core.error(("fit: split must lie between 0 and 1, got %s"):format(tostring(o.split)))
  end
  check_serving(o)
  check_distributed(o)
  options.object("fit", "optimiser", o.optimiser, "an optimiser, as pn.optim.adam(net, {lr = 1e-3})", "step")
  if o.progress and o.progress ~= true then
    options.object("fit", "progress", o.progress, "true, false or a file", "write")
  end
  local kind = type(o.model)
  if o.model ~= nil and (kind ~= "table" and kind ~= "userdata" or #parameters.named(o.model) == 0) then
    core.error(("fit: model must hold parameters, got %s"):format(kind))
  end
end

-- ---- rows ----

-- The rows at `index` of every part.
local function rows_at(data, index)
  local out = {}
  for k, t in ipairs(data) do
    out[k] = t:take(1, index)
  end
  return out
end

-- Which rows are trained on, and the tensors of those that are not: by the seed alone.
local function hold_out(o, data, n, s)
  if not o.split then
    return nil, nil, n
  end
  local held = math.floor(o.split * n + 0.5)
  if held < 1 or held >= n then
    core.error(("fit: split must leave rows on both sides, got %g of %d rows"):format(o.split, n))
  end
  local order = core.randperm(n, { generator = core.generator(s.seed):split(0) })
  return order:slice(1, held + 1, n), rows_at(data, order:slice(1, 1, held)), n - held
end

-- The order of the rows in an epoch, from the seed and the epoch alone; nil where it does not matter.
local function order_of(s, epoch)
  if s.batch_size >= s.trained then
    return s.kept
  end
  local order = core.randperm(s.trained, { generator = core.generator(s.seed):split(epoch) })
  return s.kept and s.kept:take(1, order) or order
end

-- The first and the last row of the minibatch k, from 1, of an epoch.
local function bounds_of(s, k) return (k - 1) * s.batch_size + 1, math.min(k * s.batch_size, s.trained) end

-- The rows from `first` to `last` of an epoch.
local function batch_of(data, order, first, last)
  if order then
    return table.unpack(rows_at(data, order:slice(1, first, last)))
  end
  local out = {}
  for i, t in ipairs(data) do
    out[i] = core.is_tensor(t) and last - first + 1 == t:size(1) and t or t:slice(1, first, last)
  end
  return table.unpack(out)
end

-- A step on the minibatch k; returns its loss as a number.
local function step_on(o, data, s, order, k)
  local first, last = bounds_of(s, k)
  if not o.sharded then
    return o.update(batch_of(data, order, first, last))
  end
  return o.sharded:update(s.step + 1, function(from, to)
    return batch_of(data, order, first + from - 1, first + to - 1)
  end, last - first + 1)
end

-- ---- the loop ----

local function rate_of(o, step)
  local rate = o.schedule(step)
  if type(rate) ~= "number" then
    core.error(("fit: schedule must return a number, the learning rate, got %s"):format(type(rate)))
  end
  return rate
end

-- The rest of an epoch, from the minibatch `at.batch` on; returns the mean loss of its minibatches. Every step is
-- whole: an error leaves parameters that can be used, and s.at says how far they had come.
local function one_epoch(o, data, s, bar)
  local at, order = s.at, order_of(s, s.at.epoch)
  local total, last = at.total, s.batches
  for k = at.batch, last do
    if o.schedule then
      o.optimiser.lr = rate_of(o, s.step + 1)
    end
    local loss = step_on(o, data, s, order, k)
    s.step, total = s.step + 1, total + loss
    s.at = saved_run.position(o, at.epoch, k + 1, s.step, total)
    if bar then
      bar:step(1, "epoch", s.epoch, "loss", loss, s.best and "best" or nil, s.best)
    end
  end
  return total / last
end

-- What all ranks decide by.
local function of_rank_0(o, v)
  if o.sharded then
    return mpi.broadcast_value(v)
  end
  return v
end

-- Does this process write the file of the run?
local function writes(o) return not o.sharded or mpi.rank() == 0 end

-- The score of the rows held out, unless the user has another.
local function score_of(o, s)
  if o.validate then
    return o.validate(s.epoch, table.unpack(s.held or {}))
  end
  local loss = recording.off(o.loss, table.unpack(s.held))
  return -loss:item()
end

-- Keeps the best score and the parameters that gave it; true when patience is over.
local function judge(o, s)
  local before = core.mode "evaluation"
  local ok, score = pcall(score_of, o, s)
  core.mode(before)
  if not ok then
    error(score, 0)
  end
  s.score = score
  if type(s.score) ~= "number" then
    core.error(("fit: validate must return a number (larger is better), got %s"):format(type(s.score)))
  end
  s.score = of_rank_0(o, s.score)
  s.scores[s.epoch] = s.score
  if not s.best or s.score > s.best then
    s.best, s.best_epoch = s.score, s.epoch
    s.snapshot = (o.model or o.patience) and parameters.state(o.model or o.optimiser:parameters()) or nil
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

-- What is done between two epochs; true if it was the last. What it calls may print: the line of progress is away.
local function between(o, s, bar)
  local enough
  if bar then
    bar:hide()
  end
  if (o.validate or o.split) and s.epoch % (o.validate_every or 1) == 0 then
    enough = judge(o, s)
  end
  if o.on_epoch and o.on_epoch(s) == false then
    enough = true
  end
  return of_rank_0(o, enough or false)
end

local function save(o, s)
  if not writes(o) then
    return
  end
  local ok, message = saved_run.write(o.checkpoint, saved_run.state(o, s, s.at))
  if not ok then
    core.error("fit: checkpoint: " .. message)
  end
end

local function run(o, data, s, bar)
  local start = core.clock() - s.seconds
  o.update = not o.sharded and update_of(o) or nil
  while s.at.epoch <= o.epochs and not s.stopped do
    s.epoch = s.at.epoch
    s.loss = one_epoch(o, data, s, bar)
    s.history[s.epoch] = s.loss
    s.seconds = core.clock() - start
    s.stopped = between(o, s, bar)
    s.at = saved_run.position(o, s.epoch + 1, 1, s.step, 0)
    if o.checkpoint and (s.stopped or s.epoch == o.epochs or s.epoch % (o.checkpoint_every or 1) == 0) then
      save(o, s)
    end
  end
end

-- How many steps the optimiser has made; nil of one that is not the library's.
local function steps_of(optimiser)
  if getmetatable(optimiser) ~= "penumbra.optimiser" then
    return nil
  end
  local key, value = optimiser:state_at(1)
  return key == "step" and value:max():item() or nil
end

-- After an error: the file gets what the last whole step has left, if the run stands exactly there. (Between a step
-- and its account an interruption may come; then the file of the last epoch stays.) Where a host has cancelled the
-- work, nothing can be written and that file stays, too.
local function save_rest(o, s)
  local ok, steps = pcall(steps_of, o.optimiser)
  if ok and writes(o) and steps == s.first_steps + s.at.step then
    pcall(saved_run.write, o.checkpoint, saved_run.state(o, s, s.at))
  end
end

-- pcall, twice: an interruption is raised by the operation that it ends, and once more some instructions later, which
-- are waited for here.
local function attempt(f, ...)
  local function once(...)
    local ok, message = pcall(f, ...)
    for _ = 1, ok and 0 or 1000 do end
    return ok or error(message, 0)
  end
  return (core.sheltered or pcall)(once, ...)
end

local run_kind = { __name = "run" }

function run_kind:__tostring()
  local best = self.best_epoch and ("; score %.5g, best %.5g at epoch %d"):format(self.score, self.best,
    self.best_epoch) or ""
  return ("a run of %d epochs, %d steps in %.1f s: loss %.5g%s%s (pn.plot.history draws it)"):format(self.epoch,
    self.step, self.seconds, self.loss, best, self.stopped and ", stopped" or "")
end

local function new_run(o, n)
  local s = { epoch = 0, epochs = o.epochs, step = 0, loss = 0 / 0, seconds = 0, history = {}, scores = {},
    stopped = false, rows = n }
  s.batch_size = o.batch_size or n
  local at = o.resume and saved_run.read(o.checkpoint, o, s)
  s.seed = s.seed or o.seed or core.randint(0, 1 << 53, {}, { generator = o.generator }):item()
  s.at = at or saved_run.position(o, 1, 1, 0, 0)
  s.epoch, s.step = s.at.epoch - 1, s.at.step
  s.loss = s.history[s.epoch] or s.loss
  s.first_steps = (steps_of(o.optimiser) or 0) - s.step
  if o.distributed then
    local buffers = {}
    for k, entry in ipairs(o.model and parameters.named_buffers(o.model) or {}) do buffers[k] = entry[2] end
    sharded_step.share(o, s, buffers)
    o.sharded = sharded_step.new(o, s.seed)
  end
  return setmetatable(s, run_kind)
end

--- Trains by minibatches; returns a table with `history` (mean loss per epoch), `loss` (the last),
--- `epoch`, `step`, `seconds`, `seed` and, with validation, `score`, `scores` (by epoch), `best`, `best_epoch`.
--- pn.plot.history draws it.
---
---     train.fit{data = {x, y}, optimiser = opt, epochs = 40, batch_size = 32, split = 0.1, patience = 5,
---       loss = function(x, y) return (net(x) - y):square():mean() end}
---
--- data        a tensor or a list of tensors, or of arrays in files (pn.data.open), data along the first axis, at
---             least one row
--- loss        function of the minibatch's tensors; returns a 0-d tensor
--- epochs      how many times to go through the data, from 1; with those of a run that is resumed
--- batch_size  rows of a minibatch, from 1; nil (the default) is all data at once, in their order
--- seed        of the order of the data, which depends on it and on the epoch alone, and of split; drawn if not given
--- generator   from which the seed is drawn (pn.seed's); give it too if `loss` draws from it
--- schedule    function of the step (from 1): the learning rate (optim.cosine and others)
--- split       share of the rows, chosen at random, that are kept from training, to validate
--- validate    function of the epoch, and of the tensors of the rows that split keeps: a score, larger is better; run
---             every `validate_every` epochs (1), in evaluation mode: net(x) in it is net:evaluate(x). Without it
---             split's score is the loss of its rows, negative
--- patience    epochs without a better score after which to stop (never)
--- model       network, flow, distribution or list whose parameters of the best score are put back at the end;
---             with patience, absent, those of the optimiser
--- checkpoint  name of a file to which the run is written every `checkpoint_every` epochs (1), and when an error or
---             Ctrl-C ends it: whole or not at all
--- resume      true: goes on from that file, mid-epoch too, to the same bits as without the break: parameters (of
---             model, or the optimiser's), the optimiser, its options, and generators. Without such a file it begins;
---             a run that had stopped stays so
--- on_epoch    function of the table that will be returned; false stops. What it or validate prints stands above the
---             line of progress
--- progress    true for a line on standard error, or a file
--- compile     true: steps are captured and replayed (pn.compile), the same numbers in less time, if `loss` reads no
---             values and does nothing else than compute; not the default, since what it takes from math.random,
---             clocks or files would be taken once
--- distributed true: by all ranks of pn.mpi, which run the same script on the same data and end with the same
---             parameters, those of rank 0 at the beginning. Each computes the rows of its shards only (of arrays in
---             files it reads no others); rank 0 writes the file, draws the line of progress, and its score and
---             on_epoch decide. `loss` must be a mean over rows. batch_size is of all ranks together
--- shards      into how many a minibatch is cut (8), at least the number of ranks: the same bits for any number of
---             ranks, of resumed runs too, and in one process. What the loss draws depends on seed, step and shard;
---             normalisation is by the rows of a shard, and a buffer becomes the mean of what the shards make of it
--- reduce      "tree" (the default) adds shards in an order of their own; "fast" by MPI, one shard of each rank: less
---             to send, bits by the number of ranks
---
--- A loss or gradient that is not finite is an error that names the first operation that made it; that step changes
--- nothing. An error or an interruption inside passes on as it is; every step is whole, so parameters and
--- optimiser can be used, or training continued, afterwards.
function train.fit(given)
  local o = options.check("fit", given, fit_options)
  local data, n = check_data(o.data)
  check_options(o)
  local s = new_run(o, n)
  s.kept, s.held, s.trained = hold_out(o, data, n, s)
  s.batches = math.ceil(s.trained / s.batch_size)
  o.progress = writes(o) and o.progress
  local bar_out = o.progress == true and io and io.stderr or o.progress ~= true and o.progress
  local bar <close> = bar_out and io and progress.new { total = o.epochs * s.batches, done = s.step, label = "training",
    out = bar_out } or nil
  local ok, message = attempt(run, o, data, s, bar)
  if not ok and o.checkpoint then
    (core.sheltered or pcall)(save_rest, o, s)
  end
  if not ok then
    error(message, 0)
  end
  if s.snapshot then
    parameters.load_state(o.model or o.optimiser:parameters(), s.snapshot)
  end
  for _, name in ipairs { "snapshot", "at", "kept", "held", "first_steps", "batches", "trained" } do
    s[name] = nil
  end
  return s
end

return train
