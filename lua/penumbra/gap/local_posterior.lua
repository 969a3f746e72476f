--- Posteriors with parameters of their own for each datum, which see all of it: variational inference without an
--- encoder. For latents z [S, N, n] normals with diagonal covariance; for sequences [S, N, T, n] Gaussian Markov
--- chains, which hold the posterior of any linear Gaussian system exactly. They begin at the moments of draws of
--- another posterior, m the means, G the regression of z_t on z_(t-1), L a root of what that leaves, M of the
--- covariance:
---
---     z_t = m_t + u a_t + e_t,   e_t = G_t e_(t-1) + L_t (B_t M_(t-1)^-1 e_(t-1) + C_t noise)
---
--- a, B and the triangular C are what is trained, in units of those moments: a rate means the same for wide and narrow
--- posteriors. u is the geometric mean of their width and of that of the z of all data. While they are trained
--- (`learning`) log q has no gradient of its own parameters but that through z, so that noise dies out as q comes near
--- the posterior (Roeder, Wu & Duvenaud 2017).
-- help: none
local core = require "penumbra.core"

local local_posterior = {}

local HALF_LOG_TAU = core.log_2pi / 2

local methods = {}
methods.__index = methods
methods.__name = "local posterior"

--- parameters(): of all data.
function methods:parameters() return self.list end

local function noise_like(x, draws, generator)
  return core.randn({ draws, table.unpack(x:shape()) }, { dtype = x:dtype(), generator = generator })
end

local function log_normal(noise) return noise:square() * -0.5 - HALF_LOG_TAU end

local function apply(a, x) return a:matmul(x:unsqueeze(-1)):squeeze(-1) end

-- ---- vectors ----

-- z [S, N, n]
local function draw_diagonal(self, _, draws, generator)
  local noise, log_scale = noise_like(self.shift, draws, generator), self.log_scale
  local unit = log_scale:exp() * noise
  if self.learning then
    log_scale = log_scale:detach()
    noise = (unit + self.unit / self.scale * (self.shift - self.shift:detach())) / log_scale:exp()
  end
  return self.mean + self.unit * self.shift + self.scale * unit, (log_normal(noise) - log_scale
    - self.scale:log()):sum(-1)
end

-- ---- chains ----

local function roots(lower, log_scale) return lower:tril(-1) + log_scale:exp():diag_embed() end

-- The noise that makes e = off of a chain whose parameters are constants.
local function noise_behind(self, off)
  local T = off:size(3)
  local before = off:slice(3, 1, 1) * 0
  before = T > 1 and core.concatenate({ before, off:slice(3, 1, T - 1) }, 3) or before
  local unit = apply(self.unroot, off - apply(self.gain, before))
  local rest = unit - apply(self.bend:detach(), apply(self.whiten, before))
  return roots(self.lower:detach(), self.log_scale:detach()):solve_triangular(rest:unsqueeze(-1)):squeeze(-1)
end

-- z [S, N, T, n]
local function draw_chain(self, _, draws, generator)
  local noise = noise_like(self.shift, draws, generator)
  local off, list = nil, {}
  local unit = apply(roots(self.lower, self.log_scale), noise)
  for t = 1, self.shift:size(2) do
    local w, root = unit:select(3, t), self.root:select(2, t)
    if off then
      w = w + apply(self.bend:select(2, t), apply(self.whiten:select(2, t), off))
      off = apply(self.gain:select(2, t), off) + apply(root, w)
    else
      off = apply(root, w)
    end
    list[t] = off
  end
  local all = core.stack(list, 3)
  local log_scale = self.log_scale
  if self.learning then
    noise = noise_behind(self, all + self.unit * (self.shift - self.shift:detach()))
    log_scale = log_scale:detach()
  end
  return all + self.mean + self.unit * self.shift, (log_normal(noise) - log_scale):sum { -2, -1 } - self.log_root
end

-- z [S, N, n] of chains of one step
local function draw_full(self, x, draws, generator)
  local z, log_q = draw_chain(self, x, draws, generator)
  return z:squeeze(3), log_q
end

-- A root of covariances [..., n, n], with what keeps it positive definite added.
local function root_of(cov, least)
  local n = cov:size(-1)
  local spread = cov:diagonal():mean({ -1 }, true):unsqueeze(-1)
  local root = ((cov + cov:transpose(-1, -2)) * 0.5 + core.eye(n, { dtype = cov:dtype() }) * (spread * least + 1e-12))
    :cholesky()
  if not root then
    core.error "measure: draws of the posterior have no finite covariance to begin with"
  end
  return root
end

-- The moments of chains from draws z [S, N, T, n].
local function begin_chain(self, z)
  local S, T, n = z:size(1), z:size(3), z:size(4)
  local least = z:dtype() == "float32" and 1e-4 or 1e-6
  local off = (z - self.mean):permute { 2, 3, 4, 1 } -- [N, T, n, S]
  local cov = off:matmul(off:transpose(-1, -2)) / S
  local root = root_of(cov, least)
  local zero = cov:slice(2, 1, 1) * 0
  self.gain, self.whiten, self.root = zero, zero, root
  if T > 1 then
    local before = root:slice(2, 1, T - 1)
    local cross = off:slice(2, 2, T):matmul(off:slice(2, 1, T - 1):transpose(-1, -2)) / S
    local gain = before:cholesky_solve(cross:transpose(-1, -2)):transpose(-1, -2)
    local rest = cov:slice(2, 2, T) - gain:matmul(cross:transpose(-1, -2))
    local degrees = S > 2 * n and S / (S - n) or 1
    self.gain = core.concatenate({ zero, gain }, 2)
    self.root = core.concatenate({ root:slice(2, 1, 1), root_of(rest * degrees, least) }, 2)
    self.whiten = core.concatenate({ zero, before:inverse() }, 2)
  end
  self.unroot = self.root:inverse()
  self.log_root = self.root:diagonal():log():sum { -2, -1 }
  self.bend, self.lower = core.param(cov * 0), core.param(cov * 0)
  self.list[3], self.list[4] = self.bend, self.lower
end

--- draws_for(n): how many draws of n latents new should have.
function local_posterior.draws_for(n) return math.max(64, 8 * n) end

--- new(z [, family]): posteriors for the N data of which z [S, N, n] or [S, N, T, n] are draws to begin with; family
--- "full" gives those of z [S, N, n] full covariances.
function local_posterior.new(z, family)
  z = z:detach()
  local full = family == "full" and z:ndim() == 3
  z = full and z:unsqueeze(3) or z
  local self = { sees_all = true, mean = z:mean(1), draw = draw_diagonal }
  self.shift, self.log_scale = core.param(self.mean * 0), core.param(self.mean * 0)
  self.list = { self.shift, self.log_scale }
  local least = z:dtype() == "float32" and 1e-4 or 1e-6
  self.scale = z:std(1) + least
  self.unit = (self.scale * (z:std { 1, 2 } + least)):sqrt()
  if z:ndim() == 4 then
    self.draw = full and draw_full or draw_chain
    begin_chain(self, z)
  end
  return setmetatable(self, methods)
end

return local_posterior
