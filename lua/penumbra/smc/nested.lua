--- SMC^2: particles of the parameters of a state-space model, each of which carries a particle filter, through the
--- data one observation after another.
---
---     local p = pn.smc.smc2(model, {data = {y}, num_parameters = 400, num_particles = 100})
---     print(p)                     a posterior as pn.smc.sample gives one, with log_evidence and its error
---     p.log_evidences              [T]: log p(y_1 .. y_t)
---     p.ladder                     list of {level, ess, moves, accept, num_particles, log_evidence}:
---                                  the rejuvenations
---
--- All filters are one, [N, M] for N particles of each of M sets of parameters. When the effective share of the sets
--- falls below the threshold they are resampled and moved by PMMH, whose proposal has 2.38^2 / size of their
--- covariance; when too few of these moves are accepted the filters get twice as many particles, the sets the weights
--- of the exchange.
---
--- Chopin, Jacob & Papaspiliopoulos 2013.
-- help: pn.smc
local core = require "penumbra.core"
local evidence_error = require "penumbra.smc.evidence_error"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local pmmh = require "penumbra.smc.pmmh"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local space = require "penumbra.smc.state_space"
local tempering = require "penumbra.smc.tempering"

local nested = {}

local float64 = { dtype = "float64" }

-- The filters of one set of parameters each: z [M, size], state, machine, log-likelihoods of y_1 .. y_t.
local function new_filters(self, z, prior, particles)
  local s = machine.new { num_particles = particles, resampling = self.resampling, threshold = self.share,
    batch_shape = { self.sets }, degenerate = "zero", generator = self.generator }
  return { z = z, prior = prior, rows = self:rows_of(z), machine = s, lead = { particles, self.sets }, t = 0,
    state = false, likelihood = core.zeros({ self.sets }, float64), particles = particles }
end

-- Goes on until step `last`, or until each(increment) gives true.
local function go_on(self, f, last, each)
  self:open(self:cut(f.rows), f.lead, function(process)
    for t = f.t + 1, last do
      local increment
      f.state, increment = space.advance(process, f.machine, f.lead, f.state or nil, t)
      increment = increment:to "float64"
      f.t, f.likelihood = t, f.likelihood + increment
      if each and each(increment) then
        break
      end
    end
    return f.state
  end)
  return f
end

-- The filters at `places` of all.
local function take_filters(f, places)
  f.z, f.rows = f.z:take(1, places), f.rows:take(1, places)
  f.prior, f.likelihood = f.prior:take(1, places), f.likelihood:take(1, places)
  f.state = space.each(f.state, f.lead, function(x) return x:take(2, places) end)
  local s = machine.core_of(f.machine)
  s:restore(s:get("weighed"):take(2, places))
end

-- mask [M]: where it is true those of `new`, else those of `old`.
local function exchange(mask, new, old)
  local function column(a, b) return core.where(mask:unsqueeze(2), a, b) end
  new.z, new.rows = column(new.z, old.z), column(new.rows, old.rows)
  new.prior, new.likelihood = core.where(mask, new.prior, old.prior), core.where(mask, new.likelihood, old.likelihood)
  new.state = space.pair(new.state, old.state, new.lead, function(a, b)
    local wide = mask
    for _ = 3, a:ndim() do
      wide = wide:unsqueeze(wide:ndim() + 1)
    end
    return core.where(wide, a, b)
  end)
  local s = machine.core_of(new.machine)
  s:restore(core.where(mask, s:get "weighed", machine.core_of(old.machine):get "weighed"))
  return new
end

-- One PMMH move of all sets. Gives the filters and the mean acceptance.
local function move(self, f, factor)
  local shift = core.randn(f.z:shape(), { generator = self.generator, dtype = "float64" })
  local z = f.z + shift:matmul(factor:t()) * self.scale
  local prior = self.log_prior(z)
  local inside = prior:gt(-math.huge)
  local new, possible = pmmh.guarded(function(at)
    return go_on(self, new_filters(self, at, prior, f.particles), f.t)
  end, core.where(inside:unsqueeze(2), z, f.z), f.z)
  new.likelihood = new.likelihood + possible
  local log_ratio = pmmh.settled(prior + new.likelihood - f.prior - f.likelihood)
  local u = core.rand({ self.sets }, { generator = self.generator, dtype = "float64" })
  local accept = log_ratio:clamp(-math.huge, 0):exp():mean():item()
  return exchange(u:log():lt(log_ratio), new, f), accept
end

-- Twice as many particles; the weights that make up for the other estimates (exchange by importance sampling).
local function grown(self, f)
  local new = go_on(self, new_filters(self, f.z, f.prior, 2 * f.particles), f.t)
  return new, pmmh.settled(new.likelihood - f.likelihood)
end

