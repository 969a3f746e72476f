/*
** apply.c: what every bijector does the same way around the functions of its kind: dtypes, shapes, the cached
** pair, and determinants of events with more axes than the bijector's.
*/
#include <string.h>
#include "bijector.h"

/* ---- checks ---- */

static pn_status check(pn_context *c, const pn_bijector *b, const char *function, const pn_tensor *t, bool forward) {
  const char *name = b->kind->name, *role = forward ? "x" : "y";
  int rank = forward ? b->in_rank : b->out_rank;
  char got[PNI_SHAPE_TEXT];
  if (!pni_is_float(t) || (b->dtype >= 0 && t->dtype != b->dtype))
    return pni_fail(c, PN_DTYPE, "%s: %s: %s must be %s, got %s (convert with :to)", name, function, role,
                    b->dtype >= 0 ? pn_dtype_name((pn_dtype)b->dtype) : "float64 or float32",
                    pn_dtype_name((pn_dtype)t->dtype));
  if (t->ndim < rank)
    return pni_fail(c, PN_SHAPE, "%s: %s: %s must have at least %d %s, got shape %s", name, function, role, rank,
                    rank == 1 ? "axis" : "axes", pni_shape_text(t->ndim, t->shape, got));
  const char *axes = forward ? b->kind->in : b->kind->out;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && !b->nparts; k++) {
    const char *own = b->param[k] ? b->kind->param[k].axes : "";
    for (int i = 0; own[i]; i++) {
      const char *at = strchr(axes, own[i]);
      if (!at) continue;
      int64_t want = b->param[k]->shape[b->param[k]->ndim - (int)strlen(own) + i];
      int64_t have = t->shape[t->ndim - rank + (at - axes)];
      if (want != have)
        return pni_fail(c, PN_SHAPE, "%s: %s: %s must have vectors of size %lld, got shape %s", name, function, role,
                        (long long)want, pni_shape_text(t->ndim, t->shape, got));
    }
  }
  return PN_OK;
}

/* Shape of the determinant: t's without its event, joined with the batch. */
static pn_status lead_shape(pn_context *c, const pn_bijector *b, const pn_tensor *t, int rank, pni_spec *out) {
  pn_tensor lead = {.ndim = t->ndim - rank}, batch = {.ndim = b->batch_ndim};
  memcpy(lead.shape, t->shape, sizeof lead.shape);
  memcpy(batch.shape, b->shape, sizeof batch.shape);
  return pni_broadcast(c, b->kind->name, &lead, &batch, out);
}

/* ---- the cached pair ---- */

static uint64_t version(const pn_bijector *b) {
  uint64_t v = 0;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++)
    if (b->param[k]) v += b->param[k]->storage->version;
  for (int i = 0; i < b->nparts; i++) v += version(b->part[i]);
  return v;
}

static bool trained(const pn_bijector *b) {
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++)
    if (b->param[k] && pn_tensor_requires_grad(b->param[k])) return true;
  for (int i = 0; i < b->nparts; i++)
    if (trained(b->part[i])) return true;
  return false;
}

static uint64_t version_of_pair(const pn_bijector *b, const pn_tensor *x, const pn_tensor *y) {
  return version(b) + x->storage->version + y->storage->version;
}

/* The other half of the last pair, if `t` is one half, nothing changed since, and no gradient is asked for. Not in a
 * capture, whose later calls bring other values. */
static pn_tensor *recall(pn_context *c, const pn_bijector *b, pn_tensor *t, bool forward) {
  pn_tensor *kept = pni_bijector_kept(c, b, t, forward, version(b));
  if (kept || pni_failed(c)) return kept;
  const pni_bijector_cache *l = &b->last;
  if (c->recorder || !l->x || t != (forward ? l->x : l->y) || l->version != version_of_pair(b, l->x, l->y)) return NULL;
  if (!c->no_grad && (trained(b) || pn_tensor_requires_grad(t))) return NULL;
  return pni_scoped(c, pn_tensor_ref(forward ? l->y : l->x));
}

static pn_tensor *remember(pn_bijector *b, pn_tensor *x, pn_tensor *y) {
  if (b->ctx->recorder || pn_tensor_requires_grad(x) || pn_tensor_requires_grad(y)) return y;
  pn_tensor_ref(x);
  pn_tensor_ref(y);
  pn_tensor_unref(b->last.x);
  pn_tensor_unref(b->last.y);
  b->last = (pni_bijector_cache){x, y, version_of_pair(b, x, y)};
  return y;
}

/* ---- the three functions ---- */

