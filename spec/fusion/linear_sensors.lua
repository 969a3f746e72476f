--- Linear Gaussian sensors of one latent vector, and everything about them by the joint covariance of latents and
--- observations: z ~ N(m, P), x_k = A_k z + b_k + e_k, e_k ~ N(0, R_k). No precision is used anywhere, so that nothing
--- here is computed as the library computes it.
local pn = require "penumbra"

local linear_sensors = {}

--- new(sizes, latent, g): sensors of random matrices, sizes[k] numbers each.
function linear_sensors.new(sizes, latent, g)
  local function randn(...) return pn.randn({ ... }, { generator = g }) end
  local function covariance(n, least)
    local a = randn(n, n)
    return a:matmul(a:t()) * (0.3 / n) + pn.eye(n) * least
  end
  local self = { latent = latent, mean = randn(latent), cov = covariance(latent, 0.5), sensor = {} }
  for k, n in ipairs(sizes) do
    self.sensor[k] = { a = randn(n, latent), b = randn(n), r = covariance(n, 0.3) }
  end
  return setmetatable(self, { __index = linear_sensors })
end

--- draw(n, g): z [n, latent] and a list of x_k [n, size].
function linear_sensors:draw(n, g)
  local function noise(size, cov)
    return pn.randn({ n, size }, { generator = g }):matmul(cov:cholesky():t())
  end
  local z, x = self.mean + noise(self.latent, self.cov), {}
  for k, s in ipairs(self.sensor) do
    x[k] = z:matmul(s.a:t()) + s.b + noise(s.r:size(1), s.r)
  end
  return z, x
end

-- Mean, covariance and covariance with z of the observations of a set of sensors.
local function stacked(self, set)
  local a, b, r = {}, {}, {}
  for i, k in ipairs(set) do
    local s = self.sensor[k]
    a[i], b[i], r[i] = s.a, s.b, s.r
  end
  a, b, r = pn.concatenate(a, 1), pn.concatenate(b, 1), pn.block_diag(r)
  return a:matmul(self.mean:unsqueeze(2)):squeeze(2) + b, a:matmul(self.cov):matmul(a:t()) + r, self.cov:matmul(a:t())
end

local function observed(x, set)
  local list = {}
  for i, k in ipairs(set) do list[i] = x[k] end
  return pn.concatenate(list, 2)
end

--- posterior(x, set): mean [n, latent] and covariance [latent, latent] of z given the sensors of the set.
function linear_sensors:posterior(x, set)
  local mean, cov, cross = stacked(self, set)
  local gain = cross:matmul(cov:inverse())
  return self.mean + (observed(x, set) - mean):matmul(gain:t()), self.cov - gain:matmul(cross:t())
end

--- belief(x, k): the posterior given one sensor, a distribution.
function linear_sensors:belief(x, k)
  local mean, cov = self:posterior(x, { k })
  return pn.dist.multivariate_normal { loc = mean, covariance_matrix = (cov + cov:t()) / 2 }
end

--- log_evidence(x, set): log p(x_k, k in set), [n].
function linear_sensors:log_evidence(x, set)
  local mean, cov = stacked(self, set)
  return pn.dist.multivariate_normal { loc = mean, covariance_matrix = cov }:log_prob(observed(x, set))
end

--- predictive(x, set, k): mean [n, size] and covariance of x_k given the sensors of the set.
function linear_sensors:predictive(x, set, k)
  local mean, cov = self:posterior(x, set)
  local s = self.sensor[k]
  return mean:matmul(s.a:t()) + s.b, s.a:matmul(cov):matmul(s.a:t()) + s.r
end

--- prior(): N(m, P).
function linear_sensors:prior()
  return pn.dist.multivariate_normal { loc = self.mean, covariance_matrix = self.cov }
end

--- divergence(m1, c1, m2, c2): KL of two normals by traces and determinants, m [n, d].
function linear_sensors.divergence(m1, c1, m2, c2)
  local inverse, d = c2:inverse(), m2 - m1
  local _, l1 = c1:slogdet()
  local _, l2 = c2:slogdet()
  local square = (d:matmul(inverse) * d):sum(-1)
  return (square + inverse:matmul(c1):diagonal():sum() - c1:size(1) + l2 - l1) * 0.5
end

return linear_sensors
