--- The over-parametrised linear model of Kurle et al. (2022), section 4: K weights of which the likelihood sees one
--- sum.
---
---     y_n = scale x^T w + e_n,   e_n ~ N(0, noise_variance),   w ~ N(prior_mean, Diag(prior_variance))
---
--- with N observations at the one input x, so that the likelihood does not change under w -> w + B d for every B with
--- x^T B = 0. A Gaussian factor g_0 = N(w; m, V) that stands for the likelihood gives two approximations of the
--- posterior: the mean-field q_0, proportional to p g_0, and the invariance-abiding q_mix, proportional to p g_mix,
--- where g_mix is g_0 averaged over all translations: a law of precision x x^T / (x^T V x).
---
---     local model = pn.invariance.linear_model{size = 64, y = pn.ones{10}, noise_variance = 0.06}
---     model:prior()  model:posterior()  model:log_evidence()  model:data_bound()
---     local best = model:optimum "mean_field"                 {loc =, variance =}: the m and lambda of the best q_0
---     local a = model:approximation(best)                     or {loc =, variance =}, or {loc =, covariance =}
---     a:q0()  a:q_mix()                                       laws: mean() variance() law(x) kl(p) sample(n) ...
---     model:elbo(a:q0())  model:expected_log_likelihood(q)  model:predictive(q)
---     a:gap()                                                 KL[q_0 || q_mix], the invariance gap
---     a:corrected_elbo()                                      the ELBO of q_0 plus the gap
---
--- All figures are 0-d tensors through which gradients flow; time and memory are O(K). What the paper prints and what
--- holds differ in places: the corrected formula is what a name gives, the printed one has a name of its own.
-- help: pn.invariance, methods model of methods, methods approximation of pair
local core = require "penumbra.core"
local options = require "penumbra.options"
local data_bound = require "penumbra.invariance.data_bound"
local rank_one = require "penumbra.invariance.rank_one"
local translation = require "penumbra.invariance.translation"

local linear_model = {}

local LOG_2PI = core.log_2pi

-- ---- the model ----

local methods = {}
local class = { __name = "linear model" }

function class:__tostring()
  return ("linear model of %d weights and %d observations"):format(self.size, self.num_data)
end

local model_options = { x = options.any(nil), size = options.optional "number", y = options.any(nil),
  noise_variance = options.required "number", prior_mean = options.any(0), prior_variance = options.any(nil),
  scale = options.optional "number" }
model_options.x, model_options.y, model_options.prior_variance = options.any(false), options.any(false),
  options.any(false)

-- A number or [K] as [K].
local function vector(where, role, v, like)
  local t = options.numbers(where, role, v)
  if type(t) == "number" then
    t = core.full({}, t, { dtype = like:dtype() })
  end
  if t:ndim() > 1 or t:ndim() == 1 and t:size(1) ~= like:size(1) then
    core.error(("%s: %s must be a number or have shape [%d], got [%s]"):format(where, role, like:size(1),
      table.concat(t:shape(), ", ")))
  end
  return t:ndim() == 0 and t:broadcast_to(like:shape()) or t
end

local function positive(where, role, t)
  if not core.capture.going_on() and not t:gt(0):all():item() then
    core.error(("%s: %s must be positive"):format(where, role))
  end
  return t
end

local function input_of(o)
  if o.x then
    local x = options.numbers("linear_model", "x", o.x, "tensor")
    if x:ndim() ~= 1 or o.size then
      core.error(("linear_model: x must have one axis%s, got [%s]"):format(o.size and " and takes the place of size"
        or "", table.concat(x:shape(), ", ")))
    elseif not x:ne(0):any():item() then
      core.error "linear_model: x must not be zero: the data would say nothing about the weights"
    end
    return x
  end
  return core.ones { options.whole("linear_model", "size", o.size or 0, 1) }
end

