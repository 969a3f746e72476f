--- The filter of Liu and West: parameters learned on line by one particle filter, each particle with parameters of its
--- own that are drawn anew at each step around values shrunk to their mean, so that their variance stays what it was.
---
---     local p = pn.smc.liu_west(model, {data = {y}, num_particles = 5000})
---     print(p)                     particles of the parameters after the last observation, with log_evidence
---     p.history.rho                {mean = [T, ...], sd = [T, ...]}: what was known after each observation
---
--- In the unconstrained space, with a = (3 discount - 1) / (2 discount): m_i = a z_i + (1 - a) mean(z), and the new
--- z_i is normal around m of its ancestor with covariance (1 - a^2) cov(z). An approximation: one pass, constant cost
--- a step, no guarantee as particles grow; pn.smc.smc2 is exact.
---
--- Liu & West 2001.
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local pmmh = require "penumbra.smc.pmmh"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local recording = require "penumbra.autodiff.recording"
local space = require "penumbra.smc.state_space"
local tempering = require "penumbra.smc.tempering"

local liu_west = {}

local float64 = { dtype = "float64" }

-- Step t of the filter at the parameters z [N, size], each particle its own: state and log weights.
local function advance(self, z, state, t, drawn)
  local after, log_w
  self:open(self:cut(self:rows_of(z)), { self.n }, function(process)
    after, log_w = process.advance(state, t)
    return after
  end, { drawn = drawn })
  return after, pmmh.settled(log_w:to "float64")
end

-- The mean of a site in place of a draw.
local function at_mean(site) return site.dist:mean() end

-- Keeps the moments that a step leaves, and tells of it.
local function add_history(self, s, z, bar)
  local values = self:cut(self:rows_of(z))
  for _, out in ipairs(self.target:outputs()) do
    local x, list = values[out.name], self.history[out.name] or { mean = {}, sd = {} }
    local mean = s:mean(x)
    self.history[out.name] = list
    list.mean[#list.mean + 1] = mean
    list.sd[#list.sd + 1] = s:mean((x - mean):square()):sqrt()
  end
  if bar then
    bar:step(1, "log evidence", s:log_evidence():item())
  end
end

-- Shrunk parameters, and the factor of the covariance that is lost.
local function shrunk(self, s, z)
  local log_w, a = s:log_weights():to "float64", self.shrinkage
  local mean = (log_w:exp():unsqueeze(2) * z):sum(1, true)
  return z * a + mean * (1 - a), tempering.factor_of(z, log_w) * math.sqrt(1 - a * a)
end

local function filter(self, s, bar)
  local z = self.target:draw_priors(self.n, self.generator)
  local state, log_w = advance(self, z, nil, 1)
  s:weigh(log_w)
  add_history(self, s, z, bar)
  for t = 2, self.steps do
    local m, factor = shrunk(self, s, z)
    local score
    if self.lookahead then
      score = select(2, advance(self, m, state, t, at_mean))
      s:tilt(score)
    end
    local ancestors = s:resample()
    if ancestors then
      m, score = m:take(1, ancestors), score and score:take(1, ancestors)
      state = space.each(state, { self.n }, function(x) return core.new_selected(x, ancestors) end)
    end
    local shift = core.randn(z:shape(), { generator = self.generator, dtype = "float64" })
    z = m + shift:matmul(factor:t())
    state, log_w = advance(self, z, state, t)
    s:weigh(score and pmmh.settled(log_w - score) or log_w)
    add_history(self, s, z, bar)
  end
  return z
end

local known = options.merged({ num_particles = 2000, resampling = machine.options.resampling, threshold = 0.5,
  discount = 0.98,
  lookahead = options.optional "boolean", progress = options.optional() }, space.options)

--- liu_west(model, options) -> a posterior of the parameters (particles of equal weight) with log_evidence and
--- history.
---
--- model           a pn.model with m:scan, or a function (theta, data...): pn.help "penumbra.smc.state_space".
---                 Parameters come as [N, ...] here, a value for each particle
--- data, parameters, state    as for pn.smc.pmmh
--- num_particles   2000
--- resampling, threshold    as pn.smc has them
--- discount        0.98: nearer to 1 kernels are narrower and follow the past longer
--- lookahead       true for models with m:scan: particles are first weighed by the next observation at their means
---                 (auxiliary filter)
--- generator, progress    as pn.nuts has them
function liu_west.liu_west(m, given)
  local o = options.check("liu_west", given, known)
  options.whole("liu_west", "num_particles", o.num_particles, 4)
  if not (o.discount > 1 / 3 and o.discount < 1) then
    core.error(("liu_west: discount must lie between 1/3 and 1, got %g"):format(o.discount))
  elseif o.lookahead and not model.is(m) then
    core.error "liu_west: lookahead needs a model with m:scan, whose draws have means"
  end
  local clock = core.clock()
  local self = space.new("liu_west", m, o):with_parameters(o.parameters)
  self.n, self.shrinkage, self.history = o.num_particles, (3 * o.discount - 1) / (2 * o.discount), {}
  self.lookahead = o.lookahead ~= false and model.is(m)
  local s = machine.new { num_particles = self.n, resampling = o.resampling, threshold = o.threshold,
    generator = o.generator }
  local z = recording.off(function()
    local bar <close> = progress.asked(o.progress, { total = self.steps, label = "liu_west" })
    local last = filter(self, s, bar)
    return last:take(1, tempering.systematic(s:log_weights():to "float64", self.n, self.generator))
  end)
  for _, list in pairs(self.history) do
    list.mean, list.sd = core.stack(list.mean, 1), core.stack(list.sd, 1)
  end
  local p = posterior.new { model = self.target.model, args = self.target.args, target = self.target, particles = true,
    unconstrained = z:unsqueeze(1), seconds = core.clock() - clock, log_evidence = s:log_evidence():item(),
    statistics = { accept = core.ones({ 1, self.n }, float64) } }
  p.history = self.history
  return p
end

return liu_west
