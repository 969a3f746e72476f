--- Acquisition that learns while labels come in (Haussmann, Hamprecht & Kandemir 2019; Haussmann 2021, chapter 4): a
--- Bayesian policy network looks at what the model predicts, as means and variances, of data thinned out of the ranking
--- by entropy, and picks one after the other; what the picks have done to the model is its reward.
---
---     pool = pn.active.pool{x = x, model = model, acquisition = {"reinforced", gamma = 0.95}, count = 5, ...}
---
--- Options, in brackets the document's words where it is of two minds:
---   kind           of the entropy that ranks: "binary" (the default of probits), "renormalised", "raw"
---   ranked         how many of the ranking are kept, most uncertain first (1000); every = 20, points = 50: of these
---                  the state has the first, the 21st, ...; what has been picked is taken out and the rest moves up
---   hidden         units of the policy network: 256 (table 4.5), or 500 (4.3)
---   precision      of the prior of its weights (100); posterior_scale, what they start with (e^-4.5)
---   lr             of the policy's Adam (1e-3), one step for each batch of labels
---   gamma          0.95; discount_first = false (pn.help "pn.active.returns")
---   diversity      share of different labels in a batch, added to the reward of its "last" step, of "each", or "none"
---   kl_weight      of the divergence of the policy's weights in its loss: 1, unscaled, as printed
---   policy         "learned"; "frozen" at its random start; "reset" to a new start after each batch
--- Rewards are improvements of the probability of the labels that came, under the model before and after training on
--- them: of probits the product over all classes, yes and no.
-- help: none
local acquisition = require "penumbra.active.acquisition"
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local reinforce = require "penumbra.active.reinforce"
local score = require "penumbra.active.score"
local dist = require "penumbra.distribution"
local nn = require "penumbra.nn"
local optim = require "penumbra.optim"

local reinforced = {}

local known = { kind = options.optional "string", ranked = 1000, every = 20, points = 50, hidden = 256,
  precision = 100, posterior_scale = math.exp(-4.5), lr = 1e-3, gamma = 0.95, discount_first = false,
  diversity = options.choice("last", "each", "none"), kl_weight = 1, policy = options.choice("learned", "frozen",
    "reset") }

local function check_options(where, given)
  local o = options.check(where, given, known)
  if o.kind then options.check(where, { kind = o.kind }, { kind = options.choice("renormalised", "binary", "raw") }) end
  for _, name in ipairs { "ranked", "every", "hidden" } do
    o[name] = options.whole(where, name, o[name], 1)
  end
  for _, name in ipairs { "precision", "posterior_scale", "lr", "kl_weight" } do
    local least = name == "kl_weight" and 0 or 1e-300
    if not (o[name] >= least and o[name] < math.huge) then
      core.error(("%s: %s must be a %s number, got %s"):format(where, name, least == 0 and "non-negative" or "positive",
        tostring(o[name])))
    end
  end
  if not (o.gamma >= 0 and o.gamma <= 1) then
    core.error(("%s: gamma must lie in 0 to 1, got %g"):format(where, o.gamma))
  end
  return o
end

-- ---- the policy ----

local function new_network(o, classes)
  local inner = nn.sequential { nn.linear(classes * o.points, o.hidden, { init = "he" }), nn.relu { rule = "clt" },
    nn.linear(o.hidden, o.points, { init = "he" }) }
  return nn.bayesian(inner, { prior = dist.normal(0, o.precision ^ -0.5), posterior_scale = o.posterior_scale })
end

--- log_policy(net, mean, variance, present): log of the probabilities a_m = Phi(g_m / sqrt(1 + h_m)) / sum over the
--- places that are there (equation 4.5), [..., points], -inf elsewhere. mean, variance [..., points classes]: the
--- state. present: bool [..., points]. With a gradient to the network, through the sum too.
function reinforced.log_policy(net, mean, variance, present)
  local g, h = net:moments(mean, variance)
  local each = core.where(present, (g / (h + 1):sqrt()):log_ndtr(), -math.huge)
  return each - each:logsumexp(-1, true)
end

-- The state: means and variances of the thinned places of the ranking as one row each [points classes], zeros where
-- the ranking is too short, and which places are there.
local function state_of(o, ranked, m, v)
  local n, C = ranked:size(1), m:size(2)
  local places = acquisition.thinned_places(n, o.every, o.points)
  local count = places:size(1)
  local at = ranked:take(1, places)
  local function row(t) return t:take(1, at):reshape { count * C }:pad(1, 0, (o.points - count) * C) end
  return { mean = row(m), variance = row(v), present = core.arange(o.points):lt(count), places = places, at = at }
end

reinforced.state_of = state_of

-- One of the places by its probabilities.
local function draw(log_p, generator)
  local sums = log_p:exp():cumsum(1)
  local u = core.rand({ 1 }, { dtype = sums:dtype(), generator = generator })
  return (u * sums:slice(1, -1, -1)):gt(sums):to("int64"):sum():item()
end

-- ---- the acquisition, which has a state of its own ----

local methods = {}

-- Means and variances [N, C] of the candidates; of a model without, those of logits of its draws.
local function outputs(s)
  local p, m, v = s.model:predict(s.x, s.generator)
  if m then return p, m, v end
  local draws = s.model:weight_draws(s.x, math.max(2, s.model.draws), s.generator)
  if not draws then
    core.error "ask: 'reinforced' needs means and variances of the outputs, or draws of the weights, and this model "
      "gives neither"
  end
  local logits = draws:clamp(1e-6, 1):log()
  return p, logits:mean(1), logits:var(1, 0)
end

