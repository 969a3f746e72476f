--- Which data to ask for next, by name: each acquisition is a row, {doc =, options =, choose = function(s, o)}, of
--- which s = {model =, x = the candidates [N, ...], n =, generator =, labelled = x of those with labels or nil}, and
--- choose gives places [n] among the candidates. "reinforced" has a row of its own (penumbra.active.reinforced).
-- help: nowhere
local batch_bald = require "penumbra.active.batch_bald"
local core = require "penumbra.core"
local core_set = require "penumbra.active.core_set"
local options = require "penumbra.options"
local score = require "penumbra.active.score"

local acquisition = {}

local KINDS <const> = { "renormalised", "binary", "raw" }

-- The reading of entropies that the model's link asks for: probits are a yes or no for each class.
function acquisition.kind_of(model, kind)
  if kind ~= nil then return kind end
  return model.link == "probit" and "binary" or "renormalised"
end

local function check_kind(where, kind)
  if kind ~= nil then options.check(where, { kind = kind }, { kind = options.one_of("renormalised", KINDS) }) end
end

--- Entropies [N] of what the model predicts of x.
function acquisition.entropies(model, x, kind, generator)
  return score.entropy_of(model:predict(x, generator), acquisition.kind_of(model, kind))
end

local function draws_of(s, o, name)
  local draws = s.model:weight_draws(s.x, o.draws, s.generator)
  if not draws then
    core.error(("ask: '%s' needs draws of the weights, which this model does not give (`weight_draws`, or a "
      .. "network of pn.nn.bayesian)"):format(name))
  end
  return draws
end

local function best(f)
  return function(s, o) return score.top(f(s, o), s.n) end
end

local rows = {}

rows.random = { doc = "uniform among all", options = {}, choose = function(s)
  local places = core.randperm(s.x:size(1), { generator = s.generator })
  return places:slice(1, 1, math.min(s.n, places:size(1)))
end }

rows.entropy = { doc = "largest predictive entropy, read as kind = \"renormalised\", \"binary\" (the default of "
  .. "probits) or \"raw\"", options = { kind = options.optional "string" },
  check = function(o) check_kind("pool", o.kind) end,
  choose = best(function(s, o) return acquisition.entropies(s.model, s.x, o.kind, s.generator) end) }

--- thinned_places(n, every, points): 0, every, 2 every, ... below n, `points` at most.
function acquisition.thinned_places(n, every, points)
  return core.arange(math.min(points, (n + every - 1) // every)):to "int64" * every
end

rows.thinned = { doc = "every 20th of the ranking by entropy, 50 of them, uniform among these",
  options = { kind = options.optional "string", every = 20, points = 50 },
  check = function(o)
    check_kind("pool", o.kind)
    options.whole("pool", "every", o.every, 1)
  end,
  choose = function(s, o)
    local h = acquisition.entropies(s.model, s.x, o.kind, s.generator)
    local ranked, N = score.top(h, h:size(1)), h:size(1)
    local thinned = ranked:take(1, acquisition.thinned_places(N, o.every, o.points))
    local count = thinned:size(1)
    if count >= s.n then
      local order = core.randperm(count, { generator = s.generator })
      return thinned:take(1, order:slice(1, 1, s.n))
    end
    return ranked:slice(1, 1, math.min(s.n, N)) -- a pool so small that thinning leaves too few
  end }

rows.margin = { doc = "smallest lead of the most probable class", options = {},
  choose = best(function(s) return score.margin((s.model:predict(s.x, s.generator))) end) }

rows.variation_ratio = { doc = "smallest probability of the most probable class; with draws = n smallest share of the "
  .. "draws' most frequent class", options = { draws = options.optional "number" },
  choose = best(function(s, o)
    return score.variation_ratio(o.draws and draws_of(s, o, "variation_ratio")
      or (s.model:predict(s.x, s.generator)))
  end) }

rows.bald = { doc = "largest mutual information of label and weights: by draws of the weights, or of means and "
  .. "variances by method = \"quadrature\", \"closed\" or \"draws\" of the outputs (\"weights\": by draws of these "
  .. "all the same)",
  options = { method = options.optional "string", draws = 100, kind = options.optional "string" },
  check = function(o) check_kind("pool", o.kind) end,
  choose = best(function(s, o)
    if s.model.has.moments and o.method ~= "weights" then
      local m, v = s.model:moments(s.x)
      return score.bald_moments(m, v, { link = s.model.link, method = o.method, draws = o.draws,
        generator = s.generator })
    end
    return score.bald(draws_of(s, o, "bald"), { kind = acquisition.kind_of(s.model, o.kind) })
  end) }

rows.batch_bald = { doc = "the batch whose labels together tell most of the weights, by draws of them; probits are "
    .. "renormalised to a law of one class",
  options = { draws = 100, outcomes = 10000 },
  choose = function(s, o)
    local p = draws_of(s, o, "batch_bald")
    p = p / p:sum(-1, true)
    return batch_bald.batch_bald(p, s.n, { outcomes = o.outcomes, generator = s.generator }).places
  end }

rows.core_set = { doc = "greedy cover of the features", options = {}, choose = function(s)
  local x = s.labelled and s.model:features(s.labelled)
  return core_set.core_set(s.model:features(s.x), s.n, { labelled = x })
end }

acquisition.rows = rows

return acquisition
