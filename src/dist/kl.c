/*
** kl.c: the table of divergences in closed form, KL(p || q) = E_p[log p(x) - log q(x)].
*/
#include <string.h>
#include "distribution.h"

typedef struct {
  const pni_distribution *p, *q;
  pni_kl value;
} pair;

static const pair rows[] = {
#define X(p, q) {&pni_dist_##p, &pni_dist_##q, pni_kl_##p##_##q},
#include "kl.def"
#undef X
};

int pni_kl_count(void) { return (int)(sizeof rows / sizeof rows[0]); }

void pni_kl_at(int i, const char **p, const char **q) {
  *p = rows[i].p->name;
  *q = rows[i].q->name;
}

pni_kl pni_kl_find(const pni_distribution *p, const pni_distribution *q) {
  for (int i = 0; i < pni_kl_count(); i++)
    if (rows[i].p == p && rows[i].q == q) return rows[i].value;
  return NULL;
}

/* The joint base batch of p and q; their events must be equal. */
static pn_status joint_shape(pn_context *c, const pn_dist *p, const pn_dist *q, pni_spec *out) {
  char a[160], b[160];
  const int64_t *pe = p->shape + p->batch_ndim, *qe = q->shape + q->batch_ndim;
  bool same = p->event_ndim == q->event_ndim && memcmp(pe, qe, (size_t)p->event_ndim * sizeof *pe) == 0;
  if (!same)
    return pni_fail(c, PN_SHAPE, "kl: %s and %s must have one event shape, got %s and %s", p->kind->name, q->kind->name,
                    pni_shape_text(p->event_ndim, pe, a), pni_shape_text(q->event_ndim, qe, b));
  pn_tensor tp = {.ndim = pni_dist_base_ndim(p)}, tq = {.ndim = pni_dist_base_ndim(q)};
  memcpy(tp.shape, p->shape, sizeof tp.shape);
  memcpy(tq.shape, q->shape, sizeof tq.shape);
  return pni_broadcast(c, "kl", &tp, &tq, out);
}

pn_tensor *pn_dist_kl(pn_context *c, const pn_dist *p, const pn_dist *q) {
  if (!p || !q || pni_failed(c)) return NULL;
  pni_kl f = pni_kl_find(p->kind, q->kind);
  if (!f && p->kind == q->kind) f = p->kind->kl;
  if (!f || (p->moved != q->moved && p->event_ndim == q->event_ndim)) {
    pni_fail(c, PN_MISSING, "kl: there is no closed form for %s and %s (kl_monte_carlo estimates it)", p->kind->name,
             q->kind->name);
    return NULL;
  }
  if (p->dtype != q->dtype) {
    pni_fail(c, PN_DTYPE, "kl: distributions must have one dtype, got %s and %s", pn_dtype_name((pn_dtype)p->dtype),
             pn_dtype_name((pn_dtype)q->dtype));
    return NULL;
  }
  pni_spec joint;
  if (joint_shape(c, p, q, &joint)) return NULL;
  return pni_dist_sum_moved(c, p, pni_dist_expand_to(c, f(c, p, q), joint.ndim, joint.shape));
}
