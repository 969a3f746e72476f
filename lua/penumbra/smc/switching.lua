--- The two parts of a Rao-Blackwellised filter as its script gives them: the laws of its particles, and the matrices of
--- the linear Gaussian system given a particle. Internal to penumbra.smc.rbpf and its smoother, whose filters are
--- `self` here: shape ({N, B...}), init, transition or coupling, system, generator.
-- help: none
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local dist = require "penumbra.distribution"
local linear_system = require "penumbra.smc.kalman.linear_system"
local options = require "penumbra.options"

local switching = {}

-- ---- laws of the particle part ----

local reparametrised = {}

--- Do draws have a path for the gradient? (False where the rows do not know of one.)
function switching.has_path(law)
  if law.discrete then
    return false
  elseif not next(reparametrised) then
    for _, row in ipairs(core.distribution_rows()) do
      reparametrised[row.name] = row.functions.rsample
    end
  end
  return reparametrised[law.name] ~= false
end

--- Is a gradient asked for that would reach the law's parameters?
function switching.followed(law)
  local off = recording.is_off()
  if off then
    return false
  end
  for _, value in pairs(#law.parts == 0 and law:arguments() or { law }) do
    if not core.is_tensor(value) or value:requires_grad() then
      return true
    end
  end
  return false
end

local function is_tail(short, long)
  local skip = #long - #short
  for k, size in ipairs(short) do
    if size ~= long[skip + k] then
      return false
    end
  end
  return skip >= 0
end

--- law, such that its batch is the last axes of `shape`.
function switching.fitted(law, shape)
  return is_tail(law.batch_shape, shape) and law or law:expand(shape)
end

--- A value for each place of `shape`, with a gradient where there is a path.
function switching.draw(self, law, shape)
  local sizes = table.move(shape, 1, #shape - #law.batch_shape, 1, { generator = self.generator })
  return switching.has_path(law) and law:rsample(sizes) or law:sample(sizes)
end

--- Mean and covariance of s = F x + f + N(0, S) for x ~ N(mean, cov).
function switching.summed_out(mean, cov, link)
  return core.kalman_predict(mean, cov, link.matrix, link.offset, link.cov)
end

--- The law of s with x summed out.
function switching.coupled_law(mean, cov, link)
  local loc, spread = switching.summed_out(mean, cov, link)
  return dist.multivariate_normal { loc = loc, covariance_matrix = spread }
end

-- ---- what the script's functions give, checked ----

-- What a model of this library gives is the operands themselves, which are not looked at.
local ready = {}

--- ready(operands): what `system` gives in place of a table of words, {a =, b =, ...}, or `coupling`, {matrix =, offset
--- =, cov =}.
function switching.ready(operands)
  return setmetatable(operands, ready)
end

local PARTS = { transition = "a", transition_offset = "b", transition_input = false, transition_cov = "q",
  emission = "c", emission_offset = "d", emission_input = false, emission_cov = "r", initial_mean = false,
  initial_cov = false }
local NEEDED = { "transition", "transition_cov", "emission", "emission_cov" }

-- What is added to the state or the observation: an offset, and what inputs add.
local function offset_of(given, which, u)
  local own, by_input = given[which .. "_offset"], given[which .. "_input"]
  if not by_input then
    return own
  elseif not core.is_tensor(u) then
    core.error(("rbpf: %s_input needs inputs, a tensor [T, ..., m]"):format(which))
  end
  local added = linear_system.apply(by_input, u)
  return own and own + added or added
end

--- The operands a, b, q, c, d, r of a step at particles s; raises if the system is not what it must be.
function switching.system_at(self, s, t, u, carried)
  local given = self.system
  if type(given) == "function" then
    given = given(s, t, u, carried)
  end
  if getmetatable(given) == ready then
    return given
  elseif type(given) ~= "table" then
    core.error(("rbpf: system must give a table of the parts of a linear system, got %s"):format(type(given)))
  end
  linear_system.refuse_other_words("rbpf: system", given)
  for key, value in pairs(given) do
    if PARTS[key] == nil and value then
      core.error(("rbpf: system gave an unknown part '%s'%s"):format(tostring(key),
        options.suggestion(key, { table.unpack(NEEDED) })))
    end
  end
  for _, key in ipairs(NEEDED) do
    if given[key] == nil then
      core.error(("rbpf: system must give %s"):format(key))
    end
  end
  return { a = given.transition, b = offset_of(given, "transition", u), q = given.transition_cov, c = given.emission,
    d = offset_of(given, "emission", u), r = given.emission_cov }
end

--- Mean and covariance of y = c x + d + N(0, r) for x ~ N(mean, cov).
function switching.emitted(mean, cov, m)
  return switching.summed_out(mean, cov, { matrix = m.c, offset = m.d, cov = m.r })
end

--- F, f, S at the previous particles as {matrix =, offset =, cov =}.
function switching.link_at(self, s, t, u, carried)
  local matrix, offset, cov = self.coupling(s, t, u, carried)
  if getmetatable(matrix) == ready then
    return matrix
  end
  options.argument("rbpf", "the matrix that coupling gives", matrix, "tensor")
  options.argument("rbpf", "the covariance that coupling gives", cov, "tensor")
  return { matrix = matrix, offset = offset, cov = cov }
end

--- What transition gives for previous particles; a law's batch is made the last axes of `shape`.
function switching.law_at(self, s, t, u, shape, moments)
  local law = self.transition(s, t, u, moments)
  if dist.is(law) then
    return switching.fitted(law, shape)
  elseif law == nil then
    core.error "rbpf: transition must give a distribution, or draws of it, got nil"
  end
  return law
end

--- The law of s_1, or draws of it.
function switching.first_law(self, u)
  local law = self.init
  if not dist.is(law) then
    law = law(self.shape, u)
  end
  return dist.is(law) and switching.fitted(law, self.shape) or law
end

return switching
