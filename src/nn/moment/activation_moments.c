#include <math.h>
#include <string.h>
#include "activation_moments.h"

typedef pn_tensor T;
typedef pn_context C;

static T *number(C *c, T *like, double x) { return like ? pni_like(c, like, x) : NULL; }
static T *plus(C *c, T *x, double a) { return pn_add(c, x, number(c, x, a)); }
static T *times(C *c, T *x, double a) { return pn_mul(c, x, number(c, x, a)); }
static T *rest(C *c, T *x) { return pn_sub(c, number(c, x, 1), x); } /* 1 - x */

static T *relu_mean(C *c, T *m, T *v) { return pni_apply2(c, &pni_nn_op_relu_mean, m, v, NULL); }
static T *relu_variance(C *c, T *m, T *v) { return pni_apply2(c, &pni_nn_op_relu_variance, m, v, NULL); }
/* E max(x, 0)^2 */
static T *relu_square(C *c, T *m, T *v) { return pn_add(c, relu_variance(c, m, v), pn_square(c, relu_mean(c, m, v))); }

/* E z of the gate z ~ Bernoulli(sigmoid(sharpness x)); its variance is E z (1 - E z) */
static T *gate(C *c, const pni_moment_rule *r, T *x) {
  if (!x) return NULL;
  if (isinf(r->sharpness)) return pn_cast(c, pn_gt(c, x, number(c, x, 0)), (pn_dtype)x->dtype);
  return pn_sigmoid(c, times(c, x, r->sharpness));
}
static T *gate_variance(C *c, T *z) { return pn_mul(c, z, rest(c, z)); }

/* E c and var c of c = slope + (1 - slope) z */
static void slope_moments(C *c, const pni_moment_rule *r, T *slope, T *mean, T *out[2]) {
  T *z = gate(c, r, mean), *v = gate_variance(c, z);
  out[0] = slope ? pn_add(c, slope, pn_mul(c, rest(c, slope), z)) : z;
  out[1] = slope ? pn_mul(c, pn_square(c, rest(c, slope)), v) : v;
}

/* Both of max(x, 0). */
static void relu_moments(C *c, T *m, T *v, T *out[2]) {
  bool alike = m && v && m->dtype == v->dtype && m->ndim == v->ndim && m->ndim < PN_MAX_DIMS &&
               memcmp(m->shape, v->shape, (size_t)m->ndim * sizeof *m->shape) == 0;
  T *both = alike ? pni_apply2(c, &pni_nn_op_relu_moments, m, v, NULL) : NULL;
  out[0] = alike ? pn_select(c, both, 0, 0) : relu_mean(c, m, v);
  out[1] = alike ? pn_select(c, both, 0, 1) : relu_variance(c, m, v);
}

/* Moment matching of h = slope x + (1 - slope) max(x, 0), cov(x, max(x, 0)) = v Phi(t) (Stein): the variance is
 *   slope^2 v + (1 - slope)^2 var max(x, 0) + 2 slope (1 - slope) v Phi(t) */
static void match_leaky(C *c, T *slope, T *m, T *v, T *out[2]) {
  relu_moments(c, m, v, out);
  if (!slope) return;
  T *left = rest(c, slope), *sure = v ? pn_eq(c, v, number(c, v, 0)) : NULL;
  T *sigma = pn_sqrt(c, pn_where(c, sure, number(c, v, 1), v)), *above = pn_ndtr(c, pn_div(c, m, sigma));
  T *joint = times(c, pn_mul(c, pn_mul(c, slope, left), pn_mul(c, v, above)), 2);
  out[0] = pn_add(c, pn_mul(c, slope, m), pn_mul(c, left, out[0]));
  out[1] = pn_add(c, pn_add(c, pn_mul(c, pn_square(c, slope), v), pn_mul(c, pn_square(c, left), out[1])), joint);
}

pn_status pni_leaky_relu_moments(C *c, const pni_moment_rule *r, T *slope, T *mean, T *variance, T *out[2]) {
  T *s[2];
  if (r->rule == PNI_MATCH_MOMENTS) {
    match_leaky(c, slope, mean, variance, out);
    return c->status;
  }
  slope_moments(c, r, slope, mean, s);
  out[0] = pn_mul(c, s[0], mean);
  if (isinf(r->sharpness)) { /* var c = 0, and z^2 = z */
    out[1] = pn_mul(c, slope ? pn_square(c, s[0]) : s[0], variance);
    return c->status;
  }
  out[1] = pn_mul(c, pn_add(c, pn_square(c, s[0]), s[1]), variance); /* E c^2 var f + var c (E f)^2 */
  out[1] = pn_add(c, out[1], pn_mul(c, s[1], pn_square(c, mean)));
  return c->status;
}

