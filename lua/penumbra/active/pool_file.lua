--- Pools in files: what has been asked and told, the acquisition with what it has learned, and what the model keeps;
--- not the data, nor the model's functions, which are given again.
-- help: pn.active, methods pool
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local pool = require "penumbra.active.pool"
local predictor = require "penumbra.active.predictor"
local reinforced = require "penumbra.active.reinforced"
local saved = require "penumbra.saved"

local pool_file = {}

local methods = pool.methods

local KIND <const> = "active pool"
local NOT_TOLD <const> = -2
local OPTIONS <const> = { "count", "first", "max_labels", "candidates", "seed" }

local function keep_of(o) return predictor.inner(o.model).keep end

local function long(list) return core.tensor(list, { dtype = "int64" }) end

-- What tells data from others.
local function print_of(x)
  return ("%s [%s], sum %a"):format(x:dtype(), table.concat(x:shape(), ", "), x:sum():item())
end

-- ---- saving ----

local function asked_of(self)
  local asked = self.asked
  if not asked then return nil end
  local labels = {}
  for k = 1, asked.positions:size(1) do labels[k] = asked.labels[k] or NOT_TOLD end -- of one round
  return { positions = asked.positions, labels = long(labels), steps = asked.steps }
end

--- save(path): writes the pool to a file (safetensors) that appears whole or not at all: labels, what is asked for and
--- what of it has been told, the acquisition, and what the model's `keep` names. pn.restore(path, {x =, model = [,
--- acquisition =]}) makes the pool again, of its data and a model like the one it had, whose `keep` is loaded;
--- acquisition where it was a function. It goes on to the same bits. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local contents = { kind = KIND, data = print_of(self.x), classes = self.classes, round = self.round,
    acquisition = self.acquisition, acquisition_options = self.acquisition_options, options = {}, labels = self.labels,
    order = long(self.order), refused = long(self.refused), reports = self.reports, stale = self.stale,
    asked = asked_of(self), episode = self.episode, keep = self.model.keep,
    policy = self.policy and self.policy:live(), policy_kept = self.policy and self.policy:kept() }
  for _, name in ipairs(OPTIONS) do contents.options[name] = self[name] end
  return checkpoint.save(path, contents)
end

-- ---- reading ----

local numbers = form.list(form.number())

local function report_form(classes, N)
  local class = form.list(form.whole(0, classes - 1))
  return form.record { left = form.whole(0, 0), round = form.whole(0), labelled = form.whole(0, N),
    refused = form.whole(0, N), new = class, unseen = class,
    policy = form.optional(form.record { rewards = numbers, returns = numbers, baseline = form.number(),
      diversity = form.optional(form.number()), loss = form.optional(form.number()),
      kl = form.optional(form.number()) }) }
end

-- Steps of the policy in a request of n, where there can be any.
local function steps_form(found, classes, n)
  if found.acquisition ~= "reinforced" then return form.optional(form.refused "be absent") end
  local o = type(found.acquisition_options) == "table" and found.acquisition_options or {}
  local points = math.tointeger(o.points)
  if not points or points < 1 or points > 1 << 20 then return form.refused "belong to a state of whole points" end
  return reinforced.episode_form({ points = points }, classes, n)
end

local function request_form(found, classes, N, part, more)
  local n = type(part) == "table" and core.is_tensor(part.positions) and part.positions:numel() or 0
  local fields = { positions = form.tensor { dtype = "int64", shape = { n }, least = 0, most = N - 1, nonempty = true },
    labels = form.tensor { dtype = "int64", shape = { n }, least = NOT_TOLD, most = classes - 1 } }
  for name, rule in pairs(more(n)) do fields[name] = rule end
  return form.optional(form.record(fields)), steps_form(found, classes, n)
end

local function pool_form(found, o)
  local N, classes = o.x:size(1), o.model.classes
  local places = form.tensor { dtype = "int64", shape = { -1 }, least = 0, most = N - 1 }
  local policy = found.acquisition == "reinforced" and function(f) return f end or form.optional
  local steps = function(n) return steps_form(found, classes, n) end
  return form.record { kind = form.text(KIND), data = form.text(), classes = form.whole(classes, classes),
    round = form.whole(0, 1 << 40), acquisition = form.text(), acquisition_options = form.map(form.any),
    options = form.record { count = form.whole(1), first = form.whole(0), max_labels = form.whole(1),
      candidates = form.optional(form.whole(1)), seed = form.whole(0, math.maxinteger) },
    labels = form.tensor { dtype = "int64", shape = { N }, least = -1, most = classes - 1 }, order = places,
    refused = places, reports = form.list(report_form(classes, N)), stale = form.boolean,
    asked = request_form(found, classes, N, found.asked, function(n)
      return { steps = found.acquisition == "reinforced" and form.optional(steps(n)) or steps(n) }
    end),
    episode = request_form(found, classes, N, found.episode, function(n)
      return { steps = steps(n), before = form.tensor { shape = { n, classes }, dtype = { "float32", "float64" },
        least = 0, most = 1.001 } }
    end),
    keep = keep_of(o) and form.any or form.optional(form.any), policy = policy(form.any),
    policy_kept = policy(reinforced.kept_form) }
