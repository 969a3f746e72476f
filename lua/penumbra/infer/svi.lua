--- Stochastic variational inference: a guide q is fitted to the posterior of a model by following the gradient of a
--- lower bound on the log evidence.
---
---     local fit = pn.svi(model, "mean_field", {data = {x, y}, steps = 2000})
---     local fit = pn.svi(model, guide, {data = {x, y}, lr = 1e-3})   -- guide: a pn.model of one's own
---     fit.losses                    the negative bound at each step
---     fit.rise                      nats by which the bound rose in the third quarter of the steps; 0 if no more than
---                                   noise. Where it did, take more steps
---     fit:sample(1000)              draws of q by site [1000, ...]
---     fit:summary()                 a line for each number
---     fit:bound{draws = 1000}       the importance-weighted bound of the whole data, and its ELBO
---     fit:k_hat()                   Pareto k-hat of the importance weights p / q: above 0.7, q is not near the
---                                   posterior
---     fit:resample(1000)            draws of q picked by these weights: of the posterior itself where k-hat allows
---     fit:predict{data = ...}       draws of what is observed given draws of q
---     fit:check{statistic = f}      posterior predictive checks: p-values and a picture
---     fit:continue(1000)            more steps
---     fit:save_arviz(path)          draws as ArviZ reads them
---     fit:save(path)    pn.restore(path, {model =, guide =, data =}) for going on tomorrow
---
--- The bound is the sum over sites of E_q[log p] - E_q[log q], each counted as its plates say (size / batch of their
--- rows), so it is in nats for the whole data however small the minibatch. Where a pair of laws has a divergence in
--- closed form it is used. What q draws without a path for the gradient (labels, counts) takes the score function with
--- the mean of the other particles as baseline.
-- help: pn, methods fit
local core = require "penumbra.core"
local arviz_groups = require "penumbra.infer.arviz_groups"
local data = require "penumbra.data"
local estimate = require "penumbra.estimate"
local form = require "penumbra.form"
local guides = require "penumbra.infer.guide"
local kept = require "penumbra.optim.kept"
local log_weights = require "penumbra.infer.log_weights"
local losses = require "penumbra.infer.losses"
local model = require "penumbra.infer.model"
local objective = require "penumbra.infer.objective"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local predictive = require "penumbra.infer.predictive"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local saved = require "penumbra.saved"
local target = require "penumbra.infer.target"

local svi = {}

local svi_options = {
  data = options.optional "table", steps = 4000, lr = 0.01, optimiser = options.optional(), draws = 1,
  vectorised = false, estimator = options.any "elbo", divergence = options.choice("analytic", "monte_carlo"),
  compile = true, schedule = options.optional "function", on_step = options.optional "function",
  progress = options.optional(),
}

