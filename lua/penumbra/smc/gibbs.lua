--- Particle Gibbs with ancestor sampling: the path of a state-space model given its parameters by conditional SMC, the
--- parameters given the path by random-walk Metropolis, in turn.
---
---     local p = pn.smc.particle_gibbs(model, {data = {y}, num_particles = 50})
---     print(p)                     a posterior of the parameters as pn.nuts gives one
---     p.smoothed.x                 {mean = [T, ...], sd = [T, ...]}: moments of the site x given all of y
---
--- The model is a pn.model with m:scan whose carry is made of what is drawn at the step itself (x, not the noise of
--- x): the ancestor of the path that is kept is drawn anew at each step by how well a particle explains what follows,
--- which must then depend on the step's sites alone. Few particles do.
---
--- Lindsten, Jordan & Schon 2014; Andrieu, Doucet & Holenstein 2010.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"
local pmmh = require "penumbra.smc.pmmh"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"
local dist = require "penumbra.distribution"
local model = require "penumbra.infer.model"
local space = require "penumbra.smc.state_space"

local gibbs = {}

local float64 = { dtype = "float64" }

-- ---- paths: lists of tensors, [T, B, ...] of the sites of the scan, [B, ...] of those before it ----

local function categorical(log_w, sizes, generator)
  return dist.categorical { logits = log_w:t() }:sample(sizes, generator)
end

-- x [N, B, ...] at places [B]: [B, ...].
local function picked(x, places)
  local wide = places:unsqueeze(1)
  for axis = 3, x:ndim() do
    wide = wide:unsqueeze(axis)
  end
  local shape = x:shape()
  shape[1] = 1
  return x:gather(1, wide:broadcast_to(shape)):squeeze(1)
end

-- true for the last of N particles, for tensors of so many axes.
local function is_last(n, ndim)
  local shape = { n }
  for axis = 2, ndim do
    shape[axis] = 1
  end
  return core.arange(n, float64):eq(n - 1):reshape(shape)
end

-- The value of a site on the path: at time t of the scan, or before it.
local function on_path(self, path, site)
  local at = path[self.place[site.base]]
  return site.time and at:select(1, site.time[1]) or at
end

local function check_markov(state, lead)
  space.each(state, lead, function(x)
    if (x - x:slice(1, 1, 1)):abs():max():item() > 0 then
      core.error('particle_gibbs: the carry must be made of what the step itself draws: m:sample("x", law of x), not '
        .. "its noise")
    end
    return x
  end)
end

-- One path of each chain from where the last particles stand at `places`.
local function traced(self, kept, ancestors, first, places)
  local lists = {}
  for t = #kept, 1, -1 do
    for name, x in pairs(kept[t]) do
      if self.place[name] then
        lists[name] = lists[name] or {}
        lists[name][t] = picked(x, places)
      end
    end
    places = ancestors[t] and picked(ancestors[t], places) or places
  end
  local path = {}
  for k, name in ipairs(self.names) do
    path[k] = lists[name] and core.stack(lists[name], 1) or picked(first[name], places)
  end
  return path
end

-- A path of each chain: by conditional SMC given `path`, or by a plain filter where there is none.
local function sweep(self, rows, path)
  local n, lead = self.n, { self.n, self.chains }
  local as_reference, scored, first, result = false, {}, {}, nil
  local function drawn(site)
    if as_reference then
      return on_path(self, path, site):broadcast_to(table.move(site.dist.event_shape, 1, #site.dist.event_shape, 3,
        { n, self.chains }))
    end
    local x = site.dist:sample({}, { generator = self.generator })
    x = path and core.where(is_last(n, x:ndim()), on_path(self, path, site), x) or x
    if not site.time then
      first[site.name] = x
    end
    return x
  end
  self:open(self:cut(rows), lead, function(process)
    local state, log_w
    local kept, ancestors = {}, {}
    for t = 1, process.steps do
      if t > 1 then
        local a = categorical(log_w, { n }, self.generator)
        if path then
          as_reference = true
          local after, _, follows = process.advance(state, t)
          as_reference = false
          if not core.capture.going_on() then
            check_markov(after, lead)
          end
          a = core.where(is_last(n, 2), categorical(log_w + follows, {}, self.generator):unsqueeze(1), a)
        end
        state = space.each(state, lead, function(x) return core.new_selected(x, a) end)
        ancestors[t] = a
      end
      kept[t] = {}
      state, log_w = process.advance(state, t, kept[t])
      log_w = pmmh.settled(log_w:to "float64")
    end
    result = traced(self, kept, ancestors, first, categorical(log_w, {}, self.generator))
    return state
  end, { drawn = drawn, scored = path and scored })
  return result
