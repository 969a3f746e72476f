--- Normal laws of K weights in O(K): the precision is a diagonal and one outer product, Diag(d) + u u^T / c, and no
--- K x K matrix is formed unless it is asked for. Priors, mean-field posteriors, exact posteriors of a linear model
--- with one input and invariance-abiding posteriors are all of this kind (pn.invariance.linear_model makes them). With
--- a = sum u^2 / d:
---
---     covariance       Diag(1 / d) - (u / d) (u / d)^T / (c + a)            Sherman & Morrison
---     log determinant  -sum log d - log(1 + a / c)                          of the covariance
---     a draw           mean + e - (u / d) (u^T e + sqrt(c) e') / (c + a),   e ~ N(0, Diag(1 / d)), e' ~ N(0, 1)
---
--- Everything is computed with tensors, so that gradients flow to what the law was made of. c may be infinite: then
--- only the diagonal is left.
-- help: pn.invariance, methods q
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"

local rank_one = {}

local HALF_LOG_2PI = 0.5 * core.log_2pi
local MOST_DENSE = 5000 -- beyond, a K x K matrix of float64 takes more than 200 MB

local methods = {}
local function law_text(self)
  return ("%s(event [%d], %s)"):format(self.name, self.event_shape[1], self.dtype)
end

local class = { own = true, __name = "distribution", __tostring = law_text }

-- What every distribution has, on a law of K weights.
local function as_law(self, which)
  self.name, self.dtype, self.batch_shape, self.event_shape = "normal_law", self.loc:dtype(), {}, { self.loc:size(1) }
  return setmetatable(self, which)
end

--- new{mean =, diagonal = [, direction =, noise =]}: mean, d and u are [K], c a 0-d tensor or a number.
function rank_one.new(fields)
  local self = { loc = fields.mean, diagonal = fields.diagonal, direction = fields.direction }
  if self.direction then
    self.noise = fields.noise
    self.scaled = self.direction / self.diagonal -- u / d
    self.power = (self.direction * self.scaled):sum() -- a
    self.ratio = self.power / self.noise -- a / c, 0 where c is infinite
  end
  return as_law(self, class)
end

--- is(x): was x made here?
function rank_one.is(x)
  return type(x) == "table" and getmetatable(x) == class
end

-- b / (c + a), where b / c is what is known: b / c / (1 + a / c).
local function shrunk(self, b)
  return b / self.noise / (self.ratio + 1)
end

-- Raises unless v is a tensor whose last axis is that of the weights.
local function check_vector(where, role, v, loc)
  options.argument(where, role, v, "tensor")
  if v:ndim() < 1 or v:size(-1) ~= loc:size(1) or v:dtype() ~= loc:dtype() or role == "x" and v:ndim() ~= 1 then
    core.error(("%s: %s must have %s of %d weights as %s, got [%s] of %s"):format(where, role,
      role == "x" and "one axis" or "a last axis", loc:size(1), loc:dtype(), table.concat(v:shape(), ", "), v:dtype()))
  end
end

local function check_law(p, loc)
  if not rank_one.is_law(p) or p:mean():size(1) ~= loc:size(1) then
    core.error(("kl: p must be a law of the %d weights, got %s"):format(loc:size(1), rank_one.is_law(p) and "of others"
      or type(p)))
  end
end

--- check_dense(where, K): raises if a K x K matrix would be too large to form.
function rank_one.check_dense(where, K)
  if K > MOST_DENSE then
    core.error(("%s: a K x K matrix is formed up to K = %d, got K = %d (variance, law, kl, sample and log_prob need "
      .. "vectors alone)"):format(where, MOST_DENSE, K))
  end
end

--- The mean, [K].
function methods:mean()
  return self.loc
end

--- The variances of the weights, [K].
function methods:variance()
  local v = self.diagonal:reciprocal()
  return self.direction and v - shrunk(self, self.scaled:square()) or v
end

--- The covariance matrix, [K, K]: for small K.
function methods:covariance()
  rank_one.check_dense("covariance", self.diagonal:size(1))
  local v = self.diagonal:reciprocal():diag_embed()
  if not self.direction then
    return v
  end
  return v - shrunk(self, self.scaled:unsqueeze(2) * self.scaled)
end

--- The precision matrix, [K, K]: for small K.
function methods:precision()
  rank_one.check_dense("precision", self.diagonal:size(1))
  local p = self.diagonal:diag_embed()
  return self.direction and p + self.direction:unsqueeze(2) * self.direction / self.noise or p
end

--- The log determinant of the covariance.
function methods:log_det()
  local v = -self.diagonal:log():sum()
  return self.direction and v - self.ratio:log1p() or v
end

--- Mean and variance of the pre-activation x^T w, 0-d each.
function methods:law(x)
  check_vector("law", "x", x, self.loc)
  local mean = (x * self.loc):sum()
  if self.direction and core.identity(x) == core.identity(self.direction) then
    return mean, self.power / (self.ratio + 1) -- a c / (c + a) without a difference
  end
  local variance = (x:square() / self.diagonal):sum()
  if self.direction then
    variance = variance - shrunk(self, (x * self.scaled):sum():square())
  end
  return mean, variance
end

--- The log density at w [..., K].
function methods:log_prob(w)
  check_vector("log_prob", "w", w, self.loc)
  local off = w - self.loc
  local square = (off:square() * self.diagonal):sum(-1)
  if self.direction then
    square = square + (off * self.direction):sum(-1):square() / self.noise
  end
  return square * -0.5 - methods.log_det(self) * 0.5 - HALF_LOG_2PI * self.diagonal:size(1)
end

local function drawn(self, what, ...)
  local sizes, generator = own.draw_arguments(self, what, ...)
  local set = { generator = generator, dtype = self.dtype }
  local e = core.randn(own.joined(sizes, self.event_shape), set) * self.diagonal:rsqrt()
  if not self.direction then
    return self.loc + e
  end
  local root = core.is_tensor(self.noise) and self.noise:sqrt() or math.sqrt(self.noise)
  local pull = (e * self.direction):sum(-1, true) / self.noise + core.randn(own.joined(sizes, { 1 }), set) / root
  return self.loc + e - self.scaled * (pull / (self.ratio + 1))
end

--- sample{n}, sample({n}, generator): draws, [n, K]; no gradient.
function methods:sample(...)
  return drawn(self, "sample", ...):detach()
end

--- rsample{n}, rsample({n}, generator): draws with a gradient to what the law was made of.
function methods:rsample(...)
  return drawn(self, "rsample", ...)
end

--- The same law with matrices.
function methods:dense()
  return rank_one.dense(self.loc, methods.covariance(self))
end

--- kl(p): KL[q || p] in nats, p another law of the same weights.
function methods:kl(p)
  check_law(p, self.loc)
  if not rank_one.is(p) then
    return methods.dense(self):kl(p)
  end
  local r, off = p.diagonal / self.diagonal, p.loc - self.loc
  -- the diagonals alone: each term is at least 0
  local twice = (r - 1 - r:log()):sum() + (p.diagonal * off:square()):sum()
  if self.direction then
    twice = twice - shrunk(self, (p.diagonal * self.scaled:square()):sum()) + self.ratio:log1p()
  end
  if p.direction then
    local spread = (p.direction:square() / self.diagonal):sum()
    if self.direction then
      spread = spread - shrunk(self, (p.direction * self.scaled):sum():square())
    end
    twice = twice + (spread + (p.direction * off):sum():square()) / p.noise - p.ratio:log1p()
  end
  return twice * 0.5
end

-- ---- matrices ----

local dense = {}
local dense_class = { own = true, __name = "distribution", __tostring = law_text }

--- dense(mean, covariance): the same methods for any covariance matrix; every one of them is O(K^3).
function rank_one.dense(mean, covariance)
  return as_law({ loc = mean, matrix = covariance }, dense_class)
end

local function joint(self)
  return dist.multivariate_normal { loc = self.loc, covariance_matrix = self.matrix }
end

--- As above.
function dense.mean(self)
  return self.loc
end

--- As above.
function dense.variance(self)
  return self.matrix:diagonal()
end

--- As above.
function dense.covariance(self)
  return self.matrix
end

--- As above.
function dense.precision(self)
  return self.matrix:inverse()
end

--- As above.
function dense.log_det(self)
  return self.matrix:logdet()
end

--- Mean and variance of the pre-activation x^T w, 0-d each.
function dense.law(self, x)
  check_vector("law", "x", x, self.loc)
  return (x * self.loc):sum(), (x * self.matrix:matmul(x)):sum()
end

--- The log density at w [..., K].
function dense.log_prob(self, w)
  check_vector("log_prob", "w", w, self.loc)
  return joint(self):log_prob(w)
end

--- As above.
function dense.sample(self, ...)
  return joint(self):sample(...)
end

--- As above.
function dense.rsample(self, ...)
  return joint(self):rsample(...)
end

--- KL[self || p] in nats.
function dense.kl(self, p)
  check_law(p, self.loc)
  local other = rank_one.is(p) and p:dense() or p
  return dist.kl(joint(self), joint(other))
end

class.__index = core.namespace("a normal law", methods)
dense_class.__index = core.namespace("a normal law", dense)

--- is_law(x): was x made here, in either form?
function rank_one.is_law(x)
  return type(x) == "table" and (getmetatable(x) == class or getmetatable(x) == dense_class)
end

-- The divergence of two laws, or by matrices of one and a distribution of the library's own.
local function divergence(p, q)
  if rank_one.is_law(p) and rank_one.is_law(q) then
    return p:kl(q)
  end
  local pair = { p, q }
  for k = 1, 2 do
    if rank_one.is_law(pair[k]) then
      pair[k] = joint(rank_one.is(pair[k]) and pair[k]:dense() or pair[k])
    elseif type(pair[k]) ~= "userdata" then
      return nil
    end
  end
  return core.kl(pair[1], pair[2])
end
class.divergence, dense_class.divergence = divergence, divergence

return rank_one
