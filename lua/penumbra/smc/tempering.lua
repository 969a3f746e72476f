--- SMC samplers: a population of particles that is led from a law that can be drawn from, the prior, to a posterior,
--- and the evidence on the way.
---
---     local p = pn.smc.sample(model, {data = {x, y}, num_particles = 2000})
---     print(p)                     a posterior as pn.nuts gives one (pn.help "penumbra.infer.posterior")
---     p.log_evidence               {value =, se =}: log p(data) and its standard error from this one run
---     p.ladder                     list of {level, ess, moves, accept, step_size, mixing, log_evidence}
---
--- Between the two stand the densities  q0(z) (p(z) / q0(z))^beta  of the unconstrained vector z, 0 = beta_0 < beta_1
--- ... = 1: from the prior q0 the likelihood is raised to the power beta. Each beta is the largest at which the
--- incremental weights have an effective sample size of threshold N; particles are resampled, systematically, and
--- moved by Markov kernels of the density reached: random-walk Metropolis or Hamiltonian trajectories in the
--- coordinates in which the covariance of the population's other half is one. Moves are repeated until no coordinate's
--- correlation with where particles stood is above 1 - mixing.
---
--- Del Moral, Doucet & Jasra 2006 (the sampler); Jasra, Stephens, Doucet & Tsagaris 2011 (the ladder); Buchholz,
--- Chopin & Jacob 2021 (how many moves); Dau & Chopin 2022 (waste_free: all states of the chains are particles);
--- Chopin 2002 (by = "data": observations are taken in one after another instead).
-- help: pn.smc
local core = require "penumbra.core"
local evidence_error = require "penumbra.smc.evidence_error"
local island_sampler = require "penumbra.smc.island_sampler"
local islands = require "penumbra.smc.islands"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local dist = require "penumbra.distribution"
local target = require "penumbra.infer.target"

local tempering = {}

local float64 = { dtype = "float64" }

-- ---- weights ----

local function effective_sample_size(log_w)
  return math.exp(2 * log_w:logsumexp(1):item() - (log_w * 2):logsumexp(1):item())
end

-- What has no value counts as density 0.
local function settled(x)
  return core.where(x:eq(x), x, core.full({ 1 }, -math.huge, float64))
end

-- N places of log-weights [K], which stand in order: with u uniform on (0, 1), place i is the first whose cumulated
-- weight exceeds (i + u) / N. int64 [N].
local function systematic(log_w, n, generator)
  local k = log_w:size(1)
  local u = core.rand({ 1 }, { generator = generator, dtype = "float64" })
  local last = ((log_w:softmax(1):cumsum(1) * n - u):ceil()):clamp(0, n):slice(1, 1, k - 1) -- points below each
  local marks = core.zeros({ n + 1 }, float64):scatter_add(1, last:to "int64", core.ones({ k - 1 }, float64))
  return marks:cumsum(1):slice(1, 1, n):to "int64"
end

-- ---- densities: q0 and the steps from there ----

-- log q0(z), 0-d, and the log factors [T] that are taken in: the whole likelihood, by its powers, or observations one
-- after another. Level b has the density q0 times the factors, each to the power of its share (shares_at).
local function density_of(self, z)
  local prior, likelihood = self.target:log_parts(z, self.by_data)
  likelihood = likelihood:reshape { -1 }
  if not self.start then
    return prior, likelihood
  end
  local base = self.start:log_prob(z)
  return base, prior + likelihood - base
end

-- The powers [T] of the factors at a level: the temperature, or 1 for the first `level` observations and else 0; of a
-- level between two whole numbers what is over for the next observation.
local function shares_at(self, level, count)
  if not self.by_data then
    return level:reshape { 1 }
  end
  return (level - core.arange(0, count, float64)):clamp(0, 1)
end

local function compile_values(self)
  return replay.compile(function(z)
    local base, factors = density_of(self, z)
    return core.concatenate({ base:detach():reshape { 1 }, factors:detach() }, 1)
  end, { watch = self.target.model.body, plans = 1 })
end

-- z and the level in front -> gradient of the log density there, log q0, log factors.
local function compile_gradient(self)
  local zero = core.param(core.zeros({ self.size }, float64))
  return replay.compile(function(row)
    local z = row:slice(1, 2, self.size + 1) + zero
    local base, factors = density_of(self, z)
    local shares = shares_at(self, row:slice(1, 1, 1), factors:size(1))
    local g = core.grad(base + (factors * shares):sum(), { z })[1]
    return core.concatenate({ g, base:detach():reshape { 1 }, factors:detach() }, 1)
  end, { watch = self.target.model.body, plans = 1 })
