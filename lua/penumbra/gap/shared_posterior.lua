--- The best posterior that data with the same conditions C can share, and what it costs: omega(z), proportional to
--- exp E[log p(z | C, c)] over what is left out, c given C, minimises E[KL(q(z) || p(z | C, c))], and the minimum is
--- -log Z (Bayer et al. 2021, equations 5 and 6, appendix A.1). Omega is a geometric mean: precisions are averaged, not
--- summed.
---
--- Any q then loses E[log p(x) - ELBO] = -log Z + min KL(q' || omega) + (KL(q || omega) - min KL(q' || omega)), the
--- minimum over its family: conditioning, approximation and amortisation.
-- help: pn.gap
local core = require "penumbra.core"
local options = require "penumbra.options"

local shared_posterior = {}

local LOG_TAU = core.log_2pi

local shape_text = options.shape_text

-- ---- weights of the K conditions left out ----

local function check_sum(where, w)
  local off = (w:sum(1) - 1):abs():max():item()
  if not (w:ge(0):all():item() and off < 1e-6) then
    core.error(where .. ": weights must be probabilities that sum to 1 over the first axis")
  end
end

-- [K, B... or 1...] with `batch` axes after the first.
local function read_weights(where, given, K, batch, dtype)
  local w = given and options.numbers(where, "weights", given, "tensor")
    or core.full({ K }, 1 / K, { dtype = dtype })
  if w:ndim() < 1 or w:size(1) ~= K or w:ndim() > 1 and w:ndim() ~= batch + 1 then
    core.error(("%s: weights must be [%d] or that with the batch's axes behind, got %s"):format(where, K,
      shape_text(w)))
  elseif w:dtype() ~= dtype then
    core.error(("%s: weights must be %s as the posteriors are, got %s (convert with :to)"):format(where, dtype,
      w:dtype()))
  end
  check_sum(where, w)
  if w:ndim() == 1 then
    local sizes = { K }
    for axis = 1, batch do sizes[axis + 1] = 1 end
    w = w:reshape(sizes)
  end
  return w
end

-- ---- kinds of laws ----

local function diagonal(where, o)
  local loc = options.numbers(where, "loc", o.loc, "tensor")
  local variance = options.numbers(where, "variance", o.variance, "tensor")
  if loc:ndim() == 1 then -- K numbers: an event of one
    loc, variance = loc:unsqueeze(-1), variance:unsqueeze(-1)
  end
  if table.concat(loc:shape(), " ") ~= table.concat(variance:shape(), " ") then
    core.error(("%s: variance must be shaped like loc, %s, got %s"):format(where, shape_text(loc),
      shape_text(variance)))
  elseif not variance:gt(0):all():item() then
    core.error(where .. ": variance must be positive")
  end
  local K = loc:size(1)
  local w = read_weights(where, o.weights, K, loc:ndim() - 2, loc:dtype()):unsqueeze(-1)
  local precision = variance:reciprocal()
  local total = (w * precision):sum(1)
  local mean = (w * precision * loc):sum(1) / total
  local spread = (w * precision * (loc - mean):square()):sum(1)
  local each = (spread + total:log() - (w * precision:log()):sum(1)) * 0.5
  return { kind = "diagonal", loc = mean, variance = total:reciprocal(), gap = each:sum(-1) }
end

local function dense(where, o)
  local loc = options.numbers(where, "loc", o.loc, "tensor")
  local cov = options.numbers(where, "cov", o.cov, "tensor")
  local n = loc:ndim() > 1 and loc:size(-1) or 0
  if cov:ndim() ~= loc:ndim() + 1 or n == 0 or cov:size(-1) ~= n or cov:size(-2) ~= n or cov:size(1) ~= loc:size(1) then
    core.error(("%s: loc must be [K, ..., n] and cov [K, ..., n, n], got %s and %s"):format(where, shape_text(loc),
      shape_text(cov)))
  end
  local root = cov:cholesky()
  if not root then
    core.error(where .. ": cov must be positive definite")
  end
  local w = read_weights(where, o.weights, loc:size(1), loc:ndim() - 2, loc:dtype()):unsqueeze(-1)
  local precision = root:cholesky_solve(core.eye(n, { dtype = loc:dtype() }))
  local total = (w:unsqueeze(-1) * precision):sum(1)
  local along = (precision:matmul(loc:unsqueeze(-1)) * w:unsqueeze(-1)):sum(1)
  local mean = total:solve(along):squeeze(-1)
  local off = (loc - mean):unsqueeze(-1)
  local spread = (w:squeeze(-1) * (off * precision:matmul(off)):sum { -2, -1 }):sum(1)
  local log_dets = -(w:squeeze(-1) * cov:logdet()):sum(1) -- of the precisions
  return { kind = "dense", loc = mean, cov = total:inverse(), gap = (spread + total:logdet() - log_dets) * 0.5 }
