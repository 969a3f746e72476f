/*
** kl.c: the table of divergences in closed form, KL(p || q) = E_p[log p(x) - log q(x)].
*/
#include <string.h>
#include "cross_entropy.h"
#include "support.h"

typedef struct {
  const pni_distribution *p, *q;
  pni_kl value;
} pair;

static const pair rows[] = {
#define X(p, q) {&pni_dist_##p, &pni_dist_##q, pni_kl_##p##_##q},
#include "../kl_pairs.def"
#undef X
};

pni_kl pni_kl_find(const pni_distribution *p, const pni_distribution *q) {
  for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++)
    if (rows[i].p == p && rows[i].q == q) return rows[i].value;
  return NULL;
}

/* Is one kind normal and the other of vectors with a formula for a multivariate normal in its place? */
static bool known_as_rows(const pni_distribution *p, const pni_distribution *q) {
  const pni_distribution *joint = &pni_dist_multivariate_normal, *one = &pni_dist_normal;
  if (p == one && strlen(q->event) == 1) return pni_kl_find(joint, q) != NULL;
  return q == one && strlen(p->event) == 1 && pni_kl_find(p, joint) != NULL;
}

pni_kl_state pni_kl_known(const pni_distribution *p, const pni_distribution *q) {
  if (pni_kl_find(p, q) || p == &pni_dist_delta || known_as_rows(p, q)) return PNI_KL_FORMULA;
  return pni_cross_known(p, q);
}

/* The last axes of an event that belong to the pair itself; those before them are independent. */
static int own_axes(const pn_dist *p, const pn_dist *q) {
  int a = pni_dist_kind_event_ndim(p), b = pni_dist_kind_event_ndim(q);
  return a > b ? a : b;
}

/* The joint batch of p and q with the independent axes of their events, which must be equal. */
static pn_status joint_shape(pn_context *c, const pn_dist *p, const pn_dist *q, pni_spec *out) {
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  const int64_t *pe = p->shape + p->batch_ndim, *qe = q->shape + q->batch_ndim;
  bool same = p->event_ndim == q->event_ndim && memcmp(pe, qe, (size_t)p->event_ndim * sizeof *pe) == 0;
  if (!same)
    return pni_fail(c, PN_SHAPE, "kl: %s and %s must have one event shape, got %s and %s", p->kind->name, q->kind->name,
                    pni_shape_text(p->event_ndim, pe, a), pni_shape_text(q->event_ndim, qe, b));
  int moved = p->event_ndim - own_axes(p, q);
  pn_tensor tp = {.ndim = p->batch_ndim + moved}, tq = {.ndim = q->batch_ndim + moved};
  memcpy(tp.shape, p->shape, sizeof tp.shape);
  memcpy(tq.shape, q->shape, sizeof tq.shape);
  return pni_broadcast(c, "kl", &tp, &tq, out);
}

/* A point against a density or mass: -log q(point), which is what minimising the divergence of a point estimate
 * asks. */
static pn_tensor *of_point(pn_context *c, const pn_dist *p, const pn_dist *q) {
  int n = p->batch_ndim > q->batch_ndim ? p->batch_ndim : q->batch_ndim, ndim = n + p->event_ndim;
  pni_spec joint;
  if (joint_shape(c, p, q, &joint)) return NULL;
  memcpy(joint.shape + n, p->shape + p->batch_ndim, (size_t)p->event_ndim * sizeof *joint.shape);
  pn_tensor *x = pni_dist_expand_to(c, p->param[0], ndim, joint.shape);
  pn_dist *expanded = pn_dist_expand(c, q, n, joint.shape);
  pn_tensor *t = pn_neg(c, pn_dist_log_prob(c, expanded, x));
  pn_dist_unref(expanded);
  return t;
}