--- linear_model{x = | size =, y =, noise_variance = [, prior_mean = 0, prior_variance = K, scale = 1 / K]}: see
--- pn.help "pn.invariance.linear_model".
function linear_model.new(given)
  local o = options.check("linear_model", given, model_options)
  local x = input_of(o)
  local K = x:size(1)
  if not o.y then
    core.error "linear_model: option 'y' is required"
  end
  local y = options.numbers("linear_model", "y", o.y, "tensor")
  if y:ndim() ~= 1 or y:size(1) < 1 then
    core.error(("linear_model: y must have one axis, got [%s]"):format(table.concat(y:shape(), ", ")))
  elseif not (o.noise_variance > 0 and o.noise_variance < math.huge) then
    core.error(("linear_model: noise_variance must be positive, got %s"):format(o.noise_variance))
  elseif o.scale and not (o.scale ~= 0 and o.scale - o.scale == 0) then
    core.error(("linear_model: scale must be a finite number other than 0, got %s"):format(o.scale))
  end
  local self = { x = x, y = y, noise_variance = o.noise_variance, scale = o.scale or 1 / K, size = K,
    num_data = y:size(1), prior_mean = vector("linear_model", "prior_mean", o.prior_mean, x),
    prior_variance = positive("linear_model", "prior_variance",
      vector("linear_model", "prior_variance", o.prior_variance or K, x)) }
  self.prior_law = rank_one.new { mean = self.prior_mean, diagonal = self.prior_variance:reciprocal() }
  self.spread = self.prior_variance * x -- Sigma x
  self.power = (x * self.spread):sum() -- x^T Sigma x
  self.centre = (x * self.prior_mean):sum() -- x^T mu
  self.target = y:mean()
  return setmetatable(self, class)
end

--- The law of the weights before the data.
function methods:prior()
  return self.prior_law
end

--- The exact posterior: precision Sigma^-1 + (N scale^2 / noise) x x^T (equation 15).
function methods:posterior()
  local n, s, noise = self.num_data, self.scale, self.noise_variance
  local gain = (self.target - self.centre * s) * (n * s) / (self.power * (n * s * s) + noise)
  return rank_one.new { mean = self.prior_mean + self.spread * gain, diagonal = self.prior_law.diagonal,
    direction = self.x, noise = noise / (n * s * s) }
end

--- ln p(y): the observations are jointly normal, with covariance noise I + scale^2 (x^T Sigma x) 1 1^T.
function methods:log_evidence()
  local n, s, noise = self.num_data, self.scale, self.noise_variance
  local off, f = self.y - self.centre * s, self.power * (s * s)
  local square = off:square():sum() - f * off:sum():square() / (f * n + noise)
  return (square / noise + (f * (n / noise)):log1p() + n * (LOG_2PI + math.log(noise))) * -0.5
end

-- Mean and variance of f = scale x^T w under q.
local function function_law(self, q, where)
  if not rank_one.is_law(q) or q:mean():size(1) ~= self.size then
    core.error(("%s: q must be a law of the %d weights, as model:approximation gives them"):format(where, self.size))
  end
  local mean, variance = q:law(self.x)
  return mean * self.scale, variance * (self.scale * self.scale)
end

--- Mean and variance of a new observation at x under q.
function methods:predictive(q)
  local mean, variance = function_law(self, q, "predictive")
  return mean, variance + self.noise_variance
end

local convention = { noise_inside = false }

local function likelihood_term(self, q, given, where)
  local o = options.check(where, given, convention)
  local mean, variance = function_law(self, q, where)
  local square = (self.y - mean):square():sum() + variance * self.num_data
  local value = (square / self.noise_variance + self.num_data * (LOG_2PI + math.log(self.noise_variance))) * -0.5
  return o.noise_inside and value - self.num_data / 2 or value
end

--- The sum of E_q[ln p(y_n | w)]. Appendix F of the paper counts the noise of the observation inside the prediction,
--- which takes 1/2 a datum off: {noise_inside = true}.
function methods:expected_log_likelihood(q, given)
  return likelihood_term(self, q, given, "expected_log_likelihood")
end

