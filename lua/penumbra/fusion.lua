--- Beliefs of several sources about the same latent variable: one belief out of all of them, what they say against each
--- other, and which of them to trust (Kurle, Guennemann & van der Smagt 2019, "Multi-source neural variational
--- inference"). A source is a sensor, a camera, a modality; its belief is a normal distribution, of vectors by
--- :independent(1) or multivariate_normal, with any batch. pn.models.multisource learns them.
---
---     local beliefs = { radar = q1, camera = q2, sonar = q3 }          -- or a list; each already counts the prior
---     pn.fusion.product(beliefs, { prior = p })                          -- the prior is divided out M - 1 times
---     pn.fusion.conflicts(beliefs, { prior = p })                        -- [batch, M, M], sources in order of names
---     local limit = pn.fusion.conflict_threshold(c_healthy, { rate = 0.01 })
---     local q, report = pn.fusion.fuse(beliefs, { prior = p, conflict_threshold = limit })
---     print(report:said(1))                                               -- left out: 'sonar'; believed: 'camera',
---     ...
---
--- `observed` says which sources are there: a table from names to bools or bool tensors [batch], or one bool tensor
--- [batch, M], sources in the order of their names. Where a source is not there M counts those that are; where none is,
--- the belief is the prior. Sources are summed in the order of their names: another order in the table gives the same
--- bits.
-- help: pn.fusion, part
local belief_conflict = require "penumbra.fusion.belief_conflict"
local belief_product = require "penumbra.fusion.belief_product"
local core = require "penumbra.core"
local fusion_rule = require "penumbra.fusion.fusion_rule"

local fusion = {}

--- product(beliefs, {prior = [, observed =]}): the normal with density proportional to prod_m q_m over prior^(M - 1):
--- the posterior given all sources if each q_m is the posterior given its own and the sources are independent given the
--- latent variable. Valid where the precisions sum to more than (M - 1) times the prior's: for normals with a scale for
--- each number always if no scale is above the prior's. Elsewhere an error names the source that knows less than the
--- prior. Any normal prior, diagonal or with a covariance; so are beliefs. Equation 3 and appendix C.
function fusion.product(beliefs, given)
  return belief_product.product(beliefs, given)
end

--- mixture(beliefs [, {weights =, observed =}]): the mixture of the beliefs that are there; `weights` {name = number},
--- which need not sum to 1; all alike without. A datum without a source is an error.
function fusion.mixture(beliefs, given)
  return belief_product.mixture(beliefs, given)
end

--- mvae(beliefs, {prior = [, observed =]}): the product of the beliefs and the prior, an expert of its own in the
--- product of any subset. Another model than fusion.product: of beliefs that count the prior themselves it counts the
--- prior M + 1 times. Wu & Goodman 2018.
function fusion.mvae(beliefs, given)
  return belief_product.mvae(beliefs, given)
end

--- mmvae(beliefs [, {draws = 1, generator =}]): stratified draws [M, draws, batch, ...], as many of each source, in the
--- order of names, with a gradient; second their mixture, with equal weights. Shi, Siddharth, Paige & Torr 2019.
function fusion.mmvae(beliefs, given)
  return belief_product.mmvae(beliefs, given)
end

--- mopoe(beliefs, {prior = [, form = "expert"]}): the mixture of the products of all 2^M - 1 subsets, equal weights.
--- form "expert": the prior is an expert of each product, as in fusion.mvae; "divided": each is fusion.product's. M <=
--- 10.
--- Sutter, Daunhawer & Vogt 2021.
function fusion.mopoe(beliefs, given)
  return belief_product.mopoe(beliefs, given)
end

--- conflict(p, q, prior): KL(q || p) / KL(q || prior), [batch]: how far q is from p, in units of what q has learnt.
--- Above 1 a conflict. Not symmetric: large where p is much more certain than q. 0 where q is the prior. Equation 2,
--- c(p || q).
function fusion.conflict(p, q, prior)
  return belief_conflict.conflict(p, q, prior)
end

--- conflicts(beliefs, {prior = [, observed =]}): the conflicts of each two, [batch, M, M]: row m, column n is c(m || n)
--- = KL(q_n || q_m) / KL(q_n || prior), 0 on the diagonal and where one is not there. Second the names, in that order.
function fusion.conflicts(beliefs, given)
  return belief_conflict.conflicts(beliefs, given)
end

--- conflict_threshold(conflicts, {rate = 0.01, confidence =}): the threshold for fusion.fuse from conflicts [N, M, M]
--- of healthy data: new healthy data have two sources in conflict above it with probability `rate` at most (over these
--- data and the new ones); with `confidence` 0.95 these data give a threshold with such a rate with that probability.
--- An error where N data are too few. The order statistics' distribution, free of any law of the conflicts.
function fusion.conflict_threshold(conflicts, given)
  return belief_conflict.conflict_threshold(conflicts, given)
end

--- pointwise_mutual_information(beliefs, {prior = [, observed =]}): log p(x_1, ..., x_M) - sum_m log p(x_m), [batch],
--- if the beliefs are the posteriors: from their normalisers, Appendix D. Of a subset: of a table with those alone, or
--- by `observed`.
function fusion.pointwise_mutual_information(beliefs, given)
  return belief_conflict.pointwise_mutual_information(beliefs, given)
end

--- resample(q, log_joint [, {draws = 1000, resampling = "systematic", generator =}]): draws of the belief q, weighted
--- by log_joint(z) - log q(z) and resampled (pn.smc.schemes()): [draws, batch, ...] that follow the density log_joint.
--- log_joint: a function of z [draws, batch, ...] that gives [draws, batch]. Second a table: effective_sample_size
--- [batch], log_evidence [batch] (an unbiased estimate's logarithm), log_weights. Appendix E.
function fusion.resample(q, log_joint, given)
  return belief_conflict.resample(q, log_joint, given)
end

--- fuse(beliefs, {prior = [, conflict_threshold = 1, observed =, drop = false]}): the product of the largest set of
--- sources no two of which are in conflict (both c(m || n) and c(n || m) above the threshold), of equally large ones
--- that with the largest mutual information. Second a report: names; kept, left_out, conflicting [batch, M]; undecided,
--- none [batch]; conflicts [batch, M, M]; report:said(n), a line about datum n. Where no two sources agree (of two in
--- conflict, too) none is left out, and `undecided` says so; with drop = true the one that moved furthest from the
--- prior is kept.
--- Where no source is there it is the prior, and `none` says so. M <= 10.
function fusion.fuse(beliefs, given)
  return fusion_rule.fuse(beliefs, given)
end

return core.namespace("pn.fusion", fusion)