local function rejuvenate(self, f, record)
  local factor = tempering.factor_of(f.z, self.log_w)
  local places = tempering.systematic(self.log_w, self.sets, self.generator)
  take_filters(f, places)
  self.account:resampled(places)
  self.log_w = core.zeros({ self.sets }, float64)
  local total, coordinates = 0, tempering.coordinates(f.z, factor)
  local start = f.z
  record.moves = 0
  repeat
    local accept
    f, accept = move(self, f, factor)
    total, record.moves = total + accept, record.moves + 1
    local way = factor:solve_triangular((f.z - start):t()):t()
    record.mixing = tempering.mixing_of(coordinates, way)
  until record.moves >= self.max_moves or record.mixing >= self.mixing
  record.accept, record.num_particles = total / record.moves, f.particles
  if record.accept < self.least_accept and 2 * f.particles <= self.most_particles then
    f, self.log_w = grown(self, f)
  end
  return f
end

local function ess_of(log_w) return math.exp(2 * log_w:logsumexp(1):item() - (log_w * 2):logsumexp(1):item()) end

-- The block of weights since the last resampling enters the evidence.
local function close_block(self)
  self.log_evidence = self.log_evidence + self.account:add(self.log_w)
end

local function climb(self, bar)
  local z = self.target:draw_priors(self.sets, self.generator)
  local f = new_filters(self, z, self.log_prior(z), self.first_particles)
  local ladder = {}
  self.log_w = core.zeros({ self.sets }, float64)
  while f.t < self.steps do
    go_on(self, f, self.steps, function(increment)
      self.log_w = pmmh.settled(self.log_w + increment)
      local log_sum = self.log_w:logsumexp(1):item()
      if log_sum == -math.huge then
        core.error(("smc2: no set of parameters explains observation %d: more of them, or of their particles"):format(
          f.t))
      end
      self.log_evidences[f.t] = self.log_evidence + log_sum - math.log(self.sets)
      if bar then
        bar:step(1, "rejuvenations", #ladder, "particles", f.particles)
      end
      return f.t == self.steps or ess_of(self.log_w) < self.threshold * self.sets
    end)
    local record = { level = f.t, ess = ess_of(self.log_w) }
    close_block(self)
    record.log_evidence = self.log_evidence
    f = rejuvenate(self, f, record)
    ladder[#ladder + 1] = record
  end
  if self.log_w:abs():max():item() > 0 then -- weights of an exchange at the last step
    take_filters(f, tempering.systematic(self.log_w, self.sets, self.generator))
  end
  return f, ladder
end

local known = options.merged({ num_parameters = 400, num_particles = 100, resampling = machine.options.resampling,
  threshold = 0.5,
  max_moves = 10, mixing = 0.9, least_accept = 0.1, most_particles = 1 << 14,
  progress = options.optional() }, space.options)

local function check(o)
  for name, least in pairs { num_parameters = 4, max_moves = 1, most_particles = 1 } do
    o[name] = options.whole("smc2", name, o[name], least)
  end
  for _, name in ipairs { "threshold", "mixing" } do
    if not (o[name] > 0 and o[name] < 1) then
      core.error(("smc2: %s must lie between 0 and 1, got %g"):format(name, o[name]))
    end
  end
end

--- smc2(model, options) -> a posterior of the parameters with log_evidence, {value =, se =} in nats.
---
--- model           a pn.model with m:scan, or a function (theta, data...): pn.help "penumbra.smc.state_space"
--- data, parameters, state    as for pn.smc.pmmh
--- num_parameters  400 sets of parameters
--- num_particles   100, of each at first; doubled where less than least_accept (0.1) of the moves are accepted, up to
---                 most_particles (16384)
--- resampling      of the filters, adaptive
--- threshold       0.5: effective share of the sets below which they are resampled and moved
--- mixing          0.9: they are moved until no coordinate's correlation with where they stood is above 1 - mixing, at
---                 most max_moves (10) times
--- generator, progress    as pn.nuts has them
---
--- Moves to parameters at which a distribution of the model cannot be are refused; draws of the prior must not be such.
function nested.smc2(m, given)
  local o = options.check("smc2", given, known)
  check(o)
  local clock = core.clock()
  local self = space.new("smc2", m, o):with_parameters(o.parameters)
  self.sets, self.first_particles, self.resampling, self.share = o.num_parameters, o.num_particles, o.resampling, 0.5
  self.threshold, self.max_moves, self.mixing = o.threshold, o.max_moves, o.mixing
  self.least_accept, self.most_particles = o.least_accept, o.most_particles
  self.scale = 2.38 / math.sqrt(self.target.size)
  self.log_evidence, self.log_evidences, self.account = 0, {}, evidence_error.new(self.sets)
  local f, ladder = recording.off(function()
    local bar <close> = progress.asked(o.progress, { total = self.steps, label = "smc2" })
    self.log_prior = pmmh.log_prior_of(self)
    return climb(self, bar)
  end)
  local last = ladder[#ladder]
  local p = posterior.new { model = self.target.model, args = self.target.args, target = self.target, particles = true,
    unconstrained = f.z:unsqueeze(1), seconds = core.clock() - clock,
    statistics = { log_density = (f.prior + f.likelihood):unsqueeze(1), accept = core.full({ 1, self.sets },
      last.accept, float64) },
    log_evidence = self.log_evidence, log_evidence_error = self.account:error() }
  p.ladder, p.log_evidences = ladder, core.tensor(self.log_evidences)
  return p
end

return nested