--- The expected log likelihood less KL[q || p].
function methods:elbo(q, given)
  return likelihood_term(self, q, given, "elbo") - q:kl(self.prior_law)
end

--- The bound of section 2.2 on KL[q || p] of every q whose ELBO is at least that of the prior (of the others it is
--- none), and the two expected log likelihoods whose difference it is: of a q that predicts the data perfectly, and of
--- the prior. {noise_inside = true} for the paper's convention, which moves both by -N / 2.
function methods:data_bound(given)
  local o = options.check("data_bound", given, convention)
  local mean, variance = function_law(self, self.prior_law, "data_bound")
  return data_bound { y = self.y, output_mean = mean, output_variance = variance,
    noise_variance = self.noise_variance, noise_inside = o.noise_inside }
end

-- ---- optima ----

-- Of all m and lambda with x^T m = ybar / scale and x^T V x = noise / (N scale^2), which give the posterior as q_mix,
-- those in a constant ratio to the prior, at which q_0 predicts as q_mix does.
local function optimum_mix(self)
  local s = self.scale
  local c = self.noise_variance / (self.num_data * s * s)
  return { loc = self.prior_mean + self.spread * ((self.target / s - self.centre) / self.power),
    variance = self.prior_variance * (c / self.power) }
end

-- The best q_0 has the mean of the posterior and the diagonal of its precision: lambda_k = noise / (N scale^2 x_k^2),
-- infinite where x_k = 0, and m_k = mean_k + lambda_k / sigma_k^2 (mean_k - mu_k).
local function optimum_mean_field(self, mean)
  local s, none = self.scale, self.x:eq(0)
  local one = core.ones(self.x:shape(), { dtype = self.x:dtype() })
  local finite = (core.where(none, one, self.x):square():reciprocal()) * (self.noise_variance / (self.num_data * s * s))
  local variance = core.where(none, one * math.huge, finite)
  if mean == "printed" then
    return { loc = optimum_mix(self).loc, variance = variance }
  end
  local off = methods.posterior(self).loc - self.prior_mean
  return { loc = self.prior_mean + off + core.where(none, one * 0, finite * off / self.prior_variance),
    variance = variance }
end

--- optimum(which [, {mean = "corrected"}]): loc and variance of the Gaussian factor that is best for q_mix, which =
--- "mix", or for q_0, which = "mean_field". Equation 21 gives the latter the loc of the former, which is not the
--- optimum where the prior is proper: {mean = "printed"} gives that.
function methods:optimum(which, given)
  local o = options.check("optimum", given, { mean = options.choice("corrected", "printed") })
  if which == "mix" then
    return optimum_mix(self)
  elseif which == "mean_field" then
    return optimum_mean_field(self, o.mean)
  end
  return core.error(("optimum: which must be 'mix' or 'mean_field', got %s"):format(tostring(which)))
end

-- ---- approximations ----

local pair = {}
local pair_class = { __name = "approximation" }

function pair_class:__tostring()
  return ("approximation of a posterior of %d weights: a:q0(), a:q_mix()"):format(self.model.size)
end

-- x^T V x; an infinite variance of a weight that x does not see does not count.
local function factor_power(self)
  if self.matrix then
    return (self.model.x * self.matrix:matmul(self.model.x)):sum()
  end
  local none = self.model.x:eq(0)
  return (core.where(none, self.model.x, self.factor) * self.model.x:square()):sum()
end