end

local function discrete(where, o)
  local logs = o.log_probs and options.numbers(where, "log_probs", o.log_probs, "tensor")
  if not logs then
    local p = options.numbers(where, "probs", o.probs, "tensor")
    if not p:ge(0):all():item() or (p:sum(-1) - 1):abs():max():item() > 1e-5 then
      core.error(where .. ": probs must be probabilities that sum to 1 along the last axis")
    end
    logs = p:log()
  end
  if logs:ndim() < 2 then
    core.error(("%s: probabilities must be [K, ..., n], got %s"):format(where, shape_text(logs)))
  end
  logs = logs:log_softmax(-1)
  local w = read_weights(where, o.weights, logs:size(1), logs:ndim() - 2, logs:dtype()):unsqueeze(-1)
  -- a condition of weight 0 forbids nothing
  local mixed = core.where(w:eq(0), core.zeros({}, { dtype = logs:dtype() }), w * logs):sum(1)
  local log_z = mixed:logsumexp(-1)
  return { kind = "discrete", log_probs = mixed - log_z:unsqueeze(-1), gap = -log_z }
end

-- The expected log posterior at draws of any law, by importance sampling.
local function from_draws(where, o)
  local logs = options.argument(where, "log_posteriors", o.log_posteriors, "tensor")
  local proposal = options.argument(where, "log_proposal", o.log_proposal, "tensor")
  if logs:ndim() < 2 or proposal:ndim() ~= logs:ndim() - 1 or proposal:size(1) ~= logs:size(2) then
    core.error(("%s: log_posteriors must be [K, S, ...] and log_proposal [S, ...], got %s and %s"):format(where,
      shape_text(logs), shape_text(proposal)))
  end
  local S = logs:size(2)
  local w = read_weights(where, o.weights, logs:size(1), logs:ndim() - 2, logs:dtype()):unsqueeze(2)
  local log_w = core.where(w:eq(0), core.zeros({}, { dtype = logs:dtype() }), w * logs):sum(1) - proposal
  local log_z = log_w:logsumexp(1) - math.log(S)
  local normalised = log_w:softmax(1)
  local ess = normalised:square():sum(1):reciprocal()
  -- of log Z: the relative standard error of the mean weight
  local se = ((S / ess - 1):clamp(0, math.huge) / S):sqrt()
  return { kind = "draws", log_weights = log_w:log_softmax(1), gap = -log_z, se = se, effective_sample_size = ess }
end

local known = { loc = false, variance = false, cov = false, probs = false, log_probs = false, log_posteriors = false,
  log_proposal = false, weights = false }

--- shared_posterior{...} -> {gap =, ...}: omega and its cost -log Z, `gap` [B...] in nats, of K posteriors p(z | C,
--- c_k) of `weights` [K] or [K, B...] (probabilities of c_k given C; equal unless given). The posteriors are
---
---   loc, variance     [K, B..., n]: normals with diagonal covariance; K numbers each: n = 1. Gives loc, variance
---   loc, cov          [K, B..., n] and [K, B..., n, n]: normals. Gives loc, cov
---   probs, or log_probs           [K, B..., n]: laws of n values. Gives log_probs
---   log_posteriors, log_proposal  [K, S, B...] and [S, B...]: log p(z_s | C, c_k) of S draws z_s from any law that
---                     covers omega, and its own log density. Gives log_weights [S, B...] (they sum to 1) by which
---                     those draws stand for omega, se of the gap, effective_sample_size
function shared_posterior.shared_posterior(given)
  local where = "shared_posterior"
  local o = options.check(where, given, known)
  if o.loc and o.variance and not o.cov then
    return diagonal(where, o)
  elseif o.loc and o.cov and not o.variance then
    return dense(where, o)
  elseif (o.probs or o.log_probs) and not (o.probs and o.log_probs) then
    return discrete(where, o)
  elseif o.log_posteriors and o.log_proposal then
    return from_draws(where, o)
  end
  return core.error(where .. ": give loc and variance, loc and cov, probs, log_probs, or log_posteriors and "
    .. "log_proposal")
