/* recurrent_op.c: see recurrent_op.h. */
#include <string.h>
#include "recurrent_op.h"
#include "../../tensor/product/gemm.h"

pn_status pni_recurrent_check(pn_context *c, const pni_call *call, const char *where, int gates, int states) {
  const pn_tensor *gi = call->in[0], *w = call->in[1];
  char s[PNI_SHAPE_TEXT];
  int64_t hidden = w->ndim == 2 ? w->shape[1] : 0;
  if (hidden < 1 || w->shape[0] != gates * hidden)
    return pni_fail(c, PN_SHAPE, "%s: weight_hh must have shape [%d hidden, hidden], got %s", where, gates,
                    pni_shape_text(w->ndim, w->shape, s));
  if (gi->ndim != 3 || gi->shape[2] != gates * hidden)
    return pni_fail(c, PN_SHAPE, "%s: projected input must have shape [T, B, %lld], got %s", where,
                    (long long)(gates * hidden), pni_shape_text(gi->ndim, gi->shape, s));
  for (int k = states; k < call->nin; k++) {
    const pn_tensor *h = call->in[k];
    if (h->ndim != 2 || h->shape[0] != gi->shape[1] || h->shape[1] != hidden)
      return pni_fail(c, PN_SHAPE, "%s: initial state must have shape [%lld, %lld], got %s", where,
                      (long long)gi->shape[1], (long long)hidden, pni_shape_text(h->ndim, h->shape, s));
  }
  return PN_OK;
}

pn_status pni_recurrent_nothing(pn_tensor *out) {
  memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
  return PN_OK;
}

pn_status pni_recurrent_on_contiguous(pn_context *c, const pni_call *call, pn_tensor *out,
                                      pn_status (*f)(pn_context *, pn_tensor *const *, pn_tensor *)) {
  pn_tensor *in[PNI_OP_INPUTS] = {NULL};
  int n = 0;
  if (out->numel == 0) return PN_OK;
  while (n < call->nin && (in[n] = pni_contiguous(c, call->in[n]))) n++;
  if (n == call->nin) f(c, in, out);
  while (n-- > 0) pn_tensor_unref(in[n]);
  return c->status;
}

const pni_recurrent_kernels *pni_recurrent_kernels_of(const pn_tensor *t) {
  return t->dtype == PN_FLOAT64 ? &pni_recurrent_f64 : &pni_recurrent_f32;
}

pn_tensor *pni_recurrent_vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k, pni_recurrent_walk walk,
                             pni_recurrent_share share) {
  pn_tensor *x = pni_in(y, k), **step, *d[3], *out[PNI_OP_INPUTS] = {NULL};
  int64_t steps = y->shape[y->ndim - 3];
  bool wanted[PNI_OP_INPUTS] = {false};
  if (y->numel == 0) return pn_zeros(c, (pn_dtype)y->dtype, x->ndim, x->shape);
  if (!(step = pni_alloc_array(c, steps, sizeof *step))) return NULL;
  walk(c, y, g, step, d);
  pni_free(c, step);
  wanted[k] = true;
  share(c, y, d, wanted, out);
  return out[k];
}

pn_tensor *pni_recurrent_turned(pn_context *c, const pn_tensor *w) {
  pn_tensor *t = pni_tensor_alias(c, w);
  if (!t) return NULL;
  t->shape[0] = w->shape[1];
  t->shape[1] = w->shape[0];
  t->stride[0] = w->stride[1];
  t->stride[1] = w->stride[0];
  pn_tensor *turned = pni_contiguous(c, t);
  pn_tensor_unref(t);
  return turned;
}

pn_tensor *pni_recurrent_before(pn_context *c, pn_tensor *first, pn_tensor *h) {
  pn_tensor *start = pn_unsqueeze(c, first, 0);
  if (!start || !h || h->shape[0] == 1) return start;
  return pn_concatenate(c, 2, (pn_tensor *[]){start, pn_slice(c, h, 0, 0, h->shape[0] - 1, 1)}, 0);
}

/* By pieces, as an operation takes a limited number of inputs. */
pn_tensor *pni_recurrent_stack(pn_context *c, int64_t n, pn_tensor *const *t) {
  if (n <= PNI_OP_INPUTS) return pn_stack(c, (int)n, t, 0);
  int64_t half = n / 2;
  pn_tensor *a = pni_recurrent_stack(c, half, t), *b = pni_recurrent_stack(c, n - half, t + half);
  return pn_concatenate(c, 2, (pn_tensor *[]){a, b}, 0);
}

pn_tensor *pni_recurrent_part(pn_context *c, pn_tensor *t, int64_t k, int64_t hidden) {
  return pn_slice(c, t, -1, k * hidden, hidden, 1);
}

pn_tensor *pni_recurrent_cut(pn_context *c, pn_tensor *t, int64_t start, int ndim, const int64_t *shape) {
  return pn_reshape(c, pn_slice(c, t, 0, start, pni_count(ndim, shape), 1), ndim, shape);
}

static pn_tensor *rows(pn_context *c, pn_tensor *t) {
  if (!t) return NULL;
  return pn_reshape(c, t, 2, (int64_t[]){t->shape[0] * t->shape[1], t->shape[2]});
}

pn_tensor *pni_recurrent_weight(pn_context *c, pn_tensor *dgh, pn_tensor *before) {
  return pn_matmul(c, pn_transpose(c, rows(c, dgh), 0, 1), rows(c, before));
}

pn_tensor *pni_recurrent_project(pn_context *c, pn_tensor *h, pn_tensor *w, pn_tensor *b) {
  pn_tensor *turned = pn_transpose(c, w, 0, 1);
  return b ? pn_linear(c, h, turned, b) : pn_matmul(c, h, turned);
}

/* The weight packed for all steps, which share it; NULL if it stays as it is, or with the reason in c. The adjoint
 * multiplies by it turned. */
static void *pack(pn_context *c, const pni_recurrence *j, int gates, int dtype, int64_t *size) {
  int64_t n = j->dgi ? j->hidden : gates * j->hidden, k = j->dgi ? gates * j->hidden : j->hidden;
  *size = j->steps > 1 ? pni_gemm_pack_size(n, k) : 0;
  void *packed = *size ? pni_alloc_array(c, *size, pn_dtype_size((pn_dtype)dtype)) : NULL;
  if (packed) pni_gemm_pack(dtype == PN_FLOAT32, n, k, j->w, packed);
  return packed;
}

pn_status pni_recurrent_run(pn_context *c, pni_recurrence *j, int gates, int dtype, pni_shard body) {
  enum { WORK = 4000000, ROWS = 16 };
  int64_t room = pni_recurrent_room(j->batch, j->hidden), weights = pni_times(gates, pni_times(j->hidden, j->hidden));
  int64_t grain = WORK / pni_plus(pni_times(j->steps, weights), 1);
  size_t size = pn_dtype_size((pn_dtype)dtype);
  if (j->batch == 0) return PN_OK;
  j->context = c;
  int64_t packed;
  j->packed = pack(c, j, gates, dtype, &packed);
  if (!pni_failed(c)) j->room = pni_alloc_array(c, room, size);
  if (!pni_failed(c)) pni_parallel(c, j->batch, grain < ROWS ? ROWS : grain, body, j);
  pni_free(c, j->room);
  pni_free(c, (void *)(uintptr_t)j->packed);
  return c->status;
}
