/*
** composite.c: what the distributions made of distributions share.
*/
#include "composite.h"
#include <string.h>

static const pni_distribution *const rows[] = {
#define X(name) &pni_composite_##name,
#include "composite.def"
#undef X
};

int pni_composite_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_distribution *pni_composite_at(int i) { return i >= 0 && i < pni_composite_count() ? rows[i] : NULL; }

pn_dist *pni_composite_shell(pn_context *c, const pni_distribution *kind, int n, int dtype) {
  pn_dist *d = pni_dist_shell(c, kind);
  if (!d) return NULL;
  d->dtype = dtype;
  d->part = pni_calloc_array(c, n, sizeof *d->part);
  if (!d->part) {
    pn_dist_unref(d);
    return NULL;
  }
  d->nparts = n;
  return d;
}

/* Part i repeated to the own batch of d and `tail` more axes of its own; lead receives the sample axes of `out`.
 * New. */
static pn_dist *widened(pn_context *c, const pn_dist *d, int i, int tail, const pni_spec *out, int *lead) {
  const pn_dist *p = d->part[i];
  int nb = pni_dist_base_ndim(d);
  *lead = out->ndim - nb - pni_dist_kind_event_ndim(d);
  int64_t batch[PN_MAX_DIMS + 1];
  memcpy(batch, d->shape, (size_t)nb * sizeof *batch);
  for (int k = 0; k < tail; k++) batch[nb + k] = p->shape[p->batch_ndim - tail + k];
  return pn_dist_expand(c, p, nb + tail, batch);
}

pn_tensor *pni_composite_draw(pn_context *c, const pn_dist *d, int i, int tail, pn_rng *rng, const pni_spec *out,
                              bool with_gradient) {
  int lead;
  pn_dist *expanded = widened(c, d, i, tail, out, &lead);
  pn_tensor *t = with_gradient ? pn_dist_rsample(c, expanded, rng, lead, out->shape)
                               : pn_dist_sample(c, expanded, rng, lead, out->shape);
  pn_dist_unref(expanded);
  return t;
}

pn_tensor *pni_composite_draw_with_log_prob(pn_context *c, const pn_dist *d, int i, pn_rng *rng, const pni_spec *out,
                                            pn_tensor **log_prob) {
  int lead;
  pn_dist *expanded = widened(c, d, i, 0, out, &lead);
  pn_tensor *t = pn_dist_rsample_log_prob(c, expanded, rng, lead, out->shape, log_prob);
  pn_dist_unref(expanded);
  return t;
}

pn_status pni_composite_widen(pn_context *c, const char *where, pni_spec *batch, int n, const int64_t *shape) {
  pn_tensor a = {.ndim = batch->ndim}, b = {.ndim = n};
  memcpy(a.shape, batch->shape, sizeof a.shape);
  if (n > 0) memcpy(b.shape, shape, (size_t)n * sizeof *shape);
  return pni_broadcast(c, where, &a, &b, batch);
}

bool pni_constraint_inside(const pni_constraint *a, const pni_constraint *b) {
  if (a == b) return true;
  if (a->discrete) return false;
  if (b == &pni_constraint_real) return a->rank == 0 || a == &pni_constraint_real_vector;
  if (b == &pni_constraint_real_vector) return a->rank <= 1;
  return b->low < b->high && a->low < a->high && a->low >= b->low && a->high <= b->high;
}
