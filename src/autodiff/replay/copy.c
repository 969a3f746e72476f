/*
** copy.c: a plan for another context, so that several threads run the same computation, each in a context of its own.
** What the plan finds outside is copied as it is now: constants, and parameters with the values they have. Draws
** come from the default generator of the new context. Tensors of one storage share one copy.
*/
#include <string.h>
#include "plan.h"

/* The storage of value i, whole, in the new context. Scoped. */
static pn_tensor *whole_copy(pn_context *c, const pni_storage *s) {
  pni_spec bytes = {.dtype = PN_BOOL, .ndim = 1, .shape = {(int64_t)s->bytes}};
  pn_tensor *t = pni_scoped(c, pni_tensor_new(c, &bytes));
  if (t && s->cargo) {
    if (s->cargo->copy(c, s->data, t->storage->data)) return NULL;
    t->storage->cargo = s->cargo;
  } else if (t && s->bytes) {
    memcpy(t->storage->data, s->data, s->bytes);
  }
  return t;
}

/* Value i of `to` gets its own copy of what `from` finds outside. */
static pn_status copy_outside(pn_context *c, const pni_tape *from, pni_tape *to, int64_t i) {
  const pn_tensor *old = from->value.v[i].outside;
  pn_tensor *source = NULL;
  for (int64_t k = 0; k < i && !source; k++)
    if (from->value.v[k].outside && from->value.v[k].outside->storage == old->storage) source = to->value.v[k].outside;
  pn_tensor *whole = source ? source : whole_copy(c, old->storage);
  pn_tensor *t = whole ? pni_tensor_alias(c, whole) : NULL;
  if (!t) return c->status;
  t->dtype = old->dtype;
  t->ndim = old->ndim;
  t->offset = old->offset;
  t->numel = old->numel;
  memcpy(t->shape, old->shape, sizeof t->shape);
  memcpy(t->stride, old->stride, sizeof t->stride);
  to->value.v[i].outside = t;
  return PN_OK;
}

static void *copy_list(pn_context *c, const void *v, int64_t cap, size_t size) {
  void *fresh = pni_alloc_array(c, cap, size);
  if (fresh && cap) memcpy(fresh, v, (size_t)cap * size);
  return fresh;
}

/* Lists that cannot be had have room 0, so that the tape can be freed. */
#define COPY_LIST(c, l, old)                                                                                           \
  do {                                                                                                                 \
    (l).v = copy_list((c), (old).v, (old).cap, sizeof *(l).v);                                                         \
    (l).cap = (l).v ? (old).cap : 0;                                                                                   \
    (l).n = (l).v ? (old).n : 0;                                                                                       \
  } while (0)

pni_tape *pni_tape_copy(pn_context *c, const pni_tape *old) {
  pni_tape *tape = pni_calloc(c, sizeof *tape);
  if (!tape) return NULL;
  tape->ninput = old->ninput;
  pni_object_born(c);
  COPY_LIST(c, tape->value, old->value);
  COPY_LIST(c, tape->note, old->note);
  COPY_LIST(c, tape->edge, old->edge);
  COPY_LIST(c, tape->cut, old->cut);
  COPY_LIST(c, tape->event, old->event);
  COPY_LIST(c, tape->word, old->word);
  COPY_LIST(c, tape->geometry, old->geometry);
  COPY_LIST(c, tape->roll, old->roll);
  for (int64_t i = 0; i < tape->value.n; i++) tape->value.v[i].outside = NULL;
  for (int64_t i = 0; i < tape->event.n; i++)
    if (tape->event.v[i].rng) tape->event.v[i].rng = pni_rng_ref(&c->rng);
  for (int64_t i = 0; i < tape->value.n && !pni_failed(c); i++)
    if (old->value.v[i].outside && !pni_check_cancel(c)) copy_outside(c, old, tape, i);
  return tape;
}

pn_plan *pn_plan_copy(pn_context *c, const pn_plan *old) {
  if (!PNI_GIVEN(c, "plan_copy", old)) return NULL;
  if (old->effects) {
    pni_fail(c, PN_STATE, "plan_copy: a plan that updates parameters has no copy");
    return NULL;
  }
  size_t mark = pn_scope_open(c);
  pni_tape *tape = pni_tape_copy(c, old->tape);
  pn_plan *p = tape ? pni_plan_new(c, tape, old->nout) : NULL;
  if (p) {
    if (p->out) memcpy(p->out, old->out, (size_t)old->nout * sizeof *p->out);
    if (pni_failed(c) || pni_plan_settle(c, p)) {
      pn_plan_unref(p);
      p = NULL;
    }
  } else if (tape) {
    pni_tape_free(c, tape);
    pni_object_died(c);
  }
  pn_scope_close(c, mark);
  return p;
}
