--- A pool of data without labels, asked for in rounds: `ask` gives positions, whoever knows labels them, `tell` takes
--- the labels, trains the model and goes on. Between the two any time may pass: a pool is saved, and goes on from its
--- file to the same bits.
---
---     local pool = pn.active.pool{x = x, model = model, acquisition = "bald", first = 50, count = 5, max_labels = 400}
---     local positions = pool:ask()                 -- int64 [n], from 0 on; the same until their labels are told
---     local report = pool:tell(labels)             -- int64 [n] or a list; -1: refused
---     pool:save "pool.safetensors"                 -- pn.restore(path, {x = x, model = model})
---     pool:run(oracle)                             -- ask and tell until the budget is spent
---
--- Options:
---   x             [N, ...]: the data, with or without labels
---   model         of pn.active.network, .posterior or .predictor
---   acquisition   a name, "entropy"; a table of a name and its options, {"entropy", kind = "raw"}; or a function
---                 (model, x, n, generator) that gives scores [N'] of the candidates x [N', ...], of which the largest
---                 are asked for. pn.active.acquisitions() lists the names with their options
---   first         how many are asked for before the model knows any label: uniform at random, the same for every
---                 acquisition (10; 0 where there are labels already)
---   count         how many are asked for in each later round (5)
---   max_labels    the budget: how many labels in all (N)
---   y             int64 [N]: labels known already, -1 for others
---   candidates    how many of the pool are ranked (all): one random choice of the seed for all rounds
---   seed          of everything that is drawn (0)
---
--- pool.round, pool.seen (a table class -> how many), pool.labels [N] (-1: none), pool.refused (a list of positions),
--- pool.reports (a list). pool:labelled() gives positions, x and y of all labels in the order in which they came.
-- help: pn.active, methods pool
local acquisition = require "penumbra.active.acquisition"
local core = require "penumbra.core"
local options = require "penumbra.options"
local predictor = require "penumbra.active.predictor"
local recording = require "penumbra.autodiff.recording"
local reinforced = require "penumbra.active.reinforced"
local score = require "penumbra.active.score"
local sealed = require "penumbra.active.sealed"

local pool = {}

local methods = {}
local kind = { __index = methods, __name = "pool" }

