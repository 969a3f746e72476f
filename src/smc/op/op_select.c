/*
** op_select.c: states of chosen ancestors, and the adjoint, which adds what the copies of a particle get.
*/
#include <stdatomic.h>
#include <string.h>
#include "smc_op.h"

/* x [N, B..., event...], ancestors [M, B...]: the axes B and what an element of `inner` holds. */
typedef struct {
  int64_t n, m, filters, inner;
} shape;

static pn_status shapes(pn_context *c, const char *where, const pn_tensor *x, const pn_tensor *a, pni_spec *out) {
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  if (a->dtype != PN_INT64)
    return pni_fail(c, PN_DTYPE, "%s: ancestors must be int64, got %s", where, pn_dtype_name((pn_dtype)a->dtype));
  bool fits = a->ndim >= 1 && x->ndim >= a->ndim;
  for (int k = 1; fits && k < a->ndim; k++) fits = x->shape[k] == a->shape[k];
  if (!fits)
    return pni_fail(c, PN_SHAPE, "%s: state must be [N, B..., event...] for ancestors %s, got %s", where,
                    pni_shape_text(a->ndim, a->shape, s), pni_shape_text(x->ndim, x->shape, t));
  *out = pni_spec_of(x);
  out->shape[0] = a->shape[0];
  return PN_OK;
}

static shape shape_of(const pn_tensor *x, const pn_tensor *a, int64_t n) {
  int64_t filters = a->ndim > 1 ? pni_count(a->ndim - 1, a->shape + 1) : 1;
  return (shape){n, a->shape[0], filters, pni_count(x->ndim - a->ndim, x->shape + a->ndim)};
}

pn_status pni_check_places(pn_context *c, const char *role, const pn_tensor *places, int64_t count, int64_t n) {
  if (places->dtype != PN_INT64 || places->numel != count)
    return pni_fail(c, PN_SHAPE, "%s must be int64, %lld of them, got %lld %s", role, (long long)count,
                    (long long)places->numel, pn_dtype_name((pn_dtype)places->dtype));
  const int64_t *a = pni_data(places);
  uint64_t wrong = 0;
  for (int64_t i = 0; i < count; i++) wrong |= (uint64_t)a[i] >= (uint64_t)n;
  if (!wrong) return PN_OK;
  int64_t i = 0;
  while ((uint64_t)a[i] < (uint64_t)n) i++;
  return pni_fail(c, PN_DOMAIN, "%s must lie in 0 to %lld, got %lld", role, (long long)n - 1, (long long)a[i]);
}

typedef struct {
  shape s;
  int64_t particle, filter; /* elements from one to the next in x */
  const char *x;
  const int64_t *a;
  char *out;
  size_t size;
  atomic_bool wrong; /* an ancestor is no place */
} job;

#define PICK(T)                                                                                                        \
  for (int64_t i = first; i < end; i++) ((T *)(void *)j->out)[i] = ((const T *)(const void *)j->x)[j->a[i]];

/* Items: particles of one filter each, row-major as in the ancestors, which are places. */
static void pick_places(const job *j, int64_t first, int64_t end) {
  const size_t bytes = (size_t)j->s.inner * j->size;
  if (j->s.filters == 1 && j->particle == 1 && bytes == 8) {
    PICK(uint64_t)
  } else if (j->s.filters == 1 && j->particle == 1 && bytes == 4) {
    PICK(uint32_t)
  } else if (bytes == 8 && j->size == 8) {
    int64_t f = first % j->s.filters;
    for (int64_t i = first; i < end; i++) {
      ((uint64_t *)(void *)j->out)[i] = ((const uint64_t *)(const void *)j->x)[j->a[i] * j->particle + f * j->filter];
      if (++f == j->s.filters) f = 0;
    }
  } else {
    int64_t f = first % j->s.filters;
    for (int64_t i = first; i < end; i++) {
      memcpy(j->out + (size_t)i * bytes, j->x + (size_t)(j->a[i] * j->particle + f * j->filter) * j->size, bytes);
      if (++f == j->s.filters) f = 0;
    }
  }
}

/* Ancestors are looked at a few at a time just before they are used: no pass over memory of their own. */
static void pick(void *data, int64_t first, int64_t end) {
  enum { CHUNK = 512 };
  job *j = data;
  for (int64_t i = first; i < end; i += CHUNK) {
    int64_t until = end - i < CHUNK ? end : i + CHUNK;
    uint64_t wrong = 0;
    for (int64_t k = i; k < until; k++) wrong |= (uint64_t)j->a[k] >= (uint64_t)j->s.n;
    if (wrong) {
      atomic_store(&j->wrong, true);
      return;
    }
    pick_places(j, i, until);
  }
}

