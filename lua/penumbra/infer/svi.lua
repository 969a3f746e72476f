--- Stochastic variational inference: a guide q is fitted to the posterior of a model by following the gradient of a
--- lower bound on the log evidence.
---
---     local fit = pn.svi(model, "mean_field", {data = {x, y}, steps = 2000})
---     local fit = pn.svi(model, guide, {data = {x, y}, steps = 2000, lr = 1e-3})      -- guide: a pn.model of one's own
---     fit.losses                    the negative bound at each step
---     fit:sample(1000)              draws of q by site [1000, ...]
---     fit:summary()                 a line for each number
---     fit:bound{draws = 1000}       the importance-weighted bound of the whole data, and its ELBO
---     fit:k_hat()                   Pareto k-hat of the importance weights p / q: above 0.7, q is not near the posterior
---     fit:resample(1000)            draws of q picked by these weights: of the posterior itself where k-hat allows
---     fit:predict{data = ...}       draws of what is observed given draws of q
---     fit:check{statistic = f}      posterior predictive checks: p-values and a picture
---     fit:continue(1000)            more steps
---
--- The bound is the sum over sites of E_q[log p] - E_q[log q], each counted as its plates say (size / batch of their
--- rows), so it is in nats for the whole data however small the minibatch. Where a pair of laws has a divergence in
--- closed form it is used. What q draws without a path for the gradient (labels, counts) takes the score function with
--- the mean of the other particles as baseline.
local core = require "penumbra.core"
local dist = require "penumbra.dist"
local guides = require "penumbra.infer.guide"
local model = require "penumbra.infer.model"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local replay = require "penumbra.replay"
local target = require "penumbra.infer.target"

local svi = {}

-- ---- the bound of a guide of one's own ----

-- One run of guide and model.
local function run_pair(self, how)
  local g = model.run(self.guide, self.args, { particles = how.particles, most = how.most, check = how.check,
    locate = how.locate, strict = how.strict })
  local m = model.run(self.model, self.args, { particles = how.particles, most = how.most, indices = g.indices,
    check = how.check, locate = how.locate, enumerate = how.enumerate, value = function(_, site)
      local drawn = g.sites[site.name]
      if not drawn or drawn.observed then
        if site.enumerable then
          return site.dist:sample()
        end
        core.error(("svi: the guide has no site '%s', which the model samples%s"):format(site.name,
          site.where ~= "" and " at " .. site.where or ""))
      end
      return drawn.value
    end })
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

-- E_q[log p] - E_q[log q] by sites: with closed forms where they exist, from one draw elsewhere.
local function elbo(self, how)
  local g, m = run_pair(self, how)
  local sum, score
  local function add(t)
    sum = sum and sum + t or t
  end
  if m.enumerated then
    add(m:log_density())
    for _, site in ipairs(g.order) do
      if site.log_prob then
        add(-total(g, site, site.log_prob))
      end
    end
  else
    local replaced = {}
    for name, site in pairs(g.sites) do
      local p = m.sites[name]
      if self.closed[name] and p and p.dist then
        add(-total(g, site, dist.kl(site.dist, p.dist)))
        replaced[name] = true
      end
    end
    for _, site in ipairs(m.order) do
      if site.log_prob and not replaced[site.name] then
        add(total(m, site, site.log_prob))
      end
    end
    for _, site in ipairs(g.order) do
      if site.log_prob and not replaced[site.name] then
        add(-total(g, site, site.log_prob))
      end
    end
  end
  for _, site in ipairs(g.order) do
    if site.score and site.log_prob then
      local t = total(g, site, site.log_prob)
      score = score and score + t or t
    end
  end
  return sum, score
end

-- Value of a surrogate with the bound's value and its gradient plus that of the score terms.
local function with_scores(bounds, scores, n)
  local mean
  for k = 1, n do
    local signal = bounds[k]:detach()
    if n > 1 then
      local others
      for j = 1, n do
        if j ~= k then
          others = others and others + bounds[j]:detach() or bounds[j]:detach()
        end
      end
      signal = signal - others / (n - 1)
    end
    local term = scores[k] * signal
    term = bounds[k] + (term - term:detach())
    mean = mean and mean + term or term
  end
  return mean / n
