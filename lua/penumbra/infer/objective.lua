--- The bounds that pn.svi follows: sums over the sites of a guide and a model, each counted as its plates say, and the
--- estimators of pn.infer on their log-weights. Internal to penumbra.infer.svi, whose fits are `self` here: model,
--- guide, args, particles, estimator, divergence, vectorised.
-- help: nowhere
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local dist = require "penumbra.distribution"
local enumeration = require "penumbra.infer.enumeration"
local log_weights = require "penumbra.infer.log_weights"
local model = require "penumbra.infer.model"


local objective = {}

-- ---- the bound of a guide of one's own ----

-- What stands for a latent variable of the model that the guide has not drawn.
local function undrawn(site)
  if site.enumerable then
    return site.dist:sample()
  end
  core.error(("svi: the guide has no site '%s', which the model samples%s"):format(site.name,
    site.where ~= "" and " at " .. site.where or ""))
end

--- How guide and model are run together: how.guide and how.model, what trace.run takes, of what is said of both.
function objective.how(given)
  local how = { path = given.path, particles = given.particles, most = given.most }
  for _, name in ipairs { "guide", "model" } do
    how[name] = { particles = given.particles, most = given.most, whole = given.whole, check = given.check,
      locate = given.locate, unscored = given.unscored }
  end
  local guide, of_model = how.guide, how.model
  guide.detached = given.detached
  of_model.finite, of_model.enumerate = given.finite, given.enumerate
  of_model.value = function(_, site)
    local drawn = of_model.drawn[site.name]
    return drawn and not drawn.observed and drawn.value or undrawn(site)
  end
  return how
end

--- One run of guide and model; indices: rows of plates by name.
function objective.run_pair(self, how, indices)
  local of_guide, of_model = how.guide, how.model
  of_guide.indices = indices
  local g = model.run(self.guide, self.args, of_guide)
  of_model.indices, of_model.drawn = g.indices, g.sites
  local m = model.run(self.model, self.args, of_model)
  of_model.drawn = nil
  return g, m
end

-- The sum of a term over its rows, each counted as plates say; particles stay.
local function total(m, site, term)
  if m.particles and term:ndim() > m.most then
    local axes = {}
    for k = 2, term:ndim() do
      axes[k - 1] = k
    end
    term = #axes > 0 and term:sum(axes) or term
  elseif term:ndim() > 0 then
    term = term:sum()
  end
  return site.scale ~= 1 and term * site.scale or term
end

local NONE = {}

-- E_q[log q] - E_q[log p] by sites: with closed forms where they exist, from one draw elsewhere. Also the log density
-- of the draws that have no path, and the rows of plates that were taken.
local function cost(self, how, indices)
  local g, m = objective.run_pair(self, how, indices)
  local sum, score
  local closed = not m.enumerated and self.closed or NONE
  local order = g.order
  for k = 1, #order do
    local site = order[k]
    local p, q = site.dist and closed[site.name] and m.sites[site.name], site.log_prob
    if p and p.dist then
      local t = total(g, site, dist.kl(site.dist, p.dist))
      sum = sum and sum + t or t
    elseif q then
      local t = total(g, site, q)
      sum = sum and sum + t or t
    end
    if q and site.score then
      local t = total(g, site, q)
      score = score and score + t or t
    end
  end
  if m.enumerated then
    local t = m:log_density()
    return sum and sum - t or -t, score, g.indices
  end
  order = m.order
  for k = 1, #order do
    local site = order[k]
    if site.log_prob and not (closed[site.name] and g.sites[site.name]) then
      local t = total(m, site, site.log_prob)
      sum = sum and sum - t or -t
    end
  end
  model.done(g)
  model.done(m)
  return sum, score, g.indices
end

