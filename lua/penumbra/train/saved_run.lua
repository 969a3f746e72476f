--- A training run in a file, written so that the run goes on from there to the same bits: a checkpoint (pn.checkpoint)
--- of parameters, the optimiser with its options, the generators as they were before the step that comes next, and how
--- far the run had come.
-- help: nowhere
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local files = require "penumbra.data"
local form = require "penumbra.form"
local parameters = require "penumbra.parameters"

local saved_run = {}

local KIND = "training run"

-- What is trained, as one thing with a state: the model, or without one what the optimiser trains.
local trained = { __index = {
  state = function(self) return parameters.state(self.held) end,
  load_state = function(self, state) parameters.load_state(self.held, state) end,
} }

-- What is live in a run: checkpoints keep it by its state.
local function live(o)
  return { net = setmetatable({ held = o.model or o.optimiser:parameters() }, trained), optimiser = o.optimiser }
end

--- What a run must find again at the position `at`: the contents of a checkpoint.
function saved_run.state(o, s, at)
  local state = live(o)
  for _, name in ipairs { "seed", "rows", "batch_size", "scores", "score", "best", "best_epoch", "snapshot", "stopped",
    "seconds" } do
    state[name] = s[name]
  end
  state.shards = o.shards
  for _, name in ipairs { "generator", "own_generator", "epoch", "batch", "step", "total" } do
    state[name] = at[name]
  end
  state.kind, state.history = KIND, table.move(s.history, 1, at.epoch - 1, 1, {})
  return state
end

--- Writes it, whole or not at all. Returns true, or nil, message, code.
function saved_run.write(path, state)
  return checkpoint.save(path, state)
end

-- Nothing there to be opened, as against something that cannot be read?
local function is_missing(path, message, code)
  local file = io and io.open(path, "rb")
  if file then
    file:close()
  end
  return code == "io" and not file and message:find("No such file", 1, true) ~= nil
end

local function check_same(path, name, saved, given)
  if saved ~= given then
    core.error(("fit: the run saved in '%s' had %s %s, got %s"):format(path, name, tostring(saved), tostring(given)))
  end
end

-- The contents of the file, or nil if there is none; what else is wrong with it raises.
local function contents(path)
  local state, message, code = checkpoint.load(path)
  if not state and is_missing(path, message, code) then
    return nil
  elseif not state then
    local other = code == "format" and files.load(path)
    core.error(not other and "fit: resume: " .. tostring(message)
      or ("fit: resume: '%s' %s"):format(path, other.kind == KIND and "was written by an earlier version"
      or "holds no training run"))
  elseif state.kind ~= KIND then
    core.error(("fit: resume: '%s' holds no training run"):format(path))
  end
  return state
end

-- Scores are what validate gives: any numbers, by epoch.
local function is_score(v, name, wrong)
  if type(v) ~= "number" then
    wrong[#wrong + 1] = name .. " must be a number"
  end
end

local function scores_form(v, name, wrong)
  for epoch, score in next, type(v) == "table" and v or { false } do
    if math.type(epoch) ~= "integer" or type(score) ~= "number" then
      wrong[#wrong + 1] = name .. " must be numbers by epoch"
      return
    end
  end
end

-- What a run's contents must be, but for what checkpoint.load looks at.
local function run_form(state, o)
  local snapshot = {}
  for name, t in pairs(parameters.state(o.model or o.optimiser:parameters())) do
    snapshot[name] = form.tensor { like = t }
  end
  local judged = state.best ~= nil and function(f) return f end or form.optional
  local epoch = math.type(state.epoch) == "integer" and state.epoch or 1
  return form.record { kind = form.any, net = form.any, optimiser = form.any, seed = form.integer, rows = form.whole(1),
    batch_size = form.whole(1), shards = form.optional(form.whole(1)), scores = scores_form,
    score = form.optional(is_score), best = form.optional(is_score),
    best_epoch = judged(form.whole(1, epoch)), snapshot = form.optional(form.record(snapshot)),
    stopped = form.boolean, seconds = form.number { least = 0 }, generator = form.generator,
    own_generator = o.generator and form.generator or form.optional(form.any), epoch = form.whole(1),
    batch = form.whole(1), step = form.whole(0), total = form.number(), history = form.list(form.number(), epoch - 1) }
end

--- Reads the run at `path` into o's model, optimiser and generators and into s; returns where it stands, or nil if
--- there is no such file. A file that is damaged or of another run raises.
function saved_run.read(path, o, s)
  local state = contents(path)
  if not state then
    return nil
  end
  check_same(path, "rows", state.rows, s.rows)
  check_same(path, "batch_size", state.batch_size, s.batch_size)
  check_same(path, "shards", state.shards, o.shards)
  if o.seed then
    check_same(path, "seed", state.seed, o.seed)
  end
  if (state.own_generator ~= nil) ~= (o.generator ~= nil) then
    core.error(("fit: the run saved in '%s' had %s generator"):format(path, state.own_generator and "a" or "no"))
  end
  form.check(("fit: resume: '%s' does not fit"):format(path), "it", state, run_form(state, o))
  local ok, message = checkpoint.load(path, live(o), { default_generator = false })
  if not ok then
    core.error("fit: resume: " .. tostring(message))
  end
  core.set_rng_state(state.generator)
  if o.generator then
    o.generator:set_state(state.own_generator)
  end
  for _, name in ipairs { "seed", "step", "score", "best", "best_epoch", "snapshot", "stopped", "seconds" } do
    s[name] = state[name]
  end
  s.history, s.scores = state.history, state.scores
  return { epoch = state.epoch, batch = state.batch, step = state.step, total = state.total,
    generator = state.generator, own_generator = state.own_generator }
end

--- A position: epoch and batch, which are the next ones, the steps and the sum of losses so far, and the generators
--- as they are now.
function saved_run.position(o, epoch, batch, step, total)
  return { epoch = epoch, batch = batch, step = step, total = total, generator = core.rng_state(),
    own_generator = o.generator and o.generator:state() or nil }
end

return saved_run
