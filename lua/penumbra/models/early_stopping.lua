--- The parameters of the best score on the way of a forecaster's training, and when to stop: what m:fit does with
--- validate, validate_every and patience.
-- help: nowhere
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local prepared_batch = require "penumbra.models.prepared_batch"
local recording = require "penumbra.autodiff.recording"

local early_stopping = {}

--- The options that fit takes for it.
early_stopping.options = { validate = options.any(nil), validate_every = options.optional "number",
  patience = options.optional "number" }

--- read(self, o): raises unless the options o fit together; prepares the batch that is to be scored.
function early_stopping.read(self, o)
  if o.validate == nil then
    for _, name in ipairs { "validate_every", "patience" } do
      if o[name] ~= nil then core.error(("fit: %s is only used with validate"):format(name)) end
    end
    return
  end
  o.validate_every = o.validate_every or 100
  if o.patience ~= nil and o.patience ~= math.huge then
    options.whole("fit", "patience", o.patience, 1)
  end
  if type(o.validate) == "table" then
    o.held = prepared_batch.read("fit: validate", self, o.validate)
  else
    options.argument("fit", "validate", o.validate, "function")
  end
end

-- The score of the batch that is held out, minus its loss; draws are the same at each look.
local function score_of_batch(self, o, s, loss)
  return -recording.off(loss, self, o.held, { generator = core.generator(s.seed):split(1 << 40) }):item()
end

--- look(self, o, s, loss): scores the model after s.iteration, keeps what is best so far; true when patience is over.
--- loss(self, b, how) of a prepared batch.
function early_stopping.look(self, o, s, loss)
  local before = core.mode "evaluation"
  local ok, score = pcall(o.held and score_of_batch or o.validate, o.held and self or s, o, s, loss)
  core.mode(before)
  if not ok then
    error(score, 0)
  elseif type(score) ~= "number" then
    core.error(("fit: validate must return a number (larger is better), got %s"):format(type(score)))
  end
  s.score, s.scores = score, s.scores or {}
  s.scores[#s.scores + 1] = { iteration = s.iteration, score = score }
  if score == score and not (s.best and score <= s.best) then
    s.best, s.best_iteration, s.snapshot = score, s.iteration, parameters.state(self)
    s.looks = 0
  else
    s.looks = (s.looks or 0) + 1
  end
  return s.looks >= (o.patience or math.huge)
end

--- finish(self, s): puts the best parameters back.
function early_stopping.finish(self, s)
  if s.snapshot then
    parameters.load_state(self, s.snapshot)
  end
  s.snapshot, s.looks = nil, nil
end

-- ---- files ----

local numbers = form.tensor { dtype = "float64", shape = { -1 } }

--- What a file may have of it.
early_stopping.form = form.optional(form.record { iterations = numbers, scores = numbers, looks = form.whole(0),
  best = form.optional(form.number()), best_iteration = form.optional(form.whole(1)),
  parameters = form.optional(form.map(form.tensor { finite = true })) })

--- state(s): for a file; nil before the first look.
function early_stopping.state(s)
  if not s.scores then
    return nil
  end
  local iterations, scores = {}, {}
  for k, one in ipairs(s.scores) do iterations[k], scores[k] = one.iteration, one.score end
  return { iterations = core.tensor(iterations, { dtype = "float64" }), scores = core.tensor(scores,
    { dtype = "float64" }), looks = s.looks, best = s.best, best_iteration = s.best_iteration, parameters = s.snapshot }
end

--- resume(self, o, s, kept): takes up what state gave; whether patience is over.
function early_stopping.resume(self, o, s, kept)
  if not kept then
    return false
  elseif kept.iterations:numel() ~= kept.scores:numel() then
    core.error "fit: resume: the file must have a score for each look"
  end
  local iterations, scores = kept.iterations:totable(), kept.scores:totable()
  s.scores = {}
  for k, score in ipairs(scores) do s.scores[k] = { iteration = math.tointeger(iterations[k]), score = score } end
  s.score, s.looks, s.best, s.best_iteration = scores[#scores], kept.looks, kept.best, kept.best_iteration
  if kept.parameters then
    form.check("fit: resume", "the best parameters", kept.parameters, form.record(early_stopping.forms_of(self)))
  end
  s.snapshot = kept.parameters
  return s.looks >= (o.patience or math.huge)
end

--- forms_of(self): the form of each parameter of a model, by name.
function early_stopping.forms_of(self)
  local forms = {}
  for name, x in pairs(parameters.state(self)) do forms[name] = form.tensor { like = x } end
  return forms
end

return early_stopping