/* Independent normals with an event axis or more as multivariate ones. New. */
static pn_dist *as_joint(pn_context *c, const pn_dist *d) {
  static const char *const names[] = {"loc", "scale_tril"};
  pn_tensor *loc = pn_dist_mean(c, d), *lower = pn_diag_embed(c, pn_dist_stddev(c, d));
  pn_dist *row = lower ? pn_dist_new(c, "multivariate_normal", 2, names, (pn_tensor *[]){loc, lower}) : NULL;
  pn_dist *joint = pn_dist_independent(c, row, d->event_ndim - 1);
  pn_dist_unref(row);
  return joint;
}

/* One of the two is normal. */
static pn_tensor *of_rows(pn_context *c, const pn_dist *p, const pn_dist *q) {
  bool first = p->kind == &pni_dist_normal;
  pn_dist *joint = as_joint(c, first ? p : q);
  pn_tensor *t = joint ? pn_dist_kl(c, first ? joint : p, first ? q : joint) : NULL;
  pn_dist_unref(joint);
  return t;
}

/* The formula for two distributions, or NULL. */
static pni_kl find(const pn_dist *p, const pn_dist *q) {
  pni_kl f = pni_kl_find(p->kind, q->kind);
  if (!f && p->kind == q->kind) f = p->kind->kl;
  if (!f && p->kind->flags & PNI_DIST_KL_ANY) f = p->kind->kl;
  if (!f && q->kind->flags & PNI_DIST_KL_ANY) f = q->kind->kl;
  if (!f && p->kind == &pni_dist_delta) f = of_point;
  if (!f && known_as_rows(p->kind, q->kind) && p->event_ndim > 0 && q->event_ndim > 0) f = of_rows;
  if (!f && pni_cross_known(p->kind, q->kind) != PNI_KL_MISSING) f = pni_cross_kl;
  if (!f && pni_support_moves(p->kind, q->kind)) f = pni_support_kl;
  return f;
}

static pn_tensor *sum_axes(pn_context *c, pn_tensor *t, int n) {
  pn_axes axes = {.n = n};
  for (int i = 0; i < n; i++) axes.axis[i] = -1 - i;
  return t && n ? pn_sum(c, t, axes, 0) : t;
}

/* The formula, in float64 where a kind asks for that. */
static pn_tensor *formula(pn_context *c, pni_kl f, const pn_dist *p, const pn_dist *q) {
  bool asked = ((p->kind->flags | q->kind->flags) & PNI_DIST_IN_DOUBLE) != 0;
  if (!asked || p->dtype == PN_FLOAT64 || p->kind->call || q->kind->call) return f(c, p, q);
  pn_dist first, second;
  const pn_dist *a = pni_dist_in_double(c, p, &first), *b = a ? pni_dist_in_double(c, q, &second) : NULL;
  pn_tensor *t = b ? f(c, a, b) : NULL;
  return t ? pn_cast(c, t, (pn_dtype)p->dtype) : NULL;
}

pn_tensor *pn_dist_kl(pn_context *c, const pn_dist *p, const pn_dist *q) {
  if (!PNI_GIVEN(c, "dist_kl", p, q)) return NULL;
  pni_kl f = find(p, q);
  if (!f) {
    pni_fail(c, PN_MISSING, "kl: there is no closed form for %s and %s (kl_monte_carlo estimates it)", p->kind->name,
             q->kind->name);
    return NULL;
  }
  if (p->dtype != q->dtype) {
    pni_fail(c, PN_DTYPE, "kl: distributions must have one dtype, got %s and %s", pn_dtype_name((pn_dtype)p->dtype),
             pn_dtype_name((pn_dtype)q->dtype));
    return NULL;
  }
  if (f == of_point || f == of_rows) return f(c, p, q);
  pni_spec joint;
  if (joint_shape(c, p, q, &joint)) return NULL;
  pn_tensor *t = pni_dist_expand_to(c, formula(c, f, p, q), joint.ndim, joint.shape);
  return sum_axes(c, t, p->event_ndim - own_axes(p, q));
}