pn_tensor *pn_bijector_forward(pn_context *c, pn_bijector *b, pn_tensor *x) {
  if (!PNI_GIVEN(c, "bijector_forward", b, x) || check(c, b, "forward", x, true)) return NULL;
  pn_tensor *y = recall(c, b, x, true);
  if (y || pni_failed(c)) return y;
  y = b->kind->forward(c, b, x);
  return y ? pni_bijector_mark(c, b, x, remember(b, x, y), true, version(b)) : NULL;
}

pn_tensor *pn_bijector_inverse(pn_context *c, pn_bijector *b, pn_tensor *y) {
  if (!PNI_GIVEN(c, "bijector_inverse", b, y) || check(c, b, "inverse", y, false)) return NULL;
  pn_tensor *x = recall(c, b, y, false);
  if (x || pni_failed(c)) return x;
  x = b->kind->inverse(c, b, y);
  if (x) remember(b, x, y);
  return x ? pni_bijector_mark(c, b, y, x, false, version(b)) : NULL;
}

pn_tensor *pni_sum_last(pn_context *c, pn_tensor *t, int extra) {
  if (!t || !extra) return t;
  pn_axes axes = {.n = extra};
  for (int i = 0; i < extra; i++) axes.axis[i] = t->ndim - 1 - i;
  return pn_sum(c, t, axes, 0);
}

/* A kind's log |det| at x in its full shape, summed over the extra axes. */
static pn_tensor *spread(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor *log_det, int extra) {
  pni_spec lead;
  if (!x || !log_det || pni_failed(c) || lead_shape(c, b, x, b->in_rank, &lead)) return NULL;
  return pni_sum_last(c, pni_dist_expand_to(c, log_det, lead.ndim, lead.shape), extra);
}

pn_tensor *pni_bijector_log_det(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor *y, int extra) {
  if (!x || !y || pni_failed(c)) return NULL;
  return spread(c, b, x, b->kind->log_abs_det(c, b, x, y), extra);
}

pn_tensor *pn_bijector_log_abs_det(pn_context *c, pn_bijector *b, pn_tensor *x) {
  if (!PNI_GIVEN(c, "bijector_log_abs_det", b, x) || check(c, b, "log_abs_det", x, true)) return NULL;
  return pni_bijector_log_det(c, b, x, pn_bijector_forward(c, b, x), 0);
}

pn_tensor *pni_bijector_with_log_det(pn_context *c, pn_bijector *b, pn_tensor *t, bool forward, int extra,
                                     pn_tensor **log_det) {
  *log_det = NULL;
  if (pni_failed(c) || check(c, b, forward ? "forward" : "inverse", t, forward)) return NULL;
  pn_tensor *(*both)(pn_context *, pn_bijector *, pn_tensor *, pn_tensor **) =
      forward ? b->kind->forward_with : b->kind->inverse_with;
  pn_tensor *other = recall(c, b, t, forward), *own = NULL;
  if (pni_failed(c)) return NULL;
  if (!other && both) {
    other = both(c, b, t, &own);
    if (other) forward ? remember(b, t, other) : remember(b, other, t);
    if (other) other = pni_bijector_mark(c, b, t, other, forward, version(b));
  } else if (!other) {
    other = forward ? pn_bijector_forward(c, b, t) : pn_bijector_inverse(c, b, t);
  }
  pn_tensor *x = forward ? t : other, *y = forward ? other : t;
  *log_det = own ? spread(c, b, x, own, extra) : pni_bijector_log_det(c, b, x, y, extra);
  return *log_det ? other : NULL;
}

pn_tensor *pn_bijector_forward_log_det(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor **log_det) {
  if (!PNI_GIVEN(c, "bijector_forward_log_det", b, x, log_det)) return NULL;
  return pni_bijector_with_log_det(c, b, x, true, 0, log_det);
}

pn_tensor *pn_bijector_inverse_log_det(pn_context *c, pn_bijector *b, pn_tensor *y, pn_tensor **log_det) {
  if (!PNI_GIVEN(c, "bijector_inverse_log_det", b, y, log_det)) return NULL;
  return pni_bijector_with_log_det(c, b, y, false, 0, log_det);
}

pn_tensor *pni_bijector_sign(pn_context *c, pn_bijector *b, const pn_tensor *like) {
  if (!b->nparts) return b->kind->sign ? b->kind->sign(c, b) : pni_like(c, like, 1);
  pn_tensor *sign = pni_bijector_sign(c, b->part[0], like);
  for (int i = 1; i < b->nparts; i++) sign = pn_mul(c, sign, pni_bijector_sign(c, b->part[i], like));
  return sign;
}
