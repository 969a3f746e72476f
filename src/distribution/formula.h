/*
** formula.h: short names for files that write densities as formulas. Private to those files: include it in
** a .c file only.
*/
#ifndef PN_DISTRIBUTION_FORMULA_H
#define PN_DISTRIBUTION_FORMULA_H

#include <float.h>
#include <math.h>
#include <string.h>
#include "distribution.h"

typedef pn_tensor T;
typedef pn_context C;
typedef const pn_dist D;

#define LAST ((pn_axes){1, {-1}})

#define LOG_2           0.69314718055994530942
#define PI              3.14159265358979323846
#define LOG_PI          1.14472988584940017414
#define LOG_ROOT_TWO_PI 0.91893853320467274178
#define EULER           0.57721566490153286061

/* x + v, v - x, x * v, x / v with a number v */
static inline T *plus(C *c, T *x, double v) { return pn_add(c, x, pni_like(c, x, v)); }
static inline T *from(C *c, double v, T *x) { return pn_sub(c, pni_like(c, x, v), x); }
static inline T *times(C *c, T *x, double v) { return pn_mul(c, x, pni_like(c, x, v)); }
/* v where the condition holds, else x; x there where the condition holds, else v */
static inline T *but(C *c, T *condition, double v, T *x) { return pn_where(c, condition, pni_like(c, x, v), x); }
static inline T *only(C *c, T *condition, T *x, double v) { return pn_where(c, condition, x, pni_like(c, x, v)); }
/* comparisons with a number */
static inline T *above(C *c, T *x, double v) { return pn_gt(c, x, pni_like(c, x, v)); }
static inline T *below(C *c, T *x, double v) { return pn_lt(c, x, pni_like(c, x, v)); }
static inline T *equals(C *c, T *x, double v) { return pn_eq(c, x, pni_like(c, x, v)); }

/* The constant v with the dtype of the parameters, for all of the batch. */
static inline T *constant(C *c, D *d, double v) { return pn_scalar(c, (pn_dtype)d->dtype, v); }
/* Smallest normal number and the largest number below 1 of the dtype. */
static inline double tiny(int dtype) { return dtype == PN_FLOAT64 ? DBL_MIN : (double)FLT_MIN; }
static inline double huge_number(int dtype) { return dtype == PN_FLOAT64 ? DBL_MAX : (double)FLT_MAX; }
static inline double below_one(int dtype) {
  return dtype == PN_FLOAT64 ? 1 - DBL_EPSILON / 2 : 1 - (double)FLT_EPSILON / 2;
}

/* log p of a probability p whose complement is q: from the smaller of the two; at p = 0 -inf without slope. */
static inline T *log_share(C *c, T *p, T *q) {
  T *small = below(c, p, 0.5), *none = equals(c, p, 0);
  T *lower = pn_log(c, pn_where(c, small, but(c, none, 0.5, p), pni_like(c, p, 0.5)));
  T *upper = pn_log1p(c, pn_neg(c, but(c, small, 0.5, q)));
  return but(c, none, -INFINITY, pn_where(c, small, lower, upper));
}

/* log B(a, b) */
static inline T *log_beta(C *c, T *a, T *b) {
  return pn_sub(c, pn_add(c, pn_lgamma(c, a), pn_lgamma(c, b)), pn_lgamma(c, pn_add(c, a, b)));
}

/* Fills of the shape of a draw. */
static inline T *uniform_draw(C *c, pn_rng *rng, const pni_spec *out) {
  return pn_rand(c, rng, (pn_dtype)out->dtype, out->ndim, out->shape);
}
static inline T *normal_draw(C *c, pn_rng *rng, const pni_spec *out) {
  return pn_randn(c, rng, (pn_dtype)out->dtype, out->ndim, out->shape);
}
/* log of Gamma(a, 1) draws */
static inline T *log_gamma(C *c, pn_rng *rng, T *a, const pni_spec *out) {
  return pn_log_gamma_draw(c, rng, pni_dist_expand_to(c, a, out->ndim, out->shape));
}

/* Does an element of the mask hold, or could one in a replay? */
static inline bool any_of(C *c, T *mask) {
  if (!mask || (c->recorder && pni_varies(c, mask))) return mask != NULL;
  return (mask = pn_contiguous(c, mask)) && mask->numel && memchr(pni_data(mask), 1, (size_t)mask->numel);
}

#endif
