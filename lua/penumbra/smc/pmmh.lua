--- Particle marginal Metropolis-Hastings: a Markov chain of the parameters of a state-space model, in whose acceptance
--- a particle filter's unbiased estimate stands for the likelihood. The chain's law is the exact posterior whatever
--- the number of particles; with few it sticks.
---
---     local p = pn.smc.pmmh(model, {data = {y}, num_particles = 200, chains = 4, warmup = 500, draws = 1000})
---     print(p)                     a posterior as pn.nuts gives one
---     p.log_likelihood_sd          of the estimate near the posterior's mean: about 1 to 1.5 is best, above 2 chains
---                                  stick
---
--- Chains are the axis B of one filter [N, B] (pn.help "penumbra.smc.state_space"), captured once and replayed.
--- Proposals are normal in the unconstrained space; in warm-up their covariance follows that of all chains and their
--- scale the acceptance.
---
--- Andrieu, Doucet & Holenstein 2010; Doucet, Pitt, Deligiannidis & Kohn 2015, Sherlock, Thiery, Roberts & Rosenthal
--- 2015 (how many particles, which acceptance); Haario, Saksman & Tamminen 2001 (the covariance).
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local space = require "penumbra.smc.state_space"

local pmmh = {}

local float64 = { dtype = "float64" }

--- settled(x): x with -inf where it has no value. Internal.
function pmmh.settled(x)
  return core.where(x:eq(x), x, core.full({ 1 }, -math.huge, float64))
end

--- filter_of(self, form, lead): the function rows of parameters [B, n] -> log-likelihood estimates [B] of a machine
--- made anew of its options `form`. Internal.
function pmmh.filter_of(self, form, lead)
  return function(rows)
    local s, total, state = machine.new(form), nil, nil
    self:open(self:cut(rows), lead, function(process)
      for t = 1, process.steps do
        local increment
        state, increment = space.advance(process, s, lead, state, t)
        total = total and total + increment or increment
      end
      return state
    end)
    return total:to "float64"
  end
end

--- log_prior_of(self): the function z [B, size] -> log prior density [B] in the unconstrained space, -inf outside.
--- Internal.
function pmmh.log_prior_of(self)
  local compiled = replay.compile(function(z)
    return self.target:log_density(z, true, true):detach():reshape { 1 }
  end, { watch = self.target.model.body, plans = 1 })
  self.target:from_start(compiled, 1, self.generator)
  local many = core.new_population(compiled)
  return function(z) return pmmh.settled(many:evaluate(z):select(2, 1)) end
end

-- What says of parameters that the model is none there.
local OUTSIDE = { domain = true, nan = true, singular = true }

-- The rows of z, among first to last, at which f fails, found by halves; the others stand at `safe`.
local function find_outside(f, z, safe, first, last, found)
  local n = z:size(1)
  local place = core.arange(1, n + 1, float64)
  local asked = place:ge(first):to("float64") * place:le(last):to("float64")
  local ok, message = pcall(f, core.where(asked:gt(0):unsqueeze(2), z, safe))
  if ok then
    return
  elseif not OUTSIDE[core.raised_status(message)] then
    error(message, 0)
  elseif first == last then
    found[first] = -math.huge
    return
  end
  local middle = (first + last) // 2
  find_outside(f, z, safe, first, middle, found)
  find_outside(f, z, safe, middle + 1, last, found)
end

--- guarded(f, z, safe): f(z), and 0 [B]; where f fails because the model has no density at some rows of z [B, size], f
--- with those of `safe` in their place, and -inf there. Internal.
function pmmh.guarded(f, z, safe)
  local n = z:size(1)
  local outside = core.zeros({ n }, float64)
  for _ = 1, 5 do -- draws may fail elsewhere another time
    local at = core.where(outside:eq(0):unsqueeze(2), z, safe)
    local ok, result = pcall(f, at)
    if ok then
      return result, outside
    elseif not OUTSIDE[core.raised_status(result)] then
      error(result, 0)
    end
    local found = {}
    for k = 1, n do
      found[k] = 0
    end
    find_outside(f, at, safe, 1, n, found)
    outside = outside + core.tensor(found)
  end
  return f(core.where(outside:eq(0):unsqueeze(2), z, safe)), outside
end

-- ---- the chains ----

local function uniform_logs(self, n)
  return core.rand({ n }, { generator = self.generator, dtype = "float64" }):log()
end

