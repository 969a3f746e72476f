--- Divergences of processes: of two stochastic differential equations along their paths, and of two Markov chains,
--- which are sums over time of the divergence of a step given the one before.
---
---     chain.path{drift = f, diffusion = g, step = dt}      of paths of Euler and Maruyama
---     chain.gaussian(p, q, steps)                          linear Gaussian chains, exact
---     chain.markov(p, q, steps)                            chains of finitely many states, exact
local core = require "penumbra.core"
local dist = require "penumbra.distribution.constructor"
local options = require "penumbra.options"

local chain = {}

local function sum_last(x)
  return x:sum { -1 }
end

local required, optional = options.required, options.optional
local path_options = { drift = required(), diffusion = optional(), diffusion_matrix = optional(), step = required() }

--- path{drift =, diffusion = or diffusion_matrix =, step =}: KL(Q || P) of two processes of one diffusion,
---   dh = (r(h, t) + f(h, t)) dt + G dW  under Q,   dh = r(h, t) dt + G dW  under P,
--- for each path of Q that is given: sum_k f_k^T (G G^T)^-1 f_k dt_k / 2; its mean over paths is the divergence (of the
--- discrete chains exactly, of the equations as dt goes to 0).
--- drift: f along the paths [..., steps, P]. diffusion: a number or the diagonal of G, which broadcasts with drift; or
--- diffusion_matrix: G [..., P, P], square and regular. step: dt, a number or [steps]. Result: [...].
--- Source: Girsanov's theorem; the path divergence of Bayesian neural SDEs (Haussmann et al. 2021, lemma 1).
function chain.path(given)
  local o = options.check("kl_path", given, path_options)
  local f, step = options.numbers("kl_path", "drift", o.drift), options.numbers("kl_path", "step", o.step)
  if (o.diffusion == nil) == (o.diffusion_matrix == nil) then
    core.error "kl_path: exactly one of diffusion, diffusion_matrix must be given"
  elseif not core.is_tensor(f) or f:ndim() < 2 then
    core.error "kl_path: drift must be a tensor [..., steps, P]"
  elseif type(step) == "number" and not (step > 0) then
    core.error(("kl_path: step must be positive, got %g"):format(step))
  end
  local white
  if o.diffusion_matrix then
    local matrix = options.numbers("kl_path", "diffusion_matrix", o.diffusion_matrix, "tensor")
    white = matrix:solve(f:unsqueeze(-1)):squeeze(-1)
  else
    white = f / options.numbers("kl_path", "diffusion", o.diffusion)
  end
  return sum_last(sum_last(white * white) * step) * 0.5
end

-- The options of a chain, lists as tensors.
local function as_tensors(where, given, known)
  local o = options.check(where, given, known)
  for key in pairs(known) do
    if o[key] ~= nil then
      o[key] = options.numbers(where, key, o[key], key ~= "offset" and "tensor" or nil)
    end
  end
  return o
end

-- Of values with a time axis before their last `rank` axes those of step t, else the value.
local function at(value, rank, t)
  return core.is_tensor(value) and value:ndim() > rank and value:select(1, t) or value
end

local function check_steps(where, steps)
  if math.type(steps) ~= "integer" or steps < 1 then
    core.error(("%s: steps must be a whole number from 1 on, got %s"):format(where, tostring(steps)))
  end
end

local gaussian_options = { loc = optional(), covariance = optional(), matrix = required(), noise = required(),
  offset = options.any(0) }

--- gaussian(p, q, steps): KL(p || q) of two chains of `steps` vectors, z_1 ~ N(loc, covariance) and
--- z_(t+1) ~ N(matrix z_t + offset, noise): sum over t of E_p[KL(p(z_t | z_(t-1)) || q(z_t | z_(t-1)))]. Each of p and
--- q is a table {loc =, covariance =, matrix =, noise =, offset = 0}; a q without loc starts as p does, and then p's
--- covariance may be zeros: a known start. matrix, noise (a covariance) and offset are for all steps or have a first
--- axis of steps - 1.
function chain.gaussian(p, q, steps)
  p = as_tensors("kl_gaussian_chain: p", p, gaussian_options)
  q = as_tensors("kl_gaussian_chain: q", q, gaussian_options)
  check_steps("kl_gaussian_chain", steps)
  local mean, covariance = p.loc, p.covariance
  if not mean or not covariance then
    core.error "kl_gaussian_chain: p must have loc and covariance"
  end
  local function normal(loc, matrix)
    return dist.multivariate_normal { loc = loc, covariance_matrix = matrix }
  end
  local kl = q.loc and core.kl(normal(mean, covariance), normal(q.loc, q.covariance)) or 0
  for t = 1, steps - 1 do
    local a, b = at(p.matrix, 2, t), at(q.matrix, 2, t)
    local noise_p, noise_q = at(p.noise, 2, t), at(q.noise, 2, t)
    local there = a:matmul(mean:unsqueeze(-1)):squeeze(-1) + at(p.offset, 1, t)
    local guess = b:matmul(mean:unsqueeze(-1)):squeeze(-1) + at(q.offset, 1, t)
    -- what the spread of z_t adds: tr(noise_q^-1 (A - B) V (A - B)^T) / 2
    local apart = a - b
    local spread = apart:matmul(covariance):matmul(apart:t())
    local trace = (noise_q:solve(spread) * core.eye(noise_q:size(-1), { dtype = noise_q:dtype() })):sum()
    kl = core.kl(normal(there, noise_p), normal(guess, noise_q)) + trace * 0.5 + kl
    mean, covariance = there, a:matmul(covariance):matmul(a:t()) + noise_p
  end
  return core.is_tensor(kl) and kl or mean:sum() * 0
end

local markov_options = { initial = required(), transition = required() }

-- sum p log(p / q) over the last axis, 0 log 0 = 0
local function choice_kl(p, q)
  return core.kl(dist.categorical { probs = p }, dist.categorical { probs = q })
end

--- markov(p, q, steps): KL(p || q) of two chains of `steps` labels out of n, each {initial = [n], transition = [n, n]
--- or [steps - 1, n, n]}, rows of a transition sum to 1: sum over t and states i of P(z_t = i) KL(row i of p || row i
--- of q).
function chain.markov(p, q, steps)
  p = as_tensors("kl_markov_chain: p", p, markov_options)
  q = as_tensors("kl_markov_chain: q", q, markov_options)
  check_steps("kl_markov_chain", steps)
  local marginal = p.initial
  local kl = choice_kl(marginal, q.initial)
  for t = 1, steps - 1 do
    local own, other = at(p.transition, 2, t), at(q.transition, 2, t)
    local rows = choice_kl(own, other)
    kl = kl + core.where(marginal:eq(0), 0 * marginal, marginal * rows):sum { -1 } -- a state never reached may differ
    marginal = marginal:unsqueeze(-2):matmul(own):squeeze(-2)
  end
  return kl
end

return chain