end

-- The density of many points, by the plan of one.
local function population_of(self, compiled, row)
  self.target:from_start(function(z) return compiled(row(z)) end, 1, self.generator)
  return core.new_population(compiled)
end

-- Columns of evaluations as log q0 [N] and log factors [N, T].
local function parts_of(y, first)
  return settled(y:select(2, first)), settled(y:slice(2, first + 1, -1))
end

local function values_at(self, z) return parts_of(self.values:evaluate(z), 1) end

local function gradients_at(self, z, level)
  local y = self.gradients:evaluate(core.concatenate({ core.full({ z:size(1), 1 }, level, float64), z }, 2))
  local base, factors = parts_of(y, self.size + 1)
  return base, factors, y:slice(2, 1, self.size)
end

-- Log density of the particles at a level above 0.
local function log_density_at(self, particles, level)
  local whole = self.by_data and math.floor(level) or 0
  local value = whole > 0 and particles.base + particles.factors:slice(2, 1, whole):sum(2) or particles.base
  return level > whole and value + particles.factors:select(2, whole + 1) * (level - whole) or value
end

-- ---- the ladder ----

local function check_alive(log_w)
  local alive = log_w:gt(-math.huge):sum():item()
  if alive == 0 then
    core.error "sample: all particles have density 0: none of the start's draws lies where the posterior is"
  end
  return alive
end

-- The largest power up to `most` of which enough(power) holds, by bisection.
local function largest_power(self, enough, most, level)
  if enough(most) then
    return most
  end
  local low, high = 0, most
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if enough(middle) then
      low = middle
    else
      high = middle
    end
  end
  if level + low <= level then
    core.error(("sample: the ladder does not rise at level %g: the density cannot be reached from the start with "
      .. "%d particles"):format(level, self.n))
  end
  return low
end

local ladders = {}

-- The next temperature: bisection on the effective sample size of the incremental weights. Gives it and these.
function ladders.temperature(self, particles, level)
  local factor = particles.factors:select(2, 1)
  local least = self.threshold * check_alive(factor)
  local function enough(step) return effective_sample_size(factor * step) >= least end
  local step = largest_power(self, enough, 1 - level, level)
  return level + step, factor * step
end

-- The first observation with which the effective sample size falls below the threshold, or the last one. One that
-- would leave less than threshold^2 of the particles alone tells more than they can follow in one step, as an event of
-- many numbers does: it is taken in by powers, as by temperature.
function ladders.data(self, particles, level)
  local whole = math.floor(level)
  local left = whole + 1 - level -- of the next observation
  local steps = particles.factors:slice(2, whole + 1, -1)
  steps = steps * core.where(core.arange(steps:size(2)):eq(0), core.full({}, left, float64), core.ones({}, float64))
  local log_w = steps:cumsum(2)
  local log_sum = log_w:logsumexp(1)
  local ess = (log_sum * 2 - (log_w * 2):logsumexp(1)):exp():totable()
  local count = #ess
  for k, v in ipairs(ess) do
    if not (v >= self.threshold * self.n) then
      count = k
      break
    end
  end
  local alive = check_alive(log_w:select(2, count))
  local before = count > 1 and log_w:select(2, count - 1) or 0
  local power = 1
  if ess[count] < self.threshold ^ 2 * alive then
    local last, least = steps:select(2, count), self.threshold * alive
    power = largest_power(self, function(f) return effective_sample_size(before + last * f) >= least end, 1, 0)
    log_w = power < 1 and before + last * power or log_w:select(2, count)
  else
    log_w = log_w:select(2, count)
  end
  local done = power == 1 and count or count - 1
  if done > 0 then
    self.cumulated[#self.cumulated + 1] = log_sum:slice(1, 1, done) - math.log(self.n) + self.log_evidence
  end
  if power == 1 then
    return whole + count, log_w
  end
  return (count == 1 and level or whole + count - 1) + power * (count == 1 and left or 1), log_w
end

-- ---- moves ----

-- Lower Cholesky factor of the weighted covariance of z [N, d], drawn to its diagonal by d / (N + d).
local function factor_of(z, log_w)
  local n, d = z:size(1), z:size(2)
  local w = log_w:softmax(1):unsqueeze(2)
  local apart = z - (z * w):sum(1, true)
  apart = core.where(apart:isfinite(), apart, core.zeros({ 1 }, float64))
  local covariance = apart:t():matmul(apart * w)
  local diagonal = covariance * core.eye(d, float64) + core.eye(d, float64) * 1e-300
  local l = (covariance * (n / (n + d)) + diagonal * (d / (n + d))):cholesky()
  return l or diagonal:sqrt() -- particles that are all alike
end

-- Coordinates in which the covariance is about one, of M particles whose ancestors stood at `places` of N: those from
-- the first half of the population take the covariance of the second half and the other way round, so that no particle
-- has had a say in how it is moved. (With one covariance of all, the evidence is off by more than its error where N is
-- not far above the number of parameters of the covariance.)
local function frame_of(z, log_w, places)
  local n, d = z:size(1), z:size(2)
  local half = n // 2
  local log_halves = { log_w:slice(1, 1, half), log_w:slice(1, half + 1, n) }
  local first = math.tointeger(places:lt(half):sum():item())
  for _, log_half in ipairs(log_halves) do
    if not (log_half:logsumexp(1):item() > -math.huge) or effective_sample_size(log_half) < 2 * (d + 1) then
      return { { first = 1, last = places:size(1), factor = factor_of(z, log_w) } }
    end
  end
  local frame = {}
  if first > 0 then
    frame[1] = { first = 1, last = first, factor = factor_of(z:slice(1, half + 1, n), log_halves[2]) }
  end
  if first < places:size(1) then
    frame[#frame + 1] = { first = first + 1, last = places:size(1), factor = factor_of(z:slice(1, 1, half),
      log_halves[1]) }
  end
  return frame
