/*
** masked.c: a distribution whose log density counts only where a mask is true: log p(x) = mask ? log p_base(x) : 0, so
** that missing data have neither value nor gradient; entropy and KL alike. Draws are the base's.
*/
#include <string.h>
#include "../formula.h"
#include "composite.h"

enum { MASK };
static const pn_dist *base(D *d) { return d->part[0]; }

/* The mask, [own batch] or what broadcasts to it. */
static T *counted(C *c, D *d, T *value) { return only(c, d->param[MASK], value, 0); }

/* x where the mask is true, else a member of the support: NaN in missing data reaches nothing. */
static T *log_prob(C *c, D *d, T *x) {
  int rank = pni_dist_kind_event_ndim(d);
  T *mask = d->param[MASK];
  for (int i = 0; i < rank; i++) mask = pn_unsqueeze(c, mask, -1);
  const int64_t *size = d->shape + pni_dist_base_ndim(d) + rank - d->support->rank;
  T *member = d->flags & PNI_DIST_INTEGER ? pn_scalar(c, (pn_dtype)x->dtype, 0)
                                          : pni_constraint_member(c, d->support, (pn_dtype)x->dtype, size);
  return counted(c, d, pn_dist_log_prob(c, base(d), pn_where(c, mask, x, member)));
}

static T *mean(C *c, D *d) { return pn_dist_mean(c, base(d)); }
static T *variance(C *c, D *d) { return pn_dist_variance(c, base(d)); }
static T *mode(C *c, D *d) { return pn_dist_mode(c, base(d)); }
static T *entropy(C *c, D *d) { return counted(c, d, pn_dist_entropy(c, base(d))); }
static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_composite_draw(c, d, 0, 0, rng, out, false);
}
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_composite_draw(c, d, 0, 0, rng, out, true);
}

static bool is_masked(D *d) { return d->kind == &pni_composite_masked; }

/* What is masked, or a distribution that is not with `moved` event axes as batch axes again. */
static const pn_dist *bare(D *d, int moved, pn_dist *view) {
  if (is_masked(d)) return base(d);
  *view = *d;
  view->batch_ndim += moved;
  view->event_ndim -= moved;
  view->moved -= moved;
  return view;
}

/* Counted where all masks are true. */
static T *kl(C *c, D *p, D *q) {
  pn_dist a, b;
  int moved = is_masked(p) ? p->moved : q->moved;
  if (p->moved < moved || q->moved < moved || (is_masked(p) && is_masked(q) && p->moved != q->moved)) {
    pni_fail(c, PN_SHAPE, "kl: %s and %s must have the same independent axes", p->kind->name, q->kind->name);
    return NULL;
  }
  T *value = pn_dist_kl(c, bare(p, moved, &a), bare(q, moved, &b));
  if (is_masked(p)) value = only(c, p->param[MASK], value, 0);
  return is_masked(q) ? only(c, q->param[MASK], value, 0) : value;
}

const pni_distribution pni_composite_masked = {
    .name = "masked",
    .doc = "a distribution that counts only where a mask is true: log p(x) = mask ? log p_base(x) : 0",
    .source = "definition",
    .call = "base, mask",
    .support = &pni_constraint_real,
    .event = "",
    .flags = PNI_DIST_TOTAL | PNI_DIST_KL_ANY,
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .kl = kl,
    .sample = sample,
    .rsample = rsample};

pn_dist *pn_dist_masked(C *c, const pn_dist *b, pn_tensor *mask) {
  if (!PNI_GIVEN(c, "dist_masked", b, mask)) return NULL;
  if (mask->dtype != PN_BOOL) {
    pni_fail(c, PN_DTYPE, "masked: mask must be bool, got %s", pn_dtype_name((pn_dtype)mask->dtype));
    return NULL;
  }
  pni_spec batch = {.ndim = b->batch_ndim};
  memcpy(batch.shape, b->shape, sizeof batch.shape);
  if (pni_composite_widen(c, "masked: mask and batch", &batch, mask->ndim, mask->shape)) return NULL;
  int depth = 0;
  if (pni_nest(c, "masked", &depth, b->depth)) return NULL;
  pn_dist *d = pni_composite_shell(c, &pni_composite_masked, 1, b->dtype);
  if (!d) return NULL;
  d->depth = depth;
  d->part[0] = pn_dist_expand(c, b, batch.ndim, batch.shape);
  if (!d->part[0] || pni_use(c, "masked", &d->uses, b->uses)) {
    pn_dist_unref(d);
    return NULL;
  }
  d->param[MASK] = pn_tensor_ref(mask);
  d->support = b->support;
  d->flags |= b->flags & (PNI_DIST_DISCRETE | PNI_DIST_INTEGER);
  d->batch_ndim = batch.ndim;
  d->event_ndim = b->event_ndim;
  memcpy(d->shape, d->part[0]->shape, sizeof d->shape);
  return d;
}