end

-- What the file asks of who loads it.
local function check_asked(path, found, o)
  if found.data ~= print_of(o.x) then
    core.error(("restore: x must be the data of '%s', %s, got %s"):format(path, tostring(found.data), print_of(o.x)))
  elseif (found.acquisition == "function") ~= (o.acquisition ~= nil) then
    core.error(found.acquisition == "function" and "restore: acquisition must be the function that the pool had"
      or ("restore: acquisition must be absent: that of the pool was '%s'"):format(tostring(found.acquisition)))
  elseif found.keep == nil and keep_of(o) ~= nil then
    core.error(("restore: the model must keep nothing, as in '%s'"):format(path))
  end
end

local file = saved.file { noun = "pool that pool:save has written", read = checkpoint.load,
  is = function(found) return found.kind == KIND end, asks = check_asked, form = pool_form }

local function totable(t) return t:numel() > 0 and t:totable() or {} end

-- Positions that name a datum once, all where `mask` is true.
local function check_places(what, places, mask)
  if places:numel() == 0 then return end
  if places:unique():numel() ~= places:numel() or not mask:take(1, places):all():item() then
    core.error(("restore: '%s' must name each datum once, and those that are meant"):format(what))
  end
end

-- The labels of a file into a fresh pool.
local function take_labels(self, found)
  local labelled = found.labels:ge(0)
  check_places("order", found.order, labelled)
  check_places("refused", found.refused, found.labels:lt(0))
  if found.order:numel() ~= labelled:sum():item() then core.error "restore: 'order' must name all that have a label" end
  self.labels, self.order, self.refused = found.labels, totable(found.order), totable(found.refused)
  self.free = found.labels:lt(0)
  if found.refused:numel() > 0 then
    self.free = self.free:logical_and(core.zeros({ self.size }):scatter_add(1, found.refused,
      core.ones { found.refused:numel() }):eq(0))
  end
  local counts = found.labels[labelled]
  for class = 0, self.classes - 1 do
    local n = counts:eq(class):sum():item()
    self.seen[class] = n > 0 and n or nil
  end
end

local function take_request(self, asked)
  if not asked then return end
  check_places("asked.positions", asked.positions, self.free)
  local labels, told, left = {}, totable(asked.labels), 0
  for k, label in ipairs(told) do -- of one round
    if label ~= NOT_TOLD then labels[k] = label else left = left + 1 end
  end
  if left == 0 then core.error "restore: 'asked.labels' must lack some label" end
  self.asked = { positions = asked.positions, labels = labels, steps = asked.steps }
end

local function restored(path, found, o)
  local given = { x = o.x, model = o.model, acquisition = o.acquisition or found.acquisition_options }
  if not o.acquisition then given.acquisition[1] = found.acquisition end
  for _, name in ipairs(OPTIONS) do given[name] = found.options[name] end
  local self = pool.make("restore", given)
  take_labels(self, found)
  take_request(self, found.asked)
  self.round, self.reports, self.stale, self.episode = found.round, found.reports, found.stale, found.episode
  if self.episode then check_places("episode.positions", self.episode.positions, self.free:logical_not()) end
  local into = { keep = keep_of(o), policy = self.policy and self.policy:live() }
  if next(into) then
    local ok, message = checkpoint.load(path, into, { default_generator = false })
    if not ok then core.error(message) end
  end
  if self.policy then self.policy:restore(found.policy_kept) end
  return pool.object(self)
end

saved.restored_by(file, function(path, given)
  local where = "restore"
  local o = options.check(where, given, { x = options.required "tensor", model = options.required(),
    acquisition = options.optional "function" })
  if o.x:ndim() == 0 or not predictor.inner(o.model) then
    core.error "restore: x must be the pool's data, and model one of pn.active.network, .posterior or .predictor"
  end
  local found, message, code = saved.read(where, path, file, o)
  if not found then return nil, message, code end
  return saved.make(where, path, restored, path, found, o)
end)

return pool_file
