/*
** gradient.h: compares first and second derivatives of a builder expression with central differences, in
** float64 and from C. The elements of f are weighted by fixed numbers and summed; second derivatives are those
** of the gradient along a fixed direction. Each comparison is one check.
*/
#ifndef PN_SPEC_GRADIENT_H
#define PN_SPEC_GRADIENT_H

#include "check.h"

enum { GRADIENT_INPUTS = 4, GRADIENT_SIZE = 512 };

typedef pn_tensor *(*gradient_function)(pn_context *c, pn_tensor *const *x);

static inline pn_tensor *gradient_weighted(pn_context *c, pn_tensor *y, double shift) {
  if (!y) return NULL;
  int64_t n = pn_tensor_numel(y);
  pn_tensor *w = pn_cos(c, pn_linspace(c, PN_FLOAT64, shift, shift + 0.37 * (double)n, n));
  return pn_sum(c, pn_mul(c, pn_reshape(c, y, 1, &n), w), PN_ALL, 0);
}

/* Order 1: the weighted sum of f. Order 2: the gradient's weighted sum. */
static inline pn_tensor *gradient_scalar(pn_context *c, gradient_function f, int n, pn_tensor *const *x, int order) {
  pn_tensor *y = gradient_weighted(c, f(c, x), 0.5), *g[GRADIENT_INPUTS], *sum = NULL;
  if (order == 1 || !y) return y;
  if (pn_grad(c, y, n, x, 1, g) != PN_OK) return NULL;
  for (int k = 0; k < n; k++) {
    pn_tensor *part = gradient_weighted(c, g[k], 0.2 + k);
    sum = sum ? pn_add(c, sum, part) : part;
  }
  return sum;
}

static inline double gradient_value(pn_context *c, gradient_function f, int n, pn_tensor *const *x, int order) {
  double v = NAN;
  size_t mark = pn_scope_open(c);
  pn_tensor_item(c, gradient_scalar(c, f, n, x, order), &v);
  pn_scope_close(c, mark);
  return v;
}

/* One input at a time: element i moved by h both ways. */
static inline bool gradient_agrees(pn_context *c, const char *name, gradient_function f, int n, pn_tensor *const *x,
                                   int order, int k, pn_tensor *got) {
  double v[GRADIENT_SIZE], g[GRADIENT_SIZE];
  int64_t size = pn_tensor_numel(x[k]);
  int ndim = pn_tensor_ndim(x[k]);
  const int64_t *shape = pn_tensor_shape(x[k]);
  if (size > GRADIENT_SIZE || pn_tensor_copy_out(c, x[k], v, size) || pn_tensor_copy_out(c, got, g, size)) return false;
  for (int64_t i = 0; i < size; i++) {
    double keep = v[i], h = 1e-5 * fmax(1, fabs(keep)), value[2];
    for (int side = 0; side < 2; side++) {
      size_t mark = pn_scope_open(c);
      v[i] = side ? keep + h : keep - h;
      pn_param_set(c, x[k], pn_from_data(c, PN_FLOAT64, ndim, shape, v));
      value[side] = gradient_value(c, f, n, x, order);
      pn_scope_close(c, mark);
    }
    v[i] = keep;
    double want = (value[1] - value[0]) / (2 * h);
    if (!(fabs(g[i] - want) <= (order == 1 ? 1e-4 : 1e-3) * fmax(1, fabs(want)))) {
      printf("%s, order %d, input %d, element %lld: gradient %.10g, differences %.10g\n", name, order, k, (long long)i,
             g[i], want);
      return false;
    }
  }
  pn_param_set(c, x[k], pn_from_data(c, PN_FLOAT64, ndim, shape, v));
  return true;
}

/* x: parameters. */
static inline void gradient_check(pn_context *c, const char *name, gradient_function f, int n, pn_tensor *const *x) {
  for (int order = 1; order <= 2; order++)
    for (int k = 0; k < n; k++) {
      size_t mark = pn_scope_open(c);
      pn_tensor *g[GRADIENT_INPUTS] = {0}, *y = gradient_scalar(c, f, n, x, order);
      bool flat = y && !pn_tensor_requires_grad(y); /* the gradient is constant */
      bool ok = y && (flat || pn_grad(c, y, n, x, 0, g) == PN_OK);
      if (flat) g[k] = pn_zeros(c, PN_FLOAT64, pn_tensor_ndim(x[k]), pn_tensor_shape(x[k]));
      ok = ok && gradient_agrees(c, name, f, n, x, order, k, g[k]);
      if (!ok && pn_context_status(c)) printf("%s, order %d: %s\n", name, order, pn_context_message(c));
      pn_context_clear_error(c);
      check_record(ok);
      pn_scope_close(c, mark);
    }
}

#endif
