--- Continual learning with Bayesian networks: Gaussian sites of single data, memories chosen by them, and what time
--- does to a belief (Kurle, Cseke, Klushyn, van der Smagt & Guennemann 2020, "Continual learning with Bayesian neural
--- networks for non-stationary data").
---
---     local learner = pn.continual.learner{network = net, likelihood = "categorical", memory = {size = 150},
---       forget = pn.continual.bayesian_forgetting{rate = 0.05}}
---     learner:observe(x, y, time)
---
--- The learner (pn.help "penumbra.continual.learner") is made of these parts, which serve without it too:
---
---     local forget = pn.continual.bayesian_forgetting{rate = 0.05}
---     local p = forget:apply(q, prior, elapsed)
---
---     local sites, terms = pn.continual.sites(net, x, y, {likelihood = "categorical", posterior = q})
---     sites = pn.continual.correct_bias(sites, p, q)
---     local kept = pn.continual.top(pn.continual.scores(sites, q, terms), 150)
---     local next_q, report = pn.continual.gaussian_update(sites, p, q, {kept = kept, num_new = x:size(1)})
-- help: pn.continual, part
local adaptation = require "penumbra.continual.adaptation"
local learner = require "penumbra.continual.learner"
local memory = require "penumbra.continual.memory"
local sites = require "penumbra.continual.sites"

local continual = {}

--- bayesian_forgetting{rate =, lag = 1}: powers of likelihoods that decay with age, (1 - rate)^(age / lag): natural
--- parameters move to the prior's. rate in [0, 1); 0 forgets nothing. A constant stream is worth 1 / rate batches.
--- Methods apply and memory_weight (pn.help "penumbra.continual.adaptation").
function continual.bayesian_forgetting(given)
  return adaptation.bayesian_forgetting(given)
end

--- ornstein_uhlenbeck{stiffness =, lag = 1}: weights diffuse and are pulled back to the prior: the mean decays with
--- exp(-stiffness t / lag) (half of the distance after lag ln 2 / stiffness), the variance with its square. No memory.
function continual.ornstein_uhlenbeck(given)
  return adaptation.ornstein_uhlenbeck(given)
end

--- wiener{rate =, lag = 1} or {variance_rate =, lag = 1}: weights diffuse freely: variance v + rate^2 v0 t / lag, or
--- v + variance_rate v0 t / lag, v0 the prior's. The mean stays, and nothing returns to the prior. No memory.
function continual.wiener(given)
  return adaptation.wiener(given)
end

--- sites(network, x, y, {likelihood =, ...}): the Gaussian site of each datum at a posterior, by Monte Carlo:
--- precision_n = -2 d/dv E_q[log p(y_n | x_n, w)], precision_mean_n = d/dm E_q[...] + precision_n m, m and v mean and
--- variance of q (equations 5a, 5b). Gives a Gaussian factor of batch N and event P, all weights in the network's
--- order, and a table {expected_log_likelihood [N], expected_log_site [N] (E_q[log r_n], r_n the site without its
--- constant), log_likelihood_at_mean [N]}. Options and what it can take apart: pn.help "penumbra.continual.sites".
function continual.sites(network, x, y, given)
  return sites.sites(network, x, y, given)
end

--- site_sums(network, x, y, {likelihood =, ...}): what a step of learning needs of all data, without a site for each:
--- the table of sites and, [P] each, precision_mean and precision of the product of all sites. Options are those of
--- sites but rows; the same state of the generator gives the draws that sites has then, for the data that are kept.
function continual.site_sums(network, x, y, given)
  return sites.site_sums(network, x, y, given)
end

--- posterior(network): the posterior of a network of pn.nn.bayesian as one Gaussian factor over all its weights [P], in
--- the network's order, with no gradient.
function continual.posterior(network)
  return sites.posterior(network)
end

--- correct_bias(sites, predecessor, posterior [, {sign = "sum"}]): sites that multiply to posterior / predecessor
--- exactly: each gets an equal share of what all together lack. sign = "printed" subtracts it, as appendix C is
--- printed, which doubles the error.
function continual.correct_bias(factors, predecessor, posterior, given)
  return memory.correct_bias(factors, predecessor, posterior, given)
end

--- scores(sites, posterior, terms [, {kind = "residual", weights =}]): what the Gaussian misses of each datum, E_q[log
--- p(d | w) - log r(w)] [N] (equation 8, r without its constant). terms: the table that sites gives, or
--- {expected_log_likelihood =}.
---   kind       "residual": as printed; "absolute": its size; "centred": without the constant, r set to p at the mean
---              of q, so that a Gaussian likelihood has 0 (needs terms.log_likelihood_at_mean)
---   weights    [N], those that the sites were tempered with: scores of the untempered likelihood
function continual.scores(factors, posterior, terms, given)
  return memory.scores(factors, posterior, terms, given)
end

--- top(scores, M): the places, int64 [min(M, N)] from 0 on in rising order, of the M largest scores: the memory with
--- the largest sum. Of equal scores the first.
function continual.top(scores, M)
  return memory.top(scores, M)
end

--- k_center(x, M [, {first = 0}]): the places, int64 [min(M, N)] from 0 on, of M data of x [N, ...] chosen greedily:
--- from place `first` on always the datum farthest from those chosen (Gonzalez 1985). No datum is then farther from the
--- nearest chosen one than twice what the best choice reaches.
function continual.k_center(x, M, given)
  return memory.k_center(x, M, given)
end

--- residual_elbo(sites, predecessor, posterior, terms): the ELBO from the sites, log Z_q + sum over n of E_q[log
--- p(d_n | w) - log r_n(w)], Z_q the integral of predecessor times sites (equation 6). It is the ELBO where the
--- posterior is that product: at the optimum, or with sites after correct_bias.
function continual.residual_elbo(factors, predecessor, posterior, terms)
  return memory.residual_elbo(factors, predecessor, posterior, terms)
end

--- gaussian_update(sites, predecessor, posterior, {kept =, num_new =, ...}): the Gaussian part after data have left the
--- memory: predecessor times the sites of data that are not kept (equation 9a), or posterior over the sites of those
--- that are (9b). Gives it as a factor, and a report {method =, clipped =}.
---   kept       places of the data in memory, int64 from 0 on, as top and k_center give them
---   num_new    number of new data: 9a where it is at most that of the kept, else 9b (default: all N)
---   method     "auto"; "multiply" (9a) or "divide" (9b)
---   floor      precisions below this share of the predecessor's are raised to it, the mean there that of the
---              posterior; report.clipped counts them (the paper has no such guard). Default 1e-3
function continual.gaussian_update(factors, predecessor, posterior, given)
  return memory.gaussian_update(factors, predecessor, posterior, given)
end

--- learner{network =, likelihood =, ...}: a Bayesian network that learns from a stream of batches, keeps a memory of
--- data that its normal law says least of, and forgets. Methods observe, predict, log_predictive, save; options, fields
--- and what a report holds: pn.help "penumbra.continual.learner".
function continual.learner(given)
  return learner.new(given)
end

return continual
