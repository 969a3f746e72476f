--- Estimators of variational inference and importance sampling: functions of log-weights and log-densities, [K, B]
--- for K draws of each of B data.
---
---     infer.elbo(log_p, log_q)      infer.iwae(log_w)      infer.dreg(log_p, log_q, z)      infer.vimco(log_p, log_q)
---
--- A bound is one number to be maximised (a loss is its negative), in nats per datum, the mean over data after the
--- logarithm of the mean over draws. Its value is the bound and its gradient is the estimator's gradient, which for
--- the doubly reparametrised, score-function and wake-sleep estimators is not the derivative of the value:
--- opt:step(-bound) is all there is to do, and what it reports is the bound. Inputs and options may also be given by
--- name, infer.renyi{log_w = log_w, alpha = 0.3}.
---
--- Weights of -inf (draws outside the support) give no gradient; a datum all of whose weights are -inf has the bound
--- -inf and none either; if that is so for all data, or a weight is NaN or +inf, it is an error.
-- help: pn.infer, part
local core = require "penumbra.core"
local curvature = require "penumbra.autodiff.curvature"
local laplace = require "penumbra.infer.laplace"
local normal_outputs = require "penumbra.infer.normal_outputs"
local options = require "penumbra.options"

local infer = {}

for _, row in ipairs(core.estimator_rows()) do
  infer[row.name] = core.new_estimator(row.name)
end

--- Sampling importance resampling: n draws of equal weight for each datum out of the K of log_w [K, B].
---
---     local places = infer.sir(log_w, n)                 -- 0-based places among the K, int64 [n, B]
---     local z = infer.sir(log_w, n, {values = draws})    -- the draws there: [n, B, ...] of draws [K, B, ...]
---
--- {generator = g} draws from g. A datum whose weights are all 0 is an error. Rubin 1988.
function infer.sir(log_w, n, given)
  local o = options.check("sir", given or {}, { values = options.optional "tensor", generator = options.any(nil) })
  local places = core.new_sir(log_w, n, o.generator)
  local z = o.values
  if not z then return places end
  local shape = z:shape()
  if #shape < 2 or shape[1] ~= log_w:size(1) or shape[2] ~= log_w:size(2) then
    core.error(("sir: values must have shape [%d, %d, ...], got [%s]"):format(log_w:size(1), log_w:size(2),
      table.concat(shape, ", ")))
  end
  local wide = places
  for axis = 3, #shape do wide = wide:unsqueeze(axis) end
  shape[1] = n
  return z:gather(1, wide:broadcast_to(shape))
end

--- Sums of weights in constant memory, for bounds of thousands of draws:
---
---     local s = infer.stream{draws = 5000}
---     for _ = 1, 100 do s:add(log_w(50)) end        -- [50, B] each, under pn.no_grad
---     s:log_mean():mean()                            -- the importance weighted bound of 5,000 draws
---
--- s:add(log_w) takes [k, B] and gives s back; s:count() is the number of draws of each datum. Of each datum, [B]:
--- s:log_mean() log of the mean weight, s:standard_error() its standard error (delta method), s:elbo() the mean
--- log-weight, s:effective_sample_size(), and s:pareto_k(), as infer.psis would give of all draws at once, if
--- `draws` told beforehand how many there will be at most.
function infer.stream(given)
  local o = options.check("stream", given or {}, { draws = 0 })
  return core.new_stream(math.tointeger(o.draws) or core.error("stream: draws must be a whole number, got " .. o.draws))
end

--- The k-hat up to which weights of `draws` draws may be trusted: min(1 - 1 / log10 draws, 0.7). Vehtari et al. 2024.
function infer.pareto_k_threshold(draws)
  options.argument("pareto_k_threshold", "draws", draws, "number")
  return math.min(1 - 1 / math.log(draws, 10), 0.7)
end

