/*
** nonfinite.c: which operation made the first NaN or infinity. Runs only after something went wrong, so
** it favours a plain answer over speed: one walk over the values of the graph, then, if these are all
** finite, one over the gradients.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "nonfinite.h"
#include "op.h"

bool pni_all_finite(pn_context *c, const pn_tensor *t) {
  if (!pni_is_float(t)) return true;
  pn_tensor *d = pni_contiguous(c, t);
  if (!d) return false;
  bool ok = true;
  const void *p = pni_data(d);
  for (int64_t i = 0; ok && i < d->numel; i++)
    ok = d->dtype == PN_FLOAT64 ? isfinite(((const double *)p)[i]) : isfinite(((const float *)p)[i]);
  pn_tensor_unref(d);
  return ok;
}

/* The nodes below y that gradients pass, inputs before results. */
typedef struct {
  pn_tensor **v;
  int64_t n, cap;
} nodes;

static pn_status grow(pn_context *c, nodes *l, pn_tensor *t) {
  if (l->n == l->cap) {
    int64_t cap = l->cap ? 2 * l->cap : 64;
    pn_tensor **v = pni_alloc_array(c, cap, sizeof *v);
    if (!v) return c->status;
    if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof *v);
    pni_free(c, l->v, (size_t)l->cap * sizeof *v);
    l->v = v;
    l->cap = cap;
  }
  l->v[l->n++] = t;
  return PN_OK;
}

/* Collects the nodes in any order; ids then put inputs first. */
static pn_status collect(pn_context *c, pn_tensor *y, nodes *l) {
  y->mark = 1;
  if (grow(c, l, y)) y->mark = 0;
  for (int64_t i = 0; i < l->n && !pni_failed(c); i++) {
    pn_tensor *t = l->v[i];
    for (int k = 0; k < t->nin; k++) {
      pn_tensor *in = t->in[k].t;
      if (!(in->flags & PNI_REQUIRES_GRAD) || in->mark) continue;
      if (grow(c, l, in)) break;
      in->mark = 1;
    }
  }
  for (int64_t i = 0; i < l->n; i++) l->v[i]->mark = 0;
  return c->status;
}

/* Heap sort by id: no recursion, no allocation. Parameters have id 0 and come first. */
static void sift(pn_tensor **v, int64_t at, int64_t n) {
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= n) return;
    if (child + 1 < n && v[child + 1]->id > v[child]->id) child++;
    if (v[at]->id >= v[child]->id) return;
    pn_tensor *t = v[at];
    v[at] = v[child];
    v[child] = t;
    at = child;
  }
}

static void sort(nodes *l) {
  for (int64_t i = l->n / 2 - 1; i >= 0; i--) sift(l->v, i, l->n);
  for (int64_t n = l->n - 1; n > 0; n--) {
    pn_tensor *t = l->v[0];
    l->v[0] = l->v[n];
    l->v[n] = t;
    sift(l->v, 0, n);
  }
}

/* "NaN" or "an infinity", by the first such element. */
static const char *kind_of(const pn_tensor *t) {
  for (int64_t i = 0; i < t->numel; i++) {
    double v = pni_element(t, i);
    if (isnan(v)) return "NaN";
    if (isinf(v)) return v > 0 ? "+inf" : "-inf";
  }
  return "NaN";
}

static bool cause_in_values(pn_context *c, const nodes *l, char *buf) {
  char s[160];
  for (int64_t i = 0; i < l->n; i++) {
    const pn_tensor *t = l->v[i];
    if (pni_all_finite(c, t)) continue;
    pni_shape_text(t->ndim, t->shape, s);
    if (!t->op) {
      snprintf(buf, PNI_CAUSE, "a parameter of shape %s is already %s", s, kind_of(t));
      return true;
    }
    for (int k = 0; k < t->nin; k++) {
      if (pni_all_finite(c, t->in[k].t)) continue;
      char u[160];
      snprintf(buf, PNI_CAUSE, "input %d of '%s' (shape %s, a constant) is %s", k + 1, t->op->name,
               pni_shape_text(t->in[k].t->ndim, t->in[k].t->shape, u), kind_of(t->in[k].t));
      return true;
    }
    snprintf(buf, PNI_CAUSE, "'%s' (result of shape %s) gave %s from finite inputs", t->op->name, s, kind_of(t));
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

static bool cause_in_gradients(pn_context *c, const nodes *l, char *buf) {
  pn_tensor **g = pni_calloc(c, (size_t)l->n * sizeof *g);
  bool found = false;
  size_t mark = pn_scope_open(c);
  int old = pn_set_no_grad(c, 1);
  if (g && pn_grad(c, l->v[l->n - 1], (int)l->n, l->v, 0, g) == PN_OK) {
    for (int64_t i = l->n - 1; i >= 0 && !found; i--) {
      pn_tensor *t = l->v[i];
      int k = 0;
      if (!t->op || !pni_all_finite(c, g[i])) continue;
      size_t inner = pn_scope_open(c);
      found = breaks(c, t, g[i], &k);
      pn_scope_close(c, inner);
      char s[160];
      if (found)
        snprintf(buf, PNI_CAUSE, "the derivative of '%s' (result of shape %s) with respect to input %d is not finite",
                 t->op->name, pni_shape_text(t->ndim, t->shape, s), k);
    }
  }
  pn_set_no_grad(c, old);
  pn_scope_close(c, mark);
  pni_free(c, g, (size_t)l->n * sizeof *g);
  return found;
}

const char *pni_nonfinite_cause(pn_context *c, pn_tensor *y, char buf[PNI_CAUSE]) {
  snprintf(buf, PNI_CAUSE, "its origin could not be found");
  if (pni_failed(c)) return buf;
  nodes l = {0};
  if (collect(c, y, &l) == PN_OK) {
    sort(&l);
    if (!cause_in_values(c, &l, buf)) cause_in_gradients(c, &l, buf);
  }
  pni_free(c, l.v, (size_t)l.cap * sizeof *l.v);
  if (pni_failed(c)) pn_context_clear_error(c); /* the caller has its own failure to report */
  return buf;
}
