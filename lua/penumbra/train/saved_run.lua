--- A training run in a file, written so that the run goes on from there to the same bits: parameters, the optimiser's
--- state and options, generators, and how far it had come. The file is a safetensors file, which pn.load reads.
-- help: nowhere
local core = require "penumbra.core"
local files = require "penumbra.data"
local parameters = require "penumbra.nn.parameters"

local saved_run = {}

local KIND = "training run"

-- Without a model, what the optimiser trains.
local function trained(o)
  return o.model or o.optimiser:parameters()
end

local function each_option(optimiser, visit)
  for _, row in ipairs(core.optimiser_rows()) do
    for _, option in ipairs(row.name == optimiser:type() and row.options or {}) do
      visit(option.name)
    end
  end
end

--- What a run must find again at the position `at`: a table that can be saved.
function saved_run.state(o, s, at)
  local optimiser = {}
  each_option(o.optimiser, function(name)
    optimiser[name] = o.optimiser[name]
  end)
  local history = table.move(s.history, 1, at.epoch - 1, 1, {})
  return {
    kind = KIND, net = parameters.state(trained(o)), optimiser = o.optimiser:state(), options = optimiser,
    generator = at.generator, own_generator = at.own_generator,
    epoch = at.epoch, batch = at.batch, step = at.step, total = at.total, seed = s.seed, rows = s.rows,
    batch_size = s.batch_size, history = history, scores = s.scores, score = s.score, best = s.best,
    best_epoch = s.best_epoch, snapshot = s.snapshot, stopped = s.stopped, seconds = s.seconds,
  }
end

--- Writes it, whole or not at all. Returns true, or nil, message, code.
function saved_run.write(path, state)
  return files.save(path, state)
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

--- Reads the run at `path` into o's model, optimiser and generators and into s; returns where it stands, or nil if
--- there is no such file. A file that is damaged or of another run raises.
function saved_run.read(path, o, s)
  local state, message, code = files.load(path)
  if not state and is_missing(path, message, code) then
    return nil
  elseif not state then
    core.error("fit: resume: " .. tostring(message))
  elseif state.kind ~= KIND then
    core.error(("fit: resume: '%s' holds no training run"):format(path))
  end
  check_same(path, "rows", state.rows, s.rows)
  check_same(path, "batch_size", state.batch_size, s.batch_size)
  if o.seed then
    check_same(path, "seed", state.seed, o.seed)
  end
  if (state.own_generator ~= nil) ~= (o.generator ~= nil) then
    core.error(("fit: the run saved in '%s' had %s generator"):format(path, state.own_generator and "a" or "no"))
  end
  parameters.load_state(trained(o), state.net)
  o.optimiser:load_state(state.optimiser)
  each_option(o.optimiser, function(name)
    o.optimiser[name] = state.options[name]
  end)
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
