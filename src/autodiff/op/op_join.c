/*
** op_join.c: building tensors from parts, and the triangles and diagonals of matrices.
*/
#include <string.h>
#include "../../base/span.h"
#include "op.h"

/* ---- concatenate: attr = axis ---- */

static pn_status infer_concatenate(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *first = call->in[0];
  int64_t axis = call->attr->i[0];
  *out = pni_spec_of(first);
  for (int k = 1; k < call->nin; k++) {
    const pn_tensor *t = call->in[k];
    if (t->dtype != first->dtype)
      return pni_fail(c, PN_DTYPE, "concatenate: tensors must have one dtype, got %s and %s (convert with :to)",
                      pn_dtype_name((pn_dtype)first->dtype), pn_dtype_name((pn_dtype)t->dtype));
    bool fits = t->ndim == first->ndim;
    for (int i = 0; fits && i < t->ndim; i++) fits = i == axis || t->shape[i] == first->shape[i];
    if (!fits) {
      char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
      return pni_fail(c, PN_SHAPE, "concatenate: shapes must agree outside axis %d, got %s and %s", (int)axis + 1,
                      pni_shape_text(first->ndim, first->shape, a), pni_shape_text(t->ndim, t->shape, b));
    }
    out->shape[axis] += t->shape[axis];
  }
  return PN_OK;
}

static pn_status eval_concatenate(pn_context *c, const pni_call *call, pn_tensor *out) {
  int64_t axis = call->attr->i[0], at = 0;
  pn_tensor *window = pni_tensor_alias(c, out);
  if (!window) return c->status;
  for (int k = 0; k < call->nin && !pni_failed(c); k++) {
    const pn_tensor *t = call->in[k];
    window->shape[axis] = t->shape[axis];
    window->offset = out->offset + at * window->stride[axis];
    window->numel = t->numel;
    pni_copy(c, window, t);
    at += t->shape[axis];
  }
  pn_tensor_unref(window);
  return c->status;
}

/* Inputs that lie there as they come to lie in the result. */
static bool prepare_concatenate(const pni_call *call, pn_tensor *out, pni_prepared *p) {
  if (pni_count((int)call->attr->i[0], out->shape) != 1) return false;
  for (int k = 0; k < call->nin; k++)
    if (!pni_is_contiguous(call->in[k])) return false;
  p->plain.call = *call;
  p->plain.out = out;
  return true;
}

static pn_status run_concatenate(pn_context *c, const pni_prepared *p) {
  const pni_call *call = &p->plain.call;
  size_t size = pni_itemsize(p->plain.out);
  char *at = pni_data(p->plain.out);
  for (int k = 0; k < call->nin; k++) {
    size_t bytes = (size_t)call->in[k]->numel * size;
    memcpy(at, pni_data(call->in[k]), bytes);
    at += bytes;
  }
  return c->status;
}

static pn_tensor *vjp_concatenate(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  int axis = (int)y->attr->i[0];
  int64_t at = 0;
  for (int i = 0; i < k; i++) at += pni_in(y, i)->shape[axis];
  return pn_slice(c, g, axis, at, pni_in(y, k)->shape[axis], 1);
}