--- choose(s): n places among the candidates, and what learning from their labels needs, a table to be kept.
function methods:choose(s)
  local o, p, m, v = self.options, outputs(s)
  local h = score.entropy_of(p, acquisition.kind_of(s.model, o.kind))
  local ranked = score.top(h, o.ranked)
  local dtype = "float64"
  m, v = m:to(dtype), v:to(dtype)
  local episode, places = { mean = {}, variance = {}, present = {}, action = {} }, {}
  for t = 1, math.min(s.n, ranked:size(1)) do
    local state = state_of(o, ranked, m, v)
    local log_p = recording.off(reinforced.log_policy, self.net, state.mean, state.variance, state.present)
    local a = draw(log_p, s.generator)
    places[t] = state.at[a + 1]:item()
    episode.action[t] = a
    for _, name in ipairs { "mean", "variance", "present" } do episode[name][t] = state[name] end
    local kept = core.arange(ranked:size(1)):ne(state.places[a + 1]:item())
    ranked = ranked[kept]
  end
  for _, name in ipairs { "mean", "variance", "present" } do
    episode[name] = #places > 0 and core.stack(episode[name], 1) or nil
  end
  episode.action = core.tensor(episode.action, { dtype = "int64" })
  return core.tensor(places, { dtype = "int64" }), episode
end

--- improvement(before, after, y, link): what training has done to the probability of the labels y [T], from
--- probabilities [T, classes] before and after. link "probit": product over all classes of p or 1 - p.
function reinforced.improvement(before, after, y, link)
  local function of(p)
    p = p:to "float64"
    local own = y:unsqueeze(2):eq(core.arange(p:size(2), { dtype = "int64" }))
    if link == "probit" then return core.where(own, p, 1 - p):prod(2) end
    return (p / p:sum(2, true)):gather(2, y:unsqueeze(2)):squeeze(2)
  end
  return of(after) - of(before)
end

--- diversity(y): how many different labels there are among y [T], as a share of T.
function reinforced.diversity(y)
  return y:unique():numel() / y:numel()
end

--- learn(episode, y, before, after, link, seed): a step of the policy for labels y [T] of the places chosen, -1 where
--- one was refused, which counts in nothing. Returns a table: rewards, returns, baseline, diversity, loss, kl.
function methods:learn(episode, y, before, after, link, seed)
  local o, labelled = self.options, y:ge(0)
  local given = y[labelled]
  local report = { rewards = {}, returns = {}, baseline = self.count > 0 and self.total / self.count or 0 }
  if given:numel() == 0 then return report end
  local seen = labelled:to "float64"
  local rewards = reinforced.improvement(before, after, y * y:ge(0):to "int64", link) * seen
  report.diversity = reinforced.diversity(given)
  if o.diversity == "each" then
    rewards = rewards + seen * report.diversity
  elseif o.diversity == "last" then
    local steps = core.arange(y:size(1))
    rewards = rewards + steps:eq((steps * seen):max()):to "float64" * report.diversity
  end
  local returns = reinforce.returns(rewards, { gamma = o.gamma, discount_first = o.discount_first })
  report.rewards, report.returns = rewards:totable(), returns:totable()
  if o.policy ~= "frozen" then
    local log_p = reinforced.log_policy(self.net, episode.mean, episode.variance, episode.present)
    local taken = log_p:gather(2, episode.action:unsqueeze(2)):squeeze(2)
    local kl = self.net:kl()
    local loss = reinforce.policy_loss(taken, returns, { baseline = report.baseline, weights = seen })
    report.loss, report.kl = loss:item(), kl:item()
    self.optimiser:step(loss + kl * o.kl_weight)
  end
  self.total, self.count = self.total + rewards:sum():item(), self.count + math.tointeger(seen:sum():item())
  if o.policy == "reset" then self:start(seed) end
  return report
end

--- start(seed): a new network and a new optimiser, from the seed.
function methods:start(seed)
  local before = core.rng_state()
  core.seed(seed)
  local ok, net = pcall(new_network, self.options, self.classes)
  core.set_rng_state(before)
  if not ok then error(net, 0) end
  if self.net then
    self.net:load_state(net:state())
  else
    self.net = net
  end
  self.optimiser = optim.adam(self.net, { lr = self.options.lr })
end

--- kept(): what a file holds of it beside what live() gives.
function methods:kept() return { total = self.total, count = self.count } end

--- live(): what a file loads by its state.
function methods:live() return { net = self.net, optimiser = self.optimiser } end

--- restore(found): what kept() gave.
function methods:restore(found) self.total, self.count = found.total, found.count end

reinforced.kept_form = form.record { total = form.number(), count = form.whole(0) }

--- episode_form(o, classes, n): the form of what choose gives beside places, of n of them.
function reinforced.episode_form(o, classes, n)
  local P, C = o.points, classes
  return form.record { mean = form.tensor { dtype = "float64", shape = { n, P * C }, finite = true },
    variance = form.tensor { dtype = "float64", shape = { n, P * C }, finite = true, least = 0 },
    present = form.tensor { dtype = "bool", shape = { n, P } },
    action = form.tensor { dtype = "int64", shape = { n }, least = 0, most = P - 1 } }
end

reinforced.options = known
reinforced.doc = "a policy network that learns which of the thinned ranking by entropy to pick, from what its picks "
  .. "have done to the model"

--- check(where, given): the options, complete.
reinforced.check = check_options

--- new(o, classes, seed): one of the options o, which `check` has seen.
function reinforced.new(o, classes, seed)
  local self = setmetatable({ options = o, classes = classes, total = 0.0, count = 0 }, { __index = methods })
  self:start(seed)
  return self
end

return reinforced
