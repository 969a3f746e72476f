/*
** nonfinite.c: which operation made the first NaN or infinity. Runs only after something went wrong, so
** it favours a plain answer over speed: one walk over the values of the graph, then, if these are all
** finite, one over the gradients.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "nonfinite.h"
#include "graph.h"

enum { LOOK = 1 << 14 }; /* elements between two looks at the clock */

static bool is_wrong(double v, bool nan_alone) { return nan_alone ? isnan(v) : !isfinite(v); }

/* Element i of the distinct ones: those of `shape`, which is t's with repeated axes (of stride 0) of length 1. */
static double distinct_element(const pn_tensor *t, const int64_t *shape, int64_t i) {
  int64_t at = 0;
  for (int k = t->ndim - 1; k >= 0; k--) {
    at += i % shape[k] * t->stride[k];
    i /= shape[k];
  }
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[at] : (double)((const float *)pni_data(t))[at];
}

/* The first element that is wrong, or 0. A walk that takes long ends when the context's time is over. */
static double first_wrong(const pn_context *c, const pn_tensor *t, bool nan_alone) {
  int64_t shape[PN_MAX_DIMS], n = 1;
  for (int k = 0; k < t->ndim; k++) n *= shape[k] = t->stride[k] || t->shape[k] == 0 ? t->shape[k] : 1;
  bool dense = n == t->numel && pni_is_contiguous(t);
  for (int64_t i = 0; i < n && (i % LOOK || !pni_is_over(c)); i++) {
    double v = !dense                   ? distinct_element(t, shape, i)
               : t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i]
                                        : (double)((const float *)pni_data(t))[i];
    if (is_wrong(v, nan_alone)) return v;
  }
  return 0;
}

bool pni_all_finite(const pn_context *c, const pn_tensor *t) {
  return !pni_is_float(t) || !is_wrong(first_wrong(c, t, false), false);
}

bool pni_has_nan(const pn_context *c, const pn_tensor *t) {
  return pni_is_float(t) && is_wrong(first_wrong(c, t, true), true);
}

/* "NaN" or "an infinity", by the first such element. */
static const char *kind_of(const pn_context *c, const pn_tensor *t) {
  double v = first_wrong(c, t, false);
  return isinf(v) ? v > 0 ? "+inf" : "-inf" : "NaN";
}

static bool cause_in_values(pn_context *c, const pni_nodes *l, char *buf) {
  char s[PNI_SHAPE_TEXT];
  for (int64_t i = 0; i < l->n; i++) {
    const pn_tensor *t = l->v[i];
    if (pni_all_finite(c, t)) continue;
    pni_shape_text(t->ndim, t->shape, s);
    if (!t->op) {
      const char *what = t->flags & PNI_PARAM ? "a parameter" : "data";
      snprintf(buf, PNI_CAUSE, "%s of shape %s is already %s", what, s, kind_of(c, t));
      return true;
    }
    for (int k = 0; k < t->nin; k++) {
      if (pni_all_finite(c, t->in[k].t)) continue;
      char u[PNI_SHAPE_TEXT];
      snprintf(buf, PNI_CAUSE, "input %d of '%s' (shape %s, a constant) is %s", k + 1, t->op->name,
               pni_shape_text(t->in[k].t->ndim, t->in[k].t->shape, u), kind_of(c, t->in[k].t));
      return true;
    }
    const char *advice = t->op->advice;
    snprintf(buf, PNI_CAUSE, "'%s' (result of shape %s) gave %s from finite inputs%s%s", t->op->name, s, kind_of(c, t),
             advice ? ": " : "", advice ? advice : "");
    return true;
  }
  return false;
}

/* Does the vjp of t, fed with its finite gradient g, break input k? */
static bool breaks(pn_context *c, pn_tensor *t, pn_tensor *g, int *which) {
  for (int k = 0; k < t->nin; k++) {
    if (!(t->in[k].t->flags & PNI_REQUIRES_GRAD)) continue;
    pn_tensor *d = t->op->vjp(c, t, g, k);
    *which = k + 1;
    if (d && !pni_all_finite(c, d)) return true;
  }
  return false;
}

static bool cause_in_gradients(pn_context *c, const pni_nodes *l, char *buf) {
  pn_tensor **g = pni_calloc_array(c, l->n, sizeof *g);
  bool found = false;
  size_t mark = pn_scope_open(c);
  int old = pn_set_no_grad(c, 0); /* some vjps differentiate what they compute */
  if (g && pn_grad(c, l->v[l->n - 1], (int)l->n, l->v, 0, g) == PN_OK) {
    for (int64_t i = l->n - 1; i >= 0 && !found; i--) {
      pn_tensor *t = l->v[i];
      int k = 0;
      if (!t->op || !pni_all_finite(c, g[i])) continue;
      size_t inner = pn_scope_open(c);
      found = breaks(c, t, g[i], &k);
      pn_scope_close(c, inner);
      char s[PNI_SHAPE_TEXT];
      if (found)
        snprintf(buf, PNI_CAUSE, "the derivative of '%s' (result of shape %s) with respect to input %d is not finite",
                 t->op->name, pni_shape_text(t->ndim, t->shape, s), k);
    }
  }
  pn_set_no_grad(c, old);
  pn_scope_close(c, mark);
  pni_free(c, g);
  return found;
}

const char *pni_nonfinite_cause(pn_context *c, pn_tensor *y, char buf[PNI_CAUSE]) {
  snprintf(buf, PNI_CAUSE, "its origin could not be found");
  if (pni_failed(c)) return buf;
  pni_nodes l = {0};
  pn_status s = pni_topological(c, y, &l);
  pni_nodes_unmark(&l);
  if (s == PN_OK) {
    if (!cause_in_values(c, &l, buf)) cause_in_gradients(c, &l, buf);
  }
  pni_nodes_free(c, &l);
  if (pni_failed(c)) pn_context_clear_error(c); /* the caller has its own failure to report */
  return buf;
}
