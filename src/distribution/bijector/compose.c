/*
** compose.c: bijectors made of bijectors. A chain applies its parts first to last,
**   log |det| = sum of the parts' log |det|, each summed over the axes its part does not know;
** an inverse runs its part backwards, log |det dx/dy| = -log |det dy/dx|.
** A chain's event has as many axes as its most demanding part needs: with in_i, out_i axes of part i and
** g_i = sum of out_j - in_j over j < i, that is max over i of in_i - g_i.
*/
#include <string.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;

/* Axes gained before part i. */
static int gain(const B *b, int i) {
  int g = 0;
  for (int j = 0; j < i; j++) g += b->part[j]->out_rank - b->part[j]->in_rank;
  return g;
}

int pni_chain_extra(const B *b, int i) { return b->in_rank + gain(b, i) - b->part[i]->in_rank; }

static pn_status compose_chain(C *c, B *b) {
  b->in_rank = 0;
  for (int i = 0; i < b->nparts; i++) {
    int need = b->part[i]->in_rank - gain(b, i);
    if (need > b->in_rank) b->in_rank = need;
  }
  b->out_rank = b->in_rank + gain(b, b->nparts);
  b->domain = b->part[0]->domain;
  b->codomain = b->part[b->nparts - 1]->codomain;
  pn_tensor batch = {.ndim = 0};
  for (int i = 0; i < b->nparts; i++) {
    pn_tensor own = {.ndim = b->part[i]->batch_ndim - pni_chain_extra(b, i)};
    if (own.ndim < 0) own.ndim = 0;
    memcpy(own.shape, b->part[i]->shape, sizeof own.shape);
    pni_spec joint;
    if (pni_broadcast(c, "chain", &batch, &own, &joint)) return c->status;
    batch.ndim = joint.ndim;
    memcpy(batch.shape, joint.shape, sizeof batch.shape);
  }
  b->batch_ndim = batch.ndim;
  memcpy(b->shape, batch.shape, sizeof b->shape);
  return PN_OK;
}

static pn_status compose_inverse(B *b) {
  const B *p = b->part[0];
  b->in_rank = p->out_rank;
  b->out_rank = p->in_rank;
  b->domain = p->codomain;
  b->codomain = p->domain;
  b->batch_ndim = p->batch_ndim;
  memcpy(b->shape, p->shape, sizeof b->shape);
  return PN_OK;
}

pn_status pni_compose(C *c, B *b) {
  for (int i = 0; i < b->nparts; i++) {
    int dtype = b->part[i]->dtype;
    if (pni_use(c, b->kind->name, &b->uses, b->part[i]->uses)) return c->status;
    if (dtype >= 0 && b->dtype >= 0 && dtype != b->dtype)
      return pni_fail(c, PN_DTYPE, "%s: parts must have one dtype, got %s and %s", b->kind->name,
                      pn_dtype_name((pn_dtype)b->dtype), pn_dtype_name((pn_dtype)dtype));
    if (dtype >= 0) b->dtype = dtype;
  }
  return b->kind->parts < 0 ? compose_chain(c, b) : compose_inverse(b);
}

/* ---- chain ---- */

static T *chain_forward(C *c, B *b, T *x) {
  for (int i = 0; i < b->nparts; i++) x = pn_bijector_forward(c, b->part[i], x);
  return x;
}

static T *chain_inverse(C *c, B *b, T *y) {
  for (int i = b->nparts - 1; i >= 0; i--) y = pn_bijector_inverse(c, b->part[i], y);
  return y;
}

static T *chain_log_abs_det(C *c, B *b, T *x, T *y) {
  T *sum = NULL;
  for (int i = 0; i < b->nparts; i++) {
    T *next = i + 1 < b->nparts ? pn_bijector_forward(c, b->part[i], x) : y;
    T *own = pni_bijector_log_det(c, b->part[i], x, next, pni_chain_extra(b, i));
    sum = i ? pn_add(c, sum, own) : own;
    x = next;
  }
  return sum;
}

/* Each part once, in either direction. */
static T *chain_with(C *c, B *b, T *t, bool forward, T **log_det) {
  T *sum = NULL, *own;
  for (int k = 0; k < b->nparts; k++) {
    int i = forward ? k : b->nparts - 1 - k;
    t = pni_bijector_with_log_det(c, b->part[i], t, forward, pni_chain_extra(b, i), &own);
    sum = k ? pn_add(c, sum, own) : own;
  }
  *log_det = sum;
  return t;
}
static T *chain_forward_with(C *c, B *b, T *x, T **log_det) { return chain_with(c, b, x, true, log_det); }
static T *chain_inverse_with(C *c, B *b, T *y, T **log_det) { return chain_with(c, b, y, false, log_det); }

const pni_bijector pni_bijector_chain = {.name = "chain",
                                         .doc = "its parts one after the other, the first one first",
                                         .source = "chain rule",
                                         .domain = &pni_constraint_real,
                                         .codomain = &pni_constraint_real,
                                         .in = "",
                                         .out = "",
                                         .parts = -1,
                                         .forward = chain_forward,
                                         .inverse = chain_inverse,
                                         .log_abs_det = chain_log_abs_det,
                                         .forward_with = chain_forward_with,
                                         .inverse_with = chain_inverse_with};

/* ---- inverse ---- */

static T *inverse_forward(C *c, B *b, T *x) { return pn_bijector_inverse(c, b->part[0], x); }
static T *inverse_inverse(C *c, B *b, T *y) { return pn_bijector_forward(c, b->part[0], y); }
static T *inverse_log_abs_det(C *c, B *b, T *x, T *y) {
  return pn_neg(c, pni_bijector_log_det(c, b->part[0], y, x, 0));
}

static T *backwards(C *c, B *b, T *t, bool forward, T **log_det) {
  T *other = pni_bijector_with_log_det(c, b->part[0], t, forward, 0, log_det);
  *log_det = pn_neg(c, *log_det);
  return other;
}
static T *inverse_forward_with(C *c, B *b, T *x, T **log_det) { return backwards(c, b, x, false, log_det); }
static T *inverse_inverse_with(C *c, B *b, T *y, T **log_det) { return backwards(c, b, y, true, log_det); }

const pni_bijector pni_bijector_inverse = {.name = "inverse",
                                           .doc = "its part backwards",
                                           .source = "inverse function theorem",
                                           .domain = &pni_constraint_real,
                                           .codomain = &pni_constraint_real,
                                           .in = "",
                                           .out = "",
                                           .parts = 1,
                                           .forward = inverse_forward,
                                           .inverse = inverse_inverse,
                                           .log_abs_det = inverse_log_abs_det,
                                           .forward_with = inverse_forward_with,
                                           .inverse_with = inverse_inverse_with};
