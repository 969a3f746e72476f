/*
** activation_moments.h: mean and variance of activations whose input is normal with a mean and a variance, by one of
** two rules; every function gives two tensors like its inputs, scoped.
**   moment matching     the exact mean and variance under that normal (after the central limit theorem: Haussmann,
**   2021,
**                       5.8.1)
**   identity-Heaviside  max(0, f) = f z with a gate z ~ Bernoulli(sigmoid(sharpness E f)) that is independent of f, and
**                       the like for other activations of straight pieces (Haussmann, Hamprecht & Kandemir, UAI 2019);
**                       a sharpness of inf is a gate that is open for E f > 0 and shut elsewhere
*/
#ifndef PN_NN_MOMENT_ACTIVATION_MOMENTS_H
#define PN_NN_MOMENT_ACTIVATION_MOMENTS_H

#include "../recurrent/nn_op.h"

enum { PNI_MATCH_MOMENTS, PNI_IDENTITY_HEAVISIDE };

typedef struct pni_moment_rule {
  int rule;
  double sharpness; /* of gates, above 0 */
} pni_moment_rule;

/* x where x > 0, slope x elsewhere: ReLU with slope NULL (0), leaky ReLU, PReLU; slope broadcasts. */
pn_status pni_leaky_relu_moments(pn_context *c, const pni_moment_rule *r, pn_tensor *slope, pn_tensor *mean,
                                 pn_tensor *variance, pn_tensor *out[2]);
/* The same on a covariance [..., n, n] of mean [..., n], by gates alone: cov(h_i, h_j) = E c_i E c_j cov(f_i, f_j) off
 * the diagonal, c_i = slope + (1 - slope) z_i. */
pn_status pni_leaky_relu_covariance(pn_context *c, const pni_moment_rule *r, pn_tensor *slope, pn_tensor *mean,
                                    pn_tensor *covariance, pn_tensor *out[2]);
/* scale (x where x > 0, alpha (e^x - 1) elsewhere), by moment matching. */
pn_status pni_elu_moments(pn_context *c, double alpha, double scale, pn_tensor *mean, pn_tensor *variance,
                          pn_tensor *out[2]);
/* min(max(x, -1), 1). */
pn_status pni_hard_tanh_moments(pn_context *c, const pni_moment_rule *r, pn_tensor *mean, pn_tensor *variance,
                                pn_tensor *out[2]);

#endif