function kind.__tostring(self)
  return ("pool{%d data, round %d, %d labels of %d, %d refused}"):format(self.size, self.round, #self.order,
    self.max_labels, #self.refused)
end

local copied = { seen = true, refused = true, reports = true }
local shown = { round = true, labels = true, size = true, max_labels = true, classes = true }

local function copy_of(t, deep)
  local out = {}
  for key, v in pairs(t) do out[key] = deep and type(v) == "table" and copy_of(v, true) or v end
  return out
end

local seal = sealed.kind("pool", methods, function(self, key)
  return copied[key] and copy_of(self[key], true) or shown[key] and self[key] or nil
end)

local NONE <const> = -1 -- no label, and one that is refused

-- ---- options ----

local known = { x = options.required "tensor", model = options.required(), acquisition = options.any("entropy"),
  first = options.optional "number", count = 5, max_labels = options.optional "number", y = options.optional(),
  candidates = options.optional "number", seed = 0 }

local function names()
  local list = { "reinforced" }
  for name in pairs(acquisition.rows) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- name, options of what was given, the latter complete.
local function read_acquisition(where, given)
  if type(given) == "function" then return "function", {} end
  local own, name = {}, given
  if type(given) == "table" then
    name = given[1]
    for key, value in pairs(given) do
      if key ~= 1 then own[key] = value end
    end
  end
  options.check(where, { acquisition = name }, { acquisition = options.one_of("entropy", names()) })
  if name == "reinforced" then return name, reinforced.check(where, own) end
  local row = acquisition.rows[name]
  local o = options.check(where, own, row.options)
  if row.check then row.check(o) end
  return name, o
end

--- acquisitions(): a list of {name =, doc =, options = {names}} of those that are known by name.
function pool.acquisitions()
  local list = {}
  for k, name in ipairs(names()) do
    local row, own = acquisition.rows[name], {}
    for option in pairs(row and row.options or reinforced.options) do own[#own + 1] = option end
    table.sort(own)
    list[k] = { name = name, doc = row and row.doc or reinforced.doc, options = own }
  end
  return list
end

-- ---- labels ----

-- Labels as a list of whole numbers below `classes`, -1 for none.
local function read_labels(where, role, given, n, classes)
  local list = core.is_tensor(given) and (given:numel() == 0 and {} or given:reshape { -1 }:totable()) or given
  if type(list) ~= "table" or #list ~= n then
    core.error(("%s: %s must be %d whole numbers, an int64 tensor or a list, got %s"):format(where, role, n,
      type(list) == "table" and #list or type(given)))
  end
  local out = {}
  for k = 1, n do -- of what one round asks for
    local label = type(list[k]) == "number" and math.tointeger(list[k])
    if not label or label < NONE or label >= classes then
      core.error(("%s: %s[%d] must be a class from 0 to %d, or -1 where it is refused, got %s"):format(where, role, k,
        classes - 1, type(list[k]) == "number" and ("%.14g"):format(list[k]) or tostring(list[k])))
    end
    out[k] = label
  end
  return out
end

local function long(list) return core.tensor(list, { dtype = "int64" }) end

-- ---- randomness: of the seed, the round and the purpose alone ----

local PURPOSES <const> = { start = 0, candidates = 1, ask = 2, fit = 3, policy = 4, old = 5, new = 6 }

local function generator_of(self, purpose)
  return core.generator(self.seed):split(self.round * 8 + PURPOSES[purpose])
end

local function seed_of(self, purpose)
  return core.randint(0, 1 << 31, { 1 }, { generator = generator_of(self, purpose) }):item()
end

-- f(...) with the default generator seeded for it; the script's own goes on afterwards as if nothing had been drawn.
local function seeded(seed, f, ...)
  local before = core.rng_state()
  core.seed(seed)
  local results = table.pack(pcall(f, ...))
  core.set_rng_state(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- ---- the pool ----

-- Which data are ranked, bool [N]; those asked for at random first are among them.
local function choose_candidates(self, count)
  if not count or count >= self.size then return core.ones({ self.size }, { dtype = "bool" }) end
  local order = core.randperm(self.size, { generator = generator_of(self, "candidates") })
  return order:lt(-1):logical_or(core.zeros({ self.size }):scatter_add(1, order:slice(1, 1, count),
    core.ones { count }):gt(0))
end

local function count_seen(self, label)
  self.seen[label] = (self.seen[label] or 0) + 1
end

-- Labels that are known at the start, in the order of their positions.
local function take_known(self, labels)
  self.labels = labels
  local at = labels:ge(0):nonzero():squeeze(2)
  for k, position in ipairs(at:numel() > 0 and at:totable() or {}) do
    self.order[k] = position
    count_seen(self, labels[position + 1]:item())
  end
  self.stale = #self.order > 0
end

--- internal: a pool of options that have been looked at; pool_file makes them out of files too.
function pool.make(where, o)
  local name, own = read_acquisition(where, o.acquisition)
  local model = predictor.inner(o.model)
  local self = setmetatable({ x = o.x, model = model, public_model = o.model, size = o.x:size(1),
    classes = model.classes, count = o.count, first = o.first, max_labels = o.max_labels, seed = o.seed, round = 0,
    order = {}, seen = {}, refused = {}, reports = {}, stale = false, acquisition = name, acquisition_options = own,
    score = name == "function" and o.acquisition or nil, candidates = o.candidates }, kind)
  self.ranked = choose_candidates(self, o.candidates)
  self.free = core.ones({ self.size }, { dtype = "bool" })
  if name == "reinforced" then
    self.policy = reinforced.new(own, self.classes, seed_of(self, "start"))
  end
  return self
end

--- pool{x =, model =, acquisition = "entropy", first = 10, count = 5, max_labels =, y =, candidates =, seed = 0}: a
--- pool of data without labels; options and methods: pn.help "penumbra.active.pool".
function pool.pool(given)
  local where = "pool"
  local o = options.check(where, given, known)
  if o.x:ndim() == 0 or o.x:size(1) == 0 then
    core.error(("pool: x must hold data along its first axis, got [%s]"):format(table.concat(o.x:shape(), ", ")))
  elseif not predictor.inner(o.model) then
    core.error("pool: model must be of pn.active.network, pn.active.posterior or pn.active.predictor, got "
      .. type(o.model))
  end
  local N = o.x:size(1)
  local labels = o.y ~= nil and long(read_labels(where, "y", o.y, N, o.model.classes))
    or core.full({ N }, NONE, { dtype = "int64" })
  local any = labels:ge(0):any():item()
  o.first = options.whole(where, "first", o.first or any and 0 or 10, 0)
  o.max_labels = options.whole(where, "max_labels", o.max_labels or N, 1)
  o.candidates = o.candidates and options.whole(where, "candidates", o.candidates, 1)
  if o.first == 0 and not any then
    core.error "pool: first must be 1 or more where no label is known, or y be given"
  end
  local self = pool.make(where, o)
  take_known(self, labels)
  self.free = labels:lt(0)
  return seal.object(self)
end

--- labelled(): positions [L] of all labels in the order in which they came, the data x [L, ...] and y [L].
function methods:labelled()
  local positions = long(self.order)
  return positions, self.x:take(1, positions), self.labels:take(1, positions)
end

-- The unlabelled that may be asked for: positions [N'].
local function open_positions(self)
  local at = self.free:logical_and(self.ranked):nonzero():squeeze(2)
  if at:numel() == 0 then at = self.free:nonzero():squeeze(2) end -- all that were ranked are used up
  return at
end

-- Trains on all labels, if some came since it last was.
local function train(self)
  if not self.stale then return end
  local positions, x, y = self:labelled()
  local seed = seed_of(self, "fit")
  seeded(seed, self.model.train, self.model, x, y, { round = self.round, seed = seed,
    generator = generator_of(self, "fit"), positions = positions })
  self.stale = false
end

-- The policy's step, once the model has been trained on the labels it asked for.
local function learn(self)
  local e = self.episode
  if not e then return nil end
  local y, x = e.labels, self.x:take(1, e.positions)
  local seed = seed_of(self, "new")
  local after = seeded(seed, self.model.predict, self.model, x, generator_of(self, "new"))
  local report = seeded(seed, self.policy.learn, self.policy, e.steps, y, e.before, after, self.model.link,
    seed_of(self, "policy"))
  self.episode = nil
  return report
end

-- What is left of a round whose labels are all there: training, and the policy's step. Again where it failed before.
local function settle(self)
  if not self.stale and not self.episode then return nil end
  train(self)
  local report = learn(self)
  self.round = self.round + 1
  return report
end

-- Positions [n] of what the acquisition chooses.
local function choose(self, open, n)
  local generator = generator_of(self, "ask")
  if self.round == 0 and #self.order == 0 then
    local order = core.randperm(open:size(1), { generator = generator })
    return open:take(1, order:slice(1, 1, math.min(math.max(self.first, 1), order:size(1))))
  end
  local x = open:size(1) == self.size and self.x or self.x:take(1, open)
  local _, labelled = self:labelled()
  local s = { model = self.model, x = x, n = n, generator = generator, labelled = labelled }
  local places, steps
  if self.policy then
    places, steps = self.policy:choose(s)
  elseif self.score then
    local scores = self.score(self.public_model, x, n, generator)
    if not core.is_tensor(scores) or scores:ndim() ~= 1 or scores:size(1) ~= x:size(1) then
      core.error(("ask: acquisition must give scores [%d], got %s"):format(x:size(1), core.is_tensor(scores)
        and "[" .. table.concat(scores:shape(), ", ") .. "]" or type(scores)))
    end
    places = score.top(scores, n)
  else
    places = acquisition.rows[self.acquisition].choose(s, self.acquisition_options)
  end
  return open:take(1, places), steps
end

--- ask(): positions, int64 [n] from 0 on, of the data whose labels are wanted next; the same until all are told. Where
--- nothing is left to ask for nil, message, code: "limit" where the budget is spent, "missing" where the pool is dry.
--- What of the last round failed (its training raised) is done first.
function methods:ask()
  if self.asked then return self.asked.positions end
  local settled = settle(self)
  if settled then self.reports[#self.reports].policy = settled end
  local left = self.max_labels - #self.order
  if left <= 0 then
    return nil, ("ask: the budget of %d labels is spent"):format(self.max_labels), "limit"
  end
  local open = open_positions(self)
  if open:numel() == 0 then
    return nil, ("ask: the pool is dry: of %d data %d have a label, %d were refused"):format(self.size, #self.order,
      #self.refused), "missing"
  end
  local first = self.round == 0 and #self.order == 0
  local n = math.min(first and math.max(self.first, 1) or self.count, left, open:numel())
  local positions, steps = seeded(seed_of(self, "ask"), recording.off, choose, self, open, n)
  positions = positions:slice(1, 1, math.min(n, positions:size(1))):contiguous()
  self.asked = { positions = positions, labels = {}, steps = steps }
  return positions
end

-- Places in the request, from 1, of the positions that labels are told of.
local function places_of(asked, positions)
  local at, out = {}, {}
  for k, position in ipairs(asked.positions:totable()) do at[position] = k end
  for k, position in ipairs(core.is_tensor(positions) and positions:totable() or positions) do
    out[k] = at[position]
    if not out[k] then
      core.error(("tell: positions[%d] must be one that was asked for, got %s"):format(k, tostring(position)))
    end
  end
  return out
end

-- Takes a full request into the pool.
local function commit(self, asked)
  local positions, told = asked.positions:totable(), long(asked.labels)
  local before
  if self.policy and asked.steps then
    before = seeded(seed_of(self, "old"), self.model.predict, self.model, self.x:take(1, asked.positions),
      generator_of(self, "old"))
  end
  local values = self.labels:take(1, asked.positions)
  local labels = self.labels:scatter_add(1, asked.positions, told - values)
  local free = self.free:logical_and(core.zeros({ self.size }):scatter_add(1, asked.positions,
    core.ones { #positions }):eq(0))
  local refused = table.move(self.refused, 1, #self.refused, 1, {})
  local order = table.move(self.order, 1, #self.order, 1, {})
  local seen, stale = copy_of(self.seen), self.stale
  for k, position in ipairs(positions) do -- of one round
    local label = asked.labels[k]
    if label == NONE then
      refused[#refused + 1] = position
    else
      order[#order + 1], seen[label], stale = position, (seen[label] or 0) + 1, true
    end
  end
  local episode = before and { steps = asked.steps, before = before:detach(), labels = told,
    positions = asked.positions } or nil
  -- all at once: what ends a call before here leaves the request as it was
  self.labels, self.free, self.refused, self.order, self.seen, self.stale, self.episode, self.asked = labels, free,
    refused, order, seen, stale, episode, nil
end

-- Classes without a label yet.
local function unseen(self)
  local list = {}
  for class = 0, self.classes - 1 do
    if not self.seen[class] then list[#list + 1] = class end
  end
  return list
end

--- tell(labels [, positions]): the labels, int64 [n] or a list, of what ask gave, in its order; or of some of it, by
--- their positions, the others later. -1: refused; it is not asked for again and not counted. A label that is no class
--- is an error, and nothing has changed. When all are there the model is trained on all labels so far. Returns a table:
--- left, how many are still wanted, and when that is 0: round, labelled, refused (how many of this round), unseen (list
--- of classes without any label), classes that are `new` in this round; of "reinforced" policy (rewards, returns,
--- baseline, diversity, loss, kl). If training raises the labels are kept, and the next ask trains again.
function methods:tell(labels, positions)
  local asked = self.asked
  if not asked then core.error "tell: nothing was asked for: call pool:ask() first" end
  local n = asked.positions:size(1)
  if not core.is_tensor(positions or asked.positions) then
    options.argument("tell", "positions", positions, "table")
  end
  local places = places_of(asked, positions or asked.positions)
  local list = read_labels("tell", "labels", labels, #places, self.classes)
  for k, place in ipairs(places) do asked.labels[place] = list[k] end
  local left = 0
  for k = 1, n do left = left + (asked.labels[k] == nil and 1 or 0) end
  if left > 0 then return { left = left } end
  local report, before = { left = 0, round = self.round, refused = 0, new = {} }, unseen(self)
  for k = 1, n do report.refused = report.refused + (asked.labels[k] == NONE and 1 or 0) end
  commit(self, asked)
  for _, class in ipairs(before) do
    if self.seen[class] then report.new[#report.new + 1] = class end
  end
  report.labelled, report.unseen = #self.order, unseen(self)
  self.reports[#self.reports + 1] = report
  if self.stale or self.episode then
    report.policy = settle(self)
  else
    self.round = self.round + 1 -- all were refused
  end
  return report
end

--- run(oracle [, {steps =, on_step =}]): asks and tells until the budget is spent, the pool is dry, `steps` rounds are
--- over or on_step(report, pool) gives false. oracle: labels int64 [N] of all data, or a function (positions, x) that
--- gives those of what is asked for. Returns the pool.
function methods:run(oracle, given)
  local o = options.check("run", given, { steps = options.optional "number", on_step = options.optional "function" })
  local label = oracle
  if core.is_tensor(oracle) then
    if oracle:ndim() ~= 1 or oracle:size(1) ~= self.size or oracle:dtype() ~= "int64" then
      core.error(("run: oracle must be labels, int64 [%d], got %s [%s]"):format(self.size, oracle:dtype(),
        table.concat(oracle:shape(), ", ")))
    end
    label = function(positions) return oracle:take(1, positions) end
  else
    options.argument("run", "oracle", oracle, "function")
  end
  for _ = 1, o.steps or math.huge do
    local positions = self:ask()
    if not positions then break end
    local report = self:tell(label(positions, self.x:take(1, positions)))
    if o.on_step and o.on_step(report, seal.object(self)) == false then break end
  end
  return seal.object(self)
end

--- predict(x): probabilities [N, classes] of the model as it stands.
function methods:predict(x)
  return (seeded(seed_of(self, "new"), self.model.predict, self.model, x, generator_of(self, "new")))
end

--- object(self), inner(v): a pool as scripts have it, and what is behind it.
pool.methods, pool.object, pool.inner = methods, seal.object, seal.inner

return pool