-- What is trained: each parameter once; those of a guide of one's own have names of their own.
local function named_parameters(self)
  local list, seen = {}, {}
  local function add(from, prefix)
    for _, entry in ipairs(from:named_parameters()) do
      local id = core.identity(entry[2])
      if not seen[id] then
        seen[id] = true
        list[#list + 1] = { prefix .. entry[1], entry[2] }
      end
    end
  end
  add(self.model, "")
  add(self.guide, self.automatic and "" or "guide.")
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
  if self.estimator == "elbo" then
    return function()
      return self.automatic and -self.guide.bound(self.guide, self.particles) or objective.negative_elbo(self, self.how)
    end
  end
  local rows = not self.automatic and self.plate and self.plate.size or 1
  return function()
    return objective.estimate(self, self.how) * -rows
  end
end

local methods = {}

-- Share of the learning rate at a fraction of the steps: whole for the first half, then along half a cosine to 1 %, so
-- that the noise of the gradient dies out.
local function settling(t)
  return t < 0.5 and 1 or 0.01 + 0.99 * 0.5 * (1 + math.cos(2 * math.pi * (t - 0.5)))
end

local function take_steps(self, steps, bar)
  local step, trail, optimiser, schedule, on_step = self.step, self.losses, self.optimiser, self.schedule, self.on_step
  local rate, last = self.lr, nil
  for k = 1, steps do
    local n = #trail + 1
    local lr = schedule and schedule(n) or rate and rate * settling((k - 1) / steps)
    if lr and lr ~= last then
      optimiser.lr, last = lr, lr
    end
    local loss = step()
    trail[n] = loss
    if bar then
      bar:step(1, "loss", loss)
    end
    if on_step and on_step(self, n, loss) == false then
      return
    end
  end
end

--- Makes `steps` further steps. Returns the fit. Its field rise says by how much the bound still rose, fall by how much
--- it has fallen, which happens to steps that are too long.
function methods:continue(steps)
  steps = options.whole("continue", "steps", steps, 0)
  local start, first = core.clock(), #self.losses + 1
  do
    local bar <close> = steps > 0 and progress.asked(self.progress, { total = steps, label = "svi" })
    take_steps(self, steps, bar)
  end
  if self.automatic and self.guide.kind.finish then
    self.guide.kind.finish(self.guide)
  end
  self.seconds = self.seconds + core.clock() - start
  self.rise = losses.rise(self.losses, first)
  if #self.losses > self.judged * 1.05 then -- fewer move no median of a tenth
    self.fall, self.judged = losses.fall(self.losses), #self.losses
  end
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
    local g = recording.off(model.run, self.guide, self.args, {})
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

--- Mean, standard deviation and quantiles of n (1000) draws of the guide, a line for each number.
function methods:summary(n)
  is_count("summary", "n", n or 1000)
  local sites, order = guide_draws(self, n or 1000)
  return posterior.summary_of(sites, order, true)
end

-- Calls take(rows) with log-weights [k, B] until there are n.
local function each_weight(self, n, take)
  if self.automatic then
    if not self.guide.log_weights then
      core.error(("log_weights: a guide '%s' has no density"):format(self.guide.name))
    end
    return take(self.guide:log_weights(n))
  end
  local how = objective.how { enumerate = self.enumerates, most = self.enumerates and self.most or nil, whole = true }
  local function weights()
    local t = objective.densities(self, how)
    return (t.log_p - t.log_q):detach():unsqueeze(1)
  end
  if self.compile and not self.compiled_weights then
    self.compiled_weights = replay.compile(weights, { watch = self.model.body, plans = 1 })
  end
  for _ = 1, n do
    take((self.compiled_weights or weights)())
  end
end

--- n (1000) log-weights log p(x, data) - log q(x) of draws of the guide on all rows of the data: [n, 1], or [n, B]
--- where every latent variable belongs to a row of one plate.
function methods:log_weights(n)
  is_count("log_weights", "n", n or 1000)
  local list = {}
  recording.off(each_weight, self, n or 1000, function(w)
    list[#list + 1] = w
  end)
  return #list > 1 and core.concatenate(list, 1) or list[1]
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
  local log_w, z = self.guide:log_weights(draws)
  local smooth, k_hat = log_weights.psis(log_w)
  local sites = at_sites(self, log_weights.sir(smooth, n, { values = z:unsqueeze(2) }):squeeze(2))
  for name, t in pairs(sites) do
    sites[name] = t:squeeze(1)
  end
  return sites, k_hat:item()
end

local bound_options = { draws = 1000 }

--- The importance-weighted bound of `draws` (1000) draws in nats for all data: a table with `value`, `se`, its standard
--- error (by the delta method; it means something where k_hat is below 0.7), and `elbo`, from the same draws. In
--- constant memory, however many the draws.
function methods:bound(given)
  local o = options.check("bound", given, bound_options)
  local stream = log_weights.stream {}
  recording.off(each_weight, self, o.draws, function(w)
    stream:add(w:dtype() == "float64" and w or w:to "float64")
  end)
  local error_of = stream:standard_error()
  return estimate.new(stream:log_mean():sum():item(), error_of:square():sum():sqrt():item(),
    { elbo = stream:elbo():sum():item() })
end

--- Pareto k-hat of n (1000) importance weights, the largest where rows have weights of their own: below 0.7 the guide
--- can be corrected by weighting its draws, above it misses part of the posterior; -inf where all weights are alike.
--- Second result: the k-hat of each, a tensor. Vehtari et al. 2024.
function methods:k_hat(n)
  is_count("k_hat", "n", n or 1000)
  local w = self:log_weights(n or 1000)
  local _, k = log_weights.psis(w)
  local alike = (w:max(1) - w:min(1)):lt(1e-8) -- the tail is one of rounding
  k = core.where(alike, core.full({ 1 }, -math.huge, { dtype = k:dtype() }), k)
  return k:max():item(), k
end

--- Table name -> copy of all parameters of model and guide: for pn.save.
function methods:state()
  local state = {}
  for _, entry in ipairs(named_parameters(self)) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

-- What the state of a fit must be.
local function parameters_form(self)
  local fields = {}
  for _, entry in ipairs(named_parameters(self)) do
    fields[entry[1]] = form.tensor { like = entry[2], finite = true }
  end
  return form.record(fields, "a parameter of this fit")
end

local function put(self, state)
  for _, entry in ipairs(named_parameters(self)) do
    entry[2]:set(state[entry[1]])
  end
end

-- A step of form.all_or_nothing: takes over a state that has been looked at.
local function taking(self, state)
  local before, guide = self:state(), self.automatic and self.guide
  local normal = guide and guide.normal
  return {
    load = function()
      put(self, state)
      if guide and guide.kind.finish then
        guide.kind.finish(guide)
      end
    end,
    undo = function()
      put(self, before)
      if guide then
        guide.normal = normal
      end
    end,
  }
end

--- Sets the parameters from what state() gave. Everything is checked first, so on an error nothing has changed.
function methods:load_state(state)
  form.check("load_state", "state", state, parameters_form(self))
  local ok, message = form.all_or_nothing { taking(self, state) }
  return ok and self or error(message, 0)
end

--- Writes parameters, losses and the optimiser's state to a safetensors file, of which pn.restore makes the fit
--- again. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  return data.save_safetensors(path, { parameters = self:state(), losses = core.tensor(self.losses),
    optimiser = self.optimiser:state(), seconds = self.seconds }, { format = "penumbra fit" })
end

--- Writes draws of the guide as ArviZ reads them (arviz.from_zarr(path)): a Zarr store with the groups posterior, one
--- chain, and observed_data. Options: draws (1000), dims, coords as of p:save_arviz. Returns true, or nil, message,
--- code.
function methods:save_arviz(path, given)
  return arviz_groups.save_fit(self, path, given)
end

local fit_file = saved.file {
  noun = "fit that fit:save has written",
  is = function(_, metadata) return metadata.format == "penumbra fit" end,
  form = function(_, self)
    return form.record { parameters = parameters_form(self), optimiser = form.map(form.tensor {}),
      losses = form.tensor { dtype = { "float64", "float32" }, shape = { -1 }, finite = true },
      seconds = form.number { least = 0 } }
  end,
}

-- The fit with what fit:save of one of the same model and guide has written, or nil, message, code.
local function filled(self, path)
  local found, message, code = saved.read("restore", path, fit_file, self)
  if not found then
    return nil, message, code
  end
  local ok
  ok, message, code = saved.load("restore", path, {
    { load = function() self.optimiser:load_state(found.optimiser) end,
      undo = kept.of(self.optimiser) },
    taking(self, found.parameters),
  })
  if not ok then
    return nil, message, code
  end
  self.losses, self.seconds = found.losses:totable(), found.seconds
  self.fall, self.judged = losses.fall(self.losses), #self.losses
  return self
end

local predict_options = { data = options.optional "table", draws = 1000 }

--- Draws of the observed sites given draws of the guide, by site [draws, ...]. Options: data, other arguments for the
--- model; draws (1000).
function methods:predict(given)
  local o = options.check("predict", given, predict_options)
  local args = o.data and model.packed(o.data) or self.args
  if self.automatic then
    return posterior.predicted(self.guide.target, self.model, args, self.guide:draw_real(o.draws))
  end
  local rows = {}
  recording.off(function()
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
  return predictive.check(self, given, value)
end

local class = { __name = "fit", __index = core.namespace("a fit", methods) }

function class.__tostring(self)
  local n = #self.losses
  local last, count = 0, math.min(n, math.max(1, n // 10))
  for k = n - count + 1, n do
    last = last + self.losses[k] / count
  end
  local name = self.automatic and self.guide.name or "a guide of one's own"
  local text = ("svi, %s: %d steps in %.1f s"):format(name, n, self.seconds)
  local shown = (math.abs(last) < 1e9 and "%.3f" or "%.4g"):format(-last)
  text = n > 0 and ("%s, bound %s (last %d steps)"):format(text, shown, count) or text
  if self.fall > 0 then
    return ("%s, DIVERGED: the bound fell by %.4g from its best tenth of the steps to the last, take a smaller lr")
      :format(text, self.fall)
  end
  return self.rise > 0 and ("%s, still rising: by %.1f in the third quarter of the steps, take more (fit:continue)")
    :format(text, self.rise) or text
end

local function check_estimator(self)
  local name = self.estimator
  if type(name) == "table" then
    self.estimator_options = table.move({}, 1, 0, 1, {})
    for key, value in pairs(name) do
      if key ~= 1 then
        self.estimator_options[key] = value
      end
    end
    name = name[1]
    self.estimator = name
  end
  local about = objective.estimators[name]
  if not about then
    local names = table.move(objective.names, 1, #objective.names, 1, {})
    table.sort(names)
    core.error(("svi: estimator must be one of '%s', got %s%s"):format(table.concat(names, "', '"),
      type(name) == "string" and "'" .. name .. "'" or type(name), options.suggestion(name, names)))
  elseif self.particles < about.least then
    core.error(("svi: estimator '%s' needs at least %d draws, got %d"):format(name, about.least, self.particles))
  end
end

-- An automatic guide draws along a path from a law that it knows.
local function check_automatic(self)
  if self.estimator == "elbo" then
    return
  end
  local plan, about = self.guide, objective.estimators[self.estimator]
  if about.constant or not plan.kind.law or plan.kind.finish then
    core.error(("svi: guide '%s' has the estimator%s, got '%s'"):format(plan.name, plan.kind.law
      and not plan.kind.finish
      and "s " .. objective.named(function(each) return not each.constant end) or " 'elbo'", self.estimator))
  end
  local plate = about.nonlinear and plan.target:taken_in_parts()
  if plate then
    core.error(("svi: estimator '%s' needs the whole of plate '%s', of which %d of %d rows are taken ('elbo' is linear "
      .. "and may)"):format(self.estimator, plate.name, plate.rows, plate.size))
  end
end

local function make_guide(self, given)
  if type(given) == "string" then
    given = guides.new(given)
  end
  if guides.is_plan(given) then
    self.automatic = true
    local t = target.new(self.model, self.args)
    self.guide = guides.make(given, given.name == "laplace" and t:repeated() or t)
    check_automatic(self)
    self.how = { path = objective.estimators[self.estimator].path }
  elseif model.is(given) then
    self.guide = given
    self.how = objective.explore(self)
  else
    core.error(("svi: guide must be a model, a guide of pn.infer.guide or the name of one, got %s"):format(type(given)))
  end
end

--- svi(model, guide, options) -> a fit (pn.help "penumbra.infer.svi").
---
--- guide       a pn.model with the latent sites of the model, or "delta", "mean_field", "full_rank", "low_rank",
---             "flow", "laplace" (pn.help "penumbra.infer.guide")
--- data        list of the arguments after m, of model and guide
--- steps       4000. tostring(fit) says so where the bound was still rising
--- lr          0.01, of Adam; from the half of the steps on it falls to a hundredth. schedule: a function of the step
---             that gives the rate instead; optimiser: a function of the parameters that gives another one
--- draws       of the guide per step: 1; vectorised = true: side by side along an axis before the plates
--- estimator   a bound of pn.infer: "elbo"; "sticking_the_landing"; of `draws` weights "iwae", "dreg", "renyi"; for
---             draws without a path "score_function", "vimco", "reweighted_wake_sleep". {"renyi", alpha = 0.3}: with
---             its options
--- divergence  "analytic" (where there is a closed form) or "monte_carlo"
--- compile     true: steps are captured once and replayed
--- on_step     function of the fit, the step and its loss; false stops
--- progress    true for a line on standard error, or a file; at the prompt true unless said otherwise
function svi.svi(m, guide, given)
  local o = options.check("svi", given, svi_options)
  if not model.is(m) then
    core.error(("svi: needs a model (pn.model), got %s"):format(type(m)))
  end
  local self = setmetatable({ model = m, args = model.packed(o.data), particles = o.draws,
    vectorised = o.vectorised, estimator = o.estimator, estimator_options = {}, divergence = o.divergence, losses = {},
    rise = 0, fall = 0, judged = 0, seconds = 0,
    schedule = o.schedule or false, on_step = o.on_step or false, progress = o.progress, compile = o.compile,
    automatic = false, plate = false, enumerates = false, compiled_weights = false, how = false }, class)
  check_estimator(self)
  make_guide(self, guide)
  local loss = loss_function(self)
  local first = loss() -- makes the parameters
  local entries = named_parameters(self)
  local list, names = {}, {}
  for k, entry in ipairs(entries) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  check_trained(first, list)
  self.lr = not o.optimiser and o.lr
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

svi.methods = methods
-- The methods of what this and its neighbours make, by what help calls the objects.
svi.objects = { ["m:"] = model.recorder, ["model:"] = model.methods, ["trace:"] = model.trace_methods,
  ["fit:"] = methods, ["p:"] = posterior.methods }

saved.restored_by(fit_file, function(path, given)
  local o = options.merged(given)
  local m, guide = o.model, o.guide
  if not model.is(m) or guide == nil then
    core.error "restore: a fit needs its model and guide, {model =, guide =, data =}"
  elseif o.steps ~= nil then
    core.error "restore: steps must be absent: fit:continue(steps) goes on"
  end
  o.model, o.guide, o.steps = nil, nil, 0
  return filled(svi.svi(m, guide, o), path)
end)

return svi
