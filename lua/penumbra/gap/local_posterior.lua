--- Posteriors with parameters of their own for each datum, which see all of it: variational inference without an
--- encoder. For latents z [S, N, n] normals with diagonal covariance; for sequences [S, N, T, n] Gaussian Markov chains
---
---     z_t = m_t + G_t (z_(t-1) - m_(t-1)) + L_t noise,   L_t lower triangular with a positive diagonal
---
--- which hold the posterior of any linear Gaussian system exactly. They begin at the moments of draws of another
--- posterior, uncorrelated. While they are trained (`learning`) log q has no gradient of its own parameters but that
--- through z, so that noise dies out as q comes near the posterior (Roeder, Wu & Duvenaud 2017).
-- help: none
local core = require "penumbra.core"

local local_posterior = {}

local HALF_LOG_TAU = math.log(2 * math.pi) / 2

local methods = {}
methods.__index = methods
methods.__name = "local posterior"

--- parameters(): of all data.
function methods:parameters() return self.list end

local function noise_like(x, draws, generator)
  return core.randn({ draws, table.unpack(x:shape()) }, { dtype = x:dtype(), generator = generator })
end

local function log_normal(noise) return noise:square() * -0.5 - HALF_LOG_TAU end

-- z [S, N, n]
local function draw_diagonal(self, _, draws, generator)
  local noise, log_scale = noise_like(self.loc, draws, generator), self.log_scale
  local z = self.loc + log_scale:exp() * noise
  if self.learning then
    log_scale = log_scale:detach()
    noise = (z - self.loc:detach()) / log_scale:exp()
  end
  return z, (log_normal(noise) - log_scale):sum(-1)
end

local function apply(a, x) return a:matmul(x:unsqueeze(-1)):squeeze(-1) end

local function roots(lower, log_scale) return lower:tril(-1) + log_scale:exp():diag_embed() end

-- The noise that makes z of a chain whose parameters are constants.
local function noise_behind(self, z)
  local off = z - self.loc:detach()
  local T = off:size(3)
  local before = off:slice(3, 1, 1) * 0
  before = T > 1 and core.concatenate({ before, off:slice(3, 1, T - 1) }, 3) or before
  local root = roots(self.lower:detach(), self.log_scale:detach())
  return root:solve_triangular((off - apply(self.gain:detach(), before)):unsqueeze(-1)):squeeze(-1)
end

-- z [S, N, T, n]
local function draw_chain(self, _, draws, generator)
  local noise = noise_like(self.loc, draws, generator)
  local off, list = nil, {}
  local root = roots(self.lower, self.log_scale)
  for t = 1, self.loc:size(2) do
    local step = apply(root:select(2, t), noise:select(3, t))
    off = off and step + apply(self.gain:select(2, t), off) or step
    list[t] = off
  end
  local z = core.stack(list, 3) + self.loc
  if self.learning then
    return z, (log_normal(noise_behind(self, z)) - self.log_scale:detach()):sum { -2, -1 }
  end
  return z, (log_normal(noise) - self.log_scale):sum { -2, -1 }
end

-- z [S, N, n] of chains of one step
local function draw_full(self, x, draws, generator)
  local z, log_q = draw_chain(self, x, draws, generator)
  return z:squeeze(3), log_q
end

--- new(z [, family]): posteriors for the N data of which z [S, N, n] or [S, N, T, n] are draws to begin with; family
--- "full" gives those of z [S, N, n] full covariances.
function local_posterior.new(z, family)
  z = z:detach()
  local full = family == "full" and z:ndim() == 3
  z = full and z:unsqueeze(3) or z
  local self = { sees_all = true, loc = core.param(z:mean(1)) }
  local least = z:dtype() == "float32" and 1e-4 or 1e-6
  self.log_scale = core.param((z:std(1) + least):log())
  self.list = { self.loc, self.log_scale }
  self.draw = draw_diagonal
  if z:ndim() == 4 then
    local shape = self.loc:shape()
    shape[4] = shape[3]
    self.gain = core.param(core.zeros(shape, { dtype = z:dtype() }))
    self.lower = core.param(core.zeros(shape, { dtype = z:dtype() }))
    self.draw = full and draw_full or draw_chain
    self.list[3], self.list[4] = self.gain, self.lower
  end
  return setmetatable(self, methods)
end

return local_posterior