end

local function mean_elbo(self, how)
  if how.particles then
    local each = elbo(self, how)
    return each:ndim() > 0 and each:mean() or each
  end
  local bounds, scores, any, sum = {}, {}, false, nil
  for k = 1, self.particles do
    bounds[k], scores[k] = elbo(self, how)
    any = any or scores[k] ~= nil
    sum = sum and sum + bounds[k] or bounds[k]
  end
  if any then
    return with_scores(bounds, scores, self.particles)
  end
  return self.particles > 1 and sum / self.particles or sum
end

-- Log-weights log p - log q of one run: a row for each datum where all latent variables are its own, [B] or [K, B], else
-- [1] or [K, 1]; and by what the mean over rows is to be multiplied.
local function log_weights(self, how)
  local g, m = run_pair(self, how)
  local plate = self.plate
  local sum
  local function add(site, term, sign)
    if plate and site.plates[1] and site.plates[1].name == plate.name then
      local axes = {}
      for k = 2, term:ndim() - (how.particles and term:ndim() > how.most and 1 or 0) do
        axes[#axes + 1] = -k
      end
      term = #axes > 0 and term:sum(axes) or term
      local inner = site.scale / (plate.size / plate.rows)
      term = inner ~= 1 and term * inner or term
    else
      term = total(m, site, term):unsqueeze(-1)
    end
    sum = sum and sum + sign * term or sign * term
  end
  for _, site in ipairs(m.order) do
    if site.log_prob then
      add(site, site.log_prob, 1)
    end
  end
  for _, site in ipairs(g.order) do
    if site.log_prob then
      add(site, site.log_prob, -1)
    end
  end
  return sum, plate and plate.size or 1
end

local function stacked_weights(self, how)
  if how.particles then
    return log_weights(self, how)
  end
  local rows, factor = {}, 1
  for k = 1, self.particles do
    rows[k], factor = log_weights(self, how)
  end
  return core.stack(rows, 1), factor
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
    if site.kind == "sample" and p and p.kind == "sample" and p.dist and not p.constraint and not site.constraint then
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

local function check_pair(g, m)
  for _, site in ipairs(g.order) do
    if site.kind == "sample" and not m.sites[site.name] then
      core.error(("svi: the guide samples '%s'%s, which the model does not have"):format(site.name,
        site.where ~= "" and " at " .. site.where or ""))
    end
  end
end

local function explore_pair(self)
  local g, m = run_pair(self, { check = true, locate = true })
  check_pair(g, m)
  find_closed(self, g, m)
  self.most = math.max(g.deepest, m.deepest)
  for _, site in ipairs(m.order) do
    self.enumerates = self.enumerates or site.enumerable and not g.sites[site.name] or nil
  end
  self.plate = find_plate(g, m)
  if self.vectorised then
    if self.enumerates then
      core.error "svi: particles side by side (vectorised = true) and enumeration do not go together"
    end
    return { particles = self.particles, most = self.most }
  end
  return self.enumerates and { enumerate = true, most = self.most } or {}
end

-- ---- fitting ----

local svi_options = {
  data = options.optional "table", steps = 1000, lr = 0.01, optimiser = options.optional(), particles = 1,
  vectorised = false, estimator = "elbo", divergence = options.choice("analytic", "monte_carlo"), compile = true,
  schedule = options.optional "function", on_step = options.optional "function", progress = options.any(false),
}

local function named_parameters(self)
  local list = {}
  local function add(from)
    for _, entry in ipairs(from:named_parameters()) do
      list[#list + 1] = entry
    end
  end
  add(self.model)
  add(self.guide)
  return list
end

-- Every parameter below the loss is one that will be trained.
local function check_trained(loss, list)
  local w = core.leaf_beyond(loss, list)
  if w then
    core.error(("svi: the bound depends on a parameter of shape [%s] that nobody trains: name the network with "
      .. "m:module(name, net), or detach it"):format(table.concat(w:shape(), ", ")))
  end
end

local function loss_function(self)
  if self.automatic then
    return function()
      return -self.guide.bound(self.guide, self.particles)
    end
  elseif self.estimator == "elbo" then
    return function()
      return -mean_elbo(self, self.how)
    end
  end
  local infer = require "penumbra.infer"
  local estimator = infer[self.estimator]
  return function()
    local log_w, factor = stacked_weights(self, self.how)
    local bound = estimator(log_w)
    return factor ~= 1 and bound * -factor or -bound
  end
end

local function bar_of(self, steps)
  if not self.progress or not io then
    return nil
  end
  return progress.new { total = steps, label = "svi", out = self.progress == true and io.stderr or self.progress }
end

local methods = {}

-- Share of the learning rate at a fraction of the steps: whole for the first half, then along half a cosine to 1 %, so
-- that the noise of the gradient dies out.
local function settling(t)
  return t < 0.5 and 1 or 0.01 + 0.99 * 0.5 * (1 + math.cos(2 * math.pi * (t - 0.5)))
end

--- Makes `steps` further steps. Returns the fit.
function methods:continue(steps)
  local start, bar = core.clock(), bar_of(self, steps)
  local ok, message = pcall(function()
    for k = 1, steps do
      local n = #self.losses + 1
      if self.schedule then
        self.optimiser.lr = self.schedule(n)
      elseif self.lr then
        self.optimiser.lr = self.lr * settling((k - 1) / steps)
      end
      local loss = self.step()
      self.losses[n] = loss
      if bar then
        bar:step(1, "loss", loss)
      end
      if self.on_step and self.on_step(self, n, loss) == false then
        break
      end
    end
  end)
  if bar then
    bar:finish()
  end
  if not ok then
    error(message, 0)
  end
  if self.automatic and self.guide.kind.finish then
    self.guide.kind.finish(self.guide)
  end
  self.seconds = self.seconds + core.clock() - start
  return self
end

-- The values of unconstrained vectors z [n, size] by site [1, n, ...], and the sites' names in order.
local function at_sites(self, z)
  local values = self.guide.target:compiled_values()
  values(z[1])
  return posterior.by_site(values:map(z):unsqueeze(1), self.guide.target:outputs())
end

local function guide_draws(self, n)
  if self.automatic then
    return at_sites(self, self.guide:draw_real(n))
  end
  local rows, order = {}, {}
  for k = 1, n do
    local before = core.set_no_grad(true)
    local ok, g = pcall(model.run, self.guide, self.args, {})
    core.set_no_grad(before)
    if not ok then
      error(g, 0)
    end
    for _, site in ipairs(g.order) do
      if site.kind == "sample" then
        if k == 1 then
          rows[site.name] = {}
          order[#order + 1] = site.name
        end
        rows[site.name][k] = site.value:detach()
      end
    end
  end
  local sites = {}
  for _, name in ipairs(order) do
    sites[name] = core.stack(rows[name], 1):unsqueeze(1)
  end
  return sites, order
end

local function is_count(where, name, v)
  if math.type(v) ~= "integer" or v < 1 then
    core.error(("%s: %s must be a whole number from 1 on, got %s"):format(where, name, tostring(v)))
  end
end

--- n draws of the guide by site, [n, ...]; of automatic guides with deterministic sites.
function methods:sample(n)
  is_count("sample", "n", n or 1000)
  local sites = guide_draws(self, n or 1000)
  for name, t in pairs(sites) do
    sites[name] = t:squeeze(1)
  end
  return sites
end

--- Mean, standard deviation and quantiles of n (1000) draws of the guide, a line for each number; r_hat and effective
--- sample sizes have no meaning for independent draws.
function methods:summary(n)
  is_count("summary", "n", n or 1000)
  local sites, order = guide_draws(self, n or 1000)
  return posterior.summary_of(sites, order)
end

--- n (1000) log-weights log p(x, data) - log q(x) of draws of the guide: [n, 1], or [n, B] where every latent variable
--- belongs to a row of one plate.
function methods:log_weights(n)
  is_count("log_weights", "n", n or 1000)
  local before = core.set_no_grad(true)
  local ok, rows = pcall(function()
    if self.automatic then
      if not self.guide.log_weights then
        core.error(("log_weights: a guide '%s' has no density"):format(self.guide.name))
      end
      return self.guide:log_weights(n or 1000)
    end
    local list = {}
    for k = 1, n or 1000 do
      list[k] = log_weights(self, self.enumerates and { enumerate = true, most = self.most } or {})
    end
    return core.stack(list, 1)
  end)
  core.set_no_grad(before)
  if not ok then
    error(rows, 0)
  end
  return rows
end

local resample_options = { draws = options.optional "number" }

--- n draws of the posterior itself, as far as the guide can reach it: of `draws` (20 n) draws of an automatic guide, n
--- picked by their importance weights p / q, Pareto smoothed; by site [n, ...]. Second result: k-hat, which tells
--- whether to trust them (k_hat). Rubin 1988; Vehtari et al. 2024.
function methods:resample(n, given)
  n = n or 1000
  is_count("resample", "n", n)
  local o = options.check("resample", given, resample_options)
  local draws = o.draws or 20 * n
  is_count("resample", "draws", draws)
  if not self.automatic or not self.guide.log_weights then
    core.error "resample: needs an automatic guide with a density"
  end
  local infer = require "penumbra.infer"
  local log_w, z = self.guide:log_weights(draws)
  local smooth, k_hat = infer.psis(log_w)
  local sites = at_sites(self, infer.sir(smooth, n, { values = z:unsqueeze(2) }):squeeze(2))
  for name, t in pairs(sites) do
    sites[name] = t:squeeze(1)
  end
  return sites, k_hat:item()
end

local bound_options = { draws = 1000 }

--- The importance-weighted bound of `draws` (1000) draws and the ELBO from the same draws, in nats for all data.
function methods:bound(given)
  local o = options.check("bound", given, bound_options)
  local w = self:log_weights(o.draws)
  local factor = not self.automatic and self.plate and self.plate.size / w:size(2) or 1
  local iwae = (w:logsumexp(1) - math.log(o.draws)):sum():item() * factor
  return iwae, w:mean(1):sum():item() * factor
end

--- Pareto k-hat of n (1000) importance weights: below 0.7 the guide can be corrected by weighting its draws, above it
--- misses part of the posterior. A number, or [B] where log_weights has a column for each row of a plate. Vehtari et
--- al. 2024.
function methods:k_hat(n)
  local _, k = require("penumbra.infer").psis(self:log_weights(n))
  return k:numel() == 1 and k:item() or k
end

--- Table name -> copy of all parameters of model and guide: for pn.save.
function methods:state()
  local state = {}
  for _, entry in ipairs(named_parameters(self)) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

--- Sets the parameters from what state() gave.
function methods:load_state(state)
  local entries = named_parameters(self)
  for _, entry in ipairs(entries) do
    local t = state[entry[1]]
    if not core.is_tensor(t) or table.concat(t:shape(), ",") ~= table.concat(entry[2]:shape(), ",") then
      core.error(("load_state: '%s' must be a tensor of shape [%s]"):format(entry[1],
        table.concat(entry[2]:shape(), ", ")))
    end
  end
  for _, entry in ipairs(entries) do
    entry[2]:set(state[entry[1]])
  end
  if self.automatic and self.guide.kind.finish then
    self.guide.kind.finish(self.guide)
  end
  return self
end

local predict_options = { data = options.optional "table", draws = 1000 }

--- Draws of the observed sites given draws of the guide, by site [draws, ...]. Options: data, other arguments for the
--- model; draws (1000).
function methods:predict(given)
  local o = options.check("predict", given, predict_options)
  is_count("predict", "draws", o.draws)
  local args = o.data and model.packed(o.data) or self.args
  if self.automatic then
    return posterior.predicted(self.guide.target, self.model, args, self.guide:draw_real(o.draws))
  end
  local rows = {}
  local before = core.set_no_grad(true)
  local ok, message = pcall(function()
    for k = 1, o.draws do
      local g = model.run(self.guide, args, {})
      local m = model.run(self.model, args, { predict = true, indices = g.indices, value = function(_, site)
        return g.sites[site.name] and g.sites[site.name].value
      end })
      for _, site in ipairs(m.order) do
        if site.predicted then
          rows[site.name] = rows[site.name] or {}
          rows[site.name][k] = site.value
        end
      end
    end
  end)
  core.set_no_grad(before)
  if not ok then
    error(message, 0)
  end
  for name, list in pairs(rows) do
    rows[name] = core.stack(list, 1)
  end
  return rows
end

--- Posterior predictive checks of the guide's draws, as posterior:check makes them.
function methods:check(given)
  local value
  if self.automatic then
    value = self.guide.target:values_at(self.guide:draw_real(1)[1])
  end
  return require("penumbra.infer.predictive").check(self, given, value)
end

local class = { __name = "fit", __index = core.namespace("a fit", methods) }

function class.__tostring(self)
  local n = #self.losses
  local last, count = 0, math.min(n, math.max(1, n // 10))
  for k = n - count + 1, n do
    last = last + self.losses[k] / count
  end
  local name = self.automatic and self.guide.name or "a guide of one's own"
  return ("svi, %s: %d steps in %.1f s, bound %.4f (mean of the last %d steps)"):format(name, n, self.seconds, -last,
    count)
end

local function make_guide(self, given)
  if type(given) == "string" then
    given = guides.new(given)
  end
  if guides.is_plan(given) then
    self.automatic = true
    self.guide = guides.make(given, target.new(self.model, self.args))
  elseif model.is(given) then
    self.guide = given
    self.how = explore_pair(self)
  else
    core.error(("svi: guide must be a model, a guide of pn.infer.guide or the name of one, got %s"):format(type(given)))
  end
end

local function check_estimator(self)
  if self.estimator == "elbo" then
    return
  end
  local infer = require "penumbra.infer"
  local known = { iwae = true, renyi = true, vimco = true }
  if not known[self.estimator] or not infer[self.estimator] then
    core.error(("svi: estimator must be one of 'elbo', 'iwae', 'renyi', 'vimco', got '%s'"):format(
      tostring(self.estimator)))
  elseif self.automatic then
    core.error "svi: automatic guides have the estimator 'elbo'"
  end
end

--- svi(model, guide, options) -> a fit (pn.help "penumbra.infer.svi").
---
--- guide       a pn.model with the latent sites of the model, or "delta", "mean_field", "full_rank", "low_rank", "flow",
---             "laplace" (pn.help "penumbra.infer.guide")
--- data        list of the arguments after m, of model and guide
--- steps       1000
--- lr          0.01, of Adam; from the half of the steps on it falls to a hundredth. schedule: a function of the step that
---             gives the rate instead; optimiser: a function of the parameters that gives another one
--- particles   draws per step: 1; vectorised = true: side by side along an axis before the plates
--- estimator   "elbo", "iwae", "renyi", "vimco"
--- divergence  "analytic" (where there is a closed form) or "monte_carlo"
--- compile     true: steps are captured once and replayed
--- on_step     function of the fit, the step and its loss; false stops
--- progress    true for a line on standard error, or a file
function svi.svi(m, guide, given)
  local o = options.check("svi", given, svi_options)
  if not model.is(m) then
    core.error(("svi: needs a model (pn.model), got %s"):format(type(m)))
  end
  is_count("svi", "particles", o.particles)
  if math.type(o.steps) ~= "integer" or o.steps < 0 then
    core.error(("svi: steps must be a whole number from 0 on, got %s"):format(tostring(o.steps)))
  end
  local self = setmetatable({ model = m, args = model.packed(o.data), particles = o.particles, vectorised = o.vectorised,
    estimator = o.estimator, divergence = o.divergence, losses = {}, seconds = 0, schedule = o.schedule,
    on_step = o.on_step, progress = o.progress }, class)
  make_guide(self, guide)
  check_estimator(self)
  local loss = loss_function(self)
  local first = loss() -- makes the parameters
  local entries = named_parameters(self)
  local list, names = {}, {}
  for k, entry in ipairs(entries) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  check_trained(first, list)
  self.lr = not o.optimiser and o.lr or nil
  self.optimiser = o.optimiser and o.optimiser(list) or optim.adam(list, { lr = o.lr })
  if o.compile then
    self.step = replay.compile(loss, { optimiser = self.optimiser, watch = m.body })
  else
    self.step = function()
      return self.optimiser:step(loss())
    end
  end
  return self:continue(o.steps)
end

return svi