-- One Metropolis step of all chains, in place.
local function step(self, now)
  local shift = core.randn(now.z:shape(), { generator = self.generator, dtype = "float64" })
  local z = now.z + shift:matmul(self.factor:t()) * self.scale
  local prior = self.log_prior(z)
  local inside = prior:gt(-math.huge)
  local likelihood, possible = pmmh.guarded(self.of_z, core.where(inside:unsqueeze(2), z, now.z), now.z)
  likelihood = pmmh.settled(likelihood + possible)
  local log_ratio = pmmh.settled(prior + likelihood - now.prior - now.likelihood)
  local taken = uniform_logs(self, z:size(1)):lt(log_ratio)
  now.z = core.where(taken:unsqueeze(2), z, now.z)
  now.prior, now.likelihood = core.where(taken, prior, now.prior), core.where(taken, likelihood, now.likelihood)
  now.taken = taken:to "float64"
  return log_ratio:clamp(-math.huge, 0):exp():mean():item()
end

-- Chains start from the best of some draws of the prior.
local function first(self, tries, safe)
  local now
  for _ = 1, tries do
    local z = self.target:draw_priors(self.chains, self.generator)
    local prior = self.log_prior(z)
    local likelihood, possible = pmmh.guarded(self.of_z, z, safe)
    likelihood = pmmh.settled(likelihood + possible)
    if not now then
      now = { z = z, prior = prior, likelihood = likelihood }
    else
      local better = likelihood:gt(now.likelihood)
      now.z = core.where(better:unsqueeze(2), z, now.z)
      now.prior = core.where(better, prior, now.prior)
      now.likelihood = core.where(better, likelihood, now.likelihood)
    end
  end
  if not (now.likelihood + now.prior):isfinite():all():item() then
    self:explain()
    core.error(("pmmh: no start with positive likelihood was found in %d draws of the prior (give init, or more "
      .. "particles)"):format(tries))
  end
  return now
end

local function covariance_factor(z)
  local n, d = z:size(1), z:size(2)
  local apart = z - z:mean(1, true)
  local covariance = apart:t():matmul(apart) * (1 / n)
  local diagonal = covariance * core.eye(d, float64) + core.eye(d, float64) * 1e-12
  return (covariance * (n / (n + d)) + diagonal * (d / (n + d))):cholesky() or diagonal:sqrt()
end

--- start_proposal(self): a proposal a tenth as wide as the prior. Gives the draws of that. Internal.
function pmmh.start_proposal(self)
  local start = self.target:draw_priors(math.max(100, self.chains), self.generator)
  self.factor = covariance_factor(start) * 0.1
  self.log_scale = math.log(2.38 / math.sqrt(self.target.size))
  self.scale = math.exp(self.log_scale)
  return start
end

