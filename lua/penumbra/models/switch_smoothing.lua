--- Smoothing of deep switching systems without an auxiliary variable: the same model as a filter of pn.smc.rbpf, whose
--- particles are drawn backwards given all observations. Internal to the models of penumbra.models.switching_system.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"
local rbpf = require "penumbra.smc.rbpf"

local switch_smoothing = {}

local function one_of(self, s)
  return s:unsqueeze(-1):eq(core.arange(self.switches, { dtype = "int64" })):to(self.dtype)
end

local function normal(loc, variance)
  return dist.normal(loc, variance:sqrt()):independent(1)
end

-- init, and transition or coupling, of the filter.
local function laws(self, parts, model)
  local kind, categorical = self.kind, self.switch.transition ~= nil
  local function next_law(s, t)
    local x = categorical and one_of(self, s) or s
    local w = self.bases:weights(x)
    return kind.next(self, parts.held, { s = x, weights = { [self.recurrence_group] = w[self.recurrence_group] } },
      parts.at(t))
  end
  function model.init()
    local law = kind.first(self, parts.at(1))
    return categorical and dist.categorical { logits = law.logits } or normal(law.loc, law.variance)
  end
  if self.bases.bases.f then
    function model.coupling(s, t)
      local link = next_law(s, t).link
      return link.matrix, link.offset, link.variance:diag_embed()
    end
  else
    function model.transition(s, t)
      local law = next_law(s, t)
      return categorical and dist.categorical { logits = law.logits } or normal(law.loc, law.variance)
    end
  end
end

--- rao_blackwellised(self, parts, generator): the model as a filter of pn.smc.rbpf. parts.held, the bases; parts.at(t),
--- what a step needs; parts.system(held, weights, at), the matrices; parts.size, series.
function switch_smoothing.rao_blackwellised(self, parts, generator)
  local categorical = self.switch.transition ~= nil
  local model = { num_particles = self.num_particles, batch_shape = { parts.size }, conditioning = self.conditioning,
    resampling = self.resampling, threshold = self.threshold, generator = generator,
    initial_mean = self.prior_mean, initial_cov = (self.prior_log_inverse_scale * -2):exp():diag_embed() }
  laws(self, parts, model)
  function model.system(s, t)
    local m = parts.system(self, parts.held, self.bases:weights(categorical and one_of(self, s) or s), parts.at(t))
    return { transition = m.a, transition_offset = m.b, transition_cov = m.q, emission = m.c, emission_offset = m.d,
      emission_cov = m.r }
  end
  return rbpf.rbpf(model)
end

--- The options of m:smooth(batch, {draws = 100, generator =}).
switch_smoothing.smooth_options = { draws = 100, generator = options.optional "generator" }

--- smooth: mean [T, B, n] and cov [T, B, n, n] of the state given all of y; s [T, draws, B, k], paths of the
--- switch; path_mean and path_cov, the state along each of them. It needs conditioning = "exact" where the switch
--- depends on the state.
function switch_smoothing.smooth(self, b, o)
  local parts = self:steps_of(b)
  local f = switch_smoothing.rao_blackwellised(self, parts, o.generator)
  f:run(b.y, { observed = b.observed, moments = false })
  return f:smooth { draws = o.draws }
end

return switch_smoothing