end

-- ---- the split ----

-- KL(q || omega) of normals, diagonal or not, and the least over diagonal ones, [B...].
local function gaussian_parts(where, omega, q, family)
  options.argument(where, "q.loc", q.loc, "tensor")
  if (q.variance == nil) == (q.cov == nil) then
    core.error(where .. ": q must have one of variance and cov")
  end
  local n, dtype = omega.loc:size(-1), omega.loc:dtype()
  local cov = omega.cov or omega.variance:diag_embed()
  local own = q.cov or q.variance:diag_embed()
  if own:size(-1) ~= n or q.loc:size(-1) ~= n then
    core.error(("%s: q must be of %d numbers as omega is, got loc %s"):format(where, n, shape_text(q.loc)))
  end
  local precision = cov:solve(core.eye(n, { dtype = dtype }))
  local off = (q.loc - omega.loc):unsqueeze(-1)
  local square = (off * precision:matmul(off)):sum { -2, -1 }
  local trace = (precision * own):sum { -2, -1 }
  local kl = (trace - n + square + cov:logdet() - own:logdet()) * 0.5
  -- the best diagonal q has the precisions on omega's diagonal
  local least = family == "diagonal" and (precision:diagonal():log():sum(-1) + cov:logdet()) * 0.5 or kl * 0
  return kl, least
end

local function discrete_parts(where, omega, q)
  local logs = q.log_probs or q.probs and q.probs:log()
  if not logs then
    core.error(where .. ": q must have probs or log_probs")
  end
  local zero = core.zeros({}, { dtype = logs:dtype() })
  local kl = core.where(logs:eq(-math.huge), zero, logs:exp() * (logs - omega.log_probs)):sum(-1)
  return kl, kl * 0
end

--- split(omega, q [, {family = "full"}]) -> {conditioning, approximation, amortisation, total}, each [B...]: what q(z |
--- C) loses against log p(x) on average, in three parts that add up exactly. omega: of shared_posterior; q: {loc =,
--- variance = or cov =} [B..., n] beside normals, {probs = or log_probs =} beside laws of n values. family: "full", or
--- "diagonal": what approximation is measured against.
function shared_posterior.split(omega, q, given)
  local where = "split"
  local o = options.check(where, given, { family = options.choice("full", "diagonal") })
  options.argument(where, "omega", omega, "table")
  options.argument(where, "q", q, "table")
  local kl, least
  if omega.kind == "discrete" then
    kl, least = discrete_parts(where, omega, q)
  elseif omega.loc then
    kl, least = gaussian_parts(where, omega, q, o.family)
  else
    core.error(where .. ": omega must be what shared_posterior gives for normals or laws of n values")
  end
  return { conditioning = omega.gap, approximation = least, amortisation = kl - least, total = omega.gap + kl }
end

-- ---- the univariate example ----

--- univariate{transition = a [, noise_variance = 0.1, data_variance = 1]}: the worked example of section 3.2, p(x, z) =
--- N(x; a z, r) N(z; 0, 1) and data N(0, s^2), with one q for all x: a may be a tensor. Gives, like a:
--- posterior_variance r / (a^2 + r), which is that of the best q, too; log_likelihood E log p(x), bound that of the
--- best q, gap a^2 s^2 / (2 r (a^2 + r)), bound_gradient -a / (a^2 + r); and optimum, the a of maximum likelihood,
--- sqrt(s^2 - r). The bound is highest at a = 0.
function shared_posterior.univariate(given)
  local o = options.check("univariate", given, { transition = options.required(), noise_variance = 0.1,
    data_variance = 1 })
  local a, r, s2 = options.numbers("univariate", "transition", o.transition), o.noise_variance, o.data_variance
  if not (r > 0 and s2 > 0) then
    core.error "univariate: noise_variance and data_variance must be positive"
  end
  a = core.is_tensor(a) and a or core.tensor(a)
  local variance = a * a + r
  local bound = (a * a / r):log1p() * -0.5 - (LOG_TAU + math.log(r)) / 2 - s2 / (2 * r)
  return { posterior_variance = variance:reciprocal() * r,
    log_likelihood = (variance:log() + LOG_TAU + variance:reciprocal() * s2) * -0.5, bound = bound,
    gap = a * a * s2 / (variance * (2 * r)), bound_gradient = -a / variance,
    optimum = s2 > r and math.sqrt(s2 - r) or 0 }
end

return shared_posterior