end

-- log p(path, y | parameters) [B].
local function joint(self, rows, path)
  local total
  self:open(self:cut(rows), { self.chains }, function(process)
    local state
    total = process.first
    for t = 1, process.steps do
      local weight, density
      state, weight, density = process.advance(state, t)
      weight = density and weight + density or weight
      total = total and total + weight or weight
    end
    return state
  end, { drawn = function(site) return on_path(self, path, site) end, scored = true })
  return total:to "float64"
end

-- ---- the chains ----

local function uniform_logs(self)
  return core.rand({ self.chains }, { generator = self.generator, dtype = "float64" }):log()
end

-- Random-walk moves of the parameters given the path.
local function move(self, now)
  local density = self.log_prior(now.z) + self.joint(self:rows_of(now.z), table.unpack(now.path))
  local accepted = 0
  for _ = 1, self.moves do
    local shift = core.randn(now.z:shape(), { generator = self.generator, dtype = "float64" })
    local z = now.z + shift:matmul(self.factor:t()) * self.scale
    local prior = self.log_prior(z)
    local inside = prior:gt(-math.huge)
    local given, possible = pmmh.guarded(function(at)
      return self.joint(self:rows_of(at), table.unpack(now.path))
    end, core.where(inside:unsqueeze(2), z, now.z), now.z)
    local proposed = pmmh.settled(prior + given + possible)
    local log_ratio = pmmh.settled(proposed - density)
    local taken = uniform_logs(self):lt(log_ratio)
    now.z = core.where(taken:unsqueeze(2), z, now.z)
    density = core.where(taken, proposed, density)
    accepted = accepted + log_ratio:clamp(-math.huge, 0):exp():mean():item() / self.moves
  end
  now.density = density
  return accepted
end

local function add_moments(self, moments, path)
  for k, x in ipairs(path) do
    local at = moments[k] or { 0, 0, 0 }
    local axis = self.scanned[self.names[k]] and 2 or 1
    moments[k] = { at[1] + 1, x:mean(axis) + at[2], x:square():mean(axis) + at[3] }
  end
end

local function smoothed(self, moments)
  local sites = {}
  for k, name in ipairs(self.names) do
    local n, sum, squares = table.unpack(moments[k])
    local mean = sum / n
    sites[name] = { mean = mean, sd = (squares / n - mean:square()):clamp(0, math.huge):sqrt() }
  end
  return sites
end

local function run(self, o, now, bar)
  local history, draws, densities, accepts, moments = {}, {}, {}, {}, {}
  for k = 1, o.warmup + o.draws do
    now.path = { self.sweep(self:rows_of(now.z), table.unpack(now.path)) }
    local accept = move(self, now)
    if k <= o.warmup then
      history[k] = now.z
      pmmh.adapt(self, k, history, accept)
    else
      draws[k - o.warmup], densities[k - o.warmup] = now.z, now.density
      accepts[k - o.warmup] = core.full({ self.chains }, accept, float64)
      add_moments(self, moments, now.path)
    end
    if bar then
      bar:step(1, "", k <= o.warmup and "warm-up" or "sampling", "accept", accept)
    end
  end
  self.smoothed = smoothed(self, moments)
  return core.stack(draws, 2), { log_density = core.stack(densities, 2), accept = core.stack(accepts, 2) }