end

-- f(rows, factor) of the parts of x [M, d] in a frame, put together.
local function in_frame(frame, x, f)
  local parts = {}
  for k, part in ipairs(frame) do
    parts[k] = f(x:slice(1, part.first, part.last), part.factor)
  end
  return core.concatenate(parts, 1)
end

-- Displacements u as those of z; gradients in z as those in u; z as coordinates.
local function outward(frame, u) return in_frame(frame, u, function(x, l) return x:matmul(l:t()) end) end
local function inward(frame, g) return in_frame(frame, g, function(x, l) return x:matmul(l) end) end
local function coordinates(z, l) return l:solve_triangular((z - z:mean(1, true)):t()):t() end
local function coordinates_in(frame, z) return in_frame(frame, z, coordinates) end

-- One Metropolis decision for all: which particles take the proposal, and the mean probability.
local function decide(self, log_ratio)
  log_ratio = settled(log_ratio)
  local u = core.rand({ log_ratio:size(1) }, { generator = self.generator, dtype = "float64" })
  return u:log():lt(log_ratio), log_ratio:clamp(-math.huge, 0):exp():mean():item()
end

local function normal_like(self, x)
  return core.randn(x:shape(), { generator = self.generator, dtype = "float64" })
end

local function picked(mask, a, b)
  return core.where(a:ndim() > 1 and mask:unsqueeze(2) or mask, a, b)
end

local function exchanged(mask, new, old)
  local particles = {}
  for name, value in pairs(new) do
    particles[name] = picked(mask, value, old[name])
  end
  return particles
end

local kernels = {}

-- u' = u + step normal. The acceptance that makes it fastest falls from 0.44 to 0.234 with the dimension (Roberts,
-- Gelman & Gilks 1997).
kernels.random_walk = {
  first_step = function(d) return 2.38 / math.sqrt(d) end,
  accept = function(d) return 0.234 + 0.206 / d end,
  propose = function(self, now, level, place)
    local u = now.u + normal_like(self, now.u) * self.step
    local z = place(u)
    local base, factors = values_at(self, z)
    local new = { u = u, z = z, base = base, factors = factors }
    return new, log_density_at(self, new, level) - log_density_at(self, now, level)
  end,
}