--- adapt(self, iteration, history, accept): the proposal's scale follows the acceptance, its covariance the later half
--- of what the chains have been through. Internal.
function pmmh.adapt(self, iteration, history, accept)
  self.log_scale = self.log_scale + (accept - self.target_accept) * math.max(1 / math.sqrt(iteration), 0.05) * 2
  self.scale = math.exp(self.log_scale)
  if iteration >= 50 and iteration % 25 == 0 then
    self.factor = covariance_factor(core.concatenate(table.move(history, #history // 2 + 1, #history, 1, {}), 1))
  end
end

local STATISTICS = { "log_density", "accept", "log_likelihood" }

local function run(self, o, bar)
  local now = o.init and self:start_at(o.init) or first(self, 10, self.safe)
  local history, draws, columns = {}, {}, {}
  for _, name in ipairs(STATISTICS) do
    columns[name] = {}
  end
  for k = 1, o.warmup + o.draws do
    local accept = step(self, now)
    if k <= o.warmup then
      history[k] = now.z
      pmmh.adapt(self, k, history, accept)
    else
      draws[k - o.warmup] = now.z
      for name, value in pairs { log_density = now.prior + now.likelihood, accept = now.taken,
        log_likelihood = now.likelihood } do
        columns[name][k - o.warmup] = value
      end
    end
    if bar then
      bar:step(1, "", k <= o.warmup and "warm-up" or "sampling", "accept", accept)
    end
  end
  for name, list in pairs(columns) do
    columns[name] = core.stack(list, 2)
  end
  return core.stack(draws, 2), columns
end

-- Runs the filter with all chains at one place where the model can be run: at init, or at the first draw of the prior
-- that is such. Gives it.
local function run_once(self, init, draws)
  local n, tries = self.target.size, init and 1 or draws:size(1)
  for k = 1, tries do
    local z = init and self.target:unconstrain(init) or draws[k]
    z = z:unsqueeze(1):broadcast_to({ self.chains, n }):contiguous()
    local ok, message = pcall(self.filter, self:rows_of(z))
    if ok then
      return z
    elseif k == tries or not OUTSIDE[core.raised_status(message)] then
      error(message, 0)
    end
  end
end

-- Standard deviation of the log-likelihood's estimate at the mean of the draws.
local function spread_of(self, draws)
  local z = draws:reshape({ -1, draws:size(3) }):mean(1, true):broadcast_to({ self.chains, draws:size(3) }):contiguous()
  local rows, list = self:rows_of(z), {}
  for k = 1, math.max(2, 40 // self.chains) do
    list[k] = self.filter(rows)
  end
  return core.concatenate(list, 1):std():item()
end

local known = options.merged({ num_particles = 200, resampling = machine.options.resampling, threshold = 0.5,
  chains = 4, warmup = 500,
  draws = 1000, target_accept = 0.2, init = options.optional "table", compile = true, progress = options.optional() },
  space.options)

--- The row [n] of parameters that a table name -> value gives, as z [B, size]. Internal.
local function start_at(self, init)
  local z = self.target:unconstrain(init):unsqueeze(1):broadcast_to({ self.chains, self.target.size }):contiguous()
  local now = { z = z, prior = self.log_prior(z), likelihood = self.filter(self:rows_of(z)) }
  if not (now.likelihood + now.prior):isfinite():all():item() then
    core.error "pmmh: the likelihood at init is not positive"
  end
  return now
end

--- pmmh(model, options) -> a posterior of the parameters (pn.help "penumbra.infer.posterior"); its statistics are
--- log_density, accept and log_likelihood [chains, draws].
---
--- model           a pn.model with m:scan, or a function (theta, data...): pn.help "penumbra.smc.state_space"
--- data            list of the model's arguments
--- parameters      of a function: priors, a table name -> distribution or a pn.model
--- state           names of sites outside of m:scan that belong to the state though they are not found in the carry
--- num_particles   200
--- resampling, threshold    as pn.smc has them
--- chains          4, side by side
--- warmup, draws   500, 1000 iterations of each chain
--- target_accept   0.2
--- init            table parameter -> value where all chains start; else the best of 10 draws of the prior
--- compile         true: the filter is captured and replayed; false for models that cannot be
--- generator, progress    as pn.nuts has them
---
--- Parameters at which a distribution of the model cannot be (a scale of 0) count as impossible.
function pmmh.pmmh(m, given)
  local o = options.check("pmmh", given, known)
  options.whole("pmmh", "draws", o.draws, 4)
  if not (o.target_accept > 0 and o.target_accept < 1) then
    core.error(("pmmh: target_accept must lie between 0 and 1, got %g"):format(o.target_accept))
  end
  local clock = core.clock()
  local self = space.new("pmmh", m, o):with_parameters(o.parameters)
  self.chains, self.target_accept, self.start_at = o.chains, o.target_accept, start_at
  local eager = pmmh.filter_of(self, { num_particles = o.num_particles, resampling = o.resampling,
    threshold = o.threshold, batch_shape = { o.chains }, degenerate = "zero", generator = o.generator },
    { o.num_particles, o.chains })
  local draws, columns, spread = recording.off(function()
    local bar <close> = progress.asked(o.progress, { total = o.warmup + o.draws, label = "pmmh" })
    self.log_prior = pmmh.log_prior_of(self)
    local start = pmmh.start_proposal(self)
    self.filter = eager
    self.safe = run_once(self, o.init, start) -- outside of a capture
    self.of_z = function(z) return self.filter(self:rows_of(z)) end
    if o.compile then
      self.filter = replay.compile(eager, { watch = self.functions and m or m.body, plans = 1 })
    end
    local z, statistics = run(self, o, bar)
    return z, statistics, spread_of(self, z)
  end)
  local p = posterior.new { model = self.target.model, args = self.target.args, target = self.target,
    unconstrained = draws, statistics = columns, seconds = core.clock() - clock }
  p.log_likelihood_sd = spread
  if spread > 2 then
    p.warnings[#p.warnings + 1] = ("the log-likelihood's estimate has standard deviation %.1f near the mean, above 2: "
      .. "chains stick; more particles"):format(spread)
  end
  return p
end

return pmmh