end

-- Names of the sites that a path has: those before the scan that the carry holds, and those in it.
local function find_sites(self)
  self.names, self.place, self.scanned = {}, {}, {}
  local function add(name, scanned)
    if not self.place[name] then
      self.names[#self.names + 1] = name
      self.place[name], self.scanned[name] = #self.names, scanned
    end
  end
  local rows = self:rows_of(self.target:draw_priors(self.chains, self.generator))
  self:open(self:cut(rows), { self.chains }, function(process)
    return (process.advance(nil, 1))
  end, { drawn = function(site)
    add(site.base, site.time ~= nil and site.time ~= false)
    return site.dist:sample({}, { generator = self.generator })
  end })
end

-- From the parameters whose filter gives the best of some draws of the prior.
local function first(self, init)
  local z
  if init then
    z = self.target:unconstrain(init):unsqueeze(1):broadcast_to({ self.chains, self.target.size }):contiguous()
  else
    local best
    for _ = 1, 10 do
      local candidate = self.target:draw_priors(self.chains, self.generator)
      local path = sweep(self, self:rows_of(candidate))
      local density = pmmh.settled(joint(self, self:rows_of(candidate), path))
      local better = best and density:gt(best)
      z = best and core.where(better:unsqueeze(2), candidate, z) or candidate
      best = best and core.where(better, density, best) or density
    end
  end
  return { z = z, path = sweep(self, self:rows_of(z)) }
end

local known = options.merged({ num_particles = 50, chains = 4, warmup = 500, draws = 1000, moves = 5,
  target_accept = 0.3,
  init = options.optional "table", compile = true, progress = options.optional() }, space.options)
known.parameters = nil

--- particle_gibbs(model, options) -> a posterior of the parameters, with `smoothed`, the moments of the path.
---
--- model           a pn.model with m:scan (pn.help "penumbra.smc.state_space")
--- data, state     as for pn.smc.pmmh
--- num_particles   50, one of which follows the path of before
--- chains          4, side by side
--- warmup, draws   500, 1000 iterations of each chain
--- moves           5 of the parameters at each iteration, whose scale is adapted to target_accept (0.3) in warm-up
--- init, compile, generator, progress    as for pn.smc.pmmh
function gibbs.particle_gibbs(m, given)
  local o = options.check("particle_gibbs", given, known)
  for name, least in pairs { num_particles = 2, draws = 4, moves = 1 } do
    o[name] = options.whole("particle_gibbs", name, o[name], least)
  end
  if not model.is(m) then
    core.error(("particle_gibbs: needs a model (pn.model) with m:scan, got %s"):format(type(m)))
  end
  local clock = core.clock()
  local self = space.new("particle_gibbs", m, o):with_parameters()
  self.n, self.chains, self.moves, self.target_accept = o.num_particles, o.chains, o.moves, o.target_accept
  local draws, columns = recording.off(function()
    local bar <close> = progress.asked(o.progress, { total = o.warmup + o.draws, label = "particle_gibbs" })
    self.log_prior = pmmh.log_prior_of(self)
    pmmh.start_proposal(self)
    find_sites(self)
    local now = first(self, o.init)
    self.sweep = function(rows, ...) return table.unpack(sweep(self, rows, { ... })) end
    self.joint = function(rows, ...) return joint(self, rows, { ... }) end
    now.path = { self.sweep(self:rows_of(now.z), table.unpack(now.path)) } -- checks the carry
    if o.compile then
      self.sweep = replay.compile(self.sweep, { watch = m.body, plans = 1 })
      self.joint = replay.compile(self.joint, { watch = m.body, plans = 1 })
    end
    return run(self, o, now, bar)
  end)
  local p = posterior.new { model = self.target.model, args = self.target.args, target = self.target,
    unconstrained = draws, statistics = columns, seconds = core.clock() - clock }
  p.smoothed = self.smoothed
  return p
end

return gibbs