/* Axes from `first` to before `end` as one; the elements from one of its places to the next in *step. */
static bool collapses(const pn_tensor *x, int first, int end, int64_t *step) {
  *step = end > first ? x->stride[end - 1] : 1;
  for (int axis = first; axis + 1 < end; axis++)
    if (x->stride[axis] != x->stride[axis + 1] * x->shape[axis + 1]) return false;
  return true;
}

/* x itself where the rows of events can be read in place (as in a view of packed results), else a copy. One more
 * reference. */
static pn_tensor *in_place(pn_context *c, pn_tensor *x, const pn_tensor *a, job *j) {
  int64_t event;
  bool fits = collapses(x, 1, a->ndim, &j->filter) && collapses(x, a->ndim, x->ndim, &event) && event == 1;
  x = fits ? pn_tensor_ref(x) : pni_contiguous(c, x);
  if (x && !fits) collapses(x, 1, a->ndim, &j->filter);
  if (x) j->particle = x->stride[0];
  return x;
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  return shapes(c, "select", call->in[0], call->in[1], out);
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  job j = {.out = pni_data(out), .size = pni_itemsize(out)};
  pn_tensor *x = in_place(c, call->in[0], call->in[1], &j), *a = x ? pni_contiguous(c, call->in[1]) : NULL;
  if (a) {
    j.s = shape_of(x, a, x->shape[0]);
    j.x = pni_data(x);
    j.a = pni_data(a);
    pni_parallel(c, a->numel, 1 + 32768 / (j.s.inner + 1), pick, &j);
    if (atomic_load(&j.wrong)) pni_check_places(c, "select: ancestors", a, a->numel, x->shape[0]);
  }
  pn_tensor_unref(x);
  pn_tensor_unref(a);
  return c->status;
}

static pn_tensor *add(pn_context *c, pn_tensor *g, pn_tensor *ancestors, int64_t n);

static pn_tensor *vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return add(c, g, pni_in(y, 1), pni_in(y, 0)->shape[0]);
}

pn_tensor *pni_select_particles(pn_context *c, pn_tensor *x, pn_tensor *ancestors) {
  return pni_apply2(c, &pni_smc_op_select_particles, x, ancestors, NULL);
}

const pni_op pni_smc_op_select_particles = {.name = "select_particles",
                                            .args = "x:t ancestors:t",
                                            .doc = "x[a[i, b], b, ...] at [i, b, ...], a [M, B...] int64, 0-based",
                                            .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
                                            .infer = infer,
                                            .eval = eval,
                                            .vjp = vjp};

/* ---- the adjoint: attr i[0]: N ---- */

static pn_status infer_add(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *g = call->in[0];
  if (!pni_is_float(g))
    return pni_fail(c, PN_DTYPE, "select: g must be float64 or float32, got %s", pn_dtype_name((pn_dtype)g->dtype));
  if (shapes(c, "select", g, call->in[1], out)) return c->status;
  if (g->shape[0] != call->in[1]->shape[0])
    return pni_fail(c, PN_SHAPE, "select: g must have %lld particles, got %lld", (long long)call->in[1]->shape[0],
                    (long long)g->shape[0]);
  out->shape[0] = call->attr->i[0];
  return PN_OK;
}

#define ADD(T)                                                                                                         \
  for (int64_t i = 0; i < s.m * s.filters; i++) {                                                                      \
    T *to = (T *)pni_data(out) + (at[i] * s.filters + i % s.filters) * s.inner;                                        \
    const T *from = (const T *)pni_data(g) + i * s.inner;                                                              \
    for (int64_t k = 0; k < s.inner; k++) to[k] += from[k];                                                            \
  }

static pn_status eval_add(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *g = pni_contiguous(c, call->in[0]), *a = g ? pni_contiguous(c, call->in[1]) : NULL;
  if (a && pni_check_places(c, "select: ancestors", a, a->numel, out->shape[0]) == PN_OK) {
    shape s = shape_of(g, a, out->shape[0]);
    const int64_t *at = pni_data(a);
    memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
    if (g->dtype == PN_FLOAT64) {
      ADD(double)
    } else if (g->dtype == PN_FLOAT32) {
      ADD(float)
    }
  }
  pn_tensor_unref(g);
  pn_tensor_unref(a);
  return c->status;
}

static pn_tensor *vjp_add(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pni_select_particles(c, g, pni_in(y, 1));
}

static pn_tensor *add(pn_context *c, pn_tensor *g, pn_tensor *ancestors, int64_t n) {
  return pni_apply2(c, &pni_smc_op_select_particles_add, g, ancestors, &(pni_attr){.ni = 1, .i = {n}});
}

const pni_op pni_smc_op_select_particles_add = {.name = "select_particles_add",
                                                .args = "g:t ancestors:t n:i",
                                                .doc = "the adjoint of select_particles: [M, B..., event] -> [N, ...]",
                                                .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
                                                .infer = infer_add,
                                                .eval = eval_add,
                                                .vjp = vjp_add};