-- Leapfrogs of a quarter of a period, with a step that varies from move to move (Neal 2011).
kernels.hmc = {
  first_step = function(d) return d ^ -0.25 end,
  accept = function() return 0.8 end,
  propose = function(self, now, level, place, frame)
    local step = self.step * (0.8 + 0.4 * core.rand({}, { generator = self.generator, dtype = "float64" }):item())
    local count = math.max(1, math.min(64, math.floor(math.pi / 2 / step + 0.5)))
    local u, p = now.u, normal_like(self, now.u)
    local kinetic = p:square():sum(2)
    if not now.gradient then
      now.gradient = inward(frame, select(3, gradients_at(self, now.z, level)))
    end
    local z, base, factors, gradient = nil, nil, nil, now.gradient
    for _ = 1, count do
      p = p + gradient * (step / 2)
      u = u + p * step
      z = place(u)
      base, factors, gradient = gradients_at(self, z, level)
      gradient = inward(frame, gradient)
      p = p + gradient * (step / 2)
    end
    local new = { u = u, z = z, base = base, factors = factors, gradient = gradient }
    local lost = (kinetic - p:square():sum(2)) * 0.5
    return new, log_density_at(self, new, level) - log_density_at(self, now, level) + lost
  end,
}

-- One move of all particles; the step follows the acceptance.
local function move(self, now, level, place, frame)
  local new, log_ratio = self.kernel.propose(self, now, level, place, frame)
  local mask, accept = decide(self, log_ratio)
  self.step = math.min(math.max(self.step * math.exp(accept - self.accept), 1e-8), self.most_step)
  return exchanged(mask, new, now), accept
end

-- 1 less the largest correlation, among the covariance's coordinates, of where particles stand and where they stood.
-- (Their mean square displacement would do as well, but to stop at that prefers populations that are too wide.)
local function mixing_of(at, u)
  local now = at + u
  local a, b = at - at:mean(1, true), now - now:mean(1, true)
  local correlation = (a * b):sum(1) / (a:square():sum(1) * b:square():sum(1) + 1e-300):sqrt()
  return 1 - correlation:max():item()
end

local function standing(start)
  return { u = core.zeros(start.z:shape(), float64), z = start.z, base = start.base, factors = start.factors }
end

-- Moves until particles have forgotten where they stood.
local function move_until_mixed(self, start, level, frame, record)
  local at = coordinates_in(frame, start.z)
  local function place(u) return start.z + outward(frame, u) end
  local now = standing(start)
  local total, moves = 0, 0
  repeat
    local accept
    now, accept = move(self, now, level, place, frame)
    moves, total = moves + 1, total + accept
    record.mixing = mixing_of(at, now.u)
  until moves >= self.max_moves or record.mixing >= self.mixing
  record.moves, record.accept, record.step_size = moves, total / moves, self.step
  return { z = now.z, base = now.base, factors = now.factors }
end

-- Chains of `waste_free` states from each of the particles, all of which are kept: a chain's states stand together.
local function chains_of(self, start, level, frame, record)
  local count = self.waste_free
  local function place(u) return start.z + outward(frame, u) end
  local now = standing(start)
  local states, total = { now }, 0
  for k = 2, count do
    local accept
    now, accept = move(self, now, level, place, frame)
    states[k], total = now, total + accept
  end
  local all = {}
  for _, name in ipairs { "z", "base", "factors" } do
    local list = {}
    for k, state in ipairs(states) do
      list[k] = state[name]
    end
    local t = core.stack(list, 2)
    local shape = t:shape()
    all[name] = t:reshape { shape[1] * shape[2], table.unpack(shape, 3) }
  end
  record.moves, record.accept, record.step_size = count - 1, total / (count - 1), self.step
  record.mixing = mixing_of(coordinates_in(frame, start.z), now.u)
  return all
end

-- ---- the sampler ----

local function taken(particles, places)
  local new = {}
  for name, value in pairs(particles) do
    new[name] = value:take(1, places)
  end
  return new
end

