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
local cmdstan = require "penumbra.infer.cmdstan"
local curvature = require "penumbra.autodiff.curvature"
local laplace = require "penumbra.infer.laplace"
local log_weights = require "penumbra.infer.log_weights"
local normal_outputs = require "penumbra.infer.normal_outputs"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local read_draws = require "penumbra.infer.read_draws"

local infer = {}

for _, part in ipairs { log_weights, normal_outputs } do
  for name, f in pairs(part) do
    infer[name] = f
  end
end

-- ---- draws ----

--- summary{theta = draws, ...}: what a posterior's summary says of draws of your own, [chains, draws, ...] each: mean,
--- sd, quantiles, R-hat, effective sample sizes of bulk and tails, Monte Carlo error. A list with an entry for each
--- number, entries by name, as text a table. Vehtari, Gelman, Simpson, Carpenter & Burkner 2021.
function infer.summary(draws)
  options.argument("summary", "draws", draws, "table")
  local names = {}
  for name, x in pairs(draws) do
    if type(name) ~= "string" or not core.is_tensor(x) or x:ndim() < 2 then
      core.error(("summary: draws are tensors [chains, draws, ...] by name, {theta = x}; %s is %s"):format(
        tostring(name), core.is_tensor(x) and options.shape_text(x) or type(x)))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return posterior.summary_of(draws, names)
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

-- ---- draws of other programs ----

for _, part in ipairs { read_draws, cmdstan } do
  for name, f in pairs(part) do
    infer[name] = f
  end
end

return infer
