--- Divergences by bounds and approximations: of mixtures, of gates whose input is normal, and the largest probability
--- that a divergence allows.
---
---     bounds.mixture(p, q, method)        of two mixtures; neither is known in closed form
---     bounds.gate(loc, scale, sharpness)  of a gate whose input is normal
---     bounds.bernoulli_inverse(q, c)      the largest p with KL(Bernoulli(q) || Bernoulli(p)) <= c
---     bounds.geometric_mean(list, weights)    -log of the integral of a weighted geometric mean of normals
local core = require "penumbra.core"
local dist = require "penumbra.distribution.constructor"
local natural = require "penumbra.distribution.natural"
local options = require "penumbra.options"

local bounds = {}

local function is_distribution(d)
  return type(d) == "userdata" and getmetatable(d) == "penumbra.distribution"
end

-- ---- mixtures ----

local axes_of = {}
for _, row in ipairs(core.distribution_rows()) do
  axes_of[row.name] = {}
  for _, p in ipairs(row.parameters) do
    axes_of[row.name][p.name] = #p.axes
  end
end

-- Component k of a distribution whose last batch axis counts them.
local function slice(d, k)
  local axes, named = axes_of[d.name], {}
  if not axes then
    core.error(("kl_mixture: components along a batch axis must be of a plain kind, got %s"):format(d.name))
  end
  local moved = d.independent_rank
  for name, t in pairs(d:arguments()) do
    local axis = t:ndim() - axes[name] - moved
    if axis >= 1 then
      t = t:select(axis, t:size(axis) == 1 and 1 or k)
    end
    named[name] = t
  end
  return dist[d.name](named):independent(moved)
end

-- Log weights [batch, K] and the list of K components; a plain distribution is one.
local function parts_of(d)
  if d.name ~= "mixture" then
    return nil, { d }
  elseif d.independent_rank > 0 then
    core.error "kl_mixture: mixtures must come before :independent (bounds of independent ones add up)"
  end
  local parts, list = d.parts, {}
  local log_weights = parts[1].logits:log_softmax(-1)
  local n = log_weights:size(-1)
  for k = 1, n do
    list[k] = #parts == 2 and slice(parts[2], k) or parts[1 + k]
  end
  return log_weights, list
end

-- log of the integral of f g for two normals
local function log_overlap(f, g)
  if f.name == "normal" and g.name == "normal" then
    return dist.normal(g:mean(), (f:variance() + g:variance()):sqrt()):log_prob(f:mean())
  end
  local function dense(d)
    if d.name == "multivariate_normal" then
      return d.covariance_matrix
    elseif d.name == "normal" and #d.event_shape == 1 then
      return d:variance():diag_embed()
    end
    core.error(("kl_mixture: methods product, lower and upper need normal components, got %s"):format(d.name))
  end
  local sum = dense(f) + dense(g)
  return dist.multivariate_normal { loc = g:mean(), covariance_matrix = sum }:log_prob(f:mean())
end

local function overlap(f, g)
  local t = log_overlap(f, g)
  for _ = 1, f.name == "normal" and g.name == "normal" and #f.event_shape or 0 do
    t = t:sum { -1 }
  end
  return t
end

-- Matrix [batch, A, B] of f(a, b) over all pairs.
local function table_of(f, first, second)
  local rows = {}
  for i, a in ipairs(first) do
    local row = {}
    for j, b in ipairs(second) do
      row[j] = f(a, b)
    end
    rows[i] = row
  end
  -- components may differ in their batch: all to the joint shape
  local sum
  for _, row in ipairs(rows) do
    for _, t in ipairs(row) do
      sum = sum and sum + t or t -- of which the shape alone is read
    end
  end
  for i, row in ipairs(rows) do
    for j, t in ipairs(row) do
      row[j] = t:broadcast_to(sum:shape())
    end
    rows[i] = core.stack(row, -1)
  end
  return core.stack(rows, -2)
end

local function entropies(list)
  local columns = table_of(function(d) return d:entropy() end, list, { true })
  return columns:squeeze(-1)
end

-- [batch, A]: log sum_b e^(log_weights_b + t_ab)
local function mixed(log_weights, t)
  if log_weights then
    t = t + log_weights:unsqueeze(-2)
  end
  return t:logsumexp { -1 }
end

-- Weights phi (rows sum to those of p) and psi (columns to those of q) that lower the bound in turn, as logarithms.
local function matched(lw, lv, divergences, iterations)
  local psi = lw:unsqueeze(-1) + lv:unsqueeze(-2) + divergences * 0
  local phi
  for step = 1, iterations do
    local fit = psi - divergences
    phi = lw:unsqueeze(-1) + fit - fit:logsumexp({ -1 }, true)
    if step < iterations then
      psi = lv:unsqueeze(-2) + phi - phi:logsumexp({ -2 }, true)
    end
  end
  local weight = phi:exp()
  local term = core.where(weight:eq(0), weight, weight * (phi - psi + divergences))
  return term:sum { -1 }:sum { -1 }