--- approximation{loc = m, variance = lambda} or {loc = m, covariance = V}: q_0 and q_mix of the Gaussian factor N(m,
--- V). Variances may be infinite: a factor that says nothing, with which both are the prior. A full V costs O(K^2) for
--- q_mix and O(K^3) for q_0.
function methods:approximation(given)
  local where = "approximation"
  local o = options.check(where, given, { loc = options.any(false), variance = options.any(false),
    covariance = options.any(false) })
  if not o.loc then
    core.error "approximation: option 'loc' is required"
  elseif not o.variance == not o.covariance then
    core.error "approximation: exactly one of variance and covariance must be given"
  end
  local made = { model = self, loc = vector(where, "loc", o.loc, self.x) }
  if o.variance then
    made.factor = positive(where, "variance", vector(where, "variance", o.variance, self.x))
  else
    made.matrix = options.numbers(where, "covariance", o.covariance, "tensor")
    if made.matrix:ndim() ~= 2 or made.matrix:size(1) ~= self.size or made.matrix:size(2) ~= self.size then
      core.error(("approximation: covariance must have shape [%d, %d], got [%s]"):format(self.size, self.size,
        table.concat(made.matrix:shape(), ", ")))
    end
  end
  made.noise = factor_power(made)
  return setmetatable(made, pair_class)
end

--- The mean-field posterior p g_0 / Z_0 (equation 6a); with a full V a law with matrices.
function pair:q0()
  local m = self.model
  local diagonal = m.prior_law.diagonal
  if self.matrix then
    local p = self.matrix:inverse()
    local covariance = (p + diagonal:diag_embed()):inverse()
    return rank_one.dense(covariance:matmul(p:matmul(self.loc) + diagonal * m.prior_mean), covariance)
  end
  local p = self.factor:reciprocal() + diagonal
  local pull = (self.loc - m.prior_mean) / (self.factor / m.prior_variance + 1)
  return rank_one.new { mean = m.prior_mean + pull, diagonal = p }
end

--- The invariance-abiding posterior p g_mix / Z_mix (equation 17): it depends on V through x^T V x alone.
function pair:q_mix()
  local m = self.model
  local gain = (m.x * (self.loc - m.prior_mean)):sum() / (self.noise + m.power)
  return rank_one.new { mean = m.prior_mean + m.spread * gain, diagonal = m.prior_law.diagonal, direction = m.x,
    noise = self.noise }
end

--- finite(beta [, {pivot =}]): q_beta, with translations of variance beta^2 in place of all of them: the factor has the
--- covariance V_beta = V + beta^2 B B^T, and q_mix is the limit of a large beta. B is the basis with that pivot, an x_k
--- other than 0 (default: the last one).
---
--- With r_i = x_i / x_k, V_beta is an arrow: its precision is Diag(1 / D_i, 0) + u u^T / c with D_i = lambda_i +
--- beta^2, u = (beta^2 r_i / D_i, 1 at k) and c = lambda_k + beta^2 sum r_i^2 lambda_i / D_i.
function pair:finite(beta, given)
  local m = self.model
  options.argument("finite", "beta", beta, "number")
  local o = options.check("finite", given, { pivot = options.optional "number" })
  if not (beta > 0 and beta < math.huge) then
    core.error(("finite: beta must be positive and finite, got %s (q_mix is the limit)"):format(beta))
  end
  local k = translation.pivot("finite", m.x, o.pivot)
  if self.matrix then
    local B = translation.basis(m.x, { pivot = k })
    -- Woodbury: Lambda - Lambda B (beta^-2 I + B^T Lambda B)^-1 B^T Lambda
    local lambda = self.matrix:inverse()
    local side = lambda:matmul(B)
    local inner = core.eye(m.size - 1, { dtype = B:dtype() }) * beta ^ -2 + B:t():matmul(side)
    local p = lambda - side:matmul(inner:solve(side:t()))
    local covariance = (p + m.prior_law.diagonal:diag_embed()):inverse()
    return rank_one.dense(covariance:matmul(p:matmul(self.loc) + m.prior_law.diagonal * m.prior_mean), covariance)
  end
  local at = core.arange(m.size):eq(k - 1)
  local one = core.ones(m.x:shape(), { dtype = m.x:dtype() })
  local wide = core.where(at, one, self.factor + beta ^ 2) -- D, 1 at the pivot
  local r = core.where(at, one * 0, m.x / m.x[k])
  local u = core.where(at, one, r * beta ^ 2 / wide)
  local share = core.where(at, one * 0, (self.factor:reciprocal() * beta ^ 2 + 1):reciprocal()) -- lambda / D
  local c = self.factor[k] + (r:square() * share):sum() * beta ^ 2
  local own = core.where(at, one * 0, wide:reciprocal())
  -- the mean solves (Sigma^-1 + Lambda_beta) (mean - mu) = Lambda_beta (m - mu), by Sherman & Morrison
  local diagonal, off = m.prior_law.diagonal + own, self.loc - m.prior_mean
  local right = own * off + u * ((u * off):sum() / c)
  local pull = (u * right / diagonal):sum() / (c + (u:square() / diagonal):sum())
  return rank_one.new { mean = m.prior_mean + (right - u * pull) / diagonal, diagonal = diagonal, direction = u,
    noise = c }