--- pareto_warning(k, draws): nil if every k-hat of the tensor k (infer.psis's second result) is within what weights of
--- so many draws allow (infer.pareto_k_threshold), else a text that says how many are not and what that means: beyond
--- 1 the estimate has no mean to converge to, beyond 0.7 it needs impractically many draws, else more draws help.
function infer.pareto_warning(k, draws)
  options.argument("pareto_warning", "k", k, "tensor")
  options.argument("pareto_warning", "draws", draws, "number")
  local limit = infer.pareto_k_threshold(draws)
  local largest = k:max():item()
  if largest <= limit then return nil end
  local why = largest >= 1 and "the weights have no mean: estimates do not converge, take another proposal"
    or largest > 0.7 and "estimates converge too slowly to be of use, take another proposal"
    or ("at least %d draws are needed"):format(math.ceil(10 ^ (1 / (1 - largest))))
  return ("Pareto k-hat is above %.2f for %d of %d data (the largest is %.2f): %s"):format(limit,
    k:gt(limit):sum():item(), k:numel(), largest, why)
end

local baseline = {}
baseline.__index = baseline

--- A baseline for infer.score_function that follows the bound: an exponentially weighted mean.
---
---     local b = infer.running_baseline{decay = 0.9}
---     local bound = infer.score_function(log_p, log_q, {baseline = b.value})
---     b:update(-opt:step(-bound))
---
--- b.value is a number, 0 at first; early updates are weighted as if the mean had begun with them (Adam's
--- correction). In a compiled step pass it as an input, pn.tensor(b.value).
function infer.running_baseline(given)
  local o = options.check("running_baseline", given or {}, { decay = 0.9 })
  if not (o.decay >= 0 and o.decay < 1) then
    core.error(("running_baseline: decay must lie in [0, 1), got %g"):format(o.decay))
  end
  return setmetatable({ value = 0, decay = o.decay, sum = 0, weight = 0 }, baseline)
end

--- Takes the bound of a step in; returns and keeps the new value.
function baseline:update(bound)
  if bound - bound ~= 0 then
    core.error(("running_baseline: bound must be finite, got %s"):format(bound))
  end
  self.sum = self.decay * self.sum + (1 - self.decay) * bound
  self.weight = self.decay * self.weight + (1 - self.decay)
  self.value = self.sum / self.weight
  return self.value
end

--- anneal(step, {steps = n}): the factor of the divergence at a step (from 0): linearly from `from` (0) to `to` (1)
--- over n steps, then constant. With cycles = m the n steps are m ramps, each over the first `ramp` (0.5) of its cycle
--- (Fu, Li, Liu, Gao, Celikyilmaz & Carin 2019). For infer.elbo{log_likelihood = ll, kl = kl,
--- beta = infer.anneal(...)}; in a compiled step pass it as an input, pn.tensor(beta).
function infer.anneal(step, given)
  local o = options.check("anneal", given,
    { steps = options.required "number", from = 0, to = 1, cycles = 1, ramp = 1 })
  if not (o.steps > 0 and o.ramp > 0 and o.ramp <= 1 and o.cycles >= 1) then
    core.error("anneal: steps must be positive, cycles at least 1, ramp in (0, 1]")
  end
  local ramp = o.cycles > 1 and given.ramp == nil and 0.5 or o.ramp
  if step >= o.steps then return o.to end
  local position = step / o.steps * o.cycles % 1 / ramp
  return o.from + (o.to - o.from) * math.min(position, 1)
end

for name, f in pairs(normal_outputs) do
  infer[name] = f
end

-- ---- curvature ----

--- laplace(net, x, y, {likelihood =}): Laplace's approximation around the parameters that net has, which should
--- maximise infer.map: a normal posterior whose precision is Gauss and Newton's matrix plus prior_precision. net(x) is
--- [B, C]; likelihood(f) a distribution over y with a density for each datum.
---
---     local la = infer.laplace(net, x, y, {likelihood = function(f) return dist.categorical{logits = f} end,
---       structure = "kronecker", prior_precision = 2})
---     la:log_evidence()   la:linearised(x2)   la:posterior()   la:fit_prior()   la:with_prior(a)
---     la:effective_parameters()
---
--- Structures: "full", "diagonal", "kronecker" (nn.sequential of linear layers and functions), "last_layer". More by
--- pn.help "penumbra.infer.laplace".
infer.laplace = laplace.new

--- evidence_fixed_point(x, y, {alpha =, beta =, learn_beta =}): type-II maximum likelihood of Bayesian linear
--- regression y ~ N(x w, 1 / beta), w ~ N(0, 1 / alpha): {alpha, beta, gamma, mean, covariance, log_evidence, steps} at
--- MacKay's fixed point alpha = gamma / |m|^2, or nil and a message where there is none. x [N, D], y [N]. MacKay 1992.
infer.evidence_fixed_point = laplace.evidence_fixed_point

--- hessian_product(loss, params, v): the exact product of the Hessian of a one-element loss with a list v shaped like
--- the parameters, as such a list. Pearlmutter 1994.
infer.hessian_product = curvature.hessian_product

--- gauss_newton_product(outputs, loss, params, v): J' H J v with J = d outputs / d params and H the Hessian of
--- loss(outputs), a function that gives one element. Schraudolph 2002.
infer.gauss_newton_product = curvature.gauss_newton_product

--- hessian_matrix(loss, params): the exact Hessian of a one-element loss, [P, P], in P products.
infer.hessian_matrix = curvature.hessian

--- jacobian_matrix(outputs, params): d outputs / d params, [numel of outputs, P], in as many passes as the smaller
--- of the two.
infer.jacobian_matrix = curvature.jacobian

-- ---- guides and posteriors of models ----

--- guide(name, options) -> a guide to be given to pn.svi: "delta", "mean_field", "full_rank", "low_rank", "flow" or
--- "laplace". Options of all: init, a table site -> value to start from; radius (2) of random starts. scale (0.1): the
--- standard deviation at the start; rank (low_rank); flows (2), hidden ({32}) (flow). More by
--- pn.help "penumbra.infer.guide".
function infer.guide(name, given)
  return require("penumbra.infer.guide").new(name, given)
end

return infer