pn_status pni_leaky_relu_covariance(C *c, const pni_moment_rule *r, T *slope, T *mean, T *covariance, T *out[2]) {
  T *s[2];
  if (r->rule == PNI_MATCH_MOMENTS)
    return pni_fail(c, PN_MISSING, "moments: covariances pass through gates only (moments = \"identity_heaviside\")");
  slope_moments(c, r, slope, mean, s);
  T *pairs = pn_mul(c, pn_unsqueeze(c, s[0], -1), pn_unsqueeze(c, s[0], -2));
  T *variance = pn_diagonal(c, covariance), *own = pn_add(c, variance, pn_square(c, mean));
  out[0] = pn_mul(c, s[0], mean);
  out[1] = pn_add(c, pn_mul(c, pairs, covariance), pn_diag_embed(c, pn_mul(c, s[1], own))); /* + var c E f^2 */
  return c->status;
}

static T *below(C *c, T *m, T *v, int k) { return pni_apply2(c, &pni_nn_op_exp_below, m, v, &(pni_attr){.r = {k}}); }

pn_status pni_elu_moments(C *c, double alpha, double scale, T *mean, T *variance, T *out[2]) {
  T *low = times(c, pn_sub(c, below(c, mean, variance, 1), below(c, mean, variance, 0)), alpha);
  out[0] = pn_add(c, low, relu_mean(c, mean, variance));
  out[1] = pni_apply2(c, &pni_nn_op_elu_variance, mean, variance, &(pni_attr){.r = {alpha}});
  if (scale != 1) {
    out[0] = times(c, out[0], scale);
    out[1] = times(c, out[1], scale * scale);
  }
  return c->status;
}

/* h = max(x + 1, 0) - max(x - 1, 0) - 1. The variance is that of g = 1 - |h| as the mean's side sees it: with y normal
 * of mean m = 1 - |mean|, g = min(max(y, 0), 2), which is small where h is all but sure,
 *   E g = R(m) - R(m - 2),  E g^2 = S(m) - S(m - 2) - 4 R(m - 2),  R = E max(y, 0), S = E max(y, 0)^2 */
static void match_hard_tanh(C *c, T *mean, T *v, T *out[2]) {
  T *m = pn_sub(c, number(c, mean, 1), pn_abs(c, mean)), *far = plus(c, m, -2), *r = relu_mean(c, far, v);
  T *g = pn_sub(c, relu_mean(c, m, v), r), *square = pn_sub(c, relu_square(c, m, v), relu_square(c, far, v));
  T *up = relu_mean(c, plus(c, mean, 1), v), *down = relu_mean(c, plus(c, mean, -1), v);
  out[0] = plus(c, pn_sub(c, up, down), -1);
  out[1] = pn_sub(c, pn_sub(c, square, times(c, r, 4)), pn_square(c, g));
}

/* h = u - w + f (1 - u) (1 - w), u the gate of f - 1, w that of -f - 1, all three independent. */
static void gate_hard_tanh(C *c, const pni_moment_rule *r, T *m, T *v, T *out[2]) {
  T *u = gate(c, r, plus(c, m, -1)), *w = gate(c, r, plus(c, pn_neg(c, m), -1));
  T *p = pn_mul(c, rest(c, u), rest(c, w)), *middle = pn_mul(c, m, p); /* E of the middle piece */
  T *square = pn_mul(c, pn_add(c, v, pn_square(c, m)), p);
  T *t = pn_sub(c, square, pn_square(c, middle));
  T *joint = pn_sub(c, pn_mul(c, w, middle), pn_mul(c, u, middle)); /* cov with u, less that with w */
  out[0] = pn_add(c, pn_sub(c, u, w), middle);
  out[1] = pn_add(c, pn_add(c, gate_variance(c, u), gate_variance(c, w)), pn_add(c, t, times(c, joint, 2)));
}

pn_status pni_hard_tanh_moments(C *c, const pni_moment_rule *r, T *mean, T *variance, T *out[2]) {
  if (r->rule == PNI_MATCH_MOMENTS)
    match_hard_tanh(c, mean, variance, out);
  else
    gate_hard_tanh(c, r, mean, variance, out);
  return c->status;
}