end

local mixture_options = { method = options.choice("variational", "product", "lower", "upper", "matching"),
  steps = 100 }

--- mixture(p, q [, options]): KL(p || q) where p or q is a mixture, in closed form, by a method:
---   "variational" (the default) and "product": the approximations of Hershey & Olsen 2007, neither a bound; the first
---   is exact for one component each, both are 0 for p = q;
---   "lower" and "upper": bounds out of the two (Durrieu, Thiran & Kelly 2012);
---   "matching": the upper bound that matches components, its weights improved in turn, `steps` times (100)
---   (Hershey & Olsen 2007, section 8).
--- "product", "lower" and "upper" need normal components, the others kinds that dist.kl knows. With f_a, pi_a those of
--- p and g_b, w_b those of q, D a divergence, t the integral of a product, H an entropy:
---   variational  sum_a pi_a log (sum_a' pi_a' e^-D(f_a, f_a') / sum_b w_b e^-D(f_a, g_b))
---   product      sum_a pi_a log (sum_a' pi_a' t(f_a, f_a') / sum_b w_b t(f_a, g_b))
---   upper        sum_a pi_a (log (sum_a' pi_a' t(f_a, f_a') / sum_b w_b e^-D(f_a, g_b)) + H(f_a))
---   lower        sum_a pi_a (log (sum_a' pi_a' e^-D(f_a, f_a') / sum_b w_b t(f_a, g_b)) - H(f_a))
---   matching     min over phi, psi >= 0 with sum_b phi_ab = pi_a, sum_a psi_ab = w_b of
---                sum_ab phi_ab (log (phi_ab / psi_ab) + D(f_a, g_b))
--- Result: the joint batch.
function bounds.mixture(p, q, given)
  local o = options.check("kl_mixture", type(given) == "string" and { method = given } or given or {}, mixture_options)
  local how = o.method
  if not (is_distribution(p) and is_distribution(q)) then
    core.error "kl_mixture: p and q must be distributions"
  elseif math.type(o.steps) ~= "integer" or o.steps < 1 then
    core.error(("kl_mixture: steps must be a whole number from 1 on, got %s"):format(tostring(o.steps)))
  end
  local lw, f = parts_of(p)
  local lv, g = parts_of(q)
  local weights = lw and lw:exp() or 1
  if how == "matching" then
    local divergences = table_of(core.kl, f, g)
    local none = divergences:select(-1, 1):select(-1, 1):unsqueeze(-1) * 0
    return matched(lw or none, lv or none, divergences, o.steps)
  end
  local own, other
  if how == "variational" or how == "lower" then
    own = mixed(lw, -table_of(core.kl, f, f))
  else
    own = mixed(lw, table_of(overlap, f, f))
  end
  if how == "variational" or how == "upper" then
    other = mixed(lv, -table_of(core.kl, f, g))
  else
    other = mixed(lv, table_of(overlap, f, g))
  end
  local term = own - other
  if how == "upper" then
    term = term + entropies(f)
  elseif how == "lower" then
    term = term - entropies(f)
  end
  return (weights * term):sum { -1 }
end

-- ---- gates ----

local gate_options = { approximate = false }
local log_root_two_pi = core.log_2pi / 2

-- 0 with the dtype of the first tensor there is.
local function zero_like(...)
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if core.is_tensor(x) then
      return core.zeros({}, { dtype = x:dtype() })
    end
  end
  return core.zeros {}
end

-- Nodes and weights of the trapezoidal rule for a standard normal variable, on a last axis.
local function normal_rule(dtype)
  local t = core.linspace(-12, 12, 241, { dtype = dtype })
  return t, (t * t * -0.5 - log_root_two_pi):exp() * 0.1
end

-- The same for the integral over u > 0 of what falls like e^-u, after u = e^(t - e^-t) (Takahasi & Mori 1974).
local function half_rule(dtype)
  local t = core.linspace(-4.2, 4.5, 160, { dtype = dtype })
  local log_u = t - (-t):exp()
  return log_u:exp(), log_u:exp() * ((-t):exp() + 1) * (8.7 / 159)
end

--- gate(loc, scale, sharpness [, options]): what a gate z with q(z) = Bernoulli(sigmoid(C loc)), C = sharpness, costs
--- when its input is a ~ N(loc, scale^2) and p(z | a) = Bernoulli(sigmoid(C a)): E[KL(q || p(z | a))]
---   = E[softplus(C a)] - softplus(C loc),
--- to about 1e-11 by quadrature. approximate = true: C (loc Phi(r) + scale phi(r) - max(0, loc)), r = loc / scale,
--- which is good for C scale well above 1 only (proposition 2 and eq. 3.9 of the thesis on Bayesian nets; at C = 1,
--- loc = 0 and scale = 1 it is 3.5 times too large). Tensors and numbers broadcast.
function bounds.gate(loc, scale, sharpness, given)
  local o = options.check("kl_gate", given or {}, gate_options)
  loc, scale = options.numbers("kl_gate", "loc", loc), options.numbers("kl_gate", "scale", scale)
  sharpness = options.numbers("kl_gate", "sharpness", sharpness)
  local zero = zero_like(loc, scale, sharpness)
  local dtype = zero:dtype()
  local m, s = (zero + loc):abs() * sharpness, zero + scale * sharpness -- of C a; it is even in loc
  m, s = m + s * 0, s + m * 0
  local r = m / s
  local linear = s * (r * r * -0.5 - log_root_two_pi):exp() - m * (-r):ndtr()
  if o.approximate then
    return linear
  end
  -- small s: 1/2 s^2 p'(m) + 1/8 s^4 p'''(m) + 1/48 s^6 p'''''(m), p the sigmoid
  local v, slope = s * s, m:sigmoid() * (-m):sigmoid()
  local series = v * slope * 0.5 * (v * (1 - slope * 6) * 0.25 + 1
    + v * v * (1 - slope * 30 + slope * slope * 120) * (1 / 24))
  -- moderate s: nodes in units of s
  local small, large = v:lt(4e-4), s:gt(4)
  local one = s * 0 + 1
  local t, w = normal_rule(dtype)
  local width = core.where(large, one, s)
  local near = ((t * width:unsqueeze(-1) - m:unsqueeze(-1)):softplus() * w):sum { -1 } - (-m):softplus()
  -- large s: relu and what softplus adds to it, near 0
  local u, share = half_rule(dtype)
  width = core.where(large, s, one):unsqueeze(-1)
  local function density(at)
    local z = (at + m:unsqueeze(-1)) / width
    return (z * z * -0.5 - log_root_two_pi):exp() / width
  end
  local far = linear + ((-u):softplus() * share * (density(u) + density(-u))):sum { -1 } - (-m):softplus()
  return core.where(small, series, core.where(large, far, near))
end

-- ---- the inverse of the divergence of two events ----

--- bernoulli_inverse(q, c): the largest p with KL(Bernoulli(q) || Bernoulli(p)) <= c: what a PAC-Bayes bound on that
--- divergence says of a risk (Maurer 2004); never above q + sqrt(c / 2), Pinsker's bound, and never below the exact
--- value. With gradients to q and c > 0; NaN where q is outside [0, 1] or c is negative. Tensors and numbers broadcast.
--- pn.pac has the other inverses.
function bounds.bernoulli_inverse(q, c)
  q, c = options.numbers("kl_bernoulli_inverse", "q", q), options.numbers("kl_bernoulli_inverse", "c", c)
  local zero = zero_like(q, c)
  return core.bernoulli_kl_inverse(zero + q, zero + c)
end

-- ---- geometric means ----

--- geometric_mean(list, weights): -log of the integral of prod_k p_k^w_k for normals p_k (any that dist.natural.of
--- takes) and weights that sum to 1: the least expected divergence sum_k w_k KL(q || p_k) of one q that stands for
--- all, and 0 only if they agree. For two with weights 1/2 it is Bhattacharyya's distance. The q is also returned. The
--- conditioning gap of partially conditioned posteriors (Bayer, Soelch et al. 2021, eq. 6).
function bounds.geometric_mean(list, weights)
  if type(list) ~= "table" or #list < 1 then
    core.error "geometric_mean: distributions must be a list of at least 1"
  elseif type(weights) ~= "table" or #weights ~= #list then
    core.error(("geometric_mean: weights must be a list of %d numbers"):format(#list))
  end
  local total, product, gap = 0, nil, nil
  for k, d in ipairs(list) do
    if not is_distribution(d) then
      core.error(("geometric_mean: member %d must be a distribution, got %s"):format(k, type(d)))
    end
    local w, factor = weights[k], natural.of(d)
    if type(w) ~= "number" or w < 0 then
      core.error(("geometric_mean: weight %d must be a number that is not negative, got %s"):format(k, tostring(w)))
    end
    total = total + w
    local share = factor:log_normaliser() * w
    gap = gap and gap + share or share
    product = product and product * factor ^ w or factor ^ w
  end
  if math.abs(total - 1) > 1e-9 then
    core.error(("geometric_mean: weights must sum to 1, got %.7g"):format(total))
  end
  return gap - product:log_normaliser(), product:to_distribution()
end

return bounds