--- The negative evidence lower bound of guide and model: the mean over particles, whose gradient has the terms of the
--- scores, (cost - mean of the other particles' costs) grad log q.
function objective.negative_elbo(self, how)
  local costs, scores, indices = cost(self, how)
  local n = self.particles
  if not how.particles and n > 1 then
    local list, score_list = { costs }, { scores }
    for k = 2, n do
      list[k], score_list[k] = cost(self, how, indices) -- the same rows for all particles of a step
    end
    costs, scores = core.stack(list, 1), scores and core.stack(score_list, 1)
  end
  local mean = costs:ndim() > 0 and costs:mean() or costs
  if not scores then
    return mean
  end
  local signal = costs:detach()
  if n > 1 then
    signal = (signal - signal:mean()) * (n / (n - 1))
  end
  local term = scores * signal
  term = term:ndim() > 0 and term:mean() or term
  return mean + (term - term:detach())
end

-- The total as a row that all others share: [1], [K, 1].
local function shared(m, site, term)
  local n = term:ndim()
  if n ~= (m.particles and n > m.most and 2 or 1) then
    return total(m, site, term):unsqueeze(-1)
  end
  term = term:size(-1) > 1 and term:sum(-1, true) or term
  return site.scale ~= 1 and term * site.scale or term
end

-- The sum of a trace's terms, one for each row of the outermost plate where all latent variables are its own: [B] or
-- [K, B], else [1] or [K, 1].
local function by_rows(self, trace, how)
  local plate, sum = self.plate, nil
  for _, site in ipairs(trace.enumerated and enumeration.factors(trace) or trace.order) do
    local term = site.log_prob
    if term and plate and site.plates[1] and site.plates[1].name == plate.name then
      local axes = {}
      for k = 2, term:ndim() - (how.particles and term:ndim() > how.most and 1 or 0) do
        axes[#axes + 1] = -k
      end
      term = #axes > 0 and term:sum(axes) or term
      local inner = site.scale / (site.plates[1].size / site.plates[1].rows)
      term = inner ~= 1 and term * inner or term
    elseif term then
      term = shared(trace, site, term)
    end
    sum = sum and term and sum + term or sum or term
  end
  return sum or core.zeros { 1 }
end

-- The values of a guide's draws as constants.
local function constants(g)
  return function(_, site)
    local drawn = g.sites[site.name]
    return drawn and drawn.value:detach()
  end
end

--- The terms of one run: log_p and log_q, [B] or [K, B]. With how.path also log_q and log_p of the same draws held
--- fixed, to which the parameters' own gradients belong.
function objective.densities(self, how, indices)
  local g, m = objective.run_pair(self, how, indices)
  local terms = { log_p = by_rows(self, m, how), log_q = by_rows(self, g, how), indices = g.indices }
  if how.path then
    local fixed = { particles = how.particles, most = how.most, indices = g.indices, whole = how.model.whole,
      enumerate = how.model.enumerate, value = constants(g) }
    terms.fixed_q = by_rows(self, model.run(self.guide, self.args, fixed), how)
    terms.fixed_p = how.path == "weighted" and by_rows(self, model.run(self.model, self.args, fixed), how) or nil
  end
  model.done(g)
  model.done(m)
  return terms
end

local TERMS = { "log_p", "log_q", "fixed_q", "fixed_p" }

-- The terms of all particles, [K, B] each.
local function stacked(self, how)
  if self.automatic then
    return self.guide:densities(self.particles, how.path)
  elseif how.particles then
    local terms = objective.densities(self, how)
    local wide = { self.particles, math.max(terms.log_p:size(-1), terms.log_q:size(-1)) }
    for _, name in ipairs(TERMS) do
      local t = terms[name]
      if t and (t:size(-1) ~= wide[2] or t:size(1) ~= wide[1] or t:ndim() ~= 2) then
        terms[name] = t:broadcast_to(wide)
      end
    end
    return terms
  end
  local rows = {}
  for k = 1, self.particles do
    rows[k] = objective.densities(self, how, k > 1 and rows[1].indices or nil)
  end
  local terms = {}
  for _, name in ipairs(TERMS) do
    if rows[1][name] then
      local list = {}
      for k, row in ipairs(rows) do
        list[k] = row[name]
      end
      terms[name] = core.stack(list, 1)
    end
  end
  return terms
end

-- ---- estimators ----

-- dreg: q's gradient by the squares of the normalised weights along the draws' path, p's by the weights. The part of
-- log q's own parameters, which fixed_q has, is taken out.
local function doubly_reparametrised(t, call)
  local log_w = t.log_p - t.log_q
  local live, share = log_w:isfinite(), log_w:detach():softmax(1)
  local zero = core.zeros({}, { dtype = share:dtype() })
  share = core.where(live, share, zero)
  local path = core.where(live, log_w + t.fixed_q, zero)
  local own = core.where(live, t.fixed_p, zero)
  local square = share:square()
  local surrogate = (square * path + (share - square) * own):sum(1):mean()
  return call("iwae", { log_w = log_w:detach() }) + (surrogate - surrogate:detach())
end

-- What each row that has a gradient for the guide asks of the draws: `constant` without a path, by the score of q;
-- `path` along the draws "alone" or "weighted"; else by the whole gradient of reparametrised draws. nonlinear: a
-- function of the weights of a datum that their minibatch estimates would bias. least: how many. takes: its inputs and
-- options.
local PATHS = { path = "alone", weighted_path = "weighted" }
objective.estimators, objective.names = {}, {}
for _, row in ipairs(core.estimator_rows()) do
  if row.gradient then
    local about = { constant = row.gradient == "score", path = PATHS[row.gradient], nonlinear = row.nonlinear,
      least = row.least, takes = {} }
    for _, list in ipairs { row.inputs, row.options } do
      for _, each in ipairs(list) do about.takes[each.name] = true end
    end
    objective.estimators[row.name] = about
    objective.names[#objective.names + 1] = row.name
  end
end

--- named(test): the names of the estimators for which test(about) holds, in words: "'a', 'b' and 'c'".
function objective.named(test)
  local list = {}
  for _, name in ipairs(objective.names) do
    list[#list + 1] = test(objective.estimators[name]) and "'" .. name .. "'" or nil
  end
  local last = table.remove(list)
  return #list > 0 and table.concat(list, ", ") .. " and " .. last or last
end

--- The bound of the estimator self.estimator, of the weights of self.particles draws.
function objective.estimate(self, how)
  local t, name = stacked(self, how), self.estimator
  local about = objective.estimators[name]
  local function call(which, given)
    for key, value in pairs(self.estimator_options) do
      given[key] = value
    end
    return log_weights[which](given)
  end
  if about.path == "weighted" then
    return doubly_reparametrised(t, call)
  elseif about.path then
    return log_weights.elbo { log_p = t.log_p, log_q = t.log_q - (t.fixed_q - t.fixed_q:detach()) }
  end
  local takes = about.takes
  return call(name, { log_p = takes.log_p and t.log_p, log_q = takes.log_q and t.log_q,
    log_w = takes.log_w and t.log_p - t.log_q, leave_one_out = takes.leave_one_out and self.particles > 1 or nil })
end

-- ---- first runs: what guide and model look like ----

-- Sites whose divergence has a closed form.
local function find_closed(self, g, m)
  self.closed = {}
  if self.divergence == "monte_carlo" then
    return
  end
  for name, site in pairs(g.sites) do
    local p = m.sites[name]
    if site.kind == "sample" and p and p.kind == "sample" and not site.observed and not p.observed and p.dist
      and not p.constraint and not site.constraint then
      local ok = pcall(dist.kl, site.dist, p.dist)
      self.closed[name] = ok or nil
    end
  end
end

-- The outermost plate that holds all latent variables, and everything that depends on them.
local function find_plate(g, m)
  local plate
  for _, t in ipairs { g, m } do
    for _, site in ipairs(t.order) do
      if site.log_prob then
        local first = site.plates[1]
        if not first or plate and plate.name ~= first.name then
          return nil
        end
        plate = first
      end
    end
  end
  return plate
end

local function at(site)
  return site.where ~= "" and " at " .. site.where or ""
end

local function plates_text(site)
  local names = {}
  for k, plate in ipairs(site.plates) do
    names[k] = ("'%s' (%d of %d rows)"):format(plate.name, plate.rows, plate.size)
  end
  return #names > 0 and "plate " .. table.concat(names, ", ") or "no plate"
end

-- What the guide draws must be a latent variable of the model and count as it does there.
local function check_pair(g, m)
  for _, site in ipairs(g.order) do
    local p = site.kind == "sample" and m.sites[site.name]
    if site.kind == "sample" and not p then
      core.error(("svi: the guide samples '%s'%s, which the model does not have"):format(site.name, at(site)))
    elseif p and p.observed then
      core.error(("svi: the guide samples '%s'%s, which the model observes%s"):format(site.name, at(site), at(p)))
    elseif p and p.scale ~= site.scale then
      core.error(("svi: '%s' is in %s in the guide%s and in %s in the model%s: its terms would not count alike"):format(
        site.name, plates_text(site), at(site), plates_text(p), at(p)))
    end
  end
end

-- A plate that is taken in parts and holds not all that is random: a datum's weight would be an estimate.
local function taken_in_parts(self, g, m)
  for _, t in ipairs { g, m } do
    for _, site in ipairs(t.order) do
      for k, plate in ipairs(site.plates) do
        if plate.rows < plate.size and not (k == 1 and self.plate) then
          return plate
        end
      end
    end
  end
  return nil
end

local function check_draws(self, g, m)
  local about = objective.estimators[self.estimator]
  for _, site in ipairs(g.order) do
    if site.score and not about.constant and (about.path or about.nonlinear) then
      core.error(("svi: '%s'%s is drawn without a path for the gradient, which estimator '%s' needs; "
        .. "%s do not"):format(site.name, at(site), self.estimator,
        objective.named(function(each) return each.constant or not (each.path or each.nonlinear) end)))
    end
  end
  local plate = about.nonlinear and taken_in_parts(self, g, m)
  if plate then
    core.error(("svi: estimator '%s' needs the whole of plate '%s', of which %d of %d rows are taken: what is "
      .. "drawn outside of it makes a minibatch's weight another one than that of all data ('elbo' is linear and may)")
      :format(
      self.estimator, plate.name, plate.rows, plate.size))
  end
end

-- A run with particles side by side, whose failure tells what they look like.
local function try_vectorised(self, how)
  local ok, message = pcall(recording.off, objective.run_pair, self, objective.how { particles = how.particles,
    most = how.most, locate = true })
  if not ok then
    error(("%s (with vectorised = true the values of latent variables have %d particles along an axis left of the "
      .. "plates; axes count best from the end)"):format(tostring(message), how.particles), 0)
  end
end

--- Runs guide and model once, finds what may go wrong, and says how they are to be run.
function objective.explore(self)
  local g, m = objective.run_pair(self, objective.how { check = true, finite = true, locate = true })
  check_pair(g, m)
  find_closed(self, g, m)
  self.most = math.max(g.deepest, m.deepest)
  for _, site in ipairs(m.order) do
    self.enumerates = self.enumerates or (site.enumerable and not g.sites[site.name]) or false
  end
  self.plate = find_plate(g, m) or false
  check_draws(self, g, m)
  local about = objective.estimators[self.estimator]
  local how = { detached = about.constant, path = about.path,
    unscored = self.estimator == "elbo" and not self.enumerates and next(self.closed) and self.closed or nil }
  if self.vectorised then
    if self.enumerates then
      core.error "svi: draws side by side (vectorised = true) and enumeration do not go together"
    end
    how.particles, how.most = self.particles, self.most
    try_vectorised(self, how)
  elseif self.enumerates then
    how.enumerate, how.most = true, self.most
  end
  how = objective.how(how)
  for _, name in ipairs { "guide", "model" } do
    if not (self.enumerates or self[name].changed) then
      how[name].again = false
    end
  end
  return how
end

return objective