end

--- The precision of g_mix, x x^T / (x^T V x), or with beta that of its finite average, as a matrix: for small K.
function pair:factor_precision(beta, given)
  local m = self.model
  rank_one.check_dense("factor_precision", m.size)
  if not beta then
    return m.x:unsqueeze(2) * m.x / self.noise
  end
  return pair.finite(self, beta, given):precision() - m.prior_law.diagonal:diag_embed()
end

--- Is lambda / sigma^2 the same for all weights that x sees, to that relative tolerance (default 1e-9)? Then, and in
--- general only then, both lemmas of the paper hold for translations: q_0 and q_mix predict alike, and
--- KL[q_0 || p] - KL[q_mix || p] is the gap. (Appendix C takes D B r = B D r for any diagonal D.)
function pair:is_constant_ratio(tolerance)
  tolerance = tolerance or 1e-9
  options.argument("is_constant_ratio", "tolerance", tolerance, "number")
  local m = self.model
  local seen = m.x:ne(0)
  local factor = self.factor
  if self.matrix then
    factor = self.matrix:diagonal()
    local rest = (self.matrix - factor:diag_embed()):abs():max():item()
    if rest > tolerance * factor:max():item() then
      return false
    end
  end
  local ratio = (factor / m.prior_variance):detach():masked_select(seen)
  local least, most = ratio:min():item(), ratio:max():item()
  return least == most or most - least <= tolerance * most
end

--- The invariance gap KL[q_0 || q_mix] in nats, whatever the ratio.
function pair:gap()
  return pair.q0(self):kl(pair.q_mix(self))
end

--- The same with K x K matrices, for small K.
function pair:gap_by_matrices()
  local function full(q)
    return rank_one.dense(q:mean(), q:covariance())
  end
  return full(pair.q0(self)):kl(full(pair.q_mix(self)))
end

--- KL[q_0 || p] - KL[q_mix || p]: at a constant ratio the gap, otherwise another number.
function pair:kl_difference()
  local p = self.model.prior_law
  return pair.q0(self):kl(p) - pair.q_mix(self):kl(p)
end

local identity = { approximate = false }

local function check_identity(self, where, given)
  local o = options.check(where, given, identity)
  if not o.approximate and not pair.is_constant_ratio(self) then
    core.error(("%s: variance / prior_variance must be the same for all weights that x sees: lemmas 1 and 2 hold for "
      .. "translations only then ({approximate = true} computes it all the same)"):format(where))
  end
end

--- The gap by lemma 2, as kl_difference gives it. An error unless the ratio is constant or {approximate = true} asks
--- for it.
function pair:gap_by_identity(given)
  check_identity(self, "gap_by_identity", given)
  return pair.kl_difference(self)
end

--- The ELBO of q_0 plus the gap, which by lemmas 1 and 2 is that of q_mix; at the optimum "mix" it is the log evidence.
--- An error unless the ratio is constant or {approximate = true} asks for it.
function pair:corrected_elbo(given)
  check_identity(self, "corrected_elbo", given)
  return self.model:elbo(pair.q0(self)) + pair.gap(self)
end

class.__index = core.namespace("a linear model", methods)
pair_class.__index = core.namespace("an approximation", pair)

return linear_model