pn_tensor *pn_concatenate(pn_context *c, int n, pn_tensor *const *x, int axis) {
  if (n < 1) {
    pni_fail(c, PN_DOMAIN, "concatenate: list must hold at least one tensor");
    return NULL;
  }
  if (!PNI_GIVEN(c, "concatenate", x) || !PNI_GIVEN(c, "concatenate", x[0])) return NULL;
  if ((axis = pni_axis(c, "concatenate", axis, x[0]->ndim)) < 0) return NULL;
  return pni_apply(c, &pni_op_concatenate, n, x, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_concatenate = {.name = "concatenate",
                                   .args = "list:T axis:a=1",
                                   .doc = "tensors joined along an existing axis",
                                   .flags = PNI_OP_ANY_DTYPE | PNI_OP_AXIS | PNI_OP_JOINS,
                                   .infer = infer_concatenate,
                                   .eval = eval_concatenate,
                                   .prepare = prepare_concatenate,
                                   .run = run_concatenate,
                                   .vjp = vjp_concatenate};

pn_tensor *pn_stack(pn_context *c, int n, pn_tensor *const *x, int axis) {
  if (n < 1) {
    pni_fail(c, PN_DOMAIN, "stack: list must hold at least one tensor");
    return NULL;
  }
  if (!PNI_GIVEN(c, "stack", x) || !PNI_GIVEN(c, "stack", x[0])) return NULL;
  if ((axis = pni_axis(c, "stack", axis, x[0]->ndim + 1)) < 0) return NULL;
  pn_tensor **part = pni_alloc_array(c, n, sizeof *part);
  if (!part) return NULL;
  for (int k = 0; k < n; k++) part[k] = pn_unsqueeze(c, x[k], axis);
  pn_tensor *y = pn_concatenate(c, n, part, axis);
  pni_free(c, part);
  return y;
}

/* ---- pad: attr = axis, before, after; r[0] the value ---- */

static pn_status infer_pad(pn_context *c, const pni_call *call, pni_spec *out) {
  const int64_t *i = call->attr->i;
  *out = pni_spec_of(call->in[0]);
  if (i[1] < 0 || i[2] < 0)
    return pni_fail(c, PN_DOMAIN, "pad: before and after must not be negative, got %lld and %lld", (long long)i[1],
                    (long long)i[2]);
  int64_t *size = &out->shape[i[0]];
  if (__builtin_add_overflow(*size, i[1], size) || __builtin_add_overflow(*size, i[2], size))
    return pni_fail(c, PN_NOMEM, "pad: %lld and %lld elements are too many", (long long)i[1], (long long)i[2]);
  return PN_OK;
}

static pn_status eval_pad(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  const pn_tensor *x = call->in[0];
  pn_tensor *window = pni_tensor_alias(c, out), *value = pn_scalar(c, (pn_dtype)out->dtype, call->attr->r[0]);
  if (window && value && pni_copy(c, out, value) == PN_OK) {
    window->shape[i[0]] = x->shape[i[0]];
    window->offset = out->offset + i[1] * window->stride[i[0]];
    window->numel = x->numel;
    pni_copy(c, window, x);
  }
  pn_tensor_unref(window);
  return c->status;
}

static pn_tensor *vjp_pad(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  const int64_t *i = y->attr->i;
  return pn_slice(c, g, (int)i[0], i[1], pni_in(y, 0)->shape[i[0]], 1);
}

pn_tensor *pn_pad(pn_context *c, pn_tensor *x, int axis, int64_t before, int64_t after, double value) {
  if (!PNI_GIVEN(c, "pad", x) || (axis = pni_axis(c, "pad", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_pad, x, &(pni_attr){.ni = 3, .r = {value}, .i = {axis, before, after}});
}

const pni_op pni_op_pad = {.name = "pad",
                           .args = "x:t axis:a before:i after:i value:n=0",
                           .doc = "elements of one value added before and after along an axis",
                           .flags = PNI_OP_ANY_DTYPE | PNI_OP_AXIS,
                           .infer = infer_pad,
                           .eval = eval_pad,
                           .vjp = vjp_pad};

/* ---- triangles and diagonals of the last two axes ---- */

static pn_status infer_matrix(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  if (out->ndim < 2)
    return pni_fail(c, PN_SHAPE, "%s: tensor must have at least 2 axes, got %d", call->op->name, out->ndim);
  return PN_OK;
}

static pn_status eval_triangle(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (pni_copy(c, out, call->in[0])) return c->status;
  bool lower = call->op == &pni_op_tril;
  int64_t n = out->shape[out->ndim - 2], m = out->shape[out->ndim - 1], k = call->attr->i[0];
  size_t size = pni_itemsize(out);
  char *row = pni_data(out);
  pni_watch w = {.c = c};
  for (int64_t r = 0; out->numel && r < out->numel / m; r++, row += (size_t)m * size) {
    if (pni_watch_check(&w, 8)) return c->status;
    int64_t diagonal = r % n + k;
    int64_t from = lower ? diagonal + 1 : 0, to = lower ? m : diagonal;
    from = from < 0 ? 0 : from;
    to = to > m ? m : to;
    if (to > from && pni_clear(c, row + (size_t)from * size, (size_t)(to - from) * size)) return c->status;
    w.steps += to > from ? (to - from) / 8 : 0;
  }
  return PN_OK;
}

static pn_tensor *vjp_tril(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)k, pn_tril(c, g, y->attr->i[0]);
}
static pn_tensor *vjp_triu(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)k, pn_triu(c, g, y->attr->i[0]);
}

#define TRIANGLE(id, text)                                                                                             \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, int64_t k) {                                                         \
    return pni_apply1(c, &pni_op_##id, x, &(pni_attr){.ni = 1, .i = {k}});                                             \
  }                                                                                                                    \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t k:i=0",                                                                     \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ANY_DTYPE,                                                               \
                              .infer = infer_matrix,                                                                   \
                              .eval = eval_triangle,                                                                   \
                              .vjp = vjp_##id};
TRIANGLE(tril, "zero above diagonal k of the last two axes")
TRIANGLE(triu, "zero below diagonal k of the last two axes")

/* Where diagonal k of the last two axes begins, and how long it is. */
typedef struct {
  int64_t row, column, size;
} diagonal;

static diagonal diagonal_of(const pni_attr *attr, int64_t n, int64_t m) {
  int64_t k = attr && attr->ni ? attr->i[0] : 0;
  k = k > m ? m : k < -n ? -n : k;
  diagonal d = {.row = k < 0 ? -k : 0, .column = k > 0 ? k : 0};
  d.size = n - d.row < m - d.column ? n - d.row : m - d.column;
  return d;
}

static pn_status infer_diagonal(pn_context *c, const pni_call *call, pni_spec *out) {
  if (infer_matrix(c, call, out)) return c->status;
  int64_t n = out->shape[out->ndim - 2], m = out->shape[out->ndim - 1];
  out->shape[--out->ndim - 1] = diagonal_of(call->attr, n, m).size;
  return PN_OK;
}

static bool view_diagonal(const pni_call *call, pn_tensor *out) {
  const pn_tensor *x = call->in[0];
  int64_t down = x->stride[x->ndim - 2], right = x->stride[x->ndim - 1];
  diagonal d = diagonal_of(call->attr, x->shape[x->ndim - 2], x->shape[x->ndim - 1]);
  out->stride[out->ndim - 1] = down + right;
  if (d.size > 0) out->offset += d.row * down + d.column * right;
  return true;
}

/* Zeros after the end of an axis, or what is beyond its size cut off. */
static pn_tensor *sized(pn_context *c, pn_tensor *t, int axis, int64_t size) {
  if (!t) return NULL;
  int64_t has = t->shape[t->ndim + axis];
  if (has == size) return t;
  return has < size ? pn_pad(c, t, axis, 0, size - has, 0) : pn_slice(c, t, axis, 0, size, 1);
}

static pn_tensor *vjp_diagonal(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  const pn_tensor *x = pni_in(y, 0);
  int64_t n = x->shape[x->ndim - 2], m = x->shape[x->ndim - 1];
  diagonal d = diagonal_of(y->attr, n, m);
  pn_tensor *full = pn_diag_embed_at(c, g, d.column - d.row);
  return sized(c, sized(c, full, -2, n), -1, m);
}

pn_tensor *pn_diagonal(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_diagonal, x, NULL); }
pn_tensor *pn_diagonal_at(pn_context *c, pn_tensor *x, int64_t k) {
  return pni_apply1(c, &pni_op_diagonal, x, &(pni_attr){.ni = 1, .i = {k}});
}

const pni_op pni_op_diagonal = {
    .name = "diagonal",
    .args = "x:t k:i=0",
    .doc = "diagonal k of the last two axes, above the main one for k > 0: [..., n, m] -> [..., d], min(n, m) of the "
           "main one; a view",
    .flags = PNI_OP_ANY_DTYPE,
    .infer = infer_diagonal,
    .view = view_diagonal,
    .vjp = vjp_diagonal};

static int64_t offset_of(const pni_attr *attr) { return attr && attr->ni ? attr->i[0] : 0; }

static pn_status infer_diag_embed(pn_context *c, const pni_call *call, pni_spec *out) {
  int64_t k = offset_of(call->attr), most = (int64_t)1 << 44;
  *out = pni_spec_of(call->in[0]);
  if (out->ndim < 1 || out->ndim >= PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "diag_embed: tensor must have 1 to %d axes, got %d", PN_MAX_DIMS - 1, out->ndim);
  if (k > most || k < -most) return pni_fail(c, PN_NOMEM, "diag_embed: k is too large, got %lld", (long long)k);
  out->shape[out->ndim - 1] += k < 0 ? -k : k;
  out->shape[out->ndim] = out->shape[out->ndim - 1];
  out->ndim++;
  return PN_OK;
}

static pn_status eval_diag_embed(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  if (pni_clear(c, pni_data(out), (size_t)out->numel * pni_itemsize(out))) return c->status;
  if (call->in[0]->numel == 0) return PN_OK;
  pn_tensor *window = pni_tensor_alias(c, out);
  if (!window) return c->status;
  int last = out->ndim - 1;
  int64_t k = offset_of(call->attr), size = out->shape[last];
  window->ndim = last;
  window->shape[last - 1] = call->in[0]->shape[last - 1];
  window->stride[last - 1] = size + 1;
  window->offset += k < 0 ? -k * size : k;
  window->numel = call->in[0]->numel;
  pni_copy(c, window, call->in[0]);
  pn_tensor_unref(window);
  return c->status;
}

static pn_tensor *vjp_diag_embed(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_diagonal_at(c, g, offset_of(y->attr));
}

pn_tensor *pn_diag_embed(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_diag_embed, x, NULL); }
pn_tensor *pn_diag_embed_at(pn_context *c, pn_tensor *x, int64_t k) {
  return pni_apply1(c, &pni_op_diag_embed, x, &(pni_attr){.ni = 1, .i = {k}});
}

const pni_op pni_op_diag_embed = {.name = "diag_embed",
                                  .args = "x:t k:i=0",
                                  .doc = "[..., n] -> [..., n + |k|, n + |k|] with x on diagonal k",
                                  .flags = PNI_OP_ANY_DTYPE,
                                  .infer = infer_diag_embed,
                                  .eval = eval_diag_embed,
                                  .vjp = vjp_diag_embed};
