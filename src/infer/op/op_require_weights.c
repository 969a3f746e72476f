/*
** op_require_weights.c: what log-weights must be. A column [K] of -inf alone is a datum of evidence zero: its bound is
** -inf and its gradient zero; a batch of nothing else is a mistake of the model. NaN is one always.
*/
#include <math.h>
#include <stdio.h>
#include "infer_op.h"

/* "draw 3 of datum 2", or "element 2" of one axis; counted from 1. */
static void place(const pn_tensor *x, int64_t i, char buf[64]) {
  int64_t batch = x->ndim == 2 ? x->shape[1] : 1;
  if (x->ndim == 2)
    snprintf(buf, 64, "at draw %lld of datum %lld", (long long)(i / batch + 1), (long long)(i % batch + 1));
  else
    snprintf(buf, 64, "at element %lld", (long long)(i + 1));
}

static bool all_finite(pn_context *c, const pn_tensor *t) {
  PNI_INTERRUPTIBLE(c, i, t->numel) if (!isfinite(pni_element(t, i))) return false;
  return true;
}

/* What is asked; kept in an operation's attr. */
typedef struct {
  const char *where, *role; /* static */
  bool each;                /* of each datum */
} demand;

static pn_status require(pn_context *c, const demand *d, const pn_tensor *bound, const pn_tensor *x) {
  char at[64];
  int64_t dead = 0;
  if (all_finite(c, bound)) return c->status;
  PNI_INTERRUPTIBLE(c, i, x->numel) {
    double v = pni_element(x, i);
    dead += v == -INFINITY;
    if (isfinite(v) || v == -INFINITY) continue;
    place(x, i, at);
    if (isnan(v)) return pni_fail(c, PN_NAN, "%s: %s must be a number, got NaN %s", d->where, d->role, at);
    return pni_fail(c, PN_DOMAIN, "%s: %s must be below +inf, got inf %s", d->where, d->role, at);
  }
  if (pni_failed(c)) return c->status;
  if (dead == x->numel)
    return pni_fail(c, PN_DEGENERATE,
                    "%s: %s must not be -inf throughout, got all %lld draws so: the model gives them probability 0",
                    d->where, d->role, (long long)dead);
  PNI_INTERRUPTIBLE(c, b, d->each ? bound->numel : 0)
  if (pni_element(bound, b) == -INFINITY)
    return pni_fail(c, PN_DEGENERATE, "%s: %s of datum %lld must not be -inf throughout", d->where, d->role,
                    (long long)(b + 1));
  return c->status;
}

/* The check as an operation, so that a plan makes it anew. */
static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c, (void)call;
  *out = (pni_spec){.dtype = PN_BOOL};
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  *(uint8_t *)pni_data(out) = 1;
  demand d = {(const char *)(intptr_t)i[0], (const char *)(intptr_t)i[1], i[2] != 0};
  return require(c, &d, call->in[0], call->in[1]);
}

static pn_status ask(pn_context *c, const demand *d, pn_tensor *bound, pn_tensor *x) {
  if (pni_failed(c)) return c->status;
  if (!c->recorder) return require(c, d, bound, x);
  pni_attr a = {.ni = 3, .i = {(int64_t)(intptr_t)d->where, (int64_t)(intptr_t)d->role, d->each}};
  pni_apply2(c, &pni_infer_op_require_weights, bound, x, &a);
  return c->status;
}

pn_status pni_require_weights(pn_context *c, const char *where, const char *role, pn_tensor *bound, pn_tensor *x) {
  return ask(c, &(demand){where, role, false}, bound, x);
}

pn_status pni_require_each_weight(pn_context *c, const char *where, const char *role, pn_tensor *bound, pn_tensor *x) {
  return ask(c, &(demand){where, role, true}, bound, x);
}

const pni_op pni_infer_op_require_weights = {.name = "require_weights",
                                             .args = "bound:t x:t",
                                             .doc = "fails where log-weights are NaN, +inf, or -inf throughout",
                                             .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK,
                                             .infer = infer,
                                             .eval = eval};
