--- The two parts of a Rao-Blackwellised filter as its script gives them: the laws of its particles, and the matrices of
--- the linear Gaussian system given a particle. Internal to penumbra.smc.rbpf and its smoother, whose filters are
--- `self` here: shape ({N, B...}), init, transition or coupling, system, generator.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
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
  local off = core.set_no_grad(true)
  core.set_no_grad(off)
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

--- s given x ~ N(mean, cov) by s = F x + f + N(0, S), x summed out.
function switching.coupled_law(mean, cov, link)
  local f = link.matrix
  local loc = f:matmul(mean:unsqueeze(-1)):squeeze(-1)
  if link.offset then
    loc = loc + link.offset
  end
  local spread = f:matmul(cov):matmul(f:transpose(-2, -1)) + link.cov
  return dist.multivariate_normal { loc = loc, covariance_matrix = spread }
end

-- ---- what the script's functions give, checked ----

local MATRICES = { a = true, b = true, q = true, c = true, d = true, r = true }

--- The matrices of the system at particles s; raises if they are not what they must be.
function switching.system_at(self, s, t, u)
  local system = self.system(s, t, u)
  if type(system) ~= "table" then
    core.error(("rbpf: system must give a table {a, q, c, r, b, d}, got %s"):format(type(system)))
  end
  for key in pairs(system) do
    if not MATRICES[key] then
      core.error(("rbpf: system gave an unknown matrix '%s'; known: a, b, q, c, d, r"):format(tostring(key)))
    end
  end
  for _, key in ipairs { "a", "q", "c", "r" } do
    if system[key] == nil then
      core.error(("rbpf: system must give the matrix '%s'"):format(key))
    end
  end
  return system
end

--- F, f, S at the previous particles as {matrix =, offset =, cov =}.
function switching.link_at(self, s, t, u)
  local matrix, offset, cov = self.coupling(s, t, u)
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
