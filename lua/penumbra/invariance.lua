--- Invariances of the likelihood: transformations of the weights that leave what a model computes alone, what they
--- cost a mean-field posterior, and posteriors that abide by them (Kurle, Herbrich, Januschowski, Wang & Gasthaus
--- 2022, "On the detrimental effect of invariances in the likelihood for variational inference").
---
---     local model = pn.invariance.linear_model{size = 64, y = pn.ones{10}, noise_variance = 0.06}
---     local a = model:approximation(model:optimum "mean_field")
---     print(a:gap(), model:elbo(a:q0()), model:log_evidence())
---
---     local mix = pn.invariance.permutation_mixture(net)      -- net of pn.nn.bayesian
---     print(mix:gap{draws = 2000}.gap)
-- help: pn.invariance, part
local linear_curves = require "penumbra.invariance.linear_curves"
local layer_fit = require "penumbra.invariance.layer_fit"
local layerwise = require "penumbra.invariance.layerwise"
local linear_model = require "penumbra.invariance.linear_model"
local permutation_mixture = require "penumbra.invariance.permutation_mixture"
local transform = require "penumbra.invariance.transform"
local translation = require "penumbra.invariance.translation"

local invariance = {}

--- linear_model{size = | x =, y =, noise_variance = [, prior_mean = 0, prior_variance = K, scale = 1 / K]}: the
--- over-parametrised linear model y_n = scale x^T w + e_n, e_n ~ N(0, noise_variance), w ~ N(prior_mean,
--- Diag(prior_variance)), with N observations y [N] at the one input x [K] (or K ones).
---
---     model:prior()  model:posterior()            laws of w, O(K)
---     model:log_evidence()  model:data_bound()
---     model:optimum("mix")  model:optimum("mean_field" [, {mean = "printed"}])     the best {loc =, variance =}
---     local a = model:approximation{loc = m, variance = lambda}                    or covariance = V
---     a:q0()  a:q_mix()  a:finite(beta)           mean-field, invariance-abiding, with translations of variance beta^2
---     a:gap()  a:kl_difference()  a:gap_by_matrices()  a:is_constant_ratio()
---     a:gap_by_identity()  a:corrected_elbo()     by lemmas 1 and 2: an error where they do not hold
---     model:elbo(q)  model:expected_log_likelihood(q [, {noise_inside = true}])  model:predictive(q)
---     q:mean()  q:variance()  q:covariance()  q:precision()  q:log_det()  q:law(x)  q:kl(p)  q:sample{n}
---     q:log_prob(w)
---
--- Figures are 0-d tensors, in nats, with gradients. Everything that needs no matrix is O(K) in time and memory.
function invariance.linear_model(given)
  return linear_model.new(given)
end

--- curves{sizes =, num_data = 10, noise_variance = 1 / (2 pi e), function_variance = 1, target = 1, optimum = "mix",
--- mean = "corrected", noise_inside = false}: the linear model with x = 1 and all y equal at the optimum of q_mix, or
--- with optimum = "mean_field" of q_0, over numbers of weights `sizes`, O(1) for each: a table of tensors gap, kl_q0,
--- kl_q_mix, expected_log_likelihood, elbo_q0, elbo_q_mix, predictive_mean, predictive_variance (with noise),
--- function_variance (without), and the number data_bound. mean = "printed" takes the mean of equation 21 for the
--- optimum of q_0.
function invariance.curves(given)
  return linear_curves.curves(given)
end

--- gap_formula(K, prior_variance, likelihood_variance): the invariance gap of K weights whose variances are all equal,
--- (K - 1) / 2 (ln phi + 1 / phi - 1), phi = 1 + prior_variance / likelihood_variance (equation 18). It grows with phi
--- and is 0 at phi = 1. Numbers or tensors.
function invariance.gap_formula(K, prior_variance, likelihood_variance)
  return linear_curves.gap_formula(K, prior_variance, likelihood_variance)
end

--- data_bound{y =, output_variance =, noise_variance = [, output_mean = 0, noise_inside = false]}: what finite, noisy
--- data let KL[q || p] be: sum over n of (output_variance + (y - output_mean)^2) / (2 noise_variance), mean and
--- variance those of f(x_n) under the prior. It holds for q whose ELBO is at least that of the prior. Gives {bound =,
--- best =, prior =}: the bound, and the expected log likelihoods of a q that predicts perfectly and of the prior,
--- whose difference it is; noise_inside = true is the convention of the paper's appendix F, in which both are N / 2
--- less.
function invariance.data_bound(given)
  return require "penumbra.invariance.data_bound"(given)
end