-- Particles of the density at beta from those of the one before, weighted by log_w.
local function rejuvenated(self, particles, log_w, level, record)
  local places = systematic(log_w, self.waste_free and self.n // self.waste_free or self.n, self.generator)
  local frame = frame_of(particles.z, log_w, places)
  particles = taken(particles, places)
  if self.waste_free then
    self.account:resampled(places:unsqueeze(2):broadcast_to({ places:size(1), self.waste_free }):reshape { self.n })
    return chains_of(self, particles, level, frame, record)
  end
  self.account:resampled(places)
  return move_until_mixed(self, particles, level, frame, record)
end

local function first_particles(self)
  local z
  if self.start then
    z = self.start:sample({ self.n }, self.generator):detach():to "float64"
  else
    z = self.target:draw_priors(self.n, self.generator)
  end
  local base, factors = values_at(self, z)
  return { z = z, base = base, factors = factors }
end

-- The last level.
local function top_of(self, particles) return self.by_data and particles.factors:size(2) or 1 end

local function climb(self, particles, bar)
  local level, top, ladder = 0, top_of(self, particles), {}
  while level < top do
    local above, log_w = self.next_level(self, particles, level)
    local log_mean = self.account:add(log_w)
    if log_mean ~= log_mean or log_mean == math.huge then
      core.error(("sample: weights are not finite at level %g"):format(above))
    end
    local record = { level = above, ess = effective_sample_size(log_w) }
    self.log_evidence = self.log_evidence + log_mean
    record.log_evidence = self.log_evidence
    particles = rejuvenated(self, particles, log_w, above, record)
    ladder[#ladder + 1] = record
    if bar then
      bar:step(math.floor(100 * above / top) - math.floor(100 * level / top), "level", above, "accept", record.accept)
    end
    level = above
  end
  return particles, ladder
end

-- The law of z from which particles start, nil for the priors.
local function start_of(o, t)
  local from = o.start
  if from == "prior" then
    return nil
  elseif from == "normal" then
    return dist.normal(core.zeros({ t.size }, float64), o.scale):independent(1)
  end
  local law = from
  if type(from) == "table" and type(from.guide) == "table" and not model.is(from.guide) then
    local found = recording.off(from.guide.law, from.guide) -- a fit: its parameters as they are
    law = found
  end
  if not dist.is(law) or #law.event_shape ~= 1 or law.event_shape[1] ~= t.size then
    core.error(("sample: start must be 'prior', 'normal', a fit of pn.svi or a distribution of the %d unconstrained "
      .. "numbers, got %s"):format(t.size, type(from) == "string" and "'" .. from .. "'" or type(from)))
  end
  return law
end

local sample_options = { data = options.optional "table", num_particles = 1000, threshold = 0.5,
  by = options.choice("temperature", "data"),
  start = options.any "prior", scale = 2, kernel = options.choice("random_walk", "hmc"), max_moves = 100, mixing = 0.9,
  waste_free = options.optional "number", generator = options.optional(), progress = options.optional(),
  islands = options.optional "number", exchange = options.optional "number", distributed = false }

local function check_options(o)
  options.whole("sample", "num_particles", o.num_particles, 4)
  options.whole("sample", "max_moves", o.max_moves, 1)
  if not (o.threshold > 0 and o.threshold < 1) then
    core.error(("sample: threshold must lie between 0 and 1, got %g"):format(o.threshold))
  elseif not (o.mixing > 0 and o.mixing < 1) then
    core.error(("sample: mixing must lie between 0 and 1, got %g"):format(o.mixing))
  elseif not (o.scale > 0 and o.scale < math.huge) then
    core.error(("sample: scale must be positive, got %g"):format(o.scale))
  elseif o.waste_free then
    options.whole("sample", "waste_free", o.waste_free, 2)
    if o.num_particles % o.waste_free ~= 0 or o.num_particles < 2 * o.waste_free then
      core.error(("sample: num_particles must be a multiple of the length of chains, waste_free = %d, got %d"):format(
        o.waste_free, o.num_particles))
    end
  end
  if o.islands and o.by == "data" then
    core.error "sample: islands climb by = 'temperature'"
  end
end

local function warnings_of(self, ladder)
  local list, slow, least = {}, 0, math.huge
  for _, record in ipairs(ladder) do
    if not self.waste_free and record.mixing < self.mixing then
      slow, least = slow + 1, math.min(least, record.mixing)
    end
  end
  if slow > 0 then
    list[1] = ("at %d of %d levels particles remember where they stood after %d moves (correlations up to %.2f): more "
      .. "max_moves, or kernel = \"hmc\""):format(slow, #ladder, self.max_moves, 1 - least)
  end
  return list
end

local function posterior_of(self, m, args, particles, ladder, seconds)
  local last = ladder[#ladder]
  local log_density = log_density_at(self, particles, last.level)
  local function column(v) return core.full({ 1, self.n }, v, float64) end
  local p = posterior.new { model = m, args = args, target = self.target, particles = true,
    unconstrained = particles.z:unsqueeze(1), seconds = seconds, warnings = warnings_of(self, ladder),
    statistics = { log_density = log_density:unsqueeze(1), accept = column(last.accept) },
    log_evidence = self.log_evidence, log_evidence_error = self.account:error() }
  p.ladder = ladder
  p.log_evidences = self.by_data and core.concatenate(self.cumulated, 1) or nil
  return p
end

--- sample(model, options) -> a posterior (pn.help "penumbra.infer.posterior") of particles of equal weight, with
--- log_evidence, {value =, se =} in nats: an SMC sampler (pn.help "penumbra.smc.tempering").
---
--- data           list of the model's arguments after m. A plate takes all its rows, whatever its batch
--- num_particles  1000
--- start          "prior"; "normal": independent normals of the unconstrained numbers with standard deviation `scale`
---                (2), for models with flat variables (the evidence is then that of a flat density of 1); a fit of
---                pn.svi, or a distribution of the unconstrained vector [size]
--- threshold      0.5: effective share of the particles at each new temperature
--- by             "temperature"; "data": the observations (elements of observed sites, in order, an event of many
---                numbers being one) are taken in one after another, and particles are moved when their effective
---                share falls below threshold; one that alone would bring it below threshold^2 is taken in by powers
---                of its likelihood. Then p.log_evidences [T] has the log evidence of the first t observations
--- kernel         "random_walk" or "hmc" (gradients; for more than some ten numbers)
--- mixing         0.9: particles are moved until no coordinate's correlation with where they stood is above
---                1 - mixing, at most max_moves (100) times
--- waste_free     length of chains: num_particles / waste_free particles are resampled, and all states of the chains
---                from them are particles
--- islands        M: so many populations of num_particles each on one ladder of temperatures; whole ones are resampled
---                where the effective sample size of their weights is at most exchange (0.5) M, and at the end. Moves
---                follow the particles of an island: below some hundred of them the evidence is off by a share of about
---                1 / num_particles, as that of one such population is
--- distributed    true: islands (one for each rank unless given) are shared out over the ranks of mpirun; all ranks
---                have the posterior, the same bits for any number of them
--- generator      a pn.generator
--- progress       true for a line on standard error, or a file; at the prompt true unless said otherwise
---
--- The standard error of the log evidence follows common ancestors over five levels.
function tempering.sample(m, given)
  local o = options.check("sample", given, sample_options)
  if not model.is(m) then
    core.error(("sample: needs a model (pn.model), got %s"):format(type(m)))
  end
  local team = islands.team("sample", o)
  check_options(o)
  local clock, args = core.clock(), model.packed(o.data)
  local t = target.new(m, args, o.generator, true):repeated "sample"
  local self = { target = t, size = t.size, n = o.num_particles, threshold = o.threshold, mixing = o.mixing,
    max_moves = o.max_moves, waste_free = o.waste_free or false, kernel = kernels[o.kernel],
    generator = o.generator, start = start_of(o, t) or false, values = false, gradients = false,
    account = evidence_error.new(o.num_particles * (o.islands or 1)), count = o.islands, team = team,
    first_particles = first_particles, rejuvenated = rejuvenated, largest_power = largest_power,
    by_data = o.by == "data", next_level = ladders[o.by], cumulated = {}, log_evidence = 0 }
  if self.by_data and self.start then
    core.error "sample: by = 'data' starts from the prior"
  end
  self.step, self.accept = self.kernel.first_step(t.size), self.kernel.accept(t.size)
  self.most_step = o.kernel == "hmc" and 2 or 100
  self.values = population_of(self, compile_values(self), function(z) return z end)
  if o.kernel == "hmc" then
    self.gradients = population_of(self, compile_gradient(self),
      function(z) return core.concatenate({ core.ones({ 1 }, float64), z }, 1) end)
  end
  local particles, ladder = recording.off(function()
    local bar <close> = progress.asked(not (team and team.rank > 0) and o.progress, { total = 100, label = "sample" })
    if team then
      return island_sampler.climb(self, o, bar)
    end
    return climb(self, first_particles(self), bar)
  end)
  self.n = self.n * (o.islands or 1)
  return posterior_of(self, m, args, particles, ladder, core.clock() - clock)
end

-- for penumbra.smc.nested
tempering.systematic, tempering.factor_of = systematic, factor_of
tempering.coordinates, tempering.mixing_of = coordinates, mixing_of

return tempering