--- translation_basis(x [, {pivot = -1}]): B [K, K - 1] with x^T B = 0: a unit vector for each place but the pivot,
--- where x must not be 0, and there -x_i / x_pivot. Default: the last place where x is not 0.
function invariance.translation_basis(x, given)
  return translation.basis(x, given)
end

--- translate(w, x, delta [, {pivot = -1}]): w + B delta, which has the same x^T w, without B: w [..., K], delta [...,
--- K - 1].
function invariance.translate(w, x, delta, given)
  return translation.translate(w, x, delta, given)
end

--- translate_network(net, x [, {layer =, delta =, scale = 1, pivot =, generator =}]): other weights with which a fully
--- connected network gives the same output, and the same activations, at the one datum x [in]. Every node's weights
--- (and bias, whose input is 1) move by B_z delta, z the node's inputs at x. Gives a table name -> tensor of all
--- weights, and a network that computes with them; net is not changed.
---   layer    only this linear layer (from 1); delta for it, [out, in] with a bias, [out, in - 1] without
---   scale    of the normal draws that stand for delta otherwise
---   pivot    place among the inputs where z is not 0, the bias last; default: where |z| is largest
function invariance.translate_network(net, x, given)
  return transform.translate_network(net, x, given)
end

--- permute(net, {order, ...}): the weights of a fully connected network with its hidden nodes in another order: one
--- list of the nodes (from 1) for each hidden layer; node i becomes what node order[i] was, with its bias. Gives a
--- table name -> tensor of all weights, and a network that computes with them; net is not changed.
function invariance.permute(net, orders)
  return transform.permute(net, orders)
end

--- permutation_matrix({in, hidden ..., out}, {order, ...}): the same as one matrix on the vector of all weights (no
--- biases), layer after layer, each the rows of its weight [in, out] one after another (the paper's column-major vec of
--- [out, in]): the blocks are Kronecker products (equations 112 to 115).
function invariance.permutation_matrix(sizes, orders)
  return transform.permutation_matrix(sizes, orders)
end

--- permutations(n): all orders of 0 .. n - 1, int64 [n!, n], the identity first. n at most 10.
function invariance.permutations(n)
  return transform.permutations(n)
end

--- permutation_mixture(net [, {scale =}]): the mixture of a mean-field posterior over all node permutations of a fully
--- connected network. net comes from pn.nn.bayesian, or is a network whose weights are means and scale a standard
--- deviation, or a table name -> tensor of them.
---
---     mix:gap{draws = 1000, method = "auto"}      {gap =, standard_error =, largest = ln |P|, method =}
---     mix:bounds{draws = 1000, permutations = 100}     {lower =, upper =, ...} where |P| is too large
---     mix:log_prob(w)  mix:mean_field_log_prob(w)  mix:log_ratio(w)    w [S, D]: [S]
---     mix:sample{n}  mix:mean_field_sample{n}     [n, D];  mix:values(w) one of them as a table by name
---     mix.names  mix.size  mix.hidden  mix.log_count
---
--- method "enumerate" takes the sum over permutations one by one (up to 1e6), "subsets" by subsets of the nodes of the
--- largest layer (up to 16 nodes) times the permutations of the others: the same number, k 2^k in the place of k!.
function invariance.permutation_mixture(net, given)
  return permutation_mixture.new(net, given)
end

--- node_posterior{loc =, scale =, inputs = [, prior_loc = 0, prior_scale = 1]}: the invariance-abiding posterior of the
--- weights into a node as a distribution: a mixture over inputs z [S, K] of normal laws, each proportional to the prior
--- times the factor N(loc, scale^2) averaged over all translations at z (equations 25 and 27). Event [K], batch that of
--- the parameters. log_prob is O(K S) a point; sample, rsample, mean and variance; pn.invariance.node_covariance.
function invariance.node_posterior(...)
  return layerwise.node_posterior(...)
end

--- node_covariance(q): the covariance [..., K, K] of a node_posterior.
function invariance.node_covariance(q)
  return layerwise.covariance(q)
end

--- fit_layers(net, {x =, y =, noise_scale = | log_likelihood =, ...}): the layer-by-layer fit of such posteriors for
--- all nodes of a fully connected network (pn.help "penumbra.invariance.layer_fit" lists the options and what they
--- stand for). Gives a fit:
---
---     fit:predict(x, {draws = 100})    draws of the output, [draws, n, out]
---     fit:posterior(l)                 the node_posterior of layer l: batch [out], event [in + 1], the bias last
---     fit.trace  fit.converged  fit.sweeps
function invariance.fit_layers(net, given)
  return layer_fit.fit(net, given)
end

return invariance
